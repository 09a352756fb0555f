"""Files whose lines name their row: TREC, JSON Lines and CSV, joined by the query.

Rows are the target's queries in the order they are first met. Such files are read whole by every rank, since any line
may belong to any query; a rank holds its own queries only, about 100 bytes per line of theirs while it sorts them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tailmetrics.io.errors import DataFileError
from tailmetrics.io.names import UNKNOWN_HINT, Numbering
from tailmetrics.io.rows import Array, Ints, Ragged
from tailmetrics.io.source import Source


@dataclass(frozen=True, eq=False)
class Triples:
    """Some lines of a file: (query, item, value).

    Attributes:
        query: Arrow string array.
        item: Arrow string array; null where the query has an empty list.
        value: Scores or gains; None when the file gives none.
        place: From the index of a line to how an error names it.
    """

    query: Any
    item: Any
    value: Array | None
    place: Callable[[int], str]


@dataclass(frozen=True, eq=False)
class Entries:
    """What is kept of the lines of a file: codes of query and item, and the value."""

    query: Ints
    item: Ints
    value: Array | None

    def rows(self, row_of_query: Ints, first: int, stop: int, label_of_item: Ints) -> Ragged:
        """Return rows ``first`` to ``stop``; a query whose row lies outside, such as -1, is left out."""
        row = row_of_query[self.query]
        kept = np.flatnonzero((row >= first) & (row < stop))
        kept = kept[np.argsort(row[kept], kind="stable")]
        lengths = np.bincount(row[kept] - first, minlength=stop - first)
        values = None if self.value is None else self.value[kept]
        return Ragged.from_lengths(lengths, label_of_item[self.item[kept]], values)


def collect(
    path: Path,
    triples: Iterable[Triples],
    queries: Numbering,
    items: Numbering,
    keep: Callable[[Ints], Array] | None = None,
) -> Entries:
    """Read a file to its end and return its entries; ``keep`` marks from their codes the queries to hold on to."""
    parts: list[Entries] = []
    lines = 0
    for block in triples:
        query, item, listed = _encode(path, block, queries, items)
        lines += len(query)
        kept = listed if keep is None else keep(query) & listed
        value = None if block.value is None else block.value[kept]
        parts.append(Entries(query[kept].astype(np.int32), item[kept].astype(np.int32), value))
    if not lines:
        raise DataFileError(path, "holds no rows", hint="the program that wrote it may have failed: write it again.")
    if len({part.value is None for part in parts}) > 1:
        raise DataFileError(path, "only some lines have a gain", hint="give every line a gain, or none.")
    values = [part.value for part in parts if part.value is not None]
    query = np.concatenate([part.query for part in parts])
    return Entries(query, np.concatenate([part.item for part in parts]), np.concatenate(values) if values else None)


def _encode(path: Path, block: Triples, queries: Numbering, items: Numbering) -> tuple[Ints, Ints, Array]:
    """Return the codes of queries and items, and where there is an item."""
    for word, column in (("query", block.query), ("item", block.item)):
        index = column.index("").as_py()
        if index >= 0:
            raise DataFileError(path, f"the {word} is empty", block.place(index), f"every line names its {word}.")
    listed = np.ones(len(block.item), dtype=np.bool_)
    if block.item.null_count:
        listed = block.item.is_valid().to_numpy(zero_copy_only=False)
    item = np.zeros(len(listed), dtype=np.int64)
    item[listed] = items.encode(block.item.drop_null())
    if item.size and item.min() < 0:
        index = int(item.argmin())
        raise DataFileError(path, f"unknown label {block.item[index].as_py()!r}", block.place(index), UNKNOWN_HINT)
    return queries.encode(block.query), item, listed


class KeyedSource(Source):
    """A rank's rows of a joined file, in memory.

    Args:
        path: The file.
        entries: The rows from ``first`` on.
        first: The rank's first row.
        row_names: Queries of all rows.
        label_names: Names of the labels; None when they are numbers.
        num_labels: Number of labels.
    """

    def __init__(
        self,
        path: Path,
        entries: Ragged,
        first: int,
        row_names: Sequence[str],
        label_names: Sequence[str] | None,
        num_labels: int,
    ) -> None:
        self.path = path
        self.num_rows = len(row_names)
        self.num_labels = num_labels
        self.cells_per_row = entries.width
        self._entries = entries
        self._first = first
        self._row_names = row_names
        self._label_names = label_names

    def batches(self, start: int, stop: int, size: int) -> Iterator[Ragged]:
        """Yield the rows, which lie in memory already."""
        for first in range(start, stop, size):
            yield self._entries.slice(first - self._first, min(first + size, stop) - self._first)

    def place(self, row: int) -> str:
        """Return the query of a row."""
        return f"query {self._row_names[row]!r}"

    def label(self, label_id: int) -> str:
        """Return the name of a label, if it has one."""
        return str(label_id) if self._label_names is None else repr(self._label_names[label_id])
