"""The number of rows that a difference needs is the inverse of the least difference,
and gives the promised power.
"""

import numpy as np
import pytest

from benchmarks.claims import LEVEL, settings
from tailmetrics.significance import LabelRows, compare, rows_needed


def shares(rng, rows):
    """Return values of two models in the same rows: shares of 3 labels."""
    return rng.binomial(3, rng.beta(2, 4, rows), (2, rows)) / 3


def clustered(rng, rows):
    """Return values of two models in clusters of five rows; each model has its own
    affinity to a cluster.
    """
    return np.stack(
        [rng.binomial(3, np.repeat(rng.beta(2, 4, rows // 5), 5)) / 3 for _ in range(2)]
    )


def rejection_rate(pairs, clusters=None):
    """Return the share of pairs of models that the test rejects."""
    first, second = (
        {str(number): pair[side] for number, pair in enumerate(pairs)}
        for side in (0, 1)
    )
    tested = compare(
        {"a": first, "b": second}, correction="none", resamples=399, clusters=clusters
    )
    return float(
        np.mean([comparison.p.randomisation <= LEVEL for comparison in tested])
    )


@pytest.mark.parametrize(
    ("draw", "size"), [(shares, 1), (clustered, 5)], ids=["rows", "clusters"]
)
@pytest.mark.parametrize("power", [0.8, 0.9])
@pytest.mark.slow
def test_rows_needed_gives_the_promised_power(draw, size, power):
    """With the rows that rows_needed plans from 20,000 rows, the test rejects the
    promised share of 1,500 pairs, within 0.03, for rows and clusters.
    """
    a, b = draw(np.random.default_rng(0), 20_000)
    codes = np.arange(20_000) // size
    needed = rows_needed(
        {"a": a, "b": b}, 0.08, power=power, clusters=None if size == 1 else codes
    )
    rows = size * -(-needed // size)
    clusters = None if size == 1 else np.arange(rows) // size
    rng = np.random.default_rng(3)
    pairs = [draw(rng, rows) + np.array([[0], [0.08]]) for _ in range(1500)]
    assert rejection_rate(pairs, clusters) == pytest.approx(power, abs=0.03)


@pytest.mark.parametrize(
    ("kind", "difference", "rows"),
    [("two runs", 0.1, 73), ("one run", 0.1, 73), ("one run", 0.05, 153)],
)
def test_rows_needed_assumes_that_rows_change_by_the_difference(kind, difference, rows):
    """rows_needed assumes a variance of at least d - d², because hits differ only in
    rows that change: for two runs that differ in 2 of 200 rows, and for one run with a
    hit rate of 0.95.
    """
    if kind == "two runs":
        first = [0.0, 1.0] * 100
        runs = {"a": first, "b": [1.0, 0.0, *first[2:]]}
    else:
        runs = {"a": [1.0] * 95 + [0.0] * 5}
    needed = rows_needed(runs, difference)
    assert needed == rows

    rng = np.random.default_rng(0)
    pairs = []
    for _ in range(400):
        hits = (rng.random(needed) < 0.5).astype(float)
        # of misses, so that hits gain as many as rows change
        is_changed = rng.random(needed) < difference
        pairs.append((np.where(is_changed, 0, hits), np.where(is_changed, 1, hits)))
    assert 0.75 <= rejection_rate(pairs) <= 0.9


def test_least_difference_is_significant_in_eight_of_ten_samples():
    """The least difference is significant in 75 to 90 % of 400 samples: 0.038 for hit
    rates of 0.3 that differ in 2 % of 200 rows.
    """
    hits = np.arange(200) % 10 < 3
    other = hits.copy()
    other[[0, 3, 10, 13]] = ~hits[[0, 3, 10, 13]]
    (comparison,) = compare({"a": {"k": hits}, "b": {"k": other}}, resamples=99)
    least = comparison.least_difference
    assert least == pytest.approx(0.038, abs=0.001)

    rng = np.random.default_rng(1)
    pairs = []
    for _ in range(400):
        first = (rng.random(200) < 0.3).astype(float)
        gains = rng.random(200) < least
        pairs.append((np.where(gains, 0, first), np.where(gains, 1, first)))
    assert 0.75 <= rejection_rate(pairs) <= 0.9


@pytest.mark.slow
def test_one_run_with_an_agreement_needs_the_rows_of_two_runs():
    """One run with agreement= (the correlation of two models) needs the rows that two
    runs need, within 2 %.

    By default the difference is assumed to vary as much as one model.
    """
    a, b = shares(np.random.default_rng(0), 20_000)
    agreement = float(np.corrcoef(a, b)[0, 1])
    rows_of_two_runs = rows_needed({"a": a, "b": b}, 0.02)
    assert rows_needed({"a": a}, 0.02, agreement=agreement) == pytest.approx(
        rows_of_two_runs, rel=0.02
    )
    # by default, the difference is assumed to vary as much as one model
    assert rows_needed({"a": a}, 0.02) == pytest.approx(
        a.var() / (a - b).var() * rows_of_two_runs, rel=0.02
    )


@pytest.mark.parametrize("level", [0.05, 0.001])
def test_rows_needed_is_the_inverse_of_the_least_difference(level):
    """rows_needed of the least difference of a comparison is its number of rows; a
    smaller difference needs one row more.
    """
    rng = np.random.default_rng(1)
    for rows in (12, 60, 700):
        first, second = shares(rng, rows)
        (comparison,) = compare(
            {"a": {"k": first}, "b": {"k": second}}, resamples=99, confidence=1 - level
        )
        least = comparison.least_difference
        assert (
            rows_needed({"a": first, "b": second}, least * (1 + 1e-9), level=level)
            == rows
        )
        assert (
            rows_needed({"a": first, "b": second}, least * (1 - 1e-9), level=level)
            == rows + 1
        )


def test_ratios_and_averages_over_labels_are_planned_as_compared():
    """rows_needed of a ratio and of a macro recall of 400 rows is 400 for their least
    difference in compare.
    """
    rng = np.random.default_rng(2)
    draws = [
        setting.draw
        for setting in settings()
        if setting.name in ("ratio of counts", "macro recall, 60 labels")
    ]
    for draw in (draws[0], draws[-1]):
        (first,), (second,) = draw(rng, 400)
        (comparison,) = compare({"a": first, "b": second}, resamples=99)
        needed = rows_needed(
            {"a": first["k"], "b": second["k"]},
            comparison.least_difference * (1 + 1e-9),
        )
        assert needed == pytest.approx(400, abs=5)
    assert isinstance(first["k"], LabelRows)


def test_rows_needed_refuses_rows_that_do_not_tell_the_variance():
    """rows_needed refuses fewer than ten rows or clusters, rows that agree, three runs,
    an agreement beside two runs, and a difference of 0, too small, or above 1.
    """
    rows = np.arange(20) % 2
    for values, clusters, message in (
        (
            rows[:9],
            None,
            "9 rows count, which do not tell how much rows vary; pass 10 or more",
        ),
        (np.full(20, np.nan), None, "0 rows count"),
        (
            rows,
            rows,
            "2 clusters count, which do not tell how much clusters vary; pass 10 or more",
        ),
        (
            np.ones(20),
            None,
            "in all 20 rows the values are equal or not finite, .* vary; pass other rows.$",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            rows_needed({"a": values}, 0.1, clusters=clusters)
    with pytest.raises(
        ValueError, match="in all 20 rows the differences of both models are equal"
    ):
        rows_needed({"a": rows, "b": rows}, 0.1)
    with pytest.raises(
        ValueError, match="no number of rows shows difference=1e-09; pass a larger one"
    ):
        rows_needed({"a": rows}, 1e-9)
    with pytest.raises(
        ValueError, match="3 runs given; pass one model, or the two that are compared"
    ):
        rows_needed(dict.fromkeys("abc", rows), 0.1)
    with pytest.raises(
        ValueError, match=r"agreement=0.5 is for one run; the rows of two runs tell it"
    ):
        rows_needed(dict.fromkeys("ab", rows), 0.1, agreement=0.5)
    with pytest.raises(ValueError, match="difference=0 is out of range"):
        rows_needed({"a": rows}, 0)
    with pytest.raises(
        ValueError, match="difference=2 is more than values from 0 to 1 can differ"
    ):
        rows_needed({"a": rows}, 2)
