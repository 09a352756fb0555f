"""Blind spots: labels that are found significantly less often than the other labels of their bucket."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tailmetrics._arguments import check_counts, check_number
from tailmetrics.significance.comparing import correct
from tailmetrics.significance.influence import Array

CALLER = "blind_spots"


class BlindSpots(NamedTuple):
    """The test of each label against the other labels of its bucket.

    Attributes:
        listed: The blind spots: label ids, the least q first; of equal q, the least p.
        expected: Shape (L,), the hits of a label if it were found as often as the others; NaN without others.
        p: Shape (L,), the probability of at most so many hits; NaN for a label without rows.
        q: Shape (L,), p corrected for all labels that have rows, by Benjamini and Hochberg.
        too_few_rows: Shape (L,), bool: labels that could not be listed even if they had no hit.
    """

    listed: NDArray[np.int64]
    expected: Array
    p: Array
    q: Array
    too_few_rows: NDArray[np.bool_]


def blind_spots(
    hits: ArrayLike, support: ArrayLike, buckets: ArrayLike | None = None, level: float = 0.05
) -> BlindSpots:
    """Return the labels that are found significantly less often than the other labels of their bucket.

    With h hits in the n rows of a label, and H hits and S rows of all labels of its bucket, p is the probability of at
    most h successes in n trials of the probability (H - h) / (S - n). In a bucket of few labels the rate of the others
    is itself uncertain. So a blind spot has q <= level by this test, and by Fisher's exact test of its rows against
    those of the others. If all labels of a bucket are equally easy, at most a share ``level`` of reports names any.

    Args:
        hits: Shape (L,), in how many rows each label is found.
        support: Shape (L,), in how many rows each label is relevant.
        buckets: Shape (L,), the number of each label's bucket, from 0. None compares each label with all others.
        level: The expected share of blind spots that are none, at most.

    Raises:
        ValueError: If shapes differ, or if a label has more hits than rows.

    >>> found = blind_spots(hits=[20, 18, 19, 3], support=[30, 30, 30, 30])
    >>> found.listed.tolist(), found.expected[3].item()
    ([3], 19.0)

    Source: Benjamini and Hochberg, JRSS B 57 (1995); Fisher, The logic of inductive inference, JRSS 98 (1935).
    """
    check_number(CALLER, "level", level, 1e-9, 0.5)
    given = {"hits": hits, "support": support, "buckets": np.zeros_like(support) if buckets is None else buckets}
    h, n, bucket = (check_counts(CALLER, name, one).numpy() for name, one in given.items())
    if not h.size == n.size == bucket.size:
        raise ValueError(
            f"{CALLER}: hits, support and buckets are of {h.size}, {n.size} and {bucket.size} labels; pass one of each "
            "for each label."
        )
    if (h > n).any():
        label = int((h > n).argmax())
        raise ValueError(f"{CALLER}: label {label} has {h[label]} hits in {n[label]} rows; pass hits up to support.")
    from scipy.special import gammaln  # importing tailmetrics.significance needs no scipy
    from scipy.stats import binom, hypergeom

    hits_in, rows_in = (np.bincount(bucket, one).astype(np.int64)[bucket] for one in (h, n))
    others, found = rows_in - n, hits_in - h
    rate = np.divide(found, others, out=np.full(h.shape, np.nan), where=others > 0)
    has_rows = n > 0
    p = np.where(has_rows, np.where(others > 0, binom.cdf(h, n, np.nan_to_num(rate)), 1.0), np.nan)
    q = np.array(correct(p.tolist(), "bh"))
    # a label with a larger q does not pass Fisher's test either: his p of few hits is larger than p
    near = np.flatnonzero(q <= level)
    exact = np.where(has_rows, 1.0, np.nan)
    exact[near] = hypergeom.cdf(h[near], rows_in[near], hits_in[near], n[near])
    passed = near[np.array(correct(exact.tolist(), "bh"))[near] <= level]
    order = passed[np.lexsort([p[passed], q[passed]])]
    # one more label would be listed if its p were at most `limit`; the least p that Fisher's test gives is of no hit
    limit = level * (order.size + 1) / max(1, int(has_rows.sum()))
    misses = rows_in - found
    ways = gammaln(misses + 1) - gammaln(misses - n + 1) - gammaln(rows_in + 1) + gammaln(others + 1)
    too_few = ~has_rows | (np.exp(ways) > limit)
    too_few[order] = False
    return BlindSpots(order, n * rate, p, q, too_few)
