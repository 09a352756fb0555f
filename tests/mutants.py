"""How many of a sample of small mistakes do the tests see? ``make mutants`` prints it; ``N=60 SEED=1`` choose the sample.

A mutant is the package with one node of one file changed: another comparison, another sign, a number one larger, a condition
turned around. It survives if every test passes.
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

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "tailmetrics"
WHERE = ("ranking", "metrics", "evaluation", "significance", "buckets.py", "frequency.py", "collection")
TESTS = (
    "golden",
    "test_metrics_by_oracle.py",
    "contract/test_faults.py",
    "test_buckets.py",
    "test_ties.py",
    "test_references.py",
)
TESTS += ("ranking", "exactness", "contract", "evaluation", "parity", "device", "report/test_plot.py")
OF_SIGNIFICANCE = ("significance", "evaluation")
PAIRS = [
    (ast.Lt, ast.LtE),
    (ast.Gt, ast.GtE),
    (ast.Eq, ast.NotEq),
    (ast.Add, ast.Sub),
    (ast.Mult, ast.Div),
    (ast.And, ast.Or),
]
SWAPS: dict[type[ast.AST], type[ast.AST]] = {ast.FloorDiv: ast.Mult, ast.BitAnd: ast.BitOr, ast.Is: ast.IsNot}
SWAPS |= {one: other for pair in PAIRS for one, other in (pair, pair[::-1])}


def parsed(path: Path) -> ast.Module:
    """Return the tree of a file, each operator a node of its own: ``ast.parse`` uses one for all places of a sign."""
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
    """Return the nodes that can be changed; not those of messages, annotations or docstrings."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        parts = [getattr(node, name, None) for name in ("annotation", "returns")]
        if isinstance(node, (ast.JoinedStr, ast.Raise, ast.Assert)):
            parts.append(node)
        skipped |= {id(inner) for part in parts if part is not None for inner in ast.walk(part)}
    return [node for node in ast.walk(tree) if id(node) not in skipped and _changed(node) is not None]


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
        return _changed(node) or node if node is self.chosen else super().generic_visit(node)

    visit = generic_visit


def survives(path: Path, text: str) -> bool:
    """Whether every test passes on the package with another text of one file."""
    with TemporaryDirectory() as folder:
        copy = Path(folder, "src", "tailmetrics")
        shutil.copytree(SOURCE, copy)
        Path(folder, "configs").symlink_to(ROOT / "configs")  # presets stand beside src
        Path(copy, path.relative_to(SOURCE)).write_text(text)
        command = [sys.executable, "-m", "pytest", "-xq", "-p", "no:cacheprovider", "-W", "ignore", "-m", "not slow"]
        environment = {**os.environ, "PYTHONPATH": str(copy.parent), "PYTHONDONTWRITEBYTECODE": "1"}
        read = OF_SIGNIFICANCE if "significance" in path.parts else TESTS
        tests = [str(ROOT / "tests" / name) for name in read]
        try:
            run = subprocess.run(command + tests, cwd=ROOT, env=environment, capture_output=True, timeout=1800)
        except subprocess.TimeoutExpired:
            return False
        return run.returncode == 0


def main() -> None:
    """Make mutants, test each, and print which survive and how many die."""
    chance, count = random.Random(int(os.environ.get("SEED", "0"))), int(os.environ.get("N", "30"))
    files = [SOURCE / place for place in WHERE if place.endswith(".py")]
    files += [path for place in WHERE for path in sorted((SOURCE / place).rglob("*.py"))]
    if not survives(files[0], ast.unparse(parsed(files[0]))):
        raise SystemExit("The tests fail without a mistake: repair that first.")
    nodes = [(path, place) for path in files for place in range(len(candidates(parsed(path))))]
    survived = 0
    for path, place in chance.sample(nodes, count):
        tree = parsed(path)
        chosen = candidates(tree)[place]
        what = ast.unparse(chosen) or type(chosen).__name__
        lives = survives(path, ast.unparse(ast.fix_missing_locations(_Swap(chosen).visit(tree))))
        survived += lives
        line = f":{chosen.lineno}" if hasattr(chosen, "lineno") else ""
        print(f"{'SURVIVED' if lives else 'died    '} {path.relative_to(SOURCE)}{line}: {what}", flush=True)
    print(f"{count - survived} of {count} mutants died.")


if __name__ == "__main__":
    main()
