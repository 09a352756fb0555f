"""Confidence intervals of single runs: agreement with scipy, medians against plain medians."""

import math
from statistics import NormalDist

import numpy as np
import pytest
import scipy.stats

from tailmetrics.significance import compare, intervals
from tailmetrics.significance._statistics import Median, RatioOfSums, near_median
from tailmetrics.significance.interval import interval_of


def mean(values, axis=-1):
    return values.mean(axis)


def ratio(numerator, denominator, axis=-1):
    return numerator.sum(axis) / denominator.sum(axis)


def ratio_difference(a, b, c, d, axis=-1):
    return ratio(a, b, axis) - ratio(c, d, axis)


@pytest.mark.parametrize("statistic", [mean, ratio, ratio_difference])
def test_intervals_agree_with_scipy(statistic):
    """Over few, skewed rows both ends are those of scipy's BCa bootstrap, within a thirtieth of the interval."""
    rng = np.random.default_rng(2)
    a, b, c, d = rng.exponential(size=(4, 20)) ** [[3], [1], [1], [1]] + [[0], [1], [0], [1]]
    data = {mean: (a,), ratio: (a, b), ratio_difference: (c, d, a, b)}[statistic]
    peer = scipy.stats.bootstrap(data, statistic, paired=True, n_resamples=40_000, method="BCa", random_state=rng)
    if statistic is ratio_difference:
        found = compare({"old": {"k": (a, b)}, "new": {"k": (c, d)}}, resamples=40_000)[0].interval
    else:
        found = intervals({"k": a if statistic is mean else (a, b)}, resamples=40_000)["k"]
    low, high = peer.confidence_interval
    assert found.value == pytest.approx(statistic(*data))
    assert [found.low, found.high] == pytest.approx([low, high], abs=(high - low) / 30)


def test_bias_correction_by_hand():
    """With 60.5 % of the draws below the value, z0 = 0.2663: the symmetric case reads off the levels of 2 z0 ± 1.96."""
    statistic = RatioOfSums(np.array([50.0, 70.0]), np.ones(2))
    found = interval_of(statistic, np.arange(100.0), n=2, confidence=0.95)
    levels = [NormalDist().cdf(2 * 0.26631 + z) for z in (-1.959964, 1.959964)]
    assert [found.low / 99, found.high / 99] == pytest.approx(levels, abs=1e-5)


def test_median_is_the_plain_median_of_every_resample():
    """Medians read from sums, near the middle alone, are those of the repeated rows: few or many ties, odd and even."""
    rng = np.random.default_rng(3)
    for values in (rng.geometric(0.05, 600).astype(float), rng.random(151), np.array([2.0, 1, 1, 7])):
        counted = rng.random(values.size) < 0.8
        counted[0] = True
        median = Median(values, counted, near_median(values[counted]))
        assert median.value() == np.median(values[counted])
        weights = rng.multinomial(values.size, np.full(values.size, 1 / values.size), size=200)
        sums = weights @ np.stack(median.columns, axis=1)
        for weight, found in zip(weights, median.read(sums), strict=True):
            repeated = np.repeat(values[counted], weight[counted])
            assert found == np.median(repeated) if repeated.size else math.isnan(found)


def test_far_values_are_no_candidates():
    """Of 10,000 distinct values only those within 5 sqrt(n) = 500 ranks of the middle may be a median."""
    candidates = near_median(np.arange(10_000.0))
    assert len(candidates) == pytest.approx(1000, abs=2)
    assert (candidates.min(), candidates.max()) == (pytest.approx(4499, abs=1), pytest.approx(5500, abs=1))


def test_median_interval():
    """A run of k-for-recall has the median with a percentile interval around it, also under its buckets' keys."""
    k = np.random.default_rng(4).geometric(0.1, 301)
    found = intervals({"median_k_for_recall@0.8/decile_1": k}, medians=["median_k_for_recall@0.8"])
    (interval,) = found.values()
    assert interval.value == np.median(k)
    assert interval.low <= interval.value <= interval.high
    assert interval.low < interval.high
    assert interval.method == "percentile bootstrap of rows"


def test_too_few_rows_have_no_interval():
    """One row has a value without an interval, no row neither, equal rows an interval of no width."""
    found = intervals(
        {"one": [math.nan, 2.0], "none": [math.nan, math.nan], "equal": [3.0, 3.0], "zero": ([0, 0], [0, 0])}
    )
    assert (found["one"].value, found["one"].n) == (2, 1)
    assert math.isnan(found["one"].low)
    assert math.isnan(found["none"].value)
    assert (found["equal"].low, found["equal"].high) == (3, 3)
    assert math.isnan(found["zero"].value)


def test_confidence_widens():
    """A 99 % interval holds the 90 % interval of the same rows and seed."""
    rows = {"k": np.random.default_rng(5).random(100)}
    wide, narrow = (intervals(rows, confidence=confidence)["k"] for confidence in (0.99, 0.9))
    assert wide.low < narrow.low < narrow.high < wide.high
