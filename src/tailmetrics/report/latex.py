"""A report or a comparison as LaTeX: all its tables, or one table of several runs for a paper."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from tailmetrics.report.data import ReportData
from tailmetrics.report.formatting import in_latex, number, short_name
from tailmetrics.report.text import escaped_lines

if TYPE_CHECKING:
    from tailmetrics.report.document import Documented, Section

LINE = 76
"""Letters of a line of a table in a paper, in small print, with three between columns."""
PACKAGE = r"% needs \usepackage{booktabs}"
TABLE = r"""\begin{table}
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


def latex(shown: Documented, references: bool = False) -> str:
    r"""Return each table of a report or comparison, for ``\input`` into a paper that loads ``booktabs``."""
    document = shown.document(references=references)
    sections = []
    if document.runs:
        sections += [_without_bars(section) for section in document.first if section.name == "first"]
    for section in document.tables:
        if not section.folded or section.name == "references":
            sections.append(section)

    tables = [f"{PACKAGE}\n"]
    for section in sections:
        for part in _on_a_page(section):
            caption = in_latex(f"{document.title}: {part.title}. {part.full_caption}".strip())
            columns = "l" * part.texts + "r" * (len(part.header) - part.texts)
            header = " & ".join(map(in_latex, part.header))
            lines = escaped_lines(part, in_latex, r"\textbf{{{}}}")
            tables.append(_table(caption, columns, header, lines))
    return "\n".join(tables)


def _table(caption: str, columns: str, header: str, lines: Iterator[list[str]] | Sequence[list[str]]) -> str:
    body = "\n".join(rf"    {' & '.join(cells)} \\" for cells in lines)
    return TABLE % (caption, columns, header, body)


def _on_a_page(section: Section) -> list[Section]:
    """Return a table as tables that fit into the lines of a page."""
    widths = []
    for column in zip(section.header, *section.lines, strict=True):
        widths.append(max(len(cell) for cell in column) + 3)
    return section.within(LINE, widths)


def _without_bars(section: Section) -> Section:
    """Return a table of a terminal with the first letter alone of the cells that hold bars."""
    return replace(section, lines=[[*cells[:-1], cells[-1][:1].strip()] for cells in section.lines])


class _Column(NamedTuple):
    """A column of a table for a paper: the values of all runs of one metric, over all labels or in one bucket."""

    metric: str
    name: str
    cells: list[str]


def paper_table(
    reports: Mapping[str, ReportData],
    metrics: Sequence[str],
    *,
    buckets: Sequence[str] | None = None,
    percent: bool = False,
    caption: str = "",
) -> str:
    r"""Return one LaTeX table for a paper: a line for each run, and for each metric a column for each bucket.

    The best value of a column is bold. The paper loads ``booktabs``.

    Args:
        reports: The report of each run by the name of the run, all with the same metrics and buckets.
        metrics: The metrics, as keys without bucket: ``"global_recall@10"``.
        buckets: Names of the buckets; None takes all, and the value over all labels before them.
        percent: Whether values are multiplied by 100 and shown with one decimal.
        caption: The caption; empty for none.

    Raises:
        ValueError: If there is no run, or a report lacks a metric or a bucket.
    """
    if not reports:
        raise ValueError("paper_table: reports is empty; pass the report of each run by its name.")
    columns: list[_Column] = []
    for metric in metrics:
        columns += _columns_of(reports, metric, buckets, percent)

    groups, rules, place = [], [], 2
    for metric in metrics:
        number_of_columns = sum(column.metric == metric for column in columns)
        groups.append(rf"\multicolumn{{{number_of_columns}}}{{c}}{{{in_latex(metric)}}}")
        rules.append(rf"\cmidrule(lr){{{place}-{place + number_of_columns - 1}}}")
        place += number_of_columns

    names = " & ".join(["run", *(in_latex(short_name(column.name)) for column in columns)])
    header = rf" & {' & '.join(groups)} \\ {' '.join(rules)}" + f"\n    {names}"
    lines = []
    for line, run in enumerate(reports):
        lines.append([in_latex(run), *(column.cells[line] for column in columns)])
    return f"{PACKAGE}\n\n{_table(in_latex(caption), 'l' + 'r' * len(columns), header, lines)}"


def _columns_of(
    reports: Mapping[str, ReportData], metric: str, buckets: Sequence[str] | None, percent: bool
) -> Iterator[_Column]:
    """Yield the columns of one metric."""
    first = next(iter(reports.values()))
    names = buckets
    if names is None:
        names = ["", *(record.bucket for record in first.bucket_records(metric))]
    for name in names:
        values = []
        for run, report in reports.items():
            record = report.record(metric, name) if name else report.whole(metric)
            if not record.key:
                place = f"the bucket {name!r} of {metric!r}" if name else f"the metric {metric!r}"
                raise ValueError(
                    f"paper_table: the report of {run!r} has no value in {place}; its metrics are "
                    f"{', '.join(repr(facts.metric) for facts in report.metrics)}."
                )
            values.append(record.value)
        lower_is_better = first.facts(metric).lower_is_better
        yield _Column(metric, name or "all", _paper_cells(values, lower_is_better, percent))


def _paper_cells(values: Sequence[float], lower_is_better: bool, percent: bool) -> list[str]:
    """Return the cells of a column; the best value, as it is shown, is bold."""
    texts = []
    for value in values:
        texts.append(f"{100 * value:.1f}" if percent and not math.isnan(value) else number(value))
    measured = [value for value in values if not math.isnan(value)]
    if not measured:
        return [in_latex(text) for text in texts]

    best = min(measured) if lower_is_better else max(measured)
    best_text = texts[list(values).index(best)]
    return [rf"\textbf{{{text}}}" if text == best_text else in_latex(text) for text in texts]
