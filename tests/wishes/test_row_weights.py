"""Row weights: sum(w v) / sum(w) in exact fractions, weighted medians, scikit-learn's sample_weight; and label weights.

Readings of the contract where it leaves a choice:

- ``weighted=True`` is given when the metric is made, ``row_weights=`` (N,) at each update; one without the other is
  refused. Weights are finite and not negative, 0 included; integers are fine. Without any weight the value is NaN.
- A row's weight multiplies everything that it adds: above and below the line of ratios (propensities, micro averages),
  each label's counts of macro and weighted averages (scikit-learn's ``sample_weight``), both sides of what is shown.
- A weighted median lies where half of the weight is reached, in the middle of two values where it is met exactly; so
  all ones give the plain median.
- The key of a weighted metric is not tested (``name=`` is used).
- ``weights=`` of the propensity classes are the factors 1/p themselves, one per label, in place of ``label_counts=``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor

import tailmetrics
from wishes.reference import Facts, Line, see
from wishes.reference import one_value as plain_value
from wishes.rows import (
    COUNTS,
    DECILES,
    NUM_LABELS,
    THREE,
    bits,
    candidates,
    drawn,
    fed,
    floats,
    graded,
    halves,
    members,
    ranked,
    sets,
)

EVERYTHING = set(range(NUM_LABELS))
FACTS = Facts(NUM_LABELS, COUNTS.tolist(), int(COUNTS.sum()))
COUNTED = {"label_counts": COUNTS, "num_train": int(COUNTS.sum())}
ROW_MEANS: list[tuple[str, dict[str, Any]]] = [
    ("PrecisionAtK", {"k": 3}),
    ("PrecisionAtK", {"k": 3, "denominator": "k"}),
    ("RecallAtK", {"k": 3}),
    ("F1AtK", {"k": 3}),
    ("NormalizedRecallAtK", {"k": 3}),
    ("HitRateAtK", {"k": 3}),
    ("AccuracyAtK", {"k": 1}),
    ("RelevanceAtK", {"k": 2}),
    ("RPrecision", {}),
    ("CGAtK", {"k": 3}),
    ("DCGAtK", {"k": 3}),
    ("NDCGAtK", {"k": 3}),
    ("NDCGAtK", {"k": 3, "gain": "exponential"}),
    ("MRR", {}),
    ("MAP", {"k": 5}),
    ("CrossEntropy", {}),
]


def as_weights(kind: str, num_rows: int) -> Tensor:
    """Weights of one kind; a weight of 0 among them."""
    generator = torch.Generator().manual_seed(3)
    drawn_weights = torch.rand(num_rows, generator=generator, dtype=torch.float64)
    made = {
        "halves": (drawn_weights * 8).round() / 2,
        "whole": (drawn_weights * 5).long(),
        "real": drawn_weights * 3,
        "uneven": 10 ** (drawn_weights * 6 - 3),
        "float32": (drawn_weights * 3).float(),
    }[kind]
    made[2] = 0
    return made


KINDS = ["halves", "whole", "real", "uneven", "float32"]


def weighted_mean(values: Sequence[float | Fraction | None], weights: Sequence[float]) -> float:
    """sum(w v) / sum(w) over the values that are there, in fractions."""
    kept = [(Fraction(value), Fraction(w)) for value, w in zip(values, weights, strict=True) if value is not None]
    total = sum((w for _, w in kept), Fraction(0))
    return float(sum((value * w for value, w in kept), Fraction(0)) / total) if total else math.nan


def weighted_median(values: Sequence[int | None], weights: Sequence[float]) -> float:
    """Where half of the weight is reached from below and from above: the mean of the two values."""
    kept = [(value, Fraction(w)) for value, w in zip(values, weights, strict=True) if value is not None and w > 0]
    half = sum((w for _, w in kept), Fraction(0)) / 2
    if not kept:
        return math.nan
    below = min(v for v, _ in kept if sum((w for other, w in kept if other <= v), Fraction(0)) >= half)
    above = max(v for v, _ in kept if sum((w for other, w in kept if other >= v), Fraction(0)) >= half)
    return float(Fraction(below + above, 2))


def lines_of(scores: Tensor, gains: Tensor) -> list[Line]:
    rows = zip(scores.tolist(), gains.double().tolist(), strict=True)
    return [Line(row, {label: gain for label, gain in enumerate(own) if gain > 0}) for row, own in rows]


def of_each_row(name: str, options: dict[str, Any], lines: list[Line], group: set[int] | None) -> list[float | None]:
    """The unweighted value of every row alone; None where the row does not count."""
    values = [plain_value(name, [line], FACTS, options, options.get("k"), group) for line in lines]
    return [None if math.isnan(value) else value for value in values]


def weighted(metric: str, **arguments: Any) -> Any:
    return getattr(tailmetrics, metric)(weighted=True, num_labels=NUM_LABELS, **arguments)


# --- means over rows


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "options"), ROW_MEANS)
def test_a_mean_over_rows_is_weighted(name: str, options: dict[str, Any], kind: str) -> None:
    """Every row's own value, times its weight, over the sum of weights."""
    scores, gains = graded(1)
    weights = as_weights(kind, len(scores))
    found = fed(weighted(name, **options), scores, gains, row_weights=weights).compute()
    wanted = weighted_mean(of_each_row(name, options, lines_of(scores, gains), None), weights.tolist())
    assert float(found) == pytest.approx(wanted, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("scope", ["bucket", "global"])
@pytest.mark.parametrize("buckets", [THREE, DECILES], ids=["three", "deciles"])
@pytest.mark.parametrize(("name", "options"), ROW_MEANS)
def test_by_bucket_too(name: str, options: dict[str, Any], buckets: Any, scope: str) -> None:
    """A row without a relevant label of the bucket weighs nothing there."""
    scores, gains = graded(2)
    weights = as_weights("real", len(scores))
    metric = weighted(name, buckets=buckets, scope=scope, **options)
    found = fed(metric, scores, gains, row_weights=weights).compute()
    lines = lines_of(scores, gains)
    wanted = [
        weighted_mean(of_each_row(name, {**options, "scope": scope}, lines, inside), weights.tolist())
        for inside in members(buckets)
    ]
    assert floats(found) == pytest.approx(wanted, rel=1e-9, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("empty", ["neg", "pos", "skip"])
def test_rows_with_nothing_to_find_weigh_as_told(empty: str) -> None:
    """ "neg" and "pos" count 0 and 1 with the row's weight, "skip" leaves the weight out too."""
    scores, gains = graded(3)
    weights = as_weights("real", len(scores))
    options = {"k": 3, "empty_target_action": empty}
    found = fed(weighted("RecallAtK", **options), scores, gains, row_weights=weights).compute()
    wanted = weighted_mean(of_each_row("RecallAtK", options, lines_of(scores, gains), None), weights.tolist())
    assert float(found) == pytest.approx(wanted, rel=1e-9)


def depths(lines: list[Line], options: dict[str, Any], inside: set[int] | None) -> list[int | None]:
    """The k that each row needs, None for a row with nothing to find."""
    own = EVERYTHING if inside is None else inside
    seen = [see(line, own, options, by_bucket=inside is not None, cut=True) for line in lines]
    return [
        None
        if not row.gains
        else next(
            (k for k in range(1, len(row.shown) + 1) if row.hits(k) / len(row.gains) >= options["min_recall"]),
            NUM_LABELS // 2,
        )
        for row in seen
    ]


@pytest.mark.parametrize("kind", [*KINDS, "ones"])
@pytest.mark.parametrize("statistic", ["median", "mean"])
def test_k_for_recall_has_a_weighted_median(statistic: str, kind: str) -> None:
    """The value that half of the weight reaches; by bucket as well."""
    scores, gains = graded(4)
    weights = torch.ones(len(scores)) if kind == "ones" else as_weights(kind, len(scores))
    options = {"min_recall": 0.6, "statistic": statistic}
    average: Any = weighted_median if statistic == "median" else weighted_mean
    lines = lines_of(scores, gains)
    found = fed(weighted("KForRecall", **options), scores, gains, row_weights=weights).compute()
    assert float(found) == pytest.approx(average(depths(lines, options, None), weights.tolist()), rel=1e-9)
    by_bucket = fed(weighted("KForRecall", buckets=THREE, **options), scores, gains, row_weights=weights).compute()
    wanted = [average(depths(lines, options, inside), weights.tolist()) for inside in members(THREE)]
    assert floats(by_bucket) == pytest.approx(wanted, rel=1e-9)


def test_a_worked_weighted_median() -> None:
    """First hits at 1, 2 and 4: weights 1 1 2 have the middle between 2 and 4; weights 3 1 1 have it at 1."""
    ids = torch.tensor([[0, 1, 2, 3]]).expand(3, -1)
    target = torch.tensor([0, 1, 3])
    for weights, wanted in (([1.0, 1.0, 2.0], 3), ([3.0, 1.0, 1.0], 1), ([1.0, 1.0, 1.0], 2), ([0.0, 1.0, 0.0], 2)):
        metric = fed(weighted("KForRecall", min_recall=1.0), ids, target, row_weights=torch.tensor(weights))
        assert float(metric.compute()) == wanted


# --- ratios, averages over labels, what is shown


@pytest.mark.parametrize("average", ["micro", "macro", "weighted"])
@pytest.mark.parametrize("name", ["PrecisionAtK", "RecallAtK", "F1AtK"])
def test_scikit_learn_sample_weight_at_a_cut_off(name: str, average: str) -> None:
    """The counts of a label are sums of weights; scikit-learn's sample_weight on the top k as a 0/1 matrix."""
    peers = pytest.importorskip("sklearn.metrics")
    scores, target = drawn(5)
    weights = as_weights("real", len(scores))
    decided = torch.zeros_like(target).scatter_(1, scores.topk(3).indices, True)
    labels = {"labels": "all"} if average == "macro" else {}
    score = getattr(peers, {"PrecisionAtK": "precision_score", "RecallAtK": "recall_score", "F1AtK": "f1_score"}[name])
    expected = score(target, decided, average=average, sample_weight=weights, zero_division=0)
    found = fed(weighted(name, k=3, average=average, **labels), scores, target, row_weights=weights).compute()
    assert float(found) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("average", ["micro", "macro", "weighted", "samples"])
def test_scikit_learn_sample_weight_at_a_threshold(average: str) -> None:
    """F1AtThreshold the same."""
    peers = pytest.importorskip("sklearn.metrics")
    scores, target = drawn(6)
    weights = as_weights("real", len(scores))
    labels = {"labels": "all"} if average == "macro" else {}
    expected = peers.f1_score(target, scores > 0.5, average=average, sample_weight=weights, zero_division=0)
    metric = weighted("F1AtThreshold", threshold=0.5, average=average, **labels)
    assert float(fed(metric, scores, target, row_weights=weights).compute()) == pytest.approx(expected, rel=1e-9)


def test_scikit_learn_sample_weight_of_areas_and_losses() -> None:
    """CoverageError, RankingLoss and RowAUC (rows with both kinds of labels) with sample_weight."""
    peers = pytest.importorskip("sklearn.metrics")
    scores, target = drawn(7)
    weights = as_weights("real", len(scores))
    both = target.any(1)
    expected = {
        "CoverageError": peers.coverage_error(target, scores, sample_weight=weights),
        "RankingLoss": peers.label_ranking_loss(target, scores, sample_weight=weights),
        "RowAUC": sum(
            float(weight) * peers.roc_auc_score(own, row)
            for row, own, weight in zip(scores[both], target[both], weights[both], strict=True)
        )
        / float(weights[both].sum()),
    }
    for name, value in expected.items():
        found = fed(weighted(name), scores, target, row_weights=weights).compute()
        assert float(found) == pytest.approx(value, rel=1e-9), name


@pytest.mark.parametrize("name", ["PropensityScoredPrecisionAtK", "PropensityScoredRecallAtK"])
def test_ratios_weigh_above_and_below(name: str) -> None:
    """sum(w gained) / sum(w best)."""
    scores, target = drawn(8)
    weights = as_weights("real", len(scores))
    factors = tailmetrics.functional.inverse_propensities(COUNTS, int(COUNTS.sum())).double()
    orders, relevant = ranked(scores.tolist()), sets(target)
    above, below = Fraction(0), Fraction(0)
    for order, own, weight in zip(orders, relevant, weights.tolist(), strict=True):
        best = sorted((float(factors[label]) for label in own), reverse=True)
        gained = [float(factors[label]) for label in order[:3] if label in own]
        above += Fraction(weight) * sum(map(Fraction, gained))
        below += Fraction(weight) * sum(map(Fraction, best if "Recall" in name else best[:3]))
    found = fed(weighted(name, k=3, **COUNTED), scores, target, row_weights=weights).compute()
    assert float(found) == pytest.approx(float(above / below), rel=1e-9)


def test_what_is_shown_weighs_too() -> None:
    """Popularity is sum(w count) / sum(w) over what is shown; a bucket's share of it likewise."""
    scores, target = drawn(9)
    weights = as_weights("real", len(scores))
    tops = [order[:3] for order in ranked(scores.tolist())]
    each = [Fraction(weight) for weight in weights.tolist()]
    shown = sum((weight * 3 for weight in each), Fraction(0))
    counts = COUNTS.tolist()
    total = sum((w * sum(counts[label] for label in top) for w, top in zip(each, tops, strict=True)), Fraction(0))
    metric = weighted("PopularityAtK", k=3, label_counts=COUNTS)
    assert float(fed(metric, scores, target, row_weights=weights).compute()) == pytest.approx(float(total / shown))
    shares = fed(weighted("PredictionProportionAtK", k=3, buckets=THREE), scores, target, row_weights=weights)
    wanted = [
        float(sum((w * len(set(top) & inside) for w, top in zip(each, tops, strict=True)), Fraction(0)) / shown)
        for inside in members(THREE)
    ]
    assert floats(shares.compute()) == pytest.approx(wanted, rel=1e-9)


# --- laws


LAWFUL: list[tuple[str, dict[str, Any]]] = [
    *ROW_MEANS,
    ("KForRecall", {"min_recall": 0.5}),
    ("F1AtK", {"k": 3, "average": "micro"}),
    ("F1AtK", {"k": 3, "average": "macro"}),
    ("PropensityScoredNDCGAtK", {"k": 3, **COUNTED}),
    ("F1AtThreshold", {"threshold": 0.5}),
    ("RowAUC", {}),
]
lawful = pytest.mark.parametrize(("name", "options"), LAWFUL)


@lawful
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.int64, torch.bfloat16])
def test_all_ones_give_the_bits_of_none(name: str, options: dict[str, Any], dtype: torch.dtype) -> None:
    """Overall and by bucket."""
    scores, gains = graded(10)
    for way in ({}, {"buckets": DECILES}):
        plain = getattr(tailmetrics, name)(num_labels=NUM_LABELS, **options, **way)
        wanted = bits(fed(plain, scores, gains).compute())
        metric = weighted(name, **options, **way)
        assert bits(fed(metric, scores, gains, row_weights=torch.ones(len(scores), dtype=dtype)).compute()) == wanted


