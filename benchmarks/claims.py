"""Simulates how often intervals hold the truth, and how often tests reject.

Run ``python -m benchmarks claims``. Pairs of models are drawn that do not differ: in
each row it is chance which model got which result. Tests at .05 should reject .05 of
the pairs; 95 % intervals should hold the truth in .95: of the difference, which is 0,
and of one value, which is the mean over samples of so many rows. The command writes
tables of benchmarks/README.md, whose ends stand in docs/significance.md.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchmarks.tables import replace_table, table
from tailmetrics.significance import (
    AreaRows,
    Interval,
    LabelRows,
    ShownRows,
    blind_spots,
    compare,
    intervals,
    rows_needed,
)
from tailmetrics.significance.halves import at_half_the_rows
from tailmetrics.significance.labels import Exposure

PAGE = Path(__file__).parent / "README.md"
LEVEL = 0.05
TOGETHER = 100
"""Pairs that share resamples: enough to save time, few enough to be independent."""
ACCEPTED = 0.9, 0.99
"""Between which shares an interval of 95 % should hold the truth."""
MOST_REJECTED = 0.06
"""The largest level that a test at .05 should have."""
AGAIN = 4
"""How many times as many pairs are drawn where a share lies outside of these bounds."""
MARK = "✱"
"""Stands behind a share outside of these bounds."""

Array: TypeAlias = NDArray[np.float64]
Random: TypeAlias = np.random.Generator
Model: TypeAlias = "dict[str, Any]"
Pair: TypeAlias = "tuple[list[Model], list[Model]]"
"""The runs of two models: one dict from key to values of rows for each run."""
Draw: TypeAlias = "Callable[[Random, int], Pair]"


@dataclass(frozen=True)
class Setting:
    """What is drawn.

    Attributes:
        kind: The kind of interval and test, such as ``"hits"``.
        name: What a row's value is.
        rows: How many rows, or clusters.
        draw: Takes a generator and the number of rows, and returns one pair of models.
        cluster_sizes: The number of rows of each cluster; None for independent rows.
        gap: Whether the gap between ``head`` and ``tail`` is read, not the key ``k``.
        unbounded: Whether values have no bounds.
        median: Whether the value is the median of rows.
    """

    kind: str
    name: str
    rows: int
    draw: Draw
    cluster_sizes: Callable[[int], NDArray[np.int64]] | None = None
    gap: bool = False
    unbounded: bool = False
    median: bool = False


@dataclass(frozen=True)
class Rates:
    """Shares of pairs: tests that reject, and intervals that hold the truth.

    A share is NaN if there are no such tests or intervals.

    Attributes:
        rejected: Tests that reject.
        difference: Intervals of the difference that hold 0.
        resampled: Resampled intervals of one model that hold the truth.
        quick: Quick intervals of one model that hold the truth.
        refused: The share of quick intervals that are refused with a reason.
    """

    rejected: float
    difference: float
    resampled: float
    quick: float
    refused: float

    @property
    def are_doubtful(self) -> bool:
        """Whether a share lies outside of the accepted bounds."""
        coverages = [
            rate
            for rate in (self.difference, self.resampled, self.quick)
            if not math.isnan(rate)
        ]
        has_outside = any(
            rate < ACCEPTED[0] or rate > ACCEPTED[1] for rate in coverages
        )
        return self.rejected > MOST_REJECTED or has_outside


# -- what is drawn ---------------------------------------------------------------------


def single_runs(sample: Callable[[Random, int], Array]) -> Draw:
    """Return what draws one run of two models from what draws an array (2, rows)."""

    def draw(rng: Random, rows: int) -> Pair:
        first, second = sample(rng, rows)
        return [{"k": first}], [{"k": second}]

    return draw


def nearly_equal(
    sample: Callable[[Random, int], Array],
) -> Callable[[Random, int], Array]:
    """Return what draws models that differ in 8 % of the rows."""

    def draw(rng: Random, rows: int) -> Array:
        first, second = sample(rng, rows)
        return np.stack([first, np.where(rng.random(rows) < 0.08, second, first)])

    return draw


def hits(rng: Random, rows: int) -> Array:
    """Rows that are hit or not."""
    return (rng.random((2, rows)) < rng.beta(2, 4, rows)).astype(np.float64)


def rare_hits(rng: Random, rows: int) -> Array:
    """Rows of which 10 are hit."""
    return (rng.random((2, rows)) < 10 / rows).astype(np.float64)


def shares(rng: Random, rows: int) -> Array:
    """Shares of 3 labels."""
    return rng.binomial(3, rng.beta(2, 4, rows), (2, rows)) / 3


def rare_shares(rng: Random, rows: int) -> Array:
    """Shares of 1 to 10 labels, of which one is found in 8 rows."""
    return (rng.random((2, rows)) < 8 / rows) / rng.integers(1, 11, (2, rows))


def reciprocal_ranks(rng: Random, rows: int) -> Array:
    """Reciprocal ranks of a model that knows nothing of 1,000 labels."""
    return 1 / rng.integers(1, 1001, (2, rows))


def skewed_values(rng: Random, rows: int) -> Array:
    """Values without an upper bound, most of them small."""
    return rng.gamma(1.0, size=rows) + rng.exponential(size=(2, rows))


def graded(
    share: float, grades: Sequence[int], share_of_ones: float = 0.0
) -> Callable[[Random, int], Array]:
    """Return what draws DCG of one relevant label at a random place up to 10.

    A row has (2^grade - 1) / log2(place + 1).

    Args:
        share: The share of rows whose label has one of the grades.
        grades: The grades, each as often as the others.
        share_of_ones: The share of the other rows whose label has grade 1; the rest of
            the rows have none.
    """

    def draw(rng: Random, rows: int) -> Array:
        gains = (rng.random(rows) < share_of_ones).astype(np.float64)
        has_grade = rng.random(rows) < share
        gains[has_grade] = 2.0 ** rng.choice(grades, has_grade.sum()) - 1
        return gains / np.log2(rng.integers(2, 12, (2, rows)))

    return draw


def tied_hits(rng: Random, rows: int) -> Array:
    """Recall at 1 where 1 to 4 labels share the best score: hits in expectation."""
    return hits(rng, rows) / rng.integers(1, 5, (2, rows))


def ranks(rng: Random, rows: int) -> Array:
    """Ranks from 1 on, of which many are equal."""
    return 1 + np.floor(rng.gamma(1.0, size=rows) * rng.exponential(4, (2, rows)))


def ratios(rate: float, per_row: int = 3) -> Draw:
    """Return what draws hits and numbers of about ``per_row`` relevant labels a row."""

    def draw(rng: Random, rows: int) -> Pair:
        relevant = 1 + rng.poisson(per_row, rows)
        chance = np.minimum(1, 2 * rate * rng.beta(2, 2, rows))
        first, second = rng.binomial(relevant, chance, (2, rows))
        return [{"k": (first, relevant)}], [{"k": (second, relevant)}]

    return draw


def clustered(
    sample: Callable[[Random, Array], Array], sizes: Callable[[int], NDArray[np.int64]]
) -> Draw:
    """Return what draws clusters to which each model has an affinity of its own.

    So clusters are exchangeable.
    """

    def draw(rng: Random, clusters: int) -> Pair:
        models = []
        for _ in range(2):
            affinity = np.repeat(rng.beta(2, 4, clusters), sizes(clusters))
            models.append({"k": sample(rng, affinity)})
        return [models[0]], [models[1]]

    return draw


def clusters_of_five(clusters: int) -> NDArray[np.int64]:
    """Return the sizes of clusters of five rows."""
    return np.full(clusters, 5)


def clusters_of_one_to_nine(clusters: int) -> NDArray[np.int64]:
    """Return the sizes of clusters of one to nine rows."""
    return 1 + np.arange(clusters) % 9


def seeds(first_runs: int, second_runs: int) -> Draw:
    """Return what draws runs of two models.

    The ability of a run varies as much as the mean of rows.
    """

    def draw(rng: Random, rows: int) -> Pair:
        chance = rng.beta(3, 3, rows)
        models: list[list[Model]] = []
        for number in (first_runs, second_runs):
            abilities = rng.normal(0, 0.04, number)
            runs = [
                rng.binomial(3, np.clip(chance + ability, 0, 1)) / 3
                for ability in abilities
            ]
            models.append([{"k": run} for run in runs])
        return models[0], models[1]

    return draw


MACRO: dict[str, dict[str, Any]] = {
    "recall": {},
    "precision": {"below": (1.0, 0.0)},
    "weighted precision": {"below": (1.0, 0.0), "weighted": True},
    "F1": {"top": 2.0, "below": (1.0, 1.0)},
    'F1, labels="all"': {"top": 2.0, "below": (1.0, 1.0), "over": "all"},
    "F1 of averages": {"top": 2.0, "below": (1.0, 1.0), "of_averages": True},
    "coverage": {"top": 0.0, "over": "all"},
}
"""Arguments of :class:`LabelRows` for averages over labels."""


def over_labels(num_labels: int, measure: str, differing: float = 1.0) -> Draw:
    """Return what draws lists for rows of 3 relevant labels.

    Rarer labels are less often found, and fewer are found in hard rows.

    Args:
        num_labels: Number of labels.
        measure: One of :data:`MACRO`.
        differing: Share of the rows in which the models differ.
    """
    labels = np.arange(num_labels)
    popularity = 1 / (labels + 5.0)
    edges = np.cumsum(popularity / popularity.sum())
    hit_chance = 0.75 - 0.5 * labels / num_labels

    def drawn_labels(rng: Random, rows: int, number: int) -> NDArray[np.int64]:
        drawn = np.minimum(
            np.searchsorted(edges, rng.random((rows, number))), num_labels - 1
        )
        return (np.repeat(np.arange(rows), number) * num_labels + drawn.ravel()).astype(
            np.int64
        )

    def lists(
        rng: Random, rows: int, relevant: NDArray[np.int64], chance: Array
    ) -> NDArray[np.bool_]:
        listed = np.zeros(rows * num_labels, bool)
        listed[relevant] = rng.random(relevant.size) < chance
        wrong = np.setdiff1d(drawn_labels(rng, rows, 2), relevant)
        listed[wrong] = True
        return listed.reshape(rows, num_labels)

    def draw(rng: Random, rows: int) -> Pair:
        relevant = np.unique(drawn_labels(rng, rows, 3))
        chance = (
            hit_chance[relevant % num_labels]
            + rng.normal(0, 0.2, rows)[relevant // num_labels]
        )
        is_relevant = np.zeros(rows * num_labels, bool)
        is_relevant[relevant] = True
        is_relevant = is_relevant.reshape(rows, num_labels)
        first, second = (lists(rng, rows, relevant, chance) for _ in range(2))
        second = np.where((rng.random(rows) < differing)[:, None], second, first)
        models: list[list[Model]] = []
        for listed in (first, second):
            places, cells = np.nonzero(is_relevant | listed)
            flags = listed[places, cells], is_relevant[places, cells]
            label_rows = LabelRows(
                places, cells, *flags, np.ones(rows, bool), num_labels, **MACRO[measure]
            )
            models.append([{"k": label_rows}])
        return models[0], models[1]

    return draw


def areas(area: Any, average: Any, prevalence: float = 0.2) -> Draw:
    """Return what draws scores of 20 labels, in 200 bins, higher for relevant ones."""

    def draw(rng: Random, rows: int) -> Pair:
        relevant = rng.random((rows, 20)) < prevalence
        difficulty = rng.normal(size=(rows, 20))
        models: list[list[Model]] = []
        for _ in range(2):
            scores = relevant + 0.5 * difficulty + rng.normal(size=(rows, 20))
            bins = np.clip((scores + 4) * 25, 0, 199).astype(np.int64)
            models.append(
                [{"k": AreaRows(bins, relevant, np.ones(rows, bool), area, average)}]
            )
        return models[0], models[1]

    return draw


def shown(measure: Exposure) -> Draw:
    """Return what shows each row 5 of 1,000 labels.

    Popular labels are shown more often, and to some rows even more often.
    """
    popularity = -np.log(np.arange(1000) + 5.0)

    def draw(rng: Random, rows: int) -> Pair:
        taste = 1 + 0.3 * rng.normal(size=(rows, 1))
        models: list[list[Model]] = []
        for _ in range(2):
            scores = popularity * taste + rng.gumbel(size=(rows, 1000))
            labels = np.argpartition(-scores, 5, axis=1)[:, :5].ravel()
            places, is_shown = np.repeat(np.arange(rows), 5), np.ones(labels.size, bool)
            inside = np.ones(rows, bool)
            label_rows = ShownRows(
                places,
                labels,
                is_shown,
                is_shown,
                inside,
                1000,
                measure,
                1000,
                popularity,
            )
            models.append([{"k": label_rows}])
        return models[0], models[1]

    return draw


def two_buckets(rng: Random, rows: int) -> Pair:
    """Recall of the head in all rows, and of the tail in two rows of five."""
    chance, has_tail = rng.beta(3, 3, rows), rng.random(rows) < 0.4
    models: list[list[Model]] = []
    for _ in range(2):
        head = rng.binomial(2, chance) / 2
        tail = np.where(has_tail, rng.binomial(2, chance / 2) / 2, np.nan)
        models.append([{"head": head, "tail": tail}])
    return models[0], models[1]


def beyond_chance(rng: Random, rows: int) -> Pair:
    """Draw recall at 1 less chance, and what could be, in two buckets.

    Each row has one or two relevant labels among the 20 of the head. Two in five rows
    have some among the 200 of the tail, too, where a hit is half as likely.
    """
    chance, has_tail = rng.beta(3, 3, rows), rng.random(rows) < 0.4
    num_relevant = rng.integers(1, 3, (2, rows))
    models: list[list[Model]] = []
    for _ in range(2):
        sides = []
        for share, labels, size in zip(
            (1.0, 0.5), num_relevant, (20, 200), strict=True
        ):
            value = (rng.random(rows) < share * chance) / labels - 1 / size
            sides.append((value, 1 / labels - 1 / size))
        head, (tail_value, tail_attainable) = sides
        tail = (
            np.where(has_tail, tail_value, np.nan),
            np.where(has_tail, tail_attainable, np.nan),
        )
        models.append([{"head": head, "tail": tail}])
    return models[0], models[1]


def settings() -> Iterator[Setting]:
    """Yield all settings in the order of the table."""
    for rows in (12, 25, 100, 2000):
        yield Setting("hits", "hit or not", rows, single_runs(hits))
    for rows in (100, 2000):
        yield Setting(
            "hits", "hit or not, nearly equal", rows, single_runs(nearly_equal(hits))
        )
    for rows in (200, 10_000):
        yield Setting("hits", "10 rows are hit", rows, single_runs(rare_hits))
    for rows in (12, 25, 100, 2000):
        yield Setting("shares", "share of 3 labels", rows, single_runs(shares))
    yield Setting(
        "shares",
        "share of 3 labels, nearly equal",
        300,
        single_runs(nearly_equal(shares)),
    )
    for rows in (1000, 10_000):
        yield Setting("shares", "share, 8 rows above 0", rows, single_runs(rare_shares))
    yield Setting("shares", "hit expected among ties", 100, single_runs(tied_hits))
    for rows in (25, 60, 250, 1000):
        yield Setting(
            "shares",
            "1 / rank, ranks to 1,000 alike",
            rows,
            single_runs(reciprocal_ranks),
        )
    for rows in (50, 300, 2000):
        yield Setting(
            "means",
            "skewed, no bound",
            rows,
            single_runs(skewed_values),
            unbounded=True,
        )
    for rows in (300, 1000):
        yield Setting(
            "means",
            "DCG, grade 5 in 1 % of rows",
            rows,
            single_runs(graded(0.01, (5,))),
            unbounded=True,
        )
    for rows in (1000, 3000):
        draw = single_runs(graded(0.01, (1, 2, 3, 4, 5)))
        yield Setting(
            "means", "DCG, grades 1 to 5 in 1 % of rows", rows, draw, unbounded=True
        )
    for rows in (300, 1000):
        draw = single_runs(graded(0.01, (5,), share_of_ones=0.5))
        yield Setting(
            "means",
            "DCG, grade 5 in 1 % of rows, else 1 or none",
            rows,
            draw,
            unbounded=True,
        )
    for rows in (12, 25, 100, 2000):
        yield Setting("ratios", "ratio of counts", rows, ratios(0.33))
    yield Setting("ratios", "ratio of counts, rare", 2000, ratios(0.001))
    for rows in (25, 200, 2000):
        yield Setting(
            "medians",
            "median of ranks",
            rows,
            single_runs(ranks),
            unbounded=True,
            median=True,
        )
    for rows in (100, 300):
        yield Setting("gaps", "gap, and its change", rows, two_buckets, gap=True)
    for rows in (100, 300):
        yield Setting(
            "gaps", "adjusted gap, and its change", rows, beyond_chance, gap=True
        )
    for clusters in (20, 60, 200):
        draw = clustered(
            lambda rng, chance: rng.binomial(3, chance) / 3, clusters_of_five
        )
        yield Setting(
            "clusters", "share, in clusters of 5", clusters, draw, clusters_of_five
        )
    draw = clustered(
        lambda rng, chance: rng.binomial(1, chance) * 1.0, clusters_of_one_to_nine
    )
    yield Setting(
        "clusters",
        "hit or not, in clusters of 1 to 9",
        60,
        draw,
        clusters_of_one_to_nine,
    )
    for first, second in ((3, 3), (2, 2), (3, 1), (5, 5)):
        yield Setting(
            "seeds",
            f"share of 3 labels, {first} runs and {second}",
            300,
            seeds(first, second),
        )
    for rows in (25, 100, 300, 2000):
        yield Setting(
            "averages over labels",
            "macro recall, 60 labels",
            rows,
            over_labels(60, "recall"),
        )
    for measure in (
        "precision",
        "weighted precision",
        "F1",
        'F1, labels="all"',
        "F1 of averages",
    ):
        name = measure if "weighted" in measure else f"macro {measure}"
        yield Setting(
            "averages over labels", f"{name}, 60 labels", 200, over_labels(60, measure)
        )
    for measure in ("recall", "precision", "F1"):
        draw = over_labels(60, measure, differing=0.08)
        yield Setting(
            "averages over labels",
            f"macro {measure}, 60 labels, nearly equal",
            300,
            draw,
        )
    yield Setting(
        "averages over labels", "macro F1, 1,000 labels", 300, over_labels(1000, "F1")
    )
    for rows in (100, 300):
        yield Setting(
            "coverage",
            "positive coverage, 60 labels",
            rows,
            over_labels(60, "coverage"),
        )
    yield Setting(
        "coverage",
        "positive coverage, 1,000 labels",
        300,
        over_labels(1000, "coverage"),
    )
    yield Setting("coverage", "coverage of 1,000 labels", 300, shown("coverage"))
    yield Setting("coverage", "Gini index, 1,000 labels", 300, shown("gini"))
    yield Setting(
        "coverage", "entropy, 1,000 labels", 300, shown("entropy"), unbounded=True
    )
    for rows in (60, 300):
        yield Setting("areas", "macro AUC, 20 labels", rows, areas("roc", "macro"))
        yield Setting("areas", "macro AP, 20 labels", rows, areas("precision", "macro"))
    yield Setting(
        "areas", "micro AP, 20 labels, rare", 300, areas("precision", "micro", 0.02)
    )


# -- what is counted -------------------------------------------------------------------


def simulate(setting: Setting, pairs: int, resamples: int) -> Rates:
    """Return how often tests and intervals err over ``pairs`` pairs of models."""
    rng = np.random.default_rng(1)
    clusters = None
    if setting.cluster_sizes is not None:
        clusters = np.repeat(
            np.arange(setting.rows), setting.cluster_sizes(setting.rows)
        )
    rejected: list[float] = []
    differences: list[Interval] = []
    resampled: list[Interval] = []
    quick: list[Interval] = []
    values: list[float] = []
    for start in range(0, pairs, TOGETHER):
        drawn = [
            setting.draw(rng, setting.rows) for _ in range(min(TOGETHER, pairs - start))
        ]
        first = [
            _joined([pair[0] for pair in drawn], run) for run in range(len(drawn[0][0]))
        ]
        second = [
            _joined([pair[1] for pair in drawn], run) for run in range(len(drawn[0][1]))
        ]
        arguments: dict[str, Any] = {"clusters": clusters, "seed": start}
        keys = [f"{number}/k" for number in range(len(drawn))]
        if setting.gap:
            keys = [f"{number}/gap" for number in range(len(drawn))]
            arguments["gaps"] = {
                f"{number}/gap": [f"{number}/head", f"{number}/tail"]
                for number in range(len(drawn))
            }
        if setting.unbounded:
            arguments["unbounded"] = list(first[0])
        if setting.median:
            arguments["medians"] = list(first[0])
        comparisons = compare(
            {"a": first, "b": second},
            correction="none",
            resamples=resamples,
            **arguments,
        )
        for comparison in comparisons:
            if comparison.key in keys:
                rejected.append(comparison.p.decisive <= LEVEL)
                differences.append(comparison.interval)
                values += [comparison.value, comparison.baseline_value]
        with_resamples = intervals(first, resamples=resamples, **arguments)
        without = intervals(first, resamples=0, **arguments)
        resampled += [with_resamples[key] for key in keys]
        quick += [without[key] for key in keys]
    truth = float(np.mean(values))
    if setting.median:
        truth = _true_median(setting)
    return Rates(
        float(np.mean(rejected)),
        _held(differences, 0.0),
        _held(resampled, truth),
        _held(quick, truth),
        float(np.mean([not interval.ends for interval in quick])),
    )


def _joined(runs: Sequence[Sequence[Model]], run: int) -> Model:
    """Return one run of many pairs as a dict; its keys begin with the pair's number."""
    joined = {}
    for number, pair_runs in enumerate(runs):
        for key, values in pair_runs[run].items():
            joined[f"{number}/{key}"] = values
    return joined


