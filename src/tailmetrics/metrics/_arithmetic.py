"""Arithmetic of formulas that gives the same bits wherever and in whatever batch it runs."""

from __future__ import annotations

from math import log

import torch
from torch import Tensor

from tailmetrics._checks import shape_of
from tailmetrics.ranking._device import made_once, ordered_sum, real_dtype

__all__ = ["divide", "exponential_gain", "ordered_sum"]

LARGEST_EXPONENT = 1024
"""The first power of two that float64 does not hold."""


def divide(top: Tensor, bottom: Tensor | int) -> Tensor:
    """Return ``top / bottom`` in float64; 0 where ``bottom`` is 0, for what is counted there is 0 too.

    Raises:
        TypeError: If either is floating but not float64: digits are lost already.
    """
    for part in (top, bottom):
        if not isinstance(part, Tensor) or part.dtype == torch.float64 or not part.is_floating_point():
            continue
        if part.dtype != real_dtype(part.device):
            raise TypeError(
                f"divide: a part is {shape_of(part)}, which has lost digits; keep whole numbers or float64: "
                "hits.double() * 0.5 instead of hits * 0.5."
            )
    if isinstance(bottom, int):
        return top.to(real_dtype(top.device)) / max(bottom, 1)
    least = torch.finfo(bottom.dtype).tiny if bottom.is_floating_point() else 1
    return top.to(real_dtype(top.device)) / bottom.clamp(min=least)


def exponential_gain(gains: Tensor) -> Tensor:
    """Return 2^gain - 1."""
    # exact for whole grades; of others torch's exp2 depends on their place in memory, and loses digits of small ones
    powers = _powers_of_two(gains.device)[gains.to(torch.int64).clamp(0, LARGEST_EXPONENT)]
    return torch.where(gains == gains.floor(), powers - 1, (gains * log(2)).expm1())


@made_once
def _powers_of_two() -> Tensor:
    """Return 2^e for each exponent from 0; a device's own ``exp2`` may be off by a bit."""
    powers = [*(2.0**exponent for exponent in range(LARGEST_EXPONENT)), torch.inf]
    return torch.tensor(powers, dtype=torch.float64, device="cpu")
