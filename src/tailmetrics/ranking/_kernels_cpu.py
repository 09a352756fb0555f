"""The steps of a batch on the CPU.

Here a step may look at values, and sizes may depend on them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from tailmetrics._compiling import is_compiling
from tailmetrics.buckets import LabelBuckets
from tailmetrics.ranking import native
from tailmetrics.ranking._device import FORCED
from tailmetrics.ranking._hits import (
    NOT_RANKED,
    BestLabels,
    Hits,
    LabelWeights,
    ListCheck,
    Padding,
)
from tailmetrics.ranking._kernels import (
    PLAIN,
    SHARED_DEPTH,
    Kernels,
    RelevantLabels,
    Targets,
)
from tailmetrics.ranking._kernels_of_scores import true_cells
from tailmetrics.ranking._matrices import plain_top_k
from tailmetrics.ranking._once import whole_numbers
from tailmetrics.ranking._orders import looked_up, rows_at_once
from tailmetrics.ranking._threads import over_threads

CPU_DEVICE = torch.device("cpu")

SCORES_RANKED_AT_ONCE = 2**22
"""This many scores are ranked at a time. Their flags take 4 MB."""

LABEL_GROUPS = 512
"""The labels of a row are divided into this many groups.

They are divided into more if the depth needs more.
"""

MOST_LABELS_COMPARED = 16
"""Up to this many relevant labels of a row are each compared with the whole list.

More are found by a search.
"""

MOST_CELLS_PER_VALUE = 8
"""Values are sorted in a padded table of up to this many cells for each value.

A flat sort takes as much memory.
"""

MANY_ROWS = 2**11
FEW_COLUMNS = 8
"""At least MANY_ROWS rows of at most FEW_COLUMNS values are sorted by columns.

This takes at most the time of NumPy, often half of it.
"""

MOST_LABELS_IN_C = 512
"""Up to this many given labels in a row, C counts higher scores, one pass per label.

With more, they are counted by sorting.
"""

LONGEST_IN_C = 2**18
"""Longer lists are checked by sorting.

