"""Filter files: (row, label) pairs that do not count, as the Extreme Classification Repository publishes them.

A pair says that the label is the row itself, or reciprocal to it. As in the repository's evaluation, the label leaves
the row's predictions before they are ranked, and its targets too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tailmetrics.io.compression import Plain, suffix_of
from tailmetrics.io.engine import Engine
from tailmetrics.io.errors import DataFileError, reading
from tailmetrics.io.finding import PathLike
from tailmetrics.io.paths import FilePath, check_file
from tailmetrics.io.rows import Array, Ints, Ragged, Rows, entry_keys

HINT = "every line is a row and a label, separated by a blank."


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


def read_filter(path: PathLike, num_rows: int, num_labels: int | None) -> Filter:
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


def read_keyed_filter(path: PathLike, engine: Engine) -> Filter:
    """Read pairs of query and item; those of a query or item that is not evaluated have nothing to remove.

    Args:
        path: The file.
        engine: With the tables ``kept`` (query, row) and ``labels`` (item, id).
    """
    import pyarrow as pa

    path = check_file(path)
    schema = pa.schema([("query", pa.large_string()), ("item", pa.large_string())])
    with reading(path, "a filter file"):
        batches = (pa.record_batch([words[::2], words[1::2]], schema) for words in _words(path))
        engine.load("filtered", schema, batches)
    found = engine.arrays(
        "SELECT row::BIGINT AS row, id FROM filtered JOIN kept USING (query) JOIN labels USING (item)"
    )
    return Filter(found["row"], found["id"])


def _array(path: FilePath) -> Array:
    pairs = np.load(Plain(path).path, allow_pickle=False)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise DataFileError(path, f"holds {pairs.dtype} {list(pairs.shape)}", hint="pairs are integers [P, 2].")
    return np.asarray(pairs.astype(np.int64))


def _text(path: FilePath) -> Array:
    from tailmetrics.io.lines import parse_numbers

    def place(index: int) -> str:
        return f"pair {index // 2 + 1}"

    parts = [parse_numbers(words, int, path, "row or label", place) for words in _words(path)]
    return np.concatenate(parts).reshape(-1, 2) if parts else np.empty((0, 2), dtype=np.int64)


def _words(path: FilePath) -> Any:
    from tailmetrics.io.lines import read_lines

    for lines in read_lines(path):
        counts, words = lines.words()
        wrong = (counts != 2) & (counts != 0)
        if wrong.any():
            index = int(wrong.argmax())
            raise DataFileError(path, f"there are {counts[index]} words, not 2", lines.place(index), HINT)
        yield words
