"""Simulated error rates: tests reject true null hypotheses, and intervals miss the truth, as often as they say."""

import numpy as np
import pytest
import scipy.stats

from benchmarks.significance import settings, simulate
from tailmetrics.significance import compare, correct, intervals

pytestmark = pytest.mark.slow


def binomial_bounds(rate, trials):
    """Return the counts that a rate leaves with probability below 0.001."""
    return scipy.stats.binom.ppf([0.0005, 0.9995], trials, rate)


def null_runs(kind, num_keys, num_rows):
    """Return two runs whose rows are exchangeable, one independent data set a key."""
    rng = np.random.default_rng(5)
    shape = (2, num_keys, num_rows)
    row = rng.gamma(1.0, size=shape[1:])
    if kind == "mean":
        values = row + rng.exponential(size=shape)
        return [{f"{key}": values[run, key] for key in range(num_keys)} for run in range(2)]
    if kind == "median":
        values = np.floor(3 * row + rng.exponential(5, size=shape))
        return [{f"{key}": values[run, key] for key in range(num_keys)} for run in range(2)]
    denominator = 1 + rng.poisson(3 * row, size=shape)
    numerator = rng.binomial(denominator, 0.3)
    return [{f"{key}": (numerator[run, key], denominator[run, key]) for key in range(num_keys)} for run in range(2)]


@pytest.mark.parametrize("kind", ["mean", "ratio", "median"])
def test_false_positive_rate(kind):
    """Without a difference the test rejects at its level: 5 % of 1,200 data sets within binomial bounds (p < 0.001).

    The median of whole numbers is discrete, so its test may reject less often, never more.
    """
    first, second = null_runs(kind, num_keys=1200, num_rows=150)
    medians = first if kind == "median" else ()
    resamples = 199 if kind == "median" else 999
    comparisons = compare({"a": first, "b": second}, medians=medians, correction="none", resamples=resamples)
    low, high = binomial_bounds(0.05, len(comparisons))
    rejected = sum(found.p.randomisation <= 0.05 for found in comparisons)
    assert rejected <= high
    assert kind == "median" or rejected >= low


def test_family_wise_error_rate():
    """Holm over 20 true null hypotheses rejects any in at most 5 % of 100 families, within the binomial bound."""
    first, second = null_runs("mean", num_keys=2000, num_rows=60)
    comparisons = compare({"a": first, "b": second}, correction="none", resamples=1999)
    families = np.array([found.p.randomisation for found in comparisons]).reshape(100, 20)
    wrong = sum(min(correct(list(family), "holm")) <= 0.05 for family in families)
    uncorrected = sum(min(family) <= 0.05 for family in families)
    assert wrong <= binomial_bounds(0.05, 100)[1] < uncorrected


def test_coverage_of_the_ratio():
    """95 % intervals of a ratio of correlated sums hold the true ratio; those of the mean of ratios would miss it."""
    rng = np.random.default_rng(1)
    denominator = 1 + rng.poisson(3, (2000, 400))
    share = np.where(denominator > 3, 0.2, 0.6)
    numerator = rng.binomial(denominator, share)
    counts = np.arange(40)
    weight = scipy.stats.poisson.pmf(counts, 3) * (1 + counts)
    truth = (weight * np.where(1 + counts > 3, 0.2, 0.6)).sum() / weight.sum()
    rows = {f"{key}": (numerator[key], denominator[key]) for key in range(2000)}
    means = {key: numerators / denominators for key, (numerators, denominators) in rows.items()}
    low, high = binomial_bounds(0.95, 2000)
    covered = [
        sum(found.low <= truth <= found.high for found in intervals(table, resamples=999).values())
        for table in (rows, means)
    ]
    assert low <= covered[0] <= high
    assert covered[1] < low


def test_settings_of_every_kind_keep_the_error_rates():
    """Of 600 pairs of each kind, the smallest number of rows: tests reject 5 %, and 95 % of intervals hold the truth."""
    first = {setting.name: setting for setting in reversed(list(settings()))}
    low, high = binomial_bounds(0.05, 600)
    for name, setting in first.items():
        rates = simulate(setting, pairs=600, resamples=299)
        assert low * 0.7 <= 600 * rates.randomisation <= high, name
        for held in (rates.difference, rates.resampled, rates.quick):
            assert 600 - high * 1.1 <= 600 * held, name
