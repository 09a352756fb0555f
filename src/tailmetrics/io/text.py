"""Text files: CSV, TSV, lists, TREC, MS MARCO and JSON Lines, whose lines name their query, and XMC.

LF, CR LF or CR ends a line, and every record is one line. CSV, TSV, TREC, MS MARCO and JSON Lines have two readers: an
SQL statement of DuckDB, which accepts only lines of the usual form, and a parser in Python. If the statement rejects
any line, the parser reads the file line by line. It accepts unusual lines, such as blank lines or several blanks
between fields, and names a wrong line in its error. Lists and XMC have only a parser.

In CSV a field may stand in double quotes; in TSV and lists it may where all quotes of the file are those of CSV, and
otherwise a quote is an ordinary character. A line of CSV with wrong quotes is an error, because a quote that is not
closed would include the lines below it in its field.

TREC files follow the conventions of NIST's trec_eval. The rank column of a run is ignored: lines are ordered by score,
in single precision as in trec_eval. An item with a grade of 0 or less is not relevant. Fields are separated by blanks,
text after the tag of a run is ignored, and a line that begins with ``#`` is a comment.

XMC is the format of the Extreme Classification Repository: row i of one file belongs to row i of the other file. Score
and label files begin with ``rows labels`` and hold ``label:value label:value`` per line; an empty line is an empty row.
napkinXC writes these files without the first line. Data files begin with ``rows features labels`` and hold
``label,label feature:value``; they can only be targets.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from io import TextIOWrapper
from itertools import count, islice
from numbers import Integral, Real
from typing import Any, NamedTuple, TypeVar

import numpy as np

from tailmetrics._arguments import LONGEST_VALUE, cut
from tailmetrics.io.database import Entry, SqlLines, Triples, literal, named, quoted, trimmed, triples
from tailmetrics.io.files import EMPTY_HINT, DataFileError, FilePath, Plain, check_file, note, reading, size_of, stream
from tailmetrics.io.reading import (
    BETWEEN,
    BETWEEN_LABELS,
    BLANK,
    EARLIEST,
    FLAGS,
    NO_GAIN,
    TYPED,
    USUAL,
    Columns,
    Head,
    Look,
    Opening,
    Reading,
    are_quoted,
    check_labels_alone,
    choose,
    constants,
    contradicts,
    in_words,
    is_all_behind,
    is_qrels,
    is_run,
    is_usual,
    joined,
    labels_in,
    one_or_several,
    records,
    siblings,
    split,
    sql_joined,
    understand_lists,
)
from tailmetrics.io.rows import Ragged, Source
from tailmetrics.ranking._warnings import warn_outside

Text = TypeVar("Text")

LARGEST = 2**63 - 1
LONGEST = 2 * 10**6
"""Bytes of a line at most, the limit of DuckDB's reader of CSV."""
LONGEST_ROW = 2**27
"""Bytes of a row of XMC at most; a row with a million labels and scores takes a tenth of it."""
BLOCK_BYTES = 2**20
"""Bytes read at a time: enough to make Python's cost per block small, and far less than ``memory``."""
NOT_UTF_8 = re.compile("[\udc80-\udcff]")
"""What Python puts in the place of bytes that are no UTF-8."""
BLANKS = re.compile(f"[{BLANK}]+")
WHOLE = "[+-]?[0-9]{1,18}"
"""A whole number of at most 18 digits: each fits into 64 bits, whose largest number has 19 digits."""
QUOTE_HINT = (
    "a field in quotes begins and ends with one and stays on its line, with quotes inside it doubled; write the file "
    "without this column, or as TSV, where such a quote is a character."
)
TAB_HINT = (
    "in CSV a field in quotes ends with one, and those inside it are doubled; if quotes are characters here, name the "
    "file .tsv and leave out its format."
)
PRINTED = re.compile(r"\[\]|[\[({]\s*['\"\d].*[\])}]")
"""A list as printed by Python or NumPy."""
SEPARATORS = {",": "commas", "\t": "tabs", ";": "semicolons", "::": "::"}
FIRST_OBJECTS = 100
"""Objects of an array that are looked at: enough to see an empty list beside others."""
RECORD_HINT = 'each line or element is {"query": "q", "item": 7, "score": 0.5}; make pairs a dict, {"q": {"7": 0.5}}.'


