"""Consecutive rows of a file as arrays: what every reader yields, before it becomes tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.integer[Any]]
Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Ragged:
    """Rows of different lengths: row i holds the entries ``offsets[i]`` to ``offsets[i + 1]``.

    Attributes:
        offsets: Shape (n + 1,), int64, from 0.
        ids: Shape (entries,), label ids.
        values: Shape (entries,), scores or gains; None when the file gives none.
    """

    offsets: Ints
    ids: Ints
    values: Array | None = None

    @classmethod
    def from_lengths(cls, lengths: Ints, ids: Ints, values: Array | None = None) -> Ragged:
        """Return rows of these lengths."""
        return cls(starts(lengths), ids, values)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Ints:
        """Entries per row, shape (n,)."""
        return np.diff(self.offsets)

    @property
    def width(self) -> int:
        """Entries of the longest row."""
        return int(self.lengths.max(initial=0))

    def row_of(self, entry: int) -> int:
        """Return the row that an entry lies in."""
        return int(np.searchsorted(self.offsets, entry, side="right")) - 1

    def slice(self, start: int, stop: int) -> Ragged:
        """Return the rows from ``start`` up to ``stop``, without a copy of their entries."""
        offsets = self.offsets[start : stop + 1]
        entries = slice(int(offsets[0]), int(offsets[-1]))
        return Ragged(offsets - offsets[0], self.ids[entries], None if self.values is None else self.values[entries])

    def select(self, keep: NDArray[np.bool_]) -> Ragged:
        """Return the same rows with only the entries marked in ``keep``."""
        values = None if self.values is None else self.values[keep]
        return Ragged(starts(keep)[self.offsets], self.ids[keep], values)

    def padded(self, entries: Array, fill: float, width: int) -> Array:
        """Return ``entries`` (``ids`` or ``values``) as a matrix of shape (n, width), rows filled up with ``fill``."""
        if len(entries) == len(self) * width:
            return entries.reshape(len(self), width)
        matrix = np.full((len(self), width), fill, dtype=entries.dtype)
        matrix[np.arange(width) < self.lengths[:, None]] = entries
        return matrix


Rows: TypeAlias = Ragged | Array
"""Ragged rows, or a dense matrix [n, L]."""
AnyRows = TypeVar("AnyRows", bound="Ragged | Array")


def starts(lengths: Array) -> Ints:
    """Return where each run starts when runs of these lengths follow one another, and where the last one ends."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def entry_keys(rows: Ints, ids: Ints, *more: Ints) -> list[Ints]:
    """Return one number for each (row, id), that of other pairs (rows, ids) in ``more`` too; equal where both are.

    Keys of one row ascend with the id.
    """
    pairs = [(rows, ids), *zip(more[::2], more[1::2], strict=True)]
    largest = max((int(some.max(initial=0)) for _, some in pairs), default=0)
    last = max((int(some.max(initial=0)) for some, _ in pairs), default=0)
    if (largest + 1) * (last + 1) >= 2**63:  # too large to be multiplied: ids become places among all of them
        distinct = np.unique(np.concatenate([some for _, some in pairs]))
        pairs = [(row, np.searchsorted(distinct, some)) for row, some in pairs]
        largest = len(distinct)
    return [row.astype(np.int64) * (largest + 1) + some for row, some in pairs]


def rebatch(parts: Iterable[AnyRows], size: int) -> Iterator[AnyRows]:
    """Yield the same rows in batches of exactly ``size``, the last one possibly shorter."""
    pending: list[AnyRows] = []
    count = 0
    for part in parts:
        while count + len(part) >= size:
            yield _joined([*pending, _slice(part, 0, size - count)])
            part = _slice(part, size - count, len(part))
            pending, count = [], 0
        if len(part):
            pending.append(part)
            count += len(part)
    if count:
        yield _joined(pending)


def _slice(rows: AnyRows, start: int, stop: int) -> AnyRows:
    return cast("AnyRows", rows.slice(start, stop) if isinstance(rows, Ragged) else rows[start:stop])


def _joined(parts: list[AnyRows]) -> AnyRows:
    parts = [part for part in parts if len(part)]
    if len(parts) == 1:
        return parts[0]
    ragged: list[Ragged] = [part for part in parts if isinstance(part, Ragged)]
    return cast("AnyRows", _joined_lists(ragged) if ragged else np.concatenate(cast("list[Array]", parts)))


def _joined_lists(parts: list[Ragged]) -> Ragged:
    lengths = np.concatenate([part.lengths for part in parts])
    values = [part.values for part in parts if part.values is not None]
    ids = np.concatenate([part.ids for part in parts])
    return Ragged.from_lengths(lengths, ids, np.concatenate(values) if values else None)
