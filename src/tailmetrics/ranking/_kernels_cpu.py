"""The steps of a batch on the CPU. Here a step may look at values, and sizes may depend on them."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tailmetrics.buckets import LabelBuckets
from tailmetrics.ranking import native
from tailmetrics.ranking._device import FORCED, is_compiling, looked_up, num_threads, over_threads, whole_numbers
from tailmetrics.ranking._hits import NOT_RANKED, Hits, LabelWeights, ListCheck
from tailmetrics.ranking._kernels import DEEP, PLAIN, Kernels, Targets
from tailmetrics.ranking._matrices import plain_top_k

CPU_DEVICE = torch.device("cpu")

RANKED = 2**20
"""This many scores are ranked at a time, or twice as many by four threads. Most of what they need fits the caches."""

READ_ONCE = 2**23
"""This many scores are ranked at a time where few of them are read twice: the fewer steps, the less threads wait."""

COMPARED = 2**22
"""This many comparisons of a hit with a place of a list are made at a time: 4 MB of flags, which fit the cache."""


LOOKED_UP = 2**19
"""This many places of lists are compared with the relevant labels at a time. They take 1 MB of cache."""

COMPARED_EACH = 16
"""Up to this many relevant labels of a row, each is compared with the whole list. More are found by a search."""

GROUPS = 512
"""A wide row is cut into this many groups, or into more if the depth asks for more.

