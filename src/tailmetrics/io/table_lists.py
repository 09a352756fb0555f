"""Parquet and Arrow with list columns: one row of the file is one row of the data.

A row holds a list of label ids and, if there are any, a list of their scores or gains; or one list of structs that hold
both. Label ids are whole numbers, or strings numbered by the names given.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailmetrics.io.columns import Columns, is_usual, plain
from tailmetrics.io.errors import DataFileError, note, reading
from tailmetrics.io.formats import Opening
from tailmetrics.io.keyed import Triples
from tailmetrics.io.names import UNKNOWN_HINT
from tailmetrics.io.roles import Role
from tailmetrics.io.rows import Array, Ragged, rebatch, starts
from tailmetrics.io.source import Source
from tailmetrics.io.tables import Table, open_table

HINT = "name its columns: columns=Columns(ids=NAME), and so on for scores, labels and gains."
LINED_ROWS = 2**12
"""Rows whose entries are made lines at a time: at 1,000 entries a row four million."""
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
    structs = [field.name for field in schema if _is_list(field.type) and pa.types.is_struct(field.type.value_type)]
    if ids not in schema.names and len(structs) == 1 and not columns.is_given(names[0]):
        note(table.path, f"column {structs[0]!r} holds the {names[0]}; columns=Columns({names[0]}=NAME) names another.")
        ids = structs[0]
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
