"""Rank scores and count labels by bucket, in whole matrices on a device.

No size may depend on a value there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import ceil, isqrt

import torch
from torch import Tensor
from torch.nn import functional as F

from tailmetrics.buckets import LabelBuckets
from tailmetrics.ranking._device import real_dtype
from tailmetrics.ranking._hits import BestLabels, LabelWeights
from tailmetrics.ranking._once import made_once, whole_numbers
from tailmetrics.ranking._orders import in_blocks, order_by_key, rows_at_once

# the order of scores: compare and sort whole rows

WIDTH_OF_ONE_SORT = 2**12
"""A device sorts a row of up to this width in one pass.

A wider row takes a pass for each byte of a score, and more.
"""

SCORES_COMPARED_AT_ONCE = 2**26
"""This many scores are compared at a time.

On a device the flag of each score takes a byte: 64 MB.
"""

SCORES_SORTED_AT_ONCE = 2**23
"""This many scores are copied or sorted at a time.

A copy takes 32 MB, a sort a quarter of a gigabyte.
"""


def counts_by_sorting(scores: Tensor, own: Tensor, labels: Tensor) -> Tensor:
    """Return the counts of :meth:`Kernels.counts_above`, by sorting the scores.

    The counts have the shape (3, N, W); ``own`` and ``labels`` are tables (N, W).
    Sorting is faster for large W.
    """
    num_columns = scores.shape[1]
    wide = torch.promote_types(scores.dtype, torch.float32)
    ordered, order = scores.to(wide).sort(dim=1, stable=True, descending=True)

    # a binary search needs ascending numbers
    ascending = -ordered
    own_negated = -own.to(wide)
    num_above = torch.searchsorted(ascending, own_negated)
    num_up_to_equal = torch.searchsorted(ascending, own_negated, right=True)
    num_equal = num_up_to_equal - num_above

    # behind the last column all equal scores come before the label, in front of column
    # 0 none
    num_equal_before = torch.where(labels < num_columns, 0, num_equal)
    if num_columns:
        places = torch.arange(num_columns, device=order.device).expand_as(order)
        place_of_column = torch.empty_like(order).scatter_(1, order, places)
        place_of_label = place_of_column.gather(1, labels.clamp(0, num_columns - 1))
        is_column = (labels >= 0) & (labels < num_columns)
        num_equal_before = torch.where(
            is_column, place_of_label - num_above, num_equal_before
        )
    return torch.stack([num_above, num_equal, num_equal_before])


def above(scores: Tensor, limit: float | Tensor) -> Tensor:
    """Return which scores (N, L) are above a limit; decisions are returned unchanged.

    The limit is one number, or one per label (L,).
    """
    if scores.dtype == torch.bool:
        return scores
    if isinstance(limit, Tensor):
        limit = limit.to(scores.device, scores.dtype)
    return scores > limit


def plain_top_k(scores: Tensor, k: int) -> BestLabels:
    """Return the ``k`` best labels of each row, by sorting whole rows.

    A stable descending sort keeps equal scores in the order of their ids.
    """
    values, ids = torch.sort(scores, dim=1, descending=True, stable=True)
    return BestLabels(values[:, : k + 1], ids[:, :k])


def tournament(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the ``k`` best values and their places in the row, both (N, k).

    They may be views of wider tables.

    The ``k`` best chunks are the chunks with the largest maxima, of equal maxima the
    first. They hold the ``k`` best values of all chunks: a value in another chunk has
    the maxima of ``k`` chunks before it. The chunks are chosen in the same way, and so
    are the values among the chosen chunks and the columns behind the last chunk.
    """
    num_rows, width = scores.shape
    size = _chunk_size(width, k, WIDTH_OF_ONE_SORT)
    if size < 2:
        values, places = torch.sort(scores, dim=1, descending=True, stable=True)
        return values[:, :k], places[:, :k]

    end_of_chunks = width - width % size
    chunks = scores[:, :end_of_chunks].view(num_rows, -1, size)
    # ascending: of ties the lower label is first
    best_chunks = tournament(chunks.amax(dim=2), k)[1].sort(dim=1).values
    rows = whole_numbers(num_rows, scores.device)[:, None]
    candidates = chunks[rows, best_chunks].flatten(1)
    if end_of_chunks == width:
        values, places = tournament(candidates, k)
        return values, _columns_of_candidates(places, best_chunks, size)

    num_in_chunks = k * size
    candidates = torch.cat([candidates, scores[:, end_of_chunks:]], dim=1)
    values, places = tournament(candidates, k)
    columns_in_chunks = _columns_of_candidates(
        places.clamp(max=num_in_chunks - 1), best_chunks, size
    )
    columns_behind = places + (end_of_chunks - num_in_chunks)
    return values, torch.where(
        places < num_in_chunks, columns_in_chunks, columns_behind
    )


