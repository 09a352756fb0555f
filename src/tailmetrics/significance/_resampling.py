"""Distributions of statistics over resampled rows: a block of resamples at a time, all keys in one matrix product."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Protocol, TypeVar

import numpy as np

from tailmetrics.significance._statistics import Array

T = TypeVar("T")

BLOCK = 2**24
"""Row weights held at a time, 128 MB."""

TOGETHER = 2**26
"""Values of columns, and of their sums over resamples, held at a time, 512 MB; more keys share what is drawn."""


class Summed(Protocol):
    """What is read from sums of columns over rows."""

    @property
    def columns(self) -> Sequence[Array]:
        """Each of shape (N,)."""

    def read(self, sums: Array) -> Array:
        """Return shape (M,) from sums of shape (M, len(columns))."""


def groups(statistics: Iterable[T], columns: Callable[[T], int], length: int) -> Iterator[list[T]]:
    """Yield statistics in groups that fit into memory together; each group meets the same draws.

    Args:
        statistics: Made as they are asked for.
        columns: How many columns one has.
        length: Values per column: rows, or resamples if there are more.
    """
    group: list[T] = []
    held = 0
    for statistic in statistics:
        size = columns(statistic) * length
        if group and held + size > TOGETHER:
            yield group
            group, held = [], 0
        group.append(statistic)
        held += size
    if group:
        yield group


def bootstrap(statistics: Sequence[Summed], resamples: int, seed: int) -> list[Array]:
    """Return each statistic's values, shape (resamples,), over rows drawn with replacement, N out of N.

    All N rows are drawn from, those that do not count for a key included, so all keys share a draw and the number of
    rows that count varies as it would in a new sample. A resample without any is NaN.
    """
    return _distributions(statistics, resamples, np.random.default_rng([seed, 0]), _draw_counts)


def swap(statistics: Sequence[Summed], resamples: int, seed: int) -> list[Array]:
    """Return each statistic's values, shape (resamples,), when each row changes sides with probability 1/2."""
    return _distributions(statistics, resamples, np.random.default_rng([seed, 1]), _draw_bits)


class _Draw(Protocol):
    def __call__(self, rng: np.random.Generator, resamples: int, num_rows: int) -> Array: ...


def _draw_counts(rng: np.random.Generator, resamples: int, num_rows: int) -> Array:
    weights = np.empty((resamples, num_rows))
    for row in weights:
        row[:] = np.bincount(rng.integers(num_rows, size=num_rows), minlength=num_rows)
    return weights


def _draw_bits(rng: np.random.Generator, resamples: int, num_rows: int) -> Array:
    words = -(-num_rows // 64)  # whole words per resample: the stream must not depend on the size of a block
    packed = np.frombuffer(rng.bytes(8 * words * resamples), np.uint8).reshape(resamples, 8 * words)
    return np.unpackbits(packed, axis=1, count=num_rows).astype(np.float64)


def _distributions(statistics: Sequence[Summed], resamples: int, rng: np.random.Generator, draw: _Draw) -> list[Array]:
    if not statistics:
        return []
    table, places = _unique_columns(statistics)
    sizes = _blocks(resamples, max(1, BLOCK // max(1, len(table))))
    sums = np.concatenate([draw(rng, size, len(table)) @ table for size in sizes])
    return [statistic.read(sums[:, place]) for statistic, place in zip(statistics, places, strict=True)]


def _blocks(total: int, size: int) -> Iterator[int]:
    for start in range(0, total, size):
        yield min(size, total - start)


def _unique_columns(statistics: Sequence[Summed]) -> tuple[Array, list[list[int]]]:
    """Return the distinct columns, shape (N, C), and where each statistic finds its own: many keys share a mask."""
    found: dict[bytes, int] = {}
    columns: list[Array] = []
    places = []
    for statistic in statistics:
        place = []
        for column in statistic.columns:
            digest = blake2b(np.ascontiguousarray(column).data).digest()
            if digest not in found:
                found[digest] = len(columns)
                columns.append(column)
            place.append(found[digest])
        places.append(place)
    return np.stack(columns, axis=1), places
