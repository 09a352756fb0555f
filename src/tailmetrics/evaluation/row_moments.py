"""Sums over rows for quick intervals: sums of values, of their squares and of products, as whole numbers.

Memory does not grow with the number of rows. Batches, processes and the order of rows do not change a single bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from math import inf, isclose, isnan, prod
from typing import Any, cast

import torch
from torch import Tensor

from tailmetrics._exact_metric import ExactMetric
from tailmetrics.collection import TopKCollection
from tailmetrics.evaluation.row_facts import deepest_cutoff, gaps_of
from tailmetrics.metrics import TopKMetric
from tailmetrics.metrics._states import REAL, UNIT
from tailmetrics.ranking import Ranking
from tailmetrics.ranking._device import real_dtype
from tailmetrics.significance.interval import Interval, with_gaps_of_ends
from tailmetrics.significance.moments import ExactSums, Moments, quick_interval, quick_median

SMALLEST = torch.iinfo(torch.int64).min
"""Initial value of a maximum, before the first row."""


def has_moments(metric: TopKMetric, device: torch.device | str) -> bool:
    """Whether a metric has quick intervals: it has unweighted float64 values per row, and SciPy is installed."""
    exact = real_dtype(torch.device(device)) == torch.float64
    return exact and metric.aggregation.row_terms is not None and not metric.weighted and has_scipy()


def has_scipy() -> bool:
    """Whether SciPy is installed, which intervals need; ``tailmetrics[report]`` brings it."""
    return find_spec("scipy") is not None


def as_valued(intervals: Mapping[str, Interval], scalars: Mapping[str, float]) -> dict[str, Interval]:
    """Return the intervals of the keys in ``scalars``, each with the value in ``scalars`` as its value.

    The ends become NaN if the values per row give another value: a metric may count 0 / 0 in a bucket as 0, while
    values per row leave the bucket unmeasured. Areas from bins may differ by 1e-4.
    """
    valued: dict[str, Interval] = {}
    for key, interval in intervals.items():
        if key not in scalars:
            continue
        if interval.value == scalars[key]:
            valued[key] = interval
            continue
        valued[key] = replace(interval, value=scalars[key])
        if interval.ends and not isclose(interval.value, scalars[key], rel_tol=1e-4, abs_tol=1e-4):
            valued[key] = valued[key].without_ends("rows alone do not tell the value")
    return valued


class MetricMoments:
    """Describes the sums over rows of one metric: for all rows, and for each row group.

    Args:
        collection: The collection of the metric.
        name: Name of the member of the collection, which has values per row.
        adjusted: Whether values are adjusted for chance, as ratios from :meth:`TopKCollection.above_chance`; only the
            gap of adjusted values has an interval.

    Attributes:
        num_sums: How many whole numbers are added up.
        num_ends: How many largest values are kept.

    The sums are, for each row group: for each key the sums of values and of their squares; for a ratio, those of
    numerators, of their squares, of denominators, of their squares and of products. For a median it is a histogram up
    to the depth. Then for each key the number of rows that count, and of those with a denominator. Then, for each pair
    of buckets that can be the ends of a gap, the sums of products of their numerators and denominators, and the number
    of rows in both. The ends are, for each key, the largest value, the largest negative value, and, for a ratio, the
    largest numerator and the largest denominator minus numerator.
    """

    def __init__(self, collection: TopKCollection, name: str, adjusted: bool = False) -> None:
        self.name = name
        self.adjusted = adjusted
        self._collection = collection
        self._metric = cast("Any", collection.members()[name])
        self._num_keys = len(self._metric.row_keys())
        self._groups = self._metric.group_keys()
        self._is_median = self._metric.aggregation.row_terms == "median"
        self._is_ratio = adjusted or self._metric.aggregation.row_terms == "ratio"
        self._are_shares = self._metric.bounds == (0.0, 1.0) and not adjusted
        self._fixed_point = UNIT if self._are_shares and not self._is_ratio else REAL
        self._gaps = self._places_of_gaps()
        self._pairs = {pair: place for place, pair in enumerate(self._possible_ends())}

        limbs = self._fixed_point.columns
        shapes: list[tuple[int, ...]] = [(5 if self._is_ratio else 2, self._num_keys, limbs)]
        self._num_values = 0
        if self._is_median:
            self._num_values = self._metric.depth + 2  # one of them for misses
            shapes = [(self._num_keys, self._num_values)]
        shapes += [(2, self._num_keys), (4, len(self._pairs), limbs), (2, len(self._pairs))]
        self._shapes = shapes
        self._num_extremes = 4 if self._is_ratio else 2
        self.num_sums = len(self._groups) * sum(map(prod, shapes))
        self.num_ends = len(self._groups) * self._num_extremes * self._num_keys

    def _places_of_gaps(self) -> list[list[int]]:
        """Return for each gap of a row group the places of its buckets among the keys of the group."""
        if self._is_median:
            return []
        places = {key: place for place, key in enumerate(self._metric.row_keys())}
        gaps = list(gaps_of(self._metric).values())
        return [[places[key] for key in keys] for keys in gaps[: len(gaps) // len(self._groups)]]

    def _possible_ends(self) -> list[tuple[int, int]]:
        """Return the pairs of places that can be the first and the last measured bucket of a gap.

        Only the end of the data shows which bucket is the last measured one, so the first bucket is paired with every
        other one. Adjusted for chance, a bucket that is not larger than the list is unmeasured, because chance hits
        all of it: then the next bucket is paired, too.
        """
        num_first = 1
        if self.adjusted:
            deepest, _ = deepest_cutoff(self._metric)
            for place, size in enumerate(self._metric.bound_buckets.label_counts.tolist()):
                if size > deepest:
                    num_first = 1 + place
                    break
        pairs = []
        for places in self._gaps:
            for number, first in enumerate(places[:num_first]):
                pairs += [(first, last) for last in places[number + 1 :]]
        return pairs

    def amounts(self, ranking: Ranking) -> tuple[Tensor, Tensor]:
        """Return what a batch adds to the sums, and its ends, shape (num_sums,) and (num_ends,)."""
        sides = self._row_values(ranking)
        groups = ranking.rows.groups
        if len(self._groups) == 1:
            return self._amounts(*sides)

        group_sums, group_ends = [], []
        for group in range(-1, len(self._groups) - 1):  # -1: rows without a group
            sums, ends = self._amounts(*(side[:, groups == group] for side in sides))
            group_sums.append(sums)
            group_ends.append(ends)
        group_sums[0] = torch.stack(group_sums).sum(dim=0)
        group_ends[0] = torch.stack(group_ends).amax(dim=0)
        return torch.cat(group_sums), torch.cat(group_ends)

    def _amounts(self, tops: Tensor, bottoms: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the sums and ends of rows, given their values, or numerators and denominators, shape (keys, N)."""
        counted = ~tops.isnan()
        if bottoms is not None:
            counted = counted & ~bottoms.isnan()
        tops = torch.where(counted, tops, 0.0)
        if bottoms is None:
            bottoms, has_bottom, values = counted.to(tops.dtype), counted, tops
            terms = [tops, tops * tops]
            extremes = [values, -values]
        else:
            bottoms = torch.where(counted, bottoms, 0.0)
            has_bottom = bottoms != 0
            values = tops / torch.where(has_bottom, bottoms, 1.0)
            terms = [tops, tops * tops, bottoms, bottoms * bottoms, tops * bottoms]
            extremes = [values, -values, tops, bottoms - tops]

        sums = [torch.stack([counted.sum(dim=1), has_bottom.sum(dim=1)])]
        if self._is_median:
            sums.insert(0, self._histogram(tops, counted))
        else:
            sums.insert(0, self._fixed_point.add_up(torch.stack(terms), dim=2))
        if self._pairs:
            first, last = torch.tensor(list(self._pairs), device=tops.device).unbind(1)
            products = [side[first] * other[last] for side in (tops, bottoms) for other in (tops, bottoms)]
            sums.append(self._fixed_point.add_up(torch.stack(products), dim=2))
            sums.append(torch.stack([(rows[first] & rows[last]).sum(dim=1) for rows in (counted, has_bottom)]))

        ends = torch.where(has_bottom, torch.stack(extremes), -inf)
        ends = torch.nn.functional.pad(ends, (0, 1), value=-inf)  # a batch may have no rows
        return torch.cat([part.flatten() for part in sums]), _ordered(ends.amax(dim=2)).flatten()

    def _row_values(self, ranking: Ranking) -> list[Tensor]:
        """Return the values of rows, or numerators and denominators, shape (keys, N); NaN if a row does not count."""
        if self.adjusted:
            values = list(self._collection.reference_models.above_chance(self.name, ranking).values())
        else:
            values = list(self._metric.row_values(ranking).values())
        if not isinstance(values[0], tuple):
            return [torch.stack(values)]
        tops, bottoms = zip(*values, strict=True)
        return [torch.stack(list(tops)), torch.stack(list(bottoms))]

    def _histogram(self, values: Tensor, counted: Tensor) -> Tensor:
        """Count the rows of each value up to the depth; the last place counts the misses, which share one value."""
        width = self._num_values
        first_places = torch.arange(len(values), device=values.device)[:, None] * width
        places = first_places + values.clamp(max=width - 1).long()
        counts = torch.zeros(len(values) * width, dtype=torch.int64, device=values.device)
        return counts.scatter_add_(0, places.flatten(), counted.flatten().long()).view(len(values), width)

    def intervals(
        self,
        sums: Tensor,
        ends: Tensor,
        scalars: Mapping[str, float],
        named: Callable[[str], str],
        confidence: float,
    ) -> dict[str, Interval]:
        """Return the interval of each key and gap.

        Args:
            sums: The sums of all batches, shape (num_sums,).
            ends: The ends of all batches, shape (num_ends,), float64.
            scalars: The values by key.
            named: Adds prefix and postfix to a key.
            confidence: Confidence of the intervals.
        """
        sums_of_groups = sums.view(len(self._groups), -1)
        ends_of_groups = ends.view(len(self._groups), self._num_extremes, -1)
        gap_names = iter(gaps_of(self._metric, named, adjusted=self.adjusted))
        intervals: dict[str, Interval] = {}
        gap_keys: dict[str, list[str]] = {}
        for number, group in enumerate(self._groups):
            keys = list(map(named, self._metric.row_keys(group)))
            parts = torch.split(sums_of_groups[number], list(map(prod, self._shapes)))
            states = [part.view(shape) for part, shape in zip(parts, self._shapes, strict=True)]
            extremes = ends_of_groups[number].T.tolist()
            if self._is_median:
                for key, counts, (largest, _) in zip(keys, states[0].tolist(), extremes, strict=True):
                    intervals[key] = quick_median(scalars[key], _values_of_histogram(counts, largest), confidence)
                continue

            exact_sums = self._exact_sums(states, extremes)
            values = [scalars[key] for key in keys]
            if self.adjusted:
                values = [sums_of_key.value for sums_of_key in exact_sums]
            else:
                for key, value, sums_of_key in zip(keys, values, exact_sums, strict=True):
                    intervals[key] = self._interval(sums_of_key, value, confidence)
            for places in self._gaps:
                name = next(gap_names)
                gap_keys[name] = [keys[place] for place in places]
                gap = self._gap(states, exact_sums, values, places, confidence)
                if gap is not None:
                    intervals[name] = gap
        return with_gaps_of_ends(intervals, gap_keys)

    def _exact_sums(self, states: Sequence[Tensor], extremes: Sequence[Sequence[float]]) -> list[ExactSums]:
        """Return the sums of each key of a row group, over all batches."""
        unit, num_keys = self._fixed_point.unit, self._num_keys
        totals = self._fixed_point.totals(states[0])
        exact_sums = []
        for place, (n, units) in enumerate(states[1].T.tolist()):
            high, negative_low, *largest_parts = extremes[place]
            sums_of_key: Any = totals[place::num_keys]
            top, squares, *ratio_sums = sums_of_key
            low = -negative_low
            if inf in sums_of_key:
                sums = ExactSums(n, unit, 0, 0, 0, 0, 0, units, inf, inf, inf, inf)
            elif self._is_ratio:
                bottom, bottom_squares, products = ratio_sums
                sums = ExactSums(
                    n, unit, top, squares, bottom, bottom_squares, products, units, low, high, *largest_parts
                )
            else:
                sums = ExactSums.of_mean(n, unit, top, squares, low, high)
            exact_sums.append(sums)
        return exact_sums

    def _interval(self, sums: ExactSums, value: float, confidence: float) -> Interval:
        """Return the interval of a key."""
        num_ones = None
        if not self._is_ratio:
            num_ones = sums.num_ones
        moments = Moments.from_sums(sums)
        return quick_interval(moments, value, sums.n, shares=self._are_shares, num_ones=num_ones, confidence=confidence)

    def _gap(
        self,
        states: Sequence[Tensor],
        exact_sums: Sequence[ExactSums],
        values: Sequence[float],
        places: Sequence[int],
        confidence: float,
    ) -> Interval | None:
        """Return the interval of a gap; None if fewer than two buckets were measured."""
        measured = [place for place in places if not isnan(values[place])]
        if not measured or (measured[0], measured[-1]) not in self._pairs:
            return None
        first, last = measured[0], measured[-1]
        pair = self._pairs[first, last]
        products: Any = self._fixed_point.totals(states[2][:, pair])
        if inf in products:  # an infinite row makes an end of its bucket infinite; the products are then not used
            products = [0, 0, 0, 0]
        n_in_both, units_in_both = states[3][:, pair].tolist()
        moments = Moments.of_gap(exact_sums[first], exact_sums[last], products, units_in_both)
        n = exact_sums[first].n + exact_sums[last].n - n_in_both
        value = values[first] - values[last]
        return quick_interval(moments, value, n, shares=self._are_shares, confidence=confidence)


