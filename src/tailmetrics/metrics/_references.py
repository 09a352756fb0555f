"""References without a model, on the same rows: a random ranking, a ranking by popularity, and the best possible one.

A reference gives each label a score: the same score (chance) or its training count (popularity). Values are means over
all orders of equal scores. What is attainable is the value of the best list: it begins with the relevant labels, those
of the largest gain first, or of the largest weight, for a metric that weighs labels. In a bucket it begins with the
relevant labels of this bucket, so that no list has a better value there. It is as long as the list of the row, or as
long as it must be to hold the relevant labels. The time for a batch depends on the number of relevant labels, not on
the number of labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

import torch
from torch import Tensor

from tailmetrics.buckets import LabelBuckets
from tailmetrics.metrics._ties import AnyOrder, CutSpan, ExpectedRanks
from tailmetrics.ranking import EVERYTHING, NOT_RANKED, Ranking, TargetRanks
from tailmetrics.ranking._device import real_dtype
from tailmetrics.ranking._hits import Entries, Hits, LabelWeights
from tailmetrics.ranking._ranking import Scope
from tailmetrics.ranking._reading import Lists
from tailmetrics.ranking._target_ranks import RelevantLabels

Reference: TypeAlias = Literal["chance", "popularity", "attainable"]

REFERENCES: Final[tuple[Reference, ...]] = ("chance", "popularity", "attainable")


@dataclass(frozen=True, eq=False)
class ReferenceRanking(Ranking):
    """The rows of a batch ranked by a reference: there are no lists, only ranks of the relevant labels.

    Attributes:
        reference: Name of the reference.
        lists: The ranking whose rows these are.
        counts: Training counts, for popularity.
        shared: What references of one batch share.
    """

    reference: Reference = "chance"
    lists: Ranking | None = field(repr=False, default=None)
    counts: RankedCounts | None = field(repr=False, default=None)
    shared: dict[object, RanksByCounts] = field(repr=False, default_factory=dict)

    @classmethod
    def of_rows(
        cls, ranking: Ranking, reference: Reference, num_labels: int, counts: RankedCounts | None
    ) -> ReferenceRanking:
        """Return the rows of a ranking of ``num_labels`` labels as a reference ranks them."""
        rows = ranking.targets, num_labels, ranking.rows, ranking.documents
        shared = ranking.remembered("shared by references", dict[object, RanksByCounts])
        more: dict[str, Any] = {"reference": reference, "lists": ranking, "counts": counts, "shared": shared}
        return cls(*Lists(ranking.ids[:, :0], None, True), *rows, **more)

    def ranks(
        self, buckets: LabelBuckets | None, scope: Scope, depth: int, weights: LabelWeights | None = None
    ) -> ExpectedRanks:
        """Return the ranks of the relevant labels, with the arguments of :meth:`Ranking.by_bucket`.

        If the metric weighs labels, ``weights`` are its weights.
        """
        weights = weights if self.reference == "attainable" else None
        key = ("reference", None if buckets is None else buckets.digest, scope, depth, weights and weights.digest)
        return self.remembered(key, lambda: self._ranks(buckets, scope, depth, weights))

    def at_any_rank(self, buckets: LabelBuckets | None, scope: Scope, depth: int) -> AnyOrder:
        """Return ranks for a formula of one rank: a ranking can have a relevant label there if the list is so long."""
        chance = replace(self, reference="chance").ranks(buckets, scope, depth)
        return AnyOrder(chance, chance.above, chance.equal, chance.cut, every=False)

    def by_counts(self, buckets: LabelBuckets | None, scope: Scope, depth: int) -> RanksByCounts | None:
        """Return the ranks grouped by counts of labels; None if a row's value depends on more than these counts."""
        if self.reference == "popularity" or not self.targets.binary:
            return None
        attainable = self.reference == "attainable"
        key = attainable, None if buckets is None else buckets.digest, scope, depth if attainable else 0
        if key not in self.shared:
            relevant = RelevantLabels(self.targets, buckets)
            counts = self.sizes(buckets, scope) if not attainable else self.lengths(buckets, scope, depth, relevant.n)
            self.shared[key] = RanksByCounts(relevant, counts)
        return self.shared[key]

    def lengths(self, buckets: LabelBuckets | None, scope: Scope, depth: int, n: Tensor) -> Tensor:
        """Return the length of the best list of each row, (N,), or of each row and bucket, (N, G).

        ``n`` is the number of relevant labels, in the same shape.
        """
        lists = self.lists
        assert lists is not None
        if buckets is None or scope == "global":
            own, most = lists.length if buckets is None else lists.length[:, None], EVERYTHING
        else:
            key = ("lengths by bucket", buckets.digest, depth)
            own, most = lists.remembered(key, lambda: buckets.totals(lists.ids[:, :depth])), depth
        return torch.maximum(own.expand(n.shape), n.clamp(max=most))

    def sizes(self, buckets: LabelBuckets | None, scope: Scope) -> Tensor:
        """Return how many labels are ranked in each row, (N,), or in each row and bucket, (N, G)."""
        device, num_labels = self.targets.device, self.num_labels
        assert num_labels is not None
        if buckets is not None and scope == "bucket":
            return buckets.label_counts.to(device).expand(self.num_rows, -1)
        of_row = torch.full((self.num_rows,), num_labels, device=device) if self.documents is None else self.documents
        return of_row if buckets is None else of_row[:, None].expand(-1, len(buckets))

    def _ranks(
        self, buckets: LabelBuckets | None, scope: Scope, depth: int, weights: LabelWeights | None
    ) -> ExpectedRanks:
        targets, entries = self.targets, self.targets.entries
        worth = entries.gains
        if weights is not None:
            worth = weights.on(entries.ids.device)[entries.ids.clamp(min=0)]
        worth = torch.ones_like(entries.ids, dtype=torch.float64) if worth is None else worth
        num_labels = self.num_labels
        assert num_labels is not None
        groups = 1 if buckets is None else len(buckets)
        bucket = torch.zeros_like(entries.ids) if buckets is None else buckets.of(entries.ids)
        keys = entries.rows * groups + bucket
        sizes, relevant = self.sizes(buckets, scope), RelevantLabels(targets, buckets)
        within, cut = (None if scope != "bucket" else buckets), None
        if self.reference == "attainable":
            of_labels = keys.masked_fill(entries.ids < 0, self.num_rows * groups)
            above, equal = place_by_worth(worth, of_labels), torch.ones_like(keys)
            sizes = self.lengths(buckets, scope, depth, relevant.n)
            keys = keys if within is None else torch.where(above < depth, keys, self.num_rows * groups)
        else:
            above, equal = self._standing(entries, sizes, keys, within)
        if within is not None and depth < num_labels and self.reference != "attainable":
            of_row = self.sizes(None, scope)
            above_in_all, _ = self._standing(entries, of_row, entries.rows, None)
            cut = self._cut(within, depth, relevant.n.shape)
            keys = torch.where(above_in_all < depth, keys, self.num_rows * groups)
        keys = torch.where(entries.ids >= 0, keys, self.num_rows * groups)
        shape = (self.num_rows,) if buckets is None else (self.num_rows, groups)
        padding = targets.kernels.padding(keys, shape, entries.width, above.argsort(stable=True))
        hits = padding.hits(above + 1, entries.ids, entries.gains)
        plain = TargetRanks(hits, relevant, sizes, num_labels, EVERYTHING, num_labels)
        return ExpectedRanks(plain, (hits.ranks - 1).clamp(max=NOT_RANKED), padding.place(equal, 1), cut)

    def _cut(self, buckets: LabelBuckets, depth: int, shape: Sequence[int]) -> CutSpan:
        """Return the equal scores among which the lists of ``depth`` labels, fewer than all, end, by row and bucket."""
        sizes = buckets.label_counts.to(self.targets.device).expand(shape)
        above_in, equal_in = torch.zeros_like(sizes), sizes
        if self.reference == "popularity":
            assert self.counts is not None
            of_buckets = self.counts.at_depth(buckets, depth, sizes.device)
            above_in, equal_in = (side.expand(sizes.shape) for side in of_buckets)
        all_equal = equal_in.sum(dim=1, keepdim=True)
        return CutSpan(above_in, equal_in, all_equal, depth - above_in.sum(dim=1, keepdim=True))

    def _standing(
        self, entries: Entries, sizes: Tensor, keys: Tensor, buckets: LabelBuckets | None
    ) -> tuple[Tensor, Tensor]:
        """Return how many labels score higher than each entry, and how many have its score, the entry included.

        Args:
            entries: T relevant labels.
            sizes: Number of ranked labels in each row, or in each row and bucket.
            keys: Shape (T,): the index of each entry in ``sizes``.
            buckets: If given, popularity compares a label only with labels of its bucket.
        """
        if self.reference == "chance":
            return torch.zeros_like(entries.ids), sizes.reshape(-1)[keys]
        assert self.counts is not None
        above, equal = self.counts.above(buckets, entries.ids.device)
        ids = entries.ids.clamp(min=0)
        return above[ids], equal[ids]


