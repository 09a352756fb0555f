"""Averages over labels at half of the rows: they move with the number of rows, because labels come and go."""

from __future__ import annotations

from math import fsum, isnan

import numpy as np

from tailmetrics.significance.influence import Ints
from tailmetrics.significance.labels import OverLabels

SPLITS = 8
"""How often the rows are split: the halves of one split differ by chance as much as an interval is wide."""


def at_half_the_rows(label_rows: OverLabels) -> float:
    """Return the value at half of the rows: the mean over the halves of eight splits.

    The half of a row does not depend on its value: rows with equal values are divided as by chance. So that the order
    of rows changes nothing, rows are sorted by a hash of what they add. A hash of the place in this order tells the
    half.
    """
    rows, numbers = label_rows.content()
    row_hashes = np.zeros(label_rows.inside.size, np.int64)
    np.add.at(row_hashes, rows, mixed(numbers))
    bits = np.empty_like(row_hashes)
    bits[np.argsort(row_hashes, kind="stable")] = mixed(np.arange(row_hashes.size))

    values = []
    for split in range(SPLITS):
        first_half = (bits >> split & 1) == 0
        for half in (first_half, ~first_half):
            value = label_rows.among(half).value()
            if not isnan(value):
                values.append(value)
    if not values:
        return float("nan")
    return fsum(values) / len(values)


def mixed(numbers: Ints) -> Ints:
    """Return int64 hashes, of which every bit depends on every bit of the given number.

    Source: the finaliser of SplitMix64; Steele, Lea and Flood, Fast splittable pseudorandom number generators (2014).
    """
    hashes = numbers.astype(np.uint64)  # a shift puts zeros in from the left
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        hashes ^= hashes >> shift
        hashes *= factor
    hashes ^= hashes >> 31
    return hashes.view(np.int64)
