"""Every accepted form of ``preds`` brought to ranked lists of label ids."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tailmetrics._checks import INTEGERS, check_ids_in_range, check_row_mask, shape_of
from tailmetrics.ranking._device import reads_are_free
from tailmetrics.ranking._selection import strictly_descending, top_k
from tailmetrics.ranking._targets import csr_entries
from tailmetrics.ranking._validation import check_csr, check_distinct

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
UNSIGNED = tuple(getattr(torch, name) for name in ("uint16", "uint32", "uint64") if hasattr(torch, name))  # 2.3 on


@dataclass(frozen=True, eq=False)
class Lists:
    """Ranked lists, best first.

    Attributes:
        ids: Shape (N, K), int64, -1 behind the end of a list.
        values: Shape (N, K) or (N, K + 1), the scores in the order of the list and that of the first label left
            out; None when given as ids.
        complete: Whether the lists hold everything that was retrieved.
    """

    ids: Tensor
    values: Tensor | None
    complete: bool


def as_tensor(caller: str, argument: str, value: Any) -> Tensor:
    """Return tensors as they are, arrays and scipy sparse matrices as tensors; refuse anything else."""
    if isinstance(value, np.ndarray):
        value = _from_numpy(caller, argument, value)
    elif hasattr(value, "tocsr"):
        value = _from_scipy(caller, argument, value)
    if isinstance(value, Tensor):
        if value.is_nested:
            raise TypeError(f"{caller}: {argument} is a nested tensor; pad it: {argument}.to_padded_tensor(-1).")
        refuse_other_layouts(caller, argument, value)
        dtype = value.values().dtype if is_csr(value) else value.dtype
        if dtype in UNSIGNED:
            return value.to(torch.int64)
        if dtype not in (torch.bool, *INTEGERS, *FLOATS):
            raise TypeError(
                f"{caller}: {argument} is {shape_of(value)}; pass bool, integers, or float16 to float64 or bfloat16."
            )
        if is_csr(value) and reads_are_free(value.device):
            check_structure(caller, argument, value)
        return value
    raise TypeError(
        f"{caller}: {argument} is a {type(value).__name__}; pass a tensor, such as torch.tensor(...), a numpy array or "
        "a sparse matrix (tailmetrics.rank documents all forms). Lists of different lengths are padded with -1: "
        "torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=-1)."
    )


def _from_numpy(caller: str, argument: str, array: np.ndarray[Any, Any]) -> Tensor:
    """Return an array as a tensor of the same memory where torch can read it, else of a copy."""
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    if not native.flags.writeable or any(stride < 0 for stride in native.strides):
        native = native.copy()
    try:
        return torch.from_numpy(native)
    except TypeError:
        raise TypeError(
            f"{caller}: {argument} is an array of {array.dtype}; pass bool, integers or floats of at most 64 bits, "
            "rows of different lengths padded with -1."
        ) from None


def _from_scipy(caller: str, argument: str, matrix: Any) -> Tensor:
    """Return a scipy sparse matrix as torch CSR, without touching the caller's arrays."""
    if len(matrix.shape) != 2:
        raise ValueError(f"{caller}: {argument} is sparse of shape {list(matrix.shape)}; pass shape [N, L].")
    matrix = matrix if matrix.format == "csr" else matrix.tocsr()
    if len(matrix.indices) != len(matrix.data):
        raise ValueError(
            f"{caller}: {argument} stores {len(matrix.indices)} columns but {len(matrix.data)} values; rebuild it."
        )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support")  # said once a process, by torch
        return _csr(caller, argument, matrix)


def _csr(caller: str, argument: str, matrix: Any) -> Tensor:
    return torch.sparse_csr_tensor(
        torch.from_numpy(matrix.indptr.astype(np.int64)),
        torch.from_numpy(matrix.indices.astype(np.int64)),
        _from_numpy(caller, argument, np.array(matrix.data)),
        size=matrix.shape,
        check_invariants=False,  # check_structure does, and names the caller
    )


