"""Rows of files as arrays: the base of all readers of rows, from one or several files, divided among processes."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import accumulate
from math import prod
from typing import Any, TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tailmetrics.io.database import Triples
from tailmetrics.io.files import ALIKE_HINT, DataFileError, FilePath, Plain, check_file, reading
from tailmetrics.io.reading import Opening, Reading

Ints: TypeAlias = NDArray[np.integer[Any]]
Array: TypeAlias = NDArray[Any]


WASTE = 4
"""Rows become a sparse matrix if, padded, they would have more cells than this number times (entries + rows)."""


@dataclass(frozen=True, eq=False)
class Ragged:
    """Rows of different lengths: row i holds the entries ``offsets[i]`` to ``offsets[i + 1]``.

    Attributes:
        offsets: Shape (n + 1,), int64, from 0.
        ids: Shape (entries,), label ids.
        values: Shape (entries,), scores or gains; None if the file has no values.
    """

    offsets: Ints
    ids: Ints
    values: Array | None = None

    @classmethod
    def from_lengths(cls, lengths: Ints, ids: Ints, values: Array | None = None) -> Ragged:
        """Return rows with the given lengths."""
        return cls(starts(lengths), ids, values)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def lengths(self) -> Ints:
        """Number of entries of each row, shape (n,)."""
        return np.diff(self.offsets)

    @cached_property
    def width(self) -> int:
        """Number of entries of the longest row."""
        return int(self.lengths.max(initial=0))

    @property
    def is_uneven(self) -> bool:
        """Whether the rows, padded to a matrix, would have several times as many cells as entries (see ``WASTE``)."""
        return len(self) * self.width > WASTE * (len(self.ids) + len(self))

    @cached_property
    def matrix(self) -> Array:
        """The ids, padded with -1 at the end of a row: shape (n, width of the longest row, at least 1), int64."""
        padded = self.padded(self.ids.astype(np.int64, copy=False), -1, max(1, self.width))
        return padded.copy() if np.may_share_memory(padded, self.ids) else padded  # Arrow or a file may own ids

    def __getitem__(self, rows: slice) -> Ragged:
        """Return the rows of a slice, without copying their entries."""
        start, stop, _ = rows.indices(len(self))
        offsets = self.offsets[start : stop + 1]
        entries = slice(int(offsets[0]), int(offsets[-1]))
        return Ragged(offsets - offsets[0], self.ids[entries], None if self.values is None else self.values[entries])

    def select(self, keep: NDArray[np.bool_]) -> Ragged:
        """Return these rows with only the entries marked in ``keep``."""
        values = None if self.values is None else self.values[keep]
        # starts(keep) counts the entries kept before each entry; at the borders of rows these are the new offsets
        return Ragged(starts(keep)[self.offsets], self.ids[keep], values)

    def padded(self, entries: Array, fill: float, width: int) -> Array:
        """Return ``entries`` (``ids`` or ``values``) as a matrix of shape (n, width), rows padded with ``fill``.

        ``width`` is at least the width of the longest row.
        """
        if len(entries) == len(self) * width:
            return entries.reshape(len(self), width)
        matrix = np.full((len(self), width), fill, dtype=entries.dtype)
        matrix[np.arange(width) < self.lengths[:, None]] = entries
        return matrix


Rows: TypeAlias = Ragged | Array
"""Ragged rows, or a dense matrix (n, L)."""
AnyRows = TypeVar("AnyRows", bound="Ragged | Array")


def starts(lengths: Array) -> Ints:
    """Return the offsets of consecutive runs with these lengths: the start of each run, then the end of the last."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def row_of(entry: int, offsets: Ints) -> int:
    """Return the row of an entry, from the offsets of the rows."""
    return int(np.searchsorted(offsets, entry, side="right")) - 1


