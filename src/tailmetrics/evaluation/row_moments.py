"""Sums over rows for quick intervals: sums of values, of their squares and of products, as whole numbers.

Memory does not grow with the number of rows. Batches, processes and the order of rows do not change a single bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from importlib.util import find_spec
from math import inf, isclose, isnan, nan
from types import MappingProxyType
from typing import Any, cast

import torch
from torch import Tensor

from tailmetrics._exact_metric import ExactMetric, tensors_of
from tailmetrics.collection import UNSEEN, TopKCollection
from tailmetrics.evaluation.notes import on_number_of_rows
from tailmetrics.evaluation.row_values import adjusted_key, deepest_cutoff, gaps_of
from tailmetrics.metrics import TopKMetric
from tailmetrics.metrics._states import REAL, UNIT
from tailmetrics.ranking import Ranking
from tailmetrics.ranking._device import real_dtype
from tailmetrics.report.report import Report
from tailmetrics.significance.estimating import (
    Interval,
    Sums,
    first_and_last,
    quick_gap,
    quick_interval,
    quick_median,
    with_gaps_of_ends,
)
from tailmetrics.significance.labels import OverLabels, at_half_the_rows

SMALLEST = torch.iinfo(torch.int64).min
"""Initial value of a maximum, before the first row."""


def has_moments(metric: TopKMetric, device: torch.device | str) -> bool:
    """Whether a metric has quick intervals: it has unweighted float64 values per row, and SciPy is installed."""
    exact = real_dtype(torch.device(device)) == torch.float64
    return exact and metric.aggregation.row_terms is not None and not metric.weighted and has_scipy()


def has_scipy() -> bool:
    """Whether SciPy is installed, which intervals need; ``tailmetrics[report]`` brings it."""
    return find_spec("scipy") is not None


def as_valued(found: Mapping[str, Interval], scalars: Mapping[str, float]) -> dict[str, Interval]:
    """Return the intervals of the keys in ``scalars``, each with the value in ``scalars`` as its value.

    The ends become NaN if the values per row give another value: a metric may count 0 / 0 in a bucket as 0, while
    values per row leave the bucket unmeasured. Areas from bins may differ by 1e-4.
    """
    valued: dict[str, Interval] = {}
    for key in (key for key in found if key in scalars):
        one = valued[key] = replace(found[key], value=scalars[key])
        alike = isclose(found[key].value, one.value, rel_tol=1e-4, abs_tol=1e-4)
        if not (alike or isnan(one.low)):
            valued[key] = one.without_ends("rows alone do not tell the value")
    return valued


def with_intervals(
    report: Report,
    found: Mapping[str, Interval] = MappingProxyType({}),
    averages: Mapping[str, Any] = MappingProxyType({}),
) -> Report:
    """Return the report with these intervals, too; and with ``averages`` over labels at half of the rows.

    If all rows of the first or of the last bucket agree, their values beyond chance differ only because chance does.
    This spread says nothing about other rows. The adjusted gap then has the interval of the gap, divided by what is
    attainable beyond chance, in the bucket where this is less.
    """
    merged = {**report.intervals, **as_valued(found, {**report.scalars, **report.summaries})}
    chance, most = ((report.references or {}).get(name, {}) for name in ("chance", "attainable"))
    for name in [name for name in merged if "/adjusted_gap" in name]:
        keys = [name.replace("/adjusted_gap", f"/{row.name}") for row in report.buckets if row.name != UNSEEN]
        spans = {key: abs(most[key] - chance[key]) for key in keys if key in chance and key in merged}
        measured = [key for key, span in spans.items() if span > 0 and not isnan(merged[key].value)]
        ends = first_and_last(measured)
        gap = merged.get(name.replace("/adjusted_gap", "/gap"))
        if gap is not None and len(ends) == 2 and not all(isnan(merged[key].share_of_others) for key in ends):
            value, span = merged[name].value, min(spans[key] for key in ends)
            low, high = (value + (end - gap.value) / span for end in (gap.low, gap.high))
            merged[name] = replace(merged[name], low=low, high=high, method=gap.method, reason=gap.reason)
    report = replace(report, intervals=merged)
    if report.labels is not None and any(one.clusters is not None for one in found.values()):
        report = replace(report, labels=replace(report.labels, clustered=True))
    if report.at_half_the_rows:
        return report
    keys = [key for key, one in averages.items() if isinstance(one, OverLabels) and not report.split(key).group]
    halves = {key: at_half_the_rows(averages[key]) for key in keys if not isnan(report.scalars.get(key, nan))}
    notes = (*report.notes, *on_number_of_rows(averages, halves, merged))
    return replace(report, at_half_the_rows=halves, notes=notes)


class RowMoments(ExactMetric):
    """Accumulates sums over rows for one metric, for each of its keys and row groups.

    Args:
        collection: The collection of the metric; it is not updated.
        name: Name of the member of the collection, which has values per row.
        adjusted: Whether values are adjusted for chance, as ratios from :meth:`TopKCollection.above_chance`; only the
            gap of adjusted values has an interval.
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
        vars(self).update(_metric=metric, _collection=collection)  # no submodules: they are moved and sent alone
        self._groups = len(metric.group_keys()) - 1
        self._is_median = metric.aggregation.row_terms == "median"
        self._is_ratio = adjusted or metric.aggregation.row_terms == "ratio"
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
        # only the end shows which bucket is the last measured one, so the first bucket is paired with every other one.
        # adjusted for chance, a bucket not larger than the list is unmeasured, as chance hits all: pair the next one
        named = {} if self._is_median else gaps_of(metric, adjusted=adjusted)
        self._gaps = {name: [place[key] for key in keys] for name, keys in named.items()}
        deepest = deepest_cutoff(metric)[0] if adjusted else 0
        sizes = metric.bound_buckets.label_counts.tolist() if adjusted else []
        firsts = 1 + next((at for at, size in enumerate(sizes) if size > deepest), 0)
        pairs = [
            (one, other) for of in self._gaps.values() for at, one in enumerate(of[:firsts]) for other in of[at + 1 :]
        ]
        self._pairs = {pair: at for at, pair in enumerate(pairs)}
        self.add_state("products", torch.zeros(4, len(pairs), self._fixed_point.columns, dtype=torch.int64), "sum")
        self.add_state("both", torch.zeros(2, len(pairs), dtype=torch.int64), "sum")

    def update(self, ranking: Ranking) -> None:
        """Add the rows of a batch to the sums: each row to those of all rows, and to those of its group."""
        sides, groups = self._of_rows(ranking), ranking.rows.groups if self._groups else None
        states = {name: state.clone() for name, state in tensors_of(self).items()}
        for number in range(-1, self._groups):  # -1: rows without a group
            part = sides if groups is None else [side[:, groups == number] for side in sides]
            found = self._amounts(*part) if part[0].shape[1] else {}
            for place in {0, number + 1}:
                for name, amounts in found.items():
                    axis = 0 if name == "sums" and self._is_median else 1
                    size = amounts.shape[axis]
                    state = states[name].narrow(axis, place * size, size)
                    state.copy_(torch.maximum(state, amounts) if name == "ends" else state + amounts)
        vars(self).update(states)

    def _amounts(self, tops: Tensor, bottoms: Tensor | None = None) -> dict[str, Tensor]:
        """Return what some rows add to each state, given values, or numerators and denominators, shape (keys, N)."""
        counted = ~tops.isnan() if bottoms is None else ~(tops.isnan() | bottoms.isnan())
        tops = value = torch.where(counted, tops, 0.0)
        valued, below = counted, counted.to(tops.dtype)
        if bottoms is not None:
            below = torch.where(counted, bottoms, 0.0)
            valued = below != 0
            value = tops / torch.where(valued, below, 1.0)
        if self._is_median:
            sums = self._histogram(tops, counted)
        else:
            terms = [tops, tops * tops, *([] if bottoms is None else [below, below * below, tops * below])]
            sums = self._fixed_point.add_up(torch.stack(terms), dim=2)
        ends = torch.stack([torch.where(valued, end, -inf).amax(dim=1) for end in (value, -value)])
        found = {"sums": sums, "rows": torch.stack([side.sum(dim=1) for side in (counted, valued)])}
        found["ends"] = _ordered(ends)
        if self._pairs:
            pairs = [*self._pairs][: len(self._pairs) // (1 + self._groups)]  # those of all rows come first
            one, other = torch.tensor(pairs, device=tops.device).unbind(1)
            products = [above[one] * under[other] for above in (tops, below) for under in (tops, below)]
            found["products"] = self._fixed_point.add_up(torch.stack(products), dim=2)
            found["both"] = torch.stack([(side[one] & side[other]).sum(dim=1) for side in (counted, valued)])
        return found

    def _of_rows(self, ranking: Ranking) -> list[Tensor]:
        """Return the values of rows, or numerators and denominators, shape (keys, N); NaN if a row does not count."""
        above_chance = partial(self._collection.reference_models.above_chance, self.name)
        found = list((above_chance if self.adjusted else self._metric.row_values)(ranking).values())
        sides = list(zip(*found, strict=True)) if isinstance(found[0], tuple) else [found]
        return [torch.stack(list(side)) for side in sides]

    def _histogram(self, values: Tensor, counted: Tensor) -> Tensor:
        """Count the rows of each value up to the depth; the last place counts the misses, which share one value."""
        width = self.sums.shape[1]
        place = torch.arange(len(values), device=values.device)[:, None] * width + values.clamp(max=width - 1).long()
        flat = torch.zeros(len(values) * width, dtype=torch.int64, device=values.device)
        return flat.scatter_add_(0, place.flatten(), counted.flatten().long()).view(len(values), width)

    def compute(self) -> dict[str, Tensor]:
        """Return the states over all processes."""
        return {name: state.clone() for name, state in tensors_of(self).items()}

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
        highest, lowest = (_real(end).tolist() for end in (states["ends"][0], states["ends"][1]))
        if self._is_median:
            found = {}
            for key, counts, last in zip(keys, states["sums"].tolist(), highest, strict=True):
                values = [*map(float, range(len(counts) - 1)), last]  # misses have the greatest value
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
                # an infinite row makes an end of its bucket infinite; the products are then not used
                products = [Fraction(0 if one == inf else int(one), unit) for one in totals]
                both = int(states["both"][0, at]), int(states["both"][1, at])
                gap = quick_gap(sums[measured[0]], sums[measured[-1]], products, both, confidence)
                of_keys[named(name)] = gap
        of_gaps = {named(name): [keys[place] for place in places] for name, places in self._gaps.items()}
        return as_valued(with_gaps_of_ends(of_keys, of_gaps), scalars)

    def _sums(self, value: float | None, states: Mapping[str, Tensor], place: int, ends: tuple[float, float]) -> Sums:
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
    """Map float64 to int64 so that the order is kept."""
    bits = (values + 0.0).view(torch.int64)
    return torch.where(bits < 0, bits ^ torch.iinfo(torch.int64).max, bits)


def _real(ordered: Tensor) -> Tensor:
    """Invert :func:`_ordered`; :data:`SMALLEST` becomes NaN."""
    bits = torch.where(ordered < 0, ordered ^ torch.iinfo(torch.int64).max, ordered)
    return torch.where(ordered == SMALLEST, torch.nan, bits.view(torch.float64))
