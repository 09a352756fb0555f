"""The formats of files: each declares its name, its suffixes, what its first bytes look like and who reads it.

A format of your own is registered like those below, and is then known to :func:`tailmetrics.io.read`, to the command
line and to the messages of both.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from tailmetrics._checks import check_choice
from tailmetrics.io.errors import DataFileError, note, reading
from tailmetrics.io.files import HEAD_BYTES, FilePath, Part, check_file, head, suffix_of

if TYPE_CHECKING:
    from tailmetrics.io.lines import Lines, Triples
    from tailmetrics.io.rows import Source


@dataclass(frozen=True)
class Columns:
    """Names of columns.

    Where one of the last five is left at its default and a file has no such column, the usual names are tried, such
    as ``user_id`` or ``qid`` for the query, and a note says which one was taken. A column called ``rank`` or
    ``position`` is an order, 1 the best, wherever it is taken for the score.

    Attributes:
        ids: Parquet, predictions: lists of label ids.
        scores: Parquet, predictions: lists of their scores.
        labels: Parquet, targets: lists of label ids.
        gains: Parquet, targets: lists of their gains.
        query: The query, user or row of a line or of a list.
        item: CSV, TSV, JSON Lines: the item, document or label.
        score: CSV, TSV, JSON Lines, predictions: the score.
        gain: CSV, TSV, JSON Lines, targets: the gain or grade.
        rank: CSV, TSV, JSON Lines, predictions without a score: the rank, 1 for the best.
    """

    ids: str = "ids"
    scores: str = "scores"
    labels: str = "labels"
    gains: str = "gains"
    query: str = "query"
    item: str = "item"
    score: str = "score"
    gain: str = "gain"
    rank: str = "rank"

    def is_given(self, field: str) -> bool:
        """Whether a name differs from its default, so that a file has to have it."""
        return bool(getattr(self, field) != _DEFAULTS[field])

    @property
    def by_place(self) -> bool:
        """Whether columns are named by their places, from 0, as those of a file without a line of names."""
        given = [getattr(self, one.name) for one in fields(self) if self.is_given(one.name)]
        return bool(given) and all(name.isdecimal() for name in given)


_DEFAULTS = {one.name: one.default for one in fields(Columns)}

USUAL = {
    "query": "query queryid qid topic topicid user userid uid session sessionid customerid visitorid reviewerid",
    "item": "item itemid iid doc docid docno document documentid corpusid passage passageid pid product productid "
    "movie movieid article articleid asin track trackid song songid book bookid poi location locationid",
    "score": "score rating prediction predicted pred probability prob similarity",
    "gain": "gain score rating relevance rel grade label",
    "rank": "rank ranking position pos",
}
"""Field -> the names that stand for it, without capitals, dashes, blanks and underscores."""
LISTED = {
    "preds": "items itemids prediction predictions preds recommendations recommended retrieved ranking topk",
    "target": "items itemids target targets relevant articles articleid groundtruth positives",
}
"""Names of columns of lists, written alike."""
IDS = {"id", "label", "labelid", "index"}
"""Names of the field of a struct that holds the label, beside those of an item."""
TYPED = re.compile(r":(token|float)(_seq)?$")
"""The type behind a name, which RecBole writes: ``user_id:token``."""


def plain(name: str) -> str:
    """Return a column's name as USUAL has it."""
    return re.sub(r"[\s_-]", "", name).lower()


def is_usual(name: str, field: str) -> bool:
    """Whether the name of a column is one of the usual names of a field."""
    return plain(name) in USUAL[field].split()


@dataclass(frozen=True)
class Chosen:
    """The columns of one file that hold query, item and value.

    Attributes:
        query: The query.
        item: The item.
        value: The score, rank or gain; None where there is none.
        is_rank: Whether it is a rank, of which less is better.
    """

    query: str
    item: str
    value: str | None
    is_rank: bool = False

    @property
    def names(self) -> list[str]:
        """Their names."""
        return [name for name in (self.query, self.item, self.value) if name is not None]


