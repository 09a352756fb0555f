"""A report or a comparison as Markdown, as LaTeX, as CSV, and in the terminal."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from io import StringIO
from typing import TYPE_CHECKING

from tailmetrics._arguments import cut
from tailmetrics._extras import names_missing_extra
from tailmetrics.report.document import side_by_side
from tailmetrics.report.formatting import in_cell, in_latex, in_markdown, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from tailmetrics.report.document import CsvTable, Document, Documented, Section

EDGES = 3
"""The width of a cell of a terminal beyond its text, in letters."""


def markdown(shown: Documented, picture: str | None = None, references: bool = False) -> str:
    """Return a report or a comparison as Markdown.

    Args:
        shown: The report or comparison.
        picture: File name of the picture, to be shown above the tables.
        references: Whether to add a table of chance, popularity and the attainable value beside each value.
    """
    document = shown.document(references=references)
    parts = [f"# {in_markdown(document.title)}\n"]
    parts += [f"**{in_markdown(document.verdict)}**\n"] if document.verdict else []
    parts += [f"{in_markdown(', '.join(document.facts))}.\n"] if document.facts else []
    parts += [f"> **Note:** {in_markdown(warning)}\n" for warning in document.warnings]
    if picture:
        parts.append(f"![{in_markdown(document.title)}, from the most frequent labels to the rarest]({picture})\n")
    for section in document.tables:
        columns = range(len(section.header))
        align = "".join(f" {'---' if place < section.texts else '---:'} |" for place in columns)
        header = f"| {' | '.join(map(in_markdown, section.header))} |\n|{align}\n"
        lines = (f"| {' | '.join(cells)} |\n" for cells in _lines(section, in_markdown, "**{}**"))
        caption = f"{in_markdown(section.full_caption)}\n\n" if section.full_caption else ""
        parts.append(f"## {in_markdown(section.title)}\n\n{caption}{header}{''.join(lines)}")
    return "\n".join(parts)


def _lines(section: Section, escape: Callable[[str], str], bold: str) -> Iterator[list[str]]:
    """Yield the cells of each line, escaped; the cells of ``section.bold`` are in bold."""
    for line, cells in enumerate(section.lines):
        escaped = (escape("; ".join(cell.split("\n"))) for cell in cells)
        yield [bold.format(one) if one and (line, at) in section.bold else one for at, one in enumerate(escaped)]


def latex(shown: Documented, references: bool = False) -> str:
    r"""Return each table of a report or comparison, for ``\input`` into a paper that loads ``booktabs``."""
    document = shown.document(references=references)
    found = [r"% needs \usepackage{booktabs}" + "\n"]
    of_buckets = [one for one in document.first if one.name == "first"] if document.runs else []
    wide = [*map(_without_bars, of_buckets)]
    wide += [one for one in document.tables if not one.folded or one.name == "references"]
    for section in (part for one in wide for part in _on_a_page(one)):
        columns = "l" * section.texts + "r" * (len(section.header) - section.texts)
        lines = _lines(section, in_latex, r"\textbf{{{}}}")
        found.append(
            LATEX
            % (
                in_latex(f"{document.title}: {section.title}. {section.full_caption}".strip()),
                columns,
                " & ".join(map(in_latex, section.header)),
                "\n".join(rf"    {' & '.join(cells)} \\" for cells in lines),
            )
        )
    return "\n".join(found)


LINE = 76
"""Letters of a line of a table in a paper, in small print, with three between columns."""


def _on_a_page(section: Section) -> list[Section]:
    """Return a table as tables that fit into the lines of a page."""
    columns = zip(section.header, *section.lines, strict=True)
    return section.within(LINE, [max(map(len, cells)) + 3 for cells in columns])


def _without_bars(section: Section) -> Section:
    """Return a table of a terminal with the first letter alone of the cells that hold bars."""
    return replace(section, lines=[[*cells[:-1], cells[-1][:1].strip()] for cells in section.lines])


LATEX = r"""\begin{table}
  \centering\small
  \caption{%s}
  \begin{tabular}{%s}
    \toprule
    %s \\
    \midrule
%s
    \bottomrule
  \end{tabular}
