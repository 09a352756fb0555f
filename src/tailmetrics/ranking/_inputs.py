"""The arguments of an update: who asks, and tensors, arrays, columns and sparse matrices as tensors."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import chain
from math import prod
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from tailmetrics._checks import INTEGERS, shape_of
from tailmetrics.ranking._kernels import PLAIN, Kernels

Duplicates: TypeAlias = Literal["error", "first"]


@dataclass(frozen=True)
class Context:
    """Who asks for a batch to be read, and what holds for each of its arguments.

    Attributes:
        caller: The name that errors begin with.
        num_labels: L, or None when nothing has told it yet.
        validate: Whether values are checked; the checks make a GPU wait.
        row_mask: Shape (N,), bool; the rows that count, None for all.
        duplicates: ``"error"`` refuses an id that stands twice in a row of preds; ``"first"`` keeps its later places
            as misses.
        ignore_index: The label of rows that do not count; None for no such label.
        warns: Whether to warn of a batch that may mean something else: of the first one, in a form that is guessed.
        counts_repeats: Whether a label may stand twice in a row of target ids, as in training data, which are counted.
        kernels: The form in which the batch is read.
    """

    caller: str
    num_labels: int | None = None
    validate: bool = True
    row_mask: Tensor | None = None
    duplicates: Duplicates = "error"
    ignore_index: int | None = None
    warns: bool = False
    counts_repeats: bool = False
    kernels: Kernels = PLAIN

    def counted(self, ids: Tensor) -> Tensor:
        """Return ``ids`` (N, ...) with -1 in the rows that do not count."""
        return ids if self.row_mask is None else ids.where(self.row_mask[:, None], -1)


Array: TypeAlias = "np.ndarray[Any, Any]"


def is_column(value: Any) -> bool:
    """Whether a value is an array of Arrow, chunked or not, or a series of pandas."""
    library = type(value).__module__.partition(".")[0]
    if library == "pandas":
        return hasattr(value, "array") and value.ndim == 1
    return library == "pyarrow" and hasattr(value, "null_count")


def is_column_of_ids(value: Any) -> bool:
    """Whether a value is a column whose rows are lists of integers, of any length: ids, never one number per label."""
    if not is_column(value):
        return False
    if hasattr(value, "array") and not _is_arrow_series(value):
        first = next((one for one in value.array if np.ndim(one) == 1 and len(one)), None)
        return first is not None and np.asarray(first).dtype.kind in "iu"
    kind = value.dtype.pyarrow_dtype if hasattr(value, "array") else value.type
    integers = str(getattr(kind, "value_type", "")).startswith(("int", "uint"))
    return integers and not hasattr(kind, "list_size")


def from_column(caller: str, argument: str, column: Any) -> Array:
    """Return a column as an array: (N,) of numbers, or of lists (N, longest), padded where their lengths differ.

    Ids are padded with -1, scores of candidates with minus infinity, gains of ids with 0. A missing list is empty.

    Args:
        caller: The name that errors begin with.
        argument: The name of the argument.
        column: What :func:`is_column` accepts.
    """
    if hasattr(column, "array"):
        if not _is_arrow_series(column):
            return _from_series(caller, argument, column)
        column = column.array.__arrow_array__()
    return _from_arrow(caller, argument, column)


def _is_arrow_series(series: Any) -> bool:
    """Whether a series of pandas keeps what Arrow keeps."""
    return hasattr(series.dtype, "pyarrow_dtype")


def _from_arrow(caller: str, argument: str, column: Any) -> Array:
    array = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    if not hasattr(array, "flatten") or not hasattr(array.type, "value_type"):
        if array.null_count:
            raise _null(caller, argument, int(array.is_null().to_numpy(zero_copy_only=False).argmax()))
        found: Array = array.to_numpy(zero_copy_only=False)
        return found
    lengths = array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    flat = array.flatten()
    if flat.null_count:
        entry = int(flat.is_null().to_numpy(zero_copy_only=False).argmax())
        raise _null(caller, argument, _row_of(entry, lengths))
    return _padded(caller, argument, flat.to_numpy(zero_copy_only=False), lengths)


def _from_series(caller: str, argument: str, series: Any) -> Array:
    if series.dtype != object:
        if series.isna().any() and series.dtype.kind not in "f":
            raise _null(caller, argument, int(series.isna().to_numpy().argmax()))
        plain: Array = series.to_numpy()
        return plain
    rows = [() if one is None or one is np.nan else one for one in series.array]
    wrong = next((number for number, one in enumerate(rows) if np.ndim(one) != 1), None)
    if wrong is not None:
        raise TypeError(
            f"{caller}: {argument} holds a {type(rows[wrong]).__name__} in row {wrong}; pass one flat list per row."
        )
    lengths = np.array([len(one) for one in rows], dtype=np.int64)
    some = [one for one in rows if len(one)]
    arrays = some and all(isinstance(one, np.ndarray) for one in some)
    flat = np.concatenate(some) if arrays else np.array([*chain.from_iterable(some)])
    if flat.dtype == object and None in flat:
        entry = next(place for place, one in enumerate(flat) if one is None)
        raise _null(caller, argument, _row_of(entry, lengths))
    return _padded(caller, argument, flat, lengths)


def _padded(caller: str, argument: str, flat: Array, lengths: Array) -> Array:
    """Return lists that lie one behind the other as rows of one width."""
    if not len(flat):  # whose type says nothing
        flat = np.zeros(0, np.float32 if argument in ("preds[0]", "target_gains") else np.int64)
    if flat.dtype.kind not in "iufb":
        raise TypeError(
            f"{caller}: {argument} is a column of lists of {flat.dtype}; pass lists of integers: number the labels "
            "from 0."
        )
    width = int(lengths.max(initial=0))
    if (lengths == width).all():
        return flat.reshape(len(lengths), width)
    padding: float | None = 0 if argument == "target_gains" else -1 if flat.dtype.kind in "iu" else None
    if flat.dtype.kind == "f" and argument == "preds[0]":
        padding = -np.inf
    if padding is None:  # lists must have one length
        row = int((lengths != width).argmax())
        raise ValueError(
            f"{caller}: {argument} holds {lengths[row]} numbers in row {row} and {width} in the longest row; pass one "
            "number per label in each row, or lists of ids with lists of their scores as a pair (scores, ids)."
        )
    rows = np.full((len(lengths), width), padding, np.int64 if flat.dtype.kind in "iu" else flat.dtype)
    rows[np.arange(width) < lengths[:, None]] = flat
    return rows


def _row_of(entry: int, lengths: Array) -> int:
    return int(np.searchsorted(np.cumsum(lengths), entry, side="right"))


def _null(caller: str, argument: str, row: int) -> ValueError:
    return ValueError(
        f"{caller}: {argument} holds a null in row {row}; leave the entry out of its list, or fill a column of single "
        "ids with -1."
    )


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
    return value if is_csr(value) else value.resolve_neg()


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
    if matrix.shape[0] * matrix.shape[1] >= 2**63:
        raise ValueError(
            f"{caller}: {argument} is sparse of shape {list(matrix.shape)}, more than 2^63 cells; number the labels "
            "from 0 without gaps."
        )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support")  # said once a process, by torch
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr.astype(np.int64)),
            torch.from_numpy(matrix.indices.astype(np.int64)),
            _from_numpy(caller, argument, np.array(matrix.data)),
            size=matrix.shape,
            check_invariants=False,  # csr_entries does, and names the caller
        )


def is_csr(value: Tensor) -> bool:
    """Whether a tensor is sparse CSR."""
    return value.layout == torch.sparse_csr


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
