"""Rows of files as arrays: what every reader of rows yields, one file or several, shared out over processes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import accumulate
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from tailmetrics.io.errors import DataFileError
from tailmetrics.io.files import ALIKE_HINT, FilePath
from tailmetrics.io.lines import Triples

Ints: TypeAlias = NDArray[np.integer[Any]]
Array: TypeAlias = NDArray[Any]


WASTE = 4
"""Rows so different in length that padding would hold this many times their entries become a sparse matrix."""


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

    @property
    def is_uneven(self) -> bool:
        """Whether a matrix of the rows would hold several times as many cells as there are entries."""
        return len(self) * self.width > WASTE * (len(self.ids) + len(self))

    @cached_property
    def matrix(self) -> Array:
        """The ids with a row's end filled up with -1, shape (n, width of the longest row or 1), int64."""
        padded = self.padded(self.ids.astype(np.int64, copy=False), -1, max(1, self.width))
        return padded.copy() if np.may_share_memory(padded, self.ids) else padded  # arrow and files only lend ids

    def row_of(self, entry: int) -> int:
        """Return the row that an entry lies in."""
        return int(np.searchsorted(self.offsets, entry, side="right")) - 1

    def __getitem__(self, rows: slice) -> Ragged:
        """Return the rows of a slice, without a copy of their entries."""
        start, stop, _ = rows.indices(len(self))
        offsets = self.offsets[start : stop + 1]
        entries = slice(int(offsets[0]), int(offsets[-1]))
        return Ragged(offsets - offsets[0], self.ids[entries], None if self.values is None else self.values[entries])

    def select(self, keep: NDArray[np.bool_]) -> Ragged:
        """Return the same rows with only the entries marked in ``keep``."""
        values = None if self.values is None else self.values[keep]
        # starts(keep) counts the entries kept before each entry; at the borders of rows these are the new offsets
        return Ragged(starts(keep)[self.offsets], self.ids[keep], values)

    def padded(self, entries: Array, fill: float, width: int) -> Array:
        """Return ``entries`` (``ids`` or ``values``) as a matrix of shape (n, width), rows filled up with ``fill``.

        ``width`` is that of the longest row or more.
        """
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


def rebatch(parts: Iterable[AnyRows], size: int) -> Iterator[AnyRows]:
    """Yield the same rows in batches of exactly ``size``, the last one possibly shorter."""
    pending: list[Any] = []
    count = 0
    rows: Any
    for rows in parts:
        while count + len(rows) >= size:
            yield _concatenated([*pending, rows[: size - count]])
            rows = rows[size - count :]
            pending, count = [], 0
        if len(rows):
            pending.append(rows)
            count += len(rows)
    if count:
        yield _concatenated(pending)


def _concatenated(parts: list[Any]) -> Any:
    parts = [part for part in parts if len(part)]
    if len(parts) == 1:
        return parts[0]
    if not isinstance(parts[0], Ragged):
        return np.concatenate(parts)
    lengths, ids = (np.concatenate([getattr(part, name) for part in parts]) for name in ("lengths", "ids"))
    values = None if parts[0].values is None else np.concatenate([part.values for part in parts])
    return Ragged.from_lengths(lengths, ids, values)


# -- files of rows ----------------------------------------------------------------------------------------------------


UNKNOWN_HINT = (
    "label_names lacks it: add it there and, where predictions are a matrix, a column of the lowest score, so that the "
    "label counts as missed; or leave the label out of this file."
)
KEY_HINT = "a column query says which row is which, columns=Columns(query=NAME) that it has another name."


FIRST_ROWS = 64
"""Rows that are read to see what kind of values rows hold: the first may be empty."""
FIRST_CELLS = 2**20
"""Of wide rows fewer are read, of about so many numbers (8 MB), but at least one row."""


