"""Confidence intervals from a few sums over rows, without resampling: for reports, where they cost next to nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, isfinite, nan, sqrt

from tailmetrics.significance._agreement import around_agreement, clopper_pearson
from tailmetrics.significance._estimate import FEW
from tailmetrics.significance.interval import Interval


@dataclass(frozen=True)
class Sums:
    """Sums over rows for one value, exact.

    Attributes:
        value: The mean of the rows, or the ratio of their sums.
        n: Rows that count.
        tops: Sums of the values of rows, or of their numerators, and of the squares.
        bottoms: For a ratio the sums of denominators, of their squares and of numerators times denominators; None
            for a mean.
        units: For a ratio the rows that have a denominator.
        ends: The least and the greatest value of a row.
        shares: Whether no row can have a value outside [0, 1].
    """

    value: float
    n: int
    tops: tuple[Fraction, Fraction]
    ends: tuple[float, float]
    shares: bool
    bottoms: tuple[Fraction, Fraction, Fraction] | None = None
    units: int = 0


def quick_interval(sums: Sums, confidence: float = 0.95) -> Interval:
    """Return a mean or a ratio of sums with an interval of Student's t, its error by the delta method.

    Rows that are all 0 or 1 have Clopper and Pearson's exact interval, and rows that all agree what it gives for that,
    as in :func:`tailmetrics.significance.intervals`. How often the intervals hold the truth is in docs/significance.md.

    >>> rows = [0.25, 0.5, 0.5, 0.75] * 3
    >>> tops = Fraction(sum(rows)), Fraction(sum(row**2 for row in rows))
    >>> found = quick_interval(Sums(0.5, 12, tops, (0.25, 0.75), shares=True))
    >>> round(found.low, 4), round(found.high, 4), found.method
    (0.3827, 0.6173, "Student's t")
    """
    low, high, method = _ends(sums, confidence)
    return Interval(sums.value, low, high, sums.n, confidence, method)


def _ends(sums: Sums, confidence: float) -> tuple[float, float, str]:
    units = sums.n if sums.bottoms is None else sums.units
    if not units or not isfinite(sums.value) or not all(map(isfinite, sums.ends)):
        return nan, nan, "none: no finite value"
    top, squares = sums.tops
    if sums.bottoms is None and sums.shares and top == squares:
        return (*clopper_pearson(round(top), sums.n, confidence), "Clopper-Pearson")
    if sums.ends[0] == sums.ends[1]:
        if not sums.shares:
            return nan, nan, "none: all rows agree"
        ends = around_agreement(sums.value, (0.0, 1.0), _effective(sums), confidence)
        return (*ends, "Clopper-Pearson, all rows agree")
    if units < FEW:
        return nan, nan, f"none: fewer than {FEW} rows"
    from scipy.special import stdtrit  # tailmetrics.significance is imported without the extras

    half = float(stdtrit(units - 1, (1 + confidence) / 2)) * _error(sums, units)
    bounds = (0.0, 1.0) if sums.shares else (-inf if sums.ends[0] < 0 else 0.0, inf)
    return max(bounds[0], sums.value - half), min(bounds[1], sums.value + half), "Student's t"


def _error(sums: Sums, units: int) -> float:
    """Return the standard error: the deviation of what rows add beyond the value, over the root of their number."""
    top, squares = sums.tops
    if sums.bottoms is None:
        beyond, size = squares - top * top / sums.n, Fraction(sums.n)
    else:
        bottom, bottom_squares, products = sums.bottoms
        ratio, size = top / bottom, bottom
        beyond = squares - 2 * ratio * products + ratio * ratio * bottom_squares
    return sqrt(max(0.0, float(beyond * units / (units - 1)))) / float(size)


def _effective(sums: Sums) -> float:
    """Return the number of rows; of a ratio fewer, where some rows have most of the weight."""
    if sums.bottoms is None:
        return sums.n
    bottom, bottom_squares, _ = sums.bottoms
    return float(bottom * bottom / bottom_squares)


def quick_median(value: float, counts: Sequence[tuple[float, int]], confidence: float = 0.95) -> Interval:
    """Return a median with an interval between two of the sorted values, which holds whatever their distribution.

    Args:
        value: The median.
        counts: Each value that rows have, ascending, and how many rows have it.
        confidence: Of the interval; it is held at least.

    >>> found = quick_median(5.5, [(value, 1) for value in range(1, 11)])
    >>> found.low, found.high, found.method
    (2, 9, 'order statistics')
    """
    n = sum(count for _, count in counts)
    place = _place(n, (1 - confidence) / 2)
    if not place or n < FEW:
        method = "none: no finite value" if not n else f"none: fewer than {FEW} rows"
        return Interval(value, nan, nan, n, confidence, method)
    low, high = _at(counts, place), _at(counts, n + 1 - place)
    if not (isfinite(low) and isfinite(high)):
        return Interval(value, nan, nan, n, confidence, "none: no finite value")
    return Interval(value, low, high, n, confidence, "order statistics")


def _place(n: int, tail: float) -> int:
    """Return the largest r of which fewer than r of n coins show heads with a probability of at most ``tail``."""
    from scipy.special import bdtr

    low, high = 0, n // 2
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if bdtr(middle - 1, n, 0.5) <= tail else (low, middle - 1)
    return low


def _at(counts: Sequence[tuple[float, int]], place: int) -> float:
    """Return the value at a place of the sorted rows, from 1."""
    for value, count in counts:
        place -= count
        if place <= 0:
            return value
    raise AssertionError("unreachable")
