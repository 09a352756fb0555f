"""What the formula of a metric returns per row, held against what can be added up without loss."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tailmetrics._checks import INTEGERS, shape_of
from tailmetrics.metrics._fixed_point import REAL, FixedPoint
from tailmetrics.ranking import TargetRanks
from tailmetrics.ranking._device import real_dtype


def check_returned_values(
    caller: str, method: str, values: Any, ranks: TargetRanks, fixed_point: FixedPoint, validate: bool
) -> None:
    """Raise unless the values per row that a formula returned can be added up without loss."""
    rows = ranks.n_relevant
    if not isinstance(values, Tensor) or values.shape != rows.shape:
        raise TypeError(
            f"{caller}: {method} returned {shape_of(values)}; return one number per row: a tensor of the shape of "
            f"n_relevant, {list(rows.shape)}."
        )
    whole = values.dtype in (torch.bool, *INTEGERS)
    if whole != (fixed_point.limbs == 0) or (not whole and values.dtype != real_dtype(values.device)):
        raise TypeError(
            f"{caller}: {method} returned {shape_of(values)}; return float64, such as divide(hits, n) or "
            "hits.double(), so that no digit is lost, or bools or whole numbers with fixed_point = COUNT."
        )
    if not validate or not values.numel():
        return
    low, high = (float(bound) for bound in torch.aminmax(values.to(real_dtype(values.device))))
    # a quotient of sums may be rounded to a little more than 1
    if not whole and not 0 <= low <= high <= fixed_point.largest * (1 + 1e-9):
        most = "" if fixed_point is REAL else f" and at most {fixed_point.largest:g}, or larger with fixed_point = REAL"
        raise ValueError(
            f"{caller}: {method} returned {high if low >= 0 else low}; values are numbers of at least 0{most}."
        )
    if bool((values[rows == 0] != 0).any()):
        raise ValueError(
            f"{caller}: {method} returned other than 0 for a row without a relevant label; return 0 there."
        )
