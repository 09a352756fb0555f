"""What models that need no run would reach on the same rows: chance, popularity, and the targets themselves.

A reference scores labels by a rule that reads the targets, and training counts, alone: all equal (chance), by how often
a label occurs in training (popularity), or by its gain (attainable). Values are means over all orders of equal scores.
So a reference costs the number of relevant labels, however many labels there are.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional as F

from tailmetrics.buckets import LabelBuckets
from tailmetrics.metrics._arithmetic import ordered_sum
from tailmetrics.metrics._ties import ExpectedRanks
from tailmetrics.ranking import EVERYTHING, NOT_RANKED, Cutoff, Ranking, TargetRanks
from tailmetrics.ranking._device import real_dtype
from tailmetrics.ranking._hits import Entries, Hits
from tailmetrics.ranking._ranking import Scope
from tailmetrics.ranking._scores import counts_among
from tailmetrics.ranking._target_ranks import RelevantLabels

Reference: TypeAlias = Literal["chance", "popularity", "attainable"]

REFERENCES: Final[tuple[Reference, ...]] = ("chance", "popularity", "attainable")

NEGLIGIBLE = 1e-18
"""Chance below which a number of shown labels is left out: all of them together change no digit of a value."""


@dataclass(frozen=True, eq=False)
class ReferenceRanking(Ranking):
    """The rows of a batch as a reference would rank them: no list, but where each relevant label stands.

    Attributes:
        reference: Which one.
        counts: Training counts, for popularity.
    """

    reference: Reference = "chance"
    counts: RankedCounts | None = field(repr=False, default=None)

    @classmethod
    def of_rows(
        cls, ranking: Ranking, reference: Reference, num_labels: int, counts: RankedCounts | None
    ) -> ReferenceRanking:
        """Return the rows of a ranking of ``num_labels`` labels as a reference ranks them."""
        nothing = ranking.ids[:, :0]
        read = nothing, True, num_labels, None, None, ranking.targets, ranking.rows
        return cls(*read, documents=ranking.documents, reference=reference, counts=counts)

    def ranks(self, buckets: LabelBuckets | None, scope: Scope, depth: int) -> ReferenceRanks:
        """Return where the relevant labels stand, as :meth:`Ranking.by_bucket` does."""
        key = ("reference", None if buckets is None else buckets.digest, scope, depth)
        return self.remembered(key, lambda: self._ranks(buckets, None if buckets is None else scope, depth))

    def with_ranks(
        self, ranks: ReferenceRanks, buckets: LabelBuckets | None, scope: Scope, depth: int
    ) -> ReferenceRanking:
        """Return the same rows with other ranks of these buckets, for lists of one length."""
        rows = copy(self)
        key = ("reference", None if buckets is None else buckets.digest, scope, depth)
        object.__setattr__(rows, "_memo", {key: ranks})
        return rows

    def _ranks(self, buckets: LabelBuckets | None, scope: Scope | None, depth: int) -> ReferenceRanks:
        targets, entries = self.targets, self.targets.entries
        device, num_labels = entries.ids.device, self.num_labels
        assert num_labels is not None
        groups = 1 if buckets is None else len(buckets)
        bucket = torch.zeros_like(entries.ids) if buckets is None else buckets.of(entries.ids)
        keys = entries.rows * groups + bucket
        of_row = torch.full((self.num_rows,), num_labels, device=device) if self.documents is None else self.documents
        whole = sizes = of_row if buckets is None else of_row[:, None].expand(-1, groups)
        shown = None
        if scope == "bucket" and buckets is not None:
            whole = sizes = buckets.label_counts.to(device).expand(self.num_rows, -1)
            if depth < num_labels and self.reference == "chance":
                key = "chance of lengths", depth, device
                shown = buckets.kept(
                    key, lambda: _shown_of_buckets(buckets.sizes, num_labels, depth).to(device, real_dtype(device))
                )
            if depth < num_labels and self.reference == "popularity":
                assert self.counts is not None
                sizes = self.counts.listed(buckets, depth, device).expand(self.num_rows, -1)
            if depth < num_labels and self.reference == "attainable":
                sizes = self._listed_of_targets(entries, keys, buckets, depth)
        among = keys if scope == "bucket" else entries.rows
        above, equal, read = self._standing(entries, among, whole.reshape(-1)[keys], buckets, scope, depth)
        keys = torch.where((entries.ids >= 0) & read, keys, self.num_rows * groups)
        order = above.argsort(stable=True)
        order = order[keys[order].argsort(stable=True)]
        padding = targets.kernels.padding(keys[order], self.num_rows * groups, entries.width)
        shape = (self.num_rows, padding.width) if buckets is None else (self.num_rows, groups, padding.width)
        gains = None if entries.gains is None else padding.place(entries.gains[order], 0.0).view(shape)
        ranks = padding.place(above[order] + 1, NOT_RANKED).view(shape)
        hits = Hits(ranks, padding.place(entries.ids[order], -1).view(shape), gains)
        rest = RelevantLabels(targets, buckets), sizes, num_labels, EVERYTHING, num_labels
        plain = TargetRanks(lambda: hits, *rest)
        plain.binary = targets.binary
        equal = padding.place(equal[order], 1).view(shape)
        found = ReferenceRanks(plain, (ranks - 1).clamp(max=NOT_RANKED), equal, shown)
        if self.reference == "chance" and targets.binary:
            found.alike = Alike(found, whole, shown)
        return found

    def _listed_of_targets(self, entries: Entries, keys: Tensor, buckets: LabelBuckets, depth: int) -> Tensor:
        """Return how many labels of each bucket stand in lists of the relevant labels and, behind them, others by id.

        With n relevant labels, r_0 < r_1 … by id, the others shown are the first depth - n ids that are none of them:
        those below t = depth - n + j, where j counts the i with r_i - i < depth - n.
        """
        device, groups = keys.device, len(buckets)
        order = entries.ids.argsort(stable=True)
        order = order[entries.rows[order].argsort(stable=True)]
        rows, ids, keys = entries.rows[order], entries.ids[order], keys[order]
        n = torch.zeros(self.num_rows, dtype=torch.int64, device=device).scatter_add_(0, rows, torch.ones_like(rows))
        number = torch.arange(len(rows), device=device) - (n.cumsum(0) - n)[rows]
        others = (depth - n).clamp(min=0)
        before = torch.zeros_like(n).scatter_add_(0, rows, (ids - number < others[rows]).to(torch.int64))
        end = others + before
        by_id: Tensor = buckets.kept(("by id", device), lambda: _labels_before(buckets).to(device))
        relevant = torch.zeros(self.num_rows * groups, dtype=torch.int64, device=device)
        relevant.scatter_add_(0, keys, (ids >= end[rows]).to(torch.int64))
        return by_id[end.clamp(max=len(by_id) - 1)] + relevant.view(self.num_rows, groups)

    def _standing(
        self,
        entries: Entries,
        among: Tensor,
        sizes: Tensor,
        buckets: LabelBuckets | None,
        scope: Scope | None,
        depth: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return how many labels score more than each entry, how many the same, and whether it is within ``depth``."""
        read = torch.ones_like(entries.ids, dtype=torch.bool)
        if self.reference == "chance":
            return torch.zeros_like(entries.ids), sizes, read
        if self.reference == "popularity":
            assert self.counts is not None
            whole = self.counts.above(None, entries.ids.device)
            own = whole if scope != "bucket" else self.counts.above(buckets, entries.ids.device)
            ids = entries.ids.clamp(min=0)
            return own[0][ids], own[1][ids], whole[0][ids] < depth if scope == "bucket" else read
        gains = torch.ones_like(entries.ids, dtype=torch.float64) if entries.gains is None else entries.gains
        above, tied = counts_among(torch.where(entries.ids >= 0, gains, 0.0), among)
        return above, tied + 1, read


