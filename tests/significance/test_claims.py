"""Claims of intervals and tests, by seeded simulations with a known truth."""

import math

import numpy as np
import pytest
import scipy.stats

from benchmarks.claims import graded
from tailmetrics.significance import (
    AreaRows,
    LabelRows,
    Method,
    compare,
    intervals,
    verdict,
)
from tailmetrics.significance.halves import at_half_the_rows, mixed
from tailmetrics.significance.interval import AdjustedEnd, adjusted_gap
from tailmetrics.significance.moments import Moments, quick_interval

NAN = math.nan


def coverage(truth, samples, **arguments):
    """Return the share of samples whose interval holds the truth; all samples are keys
    of one call.
    """
    estimates = intervals(
        {str(number): sample for number, sample in enumerate(samples)}, **arguments
    )
    return np.mean(
        [interval.low <= truth <= interval.high for interval in estimates.values()]
    )


@pytest.mark.parametrize(
    ("sizes", "least"),
    [((1 / 3,), 0.94), (tuple(1 / size for size in range(1, 11)), 0.88)],
)
def test_quick_intervals_of_rare_values_hold_the_truth(sizes, least):
    """Quick intervals hold the truth in 94 % and 88 % of 500 samples of 10,000 rows of
    which 5 are expected above 0 (0.87 and 0.77 without limits for rare values).
    """
    rng = np.random.default_rng(0)
    samples = []
    for _ in range(500):
        rows = np.zeros(10_000)
        places = rng.random(10_000) < 5 / 10_000
        rows[places] = rng.choice(sizes, places.sum())
        samples.append(rows)
    share = coverage(5 / 10_000 * np.mean(sizes), samples, resamples=0)
    assert share >= least


@pytest.mark.parametrize(("rows", "least"), [(25, 0.83), (60, 0.92), (1000, 0.92)])
@pytest.mark.parametrize("resamples", [0, 199])
def test_intervals_of_reciprocal_ranks_hold_the_truth(rows, least, resamples):
    """Intervals of the MRR of random ranks from 1 to 1,000 hold the sum of 1 / rank
    over 1,000 in .83, .92 and .92 of 300 samples (.56, .69 and .86 without the larger
    rows that are still to come).
    """
    rng = np.random.default_rng(2)
    samples = list(1 / rng.integers(1, 1001, (300, rows)))
    truth = sum(1 / rank for rank in range(1, 1001)) / 1000
    assert coverage(truth, samples, resamples=resamples) >= least


@pytest.mark.parametrize(("rows", "least"), [(25, 0.89), (75, 0.9)])
@pytest.mark.parametrize("resamples", [0, 199])
def test_intervals_of_ndcg_of_random_ranks_hold_the_truth(rows, least, resamples):
    """Intervals of nDCG without a cut-off, of random ranks from 1 to 400, hold the mean
    of 1 / log2(rank + 1) in .89 and .90 of 300 samples (.82 and .87 if x did not stand
    above its least value).
    """
    rng = np.random.default_rng(2)
    samples = list(1 / np.log2(rng.integers(1, 401, (300, rows)) + 1))
    truth = np.mean([1 / math.log2(rank + 1) for rank in range(1, 401)])
    assert coverage(truth, samples, resamples=resamples) >= least


def test_limits_of_many_sizes_leave_room_for_a_larger_row():
    """Of 20 rows 1 / 2, 1 / 40, ..., 1 / 40, 0, the upper end is that of Fay and Feuer
    with a further row of 1; of 20 rows 1 / 2 or 0, it is that with a further row of 1 /
    2.
    """
    for small, further in ((1 / 40, 1.0), (0.0, 1 / 2)):
        rows = np.full(20, small)
        rows[0], rows[-1] = 1 / 2, 0
        y, v = rows.sum() + further, (rows**2).sum() + further**2
        interval = intervals({"k": rows}, resamples=0)["k"]
        assert interval.method is Method.FAY_FEUER
        assert interval.high == pytest.approx(
            v / (2 * y) * scipy.stats.chi2.ppf(0.975, 2 * y**2 / v) / 20
        )


