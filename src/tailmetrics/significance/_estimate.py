"""One number made of rows: what is resampled for it, and the interval and the p-value that are read from resamples."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import ceil, inf, isfinite, nan

import numpy as np
from numpy.typing import NDArray

from tailmetrics.significance._agreement import around_agreement, around_most, clopper_pearson
from tailmetrics.significance._clusters import Clusters
from tailmetrics.significance._resampling import Summed, bootstrap
from tailmetrics.significance._row_values import KeyRows, statistics_of
from tailmetrics.significance._statistics import Array, difference
from tailmetrics.significance._studentised import ROUNDING, Studentised
from tailmetrics.significance.interval import Interval

FEW = 10
"""With fewer rows or clusters nothing is resampled: docs/significance.md shows how intervals fail there."""


class Estimate:
    """The statistic of one run, or the difference of two, over the rows that count in each.

    Args:
        sides: One key of one run or of two.
        clusters: What is drawn together; None for rows.
        shares: Whether values are shares: none can lie outside [0, 1].
    """

    def __init__(self, sides: Sequence[KeyRows], clusters: Clusters | None, shares: bool) -> None:
        self.kind = sides[0].kind
        self.counted: NDArray[np.bool_] = np.logical_and.reduce([side.counted for side in sides])
        self.values = [side.values[self.counted] for side in sides]
        self.n = int(self.counted.sum())
        self.clusters = None if clusters is None else clusters.among(self.counted)
        self.sides = statistics_of(sides, self.counted, clusters)
        self.statistic = self.sides[0] if len(self.sides) == 1 else difference(*self.sides)
        self.value = self.statistic.value()
        self._shares = shares and all(((some >= 0) & (some <= 1)).all() for some in self.values)

    @property
    def units(self) -> int:
        """Number of rows, or clusters, of those that are drawn which say anything; 0 to 0 says nothing of a ratio."""
        if self._studentised is not None:
            return self._studentised.units
        return self.n if self.clusters is None else self.clusters

    @property
    def drawn(self) -> Summed | None:
        """What is read from each resample: a distance in standard errors, or a median; None if nothing is."""
        if self.units < FEW or not isfinite(self.value) or self._is_binary or (self._agrees and self.value == 0):
            return None
        return self._studentised or self.statistic

    def interval(self, draws: Array | None, confidence: float) -> Interval:
        """Return the value with its interval, from what was drawn."""
        low, high, method = self._ends(draws, confidence)
        return Interval(self.value, low, high, self.n, confidence, method, self.clusters)

    def p_value(self, draws: Array | None) -> float:
        """Return the two-sided bootstrap p-value of a true value of 0; NaN with too few rows or clusters."""
        if self.units < FEW or not isfinite(self.value):
            return nan
        if self._agrees and self.value == 0:
            return 1.0
        found = _defined(draws)
        if not found.size:
            return nan
        if self._studentised is None:
            return share_as_far(found - self.value, self.value)
        far = 0 if self._agrees else (found >= (1 - ROUNDING) * abs(self.value) / self._studentised.error).sum()
        return (int(far) + 1) / (found.size + 1)

    @property
    def columns(self) -> int:
        """How many columns are summed for it."""
        return 0 if self.drawn is None else len(self.drawn.columns)

    @cached_property
    def _studentised(self) -> Studentised | None:
        if not self.statistic.terms or not isfinite(self.value):
            return None
        return Studentised(self.statistic.terms)

    @property
    def _agrees(self) -> bool:
        return self._studentised is not None and self._studentised.agrees

    @cached_property
    def _is_binary(self) -> bool:
        """Whether this is a share of independent rows."""
        alone = len(self.sides) == 1 and self.kind == "mean" and self.clusters is None and self._shares
        return alone and bool(np.isin(self.values[0], (0, 1)).all())

    @property
    def _is_mean_of_shares(self) -> bool:
        """Whether this is a mean of independent rows, or a difference of two, of which none can lie outside [0, 1]."""
        return self.kind == "mean" and self.clusters is None and self._shares

    @property
    def _row_values(self) -> Array:
        return self.values[0] if len(self.values) == 1 else self.values[0] - self.values[1]

    def _ends(self, draws: Array | None, confidence: float) -> tuple[float, float, str]:
        smooth, drawn = self._studentised, "rows" if self.clusters is None else "clusters"
        if not isfinite(self.value):
            return nan, nan, "none: no finite value"
        if self._is_binary:
            return (*clopper_pearson(round(self.values[0].sum()), self.n, confidence), "Clopper-Pearson")
        bounds = (0.0 if len(self.sides) == 1 else -1.0, 1.0)
        if smooth is not None and smooth.agrees:
            if not self._shares:
                return nan, nan, f"none: all {drawn} agree"
            ends = around_agreement(self.value, bounds, smooth.effective_units, confidence)
            return (*ends, f"Clopper-Pearson, all {drawn} agree")
        if self.units < FEW:
            return nan, nan, f"none: fewer than {FEW} {drawn}"
        found = _defined(draws)
        if not found.size:
            return nan, nan, f"none: no resample has {drawn} that count"
        if smooth is not None:
            half = _half_width(smooth, found, confidence)
            low, high = smooth.limits
            if half > high - low and self._is_mean_of_shares:  # resamples say nothing
                ends = around_most(self._row_values, bounds, confidence)
                return (*ends, "Clopper-Pearson, few rows differ")
            # no end lies beyond what a resample can reach
            return max(smooth.value - half, low), min(smooth.value + half, high), f"studentised bootstrap of {drawn}"
        low, high = np.quantile(found, [(1 - confidence) / 2, (1 + confidence) / 2])
        return float(low), float(high), f"percentile bootstrap of {drawn}"


def drawn_for(estimates: Sequence[Estimate], resamples: int, seed: int) -> list[Array | None]:
    """Return what is read from bootstrap resamples for each estimate, shape (resamples,); all meet the same ones."""
    statistics = [estimate.drawn for estimate in estimates]
    draws = iter(bootstrap([statistic for statistic in statistics if statistic is not None], resamples, seed))
    return [None if statistic is None else next(draws) for statistic in statistics]


def share_as_far(null: Array, observed: float, exact: bool = False) -> float:
    """Return the share of the null distribution at least as far from zero as what was observed.

    What differs by rounding alone is equal, and what is undefined counts as far. Unless the distribution is ``exact``,
    what was observed is one of it.
    """
    if not isfinite(observed):
        return nan
    rounding = ROUNDING * max(abs(observed), float(np.nanmax(np.abs(null), initial=0)))
    far = int((~(np.abs(null) < abs(observed) - rounding)).sum())
    return far / null.size if exact else (far + 1) / (null.size + 1)


def _half_width(studentised: Studentised, draws: Array, confidence: float) -> float:
    """Return the standard error times what ``confidence`` of the draws stay within.

    Huge where many draws have no spread: they hold none of the few rows that differ from the others.
    """
    place = min(ceil(confidence * (draws.size + 1)), draws.size)
    reach = float(np.partition(draws, place - 1)[place - 1])
    return reach * studentised.error if reach < inf else inf


def _defined(draws: Array | None) -> Array:
    """Return the draws without those that drew no row that counts."""
    assert draws is not None
    return draws[~np.isnan(draws)]
