"""What a hit at each rank counts in discounted cumulative gain, from tables made on the CPU.

``log2`` of a device may differ in the last bit from that of the CPU.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tailmetrics.ranking._device import made_once
from tailmetrics.ranking._ordered import ordered_prefix_sums


def discounts(width: int, device: torch.device) -> Tensor:
    """Return 1 / log2(rank + 1) for the ranks 1 to ``width``, float64."""
    return _by_rank(_size(width), device)[1 : width + 1]


def discounts_at(ranks: Tensor, deepest: int) -> Tensor:
    """Return the discount at each rank from 1 to ``deepest``, in the shape of ``ranks``; 0 at any larger one."""
    size = _size(deepest)
    return _by_rank(size, ranks.device)[ranks.clamp(max=size)]


def ideal_discounts(n: Tensor, most: int) -> Tensor:
    """Return the sum of the first n discounts for each whole number n from 0 to ``most``, in the shape of ``n``."""
    return _sums(_size(most), n.device)[n]


def _size(width: int) -> int:
    """Return a power of two above ``width``, so that few tables serve all widths."""
    return 1 << width.bit_length()


@made_once
def _by_rank(size: int) -> Tensor:
    """Return the discounts of the ranks 0 to ``size``, 0 for the first and for the last."""
    table = torch.zeros(size + 1, dtype=torch.float64, device="cpu")
    table[1:size] = 1 / torch.arange(2, size + 1, dtype=torch.float64, device="cpu").log2()
    return table


@made_once
def _sums(size: int) -> Tensor:
    """Return the sums of the first 0 to ``size`` - 1 discounts, in the order in which hits at these ranks add up."""
    return ordered_prefix_sums(_by_rank(size, torch.device("cpu"))[1:size])
