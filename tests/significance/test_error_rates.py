"""Simulated error rates: tests reject true null hypotheses, and intervals miss the truth, as often as they say."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from benchmarks.significance import moving, settings, simulate
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
    """Without a difference at most 5 % of 1,200 data sets, within the binomial bound: medians of whole numbers are discrete."""
    first, second = ({key: np.floor(3 * rows) for key, rows in run.items()} for run in null_runs(1200, 150))
    comparisons = compare({"a": first, "b": second}, medians=first, correction="none", resamples=199)
    rejected = sum(found.p.randomisation <= 0.05 for found in comparisons)
    assert rejected <= binomial_bounds(0.05, len(comparisons))[1]


def test_family_wise_error_rate():
    """Holm over 20 true null hypotheses rejects any in at most 5 % of 100 families, within the binomial bound."""
    first, second = null_runs(num_keys=2000, num_rows=60)
    comparisons = compare({"a": first, "b": second}, correction="none", resamples=1999)
    families = np.array([found.p.randomisation for found in comparisons]).reshape(100, 20)
    wrong = sum(min(correct(list(family), "holm")) <= 0.05 for family in families)
    uncorrected = sum(min(family) <= 0.05 for family in families)
    assert wrong <= binomial_bounds(0.05, 100)[1] < uncorrected


def of_measure(shown, measure):
    """Return what draws pairs of models that were drawn before, of another measure of what they show."""
    pairs = iter(shown)
    return lambda rng, rows: tuple({"k": replace(model["k"], measure=measure)} for model in next(pairs))


def test_settings_of_every_kind_keep_the_error_rates():
    """At the smallest number of rows of each kind, tests reject 5 %, and 95 % of intervals hold the truth.

    Of 400 pairs; of 120 where each row draws from 1,000 labels: coverage, Gini index and entropy of the same lists.
    """
    first = {setting.name: setting for setting in reversed(list(settings()))}
    shown, rng = [], np.random.default_rng(1)
    for name, setting in first.items():
        pairs = 120 if "1,000 labels" in name else 400
        if pairs == 120:
            shown = shown or [setting.draw(rng, setting.rows) for _ in range(pairs)]
            setting = replace(setting, draw=of_measure(shown, name.split()[0].lower()))
        low, high = binomial_bounds(0.05, pairs)
        rates = simulate(setting, pairs, resamples=299)
        assert low * 0.7 <= pairs * rates.randomisation <= high, name
        for held in (rates.difference, rates.resampled, rates.quick):
            assert pairs - high * 1.1 <= pairs * held, name


@pytest.mark.parametrize("rows", [60, 300, 1000])
def test_reports_say_where_averages_over_labels_depend_on_the_number_of_rows(rows):
    """In .8 of 100 samples where the bias is above a quarter of half the interval, in .1 where there is none.

    At 1,000 rows the bias of macro F1 is a tenth of half the interval.
    """
    for name, (truth, mean, many, *_, said) in moving(rows, 100).items():
        if name == "macro recall@3" or (rows == 1000 and name.startswith("macro F1")):
            assert said <= 0.1, name
        else:
            assert said >= 0.8, name
            assert abs(many - truth) < abs(mean - truth), name


def test_the_difference_of_two_gaps_of_other_rows_is_held_by_its_interval():
    """95 % intervals of 800 differences, of the gaps of 100 and of 300 rows, hold the truth as often as they say."""
    rng, (draw,) = np.random.default_rng(6), {one.draw for one in settings() if one.name.startswith("gap")}
    drawn = {rows: [draw(rng, rows)[0] for _ in range(800)] for rows in (100, 300)}
    found = []
    for samples in drawn.values():
        sides = {f"{place}/{key}": values for place, one in enumerate(samples) for key, values in one.items()}
        gaps = {f"{place}": [f"{place}/head", f"{place}/tail"] for place in range(len(samples))}
        of_rows = intervals(sides, gaps=gaps, resamples=0)
        found.append([of_rows[name] for name in gaps])
    differences = [first.minus(last) for first, last in zip(*found, strict=True)]
    held = sum(one.low <= 0 <= one.high for one in differences)  # both gaps are of the same kind of rows
    low, high = scipy.stats.binom.ppf([0.0005, 0.9995], 800, 0.95)
    assert low <= held <= high