def every_line(path: FilePath, longest: int = LONGEST) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file with their numbers from 1.

    Raises:
        DataFileError: If a line is not UTF-8, or has more than ``longest`` bytes.
    """
    with stream(path) as file, TextIOWrapper(file, "utf-8-sig", "surrogateescape") as text:
        for number in count(1):
            line = text.readline(longest + 1)
            if len(line) > longest and line[-1] != "\n":
                problem = f"is longer than {longest:,} bytes"
                raise DataFileError(path, problem, f"line {number}", "is it a text file, with ends of lines?")
            if not line.isascii() and NOT_UTF_8.search(line):
                hint = "text files are read as UTF-8: convert the file, or name its format."
                raise DataFileError(path, "is not UTF-8 text", f"line {number}", hint)
            if not line:
                return
            yield number, line.removesuffix("\n")


def numbered_lines(path: FilePath) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file that are not blank, with their numbers."""
    return ((line, text) for line, text in every_line(path) if text.strip(BLANK))


def in_quotes(path: FilePath) -> bool:
    """Whether all fields with quotes of a file separated by tabs stand in quotes as in CSV."""
    return _holds(path, b'"')[0] and are_quoted((text for _, text in every_line(path)), "\t")


def wrong_quote(path: FilePath, line: int, delimiter: str) -> DataFileError:
    """Return the error about a line whose quotes are not those of CSV."""
    hint = TAB_HINT if delimiter == "\t" else QUOTE_HINT
    return DataFileError(path, "has a quote that does not close", f"line {line}", hint)


def wrong_number(path: FilePath, name: str, text: str, line: int, needed: str = "a number") -> DataFileError:
    """Return an error about a field that is not a number."""
    problem = f"{name} {text!r} is not {needed}"
    hint = f"every {name} must be {needed}" + ", with a decimal point" * bool(re.fullmatch("-?[0-9]*,[0-9]+", text))
    return DataFileError(path, problem, f"line {line}", f"{hint}.")


def parse_float(path: FilePath, name: str, text: str, line: int) -> float:
    """Parse a float; unlike Python, refuse underscores (1_000) and digits outside ASCII.

    Raises:
        DataFileError: If the text is not a number.
    """
    try:
        if "_" not in text and text.isascii():
            return float(text)
    except ValueError:
        pass
    raise wrong_number(path, name, text, line)


def parse_int64(path: FilePath, name: str, text: str, line: int) -> int:
    """Parse a whole number of 64 bits; a label must not have a plus sign.

    Raises:
        DataFileError: If the text is not such a number.
    """
    text = text.strip(BLANK)
    signs = "-?" if "label" in name else "[+-]?"
    # length is tested first: Python takes quadratic time for thousands of digits; 24 characters leave room for zeros
    if len(text) < 25 and re.fullmatch(f"{signs}[0-9]+", text) and abs(int(text)) <= LARGEST:
        return int(text)
    raise wrong_number(path, name, text, line, f"a whole number of at most {LARGEST}")


def read_by_line(
    path: FilePath,
    form: str,
    lines: Iterable[tuple[int, Text]],
    parse: Callable[[int, Text], Iterable[Entry]],
    ranks: bool = False,
) -> Iterator[Triples]:
    """Yield blocks of the entries that ``parse`` returns, given the number and the text or the fields of each line.

    ``ranks`` says that the values of entries are negated ranks.
    """
    with reading(path, form):
        yield from triples(((f"line {line}", *entry) for line, text in lines for entry in parse(line, text)), ranks)


def csv_source(plain: Plain, delimiter: str, kinds: Mapping[str, str], quote: str = "", skipped: int = 0) -> str:
    """Return the SQL by which DuckDB reads a file as CSV."""
    columns = ", ".join(f"{literal(name)}: {literal(kind)}" for name, kind in kinds.items())
    return (
        f"read_csv({named(plain.path)}, delim={literal(delimiter)}, quote={literal(quote)}, escape={literal(quote)}, "
        f"columns={{{columns}}}, auto_detect=false, header=false, skip={skipped}, compression='none')"
    )


