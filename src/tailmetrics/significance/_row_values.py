"""Reading of values per row: a value, or a numerator and a denominator."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tailmetrics.significance._clusters import Clusters
from tailmetrics.significance._statistics import Array, Median, RatioOfSums, Statistic, Sums, near_median

RowValues: TypeAlias = Mapping[str, ArrayLike | tuple[ArrayLike, ArrayLike]]
"""Key -> values of shape (N,), or (numerator, denominator) of shape (N,) each; NaN in rows that do not count."""

Kind: TypeAlias = Literal["mean", "ratio", "median"]


@dataclass(frozen=True, eq=False)
class KeyRows:
    """One key of one run.

    Attributes:
        kind: What is made of the rows.
        numerator: Shape (N,); the value itself, or the numerator of a ratio.
        denominator: Shape (N,); 1 unless a ratio.
    """

    kind: Kind
    numerator: Array
    denominator: Array

    @property
    def counted(self) -> NDArray[np.bool_]:
        """The rows that count, shape (N,)."""
        return ~(np.isnan(self.numerator) | np.isnan(self.denominator))

    @property
    def values(self) -> Array:
        """The value of each row, shape (N,); a ratio of 0 to 0 is 0."""
        return np.divide(
            self.numerator, self.denominator, out=np.zeros_like(self.numerator), where=self.denominator != 0
        )


def statistics_of(
    sides: Sequence[KeyRows], counted: NDArray[np.bool_], clusters: Clusters | None = None
) -> list[Statistic]:
    """Return the statistic of each side over the rows that count, made to be compared with one another."""
    sums: Sums = np.asarray if clusters is None else clusters.sums
    if sides[0].kind == "median":
        values = [side.numerator[counted] for side in sides]
        sizes = None if clusters is None else clusters.sums(counted.astype(np.float64))
        both = None if sizes is None else np.tile(sizes, len(sides))
        near = [*(near_median(some, sizes) for some in values), near_median(np.concatenate(values), both)]
        candidates = np.unique(np.concatenate(near))
        return [Median(side.numerator, counted, candidates, sums) for side in sides]
    return [
        RatioOfSums(sums(np.where(counted, side.numerator, 0)), sums(np.where(counted, side.denominator, 0)))
        for side in sides
    ]


def read_rows(caller: str, run: str, rows: RowValues, medians: frozenset[str]) -> dict[str, KeyRows]:
    """Return a run's keys as float64 arrays of one length."""
    if not rows:
        raise ValueError(f"{caller}: {run} has no keys; pass a dict of key -> values per row.")
    read = {key: _read_key(caller, run, key, value, covers(medians, key)) for key, value in rows.items()}
    sizes = {key: key_rows.numerator.size for key, key_rows in read.items()}
    first, size = next(iter(sizes.items()))
    for key, other in sizes.items():
        if other != size:
            raise ValueError(
                f"{caller}: {run} has {size} rows for {first!r}, but {other} for {key!r}; "
                "pass one value per row for every key, NaN where a row does not count."
            )
    return read


def covers(names: frozenset[str], key: str) -> bool:
    """Whether ``names`` holds the key, or the key without its bucket."""
    return not names.isdisjoint(_itself_and_stems(key))


def check_names(caller: str, argument: str, names: Collection[str], keys: Iterable[str]) -> frozenset[str]:
    """Return ``names`` if each covers a key."""
    if isinstance(names, str):
        raise TypeError(f"{caller}: {argument}={names!r} is one string; pass a list of keys, such as [{names!r}].")
    keys = tuple(keys)
    known = {stem for key in keys for stem in _itself_and_stems(key)}
    for name in names:
        if name not in known:
            raise ValueError(f"{caller}: {argument} holds {name!r}, which is no key; the keys are {', '.join(keys)}.")
    return frozenset(names)


def _itself_and_stems(key: str) -> Iterator[str]:
    """Yield the key, and what stands before each of its slashes."""
    yield key
    yield from (key[:place] for place, letter in enumerate(key) if letter == "/")


def _read_key(caller: str, run: str, key: str, value: Any, median: bool) -> KeyRows:
    if not isinstance(value, tuple):
        values = _read_array(caller, run, key, value)
        return KeyRows("median" if median else "mean", values, np.broadcast_to(1.0, values.shape))
    if median:
        raise ValueError(
            f"{caller}: {key!r} is a ratio of sums in {run}, which has no median; leave it out of medians."
        )
    if len(value) != 2:
        raise ValueError(f"{caller}: {key!r} in {run} has {len(value)} parts; pass a pair (numerator, denominator).")
    numerator, denominator = (_read_array(caller, run, key, part) for part in value)
    if numerator.shape != denominator.shape:
        raise ValueError(
            f"{caller}: {key!r} in {run} has {numerator.size} numerators and {denominator.size} denominators; "
            "pass one of each per row."
        )
    return KeyRows("ratio", numerator, denominator)


def _read_array(caller: str, run: str, key: str, value: Any) -> Array:
    array = np.asarray(value, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(
            f"{caller}: {key!r} in {run} is of shape {list(array.shape)}; "
            "pass one number per row, or for a ratio a tuple (numerator, denominator)."
        )
    return array