def test_limits_of_three_events_are_those_of_poisson():
    """Three rows of 1/3 in 10,000 have the exact limits of three Poisson events, [0.62,
    8.77], times 1/3 per row; misses have the mirrored limits.
    """
    rows = np.zeros(10_000)
    rows[:3] = 1 / 3
    for values, is_mirrored in ((rows, False), (1 - rows, True)):
        interval = intervals({"k": values}, resamples=0)["k"]
        low, high = (
            scipy.stats.chi2.ppf(0.025, 6) / 2 / 30_000,
            scipy.stats.chi2.ppf(0.975, 8) / 2 / 30_000,
        )
        if is_mirrored:
            low, high = 1 - high, 1 - low
        assert interval.method is Method.FAY_FEUER
        assert (interval.low, interval.high) == pytest.approx((low, high))


def test_ratios_of_rare_hits_and_clusters_have_the_same_limits():
    """Four hits of 2,000 predictions have the exact limits of four Poisson events, as a
    ratio and in clusters of five rows.
    """
    hits = np.zeros(1000)
    hits[::250] = 1
    low, high = scipy.stats.chi2.ppf(0.025, 8) / 2, scipy.stats.chi2.ppf(0.975, 10) / 2
    ratio = intervals({"k": (hits, np.full(1000, 2.0))}, resamples=0)["k"]
    assert (ratio.low, ratio.high) == pytest.approx((low / 2000, high / 2000))
    clustered = intervals({"k": hits / 2}, clusters=np.arange(1000) // 5, resamples=0)[
        "k"
    ]
    assert (clustered.low, clustered.high) == pytest.approx((low / 2000, high / 2000))
    assert (ratio.method, clustered.method) == (Method.FAY_FEUER, Method.FAY_FEUER)


@pytest.mark.parametrize(
    ("sizes", "least"),
    [((1.0,), 0.93), (tuple(1 / size for size in range(1, 11)), 0.86)],
)
def test_quick_gaps_of_rare_values_in_the_tail_hold_the_truth(sizes, least):
    """Quick intervals of gaps hold the truth in 93 % and 86 % of 200 samples of 2,000
    rows, 5 of them expected above 0 in the tail (Student's t: 0.84 and 0.78).
    """
    rng = np.random.default_rng(0)
    rows, gaps = {}, {}
    for number in range(200):
        tail = np.zeros(2000)
        places = rng.random(2000) < 5 / 2000
        tail[places] = rng.choice(sizes, places.sum())
        rows |= {
            f"head {number}": rng.choice([0.5, 0.501], 2000),
            f"tail {number}": tail,
        }
        gaps[f"gap {number}"] = [f"head {number}", f"tail {number}"]
    truth = 0.5005 - 5 / 2000 * np.mean(sizes)
    estimates = intervals(rows, gaps=gaps, parts=list(rows), resamples=0)
    assert (
        np.mean(
            [interval.low <= truth <= interval.high for interval in estimates.values()]
        )
        >= least
    )


def rare_tail(rng, num_rows, num_events, sizes, has_equal_chance):
    """Return recall of a head, recall of a tail with this number of rows expected above
    0, and the chance of the tail.

    Chance is 0.002 in each row, or once, twice or three times as much.
    """
    head, tail = rng.choice([0.5, 0.501], num_rows), np.zeros(num_rows)
    places = rng.random(num_rows) < num_events / num_rows
    tail[places] = rng.choice(sizes, places.sum())
    multiples = (
        np.ones(num_rows) if has_equal_chance else 1 + rng.binomial(2, 0.15, num_rows)
    )
    return head, tail, 0.002 * multiples


