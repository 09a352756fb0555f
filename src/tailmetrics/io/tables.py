"""Files of columns (Parquet and Arrow), JSON files, and tables and dicts in memory.

Lists: a row of the file is a row of the data. It holds a list of label ids and perhaps a list of their scores or gains,
or one list of structs with both; a column may hold the query of the row. Long tables: a row holds (query, item, score)
or (query, item[, gain]). Only the needed columns and rows are read, from Parquet a few pages at a time, whatever the
size of a row group. Arrow files, Feather files and data sets saved by ``datasets`` are memory-mapped.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch

from tailmetrics.io.database import Database, SqlLines, Triples, entries_in_parquet, literal, named, quoted, triples
from tailmetrics.io.files import DataFileError, FilePath, Plain, check_file, codec_of, head, reading, temporary_folder
from tailmetrics.io.reading import (
    ARROW,
    FEW,
    FLAGS,
    NAMED,
    PARQUET,
    STREAM,
    Columns,
    Look,
    Opening,
    Reading,
    check_beside,
    check_nested,
    choose,
    choose_lists,
    constants,
    holds_lists,
    in_words,
    numbers_beside,
    parts_of_query,
    plain,
    sql_joined,
    varied,
)
from tailmetrics.io.rows import Array, Ints, Ragged, Source, row_of, starts
from tailmetrics.io.text import LONGEST, look_at_objects, record_entry, sql_of_flags, whole_json

BUFFER_BYTES = 2**20
"""Read buffer per column, in bytes. Without it pyarrow holds a whole row group: hundreds of MB for a million rows."""


class Table(ABC):
    """An open file of columns.

    Attributes:
        path: The file.
        form: Name of the format in errors.
        schema: Names and types of the columns.
        ends: Row numbers at which row groups or record batches end, ascending; the last one is the number of rows.
        num_rows: Number of rows in the file.
        cells_per_row: Approximate number of numbers in a row.
        kept: An object that must live as long as this one.
    """

    form: str
    schema: Any
    cells_per_row: float
    kept: Any = None

    def __init__(self, path: FilePath, lengths: Sequence[int]) -> None:
        self.path = path
        self.ends: Ints = np.cumsum(lengths, dtype=np.int64)
        self.num_rows = sum(lengths)

    def batches(self, columns: Sequence[str], start: int, stop: int, size: int) -> Iterator[tuple[int, Any]]:
        """Yield pairs (number of the first row, record batch of at most ``size``) from ``start`` up to ``stop``."""
        if stop <= start:
            return
        group, last = np.searchsorted(self.ends, [start, stop - 1], side="right")
        first = int(self.ends[group - 1]) if group else 0
        for batch in self._read(columns, range(group, last + 1), size):
            own = batch.slice(max(0, start - first), max(0, min(stop, first + len(batch)) - max(start, first)))
            if len(own):
                yield max(start, first), own
            first += len(batch)

    def entries(self, column: str) -> int:
        """Return the number of entries in the lists of a column; 0 if only reading them tells it."""
        return 0

    @abstractmethod
    def _read(self, columns: Sequence[str], groups: range, size: int) -> Iterator[Any]:
        """Yield the rows of the given row groups as record batches, in order."""


class ParquetTable(Table):
    """A Parquet file."""

    form = "Parquet"

    def __init__(self, path: FilePath) -> None:
        with reading(path, self.form):
            self._plain = None if codec_of(path) is None else Plain(path)
            self.file = path if self._plain is None else self._plain.path
            with self._open() as file:
                metadata, self.schema = file.metadata, file.schema_arrow
        groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
        super().__init__(path, [group.num_rows for group in groups])
        # An encoded number takes two bytes or more; pyarrow aborts when asked for the exact count in a damaged footer.
        self.cells_per_row = sum(group.total_byte_size for group in groups) / 2 / max(self.num_rows, 1)

    def entries(self, column: str) -> int:
        """Return the number of entries in the lists of a column; 0 for a file in a store."""
        return entries_in_parquet(self.file, column) if isinstance(self.file, Path) else 0

    @contextmanager
    def _open(self) -> Iterator[Any]:
        with ExitStack() as opened:
            # given a path, Arrow reads by itself; every read of an open file goes through Python
            file = self.file if isinstance(self.file, Path) else opened.enter_context(self.file.open("rb"))
            yield opened.enter_context(pq.ParquetFile(file, pre_buffer=False, buffer_size=BUFFER_BYTES))

    def _read(self, columns: Sequence[str], groups: range, size: int) -> Iterator[Any]:
        use_threads = torch.get_num_threads() > 1  # a second thread that waits costs a tenth more CPU
        with self._open() as file:
            yield from file.iter_batches(size, row_groups=groups, columns=list(columns), use_threads=use_threads)


class ArrowTable(Table):
    """A memory-mapped Arrow file or stream; only the needed columns and batches are read."""

    form = "Arrow"

    def __init__(self, path: FilePath) -> None:
        self._plain = Plain(path)
        with reading(path, self.form):
            sizes = [(len(batch), batch.nbytes) for batch in self._batches(None, None)]
        super().__init__(path, [length for length, _ in sizes])
        self.cells_per_row = sum(size for _, size in sizes) / 4 / max(self.num_rows, 1)

    def _batches(self, columns: Sequence[str] | None, groups: range | None) -> Iterator[Any]:
        options = None
        if columns is not None:
            options = pa.ipc.IpcReadOptions(included_fields=[self.schema.get_field_index(name) for name in columns])
        with pa.memory_map(str(self._plain.path)) as file:
            is_stream = file.read(len(ARROW)) != ARROW
            file.seek(0)
            reader = (pa.ipc.open_stream if is_stream else pa.ipc.open_file)(file, options=options)
            if columns is None:
                self.schema = reader.schema
            if is_stream:
                yield from reader if groups is None else islice(reader, groups.start, groups.stop)
            else:
                yield from map(reader.get_batch, range(reader.num_record_batches) if groups is None else groups)

    def _read(self, columns: Sequence[str], groups: range, size: int) -> Iterator[Any]:
        for batch in self._batches(columns, groups):
            batch.validate(full=True)  # nothing else checks the offsets of a damaged file
            yield from (batch.slice(first, size) for first in range(0, len(batch), size))


class TableInMemory(Table):
    """An Arrow table."""

    form = "a table"

    def __init__(self, path: FilePath, table: Any) -> None:
        super().__init__(path, [table.num_rows])
        self._table, self.schema = table, table.schema
        self.cells_per_row = table.nbytes / 4 / max(self.num_rows, 1)

    def _read(self, columns: Sequence[str], groups: range, size: int) -> Iterator[Any]:
        yield from self._table.select(list(columns)).to_batches(size)


def open_table(path: str | FilePath) -> Table:
    """Open a file of columns; its first bytes tell whether it is Parquet or Arrow.

    Raises:
        DataFileError: If it is neither.
    """
    path = check_file(path)
    start = head(path)
    if start.startswith(PARQUET):
        return ParquetTable(path)
    if start.startswith((ARROW, STREAM)):
        return ArrowTable(path)
    hint = (
        "it may be truncated, corrupt, of another format, or Feather of version 1: write it again, or name its format."
    )
    raise DataFileError(path, "cannot be read as a table: it is neither Parquet nor Arrow", hint=hint)


# -- lists ------------------------------------------------------------------------------------------------------------


LINED_ROWS = 2**12
"""Number of rows whose entries become lines at a time: four million lines at 1,000 entries per row."""


class ListSource(Source):
    """A file with a list of label ids in each row, and a list of their scores or gains if the file has them."""

    reading: Reading

    def __init__(self, table: Table, found: Reading) -> None:
        self.path = table.path
        self.reading = found
        self.key = ",".join(found.query) or None
        self.unread = [name for name in _names_of_whole(table) if name != self.key]
        self._table = table
        self._ids, self._values = found.place(found.item), None if found.value is None else found.place(found.value)
        self._columns = list(dict.fromkeys(name for name, _ in filter(None, (self._ids, self._values))))
        kind = table.schema.field(self._ids[0]).type
        entries = kind.value_type if _is_list(kind) else kind
        self.string_ids = _is_string(entries if self._ids[1] is None else entries.field(self._ids[1]).type)
        self.num_rows = table.num_rows
        self.ends = table.ends
        mean = table.entries(self._ids[0]) / max(self.num_rows, 1)
        self.cells_per_row = max(mean, table.cells_per_row)
        self.widest = "the longest row", int(mean)
        what = "strings" if self.string_ids else "whole numbers"
        held = "" if found.value is None else " with ranks" if found.is_rank else " with values"
        self.layout = f"lists of {what}{held}"

    def read_as_names(self) -> None:
        """Treat label ids as names, which are then numbered over all files."""
        self.string_ids = True

    def batches(self, start: int, stop: int, size: int) -> Iterator[Ragged]:
        """Yield the rows, in one batch for each record batch that is decoded."""
        for first, batch in self._batches(self._columns, start, stop, size):
            ids, lengths = self._flat(self._ids, batch, first)
            numbers: Any
            if self.string_ids:
                numbers = self.label_ids(pc.cast(ids, pa.string()), lengths, first)
            else:
                numbers = np.from_dlpack(ids)  # to_numpy would import pandas, which takes .2 s
            yield Ragged.from_lengths(lengths, numbers, self._listed(batch, lengths, first))

    def _batches(self, columns: Sequence[str], start: int, stop: int, size: int) -> Iterator[tuple[int, Any]]:
        header = self._table.schema.names
        names = dict.fromkeys(part for name in columns for part in parts_of_query(name, header))
        with reading(self.path, self._table.form):
            yield from self._table.batches(list(names), start, stop, size)

    def values(self, column: str | None) -> Iterator[Any]:
        """Yield the values of a column as Arrow string arrays; nothing if ``column`` is None.

        Raises:
            DataFileError: If the column is ``key`` and a row has no value.
        """
        for first, batch in self._batches([column], 0, self.num_rows, 2**16) if column is not None else ():
            yield self._names(column, batch, first)

    def _names(self, name: str | None, batch: Any, first: int) -> Any:
        columns = [batch.column(part) for part in parts_of_query(str(name), self._table.schema.names)]
        for column in columns if name == self.key else ():
            if (row := _first_null(column)) is not None:
                raise self.error(first + row, f"has no value in column {self.key!r}", "every row needs a query.")
        return _joined(*(pc.cast(column, pa.string()) for column in columns))

    def entries(self) -> Iterator[Triples]:
        """Yield the entries of all rows; in predictions without scores, the score is minus the place in the list.

        Raises:
            DataFileError: If there is no column of queries, or a query has a second list.
        """
        if self.key is None:
            yield from super().entries()
        seen: set[str] = set()
        for first, batch in self._batches([str(self.key), *self._columns], 0, self.num_rows, LINED_ROWS):
            keys = self._names(self.key, batch, first)
            for row, key in enumerate(keys.to_pylist()):
                if key in seen:
                    hint = f"files whose {self.key!r} differ are joined by it, so that each of them stands there once."
                    raise self.error(first + row, f"has a second list of {key!r}", hint)
                seen.add(key)
            yield self._triples(batch, keys, first)

    def first_rows(self, most: int) -> list[str]:
        """Return the first two rows in words, with names of labels."""
        found = []
        for first, batch in self._batches(self._columns, 0, min(2, self.num_rows), 2):
            ids, lengths = self._flat(self._ids, batch, first)
            values, start = self._listed(batch, lengths, first), 0
            for row, length in enumerate(lengths.tolist()):
                places = range(start, start + min(length, most))
                said = [f"{ids[one].as_py()!r}{'' if values is None else f' {abs(values[one]):g}'}" for one in places]
                found.append(f"row {first + row}: {', '.join(said) or 'nothing'}{' …' * (length > most)}")
                start += length
        return found

    def _triples(self, batch: Any, keys: Any, first: int) -> Triples:
        """Return one line for each entry, and one line without an item for an empty list."""
        ids, lengths = self._flat(self._ids, batch, first)
        values = self._listed(batch, lengths, first)
        if values is None and self.reading.role == "preds":
            values = np.repeat(starts(lengths)[:-1], lengths) - np.arange(len(ids), dtype=np.float64)
        row = np.repeat(np.arange(len(lengths)), np.maximum(lengths, 1))
        entry = np.full(len(row), -1)
        entry[np.repeat(lengths > 0, np.maximum(lengths, 1))] = np.arange(len(ids))
        items = pc.cast(ids, pa.string()).take(pa.array(entry, mask=entry < 0))
        value = None if values is None else np.append(values.astype(np.float64), 0.0)[entry]
        return Triples(keys.take(pa.array(row)), items, value, lambda index: self.describe_row(first + int(row[index])))

    def distinct_names(self) -> Iterator[Any]:
        """Yield the distinct names of each record batch; this decodes the whole column."""
        for first, batch in self._batches([self._ids[0]], 0, self.num_rows, 2**16) if self.string_ids else ():
            yield pc.unique(pc.cast(self._flat(self._ids, batch, first)[0], pa.string()))

    def _listed(self, batch: Any, lengths: Array, first: int) -> Array | None:
        """Return the scores or gains of all entries, with ranks negated; None if the file has no values."""
        if self._values is None:
            return None
        values, listed = self._flat(self._values, batch, first)
        values = pc.cast(values, pa.int8()) if pa.types.is_boolean(values.type) else values
        if (listed != lengths).any():
            row = int((listed != lengths).argmax())
            names = (".".join(filter(None, one)) for one in (self._ids, self._values))
            problem = f"holds {lengths[row]} {next(names)} but {listed[row]} {next(names)}"
            raise self.error(first + row, problem, "both lists of a row must have the same length.")
        found = np.from_dlpack(values)
        if not self.reading.is_rank:
            return found
        ranks = found.astype(np.float64)
        if self.reading.ranks:
            self.check_ranks(ranks, lengths, first)
        return -ranks

    def _flat(self, place: tuple[str, str | None], batch: Any, first: int) -> tuple[Any, Array]:
        """Return the entries of all lists of a column, or a field of them, and the lengths, 0 for a null."""
        name, inner = place
        lists = batch.column(name)
        if not _is_list(lists.type):
            lists = pa.ListArray.from_arrays(np.arange(len(lists) + 1, dtype=np.int32), lists)
        flat = pc.list_flatten(lists)
        lengths = pc.list_value_length(lists)
        if lists.null_count:  # tested first: fill_null takes as long as reading the lists
            lengths = pc.fill_null(lengths, 0)
        lengths = np.from_dlpack(lengths).astype(np.int64)
        if inner is not None:
            flat = pc.struct_field(flat, inner)
        if (entry := _first_null(flat)) is not None:
            row = first + row_of(entry, starts(lengths))
            raise self.error(row, "holds a null inside a list", "leave the entry out of both lists.")
        return flat, lengths


def open_lists(asked: Opening, table: Table | None = None) -> ListSource:
    """Open a file or table with lists, by the columns of its role.

    Without a role, the file is opened as predictions if it has columns of predictions, otherwise as targets.
    """
    table = table or open_table(asked.path)
    look = look_at(table, names=_names_of_whole(table))
    types = {field.name: field.type for field in table.schema}
    lists = {name: _entries(kind.value_type) for name, kind in types.items() if _is_list(kind)}
    if not lists and asked.role == "target":  # the class index of each row
        lists = {name: "whole" for name, kind in types.items() if plain(name) in NAMED and pa.types.is_integer(kind)}
    look = replace(look, types={name: str(kind) for name, kind in types.items()}, lists=lists)
    try:
        found = choose_lists(look, asked)
    except DataFileError:
        check_nested(look_at(table), asked)
        raise
    if look.types.get(found.within, "").count("list<") > 1 and not asked.columns.names_lists([found.within]):
        check_nested(look_at(table), asked, found.within)
    if beside := numbers_beside(look, asked, found):
        names = [found.within] if found.within else [found.item, *beside]
        check_beside(look_at(table, names=names, most=FIRST_LISTS), asked, found, beside)
    return ListSource(table, found)


def _entries(kind: Any) -> Any:
    """Return what the entries of lists are: ``text``, ``whole``, ``number`` or another; of structs by field."""
    if pa.types.is_struct(kind):
        return {field.name: _entries(field.type) for field in kind}
    tests = {"text": _is_string, "whole": pa.types.is_integer, "number": pa.types.is_floating}
    return next((name for name, fits in tests.items() if fits(kind)), str(kind))


def open_objects(asked: Opening) -> ListSource:
    """Open JSON objects of which each holds a list: DuckDB writes them as Parquet, in bounded memory."""
    plain = Plain(asked.path)
    database = Database()
    folder = temporary_folder(plain)
    of = f"{named(plain.path)}, compression='none', maximum_object_size={LONGEST}, format='auto'"
    with reading(asked.path, "JSON"):
        found = database.arrays(f"DESCRIBE SELECT * FROM read_json({of}, sample_size=-1)")
        kinds = {  # names may look like another type
            name: re.sub(r"\b(DATE|TIMESTAMP( WITH TIME ZONE)?|TIME|UUID|JSON)\b", "VARCHAR", kind)
            for name, kind in zip(found["column_name"].tolist(), found["column_type"].tolist(), strict=True)
        }
        said = ", ".join(f"{literal(name)}: {literal(kind)}" for name, kind in kinds.items())
        copied = folder / "objects.parquet"
        own = f"SELECT * FROM read_json({of}, columns={{{said}}})"
        database.run(
            f"COPY ({own}) TO {literal(str(copied))} (FORMAT parquet)", f"reading {asked.path.name}", in_order=True
        )
    table = ParquetTable(copied)
    table.path, table.kept = asked.path, plain
    return open_lists(asked, table)


def _names_of_whole(table: Table) -> list[str]:
    """Return the names of the columns that can hold queries: of strings, numbers or times."""
    kinds = {field.name: _plain_type(field.type) for field in table.schema}
    fits = (_is_string, pa.types.is_primitive, pa.types.is_decimal)  # Spark writes long whole numbers as decimals
    return [name for name, kind in kinds.items() if any(one(kind) for one in fits)]


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _is_string(kind: Any) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_number(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


# -- long tables ------------------------------------------------------------------------------------------------------

LONG_ROWS = 2**17
FIRST_ROWS = 1000
"""Rows at most from which the columns of a table are told."""
FIRST_LISTS = 100
"""Rows at most from which it is told whether numbers stand beside the labels of lists."""
FIRST_CELLS = 2**16
"""Cells at most that are looked at for it: a table of 9,000 columns is told by 7 rows."""
NOTHING: Mapping[str, str] = MappingProxyType({})
LISTS_HINT = (
    "either a row holds a list of items, and no column a single item; or write a line for each item, with its query "
    "and, if it is a prediction, its score."
)


def look_at(
    table: Table, partition: Mapping[str, str] = NOTHING, names: Sequence[str] | None = None, most: int = FIRST_ROWS
) -> Look:
    """Return the first rows of a table, or of some columns of it; of a wide table fewer."""
    names = list(table.schema.names if names is None else names)
    number = max(2, min(most, FIRST_CELLS // max(1, len(names))))
    with reading(table.path, table.form):
        batches = [batch for _, batch in table.batches(names, 0, min(number, table.num_rows), number)] if names else []
        columns = [[cell for batch in batches for cell in batch.column(name).to_pylist()] for name in names]
    given = {name: value for name, value in partition.items() if name not in names}
    size = sum(map(len, batches))
    rows = list(zip(*columns, *([value] * size for value in given.values()), strict=True))
    return Look(table.path, [*names, *given], rows, "its columns")


def read_long(asked: Opening, table: Table | None = None) -> SqlLines:
    """Return the lines of a file or table: SQL for a local Parquet file, otherwise blocks from record batches.

    Folders ``key=value`` in the path give further columns.
    """
    table = table or open_table(asked.path)
    path, partition, schema = asked.path, asked.partition, table.schema
    lists = [one for one in schema.names if hasattr(schema.field(one).type, "value_field")]
    try:
        chosen = choose(look_at(table, partition), asked)
    except DataFileError as error:
        if not lists or "there is no column" not in error.problem:
            raise
        raise DataFileError(path, f"holds lists in {in_words(lists)}", hint=LISTS_HINT) from error
    stored = [name for name in chosen.names if name in schema.names]
    kinds = {name: _plain_type(schema.field(name).type) for name in stored}
    for name in (*chosen.keys, chosen.item):
        kind = kinds.get(name, pa.null())
        if not (_is_string(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind)):
            problem = f"its column {name!r} is {schema.field(name).type}"
            hint = f"queries and items are whole numbers or strings: table.astype({{{name!r}: 'int64'}})."
            hint = LISTS_HINT if hasattr(kind, "value_field") else hint
            raise DataFileError(path, problem, hint=hint)

    kind = kinds.get(str(chosen.value), pa.float64())
    is_number = _is_number(kind) or pa.types.is_decimal(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind)
    if not (is_number or chosen.flags):
        if lists:
            raise DataFileError(path, f"holds lists in {in_words(lists)}", hint=LISTS_HINT)
        problem = f"its column {chosen.value!r} is {schema.field(chosen.value).type}"
        raise DataFileError(path, problem, hint="scores, ranks and gains are numbers.")
    chosen = replace(chosen, flags=chosen.flags and not is_number)
    _check_constants(table, constants(chosen, asked.columns))

    def named_cells(batch: Any, name: str) -> Any:
        return pc.cast(batch.column(name), pa.string()) if name in kinds else pa.repeat(partition[name], len(batch))

    def exact() -> Iterator[Triples]:
        with reading(path, table.form):
            for first, batch in table.batches(stored, 0, table.num_rows, LONG_ROWS):
                for name in stored:
                    if (row := _first_null(batch.column(name))) is not None:
                        hint = "every row needs a query, an item and a number; leave out rows that were not scored."
                        raise DataFileError(path, f"has no value in column {name!r}", f"row {first + row}", hint)
                query = _joined(*(named_cells(batch, name) for name in chosen.keys))
                value = None if chosen.value is None else _numbers(batch.column(chosen.value), chosen.flags)
                value = -value if chosen.is_rank and value is not None else value
                yield Triples(query, named_cells(batch, chosen.item), value, _rows_from(first), chosen.ranks)

    if not isinstance(table, ParquetTable) or not isinstance(table.file, Path):
        value = None if chosen.value is None else "value"
        return SqlLines(value=value, ranks=chosen.ranks, exact=exact, reading=chosen, kept=table)
    *query, item = (
        f"nullif({quoted(name)}::VARCHAR, '')" if name in kinds else literal(partition[name])
        for name in (*chosen.keys, chosen.item)
    )
    value = chosen.value and f"{'-' if chosen.is_rank else ''}{quoted(chosen.value)}::DOUBLE"
    return SqlLines(
        source=f"read_parquet({named(table.file)}, hive_partitioning=false)",
        query=sql_joined(query),
        item=item,
        value=sql_of_flags(quoted(str(chosen.value))) if chosen.flags else value,
        ranks=chosen.ranks,
        exact=exact,
        kept=table,
        reading=chosen,
    )


def _check_constants(table: Table, names: Sequence[str]) -> None:
    """Raise if a column that is not read holds one number in the first rows, and others or none later.

    Raises:
        DataFileError: Naming the column.
    """
    for name in names:
        found: set[Any] = set()
        for _, batch in table.batches([name], 0, table.num_rows, LONG_ROWS):
            found |= set(pc.unique(batch.column(name)).to_pylist()[:FEW])
        if len(found) > 1:
            raise varied(table.path, name, list(found))


def _first_null(array: Any) -> int | None:
    return int(pc.index(pc.is_null(array), True).as_py()) if array.null_count else None


def _joined(*parts: Any) -> Any:
    """Return the names of queries of several columns, as :func:`joined` does."""
    if len(parts) == 1:
        return parts[0]
    escaped = [pc.replace_substring(pc.replace_substring(part, "\\", "\\\\"), ",", "\\,") for part in parts]
    return pc.binary_join_element_wise(*escaped, ",")


def _numbers(column: Any, flags: bool) -> Array:
    """Return a column of numbers as float64; with ``flags`` of words for 1 and 0."""
    if not flags:
        return np.array(column.cast(pa.float64()))
    return np.array([FLAGS.get(str(cell).lower(), np.nan) for cell in column.to_pylist()])


def _rows_from(first: int) -> Callable[[int], str]:
    return lambda index: f"row {first + index}"


def _plain_type(kind: Any) -> Any:
    """Return the type without dictionary encoding; every string type becomes ``large_string``."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.large_string() if _is_string(kind) else kind


