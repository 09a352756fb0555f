"""Text files whose lines name their query: CSV and its kin, lists, TREC, MS MARCO and JSON Lines, read by DuckDB.

Every record is one line. In CSV a field may stand in double quotes, within its line; in TSV a quote is a character like
any other. What does not keep to that is refused with its line, because a quote left open would swallow the lines below.

TREC files keep to the conventions of NIST's trec_eval. The rank column of a run is not looked at: lines are ordered by
score, which trec_eval holds in single precision. A grade of 0 or less is not relevant. Fields are separated by blanks,
what stands behind the tag of a run is not read, and a line that begins with ``#`` is a comment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tailmetrics.io.columns import USUAL, Chosen, Columns, choose, is_usual
from tailmetrics.io.database import Database, literal, named, quoted, trimmed
from tailmetrics.io.errors import DataFileError, note, reading
from tailmetrics.io.files import FilePath, Plain, check_file, folder_for, stream
from tailmetrics.io.formats import EARLIEST, Head, Opening, is_qrels, is_run, names_lists, split
from tailmetrics.io.lines import Lines, Opened, Triples
from tailmetrics.io.rows import Array

LARGEST = 2**63 - 1
LONGEST = 2 * 10**6
"""Bytes of a line at most, as DuckDB has it."""
BLOCK_BYTES = 2**20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
QUOTE_HINT = (
    "a field in quotes begins and ends with one and stays on its line, with quotes inside it doubled; write the file "
    "without this column, or as TSV, which has no quotes."
)
SEPARATORS = {",": "commas", "\t": "tabs", ";": "semicolons", "::": "::"}
RECORD_HINT = 'a line is one object, such as {"query": "q1", "item": 7, "score": 0.5}.'
RECORDS = 2**14
"""Objects that are parsed by Python at a time."""


def numbered_lines(path: FilePath) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file that hold anything, with their numbers from 1; LF, CR LF or CR ends a line.

    Raises:
        DataFileError: If one is not UTF-8, or longer than DuckDB reads.
    """
    number, rest, begun = 0, b"", False
    with stream(path) as file:
        while True:
            block = bytes(file.read(BLOCK_BYTES))
            block, begun = block if begun else block.removeprefix(BYTE_ORDER_MARK), True
            whole = (rest + block).splitlines(keepends=True)
            rest = whole.pop() if block and whole else b""  # it may go on, or be a CR before its LF
            for line in whole:
                number += 1
                yield from _decoded(path, number, line.rstrip(b"\r\n"))
            if len(rest) > LONGEST:
                problem = f"is longer than {LONGEST:,} bytes"
                raise DataFileError(path, problem, f"line {number + 1}", "is it a text file, with ends of lines?")
            if not block:
                return


def _decoded(path: FilePath, number: int, line: bytes) -> Iterator[tuple[int, str]]:
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        hint = "text files are read as UTF-8: convert the file, or name its format."
        raise DataFileError(path, "is not UTF-8 text", f"line {number}", hint) from error
    if text.strip():
        yield number, text


def _record(path: FilePath, record: int, skipped: int = 0) -> tuple[int, str]:
    """Return number and text of a line: blank ones and the first ``skipped`` ones do not count."""
    lines = (pair for pair in numbered_lines(path) if pair[0] > skipped)
    return next((pair for index, pair in enumerate(lines) if index == record), (0, ""))


def _place(path: FilePath, record: int, skipped: int = 0) -> str:
    return f"line {_record(path, record, skipped)[0]}"


def evened(path: FilePath) -> Plain:
    """Return a copy in which a line feed ends each line and nothing stands on those that hold but blanks."""
    plain = Plain(path)
    copy = folder_for(plain) / "even"
    last = 1
    with copy.open("w", encoding="utf-8", newline="") as file:
        for number, text in numbered_lines(path):
            file.write("\n" * (number - last) + text.rstrip("\r"))
            last = number
    plain.path = copy
    return plain


def wrong_number(path: FilePath, name: str, text: str, place: str, needed: str = "a number") -> DataFileError:
    """Return the error for a field that is not a number."""
    return DataFileError(path, f"{name} {text.strip()!r} is not {needed}", place, f"every {name} must be {needed}.")


