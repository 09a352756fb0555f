"""Lines of rows on disk: those of a row lie side by side, so that a batch of rows is read as it lies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from tailmetrics.io.rows import Array, Ints, Ragged


class GroupedLines:
    """The lines of some rows; written once, read as often as needed.

    Args:
        folder: Where their columns lie, a file each.
        name: What the files begin with.
        num_rows: How many rows there are.
        types: Columns that are kept, ``label`` and perhaps ``value``, with their types.
    """

    def __init__(self, folder: Path, name: str, num_rows: int, types: Mapping[str, np.dtype[Any]]) -> None:
        self._folder = folder
        self._name = name
        self._starts = np.zeros(num_rows, np.int64)
        self._lengths = np.zeros(num_rows, np.int64)
        self._types = types

    @property
    def width(self) -> int:
        """Lines of the longest row."""
        return int(self._lengths.max(initial=0))

    def write(self, blocks: Iterable[Mapping[str, Array]]) -> bool:
        """Keep the columns of lines, in the place of what was kept before.

        Args:
            blocks: Some lines each, with the numbers of their rows (``row``) and lines (``line``), and what is kept.

        Returns:
            Whether lines of a row followed one another, in ascending order; if not, they are not kept.
        """
        self._lengths[:] = 0
        count, last = 0, (-1, -1)
        with ExitStack() as stack:
            files = {name: stack.enter_context(self._path(name).open("wb")) for name in self._types}
            for block in blocks:
                rows, lines = block["row"], block["line"]
                if not self._place(rows, lines, count, last):
                    return False
                for name, kind in self._types.items():
                    block[name].astype(kind, copy=False).tofile(files[name])
                count += len(rows)
                last = int(rows[-1]), int(lines[-1])
        return True

    def _place(self, rows: Ints, lines: Ints, count: int, last: tuple[int, int]) -> bool:
        """Note where rows begin and how long they are; False if one begins again, or its lines do not ascend.

        Args:
            rows: Of each line of a block.
            lines: Number of each line.
            count: Lines before this block.
            last: Row and number of the last of them.
        """
        begins = np.diff(rows, prepend=last[0]) != 0
        if (np.diff(lines, prepend=last[1])[~begins] <= 0).any():
            return False
        heads = np.flatnonzero(begins)
        begun = rows[heads]
        if self._lengths[begun].any():
            return False
        self._starts[begun] = count + heads
        if (self._starts[begun] != count + heads).any():
            return False
        stops = np.append(heads, len(rows))
        self._lengths[begun] = np.diff(stops)
        if stops[0]:
            self._lengths[last[0]] += stops[0]
        return True

    def read(self, first: int, stop: int) -> Ragged:
        """Return the rows from ``first`` up to ``stop``, each in the order of its lines."""
        lengths = self._lengths[first:stop]
        begins = self._starts[first:stop][lengths > 0]
        ends = begins + lengths[lengths > 0]
        apart = np.flatnonzero(begins[1:] != ends[:-1])
        spans = list(zip(begins[np.append(0, apart + 1)], ends[np.append(apart, -1)], strict=True)) if len(ends) else []
        columns = {name: self._column(name, spans, int(lengths.sum())) for name in self._types}
        return Ragged.from_lengths(lengths, columns["label"], columns.get("value"))

    def _column(self, name: str, spans: list[tuple[int, int]], count: int) -> Array:
        found = np.empty(count, self._types[name])
        size, filled = found.itemsize, 0
        with self._path(name).open("rb", buffering=0) as file:
            for begin, end in spans:
                file.seek(int(begin) * size)
                part = found[filled : filled + int(end - begin)]
                if file.readinto(part.view(np.uint8)) != part.nbytes:
                    raise OSError(f"{self._path(name)} ends early: was something else deleted beneath TMPDIR?")
                filled += len(part)
        return found

    def _path(self, name: str) -> Path:
        return self._folder / f"{self._name}.{name}"
