"""Target ranks among all scores of a row, however deep the list goes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from tailmetrics.ranking._beyond import Beyond
from tailmetrics.ranking._device import constant, reads_are_free, real_dtype, whole_numbers
from tailmetrics.ranking._exact import COPIED, exact_ranks
from tailmetrics.ranking._hits import EVERYTHING, NOT_RANKED
from tailmetrics.ranking._once import once
from tailmetrics.ranking._relevant import RelevantLabels
from tailmetrics.ranking._target_ranks import StoredRanks, TargetRanks, stored_ranks
from tailmetrics.ranking._targets import Entries, Targets


@dataclass(frozen=True, eq=False)
class ExactRanks(TargetRanks):
    """Target ranks among all scores, found when they are read; the first of each row without the others.

    Attributes:
        scores: Shape (N, L); or what is known where they came in pieces.
        targets: What is relevant.
    """

    scores: Tensor | Beyond = field(repr=False)
    targets: Targets = field(repr=False)
    relevant: RelevantLabels = field(repr=False)
    length: Tensor
    num_labels: int | None
    max_k: int = EVERYTHING

    @property
    def n_relevant(self) -> Tensor:  # type: ignore[override]
        """Number of relevant labels, shape (N,), int64."""
        return self.relevant.n

    @property
    def binary(self) -> bool:  # type: ignore[override]
        """Whether every gain is 1."""
        return self.targets.binary

    @property
    def deepest(self) -> int:  # type: ignore[override]
        """No rank is larger."""
        return self.scores.num_labels if isinstance(self.scores, Beyond) else self.scores.shape[1]

    def _ranks_of(self, entries: Entries) -> Tensor:
        if isinstance(self.scores, Beyond):
            return self.scores.standings_of(entries).ranks
        return exact_ranks(self.scores, entries)

    @once
    def found(self) -> Entries:
        """The relevant labels with their ranks, by row and within a row by rank."""
        entries = self.targets.entries
        ranks = self._ranks_of(entries)
        order = ranks.argsort(stable=True)
        return replace(entries, ranks=ranks).at(order[entries.rows[order].argsort(stable=True)])

    @once
    def _stored(self) -> StoredRanks:
        args = self.relevant, self.length, self.num_labels, self.deepest, self.max_k
        return stored_ranks(self.found, self.found.rows, *args)

    @property
    def target_ranks(self) -> Tensor:  # type: ignore[override]
        """Ranks from 1 of the relevant labels, ascending, shape (N, W), int64."""
        return self._stored.target_ranks

    @property
    def target_ids(self) -> Tensor:  # type: ignore[override]
        """The labels at ``target_ranks``, shape (N, W), int64."""
        return self._stored.target_ids

    @property
    def target_gains(self) -> Tensor:  # type: ignore[override]
        """The gains at ``target_ranks``, shape (N, W), float64."""
        return self._stored.target_gains

    @once
    def first_rank(self) -> Tensor:
        """Rank of the best relevant label, ``NOT_RANKED`` without one, shape (N,), int64."""
        dense = self.targets.dense is not None and not reads_are_free(self.length.device)
        if dense and isinstance(self.scores, Tensor):
            entries = self._best_of_matrix(self.scores)
        else:
            entries = self.targets.entries
        ranks = self._ranks_of(entries)
        if len(ranks) == len(self.length) and entries.width == 1:
            return ranks
        return ranks.new_full((len(self.length),), NOT_RANKED).scatter_reduce_(0, entries.rows, ranks, reduce="amin")

    @once
    def real_first_rank(self) -> Tensor:
        """:attr:`first_rank` as float64, shape (N,)."""
        return self.first_rank.to(real_dtype(self.length.device))

    def _best_of_matrix(self, scores: Tensor) -> Entries:
        """Return the relevant label of each row that scores most, the lowest of equals, without an entry per cell."""
        dense, row_mask = self.targets.dense, self.targets.row_mask
        assert dense is not None
        height = max(1, 4 * COPIED // max(1, dense.shape[1]))
        parts = zip(torch.split(scores, height), torch.split(dense, height), strict=True)
        best = [part.masked_fill(relevant <= 0, -torch.inf).max(dim=1) for part, relevant in parts]
        retrieved = torch.cat([of_part.values for of_part in best]) > -torch.inf
        retrieved = retrieved if row_mask is None else retrieved & row_mask
        labels = torch.cat([of_part.indices for of_part in best])
        ids = torch.where(retrieved, labels, constant(-1, scores.device))
        return Entries(whole_numbers(len(ids), ids.device), ids, None, 1)
