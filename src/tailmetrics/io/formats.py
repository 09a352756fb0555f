"""File formats: each declares its name, its suffixes, a test of a file's first bytes, and its reader.

To add a format, register it as this module does at its end. :func:`tailmetrics.io.read`, the command line and their
messages then know it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from tailmetrics._arguments import check_choice
from tailmetrics.io.arrays import NpzSource, NumpySource, TorchSource
from tailmetrics.io.errors import DataFileError, reading
from tailmetrics.io.files import ALIKE_HINT, FilePath, Part, check_file, suffix_of
from tailmetrics.io.lines import SqlLines, Triples
from tailmetrics.io.published import META, is_letor, is_mteb, part_of, read_letor, read_mteb
from tailmetrics.io.reading import (
    ARROW,
    IN_MEMORY,
    PARQUET,
    STREAM,
    Columns,
    Head,
    Opening,
    Reading,
    Role,
    check_known,
    holds_lists,
    is_arrow,
    is_csv,
    is_json,
    is_jsonl,
    is_lists,
    is_msmarco,
    is_npy,
    is_npz,
    is_parquet,
    is_pt,
    is_trec,
    is_tsv,
    is_usual,
    is_xmc,
    matrix_hint,
    say,
)
from tailmetrics.io.rows import Source
from tailmetrics.io.text import (
    RUN,
    Table,
    XmcSource,
    objects_of,
    read_jsonl,
    read_lists,
    read_msmarco,
    read_table,
    read_trec,
    read_tsv,
)

COLUMNS = ("parquet", "pq", "arrow", "feather", "ipc")
JSON = ("jsonl", "ndjson", "json")
TREC = ("run", "trec", "qrel", "qrels", "txt", "tsv")

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


def format_of_parts(
    caller: str,
    parts: Sequence[Part],
    named: str | None,
    columns: Columns,
    role: Role | None = None,
    delimiter: str | None = None,
) -> Format:
    """Return the format of all files, from the first file and one file of each other suffix.

    Raises:
        DataFileError: If two formats differ, or a format cannot be told.
    """
    first = parts[0].path
    form = format_of(caller, first, named, columns, role, delimiter)
    for suffix, path in {suffix_of(part.path): part.path for part in parts}.items():
        if named is None and suffix != suffix_of(first):
            other = format_of(caller, path, named, columns, role, delimiter)
            if other != form:
                raise DataFileError(path, f"is {other.name}, but {first} is {form.name}", hint=ALIKE_HINT)
    return form


def format_of(
    caller: str,
    path: FilePath,
    named: str | None,
    columns: Columns,
    role: Role | None = None,
    delimiter: str | None = None,
) -> Format:
    """Return the format of a file: as named, else by a suffix that only one format has, else by its first bytes.

    Raises:
        DataFileError: If neither the suffix nor the first bytes tell the format.
    """
    if named is not None:
        return _as_rows(FORMATS[check_choice(caller, "format", named, list(FORMATS))], path, columns)
    check_file(path)
    suffix = suffix_of(path)
    possible = [form for form in FORMATS.values() if suffix in form.suffixes]
    if len(possible) == 1:
        return _as_rows(possible[0], path, columns)
    head = Head(path, columns, role, delimiter)
    check_known(head)
    if head.given is not None and any(head.given in line for line in head.lines[:1]):
        possible = [form for form in FORMATS.values() if form.name in ("lists", "tsv" if head.given == "\t" else "csv")]
    for form in possible or FORMATS.values():
        if form.recognises is not None and form.recognises(head):
            return _as_rows(form, path, columns)
    if suffix in FORMATS:
        return _as_rows(FORMATS[suffix], path, columns)
    hint = f"{matrix_hint(head)}format= names it, one of {', '.join(FORMATS)}. One label per row: numpy.save."
    raise DataFileError(path, "neither its name nor its first lines tell its format", hint=hint)


def _as_rows(form: Format, path: FilePath, columns: Columns) -> Format:
    """Return the format of objects; where a field of theirs holds the list of items, they are read as from Parquet."""
    if form.name not in ("jsonl", "json"):
        return form
    objects = objects_of(path, form.name)
    names = dict.fromkeys(name for one in objects for name in one)
    lists = [name for name in names if any(isinstance(one.get(name), list) for one in objects)]
    if not holds_lists([name for name in names if name not in lists], lists, columns):
        return form
    return replace(form, opener="open_objects", has_queries=False, ties="lower id")


def names_of(form: Format, path: FilePath, columns: Columns, delimiter: str | None) -> Sequence[str]:
    """Return the names of the columns of a file; none for a format without columns."""
    if form.names:
        return form.names
    try:
        if form.name in ("jsonl", "json"):
            return list(dict.fromkeys(name for one in objects_of(path, form.name) for name in one))
        if form.name in ("csv", "tsv", "lists"):
            asked = Opening(path, None, columns, delimiter=delimiter)
            return Table.of(asked, {"csv": "CSV", "tsv": "TSV"}.get(form.name, form.name)).header
        if form.name in ("long", "parquet", "arrow"):
            from tailmetrics.io.tables import open_table

            return list(open_table(path).schema.names)
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
    reader, of_lists = reader_in_memory(caller, argument, value, path, columns)
    ties: Ties = "last name" if is_run_in_memory(value) else "lower id"
    holds = "{query: {item: number}}, or {query: [items]}"
    names = _names_in_memory(value)
    return Format(IN_MEMORY, holds, (), reader, None, not of_lists, ties, names)


def _names_in_memory(value: Any) -> tuple[str, ...]:
    """Return the names of the columns of a table, or of the fields of objects; none of a dict by query."""
    if isinstance(value, Mapping):
        return ()
    names = [name for one in value for name in one] if isinstance(value, list) else []
    return tuple(dict.fromkeys(map(str, names or getattr(value, "column_names", None) or value.columns)))


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
    return any(
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
    Format("tsv", "as csv, separated by tabs, without quotes", ("tsv", "inter", "data"), read_tsv, is_tsv, True),
    Format("letor", "'grade qid:query feature:value', or a score", ("txt", "letor"), read_letor, is_letor, True),
    Format("xmc", "header 'rows labels', lines 'label:score'", ("txt",), XmcSource, is_xmc),
):
    register_format(_form)