# -- in memory --------------------------------------------------------------------------------------------------------

FORMS = (
    "the path of a file; a table, such as a DataFrame, with the columns query, item and score or gain, or with lists; "
    "or a dict from query to a dict from item to score or gain, or to a list of items"
)


IN_DICT = Reading(query=("query",), item="item", value="value", value_is="score")
"""The keys of the objects that :func:`from_dict` makes of the items of a dict."""


def reader_in_memory(
    caller: str, argument: str, value: Any, path: FilePath, columns: Columns
) -> tuple[Callable[[Opening], SqlLines | Iterator[Triples] | ListSource], bool, tuple[str, ...]]:
    """Return the function that reads a table, or a dict of dicts (a run of pytrec_eval or ranx) or of lists.

    Returns:
        The function, whether the value holds lines that name their query, and the names of its columns.

    Raises:
        TypeError: If the value is neither a table nor a dict.
    """
    if isinstance(value, Mapping):
        return partial(from_dict, value), True, ()
    if isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
        with reading(path, "objects"):
            value = pa.Table.from_pylist(value)
    if not (hasattr(value, "__arrow_c_stream__") or hasattr(value, "columns")):
        raise TypeError(f"{caller}: {argument} is a {type(value).__name__}; pass {FORMS}.")
    with reading(path, "a table"):
        is_arrow = hasattr(value, "__arrow_c_stream__")
        table = TableInMemory(path, pa.table(value) if is_arrow else pa.Table.from_pandas(value))
    names = table.schema.names
    lists = [field.name for field in table.schema if _is_list(field.type)]
    if holds_lists([name for name in names if name not in lists], lists, columns):
        return partial(open_lists, table=table), False, tuple(names)
    return partial(read_long, table=table), True, tuple(names)


