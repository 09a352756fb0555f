"""The door: here each argument of an update becomes a tensor, once, and rows get one axis."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from tailmetrics._checks import INTEGERS, shape_of
from tailmetrics.ranking._kernels import PLAIN, Kernels
from tailmetrics.ranking._kernels_cpu import kernels_for

Duplicates: TypeAlias = Literal["error", "first"]
Array: TypeAlias = "np.ndarray[Any, Any]"


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
        scored: True where ``preds`` must be scores, False where they must be ids, None for either.
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
    scored: bool | None = None

    def counted(self, ids: Tensor) -> Tensor:
        """Return ``ids`` (N, ...) with -1 in the rows that do not count."""
        return ids if self.row_mask is None else ids.where(self.row_mask[:, None], -1)


@dataclass(frozen=True)
class Batch:
    """The arguments of an update, as they were given; :func:`as_tensors` makes a tensor of each.

    Attributes:
        preds: Scores, ids or CSR; or a pair of scores and ids.
        target: What is relevant.
        row_mask: Which rows count.
        row_groups: The row group of each row.
        row_weights: What each row weighs.
        indexes: The query of each document, of flat queries.
        ids: The label of each document, of flat queries.
        form: Which form ``target`` has, by the name of its argument: ``"target"`` where its type and shape are to tell.
        gains: The gains of a target of ids; None where all are 1.
    """

    preds: Any
    target: Any
    row_mask: Any = None
    row_groups: Any = None
    row_weights: Any = None
    indexes: Any = None
    ids: Any = None
    form: str = "target"
    gains: Any = None


@dataclass(frozen=True)
class ExplicitTarget:
    """The target in one of the forms that leave nothing to guess; None for the forms that were not given."""

    ids: Any = None
    mask: Any = None
    gains: Any = None


def as_tensors(context: Context, batch: Batch) -> tuple[Context, Batch]:
    """Return the context with kernels and row mask, and all arguments as tensors.

    Those of flat queries are left as they are. Others have one axis of rows: scores (B, T, L) and a target (B, T) are
    B·T rows. The row mask then leaves out the rows of ``ignore_index``, too.
    """
    caller, preds, target, form, gains = context.caller, batch.preds, batch.target, "target", None
    if isinstance(preds, (tuple, list)) and len(preds) == 2:
        preds = as_tensor(caller, "preds[0]", preds[0]), as_tensor(caller, "preds[1]", preds[1])
    else:
        preds = as_tensor(caller, "preds", preds)
    if isinstance(target, Tensor):
        target = as_tensor(caller, form, target)
    else:
        form, target, gains = target_as_tensor(caller, target)
    others: dict[str, Tensor] = {}
    for name in ("row_mask", "row_groups", "row_weights", "indexes", "ids"):
        value = getattr(batch, name)
        if value is not None:
            others[name] = as_tensor(caller, name, value)
    tensors = Batch(preds, target, **others, form=form, gains=gains)
    first = preds[0] if isinstance(preds, tuple) else preds
    if tensors.indexes is None:
        if others or first.ndim != 2:
            tensors = _in_rows(caller, tensors)
        if context.ignore_index is not None:
            tensors = _without_ignored(caller, tensors, context.ignore_index)
        context = replace(context, row_mask=tensors.row_mask)
    return replace(context, kernels=kernels_for(first.device)), tensors


def target_as_tensor(caller: str, target: Any) -> tuple[str, Tensor, Tensor | None]:
    """Return the form of a target, the target, and the gains of ids, as in :class:`Batch`."""
    if not isinstance(target, ExplicitTarget):
        any_length = False
        if is_column(target):
            target, any_length = from_column(caller, "target", target)
        value = as_tensor(caller, "target", target)
        return "target_ids" if any_length and value.dtype in INTEGERS else "target", value, None
    named = {"target_ids": target.ids, "target_mask": target.mask, "target_gains": target.gains}
    given = {name: as_tensor(caller, name, value) for name, value in named.items() if value is not None}
    if list(given) == ["target_ids", "target_gains"]:
        return "target_ids", given["target_ids"], given["target_gains"]
    if len(given) != 1:
        raise TypeError(
            f"{caller}: got {' and '.join(given) or 'no target'}; pass one of target_ids, target_mask, target_gains "
            "(or target_gains beside target_ids, one gain per id)."
        )
    ((form, value),) = given.items()
    if form == "target_mask" and value.dtype != torch.bool:
        raise TypeError(f"{caller}: target_mask is {shape_of(value)}; pass bool of shape [N, L].")
    return form, value, None


def _in_rows(caller: str, batch: Batch) -> Batch:
    """Return tensors with one axis of rows, of which nothing is copied."""
    pair = batch.preds if isinstance(batch.preds, tuple) else (batch.preds,)
    leading = pair[0].shape[:-1]
    if pair[0].ndim > 2 and not pair[0].is_sparse_csr:
        flat = tuple(one.reshape(prod(one.shape[:-1]), one.shape[-1]) for one in pair)
        others: dict[str, Any] = {}
        for name in ("target", "gains", "row_mask", "row_groups", "row_weights"):
            value = getattr(batch, name)
            if value is not None and value.shape[: len(leading)] != leading:
                raise ValueError(
                    f"{caller}: {name} is of shape {list(value.shape)}, but preds has the axes {list(leading)} in "
                    f"front of its labels; pass {name} with the same axes in front."
                )
            others[name] = None if value is None else value.reshape(prod(leading), *value.shape[len(leading) :])
        batch = replace(batch, preds=flat if len(flat) == 2 else flat[0], **others)
    num_rows, device = prod(leading), pair[0].device
    row_mask = per_row(caller, "row_mask", batch.row_mask, num_rows, device)
    row_groups = per_row(caller, "row_groups", batch.row_groups, num_rows, device)
    row_weights = per_row(caller, "row_weights", batch.row_weights, num_rows, device)
    return replace(batch, row_mask=row_mask, row_groups=row_groups, row_weights=row_weights)


NEEDED = {
    "row_mask": "a bool, True for a row that counts",
    "row_groups": "the number of its group as an integer, -1 for a row that counts only overall",
    "row_weights": "a number",
}
"""What is needed of each row, by the argument."""


def per_row(caller: str, argument: str, value: Tensor | None, num_rows: int, device: torch.device) -> Tensor | None:
    """Return the row mask, row groups (int64) or row weights (float64), shape (N,), on the device of preds."""
    if value is None:
        return None
    kinds = {"row_mask": (torch.bool,), "row_groups": INTEGERS, "row_weights": (*INTEGERS, *FLOATS)}[argument]
    if value.dtype not in kinds or value.shape != (num_rows,):
        raise ValueError(
            f"{caller}: {argument} is {shape_of(value)}, but there are {num_rows} rows; pass {NEEDED[argument]} for "
            f"each row, shape [{num_rows}]."
        )
    return value.to(device, {"row_mask": torch.bool, "row_groups": torch.int64, "row_weights": torch.float64}[argument])


def _without_ignored(caller: str, batch: Batch, ignored: int) -> Batch:
    """Return a batch whose row mask leaves out the rows of ``ignore_index``."""
    target = batch.target
    if target.ndim != 1 or target.dtype not in INTEGERS:
        raise ValueError(
            f"{caller}: ignore_index={ignored} drops rows by their one label, but target is "
            f"{shape_of(target)}; pass one label per row, or row_mask."
        )
    target = target.to(torch.int64)  # -100 as a byte would be label 156
    kept = target.ne(ignored)
    row_mask = kept if batch.row_mask is None else kept & batch.row_mask
    return replace(batch, target=torch.where(kept, target, -1), row_mask=row_mask)


FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
ACCEPTED = frozenset((torch.bool, *INTEGERS, *FLOATS))
UNSIGNED = tuple(getattr(torch, name) for name in ("uint16", "uint32", "uint64") if hasattr(torch, name))  # 2.3 on


def as_tensor(caller: str, argument: str, value: Any) -> Tensor:
    """Return tensors, arrays, columns and scipy sparse matrices as tensors without a gradient; refuse anything else."""
    if type(value) is Tensor and value.layout == torch.strided and value.dtype in ACCEPTED and not value.is_nested:
        return value.detach().resolve_neg()  # numpy, which some steps use, does not know the negative bit
    if is_column(value):
        value = from_column(caller, argument, value)[0]
    if isinstance(value, np.ndarray):
        value = _from_numpy(caller, argument, value)
    elif hasattr(value, "tocsr"):
        value = _from_scipy(caller, argument, value)
    elif argument.startswith("row_") and not isinstance(value, Tensor):
        try:
            value = torch.as_tensor(value)
        except (TypeError, ValueError, RuntimeError):
            raise TypeError(
                f"{caller}: {argument} is a {type(value).__name__}; pass {NEEDED[argument]} for each row, as a tensor, "
                "an array or a list."
            ) from None
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
    dtype = value.values().dtype if value.is_sparse_csr else value.dtype
    if dtype in UNSIGNED:
        return value.to(torch.int64)
    if dtype not in ACCEPTED:
        raise TypeError(
            f"{caller}: {argument} is {shape_of(value)}; pass bool, integers, or float16 to float64 or bfloat16."
        )
    return value.detach() if value.is_sparse_csr else value.detach().resolve_neg()


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


# columns


def is_column(value: Any) -> bool:
    """Whether a value is an array of Arrow, chunked or not, or a series of pandas."""
    library = type(value).__module__.partition(".")[0]
    if library == "pandas":
        return hasattr(value, "array") and value.ndim == 1
    return library == "pyarrow" and hasattr(value, "null_count")


def from_column(caller: str, argument: str, column: Any) -> tuple[Array, bool]:
    """Return a column as an array: (N,) of numbers, or of lists (N, longest), padded where their lengths differ.

    Ids are padded with -1, scores of candidates with minus infinity, gains of ids with 0. A missing list is empty.

    Args:
        caller: The name that errors begin with.
        argument: The name of the argument.
        column: What :func:`is_column` accepts.

    Returns:
        The array, and whether rows are lists of any length, so that integers are ids, never one number per label.
    """
    if hasattr(column, "array") and hasattr(column.dtype, "pyarrow_dtype"):
        column = column.array.__arrow_array__()
    lengths, any_length = None, True
    if not hasattr(column, "array"):  # of Arrow
        values = column.combine_chunks() if hasattr(column, "combine_chunks") else column
        if hasattr(values, "flatten") and hasattr(values.type, "value_type"):
            lengths = values.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
            values, any_length = values.flatten(), not hasattr(values.type, "list_size")
        flat, nulls = (one.to_numpy(zero_copy_only=False) for one in (values, values.is_null()))
    elif column.dtype != object:
        flat, nulls = column.to_numpy(), column.isna().to_numpy() & (column.dtype.kind != "f")
    else:
        rows = [np.asarray(() if one is None or one is np.nan else one) for one in column.array]
        wrong = next((number for number, row in enumerate(rows) if row.ndim != 1), None)
        if wrong is not None:
            raise TypeError(
                f"{caller}: {argument} holds a {type(column.array[wrong]).__name__} in row {wrong}; pass one flat list "
                "per row."
            )
        lengths = np.array([len(row) for row in rows], np.int64)
        flat = np.concatenate([row for row in rows if len(row)] or [np.zeros(0)])
        nulls = np.array([one is None for one in flat]) if flat.dtype == object else np.zeros(1, bool)
    if nulls.any():
        entry = int(nulls.argmax())
        row = entry if lengths is None else int(np.searchsorted(np.cumsum(lengths), entry, side="right"))
        raise ValueError(
            f"{caller}: {argument} holds a null in row {row}; leave the entry out of its list, or fill a column of "
            "single ids with -1."
        )
    return (flat, False) if lengths is None else (_padded(caller, argument, flat, lengths), any_length)


def _padded(caller: str, argument: str, flat: Array, lengths: Array) -> Array:
    """Return lists that lie one behind the other as rows of one width."""
    kind = "gains" if argument == "target_gains" else "scores" if argument == "preds[0]" else "ids"
    if not len(flat):  # whose type says nothing
        flat = np.zeros(0, np.int64 if kind == "ids" else np.float32)
    if flat.dtype.kind not in "iufb":
        raise TypeError(
            f"{caller}: {argument} is a column of lists of {flat.dtype}; pass lists of integers: number the labels "
            "from 0."
        )
    width = int(lengths.max(initial=0))
    if (lengths == width).all():
        return flat.reshape(len(lengths), width)
    is_whole = flat.dtype.kind in "iu"
    if kind == "ids" and not is_whole:
        row = int((lengths != width).argmax())
        raise ValueError(
            f"{caller}: {argument} holds {lengths[row]} numbers in row {row} and {width} in the longest row; pass one "
            "number per label in each row, or lists of ids with lists of their scores as a pair (scores, ids)."
        )
    padding = 0 if kind == "gains" else -1 if is_whole else -np.inf
    rows = np.full((len(lengths), width), padding, np.int64 if is_whole else flat.dtype)
    rows[np.arange(width) < lengths[:, None]] = flat
    return rows
