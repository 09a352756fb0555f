"""Files of columns, Parquet and Arrow, and tables and dicts in memory.

Lists: one row of the file is one row of the data, a list of label ids and perhaps a list of their scores or gains, or
one list of structs that hold both; a column of queries may say which row is which. Long tables: one (query, item,
score) or (query, item[, gain]) per row. Only the columns and rows that are asked for are read; Parquet a few pages at a
time, whatever the size of its row groups. Arrow, Feather and the files that ``datasets`` saves are mapped.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tailmetrics.io.columns import Columns, choose, is_usual, plain
from tailmetrics.io.database import literal, quoted
from tailmetrics.io.errors import DataFileError, note, reading
from tailmetrics.io.files import FilePath, Plain, check_file, codec_of, stream
from tailmetrics.io.formats import ARROW, FEATHER_1, PARQUET, STREAM, Format, Opening, Role
from tailmetrics.io.labels import UNKNOWN_HINT
from tailmetrics.io.lines import Lines, Opened, Triples
from tailmetrics.io.rows import Array, Ints, Ragged, Source, rebatch, starts

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


# -- lists ------------------------------------------------------------------------------------------------------------


HINT = "name its columns: columns=Columns(ids=NAME), and so on for scores, labels and gains."
LINED_ROWS = 2**12
"""Rows whose entries are made lines at a time: at 1,000 entries a row four million."""
LISTED = {
    "preds": "items itemids prediction predictions preds recommendations recommended retrieved ranking topk",
    "target": "items itemids target targets relevant articles articleid groundtruth positives",
}
"""Names of columns of lists, without capitals, dashes, blanks and underscores."""
IDS = {"id", "label", "labelid", "index"}
"""Names of the field of a struct that holds the label, beside those of an item."""


class Column(NamedTuple):
    """A column of lists, or a field of the structs in it."""

    name: str
    field: str | None
    kind: Any
    is_rank: bool = False

    def __str__(self) -> str:
        return self.name if self.field is None else f"{self.name}.{self.field}"

    def of(self, batch: Any) -> Any:
        """Return the lists of a batch."""
        return batch.column(self.name)


class ListSource(Source):
    """Lists of label ids, with lists of their scores or gains if the file has them."""

    def __init__(self, table: Table, ids: Column, values: Column | None, key: str | None, role: Role) -> None:
        self.path = table.path
        self.key = key
        self._role = role
        self._table = table
        self._ids, self._values = ids, values
        self.string_ids = _is_string(ids.kind)
        self.num_rows = table.num_rows
        self.ends = table.ends
        self.cells_per_row = table.cells_per_row
        what = "strings" if self.string_ids else "whole numbers"
        self.layout = f"lists of {what}" + ("" if values is None else " with values")

    def read_as_names(self) -> None:
        """Take label ids for names, to be numbered over all files."""
        self.string_ids = True

    def batches(self, start: int, stop: int, size: int) -> Iterator[Ragged]:
        """Yield the rows as pages are decoded."""
        with reading(self.path, self._table.form):
            yield from rebatch(self._read(start, stop, size), size)

    def queries(self) -> Iterator[Any]:
        """Yield the queries of the rows."""
        if self.key is not None:
            with reading(self.path, self._table.form):
                for first, batch in self._table.batches([self.key], 0, self.num_rows, 2**16):
                    column = batch.column(self.key)
                    if column.null_count:
                        row = int(pc.is_null(column).index(True).as_py())
                        raise self.error(first + row, f"has no {self.key!r}", "every row names its query.")
                    yield pc.cast(column, pa.string())

    def lines(self) -> Iterator[Triples]:
        """Yield the entries of all rows; of predictions without scores, minus their place is the score."""
        if self.key is None:
            yield from super().lines()
        columns = dict.fromkeys(one.name for one in (self._ids, self._values) if one is not None)
        seen: set[str] = set()
        with reading(self.path, self._table.form):
            batches = self._table.batches(list(columns), 0, self.num_rows, LINED_ROWS)
            for (first, batch), keys in zip(batches, self._keys_by(LINED_ROWS), strict=True):
                self._check_once(keys, first, seen)
                yield self._triples(batch, keys, first)

    def _keys_by(self, rows: int) -> Iterator[Any]:
        assert self.key is not None
        for _, batch in self._table.batches([self.key], 0, self.num_rows, rows):
            yield pc.cast(batch.column(self.key), pa.string())

    def _check_once(self, keys: Any, first: int, seen: set[str]) -> None:
        for row, key in enumerate(keys.to_pylist()):
            if key is None or key in seen:
                hint = f"files whose {self.key!r} differ are joined by it, so that each of them stands there once."
                raise self.error(first + row, f"has {'no' if key is None else 'a second list of'} {key!r}", hint)
            seen.add(key)

    def _triples(self, batch: Any, keys: Any, first: int) -> Triples:
        """Return one triple for each entry, and one without an item for an empty list."""
        ids, lengths = self._flat(self._ids, batch, first)
        values = self._listed(batch, lengths, first)
        place = np.arange(len(ids)) - np.repeat(starts(lengths)[:-1], lengths)
        if values is None and self._role == "preds":
            values = -place.astype(np.float64)
        row = np.repeat(np.arange(len(lengths)), np.maximum(lengths, 1))
        entry = np.full(len(row), -1)
        entry[np.repeat(lengths > 0, np.maximum(lengths, 1))] = np.arange(len(ids))
        taken = pa.array(entry, mask=entry < 0)
        value = None if values is None else np.append(values.astype(np.float64), 0.0)[entry]
        items = pc.cast(ids, pa.string()).take(taken)
        return Triples(keys.take(pa.array(row)), items, value, lambda index: self.place(first + int(row[index])))

    def distinct_names(self) -> Iterator[list[str]]:
        """Yield the names of some thousand rows at a time, decoding the whole column."""
        if not self.string_ids:
            return
        with reading(self.path, self._table.form):
            for first, batch in self._table.batches([self._ids.name], 0, self.num_rows, 2**16):
                names, _ = self._flat(self._ids, batch, first)
                yield pc.unique(pc.cast(names, pa.string())).to_pylist()

    def _read(self, start: int, stop: int, size: int) -> Iterator[Ragged]:
        columns = dict.fromkeys(one.name for one in (self._ids, self._values) if one is not None)
        for first, batch in self._table.batches(list(columns), start, stop, size):
            yield self._ragged(batch, first)

    def _ragged(self, batch: Any, first: int) -> Ragged:
        ids, lengths = self._flat(self._ids, batch, first)
        rows = Ragged.from_lengths(lengths, self._numbers(ids, lengths, first))
        return Ragged(rows.offsets, rows.ids, self._listed(batch, lengths, first))

    def _listed(self, batch: Any, lengths: Array, first: int) -> Array | None:
        """Return the scores or gains of all entries; None where there are none. Ranks become minus themselves."""
        if self._values is None:
            return None
        values, listed = self._flat(self._values, batch, first)
        if (listed != lengths).any():
            row = int((listed != lengths).argmax())
            problem = f"holds {lengths[row]} {self._ids} but {listed[row]} {self._values}"
            raise self.error(first + row, problem, "both lists of a row must have the same length.")
        found: Array = values.to_numpy(zero_copy_only=False)
        return -found.astype(np.float64) if self._values.is_rank else found

    def _flat(self, column: Column, batch: Any, first: int) -> tuple[Any, Array]:
        """Return the entries of all lists one behind the other, and the lengths, 0 where there is no list."""
        lists = column.of(batch)
        flat = pc.list_flatten(lists)
        lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        if column.field is not None:
            flat = pc.struct_field(flat, column.field)
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


def open_lists(asked: Opening) -> ListSource:
    """Open a file by the columns of its role; without a role, by those of predictions where it has them."""
    table = open_table(asked.path)
    role, columns = asked.role, asked.columns
    if role is None:
        role = "preds" if columns.ids in table.schema.names else "target"
    return ListSource(table, *_columns(table, role, columns), _key(table, columns), role)


def _key(table: Table, columns: Columns) -> str | None:
    """Return the column of queries: the one named, or the only one with a usual name."""
    whole = [field.name for field in table.schema if _is_string(field.type) or pa.types.is_integer(field.type)]
    if columns.is_given("query") and columns.query not in whole:
        raise _lacks(table, columns.query)
    usual = [name for name in whole if is_usual(name, "query")]
    return columns.query if columns.query in whole else usual[0] if len(usual) == 1 else None


def _columns(table: Table, role: Role, columns: Columns) -> tuple[Column, Column | None]:
    """Return the columns of label ids and of values."""
    names = ("ids", "scores") if role == "preds" else ("labels", "gains")
    ids, values = (getattr(columns, name) for name in names)
    schema = table.schema
    lists = {field.name: field.type.value_type for field in schema if _is_list(field.type)}
    structs = [name for name, kind in lists.items() if pa.types.is_struct(kind)]
    if ids not in schema.names and not columns.is_given(names[0]):
        listed = [name for name, kind in lists.items() if _is_string(kind) or pa.types.is_integer(kind)]
        usual = [name for name in listed if plain(name) in LISTED[role].split()]
        taken = next((one for one in (structs, usual, listed) if len(one) == 1), [])
        if taken:
            ids = taken[0]
            note(table.path, f"column {ids!r} holds the {names[0]}; columns=Columns({names[0]}=NAME) names another.")
            numbers = [name for name, kind in lists.items() if pa.types.is_floating(kind)]
            if values not in schema.names and not columns.is_given(names[1]) and len(numbers) == 1 and ids in listed:
                note(table.path, f"column {numbers[0]!r} holds the {names[1]}.")
                values = numbers[0]
    if ids in structs:
        return _of_structs(table, ids, role, columns)
    found = _column(table, ids, pa.types.is_integer, "whole numbers or strings", also=_is_string)
    if values not in schema.names:
        if columns.is_given(names[1]):
            raise _lacks(table, values)
        return found, None
    return found, _column(table, values, _is_number, "numbers")


def _of_structs(table: Table, name: str, role: Role, columns: Columns) -> tuple[Column, Column | None]:
    """Return the fields of a column of structs: the label, and its score or gain."""
    kind = table.schema.field(name).type.value_type
    value = "score" if role == "preds" else "gain"
    fields = {field.name: field.type for field in kind}
    ids = [one for one in fields if one == columns.item or is_usual(one, "item") or plain(one) in IDS]
    ids = [columns.item] if columns.item in ids else ids
    given = getattr(columns, value)
    values = [one for one in fields if one not in ids and (one == given or is_usual(one, value))]
    values = [given] if given in values else values
    ranks = [] if values or role == "target" else [one for one in fields if is_usual(one, "rank") and one not in ids]
    values = values or ranks
    wrong = len(ids) != 1 or len(values) > 1 or (columns.is_given(value) and not values)
    if wrong or not (_is_string(fields[ids[0]]) or pa.types.is_integer(fields[ids[0]])):
        hint = f"columns=Columns(item=NAME, {value}=NAME) says which field is the label, and which its {value}."
        raise DataFileError(table.path, f"column {name!r} is a list of {kind}", hint=hint)
    scored = [Column(name, one, fields[one], is_usual(one, "rank")) for one in values if _is_number(fields[one])]
    return Column(name, ids[0], fields[ids[0]]), scored[0] if scored else None


def _column(table: Table, name: str, fits: Any, needed: str, also: Any = None) -> Column:
    if name not in table.schema.names:
        raise _lacks(table, name)
    kind = table.schema.field(name).type
    if _is_list(kind) and (fits(kind.value_type) or (also is not None and also(kind.value_type))):
        return Column(name, None, kind.value_type)
    raise DataFileError(table.path, f"column {name!r} is {kind}", hint=f"one list of {needed} per row is needed.")


def _lacks(table: Table, name: str) -> DataFileError:
    return DataFileError(
        table.path, f"has no column {name!r}; its columns are {', '.join(table.schema.names)}", hint=HINT
    )


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _is_string(kind: Any) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_number(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _row_of(entry: int, lengths: Array) -> int:
    return int(np.searchsorted(np.cumsum(lengths), entry, side="right"))


# -- long tables ------------------------------------------------------------------------------------------------------

LONG_ROWS = 2**17


def read_long(asked: Opening) -> Lines:
    """Read a long table, with the columns that its folders give."""
    table = open_table(asked.path)

    def batches(names: Sequence[str]) -> Iterator[Any]:
        with reading(table.path, table.form):
            for _, batch in table.batches(names, 0, table.num_rows, LONG_ROWS):
                yield batch

    return _long(asked, table.schema, batches)


def _long(asked: Opening, schema: Any, batches: Callable[[Sequence[str]], Iterator[Any]]) -> Lines:
    path, role, columns, partition = asked
    given = [name for name in partition if name not in schema.names]
    chosen = choose(path, [*schema.names, *given], role, columns, "its columns")
    stored = [name for name in chosen.names if name in schema.names]
    for name in (chosen.query, chosen.item):
        if name in stored:
            _check_id(path, name, schema.field(name).type)

    def text(name: str) -> str:
        return f"{quoted(name)}::VARCHAR" if name in stored else literal(partition[name])

    def wrong(record: int, field: str) -> DataFileError:
        name = chosen.by_field[field]
        hint = "every row names its query and its item, and has a number: leave out what was not scored."
        return DataFileError(path, f"has no {name!r}", f"row {record}", hint)

    value = None if chosen.value is None else f"{'-' if chosen.is_rank else ''}{quoted(chosen.value)}::DOUBLE"
    fields = [pa.field(name, _plain_type(schema.field(name).type)) for name in dict.fromkeys(stored)]
    return Lines(
        form="a table",
        source="given",
        query=text(chosen.query),
        item=text(chosen.item),
        value=value,
        arrow=lambda: _reader(pa.schema(fields), batches(list(dict.fromkeys(stored)))),
        wrong=wrong,
        place=lambda record: f"row {record}",
    )


def _reader(schema: Any, batches: Iterator[Any]) -> Any:
    return pa.RecordBatchReader.from_batches(schema, (batch.cast(schema) for batch in batches))


def _plain_type(kind: Any) -> Any:
    """Return the type of what a dictionary or a view holds."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.large_string() if _is_string(kind) else kind


