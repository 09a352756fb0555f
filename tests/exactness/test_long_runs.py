"""Hundreds of millions of rows overflow nothing, and give the result of exact
fractions.
"""

from fractions import Fraction
from math import isnan, nan
from typing import Any

import pytest
import torch

from cases import Case, Data, data
from exactness.bits import CASES_OF_A_KIND, bits_of
from tailmetrics import LabelFrequency, PositiveCoverageAtK, Ranking, RecallAtK, rank
from tailmetrics.metrics import RatioMetric, RowMeanMetric, TopKMetric

FIRST = data(seed=21, num_rows=50, graded=True)
SECOND = data(seed=22, num_rows=50, graded=True)
TIMES = 31_415_927


def exact_terms(
    metric: TopKMetric, ranking: Ranking
) -> dict[str, tuple[Fraction, Fraction]]:
    """Return numerator and denominator of each key: for a mean the sum of the rows that
    count and their number.
    """
    terms: dict[str, tuple[Fraction, Fraction]] = {}
    values: dict[str, Any] = metric.row_values(ranking)  # type: ignore[attr-defined]
    for key, row_values in values.items():
        if isinstance(row_values, tuple):
            top, bottom = (
                sum(map(Fraction, part.tolist()), Fraction(0)) for part in row_values
            )
        else:
            fractions = [
                Fraction(value) for value in row_values.tolist() if not isnan(value)
            ]
            top, bottom = sum(fractions, Fraction(0)), Fraction(len(fractions))
        terms[key] = top, bottom
    return terms


def finite(batch: Data) -> torch.Tensor:
    """Return scores without -inf, at which cross-entropy would be infinite."""
    return batch.scores.clamp(min=-9)


def multiplied(case: Case, times: int) -> torch.Tensor:
    """Return the value after every row of FIRST was seen ``times`` times, and every row
    of SECOND once.
    """
    metric = case.metric()
    metric.update(finite(FIRST), FIRST.target)
    for name, state in metric.metric_state.items():
        if metric._reductions[name].__name__ == "dim_zero_sum":
            setattr(metric, name, state * times)
    other = case.metric()
    other.update(finite(SECOND), SECOND.target)
    metric.merge_state(other)
    return metric.compute()


def has_row_values(case: Case) -> bool:
    """Return whether the metric is a mean over rows or a ratio of sums over rows."""
    metric = case.metric()
    return isinstance(metric, RatioMetric) or (
        isinstance(metric, RowMeanMetric) and metric.average == "samples"
    )


@pytest.mark.parametrize(
    "case", [case for case in CASES_OF_A_KIND if has_row_values(case)], ids=str
)
def test_a_billion_rows_are_added_up_exactly(case: Case) -> None:
    """The value of 1.57e9 rows is within 1e-12, relative, of the row values summed as
    fractions.
    """
    weighted = [(FIRST, TIMES), (SECOND, 1)]
    tops: dict[str, Fraction] = {}
    bottoms: dict[str, Fraction] = {}
    for batch, times in weighted:
        for key, (top, bottom) in exact_terms(
            case.metric(), rank(finite(batch), batch.target)
        ).items():
            tops[key] = tops.get(key, Fraction(0)) + times * top
            bottoms[key] = bottoms.get(key, Fraction(0)) + times * bottom
    values = dict(
        zip(
            case.metric().keys(),
            multiplied(case, TIMES).reshape(-1).tolist(),
            strict=True,
        )
    )
    for key, top in tops.items():
        expected = float(top / bottoms[key]) if bottoms[key] else nan
        assert (isnan(expected) and isnan(values[key])) or values[key] == pytest.approx(
            expected, rel=1e-12, abs=0
        ), key


@pytest.mark.parametrize("case", CASES_OF_A_KIND, ids=str)
def test_a_state_merged_with_itself_keeps_every_bit(case: Case) -> None:
    """A state merged with itself 28 times, to 1.3e10 rows, keeps every bit of the
    value.
    """
    metric = case.metric()
    metric.update(FIRST.scores, FIRST.target)
    before = bits_of(metric.compute())
    for _ in range(28):
        metric.merge_state(metric)
    assert bits_of(metric.compute()) == before
    assert metric._update_count == 2**28


@pytest.mark.parametrize("value", [0.0, 1 / 3, 1.0])
def test_states_hold_a_hundred_billion_rows(value: float) -> None:
    """1e11 rows of the smallest, of a periodic and of the largest value have that
    value, and no state overflows.
    """
    metric = RecallAtK(k=1)
    ids = torch.arange(3)[None] if value else torch.tensor([[9, 8, 7]])
    metric.update(ids, torch.tensor([[0, 1, 2]]) if value < 1 else torch.tensor([[0]]))
    for name, state in metric.metric_state.items():
        setattr(metric, name, state * 10**11)
    assert metric.compute().item() == value
    assert all(bool((state >= 0).all()) for state in metric.metric_state.values())


def test_counts_beyond_float32_and_float64_are_exact() -> None:
    """Counts of 2^24 + 1 rows and 2^53 + 1 labels are exact, where counters in float32
    and float64 would stop.
    """
    metric = RecallAtK(k=1)
    metric.update(torch.tensor([[0]]), torch.tensor([0]))
    for name, state in metric.metric_state.items():
        setattr(metric, name, state * 2**24)
    metric.update(torch.tensor([[0]]), torch.tensor([1]))
    assert metric.compute().item() == 2**24 / (2**24 + 1)
    frequency = LabelFrequency(2)
    frequency.update(torch.tensor([0]))
    frequency.counts.mul_(2**53)
    frequency.update(torch.tensor([0]))
    assert frequency.compute().tolist() == [2**53 + 1, 0]


def test_flags_of_three_hundred_batches_stay_flags() -> None:
    """Flags of three hundred batches stay flags: they are merged by a maximum, because
    a sum in uint8 would wrap after 255.
    """
    metric = PositiveCoverageAtK(k=1, num_labels=2)
    for _ in range(300):
        metric.update(torch.tensor([[0]]), torch.tensor([0]))
    assert metric.compute().item() == 1.0