def csr_of(offsets: Tensor, ids: Tensor, values: Tensor, size: tuple[int, int]) -> Tensor:
    """Return a sparse CSR tensor, unchecked."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(offsets, ids, values, size=size, check_invariants=False)


def rebatch(parts: Iterable[AnyRows], size: int) -> Iterator[AnyRows]:
    """Yield the rows in batches of exactly ``size``; the last batch may be shorter."""
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
"""Number of rows from which the scale of the values is told; one row is too few, because it may be empty."""
FIRST_CELLS = 2**20
"""Limit on the numbers read to tell the scale (8 MB): of wide rows fewer are read, but at least one row."""


class Source(ABC):
    """One open file of rows; its rows are read later, unless the class says otherwise.

    Attributes:
        path: The file.
        num_rows: Number of rows in the whole file.
        num_labels: Number of labels that the file declares; None if it declares none.
        cells_per_row: Approximate number of numbers in a row; large rows are read in smaller batches.
        widest: A row, and a number of entries that it holds at least, if that is known before rows are read.
        dense: Whether rows are a matrix with a column for every label.
        one_label: Whether each row holds one number: a label id, or a negative number for "no label" (-1, or the
            ``ignore_index`` of metrics).
        sequences: Lengths of the axes of rows: (B, T) for an array (B, T, L), (N,) for an array with one axis of rows.
        string_ids: Whether label ids are strings; ``numbering`` must then be set before rows are read.
        numbering: Name of a label -> label id, for string ids.
        label_names: Names of the labels in the order of their ids, for errors; None if labels have no names.
        layout: The layout of a row in words; all parts of a data set must have the same layout.
        ends: Row numbers, ascending, at which the file is best divided (ends of row groups); None if any row is good.
        key: Name of the column with the query of a row; None if a row has only its number.
        unread: Names of other columns that could hold the query.
        reading: How the columns are read; None for a format without columns.
    """

    path: FilePath
    num_rows: int
    num_labels: int | None = None
    cells_per_row: float = 1.0
    widest: tuple[str, int] | None = None
    dense: bool = False
    one_label: bool = False
    sequences: tuple[int, ...] = ()
    string_ids: bool = False
    numbering: Mapping[str, int] | None = None
    label_names: Sequence[str] | None = None
    layout: str = ""
    ends: Ints | None = None
    key: str | None = None
    unread: Sequence[str] = ()
    reading: Reading | None = None

    @abstractmethod
    def batches(self, start: int, stop: int, size: int) -> Iterator[Rows]:
        """Yield the rows from ``start`` up to ``stop`` in order, in batches of about ``size``.

        One call is one pass over the data; any number of passes is possible.
        """

    def all_batches(self, start: int, stop: int, size: int) -> Iterator[Rows]:
        """Yield the rows of ``batches`` in batches of exactly ``size``; the last batch may be shorter.

        Raises:
            DataFileError: If there are fewer rows than the file declares, as in a damaged file.
        """
        first = start
        for rows in rebatch(self.batches(start, stop, size), size):
            yield rows
            first += len(rows)
        if first < stop:
            hint = "the file may be truncated or corrupt: write it again."
            raise DataFileError(self.path, f"ends after {first} rows, but declares {self.num_rows}", hint=hint)

    @property
    def own_rows(self) -> range:
        """The rows that this process can read."""
        return range(self.num_rows)

    def first_values(self) -> Array:
        """Return the scores or gains of the first rows, shape (n,), to tell their scale; empty without values."""
        number = min(len(self.own_rows), FIRST_ROWS, max(1, int(FIRST_CELLS / max(1.0, self.cells_per_row))))
        first = self.all_batches(self.own_rows.start, self.own_rows.start + number, FIRST_ROWS)
        found = [rows.values if isinstance(rows, Ragged) else rows for rows in first]
        return np.concatenate([np.empty(0), *(one.reshape(-1) for one in found if one is not None)])

    @property
    def holds(self) -> str:
        """What a row holds, in words."""
        labels = f", one for each of {self.num_labels:,} labels" if self.dense and self.num_labels else ""
        return f"{self.layout} in each row{labels}" if self.layout else ""

    @property
    def files(self) -> Sequence[Source]:
        """The files of this source: itself, or its parts."""
        return [self]

    def first_rows(self, most: int) -> list[str]:
        """Return the first two rows in words, at most ``most`` entries of each."""
        found = next(self.batches(0, min(2, self.num_rows), 2), None)
        rows = [] if found is None else [found[place : place + 1] for place in range(len(found))]
        return [f"row {place}: {_entries_in_words(row, most)}" for place, row in enumerate(rows)]

    def distinct_names(self) -> Iterator[Any]:
        """Yield the string ids as Arrow string arrays; a name may come more than once."""
        return iter(())

    def values(self, column: str | None) -> Iterator[Any]:
        """Yield the values of the column ``key``, or of a column in ``unread``, as Arrow string arrays."""
        return iter(())

    def entries(self) -> Iterator[Triples]:
        """Yield the entries of all rows, each with the query of its row.

        Raises:
            DataFileError: If there is no column of queries.
        """
        raise DataFileError(self.path, "does not name the query of its rows", hint=KEY_HINT)

    def read_as_names(self) -> None:
        """Treat whole numbers as names of labels, which are then numbered over all files.

        Raises:
            DataFileError: If label ids are the columns of this file, a matrix.
        """
        hint = "leave string_ids out: here a label id is the number of a column."
        raise DataFileError(self.path, "numbers its labels itself, so that they cannot be names", hint=hint)

    def read_beside(self, num_labels: int | None, sequences: tuple[int, ...]) -> None:
        """Decide the meaning of whole numbers in a target array by its predictions; other files ignore the call.

        Args:
            num_labels: L. Whole numbers [N, L] are multi-hot or gains, as for ``metric.update`` beside scores [N, L].
            sequences: The (B, T) of predictions (B, T, L). Whole numbers (…, T) are one label per place.
        """
        return

    def is_ambiguous(self, num_labels: int | None) -> bool:
        """Whether whole numbers could be label ids or a matrix [N, L], because each is from 0 to L - 1."""
        return False

    def label_ids(self, names: Any, lengths: Ints, first: int) -> Ints:
        """Return the label ids of names.

        Args:
            names: Arrow string array, the names of consecutive rows.
            lengths: Number of names of each row.
            first: Number of the first row, for errors.

        Raises:
            DataFileError: If ``numbering`` lacks a name.
        """
        assert self.numbering is not None
        encoded = names.dictionary_encode()
        known = [self.numbering.get(name, -1) for name in encoded.dictionary.to_pylist()]
        ids: Ints = np.array(known, dtype=np.int64)[encoded.indices.to_numpy()]
        if ids.size and ids.min() < 0:
            entry = int(ids.argmin())
            row = first + row_of(entry, starts(lengths))
            raise self.error(row, f"holds the unknown label {names[entry].as_py()!r}", UNKNOWN_HINT)
        return ids

    def check_ranks(self, ranks: Array, lengths: Ints, first: int) -> None:
        """Raise unless the ranks of each row are distinct whole numbers of at least 0.

        ``lengths`` are the lengths of consecutive rows, and ``first`` is the number of the first row.
        """
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
        """Return the name of a row of this file for an error."""
        return f"row {row}"

    def describe_label(self, label_id: int) -> str:
        """Return the name of a label for an error, in quotes, or its id if labels have no names."""
        return str(label_id) if self.label_names is None else repr(self.label_names[label_id])

    def error(self, row: int, problem: str, hint: str = "") -> DataFileError:
        """Return an error about a row of this file."""
        return DataFileError(self.path, problem, self.describe_row(row), hint)


def share(rank: int, world_size: int, num_rows: int, *sources: Source) -> tuple[int, int]:
    """Return the first row of a process, and the row after its last row.

    The shares of the processes are consecutive and cover every row once. If possible, they end at ends of Parquet row
    groups of all files, or else of one file, so that a row group is decoded only once. If the largest share would then
    have twice the average number of rows or more, and take twice the time, shares end at any row.
    """
    ideal = np.arange(world_size + 1, dtype=np.int64) * num_rows // world_size
    groups = [np.union1d([0, num_rows], source.ends) for source in sources if source.ends is not None]
    for ends in [reduce(np.intersect1d, groups), *groups] if groups else []:
        cuts = ends[np.abs(ends - ideal[:, None]).argmin(axis=1)]
        if int(np.diff(cuts).max()) * world_size < 2 * num_rows:
            return int(cuts[rank]), int(cuts[rank + 1])
    return int(ideal[rank]), int(ideal[rank + 1])


class Parts(Source):
    """Files with the same layout, read as one file; parts without rows are left out.

    Args:
        path: One name for all files, in messages.
        sources: The files, in the order of their rows.
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
        """Treat whole numbers as names of labels in every part."""
        for source in self._sources:
            source.read_as_names()
        self._take_common_layout()

    def read_beside(self, num_labels: int | None, sequences: tuple[int, ...]) -> None:
        """Decide the meaning of whole numbers in every part."""
        for source in self._sources:
            source.read_beside(num_labels, sequences)
        self._take_common_layout()

    def is_ambiguous(self, num_labels: int | None) -> bool:
        """Whether the whole numbers of all parts are ambiguous."""
        return all(source.is_ambiguous(num_labels) for source in self._sources)

    def batches(self, start: int, stop: int, size: int) -> Iterator[Rows]:
        """Yield the rows of one part after another."""
        for source, first in zip(self._sources, self._starts, strict=False):
            begin, end = max(start - first, 0), min(stop - first, source.num_rows)
            if begin < end:
                yield from source.all_batches(begin, end, size)

    def error(self, row: int, problem: str, hint: str = "") -> DataFileError:
        """Return an error about a row, naming its part and the row number in the part."""
        part = min(bisect_right(self._starts, row), len(self._sources)) - 1
        return self._sources[part].error(row - self._starts[part], problem, hint)

    def _take_common_layout(self) -> None:
        """Copy the layout of the first part.

        Raises:
            DataFileError: If another part has a different layout.
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


def _entries_in_words(row: Rows, most: int) -> str:
    """Return the entries of one row in words: label ids with their numbers, or the numbers of all labels."""
    if isinstance(row, Ragged):
        numbers = [] if row.values is None else [f" {number:g}" for number in row.values[:most].tolist()]
        said = [
            f"{label}{number}" for label, number in zip(row.ids[:most].tolist(), numbers or [""] * most, strict=False)
        ]
        size = len(row.ids)
    else:
        said, size = [f"{number:g}" for number in row[0, :most].tolist()], int(row.shape[1])
    return (", ".join(said) or "nothing") + " …" * (size > most)


def _layout(source: Source) -> str:
    labels = "" if source.num_labels is None else f" of {source.num_labels} labels"
    keys = "" if source.key is None else f" of each {source.key!r}"
    return (source.layout or ("a matrix" if source.dense else "rows")) + labels + keys


# -- arrays -----------------------------------------------------------------------------------------------------------


NUMPY = b"\x93NUMPY"
NAMED_ROWS = 2**16
HINTS = {
    "preds": "predictions are float scores [N, L], integer ids [N, K], or (.pt) a pair (scores, ids) or a CSR tensor",
    "target": "targets are integer ids [N] or [N, M], bool or float [N, L], or (.pt) a CSR tensor",
}


class ArraySource(Source):
    """One array of rows. Each batch maps the file anew, so that pages of earlier batches do not count as memory in use.

    Attributes:
        form: The format, in the text of an error.
    """

    form: str

    def __init__(self, asked: Opening) -> None:
        self.path = check_file(asked.path)
        self.role = asked.role
        self._plain = Plain(self.path)
        with reading(self.path, self.form):
            array = self._mapped()
        self._check(array)
        first: Any = array[0] if isinstance(array, tuple) else array
        self._shape = tuple(first.shape)
        self._axes = max(1, first.ndim - 1)
        self.sequences = self._shape[: self._axes]
        array = self._with_rows(array)
        first = array[0] if isinstance(array, tuple) else array
        self.num_rows = int(first.shape[0])
        self.width = int(first.shape[1]) if first.ndim > 1 else 1
        self.cells_per_row = first.values().numel() / max(self.num_rows, 1) if _is_csr(first) else self.width
        self.dense = not isinstance(array, tuple) and not _is_csr(first) and _kind(first) != "i"
        self.num_labels = self.width if self.dense or _is_csr(first) else None
        self.one_label = first.ndim == 1
        self._may_be_multi_hot = array is first and first.ndim == 2 and self.num_labels is None
        kinds = {"b": "flags", "i": "one whole number" if self.one_label else "whole numbers", "f": "numbers"}
        self.layout = " and ".join(kinds[_kind(part)] for part in (array if isinstance(array, tuple) else (array,)))

    @abstractmethod
    def _mapped(self) -> Any:
        """Return the array, or a pair (scores, ids), without reading it."""

    def _with_rows(self, array: Any) -> Any:
        """Return the array, or the pair, with the rows as the first axis; nothing is copied."""
        if isinstance(array, tuple):
            return tuple(map(self._with_rows, array))
        return array if self._axes == 1 else array.reshape(-1, *array.shape[self._axes :])

    def _array(self) -> Any:
        return self._with_rows(self._mapped())

    def read_as_names(self) -> None:
        """Treat label ids as names, which are then numbered over all files.

        Raises:
            DataFileError: If label ids are the columns of a matrix.
        """
        if self.num_labels is not None:
            super().read_as_names()
        self.string_ids = True
        self.one_label = self._may_be_multi_hot = False

    def distinct_names(self) -> Iterator[Any]:
        """Yield the label ids as text."""
        import pyarrow as pa

        for first in range(0, self.num_rows, NAMED_ROWS):
            rows = self._rows(self._array(), first, first + NAMED_ROWS)
            assert isinstance(rows, Ragged)
            yield pa.array(map(str, np.unique(rows.ids).tolist()), pa.string())

    def read_beside(self, num_labels: int | None, sequences: tuple[int, ...]) -> None:
        """Read whole numbers [N, L] as multi-hot rows or gains, and (B, T) as one label for each place of a sequence.

        ``sequences`` is the (B, T) of the predictions beside these targets. With (-1,), each whole number of an array
        of any shape is one label.
        """
        one_label = sequences == (-1,) or (len(sequences) > 1 and self._shape[1:] == sequences[1:])
        if one_label and self.num_labels is None:
            self._axes, self.num_rows, self.width = len(self._shape), prod(self._shape), 1
            self.one_label, self._may_be_multi_hot = not self.string_ids, False
        if self._may_be_multi_hot and self.width == num_labels:
            self.dense, self.num_labels = True, num_labels

    def is_ambiguous(self, num_labels: int | None) -> bool:
        """Whether whole numbers may be multi-hot rows or ids: each is at least 0 and below the number of columns."""
        if self.dense or not self._may_be_multi_hot or self.width < 2 or num_labels not in (None, self.width):
            return False
        array = self._array()
        blocks = (_numpy(array[first : first + NAMED_ROWS]) for first in range(0, self.num_rows, NAMED_ROWS))
        return all(block.min() >= 0 and block.max() < self.width for block in blocks)

    def batches(self, start: int, stop: int, size: int) -> Iterator[Rows]:
        """Yield copies of the rows; each batch maps the file anew, and its mapping is closed after it."""
        for first in range(start, stop, size):
            with reading(self.path, self.form):
                array = self._array()
                yield self._numbered(self._rows(array, first, min(first + size, stop)), first)

    def _numbered(self, rows: Rows, first: int) -> Rows:
        if self.numbering is None or not isinstance(rows, Ragged):
            return rows
        import pyarrow as pa

        names = pa.array(map(str, rows.ids.tolist()), pa.string())
        return Ragged(rows.offsets, self.label_ids(names, rows.lengths, first), rows.values)

    def _rows(self, array: Any, start: int, stop: int) -> Rows:
        if isinstance(array, tuple):
            scores, ids = (_numpy(part[start:stop]) for part in array)
            present = ids != -1
            return Ragged.from_lengths(present.sum(axis=1), ids[present], scores[present])
        if _is_csr(array):
            offsets = _numpy(array.crow_indices()[start : stop + 1]).astype(np.int64)
            ids, values = (_numpy(part[offsets[0] : offsets[-1]]) for part in (array.col_indices(), array.values()))
            return Ragged(offsets - offsets[0], ids, values)
        part = _numpy(array[start:stop])
        if self.dense:
            return part
        if self.one_label:  # -1, and the ignore_index of metrics, stay as they are
            return Ragged.from_lengths(np.ones(len(part), np.int64), part)
        part = part.reshape(len(part), -1)
        present = part != -1
        gap = (present[:, 1:] > present[:, :-1]).any(axis=1)
        if self.role == "preds" and gap.any():
            hint = "-1 pads the end of a row of ranked ids, best first."
            raise self.error(start + int(gap.argmax()), "holds -1 before a label id", hint)
        return Ragged.from_lengths(present.sum(axis=1), part[present])

    def _check(self, array: Any) -> None:
        roles = ("preds", "target") if self.role is None else (self.role,)
        hint = f"{'; '.join(HINTS[role] for role in roles)}."
        hint += " Scores of the lines of LETOR are text: numpy.savetxt." * (getattr(array, "ndim", 2) == 1)
        parts = array if isinstance(array, tuple) else (array,)
        if not all(isinstance(part, (Tensor, np.ndarray)) for part in parts):
            held = ", ".join(type(part).__name__ for part in parts)
            apart = f"{hint} Save each tensor in a file of its own." if "dict" in held else hint
            raise DataFileError(self.path, f"holds {held}, not an array", hint=apart)
        first, kinds = parts[0], "".join(_kind(part) for part in parts)
        if len(parts) > 1:
            fits = "preds" in roles and kinds == "fi" and first.ndim > 1 and first.shape == parts[1].shape
        elif _is_csr(first):
            fits = kinds in "bif"
        elif "target" in roles:
            fits = kinds in "bif" and (first.ndim > 1 or (kinds == "i" and first.ndim == 1))
        else:
            fits = kinds in "if" and first.ndim > 1
        if not fits:
            held = " and ".join(f"{part.dtype} {list(part.shape)}" for part in parts)
            hint += " Decisions can be floats, 0 and 1, beside a threshold of 0.5." if kinds == "b" else ""
            words = " or ".join("predictions" if role == "preds" else "targets" for role in roles)
            raise DataFileError(self.path, f"holds {held}, which cannot be {words}", hint=hint)


def _is_csr(array: Any) -> bool:
    return isinstance(array, Tensor) and array.layout == torch.sparse_csr


def _kind(array: Any) -> str:
    """Return the kind of an array: b for bools, i for whole numbers, f for real numbers, ? for anything else."""
    if isinstance(array, Tensor):
        if array.layout not in (torch.strided, torch.sparse_csr) or array.is_complex():
            return "?"
        return "b" if array.dtype == torch.bool else "f" if array.is_floating_point() else "i"
    return {"b": "b", "i": "i", "u": "i", "f": "f"}.get(array.dtype.kind, "?")


def _numpy(part: Any) -> Array:
    """Return a copy in memory, in the machine's byte order; bfloat16, which numpy lacks, becomes float32."""
    if isinstance(part, Tensor):
        half = part.is_floating_point() and part.dtype not in (torch.float16, torch.float32, torch.float64)
        return np.array((part.float() if half else part).numpy())
    return np.array(part, dtype=part.dtype.newbyteorder("="))


