"""The sections that begin a report: headline, values over all labels, and by bucket."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from tailmetrics._arguments import grouped
from tailmetrics.report.bars import bars_by_bucket, bars_by_group
from tailmetrics.report.breakdowns import ALL, BucketRow, what_buckets_are
from tailmetrics.report.data import ReportData
from tailmetrics.report.document import Section
from tailmetrics.report.formatting import between, count, number, sentences
from tailmetrics.report.records import Record

HEAD_TO_TAIL = "From the most frequent labels to the rarest"
WITH_ROWS = "labels with rows"
BUCKET_HEADER = ("bucket", "labels", "positives")
"""The first columns of a table by bucket, whose cells :func:`bucket_cells` returns."""


def headline_section(report: ReportData) -> Section:
    """Return the drawings of the report's metric: by bucket, and by group of rows."""
    metric = report.about
    charts, orders = [], []
    if metric in report.metrics_by_bucket:
        charts.append(bars_by_bucket(report, metric))
        orders.append("from head to tail")

    whole = report.whole(metric)
    if whole.metric in report.metrics_by_group:
        charts.append(bars_by_group(report, whole.metric))
        orders.append("by group of rows")
    return Section("headline", f"{metric}, {' and '.join(orders)}", charts=charts)


def overall_section(report: ReportData) -> Section:
    """Return the table of the values over all rows and labels.

    A column says how many rows each value counts.
    """
    lines = [
        [record.metric, record.text, record.count_in_words]
        for record in report.overall_records
    ]
    header = ["metric", "value", "over"]
    return Section(
        "overall",
        "Over all labels",
        _overall_caption(report),
        header=header,
        lines=lines,
    )


def _overall_caption(report: ReportData) -> str:
    facts = [record.facts for record in report.overall_records]
    meanings = [
        f"{metric.metric}: {metric.meaning}" for metric in facts if metric.meaning
    ]
    lower_is_better = ", ".join(
        metric.metric for metric in facts if metric.lower_is_better
    )

    texts = [report.rows_in_words, "; ".join(meanings)]
    if lower_is_better:
        texts.append(f"lower is better: {lower_is_better}")
    texts += _perplexities(report)
    texts += intervals_in_words(report, report.overall_records)

    without = dict.fromkeys(
        record.metric for record in report.values_alone if record.interval is None
    )
    if report.intervals and without:
        text = f"no interval: {', '.join(without)}"
        if any(interval.clusters for interval in report.intervals.values()):
            text = f"no interval for clusters of rows: {', '.join(without)}"
        texts.append(text)
    return sentences(*texts)


def _perplexities(report: ReportData) -> Iterator[str]:
    """Yield the perplexity of each cross-entropy if each row has one relevant label."""
    if report.positives not in (None, report.rows):
        return
    for record in report.overall_records:
        if "cross_entropy" not in record.metric:
            continue
        text = f"exp({record.metric}): perplexity {number(_exponential(record.value))}"
        if record.ends:
            low, high = map(_exponential, record.ends)
            text += f" {between(low, high)}"
        yield text


