"""README and documentation are true: their Python runs from top to bottom, and prints what they show."""

import contextlib
import re
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

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
    blocks = list(BLOCK.finditer(text))
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        if block["language"] == "python":
            adjacent = following is not None and not text[block.end() : following.start()].strip()
            shown = (
                following["text"] if following is not None and adjacent and following["language"] == "text" else None
            )
            yield text.count("\n", 0, block.start()) + 2, block["text"], shown


INSTALLED = re.compile(r"pip install ((?:'[^']+'|[\w.\[\],-]+)(?: +(?:'[^']+'|[\w.\[\],-]+))*)")
USUAL = "tailmetrics[all]"
"""What README and the first page install, where a page says nothing else."""


def requirements_of(page: str) -> frozenset[str]:
    """Return what a page installs, as pip takes it."""
    text = re.sub(r"pip install .*--index-url.*", "", (ROOT / page).read_text())  # another build of a package
    requirements = set()
    for line in INSTALLED.findall(text):
        for word in line.split():
            requirements.add(word.strip("'").replace(".[", "tailmetrics["))
    return frozenset(requirements or {USUAL})


def distributions_for(requirements: Iterable[str]) -> set[str]:
    """Return the distributions that pip installs for requirements, as far as they are installed here."""
    waiting, seen = list(requirements), set[str]()
    while waiting:
        requirement = Requirement(waiting.pop())
        key = f"{canonicalize_name(requirement.name)}[{','.join(sorted(requirement.extras))}]"
        if key in seen:
            continue
        seen.add(key)
        environments = [{"extra": extra} for extra in ("", *requirement.extras)]
        with contextlib.suppress(metadata.PackageNotFoundError):
            for need in map(Requirement, metadata.requires(requirement.name) or ()):
                if need.marker is None or any(map(need.marker.evaluate, environments)):
                    waiting.append(str(need))
    return {key.partition("[")[0] for key in seen}


def modules_beyond(distributions: set[str]) -> set[str]:
    """Return the modules that are installed here, but not by these distributions."""
    modules = set()
    for module, homes in metadata.packages_distributions().items():
        if module != "examples" and not {canonicalize_name(home) for home in homes} & distributions:
            modules.add(module)
    return modules


RUN_PAGES = """
import contextlib, io, os, sys, traceback, warnings
from importlib import metadata
from importlib.machinery import PathFinder

find_distribution = metadata.Distribution.from_name.__func__

def from_name(cls, name):
    if name.lower().replace("_", "-").replace(".", "-") not in {distributions!r}:
        raise metadata.PackageNotFoundError(name)
    return find_distribution(cls, name)

class Installed(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] in {lacking!r}:
            return None
        return PathFinder.find_spec(name, path, target)

metadata.Distribution.from_name = classmethod(from_name)
sys.meta_path[:] = [Installed if finder is PathFinder else finder for finder in sys.meta_path]
for name in [name for name in sys.modules if name.partition(".")[0] in {lacking!r}]:
    del sys.modules[name]
for name in {preloaded!r}:
    with contextlib.suppress(ImportError):  # loaded here, and not in the process of each page
        __import__(name)
if "matplotlib.figure" in sys.modules:
    sys.modules["matplotlib.figure"].Figure.draw = lambda *_: None  # pictures stay blank

def run_page(page, blocks):
    names = dict(__name__="__main__")
    for line, code, expected in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\\n" * (line - 1) + code, page, "exec"), names)
        if expected is not None and printed.getvalue().strip() != expected.strip():
            raise AssertionError(f"{{page}}:{{line}} prints\\n{{printed.getvalue()}}")

result = dict()
for page, (folder, blocks) in {pages!r}.items():
    child = os.fork()
    if not child:
        os.chdir(folder)
        warnings.simplefilter("ignore")  # Lightning comments on its own settings; ours are errors elsewhere
        status = 0
        try:
            run_page(page, blocks)
        except BaseException:
            traceback.print_exc(file=open("error", "w"))
            status = 1
        os._exit(status)
    if os.waitpid(child, 0)[1]:
        result[page] = open(os.path.join(folder, "error")).read()
"""
"""Runs each page in a process of its own, and tells what was wrong, by page."""
PRELOADED = [
    *("tailmetrics.metrics", "tailmetrics.evaluation", "tailmetrics.lightning", "tailmetrics.cli.evaluate"),
    *("matplotlib.figure", "pandas"),
]


def requirement_sets() -> list[frozenset[str]]:
    """Return what the pages install, each set once."""
    return sorted({requirements_of(page) for page in pages()}, key=sorted)


@pytest.mark.slow
@pytest.mark.parametrize("requirements", requirement_sets(), ids=lambda names: " ".join(sorted(names)))
def test_every_page_prints_what_it_shows_with_what_it_installs(requirements: frozenset[str], tmp_path: Path) -> None:
    """State carries over within a page; a text block right behind a Python block is what that block prints.

    Only the packages exist that pip installs for the page, or else for README.
    """
    distributions = distributions_for(requirements)
    listings = {}
    for page in pages():
        if requirements_of(page) == requirements:
            folder = tmp_path / page.replace("/", "-")
            folder.mkdir()
            listings[page] = (str(folder), list(blocks((ROOT / page).read_text())))

    code = RUN_PAGES.format(
        distributions=distributions, lacking=modules_beyond(distributions), pages=listings, preloaded=PRELOADED
    )
    assert processes.run_in_process(code, str(ROOT / "src")) == {}


def test_a_wrong_output_and_its_place_are_found() -> None:
    """The reader of pages sees line number, code and output, and takes no distant block for one."""
    page = "# T\n\n```python\nprint(1)\n```\n\n```text\n2\n```\n\n```python\nprint(3)\n```\n\nSo.\n\n```text\n4\n```\n"
    assert list(blocks(page)) == [(4, "print(1)\n", "2\n"), (12, "print(3)\n", None)]


@pytest.mark.slow
def test_the_distributed_page_prints_the_same_on_two_processes(tmp_path: Path) -> None:
    """Its first block is a script for torchrun, as it says; here two processes have the environment that torchrun gives."""
    (_, script, shown), *_ = blocks((ROOT / "docs" / "distributed.md").read_text())
    assert "".join(processes.printed_by_ranks(script, tmp_path)) == shown
