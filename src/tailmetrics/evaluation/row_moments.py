"""Sums over rows for quick intervals: sums of values, of their squares and of products, as whole numbers.

Memory does not grow with the number of rows. Batches, processes and the order of rows do not change a single bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from importlib.util import find_spec
from math import inf, isclose, isnan, nan
from typing import Any, cast

import torch
from torch import Tensor

from tailmetrics._exact_metric import ExactMetric
from tailmetrics.collection import TopKCollection
from tailmetrics.evaluation.row_facts import adjusted_key, deepest_cutoff, gaps_of
from tailmetrics.metrics import TopKMetric
from tailmetrics.metrics._states import REAL, UNIT
from tailmetrics.ranking import Ranking
from tailmetrics.ranking._device import real_dtype
from tailmetrics.significance.interval import Interval, with_gaps_of_ends
from tailmetrics.significance.quick import Sums, quick_gap, quick_interval, quick_median

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
        valued[key] = replace(interval, value=scalars[key])
        if interval.ends and not isclose(interval.value, scalars[key], rel_tol=1e-4, abs_tol=1e-4):
            valued[key] = valued[key].without_ends("rows alone do not tell the value")
    return valued


class RowMoments(ExactMetric):
    """Accumulates sums over rows for one metric, for each of its keys and row groups.

    Args:
        collection: The collection of the metric; it is not updated.
        name: Name of the member of the collection, which has values per row.
        adjusted: Whether values are adjusted for chance, as ratios from :meth:`TopKCollection.above_chance`; only the
            gap of adjusted values has an interval.
        kwargs: See :class:`torchmetrics.Metric`.

    The states are ``sums``, shape (terms, keys, limbs): the sums of values and of their squares; for a ratio, those of
    numerators, of their squares, of denominators, of their squares and of products. For a median it is a histogram,
    shape (keys, depth + 2). ``rows``, shape (2, keys): the rows that count, and those with a denominator. ``ends``,
    shape (E, keys): the largest value, the largest negative value, and, for a ratio, the largest numerator and the
    largest denominator minus numerator. ``products``, shape (4, pairs, limbs), and ``rows_in_both``, shape (2, pairs),
    are of the pairs of buckets that can be the ends of a gap.
    """

    sums: Tensor
    rows: Tensor
    ends: Tensor
    products: Tensor
    rows_in_both: Tensor
    _metric: Any
    _collection: TopKCollection

    def __init__(self, collection: TopKCollection, name: str, adjusted: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.name = name
        self.adjusted = adjusted
        metric = cast("Any", collection.members()[name])
        # no submodules: they are moved and sent alone
        object.__setattr__(self, "_metric", metric)
        object.__setattr__(self, "_collection", collection)
        self._num_groups = len(metric.group_keys()) - 1
        self._is_median = metric.aggregation.row_terms == "median"
        self._is_ratio = adjusted or metric.aggregation.row_terms == "ratio"
        self._are_shares = metric.bounds == (0.0, 1.0) and not adjusted
        self._fixed_point = UNIT if self._are_shares and not self._is_ratio else REAL

        self._gaps = self._places_of_gaps()
        self._pairs = {pair: place for place, pair in enumerate(self._possible_ends())}
        num_keys = len(metric.row_keys()) * (1 + self._num_groups)
        limbs = self._fixed_point.columns
        shape: tuple[int, ...] = (5 if self._is_ratio else 2, num_keys, limbs)
        if self._is_median:
            shape = num_keys, metric.depth + 2
        num_ends, num_pairs = 4 if self._is_ratio else 2, len(self._pairs)
        self.add_state("sums", torch.zeros(shape, dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("rows", torch.zeros(2, num_keys, dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("ends", torch.full((num_ends, num_keys), SMALLEST), dist_reduce_fx="max")
        self.add_state("products", torch.zeros(4, num_pairs, limbs, dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("rows_in_both", torch.zeros(2, num_pairs, dtype=torch.int64), dist_reduce_fx="sum")

    def _places_of_gaps(self) -> dict[str, list[int]]:
        """Return the name of each gap with the places of its buckets among the keys of all groups."""
        if self._is_median:
            return {}
        places: dict[str, int] = {}
        for group in self._metric.group_keys():
            for key in self._metric.row_keys(group):
                places[adjusted_key(key) if self.adjusted else key] = len(places)
        gaps = gaps_of(self._metric, adjusted=self.adjusted)
        return {name: [places[key] for key in keys] for name, keys in gaps.items()}

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
        for places in self._gaps.values():
            for number, first in enumerate(places[:num_first]):
                pairs += [(first, last) for last in places[number + 1 :]]
        return pairs

    def update(self, ranking: Ranking) -> None:
        """Add the rows of a batch to the sums: each row to those of all rows, and to those of its group."""
        sides = self._row_values(ranking)
        groups = ranking.rows.groups if self._num_groups else None
        states = {name: state.clone() for name, state in self.metric_state.items()}
        for group in range(-1, self._num_groups):  # -1: rows without a group
            group_sides = sides
            if groups is not None:
                group_sides = [side[:, groups == group] for side in sides]
            if not group_sides[0].shape[1]:
                continue
            amounts = self._amounts(*group_sides)
            self._add(states, amounts, place=0)
            if group >= 0:
                self._add(states, amounts, place=group + 1)
        for name, state in states.items():
            setattr(self, name, state)

    def _add(self, states: Mapping[str, Tensor], amounts: Mapping[str, Tensor], place: int) -> None:
        """Add amounts to the states of a place: 0 for all rows, then the groups."""
        for name, amount in amounts.items():
            axis = 0 if name == "sums" and self._is_median else 1
            size = amount.shape[axis]
            state = states[name].narrow(axis, place * size, size)
            if name == "ends":
                state.copy_(torch.maximum(state, amount))
            else:
                state.add_(amount)

    def _amounts(self, tops: Tensor, bottoms: Tensor | None = None) -> dict[str, Tensor]:
        """Return what some rows add to each state, given values, or numerators and denominators, shape (keys, N)."""
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

        amounts = {"rows": torch.stack([counted.sum(dim=1), has_bottom.sum(dim=1)])}
        if self._is_median:
            amounts["sums"] = self._histogram(tops, counted)
        else:
            amounts["sums"] = self._fixed_point.add_up(torch.stack(terms), dim=2)
        amounts["ends"] = _ordered(torch.stack([torch.where(has_bottom, end, -inf).amax(dim=1) for end in extremes]))
        if self._pairs:
            pairs = list(self._pairs)[: len(self._pairs) // (1 + self._num_groups)]  # those of all rows come first
            first, last = torch.tensor(pairs, device=tops.device).unbind(1)
            products = [side[first] * other[last] for side in (tops, bottoms) for other in (tops, bottoms)]
            amounts["products"] = self._fixed_point.add_up(torch.stack(products), dim=2)
            in_both = [(rows[first] & rows[last]).sum(dim=1) for rows in (counted, has_bottom)]
            amounts["rows_in_both"] = torch.stack(in_both)
        return amounts

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
        width = self.sums.shape[1]
        first_places = torch.arange(len(values), device=values.device)[:, None] * width
        places = first_places + values.clamp(max=width - 1).long()
        counts = torch.zeros(len(values) * width, dtype=torch.int64, device=values.device)
        return counts.scatter_add_(0, places.flatten(), counted.flatten().long()).view(len(values), width)

    def compute(self) -> dict[str, Tensor]:
        """Return the states over all processes."""
        return {name: state.clone() for name, state in self.metric_state.items()}

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
        keys = [named(key) for group in self._metric.group_keys() for key in self._metric.row_keys(group)]
        if self._is_median:
            return self._median_intervals(states, keys, scalars, confidence)

        # all states are read at once: single reads take longer than the arithmetic
        totals = self._fixed_point.totals(states["sums"])
        rows, ends = states["rows"].tolist(), _real(states["ends"]).tolist()
        sums = []
        for place, key in enumerate(keys):
            value = None if self.adjusted else scalars[key]
            rows_of_key, ends_of_key = [part[place] for part in rows], [part[place] for part in ends]
            sums.append(self._sums(value, totals[place :: len(keys)], rows_of_key, ends_of_key))
        intervals: dict[str, Interval] = {}
        if not self.adjusted:
            for key, key_sums in zip(keys, sums, strict=True):
                intervals[key] = quick_interval(key_sums, confidence)
        for name, places in self._gaps.items():
            gap = self._gap(states, sums, places, confidence)
            if gap is not None:
                intervals[named(name)] = gap
        gap_keys = {named(name): [keys[place] for place in places] for name, places in self._gaps.items()}
        return as_valued(with_gaps_of_ends(intervals, gap_keys), scalars)

    def _median_intervals(
        self, states: Mapping[str, Tensor], keys: Sequence[str], scalars: Mapping[str, float], confidence: float
    ) -> dict[str, Interval]:
        """Return the interval of each median, from the number of rows of each value."""
        largest_values = _real(states["ends"][0]).tolist()
        intervals = {}
        for key, counts, largest in zip(keys, states["sums"].tolist(), largest_values, strict=True):
            histogram = []
            for value, count in enumerate(counts):
                if count:
                    is_miss = value == len(counts) - 1  # misses have the greatest value
                    histogram.append((largest if is_miss else float(value), count))
            intervals[key] = quick_median(scalars[key], histogram, confidence)
        return intervals

    def _gap(
        self, states: Mapping[str, Tensor], sums: Sequence[Sums], places: Sequence[int], confidence: float
    ) -> Interval | None:
        """Return the interval of a gap; None if fewer than two buckets were measured."""
        measured = [place for place in places if not isnan(sums[place].value)]
        if not measured or (measured[0], measured[-1]) not in self._pairs:
            return None
        first, last = measured[0], measured[-1]
        pair = self._pairs[first, last]
        products = []
        for total in self._fixed_point.totals(states["products"][:, pair]):
            # an infinite row makes an end of its bucket infinite; the products are then not used
            products.append(Fraction(0 if total == inf else int(total), self._fixed_point.unit))
        counted, with_bottom = (int(number) for number in states["rows_in_both"][:, pair])
        return quick_gap(sums[first], sums[last], products, (counted, with_bottom), confidence)

    def _sums(
        self, value: float | None, totals: Sequence[int | float], rows: Sequence[int], ends: Sequence[float]
    ) -> Sums:
        """Return the sums of a key from its states; a ``value`` of None is computed from them."""
        n, units = rows
        if inf in totals:
            return Sums(inf, n, (Fraction(0), Fraction(0)), (inf, inf), self._are_shares)
        largest, negative_least, *largest_parts = ends
        top, squares, *ratio = (Fraction(int(total), self._fixed_point.unit) for total in totals)
        if value is None:
            value = float(top / ratio[0]) if ratio[0] else nan
        if not ratio:
            return Sums(value, n, (top, squares), (-negative_least, largest), self._are_shares)
        return Sums(
            value,
            n,
            (top, squares),
            (-negative_least, largest),
            self._are_shares,
            ratio=(ratio[0], ratio[1], ratio[2]),
            with_bottom=units,
            largest=(largest_parts[0], largest_parts[1]),
        )


def _ordered(values: Tensor) -> Tensor:
    """Map float64 to int64 so that the order is kept."""
    bits = (values + 0.0).view(torch.int64)
    return torch.where(bits < 0, bits ^ torch.iinfo(torch.int64).max, bits)


def _real(ordered: Tensor) -> Tensor:
    """Invert :func:`_ordered`; :data:`SMALLEST` becomes NaN."""
    bits = torch.where(ordered < 0, ordered ^ torch.iinfo(torch.int64).max, ordered)
    return torch.where(ordered == SMALLEST, torch.nan, bits.view(torch.float64))
