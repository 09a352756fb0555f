"""Rows of files as arrays: the base of all readers of rows.

Rows come from one or several files, and are divided among processes.
"""

from __future__ import annotations

import reprlib
import warnings
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tailmetrics.io.columns import TableReading
from tailmetrics.io.files import ALIKE_HINT, DataFileError, FilePath

Ints: TypeAlias = NDArray[np.integer[Any]]
Array: TypeAlias = NDArray[Any]

WASTE = 4
"""Rows padded to more cells than this number times (entries + rows) become sparse."""


@dataclass(frozen=True, eq=False)
class Ragged:
    """Rows of different lengths.

    Row i holds the entries ``offsets[i]`` to ``offsets[i + 1]``.

    Attributes:
        offsets: Shape (n + 1,), int64, from 0.
        ids: Shape (entries,), label ids.
        values: Shape (entries,), scores or gains; None if the file has no values.
    """

    offsets: Ints
    ids: Ints
    values: Array | None = None

    @classmethod
    def from_lengths(
        cls, lengths: Ints, ids: Ints, values: Array | None = None
    ) -> Ragged:
        """Return rows with the given lengths."""
        return cls(starts(lengths), ids, values)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def lengths(self) -> Ints:
        """Number of entries of each row, shape (n,)."""
        return np.diff(self.offsets)

    @property
    def row_numbers(self) -> Ints:
        """The row of each entry, shape (entries,)."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @cached_property
    def width(self) -> int:
        """Number of entries of the longest row."""
        return int(self.lengths.max(initial=0))

    @property
    def is_uneven(self) -> bool:
        """Whether padding would give several cells per entry (see ``WASTE``)."""
        return len(self) * self.width > WASTE * (len(self.ids) + len(self))

    @cached_property
    def matrix(self) -> Array:
        """The ids, padded with -1 at the end of a row.

        Shape (n, width of the longest row, at least 1), int64.
        """
        padded = self.padded(
            self.ids.astype(np.int64, copy=False), -1, max(1, self.width)
        )
        if np.may_share_memory(padded, self.ids):  # Arrow or a file may own ids
            padded = padded.copy()
        return padded

    def __getitem__(self, rows: slice) -> Ragged:
        """Return the rows of a slice, without copying their entries."""
        start, stop, _ = rows.indices(len(self))
        offsets = self.offsets[start : stop + 1]
        entries = slice(int(offsets[0]), int(offsets[-1]))
        values = None
        if self.values is not None:
            values = self.values[entries]
        return Ragged(offsets - offsets[0], self.ids[entries], values)

    def select(self, keep: NDArray[np.bool_]) -> Ragged:
        """Return these rows with only the entries marked in ``keep``."""
        values = None
        if self.values is not None:
            values = self.values[keep]
        # starts(keep) counts the entries kept before each entry; at the borders of rows
        # these are the new offsets
        return Ragged(starts(keep)[self.offsets], self.ids[keep], values)

    def padded(self, entries: Array, fill: float, width: int) -> Array:
        """Return ``ids`` or ``values`` as a matrix (n, width), padded with ``fill``.

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
    """Return the offsets of consecutive runs: each start, then the last end."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def row_of(entry: int, offsets: Ints) -> int:
    """Return the row of an entry, from the offsets of the rows."""
    return int(np.searchsorted(offsets, entry, side="right")) - 1


def stands_before(rows: Ints, keys: Array) -> NDArray[np.bool_]:
    """Return for each entry whether its row holds the same key before it."""
    order = np.lexsort((keys, rows))  # stable: of equal keys the first comes first
    is_repeated = np.zeros(len(order), bool)
    is_repeated[order[1:]] = (np.diff(rows[order]) == 0) & (np.diff(keys[order]) == 0)
    return is_repeated


def csr_of(
    offsets: Tensor, ids: Tensor, values: Tensor, size: tuple[int, int]
) -> Tensor:
    """Return a sparse CSR tensor, unchecked."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(
            offsets, ids, values, size=size, check_invariants=False
        )


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
    lengths = np.concatenate([part.lengths for part in parts])
    ids = np.concatenate([part.ids for part in parts])
    values = None
    if parts[0].values is not None:
        values = np.concatenate([part.values for part in parts])
    return Ragged.from_lengths(lengths, ids, values)


# -- files of rows ---------------------------------------------------------------------


UNKNOWN_HINT = (
    "label_names lacks it: add it there and, where predictions are a matrix, a column "
    "of the lowest score, so that the label counts as missed; or leave the label out "
    "of this file."
)
FIRST_ROWS = 64
"""Number of rows that tell the scale of the values; one alone may be empty."""
FIRST_CELLS = 2**20
"""Limit on the numbers read to tell the scale (8 MB); one row is always read."""


