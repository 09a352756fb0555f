"""The section of the values by group of rows."""

from __future__ import annotations

from tailmetrics.report.bars import bars_by_group
from tailmetrics.report.breakdowns import ALL
from tailmetrics.report.data import ReportData
from tailmetrics.report.document import Section, Table
from tailmetrics.report.formatting import count, sentences
from tailmetrics.report.overview import intervals_in_words

BY_GROUP = "By group of rows"


def groups_section(report: ReportData) -> Section:
    """Return a table of the values over all labels, with a line for all rows and for each group, and their drawings.

    The picture has the drawing of the headline alone if there are drawings by bucket, too.
    """
    metrics = report.metrics_by_group
    if not metrics:
        return Section("groups", BY_GROUP)

    table = Table(["group", "rows"], [[ALL, count(report.rows)]])
    names = [group.name for group in report.row_groups]
    table.lines += [[group.name, count(group.rows)] for group in report.row_groups]
    for metric in metrics:
        table.add(metric, [report.record(metric, row_group=name).text for name in ("", *names)])

    headline = report.whole(report.about).metric
    charts = [bars_by_group(report, metric) for metric in metrics if metric != headline]
    if report.metrics_by_bucket:
        charts = [chart.outside_the_picture() for chart in charts]
    caption = sentences("over all labels", report.rows_in_words)
    note = sentences(intervals_in_words(report))
    return Section("groups", BY_GROUP, caption, note, charts=charts).with_table(table)
