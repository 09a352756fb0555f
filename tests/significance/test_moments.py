"""The moments of ratios are equal from summed whole numbers, from rows, and in plain
loops.
"""

import math
from fractions import Fraction

import numpy as np
import pytest

from tailmetrics.significance import intervals
from tailmetrics.significance.moments import ExactSums, Moments, quick_interval

UNIT = 64


def rows_of_two_buckets():
    """Return numerators and denominators of two buckets, as eighths, for 40 rows; some
    rows have no denominator.
    """
    rng = np.random.default_rng(3)
    sides = []
    for _ in range(2):
        bottom = rng.integers(0, 5, 40)
        top = rng.integers(0, bottom + 1)
        sides.append((top / 8, bottom / 8))
    return sides


def exact_sums(top, bottom):
    """Return the sums of a ratio as multiples of 1 / 64, in which products of eighths
    are whole.
    """
    tops, bottoms = (
        [round(UNIT * float(value)) for value in side] for side in (top, bottom)
    )
    values = [x / d for x, d in zip(tops, bottoms, strict=True) if d]
    return ExactSums(
        n=40,
        unit=UNIT,
        top=sum(tops),
        squares=sum(x * x for x in tops) // UNIT,
        bottom=sum(bottoms),
        bottom_squares=sum(d * d for d in bottoms) // UNIT,
        products=sum(x * d for x, d in zip(tops, bottoms, strict=True)) // UNIT,
        units=len(values),
        low=min(values),
        high=max(values),
        largest=max(tops) / UNIT,
        largest_miss=max(d - x for x, d in zip(tops, bottoms, strict=True)) / UNIT,
    )


def error_in_loops(sides, signs):
    """Return the standard error of a sum of ratios: the root of the sum over rows of
    their squared influences.
    """
    influences = [Fraction(0)] * 40
    for sign, (top, bottom) in zip(signs, sides, strict=True):
        tops, bottoms = (
            [Fraction(float(value)) for value in side] for side in (top, bottom)
        )
        ratio = sum(tops) / sum(bottoms)
        for row in range(40):
            influences[row] += sign * (tops[row] - ratio * bottoms[row]) / sum(bottoms)
    return math.sqrt(sum(influence**2 for influence in influences))


def test_a_ratio_has_the_same_moments_from_sums_and_from_rows():
    """A ratio has equal moments from sums and from rows, the error of plain loops, and
    equal intervals.
    """
    (top, bottom), _ = rows_of_two_buckets()
    sums = exact_sums(top, bottom)
    from_sums, from_rows = (
        Moments.from_sums(sums),
        Moments.from_units([(1, top, bottom)]),
    )
    assert from_sums.error == pytest.approx(from_rows.error, rel=1e-12)
    assert from_sums.error == pytest.approx(
        error_in_loops([(top, bottom)], [1]), rel=1e-12
    )
    assert from_sums.ratios == from_rows.ratios
    assert from_sums.units == from_rows.units == np.count_nonzero(bottom)
    quick = quick_interval(from_sums, sums.value, 40, are_shares=True)
    interval_of_rows = intervals({"k": (top, bottom)}, resamples=0)["k"]
    assert (quick.low, quick.high) == pytest.approx(
        (interval_of_rows.low, interval_of_rows.high), rel=1e-12
    )
    assert (quick.method, quick.n) == (interval_of_rows.method, interval_of_rows.n)


def test_a_gap_has_the_same_moments_from_sums_and_from_rows():
    """A gap has equal moments from sums and from rows, and the error of plain loops, in
    which products of both buckets are a part because their rows vary together.
    """
    sides = rows_of_two_buckets()
    tops, bottoms = zip(*sides, strict=True)
    products = []
    for first in (tops[0], bottoms[0]):
        for last in (tops[1], bottoms[1]):
            products.append(round(UNIT * float((first * last).sum())))
    in_both = np.count_nonzero((bottoms[0] != 0) & (bottoms[1] != 0))
    from_sums = Moments.of_gap(
        exact_sums(*sides[0]), exact_sums(*sides[1]), tuple(products), in_both
    )
    from_rows = Moments.from_units([(1, *sides[0]), (-1, *sides[1])])
    assert from_sums.error == pytest.approx(from_rows.error, rel=1e-12)
    assert from_sums.error == pytest.approx(error_in_loops(sides, (1, -1)), rel=1e-12)
    assert (
        from_sums.units
        == from_rows.units
        == np.count_nonzero((bottoms[0] != 0) | (bottoms[1] != 0))
    )
    assert from_sums.limits == from_rows.limits
