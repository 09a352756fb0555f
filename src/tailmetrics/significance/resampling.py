"""Resampling of statistics of sums over rows.

One matrix product gives the sums of all keys for many resamples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import combinations_with_replacement
from typing import TypeAlias

import numpy as np

from tailmetrics.significance.influence import Array, Flags
from tailmetrics.significance.moments import ROUNDING, Moments, delta_variance
from tailmetrics.significance.rows import Clusters, Kind, Term

BLOCK = 2**24
"""The most row weights in memory at a time: 128 MB."""


def total(statistic: Summed) -> float:
    """Return a statistic of all rows."""
    sums = np.array([column.sum() for column in statistic.columns])
    return float(statistic.read(sums))


class Ratios:
    """A sum of ratios of sums, each with its sign.

    It is a mean, a ratio, a gap, or the difference of two of them.
    """

    def __init__(self, terms: Sequence[Term]) -> None:
        self.terms = terms
        self.columns = []
        for _, top, bottom in terms:
            self.columns += [top, bottom]

    def read(self, sums: Array) -> Array:
        """Return the sum of ratios, shape (...), from their sums.

        These have the shape (..., 2 * number of terms).
        """
        value = np.zeros(sums.shape[:-1])
        for number, term in enumerate(self.terms):
            top, bottom = sums[..., 2 * number], sums[..., 2 * number + 1]
            ratio = term.sign * top / bottom
            value = value + np.where(bottom == 0, np.nan, ratio)
        return value

    def minus(self, other: Ratios) -> Ratios:
        """Return this sum minus another.

        Two ratios with the same denominators become one.
        """
        merged: list[Term] = []
        other_terms = [term.negative() for term in other.terms]
        for term in (*self.terms, *other_terms):
            place = _place_of_denominator(merged, term.bottom)
            if place is None:
                merged.append(term)
                continue
            earlier = merged[place]
            top = earlier.top + earlier.sign * term.sign * term.top
            merged[place] = Term(earlier.sign, top, term.bottom)
        return Ratios(merged)


def _place_of_denominator(terms: Sequence[Term], bottom: Array) -> int | None:
    """Return the place of the first term with this denominator; None without one."""
    for place, term in enumerate(terms):
        if np.array_equal(term.bottom, bottom):
            return place
    return None


class Median:
    """A median; for an even number of values, the average of the two middle values.

    Args:
        values: Shape (N,).
        inside: Shape (N,), bool: the rows that count.
        candidates: Ascending values that include the median of any resample; see
            :func:`near_median`.
        sums: Function that sums a column over each cluster; where rows are drawn, it
            returns the column.
    """

    def __init__(
        self,
        values: Array,
        inside: Flags,
        candidates: Array,
        sums: Callable[[Array], Array],
    ) -> None:
        self._candidates = candidates
        self.columns = []
        for candidate in candidates:
            is_up_to_candidate = inside & (values <= candidate)
            self.columns.append(sums(is_up_to_candidate.astype(np.float64)))
        self.columns.append(sums(inside.astype(np.float64)))

    def read(self, sums: Array) -> Array:
        """Return the median, shape (...), from sums of rows.

        The sums, of shape (..., number of candidates + 1), are the number of rows up to
        each candidate, and the number of all rows.
        """
        twice_rows_up_to, num_rows = 2 * sums[..., :-1], sums[..., -1:]
        lower_middle = self._first(twice_rows_up_to >= num_rows)
        upper_middle = self._first(twice_rows_up_to > num_rows)
        median = (lower_middle + upper_middle) / 2
        return np.where(num_rows[..., 0] > 0, median, np.nan)

    def _first(self, is_reached: Flags) -> Array:
        """Return the first candidate that is reached, else the last one, shape (...).

        ``is_reached`` is overwritten.
        """
        is_reached[..., -1] = True
        return np.asarray(self._candidates[is_reached.argmax(-1)])

    def minus(self, other: Median) -> MedianDifference:
        """Return this median minus another."""
        return MedianDifference(self, other)


class MedianDifference:
    """One median minus another, on the same rows."""

    def __init__(self, first: Median, second: Median) -> None:
        self.first, self.second = first, second
        self.columns = [*first.columns, *second.columns]

    def read(self, sums: Array) -> Array:
        """Return the difference, shape (...), from sums, (..., len(columns))."""
        num_first_columns = len(self.first.columns)
        first_value = self.first.read(sums[..., :num_first_columns])
        return first_value - self.second.read(sums[..., num_first_columns:])


def statistics_of_sides(
    kind: Kind,
    sides: Sequence[Sequence[Term]],
    inside: Sequence[Flags],
    clusters: Clusters | None,
) -> list[Ratios] | list[Median]:
    """Return the statistic of each side over the rows that count.

    One statistic can be subtracted from the other.

    Args:
        kind: The statistic that is computed from the rows.
        sides: The terms of one model or two.
        inside: For each term, the rows that count, shape (N,).
        clusters: Clusters of rows that are drawn together; None for single rows.
    """
    sums: Callable[[Array], Array] = np.asarray
    if clusters is not None:
        sums = clusters.sums
    if kind == "median":
        rows = inside[0]
        values = [terms[0].top for terms in sides]
        candidates = _candidates(values, rows, sums(rows.astype(np.float64)))
        return [Median(side_values, rows, candidates, sums) for side_values in values]

    statistics = []
    for terms in sides:
        summed_terms = []
        for term, rows in zip(terms, inside, strict=True):
            top = sums(np.where(rows, term.top, 0))
            bottom = sums(np.where(rows, term.bottom, 0))
            summed_terms.append(Term(term.sign, top, bottom))
        statistics.append(Ratios(summed_terms))
    return statistics


def _candidates(values: Sequence[Array], rows: Flags, sizes: Array) -> Array:
    """Return the values that can be the median of a side, ascending.

    Values that can be the median of both sides mixed are included.
    """
    sides = [side_values[rows] for side_values in values]
    candidates = [near_median(side_values, sizes) for side_values in sides]
    mixed_values, mixed_sizes = np.concatenate(sides), np.tile(sizes, len(sides))
    candidates.append(near_median(mixed_values, mixed_sizes))
    return np.unique(np.concatenate(candidates))


def near_median(values: Array, sizes: Array) -> Array:
    """Return the distinct values that can be the median of a resample, ascending.

    Without values, the result is [NaN].

    Near the median, the number of resampled rows up to a value has a standard deviation
    of at most sqrt(sum of squared sizes) / 2. Values more than ten standard deviations
    away are left out. The work grows with the number of values that remain; of whole
    numbers, such as ranks, only a few remain.

    Args:
        values: Shape (n,).
        sizes: Number of rows of each cluster; 1 for each row where rows are drawn.
    """
    if not values.size:
        return np.array([np.nan])
    distinct, counts = np.unique(values, return_counts=True)
    rows_up_to = counts.cumsum()
    middle = values.size / 2
    ten_deviations = 5 * np.sqrt((sizes**2).sum())
    first, last = np.searchsorted(
        rows_up_to, [middle - ten_deviations, middle + ten_deviations]
    )
    return np.asarray(distinct[first : last + 1])


class Studentised:
    """The studentised bootstrap: the distance of a resample's value in standard errors.

    The distance is from the value of all units. From each numerator, the ratio of all
    units times the denominator is subtracted. The ratio of a resample is then its
    distance from the ratio of all units, without the rounding error of a difference.
    The variance of a resample comes from sums of products of the columns, so that one
    matrix product gives both.

    Args:
        ratios: The sum of ratios.
        are_clusters: Whether the units are clusters of rows.

    Attributes:
        moments: The sums over all units.
        columns: The columns that are summed over the units of a resample, each of shape
            (U,).
    """

    def __init__(self, ratios: Ratios, are_clusters: bool) -> None:
        self.moments = Moments.from_units(ratios.terms, are_clusters)
        columns = []
        for term, ratio in zip(ratios.terms, self.moments.ratios, strict=True):
            columns += [term.top - ratio.value * term.bottom, term.bottom]
        products = [
            first * second
            for first, second in combinations_with_replacement(columns, 2)
        ]
        self.columns = [*columns, *products]

    def read(self, sums: Array) -> Array:
        """Return the distance of resamples from the value of all units, shape (...).

        The distance, >= 0, is in standard errors of the resample. It is infinite where
        a resample without spread has another value, NaN where a resample has none.
        """
        rounding = ROUNDING * self.moments.error
        distance, error = self._distance_and_error(sums)
        has_spread = error > rounding
        in_errors = distance / np.where(has_spread, error, 1)
        without_spread = np.where(distance <= rounding, 0.0, np.inf)
        in_errors = np.where(has_spread, in_errors, without_spread)
        return np.where(np.isnan(distance), np.nan, in_errors)

    def _distance_and_error(self, sums: Array) -> tuple[Array, Array]:
        """Return distances of resamples from the value of all units, and their errors.

        The errors are standard errors; both have the shape (...).

        The slopes are the derivatives of the sum of ratios t / b in each numerator and
        denominator: 1 / b and -t / b^2.
        """
        distance = np.zeros(sums.shape[:-1])
        slopes: list[Array] = []
        for number, sign in enumerate(self.moments.signs):
            top, bottom = sums[..., 2 * number], sums[..., 2 * number + 1]
            distance = distance + sign * top / bottom
            slopes += [sign / bottom, -sign * top / bottom**2]

        sums_of_products = np.moveaxis(sums[..., len(slopes) :], -1, 0)
        variance = delta_variance(slopes, list(sums_of_products))
        return np.abs(distance), np.sqrt(np.maximum(variance, 0))


Summed: TypeAlias = Ratios | Median | MedianDifference | Studentised
"""A statistic of sums over units, which are rows or clusters.