@pytest.mark.parametrize(
    (
        "num_rows",
        "num_events",
        "sizes",
        "has_equal_chance",
        "least",
        "least_in_reports",
    ),
    [
        (10_000, 5, (1.0,), True, 0.94, 0.94),
        (1000, 3, (1.0,), True, 0.94, 0.94),
        (10_000, 5, tuple(1 / size for size in range(1, 11)), False, 0.88, 0.88),
        (1000, 3, tuple(1 / size for size in range(1, 11)), False, 0.87, 0.88),
    ],
)
def test_quick_adjusted_gaps_of_rare_values_in_the_tail_hold_the_truth(
    num_rows, num_events, sizes, has_equal_chance, least, least_in_reports
):
    """Quick intervals of adjusted gaps hold the truth as often as stated, with few rows
    above 0 in the tail.

    Of 10,000 rows 5 are expected above 0, of 1,000 rows 3. Reports hold 0.97, 0.99,
    0.91 and 0.90 of 200 gaps, without the tail's unadjusted values as well; Student's t
    holds 0.83, 0.79, 0.82 and 0.72.
    """
    rng = np.random.default_rng(0)
    rows, gaps, chances = {}, {}, []
    for number in range(200):
        head, tail, chance = rare_tail(
            rng, num_rows, num_events, sizes, has_equal_chance
        )
        keys = {
            f"head {number}": head,
            f"tail {number}": tail,
            f"adjusted head {number}": (head - 0.01, np.full(num_rows, 0.99)),
            f"adjusted tail {number}": (tail - chance, 1 - chance),
        }
        rows |= keys
        gaps |= {
            f"gap {number}": list(keys)[:2],
            f"adjusted gap {number}": list(keys)[2:],
        }
        chances.append(chance.mean())
    estimates = intervals(
        rows,
        gaps=gaps,
        unbounded=[name for name in gaps if "adjusted" in name],
        resamples=0,
    )

    mean_chance, tail_value = np.mean(chances), num_events / num_rows * np.mean(sizes)
    truth = (0.5005 - 0.01) / 0.99 - (tail_value - mean_chance) / (1 - mean_chance)
    adjusted, in_reports = [], []
    for number, chance in enumerate(chances):
        first = AdjustedEnd(estimates[f"head {number}"], 0.01, 0.99)
        last = AdjustedEnd(estimates[f"tail {number}"], chance, 1 - chance)
        adjusted.append(estimates[f"adjusted gap {number}"])
        in_reports.append(
            adjusted_gap(adjusted[-1], estimates[f"gap {number}"], first, last)
        )
    coverage_of_adjusted, coverage_in_reports = (
        np.mean([interval.low <= truth <= interval.high for interval in estimated_gaps])
        for estimated_gaps in (adjusted, in_reports)
    )
    assert coverage_in_reports >= least_in_reports
    assert coverage_of_adjusted >= least


@pytest.mark.parametrize(
    ("num_rows", "share", "grades", "share_of_ones", "least", "most_refused"),
    [
        (300, 0.01, (5,), 0.0, 0.96, 0.45),
        (1000, 0.003, (5,), 0.0, 0.95, 0.45),
        (1000, 0.01, (1, 2, 3, 4, 5), 0.0, 0.92, 0.05),
        (300, 0.01, (5,), 0.5, 0.92, 0.01),
        (60, 0.1, (5,), 0.1, 0.94, 0.04),
    ],
)
def test_quick_intervals_of_dcg_with_rare_gains_hold_the_truth(
    num_rows, share, grades, share_of_ones, least, most_refused
):
    """Quick intervals of DCG hold the truth in 93 to 98 % of 400 samples, if few rows
    have the largest gain.

    The gain is 2^grade - 1, and 2 to 6 rows are expected to have the largest. Student's
    t holds it in 84 to 90 %. If no other rows are above 0, up to 43 % of the samples
    have no interval.
    """
    rng = np.random.default_rng(0)
    draw = graded(share, grades, share_of_ones)
    mean_gain = (
        share * np.mean([2**grade - 1 for grade in grades])
        + (1 - share) * share_of_ones
    )
    truth = mean_gain * np.mean(1 / np.log2(np.arange(2, 12)))
    estimates = []
    for _ in range(400):
        rows = draw(rng, num_rows)[0]
        moments = Moments.from_units([(1, rows, np.ones(num_rows))])
        estimates.append(
            quick_interval(moments, float(rows.mean()), num_rows, are_shares=False)
        )
    with_ends = [interval for interval in estimates if interval.ends]
    assert (
        np.mean([interval.low <= truth <= interval.high for interval in with_ends])
        >= least
    )
    assert 1 - len(with_ends) / len(estimates) <= most_refused


