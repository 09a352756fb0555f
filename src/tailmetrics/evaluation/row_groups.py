"""Names of the groups of rows, as numbers that metrics take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tailmetrics._checks import shape_of


def group_numbers(caller: str, values: Any, names: Sequence[str]) -> Any:
    """Return the number of the group of each row; numbers are taken as they are.

    Args:
        caller: Who asks.
        values: Shape (N,): names, of which None and NaN are rows without a group; or numbers, -1 for none.
        names: Names of the groups.

    Raises:
        ValueError: If a row has a group that is not among the names.
    """
    if isinstance(values, Tensor) or not _holds_names(values):
        return values
    numbers = {name: number for number, name in enumerate(names)}
    found = [-1 if _is_missing(value) else numbers.get(str(value), -2) for value in values]
    if -2 in found:
        unknown = values[found.index(-2)] if isinstance(values, Sequence) else list(values)[found.index(-2)]
        raise ValueError(
            f"{caller}: row_groups holds {str(unknown)!r}, which is none of {', '.join(names)}; name all groups, or "
            "pass None for rows that count only overall."
        )
    return torch.tensor(found, dtype=torch.int64)


def group_names(values: Any) -> list[str] | None:
    """Return the distinct names among the groups of all rows, sorted; None where groups are numbers."""
    if isinstance(values, str) or not hasattr(values, "__iter__") or not hasattr(values, "__len__"):
        raise TypeError(f"evaluate: row_groups is {_a(values)}; pass the name or number of the group of each row.")
    if isinstance(values, Tensor) or not _holds_names(values):
        return None
    return sorted({str(value) for value in values if not _is_missing(value)})


def _a(value: Any) -> str:
    return f"a {shape_of(value)}"


def _holds_names(values: Any) -> bool:
    return any(isinstance(value, str) for value in values)


def _is_missing(value: Any) -> bool:
    return value is None or value != value