class Source(ABC):
    """One open file of rows; its rows are read later, unless the class says otherwise.

    Attributes:
        path: The file.
        num_rows: Number of rows in the whole file.
        num_labels: Number of labels that the file declares; None if it declares none.
        cells_per_row: Approximate number of numbers in a row; large rows are read in
            smaller batches.
        widest: A row, and a number of entries that it holds at least, if that is known
            before rows are read.
        dense: Whether rows are a matrix with a column for every label.
        one_label: Whether each row holds one number: a label id, or a negative number
            for "no label" (-1, or the ``ignore_index`` of metrics).
        sequences: Lengths of the axes of rows: (B, T) for an array (B, T, L), (N,) for
            an array with one axis of rows.
        string_ids: Whether label ids are strings; ``numbering`` must then be set before
            rows are read.
        numbering: Name of a label -> label id, for string ids.
        label_names: Names of the labels in the order of their ids, for errors; None if
            labels have no names.
        layout: The layout of a row in words; all parts of a data set must have the same
            layout.
        has_single_precision: Whether scores or gains are numbers in single or half
            precision.
        is_table: Whether the rows are of a table, which may name its queries; an array
            names none.
        reading: How the columns are read.
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
    has_single_precision: bool = False
    is_table: bool = False
    reading: TableReading

    @abstractmethod
    def batches(self, start: int, stop: int, size: int) -> Iterator[Rows]:
        """Yield the rows from ``start`` up to ``stop``, in batches of about ``size``.

        Rows come in order. Each call is a new pass over the data.
        """

    def all_batches(self, start: int, stop: int, size: int) -> Iterator[Rows]:
        """Yield the rows in batches of exactly ``size``; the last may be shorter.

        Raises:
            DataFileError: If there are fewer rows than the file declares, as in a
                damaged file.
        """
        first = start
        for rows in rebatch(self.batches(start, stop, size), size):
            yield rows
            first += len(rows)
        if first < stop:
            hint = "the file may be truncated or corrupt: write it again."
            raise DataFileError(
                self.path,
                f"ends after {first} rows, but declares {self.num_rows}",
                hint=hint,
            )

    @property
    def own_rows(self) -> range:
        """The rows that this process can read."""
        return range(self.num_rows)

    def first_values(self) -> Array:
        """Return the scores or gains of the first rows, to tell their scale.

        The shape is (n,); the array is empty without values.
        """
        number = min(
            len(self.own_rows),
            FIRST_ROWS,
            max(1, int(FIRST_CELLS / max(1.0, self.cells_per_row))),
        )
        first = self.all_batches(
            self.own_rows.start, self.own_rows.start + number, FIRST_ROWS
        )
        values = [np.empty(0)]
        for rows in first:
            numbers = rows.values if isinstance(rows, Ragged) else rows
            if numbers is not None:
                values.append(numbers.reshape(-1))
        return np.concatenate(values)

    @property
    def files(self) -> Sequence[Source]:
        """The files of this source: itself, or its parts."""
        return [self]

    def first_rows(self) -> list[str]:
        """Return the first two rows in words, with a few label ids or numbers each."""
        texts: list[str] = []
        for rows in self.all_batches(0, min(2, self.num_rows), 1):
            cells: dict[str, Any] = {}
            if isinstance(rows, Ragged):
                cells["ids"] = rows.ids.tolist()
                if rows.values is not None:
                    cells["values"] = rows.values.tolist()
            else:
                cells["values"] = rows[0].tolist()
            texts.append(f"row {len(texts)}: {reprlib.repr(cells)}")
        return texts

    def distinct_names(self) -> Iterator[Any]:
        """Yield the string ids as Arrow string arrays; names may come repeatedly."""
        return iter(())

    def key_blocks(self) -> Iterator[Any]:
        """Yield the queries of all rows as Arrow string arrays."""
        return iter(())

    def entries(self) -> Iterator[Any]:
        """Yield the entries of rows that name their query, as Arrow tables.

        The columns are query, item and value.
        """
        return iter(())

    def read_as_names(self) -> None:
        """Treat whole numbers as names of labels, which are numbered over all files.

        Raises:
            DataFileError: If label ids are the columns of this file, a matrix.
        """
        hint = "leave --string-ids out: here a label id is the number of a column."
        raise DataFileError(
            self.path,
            "numbers its labels itself, so that they cannot be names",
            hint=hint,
        )

    def read_as_numbers(self) -> None:
        """Treat text as label ids, where another file has numbers."""
        return

    def read_beside(self, num_labels: int | None, sequences: tuple[int, ...]) -> None:
        """Decide the meaning of whole numbers in a target array by its predictions.

        Other files ignore the call.

        Args:
            num_labels: L. Whole numbers [N, L] are multi-hot or gains, as for
                ``metric.update`` beside scores [N, L].
            sequences: The (B, T) of predictions (B, T, L). Whole numbers (…, T) are one
                label per place.
        """
        return

    def is_ambiguous(self, num_labels: int | None) -> bool:
        """Whether the whole numbers could be label ids, or a matrix [N, L].

        They could be either if each is from 0 to L - 1.
        """
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
        numbers = [
            self.numbering.get(name, -1) for name in encoded.dictionary.to_pylist()
        ]
        ids: Ints = np.array(numbers, dtype=np.int64)[encoded.indices.to_numpy()]
        if ids.size and ids.min() < 0:
            entry = int(ids.argmin())
            row = first + row_of(entry, starts(lengths))
            raise self.error(
                row, f"holds the unknown label {names[entry].as_py()!r}", UNKNOWN_HINT
            )
        return ids

    def check_ranks(self, ranks: Array, lengths: Ints, first: int) -> None:
        """Raise unless the ranks of each row are distinct whole numbers of at least 0.

        ``lengths`` are the lengths of consecutive rows, and ``first`` is the number of
        the first row.
        """
        rows = np.repeat(np.arange(len(lengths)), lengths)
        is_wrong = ~((ranks >= 0) & (ranks < np.inf) & (ranks == np.floor(ranks)))
        for places, twice in ((is_wrong, ""), (stands_before(rows, ranks), " twice")):
            if places.any():
                entry = int(places.argmax())
                hint = (
                    "ranks are whole numbers, 1 the best, each once in a list; any "
                    "other order is a score."
                )
                raise self.error(
                    first + int(rows[entry]),
                    f"holds the rank {ranks[entry]:g}{twice}",
                    hint,
                )

    def describe_row(self, row: int) -> str:
        """Return the name of a row of this file for an error."""
        return f"row {row}"

    def describe_label(self, label_id: int) -> str:
        """Return a label for an error: its name in quotes, or its id without names."""
        if self.label_names is None:
            return str(label_id)
        return repr(self.label_names[label_id])

    def error(self, row: int, problem: str, hint: str = "") -> DataFileError:
        """Return an error about a row of this file."""
        return DataFileError(self.path, problem, self.describe_row(row), hint)


@dataclass(frozen=True, eq=False, kw_only=True)
class FileFacts:
    """Facts about the rows of open files.

    Attributes:
        num_rows: Number of rows of all ranks together.
        num_labels: Number of labels, as given or as a file declares it; None if neither
            says it.
        label_names: Names of the labels in the order of their ids; None if label ids
            are numbers.
        row_names: Queries in the order of the rows; None if rows have only numbers.
        has_one_order: Whether the predictions name their queries in the order of the
            rows, which is that of the targets.
        missing_queries: Number of target queries without predictions, over all ranks.
            ``missing`` decides whether they are left out or count with an empty list.
        unmatched_queries: Number of prediction queries without targets, over all ranks;
            they are left out.
        start: First row of this rank.
        stop: The row after the last row of this rank.
        columns: Number of columns that is enough for every label id; None if not known.
        notes: What a reader of the numbers should know about how the files were read.
    """

    num_rows: int
    num_labels: int | None
    label_names: Sequence[str] | None = None
    row_names: Sequence[str] | None = None
    has_one_order: bool = True
    missing_queries: int = 0
    unmatched_queries: int = 0
    start: int
    stop: int
    columns: int | None
    notes: tuple[str, ...] = ()


def share(rank: int, world_size: int, num_rows: int) -> range:
    """Return the rows of a process.

    The shares of all processes are consecutive and cover every row once.
    """
    return range(num_rows * rank // world_size, num_rows * (rank + 1) // world_size)


class Parts(Source):
    """Files with the same layout, read as one file; parts without rows are left out.

    Args:
        path: One name for all files, in messages.
        sources: The files, in the order of their rows.
    """

    def __init__(self, path: FilePath, sources: Sequence[Source]) -> None:
        self.path = path
        self._sources = [source for source in sources if source.num_rows] or list(
            sources[:1]
        )
        self.reading = sources[0].reading
        self.is_table = sources[0].is_table
        # a part with nothing but empty lists has no type
        if not all(source.string_ids for source in sources):
            for source in sources:
                source.read_as_numbers()
        self._take_common_layout()
        self.cells_per_row = max(source.cells_per_row for source in self._sources)

    @property
    def files(self) -> Sequence[Source]:
        """The parts."""
        return self._sources

    def read_as_names(self) -> None:
        """Treat whole numbers as names of labels in every part."""
        for source in self._sources:
            source.read_as_names()
        self._take_common_layout()

    def read_as_numbers(self) -> None:
        """Treat text as label ids in every part."""
        for source in self._sources:
            source.read_as_numbers()
        self._take_common_layout()

    def key_blocks(self) -> Iterator[Any]:
        """Yield the queries of one part after another."""
        for source in self._sources:
            yield from source.key_blocks()

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
        """Return an error about a row that names its part and the row of the part."""
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
                raise DataFileError(
                    other.path,
                    f"holds {there}, but {first.path} holds {here}",
                    hint=ALIKE_HINT,
                )
        self.dense, self.string_ids, self.num_labels = (
            first.dense,
            first.string_ids,
            first.num_labels,
        )
        self.layout, self.one_label, self.sequences = (
            first.layout,
            first.one_label,
            first.sequences,
        )
        self._starts = [0, *accumulate(source.num_rows for source in self._sources)]
        self.num_rows = self._starts[-1]


def _layout(source: Source) -> str:
    text = source.layout or ("a matrix" if source.dense else "rows")
    if source.num_labels is not None:
        text += f" of {source.num_labels} labels"
    if source.reading.query:
        text += f" of each {source.reading.key!r}"
    return text
