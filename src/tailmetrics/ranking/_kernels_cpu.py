"""The steps of a batch in the form of the CPU, where values can be looked at and sizes may depend on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tailmetrics.buckets import LabelBuckets
from tailmetrics.ranking import native
from tailmetrics.ranking._device import FORCED, is_compiling, joined, num_threads, over_threads, whole_numbers
from tailmetrics.ranking._hits import NOT_RANKED, Entries, Hits, LabelWeights, ListCheck
from tailmetrics.ranking._kernels import DEEP, PLAIN, Found, Kernels, Targets
from tailmetrics.ranking._order import above, plain_top_k

BLOCK_SCORES = 2**21
"""Scores compared at once: two megabytes of flags, which stay in the cache for every threshold."""

BLOCKS_OF_A_THREAD = 2
"""Blocks that each thread compares before their labels are handed on; each label found takes 16 bytes until then."""

CPU_DEVICE = torch.device("cpu")

RANKED = 2**20
"""Scores that are ranked together: their candidates take a few megabytes."""

COMPARED = 2**22
"""Comparisons of hits with places of lists that are made at once: 4 MB of flags, which stay in the cache."""


LOOKED_UP = 2**18
"""Places of lists that are compared with one relevant label after the other: 2 MB, which stay in the cache."""

COMPARED_EACH = 16
"""Relevant labels up to which lists are compared with one after the other; with more they are searched for."""

GROUPS = 2048
"""Groups of a wide row whose maxima are looked at, or more: 8 KB of scores, which are compared in one go."""

ALL_BUT_SIGN = np.int32(2**31 - 1)
"""The bits of a number of four bytes behind its sign."""

FEW_GROUPS = 8
"""Only the groups that reach the bar are looked into where that is less than one of so many."""

PADDED = 8
"""Cells side by side for each value up to which they are sorted there; sorting all takes some such places for each."""

SMALL = 2**17
"""Scores up to which ``torch.topk`` takes less time than the dozen calls of NumPy: it does where none are equal."""

MANY = 512
"""Given scores of a row up to which a look at the row for each of them is faster than sorting it."""


class CpuKernels(Kernels):
    """The steps of a batch on the CPU, without native code."""

    reads = True
    LIMBS = 2**16
    """Limbs of real numbers that are made at once: half a megabyte, which stays in the cache."""

    def top_k(self, scores: Tensor, k: int) -> tuple[Tensor, Tensor, bool, bool]:
        if not scores.numel() or k == 0:
            return *plain_top_k(scores, k), False, False
        depth = min(k + 1, scores.shape[1])
        scores, height = scores.to(torch.promote_types(scores.dtype, torch.float32)), max(1, RANKED // scores.shape[1])
        distinct = scores.numel() <= SMALL
        if distinct:
            values, ids = torch.topk(scores, depth, dim=1)
            values, distinct = values + 0.0, bool((values[:, :-1] > values[:, 1:]).all())
        if not distinct:
            parts = over_threads(
                lambda part, _: [best_of_rows(one, depth) for one in torch.split(part, height)], scores
            )
            values, ids = map(joined, zip(*chain.from_iterable(parts), strict=True))
            distinct = bool((values[:, :-1] > values[:, 1:]).all())
        numbers = bool((values[:, k - 1] > -torch.inf).all() & (values[:, 0] <= torch.inf).all())
        return values, ids[:, :k], distinct, numbers

    def look_through(self, ids: Tensor) -> ListCheck:
        if not ids.numel():
            return ListCheck(0, -1, None, None)
        cells = ids.numpy()
        lowest, highest = int(cells.min()), int(cells.max())
        ordered = np.sort(cells.astype(np.int32) if highest < 2**31 and lowest >= -(2**31) else cells, axis=1)
        repeats = ordered[:, 1:] == ordered[:, :-1]
        if lowest >= 0:
            return ListCheck(lowest, highest, None, first_row(repeats))
        gaps = (cells[:, 1:] >= 0) & (cells[:, :-1] < 0)
        return ListCheck(lowest, highest, first_row(gaps), first_row(repeats & (ordered[:, 1:] >= 0)))

    def rows_to_warn_of(self, value: Tensor, num_rows: int) -> Tensor | None:
        return value[:num_rows]

    def highest(self, scores: Tensor, values: Tensor) -> Tensor:
        return values[:, :1]  # NaN comes first

    def best_first(self, scores: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Sort only the rows that are out of order: most files and indexes give lists."""
        ahead, behind = scores[:, :-1], scores[:, 1:]
        in_order = ((ahead > behind) | (behind == -torch.inf)).all(dim=1)
        if bool(in_order.all()):
            return scores, ids
        rows = in_order.logical_not().nonzero().squeeze(1)
        scores, ids = scores.clone(), ids.clone()
        scores[rows], ids[rows] = super().best_first(scores[rows], ids[rows])
        return scores, ids

    # what is relevant

    def form_of_gains(self, targets: Targets) -> Targets:
        if is_compiling():  # from here on, though the door was not traced: entries will be those of the plain form
            return replace(targets, form=PLAIN)
        return replace(targets, dense=None, given=targets.entries)

    def real_entries(self, targets: Targets) -> Entries:
        return targets.entries

    def without_void(self, entries: Entries) -> Entries:
        relevant = entries.ids >= 0
        entries = entries if bool(relevant.all()) else entries.at(relevant)
        if entries.gains is None or not bool((entries.gains == 1).all()):
            return entries
        return Entries(entries.rows, entries.ids, None, entries.width)

    def entries_of(self, matrix: Tensor, row_mask: Tensor | None) -> Entries:
        mask = matrix if matrix.dtype == torch.bool else matrix > 0
        flat = np.flatnonzero(mask.numpy())  # several times as fast as torch's nonzero
        rows, ids = (torch.from_numpy(part) for part in np.divmod(flat, max(1, matrix.shape[1])))
        if row_mask is not None:
            counted = row_mask[rows]
            rows, ids = rows[counted], ids[counted]
        gains = None if matrix.dtype == torch.bool else matrix[rows, ids].to(torch.float64)
        gains = None if gains is None or bool((gains == 1).all()) else gains
        return Entries(rows, ids, gains, matrix.shape[1])

    def count_true(self, mask: Tensor) -> Tensor:
        return torch.from_numpy(np.count_nonzero(mask.numpy(), axis=1))  # 20 times as fast as torch's sum

    def occurrences(self, targets: Targets) -> tuple[Tensor, Tensor]:
        ids = targets.entries.ids
        return ids, torch.ones_like(ids)

    def _best_of_entries(
        self, targets: Targets, buckets: LabelBuckets | None, k: int, most: int, weights: LabelWeights | None
    ) -> Tensor:
        """Sort the values of each row side by side, where that takes no more memory than sorting all of them."""
        entries = targets.entries
        if buckets is not None or not len(entries.ids) or targets.num_rows * most > PADDED * len(entries.ids):
            return super()._best_of_entries(targets, buckets, k, most, weights)
        values = entries.gains if weights is None else weights.on(entries.ids.device)[entries.ids]
        assert values is not None  # gains of 1 need no order
        table = self.padding(entries.rows, targets.num_rows, most).place(values, 0.0)
        best = np.sort(table.numpy(), axis=1)[:, ::-1][:, : max(k, DEEP)]  # a quarter of the time of torch's sort
        return torch.from_numpy(best.copy())

    # where it stands

    def hits(self, found: Any, deepest: int) -> Hits:
        hits: Hits = found
        return hits

    def deepest(self, k: int, depth: int) -> int:
        return max(1, depth)

    def look_up(self, targets: Targets, ids: Tensor) -> Any:
        gains, wanted = None, targets.padded
        if wanted is not None and wanted.shape[1] <= COMPARED_EACH:
            # -2 instead of the -1 that pads them, so that the -1 of a list is none of them
            wanted, height = wanted.where(targets.padded_with_labels, -2), max(1, LOOKED_UP // max(1, ids.shape[1]))
            hits = np.zeros(ids.shape, np.bool_)
            for first in range(0, len(ids), height):
                block = slice(first, first + height)
                listed = ids[block].numpy()
                for label in wanted[block].unsqueeze(2).unbind(1):
                    hits[block] |= listed == label.numpy()
        else:
            found = super().look_up(targets, ids)
            hits, gains = found.hits[:, : ids.shape[1]].numpy(), found.gains
        rows, places = (torch.from_numpy(part) for part in np.divmod(np.flatnonzero(hits), max(1, ids.shape[1])))
        gains = None if gains is None else gains[rows, places]
        return self.padding(rows, len(ids), ids.shape[1]).hits(places + 1, ids[rows, places], gains)

    def within_buckets(self, found: Any, ids: Tensor, buckets: LabelBuckets, deepest: int) -> tuple[Hits, Tensor]:
        hits, depth = found, ids.shape[1]
        bucket = buckets.of(ids)
        shown = hits.ranks <= depth
        row, column = shown.nonzero(as_tuple=True)
        rank, bucket_of_hit = hits.ranks[row, column], buckets.of(hits.ids[row, column])
        within = torch.empty_like(rank)
        places = torch.arange(1, depth + 1)
        for part in torch.split(torch.arange(len(row)), max(1, COMPARED // max(1, depth))):
            same = bucket[row[part]] == bucket_of_hit[part, None]
            within[part] = (same & (places <= rank[part, None])).sum(dim=1)
        ranks = torch.full_like(hits.ranks, NOT_RANKED).index_put_((row, column), within)
        return self.split(Hits(ranks, hits.ids, hits.gains), buckets), buckets.totals(ids)

    def of_buckets(self, found: Any, buckets: LabelBuckets, deepest: int) -> Hits:
        return self.split(found, buckets)

    # what stands above it

    def best_of_matrix(self, scores: Tensor, targets: Targets) -> Entries:
        return targets.entries

    TERMS = 2**18
    """2 MB, which stay in the cache from step to step."""

    def add_up_terms(self, terms: Tensor, bits: int, added: Tensor) -> None:
        torch.sum(terms.mul_(2.0**bits).floor(), dim=1, dtype=added.dtype, out=added[0])
        torch.sum(terms.frac_().mul_(2.0**bits).floor_(), dim=1, dtype=added.dtype, out=added[1])

    def over_rows(self, work: Callable[[Tensor, int], Found], matrix: Tensor) -> list[Found]:
        return over_threads(work, matrix)

    def num_above(self, scores: Tensor, limit: float | Tensor) -> Tensor:
        height = max(1, BLOCK_SCORES // max(1, scores.shape[1]))
        flags = (above(part, limit).numpy() for part in torch.split(scores, height))
        return torch.from_numpy(np.concatenate([np.count_nonzero(part, axis=1) for part in flags]))

    def above(self, scores: Tensor, limits: list[float | Tensor]) -> Iterator[tuple[int, Tensor, Tensor]]:
        height = max(1, BLOCK_SCORES // max(1, scores.shape[1]))
        together = height * BLOCKS_OF_A_THREAD * num_threads()

        def of_part(part: Tensor, first: int) -> list[tuple[int, Tensor, Tensor]]:
            found = []
            for block_number, block in enumerate(torch.split(part, height)):
                for number, limit in enumerate(limits):
                    entries = self.entries_of(above(block, limit), None)
                    found.append((number, entries.rows + (first + block_number * height), entries.ids))
            return found

        for first in range(0, len(scores), together):
            for number, rows, ids in chain.from_iterable(over_threads(of_part, scores[first : first + together])):
                yield number, rows + first, ids


def first_row(flags: np.ndarray[Any, Any]) -> int | None:
    """Return the first row of a matrix that holds True; None for none."""
    place = int(flags.argmax()) if flags.size else 0
    return place // flags.shape[1] if flags.any() else None


def best_of_rows(scores: Tensor, depth: int) -> tuple[Tensor, Tensor]:
    """Return the best values of each row and their labels, both (N, depth), of equal scores the lower label first.

    NumPy finds the candidates and sorts them in a third of the time of ``torch.topk``, which knows no order of equal
    scores. A candidate reaches a bar: of the maxima of more than ``depth`` groups, that in place ``depth``.

    Args:
        scores: Shape (N, L), float32 or float64.
        depth: At most L.
    """
    cells, (num_rows, width) = scores.contiguous().numpy(), scores.shape
    groups = max(3 * depth, min(GROUPS, width // 4))
    wide, whole = width >= 3 * groups, width // groups * groups
    maxima = cells[:, :whole].reshape(num_rows, -1, groups).max(axis=1) if wide else cells
    if wide:
        rest = maxima[:, : width - whole]
        np.maximum(rest, cells[:, whole:], out=rest)
    if np.isnan(maxima).any():
        best, labels_of_best = torch.sort(scores, dim=1, descending=True, stable=True)
        return best[:, :depth] + 0.0, labels_of_best[:, :depth]
    bars = np.partition(maxima, groups - depth, axis=1)[:, groups - depth, None] if wide else cells[:, :1]
    if wide and FEW_GROUPS * depth <= groups:
        rows, group = np.nonzero(maxima >= bars)
        labels = group[:, None] + np.arange(0, width, groups)
        rows, labels = np.repeat(rows, labels.shape[1]), labels.ravel()
        values = cells[rows, np.minimum(labels, width - 1)]
        kept = (values >= bars[rows, 0]) & (labels < width)
        rows, labels, values = rows[kept], labels[kept], values[kept]
    else:
        found = np.flatnonzero(cells >= bars) if wide else np.arange(cells.size)
        rows, labels = np.divmod(found, width)
        values = cells.ravel()[found]
    counts = np.bincount(rows)
    if scores.dtype == torch.float64:
        order, first = np.lexsort((labels, -values, rows)), np.cumsum(counts) - counts
        chosen = order[first[:, None] + np.arange(depth)]
        return torch.from_numpy(values[chosen] + 0.0), torch.from_numpy(labels[chosen])
    bits = (values + np.float32(0)).view(np.int32)  # 0 for -0
    filled = np.arange(counts.max()) < counts[:, None]
    keys = np.full(filled.shape, np.iinfo(np.int64).max)
    keys[filled] = (~(bits ^ (bits >> 31 & ALL_BUT_SIGN))).astype(np.int64) << 32 | labels  # the best is the lowest
    keys = np.partition(keys, depth - 1, axis=1)[:, :depth] if filled.shape[-1] > 2 * depth else keys
    keys = np.sort(keys, axis=1)[:, :depth]
    bits = ~(keys >> 32).astype(np.int32)
    return torch.from_numpy((bits ^ (bits >> 31 & ALL_BUT_SIGN)).view(np.float32)), torch.from_numpy(keys & 0xFFFFFFFF)


class NativeKernels(CpuKernels):
    """The steps of a batch on the CPU, those that read much in C, over the threads of the program."""

    def look_through(self, ids: Tensor) -> ListCheck:
        return native.check_lists(ids, num_threads())

    def top_k(self, scores: Tensor, k: int) -> tuple[Tensor, Tensor, bool, bool]:
        return native.top_k(scores, k, num_threads())

    def repeated(self, ids: Tensor) -> Tensor:
        repeated = torch.empty(ids.shape, dtype=torch.bool)
        native.check_lists(ids, num_threads(), repeated)
        return repeated

    def count_by_bucket(self, targets: Targets, buckets: LabelBuckets, seen: dict[str, Tensor]) -> Tensor:
        if targets.padded is None:
            return super().count_by_bucket(targets, buckets, seen)
        nothing = targets.padded[:, :0]  # as lists without hits
        return self.within_buckets(Hits(nothing, nothing, None), targets.padded, buckets, 0)[1]

    def look_up(self, targets: Targets, ids: Tensor) -> Any:
        if targets.padded is not None:
            return native.hits(ids, targets.padded, targets.padded.shape[1], num_threads())
        most = self.most(targets.n_relevant, 0)
        if targets.dense is not None and targets.binary:
            return native.hits(ids, targets.dense, most, num_threads())
        return native.hits(ids, targets.entries.ids, most, num_threads(), targets.starts, targets.entries.gains)

    def within_buckets(self, found: Any, ids: Tensor, buckets: LabelBuckets, deepest: int) -> tuple[Hits, Tensor]:
        return native.within_buckets(ids, buckets.table_on(CPU_DEVICE), len(buckets), found, num_threads())

    def split(self, hits: Hits, buckets: LabelBuckets) -> Hits:
        return native.within_buckets(None, buckets.table_on(CPU_DEVICE), len(buckets), hits, num_threads())[0]

    def exact_ranks(self, scores: Tensor, entries: Entries) -> Tensor:
        own = scores[entries.rows, entries.ids]
        above, _, before = self.counts_above(scores, entries.rows, own, entries.ids)
        return torch.where(own > -torch.inf, above + before + 1, NOT_RANKED)

    def counts_above(self, scores: Tensor, rows: Tensor, own: Tensor, labels: Tensor) -> Tensor:
        starts = torch.searchsorted(rows, whole_numbers(len(scores) + 1, rows.device))
        if len(rows) > MANY and int(starts.diff().max()) > MANY:
            return super().counts_above(scores, rows, own, labels)
        return native.rank_counts(scores, starts, labels, own.to(torch.float64), num_threads())


CPU = NativeKernels() if native.available() else CpuKernels()


def kernels_for(device: torch.device) -> Kernels:
    """Return the form in which a batch is read, asked once for each batch.

    Reading a value costs nothing on the CPU, but where ``torch.compile`` traces. Elsewhere the program would wait for
    the device, or the graph would break.
    """
    return CPU if device.type == "cpu" and not FORCED[0] and not is_compiling() else PLAIN
