"""A report or a comparison as Markdown, as LaTeX, as CSV, and in the terminal."""

from __future__ import annotations

import csv
from collections.abc import Callable, Container, Iterator, Sequence
from io import StringIO
from typing import TYPE_CHECKING

from tailmetrics.report.formatting import in_cell, in_latex, in_markdown, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from tailmetrics.report.document import Documented, Records, Section

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
        caption = f"{in_markdown(section.said)}\n\n" if section.said else ""
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
    for section in document.tables:
        if section.folded and section.name != "references":
            continue
        short, numbers = section.texts - section.long, len(section.header) - section.texts
        columns = "l" * short + r"p{0.36\linewidth}" * section.long + "r" * numbers
        lines = _lines(section, in_latex, r"\textbf{{{}}}")
        found.append(
            LATEX
            % (
                in_latex(f"{document.title}: {section.title}. {section.said}".strip()),
                columns,
                " & ".join(map(in_latex, section.header)),
                "\n".join(rf"    {' & '.join(cells)} \\" for cells in lines),
            )
        )
    return "\n".join(found)


LATEX = r"""\begin{table}
  \centering
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


def csv_text(records: Records) -> str:
    """Return lines of values as CSV."""
    header, lines = records
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(in_cell, header))
    writer.writerows(map(in_cell, line) for line in lines)
    return text.getvalue()


def print_report(
    shown: Documented, console: Console | None = None, references: bool = False, said: Container[str] = ()
) -> None:
    """Print the tables, from head to tail, and the warnings, except the warnings in ``said``."""
    from rich.console import Console, Group
    from rich.text import Text

    console = console or Console()
    document = shown.document(brief=True, references=references)
    parts: list[Table | Text] = [Text(printable(document.verdict), style="bold")] if document.verdict else []
    for section in document.tables:
        title = f"{document.title}: {section.title[0].lower()}{section.title[1:]}"
        parts.append(Text(printable(title if section.name != "comparisons" else section.title), style="table.title"))
        parts += [Text(printable(section.said), style="dim")] if section.said else []
        side_by_side = [_part(section, columns) for columns in _side_by_side(section, console.width)]
        parts += side_by_side or _one_by_one(section)
    parts += (Text(f"! {printable(one)}", style="yellow") for one in document.warnings if one not in said)
    console.print(Group(*parts), crop=False)  # a key longer than a line stays whole


def _side_by_side(section: Section, width: int) -> Iterator[list[int]]:
    """Yield the columns of each part of a table that is too wide; each part begins with the first column.

    Yields nothing if the first column and one other do not fit into the width.
    """
    lines = [section.header, *section.lines]
    widths = [max(len(printable(cells[place])) for cells in lines) + EDGES for place in range(len(section.header))]
    whole = list(range(len(widths)))
    if section.texts > 2 or section.long or sum(widths) < width:  # texts are broken into lines
        yield whole
        return
    first, *rest = section.order or whole
    if any(1 + widths[first] + widths[place] > width for place in rest):
        return
    group: list[int] = []
    for place in rest:
        if group and 1 + sum(widths[one] for one in (first, *group, place)) > width:
            yield [first, *group]
            group = []
        group.append(place)
    yield [first, *group]


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

    part = Table(show_lines=section.long > 0)
    for place in columns:
        is_text, name = place < section.texts, Text(printable(section.header[place]))
        wraps = is_text and place > 0 and section.texts > 1
        part.add_column(name, justify="left" if is_text else "right", no_wrap=not wraps, overflow="fold")
    for line, cells in enumerate(_lines(section, printable, "{}")):
        part.add_row(*(Text(cells[at], style="bold" if (line, at) in section.bold else "") for at in columns))
    return part
