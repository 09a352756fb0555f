"""The steps of a batch on the CPU. Here a step may look at values, and sizes may depend on them."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tailmetrics.buckets import LabelBuckets
from tailmetrics.ranking import native
from tailmetrics.ranking._device import FORCED, is_compiling, num_threads, over_threads, whole_numbers
from tailmetrics.ranking._hits import NOT_RANKED, Entries, Hits, ListCheck
from tailmetrics.ranking._kernels import PLAIN, Kernels, Targets
from tailmetrics.ranking._matrices import plain_top_k

CPU_DEVICE = torch.device("cpu")

RANKED = 2**20
"""This many scores are ranked at a time, or twice as many by four threads. Most of what they need fits the caches."""

COMPARED = 2**22
"""This many comparisons of a hit with a place of a list are made at a time: 4 MB of flags, which fit the cache."""


LOOKED_UP = 2**19
"""This many places of lists are compared with the relevant labels at a time. They take 1 MB of cache."""

COMPARED_EACH = 16
"""Up to this many relevant labels of a row, each is compared with the whole list. More are found by a search."""

GROUPS = 384
"""A wide row is cut into this many groups, or into more if the depth asks for more.

Fewer groups leave more scores that reach the bar. Of more groups it takes longer to find the bar. At the depths 11 and
101, 350 to 700 groups are fastest. At the depth 501, 1,500 to 2,000 are.
"""

ALL_BUT_SIGN = np.int32(2**31 - 1)
"""All bits of a number of 32 bits except its sign."""

SMALL = 2**17
"""Up to this many scores ``torch.topk`` is faster than a dozen calls of NumPy. It is used if no scores are equal."""

MANY = 512
"""Up to this many given labels in a row, higher scores are counted by one pass for each label, otherwise by sorting."""


class CpuKernels(Kernels):
    """The steps of a batch on the CPU, without native code."""

    reads = True

    def top_k(self, scores: Tensor, k: int) -> tuple[Tensor, Tensor, bool, bool]:
        if not scores.numel() or k == 0:
            return *plain_top_k(scores, k), False, False
        depth, wide = min(k + 1, scores.shape[1]), torch.promote_types(scores.dtype, torch.float32)
        distinct = False
        if scores.numel() <= SMALL:
            values, ids = torch.topk(scores.to(wide), depth, dim=1)
            of_values = values.numpy()
            of_values += 0.0  # 0 for -0
            distinct = bool((of_values[:, :-1] > of_values[:, 1:]).all())
        if not distinct:  # the larger the blocks, the less threads wait for each other
            height = max(1, RANKED * max(1, min(4, num_threads()) // 2) // scores.shape[1])
            parts = over_threads(
                lambda part, _: [best_of_rows(one.to(wide), depth) for one in torch.split(part, height)], scores
            )
            values, ids = map(torch.cat, zip(*chain.from_iterable(parts), strict=True))
            of_values = values.numpy()
            distinct = bool((of_values[:, :-1] > of_values[:, 1:]).all())
        # strictly descending scores with one more score behind them are neither NaN nor -inf
        numbers = (distinct and k < depth) or bool(
            (of_values[:, k - 1] > -np.inf).all() and of_values[:, 0].max() <= np.inf
        )
        return values, ids[:, :k], distinct, numbers

    def look_up(self, targets: Targets, ids: Tensor) -> Any:
        gains, wanted, width = None, targets.padded, max(1, ids.shape[1])
        if wanted is not None and wanted.shape[1] <= COMPARED_EACH:
            # targets are padded with -2 instead of -1: the -1 that pads a list then equals no target
            wanted_of_all, height = wanted.numpy(), max(1, LOOKED_UP // width)
            if not targets.filled:
                wanted_of_all = np.where(wanted_of_all < 0, -2, wanted_of_all)

            def compared(part: Tensor, first: int) -> tuple[Any, Any, Any]:
                hits, listed, own = np.zeros(part.shape, np.bool_), part.numpy(), wanted_of_all[first:]
                for start in range(0, len(part), height):
                    block = slice(start, start + height)
                    ends = listed[block].astype(np.int16)
                    for label in own[start : start + len(ends)].T.astype(np.int16):
                        hits[block] |= ends == label[:, None]
                rows, columns = np.divmod(np.flatnonzero(hits), width)
                labels = listed[rows, columns]
                found = (labels[:, None] == own[rows]).any(axis=1)  # all bits are equal, not only the last 16
                return first + rows[found], columns[found], labels[found]

            rows, columns, labels = map(np.concatenate, zip(*over_threads(compared, ids), strict=True))
        else:
            found = super().look_up(targets, ids)
            rows, columns = np.divmod(np.flatnonzero(found.hits[:, : ids.shape[1]].numpy()), width)
            labels, gains = ids.numpy()[rows, columns], found.gains
        counts = np.bincount(rows, minlength=len(ids))
        filled = np.arange(max(1, counts.max(initial=0))) < counts[:, None]

        def side_by_side(values: Any, fill: float) -> Tensor:
            table = np.full(filled.shape, fill, values.dtype)
            table[filled] = values
            return torch.from_numpy(table)

        gains = None if gains is None else side_by_side(gains.numpy()[rows, columns], 0.0)
        return Hits(side_by_side(columns + 1, NOT_RANKED), side_by_side(labels, -1), gains)

    def within_buckets(self, found: Any, ids: Tensor, buckets: LabelBuckets, deepest: int) -> tuple[Hits, Tensor]:
        hits, depth, groups = found, ids.shape[1], len(buckets) + 1
        table, places = buckets.table_on(CPU_DEVICE).numpy(), np.arange(1, depth + 1)

        def of_part(part: Tensor, first: int) -> tuple[Tensor, Tensor]:
            ranks, labels = (whole[first : first + len(part)].numpy() for whole in (hits.ranks, hits.ids))
            bucket = table[part.numpy()]
            within = np.full(ranks.shape, NOT_RANKED)
            rows, columns = np.nonzero(ranks <= depth)
            for some in np.array_split(np.arange(len(rows)), 1 + len(rows) * depth // COMPARED):
                row, column = rows[some], columns[some]
                rank = ranks[row, column, None]
                same = (bucket[row] == table[labels[row, column], None]) & (places <= rank)
                within[row, column] = np.count_nonzero(same, axis=1)
            keys = np.arange(0, len(part) * groups, groups)[:, None] + bucket
            length = np.bincount(keys.ravel(), minlength=len(part) * groups).reshape(-1, groups)
            return torch.from_numpy(within), torch.from_numpy(length[:, :-1])

        within, length = map(torch.cat, zip(*over_threads(of_part, ids), strict=True))
        return self.split(Hits(within, hits.ids, hits.gains), buckets), length

    def of_buckets(self, found: Any, buckets: LabelBuckets, deepest: int) -> Hits:
        return self.split(found, buckets)

    # sums

    TERMS = 2**18
    """This many terms are added up at a time. They take 2 MB, which stay in the cache from step to step."""

    LIMBS = 2**18
    """This many limbs are made at a time. They take 2 MB."""

    def add_up_terms(self, terms: Tensor, bits: int, added: Tensor) -> None:
        torch.sum(terms.mul_(2.0**bits).floor(), dim=1, dtype=added.dtype, out=added[0])
        torch.sum(terms.frac_().mul_(2.0**bits).floor_(), dim=1, dtype=added.dtype, out=added[1])


def best_of_rows(scores: Tensor, depth: int) -> tuple[Tensor, Tensor]:
    """Return the best values of each row and their labels, both (N, depth). Of equal scores the lower label is first.

    A wide row is cut into more than ``depth`` groups. The bar is the maximum in place ``depth`` among the maxima of
    the groups. At least ``depth`` scores reach the bar, and only these candidates are sorted. In a narrow row all
    scores are candidates. NumPy takes a third of the time of ``torch.topk``, which does not order equal scores.

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
    found = _not_below(cells, bars) if wide else np.arange(cells.size)
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
    keys[filled] = (~(bits ^ (bits >> 31 & ALL_BUT_SIGN))).astype(np.int64) << 32 | labels  # the lowest key is the best
    keys = np.partition(keys, depth - 1, axis=1)[:, :depth] if filled.shape[-1] > 2 * depth else keys
    keys = np.sort(keys, axis=1)[:, :depth]
    bits = ~(keys >> 32).astype(np.int32)
    return torch.from_numpy((bits ^ (bits >> 31 & ALL_BUT_SIGN)).view(np.float32)), torch.from_numpy(keys & 0xFFFFFFFF)


