"""DuckDB in a temporary folder: it reads, numbers, joins and sorts lines in bounded memory; the rest goes to disk."""

from __future__ import annotations

import atexit
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from sys import is_finalizing
from threading import Event, Thread
from typing import Any, NamedTuple, TypeAlias, overload

import numpy as np
import torch
from numpy.typing import NDArray

from tailmetrics.io.files import EMPTY_HINT, DataFileError, FilePath, note, said_once, temporary_folder
from tailmetrics.io.reading import Reading, varied

MEMORY = "1GB"
"""The default memory limit of DuckDB: ten million lines fit in it; writing them to disk takes a third longer."""
THREAD_BYTES = 2**27
"""The memory that one thread needs to sort and join."""
LEAST_BYTES = 2**26
"""The smallest memory limit: below it DuckDB refuses some joins of five million names."""
KEPT_ROWS = 2**16
"""A DuckDB instance that wrote more rows is closed, not kept: it keeps freed memory, 386 MB after 13 million rows."""
LOOK_SECONDS = 0.2
"""Seconds between two reports of progress to the watcher."""
WHITE = "chr(32) || chr(9) || chr(13)"
WATCHER: ContextVar[Callable[[str, float], None] | None] = ContextVar("watcher", default=None)
"""A function that receives the current step and the share of it that is done; another thread calls it."""

_IDLE: dict[int, Any] = {}
"""Process id -> an unused DuckDB instance, kept because opening and closing one takes 18 ms, emptying one 1 ms."""
atexit.register(_IDLE.clear)
if hasattr(os, "register_at_fork"):  # not on Windows
    # a forked child does not have DuckDB's threads, but would wait for them at its end
    os.register_at_fork(before=_IDLE.clear)
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B", re.IGNORECASE)


def bytes_of(memory: str) -> int:
    """Return the number of bytes of a size such as ``"2GB"`` or ``"512 MiB"``.

    Raises:
        ValueError: If the text is not a size, or the size is below 64 MiB.
    """
    match = _SIZE.fullmatch(str(memory).strip())
    if match is None:
        raise ValueError(f"read: memory={memory!r} is no size; pass a number with its unit, such as '2GB'.")
    number, unit, binary = match.groups()
    found = int(float(number) * (1024 if binary else 1000) ** " KMGT".index(unit.upper() or " "))
    if found < LEAST_BYTES:
        raise ValueError(f"read: memory={memory!r} is too little; pass 64MiB or more, such as '2GB'.")
    return found


