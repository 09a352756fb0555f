"""JSON Lines and CSV: one (query, item, score) or (query, item[, gain]) per line.

The order of the lines does not matter; the file is read whole. CSV opens with a line of column names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailmetrics.io.checks import Role
from tailmetrics.io.csv_file import CsvFile
from tailmetrics.io.errors import DataFileError, check_file, reading
from tailmetrics.io.keyed import Triples
from tailmetrics.io.lines import Lines, parse_numbers, read_lines
from tailmetrics.io.rows import Array

ID_TYPES = {str, int}
NUMBER_TYPES = {int, float}


def read_jsonl(path: str | Path, role: Role, fields: tuple[str, str, str]) -> Iterator[Triples]:
    """Yield the triples of a JSON Lines file; ``fields`` names query, item and value, which a target may lack."""
    path = check_file(path)
    with reading(path, "JSON Lines"):
        for lines in read_lines(path):
            yield _JsonBlock(lines, role).triples(fields)


class _JsonBlock:
    """Some lines of a JSON Lines file, parsed; blank lines are left out."""

    def __init__(self, lines: Lines, role: Role) -> None:
        blank = pc.equal(pc.ascii_trim_whitespace(lines.text), "")
        text = lines.text.filter(pc.invert(blank)).to_pylist()
        self._lines = lines
        self._role = role
        self._numbers = [index for index, skipped in enumerate(blank.to_pylist()) if not skipped]
        try:
            self._records = json.loads(f"[{','.join(text)}]")
        except ValueError:
            self._records = [self._record(index, line) for index, line in enumerate(text)]
        if len(self._records) != len(text) or not set(map(type, self._records)) <= {dict}:
            self._records = [self._record(index, line) for index, line in enumerate(text)]

    def triples(self, fields: tuple[str, str, str]) -> Triples:
        query, item, name = fields
        values = None
        if self._role == "preds" or any(name in record for record in self._records):
            values = self._numeric(name)
        return Triples(self._ids(query), self._ids(item), values, self._place)

    def _place(self, index: int) -> str:
        return self._lines.place(self._numbers[index])

    def _error(self, index: int, problem: str) -> DataFileError:
        hint = 'a line is one object, such as {"query": "q1", "item": 7, "score": 0.5}.'
        return DataFileError(self._lines.path, problem, self._place(index), hint)

    def _record(self, index: int, line: str) -> dict[str, Any]:
        try:
            record = json.loads(line)
        except ValueError as error:
            raise self._error(index, f"is not JSON: {error}") from None
        if not isinstance(record, dict):
            raise self._error(index, "is not a JSON object")
        return record

    def _column(self, field: str, types: set[type], needed: str) -> list[Any]:
        column = [record.get(field) for record in self._records]
        if not set(map(type, column)) <= types:
            index = next(index for index, value in enumerate(column) if type(value) not in types)
            held = json.dumps(column[index]) if field in self._records[index] else "missing"
            raise self._error(index, f"{field!r} is {held}, not {needed}")
        return column

    def _ids(self, field: str) -> Any:
        return pa.array(map(str, self._column(field, ID_TYPES, "a string or a whole number")), pa.string())

    def _numeric(self, field: str) -> Array:
        numbers = pa.array(map(float, self._column(field, NUMBER_TYPES, "a number")), pa.float64())
        return np.array(numbers.to_numpy(zero_copy_only=False))


def read_csv(path: str | Path, role: Role, fields: tuple[str, str, str], delimiter: str) -> Iterator[Triples]:
    """Yield the triples of a CSV file; ``fields`` names query, item and value, a column that a target may lack."""
    file = CsvFile(check_file(path), delimiter)
    has_values = role == "preds" or fields[2] in file.header
    for place, columns in file.blocks(fields if has_values else fields[:2]):
        values = parse_numbers(columns[2], float, file.path, fields[2], place) if has_values else None
        yield Triples(columns[0], columns[1], values, place)