def is_run_in_memory(value: Any) -> bool:
    """Whether a value is a dict of dicts whose items are strings, the form of pytrec_eval, ranx and BEIR."""
    inner = (one for one in value.values() if isinstance(one, Mapping)) if isinstance(value, Mapping) else ()
    return isinstance(next(chain.from_iterable(inner), None), str)


def read_json(asked: Opening) -> SqlLines | Iterator[Triples]:
    """Read a JSON file: a dict from query to a dict or list of items, or one list of objects."""
    path = check_file(asked.path)
    hint = 'pass {"query": {"item": 0.5}}, {"query": ["item"]} or [{"query": "q", "item": 7, "score": 0.5}]; '
    hint += f'write lists alone as JSON Lines, {{"{"labels" if asked.role == "target" else "ids"}": list}} in each.'
    content = whole_json(path, "JSON")
    if isinstance(content, list) and content and all(isinstance(one, dict) for one in content):
        fields = choose(look_at_objects(path, content, "its objects"), asked)
        lines = _from_objects(path, fields, content)
        value = None if fields.value is None else "value"
        return SqlLines(value=value, ranks=fields.ranks, exact=lambda: lines, reading=fields)
    if not isinstance(content, dict):
        raise DataFileError(path, f"holds a {type(content).__name__}, but no dict and no list of objects", hint=hint)
    return from_dict(content, asked)


