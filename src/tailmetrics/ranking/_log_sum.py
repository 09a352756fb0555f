"""The log-normaliser of dense scores: exponentials added up as whole numbers, whose order does not matter.

So a row has the same bits in a batch of any size, on any number of threads, and where its labels come in pieces.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tailmetrics.ranking._device import real_dtype
from tailmetrics.ranking._kernels_cpu import kernels_for
from tailmetrics.ranking._row_threads import joined, over_threads

TOGETHER = 2**18
"""Scores whose exponentials are added up together on the CPU: 2 MB, which stay in the cache from step to step."""

TOGETHER_ON_DEVICE = 2**22
"""The same on a device, where few large steps are better: 32 MB."""


def log_sum(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Return the largest score of each row, and log Σ exp(score - largest) over all L labels, natural log.

    Their sum is the log-normaliser, log Σ exp(score). Apart they keep the digits of the second where scores are huge.

    Args:
        scores: Shape (N, L), floating; L >= 1.

    Returns:
        Two of shape (N,), float64 (float32 where the device has none); the second is -inf for a row of -inf.
    """
    num_rows, num_labels = scores.shape
    if not num_labels:
        real = real_dtype(scores.device)
        return scores.new_zeros(num_rows, dtype=real), scores.new_full((num_rows,), -torch.inf, dtype=real)
    parts = over_threads(lambda part, _: terms_added_up(part, None, num_labels), scores)
    sums = joined([sums for _, sums in parts], 1)
    return joined([largest for largest, _ in parts]), log_of(sums, num_labels)


def shift_of(largest: Tensor) -> Tensor:
    """Return the largest scores of rows as what is subtracted from all of them: a finite number also for -inf."""
    real = real_dtype(largest.device)
    return largest.to(real).clamp(min=torch.finfo(real).min)


def terms_added_up(scores: Tensor, largest: Tensor | None, num_labels: int) -> tuple[Tensor, Tensor]:
    """Return the largest scores, and Σ exp(score - largest) over the columns as two whole numbers for each row.

    Args:
        scores: Shape (N, C), floating: all labels or some of them.
        largest: Shape (N,): the largest score of the whole row, from :func:`shift_of`; None where ``scores`` are whole.
        num_labels: L, of the whole row.

    Returns:
        ``largest``, and shape (2, N): what each term has above its ``_bits`` digits behind the point, and the same of
        the next digits. Sums of several pieces add up without a loss.
    """
    bits, real = _bits(num_labels), real_dtype(scores.device)
    exact = None if real == torch.float64 else torch.int64  # whole numbers that float32 has too few digits for
    on_cpu = kernels_for(scores.device).reads
    by_block = largest is None and on_cpu  # while a block is in the cache
    if largest is None:
        largest = scores.new_empty(len(scores), dtype=real) if by_block else shift_of(scores.amax(dim=1))
    sums = torch.empty(2, len(scores), dtype=exact or real, device=scores.device)
    # the same buffers for all blocks: fresh ones of this size may come to lie each behind the last, up to a gigabyte
    height = min(_height(scores), max(1, len(scores)))
    buffers = scores.new_empty(2, height if on_cpu else 0, scores.shape[1], dtype=real)
    parts = (torch.split(part, height, dim=-1) for part in (largest, sums))
    for part, shift, added in zip(torch.split(scores, height), *parts, strict=True):
        if by_block:
            shift.copy_(shift_of(part.amax(dim=1)))
        if on_cpu:
            terms, whole = buffers[:, : len(part)]
            torch.sub(part, shift[:, None], out=terms).exp_().mul_(2.0**bits)
            torch.sum(torch.floor(terms, out=whole), dim=1, dtype=sums.dtype, out=added[0])
            torch.sum(terms.frac_().mul_(2.0**bits).floor_(), dim=1, dtype=sums.dtype, out=added[1])
        else:
            _add_up_on_device((part - shift[:, None]).exp_(), 2.0**-bits, added)
    return largest, sums


def _add_up_on_device(terms: Tensor, unit: float, added: Tensor) -> None:
    """Add the digits up in fewer and slower steps, whose number is what costs on a device.

    Dividing by a power of two, cutting off behind the point and the remainder are exact: the bits are those of the CPU.
    """
    whole = torch.div(terms, unit, rounding_mode="floor")
    torch.sum(whole, dim=1, dtype=added.dtype, out=added[0])
    rest = terms.remainder_(unit).div_(unit**2, rounding_mode="floor")
    torch.sum(rest, dim=1, dtype=added.dtype, out=added[1])


def log_of(sums: Tensor, num_labels: int) -> Tensor:
    """Return the log of the sum that :func:`terms_added_up` returned, shape (N,)."""
    bits, real = _bits(num_labels), real_dtype(sums.device)
    one: int = 2**bits  # the term of the largest score, taken out so that what is small beside it keeps its digits
    others = (sums[0] - one).to(real) * 2.0**-bits + sums[1].to(real) * 2.0 ** (-2 * bits)
    return others.log1p()


def _bits(num_labels: int) -> int:
    """Return how many digits behind the point L terms of at most 1 may have so that their sum is exact in float64."""
    return 53 - max(0, num_labels - 1).bit_length()


def _height(scores: Tensor) -> int:
    together = TOGETHER if kernels_for(scores.device).reads else TOGETHER_ON_DEVICE
    return max(1, together // max(1, scores.shape[1]))
