"""Simulated error rates: tests reject true null hypotheses, and intervals miss the
truth, as often as they state.
"""

import numpy as np
import pytest
import scipy.stats

from benchmarks.claims import families, moving, settings, simulate
from tailmetrics.significance import compare, correct, intervals

pytestmark = pytest.mark.slow


def binomial_bounds(rate, trials):
    """Return the counts that a rate leaves with probability below 0.001."""
    return scipy.stats.binom.ppf([0.0005, 0.9995], trials, rate)


def null_runs(num_keys, num_rows):
    """Return two runs whose rows are exchangeable, one independent data set a key."""
    rng = np.random.default_rng(5)
    row = rng.gamma(1.0, size=(num_keys, num_rows))
    values = row + rng.exponential(size=(2, num_keys, num_rows))
    return [{f"{key}": values[run, key] for key in range(num_keys)} for run in range(2)]


def test_medians_are_rejected_at_most_at_their_level():
    """Without a difference at most 5 % of 1,200 comparisons of medians are rejected,
    within the binomial bound; medians of whole numbers are discrete.
    """
    first, second = (
        {key: np.floor(3 * rows) for key, rows in run.items()}
        for run in null_runs(1200, 150)
    )
    comparisons = compare(
        {"a": first, "b": second}, medians=first, correction="none", resamples=199
    )
    rejected = sum(comparison.p.randomisation <= 0.05 for comparison in comparisons)
    assert rejected <= binomial_bounds(0.05, len(comparisons))[1]


def test_family_wise_error_rate_of_holm():
    """Holm over 20 true null hypotheses rejects any in at most 5 % of 100 families,
    within the binomial bound; uncorrected p-values reject more.
    """
    first, second = null_runs(num_keys=2000, num_rows=60)
    comparisons = compare({"a": first, "b": second}, correction="none", resamples=1999)
    p_values = np.array(
        [comparison.p.randomisation for comparison in comparisons]
    ).reshape(100, 20)
    num_rejected = sum(
        min(correct(list(family), "holm")) <= 0.05 for family in p_values
    )
    num_rejected_uncorrected = sum(min(family) <= 0.05 for family in p_values)
    assert num_rejected <= binomial_bounds(0.05, 100)[1] < num_rejected_uncorrected


@pytest.mark.parametrize("differing", [1.0, 0.08])
def test_family_wise_error_rate_of_all_keys_of_a_comparison(differing):
    """Of 100 comparisons of equal models by ten means, ratios and averages, at most 5 %
    reject any key, within the binomial bound.
    """
    assert 100 * families(60, differing, 100, 199) <= binomial_bounds(0.05, 100)[1]


SMALLEST = {
    setting.name: setting
    for setting in reversed(list(settings()))
    if "1,000 labels" not in setting.name
}


@pytest.mark.parametrize("name", SMALLEST)
def test_settings_of_every_kind_keep_the_error_rates(name):
    """At the smallest number of rows of each setting, tests of 100 pairs reject at most
    6 %, and 90 % of intervals hold the truth, within the binomial bound.
    """
    rates = simulate(SMALLEST[name], 100, resamples=199)
    assert 100 * rates.rejected <= binomial_bounds(0.06, 100)[1]
    for coverage in (rates.difference, rates.resampled, rates.quick):
        assert np.isnan(coverage) or 100 * coverage >= binomial_bounds(0.9, 100)[0]


@pytest.mark.parametrize("rows", [60, 300, 1000])
def test_reports_say_where_averages_over_labels_depend_on_the_number_of_rows(rows):
    """At least 80 % of 100 samples have the note on the number of rows if there is a
    bias, and at most 10 % if not.

    Where there is one, it exceeds a quarter of half the interval. That of macro F1 at
    1,000 rows, a tenth, counts as none.
    """
    for name, (truth, mean, bound, share_held, _, share_noted) in moving(
        rows, 100
    ).items():
        if np.isnan(share_held):
            # the interval is refused: fewer than 10 labels have a hit
            assert rows == 60
        elif name == "macro recall@3" or (rows == 1000 and name.startswith("macro F1")):
            assert share_noted <= 0.1, name
        else:
            assert share_noted >= 0.8, name
            assert abs(bound - truth) < abs(mean - truth), name


def test_interval_of_the_difference_of_two_gaps_holds_the_truth():
    """95 % intervals of 800 differences between gaps of 100 and of 300 rows hold the
    truth as often as they state.
    """
    rng = np.random.default_rng(6)
    draw = next(
        setting.draw for setting in settings() if setting.name.startswith("gap")
    )
    gaps_by_rows = []
    for rows in (100, 300):
        values, gaps = {}, {}
        for number in range(800):
            (sample,), _ = draw(rng, rows)
            values.update(
                {f"{number}/{key}": key_values for key, key_values in sample.items()}
            )
            gaps[str(number)] = [f"{number}/head", f"{number}/tail"]
        estimates = intervals(values, gaps=gaps, resamples=0)
        gaps_by_rows.append([estimates[name] for name in gaps])
    differences = [first.minus(last) for first, last in zip(*gaps_by_rows, strict=True)]
    estimates = sum(
        interval.low <= 0 <= interval.high for interval in differences
    )  # both gaps are of the same kind of rows
    low, high = scipy.stats.binom.ppf([0.0005, 0.9995], 800, 0.95)
    assert low <= estimates <= high