@lawful
def test_whole_weights_are_repetitions(name: str, options: dict[str, Any]) -> None:
    """A row of weight 3 counts as three rows, one of weight 0 as none."""
    scores, gains = graded(11)
    times = as_weights("whole", len(scores))
    plain = getattr(tailmetrics, name)(num_labels=NUM_LABELS, **options)
    repeated = fed(plain, scores.repeat_interleave(times, 0), gains.repeat_interleave(times, 0)).compute()
    found = fed(weighted(name, **options), scores, gains, row_weights=times).compute()
    assert float(found) == pytest.approx(float(repeated), rel=1e-12)


@lawful
def test_the_same_bits_in_any_batches(name: str, options: dict[str, Any]) -> None:
    """Split, shuffled and merged; the states are integers."""
    scores, gains = graded(12)
    weights = as_weights("uneven", len(scores))
    order = torch.randperm(len(scores), generator=torch.Generator().manual_seed(1))
    whole, split, merged, other = (weighted(name, buckets=THREE, **options) for _ in range(4))
    whole.update(scores[order], gains[order], row_weights=weights[order])
    first, second = halves((scores, gains, weights), 14)
    for own, ws in (first[:2], first[2]), (second[:2], second[2]):
        split.update(*own, row_weights=ws)
    merged.update(*first[:2], row_weights=first[2])
    other.update(*second[:2], row_weights=second[2])
    merged.merge_state(other)
    assert bits(whole.compute()) == bits(split.compute()) == bits(merged.compute())
    assert not any(state.is_floating_point() for state in whole.metric_state.values())