def _check_text(path: FilePath) -> None:
    """Raise if a line is not UTF-8, or too long."""
    for _ in numbered_lines(path):
        pass


# -- CSV, TSV and lists -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """A text file of columns.

    Attributes:
        path: The file.
        form: What an error calls its format.
        delimiter: What stands between fields.
        header: Names of the columns; their places, from 0, where the file does not name them.
        skipped: Lines up to the names, included; 0 where there are none.
    """

    path: FilePath
    form: str
    delimiter: str
    header: list[str]
    skipped: int

    @classmethod
    def of(cls, asked: Opening, form: str) -> Table:
        """Return a table by its first lines; a note says what columns without names are taken for."""
        path, role, columns, _ = asked
        head = Head(path, columns)
        number, first = _record(path, 0)
        delimiter = head.delimiter(first, form)
        if delimiter in (",", ";") and first.count('"') % 2:
            raise DataFileError(path, "has a quote that does not close", f"line {number}", QUOTE_HINT)
        fields = split(first, delimiter)
        if head.has_names(fields):
            return cls(path, form, delimiter, [_untyped(name) for name in fields], number)
        if columns.by_place:
            return cls(path, form, delimiter, [str(place) for place in range(len(fields))], 0)
        header = head.guessed(delimiter, "gain" if role == "target" else "score")
        if role is not None:
            said = ", ".join(f"column {place} is the {name}" for place, name in enumerate(header))
            note(path, f"has no line of names: {said}; columns=Columns(query='0', item='1') chooses others.")
        return cls(path, form, delimiter, header, 0)

    @property
    def where(self) -> str:
        """How an error names the line of the names."""
        return f"line {self.skipped}" if self.skipped else "line 1"

    @property
    def quotes(self) -> bool:
        """Whether fields can stand in quotes."""
        return self.delimiter in (",", ";")

    def source(self, plain: Plain, numbers: Sequence[str] = ()) -> str:
        """Return the table as SQL reads it, its columns ``c0``, ``c1``, …; those of numbers as such."""
        kinds = {f"c{place}": "DOUBLE" if name in numbers else "VARCHAR" for place, name in enumerate(self.header)}
        quote = '"' if self.quotes else ""
        return read_csv(plain, self.delimiter, kinds, quote, self.skipped)

    def check_quotes(self, plain: Plain, database: Database) -> None:
        """Raise if a field in quotes goes on in the next line, which a forgotten quote looks like."""
        if not self.quotes or not _holds(self.path, b'"'):
            return
        whole = f"concat({', '.join(f'c{place}' for place in range(len(self.header)))})"
        with database.in_order():
            found = database.row(
                f"SELECT record FROM (SELECT row_number() OVER () AS record, {whole} AS whole FROM "
                f"{self.source(plain)}) WHERE contains(whole, chr(10)) LIMIT 1"
            )
        if found is not None:
            place = _place(self.path, found[0] - 1, self.skipped)
            raise DataFileError(self.path, "has a quote that does not close", place, QUOTE_HINT)

    def rejected(self, line: int, text: str, reason: str, column: str | None) -> DataFileError:
        """Return the error of a line that the reader of CSV rejects."""
        _check_text(self.path)
        place = f"line {line}"
        if "QUOTE" in reason:
            return DataFileError(self.path, "has a quote that does not close", place, QUOTE_HINT)
        lines = (text for number, text in numbered_lines(self.path) if number == line)
        fields = split(next(lines, text), self.delimiter)
        if "COLUMNS" in reason:
            problem = f"there are {len(fields)} fields, but {len(self.header)} names of columns"
            hint = f"fields are separated by {SEPARATORS[self.delimiter]}; {self.where} names the columns."
            return DataFileError(self.path, problem, place, hint)
        at = int(column[1:]) if column is not None else len(fields)
        if reason == "CAST" and at < len(fields):
            return wrong_number(self.path, self.header[at], fields[at], place)
        return DataFileError(self.path, f"cannot be read as {self.form}: {reason.lower()}", place, "correct the line.")

    def lines(self, fields: Mapping[str, str], value: str | None, plain: Plain | None = None) -> Lines:
        """Return the lines, of which ``fields`` says what the columns query, item and value are.

        Lines that do not all end alike, or hold but blanks, are tried once more in a copy.
        """
        otherwise = None if plain is not None else lambda: self.lines(fields, value, evened(self.path))
        plain = plain or Plain(self.path)
        places = {field: f"c{self.header.index(name)}" for field, name in fields.items()}
        number, as_numbers = places.get("value", ""), [fields["value"]] if value else []
        if value and _holds(self.path, b"_"):  # the reader of CSV takes 1_0 for 10
            number, as_numbers = plain_number(number), []
        return Lines(
            form=self.form,
            source=self.source(plain, as_numbers),
            query=trimmed(places["query"]),
            item=trimmed(places["item"]),
            value=value and value.format(number),
            check=partial(self.check_quotes, plain),
            wrong=partial(self.wrong, fields),
            place=self.place,
            rejected=self.rejected,
            otherwise=otherwise,
        )

    def place(self, record: int) -> str:
        """Return how an error names a record."""
        return _place(self.path, record, self.skipped)

    def wrong(self, fields: Mapping[str, str], record: int, field: str) -> DataFileError:
        """Return the error of a record in which a field is empty, or no number."""
        place = self.place(record)
        if field == "value":
            line = next((text for number, text in numbered_lines(self.path) if f"line {number}" == place), "")
            at = self.header.index(fields[field])
            return wrong_number(
                self.path, fields[field], dict(enumerate(split(line, self.delimiter))).get(at, ""), place
            )
        return DataFileError(self.path, f"the {field} is empty", place, f"every line names its {field}.")


def read_csv(plain: Plain, delimiter: str, kinds: Mapping[str, str], quote: str = "", skipped: int = 0) -> str:
    """Return a file as DuckDB's reader of CSV reads it, keeping what it rejects."""
    columns = ", ".join(f"{literal(name)}: {literal(kind)}" for name, kind in kinds.items())
    return (
        f"read_csv({named(plain.path)}, delim={literal(delimiter)}, quote={literal(quote)}, escape={literal(quote)}, "
        f"columns={{{columns}}}, auto_detect=false, header=false, skip={skipped}, store_rejects=true, "
        "compression='none')"
    )


