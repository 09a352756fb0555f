"""Resampling of statistics of sums over rows: one matrix product gives the sums of all keys for many resamples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from hashlib import blake2b
from itertools import chain, combinations_with_replacement
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from tailmetrics.significance.rows import Array, Clusters, Kind, Term

T = TypeVar("T")

BLOCK = 2**24
"""The most row weights in memory at a time: 128 MB."""

TOGETHER = 2**26
"""The most values of columns, or of their sums, in memory at a time: 512 MB. Keys in memory together share draws."""

ROUNDING = 1e-9
"""A difference below this share of the values is a rounding error."""


def total(statistic: Summed) -> float:
    """Return a statistic of all rows."""
    return float(statistic.read(np.array([column.sum() for column in statistic.columns])))


class Ratios:
    """A sum of ratios of sums, each with its sign: a mean, a ratio, a gap, or the difference of two of them."""

    def __init__(self, terms: Sequence[Term]) -> None:
        self.terms = terms
        self.columns = [column for _, top, bottom in terms for column in (top, bottom)]

    def read(self, sums: Array) -> Array:
        """Return the sum of ratios, shape (...), from sums of shape (..., 2 * number of terms)."""
        found = np.zeros(sums.shape[:-1])
        for place, (sign, _, _) in enumerate(self.terms):
            bottom = sums[..., 2 * place + 1]
            found = found + np.where(bottom == 0, np.nan, sign * sums[..., 2 * place] / bottom)
        return found

    def minus(self, other: Ratios) -> Ratios:
        """Return this sum minus another. Two ratios with the same denominators become one."""
        merged: list[Term] = []
        for sign, top, bottom in (*self.terms, *((-sign, top, bottom) for sign, top, bottom in other.terms)):
            place = next((place for place, one in enumerate(merged) if np.array_equal(one[2], bottom)), None)
            if place is None:
                merged.append((sign, top, bottom))
            else:
                known, above, _ = merged[place]
                merged[place] = known, above + known * sign * top, bottom
        return Ratios(merged)


class Median:
    """A median; for an even number of values, the average of the two middle values.

    Args:
        values: Shape (N,).
        counted: Shape (N,), bool: the rows that count.
        candidates: Ascending values among which the median of any resample lies, see :func:`near_median`.
        sums: Function that sums a column over each cluster; where rows are drawn, it returns the column.
    """

    def __init__(
        self, values: Array, counted: NDArray[np.bool_], candidates: Array, sums: Callable[[Array], Array]
    ) -> None:
        self.candidates = candidates
        below = [(counted & (values <= candidate)).astype(np.float64) for candidate in candidates]
        self.columns = [sums(column) for column in (*below, counted.astype(np.float64))]

    def read(self, sums: Array) -> Array:
        """Return the median, shape (...), from sums of shape (..., number of candidates + 1)."""
        below, size = 2 * sums[..., :-1], sums[..., -1:]
        middle = (self._first(below >= size) + self._first(below > size)) / 2
        return np.where(size[..., 0] > 0, middle, np.nan)

    def _first(self, reached: NDArray[np.bool_]) -> Array:
        reached[..., -1] = True
        return np.asarray(self.candidates[reached.argmax(-1)])

    def minus(self, other: Median) -> MedianDifference:
        """Return this median minus another."""
        return MedianDifference(self, other)


class MedianDifference:
    """One median minus another, on the same rows."""

    def __init__(self, first: Median, second: Median) -> None:
        self.first, self.second = first, second
        self.columns = [*first.columns, *second.columns]

    def read(self, sums: Array) -> Array:
        """Return the difference, shape (...), from sums of shape (..., len(columns))."""
        split = len(self.first.columns)
        return self.first.read(sums[..., :split]) - self.second.read(sums[..., split:])


def statistics_of(
    kind: Kind, sides: Sequence[Sequence[Term]], inside: Sequence[NDArray[np.bool_]], clusters: Clusters | None
) -> list[Ratios] | list[Median]:
    """Return the statistic of each side over the rows that count; one statistic can be subtracted from the other.

    Args:
        kind: The statistic that is computed from the rows.
        sides: The terms of one model or two.
        inside: For each term, the rows that count, shape (N,).
        clusters: Clusters of rows that are drawn together; None where rows are drawn alone.
    """
    sums = np.asarray if clusters is None else clusters.sums
    if kind == "median":
        rows, values = inside[0], [terms[0][1] for terms in sides]
        sizes = sums(rows.astype(np.float64))
        near = [near_median(some[rows], sizes) for some in values]
        near.append(near_median(np.concatenate([some[rows] for some in values]), np.tile(sizes, len(sides))))
        candidates = np.unique(np.concatenate(near))
        return [Median(some, rows, candidates, sums) for some in values]
    return [
        Ratios([
            (sign, sums(np.where(rows, top, 0)), sums(np.where(rows, bottom, 0)))
            for (sign, top, bottom), rows in zip(terms, inside, strict=True)
        ])
        for terms in sides
    ]  # fmt: skip


def near_median(values: Array, sizes: Array) -> Array:
    """Return the distinct values that can be the median of a resample, ascending; [NaN] if there are no values.

    Near the median, the number of resampled rows up to a value has a standard deviation of at most
    sqrt(sum of squared sizes) / 2. Values more than ten standard deviations away are left out.
    The work grows with the number of values that remain; of whole numbers, such as ranks, only a few remain.

    Args:
        values: Shape (n,).
        sizes: Number of rows of each cluster; 1 for each row where rows are drawn.
    """
    if not values.size:
        return np.array([np.nan])
    distinct, counts = np.unique(values, return_counts=True)
    middle, reach = values.size / 2, 5 * np.sqrt((sizes**2).sum())
    low, high = np.searchsorted(counts.cumsum(), [middle - reach, middle + reach])
    return np.asarray(distinct[low : high + 1])


class Swapped:
    """The first statistic minus the second, after some rows are swapped; ``read`` takes sums over the swapped rows."""

    def __init__(self, first: Ratios | Median, second: Ratios | Median) -> None:
        self.first, self.second = first, second
        self.columns = [a - b for a, b in zip(first.columns, second.columns, strict=True)]
        self._totals = [np.array([column.sum() for column in side.columns]) for side in (first, second)]

    def read(self, sums: Array) -> Array:
        """Return the difference, shape (...), from sums of shape (..., len(columns))."""
        return self.first.read(self._totals[0] - sums) - self.second.read(self._totals[1] + sums)


class Studentised:
    """The studentised bootstrap: the distance of a resample's value from the value of all units, in standard errors.

    From each numerator, the ratio of all units times the denominator is subtracted. The ratio of a resample is then its
    distance from the ratio of all units, without the rounding error of a difference. The variance of a resample comes
    from sums of products of the columns, so that one matrix product gives both.

    Args:
        ratios: The sum of ratios.

    Attributes:
        columns: The columns that are summed over the units of a resample, each of shape (U,).
        value: The sum of ratios over all units.
        error: The standard error of ``value`` by the delta method, without a correction for few units.
    """

    def __init__(self, ratios: Ratios) -> None:
        self._terms = ratios.terms
        self.value = total(ratios)
        centred = [(top - total(Ratios([(1, top, bottom)])) * bottom, bottom) for _, top, bottom in self._terms]
        base = [column for pair in centred for column in pair]
        self.columns = [*base, *(one * other for one, other in combinations_with_replacement(base, 2))]
        totals = np.array([column.sum() for column in self.columns])
        self.error = float(self._distance_and_error(totals)[1])

    @property
    def units(self) -> int:
        """The number of units that have a denominator."""
        return int(np.logical_or.reduce([bottom != 0 for _, _, bottom in self._terms]).sum())

    @cached_property
    def agrees(self) -> bool:
        """Whether all units agree, so that resamples have no spread."""
        sizes = [np.abs(top).sum() / bottom.sum() for _, top, bottom in self._terms]
        return bool(self.error <= ROUNDING * max(sizes))

    @property
    def size_of_change(self) -> float:
        """(Sum of x^2) / (sum of absolute x) over units, for a value that is the mean of x; 0 for several ratios."""
        if len(self._terms) > 1:
            return 0.0
        ((_, top, bottom),) = self._terms
        sizes = np.abs(top) * self.units / bottom.sum()
        return float((sizes**2).sum() / sizes.sum()) if sizes.any() else 0.0

    @property
    def effective_units(self) -> float:
        """The effective number of units: (sum of weights)^2 / (sum of squared weights)."""
        return min(float(bottom.sum() ** 2 / (bottom**2).sum()) for _, _, bottom in self._terms)

    @property
    def limits(self) -> tuple[float, float]:
        """Bounds of the values that a resample can have."""
        low, high = 0.0, 0.0
        for sign, top, bottom in self._terms:
            found = sign * top[bottom != 0] / bottom[bottom != 0]
            low, high = low + float(found.min()), high + float(found.max())
        return low, high

    def read(self, sums: Array) -> Array:
        """Return the distance of each resample from the value of all units, in its standard errors, shape (...), >= 0.

        It is infinite where a resample without spread has another value, and NaN where a resample has no value.
        """
        distance, error = self._distance_and_error(sums)
        spread = error > ROUNDING * self.error
        alike = np.where(distance <= ROUNDING * self.error, 0.0, np.inf)
        return np.where(np.isnan(distance), np.nan, np.where(spread, distance / np.where(spread, error, 1), alike))

    def _distance_and_error(self, sums: Array) -> tuple[Array, Array]:
        """Return the distance of resamples from the value of all units, and its standard error, each of shape (...)."""
        distance = np.zeros(sums.shape[:-1])
        slopes: list[Array] = []
        for term, (sign, _, _) in enumerate(self._terms):
            top, bottom = sums[..., 2 * term], sums[..., 2 * term + 1]
            distance = distance + sign * top / bottom
            slopes += [sign / bottom, -sign * top / bottom**2]
        variance = np.zeros(sums.shape[:-1])
        pairs = combinations_with_replacement(range(len(slopes)), 2)
        for place, (one, other) in enumerate(pairs, start=len(slopes)):
            variance = variance + (1 if one == other else 2) * slopes[one] * slopes[other] * sums[..., place]
        return np.abs(distance), np.sqrt(np.maximum(variance, 0))


Summed: TypeAlias = Ratios | Median | MedianDifference | Swapped | Studentised
"""A statistic of sums over units, which are rows or clusters. It has ``columns``, each of shape (U,), and ``read``,
which returns shape (M,) from sums of shape (M, len(columns)), NaN if undefined."""


def groups(statistics: Iterable[T], columns: Callable[[T], int], length: int) -> Iterator[list[T]]:
    """Yield statistics in groups that fit into memory; every group gets the same draws.

    Args:
        statistics: The statistics; each is made when it is needed.
        columns: Returns the number of columns of a statistic.
        length: Number of values per column: rows, or resamples if there are more.
    """
    group: list[T] = []
    held = 0
    for statistic in statistics:
        size = columns(statistic) * length
        if group and held + size > TOGETHER:
            yield group
            group, held = [], 0
        group.append(statistic)
        held += size
    if group:
        yield group


def bootstrap(statistics: Sequence[Summed | None], resamples: int, seed: int) -> list[Array | None]:
    """Return each statistic's values, shape (resamples,), over rows drawn with replacement, N out of N.

    Rows that do not count for a key are drawn, too. So all keys share a draw, and the number of rows that count varies
    as in a new sample. A resample in which no row counts gives NaN. The result for a statistic of None is None.
    """

    def counts(rng: np.random.Generator, resamples: int, num_rows: int) -> Array:
        weights = np.empty((resamples, num_rows))
        for row in weights:
            row[:] = np.bincount(rng.integers(num_rows, size=num_rows), minlength=num_rows)
        return weights

    return _distributions(statistics, resamples, np.random.default_rng([seed, 0]), counts)


def swap(statistics: Sequence[Summed | None], resamples: int, seed: int) -> list[Array | None]:
    """Return each statistic's values, shape (resamples,), where each row is swapped with probability 1/2."""

    def bits(rng: np.random.Generator, resamples: int, num_rows: int) -> Array:
        words = -(-num_rows // 64)  # whole words per resample: the stream must not depend on the size of a block
        packed = np.frombuffer(rng.bytes(8 * words * resamples), np.uint8).reshape(resamples, 8 * words)
        return np.unpackbits(packed, axis=1, count=num_rows).astype(np.float64)

    return _distributions(statistics, resamples, np.random.default_rng([seed, 1]), bits)


def _distributions(
    statistics: Sequence[Summed | None],
    resamples: int,
    rng: np.random.Generator,
    draw: Callable[[np.random.Generator, int, int], Array],
) -> list[Array | None]:
    columns = [[] if one is None else one.columns for one in statistics]
    digests = [[blake2b(np.ascontiguousarray(one).data).digest() for one in of] for of in columns]
    distinct = dict(zip(chain(*digests), chain(*columns), strict=True))  # many keys have equal columns
    if not distinct:
        return [None] * len(columns)
    table, places = np.stack(list(distinct.values()), axis=1), dict(zip(distinct, range(len(distinct)), strict=True))
    size = max(1, BLOCK // max(1, len(table)))
    starts = range(0, resamples, size)
    sums = np.concatenate([draw(rng, min(size, resamples - start), len(table)) @ table for start in starts])
    return [
        None if one is None else one.read(sums[:, [places[digest] for digest in of]])
        for one, of in zip(statistics, digests, strict=True)
    ]