# -- CSV, TSV and lists -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """A text file of columns.

    Attributes:
        look: The first rows, and the names of the columns; numbers from 0 if the file does not name them.
        delimiter: Separator of fields.
        skipped: Number of lines up to the line of names, and including it; 0 if the file has no names.
        columns: The column names given by the user, in terms of the names in ``look``.
        all_fields: Whether all fields behind the query are the list of its labels.
        quoted: Whether a field may stand in quotes.
    """

    look: Look
    delimiter: str
    skipped: int
    columns: Columns
    all_fields: bool
    quoted: bool

    @classmethod
    def of(cls, asked: Opening, form: str) -> Table:
        """Return the table of a file, from its first lines."""
        path, role, columns = asked.path, asked.role, asked.columns
        line, first = next(numbered_lines(path), (0, ""))
        head = Head(asked, form == "csv" or ("\t" in first and in_quotes(path)))
        delimiter = head.delimiter(first, form)
        rows, quoted = head.fields(delimiter), head.is_quoted(delimiter)
        fields = rows[0] if rows else split(first, delimiter, quoted)
        if not fields:
            raise wrong_quote(path, line, delimiter)
        if form == "lists" and not head.knows(fields):  # the first list may be shorter than others, or empty
            fields = max([fields, *rows], key=len)
        header, skipped = [str(place) for place in range(len(fields))], 0
        all_fields = form == "lists" and len(fields) > 2
        if columns.by_place and not head.knows(fields):
            all_fields = all_fields and is_all_behind(columns)
        elif head.has_names(fields):
            head.check_names(delimiter, fields, f"line {line}", asked)
            header, skipped, all_fields = [TYPED.sub("", name) for name in fields], line, False
            rows, columns = rows[1:], columns.by_names(header)
        elif not all_fields:
            head.check_unnamed(delimiter)
            kind = "gain" if role == "target" else "score"
            is_value = len(fields) > 2 and Look(path, header, rows).held("2").kind != "times"
            value = {kind: "2"} if is_value else {}
            value = {"gain": NO_GAIN} if role == "target" and columns.without_gain else value
            listed = {"lists": "labels" if role == "target" else "ids"}.get(form, "item")
            columns = Columns(query="0", **{listed: "1"}, **value)
        whole = [row for row in rows if len(row) == len(header)]  # others are errors when they are read
        return cls(Look(path, header, whole, f"line {skipped or 1}"), delimiter, skipped, columns, all_fields, quoted)

    def told(self, found: Reading, given: Columns) -> Reading:
        """Return a reading with its delimiter; columns without names are numbers."""
        found = replace(found, delimiter=self.delimiter, has_names=bool(self.skipped))
        return found if self.skipped else replace(found, guessed=not given.by_place or found.guessed)

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the line and the fields of each record.

        Raises:
            DataFileError: If there are more or fewer fields than names, or a quote does not close.
        """
        path, names = self.look.path, self.look.names
        for line, fields in records(every_line(path), self.delimiter, self.quoted):
            if line <= self.skipped:
                continue
            if not fields:
                raise wrong_quote(path, line, self.delimiter)
            if len(fields) != len(names) and not self.all_fields:
                problem = f"there are {len(fields)} fields, but {len(names)} names of columns"
                said = SEPARATORS.get(self.delimiter, repr(self.delimiter))
                hint = f"fields are separated by {said}; {self.look.where} names the columns."
                raise DataFileError(path, problem, f"line {line}", hint)
            yield line, fields


def read_table(asked: Opening, form: str = "CSV") -> SqlLines:
    """Read a CSV or TSV file with a query, an item and perhaps a score or gain on every line."""
    path = check_file(asked.path)
    with reading(path, form):
        table = Table.of(asked, form.lower())
        listed = "ids" if asked.role == "preds" else "labels"
        if asked.role is not None and asked.columns.is_given(listed):
            hint = f"its columns are {in_words(table.look.names)}; format='lists' reads a column of lists."
            problem = f"has no column of lists {getattr(asked.columns, listed)!r}"
            raise DataFileError(path, problem, table.look.where, hint)
        chosen = table.told(choose(table.look, asked._replace(columns=table.columns)), asked.columns)
        plain = Plain(path)
        blanks = [one.encode() for one in " \t\r" if one != table.delimiter]
        has_quotes, has_underscores, *has_blanks = _holds(path, b'"', b"_", *blanks)
    header = table.look.names
    *query, item = map(header.index, (*chosen.keys, chosen.item))
    value = None if chosen.value is None else header.index(chosen.value)
    sign, number = -1.0 if chosen.is_rank else 1.0, str(chosen.value) if chosen.has_names else chosen.value_is

    def parse(line: int, fields: list[str]) -> Iterator[Entry]:
        held = None if value is None else sign * parse_value(path, number, fields[value], line, chosen.flags)
        yield joined([fields[place] for place in query]), fields[item], held

    name = trimmed if any(has_blanks) else str  # trimming takes as long as reading, and most files hold no blank
    kinds = {f"c{place}": "VARCHAR" for place in range(len(header))}
    is_one_line, scored = "TRUE", None if value is None else f"c{value}"
    if has_quotes and table.quoted:  # an open quote continues over the ends of lines
        is_one_line = f"NOT regexp_matches(concat({', '.join(kinds)}), '[\\n\\r]')"
    if scored and chosen.flags:
        scored = sql_of_flags(name(scored))
    elif scored and has_underscores:  # DuckDB reads 1_0 as 10
        scored = f"CASE WHEN NOT contains({scored}, '_') THEN try_cast({scored} AS DOUBLE) END"
    elif scored and is_one_line == "TRUE":
        kinds[scored] = "DOUBLE"
    elif scored:
        scored = f"try_cast({scored} AS DOUBLE)"
    may_be_ranks = not (table.skipped or asked.columns.by_place) and asked.role == "preds"
    return SqlLines(
        source=csv_source(plain, table.delimiter, kinds, '"' if table.quoted else "", table.skipped),
        query=f"CASE WHEN {is_one_line} THEN {sql_joined([name(f'c{place}') for place in query])} END",
        item=name(f"c{item}"),
        value=scored and ("-" if chosen.is_rank else "") + scored,
        ranks=None if may_be_ranks else chosen.ranks,
        exact=lambda: read_by_line(path, form, table.records(), parse, chosen.ranks),
        kept=plain,
        reading=chosen,
        constants={one: f"c{header.index(one)}" for one in constants(chosen, table.columns)},
    )