def read_table(asked: Opening, form: str = "CSV") -> Lines:
    """Read a CSV file, or one like it: a query, an item and perhaps a score or gain on every line."""
    path = check_file(asked.path)
    with reading(path, form):
        table = Table.of(asked, form)
        columns = asked.columns if table.skipped or asked.columns.by_place else Columns()
        fields = choose(path, table.header, asked.role, columns, table.where)
        return table.lines(fields.by_field, None if fields.value is None else "-{}" if fields.is_rank else "{}")


def read_tsv(asked: Opening) -> Lines:
    """Read a TSV file."""
    return read_table(asked, "TSV")


def read_lists(asked: Opening) -> Lines:
    """Read lists of predictions, the best first, or of targets: a query and its labels on every line."""
    path = check_file(asked.path)
    with reading(path, "lists"):
        table = Table.of(asked, "lists")
        query, listed = _columns_of_lists(table, asked.columns)
    if asked.role is not None:
        said = f"column {table.header[query]!r} is the query, {table.header[listed]!r} the list of its labels"
        note(path, f"{said}; format='csv' reads pairs.")
    return _lists(table, query, listed, asked.role == "preds")


def _lists(table: Table, query: int, listed: int, ranked: bool, copy: Plain | None = None) -> Lines:
    plain = copy or Plain(table.path)
    text = trimmed(f"c{listed}")
    numbered = (
        f"SELECT row_number() OVER () - 1 AS record, {trimmed(f'c{query}')} AS query, "
        f"CASE WHEN {text} <> '' THEN string_split_regex({text}, '[ \\t\\r]+') ELSE [NULL] END AS words "
        f"FROM {table.source(plain)}"
    )
    entries = "SELECT record, query, unnest(words) AS item, unnest(range(len(words))) AS place"
    return Lines(
        form="lists",
        source=f"({entries} FROM ({numbered}))",
        query="query",
        item="item",
        value="-place::DOUBLE" if ranked else None,
        has_empty_lists=True,
        check=partial(_check_lists, table, plain, numbered),
        wrong=partial(table.wrong, {}),
        place=table.place,
        rejected=table.rejected,
        recorded=True,
        otherwise=None if copy else lambda: _lists(table, query, listed, ranked, evened(table.path)),
    )


