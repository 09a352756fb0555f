"""The parts of a report: records, facts about metrics, buckets, labels, notes; and
intervals, which are added last.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product, zip_longest
from types import MappingProxyType
from typing import Any

from tailmetrics.buckets import LabelBuckets
from tailmetrics.collection import UNSEEN, TopKCollection
from tailmetrics.evaluation import notes
from tailmetrics.evaluation.description import WITHIN, bucket_rows
from tailmetrics.evaluation.interval_values import as_valued
from tailmetrics.evaluation.row_counts import RowCounts, Totals
from tailmetrics.evaluation.row_facts import Named
from tailmetrics.evaluation.row_labels import RowLabels
from tailmetrics.evaluation.values import Results, Values
from tailmetrics.metrics import RecallAtK, TopKMetric
from tailmetrics.metrics._batches import whole_buckets, whole_lists
from tailmetrics.metrics._keys import DATA
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

NO_TEXTS: Mapping[str, Any] = MappingProxyType({})
TREATMENTS = {"skip": "are left out", "pos": "count as 1"}
"""How rows count to which ``empty_target_action`` applies, in words; by default they
count as 0.
"""


# -- records ---------------------------------------------------------------------------


def _empty_records(collection: TopKCollection) -> Iterator[Record]:
    """Yield a record without value for each value, and for each summary that there may
    be.
    """
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
                _whole_k(cutoff),
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


def _whole_k(cutoff: Any) -> int | None:
    """Return a cut-off in ranks; None for a threshold, or without a cut-off."""
    if isinstance(cutoff, int):
        return cutoff
    return None


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


def metric_facts(
    named: Named, results: Results, over_all: Mapping[str, str], rows: int
) -> dict[str, MetricFacts]:
    """Return what holds for all values of a metric; a metric by bucket and one over all
    labels may share a key.

    Args:
        named: Adds prefix and postfix to a key.
        results: The values of the metrics.
        over_all: For each metric by bucket, the key of its value over all labels.
        rows: The number of rows that were evaluated.
    """
    facts: dict[str, MetricFacts] = {}
    for metric, result in results:
        captions = meanings = NO_TEXTS
        if metric.buckets:
            captions = dict(notes.captions(metric, result))
        else:
            meanings = dict(notes.on_means(metric, result))
        empty_rows = notes.empty_rows(metric, result, rows)
        left_out = empty_rows if metric.empty_target_action == "skip" else 0
        for stem, cutoff in zip(metric.cutoff_keys(), metric.cutoffs, strict=True):
            key = named(stem)
            values = {
                "is_place": bool(metric.formula.unit),
                "is_additive": metric.aggregation.is_additive,
                "caption": captions.get(stem, ""),
                "meaning": meanings.get(stem, ""),
                "overall_key": over_all.get(key, ""),
                "is_fraction": metric.bounds == (0.0, 1.0),
                "is_share_of_labels": _is_share_of_labels(metric),
                "is_among_themselves": metric.buckets is not None
                and metric.reading.scope == "bucket",
                "empty_rows": empty_rows,
                "empty_rows_treatment": _treatment_of_empty_rows(metric),
                "rows_left_out": left_out,
                "counts_rows": metric.aggregation.row_terms in ("mean", "median")
                and not metric.weighted,
            }
            changes: dict[str, Any] = {
                name: value for name, value in values.items() if value
            }
            facts[key] = replace(
                facts.get(key, MetricFacts(key)),
                k=_whole_k(cutoff),
                higher_is_better=metric.higher_is_better,
                **changes,
            )
    return facts


def _is_share_of_labels(metric: TopKMetric) -> bool:
    """Whether a metric is the mean share of a row's relevant labels that its list
    holds: recall with usual settings.
    """
    if (
        type(metric) is not RecallAtK
        or metric.weighted
        or set(metric.unusual_settings()) - {*DATA, *WITHIN}
    ):
        return False
    return metric.buckets is None or metric.reading.scope == "global"


def _treatment_of_empty_rows(metric: TopKMetric) -> str:
    """Return in words how rows count to which ``empty_target_action`` applies."""
    missing = metric.formula.lacking.removeprefix("no ")
    article = "an" if missing[0] in "aeiou" else "a"
    treatment = TREATMENTS.get(metric.empty_target_action, "count as 0")
    return f"without {article} {missing} {treatment}"


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
    """Return the number of labels with a relevant row by bucket; empty unless all macro
    averages by bucket agree.
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


# -- notes -----------------------------------------------------------------------------


def notes_of(
    collection: TopKCollection,
    counts: RowCounts,
    totals: Totals,
    results: Results,
    values: Values,
    buckets: Sequence[BucketRow],
    label_names: Sequence[str] | None,
) -> Iterator[str]:
    """Yield what a reader should know of the data and the metrics.

    Args:
        collection: The metrics.
        counts: The counts of rows and labels of this process.
        totals: The counts of all processes.
        results: The values of the metrics.
        values: The values by key.
        buckets: The buckets of the metrics.
        label_names: The name of each label; None if labels have none.
    """
    named = collection.named
    members = list(collection.members().values())
    ignored = members[0].ignore_index  # equal in all members
    measured = {bucket.name for bucket in buckets if bucket.positives}
    labels_in_each_list = 0
    if totals.shortest >= totals.num_labels and not totals.lost:
        labels_in_each_list = totals.num_labels

    yield from whole_buckets(members, named, measured)
    yield from whole_lists(members, named, labels_in_each_list)
    yield from notes.on_bins(results, named)
    yield from notes.on_misses(results, named)
    yield from notes.on_empty_rows(results, named, totals.rows)
    yield from notes.on_lost(totals)
    yield from notes.on_buckets(counts.bucketings)
    yield from notes.on_padding(counts, totals, ignored, label_names)
    yield from notes.on_chance(results, named, values, totals)
    yield from notes.on_equal_grades(results, named, totals)
    yield from notes.on_ignored(totals, ignored)
    yield from notes.on_groups(totals)


# -- intervals and halves of the rows --------------------------------------------------


def with_intervals(
    report: Report,
    intervals: Mapping[str, Interval],
    averages: Mapping[str, Any],
    clusters: Any = None,
) -> Report:
    """Return the report with these intervals, too; and with ``averages`` over labels at
    half of the rows.

    Args:
        report: The report.
        intervals: Intervals by key, which replace those of the report.
        averages: The contributions of rows to averages over labels, by key.
        clusters: The cluster of each row; None where rows are drawn alone.
    """
    merged = {
        **report.intervals,
        **as_valued(intervals, {**report.scalars, **report.summaries}),
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
    """Return the report with the averages over labels at half of the rows or clusters,
    and with a note on them.
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
    """Return the intervals of adjusted gaps, given the intervals of gaps and of their
    ends.
    """
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
    """Return each measured bucket of a summary in which more than chance is
    attainable.
    """
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
