"""The lines of tables by bucket and by group of rows: first the line of all labels or all rows, whose name is empty."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tailmetrics.report.breakdowns import BucketRow, GroupRow
from tailmetrics.report.data import ReportData
from tailmetrics.report.records import Record


def bucket_lines(report: ReportData, metrics: Sequence[str]) -> list[BucketRow]:
    """Return the lines of a table of metrics by bucket: all labels, if a metric has a value there, and buckets."""
    names = set()
    for metric in metrics:
        names |= {record.bucket for record in report.bucket_records(metric)}
    lines = [bucket for bucket in report.buckets if bucket.name in names]
    if lines and any(report.whole(metric).key for metric in metrics):
        lines.insert(0, _all_labels(report))
    return lines


def _all_labels(report: ReportData) -> BucketRow:
    """Return the line of all labels: its numbers are sums over the buckets."""
    first = [bucket for bucket in report.buckets if bucket.kind == 0]  # each set of buckets holds all labels once
    return BucketRow(
        "",
        labels=sum(bucket.labels for bucket in first),
        occurrences=sum(bucket.occurrences for bucket in first),
        positives=sum(bucket.positives for bucket in first),
        labels_with_rows=sum(bucket.labels_with_rows or 0 for bucket in report.buckets),
    )


def in_line(report: ReportData, metric: str, line: BucketRow) -> Record:
    """Return the record of a metric in one line of a table by bucket."""
    if not line.name:
        return report.whole(metric)
    return report.record(metric, line.name)


def group_lines(report: ReportData, groups: Iterable[GroupRow]) -> list[GroupRow]:
    """Return the lines of a table by group of rows: all rows, and these groups."""
    return [GroupRow("", report.rows), *groups]
