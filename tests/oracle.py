"""A second implementation of every metric, in plain loops over lists, sets, dicts and
exact fractions.

It shares no line with the library: slow, free of tensors, and plain enough to be
checked by eye. Counts are kept as `Fraction` until the last step, and real sums use
`math.fsum`.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import TypeVar

Number = Fraction | float
T = TypeVar("T")
NAN = math.nan


@dataclass(frozen=True)
class Row:
    """One row: retrieved ids, best first; relevant label -> gain > 0; scores of all
    labels where they are needed.
    """

    ranked: list[int]
    relevant: dict[int, float]
    scores: list[float] | None = None
    among: frozenset[int] = frozenset()
    """Labels that compete with the relevant ones: of the bucket, or all."""
    irrelevant: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Setting:
    """The arguments of a metric; `denominator=None` is the metric's own default."""

    k: int | None
    assignment: list[int] | None = None
    num_buckets: int = 0
    num_labels: int | None = None
    scope: str = "bucket"
    average: str | None = None
    depth: int = 500
    empty_target_action: str | None = None
    counts: list[int] | None = None
    num_train: int | None = None
    a: float = 0.55
    b: float = 1.5
    denominator: str | None = None
    gain: str = "linear"
    normalization: str = "normalized"
    labels: str = "present"
    statistic: str = "median"
    min_recall: float = 0.8
    miss_value: int | None = None
    min_gain: float | None = None
    threshold: float | Sequence[float] = 0.5
    beta: float = 2.0
    persistence: float = 0.8
    max_gain: float = 1.0
    bins: int = 15
    parents: Sequence[int] = ()


def evaluate(name: str, rows: Sequence[Row], setting: Setting) -> float | list[float]:
    """Return the value of the metric class `name`: one float, or with buckets one for
    each (NaN for a bucket without a label or a row).
    """
    default = (
        "macro"
        if name in ("LabelAUC", "LabelAP")
        else "micro"
        if name.endswith("AtThreshold")
        else "samples"
    )
    setting = replace(setting, average=setting.average or default)
    if setting.min_gain is not None:
        rows = [
            replace(row, relevant=_from(row.relevant, setting.min_gain)) for row in rows
        ]
    if name.endswith("AtThreshold"):
        name = name.replace("AtThreshold", "AtK")
        rows = [replace(row, ranked=_above(row, setting.threshold)) for row in rows]
    if name == "F1AtK":
        setting = replace(setting, beta=1.0)
    if setting.assignment is None:
        return _evaluate_labels(name, rows, setting, None)
    setting = replace(setting, num_labels=len(setting.assignment))
    members: list[set[int]] = [set() for _ in range(setting.num_buckets)]
    for label, bucket in enumerate(setting.assignment):
        members[bucket].add(label)
    return [
        _evaluate_labels(name, rows, setting, member) if member else NAN
        for member in members
    ]


def _from(relevant: dict[int, float], least: float) -> dict[int, float]:
    return {label: gain for label, gain in relevant.items() if gain >= least}


def _above(row: Row, threshold: float | Sequence[float]) -> list[int]:
    each = (
        [threshold] * len(_needed(row.scores))
        if isinstance(threshold, float)
        else threshold
    )
    return [
        label
        for label, (score, limit) in enumerate(
            zip(_needed(row.scores), each, strict=True)
        )
        if score > limit
    ]


def rank_scores(scores: Sequence[float]) -> list[int]:
    """Return label ids by falling score, the lower id first in a tie; a score of -inf
    is not retrieved.
    """
    retrieved = [label for label, score in enumerate(scores) if score != -math.inf]
    return sorted(retrieved, key=lambda label: (-scores[label], label))


def deciles(counts: Sequence[int]) -> list[int]:
    """Return the bucket of each label: 0 is decile_10 (most frequent), 9 is decile_1,
    10 is unseen.
    """
    assignment = [10] * len(counts)
    unplaced = sum(counts)
    bucket, mass, at_opening = 0, 0, unplaced
    for label in sorted(range(len(counts)), key=lambda label: (-counts[label], label)):
        if counts[label] == 0:
            continue
        assignment[label] = bucket
        mass += counts[label]
        unplaced -= counts[label]
        if mass * (10 - bucket) >= at_opening:
            bucket, mass, at_opening = bucket + 1, 0, unplaced
    return assignment