def choose(path: FilePath, header: Sequence[str], role: Role | None, columns: Columns, where: str) -> Chosen:
    """Return the columns of a file by the names given, or by usual ones, which a note then says.

    Args:
        path: The file.
        header: Names of its columns.
        role: What it is for; None when only items are asked for.
        columns: Names given.
        where: How an error names the place of the header.

    Raises:
        DataFileError: If a column is missing, stands there twice, or one of two has to be guessed.
    """
    value = None if role is None else "score" if role == "preds" else "gain"
    if value == "score" and _is_ranked(header, columns):
        value = "rank"
    wanted = {field: field != "gain" for field in ("query", "item", *([value] if value else []))}
    found = {field: _find(path, header, field, columns, needed, where) for field, needed in wanted.items()}
    if value == "score" and is_usual(str(found["score"]), "rank"):
        found["rank"], value = found.pop("score"), "rank"
    guessed = {field: name for field, name in found.items() if name not in (None, getattr(columns, field))}
    if guessed and role is not None:
        said = ", ".join(f"column {name!r} is the {field}" for field, name in guessed.items())
        said += ", least first" if "rank" in guessed else ""
        first = next(iter(guessed))
        note(path, f"{said}; columns=Columns({first}=NAME) chooses another one.")
    query, item = found["query"], found["item"]
    assert query is not None
    assert item is not None
    return Chosen(query, item, found[value] if value else None, value == "rank")


def _is_ranked(header: Sequence[str], columns: Columns) -> bool:
    """Whether predictions have a column of ranks and none of scores."""
    if columns.is_given("score"):
        return False
    if columns.is_given("rank"):
        return True
    return not any(is_usual(name, "score") for name in header) and any(is_usual(name, "rank") for name in header)


def _find(path: FilePath, header: Sequence[str], field: str, columns: Columns, needed: bool, where: str) -> str | None:
    name = getattr(columns, field)
    fixed = name in header or columns.is_given(field)
    candidates = [name] if fixed else list(dict.fromkeys(one for one in header if is_usual(one, field)))
    if len(candidates) > 1:
        listed = " and ".join(map(repr, candidates))
        hint = f"say which one it is: columns=Columns({field}={candidates[0]!r})."
        raise DataFileError(path, f"the columns {listed} could both be the {field}", where, hint)
    if not candidates and not needed:
        return None
    if not candidates or candidates[0] not in header:
        also = ", columns=Columns(rank=NAME) which one is the rank" if field == "score" else ""
        hint = (
            f"its columns are {', '.join(header)}; columns=Columns({field}=NAME) says which one is the {field}{also}."
        )
        raise DataFileError(path, f"there is no column {name!r}", where, hint)
    if list(header).count(candidates[0]) > 1:
        hint = "give every column a name of its own."
        raise DataFileError(path, f"there are several columns {candidates[0]!r}", where, hint)
    return candidates[0]


# -- formats --------------------------------------------------------------------------------------------------------


Role: TypeAlias = Literal["preds", "target"]
"""What a file is for. A function that takes a role takes None where only the labels that a file names are asked for."""
PARQUET, ARROW, FEATHER_1, STREAM = b"PAR1", b"ARROW1", b"FEA1", b"\xff\xff\xff\xff"
"""First bytes of files of columns; the last of an Arrow stream, such as ``datasets`` saves."""
JSON_DICT = re.compile(rb'\s*(\{\s*"(?:[^"\\]|\\.)*"\s*:\s*[\[{]|\{\s*\}\s*$|\[)')
"""A dict whose first value is a dict or a list, an empty one, or a list."""
QUOTED = (",", ";")
"""What separates fields that can stand in quotes."""
COLUMNS = ("parquet", "pq", "arrow", "feather", "ipc")
JSON = ("jsonl", "ndjson", "json")
EARLIEST = 10**8
"""A whole number from here on is a time, such as the seconds since 1970 of files of ratings, and no grade."""


