"""Confidence intervals of single runs agree with scipy, and medians with plain
medians.
"""

import math

import numpy as np
import pytest
import scipy.stats

from tailmetrics.significance import compare, intervals
from tailmetrics.significance.resampling import statistics_of_sides, total
from tailmetrics.significance.rows import Term, read_clusters


def plain_limits(terms, resamples, rng):
    """Return the symmetric studentised interval in plain steps: ratios of each
    resample, and their error by its rows.

    Args:
        terms: Sign, numerators and denominators of each ratio.
    """

    def value_and_error(rows):
        parts = [
            (sign, numerator[rows], denominator[rows])
            for sign, numerator, denominator in terms
        ]
        ratios = [
            numerator.sum() / denominator.sum() for _, numerator, denominator in parts
        ]
        influence = sum(
            sign * (numerator - ratio * denominator) / denominator.sum()
            for ratio, (sign, numerator, denominator) in zip(ratios, parts, strict=True)
        )
        return sum(
            sign * ratio for ratio, (sign, *_) in zip(ratios, parts, strict=True)
        ), math.hypot(*influence)

    size = terms[0][1].size
    value, error = value_and_error(np.arange(size))
    resampled = (
        value_and_error(rng.integers(size, size=size)) for _ in range(resamples)
    )
    reach = np.quantile(
        [
            abs(estimate - value) / spread if spread else math.inf
            for estimate, spread in resampled
        ],
        0.95,
    )
    return value, value - reach * error, value + reach * error


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["mean", "ratio", "difference of means", "difference of ratios"]
)
def test_intervals_agree_with_a_studentised_bootstrap_in_plain_loops(name):
    """Both ends of a bootstrap interval of skewed rows are those of plain loops over
    resampled rows, within a thirtieth of the interval.
    """
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
        {"k": numerator if denominator is ones else (numerator, denominator)}
        for _, numerator, denominator in terms
    ]
    if len(rows) == 2:
        interval = compare({"old": rows[1], "new": rows[0]}, resamples=20_000)[
            0
        ].interval
    else:
        interval = intervals(rows[0], resamples=20_000)["k"]
    value, low, high = plain_limits(terms, 20_000, rng)
    assert interval.value == pytest.approx(value)
    assert [interval.low, interval.high] == pytest.approx(
        [low, high], abs=(high - low) / 30
    )
    assert interval.method == "studentised bootstrap"


def test_hit_rates_have_the_interval_of_wilson():
    """Rows of 0 and 1 have the interval of Wilson, as in scipy, from a single row
    on.
    """
    for num_ones, rows in ((0, 1), (1, 2), (0, 50), (50, 50), (3, 40), (200, 1000)):
        values = np.arange(rows) < num_ones
        for confidence in (0.95, 0.99):
            interval = intervals({"hit_rate@5": values}, confidence=confidence)[
                "hit_rate@5"
            ]
            peer = scipy.stats.binomtest(num_ones, rows).proportion_ci(
                confidence, method="wilson"
            )
            assert [interval.low, interval.high] == pytest.approx(
                [peer.low, peer.high], abs=1e-9
            )
            assert interval.method == "Wilson"


def test_one_row_that_differs_has_the_exact_interval_of_its_share():
    """If one row of 500 differs, the interval is the exact one of its share, to either
    side of the value of the other rows.
    """
    values = np.full(500, 0.5)
    values[7] = 0.75
    upper = [
        scipy.stats.binomtest(count, 500).proportion_ci(0.95, method="exact").high
        for count in (0, 1)
    ]
    interval = intervals({"k": values}, resamples=400)["k"]
    assert interval.method == "Clopper-Pearson, few differ"
    assert [interval.low, interval.high] == pytest.approx(
        [0.5 - 0.5 * upper[0], 0.5 + 0.5 * upper[1]]
    )
    (difference,) = compare(
        {"a": {"k": np.full(500, 0.5)}, "b": {"k": values}}, resamples=400
    )
    ends = difference.interval.low, difference.interval.high
    assert ends == pytest.approx((-upper[0], upper[1]))


