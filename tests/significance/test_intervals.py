"""Confidence intervals of single runs: agreement with scipy, medians against plain medians."""

import math

import numpy as np
import pytest
import scipy.stats

from tailmetrics.significance import compare, intervals
from tailmetrics.significance.resampling import statistics_of_sides, total
from tailmetrics.significance.rows import Term, read_clusters


def plain_limits(terms, resamples, rng):
    """The symmetric studentised interval in plain steps: of each resample the ratios, and from its rows the error.

    Args:
        terms: Sign, numerators and denominators of each ratio.
    """

    def value_and_error(rows):
        parts = [(sign, numerator[rows], denominator[rows]) for sign, numerator, denominator in terms]
        ratios = [numerator.sum() / denominator.sum() for _, numerator, denominator in parts]
        influence = sum(
            sign * (numerator - ratio * denominator) / denominator.sum()
            for ratio, (sign, numerator, denominator) in zip(ratios, parts, strict=True)
        )
        return sum(sign * ratio for ratio, (sign, *_) in zip(ratios, parts, strict=True)), math.hypot(*influence)

    size = terms[0][1].size
    value, error = value_and_error(np.arange(size))
    drawn = (value_and_error(rng.integers(size, size=size)) for _ in range(resamples))
    reach = np.quantile([abs(estimate - value) / spread if spread else math.inf for estimate, spread in drawn], 0.95)
    return value, value - reach * error, value + reach * error


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mean", "ratio", "difference of means", "difference of ratios"])
def test_intervals_agree_with_a_studentised_bootstrap_in_plain_loops(name):
    """Over skewed rows both ends are those of plain loops over resampled rows, within a thirtieth of the interval."""
    rng = np.random.default_rng(2)
    a, b, c, d = rng.exponential(size=(4, 60)) + np.array([[0], [1], [0], [1]])
    ones = np.ones(60)
    terms = {
        "mean": [(1, a, ones)],
        "ratio": [(1, a, b)],
        "difference of means": [(1, a, ones), (-1, c, ones)],
        "difference of ratios": [(1, a, b), (-1, c, d)],
    }[name]
    rows = [
        {"k": numerator if denominator is ones else (numerator, denominator)} for _, numerator, denominator in terms
    ]
    if len(rows) == 2:
        interval = compare({"old": rows[1], "new": rows[0]}, resamples=20_000)[0].interval
    else:
        interval = intervals(rows[0], resamples=20_000)["k"]
    value, low, high = plain_limits(terms, 20_000, rng)
    assert interval.value == pytest.approx(value)
    assert [interval.low, interval.high] == pytest.approx([low, high], abs=(high - low) / 30)
    assert interval.method == "studentised bootstrap"


def test_hit_rates_have_the_interval_of_wilson():
    """Rows of 0 and 1: scipy's interval of Wilson, from a single row on."""
    for num_ones, rows in ((0, 1), (1, 2), (0, 50), (50, 50), (3, 40), (200, 1000)):
        values = np.arange(rows) < num_ones
        for confidence in (0.95, 0.99):
            interval = intervals({"hit_rate@5": values}, confidence=confidence)["hit_rate@5"]
            peer = scipy.stats.binomtest(num_ones, rows).proportion_ci(confidence, method="wilson")
            assert [interval.low, interval.high] == pytest.approx([peer.low, peer.high], abs=1e-9)
            assert interval.method == "Wilson"


def test_few_rows_that_differ_do_not_make_everything_possible():
    """One or two rows of 500 differ: the exact interval of their share, to either side of what the others have."""
    values = np.full(500, 0.5)
    values[7] = 0.75
    upper = [scipy.stats.binomtest(count, 500).proportion_ci(0.95, method="exact").high for count in (0, 1)]
    interval = intervals({"k": values}, resamples=400)["k"]
    assert interval.method == "Clopper-Pearson, few differ"
    assert [interval.low, interval.high] == pytest.approx([0.5 - 0.5 * upper[0], 0.5 + 0.5 * upper[1]])
    (difference,) = compare({"a": {"k": np.full(500, 0.5)}, "b": {"k": values}}, resamples=400)
    ends = difference.interval.low, difference.interval.high
    assert ends == pytest.approx((-upper[0], upper[1]))


def test_rows_that_agree_leave_room_for_others():
    """0 hits of 50 rows are compatible with 1 - 0.025^(1/50) = 7.1 % of hits; of 1s and of any share, likewise."""
    others = 1 - 0.025 ** (1 / 50)
    half, one, zero = np.full(50, 0.5), np.ones(50), np.zeros(50)
    estimates = intervals({"half": half, "ones": (3 * one, 3 * one), "zeros": (zero, 2 * one)})
    expected = {"half": (0.5 - 0.5 * others, 0.5 + 0.5 * others), "ones": (1 - others, 1), "zeros": (0, others)}
    for key, ends in expected.items():
        assert [estimates[key].low, estimates[key].high] == pytest.approx(ends)
        assert estimates[key].method == "Clopper-Pearson, all agree"
    (wins,) = compare({"old": {"k": zero}, "new": {"k": half}}, resamples=100)
    assert [wins.interval.low, wins.interval.high] == pytest.approx([0.5 - 1.5 * others, 0.5 + 0.5 * others])


