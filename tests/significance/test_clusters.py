"""Rows of a cluster are drawn and swapped together, whatever names the clusters
have.
"""

import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

import tailmetrics as tm
from tailmetrics.significance import (
    AreaRows,
    LabelRows,
    Method,
    ShownRows,
    compare,
    intervals,
)
from tailmetrics.significance.halves import at_half_the_rows

NAN = math.nan
LABELS = 8
F1 = {"top": 2.0, "below": (1.0, 1.0)}


def data(rng, size):
    """Return a mean, a ratio and a median of rows, a tenth of which does not count."""
    value = np.where(rng.random(size) < 0.1, NAN, rng.random(size))
    return {
        "mean": value,
        "ratio": (value, 1 + rng.random(size)),
        "median": np.floor(9 * value),
    }


def repeated(rows, times):
    """Return each row several times, one after the other."""
    return {
        key: tuple(np.repeat(part, times) for part in value)
        if isinstance(value, tuple)
        else np.repeat(value, times)
        for key, value in rows.items()
    }


def test_clusters_of_copied_rows_have_the_results_of_single_rows():
    """Clusters of five copies of a row have the intervals, p-values and values of the
    single rows.

    Without clusters the intervals are less than 0.6 times as wide.
    """
    rng = np.random.default_rng(0)
    old, new = data(rng, 40), data(rng, 40)
    users = np.repeat(np.arange(40), 5)
    comparisons_of_rows = compare(
        {"old": old, "new": new}, medians=["median"], resamples=500
    )
    comparisons_of_copies = compare(
        {"old": repeated(old, 5), "new": repeated(new, 5)},
        medians=["median"],
        clusters=users,
        resamples=500,
    )
    for single, copied in zip(comparisons_of_rows, comparisons_of_copies, strict=True):
        assert copied.interval.method == single.interval.method.replace(
            "rows", "clusters"
        )
        assert (copied.n, copied.interval.clusters, single.interval.clusters) == (
            5 * single.n,
            single.n,
            None,
        )
        assert [copied.interval.low, copied.interval.high] == pytest.approx(
            [single.interval.low, single.interval.high]
        )
        assert copied.p.randomisation == single.p.randomisation
    unclustered = compare(
        {"old": repeated(old, 5), "new": repeated(new, 5)},
        medians=["median"],
        resamples=500,
    )
    for single, copied in zip(comparisons_of_rows[:2], unclustered[:2], strict=True):
        assert copied.interval.high - copied.interval.low < 0.6 * (
            single.interval.high - single.interval.low
        )


def averages_over_labels(relevant, predicted, bins):
    """Return one average over labels of each kind; two labels are relevant in one row
    each, and one in none.
    """
    rows, labels = np.nonzero(relevant | predicted)
    inside = np.arange(len(relevant)) >= len(relevant) // 20
    is_counted = inside[rows]
    rows, labels = rows[is_counted], labels[is_counted]
    cells = (
        rows,
        labels,
        predicted[rows, labels],
        relevant[rows, labels],
        inside,
        LABELS,
    )
    averages = {
        "macro recall": LabelRows(*cells),
        "macro F1": LabelRows(*cells, **F1),
        "F1 over all": LabelRows(*cells, **F1, over="all"),
        "weighted F1": LabelRows(*cells, **F1, weighted=True),
        "weighted precision": LabelRows(*cells, below=(1.0, 0.0), weighted=True),
        "F1 of averages": LabelRows(*cells, **F1, of_averages=True),
        "coverage": LabelRows(*cells, top=0.0, over="all"),
    }
    for area, average in itertools.product(
        ("roc", "precision"), ("macro", "weighted", "micro")
    ):
        averages[f"{average} {area}"] = AreaRows(bins, relevant, inside, area, average)
    for measure in ("coverage", "gini", "entropy", "mean", "lift"):
        averages[f"shown {measure}"] = ShownRows(
            *cells, measure, LABELS, np.linspace(3, 1, LABELS)
        )
    return averages