def test_masked_rows_weigh_nothing() -> None:
    """``row_mask`` drops the weight with the row, even one that is NaN."""
    scores, gains = graded(13)
    weights = as_weights("real", len(scores))
    kept = torch.arange(len(scores)) % 3 > 0
    wanted = fed(weighted("RecallAtK", k=3), scores[kept], gains[kept], row_weights=weights[kept]).compute()
    spoilt = weights.masked_fill(~kept, math.nan)
    found = fed(weighted("RecallAtK", k=3), scores, gains, row_mask=kept, row_weights=spoilt).compute()
    assert bits(found) == bits(wanted)


def test_a_collection_passes_weights_on() -> None:
    """To the members that are weighted; the others are as ever. Candidates and groups go with weights."""
    scores, gains = graded(14)
    weights = as_weights("real", len(scores))
    groups = torch.arange(len(scores)) % 2
    members_of = [weighted("RecallAtK", k=3, name="w"), tailmetrics.RecallAtK(k=3)]
    found = fed(tailmetrics.TopKCollection(members_of), candidates(scores), gains, row_weights=weights).compute()
    assert bits(found["w"]) == bits(fed(weighted("RecallAtK", k=3), scores, gains, row_weights=weights).compute())
    assert bits(found["recall@3"]) == bits(fed(tailmetrics.RecallAtK(k=3), scores, gains).compute())
    grouped = weighted("RecallAtK", k=3, name="w", row_groups=["even", "odd"])
    grouped.update(scores, gains, row_weights=weights, row_groups=groups)
    alone = fed(weighted("RecallAtK", k=3), scores[::2], gains[::2], row_weights=weights[::2]).compute()
    assert bits(grouped.scalars()["w/even"]) == bits(alone)


