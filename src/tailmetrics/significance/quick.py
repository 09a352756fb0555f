"""Quick intervals from exact sums over rows: of a mean, a ratio of sums, a gap and a median."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, isfinite, sqrt

import numpy as np

from tailmetrics.significance.interval import Ends, Facts, Interval, Method, Shares, choose, student


@dataclass(frozen=True)
class Sums:
    """Exact sums over rows, from which a mean or a ratio of sums gets its interval.

    Attributes:
        value: The mean or the ratio.
        n: Number of rows that count.
        tops: The sum of the values of rows (for a ratio: of their numerators), and the sum of the squares.
        ends: The least and the greatest value of a row.
        shares: Whether no row can have a value outside [0, 1].
        ratio: For a ratio, the sums of denominators, of their squares, and of numerators times denominators. None for
            a mean, whose rows all have the denominator 1.
        with_bottom: For a ratio, the number of rows that have a denominator.
        largest: For a ratio, the largest numerator of a row, and the largest denominator minus numerator.
    """

    value: float
    n: int
    tops: tuple[Fraction, Fraction]
    ends: tuple[float, float]
    shares: bool
    ratio: tuple[Fraction, Fraction, Fraction] | None = None
    with_bottom: int = 0
    largest: tuple[float, float] = (0.0, 0.0)

    @property
    def bottoms(self) -> tuple[Fraction, Fraction, Fraction]:
        """The sums of denominators, of their squares, and of products, for a mean, too."""
        return self.ratio or (Fraction(self.n), Fraction(self.n), self.tops[0])

    @property
    def units(self) -> int:
        """Number of rows that have a denominator."""
        return self.n if self.ratio is None else self.with_bottom

    @property
    def is_finite(self) -> bool:
        """Whether all rows are finite, and one has a denominator."""
        return self.units > 0 and all(map(isfinite, self.ends))

    def spread(self) -> Fraction:
        """Return the sum over rows of (numerator - value * denominator)^2."""
        (top, squares), (bottom, bottom_squares, products) = self.tops, self.bottoms
        return squares - 2 * top / bottom * products + (top / bottom) ** 2 * bottom_squares

    def shares_and_misses(self) -> tuple[Shares | None, Shares | None]:
        """Return the sums of the rows and of 1 - their values, if these are shares; else None."""
        if not self.shares or not self.is_finite:
            return None, None
        (top, squares), (bottom, bottom_squares, products) = self.tops, self.bottoms
        largest, largest_miss = self.largest
        if self.ratio is None:
            largest, largest_miss = self.ends[1], 1 - self.ends[0]
        misses, miss_squares = bottom - top, bottom_squares - 2 * products + squares
        return (
            Shares(float(top), float(squares), largest, float(bottom), self.units),
            Shares(float(misses), float(miss_squares), largest_miss, float(bottom), self.units),
        )


def quick_interval(sums: Sums, confidence: float = 0.95) -> Interval:
    """Return a mean or a ratio of sums with its quick interval.

    >>> rows = [0.25, 0.5, 0.5, 0.75] * 3
    >>> tops = Fraction(sum(rows)), Fraction(sum(row**2 for row in rows))
    >>> interval = quick_interval(Sums(0.5, 12, tops, (0.25, 0.75), shares=True))
    >>> round(interval.low, 4), round(interval.high, 4), interval.method.value
    (0.3827, 0.6173, "Student's t")
    """
    (top, squares), (bottom, bottom_squares, _) = sums.tops, sums.bottoms
    units = sums.units if sums.is_finite else 0
    num_ones = None
    if sums.ratio is None and sums.shares and top == squares:
        num_ones = round(top)
    effective = 0.0
    if bottom_squares:
        effective = float(bottom**2 / bottom_squares)
    shares, misses = sums.shares_and_misses()
    facts = Facts(
        sums.value,
        units,
        bounds=(0.0, 1.0) if sums.shares else None,
        num_ones=num_ones,
        agrees=sums.ends[0] == sums.ends[1],
        effective=effective,
        n=sums.n,
        shares=shares,
        shares_of_misses=misses,
    )

    def spread() -> Ends:
        error = sqrt(max(0.0, float(sums.spread() * units / (units - 1)))) / float(bottom)
        if sums.shares:
            bounds = 0.0, 1.0
        elif sums.ends[0] < 0:
            bounds = -inf, inf
        else:
            bounds = 0.0, inf
        return student(sums.value, error, units - 1, bounds, confidence)

    return choose(facts, confidence, spread)


def quick_gap(
    first: Sums, last: Sums, products: Sequence[Fraction], rows_in_both: tuple[int, int], confidence: float
) -> Interval:
    """Return a gap, the value of the first bucket minus the value of the last bucket, with its quick interval.

    Args:
        first: Sums of the first bucket.
        last: Sums of the last bucket.
        products: Sums over rows of numerator times numerator, numerator times denominator, denominator times numerator
            and denominator times denominator; the first factor is of the first bucket, the second of the last bucket.
        rows_in_both: Number of rows that count in both buckets, and number of rows with a denominator in both.
        confidence: Confidence of the interval.
    """
    value = first.value - last.value
    units = first.units + last.units - rows_in_both[1]
    bounds = (-1.0, 1.0) if first.shares else (-inf, inf)
    fewest, error, effective = 0, 0.0, 0.0
    if first.is_finite and last.is_finite:
        fewest = min(first.units, last.units)
        variance = _variance_of_gap(first, last, products)
        error = sqrt(max(0.0, float(variance * units / max(units - 1, 1))))
        effective = float(min(sums.bottoms[0] ** 2 / sums.bottoms[1] for sums in (first, last)))
    facts = Facts(
        value,
        fewest,
        bounds=bounds if first.shares else None,
        num_ones=None,
        agrees=error == 0,
        effective=effective,
        n=first.n + last.n - rows_in_both[0],
    )
    return choose(facts, confidence, lambda: student(value, error, units - 1, bounds, confidence))


def _variance_of_gap(first: Sums, last: Sums, products: Sequence[Fraction]) -> Fraction:
    """Return the variance of a gap by the delta method, without a correction for few rows."""
    first_ratio, last_ratio = (sums.tops[0] / sums.bottoms[0] for sums in (first, last))
    tops, top_bottom, bottom_top, bottoms = products
    covariance = tops - last_ratio * top_bottom - first_ratio * bottom_top + first_ratio * last_ratio * bottoms
    variances = sum(sums.spread() / sums.bottoms[0] ** 2 for sums in (first, last))
    return variances - 2 * covariance / (first.bottoms[0] * last.bottoms[0])


def quick_median(value: float, counts: Sequence[tuple[float, int]], confidence: float = 0.95) -> Interval:
    """Return a median with an interval between two of the sorted values, which is valid for every distribution.

    Args:
        value: The median.
        counts: Each distinct value of the rows, ascending, with the number of rows that have it.
        confidence: The least confidence of the interval.

    >>> interval = quick_median(5.5, [(value, 1) for value in range(1, 11)])
    >>> interval.low, interval.high, interval.method.value
    (2.0, 9.0, 'order statistics')
    """
    n = sum(count for _, count in counts)

    def between() -> Ends:
        from scipy.stats import binom

        # the probability that fewer than `place` of n fair coins show heads is at most the tail's
        place = int(binom.ppf((1 - confidence) / 2, n, 0.5))
        rows_up_to = np.cumsum([count for _, count in counts])
        low = float(counts[int(np.searchsorted(rows_up_to, place))][0])
        high = float(counts[int(np.searchsorted(rows_up_to, n + 1 - place))][0])
        if not (isfinite(low) and isfinite(high)):
            return Ends.none("no finite value")
        return Ends(low, high, Method.ORDER_STATISTICS)

    facts = Facts(value, n, bounds=None, num_ones=None, agrees=False, effective=n, n=n)
    return choose(facts, confidence, between)
