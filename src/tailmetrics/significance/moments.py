"""Ratios of sums, their standard error by the delta method, and facts for intervals.

The sums come from the values of units, or were added up batch by batch, as whole
multiples of a unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations_with_replacement
from math import inf, isfinite, nan, sqrt
from typing import Any, TypeAlias

import numpy as np

from tailmetrics.significance.influence import Array
from tailmetrics.significance.interval import (
    ONE_ROW_DECIDES,
    Ends,
    Interval,
    IntervalFacts,
    Method,
    PoissonSums,
    choose,
    rare_ends,
    student,
)
from tailmetrics.significance.rows import Term

ONE_END_AGREES = "all rows or clusters of one end agree"
"""Why a gap of values without an upper bound has no interval.

Rows with other values may be any size.
"""
ROUNDING = 1e-9
"""A difference below this share of the values is a rounding error."""


@dataclass(frozen=True)
class Ratio:
    """Sums of numerators x and denominators d over units, rows or clusters.

    Of a mean, each d is 1.

    Attributes:
        hits: The sums of x, and the number of units with a denominator.
        misses: The same sums of d - x.
        bottom_squares: The sum of d^2.
        low: The least x / d of a unit.
        high: The greatest x / d of a unit.
    """

    hits: PoissonSums
    misses: PoissonSums
    bottom_squares: float
    low: float
    high: float

    @classmethod
    def of_units(cls, top: Array, bottom: Array, are_clusters: bool = False) -> Ratio:
        """Return the sums of numerators and denominators, shape (U,) each, of units.

        The units are rows, or clusters of rows.
        """
        values = top[bottom != 0] / bottom[bottom != 0]
        most: float | None = float(top.max() + (bottom - top).max())
        if np.isin(bottom, (0, 1)).all():
            most = 1.0
        elif are_clusters:
            most = None  # the sums of clusters differ by their sizes, too
        return cls(
            PoissonSums.of_units(top, bottom, most),
            PoissonSums.of_units(bottom - top, bottom, most),
            float((bottom**2).sum()),
            float(values.min()),
            float(values.max()),
        )

    @property
    def value(self) -> float:
        """The ratio."""
        return self.hits.top / self.hits.bottom

    @property
    def units(self) -> int:
        """The number of units that have a denominator."""
        return self.hits.units

    @property
    def is_mean(self) -> bool:
        """Whether each denominator is 1."""
        return self.units == self.hits.bottom == self.bottom_squares

    @property
    def rare_sums(self) -> tuple[PoissonSums, PoissonSums]:
        """The sums of x and of d - x that tell whether few units decide the value.

        Those of a mean stand above the least ones. A model that knows nothing has the
        nDCG of a late rank in most rows, and a much larger one in few.
        """
        if not self.is_mean:
            return self.hits, self.misses
        return self.hits.above(self.low), self.misses.above(1 - self.high)

    @property
    def is_finite(self) -> bool:
        """Whether a unit has a denominator, and all units are finite."""
        return self.units > 0 and isfinite(self.low) and isfinite(self.high)


@dataclass(frozen=True)
class ExactSums:
    """Sums of numerators x and denominators d over rows, as multiples of 1 / ``unit``.

    The multiples are whole numbers.

    Attributes:
        n: Number of rows that count.
        unit: The whole number that stands for 1.
        top: The sum of x.
        squares: The sum of x^2.
        bottom: The sum of d.
        bottom_squares: The sum of d^2.
        products: The sum of x * d.
        units: Number of rows that have a denominator.
        low: The least x / d of a row.
        high: The greatest x / d of a row.
        largest: The largest x.
        largest_miss: The largest d - x.
    """

    n: int
    unit: int
    top: int
    squares: int
    bottom: int
    bottom_squares: int
    products: int
    units: int
    low: float
    high: float
    largest: float
    largest_miss: float

    @classmethod
    def of_mean(
        cls, n: int, unit: int, top: int, squares: int, low: float, high: float
    ) -> ExactSums:
        """Return the sums of a mean, whose rows have the denominator 1."""
        bottom = n * unit
        return cls(
            n, unit, top, squares, bottom, bottom, top, n, low, high, high, 1 - low
        )

    @property
    def value(self) -> float:
        """The ratio; NaN without a denominator."""
        if not self.bottom:
            return nan
        return self.top / self.bottom

    @property
    def num_ones(self) -> int | None:
        """The number of rows that are 1, if rows of a mean are all 0 or 1; else None.

        The rows of the mean are shares.
        """
        if self.top != self.squares:
            return None
        return round(self.top / self.unit)

    @property
    def most(self) -> float:
        """Upper bound of the numerators that a row can have.

        For a mean it is 1, else it follows from the sums of the ratio.
        """
        if self.bottom == self.bottom_squares == self.units * self.unit:
            return 1.0
        return self.largest + self.largest_miss

    def ratio(self) -> Ratio:
        """Return the sums as floats, correctly rounded."""
        unit, units, bottom = self.unit, self.units, self.bottom / self.unit
        misses = self.bottom - self.top
        miss_squares = self.bottom_squares - 2 * self.products + self.squares
        return Ratio(
            PoissonSums(
                self.top / unit,
                self.squares / unit,
                self.largest,
                bottom,
                units,
                most=self.most,
            ),
            PoissonSums(
                misses / unit,
                miss_squares / unit,
                self.largest_miss,
                bottom,
                units,
                most=self.most,
            ),
            self.bottom_squares / unit,
            self.low,
            self.high,
        )


Products: TypeAlias = "tuple[int, int, int, int]"
"""Sums over rows of x1 * x2, x1 * d2, d1 * x2 and d1 * d2 for two ratios.

