"""The randomisation test: results of two models are swapped within rows or clusters.

A swap exchanges the results of both models in some rows, or in whole clusters. The
statistic of each model is computed again, and T is the difference. Swapping all rows
changes only the sign of T, so half of the swaps tells all. Where few rows differ, the
test goes through all swaps; otherwise it draws some at random.

All keys of a pair of models share the swaps. So the largest difference of all keys has
a distribution of its own, which corrects for the number of keys without assuming that
they are independent (:func:`step_down`).

Source: Noreen, Computer-intensive methods for testing hypotheses (1989), and Yeh,
COLING 2000, for swapping under ratios; Westfall and Young, Resampling-based multiple
testing (1993), for the correction; Besag and Clifford, Sequential Monte Carlo p-values,
Biometrika 78 (1991), for ending early; Lancaster, JASA 56 (1961), for mid-p; Phipson
and Smyth, SAGMB 9 (2010), for counting the observed difference among random swaps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, isfinite, log2, nan
from typing import Any, Protocol

import numpy as np

from tailmetrics.significance.areas import AreaRows
from tailmetrics.significance.influence import Array, Flags, Ints
from tailmetrics.significance.labels import LabelRows, OverLabels, ShownRows
from tailmetrics.significance.resampling import Median, Ratios
from tailmetrics.significance.rows import Clusters

ALL_SWAPS = 2**12
"""The most swaps for which the test goes through all of them.

It also does if they are at most as many as random swaps would be drawn.
"""
BLOCK = 2**21
"""The most values of units, or of labels, of all swaps in memory at a time.

An array of them takes 16 MB.
"""
LONG = 2 * 10**8
"""The most values of units and labels of all swaps for a test that cannot end early.

