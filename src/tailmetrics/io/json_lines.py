"""JSON Lines: one object with query, item and score, or query, item and perhaps a gain, per line.

Lines are parsed by Arrow, some thousand at a time. Lines that it refuses, or might take for something else, are parsed
one by one, which says what is wrong with which of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from tailmetrics.io.columns import Chosen, choose, is_usual
from tailmetrics.io.errors import DataFileError, reading
from tailmetrics.io.formats import Opening
from tailmetrics.io.keyed import Triples
from tailmetrics.io.lines import Lines, raw, read_lines
from tailmetrics.io.paths import check_file
from tailmetrics.io.roles import Role
from tailmetrics.io.rows import Array

IDS = {str: pa.string(), int: pa.int64()}
NUMBERS = {int, float}


def read_jsonl(asked: Opening) -> Iterator[Triples]:
    """Yield the triples of a JSON Lines file; its first block of lines tells the names of the fields."""
    path, role, columns, _ = asked
    check_file(path)
    fields: Chosen | None = None
    schema: Any = None
    with reading(path, "JSON Lines"):
        for lines in read_lines(path):
            found = None if schema is None or fields is None else _parsed(lines, schema, fields)
            if found is None:
                block = _Records(lines)
                if fields is None and block.records:
                    fields = choose(path, block.names, role, columns, block.place(0))
                if fields is None:
                    continue
                block.check_gains(fields, role)
                found = block.triples(fields)
                schema = _schema(fields, role, block)
            yield found


def _schema(fields: Chosen, role: Role | None, block: _Records) -> Any:
    """Return the fields as Arrow is to read them in the next lines; None if it would not see all that is asked for.

    A target without gains is refused where one comes up, so there all fields have to be seen.
    """
    if not block.records or len({*fields.names}) < len(fields.names) or (role == "target" and fields.value is None):
        return None
    kinds = [IDS[type(block.records[-1][name])] for name in (fields.query, fields.item)]
    return pa.schema(zip(fields.names, [*kinds, pa.float64()], strict=False))


def _parsed(lines: Lines, schema: Any, fields: Chosen) -> Triples | None:
    """Return the triples of lines that are one object each, with fields of these types; None if any is not.

    Where each line begins and ends with a brace, an object ends with each line, as no comma stands between two; where
    there are as many objects as lines, each line is one.
    """
    text, place = lines.written()
    trimmed = pc.ascii_trim_whitespace(text)
    whole = pc.and_(pc.starts_with(trimmed, "{"), pc.ends_with(trimmed, "}"))
    if not len(text) or not pc.all(whole).as_py():
        return None
    source = raw(text)
    try:
        table = pyarrow.json.read_json(
            pa.BufferReader(source),
            pyarrow.json.ReadOptions(use_threads=False, block_size=source.size + 1),
            pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    if len(table) != len(text) or any(column.null_count for column in table.columns):
        return None
    query, item, *values = (table[name].combine_chunks() for name in schema.names)
    value = fields.scores(np.array(values[0].to_numpy(zero_copy_only=False))) if values else None
    return Triples(query.cast(pa.string()), item.cast(pa.string()), value, place)


class _Records:
    """Some lines, parsed one by one; blank lines are left out."""

    def __init__(self, lines: Lines) -> None:
        text, self.place = lines.written()
        self._path = lines.path
        self.records = [self._record(index, line) for index, line in enumerate(text.to_pylist())]

    @property
    def names(self) -> list[str]:
        """The names of all fields, in the order in which they are met."""
        return list(dict.fromkeys(name for record in self.records for name in record))

    def check_gains(self, fields: Chosen, role: Role | None) -> None:
        """Raise if a gain comes up that the lines before did not have."""
        if role == "target" and fields.value is None:
            for index, record in enumerate(self.records):
                if any(is_usual(name, "gain") for name in record):
                    raise self._error(index, "has a gain, but lines before it have none")

    def triples(self, fields: Chosen) -> Triples:
        value = None if fields.value is None else fields.scores(self._numeric(fields.value))
        return Triples(self._ids(fields.query), self._ids(fields.item), value, self.place)

    def _error(self, index: int, problem: str) -> DataFileError:
        hint = 'a line is one object, such as {"query": "q1", "item": 7, "score": 0.5}.'
        return DataFileError(self._path, problem, self.place(index), hint)

    def _record(self, index: int, line: str) -> dict[str, Any]:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise self._error(index, f"is not JSON: {error}") from None
        if not isinstance(record, dict):
            raise self._error(index, "is not a JSON object")
        return record

    def _column(self, field: str, types: set[type], needed: str) -> list[Any]:
        column = [record.get(field) for record in self.records]
        if not set(map(type, column)) <= types:
            index = next(index for index, value in enumerate(column) if type(value) not in types)
            held = json.dumps(column[index]) if field in self.records[index] else "missing"
            raise self._error(index, f"{field!r} is {held}, not {needed}")
        return column

    def _ids(self, field: str) -> Any:
        return pa.array(map(str, self._column(field, {*IDS}, "a string or a whole number")), pa.string())

    def _numeric(self, field: str) -> Array:
        numbers = pa.array(map(float, self._column(field, NUMBERS, "a number")), pa.float64())
        return np.array(numbers.to_numpy(zero_copy_only=False))
