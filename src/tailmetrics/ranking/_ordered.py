"""Sums of floats that come out the same, to the last bit, on every device and in a batch of any size.

``sum`` and ``cumsum`` add in an order that depends on shape, threads and device; adding two tensors element by element
does not.
"""

from __future__ import annotations

import torch
from torch import Tensor


def ordered_sum(terms: Tensor) -> Tensor:
    """Return the sum over the last axis: of neighbours, then of neighbouring sums, and so on.

    The order depends on the places of the terms alone: zeros behind the last term change nothing. W terms take
    1 + log2(W) steps, each of them an addition of two tensors.

    Args:
        terms: Shape (..., W), floating, W >= 1.

    Returns:
        Shape (...).
    """
    width = terms.shape[-1]
    if width == 1:
        return terms[..., 0]
    sums = terms[..., 0::2] + terms[..., 1::2] if width % 2 == 0 else terms[..., 0::2].clone()
    if width % 2:
        sums[..., :-1].add_(terms[..., 1::2])
    while sums.shape[-1] > 1:  # the steps behind the first need no memory of their own
        right = sums[..., 1::2]
        sums = sums[..., 0::2]
        sums[..., : right.shape[-1]].add_(right)
    return sums[..., 0]


def ordered_prefix_sums(terms: Tensor) -> Tensor:
    """Return :func:`ordered_sum` of the first 0, 1, 2 ... terms [W], shape (W + 1,)."""
    # of each prefix its last term, and in the loop below the sum of neighbours that this term is in
    last, largest = torch.arange(len(terms), device=terms.device), len(terms) - 1
    sums, whole = terms.clone(), terms
    while largest > 0:
        left = whole[(last - 1).clamp(min=0)]
        sums = torch.where(last % 2 == 1, left + sums, sums)
        whole = whole[: len(whole) // 2 * 2].view(-1, 2)
        whole = whole[:, 0] + whole[:, 1]
        last, largest = last // 2, largest // 2
    return torch.cat([terms.new_zeros(1), sums])