Longer tests would take at least 5 seconds, and may end early.
"""
ENOUGH_AS_FAR = 20
"""The swaps as far as the models, for each key, after which a long test ends."""
ROUNDING = 1e-9
"""Differences that are apart by less than this share of the largest are equal."""
ZERO = 1e-12
"""A difference below this share of the values of both models is 0."""


class Swapped(Protocol):
    """The difference of two models by one key, as a function of the swapped units.

    Attributes:
        differing: Shape (U,), bool: the units in which the models differ.
        columns: Shape (U, C): columns whose sums over the swapped units are needed.
        size: The number of values in memory for each swap.
        scale: The size of the values of both models: far smaller differences are
            rounding errors.
    """

    differing: Flags
    columns: Array
    size: int
    scale: float

    def differences(self, swaps: Array, sums: Array) -> Array:
        """Return the difference for each swap, shape (S,).

        Args:
            swaps: Shape (S, U), 1 where a unit is swapped, else 0.
            sums: Shape (S, C), the sums of ``columns`` over the swapped units.
        """


class SwappedSums:
    """The difference of two statistics of sums: means, ratios, gaps and medians.

    The sums are over units.
    """

    def __init__(self, first: Ratios | Median, second: Ratios | Median) -> None:
        self._first, self._second = first, second
        self._first_sums = np.array([column.sum() for column in first.columns])
        self._second_sums = np.array([column.sum() for column in second.columns])

        # swapping a unit subtracts these changes from the sums of the first statistic,
        # and adds them to the second
        column_changes = map(np.subtract, first.columns, second.columns)
        changes = np.stack(list(column_changes), axis=1)
        self._moving = np.flatnonzero(changes.any(axis=0))
        self.columns = changes.take(self._moving, axis=1)
        self.differing: Flags = (self.columns != 0).any(axis=1)
        self.size = self._moving.size
        first_value = float(first.read(self._first_sums))
        second_value = float(second.read(self._second_sums))
        self.scale = abs(first_value) + abs(second_value)

    def differences(self, swaps: Array, sums: Array) -> Array:
        """Return the difference for each swap, shape (S,)."""
        moved = np.zeros((len(swaps), self._first_sums.size))
        moved[:, self._moving] = sums
        first_values = self._first.read(self._first_sums - moved)
        second_values = self._second.read(self._second_sums + moved)
        return first_values - second_values


class SwappedLabels:
    """The difference of two averages over labels, or functions of the labels shown.

    Swapping a row moves hits, predictions and support of its labels between the models.
    Both averages are computed again from the moved counts. Labels that no differing row
    touches add a constant.
    """

    def __init__(
        self,
        first: LabelRows | ShownRows,
        second: LabelRows | ShownRows,
        clusters: Clusters | None,
    ) -> None:
        self._first, self._second = first, second
        changes = _changes_of_counts(first, second, clusters)
        changes_per_unit = np.diff(changes.tocsc().indptr)
        self.differing: Flags = changes_per_unit > 0
        self.columns = np.zeros((self.differing.size, 0))

        # a touched label may change in any of the three counts
        changes_per_count = np.diff(changes.indptr).reshape(3, first.num_labels)
        is_touched = changes_per_count.any(axis=0) | first.needs_all_labels
        labels, other_labels = np.flatnonzero(is_touched), np.flatnonzero(~is_touched)
        self.size = 3 * labels.size
        self._labels = labels
        self._changes = changes[np.flatnonzero(np.tile(is_touched, 3))]

        first_counts, second_counts = first.counts(), second.counts()
        self._first_counts = first_counts[:, labels]
        self._second_counts = second_counts[:, labels]
        self._constant: Array | float = 0.0
        if other_labels.size:
            self._constant = first.sums(first_counts[:, other_labels], other_labels)
        self.scale = abs(first.value()) + abs(second.value())

    def differences(self, swaps: Array, sums: Array) -> Array:
        """Return the difference for each swap, shape (S,)."""
        moved = np.asarray(self._changes @ swaps.T).T.reshape(
            len(swaps), 3, self._labels.size
        )
        first_sums = self._constant + self._first.sums(
            self._first_counts + moved, self._labels
        )
        second_sums = self._constant + self._second.sums(
            self._second_counts - moved, self._labels
        )
        return self._first.value_of_sums(first_sums) - self._second.value_of_sums(
            second_sums
        )


def _changes_of_counts(
    first: LabelRows | ShownRows,
    second: LabelRows | ShownRows,
    clusters: Clusters | None,
) -> Any:
    """Return what swapping each unit adds to the counts of the first model.

    The result is a sparse matrix of shape (3 L, U).
    """
    # importing tailmetrics.significance needs no scipy
    from scipy.sparse import csr_matrix

    num_labels, num_rows = first.num_labels, first.inside.size
    num_units, unit_of_row = num_rows, np.arange(num_rows)
    if clusters is not None:
        num_units, unit_of_row = clusters.number, clusters.codes

    places, units, amounts = [], [], []
    for model, amount in ((first, -1.0), (second, 1.0)):
        for count, flags in enumerate(model.flags()):
            rows, labels = model.rows[flags], model.labels[flags]
            places.append(count * num_labels + labels)
            units.append(unit_of_row[rows])
            amounts.append(np.full(rows.size, amount))
    coordinates = np.concatenate(places), np.concatenate(units)
    changes = csr_matrix(
        (np.concatenate(amounts), coordinates), shape=(3 * num_labels, num_units)
    )
    changes.eliminate_zeros()
    return changes


class SwappedAreas:
    """The difference of two averages of areas over labels.

    See :meth:`AreaRows.shares_of_difference`.
    """

    def __init__(
        self, first: AreaRows, second: AreaRows, clusters: Clusters | None
    ) -> None:
        shares = first.shares_of_difference(second)
        if clusters is not None:
            shares = clusters.sums(shares)
        self._total = float(shares.sum())
        self.columns = shares[:, None]
        self.differing: Flags = shares != 0
        self.size = 1
        self.scale = 1.0

    def differences(self, swaps: Array, sums: Array) -> Array:
        """Return the difference for each swap, shape (S,)."""
        return np.asarray(self._total - 2 * sums[:, 0])


class SwappedGap:
    """The difference of two gaps.

    It is the difference in the first bucket minus the difference in the last bucket.
    """

    def __init__(self, first: Swapped, last: Swapped) -> None:
        self._first, self._last = first, last
        self.differing: Flags = first.differing | last.differing
        self.columns = np.concatenate([first.columns, last.columns], axis=1)
        self.size = first.size + last.size
        self.scale = first.scale + last.scale

    def differences(self, swaps: Array, sums: Array) -> Array:
        """Return the difference for each swap, shape (S,)."""
        num_first_columns = self._first.columns.shape[1]
        in_first = self._first.differences(swaps, sums[:, :num_first_columns])
        in_last = self._last.differences(swaps, sums[:, num_first_columns:])
        return in_first - in_last


def swapped_labels(
    first: OverLabels, second: OverLabels, clusters: Clusters | None
) -> Swapped | None:
    """Return the difference of two averages over labels under swaps.

    None if both number their labels differently. Equal rows hold equal labels, so that
    other labels in equal rows show other numbers.
    """
    inside = first.inside & second.inside
    first, second = first.among(inside), second.among(inside)
    if isinstance(first, AreaRows):
        assert isinstance(second, AreaRows)
        if not np.array_equal(first.relevant[inside], second.relevant[inside]):
            return None
        return SwappedAreas(first, second, clusters)
    assert not isinstance(second, AreaRows)
    if first.num_labels != second.num_labels:
        return None
    if isinstance(first, LabelRows) and not _have_same_targets(first, second):
        return None
    return SwappedLabels(first, second, clusters)


def _have_same_targets(first: LabelRows, second: LabelRows | ShownRows) -> bool:
    """Whether each label of a row is relevant in both models, or in neither."""
    relevant = _cells(first, first.relevant)
    other_relevant = _cells(second, second.relevant)
    # the rows lack relevant labels that they do not predict
    if not first.reads_support:
        predicted_by_both = np.intersect1d(
            _cells(first, first.predicted), _cells(second, second.predicted)
        )
        relevant = np.intersect1d(relevant, predicted_by_both)
        other_relevant = np.intersect1d(other_relevant, predicted_by_both)
    return np.array_equal(relevant, other_relevant)


def _cells(model: LabelRows | ShownRows, flags: Flags) -> Ints:
    """Return a number for row and label of each flagged cell, in ascending order."""
    return np.sort(model.rows[flags] * model.num_labels + model.labels[flags])


@dataclass(frozen=True)
class SwapDraws:
    """The differences of some keys under swaps.

    Attributes:
        differences: Shape (K, S): the difference of each key for each swap.
        observed: Shape (K,): the difference without a swap.
        exact: Whether the swaps are all swaps, except for the sign of the difference.
    """

    differences: Array
    observed: Array
    exact: bool

    def of_keys(self, keys: Sequence[int]) -> SwapDraws:
        """Return the differences of some of the keys."""
        return SwapDraws(self.differences[keys], self.observed[keys], self.exact)

    def p_value(self, key: int, mid: bool) -> float:
        """Return the p-value of a key alone; ``mid`` tells whether it is a mid-p."""
        return share_as_far(
            self.differences[key], float(self.observed[key]), self.exact, mid
        )

    def scaled(self) -> tuple[Array, Array]:
        """Return the distances from 0 of the models, (K,), and of swaps, (K, S).

        They are in standard deviations under swaps. They are NaN for a key that no swap
        changes. The difference of a swap that is NaN counts as infinite. Among random
        swaps, the observed difference is one of those that give the standard deviation:
        otherwise each swap would shrink its own distance, and the models would look
        farther apart than any swap of equal models.
        """
        differences = self.differences
        if not self.exact:
            differences = np.concatenate([differences, self.observed[:, None]], axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            num_differences = np.sum(~np.isnan(differences), axis=1)
            variances = np.nansum(differences**2, axis=1) / num_differences
            deviations = np.sqrt(variances)
            observed = np.abs(self.observed) / deviations
            distances = np.abs(self.differences) / deviations[:, None]
        is_undefined = np.isnan(distances) & np.isfinite(observed)[:, None]
        return observed, np.where(is_undefined, np.inf, distances)

    def largest(self) -> Array:
        """Return the largest distance of the keys under each swap, shape (S,).

        It is in standard deviations.
        """
        _, distances = self.scaled()
        return np.asarray(np.nanmax(distances, axis=0, initial=0.0))

    def quantile(self, key: int, confidence: float) -> float:
        """Return the smallest q that at most 1 - confidence of a key's swaps exceed."""
        distances = np.sort(np.abs(self.differences[key]))
        place = int(np.ceil(confidence * distances.size - ROUNDING)) - 1
        return float(distances[max(place, 0)])


