"""Precision, recall and F1 of the labels above a threshold: plain loops, scikit-learn, keys, forms and bits.

Readings of the contract where it leaves a choice:

- "Above" is strict, and is judged as torch compares the scores with a Python number: in the scores' own type.
  Thresholds per label are a tensor; torch compares in the wider of the two types.
- ``empty_target_action`` means what it means for cut-offs: within buckets "skip" for the mean over rows, else "neg".
- ``scope="global"`` changes only the samples average: the denominator of precision is all that the row was suggested.
- The key writes a threshold as Python's ``:g`` does. Ranked ids have no scores and are refused.
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
from wishes.rows import (
    DECILES,
    NUM_LABELS,
    THREE,
    Relevant,
    bits,
    candidates,
    csr,
    drawn,
    fed,
    floats,
    members,
    padded_ids,
    sets,
)

MEASURES = {"precision": "PrecisionAtThreshold", "recall": "RecallAtThreshold", "f1": "F1AtThreshold"}
AVERAGES: list[dict[str, Any]] = [
    {"average": "micro"},
    {"average": "macro"},
    {"average": "macro", "labels": "union"},
    {"average": "macro", "labels": "all"},
    {"average": "weighted"},
    {"average": "samples"},
]
PER_LABEL = torch.linspace(-1.0, 1.5, NUM_LABELS, dtype=torch.float64)

every_measure = pytest.mark.parametrize("measure", MEASURES)
every_average = pytest.mark.parametrize("average", AVERAGES, ids=lambda given: "-".join(given.values()))


def batch(seed: int, **shape: Any) -> tuple[Tensor, Tensor]:
    """Label 3 is never relevant, label 4 never suggested (but below -20), label 5 neither."""
    scores, target = drawn(seed, **shape)
    target[:, [3, 5]] = False
    scores[:, [4, 5]] = -20.0
    return scores, target


def made(measure: str, *arguments: Any, **more: Any) -> Any:
    """The metric class of a measure, made."""
    return getattr(tailmetrics, MEASURES[measure])(*arguments, **more)


# --- the oracle


def suggested(scores: Tensor, threshold: float | Tensor) -> Relevant:
    """Labels whose score is above the threshold, row by row."""
    each = threshold.tolist() if isinstance(threshold, Tensor) else [threshold] * scores.shape[1]
    return [{label for label, score in enumerate(row) if score > each[label]} for row in scores.tolist()]


def of_counts(measure: str, hits: int, shown: int, support: int) -> Fraction:
    """One value from three counts; nothing over nothing is 0."""
    above = 2 * hits if measure == "f1" else hits
    below = {"precision": shown, "recall": support, "f1": shown + support}[measure]
    return Fraction(above, below) if below else Fraction(0)


def oracle(
    measure: str,
    shown: Relevant,
    relevant: Relevant,
    inside: set[int],
    average: str,
    labels: str = "present",
    scope: str = "bucket",
    empty: str = "neg",
) -> float:
    """The average over the labels ``inside``, row by row and label by label."""
    rows = [(row & inside, own & inside, len(row)) for row, own in zip(shown, relevant, strict=True)]
    rows = [row for row in rows if row[1] or empty != "skip"]
    if not rows:
        return math.nan
    if average == "samples":
        sizes = [len(row) if scope == "bucket" else whole for row, _, whole in rows]
        each = [
            of_counts(measure, len(row & own), size, len(own)) if own else Fraction(int(empty == "pos"))
            for (row, own, _), size in zip(rows, sizes, strict=True)
        ]
        return float(sum(each, Fraction(0)) / len(each))
    counts = {
        label: (
            sum(label in row and label in own for row, own, _ in rows),
            sum(label in row for row, _, _ in rows),
            sum(label in own for _, own, _ in rows),
        )
        for label in inside
    }
    if average == "micro":
        return float(of_counts(measure, *(sum(column) for column in zip(*counts.values(), strict=True))))
    values = {label: of_counts(measure, *three) for label, three in counts.items()}
    if average == "weighted":
        total = sum(three[2] for three in counts.values())
        weighted = sum((values[label] * counts[label][2] for label in inside), Fraction(0))
        return float(weighted / total) if total else 0.0
    chosen = [
        label
        for label, (_, times, support) in counts.items()
        if labels == "all" or support or (labels == "union" and times)
    ]
    return float(sum((values[label] for label in chosen), Fraction(0)) / len(chosen)) if chosen else 0.0


# --- values


@every_measure
@every_average
def test_the_oracle_is_scikit_learn(measure: str, average: dict[str, str]) -> None:
    """The plain loop above, which everything below is held to, is itself held to scikit-learn."""
    peers = pytest.importorskip("sklearn.metrics")
    scores, target = batch(seed=30, num_rows=12)
    decided = scores > 0.9
    columns = torch.ones(NUM_LABELS, dtype=torch.bool)
    if average["average"] == "macro" and average.get("labels") != "all":
        columns = target.any(0) | (decided.any(0) if average.get("labels") == "union" else torch.tensor(False))
    score = getattr(peers, f"{measure}_score")
    expected = score(target[:, columns], decided[:, columns], average=average["average"], zero_division=0)
    found = oracle(measure, suggested(scores, 0.9), sets(target), set(range(NUM_LABELS)), **average)
    assert found == pytest.approx(expected, rel=0, abs=1e-12)


@every_measure
@every_average
@pytest.mark.parametrize("threshold", [0.5, 0.0, -1.25, 9.0])
def test_one_threshold_equals_the_plain_loop(measure: str, average: dict[str, str], threshold: float) -> None:
    """A label is suggested where its score is above the threshold; a threshold above all scores suggests nothing."""
    scores, target = batch(seed=1)
    metric = fed(made(measure, threshold, num_labels=NUM_LABELS, **average), scores, target)
    wanted = oracle(measure, suggested(scores, threshold), sets(target), set(range(NUM_LABELS)), **average)
    assert float(metric.compute()) == pytest.approx(wanted, rel=0, abs=1e-12)


@every_measure
@every_average
def test_several_thresholds_give_one_value_each(measure: str, average: dict[str, str]) -> None:
    """In the order given, as one tensor of shape (T,)."""
    scores, target = batch(seed=2)
    thresholds = [0.75, -0.5, 0.25]
    metric = fed(made(measure, thresholds, num_labels=NUM_LABELS, **average), scores, target)
    everything = set(range(NUM_LABELS))
    wanted = [oracle(measure, suggested(scores, one), sets(target), everything, **average) for one in thresholds]
    assert metric.compute().shape == (3,)
    assert floats(metric.compute()) == pytest.approx(wanted, rel=0, abs=1e-12)


@every_measure
@every_average
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_thresholds_per_label_equal_the_plain_loop(measure: str, average: dict[str, str], dtype: torch.dtype) -> None:
    """A tensor (L,) holds a threshold for each label."""
    scores, target = batch(seed=3)
    limits = PER_LABEL.to(dtype)
    metric = fed(made(measure, limits, num_labels=NUM_LABELS, **average), scores, target)
    wanted = oracle(measure, suggested(scores, limits), sets(target), set(range(NUM_LABELS)), **average)
    assert metric.compute().shape == ()
    assert float(metric.compute()) == pytest.approx(wanted, rel=0, abs=1e-12)


@every_measure
@every_average
@pytest.mark.parametrize("buckets", [THREE, DECILES], ids=["three", "deciles"])
@pytest.mark.parametrize("empty", [None, "neg", "skip"])
@pytest.mark.parametrize("scope", ["bucket", "global"])
def test_by_bucket_equals_the_plain_loop(
    measure: str, average: dict[str, str], buckets: Any, empty: str | None, scope: str
) -> None:
    """Suggestions and targets are cut to the bucket's labels; a bucket without a row that counts is NaN."""
    scores, target = batch(seed=4)
    chosen = {} if empty is None else {"empty_target_action": empty}
    metric = fed(made(measure, [0.25, 0.75], buckets=buckets, scope=scope, **chosen, **average), scores, target)
    action = empty or ("skip" if average["average"] == "samples" else "neg")
    wanted = [
        oracle(measure, suggested(scores, one), sets(target), inside, scope=scope, empty=action, **average)
        for one in (0.25, 0.75)
        for inside in members(buckets)
    ]
    assert metric.compute().shape == (2, len(buckets))
    assert floats(metric.compute()) == pytest.approx(wanted, rel=0, abs=1e-12, nan_ok=True)


