"""Blind spots are those of SciPy's binomial test; few reports name a label by chance,
most name a real blind spot.
"""

import math

import numpy as np
import pytest
from scipy.stats import binom, false_discovery_control, hypergeom

from benchmarks.claims import ALIKE, named_by_chance, named_rightly
from tailmetrics.significance import blind_spots


def draw(seed, labels=40, buckets=3, share=0.4):
    """Return hits, rows and buckets of labels, some without rows, and two that are
    seldom found.
    """
    rng = np.random.default_rng(seed)
    support, bucket = (
        rng.poisson(60, labels) * (rng.random(labels) < 0.9),
        rng.integers(buckets, size=labels),
    )
    rates = np.where(np.arange(labels) < 2, 0.1, share)
    return rng.binomial(support, rates), support, bucket


def median_rate(hits, support, bucket, label):
    """Return a list of the median rate of the other labels of a label's bucket, of
    which 5 hits are expected.
    """
    rates = []
    for other in np.flatnonzero(bucket == bucket[label]):
        others = (bucket == bucket[label]) & (np.arange(len(hits)) != other)
        if (
            support[other]
            and support[other] * hits[others].sum() / max(support[others].sum(), 1) >= 5
        ):
            rates.append((other, hits[other] / support[other]))
    if len(rates) < 3:
        return []
    others = [rate for other, rate in rates if other != label]
    return [np.median(others if len(rates) > 3 else [rate for _, rate in rates])]


@pytest.mark.parametrize("seed", range(20))
def test_blind_spots_equal_binomial_tests_corrected_by_benjamini_and_hochberg(seed):
    """p is that of the binomial test and q that of Benjamini and Hochberg, in plain
    loops over labels.

    A label is listed if Fisher's exact test, corrected likewise, agrees.
    """
    hits, support, bucket = draw(seed, labels=12 if seed % 2 else 40)
    p, exact = [], []
    for label, (h, n) in enumerate(zip(hits, support, strict=True)):
        others = [
            other
            for other in range(len(hits))
            if bucket[other] == bucket[label] and other != label
        ]
        other_hits, rows = sum(hits[others]), sum(support[others])
        rate = (
            min([other_hits / rows, *median_rate(hits, support, bucket, label)])
            if rows
            else 0.0
        )
        p.append(binom.cdf(h, n, rate) if rows else 1.0)
        exact.append(hypergeom.cdf(h, rows + n, other_hits + h, n))
    has_rows = support > 0
    q, exact_q = (
        false_discovery_control(np.clip(np.array(p_values)[has_rows], 0, 1))
        for p_values in (p, exact)
    )
    spots = blind_spots(hits, support, bucket)
    assert spots.q[has_rows] == pytest.approx(q, rel=1e-9)
    assert spots.p[has_rows] == pytest.approx(np.array(p)[has_rows], rel=1e-9)
    assert np.isnan(spots.q[~has_rows]).all()
    listed = np.flatnonzero(has_rows)[(q <= 0.05) & (exact_q <= 0.05)]
    assert {*spots.listed.tolist()} == {*listed.tolist()}
    assert spots.q[spots.listed].tolist() == sorted(spots.q[spots.listed])


def test_one_frequent_label_does_not_make_blind_spots_of_the_others():
    """30 equal labels beside a frequent one with a rate of 0.8 are no blind spots; a
    label below the 30 is one.
    """
    assert blind_spots([2400] + [60] * 30, [3000] + [100] * 30).listed.tolist() == []
    assert blind_spots(
        [2400] + [60] * 30 + [20], [3000] + [100] * 31
    ).listed.tolist() == [31]


def test_a_majority_that_is_found_less_often_is_no_blind_spot():
    """A majority of labels that is found less often is no blind spot: of 20 labels with
    a rate of 0.9 and 80 of 0.6, a report names at most one on average.
    """
    rng = np.random.default_rng(0)
    rates, support = np.repeat([0.9, 0.6], [20, 80]), np.full(100, 60)
    num_listed = [
        blind_spots(rng.binomial(support, rates), support).listed.size
        for _ in range(20)
    ]
    assert np.mean(num_listed) <= 1


def test_the_expected_hits_are_those_of_the_rate_of_the_others():
    """Expected hits are the rows times the rate of the other labels of the bucket: 19
    of 30, where the others have 57 of 90. A median rate below that is used: 20 of 30. A
    label alone in its bucket has no expectation.
    """
    spots = blind_spots([17, 20, 20, 3, 7], [30, 30, 30, 30, 10], [0, 0, 0, 0, 1])
    assert spots.expected[3] == 19
    skewed = blind_spots([290, 20, 20, 3], [300, 30, 30, 30])
    assert skewed.expected[3] == pytest.approx(20)
    assert math.isnan(spots.expected[4])
    assert spots.p[4] == 1
    assert spots.listed.tolist() == [3]


@pytest.mark.parametrize("seed", range(4))
def test_too_few_rows_means_not_listed_even_without_a_hit(seed):
    """A label has too few rows if it would not be listed even without a hit.

    Each label in turn loses all its hits, and is then listed unless it has too few
    rows.
    """
    rng = np.random.default_rng(seed)
    support, bucket = rng.integers(0, 40, 60), np.arange(60) % 2
    hits = rng.binomial(support, np.where(bucket, 0.3, 0.6))
    spots = blind_spots(hits, support, bucket)
    assert 0 < spots.too_few_rows.sum() < 60
    for label in range(60):
        without = hits.copy()
        without[label] = 0
        assert (label in blind_spots(without, support, bucket).listed) == (
            not spots.too_few_rows[label]
        ), label


@pytest.mark.parametrize(("labels", "buckets", "rows"), ALIKE, ids=str)
@pytest.mark.slow
def test_few_reports_name_a_label_where_all_labels_of_a_bucket_are_alike(
    labels, buckets, rows
):
    """At most 5 % of 500 reports name a label if all labels of a bucket are equal,
    within two standard errors, for buckets of two labels and for skewed supports.
    """
    assert named_by_chance(labels, buckets, rows, 500) <= 0.05 + 2 * math.sqrt(
        0.05 * 0.95 / 500
    )


@pytest.mark.slow
def test_a_label_found_half_as_often_in_60_rows_is_mostly_named():
    """At least half of 200 reports name a label with a rate of 0.3 in 60 rows, where
    the 99 other labels of its bucket have 0.6.
    """
    assert named_rightly(200) >= 0.5


def test_blind_spots_refuses_impossible_counts():
    """blind_spots refuses more hits than rows, arrays of different shapes, and
    fractions. No labels are accepted.
    """
    with pytest.raises(
        ValueError, match="label 1 has 4 hits in 3 rows; pass hits up to support"
    ):
        blind_spots([1, 4], [1, 3])
    with pytest.raises(
        ValueError, match="are of 2, 3 and 3 labels; pass one of each for each label"
    ):
        blind_spots([1, 1], [1, 1, 1])
    with pytest.raises(TypeError, match="blind_spots: hits is .*pass whole numbers"):
        blind_spots([0.5], [1])
    assert blind_spots(np.zeros(0, int), np.zeros(0, int)).listed.size == 0