class ReferenceRanks(ExpectedRanks):
    """Target ranks of a reference; within buckets of a list that is cut, for lists of each length there may be.

    With every order of all labels alike, the first D of L labels show m of the G labels of a bucket with the chance of
    the hypergeometric distribution, and these m in any order.

    Args:
        lengths: Shape (G, D + 1): the chance that 0 … D labels of a bucket are shown; None where all are.
    """

    _most_shown = EVERYTHING
    alike: Alike | None = None
    """What rows are alike; None where their values depend on which labels are relevant."""

    def __init__(self, ranks: TargetRanks, above: Tensor, equal: Tensor, lengths: Tensor | None) -> None:
        super().__init__(ranks, above, equal)
        self._lengths = lengths

    def shown(self, k: Cutoff) -> int | Tensor:
        """Return how many places of a list are read for ``k``: no more than it shows."""
        numbers = self.cutoffs(k)
        return min(numbers, self._most_shown) if isinstance(numbers, int) else numbers.clamp(max=self._most_shown)

    def mean_of(self, value: Callable[[ReferenceRanks], Tensor], ks: tuple[int, ...]) -> Tensor:
        """Return the mean of a ``value`` of ranks, shape (K, ...), over the lengths of lists.

        Args:
            value: Reads ranks at cut-offs.
            ks: These cut-offs.
        """
        if self._lengths is None:
            return value(self)
        # lists longer than what is read are alike
        deepest = min(max(ks), self._lengths.shape[1] - 1)
        chances = torch.cat([self._lengths[:, :deepest], self._lengths[:, deepest:].sum(dim=1, keepdim=True)], dim=1)
        likely = (chances.amax(dim=0) > NEGLIGIBLE).nonzero()[:, 0].tolist()
        terms = [value(self._of_length(m)).to(chances.dtype) * chances[:, m] for m in likely]
        return ordered_sum(torch.stack(terms, dim=-1))

    def _of_length(self, most: int) -> ReferenceRanks:
        """Return the ranks in lists that show no more than ``most`` labels of a bucket."""
        ranks = copy(self)
        ranks._memo, ranks._most_shown, ranks.length = {}, most, self.length.clamp(max=most)
        return ranks