def _check_lists(table: Table, plain: Plain, numbered: str, database: Database) -> None:
    """Raise if a query has two lists."""
    table.check_quotes(plain, database)
    with database.in_order():
        twice = database.row(
            f"SELECT query, min(record) AS first FROM ({numbered}) GROUP BY 1 HAVING count(*) > 1 ORDER BY 2 LIMIT 1"
        )
        if twice is not None:
            (second,) = database.row(f"SELECT record FROM ({numbered}) WHERE query = ? AND record > ? LIMIT 1", *twice)
            hint = "a query has one line, with all of its list; format='csv' reads pairs of query and item."
            raise DataFileError(table.path, f"has a second list of query {twice[0]!r}", table.place(second), hint)


def _columns_of_lists(table: Table, columns: Any) -> tuple[int, int]:
    if len(table.header) != 2:
        problem = f"has {len(table.header)} columns, not 2"
        raise DataFileError(table.path, problem, table.where, "a line is a query and the labels of its list: id,a b c.")
    if not table.skipped or not names_lists(table.header):
        first = split(_record(table.path, 0)[1], table.delimiter)
        problem = f"{' and '.join(map(repr, first))} are no names of columns"
        raise DataFileError(table.path, problem, table.where, "the first line names the two columns: id,predicted.")
    query = 1 if columns.query == table.header[1] or columns.item == table.header[0] else 0
    return query, 1 - query


def _untyped(name: str) -> str:
    """Return the name of a column without the type that RecBole writes behind it, such as ``user_id:token``."""
    return re.sub(r":(token|float)(_seq)?$", "", name)


def plain_number(text: str) -> str:
    """Return SQL of the number that a text is; null where it is none, or written with ``_`` as in Python."""
    return f"CASE WHEN NOT contains({text}, '_') THEN try_cast({text} AS DOUBLE) END"


def _holds(path: FilePath, what: bytes) -> bool:
    with stream(path) as file:
        return any(what in block for block in iter(lambda: bytes(file.read(BLOCK_BYTES)), b""))


# -- TREC and MS MARCO ------------------------------------------------------------------------------------------------

WHOLE = "[+-]?[0-9]{1,18}"


@dataclass(frozen=True)
class Layout:
    """The fields of a line that blanks separate.

    Attributes:
        form: What an error calls the format.
        names: All of them; the first is the query.
        item: Place of the document.
        number: Place of its score, grade or rank.
        value: Expression of the value, of the number ``n``.
        kind: Type of the value.
        whole: Whether the number is whole.
        open_ended: Whether more may stand behind them.
    """

    form: str
    names: tuple[str, ...]
    item: int
    number: int
    value: str
    kind: str = "DOUBLE"
    whole: bool = True
    open_ended: bool = False


SINGLE = "(CASE WHEN abs(n) >= 3.40282357e38 THEN sign(n) * 'inf'::DOUBLE ELSE n END)::FLOAT"
"""A score in single precision, in which what is too large is infinite."""
RUN = Layout(
    "a TREC run", ("query", "Q0", "document", "rank", "score", "tag"), 2, 4, SINGLE, "FLOAT", False, open_ended=True
)
GRADE = f"CASE WHEN n < {EARLIEST} THEN greatest(n, 0) END"
QRELS = Layout("a TREC qrels file", ("query", "iteration", "document", "grade"), 2, 3, GRADE)
MSMARCO = Layout("a ranked list of MS MARCO", ("query", "passage", "rank"), 1, 2, "CASE WHEN n >= 1 THEN -n END")


def read_trec(asked: Opening) -> Lines:
    """Read (query, document, score) of a run, or (query, document, grade) of qrels."""
    path = check_file(asked.path)
    run = is_run(Head(path)) if asked.role is None else asked.role == "preds"
    return _fields(path, RUN if run else QRELS)


def read_msmarco(asked: Opening) -> Lines:
    """Read (query, passage, minus rank) of a ranked list; its targets are TREC qrels."""
    path = check_file(asked.path)
    if asked.role == "target" or (asked.role is None and is_qrels(Head(path))):
        return read_trec(asked)
    return _fields(path, MSMARCO)