def test_without_any_weight_the_value_is_nan() -> None:
    """All rows weigh 0: there is no mean."""
    scores, gains = graded(15)
    for name in ("RecallAtK", "NDCGAtK"):
        metric = fed(weighted(name, k=3), scores, gains, row_weights=torch.zeros(len(scores)))
        assert math.isnan(float(metric.compute()))


@pytest.mark.parametrize("wrong", ["negative", "nan", "infinite", "short", "two axes", "bool", "missing", "unasked"])
def test_wrong_weights_are_refused_and_count_nothing(wrong: str) -> None:
    """The error names row_weights; the metric is as before."""
    scores, gains = graded(16)
    weights = as_weights("real", len(scores))
    metric = weighted("RecallAtK", k=3) if wrong != "unasked" else tailmetrics.RecallAtK(k=3)
    fed(metric, scores, gains, **({"row_weights": weights} if wrong != "unasked" else {}))
    before = bits(metric.compute())
    at = torch.tensor([5])
    given: dict[str, Any] = {
        "negative": weights.index_fill(0, at, -0.5),
        "nan": weights.index_fill(0, at, math.nan),
        "infinite": weights.index_fill(0, at, math.inf),
        "short": weights[1:],
        "two axes": weights[:, None],
        "bool": weights > 1,
        "missing": None,
        "unasked": weights,
    }
    with pytest.raises((TypeError, ValueError), match="row_weights"):
        metric.update(scores, gains, row_weights=given[wrong])
    assert bits(metric.compute()) == before


