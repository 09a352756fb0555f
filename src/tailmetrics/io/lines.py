"""Files whose lines name their query: what reads them, and how they come into a database.

A file is read by a statement of SQL (:class:`Lines`), or yields its lines some at a time (:class:`Triples`).
"""

from __future__ import annotations

import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from tailmetrics.io.columns import Columns
from tailmetrics.io.database import Database
from tailmetrics.io.errors import DataFileError, DataFileNote, reading
from tailmetrics.io.files import EMPTY_HINT, FilePath, Found
from tailmetrics.io.formats import Format, Role
from tailmetrics.io.rows import Array


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


@dataclass(frozen=True, eq=False, kw_only=True)
class Lines:
    """The lines of a file, as a statement of SQL reads them, in their order.

    Attributes:
        form: What an error calls the format.
        source: What stands behind FROM.
        query: Expression of the query, VARCHAR; null where a line is wrong.
        item: Expression of the item, alike.
        value: Expression of the score or gain; None when the file gives none.
        kind: Type of the values.
        has_empty_lists: Whether a null item is an empty list.
        arrow: Opens the reader of Arrow that the source calls ``given``; None where it names a file.
        check: Raises if the file holds what the statement does not see; None where it sees all.
        wrong: From the number of a record, from 0, and the field that is null, to the error.
        place: From the number of a record to how an error names it.
        rejected: From the first line that the reader of CSV rejects, number, text, reason and column, to the error.
        recorded: Whether the source has a column ``record``, as several of its rows, or none, can be of one record.
        kept: What has to last as long as this, such as a copy without compression.
        otherwise: Reads the file more patiently, and says what is wrong with it; for files that are not as they look.
    """

    form: str
    source: str
    query: str
    item: str
    value: str | None
    kind: str = "DOUBLE"
    has_empty_lists: bool = False
    arrow: Callable[[], Any] | None = None
    check: Callable[[Database], None] | None = None
    wrong: Callable[[int, str], DataFileError]
    place: Callable[[int], str]
    rejected: Callable[[int, str, str, str | None], DataFileError] | None = None
    recorded: bool = False
    kept: Any = None
    otherwise: Callable[[], Opened] | None = None

    def record(self, database: Database, row: int) -> int:
        """Return the number of the record that a row of the source is of."""
        if not self.recorded:
            return row
        with database.in_order():
            return int(database.row(f"SELECT record FROM {self.source} LIMIT 1 OFFSET {row}")[0])


Opened: TypeAlias = "Lines | Iterable[Triples]"


@dataclass(frozen=True, eq=False)
class KeyedFile:
    """Files of lines, one behind the other.

    Attributes:
        name: How an error calls all of them.
        parts: Each file, and what opens it.
    """

    name: FilePath
    parts: Sequence[tuple[FilePath, Callable[[], Opened]]]
    _firsts: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, found: Found, form: Format, role: Role | None, columns: Columns) -> KeyedFile:
        """Return the files of a format of lines."""
        return cls(
            found.name,
            [(part.path, partial(form.open, part.path, role, columns, part.partition)) for part in found.parts],
        )

    def load(self, database: Database, table: str) -> bool:
        """Write query, item and value of every line into a new table, and return whether there are values.

        ``rowid`` then counts the lines of all files from 0.

        Raises:
            DataFileError: If a query, an item or a number is missing, or only some files have values.
        """
        valued: bool | None = None
        for number, (path, opens) in enumerate(self.parts):
            with warnings.catch_warnings():
                if number:  # what is noted of the first part holds for all
                    warnings.simplefilter("ignore", DataFileNote)
                opened: Any = opens()
                blocks = None if isinstance(opened, Lines) else iter(opened)
                first = None if blocks is None else next(blocks, None)
            if blocks is not None and first is None:
                continue
            value = opened.value if first is None else first.value
            if valued not in (None, value is not None):
                raise DataFileError(path, "only some lines have a gain", hint="give every line a gain, or none.")
            if valued is None:
                kind = opened.kind if first is None else "FLOAT" if _is_single(value) else "DOUBLE"
                columns = "query VARCHAR, item VARCHAR" + ("" if value is None else f", value {kind}")
                database.run(f"CREATE TABLE {table} ({columns})")
                valued = value is not None
            self._firsts.append(database.row(f"SELECT count(*) FROM {table}")[0])
            if blocks is None:
                _load_lines(database, table, path, opened, self._firsts[-1])
            else:
                assert first is not None
                _load_blocks(database, table, path, chain([first], blocks), valued)
        if valued is None or not database.row(f"SELECT count(*) FROM {table}")[0]:
            raise DataFileError(self.name, "holds no rows", hint=EMPTY_HINT)
        return valued

    def error(self, database: Database, row: int, problem: str, hint: str) -> DataFileError:
        """Return the error of a line by its number over all files."""
        number = bisect_right(self._firsts, row) - 1
        path, opens = self.parts[number]
        return DataFileError(path, problem, _place(database, opens, row - self._firsts[number]), hint)


