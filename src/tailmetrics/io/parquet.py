"""Parquet with list columns: one row of the file is one row of the data.

Only the columns needed are read, a few pages at a time, whatever the size of the row groups: a rank decodes the row
groups its rows lie in. Label ids are whole numbers, or strings numbered by the names given.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tailmetrics.io.compression import Plain
from tailmetrics.io.errors import DataFileError, check_file, reading
from tailmetrics.io.formats import Opening
from tailmetrics.io.names import UNKNOWN_HINT
from tailmetrics.io.rows import Array, Ragged, rebatch
from tailmetrics.io.source import Source

FORM = "Parquet"
BUFFER_BYTES = 2**20
"""Bytes read ahead per column: without it pyarrow holds a whole row group, at a million rows hundreds of megabytes."""


class ParquetSource(Source):
    """Two list columns: label ids, and their scores or gains if the file has them, or ``needed`` says that it must."""

    def __init__(self, path: str | Path, ids: str, values: str, needed: bool = False) -> None:
        self.path = check_file(path)
        self._plain = Plain(self.path)
        with reading(self.path, FORM), self._open() as file:
            metadata, schema = file.metadata, file.schema_arrow
        self._ids = ids
        self._values = values if values in schema.names else None
        if needed and self._values is None:
            raise self._lacks(values, schema)
        self.string_ids = self._check_columns(schema)
        self.num_rows = metadata.num_rows
        groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
        self.ends = np.cumsum([group.num_rows for group in groups], dtype=np.int64)
        # Encoded numbers take two bytes or more; pyarrow aborts when asked for the exact count in a damaged footer.
        self.cells_per_row = sum(group.total_byte_size for group in groups) / 2 / max(self.num_rows, 1)

    def read_as_names(self) -> None:
        """Take label ids for names, to be numbered over all files."""
        self.string_ids = True

    def batches(self, start: int, stop: int, size: int) -> Iterator[Ragged]:
        """Yield the rows as pages are decoded."""
        with reading(self.path, FORM):
            yield from rebatch(self._read(start, stop, size), size)

    def distinct_names(self) -> Iterator[list[str]]:
        """Yield the names of some thousand rows at a time, decoding the whole column."""
        if not self.string_ids:
            return
        first = 0
        with reading(self.path, FORM), self._open() as file:
            for batch in file.iter_batches(columns=[self._ids]):
                names, _ = self._flat(batch.column(0), first)
                yield pc.unique(pc.cast(names, pa.string())).to_pylist()
                first += len(batch)

    def _open(self) -> Any:
        return pq.ParquetFile(self._plain.path, pre_buffer=False, buffer_size=BUFFER_BYTES)

    def _read(self, start: int, stop: int, size: int) -> Iterator[Ragged]:
        assert self.ends is not None
        group, last = np.searchsorted(self.ends, [start, stop - 1], side="right") if stop > start else (0, -1)
        first = int(self.ends[group - 1]) if group else 0
        columns = [self._ids] if self._values is None else [self._ids, self._values]
        with self._open() as file:
            groups = range(group, last + 1)
            for batch in file.iter_batches(batch_size=size, row_groups=groups, columns=columns):
                own = batch.slice(max(0, start - first), max(0, min(stop, first + len(batch)) - max(start, first)))
                if len(own):
                    yield self._ragged(own, max(start, first))
                first += len(batch)

    def _ragged(self, batch: Any, first: int) -> Ragged:
        ids, lengths = self._flat(batch.column(self._ids), first)
        rows = Ragged.from_lengths(lengths, self._numbers(ids, lengths, first))
        if self._values is None:
            return rows
        values, listed = self._flat(batch.column(self._values), first)
        if (listed != lengths).any():
            row = int((listed != lengths).argmax())
            problem = f"holds {lengths[row]} {self._ids} but {listed[row]} {self._values}"
            raise self.error(first + row, problem, "both lists of a row must have the same length.")
        return Ragged(rows.offsets, rows.ids, values.to_numpy(zero_copy_only=False))

    def _flat(self, lists: Any, first: int) -> tuple[Any, Array]:
        """Return the entries of all lists one behind the other, and the lengths, 0 where there is no list."""
        flat = pc.list_flatten(lists)
        lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        if flat.null_count:
            entry = int(pc.is_null(flat).to_numpy(zero_copy_only=False).argmax())
            row = _row_of(entry, lengths)
            raise self.error(first + row, "holds a null inside a list", "leave the entry out of both lists.")
        return flat, lengths

    def _numbers(self, ids: Any, lengths: Array, first: int) -> Array:
        if not self.string_ids:
            return np.asarray(ids.to_numpy(zero_copy_only=False))
        assert self.numbering is not None
        numbers = self.numbering.encode(pc.cast(ids, pa.string()))
        if numbers.size and numbers.min() < 0:
            entry = int(numbers.argmin())
            row = _row_of(entry, lengths)
            raise self.error(first + row, f"holds the unknown label {str(ids[entry])!r}", UNKNOWN_HINT)
        return numbers

    def _check_columns(self, schema: Any) -> bool:
        if self._ids not in schema.names:
            raise self._lacks(self._ids, schema)
        strings = self._check_type(schema, self._ids, pa.types.is_integer, "whole numbers or strings", _is_string)
        if self._values is not None:
            self._check_type(schema, self._values, _is_number, "numbers")
        return strings

    def _lacks(self, name: str, schema: Any) -> DataFileError:
        problem = f"has no column {name!r}; its columns are {', '.join(schema.names)}"
        hint = "name its columns: columns=Columns(ids=NAME), and so on for scores, labels and gains."
        return DataFileError(self.path, problem, hint=hint)

    def _check_type(self, schema: Any, name: str, fits: Any, needed: str, also: Any = None) -> bool:
        kind = schema.field(name).type
        if _is_list(kind) and also is not None and also(kind.value_type):
            return True
        if not _is_list(kind) or not fits(kind.value_type):
            hint = f"one list of {needed} per row is needed."
            raise DataFileError(self.path, f"column {name!r} is {kind}", hint=hint)
        return False


def open_parquet(asked: Opening) -> ParquetSource:
    """Open a file by the columns of its role; without a role, by those of predictions where it has them."""
    path, role, columns = asked
    if role is None:
        with reading(path, FORM), pq.ParquetFile(Plain(path).path) as file:
            role = "preds" if columns.ids in file.schema_arrow.names else "target"
    if role == "preds":
        return ParquetSource(path, columns.ids, columns.scores, columns.is_given("scores"))
    return ParquetSource(path, columns.labels, columns.gains, columns.is_given("gains"))


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _is_string(kind: Any) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_number(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _row_of(entry: int, lengths: Array) -> int:
    return int(np.searchsorted(np.cumsum(lengths), entry, side="right"))
