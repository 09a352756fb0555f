"""Steps on whole matrices on a device, where no size may depend on a value: rank scores, count labels by bucket."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import isqrt

import torch
from torch import Tensor
from torch.nn import functional as F

from tailmetrics.buckets import LabelBuckets
from tailmetrics.ranking._device import made_once, real_dtype, whole_numbers
from tailmetrics.ranking._hits import Entries, LabelWeights

# the order of scores: compare and sort whole rows

SORTED = 2**12
"""A device sorts a row of up to this width in one pass. A wider row takes a pass for each byte of a score, and more."""

FLAGGED = 2**26
"""This many scores are compared at a time. On a device the flag of each score takes a byte: 64 MB."""

SORTED_TOGETHER = 2**23
"""This many scores are copied or sorted at a time. A copy takes 32 MB, a sort a quarter of a gigabyte."""


def counts_one_by_one(scores: Tensor, own: Tensor, labels: Tensor) -> Tensor:
    """Return the counts of :meth:`Kernels.counts_above`, shape (3, N, W): one pass over the scores for each column.

    ``own`` and ``labels`` are tables (N, W).
    """
    columns, counts = torch.arange(scores.shape[1], device=scores.device), []
    for limit, label in zip(torch.split(own, 1, dim=1), torch.split(labels, 1, dim=1), strict=True):
        equal = scores == limit
        flags = scores > limit, equal, equal & (columns < label)
        counts.append(torch.stack([flag.sum(dim=1) for flag in flags]))
    return torch.stack(counts, dim=2)


def counts_by_sorting(scores: Tensor, own: Tensor, labels: Tensor) -> Tensor:
    """Return the counts of :func:`counts_one_by_one` by sorting the scores, which is faster for large W."""
    width = scores.shape[1]
    wide = torch.promote_types(scores.dtype, torch.float32)
    ordered, order = scores.to(wide).sort(dim=1, stable=True, descending=True)
    limits = -own.to(wide)
    above = torch.searchsorted(-ordered, limits)
    same = torch.searchsorted(-ordered, limits, right=True) - above

    # how many equal scores have a lower column: for a label in the row, its place among the equal scores
    before = torch.where(labels < width, 0, same)
    if width:
        places = torch.empty_like(order).scatter_(1, order, torch.arange(width, device=order.device).expand_as(order))
        in_scores = (labels >= 0) & (labels < width)
        before = torch.where(in_scores, places.gather(1, labels.clamp(0, width - 1)) - above, before)
    return torch.stack([above, same, before])


def above(scores: Tensor, limit: float | Tensor) -> Tensor:
    """Return a mask of the scores (N, L) above a limit, one number or one per label (L,); decisions are the mask."""
    if scores.dtype == torch.bool:
        return scores
    return scores > (limit.to(scores.device, scores.dtype) if isinstance(limit, Tensor) else limit)


def plain_top_k(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the ``k`` + 1 best values and the ``k`` best labels of each row, by sorting whole rows.

    A stable descending sort keeps equal scores in the order of their ids. See :meth:`Kernels.top_k`.
    """
    values, ids = torch.sort(scores, dim=1, descending=True, stable=True)
    return values[:, : k + 1], ids[:, :k]


