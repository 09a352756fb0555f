"""``Ranking``: a batch that is ranked once and read by every metric."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, TypeAlias, cast

import torch
from torch import Tensor

from tailmetrics._arguments import (
    LARGEST_CUTOFF,
    check_choice,
    check_count,
    check_number,
    shape_of,
)
from tailmetrics._signatures import names_unknown_keywords
from tailmetrics.buckets import LabelBuckets
from tailmetrics.ranking._all_scores import log_sum
from tailmetrics.ranking._batch import (
    OPTIONAL_ARGUMENTS,
    Batch,
    Context,
    Duplicates,
    ExplicitTarget,
)
from tailmetrics.ranking._device import real_dtype
from tailmetrics.ranking._hits import EVERYTHING, NOT_RANKED, Entries, Hits
from tailmetrics.ranking._kernels import Kernels, RelevantLabels, Targets
from tailmetrics.ranking._matrices import any_by_row
from tailmetrics.ranking._once import once
from tailmetrics.ranking._orders import along_rows
from tailmetrics.ranking._reading import PLAIN_ROWS, BatchRows, Depth, read_batch
from tailmetrics.ranking._rows import as_rows
from tailmetrics.ranking._target_ranks import TargetRanks
from tailmetrics.ranking._tensors import as_tensors
from tailmetrics.ranking._threads import one_thread
from tailmetrics.ranking._warnings import warn_of_first_batch

LARGEST_OF_LABELS = "scores are the largest of the labels of an ancestor"
"""The key under which a ranking remembers that its scores allow no softmax.

