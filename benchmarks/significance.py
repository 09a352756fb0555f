"""How often tests and intervals err, by simulation: ``python -m benchmarks.significance`` writes docs/significance.md.

Pairs of models are drawn that do not differ: in each row it is chance which model got which result. Tests at .05 should
reject .05 of them; 95 % intervals should hold the truth in .95: of the difference, which is 0, and of one value, which
is what samples of so many rows have in the mean.
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
from tailmetrics.significance import Interval, LabelRows, ShownRows, blind_spots, compare, intervals
from tailmetrics.significance.halves import at_half_the_rows
from tailmetrics.significance.labels import Exposure

PAGE = Path(__file__).parents[1] / "docs" / "significance.md"
LEVEL = 0.05
TOGETHER = 100
"""Pairs that meet the same resamples: enough to save time, few enough to be nearly independent."""
Array: TypeAlias = NDArray[np.float64]
Random: TypeAlias = np.random.Generator
Pair: TypeAlias = "tuple[dict[str, Any], dict[str, Any]]"


@dataclass(frozen=True)
class Setting:
    """What is drawn.

    Attributes:
        name: What a row's value is.
        rows: How many rows, or clusters of 5 rows.
        draw: Takes a generator and the number of rows, and returns one pair of models.
        clustered: Whether rows come in clusters.
        key: What is read: a key of the rows, or the gap between ``head`` and ``tail``.
        unbounded: Whether values have no bounds.
    """

    name: str
    rows: int
    draw: Callable[[Random, int], Pair]
    clustered: bool = False
    key: str = "k"
    unbounded: bool = False


@dataclass(frozen=True)
class Rates:
    """Shares of the pairs: tests that reject, and intervals that hold the truth; NaN where there are none."""

    randomisation: float
    difference: float
    resampled: float
    quick: float


def _means(sample: Callable[[Random, int], Array]) -> Callable[[Random, int], Pair]:
    def draw(rng: Random, rows: int) -> Pair:
        first, second = sample(rng, rows)
        return {"k": first}, {"k": second}

    return draw


def _hits(rng: Random, rows: int) -> Array:
    return (rng.random((2, rows)) < rng.beta(2, 4, rows)).astype(np.float64)


def _shares(rng: Random, rows: int) -> Array:
    return rng.binomial(3, rng.beta(2, 4, rows), (2, rows)) / 3


def _skewed(rng: Random, rows: int) -> Array:
    return rng.gamma(1.0, size=rows) + rng.exponential(size=(2, rows))


def _tied(rng: Random, rows: int) -> Array:
    """Recall at 1 where 1 to 4 labels share the best score: hits in expectation."""
    return _hits(rng, rows) / rng.integers(1, 5, (2, rows))


def _of_clusters(sample: Callable[[Random, Array], Array]) -> Callable[[Random, int], Pair]:
    def draw(rng: Random, clusters: int) -> Pair:
        # each model has its own affinity to a cluster, so that it is whole clusters that are exchangeable
        return tuple({"k": sample(rng, np.repeat(rng.beta(2, 4, clusters), 5))} for _ in range(2))  # type: ignore[return-value]

    return draw


def _counts(rng: Random, rows: int) -> Pair:
    relevant = 1 + rng.poisson(3, rows)
    first, second = rng.binomial(relevant, rng.beta(2, 4, rows), (2, rows))
    return {"k": (first, relevant)}, {"k": (second, relevant)}


def _over_labels(num_labels: int, measure: str) -> Callable[[Random, int], Pair]:
    """Return what draws 3 relevant labels a row, rarer ones less often found, and hard rows in which none is."""
    labels = np.arange(num_labels)
    popularity = 1 / (labels + 5.0)
    edges = np.cumsum(popularity / popularity.sum())
    found = 0.75 - 0.5 * labels / num_labels
    below, top = ((0.0, 1.0), 1.0) if measure == "recall" else ((1.0, 1.0), 2.0)

    def draw(rng: Random, rows: int) -> Pair:
        held = np.minimum(np.searchsorted(edges, rng.random((rows, 3))), num_labels - 1)
        row = np.repeat(np.arange(rows), 3)
        code = np.unique(row * num_labels + held.ravel())
        row, label = code // num_labels, code % num_labels
        hardness = rng.normal(0, 0.2, rows)[row]
        models = []
        for _ in range(2):
            hit = rng.random(label.size) < found[label] + hardness
            wrong = np.minimum(np.searchsorted(edges, rng.random((rows, 2))), num_labels - 1)
            more = np.setdiff1d(np.repeat(np.arange(rows), 2) * num_labels + wrong.ravel(), code)
            codes = np.concatenate([code, more])
            predicted = np.concatenate([hit, np.ones(more.size, bool)])
            inside = np.ones(rows, bool)
            held_too = np.arange(codes.size) < code.size
            cells = codes // num_labels, codes % num_labels, predicted, held_too
            models.append({"k": LabelRows(*cells, inside, num_labels, top, below)})
        return models[0], models[1]

    return draw


def _shown(measure: Exposure) -> Callable[[Random, int], Pair]:
    """Return what shows each row 5 of 1,000 labels, popular ones more often, and to some rows even more often."""
    labels = np.arange(1000)
    popularity = -np.log(labels + 5.0)

    def draw(rng: Random, rows: int) -> Pair:
        taste = 1 + 0.3 * rng.normal(size=(rows, 1))
        models = []
        for _ in range(2):
            best = np.argpartition(-popularity * taste - rng.gumbel(size=(rows, 1000)), 5, axis=1)[:, :5].ravel()
            row, ones = np.repeat(np.arange(rows), 5), np.ones(best.size, bool)
            models.append({"k": ShownRows(row, best, ones, ones, np.ones(rows, bool), 1000, measure, 1000, popularity)})
        return models[0], models[1]

    return draw


def _two_buckets(rng: Random, rows: int) -> Pair:
    """Recall of the head in all rows, and of the tail in two rows of five."""
    chance, has_tail = rng.beta(3, 3, rows), rng.random(rows) < 0.4
    models = []
    for _ in range(2):
        head = rng.binomial(2, chance) / 2
        tail = np.where(has_tail, rng.binomial(2, chance / 2) / 2, np.nan)
        models.append({"head": head, "tail": tail})
    return models[0], models[1]


def _beyond_chance(rng: Random, rows: int) -> Pair:
    """Recall at 1 of one or two labels among 20, and in two rows of five among 200, less chance; and what could be."""
    found, has_tail, models = rng.beta(3, 3, rows), rng.random(rows) < 0.4, []
    n = rng.integers(1, 3, (2, rows))
    for _ in range(2):
        head, tail = (
            ((rng.random(rows) < share * found) / labels - 1 / size, 1 / labels - 1 / size)
            for share, labels, size in zip((1.0, 0.5), n, (20, 200), strict=True)
        )
        models.append({"head": head, "tail": tuple(np.where(has_tail, side, np.nan) for side in tail)})
    return models[0], models[1]


def settings() -> Iterator[Setting]:
    """Yield all settings in the order of the table."""
    for rows in (20, 50, 100, 2000):
        yield Setting("hit or not", rows, _means(_hits))
    for rows in (20, 50, 100, 2000):
        yield Setting("share of 3 labels", rows, _means(_shares))
    for rows in (20, 50, 100):
        yield Setting("ratio of counts", rows, _counts)
    for rows in (50, 100, 300, 2000):
        yield Setting("skewed, no bound", rows, _means(_skewed), unbounded=True)
    for clusters in (20, 60, 200):
        yield Setting("share, in clusters of 5", clusters, _of_clusters(lambda rng, p: rng.binomial(3, p) / 3), True)
    yield Setting("hit or not, in clusters of 5", 60, _of_clusters(lambda rng, p: rng.binomial(1, p) * 1.0), True)
    yield Setting("hit expected among ties", 100, _means(_tied))
    for rows in (100, 300, 2000):
        yield Setting("macro recall, 60 labels", rows, _over_labels(60, "recall"))
    for rows in (300, 2000):
        yield Setting("macro F1, 2,000 labels", rows, _over_labels(2000, "f1"))
    yield Setting("coverage of 1,000 labels", 300, _shown("coverage"))
    yield Setting("Gini index, 1,000 labels", 300, _shown("gini"))
    yield Setting("entropy, 1,000 labels", 300, _shown("entropy"), unbounded=True)
    for rows in (100, 300):
        yield Setting("gap, and change of a gap", rows, _two_buckets, key="gap")
    for rows in (100, 300):
        yield Setting("adjusted gap, and its change", rows, _beyond_chance, key="gap")


def simulate(setting: Setting, pairs: int, resamples: int) -> Rates:
    """Return how often tests and intervals err over ``pairs`` pairs of models."""
    rng = np.random.default_rng(1)
    codes = np.repeat(np.arange(setting.rows), 5) if setting.clustered else None
    rejected: list[bool] = []
    differences: list[Interval] = []
    kept: dict[bool, list[Interval]] = {False: [], True: []}
    values: list[float] = []
    for start in range(0, pairs, TOGETHER):
        drawn = [setting.draw(rng, setting.rows) for _ in range(min(TOGETHER, pairs - start))]
        sides = [{f"{pair}/{key}": rows for pair, one in enumerate(drawn) for key, rows in one[side].items()}
                 for side in range(2)]  # fmt: skip
        gaps = {f"{pair}/gap": [f"{pair}/head", f"{pair}/tail"] for pair in range(len(drawn))}
        more: dict[str, Any] = {"clusters": codes, "resamples": resamples, "seed": start}
        more |= {"gaps": gaps if setting.key == "gap" else {}, "unbounded": list(sides[0]) if setting.unbounded else []}
        found = compare({"first": sides[0], "second": sides[1]}, correction="none", **more)
        found = [one for one in found if one.key.endswith(setting.key)]
        rejected += [one.p.randomisation <= LEVEL for one in found]
        differences += [one.interval for one in found]
        values += [value for one in found for value in (one.value, one.baseline_value)]
        for quick in (False, True):
            alone = intervals(sides[0], **(more | ({"resamples": 0} if quick else {})))
            kept[quick] += [one for key, one in alone.items() if key.endswith(setting.key)]
    truth = float(np.mean(values))
    share = float(np.mean(rejected))
    return Rates(share, _held(differences, 0.0), _held(kept[False], truth), _held(kept[True], truth))


def power(rows: int, pairs: int, resamples: int) -> float:
    """Return how often a difference of the least size that so many rows show is found."""
    rng = np.random.default_rng(2)

    def found(shift: float) -> list[Any]:
        drawn = [_shares(rng, rows) for _ in range(pairs)]
        first, second = ({f"{pair}": one[side] + side * shift for pair, one in enumerate(drawn)} for side in range(2))
        return compare({"a": first, "b": second}, correction="none", resamples=resamples)

    least = float(np.mean([one.least_difference for one in found(0.0)]))
    return float(np.mean([one.p.randomisation <= LEVEL for one in found(least)]))


def _held(found: Sequence[Interval], truth: float) -> float:
    given = [one for one in found if not math.isnan(one.low)]
    return sum(one.low - 1e-9 <= truth <= one.high + 1e-9 for one in given) / len(given) if given else math.nan


LABELS = 120
RAREST = np.arange(80, LABELS)
MOVING = {
    "weighted precision@3": {"below": (1.0, 0.0), "weighted": True},
    'macro F1@3, labels="all"': {"top": 2.0, "below": (1.0, 1.0), "over": "all"},
    "macro recall@3": {},
}
"""Averages over the rarest third of 120 labels, of which the first two depend on the number of rows."""
TRUTH = 50_000
"""Rows, drawn three times, whose values stand for those of any number of rows."""


def _lists_of_three(rng: Random, rows: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which labels rows hold, at most three, the first ones most often; and which three a model lists."""
    popularity = (np.arange(LABELS) + 10) ** -1.4
    edges = np.cumsum(popularity / popularity.sum())
    held = np.zeros((rows, LABELS), bool)
    drawn = np.minimum(np.searchsorted(edges, rng.random((rows, 3))), LABELS - 1)
    held[np.arange(rows)[:, None], drawn] = True
    scores = rng.normal(size=held.shape) + 1.6 * held
    listed = np.zeros_like(held)
    listed[np.arange(rows)[:, None], np.argpartition(-scores, 3, axis=1)[:, :3]] = True
    return held[:, RAREST], listed[:, RAREST]