# --- weights of labels


@pytest.mark.parametrize(
    "name", ["PropensityScoredPrecisionAtK", "PropensityScoredRecallAtK", "PropensityScoredNDCGAtK"]
)
@pytest.mark.parametrize("buckets", [None, THREE], ids=["overall", "by bucket"])
def test_label_weights_replace_training_counts(name: str, buckets: Any) -> None:
    """The inverse propensities handed over as weights give the value of the counts that they were made of."""
    scores, target = drawn(17)
    factors = tailmetrics.functional.inverse_propensities(COUNTS, int(COUNTS.sum()))
    way = {} if buckets is None else {"buckets": buckets}
    from_counts = fed(getattr(tailmetrics, name)(k=3, **COUNTED, **way), scores, target).compute()
    from_weights = fed(getattr(tailmetrics, name)(k=3, weights=factors, **way), scores, target).compute()
    assert floats(from_weights) == pytest.approx(floats(from_counts), rel=1e-9, nan_ok=True)


def test_label_weights_equal_the_plain_loop() -> None:
    """Any non-negative factors, 0 included: sum of the weights found over sum of the best k."""
    scores, target = drawn(18)
    factors = torch.rand(NUM_LABELS, generator=torch.Generator().manual_seed(2), dtype=torch.float64) * 10
    factors[4] = 0
    above = below = 0.0
    for order, own in zip(ranked(scores.tolist()), sets(target), strict=True):
        above += math.fsum(float(factors[label]) for label in order[:3] if label in own)
        below += math.fsum(sorted((float(factors[label]) for label in own), reverse=True)[:3])
    metric = tailmetrics.PropensityScoredPrecisionAtK(k=3, weights=factors)
    assert float(fed(metric, scores, target).compute()) == pytest.approx(above / below, rel=1e-9)


@pytest.mark.parametrize("wrong", [[-1.0], [math.nan], [math.inf]])
def test_wrong_label_weights_are_refused(wrong: list[float]) -> None:
    """Negative, NaN and infinite; nor go weights and counts together."""
    factors = torch.tensor([1.0] * (NUM_LABELS - 1) + wrong)
    with pytest.raises(ValueError, match="weights"):
        tailmetrics.PropensityScoredPrecisionAtK(k=3, weights=factors)
    with pytest.raises((TypeError, ValueError), match="weights"):
        tailmetrics.PropensityScoredPrecisionAtK(k=3, weights=torch.ones(NUM_LABELS), **COUNTED)
