"""File formats: each declares its name, its suffixes and its opener.

To add a format, register it as this module does at its end.
:func:`tailmetrics.io.read`, the command line and their messages then know it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tailmetrics._arguments import check_choice
from tailmetrics.io.files import ALIKE_HINT, DataFileError, FilePath, suffix_of
from tailmetrics.io.forms import Opening

Opener: TypeAlias = Callable[[Opening], Any]
"""A function that opens a file: it returns ``Lines``, or a ``Source`` of rows."""


@dataclass(frozen=True)
class Format:
    """One file format.

    Attributes:
        name: The value for ``format=`` and ``--format``.
        content: The content of a file, for the help of the command line.
        suffixes: Suffixes of its files, without the dot.
        opener: The function that opens a file: it returns ``Lines`` if each line names
            its query, else a ``Source``.
    """

    name: str
    content: str
    suffixes: tuple[str, ...]
    opener: Opener


FORMATS: dict[str, Format] = {}
"""Name -> format."""


def register_format(form: Format) -> None:
    """Add a format, or replace the format with the same name.

    Args:
        form: The format.
    """
    FORMATS[form.name] = form


def format_of(
    caller: str, option: str, parts: Sequence[FilePath], name: str | None
) -> Format:
    """Return the format of files: as named, else by their suffixes.

    Args:
        caller: The function that the user called, for errors.
        option: The option that names the format, for errors.
        parts: The files.
        name: The name of the format; None if their suffixes say it.

    Raises:
        DataFileError: If a suffix names no format, or two suffixes name different ones.
    """
    if name is not None:
        return FORMATS[check_choice(caller, "format", name, list(FORMATS))]
    form = _by_suffix(option, parts[0])
    for part in parts:
        other = _by_suffix(option, part)
        if other is not form:
            raise DataFileError(
                part, f"is {other.name}, but {parts[0]} is {form.name}", hint=ALIKE_HINT
            )
    return form


def _by_suffix(option: str, path: FilePath) -> Format:
    suffix = suffix_of(path)
    for form in FORMATS.values():
        if suffix in form.suffixes:
            return form
    problem = f"the suffix {suffix!r} names no format"
    if not suffix:
        problem = "no suffix names its format"
    hint = f"--{option} NAME, one of {', '.join(FORMATS)}"
    raise DataFileError(path, problem, hint=hint)


def _in(module: str, function: str) -> Opener:
    """Return a function of a module that is imported only when the function is called.

    Importing pyarrow takes a while.
    """

    def opener(opening: Opening) -> Any:
        from importlib import import_module

        return getattr(import_module(f"tailmetrics.io.{module}"), function)(opening)

    return opener


for _form in (
    Format(
        "csv",
        "columns by name: lines with query, item and number, or lists",
        ("csv",),
        _in("text", "open_csv"),
    ),
    Format(
        "tsv",
        "as csv, separated by tabs, without quotes",
        ("tsv", "inter"),
        _in("text", "open_csv"),
    ),
    Format(
        "jsonl",
        "an object in each line, with fields as columns",
        ("jsonl", "ndjson"),
        _in("objects", "open_jsonl"),
    ),
    Format(
        "json",
        "{query: {item: number}}, {query: [items]} or [objects]",
        ("json",),
        _in("objects", "open_json"),
    ),
    Format(
        "parquet",
        "columns by name, with types",
        ("parquet", "pq", "parq"),
        _in("typed", "open_columns"),
    ),
    Format(
        "arrow",
        "as parquet: Arrow, Feather, saved datasets",
        ("arrow", "feather", "ipc"),
        _in("typed", "open_columns"),
    ),
    Format(
        "trec",
        "a run 'query Q0 item rank score tag', or qrels",
        ("trec", "run", "qrels", "qrel"),
        _in("text", "open_trec"),
    ),
    Format(
        "letor",
        "'grade qid:query feature:value', or a score in each line",
        ("letor",),
        _in("text", "open_letor"),
    ),
    Format(
        "xmc",
        "header 'rows labels', lines 'label:value'",
        ("xmc",),
        _in("xmc", "XmcSource"),
    ),
    Format(
        "npy",
        "numpy: scores [N, L], ranked ids [N, K], classes [N]",
        ("npy",),
        _in("arrays", "NumpySource"),
    ),
    Format(
        "npz",
        "CSR of scipy: stored entries are scores or gains",
        ("npz",),
        _in("arrays", "NpzSource"),
    ),
    Format(
        "pt",
        "torch: as npy, or a pair (scores, ids), or CSR",
        ("pt", "pth"),
        _in("arrays", "TorchSource"),
    ),
    Format(
        "msmarco",
        "a ranked list 'query passage rank', or qrels",
        (),
        _in("text", "open_msmarco"),
    ),
):
    register_format(_form)