read_tsv = partial(read_table, form="TSV")


def parse_value(path: FilePath, name: str, text: str, line: int, flags: bool) -> float:
    """Parse a score or gain; with ``flags`` also a word for 1 or 0."""
    found = FLAGS.get(text.lower()) if flags else None
    return parse_float(path, name, text, line) if found is None else found


def sql_of_flags(text: str) -> str:
    """Return the SQL of a gain that is written as a word for 1 or 0, or as a number."""
    words = " ".join(f"WHEN {literal(word)} THEN {number}" for word, number in FLAGS.items())
    return f"CASE lower({text}) {words} ELSE try_cast({text} AS DOUBLE) END"


def read_lists(asked: Opening) -> SqlLines:
    """Read lists of predictions, the best first, or of targets: a query and its labels on every line."""
    path = check_file(asked.path)
    with reading(path, "lists"):
        table = Table.of(asked, "lists")
        own = asked._replace(columns=table.columns)
        found = table.told(understand_lists(table.look, own, bool(table.skipped), table.all_fields), asked.columns)
    header = table.look.names
    *places, listed = map(header.index, (*found.keys, found.item))
    check_labels_alone(table.look, found, table.all_fields)
    known = asked.labels() or () if asked.labels is not None and found.between is not None else ()
    cells = table.look.cells(found.item)
    holds_blanks = any(" " in one for cell in cells for one in labels_in(cell, found.between) if one in known)
    shows_lists = asked.role == "preds" or not found.guessed or any(BETWEEN.search(cell) for cell in cells)
    spread = [header.index(name) for name in (siblings(found.item, header) if found.listed else [found.item])]
    seen: set[str] = set()

    def parse(line: int, fields: list[str]) -> Iterator[Entry]:
        name = joined([fields[place] for place in places])
        if name in seen and found.listed:
            hint = "a query needs one line with its whole list; format='csv' reads pairs of query and item."
            raise DataFileError(path, f"has a second list of query {name!r}", f"line {line}", hint)
        seen.add(name)
        if table.all_fields or spread:
            labels = [field for field in (fields[1:] if table.all_fields else map(fields.__getitem__, spread)) if field]
        else:
            labels = _labels_of(path, line, fields[listed], found.between, holds_blanks)
            if len(labels) > 1 and not shows_lists:
                raise one_or_several(path, found.item, fields[listed], f"line {line}")
        for place, word in enumerate(labels or [None]):
            yield name, word, -float(place) if asked.role == "preds" else None

    def exact() -> Iterator[Triples]:
        seen.clear()
        return read_by_line(path, "lists", table.records(), parse)

    value = "value" if asked.role == "preds" else None
    return SqlLines(value=value, exact=exact, reading=found)