def test_unbounded_values_that_one_row_decides_have_no_interval():
    """An unbounded value has no quick interval if one row has more than half of the
    sum, or if rows at an end are equal; neither has its gap.
    """
    rng = np.random.default_rng(0)
    large, zeros = np.r_[31.0, np.ones(10), np.zeros(489)], np.zeros(500)
    rows = {"dcg/head": rng.random(500), "dcg/large": large, "dcg/zeros": zeros}
    gaps = {
        "gap/large": ["dcg/head", "dcg/large"],
        "gap/zeros": ["dcg/head", "dcg/zeros"],
    }
    estimates = intervals(rows, gaps=gaps, unbounded=["dcg", *gaps], resamples=0)
    assert {key: interval.reason for key, interval in estimates.items()} == {
        "dcg/head": None,
        "dcg/large": "one row or cluster has more than half of the sum",
        "dcg/zeros": "all rows agree",
        "gap/large": "one of both has no interval",
        "gap/zeros": "all rows or clusters of one end agree",
    }


def test_precision_over_labels_needs_ten_labels_with_hits():
    """Precision and F1 over labels have no interval if fewer than ten labels have a
    hit, and say so; recall has one.

    Of 40 labels 6 have a hit. Five of five labels with hits are enough.
    """
    rng = np.random.default_rng(1)
    num_rows, num_labels = 200, 40
    labels = rng.integers(0, num_labels, num_rows)
    predicted_labels = np.where(
        labels < 6, labels, (labels + 1 + rng.integers(0, 30, num_rows)) % num_labels
    )
    rows = np.tile(np.arange(num_rows), 2)
    is_relevant = np.repeat([True, False], num_rows)
    cells = np.concatenate([labels, predicted_labels])
    is_hit = labels == predicted_labels
    keep = np.concatenate([np.ones(num_rows, bool), ~is_hit])
    predicted = np.concatenate([is_hit, np.ones(num_rows, bool)])
    inside = np.ones(num_rows, bool)
    parts = rows[keep], cells[keep], predicted[keep], is_relevant[keep], inside
    reasons = {}
    for name, below in (
        ("recall", (0.0, 1.0)),
        ("precision", (1.0, 0.0)),
        ("f1", (1.0, 1.0)),
    ):
        average = LabelRows(*parts, num_labels, 1.0 + (name == "f1"), below)
        reasons[name] = intervals({"k": average}, resamples=0)["k"].reason
    assert reasons == {
        "recall": None,
        "precision": "fewer than 10 labels have a hit",
        "f1": "fewer than 10 labels have a hit",
    }
    five_labels = LabelRows(
        rows[keep],
        cells[keep] % 5,
        predicted[keep],
        is_relevant[keep],
        inside,
        5,
        1.0,
        (1.0, 0.0),
    )
    assert intervals({"k": five_labels}, resamples=0)["k"].reason is None


@pytest.mark.parametrize(
    ("num_relevant", "reason"),
    [(49, "fewer than 50 relevant labels in all rows"), (50, None)],
)
def test_micro_average_precision_needs_fifty_relevant_labels(num_relevant, reason):
    """Micro average precision has an interval from fifty relevant cells on, and
    otherwise says why not; the macro average has one with 49 of 600.
    """
    rng = np.random.default_rng(2)
    relevant = np.zeros(600, bool)
    relevant[rng.permutation(600)[:num_relevant]] = True
    relevant = relevant.reshape(200, 3)
    bins = rng.integers(0, 50, (200, 3)) + 10 * relevant
    inside = np.ones(200, bool)
    for average, expected in (("micro", reason), ("macro", None)):
        interval = intervals(
            {"k": AreaRows(bins, relevant, inside, "precision", average)}, resamples=0
        )["k"]
        assert interval.reason == expected


