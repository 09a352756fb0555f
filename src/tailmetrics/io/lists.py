"""A query and its labels on each line, as in submissions to Kaggle: ``id,a b c``, best first.

The first line names two columns, separated by a comma or a tab. Labels are separated by blanks; none is an empty list.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailmetrics.io.columns import Columns
from tailmetrics.io.csv_file import CsvFile
from tailmetrics.io.errors import DataFileError, note
from tailmetrics.io.formats import Opening
from tailmetrics.io.keyed import Triples
from tailmetrics.io.paths import FilePath, check_file
from tailmetrics.io.roles import Role
from tailmetrics.io.rows import Array
from tailmetrics.io.sniffing import Head, names_lists


def read_lists(asked: Opening) -> Iterator[Triples]:
    """Yield (query, label, minus rank) of lists of predictions, or (query, label) of targets."""
    path, role, columns, _ = asked
    check_file(path)
    first = next(iter(Head(path).lines), "")
    file = CsvFile(path, "\t" if "\t" in first else ",")
    query, listed = _columns(file, columns)
    if role is not None:
        note(path, f"column {query!r} is the query, {listed!r} the list of its labels; format='csv' reads pairs.")
    seen: set[str] = set()
    for place, (queries, lists) in file.blocks([query, listed]):
        _check_once(path, queries, place, seen)
        yield _triples(queries, lists, place, role)


def _columns(file: CsvFile, columns: Columns) -> tuple[str, str]:
    if len(file.header) != 2:
        problem = f"has {len(file.header)} columns, not 2"
        raise DataFileError(file.path, problem, file.where, "a line is a query and the labels of its list: id,a b c.")
    if not names_lists(file.header):
        problem = f"{' and '.join(map(repr, file.header))} are no names of columns"
        raise DataFileError(file.path, problem, file.where, "the first line names the two columns: id,predicted.")
    query = 1 if columns.query == file.header[1] or columns.item == file.header[0] else 0
    return file.header[query], file.header[1 - query]


def _check_once(path: FilePath, queries: Any, place: Any, seen: set[str]) -> None:
    for index, query in enumerate(queries.to_pylist()):
        if query in seen:
            hint = "a query has one line, with all of its list; format='csv' reads pairs of query and item."
            raise DataFileError(path, f"has a second list of query {query!r}", place(index), hint)
        seen.add(query)


def _triples(queries: Any, lists: Any, place: Any, role: Role | None) -> Triples:
    """Return one triple for each label, and one without a label for an empty list."""
    words = pc.ascii_split_whitespace(pc.ascii_trim_whitespace(lists))
    lengths: Array = pc.list_value_length(words).to_numpy()
    line = np.repeat(np.arange(len(lengths)), lengths)
    flat = words.flatten()
    items = pc.if_else(pc.equal(flat, ""), pa.scalar(None, pa.string()), flat)
    position = np.arange(len(line)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    value = -position.astype(np.float64) if role == "preds" else None
    return Triples(queries.take(pa.array(line)), items, value, lambda index: place(int(line[index])))