def test_rows_that_agree_have_the_exact_interval_of_other_rows():
    """Rows that agree have the exact interval of a share of other rows: 0 hits of 50
    rows allow 1 - 0.025^(1/50) = 7.1 % of hits. Rows of 1 and of any share likewise.
    """
    largest_share = 1 - 0.025 ** (1 / 50)
    halves, ones, zeros = np.full(50, 0.5), np.ones(50), np.zeros(50)
    estimates = intervals(
        {"half": halves, "ones": (3 * ones, 3 * ones), "zeros": (zeros, 2 * ones)}
    )
    expected = {
        "half": (0.5 - 0.5 * largest_share, 0.5 + 0.5 * largest_share),
        "ones": (1 - largest_share, 1),
        "zeros": (0, largest_share),
    }
    for key, ends in expected.items():
        assert [estimates[key].low, estimates[key].high] == pytest.approx(ends)
        assert estimates[key].method == "Clopper-Pearson, all agree"
    (wins,) = compare({"old": {"k": zeros}, "new": {"k": halves}}, resamples=100)
    assert [wins.interval.low, wins.interval.high] == pytest.approx(
        [0.5 - 1.5 * largest_share, 0.5 + 0.5 * largest_share]
    )


def test_unequal_weights_reduce_the_number_of_rows():
    """If 2 of 50 rows have nearly all the weight, 0 hits have the interval of 0 hits in
    2 rows.
    """
    weight = np.where(np.arange(50) < 2, 1e6, 1.0)
    interval = intervals({"psp@1": (np.zeros(50), weight)})["psp@1"]
    assert interval.high == pytest.approx(1 - 0.025 ** (1 / 2), abs=1e-4)


def test_unbounded_values_have_no_interval_if_all_rows_agree():
    """Unbounded values, declared or above 1, have no interval if all rows agree: other
    rows may have any value.
    """
    rows = {
        "dcg@5/decile_1": np.zeros(50),
        "hit_rate@5": np.zeros(50),
        "rank": np.full(50, 3.0),
    }
    estimates = intervals(rows, unbounded=["dcg@5"])
    assert math.isnan(estimates["dcg@5/decile_1"].low)
    assert math.isnan(estimates["rank"].high)
    assert estimates["rank"].reason == "all rows agree"
    assert estimates["hit_rate@5"].high > 0
    (equal,) = compare(
        {"a": {"k": np.zeros(50)}, "b": {"k": np.zeros(50)}},
        unbounded=["k"],
        resamples=100,
    )
    assert (equal.interval.reason, equal.p.randomisation) == ("all rows agree", 1)


def test_interval_ends_at_zero():
    """An interval of an unbounded value ends at 0, the least value of a row: four of
    400 rows are above 0.
    """
    interval = intervals(
        {"dcg@5/decile_1": [0.25, 0.25, 0.5, 0.5, *[0.0] * 396]}, unbounded=["dcg@5"]
    )["dcg@5/decile_1"]
    assert interval.low == 0
    assert interval.value < interval.high < 0.02


@pytest.mark.parametrize("differing", [1, 2])
def test_values_of_one_or_two_rows_that_differ_have_no_interval(differing):
    """Ratios, unbounded values and gaps have no interval if one or two of 1,500 rows
    differ, because e^-2 = 14 % of resamples leave them out.
    """
    few_hits = np.zeros(1500)
    few_hits[:differing] = 1
    ones, zeros = np.ones(1500), np.zeros(1500)
    models = [
        {
            "micro": (2 * hits, hits + ones),
            "dcg@5": 1.7 * hits,
            "head": ones * 0.5,
            "tail": (hits, hits + ones),
        }
        for hits in (zeros, few_hits)
    ]
    gaps = {"gap": ["head", "tail"]}
    compared = compare(
        dict(zip("ab", models, strict=True)),
        gaps=gaps,
        unbounded=["dcg@5"],
        resamples=500,
    )
    by_key = {comparison.key: comparison for comparison in compared}
    for key in ("micro", "dcg@5", "tail", "gap"):
        assert math.isnan(by_key[key].interval.low), key
        assert math.isnan(by_key[key].interval.high), key
        assert by_key[key].interval.reason == "too few rows differ"
        assert by_key[key].p.randomisation == 0.5**differing


