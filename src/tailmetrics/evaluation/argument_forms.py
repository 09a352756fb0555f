"""Tell which form an argument has, convert lists of names, and check that forms fit.

The forms are tables, lists of ids or names, and arrays of names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tailmetrics._arguments import cut, shape_of
from tailmetrics.evaluation.options import CALLER, check_distinct


def is_table(value: Any) -> bool:
    """Return whether a value is a table.

    A table has columns, such as a DataFrame, or is a list of dicts (or of lists of
    dicts), or a dict by query.
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
    """Return whether a value is a pandas DataFrame."""
    return hasattr(value, "iloc") and hasattr(value, "columns")


def as_lists(value: Any) -> Any:
    """Convert arrays of names, and lists of arrays of ids or names, to lists.

    The arrays may be those of Arrow. Return any other value unchanged.
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
    """Convert lists of label ids to a matrix padded with -1, lists of bools to a mask.

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
    """Return whether a value is a list of at least one list."""
    return (
        isinstance(value, (list, tuple))
        and bool(value)
        and all(isinstance(row, (list, tuple)) for row in value)
    )


def holds_names(value: Any) -> bool:
    """Return whether a value is a list of lists with a string among them."""
    return is_lists(value) and any(
        isinstance(entry, str) for entry in chain.from_iterable(value)
    )


def _are_names(value: Any) -> bool:
    """Return whether a value is a nonempty list of strings alone."""
    return (
        isinstance(value, (list, tuple))
        and bool(value)
        and all(isinstance(name, str) for name in value)
    )


def target_lists(value: Any) -> Any:
    """Convert targets to lists of ids or names, as :func:`as_lists` does.

    A list with one name per row becomes lists of one name.
    """
    rows = as_lists(value)
    if _are_names(rows):
        return [[name] for name in rows]
    return rows


def _names_as_ids(argument: str, value: Any, label_names: Sequence[str]) -> Any:
    """Convert lists of names to lists of label ids; return other values unchanged."""
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


def are_tables(preds: Any, target: Any) -> bool:
    """Return whether predictions and targets are read as tables of names.

    Otherwise they are read as tensors.
    """
    return any(is_table(value) or holds_names(value) for value in (preds, target))


def with_ids(
    preds: Any, argument: str, labels: Any, label_names: Sequence[str] | None
) -> Any:
    """Return lists of names as ids, beside an array of predictions.

    ``label_names`` names the columns or ids of the array. Return other values as is.
    """
    is_array = hasattr(preds, "shape") and not is_table(preds)
    if label_names is None or not is_array:
        return labels
    return _names_as_ids(argument, labels, label_names)


def check_tables(preds: Any, target: Any, train_target: Any) -> None:
    """Raise an error if values are no tables or rows of names that fit each other.

    Raises:
        TypeError: If a value is neither a table nor rows of names,
            or if a row holds numbers beside names.
        ValueError: If rows of names differ in number.
    """
    _check_lists({"preds": preds, "target": target})
    tables = {"preds": preds, "target": target, "train_target": train_target}
    for argument, table in tables.items():
        _check_has_roles(argument, table)
    for argument, table in tables.items():
        if hasattr(table, "__next__"):
            raise TypeError(
                f"{CALLER}: {argument} is {shape_of(table)}, which can be read only "
                f"once; pass list({argument}), or "
                f"{argument}.read_all() of a reader of Arrow."
            )
        if not (table is None or is_table(table) or is_lists(table)):
            raise TypeError(
                f"{CALLER}: {argument} is {shape_of(table)}, but other arguments hold "
                "names of labels; pass a table with the columns query and item, a "
                "dict from query to a dict of items, or a list of names for each row; "
                "beside a matrix of scores label_names=, the name of each column."
            )


def _check_lists(lists: Mapping[str, Any]) -> None:
    """Raise an error if lists of names do not fit each other.

    Raises:
        TypeError: If a list holds numbers beside names.
        ValueError: If the lists have different numbers of rows.
    """
    num_rows = {}
    for argument, rows in lists.items():
        if not is_lists(rows):
            continue
        num_rows[argument] = len(rows)
        for row in rows:
            if {str, float} <= set(map(type, row)):
                raise TypeError(
                    f"{CALLER}: {argument} holds {cut(str(tuple(row)), 60)}, numbers "
                    "beside names; a row is a list of names. Pass lines of query, "
                    "item and score as a DataFrame, or as a dict from query to "
                    "{item: score}."
                )
    if len(set(num_rows.values())) > 1:
        raise ValueError(
            f"{CALLER}: preds holds {num_rows['preds']:,} rows and target holds "
            f"{num_rows['target']:,} rows; pass a list of names for each row of both."
        )


def _check_has_roles(argument: str, value: Any) -> None:
    """Raise TypeError if a frame looks like a matrix with one column per label.

    Such a frame holds only numbers, and no column name has a role.
    """
    if not (
        is_table(value) and hasattr(value, "to_numpy") and hasattr(value, "columns")
    ):
        return
    from tailmetrics.io.columns import has_known_names

    names = [str(name) for name in value.columns]
    if not has_known_names(names) and value.to_numpy().dtype.kind in "biuf":
        raise TypeError(
            f"{CALLER}: {argument} has the columns {cut(', '.join(names), 60)}, none "
            "of queries; if each column is a label, pass table.to_numpy() and "
            "label_names=list(table), otherwise a table with the columns query and "
            "item."
        )
