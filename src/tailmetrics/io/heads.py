"""Detection from the first bytes of a file: its format, and whether its first line names the columns."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Sequence
from functools import cached_property

from tailmetrics.io.columns import IDS, LISTED, TYPED, USUAL, Columns, is_usual, plain
from tailmetrics.io.errors import DataFileError
from tailmetrics.io.files import HEAD_BYTES, FilePath, head

PARQUET, ARROW, FEATHER_1, STREAM = b"PAR1", b"ARROW1", b"FEA1", b"\xff\xff\xff\xff"
"""First bytes of Parquet, Arrow, Feather 1 and an Arrow stream, which ``datasets`` saves."""
JSON_DICT = re.compile(rb'\s*(\{\s*"(?:[^"\\]|\\.)*"\s*:\s*[\[{]|\{\s*\}\s*$|\[)')
"""The start of a JSON text: an object whose first value is an object or an array, an empty object, or an array."""
QUOTED = (",", ";")
"""Delimiters of formats in which a field can be quoted."""
BETWEEN_LABELS = (";", "|", ",")
"""Separators of the labels in a cell, apart from blanks; codes, ids and words hold none of them."""
EARLIEST = 10**8
"""Whole numbers from here on are times, such as seconds since 1970 in files of ratings; lower numbers are grades."""


class Head:
    """The first 64 kB of a file, decompressed; more if the first line is longer.

    Attributes:
        data: The bytes.
        path: The file.
        columns: The column names given by the user.
    """

    def __init__(self, path: FilePath, columns: Columns | None = None) -> None:
        self.data = head(path)
        self.path = path
        self.columns = columns or Columns()

    @cached_property
    def lines(self) -> list[str]:
        """The lines that are not blank; a last line that the 64 kB cut off is left out."""
        cut = len(self.data) >= HEAD_BYTES and not self.data.endswith(b"\n")
        whole = self.data.removeprefix(b"\xef\xbb\xbf").splitlines()
        lines = [line.decode(errors="replace") for line in (whole[:-1] if cut else whole)]
        return [line for line in lines if line.strip()]

    @cached_property
    def words(self) -> list[list[str]]:
        """The words of each line, without comment lines."""
        return [line.split() for line in self.lines if not line.startswith("#")]

    def fields(self, delimiter: str) -> list[list[str]]:
        """Return the fields of each line."""
        return [split(line, delimiter) for line in self.lines]

    def delimiter(self, first: str, form: str) -> str:
        """Return the delimiter of a table's fields, from its first line; for lists, from all its first lines."""
        if form == "TSV":
            return "\t"
        possible = ["::", ",", ";", "\t"] if form == "CSV" else [",", "\t", ";"]
        counts = {one: len(split(first, one) or first.split(one)) for one in possible}
        alike = [one for one in possible if form == "lists" and {*map(len, self.fields(one))} == {counts[one]} != {1}]
        return "::" if counts.get("::", 0) > 2 else max(alike or possible, key=lambda one: counts[one])

    def knows(self, fields: Sequence[str]) -> bool:
        """Whether any of the fields is a column name that the user gave, or a usual column name."""
        given = {value for value in vars(self.columns).values() if not value.isdecimal()}
        known = IDS.union(*(usual.split() for usual in (*USUAL.values(), *LISTED.values())))
        return any(name in given or plain(TYPED.sub("", name)) in known for name in fields)

    def has_names(self, fields: Sequence[str]) -> bool:
        """Whether the first line names the columns: it holds a known name, or it holds no number and no list."""
        return self.knows(fields) or not any(is_number(name) or re.search("[;|]", name) for name in fields)

    def check_names(self, delimiter: str, fields: Sequence[str], where: str) -> None:
        """Raise if the first line may be names or data: it has no known name, and below it no column is all numbers."""
        if self.knows(fields):
            return
        rows = [row for row in self.fields(delimiter)[1:] if len(row) == len(fields)]
        if not rows or not any(all(map(is_number, column)) for column in zip(*rows, strict=True)):
            problem = f"{' and '.join(map(repr, fields))} may be names of columns, or data without names"
            hint = f"if names, columns=Columns(query={fields[0]!r}); if not, columns=Columns(query='0', item='1')."
            raise DataFileError(self.path, problem, where, hint)

    def guessed(self, delimiter: str, value: str) -> list[str]:
        """Return names for the columns of a table without a header: query, item, then the value and a time if present.

        Raises:
            DataFileError: If the lines do not have the form of ratings (:meth:`is_unnamed`).
        """
        if self.is_unnamed(delimiter):
            return ["query", "item", value, "time"][: len(self.fields(delimiter)[0])]
        hint = "columns=Columns(query='0', item='1') names columns by their places, from 0."
        raise DataFileError(self.path, "does not name its columns, and they do not tell", "line 1", hint)

    def is_unnamed(self, delimiter: str) -> bool:
        """Whether each line holds a query, an item, and perhaps a number and then a time, as in files of ratings."""
        rows = self.fields(delimiter)
        if not rows or {len(row) for row in rows} not in ({2}, {3}, {4}):
            return False
        numbered = all(is_number(number) for row in rows for number in row[2:])
        return numbered and all(float(time) >= EARLIEST for row in rows for time in row[3:])