def test_heavy_rows_count_for_fewer():
    """Where 2 of 50 rows have nearly all the weight, 0 hits say hardly more than 0 of 2 rows."""
    weight = np.where(np.arange(50) < 2, 1e6, 1.0)
    interval = intervals({"psp@1": (np.zeros(50), weight)})["psp@1"]
    assert interval.high == pytest.approx(1 - 0.025 ** (1 / 2), abs=1e-4)


def test_what_is_unbounded_has_no_interval_where_all_rows_agree():
    """Equal ranks, and a DCG that is 0 in every row, could be anything elsewhere; said of a key or seen in a value."""
    rows = {"dcg@5/decile_1": np.zeros(50), "hit_rate@5": np.zeros(50), "rank": np.full(50, 3.0)}
    estimates = intervals(rows, unbounded=["dcg@5"])
    assert math.isnan(estimates["dcg@5/decile_1"].low)
    assert math.isnan(estimates["rank"].high)
    assert estimates["rank"].reason == "all rows agree"
    assert estimates["hit_rate@5"].high > 0
    (equal,) = compare({"a": {"k": np.zeros(50)}, "b": {"k": np.zeros(50)}}, unbounded=["k"], resamples=100)
    assert (equal.interval.reason, equal.p.randomisation) == ("all rows agree", 1)


def test_no_end_lies_beyond_what_a_row_can_be():
    """Four rows in 400 with a value of no known bound: the interval is cut where resamples end, at 0."""
    interval = intervals({"dcg@5/decile_1": [0.25, 0.25, 0.5, 0.5, *[0.0] * 396]}, unbounded=["dcg@5"])[
        "dcg@5/decile_1"
    ]
    assert interval.low == 0
    assert interval.value < interval.high < 0.02


@pytest.mark.parametrize("differing", [1, 2])
def test_one_or_two_rows_that_differ_have_no_interval_up_to_the_bounds(differing):
    """Of 1,500 rows one or two differ, which e^-2 = 14 % of resamples leave out: nothing tells a ratio's error."""
    few_hits = np.zeros(1500)
    few_hits[:differing] = 1
    ones, none = np.ones(1500), np.zeros(1500)
    models = [
        {"micro": (2 * hits, hits + ones), "dcg@5": 1.7 * hits, "head": ones * 0.5, "tail": (hits, hits + ones)}
        for hits in (none, few_hits)
    ]
    gaps = {"gap": ["head", "tail"]}
    compared = compare(dict(zip("ab", models, strict=True)), gaps=gaps, unbounded=["dcg@5"], resamples=500)
    by_key = {comparison.key: comparison for comparison in compared}
    for key in ("micro", "dcg@5", "tail", "gap"):
        assert math.isnan(by_key[key].interval.low), key
        assert math.isnan(by_key[key].interval.high), key
        assert by_key[key].interval.reason == "too few rows differ"
        assert by_key[key].p.randomisation == 0.5**differing


@pytest.mark.parametrize("confidence", [0.4, 1, 1.5])
def test_a_confidence_that_no_interval_has_is_refused(confidence):
    """Below a half, and from 1 on."""
    with pytest.raises(ValueError, match=f"intervals: confidence={confidence}"):
        intervals({"hit_rate@5": np.ones(20)}, confidence=confidence)


def test_nine_rows_have_no_bootstrap():
    """Ten rows have an interval, nine have none, and the method says why."""
    values = np.random.default_rng(6).random((2, 10))
    for kind in ("mean", "ratio", "median"):
        medians = ["k"] if kind == "median" else []

        def rows(row_values, kind=kind):
            return {"k": (row_values, row_values + 1)} if kind == "ratio" else {"k": row_values}

        few, enough = (intervals(rows(values[0, :n]), medians=medians)["k"] for n in (9, 10))
        assert math.isnan(few.low)
        assert few.reason == "fewer than 10 rows"
        assert few.value == pytest.approx(enough.value, abs=0.5)
        assert enough.low < enough.value < enough.high
        nine, ten = (
            compare({"b": rows(values[1, :n]), "a": rows(values[0, :n])}, medians=medians, resamples=200)[0]
            for n in (9, 10)
        )
        assert math.isnan(nine.interval.high)
        assert 0 < nine.p.randomisation <= 1
        assert ten.interval.low < ten.interval.high


