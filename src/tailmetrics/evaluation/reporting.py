"""The parts of a report: records, buckets, labels and, added last, intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product, zip_longest
from typing import Any

from tailmetrics.buckets import LabelBuckets
from tailmetrics.collection import UNSEEN, TopKCollection
from tailmetrics.evaluation import notes
from tailmetrics.evaluation.description import bucket_rows
from tailmetrics.evaluation.interval_values import with_values
from tailmetrics.evaluation.metric_facts import whole_k
from tailmetrics.evaluation.row_counts import Totals
from tailmetrics.evaluation.row_labels import RowLabels
from tailmetrics.evaluation.values import Results, Values
from tailmetrics.report.breakdowns import BucketRow
from tailmetrics.report.labels import LabelTable
from tailmetrics.report.records import SUMMARIES, MetricFacts, Record
from tailmetrics.report.report import Report
from tailmetrics.significance.halves import at_half_the_rows
from tailmetrics.significance.interval import (
    AdjustedEnd,
    Interval,
    adjusted_gap,
    first_and_last,
)
from tailmetrics.significance.labels import OverLabels
from tailmetrics.significance.rows import cluster_codes

# -- records ---------------------------------------------------------------------------


def _empty_records(collection: TopKCollection) -> Iterator[Record]:
    """Yield a record without value for each value and each possible summary."""
    named = collection.named
    for metric in collection.members().values():
        if not metric.row_keys():
            continue  # values of single labels alone
        cutoffs = zip(metric.cutoff_keys(), metric.cutoffs, strict=True)
        for (stem, cutoff), group in product(cutoffs, metric.group_keys()):
            record = Record(
                named(f"{stem}{group}"),
                named(stem),
                math.nan,
                whole_k(cutoff),
                row_group=group[1:],
            )
            if metric.buckets is None:
                yield record
                continue
            for bucket in metric.bucket_names:
                yield replace(
                    record, key=named(f"{stem}{group}/{bucket}"), bucket=bucket
                )
            for summary in SUMMARIES:
                yield replace(
                    record, key=named(f"{stem}{group}/{summary}"), summary=summary
                )


def records_of(
    collection: TopKCollection, values: Values, facts: Mapping[str, MetricFacts]
) -> list[Record]:
    """Return a record for each value of the metrics."""
    empty_records: dict[str, Record] = {}
    for record in _empty_records(collection):
        empty_records.setdefault(record.key, record)

    records = []
    for key, value in values.all.items():
        record = empty_records[key]
        count, count_of = values.counts.get(key, (None, ""))
        alternatives: dict[str, Any] = {
            name: by_key.get(key) for name, by_key in values.alternatives.items()
        }
        records.append(
            replace(
                record,
                value=value,
                count=count,
                count_of=count_of,
                error_bound=values.errors.get(key),
                facts=facts[record.metric],
                **alternatives,
            )
        )
    return records


# -- buckets and labels ----------------------------------------------------------------


def distinct_buckets(
    bucketings: Sequence[LabelBuckets],
    results: Results,
    positives: Sequence[Sequence[int]],
) -> list[BucketRow]:
    """Return the buckets of all metrics, each name once."""
    labels_with_rows = _labels_with_rows(results)
    buckets: dict[str, BucketRow] = {}
    for kind, (bucketing, bucket_positives) in enumerate(
        zip_longest(bucketings, positives)
    ):
        for bucket in bucket_rows(bucketing, bucket_positives, kind):
            if bucket.name not in buckets:
                buckets[bucket.name] = replace(
                    bucket, labels_with_rows=labels_with_rows.get(bucket.name)
                )
    return list(buckets.values())


def _labels_with_rows(results: Results) -> dict[str, int]:
    """Return the number of labels with a relevant row by bucket.

    The dict is empty unless all macro averages by bucket agree.
    """
    numbers = set()
    for metric, result in results:
        if result.facts.labels_with_rows and metric.bound_buckets is not None:
            numbers.add(
                tuple(
                    zip(
                        metric.bound_buckets.names,
                        result.facts.labels_with_rows,
                        strict=True,
                    )
                )
            )
    if len(numbers) != 1:
        return {}
    return dict(numbers.pop())


def label_table(
    collection: TopKCollection,
    totals: Totals,
    names: Sequence[str] | None,
    bucketings: Sequence[LabelBuckets],
    row_labels: RowLabels,
) -> LabelTable:
    """Return the values of single labels.

    Args:
        collection: The metrics.
        totals: The counts of rows and labels.
        names: The name of each label; None if labels have none.
        bucketings: The buckets of the metrics.
        row_labels: The labels of rows.
    """
    columns = {}
    for name, column in collection.per_label(zero_division=math.nan).items():
        columns[name] = column.cpu()
    num_labels = len(columns["support"])
    if names is not None and len(names) != num_labels:
        raise ValueError(
            f"Evaluation: label_names holds {len(names)} names for {num_labels} "
            "labels; pass one for each."
        )

    table = LabelTable(columns, names)
    if bucketings:
        bucketing = bucketings[0]
        table = replace(
            table, buckets=bucketing.assignment, bucket_names=bucketing.names
        )
    if totals.crowded_rows:
        table = replace(
            table,
            crowded_support=totals.crowded_support,
            crowded_hits=totals.crowded_hits,
            crowded_rows=totals.crowded_rows,
        )
    if table.tests is not None:
        table = replace(
            table, instead=row_labels.listed_instead(table.tests.listed.tolist())
        )
    return table


# -- intervals and halves of the rows --------------------------------------------------


def with_intervals(
    report: Report,
    intervals: Mapping[str, Interval],
    averages: Mapping[str, Any],
    clusters: Any = None,
) -> Report:
    """Return the report with more intervals, and with averages at half of the rows.

    Args:
        report: The report.
        intervals: Intervals by key, which replace those of the report.
        averages: The contributions of rows to averages over labels, by key.
        clusters: The cluster of each row; None where rows are drawn alone.
    """
    merged = {
        **report.intervals,
        **with_values(intervals, {**report.scalars, **report.summaries}),
    }
    merged |= _adjusted_gaps(report, merged)
    records = [
        replace(record, interval=merged.get(record.key)) for record in report.records
    ]
    labels = report.labels
    if labels is not None and any(
        interval.clusters is not None for interval in intervals.values()
    ):
        labels = replace(labels, clustered=True)
    report = replace(report, records=records, labels=labels)
    if report.at_half_the_rows:
        return report
    return _with_halves(report, averages, clusters)


def _with_halves(report: Report, averages: Mapping[str, Any], clusters: Any) -> Report:
    """Return the report with averages over labels at half of the rows or clusters.

    A note on these averages is added, too.
    """
    codes = None
    halves: dict[str, float] = {}
    for record in report.values_alone:
        average = averages.get(record.key)
        if (
            isinstance(average, OverLabels)
            and not record.row_group
            and record.is_measured
        ):
            if clusters is not None and codes is None:
                codes = cluster_codes("evaluate", clusters, average.inside.size)
            halves[record.key] = at_half_the_rows(average, codes)
    records = [
        replace(record, at_half_the_rows=halves.get(record.key))
        for record in report.records
    ]
    texts = notes.on_number_of_rows(averages, halves, report.intervals, codes)
    return replace(report, records=records, notes=(*report.notes, *texts))


def _adjusted_gaps(
    report: Report, intervals: Mapping[str, Interval]
) -> dict[str, Interval]:
    """Return the intervals of adjusted gaps from those of gaps and of their ends."""
    adjusted_gaps = {}
    for record in report.records:
        gap = report.record(record.metric, row_group=record.row_group, summary="gap")
        if (
            record.summary != "adjusted_gap"
            or record.key not in intervals
            or gap.key not in intervals
        ):
            continue
        ends = _adjusted_ends(report, record, intervals)
        outer_ends = first_and_last(ends)
        if len(outer_ends) == 2:
            adjusted_gaps[record.key] = adjusted_gap(
                intervals[record.key], intervals[gap.key], *outer_ends
            )
    return adjusted_gaps


def _adjusted_ends(
    report: Report, summary: Record, intervals: Mapping[str, Interval]
) -> list[AdjustedEnd]:
    """Return the measured buckets whose attainable value differs from chance."""
    ends = []
    for bucket in report.buckets:
        record = report.record(summary.metric, bucket.name, summary.row_group)
        if (
            bucket.name == UNSEEN
            or record.chance is None
            or record.key not in intervals
        ):
            continue
        span = abs(record.reference("attainable") - record.chance)
        if span > 0 and not math.isnan(intervals[record.key].value):
            ends.append(AdjustedEnd(intervals[record.key], record.chance, span))
    return ends
