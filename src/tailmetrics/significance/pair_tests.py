"""The randomisation test of a pair of models by many keys, which share swaps."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import log2, nan

import numpy as np

from tailmetrics.significance.estimating import Estimate, rows_of_terms
from tailmetrics.significance.interval import FEW, Interval, unit_names
from tailmetrics.significance.resampling import statistics_of_sides
from tailmetrics.significance.rows import Clusters, KeyRows
from tailmetrics.significance.swapping import (
    ALL_SWAPS,
    SwapDraws,
    Swapped,
    SwappedGap,
    SwappedSums,
    step_down,
    swap_test,
    swapped_labels,
)

OTHER_NUMBERS = "the runs number their labels differently; compare their predictions, which are read together"
"""Why an average over labels of two tables has no test."""
NO_DRAWS = SwapDraws(np.zeros((0, 0)), np.zeros(0), exact=True)
"""The differences of no keys."""


@dataclass(frozen=True)
class PairTest:
    """The randomisation test of one pair of models.

    Attributes:
        places: Key -> its place in ``draws``; a key without a test is left out.
        differing: Key -> the number of rows or clusters in which the models differ by it.
        draws: The differences of the keys under the same swaps; :data:`NO_DRAWS` if no key has a test.
        single_draws: Key -> its differences under all swaps, if these are few, although those of ``draws`` are not.
        mid: For each place, whether the p-value is a mid-p.
    """

    places: Mapping[str, int]
    differing: Mapping[str, int]
    draws: SwapDraws
    single_draws: Mapping[str, SwapDraws]
    mid: Sequence[bool]

    @classmethod
    def of_pair(
        cls,
        sides: Mapping[str, tuple[KeyRows, KeyRows]],
        clusters: Clusters | None,
        tested: Collection[str],
        swaps: int,
        seed: int,
    ) -> PairTest:
        """Swap the results of two models.

        Args:
            sides: Key -> the values of both models.
            clusters: Clusters that are swapped together.
            tested: The keys that are tested; the others need swaps for their intervals alone.
            swaps: Number of random swaps.
            seed: The same seed gives the same swaps.
        """
        places: dict[str, int] = {}
        differing: dict[str, int] = {}
        statistics: list[Swapped] = []
        mid: list[bool] = []
        for key, key_sides in sides.items():
            statistic = _swapped(key_sides, clusters)
            if statistic is None or (key not in tested and not key_sides[0].label_rows):
                continue
            places[key] = len(statistics)
            differing[key] = int(statistic.differing.sum())
            statistics.append(statistic)
            mid.append(key_sides[0].kind != "median")

        draws = NO_DRAWS
        single_draws: dict[str, SwapDraws] = {}
        if statistics:
            draws = swap_test(statistics, swaps, seed)
            for key, place in places.items():
                if not draws.exact and differing[key] <= log2(ALL_SWAPS):
                    single_draws[key] = swap_test([statistics[place]], swaps, seed)
        return cls(places, differing, draws, single_draws, mid)

    def num_swaps(self, key: str) -> int:
        """Return the number of random swaps of a key; 0 if its test went through all swaps."""
        if self.draws.exact or key in self.single_draws or key not in self.places:
            return 0
        return int(self.draws.differences.shape[1])

    def p_value(self, key: str) -> float:
        """Return the p-value of a key alone; NaN for a key without a test."""
        if key not in self.places:
            return nan
        draws, place = self._draws_of(key)
        return draws.p_value(place, self.mid[self.places[key]])

    def _draws_of(self, key: str) -> tuple[SwapDraws, int]:
        """Return the draws from which the p-value of a key comes, and the place of the key in them."""
        if key in self.single_draws:
            return self.single_draws[key], 0
        return self.draws, self.places[key]

    def corrected_p_values(self, keys: Sequence[str]) -> dict[str, float]:
        """Return p-values that are corrected for the number of keys, and no smaller; see :func:`step_down`."""
        if not keys:
            return {}
        places = [self.places[key] for key in keys]
        draws = SwapDraws(self.draws.differences[places], self.draws.observed[places], self.draws.exact)
        corrected = step_down(draws, [self.mid[place] for place in places])
        p_values = {}
        for key, p in zip(keys, corrected, strict=True):
            p_values[key] = max(p, self.p_value(key))
        return p_values

    def single_level(self, keys: Sequence[str], level: float) -> float:
        """Return the level at which one of some keys is tested alone, if all are tested together at ``level``."""
        if len(keys) < 2:
            return level
        from scipy.special import ndtr  # importing tailmetrics.significance needs no scipy

        largest = self.draws.largest([self.places[key] for key in keys])
        critical = float(np.quantile(largest, 1 - level))
        return float(np.clip(2 * ndtr(-critical), level / len(keys), level))

    def widened(self, key: str, estimate: Estimate, interval: Interval) -> Interval:
        """Return the interval of an average over labels so wide that it holds 0 where the test finds no difference.

        It holds value ± q, where at most 1 - confidence of the swaps differ by more than q.
        """
        if not estimate.models[0].label_rows or estimate.extra_variances:
            return interval
        if key not in self.places:
            return interval.without_ends(OTHER_NUMBERS)
        if self.differing[key] < FEW:
            return interval.without_ends(f"fewer than {FEW} {unit_names(interval.clusters)} differ")
        draws, place = self._draws_of(key)
        reach = draws.quantile(place, interval.confidence)
        observed = abs(float(draws.observed[place]))
        if 0 < observed < abs(estimate.value):  # slopes of average precision add up to less than the difference
            reach *= abs(estimate.value) / observed
        if self.p_value(key) > 1 - interval.confidence:  # of random swaps, p counts one more
            reach = max(reach, abs(estimate.value))
        return estimate.widened(interval, estimate.value - reach, estimate.value + reach)


def _swapped(sides: tuple[KeyRows, KeyRows], clusters: Clusters | None) -> Swapped | None:
    """Return the difference of two models as a function of swaps.

    It is None for models of several runs, and for averages over labels that both models number differently.
    """
    first, second = sides
    if len(first.runs) > 1 or len(second.runs) > 1:
        return None
    if not first.label_rows:
        statistics = statistics_of_sides(first.kind, [first.terms, second.terms], rows_of_terms(sides), clusters)
        return SwappedSums(*statistics)
    swapped = []
    for first_rows, second_rows in zip(first.label_rows, second.label_rows, strict=True):
        statistic = swapped_labels(first_rows, second_rows, clusters)
        if statistic is None:
            return None
        swapped.append(statistic)
    if len(swapped) == 1:
        return swapped[0]
    return SwappedGap(*swapped)