def _evaluate_labels(
    name: str, rows: Sequence[Row], setting: Setting, labels: set[int] | None
) -> float:
    if name in PREDICTION_METRICS:
        return PREDICTION_METRICS[name](rows, setting, labels) if rows else NAN
    if name == "KForRecall":
        return _k_for_recall(
            [_view(row, setting, labels, cut=True) for row in rows], setting
        )
    views = [_view(row, setting, labels) for row in rows]
    by_row = (
        "skip"
        if labels is not None or name in ("RowAUC", "CrossEntropy")
        else "pos"
        if name == "FallOutAtK"
        else "neg"
    )
    action = setting.empty_target_action or (
        by_row if setting.average == "samples" else "neg"
    )
    lacking = [_lacks(name, view) for view in views]
    if action == "error" and any(lacking):
        raise ValueError(f"{name}: a row without a relevant label")
    if action == "skip":
        views = [view for view, lacks in zip(views, lacking, strict=True) if not lacks]
    if not views:
        return NAN
    if setting.average != "samples":
        if action == "pos" and any(not view.relevant for view in views):
            raise ValueError(
                f"{name}: no reading of 'pos' for average={setting.average!r}"
            )
        return _average_over_labels(name, views, setting, labels)
    empty = Fraction(1 if action == "pos" else 0)
    if name in RATIO_METRICS:
        pairs = [
            (empty, empty) if _lacks(name, view) else RATIO_METRICS[name](view, setting)
            for view in views
        ]
        return _ratio(
            _total(top for top, _ in pairs), _total(bottom for _, bottom in pairs)
        )
    return _mean(
        [
            empty if _lacks(name, view) else ROW_METRICS[name](view, setting)
            for view in views
        ]
    )


def _lacks(name: str, view: Row) -> bool:
    """Return whether a row has no value: nothing relevant, for fall-out nothing
    irrelevant, for an area no pair.
    """
    if name in ("FallOutAtK", "RowAUC") and len(view.relevant) == len(view.among):
        return True
    if name == "JudgedAtK":
        return not view.ranked
    return name != "FallOutAtK" and not view.relevant


def _view(
    row: Row, setting: Setting, labels: set[int] | None, cut: bool = False
) -> Row:
    """Return the part of a row that one bucket sees: the list of the scope and the
    relevant labels of the bucket.
    """
    relevant = {
        label: gain
        for label, gain in row.relevant.items()
        if labels is None or label in labels
    }
    ranked = row.ranked
    if cut or (labels is not None and setting.scope == "bucket"):
        ranked = ranked[: setting.depth]
    if labels is not None and setting.scope == "bucket":
        ranked = [label for label in ranked if label in labels]
    everything = range(setting.num_labels or 0)
    among = frozenset(
        everything if labels is None or setting.scope == "global" else labels
    )
    return Row(ranked, relevant, row.scores, among, among - row.relevant.keys())


def _total(values: Iterable[Number]) -> Number:
    listed = list(values)
    if all(isinstance(value, Fraction) for value in listed):
        return sum((Fraction(value) for value in listed), Fraction(0))
    return math.fsum(listed)


def _mean(values: Sequence[Number]) -> float:
    return float(_total(values) / len(values)) if values else NAN


def _ratio(top: Number, bottom: Number) -> float:
    return float(top / bottom) if bottom else 0.0


def _top(view: Row, k: int | None) -> list[int]:
    return view.ranked if k is None else view.ranked[:k]


def _hits(view: Row, k: int | None) -> int:
    return sum(label in view.relevant for label in _top(view, k))


def _at_most(k: int | None, n: int) -> int:
    return n if k is None else min(k, n)


def _needed(value: T | None) -> T:
    """What a metric cannot do without."""
    assert value is not None
    return value


def _precision(view: Row, setting: Setting) -> Fraction:
    shown = (
        _needed(setting.k) if setting.denominator == "k" else len(_top(view, setting.k))
    )
    return Fraction(_hits(view, setting.k), shown) if shown else Fraction(0)