C takes 256 bytes for each id of a list, and time that grows with the square of the
number of ids.
"""


class CpuKernels(Kernels):
    """The steps of a batch on the CPU, without native code."""

    can_read_values = True

    def top_k(self, scores: Tensor, k: int) -> BestLabels:
        if not scores.numel() or k == 0:
            return plain_top_k(scores, k)
        depth = min(k + 1, scores.shape[1])
        wide = torch.promote_types(scores.dtype, torch.float32)  # NumPy has no bfloat16
        height = rows_at_once(SCORES_RANKED_AT_ONCE, scores.shape[1])

        def best_of_part(part: Tensor, _: int) -> list[tuple[Tensor, Tensor]]:
            return [
                best_of_rows(rows.to(wide), depth) for rows in torch.split(part, height)
            ]

        blocks = []
        for part_blocks in over_threads(best_of_part, scores):
            blocks += part_blocks
        values, ids = zip(*blocks, strict=True)
        return BestLabels(torch.cat(values), torch.cat(ids)[:, :k])

    def relevant_places(
        self, targets: Targets, ids: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        if targets.padded is None or targets.padded.shape[1] > MOST_LABELS_COMPARED:
            return super().relevant_places(targets, ids)
        is_hit = torch.zeros_like(ids, dtype=torch.bool)
        for labels in targets.padded.unbind(dim=1):
            is_hit |= ids == labels[:, None]
        return is_hit & (ids >= 0), None

    def find_hits(self, targets: Targets, ids: Tensor) -> Any:
        is_hit, gains = self.relevant_places(targets, ids)
        rows, columns = true_cells(is_hit)
        if gains is not None:
            gains = gains[rows, columns]
        padding = self.padding(rows, (len(ids),), max(1, ids.shape[1]))
        return padding.hits(columns + 1, ids[rows, columns], gains)

    def ranks_within(
        self, ids: Tensor, buckets: LabelBuckets
    ) -> tuple[Tensor, Tensor, Tensor]:
        # a stable sort by bucket; NumPy sorts numbers of a byte in a tenth of torch's
        # time
        small_bucket = buckets.table_on(CPU_DEVICE).numpy()[ids.numpy()]
        order = torch.from_numpy(small_bucket.argsort(axis=1, kind="stable"))
        ranks_in_order = torch.arange(1, ids.shape[1] + 1, device="cpu").expand(
            ids.shape
        )
        sorted_ranks = torch.empty_like(order).scatter_(1, order, ranks_in_order)

        bucket = torch.from_numpy(small_bucket).to(torch.int64)
        lengths = buckets.totals(ids)
        num_before_bucket = F.pad(lengths.cumsum(dim=1), (1, 0))
        ranks = sorted_ranks - num_before_bucket.gather(1, bucket)
        return bucket, ranks, lengths

    def within_buckets(
        self, places: Any, ids: Tensor, buckets: LabelBuckets, deepest: int
    ) -> tuple[Hits, Tensor]:
        hits = places
        _, ranks, lengths = self.ranks_within(ids, buckets)
        # a hit below the cut of the list reads the last column
        below = ranks.new_full((len(ranks), 1), NOT_RANKED)
        ranks = torch.cat([ranks, below], dim=1)
        hit_ranks = ranks.gather(1, (hits.ranks - 1).clamp(max=ids.shape[1]))
        return self.split(Hits(hit_ranks, hits.ids, hits.gains), buckets), lengths

    def by_bucket(self, places: Any, buckets: LabelBuckets, deepest: int) -> Hits:
        return self.split(places, buckets)

    def _best_of_entries(
        self, relevant: RelevantLabels, k: int, weights: LabelWeights | None
    ) -> Tensor:
        targets, most = relevant.targets, relevant.most
        entries, num_rows = targets.entries, targets.num_rows
        if (
            relevant.buckets is not None
            or not len(entries.ids)
            or num_rows * most > MOST_CELLS_PER_VALUE * len(entries.ids)
        ):
            return super()._best_of_entries(relevant, k, weights)
        values = entries.gains
        if weights is not None:
            values = looked_up(weights.on(CPU_DEVICE), entries.ids)
        assert values is not None  # ``best`` has handled gains that are all 1

        # the table has one column in memory for each place, as formulas read columns
        starts = targets.starts.index_select(0, entries.rows)
        place = torch.arange(len(entries.rows), device="cpu").sub_(starts)
        cell = place.mul_(num_rows).add_(entries.rows)
        table = values.new_zeros(num_rows * most).scatter_(0, cell, values)
        columns = table.view(most, num_rows).numpy()
        if num_rows >= MANY_ROWS and most <= FEW_COLUMNS:
            sort_columns(columns)
        else:
            # in a quarter of the time of torch's sort
            ascending = np.sort(columns.T.copy(), axis=1)
            columns = ascending.T[::-1]
        best = columns[: max(k, SHARED_DEPTH)].copy()
        return torch.from_numpy(best).t()

    # sums

    TERMS = 2**18
    """This many terms are added up at a time.

    They take 2 MB, which stay in the cache from step to step.
    """

    LIMBS = 2**18
    """This many limbs are made at a time. They take 2 MB."""

    def add_up_terms(self, terms: Tensor, bits: int, added: Tensor) -> None:
        terms.mul_(2.0**bits)
        torch.sum(terms.floor(), dim=1, dtype=added.dtype, out=added[0])
        rest = terms.frac_().mul_(2.0**bits)
        torch.sum(rest.floor_(), dim=1, dtype=added.dtype, out=added[1])


def sort_columns(columns: Any) -> None:
    """Sort each row of a table in place, the largest value first.

    The table is given as columns (W, N).

    An odd-even transposition sort compares neighbouring columns: W times, each time
    every second pair of them.

    Source: Knuth, The Art of Computer Programming 3, section 5.3.4, exercise 37.
    """
    width = len(columns)
    for step in range(width):
        for place in range(step % 2, width - 1, 2):
            left, right = columns[place], columns[place + 1]
            larger = np.maximum(left, right)
            np.minimum(left, right, out=right)
            left[:] = larger


def best_of_rows(scores: Tensor, depth: int) -> tuple[Tensor, Tensor]:
    """Return the best values of each row and their labels, both (N, depth).

    Of equal scores, the lower label is first.

    The labels of a row are divided into groups. Only the scores that reach a bar are
    sorted. The bar is a score that the maxima of ``depth`` groups reach. Beside NaN,
    and if many scores reach the bar, whole rows are sorted.

    Args:
        scores: Shape (N, L), float32 or float64.
        depth: At most L.
    """
    num_rows, num_labels = scores.shape
    num_groups = max(3 * depth, min(LABEL_GROUPS, num_labels // 4))
    end_of_groups = num_labels - num_labels % num_groups
    if end_of_groups < 3 * num_groups:
        return _first_of_sorted(scores, depth)

    cells = scores.contiguous().numpy()
    maxima = cells[:, :end_of_groups].reshape(num_rows, -1, num_groups).max(axis=1)
    if np.isnan(maxima).any() or np.isnan(cells[:, end_of_groups:]).any():
        return _first_of_sorted(scores, depth)

    bars = np.partition(maxima, -depth, axis=1)[:, -depth, None]
    flat = np.flatnonzero(cells >= bars)
    if 4 * len(flat) > cells.size:
        return _first_of_sorted(scores, depth)

    rows, labels = np.divmod(flat, num_labels)
    padding = Padding(
        torch.from_numpy(rows), (num_rows,), num_labels, can_read_values=True
    )
    candidates = padding.place(torch.from_numpy(cells.ravel()[flat]), -torch.inf)
    candidate_labels = padding.place(torch.from_numpy(labels), 0)
    values, order = _first_of_sorted(candidates, depth)
    return values, candidate_labels.gather(1, order)


def _first_of_sorted(scores: Tensor, depth: int) -> tuple[Tensor, Tensor]:
    values, places = scores.sort(dim=1, descending=True, stable=True)
    return values[:, :depth], places[:, :depth]


class NativeKernels(CpuKernels):
    """The steps of a batch on the CPU, partly in C.

    Steps that read many values run in C, on the threads of the program.
    """

    def check_lists(self, ids: Tensor) -> ListCheck:
        if ids.shape[1] > LONGEST_IN_C:
            return super().check_lists(ids)
        return native.check_lists(ids)

    top_k = staticmethod(native.top_k)

    def largest(self, scores: Tensor, groups: Tensor, num_groups: int) -> Tensor:
        if scores.dtype not in (torch.float32, torch.float64):
            return super().largest(scores, groups, num_groups)
        return native.largest(scores, groups, num_groups)

    def count_by_bucket(
        self, relevant: RelevantLabels, buckets: LabelBuckets
    ) -> Tensor:
        targets = relevant.targets
        if targets.padded is None:
            return super().count_by_bucket(relevant, buckets)
        nothing = targets.padded[:, :0]
        no_hits = Hits(nothing, nothing, None)
        _, lengths = self.within_buckets(no_hits, targets.padded, buckets, 0)
        return lengths

    def find_hits(self, targets: Targets, ids: Tensor) -> Any:
        if targets.padded is not None:
            return native.hits(ids, targets.padded, targets.padded.shape[1])
        most = self.most(targets.n_relevant, 0)
        if targets.dense is not None and targets.binary:
            return native.hits(ids, targets.dense, most)
        return native.hits(
            ids, targets.entries.ids, most, targets.starts, targets.entries.gains
        )

    def within_buckets(
        self, places: Any, ids: Tensor, buckets: LabelBuckets, deepest: int
    ) -> tuple[Hits, Tensor]:
        bucket_of_label = buckets.table_on(CPU_DEVICE)
        return native.within_buckets(ids, bucket_of_label, len(buckets), places)

    def split(self, hits: Hits, buckets: LabelBuckets) -> Hits:
        bucket_of_label = buckets.table_on(CPU_DEVICE)
        bucket_hits, _ = native.within_buckets(
            None, bucket_of_label, len(buckets), hits
        )
        return bucket_hits

    def add_up(
        self, values: Tensor, dim: int, limbs: int, lowest: int, bounded: bool
    ) -> Tensor | None:
        if values.dtype != torch.float64:
            return None
        return native.add_up(values, dim, limbs, lowest, bounded)

    def counts_above(
        self, scores: Tensor, rows: Tensor, own: Tensor, labels: Tensor
    ) -> Tensor:
        starts = torch.searchsorted(rows, whole_numbers(len(scores) + 1, rows.device))
        if len(rows) > MOST_LABELS_IN_C and int(starts.diff().max()) > MOST_LABELS_IN_C:
            return super().counts_above(scores, rows, own, labels)
        return native.rank_counts(scores, starts, labels, own.to(torch.float64))


CPU = NativeKernels() if native.available() else CpuKernels()


def kernels_for(device: torch.device) -> Kernels:
    """Return the kernels that read a batch. They are chosen once for each batch.

    The CPU kernels read values, which costs nothing on the CPU. The plain kernels never
    read a value: on a device the program would have to wait, and while
    ``torch.compile`` traces, the graph would break.
    """
    if device.type == "cpu" and not FORCED[0] and not is_compiling():
        return CPU
    return PLAIN
