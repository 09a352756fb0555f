"""Confidence intervals: what is taken when.

The first line that fits is taken; quick and resampled intervals differ in the last two alone.

1. no rows, or a value that is not finite: none.
2. a mean of independent rows that are all 0 or 1: Wilson's, for any number of rows.
3. all rows say the same: what Clopper and Pearson give for 0 of as many rows; none where values have no bounds.
4. fewer than 10 rows, or clusters: none.
5. several runs of a model, or labels drawn too: Student's t, variances added up (Satterthwaite's degrees of freedom).
6. a median: two of the sorted values (quick); percentiles of the bootstrap (resampled).
7. anything else is a sum of ratios of sums over rows. Quick: value +- t * standard error by the delta method.
   Resampled: the symmetric studentised bootstrap. Where so few rows differ that more than 5 % of resamples hold none of
   them, these say nothing of the error: a mean has the exact share of the rows that differ, anything else no
   interval. No end lies outside the bounds of the value.

Sources: Wilson, JASA 22 (1927), as Brown, Cai and DasGupta, Statistical Science 16 (2001), advise; Clopper and Pearson,
Biometrika 26 (1934); Korn and Graubard, Survey Methodology 24 (1998), for rows of unequal weight; Hall, JRSS B 50
(1988), and Davison and Hinkley, Bootstrap methods and their application (1997), sections 5.2 and 3.8.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import ceil, inf, isfinite, isnan, nan, sqrt
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tailmetrics._arguments import check_choice, check_count, check_number
from tailmetrics.significance.resampling import Ratios, Studentised, Summed, bootstrap, groups, statistics_of, total
from tailmetrics.significance.rows import Array, Clusters, KeyRows, RowValues, counted, read_models

FEW = 10
"""With fewer rows or clusters nothing is resampled: of 3 skewed rows 95 % intervals held the truth in 74 %."""

Resample: TypeAlias = Literal["rows", "rows,labels"]
Ends: TypeAlias = tuple[float, float, str]


@dataclass(frozen=True)
class Interval:
    """A number with the range of values that the rows are compatible with.

    Attributes:
        value: The mean, ratio of sums, median, average over labels or gap, or a difference of two.
        low: Lower end; NaN where there is no interval, as ``method`` says.
        high: Upper end; NaN where there is no interval.
        n: Rows that count.
        confidence: Share of samples whose interval is to hold the true value.
        method: How it was found, or ``"none: …"`` and why there is none, such as ``"none: fewer than 10 rows"``.
        clusters: Clusters that have a row that counts; None where each row stands alone.
    """

    value: float
    low: float
    high: float
    n: int
    confidence: float
    method: str
    clusters: int | None = None


@dataclass(frozen=True)
class Facts:
    """What decides which interval is used.

    Attributes:
        value: The value.
        units: Rows, or clusters, that say anything.
        bounds: What no value can lie outside of; None where there are no bounds.
        ones: How many rows are 1, where the value is a mean of independent rows of 0 and 1.
        agrees: Whether all rows say the same.
        effective: As how many rows of equal weight they do.
        n: Rows that count.
        clusters: How many clusters they are; None where rows are drawn.
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
    """Return the interval by lines 1 to 4 of the module's text; ``spread`` has the others."""
    drawn = "rows" if facts.clusters is None else "clusters"
    if not facts.units or not isfinite(facts.value):
        low, high, method = nan, nan, "none: no finite value"
    elif facts.ones is not None:
        from scipy.stats import binomtest  # tailmetrics.significance is imported without the extras

        found = binomtest(facts.ones, facts.units).proportion_ci(confidence, method="wilson")
        low, high, method = float(found.low), float(found.high), "Wilson"
    elif facts.agrees and facts.bounds is None:
        low, high, method = nan, nan, f"none: all {drawn} agree"
    elif facts.agrees and facts.bounds is not None:
        # the share of rows that are something else, each of which may lie at either bound
        others = 1 - ((1 - confidence) / 2) ** (1 / facts.effective)
        low, high = (facts.value + (end - facts.value) * others for end in facts.bounds)
        method = f"Clopper-Pearson, all {drawn} agree"
    elif facts.units < FEW:
        low, high, method = nan, nan, f"none: fewer than {FEW} {drawn}"
    else:
        low, high, method = spread()
    return Interval(facts.value, low, high, facts.n, confidence, method, facts.clusters)


