r"""A report as LaTeX tables, for ``\input`` into a paper that loads ``booktabs``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tailmetrics.report.tables import Table, tables

if TYPE_CHECKING:
    from tailmetrics.report.report import Report

LETTERS = "abcdefghijklmnopqrstuvwxyz"
RAISED = "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖqʳˢᵗᵘᵛʷˣʸᶻ"
"""Letters as superscripts; there is none of q that terminals show."""
ESCAPES = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "–": "--",
        "…": r"\ldots{}",
        "✓": r"$\surd$",
        "∞": r"$\infty$",
        "±": r"$\pm$",
        "·": r"$\cdot$",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        **{
            raised: rf"$^\mathrm{{{letter}}}$"
            for raised, letter in zip(RAISED, LETTERS, strict=True)
            if raised != letter
        },
        **{character: f"\\{character}" for character in "&%$#_{}"},
    }
)


def latex(report: Report) -> str:
    """Return each table of the report, with what it shows as its caption."""
    return "\n".join(
        [r"% needs \usepackage{booktabs}" + "\n", *(latex_table(report.title, table) for table in tables(report))]
    )


def latex_table(title: str, table: Table) -> str:
    """Return one table, captioned by the title of the report and its own."""
    body = [r"\toprule", _row(table.header), r"\midrule", *map(_row, table.lines), r"\bottomrule"]
    caption = f"{title}: {table.title}. {table.caption}".strip()
    return "\n".join(
        [
            r"\begin{table}",
            r"  \centering",
            rf"  \caption{{{escape(caption)}}}",
            rf"  \begin{{tabular}}{{{_columns(table)}}}",
            *(f"    {line}" for line in body),
            r"  \end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _columns(table: Table) -> str:
    """Return how the columns are aligned; those of long texts share most of a line of the page."""
    short = table.texts - table.long
    return "l" * short + r"p{0.36\linewidth}" * table.long + "r" * (len(table.header) - table.texts)


def _row(cells: Iterable[str]) -> str:
    return rf"{' & '.join(map(escape, cells))} \\"


def escape(text: str) -> str:
    """Return text as LaTeX prints it."""
    return " ".join(text.split()).translate(ESCAPES)
