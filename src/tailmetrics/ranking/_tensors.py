"""Turn the arguments of an update into tensors.

The numbers are in tensors, arrays, sparse matrices, or columns of Arrow or pandas.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from tailmetrics._arguments import INTEGERS, shape_of
from tailmetrics.ranking._batch import (
    OPTIONAL_ARGUMENTS,
    ROW_ARGUMENTS,
    Batch,
    ExplicitTarget,
)

Array: TypeAlias = "np.ndarray[Any, Any]"

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

STACKED = (
    "if it is the predict_proba of one binary output for each label, pass "
    "np.stack([p[:, 1] for p in preds], 1), one column per label"
)
"""The remedy for the arrays that scikit-learn returns for several binary outputs."""


def as_tensors(caller: str, batch: Batch) -> None:
    """Turn each argument of a batch into a tensor."""
    preds = batch.preds
    if not (isinstance(preds, Tensor) and isinstance(batch.target, Tensor)):
        names = ("preds", "target", *OPTIONAL_ARGUMENTS)
        check_indexes(caller, {name: getattr(batch, name) for name in names})

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

    for name in OPTIONAL_ARGUMENTS:
        value = getattr(batch, name)
        if value is not None:
            setattr(batch, name, as_tensor(caller, name, value))


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
    """Return ``form``, ``target``, ``gains`` of :class:`Batch` for an explicit target.

    Raise TypeError unless exactly one explicit form is passed, or ids with gains.
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


def as_tensor(caller: str, argument: str, value: Any) -> Tensor:
    """Return a value as a tensor without a gradient.

    The value is a tensor, an array, a column or a scipy sparse matrix; raise TypeError
    for others.
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
    """Return a tensor without a gradient; raise for unsupported layouts or types."""
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
    """Return an array as a tensor that shares its memory, or a copy.

    The array is copied if torch cannot read its memory.
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
    """Return whether a value holds the probabilities of two classes, shape (N, 2)."""
    return (
        isinstance(value, np.ndarray)
        and value.dtype.kind == "f"
        and value.ndim == 2
        and value.shape[1] == 2
    )


# columns of Arrow and pandas


@dataclass
class ColumnContent:
    """The numbers of a column.

    Attributes:
        numbers: Shape (n,): the numbers, of lists one list behind the other.
        nulls: Shape (n,) or (1,), bool: which numbers are missing.
        lengths: Shape (N,): the number of entries of each list; None for a column of
            numbers.
        any_length: Whether lists may have any length.
    """

    numbers: Array
    nulls: Array
    lengths: Array | None = None
    any_length: bool = True


def is_column(value: Any) -> bool:
    """Return whether a value is an Arrow array, chunked or not, or a pandas Series."""
    library = type(value).__module__.partition(".")[0]
    if library == "pandas":
        return hasattr(value, "array") and value.ndim == 1
    return library == "pyarrow" and hasattr(value, "null_count")


def from_column(caller: str, argument: str, column: Any) -> tuple[Array, bool]:
    """Return a column as an array: numbers as (N,), lists as (N, longest list).

    Ids are padded with -1, scores of candidates with minus infinity, gains of ids with
    0. A missing list is empty.

    Args:
        caller: The name that errors begin with.
        argument: The name of the argument.
        column: An Arrow array or a pandas Series, see :func:`is_column`.

    Returns:
        The array, and whether its rows are lists of any length. Integers are then ids,
        never one number per label.
    """
    content = _content_of(caller, argument, column)
    return _array_of(
        caller, argument, content
    ), content.lengths is not None and content.any_length


def pair_of_arrays(
    caller: str, name: str, column: Any, other_name: str, other_column: Any
) -> tuple[Any, Any]:
    """Return two columns of lists as arrays, and other values unchanged.

    One column holds ids, the other a number for each id.

    Raises:
        ValueError: If one of them has more entries in a row.
    """
    if not (is_column(column) and is_column(other_column)):
        return column, other_column
    content = _content_of(caller, name, column)
    other_content = _content_of(caller, other_name, other_column)
    _check_lengths(caller, name, content.lengths, other_name, other_content.lengths)
    return _array_of(caller, name, content), _array_of(
        caller, other_name, other_content
    )


def _content_of(caller: str, argument: str, column: Any) -> ColumnContent:
    """Return the numbers of an Arrow array or a pandas Series."""
    if hasattr(column, "array") and hasattr(column.dtype, "pyarrow_dtype"):
        column = column.array.__arrow_array__()
    if not hasattr(column, "array"):
        return _from_arrow(column)
    if column.dtype == object:
        return _from_objects(caller, argument, column)
    if column.dtype.kind == "f":
        return ColumnContent(column.to_numpy(), np.zeros(1, bool))
    return ColumnContent(column.to_numpy(), column.isna().to_numpy())