def _recall(view: Row, setting: Setting) -> Fraction:
    return Fraction(_hits(view, setting.k), len(view.relevant))


def _normalized_recall(view: Row, setting: Setting) -> Fraction:
    return Fraction(_hits(view, setting.k), _at_most(setting.k, len(view.relevant)))


def _hit_rate(view: Row, setting: Setting) -> Fraction:
    return Fraction(_hits(view, setting.k) > 0)


def _relevance(view: Row, setting: Setting) -> Fraction:
    k = _needed(setting.k)
    return Fraction(len(view.ranked) >= k and view.ranked[k - 1] in view.relevant)


def _gain(grade: float, setting: Setting) -> float:
    if setting.gain == "linear":
        return float(grade)
    # Below 1 the subtraction would cancel digits.
    return 2.0**grade - 1 if grade >= 1 else math.expm1(grade * math.log(2))


def _shown_gains(view: Row, setting: Setting) -> list[float]:
    return [
        _gain(view.relevant.get(label, 0.0), setting) for label in _top(view, setting.k)
    ]


def _discounted(values: Sequence[float]) -> float:
    return math.fsum(
        value / math.log2(rank + 1) for rank, value in enumerate(values, start=1)
    )


def _cg(view: Row, setting: Setting) -> float:
    return math.fsum(_shown_gains(view, setting))


def _dcg(view: Row, setting: Setting) -> float:
    return _discounted(_shown_gains(view, setting))


def _ndcg(view: Row, setting: Setting) -> float:
    best = sorted(
        (_gain(grade, setting) for grade in view.relevant.values()), reverse=True
    )
    return _dcg(view, setting) / _discounted(best[: setting.k])


def _reciprocal_rank(view: Row, setting: Setting) -> Fraction:
    for rank, label in enumerate(_top(view, setting.k), start=1):
        if label in view.relevant:
            return Fraction(1, rank)
    return Fraction(0)


def _average_precision(view: Row, setting: Setting) -> Fraction:
    hits, total = 0, Fraction(0)
    for rank, label in enumerate(_top(view, setting.k), start=1):
        if label in view.relevant:
            hits += 1
            total += Fraction(hits, rank)
    n = len(view.relevant)
    return total / (
        _at_most(setting.k, n) if setting.denominator == "attainable" else n
    )


def _r_precision(view: Row, setting: Setting) -> Fraction:
    n = len(view.relevant)
    return Fraction(_hits(view, n), n)


def _cross_entropy(view: Row, setting: Setting) -> float:
    scores = _needed(view.scores)
    if any(scores[label] == -math.inf for label in view.relevant):
        return math.inf
    highest, *others = sorted(scores, reverse=True)
    log_sum = math.log1p(math.fsum(math.exp(score - highest) for score in others))
    return _mean([(highest - scores[label]) + log_sum for label in view.relevant])


def _f_beta(view: Row, setting: Setting) -> Fraction:
    precision, recall, square = (
        _precision(view, setting),
        _recall(view, setting),
        Fraction(setting.beta) ** 2,
    )
    below = square * precision + recall
    return (1 + square) * precision * recall / below if below else below


def _rbp(view: Row, setting: Setting) -> float:
    shown = enumerate(_top(view, setting.k))
    total = math.fsum(
        setting.persistence**place for place, label in shown if label in view.relevant
    )
    return (1 - setting.persistence) * total


def _err(view: Row, setting: Setting) -> float:
    """Sum over ranks of the chance that the reader stops there, over the rank (Chapelle
    et al. 2009).
    """
    reaches, total = 1.0, 0.0
    for rank, label in enumerate(_top(view, setting.k), start=1):
        stops = (2 ** view.relevant.get(label, 0.0) - 1) / 2**setting.max_gain
        total += reaches * stops / rank
        reaches *= 1 - stops
    return total


def _fall_out(view: Row, setting: Setting) -> Fraction:
    wrong = len(_top(view, setting.k)) - _hits(view, setting.k)
    return Fraction(wrong, len(view.among) - len(view.relevant))


def _share_in_order(better: Sequence[float], worse: Sequence[float]) -> Fraction:
    """Share of the pairs whose first score is the higher one; equal scores count one
    half.
    """
    halves = sum(2 * (high > low) + (high == low) for high in better for low in worse)
    return Fraction(halves, 2 * len(better) * len(worse))


