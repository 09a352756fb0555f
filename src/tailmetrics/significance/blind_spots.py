"""Blind spots: labels that are found significantly less often than others like them.

The others are the other labels of their bucket.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tailmetrics._arguments import check_counts, check_number
from tailmetrics._extras import names_missing_extra
from tailmetrics.significance.comparing import correct
from tailmetrics.significance.influence import Array, Flags, Ints

CALLER = "blind_spots"
FEWEST_HITS = 5
"""The fewest expected hits with which a label counts in the median rate of its bucket.

Few rows give no rate.
"""
FEWEST_LABELS = 3
"""A bucket has a median rate if so many labels count in it."""


class BlindSpots(NamedTuple):
    """The test of each label against the other labels of its bucket.

    Attributes:
        listed: The blind spots: label ids, the least q first; of equal q, the least p.
        expected: Shape (L,), the hits of a label if it were found as often as the
            others' rows, or as often as half of the labels, whichever is less; NaN
            without others.
        p: Shape (L,), the probability of at most so many hits; NaN without rows.
        q: Shape (L,), p corrected for all labels with rows (Benjamini and Hochberg).
        too_few_rows: Shape (L,), bool: labels that could not be listed even if they had
            no hit.
    """

    listed: Ints
    expected: Array
    p: Array
    q: Array
    too_few_rows: Flags


@names_missing_extra
def blind_spots(
    hits: ArrayLike,
    support: ArrayLike,
    buckets: ArrayLike | None = None,
    level: float = 0.05,
) -> BlindSpots:
    """Return labels found significantly less often than the others of their bucket.

    A blind spot is found less often than two rates: that of the rows of all other
    labels of its bucket, and the median rate of these labels. One frequent label that
    is found often raises the first rate, but not the second. The median is over labels
    of which at least 5 hits are expected, if the bucket has 3 such labels.

    With h hits in the n rows of a label, p is the probability of at most h successes in
    n trials of the smaller rate. In a bucket of few labels the rate of the others is
    itself uncertain. So a blind spot has q <= level by this test, and by Fisher's exact
    test of its rows against those of the others. If all labels of a bucket are equally
    easy, at most a share ``level`` of reports names any.

    Args:
        hits: Shape (L,), in how many rows each label is found.
        support: Shape (L,), in how many rows each label is relevant. Count only rows
            that hold at most as many labels as a list has places: no list of 5 finds
            all of 15 labels.
        buckets: Shape (L,), the number of each label's bucket, from 0. None compares
            each label with all others.
        level: The expected share of blind spots that are none, at most.

    Raises:
        ValueError: If shapes differ, or if a label has more hits than rows.

    >>> spots = blind_spots(hits=[20, 18, 19, 3], support=[30, 30, 30, 30])
    >>> spots.listed.tolist(), spots.expected[3].item()
    ([3], 19.0)

    Source: Benjamini and Hochberg, JRSS B 57 (1995); Fisher, The logic of inductive
    inference, JRSS 98 (1935).
    """
    # importing tailmetrics.significance needs no scipy
    from scipy.stats import binom, hypergeom

    check_number(CALLER, "level", level, 1e-9, 0.5)
    label_hits, rows, bucket = _read(hits, support, buckets)
    bucket_hits = np.bincount(bucket, label_hits).astype(np.int64)[bucket]
    bucket_rows = np.bincount(bucket, rows).astype(np.int64)[bucket]
    other_rows = bucket_rows - rows
    other_rate = np.full(rows.shape, np.nan)
    np.divide(
        bucket_hits - label_hits, other_rows, out=other_rate, where=other_rows > 0
    )
    rate = np.fmin(other_rate, _median_rates(label_hits, rows, bucket, other_rate))

    has_rows, has_others = rows > 0, other_rows > 0
    p = np.where(has_others, binom.cdf(label_hits, rows, np.nan_to_num(rate)), 1.0)
    p = np.where(has_rows, p, np.nan)
    q = np.array(correct(p.tolist(), "bh"))
    # a label with a larger q does not pass Fisher's test either: its p of few hits is
    # larger than p
    near = np.flatnonzero(q <= level)
    fisher_p = np.where(has_rows, 1.0, np.nan)
    fisher_p[near] = hypergeom.cdf(
        label_hits[near], bucket_rows[near], bucket_hits[near], rows[near]
    )
    passed = near[np.array(correct(fisher_p.tolist(), "bh"))[near] <= level]
    listed = passed[np.lexsort([p[passed], q[passed]])]

    # one more label would be listed if its p were at most `limit`
    limit = level * (listed.size + 1) / max(1, int(has_rows.sum()))
    too_few = ~has_rows | (
        _least_p(rows, bucket_rows, bucket_hits - label_hits, rate) > limit
    )
    too_few[listed] = False
    return BlindSpots(listed, rows * rate, p, q, too_few)


def _read(
    hits: ArrayLike, support: ArrayLike, buckets: ArrayLike | None
) -> tuple[Ints, Ints, Ints]:
    """Return hits, rows and buckets of the labels, of one length."""
    if buckets is None:
        buckets = np.zeros_like(support)
    label_hits = check_counts(CALLER, "hits", hits).numpy()
    rows = check_counts(CALLER, "support", support).numpy()
    bucket = check_counts(CALLER, "buckets", buckets).numpy()
    if not label_hits.size == rows.size == bucket.size:
        raise ValueError(
            f"{CALLER}: hits, support and buckets are of {label_hits.size}, "
            f"{rows.size} and {bucket.size} labels; pass one of each for each label."
        )
    too_many = label_hits > rows
    if too_many.any():
        label = int(too_many.argmax())
        raise ValueError(
            f"{CALLER}: label {label} has {label_hits[label]} hits in {rows[label]} "
            "rows; pass hits up to support."
        )
    return label_hits, rows, bucket


def _median_rates(hits: Ints, rows: Ints, buckets: Ints, other_rate: Array) -> Array:
    """Return for each label the median rate of its bucket's others, shape (L,).

    NaN where too few labels count.
    """
    is_measured = (rows > 0) & (rows * np.nan_to_num(other_rate) >= FEWEST_HITS)
    rates = np.zeros(hits.shape)
    np.divide(hits, rows, out=rates, where=rows > 0)
    medians = np.full(hits.shape, np.nan)
    for bucket in np.unique(buckets):
        labels = np.flatnonzero(buckets == bucket)
        measured = labels[is_measured[labels]]
        measured = measured[np.argsort(rates[measured], kind="stable")]
        if measured.size < FEWEST_LABELS:
            continue
        medians[labels] = np.median(rates[measured])
        if measured.size > FEWEST_LABELS:
            medians[measured] = _medians_without_one(rates[measured])
    return medians


def _medians_without_one(ascending: Array) -> Array:
    """Return for each of some ascending values the median of the other values."""
    size = ascending.size - 1
    places = np.arange(ascending.size)
    lower, upper = (size - 1) // 2, size // 2
    # without a value at or below a place, the value of the next place stands there
    low = ascending[np.where(places <= lower, lower + 1, lower)]
    high = ascending[np.where(places <= upper, upper + 1, upper)]
    return np.asarray((low + high) / 2)


def _least_p(rows: Ints, bucket_rows: Ints, other_hits: Ints, rate: Array) -> Array:
    """Return the larger p of both tests for a label without a hit, shape (L,)."""
    from scipy.special import gammaln

    other_rows, misses = bucket_rows - rows, bucket_rows - other_hits
    ways = (
        gammaln(misses + 1)
        - gammaln(misses - rows + 1)
        - gammaln(bucket_rows + 1)
        + gammaln(other_rows + 1)
    )
    return np.asarray(np.maximum(np.exp(ways), (1 - np.nan_to_num(rate)) ** rows))