def _averages(rng: Random, rows: int) -> dict[str, LabelRows]:
    held, listed = _lists_of_three(rng, rows)
    row, label = np.nonzero(held | listed)
    flags = listed[row, label], held[row, label]
    return {name: LabelRows(row, label, *flags, np.ones(rows, bool), RAREST.size, **of) for name, of in MOVING.items()}  # type: ignore[arg-type]


@cache
def _truth() -> dict[str, float]:
    rng = np.random.default_rng(5)
    whole = [{name: one.value() for name, one in _averages(rng, TRUTH).items()} for _ in range(3)]
    return {name: float(np.mean([one[name] for one in whole])) for name in MOVING}


def moving(rows: int, samples: int) -> dict[str, tuple[float, ...]]:
    """Return by average the numbers of a line of the table.

    They are the truth, the mean at this number of rows, and the estimate for many rows; then shares of the samples:
    intervals that hold the mean and the truth, and reports that say that the value depends on the number of rows.
    """
    rng, truth = np.random.default_rng(4), _truth()
    drawn = [_averages(rng, rows) for _ in range(samples)]
    found: dict[str, tuple[float, ...]] = {}
    for name in MOVING:
        values = [intervals({"k": one[name]}, resamples=0)["k"] for one in drawn]
        halves = [at_half_the_rows(one[name]) for one in drawn]
        mean = float(np.nanmean([one.value for one in values]))
        known = [of for of in zip(values, halves, drawn, strict=True) if not math.isnan(of[0].low)]
        many = float(np.mean([2 * one.value - half for one, half, _ in known]))
        said = float(np.mean([one.moves(half) or of[name].rests_on_single_rows() for one, half, of in known]))
        found[name] = truth[name], mean, many, _held(values, mean), _held(values, truth[name]), said
    return found


