"""The formats of files: each declares its name, its suffixes, what its first bytes look like and who reads it.

A format of your own is registered like those below, and is then known to :func:`tailmetrics.io.read`, to the command
line and to the messages of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from tailmetrics._checks import check_choice
from tailmetrics.io import sniffing
from tailmetrics.io.columns import Columns
from tailmetrics.io.compression import suffix_of
from tailmetrics.io.errors import DataFileError, reading
from tailmetrics.io.finding import Part
from tailmetrics.io.paths import FilePath, check_file
from tailmetrics.io.roles import Role
from tailmetrics.io.sniffing import Head

if TYPE_CHECKING:
    from tailmetrics.io.keyed import Triples
    from tailmetrics.io.source import Source


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


Opener: TypeAlias = Callable[[Opening], "Source | Iterator[Triples]"]


@dataclass(frozen=True, kw_only=True)
class Format:
    """One format of files.

    Attributes:
        name: How ``format=`` and ``--format`` call it.
        holds: What a file holds, for the help of the command line.
        suffixes: Suffixes of its files, without the dot; several formats can share one.
        opener: Opens a file; or ``"module:function"``, imported when the first file is opened.
        lines: Whether the lines of a file name their query (the opener then yields ``Triples``), or row i of one file
            belongs to row i of the other (it returns a ``Source``).
        recognises: Whether the first bytes of a file are of this format; None never to be told by them.
        ties: Which of two labels with equal scores is ranked first.
    """

    name: str
    holds: str
    suffixes: tuple[str, ...]
    opener: Opener | str
    lines: bool = False
    recognises: Callable[[Head], bool] | None = None
    ties: Literal["lower id", "last name"] = "lower id"

    def open(
        self, path: FilePath, role: Role | None, columns: Columns, partition: Mapping[str, str] = MappingProxyType({})
    ) -> Any:
        """Open a file."""
        opener = self.opener
        with reading(path, self.name):
            if isinstance(opener, str):
                module, _, function = opener.partition(":")
                opener = getattr(import_module(module), function)
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


for _form in (
    Format(
        name="npz",
        holds="CSR matrix of scipy: stored entries are scores or gains; or I and D of FAISS",
        suffixes=("npz",),
        opener="tailmetrics.io.array_files:open_npz",
        recognises=sniffing.is_zip_of_arrays,
    ),
    Format(
        name="npy",
        holds="array of numpy: scores [N, L], ranked ids [N, K], class indices [N]",
        suffixes=("npy",),
        opener="tailmetrics.io.array_files:open_npy",
        recognises=sniffing.is_npy,
    ),
    Format(
        name="pt",
        holds="tensor of torch: as npy, or a pair (scores, ids), or CSR",
        suffixes=("pt", "pth"),
        opener="tailmetrics.io.array_files:open_pt",
        recognises=sniffing.is_torch,
    ),
    Format(
        name="safetensors",
        holds="tensors scores and ids, or labels; or one tensor, as npy",
        suffixes=("safetensors",),
        opener="tailmetrics.io.array_files:open_safetensors",
        recognises=sniffing.is_safetensors,
    ),
    Format(
        name="parquet",
        holds="list columns ids and scores, or labels and gains; or one list of structs",
        suffixes=("parquet", "pq"),
        opener="tailmetrics.io.table_lists:open_lists",
        recognises=sniffing.is_parquet,
    ),
    Format(
        name="arrow",
        holds="as parquet, in Arrow, Feather or a data set saved by Hugging Face",
        suffixes=("arrow", "feather", "ipc"),
        opener="tailmetrics.io.table_lists:open_lists",
        recognises=sniffing.is_arrow,
    ),
    Format(
        name="long",
        holds="columns query, item, and score or gain, in Parquet or Arrow",
        suffixes=("parquet", "pq", "arrow", "feather", "ipc"),
        opener="tailmetrics.io.table_lines:read_long",
        lines=True,
        recognises=sniffing.is_long,
    ),
    Format(
        name="trec",
        holds="run 'query Q0 document rank score tag', or qrels 'query 0 document grade'",
        suffixes=("run", "trec", "qrel", "qrels", "txt", "tsv"),
        opener="tailmetrics.io.trec:read_trec",
        lines=True,
        recognises=sniffing.is_trec,
        ties="last name",
    ),
    Format(
        name="msmarco",
        holds="ranked list 'query passage rank', targets as in trec",
        suffixes=("txt", "tsv"),
        opener="tailmetrics.io.trec:read_msmarco",
        lines=True,
        recognises=sniffing.is_msmarco,
    ),
    Format(
        name="jsonl",
        holds="objects with query, item, and score or gain",
        suffixes=("jsonl", "ndjson"),
        opener="tailmetrics.io.json_lines:read_jsonl",
        lines=True,
        recognises=sniffing.is_jsonl,
    ),
    Format(
        name="lists",
        holds="two columns, a query and its labels separated by blanks, as in submissions to Kaggle",
        suffixes=("csv", "tsv"),
        opener="tailmetrics.io.lists:read_lists",
        lines=True,
        recognises=sniffing.is_lists,
    ),
    Format(
        name="csv",
        holds="columns query, item, and score or gain",
        suffixes=("csv",),
        opener="tailmetrics.io.records:read_csv",
        lines=True,
        recognises=sniffing.is_csv,
    ),
    Format(
        name="tsv",
        holds="as csv, separated by tabs, without quotes",
        suffixes=("tsv",),
        opener="tailmetrics.io.records:read_tsv",
        lines=True,
        recognises=sniffing.is_tsv,
    ),
    Format(
        name="xmc",
        holds="text of the Extreme Classification Repository: header 'rows labels', lines 'label:score'",
        suffixes=("txt",),
        opener="tailmetrics.io.xmc:open_xmc",
        recognises=sniffing.is_xmc,
    ),
):
    register_format(_form)
