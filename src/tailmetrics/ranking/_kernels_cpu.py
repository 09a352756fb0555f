"""The steps of a batch in the form of the CPU, where values can be looked at and sizes may depend on them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from tailmetrics.ranking import native
from tailmetrics.ranking._device import FORCED, is_compiling, num_threads, over_threads, whole_numbers
from tailmetrics.ranking._hits import NOT_RANKED, Entries, Hits, ListCheck, Padding
from tailmetrics.ranking._kernels import PLAIN, Kernels, above, plain_top_k

if TYPE_CHECKING:
    from tailmetrics.buckets import LabelBuckets
    from tailmetrics.ranking._target_ranks import LabelWeights
    from tailmetrics.ranking._targets import Targets

BLOCK_SCORES = 2**21
"""Scores compared at once: two megabytes of flags, which stay in the cache for every threshold."""

BLOCKS_OF_A_THREAD = 2
"""Blocks that each thread compares before their labels are handed on; each label found takes 16 bytes until then."""

CPU_DEVICE = torch.device("cpu")

COMPARED = 2**22
"""Comparisons of hits with places of lists that are made at once: 4 MB of flags, which stay in the cache."""


class CpuKernels(Kernels):
    """The steps of a batch on the CPU, without native code."""

    reads = True

    def top_k(self, scores: Tensor, k: int) -> tuple[Tensor, Tensor, bool]:
        if not scores.numel() or k == 0:
            return *plain_top_k(scores, k), False
        values, ids = torch.topk(scores, min(k + 1, scores.shape[1]), dim=1)
        falling = values[:, :-1] > values[:, 1:]
        distinct = bool(falling.all())
        if not distinct:  # torch.topk takes any of equal scores
            tied = falling.all(dim=1).logical_not().nonzero().squeeze(1)
            ids[tied, :k] = plain_top_k(scores[tied], k)[1]
        return values, ids[:, :k], distinct

    # what is relevant

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

    def most(self, n: Tensor, widest: int) -> int:
        return int(n.max()) if n.numel() else 0

    def count_by_bucket(self, targets: Targets, buckets: LabelBuckets, seen: dict[str, Tensor]) -> Tensor:
        return self._count_entries(targets, buckets)

    def best(
        self,
        targets: Targets,
        buckets: LabelBuckets | None,
        k: int,
        most: int,
        weights: LabelWeights | None,
        seen: dict[str, Tensor],
    ) -> Tensor:
        if weights is None and targets.binary:
            n = targets.n_relevant if buckets is None else self.count_by_bucket(targets, buckets, seen)
            return (whole_numbers(min(k, most), n.device) < n.unsqueeze(-1)).to(torch.float64)
        return self._best_of_entries(targets, buckets, k, most, weights)

    # where it stands

    def deepest(self, k: int, depth: int) -> int:
        return max(1, depth)

    def look_up(self, targets: Targets, ids: Tensor) -> Any:
        found = super().look_up(targets, ids)
        rows, places = (torch.from_numpy(part) for part in found.hits.numpy().nonzero())
        gains = None if found.gains is None else found.gains[rows, places]
        padding = Padding(rows, len(ids), ids.shape[1], self.reads)
        return padding.hits(places + 1, found.ids[rows, places], gains)

    def gains(self, found: Any, depth: int) -> Tensor:
        hits: Hits = found
        gains = torch.zeros(len(hits.ranks), depth + 1, dtype=torch.float64)
        place = (hits.ranks - 1).clamp(max=depth)
        given = torch.ones_like(place, dtype=torch.float64) if hits.gains is None else hits.gains
        return gains.scatter_(1, place, given)[:, :depth]

    def placed(self, ids: Tensor, buckets: LabelBuckets) -> Any:
        return ids

    def within_buckets(self, found: Any, placed: Any, buckets: LabelBuckets, deepest: int) -> tuple[Hits, Tensor]:
        hits, depth = found, placed.shape[1]
        bucket = buckets.of(placed)
        shown = hits.ranks <= depth
        row, column = shown.nonzero(as_tuple=True)
        rank, bucket_of_hit = hits.ranks[row, column], buckets.of(hits.ids[row, column])
        within = torch.empty_like(rank)
        places = torch.arange(1, depth + 1)
        for part in torch.split(torch.arange(len(row)), max(1, COMPARED // max(1, depth))):
            same = bucket[row[part]] == bucket_of_hit[part, None]
            within[part] = (same & (places <= rank[part, None])).sum(dim=1)
        ranks = torch.full_like(hits.ranks, NOT_RANKED).index_put_((row, column), within)
        return self.split(Hits(ranks, hits.ids, hits.gains), buckets), buckets.totals(placed)

    def of_buckets(self, found: Any, buckets: LabelBuckets, deepest: int) -> Hits:
        return self.split(found, buckets)

    # what stands above it

    def best_of_matrix(self, scores: Tensor, targets: Targets) -> Entries:
        return targets.entries

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


class NativeKernels(CpuKernels):
    """The steps of a batch on the CPU, those that read much in C, over the threads of the program."""

    def look_through(self, ids: Tensor) -> ListCheck:
        return ListCheck(*native.check_lists(ids, num_threads())[:4])

    def top_k(self, scores: Tensor, k: int) -> tuple[Tensor, Tensor, bool]:
        return native.top_k(scores, k, num_threads())

    def repeated(self, ids: Tensor) -> Tensor:
        repeated = native.check_lists(ids, num_threads(), mark=True).repeated
        assert repeated is not None
        return repeated

    def count_true(self, mask: Tensor) -> Tensor:
        return native.count_true(mask, num_threads())

    def count_by_bucket(self, targets: Targets, buckets: LabelBuckets, seen: dict[str, Tensor]) -> Tensor:
        labels = targets.padded if targets.dense is None else targets.dense
        if labels is None or labels.dtype not in (torch.bool, torch.int64):
            return super().count_by_bucket(targets, buckets, seen)
        counts = native.count_by_bucket(labels, buckets.table_on(CPU_DEVICE), len(buckets), num_threads())
        return counts if targets.row_mask is None else counts * targets.row_mask[:, None]

    def look_up(self, targets: Targets, ids: Tensor) -> Any:
        if targets.dense is not None and targets.binary:
            width = min(ids.shape[1], self.most(targets.n_relevant, 0))
            return Hits(*native.hits(ids, targets.dense, max(1, width), num_threads()))
        if targets.padded is not None:
            width = min(ids.shape[1], targets.padded.shape[1])
            return Hits(*native.hits(ids, targets.padded, max(1, width), num_threads()))
        entries, most = targets.entries, self.most(targets.n_relevant, 0)
        found = native.hits(
            ids, entries.ids, max(1, min(ids.shape[1], most)), num_threads(), targets.starts, entries.gains, most
        )
        return Hits(*found)

    def within_buckets(self, found: Any, placed: Any, buckets: LabelBuckets, deepest: int) -> tuple[Hits, Tensor]:
        return _by_bucket(found, placed, buckets)

    def split(self, hits: Hits, buckets: LabelBuckets) -> Hits:
        return _by_bucket(hits, None, buckets)[0]

    def exact_ranks(self, scores: Tensor, entries: Entries) -> Tensor:
        starts = starts_of(entries.rows, len(scores))
        above, before, _ = native.rank_counts(scores, starts, entries.ids, num_threads())
        own = scores[entries.rows, entries.ids]
        return torch.where(own > -torch.inf, above + before + 1, NOT_RANKED)

    def counts_above(self, scores: Tensor, rows: Tensor, own: Tensor, labels: Tensor) -> Tensor:
        starts = starts_of(rows, len(scores))
        # labels before the first column have no equal score before them, which -1 would leave out altogether
        above, before, equal = native.rank_counts(
            scores, starts, labels.clamp(min=0), num_threads(), own.to(torch.float64)
        )
        return torch.stack([above, equal, torch.where(labels >= 0, before, 0)])


def _by_bucket(hits: Hits, ids: Tensor | None, buckets: LabelBuckets) -> tuple[Hits, Tensor]:
    """Return hits by bucket: within lists ``ids`` (N, D), or, without lists, with the ranks that they have."""
    given = hits.ranks, hits.ids, hits.gains, hits.ranks.shape[1]
    table = buckets.table_on(CPU_DEVICE)
    ranks, labels, gains, length = native.within_buckets(ids, table, len(buckets), *given, num_threads())
    return Hits(ranks, labels, gains), length


def starts_of(rows: Tensor, num_rows: int) -> Tensor:
    """Return where the entries of each row begin, and where the last end, shape (N + 1,); ``rows`` ascend."""
    return torch.searchsorted(rows, whole_numbers(num_rows + 1, rows.device))


CPU = NativeKernels() if native.available() else CpuKernels()


def kernels_for(device: torch.device) -> Kernels:
    """Return the form in which a batch is read, asked once for each batch.

    Reading a value costs nothing on the CPU, but where ``torch.compile`` traces. Elsewhere the program would wait for
    the device, or the graph would break.
    """
    return CPU if device.type == "cpu" and not FORCED[0] and not is_compiling() else PLAIN
