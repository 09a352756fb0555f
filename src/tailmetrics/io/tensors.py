"""Rows of a file as the tensors that ``metric.update`` takes."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from torch import Tensor

from tailmetrics.io.rows import Array, Ragged, Rows

WASTE = 4
"""Rows so different in length that padding would hold this many times their entries become a sparse matrix."""


def preds_tensors(rows: Rows, num_labels: int | None) -> Tensor | tuple[Tensor, Tensor]:
    """Return dense scores [N, L], ranked ids [N, K], a pair (scores, ids) of candidates, or CSR [N, L]."""
    if not isinstance(rows, Ragged):
        return _tensor(rows)
    width = max(1, rows.width)
    if rows.values is None:
        return _padded_ids(rows, width)
    scores = rows.values if rows.values.dtype.kind == "f" else rows.values.astype(np.float64)
    if num_labels is not None and len(rows) * width > WASTE * (len(rows.ids) + len(rows)):
        return csr_tensor(rows, scores, num_labels)
    return _tensor(rows.padded(scores, -np.inf, width), rows.values), _padded_ids(rows, width)


def target_tensor(rows: Rows, num_labels: int | None) -> Tensor:
    """Return a dense target [N, L], label ids [N, M], or, when there are gains, CSR [N, L]."""
    if not isinstance(rows, Ragged):
        return _tensor(rows)
    if rows.values is not None:
        if num_labels is None:
            raise ValueError("num_labels=None: gains become a matrix of one column per label; pass num_labels.")
        return csr_tensor(rows, rows.values, num_labels)
    width = max(1, rows.width)
    if width == num_labels:
        width += 1  # whole numbers of width L would be taken for a matrix
    return _padded_ids(rows, width)


def _padded_ids(rows: Ragged, width: int) -> Tensor:
    return _tensor(rows.padded(rows.ids.astype(np.int64, copy=False), -1, width), rows.ids)


def csr_tensor(rows: Ragged, values: Array, num_labels: int) -> Tensor:
    """Return rows as CSR [N, L]."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(
            _tensor(rows.offsets.astype(np.int64, copy=False)),
            _tensor(rows.ids.astype(np.int64, copy=False)),
            _tensor(values),
            size=(len(rows), num_labels),
            check_invariants=False,
        )


def _tensor(array: Array, lent: Array | None = None) -> Tensor:
    """Return an array as a tensor that owns its memory: what arrow or a file lends may not be written to.

    Args:
        array: Any array.
        lent: What may have been lent; None where each view may be of something lent.
    """
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:
        array = array.astype(np.int64)
    is_lent = not array.flags.owndata if lent is None else np.may_share_memory(array, lent)
    if is_lent or not array.flags.writeable:
        array = array.copy()
    return torch.from_numpy(np.ascontiguousarray(array))