class Source(ABC):
    """One file of rows, opened; no row has been read yet unless the class says so.

    Attributes:
        path: The file.
        num_rows: Rows in the whole file.
        num_labels: Number of labels the file declares; None when it does not say.
        cells_per_row: About how many numbers a row holds; large rows are read in smaller batches.
        dense: Whether rows are a matrix with a column for every label.
        one_label: Whether each row holds one number, a label id or, below 0, none: -1, or the ignore_index of metrics.
        sequences: Lengths of the axes of rows, (B, T) of an array (B, T, L); one where the file has one.
        string_ids: Whether label ids are strings, to be numbered by ``numbering`` before rows are read.
        numbering: Label ids by their names, where these are strings.
        layout: How a row is laid out, in words; parts of one data set have the same.
        ends: Row numbers at which a file is best cut (ends of row groups), ascending; None when anywhere is as good.
        key: Name of the column that says which query a row is; None where a row is known by its number alone.
        unread: Names of further columns that could say so.
    """

    path: FilePath
    num_rows: int
    num_labels: int | None = None
    cells_per_row: float = 1.0
    dense: bool = False
    one_label: bool = False
    sequences: tuple[int, ...] = ()
    string_ids: bool = False
    numbering: Mapping[str, int] | None = None
    layout: str = ""
    ends: Ints | None = None
    key: str | None = None
    unread: Sequence[str] = ()

    @abstractmethod
    def batches(self, start: int, stop: int, size: int) -> Iterator[Rows]:
        """Yield the rows from ``start`` up to ``stop`` in order, in batches of about ``size``.

        Called once per pass over the data; a source can be read any number of times.
        """

    def all_batches(self, start: int, stop: int, size: int) -> Iterator[Rows]:
        """Yield what ``batches`` yields, in batches of exactly ``size``, the last one possibly shorter.

        Raises:
            DataFileError: If the rows end before they should, as those of a damaged file do.
        """
        first = start
        for rows in rebatch(self.batches(start, stop, size), size):
            yield rows
            first += len(rows)
        if first < stop:
            hint = "the file may be truncated or corrupt: write it again."
            raise DataFileError(self.path, f"ends after {first} rows, but declares {self.num_rows}", hint=hint)

    def first_values(self) -> Array:
        """Return the scores or gains of the first rows, shape (n,), which tell their scale; n is 0 without any."""
        number = min(self.num_rows, FIRST_ROWS, max(1, int(FIRST_CELLS / max(1.0, self.cells_per_row))))
        first = self.all_batches(0, number, FIRST_ROWS)
        found = [rows.values if isinstance(rows, Ragged) else rows for rows in first]
        return np.concatenate([np.empty(0), *(one.reshape(-1) for one in found if one is not None)])

    @property
    def files(self) -> Sequence[Source]:
        """Itself, or the files that it consists of."""
        return [self]

    def distinct_names(self) -> Iterator[Any]:
        """Yield the string ids, arrow string arrays; a name may come more than once."""
        return iter(())

    def values(self, column: str | None) -> Iterator[Any]:
        """Yield the values of a column, ``key`` or unread, arrow string arrays; nothing without a column."""
        return iter(())

    def entries(self) -> Iterator[Triples]:
        """Yield the entries of all rows, each with the query of its row.

        Raises:
            DataFileError: If there is no column of queries.
        """
        raise DataFileError(self.path, "does not name the query of its rows", hint=KEY_HINT)

    def read_as_names(self) -> None:
        """Take whole numbers for names of labels, numbered over all files; a matrix, whose labels are columns, cannot.

        Raises:
            DataFileError: If label ids are places in this file.
        """
        hint = "leave string_ids out: here a label id is the number of a column."
        raise DataFileError(self.path, "numbers its labels itself, so that they cannot be names", hint=hint)

    def read_beside(self, num_labels: int | None, sequences: tuple[int, ...] = ()) -> None:
        """Take whole numbers for what they are beside predictions; other files than arrays of them ignore this.

        Args:
            num_labels: L. Whole numbers [N, L] are multi-hot or gains, as for ``metric.update`` beside scores [N, L].
            sequences: (B, T) of predictions (B, T, L). Whole numbers (…, T) are one label at each place.
        """
        return

    def is_ambiguous(self, num_labels: int | None) -> bool:
        """Whether whole numbers can be read both as label ids and as a matrix [N, L]: each is from 0 to L - 1."""
        return False

    def label_ids(self, names: Any, lengths: Ints, first: int) -> Ints:
        """Return the label ids of names, an arrow string array, of rows of these lengths from ``first``.

        Raises:
            DataFileError: If a name is not known.
        """
        assert self.numbering is not None
        encoded = names.dictionary_encode()
        known = [self.numbering.get(name, -1) for name in encoded.dictionary.to_pylist()]
        ids: Ints = np.array(known, dtype=np.int64)[encoded.indices.to_numpy()]
        if ids.size and ids.min() < 0:
            entry = int(ids.argmin())
            row = first + bisect_right(starts(lengths).tolist(), entry) - 1
            raise self.error(row, f"holds the unknown label {names[entry].as_py()!r}", UNKNOWN_HINT)
        return ids

    def check_ranks(self, ranks: Array, lengths: Ints, first: int) -> None:
        """Raise if ranks, of rows of these lengths from ``first``, are no whole numbers or not each once in a row."""
        rows = np.repeat(np.arange(len(lengths)), lengths)
        order = np.lexsort((ranks, rows))
        wrong = ~((ranks >= 0) & (ranks < np.inf) & (ranks == np.floor(ranks)))[order]
        again = (np.diff(rows[order]) == 0) & (np.diff(ranks[order]) == 0)
        for places, twice in ((wrong, ""), (again, " twice")):
            if places.any():
                entry = order[int(places.argmax())]
                hint = "ranks are whole numbers, 1 the best, each once in a list; any other order is a score."
                raise self.error(first + int(rows[entry]), f"holds the rank {ranks[entry]:g}{twice}", hint)

    def describe_row(self, row: int) -> str:
        """Return how an error names a row of this file."""
        return f"row {row}"

    def describe_label(self, label_id: int) -> str:
        """Return how an error names a label."""
        return str(label_id)

    def error(self, row: int, problem: str, hint: str = "") -> DataFileError:
        """Return the error that a row of this file causes."""
        return DataFileError(self.path, problem, self.describe_row(row), hint)


