"""Confidence intervals of one run, by resampling rows."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tailmetrics._checks import check_count, check_number
from tailmetrics.significance._resampling import bootstrap
from tailmetrics.significance._row_values import RowValues, check_names, read_rows, statistics_of
from tailmetrics.significance.interval import Interval, interval_of


def intervals(
    rows: RowValues, *, medians: Collection[str] = (), confidence: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> dict[str, Interval]:
    """Return the value of each key of one run with its confidence interval.

    Means and ratios of sums: the bias-corrected and accelerated (BCa) bootstrap of rows, where a ratio is taken of the
    sums over each resample, and the acceleration comes from the rows' influence values. Medians, which are not smooth
    enough for BCa: the percentile bootstrap. With few rows both are too narrow: in simulation, 95 % intervals of means
    and ratios held the truth in 90 to 93 % of samples of 30 rows, 93 to 95 % of 150 rows, and 95 % of 300 rows.

    Args:
        rows: Key -> values of shape (N,), or a tuple (numerator, denominator) of shape (N,) each; NaN in rows that do
            not count.
        medians: Keys, with or without their bucket, whose statistic is the median instead of the mean.
        confidence: Between 0.5 and 0.9999.
        resamples: Bootstrap resamples.
        seed: Same seed, same intervals.

    Raises:
        ValueError: If keys differ in their number of rows, or ``medians`` holds something else.

    >>> interval = intervals({"precision@1": [0, 0, 1, 1, 1, float("nan")]})["precision@1"]
    >>> interval.value, interval.n, interval.method
    (0.6, 5, 'BCa bootstrap of rows')

    Source: DiCiccio and Efron, Bootstrap confidence intervals, Statistical Science 11 (1996), sections 2 and 4.
    """
    caller = "intervals"
    medians = check_names(caller, "medians", medians, rows)
    check_count(caller, "resamples", resamples)
    check_count(caller, "seed", seed, minimum=0)
    check_number(caller, "confidence", confidence, 0.5, 0.9999)
    keys = read_rows(caller, "rows", rows, medians)
    with np.errstate(invalid="ignore", divide="ignore"):
        statistics = {key: statistics_of([side], side.counted)[0] for key, side in keys.items()}
        draws = bootstrap(list(statistics.values()), resamples, seed)
        return {
            key: interval_of(statistic, draw, int(keys[key].counted.sum()), confidence)
            for (key, statistic), draw in zip(statistics.items(), draws, strict=True)
        }
