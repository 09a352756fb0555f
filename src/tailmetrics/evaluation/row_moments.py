"""Sums over rows for quick intervals, as whole numbers.

Values, their squares and products are added up. Memory does not grow with the number of
rows. Batches, processes and the order of rows do not change a single bit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from math import inf, isnan, prod
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional as F

from tailmetrics._exact_metric import ExactMetric
from tailmetrics.collection import TopKCollection, buckets_by_stem
from tailmetrics.evaluation.label_codes import deepest_cutoff
from tailmetrics.evaluation.row_facts import Named
from tailmetrics.metrics import TopKMetric
from tailmetrics.metrics._states import REAL, UNIT
from tailmetrics.ranking import Ranking
from tailmetrics.ranking._device import real_dtype
from tailmetrics.significance.interval import Interval, with_gaps_of_ends
from tailmetrics.significance.moments import (
    ExactSums,
    Moments,
    quick_interval,
    quick_median,
)

Tables: TypeAlias = Mapping[str, Tensor]
"""The tables of sums of a row group, by name."""
Ends: TypeAlias = Sequence[Sequence[float]]
"""The ends of each key of a row group."""
SMALLEST = torch.iinfo(torch.int64).min
"""Initial value of a maximum, before the first row."""


class GroupedSums(ABC):
    """What is added up over the rows of a metric: all rows, and each row group.

    Args:
        metric: The metric, which has values per row.
        named: Adds prefix and postfix to a key.
        shapes: The shape of each table of sums of a row group, by name.
        num_ends: How many largest values are kept for each key.
    """

    def __init__(
        self,
        metric: TopKMetric,
        named: Named,
        shapes: Mapping[str, tuple[int, ...]],
        num_ends: int,
    ) -> None:
        self._metric = metric
        self._named = named
        self._groups = metric.group_keys()
        self._shapes = shapes
        self._num_ends = num_ends
        self.num_sums = len(self._groups) * sum(map(prod, shapes.values()))
        self.num_ends = len(self._groups) * num_ends * len(metric.row_keys())

    def amounts(self, ranking: Ranking) -> tuple[Tensor, Tensor]:
        """Return sums, shape (num_sums,), and ends, shape (num_ends,), of a batch."""
        sides = self.row_values(ranking)
        if len(self._groups) == 1:
            return self._flat_amounts(sides)

        # first the rows without a group; then, in their place, all rows
        group_sums, group_ends = [], []
        without_group = -1
        for group in range(without_group, len(self._groups) - 1):
            is_in_group = ranking.rows.groups == group
            sums, ends = self._flat_amounts([side[:, is_in_group] for side in sides])
            group_sums.append(sums)
            group_ends.append(ends)
        group_sums[0] = torch.stack(group_sums).sum(dim=0)
        group_ends[0] = torch.stack(group_ends).amax(dim=0)
        return torch.cat(group_sums), torch.cat(group_ends)

    def _flat_amounts(self, sides: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Return the sums and ends of the rows of a group."""
        tables, row_ends = self.amounts_of_group(*sides)
        row_ends = F.pad(row_ends, (0, 1), value=-inf)  # a batch may have no rows
        sums = torch.cat([table.flatten() for table in tables])
        return sums, _ordered(row_ends.amax(dim=2)).flatten()

    def intervals(
        self,
        sums: Tensor,
        ends: Tensor,
        scalars: Mapping[str, float],
        confidence: float,
    ) -> dict[str, Interval]:
        """Return the interval of each key and gap.

        Args:
            sums: The sums of all batches, shape (num_sums,).
            ends: The ends of all batches, shape (num_ends,), float64.
            scalars: The values by key.
            confidence: Confidence of the intervals.
        """
        num_groups = len(self._groups)
        sizes = list(map(prod, self._shapes.values()))
        ends_by_key = ends.view(num_groups, self._num_ends, -1).transpose(1, 2).tolist()
        intervals: dict[str, Interval] = {}
        for number, group_sums in enumerate(sums.view(num_groups, -1)):
            tables = {}
            flat_tables = torch.split(group_sums, sizes)
            for (name, shape), flat_table in zip(
                self._shapes.items(), flat_tables, strict=True
            ):
                tables[name] = flat_table.view(shape)
            intervals |= self.intervals_of_group(
                number, tables, ends_by_key[number], scalars, confidence
            )
        return intervals

    def row_values(self, ranking: Ranking) -> list[Tensor]:
        """Return values of rows, or numerators and denominators, shape (keys, N).

        They are NaN in a row that does not count.
        """
        return _stacked(self._metric.row_values(ranking))

    @abstractmethod
    def amounts_of_group(self, *sides: Tensor) -> tuple[list[Tensor], Tensor]:
        """Return the tables of sums, and values of shape (ends, keys, N).

        The ends are the maxima of these values over rows. The tables are in the order
        of ``shapes``.

        Args:
            sides: What :meth:`row_values` returned, for the rows of a group.
        """

    @abstractmethod
    def intervals_of_group(
        self,
        number: int,
        tables: Tables,
        ends: Ends,
        scalars: Mapping[str, float],
        confidence: float,
    ) -> dict[str, Interval]:
        """Return the interval of each key and gap of a row group, 0 for all rows."""


