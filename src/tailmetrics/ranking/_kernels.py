"""The steps of a ranking that differ between the CPU and other devices.

These are the plain kernels, which never read a value.

To read a value, the program would wait for the device. Small differences depend on
:attr:`Kernels.can_read_values`. Steps with another algorithm on the CPU are in
:mod:`tailmetrics.ranking._kernels_cpu`. The kernels are chosen once, when a batch is
read; formulas, states and rankings do not choose. All kernels give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from tailmetrics._compiling import is_compiling
from tailmetrics.buckets import LabelBuckets
from tailmetrics.ranking import _matrices
from tailmetrics.ranking._device import real_dtype
from tailmetrics.ranking._hits import (
    NOT_RANKED,
    Entries,
    Hits,
    LabelWeights,
    LazyHits,
    Padding,
)
from tailmetrics.ranking._kernels_of_scores import ScoreKernels, filled_entries
from tailmetrics.ranking._matrices import (
    CHUNK,
    ColumnChunks,
    counts_by_sorting,
    ranks_of_all,
)
from tailmetrics.ranking._once import constant, once, whole_numbers
from tailmetrics.ranking._orders import (
    in_blocks,
    rows_at_once,
    rows_of_cells,
    sums_by_key,
)

SHARED_DEPTH = 16
"""Hits are searched, and best gains kept, at least to this rank.

Most cut-offs then share one search.
"""

MOST_PAIRS_COMPARED = 2**27
"""Up to this many pairs of a relevant label and a place are all compared.

The flags of so many pairs take 128 MB.
"""

LARGE_TABLE = 2**20
"""A part of a table with more ranks than this (8 MB) is copied.

The table itself can then be released.
"""

FEW_TARGETS = 32
"""Up to this many relevant labels in a row, ranks come from counts of better scores.