class NumpySource(ArraySource):
    """A numpy array in a ``.npy`` file."""

    form = ".npy array"

    def _mapped(self) -> Any:
        with self._plain.path.open("rb") as file:
            if file.read(len(NUMPY)) != NUMPY:  # numpy would ask to load it as a pickle
                raise ValueError("it does not begin as arrays of numpy do")
        try:
            return np.asarray(np.load(self._plain.path, mmap_mode="r", allow_pickle=False))
        except ValueError as error:
            if "Object arrays" not in str(error) and "Array can't be memory-mapped" not in str(error):
                raise
            hint = "write lists as Parquet: pandas.DataFrame({'labels': list(array)}).to_parquet('labels.parquet')."
            raise DataFileError(self.path, "holds an array of Python objects", hint=hint) from error


class TorchSource(ArraySource):
    """A tensor or a pair of tensors in a ``.pt`` file, read with ``weights_only=True``."""

    form = ".pt array"

    def _mapped(self) -> Any:
        with torch.serialization.safe_globals([torch.return_types.topk]):  # a named tuple of tensors
            try:
                content = torch.load(self._plain.path, map_location="cpu", weights_only=True, mmap=True)
            except RuntimeError:  # written in the old format, which cannot be mapped
                content = torch.load(self._plain.path, map_location="cpu", weights_only=True)
        if not isinstance(content, (list, tuple)):
            return content
        if len(content) != 2:  # a pair is scores and ids
            hint = "join the batches of a list: torch.save(torch.cat(batches), path)."
            raise DataFileError(self.path, f"holds a sequence of {len(content)}, not a tensor", hint=hint)
        return tuple(content)