@every_measure
def test_rows_with_nothing_to_find_count_as_told(measure: str) -> None:
    """ "neg" counts 0, "pos" 1, "skip" nothing, for the samples average overall."""
    scores, target = batch(seed=5)
    for empty in ("neg", "pos", "skip"):
        metric = fed(made(measure, 0.5, average="samples", empty_target_action=empty), scores, target)
        wanted = oracle(measure, suggested(scores, 0.5), sets(target), set(range(NUM_LABELS)), "samples", empty=empty)
        assert float(metric.compute()) == pytest.approx(wanted, rel=0, abs=1e-12)


# --- scikit-learn


@every_measure
@pytest.mark.parametrize("average", ["micro", "macro", "weighted", "samples"])
@pytest.mark.parametrize("seed", range(3))
def test_scikit_learn_on_the_decisions(measure: str, average: str, seed: int) -> None:
    """precision_score, recall_score and f1_score of the 0/1 matrix; the macro mean is over all columns there."""
    peers = pytest.importorskip("sklearn.metrics")
    scores, target = batch(seed=10 + seed, num_rows=75)
    labels = {"labels": "all"} if average == "macro" else {}
    for threshold in (0.5, PER_LABEL):
        decided = scores > threshold
        expected = getattr(peers, f"{measure}_score")(target, decided, average=average, zero_division=0)
        metric = fed(made(measure, threshold, average=average, num_labels=NUM_LABELS, **labels), scores, target)
        assert float(metric.compute()) == pytest.approx(expected, rel=0, abs=1e-9)