def test_median_is_the_plain_median_of_every_resample():
    """Medians read from sums, near the middle alone, are those of the repeated rows: ties, odd and even, clusters."""
    rng = np.random.default_rng(3)
    codes = np.sort(rng.geometric(0.05, 300) % 25)
    in_clusters = rng.geometric(0.05, 300).astype(float) + 3 * codes
    for values, codes_of_rows in (
        (rng.geometric(0.05, 600).astype(float), None),
        (rng.random(151), None),
        (rng.random(2000), None),
        (np.array([2.0, 1, 1, 7]), None),
        (in_clusters, codes),
    ):
        counted, clusters = rng.random(values.size) < 0.8, read_clusters("test", codes_of_rows, values.size)
        counted[0] = True
        (median,) = statistics_of_sides("median", [[Term(1, values, np.ones(values.size))]], [counted], clusters)
        assert total(median) == np.median(values[counted])
        units = values.size if clusters is None else clusters.number
        weights = rng.multinomial(units, np.full(units, 1 / units), size=200)
        sums = weights @ np.stack(median.columns, axis=1)
        for weight, median_of_resample in zip(weights, median.read(sums), strict=True):
            repeats = weight if clusters is None else weight[clusters.codes]
            repeated = np.repeat(values[counted], repeats[counted])
            assert median_of_resample == np.median(repeated) if repeated.size else math.isnan(median_of_resample)


def test_median_interval():
    """A run of k-for-recall has the median with a percentile interval around it, also under its buckets' keys."""
    k = np.random.default_rng(4).geometric(0.1, 301)
    estimates = intervals({"median_k_for_recall@0.8/decile_1": k}, medians=["median_k_for_recall@0.8"])
    (interval,) = estimates.values()
    assert interval.value == np.median(k)
    assert interval.low <= interval.value <= interval.high
    assert interval.low < interval.high
    assert interval.method == "percentile bootstrap"


def test_rows_without_a_denominator_do_not_count_as_rows():
    """Of 50 rows nine have something to find in a bucket: nine rows, too few to resample."""
    hits = np.random.default_rng(7).binomial(3, 0.4, 50).astype(float)
    for number, reason in ((9, "fewer than 10 rows"), (10, None)):
        there = np.arange(50) < number
        interval = intervals({"micro_recall@5/decile_1": (hits * there, 3.0 * there)})["micro_recall@5/decile_1"]
        assert (interval.n, interval.reason) == (50, reason)
        assert interval.value == pytest.approx(hits[:number].mean() / 3)


def test_no_rows_have_no_value():
    """Without a row that counts, or a denominator above 0, there is neither value nor interval."""
    estimates = intervals({"one": [math.nan, 2.0], "none": [math.nan, math.nan], "zero": ([0, 0], [0, 0])})
    assert (estimates["one"].value, estimates["one"].n, estimates["one"].reason) == (2, 1, "all rows agree")
    assert math.isnan(estimates["one"].low)
    assert math.isnan(estimates["none"].value)
    assert (estimates["zero"].n, estimates["zero"].reason) == (2, "no finite value")
    assert math.isnan(estimates["zero"].value)


@pytest.mark.parametrize("resamples", [0, 999])
def test_a_gap_is_no_more_certain_than_its_ends(resamples):
    """A head of 9 rows has too few rows for an interval, and so has its gap to a tail of 100 rows; 10 rows have one."""
    rng, nan = np.random.default_rng(0), np.full(100, math.nan)
    tail = np.concatenate([nan, rng.random(100)])
    for number, reason in ((9, "fewer than 10 rows"), (10, None)):
        head = np.concatenate([rng.random(number), nan, nan])[:200]
        rows = {"recall@5/head": head, "recall@5/tail": tail}
        interval = intervals(rows, gaps={"gap": list(rows)}, resamples=resamples)["gap"]
        assert interval.reason == reason
        assert math.isnan(interval.low) == (reason is not None)


@pytest.mark.parametrize("resamples", [0, 500])
def test_a_gap_is_as_unsure_as_an_end_whose_rows_agree(resamples):
    """180 of 300 rows of the head are hit, and none of 30 rows of the tail, of which up to .1135 may be: so may the gap."""
    head = np.r_[np.ones(180), np.zeros(120), np.full(30, np.nan)]
    tail = np.r_[np.full(300, np.nan), np.zeros(30)]
    interval = intervals({"head": head, "tail": tail}, gaps={"gap": ["head", "tail"]}, resamples=resamples)["gap"]
    head_ends, tail_ends = (
        scipy.stats.binomtest(*counts).proportion_ci(method="wilson") for counts in ((180, 300), (0, 30))
    )
    assert interval.low == pytest.approx(0.6 - np.hypot(0.6 - head_ends.low, tail_ends.high))
    assert interval.high == pytest.approx(head_ends.high)
    assert (interval.n, interval.method) == (330, "from the intervals of both ends")


@pytest.mark.parametrize("resamples", [0, 300])
def test_clusters_of_very_unequal_sizes_give_no_interval(resamples):
    """Two of 30 clusters hold 60 rows each, the others one: (Σw)² / Σw² = 148² / 7228 = 3.03 of them. Equal ones give one."""
    sizes = [60, 60, *[1] * 28]
    rows = np.random.default_rng(0).random(sum(sizes))
    interval = intervals({"k": rows}, clusters=np.repeat(np.arange(30), sizes), resamples=resamples)["k"]
    assert interval.ends == ()
    assert interval.reason == "a few large clusters hold most rows; the effective number of clusters is 3.0"
    assert intervals({"k": rows[:120]}, clusters=np.arange(120) // 4, resamples=resamples)["k"].ends
