"""LabelAUC: the exact value always lies within ``error_bounds()``, which are narrow, in memory without end of rows.

What scikit-learn 1.9 does with a label that lacks a class: ``roc_auc_score(average=None)`` is NaN there, with a
warning; so is the macro mean, and the weighted one if the label lacks negatives (without positives it weighs nothing).
Here such labels are left out of macro and weighted means. The micro average reads all cells as one label in both.

Readings: ``compute()`` lies within the bounds; a mean over no label that has both classes is NaN, and so are its
bounds; by bucket, micro is over the bucket's cells, and ``scope`` means nothing; a score of -inf (not retrieved)
ties with other such scores; ``bins`` takes powers of two.
"""

from __future__ import annotations

import math
import os
import warnings
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor

import tailmetrics
from wishes import pairs
from wishes.rows import DECILES, NUM_LABELS, THREE, drawn, fed, floats, halves, members, sets

AVERAGES = ["macro", "micro", "weighted"]
SLACK = 1e-12
FUZZ = int(os.environ.get("TAILMETRICS_FUZZ_CASES", "120"))
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]

every_average = pytest.mark.parametrize("average", AVERAGES)


def logits(generator: torch.Generator, shape: tuple[int, int]) -> Tensor:
    return torch.randn(shape, generator=generator) * 3


def probabilities(generator: torch.Generator, shape: tuple[int, int]) -> Tensor:
    return logits(generator, shape).sigmoid()


def extreme_probabilities(generator: torch.Generator, shape: tuple[int, int]) -> Tensor:
    """Most within a hair of 0 or 1."""
    return (logits(generator, shape) * 10).sigmoid()


def tiny_probabilities(generator: torch.Generator, shape: tuple[int, int]) -> Tensor:
    """A softmax over a hundred thousand labels, of which few are looked at."""
    return (logits(generator, shape) * 4 - 30).clamp(max=0).exp()


def tied(generator: torch.Generator, shape: tuple[int, int]) -> Tensor:
    return logits(generator, shape).round()


def constant(generator: torch.Generator, shape: tuple[int, int]) -> Tensor:
    return torch.zeros(shape)


def signed_zeros(generator: torch.Generator, shape: tuple[int, int]) -> Tensor:
    """0 and -0 are equal scores, between the smallest numbers of either sign."""
    choice = torch.tensor([0.0, -0.0, 2.0**-140, -(2.0**-140), 1.0])
    return choice[torch.randint(5, shape, generator=generator)]


def huge(generator: torch.Generator, shape: tuple[int, int]) -> Tensor:
    return torch.randn(shape, generator=generator) * 2.0**100


def nearly_equal(generator: torch.Generator, shape: tuple[int, int]) -> Tensor:
    """Neighbours of 1 in float32: everything falls into few bins."""
    return 1 + torch.randint(40, shape, generator=generator) * 2.0**-23


KINDS = (
    logits,
    probabilities,
    extreme_probabilities,
    tiny_probabilities,
    tied,
    constant,
    signed_zeros,
    huge,
    nearly_equal,
)


def relevance(generator: torch.Generator, scores: Tensor) -> Tensor:
    """Targets of several frequencies that follow the scores a little; the first labels may lack a class."""
    density = torch.rand(scores.shape[1], generator=generator) * 0.6
    chance = density + 0.3 * (scores.double() > scores.double().median(0).values)
    target = torch.rand(scores.shape, generator=generator) < chance
    if scores.shape[1] > 2:
        target[:, 0], target[:, 1] = False, True
    return target


def exact(scores: Tensor, target: Tensor, average: str) -> float:
    """scikit-learn's value; of macro and weighted, over the labels that have both classes."""
    peers = pytest.importorskip("sklearn.metrics")
    if average != "micro":
        both = target.any(0) & ~target.all(0)
        scores, target = scores[:, both], target[:, both]
    if target.numel() == 0 or bool(target.all()) or not bool(target.any()):
        return math.nan
    return float(peers.roc_auc_score(target.numpy(), scores.double().numpy(), average=average))