Fewer groups leave more scores that reach the bar. NumPy sorts up to 512 maxima at a time in a tenth of the time that
each takes in a longer row.
"""

LANES = 32
"""A group of neighbouring labels has a multiple of this many. Of other sizes torch takes up to six times as long."""

ALL_BUT_SIGN = np.int32(2**31 - 1)
"""All bits of a number of 32 bits except its sign."""

SMALL = 2**17
"""Up to this many scores ``torch.topk`` is faster than a dozen calls of NumPy. It is used if no scores are equal."""

PADDED = 8
"""Values are sorted in a padded table of up to this many cells for each value. A flat sort takes as much memory."""

LONG, FEW = 2**11, 16
"""At least so many rows of at most so many values are sorted by columns: at most the time of NumPy, often a third."""

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
        depth, wide = min(k + 1, scores.shape[1]), torch.promote_types(scores.dtype, torch.float32)
        distinct = False
        if scores.numel() <= SMALL:
            values, ids = torch.topk(scores.to(wide), depth, dim=1)
            array = values.numpy()
            array += 0.0  # 0 for -0
            distinct = bool((array[:, :-1] > array[:, 1:]).all())
        if not distinct:
            values, ids = self._best_in_blocks(scores, depth)
            array = values.numpy()
            distinct = bool((array[:, :-1] > array[:, 1:]).all())
        if distinct and k < depth:  # with one more score behind them, the scores are neither NaN nor -inf
            return values, ids[:, :k], True, True
        numbers = bool(array[:, k - 1].min() > -np.inf) and bool(array[:, 0].max() <= np.inf)
        return values, ids[:, :k], distinct, numbers

    def _best_in_blocks(self, scores: Tensor, depth: int) -> tuple[Tensor, Tensor]:
        """Return :func:`best_of_rows` of scores of any type, some rows at a time."""
        wide = torch.promote_types(scores.dtype, torch.float32)
        block = RANKED * max(1, min(4, num_threads()) // 2)  # the larger, the less threads wait for each other
        if _neighbours(scores.shape[1], depth):
            block = READ_ONCE
        height = max(1, block // scores.shape[1])

        def rank_part(part: Tensor, _: int) -> list[tuple[Tensor, Tensor]]:
            return [best_of_rows(rows.to(wide), depth) for rows in torch.split(part, height)]

        blocks = list(chain.from_iterable(over_threads(rank_part, scores)))
        return torch.cat([values for values, _ in blocks]), torch.cat([ids for _, ids in blocks])

    def look_up(self, targets: Targets, ids: Tensor) -> Any:
        gains = None
        if targets.padded is not None and targets.padded.shape[1] <= COMPARED_EACH:
            rows, columns, labels = _compared_with_each(targets, ids)
        else:
            places = super().look_up(targets, ids)
            is_hit = places.hits[:, : ids.shape[1]].numpy()
            rows, columns = np.divmod(np.flatnonzero(is_hit), max(1, ids.shape[1]))
            labels = ids.numpy()[rows, columns]
            if places.gains is not None:
                gains = places.gains.numpy()[rows, columns]
        counts = np.bincount(rows, minlength=len(ids))
        filled = np.arange(max(1, counts.max(initial=0))) < counts[:, None]

        def side_by_side(values: Any, fill: float) -> Tensor:
            table = np.full(filled.shape, fill, values.dtype, order="F")  # formulas read columns
            table[filled] = values
            return torch.from_numpy(table)

        if gains is not None:
            gains = side_by_side(gains, 0.0)
        return Hits(side_by_side(columns + 1, NOT_RANKED), side_by_side(labels, -1), gains)

    def within_buckets(self, places: Any, ids: Tensor, buckets: LabelBuckets, deepest: int) -> tuple[Hits, Tensor]:
        hits, depth, groups = places, ids.shape[1], len(buckets) + 1
        table, place = buckets.table_on(CPU_DEVICE).numpy(), np.arange(1, depth + 1)

        def part_ranks(part: Tensor, first: int) -> tuple[Tensor, Tensor]:
            ranks, labels = (whole[first : first + len(part)].numpy() for whole in (hits.ranks, hits.ids))
            bucket = table[part.numpy()]
            within = np.full(ranks.shape, NOT_RANKED)
            rows, columns = np.nonzero(ranks <= depth)
            for block in np.array_split(np.arange(len(rows)), 1 + len(rows) * depth // COMPARED):
                row, column = rows[block], columns[block]
                rank = ranks[row, column, None]
                same = (bucket[row] == table[labels[row, column], None]) & (place <= rank)
                within[row, column] = np.count_nonzero(same, axis=1)
            keys = np.arange(0, len(part) * groups, groups)[:, None] + bucket
            length = np.bincount(keys.ravel(), minlength=len(part) * groups).reshape(-1, groups)
            return torch.from_numpy(within), torch.from_numpy(length[:, :-1])

        within, length = map(torch.cat, zip(*over_threads(part_ranks, ids), strict=True))
        return self.split(Hits(within, hits.ids, hits.gains), buckets), length

    def by_bucket(self, places: Any, buckets: LabelBuckets, deepest: int) -> Hits:
        return self.split(places, buckets)

    def first_of_buckets(self, ids: Tensor, buckets: LabelBuckets, k: int) -> Tensor:
        num_rows, depth = ids.shape
        groups, width = len(buckets), min(k, depth)
        if not ids.numel():
            return ids.new_full((num_rows, groups, width), -1)
        lists = ids.numpy()
        bucket = buckets.table_on(CPU_DEVICE).numpy()[lists].astype(np.int32)
        keys = bucket * np.int32(depth) + np.arange(depth, dtype=np.int32)  # by bucket, then by place in the list
        keys.sort(axis=1)  # NumPy takes a hundredth of the time of torch's sort

        # all rows as one ascending vector, in which the end of each bucket is searched
        rows = np.arange(num_rows)[:, None]
        offsets = rows * (groups + 1) * depth
        bucket_ends = offsets + np.arange(1, groups + 1) * depth
        ends = np.searchsorted((keys + offsets).ravel(), bucket_ends)
        starts = np.concatenate([rows * depth, ends[:, :-1]], axis=1)

        cells = starts[..., None] + np.arange(width)
        place = keys.ravel()[cells.clip(max=keys.size - 1)] % depth
        labels = lists[rows[..., None], place]
        return torch.from_numpy(np.where(cells < ends[..., None], labels, -1))

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
        table, depth = values.new_zeros(num_rows * most), max(k, DEEP)
        if num_rows >= LONG and most <= FEW:
            columns = table.scatter_(0, place.mul_(num_rows).add_(entries.rows), values).view(most, num_rows)
            return torch.from_numpy(largest_first(columns.numpy())[:depth]).t()
        table = table.scatter_(0, place.add_(entries.rows, alpha=most), values).view(num_rows, most)
        # NumPy takes a quarter of the time of torch's sort; columns are contiguous, as formulas read columns
        return torch.from_numpy(np.sort(table.numpy(), axis=1)[:, ::-1][:, :depth].copy(order="F"))

    # sums

    TERMS = 2**18
    """This many terms are added up at a time. They take 2 MB, which stay in the cache from step to step."""

    LIMBS = 2**18
    """This many limbs are made at a time. They take 2 MB."""

    def add_up_terms(self, terms: Tensor, bits: int, added: Tensor) -> None:
        torch.sum(terms.mul_(2.0**bits).floor(), dim=1, dtype=added.dtype, out=added[0])
        torch.sum(terms.frac_().mul_(2.0**bits).floor_(), dim=1, dtype=added.dtype, out=added[1])


def _compared_with_each(targets: Targets, ids: Tensor) -> tuple[Any, Any, Any]:
    """Compare lists (N, K) with each of the few relevant labels of their row.

    Returns:
        Arrays (H,): the row, the place in the list and the label of each hit, by row and place.
    """
    assert targets.padded is not None
    width, height = max(1, ids.shape[1]), max(1, LOOKED_UP // max(1, ids.shape[1]))
    relevant = targets.padded.numpy()
    if not targets.filled:  # padded with -2 instead of -1: the -1 that pads a list then equals no target
        relevant = np.where(relevant < 0, -2, relevant)

    def compare(part: Tensor, first: int) -> tuple[Any, Any, Any]:
        is_equal, listed, own = np.zeros(part.shape, np.bool_), part.numpy(), relevant[first:]
        for start in range(0, len(part), height):
            block = slice(start, start + height)
            last_bits = listed[block].astype(np.int16)
            for label in own[start : start + len(last_bits)].T.astype(np.int16):
                is_equal[block] |= last_bits == label[:, None]
        rows, columns = np.divmod(np.flatnonzero(is_equal), width)
        labels = listed[rows, columns]
        is_hit = (labels[:, None] == own[rows]).any(axis=1)  # all bits are equal, not only the last 16
        return first + rows[is_hit], columns[is_hit], labels[is_hit]

    rows, columns, labels = zip(*over_threads(compare, ids), strict=True)
    return np.concatenate(rows), np.concatenate(columns), np.concatenate(labels)


def largest_first(columns: Any) -> Any:
    """Sort each row of a table, the largest value first. The table is given as columns (W, N), which are overwritten.

    An odd-even merge sort takes the same steps for all rows: each step compares two whole columns.

    Source: Batcher, AFIPS 1968; Knuth, The Art of Computer Programming 3, algorithm 5.2.2 M.
    """
    width, ordered, spare = len(columns), list(columns), np.empty_like(columns[0])
    top = size = 1 << max(0, (width - 1).bit_length() - 1)
    while size:
        step, start, distance = top, 0, size
        while distance:
            for first in range(width - distance):
                if first & size == start:
                    low, high = ordered[first], ordered[first + distance]
                    np.minimum(low, high, out=spare)
                    np.maximum(low, high, out=low)
                    ordered[first + distance], spare = spare, high
            distance, step, start = step - size, step // 2, size
        size //= 2
    return np.stack(ordered)


def best_of_rows(scores: Tensor, depth: int) -> tuple[Tensor, Tensor]:
    """Return the best values of each row and their labels, both (N, depth). Of equal scores the lower label is first.

    Only candidates are sorted. NumPy takes a third of the time of ``torch.topk``, which does not order equal scores.

    Args:
        scores: Shape (N, L), float32 or float64.
        depth: At most L.
    """
    cells, width = scores.contiguous().numpy(), scores.shape[1]
    candidates = _candidates(cells, depth)
    if candidates is None:
        best, labels = plain_top_k(scores, depth)
        return best[:, :depth] + 0.0, labels
    starts = np.arange(0, cells.size + 1, width)
    first = np.searchsorted(candidates, starts)
    values = cells.ravel().take(candidates)
    if scores.dtype == torch.float64:
        row_starts = np.repeat(starts[:-1], np.diff(first))
        order = np.lexsort((candidates, -values, row_starts))
        chosen = order[first[:-1, None] + np.arange(depth)]
        best, places = values[chosen] + 0.0, candidates[chosen]
    else:
        best, places = _best_by_bits(values, candidates, np.diff(first), depth)
    return torch.from_numpy(best), torch.from_numpy(places - starts[:-1, None])


def _best_by_bits(values: Any, candidates: Any, counts: Any, depth: int) -> tuple[Any, Any]:
    """Return the best values of each row and their places, both (N, depth), by one sort of 64 bits for each candidate.

    Args:
        values: Shape (C,), float32: the scores of candidates, row by row.
        candidates: Shape (C,): their flat places, below 2^32.
        counts: Shape (N,): the number of candidates of each row.
        depth: At most the least of ``counts``.
    """
    bits = (values + np.float32(0)).view(np.int32)  # 0 for -0
    descending = ~(bits ^ (bits >> 31 & ALL_BUT_SIGN))  # a whole number that is lowest for the best score
    filled = np.arange(counts.max()) < counts[:, None]
    keys = np.full(filled.shape, np.iinfo(np.int64).max)
    keys[filled] = descending.astype(np.int64) << 32 | candidates
    if filled.shape[-1] > 2 * depth:
        keys = np.partition(keys, depth - 1, axis=1)[:, :depth]
    keys = np.sort(keys, axis=1)[:, :depth]

    bits = ~(keys >> 32).astype(np.int32)
    best = (bits ^ (bits >> 31 & ALL_BUT_SIGN)).view(np.float32)
    return best, keys & 0xFFFFFFFF


def _neighbours(width: int, depth: int) -> int:
    """Return how many neighbouring labels make a group of a row; 0 if more than an eighth of the groups were chosen."""
    return width // max(GROUPS, 8 * depth) // LANES * LANES


def _candidates(cells: Any, depth: int) -> Any:
    """Return the flat places, ascending, of scores among which are the ``depth`` best of each row.

    None beside NaN, and if more than a quarter of the scores would be candidates, because so many are equal.

    A wide row is cut into groups of labels. The bar is a score that the maxima of ``depth`` groups reach. The
    candidates are all scores that reach it. If few groups reach it, a group has neighbouring labels, so that only these
    groups are read a second time. If many do, its labels are spread over the row. In a narrow row all scores are
    candidates.
    """
    num_rows, width = cells.shape
    size = _neighbours(width, depth)
    if size:
        groups = width // size
        whole = groups * size
    else:
        groups = max(3 * depth, min(GROUPS, width // 4))
        whole = groups * (width // groups)
    is_wide = width >= 3 * groups
    maxima = cells
    if size:
        neighbours = cells[:, :whole].reshape(num_rows, groups, -1)
        maxima = torch.from_numpy(neighbours).amax(dim=2).numpy()
    elif is_wide:
        maxima = cells[:, :whole].reshape(num_rows, -1, groups).max(axis=1)
    if np.isnan(maxima).any() or np.isnan(cells[:, whole:]).any():
        return None
    if not is_wide:
        return np.arange(cells.size)

    bars = _bars(maxima, depth)
    if not size:
        places = _not_below(cells, bars)
        return None if 4 * len(places) > cells.size else places
    rows, group = np.divmod(np.flatnonzero(maxima >= bars), groups)
    if 4 * len(rows) > maxima.size:
        return None
    chosen, place = np.divmod(np.flatnonzero(neighbours[rows, group] >= bars[rows]), size)
    in_groups = rows[chosen] * width + group[chosen] * size + place
    last_rows, last = np.divmod(np.flatnonzero(cells[:, whole:] >= bars), max(1, width - whole))
    behind_groups = last_rows * width + whole + last
    return np.sort(np.append(in_groups, behind_groups))


def _bars(maxima: Any, depth: int) -> Any:
    """Return a score that at least ``depth`` of the maxima (N, G) of each row reach, shape (N, 1).

    The maxima are sorted in parts. Each part holds so many from its own bar on that all parts together hold ``depth``.
    """
    num_rows, groups = maxima.shape
    parts = -(-groups // GROUPS)
    in_parts = np.sort(maxima[:, : groups // parts * parts].reshape(num_rows, parts, -1), axis=2)
    return in_parts[:, :, -(-depth // parts) * -1].min(axis=1)[:, None]


def _not_below(cells: Any, bars: Any) -> Any:
    """Return the flat places of the few ``cells`` (N, L) that reach the bar of their row (N, 1).

    Eight flags are looked at as one number. NumPy then takes half the time of a look at each of them.
    """
    flags = np.empty(-(-cells.size // 8) * 8, np.bool_)
    flags[cells.size :] = False
    np.greater_equal(cells, bars, out=flags[: cells.size].reshape(cells.shape))
    eights = flags.view(np.uint64)
    with_flag = np.flatnonzero(eights != 0)
    places = np.flatnonzero(eights[with_flag].view(np.bool_))
    return with_flag[places >> 3] * 8 + (places & 7)


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
