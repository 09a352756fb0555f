r"""Text files of lines: CSV, TSV, TREC, MS MARCO and LETOR.

DuckDB reads them. CSV is RFC 4180 with a line of names; its separator is the given one,
else a comma, else the one that the line of names holds. TSV has no quotes. A list in a
cell needs ``list_delimiter``.

TREC files follow the conventions of NIST's trec_eval. The rank column of a run is
ignored: lines are ordered by score, in single precision as in trec_eval. An item with a
grade of 0 or less is not relevant. Fields are separated by blanks, and text after the
tag of a run is ignored.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from io import TextIOWrapper
from itertools import count
from mmap import ACCESS_READ, mmap
from shlex import quote
from typing import Any

from tailmetrics.io.columns import (
    LIST_DELIMITER,
    UNQUOTED_SEPARATORS,
    Column,
    TableReading,
    assign_roles,
    has_known_names,
    names_in_words,
)
from tailmetrics.io.database import Database, literal, named, quoted
from tailmetrics.io.files import DataFileError, FilePath, Plain, head, stream
from tailmetrics.io.forms import Opening
from tailmetrics.io.lines import Lines, cells_of
from tailmetrics.io.lists import ListSource
from tailmetrics.io.rows import Source
from tailmetrics.io.tables import written

LARGEST = 2**63 - 1
LONGEST = 2 * 10**6
"""Bytes of a line at most.

DuckDB allocates many times as much at once, and 64 MiB must suffice.
"""
BUFFER = 8 * LONGEST
"""Bytes per read of DuckDB; its default is 16 or 32 times the longest line."""
BLANK = " \t\v\f\r"
NOT_UTF_8 = re.compile("[\udc80-\udcff]")
"""What Python puts in the place of bytes that are no UTF-8."""
SEPARATORS = (",", ";", "\t")
"""Separators of CSV, in the order in which the line of names is searched for them."""
LIST_SEPARATORS = (",", ";", "|", "\t")
"""Usual separators of the entries of lists; a blank is in many names."""
CHECKED_CELLS = 1000
"""First lists that are searched for another separator than the given one."""
FEW_CELLS = 0.1
"""Share of lists that may hold another separator, as in a label 'Romance, Paris'."""
QUOTED = r'"([^"]|"")*"'
"""A cell in quotes, as writers of CSV write it: they double quotes inside."""
BRACKETED = r"\s*\[(.|\n)*\]\s*"
"""A cell that pandas or JSON wrote from a list, such as "['a', 'b']"."""


# -- lines of text ---------------------------------------------------------------------


def every_line(path: FilePath, longest: int = LONGEST) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file with their numbers from 1.

    Raises:
        DataFileError: If a line is not UTF-8, or has more than ``longest`` bytes.
    """
    with (
        stream(path) as file,
        TextIOWrapper(file, "utf-8-sig", "surrogateescape") as text,
    ):
        for number in count(1):
            line = text.readline(longest + 1)
            if len(line) > longest and line[-1] != "\n":
                problem = f"is longer than {longest:,} bytes"
                raise DataFileError(
                    path,
                    problem,
                    f"line {number}",
                    "is it a text file, with ends of lines?",
                )
            if not line.isascii() and NOT_UTF_8.search(line):
                hint = (
                    "text files are read as UTF-8: convert the file, or name "
                    "its format."
                )
                raise DataFileError(path, "is not UTF-8 text", f"line {number}", hint)
            if not line:
                return
            yield number, line.removesuffix("\n")