@every_measure
@pytest.mark.parametrize("average", ["micro", "macro", "weighted", "samples"])
def test_scikit_learn_on_the_columns_of_a_bucket(measure: str, average: str) -> None:
    """With every row counted, a bucket's value is scikit-learn's on its columns."""
    peers = pytest.importorskip("sklearn.metrics")
    scores, target = batch(seed=20, num_rows=75)
    labels = {"labels": "all"} if average == "macro" else {}
    metric = made(measure, 0.5, average=average, buckets=THREE, empty_target_action="neg", **labels)
    found = floats(fed(metric, scores, target).compute())
    for value, inside in zip(found, members(THREE), strict=True):
        columns = sorted(inside)
        decided, asked = (scores > 0.5)[:, columns], target[:, columns]
        expected = getattr(peers, f"{measure}_score")(asked, decided, average=average, zero_division=0)
        assert value == pytest.approx(expected, rel=0, abs=1e-9)


# --- forms


def test_the_default_is_micro_at_one_half() -> None:
    """PrecisionAtThreshold() and PrecisionAtThreshold(threshold=0.5, average="micro") are one."""
    scores, target = batch(seed=6)
    for measure in MEASURES:
        plain, named = fed(made(measure), scores, target), made(measure, threshold=0.5, average="micro")
        assert bits(plain.compute()) == bits(fed(named, scores, target).compute())


def test_a_score_equal_to_the_threshold_is_not_above_it() -> None:
    """.5 is not above .5, nor is the nearest float32 to .1 above .1 among float32 scores; -inf is above nothing."""
    target = torch.tensor([[True, True, True]])
    for scores, threshold in (
        (torch.tensor([[0.5, 0.75, -math.inf]]), 0.5),
        (torch.tensor([[0.1, 0.2, 0.05]]), 0.1),
        (torch.tensor([[0.1, 0.2, 0.05]], dtype=torch.bfloat16), 0.1),
        (torch.tensor([[-1.0, 0.0, -math.inf]]), torch.tensor([-1.0, -0.5, -9.0])),
    ):
        metric = fed(tailmetrics.RecallAtThreshold(threshold), scores, target)
        assert float(metric.compute()) == pytest.approx(1 / 3)


@every_average
@pytest.mark.parametrize("threshold", [0.25, PER_LABEL], ids=["one", "per label"])
def test_cells_that_are_not_stored_are_not_suggested(average: dict[str, str], threshold: Any) -> None:
    """CSR and candidates give the bits of dense scores that are -inf elsewhere, even below a negative threshold."""
    scores, target = batch(seed=7, ties=True)
    stored = torch.rand(scores.shape, generator=torch.Generator().manual_seed(8)) < 0.6
    hidden = scores.masked_fill(~stored, -math.inf)
    for limit in (threshold, -3.0):
        make = {"num_labels": NUM_LABELS, **average}
        wanted = fed(tailmetrics.F1AtThreshold(limit, **make), hidden, target).compute()
        for preds in (csr(scores, stored), candidates(hidden)):
            assert bits(fed(tailmetrics.F1AtThreshold(limit, **make), preds, target).compute()) == bits(wanted)
        loop = oracle("f1", suggested(hidden, limit), sets(target), set(range(NUM_LABELS)), **average)
        assert float(wanted) == pytest.approx(loop, rel=0, abs=1e-12)


