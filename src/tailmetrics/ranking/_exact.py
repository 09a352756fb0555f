"""What metrics without a cut-off need from dense scores: exact ranks of the targets."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tailmetrics.ranking._device import exact_real, reads_are_free
from tailmetrics.ranking._hits import NOT_RANKED
from tailmetrics.ranking._row_threads import joined, over_threads
from tailmetrics.ranking._targets import Entries

BLOCK_ELEMENTS = 2**20
"""Scores that are compared together on the CPU: 4 MB, which stay in the cache from one comparison to the next."""

FLAGGED = 2**26
"""Scores that are compared together on a device, which flags each of them in a byte: 64 MB."""

COPIED = 2**23
"""Scores that are copied or sorted together on a device: 32 MB, sorted a quarter of a gigabyte."""

FEW_TARGETS = 32
"""Up to this many targets in a row counting better scores is cheaper than sorting the row."""

CHUNK = 64
"""Labels that share a bar on a device: the bars are then neglected beside the scores."""


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
    if reads_are_free(scores.device):
        ranks = _ranks_over_threads(scores, entries)
    elif len(entries.ids) > FEW_TARGETS * len(scores):
        ranks = _ranks_of_all(scores)[entries.rows, entries.ids.clamp(min=0)].to(torch.int64)
    else:
        ranks = _ranks_by_bars(scores, entries)
    own = scores[entries.rows, entries.ids.clamp(min=0)]
    return torch.where((entries.ids >= 0) & (own > -torch.inf), ranks, NOT_RANKED)


def _ranks_over_threads(scores: Tensor, entries: Entries) -> Tensor:
    """Rank the targets of each part of the rows on a thread of its own."""
    rows = entries.rows.numpy()  # ascending

    def of_part(part: Tensor, first: int) -> Tensor:
        here = slice(*np.searchsorted(rows, (first, first + len(part))).tolist())
        return _ranks_in_blocks(part, entries.rows[here] - first, entries.ids[here])

    return joined(over_threads(of_part, scores))


def _ranks_in_blocks(scores: Tensor, rows: Tensor, ids: Tensor) -> Tensor:
    """Rank the targets of a few rows at a time, which stay in the cache from one comparison to the next."""
    num_rows, num_labels = scores.shape
    per_row = np.bincount(rows.numpy(), minlength=num_rows)
    starts = [0, *per_row.cumsum().tolist()]
    height = max(1, BLOCK_ELEMENTS // max(1, num_labels))
    real = exact_real(num_labels)
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


def _ranks_by_bars(scores: Tensor, entries: Entries) -> Tensor:
    """Rank a few targets without looking at a value: each is behind the labels that score above its bar.

    The bar is its own score or, for the labels of chunks to the left, where an equal score ranks better, the next lower
    number. Equal scores to the left in its own chunk are counted apart. One target in each row of [1024, 131072] moves
    0.8 GB by 20 launches, and 26 GB by sorting.
    """
    num_rows, num_labels = scores.shape
    rows, labels = entries.rows, entries.ids.clamp(min=0)
    chunk = labels // CHUNK
    own = scores[rows, labels]
    nearby = torch.add(torch.arange(CHUNK, device=scores.device), chunk[:, None], alpha=CHUNK)
    equal = scores[rows[:, None], nearby.clamp(max=num_labels - 1)] == own[:, None]
    better = (equal & (nearby < labels[:, None])).sum(dim=1)
    if len(labels) == num_rows * entries.width:
        shape = num_rows, entries.width
        by_target = zip(own.view(shape).unbind(dim=1), chunk.view(shape).unbind(dim=1), strict=True)
        counts = torch.stack([_above(scores, *target) for target in by_target], dim=1).view(-1)
    else:
        parts = (torch.split(part, max(1, COPIED // num_labels)) for part in (rows, own, chunk))
        counts = torch.cat([_above(scores[row], *target) for row, *target in zip(*parts, strict=True)])
    return counts + better + 1


def _above(scores: Tensor, own: Tensor, chunk: Tensor) -> Tensor:
    """Count the labels of each row [N, L] above the bar of a target with score ``own`` [N] in ``chunk`` [N]."""
    real = torch.promote_types(scores.dtype, torch.float32)  # older versions know no next number of a half type
    own = own.to(real)
    lower = own.nextafter(torch.full_like(own, -torch.inf))
    num_chunks = scores.shape[1] // CHUNK
    number = torch.arange(num_chunks, device=scores.device)
    bars = torch.where(number < chunk[:, None], lower[:, None], own[:, None])
    inside, behind = torch.split(scores, [num_chunks * CHUNK, scores.shape[1] % CHUNK], dim=1)
    height = max(1, FLAGGED // scores.shape[1])
    parts = (torch.split(part, height) for part in (inside.view(len(own), num_chunks, CHUNK), bars.unsqueeze(2)))
    # a sum of bytes as bytes, which those of a chunk fit in: any other type would be copied to, eight bytes for a flag
    flags = ((part > bar).view(torch.uint8) for part, bar in zip(*parts, strict=True))
    above = torch.cat([flag.sum(dim=2, dtype=torch.uint8) for flag in flags]).sum(dim=1)
    return above + (behind > own[:, None]).sum(dim=1) if behind.shape[1] else above


def _ranks_of_all(scores: Tensor) -> Tensor:
    """Return the rank of every label of every row, shape (N, L), int32, a few rows at a time."""
    ranks = torch.empty(scores.shape, dtype=torch.int32, device=scores.device)
    places = torch.arange(1, scores.shape[1] + 1, dtype=torch.int32, device=scores.device)
    height = max(1, COPIED // scores.shape[1])
    for part, of_part in zip(torch.split(scores, height), torch.split(ranks, height), strict=True):
        order = torch.sort(part, dim=1, descending=True, stable=True).indices
        of_part.scatter_(1, order, places.expand_as(order))
    return ranks


def _ranks_by_sorting(scores: Tensor, rows: Tensor, ids: Tensor) -> Tensor:
    """Sort every label of every row: the definition."""
    order = torch.sort(scores, dim=1, descending=True, stable=True).indices
    ranks = torch.empty_like(order)
    ranks.scatter_(1, order, torch.arange(1, scores.shape[1] + 1, device=scores.device).expand_as(order))
    return ranks[rows, ids.clamp(min=0)]
