"""``report_of``: makes the report of an evaluation; :func:`with_intervals` adds intervals from resampling to it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product, zip_longest
from statistics import fmean
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from tailmetrics.buckets import LabelBuckets
from tailmetrics.collection import UNSEEN, TopKCollection, buckets_by_stem
from tailmetrics.evaluation import notes
from tailmetrics.evaluation.description import WITHIN, bucket_rows, settings_of, versions
from tailmetrics.evaluation.interval_values import IntervalValues
from tailmetrics.evaluation.row_counts import RowCounts, Totals
from tailmetrics.evaluation.row_moments import as_valued
from tailmetrics.evaluation.row_values import from_all
from tailmetrics.metrics import RecallAtK, TopKMetric
from tailmetrics.metrics._batches import whole_buckets
from tailmetrics.metrics._keys import DATA
from tailmetrics.metrics._results import Result
from tailmetrics.ranking import EVERYTHING
from tailmetrics.report.breakdowns import BucketRow, GroupRow
from tailmetrics.report.labels import LabelTable
from tailmetrics.report.records import ORDERS, REFERENCES, SUMMARIES, MetricFacts, Record
from tailmetrics.report.report import Report
from tailmetrics.report.report_warnings import MANY_TIES
from tailmetrics.significance.halves import at_half_the_rows
from tailmetrics.significance.interval import AdjustedEnd, Interval, adjusted_gap, first_and_last
from tailmetrics.significance.labels import OverLabels

NOTHING: Mapping[str, Any] = MappingProxyType({})
TREATMENTS = {"skip": "are left out", "pos": "count as 1"}
"""How rows count to which ``empty_target_action`` applies, in words; by default they count as 0."""


class Evaluation(Protocol):
    """What a report needs of :class:`tailmetrics.evaluation.Evaluation`, which describes each."""

    collection: TopKCollection
    counts: RowCounts
    interval_values: IntervalValues
    over_all: dict[str, str]
    headline: str
    labels: bool
    label_names: Sequence[str] | None
    warnings: list[str]
    started: bool

    @property
    def members(self) -> list[TopKMetric]:
        """The metrics."""

    @property
    def bucketings(self) -> list[LabelBuckets]:
        """The distinct buckets of the metrics."""

    @property
    def row_groups(self) -> tuple[str, ...]:
        """The names of the row groups of all metrics."""

    def start(self) -> None:
        """Reset all states."""

    def scalars(self) -> dict[str, Tensor]:
        """Return the values of the metrics by key, over all ranks."""


class Place(NamedTuple):
    """Where a value stands: its metric and cut-off, its bucket, its group of rows, and the summary that it is."""

    metric: str
    k: int | None
    bucket: str
    row_group: str
    summary: str = ""


@dataclass(frozen=True)
class Values:
    """The values of an evaluation by key.

    Attributes:
        scalars: The values of the metrics; NaN where nothing was measured.
        summaries: Gaps and spreads of buckets.
        alternatives: Values of references and of other orders of equal scores, by name.
        counts: How many a value divides by, and of what.
        intervals: The confidence intervals.
        errors: The largest error of values from bins of scores.
    """

    scalars: Mapping[str, float]
    summaries: Mapping[str, float]
    alternatives: Mapping[str, Mapping[str, float]]
    counts: Mapping[str, tuple[float, str]]
    intervals: Mapping[str, Interval]
    errors: Mapping[str, float]


def report_of(evaluation: Evaluation, title: str) -> Report:
    """Return the report on all batches of all processes; call it in every process."""
    if not evaluation.started:
        evaluation.start()
    collection = evaluation.collection
    results = list(zip(evaluation.members, collection.results().values(), strict=True))

    ties = _ties(results)
    averages = evaluation.interval_values.averages()
    values = _values(evaluation, results, ties, averages)
    totals = evaluation.counts.totals()
    buckets = _buckets(evaluation, results, totals.positives_of_buckets)
    facts = _metric_facts(evaluation, results)

    report = Report(
        title=title,
        records=_records(evaluation, values, facts),
        metrics=list(facts.values()),
        headline=evaluation.headline,
        buckets=buckets,
        row_groups=[GroupRow(*group) for group in zip_longest(evaluation.row_groups, totals.rows_of_groups)],
        rows=totals.rows,
        positives=totals.positives,
        ties=ties,
        label_counts=_label_counts(evaluation),
        labels=_label_table(evaluation, totals) if evaluation.labels else None,
        settings=[settings_of(metric) for metric in evaluation.members],
        versions=versions(),
        postfix=collection.postfix or "",
        notes=tuple(_notes(evaluation, results, values, buckets, totals)),
    )
    return with_intervals(report, averages=averages)


def _read(values: Mapping[str, Tensor]) -> dict[str, float]:
    """Return scalar tensors as floats, with a single read of the device."""
    if not values:
        return {}
    return dict(zip(values, torch.stack(list(values.values())).tolist(), strict=True))


def _ties(results: Sequence[tuple[TopKMetric, Result]]) -> dict[int | None, float]:
    """Return the share of rows with a tie by cut-off, None for ties of relevant labels, which come last."""
    shares = []
    for _, result in results:
        shares += list(result.tied_shares.items())
    return dict(sorted(shares, key=lambda pair: (pair[0] or EVERYTHING, pair[1])))


def _values(
    evaluation: Evaluation,
    results: Sequence[tuple[TopKMetric, Result]],
    ties: Mapping[int | None, float],
    averages: Mapping[str, OverLabels],
) -> Values:
    collection = evaluation.collection
    computed = evaluation.scalars()
    references = collection.references()
    summaries = _read(collection.summaries(computed, references))
    scalars = _read(computed)
    counts = {}
    for _, result in results:
        # averages over labels are 0 by convention where nothing is relevant: a reader would take it for a result
        for key in result.not_measured:
            scalars[collection.named(key)] = math.nan
        for key, count in result.denominators.items():
            counts[collection.named(key)] = count

    alternatives = {name: _read(reference) for name, reference in references.items()}
    if max(ties.values(), default=0.0) > MANY_TIES:
        for name, values in collection.orders().items():
            alternatives[name] = _read(values)
    intervals = evaluation.interval_values.intervals({**scalars, **summaries}, averages)
    errors = _errors(evaluation, results, {**scalars, **summaries})
    return Values(scalars, summaries, alternatives, counts, intervals, errors)


def _errors(
    evaluation: Evaluation, results: Sequence[tuple[TopKMetric, Result]], values: Mapping[str, float]
) -> dict[str, float]:
    """Return the largest error of each value and summary that bins of scores leave open."""
    named = evaluation.collection.named
    errors: dict[str, float] = {}
    for metric, result in results:
        errors |= {named(key): error for key, error in result.errors.items()}
        for stem, keys in buckets_by_stem(metric).items():
            measured = [key for key in keys if not math.isnan(result.errors.get(key, math.nan))]
            if len(measured) < 2:
                continue
            gap, spread = named(f"{stem}/gap"), named(f"{stem}/spread")
            errors[gap] = result.errors[measured[0]] + result.errors[measured[-1]]
            # standard deviation and mean err by as much as a value, at most
            largest = max(result.errors[key] for key in measured)
            mean = fmean(values[named(key)] for key in measured)
            if largest > 0:
                errors[spread] = largest * (1 + values[spread]) / max(mean - largest, largest)
    return errors


# -- records --------------------------------------------------------------------------------------------------------


def _places(evaluation: Evaluation) -> Iterator[tuple[str, Place]]:
    """Yield the key and the place of each value, and of each summary that there may be."""
    named = evaluation.collection.named
    for metric in evaluation.members:
        if not metric.row_keys():
            continue  # values of single labels alone
        cutoffs = zip(metric.cutoff_keys(), metric.cutoffs, strict=True)
        for (stem, cutoff), group in product(cutoffs, metric.group_keys()):
            place = Place(named(stem), _whole_k(cutoff), "", group[1:])
            if metric.buckets is None:
                yield named(f"{stem}{group}"), place
                continue
            for bucket in metric.bucket_names:
                yield named(f"{stem}{group}/{bucket}"), place._replace(bucket=bucket)
            for summary in SUMMARIES:
                yield named(f"{stem}{group}/{summary}"), place._replace(summary=summary)


def _whole_k(cutoff: Any) -> int | None:
    """Return a cut-off in ranks; None for a threshold, or without a cut-off."""
    if isinstance(cutoff, int):
        return cutoff
    return None


def _records(evaluation: Evaluation, values: Values, facts: Mapping[str, MetricFacts]) -> list[Record]:
    places: dict[str, Place] = {}
    for key, place in _places(evaluation):
        places.setdefault(key, place)

    records = []
    for key, value in {**values.scalars, **values.summaries}.items():
        metric, k, bucket, row_group, summary = places[key]
        count, count_of = values.counts.get(key, (None, ""))
        alternatives = {name: values.alternatives.get(name, {}).get(key) for name in (*REFERENCES, *ORDERS)}
        records.append(
            Record(
                key,
                metric,
                value,
                k,
                bucket,
                row_group,
                summary,
                interval=values.intervals.get(key),
                count=count,
                count_of=count_of,
                error_bound=values.errors.get(key),
                facts=facts[metric],
                **alternatives,
            )
        )
    return records


def _metric_facts(evaluation: Evaluation, results: Sequence[tuple[TopKMetric, Result]]) -> dict[str, MetricFacts]:
    """Return what holds for all values of a metric; a metric by bucket and one over all labels may share a key."""
    named = evaluation.collection.named
    facts: dict[str, MetricFacts] = {}
    for metric, result in results:
        captions: dict[str, str] = {}
        meanings: dict[str, str] = {}
        if metric.buckets:
            captions.update(notes.captions(metric, result))
        else:
            meanings.update(notes.on_means(metric, result))
        empty_rows, treatment = _empty_rows(metric, result)
        for stem, cutoff in zip(metric.cutoff_keys(), metric.cutoffs, strict=True):
            key = named(stem)
            earlier = facts.get(key, MetricFacts(key))
            facts[key] = replace(
                earlier,
                k=_whole_k(cutoff),
                higher_is_better=metric.higher_is_better,
                is_place=earlier.is_place or bool(metric.formula.unit),
                is_additive=earlier.is_additive or metric.aggregation.is_additive,
                caption=captions.get(stem, earlier.caption),
                meaning=meanings.get(stem, earlier.meaning),
                overall_key=evaluation.over_all.get(key, earlier.overall_key),
                is_share_of_labels=earlier.is_share_of_labels or _is_share_of_labels(metric),
                empty_rows=empty_rows or earlier.empty_rows,
                empty_rows_treatment=treatment or earlier.empty_rows_treatment,
            )
    return facts


def _is_share_of_labels(metric: TopKMetric) -> bool:
    """Whether a metric is the mean share of a row's relevant labels that its list holds: recall with usual settings."""
    if type(metric) is not RecallAtK or metric.weighted or set(metric.unusual_settings()) - {*DATA, *WITHIN}:
        return False
    return metric.buckets is None or metric.reading.scope == "global"