def _true_median(setting: Setting) -> float:
    """Return the median of very many rows."""
    (first,), _ = setting.draw(np.random.default_rng(9), 400_000)
    return float(np.median(first["k"]))


def _held(estimates: Sequence[Interval], truth: float) -> float:
    """Return the share of intervals that hold the truth; NaN if most have no ends."""
    with_ends = [interval for interval in estimates if interval.ends]
    if 2 * len(with_ends) < len(estimates):
        return math.nan
    return sum(
        interval.low - 1e-9 <= truth <= interval.high + 1e-9 for interval in with_ends
    ) / len(with_ends)


def power(rows: int, pairs: int, resamples: int) -> float:
    """Return how often the least difference that so many rows show is found.

    Values of rows are shares of 3 labels.
    """
    rng = np.random.default_rng(2)

    def comparisons(shift: float) -> list[Any]:
        drawn = [shares(rng, rows) for _ in range(pairs)]
        first = {str(number): pair[0] for number, pair in enumerate(drawn)}
        second = {str(number): pair[1] + shift for number, pair in enumerate(drawn)}
        return compare(
            {"a": first, "b": second}, correction="none", resamples=resamples
        )

    least = float(
        np.mean([comparison.least_difference for comparison in comparisons(0.0)])
    )
    return float(
        np.mean(
            [comparison.p.randomisation <= LEVEL for comparison in comparisons(least)]
        )
    )


