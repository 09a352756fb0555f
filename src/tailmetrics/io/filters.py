"""Pairs of row and label that do not count, such as items a user saw in training."""

from __future__ import annotations

import numpy as np

from tailmetrics.io.database import Database
from tailmetrics.io.files import DataFileError
from tailmetrics.io.lines import LineFiles
from tailmetrics.io.rows import Array, Ints, Ragged, Rows


class Filter:
    """Pairs of a row and a label that do not count, sorted by row.

    Args:
        rows: Shape (P,), row numbers.
        labels: Shape (P,), label ids.
    """

    def __init__(self, rows: Ints, labels: Ints) -> None:
        order = np.argsort(rows, kind="stable")
        self._rows, self._labels = rows[order], labels[order]

    def __len__(self) -> int:
        return len(self._rows)

    def apply(self, batch: Rows, first: int, blank: float) -> Rows:
        """Return a batch without its filtered labels.

        In a dense batch, ``blank`` overwrites them in place. ``first`` is the row
        number of the batch's first row.
        """
        start, stop = np.searchsorted(self._rows, [first, first + len(batch)])
        if start == stop:
            return batch
        rows, labels = self._rows[start:stop] - first, self._labels[start:stop]
        if isinstance(batch, Ragged):
            return batch.select(_unlisted(batch, rows, labels))
        batch[rows, labels] = blank
        return batch


def _unlisted(batch: Ragged, rows: Ints, labels: Ints) -> Array:
    distinct, place = np.unique(
        np.concatenate([batch.ids.astype(np.int64), labels]), return_inverse=True
    )
    row = np.concatenate([batch.row_numbers, rows])
    entries, filtered = np.split(row * len(distinct) + place, [len(batch.ids)])
    return ~np.isin(entries, filtered)


def read_named_filter(files: LineFiles, database: Database) -> Filter:
    """Read pairs of query and item, without pairs that are not evaluated.

    Args:
        files: The file, or its parts.
        database: Holds the tables ``kept`` (query), whose ``rowid`` is the row number,
            and ``labels`` (item, id).
    """
    files.load(database, "filtered")
    pairs = database.arrays(
        "SELECT kept.rowid AS row, id FROM filtered JOIN kept USING (query) JOIN "
        "labels USING (item)"
    )
    first = database.row("SELECT query, item FROM filtered ORDER BY rowid LIMIT 1")
    if not len(pairs["row"]):
        hint = "write queries and items as the predictions and targets do."
        problem = (
            "none of its pairs is a query and an item that are evaluated, such as "
            f"{first[0]!r} and {first[1]!r}"
        )
        raise DataFileError(files.name, problem, hint=hint)
    return Filter(pairs["row"], pairs["id"])


def read_numbered_filter(
    files: LineFiles, num_rows: int, num_labels: int | None, memory: str
) -> Filter:
    """Read pairs of a row number and a label id, for rows without names."""
    database = Database(memory)
    files.load(database, "filtered", may_be_empty=True)
    for word, column, limit in (
        ("row", "query", num_rows),
        ("label", "item", num_labels),
    ):
        number = f"try_cast({column} AS BIGINT)"
        wrong = f"{number} IS NULL OR {number} < 0"
        if limit is not None:
            wrong += f" OR {number} >= {limit}"
        pair = database.row(
            f"SELECT rowid, {column} FROM filtered WHERE {wrong} ORDER BY rowid LIMIT 1"
        )
        if pair is not None:
            problem = f"names the {word} {pair[1]}, but there are {limit} {word}s"
            if not pair[1].lstrip("-").isdecimal():
                problem = f"{word} {pair[1]!r} is not a whole number"
            hint = (
                "rows have numbers here, from 0; does the filter belong to these files?"
            )
            raise DataFileError(files.name, problem, f"pair {pair[0] + 1}", hint)
    pairs = database.arrays(
        "SELECT query::BIGINT AS row, item::BIGINT AS id FROM filtered"
    )
    return Filter(pairs["row"], pairs["id"])
