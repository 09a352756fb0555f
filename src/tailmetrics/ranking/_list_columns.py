"""Columns of Arrow and pandas as arrays: lists of a row padded to the longest one. Neither library is imported."""

from __future__ import annotations

from itertools import chain
from typing import Any, TypeAlias

import numpy as np

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
    padding = _padding(argument, flat)
    if padding is None:
        row = int((lengths != width).argmax())
        raise ValueError(
            f"{caller}: {argument} holds {lengths[row]} numbers in row {row} and {width} in the longest row; pass one "
            "number per label in each row, or lists of ids with lists of their scores as a pair (scores, ids)."
        )
    rows = np.full((len(lengths), width), padding, np.int64 if flat.dtype.kind in "iu" else flat.dtype)
    rows[np.arange(width) < lengths[:, None]] = flat
    return rows


def _padding(argument: str, flat: Array) -> float | None:
    """Return what stands behind the end of a list; None where lists must have one length."""
    if argument == "target_gains":
        return 0
    if flat.dtype.kind in "iu":
        return -1
    return -np.inf if flat.dtype.kind == "f" and argument == "preds[0]" else None


def _row_of(entry: int, lengths: Array) -> int:
    return int(np.searchsorted(np.cumsum(lengths), entry, side="right"))


def _null(caller: str, argument: str, row: int) -> ValueError:
    return ValueError(
        f"{caller}: {argument} holds a null in row {row}; leave the entry out of its list, or fill a column of single "
        "ids with -1."
    )