def _from_arrow(column: Any) -> ColumnContent:
    """Return the numbers of an Arrow array of numbers or lists."""
    values, lengths, any_length = column, None, True
    if hasattr(values, "combine_chunks"):
        values = values.combine_chunks()
    if hasattr(values, "flatten") and hasattr(values.type, "value_type"):
        any_length = not hasattr(values.type, "list_size")
        lengths = (
            values.value_lengths()
            .fill_null(0)
            .to_numpy(zero_copy_only=False)
            .astype(np.int64)
        )
        values = values.flatten()
    numbers = values.to_numpy(zero_copy_only=False)
    nulls = values.is_null().to_numpy(zero_copy_only=False)
    return ColumnContent(numbers, nulls, lengths, any_length)


def _from_objects(caller: str, argument: str, column: Any) -> ColumnContent:
    """Return the numbers of a pandas Series of lists."""
    rows = []
    for number, value in enumerate(column.array):
        if value is None or value is np.nan:
            value = ()
        row = np.asarray(value)
        if row.ndim != 1:
            raise TypeError(
                f"{caller}: {argument} holds a {type(value).__name__} in row "
                f"{number}; pass one flat list per row."
            )
        rows.append(row)
    lengths = np.array([len(row) for row in rows], np.int64)
    numbers = np.concatenate([row for row in rows if row.size] or [np.zeros(0)])
    nulls = np.zeros(1, bool)
    if numbers.dtype == object:
        nulls = np.array([value is None for value in numbers])
    return ColumnContent(numbers, nulls, lengths)


def _array_of(caller: str, argument: str, content: ColumnContent) -> Array:
    """Return the numbers of a column as an array, as :func:`from_column` does."""
    if content.nulls.any():
        row = int(content.nulls.argmax())
        if content.lengths is not None:
            row = int(np.searchsorted(np.cumsum(content.lengths), row, side="right"))
        raise ValueError(
            f"{caller}: {argument} holds a null in row {row}; remove it from its list, "
            "or, in a column of single ids, put -1 in its place."
        )
    if content.lengths is None:
        return content.numbers
    return _padded(caller, argument, content.numbers, content.lengths)


def _padded(caller: str, argument: str, numbers: Array, lengths: Array) -> Array:
    """Return lists that stand one behind the other as a matrix (N, longest list).

    Shorter lists are padded.
    """
    are_ids = argument not in ("target_gains", "preds[0]")
    if not len(numbers):  # the type of an empty column says nothing
        numbers = np.zeros(0, np.int64 if are_ids else np.float32)
    if numbers.dtype.kind not in "iufb":
        raise TypeError(
            f"{caller}: {argument} is a column of lists of {numbers.dtype}; pass lists "
            "of integers: number the labels from 0."
        )
    width = int(lengths.max(initial=0))
    is_shorter = lengths != width
    if not is_shorter.any():
        return numbers.reshape(len(lengths), width)

    is_whole = numbers.dtype.kind in "iu"
    if are_ids and not is_whole:
        row = int(is_shorter.argmax())
        raise ValueError(
            f"{caller}: {argument} holds {lengths[row]} numbers in row {row} and "
            f"{width} in the longest row; pass one number per label in each row, or "
            "lists of ids with lists of their scores as a pair (scores, ids)."
        )
    padding: float = -np.inf
    if argument == "target_gains":
        padding = 0
    elif is_whole:
        padding = -1
    rows = np.full(
        (len(lengths), width), padding, np.int64 if is_whole else numbers.dtype
    )
    rows[np.arange(width) < lengths[:, None]] = numbers
    return rows


def _check_lengths(
    caller: str,
    name: str,
    lengths: Array | None,
    other_name: str,
    other_lengths: Array | None,
) -> None:
    """Raise ValueError if the lists of a row have two lengths in the two columns."""
    if lengths is None or other_lengths is None or len(lengths) != len(other_lengths):
        return  # the shapes are checked later
    differs = lengths != other_lengths
    if differs.any():
        row = int(differs.argmax())
        raise ValueError(
            f"{caller}: row {row} has {lengths[row]} entries in {name} and "
            f"{other_lengths[row]} in {other_name}; pass a number for each id."
        )


def check_indexes(caller: str, arguments: Mapping[str, Any]) -> None:
    """Raise if two pandas Series of the same length have different indexes.

    The library matches rows by position, but different indexes suggest another order.
    Series of different lengths are left to the checks of shapes, because flat queries
    may have one weight per document or one per query.

    Raises:
        ValueError: If two indexes differ. The message names the first such row.
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
    """Return arguments by name, each part of a pair or explicit target by itself."""
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
