r"""A report as LaTeX tables, for ``\input`` into a paper that loads ``booktabs``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tailmetrics.report.formatting import bucket_lines, shown

if TYPE_CHECKING:
    from tailmetrics.report.report import Report

ESCAPES = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "–": "--",
        "∞": r"$\infty$",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        **{character: f"\\{character}" for character in "&%$#_{}"},
    }
)


def latex(report: Report) -> str:
    """Return a table of the overall values and one from head to tail, a line per bucket."""
    parts = [r"% needs \usepackage{booktabs}" + "\n"]
    if report.overall:
        lines = ([key, shown(value)] for key, value in report.overall.items())
        parts.append(_table(report.title, ["metric", "value"], lines))
    if report.by_bucket:
        title = f"{report.title}, from the most frequent labels to the rarest"
        parts.append(_table(title, ["bucket", "labels", "positives", *report.by_bucket], bucket_lines(report)))
    return "\n".join(parts)


def _table(title: str, header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = [_row(cells) for cells in lines]
    body = [r"\toprule", _row(header), r"\midrule", *rows, r"\bottomrule"]
    return "\n".join(
        [
            r"\begin{table}",
            r"  \centering",
            rf"  \caption{{{escape(title)}.}}",
            rf"  \begin{{tabular}}{{l{'r' * (len(header) - 1)}}}",
            *(f"    {line}" for line in body),
            r"  \end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _row(cells: Iterable[str]) -> str:
    return rf"{' & '.join(map(escape, cells))} \\"


def escape(text: str) -> str:
    """Return text as LaTeX prints it."""
    return " ".join(text.split()).translate(ESCAPES)
