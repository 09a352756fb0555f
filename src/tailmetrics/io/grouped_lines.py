"""Lines of rows on disk: those of a row lie side by side, so that a batch of rows is read as it lies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tailmetrics.io.rows import Array, Ints, Ragged

SPAN = 2**22
"""Places that lines of a block may lie apart: what is mapped of a file at a time."""
APART = 256
"""Of so many lines one may stand apart from the others of its row, as blocks come a little out of order."""


class GroupedLines:
    """The lines of some rows; written once, read as often as needed.

    Args:
        folder: Where their columns lie, a file each.
        name: What the files begin with.
        num_rows: How many rows there are.
        types: Columns that are kept, ``label`` and perhaps ``value``, with their types.
    """

    def __init__(self, folder: Path, name: str, num_rows: int, types: Mapping[str, np.dtype[Any]]) -> None:
        self._paths = {column: folder / f"{name}.{column}" for column in types}
        self._types = types
        self._num_rows = num_rows
        self._forget()

    def _forget(self) -> None:
        self._firsts = np.full(self._num_rows, np.iinfo(np.int64).max)
        self._lasts = np.full(self._num_rows, -1)
        self._lengths = np.zeros(self._num_rows, np.int64)

    @property
    def width(self) -> int:
        """Lines of the longest row."""
        return int(self._lengths.max(initial=0))

    def write(self, blocks: Iterable[Mapping[str, Array]], places: int) -> bool:
        """Keep the columns of lines, in the place of what was kept before.

        Args:
            blocks: Some lines each, in any order: the number of each line's row (``row``) and its place (``place``),
                and what is kept. Places are distinct; those that nobody has stay empty.
            places: How many places there are.

        Returns:
            Whether the places of every row follow one another; if not, nothing can be read.
        """
        self._forget()
        for name, path in self._paths.items():
            with path.open("wb") as file:
                file.truncate(places * self._types[name].itemsize)
        runs = lines = 0
        for block in blocks:
            at = block["place"]
            runs, lines = runs + self._place(block["row"], at), lines + len(at)
            first, behind = int(at.min()), int(at.max()) + 1
            met = np.count_nonzero(self._lengths)
            if behind - first > SPAN or runs > 2 * met + lines // APART + APART:
                return False
            for name in self._types:
                self._mapped(name, first, behind)[at - first] = block[name]
        found = self._lengths > 0
        return bool((self._lasts - self._firsts + 1 == self._lengths)[found].all())

    def _place(self, rows: Ints, places: Ints) -> int:
        """Note where rows lie, and return how many runs of lines of one row there are."""
        heads = np.flatnonzero(np.diff(rows, prepend=-1))
        begun = rows[heads]
        np.minimum.at(self._firsts, begun, np.minimum.reduceat(places, heads))
        np.maximum.at(self._lasts, begun, np.maximum.reduceat(places, heads))
        np.add.at(self._lengths, begun, np.diff(heads, append=len(rows)))
        return len(heads)

    def _mapped(self, name: str, first: int, behind: int) -> Array:
        kind = self._types[name]
        return np.memmap(self._paths[name], kind, "r+", first * kind.itemsize, (behind - first,))

    def read(self, first: int, stop: int) -> Ragged:
        """Return the rows from ``first`` up to ``stop``, each in the order of its places."""
        lengths = self._lengths[first:stop]
        begins = self._firsts[first:stop][lengths > 0]
        ends = begins + lengths[lengths > 0]
        apart = np.flatnonzero(begins[1:] != ends[:-1])
        # rows that follow one another are read at once
        spans = list(zip(begins[np.append(0, apart + 1)], ends[np.append(apart, -1)], strict=True)) if len(ends) else []
        columns = {name: self._column(name, spans, int(lengths.sum())) for name in self._types}
        return Ragged.from_lengths(lengths, columns["label"], columns.get("value"))

    def _column(self, name: str, spans: Iterable[tuple[int, int]], count: int) -> Array:
        found: Array = np.empty(count, self._types[name])
        size, filled = found.itemsize, 0
        with self._paths[name].open("rb", buffering=0) as file:
            for begin, end in spans:
                file.seek(int(begin) * size)
                part = found[filled : filled + int(end - begin)]
                if file.readinto(part.data.cast("B")) != part.nbytes:
                    raise OSError(f"{self._paths[name]} ends early: was something deleted beneath TMPDIR?")
                filled += len(part)
        return found