def _from_objects(path: FilePath, fields: Reading, objects: Sequence[Mapping[str, Any]]) -> Iterator[Triples]:
    places = ((f"object {number}", one) for number, one in enumerate(objects, 1))
    with reading(path, "JSON"):
        yield from triples(((where, *record_entry(path, fields, one, where)) for where, one in places), fields.ranks)


def from_dict(run: Mapping[Any, Any], asked: Opening) -> Iterator[Triples]:
    """Yield the entries of a dict; in a list of predictions the first item is the best.

    Dicts of dicts whose items are strings are read by the rules of TREC, like in pytrec_eval. Scores are rounded to
    single precision, so scores equal after that are tied. Negative whole grades of targets become 0; other negative
    gains stay, and are an error later.
    """
    if any(isinstance(one, Mapping) for some in run.values() if isinstance(some, (list, tuple)) for one in some):
        with reading(asked.path, "a dict"):
            objects = pa.table({"query": list(map(str, run)), "items": list(run.values())})
        columns = replace(asked.columns, query="query")
        yield from open_lists(asked._replace(columns=columns), TableInMemory(asked.path, objects)).entries()
        return
    first = next(iter(run.values()), None)
    lists = [name for name, one in first.items() if isinstance(one, list)] if isinstance(first, Mapping) else []
    if lists:
        hint = "give {query: row[NAME] for query, row in rows.items()} with one of these as NAME; in a file as JSON."
        raise DataFileError(asked.path, f"its labels may lie deeper, in {' or '.join(map(repr, lists[:5]))}", hint=hint)
    by_name = is_run_in_memory(run)
    single = asked.role == "preds" and by_name

    def entries() -> Iterator[tuple[str, str, str | None, float | None]]:
        are_dicts: bool | None = None
        for query, listed in run.items():
            where = f"query {query!r}"
            some = listed.tolist() if hasattr(listed, "tolist") else listed
            if isinstance(some, (list, tuple)):
                pairs = [(one, -place if asked.role == "preds" else 1) for place, one in enumerate(some)]
            elif isinstance(some, Mapping):
                pairs = list(some.items())
            else:
                problem = f"holds {type(listed).__name__}, not a dict or a list"
                raise DataFileError(asked.path, problem, where, f"pass {FORMS}.")
            if pairs and are_dicts not in (None, isinstance(some, Mapping)):
                here, above = ("list", "dict") if are_dicts else ("dict", "list")
                hint = "give every query a dict of items and numbers, or every query a list of items."
                raise DataFileError(asked.path, f"holds a {here}, but the queries above hold a {above}", where, hint)
            are_dicts = isinstance(some, Mapping) if pairs else are_dicts
            for item, value in pairs:
                one = {"query": str(query), "item": item, "value": value}
                yield where, *record_entry(asked.path, IN_DICT, one, where)
            if not pairs:
                yield where, str(query), None, 0.0

    with reading(asked.path, "a dict"):
        for lines in triples(entries()):
            assert lines.value is not None
            with np.errstate(over="ignore", invalid="ignore"):  # as in trec_eval, too large scores become infinite
                value = lines.value.astype(np.float32 if single else np.float64).astype(np.float64)
                if by_name and asked.role == "target":
                    value[(value < 0) & (value % 1 == 0)] = 0
            yield replace(lines, value=value)