class Opening(NamedTuple):
    """What a format is asked to open.

    Attributes:
        path: The file.
        role: What it is for; None where only the labels that it names are asked for.
        columns: Names of columns.
        partition: Columns that the folders of the file give, by ``key=value``.
    """

    path: FilePath
    role: Role | None
    columns: Columns
    partition: Mapping[str, str] = MappingProxyType({})


Opener: TypeAlias = Callable[[Opening], "Source | Lines | Iterator[Triples]"]


@dataclass(frozen=True)
class Format:
    """One format of files.

    Attributes:
        name: How ``format=`` and ``--format`` call it.
        holds: What a file holds, for the help of the command line.
        suffixes: Suffixes of its files, without the dot; several formats can share one.
        opener: Opens a file; or ``"module:function"`` of this package, imported when the first file is opened.
        recognises: Whether the first bytes of a file are of this format; None never to be told by them.
        lines: Whether the lines of a file name their query (the opener then returns ``Lines`` or yields
            ``Triples``), or row i of one file belongs to row i of the other (it returns a ``Source``).
        ties: Which of two labels with equal scores is ranked first.
    """

    name: str
    holds: str
    suffixes: tuple[str, ...]
    opener: Opener | str
    recognises: Callable[[Head], bool] | None = None
    lines: bool = False
    ties: Literal["lower id", "last name"] = "lower id"

    def open(
        self, path: FilePath, role: Role | None, columns: Columns, partition: Mapping[str, str] = MappingProxyType({})
    ) -> Any:
        """Open a file."""
        opener = self.opener
        with reading(path, self.name):
            if isinstance(opener, str):
                module, _, function = opener.partition(":")
                opener = getattr(import_module(f"tailmetrics.io.{module}"), function)
            return opener(Opening(path, role, columns, partition))


FORMATS: dict[str, Format] = {}
"""Every format by its name."""


def register_format(form: Format) -> None:
    """Add a format, or replace the one of its name.

    Args:
        form: The format.
    """
    FORMATS[form.name] = form


def format_of_parts(caller: str, parts: Sequence[Part], named: str | None, columns: Columns) -> Format:
    """Return the format of all files; the first is looked into, and others whose names end otherwise.

    Raises:
        DataFileError: If they differ, or nothing tells.
    """
    first = parts[0].path
    form = format_of(caller, first, named, columns)
    for suffix, path in {suffix_of(part.path): part.path for part in parts}.items():
        if named is None and suffix != suffix_of(first):
            other = format_of(caller, path, named, columns)
            if other is not form:
                hint = "all parts must be written alike; a pattern such as 'folder/*.parquet' chooses some of them."
                raise DataFileError(path, f"is {other.name}, but {first} is {form.name}", hint=hint)
    return form


def format_of(caller: str, path: FilePath, named: str | None, columns: Columns) -> Format:
    """Return the format of a file: the one named, else the only one of its suffix, else what its first bytes say.

    Raises:
        DataFileError: If neither tells.
    """
    if named is not None:
        return FORMATS[check_choice(caller, "format", named, list(FORMATS))]
    check_file(path)
    suffix = suffix_of(path)
    possible = [form for form in FORMATS.values() if suffix in form.suffixes]
    if len(possible) == 1:
        return possible[0]
    head = Head(path, columns)
    for form in possible or FORMATS.values():
        if form.recognises is not None and form.recognises(head):
            return form
    if suffix in FORMATS:
        return FORMATS[suffix]
    hint = f"name it: format= is one of {', '.join(FORMATS)}."
    raise DataFileError(path, "neither its name nor its first lines tell its format", hint=hint)


# -- what the first bytes say ---------------------------------------------------------------------------------------


