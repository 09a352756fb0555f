"""Forms of predictions and targets that are no tensors: tables, lists of ids or names,
arrays of names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tailmetrics.evaluation.options import CALLER, check_distinct


def is_table(value: Any) -> bool:
    """Whether a value is a table with columns, such as a DataFrame, a list of objects,
    or a dict by query.
    """
    if isinstance(value, list) and value:
        first = next(
            (entry for row in value if isinstance(row, (list, tuple)) for entry in row),
            value[0],
        )
        return isinstance(first, Mapping)
    return isinstance(value, Mapping) or (
        hasattr(value, "columns") and not isinstance(value, Tensor)
    )


def is_frame(value: Any) -> bool:
    """Whether a value is a pandas DataFrame."""
    return hasattr(value, "iloc") and hasattr(value, "columns")


def as_lists(value: Any) -> Any:
    """Convert arrays of names, also those of Arrow, and lists of arrays of ids or
    names, to lists.

    Return any other value unchanged.
    """
    if isinstance(value, list):
        return [_as_list(row) for row in value]
    if hasattr(value, "to_pylist") and "string" in str(getattr(value, "type", "")):
        rows = value.to_pylist()
    elif getattr(getattr(value, "dtype", None), "kind", "") in ("O", "U", "T"):
        rows = as_lists(value.tolist())
    else:
        return value
    if holds_names(rows) or _are_names(rows):
        return rows
    return value


def _as_list(row: Any) -> Any:
    """Convert an array of ids or names to a list; an empty array may have any type."""
    if getattr(row, "ndim", 0) == 1 and (not len(row) or "float" not in str(row.dtype)):
        return row.tolist()
    return row


def padded(value: Any) -> Any:
    """Convert lists of label ids to a matrix padded with -1, and lists of bools to a
    matrix.

    Return any other value unchanged.
    """
    if isinstance(value, list) and not value:
        return torch.empty(0, 1, dtype=torch.int64)  # no rows
    if not is_lists(value):
        return value
    kinds = set(map(type, chain.from_iterable(value)))
    lengths = set(map(len, value))
    if kinds in ({bool}, {np.bool_}):
        return torch.tensor(value) if len(lengths) == 1 else value
    if not all(issubclass(kind, (int, np.integer)) for kind in kinds):
        return value
    width = max(1, *lengths)
    return torch.tensor(
        [[*row, *[-1] * (width - len(row))] for row in value], dtype=torch.int64
    )


def is_lists(value: Any) -> bool:
    """Whether a value is a list of at least one list."""
    return (
        isinstance(value, (list, tuple))
        and bool(value)
        and all(isinstance(row, (list, tuple)) for row in value)
    )


def holds_names(value: Any) -> bool:
    """Whether a value is a list of lists with a text among them."""
    return is_lists(value) and any(
        isinstance(entry, str) for entry in chain.from_iterable(value)
    )


def _are_names(value: Any) -> bool:
    """Whether a value is a list of texts alone."""
    return (
        isinstance(value, (list, tuple))
        and bool(value)
        and all(isinstance(name, str) for name in value)
    )


def rows_of_names(value: Any) -> Any:
    """Convert a list with one name per row to lists of one name; return any other value
    unchanged.
    """
    if _are_names(value):
        return [[name] for name in value]
    return value


def names_as_ids(argument: str, value: Any, label_names: Sequence[str]) -> Any:
    """Convert lists of names to lists of label ids; return any other value
    unchanged.
    """
    if not holds_names(value):
        return value
    names = list(map(str, label_names))
    check_distinct(names)
    numbers = {name: number for number, name in enumerate(names)}
    try:
        return [[numbers[name] for name in row] for row in value]
    except KeyError as error:
        raise ValueError(
            f"{CALLER}: {argument} holds {error.args[0]!r}, which is none of "
            "label_names; add it there and to preds as a column of the lowest score, "
            "-inf, so that it counts as missed: without its rows, values are too high."
        ) from None
