"""Where the relevant labels were ranked: the one thing that the formula of every metric reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor

from tailmetrics.buckets import LabelBuckets
from tailmetrics.ranking._best import best_by_sorting, best_side_by_side
from tailmetrics.ranking._device import reads_are_free, real_dtype
from tailmetrics.ranking._discounts import discounts_at, ideal_discounts
from tailmetrics.ranking._hits import EVERYTHING, NOT_RANKED
from tailmetrics.ranking._once import once
from tailmetrics.ranking._slots import Slots
from tailmetrics.ranking._targets import Entries
from tailmetrics.ranking._weights import LabelWeights

KeyedEntries = Callable[[], tuple[Tensor, int, Entries]]
"""Gives the row, or row and bucket, of each relevant label as one number below the second item, on demand."""

Made = TypeVar("Made")


class TargetRanks(ABC):
    """Ranks of the relevant labels over free leading axes: rows (N,), or rows and buckets (N, G).

    A formula reads these and nothing else, so that it holds for whole rows and for the part of a row that lies in a
    bucket alike. A relevant label that the list does not hold has a rank beyond any cut-off, or is left out.

    Attributes:
        target_ranks: Shape (..., W), int64: ranks from 1 of the relevant labels found, ascending, ``NOT_RANKED`` behind
            the last. So the j-th place is that of the j-th hit, on which the order of additions depends.
            W is at least the number of labels found, and at most the length of the list: labels that are not found
            need no place. What depends on all relevant labels reads ``n_relevant`` and :meth:`best`.
        target_ids: Shape (..., W), int64: the labels at ``target_ranks``, meaningless where not ranked.
        target_gains: Shape (..., W), float64: the gains at ``target_ranks``.
        n_relevant: Shape (...), int64: number of relevant labels, found or not.
        length: Shape (...), int64: number of labels in the list.
        binary: Whether every gain is 1.
        num_labels: L, or None when unknown.
        max_k: The deepest cut-off that the list can answer for: its depth where it was cut, else ``EVERYTHING``.
        deepest: No rank is larger but for ``NOT_RANKED``, known without looking at them.
    """

    target_ranks: Tensor
    target_ids: Tensor
    target_gains: Tensor
    n_relevant: Tensor
    length: Tensor
    binary: bool
    num_labels: int | None
    max_k: int
    deepest: int

    @abstractmethod
    def _keyed_entries(self) -> tuple[Tensor, int, Entries]:
        """Return the row of each relevant label as one number below the returned one, and the labels themselves."""

    @once
    def _memo(self) -> dict[object, Any]:
        return {}

    def remembered(self, key: object, make: Callable[[], Made]) -> Made:
        """Return what ``make`` returned when the key was first asked for."""
        if key not in self._memo:
            self._memo[key] = make()
        made: Made = self._memo[key]
        return made

    @property
    def exact(self) -> TargetRanks:
        """What metrics without a cut-off read: itself, or exact ranks among all scores where the list was cut."""
        return self

    def first(self, depth: int) -> TargetRanks:
        """Return the same with what stands below ``depth`` not ranked, as a list of that depth would show it."""
        return self.remembered(("first", depth), lambda: self._first(depth))

    def _first(self, depth: int) -> StoredRanks:
        inside = self.target_ranks <= depth
        return StoredRanks(
            torch.where(inside, self.target_ranks, NOT_RANKED),
            self.target_ids,
            torch.where(inside, self.target_gains, 0.0),
            self.n_relevant,
            self.length,
            self.binary,
            self.num_labels,
            self._keyed_entries,
            self.deepest,
            self.max_k,
        )

    def within(self, k: int) -> Tensor:
        """Return which of ``target_ranks`` are hits within the top ``k``, shape (..., W), bool.

        Raises:
            ValueError: If the list was cut above ``k``: what it does not show would count as not found.
        """
        if k > self.max_k:
            wanted = "everything (k=None)" if k >= EVERYTHING else f"k={k}"
            raise ValueError(
                f"Ranking: {wanted} is deeper than the ranking ({self.max_k} ids per row); rank again with a greater "
                "depth, or read ranking.exact, which has exact ranks among all scores."
            )
        return self.target_ranks <= k

    def hits_at(self, k: int) -> Tensor:
        """Return the number of relevant labels among the first ``k``, shape (...), int64."""
        return self.remembered(k, lambda: self.within(k).sum(dim=-1))

    @once
    def num_answered(self) -> Tensor:
        """Number of rows with something relevant, shape () or, with buckets, (G,), int64."""
        return (self.n_relevant > 0).sum(dim=0)

    @once
    def discounts(self) -> Tensor:
        """1 / log2(rank + 1) at ``target_ranks``, 0 where not ranked, shape (..., W), float64."""
        return discounts_at(self.target_ranks, self.deepest)

    def ideal_discount(self, k: int) -> Tensor:
        """Return the ideal DCG of binary relevance: the first min(k, n) discounts added up, shape (...), float64."""
        most = min(k, self.most_relevant)
        return ideal_discounts(self.n_relevant.clamp(max=most), most)

    def weights_at_targets(self, weights: LabelWeights) -> Tensor:
        """Return the weights of the labels at ``target_ids``, shape (..., W)."""
        self._memo["weights", weights.digest] = weights  # while it is kept, its object is no other one
        on_device = weights.on(self.target_ids.device)
        return self.remembered(("at targets", weights.digest), lambda: on_device[self.target_ids.clamp(min=0)])

    @once
    def most_relevant(self) -> int:
        """An upper bound of ``n_relevant``, the least one where that does not make a device wait."""
        if reads_are_free(self.n_relevant.device):
            return int(self.n_relevant.max()) if self.n_relevant.numel() else 0
        return self._keyed_entries()[2].width

    def best(self, k: int, weights: LabelWeights | None = None) -> Tensor:
        """Return the ``k`` largest gains of each row's relevant labels, found or not, largest first, then zeros.

        Args:
            k: How many at most.
            weights: What to sort instead of the gains, by label.

        Returns:
            Shape (..., W), W <= k, float64.
        """
        memo = ("best", None if weights is None else weights.digest)
        known: Tensor | None = self._memo.get(memo)
        if known is None or known.shape[-1] < min(k, self.most_relevant):
            if weights is not None:
                self._memo["weights", weights.digest] = weights
            known = self._memo[memo] = self._best(max(k, 16), weights)
        return known[..., :k]

    def _best(self, k: int, weights: LabelWeights | None) -> Tensor:
        keys, num_keys, entries = self._keyed_entries()
        none_void = reads_are_free(keys.device)
        if weights is not None:
            value = weights.on(keys.device)[entries.ids if none_void else entries.ids.clamp(min=0)]
        elif entries.gains is not None:
            value = entries.gains
        else:
            value = torch.ones_like(entries.ids, dtype=real_dtype(entries.ids.device))
        value = value if none_void else torch.where(entries.ids >= 0, value, 0)
        if none_void and num_keys * self.most_relevant < 4 * len(keys) + 2**16:
            best = best_side_by_side(keys, num_keys, value)
        else:
            best = best_by_sorting(keys, num_keys, value, min(k, self.most_relevant))
        return best.view(*self.n_relevant.shape, best.shape[-1])


@dataclass(frozen=True, eq=False)
class StoredRanks(TargetRanks):
    """Target ranks whose tensors are all there."""

    target_ranks: Tensor
    target_ids: Tensor
    target_gains: Tensor
    n_relevant: Tensor
    length: Tensor
    binary: bool
    num_labels: int | None
    keyed_entries: KeyedEntries = field(repr=False)
    deepest: int
    max_k: int = EVERYTHING

    def _keyed_entries(self) -> tuple[Tensor, int, Entries]:
        return self.keyed_entries()


def stored_ranks(
    found: Entries,
    keys: Tensor,
    n_relevant: Tensor,
    length: Tensor,
    num_labels: int | None,
    keyed_entries: KeyedEntries,
    deepest: int,
    max_k: int,
) -> StoredRanks:
    """Return the ranks of the labels ``found``, whose row, or row and bucket, is ``keys`` (ascending)."""
    assert found.ranks is not None
    shape = n_relevant.shape
    slots = Slots(keys, n_relevant.numel(), found.width)
    ranks = slots.place(found.ranks, NOT_RANKED).view(*shape, slots.width)
    ids = slots.place(found.ids, -1).view(*shape, slots.width)
    if found.gains is None:
        gains = torch.ones((), dtype=real_dtype(ranks.device), device=ranks.device).expand(ranks.shape)
    else:
        gains = slots.place(found.gains, 0.0).view(*shape, slots.width)
    binary = found.gains is None
    return StoredRanks(ranks, ids, gains, n_relevant, length, binary, num_labels, keyed_entries, deepest, max_k)


def ranks_by_bucket(
    found: Entries,
    buckets: LabelBuckets,
    entries: Entries,
    num_rows: int,
    length: Tensor,
    num_labels: int | None,
    deepest: int,
    max_k: int,
) -> StoredRanks:
    """Return the ranks per row and bucket, with the ranks that ``found`` has."""
    assert found.ranks is not None
    num_buckets = len(buckets)
    num_keys = num_rows * num_buckets
    keys = torch.where(found.ranks < NOT_RANKED, found.rows * num_buckets + buckets.of(found.ids), num_keys)
    order = keys.argsort(stable=True)  # keeps the order by rank within a bucket
    entry_keys = torch.where(entries.ids >= 0, entries.rows * num_buckets + buckets.of(entries.ids), num_keys)
    counts = torch.zeros(num_keys + 1, dtype=torch.int64, device=entry_keys.device)
    n_relevant = counts.scatter_add_(0, entry_keys, torch.ones_like(entry_keys))[:-1].view(num_rows, num_buckets)
    keyed = (entry_keys, num_keys, entries)
    return stored_ranks(found.at(order), keys[order], n_relevant, length, num_labels, lambda: keyed, deepest, max_k)
