"""Batches with axes in front of the rows' own, and rows that are to be ignored."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tailmetrics._checks import INTEGERS, shape_of
from tailmetrics.ranking._context import Context
from tailmetrics.ranking._tensors import as_tensor


@dataclass(frozen=True)
class Batch:
    """The arguments of an update."""

    preds: Any
    target: Any
    row_mask: Any = None
    row_groups: Any = None
    row_weights: Any = None


def rows_of_sequences(context: Context, batch: Batch) -> Batch:
    """Return a batch with one axis of rows: scores (B, T, L) and target (B, T) are B·T rows; nothing is copied."""
    first = batch.preds[0] if isinstance(batch.preds, (tuple, list)) and batch.preds else batch.preds
    if isinstance(first, (Tensor, np.ndarray)) and first.ndim > 2:
        axes = first.ndim - 1
        preds = tuple(map(_flat, batch.preds)) if isinstance(batch.preds, (tuple, list)) else _flat(batch.preds)
        others = (batch.target, batch.row_mask, batch.row_groups, batch.row_weights)
        named = zip(("target", "row_mask", "row_groups", "row_weights"), others, strict=True)
        batch = Batch(preds, *(_rows(context.caller, name, one, first.shape[:axes]) for name, one in named))
    return batch if context.ignore_index is None else _without_ignored(context, batch, context.ignore_index)


def _flat(preds: Any) -> Any:
    return preds.reshape(prod(preds.shape[:-1]), preds.shape[-1]) if isinstance(preds, (Tensor, np.ndarray)) else preds


def _rows(caller: str, argument: str, value: Any, leading: tuple[int, ...]) -> Any:
    if value is None:
        return None
    if not isinstance(value, (Tensor, np.ndarray)) or tuple(value.shape[: len(leading)]) != tuple(leading):
        shown = f"of shape {list(value.shape)}" if hasattr(value, "shape") else f"a {type(value).__name__}"
        raise ValueError(
            f"{caller}: {argument} is {shown}, but preds has the axes {list(leading)} in front of its labels; pass "
            f"{argument} with the same axes in front."
        )
    return value.reshape(prod(leading), *value.shape[len(leading) :])


def _without_ignored(context: Context, batch: Batch, ignored: int) -> Batch:
    """Return a batch whose row mask drops the rows that hold ``ignore_index``."""
    target = as_tensor(context.caller, "target", batch.target)
    if target.ndim != 1 or target.dtype not in INTEGERS:
        raise ValueError(
            f"{context.caller}: ignore_index={ignored} drops rows by their one label, but target is "
            f"{shape_of(target)}; pass one label per row, or row_mask."
        )
    target = target.to(torch.int64)  # -100 as a byte would be label 156
    kept = target.ne(ignored)
    mask = kept if batch.row_mask is None else kept & as_tensor(context.caller, "row_mask", batch.row_mask)
    target = torch.where(kept, target, -1)
    return Batch(batch.preds, target, mask, batch.row_groups, batch.row_weights)