@pytest.mark.parametrize("confidence", [0.4, 1, 1.5])
def test_confidence_out_of_range_is_refused(confidence):
    """A confidence below a half or of at least 1 is refused."""
    with pytest.raises(ValueError, match=f"intervals: confidence={confidence}"):
        intervals({"hit_rate@5": np.ones(20)}, confidence=confidence)


def test_bootstrap_needs_ten_rows():
    """Means, ratios and medians have an interval of ten rows, and none of nine, with
    the reason. p-values exist for both.
    """
    values = np.random.default_rng(6).random((2, 10))
    for kind in ("mean", "ratio", "median"):
        medians = ["k"] if kind == "median" else []

        def rows(row_values, kind=kind):
            return (
                {"k": (row_values, row_values + 1)}
                if kind == "ratio"
                else {"k": row_values}
            )

        nine_rows, ten_rows = (
            intervals(rows(values[0, :n]), medians=medians)["k"] for n in (9, 10)
        )
        assert math.isnan(nine_rows.low)
        assert nine_rows.reason == "fewer than 10 rows"
        assert nine_rows.value == pytest.approx(ten_rows.value, abs=0.5)
        assert ten_rows.low < ten_rows.value < ten_rows.high
        nine, ten = (
            compare(
                {"b": rows(values[1, :n]), "a": rows(values[0, :n])},
                medians=medians,
                resamples=200,
            )[0]
            for n in (9, 10)
        )
        assert math.isnan(nine.interval.high)
        assert 0 < nine.p.randomisation <= 1
        assert ten.interval.low < ten.interval.high


def test_median_is_the_plain_median_of_every_resample():
    """The median of every resample, which is computed from sums, is the plain median of
    the repeated rows, with ties, odd and even numbers of rows, and clusters.
    """
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
        is_counted, clusters = (
            rng.random(values.size) < 0.8,
            read_clusters("test", codes_of_rows, values.size),
        )
        is_counted[0] = True
        (median,) = statistics_of_sides(
            "median", [[Term(1, values, np.ones(values.size))]], [is_counted], clusters
        )
        assert total(median) == np.median(values[is_counted])
        units = values.size if clusters is None else clusters.number
        weights = rng.multinomial(units, np.full(units, 1 / units), size=200)
        sums = weights @ np.stack(median.columns, axis=1)
        for weight, median_of_resample in zip(weights, median.read(sums), strict=True):
            repeats = weight if clusters is None else weight[clusters.codes]
            repeated = np.repeat(values[is_counted], repeats[is_counted])
            assert (
                median_of_resample == np.median(repeated)
                if repeated.size
                else math.isnan(median_of_resample)
            )


def test_median_has_a_percentile_interval():
    """A median has a percentile interval around it, also under the key of a bucket."""
    k = np.random.default_rng(4).geometric(0.1, 301)
    estimates = intervals(
        {"median_k_for_recall@0.8/decile_1": k}, medians=["median_k_for_recall@0.8"]
    )
    (interval,) = estimates.values()
    assert interval.value == np.median(k)
    assert interval.low <= interval.value <= interval.high
    assert interval.low < interval.high
    assert interval.method == "percentile bootstrap"


def test_rows_without_a_denominator_do_not_count_as_rows():
    """Rows without a denominator do not count towards the ten rows that an interval
    needs: 9 and 10 of 50 rows have a relevant label in the bucket.
    """
    hits = np.random.default_rng(7).binomial(3, 0.4, 50).astype(float)
    for number, reason in ((9, "fewer than 10 rows"), (10, None)):
        has_denominator = np.arange(50) < number
        interval = intervals(
            {"micro_recall@5/decile_1": (hits * has_denominator, 3.0 * has_denominator)}
        )["micro_recall@5/decile_1"]
        assert (interval.n, interval.reason) == (50, reason)
        assert interval.value == pytest.approx(hits[:number].mean() / 3)


