"""DuckDB in a temporary folder.

DuckDB reads, numbers, joins and sorts lines in bounded memory, and writes what exceeds
the limit to disk.
"""

from __future__ import annotations

import atexit
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import Any, TypeAlias, overload
from weakref import WeakSet

import torch
from numpy.typing import NDArray

from tailmetrics.io.files import temporary_folder

MEMORY = "1GB"
"""The default memory limit of DuckDB, which holds ten million lines.

Writing them to disk takes a third longer.
"""
THREAD_BYTES = 2**27
"""The memory that one thread needs to sort and join."""
LEAST_BYTES = 2**26
"""The smallest limit: below this, DuckDB refuses some joins of five million names."""
KEPT_ROWS = 2**16
"""The most rows that an instance may have written to be kept for reuse.

DuckDB keeps freed memory: 386 MB after 13 million rows.
"""
LOOK_SECONDS = 0.2
"""Seconds between two reports of progress to the watcher."""
Progress: TypeAlias = Callable[[str, float], None]
"""A function that another thread calls with the current step and its finished share."""

_IDLE: dict[int, Any] = {}
"""Process id -> an unused DuckDB instance.

Opening and closing an instance takes 18 ms, emptying one 1 ms.
"""

_LIVE: WeakSet[Database] = WeakSet()
"""The databases of this process that are still in use."""


@atexit.register
def _release() -> None:
    """Close all databases, such as those in the frames of an uncaught error.

    Otherwise DuckDB would print 41 lines about them, below the error.
    """
    for database in list(_LIVE):
        database.close()
    _IDLE.clear()


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
        raise ValueError(
            f"read: memory={memory!r} is no size; pass a number with its unit, "
            "such as '2GB'."
        )
    number, unit, binary = match.groups()
    base = 1024 if binary else 1000
    size = int(float(number) * base ** " KMGT".index(unit.upper() or " "))
    if size < LEAST_BYTES:
        raise ValueError(
            f"read: memory={memory!r} is too little; pass 64MiB or more, such as '2GB'."
        )
    return size


