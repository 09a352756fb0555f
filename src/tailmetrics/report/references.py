"""Tables of values beside their references, and beside the values of other orders of equal scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from tailmetrics.report.breakdowns import ALL
from tailmetrics.report.data import ReportData
from tailmetrics.report.document import Section, Table
from tailmetrics.report.formatting import between, number
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
    columns: dict[str, Callable[[Record], str]] = {name: partial(_reference, name) for name in report.references}
    section = Section("references", REFERENCES_TITLE, REFERENCES_CAPTION, folded=True)
    yield from _tables(report, section, columns, ", over all labels")


def tie_sections(report: ReportData) -> Iterator[Section]:
    """Yield tables of the values beside the values of other orders of equal scores."""
    columns: dict[str, Callable[[Record], str]] = {}
    if report.has_orders:
        columns = {"expected": partial(_reference, "expected"), "[worst, best]": _ends_of_orders}
    yield from _tables(report, Section("ties", TIES, TIES_CAPTION), columns, "")


def _reference(name: str, record: Record) -> str:
    return number(record.reference(name), record.is_place)


def _ends_of_orders(record: Record) -> str:
    if record.worst is None or record.best is None:
        return "–"
    return between(record.worst, record.best, record.is_place)


def _tables(
    report: ReportData, section: Section, columns: Mapping[str, Callable[[Record], str]], title_end: str
) -> Iterator[Section]:
    """Yield the section with a table of the metrics that are not by bucket, and with a table of those by bucket.

    Args:
        report: The report.
        section: Title and caption.
        columns: The columns beside each value: the name, and the function that returns the cell of a record. Records
            whose cells are all dashes have no line.
        title_end: The end of the title of the table of metrics that are not by bucket.
    """
    lines = report.bucket_lines(report.metrics_by_bucket)
    records_by_metric = {}
    keys_by_bucket = set()
    for metric in report.metrics_by_bucket:
        records = [report.in_line(metric, line) for line in lines]
        records_by_metric[metric] = records
        keys_by_bucket |= {record.key for record in records}

    overall = Table(["metric", "value", *columns])
    for record in report.overall_records:
        cells = [cell(record) for cell in columns.values()]
        if record.key not in keys_by_bucket and {*cells} - {"–"}:
            overall.lines.append([record.metric, record.text, *cells])
    if overall.lines:
        yield replace(section, title=f"{section.title}{title_end}").with_table(overall)

    table = Table(["bucket"], [[line.name or ALL] for line in lines])
    for metric, records in records_by_metric.items():
        column_cells = {}
        for name, cell in columns.items():
            column_cells[f"{metric} {name}"] = [cell(record) for record in records]
        if set().union(*column_cells.values()) - {"–"}:
            table.add(metric, [record.text for record in records])
            for name, cells in column_cells.items():  # names the metric, since a narrow page may split the table
                table.add(name, cells)
    if len(table.header) > 1:
        yield replace(section, title=f"{section.title}, by bucket").with_table(table)