def assert_within(metric: Any, value: float) -> None:
    """Low <= value <= high and low <= compute() <= high, or NaN all three."""
    low, high = (float(bound) for bound in metric.error_bounds())
    found = float(metric.compute())
    if math.isnan(value):
        assert math.isnan(found)
        assert math.isnan(low)
        assert math.isnan(high)
        return
    assert 0 <= low <= high <= 1
    assert low - SLACK <= value <= high + SLACK, (low, value, high)
    assert low - SLACK <= found <= high + SLACK, (low, found, high)


@every_average
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_bounds_hold_the_exact_value(kind: Any, dtype: torch.dtype, average: str) -> None:
    """Of logits, probabilities, ties and edge cases in every type, for 1 to 300 rows and 1 to 9 labels."""
    for seed in range(4):
        generator = torch.Generator().manual_seed(seed)
        shape = ((1, 7, 40, 300)[seed], (3, 1, 9, 5)[seed])
        scores = kind(generator, shape).clamp(-60000, 60000) if dtype == torch.float16 else kind(generator, shape)
        scores = scores.to(dtype)
        target = relevance(generator, scores)
        metric = fed(tailmetrics.LabelAUC(average=average, num_labels=shape[1]), scores, target)
        assert_within(metric, exact(scores, target, average))


@pytest.mark.parametrize("seed", range(FUZZ))
def test_random_small_batches_lie_within_the_bounds(seed: int) -> None:
    """2 to 30 rows, whose bounds often have no width to hide an error in: values in thirds, sevenths, elevenths.

    By bucket or overall, any number of bins, in several batches, some scores -inf. More run with
    ``TAILMETRICS_FUZZ_CASES=2000``.
    """
    rng, generator = Random(seed), torch.Generator().manual_seed(seed)
    shape = (rng.choice([2, 3, 5, 8, 12, 30]), rng.choice([1, 2, 3, 6]))
    dtype, kind = rng.choice(DTYPES), rng.choice(KINDS)
    scores = kind(generator, shape).clamp(-60000, 60000).to(dtype)
    if rng.random() < 0.3:
        scores = scores.masked_fill(torch.rand(shape, generator=generator) < rng.choice([0.1, 0.8]), -math.inf)
    target = relevance(generator, scores.double().clamp(min=-1e300))
    average, bins = rng.choice(AVERAGES), rng.choice([{}, {}, {"bins": 2}, {"bins": 64}, {"bins": 1024}])
    assignment = torch.randint(2, shape[1:], generator=generator)
    buckets = tailmetrics.LabelBuckets.from_assignment(assignment, ["one", "other"]) if rng.random() < 0.4 else None
    by = {} if buckets is None else {"buckets": buckets}
    metric = tailmetrics.LabelAUC(average=average, num_labels=shape[1], **bins, **by)
    for part in halves((scores, target), rng.randrange(shape[0] + 1)):
        metric.update(*part)
    low, high = (floats(bound) for bound in metric.error_bounds())
    groups = [set(range(shape[1]))] if buckets is None else members(buckets)
    for number, inside in enumerate(groups):
        value = pairs.label_area(scores.double().tolist(), sets(target), inside, average)
        found = floats(metric.compute())[number]
        if math.isnan(value):
            assert all(map(math.isnan, (found, low[number], high[number])))
        else:
            assert low[number] - SLACK <= value <= high[number] + SLACK
            assert low[number] - SLACK <= found <= high[number] + SLACK


@every_average
@pytest.mark.parametrize("bins", [16, 256])
def test_few_bins_still_hold_the_exact_value(average: str, bins: int) -> None:
    """Fewer bins are wider bounds, never wrong ones."""
    for seed, kind in enumerate(KINDS):
        generator = torch.Generator().manual_seed(seed)
        scores = kind(generator, (120, 6))
        target = relevance(generator, scores)
        metric = fed(tailmetrics.LabelAUC(average=average, bins=bins, num_labels=6), scores, target)
        assert_within(metric, exact(scores, target, average))


