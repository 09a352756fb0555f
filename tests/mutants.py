"""The share of small mistakes that the tests detect. ``make mutants`` prints it;
``N=60 SEED=1`` choose the sample.

A mutant is the package with one node of one file changed: another comparison, another
sign, a number one larger, a condition negated. It survives if every test that runs its
line passes. A line that runs at import is run by every test.
"""

import ast
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from coverage import CoverageData

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "tailmetrics"
PLACES = (
    "ranking",
    "metrics",
    "evaluation",
    "significance",
    "buckets.py",
    "frequency.py",
    "collection",
)
TESTS = (
    "golden",
    "test_metrics_by_oracle.py",
    "contract/test_faults.py",
    "test_buckets.py",
    "test_ties.py",
    "test_references.py",
    "test_label_tree.py",
)
TESTS += (
    "ranking",
    "exactness",
    "contract",
    "evaluation",
    "parity",
    "device",
    "report/test_plot.py",
    "report/test_comparison_page.py",
)
TESTS_OF_SIGNIFICANCE = ("significance", "evaluation")
PAIRS = [
    (ast.Lt, ast.LtE),
    (ast.Gt, ast.GtE),
    (ast.Eq, ast.NotEq),
    (ast.Add, ast.Sub),
    (ast.Mult, ast.Div),
    (ast.And, ast.Or),
]
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.FloorDiv: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.Is: ast.IsNot,
}
SWAPS |= {operator: other for pair in PAIRS for operator, other in (pair, pair[::-1])}


def parsed(path: Path) -> ast.Module:
    """Return the tree of a file, each operator a node of its own: ``ast.parse`` uses
    one for all places of a sign.
    """
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            if isinstance(value, (ast.operator, ast.boolop, ast.unaryop)):
                setattr(node, name, _own(value, node))
        if isinstance(node, ast.Compare):
            node.ops = [_own(value, node) for value in node.ops]
    return tree


def _own(sign: ast.AST, node: ast.AST) -> Any:
    own = type(sign)()
    vars(own)["lineno"] = vars(node)["lineno"]
    return own


def candidates(tree: ast.Module) -> list[ast.AST]:
    """Return the nodes that can be changed; not those of messages, annotations or
    docstrings.
    """
    skipped: set[int] = set()
    for node in ast.walk(tree):
        parts = [getattr(node, name, None) for name in ("annotation", "returns")]
        if isinstance(node, (ast.JoinedStr, ast.Raise, ast.Assert)):
            parts.append(node)
        skipped |= {
            id(inner) for part in parts if part is not None for inner in ast.walk(part)
        }
    return [
        node
        for node in ast.walk(tree)
        if id(node) not in skipped and _changed(node) is not None
    ]


def _changed(node: ast.AST) -> ast.AST | None:
    """Return what stands in place of a node, None where it stays."""
    if type(node) in SWAPS:
        return SWAPS[type(node)]()
    if isinstance(node, ast.Constant) and type(node.value) is bool:
        return ast.Constant(not node.value)
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return ast.Constant(node.value + 1)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return node.operand
    return None


class _Swap(ast.NodeTransformer):
    def __init__(self, chosen: ast.AST) -> None:
        self.chosen = chosen

    def generic_visit(self, node: ast.AST) -> ast.AST:
        return (
            _changed(node) or node
            if node is self.chosen
            else super().generic_visit(node)
        )

    visit = generic_visit


def run(
    tests: list[str], *options: str, path: Path = SOURCE, text: str = "", folder: str
) -> int:
    """Return the exit status of some tests on the package, with another text of one
    file.
    """
    copy = Path(folder, "src", "tailmetrics")
    shutil.copytree(SOURCE, copy, dirs_exist_ok=True)
    Path(folder, "configs").unlink(missing_ok=True)
    Path(folder, "configs").symlink_to(ROOT / "configs")  # presets stand beside src
    if text:
        Path(copy, path.relative_to(SOURCE)).write_text(text)
    Path(folder, "tests").write_text("\n".join(tests))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-xq",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow",
        *options,
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy.parent),
        "COVERAGE_FILE": str(Path(folder, "lines")),
    }
    try:
        return subprocess.run(
            [*command, f"@{folder}/tests"],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            timeout=1800,
        ).returncode
    except subprocess.TimeoutExpired:
        return 1


def tests_of_lines(folder: str) -> dict[tuple[str, int], list[str]]:
    """Return the tests that run each line, by file and number; raise if a test fails
    without a mistake.
    """
    tests = [
        f"tests/{name}" for name in dict.fromkeys((*TESTS, *TESTS_OF_SIGNIFICANCE))
    ]
    # all folders, unlike the measurement of coverage
    configuration = Path(folder, "coveragerc")
    configuration.write_text("[run]\nsource = tailmetrics\n")
    options = [
        "--numprocesses=2",
        f"--cov-config={configuration}",
        "--cov",
        "--cov-context=test",
        "--cov-report=",
    ]
    if run(tests, *options, folder=folder):
        raise SystemExit("The tests fail without a mistake: repair that first.")
    data = CoverageData(str(Path(folder, "lines")))
    data.read()
    tests_by_line = {}
    for file in data.measured_files():
        for line, contexts in data.contexts_by_lineno(file).items():
            # a name is FILE::TEST[CASE]|PHASE; "" is what runs at import
            names = {name.partition("|")[0].partition("[")[0] for name in contexts}
            tests_by_line[file.rpartition("tailmetrics/")[2], line] = (
                tests if "" in names else sorted(names)
            )
    return tests_by_line


def main() -> None:
    """Make mutants, test each, and print which survive and how many die."""
    chance, count = (
        random.Random(int(os.environ.get("SEED", "0"))),
        int(os.environ.get("N", "30")),
    )
    files = [SOURCE / place for place in PLACES if place.endswith(".py")]
    files += [
        path for place in PLACES for path in sorted((SOURCE / place).rglob("*.py"))
    ]
    with TemporaryDirectory() as folder:
        tests_by_line = tests_of_lines(folder)
    nodes = [
        (path, place)
        for path in files
        for place in range(len(candidates(parsed(path))))
    ]
    survived = 0
    for path, place in chance.sample(nodes, count):
        tree = parsed(path)
        chosen = candidates(tree)[place]
        description, line = (
            ast.unparse(chosen) or type(chosen).__name__,
            getattr(chosen, "lineno", 0),
        )
        text = ast.unparse(ast.fix_missing_locations(_Swap(chosen).visit(tree)))
        tests = tests_by_line.get((str(path.relative_to(SOURCE)), line), [])
        with TemporaryDirectory() as folder:
            survives = not tests or run(tests, path=path, text=text, folder=folder) == 0
        survived += survives
        reason = "no test runs it" if not tests else f"{len(tests)} tests run it"
        print(
            f"{'SURVIVED' if survives else 'died    '} {path.relative_to(SOURCE)}:{line}: {description} ({reason})",
            flush=True,
        )
    print(f"{count - survived} of {count} mutants died.")


if __name__ == "__main__":
    main()
