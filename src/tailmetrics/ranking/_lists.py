"""Every accepted form of ``preds`` brought to ranked lists of label ids."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tailmetrics._checks import INTEGERS, shape_of
from tailmetrics.ranking._context import Context
from tailmetrics.ranking._device import constant, whole_numbers
from tailmetrics.ranking._tensors import csr_entries
from tailmetrics.ranking._validation import check_csr, check_lists


@dataclass(frozen=True, eq=False)
class Lists:
    """Ranked lists, best first.

    Attributes:
        ids: Shape (N, K), int64, -1 behind the end of a list.
        values: Shape (N, K) or (N, K + 1), the scores in the order of the list and that of the first label left
            out; None when given as ids.
        complete: Whether the lists hold everything that was retrieved.
        repeated: Shape (N, K), bool: the places whose id stands before in the same row; None where there are none.
    """

    ids: Tensor
    values: Tensor | None
    complete: bool
    repeated: Tensor | None = None


def lists_from_scores(context: Context, scores: Tensor, depth: int) -> Lists:
    """Rank dense scores [N, L] down to ``depth``."""
    scores = scores.detach()
    num_labels = scores.shape[1]
    depth = min(depth, num_labels)
    if num_labels and not depth:
        return _not_ranked(context, scores)
    values, ids, distinct = context.kernels.top_k(scores, depth)
    complete = depth == num_labels
    if distinct and context.row_mask is None and not complete:
        return Lists(ids, values, complete)  # no NaN, and -inf at most behind the list
    if context.validate:  # NaN sorts first, but for a negative one on a device, where its bits are sorted
        check_not_nan(context, values[:, :1] if context.kernels.reads else scores.amax(dim=1, keepdim=True))
    return Lists(retrieved(context, values[:, :depth], ids), values, complete)


def _not_ranked(context: Context, scores: Tensor) -> Lists:
    """Return empty lists, for metrics that read scores alone; what is left out first is the largest score."""
    values = None
    if context.validate:
        values = scores.amax(dim=1, keepdim=True)
        check_not_nan(context, values)
    nothing = torch.empty(len(scores), 0, dtype=torch.int64, device=scores.device)
    return Lists(nothing, values, complete=False)


def first_of(lists: Lists, depth: int | None) -> Lists:
    """Return the first ``depth`` of each list."""
    if depth is None or lists.ids.shape[1] <= depth:
        return lists
    values = None if lists.values is None else lists.values[:, : depth + 1]
    repeated = None if lists.repeated is None else lists.repeated[:, :depth]
    return Lists(lists.ids[:, :depth], values, complete=False, repeated=repeated)


def lists_from_ids(context: Context, ids: Tensor, complete: bool) -> Lists:
    """Take ids [N, K] that are ranked already."""
    ids = ids.detach().to(torch.int64)
    ids = ids if context.row_mask is None else context.counted(ids)
    if context.validate:
        check_lists(context, "preds", ids, distinct=context.duplicates == "error", padded_behind=True)
    return Lists(ids, None, complete, context.kernels.repeated(ids) if context.duplicates == "first" else None)


def lists_from_candidates(context: Context, scores: Tensor, ids: Tensor, complete: bool) -> Lists:
    """Rank scored candidates (scores [N, C], ids [N, C]) in any order; id -1 or score -inf is no candidate."""
    caller = context.caller
    if scores.ndim != 2 or scores.shape != ids.shape or not scores.is_floating_point() or ids.dtype not in INTEGERS:
        raise ValueError(
            f"{caller}: preds is the pair ({shape_of(scores)}, {shape_of(ids)}); pass floating scores [N, C] and "
            "integer ids [N, C] of one shape."
        )
    scores, ids = scores.detach(), ids.detach().to(torch.int64)
    if context.validate:
        check_lists(context, "ids in preds", context.counted(ids), distinct=context.duplicates == "error")
    rows = _rows_to_rank(context, scores, ids)
    if len(rows) == len(ids):
        scores, ids = _ranked(context, scores, ids, rows)
    elif len(rows):
        scores, ids = scores.clone(), ids.clone()
        scores[rows], ids[rows] = _ranked(context, scores[rows], ids[rows], rows)
    return Lists(ids, scores, complete, context.kernels.repeated(ids) if context.duplicates == "first" else None)


def _rows_to_rank(context: Context, scores: Tensor, ids: Tensor) -> Tensor:
    """Return the rows that hold a tie, a score out of order or NaN, or what is not retrieved; all, where looking waits.

    Most files and indexes give lists: nothing but their order has to be looked at.
    """
    every = whole_numbers(len(ids), ids.device)
    if not context.kernels.reads or context.row_mask is not None or not ids.numel():
        return every
    all_retrieved = bool((scores[:, -1] > -torch.inf).all()) and bool((ids >= 0).all())
    falling = scores[:, :-1] > scores[:, 1:]
    if all_retrieved and bool(falling.all()):
        return every[:0]
    are_lists = falling.all(dim=1)
    if not all_retrieved:
        are_lists &= (scores[:, -1] > -torch.inf) & (ids >= 0).all(dim=1)
    return are_lists.logical_not().nonzero().squeeze(1)


def _ranked(context: Context, scores: Tensor, ids: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return candidates of these ``rows`` of a batch, best first, -1 for what is not retrieved."""
    if context.validate:
        check_not_nan(context, scores, rows)
    scores = torch.where(ids >= 0, scores, -torch.inf)
    scores, ids = _in_order(scores, ids) if context.kernels.reads else _sorted(scores, ids)
    return scores, retrieved(context, scores, ids)


