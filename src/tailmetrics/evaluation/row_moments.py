"""What a quick interval is made of: sums of the values of rows and of their squares, as whole numbers.

Nothing grows with the number of rows, and batches, processes and the order of rows make no difference to a single bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from importlib.util import find_spec
from math import inf, isclose, isnan, nan
from typing import Any, cast

import torch
from torch import Tensor

from tailmetrics._exact_metric import ExactMetric
from tailmetrics.collection import TopKCollection
from tailmetrics.evaluation.row_values import adjusted_key, gaps_of, has_row_values
from tailmetrics.metrics import KForRecall, PredictionProportionAtK, TieRateAtK, TopKMetric
from tailmetrics.metrics._rows import RatioMetric
from tailmetrics.metrics._states import REAL, UNIT
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


def as_valued(found: Mapping[str, Interval], scalars: Mapping[str, float]) -> dict[str, Interval]:
    """Return the intervals of the values in ``scalars``, each with its value.

    Its ends are NaN where rows give another value: a metric may count 0 / 0 of a bucket as 0, where rows call the
    bucket unmeasured. Areas from bins may differ by 1e-4.
    """
    valued: dict[str, Interval] = {}
    for key in (key for key in found if key in scalars):
        one = valued[key] = replace(found[key], value=scalars[key])
        alike = isclose(found[key].value, one.value, rel_tol=1e-4, abs_tol=1e-4)
        if not (alike or isnan(one.low)):
            valued[key] = replace(one, low=nan, high=nan, method="none: rows alone do not tell the value")
    return valued


class RowMoments(ExactMetric):
    """Sums over the rows of a metric, for each of its keys and groups of rows.

    Args:
        collection: It is not updated.
        name: Its member that has values per row.
        adjusted: Whether values are adjusted for chance, ratios as :meth:`TopKCollection.above_chance` has them: of
            these the gap alone has an interval.
        kwargs: See :class:`torchmetrics.Metric`.
    """

    sums: Tensor
    rows: Tensor
    ends: Tensor
    products: Tensor
    both: Tensor
    _metric: Any
    _collection: TopKCollection

    def __init__(self, collection: TopKCollection, name: str, adjusted: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.name, self.adjusted, metric = name, adjusted, cast("Any", collection.members()[name])
        vars(self).update(_metric=metric, _collection=collection)  # no parts of this one: they move and travel alone
        self._groups = len(metric.group_keys()) - 1
        self._is_median = isinstance(metric, KForRecall) and metric.statistic == "median"
        self._is_ratio = adjusted or getattr(metric, "average", "samples") == "micro" or isinstance(metric, RatioMetric)
        self._are_shares = metric.bounds == (0.0, 1.0) and not adjusted
        self._fixed_point = UNIT if self._are_shares and not self._is_ratio else REAL
        keys = len(metric.row_keys()) * (1 + self._groups)
        terms = 5 if self._is_ratio else 2
        shape = (keys, metric.depth + 2) if self._is_median else (terms, keys, self._fixed_point.columns)
        self.add_state("sums", torch.zeros(shape, dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("rows", torch.zeros(2, keys, dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("ends", torch.full((2, keys), SMALLEST), dist_reduce_fx="max")
        keys_of_groups = [key for group in metric.group_keys() for key in metric.row_keys(group)]
        place = {adjusted_key(key) if adjusted else key: at for at, key in enumerate(keys_of_groups)}
        # which bucket is the rarest that was measured shows at the end: the first one is held against each other, and
        # adjusted for chance those behind it, too, while a bucket is not larger than the list, so that chance hits all
        named = {} if self._is_median else gaps_of(metric, adjusted=adjusted)
        self._gaps = {name: [place[key] for key in keys] for name, keys in named.items()}
        deepest = max((k for k in metric.cutoffs if isinstance(k, int)), default=0) if adjusted else 0
        sizes = metric.bound_buckets.label_counts.tolist() if adjusted else []
        firsts = 1 + next((at for at, size in enumerate(sizes) if size > deepest), 0)
        pairs = [
            (one, other) for of in self._gaps.values() for at, one in enumerate(of[:firsts]) for other in of[at + 1 :]
        ]
        self._pairs = {pair: at for at, pair in enumerate(pairs)}
        self.add_state("products", torch.zeros(4, len(pairs), self._fixed_point.columns, dtype=torch.int64), "sum")
        self.add_state("both", torch.zeros(2, len(pairs), dtype=torch.int64), "sum")

    def update(self, ranking: Ranking) -> None:
        """Add a batch."""
        tops, bottoms = self._of_rows(ranking)
        counted = ~tops.isnan() if bottoms is None else ~(tops.isnan() | bottoms.isnan())
        tops = torch.where(counted, tops, 0.0)
        if self._is_median:
            self._add_histogram(tops, counted)
            value, valued = tops, counted
        elif bottoms is None:
            self.sums = self.sums + self._fixed_point.add_up(torch.stack([tops, tops * tops]), dim=2)
            value, valued = tops, counted
        else:
            bottoms = torch.where(counted, bottoms, 0.0)
            terms = [tops, tops * tops, bottoms, bottoms * bottoms, tops * bottoms]
            self.sums = self.sums + self._fixed_point.add_up(torch.stack(terms), dim=2)
            valued = bottoms != 0
            value = tops / torch.where(valued, bottoms, 1.0)
        if self._pairs:
            one, other = torch.tensor([*self._pairs], device=tops.device).unbind(1)
            below = counted.to(tops.dtype) if bottoms is None else bottoms
            pairs = [above[one] * under[other] for above in (tops, below) for under in (tops, below)]
            self.products = self.products + self._fixed_point.add_up(torch.stack(pairs), dim=2)
            self.both = self.both + torch.stack([(side[one] & side[other]).sum(dim=1) for side in (counted, valued)])
        self.rows = self.rows + torch.stack([counted.sum(dim=1), valued.sum(dim=1)])
        if ranking.num_rows:
            ends = torch.stack([torch.where(valued, end, -inf).amax(dim=1) for end in (value, -value)])
            self.ends = torch.maximum(self.ends, _ordered(ends))

    def _of_rows(self, ranking: Ranking) -> tuple[Tensor, Tensor | None]:
        """Return the values of all rows by key, shape (keys, N) each, NaN where a row does not count."""
        above_chance = partial(self._collection.above_chance, self.name)
        found = list((above_chance if self.adjusted else self._metric.row_values)(ranking).values())
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
        highest, lowest = (_real(end).tolist() for end in (states["ends"][0], states["ends"][1]))
        if self._is_median:
            found = {}
            for key, counts, last in zip(keys, states["sums"].tolist(), highest, strict=True):
                values = [*map(float, range(len(counts) - 1)), last]  # the last place counts the greatest value
                histogram = [pair for pair in zip(values, counts, strict=True) if pair[1]]
                found[key] = quick_median(scalars[key], histogram, confidence)
            return found
        ends = [(-low, high) for low, high in zip(lowest, highest, strict=True)]
        values = [None if self.adjusted else scalars[key] for key in keys]
        sums = [self._sums(values[place], states, place, ends[place]) for place in range(len(keys))]
        of_keys = {}
        if not self.adjusted:
            of_keys = {key: quick_interval(one, confidence) for key, one in zip(keys, sums, strict=True)}
        for name, places in self._gaps.items():
            measured = [place for place in places if not isnan(sums[place].value)]
            at = self._pairs.get((measured[0], measured[-1])) if measured else None
            if at is not None:
                unit, totals = self._fixed_point.unit, self._fixed_point.totals(states["products"][:, at])
                # where a row is infinite, so is an end of its bucket, and nothing is made of the products
                products = [Fraction(0 if one == inf else int(one), unit) for one in totals]
                both = int(states["both"][0, at]), int(states["both"][1, at])
                gap = quick_gap(sums[measured[0]], sums[measured[-1]], products, both, confidence)
                of_keys[named(name)] = gap
        return as_valued(of_keys, scalars)

    def _sums(self, value: float | None, states: Mapping[str, Tensor], place: int, ends: tuple[float, float]) -> Any:
        from tailmetrics.significance.estimating import Sums

        totals = self._fixed_point.totals(states["sums"][:, place])
        n, units = (int(count) for count in states["rows"][:, place])
        if inf in totals:
            return Sums(inf, n, (Fraction(0), Fraction(0)), (inf, inf), self._are_shares)
        top, squares, *bottoms = (Fraction(int(total), self._fixed_point.unit) for total in totals)
        if value is None:
            value = float(top / bottoms[0]) if bottoms[0] else nan
        below = (bottoms[0], bottoms[1], bottoms[2]) if bottoms else None
        return Sums(value, n, (top, squares), ends, self._are_shares, below, units)


def _ordered(values: Tensor) -> Tensor:
    """Return float64 as whole numbers in the same order."""
    bits = (values + 0.0).view(torch.int64)
    return torch.where(bits < 0, bits ^ torch.iinfo(torch.int64).max, bits)


def _real(ordered: Tensor) -> Tensor:
    """Return what :func:`_ordered` was given; of the least number NaN."""
    bits = torch.where(ordered < 0, ordered ^ torch.iinfo(torch.int64).max, ordered)
    return torch.where(ordered == SMALLEST, torch.nan, bits.view(torch.float64))
