"""What metrics without a cut-off need from dense scores: exact ranks of the targets, and the log-normaliser."""

from __future__ import annotations

import torch
from torch import Tensor

from tailmetrics.ranking._device import may_look, real_dtype
from tailmetrics.ranking._hits import NOT_RANKED
from tailmetrics.ranking._targets import Entries

BLOCK_ELEMENTS = 2**20
"""Scores that are handled together."""

PIECE_ELEMENTS = 2**17
"""Scores compared at once: with the buffer 1 MB, read from memory once and then from the cache."""

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
    if not may_look(scores.device):
        ranks = _ranks_by_sorting(scores, entries.rows, entries.ids)
    else:
        ranks = _ranks_in_blocks(scores, entries)
    own = scores[entries.rows, entries.ids.clamp(min=0)]
    return torch.where((entries.ids >= 0) & (own > -torch.inf), ranks, NOT_RANKED)


def _ranks_in_blocks(scores: Tensor, entries: Entries) -> Tensor:
    num_rows, num_labels = scores.shape
    per_row = torch.bincount(entries.rows, minlength=num_rows)
    stops = per_row.cumsum(0)
    ranks = torch.empty_like(entries.ids)
    block = max(1, BLOCK_ELEMENTS // max(1, num_labels))
    for first in range(0, num_rows, block):
        last = min(first + block, num_rows) - 1
        part = slice(int(stops[first] - per_row[first]), int(stops[last]))
        rows, ids = entries.rows[part] - first, entries.ids[part]
        if not len(ids):
            continue
        within = scores[first : last + 1]
        if int(per_row[first : last + 1].max()) > FEW_TARGETS:
            ranks[part] = _ranks_by_sorting(within, rows, ids)
        else:
            ordinal = torch.arange(part.start, part.stop) - (stops - per_row)[entries.rows[part]]
            ranks[part] = _ranks_by_counting(within, rows, ids, ordinal)
    return ranks


def _ranks_by_sorting(scores: Tensor, rows: Tensor, ids: Tensor) -> Tensor:
    """Sort every label of every row: the definition, on any device."""
    order = torch.sort(scores, dim=1, descending=True, stable=True).indices
    ranks = torch.empty_like(order)
    ranks.scatter_(1, order, torch.arange(1, scores.shape[1] + 1, device=scores.device).expand_as(order))
    return ranks[rows, ids.clamp(min=0)]


def _ranks_by_counting(scores: Tensor, rows: Tensor, ids: Tensor, ordinal: Tensor) -> Tensor:
    """Count the better labels of every target, all rows side by side."""
    ranks = torch.empty_like(ids)
    for number in range(int(ordinal.max()) + 1):
        at = (ordinal == number).nonzero().squeeze(1)
        compared = scores if len(at) == len(scores) else scores[rows[at]]
        ranks[at] = _count_before(compared, ids[at, None]) + 1
    return ranks


def _count_before(scores: Tensor, ids: Tensor) -> Tensor:
    """Return how many labels of each row rank before the one in ``ids`` [N, 1]: better ones, equal ones of lower id.

    A comparison written as 0.0 / 1.0 adds up fast, and exactly below 2^24; done in pieces, scores and buffers stay in
    the cache for all comparisons.
    """
    num_rows, num_labels = scores.shape
    own = scores.gather(1, ids)
    before = torch.zeros(num_rows, dtype=torch.float64)
    height, width = max(1, PIECE_ELEMENTS // num_labels), min(num_labels, PIECE_ELEMENTS)
    buffers = torch.empty(2, height * width)
    columns = torch.arange(num_labels, dtype=torch.float32 if num_labels < 2**24 else torch.float64)
    places = ids.to(columns.dtype)
    for top in range(0, num_rows, height):
        lines = slice(top, top + height)
        for left in range(0, num_labels, width):
            piece = scores[lines, left : left + width]
            first, second = (buffer[: piece.numel()].view(piece.shape) for buffer in buffers)
            before[lines] += torch.gt(piece, own[lines], out=first).sum(dim=1)
            equal = torch.eq(piece, own[lines], out=first)
            # nearly always it is the label itself that is equal, and nothing else
            if float(equal.sum(dim=1).max()) > (width == num_labels):
                lower = torch.lt(columns[left : left + width], places[lines], out=second)
                before[lines] += equal.mul_(lower).sum(dim=1)
    return before.to(torch.int64)


def log_normaliser(scores: Tensor) -> Tensor:
    """Return log Σ exp(score) over all L labels of each row, natural log.

    The terms are added in pairs, pairs of pairs and so on, elementwise: unlike ``torch.logsumexp``, whose order of
    additions depends on shape and threads, this gives a row the same bits in a batch of any size and layout.

    Args:
        scores: Shape (N, L), floating; L >= 1.

    Returns:
        Shape (N,), float64 (float32 where the device has none); -inf for a row of -inf.
    """
    block = max(1, BLOCK_ELEMENTS // max(1, scores.shape[1])) if may_look(scores.device) else max(1, len(scores))
    parts = [_log_normaliser(scores[start : start + block]) for start in range(0, len(scores), block)]
    return torch.cat(parts) if parts else scores.new_zeros(0, dtype=torch.float64)


def _log_normaliser(scores: Tensor) -> Tensor:
    if not scores.shape[1]:
        return scores.new_full((len(scores),), -torch.inf, dtype=real_dtype(scores.device))
    largest = scores.amax(dim=1, keepdim=True).to(real_dtype(scores.device))
    shift = torch.where(largest > -torch.inf, largest, 0.0)
    terms = (scores.to(shift.dtype) - shift).exp_()
    while terms.shape[1] > 1:
        half = (terms.shape[1] + 1) // 2
        pairs = terms[:, half:]
        terms = terms[:, :half]
        terms[:, : pairs.shape[1]] += pairs
    return terms.squeeze(1).log() + shift.squeeze(1)
