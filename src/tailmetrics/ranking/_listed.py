"""Target ranks read off the ranked list place by place: for devices, where no size may depend on the data."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from tailmetrics.ranking._device import constant, real_dtype, whole_numbers
from tailmetrics.ranking._hits import NOT_RANKED
from tailmetrics.ranking._once import once
from tailmetrics.ranking._relevant import RelevantLabels
from tailmetrics.ranking._target_ranks import TargetRanks
from tailmetrics.ranking._targets import Entries, Targets

COMPARED = 2**27
"""Comparisons of a relevant label with a place of a list up to which all of them are made: 128 MB of flags."""

LARGE = 2**20
"""Ranks from which a part of a table is copied, so that the table is not kept for its sake: 8 MB."""


@dataclass(frozen=True, eq=False)
class ListedHits:
    """Which places of ranked lists hold a relevant label.

    Attributes:
        ids: Shape (N, K), int64, the lists.
        hits: Shape (N, K), bool.
        gains: Shape (N, K), float64, of the hits, anything elsewhere; None where every gain is 1.
        most: An upper bound of the number of hits in a row.
    """

    ids: Tensor
    hits: Tensor
    gains: Tensor | None
    most: int

    @classmethod
    def of(cls, targets: Targets, ids: Tensor) -> ListedHits:
        """Look the places of lists (N, K) up in the targets; a place is added to lists without any."""
        ids = at_least_one_place(ids)
        hits, gains = _looked_up(targets, ids)
        return cls(ids, hits, gains, min(targets.widest, ids.shape[1]))

    def entries(self) -> Entries:
        """Return as many entries for every list as it has places, by rank, the void ones behind the others."""
        num_rows, depth = self.ids.shape
        places = whole_numbers(depth, self.ids.device, first=1)
        ranks, order = torch.where(self.hits, places, NOT_RANKED).sort(dim=1)
        gains = None if self.gains is None else self.gains.gather(1, order).reshape(-1)
        rows = torch.arange(num_rows, device=self.ids.device).repeat_interleave(depth, output_size=num_rows * depth)
        return Entries(rows, self.ids.gather(1, order).reshape(-1), gains, depth, ranks=ranks.reshape(-1))


@dataclass(frozen=True, eq=False)
class ListedRanks(TargetRanks):
    """Target ranks of rows, or of rows and buckets, found when they are read.

    A hit of rank r is written to column r of its row, and the columns are sorted: hits come to stand side by side.

    Attributes:
        listed: The hits among the places of the lists.
        ranks: Shape (N, K), int64: the rank of each place, at most ``deepest``; those beyond it are left out.
        bucket: Shape (N, K), int64: the bucket of each place; None without buckets.
    """

    listed: ListedHits = field(repr=False)
    ranks: Tensor = field(repr=False)
    bucket: Tensor | None = field(repr=False)
    relevant: RelevantLabels = field(repr=False)
    length: Tensor
    num_labels: int | None
    deepest: int
    max_k: int
    documents: Tensor | None = field(default=None, repr=False)

    @property
    def n_relevant(self) -> Tensor:  # type: ignore[override]
        """Number of relevant labels, found or not, shape (...), int64."""
        return self.relevant.n

    @property
    def binary(self) -> bool:  # type: ignore[override]
        """Whether every gain is 1."""
        return self.listed.gains is None

    @once
    def _cells(self) -> Tensor:
        """Where each place goes in a table of rows, buckets and ranks, from 1; 0 if it is no hit."""
        assert self.bucket is not None
        num_rows, num_places = self.ranks.shape
        of_row = self.n_relevant.shape[1] * self.deepest
        first = torch.arange(0, num_rows * of_row, of_row, device=self.ranks.device)
        cells = (self.ranks + first[:, None]).add_(self.bucket, alpha=self.deepest)
        return cells.mul_(self.listed.hits[:, :num_places] & (self.ranks <= self.deepest)).view(-1)

    def _table(self, values: Tensor, fill: float) -> Tensor:
        """Return values of places (N, K) in the cells of the hits, shape (N, G, deepest)."""
        table = values.new_full((1 + self.n_relevant.numel() * self.deepest,), fill)
        table.scatter_(0, self._cells, values.reshape(-1))
        return table[1:].view(*self.n_relevant.shape, self.deepest)

    @once
    def _sorted(self) -> tuple[Tensor, Tensor]:
        if self.bucket is None:  # one row of the table is one list: its places are the ranks
            not_ranked = constant(NOT_RANKED, self.ranks.device)
            ranks = torch.where(self.listed.hits[:, : self.deepest], self.ranks, not_ranked)
        else:
            ranks = self._table(self.ranks, NOT_RANKED)
        ranks, order = ranks.sort(dim=-1)
        most = self.listed.most + self.listed.most % 2  # an even number of terms adds up in fewer steps
        width = max(1, min(most, self.deepest))
        ranks, order = ranks[..., :width], order[..., :width]
        return (ranks.clone(), order.clone()) if ranks.numel() > LARGE else (ranks, order)

    @property
    def target_ranks(self) -> Tensor:  # type: ignore[override]
        """Ranks from 1 of the hits, ascending, shape (..., W), int64."""
        return self._sorted[0]

    @once
    def target_ids(self) -> Tensor:
        """The labels at ``target_ranks``, shape (..., W), int64."""
        return self._at_targets(self.listed.ids, -1)

    @once
    def target_gains(self) -> Tensor:
        """The gains at ``target_ranks``, shape (..., W), float64."""
        if self.listed.gains is not None:
            return self._at_targets(self.listed.gains, 0.0)
        device = self.target_ranks.device
        return torch.ones((), dtype=real_dtype(device), device=device).expand(self.target_ranks.shape)

    def _at_targets(self, values: Tensor, fill: float) -> Tensor:
        ranks, order = self._sorted
        values = values[:, : self.ranks.shape[1]]
        values = values if self.bucket is None else self._table(values, fill)
        return values.gather(-1, order).masked_fill(ranks == NOT_RANKED, fill)


def at_least_one_place(ids: Tensor) -> Tensor:
    """Return lists (N, K), or one void place for each of lists without any."""
    return ids if ids.shape[1] else ids.new_full((len(ids), 1), -1)


def _looked_up(targets: Targets, ids: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return which places of lists (N, K) are hits, and their gains."""
    if targets.dense is not None:
        if not targets.dense.shape[1]:
            return ids >= 0, None
        listed = targets.dense.gather(1, ids.clamp(min=0))
        hits = (listed > 0) & (ids >= 0)
        return hits, None if targets.binary else listed.to(torch.float64)
    wanted = targets.padded
    if wanted is not None and wanted.numel() * ids.shape[1] <= COMPARED:
        # -2 instead of the -1 that pads them, so that the -1 of a list is none of them
        wanted = torch.where(targets.padded_with_labels, wanted, constant(-2, wanted.device))
        return (ids.unsqueeze(1) == wanted.unsqueeze(2)).any(dim=1), None
    return _searched(targets.entries, ids)


def _searched(entries: Entries, ids: Tensor) -> tuple[Tensor, Tensor | None]:
    """Search the places of lists (N, K) among the sorted entries."""
    if not len(entries.ids):
        return torch.zeros_like(ids, dtype=torch.bool), None
    # any id is a place among the sorted targets, so that (row, place) fits into 64 bits where (row, id) might not
    known = entries.ids.sort().values
    place = torch.searchsorted(known, entries.ids)
    void = torch.iinfo(torch.int64).max
    keys, order = torch.where(entries.ids < 0, void, entries.rows * (len(known) + 1) + place).sort()
    listed = torch.searchsorted(known, ids.contiguous())
    exact = known[listed.clamp(max=len(known) - 1)] == ids
    rows = torch.arange(len(ids), device=ids.device)[:, None]
    wanted = torch.where(exact, rows * (len(known) + 1) + listed, -1)
    found = torch.searchsorted(keys, wanted).clamp(max=len(keys) - 1)
    return (keys[found] == wanted) & (ids >= 0), None if entries.gains is None else entries.gains[order[found]]
