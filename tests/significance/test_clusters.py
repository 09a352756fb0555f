"""Rows in clusters are drawn and swapped together, whatever names the clusters have."""

import itertools
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from tailmetrics.significance import compare, intervals

NAN = math.nan


def data(rng, size):
    """A mean, a ratio and a median of some rows, a tenth of which does not count."""
    value = np.where(rng.random(size) < 0.1, NAN, rng.random(size))
    return {"mean": value, "ratio": (value, 1 + rng.random(size)), "median": np.floor(9 * value)}


def repeated(rows, times):
    """Each row several times, one behind the other."""
    return {
        key: tuple(np.repeat(part, times) for part in value) if isinstance(value, tuple) else np.repeat(value, times)
        for key, value in rows.items()
    }


def test_copies_of_a_row_say_no_more_than_the_row():
    """Each row five times, as a cluster: intervals, p-values and values are those of the rows alone."""
    rng = np.random.default_rng(0)
    old, new = data(rng, 40), data(rng, 40)
    users = np.repeat(np.arange(40), 5)
    alone = compare({"old": old, "new": new}, medians=["median"], resamples=500)
    copies = compare(
        {"old": repeated(old, 5), "new": repeated(new, 5)}, medians=["median"], clusters=users, resamples=500
    )
    for single, five in zip(alone, copies, strict=True):
        assert five.interval.method == single.interval.method.replace("rows", "clusters")
        assert (five.n, five.interval.clusters, single.interval.clusters) == (5 * single.n, single.n, None)
        assert [five.interval.low, five.interval.high] == pytest.approx([single.interval.low, single.interval.high])
        assert five.p.randomisation == single.p.randomisation
    without = compare({"old": repeated(old, 5), "new": repeated(new, 5)}, medians=["median"], resamples=500)
    for single, five in zip(alone[:2], without[:2], strict=True):
        assert five.interval.high - five.interval.low < 0.6 * (single.interval.high - single.interval.low)


def test_few_clusters_are_enumerated():
    """With five clusters the randomisation p-value is that of all 32 ways to swap whole clusters, in plain loops."""
    rng = np.random.default_rng(1)
    users = np.array([3, 1, 1, 0, 2, 2, 2, 4, 0, 3])
    first, second = rng.integers(0, 5, (2, 10)).astype(float)
    observed = abs((first - second).mean())
    comparison = [
        abs(((first - second) * np.where(np.isin(users, np.flatnonzero(signs)), -1, 1)).mean()) - observed
        for signs in itertools.product([False, True], repeat=5)
    ]
    far = sum(1 if difference > 1e-12 else 0.5 if difference > -1e-12 else 0 for difference in comparison)
    (comparison,) = compare({"b": {"k": second}, "a": {"k": first}}, clusters=users, resamples=100)
    assert comparison.p.randomisation == far / 32


@pytest.mark.parametrize(
    "form", [np.asarray, torch.tensor, list, pa.array, lambda n: [f"user {number}" for number in n]]
)
def test_clusters_have_any_names(form):
    """Arrays, tensors, lists, Arrow columns and strings; what matters is which rows share one."""
    rows = data(np.random.default_rng(4), 60)
    users = np.arange(60) // 4
    expected = intervals(rows, medians=["median"], clusters=users, resamples=200)
    assert intervals(rows, medians=["median"], clusters=form((90 - users).tolist()), resamples=200) == expected
    assert {interval.clusters for interval in expected.values()} == {15}


def test_few_clusters_have_no_interval():
    """Nine clusters of ten rows are nine draws; a cluster without a row that counts is none."""
    values = np.random.default_rng(5).random(100)
    users = np.arange(100) // 10
    assert intervals({"k": values}, clusters=users)["k"].method == "studentised bootstrap"
    interval = intervals({"k": np.where(users == 3, NAN, values)}, clusters=users)["k"]
    assert (interval.n, interval.clusters, interval.reason) == (90, 9, "fewer than 10 clusters")
    assert math.isnan(interval.low)


def test_clusters_that_agree_count_once():
    """0 hits in 50 clusters of 4 rows say as much as 0 hits in 50 rows."""
    interval = intervals({"k": np.zeros(200)}, clusters=np.arange(200) // 4)["k"]
    assert (interval.low, interval.high) == (0, pytest.approx(1 - 0.025 ** (1 / 50)))
    assert interval.method == "Clopper-Pearson, all agree"


@pytest.mark.parametrize("users", [[1, "1", 2], [2**53, 2**53 + 1, 1.0], [1, 2**63, 2**63 + 1]])
def test_clusters_stay_apart_whatever_a_list_mixes(users):
    """Numbers, texts and large ids in one list: three users of 20 rows each are three clusters."""
    assert intervals({"k": np.arange(60) % 2}, clusters=users * 20)["k"].clusters == 3


def test_clusters_may_be_a_list_of_tensors():
    """Numbers of torch and NumPy are told apart by what they are, not by which object they are."""
    users = [torch.tensor(1), np.int64(1), 1] * 20 + [torch.tensor(2)] * 20
    assert intervals({"k": np.arange(80) % 2}, clusters=users)["k"].clusters == 2


@pytest.mark.parametrize(
    ("clusters", "message"),
    [
        ([1, 2], r"clusters is of shape \[2\] for 3 rows; pass the cluster of each row"),
        (np.ones((3, 1)), r"clusters is of shape \[3, 1\] for 3 rows"),
        ([[1], [2], [3]], r"clusters holds \[1\] in row 0; pass a cluster"),
        (["a", None, "b"], "clusters holds None in row 1; pass a cluster for each row"),
        ([1.0, 1.0, NAN], "clusters holds .*nan.* in row 2"),
        (["u", "u", NAN], "clusters holds nan in row 2"),
        (pd.array(["u", pd.NA, "v"], dtype="string"), "clusters holds <NA> in row 1"),
        (np.array(["2020", "2020", "NaT"], "M8[ns]"), "clusters holds .*NaT.* in row 2"),
        ("user", r"clusters is of shape \[\] for 3 rows"),
    ],
)
def test_errors_say_what_to_do(clusters, message):
    """Clusters that are not one per row."""
    with pytest.raises(ValueError, match=f"intervals: {message}"):
        intervals({"k": [1, 2, 3]}, clusters=clusters)
    with pytest.raises(ValueError, match=f"compare: {message}"):
        compare({"a": {"k": [1, 2, 3]}, "b": {"k": [1, 2, 3]}}, clusters=clusters)
