"""References without a model: rankings at random, by popularity, and the best one.

A reference is a ranking of the rows of a batch, with the same relevant labels. It has
no lists of all labels, but the ranks of the relevant labels, so that a batch costs the
number of relevant labels, not the number of labels. A metric reads it with its own
``min_gain``, scope and depth, as the mean over all orders of equal scores.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

import torch
from torch import Tensor
from typing_extensions import Self

from tailmetrics.buckets import LabelBuckets, digest_of_buckets, number_of_buckets
from tailmetrics.metrics._formulas import Formula
from tailmetrics.metrics._readings import Ranks
from tailmetrics.metrics._spans import View
from tailmetrics.metrics._ties import AnyOrder, CutSpan, ExpectedRanks, Spans
from tailmetrics.ranking import EVERYTHING, NOT_RANKED, Ranking, TargetRanks
from tailmetrics.ranking._device import real_dtype
from tailmetrics.ranking._hits import Hits, LabelWeights, Padding
from tailmetrics.ranking._kernels import RelevantLabels
from tailmetrics.ranking._once import whole_numbers
from tailmetrics.ranking._orders import along_rows, neighbours, order_by_key

Reference: TypeAlias = Literal["chance", "popularity", "attainable"]

REFERENCES: Final[tuple[Reference, ...]] = ("chance", "popularity", "attainable")


@dataclass(frozen=True, eq=False)
class ReferenceRanking(Ranking):
    """The rows of a batch ranked by a reference.

    Attributes:
        lists: The ranking of the model, whose rows these are.
    """

    lists: Ranking | None = field(repr=False, default=None)

    @classmethod
    def for_rows(cls, lists: Ranking, num_labels: int, **own: Any) -> Self:
        """Return the rows of a ranking as the reference ranks them."""
        return cls(
            ids=lists.ids[:, :0],
            values=None,
            complete=True,
            repeated=None,
            scores=None,
            distinct=False,
            filled=False,
            targets=lists.targets,
            num_labels=None if lists.documents is not None else num_labels,
            rows=lists.rows,
            documents=lists.documents,
            lists=lists,
            **own,
        )

    def read(self, view: View, formula: Formula) -> TargetRanks:
        """Return the ranks of the relevant labels that a formula reads."""
        return self.remembered(("reference", *view.key), lambda: self._ranks(view))

    @abstractmethod
    def _ranks(self, view: View) -> TargetRanks:
        """Return the ranks of the relevant labels."""

    def _sizes(self, view: View) -> Tensor:
        """Return how many labels each row ranks, (N,), or row and bucket, (N, G)."""
        device = self.targets.device
        if view.buckets_with_lists is not None:
            return view.buckets_with_lists.label_counts.to(device).expand(
                self.num_rows, -1
            )

        if self.documents is not None:
            row_sizes = self.documents
        else:
            row_sizes = torch.full(
                (self.num_rows,), self._known_num_labels, device=device
            )
        if view.buckets is None:
            return row_sizes
        return row_sizes[:, None].expand(-1, len(view.buckets))

    @property
    def _known_num_labels(self) -> int:
        """The largest number of labels in a row."""
        if self.documents is not None:
            if self.num_rows:
                return int(self.documents.max())
            return 0
        assert self.num_labels is not None
        return self.num_labels

    def _placed(
        self,
        buckets: LabelBuckets | None,
        above: Tensor,
        listed: Tensor,
        lengths: Tensor,
    ) -> tuple[TargetRanks, Padding]:
        """Return the target ranks of relevant labels, and their padding.

        The padding puts values of labels at the places of these ranks.

        Args:
            buckets: G buckets, or None.
            above: Shape (T,): how many labels stand before each relevant label.
            listed: Shape (T,), bool: whether the label is in the list.
            lengths: Lengths of the lists, shape (N,) or (N, G).
        """
        targets, entries = self.targets, self.targets.entries
        shape: tuple[int, ...] = (self.num_rows,)
        if buckets is not None:
            shape = (self.num_rows, len(buckets))
        void_key = self.num_rows * number_of_buckets(buckets)
        keys = torch.where(listed, targets.keys(buckets), void_key)
        padding = targets.kernels.padding(
            keys, shape, entries.width, above.argsort(stable=True)
        )
        ranks = TargetRanks(
            padding.hits(above + 1, entries.ids, entries.gains),
            RelevantLabels(targets, buckets),
            lengths,
            num_labels=self.num_labels,
            max_k=EVERYTHING,
            deepest=self._known_num_labels,
            documents=self.documents,
        )
        return ranks, padding

    def _with_ties(
        self,
        buckets: LabelBuckets | None,
        above: Tensor,
        equal: Tensor,
        listed: Tensor,
        lengths: Tensor,
        cut: CutSpan | None,
    ) -> ExpectedRanks:
        """Return the target ranks of labels with equal scores.

        ``equal`` is the number of labels that have the score of each label.
        """
        ranks, padding = self._placed(buckets, above, listed, lengths)
        spans = Spans(
            ranks, above=ranks.hits.ranks - 1, equal=padding.place(equal, 1), cut=cut
        )
        return ExpectedRanks(spans)


@dataclass(frozen=True, eq=False)
class ChanceRanking(ReferenceRanking):
    """All labels have the same score: every order of them is equally likely."""

    def read(self, view: View, formula: Formula) -> TargetRanks:
        """Return the ranks of the relevant labels.

        Return only their numbers if the value of a row depends on nothing else.
        """
        if formula.reads_counts_alone and self.targets.binary:
            return self.remembered(
                ("row counts", *view.key), lambda: self._row_counts(view)
            )
        return super().read(view, formula)

    def _ranks(self, view: View) -> TargetRanks:
        ids, sizes = self.targets.entries.ids, self._sizes(view)
        above = torch.zeros_like(ids)
        last_row = max(0, sizes.numel() - 1)
        equal = sizes.reshape(-1)[self.targets.keys(view.buckets).clamp(max=last_row)]
        listed = torch.ones_like(ids, dtype=torch.bool)
        return self._with_ties(
            view.buckets, above, equal, listed, sizes, self._cut(view, sizes)
        )

    def _row_counts(self, view: View) -> RowCounts:
        relevant, sizes = RelevantLabels(self.targets, view.buckets), self._sizes(view)
        return RowCounts(
            relevant, sizes, self._cut(view, sizes), self.documents is not None
        )

    def _cut(self, view: View, sizes: Tensor) -> CutSpan | None:
        """Return among how many equal labels a list of ``depth`` labels ends.

        None if lists hold all labels, or if buckets have no lists of their own.
        """
        if view.buckets_with_lists is None or view.depth >= self._known_num_labels:
            return None
        num_labels = sizes.sum(dim=1, keepdim=True)
        return CutSpan(
            above=torch.zeros_like(sizes),
            equal=sizes,
            all_equal=num_labels.expand(sizes.shape),
            listed=torch.full_like(sizes, view.depth),
        )


@dataclass(frozen=True, eq=False)
class PopularityRanking(ReferenceRanking):
    """The training count of a label is its score.

    Attributes:
        counts: Training counts.
    """

    counts: RankedCounts | None = field(repr=False, default=None)

    def _ranks(self, view: View) -> TargetRanks:
        counts, ids, sizes = self.counts, self.targets.entries.ids, self._sizes(view)
        assert counts is not None
        buckets, cut = view.buckets_with_lists, None
        listed = torch.ones_like(ids, dtype=torch.bool)
        if buckets is not None and view.depth < self._known_num_labels:
            above_in_all, _ = counts.of_labels(None, ids)
            listed = above_in_all < view.depth
            cut = counts.cut(buckets, view.depth, sizes)
        above, equal = counts.of_labels(buckets, ids)
        return self._with_ties(view.buckets, above, equal, listed, sizes, cut)


@dataclass(frozen=True, eq=False)
class AttainableRanking(ReferenceRanking):
    """The best list: the relevant labels come first, by descending worth.

    The worth of a label is its gain, or its weight for a metric that weighs labels. In
    a bucket the list begins with the relevant labels of this bucket. It is as long as
    the list of the model, or as long as it must be to hold the relevant labels.
    """

    def read(self, view: View, formula: Formula) -> TargetRanks:
        """Return the ranks of the relevant labels.

        For a formula that reads one rank, any relevant label may stand there.
        """
        if formula.reads_one_rank:
            return self.remembered(
                ("any rank", *view.key), lambda: self._any_rank(view)
            )
        weights = formula.weights
        digest = None
        if weights is not None:
            digest = weights.digest
        return self.remembered(
            ("attainable", digest, *view.key), lambda: self._ranks(view, weights)
        )

    def _ranks(self, view: View, weights: LabelWeights | None = None) -> TargetRanks:
        place = place_by_worth(self._worth(weights), self.targets.keys(view.buckets))
        listed = torch.ones_like(place, dtype=torch.bool)
        if view.buckets_with_lists is not None:
            listed = place < view.depth
        ranks, _ = self._placed(view.buckets, place, listed, self._lengths(view))
        return ranks

    def _worth(self, weights: LabelWeights | None) -> Tensor:
        """Return the worth of each relevant label, shape (T,)."""
        entries = self.targets.entries
        if weights is not None:
            return weights.on(entries.ids.device)[entries.ids.clamp(min=0)]
        if entries.gains is not None:
            return entries.gains
        return torch.ones_like(entries.ids, dtype=real_dtype(entries.ids.device))

    def _any_rank(self, view: View) -> TargetRanks:
        """Return ranks at which any relevant label may stand, in the best list."""
        ids, lengths = self.targets.entries.ids, self._lengths(view)
        listed = torch.ones_like(ids, dtype=torch.bool)
        ranks, _ = self._placed(view.buckets, torch.zeros_like(ids), listed, lengths)
        above = torch.zeros_like(ranks.hits.ranks)
        equal = lengths.unsqueeze(-1).expand(above.shape)
        return AnyOrder(Spans(ranks, above, equal), every=False)

    def _lengths(self, view: View) -> Tensor:
        """Return the length of each best list, (N,), or by row and bucket, (N, G)."""
        lists, n = self.lists, RelevantLabels(self.targets, view.buckets).n
        assert lists is not None
        buckets = view.buckets_with_lists
        if buckets is None:
            list_lengths = along_rows(lists.length, n.ndim).expand(n.shape)
            return torch.maximum(list_lengths, n)
        key = ("lengths by bucket", *view.key)
        bucket_lengths = lists.remembered(
            key, lambda: buckets.totals(lists.ids[:, : view.depth])
        )
        return torch.maximum(bucket_lengths, n.clamp(max=view.depth))


def place_by_worth(worth: Tensor, keys: Tensor) -> Tensor:
    """Return the place of each relevant label among the labels of its key, from 0.

    Labels and keys have the shape (T,), and the largest worth comes first. Of labels of
    equal worth any order has the same value.
    """
    order = order_by_key(keys, worth.argsort(descending=True, stable=True))
    keys_in_order = keys[order]
    first_of_key = torch.searchsorted(keys_in_order, keys_in_order)
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device=order.device) - first_of_key
    return place


class RowCounts(TargetRanks):
    """The numbers of relevant and of ranked labels of each row, or row and bucket.

    All labels tie, so the value of a row depends on these two numbers alone. It is
    computed once for each pair of them.

    Args:
        relevant: The relevant labels; all gains are 1.
        sizes: Shape (N,) or (N, G): how many labels are ranked.
        cut: The number of labels of a bucket that a list holds; None if it holds all.
        are_documents: Whether the labels of a row are the documents of a query.

    Attributes:
        pairs: The distinct pairs of numbers.
        pair_of_row: The index in ``pairs`` of each row, or of each row and bucket.
    """

    def __init__(
        self,
        relevant: RelevantLabels,
        sizes: Tensor,
        cut: CutSpan | None,
        are_documents: bool,
    ) -> None:
        self.relevant = relevant
        self._memo = {}
        self._cut = cut
        self._are_documents = are_documents

        # one number for each pair: ``unique`` of pairs takes 50 times as long
        n, sizes = relevant.n.reshape(-1), sizes.reshape(-1)
        base = 1
        if len(sizes):
            base = 1 + int(sizes.max())
        codes, pair_of_row = torch.unique(n * base + sizes, return_inverse=True)
        rows = whole_numbers(len(n), n.device)
        self._row_of_pair = torch.zeros_like(codes).scatter_(0, pair_of_row, rows)
        self.pairs: list[tuple[int, int]] = [
            divmod(code, base) for code in codes.tolist()
        ]
        self.pair_of_row = pair_of_row.view(relevant.n.shape)

    @property
    def with_hits(self) -> None:
        """None: these are the counts of all rows."""

    def ranks_of(self, numbers: list[int]) -> ExpectedRanks:
        """Return the ranks of one row for each of the numbered ``pairs``.

        All labels tie: each relevant label has rank 1, and its span is the whole list.
        """
        device = self.pair_of_row.device
        pairs = [self.pairs[number] for number in numbers]
        n, sizes = torch.tensor(pairs, device=device).unbind(1)
        is_relevant = whole_numbers(max(1, int(n.max())), device) < n[:, None]
        first_rank = torch.ones_like(n)[:, None]
        no_id = torch.full_like(n, -1)[:, None]
        hits = Hits(
            ranks=torch.where(is_relevant, first_rank, NOT_RANKED),
            ids=torch.where(is_relevant, 0, no_id),
            gains=None,
        )
        largest = int(sizes.max())
        num_labels: int | None = largest
        documents: Tensor | None = None
        if self._are_documents:
            num_labels, documents = None, sizes
        ranks = TargetRanks(
            hits,
            self.relevant,
            sizes,
            num_labels=num_labels,
            max_k=EVERYTHING,
            deepest=largest,
            documents=documents,
        )
        ranks.n_relevant = n
        equal = sizes[:, None].expand(is_relevant.shape)
        return ExpectedRanks(
            Spans(ranks, torch.zeros_like(equal), equal, self._cut_of(numbers))
        )

    def _cut_of(self, numbers: list[int]) -> CutSpan | None:
        """Return the cut of one row for each of some ``pairs``, given their numbers."""
        cut = self._cut
        if cut is None:
            return None
        rows = self._row_of_pair[numbers]
        return CutSpan(
            above=cut.above.reshape(-1)[rows],
            equal=cut.equal.reshape(-1)[rows],
            all_equal=cut.all_equal.reshape(-1)[rows],
            listed=cut.listed.reshape(-1)[rows],
        )


class ReferenceRanks(Ranks):
    """The ranks of the relevant labels in the ranking of a reference.

    Args:
        reading: The reading of a metric, whose arguments hold here, too.
    """

    def __init__(self, reading: Ranks) -> None:
        cutoffs = reading.cutoffs if len(reading.cutoffs) > 1 else reading.cutoffs[0]
        super().__init__(
            reading.caller,
            cutoffs,
            reading.formula,
            reading.by_bucket,
            min_gain=reading.min_gain,
            scope=reading.scope,
            depth=reading.depth,
            ties="expected",
        )
        self.formula, self.buckets, self.num_labels = (
            reading.formula,
            reading.buckets,
            reading.num_labels,
        )
        self.num_buckets = reading.num_buckets
        self._number_of_pair: dict[tuple[int, int], int] = {}
        self._chance_values: Tensor | None = None

    def read(self, ranking: Ranking) -> TargetRanks:
        """Return the ranks of the relevant labels."""
        relevant = self.relevant(ranking)
        assert isinstance(relevant, ReferenceRanking)
        return relevant.read(self.view, self.formula)

    def values(self, ranking: Ranking, ranks: TargetRanks) -> Tensor:
        """Return the formula's value of each row.

        This is the mean over all orders of equal scores.
        """
        if isinstance(ranks, RowCounts):
            return self._values_by_counts(ranks)
        return super().values(ranking, ranks)

    def _values_by_counts(self, rows: RowCounts) -> Tensor:
        """Return the values of rows, keeping the values of each pair of counts."""
        device = rows.pair_of_row.device
        if not rows.pairs:
            return torch.zeros(
                len(self.ks),
                *rows.pair_of_row.shape,
                dtype=real_dtype(device),
                device=device,
            )

        new_pairs = [
            number
            for number, pair in enumerate(rows.pairs)
            if pair not in self._number_of_pair
        ]
        if new_pairs:
            values = super().values(rows, rows.ranks_of(new_pairs))  # type: ignore[arg-type] # reads ranks alone
            if self._chance_values is not None:
                values = torch.cat([self._chance_values, values], dim=1)
            self._chance_values = values
            for number in new_pairs:
                self._number_of_pair[rows.pairs[number]] = len(self._number_of_pair)

        assert self._chance_values is not None
        column_of_pair = torch.tensor(
            [self._number_of_pair[pair] for pair in rows.pairs], device=device
        )
        return self._chance_values[:, column_of_pair[rows.pair_of_row]]


class RankedCounts:
    """Training counts as scores of all labels.

    Each pass over the labels is made once, not for each batch.

    Args:
        counts: Shape (L,), int64.
    """

    def __init__(self, counts: Tensor) -> None:
        self.counts = counts.cpu()
        self._tables: dict[tuple[object, ...], Tensor] = {}

    def of_labels(
        self, buckets: LabelBuckets | None, ids: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return how many labels have a larger count, and how many an equal one.

        Both are for labels (T,), and count the labels of the same bucket. The second
        number includes the label itself.
        """
        key = ("above", digest_of_buckets(buckets), ids.device)
        if key not in self._tables:
            groups = torch.zeros_like(self.counts)
            if buckets is not None:
                groups = buckets.assignment
            above, tied = counts_above_and_tied(self.counts, groups)
            self._tables[key] = torch.stack([above, tied + 1]).to(ids.device)
        above, equal = self._tables[key][:, ids.clamp(min=0)]
        return above, equal

    def cut(self, buckets: LabelBuckets, depth: int, sizes: Tensor) -> CutSpan:
        """Return the equal counts among which lists of ``depth`` labels end.

        They are by row and bucket, in the shape of ``sizes``.
        """
        key = ("cut", buckets.digest, depth, sizes.device)
        if key not in self._tables:
            last_count = self.counts.sort(descending=True).values[depth - 1]
            totals = []
            for labels in (self.counts > last_count, self.counts == last_count):
                totals.append(
                    torch.bincount(buckets.assignment[labels], minlength=len(buckets))
                )
            self._tables[key] = torch.stack(totals).to(sizes.device)
        bucket_above, bucket_equal = self._tables[key]
        above, equal = (
            bucket_above.expand(sizes.shape),
            bucket_equal.expand(sizes.shape),
        )
        all_above, all_equal = (
            above.sum(dim=1, keepdim=True),
            equal.sum(dim=1, keepdim=True),
        )
        return CutSpan(above, equal, all_equal, listed=depth - all_above)


def counts_above_and_tied(scores: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
    """Return how many other scores are larger, and how many are equal.

    Both are for each of the scores (T,), and count the scores of its group (T,).
    """
    order = order_by_key(groups, scores.argsort(descending=True, stable=True))
    score, group = scores[order], groups[order]

    # a run is one score of one group; its places go from ``first`` to before ``end``
    previous_score, next_score = neighbours(score)
    previous_group, next_group = neighbours(group)
    begins_run = (next_group != previous_group) | (next_score != previous_score)
    run = torch.zeros_like(group)
    run[1:] = begins_run.cumsum(0)
    first = torch.searchsorted(run, run)
    end = torch.searchsorted(run, run, right=True)
    first_of_group = torch.searchsorted(group, group)

    above, tied = torch.empty_like(order), torch.empty_like(order)
    above[order] = first - first_of_group
    tied[order] = end - first - 1
    return above, tied