def _fields(path: FilePath, layout: Layout) -> Lines:
    """Read lines that are all alike, one blank or tab between fields; others are cut word by word."""
    with reading(path, layout.form):
        plain = Plain(path)
        separator, other = ("\t", " ") if "\t" in next(iter(Head(path).lines), "") else (" ", "\t")
    kinds = {f"c{place}": "VARCHAR" for place in range(len(layout.names))}
    if not layout.whole:
        kinds[f"c{layout.number}"] = "DOUBLE"
    number = f"c{layout.number}"
    return Lines(
        form=layout.form,
        source=read_csv(plain, separator, kinds),
        query=f"CASE WHEN NOT (starts_with(c0, '#') OR contains(c0 || c{layout.item}, {literal(other)})) THEN c0 END",
        item=f"c{layout.item}",
        value=_valued(layout, number),
        kind=layout.kind,
        wrong=lambda *_: DataFileError(path, "is uneven"),  # and read again
        place=partial(_place, path),
        kept=plain,
        rejected=lambda *_: DataFileError(path, "is uneven"),
        otherwise=lambda: _words(path, plain, layout),
    )


def _valued(layout: Layout, text: str) -> str:
    number = f"CASE WHEN regexp_full_match({text}, '{WHOLE}') THEN {text}::BIGINT END" if layout.whole else text
    return re.sub(r"\bn\b", f"({number})", layout.value)


def _words(path: FilePath, plain: Plain, layout: Layout, is_even: bool = False) -> Lines:
    """Read lines that blanks separate in any way."""
    blanks = rb"' \t\r\v\f'".decode("unicode_escape")
    numbered = (
        f"SELECT row_number() OVER () - 1 AS record, trim(line, {blanks}) AS line "
        f"FROM {read_csv(plain, chr(1), {'line': 'VARCHAR'})}"
    )
    cut = (
        r"SELECT record, string_split_regex(line, '[ \t\v\f\r]+') AS words "
        f"FROM ({numbered}) WHERE line <> '' AND NOT starts_with(line, '#')"
    )
    count, compared = len(layout.names), ">=" if layout.open_ended else "="
    number = f"words[{layout.number + 1}]"
    if not layout.whole:
        number = plain_number(number)
    return Lines(
        form=layout.form,
        source=f"({cut})",
        query=f"CASE WHEN len(words) {compared} {count} THEN words[1] END",
        item=f"words[{layout.item + 1}]",
        value=_valued(layout, number),
        kind=layout.kind,
        wrong=partial(_wrong_words, path, layout),
        place=lambda record: f"line {record + 1}",
        kept=plain,
        rejected=lambda line, _, reason, __: _unread(path, line, reason),
        recorded=True,
        otherwise=None if is_even else lambda: _words(path, evened(path), layout, is_even=True),
    )


def _unread(path: FilePath, line: int, reason: str) -> DataFileError:
    _check_text(path)
    return DataFileError(path, f"cannot be read as text: {reason.lower()}", f"line {line}", "is it a text file?")


def _wrong_words(path: FilePath, layout: Layout, record: int, field: str) -> DataFileError:
    place = f"line {record + 1}"
    words = next((text.split() for number, text in numbered_lines(path) if number == record + 1), [])
    if field != "value":
        problem = f"there are {len(words)} fields, not {len(layout.names)}"
        return DataFileError(path, problem, place, f"a line is: {' '.join(layout.names)}.")
    name, word = layout.names[layout.number], words[layout.number]
    if layout.whole and re.fullmatch(WHOLE, word):
        if name == "rank":
            return DataFileError(path, f"holds the rank {word}", place, "ranks count from 1, the best.")
        hint = "lines 'user item rating time' are no qrels: name their format, tsv or csv."
        return DataFileError(path, f"holds the time {word} as a grade", place, hint)
    return wrong_number(path, name, word, place, f"a whole number of at most {LARGEST}" if layout.whole else "a number")


# -- JSON Lines -------------------------------------------------------------------------------------------------------