def _check_id(path: FilePath, name: str, kind: Any) -> None:
    plain_kind = _plain_type(kind)
    if not (_is_string(kind) or pa.types.is_integer(plain_kind) or pa.types.is_null(plain_kind)):
        hint = "queries and items are whole numbers or strings."
        raise DataFileError(path, f"its column {name!r} is {kind}", hint=hint)


# -- in memory --------------------------------------------------------------------------------------------------------

FORMS = (
    "the path of a file; a table with the columns query, item and score or gain, such as a DataFrame; or a dict from "
    "query to a dict from item to score or gain, or to a list of items"
)


def in_memory(caller: str, role: Role, value: Any) -> Format:
    """Return the format that reads a table, or a dict of dicts or lists, as pytrec_eval and ranx have runs.

    Raises:
        TypeError: If it is neither.
    """
    opener: Callable[[Opening], Any]
    if isinstance(value, Mapping):
        opener = partial(_from_dict, value)
    elif hasattr(value, "__arrow_c_stream__") or hasattr(value, "columns"):
        opener = partial(_from_table, value)
    else:
        raise TypeError(f"{caller}: {role} is a {type(value).__name__}; pass {FORMS}.")
    return Format(name="in memory", holds="", suffixes=(), opener=opener, lines=True)


def _from_table(table: Any, asked: Opening) -> Lines:
    with reading(asked.path, "a table"):
        arrow = pa.table(table) if hasattr(table, "__arrow_c_stream__") else pa.Table.from_pandas(table)
    return _long(asked, arrow.schema, lambda names: iter(arrow.select(names).to_batches(LONG_ROWS)))