@dataclass(eq=False)
class OfKinds:
    """The values of one metric by chance, of each kind of row that it has seen.

    Attributes:
        places: The place of each kind among the values.
        values: Shape (K, number of kinds).
    """

    places: dict[tuple[int, ...], int] = field(default_factory=dict)
    values: Tensor | None = None


class Alike:
    """Rows, or rows and buckets, that chance treats alike: those with as many relevant labels of lists as long.

    Args:
        ranks: Those of all rows by chance, gains being 1.
        sizes: Shape (...): how many labels there are, of the bucket or in all.
        shown: Shape (G, D + 1), as for :class:`ReferenceRanks`.
    """

    def __init__(self, ranks: ReferenceRanks, sizes: Tensor, shown: Tensor | None) -> None:
        n = ranks.n_relevant
        bucket = torch.arange(n.shape[-1], device=n.device).expand(n.shape) if n.ndim > 1 else torch.zeros_like(n)
        kinds = [kind.reshape(-1) for kind in (n, bucket, sizes.expand(n.shape), ranks.length.expand(n.shape))]
        which = torch.zeros_like(kinds[0])
        for kind in kinds:  # numbered anew each time: numbers stay small, and ``unique`` of rows takes 50 times as long
            which = torch.unique(which * (kind.max() + 1) + kind if len(kind) else kind, return_inverse=True)[1]
        place = which.new_zeros(int(which.max()) + 1 if len(which) else 0)
        place.scatter_(0, which, torch.arange(len(which), device=n.device))
        self._kinds = torch.stack(kinds, dim=-1)[place]
        self._which, self._shown = which.view(n.shape), shown
        self._rest = ranks.relevant, ranks.num_labels, ranks.deepest

    def mean_of(self, value: Callable[[ReferenceRanks], Tensor], ks: tuple[int, ...], known: OfKinds) -> Tensor:
        """Return the mean of a ``value`` as :meth:`ReferenceRanks.mean_of`; ``known`` keeps those of former batches."""
        kinds = [tuple(kind) for kind in self._kinds.tolist()]
        if not kinds:
            return torch.zeros(len(ks), *self._which.shape, dtype=real_dtype(self._which.device))
        new = [place for place, kind in enumerate(kinds) if kind not in known.places]
        if new:
            values = self._one_of_each(self._kinds[new]).mean_of(value, ks)
            known.places |= {kinds[place]: len(known.places) + number for number, place in enumerate(new)}
            known.values = values if known.values is None else torch.cat([known.values, values], dim=1)
        assert known.values is not None
        places = torch.tensor([known.places[kind] for kind in kinds], device=self._which.device)
        return known.values[:, places[self._which]]

    def _one_of_each(self, kinds: Tensor) -> ReferenceRanks:
        """Return one row for each kind."""
        n, bucket, size, length = kinds.unbind(1)
        relevant, num_labels, deepest = self._rest
        place = torch.arange(max(1, int(n.max())), device=n.device)
        listed = place < n[:, None]
        hits = Hits(torch.where(listed, 1, NOT_RANKED), torch.where(listed, place, -1), None)
        plain = TargetRanks(lambda: hits, relevant, length, num_labels, EVERYTHING, deepest)
        plain.n_relevant = n
        lengths = None if self._shown is None else self._shown[bucket]
        return ReferenceRanks(plain, torch.zeros_like(hits.ranks), size[:, None].expand(hits.ranks.shape), lengths)