def power_of_plan(
    difference: float, differing: float, pairs: int, resamples: int
) -> tuple[int, float]:
    """Return the planned number of rows, and how often they show a difference.

    The difference is one of hits.

    Args:
        difference: The true difference.
        differing: The share of rows that differ between the two models that the plan
            knows, which are equally good.
        pairs: Number of pairs.
        resamples: Number of swaps.
    """
    rng = np.random.default_rng(3)
    hits = (rng.random(400) < 0.5).astype(np.float64)
    other = np.where(rng.random(400) < differing, 1 - hits, hits)
    rows = rows_needed({"a": hits, "b": other}, difference)
    first: Model = {}
    second: Model = {}
    for number in range(pairs):
        # rows change as the difference needs, or more of them, as many gains as losses
        # beyond it
        num_changes = max(difference, differing)
        gains = rng.random(rows) < (num_changes + difference) / 2
        losses = ~gains & (
            rng.random(rows)
            < (num_changes - difference) / 2 / (1 - (num_changes + difference) / 2)
        )
        same = (rng.random(rows) < 0.5).astype(np.float64)
        first[str(number)] = np.where(gains, 0, np.where(losses, 1, same))
        second[str(number)] = np.where(gains, 1, np.where(losses, 0, same))
    comparisons = compare(
        {"a": first, "b": second}, correction="none", resamples=resamples
    )
    return rows, float(
        np.mean([comparison.p.randomisation <= LEVEL for comparison in comparisons])
    )


