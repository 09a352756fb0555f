"""CSV and TSV files with a line of column names, read by column.

Every record is one line. In CSV a field may stand in double quotes, within its line; in TSV a quote is a character like
any other. What does not keep to that is refused with its line, because a quote left open would swallow the lines below.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from tailmetrics.io.errors import DataFileError, reading
from tailmetrics.io.lines import raw, read_lines
from tailmetrics.io.paths import FilePath

Place = Callable[[int], str]
QUOTE_HINT = (
    "a field in quotes begins and ends with one and stays on its line, with quotes inside it doubled; write the file "
    "without this column, or as TSV, which has no quotes."
)


class CsvFile:
    """An open CSV or TSV file.

    Attributes:
        path: The file.
        header: Names of the columns.
        where: How an error names the line of the names.
    """

    def __init__(self, path: FilePath, delimiter: str) -> None:
        self.path = path
        self.form = "TSV" if delimiter == "\t" else "CSV"
        self._delimiter = delimiter
        self.header: list[str] = []
        self.where = "line 1"
        with reading(path, self.form):
            for text, place in self._lines():
                self.where = place(0)
                self.header = [name.strip() for name in self._fields(text[0].as_py())]
                break

    def blocks(self, names: Sequence[str]) -> Iterator[tuple[Place, list[Any]]]:
        """Yield the columns named as arrow string arrays, some records at a time, and how an error names a record."""
        with reading(self.path, self.form):
            behind_header = False
            for text, place in self._lines():
                skipped = 0 if behind_header else 1
                behind_header = True
                own = text.slice(skipped)
                if len(own):
                    yield from self._parsed(own, _shifted(place, skipped), [self.header.index(name) for name in names])

    def _lines(self) -> Iterator[tuple[Any, Place]]:
        for lines in read_lines(self.path):
            text, place = lines.written()
            if len(text):
                self._check_quotes(text, place)
                yield text, place

    def _check_quotes(self, text: Any, place: Place) -> None:
        """Raise at the first line that a quote leaves open, or in which more than a delimiter follows a closed one."""
        if self.form == "TSV":
            return
        quoted = pc.indices_nonzero(pc.match_substring(text, '"'))
        if not len(quoted):
            return
        field = f'(?:"(?:[^"]|"")*"|[^"{self._delimiter}][^{self._delimiter}]*|)'
        sound = pc.match_substring_regex(text.take(quoted), rf"^{field}(?:{self._delimiter}{field})*\r?\n?$")
        index = sound.index(False).as_py()
        if index >= 0:
            raise DataFileError(self.path, "has a quote that does not close", place(quoted[index].as_py()), QUOTE_HINT)

    def _parsed(self, text: Any, place: Place, columns: list[int]) -> Iterator[tuple[Place, list[Any]]]:
        numbered = [str(number) for number in range(len(self.header))]
        chosen = [str(column) for column in columns]
        quote = False if self.form == "TSV" else '"'
        try:
            table = pyarrow.csv.read_csv(
                pa.BufferReader(raw(text)),
                pyarrow.csv.ReadOptions(column_names=numbered),
                pyarrow.csv.ParseOptions(delimiter=self._delimiter, quote_char=quote),
                pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(chosen, pa.string()), include_columns=chosen),
            )
        except pa.ArrowInvalid as error:
            raise self._uneven(text, place) or error from error
        if len(table) != len(text):
            raise self._uneven(text, place) or ValueError(f"{len(table)} records on {len(text)} lines")
        yield place, [table[name].combine_chunks() for name in chosen]

    def _uneven(self, text: Any, place: Place) -> DataFileError | None:
        """Return the error of the first line with more or fewer fields than there are names."""
        for index, line in enumerate(text.to_pylist()):
            count = len(self._fields(line))
            if count != len(self.header):
                problem = f"there are {count} fields, but {len(self.header)} names of columns"
                separator = "tabs" if self.form == "TSV" else "commas"
                hint = f"fields are separated by {separator}; {self.where} names the columns."
                return DataFileError(self.path, problem, place(index), hint)
        return None

    def _fields(self, line: str) -> list[str]:
        line = line.rstrip("\r\n")
        if self.form == "TSV":
            return line.split("\t")
        return next(csv.reader([line], delimiter=self._delimiter))


def _shifted(place: Place, by: int) -> Place:
    return lambda index: place(index + by)
