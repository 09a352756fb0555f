"""Estimates from the values of rows: a statistic, its error and its interval.

The error is the standard error. The module ``tailmetrics.significance.interval`` lists
the rules that choose the method of an interval.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from math import ceil, inf, isfinite, isnan, nan, sqrt
from typing import Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from tailmetrics._arguments import check_choice, check_count, check_number
from tailmetrics._extras import names_missing_extra
from tailmetrics.significance.influence import Array, Flags, Influence
from tailmetrics.significance.interval import (
    FEW,
    Ends,
    Gaps,
    Interval,
    IntervalFacts,
    Method,
    PoissonSums,
    choose,
    largest_unseen_share,
    rare_ends,
    student,
    unit_names,
    with_gaps_of_ends,
)
from tailmetrics.significance.moments import Moments
from tailmetrics.significance.resampling import (
    Ratios,
    Studentised,
    Summed,
    bootstrap,
    statistics_of_sides,
    total,
)
from tailmetrics.significance.rows import (
    Clusters,
    KeyRows,
    Kind,
    ModelRows,
    gap_ends,
    read_models,
)

TWO_RUNS = "two runs do not tell how much runs vary; train one more"
"""Why a value has neither interval nor p.

With two runs of a model beside one of another, tests at .05 reject .08 to .11; the
interval of one model of two runs holds the truth in .88.
"""

ONE_LABEL = "one label does not tell how much labels vary"
"""Why an average over drawn labels has neither interval nor p."""

MAX_VALUES_IN_MEMORY = 2**26
"""The most values of columns, or of their sums, in memory at a time: 512 MB."""

Resample: TypeAlias = Literal["rows", "rows,labels"]


class Estimate:
    """The statistic of one model, or a difference of two, on rows that count in each.

    Args:
        models: The values of one key, of one model or two.
        clusters: Clusters of rows that are drawn together; None for single rows.
        resample: Whether labels are drawn, too.

    Attributes:
        kind: Which statistic is computed from the rows.
        n: Number of rows that count.
        value: The statistic, or the difference.
        models: The values of the key, as passed.
        model_statistics: The statistic of each model over these rows.
        has_row_values: Whether the values of single rows are known, as of no average
            over labels.
        bounds: The range outside of which no value can lie.
        bin_error: Upper bound of the error of the value that bins cause.
        facts: The facts that decide which method gives an interval.
        resampled_statistic: The statistic of each resample: a distance in standard
            errors, or a median; None if nothing is resampled.
    """

    def __init__(
        self, models: Sequence[KeyRows], clusters: Clusters | None, resample: Resample
    ) -> None:
        self.models = models
        self.kind = models[0].kind
        self.influences = [
            model.influence for model in models if model.influence is not None
        ]
        self.has_row_values = all(model.has_row_values for model in models)
        self.bin_error = sum(model.bin_error for model in models)
        self._clusters = clusters
        self._draws_labels = resample == "rows,labels"
        self._unit_names = unit_names(clusters)

        self._rows_of_terms = rows_of_terms(models)
        self.rows: Flags = np.logical_or.reduce(self._rows_of_terms)
        self.n = int(self.rows.sum())
        self.model_statistics = statistics_of_sides(
            self.kind, [model.terms for model in models], self._rows_of_terms, clusters
        )
        self._statistic: Summed = self.model_statistics[0]
        if len(models) == 2:
            self._statistic = self.model_statistics[0].minus(self.model_statistics[1])  # type: ignore[arg-type]
        self.value = total(self._statistic)
        self._studentised: Studentised | None = None
        self.moments: Moments | None = None
        if isinstance(self._statistic, Ratios) and isfinite(self.value):
            self._studentised = Studentised(
                self._statistic, are_clusters=clusters is not None
            )
            self.moments = self._studentised.moments

        self._are_shares = rows_are_shares(models, self._rows_of_terms)
        self.bounds = (-inf, inf)
        if self._are_shares:
            self.bounds = bounds_of_shares(self.kind, len(models))
        self.facts = self._facts()
        self.resampled_statistic = self._statistic_to_resample()

    def _facts(self) -> IntervalFacts:
        """Return the facts that decide which method gives an interval."""
        num_clusters = None
        if self._clusters is not None:
            num_clusters = self._num_units(self.rows)
        hits, misses = self._hits_and_misses()
        return IntervalFacts(
            self.value,
            self._num_contributing(),
            agrees=self.moments is not None and self.moments.agrees,
            effective=self._effective_units(),
            n=self.n,
            bounds=self._known_bounds(),
            num_ones=self._num_ones(),
            clusters=num_clusters,
            refusal=self._refusal(),
            weakness=self._weakness(),
            hits=hits,
            misses=misses,
        )

    def _effective_units(self) -> float:
        """Return the effective number of units that all agree; 0 where they differ."""
        if self.moments is None or not self.moments.agrees:
            return 0.0
        numbers = [influence.effective_units for influence in self.influences]
        return min([self.moments.effective_units, *numbers])

    def _known_bounds(self) -> tuple[float, float] | None:
        """Return the range outside of which no value can lie; None without bounds."""
        if self._are_shares:
            return self.bounds
        if self._may_be_negative:
            return min(-1.0, self.value), 1.0
        return None

    def _refusal(self) -> str | None:
        """Return why there can be no interval; None where there can be one."""
        if sum(len(model.runs) - 1 for model in self.models) == 1:
            return TWO_RUNS
        if self._drawn is not None and self._drawn.fewest_labels == 1:
            return ONE_LABEL
        return None

    def _weakness(self) -> str | None:
        """Return why the rows do not tell the variance; None where they do."""
        weaknesses = [influence.weakness for influence in self.influences]
        if self._clusters is not None and self.moments is not None:
            effective_clusters = self.moments.effective_units
            weaknesses.insert(0, weakness_of_clusters(self.kind, effective_clusters))
        if self.moments is not None and self.kind == "gap" and self._has_unbounded_rows:
            weaknesses.append(self.moments.weakness)
        for weakness in weaknesses:
            if weakness is not None:
                return weakness
        return None

    def _num_contributing(self) -> int:
        """Return the number of rows or clusters that contribute.

        In a gap, it is the smaller number of its two ends. A row with the denominator 0
        contributes nothing to a ratio.
        """
        numbers = [self._num_units(self.rows)]
        if self.moments is not None:
            numbers = [self.moments.units]
        if self.kind == "gap":
            for model in self.models:
                for (_, _, bottom), rows in zip(
                    model.terms, self._rows_of_terms, strict=True
                ):
                    numbers.append(self._num_units(rows & (bottom != 0)))
        numbers += [influence.contributing_units for influence in self.influences]
        return min(numbers)

    def _num_units(self, rows: Flags) -> int:
        """Return the number of drawn units: rows, or clusters that hold one of them."""
        if self._clusters is None:
            return int(rows.sum())
        return int(np.unique(self._clusters.codes[rows]).size)

    def _num_ones(self) -> int | None:
        """Return the number of rows that are 1; None unless rows are 0 and 1.

        None too unless the value is a mean of independent rows of one model.
        """
        if (
            len(self.models) > 1
            or not self._is_mean_of_shares
            or not np.isin(self.row_values, (0, 1)).all()
        ):
            return None
        return round(float(self.row_values.sum()))

    def _hits_and_misses(self) -> tuple[PoissonSums | None, PoissonSums | None]:
        """Return sums of the units, and of their denominators less the units.

        Both are None unless one model has shares.
        """
        is_share = (
            self.kind in ("mean", "ratio") and self.has_row_values and self._are_shares
        )
        if len(self.models) > 1 or not is_share or self.moments is None:
            return None, None
        (ratio,) = self.moments.ratios
        return ratio.rare_sums

    def _statistic_to_resample(self) -> Summed | None:
        """Return the statistic of each resample; None if nothing is resampled.

        It is a distance in standard errors, or a median.
        """
        facts = self.facts
        if (
            facts.units < FEW
            or not isfinite(self.value)
            or facts.num_ones is not None
            or self.extra_variances
        ):
            return None
        if facts.agrees and self.value == 0:
            return None
        if self._studentised is not None:
            return self._studentised
        return self._statistic

    @property
    def _is_mean_of_shares(self) -> bool:
        """Whether the value is a mean of independent rows in [0, 1].

        The difference of two such means counts, too.
        """
        return (
            self.kind == "mean"
            and self.has_row_values
            and self._clusters is None
            and self._are_shares
        )

    @cached_property
    def row_values(self) -> Array:
        """The values of the rows that count, or the differences of two models."""
        values = self.models[0].values[self.rows]
        if len(self.models) == 1:
            return values
        return values - self.models[1].values[self.rows]

    @property
    def _largest_residual(self) -> float | None:
        """The largest distance of a row, or cluster sum, above its expectation.

        None unless the value is a mean.
        """
        if self.kind != "mean":
            return None
        top, bottom = self._statistic.columns
        return float((top - self.value * bottom).max())

    @property
    def size_of_change(self) -> float:
        """The typical difference of a row's value between two models that differ in it.

        It is 0 if it is unknown. A row of 0 and 1 changes by 1. Other changes x have
        the size (sum of x^2) / (sum of absolute x), if the values of both models are
        known. The unit is the contribution of a row to the mean.
        """
        if (
            self.kind not in ("mean", "ratio")
            or not self.has_row_values
            or not self.facts.units
        ):
            return 0.0
        size = 0.0
        if self.kind == "mean" and all(
            np.isin(model.values[self.rows], (0, 1)).all() for model in self.models
        ):
            size = self.facts.units / self.n
        if (
            len(self.models) == 2
            and self.moments is not None
            and len(self.moments.ratios) == 1
        ):
            top, bottom = self._statistic.columns
            changes = np.abs(top) * self.moments.units / bottom.sum()
            if changes.any():
                size = max(size, float((changes**2).sum() / changes.sum()))
        return size

    @cached_property
    def _drawn(self) -> Influence | None:
        """The influences on an average over drawn labels, or on a difference of two.

        None for any other value.
        """
        if not self._draws_labels or not self.influences:
            return None
        influence = self.influences[0]
        if len(self.influences) == 2:
            influence = influence.plus(self.influences[1], other_factor=-1.0)
        if not influence.label_weights.any():
            return None
        return influence

    @cached_property
    def extra_variances(self) -> list[tuple[float, float]]:
        """The variances between runs and labels, each with its degrees of freedom.

        If only one of two models has several runs, the other model is assumed to vary
        as much from run to run.
        """
        num_single = sum(len(model.runs) == 1 for model in self.models)
        variances = []
        for model in self.models:
            num_runs = len(model.runs)
            if num_runs > 1:
                variance = float(np.var(model.runs, ddof=1)) * (
                    num_single + 1 / num_runs
                )
                variances.append((variance, float(num_runs - 1)))
        if self._drawn is not None and self._drawn.fewest_labels > 1:
            variances += self._drawn.variances_of_labels()
        return variances

    def error(self, draws: Array | None = None) -> tuple[float, float]:
        """Return the standard error and its degrees of freedom.

        For a median, it is the standard deviation of resamples.
        """
        units = self.facts.units
        if units < 2:
            return nan, nan
        if self.moments is None:
            if draws is None:
                return nan, nan
            return float(np.nanstd(draws)), units - 1
        between_units = self.moments.corrected_error**2
        # the variances between labels include that between cells
        if self._drawn is not None:
            between_units = max(
                0.0, between_units - self._drawn.variance_between_cells()
            )
        variances = [(between_units, units - 1.0), *self.extra_variances]
        variance = sum(part for part, _ in variances)
        spread = sum(part**2 / degrees for part, degrees in variances)
        if not spread:
            return sqrt(variance), units - 1
        return sqrt(variance), variance**2 / spread

    def interval(self, draws: Array | None, confidence: float) -> Interval:
        """Return the value with its interval.

        Args:
            draws: The statistic of each resample; None if nothing is resampled, and a
                median then has no interval.
            confidence: Confidence of the interval.
        """

        def spread() -> Ends:
            if draws is not None:
                return self._resampled(draws, confidence)
            if self.moments is None:
                return Ends.none("a median is resampled")
            ends = None
            if self._may_be_negative:
                ends = self._ends_beyond_chance(confidence)
            elif self._has_unbounded_rows and self.kind in ("mean", "ratio"):
                ends = self.moments.ends_without_bound(
                    confidence, self._largest_residual
                )
            return ends or student(self.value, *self.error(), self.bounds, confidence)

        interval = choose(self.facts, confidence, spread)
        if not self.bin_error:
            return interval
        return self.widened(
            interval, interval.low - self.bin_error, interval.high + self.bin_error
        )

    @property
    def _may_be_negative(self) -> bool:
        """Whether the value is a ratio of one run with rows below 0 and up to 1."""
        if self.kind != "ratio" or self.moments is None or not self._has_unbounded_rows:
            return False
        return self.models[0].are_shares and self.moments.ratios[0].high <= 1

    @property
    def _has_unbounded_rows(self) -> bool:
        """Whether the value is of one run whose rows are no shares."""
        return len(self.models) == 1 and self.has_row_values and not self._are_shares

    def _ends_beyond_chance(self, confidence: float) -> Ends | None:
        """Return the ends of a ratio such as values less chance, if few rows decide it.

        The result is None otherwise. If no row is above chance, so few rows are above
        it that none is among these, and each may have the value 1.
        """
        top, bottom = self._statistic.columns
        if top.max() <= 0:
            low = student(self.value, *self.error(), self.bounds, confidence).low
            high = self.value + (1 - self.value) * largest_unseen_share(
                self.facts.units, confidence
            )
            return Ends(low, high, Method.FAY_FEUER)
        residuals = top - self.value * bottom
        hits = PoissonSums.of_residuals(self.value, residuals, bottom)
        misses = PoissonSums.of_residuals(1 - self.value, -residuals, bottom)
        return rare_ends(hits, misses, confidence)

    def widened(self, interval: Interval, low: float, high: float) -> Interval:
        """Return an interval that also reaches from ``low`` to ``high``.

        It does not reach beyond the bounds of the value.
        """
        if isnan(interval.low):
            return interval
        low, high = min(interval.low, low), max(interval.high, high)
        return replace(
            interval, low=max(low, self.bounds[0]), high=min(high, self.bounds[1])
        )

    def _resampled(self, draws: Array, confidence: float) -> Ends:
        """Return the ends of the interval from the values of resamples."""
        draws = draws[~np.isnan(draws)]  # without resamples in which no row counts
        if not draws.size:
            return Ends.none(f"no resample has {self._unit_names} that count")
        if self.moments is None:
            low, high = np.quantile(draws, [(1 - confidence) / 2, (1 + confidence) / 2])
            return Ends(float(low), float(high), Method.PERCENTILE_BOOTSTRAP)

        # huge where many resamples have no spread, because they hold none of the few
        # rows that differ
        place = min(ceil(confidence * (draws.size + 1)), draws.size)
        half = float(np.partition(draws, place - 1)[place - 1]) * self.moments.error
        low, high = self.bounds
        if self.has_row_values:
            low, high = self.moments.limits
        if self._is_mean_of_shares and half > high - low:  # resamples give no error
            return Ends(
                *_interval_around_median(self.row_values, self.bounds, confidence),
                Method.FEW_DIFFER,
            )
        if half == inf or (half >= self.value - low and half >= high - self.value):
            return Ends.none(f"too few {self._unit_names} differ")
        # no end lies beyond the values that a resample can have
        return Ends(
            max(self.value - half, low),
            min(self.value + half, high),
            Method.STUDENTISED_BOOTSTRAP,
        )


SomeEstimate = TypeVar("SomeEstimate", bound=Estimate)


def with_draws(
    estimates: Iterable[SomeEstimate], num_rows: int, resamples: int, seed: int
) -> Iterator[tuple[SomeEstimate, Array | None]]:
    """Yield each estimate with its statistic of each resample, None if not resampled.

    All estimates get the same draws.

    Args:
        estimates: The estimates. An iterator can make each of them late: only those
            whose values fit into :data:`MAX_VALUES_IN_MEMORY` are in memory together.
        num_rows: Number of rows.
        resamples: Number of resamples; 0 resamples nothing.
        seed: The same seed gives the same draws.
    """
    if not resamples:
        for estimate in estimates:
            yield estimate, None
        return
    for group in _groups_in_memory(estimates, max(num_rows, resamples)):
        statistics = [estimate.resampled_statistic for estimate in group]
        yield from zip(group, bootstrap(statistics, resamples, seed), strict=True)


def _groups_in_memory(
    estimates: Iterable[SomeEstimate], column_size: int
) -> Iterator[list[SomeEstimate]]:
    """Yield the estimates in groups whose columns of this size fit into memory."""
    group: list[SomeEstimate] = []
    num_values = 0
    for estimate in estimates:
        size = 0
        if estimate.resampled_statistic is not None:
            size = len(estimate.resampled_statistic.columns) * column_size
        if num_values + size > MAX_VALUES_IN_MEMORY:
            yield group
            group, num_values = [], 0
        group.append(estimate)
        num_values += size
    yield group


def rows_of_terms(models: Sequence[KeyRows]) -> list[Flags]:
    """Return for each term the rows that count in every model, shape (N,) each."""
    rows = []
    for terms in zip(*(model.terms for model in models), strict=True):
        rows.append(np.logical_and.reduce([term.counted for term in terms]))
    return rows


def rows_are_shares(models: Sequence[KeyRows], rows_of_terms: Sequence[Flags]) -> bool:
    """Whether all numerators lie between 0 and their denominators.

    Each row then has a value in [0, 1].
    """
    if not models[0].are_shares:
        return False
    for model in models:
        for (_, top, bottom), rows in zip(model.terms, rows_of_terms, strict=True):
            is_share = (top >= 0) & (top <= bottom)
            if model.has_row_values and not is_share[rows].all():
                return False
    return True


def bounds_of_shares(kind: Kind, num_models: int) -> tuple[float, float]:
    """Return the range outside of which no value of rows in [0, 1] can lie.

    >>> bounds_of_shares("mean", 1), bounds_of_shares("mean", 2)
    ((0.0, 1.0), (-1.0, 1.0))
    """
    # a comparison subtracts one model from the other, a gap one end from the other
    num_shares = num_models
    if kind == "gap":
        num_shares *= 2
    if num_shares == 1:
        return 0.0, 1.0
    return -num_shares / 2, num_shares / 2


def weakness_of_clusters(kind: Kind, effective_clusters: float) -> str | None:
    """Return why clusters do not tell the variance; None where they do."""
    if effective_clusters >= FEW:
        return None
    effective = f"the effective number of clusters is {effective_clusters:.1f}"
    if kind == "ratio":
        return f"a few clusters hold most of the sum of denominators; {effective}"
    return f"a few large clusters hold most rows; {effective}"


def _interval_around_median(
    values: Array, bounds: tuple[float, float], confidence: float
) -> tuple[float, float]:
    """Return an interval of the mean of rows, most of which equal the median.

    The share of rows above the median is at most the upper end of Clopper and Pearson's
    interval, and each of these rows may lie at the upper bound. Rows below the median
    are treated alike. So at least ``confidence`` of intervals hold the mean.

    >>> rows = np.zeros(100)
    >>> rows[0] = -0.25
    >>> [round(end, 4) for end in _interval_around_median(rows, (-1.0, 1.0), 0.95)]
    [-0.0545, 0.0362]
    """
    from scipy.stats import binomtest

    def largest_share(rows: int) -> float:
        return float(
            binomtest(rows, values.size).proportion_ci(confidence, "exact").high
        )

    middle = float(np.median(values))
    share_below = largest_share(int((values < middle).sum()))
    share_above = largest_share(int((values > middle).sum()))
    return middle - (middle - bounds[0]) * share_below, middle + (
        bounds[1] - middle
    ) * share_above


def resamples_needed(
    caller: str, resamples: int, confidence: float, comparisons: int = 1
) -> int:
    """Return ``resamples``, or the larger number of resamples that the level needs.

    With m draws no p-value is below 1 / (m + 1), which must be at most half the level.
    The ends of an interval need as many resamples.
    """
    check_count(caller, "resamples", resamples)
    return max(resamples, 2 * ceil(comparisons / (1 - confidence)))


@names_missing_extra
def intervals(
    rows: ModelRows,
    *,
    clusters: ArrayLike | None = None,
    medians: Collection[str] = (),
    unbounded: Collection[str] = (),
    gaps: Gaps | None = None,
    parts: Collection[str] = (),
    resample: Resample = "rows",
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> dict[str, Interval]:
    """Return the value of each key of one model with its confidence interval.

    Rows, or whole clusters of rows, are treated as a random sample, independent of one
    another. The docstring of ``tailmetrics.significance.interval`` lists the methods.
    docs/significance.md reports how often they held the true value in simulations.

    Quick intervals of values less chance, as pairs (value - chance, attainable -
    chance), are narrower than they should be if 3 to 5 rows decide them: they held the
    true value in .88 to .92 where the sizes of these rows differ by a factor of ten.
    Reports also know the values before chance is subtracted.

    Args:
        rows: Key -> values of shape (N,), or a tuple (numerator, denominator), each of
            shape (N,); NaN in rows that do not count. For an average over labels:
            :class:`LabelRows`, :class:`AreaRows` or :class:`ShownRows`. A list of dicts
            holds several runs of one model, such as seeds; the value is then their
            mean, and the interval includes the variance between them. Two runs have no
            interval: they do not tell how much runs vary.
        clusters: Shape (N,), the cluster of each row, such as its user or patient. Rows
            of one cluster may depend on one another. None if all rows are independent.
        medians: Keys, with or without their bucket, whose statistic is the median
            instead of the mean.
        unbounded: Keys, with or without their bucket, whose values can lie outside [0,
            1], such as DCG or ranks, even if no value of these rows does.
        gaps: Name of a gap -> the keys of its buckets, head first. The gap is the value
            of the first measured bucket minus the value of the last one.
        parts: Keys that only gaps read; they have no interval of their own.
        resample: ``"rows"`` if rows are a random sample; ``"rows,labels"`` if labels
            are one, too. The interval of an average over labels is then about the
            average over other labels of this kind.
        confidence: Confidence of each interval, from 0.5 to 0.9999.
        resamples: Number of bootstrap resamples; more are drawn where the confidence
            needs them. 0 gives quick intervals, which medians do not have.
        seed: The same seed gives the same intervals.

    Raises:
        ValueError: If keys differ in their number of rows, if there is not one cluster
            per row, or if an argument names an unknown key.

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
    gaps = gaps or {}
    models, row_clusters, num_rows = read_models(
        caller, {"rows": rows}, clusters, medians, unbounded, gaps, parts
    )
    model = models["rows"]
    # a gap has the interval of its ends where all rows of one end agree
    ends: set[str] = set()
    for gap_keys in gaps.values():
        ends.update(gap_ends([model], gap_keys) or ())
    keys = [key for key in model if key not in parts or key in ends]

    if resamples:
        resamples = resamples_needed(caller, resamples, confidence)
    estimates = (Estimate([model[key]], row_clusters, resample) for key in keys)
    estimated: list[Interval] = []
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        for estimate, draws in with_draws(estimates, num_rows, resamples, seed):
            estimated.append(estimate.interval(draws, confidence))
    by_key = with_gaps_of_ends(dict(zip(keys, estimated, strict=True)), gaps)
    for key in ends.intersection(parts):
        del by_key[key]
    return by_key