def _labels_of(path: FilePath, line: int, cell: str, between: str | None, holds_blanks: bool) -> list[str]:
    """Return the labels of a cell; the whole file has one separator of labels, a character or blanks.

    ``holds_blanks`` says that labels of the other files hold blanks.

    Raises:
        DataFileError: If the cell holds several possible separators, so that the end of a label is unclear, or a list
            as Python prints it.
    """
    if PRINTED.fullmatch(cell):
        hint = "write the labels alone, separated by blanks: ' '.join(labels)."
        raise DataFileError(path, f"holds a list as Python prints it, {cell[:40]!r}", f"line {line}", hint)
    labels = labels_in(cell, between)
    seen = [repr(one) for one in BETWEEN_LABELS if one in cell or one == between]
    seen += ["blanks"] if between is None or (not holds_blanks and any(map(BLANKS.search, labels))) else []
    if len(seen) > 1:
        hint = "separate labels by one of them alone; where a label itself holds such a character, write one label "
        hint += "in each line, query,item, and say format='csv'."
        problem = f"labels may be separated by {' and '.join(seen)}: {cell[:40]!r}"
        raise DataFileError(path, problem, f"line {line}", hint)
    return labels


def _holds(path: FilePath, *words: bytes) -> list[bool]:
    """Return, for each of some single bytes, whether a file holds this byte."""
    found = [False] * len(words)
    with stream(path) as file:
        while not all(found) and (block := bytes(file.read(BLOCK_BYTES))):
            found = [was or word in block for was, word in zip(found, words, strict=True)]
    return found


# -- TREC and MS MARCO ------------------------------------------------------------------------------------------------


class Layout(NamedTuple):
    """The fields of a format whose fields are separated by blanks.

    Attributes:
        form: Name of the format in errors.
        names: Names of all fields; the first is the query.
        item: Position of the document.
        value_field: Position of the score, grade or rank.
        kind: SQL type of the value.
        value: SQL that turns the number ``n`` into the value; null where ``n`` is not valid in this format.
    """

    form: str
    names: tuple[str, ...]
    item: int
    value_field: int
    kind: str
    value: str


BEYOND_SINGLE = 3.40282357e38
SINGLE = f"(CASE WHEN abs(n) >= {BEYOND_SINGLE} THEN sign(n) * 'inf'::DOUBLE ELSE n END)::FLOAT"
"""SQL of a score in single precision; a score too large for it becomes infinite."""
RUN = Layout("a TREC run", ("query", "Q0", "document", "rank", "score", "tag"), 2, 4, "FLOAT", SINGLE)
GRADE = f"CASE WHEN n < {EARLIEST} THEN greatest(n, 0) END"
QRELS = Layout("a TREC qrels file", ("query", "iteration", "document", "grade"), 2, 3, "DOUBLE", GRADE)
RANK = "CASE WHEN n >= 1 THEN -n END"
MSMARCO = Layout("a ranked list of MS MARCO", ("query", "passage", "rank"), 1, 2, "DOUBLE", RANK)


def read_trec(asked: Opening) -> SqlLines:
    """Read a TREC run as (query, document, score), or qrels as (query, document, grade)."""
    path = check_file(asked.path)
    head = Head(asked)
    run = is_run(head) if asked.role is None else asked.role == "preds"
    if asked.role == "preds":
        queries, ranks, scores = ([words[place] for words in head.words if len(words) > 5] for place in (0, 3, 4))
        if contradicts(queries, scores, ranks):
            said = f"{path}: the scores, the highest is best, say the contrary of the ranks in each query"
            warn_outside(f"{said}, which are not read, as in trec_eval. If they are distances, write their negative.")
    return _blank_separated(path, RUN if run else QRELS)


def read_msmarco(asked: Opening) -> SqlLines:
    """Read an MS MARCO ranked list as (query, passage, minus rank); MS MARCO targets are read as TREC qrels."""
    path = check_file(asked.path)
    if asked.role == "target" or (asked.role is None and is_qrels(Head(asked))):
        return read_trec(asked)
    if asked.role is not None:
        note(path, "column 2 is the rank; columns=Columns(query='0', item='1', score='2') reads scores.")
    return _blank_separated(path, MSMARCO)


def _blank_separated(path: FilePath, layout: Layout) -> SqlLines:
    """Return the SQL for files whose fields are separated by one space or one tab; ``_words`` reads other files."""
    with reading(path, layout.form):
        plain = Plain(path)
        separator, other = ("\t", " ") if "\t" in next(iter(Head(Opening(path)).lines), "") else (" ", "\t")
        has_others = any(_holds(path, b"#", other.encode()))
    kinds = {f"c{place}": "VARCHAR" for place in range(len(layout.names))}
    value, item = f"c{layout.value_field}", f"c{layout.item}"
    if layout is RUN:
        kinds[value] = "DOUBLE"
    else:
        value = f"CASE WHEN regexp_full_match({value}, '{WHOLE}') THEN {value}::BIGINT END"
    parse = partial(_words, path, layout)
    plainly = f"CASE WHEN NOT (starts_with(c0, '#') OR contains(c0 || {item}, {literal(other)})) THEN c0 END"
    return SqlLines(
        source=csv_source(plain, separator, kinds),
        query=plainly if has_others else "c0",
        item=item,
        value=re.sub(r"\bn\b", f"({value})", layout.value),
        kind=layout.kind,
        ranks=layout is MSMARCO,
        exact=lambda: read_by_line(path, layout.form, numbered_lines(path), parse, layout is MSMARCO),
        kept=plain,
    )


