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

OTHER_NUMBERS = (
    "the runs number their labels differently; compare their predictions, which are "
    "read together"
)
"""Why an average over labels of two tables has no test."""
NO_DRAWS = SwapDraws(np.zeros((0, 0)), np.zeros(0), exact=True)
"""The differences of no keys."""


@dataclass(frozen=True)
class KeyTest:
    """The randomisation test of one key.

    Attributes:
        draws: The differences under swaps: those of a pair, or under all swaps of the
            key alone if these are few.
        place: The place of the key in these differences.
        place_in_pair: The place of the key in the differences of the pair.
        num_differing: The number of rows or clusters in which the models differ.
        mid: Whether the p-value is a mid-p.
    """

    draws: SwapDraws
    place: int
    place_in_pair: int
    num_differing: int
    mid: bool

    def p_value(self) -> float:
        """Return the p-value of the key alone."""
        return self.draws.p_value(self.place, self.mid)


@dataclass(frozen=True)
class PairTest:
    """The randomisation test of one pair of models.

    Attributes:
        tests: The test of each key; a key without a test is left out.
        draws: The differences of these keys under the same swaps; :data:`NO_DRAWS` if
            no key has a test.
    """

    tests: Mapping[str, KeyTest]
    draws: SwapDraws

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
            tested: The keys to test; others need swaps for their intervals alone.
            swaps: Number of random swaps.
            seed: The same seed gives the same swaps.
        """
        statistics: dict[str, Swapped] = {}
        for key, key_sides in sides.items():
            if key in tested or key_sides[0].label_rows:
                statistic = _swapped(key_sides, clusters)
                if statistic is not None:
                    statistics[key] = statistic
        if not statistics:
            return cls({}, NO_DRAWS)

        draws = swap_test(list(statistics.values()), swaps, seed)
        tests = {}
        for place, (key, statistic) in enumerate(statistics.items()):
            num_differing = int(statistic.differing.sum())
            key_draws, key_place = draws, place
            if not draws.exact and num_differing <= log2(ALL_SWAPS):
                key_draws, key_place = swap_test([statistic], swaps, seed), 0
            mid = sides[key][0].kind != "median"
            tests[key] = KeyTest(key_draws, key_place, place, num_differing, mid)
        return cls(tests, draws)

    def num_swaps(self, key: str) -> int:
        """Return the number of random swaps of a key; 0 if its test took all swaps."""
        if key not in self.tests or self.tests[key].draws.exact:
            return 0
        return int(self.draws.differences.shape[1])

    def p_value(self, key: str) -> float:
        """Return the p-value of a key alone; NaN for a key without a test."""
        if key not in self.tests:
            return nan
        return self.tests[key].p_value()

    def _draws_of(self, keys: Sequence[str]) -> SwapDraws:
        """Return the differences of some keys under the same swaps."""
        return self.draws.of_keys([self.tests[key].place_in_pair for key in keys])

    def corrected_p_values(self, keys: Sequence[str]) -> dict[str, float]:
        """Return p-values corrected for the number of keys; see :func:`step_down`.

        They are no smaller than the p-values of the keys alone.
        """
        if not keys:
            return {}
        corrected = step_down(
            self._draws_of(keys), [self.tests[key].mid for key in keys]
        )
        p_values = {}
        for key, p in zip(keys, corrected, strict=True):
            p_values[key] = max(p, self.p_value(key))
        return p_values

    def single_level(self, keys: Sequence[str], level: float) -> float:
        """Return the level of a key alone, if all are tested together at ``level``."""
        if len(keys) < 2:
            return level
        # importing tailmetrics.significance needs no scipy
        from scipy.special import ndtr

        critical = float(np.quantile(self._draws_of(keys).largest(), 1 - level))
        return float(np.clip(2 * ndtr(-critical), level / len(keys), level))

    def widened(self, key: str, estimate: Estimate, interval: Interval) -> Interval:
        """Return an interval so wide that it holds 0 if the test finds no difference.

        It is the interval of an average over labels, and holds value ± q, where at most
        1 - confidence of the swaps differ by more than q.
        """
        if not estimate.models[0].label_rows or estimate.extra_variances:
            return interval
        test = self.tests.get(key)
        if test is None:
            return interval.without_ends(OTHER_NUMBERS)
        if test.num_differing < FEW:
            return interval.without_ends(
                f"fewer than {FEW} {unit_names(interval.clusters)} differ"
            )
        reach = test.draws.quantile(test.place, interval.confidence)
        observed = abs(float(test.draws.observed[test.place]))
        # slopes of average precision add up to less than the difference
        if 0 < observed < abs(estimate.value):
            reach *= abs(estimate.value) / observed
        # of random swaps, p counts one more
        if test.p_value() > 1 - interval.confidence:
            reach = max(reach, abs(estimate.value))
        return estimate.widened(
            interval, estimate.value - reach, estimate.value + reach
        )


def _swapped(
    sides: tuple[KeyRows, KeyRows], clusters: Clusters | None
) -> Swapped | None:
    """Return the difference of two models as a function of swaps.

    It is None for models of several runs, and for averages over labels that both models
    number differently.
    """
    first, second = sides
    if len(first.runs) > 1 or len(second.runs) > 1:
        return None
    if not first.label_rows:
        statistics = statistics_of_sides(
            first.kind, [first.terms, second.terms], rows_of_terms(sides), clusters
        )
        return SwappedSums(*statistics)
    swapped = []
    for first_rows, second_rows in zip(
        first.label_rows, second.label_rows, strict=True
    ):
        statistic = swapped_labels(first_rows, second_rows, clusters)
        if statistic is None:
            return None
        swapped.append(statistic)
    if len(swapped) == 1:
        return swapped[0]
    return SwappedGap(*swapped)