def read_json(asked: Opening) -> Opened:
    """Read a JSON file: a dict from query to a dict or list of items, or one list of objects."""
    path = check_file(asked.path)
    hint = 'pass {"query": {"item": 0.5}}, {"query": ["item"]} or [{"query": "q", "item": 7, "score": 0.5}].'
    with reading(path, "JSON"), stream(path) as file:
        content = json.loads(bytes(file.read()))
        if isinstance(content, list) and content and all(isinstance(one, dict) for one in content):
            return _from_table(pa.Table.from_pylist(content), asked)
    if not isinstance(content, dict):
        raise DataFileError(path, f"holds one {type(content).__name__}, but not of objects", hint=hint)
    return _from_dict(content, asked)


def _from_dict(run: Mapping[Any, Any], asked: Opening) -> Iterator[Triples]:
    """Yield the entries of a dict; of a list of predictions the first is the best one."""
    path, ranked = asked.path, asked.role == "preds"
    query: list[str] = []
    item: list[str | None] = []
    value: list[float] = []
    with reading(path, "a dict"):
        for name, listed in run.items():
            entries: list[tuple[Any, Any]] = []
            if isinstance(listed, Mapping):
                entries = list(listed.items())
            elif isinstance(listed, (list, tuple)) or hasattr(listed, "tolist"):
                some = listed.tolist() if hasattr(listed, "tolist") else listed
                entries = [(one, -place if ranked else 1) for place, one in enumerate(some)]
            else:
                problem = f"holds {type(listed).__name__}, not a dict or a list"
                raise DataFileError(path, problem, f"query {name!r}", f"pass {FORMS}.")
            query.extend([str(name)] * max(1, len(entries)))
            item.extend([str(one) for one, _ in entries] or [None])
            value.extend([float(number) for _, number in entries] or [0.0])
        columns = pa.array(query, pa.string()), pa.array(item, pa.string()), np.array(value)
        yield Triples(*columns, lambda index: f"query {query[index]!r}")
