"""Populations from which pairs of runs are drawn that do not differ, and the value that each run has in all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Random = np.random.Generator
Shape: TypeAlias = tuple[int, ...]
Codes: TypeAlias = "NDArray[np.int64] | None"


@dataclass(frozen=True)
class Population:
    """Rows whose results under two runs are exchangeable.

    Attributes:
        values: What a row's value is, in words.
        kind: What is made of the rows.
        truth: The mean, ratio or median of all rows there are.
        draw: Takes a generator, the shape (P, N) of P data sets of N rows, and the cluster of each row if there are
            clusters; gives values and denominators of both runs, shape (2, P, N) each.
    """

    values: str
    kind: Literal["mean", "ratio", "median"]
    truth: float
    draw: Callable[[Random, tuple[int, int], Codes], tuple[Array, Array]]


def _shared(sample: Callable[[Shape], Array], shape: tuple[int, int], codes: Codes) -> Array:
    """Return what makes rows alike, shape (2, P, N): both runs on one row, or one run on the rows of one cluster."""
    if codes is None:
        return np.broadcast_to(sample(shape), (2, *shape))
    return sample((2, shape[0], int(codes.max()) + 1))[..., codes]


def _chance(rng: Random, shape: tuple[int, int], codes: Codes) -> Array:
    """Return the probability of a hit, 1/3 in the mean."""
    return _shared(lambda size: rng.beta(2, 4, size), shape, codes)


def _recall(rng: Random, shape: tuple[int, int], codes: Codes) -> tuple[Array, Array]:
    values = rng.binomial(3, _chance(rng, shape, codes)) / 3
    return values, np.ones_like(values)


def _hit(rng: Random, shape: tuple[int, int], codes: Codes) -> tuple[Array, Array]:
    values = rng.binomial(1, _chance(rng, shape, codes)).astype(np.float64)
    return values, np.ones_like(values)


def _rare_hit(rng: Random, shape: tuple[int, int], codes: Codes) -> tuple[Array, Array]:
    chance = _shared(lambda size: rng.beta(0.5, 9.5, size), shape, codes)
    values = rng.binomial(1, chance).astype(np.float64)
    return values, np.ones_like(values)


def _sparse(rng: Random, shape: tuple[int, int], codes: Codes) -> tuple[Array, Array]:
    chance = _shared(lambda size: rng.beta(1, 9, size), shape, codes)
    values = rng.beta(2, 2, (2, *shape)) * rng.binomial(1, chance)
    return values, np.ones_like(values)


def _ndcg(rng: Random, shape: tuple[int, int], codes: Codes) -> tuple[Array, Array]:
    chance = _shared(lambda size: rng.beta(4, 6, size), shape, codes)
    values = rng.beta(0.5, 2, (2, *shape)) * rng.binomial(1, chance)
    return values, np.ones_like(values)


def _skewed(rng: Random, shape: tuple[int, int], codes: Codes) -> tuple[Array, Array]:
    values = _shared(lambda size: rng.gamma(1, size=size), shape, codes) + rng.exponential(size=(2, *shape))
    return values, np.ones_like(values)


def _rank(rng: Random, shape: tuple[int, int], codes: Codes) -> tuple[Array, Array]:
    values = 1 + np.floor(
        _shared(lambda size: 4 * rng.gamma(1, size=size), shape, codes) + rng.exponential(8, (2, *shape))
    )
    return values, np.ones_like(values)


def _micro_recall(rng: Random, shape: tuple[int, int], codes: Codes) -> tuple[Array, Array]:
    """Hits over relevant labels, of which both runs have the same."""
    relevant = np.broadcast_to(1 + rng.poisson(3, shape), (2, *shape))
    return rng.binomial(relevant, _chance(rng, shape, codes)).astype(np.float64), relevant.astype(np.float64)


def _micro_precision(rng: Random, shape: tuple[int, int], codes: Codes) -> tuple[Array, Array]:
    """Hits over shown labels, of which each run has its own."""
    shown = 1 + rng.poisson(3 * rng.gamma(1, size=shape), (2, *shape))
    return rng.binomial(shown, _chance(rng, shape, codes)).astype(np.float64), shown.astype(np.float64)


def _heavy(rng: Random, shape: tuple[int, int], codes: Codes) -> tuple[Array, Array]:
    """Recall with weights of rows, of which a few have most."""
    weight = np.broadcast_to(rng.lognormal(0, 1.5, shape), (2, *shape))
    return weight * _recall(rng, shape, codes)[0], weight


def _median(draw: Callable[[Random, tuple[int, int], Codes], tuple[Array, Array]]) -> float:
    """Return the median of whole numbers, known from two million of them."""
    return float(np.median(draw(np.random.default_rng(0), (1, 1_000_000), None)[0]))


RECALL = Population("recall", "mean", 1 / 3, _recall)
HIT = Population("hit or not", "mean", 1 / 3, _hit)
RARE_HIT = Population("a hit in 20 rows", "mean", 1 / 20, _rare_hit)
NDCG = Population("nDCG, 0 in three rows of five", "mean", 0.08, _ndcg)
SPARSE = Population("nDCG, 0 in nine rows of ten", "mean", 1 / 20, _sparse)
SKEWED = Population("skewed without a bound", "mean", 2.0, _skewed)
MICRO_RECALL = Population("micro recall", "ratio", 1 / 3, _micro_recall)
MICRO_PRECISION = Population("micro precision", "ratio", 1 / 3, _micro_precision)
HEAVY = Population("recall with heavy weights", "ratio", 1 / 3, _heavy)
RANK = Population("rank", "median", _median(_rank), _rank)
