"""Tables of values beside their references, and beside the values of other orders of equal scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter

from tailmetrics.report.breakdowns import BucketRow
from tailmetrics.report.data import ReportData
from tailmetrics.report.document import Column, Section, Table
from tailmetrics.report.formatting import between, number
from tailmetrics.report.lines import bucket_lines, in_line
from tailmetrics.report.overview import BUCKET_COLUMNS, NAME_AND_VALUE
from tailmetrics.report.records import Record

TIES = "What equal scores hide"
TIES_CAPTION = (
    "The value of the list as it is shown, its mean over all orders of equal scores, and its ends. Where they differ, "
    "the listed value depends on how labels are numbered."
)
REFERENCES_TITLE = "Beside chance, popularity and the attainable"
REFERENCES_CAPTION = (
    "Chance: all scores equal. Popularity: training counts as scores, one list for all rows, with items that a row "
    "leaves out. Attainable: a list that begins with the relevant labels of the bucket, as long as that of the row, or "
    "longer where these labels need more places."
)


def reference_sections(report: ReportData) -> Iterator[Section]:
    """Yield tables of the values beside chance, popularity and the attainable value."""
    columns = [(name, partial(_reference, name)) for name in report.references]
    section = Section("references", REFERENCES_TITLE, REFERENCES_CAPTION, folded=True)
    yield from _tables(report, section, columns, ", over all labels")


def tie_sections(report: ReportData) -> Iterator[Section]:
    """Yield tables of the values beside the values of other orders of equal scores."""
    columns: list[Column[Record]] = [("expected", partial(_reference, "expected")), ("[worst, best]", _ends_of_orders)]
    yield from _tables(report, Section("ties", TIES, TIES_CAPTION), columns, "")


def _reference(name: str, record: Record) -> str:
    return number(record.reference(name), record.is_place)


def _ends_of_orders(record: Record) -> str:
    worst, best = record.reference("worst"), record.reference("best")
    if math.isnan(worst):
        return "–"
    return between(worst, best, record.is_place)


def _tables(
    report: ReportData, section: Section, columns: Sequence[Column[Record]], title_end: str
) -> Iterator[Section]:
    """Yield the section with a table of the metrics that are not by bucket, and with a table of those by bucket.

    Args:
        report: The report.
        section: Title and caption.
        columns: The columns beside each value. Records whose cells are all dashes have no line.
        title_end: The end of the title of the table of metrics that are not by bucket.
    """
    keys_by_bucket = {report.whole(metric).key for metric in report.metrics_by_bucket}
    overall = []
    for record in report.overall_records:
        if record.key not in keys_by_bucket and _has_cells(columns, [record]):
            overall.append(record)

    metrics = []
    for metric in report.metrics_by_bucket:
        if _has_cells(columns, report.bucket_records(metric)):
            metrics.append(metric)

    if overall:
        table = Table.from_items(overall, [*NAME_AND_VALUE, *columns])
        yield replace(section, title=f"{section.title}{title_end}").with_table(table)
    if metrics:
        bucket_columns = [BUCKET_COLUMNS[0]]
        for metric in metrics:
            bucket_columns.append((metric, partial(_bucket_cell, report, metric, attrgetter("text"))))
            for name, cell in columns:  # names the metric, since a narrow page may split the table
                bucket_columns.append((f"{metric} {name}", partial(_bucket_cell, report, metric, cell)))
        table = Table.from_items(bucket_lines(report, report.metrics_by_bucket), bucket_columns)
        yield replace(section, title=f"{section.title}, by bucket").with_table(table)


def _has_cells(columns: Sequence[Column[Record]], records: Iterable[Record]) -> bool:
    cells = Table.from_items(records, columns).lines
    return any({*line} - {"–"} for line in cells)


def _bucket_cell(report: ReportData, metric: str, cell: Callable[[Record], str], line: BucketRow) -> str:
    return cell(in_line(report, metric, line))
