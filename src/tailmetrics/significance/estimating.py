"""Confidence intervals of one run, by resampling rows."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import ArrayLike

from tailmetrics._checks import check_count, check_number
from tailmetrics.significance._clusters import read_clusters
from tailmetrics.significance._estimate import Estimate, drawn_for
from tailmetrics.significance._resampling import groups
from tailmetrics.significance._row_values import RowValues, check_names, covers, read_rows
from tailmetrics.significance.interval import Interval


def intervals(
    rows: RowValues,
    *,
    clusters: ArrayLike | None = None,
    medians: Collection[str] = (),
    unbounded: Collection[str] = (),
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> dict[str, Interval]:
    """Return the value of each key of one run with its confidence interval.

    Rows, or whole clusters of rows, are taken for a random sample of all there could be, each independent of the
    others. How an interval is made, and how often it held the truth in simulation, is in docs/significance.md:

    - Means and ratios of sums: the symmetric studentised bootstrap, where a ratio is taken of the sums over each
      resample; with fewer than 10 rows or clusters there is no interval.
    - Medians: the percentile bootstrap, also from 10 on.
    - Means of independent rows that are all 0 or 1: Clopper and Pearson's exact interval, for any number of rows.
    - All rows or clusters agree: resamples would too. What is the same in 50 rows need not be in all there could be:
      the interval leaves room for the share of others that Clopper and Pearson give for 0 of 50.

    Args:
        rows: Key -> values of shape (N,), or a tuple (numerator, denominator) of shape (N,) each; NaN in rows that do
            not count.
        clusters: Shape (N,), the cluster of each row, such as its user or patient, where several rows of one are not
            independent; None where every row stands alone.
        medians: Keys, with or without their bucket, whose statistic is the median instead of the mean.
        unbounded: Keys, with or without their bucket, whose values can lie outside [0, 1], such as DCG or ranks, even
            if none of these rows' does.
        confidence: Between 0.5 and 0.9999.
        resamples: Bootstrap resamples.
        seed: Same seed, same intervals.

    Raises:
        ValueError: If keys differ in their number of rows, there is not one cluster per row, or ``medians`` or
            ``unbounded`` holds something else.

    >>> interval = intervals({"precision@1": [0, 0, 1, 1, 1, float("nan")]})["precision@1"]
    >>> interval.value, interval.n, interval.method
    (0.6, 5, 'Clopper-Pearson')
    >>> intervals({"recall@5": [0.5, 0.25, 1.0]})["recall@5"].method
    'none: fewer than 10 rows'

    Source: Hall, On symmetric bootstrap confidence intervals, JRSS B 50 (1988); Davison and Hinkley, Bootstrap methods
    and their application (1997), section 5.2, for the studentised bootstrap, and section 3.8 for clusters.
    """
    caller = "intervals"
    medians = check_names(caller, "medians", medians, rows)
    unbounded = check_names(caller, "unbounded", unbounded, rows)
    check_count(caller, "resamples", resamples)
    check_count(caller, "seed", seed, minimum=0)
    check_number(caller, "confidence", confidence, 0.5, 0.9999)
    keys = read_rows(caller, "rows", rows, medians)
    num_rows = next(iter(keys.values())).numerator.size
    together = read_clusters(caller, clusters, num_rows)
    found: list[Interval] = []
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        estimates = (Estimate([side], together, not covers(unbounded, key)) for key, side in keys.items())
        for group in groups(estimates, lambda one: one.columns, max(num_rows, resamples)):
            draws = drawn_for(group, resamples, seed)
            found += [estimate.interval(draw, confidence) for estimate, draw in zip(group, draws, strict=True)]
    return dict(zip(keys, found, strict=True))