def student(value: float, error: float, degrees: float, bounds: tuple[float, float], confidence: float) -> Ends:
    """Return the ends of an interval, value ± t · standard error, within bounds, and its method."""
    from scipy.special import stdtrit

    half = float(stdtrit(degrees, (1 + confidence) / 2)) * error
    return max(bounds[0], value - half), min(bounds[1], value + half), "Student's t"


# -- from sums over rows --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sums:
    """Sums over rows for one value, exact: a mean, or a ratio of sums.

    Attributes:
        value: The value.
        n: Rows that count.
        tops: Sums of the values of rows, or of their numerators, and of the squares.
        ends: The least and the greatest value of a row.
        shares: Whether no row can have a value outside [0, 1].
        ratio: For a ratio the sums of denominators, of their squares and of numerators times denominators; None for a
            mean, whose rows all have a denominator of 1.
        with_bottom: For a ratio the rows that have a denominator.
    """

    value: float
    n: int
    tops: tuple[Fraction, Fraction]
    ends: tuple[float, float]
    shares: bool
    ratio: tuple[Fraction, Fraction, Fraction] | None = None
    with_bottom: int = 0
    bottoms: tuple[Fraction, Fraction, Fraction] = field(init=False)
    units: int = field(init=False)

    def __post_init__(self) -> None:
        of_mean = Fraction(self.n), Fraction(self.n), self.tops[0]
        object.__setattr__(self, "bottoms", of_mean if self.ratio is None else self.ratio)
        object.__setattr__(self, "units", self.n if self.ratio is None else self.with_bottom)

    def spread(self) -> Fraction:
        """Return the sum over rows of the square of numerator minus value times denominator."""
        (top, squares), (bottom, bottom_squares, products) = self.tops, self.bottoms
        return squares - 2 * top / bottom * products + (top / bottom) ** 2 * bottom_squares


