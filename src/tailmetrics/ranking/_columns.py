"""Columns of Arrow and pandas as arrays, with their lists padded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"


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
    """Whether a value is an Arrow array, chunked or not, or a pandas Series."""
    library = type(value).__module__.partition(".")[0]
    if library == "pandas":
        return hasattr(value, "array") and value.ndim == 1
    return library == "pyarrow" and hasattr(value, "null_count")


def from_column(caller: str, argument: str, column: Any) -> tuple[Array, bool]:
    """Return a column as an array: a column of numbers as (N,), a column of lists as
    (N, longest list), padded.

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
    """Return two columns of lists, of ids and of a number for each, as arrays; return
    other values unchanged.

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
    """Return a matrix (N, longest list) of lists that stand one behind the other;
    shorter lists are padded.
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
    """Raise if a list has another length than the list of the other column in its
    row.
    """
    if lengths is None or other_lengths is None or len(lengths) != len(other_lengths):
        return  # the shapes are checked later
    differs = lengths != other_lengths
    if differs.any():
        row = int(differs.argmax())
        raise ValueError(
            f"{caller}: row {row} has {lengths[row]} entries in {name} and "
            f"{other_lengths[row]} in {other_name}; pass a number for each id."
        )
