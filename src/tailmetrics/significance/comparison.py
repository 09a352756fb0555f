"""What a comparison of two runs says."""

from __future__ import annotations

from dataclasses import dataclass

from tailmetrics.significance._row_values import Kind
from tailmetrics.significance.interval import Interval


@dataclass(frozen=True)
class PValues:
    """Two-sided p-values of "no difference", each in [0, 1]; NaN where a test does not apply.

    Attributes:
        randomisation: Rows or clusters swapped between the runs; exact where few differ. The one to decide by.
        bootstrap: Rows or clusters resampled and studentised, for medians shifted to no difference; NaN with fewer
            than 10.
        t: Paired t-test; means of independent rows only, and not where all differ by the same.
    """

    randomisation: float
    bootstrap: float
    t: float


@dataclass(frozen=True)
class Comparison:
    """One key of one run held against a baseline, on the rows that count in both.

    Attributes:
        key: As in the row values.
        run: Name of the run.
        baseline: Name of the run that it is held against.
        statistic: ``"mean"``, ``"ratio"`` (of sums) or ``"median"``.
        value: The statistic of the run.
        baseline_value: The statistic of the baseline.
        interval: ``value - baseline_value`` and its confidence interval.
        p: p-values of this comparison alone.
        p_corrected: The same, corrected for the number of comparisons.
        wins: Rows in which the run is better.
        ties: Rows in which both are equal.
        losses: Rows in which the run is worse.
        cohens_dz: Mean over standard deviation of the row differences; means only, else NaN.
        relative_difference: Difference over ``baseline_value``; NaN if that is 0.
    """

    key: str
    run: str
    baseline: str
    statistic: Kind
    value: float
    baseline_value: float
    interval: Interval
    p: PValues
    p_corrected: PValues
    wins: int
    ties: int
    losses: int
    cohens_dz: float
    relative_difference: float

    @property
    def n(self) -> int:
        """Rows that count in both runs."""
        return self.interval.n

    @property
    def difference(self) -> float:
        """The statistic of the run minus that of the baseline."""
        return self.interval.value

    @property
    def significant(self) -> bool:
        """Whether the corrected randomisation p-value is at most 1 - confidence."""
        return self.p_corrected.randomisation <= 1 - self.interval.confidence