@pytest.mark.parametrize(
    "options",
    [{"resamples": 0}, {"resamples": 300}, {"resamples": 0, "resample": "rows,labels"}],
    ids=str,
)
def test_averages_over_labels_of_copied_rows_have_the_intervals_of_single_rows(options):
    """Averages over labels of clusters of six copies have the intervals of the single
    rows: recall, F1, precision, areas, and metrics of exposure.
    """
    rng = np.random.default_rng(2)
    relevant = rng.random((40, LABELS)) < np.linspace(0.4, 0.1, LABELS)
    relevant[:, 5:] = False
    relevant[10, 5] = relevant[20, 6] = True
    predicted = np.where(
        rng.random(relevant.shape) < 0.6, relevant, rng.random(relevant.shape) < 0.1
    )
    predicted[:, 4] = np.arange(40) == 30
    bins = np.floor(4 * (rng.random(relevant.shape) + relevant)).astype(np.int64)
    unbounded = ["shown gini", "shown entropy", "shown mean", "shown lift"]
    intervals_of_rows = intervals(
        averages_over_labels(relevant, predicted, bins), unbounded=unbounded, **options
    )
    copied_averages = averages_over_labels(
        *(np.repeat(table, 6, axis=0) for table in (relevant, predicted, bins))
    )
    intervals_of_clusters = intervals(
        copied_averages,
        unbounded=unbounded,
        clusters=np.repeat(np.arange(40), 6),
        **options,
    )
    assert (
        sum(bool(interval.ends) for interval in intervals_of_rows.values())
        >= len(intervals_of_rows) - 2
    )
    for key, interval in intervals_of_rows.items():
        expected = [interval.value, interval.low, interval.high]
        clustered_interval = intervals_of_clusters[key]
        assert [
            clustered_interval.value,
            clustered_interval.low,
            clustered_interval.high,
        ] == pytest.approx(expected, nan_ok=True), key
        assert clustered_interval.method == interval.method, key


def test_averages_over_labels_need_ten_clusters_with_a_relevant_label():
    """Averages over labels have no interval if fewer than ten clusters have a relevant
    label: 9 of 40 clusters, with 54 rows. Without clusters they have one.
    """
    users = np.repeat(np.arange(40), 6)
    relevant = (
        np.stack([users % 3 == 0, users % 4 == 1], axis=1) & (users < 17)[:, None]
    )
    bins = np.arange(480).reshape(240, 2) % 7
    rows, labels = np.nonzero(relevant)
    cells = rows, labels, rows % 5 > 0, np.ones(rows.size, bool), np.ones(240, bool), 2
    assert np.unique(users[rows]).size == 9
    for average in (
        LabelRows(*cells),
        LabelRows(*cells, **F1),
        AreaRows(bins, relevant, np.ones(240, bool)),
    ):
        assert (
            intervals({"k": average}, clusters=users, resamples=0)["k"].reason
            == "fewer than 10 clusters"
        )
        assert intervals({"k": average}, resamples=0)["k"].ends


@pytest.mark.parametrize(
    ("users", "copies"), [(40, True), (60, False)], ids=["copies", "users"]
)
def test_intervals_of_averages_over_labels_hold_the_truth_of_clusters(users, copies):
    """Intervals of averages over labels hold the truth in at least 90 % of samples of
    clusters.

    A sample has six equal rows of each of 40 clusters, or six rows of two labels of
    each of 60 users. With the influences of rows, 50 % of the intervals for copies hold
    it, and 71 % of those for users.
    """
    rng, num_labels = np.random.default_rng(0), 25
    popularity = np.arange(1, num_labels + 1) ** -1.1
    popularity /= popularity.sum()
    recalls = np.linspace(0.9, 0.3, num_labels)
    unit_of_row, rows = np.repeat(np.arange(users), 6), np.arange(6 * users)
    flags = np.ones(rows.size, bool)
    ends_by_key = {"macro recall": [], "macro F1": []}
    for _ in range(120):
        favourites = rng.choice(num_labels, (users, 2), p=popularity)
        favourite_numbers = np.zeros(rows.size, np.int64)
        hits = np.repeat(rng.random(users) < recalls[favourites[:, 0]], 6)
        if not copies:
            favourite_numbers = rng.integers(2, size=rows.size)
            shares = rng.beta(2 * recalls[favourites], 2 * (1 - recalls[favourites]))
            hits = rng.random(rows.size) < shares[unit_of_row, favourite_numbers]
        average = LabelRows(
            rows,
            favourites[unit_of_row, favourite_numbers],
            hits,
            flags,
            flags,
            num_labels,
        )
        for key, options in (("macro recall", {}), ("macro F1", F1)):
            interval = intervals(
                {"k": replace(average, **options)}, clusters=unit_of_row, resamples=0
            )["k"]
            ends_by_key[key].append((interval.value, interval.low, interval.high))
    for key, ends in ends_by_key.items():
        value, low, high = np.transpose(ends)
        assert np.mean((low <= value.mean()) & (value.mean() <= high)) >= 0.9, key