def _words(path: FilePath, layout: Layout, line: int, text: str) -> Iterator[Entry]:
    words = BLANKS.split(text.strip(BLANK))
    if words[0].startswith("#"):
        return
    if len(words) < len(layout.names) or (len(words) > len(layout.names) and layout is not RUN):
        problem = f"there are {len(words)} fields, not {len(layout.names)}"
        raise DataFileError(path, problem, f"line {line}", f"a line is: {' '.join(layout.names)}.")
    name, word = layout.names[layout.value_field], words[layout.value_field]
    value = (parse_float if layout is RUN else parse_int64)(path, name, word, line)
    if layout is RUN and abs(value) >= BEYOND_SINGLE:
        value = math.copysign(math.inf, value)
    elif layout is MSMARCO:
        if value < 1:
            raise DataFileError(path, f"holds the rank {word}", f"line {line}", "ranks count from 1, the best.")
        value = -value
    elif layout is QRELS and value >= EARLIEST:
        hint = "lines 'user item rating time' are no qrels: name their format, tsv or csv."
        raise DataFileError(path, f"holds {word}, a time, in the place of a grade", f"line {line}", hint)
    yield words[0], words[layout.item], value if layout is not QRELS else max(value, 0)


# -- JSON Lines -------------------------------------------------------------------------------------------------------


def read_jsonl(asked: Opening) -> SqlLines:
    """Read a JSON Lines file; its first lines tell the names of the fields."""
    path, role, columns = asked.path, asked.role, asked.columns
    check_file(path)
    with reading(path, "JSON Lines"):
        objects = first_objects(path)
        if not objects:
            for line, text in numbered_lines(path):
                _object(path, line, text)
            raise DataFileError(path, "holds no rows", hint=EMPTY_HINT)
        fields = choose(look_at_objects(path, objects, "line 1"), asked)
        plain = Plain(path)
    ungraded = role == "target" and fields.value is None and not columns.without_gain

    def parse(line: int, text: str) -> Iterator[Entry]:
        where = f"line {line}"
        record = _object(path, line, text)
        if ungraded and any(is_usual(name, "gain") for name in record if name not in fields.names):
            raise DataFileError(path, "has a gain, but lines before it have none", where, RECORD_HINT)
        yield record_entry(path, fields, record, where)

    extra = [name for name in USUAL["gain"].split() if ungraded and name not in fields.names]
    kinds = dict.fromkeys(extra, "JSON") | dict.fromkeys(fields.names, "VARCHAR")
    same = constants(fields, columns)
    kinds |= dict.fromkeys(same, "VARCHAR")
    if fields.value:
        kinds[fields.value] = "JSON"
    said = ", ".join(f"{literal(name)}: '{kind}'" for name, kind in kinds.items())
    more = "".join(f" OR {quoted(name)} IS NOT NULL" for name in extra)
    value = fields.value and f"{quoted(fields.value)}::VARCHAR"  # of JSON values as text, only numbers can be cast
    if value:
        value = sql_of_flags(value) if fields.flags else f"{'-' if fields.is_rank else ''}({value}::DOUBLE)"
    return SqlLines(
        source=f"read_json({named(plain.path)}, format='newline_delimited', columns={{{said}}}, compression='none', "
        f"maximum_object_size={LONGEST})",
        query=sql_joined([_id(name, more) for name in fields.keys]),
        item=_id(fields.item),
        value=value,
        ranks=fields.ranks,
        exact=lambda: read_by_line(path, "JSON Lines", numbered_lines(path), parse, fields.ranks),
        kept=plain,
        reading=fields,
        constants={name: quoted(name) for name in same},
    )


def first_objects(path: FilePath) -> list[dict[str, Any]]:
    """Return the objects of the first lines of a JSON Lines file; wrong lines raise later, when all are read."""
    found = []
    for line, text in enumerate(Head(Opening(path)).lines, 1):
        with suppress(DataFileError):
            found.append(_object(path, line, text))
    return found


