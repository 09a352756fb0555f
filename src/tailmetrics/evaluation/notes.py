"""Notes and captions of a report: what a reader has to know of its values, made of facts of the metrics."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import torch

from tailmetrics._arguments import some_of
from tailmetrics.buckets import LabelBuckets
from tailmetrics.evaluation.description import captions_of, conventions_of
from tailmetrics.metrics import NDCGAtK, TopKMetric
from tailmetrics.metrics._metric import Result
from tailmetrics.ranking import EVERYTHING
from tailmetrics.report.formatting import number as report_number
from tailmetrics.significance.areas import AreaRows
from tailmetrics.significance.interval import Interval
from tailmetrics.significance.labels import LabelRows, OverLabels

Known: TypeAlias = "Sequence[tuple[TopKMetric, Result]]"
"""The metrics of an evaluation, each with its values and what is known of them."""

Named: TypeAlias = "Callable[[str], str]"
"""Returns a key as the collection names it."""

SHOWN_DIGIT = 1e-4
"""The last digit that reports show of a value."""
SAID = 3
"""The most values that a note names; it counts the remaining ones."""
MANY_EMPTY = 0.01
"""Share of rows without a relevant label above which a report mentions them; a smaller share changes means by < 1 %."""
PADDING_SHARE = 0.1
"""From this share of all training labels on, a label that is relevant in no row is noted: it fills a decile."""
SHOWN_SHARE = 5e-4
"""The smallest share that a percentage with one decimal place shows as more than 0.0%."""


def on_bins(known: Known, named: Named) -> Iterator[str]:
    """Yield a note on the largest error of values from bins of scores, if the error shows in four digits."""
    furthest: dict[int, list[str]] = {}
    for metric, result in known:
        if result.facts.bounds is not None:
            value, (low, high) = result.values.reshape(-1), (side.reshape(-1) for side in result.facts.bounds)
            value = value[: low.numel()].to(low)  # over all rows, which come first
            off = torch.maximum(high - value, value - low).nan_to_num().tolist()
            most, key = max(zip(off, map(named, metric.row_keys()), strict=True))
            of = f"{key}, of its buckets the furthest," if metric.buckets is not None else key
            if most >= SHOWN_DIGIT:
                furthest.setdefault(metric.settings()["bins"], []).append(f"{of} by up to {most:.2g}")
    for bins, said in furthest.items():
        yield (
            f"Scores of a label in one of {bins:,} bins count as equal. Where they differ, values may be off: "
            f"{'; '.join(said)}. error_bounds() of a metric has the ends; more bins, or logits in place of "
            "probabilities, bring them together."
        )


def on_misses(known: Known, named: Named) -> Iterator[str]:
    """Yield a note on rows whose list does not reach the recall of a metric: their share, and their value."""
    found: dict[str, tuple[int, list[str]]] = {}  # a metric by bucket and one over all labels may share a key
    for metric, result in known:
        if result.facts.miss is not None:
            miss, shares = result.facts.miss
            most, name = max(zip(shares, metric.bucket_names or ("",), strict=True))
            if most >= SHOWN_SHARE:
                said = found.setdefault(named(metric.cutoff_keys()[0]), (miss, []))[1]
                said.append(f"up to {most:.1%} of the rows in {name}" if name else f"{most:.1%} of the rows")
    keys: dict[str, list[str]] = {}
    for key, (miss, said) in found.items():
        rows = ", ".join(sorted(said))  # sorted: a share of all rows, then shares "up to"
        keys.setdefault(f"{rows} do not reach the recall within their list and count as {miss:,}", []).append(key)
    for rows, of in keys.items():
        yield f"{', '.join(of)}: {rows}, which is no rank. Compare runs only if this number is the same."


def on_classes(known: Known, named: Named, num_rows: int, positives: int) -> Iterator[str]:
    """Yield a note on accuracies, if rows have more than one relevant label on average."""
    accuracies = (one for one, _ in known if one.formula.of_one_class and one.buckets is None)
    keys = [named(key) for metric in accuracies for key in metric.row_keys()]
    if keys and positives > num_rows:
        yield (
            f"{', '.join(keys)}: rows have {positives / num_rows:.2f} relevant labels on average, any of which "
            "counts as right. Accuracy is of one class per row: where several cases were merged, such as the "
            "visits of a user, make each case a row."
        )


def on_empty_rows(known: Known, named: Named) -> Iterator[str]:
    """Yield a note on rows without a relevant label, if they change means: their number, and how they count."""
    keys: dict[str, list[str]] = {}
    with_rows = [(metric, result.facts.rows) for metric, result in known if result.facts.rows is not None]
    for metric, (rows, answered) in ((metric, rows) for metric, rows in with_rows if rows is not None):
        if metric.buckets is not None or metric.weighted:
            continue
        level = "" if metric.min_gain is None or metric.formula.reads_gains else f" at min_gain={metric.min_gain:g}"
        said = f"{rows - answered:,} of {rows:,} rows have {metric.formula.lacking}{level}"
        counted = {"skip": "are left out of", "pos": "count as 1 in"}
        said += f", and {counted.get(metric.empty_target_action, 'count as 0 in')} "
        if rows - answered > (0 if level else MANY_EMPTY * rows):
            keys.setdefault(said, []).extend(map(named, metric.row_keys()))
    by_bucket = {metric.empty_target_action for metric, _ in with_rows if metric.buckets is not None}
    for said, of in keys.items():
        hint = "; empty_target_action='skip' leaves them out." if "count as" in said else "."
        if "count as 0" in said and "skip" in by_bucket:
            hint += " Buckets leave them out, so that the value over all labels may be below that of each bucket."
        yield f"{said}{', '.join(of)}{hint}"


def is_full_for_equal_grades(metric: TopKMetric) -> bool:
    """Whether a metric over all labels is 1 for every order of labels that have one grade."""
    return isinstance(metric, NDCGAtK) and metric.buckets is None


def on_equal_grades(known: Known, named: Named, rows: int, num_rows: int) -> Iterator[str]:
    """Yield a note on rows whose labels all have one grade: their number, and that every order has the value 1."""
    keys = [named(key) for metric, _ in known if is_full_for_equal_grades(metric) for key in metric.row_keys()]
    if keys and rows > MANY_EMPTY * num_rows:
        yield (
            f"In {rows:,} of {num_rows:,} rows all labels have one grade: every order of them has the value 1 in "
            f"{', '.join(keys)}, which says nothing of the model."
        )


def on_buckets(bucketings: Sequence[LabelBuckets]) -> Iterator[str]:
    """Yield a note on the labels that are in their bucket because of their id, not of their frequency."""
    for one in bucketings:
        number = one.labels_by_id()
        if number >= SHOWN_SHARE * one.num_labels:
            yield (
                f"{number:,} of {one.num_labels:,} labels are in their bucket only by their id: a border between "
                f"{one.names[0]} … {one.names[-2]} falls among labels of equal training counts. Quantiles with "
                "ties='together', or thresholds, keep such labels in one bucket."
            )


def on_lost(lost: int, positives: int) -> Iterator[str]:
    """Yield a note on relevant labels with a score of ``-inf``: their share."""
    if lost >= SHOWN_SHARE * max(1, positives):
        yield (
            f"{lost / positives:.1%} of the relevant labels have a score of -inf and count as missed. If a filter of "
            "seen labels covers them, take them out of the filter, or out of the targets."
        )


def on_ignored(num_rows: int, left_out: int, ignored: int | None) -> Iterator[str]:
    """Yield a note on the number of rows that ``ignore_index`` leaves out."""
    if left_out:
        yield f"{left_out:,} of {num_rows + left_out:,} rows are left out by ignore_index={ignored}."


def on_padding(
    buckets: LabelBuckets | None,
    top: int,
    ignored: int | None,
    label_names: Sequence[str] | None,
    positives: int,
    of_top: int,
) -> Iterator[str]:
    """Yield a note on the most frequent label of training, ``top``, if it is relevant in no row, as padding is."""
    if buckets is None or buckets.counts is None or ignored == top:
        return
    share = int(buckets.counts[top]) / max(1, int(buckets.counts.sum()))
    # from 20 expected positives on, none at all has a chance below 1e-8
    if share >= PADDING_SHARE and not of_top and share * positives >= 20:
        number = int(buckets.assignment[top])
        name = buckets.names[number]
        named = f" ({label_names[top]})" if label_names is not None else ""
        alone = int(buckets.label_counts[number]) == 1
        what = f"{name} is label {top}{named} alone" if alone else f"Label {top}{named} of {name} is frequent"
        yield (
            f"{what}: {share:.0%} of all labels in training, and relevant in no row. If it pads the training "
            f"targets, make the metrics with ignore_index={top}: deciles then hold what is left."
        )


def on_chance(
    known: Known,
    named: Named,
    scalars: Mapping[str, float],
    columns: int,
    shortest: int,
    label_names: Sequence[str] | None,
    chance: Mapping[str, float],
    intervals: Mapping[str, Interval],
) -> Iterator[str]:
    """Yield a note on values over all labels that are worse than with equal scores: label ids may not match.

    Equal scores rank all labels, so that a list which ends before a cut-off can be worse, and valid.
    """
    worse = []
    for metric in (one for one, _ in known if one.buckets is None):
        for key, k in zip(map(named, metric.row_keys()), metric.cutoffs, strict=False):
            if metric.formula.is_of_softmax and columns:
                worse += [key] if math.log(columns) + SHOWN_DIGIT < scalars[key] < math.inf else []
            elif metric.cutoffs != (None,) and metric.higher_is_better and key in chance and key in intervals:
                whole = (metric.reading.places(k) or EVERYTHING) <= shortest
                worse += [key] if whole and intervals[key].high < chance[key] else []
    if worse:
        lists = shortest < EVERYTHING
        of_names = "predictions and targets call the same labels by the same names"
        of_ids = f"the targets number labels as {'the lists' if lists else 'the columns of preds'} do, from 0"
        axis = "" if lists or label_names is not None else ", whether the last axis of preds is that of labels"
        order = "each list begins with the best label" if lists else "the largest score is the best"
        yield (
            f"Worse than with equal scores for all labels: {', '.join(worse)}. Look whether "
            f"{of_ids if label_names is None else of_names}{axis}, and whether {order}."
        )


def on_shared_places(
    known: Known, named: Named, scalars: Mapping[str, float], over_all: Mapping[str, str]
) -> Iterator[str]:
    """Yield a note on metrics of which the value of each bucket is below the value over all labels."""
    found = []
    for metric, _ in known:
        of_one_list = metric.buckets is not None and metric.reading.scope == "global"
        if of_one_list and metric.higher_is_better and not metric.aggregation.is_additive:
            for stem in map(named, metric.cutoff_keys()):
                values = (scalars[key] for key in map(named, metric.row_keys()) if key.rpartition("/")[0] == stem)
                whole, measured = scalars.get(over_all.get(stem, ""), math.nan), [*filter(math.isfinite, values)]
                found += [stem] if len(measured) > 1 and max(measured) < whole else []
    if found:
        yield (
            f"Each bucket is below the value over all labels: {', '.join(found)}. The buckets share the places of one "
            "list, so that relevant labels of other buckets take places from those of a bucket. The labels of each "
            "bucket ranked among themselves: scope='bucket'."
        )


def on_number_of_rows(
    averages: Mapping[str, OverLabels], halves: Mapping[str, float], intervals: Mapping[str, Interval]
) -> Iterator[str]:
    """Yield a note on averages over labels that depend on the number of rows, with an estimate for many rows.

    Args:
        averages: The contributions of rows by key.
        halves: The values at half of the rows.
        intervals: The intervals by key, with the values.
    """
    said: list[tuple[bool, float, str]] = []
    for key in halves.keys() & intervals.keys():
        one, found, half = averages[key], intervals[key], halves[key]
        if found.moves(half):
            # coverage reaches 1, and counts of what is shown have no limit
            many = min(1.0, max(0.0, 2 * found.value - half))
            has_limit = isinstance(one, AreaRows) or (isinstance(one, LabelRows) and one.top > 0)
            bound = "or less" if found.value < half else "or more"
            trend = f", {report_number(many)} {bound} with many" if has_limit else ""
            moved = f"{report_number(half)} at half of them, {report_number(found.value)}{trend}"
            verb = "rises" if found.value > half else "falls"
            size = abs(found.value - half) / (found.high - found.low)
            said.append((not has_limit, -size, f"{key} {verb} with more rows ({moved})"))
        elif found.low != found.high and isinstance(one, LabelRows) and one.rests_on_single_rows():
            said.append((False, 0.0, f"{key} ({report_number(found.value)}) has one row for most of its labels"))
    texts = [text for *_, text in sorted(said)]
    if texts:
        yield (
            "Averages over labels depend on the number of rows. Do not compare these with values of another number of "
            f"rows: {'; '.join(some_of(texts, SAID))}."
        )


def captions(metric: TopKMetric, result: Result) -> Iterator[tuple[str, str]]:
    """Yield each key, without bucket, of a metric by bucket with its caption; calibration errors add numbers."""
    for place, (stem, said) in enumerate(captions_of(metric).items()):
        if result.facts.calibration is not None:
            each = ", ".join(
                f"{name} {shown:,} ({report_number(mean)}, {report_number(right)})"
                for name, shown, mean, right in zip(metric.bucket_names, *result.facts.calibration[place], strict=True)
            )
            said += f"; predictions (their mean probability, the share that is right): {each}"
        yield stem, said


def on_means(metric: TopKMetric, result: Result) -> Iterator[tuple[str, str]]:
    """Yield keys over all labels with a text: the labels of a macro average, or the bias of predicted probabilities."""
    over, facts = metric.aggregation.mean_over(), result.facts
    if facts.calibration is not None:
        for key, ((shown,), (confidence,), (accuracy,)) in zip(metric.row_keys(), facts.calibration, strict=True):
            bias = (
                "over-" if confidence > accuracy else "under-" if confidence < accuracy else "neither over- nor under-"
            )
            mean = f"predictions have a mean probability of {confidence:.4f}"
            if shown:
                yield key, f"{bias}confident on average: {mean}, and {accuracy:.4f} of them are right"
        return
    said = over and facts.labels_with_rows is not None and _at_most(metric, facts.labels_with_rows[0])
    text = "; ".join(filter(None, [f"{over}{said or ''}", conventions_of(metric)]))
    yield from ((key, text) for key in metric.row_keys() if text)


def _at_most(metric: TopKMetric, with_rows: int) -> str:
    """Return in words the largest possible mean over all labels, which is below 1 if a label has no relevant row."""
    number = metric.num_labels or 0
    if metric.settings()["labels"] != "all" or with_rows == number:
        return ""
    reach = f"so that it can reach {with_rows / number:.4f}"
    return f", of which {number - with_rows:,} of {number:,} have no relevant row and count 0, {reach}"