def test_value_at_half_of_the_rows_uses_whole_clusters():
    """The value at half of the rows uses whole clusters.

    With a label for each of 100 clusters of two rows a half holds half of the labels,
    without clusters three quarters; the order of rows does not matter.
    """
    users, flags = np.repeat(np.arange(100), 2), np.ones(200, bool)
    average = LabelRows(np.arange(200), users, flags, flags, flags, 100, over="all")
    assert at_half_the_rows(average, users) == pytest.approx(0.5, abs=1e-9)
    assert at_half_the_rows(average) == pytest.approx(0.75, abs=0.03)
    shuffled = np.random.default_rng(0).permutation(200)
    other = LabelRows(
        np.arange(200), users[shuffled], flags, flags, flags, 100, over="all"
    )
    assert at_half_the_rows(other, users[shuffled]) == at_half_the_rows(average, users)


def test_reports_of_copied_rows_equal_those_of_single_rows():
    """Reports of clusters of six copies have the intervals and the values at half of
    the clusters of the single rows; scores in a bin differ a little.
    """
    rng = np.random.default_rng(3)
    target = np.minimum(rng.geometric(0.3, 60) - 1, LABELS - 1)
    scores = rng.random((60, LABELS)) + 0.6 * np.eye(LABELS)[target]
    metrics = [
        tm.RecallAtK(1, average="macro", num_labels=LABELS),
        tm.F1AtK(1, average="weighted", num_labels=LABELS),
        tm.LabelAP(num_labels=LABELS),
        tm.PositiveCoverageAtK(1, num_labels=LABELS),
    ]
    report = tm.evaluate(torch.tensor(scores), torch.tensor(target), metrics=metrics)
    copies = (
        torch.tensor(np.repeat(scores, 6, axis=0)),
        torch.tensor(np.repeat(target, 6)),
    )
    report_of_clusters = tm.evaluate(
        *copies, metrics=metrics, clusters=np.repeat(np.arange(60), 6)
    )
    widths = {
        key: interval.high - interval.low for key, interval in report.intervals.items()
    }
    for key, interval in report.intervals.items():
        ends = (
            report_of_clusters.intervals[key].low,
            report_of_clusters.intervals[key].high,
        )
        assert ends == pytest.approx((interval.low, interval.high), abs=1e-3), key
        assert report_of_clusters.at_half_the_rows[key] == pytest.approx(
            report.at_half_the_rows[key], abs=widths[key] / 4
        ), key


def test_few_clusters_are_enumerated():
    """With five clusters the randomisation p-value is that of all 32 swaps of whole
    clusters, in plain loops.
    """
    rng = np.random.default_rng(1)
    users = np.array([3, 1, 1, 0, 2, 2, 2, 4, 0, 3])
    first, second = rng.integers(0, 5, (2, 10)).astype(float)
    observed = abs((first - second).mean())
    comparison = [
        abs(
            (
                (first - second)
                * np.where(np.isin(users, np.flatnonzero(signs)), -1, 1)
            ).mean()
        )
        - observed
        for signs in itertools.product([False, True], repeat=5)
    ]
    far = sum(
        1 if difference > 1e-12 else 0.5 if difference > -1e-12 else 0
        for difference in comparison
    )
    (comparison,) = compare(
        {"b": {"k": second}, "a": {"k": first}}, clusters=users, resamples=100
    )
    assert comparison.p.randomisation == far / 32


@pytest.mark.parametrize(
    "form",
    [
        np.asarray,
        torch.tensor,
        list,
        pa.array,
        lambda numbers: [f"user {number}" for number in numbers],
    ],
)
def test_clusters_may_have_any_names(form):
    """Clusters may be arrays, tensors, lists, Arrow columns or strings: only which rows
    share one matters.
    """
    rows = data(np.random.default_rng(4), 60)
    users = np.arange(60) // 4
    expected = intervals(rows, medians=["median"], clusters=users, resamples=200)
    assert (
        intervals(
            rows,
            medians=["median"],
            clusters=form((90 - users).tolist()),
            resamples=200,
        )
        == expected
    )
    assert {interval.clusters for interval in expected.values()} == {15}


