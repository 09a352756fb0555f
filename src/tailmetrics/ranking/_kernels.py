"""The steps of a batch that depend on where it lives, in the form that never looks at a value, as a device demands.

Where only a look at a value makes the difference, a step asks :attr:`Kernels.reads`. Where the CPU goes another way,
:mod:`tailmetrics.ranking._kernels_cpu` has a step of its own. A batch chooses its form once, when it is read; formulas,
states and rankings never ask. All forms give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from tailmetrics.buckets import LabelBuckets
from tailmetrics.ranking import _matrices
from tailmetrics.ranking._device import (
    constant,
    is_compiling,
    looked_up,
    num_threads,
    once,
    over_threads,
    real_dtype,
    whole_numbers,
)
from tailmetrics.ranking._hits import (
    NOT_RANKED,
    Entries,
    Hits,
    LabelWeights,
    LazyHits,
    ListCheck,
    Padding,
    entries_of_ids,
)
from tailmetrics.ranking._matrices import (
    CHUNK,
    ColumnChunks,
    above,
    counts_by_sorting,
    counts_one_by_one,
    plain_top_k,
    ranks_by_bars,
    ranks_of_all,
    tournament,
)

DEEP = 16
"""Ranks are found at least to this depth, and as many of the best gains: most cut-offs then share one search."""

ROUND_SCORES = 2**28
"""Scores of one tournament: what it holds beside them is a third of that, a third of a gigabyte of float32."""

COMPARED = 2**27
"""Comparisons of a relevant label with a place of a list up to which all of them are made: 128 MB of flags."""

LARGE = 2**20
"""Ranks from which a part of a table is copied, so that the table is not kept for its sake: 8 MB."""

BLOCK_SCORES = 2**22
"""Scores that a thread compares at once: 4 MB of flags, which a cache holds for every threshold.

