"""A report or a comparison as LaTeX: all tables, or one table of runs for a paper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tailmetrics.report.breakdowns import ALL
from tailmetrics.report.data import ReportData
from tailmetrics.report.document import Section
from tailmetrics.report.formatting import in_latex, number, short_name
from tailmetrics.report.records import Record
from tailmetrics.report.shown import Shown
from tailmetrics.report.text import escaped_lines

LINE = 76
"""Letters of a table's line in a paper, in small print, with three between columns."""
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


def latex(shown: Shown, references: bool = False) -> str:
    r"""Return each table of a report or comparison, for ``\input`` into a paper.

    The paper loads ``booktabs``.
    """
    document = shown.document(references=references)
    sections = []
    if document.runs:
        for section in document.first:
            if section.name == "first":
                sections.append(_without_bars(section))
    for section in document.tables:
        if not section.folded or section.name == "references":
            sections.append(section)

    tables = [f"{PACKAGE}\n"]
    for section in sections:
        for part in section.within(LINE, section.widths(_width, _width)):
            caption = in_latex(
                f"{document.title}: {part.title}. {part.full_caption}".strip()
            )
            columns = "l" * part.texts + "r" * (len(part.header) - part.texts)
            header = _line([in_latex(name) for name in part.header])
            lines = escaped_lines(part, in_latex, r"\textbf{{{}}}")
            tables.append(_table(caption, columns, header, lines))
    return "\n".join(tables)


def _table(
    caption: str,
    columns: str,
    header: str,
    lines: Iterator[list[str]] | Sequence[list[str]],
) -> str:
    body = "\n".join(rf"    {_line(cells)} \\" for cells in lines)
    return TABLE % (caption, columns, header, body)


def _line(cells: Sequence[str]) -> str:
    r"""Return a line of a table.

    A bracket or star at its start is no argument of the ``\\`` or rule before it.
    """
    text = " & ".join(cells)
    if text.startswith(("[", "*")):
        return f"{{}}{text}"
    return text


def _width(cell: str) -> int:
    return len(cell) + 3


def _without_bars(section: Section) -> Section:
    """Return a table of a terminal without bars: the first letter of their cells stays.

    These cells stand below an empty name.
    """
    if section.header[-1]:
        return section
    return replace(
        section, lines=[[*cells[:-1], cells[-1][:1].strip()] for cells in section.lines]
    )


def paper_table(
    reports: Mapping[str, ReportData],
    metrics: Sequence[str],
    *,
    buckets: Sequence[str] | None = None,
    percent: bool = False,
    caption: str = "",
) -> str:
    r"""Return one LaTeX table for a paper, with a line for each run.

    For each metric, there is a column for each bucket.

    The best value of a column is bold, if a higher or a lower value is better. The
    paper loads ``booktabs``.

    Args:
        reports: The report of each run by the name of the run, all with the same
            metrics and buckets.
        metrics: The metrics, as keys without bucket: ``"global_recall@10"``.
        buckets: Names of the buckets; None takes all, and the value over all labels
            before them.
        percent: Whether values of metrics that lie between 0 and 1 are multiplied by
            100 and shown with one decimal.
        caption: The caption; empty for none.

    Raises:
        ValueError: If there is no run, or a report lacks a metric or a bucket.
    """
    if not reports:
        raise ValueError(
            "paper_table: reports is empty; pass the report of each run by its name."
        )
    groups, rules = [], []
    header = ["run"]
    columns: list[list[str]] = []
    for metric in metrics:
        names = buckets
        if names is None:
            first = next(iter(reports.values()))
            names = ["", *(record.bucket for record in first.bucket_records(metric))]
        for name in names:
            columns.append(_paper_cells(_records_of(reports, metric, name), percent))
            header.append(in_latex(short_name(name or ALL)))
        groups.append(rf"\multicolumn{{{len(names)}}}{{c}}{{{in_latex(metric)}}}")
        rules.append(rf"\cmidrule(lr){{{len(header) - len(names) + 1}-{len(header)}}}")

    lines = [
        [in_latex(run), *cells] for run, *cells in zip(reports, *columns, strict=True)
    ]
    above = rf" & {' & '.join(groups)} \\ {' '.join(rules)}"
    head = f"{above}\n    {' & '.join(header)}"
    return f"{PACKAGE}\n\n{_table(in_latex(caption), 'l' + 'r' * len(columns), head, lines)}"


def _records_of(
    reports: Mapping[str, ReportData], metric: str, bucket: str
) -> list[Record]:
    """Return the record of each run of a metric, over all labels or in one bucket."""
    records = []
    for run, report in reports.items():
        record = report.bucket_record(metric, bucket)
        if not record.key:
            place = f"the metric {metric!r}"
            if bucket:
                place = f"the bucket {bucket!r} of {metric!r}"
            metrics = ", ".join(repr(facts.metric) for facts in report.metrics)
            raise ValueError(
                f"paper_table: the report of {run!r} has no value in {place}; its "
                f"metrics are {metrics}."
            )
        records.append(record)
    return records


def _paper_cells(records: Sequence[Record], percent: bool) -> list[str]:
    """Return the cells of a column; the best value is bold.

    Values that look equal are both bold. If neither direction is better, none is bold.
    """
    texts = []
    for record in records:
        text = number(record.value, decimals=record.decimals)
        if percent and record.facts.is_fraction and record.is_measured:
            text = f"{100 * record.value:.{max(0, min(1, record.decimals - 2))}f}"
        texts.append(in_latex(text))
    measured = [record.value for record in records if record.is_measured]
    facts = records[0].facts
    if not measured or facts.higher_is_better is None:
        return texts

    best = max(measured)
    if facts.lower_is_better:
        best = min(measured)
    best_text = texts[[record.value for record in records].index(best)]

    bold = rf"\textbf{{{best_text}}}"
    return [bold if text == best_text else text for text in texts]
