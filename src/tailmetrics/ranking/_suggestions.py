"""The labels whose score is above a threshold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tailmetrics.ranking._hits import NOT_RANKED
from tailmetrics.ranking._kernels import above

if TYPE_CHECKING:
    from tailmetrics.ranking._ranking import Ranking


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
    row_mask, kernels = ranking.row_mask, ranking.targets.kernels
    if not ranking.scores_all:
        yield from _of_lists(ranking, thresholds)
        return
    pieces = [(0, ranking.scores)] if ranking.beyond is None else ranking.beyond.pieces()
    for first, scores in pieces:
        assert scores is not None
        labels = slice(first, first + scores.shape[1])
        limits = [threshold[labels] if isinstance(threshold, Tensor) else threshold for threshold in thresholds]
        for number, rows, ids in kernels.above(scores, limits):
            ids = ids if row_mask is None else torch.where(row_mask[rows], ids, -1)
            yield Suggestions(number, rows, ids if first == 0 else torch.where(ids >= 0, ids + first, -1))


def suggested_per_row(ranking: Ranking, thresholds: list[float | Tensor]) -> Tensor:
    """Return how many labels of each row of dense scores are above each threshold, shape (N, T), int64."""
    assert ranking.scores is not None
    kernels, scores = ranking.targets.kernels, ranking.scores
    counts = torch.stack([kernels.num_above(scores, threshold) for threshold in thresholds], dim=1)
    return counts if ranking.row_mask is None else counts * ranking.row_mask[:, None]


def targets_above(ranking: Ranking, threshold: float | Tensor) -> tuple[Tensor, Tensor]:
    """Return rows and ids (T,) of the relevant labels that score above a threshold; id -1 is void."""
    if ranking.scores_all:
        entries, own = ranking.targets.entries, ranking.scores_of_targets
        rows, ids, relevant = entries.rows, entries.ids, entries.ids >= 0
    else:
        assert ranking.values is not None
        ranks, ids, width = ranking.hits.ranks.reshape(-1), ranking.hits.ids.reshape(-1), ranking.hits.ranks.shape[1]
        rows = torch.arange(ranking.num_rows, device=ids.device)
        rows = rows.repeat_interleave(width, output_size=ranking.num_rows * width)
        relevant = ranks < NOT_RANKED
        own = ranking.values[rows, torch.where(relevant, ranks - 1, 0)] if ranking.values.shape[1] else ids
    return rows, torch.where(_is_above(own, threshold, ids) & relevant, ids, -1)


def _is_above(scores: Tensor, threshold: float | Tensor, ids: Tensor) -> Tensor:
    """Return whether the scores of some labels are above a number or one per label (L,), shape of ``ids``."""
    return above(scores, threshold.to(scores.device)[ids.clamp(min=0)] if isinstance(threshold, Tensor) else threshold)


def _of_lists(ranking: Ranking, thresholds: list[float | Tensor]) -> Iterator[Suggestions]:
    assert ranking.values is not None
    ids, values = ranking.ids, ranking.values[:, : ranking.depth]
    rows = torch.arange(len(ids), device=ids.device)[:, None].expand(ids.shape).reshape(-1)
    for number, threshold in enumerate(thresholds):
        suggested = _is_above(values, threshold, ids) & (ids >= 0)
        yield Suggestions(number, rows, torch.where(suggested, ids, -1).reshape(-1))