Labels take 16 bytes for each that is found, on a device 32 MB.
"""

ROW_BY_ROW = 2**11
"""Labels of a mask from which rows are counted one by one: a row costs .3 us more, a label a quarter of the time."""

PADDED = 8
"""Cells side by side for each value up to which they are sorted there; sorting all takes some such places for each."""

FEW_TARGETS = 32
"""Up to this many relevant labels in a row counting better scores is cheaper than sorting the row."""


Found = TypeVar("Found")


@dataclass(eq=False)
class Targets:
    """The relevant labels of ``num_rows`` rows, in one of three forms: a dense matrix, padded ids, or entries.

    Attributes:
        num_rows: N.
        num_labels: L, or None when the form does not tell (label ids).
        row_mask: Shape (N,), bool; rows that count, None for all. Other rows have no relevant label.
        form: The kernels with which the batch is read.
        dense: Shape (N, L), bool or gains.
        padded: Shape (N, M), int64: label ids with gain 1, -1 padded.
        filled: Whether every place of ``padded`` is known to hold a label.
        given: Entries, where it is neither.
    """

    num_rows: int
    num_labels: int | None
    row_mask: Tensor | None
    form: Kernels
    dense: Tensor | None = None
    padded: Tensor | None = None
    given: Entries | None = None
    filled: bool = False

    @property
    def kernels(self) -> Kernels:
        """The form in which the batch is read; the plain one while ``torch.compile`` traces."""
        return PLAIN if is_compiling() else self.form

    @property
    def binary(self) -> bool:
        """Whether the form tells that every relevant label has gain 1; it does not look at gains."""
        if self.dense is not None:
            return self.dense.dtype == torch.bool
        return self.given is None or self.given.gains is None

    @property
    def widest(self) -> int:
        """An upper bound of the number of relevant labels of a row, known without looking at them."""
        if self.dense is not None:
            return self.dense.shape[1]
        return self.padded.shape[1] if self.padded is not None else self.entries.width

    @property
    def device(self) -> torch.device:
        """The device the targets live on."""
        for form in (self.dense, self.padded):
            if form is not None:
                return form.device
        return self.entries.ids.device

    @once
    def entries(self) -> Entries:
        """All relevant labels as flat entries."""
        if self.padded is not None:
            return self.kernels.without_void(entries_of_ids(self.padded, None))
        if self.dense is not None:
            return self.kernels.entries_of(self.dense, self.row_mask)
        assert self.given is not None
        return self.given

    @once
    def padded_with_labels(self) -> Tensor:
        """Where ``padded`` holds a label, shape (N, M), bool."""
        assert self.padded is not None
        return self.padded >= 0

    @once
    def starts(self) -> Tensor:
        """Where the entries of each row begin, and where the last end, shape (N + 1,), int64; none may be void."""
        return F.pad(self.n_relevant.cumsum(dim=0), (1, 0))

    @once
    def n_relevant(self) -> Tensor:
        """Number of relevant labels per row, shape (N,), int64."""
        if self.filled:
            assert self.padded is not None
            return torch.full((self.num_rows,), self.padded.shape[1], device=self.padded.device)
        if self.padded is not None:
            return self.padded_with_labels.sum(dim=1)
        if self.dense is None and self.kernels.reads:
            return torch.bincount(self.entries.rows, minlength=self.num_rows)
        if self.dense is None:
            relevant = (self.entries.ids >= 0).to(torch.int64)
            zeros = torch.zeros(self.num_rows, dtype=torch.int64, device=self.device)
            return zeros.scatter_add_(0, self.entries.rows, relevant)
        counts = self.kernels.count_true(self.dense if self.binary else self.dense > 0)
        return counts if self.row_mask is None else counts * self.row_mask

    def keys(self, buckets: LabelBuckets | None) -> Tensor:
        """Return the row, or row and bucket, of each entry as one number; that behind the last for void ones."""
        entries, groups = self.entries, 1 if buckets is None else len(buckets)
        keys = entries.rows if buckets is None else entries.rows * groups + buckets.of(entries.ids)
        return torch.where(entries.ids >= 0, keys, self.num_rows * groups)

    def without_void(self) -> Targets:
        """Return the same targets without entries that are no label. It waits for the device."""
        dense, entries = self.dense, self.entries if self.dense is None or self.kernels.reads else None
        if entries is None:
            assert dense is not None
            rows, ids = (dense > 0).nonzero().unbind(1)
            gains = None if self.binary else dense[rows, ids].to(real_dtype(dense.device))
            entries = Entries(rows, ids, gains, 0)
            entries = entries if self.row_mask is None else entries.at(self.row_mask[rows])
        elif not self.kernels.reads:
            entries = entries.at(entries.ids >= 0)
        width = int(torch.bincount(entries.rows, minlength=1).max())
        return replace(self, dense=None, padded=None, given=replace(entries, width=width), filled=False)

    def at_least(self, min_gain: float) -> Targets:
        """Return the same with only the labels of a gain of at least ``min_gain`` > 0 as relevant."""
        if self.binary and min_gain <= 1:
            return self
        if self.dense is not None and not self.binary:
            return replace(self, dense=torch.where(self.dense >= min_gain, self.dense, 0))
        entries = self.entries
        gains = torch.ones_like(entries.ids) if entries.gains is None else entries.gains
        relevant = self.kernels.without_void(replace(entries, ids=torch.where(gains >= min_gain, entries.ids, -1)))
        return replace(self, dense=None, padded=None, given=relevant, filled=False)


@dataclass(frozen=True, eq=False)
class Places:
    """The places of ranked lists that hold a relevant label.

    Attributes:
        ids: Shape (N, K), int64, the lists of label ids; K >= 1.
        hits: Shape (N, K), bool: whether the label at a place is relevant.
        gains: Shape (N, K), float64, the gain of each hit, any number at other places; None where every gain is 1.
        most: An upper bound of the number of hits in a row.
    """

    ids: Tensor
    hits: Tensor
    gains: Tensor | None
    most: int


class Kernels:
    """The steps of a batch; where ``reads`` is false none looks at a value, and no size depends on one."""

    reads = False
    """Whether values may be looked at, and sizes may depend on them."""

    def padding(self, keys: Tensor, shape: tuple[int, ...], width: int, order: Tensor | None = None) -> Padding:
        """Return what puts values side by side, no wider than it must be where values may be read."""
        return Padding(keys, shape, width, self.reads, order)

    # what the labels of a row are

    def top_k(self, scores: Tensor, k: int) -> tuple[Tensor, Tensor, bool, bool]:
        """Return the ``k`` best labels of each row, of equal scores the lower label first.

        Only chunks of a row that can hold one of its best labels are looked into, until what is left is narrow enough
        to be sorted in one pass. Each choice is a stable sort, so that ties need no repair. At [1024, 131072] and
        k = 500 that moves 1.1 GB by 45 launches, sorting everything 23 GB by 6.

        Args:
            scores: Shape (N, L), floating.
            k: At most L.

        Returns:
            Values, best first, of shape (N, min(k + 1, L)): one more than asked for shows whether the cut falls inside
            a tie. Ids of shape (N, k), int64. Whether the values are known to fall from place to place. Whether those
            of the ids are known to be neither NaN nor -inf.
        """
        if not scores.numel() or k == 0:
            return *plain_top_k(scores, k), False, False
        height = max(1, ROUND_SCORES // scores.shape[1])
        depth = min(k + 1, scores.shape[1])
        parts = [tournament(part, depth) for part in torch.split(scores, height)]
        if len(parts) == 1:
            values, ids = parts[0][0].clone(memory_format=torch.contiguous_format), parts[0][1].contiguous()
        else:  # either way not parts of something wide that would be kept
            values, ids = map(torch.cat, zip(*parts, strict=True))
        return values, ids[:, :k], False, False

    def look_through(self, ids: Tensor) -> ListCheck:
        """Return the lowest and highest id of lists (N, K), a gap and a repeated id; it waits for a device."""
        if not ids.numel():
            return ListCheck(0, -1, None, None)
        lowest, highest, gaps, repeats = zip(*self.over_rows(self._look_through, ids), strict=True)
        gap, repeat = (next((row for row in rows if row is not None), None) for rows in (gaps, repeats))
        return ListCheck(min(lowest), max(highest), gap, repeat)

    def _look_through(self, ids: Tensor, first: int) -> ListCheck:
        """Return the same of some of the rows, given the number of the first of them."""
        lowest, highest = (int(end) for end in torch.aminmax(ids))
        if ids.shape[1] == 1:
            return ListCheck(lowest, highest, None, None)
        rows: Any = ids  # what follows is spelled alike in torch and NumPy
        if self.reads:  # NumPy takes a quarter of torch's time, and less for ids of a few bytes
            rows = ids.numpy()
            ordered: Any = rows.astype(np.promote_types(np.int16, np.min_scalar_type(min(lowest, ~highest))))
            ordered.sort(axis=1)
        else:
            ordered = ids.sort(dim=1).values
        repeats, gaps = ordered[:, 1:] == ordered[:, :-1], rows[:, :0]
        if lowest < 0:
            repeats, gaps = repeats & (ordered[:, 1:] >= 0), (rows[:, 1:] >= 0) & (rows[:, :-1] < 0)
        found = ((flags.any(1) * 1).argmax() if bool(flags.any()) else None for flags in (gaps, repeats))
        gap, repeat = (None if row is None else first + int(row) for row in found)
        return ListCheck(lowest, highest, gap, repeat)

    def repeated(self, ids: Tensor) -> Tensor:
        """Return where an id stands that stands before in the same row of ``ids`` (N, K), bool (N, K)."""
        ordered, order = ids.sort(dim=1, stable=True)
        repeated = torch.zeros_like(ids, dtype=torch.bool)
        repeated[:, 1:] = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
        return torch.zeros_like(repeated).scatter_(1, order, repeated)

    def best_first(self, scores: Tensor, ids: Tensor) -> tuple[Tensor, Tensor, bool]:
        """Return scored candidates (N, C) in order, the best first, of equal scores the lower id.

        The third value is True if each row is known to have a candidate, and no two equal scores. Candidates that are
        in order already are returned unchanged.
        """
        if self.reads:  # most files and indexes give lists: only the rows that are out of order are sorted
            falling, some = scores[:, :-1] > scores[:, 1:], scores.shape[1] > 0
            if some and falling.numpy().all() and bool((scores[:, 0] > -torch.inf).all()):  # a hundredth of torch
                return scores, ids, True
            in_order = (falling | (scores[:, 1:] == -torch.inf)).numpy().all(axis=1)
            rows = torch.from_numpy(np.flatnonzero(~in_order))
            if not len(rows):
                return scores, ids, some and bool((scores[:, 0] > -torch.inf).all())
            if len(rows) < len(scores):
                scores, ids = scores.clone(), ids.clone()
                scores[rows], ids[rows], _ = self.best_first(scores[rows], ids[rows])
                return scores, ids, False
        order = ids.argsort(dim=1, stable=True)
        order = order.gather(1, scores.gather(1, order).argsort(dim=1, descending=True, stable=True))
        return scores.gather(1, order), ids.gather(1, order), False

    # what is relevant

    def form_of_gains(self, targets: Targets) -> Targets:
        """Return a dense matrix of gains in the form in which its cells are found fastest."""
        if not self.reads:
            return targets
        if is_compiling():  # from here on, though the door was not traced: entries will be those of the plain form
            return replace(targets, form=PLAIN)
        return replace(targets, dense=None, given=targets.entries)

    def without_void(self, entries: Entries) -> Entries:
        """Return the entries without void ones, and without gains if all are 1; a device is not read."""
        if not self.reads:
            return entries
        relevant = entries.ids >= 0
        entries = entries if bool(relevant.all()) else entries.at(relevant)
        without_gains = entries.gains is None or bool((entries.gains == 1).all())
        return replace(entries, gains=None) if without_gains else entries

    def entries_of(self, matrix: Tensor, row_mask: Tensor | None) -> Entries:
        """Return the cells above 0 of a matrix (N, L) in the rows that count, bool or gains, row by row.

        On a device an entry for each cell, void where nothing is relevant: no size depends on the data.
        """
        num_rows, num_labels = matrix.shape
        relevant = matrix if matrix.dtype == torch.bool else matrix > 0
        if self.reads:
            flat = np.flatnonzero(relevant.numpy())  # several times as fast as torch's nonzero
            rows, ids = (torch.from_numpy(part) for part in np.divmod(flat, max(1, num_labels)))
            if row_mask is not None:
                rows, ids = rows[row_mask[rows]], ids[row_mask[rows]]
        else:
            relevant = relevant if row_mask is None else relevant & row_mask[:, None]
            ids = torch.where(relevant, torch.arange(num_labels, device=matrix.device), -1).reshape(-1)
            rows = torch.arange(num_rows, device=matrix.device).repeat_interleave(num_labels, output_size=ids.numel())
        if matrix.dtype == torch.bool:
            return Entries(rows, ids, None, num_labels)
        gains = (matrix[rows, ids] if self.reads else matrix.reshape(-1)).to(real_dtype(matrix.device))
        return Entries(rows, ids, None if self.reads and bool((gains == 1).all()) else gains, num_labels)

    def count_true(self, mask: Tensor) -> Tensor:
        """Return the number of True in each row of a mask (N, L), int64."""
        if not self.reads:
            return mask.sum(dim=1)
        rows = mask.numpy()  # torch's sum takes 20 times as long
        if mask.shape[1] < ROW_BY_ROW:
            return torch.from_numpy(np.count_nonzero(rows, axis=1))
        return torch.from_numpy(np.fromiter(map(np.count_nonzero, rows), np.int64, len(rows)))

    def occurrences(self, targets: Targets) -> tuple[Tensor, Tensor]:
        """Return labels (T,) and how often each is relevant (T,), int64; a label may stand in several places."""
        dense = targets.dense
        if dense is None or self.reads:
            ids = targets.entries.ids
            return ids.clamp(min=0), (ids >= 0).to(torch.int64)
        relevant = dense if dense.dtype == torch.bool else dense > 0
        relevant = relevant if targets.row_mask is None else relevant & targets.row_mask[:, None]
        return whole_numbers(dense.shape[1], dense.device), relevant.sum(dim=0)

    def most(self, n: Tensor, widest: int) -> int:
        """Return the largest of the numbers ``n``, or the bound ``widest`` that is known without looking at them."""
        if not self.reads:
            return widest
        return int(n.max()) if n.numel() else 0

    def count_by_bucket(self, targets: Targets, buckets: LabelBuckets, seen: dict[str, Tensor]) -> Tensor:
        """Return the number of relevant labels of each row and bucket, shape (N, G), int64.

        Args:
            targets: What is relevant.
            buckets: G buckets.
            seen: Takes what was seen on the way, for :meth:`best`: a matrix is then read once.
        """
        chunks = None if self.reads else _columns_of(targets, buckets)
        if chunks is not None and targets.dense is not None:
            counts, maxima = chunks.look_over(targets.dense, None, maxima=not targets.binary)
            if maxima is not None:
                seen["maxima"] = maxima
            return counts if targets.row_mask is None else counts * targets.row_mask[:, None]
        if targets.padded is not None and not self.reads:
            groups = whole_numbers(len(buckets), targets.padded.device)
            return (buckets.of(targets.padded).unsqueeze(2) == groups).sum(dim=1)
        keys = targets.keys(buckets)
        counts = torch.zeros(targets.num_rows * len(buckets) + 1, dtype=torch.int64, device=keys.device)
        return counts.scatter_add_(0, keys, torch.ones_like(keys))[:-1].view(targets.num_rows, len(buckets))

    def best(
        self,
        targets: Targets,
        buckets: LabelBuckets | None,
        k: int,
        most: int,
        weights: LabelWeights | None,
        seen: dict[str, Tensor],
    ) -> Tensor:
        """Return the largest gains of the relevant labels, or the largest of ``weights``, largest first, then zeros.

        Args:
            targets: What is relevant.
            buckets: G buckets; None for none.
            k: How many are wanted; more may be returned, for whoever asks next.
            most: No row, or row and bucket, has more relevant labels.
            weights: What to sort instead of the gains, by label.
            seen: What :meth:`count_by_bucket` saw.

        Returns:
            Shape (N, W) or (N, G, W), float64.
        """
        if weights is None and targets.binary:
            n = targets.n_relevant if buckets is None else self.count_by_bucket(targets, buckets, seen)
            return (whole_numbers(min(k, most), n.device) < n.unsqueeze(-1)).to(real_dtype(n.device))
        chunks = None if self.reads else _columns_of(targets, buckets)
        if chunks is None or targets.dense is None or k > CHUNK:
            return self._best_of_entries(targets, buckets, k, most, weights)
        maxima = seen.get("maxima") if weights is None else None
        maxima = chunks.look_over(targets.dense, weights, maxima=True)[1] if maxima is None else maxima
        assert maxima is not None
        best = chunks.best(targets.dense, maxima, k, weights)
        best = best if targets.row_mask is None else best * targets.row_mask[:, None, None]
        return best.squeeze(1) if buckets is None else best

    def _best_of_entries(
        self, targets: Targets, buckets: LabelBuckets | None, k: int, most: int, weights: LabelWeights | None
    ) -> Tensor:
        """Sort all values, then by row and bucket, or side by side where that takes no more memory."""
        entries = targets.entries
        if self.reads and buckets is None and len(entries.ids) and targets.num_rows * most <= PADDED * len(entries.ids):
            values = entries.gains if weights is None else looked_up(weights.on(entries.ids.device), entries.ids)
            assert values is not None  # gains of 1 need no order
            table = self.padding(entries.rows, (targets.num_rows,), most).place(values, 0.0)
            # a quarter of the time of torch's sort; a column in one piece, as formulas read them
            return torch.from_numpy(np.sort(table.numpy(), axis=1)[:, ::-1][:, : max(k, DEEP)].copy(order="F"))
        keys = targets.keys(buckets)
        if weights is not None:
            value = weights.on(keys.device)[entries.ids.clamp(min=0)]
        elif entries.gains is not None:
            value = entries.gains
        else:
            value = torch.ones_like(entries.ids, dtype=real_dtype(entries.ids.device))
        order = torch.where(entries.ids >= 0, value, 0).argsort(descending=True, stable=True)
        shape = (targets.num_rows,) if buckets is None else (targets.num_rows, len(buckets))
        return self.padding(keys, shape, min(max(k, DEEP), most), order).place(value, 0.0)

    # where it stands

    def deepest(self, k: int, depth: int) -> int:
        """Return how deep a list of ``depth`` is looked into for cut-offs up to ``k``: few depths, to share them."""
        return max(1, depth) if self.reads else min(max(DEEP, 1 << (k - 1).bit_length()), max(1, depth))

    def look_up(self, targets: Targets, ids: Tensor) -> Any:
        """Look lists (N, K) up among what is relevant; what is found is for the other methods to read."""
        ids = ids if ids.shape[1] else ids.new_full((len(ids), 1), -1)
        hits, gains = _looked_up(targets, ids)
        return Places(ids, hits, gains, min(targets.widest, ids.shape[1]))

    def hits(self, found: Any, deepest: int) -> Hits:
        """Return the hits among the first ``deepest`` places of each list, shape (N, W)."""
        hits = found.hits[:, :deepest]
        places = whole_numbers(deepest, hits.device, first=1)
        ranks = torch.where(hits, places, constant(NOT_RANKED, hits.device))
        return _side_by_side(found, ranks, lambda values, _: values[:, :deepest])

    def ranks_within(self, ids: Tensor, buckets: LabelBuckets) -> tuple[Tensor, Tensor, Tensor]:
        """Return the bucket of each place of lists (N, D), its rank within it, and the length of each (N, G), int64.

        A counter of each bucket at each place. What stands behind the end of a list has ranks of its own.
        """
        bucket = buckets.of(ids if ids.shape[1] else ids.new_full((len(ids), 1), -1))
        counter = torch.int16 if bucket.shape[1] < 2**15 else torch.int32
        inside = bucket.unsqueeze(2) == whole_numbers(len(buckets) + 1, ids.device)  # the last is the end of a list
        counts = inside.cumsum(dim=1, dtype=counter)
        ranks = counts.gather(2, bucket.unsqueeze(2)).squeeze(2)
        return bucket, ranks.to(torch.int64), counts[:, -1, : len(buckets)].to(torch.int64)

    def within_buckets(self, found: Any, ids: Tensor, buckets: LabelBuckets, deepest: int) -> tuple[Hits, Tensor]:
        """Return the hits by their rank among the labels of their bucket, and how many labels the lists have of each.

        Args:
            found: What :meth:`look_up` returned.
            ids: Shape (N, D), int64: the lists, which may be cut.
            buckets: G buckets.
            deepest: No greater rank is read.

        Returns:
            Hits of shape (N, G, W), lengths of shape (N, G), int64.
        """
        bucket, ranks, length = self.ranks_within(ids, buckets)
        return _table_of_hits(found, bucket, ranks, len(buckets), deepest), length

    def of_buckets(self, found: Any, buckets: LabelBuckets, deepest: int) -> Hits:
        """Return the hits of each row and bucket by their rank in the whole list, shape (N, G, W)."""
        bucket = buckets.of(found.ids[:, :deepest])
        ranks = whole_numbers(deepest, bucket.device, first=1).expand(bucket.shape)
        return _table_of_hits(found, bucket, ranks, len(buckets), deepest)

    def split(self, hits: Hits, buckets: LabelBuckets) -> Hits:
        """Return hits (N, W) of whole rows as hits of each row and bucket (N, G, W), with the ranks that they have."""
        num_rows, width = hits.ranks.shape
        rows = torch.arange(num_rows, device=hits.ranks.device).repeat_interleave(width, output_size=num_rows * width)
        ranks, ids = hits.ranks.reshape(-1), hits.ids.reshape(-1)
        keys = torch.where(ranks < NOT_RANKED, rows * len(buckets) + buckets.of(ids), num_rows * len(buckets))
        padding = self.padding(keys, (num_rows, len(buckets)), width, torch.arange(len(keys), device=keys.device))
        return padding.hits(ranks, ids, None if hits.gains is None else hits.gains.reshape(-1))

    def in_order(self, entries: Entries, ranks: Tensor, num_rows: int) -> Hits:
        """Return entries with their ``ranks`` (T,) as the hits of each row, shape (N, W)."""
        padding = self.padding(entries.rows, (num_rows,), entries.width, ranks.argsort(stable=True))
        return padding.hits(ranks, entries.ids, entries.gains)

    def rows_with_hits(self, hits: Hits) -> Tensor | None:
        """Return the rows with a hit, shape (R,), int64; None if they are more than half, or on a device."""
        if not self.reads:
            return None
        found = hits.ranks[..., 0].numpy() < NOT_RANKED
        rows = np.flatnonzero(found if found.ndim == 1 else found.any(axis=1))
        return torch.from_numpy(rows) if 2 * len(rows) <= len(found) else None

    # what stands above it

    def exact_ranks(self, scores: Tensor, entries: Entries) -> Tensor:
        """Return the rank of each relevant label among all labels of its row, from 1, ties to the lower id.

        The rank is one more than the number of labels with a higher score, or with an equal score and a lower id. A
        label with score -inf is not retrieved: its rank is ``NOT_RANKED``.

        Args:
            scores: Shape (N, L), floating.
            entries: T relevant labels of the N rows.

        Returns:
            Shape (T,), int64.
        """
        if not len(entries.ids):
            return entries.ids
        if len(entries.ids) > FEW_TARGETS * len(scores):
            ranks = ranks_of_all(scores)[entries.rows, entries.ids.clamp(min=0)].to(torch.int64)
        else:
            ranks = ranks_by_bars(scores, entries)
        own = scores[entries.rows, entries.ids.clamp(min=0)]
        return torch.where((entries.ids >= 0) & (own > -torch.inf), ranks, NOT_RANKED)

    def best_of_matrix(self, scores: Tensor, targets: Targets) -> Entries:
        """Return the relevant label of each row that scores most, the lowest of equals, or all relevant labels."""
        dense = targets.dense
        if dense is None or self.reads:
            return targets.entries
        height = max(1, 4 * _matrices.SORTED_TOGETHER // max(1, dense.shape[1]))
        parts = zip(torch.split(scores, height), torch.split(dense, height), strict=True)
        best = [part.masked_fill(relevant <= 0, -torch.inf).max(dim=1) for part, relevant in parts]
        retrieved = torch.cat([of_part.values for of_part in best]) > -torch.inf
        retrieved = retrieved if targets.row_mask is None else retrieved & targets.row_mask
        labels = torch.cat([of_part.indices for of_part in best])
        ids = torch.where(retrieved, labels, constant(-1, scores.device))
        return Entries(whole_numbers(len(ids), ids.device), ids, None, 1)

    def counts_above(self, scores: Tensor, rows: Tensor, own: Tensor, labels: Tensor) -> Tensor:
        """Count the scores of a row that are more than a given one, the same, and the same with a lower label.

        The number of given scores of a row is looked at: it waits for a device.

        Args:
            scores: Shape (N, C): the scores of some labels.
            rows: Shape (T,), int64, ascending: the row of each given score.
            own: Shape (T,): the given scores, of the type of ``scores``.
            labels: Shape (T,), int64: the labels that they belong to, counted from the first column; any number.

        Returns:
            Shape (3, T), int64; a label that is itself one of the columns counts among the same.
        """
        padding = self.padding(rows, (len(scores),), int(torch.bincount(rows, minlength=1).max()))
        limits, number = padding.place(own, torch.inf), padding.place(labels, 0)
        count = counts_by_sorting if limits.shape[1] > FEW_TARGETS else counts_one_by_one
        height = max(1, _matrices.SORTED_TOGETHER // max(1, scores.shape[1]))
        parts = zip(*(torch.split(part, height) for part in (scores, limits, number)), strict=True)
        counts = torch.cat([count(*part) for part in parts], dim=1)
        return counts[:, padding.filled]

    TERMS = 2**22
    """Scores whose exponentials are added up together, in few large steps: 32 MB."""

    def add_up_terms(self, terms: Tensor, bits: int, added: Tensor) -> None:
        """Add terms (N, C) of at most 1 up as whole numbers, which is exact.

        In few and slower steps, whose number is what costs on a device. Dividing by a power of two, cutting off behind
        the point and the remainder are exact: the bits are those of the CPU.

        Args:
            terms: Floating; they are overwritten.
            bits: How many digits behind the point the first whole number has; the second has the next ones.
            added: Takes the sums of both, shape (2, N).
        """
        unit = 2.0**-bits
        torch.sum(torch.div(terms, unit, rounding_mode="floor"), dim=1, dtype=added.dtype, out=added[0])
        rest = terms.remainder_(unit).div_(unit**2, rounding_mode="floor")
        torch.sum(rest, dim=1, dtype=added.dtype, out=added[1])

    LIMBS = 5 * 2**20
    """Limbs that are made at once: 40 MB, in few large steps."""

    def add_up(self, values: Tensor, dim: int, limbs: int, lowest: int, bounded: bool) -> Tensor | None:
        """Return sums over an axis as limbs of whole numbers, and how many values are too large; None: by steps."""
        return None

    def over_rows(self, work: Callable[[Tensor, int], Found], matrix: Tensor) -> list[Found]:
        """Return what ``work`` returns for parts of the rows of a matrix and the number of their first row."""
        return over_threads(work, matrix) if self.reads else [work(matrix, 0)]

    def num_above(self, scores: Tensor, limit: float | Tensor) -> Tensor:
        """Return how many scores (N, L) of each row are above a number or one per label (L,), shape (N,), int64."""
        height = max(1, (BLOCK_SCORES if self.reads else _matrices.FLAGGED) // max(1, scores.shape[1]))
        return torch.cat([self.count_true(above(part, limit)) for part in torch.split(scores, height)])

    def above(self, scores: Tensor, limits: list[float | Tensor]) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Yield the cells of scores (N, L) that are above each limit, a number or one per label (L,).

        Yields:
            The place of the limit, rows (S,) and labels (S,), int64, a few rows at a time; label -1 is void.
        """
        height = max(1, BLOCK_SCORES // max(1, scores.shape[1])) * (num_threads() if self.reads else 1)

        def of_part(part: Tensor, first: int) -> list[tuple[int, Tensor, Tensor]]:
            found = [self.entries_of(above(part, limit), None) for limit in limits]
            return [(number, entries.rows + first, entries.ids) for number, entries in enumerate(found)]

        for first in range(0, len(scores), height):
            for number, rows, ids in chain.from_iterable(self.over_rows(of_part, scores[first : first + height])):
                yield number, rows + first, ids


def _columns_of(targets: Targets, buckets: LabelBuckets | None) -> ColumnChunks | None:
    """Return the columns of a dense matrix by bucket; None of any other form.

    While ``torch.compile`` traces there are none: it cannot take tables along that are kept outside.
    """
    dense = targets.dense
    if dense is None or not dense.numel() or is_compiling():
        return None
    return ColumnChunks.of(buckets, dense.shape[1], dense.device)


def _table_of_hits(found: Places, bucket: Tensor, ranks: Tensor, num_buckets: int, deepest: int) -> Hits:
    """Write a hit of rank r to column r of its row and bucket, and sort the columns: hits come to stand side by side.

    Args:
        found: The hits among the places of lists.
        bucket: Shape (N, D): the bucket of each place.
        ranks: Shape (N, D): its rank.
        num_buckets: G.
        deepest: No greater rank is read.
    """
    num_rows, num_places = ranks.shape
    of_row = num_buckets * deepest
    first = torch.arange(0, num_rows * of_row, of_row, device=ranks.device)
    cells = (ranks + first[:, None]).add_(bucket, alpha=deepest)
    cells = cells.mul_(found.hits[:, :num_places] & (ranks <= deepest)).view(-1)  # cell 0 for what is no hit

    def table(values: Tensor, fill: float) -> Tensor:
        whole = values.new_full((1 + num_rows * of_row,), fill)
        whole.scatter_(0, cells, values[:, :num_places].reshape(-1))
        return whole[1:].view(num_rows, num_buckets, deepest)

    return _side_by_side(found, table(ranks, NOT_RANKED), table)


def _side_by_side(found: Places, ranks: Tensor, table: Callable[[Tensor, float], Tensor]) -> Hits:
    """Return hits by rank, in as many columns as a row may have hits.

    Args:
        found: The hits among the places of lists.
        ranks: Shape (..., D), int64, in any order, ``NOT_RANKED`` where there is no hit.
        table: Returns values of the places in the same order.
    """
    ranks, order = ranks.sort(dim=-1)
    most = found.most + found.most % 2  # an even number of terms adds up in fewer steps
    width = max(1, min(most, ranks.shape[-1]))
    ranks, order = ranks[..., :width], order[..., :width]
    if ranks.numel() > LARGE:
        ranks, order = ranks.clone(), order.clone()
    return LazyHits(ranks, found, lambda values, fill: table(values, fill).gather(-1, order))


def _looked_up(targets: Targets, ids: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return which places of lists (N, K) are hits, and their gains."""
    if targets.dense is not None:
        if not targets.dense.shape[1]:
            return torch.zeros_like(ids, dtype=torch.bool), None
        listed = targets.dense.gather(1, ids.clamp(min=0))
        hits = (listed > 0) & (ids >= 0)
        return hits, None if targets.binary else listed.to(real_dtype(ids.device))
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


PLAIN = Kernels()