def _exponential(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def intervals_in_words(report: ReportData, records: Iterable[Record]) -> list[str]:
    """Return the meaning of ± and [low, high], and why records have no interval."""
    metrics_by_reason: dict[str, list[str]] = {}
    for record in records:
        if (
            record.interval is not None
            and record.interval.reason
            and record.is_measured
        ):
            metrics_by_reason.setdefault(record.interval.reason, []).append(
                record.metric
            )
    texts = [_meaning_of_intervals(report)]
    for reason, metrics in metrics_by_reason.items():
        texts.append(f"no interval, {reason}: {', '.join(dict.fromkeys(metrics))}")
    return texts


def _meaning_of_intervals(report: ReportData) -> str:
    """Return the meaning of ± and [low, high]; empty without intervals."""
    intervals = [interval for interval in report.intervals.values() if interval.ends]
    if not intervals:
        return ""

    units = "independent rows"
    clusters = max(interval.clusters or 0 for interval in intervals)
    if clusters:
        units = f"{clusters:,} independent clusters of rows"
    text = (
        f"± is half the width of the {intervals[0].confidence:.0%} confidence "
        f"interval, for {units}; "
    )
    text += "[low, high] are its ends where it is not symmetric"
    if report.at_half_the_rows:
        text += "; of an average over labels, for its value at this number of rows"
    return text


def _captions_in_words(report: ReportData, metrics: Iterable[str]) -> str:
    """Return the captions of several metrics as one text.

    Each caption is there once, with its metrics.
    """
    metrics_by_caption = grouped(
        (report.facts(metric).caption, metric) for metric in metrics
    )
    metrics_by_caption.pop("", None)
    if len(metrics_by_caption) == 1:
        return next(iter(metrics_by_caption))
    return "; ".join(
        f"{', '.join(names)}: {caption}"
        for caption, names in metrics_by_caption.items()
    )


def bucket_cells(line: BucketRow) -> list[str]:
    """Return the first cells of a line of a table by bucket."""
    return [line.name or ALL, count(line.labels), count(line.positives)]


@dataclass(frozen=True)
class CountColumn:
    """A column that says how many the values of some metrics count in each bucket.

    Attributes:
        name: The name of the column.
        count_of: What is counted.
        metrics: The metrics.
    """

    name: str
    count_of: str
    metrics: Sequence[str]

    def cell(self, report: ReportData, bucket: str) -> str:
        """Return how many the values count in one line.

        Return a dash if the values count different numbers, or nothing.

        Over all labels, rows without a relevant label may count, too: the cell then
        says that all rows count.
        """
        texts = set()
        for metric in self.metrics:
            record = report.bucket_record(metric, bucket)
            if not record.key:
                continue
            text = record.count_text
            counts_all_rows = record.count_of == "rows" and self.count_of != "rows"
            if counts_all_rows and record.facts.empty_rows:
                text = f"all {text}"
            texts.add(text)
        if len(texts) != 1:
            return "–"
        return texts.pop()


def buckets_section(report: ReportData) -> Section:
    """Return a table of the metrics by bucket, the headline first, and drawings.

    Each metric but the headline has a drawing.
    """
    metrics = report.metrics_by_bucket
    has_rows_of_labels = any(
        bucket.labels_with_rows is not None for bucket in report.buckets
    )
    header = [*BUCKET_HEADER]
    notes = [what_buckets_are(report.buckets)]
    if has_rows_of_labels:
        header.append(WITH_ROWS)
        notes.append(f"{WITH_ROWS}: those that are relevant in some row")
    columns, count_notes = _count_columns(report, header)
    header += [column.name for column in columns]

    lines = []
    for line in report.bucket_lines(metrics):
        cells = bucket_cells(line)
        if has_rows_of_labels:
            cells.append(count(line.labels_with_rows))
        cells += [column.cell(report, line.name) for column in columns]
        cells += [report.bucket_record(metric, line.name).text for metric in metrics]
        lines.append(cells)

    records = chain.from_iterable(map(report.bucket_records, metrics))
    return Section(
        "buckets",
        HEAD_TO_TAIL,
        sentences(report.rows_in_words, _captions_in_words(report, metrics)),
        sentences(*notes, *count_notes, *intervals_in_words(report, records)),
        header=[*header, *metrics],
        lines=lines,
        charts=[
            bars_by_bucket(report, metric)
            for metric in metrics
            if metric != report.about
        ],
    )


def _count_columns(
    report: ReportData, header: Sequence[str]
) -> tuple[list[CountColumn], list[str]]:
    """Return a column for each way in which values by bucket count, and notes.

    A note says which metrics count in this way.

    Args:
        report: The report.
        header: The columns before them. Those of :data:`BUCKET_HEADER` hold numbers of
            labels already.
    """
    metrics_by_counts = grouped(
        (
            tuple(
                (record.count_text, record.count_of)
                for record in report.bucket_records(metric)
            ),
            metric,
        )
        for metric in report.metrics_by_bucket
    )
    columns: list[CountColumn] = []
    notes = []
    for counts, metrics in metrics_by_counts.items():
        count_of = max(count_of for _, count_of in counts)
        if not count_of:
            continue
        if {*counts} == {(count(report.rows), "rows")}:
            notes.append(f"{', '.join(metrics)}: all rows count in every bucket")
            continue

        name = count_of
        if name in (
            *header[len(BUCKET_HEADER) :],
            *(column.name for column in columns),
        ):
            name = f"{name} ({metrics[0]})"
        if name not in BUCKET_HEADER:
            columns.append(CountColumn(name, count_of, metrics))
        notes.append(f"{name}: how many a value divides by in {', '.join(metrics)}")
    return columns, notes
