"""What a quick interval is made of: sums of the values of rows and of their squares, as whole numbers.

Nothing grows with the number of rows, and batches, processes and the order of rows make no difference to a single bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from importlib.util import find_spec
from math import inf, isnan
from typing import Any

import torch
from torch import Tensor

from tailmetrics._exact_metric import ExactMetric
from tailmetrics.evaluation.row_values import gaps_of, has_row_values
from tailmetrics.metrics import KForRecall, PredictionProportionAtK, TieRateAtK, TopKMetric
from tailmetrics.metrics._fixed_point import REAL, UNIT
from tailmetrics.ranking import Ranking
from tailmetrics.ranking._device import real_dtype
from tailmetrics.significance.estimating import Interval

SMALLEST = torch.iinfo(torch.int64).min
"""What a greatest value is before there is one."""


def has_moments(metric: TopKMetric, device: torch.device | str) -> bool:
    """Whether a metric has quick intervals: its rows have values, all of one weight, in numbers exact enough."""
    exact = real_dtype(torch.device(device)) == torch.float64
    has_rows = has_row_values(metric) or isinstance(metric, (PredictionProportionAtK, TieRateAtK))
    return exact and has_rows and not metric.weighted and has_scipy()


def has_scipy() -> bool:
    """Whether there is what intervals need, which ``tailmetrics[report]`` brings."""
    return find_spec("scipy") is not None


def quick_intervals(rows: Any, gaps: Any, scalars: Mapping[str, float], confidence: float) -> dict[str, Interval]:
    """Return quick intervals of averages over labels and of their gaps, with the values that the metrics have."""
    from tailmetrics.significance import intervals

    found = intervals(rows, gaps=gaps, resamples=0, confidence=confidence)
    return {key: replace(one, value=scalars[key]) for key, one in found.items() if key in scalars}


class RowMoments(ExactMetric):
    """Sums over the rows of a metric, for each of its keys and groups of rows.

    Args:
        metric: What has values per row; it is not updated.
        kwargs: See :class:`torchmetrics.Metric`.
    """

    sums: Tensor
    rows: Tensor
    ends: Tensor
    products: Tensor
    both: Tensor
    _metric: Any

    def __init__(self, metric: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        object.__setattr__(self, "_metric", metric)  # no part of this one: it moves and travels by itself
        self._groups = len(metric.group_keys()) - 1
        self._is_median = isinstance(metric, KForRecall) and metric.statistic == "median"
        self._is_ratio = getattr(metric, "average", "samples") == "micro" or _is_ratio(metric)
        self._are_shares = metric.bounds == (0.0, 1.0)
        self._fixed_point = UNIT if self._are_shares and not self._is_ratio else REAL
        keys = len(metric.row_keys()) * (1 + self._groups)
        shape = (keys, metric.depth + 2) if self._is_median else (self._terms, keys, self._fixed_point.columns)
        self.add_state("sums", torch.zeros(shape, dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("rows", torch.zeros(2, keys, dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("ends", torch.full((2, keys), SMALLEST), dist_reduce_fx="max")
        keys_of_groups = [key for group in metric.group_keys() for key in metric.row_keys(group)]
        place = {key: at for at, key in enumerate(keys_of_groups)}
        # which bucket is the rarest that was measured shows at the end: the first one is held against each other
        named = {} if self._is_median else gaps_of(metric)
        self._gaps = {name: [place[key] for key in keys] for name, keys in named.items()}
        first = [places[0] for places in self._gaps.values() for _ in places[1:]]
        others = [place for places in self._gaps.values() for place in places[1:]]
        self._first, self._others = torch.tensor(first), torch.tensor(others)
        self.add_state("products", torch.zeros(4, len(first), self._fixed_point.columns, dtype=torch.int64), "sum")
        self.add_state("both", torch.zeros(2, len(first), dtype=torch.int64), "sum")

    @property
    def _terms(self) -> int:
        """How many sums there are of a key."""
        return 5 if self._is_ratio else 2

    def update(self, ranking: Ranking) -> None:
        """Add a batch."""
        tops, bottoms = self._of_rows(ranking)
        counted = ~tops.isnan() if bottoms is None else ~(tops.isnan() | bottoms.isnan())
        tops = torch.where(counted, tops, 0.0)
        if self._is_median:
            self._add_histogram(tops, counted)
            value, told = tops, counted
        elif bottoms is None:
            self.sums = self.sums + self._fixed_point.add_up(torch.stack([tops, tops * tops]), dim=2)
            value, told = tops, counted
        else:
            bottoms = torch.where(counted, bottoms, 0.0)
            terms = [tops, tops * tops, bottoms, bottoms * bottoms, tops * bottoms]
            self.sums = self.sums + self._fixed_point.add_up(torch.stack(terms), dim=2)
            told = bottoms != 0
            value = tops / torch.where(told, bottoms, 1.0)
        if len(self._first):
            one, other = self._first.to(tops.device), self._others.to(tops.device)
            below = counted.to(tops.dtype) if bottoms is None else bottoms
            pairs = [above[one] * under[other] for above in (tops, below) for under in (tops, below)]
            self.products = self.products + self._fixed_point.add_up(torch.stack(pairs), dim=2)
            self.both = self.both + torch.stack([(side[one] & side[other]).sum(dim=1) for side in (counted, told)])
        self.rows = self.rows + torch.stack([counted.sum(dim=1), told.sum(dim=1)])
        ends = (
            torch.stack([torch.where(told, end, -inf).amax(dim=1) for end in (value, -value)])
            if ranking.num_rows
            else None
        )
        self.ends = self.ends if ends is None else torch.maximum(self.ends, _ordered(ends))

    def _of_rows(self, ranking: Ranking) -> tuple[Tensor, Tensor | None]:
        """Return the values of all rows by key, shape (keys, N) each, NaN where a row does not count."""
        found = list(self._metric.row_values(ranking).values())
        pairs = isinstance(found[0], tuple)
        sides = [torch.stack([one[side] for one in found]) for side in (0, 1)] if pairs else [torch.stack(found)]
        if self._groups:
            groups = ranking.rows.groups
            assert groups is not None
            masks = [groups == number for number in range(self._groups)]
            sides = [torch.cat([side, *(torch.where(mask, side, torch.nan) for mask in masks)]) for side in sides]
        return sides[0], sides[1] if pairs else None

    def _add_histogram(self, values: Tensor, counted: Tensor) -> None:
        """Count the rows of each value up to the depth; behind it the misses, which all have one value."""
        width = self.sums.shape[1]
        place = torch.arange(len(values), device=values.device)[:, None] * width + values.clamp(max=width - 1).long()
        flat = torch.zeros(self.sums.numel(), dtype=torch.int64, device=values.device)
        self.sums = self.sums + flat.scatter_add_(0, place.flatten(), counted.flatten().long()).view(self.sums.shape)

    def compute(self) -> dict[str, Tensor]:
        """Return the states over all processes."""
        return {name: state.clone() for name, state in self._tensors().items()}

    def intervals(
        self, scalars: Mapping[str, float], named: Callable[[str], str], confidence: float
    ) -> dict[str, Interval]:
        """Return the interval of each key, over all processes; call it in every process.

        Args:
            scalars: The values by key.
            named: Puts prefix and postfix around a key.
            confidence: Of the intervals.
        """
        from tailmetrics.significance.estimating import quick_gap, quick_interval, quick_median

        self._update_count = max(1, self._update_count)
        states = self.compute()
        keys = [named(key) for group in self._metric.group_keys() for key in self._metric.row_keys(group)]
        if self._is_median:
            found = [
                quick_median(scalars[key], list(_histogram(counts, self._end(states, 0, place))), confidence)
                for place, (key, counts) in enumerate(zip(keys, states["sums"].tolist(), strict=True))
            ]
            return dict(zip(keys, found, strict=True))
        sums = [self._sums(scalars[key], states, place) for place, key in enumerate(keys)]
        of_keys = {key: quick_interval(one, confidence) for key, one in zip(keys, sums, strict=True)}
        pair = 0
        for name, (first, *others) in self._gaps.items():
            measured = [place for place in others if not isnan(sums[place].value)]
            if measured and not isnan(sums[first].value):
                at = pair + others.index(measured[-1])
                unit = self._fixed_point.unit
                products = [Fraction(int(one), unit) for one in self._fixed_point.totals(states["products"][:, at])]
                both = int(states["both"][0, at]), int(states["both"][1, at])
                of_keys[named(name)] = quick_gap(sums[first], sums[measured[-1]], products, both, confidence)
            pair += len(others)
        return of_keys

    def _end(self, states: Mapping[str, Tensor], which: int, place: int) -> float:
        return float(_real(states["ends"][which, place]))

    def _sums(self, value: float, states: Mapping[str, Tensor], place: int) -> Any:
        from tailmetrics.significance.estimating import Sums

        totals = self._fixed_point.totals(states["sums"][:, place])
        n, units = (int(count) for count in states["rows"][:, place])
        ends = -self._end(states, 1, place), self._end(states, 0, place)
        if inf in totals:
            return Sums(value, n, (Fraction(0), Fraction(0)), (inf, inf), self._are_shares)
        top, squares, *bottoms = (Fraction(int(total), self._fixed_point.unit) for total in totals)
        below = (bottoms[0], bottoms[1], bottoms[2]) if bottoms else None
        return Sums(value, n, (top, squares), ends, self._are_shares, below, units)


def _is_ratio(metric: Any) -> bool:
    from tailmetrics.metrics._rows import RatioMetric

    return isinstance(metric, RatioMetric)


def _histogram(counts: list[int], last: float) -> Iterator[tuple[float, int]]:
    """Yield each value, ascending, and how many rows have it; the last place counts those of the greatest value."""
    for value, count in enumerate(counts):
        if count:
            yield (float(value) if value < len(counts) - 1 else last), count


def _ordered(values: Tensor) -> Tensor:
    """Return float64 as whole numbers in the same order."""
    bits = (values + 0.0).view(torch.int64)
    return torch.where(bits < 0, bits ^ torch.iinfo(torch.int64).max, bits)


def _real(ordered: Tensor) -> Tensor:
    """Return what :func:`_ordered` was given; of the least number NaN."""
    bits = torch.where(ordered < 0, ordered ^ torch.iinfo(torch.int64).max, ordered)
    return torch.where(ordered == SMALLEST, torch.nan, bits.view(torch.float64))