def _row_auc(view: Row, setting: Setting) -> Fraction:
    scores = _needed(view.scores)
    return _share_in_order(
        [scores[label] for label in view.relevant],
        [scores[label] for label in view.irrelevant],
    )


def _coverage_error(view: Row, setting: Setting) -> Fraction:
    """How many labels score at least as much as the worst relevant one."""
    scores = _needed(view.scores)
    worst = min(scores[label] for label in view.relevant)
    return Fraction(sum(scores[label] >= worst for label in view.among))


def _ranking_loss(view: Row, setting: Setting) -> Fraction:
    """Share of pairs in the wrong order, equal scores included; 0 where there is no
    pair.
    """
    scores, pairs = _needed(view.scores), len(view.relevant) * len(view.irrelevant)
    wrong = sum(
        scores[other] >= scores[relevant]
        for relevant in view.relevant
        for other in view.irrelevant
    )
    return Fraction(wrong, pairs) if pairs else Fraction(0)


def _with_ancestors(labels: Iterable[int], setting: Setting) -> set[int]:
    ancestors: set[int] = set()
    for label in labels:
        while 0 <= label < len(setting.parents):  # a later copy of a label adds nothing
            ancestors.add(label)
            label = setting.parents[label]
    return ancestors


def _hierarchical_precision(view: Row, setting: Setting) -> Fraction:
    listed, relevant = (
        _with_ancestors(labels, setting)
        for labels in (_top(view, setting.k), view.relevant)
    )
    return Fraction(len(listed & relevant), len(listed)) if listed else Fraction(0)


def _hierarchical_recall(view: Row, setting: Setting) -> Fraction:
    listed, relevant = (
        _with_ancestors(labels, setting)
        for labels in (_top(view, setting.k), view.relevant)
    )
    return Fraction(len(listed & relevant), len(relevant))


def _hierarchical_f1(view: Row, setting: Setting) -> Fraction:
    precision, recall = (
        _hierarchical_precision(view, setting),
        _hierarchical_recall(view, setting),
    )
    return 2 * precision * recall / (precision + recall) if precision else Fraction(0)


def _near_miss(rows: Sequence[Row], setting: Setting, labels: set[int] | None) -> float:
    """Of the relevant labels (of the bucket) outside of the top k, the share with a
    relative inside.
    """
    near, missed = 0, 0
    for row in rows:
        shown = set(row.ranked[: setting.k])
        for label in (
            row.relevant.keys() if labels is None else row.relevant.keys() & labels
        ) - shown:
            parent = setting.parents[label]
            siblings = {
                sibling
                for sibling, other in enumerate(setting.parents)
                if other == parent >= 0
            }
            children = {
                sibling
                for sibling, other in enumerate(setting.parents)
                if other == label
            }
            missed += 1
            near += bool(shown & (siblings | children | {parent}))
    return near / missed if missed else NAN


ROW_METRICS: dict[str, Callable[[Row, Setting], Number]] = {
    "PrecisionAtK": _precision,
    "RecallAtK": _recall,
    "NormalizedRecallAtK": _normalized_recall,
    "F1AtK": _f_beta,
    "HitRateAtK": _hit_rate,
    "AccuracyAtK": _hit_rate,
    "RelevanceAtK": _relevance,
    "CGAtK": _cg,
    "DCGAtK": _dcg,
    "NDCGAtK": _ndcg,
    "MRR": _reciprocal_rank,
    "MAP": _average_precision,
    "JudgedAtK": _precision,
    "RPrecision": _r_precision,
    "CrossEntropy": _cross_entropy,
    "FBetaAtK": _f_beta,
    "RBPAtK": _rbp,
    "ERRAtK": _err,
    "FallOutAtK": _fall_out,
    "RowAUC": _row_auc,
    "CoverageError": _coverage_error,
    "RankingLoss": _ranking_loss,
    "HierarchicalPrecisionAtK": _hierarchical_precision,
    "HierarchicalRecallAtK": _hierarchical_recall,
    "HierarchicalF1AtK": _hierarchical_f1,
}


