"""Filter files: (row, label) pairs that do not count, as the Extreme Classification Repository publishes them.

A pair says that the label is the row itself, or reciprocal to it. As in the repository's evaluation, the label leaves
the row's predictions before they are ranked, and its targets too.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from tailmetrics.io.compression import Plain, suffix_of
from tailmetrics.io.errors import DataFileError, check_file, reading
from tailmetrics.io.rows import Array, Ints, Ragged, Rows, entry_keys

HINT = "every line is a row and a label, separated by a blank."
Lookup: TypeAlias = Mapping[str, int]


class Filter:
    """The pairs, by row.

    Args:
        rows: Shape (P,), rows.
        labels: Shape (P,), label ids.
    """

    def __init__(self, rows: Ints, labels: Ints) -> None:
        order = np.argsort(rows, kind="stable")
        self._rows, self._labels = rows[order], labels[order]

    def apply(self, batch: Rows, first: int, blank: float) -> Rows:
        """Return the rows that start at row ``first`` without the filtered labels; ``blank`` overwrites dense cells."""
        start, stop = np.searchsorted(self._rows, [first, first + len(batch)])
        if start == stop:
            return batch
        rows, labels = self._rows[start:stop] - first, self._labels[start:stop]
        if isinstance(batch, Ragged):
            return batch.select(_unlisted(batch, rows, labels))
        batch[rows, labels] = blank
        return batch


def _unlisted(batch: Ragged, rows: Ints, labels: Ints) -> Array:
    row_of_entry = np.repeat(np.arange(len(batch), dtype=np.int64), batch.lengths)
    entries, filtered = entry_keys(row_of_entry, batch.ids.astype(np.int64), rows, labels)
    return ~np.isin(entries, filtered)


def read_filter(path: str | Path, num_rows: int, num_labels: int | None) -> Filter:
    """Read pairs of row and label numbers: text, or a ``.npy`` array [P, 2]."""
    path = check_file(path)
    with reading(path, "a filter file"):
        pairs = _array(path) if suffix_of(path) == "npy" else _text(path)
    for word, column, limit in (("row", pairs[:, 0], num_rows), ("label", pairs[:, 1], num_labels)):
        wrong = (column < 0) if limit is None else (column < 0) | (column >= limit)
        if wrong.any():
            index = int(wrong.argmax())
            problem = f"names the {word} {column[index]}, but there are {limit} {word}s"
            raise DataFileError(path, problem, f"pair {index + 1}", "does the filter belong to these files?")
    return Filter(pairs[:, 0], pairs[:, 1])


def read_keyed_filter(path: str | Path, rows: Lookup, labels: Lookup) -> Filter:
    """Read pairs of query and item; those of a query or item that is not evaluated have nothing to remove."""
    path = check_file(path)
    with reading(path, "a filter file"):
        known = [
            (rows[query], labels[item])
            for words in _words(path)
            for query, item in zip(words[::2].to_pylist(), words[1::2].to_pylist(), strict=True)
            if query in rows and item in labels
        ]
    pairs = np.array(known, dtype=np.int64).reshape(-1, 2)
    return Filter(pairs[:, 0], pairs[:, 1])


def _array(path: Path) -> Array:
    pairs = np.load(Plain(path).path, allow_pickle=False)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise DataFileError(path, f"holds {pairs.dtype} {list(pairs.shape)}", hint="pairs are integers [P, 2].")
    return np.asarray(pairs.astype(np.int64))


def _text(path: Path) -> Array:
    from tailmetrics.io.lines import parse_numbers

    def place(index: int) -> str:
        return f"pair {index // 2 + 1}"

    parts = [parse_numbers(words, int, path, "row or label", place) for words in _words(path)]
    return np.concatenate(parts).reshape(-1, 2) if parts else np.empty((0, 2), dtype=np.int64)


def _words(path: Path) -> Any:
    from tailmetrics.io.lines import read_lines

    for lines in read_lines(path):
        counts, words = lines.words()
        wrong = (counts != 2) & (counts != 0)
        if wrong.any():
            index = int(wrong.argmax())
            raise DataFileError(path, f"there are {counts[index]} words, not 2", lines.place(index), HINT)
        yield words
