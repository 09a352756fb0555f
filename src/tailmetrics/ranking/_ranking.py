"""``Ranking``: a batch, ranked once, that every metric reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from tailmetrics._arguments import LARGEST_CUTOFF, check_choice, check_count, check_number, shape_of
from tailmetrics.buckets import LabelBuckets
from tailmetrics.ranking._device import once, one_thread, real_dtype
from tailmetrics.ranking._hits import EVERYTHING, NOT_RANKED, Entries, Hits
from tailmetrics.ranking._inputs import (
    OTHERS,
    Batch,
    Context,
    Duplicates,
    ExplicitTarget,
    as_tensors,
    rows_of_documents,
    side_by_side,
)
from tailmetrics.ranking._kernels import Kernels, Targets
from tailmetrics.ranking._pieces import ScoresInPieces, log_sum
from tailmetrics.ranking._reading import PLAIN_ROWS, BatchRows, Depth, read_batch
from tailmetrics.ranking._target_ranks import RelevantLabels, TargetRanks
from tailmetrics.ranking._warnings import warn_of_padding

DEFAULT_DEPTH = 500
"""How deep scores are ranked unless asked for otherwise."""

Scope: TypeAlias = Literal["bucket", "global"]


@dataclass(eq=False)
class Ranking(TargetRanks):
    """A batch of N rows ranked once, with what is relevant in each; made by :func:`rank` or the ``from_`` methods.

    Attributes:
        ids: Shape (N, K), int64; label ids, best first, -1 behind the end of a list.
        complete: Whether nothing retrieved is cut off: true of ids and candidates unless said otherwise, of scores
            only when all of them were ranked.
        num_labels: L, or None when no argument tells.
        values: The scores in the order of ``ids``, with one more behind the last where there is one; None for ids.
        scores: Shape (N, L), the dense scores it was made from; None otherwise.
        targets: What is relevant.
        rows: Row groups and row weights, where there are some.
        repeated: Shape (N, K), bool: the places whose id stands before in the same row, which count as misses; None
            where no id repeats.
        in_pieces: The scores of all labels, where they came in chunks or shards; None otherwise.
        documents: Shape (N,), int64: the number of documents of each row, where ``ids`` number them from 0 instead of
            being labels, as in flat queries without ids; None where ids are labels.
        queries: Shape (N,): the index of each row of flat queries; None of other batches.
        ignore_index: The label of rows that do not count, as it was given.
        distinct: Whether it is known that each list holds something, and that no two values of a row are the same.
        filled: Whether every place of ``ids`` is known to hold a label.
        num_rows: N, rows that do not count included.
        depth: K, the width of ``ids``.
        max_k: The deepest cut-off that the list can answer for.
        scores_all: Whether it was made from scores of all labels, in a matrix or in pieces.
        row_mask: Shape (N,), bool: the rows that count; None when all do.
    """

    num_rows: int = field(init=False, repr=False)
    depth: int = field(init=False, repr=False)
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
    in_pieces: ScoresInPieces | None = field(repr=False, default=None)
    ignore_index: int | None = None

    @classmethod
    def from_scores(
        cls,
        scores: Any,
        *,
        depth: int = DEFAULT_DEPTH,
        target_ids: Any = None,
        target_mask: Any = None,
        target_gains: Any = None,
        row_mask: Any = None,
        complete: bool = True,
        duplicates: Duplicates = "error",
        validate_args: bool = True,
    ) -> Ranking:
        """Rank scores down to ``depth``, with a target whose form leaves nothing to guess.

        Args:
            scores: Shape (N, L), dense; or scored candidates, a pair of scores (N, C) and ids (N, C); or CSR (N, L).
            depth: How many labels of dense scores are ranked; candidates and CSR are kept whole.
            target_ids: Shape (N,) or (N, M), label ids, -1 pads.
            target_mask: Shape (N, L), bool.
            target_gains: Shape (N, L), dense or CSR; or (N, M) beside ``target_ids``.
            row_mask: Shape (N,), bool; False drops a row.
            complete: False when candidates were cut and more was retrieved.
            duplicates: ``"error"`` or ``"first"``, as in :func:`rank`.
            validate_args: False skips the checks that read values.
        """
        caller, target = "Ranking.from_scores", ExplicitTarget(target_ids, target_mask, target_gains)
        amount = Depth(check_count(caller, "depth", depth, maximum=LARGEST_CUTOFF), complete=complete)
        context = Context(caller, None, validate_args, duplicates, scored=True)
        return rank_batch(context, Batch(scores, target, row_mask), amount)

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
        """Take label ids [N, K] that are ranked already, best first, -1 behind the end of a list.

        Args:
            ids: Shape (N, K), any integer type.
            num_labels: L; None when unknown.
            target_ids: Shape (N,) or (N, M), -1 pads.
            target_mask: Shape (N, L), bool.
            target_gains: Shape (N, L), dense or CSR; or (N, M) beside ``target_ids``.
            complete: False when the lists were cut and more was retrieved.
            duplicates: ``"error"`` or ``"first"``, as in :func:`rank`.
            row_mask: Shape (N,), bool; False drops a row.
            validate_args: False skips the checks that read values.
        """
        target = ExplicitTarget(target_ids, target_mask, target_gains)
        context = Context("Ranking.from_ids", num_labels, validate_args, duplicates, scored=False)
        return rank_batch(context, Batch(ids, target, row_mask), Depth(None, complete=complete))

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
        """Rank documents of many queries that stand one below the other, as ``torchmetrics.retrieval`` takes them.

        Args:
            preds: Shape (n,), floating: the score of each document; ``-inf`` is not retrieved.
            target: Shape (n,), bool, or gains of at least 0.
            indexes: Shape (n,), integers: the query of each document; each query is whole.
            ids: Shape (n,), integers: the label of each document. Without them no metric by bucket or per label can
                read the ranking, and of equal scores the document that stands first comes first.
            num_labels: L; None when unknown.
            row_mask: Bool; False drops a query, or a document. This and the next two hold one value for each query, in
                ascending order of its index, shape (N,); or one for each document, shape (n,).
            row_groups: Integers: the row group of each query, -1 for none.
            row_weights: Numbers of at least 0: what each query weighs.
            duplicates: ``"error"`` or ``"first"``, as in :func:`rank`, where documents of a query share a label.
            ignore_index: Documents with this value in ``target`` are dropped.
            validate_args: False skips the checks that read values.
        """
        context = Context("Ranking.from_flat", num_labels, validate_args, duplicates, ignore_index)
        return rank_batch(context, Batch(preds, target, row_mask, row_groups, row_weights, indexes, ids), Depth(None))

    @classmethod
    def from_shards(
        cls,
        shards: Any,
        *,
        first_labels: Sequence[int] | None = None,
        num_labels: int | None = None,
        target_ids: Any = None,
        target_mask: Any = None,
        target_gains: Any = None,
        complete: bool = False,
        duplicates: Duplicates = "error",
        row_mask: Any = None,
        validate_args: bool = True,
    ) -> Ranking:
        """Merge the lists that shards of an index returned, each of them the best of its own labels.

        Args:
            shards: For each shard a pair of scores (N, C) and ids (N, C), a higher score being better; id -1 or score
                ``-inf`` is no candidate. C may differ.
            first_labels: What is added to the ids of each shard, where shards number their labels from 0.
            num_labels: L; None when unknown.
            target_ids: Shape (N,) or (N, M), -1 pads.
            target_mask: Shape (N, L), bool.
            target_gains: Shape (N, L), dense or CSR; or (N, M) beside ``target_ids``.
            complete: Whether shards returned everything they hold. If they were cut, as they are unless this is said,
                the merged list is as deep as the shortest of them, padding left out, and answers no metric without a
                cut-off.
            duplicates: ``"error"`` or ``"first"``, as in :func:`rank`, where shards share labels.
            row_mask: Shape (N,), bool; False drops a row.
            validate_args: False skips the checks that read values.
        """
        caller, target = "Ranking.from_shards", ExplicitTarget(target_ids, target_mask, target_gains)
        scores, ids, shortest = side_by_side(caller, shards, first_labels, row_mask)
        context = Context(caller, num_labels, validate_args, duplicates, scored=True)
        amount = Depth(None, None if complete else shortest, complete=complete)
        return rank_batch(context, Batch((scores, ids), target, row_mask), amount)

    def __post_init__(self) -> None:
        """Set what each reader asks for."""
        num_rows, depth = self.ids.shape
        vars(self).update(
            num_rows=num_rows,
            depth=depth,
            deepest=depth,
            max_k=EVERYTHING if self.complete else depth,
            scores_all=self.scores is not None or self.in_pieces is not None,
            row_mask=self.targets.row_mask,
            _memo={},
        )

    @once
    def length(self) -> Tensor:
        """Number of labels in each list, shape (N,), int64."""
        if self.filled:
            return torch.full((self.num_rows,), self.depth, device=self.ids.device)
        return (self.ids >= 0).sum(dim=1)

    @once
    def gains(self) -> Tensor:
        """Gain of each listed label, 0 where it is not relevant, shape (N, K), float64."""
        hits = self.hits
        gains = torch.zeros(self.num_rows, self.depth + 1, dtype=real_dtype(self.ids.device), device=self.ids.device)
        return gains.scatter_(1, (hits.ranks - 1).clamp(max=self.depth), self.target_gains)[:, :-1]

    @once
    def relevant(self) -> RelevantLabels:
        """All relevant labels, found or not."""
        return RelevantLabels(self.targets, None)

    def _found_by(self, kernels: Kernels) -> Any:
        """Return what the kernels find when they look the list up; of an id that stands twice, the first place counts.

        On the CPU these are the hits.
        """
        memo = self._memo
        if ("found", kernels) not in memo:
            ids = self.ids if self.repeated is None else self.ids.masked_fill(self.repeated, -1)
            memo["found", kernels] = kernels.look_up(self.targets, ids)
        return memo["found", kernels]

    @once
    def hits(self) -> Hits:
        """The relevant labels that the list holds, by rank."""
        kernels = self.targets.kernels
        found: Any = self._found_by(kernels)
        return found if kernels.reads else kernels.hits(found, max(1, self.depth))

    @property
    def exact(self) -> TargetRanks:
        """The target ranks among everything retrieved; needs scores or complete lists."""
        known = self.complete or not self.scores_all
        return self if known else self.remembered("exact", lambda: ExactRanks(self))

    def at_least(self, min_gain: float | None) -> Ranking:
        """Return the same ranking with only the labels of a gain of at least ``min_gain`` as relevant; None: all."""
        if min_gain is None:
            return self
        level = check_number("Ranking.at_least", "min_gain", min_gain, 0.0, float("inf"))

        def made() -> Ranking:
            targets = self.targets.at_least(level)  # pieces are asked for labels alone
            return replace(self, targets=targets if self.in_pieces is None else targets.without_void())

        return self.remembered(("at least", level), made)

    def up_to(self, k: int) -> TargetRanks:
        """Return ranks that answer for cut-offs up to ``k``: on a device without what stands far below."""
        if k >= self.depth:
            return self
        kernels = self.targets.kernels
        deepest = kernels.deepest(k, self.depth)
        if deepest >= self.depth:
            return self
        rest = self.relevant, self.length, self.num_labels, deepest, deepest, self.documents
        places = self._found_by(kernels)
        return self.remembered(("up to", deepest), lambda: TargetRanks(kernels.hits(places, deepest), *rest))

    def by_bucket(
        self,
        buckets: LabelBuckets,
        scope: Scope = "bucket",
        depth: int = DEFAULT_DEPTH,
        exact: bool = False,
        up_to: int = EVERYTHING,
    ) -> TargetRanks:
        """Return the ranks restricted to each bucket's labels, with a bucket axis behind the row axis.

        Args:
            buckets: G buckets.
            scope: ``"bucket"`` ranks the labels of a bucket among themselves, within the top ``depth``; ``"global"``
                keeps the rank in the whole list, so that only what counts as relevant is restricted.
            depth: How much of the list ``scope="bucket"`` reads.
            exact: With ``scope="global"``: exact ranks, however deep.
            up_to: The deepest cut-off that is read of it: on a device what stands far below is left out.

        Raises:
            TypeError: If ``buckets`` are no buckets.
            ValueError: If the list was cut above ``depth``, or the buckets are of another number of labels.
        """
        if not isinstance(buckets, LabelBuckets):
            raise TypeError(f"Ranking.by_bucket: buckets is {shape_of(buckets)}; pass LabelBuckets.")
        check_choice("Ranking.by_bucket", "scope", scope, ("bucket", "global"))
        if self.num_labels not in (None, buckets.num_labels):
            raise ValueError(
                f"Ranking.by_bucket: the ranking is of {self.num_labels} labels, the buckets of {buckets.num_labels}; "
                "make both for the same labels."
            )
        if scope == "bucket" and depth > self.max_k:
            raise ValueError(
                f"Ranking.by_bucket: depth={depth} is deeper than the ranking ({self.depth} ids per row); "
                f"rank again with depth={depth}, or pass the depth there is."
            )
        depth, exact = min(depth, self.depth), exact and self.exact is not self
        read = depth if scope == "bucket" else self.depth
        deepest = EVERYTHING if exact else self.targets.kernels.deepest(up_to, read)
        key = ("by bucket", buckets.digest, scope, depth if scope == "bucket" else None, deepest)
        return self.remembered(key, lambda: self._by_bucket(buckets, scope, depth, deepest, exact))

    def _by_bucket(self, buckets: LabelBuckets, scope: Scope, depth: int, deepest: int, exact: bool) -> TargetRanks:
        kernels = self.targets.kernels
        relevant = self.remembered(("relevant", buckets.digest), lambda: RelevantLabels(self.targets, buckets))
        if scope == "bucket":
            found = self._found_by(kernels)
            hits, length = kernels.within_buckets(found, self.ids[:, :depth], buckets, deepest)
            max_k = EVERYTHING if deepest >= depth else deepest
            return TargetRanks(hits, relevant, length, self.num_labels, max_k, deepest)
        length = self.length[:, None].expand(-1, len(buckets))
        if exact:
            whole = self.exact
            hits = kernels.split(whole.hits, buckets)
            return TargetRanks(hits, relevant, length, self.num_labels, whole.max_k, whole.deepest)
        hits = kernels.of_buckets(self._found_by(kernels), buckets, deepest)
        max_k = self.max_k if deepest >= self.depth else deepest
        return TargetRanks(hits, relevant, length, self.num_labels, max_k, deepest)

    def listed_ranks(self, buckets: LabelBuckets | None, scope: Scope, depth: int) -> Tensor:
        """Return the rank that ``scope`` gives to each listed label, shape (N, K) or (N, depth), int64."""
        if buckets is None or scope == "global":
            return torch.arange(1, self.depth + 1, device=self.ids.device).expand(self.ids.shape)
        return self.targets.kernels.ranks_within(self.ids[:, :depth], buckets)[1][:, : self.depth]

    def log_probabilities(self, scores: Tensor, rows: Tensor) -> Tensor:
        """Return the log of the softmax over all labels at scores of given rows, float64; needs dense scores.

        Args:
            scores: Shape (...).
            rows: Shape (...), int64: the row of each score.
        """
        largest, log_sum_above = self._log_sum
        return (scores.to(largest.dtype) - largest[rows]) - log_sum_above[rows]

    @once
    def scores_of_targets(self) -> Tensor:
        """The scores of the relevant labels, one for each of ``targets.entries``; needs scores of all labels."""
        entries = self.targets.entries
        if self.in_pieces is not None:
            return self.in_pieces.scores_of(entries)
        assert self.scores is not None
        return self.scores[entries.rows, entries.ids.clamp(min=0)]

    @once
    def _log_sum(self) -> tuple[Tensor, Tensor]:
        if self.in_pieces is not None:
            return self.in_pieces.log_sum
        assert self.scores is not None
        return log_sum(self.scores)

    def context(self, caller: str) -> Context:
        """Return the context with which checks and warnings read the values of the batch."""
        return Context(caller, self.num_labels, row_mask=self.row_mask, kernels=self.targets.kernels)

    def tied_at(self, k: int) -> Tensor:
        """Whether the first label left out of the top ``k`` scores the same as the last one in it, shape (N,), bool.

        Only ids decide which of them is shown: many such rows mean a model that says little, whatever its metrics.
        """
        if self.values is None or self.values.shape[1] <= k:
            return self.ids.new_zeros(self.num_rows, dtype=torch.bool)
        tied = (self.values[:, k - 1] == self.values[:, k]) & (self.values[:, k] > -torch.inf)
        return tied if self.row_mask is None else tied & self.row_mask


class ExactRanks(TargetRanks):
    """Ranks among all scores of a ranking that was cut; the first hits alone take less to find than all of them."""

    def __init__(self, ranking: Ranking) -> None:
        # not the ranking itself, which holds this: a circle would keep the batch until Python looks for circles
        self._targets, self._scores, self._in_pieces = ranking.targets, ranking.scores, ranking.in_pieces
        self._memo = {}
        self.relevant, self.length, self.num_labels = ranking.relevant, ranking.length, ranking.num_labels
        assert self.num_labels is not None
        self.max_k, self.deepest = EVERYTHING, self.num_labels

    @property
    def with_hits(self) -> TargetRanks:
        """The target ranks of all rows: choosing rows would compute all hits where only the first ones are read."""
        return self

    @once
    def hits(self) -> Hits:
        """All relevant labels that are retrieved, by rank."""
        targets = self._targets
        return targets.kernels.in_order(targets.entries, self._ranks_of(targets.entries), targets.num_rows)

    @once
    def first_rank(self) -> Tensor:
        """Rank of the best relevant label of each row."""
        targets, scores = self._targets, self._scores
        entries = targets.entries if scores is None else targets.kernels.best_of_matrix(scores, targets)
        ranks = self._ranks_of(entries)
        if len(ranks) == targets.num_rows and entries.width == 1:
            return ranks
        nowhere = ranks.new_full((targets.num_rows,), NOT_RANKED)
        return nowhere.scatter_reduce_(0, entries.rows, ranks, reduce="amin")

    def _ranks_of(self, entries: Entries) -> Tensor:
        if self._scores is not None:
            return self._targets.kernels.exact_ranks(self._scores, entries)
        assert self._in_pieces is not None
        own, (above, _, before) = self._in_pieces.scores_of(entries), self._in_pieces.counts_of(entries)
        return torch.where(own > -torch.inf, above + before + 1, NOT_RANKED)


def rank(
    preds: Any,
    target: Any,
    depth: int = DEFAULT_DEPTH,
    row_mask: Any = None,
    *,
    num_labels: int | None = None,
    complete: bool = True,
    duplicates: Duplicates = "error",
    ignore_index: int | None = None,
    row_groups: Any = None,
    row_weights: Any = None,
    validate_args: bool = True,
) -> Ranking:
    """Rank a batch once, for any number of metrics.

    Args:
        preds: Floating (N, L), scores, ``-inf`` for a label that is not retrieved; integer (N, K), label ids already
            ranked, best first, -1 behind the end; a pair of scores (N, C) and ids (N, C), scored candidates in any
            order; sparse CSR (N, L) of torch or scipy, stored entries are the candidates' scores. Each may be a numpy
            array, or a column of Arrow or pandas, whose lists of ids may have any length.
        target: Integer (N,), one relevant label per row, -1 for none; integer (N, M), relevant label ids, -1 pads;
            bool (N, L), multi-hot; floating (N, L), gains, relevant where > 0; integer (N, L) of the shape of score
            ``preds``, multi-hot or gains, never ids; sparse CSR (N, L), stored values are gains. A column of lists
            of integers holds label ids. Both may have more axes in front: (B, T, L) with (B, T) are B·T rows.
        depth: How deep scores are ranked. Ids and candidates are kept whole.
        row_mask: Shape (N,), bool; False drops a row, such as a sampler's padding.
        num_labels: L, where neither ``preds`` nor ``target`` tells.
        complete: False when ids or candidates are the first part of longer lists.
        duplicates: What happens where ids or candidates name a label twice in a row: ``"error"`` refuses them,
            ``"first"`` keeps the later places as misses.
        ignore_index: Rows with this label do not count, such as the -100 of ``torch.nn.CrossEntropyLoss``.
        row_groups: Shape (N,), integers: the row group of each row, -1 for none.
        row_weights: Shape (N,), numbers of at least 0: what each row weighs.
        validate_args: False skips the checks that read values; they make a GPU wait.

    Returns:
        The ranking; equal scores rank the lower label id first.

    Raises:
        TypeError: If an argument is of a kind that is not listed above.
        ValueError: If shapes do not fit, scores are NaN, ids repeat in a row or are out of range.
    """
    depth = check_count("rank", "depth", depth, maximum=LARGEST_CUTOFF)
    context = Context("rank", num_labels, validate_args, duplicates, ignore_index, warns=True)
    batch = Batch(preds, target, row_mask, row_groups, row_weights)
    return rank_batch(context, batch, Depth(depth, complete=complete))


def rank_batch(context: Context, batch: Batch, depth: Depth) -> Ranking:
    """Read the arguments of an update and rank them, on one thread but for what has its own; see :func:`rank`."""
    with one_thread():
        return rank_rows(context, batch, depth)


def rank_rows(context: Context, batch: Batch, depth: Depth) -> Ranking:
    """Return the ranking of a batch: of rows, or of flat queries; a ranking that was passed is returned as it is."""
    ranking = batch.preds
    caller, ignore_index = context.caller, context.ignore_index
    if isinstance(ranking, Ranking):
        if any(getattr(batch, name) is not None for name in ("target", *OTHERS)):
            raise TypeError(f"{caller}: a Ranking holds target and row_mask already; pass it alone.")
        if ignore_index not in (None, ranking.ignore_index):
            raise ValueError(
                f"{caller}: ignore_index={ignore_index}, but the ranking was made with "
                f"ignore_index={ranking.ignore_index}; pass it to rank() too."
            )
        return ranking
    if batch.target is None:
        raise TypeError(f"{caller}: target is missing; pass preds and target, or a Ranking alone.")
    if context.duplicates != "error":
        check_choice(caller, "duplicates", context.duplicates, ("error", "first"))
    if ignore_index is not None:
        check_count(caller, "ignore_index", ignore_index, -(2**62))
    tokens = ranking.shape[-2] if context.warns and getattr(ranking, "ndim", 2) > 2 else 1
    as_tensors(context, batch)
    if tokens > 1 and context.validate:
        warn_of_padding(caller, batch.target, tokens, batch.row_mask, None)
    queries = documents = None
    if batch.indexes is not None:
        queries, documents = rows_of_documents(context, batch)
        depth = Depth(None)
    lists, targets, rows = read_batch(context, batch, depth)
    return Ranking(*lists, targets, context.num_labels, rows, documents, queries, ignore_index=ignore_index)