def objects_of(path: FilePath, form: str) -> Sequence[Mapping[str, Any]]:
    """Return the first objects of a file of JSON Lines, or of the array in a JSON file; none of other JSON."""
    if form == "jsonl":
        return first_objects(path)
    text = Head(Opening(path)).data.removeprefix(b"\xef\xbb\xbf").decode(errors="replace").lstrip()
    found: list[Mapping[str, Any]] = []
    decoder, place = json.JSONDecoder(), 1
    while text.startswith("[") and len(found) < FIRST_OBJECTS:
        place += len(text[place:]) - len(text[place:].lstrip(" \t\r\n,"))
        try:
            one, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            break
        if not isinstance(one, dict):
            return ()
        found.append(one)
    return found


def look_at_objects(path: FilePath, objects: Sequence[Mapping[str, Any]], where: str) -> Look:
    """Return the fields of objects as the columns of a table."""
    names = list(dict.fromkeys(name for one in objects for name in one))
    return Look(path, names, [[one.get(name) for name in names] for one in objects], where)


def _object(path: FilePath, line: int, text: str) -> dict[str, Any]:
    try:
        record = _parse_json(path, text, f"line {line}")
    except (ValueError, RecursionError) as error:
        if isinstance(error, DataFileError):
            raise
        raise DataFileError(path, f"is not JSON: {error}", f"line {line}", RECORD_HINT) from None
    if not isinstance(record, dict):
        raise DataFileError(path, "is not a JSON object", f"line {line}", RECORD_HINT)
    return record


def whole_json(path: FilePath, form: str) -> Any:
    """Return the value that a JSON file holds; ``form`` is its format in the text of an error."""
    with reading(path, form), stream(path) as file:
        return _parse_json(path, bytes(file.read()))


