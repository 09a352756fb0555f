"""Where relevant labels stand among the labels of their row, added up over pieces of the label space."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tailmetrics.ranking._hits import NOT_RANKED, Entries
from tailmetrics.ranking._kernels_cpu import kernels_for


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
    counts = kernels_for(scores.device).counts_above(scores, entries.rows, own, entries.ids - first)
    counts[1, inside_piece(entries, first, scores.shape[1])] -= 1  # the label itself
    return counts
