"""LabelAP: scikit-learn's average precision always lies within ``error_bounds()``; F1 of averages is CAML's.

Readings: a label without a relevant row is left out of macro and weighted means, and NaN by itself; one in which every
row is relevant has 1; scores in one bin count as equal.
"""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor

import tailmetrics
from tailmetrics import LabelBuckets
from tailmetrics.metrics.areas import _sum_of_precisions
from wishes.rows import bits, fed, floats

AVERAGES = ["macro", "micro", "weighted"]
SLACK = 1e-12


def exact(scores: Tensor, target: Tensor, average: str | None) -> Any:
    """scikit-learn's value, over the labels that have a relevant row."""
    peers = pytest.importorskip("sklearn.metrics")
    if average != "micro":
        scores, target = scores[:, target.any(0)], target[:, target.any(0)]
    if not bool(target.any()):
        return math.nan
    return peers.average_precision_score(target.numpy(), scores.double().numpy(), average=average)


def drawn(seed: int) -> tuple[Tensor, Tensor, int]:
    """Scores, often equal or saturated, targets from frequent to rare, and a number of bins."""
    source, generator = Random(seed), torch.Generator().manual_seed(seed)
    shape = source.choice([1, 2, 30, 300]), source.choice([1, 3, 20])
    scores = torch.randn(shape, generator=generator) * source.choice([0.01, 1, 5])
    scores = source.choice([scores, scores.round(), (3 * scores).sigmoid().to(torch.bfloat16)])
    target = torch.rand(shape, generator=generator) < torch.rand(shape[1], generator=generator) ** 2
    return scores, target, source.choice([4, 64, 4096])


@pytest.mark.parametrize("seed", range(200))
def test_the_exact_value_lies_within_the_bounds(seed: int) -> None:
    """Of all averages and of each label; so does the value; updates in other batches give the same bits."""
    scores, target, bins = drawn(seed)
    half = len(scores) // 2
    for average in (*AVERAGES, "none"):
        metric = tailmetrics.LabelAP(average=average, bins=bins, num_labels=target.shape[1])
        metric.update(scores, target)
        value, (low, high) = metric.compute(), metric.error_bounds()
        wanted = exact(scores, target, None if average == "none" else average)
        known = target.any(0) if average == "none" else torch.tensor([not math.isnan(wanted)])
        assert value.view(-1).isnan().tolist() == (~known).tolist()
        if known.any():
            sides = [torch.atleast_1d(side)[known] for side in (low, value, high)]
            inside = torch.as_tensor(wanted, dtype=torch.float64).view(-1)
            assert (sides[0] - SLACK <= inside).all()
            assert (inside <= sides[2] + SLACK).all()
            assert (sides[0] <= sides[1]).all()
            assert (sides[1] <= sides[2]).all()
        parts = tailmetrics.LabelAP(average=average, bins=bins, num_labels=target.shape[1])
        for part in (slice(half, None), slice(0, half)):
            parts.update(scores[part], target[part])
        assert bits(parts.compute()) == bits(value)


@pytest.mark.parametrize("average", AVERAGES)
def test_scores_with_a_bin_of_their_own_give_the_exact_value(average: str) -> None:
    """Whole numbers, tied many times: bounds differ, as equal scores might be near ones, but the value is the peer's."""
    generator = torch.Generator().manual_seed(3)
    scores = torch.randint(0, 9, (200, 12), generator=generator).float()
    target = torch.rand(200, 12, generator=generator) < 0.2
    metric = fed(tailmetrics.LabelAP(average=average, num_labels=12), scores, target)
    assert float(metric.compute()) == pytest.approx(exact(scores, target, average), abs=1e-12)


def test_by_bucket_it_is_the_value_of_its_labels() -> None:
    """Overall, within row groups, and of the two halves of the rows merged."""
    generator = torch.Generator().manual_seed(4)
    scores, target = torch.randn(90, 10, generator=generator), torch.rand(90, 10, generator=generator) < 0.2
    buckets = LabelBuckets.from_assignment([0, 0, 1, 1, 1, 2, 2, 2, 2, 2], ["a", "b", "c"])
    groups = torch.arange(90) % 2
    for average in AVERAGES:
        parts = [tailmetrics.LabelAP(average=average, buckets=buckets, row_groups=["x", "y"]) for _ in range(2)]
        for part, rows in zip(parts, (slice(0, 40), slice(40, None)), strict=True):
            part.update(scores[rows], target[rows], row_groups=groups[rows])
        parts[0].merge_state(parts[1])
        found, (low, high) = parts[0].compute(), parts[0].error_bounds()
        assert found.shape == low.shape == high.shape == (3, 3)
        for row, inside in enumerate((groups >= 0, groups == 0, groups == 1)):
            for bucket in range(3):
                labels = buckets.assignment == bucket
                wanted = exact(scores[inside][:, labels], target[inside][:, labels], average)
                assert low[row, bucket] - SLACK <= wanted <= high[row, bucket] + SLACK