def share(rank: int, world_size: int, num_rows: int, *sources: Source) -> tuple[int, int]:
    """Return the first row of a process and the one after its last.

    Shares follow one another and cover every row once. They end where Parquet row groups end, so that each is decoded
    once: in all files, else in one. Where a share would then have twice the average, so that one process takes twice
    the time, they end anywhere.
    """
    ideal = np.arange(world_size + 1, dtype=np.int64) * num_rows // world_size
    groups = [np.union1d([0, num_rows], source.ends) for source in sources if source.ends is not None]
    for ends in [reduce(np.intersect1d, groups), *groups] if groups else []:
        cuts = ends[np.abs(ends - ideal[:, None]).argmin(axis=1)]
        if int(np.diff(cuts).max()) * world_size < 2 * num_rows:
            return int(cuts[rank]), int(cuts[rank + 1])
    return int(ideal[rank]), int(ideal[rank + 1])


class Parts(Source):
    """Files of one layout, read as one file; parts without a row are left out.

    Args:
        path: The name of all files in messages.
        sources: The files, in their order.
    """

    def __init__(self, path: FilePath, sources: Sequence[Source]) -> None:
        self.path = path
        self._sources = [source for source in sources if source.num_rows] or list(sources[:1])
        self._take_common_layout()
        self.cells_per_row = max(source.cells_per_row for source in self._sources)
        ends = [[source.num_rows] if source.ends is None else source.ends for source in self._sources]
        self.ends = np.concatenate([np.asarray(own) + start for own, start in zip(ends, self._starts, strict=False)])

    @property
    def files(self) -> Sequence[Source]:
        """The parts."""
        return self._sources

    def read_as_names(self) -> None:
        """Take whole numbers for names in every part."""
        for source in self._sources:
            source.read_as_names()
        self._take_common_layout()

    def read_beside(self, num_labels: int | None, sequences: tuple[int, ...] = ()) -> None:
        """Take whole numbers for what they are in every part."""
        for source in self._sources:
            source.read_beside(num_labels, sequences)
        self._take_common_layout()

    def is_ambiguous(self, num_labels: int | None) -> bool:
        """Whether all parts are."""
        return all(source.is_ambiguous(num_labels) for source in self._sources)

    def batches(self, start: int, stop: int, size: int) -> Iterator[Rows]:
        """Yield the rows of one part after another."""
        for source, first in zip(self._sources, self._starts, strict=False):
            begin, end = max(start - first, 0), min(stop - first, source.num_rows)
            if begin < end:
                yield from source.all_batches(begin, end, size)

    def error(self, row: int, problem: str, hint: str = "") -> DataFileError:
        """Return the error that a row of one of the parts causes."""
        part = min(bisect_right(self._starts, row), len(self._sources)) - 1
        return self._sources[part].error(row - self._starts[part], problem, hint)

    def describe_label(self, label_id: int) -> str:
        """Return how an error names a label."""
        return self._sources[0].describe_label(label_id)

    def _take_common_layout(self) -> None:
        """Copy the layout of the first part.

        Raises:
            DataFileError: If another part has another layout.
        """
        first = self._sources[0]
        for other in self._sources[1:]:
            here, there = _layout(first), _layout(other)
            if here != there:
                raise DataFileError(other.path, f"holds {there}, but {first.path} holds {here}", hint=ALIKE_HINT)
        self.dense, self.string_ids, self.num_labels = first.dense, first.string_ids, first.num_labels
        self.layout, self.key, self.one_label = first.layout, first.key, first.one_label
        self.sequences = first.sequences
        self._starts = [0, *accumulate(source.num_rows for source in self._sources)]
        self.num_rows = self._starts[-1]


def _layout(source: Source) -> str:
    labels = "" if source.num_labels is None else f" of {source.num_labels} labels"
    keys = "" if source.key is None else f" of each {source.key!r}"
    return (source.layout or ("a matrix" if source.dense else "rows")) + labels + keys
