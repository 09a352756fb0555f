"""Results as Markdown tables, and the places of the pages where they go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

PAGE = Path(__file__).parent / "README.md"
"""The page of all tables. docs/performance.md shows the rows that a user decides by."""


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table; all but the first column are numbers."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(
        "| " + " | ".join(str(cell) for cell in line) + " |" for line in lines
    )


def replace_table(page: Path, command: str, text: str) -> None:
    """Replace what a page has between the marks of ``command`` by ``text``."""
    start, stop = f"<!-- written by python -m {command} -->", "<!-- until here -->"
    head, behind = page.read_text().split(start)
    page.write_text(f"{head}{start}\n\n{text}\n\n{stop}{behind.split(stop, 1)[1]}")


def number(value: float | None) -> str:
    """Return a number with three digits that count."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def seconds(value: float) -> str:
    """Return a time in the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if value >= size:
            return f"{number(value / size)} {unit}"
    return f"{number(value / 1e-6)} µs"
