"""Labels that come in pieces: their best, and where relevant labels stand among all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from tailmetrics.buckets import LabelBuckets
from tailmetrics.ranking._device import once
from tailmetrics.ranking._hits import NOT_RANKED, Entries
from tailmetrics.ranking._kernels import Kernels
from tailmetrics.ranking._kernels_cpu import kernels_for


@dataclass(frozen=True, eq=False)
class Best:
    """The best labels of some part of the label space, best first, the lower label first among equal scores.

    Attributes:
        values: Shape (N, K), floating, at least float32.
        ids: Shape (N, K), int64.
    """

    values: Tensor
    ids: Tensor


def best_of(kernels: Kernels, scores: Tensor, first: int, depth: int) -> Best:
    """Return the ``depth`` best of ``scores`` (N, C), the labels from ``first`` on."""
    depth = min(depth, scores.shape[1])
    values, ids, _ = kernels.top_k(scores, depth)
    return Best(values[:, :depth].to(torch.promote_types(scores.dtype, torch.float32)), ids + first)


def merged(kernels: Kernels, parts: list[Best], depth: int, in_order: bool = False) -> Best:
    """Return the ``depth`` best of several parts; ``in_order`` where each has only lower labels than the next."""
    values, ids = (torch.cat(side, dim=1) for side in zip(*((part.values, part.ids) for part in parts), strict=True))
    if not in_order:
        ids, order = ids.sort(dim=1, stable=True)
        values = values.gather(1, order)
    depth = min(depth, ids.shape[1])
    values, places, _ = kernels.top_k(values, depth)  # equal scores as they stand, in the order of their labels
    return Best(values[:, :depth], ids.gather(1, places))


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


class Beyond(ABC):
    """What metrics without a cut-off read where the label space came in pieces.

    Args:
        entries: The relevant labels, rows ascending, none of them void.
        num_labels: L.
    """

    def __init__(self, entries: Entries, num_labels: int) -> None:
        self.entries = entries
        self.num_labels = num_labels

    @property
    @abstractmethod
    def standings(self) -> Standings:
        """Where the relevant labels stand among all labels."""

    @property
    @abstractmethod
    def log_sum(self) -> tuple[Tensor, Tensor]:
        """The largest score of each row, and log Σ exp(score - largest), shape (N,) each."""

    @abstractmethod
    def pieces(self) -> Iterator[tuple[int, Tensor]]:
        """Yield the first label and the scores (N, C) of every piece, once more."""

    @abstractmethod
    def standings_within(self, entries: Entries, buckets: LabelBuckets) -> Standings:
        """Return where relevant labels stand among the labels of their bucket."""

    @once
    def _places(self) -> tuple[Tensor, Tensor]:
        return self._keys(self.entries).sort()

    def _keys(self, entries: Entries) -> Tensor:
        return entries.rows * self.num_labels + entries.ids

    def standings_of(self, entries: Entries) -> Standings:
        """Return where some of the relevant labels, or all of them in another order, stand among all labels."""
        if entries is self.entries or not len(entries.ids):
            return self.standings.at(torch.arange(len(entries.ids), device=entries.ids.device))
        keys, order = self._places
        return self.standings.at(order[torch.searchsorted(keys, self._keys(entries))])