def _stacked(values: Mapping[str, Any]) -> list[Tensor]:
    """Stack values of rows by key, or numerators and denominators, as (keys, N)."""
    sides_by_key = []
    for value in values.values():
        if isinstance(value, tuple):
            sides_by_key.append(value)
        else:
            sides_by_key.append((value,))
    return [torch.stack(side) for side in zip(*sides_by_key, strict=True)]


class Histograms(GroupedSums):
    """The number of rows of each value of a median, up to the depth, then of misses.

    The end of each key is the largest value, which all misses share.
    """

    def __init__(self, metric: Any, named: Named) -> None:
        self._num_values = metric.depth + 2
        super().__init__(
            metric,
            named,
            {"rows": (len(metric.row_keys()), self._num_values)},
            num_ends=1,
        )

    def amounts_of_group(self, *sides: Tensor) -> tuple[list[Tensor], Tensor]:
        """Return the number of rows of each value, and the values."""
        (values,) = sides
        num_keys, device = len(values), values.device
        is_counted = ~values.isnan()
        value_places = (
            values.where(is_counted, 0.0).clamp(max=self._num_values - 1).long()
        )
        first_places = torch.arange(num_keys, device=device)[:, None] * self._num_values
        places = first_places + value_places
        counts = torch.zeros(
            num_keys * self._num_values, dtype=torch.int64, device=device
        )
        counts.scatter_add_(0, places.flatten(), is_counted.flatten().long())
        row_values = values.where(is_counted, -inf)
        return [counts], row_values[None]

    def intervals_of_group(
        self,
        number: int,
        tables: Tables,
        ends: Ends,
        scalars: Mapping[str, float],
        confidence: float,
    ) -> dict[str, Interval]:
        """Return the interval of each key; gaps of medians have none."""
        intervals = {}
        keys = map(self._named, self._metric.row_keys(self._groups[number]))
        for key, counts, (largest,) in zip(
            keys, tables["rows"].tolist(), ends, strict=True
        ):
            values = [float(value) for value in range(len(counts) - 1)]
            values.append(largest)
            rows_of_values = []
            for value, count in zip(values, counts, strict=True):
                if count:
                    rows_of_values.append((value, count))
            intervals[key] = quick_median(scalars[key], rows_of_values, confidence)
        return intervals


