"""Sums in a fixed order, so that the same terms give the same bits everywhere."""

from __future__ import annotations

import torch
from torch import Tensor


def ordered_sum(terms: Tensor) -> Tensor:
    """Return the sum over the last axis, added up in pairs of neighbours.

    Neighbouring terms are added first, then neighbouring sums, and so on.

    The order of the additions depends only on the places of the terms. Zeros behind the
    last term change no bit. W terms take 1 + log2(W) steps; each step adds two tensors.

    Args:
        terms: Shape (..., W), floating, W >= 1.

    Returns:
        Shape (...).
    """
    width = terms.shape[-1]
    if width <= 3:
        first, *others = terms.unbind(-1)
        return sum(others, start=first)
    if width % 2 == 0:
        sums = terms[..., 0::2] + terms[..., 1::2]
    else:
        sums = terms[..., 0::2].clone()
        sums[..., :-1].add_(terms[..., 1::2])
    while sums.shape[-1] > 1:  # all steps but the first add in place
        right = sums[..., 1::2]
        sums = sums[..., 0::2]
        sums[..., : right.shape[-1]].add_(right)
    return sums[..., 0]


def ordered_prefix_sums(terms: Tensor) -> Tensor:
    """Return :func:`ordered_sum` of the first 0, 1, 2 ... W terms, shape (W + 1,)."""
    # ``last``: the place of the last term of each prefix; in the loop, the place of the
    # sum that contains this term
    last, largest = torch.arange(len(terms), device=terms.device), len(terms) - 1
    sums, whole = terms.clone(), terms
    while largest > 0:
        left = whole[(last - 1).clamp(min=0)]
        sums = torch.where(last % 2 == 1, left + sums, sums)
        whole = whole[: len(whole) // 2 * 2].view(-1, 2)
        whole = whole[:, 0] + whole[:, 1]
        last, largest = last // 2, largest // 2
    return torch.cat([terms.new_zeros(1), sums])
