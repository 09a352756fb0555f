"""A report as Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tailmetrics.report.formatting import bucket_lines, shown
from tailmetrics.report.inert import in_markdown

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
    if report.overall:
        parts.append(_table(["metric", "value"], ([key, shown(value)] for key, value in report.overall.items())))
    if report.by_bucket:
        parts.append(bucket_table(report))
    return "\n".join(parts)


def bucket_table(report: Report) -> str:
    """Return one line per bucket, head first, one column per metric."""
    return _table(["bucket", "labels", "positives", *report.by_bucket], bucket_lines(report))


def _table(header: list[str], lines: Iterable[list[str]]) -> str:
    align = ["---", *("---:" for _ in header[1:])]
    escaped = ([in_markdown(cell) for cell in cells] for cells in (header, align, *lines))
    return "".join(f"| {' | '.join(cells)} |\n" for cells in escaped)
