"""Tables of values beside their references, and beside the values of other orders of equal scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tailmetrics.report.breakdowns import ALL
from tailmetrics.report.data import ReportData
from tailmetrics.report.document import Section, Table
from tailmetrics.report.formatting import between, number
from tailmetrics.report.overview import bucket_lines, line_records
from tailmetrics.report.records import REFERENCES, Record

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
    names = [name for name in REFERENCES if any(getattr(record, name) is not None for record in report.records)]
    if not names:
        return

    def cells(record: Record) -> list[str]:
        is_place = report.facts(record.metric).is_place
        return [number(record.reference(name), is_place) for name in names]

    section = Section("references", REFERENCES_TITLE, REFERENCES_CAPTION, folded=True)
    yield from _tables(report, section, names, cells, names, ", over all labels")


def tie_sections(report: ReportData) -> Iterator[Section]:
    """Yield tables of the values beside the values of other orders of equal scores."""
    if not report.has_orders:
        return

    def cells(record: Record) -> list[str]:
        is_place = report.facts(record.metric).is_place
        worst, best = record.reference("worst"), record.reference("best")
        ends = number(worst, is_place) if math.isnan(worst) else between(worst, best, is_place)
        return [number(record.reference("expected"), is_place), ends]

    section = Section("ties", TIES, TIES_CAPTION)
    yield from _tables(report, section, ["expected", "[worst, best]"], cells, ["expected", "worst", "best"], "")


def _tables(
    report: ReportData,
    section: Section,
    columns: Sequence[str],
    cells: Callable[[Record], list[str]],
    fields: Sequence[str],
    title_end: str,
) -> Iterator[Section]:
    """Yield the section with a table of the metrics that are not by bucket, and with a table of those by bucket.

    Args:
        report: The report.
        section: Title and caption.
        columns: The names of the columns beside each value.
        cells: Returns the cells of these columns for a record.
        fields: The fields of a record that the columns show; records without any of them have no line.
        title_end: The end of the title of the table of metrics that are not by bucket.
    """
    lines = bucket_lines(report)
    by_bucket = {metric: line_records(report, metric, lines) for metric in report.metrics_by_bucket}
    keys_by_bucket = {record.key for records in by_bucket.values() for record in records if record is not None}

    overall = Table(["metric", "value", *columns])
    for record in report.overall_records:
        if record.key not in keys_by_bucket and _has_any(record, fields):
            overall.lines.append([record.metric, report.text(record), *cells(record)])
    if overall.lines:
        yield replace(section, title=f"{section.title}{title_end}").with_table(overall)

    table = Table(["bucket"], [[line or ALL] for line in lines])
    for metric, records in by_bucket.items():
        if any(record is not None and _has_any(record, fields) for record in records):
            _add_metric(table, report, metric, records, columns, cells)
    if len(table.header) > 1:
        yield replace(section, title=f"{section.title}, by bucket").with_table(table)


def _add_metric(
    table: Table,
    report: ReportData,
    metric: str,
    records: Sequence[Record | None],
    columns: Sequence[str],
    cells: Callable[[Record], list[str]],
) -> None:
    """Add the values of a metric and the columns beside them.

    A column names its metric, since a narrow page may show it in another table.
    """
    table.add(metric, [report.text(record) for record in records])
    lines = []
    for record in records:
        lines.append(["–"] * len(columns) if record is None else cells(record))
    for place, name in enumerate(columns):
        table.add(f"{metric} {name}", [line[place] for line in lines])


def _has_any(record: Record, fields: Sequence[str]) -> bool:
    return any(getattr(record, name) is not None for name in fields)