def _empty_rows(metric: TopKMetric, result: Result) -> tuple[int, str]:
    """Return the number of rows to which ``empty_target_action`` applies, and how they count, in words."""
    if metric.buckets is not None or metric.weighted or result.facts.rows is None:
        return 0, ""
    rows, answered = result.facts.rows
    missing = metric.formula.lacking.removeprefix("no ")
    article = "an" if missing[0] in "aeiou" else "a"
    treatment = TREATMENTS.get(metric.empty_target_action, "count as 0")
    return rows - answered, f"without {article} {missing} {treatment}"


# -- buckets and labels ---------------------------------------------------------------------------------------------


def _buckets(
    evaluation: Evaluation, results: Sequence[tuple[TopKMetric, Result]], positives: Sequence[Sequence[int]]
) -> list[BucketRow]:
    """Return the buckets of all metrics, each name once."""
    labels_with_rows = _labels_with_rows(results)
    buckets: dict[str, BucketRow] = {}
    for kind, (bucketing, bucket_positives) in enumerate(zip_longest(evaluation.bucketings, positives)):
        for bucket in bucket_rows(bucketing, bucket_positives, kind):
            if bucket.name not in buckets:
                buckets[bucket.name] = replace(bucket, labels_with_rows=labels_with_rows.get(bucket.name))
    return list(buckets.values())


