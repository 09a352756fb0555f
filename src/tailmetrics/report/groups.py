"""The section of the values by group of rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain

from tailmetrics.report.bars import bars_by_group
from tailmetrics.report.breakdowns import ALL, GroupRow
from tailmetrics.report.data import ReportData
from tailmetrics.report.document import Column, Section, Table
from tailmetrics.report.formatting import count, sentences
from tailmetrics.report.lines import group_lines
from tailmetrics.report.overview import intervals_in_words

BY_GROUP = "By group of rows"


GROUP_COLUMNS: Sequence[Column[GroupRow]] = (
    ("group", lambda line: line.name or ALL),
    ("rows", lambda line: count(line.rows)),
)
"""The first columns of a table by group of rows."""


def groups_section(report: ReportData) -> Section:
    """Return a table of the values over all labels, with a line for all rows and for each group, and their drawings.

    The picture has the drawing of the headline alone if there are drawings by bucket, too.
    """
    metrics = report.metrics_by_group
    if not metrics:
        return Section("groups", BY_GROUP)

    columns = list(GROUP_COLUMNS)
    for metric in metrics:
        columns.append((metric, partial(_value_cell, report, metric)))

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
    section = Section("groups", BY_GROUP, caption, note, charts=charts)
    return section.with_table(Table.from_items(group_lines(report, report.row_groups), columns))


def _value_cell(report: ReportData, metric: str, line: GroupRow) -> str:
    return report.record(metric, row_group=line.name).text
