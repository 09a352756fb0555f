"""Which reader a file gets: by its suffix, unless the format is named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tailmetrics._checks import check_choice
from tailmetrics.io.checks import Role
from tailmetrics.io.errors import DataFileError, check_file, reading
from tailmetrics.io.source import Source

if TYPE_CHECKING:
    from tailmetrics.io.keyed import Triples

ROW_FORMATS = ("npz", "npy", "pt", "parquet", "xmc")
KEYED_FORMATS = ("trec", "jsonl", "csv", "tsv")
FORMATS = ROW_FORMATS + KEYED_FORMATS
SUFFIXES = {
    "npz": "npz",
    "npy": "npy",
    "pt": "pt",
    "pth": "pt",
    "parquet": "parquet",
    "pq": "parquet",
    "run": "trec",
    "trec": "trec",
    "qrel": "trec",
    "qrels": "trec",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "csv": "csv",
    "tsv": "tsv",
}


@dataclass(frozen=True)
class Columns:
    """Names of columns: of Parquet (``ids``, ``scores``, ``labels``, ``gains``), of JSON Lines and CSV (the rest)."""

    ids: str = "ids"
    scores: str = "scores"
    labels: str = "labels"
    gains: str = "gains"
    query: str = "query"
    item: str = "item"
    score: str = "score"
    gain: str = "gain"


def format_of(caller: str, path: str | Path, named: str | None) -> str:
    """Return the format of a file: the one named, else by suffix; ``.txt`` is XMC text or TREC by its first line."""
    if named is not None:
        return check_choice(caller, "format", named, FORMATS)
    path = check_file(path)
    suffix = path.suffix.lower().removeprefix(".")
    if suffix in SUFFIXES:
        return SUFFIXES[suffix]
    form = {2: "xmc", 3: "xmc", 4: "trec", 6: "trec"}.get(words_on_first_line(path)) if suffix == "txt" else None
    if form is None:
        hint = f"name it: format= is one of {', '.join(FORMATS)}."
        raise DataFileError(path, "its format cannot be told from its name", hint=hint)
    return form


def words_on_first_line(path: Path) -> int:
    """Return the number of words on the first line that has any, of the first 64 kB."""
    with reading(path, "text"), path.open("rb") as file:
        lines = file.read(2**16).split(b"\n")
    return next((len(line.split()) for line in lines if line.split()), 0)


def open_rows(path: str | Path, form: str, role: Role, columns: Columns) -> Source:
    """Open a file whose rows stand one below the other."""
    with reading(Path(path), form):
        if form == "npz":
            from tailmetrics.io.npz import NpzSource

            return NpzSource(path)
        if form == "xmc":
            from tailmetrics.io.xmc import XmcSource

            return XmcSource(path, role)
        if form == "parquet":
            from tailmetrics.io.parquet import ParquetSource

            names = (columns.ids, columns.scores) if role == "preds" else (columns.labels, columns.gains)
            return ParquetSource(path, *names)
        from tailmetrics.io.arrays import ArraySource

        return ArraySource(path, role, form)


def open_triples(path: str | Path, form: str, role: Role, columns: Columns) -> Iterator[Triples]:
    """Open a file whose lines name their query."""
    fields = (columns.query, columns.item, columns.score if role == "preds" else columns.gain)
    with reading(Path(path), form):
        if form == "trec":
            from tailmetrics.io.trec import read_trec

            return read_trec(path, role)
        from tailmetrics.io.records import read_csv, read_jsonl

        if form == "jsonl":
            return read_jsonl(path, role, fields)
        return read_csv(path, role, fields, "," if form == "csv" else "\t")