def _not_below(cells: Any, bars: Any) -> Any:
    """Return the flat places of the few ``cells`` (N, L) that reach the bar of their row (N, 1).

    Eight flags are looked at as one number. NumPy then takes half the time of a look at each of them.
    """
    flags = np.empty(-(-cells.size // 8) * 8, np.bool_)
    flags[cells.size :] = False
    np.greater_equal(cells, bars, out=flags[: cells.size].reshape(cells.shape))
    eights = flags.view(np.uint64)
    some = np.flatnonzero(eights != 0)
    places = np.flatnonzero(eights[some].view(np.bool_))
    return some[places >> 3] * 8 + (places & 7)


class NativeKernels(CpuKernels):
    """The steps of a batch on the CPU. Steps that read many values run in C, on the threads of the program."""

    def look_through(self, ids: Tensor) -> ListCheck:
        return native.check_lists(ids, num_threads())

    def top_k(self, scores: Tensor, k: int) -> tuple[Tensor, Tensor, bool, bool]:
        return native.top_k(scores, k, num_threads())

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

    def within_buckets(self, found: Any, ids: Tensor, buckets: LabelBuckets, deepest: int) -> tuple[Hits, Tensor]:
        return native.within_buckets(ids, buckets.table_on(CPU_DEVICE), len(buckets), found, num_threads())

    def split(self, hits: Hits, buckets: LabelBuckets) -> Hits:
        return native.within_buckets(None, buckets.table_on(CPU_DEVICE), len(buckets), hits, num_threads())[0]

    def add_up(self, values: Tensor, dim: int, limbs: int, lowest: int, bounded: bool) -> Tensor | None:
        known = values.dtype == torch.float64
        return native.add_up(values, dim, limbs, lowest, bounded, num_threads()) if known else None

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
    """Return the kernels that read a batch. They are chosen once for each batch.

    The CPU kernels read values, which costs nothing on the CPU. The plain kernels never read a value: on a device the
    program would have to wait, and while ``torch.compile`` traces, the graph would break.
    """
    return CPU if device.type == "cpu" and not FORCED[0] and not is_compiling() else PLAIN
