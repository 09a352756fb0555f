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
    shown_by_bucket: dict[str, list[Record | None]] = {}
    for metric in report.metrics_by_bucket:
        records = line_records(report, metric, lines)
        if any(record is not None and _has_any(record, fields) for record in records):
            shown_by_bucket[metric] = records

    keys_by_bucket = set()
    for metric in report.metrics_by_bucket:
        keys_by_bucket |= {record.key for record in line_records(report, metric, lines) if record is not None}
    overall = []
    for record in report.overall_records:
        if record.key not in keys_by_bucket and _has_any(record, fields):
            overall.append(record)

    if overall:
        table = Table(["metric", "value", *columns])
        for record in overall:
            table.lines.append([record.metric, report.text(record), *cells(record)])
        yield replace(section, title=f"{section.title}{title_end}").with_table(table)

    if shown_by_bucket:
        table = Table(["bucket"], [[line or ALL] for line in lines])
        for metric, records in shown_by_bucket.items():
            table.add(metric, [report.text(record) for record in records])
            # a column names its metric, since a narrow page may show it in another table
            columns_of_lines = zip(*(_cells(record, cells, len(columns)) for record in records), strict=True)
            for name, column in zip(columns, columns_of_lines, strict=True):
                table.add(f"{metric} {name}", column)
        yield replace(section, title=f"{section.title}, by bucket").with_table(table)


def _has_any(record: Record, fields: Sequence[str]) -> bool:
    return any(getattr(record, name) is not None for name in fields)


def _cells(record: Record | None, cells: Callable[[Record], list[str]], number_of_columns: int) -> list[str]:
    return ["–"] * number_of_columns if record is None else cells(record)