PLANS = ((0.1, 0.01), (0.05, 0.01), (0.1, 0.3))
"""Differences of hits, and shares of rows that differ between the known models."""


def families(rows: int, differing: float, number: int, resamples: int) -> float:
    """Return how often two equal models differ in any of ten keys.

    These are means, ratios and averages over 60 labels.
    """
    rng = np.random.default_rng(4)
    rejected = 0
    for _ in range(number):
        pair = over_labels(60, "recall", differing)(rng, rows)
        models: list[Model] = []
        for (model,) in pair:
            label_rows: LabelRows = model["k"]
            cells = (
                label_rows.rows,
                label_rows.labels,
                label_rows.predicted,
                label_rows.relevant,
                label_rows.inside,
            )
            keys: Model = {
                name: LabelRows(*cells, 60, **arguments)
                for name, arguments in MACRO.items()
            }
            row_hits = np.bincount(
                label_rows.rows[label_rows.predicted & label_rows.relevant],
                minlength=rows,
            )
            row_relevant = np.bincount(
                label_rows.rows[label_rows.relevant], minlength=rows
            )
            keys["mean recall"] = row_hits / row_relevant
            keys["micro recall"] = row_hits, row_relevant
            keys["hit rate"] = (row_hits > 0).astype(np.float64)
            models.append(keys)
        comparisons = compare({"a": models[0], "b": models[1]}, resamples=resamples)
        rejected += any(comparison.significant for comparison in comparisons)
    return rejected / number