class Head:
    """The first 64 kB of a file, decompressed.

    Attributes:
        data: The bytes.
        columns: Names of columns that were given.
    """

    def __init__(self, path: FilePath, columns: Columns | None = None) -> None:
        self.data = head(path)
        self._path = path
        self.columns = columns or Columns()

    @cached_property
    def lines(self) -> list[str]:
        """The whole lines that hold anything."""
        cut = len(self.data) >= HEAD_BYTES and not self.data.endswith(b"\n")
        whole = self.data.removeprefix(b"\xef\xbb\xbf").splitlines()
        lines = [line.decode(errors="replace") for line in (whole[:-1] if cut else whole)]
        return [line for line in lines if line.strip()]

    @cached_property
    def words(self) -> list[list[str]]:
        """The words of each line, comments left out."""
        return [line.split() for line in self.lines if not line.startswith("#")]

    @cached_property
    def schema(self) -> Any:
        """The columns of a file of columns; None of another one."""
        if not self.data.startswith((PARQUET, ARROW, STREAM)):
            return None
        with reading(self._path, "a table"):
            return import_module("tailmetrics.io.tables").open_table(self._path).schema

    def fields(self, delimiter: str) -> list[list[str]]:
        """Return the fields of each line."""
        return [split(line, delimiter) for line in self.lines]

    def delimiter(self, first: str, form: str) -> str:
        """Return what stands between the fields of a table, by its first line."""
        if form == "TSV":
            return "\t"
        possible = ["::", ",", ";", "\t"] if form == "CSV" else [",", "\t", ";"]
        counts = {one: len(split(first, one) or first.split(one)) for one in possible}
        return "::" if counts.get("::", 0) > 2 else max(possible, key=lambda one: counts[one])

    def has_names(self, fields: Sequence[str]) -> bool:
        """Whether the first line names the columns: it holds no number, or a name that is known."""
        given = {value for value in vars(self.columns).values() if not value.isdecimal()}
        return not any(map(is_number, fields)) or any(
            name in given or is_usual(name, "query") or is_usual(name, "item") for name in fields
        )

    def check_names(self, delimiter: str, fields: Sequence[str], where: str) -> None:
        """Raise if nothing tells whether the first line holds names or data: no known name, no column of numbers."""
        given = vars(self.columns).values()
        known = IDS.union(*(usual.split() for usual in (*USUAL.values(), *LISTED.values())))
        if any(name in given or plain(TYPED.sub("", name)) in known for name in fields):
            return
        rows = [row for row in self.fields(delimiter)[1:] if len(row) == len(fields)]
        if not rows or not any(all(map(is_number, column)) for column in zip(*rows, strict=True)):
            problem = f"{' and '.join(map(repr, fields))} may be names of columns, or data without names"
            hint = f"if names, columns=Columns(query={fields[0]!r}); if not, columns=Columns(query='0', item='1')."
            raise DataFileError(self._path, problem, where, hint)

    def guessed(self, delimiter: str, value: str) -> list[str]:
        """Return what the columns of a table without names are: query, item, the value, and a time or others.

        Raises:
            DataFileError: If that cannot be told.
        """
        if self.is_unnamed(delimiter):
            return ["query", "item", value, "time"][: len(self.fields(delimiter)[0])]
        hint = "columns=Columns(query='0', item='1') names columns by their places, from 0."
        raise DataFileError(self._path, "does not name its columns, and they do not tell", "line 1", hint)

    def is_unnamed(self, delimiter: str) -> bool:
        """Whether each line holds a query, an item, perhaps a number, and behind it a time, as files of ratings do."""
        rows = self.fields(delimiter)
        if not rows or {len(row) for row in rows} not in ({2}, {3}, {4}):
            return False
        numbered = all(is_number(number) for row in rows for number in row[2:])
        return numbered and all(float(time) >= EARLIEST for row in rows for time in row[3:])


