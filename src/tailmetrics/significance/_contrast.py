"""One key of two runs: what is resampled, and what is read from the resamples."""

from __future__ import annotations

from math import copysign, inf, nan, sqrt

import numpy as np

from tailmetrics.significance._clusters import Clusters
from tailmetrics.significance._estimate import Estimate, share_as_far
from tailmetrics.significance._row_values import KeyRows
from tailmetrics.significance._statistics import Array, Swapped
from tailmetrics.significance.comparison import Comparison, PValues

EXACT_UNITS = 12
"""With this many differing rows or clusters or fewer, all ways to swap them, at most 4,096, are gone through."""


class Contrast:
    """One key of two runs on the rows that count in both.

    Args:
        key: As in the row values.
        first: The run.
        second: The run that it is held against.
        clusters: What is drawn and swapped together; None for rows.
        lower_is_better: Whether the lower value wins.
        shares: Whether no value can lie outside [0, 1].
    """

    def __init__(
        self, key: str, first: KeyRows, second: KeyRows, clusters: Clusters | None, lower_is_better: bool, shares: bool
    ) -> None:
        self.key, self.lower_is_better = key, lower_is_better
        self.estimate = Estimate([first, second], clusters, shares)
        self.swapped = Swapped(*self.estimate.sides)
        self.differing = np.flatnonzero(np.any([column != 0 for column in self.swapped.columns], axis=0))

    @property
    def columns(self) -> int:
        """How many columns are summed for it."""
        return self.estimate.columns + len(self.swapped.columns)

    @property
    def exact(self) -> bool:
        """Whether so few rows or clusters differ that the randomisation test needs no random numbers."""
        return self.differing.size <= EXACT_UNITS

    def all_swaps(self) -> Array:
        """Return the difference under every way to swap the rows or clusters that differ."""
        bits = np.arange(2**self.differing.size)[:, None] >> np.arange(self.differing.size) & 1
        return self.swapped.read(np.stack([bits @ column[self.differing] for column in self.swapped.columns], axis=1))

    def comparison(self, run: str, baseline: str, draws: Array | None, swaps: Array, confidence: float) -> Comparison:
        """Return what bootstrap ``draws`` and ``swaps`` of the difference say of it."""
        estimate = self.estimate
        value, baseline_value = (side.value() for side in estimate.sides)
        p = PValues(share_as_far(swaps, estimate.value, self.exact), estimate.p_value(draws), self._t_test())
        wins, losses = self._wins_and_losses()
        return Comparison(
            key=self.key,
            run=run,
            baseline=baseline,
            statistic=estimate.kind,
            value=value,
            baseline_value=baseline_value,
            interval=estimate.interval(draws, confidence),
            p=p,
            p_corrected=p,
            wins=wins,
            ties=estimate.n - wins - losses,
            losses=losses,
            cohens_dz=self._cohens_dz(),
            relative_difference=estimate.value / baseline_value if baseline_value else nan,
        )

    def _t_test(self) -> float:
        effect = self._cohens_dz()
        if self.estimate.n < 2 or self.estimate.clusters is not None or abs(effect) == inf:
            return nan
        from scipy.special import stdtr  # tailmetrics.significance is imported without the extras

        return float(2 * stdtr(self.estimate.n - 1, -abs(effect) * sqrt(self.estimate.n)))

    def _wins_and_losses(self) -> tuple[int, int]:
        first, second = self.estimate.values
        higher, lower = int((first > second).sum()), int((first < second).sum())
        return (lower, higher) if self.lower_is_better else (higher, lower)

    def _cohens_dz(self) -> float:
        if self.estimate.kind != "mean" or self.estimate.n < 2:
            return nan
        differences = self.estimate.values[0] - self.estimate.values[1]
        mean, deviation = float(differences.mean()), float(differences.std(ddof=1))
        if deviation == 0:
            return copysign(inf, mean) if mean else 0.0
        return mean / deviation
