"""README and documentation are true: their Python runs from top to bottom, and prints what they show."""

import contextlib
import io
import re
import warnings
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import processes

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^(?P=indent)```$", re.DOTALL | re.MULTILINE
)
ELSEWHERE = {"docs/offline.md"}
"""Pages whose commands have to run between their Python: tests/cli/test_offline_document.py runs both."""


def pages() -> list[str]:
    """Return the pages that show Python, from the root."""
    paths = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    shown = [path.relative_to(ROOT).as_posix() for path in paths if "```python" in path.read_text()]
    return [page for page in shown if page not in ELSEWHERE]


def blocks(text: str) -> Iterator[tuple[int, str, str | None]]:
    """Yield line number, code and the output shown, if any, of each Python block: the text block right behind it."""
    found = list(BLOCK.finditer(text))
    for block, following in zip(found, [*found[1:], None], strict=True):
        if block["language"] == "python":
            adjacent = following is not None and not text[block.end() : following.start()].strip()
            shown = (
                following["text"] if following is not None and adjacent and following["language"] == "text" else None
            )
            yield text.count("\n", 0, block.start()) + 2, block["text"], shown


@pytest.mark.usefixtures("blank_pictures")
@pytest.mark.parametrize("page", pages())
def test_every_block_runs_and_prints_what_is_shown(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """State carries over within a page; a text block right behind a Python block is what that block prints."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for line, code, shown in blocks((ROOT / page).read_text()):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Lightning comments on its own settings; ours are errors elsewhere
            exec(compile("\n" * (line - 1) + code, ROOT / page, "exec"), names)
        if shown is not None:
            assert printed.getvalue().strip() == shown.strip(), f"{page}:{line}"


INSTALLED = re.compile(r"pip install ((?:'[^']+'|[\w.\[\],-]+)(?: +(?:'[^']+'|[\w.\[\],-]+))*)")
USUAL = "tailmetrics[all]"
"""What README and the first page install, where a page says nothing else."""


def said_by(page: str) -> frozenset[str]:
    """Return what a page installs, as pip takes it."""
    text = re.sub(r"pip install .*--index-url.*", "", (ROOT / page).read_text())  # another build of a package
    found = {word.strip("'") for words in INSTALLED.findall(text) for word in words.split()}
    return frozenset(word.replace(".[", "tailmetrics[") for word in found) or frozenset({USUAL})


def drawn_by(requirements: Iterable[str]) -> set[str]:
    """Return the distributions that pip installs for requirements, as far as they are installed here."""
    found, known = list(requirements), set[str]()
    while found:
        one = Requirement(found.pop())
        key = f"{canonicalize_name(one.name)}[{','.join(sorted(one.extras))}]"
        if key in known:
            continue
        known.add(key)
        with contextlib.suppress(metadata.PackageNotFoundError):
            needs = map(Requirement, metadata.requires(one.name) or ())
            wanted = [{"extra": extra} for extra in ("", *one.extras)]
            found += [str(need) for need in needs if not need.marker or any(map(need.marker.evaluate, wanted))]
    return {key.partition("[")[0] for key in known}


PAGES = """
import os, sys, traceback, warnings
from contextlib import suppress
from importlib import metadata
from importlib.machinery import PathFinder
whole = metadata.Distribution.from_name.__func__
def from_name(cls, name):
    if name.lower().replace("_", "-").replace(".", "-") not in {there!r}:
        raise metadata.PackageNotFoundError(name)
    return whole(cls, name)
metadata.Distribution.from_name = classmethod(from_name)
class Installed(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {lacking!r} else PathFinder.find_spec(name, path, target)
sys.meta_path[:] = [Installed if one is PathFinder else one for one in sys.meta_path]
for name in [name for name in sys.modules if name.partition(".")[0] in {lacking!r}]:
    del sys.modules[name]
for name in ("tailmetrics.metrics", "tailmetrics.evaluation", "tailmetrics.lightning", "matplotlib.figure", "pandas"):
    with suppress(ImportError):  # loaded here, and not in the process of each page
        __import__(name)
if "matplotlib.figure" in sys.modules:
    sys.modules["matplotlib.figure"].Figure.draw = lambda *_: None  # pictures stay blank
found = dict()
for page, (folder, code) in {pages!r}.items():
    child = os.fork()
    if not child:
        os.chdir(folder)
        warnings.simplefilter("ignore")
        sys.stdout = open(os.devnull, "w")
        try:
            exec(compile(code, page, "exec"), dict(__name__="__main__"))
        except BaseException:
            traceback.print_exc(file=open("error", "w"))
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        found[page] = open(os.path.join(folder, "error")).read()
"""
"""Each page in a process of its own, and what was wrong, by page."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "installed", sorted({said_by(page) for page in pages()}, key=sorted), ids=lambda names: " ".join(sorted(names))
)
def test_every_page_runs_with_what_it_says_to_install(installed: frozenset[str], tmp_path: Path) -> None:
    """In a process to which only the packages exist that pip draws in for what the page, or else README, installs."""
    there = drawn_by(installed)
    homes = metadata.packages_distributions()
    lacking = {
        module
        for module, of in homes.items()
        if not {canonicalize_name(one) for one in of} & there and module != "examples"
    }
    code = {}
    for page in (page for page in pages() if said_by(page) == installed):
        folder = tmp_path / page.replace("/", "-")
        folder.mkdir()
        code[page] = str(folder), "\n".join(text for _, text, _ in blocks((ROOT / page).read_text()))
    assert processes.found_by(PAGES.format(lacking=lacking, there=there, pages=code), str(ROOT / "src")) == {}


def test_a_wrong_output_and_its_place_are_found() -> None:
    """The reader of pages sees line number, code and output, and takes no distant block for one."""
    page = "# T\n\n```python\nprint(1)\n```\n\n```text\n2\n```\n\n```python\nprint(3)\n```\n\nSo.\n\n```text\n4\n```\n"
    assert list(blocks(page)) == [(4, "print(1)\n", "2\n"), (12, "print(3)\n", None)]


@pytest.mark.slow
def test_the_distributed_page_prints_the_same_on_two_processes(tmp_path: Path) -> None:
    """Its first block is a script for torchrun, as it says; here two processes have the environment that torchrun gives."""
    (_, script, shown), *_ = blocks((ROOT / "docs" / "distributed.md").read_text())
    assert "".join(processes.printed_by_ranks(script, tmp_path)) == shown
