"""A report or a comparison in a terminal, by rich."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tailmetrics._arguments import cut
from tailmetrics._extras import names_missing_extra
from tailmetrics.report.document import Document, Section
from tailmetrics.report.formatting import counted, printable
from tailmetrics.report.shown import Shown

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text


EDGES = 3
"""The width of a cell of a terminal beyond its text, in letters."""
PAIRS = 4
"""The most pairs of runs whose verdict a terminal shows, unless it shows all.

A verdict takes two or three lines.
"""
NOTES = 5
"""The most notes that a terminal shows, each in one line, unless it is to show all."""


@names_missing_extra
def print_report(
    shown: Shown,
    console: Console | None = None,
    references: bool = False,
    printed: Iterable[str] = (),
    verbose: bool = False,
    rest: str = "",
) -> None:
    """Print the answer, headline by bucket, values over all labels, and first notes.

    A note takes one line.

    Args:
        shown: The report or comparison.
        console: Where to print.
        references: Whether to add tables with the references beside each value; all
            tables are shown then.
        printed: Notes that were printed before, which are left out.
        verbose: Whether to print all tables and all notes.
        rest: A line at the end that says where the rest is, if not all is printed.
    """
    from rich.console import Console, Group

    console = console or Console()
    document = shown.document(brief=True, references=references)
    left_out = {shown.translate(text) for text in printed}
    warnings = []
    for warning in document.warnings:
        if warning not in left_out:
            warnings.append(printable(warning))

    if document.first and not (verbose or references):
        parts = _first_look(document, console, warnings, rest)
    else:
        parts = _all_tables(document, console, warnings)
    console.print(Group(*parts), crop=False)  # a key longer than a line stays whole


def _text(text: str, style: str = "", one_line: bool = False) -> Text:
    """Return a text of a terminal.

    A text of one line is not broken where the terminal is too narrow.
    """
    from rich.text import Text

    if one_line:
        return Text(text, style=style, no_wrap=True, overflow="ignore")
    return Text(printable(text), style=style)


def _first_look(
    document: Document, console: Console, warnings: Sequence[str], rest: str
) -> list[Table | Text]:
    lines = document.verdict.splitlines()
    parts: list[Table | Text] = [_text(line, "bold") for line in lines[:PAIRS]]
    if len(lines) > PAIRS:
        parts.append(_text(f"{len(lines) - PAIRS} more pairs", "bold"))
    counts = ", ".join(document.counts)
    parts.append(_text(f"{document.title}: {counts}".removesuffix(": "), "dim"))

    for section in document.first:
        title = printable(section.title)
        caption = cut(
            f": {printable(section.caption)}", max(1, console.width - len(title))
        )
        parts.append(
            _text(f"{title}{caption}".removesuffix(": "), "table.title", one_line=True)
        )
        if section.name == "overall":
            parts.append(_in_columns(section, console.width))
        else:
            parts.append(_plain_table(section, console))

    parts += [
        _text(cut(f"! {warning}", console.width), "yellow")
        for warning in warnings[:NOTES]
    ]
    if len(warnings) > NOTES:
        parts.append(
            _text(f"! {counted(len(warnings) - NOTES, 'more note')}", "yellow")
        )
    if rest:
        parts.append(_text(rest, "dim"))
    return parts


def _plain_table(section: Section, console: Console) -> Table:
    """Return a table without lines between its cells.

    A last column without a name holds bars.
    """
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    first_name, *names, last_name = map(printable, section.header)
    table.add_column(Text(first_name), overflow="fold")
    for name in names:
        table.add_column(Text(name), justify="right", overflow="fold")
    table.add_column(
        Text(last_name), justify="right" if last_name else "left", overflow="fold"
    )

    for *cells, last in section.lines:
        text = printable(last)
        if not last_name:  # the spaces of a bar stay
            text = last
            if console.options.ascii_only:
                text = re.sub(r"[^ -~]", "#", last)
        table.add_row(*(Text(printable(cell)) for cell in cells), Text(text))
    return table


def _in_columns(section: Section, width: int) -> Text:
    """Return names and values in as many columns as the width holds.

    They are sorted from top to bottom, and no name is broken.
    """
    pairs = [(printable(cells[0]), printable(cells[1])) for cells in section.lines]
    name_width = max(len(name) for name, _ in pairs)
    value_width = max(len(value) for _, value in pairs)
    if name_width + value_width + 2 > width:
        name_width = value_width = 0
    cells = [f"{name:{name_width}}  {value:{value_width}}" for name, value in pairs]

    cell_width = max(map(len, cells)) + 2
    columns = max(1, (width + 2) // cell_width)
    height = math.ceil(len(cells) / columns)
    lines = ["  ".join(cells[line::height]).rstrip() for line in range(height)]
    return _text("\n".join(lines), one_line=True)


def _all_tables(
    document: Document, console: Console, warnings: Sequence[str]
) -> list[Table | Text]:
    parts: list[Table | Text] = []
    if document.verdict:
        parts.append(_text(document.verdict, "bold"))
    for section in document.tables:
        title = section.title
        if section.name != "comparisons":
            title = f"{document.title}: {title[0].lower()}{title[1:]}"
        parts.append(_text(title, "table.title"))
        if section.full_caption:
            parts.append(_text(section.full_caption, "dim"))

        tables = [_table(part) for part in _parts(section, console.width)]
        parts += tables or _one_below_the_other(section)
    parts += [_text(f"! {warning}", "yellow") for warning in warnings]
    return parts


def _parts(section: Section, width: int) -> list[Section]:
    """Return a table as tables that fit into the width.

    There are none if the first column and another one do not fit.

    A table of texts stays whole, because its cells are broken into lines.
    """
    if section.texts > 2:
        return [section]
    widths = section.widths(_width, _width)
    if widths[0] + max(widths[1:]) >= width:
        return []
    return section.within(width - 1, widths)


def _width(cell: str) -> int:
    return len(printable(cell)) + EDGES


def _one_below_the_other(section: Section) -> list[Text]:
    """Return the lines of a table with one cell below the other.

    Keys that are too long leave no room for a cell beside them.
    """
    texts = []
    for first, *cells in section.lines:
        lines = [printable(first)]
        for name, cell in zip(section.header[1:], cells, strict=True):
            if cell:
                lines.append(f"  {printable(f'  {name} {cell}')}")
        texts.append(_text("\n".join(lines), one_line=True))
    return texts


def _table(section: Section) -> Table:
    from rich.table import Table

    table = Table()
    for place, name in enumerate(section.header):
        table.add_column(_text(name), justify="right", no_wrap=True, overflow="fold")
        if place < section.texts:
            table.columns[place].justify = "left"
            table.columns[place].no_wrap = place == 0
    for line, cells in enumerate(section.lines):
        texts = []
        for column, cell in enumerate(cells):
            texts.append(_text(cell, "bold" if (line, column) in section.bold else ""))
        table.add_row(*texts)
    return table