\end{table}
"""


def csv_text(table: CsvTable) -> str:
    """Return lines of values as CSV."""
    header, lines = table
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(in_cell, header))
    writer.writerows(map(in_cell, line) for line in lines)
    return text.getvalue()


PAIRS = 4
"""The most pairs of runs whose verdict a terminal shows, unless it is to show all: each takes two or three lines."""
NOTES = 5
"""The most notes that a terminal shows, each in one line, unless it is to show all."""


@names_missing_extra
def print_report(
    shown: Documented,
    console: Console | None = None,
    references: bool = False,
    said: Iterable[str] = (),
    verbose: bool = False,
    rest: str = "",
) -> None:
    """Print the answer, the headline by bucket, the values over all labels, and the first notes in one line each.

    Args:
        shown: The report or comparison.
        console: Where to print.
        references: Whether to add tables with the references beside each value; all tables are shown then.
        said: Notes to be left out.
        verbose: Whether to print all tables and all notes.
        rest: A line at the end that says where the rest is, if not all is printed.
    """
    from rich.console import Console, Group

    console = console or Console()
    document = shown.document(brief=True, references=references)
    known = {shown.translate(text) for text in said}
    warnings = [printable(warning) for warning in document.warnings if warning not in known]
    is_brief = document.first and not (verbose or references)
    parts = _first(document, console, warnings, rest) if is_brief else _all(document, console, warnings)
    console.print(Group(*parts), crop=False)  # a key longer than a line stays whole


def _first(document: Document, console: Console, warnings: Sequence[str], rest: str) -> list[Table | Text]:
    from rich.text import Text

    lines = (document.verdict or "").splitlines()
    parts: list[Table | Text] = [Text(printable(line), style="bold") for line in lines[:PAIRS]]
    if len(lines) > PAIRS:
        parts.append(Text(f"{len(lines) - PAIRS} more pairs", style="bold"))
    facts = f": {', '.join(document.facts)}" if document.facts else ""
    parts.append(Text(printable(f"{document.title}{facts}"), style="dim"))
    for section in document.first:
        title = printable(section.title)
        said = cut(f": {printable(section.caption)}", max(1, console.width - len(title))) if section.caption else ""
        parts.append(Text(title + said, style="table.title", no_wrap=True, overflow="ignore"))
        parts.append(
            _in_columns(section, console.width) if section.name == "overall" else _plain_table(section, console)
        )
    parts += [Text(cut(f"! {one}", console.width), style="yellow") for one in warnings[:NOTES]]
    more = len(warnings) - NOTES
    parts += [Text(f"! {more} more note{'s' * (more > 1)}", style="yellow")] if more > 0 else []
    return [*parts, *([Text(printable(rest), style="dim")] if rest else [])]


def _plain_table(section: Section, console: Console) -> Table:
    """Return a table without lines between its cells; a last column without a name holds bars."""
    from rich.table import Table
    from rich.text import Text

    found = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    last = len(section.header) - 1
    for place, name in enumerate(section.header):
        is_text = place == 0 or (place == last and not name)
        found.add_column(Text(printable(name)), justify="left" if is_text else "right", overflow="fold")
    for cells in section.lines:
        bars = cells[-1:] if not section.header[-1] else ()  # its spaces stay
        if console.options.ascii_only:
            bars = [re.sub(r"[^ -~]", "#", one) for one in bars]
        found.add_row(*(Text(printable(cell)) for cell in cells[: len(cells) - len(bars)]), *map(Text, bars))
    return found


def _in_columns(section: Section, width: int) -> Text:
    """Return names and values, as many beside each other as the width holds, from top to bottom; no name is broken."""
    from rich.text import Text

    pairs = [(printable(cells[0]), printable(cells[1])) for cells in section.lines]
    wide = [max(len(pair[side]) for pair in pairs) for side in (0, 1)]
    wide = wide if sum(wide) + 2 <= width else [0, 0]
    cells = [f"{name.ljust(wide[0])}  {value.ljust(wide[1])}" for name, value in pairs]
    columns = max(1, min(len(cells), (width + 2) // (max(map(len, cells)) + 2)))
    height = -(-len(cells) // columns)
    lines = ("  ".join(cells[line::height]).rstrip() for line in range(height))
    return Text("\n".join(lines), no_wrap=True, overflow="ignore")


def _all(document: Document, console: Console, warnings: Sequence[str]) -> list[Table | Text]:
    from rich.text import Text

    parts: list[Table | Text] = [Text(printable(document.verdict), style="bold")] if document.verdict else []
    for section in document.tables:
        title = f"{document.title}: {section.title[0].lower()}{section.title[1:]}"
        parts.append(Text(printable(title if section.name != "comparisons" else section.title), style="table.title"))
        parts += [Text(printable(section.full_caption), style="dim")] if section.full_caption else []
        tables = [_part(section, columns) for columns in _parts(section, console.width)]
        parts += tables or _one_by_one(section)
    return [*parts, *(Text(f"! {one}", style="yellow") for one in warnings)]


def _parts(section: Section, width: int) -> list[list[int]]:
    """Return the columns of each part of a table that is too wide; each part begins with the first column.

    There are no parts if the first column and one other do not fit into the width.
    """
    lines = [section.header, *section.lines]
    widths = [max(len(printable(cells[place])) for cells in lines) + EDGES for place in range(len(section.header))]
    whole = list(range(len(widths)))
    if section.texts > 2 or sum(widths) < width:  # texts are broken into lines
        return [whole]
    first, *rest = order = section.order or whole
    fits = all(1 + widths[first] + widths[place] <= width for place in rest)
    return side_by_side(order, [first], width - 1, widths) if fits else []


def _one_by_one(section: Section) -> Iterator[Text]:
    """Yield the lines of a table with one cell below the other, for keys too long for a cell beside them."""
    from rich.text import Text

    for cells in section.lines:
        named = (f"  {name} {cell}" for name, cell in zip(section.header[1:], cells[1:], strict=True) if cell)
        lines = [printable(cells[0]), *(f"  {printable(one)}" for one in named)]
        yield Text("\n".join(lines), no_wrap=True, overflow="ignore")


def _part(section: Section, columns: Sequence[int]) -> Table:
    from rich.table import Table
    from rich.text import Text

    part = Table()
    for place in columns:
        is_text, name = place < section.texts, Text(printable(section.header[place]))
        wraps = is_text and place > 0 and section.texts > 1
        part.add_column(name, justify="left" if is_text else "right", no_wrap=not wraps, overflow="fold")
    for line, cells in enumerate(_lines(section, printable, "{}")):
        part.add_row(*(Text(cells[at], style="bold" if (line, at) in section.bold else "") for at in columns))
    return part
