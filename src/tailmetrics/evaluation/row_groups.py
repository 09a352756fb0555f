"""The group of each row: the names of groups, and their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tailmetrics._arguments import shape_of, writable_array
from tailmetrics.evaluation.options import CALLER
from tailmetrics.metrics import TopKMetric


def group_names(values: Any) -> list[str] | None:
    """Return the distinct group names, sorted, or None if groups are numbers.

    None and NaN are no names.
    """
    if (
        isinstance(values, str)
        or not hasattr(values, "__iter__")
        or not hasattr(values, "__len__")
    ):
        raise TypeError(
            f"{CALLER}: row_groups is {shape_of(values)}; pass the name or number of "
            "the group of each row."
        )
    if not _are_group_names(values):
        return None
    return sorted({str(value) for value in values if not _is_missing(value)})


def names_for_all(
    metrics: Iterable[TopKMetric], names: Sequence[str] | None
) -> Sequence[str] | None:
    """Return the group names of the first metric that has some, else ``names``.

    All metrics share the numbers of groups.
    """
    for metric in metrics:
        if metric.row_groups is not None:
            return metric.row_groups
    return names


def checked_numbers(values: Any, names: Sequence[str], num_rows: int) -> Tensor | None:
    """Return the group number of each row, shape (N,); None if no row has a group.

    Args:
        values: The group of each row, as for :func:`group_numbers`; or None.
        names: Names of the groups of the metrics.
        num_rows: Number of rows N.

    Raises:
        ValueError: If groups are numbers without names, or are not one for each row.
    """
    if values is None:
        return None
    if not names:
        if group_names(values) == []:  # no row has a group
            return None
        raise ValueError(
            f"{CALLER}: row_groups holds numbers, but no metric names groups; pass a "
            "name for each row, or metrics with row_groups=."
        )
    numbers = group_numbers(CALLER, values, names)
    numbers = torch.as_tensor(writable_array(numbers))
    if numbers.shape != (num_rows,):
        raise ValueError(
            f"{CALLER}: row_groups is {shape_of(numbers)} for {num_rows} rows; pass "
            "one for each row."
        )
    return numbers


def group_numbers(caller: str, values: Any, names: Sequence[str]) -> Any:
    """Return the group number of each row, -1 for a missing group.

    Numbers stay as they are, except missing ones.

    Args:
        caller: Name of the caller, for messages.
        values: Shape (N,): names, where None and NaN mean no group; or numbers, where
            these and -1 mean no group.
        names: Names of the groups.

    Raises:
        ValueError: If a row has a group that is not among the names, or if numbers may
            be names as well as places.
    """
    if isinstance(values, Tensor) or not _are_group_names(values):
        _check_places(caller, names)
        dtype = getattr(values, "dtype", None)
        if isinstance(dtype, torch.dtype) or (
            isinstance(dtype, np.dtype) and dtype.kind != "O"
        ):
            return values
        return [-1 if _is_missing(value) else value for value in values]
    number_of_name = {name: number for number, name in enumerate(names)}
    numbers = []
    for value in values:
        if _is_missing(value):
            numbers.append(-1)
        elif str(value) in number_of_name:
            numbers.append(number_of_name[str(value)])
        else:
            raise ValueError(
                f"{caller}: row_groups holds {str(value)!r}, which is none of "
                f"{', '.join(names)}; name all groups, or pass None for rows that "
                "count only overall."
            )
    return torch.tensor(numbers, dtype=torch.int64)


def _check_places(caller: str, names: Sequence[str]) -> None:
    """Raise ValueError if group numbers may also be names of groups.

    With the groups "1" and "2", a 1 may be a name or the place of "2".
    """
    places = [str(place) for place in range(len(names))]
    if list(names) != places and all(name.isdecimal() for name in names):
        raise ValueError(
            f"{caller}: row_groups holds numbers, which may be names of the groups "
            f"{', '.join(names)} or their places from 0; pass names as texts, or give "
            "the groups other names."
        )


def _are_group_names(values: Any) -> bool:
    """Whether values hold a text, or are all missing, which means no group."""
    if getattr(values, "ndim", 1) != 1:
        return False
    return any(isinstance(value, str) for value in values) or all(
        map(_is_missing, values)
    )


def _is_missing(value: Any) -> bool:
    """Whether a value is None, NaN or pandas.NA.

    Comparisons with pandas.NA are neither true nor false.
    """
    return value is None or type(value).__name__ == "NAType" or value != value
