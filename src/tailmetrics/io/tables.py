"""Files of columns, Parquet and Arrow, read as record batches: only the columns and rows that are asked for.

Parquet is read a few pages at a time, whatever the size of its row groups. Arrow, Feather and the files that
``datasets`` saves are mapped.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tailmetrics.io.compression import Plain, codec_of
from tailmetrics.io.errors import DataFileError, reading
from tailmetrics.io.paths import FilePath, check_file
from tailmetrics.io.rows import Ints
from tailmetrics.io.signatures import ARROW, FEATHER_1, PARQUET, STREAM

BUFFER_BYTES = 2**20
"""Bytes read ahead per column: without it pyarrow holds a whole row group, at a million rows hundreds of megabytes."""


class Table(ABC):
    """A file of columns, open.

    Attributes:
        path: The file.
        form: What an error calls its format.
        schema: Names and types of its columns.
        ends: Row numbers at which row groups or batches end, ascending; the last one is the number of rows.
        cells_per_row: About how many numbers a row holds.
    """

    path: FilePath
    form: str
    schema: Any
    ends: Ints
    cells_per_row: float = 1.0

    @property
    def num_rows(self) -> int:
        """Rows in the file."""
        return int(self.ends[-1]) if len(self.ends) else 0

    def batches(self, columns: Sequence[str], start: int, stop: int, size: int) -> Iterator[tuple[int, Any]]:
        """Yield the rows from ``start`` up to ``stop`` as record batches of at most ``size``, with their first row."""
        if stop <= start:
            return
        group, last = np.searchsorted(self.ends, [start, stop - 1], side="right")
        first = int(self.ends[group - 1]) if group else 0
        for batch in self._read(columns, range(group, last + 1), size):
            own = batch.slice(max(0, start - first), max(0, min(stop, first + len(batch)) - max(start, first)))
            if len(own):
                yield max(start, first), own
            first += len(batch)

    @abstractmethod
    def _read(self, columns: Sequence[str], groups: range, size: int) -> Iterator[Any]:
        """Yield the rows of some row groups, in order."""


class ParquetTable(Table):
    """A Parquet file."""

    form = "Parquet"

    def __init__(self, path: FilePath) -> None:
        self.path = path
        with reading(path, self.form):
            self._plain = None if codec_of(path) is None else Plain(path)
            with self._open() as file:
                metadata, self.schema = file.metadata, file.schema_arrow
        groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
        self.ends = np.cumsum([group.num_rows for group in groups], dtype=np.int64)
        # Encoded numbers take two bytes or more; pyarrow aborts when asked for the exact count in a damaged footer.
        self.cells_per_row = sum(group.total_byte_size for group in groups) / 2 / max(self.num_rows, 1)

    @contextmanager
    def _open(self) -> Iterator[Any]:
        path = self.path if self._plain is None else self._plain.path
        with path.open("rb") as opened, pq.ParquetFile(opened, pre_buffer=False, buffer_size=BUFFER_BYTES) as file:
            yield file

    def _read(self, columns: Sequence[str], groups: range, size: int) -> Iterator[Any]:
        with self._open() as file:
            yield from file.iter_batches(batch_size=size, row_groups=groups, columns=list(columns))


class ArrowTable(Table):
    """An Arrow file or stream, mapped."""

    form = "Arrow"

    def __init__(self, path: FilePath) -> None:
        self.path = path
        self._plain = Plain(path)
        with reading(path, self.form):
            with self._plain.path.open("rb") as file:
                self._is_stream = file.read(len(ARROW)) != ARROW
            self.schema, lengths = self._measured()
        self.ends = np.cumsum(lengths, dtype=np.int64)
        self.cells_per_row = self._plain.path.stat().st_size / 4 / max(self.num_rows, 1)

    def _measured(self) -> tuple[Any, list[int]]:
        """Return the schema and the rows of each batch; mapped, so that only their headers are read."""
        with pa.memory_map(str(self._plain.path)) as file:
            reader = self._reader(file, [])
            return reader.schema, [len(batch) for batch in self._all(reader)]

    def _reader(self, file: Any, columns: Sequence[str]) -> Any:
        opened = pa.ipc.open_stream if self._is_stream else pa.ipc.open_file
        if not columns:
            return opened(file)
        fields = [self.schema.get_field_index(name) for name in columns]
        return opened(file, options=pa.ipc.IpcReadOptions(included_fields=fields))

    def _all(self, reader: Any) -> Iterator[Any]:
        if self._is_stream:
            yield from reader
        else:
            yield from map(reader.get_batch, range(reader.num_record_batches))

    def _read(self, columns: Sequence[str], groups: range, size: int) -> Iterator[Any]:
        with pa.memory_map(str(self._plain.path)) as file:
            reader = self._reader(file, columns)
            for batch in (
                islice(reader, groups.start, groups.stop) if self._is_stream else map(reader.get_batch, groups)
            ):
                batch.validate(full=True)  # a damaged file may hold offsets outside of it, which nothing else checks
                yield from (batch.slice(first, size) for first in range(0, len(batch), size))


def open_table(path: str | FilePath) -> Table:
    """Open a file of columns; its first bytes tell which."""
    path = check_file(path)
    with reading(path, "a table"):
        plain = Plain(path) if codec_of(path) is not None else None
        with (path if plain is None else plain.path).open("rb") as file:
            start = file.read(len(ARROW))
    if start.startswith(PARQUET):
        return ParquetTable(path)
    if start.startswith(FEATHER_1):
        hint = "write it again: pyarrow.feather.write_feather(table, path), version 2."
        raise DataFileError(path, "is Feather of version 1", hint=hint)
    if start == ARROW or start.startswith(STREAM):
        return ArrowTable(path)
    hint = "the file may be truncated or corrupt, or of another format: write it again, or name its format."
    raise DataFileError(path, "cannot be read as a table: it is neither Parquet nor Arrow", hint=hint)