def split(line: str, delimiter: str) -> list[str]:
    """Return the fields of a line, without the blanks around them; none where its quotes are wrong."""
    try:
        fields = next(csv.reader([line], delimiter=delimiter, strict=True), []) if delimiter in QUOTED else None
    except csv.Error:
        return []
    return [field.strip(" \t\r") for field in (line.split(delimiter) if fields is None else fields)]


def _opens(*starts: bytes, near: bytes = b"") -> Callable[[Head], bool]:
    """Return whether a file opens with one of some words, and has another one near them."""
    return lambda head: head.data.startswith(starts) and near in head.data[:300]


is_npz, is_pt = _opens(b"PK\x03\x04", near=b".npy"), _opens(b"PK\x03\x04", near=b"/data.pkl")
is_npy, is_parquet, is_arrow = _opens(b"\x93NUMPY"), _opens(PARQUET), _opens(ARROW, STREAM, FEATHER_1)


def is_long(head: Head) -> bool:
    """Whether a file of columns holds a query or an item in each row, not lists; its folders may give the other."""
    if head.schema is None or any("list" in str(field.type) for field in head.schema):
        return False
    names = head.schema.names
    return any(
        getattr(head.columns, field) in names or any(is_usual(name, field) for name in names)
        for field in ("query", "item")
    )


def is_safetensors(head: Head) -> bool:
    """Whether a file opens with the length of a header, and with the header, of safetensors."""
    return head.data[8:10] == b'{"' and int.from_bytes(head.data[:8], "little") < 10**8


def is_run(head: Head) -> bool:
    """Whether the first line is one of a TREC run: query, a word, document, rank, score, tag."""
    first = next(iter(head.words), [])
    return len(first) >= 6 and _is_whole(first[3]) and is_number(first[4])


def is_qrels(head: Head) -> bool:
    """Whether the first line is one of qrels: query, a word, document, grade; a time is no grade."""
    first = next(iter(head.words), [])
    return len(first) == 4 and _is_whole(first[3]) and float(first[3]) < EARLIEST


def is_trec(head: Head) -> bool:
    """Whether a file is a TREC run or qrels."""
    return is_run(head) or is_qrels(head)


def is_msmarco(head: Head) -> bool:
    """Whether lines hold query, passage and rank, ranks counting from 1 within each query, and no column was named."""
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
    """Whether the first line is the header of a file of the Extreme Classification Repository, or lines hold pairs."""
    pairs = any(re.search("(?<!:):(?!:)", word) for words in head.words for word in words)
    header = next(iter(head.words), [])
    return pairs or (len(header) in (2, 3) and all(word.isdigit() for word in header) and not is_msmarco(head))


def is_jsonl(head: Head) -> bool:
    """Whether the first line is a JSON object of which not every field is a dict or a list, as in a run."""
    try:
        first = json.loads(head.lines[0]) if head.lines else None
    except (ValueError, RecursionError):
        return False
    return isinstance(first, dict) and not (is_json(head) and len(head.lines) == 1)


def is_json(head: Head) -> bool:
    """Whether a file is one JSON object from queries to a dict or a list of items, or one list of objects."""
    return JSON_DICT.match(head.data.removeprefix(b"\xef\xbb\xbf")) is not None


def is_csv(head: Head) -> bool:
    """Whether the first line has names separated by commas or semicolons, or lines are ratings."""
    if not head.lines:
        return False
    delimiter = head.delimiter(head.lines[0], "CSV")
    return delimiter != "\t" and (_is_table(head, delimiter) or head.is_unnamed(delimiter))


def is_tsv(head: Head) -> bool:
    """Whether the first line has names separated by tabs, or lines are ratings."""
    return _is_table(head, "\t") or head.is_unnamed("\t")


