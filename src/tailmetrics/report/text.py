"""A report or a comparison as Markdown and as CSV."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from io import StringIO

from tailmetrics.report.document import CsvTable, Section
from tailmetrics.report.formatting import in_cell, in_markdown
from tailmetrics.report.shown import Shown


def markdown(shown: Shown, picture: str | None = None, references: bool = False) -> str:
    """Return a report or a comparison as Markdown.

    Args:
        shown: The report or comparison.
        picture: File name of the picture, to be shown above the tables.
        references: Whether to add a table of chance, popularity and the attainable
            value beside each value.
    """
    document = shown.document(references=references)
    parts = [f"# {in_markdown(document.title)}\n"]
    if document.verdict:
        parts.append(f"**{in_markdown(document.verdict)}**\n")
    if document.counts:
        parts.append(f"{in_markdown(', '.join(document.counts))}.\n")
    for warning in document.warnings:
        parts.append(f"> **Note:** {in_markdown(warning)}\n")
    if picture:
        drawings = "; ".join(chart.opening for chart in document.charts)
        parts.append(f"![{in_markdown(f'{document.title}: {drawings}')}]({picture})\n")
    parts += [_markdown_table(section) for section in document.tables]
    return "\n".join(parts)


def _markdown_table(section: Section) -> str:
    alignment = " --- |" * section.texts + " ---: |" * (
        len(section.header) - section.texts
    )
    lines = [f"| {' | '.join(map(in_markdown, section.header))} |", f"|{alignment}"]
    for cells in escaped_lines(section, in_markdown, "**{}**"):
        lines.append(f"| {' | '.join(cells)} |")
    table = "\n".join(lines)
    parts = [
        f"## {in_markdown(section.title)}",
        in_markdown(section.full_caption),
        table,
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def escaped_lines(
    section: Section, escape: Callable[[str], str], bold: str
) -> Iterator[list[str]]:
    """Yield the cells of each line, escaped; cells of ``section.bold`` are in bold."""
    for line, cells in enumerate(section.lines):
        escaped = []
        for column, cell in enumerate(cells):
            text = escape(cell)
            if text and (line, column) in section.bold:
                text = bold.format(text)
            escaped.append(text)
        yield escaped


def csv_text(table: CsvTable) -> str:
    """Return lines of values as CSV."""
    header, lines = table
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(in_cell, header))
    writer.writerows(map(in_cell, line) for line in lines)
    return text.getvalue()
