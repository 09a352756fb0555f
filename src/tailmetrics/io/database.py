"""DuckDB in a temporary folder: it reads, numbers, joins and orders lines in bounded memory, and spills the rest."""

from __future__ import annotations

import atexit
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from sys import is_finalizing
from threading import Event, Thread
from typing import Any, overload

import torch
from numpy.typing import NDArray

from tailmetrics.io.files import temporary_folder

MEMORY = "1GB"
"""What is held at a time unless told otherwise: ten million lines fit, and to spill them takes a third longer."""
THREAD_BYTES = 2**27
"""A thread sorts and joins within this much."""
LEAST_BYTES = 2**26
"""Below this DuckDB refuses some joins of five million names."""
KEPT_ROWS = 2**16
"""DuckDB is kept after so many rows at most: what it frees stays with the process, 386 MB after 13 million rows."""
LOOK_SECONDS = 0.2
"""How often a watcher is told how far a statement is."""
WHITE = "chr(32) || chr(9) || chr(13)"
WATCHER: ContextVar[Callable[[str, float], None] | None] = ContextVar("watcher", default=None)
"""Who is told what is being done and what share of it is done, from another thread."""

_IDLE: dict[int, Any] = {}
"""Process -> a DuckDB that nobody uses: opening and closing one takes 18 ms, emptying it 1 ms."""
atexit.register(_IDLE.clear)
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(before=_IDLE.clear)  # a child that ends would wait for threads that it does not have
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B", re.IGNORECASE)


def bytes_of(memory: str) -> int:
    """Return how many bytes ``"2GB"`` or ``"512 MiB"`` is.

    Raises:
        ValueError: If it is no size, or too little.
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
    """A database that ends with this object.

    Args:
        memory: What it holds at a time, such as ``"2GB"``; the rest lies in a folder beneath ``TMPDIR``.

    Attributes:
        limit: That many bytes.
    """

    def __init__(self, memory: str = MEMORY) -> None:
        self.limit = bytes_of(memory)
        try:
            import duckdb
            import pyarrow  # noqa: F401 # what is read comes out as its arrays
        except ModuleNotFoundError as error:
            problem = f"lines that name their query need the package {error.name}: pip install 'tailmetrics[cli]'"
            raise ModuleNotFoundError(problem, name=error.name) from error
        self._memory = memory
        folder = temporary_folder(self)
        threads = max(1, min(torch.get_num_threads(), self.limit // THREAD_BYTES))
        place = ":memory:" if self.limit >= THREAD_BYTES else str(folder / "lines.db")  # below, it cannot hold a block
        self._process, self._written = os.getpid(), 0
        idle = _IDLE.pop(self._process, None)
        self._owner = idle or duckdb.connect(config={"threads": threads, "autoinstall_known_extensions": False})
        self._sql = self._owner.cursor()
        self._sql.execute(
            f"SET memory_limit = '{self.limit}B'; SET threads = {threads}; "
            f"SET temp_directory = {literal(str(folder / 'spilled'))}; "
            "PRAGMA force_compression = 'dictionary'; "  # on disk; others take longer than writing does
            f"ATTACH {literal(place)} AS lines; USE lines"
        )

    def __del__(self) -> None:
        if not hasattr(self, "_sql"):
            return
        if self._process == os.getpid() and self._written <= KEPT_ROWS and not is_finalizing():
            with suppress(Exception):  # refused where something was spilled: that goes with its owner
                self._sql.execute("USE memory; DETACH lines; SET temp_directory = ''")
                self._sql.close()
                _IDLE[self._process] = self._owner
                return
        self._owner.close()

    def run(self, statement: str, doing: str = "", in_order: bool = False, **arrow: Any) -> int:
        """Carry out a statement, and return how many rows it wrote.

        Args:
            statement: SQL.
            doing: What a watcher is told.
            in_order: Whether a table keeps the order in which its rows are read, so that ``rowid`` counts them.
            arrow: Tables and readers of Arrow, by the names that the statement has for them.
        """
        with self._failing():
            for name, table in arrow.items():
                self._sql.register(name, table)
            with self._watched(doing):
                order = f"SET preserve_insertion_order = {in_order}"  # it takes more memory
                found = self._sql.execute(f"{order}; {statement}").fetchall()
        written = int(found[0][0]) if found else 0
        self._written += written
        return written

    def row(self, statement: str, *values: Any) -> Any:
        """Return the first row that a statement finds; None where there is none."""
        with self._failing():
            return next(iter(self._sql.execute(statement, list(values)).fetchall()), None)

    def arrays(self, statement: str, *values: Any) -> dict[str, NDArray[Any]]:
        """Return the columns that a statement finds."""
        with self._failing():
            found: dict[str, NDArray[Any]] = self._sql.execute(statement, list(values)).fetchnumpy()
            return found

    def names(self, statement: str, descending: bool = False) -> Names:
        """Return the only column that a statement finds, of names."""
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
        """Raise what DuckDB raises as an error that says what to do."""
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
    """An error of DuckDB, such as of a file that is no text, or of a full disk."""


class Names(Sequence[str]):
    """Names in their order, kept by Arrow: millions of them take the memory of their text.

    Args:
        column: Arrow string array.
        descending: Whether labels are numbered so that the last name wins ties, as in trec_eval.
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
    """Return names as an arrow string array."""
    import pyarrow as pa

    return names.column if isinstance(names, Names) else pa.array(list(names), pa.large_string())


def literal(text: str) -> str:
    """Return a text as SQL has it."""
    return "'" + text.replace("'", "''") + "'"


def named(path: object) -> str:
    """Return a path as SQL has it: no part of it is a pattern."""
    return literal(re.sub(r"([*?\[])", r"[\1]", str(path)))


def trimmed(expression: str) -> str:
    """Return a text without the blanks around it, null where nothing is left; other blanks may be part of a name."""
    end = " OR ".join(f"ends_with({expression}, chr({code}))" for code in (32, 9, 13))
    # looking at both ends takes a tenth of what trimming takes, and few names have blanks there
    return f"CASE WHEN {expression} < '!' OR {end} THEN nullif(trim({expression}, {WHITE}), '') ELSE {expression} END"


def quoted(name: str) -> str:
    """Return the name of a column as SQL has it."""
    return '"' + name.replace('"', '""') + '"'