ALIKE = ((6, 3, 1000), (15, 3, 60), (200, 10, 60), (300, 10, None))
"""Numbers of labels, of buckets, and of the rows of each label; None for supports of 1,000, 667, 500 ... rows."""


def named_by_chance(labels: int, buckets: int, rows: int | None, reports: int) -> float:
    """Return the share of reports that name a blind spot where all labels of a bucket are found equally often."""
    rng, bucket, named = np.random.default_rng(1), np.arange(labels) * buckets // labels, 0
    rates, means = np.linspace(0.7, 0.2, buckets)[bucket], 2000 / np.arange(2, labels + 2)
    for _ in range(reports):
        support = rng.poisson(means) if rows is None else np.full(labels, rows)
        named += blind_spots(rng.binomial(support, rates), support, bucket).listed.size > 0
    return named / reports


def named_rightly(reports: int) -> float:
    """Return the share of reports that name the one label found in .3 of 60 rows, in a bucket of 100 found in .6."""
    rng, bucket, named = np.random.default_rng(2), np.arange(1000) // 100, 0
    rates, support = np.linspace(0.7, 0.2, 10)[bucket], np.full(1000, 60)
    rates[100:200], rates[100] = 0.6, 0.3
    for _ in range(reports):
        named += 100 in blind_spots(rng.binomial(support, rates), support, bucket).listed
    return named / reports