def swap_test(statistics: Sequence[Swapped], swaps: int, seed: int) -> SwapDraws:
    """Return the differences of some keys under the same swaps.

    These are all swaps, if there are few.

    Args:
        statistics: The difference of each key as a function of the swapped units, all
            of the same units.
        swaps: Number of random swaps.
        seed: The same seed gives the same swaps.
    """
    num_units = statistics[0].differing.size
    differing = np.flatnonzero(
        np.any([statistic.differing for statistic in statistics], axis=0)
    )
    sizes = [statistic.size for statistic in statistics]
    swaps_in_block = max(1, BLOCK // max(1, num_units, *sizes))
    exact = differing.size <= log2(max(swaps, ALL_SWAPS))
    if exact:
        blocks = _all_swaps(differing, num_units, swaps_in_block)
    else:
        blocks = _random_swaps(num_units, swaps, seed, swaps_in_block)

    no_swap = np.zeros((1, num_units))
    observed = _differences(statistics, no_swap)[:, 0]
    nearly_observed = np.abs(observed)[:, None] * (1 - ROUNDING)
    may_end_early = not exact and swaps * sum(sizes) > LONG
    num_as_far = np.zeros(len(statistics))
    parts: list[Array] = []
    for block in blocks:
        differences = _differences(statistics, block)
        parts.append(differences)
        num_as_far += (np.abs(differences) >= nearly_observed).sum(axis=1)
        if may_end_early and num_as_far.min() >= ENOUGH_AS_FAR:
            break
    return SwapDraws(np.concatenate(parts, axis=1), observed, exact)


def _differences(statistics: Sequence[Swapped], swaps: Array) -> Array:
    """Return the differences of all keys, shape (K, S).

    One matrix product gives the sums of all keys.
    """
    columns = np.concatenate([statistic.columns for statistic in statistics], axis=1)
    sums = swaps @ columns
    differences = np.empty((len(statistics), len(swaps)))
    start = 0
    for key, statistic in enumerate(statistics):
        end = start + statistic.columns.shape[1]
        key_differences = statistic.differences(swaps, sums[:, start:end])
        is_zero = np.abs(key_differences) <= ZERO * statistic.scale
        differences[key] = np.where(is_zero, 0.0, key_differences)
        start = end
    return differences


def _all_swaps(differing: Ints, num_units: int, size: int) -> Iterator[Array]:
    """Yield all swaps of the units that differ, in blocks of ``size``.

    The first of these units is never swapped. Swap i swaps the units whose bit in the
    binary number i is 1.
    """
    units = differing[1:]
    bits = np.arange(units.size)
    num_swaps = 2**units.size
    for start in range(0, num_swaps, size):
        numbers = np.arange(start, min(start + size, num_swaps))
        swaps = np.zeros((numbers.size, num_units))
        swaps[:, units] = (numbers[:, None] >> bits) & 1
        yield swaps


def _random_swaps(num_units: int, number: int, seed: int, size: int) -> Iterator[Array]:
    """Yield random swaps in blocks of ``size``.

    Each unit is swapped with probability 1/2.
    """
    rng = np.random.default_rng([seed, 1])
    # whole words for each swap: the stream must not depend on the size of a block
    num_words = ceil(num_units / 64)
    num_bytes = 8 * num_words
    for start in range(0, number, size):
        num_swaps = min(size, number - start)
        packed_bits = np.frombuffer(rng.bytes(num_bytes * num_swaps), np.uint8).reshape(
            num_swaps, num_bytes
        )
        bits = np.unpackbits(packed_bits, axis=1, count=num_units)
        yield bits.astype(np.float64)


def share_as_far(
    null: Array, observed: float, exact: bool = False, mid: bool = True
) -> float:
    """Return the share of the null distribution at least as far from 0 as observed.

    ``observed`` is the difference of the models.

    Distances that differ by rounding alone are equal. If ``mid``, a distance equal to
    the observed distance counts half. NaN counts as farther. Unless the distribution is
    ``exact``, the observed difference counts as one of it.
    """
    if not isfinite(observed):
        return nan
    distances = np.abs(null)
    distance = abs(observed)
    largest = max(distance, float(np.nanmax(distances, initial=0)))
    rounding = ROUNDING * largest
    if distance <= rounding:
        return 1.0
    is_nearer = distances < distance - rounding
    num_as_far = float(null.size - is_nearer.sum())
    if mid:
        is_equal = np.abs(distances - distance) <= rounding
        num_as_far -= float(is_equal.sum()) / 2
    if exact:
        return num_as_far / null.size
    return (num_as_far + 1) / (null.size + 1)


def step_down(draws: SwapDraws, mid: Sequence[bool]) -> list[float]:
    """Return p-values that are corrected for the number of keys.

    A p-value is the chance that the largest difference is as large. Each difference is
    divided by its standard deviation under swaps. The key with the largest one is
    compared with the largest of all keys under each swap, the next key with the largest
    of the remaining keys, and so on. The chance of any false finding is at most the
    level, whatever the keys have to do with one another.

    Args:
        draws: The differences of the keys under swaps.
        mid: For each key, whether its p-value is a mid-p.
    """
    observed, distances = draws.scaled()
    p_values = np.full(observed.size, nan)
    p_values[np.isfinite(draws.observed)] = 1.0  # of keys that no swap changes
    tested_keys = np.flatnonzero(np.isfinite(observed))
    ascending = tested_keys[np.argsort(observed[tested_keys], kind="stable")]
    largest = np.zeros(distances.shape[1])  # of the keys so far, under each swap
    for key in ascending:
        largest = np.maximum(largest, distances[key])
        p_values[key] = share_as_far(
            largest, float(observed[key]), draws.exact, mid[key]
        )

    # no p-value is below the p-value of a larger difference
    descending = ascending[::-1]
    p_values[descending] = np.maximum.accumulate(p_values[descending])
    corrected: list[float] = p_values.tolist()
    return corrected
