"""Intervals of shares without resampling: of rows that are 0 or 1, and where all rows or all but a few agree."""

from __future__ import annotations

import numpy as np

from tailmetrics.significance._statistics import Array


def clopper_pearson(ones: int, rows: int, confidence: float) -> tuple[float, float]:
    """Return the exact interval of a probability, of which ``ones`` of ``rows`` trials were a success.

    Both ends lie in [0, 1]. It holds the probability in at least ``confidence`` of samples, for any number of trials.

    >>> [round(end, 4) for end in clopper_pearson(0, 50, 0.95)]
    [0.0, 0.0711]

    Source: Clopper and Pearson, Biometrika 26 (1934).
    """
    from scipy.special import betaincinv  # tailmetrics.significance is imported without the extras

    tail = (1 - confidence) / 2
    low = float(betaincinv(ones, rows - ones + 1, tail)) if ones else 0.0
    high = float(betaincinv(ones + 1, rows - ones, 1 - tail)) if ones < rows else 1.0
    return low, high


def around_agreement(value: float, bounds: tuple[float, float], units: float, confidence: float) -> tuple[float, float]:
    """Return an interval of a mean whose every unit is ``value``, though all within ``bounds`` would be possible.

    The share of units that are something else is at most what Clopper and Pearson give for 0 of ``units``, and each of
    these may lie at either bound. With ``units`` 0 hits of 50 this is their interval itself.

    >>> [round(end, 4) for end in around_agreement(0.0, (0.0, 1.0), 50, 0.95)]
    [0.0, 0.0711]

    Source: the effective number of units in an exact interval: Korn and Graubard, Survey Methodology 24 (1998).
    """
    others = 1 - ((1 - confidence) / 2) ** (1 / units)
    return value - (value - bounds[0]) * others, value + (bounds[1] - value) * others


def around_most(values: Array, bounds: tuple[float, float], confidence: float) -> tuple[float, float]:
    """Return an interval of a mean of rows of which most have one value, the middle one.

    The share of rows above it is at most the upper end of Clopper and Pearson's interval, and each of them may lie at
    the upper bound; below it alike. So it holds the mean in at least ``confidence`` of samples.

    >>> rows = np.zeros(100)
    >>> rows[0] = -0.25
    >>> [round(end, 4) for end in around_most(rows, (-1.0, 1.0), 0.95)]
    [-0.0545, 0.0362]
    """
    middle = float(np.median(values))
    ones = int((values < middle).sum()), int((values > middle).sum())
    below, above = (clopper_pearson(some, values.size, confidence)[1] for some in ones)
    return middle - (middle - bounds[0]) * below, middle + (bounds[1] - middle) * above
