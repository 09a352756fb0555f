"""The studentised bootstrap: how far a resample's statistic is from that of all rows, in its own standard errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import combinations_with_replacement

import numpy as np

from tailmetrics.significance._statistics import Array, RatioOfSums

ROUNDING = 1e-9
"""What is smaller than this share is rounding alone."""


class Studentised:
    """A sum of ratios over units, which are rows or clusters: its standard error, and t-statistics of resamples.

    From each numerator the ratio of all units is taken off: a resample's ratio of what remains is its distance from
    the ratio of all, without the rounding of a difference. A resample's variance comes from sums of products of the
    columns, so that one matrix product gives it together with the ratios.

    Args:
        terms: The ratios and their signs.

    Attributes:
        columns: What is summed over the units of a resample, each of shape (U,).
        value: The sum of ratios over all units.
        error: Its standard error by the delta method, without a factor for few units.
    """

    def __init__(self, terms: Sequence[tuple[int, RatioOfSums]]) -> None:
        self._terms = terms
        self.value = float(sum(sign * ratio.value() for sign, ratio in terms))
        base = [column for _, ratio in terms for column in _centred(ratio)]
        self.columns = [*base, *(base[one] * base[other] for one, other in _pairs(len(base)))]
        totals = np.array([column.sum() for column in self.columns])
        self.error = float(self._distance_and_error(totals)[1])

    @property
    def units(self) -> int:
        """The number of units that have a denominator."""
        return int(np.logical_or.reduce([ratio.columns[1] != 0 for _, ratio in self._terms]).sum())

    @cached_property
    def agrees(self) -> bool:
        """Whether all units say the same, so that resamples have no spread."""
        sizes = [np.abs(ratio.columns[0]).sum() / ratio.columns[1].sum() for _, ratio in self._terms]
        return bool(self.error <= ROUNDING * max(sizes))

    @property
    def effective_units(self) -> float:
        """The number of units, fewer where some have most of the weight: (sum of weights)^2 / sum of their squares."""
        weights = [ratio.columns[1] for _, ratio in self._terms]
        return min(float(weight.sum() ** 2 / (weight**2).sum()) for weight in weights)

    @property
    def limits(self) -> tuple[float, float]:
        """The least and the greatest value that a resample can have."""
        low, high = 0.0, 0.0
        for sign, ratio in self._terms:
            numerator, denominator = (column[ratio.columns[1] != 0] for column in ratio.columns)
            ends = sorted(sign * end for end in ((numerator / denominator).min(), (numerator / denominator).max()))
            low, high = low + float(ends[0]), high + float(ends[1])
        return low, high

    def read(self, sums: Array) -> Array:
        """Return each resample's distance from the value of all units in its own standard errors, shape (...), >= 0.

        Infinite where a resample without spread lies elsewhere, NaN where it is undefined.
        """
        distance, error = self._distance_and_error(sums)
        spread = error > ROUNDING * self.error
        alike = np.where(distance <= ROUNDING * self.error, 0.0, np.inf)
        return np.where(np.isnan(distance), np.nan, np.where(spread, distance / np.where(spread, error, 1), alike))

    def _distance_and_error(self, sums: Array) -> tuple[Array, Array]:
        """Return the distance of the sums' ratios from those of all units, and its standard error, shape (...) each."""
        distance = np.zeros(sums.shape[:-1])
        slopes: list[Array] = []
        for term, (sign, _) in enumerate(self._terms):
            numerator, denominator = sums[..., 2 * term], sums[..., 2 * term + 1]
            distance = distance + sign * numerator / denominator
            slopes += [sign / denominator, -sign * numerator / denominator**2]
        variance = np.zeros(sums.shape[:-1])
        for place, (one, other) in enumerate(_pairs(len(slopes)), start=len(slopes)):
            variance = variance + (1 if one == other else 2) * slopes[one] * slopes[other] * sums[..., place]
        return np.abs(distance), np.sqrt(np.maximum(variance, 0))


def _centred(ratio: RatioOfSums) -> tuple[Array, Array]:
    numerator, denominator = ratio.columns
    return numerator - ratio.value() * denominator, denominator


def _pairs(number: int) -> Iterator[tuple[int, int]]:
    return combinations_with_replacement(range(number), 2)
