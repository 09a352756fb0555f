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
        if not distinct:
            blocks = RANKED * max(1, min(4, num_threads()) // 2)  # the larger, the less threads wait for each other
            height = max(1, (READ_ONCE if _neighbours(scores.shape[1], depth) else blocks) // scores.shape[1])
            parts = over_threads(
                lambda part, _: [best_of_rows(one.to(wide), depth) for one in torch.split(part, height)], scores
            )
            values, ids = map(torch.cat, zip(*chain.from_iterable(parts), strict=True))
            of_values = values.numpy()
            distinct = bool((of_values[:, :-1] > of_values[:, 1:]).all())
        # strictly descending scores with one more score behind them are neither NaN nor -inf
        numbers = (distinct and k < depth) or (of_values[:, k - 1].min() > -np.inf and of_values[:, 0].max() <= np.inf)
        return values, ids[:, :k], distinct, bool(numbers)

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
            table = np.full(filled.shape, fill, values.dtype, order="F")  # formulas read columns
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

    def first_of_buckets(self, ids: Tensor, buckets: LabelBuckets, k: int) -> Tensor:
        num_rows, depth = ids.shape
        groups, width = len(buckets), min(k, depth)
        if not ids.numel():
            return ids.new_full((num_rows, groups, width), -1)
        bucket = buckets.table_on(CPU_DEVICE).numpy()[ids.numpy()].astype(np.int32)
        # NumPy takes a hundredth of the time of torch's sort
        places = np.sort(bucket * np.int32(depth) + np.arange(depth, dtype=np.int32), axis=1)
        rows = np.arange(num_rows)[:, None]
        ends = rows * (groups + 1) * depth  # of each row in a vector of sorted numbers, and then of each bucket
        ends = np.searchsorted((places + ends).ravel(), ends + np.arange(1, groups + 1) * depth)
        first = np.concatenate([rows * depth, ends[:, :-1]], axis=1)[..., None] + np.arange(width)
        place = places.ravel()[first.clip(max=places.size - 1)] % depth
        return torch.from_numpy(np.where(first < ends[..., None], ids.numpy()[rows[..., None], place], -1))

    def _best_of_entries(
        self, targets: Targets, buckets: LabelBuckets | None, k: int, most: int, weights: LabelWeights | None
    ) -> Tensor:
        entries, num_rows = targets.entries, targets.num_rows
        if buckets is not None or not len(entries.ids) or num_rows * most > PADDED * len(entries.ids):
            return super()._best_of_entries(targets, buckets, k, most, weights)
        values = entries.gains if weights is None else looked_up(weights.on(CPU_DEVICE), entries.ids)
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
    found = _candidates(cells, depth)
    if found is None:
        best, labels = plain_top_k(scores, depth)
        return best[:, :depth] + 0.0, labels
    starts = np.arange(0, cells.size + 1, width)
    first = np.searchsorted(found, starts)
    counts, values = np.diff(first), cells.ravel().take(found)
    if scores.dtype == torch.float64:
        order = np.lexsort((found, -values, np.repeat(starts[:-1], counts)))
        chosen = order[first[:-1, None] + np.arange(depth)]
        return torch.from_numpy(values[chosen] + 0.0), torch.from_numpy(found[chosen] - starts[:-1, None])
    bits = (values + np.float32(0)).view(np.int32)  # 0 for -0
    filled = np.arange(counts.max()) < counts[:, None]
    keys = np.full(filled.shape, np.iinfo(np.int64).max)
    keys[filled] = (~(bits ^ (bits >> 31 & ALL_BUT_SIGN))).astype(np.int64) << 32 | found  # the lowest key is the best
    keys = np.partition(keys, depth - 1, axis=1)[:, :depth] if filled.shape[-1] > 2 * depth else keys
    keys = np.sort(keys, axis=1)[:, :depth]
    bits = ~(keys >> 32).astype(np.int32)
    best = torch.from_numpy((bits ^ (bits >> 31 & ALL_BUT_SIGN)).view(np.float32))
    return best, torch.from_numpy((keys & 0xFFFFFFFF) - starts[:-1, None])


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
    groups = width // size if size else max(3 * depth, min(GROUPS, width // 4))
    whole, is_wide = groups * (size or width // groups), width >= 3 * groups
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
    # sorted in parts: each holds so many maxima from its own bar on that all parts together hold ``depth``
    parts = -(-groups // GROUPS)
    in_parts = np.sort(maxima[:, : groups // parts * parts].reshape(num_rows, parts, -1), axis=2)
    bars = in_parts[:, :, -(-depth // parts) * -1].min(axis=1)[:, None]
    if not size:
        found = _not_below(cells, bars)
        return None if 4 * len(found) > cells.size else found
    rows, group = np.divmod(np.flatnonzero(maxima >= bars), groups)
    if 4 * len(rows) > maxima.size:
        return None
    few, place = np.divmod(np.flatnonzero(neighbours[rows, group] >= bars[rows]), size)
    last_rows, last = np.divmod(np.flatnonzero(cells[:, whole:] >= bars), max(1, width - whole))
    found = np.append(rows[few] * width + group[few] * size + place, last_rows * width + whole + last)
    return np.sort(found)


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

    counts_at_once = True

    def look_through(self, ids: Tensor) -> ListCheck:
        return super().look_through(ids) if ids.shape[1] > LONGEST_IN_C else native.check_lists(ids, num_threads())

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

    def within_buckets(self, found: Any, ids: Tensor, buckets: LabelBuckets, deepest: int) -> tuple[Hits, Tensor]:
        return native.within_buckets(ids, buckets.table_on(CPU_DEVICE), len(buckets), found, num_threads())

    def split(self, hits: Hits, buckets: LabelBuckets) -> Hits:
        return native.within_buckets(None, buckets.table_on(CPU_DEVICE), len(buckets), hits, num_threads())[0]

    def add_up(self, values: Tensor, dim: int, limbs: int, lowest: int, bounded: bool) -> Tensor | None:
        known = values.dtype == torch.float64
        return native.add_up(values, dim, limbs, lowest, bounded, num_threads()) if known else None

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
