"""The section of the values by group of rows."""

from __future__ import annotations

from itertools import chain

from tailmetrics.report.bars import bars_by_group
from tailmetrics.report.breakdowns import ALL, GroupRow
from tailmetrics.report.data import ReportData
from tailmetrics.report.document import Section
from tailmetrics.report.formatting import count, sentences
from tailmetrics.report.overview import intervals_in_words

BY_GROUP = "By group of rows"
GROUP_HEADER = ("group", "rows")
"""The first columns of a table by group of rows, with cells of :func:`group_cells`."""


def group_cells(group: GroupRow) -> list[str]:
    """Return the first cells of a line of a table by group of rows.

    A group with an empty name stands for all rows.
    """
    return [group.name or ALL, count(group.rows)]


def groups_section(report: ReportData) -> Section:
    """Return a table of the values over all labels by group of rows, and drawings.

    There is a line for all rows and a line for each group.

    If there are drawings by bucket, the picture has that of the headline alone.
    """
    metrics = report.metrics_by_group
    if not metrics:
        return Section("groups", BY_GROUP)

    lines = []
    for group in (GroupRow("", report.rows), *report.row_groups):
        values = [
            report.record(metric, row_group=group.name).text for metric in metrics
        ]
        lines.append([*group_cells(group), *values])

    headline = report.whole(report.about).metric
    charts = []
    for metric in metrics:
        if metric != headline:
            charts.append(bars_by_group(report, metric))
    if report.metrics_by_bucket:
        charts = [chart.outside_the_picture() for chart in charts]

    caption = sentences("over all labels", report.rows_in_words)
    records = chain.from_iterable(map(report.group_records, metrics))
    note = sentences(*intervals_in_words(report, records))
    header = [*GROUP_HEADER, *metrics]
    return Section(
        "groups", BY_GROUP, caption, note, header=header, lines=lines, charts=charts
    )