class Database:
    """A DuckDB database, deleted together with this object.

    Args:
        memory: The memory limit, such as ``"2GB"``; more data goes to a folder in
            ``TMPDIR``.
        on_progress: A function that receives the current step and the share of it that
            is done.

    Attributes:
        limit: The memory limit in bytes.
    """

    def __init__(
        self, memory: str = MEMORY, on_progress: Progress | None = None
    ) -> None:
        self.limit = bytes_of(memory)
        self._on_progress = on_progress
        try:
            import duckdb
            import pyarrow  # noqa: F401 # DuckDB returns some results as pyarrow tables
        except ModuleNotFoundError as error:
            problem = (
                f"tables and files need the package {error.name}: pip install "
                "'tailmetrics[cli]'"
            )
            raise ModuleNotFoundError(problem, name=error.name) from error
        self._memory = memory
        folder = temporary_folder(self)
        threads = max(1, min(torch.get_num_threads(), self.limit // THREAD_BYTES))
        # with a lower limit, DuckDB cannot hold a block of a table in memory, so that
        # tables lie in a file
        place = ":memory:"
        if self.limit < THREAD_BYTES:
            place = str(folder / "lines.db")
        self._process = os.getpid()
        self._written = 0
        self._owner = _IDLE.pop(self._process, None)
        if self._owner is None:
            self._owner = duckdb.connect(
                config={"threads": threads, "autoinstall_known_extensions": False}
            )
        self._sql = self._owner.cursor()
        self._sql.execute(
            f"SET memory_limit = '{self.limit}B'; SET threads = {threads}; "
            f"SET temp_directory = {literal(str(folder / 'spilled'))}; "
            # on disk; others take longer than the writing itself
            "PRAGMA force_compression = 'dictionary'; "
            f"ATTACH {literal(place)} AS lines; USE lines"
        )
        _LIVE.add(self)

    def __del__(self) -> None:
        if not hasattr(self, "_sql"):
            return
        if (
            self._process == os.getpid()
            and self._written <= KEPT_ROWS
            and not sys.is_finalizing()
        ):
            # DuckDB refuses this after it wrote temporary data to disk; closing the
            # owner deletes that data
            with suppress(Exception):
                self._sql.execute("USE memory; DETACH lines; SET temp_directory = ''")
                self._sql.close()
                _IDLE[self._process] = self._owner
                return
        self._owner.close()

    def close(self) -> None:
        """Close the database, which cannot be used afterwards."""
        # a forked child does not have DuckDB's threads, but would wait for them
        if hasattr(self, "_sql") and self._process == os.getpid():
            self._sql.close()
            self._owner.close()
            del self._sql, self._owner

    def run(
        self, statement: str, doing: str = "", in_order: bool = False, **arrow: Any
    ) -> int:
        """Execute a statement, and return the number of rows that it wrote.

        Args:
            statement: SQL.
            doing: Name of the step, for the watcher; empty for no report.
            in_order: Whether a table keeps its rows in the order of reading, so that
                ``rowid`` numbers them from 0.
            arrow: Arrow tables and readers, by their names in the statement.
        """
        for name, table in arrow.items():
            self.register(name, table)
        # keeping the order takes more memory
        order = f"SET preserve_insertion_order = {in_order}"
        with self._watched(doing):
            result = self.row(f"{order}; {statement}")
        written = 0
        if result is not None:
            written = int(result[0])
        self._written += written
        return written

    def register(self, name: str, table: Any) -> None:
        """Make an Arrow table or reader known under a name."""
        with self._failing():
            self._sql.register(name, table)

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the result of a query."""
        with self._failing():
            rows: list[tuple[Any, ...]] = self._sql.execute(
                statement, list(values)
            ).fetchall()
            return rows

    def row(self, statement: str, *values: Any) -> Any:
        """Return the first row of the result of a query; None without rows."""
        return next(iter(self.rows(statement, *values)), None)

    def table(self, statement: str) -> Any:
        """Return the result of a query as an Arrow table."""
        with self._failing():
            return self._sql.sql(statement).to_arrow_table()

    def arrays(self, statement: str, *values: Any) -> dict[str, NDArray[Any]]:
        """Return the result of a query as arrays, by column name."""
        with self._failing():
            arrays: dict[str, NDArray[Any]] = self._sql.execute(
                statement, list(values)
            ).fetchnumpy()
            return arrays

    def names(self, statement: str, descending: bool = False) -> Names:
        """Return the result of a query with a single column, of names."""
        return Names(self.table(statement).column(0), descending)

    @contextmanager
    def _watched(self, doing: str) -> Iterator[None]:
        watcher = self._on_progress
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
        """Turn errors of DuckDB into a ValueError or a :class:`DatabaseError`.

        Too little memory becomes a ValueError.
        """
        import duckdb

        try:
            yield
        except duckdb.OutOfMemoryException as error:
            cause = str(error).split("\n")[0]
            problem = (
                f"read: memory={self._memory!r} is too little for these files "
                f"({cause}); give more."
            )
            raise ValueError(problem) from error
        except duckdb.Error as error:
            raise DatabaseError(str(error)) from error


class DatabaseError(OSError):
    """An error of DuckDB: the file is not text, the disk is full, and so on.

    Attributes:
        message: All that DuckDB says.
    """

    def __init__(self, message: str) -> None:
        super().__init__(f"DuckDB: {message.partition(chr(10))[0]}")
        self.message = message


def text_of(expression: str) -> str:
    """Return SQL of a value as text; null if it is empty."""
    return f"nullif({expression}::VARCHAR, '')"


def joined_text(parts: Sequence[str]) -> str:
    """Return SQL of the name of a query of one or several columns.

    Several parts are joined by commas; a backslash escapes commas and backslashes.
    """
    if len(parts) == 1:
        return parts[0]
    escaped = [f"replace(replace({part}, '\\', '\\\\'), ',', '\\,')" for part in parts]
    return " || ',' || ".join(escaped)


class Names(Sequence[str]):
    """A sequence of names in an Arrow array.

    Millions of names take little more memory than their text.

    Args:
        column: Arrow string array.
        descending: Whether label ids follow the names in descending order, so that the
            last name wins ties, as in trec_eval.
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
            return self.column[place].to_pylist()  # type: ignore[no-any-return]
        return str(self.column[place].as_py())

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), 2**16):
            yield from self.column[start : start + 2**16].to_pylist()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return list(self) == list(other)

    def __repr__(self) -> str:
        return f"Names({self[:3]}, {len(self):,} in all)"


def arrow_names(names: Iterable[str]) -> Any:
    """Return names as an Arrow string array."""
    import pyarrow as pa

    if isinstance(names, Names):
        return names.column
    return pa.array(list(names), pa.large_string())


def literal(text: str) -> str:
    """Return a text as an SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def named(path: object) -> str:
    """Return a path as an SQL string literal that escapes glob characters."""
    return literal(re.sub(r"([*?\[])", r"[\1]", str(path)))


def quoted(name: str) -> str:
    """Return the name of a column as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