def numbered_lines(path: FilePath) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file that are not blank, with their numbers."""
    for number, text in every_line(path):
        if text.strip(BLANK):
            yield number, text


def parse_int64(path: FilePath, name: str, text: str, line: int) -> int:
    """Parse a whole number of 64 bits; a label must not have a plus sign.

    Raises:
        DataFileError: If the text is not such a number.
    """
    text = text.strip(BLANK)
    signs = "-?" if "label" in name else "[+-]?"
    # length is tested first: Python takes quadratic time for thousands of digits; 24
    # characters leave room for zeros
    if (
        len(text) < 25
        and re.fullmatch(f"{signs}[0-9]+", text)
        and abs(int(text)) <= LARGEST
    ):
        return int(text)
    needed = f"a whole number of at most {LARGEST}"
    raise DataFileError(
        path,
        f"{name} {text!r} is not {needed}",
        f"line {line}",
        f"every {name} must be {needed}.",
    )


# -- CSV and TSV -----------------------------------------------------------------------


class TextTable:
    """A CSV or TSV file.

    Attributes:
        path: The file.
        separator: The separator of its fields.
        columns: Its columns: the names in the first line, or places from 0.
        has_names: Whether the first line names the columns.
    """

    def __init__(self, opening: Opening) -> None:
        self.path = opening.path
        self._plain = Plain(self.path)
        first = _first_line(self.path)
        self._is_quoted = opening.form == "csv"
        self.separator = _separator(opening, first)
        cells = self._split(first)
        self.has_names = not opening.columns.by_place
        if self.has_names:
            names = cells
        else:
            names = [str(place) for place in range(len(cells))]
            _check_no_names(opening, cells)
        self.columns = [Column(name) for name in names]

    def _split(self, line: str) -> list[str]:
        """Return the cells of a line."""
        if self._is_quoted and len(self.separator) == 1:
            return next(csv.reader([line], delimiter=self.separator), [])
        return line.split(self.separator)

    def place(self, name: str) -> str:
        """Return the SQL name of a column: names in SQL ignore case.

        Raises:
            DataFileError: If two columns have this name.
        """
        names = [column.name for column in self.columns]
        if names.count(name) > 1:
            hint = "give every column a name of its own."
            raise DataFileError(self.path, f"has two columns {name!r}", "line 1", hint)
        return f"c{names.index(name)}"

    def rows(self, *names: str) -> list[Any]:
        """Return the cells of some columns as text, line by line."""
        cells = ", ".join(f"coalesce({self.place(name)}, '')" for name in names)
        return Database().rows(f"SELECT {cells} FROM {self.source}")

    def check_no_quotes(self, opening: Opening, names: Sequence[str]) -> None:
        """Raise if a cell of these columns is in quotes although its format has none.

        The quotes would be part of a name, which has no match in other files.
        """
        if self._is_quoted or not names or not self._holds_quotes():
            return
        cells = [self.place(name) for name in names]
        conditions = [f"regexp_full_match({cell}, {literal(QUOTED)})" for cell in cells]
        row = Database(opening.forms.memory).row(
            f"SELECT {', '.join(cells)} FROM {self.source} WHERE "
            f"{' OR '.join(conditions)} LIMIT 1"
        )
        if row is None:
            return
        for name, cell in zip(names, row, strict=True):
            if cell is not None and re.fullmatch(QUOTED, cell):
                problem = (
                    f"column {name!r} holds {cell} in quotes, which {opening.form} "
                    "does not have"
                )
                form, delimiter = map(opening.own_option, ("format", "delimiter"))
                hint = f"--{form} csv --{delimiter} '\\t' reads quotes."
                raise DataFileError(self.path, problem, hint=hint)

    def _holds_quotes(self) -> bool:
        """Whether there is a quote anywhere in the file."""
        with (
            self._plain.path.open("rb") as file,
            mmap(file.fileno(), 0, access=ACCESS_READ) as data,
        ):
            return data.find(b'"') >= 0

    @property
    def source(self) -> str:
        """The SQL after FROM, with all columns as text."""
        columns = ", ".join(
            f"'c{place}': 'VARCHAR'" for place in range(len(self.columns))
        )
        quote = '"' if self._is_quoted else ""
        return (
            f"read_csv({named(self._plain.path)}, delim={literal(self.separator)}, "
            f"quote='{quote}', escape='{quote}', columns={{{columns}}}, "
            f"auto_detect=false, header={self.has_names}, strict_mode=true, "
            f"compression='none', max_line_size={LONGEST}, buffer_size={BUFFER})"
        )


def _first_line(path: FilePath) -> str:
    """Return the first line of a text file.

    Raises:
        DataFileError: If it is no text in UTF-8.
    """
    data = head(path).removeprefix(b"\xef\xbb\xbf")
    line, *others = re.split(rb"[\r\n]", data, maxsplit=1)
    try:
        text = line.decode(errors="strict" if others else "replace")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        hint = "convert the file to UTF-8, or name its format."
        raise DataFileError(path, "is not UTF-8 text", "line 1", hint)
    return text


def _separator(opening: Opening, first: str) -> str:
    """Return the separator of fields.

    Raises:
        DataFileError: If the user's separator can be none, or not that of the format.
    """
    delimiter = opening.delimiter
    if delimiter == "\\t":  # a shell passes the two letters on
        delimiter = "\t"
    if opening.form in UNQUOTED_SEPARATORS:
        separator = UNQUOTED_SEPARATORS[opening.form]
        own_delimiter = opening.forms.delimiters.get(opening.role)
        if own_delimiter is not None and delimiter != separator:
            hint = f"--{opening.own_option('format')} csv reads other separators."
            raise DataFileError(
                opening.path,
                f"is {opening.form}, which {own_delimiter!r} does not separate",
                hint=hint,
            )
        return separator
    if delimiter is not None:
        if not delimiter or re.search('["\r\n]', delimiter):
            hint = (
                "give a character such as ; or several, but no quote and no end of "
                "a line."
            )
            raise DataFileError(
                opening.path,
                f"--delimiter {delimiter!r} cannot separate fields",
                hint=hint,
            )
        return delimiter
    for separator in SEPARATORS:
        if separator in first:
            return separator
    return ","


def _check_no_names(opening: Opening, cells: Sequence[str]) -> None:
    """Raise if columns are given by place, but the first line holds their names."""
    if has_known_names(cells) or cells == [str(place) for place in range(len(cells))]:
        problem = "places of columns say that no line names them, but line 1 does"
        names = ", ".join(cells)
        option = opening.own_option("columns")
        hint = (
            f"give names, of {names}, such as --{option}.query NAME; or write the file "
            "without its line of names."
        )
        raise DataFileError(opening.path, problem, hint=hint)


def open_csv(opening: Opening) -> Lines | Source:
    """Open a CSV or TSV file."""
    table = TextTable(opening)
    reading = assign_roles(opening, table.columns)
    names = list(reading.query)
    if not reading.is_listed:  # a cell of a list holds several names
        names.append(reading.item)
    table.check_no_quotes(opening, names)
    if reading.is_listed:
        return _open_text_lists(opening, table, reading)

    return Lines(
        path=table.path,
        source=table.source,
        owner=table,
        row_word="line",
        first_row=1 + table.has_names,
        **cells_of(reading, table.place, is_text=True),
    )


def _open_text_lists(
    opening: Opening, table: TextTable, reading: TableReading
) -> Source:
    """Open lists in the cells of text.

    DuckDB writes the lists as Parquet, in bounded memory.
    """
    delimiter = str(opening.list_delimiter)
    columns = {name: table.place(name) for name in reading.query}
    columns[reading.item] = _sql_words(table.place(reading.item), delimiter)
    if reading.value is not None:
        columns[reading.value] = (
            f"{_sql_words(table.place(reading.value), delimiter)}::DOUBLE[]"
        )
    if reading.second_order is not None:
        numbers = _sql_words(table.place(reading.second_order), delimiter)
        columns[reading.second_order] = f"try_cast({numbers} AS DOUBLE[])"
    selected = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in columns.items())
    database = Database(opening.forms.memory)
    _check_no_brackets(database, table, reading)
    _check_lists_are_cells(database, table, reading)
    if opening.own_list_delimiter is None:
        _check_list_delimiter(database, table, reading)
    return ListSource(
        written(opening, database, table, f"SELECT {selected} FROM {table.source}"),
        reading,
    )


def _check_no_brackets(
    database: Database, table: TextTable, reading: TableReading
) -> None:
    """Raise if a cell is a list of Python or JSON in text.

    The brackets and quotes would be parts of labels.
    """
    names = [name for name in (reading.item, reading.value) if name is not None]
    wrong = " OR ".join(
        f"regexp_full_match({table.place(name)}, {literal(BRACKETED)})"
        for name in names
    )
    if database.row(f"SELECT 1 FROM {table.source} WHERE {wrong} LIMIT 1") is not None:
        problem = (
            f"column {names_in_words(names, ' or ')} holds the text of lists in "
            "brackets, '[…]'"
        )
        hint = "write JSON Lines or Parquet, or strip the brackets and quotes."
        raise DataFileError(table.path, problem, hint=hint)


def _check_lists_are_cells(
    database: Database, table: TextTable, reading: TableReading
) -> None:
    """Raise if the entries of lists are fields of their own.

    In the line ``u,a,b,c`` without quotes, all entries but the first would be columns
    that nobody reads. Of a longer delimiter, as in ``u,a, b, c``, such a column holds
    the rest.
    """
    opening = reading.opening
    delimiter = str(opening.list_delimiter)
    extra_columns = opening.forms.extra_columns
    unread = {name for name in reading.unread if name not in extra_columns}
    if not delimiter.startswith(table.separator) or not unread:
        return
    rest = literal(delimiter.removeprefix(table.separator))
    fields = " OR ".join(
        f"coalesce(starts_with(c{place}, {rest}), false)"
        for place, column in enumerate(table.columns)
        if column.name in unread
    )
    holds_lists, may_be_spread = database.row(
        f"SELECT bool_or(contains({table.place(reading.item)}, {literal(delimiter)})), "
        f"bool_or({fields}) FROM {table.source}"
    )
    if may_be_spread and not holds_lists:
        problem = (
            f"{table.separator!r} separates fields, and no cell of column "
            f"{reading.item!r} holds {delimiter!r}"
        )
        option = opening.own_option(LIST_DELIMITER)
        hint = (
            f"put lists in quotes, or, if each holds one item, name another --{option}."
        )
        raise DataFileError(table.path, problem, hint=hint)


def _check_list_delimiter(
    database: Database, table: TextTable, reading: TableReading
) -> None:
    """Raise if entries hold another usual separator.

    One ``list_delimiter`` for all files may not be that of this file.

    Raises:
        DataFileError: Naming the option that decides for this file alone.
    """
    delimiter = str(reading.opening.list_delimiter)
    others = [separator for separator in LIST_SEPARATORS if separator not in delimiter]
    cell = table.place(reading.item)
    cells = (
        f"SELECT {cell} AS cell FROM {table.source} WHERE {cell} IS NOT NULL LIMIT "
        f"{CHECKED_CELLS}"
    )
    shares = ", ".join(
        f"avg(contains(cell, {literal(separator)})::INTEGER)" for separator in others
    )
    shares_of_cells = database.row(f"SELECT {shares} FROM ({cells})")
    for separator, share in zip(others, shares_of_cells, strict=True):
        if share is not None and share > FEW_CELLS:
            option = reading.opening.own_option(LIST_DELIMITER)
            problem = (
                f"column {reading.item!r} holds {separator!r}, which may separate its "
                "entries, or be a part of them"
            )
            hint = f"--{option} {quote(separator)} or --{option} {quote(delimiter)}"
            raise DataFileError(table.path, problem, hint=hint)


def _sql_words(column: str, delimiter: str) -> str:
    """Return SQL of the entries of lists in text."""
    return (
        f"[trim(word) for word in string_split({column}, {literal(delimiter)}) if "
        "trim(word) <> '']"
    )


# -- TREC, MS MARCO and LETOR ----------------------------------------------------------

BEYOND_SINGLE = 3.40282357e38
SINGLE = (
    f"(CASE WHEN abs({{n}}) >= {BEYOND_SINGLE} THEN sign({{n}}) * 'inf'::DOUBLE ELSE "
    "{n} END)::FLOAT"
)
"""SQL of a score in single precision; a score too large for it becomes infinite."""
EARLIEST = 10**8
"""A whole number from here on is a time, not a grade."""
WORD, GAP = r"\S+", r"\s+"
"""A word and what separates words, four times as fast as with classes of letters."""
UNREAD = "-"
"""The place of a word that is not read, in the words of a line."""
FILE_OF_LINES = (
    "read_csv({path}, delim='\x01', quote='', escape='', columns={{'line': "
    "'VARCHAR'}}, "
)
FILE_OF_LINES += (
    "auto_detect=false, header=false, strict_mode=false, compression='none', "
)
FILE_OF_LINES += f"max_line_size={LONGEST}, buffer_size={BUFFER})"


def _lines_of_words(
    opening: Opening,
    words: str,
    value: str,
    content: str,
    role: str = "",
    sql_type: str = "DOUBLE",
    needed: str = "a number",
    may_go_on: bool = False,
) -> Lines:
    """Return the lines of a file whose words are separated by blanks.

    Args:
        opening: The file.
        words: A letter for each word of a line: ``q``, ``i`` and, where lines have
            values, ``v``; "-" for others.
        value: SQL of the value, in which ``{n}`` stands for the number; empty without
            values.
        content: What the file holds.
        role: The role of the value.
        sql_type: SQL type of the value.
        needed: What a value must be, in words.
        may_go_on: Whether further words may follow.
    """
    plain = Plain(opening.path)
    file = FILE_OF_LINES.format(path=named(plain.path))
    split_lines = f"(SELECT line, string_split(line, ' ') AS parts FROM {file})"
    sql = value.replace("{n}", "try_cast(w.v AS DOUBLE)") or None
    return Lines(
        path=opening.path,
        source=(
            f"(SELECT line, {_sql_of_words(words, may_go_on)} AS w FROM {split_lines})"
        ),
        query="nullif(w.q, '')",
        item="nullif(w.i, '')",
        value=sql,
        sql_type=sql_type,
        shown_value="CASE WHEN w.v = '' THEN line ELSE w.v END" if sql else "line",
        needed=needed,
        kept="w.q <> '' OR NOT regexp_full_match(coalesce(line, ''), '\\s*')",
        row_word="line",
        owner=plain,
        reading=TableReading(opening=opening, value_role=role, content=content),
        last_name_wins=opening.form == "trec",
    )


def _sql_of_words(words: str, may_go_on: bool) -> str:
    """Return SQL of a struct with the words of a line by their letters.

    Each word is empty if the line has other words.

    If single blanks separate the words, they are the ``parts`` of the line at its
    blanks. A regular expression, which takes twice as long, takes all other lines
    apart.
    """
    patterns, fields, names = [], [], []
    conditions = [f"len(parts) = {len(words)}"]
    for place, letter in enumerate(words, start=1):
        word = f"parts[{place}]"
        conditions.append(f"{word} <> ''")
        if letter == UNREAD:
            patterns.append(WORD)
            continue
        patterns.append(f"({WORD})")
        fields.append(f"'{letter}': {word}")
        names.append(literal(letter))
    for blank in BLANK.replace(" ", ""):
        conditions.append(f"NOT contains(line, {literal(blank)})")

    pattern = "^\\s*" + GAP.join(patterns)
    if not may_go_on:
        pattern += "\\s*$"
    by_pattern = f"regexp_extract(line, {literal(pattern)}, [{', '.join(names)}])"
    return (
        f"CASE WHEN {' AND '.join(conditions)} THEN {{{', '.join(fields)}}} ELSE "
        f"{by_pattern} END"
    )


def open_trec(opening: Opening) -> Lines:
    """Open a TREC run (query, document, score) or qrels (query, document, grade)."""
    if opening.role == "preds":
        content = "a run 'query Q0 item rank score tag'"
        value = SINGLE
        if opening.run_role != "score":
            content += f", whose score is the {opening.run_role}, least first"
            value = f"-{SINGLE}"
        return _lines_of_words(
            opening, "q-i-v-", value, content, opening.run_role, "FLOAT", may_go_on=True
        )
    grade = (
        f"CASE WHEN {{n}} = floor({{n}}) AND {{n}} < {EARLIEST} THEN "
        "greatest({n}, 0) END"
    )
    needed = "a grade, a whole number"
    lines = _lines_of_words(
        opening, "q-iv", grade, "qrels 'query 0 item grade'", "gain", needed=needed
    )
    if opening.forms.judged_only:
        return replace(
            lines,
            kept=f"({lines.kept}) AND coalesce(try_cast(w.v AS DOUBLE) >= 0, true)",
        )
    return lines


def open_msmarco(opening: Opening) -> Lines:
    """Open an MS MARCO ranked list (query, passage, minus rank), or its qrels."""
    if opening.role != "preds":
        return open_trec(opening)
    rank = "CASE WHEN {n} = floor({n}) AND {n} >= 1 THEN -{n} END"
    needed = "a whole number from 1"
    return _lines_of_words(
        opening,
        "qiv",
        rank,
        "a ranked list 'query passage rank'",
        "rank",
        needed=needed,
    )


def open_pairs(opening: Opening) -> Lines:
    """Open a text file with a query (or row) and an item on each line.

    Blanks separate the two.
    """
    return _lines_of_words(opening, "qi", "", "a row and a label on each line")


LETOR_HINT = (
    "targets are lines 'grade qid:query feature:value', predictions a score for each "
    "of these lines, without a name."
)


def open_letor(opening: Opening) -> Lines:
    """Open targets in LETOR, or the scores of their lines.

    The item is the ``docid`` of the comment, or the number of the line.
    """
    if opening.role == "preds" and len(opening.target_paths) != 1:
        raise DataFileError(
            opening.path,
            "holds scores for the lines of targets in LETOR",
            hint=LETOR_HINT,
        )
    plain = judged = Plain(opening.path)
    if opening.role == "preds":
        judged = Plain(opening.target_paths[0])

    pattern = f"^\\s*({WORD}){GAP}qid:({WORD})"
    listed = FILE_OF_LINES.format(path=named(judged.path))
    lines = (
        "(SELECT row_number() OVER () AS number, line, regexp_extract(line, "
        f"{literal(pattern)}, ['v', 'q']) AS w, regexp_extract(line, '#.*docid *= *([^ "
        f"\\t\\r]+)', 1) AS doc FROM {listed} WHERE line IS NOT NULL AND NOT "
        "regexp_matches(line, '^[ \\t\\r]*(#|$)'))"
    )
    value, shown, value_role = "w.v", "line", "gain"
    content = "'grade qid:query feature:value'"
    if opening.role == "preds":
        scores = FILE_OF_LINES.format(path=named(plain.path))
        numbered = (
            "(SELECT row_number() OVER () AS number, trim(line) AS score FROM "
            f"{scores} WHERE line IS NOT NULL)"
        )
        lines = (
            f"(SELECT * FROM {numbered} FULL JOIN {lines} USING (number) ORDER "
            "BY number)"
        )
        value, shown, value_role = "score", "coalesce(score, '')", "score"
        content = "scores of the lines of the targets"
    return Lines(
        path=opening.path,
        source=lines,
        query="nullif(w.q, '')",
        item="CASE WHEN doc <> '' THEN doc ELSE number::VARCHAR END",
        value=f"try_cast({value} AS DOUBLE)",
        shown_value=shown,
        row_word="line",
        hint=LETOR_HINT,
        owner=(plain, judged),
        reading=TableReading(opening=opening, value_role=value_role, content=content),
    )