def _is_single(value: Any) -> bool:
    return value is not None and value.dtype == np.float32


def _place(database: Database, opens: Callable[[], Opened], row: int) -> str:
    """Return how an error names a line; the file is read again up to it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataFileNote)
        opened = opens()
        if isinstance(opened, Lines):
            return opened.place(opened.record(database, row))
        for block in opened:
            if row < len(block.query):
                return block.place(row)
            row -= len(block.query)
    return ""


def _load_lines(database: Database, table: str, path: FilePath, lines: Lines, first: int) -> None:
    with database.in_order():
        database.run("BEGIN")  # a file that is then read in another way leaves nothing behind
        error: BaseException | None = None
        try:
            error = _inserted(database, table, path, lines, first)
        except BaseException as raised:
            error = raised
        database.run("COMMIT" if error is None else "ROLLBACK")
    if error is None:
        return
    if lines.otherwise is None or not isinstance(error, DataFileError):
        raise error
    opened = lines.otherwise()
    if isinstance(opened, Lines):
        allowed = opened.has_empty_lists or lines.has_empty_lists
        _load_lines(database, table, path, replace(opened, has_empty_lists=allowed), first)
    else:
        _load_blocks(database, table, path, opened, lines.value is not None)


def _inserted(database: Database, table: str, path: FilePath, lines: Lines, first: int) -> DataFileError | None:
    """Write the lines of a file into a table, and return what is wrong with them."""
    chosen = ", ".join(one for one in (lines.query, lines.item, lines.value) if one is not None)
    arrow = {} if lines.arrow is None else {"given": lines.arrow()}
    with reading(path, lines.form):
        insert = f"INSERT INTO {table} SELECT {chosen} FROM {lines.source}"
        database.run(insert, doing=f"reading {path.name}", **arrow)
    if lines.rejected is not None:
        found = database.row("SELECT line, csv_line, error_type, column_name FROM reject_errors ORDER BY line LIMIT 1")
        if found is not None:
            return lines.rejected(*found)
    if lines.check is not None:
        lines.check(database)
    return _incomplete(database, table, lines, first)


def _incomplete(database: Database, table: str, lines: Lines, first: int) -> DataFileError | None:
    """Return the error of the first line without a query, an item or a number."""
    missing = {
        "query": "query IS NULL OR query = ''",
        "item": "FALSE" if lines.has_empty_lists else "item IS NULL OR item = ''",
        "value": "FALSE" if lines.value is None or lines.has_empty_lists else "value IS NULL",
    }
    said = " ".join(f"WHEN {test} THEN '{name}'" for name, test in missing.items())
    found = database.row(
        f"SELECT rowid, CASE {said} END FROM {table} WHERE rowid >= {first} AND ({' OR '.join(missing.values())}) "
        "ORDER BY rowid LIMIT 1"
    )
    if found is None:
        return None
    # rows that are not yet committed are counted from another number
    (begin,) = database.row(f"SELECT min(rowid) FROM {table} WHERE rowid >= {first}")
    return lines.wrong(lines.record(database, found[0] - begin), found[1])


def _load_blocks(database: Database, table: str, path: FilePath, blocks: Iterable[Triples], valued: bool) -> None:
    """Write blocks of lines into a table; whatever they raise is raised as it was."""
    import pyarrow as pa

    fields = [("query", pa.large_string()), ("item", pa.large_string())]
    fields += [("value", pa.float64())] if valued else []
    schema = pa.schema(fields)
    raised: list[BaseException] = []

    def batches() -> Iterator[Any]:
        try:
            for block in blocks:
                if valued is not (block.value is not None):
                    raise DataFileError(path, "only some lines have a gain", hint="give every line a gain, or none.")
                _check_named(path, block)
                columns = [block.query, block.item, *([] if block.value is None else [block.value])]
                arrays = [pa.array(one).cast(kind.type) for one, kind in zip(columns, schema, strict=True)]
                yield pa.record_batch(arrays, schema)
        except BaseException as error:
            raised.append(error)
            raise

    reader = pa.RecordBatchReader.from_batches(schema, batches())
    try:
        with database.in_order():
            database.run(f"INSERT INTO {table} SELECT * FROM given", doing=f"reading {path.name}", given=reader)
    except BaseException:
        if raised:
            raise raised[0] from None
        raise


def _check_named(path: FilePath, block: Triples) -> None:
    for word, column in (("query", block.query), ("item", block.item)):
        index = column.index("").as_py()
        if index >= 0:
            raise DataFileError(path, f"the {word} is empty", block.place(index), f"every line names its {word}.")
