"""Where formulas end: infinities, counts as large as data get, several threads, vectors of weights that change."""

import sys
from contextlib import nullcontext
from fractions import Fraction
from itertools import accumulate
from operator import mul
from threading import Thread
from typing import Any

import numpy as np
import pytest
import torch

from tailmetrics import CrossEntropy, LabelAUC, LabelFrequency, PopularityAtK, functional, rank
from tailmetrics.ranking import LabelWeights
from tailmetrics.ranking._device import force_plain
from tailmetrics.ranking._target_ranks import weights_at_targets


def test_a_row_that_weighs_nothing_counts_nothing() -> None:
    """Not even where its loss is infinite: the other row has ln 2."""
    metric = CrossEntropy(weighted=True)
    scores = torch.tensor([[0.0, -torch.inf], [0.0, 0.0]])
    metric.update(scores, torch.tensor([1, 1]), row_weights=torch.tensor([0.0, 1.0]))
    assert float(metric.compute()) == pytest.approx(float(np.log(2)))


@pytest.mark.parametrize("average", ["macro", "micro", "weighted"])
@pytest.mark.parametrize("rows", [10, 10**6, 10**10, 7 * 10**11])
def test_label_areas_of_as_many_cells_as_there_are(average: str, rows: int) -> None:
    """States set to the counts of up to 10^12 cells, Amazon-3M's 2.8 million labels times 700,000 rows, give Python's."""
    relevant = torch.tensor([[1, 2, 3, 4], [4, 3, 2, 1], [0, 0, 0, 0]]) * (rows // 10)
    seen = relevant + torch.tensor([[rows, rows // 2, rows // 3, 1]])
    metric = LabelAUC(average=average, bins=4, num_labels=3)
    for name, state in (("scores", seen), ("relevant", relevant)):
        metric.states_of_groups()[0][name].copy_(state)
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


def test_products_of_large_counts_do_not_overflow() -> None:
    """A label with 10^8 training rows, shown 10^11 times, has the popularity 10^8."""
    shown, counts = torch.tensor([10**11, 0]), torch.tensor([10**8, 5])
    assert functional.popularity(shown, counts) == 10**8
    metric = PopularityAtK(k=1, label_counts=counts)
    metric.update(torch.tensor([[0]]), torch.tensor([0]))
    metric.states_of_groups()[0]["shown_at_1"].mul_(10**11)
    assert float(metric.compute()) == 10**8


def test_threads_lose_no_row() -> None:
    """Four threads of 300 batches of 5 rows each count 6,000 rows and labels."""
    frequency = LabelFrequency(4, validate_args=False)
    batch = torch.tensor([0, 1, 1, 2, 3])

    def count() -> None:
        for _ in range(300):
            frequency.update(batch)

    threads = [Thread(target=count) for _ in range(4)]
    often = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(often)
    assert (frequency.num_rows, frequency.compute().tolist()) == (6000, [1200, 2400, 1200, 1200])


@pytest.mark.parametrize("form", [nullcontext, force_plain])
def test_weights_in_a_vector_are_not_taken_for_those_of_an_earlier_one(form: Any) -> None:
    """Three vectors that take one another's place in memory, and one whose numbers change."""
    with form():
        ranking = rank(torch.eye(2, 4), torch.tensor([0, 1]))
        kept = torch.ones(4)
        for weight in (1.0, 5.0, 7.0):
            kept.fill_(weight)
            for vector in (torch.full((4,), weight), kept):
                weights = LabelWeights.of(vector)
                assert ranking.best(1, weights).tolist() == [[weight], [weight]]
                assert weights_at_targets(ranking, weights)[:, 0].tolist() == [weight, weight]
