"""Confidence intervals, and the rules that choose among the methods.

The first rule that fits decides. Quick and resampled intervals differ only in the last two rules.

1. No rows, or a value that is not finite: no interval.
2. A mean of independent rows that are all 0 or 1: Wilson's interval, for any number of rows.
3. All rows agree: Clopper and Pearson's interval for 0 of as many rows; no interval where values have no bounds.
4. Fewer than 10 rows, or clusters, or clusters of such unequal sizes w that (Σw)² / Σw² is below 10 (Kish, Survey
   sampling, 1965): no interval. Averages over labels count the rows that hold a label. Each end of a gap needs 10. If
   all rows of one end agree, the gap has the interval of both ends (Zou and Donner 2008).
5. Several runs of a model, or labels drawn too: Student's t with the sum of the variances (Satterthwaite's degrees of
   freedom).
6. A median: two of the sorted values (quick); percentiles of the bootstrap (resampled).
7. Every other value is a sum of ratios of sums over rows. Quick: value +- t * standard error by the delta method.
   Resampled: the symmetric studentised bootstrap. If few rows differ, more than 1 - confidence of the resamples may
   hold none of them, and give no error. Then the mean of independent rows in [0, 1] has an interval by Clopper and
   Pearson, and other values have none. No end lies outside the bounds of the value.

Sources: Wilson, JASA 22 (1927), as Brown, Cai and DasGupta, Statistical Science 16 (2001), advise; Clopper and Pearson,
Biometrika 26 (1934); Korn and Graubard, Survey Methodology 24 (1998), for rows of unequal weight; Hall, JRSS B 50
(1988), and Davison and Hinkley, Bootstrap methods and their application (1997), sections 5.2 and 3.8.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from functools import cached_property
from math import ceil, hypot, inf, isfinite, isnan, nan, sqrt
from typing import Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tailmetrics._arguments import check_choice, check_count, check_number
from tailmetrics.significance.resampling import Ratios, Studentised, Summed, bootstrap, groups, statistics_of, total
from tailmetrics.significance.rows import Array, Clusters, KeyRows, RowValues, counted, read_models

FEW = 10
"""The fewest rows or clusters for rules 5 to 7: with 3 skewed rows, 95 % intervals held the true value in 74 %."""

Resample: TypeAlias = Literal["rows", "rows,labels"]


class Method(str, Enum):
    """How an interval was computed; the module's docstring says when."""

    NONE = "none"
    WILSON = "Wilson"
    ALL_AGREE = "Clopper-Pearson, all agree"
    FEW_DIFFER = "Clopper-Pearson, few differ"
    ORDER_STATISTICS = "order statistics"
    STUDENT = "Student's t"
    STUDENTISED_BOOTSTRAP = "studentised bootstrap"
    PERCENTILE_BOOTSTRAP = "percentile bootstrap"
    BOTH_ENDS = "from the intervals of both ends"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Ends:
    """Both ends of an interval with their method; without an interval, the ends are NaN, and there is a reason."""

    low: float
    high: float
    method: Method
    reason: str | None = None

    @classmethod
    def none(cls, reason: str) -> Ends:
        """Return the ends of no interval."""
        return cls(nan, nan, Method.NONE, reason)


