"""The Python code of README and documentation runs from top to bottom and prints what
the pages show.
"""

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
    r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)
TESTED_WITH_COMMANDS = {"docs/offline.md"}
"""Pages whose commands run between their Python; tests/cli/test_offline_document.py
runs both.
"""


def pages() -> list[str]:
    """Return the paths of the pages with Python code."""
    paths = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    ]
    names = [
        path.relative_to(ROOT).as_posix()
        for path in paths
        if "```python" in path.read_text()
    ]
    return [page for page in names if page not in TESTED_WITH_COMMANDS]


def blocks(text: str) -> Iterator[tuple[int, str, str | None]]:
    """Yield line number, code and output of each Python block; a text block directly
    behind it is its output.
    """
    blocks = list(BLOCK.finditer(text))
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        if block["language"] == "python":
            adjacent = (
                following is not None
                and not text[block.end() : following.start()].strip()
            )
            output = (
                following["text"]
                if following is not None
                and adjacent
                and following["language"] == "text"
                else None
            )
            yield text.count("\n", 0, block.start()) + 2, block["text"], output


INSTALLED = re.compile(
    r"pip install ((?:'[^']+'|[\w.\[\],-]+)(?: +(?:'[^']+'|[\w.\[\],-]+))*)"
)
DEFAULT = "tailmetrics[all]"
"""What README and the first page install; other pages that name nothing need the same.
"""


def requirements_of(page: str) -> frozenset[str]:
    """Return the requirements that a page installs."""
    text = re.sub(
        r"pip install .*--index-url.*", "", (ROOT / page).read_text()
    )  # such lines install another build of a package
    requirements = set()
    for line in INSTALLED.findall(text):
        for word in line.split():
            requirements.add(word.strip("'").replace(".[", "tailmetrics["))
    return frozenset(requirements or {DEFAULT})


def distributions_for(requirements: Iterable[str]) -> set[str]:
    """Return the distributions that pip installs for requirements, of those that are
    installed here.
    """
    waiting, visited = list(requirements), set[str]()
    while waiting:
        requirement = Requirement(waiting.pop())
        key = f"{canonicalize_name(requirement.name)}[{','.join(sorted(requirement.extras))}]"
        if key in visited:
            continue
        visited.add(key)
        environments = [{"extra": extra} for extra in ("", *requirement.extras)]
        with contextlib.suppress(metadata.PackageNotFoundError):
            for dependency in map(
                Requirement, metadata.requires(requirement.name) or ()
            ):
                if dependency.marker is None or any(
                    map(dependency.marker.evaluate, environments)
                ):
                    waiting.append(str(dependency))
    return {key.partition("[")[0] for key in visited}


def modules_beyond(distributions: set[str]) -> set[str]:
    """Return the modules that are installed here by other distributions."""
    modules = set()
    for module, providers in metadata.packages_distributions().items():
        if (
            module != "examples"
            and not {canonicalize_name(provider) for provider in providers}
            & distributions
        ):
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
    with contextlib.suppress(ImportError):  # loaded once, not in the process of each page
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
"""Code that runs each page in a process of its own and returns the errors by page."""
PRELOADED = [
    *(
        "tailmetrics.metrics",
        "tailmetrics.evaluation",
        "tailmetrics.lightning",
        "tailmetrics.cli.evaluate",
    ),
    *("matplotlib.figure", "pandas"),
]


def requirement_sets() -> list[frozenset[str]]:
    """Return the distinct sets of requirements of the pages."""
    return sorted({requirements_of(page) for page in pages()}, key=sorted)


@pytest.mark.slow
@pytest.mark.parametrize(
    "requirements", requirement_sets(), ids=lambda names: " ".join(sorted(names))
)
def test_every_page_prints_the_output_that_it_shows(
    requirements: frozenset[str], tmp_path: Path
) -> None:
    """The Python blocks of a page, run in order, print the text blocks directly behind
    them.

    Only the packages that the page, or else README, installs can be imported.
    """
    distributions = distributions_for(requirements)
    listings = {}
    for page in pages():
        if requirements_of(page) == requirements:
            folder = tmp_path / page.replace("/", "-")
            folder.mkdir()
            listings[page] = (str(folder), list(blocks((ROOT / page).read_text())))

    code = RUN_PAGES.format(
        distributions=distributions,
        lacking=modules_beyond(distributions),
        pages=listings,
        preloaded=PRELOADED,
    )
    assert processes.run_in_process(code, str(ROOT / "src")) == {}


def test_blocks_of_a_page_have_line_code_and_output() -> None:
    """The parser of pages returns line number, code and output of each block, and takes
    no distant text block for an output.
    """
    page = "# T\n\n```python\nprint(1)\n```\n\n```text\n2\n```\n\n```python\nprint(3)\n```\n\nSo.\n\n```text\n4\n```\n"
    assert list(blocks(page)) == [(4, "print(1)\n", "2\n"), (12, "print(3)\n", None)]


@pytest.mark.slow
def test_the_distributed_page_prints_its_output_on_two_processes(
    tmp_path: Path,
) -> None:
    """The first block of docs/distributed.md, a script for torchrun, prints the output
    that the page shows on two processes.
    """
    (_, script, output), *_ = blocks((ROOT / "docs" / "distributed.md").read_text())
    assert "".join(processes.printed_by_ranks(script, tmp_path)) == output