def is_lists(head: Head) -> bool:
    """Whether lines hold a query and its labels, separated by blanks, as submissions of Kaggle do.

    A column that is known to hold one item per line says otherwise, unless blanks stand in it between what looks like
    ids; and so does a query in the place of the list.
    """
    for delimiter in (",", "\t", ";"):
        header, *rows = head.fields(delimiter) or [[]]
        if not rows or any(len(row) != 2 for row in (header, *rows)) or not names_lists(header):
            continue
        if head.columns.by_place and not any(is_usual(name, "query") for name in header):
            continue
        single = ("score", "rating", "probability", "similarity")  # what holds one number holds no list
        known = head.columns.item in header or any(is_usual(name, "item") or name.lower() in single for name in header)
        listed = [field.split() for _, field in rows]
        several = max(map(len, listed)) > 1
        if len({query for query, _ in rows}) == len(rows):
            # every word has a digit, as ids do and titles do not
            ids = several and all(re.search(r"\d", word) for words in listed for word in words)
            return (ids or not known) and not is_usual(header[1], "query")
        if several and not known:  # lists of which a query has two
            return not is_usual(header[1], "query")
    return False


def names_lists(header: Sequence[str]) -> bool:
    """Whether two words can be the names of columns: not a query and its list already, such as ``7`` and ``a b``."""
    return not any(is_number(name) or len(name.split()) != 1 for name in header)


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


for _form in (
    Format("npz", "CSR matrix of scipy: stored entries are scores or gains", ("npz",), "arrays:NpzSource", is_npz),
    Format(
        "npy",
        "array of numpy: scores [N, L], ranked ids [N, K], class indices [N]",
        ("npy",),
        "arrays:NumpySource",
        is_npy,
    ),
    Format(
        "pt", "tensor of torch: as npy, or a pair (scores, ids), or CSR", ("pt", "pth"), "arrays:TorchSource", is_pt
    ),
    Format(
        "safetensors",
        "tensors scores and ids, or labels; or one tensor, as npy",
        ("safetensors",),
        "arrays:SafetensorsSource",
        is_safetensors,
    ),
    Format(
        "long",
        "columns query, item, and score or gain, in Parquet or Arrow",
        COLUMNS,
        "tables:read_long",
        is_long,
        True,
    ),
    Format(
        "parquet",
        "list columns ids and scores, or labels and gains; or structs",
        COLUMNS[:2],
        "tables:open_lists",
        is_parquet,
    ),
    Format(
        "arrow",
        "as parquet, in Arrow, Feather or a data set saved by Hugging Face",
        COLUMNS[2:],
        "tables:open_lists",
        is_arrow,
    ),
    Format(
        "trec",
        "run 'query Q0 document rank score tag', or qrels 'query 0 document grade'",
        ("run", "trec", "qrel", "qrels", "txt", "tsv"),
        "text:read_trec",
        is_trec,
        True,
        "last name",
    ),
    Format(
        "msmarco",
        "ranked list 'query passage rank', targets as in trec",
        ("txt", "tsv"),
        "text:read_msmarco",
        is_msmarco,
        True,
    ),
    Format(
        "jsonl", "objects with query, item, and score or gain, one per line", JSON, "text:read_jsonl", is_jsonl, True
    ),
    Format("json", "{query: {item: score or gain}}, or {query: [items]}", ("json",), "tables:read_json", is_json, True),
    Format(
        "lists",
        "two columns, a query and its labels separated by blanks, as at Kaggle",
        ("csv", "tsv"),
        "text:read_lists",
        is_lists,
        True,
    ),
    Format("csv", "columns query, item, and score or gain", ("csv", "dat"), "text:read_table", is_csv, True),
    Format("tsv", "as csv, separated by tabs, without quotes", ("tsv", "inter", "data"), "text:read_tsv", is_tsv, True),
    Format(
        "xmc",
        "text of the XMC repository: header 'rows labels', lines 'label:score'",
        ("txt",),
        "text:XmcSource",
        is_xmc,
    ),
):
    register_format(_form)