def check_structure(caller: str, argument: str, matrix: Tensor) -> None:
    """Raise unless the row pointers of a CSR matrix ascend from 0 to the number of stored entries."""
    crow, stored = matrix.crow_indices(), matrix.values().numel()
    shaped = matrix.ndim == 2 and matrix.values().ndim == 1 and crow.numel() == matrix.shape[0] + 1
    if not shaped or int(crow[0]) != 0 or int(crow[-1]) != stored or bool((crow.diff() < 0).any()):
        raise ValueError(
            f"{caller}: {argument} is no valid CSR matrix of shape [N, L]: its row pointers must ascend from 0 to the "
            f"number of stored entries, {stored}; rebuild it with torch.sparse_csr_tensor(..., check_invariants=True)."
        )


def is_csr(value: Tensor) -> bool:
    """Whether a tensor is sparse CSR."""
    return value.layout == torch.sparse_csr


def refuse_other_layouts(caller: str, argument: str, value: Tensor) -> None:
    """Raise for sparse layouts other than CSR."""
    if value.layout not in (torch.strided, torch.sparse_csr):
        raise TypeError(f"{caller}: {argument} has the layout {value.layout}; convert it with .to_sparse_csr().")


def lists_from_scores(caller: str, scores: Tensor, depth: int, row_mask: Tensor | None, validate: bool) -> Lists:
    """Rank dense scores [N, L] down to ``depth``."""
    if scores.ndim != 2 or not scores.is_floating_point():
        raise ValueError(
            f"{caller}: preds is {shape_of(scores)}; scores are floating of shape [N, L], one column per label "
            "(a single row needs a row axis: preds[None])."
        )
    scores = scores.detach()
    num_labels = scores.shape[1]
    depth = min(depth, num_labels)
    values, ids, distinct = top_k(scores, depth)
    complete = depth == num_labels
    if distinct and row_mask is None and not complete:
        return Lists(ids, values, complete)  # no NaN, and -inf at most behind the list
    if validate:
        _check_not_nan(caller, values[:, :1], row_mask)  # NaN sorts first
    return Lists(_retrieved(values[:, :depth], ids, row_mask), values, complete)


def cut(lists: Lists, depth: int | None) -> Lists:
    """Return the first ``depth`` of each list."""
    if depth is None or lists.ids.shape[1] <= depth:
        return lists
    values = None if lists.values is None else lists.values[:, : depth + 1]
    return Lists(lists.ids[:, :depth], values, complete=False)


def lists_from_ids(
    caller: str, ids: Tensor, num_labels: int | None, row_mask: Tensor | None, complete: bool, validate: bool
) -> Lists:
    """Take ids [N, K] that are ranked already."""
    if ids.ndim != 2:
        raise ValueError(
            f"{caller}: preds is {shape_of(ids)}; ranked ids have shape [N, K], best first "
            "(ids of a single row need a row axis: ids[None]; one id per row: ids[:, None])."
        )
    ids = ids.detach().to(torch.int64)
    if validate:
        kept = ids if row_mask is None else torch.where(row_mask[:, None], ids, -1)
        lowest = check_ids_in_range(caller, "preds", kept, num_labels, None)
        if lowest < 0 and bool(((kept[:, 1:] >= 0) & (kept[:, :-1] < 0)).any()):
            raise ValueError(f"{caller}: preds has an id behind a -1; -1 can only pad the end of a row.")
        check_distinct(caller, "preds", kept)
    if row_mask is not None:
        ids = torch.where(row_mask[:, None], ids, -1)
    return Lists(ids, None, complete)