def _blind_lines(reports: int) -> Iterator[list[str]]:
    for labels, buckets, rows in ALIKE:
        of_each = "1,000, 667, 500 … 7" if rows is None else f"{rows:,}"
        share = f"{named_by_chance(labels, buckets, rows, reports):.3f}".removeprefix("0")
        yield [f"{labels} labels alike, in {buckets} buckets", of_each, share]
    share = f"{named_rightly(reports):.3f}".removeprefix("0")
    yield ["1 of 1,000 labels found in .3 of its rows, the others of its bucket in .6", "60", share]


BLIND_HEADS = ("what is drawn", "rows of each label", "reports that name a label")
MOVING_HEADS = ("rarest third of 120 labels", "rows", "truth", "mean", "estimate", "mean held", "truth held", "said")
HEADS = ("a row's value", "rows", "rejected", "difference held", "value held", "quick")
SHOWN = ("randomisation", "difference", "resampled", "quick")
"""Rates in the table of the page: what decides, and its intervals."""


def _moving_lines(samples: int) -> Iterator[list[str]]:
    of_rows = {rows: moving(rows, samples) for rows in (60, 300, 1000)}
    for name in MOVING:
        for rows, found in of_rows.items():
            yield [name, f"{rows:,}", *(f"{share:.3f}".removeprefix("0") for share in found[name])]


