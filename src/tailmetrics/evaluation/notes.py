"""Notes of a report: what a reader has to know of its values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from tailmetrics._arguments import some_of
from tailmetrics._transfer import num_processes
from tailmetrics.buckets import LabelBuckets
from tailmetrics.collection import TopKCollection
from tailmetrics.evaluation.data import Data
from tailmetrics.evaluation.labels import are_label_ids
from tailmetrics.evaluation.metric_facts import (
    num_empty_rows,
    treatment_of_empty_rows,
)
from tailmetrics.evaluation.options import Options
from tailmetrics.evaluation.row_counts import RowCounts, Totals
from tailmetrics.evaluation.row_facts import Named
from tailmetrics.evaluation.values import Results, Values
from tailmetrics.metrics import NDCGAtK, TopKMetric
from tailmetrics.metrics._mistakes import (
    warnings_of_small_buckets,
    warnings_of_whole_lists,
)
from tailmetrics.ranking import EVERYTHING
from tailmetrics.report.breakdowns import BucketRow
from tailmetrics.report.formatting import number as report_number
from tailmetrics.significance.areas import AreaRows
from tailmetrics.significance.influence import Ints
from tailmetrics.significance.interval import Interval
from tailmetrics.significance.labels import LabelRows, OverLabels

ON_SEQUENCES = (
    "Rows of one sequence are taken for independent: where they are alike, intervals "
    "are too narrow, and differences seem more certain than they are. evaluate and "
    "compare take the sequence of each row by clusters=."
)
"""The note on rows that are places in sequences, with scores (B, T, L)."""
SHOWN_DIGIT = 1e-4
"""The last digit that reports show of a value."""
MOST_NAMED = 3
"""The most values that a note names; it counts the remaining ones."""
MANY_EMPTY = 0.01
"""Share of rows without a relevant label above which a report mentions them.

A smaller share changes means by less than 1 %.
"""
PADDING_SHARE = 0.1
"""Share of all training labels from which a label that is never relevant is noted.

