"""Turn the arguments of an update into tensors, once, with one axis of rows.

Each argument becomes a tensor; sequences and flat queries become rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import torch
from torch import Tensor

from tailmetrics._arguments import INTEGERS, shape_of
from tailmetrics.ranking._batch import (
    OPTIONAL_ARGUMENTS,
    ROW_ARGUMENTS,
    Batch,
    Context,
    ExplicitTarget,
)
from tailmetrics.ranking._columns import from_column, is_column, pair_of_arrays
from tailmetrics.ranking._flat_queries import documents_in_rows
from tailmetrics.ranking._kernels_cpu import kernels_for
from tailmetrics.ranking._tensors import STACKED, as_tensor, per_row


def as_tensors(context: Context, batch: Batch) -> None:
    """Turn each argument into a tensor with one axis of rows, and choose the kernels
    that read the batch.

    Scores (B, T, L) and a target (B, T) become B·T rows, the documents of a query
    become a row of candidates. The row mask also excludes the rows that hold nothing
    but ``ignore_index``.
    """
    caller = context.caller
    has_optional = _arguments_as_tensors(caller, batch)
    preds = batch.preds
    first = preds[0] if isinstance(preds, tuple) else preds
    if batch.indexes is not None:
        documents_in_rows(context, batch)
    else:
        if has_optional or first.ndim != 2:
            _in_rows(caller, batch, first)
        if context.ignore_index is not None:
            without_ignored(caller, batch, context.ignore_index)
        if isinstance(batch.preds, tuple):
            check_pair(caller, "preds", *batch.preds)
    context.row_mask = batch.row_mask
    context.kernels = kernels_for(first.device)


def _arguments_as_tensors(caller: str, batch: Batch) -> bool:
    """Turn each argument of a batch into a tensor; return whether it has any of the
    optional arguments.
    """
    preds = batch.preds
    if not (isinstance(preds, Tensor) and isinstance(batch.target, Tensor)):
        check_indexes(
            caller,
            {
                name: getattr(batch, name)
                for name in ("preds", "target", *OPTIONAL_ARGUMENTS)
            },
        )
    if isinstance(preds, (tuple, list)) and len(preds) == 2:
        scores, ids = pair_of_arrays(caller, "preds[0]", preds[0], "preds[1]", preds[1])
        batch.preds = (
            as_tensor(caller, "preds[0]", scores),
            as_tensor(caller, "preds[1]", ids),
        )
    else:
        batch.preds = as_tensor(caller, "preds", preds)

    if isinstance(batch.target, Tensor):
        batch.target = as_tensor(caller, "target", batch.target)
    else:
        batch.form, batch.target, batch.gains = target_as_tensor(caller, batch.target)

    has_optional = False
    for name in OPTIONAL_ARGUMENTS:
        value = getattr(batch, name)
        if value is not None:
            setattr(batch, name, as_tensor(caller, name, value))
            has_optional = True
    return has_optional


def target_as_tensor(caller: str, target: Any) -> tuple[str, Tensor, Tensor | None]:
    """Return ``form``, ``target`` and ``gains`` of :class:`Batch`."""
    if isinstance(target, ExplicitTarget):
        return _explicit_target(caller, target)
    any_length = False
    if is_column(target):
        target, any_length = from_column(caller, "target", target)
    value = as_tensor(caller, "target", target)
    if any_length and value.dtype in INTEGERS:
        return "target_ids", value, None
    return "target", value, None


def _explicit_target(
    caller: str, target: ExplicitTarget
) -> tuple[str, Tensor, Tensor | None]:
    """Return ``form``, ``target`` and ``gains`` of :class:`Batch` of a target in an
    explicit form.
    """
    target_ids, target_gains = pair_of_arrays(
        caller, "target_ids", target.ids, "target_gains", target.gains
    )
    values = {
        "target_ids": target_ids,
        "target_mask": target.mask,
        "target_gains": target_gains,
    }
    tensors = {}
    for argument, value in values.items():
        if value is not None:
            tensors[argument] = as_tensor(caller, argument, value)

    forms = list(tensors)
    if forms not in (
        ["target_ids"],
        ["target_mask"],
        ["target_gains"],
        ["target_ids", "target_gains"],
    ):
        raise TypeError(
            f"{caller}: got {' and '.join(forms) or 'no target'}; pass one of "
            "target_ids, target_mask, target_gains (or target_gains beside "
            "target_ids, one gain per id)."
        )
    form = forms[0]
    if form == "target_mask" and tensors[form].dtype != torch.bool:
        raise TypeError(
            f"{caller}: target_mask is {shape_of(tensors[form])}; pass bool of "
            "shape [N, L]."
        )
    gains = None
    if len(forms) == 2:
        gains = tensors["target_gains"]
    return form, tensors[form], gains


def _in_rows(caller: str, batch: Batch, first: Tensor) -> None:
    """Reshape the tensors of a batch to one axis of rows, and check the arguments per
    row.
    """
    leading = first.shape[:-1]
    if len(leading) > 1 and not first.is_sparse_csr:
        batch.tokens = leading[-1]
        if isinstance(batch.preds, tuple):
            batch.preds = tuple(
                side.reshape(prod(side.shape[:-1]), side.shape[-1])
                for side in batch.preds
            )
        else:
            batch.preds = first.flatten(0, -2)
        for name in ("target", "gains", *ROW_ARGUMENTS):
            value = getattr(batch, name)
            if value is not None:
                setattr(
                    batch, name, _without_leading_axes(caller, name, value, leading)
                )
    num_rows = prod(leading)
    for name in ROW_ARGUMENTS:
        setattr(
            batch,
            name,
            per_row(caller, name, getattr(batch, name), num_rows, first.device),
        )


def _without_leading_axes(
    caller: str, name: str, value: Tensor, leading: torch.Size
) -> Tensor:
    """Return an argument with one axis of rows in place of the ``leading`` axes of
    preds.
    """
    if name in ROW_ARGUMENTS and value.shape == leading[:1]:  # one value per sequence
        value = value.reshape(-1, *[1] * (len(leading) - 1)).expand(leading)
    if value.shape[: len(leading)] != leading:
        raise ValueError(
            f"{caller}: {name} is of shape {list(value.shape)}, but preds has the "
            f"axes {list(leading)} in "
            f"front of its labels; pass {name} with the same axes in front."
        )
    return value.flatten(0, len(leading) - 1)


def without_ignored(caller: str, batch: Batch, ignored: int) -> None:
    """Take the label ``ignored`` out of target ids, by -1, and the rows that then have
    no label out of the row mask.
    """
    target = batch.target
    # beside ids of one shape, ids may be lists or tokens, and beside scores of one
    # shape they may be gains
    is_alike = (
        isinstance(batch.preds, Tensor)
        and target.ndim == 2
        and batch.preds.shape == target.shape
    )
    if (
        target.ndim not in (1, 2)
        or target.dtype not in INTEGERS
        or target.is_sparse_csr
        or is_alike
    ):
        as_wide = ", as wide as preds" if is_alike else ""
        remedy = (
            "pass label ids, row_mask, or -1 in the place of padding, "
            f"target.masked_fill(target == {ignored}, -1). "
            "Beside a target [B, T], preds are [B, T, K]: of one predicted label for "
            "each token, preds[..., None]"
        )
        if is_alike and batch.preds.is_floating_point():
            remedy = (
                f"if {ignored} marks not known cells of a multi-hot target, leave them "
                f"out: preds.masked_fill(target == {ignored}, -torch.inf) beside "
                f"target.masked_fill(target == {ignored}, 0); label ids of this width "
                "go to Ranking.from_scores(..., target_ids=)"
            )
        raise ValueError(
            f"{caller}: ignore_index={ignored} leaves out ids of labels, but target is "
            f"{shape_of(target)}{as_wide}; {remedy}."
        )
    batch.target, is_counted = labels_without(target, ignored)
    if batch.row_mask is not None:
        is_counted = is_counted & batch.row_mask
    batch.row_mask = is_counted


def labels_without(ids: Tensor, ignored: int) -> tuple[Tensor, Tensor]:
    """Return label ids, (N,) or (N, M), with -1 in the place of a label, and a mask of
    the rows that count, (N,).

    A row that held nothing else does not count; a row without labels does.
    """
    ids = ids.to(torch.int64)  # in uint8, -100 would be the label 156
    is_label = ids.ne(ignored)
    labels = torch.where(is_label, ids, -1)
    if ids.ndim == 1:
        return labels, is_label
    return labels, is_label.all(dim=1) | labels.ne(-1).any(dim=1)


def check_pair(caller: str, argument: str, scores: Tensor, ids: Tensor) -> None:
    """Raise unless scores and ids of candidates are matrices of one shape on one
    device.
    """
    if scores.device != ids.device:
        raise ValueError(
            f"{caller}: {argument} is a pair on {scores.device} and {ids.device}; "
            "move both to one device."
        )
    has_types = scores.is_floating_point() and ids.dtype in INTEGERS
    is_dense = scores.layout == ids.layout == torch.strided
    if has_types and is_dense and scores.ndim == 2 and scores.shape == ids.shape:
        return
    remedy = ""
    if (
        ids.is_floating_point()
        and scores.shape == ids.shape
        and scores.shape[1:] == (2,)
    ):
        remedy = f" But {STACKED}."
    raise ValueError(
        f"{caller}: {argument} is the pair ({shape_of(scores)}, {shape_of(ids)}); pass "
        f"dense floating scores [N, C] and integer ids [N, C] of one shape.{remedy}"
    )


def check_indexes(caller: str, arguments: Mapping[str, Any]) -> None:
    """Raise if two pandas Series of the same length have different indexes.

    The library matches rows by position, but different indexes suggest another order.
    Series of different lengths are left to the checks of shapes, because flat queries
    may have one weight per document or one per query.

    Raises:
        ValueError: If two indexes differ. The message names the first row where they
            differ.
    """
    first_of_length: dict[int, tuple[str, Any]] = {}
    for there, value in _single_arguments(arguments).items():
        if not is_column(value) or not hasattr(getattr(value, "index", None), "equals"):
            continue
        other_index = value.index
        here, index = first_of_length.setdefault(len(other_index), (there, other_index))
        if index.equals(other_index):
            continue
        names, other_names = index.tolist(), other_index.tolist()
        row = 0
        while row < len(names) - 1 and names[row] == other_names[row]:
            row += 1
        raise ValueError(
            f"{caller}: {here} and {there} are Series whose indexes differ: row {row} "
            f"is {names[row]!r} of {here} and {other_names[row]!r} of {there}; pass "
            f"{there}.loc[{here}.index], or {here}.to_numpy() and {there}.to_numpy() "
            "if row i of both belong together."
        )


def _single_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments by name, with the parts of an explicit target and of a pair by
    names of their own.
    """
    single: dict[str, Any] = {}
    for argument, value in arguments.items():
        if isinstance(value, ExplicitTarget):
            single |= {
                "target_ids": value.ids,
                "target_mask": value.mask,
                "target_gains": value.gains,
            }
        elif isinstance(value, (tuple, list)) and len(value) == 2:
            single |= {f"{argument}[0]": value[0], f"{argument}[1]": value[1]}
        else:
            single[argument] = value
    return single