def _columns_of_candidates(places: Tensor, chunks: Tensor, size: int) -> Tensor:
    """Return the columns (N, k) of candidates at ``places`` in the chosen chunks.

    ``places`` (N, k) are places in the row of the chosen chunks (N, k).
    """
    chunk = chunks.gather(1, places // size)
    return torch.add(places % size, chunk, alpha=size)


@cache
def _chunk_size(width: int, k: int, at_once: int) -> int:
    """Return the size of the chunks of a row; less than 2 to sort without chunks.

    With the best size, the number of chunks about equals the number of labels in the
    ``k`` chosen chunks. There are at most ``at_once`` chunks, and at least 4 * k. A
    size up to twice as large or half as large is preferred if it divides the width,
    because the rest of a row takes five more calls.
    """
    if width <= at_once:
        return 1
    least = ceil(width / at_once)
    most = width // (4 * k)
    best = min(max(least, isqrt(width // k)), most)

    first = max(2, least, ceil(best / 2))
    last = min(most, 2 * best)
    divisors = [size for size in range(first, last + 1) if width % size == 0]
    return min(divisors, key=lambda size: abs(size - best), default=best)


def any_by_row(flags: Tensor, rows: Tensor, num_rows: int) -> Tensor:
    """Return whether some flag of each row is set, shape (N,), bool.

    ``rows`` (T,) holds the row of each of the ``flags`` (T,).
    """
    num_flags = torch.zeros(num_rows, dtype=torch.int64, device=flags.device)
    num_flags.scatter_add_(0, rows, flags.to(torch.int64))
    return num_flags > 0


def ranks_of_all(scores: Tensor) -> Tensor:
    """Return the rank of each label in its row, shape (N, L), int32.

    A few rows are sorted at a time.
    """
    num_labels = scores.shape[1]
    ranks = torch.empty(scores.shape, dtype=torch.int32, device=scores.device)
    ranks_in_order = torch.arange(
        1, num_labels + 1, dtype=torch.int32, device=scores.device
    )
    for block, block_ranks in in_blocks(
        rows_at_once(SCORES_SORTED_AT_ONCE, num_labels), scores, ranks
    ):
        order = torch.sort(block, dim=1, descending=True, stable=True).indices
        block_ranks.scatter_(1, order, ranks_in_order.expand_as(order))
    return ranks


# relevant labels of a dense matrix by bucket: count them and find the best without an
# entry for each cell

CHUNK = 64
"""A chunk has this many columns of one bucket; a byte holds the sum of their flags."""

BYTES_COPIED_AT_ONCE = 3 * 2**26
"""This many bytes of a matrix are put in the order of the buckets at a time: 200 MB."""

CELLS_SORTED_AT_ONCE = 2**23
"""This many cells of chosen chunks are sorted at a time.

Cells and sort take 200 MB together.
"""


@dataclass(frozen=True, eq=False)
class ColumnChunks:
    """The columns of a matrix (N, L) in C chunks of one bucket each.

    Behind them stands a chunk without columns.

    Attributes:
        columns: Shape (C + 1, CHUNK), int64: columns by bucket; 0 as padding behind the
            last column of a bucket.
        filled: Shape (C + 1, CHUNK), bool: True for padding.
        bucket: Shape (C,), int64, ascending: the bucket of each chunk.
        sizes: The number of labels of each of G buckets.
    """

    columns: Tensor
    filled: Tensor
    bucket: Tensor
    sizes: tuple[int, ...]

    @classmethod
    def of(
        cls, buckets: LabelBuckets | None, num_labels: int, device: torch.device
    ) -> ColumnChunks:
        """Return the chunks, made once for each device.

        If ``buckets`` is None, one bucket holds all labels.
        """
        if buckets is None:
            return _one_bucket(num_labels, device)
        chunks = buckets.remembered(
            ("chunks", device),
            lambda: _chunks(buckets.assignment, buckets.sizes, device),
        )
        assert isinstance(chunks, cls)
        return chunks

    def counts_and_maxima(
        self, matrix: Tensor, weights: LabelWeights | None, maxima: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Count cells above 0 by bucket and find the maximum of each chunk.

        The matrix (N, L) is read once.

        Args:
            matrix: Bool or gains.
            weights: Weights by label, which replace the values of the cells above 0;
                None keeps the values.
            maxima: Whether to find the maxima.

        Returns:
            The number of cells above 0 of each row and bucket, shape (N, G), int64; and
            the largest cell of each chunk, shape (N, C), None if ``maxima`` is False.
        """
        cell_size = matrix.element_size()
        if weights is not None:
            cell_size = weights.on(matrix.device).element_size()
        height = rows_at_once(BYTES_COPIED_AT_ONCE, self.columns.numel() * cell_size)
        chunk_counts, chunk_maxima = [], []
        for rows in torch.split(matrix, height):
            row_counts, row_maxima = self._counts_and_maxima_of_rows(
                rows, weights, maxima
            )
            chunk_counts.append(row_counts)
            if row_maxima is not None:
                chunk_maxima.append(row_maxima)

        counts_by_chunk = torch.cat(chunk_counts).to(torch.int64)
        counts = counts_by_chunk.new_zeros(len(matrix), len(self.sizes))
        counts.index_add_(1, self.bucket, counts_by_chunk)
        if not maxima:
            return counts, None
        return counts, torch.cat(chunk_maxima)

    def _counts_and_maxima_of_rows(
        self, rows: Tensor, weights: LabelWeights | None, maxima: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Return the counts of cells above 0 and the maxima by chunk, both (R, C).

        Rows have the shape (R, L); the counts are uint8.
        """
        columns = self.columns[:-1]  # without the chunk that has no columns
        cells = rows.index_select(1, columns.view(-1)).view(len(rows), *columns.shape)
        cells.masked_fill_(self.filled[:-1], 0)
        flags = cells
        if cells.dtype != torch.bool:
            flags = cells > 0
        # flags are added up in bytes; for a wider type, torch would first copy each
        # flag to eight bytes
        counts = flags.view(torch.uint8).sum(dim=2, dtype=torch.uint8)
        if not maxima:
            return counts, None
        if weights is not None:
            cells = flags * weights.on(rows.device)[columns]
        return counts, cells.amax(dim=2)

    def best(
        self, matrix: Tensor, maxima: Tensor, k: int, weights: LabelWeights | None
    ) -> Tensor:
        """Return the ``k`` largest cells of each row and bucket, descending, then 0.

        With ``weights``, the values are the weights of the cells above 0.

        Only the ``k`` chunks of a bucket with the largest maxima are read, because they
        contain its ``k`` largest values. Ties do not matter, because only values are
        returned, not labels.

        Returns:
            Shape (N, G, k), float64.
        """
        # the chunks of each row by bucket, the chunk with the largest maximum first
        order = order_by_key(
            self.bucket.expand_as(maxima),
            maxima.argsort(dim=1, descending=True, stable=True),
        )
        without_columns = len(self.bucket)
        order = F.pad(order, (0, 1), value=without_columns)

        places = chosen_chunks(self.sizes, k, matrix.device)
        chunks = order.index_select(1, places.view(-1))
        best = []
        for rows, row_chunks in in_blocks(
            rows_at_once(CELLS_SORTED_AT_ONCE, places.numel() * CHUNK), matrix, chunks
        ):
            best.append(self._best_of_rows(rows, row_chunks, k, weights))
        if len(best) == 1:
            return best[0]
        return torch.cat(best)

    def _best_of_rows(
        self, rows: Tensor, chunks: Tensor, k: int, weights: LabelWeights | None
    ) -> Tensor:
        """Return the ``k`` largest cells of rows (R, L) by bucket, shape (R, G, k).

        Only the chosen chunks (R, G * k) are read.
        """
        columns = self.columns[chunks].flatten(1)
        cells = rows.gather(1, columns)
        if weights is not None:
            cells = (cells > 0) * weights.on(rows.device)[columns]
        cells = cells.masked_fill_(self.filled[chunks].flatten(1), 0)
        cells_by_bucket = cells.view(len(rows), len(self.sizes), -1)
        largest_first = cells_by_bucket.sort(dim=2, descending=True).values
        return largest_first[..., :k].to(real_dtype(rows.device))


def _chunks_by_bucket(sizes: tuple[int, ...]) -> list[range]:
    """Return the indexes of the chunks of each bucket."""
    chunks = []
    start = 0
    for size in sizes:
        end = start + ceil(size / CHUNK)
        chunks.append(range(start, end))
        start = end
    return chunks


def _chunks(
    assignment: Tensor, sizes: tuple[int, ...], device: torch.device
) -> ColumnChunks:
    """Return the chunks of columns, from the bucket of each column (L,)."""
    chunks_of_bucket = _chunks_by_bucket(sizes)
    num_chunks = sum(map(len, chunks_of_bucket))

    # each bucket begins with a new chunk: the columns of a bucket move behind the
    # padding of the buckets before it
    shifts = []
    num_before = 0
    for size, chunks in zip(sizes, chunks_of_bucket, strict=True):
        shifts.append(CHUNK * chunks.start - num_before)
        num_before += size
    order = assignment.argsort(stable=True)
    shift = torch.tensor(shifts, device="cpu")[assignment[order]]
    places = torch.arange(len(order), device="cpu") + shift

    padding = -1
    columns = torch.full(((num_chunks + 1) * CHUNK,), padding, device="cpu")
    columns = columns.scatter_(0, places, order).view(-1, CHUNK)
    chunk_counts = torch.tensor(
        [len(chunks) for chunks in chunks_of_bucket], device="cpu"
    )
    bucket = torch.arange(len(sizes), device="cpu").repeat_interleave(chunk_counts)
    return ColumnChunks(
        columns=columns.clamp(min=0).to(device),
        filled=(columns == padding).to(device),
        bucket=bucket.to(device),
        sizes=sizes,
    )


@cache
def _one_bucket(num_labels: int, device: torch.device) -> ColumnChunks:
    assignment = torch.zeros(num_labels, dtype=torch.int64, device="cpu")
    return _chunks(assignment, (num_labels,), device)


@made_once
def chosen_chunks(sizes: tuple[int, ...], k: int) -> Tensor:
    """Return the indexes of the first ``k`` chunks of each bucket, shape (G, k).

    The padding is C, the empty chunk.
    """
    chunks_of_bucket = _chunks_by_bucket(sizes)
    empty_chunk = sum(map(len, chunks_of_bucket))
    places = []
    for chunks in chunks_of_bucket:
        chosen = list(chunks[:k])
        places.append(chosen + [empty_chunk] * (k - len(chosen)))
    return torch.tensor(places, dtype=torch.int64, device="cpu")