class Database:
    """A DuckDB database, deleted together with this object.

    Args:
        memory: The memory limit, such as ``"2GB"``; more data goes to a folder in ``TMPDIR``.

    Attributes:
        limit: The memory limit in bytes.
    """

    def __init__(self, memory: str = MEMORY) -> None:
        self.limit = bytes_of(memory)
        try:
            import duckdb
            import pyarrow  # noqa: F401 # DuckDB returns some results as pyarrow tables
        except ModuleNotFoundError as error:
            problem = f"lines that name their query need the package {error.name}: pip install 'tailmetrics[cli]'"
            raise ModuleNotFoundError(problem, name=error.name) from error
        self._memory = memory
        folder = temporary_folder(self)
        threads = max(1, min(torch.get_num_threads(), self.limit // THREAD_BYTES))
        # with a lower limit, DuckDB cannot hold a block of a table in memory, so that tables lie in a file
        place = ":memory:" if self.limit >= THREAD_BYTES else str(folder / "lines.db")
        self._process, self._written = os.getpid(), 0
        idle = _IDLE.pop(self._process, None)
        self._owner = idle or duckdb.connect(config={"threads": threads, "autoinstall_known_extensions": False})
        self._sql = self._owner.cursor()
        self._sql.execute(
            f"SET memory_limit = '{self.limit}B'; SET threads = {threads}; "
            f"SET temp_directory = {literal(str(folder / 'spilled'))}; "
            "PRAGMA force_compression = 'dictionary'; "  # on disk; others take longer than the writing itself
            f"ATTACH {literal(place)} AS lines; USE lines"
        )

    def __del__(self) -> None:
        if not hasattr(self, "_sql"):
            return
        if self._process == os.getpid() and self._written <= KEPT_ROWS and not is_finalizing():
            # DuckDB refuses this after it wrote temporary data to disk; closing the owner deletes that data
            with suppress(Exception):
                self._sql.execute("USE memory; DETACH lines; SET temp_directory = ''")
                self._sql.close()
                _IDLE[self._process] = self._owner
                return
        self._owner.close()

    def run(self, statement: str, doing: str = "", in_order: bool = False, **arrow: Any) -> int:
        """Execute a statement, and return the number of rows that it wrote.

        Args:
            statement: SQL.
            doing: Name of the step, for the watcher; empty for no report.
            in_order: Whether a table keeps its rows in the order of reading, so that ``rowid`` numbers them from 0.
            arrow: Arrow tables and readers, by their names in the statement.
        """
        with self._failing():
            for name, table in arrow.items():
                self._sql.register(name, table)
            with self._watched(doing):
                order = f"SET preserve_insertion_order = {in_order}"  # keeping the order takes more memory
                found = self._sql.execute(f"{order}; {statement}").fetchall()
        written = int(found[0][0]) if found else 0
        self._written += written
        return written

    def row(self, statement: str, *values: Any) -> Any:
        """Return the first row of the result of a query; None if the result is empty."""
        with self._failing():
            return next(iter(self._sql.execute(statement, list(values)).fetchall()), None)

    def arrays(self, statement: str, *values: Any) -> dict[str, NDArray[Any]]:
        """Return the result of a query as arrays, by column name."""
        with self._failing():
            found: dict[str, NDArray[Any]] = self._sql.execute(statement, list(values)).fetchnumpy()
            return found

    def names(self, statement: str, descending: bool = False) -> Names:
        """Return the result of a query with a single column, of names."""
        with self._failing():
            return Names(self._sql.sql(statement).to_arrow_table().column(0), descending)

    @contextmanager
    def _watched(self, doing: str) -> Iterator[None]:
        watcher = WATCHER.get()
        if watcher is None or not doing:
            yield
            return
        done = Event()

        def watch() -> None:
            while not done.wait(LOOK_SECONDS):
                watcher(doing, max(0.0, self._sql.query_progress()) / 100)

        thread = Thread(target=watch, daemon=True)
        watcher(doing, 0.0)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Turn the errors of DuckDB into a ValueError for too little memory, or else into a :class:`DatabaseError`."""
        import duckdb

        try:
            yield
        except duckdb.OutOfMemoryException as error:
            cause = str(error).split("\n")[0]
            problem = f"read: memory={self._memory!r} is too little for these files ({cause}); give more."
            raise ValueError(problem) from error
        except duckdb.Error as error:
            raise DatabaseError(f"DuckDB: {str(error).partition(chr(10))[0]}") from error


class DatabaseError(OSError):
    """An error of DuckDB: the file is not text, the disk is full, and so on."""


def entries_in_parquet(path: Path, column: str) -> int:
    """Return the number of entries in the lists of a column; 0 if it is not known.

    Sizes do not tell it: a kilobyte holds a million equal numbers. pyarrow aborts when a damaged file is asked.
    """
    own = "path_in_schema = ? OR starts_with(path_in_schema, ? || ', ')"
    each = f"SELECT sum(num_values) AS entries FROM parquet_metadata({named(path)}) WHERE {own} GROUP BY path_in_schema"
    with suppress(ModuleNotFoundError, DatabaseError):
        return int(Database().row(f"SELECT coalesce(max(entries), 0) FROM ({each})", column, column)[0])
    return 0


class Names(Sequence[str]):
    """A sequence of names in an Arrow array, so that millions of names take little more memory than their text.

    Args:
        column: Arrow string array.
        descending: Whether label ids follow the names in descending order, so that the last name wins ties, as in
            trec_eval.
    """

    def __init__(self, column: Any, descending: bool = False) -> None:
        self.column = column
        self.descending = descending

    def __len__(self) -> int:
        return len(self.column)

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[str]: ...

    def __getitem__(self, place: int | slice) -> str | Sequence[str]:
        if isinstance(place, slice):
            return list(self)[place] if place.step not in (None, 1) else Names(self.column[place], self.descending)
        return str(self.column[place].as_py())

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), 2**16):
            yield from self.column[start : start + 2**16].to_pylist()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(mine == its for mine, its in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Names({', '.join(map(repr, self[:3]))}{f', … {len(self):,} in all' if len(self) > 3 else ''})"


def arrow_names(names: Iterable[str]) -> Any:
    """Return names as an Arrow string array."""
    import pyarrow as pa

    return names.column if isinstance(names, Names) else pa.array(list(names), pa.large_string())


def literal(text: str) -> str:
    """Return a text as an SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def named(path: object) -> str:
    """Return a path as an SQL string literal in which the characters of glob patterns are escaped."""
    return literal(re.sub(r"([*?\[])", r"[\1]", str(path)))


def trimmed(expression: str) -> str:
    """Return SQL that strips spaces, tabs and CRs from both ends of a text; null if the rest is empty."""
    end = " OR ".join(f"ends_with({expression}, chr({code}))" for code in (32, 9, 13))
    # testing both ends takes a tenth of the time of trimming, and few names have blanks there
    return f"CASE WHEN {expression} < '!' OR {end} THEN nullif(trim({expression}, {WHITE}), '') ELSE {expression} END"


def quoted(name: str) -> str:
    """Return the name of a column as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


# -- lines ------------------------------------------------------------------------------------------------------------


Entry: TypeAlias = tuple[str, "str | None", "float | None"]
"""Query, item and value of a line; the item is None for an empty list, the value is None if the file has no values."""
BLOCK_LINES = 2**15
"""Number of lines that Python holds at a time: about 10 MB."""


@dataclass(frozen=True, eq=False)
class Triples:
    """A block of lines of a file: (query, item, value).

    Attributes:
        query: Arrow string array.
        item: Arrow string array; null if the query has an empty list.
        value: Scores, negated ranks or gains; None if the file has no values.
        place: A function from the index of a line in the block to its name in an error, such as ``line 7``.
        ranks: Whether the values are negated ranks.
    """

    query: Any
    item: Any
    value: NDArray[Any] | None
    place: Callable[[int], str]
    ranks: bool = False


def triples(entries: Iterable[tuple[str, str, str | None, float | None]], ranks: bool = False) -> Iterator[Triples]:
    """Yield entries in blocks. An entry is (place for errors, query, item, value); either all have a value or none."""
    import pyarrow as pa

    entries = iter(entries)
    while some := list(islice(entries, BLOCK_LINES)):
        places, query, item, value = zip(*some, strict=True)
        values = None if value[0] is None else np.array(value)
        yield Triples(pa.array(query, pa.string()), pa.array(item, pa.string()), values, places.__getitem__, ranks)


@dataclass(frozen=True, eq=False, kw_only=True)
class SqlLines:
    """The lines of a file, in order, as an SQL statement that reads them.

    Attributes:
        source: The SQL after FROM; empty if only ``exact`` can read the lines.
        query: SQL expression of the query, VARCHAR; null if the query is empty or the line has an unusual form.
        item: SQL expression of the item, with nulls as in ``query``.
        value: SQL expression of the score, negated rank or gain, with nulls as in ``query``; None if the file has no
            values.
        kind: SQL type of the values.
        ranks: Whether the values are negated ranks; None if they may be ranks or scores.
        exact: A function that reads the file line by line, used if the statement fails or finds a null; it raises the
            error that names a wrong line.
        kept: An object that must live as long as this one, such as a copy of the file without compression.
        reading: How the columns are read; None for a format without columns.
        constants: Columns that hold one number in the first rows, and the SQL of each.
    """

    source: str = ""
    query: str = ""
    item: str = ""
    value: str | None
    kind: str = "DOUBLE"
    ranks: bool | None = False
    exact: Callable[[], Iterable[Triples]]
    kept: Any = None
    reading: Reading | None = None
    constants: Mapping[str, str] = field(default_factory=dict)


Opened: TypeAlias = "SqlLines | Iterable[Triples]"


@dataclass(frozen=True, eq=False)
class KeyedFile:
    """Files whose lines name their query, read one after another.

    Attributes:
        name: One name for all files, in errors.
        parts: Each file, and the function that opens it.
        may_lack_items: Whether an item can be empty.
        without_values: Whether values are not read, because every line of the targets is relevant.
        tells_zeros: Whether a note gives the number of lines with the value 0; the column may not hold gains.
    """

    name: FilePath
    parts: Sequence[tuple[FilePath, Callable[[], Opened]]]
    may_lack_items: bool = False
    without_values: bool = False
    tells_zeros: bool = False

    def load(self, database: Database, table: str) -> Values:
        """Write query, item and value of every line into a new table, and return the kind and number of the values.

        ``rowid`` then numbers the lines of all files from 0.

        Raises:
            DataFileError: If a query, an item or a number is missing, or the files have different kinds of values.
        """
        values: Values | None = None
        count, is_clear = 0, True
        said: set[str] = set()
        for path, opens in self.parts:
            with said_once(said):
                lines = _as_lines(opens(), self.without_values)
            if lines is None:
                continue
            found = Values(lines.value is not None, bool(lines.ranks), 0, lines.reading)
            is_clear &= lines.ranks is not None
            if values is None:
                values = found
                value = f", value {lines.kind}" if found.given else ""
                database.run(f"CREATE TABLE {table} (query VARCHAR, item VARCHAR{value})")
            elif values.given != found.given:
                raise _missing_gains(path)
            elif values.ranked != found.ranked:
                hint = "all parts need the same form: evaluate parts with ranks apart from parts with scores."
                problem = "its numbers are ranks" if found.ranked else "its numbers are no ranks"
                raise DataFileError(path, f"{problem}, unlike those of {self.parts[0][0]}", hint=hint)
            taken = self._take(database, table, path, lines) if lines.source else None
            if taken is not None:
                _check_constants(database, path, lines)
            count += self._take_blocks(database, table, path, lines) if taken is None else taken
        if values is None or not count:
            raise DataFileError(self.name, "holds no rows", hint=EMPTY_HINT)
        if not is_clear:
            self._check_scores(database, table)
        if self.tells_zeros and values.given:
            (zeros,) = database.row(f"SELECT count(*) FROM {table} WHERE value = 0")
            hint = "columns=Columns(gain='none') counts each line."
            if zeros:
                note(self.name, f"{zeros:,} of {count:,} lines have the gain 0 and do not count; {hint}")
        return values._replace(lines=count)

    def _check_scores(self, database: Database, table: str) -> None:
        """Raise if the values, read as scores, may be ranks, where a lower number is better.

        Values look like ranks if, in most queries, they are whole numbers that count the lines from 0 or 1, or that
        are lowest in the first line and highest in the last line. The scores of most queries do not.
        """
        if database.row(f"SELECT 1 FROM {table} WHERE value <> floor(value) LIMIT 1") is not None:
            return
        (like_ranks,) = database.row(
            "SELECT avg((low IN (0, 1) AND high - low = n - 1 AND total * 2 = (low + high) * n "
            "OR n > 2 AND low < high AND first = low AND last = high)::INTEGER) FROM (SELECT count(*) AS n, "
            "min(value) AS low, max(value) AS high, sum(value) AS total, arg_min(value, rowid) AS first, "
            f"arg_max(value, rowid) AS last FROM {table} GROUP BY query) WHERE n > 1"
        )
        if (like_ranks or 0) > 0.5:
            hint = (
                "if ranks, columns=Columns(query='0', item='1', rank='2'); if scores, "
                "columns=Columns(query='0', item='1', score='2')."
            )
            raise DataFileError(self.name, "column 2 may hold ranks, 1 the best, or scores, 1 the worst", hint=hint)

    def _take(self, database: Database, table: str, path: FilePath, lines: SqlLines) -> int | None:
        """Write the lines of a file into a table by SQL, and return their number.

        If any line is unusual, or the statement fails, write no line and return None.
        """
        needed = [lines.query, lines.item, lines.value]
        said = [f"coalesce({one}, error('unusual'))" for one in needed if one is not None]
        said[1] = lines.item if self.may_lack_items else said[1]
        insert = f"INSERT INTO {table} SELECT {', '.join(said)} FROM {lines.source}"
        try:
            return database.run(insert, f"reading {path.name}", in_order=True)
        except DatabaseError:
            return None

    def _take_blocks(self, database: Database, table: str, path: FilePath, lines: SqlLines) -> int:
        """Write the lines of a file into a table, block by block, and return their number."""
        import pyarrow as pa

        count, insert = 0, f"INSERT INTO {table} SELECT * FROM given"
        for block in lines.exact():
            if (lines.value is None) != (block.value is None):
                raise _missing_gains(path)
            self._check_named(path, block)
            columns = {"query": block.query, "item": block.item}
            columns |= {} if block.value is None else {"value": block.value}
            count += database.run(insert, f"reading {path.name}", in_order=True, given=pa.table(columns))
        return count

    def _check_named(self, path: FilePath, block: Triples) -> None:
        for word, column in (("query", block.query), *([] if self.may_lack_items else [("item", block.item)])):
            index = column.index("").as_py()
            if index >= 0:
                raise DataFileError(path, f"the {word} is empty", block.place(index), f"every line names its {word}.")


class Values(NamedTuple):
    """The kind of the values of lines, and the number of lines.

    Attributes:
        given: Whether lines have values.
        ranked: Whether the values are negated ranks.
        lines: Number of lines.
        reading: How the columns are read; None for a format without columns.
    """

    given: bool
    ranked: bool
    lines: int
    reading: Reading | None = None


def _as_lines(opened: Opened, without_values: bool) -> SqlLines | None:
    """Return an opened file as ``SqlLines``; blocks are wrapped, with no statement. None if there are no blocks."""
    if not isinstance(opened, SqlLines):
        blocks = iter(opened)
        first = next(blocks, None)
        if first is None:
            return None
        value = None if first.value is None else "value"
        opened = SqlLines(value=value, ranks=first.ranks, exact=lambda: chain([first], blocks))
    read = opened.exact
    if not without_values:
        return opened
    return replace(opened, value=None, exact=lambda: (replace(block, value=None) for block in read()))


def _check_constants(database: Database, path: FilePath, lines: SqlLines) -> None:
    """Raise if a column that is not read holds one number in the first rows, and others or none later.

    Raises:
        DataFileError: Naming the column.
    """
    for name, expression in lines.constants.items():
        numbers = f"SELECT try_cast({expression} AS DOUBLE) AS x FROM {lines.source}"
        found = database.row(f"SELECT min(x), max(x), count(*) > count(x) FROM ({numbers})")
        if found is not None and (found[0] != found[1] or found[2]):
            raise varied(
                path, name, [*(f"{number:g}" for number in found[:2] if number is not None), *[None] * found[2]]
            )


def _missing_gains(path: FilePath) -> DataFileError:
    return DataFileError(path, "only some lines have a gain", hint="give every line a gain, or none.")