@every_average
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        *((kind, dtype) for kind in (logits, probabilities, tiny_probabilities) for dtype in DTYPES[:2]),
        *((kind, dtype) for kind in (logits, probabilities) for dtype in DTYPES[2:]),
    ],
)
def test_the_bounds_are_narrow_on_ten_thousand_rows(kind: Any, dtype: torch.dtype, average: str) -> None:
    """Less than .01 apart, at the default number of bins, around the exact value."""
    generator = torch.Generator().manual_seed(1)
    scores = kind(generator, (10_000, 12)).to(dtype)
    target = relevance(generator, scores)
    metric = fed(tailmetrics.LabelAUC(average=average, num_labels=12), scores, target)
    low, high = (float(bound) for bound in metric.error_bounds())
    assert high - low < 0.01
    assert_within(metric, exact(scores, target, average))


@every_average
def test_by_bucket(average: str) -> None:
    """Over the bucket's labels; the bounds have one entry per bucket; a bucket without a label of both classes is NaN."""
    scores, target = drawn(seed=1, num_rows=60, ties=True)
    target[:, 1] = True
    for buckets in (THREE, DECILES):
        metric = fed(tailmetrics.LabelAUC(average=average, buckets=buckets), scores, target)
        low, high = metric.error_bounds()
        assert low.shape == high.shape == metric.compute().shape == (len(buckets),)
        for number, inside in enumerate(members(buckets)):
            value = pairs.label_area(scores.tolist(), sets(target), inside, average)
            if math.isnan(value):
                assert math.isnan(low[number])
                assert math.isnan(metric.compute()[number])
            else:
                assert low[number] - SLACK <= value <= high[number] + SLACK


@every_average
def test_the_exact_value_of_the_tests_is_the_share_of_pairs(average: str) -> None:
    """scikit-learn's areas equal plain loops over all pairs, once labels without both classes are left out."""
    generator = torch.Generator().manual_seed(2)
    scores = tied(generator, (25, 6))
    target = relevance(generator, scores)
    value = pairs.label_area(scores.tolist(), sets(target), set(range(6)), average)
    assert exact(scores, target, average) == pytest.approx(value, rel=0, abs=1e-12)


def test_what_scikit_learn_does_with_labels_that_lack_a_class() -> None:
    """NaN for the label, for the macro mean, and without negatives for the weighted mean too."""
    peers = pytest.importorskip("sklearn.metrics")
    scores, target = drawn(seed=3)
    without_positive, without_negative = target.clone(), target.clone()
    without_positive[:, 0], without_negative[:, 0] = False, True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert math.isnan(peers.roc_auc_score(without_positive, scores, average="macro"))
        assert math.isnan(peers.roc_auc_score(without_negative, scores, average="macro"))
        assert math.isnan(peers.roc_auc_score(without_negative, scores, average="weighted"))
        weighted = peers.roc_auc_score(without_positive, scores, average="weighted")
    assert weighted == pytest.approx(exact(scores, without_positive, "weighted"), abs=1e-12)
    for given in (without_positive, without_negative):
        for average in AVERAGES:
            metric = fed(tailmetrics.LabelAUC(average=average, num_labels=NUM_LABELS), scores, given)
            assert_within(metric, exact(scores, given, average))


def test_separated_labels_have_areas_of_one_and_zero() -> None:
    """Positives far above all negatives are 1, far below 0, with bounds that show it."""
    target = torch.arange(40)[:, None] % 2 == torch.tensor([0, 1])
    scores = torch.where(target, 5.0, -5.0) + torch.arange(40)[:, None] / 1000
    for sign, wanted in ((1, 1), (-1, 0)):
        metric = fed(tailmetrics.LabelAUC(num_labels=2), sign * scores, target)
        assert float(metric.compute()) == pytest.approx(wanted, abs=1e-12)


def test_keys() -> None:
    """The average opens the key, as it does for F1; macro is the default."""
    batch = drawn(seed=6)
    for average in AVERAGES:
        metric = fed(tailmetrics.LabelAUC(average=average, num_labels=NUM_LABELS), *batch)
        assert list(metric.scalars()) == [f"{average}_auc"]
    assert list(fed(tailmetrics.LabelAUC(num_labels=NUM_LABELS), *batch).scalars()) == ["macro_auc"]
    by_bucket = fed(tailmetrics.LabelAUC(buckets=THREE), *batch)
    assert list(by_bucket.scalars()) == [f"macro_auc/{name}" for name in ("head", "body", "tail")]
