"""What is known of the rows of a batch beside their labels: to which row groups they belong, and what they weigh."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tailmetrics._checks import INTEGERS, shape_of
from tailmetrics.ranking._context import Context

LARGEST_WEIGHT = 2.0**40
"""Row weights up to this one add up exactly in the states of the metrics."""

SMALLEST_WEIGHT = 2.0**-40
"""Row weights from this one on, but for 0, keep at least 38 binary digits of a value in states that hold 2^-78."""


@dataclass(frozen=True, eq=False)
class BatchRows:
    """Row groups and row weights of N rows.

    Attributes:
        groups: Shape (N,), int64: the row group of each row, -1 for none; None where none were given.
        weights: Shape (N,), float64, >= 0; None where every row weighs 1.
    """

    groups: Tensor | None = None
    weights: Tensor | None = None

    @property
    def plain(self) -> bool:
        """Whether rows have neither groups nor weights."""
        return self.groups is None and self.weights is None


def read_batch_rows(
    context: Context, num_rows: int, device: torch.device, row_groups: Any, row_weights: Any
) -> BatchRows:
    """Read ``row_groups`` and ``row_weights`` of an update."""
    caller, row_mask, validate = context.caller, context.row_mask, context.validate
    groups = None if row_groups is None else _vector(caller, "row_groups", row_groups, num_rows)
    weights = None if row_weights is None else _vector(caller, "row_weights", row_weights, num_rows)
    if groups is not None:
        if groups.dtype not in INTEGERS:
            raise TypeError(
                f"{caller}: row_groups is {shape_of(groups)}; pass the number of each row's group as integers of shape "
                f"[{num_rows}], -1 for a row that counts only overall."
            )
        if validate and num_rows and int(groups.min()) < -1:
            raise ValueError(f"{caller}: row_groups holds {int(groups.min())}; groups count from 0, and -1 is none.")
        groups = groups.to(device, torch.int64)
    if weights is not None:
        weights = weights.to(device, torch.float64)
        weights = weights if row_mask is None else torch.where(row_mask, weights, 0.0)
        inside = (weights == 0) | ((weights >= SMALLEST_WEIGHT) & (weights <= LARGEST_WEIGHT))
        if validate and num_rows and not bool(inside.all()):
            wrong = float(weights[~inside][0])
            raise ValueError(
                f"{caller}: row_weights holds {wrong:g}; weights must be 0 or from {SMALLEST_WEIGHT:g} to "
                f"{LARGEST_WEIGHT:g}. Only their ratios matter: multiply all of them by one number."
            )
    return BatchRows(groups, weights)


def _vector(caller: str, argument: str, value: Any, num_rows: int) -> Tensor:
    """Return a vector of one number per row."""
    try:
        vector: Tensor = torch.as_tensor(value).detach()
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(
            f"{caller}: {argument} is a {type(value).__name__}; pass one number per row, shape [{num_rows}]."
        ) from None
    if vector.shape != (num_rows,) or vector.dtype == torch.bool or vector.is_complex():
        raise ValueError(
            f"{caller}: {argument} is {shape_of(vector)}, but there are {num_rows} rows; pass one number per row, "
            f"shape [{num_rows}]."
        )
    return vector.reshape(-1)
