"""Statistics that see the rows only through sums over them, so that one matrix product resamples them all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Sums = Callable[[Array], Array]
"""Takes a column, shape (N,), to its sums over what is drawn together, shape (U,): rows, or clusters of rows."""


class Statistic(ABC):
    """A number made of sums over rows.

    Attributes:
        columns: What is summed, each of shape (U,), 0 where nothing counts.
    """

    columns: Sequence[Array]

    @abstractmethod
    def read(self, sums: Array) -> Array:
        """Return the statistic, shape (...), from the sums of the columns, shape (..., len(columns)); NaN if undefined.

        Called once with the sums over everything, and once with the sums of every resample.
        """

    @property
    def terms(self) -> Sequence[tuple[int, RatioOfSums]]:
        """The ratios of which this is the sum, each with its sign; none where it is not smooth."""
        return ()

    def value(self) -> float:
        """Return the statistic of all rows."""
        return float(self.read(np.array([column.sum() for column in self.columns])))


class RatioOfSums(Statistic):
    """Sum of numerators over sum of denominators; the mean when the denominator is 1 in each row that counts."""

    def __init__(self, numerator: Array, denominator: Array) -> None:
        self.columns = (numerator, denominator)

    def read(self, sums: Array) -> Array:
        return np.where(sums[..., 1] == 0, np.nan, sums[..., 0] / sums[..., 1])

    @property
    def terms(self) -> Sequence[tuple[int, RatioOfSums]]:
        return ((1, self),)


class Median(Statistic):
    """The middle value, the average of the two middle ones when their number is even.

    Args:
        values: Shape (N,).
        counted: Shape (N,), bool: the rows that count.
        candidates: Ascending values among which the median of any resample lies, see :func:`near_median`.
        sums: What is drawn together.
    """

    def __init__(self, values: Array, counted: NDArray[np.bool_], candidates: Array, sums: Sums = np.asarray) -> None:
        self.candidates = candidates
        below = [(counted & (values <= candidate)).astype(np.float64) for candidate in candidates]
        self.columns = [sums(column) for column in (*below, counted.astype(np.float64))]

    def read(self, sums: Array) -> Array:
        below, total = 2 * sums[..., :-1], sums[..., -1:]
        middle = (self._first(below >= total) + self._first(below > total)) / 2
        return np.where(total[..., 0] > 0, middle, np.nan)

    def _first(self, reached: NDArray[np.bool_]) -> Array:
        reached[..., -1] = True
        return np.asarray(self.candidates[reached.argmax(-1)])


class Difference(Statistic):
    """First statistic minus second, on the same rows."""

    def __init__(self, first: Statistic, second: Statistic) -> None:
        self.first, self.second = first, second
        self.columns = (*first.columns, *second.columns)

    def read(self, sums: Array) -> Array:
        split = len(self.first.columns)
        return self.first.read(sums[..., :split]) - self.second.read(sums[..., split:])

    @property
    def terms(self) -> Sequence[tuple[int, RatioOfSums]]:
        return (*self.first.terms, *((-sign, ratio) for sign, ratio in self.second.terms))


class Swapped:
    """First statistic minus second after some rows have changed sides, from sums over the rows that change."""

    def __init__(self, first: Statistic, second: Statistic) -> None:
        self.first, self.second = first, second
        self.columns = [a - b for a, b in zip(first.columns, second.columns, strict=True)]
        self._totals = [np.array([column.sum() for column in side.columns]) for side in (first, second)]

    def read(self, sums: Array) -> Array:
        """Return the difference, shape (...), from sums of shape (..., len(columns))."""
        return self.first.read(self._totals[0] - sums) - self.second.read(self._totals[1] + sums)


def difference(first: Statistic, second: Statistic) -> Statistic:
    """Return first minus second; one ratio of half as many sums where both share their denominators."""
    if isinstance(first, RatioOfSums) and isinstance(second, RatioOfSums):
        (a, denominator), (b, other) = first.columns, second.columns
        if np.array_equal(denominator, other):
            return RatioOfSums(a - b, denominator)
    return Difference(first, second)


def near_median(values: Array, sizes: Array | None = None) -> Array:
    """Return the distinct values that can be the median of a resample, ascending; [NaN] if there are no values.

    The number of resampled rows up to a value has a standard deviation of at most sqrt(n) / 2 about the middle, or
    sqrt(sum of squared sizes) / 2 where clusters are drawn; values ten of these away are left out. Whole numbers such
    as ranks leave a few; the work grows with how many remain.

    Args:
        values: Shape (n,).
        sizes: Number of rows of each cluster; None where rows are drawn.
    """
    if not values.size:
        return np.array([np.nan])
    distinct, counts = np.unique(values, return_counts=True)
    squares = values.size if sizes is None else (sizes**2).sum()
    middle, reach = values.size / 2, 5 * np.sqrt(squares)
    low, high = np.searchsorted(counts.cumsum(), [middle - reach, middle + reach])
    return np.asarray(distinct[low : high + 1])
