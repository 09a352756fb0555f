"""What metrics without a cut-off need from dense scores: exact ranks of the targets, and the log-normaliser."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tailmetrics.ranking._device import may_look, real_dtype
from tailmetrics.ranking._hits import NOT_RANKED
from tailmetrics.ranking._targets import Entries, count_true

BLOCK_ELEMENTS = 2**21
"""Scores that are handled together: 4 MB of flags."""

PIECE_ELEMENTS = 2**20
"""Scores compared at once: smaller pieces would stay in a faster cache, but threads wait for one another at each."""

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
    """Rank the targets of a few rows at a time, on as many threads as torch uses."""
    num_rows, num_labels = scores.shape
    per_row = torch.bincount(entries.rows, minlength=num_rows)
    stops = per_row.cumsum(0)
    starts = stops - per_row
    height = max(1, BLOCK_ELEMENTS // max(1, num_labels))

    def block_ranks(first: int) -> Tensor:
        last = min(first + height, num_rows) - 1
        part = slice(int(starts[first]), int(stops[last]))
        rows, ids = entries.rows[part], entries.ids[part]
        if not len(ids):
            return ids
        within = scores[first : last + 1]
        if int(per_row[first : last + 1].max()) > FEW_TARGETS:
            return _ranks_by_sorting(within, rows - first, ids)
        ordinal = torch.arange(part.start, part.stop) - starts[rows]
        return _ranks_by_counting(within, rows - first, ids, ordinal)

    return torch.cat(_in_threads(block_ranks, range(0, num_rows, height)))


def _in_threads(work: Callable[[int], Tensor], jobs: range) -> list[Tensor]:
    """Do independent jobs on as many threads as torch uses; numpy lets go of the interpreter while it compares."""
    threads = min(torch.get_num_threads(), len(jobs))
    if threads < 2:
        return [work(job) for job in jobs]
    with ThreadPoolExecutor(threads) as pool:
        try:
            futures = [pool.submit(work, job) for job in jobs]
        except RuntimeError:  # the interpreter is shutting down, and starts no more threads
            return [work(job) for job in jobs]
        return [future.result() for future in futures]


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
        ranks[at] = _count_before(compared, ids[at]) + 1
    return ranks


def _count_before(scores: Tensor, ids: Tensor) -> Tensor:
    """Return how many labels of each row rank before the one in ``ids`` [N]: better ones, equal ones of lower id.

    Flags of the better labels, and of those at least as good, are written by numpy, which compares into bools several
    times faster than torch, and added up as words. A piece of the scores stays in the cache for both. Where the label
    itself is the only one as good and not better, as nearly always, nothing is tied.
    """
    num_rows, num_labels = scores.shape
    flags = torch.empty(2, num_rows, -(-num_labels // 8) * 8, dtype=torch.bool)  # in whole words
    flags[:, :, num_labels:] = False
    better, as_good = flags[:, :, :num_labels].numpy()
    own = _as_array(scores.gather(1, ids[:, None]))
    height = max(1, PIECE_ELEMENTS // num_labels)
    for top in range(0, num_rows, height):
        piece, rows = _as_array(scores[top : top + height]), slice(top, top + height)
        np.greater(piece, own[rows], out=better[rows])
        np.greater_equal(piece, own[rows], out=as_good[rows])
    before, not_after = (count_true(of_one) for of_one in flags)
    for row in (not_after - before > 1).nonzero().squeeze(1).tolist():
        before[row] += int(np.count_nonzero(_as_array(scores[row, : ids[row]]) == own[row]))
    return before


def _as_array(scores: Tensor) -> np.ndarray[Any, Any]:
    """Return scores as numpy can compare them; float32 holds every value of the half types."""
    return (scores.to(torch.float32) if scores.element_size() < 4 else scores).numpy()


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
