"""Pairs of runs that do not differ, compared: how often tests reject, and intervals hold the truth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import nan
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from benchmarks.significance.populations import (
    HEAVY,
    HIT,
    MICRO_PRECISION,
    MICRO_RECALL,
    NDCG,
    RANK,
    RARE_HIT,
    RECALL,
    SKEWED,
    SPARSE,
    Array,
    Population,
)
from tailmetrics.significance import Interval, _estimate, compare, intervals

LEVEL = 0.05
ROWS = (5, 10, 20, 50, 100, 300)
INDEPENDENT = (RECALL, HIT, RARE_HIT, NDCG, SPARSE, SKEWED, MICRO_RECALL, MICRO_PRECISION, HEAVY, RANK)
CLUSTERED = (RECALL, MICRO_RECALL, RANK)
CLUSTERS = (9, 10, 20, 60)
FEW_ROWS = (2, 3, 5, 8, 10, 15)
"""Where the limit is taken away, below which nothing is resampled, to see what it is for."""


@dataclass(frozen=True)
class Setting:
    """What is drawn, and whether the clusters are said.

    Attributes:
        population: Where rows come from.
        rows: How many rows, or clusters.
        sizes: ``""`` where rows are independent, else the sizes of clusters in words.
        told: Whether ``clusters=`` is passed.
        limited: Whether nothing is resampled below the limit of rows, as the library has it.
    """

    population: Population
    rows: int
    sizes: str = ""
    told: bool = False
    limited: bool = True

    def codes(self) -> NDArray[np.int64] | None:
        """Return the cluster of each row."""
        if not self.sizes:
            return None
        sizes = np.full(self.rows, 5) if self.sizes == "of 5" else 1 + np.arange(self.rows) % 9
        return np.repeat(np.arange(self.rows), sizes)


@dataclass(frozen=True)
class Rates:
    """Shares of the pairs; NaN where there is no test or no interval.

    Attributes:
        randomisation: Pairs that the randomisation test rejects.
        bootstrap: That the bootstrap test rejects.
        t: That the t-test rejects.
        difference: Intervals of the difference that hold 0, of those there are.
        value: Intervals of the first run that hold the truth, of those there are.
    """

    randomisation: float
    bootstrap: float
    t: float
    difference: float
    value: float


def settings() -> Iterator[Setting]:
    """Yield all settings in the order of the table."""
    yield from (Setting(population, rows) for population, rows in product(INDEPENDENT, ROWS))
    for population, sizes, number in product(CLUSTERED, ("of 5", "of 1 to 9"), CLUSTERS):
        yield Setting(population, number, sizes, told=False)
        yield Setting(population, number, sizes, told=True)
    for population, rows in product((RECALL, NDCG, SKEWED, HEAVY, RANK), FEW_ROWS):
        yield Setting(population, rows, limited=False)


def simulate(setting: Setting, pairs: int, resamples: int) -> Rates:
    """Return how often tests and intervals err over ``pairs`` pairs of runs."""
    codes = setting.codes()
    num_rows = setting.rows if codes is None else codes.size
    values, weights = setting.population.draw(np.random.default_rng(1), (pairs, num_rows), codes)
    first, second = (_by_pair(setting.population, *run) for run in zip(values, weights, strict=True))
    options: dict[str, Any] = {
        "clusters": codes if setting.told else None,
        "medians": list(first) if setting.population.kind == "median" else [],
        "unbounded": list(first) if setting.population in (SKEWED, RANK) else [],
        "resamples": resamples,
    }
    with patch.object(_estimate, "FEW", _estimate.FEW if setting.limited else 2):
        compared = compare({"first": first, "second": second}, correction="none", **options)
        alone = list(intervals(first, **options).values())
    return Rates(
        *(_rejected([getattr(one.p, test) for one in compared]) for test in ("randomisation", "bootstrap", "t")),
        difference=_covered([one.interval for one in compared], 0),
        value=_covered(alone, setting.population.truth),
    )


def _by_pair(population: Population, values: Array, weights: Array) -> dict[str, Any]:
    """Return the runs of all pairs as keys of one run: they share what is drawn, which saves most of the time."""
    if population.kind == "ratio":
        return {f"{pair}": parts for pair, parts in enumerate(zip(values, weights, strict=True))}
    return {f"{pair}": row for pair, row in enumerate(values)}


def _rejected(p_values: Sequence[float]) -> float:
    tested = [p for p in p_values if not np.isnan(p)]
    return sum(p <= LEVEL for p in tested) / len(tested) if tested else nan


def _covered(found: Sequence[Interval], truth: float) -> float:
    given = [one for one in found if not np.isnan(one.low)]
    return sum(one.low - 1e-9 <= truth <= one.high + 1e-9 for one in given) / len(given) if given else nan