def lists_from_candidates(
    caller: str, scores: Tensor, ids: Tensor, num_labels: int | None, row_mask: Tensor | None, validate: bool
) -> Lists:
    """Rank scored candidates (scores [N, C], ids [N, C]) in any order; id -1 or score -inf is no candidate."""
    if scores.ndim != 2 or scores.shape != ids.shape or not scores.is_floating_point() or ids.dtype not in INTEGERS:
        raise ValueError(
            f"{caller}: preds is the pair ({shape_of(scores)}, {shape_of(ids)}); pass floating scores [N, C] and "
            "integer ids [N, C] of one shape."
        )
    scores, ids = scores.detach(), ids.detach().to(torch.int64)
    if validate:
        kept = ids if row_mask is None else torch.where(row_mask[:, None], ids, -1)
        check_ids_in_range(caller, "ids in preds", kept, num_labels, None)
        _check_not_nan(caller, scores, row_mask)
        check_distinct(caller, "preds", kept)
    scores = torch.where(ids >= 0, scores, -torch.inf)
    if reads_are_free(ids.device) and strictly_descending(scores):
        return Lists(_retrieved(scores, ids, row_mask), scores, complete=True)
    by_id = ids.argsort(dim=1)
    values, order = scores.gather(1, by_id).sort(dim=1, descending=True, stable=True)
    return Lists(_retrieved(values, ids.gather(1, by_id).gather(1, order), row_mask), values, complete=True)


def lists_from_csr(caller: str, matrix: Tensor, depth: int | None, row_mask: Tensor | None, validate: bool) -> Lists:
    """Rank the stored entries of CSR [N, L]; a stored zero is a score like any other."""
    num_rows, num_labels = matrix.shape
    rows, ids, values = csr_entries(matrix)
    if not values.is_floating_point():
        raise TypeError(f"{caller}: the CSR preds store {shape_of(values)}; scores are floating.")
    if validate:
        check_csr(caller, "preds", matrix, rows)
        wrong = values.isnan() if row_mask is None else values.isnan() & row_mask[rows]
        if bool(wrong.any()):
            _raise_nan(caller, int(rows[wrong.nonzero()[0, 0]]))
    order = ids.argsort(stable=True)
    order = order[values[order].argsort(descending=True, stable=True)]
    order = order[rows[order].argsort(stable=True)]
    per_row = matrix.crow_indices().diff()
    on_cpu = reads_are_free(values.device)
    longest = (int(per_row.max()) if num_rows else 0) if on_cpu else num_labels
    width = longest if depth is None else min(depth + 1, longest)
    column = torch.arange(len(rows), device=rows.device) - matrix.crow_indices()[:-1][rows]
    place = torch.where(column < width, rows * width + column, num_rows * width)
    listed = ids.new_full((num_rows * width + 1,), -1).scatter_(0, place, ids[order])[:-1].view(num_rows, width)
    scores = values.new_full((num_rows * width + 1,), -torch.inf).scatter_(0, place, values[order])[:-1]
    scores = scores.view(num_rows, width)
    depth = width if depth is None else min(depth, width)
    return Lists(_retrieved(scores[:, :depth], listed[:, :depth], row_mask), scores, complete=depth >= longest)


def read_row_mask(caller: str, row_mask: Any, preds: Tensor) -> Tensor | None:
    """Return the rows to keep, or None for all."""
    return check_row_mask(caller, row_mask, preds.shape[0] if preds.ndim else 0, preds.device)


def _retrieved(values: Tensor, ids: Tensor, row_mask: Tensor | None) -> Tensor:
    """Return ``ids`` with -1 where the score says not retrieved, or where the row does not count."""
    retrieved = values > -torch.inf if row_mask is None else (values > -torch.inf) & row_mask[:, None]
    if reads_are_free(ids.device) and bool(retrieved.all()):
        return ids
    return torch.where(retrieved, ids, -1)


def _check_not_nan(caller: str, values: Tensor, row_mask: Tensor | None) -> None:
    """Raise if a row holds NaN."""
    wrong = values.isnan().any(dim=1) if values.shape[1] else values.new_zeros(len(values), dtype=torch.bool)
    wrong = wrong if row_mask is None else wrong & row_mask
    if bool(wrong.any()):
        _raise_nan(caller, int(wrong.nonzero()[0, 0]))


def _raise_nan(caller: str, row: int) -> None:
    raise ValueError(
        f"{caller}: preds holds NaN in row {row}; a score must be a number (-inf for a label that is not retrieved)."
    )
