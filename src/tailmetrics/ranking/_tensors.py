"""Turn one argument of an update into a tensor, whatever holds its numbers."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from tailmetrics._arguments import INTEGERS, shape_of
from tailmetrics.ranking._batch import ROW_ARGUMENTS
from tailmetrics.ranking._columns import Array, from_column, is_column

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


ACCEPTED = frozenset((torch.bool, *INTEGERS, *FLOATS))


UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)


NEEDED = {
    "row_mask": "a bool, True for a row that counts",
    "row_groups": (
        "the number of its group as an integer, -1 for a row that counts only overall"
    ),
    "row_weights": "a number",
}
"""The value that each row needs, by argument; a part of error messages."""


ROW_TYPES: Final[Mapping[str, tuple[torch.dtype, Sequence[torch.dtype]]]] = {
    "row_mask": (torch.bool, (torch.bool,)),
    "row_groups": (torch.int64, INTEGERS),
    "row_weights": (torch.float64, (*INTEGERS, *FLOATS)),
}
"""The type in which each argument per row is read, and the types that it may have."""


STACKED = (
    "if it is the predict_proba of one binary output for each label, pass "
    "np.stack([p[:, 1] for p in preds], 1), one column per label"
)
"""The remedy for the list of arrays that scikit-learn returns for several binary
outputs.
"""


def as_tensor(caller: str, argument: str, value: Any) -> Tensor:
    """Return a tensor, an array, a column or a scipy sparse matrix as a tensor without
    a gradient; refuse others.
    """
    if (
        type(value) is Tensor
        and value.layout == torch.strided
        and value.dtype in ACCEPTED
        and not value.is_nested
    ):
        plain: Tensor = value.detach() if value.requires_grad else value
        # some steps use NumPy, which does not know the negative bit
        return plain.resolve_neg()
    if isinstance(value, Tensor):
        return _accepted(caller, argument, value)
    if is_column(value):
        value = from_column(caller, argument, value)[0]
    if isinstance(value, np.ndarray):
        return _accepted(caller, argument, _from_numpy(caller, argument, value))
    if hasattr(value, "tocsr"):
        return _accepted(caller, argument, _from_scipy(caller, argument, value))
    if argument in ROW_ARGUMENTS:
        return _accepted(caller, argument, _from_list(caller, argument, value))
    raise _no_tensor(caller, argument, value)


def _accepted(caller: str, argument: str, value: Tensor) -> Tensor:
    """Return a tensor without a gradient; raise if its layout or type is not
    supported.
    """
    if hasattr(value, "full_tensor"):
        raise TypeError(
            f"{caller}: {argument} is a DTensor; pass {argument}.full_tensor(), or "
            "the rows of one process."
        )
    if value.is_nested:
        padding = "-1"
        if value.is_floating_point():  # -1 may be the score of a label
            padding = "0"
            if argument == "preds":
                padding = "-torch.inf"
        raise TypeError(
            f"{caller}: {argument} is a nested tensor; pad it: "
            f"{argument}.to_padded_tensor({padding})."
        )
    if value.layout not in (torch.strided, torch.sparse_csr):
        raise TypeError(
            f"{caller}: {argument} has the layout {value.layout}; convert it with "
            ".to_sparse_csr()."
        )
    if value.dtype in UNSIGNED:
        return value.to(torch.int64)
    if value.dtype not in ACCEPTED:
        raise TypeError(
            f"{caller}: {argument} is {shape_of(value)}; pass bool, integers, or "
            "float16 to float64 or bfloat16."
        )
    if value.is_sparse_csr:
        return value.detach()
    return value.detach().resolve_neg()


def _from_numpy(caller: str, argument: str, array: Array) -> Tensor:
    """Return an array as a tensor. They share their memory if torch can read it;
    otherwise it is copied.
    """
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(
            f"{caller}: {argument} is a masked array, whose mask would be lost; fill "
            f"it: {argument}.filled(-np.inf) for scores that are not retrieved, "
            ".filled(-1) for ids, .filled(0) for gains."
        )
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    if not native.flags.writeable or min(native.strides, default=0) < 0:
        native = native.copy()
    try:
        return torch.from_numpy(native)
    except TypeError:
        raise TypeError(
            f"{caller}: {argument} is an array of {array.dtype}; pass bool, integers "
            "or floats of at most 64 bits, rows of different lengths padded with -1."
        ) from None


def _from_scipy(caller: str, argument: str, matrix: Any) -> Tensor:
    """Return a scipy sparse matrix as torch CSR, of copied arrays."""
    if len(matrix.shape) != 2:
        raise ValueError(
            f"{caller}: {argument} is sparse of shape {list(matrix.shape)}; pass "
            "shape [N, L]."
        )
    # stored zeros of a target do no harm
    if matrix.format in ("bsr", "dia") and not argument.startswith("target"):
        raise TypeError(
            f"{caller}: {argument} is in the {matrix.format.upper()} format, whose "
            "blocks store zeros that were never given, and a stored zero counts as a "
            f"score; pass {argument}.tocsr() after eliminate_zeros(), or make the "
            "matrix in CSR, CSC or COO."
        )
    matrix = matrix.tocsr()
    if len(matrix.indices) != len(matrix.data):
        raise ValueError(
            f"{caller}: {argument} stores {len(matrix.indices)} columns but "
            f"{len(matrix.data)} values; rebuild it."
        )
    if matrix.shape[0] * matrix.shape[1] >= 2**63:
        raise ValueError(
            f"{caller}: {argument} is sparse of shape {list(matrix.shape)}, 2^63 cells "
            "or more; number the labels from 0 without gaps."
        )
    with warnings.catch_warnings():
        # torch warns once per process
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support")
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr.astype(np.int64)),
            torch.from_numpy(matrix.indices.astype(np.int64)),
            _from_numpy(caller, argument, np.array(matrix.data)),
            size=matrix.shape,
            # csr_entries checks them, and its errors name the caller
            check_invariants=False,
            device="cpu",
        )


def _from_list(caller: str, argument: str, value: Any) -> Tensor:
    """Return a list with an entry for each row as a tensor."""
    try:
        return torch.as_tensor(value, device=getattr(value, "device", "cpu"))
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(
            f"{caller}: {argument} is a {type(value).__name__}; pass for each row "
            f"{NEEDED[argument]}, as a tensor, an array or a list."
        ) from None


def _no_tensor(caller: str, argument: str, value: Any) -> TypeError:
    """Return the error for a value that is no tensor, array, matrix or column."""
    if (
        isinstance(value, (list, tuple))
        and value
        and all(_is_output_of_two_classes(part) for part in value)
    ):
        return TypeError(f"{caller}: {argument} is a list of arrays [N, 2]; {STACKED}.")
    hint = ""
    if argument == "target" and isinstance(value, tuple):
        hint = " A pair of scores and ids goes first, as preds."
    return TypeError(
        f"{caller}: {argument} is a {type(value).__name__}; pass a tensor, such as "
        "torch.tensor(...), a numpy array, a sparse matrix or a column of Arrow or "
        "pandas (tailmetrics.rank documents all forms). Lists of different lengths "
        "are padded with -1: torch.nn.utils.rnn.pad_sequence(tensors, "
        f"batch_first=True, padding_value=-1).{hint}"
    )


def _is_output_of_two_classes(value: Any) -> bool:
    """Whether a value is an array of the probabilities of two classes, shape (N, 2)."""
    return (
        isinstance(value, np.ndarray)
        and value.dtype.kind == "f"
        and value.ndim == 2
        and value.shape[1] == 2
    )


def per_row(
    caller: str,
    argument: str,
    value: Tensor | None,
    num_rows: int,
    device: torch.device,
) -> Tensor | None:
    """Return the row mask, row groups (int64) or row weights (float64), shape (N,), on
    the device of preds.
    """
    if value is None:
        return None
    dtype, accepted = ROW_TYPES[argument]
    if value.dtype not in accepted or value.shape != (num_rows,):
        raise ValueError(
            f"{caller}: {argument} is {shape_of(value)} for {num_rows} rows; pass for "
            f"each row {NEEDED[argument]}, shape [{num_rows}]."
        )
    return value.to(device, dtype)