@every_average
def test_bool_preds_are_decisions(average: dict[str, str]) -> None:
    """A bool matrix (N, L), of torch or numpy, gives the bits of the scores that it was decided from."""
    scores, target = batch(seed=9)
    make = {"num_labels": NUM_LABELS, **average}
    wanted = bits(fed(tailmetrics.F1AtThreshold(0.25, **make), scores, target).compute())
    decided = scores > 0.25
    assert bits(fed(tailmetrics.F1AtThreshold(0.25, **make), decided, target).compute()) == wanted
    assert bits(fed(tailmetrics.F1AtThreshold(0.25, **make), decided.numpy(), target).compute()) == wanted


def test_beside_cut_offs_in_one_collection() -> None:
    """A collection ranks once and still sees every score; a ranking of the scores does as well."""
    scores, target = batch(seed=16)
    collection = tailmetrics.TopKCollection([tailmetrics.PrecisionAtK(k=2), tailmetrics.F1AtThreshold(0.5)])
    collection.update(scores, target)
    alone = fed(tailmetrics.F1AtThreshold(0.5), scores, target).compute()
    assert bits(collection.compute()["micro_f1@t0.5"]) == bits(alone)
    ranking = tailmetrics.rank(scores, target, depth=2)
    assert bits(fed(tailmetrics.F1AtThreshold(0.5), ranking).compute()) == bits(alone)


# --- keys and errors


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        ({}, "micro_f1@t0.5"),
        ({"threshold": 0.25}, "micro_f1@t0.25"),
        ({"average": "samples"}, "f1@t0.5"),
        ({"average": "weighted"}, "weighted_f1@t0.5"),
        ({"average": "macro"}, "macro_f1@t0.5"),
        ({"average": "macro", "labels": "union"}, "macro_f1_union@t0.5"),
        ({"average": "macro", "labels": "all"}, "macro_f1_all@t0.5"),
        ({"threshold": PER_LABEL}, "micro_f1@t"),
        ({"threshold": PER_LABEL, "average": "macro", "labels": "all"}, "macro_f1_all@t"),
        ({"name": "mine"}, "mine"),
    ],
)
def test_keys(arguments: dict[str, Any], key: str) -> None:
    """The average, what the macro mean is over, and the threshold stand in the key."""
    scores, target = batch(seed=17)
    metric = fed(tailmetrics.F1AtThreshold(num_labels=NUM_LABELS, **arguments), scores, target)
    assert list(metric.scalars()) == [key]


def test_keys_of_several_thresholds_by_bucket() -> None:
    """One key per threshold and bucket, in the order of both; precision and recall are named alike."""
    scores, target = batch(seed=18)
    for measure in MEASURES:
        metric = fed(made(measure, [0.3, 0.5], buckets=THREE), scores, target)
        wanted = [f"micro_{measure}@t{one}/{name}" for one in (0.3, 0.5) for name in ("head", "body", "tail")]
        assert list(metric.scalars()) == wanted
        assert [float(value) for value in metric.scalars().values()] == floats(metric.compute())


@pytest.mark.parametrize("threshold", [math.nan, [], [0.5, 0.5], "half", torch.tensor([0.1, 0.2]), [math.nan, 0.5]])
def test_wrong_thresholds_are_refused(threshold: Any) -> None:
    """NaN, none at all, one twice, no number, and a tensor that does not hold one per label."""
    with pytest.raises((TypeError, ValueError), match="F1AtThreshold: "):
        fed(tailmetrics.F1AtThreshold(threshold, num_labels=NUM_LABELS), *batch(seed=1))


@pytest.mark.parametrize("preds", ["ids", "nan", "narrow"])
def test_wrong_preds_are_refused_and_count_nothing(preds: str) -> None:
    """Ranked ids have no scores; NaN is above nothing and below nothing; a matrix of other labels is another one."""
    scores, target = batch(seed=21)
    wrong: dict[str, Tensor] = {
        "ids": torch.tensor(_orders(scores.tolist())),
        "nan": scores.masked_fill(torch.arange(NUM_LABELS) == 3, math.nan),
        "narrow": scores[:, :5],
    }
    metric = fed(tailmetrics.F1AtThreshold(0.5, num_labels=NUM_LABELS), scores, target)
    before = bits(metric.compute())
    with pytest.raises(ValueError, match=r"F1AtThreshold: .*"):
        metric.update(wrong[preds], padded_ids(sets(target)))
    assert bits(metric.compute()) == before


def _orders(rows: Sequence[Sequence[float]]) -> list[list[int]]:
    return [sorted(range(len(row)), key=lambda label: -row[label]) for row in rows]