def quick_interval(sums: Sums, confidence: float = 0.95) -> Interval:
    """Return a mean or a ratio of sums with a quick interval.

    >>> rows = [0.25, 0.5, 0.5, 0.75] * 3
    >>> tops = Fraction(sum(rows)), Fraction(sum(row**2 for row in rows))
    >>> found = quick_interval(Sums(0.5, 12, tops, (0.25, 0.75), shares=True))
    >>> round(found.low, 4), round(found.high, 4), found.method
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
    """Return the first value minus the last one with a quick interval.

    Args:
        first: Sums of the first bucket.
        last: Sums of the last one.
        products: Sums over rows of numerator times numerator, numerator times denominator, denominator times numerator
            and denominator times denominator, of the first bucket and the last one.
        both: Rows that count in both, and those that have a denominator in both.
        confidence: Of the interval.
    """
    value, units = first.value - last.value, first.units + last.units - both[1]
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
    facts = Facts(value, units if finite else 0, bounds if first.shares else None, None, error == 0, effective, n)
    return choose(facts, confidence, lambda: student(value, error, units - 1, bounds, confidence))


def quick_median(value: float, counts: Sequence[tuple[float, int]], confidence: float = 0.95) -> Interval:
    """Return a median with an interval between two of the sorted values, which holds whatever their distribution.

    Args:
        value: The median.
        counts: Each value that rows have, ascending, and how many rows have it.
        confidence: Of the interval; it is held at least.

    >>> found = quick_median(5.5, [(value, 1) for value in range(1, 11)])
    >>> found.low, found.high, found.method
    (2.0, 9.0, 'order statistics')
    """
    n = sum(count for _, count in counts)

    def between() -> Ends:
        from scipy.stats import binom

        # fewer than `place` of n fair coins show heads with a probability of at most the tail
        place = int(binom.ppf((1 - confidence) / 2, n, 0.5))
        reached = np.cumsum([count for _, count in counts])
        low, high = (float(counts[int(np.searchsorted(reached, at))][0]) for at in (place, n + 1 - place))
        finite = isfinite(low) and isfinite(high)
        return (low, high, "order statistics") if finite else (nan, nan, "none: no finite value")

    return choose(Facts(value, n, None, None, False, n, n), confidence, between)


# -- from the values of rows ----------------------------------------------------------------------------------------


class Estimate:
    """The statistic of one model, or the difference of two, over the rows that count in each.

    Args:
        sides: One key of one model or of two.
        clusters: What is drawn together; None for rows.
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
        # between what values of shares lie: a gap is a difference, and so is what two models are apart
        apart = len(sides) * (2 if self.kind == "gap" else 1)
        reach = (0.0, 1.0) if apart == 1 else (-apart / 2, apart / 2)
        self.bounds = reach if shares else (-inf, inf)
        # a mean of independent rows, or a difference of two, of which none can lie outside [0, 1]
        self._is_mean_of_shares = self.kind == "mean" and self.plain and clusters is None and shares
        held = None if clusters is None else int(np.unique(clusters.codes[self.rows]).size)
        # rows, or clusters, of those that are drawn which say anything; 0 to 0 says nothing of a ratio
        whole = smooth.units if smooth is not None else self.n if held is None else held
        units = min([whole, *(one.contributing_rows for one in self.influences)])
        agrees = smooth is not None and smooth.agrees
        effective = smooth.effective_units if smooth is not None and agrees else 0.0
        effective = min([effective, *(one.effective_rows for one in self.influences)])
        alone = len(sides) == 1 and self._is_mean_of_shares
        ones = round(float(self.row_values.sum())) if alone and np.isin(self.row_values, (0, 1)).all() else None
        self.facts = Facts(self.value, units, reach if shares else None, ones, agrees, effective, self.n, held)
        nothing = units < FEW or not isfinite(self.value) or ones is not None or self.extra
        # read from each resample: a distance in standard errors, or a median; None where nothing is
        self.drawn: Summed | None = None if nothing or (agrees and self.value == 0) else smooth or statistic
        self.columns = 0 if self.drawn is None else len(self.drawn.columns)

    @cached_property
    def row_values(self) -> Array:
        """The values of the rows that count, or their differences."""
        first, *second = (side.values[self.rows] for side in self.models)
        return first - second[0] if second else first

    @cached_property
    def extra(self) -> list[tuple[float, float]]:
        """Variances beside that of rows, with their degrees of freedom: between runs of a model, and between labels."""
        several = [side.runs for side in self.models if len(side.runs) > 1]
        found = [(float(np.var(runs, ddof=1)) / len(runs), float(len(runs) - 1)) for runs in several]
        if self._labels_too and self.influences:
            first, *second = self.influences
            found.append((first.plus(second[0], other_factor=-1.0) if second else first).variance_between_labels())
        return found

    def error(self, draws: Array | None = None) -> tuple[float, float]:
        """Return the standard error and its degrees of freedom; of a median that of its resamples."""
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
        """Return the value with its interval, from what was drawn; ``quick`` needs nothing drawn, but no median."""

        def spread() -> Ends:
            if quick and self.smooth is None:
                return nan, nan, "none: a median is resampled"
            if quick or self.extra:
                low, high, method = student(self.value, *self.error(), self.bounds, confidence)
                return low, high, f"{method} of {self._drawn_are}, runs and labels" if self.extra else method
            return self._resampled(draws, confidence)

        found, off = choose(self.facts, confidence, spread), self.bin_error
        if not off or isnan(found.low):
            return found
        low, high = max(found.low - off, self.bounds[0]), min(found.high + off, self.bounds[1])
        return replace(found, low=low, high=high, method=f"{found.method}, wider by what bins leave open")

    def _resampled(self, draws: Array | None, confidence: float) -> Ends:
        assert draws is not None
        found = draws[~np.isnan(draws)]  # without those that drew no row that counts
        if not found.size:
            return nan, nan, f"none: no resample has {self._drawn_are} that count"
        if self.smooth is None:
            low, high = np.quantile(found, [(1 - confidence) / 2, (1 + confidence) / 2])
            return float(low), float(high), f"percentile bootstrap of {self._drawn_are}"
        # huge where many draws have no spread: they hold none of the few rows that differ from the others
        place = min(ceil(confidence * (found.size + 1)), found.size)
        half = float(np.partition(found, place - 1)[place - 1]) * self.smooth.error
        low, high = self.smooth.limits if self.plain else self.bounds
        if self._is_mean_of_shares and half > high - low:  # resamples say nothing
            return (*_around_most(self.row_values, self.bounds, confidence), "Clopper-Pearson, few rows differ")
        if half == inf or (half >= self.value - low and half >= high - self.value):
            return nan, nan, f"none: too few {self._drawn_are} differ"
        # no end lies beyond what a resample can reach
        return max(self.value - half, low), min(self.value + half, high), f"studentised bootstrap of {self._drawn_are}"