With more, sorting the row is cheaper.
"""


@dataclass(eq=False)
class Targets:
    """The relevant labels of ``num_rows`` rows.

    They have one of three forms: a dense matrix, padded ids, or entries.

    Attributes:
        num_rows: N.
        num_labels: L; None if label ids were given without it.
        row_mask: Shape (N,), bool: the rows that count; None for all. Other rows have
            no relevant label.
        read_by: The kernels that read the batch.
        dense: Shape (N, L), bool or gains.
        padded: Shape (N, M), int64: label ids with gain 1, padded with -1.
        filled: Whether every place of ``padded`` is known to hold a label.
        flat: The relevant labels as entries, if ``dense`` and ``padded`` are None.
        judgments: All labels that the target has an entry for, those of gain 0
            included; None if it has no others than the relevant ones.
        gain_dtype: The floating type of gains as passed; entries hold float64.
    """

    num_rows: int
    num_labels: int | None
    row_mask: Tensor | None
    read_by: Kernels
    dense: Tensor | None = None
    padded: Tensor | None = None
    flat: Entries | None = None
    filled: bool = False
    judgments: Entries | None = None
    gain_dtype: torch.dtype = torch.float64

    @property
    def kernels(self) -> Kernels:
        """The kernels that read the batch; the plain ones in ``torch.compile``."""
        if is_compiling():
            return PLAIN
        return self.read_by

    @property
    def binary(self) -> bool:
        """Whether every relevant label has gain 1.

        False if only the gains could tell.
        """
        if self.dense is not None:
            return self.dense.dtype == torch.bool
        return self.flat is None or self.flat.gains is None

    @property
    def widest(self) -> int:
        """An upper bound of the number of relevant labels of a row.

        The bound is known from the shape of the targets or the entries.
        """
        if self.dense is not None:
            return self.dense.shape[1]
        if self.padded is not None:
            return self.padded.shape[1]
        return self.entries.width

    @property
    def device(self) -> torch.device:
        """The device of the targets."""
        for form in (self.dense, self.padded):
            if form is not None:
                return form.device
        return self.entries.ids.device

    @once
    def entries(self) -> Entries:
        """All relevant labels as flat entries."""
        if self.padded is not None:
            return self.kernels.without_void(_entries_of_ids(self.padded))
        if self.dense is not None:
            return self.kernels.entries_of(self.dense, self.row_mask)
        assert self.flat is not None
        return self.flat

    @once
    def padded_with_labels(self) -> Tensor:
        """True where ``padded`` holds a label, shape (N, M), bool."""
        assert self.padded is not None
        return self.padded >= 0

    @once
    def starts(self) -> Tensor:
        """The place of the first entry of each row, and T, (N + 1,), int64.

        No entry may be void.
        """
        return F.pad(self.n_relevant.cumsum(dim=0), (1, 0))

    @once
    def n_relevant(self) -> Tensor:
        """Number of relevant labels per row, shape (N,), int64."""
        if self.filled:
            assert self.padded is not None
            return torch.full(
                (self.num_rows,), self.padded.shape[1], device=self.padded.device
            )
        if self.padded is not None:
            return self.padded_with_labels.sum(dim=1)
        if self.dense is not None:
            counts = self.kernels.count_true(
                self.dense if self.binary else self.dense > 0
            )
            if self.row_mask is not None:
                counts = counts * self.row_mask
            return counts
        entries = self.entries
        is_relevant = (entries.ids >= 0).to(torch.int64)
        counts = torch.zeros(self.num_rows, dtype=torch.int64, device=self.device)
        return counts.scatter_add_(0, entries.rows, is_relevant)

    def keys(self, buckets: LabelBuckets | None) -> Tensor:
        """Return the row, or row and bucket, of each entry as one number.

        A void entry has the number N, or N * G.
        """
        entries = self.entries
        keys, void_key = entries.rows, self.num_rows
        if buckets is not None:
            keys = keys * len(buckets) + buckets.of(entries.ids)
            void_key = void_key * len(buckets)
        return torch.where(entries.ids >= 0, keys, void_key)

    def without_void(self) -> Targets:
        """Return these targets as entries, without void entries.

        The program waits for the device.
        """
        if self.kernels.can_read_values:
            entries = self.entries
        elif self.dense is not None:
            entries = filled_entries(self.dense, self.row_mask)
        else:
            entries = self.entries.at(self.entries.ids >= 0)
        width = int(torch.bincount(entries.rows, minlength=1).max())
        return self.with_entries(replace(entries, width=width))

    def judged(self) -> Targets:
        """Return targets in which every label with an entry is relevant.

        Labels of gain 0 are included.
        """
        # without judgments a ranking is its own judged one
        assert self.judgments is not None
        return self.with_entries(self.kernels.without_void(self.judgments))

    def at_least(self, min_gain: float) -> Targets:
        """Return targets in which labels with a gain >= ``min_gain`` > 0 are relevant.

        Both are compared in the type of the gains: .7 in float32 is at least 0.7.
        """
        if self.binary and min_gain <= 1:
            return self
        if self.dense is not None and not self.binary:
            return replace(
                self, dense=torch.where(self.dense >= min_gain, self.dense, 0)
            )
        entries = self.entries
        gains = entries.gains
        if gains is None:
            gains = torch.ones_like(entries.ids)
        # torch rounds a number to the type of the tensor
        is_relevant = gains.to(self.gain_dtype) >= min_gain
        relevant = replace(entries, ids=torch.where(is_relevant, entries.ids, -1))
        return self.with_entries(self.kernels.without_void(relevant))

    def with_entries(self, entries: Entries) -> Targets:
        """Return targets of the same rows with other relevant labels."""
        return replace(self, dense=None, padded=None, flat=entries, filled=False)


class RelevantLabels:
    """The number of relevant labels and their best gains, listed or not.

    The number is that of each row, or of each row and bucket.

    Args:
        targets: The relevant labels of N rows.
        buckets: G buckets; None for no buckets.

    Attributes:
        maxima: The largest gain of each chunk of a matrix on a device, found where
            labels are counted by bucket; else None.
    """

    def __init__(self, targets: Targets, buckets: LabelBuckets | None) -> None:
        self.targets = targets
        self.buckets = buckets
        self.maxima: Tensor | None = None
        self._best: dict[str | None, Tensor] = {}

    @once
    def n(self) -> Tensor:
        """Number of relevant labels, shape (N,) or (N, G), int64."""
        if self.buckets is None:
            return self.targets.n_relevant
        return self.targets.kernels.count_by_bucket(self, self.buckets)

    @once
    def ids(self) -> Tensor:
        """All relevant labels, shape (T,), int64, -1 for a void one."""
        return self.targets.entries.ids

    @once
    def keys(self) -> Tensor:
        """The flat index in :attr:`n` of the row, or row and bucket, of each label.

        The labels are :attr:`ids`; void ones have an index behind the last one.
        """
        return self.targets.keys(self.buckets)

    @once
    def present(self) -> Tensor:
        """The flat indexes of the numbers above 0 in :attr:`n`; on a device, of all."""
        if self.targets.kernels.can_read_values:
            return self.n.view(-1).nonzero()[:, 0]
        return whole_numbers(self.n.numel(), self.n.device)

    @once
    def most(self) -> int:
        """The largest number in :attr:`n`; on a device, an upper bound of that number.

        The bound is known without waiting.
        """
        targets = self.targets
        if targets.filled and self.buckets is None:
            assert targets.padded is not None
            return targets.padded.shape[1]
        return targets.kernels.most(self.n, targets.widest)

    def rows_with_hits(self, hits: Hits) -> Tensor | None:
        """Return the rows with a hit, shape (R,); None if it is faster to read all."""
        return self.targets.kernels.rows_with_hits(hits)

    def best(self, k: int, weights: LabelWeights | None = None) -> Tensor:
        """Return the ``k`` largest gains, or weights, of relevant labels, then zeros.

        Shape (..., W), W <= k, float64.
        """
        key = None if weights is None else weights.digest
        best = self._best.get(key)
        if best is None or best.shape[-1] < min(k, self.most):
            best = self.targets.kernels.best(self, k, weights)
            if key != "":
                self._best[key] = best
        return best[..., :k]


def _entries_of_ids(ids: Tensor) -> Entries:
    """Return label ids (N, M), padded with -1, as entries of gain 1.

    A padded place becomes a void entry.
    """
    return Entries(rows_of_cells(ids), ids.reshape(-1), None, ids.shape[1])


@dataclass(frozen=True, eq=False)
class Places:
    """The places of ranked lists that hold a relevant label.

    Attributes:
        ids: Shape (N, K), int64: the lists of label ids; K >= 1.
        hits: Shape (N, K), bool: whether the label at a place is relevant.
        gains: Shape (N, K), float64: the gain of each hit, any number at other places;
            None if every gain is 1.
        most: An upper bound of the number of hits in a row.
    """

    ids: Tensor
    hits: Tensor
    gains: Tensor | None
    most: int


class Kernels(ScoreKernels):
    """The steps of a ranking.

    If ``can_read_values`` is False, no step reads a value, and no size depends on one.
    """

    def padding(
        self,
        keys: Tensor,
        shape: tuple[int, ...],
        width: int,
        order: Tensor | None = None,
    ) -> Padding:
        """Return a :class:`Padding`, which makes a padded table of values by key."""
        return Padding(keys, shape, width, self.can_read_values, order)

    # the relevant labels

    def form_of_gains(self, targets: Targets) -> Targets:
        """Return targets of a dense matrix of gains, in their fastest form.

        They are entries if values may be read, else the matrix itself.
        """
        if not self.can_read_values:
            return targets
        # tracing began after the kernels were chosen: the plain kernels make the
        # entries
        if is_compiling():
            return replace(targets, read_by=PLAIN)
        return targets.with_entries(targets.entries)

    def without_void(self, entries: Entries) -> Entries:
        """Return the entries without void ones, and without gains if all are 1.

        On a device, return them unchanged.
        """
        if not self.can_read_values:
            return entries
        # the least number takes a quarter of the time of flags
        if len(entries.ids) and int(entries.ids.min()) < 0:
            entries = entries.at(entries.ids >= 0)
        gains = entries.gains
        if (
            gains is None
            or not len(gains)
            or all(end == 1 for end in torch.aminmax(gains))
        ):
            return replace(entries, gains=None)
        return entries

    def occurrences(self, targets: Targets) -> tuple[Tensor, Tensor]:
        """Return labels (T,) and counts (T,), int64.

        How often a label is relevant is the sum of its counts.
        """
        dense = targets.dense
        if dense is None or self.can_read_values:
            ids = targets.entries.ids
            return ids.clamp(min=0), (ids >= 0).to(torch.int64)
        is_relevant = dense
        if dense.dtype != torch.bool:
            is_relevant = dense > 0
        if targets.row_mask is not None:
            is_relevant = is_relevant & targets.row_mask[:, None]
        return whole_numbers(dense.shape[1], dense.device), is_relevant.sum(dim=0)

    def most(self, n: Tensor, widest: int) -> int:
        """Return the largest of the numbers ``n``.

        On a device, return the bound ``widest`` without reading ``n``.
        """
        if not self.can_read_values:
            return widest
        if not n.numel():
            return 0
        return int(n.max())

    def count_by_bucket(
        self, relevant: RelevantLabels, buckets: LabelBuckets
    ) -> Tensor:
        """Return the number of relevant labels of each row and bucket, (N, G), int64.

        Set ``relevant.maxima`` too.
        """
        targets = relevant.targets
        chunks = self._column_chunks(relevant)
        if chunks is not None and targets.dense is not None:
            counts, relevant.maxima = chunks.counts_and_maxima(
                targets.dense, None, maxima=not targets.binary
            )
            if targets.row_mask is not None:
                counts = counts * targets.row_mask[:, None]
            return counts
        num_buckets = len(buckets)
        if targets.padded is not None and not self.can_read_values:
            bucket_of_target = buckets.of(targets.padded).unsqueeze(2)
            return (
                bucket_of_target == whole_numbers(num_buckets, targets.padded.device)
            ).sum(dim=1)
        keys = targets.keys(buckets)
        counts = sums_by_key(
            torch.ones_like(keys), keys, targets.num_rows * num_buckets
        )
        return counts.view(targets.num_rows, num_buckets)

    def best(
        self, relevant: RelevantLabels, k: int, weights: LabelWeights | None
    ) -> Tensor:
        """Return the largest gains, or weights, of relevant labels, then zeros.

        Gains or weights are in descending order.

        Args:
            relevant: The relevant labels.
            k: The number of gains that are needed; more may be returned, for a later
                call.
            weights: Weights by label, which replace the gains; None for gains.

        Returns:
            Shape (N, W) or (N, G, W), float64.
        """
        targets = relevant.targets
        if weights is None and targets.binary:  # as many ones as relevant labels
            n = relevant.n
            is_relevant = whole_numbers(min(k, relevant.most), n.device) < n.unsqueeze(
                -1
            )
            return is_relevant.to(real_dtype(n.device))
        chunks = self._column_chunks(relevant)
        if chunks is None or targets.dense is None or k > CHUNK:
            return self._best_of_entries(relevant, k, weights)

        maxima = None
        if weights is None:
            maxima = relevant.maxima
        if maxima is None:
            _, maxima = chunks.counts_and_maxima(targets.dense, weights, maxima=True)
        assert maxima is not None
        best = chunks.best(targets.dense, maxima, k, weights)
        if targets.row_mask is not None:
            best = best * targets.row_mask[:, None, None]
        if relevant.buckets is None:
            return best.squeeze(1)
        return best

    def _column_chunks(self, relevant: RelevantLabels) -> ColumnChunks | None:
        """Return the columns of a dense target by bucket.

        None for other targets, and if entries are faster.

        ``torch.compile`` cannot use tables that are kept outside of the graph.
        """
        dense = relevant.targets.dense
        if self.can_read_values or dense is None or not dense.numel() or is_compiling():
            return None
        return ColumnChunks.of(relevant.buckets, dense.shape[1], dense.device)

    def _best_of_entries(
        self, relevant: RelevantLabels, k: int, weights: LabelWeights | None
    ) -> Tensor:
        """Find the largest values of entries: sort them as a flat vector."""
        entries, keys, shape = (
            relevant.targets.entries,
            relevant.keys,
            tuple(relevant.n.shape),
        )
        if weights is not None:
            values = weights.on(keys.device)[entries.ids.clamp(min=0)]
        elif entries.gains is not None:
            values = entries.gains
        else:
            values = torch.ones_like(entries.ids, dtype=real_dtype(entries.ids.device))
        order = torch.where(entries.ids >= 0, values, 0).argsort(
            descending=True, stable=True
        )

        width = min(max(k, SHARED_DEPTH), relevant.most)
        return self.padding(keys, shape, width, order).place(values, 0.0)

    # the ranks of the relevant labels in a list

    def deepest(self, k: int, depth: int) -> int:
        """Return how deep a list of ``depth`` is searched for cut-offs up to ``k``.

        The result is one of few depths.
        """
        list_depth = max(1, depth)
        if self.can_read_values:
            return list_depth
        next_power_of_two = 1 << (k - 1).bit_length()
        return min(max(SHARED_DEPTH, next_power_of_two), list_depth)

    def find_hits(self, targets: Targets, ids: Tensor) -> Any:
        """Look the ids of lists (N, K) up among the relevant labels.

        Only other kernel methods read the result.
        """
        if not ids.shape[1]:
            ids = ids.new_full((len(ids), 1), -1)
        hits, gains = self.relevant_places(targets, ids)
        return Places(ids, hits, gains, min(targets.widest, ids.shape[1]))

    def relevant_places(
        self, targets: Targets, ids: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Return which places of lists (N, K) are hits, and their gains.

        The gains are None if every gain is 1.
        """
        if targets.dense is not None:
            return _in_matrix(targets.dense, ids)
        relevant = targets.padded
        if (
            relevant is not None
            and relevant.numel() * ids.shape[1] <= MOST_PAIRS_COMPARED
        ):
            # targets are padded with -2 instead of -1: the -1 that pads a list then
            # equals no target
            relevant = torch.where(
                targets.padded_with_labels, relevant, constant(-2, relevant.device)
            )
            is_same = ids.unsqueeze(1) == relevant.unsqueeze(2)  # (N, M, K)
            return is_same.any(dim=1), None
        return _searched(targets.entries, ids)

    def hits(self, places: Any, deepest: int) -> Hits:
        """Return the hits in the first ``deepest`` places of each list, (N, W)."""
        is_hit = places.hits[:, :deepest]
        place = whole_numbers(deepest, is_hit.device, first=1)
        ranks = torch.where(is_hit, place, constant(NOT_RANKED, is_hit.device))
        return _side_by_side(places, ranks, lambda values, _: values[:, :deepest])

    def ranks_within(
        self, ids: Tensor, buckets: LabelBuckets
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the bucket and rank of each place, and list lengths by bucket.

        Buckets and ranks have the shape of the lists, (N, D); the rank is the rank
        within the bucket. Lengths have the shape (N, G). The lists are cut into buckets
        by counters: one for each bucket at each place. Places behind the end of a list
        have the bucket G, with ranks of its own. All numbers are int64.
        """
        if not ids.shape[1]:
            ids = ids.new_full((len(ids), 1), -1)
        num_buckets = len(buckets)
        bucket = buckets.of(ids)
        counter = torch.int16 if bucket.shape[1] < 2**15 else torch.int32
        # (N, D, G + 1)
        is_in_bucket = bucket.unsqueeze(2) == whole_numbers(num_buckets + 1, ids.device)
        counts = is_in_bucket.cumsum(dim=1, dtype=counter)
        ranks = counts.gather(2, bucket.unsqueeze(2)).squeeze(2)
        lengths = counts[:, -1, :num_buckets]
        return bucket, ranks.to(torch.int64), lengths.to(torch.int64)

    def first_of_buckets(self, ids: Tensor, buckets: LabelBuckets, k: int) -> Tensor:
        """Return the first ``k`` labels of each bucket in lists (N, D).

        Shape (N, G, k or D), with -1 behind the last label.
        """
        num_rows, depth = ids.shape
        num_buckets, k = len(buckets), min(k, depth)
        bucket, ranks, _ = self.ranks_within(ids, buckets)

        # a table with k columns for each bucket, and a last column that takes all other
        # labels
        last = num_buckets * k
        is_first = (ranks <= k) & (bucket < num_buckets)
        columns = torch.where(is_first, bucket * k + ranks - 1, last)
        table = ids.new_full((num_rows, last + 1), -1)
        table.scatter_(1, columns[:, :depth], ids)
        return table[:, :last].reshape(num_rows, num_buckets, k)

    def within_buckets(
        self, places: Any, ids: Tensor, buckets: LabelBuckets, deepest: int
    ) -> tuple[Hits, Tensor]:
        """Return the hits with ranks within their bucket, and lengths by bucket.

        A rank counts the listed labels of the bucket of the hit.

        Args:
            places: The result of :meth:`find_hits`.
            ids: Shape (N, D), int64: the lists, which may be cut.
            buckets: G buckets.
            deepest: No greater rank is read.

        Returns:
            Hits of shape (N, G, W), lengths of shape (N, G), int64.
        """
        bucket, ranks, length = self.ranks_within(ids, buckets)
        return _table_of_hits(places, bucket, ranks, len(buckets), deepest), length

    def by_bucket(self, places: Any, buckets: LabelBuckets, deepest: int) -> Hits:
        """Return the hits of each row and bucket, shape (N, G, W).

        Their ranks are ranks in the whole list.
        """
        bucket = buckets.of(places.ids[:, :deepest])
        ranks = whole_numbers(deepest, bucket.device, first=1).expand(bucket.shape)
        return _table_of_hits(places, bucket, ranks, len(buckets), deepest)

    def split(self, hits: Hits, buckets: LabelBuckets) -> Hits:
        """Split the hits of rows (N, W) by bucket, (N, G, W); ranks do not change."""
        num_rows, width = hits.ranks.shape
        num_buckets = len(buckets)
        ranks, ids, gains = hits.ranks.reshape(-1), hits.ids.reshape(-1), hits.gains
        if gains is not None:
            gains = gains.reshape(-1)
        keys = rows_of_cells(hits.ids) * num_buckets + buckets.of(ids)
        keys = torch.where(ranks < NOT_RANKED, keys, num_rows * num_buckets)
        in_order = torch.arange(len(keys), device=keys.device)
        return self.padding(keys, (num_rows, num_buckets), width, in_order).hits(
            ranks, ids, gains
        )

    def in_order(self, entries: Entries, ranks: Tensor, num_rows: int) -> Hits:
        """Return entries with ``ranks`` (T,) as the hits of each row, (N, W)."""
        padding = self.padding(
            entries.rows, (num_rows,), entries.width, ranks.argsort(stable=True)
        )
        return padding.hits(ranks, entries.ids, entries.gains)

    def rows_with_hits(self, hits: Hits) -> Tensor | None:
        """Return the rows with a hit, shape (R,), int64.

        None on a device, or if more than half of the rows have a hit.
        """
        if not self.can_read_values:
            return None
        first_ranks: Any = hits.ranks[..., 0].numpy()
        has_hit = first_ranks < NOT_RANKED
        if has_hit.ndim > 1:
            has_hit = has_hit.any(axis=1)
        rows = np.flatnonzero(has_hit)
        if 2 * len(rows) > len(has_hit):
            return None
        return torch.from_numpy(rows)

    # counts of higher scores

    def exact_ranks(
        self, scores: Tensor, entries: Entries, own: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Return the rank of each relevant label, and how many labels equal its score.

        The rank is one more than the number of labels with a higher score, or with an
        equal score and a lower id. A label with score -inf is not retrieved: its rank
        is ``NOT_RANKED``. For a matrix of relevant labels on a device, whole rows are
        sorted, and no equal scores are counted.

        Args:
            scores: Shape (N, L), floating.
            entries: T relevant labels of the N rows.
            own: Shape (T,): the scores of these labels, any number for a void entry.

        Returns:
            The ranks, shape (T,), int64; and the numbers of equal scores, the label
            itself included, or None.
        """
        labels, num_equal = entries.ids, None
        counts = self._counts_of_entries(scores, entries, own)
        if counts is None:
            ranks = ranks_of_all(scores)[entries.rows, labels.clamp(min=0)].to(
                torch.int64
            )
        else:
            above, num_equal, before = counts
            ranks = above + before + 1
        is_retrieved = (labels >= 0) & (own > -torch.inf)
        return torch.where(is_retrieved, ranks, NOT_RANKED), num_equal

    def _counts_of_entries(
        self, scores: Tensor, entries: Entries, own: Tensor
    ) -> Tensor | None:
        """Return the counts of :meth:`counts_above`, without waiting.

        None if sorting all rows is faster.
        """
        rows, labels, num_entries = entries.rows, entries.ids, len(entries.ids)
        if self.can_read_values:
            return self.counts_above(scores, rows, own, labels)

        num_rows, num_labels = scores.shape
        if not num_entries:
            return rows.new_zeros(3, 0)
        is_table = num_entries == num_rows * entries.width
        if is_table and entries.width < num_labels:
            shape = num_rows, entries.width
            return _counts_in_rows(
                self, scores, own.view(shape), labels.view(shape)
            ).flatten(1)
        if is_table or num_entries > FEW_TARGETS * num_rows:
            return None
        height = rows_at_once(_matrices.SCORES_SORTED_AT_ONCE, num_labels)
        counts = []
        for block_rows, block_own, block_labels in in_blocks(
            height, rows, own[:, None], labels[:, None]
        ):
            counts.append(
                _counts_one_by_one(self, scores[block_rows], block_own, block_labels)
            )
        return torch.cat(counts, dim=1).squeeze(2)

    def best_of_matrix(self, scores: Tensor, targets: Targets) -> Entries:
        """Return the relevant label with the highest score of each row.

        Of equal scores, the lowest label is returned. The target is a dense matrix.
        """
        assert targets.dense is not None
        height = rows_at_once(4 * _matrices.SCORES_SORTED_AT_ONCE, scores.shape[1])
        best_scores, best_labels = [], []
        for block_scores, block_dense in in_blocks(height, scores, targets.dense):
            block_best = block_scores.masked_fill(block_dense <= 0, -torch.inf).max(
                dim=1
            )
            best_scores.append(block_best.values)
            best_labels.append(block_best.indices)

        is_retrieved = torch.cat(best_scores) > -torch.inf
        if targets.row_mask is not None:
            is_retrieved = is_retrieved & targets.row_mask
        ids = torch.where(
            is_retrieved, torch.cat(best_labels), constant(-1, scores.device)
        )
        return Entries(whole_numbers(len(ids), ids.device), ids, None, 1)

    def counts_above(
        self, scores: Tensor, rows: Tensor, own: Tensor, labels: Tensor
    ) -> Tensor:
        """Count, for given labels, higher scores, equal ones, and equal ones before.

        Equal scores are before the given label if their label is lower. Only scores of
        the same row count.

        The program waits for the device, because it reads the number of given labels of
        a row.

        Args:
            scores: Shape (N, C): the scores of some labels.
            rows: Shape (T,), int64, ascending: the row of each given label.
            own: Shape (T,): the scores of the given labels, of the type of ``scores``.
            labels: Shape (T,), int64: the given labels as columns of ``scores``; they
                may be negative, or C or more.

        Returns:
            The three counts, shape (3, T), int64. A given label that is one of the
            columns counts as equal to itself.
        """
        width = int(torch.bincount(rows, minlength=1).max())
        padding = self.padding(rows, (len(scores),), width)
        counts = _counts_in_rows(
            self, scores, padding.place(own, torch.inf), padding.place(labels, 0)
        )
        return counts[:, padding.filled]


def _table_of_hits(
    places: Places, bucket: Tensor, ranks: Tensor, num_buckets: int, deepest: int
) -> Hits:
    """Return the hits of each row and bucket.

    A hit of rank r is written to column r, then the columns are sorted.

    Args:
        places: The hits among the places of lists.
        bucket: Shape (N, D): the bucket of each place.
        ranks: Shape (N, D): the rank of each place.
        num_buckets: G.
        deepest: No greater rank is read.
    """
    num_rows, num_places = ranks.shape
    row_size = num_buckets * deepest
    num_cells = num_rows * row_size

    # cell 0 takes the places without a hit; the cells of the first row begin behind it,
    # as ranks begin with 1
    is_hit = places.hits[:, :num_places] & (ranks <= deepest)
    row_starts = torch.arange(0, num_cells, row_size, device=ranks.device)
    cells = (ranks + row_starts[:, None]).add_(bucket, alpha=deepest)
    cells = cells.mul_(is_hit).view(-1)

    def table(values: Tensor, fill: float) -> Tensor:
        flat = values.new_full((1 + num_cells,), fill)
        flat.scatter_(0, cells, values[:, :num_places].reshape(-1))
        return flat[1:].view(num_rows, num_buckets, deepest)

    return _side_by_side(places, table(ranks, NOT_RANKED), table)


def _in_matrix(dense: Tensor, ids: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return :meth:`Kernels.relevant_places` of a matrix (N, L)."""
    if not dense.shape[1]:
        return torch.zeros_like(ids, dtype=torch.bool), None
    cells = dense.gather(1, ids.clamp(min=0))
    is_hit = (cells > 0) & (ids >= 0)
    if dense.dtype == torch.bool:
        return is_hit, None
    return is_hit, cells.to(real_dtype(ids.device))


def _side_by_side(
    places: Places, ranks: Tensor, table: Callable[[Tensor, float], Tensor]
) -> Hits:
    """Return hits sorted by rank, in as many columns as a row may have hits.

    Args:
        places: The hits among the places of lists.
        ranks: Shape (..., D), int64, in any order, ``NOT_RANKED`` where there is no
            hit.
        table: A function of values (N, K) of the places and a fill value; returns them
            in the order of ``ranks``.
    """
    ranks, order = ranks.sort(dim=-1)
    # an even number of terms adds up in fewer steps
    even_most = places.most + places.most % 2
    width = max(1, min(even_most, ranks.shape[-1]))
    ranks, order = ranks[..., :width], order[..., :width]
    if ranks.numel() > LARGE_TABLE:
        ranks, order = ranks.clone(), order.clone()
    return LazyHits(
        ranks, places, lambda values, fill: table(values, fill).gather(-1, order)
    )


def _searched(entries: Entries, ids: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return :meth:`Kernels.relevant_places` of entries, by binary search."""
    if not len(entries.ids):
        return torch.zeros_like(ids, dtype=torch.bool), None
    # each id is replaced by its place among the sorted ids: (row, place) fits into 64
    # bits, (row, id) might not
    relevant_ids = entries.ids.sort().values
    size = len(relevant_ids)
    place = torch.searchsorted(relevant_ids, entries.ids)
    keys = entries.rows * (size + 1) + place
    void_key = torch.iinfo(torch.int64).max
    keys, order = torch.where(entries.ids < 0, void_key, keys).sort()

    listed_place = torch.searchsorted(relevant_ids, ids.contiguous())
    is_relevant_somewhere = relevant_ids[listed_place.clamp(max=size - 1)] == ids
    rows = torch.arange(len(ids), device=ids.device)[:, None]
    listed_keys = torch.where(
        is_relevant_somewhere, rows * (size + 1) + listed_place, -1
    )

    nearest = torch.searchsorted(keys, listed_keys).clamp(max=size - 1)
    is_hit = (keys[nearest] == listed_keys) & (ids >= 0)
    if entries.gains is None:
        return is_hit, None
    return is_hit, entries.gains[order[nearest]]


def _counts_in_rows(
    kernels: Kernels, scores: Tensor, own: Tensor, labels: Tensor
) -> Tensor:
    """Return :meth:`Kernels.counts_above` for tables (N, W), shape (3, N, W)."""
    count: Any = counts_by_sorting
    cells = _matrices.SCORES_SORTED_AT_ONCE
    if own.shape[1] <= FEW_TARGETS:
        count = partial(_counts_one_by_one, kernels)
        cells = _matrices.SCORES_COMPARED_AT_ONCE
    height = rows_at_once(cells, scores.shape[1])
    return torch.cat(
        [count(*blocks) for blocks in in_blocks(height, scores, own, labels)], dim=1
    )


def _counts_one_by_one(
    kernels: Kernels, scores: Tensor, own: Tensor, labels: Tensor
) -> Tensor:
    """Count in one pass over the scores for each column of ``own`` and ``labels``."""
    columns = torch.arange(scores.shape[1], device=scores.device)
    counts = []
    for own_score, label in zip(
        torch.split(own, 1, dim=1), torch.split(labels, 1, dim=1), strict=True
    ):
        num_above = kernels.count_true(scores > own_score)
        is_equal = scores == own_score
        num_equal = kernels.count_true(is_equal)
        if kernels.can_read_values and not bool((num_equal > 1).any()):
            # a column equals itself alone
            num_equal_before = num_equal * (label[:, 0] >= len(columns))
        else:
            num_equal_before = kernels.count_true(
                is_equal.logical_and_(columns < label)
            )
        counts.append(torch.stack([num_above, num_equal, num_equal_before]))
    return torch.stack(counts, dim=2)


PLAIN = Kernels()