def _labels_with_rows(results: Sequence[tuple[TopKMetric, Result]]) -> dict[str, int]:
    """Return the number of labels with a relevant row by bucket; empty unless all macro averages by bucket agree."""
    numbers = set()
    for metric, result in results:
        if result.facts.labels_with_rows and metric.bound_buckets is not None:
            numbers.add(tuple(zip(metric.bound_buckets.names, result.facts.labels_with_rows, strict=True)))
    if len(numbers) != 1:
        return {}
    return dict(numbers.pop())


def _label_counts(evaluation: Evaluation) -> Tensor | None:
    counts = [bucketing.counts for bucketing in evaluation.bucketings if bucketing.counts is not None]
    return next(iter(counts), None)


def _label_table(evaluation: Evaluation, totals: Totals) -> LabelTable:
    columns = {}
    for name, column in evaluation.collection.per_label(zero_division=math.nan).items():
        columns[name] = column.cpu()
    names, num_labels = evaluation.label_names, len(columns["support"])
    if names is not None and len(names) != num_labels:
        raise ValueError(
            f"Evaluation: label_names holds {len(names)} names for {num_labels} labels; pass one for each."
        )

    table = LabelTable(columns, names)
    if evaluation.bucketings:
        bucketing = evaluation.bucketings[0]
        table = replace(table, buckets=bucketing.assignment, bucket_names=bucketing.names)
    if totals.crowded_rows:
        table = replace(
            table,
            crowded_support=totals.crowded_support,
            crowded_hits=totals.crowded_hits,
            crowded_rows=totals.crowded_rows,
        )
    if table.tests is not None:
        table = replace(table, instead=evaluation.interval_values.listed_instead(table.tests.listed.tolist()))
    return table


