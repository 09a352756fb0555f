"""Averages over labels at half of the rows.

They depend on the number of rows, because labels come and go.
"""

from __future__ import annotations

from math import fsum, isnan

import numpy as np

from tailmetrics.significance.influence import Ints, units_of_rows
from tailmetrics.significance.labels import OverLabels

SPLITS = 8
"""How often the rows are split.

The halves of one split differ by chance as much as an interval is wide.
"""


def at_half_the_rows(label_rows: OverLabels, clusters: Ints | None = None) -> float:
    """Return the value at half of the rows, or of the clusters.

    It is the mean over the halves of eight splits. The half of a unit, a row or a
    cluster, does not depend on its value: units with equal values are divided as by
    chance. So that the order of rows changes nothing, units are sorted by a hash of
    what they add. A hash of the place in this order tells the half.

    Args:
        label_rows: The contributions of rows.
        clusters: Shape (N,), the cluster of each row, from 0; None for single rows.
    """
    unit_of_row = units_of_rows(label_rows.inside.size, clusters)
    rows, numbers = label_rows.content()
    unit_hashes = np.zeros(int(unit_of_row.max(initial=-1)) + 1, np.int64)
    np.add.at(unit_hashes, unit_of_row[rows], mixed(numbers))
    bits = np.empty_like(unit_hashes)
    bits[np.argsort(unit_hashes, kind="stable")] = mixed(np.arange(unit_hashes.size))
    bits_of_rows = bits[unit_of_row]

    values = []
    for split in range(SPLITS):
        first_half = (bits_of_rows >> split & 1) == 0
        for half in (first_half, ~first_half):
            value = label_rows.among(half).value()
            if not isnan(value):
                values.append(value)
    if not values:
        return float("nan")
    return fsum(values) / len(values)


def mixed(numbers: Ints) -> Ints:
    """Return int64 hashes, of which every bit depends on every bit of the given number.

    Source: the finaliser of SplitMix64; Steele, Lea and Flood, Fast splittable
    pseudorandom number generators (2014).
    """
    hashes = numbers.astype(np.uint64)  # a shift puts zeros in from the left
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        hashes ^= hashes >> shift
        hashes *= factor
    hashes ^= hashes >> 31
    return hashes.view(np.int64)