Such a label fills a decile.
"""
EXPECTED_POSITIVES = 20
"""Expected positives of a label from which the chance of none is below 1e-8."""
SHOWN_SHARE = 5e-4
"""The smallest share that a percentage with one decimal shows as more than 0.0%."""
LEFT_OUT_BY_SKIP = "; empty_target_action='skip' leaves them out."
"""Advice on rows that count although they have no relevant label."""


def on_data(
    data: Data,
    options: Options,
    label_counts: Any,
    metrics: Iterable[TopKMetric],
    has_intervals: bool,
) -> Iterator[str]:
    """Yield notes on sequences, processes, the catalogue and unseen labels.

    Args:
        data: The data.
        options: The arguments as the user passed them.
        label_counts: The training counts in the order of label ids.
        metrics: The metrics.
        has_intervals: Whether intervals are computed.
    """
    if data.tokens > 1 and options.clusters is None and has_intervals:
        yield ON_SEQUENCES
    if num_processes() > 1:
        yield (
            f"the rows are those that this process passed, one of {num_processes()}: "
            "unlike metrics, a report adds nothing up over processes."
        )
    if data.label_names is not None and options.label_names is None:
        if not options.catalogue:  # of several runs, which have one catalogue
            clause, hint = "preds and the other arguments name", "label_names=ITEMS"
            yield from on_catalogue(metrics, len(data.label_names), clause, hint)

        if options.label_counts is not None and not options.counts_have_names:
            yield from on_order_of_counts(data.label_names, data.label_order)
    elif data.train is not None and data.may_have_gaps and not options.stated_numbers():
        clause, hint = (
            "the largest id of these data implies",
            "label_names=ITEMS, or num_labels=L to a metric",
        )
        yield from on_catalogue(metrics, data.train.num_labels, clause, hint)

    counts = None
    if data.train is not None:
        counts = data.train.compute()
    elif options.counts_have_names:
        counts = torch.as_tensor(label_counts)
    if counts is not None and data.label_names is not None:
        yield from on_unseen(counts, None)
    elif counts is not None and data.may_have_gaps:
        yield from on_unseen(counts, "pass lists of strings or a table")


def on_order_of_counts(names: Sequence[str], order: Tensor | None) -> Iterator[str]:
    """Yield a note on training counts without names, if label names show no order.

    Args:
        names: The name of each label id.
        order: Shape (L,), int64: label ids in the order of the counts; None for the
            order of ids.
    """
    if are_label_ids(names, order):
        return
    first = names[0 if order is None else int(order[0])]
    yield (
        "label_counts have no names, and are read in the ascending order of the names "
        f"of labels: the first is of {first!r}. Pass a dict from name to count, or "
        "label_names= in the order of the counts."
    )


def on_catalogue(
    metrics: Iterable[TopKMetric], num_labels: int, clause: str, hint: str
) -> Iterator[str]:
    """Yield a note on the size of the catalogue if a metric depends on it.

    Args:
        metrics: The metrics.
        num_labels: The number of labels of the catalogue.
        clause: The source of these labels with a verb, such as ``"the files name"``.
        hint: The argument or option that gives one catalogue to all runs.
    """
    keys: dict[str, None] = {}
    for metric in metrics:
        if metric.aggregation.depends_on_catalogue:
            keys |= dict.fromkeys(metric.cutoff_keys())
    if keys:
        yield (
            f"The catalogue is the {num_labels:,} labels that {clause}. Before values "
            "that depend on its size are compared between runs, give all one "
            f"catalogue: {hint}. These are "
            f"{', '.join(some_of(list(keys), MOST_NAMED))}."
        )


def on_unseen(counts: Tensor, hint: str | None) -> Iterator[str]:
    """Yield a note on the labels without a training count, if most labels have none.

    Args:
        counts: Shape (L,), int64.
        hint: Advice on closing gaps between label ids; None if labels have names, so
            that ids have no gaps.
    """
    unseen = int((counts == 0).sum())
    # more suggest gaps between ids, which coverage, Gini and "unseen" would count
    if unseen <= counts.numel() / 2:
        return
    share = f"{unseen:,} of {counts.numel():,} labels"
    if hint is None:
        yield f"{share} have no training count and are unseen."
    else:
        yield (
            f"{share} never occur in training. If the numbers of labels have gaps, "
            f"each number met should be one label: {hint}."
        )


def on_bins(results: Results, named: Named) -> Iterator[str]:
    """Yield a note on the largest error of values from bins, if four digits show it."""
    errors: dict[str, float] = {}
    for metric, result in results:
        for key in metric.row_keys():
            if result.errors.get(key, math.nan) >= SHOWN_DIGIT:
                errors[named(key)] = result.errors[key]
    if errors:
        key = max(errors, key=errors.__getitem__)
        yield (
            "Scores of a label in one bin count as equal. Where they differ, values "
            f"may be off by up to {errors[key]:.2g} ({key}). error_bounds() of a "
            "metric has the ends; more bins, or logits in place of probabilities, "
            "bring them together."
        )


def on_misses(results: Results, named: Named) -> Iterator[str]:
    """Yield a note on rows whose list does not reach the recall of a metric.

    The note says the share of these rows, and their value.
    """
    keys_by_text: dict[str, list[str]] = {}
    for metric, result in results:
        if result.facts.miss is None or metric.buckets is not None:
            continue
        miss_value, (share,) = result.facts.miss
        if share >= SHOWN_SHARE:
            text = (
                f"{share:.1%} of the rows do not reach the recall within their list "
                f"and count as {miss_value:,}"
            )
            keys_by_text.setdefault(text, []).extend(map(named, metric.cutoff_keys()))

    for text, keys in keys_by_text.items():
        yield (
            f"{', '.join(keys)}: {text}, which is no rank. Compare runs only if this "
            "number is the same."
        )


def on_empty_rows(results: Results, named: Named, rows: int) -> Iterator[str]:
    """Yield a note on rows without a relevant label, if they change means.

    The note says the number of these rows, and how they count.

    Args:
        results: The values of the metrics.
        named: Adds prefix and postfix to a key.
        rows: The number of rows that were evaluated.
    """
    keys_by_text: dict[tuple[str, str], list[str]] = {}
    for metric, result in results:
        empty = num_empty_rows(metric, result, rows)
        level, least = "", MANY_EMPTY * rows
        if metric.min_gain is not None and not metric.formula.reads_gains:
            level, least = f" at min_gain={metric.min_gain:g}", 0
        if empty <= least:
            continue
        preposition, hint = "in", LEFT_OUT_BY_SKIP
        if metric.empty_target_action == "skip":
            preposition, hint = "of", "."
        text = (
            f"{empty:,} of {rows:,} rows have {metric.formula.lacking}{level}, and "
            f"{treatment_of_empty_rows(metric)} {preposition}"
        )
        keys_by_text.setdefault((text, hint), []).extend(map(named, metric.row_keys()))

    for (text, hint), keys in keys_by_text.items():
        yield f"{text} {', '.join(keys)}{hint}"


def is_full_for_equal_grades(metric: TopKMetric) -> bool:
    """Return whether a metric over all labels is 1 for any order of equal grades."""
    return isinstance(metric, NDCGAtK) and metric.buckets is None


def on_equal_grades(results: Results, named: Named, totals: Totals) -> Iterator[str]:
    """Yield a note on rows whose labels all have one grade.

    The note says their number, and that every order of their labels has the value 1.
    """
    keys: list[str] = []
    for metric, _ in results:
        if is_full_for_equal_grades(metric):
            keys += map(named, metric.row_keys())
    rows = totals.equal_grades
    if keys and rows > MANY_EMPTY * totals.rows:
        yield (
            f"In {rows:,} of {totals.rows:,} rows all labels have one grade: every "
            f"order of them has the value 1 in {', '.join(keys)}, which says nothing "
            "of the model."
        )


def on_groups(totals: Totals) -> Iterator[str]:
    """Yield a note on rows without a group."""
    rows = totals.rows - sum(totals.rows_of_groups)
    if totals.rows_of_groups and rows:
        yield f"{rows:,} of {totals.rows:,} rows have no group and count only overall."


def on_buckets(bucketings: Sequence[LabelBuckets]) -> Iterator[str]:
    """Yield a note on labels that are in a bucket by their id, not their frequency."""
    for buckets in bucketings:
        number = buckets.labels_by_id()
        if number >= SHOWN_SHARE * buckets.num_labels:
            yield (
                f"{number:,} of {buckets.num_labels:,} labels are in their bucket "
                "only by their id: a border between "
                f"{buckets.names[0]} … {buckets.names[-2]} falls among labels of "
                "equal training counts. Quantiles with "
                "ties='together', or thresholds, keep such labels in one bucket."
            )


def on_lost(totals: Totals) -> Iterator[str]:
    """Yield a note on relevant labels with a score of ``-inf``: their share."""
    share = totals.lost / max(1, totals.positives)
    if share >= SHOWN_SHARE:
        yield (
            f"{share:.1%} of the relevant labels have a score of -inf and count as "
            "missed. If a filter of seen labels covers them, take them out of the "
            "filter, or out of the targets."
        )


def on_ignored(totals: Totals, ignore_index: int | None) -> Iterator[str]:
    """Yield a note on the number of rows that ``ignore_index`` leaves out."""
    ignored = totals.ignored_rows
    if ignored:
        yield (
            f"{ignored:,} of {totals.rows + ignored:,} rows are left out by "
            f"ignore_index={ignore_index}."
        )


def on_padding(
    counts: RowCounts,
    totals: Totals,
    ignore_index: int | None,
    label_names: Sequence[str] | None,
) -> Iterator[str]:
    """Yield a note on the most frequent training label, if it is never relevant.

    Padding is such a label.
    """
    buckets, top = counts.counted_buckets, counts.top
    if (
        buckets is None
        or buckets.counts is None
        or ignore_index == top
        or totals.positives_of_top
    ):
        return
    share = int(buckets.counts[top]) / max(1, int(buckets.counts.sum()))
    if share < PADDING_SHARE or share * totals.positives < EXPECTED_POSITIVES:
        return

    bucket = int(buckets.assignment[top])
    label = f"{top}"
    if label_names is not None:
        label = f"{top} ({label_names[top]})"
    text = f"Label {label} of {buckets.names[bucket]} is frequent"
    if int(buckets.label_counts[bucket]) == 1:
        text = f"{buckets.names[bucket]} is label {label} alone"
    yield (
        f"{text}: {share:.0%} of all labels in training, and relevant in no row. If it "
        f"pads the training targets, make the metrics with ignore_index={top}: deciles "
        "then hold what is left."
    )


def on_chance(
    results: Results, named: Named, values: Values, totals: Totals
) -> Iterator[str]:
    """Yield a note on values over all labels that are worse than with equal scores.

    Label ids of predictions and targets may not match then. Equal scores rank all
    labels, so that a list which ends before a cut-off can be worse, and valid.
    """
    worse_keys = []
    for metric, _ in results:
        if metric.buckets is not None:
            continue
        for key, cutoff in zip(
            map(named, metric.row_keys()), metric.cutoffs, strict=False
        ):
            if _is_worse_than_chance(metric, key, cutoff, values, totals):
                worse_keys.append(key)
    if worse_keys:
        yield (
            f"Worse than with equal scores for all labels: {', '.join(worse_keys)}. "
            "Look whether preds and target number the labels alike, from 0, or call "
            "them by the same names; whether the last axis of scores is that of "
            "labels; and whether the largest score, or the first place of a list, is "
            "the best."
        )


def _is_worse_than_chance(
    metric: TopKMetric, key: str, cutoff: Any, values: Values, totals: Totals
) -> bool:
    """Return whether a value is worse than with equal scores, beyond its interval."""
    if metric.formula.is_of_softmax and totals.num_labels:
        return math.log(totals.num_labels) + SHOWN_DIGIT < values.all[key] < math.inf
    chance = values.alternatives.get("chance", {}).get(key)
    interval = values.intervals.get(key)
    if (
        chance is None
        or interval is None
        or cutoff is None
        or not metric.higher_is_better
    ):
        return False
    reaches_cutoff = (metric.reading.places(cutoff) or EVERYTHING) <= totals.shortest
    return reaches_cutoff and interval.high < chance


def on_number_of_rows(
    averages: Mapping[str, OverLabels],
    halves: Mapping[str, float],
    intervals: Mapping[str, Interval],
    clusters: Ints | None,
) -> Iterator[str]:
    """Yield a note on averages over labels that depend on the number of rows.

    Args:
        averages: The contributions of rows by key.
        halves: The values at half of the rows.
        intervals: The intervals by key, with the values.
        clusters: Shape (N,), the cluster of each row, from 0; None for single rows.
    """
    unit = "row"
    if clusters is not None:
        unit = "cluster"
    # sorted: averages with a limit first, then those that move most
    sentences: list[tuple[bool, float, str]] = []
    for key in halves.keys() & intervals.keys():
        average, interval, half = averages[key], intervals[key], halves[key]
        if _moves(average, interval, half, clusters):
            size = abs(interval.value - half) / (interval.high - interval.low)
            sentences.append(
                (
                    not _has_limit(average),
                    -size,
                    f"{key} {_movement(average, interval, half)}",
                )
            )
        elif interval.low != interval.high and _rests_on_single_units(
            average, clusters
        ):
            value = report_number(interval.value)
            sentences.append(
                (False, 0.0, f"{key} ({value}) has one {unit} for most of its labels")
            )
    if sentences:
        texts = [text for *_, text in sorted(sentences)]
        yield (
            f"Averages over labels depend on the number of {unit}s. Do not compare "
            f"these with values of another number of {unit}s: "
            f"{'; '.join(some_of(texts, MOST_NAMED))}."
        )


def _moves(
    average: OverLabels, interval: Interval, half: float, clusters: Ints | None
) -> bool:
    """Return whether an average moves with the number of rows.

    Its expectation depends on this number, and its value at half of the rows differs,
    in the direction of the trend if that is known.
    """
    if not interval.moves(half) or average.trend * (interval.value - half) < 0:
        return False
    return average.moves_with_rows(clusters)


def _has_limit(average: OverLabels) -> bool:
    """Return whether the limit of an average with many rows is of interest.

    Coverage reaches 1, and functions of the shown labels have no limit.
    """
    return isinstance(average, AreaRows) or (
        isinstance(average, LabelRows) and average.top > 0
    )


def _rests_on_single_units(average: OverLabels, clusters: Ints | None) -> bool:
    return isinstance(average, LabelRows) and average.rests_on_single_units(clusters)


def _movement(average: OverLabels, interval: Interval, half: float) -> str:
    """Return in words how a value differs from its value at half of the rows.

    A value rises or falls with more rows only if the trend is known. A mean over all
    labels that rose by v - h from half of the rows rises at least as much from here
    on, if labels keep coming as they did; the lower end of its interval takes the place
    of v, because v itself may be too large by chance.
    """
    value = interval.value
    numbers = f"{report_number(half)} at half of them, {report_number(value)}"
    if not average.trend:
        return f"({numbers})"
    verb = "falls"
    if average.trend > 0:
        verb = "rises"
    bound = interval.low + value - half
    if _has_limit(average) and bound > value:
        numbers += f", {report_number(bound)} or more with many"
    return f"{verb} with more rows ({numbers})"


def on_results(
    collection: TopKCollection,
    counts: RowCounts,
    totals: Totals,
    results: Results,
    values: Values,
    buckets: Sequence[BucketRow],
    label_names: Sequence[str] | None,
) -> Iterator[str]:
    """Yield the notes that a reader of a report needs on the data and the metrics.

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

    yield from warnings_of_small_buckets(members, named, measured)
    yield from warnings_of_whole_lists(members, named, labels_in_each_list)
    yield from on_bins(results, named)
    yield from on_misses(results, named)
    yield from on_empty_rows(results, named, totals.rows)
    yield from on_lost(totals)
    yield from on_buckets(counts.bucketings)
    yield from on_padding(counts, totals, ignored, label_names)
    yield from on_chance(results, named, values, totals)
    yield from on_equal_grades(results, named, totals)
    yield from on_ignored(totals, ignored)
    yield from on_groups(totals)