It has ``columns``, each of shape (U,), and ``read``, which returns shape (M,) from sums
of shape (M, len(columns)), NaN if undefined.
"""


def bootstrap(
    statistics: Sequence[Summed | None], resamples: int, seed: int
) -> list[Array | None]:
    """Return the values of statistics, shape (resamples,) each, over rows drawn anew.

    N of N rows are drawn with replacement. Rows that do not count for a key are drawn,
    too. So all keys share a draw, and the number of rows that count varies as in a new
    sample. A resample in which no row counts gives NaN. The result for a statistic of
    None is None.
    """
    table: list[Array] = []
    place_of_digest: dict[bytes, int] = {}  # many keys have equal columns
    places_by_statistic: list[list[int]] = []
    for statistic in statistics:
        places: list[int] = []
        places_by_statistic.append(places)
        if statistic is None:
            continue
        for column in statistic.columns:
            digest = blake2b(np.ascontiguousarray(column).data).digest()
            if digest not in place_of_digest:
                place_of_digest[digest] = len(table)
                table.append(column)
            places.append(place_of_digest[digest])
    if not table:
        return [None] * len(statistics)

    sums = _resampled_sums(np.stack(table, axis=1), resamples, seed)
    values: list[Array | None] = []
    for statistic, places in zip(statistics, places_by_statistic, strict=True):
        if statistic is None:
            values.append(None)
        else:
            values.append(statistic.read(sums[:, places]))
    return values


def _resampled_sums(table: Array, resamples: int, seed: int) -> Array:
    """Return the sums of a table's columns over drawn units, shape (resamples, C).

    The table has the shape (U, C); units are drawn with replacement.
    """
    rng = np.random.default_rng([seed, 0])
    num_units = len(table)
    resamples_in_block = max(1, BLOCK // max(1, num_units))
    blocks = []
    for start in range(0, resamples, resamples_in_block):
        num_resamples = min(resamples_in_block, resamples - start)
        weights = np.empty((num_resamples, num_units))
        for row in weights:
            drawn_units = rng.integers(num_units, size=num_units)
            row[:] = np.bincount(drawn_units, minlength=num_units)
        blocks.append(weights @ table)
    return np.concatenate(blocks)