# -- notes ----------------------------------------------------------------------------------------------------------


def _notes(
    evaluation: Evaluation,
    results: Sequence[tuple[TopKMetric, Result]],
    values: Values,
    buckets: Sequence[BucketRow],
    totals: Totals,
) -> list[str]:
    """Return what a reader should know of the data and the metrics, and the warnings of all processes, each once."""
    named, counts = evaluation.collection.named, evaluation.counts
    ignored = evaluation.members[0].ignore_index  # equal in all members
    names, scalars = evaluation.label_names, values.scalars
    measured = {bucket.name for bucket in buckets if bucket.positives}
    chance = values.alternatives.get("chance", {})

    texts = [
        *whole_buckets(evaluation.members, named, measured),
        *notes.on_bins(results, named),
        *notes.on_misses(results, named),
        *notes.on_empty_rows(results, named),
        *notes.on_lost(totals.lost, totals.positives),
        *notes.on_buckets(evaluation.bucketings),
        *notes.on_padding(counts.counted, counts.top, ignored, names, totals.positives, totals.positives_of_top),
        *notes.on_chance(results, named, scalars, totals.num_labels, totals.shortest, chance, values.intervals),
        *notes.on_equal_grades(results, named, totals.equal_grades, totals.rows),
        *notes.on_ignored(totals.rows, totals.ignored_rows, ignored),
    ]
    warnings: dict[str, None] = {}
    for process_warnings in from_all(evaluation.warnings):
        warnings |= dict.fromkeys(process_warnings)
    return [*texts, *warnings]


# -- intervals from resampling --------------------------------------------------------------------------------------


def with_intervals(
    report: Report, intervals: Mapping[str, Interval] = NOTHING, averages: Mapping[str, Any] = NOTHING
) -> Report:
    """Return the report with these intervals, too; and with ``averages`` over labels at half of the rows.

    Args:
        report: The report.
        intervals: Intervals by key, which replace those of the report.
        averages: The contributions of rows to averages over labels, by key.
    """
    merged = {**report.intervals, **as_valued(intervals, {**report.scalars, **report.summaries})}
    merged |= _adjusted_gaps(report, merged)

    halves = dict(report.at_half_the_rows)
    texts = report.notes
    if not halves:
        for record in report.values_alone:
            average = averages.get(record.key)
            if isinstance(average, OverLabels) and not record.row_group and record.is_measured:
                halves[record.key] = at_half_the_rows(average)
        texts = (*texts, *notes.on_number_of_rows(averages, halves, merged))

    records = []
    for record in report.records:
        half = halves.get(record.key)
        records.append(replace(record, interval=merged.get(record.key), at_half_the_rows=half))
    labels = report.labels
    if labels is not None and any(interval.clusters is not None for interval in intervals.values()):
        labels = replace(labels, clustered=True)
    return replace(report, records=records, labels=labels, notes=texts)


def _adjusted_gaps(report: Report, intervals: Mapping[str, Interval]) -> dict[str, Interval]:
    """Return the intervals of adjusted gaps, given the intervals of gaps and of their ends."""
    adjusted_gaps = {}
    for record in report.records:
        gap = report.record(record.metric, row_group=record.row_group, summary="gap")
        if record.summary != "adjusted_gap" or record.key not in intervals or gap.key not in intervals:
            continue
        ends = first_and_last(_adjusted_ends(report, record, intervals))
        if len(ends) == 2:
            adjusted_gaps[record.key] = adjusted_gap(intervals[record.key], intervals[gap.key], *ends)
    return adjusted_gaps


def _adjusted_ends(report: Report, summary: Record, intervals: Mapping[str, Interval]) -> list[AdjustedEnd]:
    """Return each measured bucket of a summary in which more than chance is attainable."""
    ends = []
    for bucket in report.buckets:
        record = report.record(summary.metric, bucket.name, summary.row_group)
        if bucket.name == UNSEEN or record.chance is None or record.key not in intervals:
            continue
        span = abs(record.reference("attainable") - record.chance)
        if span > 0 and not math.isnan(intervals[record.key].value):
            ends.append(AdjustedEnd(intervals[record.key], record.chance, span))
    return ends