def tournament(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the ``k`` best values and their places in the row, both (N, k); they may be views of wider tables."""
    num_rows, width = scores.shape
    chunk = _narrowing(width, k, SORTED)
    if chunk < 2:
        values, places = torch.sort(scores, dim=1, descending=True, stable=True)
        return values[:, :k], places[:, :k]
    whole = width - width % chunk
    chunks = scores[:, :whole].view(num_rows, -1, chunk)
    best = tournament(chunks.amax(dim=2), k)[1].sort(dim=1).values  # the k best chunks, in the order of their labels
    cells = chunks[whole_numbers(num_rows, scores.device)[:, None], best].flatten(1)
    if whole == width:
        values, place = tournament(cells, k)
        return values, torch.add(place % chunk, best.gather(1, place // chunk), alpha=chunk)
    values, place = tournament(torch.cat([cells, scores[:, whole:]], dim=1), k)
    in_chunks = place.clamp(max=k * chunk - 1)
    ids = torch.add(in_chunks % chunk, best.gather(1, in_chunks // chunk), alpha=chunk)
    return values, torch.where(place < k * chunk, ids, place + (whole - k * chunk))


@cache
def _narrowing(width: int, k: int, at_once: int) -> int:
    """Return the size of the chunks of a row; 1 if the row is sorted without chunks.

    With the best size, the number of chunks about equals the number of labels in the ``k`` chosen chunks. There are at
    most ``at_once`` chunks, and at least 4 * k. A size up to twice as large or half as large is preferred if it divides
    the width, because the rest of a row takes five more calls.
    """
    if width <= at_once:
        return 1
    least, most = -(-width // at_once), width // (4 * k)
    best = min(max(least, isqrt(width // k)), most)
    sizes = range(max(2, least, -(-best // 2)), min(most, 2 * best) + 1)
    return min((size for size in sizes if width % size == 0), key=lambda size: abs(size - best), default=best)


CHUNK_OF_BARS = 64
"""This many labels share a bar. The bars then take little memory beside the scores."""


def ranks_by_bars(scores: Tensor, entries: Entries, own: Tensor) -> Tensor:
    """Return the ranks of a few relevant labels without reading a value, by counting the labels above a bar, (T,).

    The bar is the score of the relevant label. For chunks with lower labels, where an equal score ranks better, the bar
    is the next lower number. Equal scores of lower labels in the same chunk are counted separately. One relevant label
    in each row of [1024, 131072] moves 0.8 GB with 20 launches; a sort moves 26 GB.
    """
    num_rows, num_labels = scores.shape
    rows, labels = entries.rows, entries.ids.clamp(min=0)
    chunk = labels // CHUNK_OF_BARS
    nearby = torch.add(torch.arange(CHUNK_OF_BARS, device=scores.device), chunk[:, None], alpha=CHUNK_OF_BARS)
    equal = scores[rows[:, None], nearby.clamp(max=num_labels - 1)] == own[:, None]
    better = (equal & (nearby < labels[:, None])).sum(dim=1)
    if len(labels) == num_rows * entries.width:
        shape = num_rows, entries.width
        by_target = zip(own.view(shape).unbind(dim=1), chunk.view(shape).unbind(dim=1), strict=True)
        counts = torch.stack([_above_bars(scores, *target) for target in by_target], dim=1).view(-1)
    else:
        parts = (torch.split(part, max(1, SORTED_TOGETHER // num_labels)) for part in (rows, own, chunk))
        counts = torch.cat([_above_bars(scores[row], *target) for row, *target in zip(*parts, strict=True)])
    return counts + better + 1


def _above_bars(scores: Tensor, own: Tensor, chunk: Tensor) -> Tensor:
    """Count the labels of each row (N, L) above the bars of a relevant label in ``chunk`` (N,) with score ``own``."""
    real = torch.promote_types(scores.dtype, torch.float32)  # older torch has no nextafter for 16-bit types
    own = own.to(real)
    lower = own.nextafter(torch.full_like(own, -torch.inf))
    number = torch.arange(scores.shape[1] // CHUNK_OF_BARS, device=scores.device)
    bars = torch.where(number < chunk[:, None], lower[:, None], own[:, None])
    return _count_in_chunks(torch.gt, scores, bars, own)


def has_equal_scores(scores: Tensor, own: Tensor) -> Tensor:
    """Return whether more than one label of each row (N, L) has the score ``own`` (N,), shape (N,), bool."""
    return _count_in_chunks(torch.eq, scores, own[:, None], own) > 1


def _count_in_chunks(
    compare: Callable[[Tensor, Tensor], Tensor], scores: Tensor, limits: Tensor, last_limit: Tensor
) -> Tensor:
    """Count the scores of each row (N, L) for which ``compare(score, limit)`` is True, shape (N,), int64.

    Flags are added up in bytes, which hold the sum of a chunk. For a wider type, torch would first copy every flag.

    Args:
        compare: A comparison of two tensors.
        scores: Shape (N, L).
        limits: Shape (N, C), or (N, 1): the limit of each of the C whole chunks.
        last_limit: Shape (N,): the limit of the labels behind the whole chunks.
    """
    num_rows, num_labels = scores.shape
    num_chunks = num_labels // CHUNK_OF_BARS
    inside, behind = torch.split(scores, [num_chunks * CHUNK_OF_BARS, num_labels % CHUNK_OF_BARS], dim=1)
    height = max(1, FLAGGED // max(1, num_labels))
    chunks = torch.split(inside.reshape(num_rows, num_chunks, CHUNK_OF_BARS), height)
    counts = []
    for part, part_limits in zip(chunks, torch.split(limits.unsqueeze(2), height), strict=True):
        flags = compare(part, part_limits).view(torch.uint8)
        counts.append(flags.sum(dim=2, dtype=torch.uint8))
    count = torch.cat(counts).sum(dim=1)
    if behind.shape[1]:
        count = count + compare(behind, last_limit[:, None]).sum(dim=1)
    return count


def any_by_row(flags: Tensor, rows: Tensor, num_rows: int) -> Tensor:
    """Return whether some flag (T,) of each row is set, shape (N,), bool; ``rows`` (T,) holds the row of each flag."""
    return flags.new_zeros(num_rows, dtype=torch.int64).scatter_add_(0, rows, flags.to(torch.int64)) > 0


def tied_labels(scores: Tensor) -> Tensor:
    """Return whether each label has the score of another label of its row (N, L), bool; sort a few rows at a time."""
    tied = torch.zeros(scores.shape, dtype=torch.bool, device=scores.device)
    height = max(1, SORTED_TOGETHER // max(1, scores.shape[1]))
    for part, part_tied in zip(torch.split(scores, height), torch.split(tied, height), strict=True):
        ordered, order = torch.sort(part, dim=1)
        as_next = ordered[:, 1:] == ordered[:, :-1]
        part_tied.scatter_(1, order, F.pad(as_next, (1, 0)) | F.pad(as_next, (0, 1)))
    return tied


def ranks_of_all(scores: Tensor) -> Tensor:
    """Return the rank of each label in its row, shape (N, L), int32; a few rows are sorted at a time."""
    ranks = torch.empty(scores.shape, dtype=torch.int32, device=scores.device)
    places = torch.arange(1, scores.shape[1] + 1, dtype=torch.int32, device=scores.device)
    height = max(1, SORTED_TOGETHER // scores.shape[1])
    for part, part_ranks in zip(torch.split(scores, height), torch.split(ranks, height), strict=True):
        order = torch.sort(part, dim=1, descending=True, stable=True).indices
        part_ranks.scatter_(1, order, places.expand_as(order))
    return ranks


# relevant labels of a dense matrix by bucket: count them and find the best without an entry for each cell

CHUNK = 64
"""A chunk has this many columns of one bucket. The sum of their flags fits in a byte."""

COPIED = 3 * 2**26
"""This many bytes of a matrix are put in the order of the buckets at a time: 200 MB."""

CHOSEN = 2**23
"""This many cells of chosen chunks are sorted at a time: 200 MB with the memory of the sort."""


@dataclass(frozen=True, eq=False)
class ColumnChunks:
    """The columns of a matrix (N, L) in C chunks of one bucket each, and behind them a chunk without columns.

    Attributes:
        columns: Shape (C + 1, CHUNK), int64: columns by bucket; 0 as padding behind the last column of a bucket.
        filled: Shape (C + 1, CHUNK), bool: True for padding.
        bucket: Shape (C,), int64, ascending: the bucket of each chunk.
        sizes: The number of labels of each of G buckets.
    """

    columns: Tensor
    filled: Tensor
    bucket: Tensor
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, buckets: LabelBuckets | None, num_labels: int, device: torch.device) -> ColumnChunks:
        """Return the chunks, made once for each device. If ``buckets`` is None, one bucket holds all labels."""
        if buckets is None:
            return _one_bucket(num_labels, device)
        chunks = buckets.kept(("chunks", device), lambda: _chunks(buckets.assignment, buckets.sizes, device))
        assert isinstance(chunks, cls)
        return chunks

    def look_over(self, matrix: Tensor, weights: LabelWeights | None, maxima: bool) -> tuple[Tensor, Tensor | None]:
        """Count the cells above 0 of a matrix (N, L) by bucket, and find the maximum of each chunk, in one reading.

        Args:
            matrix: Bool or gains.
            weights: Weights by label, which replace the values of the cells above 0; None keeps the values.
            maxima: Whether to find the maxima.

        Returns:
            The number of cells above 0 of each row and bucket, shape (N, G), int64; and the largest cell of each chunk,
            shape (N, C), None if ``maxima`` is False.
        """
        size = matrix.element_size()
        if weights is not None:
            size = weights.on(matrix.device).element_size()
        height = max(1, COPIED // max(1, self.columns.numel() * size))
        parts = [self._look_over(part, weights, maxima) for part in torch.split(matrix, height)]
        counts = torch.cat([part_counts for part_counts, _ in parts]).to(torch.int64)
        by_bucket = counts.new_zeros(len(matrix), len(self.sizes)).index_add_(1, self.bucket, counts)
        if not maxima:
            return by_bucket, None
        return by_bucket, torch.cat([largest for _, largest in parts if largest is not None])

    def _look_over(self, part: Tensor, weights: LabelWeights | None, maxima: bool) -> tuple[Tensor, Tensor | None]:
        columns = self.columns[:-1]
        cells = part.index_select(1, columns.view(-1)).view(len(part), *columns.shape)
        cells.masked_fill_(self.filled[:-1], 0)
        flags = cells
        if cells.dtype != torch.bool:
            flags = cells > 0
        # flags are added up in bytes; for a wider type, torch would first copy each flag to eight bytes
        counts = flags.view(torch.uint8).sum(dim=2, dtype=torch.uint8)
        if not maxima:
            return counts, None
        if weights is not None:
            cells = flags * weights.on(part.device)[columns]
        return counts, cells.amax(dim=2)

    def best(self, matrix: Tensor, maxima: Tensor, k: int, weights: LabelWeights | None) -> Tensor:
        """Return the ``k`` largest cells of each row and bucket, or weights of cells above 0, descending, then 0.

        Only the ``k`` chunks of a bucket with the largest maxima are read, because they contain its ``k`` largest
        values. Ties do not matter, because only values are returned, not labels.

        Returns:
            Shape (N, G, k), float64.
        """
        order = maxima.argsort(dim=1, descending=True, stable=True)
        order = order.gather(1, self.bucket[order].argsort(dim=1, stable=True))  # by bucket, the largest maximum first
        order = F.pad(order, (0, 1), value=len(self.bucket))  # the chunk without columns
        places = chosen_chunks(self.sizes, k, matrix.device)
        chunks = order.index_select(1, places.view(-1))
        height = max(1, CHOSEN // (places.numel() * CHUNK))
        parts = zip(torch.split(matrix, height), torch.split(chunks, height), strict=True)
        best = [self._best_of(part, chosen, k, weights) for part, chosen in parts]
        if len(best) == 1:
            return best[0]
        return torch.cat(best)

    def _best_of(self, part: Tensor, chunks: Tensor, k: int, weights: LabelWeights | None) -> Tensor:
        """Return the ``k`` largest cells of rows (R, L) in the chosen chunks (R, G * k), shape (R, G, k)."""
        columns = self.columns[chunks].flatten(1)
        cells = part.gather(1, columns)
        if weights is not None:
            cells = (cells > 0) * weights.on(part.device)[columns]
        cells = cells.masked_fill_(self.filled[chunks].flatten(1), 0).view(len(part), len(self.sizes), -1)
        return cells.sort(dim=2, descending=True).values[..., :k].to(real_dtype(part.device))


def _num_chunks(sizes: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Return the number of chunks of each bucket, and the index of its first chunk."""
    number = [-(-size // CHUNK) for size in sizes]
    return number, [sum(number[:bucket]) for bucket in range(len(sizes))]


def _chunks(assignment: Tensor, sizes: tuple[int, ...], device: torch.device) -> ColumnChunks:
    number, first = _num_chunks(sizes)
    order = assignment.argsort(stable=True)
    # ``empty``: how much padding lies in front of the labels of each bucket
    empty = [CHUNK * start - sum(sizes[:bucket]) for bucket, start in enumerate(first)]
    place = torch.arange(len(order), device="cpu") + torch.tensor(empty, device="cpu")[assignment[order]]
    columns = torch.full(((sum(number) + 1) * CHUNK,), -1, device="cpu").scatter_(0, place, order).view(-1, CHUNK)
    bucket_of_chunk = torch.arange(len(sizes), device="cpu").repeat_interleave(torch.tensor(number, device="cpu"))
    return ColumnChunks(columns.clamp(min=0).to(device), (columns < 0).to(device), bucket_of_chunk.to(device), sizes)


@cache
def _one_bucket(num_labels: int, device: torch.device) -> ColumnChunks:
    return _chunks(torch.zeros(num_labels, dtype=torch.int64, device="cpu"), (num_labels,), device)


@made_once
def chosen_chunks(sizes: tuple[int, ...], k: int) -> Tensor:
    """Return the indexes of the first ``k`` chunks of each bucket, shape (G, k); C, the empty chunk, as padding."""
    number, first = _num_chunks(sizes)
    empty_chunk = sum(number)
    places = []
    for start, chunks in zip(first, number, strict=True):
        chosen = list(range(start, start + min(k, chunks)))
        places.append(chosen + [empty_chunk] * (k - len(chosen)))
    return torch.tensor(places, dtype=torch.int64, device="cpu")