def main(arguments: Sequence[str] | None = None) -> None:
    """Simulate all settings, print them, and write the table of the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.significance", description=__doc__)
    parser.add_argument("--pairs", type=int, default=2000, help="pairs of models per setting")
    parser.add_argument("--resamples", type=int, default=999, help="resamples and swaps of each pair")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page whose table is replaced")
    options = parser.parse_args(arguments)
    start = perf_counter()
    lines = [HEADS, ("---", *["---:"] * (len(HEADS) - 1))]
    for setting in settings():
        rates = simulate(setting, options.pairs, options.resamples)
        decisive = [getattr(rates, name) for name in SHOWN]
        shown = ("–" if math.isnan(one) else f"{one:.3f}".removeprefix("0") for one in decisive)
        lines.append((setting.name, f"{setting.rows:,}", *shown))
        print(f"{perf_counter() - start:6.1f} s  {' | '.join(lines[-1])}", flush=True)
    chance = 1.96 * math.sqrt(LEVEL * (1 - LEVEL) / options.pairs)
    least = [f"{power(rows, options.pairs, options.resamples):.3f}".removeprefix("0") for rows in (50, 100, 300)]
    text = [
        f"{options.pairs:,} pairs of models in each line, {options.resamples} resamples; shares move by ±{chance:.3f} "
        "by chance alone.",
        "\n".join(f"| {' | '.join(cells)} |" for cells in lines),
        f"The least difference, named with a power of .8, was found in {', '.join(least)} of pairs that differ by it "
        "(share of 3 labels; 50, 100 and 300 rows).",
        "Blind spots: at most .05 of reports may name a label where all labels of a bucket are alike.",
        table(BLIND_HEADS, _blind_lines(max(2, options.pairs // 2))),
        "Averages over labels depend on the number of rows. `mean` is that of so many rows, `estimate` the one that "
        "reports give for many rows, and `said` the share of reports that say that the value depends on the rows.",
        table(MOVING_HEADS, _moving_lines(max(2, options.pairs // 5))),
    ]
    print("\n\n".join(text[2:]))
    replace_table(options.page, "benchmarks.significance", "\n\n".join(text))
    print(f"written to {options.page}")


if __name__ == "__main__":
    main()