def split(line: str, delimiter: str) -> list[str]:
    """Return the fields of a line, stripped of blanks; an empty list if its quotes are wrong."""
    try:
        fields = next(csv.reader([line], delimiter=delimiter, strict=True), []) if delimiter in QUOTED else None
    except csv.Error:
        return []
    return [field.strip(" \t\r") for field in (line.split(delimiter) if fields is None else fields)]


def _opens(*starts: bytes, near: bytes = b"") -> Callable[[Head], bool]:
    """Return a test: whether a file begins with one of ``starts`` and has ``near`` in its first 300 bytes."""
    return lambda head: head.data.startswith(starts) and near in head.data[:300]


is_npz, is_pt = _opens(b"PK\x03\x04", near=b".npy"), _opens(b"PK\x03\x04", near=b"/data.pkl")
is_npy, is_parquet, is_arrow = _opens(b"\x93NUMPY"), _opens(PARQUET), _opens(ARROW, STREAM, FEATHER_1)


def is_run(head: Head) -> bool:
    """Whether the first line is a line of a TREC run: query, a word, document, rank, score, tag."""
    first = next(iter(head.words), [])
    return len(first) >= 6 and _is_whole(first[3]) and is_number(first[4])


def is_qrels(head: Head) -> bool:
    """Whether the first line is a line of qrels: query, a word, document, grade; a time is not a grade."""
    first = next(iter(head.words), [])
    return len(first) == 4 and _is_whole(first[3]) and float(first[3]) < EARLIEST


def is_trec(head: Head) -> bool:
    """Whether a file is a TREC run or qrels."""
    return is_run(head) or is_qrels(head)


def is_msmarco(head: Head) -> bool:
    """Whether lines hold query, passage and rank, counted from 1 in each query, and no score or rank was named."""
    if head.columns.is_given("score") or head.columns.is_given("rank"):
        return False
    before = ("", 0)
    for words in head.words:
        if len(words) != 3 or not words[2].isdigit():
            return False
        expected = before[1] + 1 if words[0] == before[0] else 1
        if int(words[2]) != expected:
            return False
        before = words[0], expected
    return bool(head.words)


def is_xmc(head: Head) -> bool:
    """Whether the first line is a header of the Extreme Classification Repository, or a line holds ``label:value``."""
    pairs = any(re.search("(?<!:):(?!:)", word) for words in head.words for word in words)
    header = next(iter(head.words), [])
    return pairs or (len(header) in (2, 3) and all(word.isdigit() for word in header) and not is_msmarco(head))


