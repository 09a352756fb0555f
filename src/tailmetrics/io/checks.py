"""Checks of what a file holds, so that an error names the file and the row."""

from __future__ import annotations

import numpy as np

from tailmetrics._checks import LARGEST_GAIN
from tailmetrics.io.formats import Role
from tailmetrics.io.rows import Array, Ragged, Rows, Source, entry_keys

LARGEST = 2**63 - 1
RANGE_HINT = "label ids run from 0 to the number of labels less one: check num_labels and how the ids were numbered."
NEGATIVE_HINT = "label ids start at 0; with string_ids=True a placeholder is a label like any other."
REPEAT_HINTS = {
    "preds": "duplicates='first' leaves the later one in its place as a miss; to drop it would move up what follows.",
    "target": "a label is relevant to a row or not: list it once.",
}
WIDTH_HINT = "whole numbers as many as there are labels are multi-hot; label ids need one more column of -1."
VALUE_HINTS = {
    "preds": "write -inf for what was not retrieved, or leave it out.",
    "target": f"gains are 0 or from {1 / LARGEST_GAIN:g} to {LARGEST_GAIN:g}: write 0 for what is not relevant.",
}


def check_rows(
    rows: Rows, role: Role, source: Source, first: int, num_labels: int | None, repeats: bool = False
) -> None:
    """Raise unless ids are in range and distinct within their row, scores are not NaN, and gains add up exactly.

    Args:
        rows: Rows as read.
        role: What they are for.
        source: The file, for the message.
        first: Number in the file of the first row.
        num_labels: Number of labels; None leaves the upper end open.
        repeats: Whether a row may hold a label more than once.
    """
    if not isinstance(rows, Ragged):
        _check_values(rows, role, source, first, None)
        return
    _check_range(rows, source, first, num_labels)
    if rows.values is not None:
        _check_values(rows.values, role, source, first, rows)
    if not repeats:
        _check_distinct(rows, role, source, first)


def _check_range(rows: Ragged, source: Source, first: int, num_labels: int | None) -> None:
    if not rows.ids.size:
        return
    low, high = int(rows.ids.min()), int(rows.ids.max())
    if low < 0:
        row = rows.row_of(int(rows.ids.argmin()))
        raise source.error(first + row, f"holds the label id {low}", NEGATIVE_HINT)
    if high > LARGEST:
        row = rows.row_of(int(rows.ids.argmax()))
        raise source.error(first + row, f"holds the label id {high}", f"label ids are at most {LARGEST}.")
    if num_labels is not None and high >= num_labels:
        row = rows.row_of(int(rows.ids.argmax()))
        raise source.error(first + row, f"holds the label id {high}, but there are {num_labels} labels", RANGE_HINT)


def _check_values(values: Array, role: Role, source: Source, first: int, rows: Ragged | None) -> None:
    """Check scores or gains; of scores only the smallest is read, in one pass, and is NaN if one is."""
    if not values.size or values.dtype.kind in "bu":
        return
    if role == "preds":
        if values.dtype.kind == "i" or not np.isnan(values.min()):
            return
        wrong = np.isnan(values)
    else:
        tiny = values.dtype.kind == "f" and ((values > 0) & (values < 1 / LARGEST_GAIN)).any()
        if values.min() >= 0 and float(values.max()) <= LARGEST_GAIN and not tiny:
            return
        real = values.astype(np.float64)
        wrong = (real != 0) & ~((real >= 1 / LARGEST_GAIN) & (real <= LARGEST_GAIN))
    at = int(wrong.argmax())
    row = at // values.shape[1] if rows is None else rows.row_of(at)
    word = "score" if role == "preds" else "gain"
    hint = WIDTH_HINT if values.dtype.kind == "i" else VALUE_HINTS[role]
    raise source.error(first + row, f"holds the {word} {values.flat[at]}", hint)


def _check_distinct(rows: Ragged, role: Role, source: Source, first: int) -> None:
    width = rows.width
    if width < 2:
        return
    if len(rows) * width <= 2 * rows.ids.size:
        row, label = _repeated_in_matrix(rows, width)
    else:
        row, label = _repeated_in_entries(rows)
    if row >= 0:
        raise source.error(first + row, f"holds the label {source.label(label)} twice", REPEAT_HINTS[role])


def _repeated_in_matrix(rows: Ragged, width: int) -> tuple[int, int]:
    """Return row and id of a repeated label, or -1; rows of about one length are sorted side by side."""
    ids = rows.ids.astype(np.int32) if int(rows.ids.max()) < 2**31 else rows.ids.astype(np.int64)
    ordered = rows.padded(ids, -1, width)
    ordered.sort(axis=1)
    repeated = ordered[:, 1:] == ordered[:, :-1]
    if ids.size < ordered.size:
        repeated &= ordered[:, 1:] >= 0
    if not repeated.any():
        return -1, -1
    row, column = divmod(int(repeated.argmax()), width - 1)
    return row, int(ordered[row, column])


def _repeated_in_entries(rows: Ragged) -> tuple[int, int]:
    """Return row and id of a repeated label, or -1; rows of very different lengths are sorted as (row, id) keys."""
    row_of_entry = np.repeat(np.arange(len(rows), dtype=np.int64), rows.lengths)
    (keys,) = entry_keys(row_of_entry, rows.ids.astype(np.int64))
    if (np.diff(keys) > 0).all():
        return -1, -1
    order = keys.argsort(kind="stable")
    repeated = np.flatnonzero(keys[order[1:]] == keys[order[:-1]])
    if not repeated.size:
        return -1, -1
    entry = int(order[repeated[0]])
    return int(row_of_entry[entry]), int(rows.ids[entry])
