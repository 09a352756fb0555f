"""The sections that begin a report: the drawing of the headline, the values over all labels, and those by bucket."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter

from tailmetrics._arguments import grouped
from tailmetrics.report.bars import bars_by_bucket, bars_by_group
from tailmetrics.report.breakdowns import ALL, BucketRow, what_buckets_are
from tailmetrics.report.data import ReportData
from tailmetrics.report.document import Column, Section, Table
from tailmetrics.report.formatting import between, count, number, sentences
from tailmetrics.report.lines import bucket_lines, in_line
from tailmetrics.report.records import Record

HEAD_TO_TAIL = "From the most frequent labels to the rarest"
WITH_ROWS = "labels with rows"
BUCKET_COLUMNS: Sequence[Column[BucketRow]] = (
    ("bucket", lambda line: line.name or ALL),
    ("labels", lambda line: count(line.labels)),
    ("positives", lambda line: count(line.positives)),
)
"""The first columns of a table by bucket."""
NAME_AND_VALUE: Sequence[Column[Record]] = (("metric", attrgetter("metric")), ("value", attrgetter("text")))
"""The first columns of tables of values over all labels."""
OVERALL_COLUMNS: Sequence[Column[Record]] = (*NAME_AND_VALUE, ("over", attrgetter("count_in_words")))


def headline_section(report: ReportData) -> Section:
    """Return the drawings of the metric that the report is about: by bucket, and by group of rows."""
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
    """Return the table of the values over all rows and labels, with how many rows each value counts."""
    table = Table.from_items(report.overall_records, OVERALL_COLUMNS)
    return Section("overall", "Over all labels", _overall_caption(report)).with_table(table)


def _overall_caption(report: ReportData) -> str:
    facts = [record.facts for record in report.overall_records]
    meanings = [f"{metric.metric}: {metric.meaning}" for metric in facts if metric.meaning]
    lower_is_better = ", ".join(metric.metric for metric in facts if metric.lower_is_better)

    texts = [report.rows_in_words, "; ".join(meanings)]
    if lower_is_better:
        texts.append(f"lower is better: {lower_is_better}")
    texts += _perplexities(report)
    texts += intervals_in_words(report, report.overall_records)

    without = dict.fromkeys(record.metric for record in report.values_alone if record.interval is None)
    if report.intervals and without:
        text = f"no interval: {', '.join(without)}"
        if any(interval.clusters for interval in report.intervals.values()):
            text = f"no interval for clusters of rows: {', '.join(without)}"
        texts.append(text)
    return sentences(*texts)


def _perplexities(report: ReportData) -> Iterator[str]:
    """Yield the perplexity of each cross-entropy, if each row has one relevant label."""
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
    """Return the meaning of ± and [low, high], and why some of the records have no interval."""
    metrics_by_reason: dict[str, list[str]] = {}
    for record in records:
        if record.interval is not None and record.interval.reason and record.is_measured:
            metrics_by_reason.setdefault(record.interval.reason, []).append(record.metric)
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
    text = f"± is half the width of the {intervals[0].confidence:.0%} confidence interval, for {units}; "
    text += "[low, high] are its ends where it is not symmetric"
    if report.at_half_the_rows:
        text += "; of an average over labels, for its value at this number of rows"
    return text


def captions_in_words(report: ReportData, metrics: Iterable[str]) -> str:
    """Return the captions of several metrics as one text: each caption once, with its metrics."""
    metrics_by_caption = grouped((report.facts(metric).caption, metric) for metric in metrics)
    metrics_by_caption.pop("", None)
    if len(metrics_by_caption) == 1:
        return next(iter(metrics_by_caption))
    return "; ".join(f"{', '.join(names)}: {caption}" for caption, names in metrics_by_caption.items())


def buckets_section(report: ReportData) -> Section:
    """Return a table of the metrics by bucket, the headline first, and a drawing of each metric but the headline."""
    metrics = report.metrics_by_bucket
    columns = list(BUCKET_COLUMNS)
    notes = [what_buckets_are(report.buckets)]
    if any(bucket.labels_with_rows is not None for bucket in report.buckets):
        columns.append((WITH_ROWS, lambda line: count(line.labels_with_rows)))
        notes.append(f"{WITH_ROWS}: those that are relevant in some row")
    notes += _add_counts(columns, report)
    for metric in metrics:
        columns.append((metric, partial(_value_cell, report, metric)))

    charts = []
    for metric in metrics:
        if metric != report.about:
            charts.append(bars_by_bucket(report, metric))

    caption = sentences(report.rows_in_words, captions_in_words(report, metrics))
    records = chain.from_iterable(map(report.bucket_records, metrics))
    note = sentences(*notes, *intervals_in_words(report, records))
    section = Section("buckets", HEAD_TO_TAIL, caption, note, charts=charts)
    return section.with_table(Table.from_items(bucket_lines(report, metrics), columns))


def _add_counts(columns: list[Column[BucketRow]], report: ReportData) -> Iterator[str]:
    """Add a column for each way in which values by bucket count, and yield the metrics that count so, in words."""
    metrics_by_counts: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for metric in report.metrics_by_bucket:
        counts = tuple((record.count_text, record.count_of) for record in report.bucket_records(metric))
        metrics_by_counts.setdefault(counts, []).append(metric)

    names = [column for column, _ in columns]
    for counts, metrics in metrics_by_counts.items():
        count_of = max(count_of for _, count_of in counts)
        if not count_of:
            continue
        if {*counts} == {(count(report.rows), "rows")}:
            yield f"{', '.join(metrics)}: all rows count in every bucket"
            continue

        name = count_of
        if name in names[len(BUCKET_COLUMNS) :]:
            name = f"{name} ({metrics[0]})"
        if name not in names:  # the number of labels stands in each table
            names.append(name)
            columns.append((name, partial(_count_cell, report, metrics, count_of)))
        yield f"{name}: how many a value divides by in {', '.join(metrics)}"


def _value_cell(report: ReportData, metric: str, line: BucketRow) -> str:
    return in_line(report, metric, line).text


def _count_cell(report: ReportData, metrics: Sequence[str], count_of: str, line: BucketRow) -> str:
    """Return how many the values of metrics count in one line; a dash where they differ or count nothing.

    Over all labels, rows without a relevant label may count, too: the cell then says that all rows count.
    """
    texts = set()
    for metric in metrics:
        record = in_line(report, metric, line)
        if not record.key:
            continue
        text = record.count_text
        if record.count_of == "rows" != count_of and record.facts.empty_rows:
            text = f"all {text}"
        texts.add(text)
    if len(texts) != 1:
        return "–"
    return texts.pop()