class NpzSource(ArraySource):
    """A CSR matrix [N, L] of scipy: each stored entry, also a stored zero, is a scored candidate or a gain."""

    form = "a scipy CSR matrix"
    _matrix: Tensor | None = None

    def _mapped(self) -> Any:
        from scipy.sparse import load_npz

        if self._matrix is None:
            with self._plain.path.open("rb") as file:  # numpy does not close a file that is not an archive
                arrays = np.load(file, allow_pickle=False).files
                if "format" not in arrays:
                    problem = f"holds the arrays {', '.join(arrays)}, and no matrix of scipy"
                    raise DataFileError(self.path, problem, hint="numpy.save writes one, such as the ids, best first.")
                file.seek(0)
                matrix = load_npz(file)
            hint = "write it with scipy.sparse.save_npz(path, matrix.tocsr())."
            if matrix.format != "csr":
                raise DataFileError(self.path, f"is in the format {matrix.format}, not csr", hint=hint)
            if (np.diff(matrix.indptr) < 0).any():
                raise DataFileError(self.path, f"indptr does not describe {matrix.shape[0]} rows", hint=hint)
            offsets, ids, values = map(torch.from_numpy, (matrix.indptr, matrix.indices, matrix.data))
            self._matrix = csr_of(offsets, ids, values, matrix.shape)
        return self._matrix
