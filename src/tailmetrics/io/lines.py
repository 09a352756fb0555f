"""Files whose lines name their query.

DuckDB writes the lines into a table (query, item, value), or finds the wrong line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailmetrics.io.columns import TableReading
from tailmetrics.io.database import Database, DatabaseError, joined_text, text_of
from tailmetrics.io.files import DAMAGED_HINT, EMPTY_HINT, DataFileError, FilePath
from tailmetrics.io.rows import Array, Ints

LINE = re.compile(r"(?:[Oo]n Line|in line):? (\d+)")
"""Where DuckDB's errors name a line."""
FIRST_LINES = 2**17
"""Lines in which a second rank or distance is compared with the value (0.1 s)."""
FIELDS = re.compile(r"Expected Number of Columns: (\d+) Found: (\d+)")
WORDS_HINT = (
    "every line has these words, separated by blanks; --format names another format."
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Lines:
    """The lines of a file, in order, as the parts of an SQL statement.

    Attributes:
        path: The file.
        source: The SQL after FROM.
        query: SQL of the query; null where the line names none.
        item: SQL of the item; null where the line names none.
        value: SQL of the score, the negative of the rank or distance, or the gain, null
            where it is no number; None without values.
        sql_type: SQL type of the values.
        second_order: SQL of a rank or distance that is not read, as a number; empty
            without one.
        shown_value: SQL of the text of the value, or of the line where it names no
            query.
        needed: What a value must be, in words.
        kept: The lines that count, as an SQL condition.
        arrow_source: A function that returns the Arrow table or reader that statements
            call ``given``; or None.
        entries: The entries of rows, in blocks which statements call ``given`` one
            after another; None without rows.
        row_word: What a line is called in errors.
        hint: What to do about a line that lacks something; empty for the usual hint.
        first_row: The number of the first line in errors.
        owner: An object that must live as long as this one, such as a copy of the file
            without compression.
        reading: How the columns are read.
        may_lack_items: Whether a line without an item names a query with an empty list.
        last_name_wins: Whether of equal scores the last name is first, as in trec_eval,
            else the first name.
    """

    path: FilePath
    source: str
    query: str
    item: str
    value: str | None
    sql_type: str = "DOUBLE"
    second_order: str = ""
    shown_value: str = ""
    needed: str = "a number"
    kept: str = "true"
    arrow_source: Callable[[], Any] | None = None
    entries: Callable[[], Iterable[Any]] | None = None
    row_word: str = "row"
    hint: str = ""
    first_row: int = 1
    owner: Any = None
    reading: TableReading
    may_lack_items: bool = False
    last_name_wins: bool = False

    def load(self, database: Database, table: str) -> int:
        """Add the lines to a table, and return their number.

        Raises:
            DataFileError: Naming the wrong line.
        """
        doing = f"reading {self.path.name}"
        insert = self._insert(table)
        try:
            if self.entries is not None:
                return sum(
                    database.run(insert, doing, in_order=True, given=block)
                    for block in self.entries()
                )
            self._register(database)
            return database.run(insert, doing, in_order=True)
        except DatabaseError as error:
            raise self._explained(database, error) from error

    def rows(
        self, database: Database, most: int | None = None
    ) -> list[tuple[str, str | None, float | None]]:
        """Return the first lines, or all: query, item and value."""
        self._register(database)
        statement = (
            f"SELECT {self.query}, {self.item}, {self.value or 'NULL'} FROM "
            f"{self.source} WHERE {self.kept}"
        )
        if most is not None:
            statement += f" LIMIT {most}"
        rows: list[tuple[str, str | None, float | None]] = database.rows(statement)
        return rows

    def check_orders(self, database: Database) -> None:
        """Raise if an unread rank or distance contradicts the value in the first lines.

        Raises:
            DataFileError: Naming a query.
        """
        if not self.second_order:
            return
        self._register(database)
        cells = (
            f"{self.query} AS query, {self.value} AS value, {self.second_order} "
            "AS second"
        )
        lines = database.arrays(
            f"SELECT {cells} FROM {self.source} WHERE {self.kept} LIMIT {FIRST_LINES}"
        )
        queries, rows = np.unique(lines["query"], return_inverse=True)
        row = contradicting_row(
            rows, *(np.ma.filled(lines[name], np.nan) for name in ("value", "second"))
        )
        if row is not None:
            raise contradiction(self.path, self.reading, f"query {queries[row]!r}")

    def _register(self, database: Database) -> None:
        """Make the Arrow table known to a database."""
        if self.arrow_source is not None:
            database.register("given", self.arrow_source())

    def _insert(self, table: str) -> str:
        """Return the statement that adds the lines; a missing cell is an error."""
        item = self.item
        if not self.may_lack_items:
            item = f"coalesce({item}, error('empty'))"
        cells = [f"coalesce({self.query}, error('empty'))", item]
        if self.value is not None:
            cells.append(f"coalesce({self.value}, error('empty'))")
        return (
            f"INSERT INTO {table} SELECT {', '.join(cells)} FROM {self.source} WHERE "
            f"{self.kept}"
        )

    def _explained(self, database: Database, failure: DatabaseError) -> DataFileError:
        """Return the error that names the first wrong line, else what DuckDB says."""
        value = self.value or "0"
        cells = (
            f"{self.query} AS query, {self.item} AS item, {value} AS value, "
            f"{self.kept} AS is_kept"
        )
        cells += f", ({self.shown_value or value})::VARCHAR AS shown"
        numbered = f"SELECT row_number() OVER () AS number, {cells} FROM {self.source}"
        wrong = "query IS NULL OR value IS NULL"
        if not self.may_lack_items:
            wrong += " OR item IS NULL"
        try:
            self._register(database)
            row = database.row(
                f"SELECT number, query, item, shown FROM ({numbered}) WHERE is_kept "
                f"AND ({wrong}) LIMIT 1"
            )
        except DatabaseError as error:
            return _unreadable(self.path, self.reading.opening.form, error)
        if row is None:
            return _unreadable(self.path, self.reading.opening.form, failure)

        number, query, item, text = row
        where = f"{self.row_word} {number - 1 + self.first_row}"
        return self._wrong_cell(where, query, item, text)

    def _wrong_cell(
        self, where: str, query: str | None, item: str | None, text: str | None
    ) -> DataFileError:
        """Return the error about a missing or non-numeric cell of a line."""
        reading = self.reading
        if query is None and not reading.item:
            return DataFileError(
                self.path,
                f"{text!r} is no line of {reading.content}",
                where,
                self.hint or WORDS_HINT,
            )
        name = reading.value or reading.value_role or "value"
        cells = {reading.key or "query": query}
        if not self.may_lack_items:
            cells[reading.item] = item
        cells[name] = text
        for column, cell in cells.items():
            if not cell:
                hint = (
                    "every line names its query and item, and has a number: leave out "
                    "lines that were not scored."
                )
                return DataFileError(
                    self.path, f"has no {column!r}", where, self.hint or hint
                )

        hint = f"every {name} must be {self.needed}"
        if re.fullmatch("-?[0-9]*,[0-9]+", str(text)):
            hint += ", with a decimal point"
        elif reading.value_role == "gain":
            hint += (
                "; grades in words need numbers: table[NAME].map({'no': 0, 'yes': 1})"
            )
        return DataFileError(
            self.path, f"{name} {text!r} is not {self.needed}", where, f"{hint}."
        )


def cells_of(
    reading: TableReading, column: Callable[[str], str], is_text: bool = False
) -> dict[str, Any]:
    """Return the arguments of :class:`Lines` with the places of query, item and value.

    Args:
        reading: How the columns are read.
        column: Returns the SQL name of a column.
        is_text: Whether the cells are text.
    """
    queries = [text_of(column(name)) for name in reading.query or (reading.item,)]
    cells: dict[str, Any] = {
        "reading": reading,
        "query": joined_text(queries),
        "item": text_of(column(reading.item)),
        "value": None,
    }
    if reading.value is not None:
        name = column(reading.value)
        cells["shown_value"] = name
        number = f"try_cast({name} AS DOUBLE)"
        if is_text:  # pandas and JSON write True and true
            number = (
                f"CASE lower({name}) WHEN 'true' THEN 1 WHEN 'false' THEN 0 ELSE "
                f"{number} END"
            )
        cells["value"] = f"{reading.sign}{number}"
    if reading.second_order is not None:
        cells["second_order"] = f"try_cast({column(reading.second_order)} AS DOUBLE)"
    return cells


def _unreadable(path: FilePath, form: str, error: DatabaseError) -> DataFileError:
    """Return the error about a file that DuckDB cannot read."""
    where = ""
    line = LINE.search(error.message)
    if line:
        where = f"line {line[1]}"
    counts = FIELDS.search(error.message)
    if counts:
        problem = f"there are {counts[2]} fields, but {counts[1]} columns"
        return DataFileError(
            path,
            problem,
            where,
            "give every line a field for each column, or --delimiter.",
        )
    if "reached an invalid state" in error.message:
        hint = (
            "give all lines the same end; dos2unix writes a file of text with the "
            "end of Linux."
        )
        return DataFileError(path, "has lines that end in different ways", where, hint)
    if "unterminated quote" in error.message:
        hint = (
            "a field in quotes begins and ends with one, with quotes inside it "
            "doubled; TSV has no quotes."
        )
        return DataFileError(path, "has a quote that does not close", where, hint)
    if "not utf-8" in error.message or "Invalid unicode" in error.message:
        return DataFileError(
            path,
            "is not UTF-8 text",
            where,
            "convert the file to UTF-8, or name its format.",
        )
    cause = error.message.partition("\n")[0].partition(": ")[2] or error.message
    cause = cause.replace(f'file "{path}", ', "")
    return DataFileError(
        path, f"cannot be read as {form}: {cause}", where, DAMAGED_HINT
    )


def contradicting_row(rows: Ints, values: Array, second: Array) -> int | None:
    """Return a row whose values and second order contradict; None without one.

    One of two items in such a row has a higher value and a higher rank or distance.

    Args:
        rows: The row of each item.
        values: Shape (n,), values of which the highest is best.
        second: Shape (n,), the rank or distance of each item; NaN where there is none.
    """
    is_known = ~(np.isnan(values) | np.isnan(second))
    rows, values, second = rows[is_known], values[is_known], second[is_known]
    order = np.lexsort((-values, second, rows))
    is_inside = np.diff(rows[order]) == 0
    is_wrong = is_inside & (np.diff(second[order]) > 0) & (np.diff(values[order]) > 0)
    if not is_wrong.any():
        return None
    return int(rows[order][is_wrong.argmax()])


def contradiction(path: FilePath, reading: TableReading, where: str) -> DataFileError:
    """Return the error about two columns that order the items differently."""
    problem = (
        f"{reading.value!r} and {reading.second_order!r} order the items differently"
    )
    return DataFileError(path, problem, where, reading.contradiction_hint())


@dataclass(frozen=True, eq=False)
class LineFiles:
    """Files whose lines name their query, read one after another.

    Attributes:
        name: One name for all files, in errors.
        parts: The lines of each file.
    """

    name: FilePath
    parts: Sequence[Lines]

    @property
    def reading(self) -> TableReading:
        """How the columns of the first part are read."""
        return self.parts[0].reading

    @property
    def has_values(self) -> bool:
        """Whether lines have values."""
        return self.parts[0].value is not None

    def load(self, database: Database, table: str, may_be_empty: bool = False) -> int:
        """Write query, item and value of every line into a new table.

        ``rowid`` numbers the lines from 0. Return the number of lines.

        Raises:
            DataFileError: If a cell is missing or wrong, or the files have different
                kinds of values.
        """
        first = self.parts[0]
        columns = "query VARCHAR, item VARCHAR"
        if first.value is not None:
            sql_types = {part.sql_type for part in self.parts}
            sql_type = first.sql_type if len(sql_types) == 1 else "DOUBLE"
            columns += f", value {sql_type}"
        database.run(f"CREATE TABLE {table} ({columns})")
        count = 0
        for part in self.parts:
            if (part.reading.value_role, part.value is None) != (
                first.reading.value_role,
                first.value is None,
            ):
                problem = f"{part.reading}, unlike {first.path.name}: {first.reading}"
                raise DataFileError(
                    part.path, problem, hint="all parts need the same form."
                )
            count += part.load(database, table)
        if not count and not may_be_empty:
            raise DataFileError(self.name, "holds no rows", hint=EMPTY_HINT)
        if self.has_values:
            for part in self.parts:
                part.check_orders(database)
        return count

    def notes(self, database: Database, table: str, count: int) -> tuple[str, ...]:
        """Return notes on ``count`` lines in a table, for readers of the numbers.

        Raises:
            DataFileError: If scores count the lines of each query, as ranks do.
        """
        if not self.has_values:
            return ()
        return *self._notes_on_scores(database, table), *self._note_on_zeros(
            database, table, count
        )

    def _note_on_zeros(
        self, database: Database, table: str, count: int
    ) -> tuple[str, ...]:
        """Return a note on targets with the gain 0, which qrels and LETOR list, too.

        Lists have no lines to count.
        """
        is_gain = (
            self.reading.value_role == "gain"
            and self.reading.value is not None
            and bool(self.reading.item)
        )
        if not is_gain or self.parts[0].may_lack_items:
            return ()
        (zeros,) = database.row(f"SELECT count(*) FROM {table} WHERE value = 0")
        if not zeros:
            return ()
        note = (
            f"{zeros:,} of {count:,} lines have the gain 0 and do not count; "
            "--columns.gain none counts each line."
        )
        return (f"{self.name}: {note}",)

    def _notes_on_scores(self, database: Database, table: str) -> tuple[str, ...]:
        """Return a note if the scores of a run without columns look like ranks.

        Such scores number the lines of most queries.

        Raises:
            DataFileError: If the scores of a column do so from the first line to the
                last.
        """
        reading = self.reading
        if reading.value_role != "score" or reading.is_named("score"):
            return ()
        if (
            database.row(f"SELECT 1 FROM {table} WHERE value <> floor(value) LIMIT 1")
            is not None
        ):
            return ()
        is_like_ranks = "first = low AND last = high"
        if reading.value is None:
            is_like_ranks = "NOT (first = high AND last = low)"
        (share,) = database.row(
            "SELECT avg((low IN (0, 1) AND high - low = n - 1 AND distinct_values = n "
            f"AND {is_like_ranks})::INTEGER) FROM (SELECT count(*) AS n, "
            "count(DISTINCT value) AS distinct_values, min(value) AS low, max(value) "
            "AS high, arg_min(value, rowid) AS first, arg_max(value, rowid) AS last "
            f"FROM {table} GROUP BY query) WHERE n > 2"
        )
        if (share or 0) <= 0.5:
            return ()
        if reading.value is not None:
            problem = (
                f"{reading.value!r} counts the lines of each query, as ranks do: 1 "
                "the best, or the worst"
            )
            raise DataFileError(self.name, problem, hint=reading.rising_hint("rank"))
        note = (
            "the scores number the items of most queries, 1, 2, 3 …, as ranks do, and "
            "the highest is ranked first"
        )
        return (f"{self.name}: {note}; if they are ranks, {reading.run_hint()}.",)
