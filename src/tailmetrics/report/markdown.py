"""A report as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tailmetrics.report.inert import in_markdown
from tailmetrics.report.tables import Table, table_of_buckets, tables

if TYPE_CHECKING:
    from tailmetrics.report.report import Report


def markdown(report: Report, picture: str | None = None) -> str:
    """Return the report as Markdown.

    Args:
        report: The report.
        picture: File name of the plot, to be shown above the tables.
    """
    parts = [f"# {in_markdown(report.title)}\n"]
    if report.rows is not None:
        parts.append(f"{report.rows:,} rows.\n")
    parts += [f"> **Note:** {in_markdown(warning)}\n" for warning in report.warnings]
    if picture:
        parts.append(f"![{in_markdown(report.title)}, from the most frequent labels to the rarest]({picture})\n")
    return "\n".join([*parts, *map(section, tables(report))])


def bucket_table(report: Report) -> str:
    """Return one line per bucket, head first, one column per metric; the values over all labels above."""
    table = table_of_buckets(report)
    return "" if table is None else _table(table)


def section(table: Table) -> str:
    """Return a table with its title and caption."""
    caption = f"{in_markdown(table.caption)}\n\n" if table.caption else ""
    return f"## {in_markdown(table.title)}\n\n{caption}{_table(table)}"


def _table(table: Table) -> str:
    texts = range(len(table.header))
    align = ["---" if place < table.texts else "---:" for place in texts]
    return pipes([table.header, align, *table.lines])


def pipes(lines: Iterable[Sequence[str]]) -> str:
    """Return lines of cells as a table of Markdown, of which the second line says how columns are aligned."""
    escaped = ([in_markdown(cell) for cell in cells] for cells in lines)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in escaped)
