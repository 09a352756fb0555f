"""Tables of values beside their references, and beside other orders of equal scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from tailmetrics.report.breakdowns import ALL
from tailmetrics.report.data import ReportData
from tailmetrics.report.document import Section
from tailmetrics.report.formatting import between, number
from tailmetrics.report.records import Record

TIES = "What equal scores hide"
TIES_CAPTION = (
    "The value of the list as it is shown, its mean over all orders of equal scores, "
    "and its ends. Where they differ, "
    "the listed value depends on how labels are numbered."
)
REFERENCES_TITLE = "Beside chance, popularity and the attainable"
REFERENCES_CAPTION = (
    "Chance: all scores equal. Popularity: training counts as scores, one list for all "
    "rows, with items that a row leaves out. Attainable: a list that begins with the "
    "relevant labels of the bucket, as long as that of the row, or longer where these "
    "labels need more places."
)


def reference_sections(report: ReportData) -> Iterator[Section]:
    """Yield tables of the values beside chance, popularity and the attainable value."""
    names = list(report.references)

    def cells(record: Record) -> list[str]:
        return [number(record.reference(name), record.is_place) for name in names]

    section = Section("references", REFERENCES_TITLE, REFERENCES_CAPTION, folded=True)
    yield from _tables(report, section, names, cells, ", over all labels")


def tie_sections(report: ReportData) -> Iterator[Section]:
    """Yield tables of the values beside the values of other orders of equal scores."""
    yield from _tables(
        report,
        Section("ties", TIES, TIES_CAPTION),
        ["expected", "[worst, best]"],
        _tie_cells,
        "",
    )


def _tie_cells(record: Record) -> list[str]:
    expected = number(record.reference("expected"), record.is_place)
    worst, best = record.reference("worst"), record.reference("best")
    if math.isnan(worst):
        return [expected, "–"]
    return [expected, between(worst, best, record.is_place)]


def _tables(
    report: ReportData,
    section: Section,
    names: Sequence[str],
    cells: Callable[[Record], list[str]],
    title_end: str,
) -> Iterator[Section]:
    """Yield one table of metrics without buckets, and one of metrics by bucket.

    Args:
        report: The report.
        section: Title and caption.
        names: Names of the columns beside each value.
        cells: Function that returns these cells of a record. Metrics whose cells are
            all dashes are left out.
        title_end: The end of the title of the table of metrics that are not by bucket.
    """
    keys_by_bucket = {report.whole(metric).key for metric in report.metrics_by_bucket}
    lines = []
    for record in report.overall_records:
        if record.key not in keys_by_bucket and _has_values(cells(record)):
            lines.append([record.metric, record.text, *cells(record)])
    if lines:
        yield replace(
            section,
            title=f"{section.title}{title_end}",
            header=["metric", "value", *names],
            lines=lines,
        )

    metrics = []
    for metric in report.metrics_by_bucket:
        cells_by_bucket = chain.from_iterable(map(cells, report.bucket_records(metric)))
        if _has_values(cells_by_bucket):
            metrics.append(metric)
    if not metrics:
        return
    header = ["bucket"]
    for metric in metrics:
        # a narrow page may split the table
        header += [metric, *(f"{metric} {name}" for name in names)]
    lines = []
    for line in report.bucket_lines(report.metrics_by_bucket):
        line_cells = [line.name or ALL]
        for metric in metrics:
            record = report.bucket_record(metric, line.name)
            line_cells += [record.text, *cells(record)]
        lines.append(line_cells)
    yield replace(
        section, title=f"{section.title}, by bucket", header=header, lines=lines
    )


def _has_values(cells: Iterable[str]) -> bool:
    return any(cell != "–" for cell in cells)