def _k_for_recall(views: Sequence[Row], setting: Setting) -> float:
    needed = sorted(_k_needed(view, setting) for view in views if view.relevant)
    if not needed:
        return NAN
    if setting.statistic == "mean":
        return float(Fraction(sum(needed), len(needed)))
    lower, upper = needed[(len(needed) - 1) // 2], needed[len(needed) // 2]
    return float(Fraction(lower + upper, 2))


def _k_needed(view: Row, setting: Setting) -> int:
    hits = 0
    for rank, label in enumerate(view.ranked, start=1):
        hits += label in view.relevant
        # Both sides are the nearest float64, so 7 of 100 reaches .07; an exact
        # comparison would ask for an eighth.
        if hits / len(view.relevant) >= setting.min_recall:
            return rank
    return (
        _needed(setting.num_labels) // 2
        if setting.miss_value is None
        else setting.miss_value
    )


def _inverse_propensity(label: int, setting: Setting) -> float:
    scale = (math.log(_needed(setting.num_train)) - 1) * math.pow(
        setting.b + 1, setting.a
    )
    return 1 + scale * math.pow(_needed(setting.counts)[label] + setting.b, -setting.a)


def _shown_weights(view: Row, setting: Setting) -> list[float]:
    return [
        _inverse_propensity(label, setting) if label in view.relevant else 0.0
        for label in _top(view, setting.k)
    ]


def _best_weights(view: Row, setting: Setting) -> list[float]:
    return sorted(
        (_inverse_propensity(label, setting) for label in view.relevant), reverse=True
    )


def _ps_precision(view: Row, setting: Setting) -> tuple[float, float]:
    k = _needed(setting.k)
    return math.fsum(_shown_weights(view, setting)) / k, math.fsum(
        _best_weights(view, setting)[:k]
    ) / k


def _ps_recall(view: Row, setting: Setting) -> tuple[float, float]:
    return math.fsum(_shown_weights(view, setting)), math.fsum(
        _best_weights(view, setting)
    )


def _ps_ndcg(view: Row, setting: Setting) -> tuple[float, float]:
    best = _best_weights(view, setting)[: setting.k]
    unweighted = (
        _discounted([1.0] * len(best)) if setting.normalization == "normalized" else 1.0
    )
    return _discounted(_shown_weights(view, setting)) / unweighted, _discounted(
        best
    ) / unweighted


# What one row adds above and below: a ratio of two means over rows, not a mean of
# ratios.
RATIO_METRICS: dict[str, Callable[[Row, Setting], tuple[Number, Number]]] = {
    "PropensityScoredPrecisionAtK": _ps_precision,
    "PropensityScoredRecallAtK": _ps_recall,
    "PropensityScoredNDCGAtK": _ps_ndcg,
}


@dataclass
class _Tally:
    """True positives, predictions and support of one label, or of several together."""

    hits: int = 0
    shown: int = 0
    support: int = 0


def _average_over_labels(
    name: str, views: Sequence[Row], setting: Setting, labels: set[int] | None
) -> float:
    tallies = _tally(views, setting, labels)
    if setting.average == "micro":
        summed = _Tally(
            sum(tally.hits for tally in tallies.values()),
            sum(tally.shown for tally in tallies.values()),
            sum(tally.support for tally in tallies.values()),
        )
        if setting.denominator == "k":
            summed.shown = _needed(setting.k) * len(views)
        return float(_label_value(name, summed, setting.beta))
    if setting.average == "weighted":
        total = sum(tally.support for tally in tallies.values())
        weighted = sum(
            (
                tally.support * _label_value(name, tally, setting.beta)
                for tally in tallies.values()
            ),
            Fraction(0),
        )
        return _ratio(weighted, Fraction(total))
    if setting.average != "macro":
        raise ValueError(f"{name}: average={setting.average!r}")
    if setting.labels == "present":
        averaged = {label for label, tally in tallies.items() if tally.support > 0}
    else:
        averaged = (
            set(tallies) if setting.labels == "union" else _all_labels(setting, labels)
        )
    values = [
        _label_value(name, tallies.get(label, _Tally()), setting.beta)
        for label in averaged
    ]
    return _ratio(sum(values, Fraction(0)), Fraction(len(values)))


def _tally(
    views: Sequence[Row], setting: Setting, labels: set[int] | None
) -> dict[int, _Tally]:
    tallies: dict[int, _Tally] = {}
    for view in views:
        for label in view.relevant:
            tallies.setdefault(label, _Tally()).support += 1
        for label in _top(view, setting.k):
            if labels is None or label in labels:
                tally = tallies.setdefault(label, _Tally())
                tally.shown += 1
                tally.hits += label in view.relevant
    return tallies


def _label_value(name: str, tally: _Tally, beta: float) -> Fraction:
    square = Fraction(beta) ** 2
    top, bottom = {
        "PrecisionAtK": (tally.hits, tally.shown),
        "RecallAtK": (tally.hits, tally.support),
    }.get(name, ((1 + square) * tally.hits, tally.shown + square * tally.support))
    return Fraction(top) / Fraction(bottom) if bottom else Fraction(0)


def _shown(rows: Sequence[Row], setting: Setting, labels: set[int] | None) -> list[int]:
    """Return the ids in the global top k of all rows, restricted to the bucket after
    the cut; every row counts.
    """
    return [
        label
        for row in rows
        for label in _top(row, setting.k)
        if labels is None or label in labels
    ]


def _all_labels(setting: Setting, labels: set[int] | None) -> set[int]:
    return set(range(_needed(setting.num_labels))) if labels is None else labels


def _prediction_proportion(
    rows: Sequence[Row], setting: Setting, labels: set[int] | None
) -> float:
    return float(
        Fraction(len(_shown(rows, setting, labels)), _needed(setting.k) * len(rows))
    )


def _positive_coverage(
    rows: Sequence[Row], setting: Setting, labels: set[int] | None
) -> float:
    hit, observed = set(), set()
    for row in rows:
        relevant = {
            label for label in row.relevant if labels is None or label in labels
        }
        hit |= relevant & set(_top(row, setting.k))
        observed |= relevant
    coverable = (
        _all_labels(setting, labels) if setting.denominator == "known" else observed
    )
    return float(Fraction(len(hit), len(coverable))) if coverable else NAN


def _catalog_coverage(
    rows: Sequence[Row], setting: Setting, labels: set[int] | None
) -> float:
    catalog = _all_labels(setting, labels)
    return (
        float(Fraction(len(set(_shown(rows, setting, labels))), len(catalog)))
        if catalog
        else NAN
    )


def _exposure(
    rows: Sequence[Row], setting: Setting, labels: set[int] | None
) -> list[int]:
    exposure = dict.fromkeys(_all_labels(setting, labels), 0)
    for label in _shown(rows, setting, labels):
        exposure[label] += 1
    return sorted(exposure.values())


def _gini(rows: Sequence[Row], setting: Setting, labels: set[int] | None) -> float:
    exposure = _exposure(rows, setting, labels)
    total, size = sum(exposure), len(exposure)
    if total == 0:
        return NAN
    weighted = sum(
        (2 * place - size - 1) * count for place, count in enumerate(exposure, start=1)
    )
    return float(Fraction(weighted, size * total))


def _entropy(rows: Sequence[Row], setting: Setting, labels: set[int] | None) -> float:
    exposure = [count for count in _exposure(rows, setting, labels) if count > 0]
    total = sum(exposure)
    return (
        math.fsum(count / total * math.log(total / count) for count in exposure)
        if total
        else NAN
    )


def _popularity(
    rows: Sequence[Row], setting: Setting, labels: set[int] | None
) -> float:
    counts = _needed(setting.counts)
    return _mean([Fraction(counts[label]) for label in _shown(rows, setting, labels)])


def _novelty(rows: Sequence[Row], setting: Setting, labels: set[int] | None) -> float:
    counts, num_train = _needed(setting.counts), _needed(setting.num_train)
    return _mean(
        [
            math.log2(num_train / max(counts[label], 1))
            for label in _shown(rows, setting, labels)
        ]
    )


def _popularity_lift(
    rows: Sequence[Row], setting: Setting, labels: set[int] | None
) -> float:
    """Return the mean training count of listed labels over that of relevant labels."""
    counts = _needed(setting.counts)
    shown = [counts[label] for label in _shown(rows, setting, labels)]
    relevant_counts = [
        counts[label]
        for row in rows
        for label in row.relevant
        if labels is None or label in labels
    ]
    below = sum(relevant_counts) * len(shown)
    return float(Fraction(sum(shown) * len(relevant_counts), below)) if below else NAN


def _personalization(
    rows: Sequence[Row], setting: Setting, labels: set[int] | None
) -> float:
    """Return one minus the mean overlap of the lists of two rows."""
    overlaps = [
        len(first & second)
        for first, second in combinations([{*_top(row, setting.k)} for row in rows], 2)
    ]
    return (
        float(1 - Fraction(sum(overlaps), _needed(setting.k) * len(overlaps)))
        if overlaps
        else NAN
    )


def _calibration_error(
    rows: Sequence[Row], setting: Setting, labels: set[int] | None
) -> float:
    """Return the mean over bins, by their size, of |share right - mean probability| of
    the listed labels.
    """
    bins: dict[int, list[float]] = {}
    count = 0
    for row in rows:
        highest = max(_needed(row.scores))
        below = math.fsum(math.exp(score - highest) for score in _needed(row.scores))
        for label in _top(row, setting.k):
            if labels is None or label in labels:
                chance = math.exp(_needed(row.scores)[label] - highest) / below
                place = sum(
                    chance >= number / setting.bins for number in range(1, setting.bins)
                )
                bins.setdefault(place, []).append((label in row.relevant) - chance)
                count += 1
    return (
        sum(abs(math.fsum(differences)) for differences in bins.values()) / count
        if count
        else NAN
    )


def _label_auc(better: Sequence[float], worse: Sequence[float]) -> Fraction | None:
    return _share_in_order(better, worse) if better and worse else None


def _label_ap(better: Sequence[float], worse: Sequence[float]) -> Fraction | None:
    """Return the mean over relevant cells of the precision at their score; equal scores
    are found together.
    """
    total = Fraction(0)
    for score in better:
        hits, shown = (
            sum(other >= score for other in better),
            sum(other >= score for other in [*better, *worse]),
        )
        total += Fraction(hits, shown)
    return total / len(better) if better else None


def _area_of_labels(
    area: Callable[[Sequence[float], Sequence[float]], Fraction | None],
) -> Callable[[Sequence[Row], Setting, set[int] | None], float]:
    def value(rows: Sequence[Row], setting: Setting, labels: set[int] | None) -> float:
        cells: dict[int, tuple[list[float], list[float]]] = {}
        for row in rows:
            for label in _all_labels(setting, labels):
                better, worse = cells.setdefault(
                    0 if setting.average == "micro" else label, ([], [])
                )
                (better if label in row.relevant else worse).append(
                    _needed(row.scores)[label]
                )
        weighted_sum, total = Fraction(0), 0
        for better, worse in cells.values():
            label_area = area(better, worse)
            if label_area is not None:
                weight = len(better) if setting.average == "weighted" else 1
                weighted_sum += label_area * weight
                total += weight
        return float(weighted_sum / total) if total else NAN

    return value


PREDICTION_METRICS: dict[
    str, Callable[[Sequence[Row], Setting, set[int] | None], float]
] = {
    "PredictionProportionAtK": _prediction_proportion,
    "PositiveCoverageAtK": _positive_coverage,
    "CatalogCoverageAtK": _catalog_coverage,
    "GiniAtK": _gini,
    "EntropyAtK": _entropy,
    "PopularityAtK": _popularity,
    "NoveltyAtK": _novelty,
    "PopularityLiftAtK": _popularity_lift,
    "PersonalizationAtK": _personalization,
    "CalibrationErrorAtK": _calibration_error,
    "LabelAUC": _area_of_labels(_label_auc),
    "LabelAP": _area_of_labels(_label_ap),
    "NearMissAtK": _near_miss,
}


def tie_rate(rows: Sequence[Sequence[float]], k: int) -> float:
    """Return the share of rows whose k-th best score, retrieved at all, is also the
    next one.
    """
    tied = 0
    for scores in rows:
        best = sorted(scores, reverse=True)
        tied += len(best) > k and best[k] == best[k - 1] and best[k] != -math.inf
    return tied / len(rows)