def runs_of(rng, number, rows=60):
    """Return runs of one model, which vary from run to run as much as rows do."""
    base = rng.random(rows)
    return [{"k": base + shift} for shift in rng.normal(0, 0.05, number)]


@pytest.mark.parametrize(
    ("first", "second", "is_tested"),
    [(2, 1, False), (1, 2, False), (2, 2, True), (3, 1, True)],
)
def test_two_runs_of_one_model_do_not_tell_how_much_runs_vary(first, second, is_tested):
    """Two runs against one give neither p nor interval, with the reason; two against
    two or three against one do.

    The verdict states the reason, also beside a bucket without rows.
    """
    rng = np.random.default_rng(3)
    runs = {"a": runs_of(rng, first), "b": runs_of(rng, second)}
    for run in [*runs["a"], *runs["b"]]:
        run["k/none"] = np.full(60, NAN)
    comparisons = compare(runs, unbounded=["k"], resamples=99)
    comparison = comparisons[0]
    assert math.isnan(comparison.p.decisive) != is_tested
    assert math.isnan(comparison.p.randomisation)
    assert bool(comparison.interval.ends) == is_tested
    if not is_tested:
        assert (
            comparison.interval.reason
            == "two runs do not tell how much runs vary; train one more"
        )
        assert (
            verdict(comparisons)
            == f"b against a: no value could be tested: {comparison.interval.reason}."
        )
        assert math.isnan(comparison.least_difference)


@pytest.mark.parametrize("resamples", [0, 99])
def test_interval_of_several_runs_needs_three(resamples):
    """Three runs of a model have an interval, as one run has; two have none."""
    rng = np.random.default_rng(4)
    for number, has_interval in ((1, True), (2, False), (3, True)):
        interval = intervals(
            runs_of(rng, number), unbounded=["k"], resamples=resamples
        )["k"]
        assert bool(interval.ends) == has_interval


@pytest.mark.parametrize("resamples", [0, 199])
def test_gap_has_the_same_interval_if_its_ends_are_parts(resamples):
    """A gap of 200 shares and 20 zeros has one interval, whether its ends are compared
    or are only parts of gaps.
    """
    rng = np.random.default_rng(5)
    head = np.r_[rng.random(200), np.full(20, NAN)]
    tail = np.r_[np.full(200, NAN), np.zeros(20)]
    rows, gaps = {"h": head, "t": tail}, {"gap": ["h", "t"]}
    whole = intervals(rows, gaps=gaps, resamples=resamples)
    parts = intervals(rows, gaps=gaps, parts=["h", "t"], resamples=resamples)
    assert parts == {"gap": whole["gap"]}
    assert parts["gap"].method is Method.BOTH_ENDS


def test_halves_do_not_depend_on_values():
    """Rows are split into halves independently of their values: each of 8 splits puts
    30 to 70 % of 128 equal rows into a half, and each half holds both classes.
    """
    num_rows = 256
    rows, is_relevant, inside = (
        np.arange(num_rows),
        np.ones(num_rows, bool),
        np.ones(num_rows, bool),
    )
    labels = np.arange(num_rows) // 128
    recall = LabelRows(rows, labels, labels == 0, is_relevant, inside, 2)
    value = at_half_the_rows(recall)
    assert value == 0.5  # each half holds both classes
    bits = mixed(np.arange(num_rows))  # the half of the place of a row
    for split in range(8):
        for content in (slice(0, 128), slice(128, 256)):
            assert 0.3 <= (bits[content] >> split & 1).mean() <= 0.7
