"""Rows made shorter before they are evaluated: grades too low to count, and what stands below a cut."""

from __future__ import annotations

import numpy as np

from tailmetrics.io.rows import Array, Ragged, Rows


def drop_low_gains(rows: Rows, minimum: float) -> Rows:
    """Return targets without the gains below ``minimum``; as they are where they have no gains."""
    if isinstance(rows, Ragged):
        return rows if rows.values is None else rows.select(rows.values >= minimum)
    if rows.dtype.kind == "b":
        return rows
    return np.where(rows >= minimum, rows, rows.dtype.type(0))


def cut(rows: Rows, depth: int) -> Rows:
    """Return the best ``depth`` labels of each row; of equal scores the lower label id is the better one."""
    if not isinstance(rows, Ragged):
        return _cut_matrix(rows, depth)
    if rows.values is not None:
        row = np.repeat(np.arange(len(rows)), rows.lengths)
        order = np.lexsort((rows.ids, -rows.values.astype(np.float64, copy=False), row))
        rows = Ragged(rows.offsets, rows.ids[order], rows.values[order])
    place = np.arange(len(rows.ids)) - np.repeat(rows.offsets[:-1], rows.lengths)
    return rows.select(place < depth)


def _cut_matrix(scores: Array, depth: int) -> Array:
    """Return scores with -inf at all but the best ``depth`` of each row."""
    if depth >= scores.shape[1]:
        return scores
    last = np.partition(scores, scores.shape[1] - depth, axis=1)[:, [scores.shape[1] - depth]]
    above, tied = scores > last, scores == last
    room = depth - above.sum(axis=1, keepdims=True)
    kept = above | (tied & (tied.cumsum(axis=1) <= room))
    return np.where(kept, scores, scores.dtype.type(-np.inf))
