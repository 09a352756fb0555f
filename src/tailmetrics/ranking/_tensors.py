"""Tensors, numpy arrays and scipy matrices as tensors; anything else is refused with what to pass."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tailmetrics._checks import INTEGERS, shape_of
from tailmetrics.ranking._kernels_cpu import kernels_for
from tailmetrics.ranking._list_columns import Array as Array
from tailmetrics.ranking._list_columns import from_column, is_column

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
ACCEPTED = frozenset((torch.bool, *INTEGERS, *FLOATS))
UNSIGNED = tuple(getattr(torch, name) for name in ("uint16", "uint32", "uint64") if hasattr(torch, name))  # 2.3 on


def as_tensor(caller: str, argument: str, value: Any) -> Tensor:
    """Return tensors as they are, arrays, columns and scipy sparse matrices as tensors; refuse anything else."""
    if type(value) is Tensor and value.layout == torch.strided and value.dtype in ACCEPTED and not value.is_nested:
        return value.resolve_neg()  # numpy, which some steps use, does not know the negative bit
    if isinstance(value, Tensor):
        return _accepted(caller, argument, value)
    if is_column(value):
        value = from_column(caller, argument, value)
    if isinstance(value, np.ndarray):
        value = _from_numpy(caller, argument, value)
    elif hasattr(value, "tocsr"):
        value = _from_scipy(caller, argument, value)
    if isinstance(value, Tensor):
        return _accepted(caller, argument, value)
    pair = (
        " A pair of scores and ids goes first, as preds." if argument == "target" and isinstance(value, tuple) else ""
    )
    raise TypeError(
        f"{caller}: {argument} is a {type(value).__name__}; pass a tensor, such as torch.tensor(...), a numpy array, a "
        "sparse matrix or a column of Arrow or pandas (tailmetrics.rank documents all forms). Lists of different "
        "lengths are padded with -1: "
        f"torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=-1).{pair}"
    )


def _accepted(caller: str, argument: str, value: Tensor) -> Tensor:
    """Return a tensor if its layout and type are among those that are read."""
    if hasattr(value, "full_tensor"):
        raise TypeError(
            f"{caller}: {argument} is a DTensor; pass {argument}.full_tensor(), or the rows of one process."
        )
    if value.is_nested:
        raise TypeError(f"{caller}: {argument} is a nested tensor; pad it: {argument}.to_padded_tensor(-1).")
    if value.layout not in (torch.strided, torch.sparse_csr):
        raise TypeError(f"{caller}: {argument} has the layout {value.layout}; convert it with .to_sparse_csr().")
    dtype = value.values().dtype if is_csr(value) else value.dtype
    if dtype in UNSIGNED:
        return value.to(torch.int64)
    if dtype not in ACCEPTED:
        raise TypeError(
            f"{caller}: {argument} is {shape_of(value)}; pass bool, integers, or float16 to float64 or bfloat16."
        )
    if is_csr(value):
        if kernels_for(value.device).reads:
            check_structure(caller, argument, value)
        return value
    return value.resolve_neg()


def _from_numpy(caller: str, argument: str, array: np.ndarray[Any, Any]) -> Tensor:
    """Return an array as a tensor of the same memory where torch can read it, else of a copy."""
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(
            f"{caller}: {argument} is a masked array, whose mask would be lost; fill it: {argument}.filled(-np.inf) "
            "for scores that are not retrieved, .filled(-1) for ids, .filled(0) for gains."
        )
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
    if matrix.format in ("bsr", "dia") and not argument.startswith("target"):  # a stored zero is no target
        raise TypeError(
            f"{caller}: {argument} is in the {matrix.format.upper()} format, whose blocks store zeros that were never "
            f"given, and a stored zero counts as a score; pass {argument}.tocsr() after eliminate_zeros(), or make the "
            "matrix in CSR, CSC or COO."
        )
    matrix = matrix if matrix.format == "csr" else matrix.tocsr()
    if len(matrix.indices) != len(matrix.data):
        raise ValueError(
            f"{caller}: {argument} stores {len(matrix.indices)} columns but {len(matrix.data)} values; rebuild it."
        )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support")  # said once a process, by torch
        return _csr(caller, argument, matrix)


def _csr(caller: str, argument: str, matrix: Any) -> Tensor:
    if matrix.shape[0] * matrix.shape[1] >= 2**63:
        raise ValueError(
            f"{caller}: {argument} is sparse of shape {list(matrix.shape)}, more than 2^63 cells; number the labels "
            "from 0 without gaps."
        )
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


def csr_entries(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return rows, columns and values of the stored entries of a CSR matrix, each of shape (nnz,)."""
    crow, columns, values = matrix.crow_indices(), matrix.col_indices(), matrix.values().detach()
    rows = torch.arange(matrix.shape[0], device=crow.device)
    rows = rows.repeat_interleave(crow.diff().to(torch.int64), output_size=values.numel())
    return rows, columns.to(torch.int64), values
