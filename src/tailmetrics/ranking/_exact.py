"""What metrics without a cut-off need from dense scores: exact ranks of the targets, and the log-normaliser."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tailmetrics.ranking._device import reads_are_free, real_dtype
from tailmetrics.ranking._hits import NOT_RANKED
from tailmetrics.ranking._targets import Entries

BLOCK_ELEMENTS = 2**20
"""Scores that are compared together: 4 MB, which stay in the cache from one comparison to the next."""

NORMALISER_ELEMENTS = 2**20
"""Scores whose exponentials are added up together: 8 MB."""

FEW_TARGETS = 32
"""Up to this many targets in a row counting better scores is cheaper than sorting the row."""


def exact_ranks(scores: Tensor, entries: Entries) -> Tensor:
    """Return the rank of each relevant label among all L labels of its row, from 1, ties to the lower id.

    The rank is one more than the number of labels with a higher score, or with an equal score and a lower id. A
    label with score -inf is not retrieved: its rank is ``NOT_RANKED``.

    Args:
        scores: Shape (N, L), floating.
        entries: Relevant labels of the N rows.

    Returns:
        Shape (T,), int64, one rank per entry.
    """
    if not len(entries.ids):
        return entries.ids
    if not reads_are_free(scores.device):
        ranks = _ranks_by_sorting(scores, entries.rows, entries.ids)
    else:
        ranks = _ranks_in_blocks(scores, entries)
    own = scores[entries.rows, entries.ids.clamp(min=0)]
    return torch.where((entries.ids >= 0) & (own > -torch.inf), ranks, NOT_RANKED)


def _ranks_in_blocks(scores: Tensor, entries: Entries) -> Tensor:
    """Rank the targets of a few rows at a time, which stay in the cache from one comparison to the next."""
    num_rows, num_labels = scores.shape
    rows, ids = entries.rows, entries.ids
    per_row = np.bincount(rows.numpy(), minlength=num_rows)
    starts = [0, *per_row.cumsum().tolist()]
    height = max(1, BLOCK_ELEMENTS // max(1, num_labels))
    real = torch.float32 if num_labels < 2**24 else torch.float64
    # one buffer for all blocks: memory that is new costs more than what is done with it
    flags = torch.empty(min(height, num_rows), num_labels, dtype=real)
    before = torch.empty(2, len(ids), dtype=real)  # better ones, and those at least as good but for the label itself
    own = scores[rows, ids][:, None]
    ordinal = torch.arange(len(ids)) - torch.tensor(starts)[rows]  # which of its row's targets each is
    for first in range(0, num_rows, height):
        block = scores[first : first + height]
        most = int(per_row[first : first + height].max())
        part = slice(starts[first], starts[first + len(block)])
        if most > FEW_TARGETS:
            before[:, part] = _ranks_by_sorting(block, rows[part] - first, ids[part]) - 1
        elif most == 1 and part.stop - part.start == len(block):
            _count(block, own[part], flags, before[:, part])
        else:
            for number in range(most):
                at = (ordinal[part] == number).nonzero().squeeze(1)
                counted = before.new_empty(2, len(at))
                _count(block[rows[part][at] - first], own[part][at], flags, counted)
                before[:, part.start + at] = counted
    better, as_good = before.unbind()
    ranks: Tensor = better.to(torch.int64) + 1
    for tied in (as_good > better).nonzero().squeeze(1).tolist():
        row, label = int(rows[tied]), int(ids[tied])
        ranks[tied] += int((scores[row, :label] == own[tied]).sum())
    return ranks


def _count(scores: Tensor, own: Tensor, flags: Tensor, before: Tensor) -> None:
    """Count the labels of each row that score higher than ``own`` [N, 1], and the others that score at least as much.

    They are flagged as 1.0 in ``flags`` and added up: several times faster than bool flags, and exact in float32 below
    2^24 labels. Where both counts agree, as nearly always, nothing is tied.
    """
    flags = flags[: len(scores)]
    torch.sum(torch.gt(scores, own, out=flags), dim=1, out=before[0])
    torch.sum(torch.ge(scores, own, out=flags), dim=1, out=before[1])
    before[1] -= 1


def _ranks_by_sorting(scores: Tensor, rows: Tensor, ids: Tensor) -> Tensor:
    """Sort every label of every row: the definition, on any device."""
    order = torch.sort(scores, dim=1, descending=True, stable=True).indices
    ranks = torch.empty_like(order)
    ranks.scatter_(1, order, torch.arange(1, scores.shape[1] + 1, device=scores.device).expand_as(order))
    return ranks[rows, ids.clamp(min=0)]


def log_normaliser(scores: Tensor) -> Tensor:
    """Return log Σ exp(score) over all L labels of each row, natural log.

    The terms are added in pairs, pairs of pairs and so on, elementwise: unlike ``torch.logsumexp``, whose order of
    additions depends on shape and threads, this gives a row the same bits in a batch of any size and layout.

    Args:
        scores: Shape (N, L), floating; L >= 1.

    Returns:
        Shape (N,), float64 (float32 where the device has none); -inf for a row of -inf.
    """
    num_rows, num_labels = scores.shape
    real = real_dtype(scores.device)
    if not num_labels:
        return scores.new_full((num_rows,), -torch.inf, dtype=real)
    height = max(1, NORMALISER_ELEMENTS // num_labels) if reads_are_free(scores.device) else max(1, num_rows)
    # one buffer for all blocks: fresh ones of this size may come to lie each behind the last, up to a gigabyte
    buffer = scores.new_empty(min(height, num_rows), num_labels, dtype=real)
    parts = [_log_normaliser(scores[first : first + height], buffer) for first in range(0, num_rows, height)]
    return torch.cat(parts) if parts else scores.new_zeros(0, dtype=real)


def _log_normaliser(scores: Tensor, buffer: Tensor) -> Tensor:
    largest = scores.amax(dim=1, keepdim=True).to(buffer.dtype)
    shift = torch.where(largest > -torch.inf, largest, 0.0)
    terms = buffer[: len(scores)].copy_(scores).sub_(shift).exp_()
    while terms.shape[1] > 1:
        half = (terms.shape[1] + 1) // 2
        pairs = terms[:, half:]
        terms = terms[:, :half]
        terms[:, : pairs.shape[1]] += pairs
    return terms.squeeze(1).log() + shift.squeeze(1)