def _around_most(values: Array, bounds: tuple[float, float], confidence: float) -> tuple[float, float]:
    """Return an interval of a mean of rows of which most have one value, the middle one.

    The share of rows above it is at most the upper end of Clopper and Pearson's interval, and each of them may lie at
    the upper bound; below it alike. So it holds the mean in at least ``confidence`` of samples.

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
    """Return how often to draw. With m draws no p-value is below 1 / (m + 1), which must be at most half the level.

    The end of an interval lies among m resamples, too.
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

    Rows, or whole clusters of rows, are taken for a random sample of all there could be, each independent of the
    others. What is taken when stands at the top of ``tailmetrics.significance.estimating``; how often it held the truth
    in simulation, in docs/significance.md.

    Args:
        rows: Key -> values of shape (N,), or a tuple (numerator, denominator) of shape (N,) each, NaN in rows that do
            not count; or, of an average over labels, :class:`LabelRows` or :class:`AreaRows`. A list of such dicts are
            several runs of one model, such as seeds: their mean, with the variance between them.
        clusters: Shape (N,), the cluster of each row, such as its user or patient, where several rows of one are not
            independent; None where every row stands alone.
        medians: Keys, with or without their bucket, whose statistic is the median instead of the mean.
        unbounded: Keys, with or without their bucket, whose values can lie outside [0, 1], such as DCG or ranks, even
            if none of these rows' does.
        gaps: Name -> the keys of its buckets, head first: the first measured one minus the last measured one.
        parts: Keys that are read for gaps alone, and have no interval of their own.
        resample: ``"rows"``, or ``"rows,labels"``, which takes the labels of averages over labels for a sample, too:
            what the average would be over other labels of this kind.
        confidence: Between 0.5 and 0.9999.
        resamples: Bootstrap resamples, more where the confidence needs them; 0 takes quick intervals of Student's t,
            which medians do not have.
        seed: Same seed, same intervals.

    Raises:
        ValueError: If keys differ in their number of rows, there is not one cluster per row, or ``medians`` or
            ``unbounded`` holds something else.

    >>> interval = intervals({"precision@1": [0, 0, 1, 1, 1, float("nan")]})["precision@1"]
    >>> interval.value, interval.n, interval.method
    (0.6, 5, 'Wilson')
    >>> intervals({"recall@5": [0.5, 0.25, 1.0]})["recall@5"].method
    'none: fewer than 10 rows'
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
            return dict(zip(keys, (one.interval(None, confidence, quick=True) for one in estimates), strict=True))
        resamples = enough(caller, resamples, confidence)
        for group in groups(estimates, lambda one: one.columns, max(num_rows, resamples)):
            draws = bootstrap([estimate.drawn for estimate in group], resamples, seed)
            found += [estimate.interval(draw, confidence) for estimate, draw in zip(group, draws, strict=True)]
    return dict(zip(keys, found, strict=True))