def test_few_clusters_have_no_interval():
    """Fewer than ten clusters have no interval, however many rows they have; a cluster
    without a row that counts is not one of them.
    """
    values = np.random.default_rng(5).random(100)
    users = np.arange(100) // 10
    assert (
        intervals({"k": values}, clusters=users)["k"].method == "studentised bootstrap"
    )
    interval = intervals({"k": np.where(users == 3, NAN, values)}, clusters=users)["k"]
    assert (interval.n, interval.clusters, interval.reason) == (
        90,
        9,
        "fewer than 10 clusters",
    )
    assert math.isnan(interval.low)


def test_clusters_that_agree_count_once():
    """0 hits in 50 clusters of 4 rows have the interval of 0 hits in 50 rows."""
    interval = intervals({"k": np.zeros(200)}, clusters=np.arange(200) // 4)["k"]
    assert (interval.low, interval.high) == (0, pytest.approx(1 - 0.025 ** (1 / 50)))
    assert interval.method == "Clopper-Pearson, all agree"


@pytest.mark.parametrize(
    "users", [[1, "1", 2], [2**53, 2**53 + 1, 1.0], [1, 2**63, 2**63 + 1]]
)
def test_clusters_of_mixed_types_stay_distinct(users):
    """Numbers, texts and large ids in one list are distinct clusters: three users of 20
    rows are three clusters.
    """
    assert intervals({"k": np.arange(60) % 2}, clusters=users * 20)["k"].clusters == 3


def test_clusters_may_be_a_list_of_tensors():
    """Numbers of torch and NumPy in a list of clusters are compared by value, not by
    identity.
    """
    users = [torch.tensor(1), np.int64(1), 1] * 20 + [torch.tensor(2)] * 20
    assert intervals({"k": np.arange(80) % 2}, clusters=users)["k"].clusters == 2


@pytest.mark.parametrize(
    ("clusters", "message"),
    [
        (
            [1, 2],
            r"clusters is of shape \[2\] for 3 rows; pass the cluster of each row",
        ),
        (np.ones((3, 1)), r"clusters is of shape \[3, 1\] for 3 rows"),
        ([[1], [2], [3]], r"clusters holds \[1\] in row 0; pass a cluster"),
        (["a", None, "b"], "clusters holds None in row 1; pass a cluster for each row"),
        ([1.0, 1.0, NAN], "clusters holds .*nan.* in row 2"),
        (["u", "u", NAN], "clusters holds nan in row 2"),
        (pd.array(["u", pd.NA, "v"], dtype="string"), "clusters holds <NA> in row 1"),
        (
            np.array(["2020", "2020", "NaT"], "M8[ns]"),
            "clusters holds .*NaT.* in row 2",
        ),
        ("user", r"clusters is of shape \[\] for 3 rows"),
    ],
)
def test_clusters_that_are_not_one_per_row_are_refused(clusters, message):
    """Clusters that are not one per row, or are missing in a row, are refused by
    intervals and compare with what to pass.
    """
    with pytest.raises(ValueError, match=f"intervals: {message}"):
        intervals({"k": [1, 2, 3]}, clusters=clusters)
    with pytest.raises(ValueError, match=f"compare: {message}"):
        compare({"a": {"k": [1, 2, 3]}, "b": {"k": [1, 2, 3]}}, clusters=clusters)


def test_unbounded_mean_of_copied_rows_has_the_interval_of_single_rows():
    """An unbounded mean of clusters of three copies has the interval of the single
    rows: for skewed gains, the limits of few large events.
    """
    gains = np.random.default_rng(1).exponential(3, 40)
    interval_of_rows = intervals({"dcg": gains}, unbounded=["dcg"], resamples=0)["dcg"]
    users = np.repeat(np.arange(40), 3)
    interval_of_clusters = intervals(
        {"dcg": np.repeat(gains, 3)}, unbounded=["dcg"], clusters=users, resamples=0
    )["dcg"]
    assert interval_of_rows.method == interval_of_clusters.method == Method.FAY_FEUER
    assert interval_of_clusters.ends == pytest.approx(interval_of_rows.ends)