class RowMoments(ExactMetric):
    """Accumulates sums over rows for several metrics, side by side in two tensors.

    Args:
        parts: What is summed for each metric.
    """

    sums: Tensor
    ends: Tensor

    def __init__(self, parts: Sequence[MetricMoments]) -> None:
        super().__init__()
        self.parts = parts
        self.add_state("sums", torch.zeros(sum(part.num_sums for part in parts), dtype=torch.int64), "sum")
        self.add_state("ends", torch.full((sum(part.num_ends for part in parts),), SMALLEST), "max")

    def update(self, ranking: Ranking) -> None:
        """Add the rows of a batch to the sums: each row to those of all rows, and to those of its group."""
        sums, ends = zip(*(part.amounts(ranking) for part in self.parts), strict=True)
        self.sums = self.sums + torch.cat(sums)
        self.ends = torch.maximum(self.ends, torch.cat(ends))

    def compute(self) -> dict[str, Tensor]:
        """Return the states over all processes."""
        return {"sums": self.sums.clone(), "ends": self.ends.clone()}

    def intervals(
        self, scalars: Mapping[str, float], named: Callable[[str], str], confidence: float
    ) -> dict[str, Interval]:
        """Return the interval of each key, over all processes; call it in every process.

        Args:
            scalars: The values by key.
            named: Adds prefix and postfix to a key.
            confidence: Confidence of the intervals.
        """
        self._update_count = max(1, self._update_count)
        states = self.compute()
        sums = torch.split(states["sums"], [part.num_sums for part in self.parts])
        ends = torch.split(_real(states["ends"]), [part.num_ends for part in self.parts])
        intervals: dict[str, Interval] = {}
        for part, part_sums, part_ends in zip(self.parts, sums, ends, strict=True):
            intervals |= part.intervals(part_sums, part_ends, scalars, named, confidence)
        return as_valued(intervals, scalars)


def _values_of_histogram(counts: Sequence[int], largest: float) -> list[tuple[float, int]]:
    """Return each distinct value, ascending, with its number of rows; misses have the largest value."""
    values = [*map(float, range(len(counts) - 1)), largest]
    return [(value, count) for value, count in zip(values, counts, strict=True) if count]


def _ordered(values: Tensor) -> Tensor:
    """Map float64 to int64 so that the order is kept."""
    bits = (values + 0.0).view(torch.int64)
    return torch.where(bits < 0, bits ^ torch.iinfo(torch.int64).max, bits)


def _real(ordered: Tensor) -> Tensor:
    """Invert :func:`_ordered`; :data:`SMALLEST` becomes NaN."""
    bits = torch.where(ordered < 0, ordered ^ torch.iinfo(torch.int64).max, ordered)
    return torch.where(ordered == SMALLEST, torch.nan, bits.view(torch.float64))