They are whole multiples of 1 / ``unit``.
"""


@dataclass(frozen=True)
class Moments:
    """A sum of ratios, each with its sign.

    It is a mean, a ratio, a gap, or the difference of two of them.

    Attributes:
        signs: The sign of each ratio.
        ratios: The ratios.
        products: For each pair of ratios r = Σx / Σd, itself included, the sum over
            units of the products of their residuals x - r * d, in the order of
            ``combinations_with_replacement``.
        units: Number of units that have a denominator in any ratio.
    """

    signs: tuple[int, ...]
    ratios: tuple[Ratio, ...]
    products: tuple[float, ...]
    units: int

    @classmethod
    def from_units(cls, terms: Sequence[Term], are_clusters: bool = False) -> Moments:
        """Return the moments of values of units, rows or clusters.

        Numerators and denominators of each term have the shape (U,).
        """
        ratios, residuals, has_bottom = [], [], np.zeros(terms[0][1].size, dtype=bool)
        for _, top, bottom in terms:
            ratio = Ratio.of_units(top, bottom, are_clusters)
            ratios.append(ratio)
            residuals.append(top - ratio.value * bottom)
            has_bottom |= bottom != 0
        products = [
            float((first * second).sum())
            for first, second in combinations_with_replacement(residuals, 2)
        ]
        return cls(
            tuple(sign for sign, _, _ in terms),
            tuple(ratios),
            tuple(products),
            int(has_bottom.sum()),
        )

    @classmethod
    def from_sums(cls, sums: ExactSums) -> Moments:
        """Return the moments of a mean or a ratio."""
        own_products = sums.squares, sums.products, sums.products, sums.bottom_squares
        return cls(
            (1,),
            (sums.ratio(),),
            (_product_of_residuals(sums, sums, own_products),),
            sums.units,
        )

    @classmethod
    def of_gap(
        cls, first: ExactSums, last: ExactSums, products: Products, units_in_both: int
    ) -> Moments:
        """Return the moments of the first ratio minus the last one.

        Args:
            first: The sums of the first ratio.
            last: The sums of the last ratio.
            products: The sums of products of both.
            units_in_both: Number of rows that have a denominator in both.
        """
        head, tail = cls.from_sums(first), cls.from_sums(last)
        product = _product_of_residuals(first, last, products)
        return cls(
            (1, -1),
            (*head.ratios, *tail.ratios),
            (*head.products, product, *tail.products),
            first.units + last.units - units_in_both,
        )

    @cached_property
    def error(self) -> float:
        """The standard error by the delta method, without correction for few units."""
        slopes = [
            sign / ratio.hits.bottom
            for sign, ratio in zip(self.signs, self.ratios, strict=True)
        ]
        return sqrt(max(0.0, float(delta_variance(slopes, self.products))))

    @property
    def corrected_error(self) -> float:
        """The standard error with the correction for few units."""
        return self.error * sqrt(self.units / max(self.units - 1, 1))

    @property
    def is_finite(self) -> bool:
        """Whether each ratio has a denominator, and all units are finite."""
        return all(ratio.is_finite for ratio in self.ratios)

    @property
    def agrees(self) -> bool:
        """Whether all units agree, so that resamples have no spread."""
        rounding = ROUNDING * max(
            max(abs(ratio.low), abs(ratio.high)) for ratio in self.ratios
        )
        widest = max(ratio.high - ratio.low for ratio in self.ratios)
        return self.error <= rounding or widest <= rounding

    @property
    def weakness(self) -> str | None:
        """Why units do not tell the variance of a gap without an upper bound.

        None where they do.
        """
        has_equal_units = any(ratio.low == ratio.high for ratio in self.ratios)
        if (
            len(self.ratios) == 2
            and has_equal_units
            and min(ratio.low for ratio in self.ratios) >= 0
        ):
            return ONE_END_AGREES
        return None

    @property
    def effective_units(self) -> float:
        """The effective number of units, the least of all ratios.

        The number is (sum of weights)^2 / (sum of squared weights).
        """
        return min(ratio.hits.bottom**2 / ratio.bottom_squares for ratio in self.ratios)

    def ends_without_bound(
        self, confidence: float, largest_residual: float | None = None
    ) -> Ends | None:
        """Return the ends for a ratio without an upper bound that a few rows decide.

        The result is None for other ratios. The limits are those of rare values. Else,
        of a mean, they are those of events as large as the largest distance of a row
        above the mean: the sums do not tell the skewness of the rows, but it is at most
        that of such events. A value that is mostly one row has no interval.

        Args:
            confidence: Confidence of the interval.
            largest_residual: The largest x - value * d of a unit, for means of rows in
                clusters; None to derive it from the sums of a mean.
        """
        ratio = self.ratios[0]
        if ratio.low < 0:
            return None
        hits = replace(ratio.hits, bound=inf, most=None)
        if hits.effective_number < 2:
            return Ends.none(ONE_ROW_DECIDES)
        ends = rare_ends(hits, None, confidence)
        if largest_residual is None and ratio.is_mean:
            largest_residual = ratio.high - ratio.value
        if ends is not None or largest_residual is None or largest_residual <= 0:
            return ends
        events = PoissonSums.of_events(
            ratio.value,
            self.products[0],
            largest_residual,
            largest_residual,
            ratio.hits.bottom,
            ratio.units,
            bound=inf,
        )
        return rare_ends(events, None, confidence)

    @property
    def fewest_units(self) -> int:
        """The number of units that have a denominator, the least of all ratios."""
        return min(ratio.units for ratio in self.ratios)

    @property
    def limits(self) -> tuple[float, float]:
        """Bounds of the values that a resample can have."""
        low, high = 0.0, 0.0
        for sign, ratio in zip(self.signs, self.ratios, strict=True):
            least, greatest = sorted((sign * ratio.low, sign * ratio.high))
            low, high = low + least, high + greatest
        return low, high


def delta_variance(slopes: Sequence[Any], products: Sequence[Any]) -> Any:
    """Return the variance of a smooth function of sums, by the delta method.

    It is Σ_i Σ_j slope_i slope_j Σ x_i x_j.

    Args:
        slopes: The slope of the function in each sum; numbers, or arrays of one shape.
        products: The sum over units of x_i x_j for each pair i <= j, in the order of
            ``combinations_with_replacement``.

    Source: Davison and Hinkley, Bootstrap methods and their application (1997), 2.7.2.
    """
    variance: Any = 0.0
    for (first, second), product in zip(
        combinations_with_replacement(range(len(slopes)), 2), products, strict=True
    ):
        part = slopes[first] * slopes[second] * product
        if first != second:
            part = 2 * part
        variance = variance + part
    return variance


def _product_of_residuals(
    first: ExactSums, last: ExactSums, products: Products
) -> float:
    """Return the sum over rows of (x1 - r1 * d1) * (x2 - r2 * d2), correctly rounded.

    NaN without a denominator.
    """
    if not first.bottom or not last.bottom:
        return nan
    tops, top_bottom, bottom_top, bottoms = products
    times_bottoms = (
        first.bottom * last.bottom * tops
        - last.top * first.bottom * top_bottom
        - first.top * last.bottom * bottom_top
        + first.top * last.top * bottoms
    )
    return times_bottoms / (first.bottom * last.bottom * first.unit)


def quick_interval(
    moments: Moments,
    value: float,
    n: int,
    *,
    are_shares: bool,
    num_ones: int | None = None,
    confidence: float = 0.95,
) -> Interval:
    """Return a mean, a ratio of sums or a gap with its quick interval.

    Args:
        moments: The moments of independent rows.
        value: The value.
        n: Number of rows that count.
        are_shares: Whether no row can have a value outside [0, 1].
        num_ones: Number of rows that are 1, if the value is a mean of rows of 0 and 1;
            else None.
        confidence: Confidence of the interval.

    >>> rows = np.array([0.25, 0.5, 0.5, 0.75] * 3)
    >>> moments = Moments.from_units([(1, rows, np.ones(12))])
    >>> interval = quick_interval(moments, 0.5, 12, are_shares=True)
    >>> round(interval.low, 4), round(interval.high, 4), interval.method.value
    (0.3827, 0.6173, "Student's t")
    """
    if not moments.is_finite:
        return Interval(value, nan, nan, n, confidence, Method.NONE, "no finite value")

    ratio, is_gap = moments.ratios[0], len(moments.ratios) > 1
    facts = IntervalFacts(
        value, moments.fewest_units, moments.agrees, moments.effective_units, n
    )
    bounds = -inf, inf
    if are_shares and is_gap:
        bounds = -1.0, 1.0
        facts = replace(facts, bounds=bounds)
    elif are_shares:
        bounds = 0.0, 1.0
        hits, misses = ratio.rare_sums
        facts = replace(
            facts,
            bounds=bounds,
            num_ones=num_ones,
            hits=hits,
            misses=misses,
        )
    elif is_gap:
        facts = replace(facts, weakness=moments.weakness)
    elif ratio.low >= 0:
        bounds = 0.0, inf

    def spread() -> Ends:
        if not are_shares and not is_gap:
            ends = moments.ends_without_bound(confidence)
            if ends is not None:
                return ends
        return student(
            value, moments.corrected_error, moments.units - 1, bounds, confidence
        )

    return choose(facts, confidence, spread)


def quick_median(
    value: float, counts: Sequence[tuple[float, int]], confidence: float = 0.95
) -> Interval:
    """Return a median with an interval between two of the sorted values.

    The interval is valid for every distribution.

    Args:
        value: The median.
        counts: Each distinct value of the rows, ascending, with the number of rows that
            have it.
        confidence: The least confidence of the interval.

    >>> interval = quick_median(5.5, [(value, 1) for value in range(1, 11)])
    >>> interval.low, interval.high, interval.method.value
    (2.0, 9.0, 'order statistics')
    """
    n = sum(count for _, count in counts)

    def between() -> Ends:
        from scipy.stats import binom

        # the probability that fewer than `place` of n fair coins show heads is at most
        # the tail's
        place = int(binom.ppf((1 - confidence) / 2, n, 0.5))
        rows_up_to = np.cumsum([count for _, count in counts])
        low = float(counts[int(np.searchsorted(rows_up_to, place))][0])
        high = float(counts[int(np.searchsorted(rows_up_to, n + 1 - place))][0])
        if not (isfinite(low) and isfinite(high)):
            return Ends.none("no finite value")
        return Ends(low, high, Method.ORDER_STATISTICS)

    facts = IntervalFacts(value, n, agrees=False, effective=n, n=n)
    return choose(facts, confidence, between)