def is_jsonl(head: Head) -> bool:
    """Whether the first line is a JSON object, but not a run in one line (:func:`is_json`)."""
    try:
        first = json.loads(head.lines[0]) if head.lines else None
    except (ValueError, RecursionError):
        return False
    return isinstance(first, dict) and not (is_json(head) and len(head.lines) == 1)


def is_json(head: Head) -> bool:
    """Whether a file begins like one JSON object from queries to dicts or lists of items, or like one JSON array."""
    return JSON_DICT.match(head.data.removeprefix(b"\xef\xbb\xbf")) is not None


def is_csv(head: Head) -> bool:
    """Whether the first line has names separated by commas, semicolons or ``::``, or the lines are ratings."""
    if not head.lines:
        return False
    delimiter = head.delimiter(head.lines[0], "CSV")
    return delimiter != "\t" and (_is_table(head, delimiter) or head.is_unnamed(delimiter))


def is_tsv(head: Head) -> bool:
    """Whether the first line has names separated by tabs, or the lines are ratings separated by tabs."""
    return _is_table(head, "\t") or head.is_unnamed("\t")


def is_lists(head: Head) -> bool:
    """Whether lines hold a query and the list of its labels, as in Kaggle submissions.

    Not if the list would be a column known to hold one item per line, unless the column holds several words that look
    like ids; nor if the list would be a column of queries. In a file of more than two columns, the user must name the
    column of lists.
    """
    for delimiter in (",", "\t", ";"):
        header, *rows = head.fields(delimiter) or [[]]
        if len(header) < 2 or any(len(row) != len(header) for row in rows):
            continue
        columns, has_names = head.columns, names_lists(header)
        if columns.by_place:
            has_names = head.knows(header)
            columns = columns.by_names(header) if has_names else columns
        if not has_names:
            header, rows = [str(place) for place in range(len(header))], [header, *rows]
        if any(columns.is_given(one) and getattr(columns, one) in header for one in ("ids", "labels")):
            return True
        listed = header.index(columns.item) if columns.item in header else 1
        query = header.index(columns.query) if columns.query in header else 1 - listed
        if not rows or listed == query or (len(header) > 2 and not _names_list(columns, header)):
            continue
        single = ("score", "rating", "probability", "similarity")  # such columns hold one number, not a list
        known = not has_names or head.columns.item in header
        known = known or any(is_usual(name, "item") or name.lower() in single for name in header)
        words = [re.findall(r"[^\s;|,]+", row[listed]) for row in rows]
        several = max(map(len, words)) > 1
        if len({row[query] for row in rows}) == len(rows):
            # ids: every word has a digit; words of titles mostly have none
            ids = several and all(re.search(r"\d", word) for some in words for word in some)
            return (ids or not known) and not is_usual(header[listed], "query")
        if several and not known:  # lists, although a query comes twice
            return not is_usual(header[listed], "query")
    return False


def _names_list(columns: Columns, header: Sequence[str]) -> bool:
    """Whether the user named the item column, and no column is named, or usually named, as a score, rank or gain."""
    numbers = ("score", "rank", "gain")
    others = [name for name in header if name != columns.item]
    has_number = any(columns.is_given(one) or any(is_usual(name, one) for name in others) for one in numbers)
    return columns.is_given("item") and columns.item in header and not has_number


def names_lists(header: Sequence[str]) -> bool:
    """Whether words can be column names, and not data such as the query ``7`` and its list ``a b``."""
    return not any(is_number(name) or len(re.split(r"[\s;|]", name)) != 1 for name in header)


def _is_table(head: Head, delimiter: str) -> bool:
    rows = head.fields(delimiter)
    return bool(rows) and len(rows[0]) > 1 and head.has_names(rows[0])


def _is_whole(word: str) -> bool:
    return word.lstrip("+-").isdigit()


def is_number(word: str) -> bool:
    """Whether a word is a number."""
    try:
        float(word)
    except ValueError:
        return False
    return True
