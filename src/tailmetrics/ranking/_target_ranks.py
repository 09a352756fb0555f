"""Where the relevant labels were ranked: the one thing that the formula of every metric reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor

from tailmetrics.buckets import LabelBuckets
from tailmetrics.ranking._device import made_once, real_dtype, whole_numbers
from tailmetrics.ranking._discounts import discounts_at, ideal_discounts
from tailmetrics.ranking._hits import EVERYTHING, NOT_RANKED
from tailmetrics.ranking._once import once
from tailmetrics.ranking._relevant import RelevantLabels
from tailmetrics.ranking._slots import Slots
from tailmetrics.ranking._targets import Entries
from tailmetrics.ranking._weights import LabelWeights

Cutoff: TypeAlias = int | tuple[int, ...]
"""A cut-off; or several, for which values have an axis in front."""

Made = TypeVar("Made")


class TargetRanks:
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
        relevant: All relevant labels, found or not.
        length: Shape (...), int64: number of labels in the list.
        binary: Whether every gain is 1.
        num_labels: L, or None when unknown.
        max_k: The deepest cut-off that the list can answer for: its depth where it was cut, else ``EVERYTHING``.
        deepest: No rank is larger but for ``NOT_RANKED``, known without looking at them.
        documents: Shape (N,), int64: the number of documents of each row, of flat queries without ids; else None.
    """

    target_ranks: Tensor
    target_ids: Tensor
    target_gains: Tensor
    n_relevant: Tensor
    relevant: RelevantLabels
    length: Tensor
    binary: bool
    num_labels: int | None
    max_k: int
    deepest: int
    documents: Tensor | None = None

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
            self.relevant,
            self.length,
            self.binary,
            self.num_labels,
            self.deepest,
            self.max_k,
        )

    # for one cut-off, or for several along an axis in front

    def cutoffs(self, k: Cutoff) -> int | Tensor:
        """Return ``k`` as what can be computed with values of shape (...): itself, or shape (len(k), 1, ...)."""
        if isinstance(k, int):
            return k
        return cutoff_numbers(k, self.n_relevant.device).view(-1, *[1] * self.n_relevant.ndim)

    def within(self, k: Cutoff) -> Tensor:
        """Return which of ``target_ranks`` are hits within the top ``k``, shape (..., W), bool.

        Raises:
            ValueError: If the list was cut above ``k``: what it does not show would count as not found.
        """
        self._check_deep_enough(k)
        return self.remembered(("within", k), lambda: self.target_ranks <= self._behind_targets(k))

    def first_within(self, k: Cutoff) -> Tensor:
        """Return whether the first hit is within the top ``k``, shape (...), bool; raises as :meth:`within` does."""
        self._check_deep_enough(k)
        return self.first_rank <= self.cutoffs(k)

    def _check_deep_enough(self, k: Cutoff) -> None:
        largest = k if isinstance(k, int) else max(k)
        if largest > self.max_k:
            wanted = "everything (k=None)" if largest >= EVERYTHING else f"k={largest}"
            raise ValueError(
                f"Ranking: {wanted} is deeper than the ranking ({self.max_k} ids per row); rank again with a greater "
                "depth, or read ranking.exact, which has exact ranks among all scores."
            )

    def at(self, k: Cutoff) -> Tensor:
        """Return which of ``target_ranks`` are hits at rank ``k`` itself, shape (..., W), bool."""
        return self.within(k) & (self.target_ranks == self._behind_targets(k))

    def _behind_targets(self, k: Cutoff) -> int | Tensor:
        """Return ``k`` as what can be compared with ``target_ranks``."""
        numbers = self.cutoffs(k)
        return numbers if isinstance(numbers, int) else numbers.unsqueeze(-1)

    def hits_at(self, k: Cutoff) -> Tensor:
        """Return the number of relevant labels among the first ``k``, h_k, shape (...), int64."""
        return self.remembered(("hits", k), lambda: self.within(k).sum(dim=-1))

    @once
    def real_ranks(self) -> Tensor:
        """Return ``target_ranks`` as float64, shape (..., W)."""
        return self.target_ranks.to(real_dtype(self.target_ranks.device))

    @once
    def real_first_rank(self) -> Tensor:
        """Return :attr:`first_rank` as float64, shape (...)."""
        return self.real_ranks[..., 0]

    def real_hits_at(self, k: Cutoff) -> Tensor:
        """Return :meth:`hits_at` as float64."""
        return self.remembered(("real hits", k), lambda: self.hits_at(k).to(real_dtype(self.n_relevant.device)))

    def length_at(self, k: Cutoff) -> Tensor:
        """Return the number of labels among the first ``k``, m_k, shape (...), int64."""
        return self.remembered(("length", k), lambda: self.length.clamp(max=self.cutoffs(k)))

    def attainable_at(self, k: Cutoff) -> Tensor:
        """Return the number of hits that there could be among the first ``k``, min(k, n), shape (...), int64."""
        return self.remembered(("attainable", k), lambda: self.n_relevant.clamp(max=self.cutoffs(k)))

    @once
    def divisor(self) -> Tensor:
        """The number of relevant labels, or 1 where there is none: what is divided by it is 0 there."""
        return self.n_relevant.clamp(min=1)

    @property
    def first_rank(self) -> Tensor:
        """Rank of the first hit, ``NOT_RANKED`` without one, shape (...), int64."""
        return self.target_ranks[..., 0]

    @once
    def num_answered(self) -> Tensor:
        """Number of rows with something relevant, shape () or, with buckets, (G,), int64."""
        return (self.n_relevant > 0).sum(dim=0)

    @once
    def discounts(self) -> Tensor:
        """1 / log2(rank + 1) at ``target_ranks``, 0 where not ranked, shape (..., W), float64."""
        return discounts_at(self.target_ranks, self.deepest)

    def ideal_discount(self, k: Cutoff) -> Tensor:
        """Return the ideal DCG of binary relevance: the first min(k, n) discounts added up, shape (...), float64."""
        most = min(k if isinstance(k, int) else max(k), self.relevant.most)
        return ideal_discounts(self.attainable_at(k), most)

    def weights_at_targets(self, weights: LabelWeights) -> Tensor:
        """Return the weights of the labels at ``target_ids``, shape (..., W)."""
        on_device = weights.on(self.target_ids.device)
        if not weights.digest:
            return on_device[self.target_ids.clamp(min=0)]
        return self.remembered(("at targets", weights.digest), lambda: on_device[self.target_ids.clamp(min=0)])

    def best(self, k: Cutoff, weights: LabelWeights | None = None) -> Tensor:
        """Return the ``k`` largest gains of each row's relevant labels, found or not, largest first, then zeros.

        Args:
            k: How many at most.
            weights: What to sort instead of the gains, by label.

        Returns:
            Shape (..., W), W <= k, float64.
        """
        if isinstance(k, int):
            return self.relevant.best(k, weights)
        best = self.relevant.best(max(k), weights)
        place = whole_numbers(best.shape[-1], best.device)
        return best * (place < self._behind_targets(k))