def _in_order(scores: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return what :func:`_sorted` does, but for the order of what is not retrieved, and sort only rows out of order."""
    ahead, behind = scores[:, :-1], scores[:, 1:]
    sorted_rows = ((ahead > behind) | (behind == -torch.inf)).all(dim=1)
    if bool(sorted_rows.all()):
        return scores, ids
    rows = sorted_rows.logical_not().nonzero().squeeze(1)
    scores, ids = scores.clone(), ids.clone()
    scores[rows], ids[rows] = _sorted(scores[rows], ids[rows])
    return scores, ids


def _sorted(scores: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return candidates, best first, equal scores by id."""
    order = ids.argsort(dim=1, stable=True)
    order = order.gather(1, scores.gather(1, order).argsort(dim=1, descending=True, stable=True))
    return scores.gather(1, order), ids.gather(1, order)


def lists_from_csr(context: Context, matrix: Tensor, depth: int | None) -> Lists:
    """Rank the stored entries of CSR [N, L]; a stored zero is a score like any other."""
    caller, row_mask = context.caller, context.row_mask
    num_rows, num_labels = matrix.shape
    rows, ids, values = csr_entries(matrix)
    if not values.is_floating_point():
        raise TypeError(
            f"{caller}: the CSR preds store {shape_of(values)}; scores are floating, and a target comes second."
        )
    if context.validate:
        check_csr(caller, "preds", matrix, rows)
        wrong = values.isnan() if row_mask is None else values.isnan() & row_mask[rows]
        if bool(wrong.any()):
            _raise_nan(caller, int(rows[wrong.nonzero()[0, 0]]))
    order = ids.argsort(stable=True)
    order = order[values[order].argsort(descending=True, stable=True)]
    order = order[rows[order].argsort(stable=True)]
    per_row = matrix.crow_indices().diff()
    longest = (int(per_row.max()) if num_rows else 0) if context.kernels.reads else num_labels
    width = longest if depth is None else min(depth + 1, longest)
    column = torch.arange(len(rows), device=rows.device) - matrix.crow_indices()[:-1][rows]
    place = torch.where(column < width, rows * width + column, num_rows * width)
    listed = ids.new_full((num_rows * width + 1,), -1).scatter_(0, place, ids[order])[:-1].view(num_rows, width)
    scores = values.new_full((num_rows * width + 1,), -torch.inf).scatter_(0, place, values[order])[:-1]
    scores = scores.view(num_rows, width)
    depth = width if depth is None else min(depth, width)
    return Lists(retrieved(context, scores[:, :depth], listed[:, :depth]), scores, complete=depth >= longest)


def retrieved(context: Context, values: Tensor, ids: Tensor) -> Tensor:
    """Return ``ids`` with -1 where the score says not retrieved, or where the row does not count."""
    row_mask = context.row_mask
    retrieved = values > -torch.inf if row_mask is None else (values > -torch.inf) & row_mask[:, None]
    if context.kernels.reads and bool(retrieved.all()):
        return ids
    return torch.where(retrieved, ids, constant(-1, ids.device))


def check_not_nan(context: Context, values: Tensor, rows: Tensor | None = None) -> None:
    """Raise if a row that counts holds NaN; ``rows`` are the numbers of the rows, where they are not all."""
    wrong = values.isnan().any(dim=1) if values.shape[1] else values.new_zeros(len(values), dtype=torch.bool)
    wrong = wrong if context.row_mask is None else wrong & context.row_mask
    if bool(wrong.any()):
        first = wrong.nonzero()[0, 0]
        _raise_nan(context.caller, int(first if rows is None else rows[first]))


def _raise_nan(caller: str, row: int) -> None:
    raise ValueError(
        f"{caller}: preds holds NaN in row {row}; a score must be a number (-inf for a label that is not retrieved)."
    )
