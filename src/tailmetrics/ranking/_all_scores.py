"""Log-normalisers, and counts of higher scores within a bucket.

Both need the scores of all labels.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tailmetrics.buckets import LabelBuckets
from tailmetrics.ranking._device import real_dtype
from tailmetrics.ranking._kernels_cpu import kernels_for


def counts_by_bucket(
    scores: Tensor, rows: Tensor, own: Tensor, ids: Tensor, buckets: LabelBuckets
) -> Tensor:
    """Count labels as :meth:`Kernels.counts_above` does, but by bucket.

    Each given label is compared only with the labels of its bucket.

    Args:
        scores: Shape (N, L): the scores of all labels.
        rows: Shape (T,), int64, ascending: the row of each given label.
        own: Shape (T,): the scores of the given labels.
        ids: Shape (T,), int64: the given labels.
        buckets: G buckets.

    Returns:
        The number of higher scores, of equal scores, and of equal scores at a lower id,
        shape (3, T), int64.
    """
    kernels = kernels_for(ids.device)
    counts = torch.zeros(3, len(ids), dtype=torch.int64, device=ids.device)
    bucket = buckets.of(ids)
    bucket_of_column = buckets.of(torch.arange(scores.shape[1], device=ids.device))
    for number in range(len(buckets)):
        place = (bucket == number).nonzero().squeeze(1)
        labels = (bucket_of_column == number).nonzero().squeeze(1)
        columns = torch.searchsorted(labels, ids[place])
        counts[:, place] = kernels.counts_above(
            scores[:, labels], rows[place], own[place], columns
        )
    return counts


def log_sum(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Return the largest score of each row, and log Σ exp(score - largest).

    The sum runs over all L labels; the logarithm is natural. The two values add up to
    the log-normaliser, log Σ exp(score). They are not added, because a huge largest
    score would absorb the digits of the logarithm.

    Args:
        scores: Shape (N, L), floating.

    Returns:
        Two tensors of shape (N,), float64 (float32 if the device has no float64). The
        second is -inf for a row of -inf. Without labels they are 0 and -inf.
    """
    num_rows, num_labels = scores.shape
    if not num_labels:
        real = real_dtype(scores.device)
        return scores.new_zeros(num_rows, dtype=real), scores.new_full(
            (num_rows,), -torch.inf, dtype=real
        )

    parts = kernels_for(scores.device).over_rows(
        lambda part, _: _terms_added_up(part), scores
    )
    if len(parts) == 1:
        largest, sums = parts[0]
    else:
        largest, sums = (torch.cat(side, dim=-1) for side in zip(*parts, strict=True))
    return largest, _log_of(sums, num_labels)


def _terms_added_up(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Return the largest score of each row, and Σ exp(score - largest) in two parts.

    Args:
        scores: Shape (N, L), floating, L >= 1.

    Returns:
        The largest scores, shape (N,), a finite number for a row of -inf; and two sums
        of whole numbers, shape (2, N). With b = ``_bits(L)``, the first adds up the
        first b binary digits of the terms behind the point, the second their next b
        digits.
    """
    num_rows, num_labels = scores.shape
    bits, real, kernels = (
        _bits(num_labels),
        real_dtype(scores.device),
        kernels_for(scores.device),
    )
    largest = scores.amax(dim=1).to(real).clamp(min=torch.finfo(real).min)

    # int64 if the device has no float64, because float32 has too few digits for the
    # sums
    sums_dtype = real if real == torch.float64 else torch.int64
    sums = torch.empty(2, num_rows, dtype=sums_dtype, device=scores.device)

    height = max(1, kernels.TERMS // num_labels)
    blocks = (torch.split(part, height, dim=-1) for part in (largest, sums))
    for block, shift, block_sums in zip(
        torch.split(scores, height), *blocks, strict=True
    ):
        kernels.add_up_terms((block - shift[:, None]).exp_(), bits, block_sums)
    return largest, sums


def _log_of(sums: Tensor, num_labels: int) -> Tensor:
    """Return the natural log of the sums of :func:`_terms_added_up`, shape (N,)."""
    bits, real = _bits(num_labels), real_dtype(sums.device)
    # without the term of the largest score, small terms keep their digits (log1p)
    largest_term: int = 2**bits
    others = (sums[0] - largest_term).to(real) * 2.0**-bits + sums[1].to(
        real
    ) * 2.0 ** (-2 * bits)
    return others.log1p()


def _bits(num_labels: int) -> int:
    """Return how many binary digits keep the sum of L terms <= 1 exact in float64.

    The digits are those behind the point.
    """
    return 53 - max(0, num_labels - 1).bit_length()