def _shown_of_buckets(sizes: tuple[int, ...], num_labels: int, depth: int) -> Tensor:
    """Return the chance that the first ``depth`` of all labels show 0 … ``depth`` of each bucket, (G, depth + 1).

    Hypergeometric: from one number m to the next, (G - m)(D - m) / ((m + 1)(L - G - D + m + 1)) times the chance,
    from the most likely number on in both directions.
    """
    table = torch.zeros(len(sizes), depth + 1, dtype=torch.float64)
    for bucket, size in enumerate(sizes):
        low, high = max(0, depth + size - num_labels), min(depth, size)
        mode = min(max((depth + 1) * (size + 1) // (num_labels + 2), low), high)
        chances = {mode: 1.0}
        for m in range(mode, high):
            chances[m + 1] = chances[m] * (size - m) * (depth - m) / ((m + 1) * (num_labels - size - depth + m + 1))
        for m in range(mode, low, -1):
            chances[m - 1] = chances[m] * m * (num_labels - size - depth + m) / ((size - m + 1) * (depth - m + 1))
        numbers = torch.tensor(sorted(chances))
        found = torch.tensor([chances[m] for m in sorted(chances)], dtype=torch.float64)
        table[bucket, numbers] = found / found.sum()
    return table


def _labels_before(buckets: LabelBuckets) -> Tensor:
    """Return how many labels of each bucket have a lower id than 0 … L, shape (L + 1, G), int64."""
    return F.pad(F.one_hot(buckets.assignment, len(buckets)).cumsum(0), (0, 0, 1, 0))


class RankedCounts:
    """Training counts as scores of all labels. What takes a pass over the labels is done once, not for each batch.

    Args:
        counts: Shape (L,), int64.
    """

    def __init__(self, counts: Tensor) -> None:
        self._counts = counts.cpu()
        self._known: dict[tuple[object, ...], Tensor] = {}

    def above(self, buckets: LabelBuckets | None, device: torch.device) -> Tensor:
        """Return how many labels occur more often than each label, and how many as often, shape (2, L)."""
        key = "above", None if buckets is None else buckets.digest, device
        if key not in self._known:
            counts = self._counts
            above, tied = counts_among(counts, torch.zeros_like(counts) if buckets is None else buckets.assignment)
            self._known[key] = torch.stack([above, tied + 1]).to(device)
        return self._known[key]

    def listed(self, buckets: LabelBuckets, depth: int, device: torch.device) -> Tensor:
        """Return how many labels of each bucket are among the ``depth`` most frequent ones, shape (G,)."""
        key = "listed", buckets.digest, depth, device
        if key not in self._known:
            first = self._counts.argsort(descending=True, stable=True)[:depth]
            self._known[key] = torch.bincount(buckets.assignment[first], minlength=len(buckets)).to(device)
        return self._known[key]
