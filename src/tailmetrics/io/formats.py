"""File formats: each declares its name, its suffixes, a test of a file's first bytes, and its reader.

To add a format, register it as this module does at its end. :func:`tailmetrics.io.read`, the command line and their
messages then know it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import zip_longest
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from tailmetrics._arguments import check_choice
from tailmetrics.io.database import Opened, SqlLines, Triples, triples
from tailmetrics.io.files import ALIKE_HINT, DataFileError, FilePath, Part, check_file, note, reading, suffix_of
from tailmetrics.io.reading import (
    ARROW,
    BLANK,
    FAMILIAR,
    FEATHER_1,
    IN_MEMORY,
    PARQUET,
    STREAM,
    Columns,
    Head,
    Opening,
    Reading,
    Role,
    check_matrix,
    holds_lists,
    is_lists,
    is_number,
    is_trec,
    is_usual,
    plain,
    say,
)
from tailmetrics.io.rows import NpzSource, NumpySource, Source, TorchSource
from tailmetrics.io.text import (
    RUN,
    Table,
    XmcSource,
    numbered_lines,
    objects_of,
    parse_float,
    read_jsonl,
    read_lists,
    read_msmarco,
    read_table,
    read_trec,
    read_tsv,
    whole_json,
)

META = "mteb_model_meta"
"""The key that only predictions of MTEB have."""
SHOWN_PARTS = 8
"""The most parts that an error names; each is a few words."""
LETOR_LINE = re.compile(r"(\S+)\s+qid:(\S+)(?:\s+[^\s:]+:\S+)*\s*(?:#(.*))?")
DOCUMENT = re.compile(r"docid\s*=\s*(\S+)")
LETOR_HINT = (
    "targets are lines 'grade qid:query feature:value', predictions one score for each of these lines. One label for "
    "each row is an array: numpy.save writes it."
)

# -- first bytes -----------------------------------------------------------------------------------------------------

JSON_DICT = re.compile(rb'\s*(\{\s*"(?:[^"\\]|\\.)*"\s*:\s*[\[{]|\{\s*\}\s*$|\[)')
"""The start of a JSON text: an object whose first value is an object or an array, an empty object, or an array."""
FOREIGN = (
    (b"SQLite format 3", "a database of SQLite", "write its table with pandas: read_sql(…).to_parquet('y.parquet')"),
    (b"\x89HDF", "HDF5", "write the array with numpy.save, or the table with to_parquet"),
    (b"\x80", "a pickle, which may run any code", "write a table with to_parquet, an array with numpy.save"),
    (b"\xd0\xcf\x11\xe0", "a spreadsheet", "save it as CSV"),
    (b"\x04\x22\x4d\x18", "compressed twice as LZ4, as ranx does", "save it as JSON: run.save('run.json')"),
    (b"__label__", "text of fastText", "write {id: [labels, best first]} as JSON, without '__label__'"),
    (b"1 [", "a file of MIND", "write {id: {str(n): -rank for n, rank in enumerate(row)}} as JSON, clicks without -"),
    (b"PK\x03\x04", "a spreadsheet, or another ZIP archive", "save a spreadsheet as CSV, or unpack the archive"),
)
"""First bytes of what people bring and no format reads, its name, and what to do."""


def _opens(*starts: bytes, near: bytes = b"") -> Callable[[Head], bool]:
    """Return a test: whether a file begins with one of ``starts`` and has ``near`` in its first 300 bytes."""
    return lambda head: head.data.startswith(starts) and near in head.data[:300]


is_npz, is_pt = _opens(b"PK\x03\x04", near=b".npy"), _opens(b"PK\x03\x04", near=b"/data.pkl")
is_npy, is_parquet, is_arrow = _opens(b"\x93NUMPY"), _opens(PARQUET), _opens(ARROW, STREAM, FEATHER_1)


def check_known(head: Head) -> None:
    """Raise if the first bytes are of a kind of file that no format reads.

    Raises:
        DataFileError: Naming the kind, and what to write instead.
    """
    if is_npz(head) or is_pt(head):
        return
    for start, name, remedy in FOREIGN:
        if head.data.startswith(start):
            raise DataFileError(head.path, f"is {name}, and no format reads it", hint=f"{remedy}.")


def is_msmarco(head: Head) -> bool:
    """Whether lines hold query, passage and rank, counted from 1 in each query, and no score or rank was named."""
    if head.role == "target" or head.columns.is_given("score") or head.columns.is_given("rank"):
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
    delimiter = head.delimiter(head.lines[0], "csv")
    return delimiter != "\t" and (_is_table(head, delimiter) or head.is_unnamed(delimiter))


def is_tsv(head: Head) -> bool:
    """Whether the first line has names separated by tabs, or the lines are ratings separated by tabs."""
    return _is_table(head, "\t") or head.is_unnamed("\t")


def _is_table(head: Head, delimiter: str) -> bool:
    rows = head.fields(delimiter)
    return bool(rows) and len(rows[0]) > 1 and head.has_names(rows[0])


# -- MTEB -------------------------------------------------------------------------------------------------------------


def is_mteb(head: Head) -> bool:
    """Whether a file holds predictions of MTEB."""
    return head.data.lstrip()[:1] == b"{" and f'"{META}"'.encode() in head.data


def read_mteb(asked: Opening, part: str | None = None) -> Opened:
    """Read ``{"mteb_model_meta": …, subset: {split: {query: {document: score}}}}``, of one subset and split."""
    from tailmetrics.io.tables import from_dict

    path = check_file(asked.path)
    chosen, run = part_of(path, whole_json(path, "MTEB"), part, lambda name: f"part={name!r} chooses one.")
    if asked.role is not None:
        note(path, f"the predictions for {chosen} are read.")
    return from_dict(run, asked)


def part_of(
    path: FilePath, content: Mapping[str, Any], part: str | None, hint: Callable[[str], str]
) -> tuple[str, Mapping[str, Any]]:
    """Return the name, such as ``default/test``, and the run of one subset and split of predictions of MTEB.

    Args:
        path: The file, or the name of a dict.
        content: What it holds.
        part: The name of the part; None where there is one part alone.
        hint: Takes the name of a part, and says how to choose it.

    Raises:
        DataFileError: If there is no such part, or if no part is named and there are several.
    """
    held = {name: splits for name, splits in content.items() if name != META and isinstance(splits, Mapping)}
    parts = {f"{name}/{split}": run for name, splits in held.items() for split, run in splits.items()}
    if part is None and len(parts) == 1:
        ((part, run),) = parts.items()
        return part, run
    if part is not None and part in parts:
        return part, parts[part]
    if not parts:
        raise DataFileError(path, "holds no subset with a split", hint="MTEB writes {subset: {split: {query: …}}}.")
    said = ", ".join(name[:40] for name in list(parts)[:SHOWN_PARTS]) + " …" * (len(parts) > SHOWN_PARTS)
    problem = f"holds predictions for {said}" if part is None else f"has no part {part[:40]!r}; its parts are {said}"
    raise DataFileError(path, problem, hint=hint(next(iter(parts))[:80]))


# -- LETOR ------------------------------------------------------------------------------------------------------------


def is_letor(head: Head) -> bool:
    """Whether the first line that is no comment names a query as LETOR does, or every line is one number."""
    return any(words[1:2] and words[1].startswith("qid:") for words in head.words[:1]) or is_scores(head)


def is_scores(head: Head) -> bool:
    """Whether every line is one number, perhaps below a name: scores beside targets in LETOR."""
    words = [some[0] if len(some) == 1 else "" for some in head.words] or [""]
    return words[0] != "" and all(map(is_number, words[1:] or words))


def read_letor(asked: Opening, beside: Sequence[FilePath] = ()) -> Iterator[Triples]:
    """Read targets, or predictions for the lines of the targets ``beside``."""
    path = check_file(asked.path)
    if asked.role == "target" or (asked.role is None and not is_scores(Head(asked))):
        return triples((f"line {line}", query, item, grade) for line, query, item, grade in _judged(path))
    if not beside:
        raise DataFileError(path, "holds one score on each line, which belong to targets in LETOR", hint=LETOR_HINT)
    return triples(_scored(path, beside))


def _judged(path: FilePath) -> Iterator[tuple[int, str, str, float]]:
    """Yield line number, query, document and grade of each line that is no comment."""
    with reading(path, "LETOR"):
        lines = ((line, text.strip(BLANK)) for line, text in numbered_lines(path))
        for number, (line, text) in enumerate((one for one in lines if not one[1].startswith("#")), 1):
            found = LETOR_LINE.fullmatch(text)
            if found is None:
                raise DataFileError(path, f"{text[:40]!r} names no grade and query", f"line {line}", LETOR_HINT)
            named = DOCUMENT.search(found[3] or "")
            yield line, found[2], named[1] if named else str(number), parse_float(path, "grade", found[1], line)


def _scored(path: FilePath, beside: Sequence[FilePath]) -> Iterator[tuple[str, str, str, float]]:
    """Yield the place, query, document and score of each line."""
    judged = (one for target in beside for one in _judged(target))
    with reading(path, "LETOR"):
        lines = ((line, text.strip(BLANK)) for line, text in numbered_lines(path))
        scores = (one for number, one in enumerate(lines) if number or is_number(one[1]))  # the first may be a name
        for score, target in zip_longest(scores, judged):
            if score is None or target is None:
                more, less = (beside[0], path) if score is None else (path, beside[0])
                raise DataFileError(path, f"{more} holds more lines than {less}", hint=LETOR_HINT)
            line, text = score
            yield f"line {line}", target[1], target[2], parse_float(path, "score", text, line)


# -- formats ----------------------------------------------------------------------------------------------------------


COLUMNS = ("parquet", "pq", "arrow", "feather", "ipc")
JSON = ("jsonl", "ndjson", "json")
LETOR = ("txt", "letor", "csv", "dat")
TREC = ("run", "trec", "qrel", "qrels", "txt", "tsv")

BINARY = {"npz": is_npz, "npy": is_npy, "pt": is_pt, "parquet": is_parquet}
"""Formats that the first bytes tell for sure."""

Ties: TypeAlias = Literal["lower id", "last name"]
Opener: TypeAlias = Callable[[Opening], "Source | SqlLines | Iterable[Triples]"]


@dataclass(frozen=True)
class Format:
    """One file format.

    Attributes:
        name: The value for ``format=`` and ``--format``.
        holds: The content of a file, for the help of the command line.
        suffixes: Suffixes of its files, without the dot; several formats can share a suffix.
        opener: A function that opens a file, or the name of such a function in ``tables``, which is imported together
            with pyarrow only when needed.
        recognises: A function that says whether the first bytes of a file are of this format; None if they never tell.
        has_queries: True if each line names its query: the opener then returns ``SqlLines`` or yields ``Triples``.
            False if row i of one file belongs to row i of the other: the opener then returns a ``Source``.
        ties: Which of two labels with equal scores is ranked first; trec_eval and pytrec_eval take the last name.
        names: Names of the columns of a table in memory.
    """

    name: str
    holds: str
    suffixes: tuple[str, ...]
    opener: Opener | str
    recognises: Callable[[Head], bool] | None = None
    has_queries: bool = False
    ties: Ties = "lower id"
    names: tuple[str, ...] = ()

    def open(
        self, path: FilePath, role: Role | None, columns: Columns, partition: Mapping[str, str] = MappingProxyType({})
    ) -> Any:
        """Open a file: return its ``Source``, ``SqlLines`` or ``Triples``."""
        return self.open_as(Opening(path, role, columns, partition))

    def open_as(self, asked: Opening) -> Any:
        """Open a file, and say how it is read."""
        opener = self.opener
        with reading(asked.path, self.name):
            if isinstance(opener, str):
                opener = getattr(import_module("tailmetrics.io.tables"), opener)
            opened = opener(asked)
        if asked.role is not None:
            holds = opened.holds if isinstance(opened, Source) else ""
            how = getattr(opened, "reading", None) or Reading(role=asked.role, holds=holds or self.holds)
            say(replace(how, form=self.name, path=str(asked.path)))
        return opened


FORMATS: dict[str, Format] = {}
"""Name -> format."""


def register_format(form: Format) -> None:
    """Add a format, or replace the format with the same name.

    Args:
        form: The format.
    """
    FORMATS[form.name] = form


def format_of_parts(caller: str, parts: Sequence[Part], named: str | None, asked: Opening) -> Format:
    """Return the format of all files, from the first file and one file of each other suffix.

    Raises:
        DataFileError: If two formats differ, or a format cannot be told.
    """
    first = parts[0].path
    form = format_of(caller, named, asked._replace(path=first))
    for suffix, path in {suffix_of(part.path): part.path for part in parts}.items():
        if named is None and suffix != suffix_of(first):
            other = format_of(caller, named, asked._replace(path=path))
            if other != form:
                raise DataFileError(path, f"is {other.name}, but {first} is {form.name}", hint=ALIKE_HINT)
    return form


def format_of(caller: str, named: str | None, asked: Opening) -> Format:
    """Return the format of a file: as named, else by a suffix that only one format has, else by its first bytes.

    Raises:
        DataFileError: If neither the suffix nor the first bytes tell the format.
    """
    if named is not None:
        own = check_choice(caller, "format", named, list(FORMATS))
        held = next((name for name, fits in BINARY.items() if fits(Head(asked))), None)
        if held is not None and {"txt", "csv", "tsv", "json"}.intersection(FORMATS[own].suffixes):
            hint = f"format is for both files: leave it out, or add preds_format={held!r} for predictions alone."
            raise DataFileError(asked.path, f"is {held}, not {own}", hint=hint)
        return _as_rows(FORMATS[own], asked)
    check_file(asked.path)
    suffix = suffix_of(asked.path)
    possible = [form for form in FORMATS.values() if suffix in form.suffixes]
    if len(possible) == 1:
        return _as_rows(possible[0], asked)
    head = Head(asked)
    check_known(head)
    if head.given is not None and any(head.given in line for line in head.lines[:1]):
        possible = [form for form in FORMATS.values() if form.name in ("lists", "tsv" if head.given == "\t" else "csv")]
    for form in possible or FORMATS.values():
        if form.recognises is not None and form.recognises(head):
            return _as_rows(form, asked)
    if suffix in FORMATS:
        return _as_rows(FORMATS[suffix], asked)
    check_matrix(asked.path, (), [re.split(r"[,;\s]+", f" {line.strip()}") for line in head.lines])
    hint = f"format= names it, one of {', '.join(FORMATS)}. One label per row: numpy.save."
    raise DataFileError(asked.path, "neither its name nor its first lines tell its format", hint=hint)


def _as_rows(form: Format, asked: Opening) -> Format:
    """Return the format of objects; where a field of theirs holds the list of items, they are read as from Parquet."""
    if form.name not in ("jsonl", "json"):
        return form
    objects = objects_of(asked.path, form.name)
    names = dict.fromkeys(name for one in objects for name in one)
    lists = [name for name in names if any(isinstance(one.get(name), list) for one in objects)]
    if not holds_lists([name for name in names if name not in lists], lists, asked.columns):
        return form
    return replace(form, opener="open_objects", has_queries=False, ties="lower id")


def names_of(form: Format, asked: Opening) -> Sequence[str]:
    """Return the names of the columns of a file; none for a format without columns."""
    if form.names:
        return form.names
    try:
        if form.name in ("jsonl", "json"):
            return list(dict.fromkeys(name for one in objects_of(asked.path, form.name) for name in one))
        if form.name in ("csv", "tsv", "lists"):
            return Table.of(asked._replace(role=None), form.name).look.names
        if form.name in ("long", "parquet", "arrow"):
            from tailmetrics.io.tables import open_table

            return list(open_table(asked.path).schema.names)
    except DataFileError:  # it is raised when the file is read
        pass
    return ()


def in_memory(caller: str, argument: str, value: Any, path: FilePath, columns: Columns) -> Format:
    """Return the format of a value in memory: a table, or a dict of dicts (a run of pytrec_eval or ranx) or of lists.

    ``path`` is the name of the value in errors.

    Raises:
        TypeError: If the value is neither a table nor a dict.
    """
    from tailmetrics.io.tables import is_run_in_memory, reader_in_memory

    if isinstance(value, Mapping) and META in value:
        _, value = part_of(path, value, None, lambda part: "pass {}[{!r}][{!r}].".format(argument, *part.split("/", 1)))
    reader, has_queries, names = reader_in_memory(caller, argument, value, path, columns)
    ties: Ties = "last name" if is_run_in_memory(value) else "lower id"
    holds = "{query: {item: number}}, or {query: [items]}"
    return Format(IN_MEMORY, holds, (), reader, None, has_queries, ties, names)


def is_long(head: Head) -> bool:
    """Whether a Parquet or Arrow file has a column of queries or of items and no lists.

    One of the two columns is enough, because folders ``key=value`` can give the other.
    """
    if not head.data.startswith((PARQUET, ARROW, STREAM)):
        return False
    with reading(head.path, "a table"):
        from tailmetrics.io.tables import open_table

        schema = open_table(head.path).schema
    if any("list" in str(field.type) for field in schema):
        return False
    names = schema.names
    named = [one.name for one in schema if plain(one.name) in FAMILIAR["item"].split() and "string" in str(one.type)]
    return bool(named) or any(
        getattr(head.columns, field) in names or any(is_usual(name, field) for name in names)
        for field in ("query", "item")
    )


for _form in (
    Format("npz", "CSR of scipy: stored entries are scores or gains", ("npz",), NpzSource, is_npz),
    Format("npy", "numpy: scores [N, L], ranked ids [N, K], classes [N]", ("npy",), NumpySource, is_npy),
    Format("pt", "torch: as npy, or a pair (scores, ids), or CSR", ("pt", "pth"), TorchSource, is_pt),
    Format("long", "columns query, item, and score or gain, in Parquet or Arrow", COLUMNS, "read_long", is_long, True),
    Format("parquet", "list columns ids and scores, or labels and gains", COLUMNS[:2], "open_lists", is_parquet),
    Format("arrow", "as parquet, in Arrow, Feather or a saved dataset", COLUMNS[2:], "open_lists", is_arrow),
    Format("trec", f"run '{' '.join(RUN.names)}', or qrels", TREC, read_trec, is_trec, True, "last name"),
    Format("msmarco", "ranked list 'query passage rank'; or qrels", ("txt", "tsv"), read_msmarco, is_msmarco, True),
    Format("mteb", "{subset: {split: run}}, as MTEB predicts", ("json",), read_mteb, is_mteb, True, "last name"),
    Format("jsonl", "objects with query, item, and score or gain, one per line", JSON, read_jsonl, is_jsonl, True),
    Format("json", "{query: {item: score}}, or {query: [items]}", ("json",), "read_json", is_json, True, "last name"),
    Format("lists", "a query and its labels, separated by blanks", ("csv", "tsv"), read_lists, is_lists, True),
    Format("csv", "columns query, item, and score or gain", ("csv", "dat"), read_table, is_csv, True),
    Format("tsv", "as csv, separated by tabs", ("tsv", "inter", "data"), read_tsv, is_tsv, True),
    Format("letor", "'grade qid:query feature:value', or a score", LETOR, read_letor, is_letor, True),
    Format("xmc", "header 'rows labels', lines 'label:score'", ("txt",), XmcSource, is_xmc),
):
    register_format(_form)
