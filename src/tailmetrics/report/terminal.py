"""A report in the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions
from rich.table import Table as RichTable
from rich.text import Text

from tailmetrics.report.tables import Table, tables

if TYPE_CHECKING:
    from tailmetrics.report.report import Report

OF_LABELS = {
    "missed": ("label", "name", "bucket", "count", "support", "missed"),
    "wrong": ("label", "name", "bucket", "count", "predicted", "wrong"),
}
"""What a terminal shows of labels; files and pages have every column."""
FEWEST = 12
"""Letters of a label's name that are shown however narrow a terminal is."""
EDGES = 3
"""Columns of a terminal that a cell takes beside its text."""


def print_report(report: Report, console: Console | None = None) -> None:
    """Print the overall values, the values from head to tail, and what to know before believing them."""
    (console or Console()).print(TerminalReport(report))


@dataclass(frozen=True)
class TerminalReport:
    """A report as rich prints it: as many metrics side by side as the terminal has room for."""

    report: Report

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RichTable | Text]:
        """Yield the parts for a terminal of this width."""
        for table in tables(self.report, brief=True):
            yield from printed(
                table, f"{self.report.title}: {table.title[0].lower()}{table.title[1:]}", options.max_width
            )
        yield from (Text(f"! {warning}", style="yellow") for warning in self.report.warnings)


def printed(table: Table, title: str, width: int) -> Iterator[RichTable | Text]:
    """Yield the title, the caption, and as many parts of a table as a terminal of this width needs."""
    yield heading(title)
    if table.caption:
        yield Text(table.caption, style="dim")
    shown = _fitted(table, width)
    for columns in _side_by_side(shown, width):
        yield _part(shown, columns)


def heading(title: str) -> Text:
    """Return a title for above a table, as wide as the terminal: rich wraps a table's own title to the table."""
    return Text(title, style="table.title")


def _side_by_side(table: Table, width: int) -> Iterator[list[int]]:
    """Yield the columns of each part of a table that fits into ``width``: the fixed ones, and some of the others."""
    if table.long:  # its texts are broken into lines
        yield list(range(len(table.header)))
        return
    widths = [max(map(len, column)) + EDGES for column in zip(table.header, *table.lines, strict=True)]
    fixed = list(range(table.fixed))
    taken = 1 + sum(widths[: table.fixed])
    group: list[int] = []
    for place in range(table.fixed, len(widths)):
        if group and taken + sum(widths[one] for one in (*group, place)) > width:
            yield [*fixed, *group]
            group = []
        group.append(place)
    if group or not table.lines:
        yield [*fixed, *group]


def _fitted(table: Table, width: int) -> Table:
    """Return a table of labels with what counts most, names cut to the room that there is; another as it is."""
    if table.name not in OF_LABELS:
        return table
    shown = [place for place, name in enumerate(table.header) if name.partition("@")[0] in OF_LABELS[table.name]]
    header = [table.header[place] for place in shown]
    lines = [[cells[place] for place in shown] for cells in table.lines]
    if "name" in header:
        at = header.index("name")
        widths = [max(map(len, column)) + EDGES for column in zip(header, *lines, strict=True)]
        room = max(FEWEST, width - 1 - sum(widths) + widths[at] - EDGES)
        lines = [[*cells[:at], _cut(cells[at], room), *cells[at + 1 :]] for cells in lines]
    return replace(table, header=header, lines=lines, fixed=min(2, len(header)))


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 1]}…"


def _part(table: Table, columns: list[int]) -> RichTable:
    part = RichTable(show_lines=table.long > 0)
    for place in columns:
        text = place < table.texts
        name = Text(table.header[place])
        part.add_column(name, justify="left" if text else "right", no_wrap=not (text and place), overflow="fold")
    for cells in table.lines:
        part.add_row(*(Text(cells[place]) for place in columns))
    return part