def read_jsonl(asked: Opening) -> Opened:
    """Read a JSON Lines file; its first lines tell the names of the fields."""
    path, role, columns, _ = asked
    check_file(path)
    with reading(path, "JSON Lines"):
        head = Head(path)
        try:
            records = [json.loads(line) for line in head.lines]
        except (ValueError, RecursionError):
            records = []
        if head.data.startswith(BYTE_ORDER_MARK) or not all(isinstance(one, dict) for one in records) or not records:
            return _records(asked)
        fields = choose(path, _names(records), role, columns, "line 1")
        plain = Plain(path)
    extra = USUAL["gain"].split() if role == "target" and fields.value is None else []
    names = list(dict.fromkeys([*fields.names, *extra]))
    kinds = ", ".join(f"{literal(name)}: 'JSON'" for name in names)
    source = (
        f"read_json({named(plain.path)}, format='newline_delimited', columns={{{kinds}}}, compression='none', "
        f"maximum_object_size={LONGEST})"
    )
    ungraded = "".join(f" AND {quoted(name)} IS NULL" for name in extra)
    value = fields.value and (
        f"CASE WHEN json_type({quoted(fields.value)}) IN ('UBIGINT', 'BIGINT', 'DOUBLE') "
        f"THEN {quoted(fields.value)}::DOUBLE END"
    )
    return Lines(
        form="JSON Lines",
        source=source,
        query=_id(fields.query, ungraded),
        item=_id(fields.item),
        value=value and (f"-({value})" if fields.is_rank else value),
        wrong=lambda *_: DataFileError(path, "is uneven"),
        place=partial(_place, path),
        kept=plain,
        otherwise=lambda: _records(asked),
    )


def _id(name: str, more: str = "") -> str:
    """Return a string or a whole number as text; null if it is neither."""
    one = quoted(name)
    return f"CASE WHEN json_type({one}) IN ('VARCHAR', 'UBIGINT', 'BIGINT'){more} THEN {one} ->> '$' END"


def _names(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of all fields, in the order in which they are met."""
    return list(dict.fromkeys(name for record in records for name in record))


def _records(asked: Opening) -> Iterator[Triples]:
    """Yield the lines of a JSON Lines file, each parsed by itself, which says what is wrong with which of them."""
    fields: Chosen | None = None
    found: list[tuple[int, dict[str, Any]]] = []
    with reading(asked.path, "JSON Lines"):
        for number, text in numbered_lines(asked.path):
            found.append((number, _object(asked.path, number, text)))
            if len(found) == RECORDS:
                fields = fields or _chosen(asked, found)
                yield _triples(asked, fields, found)
                found = []
        if found:
            yield _triples(asked, fields or _chosen(asked, found), found)


def _chosen(asked: Opening, found: Sequence[tuple[int, dict[str, Any]]]) -> Chosen:
    return choose(asked.path, _names([one for _, one in found]), asked.role, asked.columns, f"line {found[0][0]}")


def _object(path: FilePath, number: int, text: str) -> dict[str, Any]:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataFileError(path, f"is not JSON: {error}", f"line {number}", RECORD_HINT) from None
    if not isinstance(record, dict):
        raise DataFileError(path, "is not a JSON object", f"line {number}", RECORD_HINT)
    return record


def _triples(asked: Opening, fields: Chosen, found: Sequence[tuple[int, dict[str, Any]]]) -> Triples:
    import pyarrow as pa

    wanted: dict[str, tuple[tuple[type, ...], str]] = dict.fromkeys(
        (fields.query, fields.item), ((str, int), "a string or a whole number")
    )
    if fields.value is not None:
        wanted[fields.value] = (int, float), "a number"
    ungraded = asked.role == "target" and fields.value is None
    for number, record in found:
        for name, (kinds, needed) in wanted.items():
            if type(record.get(name)) not in kinds:
                held = json.dumps(record[name]) if name in record else "missing"
                raise DataFileError(asked.path, f"{name!r} is {held}, not {needed}", f"line {number}", RECORD_HINT)
        if ungraded and any(is_usual(name, "gain") for name in record):
            problem = "has a gain, but lines before it have none"
            raise DataFileError(asked.path, problem, f"line {number}", RECORD_HINT)
    query, item = (pa.array([str(one[name]) for _, one in found], pa.string()) for name in (fields.query, fields.item))
    value: Array | None = None
    if fields.value is not None:
        value = fields.scores(np.array([float(one[fields.value]) for _, one in found]))
    return Triples(query, item, value, lambda index: f"line {found[index][0]}")
