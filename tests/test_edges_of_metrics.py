"""Where formulas end: infinities, odd weights and numbers, counts as large as data get, lists that are too short."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate
from operator import mul
from typing import Any

import numpy as np
import pytest
import torch

import tailmetrics
from tailmetrics import CalibrationErrorAtK, CrossEntropy, LabelAUC, RecallAtK, TieRateAtK


@pytest.mark.parametrize("metric", [CalibrationErrorAtK(), CrossEntropy()])
def test_an_infinite_score_is_refused_before_a_state_is_touched(metric: Any) -> None:
    """7e4 is inf in half precision, and its softmax is no number; batches before and after count."""
    plain = torch.tensor([[1.0, 0.0]]), torch.tensor([0])
    metric.update(*plain)
    with pytest.raises(ValueError, match="preds holds inf"):
        metric.update(torch.tensor([[7e4, 0.0]]).half(), torch.tensor([0]))
    value = metric.compute()
    metric.reset()
    metric.update(*plain)
    assert metric.compute() == value


def test_a_row_that_weighs_nothing_counts_nothing() -> None:
    """Not even where its loss is infinite: the other row has ln 2."""
    metric = CrossEntropy(weighted=True)
    scores = torch.tensor([[0.0, -torch.inf], [0.0, 0.0]])
    metric.update(scores, torch.tensor([1, 1]), row_weights=torch.tensor([0.0, 1.0]))
    assert float(metric.compute()) == pytest.approx(float(np.log(2)))


@pytest.mark.parametrize("weight", [1e-30, 1e-18, 2.0**41, -1.0, float("nan")])
def test_row_weights_that_states_cannot_hold_are_refused(weight: float) -> None:
    """States hold 2^-78: of a weight of 1e-18 six digits would be left, of 1e-30 none."""
    metric = RecallAtK(1, weighted=True)
    weights = torch.tensor([weight, 1.0], dtype=torch.float64)
    with pytest.raises(ValueError, match=r"multiply all of them by one number"):
        metric.update(torch.tensor([[0], [1]]), torch.tensor([0, 1]), row_weights=weights)


def test_small_weights_keep_their_digits() -> None:
    """Weights of 2^-40 and more are as good as weights of 1."""
    values = []
    for unit in (1.0, 2.0**-40):
        metric = tailmetrics.NDCGAtK(3, weighted=True)
        weights = unit * torch.arange(1, 31, dtype=torch.float64)
        scores = torch.randn(30, 9, generator=torch.Generator().manual_seed(2))
        metric.update(scores, torch.arange(30) % 9, row_weights=weights)
        values.append(float(metric.compute()))
    assert values[0] == pytest.approx(values[1], rel=1e-10)


@pytest.mark.parametrize("average", ["macro", "micro", "weighted"])
@pytest.mark.parametrize("rows", [10, 10**6, 10**10, 7 * 10**11])
def test_label_areas_of_as_many_cells_as_there_are(average: str, rows: int) -> None:
    """States set to the counts of up to 10^12 cells, Amazon-3M's 2.8 million labels times 700,000 rows, give Python's."""
    relevant = torch.tensor([[1, 2, 3, 4], [4, 3, 2, 1], [0, 0, 0, 0]]) * (rows // 10)
    seen = relevant + torch.tensor([[rows, rows // 2, rows // 3, 1]])
    metric = LabelAUC(average=average, bins=4, num_labels=3)
    for name, state in (("scores_in_4", seen), ("relevant_in_4", relevant)):
        metric._state(name)[0] = state
    metric._update_count = 1
    ours, others = relevant.tolist(), (seen - relevant).tolist()
    if average == "micro":
        ours, others = ([[sum(column) for column in zip(*side, strict=True)]] for side in (ours, others))
    areas, weights = [], []
    for own, other in zip(ours, others, strict=True):
        if not sum(own):
            continue
        below = [0, *accumulate(other)][:-1]
        right, tied, pairs = sum(map(mul, own, below)), sum(map(mul, own, other)), sum(own) * sum(other)
        areas.append([Fraction(right, pairs), Fraction(2 * right + tied, 2 * pairs), Fraction(right + tied, pairs)])
        weights.append(sum(own) if average == "weighted" else 1)
    low, middle, high = (
        float(sum(map(mul, side, weights)) / sum(weights)) for side in map(list, zip(*areas, strict=True))
    )
    assert float(metric.compute()) == pytest.approx(middle, rel=1e-14)
    assert [float(bound) for bound in metric.error_bounds()] == pytest.approx([low, high], rel=1e-14)


def test_column_major_scores_are_added_as_any_other() -> None:
    """In a collection nothing is added of a batch that a later member cannot read: all bins are made before."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(4, 6, generator=generator).T
    target = torch.tensor([0, 1, 2, 3, 0, 1])
    values = []
    for given in (scores, scores.contiguous()):
        members = [tailmetrics.PersonalizationAtK(k=1, num_labels=4), LabelAUC(num_labels=4)]
        collection = tailmetrics.TopKCollection(members)
        collection.update(given, target)
        values.append(collection.compute())
    assert values[0] == values[1]


def test_the_place_behind_a_cut_list_is_asked_for() -> None:
    """A tie across the cut cannot be seen in a list that ends there."""
    best = torch.tensor([[0.5]]), torch.tensor([[0]])
    metric = TieRateAtK(k=1)
    cut = tailmetrics.rank(best, torch.tensor([0]), depth=1, num_labels=2, complete=False)
    with pytest.raises(ValueError, match="rank with depth=2"):
        metric.update(cut)
    metric.update(torch.tensor([[0.5, 0.5]]), torch.tensor([0]))
    assert float(metric.compute()) == 1