def place_by_worth(worth: Tensor, keys: Tensor) -> Tensor:
    """Return the place, from 0, of each relevant label (T,) among those of its key (T,), of largest worth first.

    Of labels of equal worth any order has the same value.
    """
    order = worth.argsort(descending=True, stable=True)
    order = order[keys[order].argsort(stable=True)]
    ordered, place = keys[order], torch.empty_like(order)
    place[order] = torch.arange(len(order), device=order.device) - torch.searchsorted(ordered, ordered)
    return place


@dataclass(eq=False)
class ValuesByCounts:
    """The values of one metric for a reference, one for each tuple of label counts in the rows so far.

    Attributes:
        places: The index of each tuple in the last axis of ``values``.
        values: Shape (K, number of tuples); None before the first tuple.
    """

    places: dict[tuple[int, ...], int] = field(default_factory=dict)
    values: Tensor | None = None


class RanksByCounts(TargetRanks):
    """Target ranks of a reference for which a value depends only on counts, such as of relevant labels and all labels.

    Rows, or rows and buckets, with the same counts have the same value, so the value is computed once for each tuple of
    counts. All gains are 1.

    Args:
        relevant: The relevant labels.
        counts: Shape (N,) or (N, G): how many labels are ranked, on which the value depends, too.
    """

    def __init__(self, relevant: RelevantLabels, counts: Tensor) -> None:
        self.relevant, self._memo = relevant, {}
        n = relevant.n
        columns = [count.expand(n.shape).reshape(-1) for count in (n, counts)]
        which = torch.zeros_like(columns[0])
        # column by column, with small numbers in place of tuples: ``unique`` of rows takes 50 times as long
        for column in columns:
            if len(column) and column.max() > column.min():
                which = torch.unique(which * (column.max() + 1) + column, return_inverse=True)[1]
        place = which.new_zeros(int(which.max()) + 1 if len(which) else 0)
        self._places = place.scatter_(0, which, torch.arange(len(which), device=n.device))
        self._tuples = [tuple(one) for one in torch.stack(columns, dim=-1)[self._places].tolist()]
        self._which = which.view(n.shape)

    @property
    def with_hits(self) -> TargetRanks:
        """These ranks, which are of all rows."""
        return self

    def mean_by_counts(
        self,
        value: Callable[[ExpectedRanks], Tensor],
        ks: tuple[int, ...],
        known: ValuesByCounts,
        all_ranks: Callable[[], ExpectedRanks],
    ) -> Tensor:
        """Return the mean of a ``value`` as :meth:`ExpectedRanks.mean_of` does.

        Args:
            value: A function of ranks that returns the value of each row.
            ks: Cut-offs.
            known: The values for the tuples of earlier batches; values for new tuples are added.
            all_ranks: Returns the ranks of all rows; called only if a tuple is new.
        """
        if not self._tuples:
            return torch.zeros(len(ks), *self._which.shape, dtype=real_dtype(self._which.device))
        new = [place for place, one in enumerate(self._tuples) if one not in known.places]
        if new:
            values = self._some(all_ranks(), self._places[new]).mean_of(value, max(ks))
            known.places |= {self._tuples[place]: len(known.places) + number for number, place in enumerate(new)}
            known.values = values if known.values is None else torch.cat([known.values, values], dim=1)
        assert known.values is not None
        places = torch.tensor([known.places[one] for one in self._tuples], device=self._which.device)
        return known.values[:, places][:, self._which]

    def _some(self, ranks: ExpectedRanks, places: Tensor) -> ExpectedRanks:
        """Return the ranks of chosen rows, or of chosen pairs of a row and a bucket."""

        def chosen(side: Tensor) -> Tensor:
            return side.expand(self._which.shape).reshape(-1)[places]

        target_ranks, above, equal = (
            side.reshape(-1, side.shape[-1])[places] for side in (ranks.hits.ranks, ranks.above, ranks.equal)
        )
        hits = Hits(target_ranks, torch.where(target_ranks < NOT_RANKED, 0, -1), None)
        plain = TargetRanks(hits, ranks.relevant, chosen(ranks.length), ranks.num_labels, EVERYTHING, ranks.deepest)
        plain.n_relevant = chosen(ranks.n_relevant)
        cut = ranks.cut
        if cut is not None:
            cut = CutSpan(*(chosen(side) for side in (cut.above, cut.equal, cut.all_equal, cut.listed)))
        return ExpectedRanks(plain, above, equal, cut)


