"""Reads rankings and tensors, the forms of :func:`tailmetrics.rank`, as data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from math import prod
from typing import Any

import torch
from torch import Tensor

from tailmetrics._arguments import INTEGERS, shape_of
from tailmetrics._number_of_labels import number_of_labels
from tailmetrics.evaluation.data import Data, DataBatch
from tailmetrics.evaluation.options import CALLER, Options
from tailmetrics.frequency import LabelFrequency
from tailmetrics.ranking import Ranking
from tailmetrics.ranking._batch import Batch, Context
from tailmetrics.ranking._reading import wrong_axes
from tailmetrics.ranking._rows import as_rows, labels_without
from tailmetrics.ranking._tensors import as_tensor, as_tensors


def data_of_ranking(ranking: Ranking, train_target: Any, options: Options) -> Data:
    """Return a ranking as data of a single batch."""
    train_labels = _training_labels(train_target)
    widths = _widths({"train_target": train_labels})
    if ranking.num_labels is not None:
        widths = {"preds": ranking.num_labels, **widths}
    num_labels = number_of_labels(CALLER, widths, options.stated_numbers())
    train = None
    if train_labels is not None:
        num_counted = num_labels or 1 + _largest_id(
            ranking.ids, ranking.targets.entries.ids, train_labels
        )
        train = _training_counts(train_labels, num_counted, options.ignore_index)
    rows = slice(0, ranking.num_rows)
    return Data(
        num_rows=ranking.num_rows,
        num_labels=num_labels,
        device=ranking.ids.device,
        batches=lambda _: iter([(rows, Batch(ranking))]),
        may_have_gaps=num_labels is None,
        train=train,
    )


def data_of_tensors(
    preds: Any, target: Any, train_target: Any, options: Options
) -> Data:
    """Return scores, ids, candidates or CSR and their targets as data."""
    batch = Batch(preds, target, options.row_mask)
    # (B, T) of scores (B, T, L)
    leading_axes = getattr(_tensors_of(preds)[0], "shape", ())[:-1]
    as_tensors(CALLER, batch)
    as_rows(Context(CALLER), batch)
    scores, *_ = _tensors_of(batch.preds)
    if scores.ndim == 1:
        raise wrong_axes(CALLER, scores, batch.target)
    if batch.target.ndim == 0 or len(scores) != len(batch.target):
        raise ValueError(
            f"{CALLER}: preds is {shape_of(scores)} and target "
            f"{shape_of(batch.target)}; pass preds [N, L] or [N, K] and one row of "
            "target per row of preds."
        )

    train_labels = _training_labels(train_target)
    widths = _widths(
        {"preds": batch.preds, "target": batch.target, "train_target": train_labels}
    )
    num_labels = number_of_labels(CALLER, widths, options.stated_numbers())
    if not widths and options.label_names is not None:
        _check_has_names(len(options.label_names), batch, options.ignore_index)

    train = None
    if train_labels is not None:
        has_tokens = len(leading_axes) > 1 and batch.target.ndim == 1
        num_labels = num_labels or 1 + _largest_id(
            _tensors_of(batch.preds)[-1], batch.target, train_labels
        )
        train = _training_counts(
            train_labels, num_labels, options.ignore_index, has_tokens
        )
    return Data(
        num_rows=len(scores),
        num_labels=num_labels,
        device=scores.device,
        batches=partial(_batches_of_tensors, batch),
        row_mask=batch.row_mask,
        may_have_gaps=not widths and options.label_names is None,
        tokens=prod(leading_axes[1:]),
        train=train,
    )


def _tensors_of(preds: Any) -> tuple[Any, ...]:
    """Return scores and ids of candidates, or the one tensor of other predictions."""
    if isinstance(preds, tuple):
        return preds
    return (preds,)


def _batches_of_tensors(batch: Batch, size: int) -> Iterator[DataBatch]:
    """Yield ``size`` rows at a time; one empty batch for no rows.

    Arguments are checked for this batch, too.
    """
    num_rows = len(batch.target)
    for start in range(0, max(1, num_rows), size):
        rows = slice(start, min(start + size, num_rows))
        preds: Any = tuple(_cut(tensor, rows) for tensor in _tensors_of(batch.preds))
        if not isinstance(batch.preds, tuple):
            (preds,) = preds
        target = _cut(batch.target, rows)
        yield rows, Batch(preds, target, form=batch.form)


def _training_labels(train_target: Any) -> Tensor | None:
    """Return training targets as a tensor; None without training targets."""
    if train_target is None:
        return None
    return as_tensor(CALLER, "train_target", train_target)


def _widths(tensors: Mapping[str, Any]) -> dict[str, int]:
    """Return by argument the width of each tensor that has a column per label.

    Ids have no such width.
    """
    widths = {}
    for argument, tensor in tensors.items():
        if not isinstance(tensor, Tensor) or tensor.ndim < 2:
            continue
        if (
            tensor.is_floating_point()
            or tensor.is_sparse_csr
            or tensor.dtype == torch.bool
        ):
            widths[argument] = tensor.shape[-1]
    return widths


def _training_counts(
    labels: Tensor,
    num_labels: int,
    ignore_index: int | None = None,
    has_tokens: bool = False,
) -> LabelFrequency:
    """Return the counts of training targets, in which ``ignore_index`` is no label.

    Args:
        labels: The training targets in any form.
        num_labels: Number of labels L.
        ignore_index: An id that is no label.
        has_tokens: Whether the targets of the evaluation are one id per token.
    """
    train = LabelFrequency(num_labels, sync_on_compute=False)
    try:
        holds_ids = labels.dtype in INTEGERS and not labels.is_sparse_csr
        if has_tokens and ignore_index is None:
            train.update(labels, ignore_index=-1)
        elif has_tokens or ignore_index is None or not holds_ids:
            train.update(labels, ignore_index=ignore_index)
        else:
            train.update(*labels_without(labels, ignore_index))
    except ValueError as error:
        raise ValueError(f"{CALLER}: train_target: {error}") from error
    return train


def _check_has_names(num_names: int, batch: Batch, ignore_index: int | None) -> None:
    """Raise unless there is a name for each label id of the rows that count."""
    rows: Any = slice(None)
    if batch.row_mask is not None:
        rows = batch.row_mask
    ids = _tensors_of(batch.preds)[-1]
    labels = torch.cat([ids[rows].flatten(), batch.target[rows].flatten()])
    highest = _largest_id(labels[labels != ignore_index])
    if highest >= num_names:
        raise ValueError(
            f"{CALLER}: label_names holds {num_names:,} names, for the label ids 0 to "
            f"{num_names - 1:,}, but preds or target holds the id {highest:,}. If "
            "these numbers are names, pass them as lists of strings, or a table."
        )


def _largest_id(*tensors: Tensor) -> int:
    """Return the largest label id, 0 without ids."""
    largest = 0
    for tensor in tensors:
        if tensor.numel():
            largest = max(largest, int(tensor.max()))
    return largest


def _cut(value: Tensor, rows: slice) -> Tensor:
    """Return some rows of a dense or CSR tensor."""
    if not value.is_sparse_csr:
        return value[rows]
    crow = value.crow_indices()[rows.start : rows.stop + 1]
    stored = slice(int(crow[0]), int(crow[-1]))
    return torch.sparse_csr_tensor(
        crow - crow[0],
        value.col_indices()[stored],
        value.values()[stored],
        size=(rows.stop - rows.start, value.shape[1]),
        check_invariants=False,  # the whole tensor was checked
    )
