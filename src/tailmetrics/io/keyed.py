"""Files whose lines name their row: TREC, JSON Lines, CSV and long tables, joined by the query.

Rows are the target's queries in the order they are first met. Lines in any order go to an engine, which numbers, joins
and orders them in bounded memory.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailmetrics.io.engine import Engine
from tailmetrics.io.errors import DataFileError, DataFileNote
from tailmetrics.io.grouped_lines import GroupedLines
from tailmetrics.io.paths import EMPTY_HINT, FilePath
from tailmetrics.io.rows import Array, Ragged
from tailmetrics.io.source import Source


@dataclass(frozen=True, eq=False)
class Triples:
    """Some lines of a file: (query, item, value).

    Attributes:
        query: Arrow string array.
        item: Arrow string array; null where the query has an empty list.
        value: Scores or gains; None when the file gives none.
        place: From the index of a line to how an error names it.
    """

    query: Any
    item: Any
    value: Array | None
    place: Callable[[int], str]


@dataclass(frozen=True, eq=False)
class KeyedFile:
    """Files of lines, one behind the other.

    Attributes:
        name: How an error calls all of them.
        parts: Each file, and what reads it from its beginning.
    """

    name: FilePath
    parts: Sequence[tuple[FilePath, Callable[[], Iterable[Triples]]]]

    def blocks(self) -> Iterator[tuple[FilePath, Triples]]:
        """Yield the lines, with the file that they stand in.

        Raises:
            DataFileError: If a query or an item is empty, or only some files have values.
        """
        scored: bool | None = None
        for number, (path, read) in enumerate(self.parts):
            for block in _begun(read()) if number else read():
                for word, column in (("query", block.query), ("item", block.item)):
                    index = column.index("").as_py()
                    if index >= 0:
                        hint = f"every line names its {word}."
                        raise DataFileError(path, f"the {word} is empty", block.place(index), hint)
                if scored not in (None, block.value is not None):
                    hint = "give every line a gain, or none."
                    raise DataFileError(path, "only some lines have a gain", hint=hint)
                scored = block.value is not None
                yield path, block

    def load(self, engine: Engine, table: str) -> np.dtype[Any] | None:
        """Write query, item, value and number of every line into a table, and return the type of the values, if any."""
        blocks = self.blocks()
        first = next(blocks, None)
        if first is None:
            raise DataFileError(self.name, "holds no rows", hint=EMPTY_HINT)
        import pyarrow as pa

        value = first[1].value
        fields = [("query", pa.large_string()), ("item", pa.large_string()), ("line", pa.int64())]
        if value is not None:
            fields.append(("value", pa.float32() if value.dtype == np.float32 else pa.float64()))
        schema = pa.schema(fields)

        def batches() -> Iterator[Any]:
            count = 0
            for block in [first[1]], (block for _, block in blocks):
                for some in block:
                    yield _batch(some, count, schema)
                    count += len(some.query)
            if not count:
                raise DataFileError(self.name, "holds no rows", hint=EMPTY_HINT)

        engine.load(table, schema, batches())
        return None if value is None else np.dtype(np.float32 if value.dtype == np.float32 else np.float64)

    def error(self, line: int, problem: str, hint: str) -> DataFileError:
        """Return the error of a line by its number over all files, which are read again up to it."""
        for path, block in self.blocks():
            if line < len(block.query):
                return DataFileError(path, problem, block.place(line), hint)
            line -= len(block.query)
        return DataFileError(self.name, problem, hint=hint)


def _begun(blocks: Iterable[Triples]) -> Iterator[Triples]:
    """Yield the same blocks; what their beginning notes has been said of the first part."""
    blocks = iter(blocks)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataFileNote)
        first = next(blocks, None)
    if first is not None:
        yield first
        yield from blocks


def _batch(block: Triples, first: int, schema: Any) -> Any:
    import pyarrow as pa

    columns = [block.query, block.item, np.arange(first, first + len(block.query))]
    if block.value is not None:
        columns.append(block.value)
    return pa.record_batch([pa.array(one).cast(kind.type) for one, kind in zip(columns, schema, strict=True)], schema)


class KeyedSource(Source):
    """A process's rows of joined files.

    Args:
        path: The files.
        lines: The lines of these rows.
        start: Number of the first of them.
        row_names: Queries of all rows, of every process.
        label_names: Names of the labels; None when they are numbers.
        num_labels: Number of labels.
        engine: What keeps the lines.
    """

    def __init__(
        self,
        path: FilePath,
        lines: GroupedLines,
        start: int,
        row_names: Sequence[str],
        label_names: Sequence[str] | None,
        num_labels: int,
        engine: Engine,
    ) -> None:
        self.path = path
        self.num_rows = len(row_names)
        self.num_labels = num_labels
        self.cells_per_row = lines.width
        self._lines = lines
        self._start = start
        self._row_names = row_names
        self._label_names = label_names
        self._engine = engine

    def batches(self, start: int, stop: int, size: int) -> Iterator[Ragged]:
        """Yield the rows, each in the order of its lines."""
        for first in range(start - self._start, stop - self._start, size):
            yield self._lines.read(first, min(first + size, stop - self._start))

    def place(self, row: int) -> str:
        """Return the query of a row."""
        return f"query {self._row_names[row]!r}"

    def label(self, label_id: int) -> str:
        """Return the name of a label, if it has one."""
        return str(label_id) if self._label_names is None else repr(self._label_names[label_id])
