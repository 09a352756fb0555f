"""DuckDB in a temporary folder: it numbers, joins and orders lines in bounded memory, and spills what does not fit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from tailmetrics.io.names import Names
from tailmetrics.io.rows import Array
from tailmetrics.io.scratch import folder_for

MEMORY = "192MB"
"""What is held at a time unless more is given; more is faster for files that fit."""
THREAD_BYTES = 2**27
"""A thread sorts and joins within this much."""
LEAST_BYTES = 2**26
STREAMED_ROWS = 2**16

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


class Engine:
    """A database that ends with this object.

    Args:
        memory: What it holds at a time, such as ``"2GB"``; the rest lies in a folder beneath ``TMPDIR``.

    Attributes:
        folder: That folder; it goes with this object.
    """

    def __init__(self, memory: str = MEMORY) -> None:
        limit = bytes_of(memory)
        try:
            import duckdb
        except ModuleNotFoundError as error:
            problem = "lines that name their query are joined by the package duckdb: pip install 'tailmetrics[cli]'"
            raise ModuleNotFoundError(problem, name="duckdb") from error
        self._memory = memory
        self.folder = folder_for(self)
        threads = max(1, min(torch.get_num_threads(), limit // THREAD_BYTES))
        settings: dict[str, Any] = {
            "memory_limit": f"{limit}B",
            "temp_directory": str(self.folder / "spilled"),
            "threads": threads,
            "preserve_insertion_order": False,  # every order that is read is asked for
        }
        self._sql = duckdb.connect(str(self.folder / "lines.db"), config=settings)
        self._sql.execute("PRAGMA force_compression = 'dictionary'")  # others take longer than writing does

    def __del__(self) -> None:
        if hasattr(self, "_sql"):
            self._sql.close()

    def load(self, table: str, schema: Any, batches: Iterable[Any]) -> None:
        """Write record batches into a new table.

        Whatever the batches raise is raised here as it was.
        """
        import pyarrow as pa

        raised: list[BaseException] = []

        def guarded() -> Iterator[Any]:
            try:
                yield from batches
            except BaseException as error:
                raised.append(error)
                raise

        lines = pa.RecordBatchReader.from_batches(schema, guarded())  # noqa: F841 # SQL finds it by its name
        try:
            self._sql.execute(f"CREATE TABLE {table} AS SELECT * FROM lines")
        except BaseException as error:
            if raised:
                raise raised[0] from None
            raise self._said(error) from error

    def run(self, statement: str, *values: Any) -> Any:
        """Carry out a statement, and return what it found."""
        with self._failing():
            return self._sql.execute(statement, list(values))

    def row(self, statement: str, *values: Any) -> Any:
        """Return the first row that a statement finds; None where there is none."""
        with self._failing():
            return self._sql.execute(statement, list(values)).fetchone()

    def arrays(self, statement: str, *values: Any) -> dict[str, Array]:
        """Return the columns that a statement finds."""
        with self._failing():
            found: dict[str, Array] = self._sql.execute(statement, list(values)).fetchnumpy()
            return found

    def stream(self, statement: str) -> Iterator[dict[str, Array]]:
        """Yield the columns that a statement finds, some rows at a time.

        Rows come in the order that the statement asks for; whoever relies upon it has to look.
        """
        import pyarrow as pa

        self._sql.execute("SET preserve_insertion_order = true")
        try:
            with self._failing():
                found = self._sql.sql(statement)
                # the name since DuckDB 1.4; the older one warns there
                read = found.to_arrow_reader if hasattr(found, "to_arrow_reader") else found.fetch_arrow_reader
                for batch in read(STREAMED_ROWS):
                    columns = zip(batch.schema.names, batch.columns, strict=True)
                    if len(batch):
                        yield {name: column.to_numpy(zero_copy_only=False) for name, column in columns}
        except pa.ArrowException as error:
            raise self._said(error) from error
        finally:
            self._sql.execute("SET preserve_insertion_order = false")

    def names(self, statement: str) -> Names:
        """Return the only column that a statement finds, of names."""
        with self._failing():
            return Names(self._sql.sql(statement).to_arrow_table().column(0))

    @contextmanager
    def _failing(self) -> Iterator[None]:
        import duckdb

        try:
            yield
        except duckdb.Error as error:
            raise self._said(error) from error

    def _said(self, error: BaseException) -> BaseException:
        """Return the error of DuckDB as one that says what to do."""
        import duckdb

        cause = str(error).split("\n")[0]
        if isinstance(error, duckdb.OutOfMemoryException):
            return ValueError(f"read: memory={self._memory!r} is too little for these files ({cause}); give more.")
        return OSError(f"DuckDB, in {self.folder}: {cause}") if isinstance(error, duckdb.Error) else error
