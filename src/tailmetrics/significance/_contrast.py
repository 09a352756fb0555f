"""One key of two runs: what is resampled, and what is read from the resamples."""

from __future__ import annotations

from math import copysign, inf, isfinite, nan, sqrt

import numpy as np

from tailmetrics.significance._row_values import KeyRows, statistics_of
from tailmetrics.significance._statistics import Array, Swapped, difference
from tailmetrics.significance.comparison import Comparison, PValues
from tailmetrics.significance.interval import interval_of

EXACT_ROWS = 12
"""With this many differing rows or fewer, all ways to swap them, at most 4,096, are gone through."""


class Contrast:
    """One key of two runs on the rows that count in both."""

    def __init__(self, key: str, first: KeyRows, second: KeyRows, lower_is_better: bool) -> None:
        self.key, self.kind, self.lower_is_better = key, first.kind, lower_is_better
        counted = first.counted & second.counted
        self.values = first.values[counted], second.values[counted]
        self.n = int(counted.sum())
        self.sides = statistics_of([first, second], counted)
        self.difference = difference(*self.sides)
        self.swapped = Swapped(*self.sides)
        self.differing = np.flatnonzero(np.any([column != 0 for column in self.swapped.columns], axis=0))

    @property
    def exact(self) -> bool:
        """Whether so few rows differ that the randomisation test needs no random numbers."""
        return self.differing.size <= EXACT_ROWS

    def all_swaps(self) -> Array:
        """Return the difference under every way to swap the rows that differ."""
        bits = np.arange(2**self.differing.size)[:, None] >> np.arange(self.differing.size) & 1
        return self.swapped.read(np.stack([bits @ column[self.differing] for column in self.swapped.columns], axis=1))

    def comparison(self, run: str, baseline: str, draws: Array, swaps: Array, confidence: float) -> Comparison:
        """Return what bootstrap ``draws`` and ``swaps`` of the difference say of it."""
        value, baseline_value = (side.value() for side in self.sides)
        interval = interval_of(self.difference, draws, self.n, confidence)
        p = self._p_values(interval.value, draws, swaps)
        wins, losses = self._wins_and_losses()
        return Comparison(
            key=self.key,
            run=run,
            baseline=baseline,
            statistic=self.kind,
            value=value,
            baseline_value=baseline_value,
            interval=interval,
            p=p,
            p_corrected=p,
            wins=wins,
            ties=self.n - wins - losses,
            losses=losses,
            cohens_dz=self._cohens_dz(),
            relative_difference=interval.value / baseline_value if baseline_value else nan,
        )

    def _p_values(self, observed: float, draws: Array, swaps: Array) -> PValues:
        randomisation = _p_value(swaps, observed, self.exact)
        if self.n < 2:
            return PValues(randomisation, nan, nan)
        from scipy.special import stdtr  # tailmetrics.significance is imported without the extras

        shifted = draws[np.isfinite(draws)] - observed
        t = self._cohens_dz() * sqrt(self.n)
        return PValues(randomisation, _p_value(shifted, observed, False), float(2 * stdtr(self.n - 1, -abs(t))))

    def _wins_and_losses(self) -> tuple[int, int]:
        first, second = self.values
        higher, lower = int((first > second).sum()), int((first < second).sum())
        return (lower, higher) if self.lower_is_better else (higher, lower)

    def _cohens_dz(self) -> float:
        if self.kind != "mean" or self.n < 2:
            return nan
        differences = self.values[0] - self.values[1]
        mean, deviation = float(differences.mean()), float(differences.std(ddof=1))
        if deviation == 0:
            return copysign(inf, mean) if mean else 0.0
        return mean / deviation


def _p_value(null: Array, observed: float, exact: bool) -> float:
    """Return the share of the null distribution at least as far from zero as what was observed.

    What differs by rounding alone is equal, and what is undefined counts as far.
    """
    if not isfinite(observed):
        return nan
    rounding = 1e-9 * max(abs(observed), float(np.nanmax(np.abs(null), initial=0)))
    far = int((~(np.abs(null) < abs(observed) - rounding)).sum())
    return far / null.size if exact else (far + 1) / (null.size + 1)