@pytest.mark.parametrize("unit", [1, 1000, 10**6, 10**12])
def test_sums_of_precisions_of_many_rows(unit: int) -> None:
    """Against exact fractions of few relevant rows below and beside as many others as there may be."""
    for above, own, wrong in ((0, 1, 0), (0, 40, 3), (7, 25, 0), (2, 3, 5), (100, 300, 1), (0, 2000, 7)):
        given = [torch.tensor([part]) for part in (above * unit, own, wrong * unit)]
        wanted = sum(
            (Fraction(above * unit + i, above * unit + i + wrong * unit) for i in range(1, own + 1)), Fraction(0)
        )
        assert float(_sum_of_precisions(*given)) == pytest.approx(float(wanted), rel=1e-13, abs=1e-14 * own)


def test_each_label_of_the_roc_area() -> None:
    """``average="none"`` of LabelAUC: each label as if it were alone; NaN where it lacks a class."""
    scores, target, _ = drawn(2)
    target[:, 0] = False
    metric = fed(tailmetrics.LabelAUC(average="none", num_labels=target.shape[1]), scores, target)
    alone = [
        fed(tailmetrics.LabelAUC(num_labels=1), scores[:, [label]], target[:, [label]]).compute()
        for label in range(target.shape[1])
    ]
    assert floats(metric.compute()) == pytest.approx(floats(torch.stack(alone)), nan_ok=True, abs=0)
    assert metric.keys() == []
    collection = tailmetrics.TopKCollection([metric, tailmetrics.LabelAP(num_labels=target.shape[1])])
    assert floats(collection.per_label()["auc"]) == pytest.approx(floats(torch.stack(alone)), nan_ok=True, abs=0)
    with pytest.raises(ValueError, match="a value for each label"):
        metric.scalars()


@pytest.mark.parametrize("labels", ["present", "all"])
def test_the_f_score_of_averages(labels: str) -> None:
    """2 P R / (P + R) of macro precision and macro recall, in counts of cut-offs and thresholds; its key says so."""
    generator = torch.Generator().manual_seed(5)
    scores, target = torch.rand(60, 9, generator=generator), torch.rand(60, 9, generator=generator) < 0.2
    target[:, 0] = False
    given = {"average": "macro", "labels": labels, "num_labels": 9}
    for name, cut in (("AtK", 2), ("AtThreshold", 0.7)):
        precision, recall = (
            float(fed(getattr(tailmetrics, f"{one}{name}")(cut, **given), scores, target).compute())
            for one in ("Precision", "Recall")
        )
        metric = fed(getattr(tailmetrics, f"F1{name}")(cut, macro="of_averages", **given), scores, target)
        assert float(metric.compute()) == pytest.approx(2 * precision * recall / (precision + recall), abs=1e-12)
        word = "" if labels == "present" else "_all"
        assert metric.keys() == [f"macro_f1{word}_of_averages@{'t' if cut < 1 else ''}{cut}"]
    with pytest.raises(ValueError, match="says what average='macro' is"):
        tailmetrics.F1AtK(2, macro="of_averages")


def test_memory_is_linear_in_labels() -> None:
    """100,000 labels by decile: two states of 8 bytes for each bin and label, and blocks of labels at compute."""
    count = 100_000
    buckets = LabelBuckets.deciles((1e6 / torch.arange(1, count + 1)).long())
    metric = tailmetrics.LabelAP(bins=16, buckets=buckets)
    assert sum(metric._state(name).nbytes for name in metric._names) == 2 * 8 * 16 * count
    metric.update(torch.randn(2, count, generator=torch.Generator().manual_seed(1)), torch.tensor([[0], [5]]))
    assert metric.compute().shape == (11,)