# -- averages over labels that depend on the number of rows ----------------------------

LABELS = 120
RAREST = np.arange(80, LABELS)
MOVING: dict[str, dict[str, Any]] = {
    "weighted precision@3": {"below": (1.0, 0.0), "weighted": True},
    'macro F1@3, labels="all"': {"top": 2.0, "below": (1.0, 1.0), "over": "all"},
    "macro recall@3": {},
}
"""Averages over the rarest third of 120 labels.

The first two depend on the number of rows.
"""
TRUTH = 50_000
"""Rows, drawn three times, whose values stand for those of any number of rows."""


def _lists_of_three(
    rng: Random, rows: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which labels rows hold, at most three, and which three a model lists.

    The first labels are held most often.
    """
    popularity = (np.arange(LABELS) + 10) ** -1.4
    edges = np.cumsum(popularity / popularity.sum())
    is_relevant = np.zeros((rows, LABELS), bool)
    drawn = np.minimum(np.searchsorted(edges, rng.random((rows, 3))), LABELS - 1)
    is_relevant[np.arange(rows)[:, None], drawn] = True
    scores = rng.normal(size=is_relevant.shape) + 1.6 * is_relevant
    listed = np.zeros_like(is_relevant)
    listed[np.arange(rows)[:, None], np.argpartition(-scores, 3, axis=1)[:, :3]] = True
    return is_relevant[:, RAREST], listed[:, RAREST]


def _averages(rng: Random, rows: int) -> dict[str, LabelRows]:
    """Return the averages of :data:`MOVING` for one sample."""
    is_relevant, listed = _lists_of_three(rng, rows)
    places, labels = np.nonzero(is_relevant | listed)
    flags = listed[places, labels], is_relevant[places, labels]
    inside = np.ones(rows, bool)
    averages = {}
    for name, arguments in MOVING.items():
        averages[name] = LabelRows(
            places, labels, *flags, inside, RAREST.size, **arguments
        )
    return averages


@cache
def _truth() -> dict[str, float]:
    """Return the value of each average over very many rows."""
    rng = np.random.default_rng(5)
    samples = [_averages(rng, TRUTH) for _ in range(3)]
    return {
        name: float(np.mean([sample[name].value() for sample in samples]))
        for name in MOVING
    }


def moving(rows: int, num_samples: int) -> dict[str, tuple[float, ...]]:
    """Return by average the numbers of a line of the table.

    They are the truth, the mean at this number of rows, and the mean of 2v - h, of the
    value v and the value h at half of the rows; then shares of the samples: intervals
    that hold the mean and the truth, and reports that say that the value depends on the
    number of rows.
    """
    rng, truth = np.random.default_rng(4), _truth()
    samples = [_averages(rng, rows) for _ in range(num_samples)]
    lines: dict[str, tuple[float, ...]] = {}
    for name in MOVING:
        values = [
            intervals({"k": sample[name]}, resamples=0)["k"] for sample in samples
        ]
        halves = [at_half_the_rows(sample[name]) for sample in samples]
        mean = float(np.nanmean([interval.value for interval in values]))
        bounds, moves = [], []
        for interval, half, sample in zip(values, halves, samples, strict=True):
            bounds.append(2 * interval.value - half)
            is_moving = interval.moves(half) and sample[name].moves_with_rows()
            moves.append(is_moving or sample[name].rests_on_single_units())
        coverages = _held(values, mean), _held(values, truth[name])
        lines[name] = (
            truth[name],
            mean,
            float(np.nanmean(bounds)),
            *coverages,
            float(np.mean(moves)),
        )
    return lines


# -- blind spots -----------------------------------------------------------------------

ALIKE = ((6, 3, 1000), (15, 3, 60), (200, 10, 60), (300, 10, None))
"""Numbers of labels, of buckets, and of the rows of each label.

None stands for supports of 1,000, 667, 500 ... rows.
"""


def named_by_chance(labels: int, buckets: int, rows: int | None, reports: int) -> float:
    """Return the share of reports that name a blind spot where there is none.

    All labels of a bucket are found equally often.
    """
    rng = np.random.default_rng(1)
    bucket = np.arange(labels) * buckets // labels
    rates, means = (
        np.linspace(0.7, 0.2, buckets)[bucket],
        2000 / np.arange(2, labels + 2),
    )
    named = 0
    for _ in range(reports):
        support = np.full(labels, rows) if rows is not None else rng.poisson(means)
        named += (
            blind_spots(rng.binomial(support, rates), support, bucket).listed.size > 0
        )
    return named / reports


def named_rightly(reports: int) -> float:
    """Return the share of reports that name the one label that is rarely found.

    This label is found in .3 of 60 rows, the others of its bucket of 100 in .6.
    """
    rng = np.random.default_rng(2)
    bucket = np.arange(1000) // 100
    rates, support = np.linspace(0.7, 0.2, 10)[bucket], np.full(1000, 60)
    rates[100:200], rates[100] = 0.6, 0.3
    named = 0
    for _ in range(reports):
        named += (
            100 in blind_spots(rng.binomial(support, rates), support, bucket).listed
        )
    return named / reports


def named_of_a_majority(reports: int) -> float:
    """Return how many labels a report names where 80 of 100 are found less often.

    These 80 labels are found in .6 of the rows, the other 20 in .9.
    """
    rng = np.random.default_rng(3)
    rates, support = np.repeat([0.9, 0.6], [20, 80]), np.full(100, 60)
    return float(
        np.mean(
            [
                blind_spots(rng.binomial(support, rates), support).listed.size
                for _ in range(reports)
            ]
        )
    )


# -- the tables ------------------------------------------------------------------------

HEADS = (
    "kind",
    "a row's value",
    "rows",
    "rejected",
    "difference held",
    "value held",
    "quick",
)


def share(value: float) -> str:
    """Return a share with three digits, – for NaN."""
    return "–" if math.isnan(value) else f"{value:.3f}".removeprefix("0")


def _marked(value: float, pairs: int, is_level: bool = False) -> str:
    """Return a share, marked if it misses the accepted bounds by more than chance.

    Chance is two standard errors of so many pairs.
    """
    if math.isnan(value):
        return "–"
    low, high = (0.0, MOST_REJECTED) if is_level else ACCEPTED
    too_low = value < low - 2 * math.sqrt(low * (1 - low) / pairs)
    too_high = value > high + 2 * math.sqrt(high * (1 - high) / pairs)
    if too_low or too_high:
        return share(value) + MARK
    return share(value)


def _line(setting: Setting, rates: Rates, pairs: int) -> list[str]:
    """Return the line of a setting."""
    coverages = [
        _marked(rate, pairs)
        for rate in (rates.difference, rates.resampled, rates.quick)
    ]
    return [
        setting.kind,
        setting.name,
        f"{setting.rows:,}",
        _marked(rates.rejected, pairs, is_level=True),
        *coverages,
    ]


def _moving_lines(samples: int) -> Iterator[list[str]]:
    by_rows = {rows: moving(rows, samples) for rows in (60, 300, 1000)}
    for name in MOVING:
        for rows, lines in by_rows.items():
            yield [name, f"{rows:,}", *map(share, lines[name])]


def _blind_lines(reports: int) -> Iterator[list[str]]:
    for labels, buckets, rows in ALIKE:
        each = "1,000, 667, 500 … 7" if rows is None else f"{rows:,}"
        yield [
            f"{labels} labels alike, in {buckets} buckets",
            each,
            share(named_by_chance(labels, buckets, rows, reports)),
        ]
    yield [
        "1 of 1,000 labels found in .3 of its rows, the others of its bucket in .6",
        "60",
        share(named_rightly(reports)),
    ]


def _plan_lines(pairs: int, resamples: int) -> Iterator[list[str]]:
    for difference, differing in PLANS:
        rows, rate = power_of_plan(difference, differing, pairs, resamples)
        yield [f"{difference:g}", f"{differing:g}", f"{rows:,}", share(rate)]


def _family_lines(number: int, resamples: int) -> Iterator[list[str]]:
    for rows in (25, 60, 200):
        for differing in (1.0, 0.08):
            yield [
                f"{rows}",
                f"{differing:g}",
                share(families(rows, differing, number, resamples)),
            ]


def claims(pairs: int, resamples: int) -> str:
    """Simulate all settings, print them, and return the tables as Markdown."""
    start = perf_counter()
    lines = []
    for setting in settings():
        # samples of many rows take longer, and their rates are those of fewer rows
        num_pairs = pairs if setting.rows < 2000 else max(2, pairs // 2)
        rates = simulate(setting, num_pairs, resamples)
        if rates.are_doubtful:
            num_pairs *= AGAIN
            rates = simulate(setting, num_pairs, resamples)
        lines.append(_line(setting, rates, num_pairs))
        print(f"{perf_counter() - start:6.1f} s  {' | '.join(lines[-1])}", flush=True)
    chance = 1.96 * math.sqrt(LEVEL * (1 - LEVEL) / pairs)
    least = ", ".join(share(power(rows, pairs, resamples)) for rows in (50, 100, 300))
    parts = [
        f"{pairs:,} pairs of models in each line (half of them from 2,000 rows on), "
        f"{resamples} resamples; shares move by ±{chance:.3f} by chance alone. A line "
        "with a share outside of .90 to .99, or a level above .06, was drawn again "
        f"with {AGAIN} times as many pairs. {MARK}: outside by more than chance. –: "
        "most samples are refused with a reason.",
        table(HEADS, lines),
        "All keys of a comparison together: the share of comparisons of equal models "
        "that find any difference, in ten means, ratios and averages over 60 labels.",
        table(
            ("rows", "share of rows that differ", "find a difference"),
            _family_lines(max(2, pairs // 4), resamples),
        ),
        f"The least difference, named with a power of .8, was found in {least} of "
        "pairs that differ by it (share of 3 labels; 50, 100 and 300 rows). "
        "`rows_needed`, with a power of .8, for differences of hits:",
        table(
            ("difference", "rows that differ", "rows needed", "found"),
            _plan_lines(pairs, resamples),
        ),
        (
            "Blind spots: at most .05 of reports may name a label where all labels of "
            "a bucket are alike."
        ),
        table(
            ("what is drawn", "rows of each label", "reports that name a label"),
            _blind_lines(max(2, pairs // 2)),
        ),
        (
            "Of 80 labels found in .6, beside 20 in .9, a report names "
            f"{named_of_a_majority(max(2, pairs // 4)):.2f}."
        ),
        "Averages over labels depend on the number of rows. `mean` is that of so many "
        "rows, `bound` the one that reports give for many rows, and `said` the share "
        "of reports that say that the value depends on the rows.",
        table(
            (
                "rarest third of 120 labels",
                "rows",
                "truth",
                "mean",
                "bound",
                "mean held",
                "truth held",
                "said",
            ),
            _moving_lines(max(2, pairs // 5)),
        ),
    ]
    return "\n\n".join(parts)


def main(arguments: Sequence[str] | None = None) -> None:
    """Simulate all settings, print them, and write the tables of the page."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks claims", description=__doc__
    )
    parser.add_argument(
        "--pairs", type=int, default=1000, help="pairs of models per setting"
    )
    parser.add_argument(
        "--resamples", type=int, default=499, help="resamples and swaps of each pair"
    )
    parser.add_argument(
        "--page", type=Path, default=PAGE, help="the page whose tables are replaced"
    )
    options = parser.parse_args(arguments)
    text = claims(options.pairs, options.resamples)
    print(text)
    replace_table(options.page, "benchmarks claims", text)
    print(f"written to {options.page}")
