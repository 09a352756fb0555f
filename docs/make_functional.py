"""Write the list of formulas, in the package and in the reference.

Run `python -m docs.make_functional` from the root.

A formula is a public function in a file of metrics. It is imported by name in
``tailmetrics/functional.py``, so that editors and mypy know its signature, and has an
entry in ``docs/reference/functional.md``.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
METRICS = ROOT / "src" / "tailmetrics" / "metrics"
MODULE = ROOT / "src" / "tailmetrics" / "functional.py"
PAGE = ROOT / "docs" / "reference" / "functional.md"

HEADING = '''\
"""The formulas of the metrics, without state.

They give values per row of a :class:`tailmetrics.Ranking`.
"""

# Written by `python -m docs.make_functional` from the files of metrics.
'''
ENTRY = "::: tailmetrics.functional."


def formulas() -> dict[str, list[str]]:
    """Return the public functions of each file of metrics that has any, by its name."""
    functions = {
        path.stem: sorted(functions_in(path))
        for path in sorted(METRICS.glob("[a-z]*.py"))
    }
    return {file: names for file, names in functions.items() if names}


def functions_in(path: Path) -> Iterator[str]:
    """Yield the public functions that are written down in a file."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield node.name


def module() -> str:
    """Return the text of ``tailmetrics/functional.py``."""
    lines = []
    for file, functions in formulas().items():
        lines.append(f"from tailmetrics.metrics.{file} import (\n")
        lines += [f"    {name} as {name},\n" for name in functions]
        lines.append(")\n")
    return HEADING + "\n" + "".join(lines)


def names() -> list[str]:
    """Return the formulas of all files in alphabetical order."""
    return sorted(name for functions in formulas().values() for name in functions)


def page() -> str:
    """Return the text of the page, with an entry for each formula."""
    above = PAGE.read_text(encoding="utf-8").partition(ENTRY)[0]
    return above + "\n\n".join(ENTRY + name for name in names()) + "\n"


def main() -> None:
    """Write both."""
    MODULE.write_text(module(), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