def test_no_rows_have_no_value():
    """Without a row that counts, or a denominator above 0, there is neither value nor
    interval; one row has a value.
    """
    estimates = intervals(
        {"one": [math.nan, 2.0], "none": [math.nan, math.nan], "zero": ([0, 0], [0, 0])}
    )
    assert (estimates["one"].value, estimates["one"].n, estimates["one"].reason) == (
        2,
        1,
        "all rows agree",
    )
    assert math.isnan(estimates["one"].low)
    assert math.isnan(estimates["none"].value)
    assert (estimates["zero"].n, estimates["zero"].reason) == (2, "no finite value")
    assert math.isnan(estimates["zero"].value)


@pytest.mark.parametrize("resamples", [0, 999])
def test_gap_needs_ten_rows_at_each_end(resamples):
    """A gap has no interval if one of its ends has fewer than ten rows: a head of 9
    rows beside a tail of 100 rows.
    """
    rng, nan = np.random.default_rng(0), np.full(100, math.nan)
    tail = np.concatenate([nan, rng.random(100)])
    for number, reason in ((9, "fewer than 10 rows"), (10, None)):
        head = np.concatenate([rng.random(number), nan, nan])[:200]
        rows = {"recall@5/head": head, "recall@5/tail": tail}
        interval = intervals(rows, gaps={"gap": list(rows)}, resamples=resamples)["gap"]
        assert interval.reason == reason
        assert math.isnan(interval.low) == (reason is not None)


@pytest.mark.parametrize("resamples", [0, 500])
def test_gap_with_an_end_whose_rows_agree_combines_both_intervals(resamples):
    """If all rows of one end agree, the interval of the gap combines those of both
    ends.

    180 of 300 rows of the head are hits, and none of 30 rows of the tail, of which up
    to 0.1135 may be.
    """
    head = np.r_[np.ones(180), np.zeros(120), np.full(30, np.nan)]
    tail = np.r_[np.full(300, np.nan), np.zeros(30)]
    interval = intervals(
        {"head": head, "tail": tail},
        gaps={"gap": ["head", "tail"]},
        resamples=resamples,
    )["gap"]
    head_ends, tail_ends = (
        scipy.stats.binomtest(*counts).proportion_ci(method="wilson")
        for counts in ((180, 300), (0, 30))
    )
    assert interval.low == pytest.approx(
        0.6 - np.hypot(0.6 - head_ends.low, tail_ends.high)
    )
    assert interval.high == pytest.approx(head_ends.high)
    assert (interval.n, interval.method) == (330, "from the intervals of both ends")


@pytest.mark.parametrize("resamples", [0, 300])
def test_clusters_of_very_unequal_sizes_give_no_interval(resamples):
    """Clusters of very unequal sizes have no interval, with the reason; equal ones have
    one.

    Two of 30 clusters have 60 rows, the others one: (Σw)² / Σw² = 148² / 7228 = 3.03
    effective clusters. So it is if they have one row each, and denominators of these
    sizes.
    """
    sizes = [60, 60, *[1] * 28]
    rows = np.random.default_rng(0).random(sum(sizes))
    interval = intervals(
        {"k": rows}, clusters=np.repeat(np.arange(30), sizes), resamples=resamples
    )["k"]
    assert interval.ends == ()
    assert (
        interval.reason
        == "a few large clusters hold most rows; the effective number of clusters is 3.0"
    )
    assert intervals(
        {"k": rows[:120]}, clusters=np.arange(120) // 4, resamples=resamples
    )["k"].ends
    ratio = rows[:30] * sizes, np.array(sizes)
    reason = intervals({"k": ratio}, clusters=np.arange(30), resamples=resamples)[
        "k"
    ].reason
    assert (
        reason
        == "a few clusters hold most of the sum of denominators; the effective number of clusters is 3.0"
    )
