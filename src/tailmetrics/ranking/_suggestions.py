"""The labels whose score is above a threshold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from tailmetrics.ranking._device import exact_real, num_threads, reads_are_free
from tailmetrics.ranking._lanes import true_cells_on_one_thread
from tailmetrics.ranking._row_threads import joined, over_threads

if TYPE_CHECKING:
    from tailmetrics.ranking._beyond import Beyond
    from tailmetrics.ranking._ranking import Ranking

BLOCK_SCORES = 2**21
"""Scores compared at once: two megabytes of flags, which stay in the cache for every threshold."""

BLOCKS_OF_A_THREAD = 2
"""Blocks that each thread compares before their labels are handed on; each label found takes 16 bytes until then."""

BLOCK_FLAGS = 2**20
"""Scores that are counted at once: four megabytes of flags."""


@dataclass(frozen=True, eq=False)
class Suggestions:
    """Suggested labels one below the other, for one threshold and some of the rows.

    Attributes:
        threshold: The place of the threshold among those asked for.
        rows: Shape (S,), int64.
        ids: Shape (S,), int64; -1 where nothing is suggested.
    """

    threshold: int
    rows: Tensor
    ids: Tensor


def suggestions(ranking: Ranking, thresholds: list[float | Tensor]) -> Iterator[Suggestions]:
    """Yield the labels of each row whose score is above each threshold, a number or one per label (L,).

    Dense scores are read once, a block of rows at a time; scores are compared in their own type. Cells
    that are not stored and candidates that are not listed are not suggested; decisions (N, L) are taken as they are.
    """
    scores = ranking.values if ranking.scores is None else ranking.scores
    assert scores is not None
    thresholds = [_in_type_of(scores, threshold) for threshold in thresholds]
    if ranking.beyond is not None:
        yield from _of_pieces(ranking, ranking.beyond, thresholds)
    elif ranking.scores is None:
        yield from _of_lists(ranking, thresholds)
    elif reads_are_free(ranking.scores.device):
        yield from _of_blocks(ranking.scores, ranking.row_mask, thresholds)
    else:
        yield from _of_matrix(ranking.scores, ranking.row_mask, thresholds)


def suggested_per_row(scores: Tensor, row_mask: Tensor | None, thresholds: list[float | Tensor]) -> Tensor:
    """Return how many labels of each row of dense scores on the CPU are above each threshold, shape (N, T), int64."""
    thresholds = [_in_type_of(scores, threshold) for threshold in thresholds]
    counts = joined(over_threads(lambda part, _: _suggested_per_row(part, thresholds), scores))
    return counts if row_mask is None else counts * row_mask[:, None]


def _suggested_per_row(scores: Tensor, thresholds: list[float | Tensor]) -> Tensor:
    """Flag scores above as 1.0 and add the flags up, a block that stays in the cache at a time.

    That is several times faster than bool flags, and exact.
    """
    num_rows, num_labels = scores.shape
    counts = torch.zeros(num_rows, len(thresholds), dtype=torch.int64)
    height = max(1, BLOCK_FLAGS // max(1, num_labels))
    flags = torch.empty(min(height, num_rows), num_labels, dtype=exact_real(num_labels))
    for first in range(0, num_rows, height):
        block = scores[first : first + height]
        above = flags[: len(block)]
        for number, threshold in enumerate(thresholds):
            above.copy_(block) if block.dtype == torch.bool else torch.gt(block, threshold, out=above)
            counts[first : first + height, number] = above.sum(dim=1)
    return counts


def targets_above(ranking: Ranking, threshold: float | Tensor) -> Tensor:
    """Return whether each entry of the targets has a score above the threshold, shape (T,), bool."""
    entries = ranking.targets.entries
    ids = entries.ids.clamp(min=0)
    if ranking.scores_all:
        return _above(ranking.scores_of_targets, threshold, ids) & (entries.ids >= 0)
    found = ranking.found
    assert ranking.values is not None
    assert found.ranks is not None
    if not ranking.depth:  # nothing is listed, so what was found is void
        return torch.zeros_like(found.ids, dtype=torch.bool)
    place = (found.ranks - 1).clamp(max=ranking.depth - 1)
    own = ranking.values[found.rows, place]
    return _above(own, threshold, found.ids) & (found.ranks <= ranking.depth)


def _above(scores: Tensor, threshold: float | Tensor, ids: Tensor) -> Tensor:
    if scores.dtype == torch.bool:
        return scores
    limit = _in_type_of(scores, threshold)
    return scores > (limit[ids] if isinstance(limit, Tensor) else limit)


def _in_type_of(scores: Tensor, threshold: float | Tensor) -> float | Tensor:
    """Return thresholds (L,) in the type of the scores, in which torch compares a number too."""
    if not isinstance(threshold, Tensor) or scores.dtype == torch.bool:
        return threshold
    return threshold.to(scores.device, scores.dtype)


def _of_pieces(ranking: Ranking, beyond: Beyond, thresholds: list[float | Tensor]) -> Iterator[Suggestions]:
    """Yield what is suggested of each piece of the label space, each of them a matrix of its own."""
    for first, scores in beyond.pieces():
        labels = slice(first, first + scores.shape[1])
        of_piece = [threshold[labels] if isinstance(threshold, Tensor) else threshold for threshold in thresholds]
        of_cpu = reads_are_free(scores.device)
        for one in (_of_blocks if of_cpu else _of_matrix)(scores, ranking.row_mask, of_piece):
            yield Suggestions(one.threshold, one.rows, torch.where(one.ids >= 0, one.ids + first, -1))


def _of_blocks(scores: Tensor, row_mask: Tensor | None, thresholds: list[float | Tensor]) -> Iterator[Suggestions]:
    height = max(1, BLOCK_SCORES // max(1, scores.shape[1]))
    together = height * BLOCKS_OF_A_THREAD * num_threads()
    for first in range(0, len(scores), together):
        for one in _of_parts(scores[first : first + together], thresholds, height):
            rows, ids = one.rows + first, one.ids
            if row_mask is not None:
                counted = row_mask[rows]
                rows, ids = rows[counted], ids[counted]
            yield Suggestions(one.threshold, rows, ids)


def _of_parts(scores: Tensor, thresholds: list[float | Tensor], height: int) -> Iterator[Suggestions]:
    """Yield what is suggested to the rows. Each part of them has a thread, which compares ``height`` rows at a time."""

    def of_part(part: Tensor, first: int) -> list[Suggestions]:
        found = []
        flags = torch.empty(min(height, len(part)), part.shape[1], dtype=torch.bool)
        for block_number, block in enumerate(torch.split(part, height)):
            for number, threshold in enumerate(thresholds):
                above = block if block.dtype == torch.bool else _flag_above(block, threshold, flags[: len(block)])
                rows, ids = true_cells_on_one_thread(above)
                found.append(Suggestions(number, rows + (first + block_number * height), ids))
        return found

    return chain.from_iterable(over_threads(of_part, scores))


def _flag_above(scores: Tensor, threshold: float | Tensor, flags: Tensor) -> Tensor:
    """Write into ``flags`` whether each of some scores (N, L) is above a number or one per label (L,); on the CPU.

    ``torch.gt(scores, threshold, out=flags)`` says the same: torch writes bytes one at a time, numpy many at once, in
    less than half of the time. numpy knows no bfloat16 and is slow with half types.
    """
    if scores.dtype not in (torch.float32, torch.float64):
        return torch.gt(scores, threshold, out=flags)
    limit = threshold if isinstance(threshold, Tensor) else torch.tensor(threshold, dtype=scores.dtype)
    np.greater(scores.detach().numpy(), limit.numpy(), out=flags.numpy())
    return flags


def _of_matrix(scores: Tensor, row_mask: Tensor | None, thresholds: list[float | Tensor]) -> Iterator[Suggestions]:
    """Yield an entry for every cell, void where nothing is suggested: nothing waits for the device."""
    num_rows, num_labels = scores.shape
    height = max(1, 2**22 // max(1, num_labels))
    labels = torch.arange(num_labels, device=scores.device)
    for first in range(0, num_rows, height):
        block = scores[first : first + height]
        rows = torch.arange(first, first + len(block), device=scores.device)
        rows = rows.repeat_interleave(num_labels, output_size=len(block) * num_labels)
        for number, threshold in enumerate(thresholds):
            above = block if block.dtype == torch.bool else block > threshold
            above = above if row_mask is None else above & row_mask[first : first + len(block), None]
            yield Suggestions(number, rows, torch.where(above, labels, -1).reshape(-1))


def _of_lists(ranking: Ranking, thresholds: list[float | Tensor]) -> Iterator[Suggestions]:
    assert ranking.values is not None
    ids, values = ranking.ids, ranking.values[:, : ranking.depth]
    rows = torch.arange(len(ids), device=ids.device)[:, None].expand(ids.shape).reshape(-1)
    for number, threshold in enumerate(thresholds):
        above = _above(values, threshold, ids.clamp(min=0)) & (ids >= 0)
        yield Suggestions(number, rows, torch.where(above, ids, -1).reshape(-1))
