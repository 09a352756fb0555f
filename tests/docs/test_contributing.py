"""The lines that CONTRIBUTING.md shows are all that a new metric needs."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import processes

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "CONTRIBUTING.md").read_text()

CHECK_METRIC = """
import tailmetrics, torch
from tailmetrics import AllFoundAtK, LabelBuckets, RecallAtK, TopKCollection
from tailmetrics.metrics import REGISTRY

assert REGISTRY["AllFoundAtK"] is AllFoundAtK
assert "AnyFoundAtK" in REGISTRY
shown = torch.tensor([[0, 1, 2], [3, 0, 1], [2, 1, 0]])
target = torch.tensor([[0, 1], [3, 1], [-1, -1]])

overall = AllFoundAtK(k=[2, 3])  # rows: both at 2; 3 at 2 and both at 3; nothing to find
overall.update(shown, target)
assert overall.compute().tolist() == [1 / 3, 2 / 3]

halves = LabelBuckets.from_assignment([0, 0, 1, 1], ["head", "tail"])
by_bucket = AllFoundAtK(k=1, buckets=halves)  # head: 0 1 and 0 1 of which 0 1 and 1; tail: 3 2 of which 3
by_bucket.update(shown, target)
assert by_bucket.compute().tolist() == [0 / 2, 1 / 1]

seen = AllFoundAtK(k=2, buckets=halves, scope="global")  # head: 0 1 and 0 of which 0 1 and 1; tail: 3 of which 3
collection = TopKCollection([AllFoundAtK(k=2), seen, RecallAtK(k=2)])
collection.update(shown[:2], target[:2])
collection.update(shown[2:], target[2:])
assert {key: float(value) for key, value in collection.compute().items()} == {
    "all_found@2": 1 / 3,
    "global_all_found@2/head": 1 / 2,
    "global_all_found@2/tail": 1 / 1,
    "recall@2": (1 + 1 / 2 + 0) / 3,
}
assert all(not state.is_floating_point() for state in overall.metric_state.values())
result = tailmetrics.__file__
"""
CHECK_EXAMPLES = """
import doctest, importlib
modules = [importlib.import_module(name) for name in {names}]
result = [module.__file__ for module in modules if doctest.testmod(module).failed == 0]
"""


LINES = dict(
    re.findall(r"`(src/[\w/]+\.py)`.*:\n\n```py\n([^`]+)^```$", GUIDE, re.MULTILINE)
)
"""The lines that the guide shows, by the file to which they are added."""


def write_lines(folder: Path, lines: dict[str, str]) -> None:
    """Add the lines where the guide says: code at the end of its file, the name of its
    class to ``__all__``.
    """
    for name, text in lines.items():
        path, match = folder / name, re.search(r"class (\w+)\(", text)
        assert match is not None
        old = path.read_text().replace("__all__ = [", f'__all__ = ["{match[1]}", ')
        path.write_text(f"{old}\n\n{text}")


def ruff(folder: Path, *options: str) -> None:
    """Run ruff on the files of the guide, which must succeed."""
    check = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--no-cache",
        "--config",
        str(ROOT / "pyproject.toml"),
        *options,
    ]
    process = subprocess.run(
        [*check, *LINES], cwd=folder, text=True, capture_output=True
    )
    assert process.returncode == 0, process.stdout + process.stderr


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the package with the metric of the guide and, before it, the
    same under another name.

    The second use of the guide then works like the first.
    """
    folder = tmp_path_factory.mktemp("contributed")
    shutil.copytree(
        ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__")
    )
    first_lines = {
        name: text.replace("All", "Any").replace("all_found", "any_found")
        for name, text in LINES.items()
    }
    for lines in (first_lines, LINES):
        write_lines(folder, lines)
        ruff(folder, "--fix")
    return folder


def test_the_metric_of_the_guide_takes_at_most_25_lines() -> None:
    """The metric of the guide takes at most 25 lines, with blank lines and
    docstrings.
    """
    assert "class AllFoundAtK(" in "".join(LINES.values())
    assert 0 < sum(len(text.splitlines()) for text in LINES.values()) <= 25


@pytest.mark.slow
def test_the_metric_of_the_guide_works_by_bucket_and_in_a_collection(
    package: Path,
) -> None:
    """The metric of the guide gives the values that are counted by hand, overall, by
    bucket and in a collection, and its states are whole numbers.
    """
    assert processes.run_in_process(CHECK_METRIC, str(package / "src")).startswith(
        str(package)
    )


def test_the_metric_of_the_guide_passes_doctest_and_ruff(package: Path) -> None:
    """The example of the metric of the guide is correct, and ruff finds nothing in its
    files.
    """
    names = [
        ".".join(Path(name).relative_to("src").with_suffix("").parts) for name in LINES
    ]
    paths = [str(package / name) for name in LINES]
    assert (
        processes.run_in_process(
            CHECK_EXAMPLES.format(names=names), str(package / "src")
        )
        == paths
    )
    ruff(package)


def test_the_guide_names_the_main_targets_of_the_makefile() -> None:
    """The guide names the commands `make test`, `lint`, `types`, `docs` and `wheel`,
    and the Makefile has these targets.
    """
    targets = set(
        re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    )
    commands = {
        word for line in re.findall(r"\bmake ([a-z ]+)", GUIDE) for word in line.split()
    }
    assert {"test", "lint", "types", "docs", "wheel"} <= commands & targets
