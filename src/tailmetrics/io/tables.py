"""Tables with types: Parquet, Arrow, Feather, saved data sets, and tables in memory.

A row holds a query, an item and perhaps a number, or a list of items and perhaps a list
of numbers. Only the needed columns and rows are read, from Parquet a few pages at a
time, whatever the size of a row group. Arrow files, Feather files and data sets saved
by ``datasets`` are memory-mapped.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from tailmetrics.io.columns import Column, Kind
from tailmetrics.io.database import Database, DatabaseError, literal, named
from tailmetrics.io.files import (
    DataFileError,
    FilePath,
    Plain,
    codec_of,
    head,
    temporary_folder,
)
from tailmetrics.io.forms import Opening
from tailmetrics.io.rows import Ints

PARQUET, ARROW, STREAM = b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"
"""First bytes of Parquet, and of files and streams of Arrow."""
READ_ROWS = 2**16
"""Rows at most that DuckDB gets at a time."""
BUFFER_BYTES = 2**20
"""Read buffer per column, in bytes.

Without a buffer, pyarrow holds a whole row group: hundreds of MB for a million rows.
"""


class Table(ABC):
    """An open file of columns.

    Attributes:
        path: The file.
        form: Name of the format in errors.
        schema: Names and types of the columns.
        ends: Row numbers at which row groups or record batches end, ascending; the last
            one is the number of rows.
        num_rows: Number of rows in the file.
        cells_per_row: Approximate number of numbers in a row.
        owner: An object that must live as long as this one.
    """

    form: str
    schema: Any
    cells_per_row: float
    owner: Any = None

    def __init__(self, path: FilePath, lengths: Sequence[int]) -> None:
        self.path = path
        self.ends: Ints = np.cumsum(lengths, dtype=np.int64)
        self.num_rows = sum(lengths)

    def batches(
        self, columns: Sequence[str], start: int, stop: int, size: int
    ) -> Iterator[tuple[int, Any]]:
        """Yield record batches from ``start`` up to ``stop``, with their first row.

        A pair is the number of a first row and a batch of at most ``size`` rows.
        """
        if stop <= start:
            return
        group, last = np.searchsorted(self.ends, [start, stop - 1], side="right")
        first = 0
        if group:
            first = int(self.ends[group - 1])
        for batch in self._read(columns, range(group, last + 1), size):
            own = batch.slice(
                max(0, start - first),
                max(0, min(stop, first + len(batch)) - max(start, first)),
            )
            if len(own):
                yield max(start, first), own
            first += len(batch)
            if first >= stop:  # the rest of a row group would be decoded for nothing
                return

    def entries(self, column: str) -> int:
        """Return the number of entries in a column of lists; 0 if not declared."""
        return 0

    @abstractmethod
    def _read(self, columns: Sequence[str], groups: range, size: int) -> Iterator[Any]:
        """Yield the rows of the given row groups as record batches, in order."""

    def reader(self, columns: Sequence[str]) -> Any:
        """Return columns as a reader of record batches for DuckDB.

        Numbers in half precision, which DuckDB lacks, become single precision.
        """
        fields = []
        for name in columns:
            arrow_type = self.schema.field(name).type
            if arrow_type == pa.float16():
                arrow_type = pa.float32()
            fields.append(pa.field(name, arrow_type))
        schema = pa.schema(fields)
        # files give columns in their own order
        batches = (
            batch.select(list(columns))
            for _, batch in self.batches(columns, 0, self.num_rows, READ_ROWS)
        )
        return pa.RecordBatchReader.from_batches(
            schema, (batch.cast(schema) for batch in batches)
        )


class ParquetTable(Table):
    """A Parquet file."""

    form = "Parquet"

    def __init__(self, path: FilePath) -> None:
        self._plain = None
        self.file = path
        if codec_of(path) is not None:
            self._plain = Plain(path)
            self.file = self._plain.path
        with self._open() as file:
            metadata, self.schema = file.metadata, file.schema_arrow
        lengths, size = [], 0
        for index in range(metadata.num_row_groups):
            group = metadata.row_group(index)
            lengths.append(group.num_rows)
            size += group.total_byte_size
        super().__init__(path, lengths)
        # An encoded number takes two bytes or more; pyarrow aborts when asked for the
        # exact count in a damaged footer.
        self.cells_per_row = size / 2 / max(self.num_rows, 1)

    def entries(self, column: str) -> int:
        """Return the number of entries in a column of lists; 0 if unknown.

        The number is unknown for a file in a store, and for a damaged file.
        """
        if not isinstance(self.file, Path):
            return 0
        own = "path_in_schema = ? OR starts_with(path_in_schema, ? || ', ')"
        counts = (
            "SELECT sum(num_values) AS entries FROM "
            f"parquet_metadata({named(self.file)}) WHERE {own}"
        )
        most = (
            f"SELECT coalesce(max(entries), 0) FROM ({counts} GROUP BY path_in_schema)"
        )
        # sizes do not tell it: a kilobyte holds a million equal numbers; pyarrow aborts
        # on a damaged file
        with suppress(ModuleNotFoundError, DatabaseError):
            return int(Database().row(most, column, column)[0])
        return 0

    @contextmanager
    def _open(self) -> Iterator[Any]:
        with ExitStack() as opened:
            # given a path, Arrow reads by itself; every read of an open file goes
            # through Python
            file = self.file
            if not isinstance(file, Path):
                file = opened.enter_context(file.open("rb"))
            yield opened.enter_context(
                pq.ParquetFile(file, pre_buffer=False, buffer_size=BUFFER_BYTES)
            )

    def _read(self, columns: Sequence[str], groups: range, size: int) -> Iterator[Any]:
        # a second thread that waits costs a tenth more CPU
        use_threads = torch.get_num_threads() > 1
        with self._open() as file:
            yield from file.iter_batches(
                size, row_groups=groups, columns=list(columns), use_threads=use_threads
            )


class ArrowTable(Table):
    """A memory-mapped Arrow file or stream.

    Only the needed columns and batches are read.
    """

    form = "Arrow"

    def __init__(self, path: FilePath) -> None:
        self._plain = Plain(path)
        lengths, sizes = [], []
        for batch in self._batches():
            lengths.append(len(batch))
            sizes.append(batch.nbytes)
        super().__init__(path, lengths)
        self.cells_per_row = sum(sizes) / 4 / max(self.num_rows, 1)

    def _batches(
        self,
        columns: Sequence[str] | None = None,
        start: int | None = None,
        stop: int | None = None,
    ) -> Iterator[Any]:
        """Yield the record batches from ``start`` up to ``stop``.

        Without ``columns``, set the schema first, and yield all columns.
        """
        fields = None
        if columns is not None:
            fields = [self.schema.get_field_index(name) for name in columns]
        options = pa.ipc.IpcReadOptions(included_fields=fields)
        with pa.memory_map(str(self._plain.path)) as file:
            is_file = file.read(len(ARROW)) == ARROW
            file.seek(0)
            if is_file:
                reader = pa.ipc.open_file(file, options=options)
                batches: Iterator[Any] = map(
                    reader.get_batch, range(reader.num_record_batches)[start:stop]
                )
            else:
                reader = pa.ipc.open_stream(file, options=options)
                batches = islice(reader, start, stop)
            if columns is None:
                self.schema = reader.schema
            yield from batches

    def _read(self, columns: Sequence[str], groups: range, size: int) -> Iterator[Any]:
        for batch in self._batches(columns, groups.start, groups.stop):
            # nothing else checks the offsets of a damaged file
            batch.validate(full=True)
            yield from (
                batch.slice(first, size) for first in range(0, len(batch), size)
            )


class TableInMemory(Table):
    """An Arrow table."""

    form = "a table"

    def __init__(self, path: FilePath, table: Any) -> None:
        super().__init__(path, [table.num_rows])
        self._table, self.schema = table, table.schema
        self.cells_per_row = table.nbytes / 4 / max(self.num_rows, 1)

    def _read(self, columns: Sequence[str], groups: range, size: int) -> Iterator[Any]:
        yield from self._table.select(list(columns)).to_batches(size)


def open_table(path: FilePath) -> Table:
    """Open a file of columns; its first bytes tell whether it is Parquet or Arrow.

    Raises:
        DataFileError: If it is neither.
    """
    start = head(path)
    if start.startswith(PARQUET):
        return ParquetTable(path)
    if start.startswith((ARROW, STREAM)):
        return ArrowTable(path)
    hint = (
        "it may be truncated, corrupt, of another format, or Feather of version 1: "
        "write it again, or name its format."
    )
    raise DataFileError(
        path, "cannot be read as a table: it is neither Parquet nor Arrow", hint=hint
    )


# -- types -----------------------------------------------------------------------------


def columns_of(schema: Any) -> list[Column]:
    """Return the columns of an Arrow schema."""
    return [_column(field.name, field.type) for field in schema]


def _column(name: str, arrow_type: Any) -> Column:
    if is_list(arrow_type):
        inner = arrow_type.value_type
        if pa.types.is_struct(inner):
            fields = tuple(_column(field.name, field.type) for field in inner)
            return Column(name, Kind.OBJECTS, None, fields, type=str(arrow_type))
        return Column(name, Kind.LIST, _scalar_kind(inner), type=str(arrow_type))
    return Column(name, _scalar_kind(arrow_type), type=str(arrow_type))


def _scalar_kind(arrow_type: Any) -> Kind:
    """Return what the cells of a column without lists are."""
    arrow_type = plain_type(arrow_type)
    if is_string(arrow_type):
        return Kind.STRING
    if pa.types.is_integer(arrow_type):
        return Kind.WHOLE
    if pa.types.is_float16(arrow_type) or pa.types.is_float32(arrow_type):
        return Kind.SINGLE
    if pa.types.is_float64(arrow_type) or pa.types.is_boolean(arrow_type):
        return Kind.NUMBER
    if pa.types.is_decimal(arrow_type):
        return Kind.DECIMAL
    if pa.types.is_temporal(arrow_type):
        return Kind.TIME
    if pa.types.is_null(arrow_type):
        return Kind.NULL
    return Kind.OTHER


def is_list(arrow_type: Any) -> bool:
    """Whether an Arrow type is of lists."""
    return bool(
        pa.types.is_list(arrow_type)
        or pa.types.is_large_list(arrow_type)
        or pa.types.is_fixed_size_list(arrow_type)
    )


def is_string(arrow_type: Any) -> bool:
    """Whether an Arrow type is of text."""
    arrow_type = plain_type(arrow_type)
    return bool(
        pa.types.is_string(arrow_type)
        or pa.types.is_large_string(arrow_type)
        or pa.types.is_string_view(arrow_type)
    )


def plain_type(arrow_type: Any) -> Any:
    """Return an Arrow type without dictionary encoding."""
    if pa.types.is_dictionary(arrow_type):
        return arrow_type.value_type
    return arrow_type


def written(
    opening: Opening, database: Database, owner: object, statement: str
) -> ParquetTable:
    """Return the result of a query as a Parquet table in a temporary folder.

    The folder lives as long as the table.
    """
    path = temporary_folder(owner) / "lists.parquet"
    goal = f"{literal(str(path))} (FORMAT parquet, ROW_GROUP_SIZE 20480)"
    database.run(
        f"COPY ({statement}) TO {goal}", f"reading {opening.path.name}", in_order=True
    )
    table = ParquetTable(path)
    table.path, table.owner = opening.path, owner
    return table