@dataclass(frozen=True)
class Interval:
    """A value with its confidence interval.

    Attributes:
        value: The mean, ratio of sums, median, average over labels or gap; or the difference of two models.
        low: Lower end; NaN if there is no interval.
        high: Upper end; NaN if there is no interval.
        n: Number of rows that count.
        confidence: The share of samples whose interval should hold the true value.
        method: The method; ``Method.NONE`` if there is no interval.
        reason: Why there is no interval, such as ``"fewer than 10 rows"``; None where there is one.
        clusters: Number of clusters with a row that counts; None where rows are independent.
    """

    value: float
    low: float
    high: float
    n: int
    confidence: float
    method: Method
    reason: str | None = None
    clusters: int | None = None

    @property
    def ends(self) -> tuple[float, ...]:
        """Both ends; empty without an interval."""
        return () if isnan(self.low) else (self.low, self.high)

    @property
    def agrees(self) -> bool:
        """Whether all rows have the same value. The interval then says only how many other rows may differ."""
        return self.method is Method.ALL_AGREE

    @property
    def share_of_others(self) -> float:
        """Upper bound of the share of rows with other values, if all rows have the same value in [0, 1]; else NaN."""
        if self.method is Method.WILSON and self.value in (0, 1):
            return _share_of_others(self.n, self.confidence)
        return self.high - self.low if self.agrees else nan

    def without_ends(self, reason: str) -> Interval:
        """Return the value without an interval, for a reason."""
        return replace(self, low=nan, high=nan, method=Method.NONE, reason=reason)

    def moves(self, at_half: float) -> bool:
        """Whether the value depends on the number of rows, given the value at half of the rows.

        They then differ by more than a quarter of half the width of the interval; False without an interval.
        """
        return abs(at_half - self.value) > (self.high - self.low) / 8

    def minus(self, other: Interval) -> Interval:
        """Return the difference from a value of other rows, independent of these.

        Source: Zou and Donner, Construction of confidence limits about effect measures, Statistics in Medicine 27
        (2008).
        """
        below = hypot(self.value - self.low, other.high - other.value)
        above = hypot(self.high - self.value, other.value - other.low)
        value, n = self.value - other.value, self.n + other.n
        clusters = None if self.clusters is None else self.clusters + (other.clusters or 0)
        interval = Interval(
            value, value - below, value + above, n, self.confidence, Method.BOTH_ENDS, clusters=clusters
        )
        if isnan(below + above):
            return interval.without_ends("one of both has no interval")
        return interval


@dataclass(frozen=True)
class Facts:
    """The facts that decide which method gives an interval.

    Attributes:
        value: The value.
        units: Number of rows, or clusters, that contribute to the value.
        bounds: The range outside of which no value can lie; None where there are no bounds.
        ones: Number of rows that are 1, if the value is a mean of independent rows of 0 and 1; else None.
        agrees: Whether all rows agree, so that resamples have no spread.
        effective: The effective number of rows, given their weights.
        n: Number of rows that count.
        clusters: Number of clusters; None where rows are drawn.
    """

    value: float
    units: int
    bounds: tuple[float, float] | None
    ones: int | None
    agrees: bool
    effective: float
    n: int
    clusters: int | None = None


def choose(facts: Facts, confidence: float, spread: Callable[[], Ends]) -> Interval:
    """Return the interval by rules 1 to 4 of the module's docstring, else the interval that ``spread`` returns."""
    drawn = "rows" if facts.clusters is None else "clusters"
    if not facts.units or not isfinite(facts.value):
        ends = Ends.none("no finite value")
    elif facts.ones is not None:
        ends = Ends(*wilson(facts.ones, facts.units, confidence), Method.WILSON)
    elif facts.agrees and facts.bounds is None:
        ends = Ends.none(f"all {drawn} agree")
    elif facts.agrees and facts.bounds is not None:
        # rows with other values may lie at either bound
        others = _share_of_others(facts.effective, confidence)
        low, high = (facts.value + (end - facts.value) * others for end in facts.bounds)
        ends = Ends(low, high, Method.ALL_AGREE)
    elif facts.units < FEW:
        ends = Ends.none(f"fewer than {FEW} {drawn}")
    else:
        ends = spread()
    return Interval(facts.value, ends.low, ends.high, facts.n, confidence, ends.method, ends.reason, facts.clusters)


def _share_of_others(rows: float, confidence: float) -> float:
    """Return the upper bound of the share of rows with other values, if none of some rows has one."""
    return 1.0 - float(((1 - confidence) / 2) ** (1 / rows))


def wilson(ones: int, rows: int, confidence: float) -> tuple[float, float]:
    """Return the ends of Wilson's interval of a share; SciPy's ``binomtest`` takes 500 times as long for its p-value.

    >>> wilson(0, 10, 0.95)
    (0.0, 0.27753279...)
    """
    from scipy.special import ndtri  # tailmetrics.significance is imported without the extras

    z, share = float(ndtri((1 + confidence) / 2)), ones / rows
    middle = (2 * ones + z**2) / (2 * (rows + z**2))
    half = z / (2 * (rows + z**2)) * sqrt(4 * ones * (1 - share) + z**2)
    return (0.0 if ones == 0 else middle - half), (1.0 if ones == rows else middle + half)


