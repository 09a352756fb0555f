"""One confidence interval, and how it is read from bootstrap values."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

import numpy as np

from tailmetrics.significance._statistics import Array, Statistic


@dataclass(frozen=True)
class Interval:
    """A number with the range of values that the rows are compatible with.

    Attributes:
        value: The mean, ratio of sums or median, or a difference of two.
        low: Lower end; NaN with fewer than two rows.
        high: Upper end; NaN with fewer than two rows.
        n: Rows that count.
        confidence: Share of samples whose interval is to hold the true value.
        method: How it was found.
    """

    value: float
    low: float
    high: float
    n: int
    confidence: float
    method: str


def interval_of(statistic: Statistic, draws: Array, n: int, confidence: float) -> Interval:
    """Return the interval of a statistic over ``n`` rows from its bootstrap values; undefined ones are left out."""
    value, influence = statistic.value(), statistic.influence()
    method = f"{'percentile' if influence is None else 'BCa'} bootstrap of rows"
    draws = draws[np.isfinite(draws)]
    if n < 2 or not draws.size or not np.isfinite(value):
        return Interval(value, nan, nan, n, confidence, method)
    levels = np.array([(1 - confidence) / 2, (1 + confidence) / 2])
    if influence is not None:
        levels = _bca_levels(levels, draws, value, influence)
    low, high = np.quantile(draws, levels)
    return Interval(value, float(low), float(high), n, confidence, method)


def _bca_levels(levels: Array, draws: Array, value: float, influence: Array) -> Array:
    """Return the quantiles of the draws to read off: corrected for median bias and for skewness."""
    from scipy.special import ndtr, ndtri  # tailmetrics.significance is imported without the extras

    below = ((draws < value).mean() + (draws <= value).mean()) / 2
    bias = ndtri(np.clip(below, 1 / (draws.size + 1), draws.size / (draws.size + 1)))
    spread = (influence**2).sum() ** 1.5
    acceleration = (influence**3).sum() / (6 * spread) if spread > 0 else 0.0
    shifted = bias + ndtri(levels)
    return np.asarray(ndtr(bias + shifted / np.maximum(1 - acceleration * shifted, np.finfo(np.float64).tiny)))