class RankedCounts:
    """Training counts as scores of all labels. Each pass over the labels is made once, not for each batch.

    Args:
        counts: Shape (L,), int64.
    """

    def __init__(self, counts: Tensor) -> None:
        self._counts = counts.cpu()
        self._known: dict[tuple[object, ...], Tensor] = {}

    def above(self, buckets: LabelBuckets | None, device: torch.device) -> Tensor:
        """Return per label how many labels of its bucket have a larger count, and how many an equal one, (2, L)."""
        key = "above", None if buckets is None else buckets.digest, device
        if key not in self._known:
            groups = torch.zeros_like(self._counts) if buckets is None else buckets.assignment
            above, tied = counts_above_and_tied(self._counts, groups)
            self._known[key] = torch.stack([above, tied + 1]).to(device)
        return self._known[key]

    def at_depth(self, buckets: LabelBuckets, depth: int, device: torch.device) -> Tensor:
        """Return by bucket how many labels have a larger count than the label at ``depth``, and how many an equal one.

        Shape (2, G).
        """
        key = "at depth", buckets.digest, depth, device
        if key not in self._known:
            counts, last = self._counts, self._counts.sort(descending=True).values[depth - 1]
            sides = (buckets.assignment[mask] for mask in (counts > last, counts == last))
            found = torch.stack([torch.bincount(side, minlength=len(buckets)) for side in sides])
            self._known[key] = found.to(device)
        return self._known[key]


def counts_above_and_tied(scores: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
    """Return for each of the scores (T,) how many others of its group (T,) are larger, and how many others equal it."""
    order = scores.argsort(descending=True, stable=True)
    order = order[groups[order].argsort(stable=True)]
    score, group = scores[order], groups[order]
    runs = torch.zeros_like(group)  # the number of each run of one group and one score
    runs[1:] = ((group[1:] != group[:-1]) | (score[1:] != score[:-1])).cumsum(0)
    first, end = torch.searchsorted(runs, runs), torch.searchsorted(runs, runs, right=True)
    above, tied = torch.empty_like(order), torch.empty_like(order)
    above[order], tied[order] = first - torch.searchsorted(group, group), end - first - 1
    return above, tied
