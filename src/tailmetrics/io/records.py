"""JSON Lines, CSV and TSV: one (query, item, score) or (query, item[, gain]) per line.

The order of the lines does not matter; the file is read whole. CSV and TSV open with a line of column names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from tailmetrics.io.columns import Chosen, choose, is_usual
from tailmetrics.io.csv_file import CsvFile
from tailmetrics.io.errors import DataFileError, reading
from tailmetrics.io.formats import Opening
from tailmetrics.io.keyed import Triples
from tailmetrics.io.lines import Lines, parse_numbers, read_lines
from tailmetrics.io.paths import check_file
from tailmetrics.io.roles import Role
from tailmetrics.io.rows import Array

ID_TYPES = {str, int}
NUMBER_TYPES = {int, float}


def read_jsonl(asked: Opening) -> Iterator[Triples]:
    """Yield the triples of a JSON Lines file; its first block of lines tells the names of the fields."""
    path, role, columns, _ = asked
    check_file(path)
    fields: Chosen | None = None
    with reading(path, "JSON Lines"):
        for lines in read_lines(path):
            block = _JsonBlock(lines)
            if fields is None and block.records:
                fields = choose(path, block.names, role, columns, block.place(0))
            if fields is not None:
                block.check_gains(fields, role)
                yield block.triples(fields)


class _JsonBlock:
    """Some lines of a JSON Lines file, parsed one by one; blank lines are left out."""

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
        value = None if fields.value is None else self._numeric(fields.value)
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
        return pa.array(map(str, self._column(field, ID_TYPES, "a string or a whole number")), pa.string())

    def _numeric(self, field: str) -> Array:
        numbers = pa.array(map(float, self._column(field, NUMBER_TYPES, "a number")), pa.float64())
        return np.array(numbers.to_numpy(zero_copy_only=False))


def read_csv(asked: Opening) -> Iterator[Triples]:
    """Yield the triples of a CSV file."""
    return _read_table(asked, ",")


def read_tsv(asked: Opening) -> Iterator[Triples]:
    """Yield the triples of a TSV file."""
    return _read_table(asked, "\t")


def _read_table(asked: Opening, delimiter: str) -> Iterator[Triples]:
    file = CsvFile(check_file(asked.path), delimiter)
    fields = choose(file.path, file.header, asked.role, asked.columns, file.where)
    for place, found in file.blocks(fields.names):
        values = None
        if fields.value is not None:
            values = parse_numbers(found[2], float, file.path, fields.value, place)
        yield Triples(found[0], found[1], values, place)