def _parse_json(path: FilePath, text: str | bytes, where: str = "") -> Any:
    """Return the value of a JSON text.

    Raises:
        DataFileError: If an object holds a key twice; Python's parser would silently drop the first value.
        ValueError: If the text is not JSON.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            ((key, times),) = Counter(key for key, _ in pairs).most_common(1)
            hint = "give each query, item and field once in its object."
            raise DataFileError(path, f"holds the key {key!r} {times} times in one object", where, hint)
        return found

    return json.loads(text, object_pairs_hook=unique)


def record_entry(path: FilePath, fields: Reading, record: Mapping[str, Any], where: str) -> Entry:
    """Return query, item and value of an object; a rank is negated.

    Raises:
        DataFileError: If a field is missing or has a wrong type.
    """

    def held(name: str, kinds: tuple[type, ...], needed: str) -> Any:
        found = record.get(name)
        if isinstance(found, kinds) and not isinstance(found, bool):
            return found
        said = cut(json.dumps(found, default=repr), LONGEST_VALUE) if name in record else "missing"
        raise DataFileError(path, f"{name!r} is {said}, not {needed}", where, RECORD_HINT)

    *query, item = (
        str(held(name, (str, Integral), "a string or a whole number")) for name in (*fields.keys, fields.item)
    )
    if fields.value is None:
        return joined(query), item, None
    found = record.get(fields.value)
    flag = FLAGS.get(str(found).lower()) if fields.flags and isinstance(found, (str, bool)) else None
    value = float(held(fields.value, (Real,), "a number")) if flag is None else flag
    return joined(query), item, -value if fields.is_rank else value


def _id(name: str, more: str = "") -> str:
    """Return the SQL of a field, query or item, as text; null if the value may be neither a string nor a whole number.

    DuckDB reads a field as text in half the time of JSON, but then ``9.0``, ``true`` and lists are text, too: the
    parser decides about values that look like these. A comparison takes a third of the time of a text function.
    """
    one = quoted(name)
    number = (
        f"{one} < ':' AND ({' OR '.join(f'contains({one}, {literal(sign)})' for sign in '.eE')} OR {one} IN ('', '-0'))"
    )
    # most names begin with a letter; the first two comparisons already accept a capital letter
    other = f"({one} < '\\' OR {one} >= '{{' AND {one} < '|' OR {one} = 'true' OR {one} = 'false')"
    return f"CASE WHEN {number} OR {one} >= '[' AND {other}{more} THEN NULL ELSE {one} END"


# -- XMC --------------------------------------------------------------------------------------------------------------

PARSED_ROWS = 2**10
"""Number of rows parsed at a time: a megabyte of text at 100 pairs per row."""
HEADER_HINT = (
    "the first line is 'rows labels' above lines of label:value. Lines 'label,label feature:value', as svmlight and "
    "LIBSVM have them, need a line 'rows features labels' above them; with qid:query behind a grade they are LETOR."
)
SCORES_HINT = "predictions are lines of label:score: leave out what stands before the first of them."
FEATURE = re.compile(r"[0-9]+:")
PAIR_HINT = "entries are label:value, separated by blanks."


class XmcSource(Source):
    """An XMC score, label or data file; only score and label files may lack the header line."""

    def __init__(self, asked: Opening) -> None:
        self.path = check_file(asked.path)
        first, *lines = Head(asked).data.removeprefix(b"\xef\xbb\xbf").splitlines() or [b""]
        # without a header, the first rows may be empty
        words = first.split() or next((line.split() for line in lines if b":" in line), [])
        self._header_lines = int(not words or b":" not in words[0])
        if self._header_lines and (len(words) not in (2, 3) or not all(word.isdigit() for word in words)):
            hint = SCORES_HINT if asked.role == "preds" else HEADER_HINT
            raise DataFileError(self.path, "has no header that tells the number of labels", "line 1", hint)
        if self._header_lines:
            self.num_rows, self.num_labels = int(words[0]), int(words[-1])
        else:
            with reading(self.path, "XMC text"):
                self.num_rows = sum(1 for _ in every_line(self.path, LONGEST_ROW))
        self._has_features = self._header_lines == 1 and len(words) == 3
        if self._has_features and asked.role == "preds":
            hint = "predictions are label:value lines under the header 'rows labels'."
            raise DataFileError(self.path, "is a data file with features, not predictions", "line 1", hint)
        if not self._has_features:
            # a pair is two numbers in about 10 bytes, or more if scores have all their digits
            self.cells_per_row = size_of(self.path) / max(self.num_rows, 1) / 8

    def describe_row(self, row: int) -> str:
        """Return the line and the row in words: row r is on line r + 2, or on line r + 1 without a header."""
        return f"line {row + 1 + self._header_lines} (row {row})"

    def batches(self, start: int, stop: int, size: int) -> Iterator[Ragged]:
        """Yield the rows; only lines from ``start`` up to ``stop`` are parsed."""
        parse = self._labels if self._has_features else self._pairs
        with reading(self.path, "XMC text"):
            lines = islice(every_line(self.path, LONGEST_ROW), start + self._header_lines, None)
            row = start
            while some := list(islice(lines, min(size, PARSED_ROWS, stop - row))):
                yield parse(some)
                row += len(some)
            if row < stop:
                problem = f"holds {row} rows, but its header says {self.num_rows}"
                raise DataFileError(self.path, problem, hint="the file may be truncated, or its header wrong.")
            behind = next(((line, text) for line, text in lines if text.strip(BLANK)), None)
            if stop == self.num_rows and behind is not None:
                hint = "correct the header, or write the file again."
                problem = f"there are more rows than the {self.num_rows} of the header"
                raise DataFileError(self.path, problem, f"line {behind[0]}", hint)

    def _pairs(self, lines: list[tuple[int, str]]) -> Ragged:
        pairs = [[word.split(b":") for word in text.encode().split()] for _, text in lines]
        try:
            if any("_" in text for _, text in lines):  # Python reads 1_0 as 10
                raise ValueError
            words = [label for row in pairs for label, _ in row]
            if b"+" in b"".join(words):
                raise ValueError
            labels = np.array(list(map(int, words)), np.int64)
            values = np.array([float(value) for row in pairs for _, value in row])
        except (ValueError, OverflowError):
            for line, text in lines:
                for word in BLANKS.split(text.strip(BLANK)) if text.strip(BLANK) else []:
                    label, colon, value = word.partition(":")
                    if not colon or ":" in value:
                        problem = f"{word!r} is not label:value"
                        raise DataFileError(self.path, problem, f"line {line}", PAIR_HINT) from None
                    parse_int64(self.path, "label", label, line)
                    parse_float(self.path, "value", value, line)
            raise
        return Ragged.from_lengths(np.array([len(row) for row in pairs]), labels, values)

    def _labels(self, lines: list[tuple[int, str]]) -> Ragged:
        """Parse the labels, which end at the first blank; a line without labels begins with a blank or a feature."""
        firsts = [(line, BLANKS.split(text)[0]) for line, text in lines]
        listed = [(line, first.split(",") if first and not FEATURE.match(first) else []) for line, first in firsts]
        labels = [parse_int64(self.path, "label", label, line) for line, some in listed for label in some]
        lengths = np.array([len(some) for _, some in listed])
        return Ragged.from_lengths(lengths, np.array(labels, np.int64))