def student(value: float, error: float, degrees: float, bounds: tuple[float, float], confidence: float) -> Ends:
    """Return the ends of the interval value ± t · standard error, kept within the bounds."""
    from scipy.special import stdtrit

    half = float(stdtrit(degrees, (1 + confidence) / 2)) * error
    return Ends(max(bounds[0], value - half), min(bounds[1], value + half), Method.STUDENT)


# -- from sums over rows --------------------------------------------------------------------------------------------


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
    """

    value: float
    n: int
    tops: tuple[Fraction, Fraction]
    ends: tuple[float, float]
    shares: bool
    ratio: tuple[Fraction, Fraction, Fraction] | None = None
    with_bottom: int = 0

    @property
    def bottoms(self) -> tuple[Fraction, Fraction, Fraction]:
        """The sums of denominators, of their squares, and of products, for a mean, too."""
        return self.ratio or (Fraction(self.n), Fraction(self.n), self.tops[0])

    @property
    def units(self) -> int:
        """Number of rows that have a denominator."""
        return self.n if self.ratio is None else self.with_bottom

    def spread(self) -> Fraction:
        """Return the sum over rows of (numerator - value * denominator)^2."""
        (top, squares), (bottom, bottom_squares, products) = self.tops, self.bottoms
        return squares - 2 * top / bottom * products + (top / bottom) ** 2 * bottom_squares


def quick_interval(sums: Sums, confidence: float = 0.95) -> Interval:
    """Return a mean or a ratio of sums with its quick interval.

    >>> rows = [0.25, 0.5, 0.5, 0.75] * 3
    >>> tops = Fraction(sum(rows)), Fraction(sum(row**2 for row in rows))
    >>> found = quick_interval(Sums(0.5, 12, tops, (0.25, 0.75), shares=True))
    >>> round(found.low, 4), round(found.high, 4), found.method.value
    (0.3827, 0.6173, "Student's t")
    """
    (top, squares), (bottom, bottom_squares, _) = sums.tops, sums.bottoms
    units = sums.units if all(map(isfinite, sums.ends)) else 0
    bounds = (0.0, 1.0) if sums.shares else (-inf if sums.ends[0] < 0 else 0.0, inf)
    facts = Facts(
        sums.value,
        units,
        (0.0, 1.0) if sums.shares else None,
        round(top) if sums.ratio is None and sums.shares and top == squares else None,
        sums.ends[0] == sums.ends[1],
        float(bottom**2 / bottom_squares) if bottom_squares else 0.0,
        sums.n,
    )

    def spread() -> Ends:
        error = sqrt(max(0.0, float(sums.spread() * units / (units - 1)))) / float(bottom)
        return student(sums.value, error, units - 1, bounds, confidence)

    return choose(facts, confidence, spread)


def quick_gap(
    first: Sums, last: Sums, products: Sequence[Fraction], both: tuple[int, int], confidence: float
) -> Interval:
    """Return a gap, the value of the first bucket minus the value of the last bucket, with its quick interval.

    Args:
        first: Sums of the first bucket.
        last: Sums of the last bucket.
        products: Sums over rows of numerator times numerator, numerator times denominator, denominator times numerator
            and denominator times denominator; the first factor is of the first bucket, the second of the last bucket.
        both: Number of rows that count in both buckets, and number of rows with a denominator in both.
        confidence: Confidence of the interval.
    """
    value, units = first.value - last.value, first.units + last.units - both[1]
    fewest = min(first.units, last.units)
    bounds = (-1.0, 1.0) if first.shares else (-inf, inf)
    finite = all(map(isfinite, (*first.ends, *last.ends))) and first.units > 0 < last.units
    error = effective = 0.0
    if finite:
        ratios = [one.tops[0] / one.bottoms[0] for one in (first, last)]
        tops, top_bottom, bottom_top, bottoms = products
        shared = tops - ratios[1] * top_bottom - ratios[0] * bottom_top + ratios[0] * ratios[1] * bottoms
        parts = [one.spread() / one.bottoms[0] ** 2 for one in (first, last)]
        variance = sum(parts) - 2 * shared / (first.bottoms[0] * last.bottoms[0])
        error = sqrt(max(0.0, float(variance * units / max(units - 1, 1))))
        effective = float(min(one.bottoms[0] ** 2 / one.bottoms[1] for one in (first, last)))
    n = first.n + last.n - both[0]
    facts = Facts(value, fewest if finite else 0, bounds if first.shares else None, None, error == 0, effective, n)
    return choose(facts, confidence, lambda: student(value, error, units - 1, bounds, confidence))


End = TypeVar("End")


def first_and_last(measured: Sequence[End]) -> list[End]:
    """Return the two ends of a gap; fewer if so few buckets were measured."""
    return [*measured[:1], *measured[1:][-1:]]


def with_gaps_of_ends(found: Mapping[str, Interval], gaps: Mapping[str, Sequence[str]]) -> dict[str, Interval]:
    """Return the intervals; a gap gets the interval of its two ends if all rows of one end agree.

    Rows that agree have no spread, so that the gap would take the value of that end as known exactly. If the rows of
    both ends agree, the gap has no spread at all, and keeps the interval of such a value.

    Args:
        found: The interval of each key and gap.
        gaps: Name of a gap -> the keys of its buckets, head first.
    """
    whole = dict(found)
    for name, keys in gaps.items():
        measured = [found[key] for key in keys if key in found and not isnan(found[key].value)]
        ends = first_and_last(measured)
        if len(ends) < 2 or name not in found or not found[name].ends:
            continue
        if isnan(ends[0].share_of_others) != isnan(ends[1].share_of_others):
            whole[name] = replace(ends[0].minus(ends[1]), n=found[name].n, clusters=found[name].clusters)
    return whole


def quick_median(value: float, counts: Sequence[tuple[float, int]], confidence: float = 0.95) -> Interval:
    """Return a median with an interval between two of the sorted values, which is valid for every distribution.

    Args:
        value: The median.
        counts: Each distinct value of the rows, ascending, with the number of rows that have it.
        confidence: The least confidence of the interval.

    >>> found = quick_median(5.5, [(value, 1) for value in range(1, 11)])
    >>> found.low, found.high, found.method.value
    (2.0, 9.0, 'order statistics')
    """
    n = sum(count for _, count in counts)

    def between() -> Ends:
        from scipy.stats import binom

        # the probability that fewer than `place` of n fair coins show heads is at most the tail's
        place = int(binom.ppf((1 - confidence) / 2, n, 0.5))
        reached = np.cumsum([count for _, count in counts])
        low, high = (float(counts[int(np.searchsorted(reached, at))][0]) for at in (place, n + 1 - place))
        if not (isfinite(low) and isfinite(high)):
            return Ends.none("no finite value")
        return Ends(low, high, Method.ORDER_STATISTICS)

    return choose(Facts(value, n, None, None, False, n, n), confidence, between)


# -- from the values of rows ----------------------------------------------------------------------------------------


class Estimate:
    """The statistic of one model, or the difference of two models, over the rows that count in every model.

    Args:
        sides: The values of one key, of one model or two.
        clusters: Clusters of rows that are drawn together; None where rows are drawn alone.
        resample: Whether labels are drawn, too.
    """

    def __init__(self, sides: Sequence[KeyRows], clusters: Clusters | None, resample: Resample) -> None:
        self.kind, self.models = sides[0].kind, sides
        self.influences = [side.influence for side in sides if side.influence is not None]
        terms = zip(*(side.terms for side in sides), strict=True)
        inside: list[NDArray[np.bool_]] = [np.logical_and.reduce([counted(one) for one in term]) for term in terms]
        self.rows: NDArray[np.bool_] = np.logical_or.reduce(inside)
        self.n, self.plain = int(self.rows.sum()), all(side.plain for side in sides)
        self.sides = statistics_of(self.kind, [side.terms for side in sides], inside, clusters)
        statistic: Ratios | Summed = self.sides[0] if len(sides) == 1 else self.sides[0].minus(self.sides[1])  # type: ignore[arg-type]
        self.value, smooth = total(statistic), None
        if isinstance(statistic, Ratios) and isfinite(self.value):
            smooth = Studentised(statistic)
        self.bin_error = sum(side.bin_error for side in sides)
        self.smooth, self._labels_too = smooth, resample == "rows,labels"
        self._drawn_are = "rows" if clusters is None else "clusters"
        shares = sides[0].shares and all(
            bool(((top >= 0) & (top <= bottom))[rows].all())
            for side in sides
            if side.plain
            for (_, top, bottom), rows in zip(side.terms, inside, strict=True)
        )
        # the range of the value if rows are shares: a gap is a difference, and a comparison is one, too
        apart = len(sides) * (2 if self.kind == "gap" else 1)
        reach = (0.0, 1.0) if apart == 1 else (-apart / 2, apart / 2)
        self.bounds = reach if shares else (-inf, inf)
        # a mean of independent rows in [0, 1], or the difference of two such means
        self._is_mean_of_shares = self.kind == "mean" and self.plain and clusters is None and shares
        held = None if clusters is None else _drawn(self.rows, clusters)
        # the number of rows or clusters that contribute: 0 / 0 contributes nothing to a ratio
        whole = smooth.units if smooth is not None else self.n if held is None else held
        pairs = zip(sides[0].terms, inside, strict=True) if self.kind == "gap" else ()
        ends = [_drawn(rows & (bottom != 0), clusters) for (_, _, bottom), rows in pairs]
        units = min([whole, *ends, *(one.contributing_rows for one in self.influences)])
        agrees = smooth is not None and smooth.agrees
        effective = smooth.effective_units if smooth is not None and agrees else 0.0
        effective = min([effective, *(one.effective_rows for one in self.influences)])
        alone = len(sides) == 1 and self._is_mean_of_shares
        ones = round(float(self.row_values.sum())) if alone and np.isin(self.row_values, (0, 1)).all() else None
        self.facts = Facts(self.value, units, reach if shares else None, ones, agrees, effective, self.n, held)
        nothing = units < FEW or not isfinite(self.value) or ones is not None or self.extra
        # the statistic of each resample: a distance in standard errors, or a median; None if nothing is resampled
        self.drawn: Summed | None = None if nothing or (agrees and self.value == 0) else smooth or statistic
        self.columns = 0 if self.drawn is None else len(self.drawn.columns)

    @cached_property
    def row_values(self) -> Array:
        """The values of the rows that count, or their differences between two models."""
        first, *second = (side.values[self.rows] for side in self.models)
        return first - second[0] if second else first

    @property
    def size_of_change(self) -> float:
        """The size of one change of a row between two models, in units of the mean; 0 if nothing is known about it.

        A hit changes by 1. Other changes x have the size (sum of x^2) / (sum of absolute x), if the values of both
        models are known.
        """
        if self.kind not in ("mean", "ratio") or not self.plain or not self.facts.units:
            return 0.0
        size = 0.0
        if self.kind == "mean" and all(np.isin(side.values[self.rows], (0, 1)).all() for side in self.models):
            size = self.facts.units / self.n
        if len(self.models) == 2 and self.smooth is not None:
            size = max(size, self.smooth.size_of_change)
        return size

    @cached_property
    def extra(self) -> list[tuple[float, float]]:
        """The variances between runs of a model and between labels, each with its degrees of freedom.

        A model of one run beside one of several is taken to vary from run to run as much as the other one.
        """
        several = [side.runs for side in self.models if len(side.runs) > 1]
        alone = len(self.models) - len(several)
        found = [(float(np.var(runs, ddof=1)) * (alone + 1 / len(runs)), float(len(runs) - 1)) for runs in several]
        if self._labels_too and self.influences:
            first, *second = self.influences
            found.append((first.plus(second[0], other_factor=-1.0) if second else first).variance_between_labels())
        return found

    def error(self, draws: Array | None = None) -> tuple[float, float]:
        """Return the standard error and its degrees of freedom; for a median, the standard deviation of resamples."""
        units = self.facts.units
        if units < 2 or (self.smooth is None and draws is None):
            return nan, nan
        if self.smooth is None:
            assert draws is not None
            return float(np.nanstd(draws)), units - 1
        whole = max(self.smooth.units, units)
        parts = [(self.smooth.error**2 * whole / (whole - 1), units - 1.0), *self.extra]
        variance, spread = sum(part for part, _ in parts), sum(part**2 / degrees for part, degrees in parts)
        return sqrt(variance), variance**2 / spread if spread else units - 1

    def interval(self, draws: Array | None, confidence: float, quick: bool = False) -> Interval:
        """Return the value with its interval from ``draws``. A ``quick`` interval needs no draws; a median has none."""

        def spread() -> Ends:
            if quick and self.smooth is None:
                return Ends.none("a median is resampled")
            if self.smooth is not None and self.facts.clusters is not None and self.smooth.effective_units < FEW:
                effective = f"the effective number of clusters is {self.smooth.effective_units:.1f}"
                return Ends.none(f"a few large clusters hold most rows; {effective}")
            if quick or self.extra:
                return student(self.value, *self.error(), self.bounds, confidence)
            return self._resampled(draws, confidence)

        found, off = choose(self.facts, confidence, spread), self.bin_error
        if not off or isnan(found.low):
            return found
        low, high = max(found.low - off, self.bounds[0]), min(found.high + off, self.bounds[1])
        return replace(found, low=low, high=high)

    def _resampled(self, draws: Array | None, confidence: float) -> Ends:
        assert draws is not None
        found = draws[~np.isnan(draws)]  # without resamples in which no row counts
        if not found.size:
            return Ends.none(f"no resample has {self._drawn_are} that count")
        if self.smooth is None:
            low, high = np.quantile(found, [(1 - confidence) / 2, (1 + confidence) / 2])
            return Ends(float(low), float(high), Method.PERCENTILE_BOOTSTRAP)
        # huge where many resamples have no spread, because they hold none of the few rows that differ
        place = min(ceil(confidence * (found.size + 1)), found.size)
        half = float(np.partition(found, place - 1)[place - 1]) * self.smooth.error
        low, high = self.smooth.limits if self.plain else self.bounds
        if self._is_mean_of_shares and half > high - low:  # resamples give no error
            return Ends(*_around_most(self.row_values, self.bounds, confidence), Method.FEW_DIFFER)
        if half == inf or (half >= self.value - low and half >= high - self.value):
            return Ends.none(f"too few {self._drawn_are} differ")
        # no end lies beyond the values that a resample can have
        return Ends(max(self.value - half, low), min(self.value + half, high), Method.STUDENTISED_BOOTSTRAP)


def _drawn(rows: NDArray[np.bool_], clusters: Clusters | None) -> int:
    """Return how many of some rows, or clusters that hold one of them, are drawn."""
    return int(rows.sum() if clusters is None else np.unique(clusters.codes[rows]).size)


def _around_most(values: Array, bounds: tuple[float, float], confidence: float) -> tuple[float, float]:
    """Return an interval of the mean of rows, most of which have the same value, the median.

    The share of rows above the median is at most the upper end of Clopper and Pearson's interval, and each of these
    rows may lie at the upper bound. Rows below the median are treated alike. So the interval holds the mean in at
    least ``confidence`` of samples.

    >>> rows = np.zeros(100)
    >>> rows[0] = -0.25
    >>> [round(end, 4) for end in _around_most(rows, (-1.0, 1.0), 0.95)]
    [-0.0545, 0.0362]
    """
    from scipy.stats import binomtest

    middle = float(np.median(values))
    some = int((values < middle).sum()), int((values > middle).sum())
    below, above = (float(binomtest(one, values.size).proportion_ci(confidence, "exact").high) for one in some)
    return middle - (middle - bounds[0]) * below, middle + (bounds[1] - middle) * above


def enough(caller: str, resamples: int, confidence: float, comparisons: int = 1) -> int:
    """Return the number of draws: ``resamples``, or more if the level needs them.

    With m draws no p-value is below 1 / (m + 1), which must be at most half the level. The ends of an interval need as
    many resamples.
    """
    check_count(caller, "resamples", resamples)
    return max(resamples, 2 * ceil(comparisons / (1 - confidence)))


def intervals(
    rows: RowValues | Sequence[RowValues],
    *,
    clusters: ArrayLike | None = None,
    medians: Collection[str] = (),
    unbounded: Collection[str] = (),
    gaps: Mapping[str, Sequence[str]] | None = None,
    parts: Collection[str] = (),
    resample: Resample = "rows",
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> dict[str, Interval]:
    """Return the value of each key of one model with its confidence interval.

    Rows, or whole clusters of rows, are treated as a random sample, independent of one another. The docstring of
    ``tailmetrics.significance.estimating`` lists the methods. docs/significance.md reports how often the intervals held
    the true value in simulations.

    Args:
        rows: Key -> values of shape (N,), or a tuple (numerator, denominator), each of shape (N,); NaN in rows that do
            not count. For an average over labels: :class:`LabelRows`, :class:`AreaRows` or :class:`ShownRows`. A list
            of dicts holds several runs of one model, such as seeds; the value is then their mean, and the interval
            includes the variance between them.
        clusters: Shape (N,), the cluster of each row, such as its user or patient. Rows of one cluster may depend on
            one another. None if all rows are independent.
        medians: Keys, with or without their bucket, whose statistic is the median instead of the mean.
        unbounded: Keys, with or without their bucket, whose values can lie outside [0, 1], such as DCG or ranks, even
            if no value of these rows does.
        gaps: Name of a gap -> the keys of its buckets, head first. The gap is the value of the first measured bucket
            minus the value of the last one.
        parts: Keys that only gaps read; they have no interval of their own.
        resample: ``"rows"`` if rows are a random sample; ``"rows,labels"`` if labels are one, too. The interval of an
            average over labels is then about the average over other labels of this kind.
        confidence: Confidence of each interval, from 0.5 to 0.9999.
        resamples: Number of bootstrap resamples; more are drawn where the confidence needs them. 0 gives quick
            intervals, which medians do not have.
        seed: The same seed gives the same intervals.

    Raises:
        ValueError: If keys differ in their number of rows, if there is not one cluster per row, or if an argument
            names an unknown key.

    >>> interval = intervals({"precision@1": [0, 0, 1, 1, 1, float("nan")]})["precision@1"]
    >>> interval.value, interval.n, interval.method.value
    (0.6, 5, 'Wilson')
    >>> intervals({"recall@5": [0.5, 0.25, 1.0]})["recall@5"].reason
    'fewer than 10 rows'
    """
    caller = "intervals"
    check_count(caller, "resamples", resamples, minimum=0)
    check_count(caller, "seed", seed, minimum=0)
    check_number(caller, "confidence", confidence, 0.5, 0.9999)
    check_choice(caller, "resample", resample, Resample)
    models, together, num_rows = read_models(caller, {"rows": rows}, clusters, medians, unbounded, gaps or {}, parts)
    keys, found = models["rows"], list[Interval]()
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        estimates = (Estimate([side], together, resample) for side in keys.values())
        if not resamples:
            quick = (one.interval(None, confidence, quick=True) for one in estimates)
            return with_gaps_of_ends(dict(zip(keys, quick, strict=True)), gaps or {})
        resamples = enough(caller, resamples, confidence)
        for group in groups(estimates, lambda one: one.columns, max(num_rows, resamples)):
            draws = bootstrap([estimate.drawn for estimate in group], resamples, seed)
            found += [estimate.interval(draw, confidence) for estimate, draw in zip(group, draws, strict=True)]
    return with_gaps_of_ends(dict(zip(keys, found, strict=True)), gaps or {})
