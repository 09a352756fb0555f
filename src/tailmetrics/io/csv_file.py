"""CSV files with a line of column names, read by column."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from tailmetrics.io.errors import DataFileError, reading
from tailmetrics.io.lines import BLOCK_BYTES


class CsvFile:
    """An open CSV file.

    Attributes:
        path: The file.
        header: Names of the columns.
    """

    def __init__(self, path: Path, delimiter: str) -> None:
        self.path = path
        self._delimiter = delimiter
        self.header: list[str] = []
        with reading(path, "CSV"):
            self.header = next((fields for _, fields in self._records()), [])

    def blocks(self, names: Sequence[str]) -> Iterator[tuple[Callable[[int], str], list[Any]]]:
        """Yield the columns named as arrow string arrays, some records at a time, and how an error names a record."""
        for name in names:
            if name not in self.header:
                hint = f"the first line names the columns: {self._delimiter.join(names)}; Columns(...) renames them."
                raise DataFileError(self.path, f"there is no column {name!r}", "line 1", hint)
        convert = pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(self.header, pa.string()), include_columns=list(names)
        )
        parse = pyarrow.csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True)
        read = pyarrow.csv.ReadOptions(block_size=BLOCK_BYTES)
        first = 0
        with reading(self.path, "CSV"):
            try:
                for batch in pyarrow.csv.open_csv(self.path, read, parse, convert):
                    yield self._place_after(first), batch.columns
                    first += len(batch)
            except pa.ArrowInvalid as error:
                hint = "every record has as many fields as the first line has names."
                raise DataFileError(self.path, str(error), self._uneven(), hint) from error

    def _place_after(self, first: int) -> Callable[[int], str]:
        def place(index: int) -> str:
            records = enumerate(self._records())
            return next(f"line {line}" for number, (line, _) in records if number == first + index + 1)

        return place

    def _uneven(self) -> str:
        width = len(self.header)
        return next((f"line {line}" for line, fields in self._records() if len(fields) != width), "")

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the line and the fields of every record, the names included; slow: for line 1 and for errors."""
        with self.path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            reader = csv.reader(file, delimiter=self._delimiter)
            line = 1
            for fields in reader:
                if fields:
                    yield line, fields
                line = reader.line_num + 1
