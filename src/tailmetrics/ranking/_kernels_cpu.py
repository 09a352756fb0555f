"""The steps of a batch on the CPU. Here a step may look at values, and sizes may depend on them."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from tailmetrics.buckets import LabelBuckets
from tailmetrics.ranking import native
from tailmetrics.ranking._device import FORCED, is_compiling, looked_up, num_threads, over_threads, whole_numbers
from tailmetrics.ranking._hits import NOT_RANKED, Hits, LabelWeights, ListCheck, Padding
from tailmetrics.ranking._kernels import DEEP, PLAIN, Kernels, Targets
from tailmetrics.ranking._matrices import plain_top_k

CPU_DEVICE = torch.device("cpu")

RANKED = 2**22
"""This many scores are ranked at a time. Their flags take 4 MB."""

GROUPS = 512
"""The labels of a row are divided into this many groups, or into more if the depth asks for more."""

COMPARED_EACH = 16
"""Up to this many relevant labels of a row, each is compared with the whole list. More are found by a search."""

PADDED = 8
"""Values are sorted in a padded table of up to this many cells for each value. A flat sort takes as much memory."""

LONG, FEW = 2**11, 8
"""At least so many rows of at most so many values are sorted by columns: at most the time of NumPy, often a half."""

MANY = 512
"""Up to this many given labels in a row, higher scores are counted by one pass for each label, otherwise by sorting."""

LONGEST_IN_C = 2**18
"""Longer lists are checked by sorting: C takes 256 bytes for each id of a list, and time with the square of them."""


class CpuKernels(Kernels):
    """The steps of a batch on the CPU, without native code."""

    can_read_values = True

    def top_k(self, scores: Tensor, k: int) -> tuple[Tensor, Tensor, bool, bool]:
        if not scores.numel() or k == 0:
            return *plain_top_k(scores, k), False, False
        depth = min(k + 1, scores.shape[1])
        wide = torch.promote_types(scores.dtype, torch.float32)  # NumPy has no bfloat16
        height = max(1, RANKED // scores.shape[1])

        def rank_part(part: Tensor, _: int) -> list[tuple[Tensor, Tensor]]:
            return [best_of_rows(rows.to(wide), depth) for rows in torch.split(part, height)]

        blocks = list(chain.from_iterable(over_threads(rank_part, scores)))
        values = torch.cat([block_values for block_values, _ in blocks])
        ids = torch.cat([block_ids for _, block_ids in blocks])
        return values, ids[:, :k], False, False

    def relevant_places(self, targets: Targets, ids: Tensor) -> tuple[Tensor, Tensor | None]:
        if targets.padded is None or targets.padded.shape[1] > COMPARED_EACH:
            return super().relevant_places(targets, ids)
        is_hit = torch.zeros_like(ids, dtype=torch.bool)
        for labels in targets.padded.unbind(dim=1):
            is_hit |= ids == labels[:, None]
        return is_hit & (ids >= 0), None

    def look_up(self, targets: Targets, ids: Tensor) -> Any:
        is_hit, gains = self.relevant_places(targets, ids)
        flat = torch.from_numpy(np.flatnonzero(is_hit.numpy()))  # several times as fast as torch's nonzero
        width = max(1, ids.shape[1])
        rows, columns = flat // width, flat % width
        if gains is not None:
            gains = gains[rows, columns]
        return self.padding(rows, (len(ids),), width).hits(columns + 1, ids[rows, columns], gains)

    def ranks_within(self, ids: Tensor, buckets: LabelBuckets) -> tuple[Tensor, Tensor, Tensor]:
        # a stable sort by bucket; NumPy sorts numbers of a byte in a tenth of torch's time
        bucket = buckets.table_on(CPU_DEVICE).numpy()[ids.numpy()]
        order = torch.from_numpy(bucket.argsort(axis=1, kind="stable"))
        places = torch.arange(1, ids.shape[1] + 1, device="cpu").expand(ids.shape)
        bucket_of_place = torch.from_numpy(bucket).to(torch.int64)
        lengths = buckets.totals(ids)
        places_before = F.pad(lengths.cumsum(dim=1), (1, 0))
        ranks = torch.empty_like(order).scatter_(1, order, places) - places_before.gather(1, bucket_of_place)
        return bucket_of_place, ranks, lengths

    def within_buckets(self, places: Any, ids: Tensor, buckets: LabelBuckets, deepest: int) -> tuple[Hits, Tensor]:
        hits = places
        _, ranks, lengths = self.ranks_within(ids, buckets)
        nowhere = ranks.new_full((len(ranks), 1), NOT_RANKED)
        # a hit below the cut of the list reads the last column
        ranks = torch.cat([ranks, nowhere], dim=1).gather(1, (hits.ranks - 1).clamp(max=ids.shape[1]))
        return self.split(Hits(ranks, hits.ids, hits.gains), buckets), lengths

    def by_bucket(self, places: Any, buckets: LabelBuckets, deepest: int) -> Hits:
        return self.split(places, buckets)

    def _best_of_entries(
        self, targets: Targets, buckets: LabelBuckets | None, k: int, most: int, weights: LabelWeights | None
    ) -> Tensor:
        entries, num_rows = targets.entries, targets.num_rows
        if buckets is not None or not len(entries.ids) or num_rows * most > PADDED * len(entries.ids):
            return super()._best_of_entries(targets, buckets, k, most, weights)
        values = entries.gains
        if weights is not None:
            values = looked_up(weights.on(CPU_DEVICE), entries.ids)
        assert values is not None  # ``best`` has handled gains that are all 1
        place = torch.arange(len(entries.rows), device="cpu").sub_(targets.starts.index_select(0, entries.rows))
        # the table has one column in memory for each place, as formulas read columns
        table = values.new_zeros(num_rows * most).scatter_(0, place.mul_(num_rows).add_(entries.rows), values)
        columns = table.view(most, num_rows).numpy()
        if num_rows >= LONG and most <= FEW:
            sort_columns(columns)
        else:
            columns = np.sort(columns.T.copy(), axis=1).T[::-1]  # in a quarter of the time of torch's sort
        return torch.from_numpy(columns[: max(k, DEEP)].copy()).t()

    # sums

    TERMS = 2**18
    """This many terms are added up at a time. They take 2 MB, which stay in the cache from step to step."""

    LIMBS = 2**18
    """This many limbs are made at a time. They take 2 MB."""

    def add_up_terms(self, terms: Tensor, bits: int, added: Tensor) -> None:
        torch.sum(terms.mul_(2.0**bits).floor(), dim=1, dtype=added.dtype, out=added[0])
        torch.sum(terms.frac_().mul_(2.0**bits).floor_(), dim=1, dtype=added.dtype, out=added[1])


def sort_columns(columns: Any) -> None:
    """Sort each row of a table, the largest value first, in place. The table is given as columns (W, N).

    An odd-even transposition sort compares neighbouring columns: W times, each time every second pair of them.

    Source: Knuth, The Art of Computer Programming 3, section 5.3.4, exercise 37.
    """
    for step in range(len(columns)):
        for left in range(step % 2, len(columns) - 1, 2):
            larger = np.maximum(columns[left], columns[left + 1])
            np.minimum(columns[left], columns[left + 1], out=columns[left + 1])
            columns[left] = larger


def best_of_rows(scores: Tensor, depth: int) -> tuple[Tensor, Tensor]:
    """Return the best values of each row and their labels, both (N, depth). Of equal scores the lower label is first.

    The labels of a row are divided into groups. Only the scores that reach a bar are sorted. The bar is a score that
    the maxima of ``depth`` groups reach. Beside NaN, and if many scores reach the bar, whole rows are sorted.

    Args:
        scores: Shape (N, L), float32 or float64.
        depth: At most L.
    """
    cells = scores.contiguous().numpy()
    num_rows, width = cells.shape
    groups = max(3 * depth, min(GROUPS, width // 4))
    inside = width - width % groups
    maxima = cells[:, :inside].reshape(num_rows, -1, groups).max(axis=1, initial=-np.inf)
    is_narrow = inside < 3 * groups
    if is_narrow or np.isnan(maxima).any() or np.isnan(cells[:, inside:]).any():
        return _first_of_sorted(scores, depth)

    bars = np.partition(maxima, -depth, axis=1)[:, -depth, None]
    flat = np.flatnonzero(cells >= bars)
    if 4 * len(flat) > cells.size:
        return _first_of_sorted(scores, depth)

    rows, labels = np.divmod(flat, width)
    table = Padding(torch.from_numpy(rows), (num_rows,), width, can_read_values=True)
    candidates = table.place(torch.from_numpy(cells.ravel()[flat]), -torch.inf)
    values, order = _first_of_sorted(candidates, depth)
    return values, table.place(torch.from_numpy(labels), 0).gather(1, order)


def _first_of_sorted(scores: Tensor, depth: int) -> tuple[Tensor, Tensor]:
    values, places = scores.sort(dim=1, descending=True, stable=True)
    return values[:, :depth], places[:, :depth]


class NativeKernels(CpuKernels):
    """The steps of a batch on the CPU. Steps that read many values run in C, on the threads of the program."""

    counts_at_once = True

    def look_through(self, ids: Tensor) -> ListCheck:
        if ids.shape[1] > LONGEST_IN_C:
            return super().look_through(ids)
        return native.check_lists(ids, num_threads())

    def top_k(self, scores: Tensor, k: int) -> tuple[Tensor, Tensor, bool, bool]:
        return native.top_k(scores, k, num_threads())

    def largest(self, scores: Tensor, groups: Tensor, num_groups: int) -> Tensor:
        if scores.dtype not in (torch.float32, torch.float64):
            return super().largest(scores, groups, num_groups)
        return native.largest(scores, groups, num_groups, num_threads())

    def count_by_bucket(self, targets: Targets, buckets: LabelBuckets, seen: dict[str, Tensor]) -> Tensor:
        if targets.padded is None:
            return super().count_by_bucket(targets, buckets, seen)
        nothing = targets.padded[:, :0]  # no hits: only the lengths are needed
        return self.within_buckets(Hits(nothing, nothing, None), targets.padded, buckets, 0)[1]

    def look_up(self, targets: Targets, ids: Tensor) -> Any:
        if targets.padded is not None:
            return native.hits(ids, targets.padded, targets.padded.shape[1], num_threads())
        most = self.most(targets.n_relevant, 0)
        if targets.dense is not None and targets.binary:
            return native.hits(ids, targets.dense, most, num_threads())
        return native.hits(ids, targets.entries.ids, most, num_threads(), targets.starts, targets.entries.gains)

    def within_buckets(self, places: Any, ids: Tensor, buckets: LabelBuckets, deepest: int) -> tuple[Hits, Tensor]:
        return native.within_buckets(ids, buckets.table_on(CPU_DEVICE), len(buckets), places, num_threads())

    def split(self, hits: Hits, buckets: LabelBuckets) -> Hits:
        return native.within_buckets(None, buckets.table_on(CPU_DEVICE), len(buckets), hits, num_threads())[0]

    def add_up(self, values: Tensor, dim: int, limbs: int, lowest: int, bounded: bool) -> Tensor | None:
        if values.dtype != torch.float64:
            return None
        return native.add_up(values, dim, limbs, lowest, bounded, num_threads())

    def counts_above(self, scores: Tensor, rows: Tensor, own: Tensor, labels: Tensor) -> Tensor:
        starts = torch.searchsorted(rows, whole_numbers(len(scores) + 1, rows.device))
        if len(rows) > MANY and int(starts.diff().max()) > MANY:
            return super().counts_above(scores, rows, own, labels)
        return native.rank_counts(scores, starts, labels, own.to(torch.float64), num_threads())


CPU = NativeKernels() if native.available() else CpuKernels()


def kernels_for(device: torch.device) -> Kernels:
    """Return the kernels that read a batch. They are chosen once for each batch.

    The CPU kernels read values, which costs nothing on the CPU. The plain kernels never read a value: on a device the
    program would have to wait, and while ``torch.compile`` traces, the graph would break.
    """
    if device.type == "cpu" and not FORCED[0] and not is_compiling():
        return CPU
    return PLAIN