Such a ranking belongs to a level of a tree.
"""
DEFAULT_DEPTH = 500
"""The default depth to which scores are ranked."""

Scope: TypeAlias = Literal["bucket", "global"]


@dataclass(frozen=True, eq=False)
class Ranking(TargetRanks):
    """A batch of N rows, ranked once, with the relevant labels.

    It is made by :func:`rank` or the ``from_`` methods.

    Attributes:
        ids: Shape (N, K), int64: label ids, best first, -1 behind the end of a list.
        complete: Whether the lists hold all retrieved labels. True for ids and
            candidates unless the caller says otherwise; for scores, True only if all
            labels were ranked.
        num_labels: L; None if no argument tells it.
        values: The scores in the order of ``ids``, and the score of the next label if
            there is one; None for ids.
        scores: Shape (N, L): the dense scores that were ranked; None for other forms.
        targets: The relevant labels.
        rows: Row groups and row weights.
        repeated: Shape (N, K), bool: True for an id that already stands at an earlier
            place of its row, which counts as a miss; None if no id repeats.
        documents: Shape (N,), int64: the number of documents of each row, for flat
            queries without ids, whose ``ids`` are numbers of documents from 0; None if
            ``ids`` are labels.
        queries: Shape (N,): the index of the query of each row, for flat queries; None
            for other batches.
        ignore_index: The label of rows that do not count, as it was given.
        notes: The warnings about the batch, by :func:`rank` and by the metrics that
            have read it.
        distinct: Whether it is known that no list is empty and no two values of a row
            are equal.
        filled: Whether every place of ``ids`` is known to hold a label.
        num_rows: N, including rows that do not count.
        depth: K, the width of ``ids``.
        max_k: The largest cut-off that the list can answer.
        scores_all: Whether the ranking was made from scores of all labels.
        row_mask: Shape (N,), bool: the rows that count; None if all rows count.
    """

    num_rows: int = field(init=False, repr=False)
    depth: int = field(init=False, repr=False)
    max_k: int = field(init=False, repr=False)
    scores_all: bool = field(init=False, repr=False)
    row_mask: Tensor | None = field(init=False, repr=False)
    ids: Tensor
    values: Tensor | None = field(repr=False)
    complete: bool
    repeated: Tensor | None = field(repr=False)
    scores: Tensor | None = field(repr=False)
    distinct: bool
    filled: bool = field(repr=False)
    targets: Targets = field(repr=False)
    num_labels: int | None
    rows: BatchRows = field(repr=False, default=PLAIN_ROWS)
    documents: Tensor | None = field(repr=False, default=None)
    queries: Tensor | None = field(repr=False, default=None)
    ignore_index: int | None = None
    notes: list[str] = field(repr=False, default_factory=list)

    @classmethod
    def from_scores(
        cls,
        scores: Any,
        *,
        depth: int | None = None,
        target_ids: Any = None,
        target_mask: Any = None,
        target_gains: Any = None,
        row_mask: Any = None,
        complete: bool = True,
        duplicates: Duplicates = "error",
        validate_args: bool = True,
    ) -> Ranking:
        """Rank scores down to ``depth``, with a target in an explicit form.

        Args:
            scores: Shape (N, L), dense; or scored candidates, a pair of scores (N, C)
                and ids (N, C); or CSR (N, L).
            depth: The number of places of each list. None ranks dense scores down to
                500, and keeps candidates and CSR whole.
            target_ids: Shape (N,) or (N, M), label ids, -1 pads.
            target_mask: Shape (N, L), bool.
            target_gains: Shape (N, L), dense or CSR; or (N, M) beside ``target_ids``.
            row_mask: Shape (N,), bool; False drops a row.
            complete: False if the candidates are only the first part of the retrieved
                labels.
            duplicates: ``"error"`` or ``"first"``, as in :func:`rank`.
            validate_args: False skips the checks that read values.
        """
        caller, target = (
            "Ranking.from_scores",
            ExplicitTarget(target_ids, target_mask, target_gains),
        )
        context = Context.for_call(
            caller, None, validate_args, duplicates, kind="scores"
        )
        return rank_batch(
            context,
            Batch(scores, target, row_mask),
            depth_of_scores(caller, depth, complete),
        )

    @classmethod
    def from_ids(
        cls,
        ids: Any,
        *,
        num_labels: int | None = None,
        target_ids: Any = None,
        target_mask: Any = None,
        target_gains: Any = None,
        complete: bool = True,
        duplicates: Duplicates = "error",
        row_mask: Any = None,
        validate_args: bool = True,
    ) -> Ranking:
        """Make a ranking of label ids that are ranked already.

        Args:
            ids: Shape (N, K), any integer type: label ids, best first, -1 behind the
                end of a list.
            num_labels: L; None if unknown.
            target_ids: Shape (N,) or (N, M), -1 pads.
            target_mask: Shape (N, L), bool.
            target_gains: Shape (N, L), dense or CSR; or (N, M) beside ``target_ids``.
            complete: False if the lists are only the first part of the retrieved
                labels.
            duplicates: ``"error"`` or ``"first"``, as in :func:`rank`.
            row_mask: Shape (N,), bool; False drops a row.
            validate_args: False skips the checks that read values.
        """
        target = ExplicitTarget(target_ids, target_mask, target_gains)
        context = Context.for_call(
            "Ranking.from_ids", num_labels, validate_args, duplicates, kind="ids"
        )
        return rank_batch(
            context, Batch(ids, target, row_mask), Depth(complete=complete)
        )

    @classmethod
    def from_flat(
        cls,
        preds: Any,
        target: Any,
        indexes: Any,
        ids: Any = None,
        *,
        num_labels: int | None = None,
        row_mask: Any = None,
        row_groups: Any = None,
        row_weights: Any = None,
        duplicates: Duplicates = "error",
        ignore_index: int | None = None,
        validate_args: bool = True,
    ) -> Ranking:
        """Rank the documents of many queries in flat vectors.

        This is the form of ``torchmetrics.retrieval``.

        Args:
            preds: Shape (n,), floating: the score of each document; ``-inf`` for a
                document that is not retrieved.
            target: Shape (n,), bool, or gains of at least 0.
            indexes: Shape (n,), integers: the query of each document. One call must
                hold all documents of a query.
            ids: Shape (n,), integers: the label of each document. Without ids, metrics
                by bucket or per label cannot read the ranking, and documents with equal
                scores are ranked in the given order.
            num_labels: L; None if unknown.
            row_mask: Bool; False drops a query, or a document. ``row_mask``,
                ``row_groups`` and ``row_weights`` hold one value per query, in
                ascending order of its index, shape (N,); or one per document, shape
                (n,).
            row_groups: Integers: the row group of each query, -1 for none.
            row_weights: Numbers of at least 0: the weight of each query.
            duplicates: ``"error"`` or ``"first"``, as in :func:`rank`, for documents of
                a query with the same label. If ``"first"``, the document with the
                highest score is the one that counts, and the gain of the label is the
                highest gain of its documents.
            ignore_index: Documents with this value in ``target`` are dropped.
            validate_args: False skips the checks that read values.
        """
        context = Context.for_call(
            "Ranking.from_flat", num_labels, validate_args, duplicates, ignore_index
        )
        return rank_batch(
            context,
            Batch(preds, target, row_mask, row_groups, row_weights, indexes, ids),
            Depth(),
        )

    def __post_init__(self) -> None:
        """Set the attributes that follow from the fields."""
        num_rows, depth = self.ids.shape
        attributes = vars(self)  # the class is frozen
        attributes["num_rows"] = num_rows
        attributes["depth"] = depth
        attributes["deepest"] = depth
        attributes["max_k"] = EVERYTHING if self.complete else depth
        attributes["scores_all"] = self.scores is not None
        attributes["row_mask"] = self.targets.row_mask
        attributes["_memo"] = {}

    @once
    def length(self) -> Tensor:
        """Number of labels in each list, shape (N,), int64."""
        if self.filled:
            return torch.full((self.num_rows,), self.depth, device=self.ids.device)
        return (self.ids >= 0).sum(dim=1)

    @once
    def gains(self) -> Tensor:
        """Gain of each listed label, shape (N, K), float64; 0 if not relevant."""
        hits = self.hits
        gains = torch.zeros(
            self.num_rows,
            self.depth + 1,
            dtype=real_dtype(self.ids.device),
            device=self.ids.device,
        )
        return gains.scatter_(
            1, (hits.ranks - 1).clamp(max=self.depth), self.target_gains
        )[:, :-1]

    @once
    def n_relevant(self) -> Tensor:
        """Number of relevant labels, found or not, shape (N,), int64."""
        return self.targets.n_relevant

    @once
    def relevant(self) -> RelevantLabels:
        """All relevant labels, found or not."""
        return RelevantLabels(self.targets, None)

    @once
    def listed(self) -> Callable[[int], Tensor]:
        """Returns the first labels of each list."""
        return partial(_first_labels, self.ids)

    def _places(self, kernels: Kernels) -> Any:
        """Return the result of ``kernels.find_hits``; on the CPU, the hits.

        Only the first place of an id is a hit.
        """
        memo = self._memo
        if ("places", kernels) not in memo:
            ids = self.ids
            if self.repeated is not None:
                ids = self.ids_once
            memo["places", kernels] = kernels.find_hits(self.targets, ids)
        return memo["places", kernels]

    @property
    def ids_once(self) -> Tensor:
        """``ids`` with -1 where the label already stands at an earlier place."""
        if self.repeated is None:
            return self.ids
        return self.ids.masked_fill(self.repeated, -1)

    @once
    def hits(self) -> Hits:
        """The relevant labels in the list, by rank."""
        kernels = self.targets.kernels
        places = self._places(kernels)
        if kernels.can_read_values:
            return cast("Hits", places)
        return kernels.hits(places, max(1, self.depth))

    @property
    def exact(self) -> TargetRanks:
        """The target ranks among all retrieved labels.

        This needs scores of all labels, or complete lists.
        """
        if self.complete or not self.scores_all:
            return self
        return self.remembered("exact", lambda: ExactRanks(self))

    def at_least(self, min_gain: float | None) -> Ranking:
        """Return a ranking whose relevant labels have a gain >= ``min_gain``.

        None returns the same ranking.
        """
        if min_gain is None:
            return self
        level = check_number(
            "Ranking.at_least", "min_gain", min_gain, 0.0, float("inf")
        )
        return self.remembered(
            ("at least", level),
            lambda: replace(self, targets=self.targets.at_least(level)),
        )

    @property
    def judged(self) -> Ranking:
        """The ranking in which all judged labels are relevant.

        Judged labels have an entry in the target, even one of gain 0.
        """
        if self.targets.judgments is None:
            return self
        return self.remembered(
            "judged", lambda: replace(self, targets=self.targets.judged())
        )

    def up_to(self, k: int) -> TargetRanks:
        """Return ranks that answer cut-offs up to ``k``.

        On a device, much deeper places are left out.
        """
        if k >= self.depth:
            return self
        kernels = self.targets.kernels
        deepest = kernels.deepest(k, self.depth)
        if deepest >= self.depth:
            return self
        places = self._places(kernels)
        return self.remembered(
            ("up to", deepest),
            lambda: self.with_other_hits(
                kernels.hits(places, deepest), max_k=deepest, deepest=deepest
            ),
        )

    def by_bucket(
        self,
        buckets: LabelBuckets,
        scope: Scope = "bucket",
        depth: int = DEFAULT_DEPTH,
        exact: bool = False,
        up_to: int = EVERYTHING,
    ) -> TargetRanks:
        """Return target ranks by row and bucket, the bucket axis behind the row axis.

        Args:
            buckets: G buckets.
            scope: ``"bucket"`` ranks the labels of a bucket among themselves, within
                the top ``depth``; ``"global"`` keeps the ranks in the whole list, and
                restricts only the relevant labels to the bucket.
            depth: The depth to which ``scope="bucket"`` reads the list.
            exact: With ``scope="global"``: exact ranks at any depth.
            up_to: The largest cut-off that will be read; on a device, much deeper
                places are left out.

        Raises:
            TypeError: If ``buckets`` are no :class:`LabelBuckets`.
            ValueError: If the list was cut above ``depth``, or the buckets have another
                number of labels.
        """
        if not isinstance(buckets, LabelBuckets):
            raise TypeError(
                f"Ranking.by_bucket: buckets is {shape_of(buckets)}; pass LabelBuckets."
            )
        check_choice("Ranking.by_bucket", "scope", scope, ("bucket", "global"))
        if self.num_labels not in (None, buckets.num_labels):
            raise ValueError(
                f"Ranking.by_bucket: the ranking is of {self.num_labels} labels, the "
                f"buckets of {buckets.num_labels}; make both for the same labels."
            )
        if scope == "bucket" and depth > self.max_k:
            raise ValueError(
                f"Ranking.by_bucket: depth={depth} is deeper than the ranking "
                f"({self.depth} ids per row); rank again with depth={depth}, or pass "
                "the depth there is."
            )
        depth, exact = min(depth, self.depth), exact and self.exact is not self
        if scope == "global":
            depth = self.depth
        deepest = EVERYTHING if exact else self.targets.kernels.deepest(up_to, depth)
        key = ("by bucket", buckets.digest, scope, depth, deepest)
        return self.remembered(
            key, lambda: self._by_bucket(buckets, scope, depth, deepest, exact)
        )

    def _by_bucket(
        self, buckets: LabelBuckets, scope: Scope, depth: int, deepest: int, exact: bool
    ) -> TargetRanks:
        kernels = self.targets.kernels
        relevant = self.remembered(
            ("relevant", buckets.digest), lambda: RelevantLabels(self.targets, buckets)
        )
        listed: Callable[[int], Tensor]
        if scope == "bucket":
            ids = self.ids[:, :depth]
            hits, length = kernels.within_buckets(
                self._places(kernels), ids, buckets, deepest
            )
            max_k = EVERYTHING if deepest >= depth else deepest
            listed = partial(kernels.first_of_buckets, ids, buckets)
        else:
            if exact:
                hits = kernels.split(self.exact.hits, buckets)
                max_k, deepest = self.exact.max_k, self.exact.deepest
            else:
                hits = kernels.by_bucket(self._places(kernels), buckets, deepest)
                max_k = self.max_k if deepest >= self.depth else deepest
            length = self.length[:, None].expand(-1, len(buckets))
            listed = partial(_first_labels_by_bucket, self.ids)
        return TargetRanks(
            hits,
            relevant,
            length,
            num_labels=self.num_labels,
            max_k=max_k,
            deepest=deepest,
            listed=listed,
        )

    def listed_ranks(
        self, buckets: LabelBuckets | None, scope: Scope, depth: int
    ) -> Tensor:
        """Return the rank of each listed label in its ``scope``, int64.

        Shape (N, K), or (N, depth) within a bucket.
        """
        if buckets is None or scope == "global":
            return torch.arange(1, self.depth + 1, device=self.ids.device).expand(
                self.ids.shape
            )
        return self.targets.kernels.ranks_within(self.ids[:, :depth], buckets)[1][
            :, : self.depth
        ]

    def log_probabilities(self, scores: Tensor, rows: Tensor) -> Tensor:
        """Return log-probabilities of scores by the softmax over all labels, float64.

        This needs all scores.

        Args:
            scores: Shape (...).
            rows: Shape (...), int64: the row of each score.
        """
        assert self.scores is not None
        largest, log_sum_above = self.remembered(
            "log sum", partial(log_sum, self.scores)
        )
        return (scores.to(largest.dtype) - largest[rows]) - log_sum_above[rows]

    @once
    def scores_of_targets(self) -> Tensor:
        """The score of each relevant label, in the order of ``targets.entries``.

        This needs scores of all labels.
        """
        entries = self.targets.entries
        assert self.scores is not None
        return self.scores[entries.rows, entries.ids.clamp(min=0)]

    def context(self, caller: str) -> Context:
        """Return a context for checks and warnings that read the batch."""
        return Context(
            caller,
            self.num_labels,
            row_mask=self.row_mask,
            kernels=self.targets.kernels,
            notes=self.notes,
        )

    def tied_at(self, k: int) -> Tensor:
        """Return whether ranks ``k`` and ``k + 1`` have equal scores, (N,), bool.

        Then only the ids decide which of the two labels is in the top ``k``. Ties in
        many rows mean that the model tells labels apart badly, whatever its metrics.

        Raises:
            ValueError: If the list was cut above the label behind rank ``k``.
        """
        if self.values is None or self.values.shape[1] <= k:
            if self.values is not None and not self.complete:
                raise ValueError(
                    f"Ranking.tied_at: k={k} asks for the place behind the top {k}, "
                    f"but the ranking was cut at {self.values.shape[1]}; rank with "
                    f"depth={k + 1}, or lists of this length."
                )
            return self.ids.new_zeros(self.num_rows, dtype=torch.bool)
        tied = (self.values[:, k - 1] == self.values[:, k]) & (
            self.values[:, k] > -torch.inf
        )
        return self.in_counted_rows(tied)

    def in_counted_rows(self, flags: Tensor) -> Tensor:
        """Return ``flags`` (N, ...), bool, with False in rows that do not count."""
        if self.row_mask is None:
            return flags
        return flags & along_rows(self.row_mask, flags.ndim)


def _first_labels(ids: Tensor, k: int) -> Tensor:
    return ids[:, :k]


def _first_labels_by_bucket(ids: Tensor, k: int) -> Tensor:
    """Return the first labels of each list, for all buckets, shape (N, 1, k)."""
    return ids[:, None, :k]


class ExactRanks(TargetRanks):
    """Exact ranks among all scores, for a ranking that was cut.

    The first hits are found faster than all hits.
    """

    def __init__(self, ranking: Ranking) -> None:
        # no reference to the ranking, which refers to this object: a cycle would keep
        # the batch in memory
        assert ranking.scores is not None
        self._targets, self._scores = ranking.targets, ranking.scores
        self._memo = {}
        self.relevant, self.length, self.num_labels = (
            ranking.relevant,
            ranking.length,
            ranking.num_labels,
        )
        assert self.num_labels is not None
        self.max_k, self.deepest = EVERYTHING, self.num_labels

    @property
    def with_hits(self) -> None:
        """None: selecting rows with hits would need all hits, not only the first."""

    @once
    def hits(self) -> Hits:
        """All retrieved relevant labels, by rank."""
        targets = self._targets
        return targets.kernels.in_order(
            targets.entries, self._found[0], targets.num_rows
        )

    @once
    def first_rank(self) -> Tensor:
        """Rank of the best relevant label of each row; ``NOT_RANKED`` for none."""
        targets, (entries, (ranks, _)) = self._targets, self._best
        if len(ranks) == targets.num_rows and entries.width == 1:
            return ranks
        nowhere = ranks.new_full((targets.num_rows,), NOT_RANKED)
        return nowhere.scatter_reduce_(0, entries.rows, ranks, reduce="amin")

    @once
    def _found(self) -> tuple[Tensor, Tensor | None]:
        return self._find(self._targets.entries)

    @once
    def _best(self) -> tuple[Entries, tuple[Tensor, Tensor | None]]:
        """The best relevant label of each row, or all if they are found faster."""
        targets = self._targets
        if targets.dense is None or targets.kernels.can_read_values:
            return targets.entries, self._found
        best = targets.kernels.best_of_matrix(self._scores, targets)
        return best, self._find(best)

    def _find(self, entries: Entries) -> tuple[Tensor, Tensor | None]:
        """Return the ranks of relevant labels, and how many labels equal their scores.

        The second is None where equal scores are not counted.
        """
        own = self._scores[entries.rows, entries.ids.clamp(min=0)]
        return self._targets.kernels.exact_ranks(self._scores, entries, own)

    def tied(self, first: bool) -> Tensor | None:
        """Return True for each row, and whether it has a tied relevant label.

        The result is bool, shape (N, 2). A tied label has the score of another label.

        None for a matrix of relevant labels on a device, unless only the best label of
        a row matters: to look at each cell would take longer than all else.

        Args:
            first: Whether only the best relevant label of a row matters.
        """
        if first:
            entries, (ranks, num_equal) = self._best
        else:
            entries, (ranks, num_equal) = self._targets.entries, self._found
        if num_equal is None:
            return None
        is_tied = (num_equal > 1) & (ranks < NOT_RANKED)
        if first:
            is_tied = is_tied & (ranks == self.first_rank[entries.rows])
        tied = any_by_row(is_tied, entries.rows, len(self._scores))
        return torch.stack([torch.ones_like(tied), tied], dim=1)


@names_unknown_keywords
def rank(
    preds: Any,
    target: Any,
    depth: int | None = None,
    row_mask: Any = None,
    *,
    num_labels: int | None = None,
    complete: bool = True,
    row_groups: Any = None,
    row_weights: Any = None,
    validate_args: bool = True,
    duplicates: Duplicates = "error",
    ignore_index: int | None = None,
) -> Ranking:
    """Rank a batch once, for any number of metrics.

    Args:
        preds: Floating (N, L): scores, ``-inf`` for a label that is not retrieved.
            Integer (N, K): label ids already ranked, best first, -1 behind the end. A
            pair of scores (N, C) and ids (N, C): scored candidates in any order. Sparse
            CSR (N, L) of torch or scipy: stored entries are the scores of candidates.
            Each may be a numpy array, or a column of Arrow or pandas, whose lists of
            ids may have any length.
        target: Integer (N,): one relevant label per row, -1 for none. Integer (N, M):
            relevant label ids, -1 pads. Bool (N, L): multi-hot. Floating (N, L): gains,
            relevant if > 0. Integer (N, L), the same shape as score ``preds``:
            multi-hot or gains, never ids. Sparse CSR (N, L): stored values are gains. A
            column of lists of integers: label ids. Both may have more axes in front:
            (B, T, L) with (B, T) are B·T rows.
        depth: The number of places of the lists that are made of scores. None ranks
            dense scores down to 500, and keeps candidates whole. A list of ids is
            always kept whole.
        row_mask: Shape (N,), bool; False drops a row, such as the padding of a sampler.
        num_labels: L, if neither ``preds`` nor ``target`` tells it.
        complete: False if ids or candidates are the first part of longer lists. Metrics
            then refuse to read below the end of a list.
        row_groups: Shape (N,), integers: the row group of each row, -1 for none.
        row_weights: Shape (N,), numbers of at least 0: the weight of each row.
        validate_args: False skips the checks that read values; the checks make a GPU
            wait.
        duplicates: What happens if an id stands twice in a row of ``preds``:
            ``"error"`` raises an error; ``"first"`` counts the first place, and the
            later places are misses.
        ignore_index: An id in ``target`` that is no label, such as padding, or the -100
            of language models. A row that holds nothing else does not count. In a list
            of ``preds`` such an id, from 0 on, is a miss.

    Returns:
        The ranking. Of labels with equal scores, the lower id is ranked first.

    Raises:
        TypeError: If an argument has a type that is not listed above.
        ValueError: If shapes do not fit, scores are NaN, ids repeat in a row or are out
            of range.
    """
    context = Context.for_call(
        "rank", num_labels, validate_args, duplicates, ignore_index, warns=True
    )
    batch = Batch(preds, target, row_mask, row_groups, row_weights)
    return rank_batch(context, batch, depth_of_scores("rank", depth, complete))


def depth_of_scores(caller: str, depth: int | None, complete: bool) -> Depth:
    """Return the depth to which the scores of a batch are ranked; see :func:`rank`."""
    if depth is None:
        return Depth(DEFAULT_DEPTH, complete=complete)
    depth = check_count(caller, "depth", depth, maximum=LARGEST_CUTOFF)
    return Depth(depth, candidates=depth, complete=complete)


def rank_batch(context: Context, batch: Batch, depth: Depth) -> Ranking:
    """Read the arguments of an update and rank them; see :func:`rank`.

    Meanwhile torch runs on one thread.
    """
    with one_thread():
        return rank_rows(context, batch, depth)


def rank_rows(context: Context, batch: Batch, depth: Depth) -> Ranking:
    """Return the ranking of a batch of rows or of flat queries.

    If ``preds`` is a ranking, return it unchanged.
    """
    if isinstance(batch.preds, Ranking):
        return _only_ranking(context, batch)
    if batch.target is None:
        raise TypeError(
            f"{context.caller}: target is missing; pass preds and target, or a "
            "Ranking alone."
        )
    as_tensors(context.caller, batch)
    as_rows(context, batch)
    if batch.queries is not None:
        depth = Depth()
    lists, targets, rows = read_batch(context, batch, depth)
    if context.warns:
        warn_of_first_batch(context, batch, lists, targets, depth)
    return Ranking(
        *lists,
        targets=targets,
        num_labels=context.num_labels,
        rows=rows,
        documents=batch.num_documents,
        queries=batch.queries,
        ignore_index=context.ignore_index,
        notes=context.notes,
    )


def _only_ranking(context: Context, batch: Batch) -> Ranking:
    """Return the ranking passed as ``preds``; raise if there are other arguments.

    Raise TypeError for a target or row arguments, and ValueError for an
    ``ignore_index`` that the ranking was not made with.
    """
    ranking: Ranking = batch.preds
    if any(
        getattr(batch, name) is not None for name in ("target", *OPTIONAL_ARGUMENTS)
    ):
        raise TypeError(
            f"{context.caller}: a Ranking holds target and row_mask already; pass "
            "it alone."
        )
    if context.ignore_index not in (None, ranking.ignore_index):
        raise ValueError(
            f"{context.caller}: ignore_index={context.ignore_index}, but the ranking "
            f"was made with ignore_index={ranking.ignore_index}; pass it to rank() too."
        )
    return ranking
