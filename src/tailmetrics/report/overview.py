"""The sections that begin a report: the drawing of the headline, the values over all labels, and those by bucket."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from tailmetrics._arguments import grouped
from tailmetrics.report.bars import bars_by_bucket, bars_by_group
from tailmetrics.report.breakdowns import ALL, what_buckets_are
from tailmetrics.report.data import ReportData
from tailmetrics.report.document import Section, Table
from tailmetrics.report.formatting import between, count, number, sentences
from tailmetrics.report.records import Record

HEAD_TO_TAIL = "From the most frequent labels to the rarest"
BELOW_BARS = (
    "Under each bar: the bucket, the number of its labels, and how often they are relevant in what was evaluated"
)


def headline_section(report: ReportData) -> Section:
    """Return the drawings of the metric that the report is about: by bucket, and by group of rows."""
    metric = report.about
    whole = report.whole(metric)
    hero: tuple[str, ...] = ()
    if whole is not None and whole.is_measured:
        hero = (report.number(whole), f"{metric} over all labels")

    charts, orders = [], []
    if metric in report.metrics_by_bucket:
        charts.append(bars_by_bucket(report, metric))
        orders.append("from head to tail")
    if whole is not None and whole.metric in report.metrics_by_group:
        charts.append(bars_by_group(report, whole.metric))
        orders.append("by group of rows")

    title = f"{metric}, {' and '.join(orders or ['from head to tail'])}"
    return Section("headline", title, charts=charts, hero=hero)


def overall_section(report: ReportData) -> Section:
    """Return the table of the values over all rows and labels, with how many rows each value counts."""
    perplexities = _perplexities(report)
    lines, asides = [], []
    for record in report.overall_records:
        lines.append([record.metric, report.text(record), counts_in_words(record)])
        notes = [perplexities.get(record.metric, "")]
        if report.facts(record.metric).higher_is_better is False:
            notes.append("lower is better")
        asides.append(", ".join(note for note in notes if note))

    section = Section("overall", "Over all labels", _overall_caption(report, perplexities), asides=asides)
    return section.with_table(Table(["metric", "value", "over"], lines))


def counts_in_words(record: Record) -> str:
    """Return how many rows, labels or predictions a value counts, and which; empty for a value that counts none."""
    if record.count is None:
        return ""
    return f"{record.count:,.10g} {record.count_of}"


def _overall_caption(report: ReportData, perplexities: dict[str, str]) -> str:
    texts = [report.rows_in_words]
    if any("_skip" in record.metric for record in report.overall_records):
        texts.append("_skip: without rows that have no relevant label")

    meanings = []
    for record in report.overall_records:
        meaning = report.facts(record.metric).meaning
        if meaning:
            meanings.append(f"{record.metric}: {meaning}")
    texts.append("; ".join(meanings))

    for metric, text in perplexities.items():
        texts.append(f"exp({metric}): {text}")
    texts.append(intervals_in_words(report))

    without = dict.fromkeys(record.metric for record in report.values_alone if record.interval is None)
    if report.intervals and without:
        texts.append(f"no interval: {', '.join(without)}; only a mean over rows or labels has one")
    return sentences(*texts)


def _perplexities(report: ReportData) -> dict[str, str]:
    """Return the perplexity of each cross-entropy in words, by metric, if each row has one relevant label."""
    if report.positives is not None and report.positives != report.rows:
        return {}

    texts = {}
    for record in report.overall_records:
        if "cross_entropy" in record.metric:
            text = f"perplexity {number(_exponential(record.value))}"
            if record.interval is not None and record.has_ends:
                low, high = _exponential(record.interval.low), _exponential(record.interval.high)
                text += f" {between(low, high)}"
            texts[record.metric] = text
    return texts


def _exponential(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def intervals_in_words(report: ReportData) -> str:
    """Return the meaning of ± and [low, high]; empty without intervals."""
    intervals = list(report.intervals.values())
    if not intervals:
        return ""

    clusters = max(interval.clusters or 0 for interval in intervals)
    units = f"{clusters:,} independent clusters of rows" if clusters else "independent rows"
    text = f"± is half the width of the {intervals[0].confidence:.0%} confidence interval, for {units}; "
    text += "[low, high] are its ends where it is not symmetric"
    if report.at_half_the_rows:
        text += "; of an average over labels, for its value at this number of rows"
    return text


def captions_in_words(report: ReportData, metrics: Iterable[str]) -> str:
    """Return the captions of several metrics as one text: each caption once, with its metrics."""
    pairs = []
    for metric in metrics:
        caption = report.facts(metric).caption
        if caption:
            pairs.append((caption, metric))
    metrics_by_caption = grouped(pairs)
    if len(metrics_by_caption) == 1:
        return next(iter(metrics_by_caption))
    return "; ".join(f"{', '.join(names)}: {caption}" for caption, names in metrics_by_caption.items())


def buckets_section(report: ReportData) -> Section:
    """Return a table of the metrics by bucket, the headline first, and a drawing of each metric but the headline."""
    metrics = report.metrics_by_bucket
    lines = bucket_lines(report)
    table = bucket_naming(report, lines)

    if any(bucket.labels_with_rows is not None for bucket in report.buckets):
        table.add("labels with rows", [_labels_with_rows(report, bucket) for bucket in lines])
    counting = _counting_columns(report, lines)
    for name, cells, _ in counting:
        if name and name not in table.header:
            table.add(name, cells)
    for metric in metrics:
        table.add(metric, [report.text(record) for record in line_records(report, metric, lines)])

    texts = []
    if "labels with rows" in table.header:
        texts.append("labels with rows: those that are relevant in some row")
    texts += [text for _, _, text in counting]
    texts.append(intervals_in_words(report))

    buckets = what_buckets_are(report.buckets)
    section = Section(
        "buckets",
        HEAD_TO_TAIL,
        sentences(report.rows_in_words, captions_in_words(report, metrics), buckets),
        lead=sentences(buckets, BELOW_BARS),
        columns=sentences(*texts),
        charts=[bars_by_bucket(report, metric) for metric in metrics if metric != report.about],
    )
    return section.with_table(table)


def bucket_lines(report: ReportData) -> list[str]:
    """Return the lines of a table by bucket: empty for the line of all labels, then the names of the buckets."""
    names = {record.bucket for metric in report.metrics_by_bucket for record in report.bucket_records(metric)}
    lines = [bucket.name for bucket in report.buckets if bucket.name in names]
    if any(report.whole(metric) is not None for metric in report.metrics_by_bucket):
        lines.insert(0, "")
    return lines


def bucket_naming(report: ReportData, lines: Sequence[str]) -> Table:
    """Return a table of the first columns: the bucket, its number of labels, and their positives."""
    first_kind = [bucket for bucket in report.buckets if bucket.kind == 0]
    table = Table(["bucket", "labels", "positives"])
    for line in lines:
        buckets = first_kind if line == "" else [report.bucket(line)]
        labels = sum(bucket.labels for bucket in buckets)
        positives = sum(bucket.positives for bucket in buckets)
        table.lines.append([line or ALL, count(labels), count(positives)])
    return table


def line_records(report: ReportData, metric: str, lines: Sequence[str]) -> list[Record | None]:
    """Return the record of a metric in each line of a table by bucket."""
    records = []
    for line in lines:
        records.append(report.record(metric, line) if line else report.whole(metric))
    return records


def _labels_with_rows(report: ReportData, line: str) -> str:
    if line:
        return count(report.bucket(line).labels_with_rows)
    return count(sum(bucket.labels_with_rows or 0 for bucket in report.buckets))


def _counting_columns(report: ReportData, lines: Sequence[str]) -> list[tuple[str, list[str], str]]:
    """Return the columns of what values by bucket count: the name, the cells, and the metrics that count so, in words.

    Metrics that count all rows in every bucket have a text alone.
    """
    metrics_by_counts: dict[tuple[tuple[float | None, str], ...], list[str]] = {}
    for metric in report.metrics_by_bucket:
        counts = tuple((record.count, record.count_of) for record in report.bucket_records(metric))
        if any(number is not None for number, _ in counts):
            metrics_by_counts.setdefault(counts, []).append(metric)

    columns: list[tuple[str, list[str], str]] = []
    for counts, metrics in metrics_by_counts.items():
        names = "all metrics" if len(metrics) == len(report.metrics_by_bucket) else ", ".join(metrics)
        if all(pair == (report.rows, "rows") for pair in counts):
            columns.append(("", [], f"{names}: all rows count in every bucket"))
            continue

        what = next(text for _, text in counts if text)
        title = f"{what} ({metrics[0]})" if what in [name for name, _, _ in columns] else what
        cells = [_count_cell(report, metrics, line) for line in lines]
        columns.append((title, cells, f"{title}: how many a value divides by in {names}"))
    return columns


def _count_cell(report: ReportData, metrics: Sequence[str], line: str) -> str:
    """Return how many the values of metrics count in one line; a dash where they differ or count nothing."""
    numbers = set()
    for metric in metrics:
        record = report.record(metric, line) if line else report.whole(metric)
        if record is not None:
            numbers.add(record.count)
    if len(numbers) != 1 or None in numbers:
        return "–"
    return f"{numbers.pop():,.10g}"
