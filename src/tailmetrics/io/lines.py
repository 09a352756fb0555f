"""Files whose lines name their query: their two readers, and the loading of their lines into a database.

A file is read by an SQL statement (:class:`SqlLines`), or by Python in blocks of lines (:class:`Triples`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tailmetrics.io.database import Database, DatabaseError
from tailmetrics.io.errors import DataFileError, note, said_once
from tailmetrics.io.files import EMPTY_HINT, FilePath
from tailmetrics.io.reading import Reading, varied

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

    source: str
    query: str
    item: str
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
            count += self._take_blocks(database, table, path, lines.exact(), found.given) if taken is None else taken
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

    def _take_blocks(
        self, database: Database, table: str, path: FilePath, blocks: Iterable[Triples], valued: bool
    ) -> int:
        """Write blocks of lines into a table, and return the number of lines; an error of a block stays unchanged."""
        import pyarrow as pa

        fields = [("query", pa.large_string()), ("item", pa.large_string())]
        schema = pa.schema(fields + [("value", pa.float64())] * valued)
        raised: list[BaseException] = []

        def batches() -> Iterator[Any]:
            try:
                for block in blocks:
                    if valued != (block.value is not None):
                        raise _missing_gains(path)
                    self._check_named(path, block)
                    columns = [block.query, block.item, *([] if block.value is None else [block.value])]
                    arrays = [pa.array(one).cast(kind.type) for one, kind in zip(columns, schema, strict=True)]
                    yield pa.record_batch(arrays, schema)
            except BaseException as error:
                raised.append(error)
                raise

        reader = pa.RecordBatchReader.from_batches(schema, batches())
        try:
            insert = f"INSERT INTO {table} SELECT * FROM given"
            return database.run(insert, f"reading {path.name}", in_order=True, given=reader)
        except BaseException:
            if raised:
                raise raised[0] from None
            raise

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
    if isinstance(opened, SqlLines):
        read = opened.exact
        if not without_values:
            return opened
        return replace(opened, value=None, exact=lambda: (replace(block, value=None) for block in read()))
    blocks = iter(opened)
    if without_values:
        blocks = (replace(block, value=None) for block in blocks)
    first = next(blocks, None)
    if first is None:
        return None
    value = None if first.value is None else "value"
    return SqlLines(source="", query="", item="", value=value, ranks=first.ranks, exact=lambda: chain([first], blocks))


def _check_constants(database: Database, path: FilePath, lines: SqlLines) -> None:
    """Raise if a column that is not read holds one number in the first rows, and others later.

    Raises:
        DataFileError: Naming the column.
    """
    for name, expression in lines.constants.items():
        found = database.row(
            f"SELECT min(x), max(x) FROM (SELECT try_cast({expression} AS DOUBLE) AS x FROM {lines.source})"
        )
        if found is not None and found[0] != found[1]:
            raise varied(path, name, [f"{number:g}" for number in found if number is not None])


def _missing_gains(path: FilePath) -> DataFileError:
    return DataFileError(path, "only some lines have a gain", hint="give every line a gain, or none.")
