"""Arithmetic of formulas that gives the same bits wherever and in whatever batch it runs."""

from __future__ import annotations

from math import log

import torch
from torch import Tensor

from tailmetrics._checks import shape_of
from tailmetrics.ranking._device import real_dtype


def divide(top: Tensor, bottom: Tensor) -> Tensor:
    """Return ``top / bottom`` in float64; 0 where ``bottom`` is 0, for what is counted there is 0 too.

    Raises:
        TypeError: If either is floating but not float64: digits are lost already.
    """
    for part in (top, bottom):
        if part.is_floating_point() and part.dtype != real_dtype(part.device):
            raise TypeError(
                f"divide: a part is {shape_of(part)}, which has lost digits; keep whole numbers or float64: "
                "hits.double() * 0.5 instead of hits * 0.5."
            )
    least = torch.finfo(bottom.dtype).tiny if bottom.is_floating_point() else 1
    return top.to(real_dtype(top.device)) / bottom.clamp(min=least)


def ordered_sum(terms: Tensor) -> Tensor:
    """Return the sum over the last axis, added from left to right: the same bits for any batch size and layout."""
    return terms.cumsum(dim=-1)[..., -1]


def exponential_gain(gains: Tensor) -> Tensor:
    """Return 2^gain - 1."""
    # exp2 is exact for whole grades; of others torch's depends on their place in memory, and loses digits of small ones
    return torch.where(gains == gains.floor(), gains.exp2() - 1, (gains * log(2)).expm1())