class MomentSums(GroupedSums):
    """The sums of a mean, or of a ratio of sums over rows.

    ``terms`` are for each key the sums of values and of their squares; for a ratio,
    those of numerators, of their squares, of denominators, of their squares and of
    products. ``rows`` are for each key the number of rows that count, and of those with
    a denominator. For each pair of buckets that can be the ends of a gap, ``products``
    are the sums of products of their numerators and denominators, and ``common_rows``
    the number of rows in both. The ends are, for each key, the largest value, the
    largest negative value, and, for a ratio, the largest numerator and the largest
    denominator minus numerator.

    Args:
        metric: The metric.
        named: Adds prefix and postfix to a key.
        is_ratio: Whether rows have numerators and denominators.
        is_share: Whether all values are in [0, 1].
    """

    summary = "gap"
    """The summary of buckets that has an interval."""

    def __init__(
        self, metric: TopKMetric, named: Named, is_ratio: bool, is_share: bool
    ) -> None:
        self._is_ratio = is_ratio
        self._is_share = is_share
        self._fixed_point = REAL
        if is_share and not is_ratio:
            self._fixed_point = UNIT

        place_of_key = {key: place for place, key in enumerate(metric.row_keys())}
        keys_by_stem = buckets_by_stem(metric)
        num_gaps = len(keys_by_stem) // len(metric.group_keys())
        self._gap_names = [named(f"{stem}/{self.summary}") for stem in keys_by_stem]
        self._gaps = []
        for keys in islice(keys_by_stem.values(), num_gaps):  # those of all rows
            self._gaps.append([place_of_key[key] for key in keys])
        self._pairs = _pairs_of_ends(self._gaps, self._num_first(metric))

        num_terms, num_ends = 2, 2
        if is_ratio:
            num_terms, num_ends = 5, 4
        num_keys, num_pairs, columns = (
            len(place_of_key),
            len(self._pairs),
            self._fixed_point.columns,
        )
        shapes = {
            "terms": (num_terms, num_keys, columns),
            "rows": (2, num_keys),
            "products": (4, num_pairs, columns),
            "common_rows": (2, num_pairs),
        }
        super().__init__(metric, named, shapes, num_ends)

    def _num_first(self, metric: Any) -> int:
        """Return how many buckets can be the first measured bucket of a gap.

        Each later bucket can be the last one.
        """
        return 1

    def amounts_of_group(self, *sides: Tensor) -> tuple[list[Tensor], Tensor]:
        """Return the sums, and the values whose maxima are the ends."""
        is_counted = ~torch.stack(sides).isnan().any(dim=0)
        tops = sides[0].where(is_counted, 0.0)
        terms = [tops, tops * tops]
        if self._is_ratio:
            bottoms = sides[1].where(is_counted, 0.0)
            has_bottom = bottoms != 0
            values = tops / bottoms.where(has_bottom, 1.0)
            terms += [bottoms, bottoms * bottoms, tops * bottoms]
            extremes = [values, -values, tops, bottoms - tops]
        else:
            bottoms = is_counted.to(tops.dtype)
            has_bottom = is_counted
            extremes = [tops, -tops]

        sums = [
            self._fixed_point.add_up(torch.stack(terms), dim=2),
            torch.stack([is_counted.sum(dim=1), has_bottom.sum(dim=1)]),
        ]
        if self._pairs:
            sums += self._sums_of_pairs(tops, bottoms, is_counted, has_bottom)
        return sums, torch.stack(extremes).where(has_bottom, -inf)

    def _sums_of_pairs(
        self, tops: Tensor, bottoms: Tensor, is_counted: Tensor, has_bottom: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the sums of products of pairs of keys, and the pairs' common rows.

        The products are those of numerators and denominators.
        """
        first, last = torch.tensor(list(self._pairs), device=tops.device).unbind(1)
        products = [
            tops[first] * tops[last],
            tops[first] * bottoms[last],
            bottoms[first] * tops[last],
            bottoms[first] * bottoms[last],
        ]
        is_in_both = is_counted[first] & is_counted[last]
        has_both_bottoms = has_bottom[first] & has_bottom[last]
        common_rows = torch.stack([is_in_both.sum(dim=1), has_both_bottoms.sum(dim=1)])
        return self._fixed_point.add_up(torch.stack(products), dim=2), common_rows

    def intervals_of_group(
        self,
        number: int,
        tables: Tables,
        ends: Ends,
        scalars: Mapping[str, float],
        confidence: float,
    ) -> dict[str, Interval]:
        """Return the interval of each key and gap."""
        intervals: dict[str, Interval] = {}
        keys = list(map(self._named, self._metric.row_keys(self._groups[number])))
        exact_sums = self._exact_sums(tables, ends)
        values = [key_sums.value for key_sums in exact_sums]
        # values that are adjusted for chance have no interval of their own
        if self.summary == "gap":
            values = [scalars[key] for key in keys]
            for key, value, key_sums in zip(keys, values, exact_sums, strict=True):
                intervals[key] = self._interval(key_sums, value, confidence)

        gap_keys: dict[str, list[str]] = {}
        first_gap = number * len(self._gaps)
        for name, places in zip(self._gap_names[first_gap:], self._gaps, strict=False):
            gap_keys[name] = [keys[place] for place in places]
            gap = self._gap(tables, exact_sums, values, places, confidence)
            if gap is not None:
                intervals[name] = gap
        return with_gaps_of_ends(intervals, gap_keys)

    def _exact_sums(self, tables: Tables, ends: Ends) -> list[ExactSums]:
        """Return the sums of each key of a row group, over all batches."""
        unit, num_keys = self._fixed_point.unit, len(ends)
        totals: Any = self._fixed_point.totals(tables["terms"])
        exact_sums = []
        for place, (n, units) in enumerate(tables["rows"].T.tolist()):
            key_totals = totals[place::num_keys]
            high, negative_low, *extremes_of_ratio = ends[place]
            low = -negative_low
            if inf in key_totals:
                sums = ExactSums(n, unit, 0, 0, 0, 0, 0, units, inf, inf, inf, inf)
            elif self._is_ratio:
                top, squares, bottom, bottom_squares, products = key_totals
                largest_top, largest_rest = extremes_of_ratio
                sums = ExactSums(
                    n,
                    unit,
                    top,
                    squares,
                    bottom,
                    bottom_squares,
                    products,
                    units,
                    low,
                    high,
                    largest_top,
                    largest_rest,
                )
            else:
                top, squares = key_totals
                sums = ExactSums.of_mean(n, unit, top, squares, low, high)
            exact_sums.append(sums)
        return exact_sums

    def _interval(self, sums: ExactSums, value: float, confidence: float) -> Interval:
        """Return the interval of a key."""
        num_ones = None
        if not self._is_ratio:
            num_ones = sums.num_ones
        moments = Moments.from_sums(sums)
        return quick_interval(
            moments,
            value,
            sums.n,
            are_shares=self._is_share,
            num_ones=num_ones,
            confidence=confidence,
        )

    def _gap(
        self,
        tables: Tables,
        exact_sums: Sequence[ExactSums],
        values: Sequence[float],
        places: Sequence[int],
        confidence: float,
    ) -> Interval | None:
        """Return the interval of a gap; None unless two buckets were measured."""
        measured = [place for place in places if not isnan(values[place])]
        if not measured:
            return None
        first, last = measured[0], measured[-1]
        pair = self._pairs.get((first, last))
        if pair is None:
            return None
        products: Any = self._fixed_point.totals(tables["products"][:, pair])
        # an infinite row makes an end of its bucket infinite; the products are then not
        # used
        if inf in products:
            products = [0, 0, 0, 0]
        n_in_both, units_in_both = tables["common_rows"][:, pair].tolist()
        first_sums, last_sums = exact_sums[first], exact_sums[last]
        return quick_interval(
            Moments.of_gap(first_sums, last_sums, products, units_in_both),
            values[first] - values[last],
            first_sums.n + last_sums.n - n_in_both,
            are_shares=self._is_share,
            confidence=confidence,
        )


class AdjustedSums(MomentSums):
    """The sums of values that are adjusted for chance.

    The values are ratios from :meth:`ReferenceModels.above_chance`.

    Args:
        collection: The collection of the metric.
        name: The name of the metric in the collection.
    """

    summary = "adjusted_gap"

    def __init__(self, collection: TopKCollection, name: str) -> None:
        super().__init__(
            collection.members()[name], collection.named, is_ratio=True, is_share=False
        )
        self._collection = collection
        self._name = name

    def row_values(self, ranking: Ranking) -> list[Tensor]:
        """Return how far values and attainable ones exceed chance, shape (keys, N)."""
        return _stacked(
            self._collection.reference_models.above_chance(self._name, ranking)
        )

    def _num_first(self, metric: Any) -> int:
        """Return how many buckets can be the first measured bucket.

        A bucket that is not larger than the list is unmeasured, because chance hits all
        of it.
        """
        deepest, _ = deepest_cutoff(metric)
        sizes = metric.bound_buckets.label_counts.tolist()
        for place, size in enumerate(sizes):
            if size > deepest:
                return 1 + place
        return 1


def _pairs_of_ends(
    gaps: Iterable[Sequence[int]], num_first: int
) -> dict[tuple[int, int], int]:
    """Return a number for each pair of places that can be the ends of a gap.

    Args:
        gaps: The places of the buckets of each gap, head first.
        num_first: How many of them can be the first end.
    """
    pairs: dict[tuple[int, int], int] = {}
    for places in gaps:
        for number, first in enumerate(places[:num_first]):
            for last in places[number + 1 :]:
                pairs[first, last] = len(pairs)
    return pairs


def sums_of_metrics(
    collection: TopKCollection, device: torch.device | str
) -> list[GroupedSums]:
    """Return the sums of each metric with quick intervals.

    These are metrics with unweighted float64 values per row.
    """
    if real_dtype(torch.device(device)) != torch.float64:
        return []
    parts: list[GroupedSums] = []
    adjusted: list[GroupedSums] = []
    for name, metric in collection.members().items():
        kind = metric.aggregation.row_terms
        if kind is None or metric.weighted:
            continue
        if kind == "median":
            parts.append(Histograms(metric, collection.named))
        else:
            parts.append(
                MomentSums(
                    metric,
                    collection.named,
                    kind == "ratio",
                    metric.bounds == (0.0, 1.0),
                )
            )
        if name in collection.reference_models.adjusted:
            adjusted.append(AdjustedSums(collection, name))
    return parts + adjusted


class RowMoments(ExactMetric):
    """Accumulates sums over rows for several metrics, side by side in two tensors.

    Args:
        parts: What is summed for each metric; it may be empty.
    """

    sums: Tensor
    ends: Tensor

    def __init__(self, parts: Sequence[GroupedSums]) -> None:
        super().__init__()
        self.parts = parts
        num_sums = sum(part.num_sums for part in parts)
        num_ends = sum(part.num_ends for part in parts)
        self.add_state("sums", torch.zeros(num_sums, dtype=torch.int64), "sum")
        self.add_state("ends", torch.full((num_ends,), SMALLEST), "max")

    def update(self, ranking: Ranking) -> None:
        """Add the rows of a batch to the sums of all rows and of their groups."""
        if not self.parts:
            return
        sums, ends = [], []
        for part in self.parts:
            part_sums, part_ends = part.amounts(ranking)
            sums.append(part_sums)
            ends.append(part_ends)
        self.sums = self.sums + torch.cat(sums)
        self.ends = torch.maximum(self.ends, torch.cat(ends))

    def compute(self) -> Tensor:
        """Return the sums over all processes, then the ends.

        TorchMetrics would turn a tensor of a single end into a number.
        """
        return torch.cat([self.sums, self.ends])

    def intervals(
        self, scalars: Mapping[str, float], confidence: float
    ) -> dict[str, Interval]:
        """Return the interval of each key over all processes.

        Call this method in every process.

        Args:
            scalars: The values by key.
            confidence: Confidence of the intervals.
        """
        self._update_count = max(1, self._update_count)
        all_sums, all_ends = torch.split(
            self.compute(), [len(self.sums), len(self.ends)]
        )
        sums = torch.split(all_sums, [part.num_sums for part in self.parts])
        ends = torch.split(_real(all_ends), [part.num_ends for part in self.parts])
        intervals: dict[str, Interval] = {}
        for part, part_sums, part_ends in zip(self.parts, sums, ends, strict=True):
            intervals |= part.intervals(part_sums, part_ends, scalars, confidence)
        return intervals


def _ordered(values: Tensor) -> Tensor:
    """Map float64 to int64 so that the order is kept."""
    bits = (values + 0.0).view(torch.int64)  # + 0.0 makes both zeros one
    return torch.where(bits < 0, _turned_around(bits), bits)


def _turned_around(bits: Tensor) -> Tensor:
    """Invert all bits but the sign, which reverses the order of negative numbers.

    Twice changes nothing.
    """
    return bits ^ torch.iinfo(torch.int64).max


def _real(ordered: Tensor) -> Tensor:
    """Invert :func:`_ordered`; :data:`SMALLEST` becomes NaN."""
    bits = torch.where(ordered < 0, _turned_around(ordered), ordered)
    return torch.where(ordered == SMALLEST, torch.nan, bits.view(torch.float64))
