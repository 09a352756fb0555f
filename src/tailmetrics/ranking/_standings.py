"""Where relevant labels stand among the labels of their row, added up over pieces of the label space."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from tailmetrics.ranking._device import exact_real
from tailmetrics.ranking._hits import NOT_RANKED
from tailmetrics.ranking._targets import Entries

BLOCK_SCORES = 2**20
"""Scores that are compared together: 4 MB of flags, which stay in the cache from one comparison to the next."""

FEW_TARGETS = 32
"""Up to this many targets in a row counting better scores is cheaper than sorting the row."""


@dataclass(frozen=True, eq=False)
class Standings:
    """How many labels score more than each relevant label, and how many the same.

    Attributes:
        own: Shape (T,): the score of the label.
        above: Shape (T,), int64: labels that score more.
        tied: Shape (T,), int64: other labels that score the same.
        before: Shape (T,), int64: those of them with a lower id, which rank better.
    """

    own: Tensor
    above: Tensor
    tied: Tensor
    before: Tensor

    @property
    def ranks(self) -> Tensor:
        """Exact ranks from 1, ``NOT_RANKED`` where the score is -inf."""
        return torch.where(self.own > -torch.inf, self.above + self.before + 1, NOT_RANKED)

    def at(self, places: Tensor) -> Standings:
        """Return the standings at ``places``."""
        return Standings(self.own[places], self.above[places], self.tied[places], self.before[places])


def own_scores(entries: Entries, scores: Tensor, first: int, own: Tensor) -> None:
    """Write the scores of the relevant labels from ``first`` on that ``scores`` (N, C) holds into ``own`` (T,)."""
    inside = inside_piece(entries, first, scores.shape[1])
    own[inside] = scores[entries.rows[inside], entries.ids[inside] - first]


def inside_piece(entries: Entries, first: int, width: int) -> Tensor:
    """Return the places of the relevant labels in a piece of the label space."""
    return ((entries.ids >= first) & (entries.ids < first + width)).nonzero().squeeze(1)


def count_piece(entries: Entries, own: Tensor, scores: Tensor, first: int) -> Tensor:
    """Count the labels of a piece that score more than each relevant label, the same, and the same with a lower id.

    Args:
        entries: Relevant labels, rows ascending; none of them void.
        own: Shape (T,): their scores, wherever these labels are.
        scores: Shape (N, C): the scores of the piece.
        first: Its first label.

    Returns:
        Shape (3, T), int64: what the piece adds to ``above``, ``tied`` and ``before``.
    """
    above, same = count_above(entries.rows, own, scores)
    before = torch.where(entries.ids >= first + scores.shape[1], same, 0)
    inside = inside_piece(entries, first, scores.shape[1])
    same[inside] -= 1  # the label itself
    tied = inside[same[inside] > 0]
    for part in torch.split(tied, max(1, BLOCK_SCORES // max(1, scores.shape[1]))):
        lower = torch.arange(scores.shape[1], device=own.device) < (entries.ids[part] - first)[:, None]
        before[part] = ((scores[entries.rows[part]] == own[part, None]) & lower).sum(dim=1)
    return torch.stack([above, same, before])


def count_above(rows: Tensor, own: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    """Return how many of ``scores`` (N, C) in the row of each of ``own`` (T,) are more, and how many are the same.

    Args:
        rows: Shape (T,), int64, ascending.
        own: Shape (T,), of the type of ``scores``.
        scores: Shape (N, C).
    """
    per_row = torch.bincount(rows, minlength=len(scores))
    starts = [0, *per_row.cumsum(0).tolist()]
    ordinal = torch.arange(len(rows), device=rows.device) - torch.tensor(starts, device=rows.device)[rows]
    counts = own.new_zeros(2, len(rows), dtype=torch.int64)
    height = max(1, BLOCK_SCORES // max(1, scores.shape[1]))
    for first in range(0, len(scores), height):
        block = scores[first : first + height]
        part = slice(starts[first], starts[first + len(block)])
        if part.start == part.stop:
            continue
        place = rows[part] - first, ordinal[part]
        table = own.new_full((len(block), int(ordinal[part].max()) + 1), torch.inf).index_put_(place, own[part])
        counts[0, part], counts[1, part] = (found[place] for found in _count_block(block, table))
    return counts[0], counts[1]


def _count_block(scores: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
    """Return for each of ``own`` (R, W) how many of ``scores`` (R, C) are more, and how many are the same."""
    if own.shape[1] > FEW_TARGETS:
        ordered = scores.to(torch.promote_types(scores.dtype, torch.float32)).sort(dim=1).values
        own = own.to(ordered.dtype)
        up_to = torch.searchsorted(ordered, own, right=True)
        return ordered.shape[1] - up_to, up_to - torch.searchsorted(ordered, own)
    counted = tuple(zip(*_one_by_one(scores, own), strict=True))
    above, at_least = (torch.stack(side, dim=1).to(torch.int64) for side in counted)
    return above, at_least - above


def _one_by_one(scores: Tensor, own: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield how many are more, and how many at least as much, flagged as 1.0: several times faster than as bools."""
    flags = torch.empty(scores.shape, dtype=exact_real(scores.shape[1])).to(scores.device)
    for column in torch.split(own, 1, dim=1):
        yield tuple(torch.sum(compare(scores, column, out=flags), dim=1) for compare in (torch.gt, torch.ge))  # type: ignore[misc]