@made_once
def _numbers(ks: tuple[int, ...]) -> Tensor:
    return torch.tensor(ks, device="cpu")


def cutoff_numbers(ks: tuple[int, ...], device: torch.device) -> Tensor:
    """Return cut-offs as a vector on a device."""
    return _numbers(ks, device)


@dataclass(frozen=True, eq=False)
class StoredRanks(TargetRanks):
    """Target ranks whose tensors are all there."""

    target_ranks: Tensor
    target_ids: Tensor
    target_gains: Tensor
    n_relevant: Tensor
    relevant: RelevantLabels = field(repr=False)
    length: Tensor
    binary: bool
    num_labels: int | None
    deepest: int
    max_k: int = EVERYTHING


def stored_ranks(
    found: Entries,
    keys: Tensor,
    relevant: RelevantLabels,
    length: Tensor,
    num_labels: int | None,
    deepest: int,
    max_k: int,
) -> StoredRanks:
    """Return the ranks of the labels ``found``, whose row, or row and bucket, is ``keys`` (ascending)."""
    assert found.ranks is not None
    shape = relevant.n.shape
    slots = Slots(keys, relevant.n.numel(), found.width)
    ranks = slots.place(found.ranks, NOT_RANKED).view(*shape, slots.width)
    ids = slots.place(found.ids, -1).view(*shape, slots.width)
    if found.gains is None:
        gains = torch.ones((), dtype=real_dtype(ranks.device), device=ranks.device).expand(ranks.shape)
    else:
        gains = slots.place(found.gains, 0.0).view(*shape, slots.width)
    binary = found.gains is None
    return StoredRanks(ranks, ids, gains, relevant.n, relevant, length, binary, num_labels, deepest, max_k)


def ranks_by_bucket(
    found: Entries,
    buckets: LabelBuckets,
    relevant: RelevantLabels,
    length: Tensor,
    num_labels: int | None,
    deepest: int,
    max_k: int,
) -> StoredRanks:
    """Return the ranks per row and bucket, with the ranks that ``found`` has."""
    assert found.ranks is not None
    num_keys = relevant.n.numel()
    keys = torch.where(found.ranks < NOT_RANKED, found.rows * len(buckets) + buckets.of(found.ids), num_keys)
    order = keys.argsort(stable=True)  # keeps the order by rank within a bucket
    return stored_ranks(found.at(order), keys[order], relevant, length, num_labels, deepest, max_k)
