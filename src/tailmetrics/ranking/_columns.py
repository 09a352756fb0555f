"""Relevant labels of a dense matrix on a device, by bucket: counted and chosen without an entry for each cell."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional as F

from tailmetrics.buckets import LabelBuckets
from tailmetrics.ranking._device import made_once, real_dtype
from tailmetrics.ranking._hits import LabelWeights

CHUNK = 64
"""Columns of one bucket that are looked at together; their flags add up in a byte."""

COPIED = 3 * 2**26
"""Bytes of a matrix that are put in the order of the buckets together: 200 MB."""

CHOSEN = 2**23
"""Cells of chosen chunks that are sorted together: 200 MB with what sorting takes."""


@dataclass(frozen=True, eq=False)
class ColumnChunks:
    """The columns of a matrix (N, L) in C chunks, each of one bucket, and behind them a chunk without a column.

    Attributes:
        columns: Shape (C + 1, CHUNK), int64: columns by bucket; 0 where the last chunk of a bucket is filled up.
        filled: Shape (C + 1, CHUNK), bool: where it is.
        bucket: Shape (C,), int64, ascending: the bucket of each chunk.
        sizes: How many labels each of G buckets holds.
    """

    columns: Tensor
    filled: Tensor
    bucket: Tensor
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, buckets: LabelBuckets | None, num_labels: int, device: torch.device) -> ColumnChunks:
        """Return the chunks, made once for each device; without buckets those of one bucket of all labels."""
        if buckets is None:
            return _one_bucket(num_labels, device)
        kept = buckets.kept(("chunks", device), lambda: _chunks(buckets.assignment, buckets.sizes, device))
        assert isinstance(kept, cls)
        return kept

    def look_over(self, matrix: Tensor, weights: LabelWeights | None, maxima: bool) -> tuple[Tensor, Tensor | None]:
        """Read a matrix (N, L) once.

        Args:
            matrix: Bool or gains.
            weights: What cells above 0 are worth, by column, instead of what they hold.
            maxima: Whether the largest cells are asked for.

        Returns:
            The number of cells above 0 of each row and bucket, shape (N, G), int64; and the largest cell of each chunk,
            shape (N, C), if asked for.
        """
        size = matrix.element_size() if weights is None else weights.on(matrix.device).element_size()
        height = max(1, COPIED // max(1, self.columns.numel() * size))
        parts = [self._look_over(part, weights, maxima) for part in torch.split(matrix, height)]
        counts = torch.cat([of_part for of_part, _ in parts]).to(torch.int64)
        by_bucket = counts.new_zeros(len(matrix), len(self.sizes)).index_add_(1, self.bucket, counts)
        return by_bucket, torch.cat([largest for _, largest in parts if largest is not None]) if maxima else None

    def _look_over(self, part: Tensor, weights: LabelWeights | None, maxima: bool) -> tuple[Tensor, Tensor | None]:
        columns = self.columns[:-1]
        cells = part.index_select(1, columns.view(-1)).view(len(part), *columns.shape)
        cells.masked_fill_(self.filled[:-1], 0)
        flags = cells if cells.dtype == torch.bool else cells > 0
        # a sum of bytes as bytes: as any other type each flag would be copied to eight bytes first
        counts = flags.view(torch.uint8).sum(dim=2, dtype=torch.uint8)
        if not maxima:
            return counts, None
        return counts, (cells if weights is None else flags * weights.on(part.device)[columns]).amax(dim=2)

    def best(self, matrix: Tensor, maxima: Tensor, k: int, weights: LabelWeights | None) -> Tensor:
        """Return the ``k`` largest cells of each row and bucket, or weights of cells above 0, largest first, then 0.

        The largest cells of a bucket lie in the ``k`` of its chunks with the largest maxima, so that only those are
        looked at. Equal cells make no difference, as only their values are asked for.

        Returns:
            Shape (N, G, k), float64.
        """
        order = maxima.argsort(dim=1, descending=True, stable=True)
        order = order.gather(1, self.bucket[order].argsort(dim=1, stable=True))  # by bucket, the largest in front
        order = F.pad(order, (0, 1), value=len(self.bucket))  # the chunk without a column
        places = chosen_chunks(self.sizes, k, matrix.device)
        chunks = order.index_select(1, places.view(-1))
        height = max(1, CHOSEN // (places.numel() * CHUNK))
        parts = zip(torch.split(matrix, height), torch.split(chunks, height), strict=True)
        best = [self._best_of(part, chosen, k, weights) for part, chosen in parts]
        return best[0] if len(best) == 1 else torch.cat(best)

    def _best_of(self, part: Tensor, chunks: Tensor, k: int, weights: LabelWeights | None) -> Tensor:
        """Return the best cells of rows (R, L) in the chosen chunks (R, G * k)."""
        columns = self.columns[chunks].flatten(1)
        cells = part.gather(1, columns)
        cells = cells if weights is None else (cells > 0) * weights.on(part.device)[columns]
        cells = cells.masked_fill_(self.filled[chunks].flatten(1), 0).view(len(part), len(self.sizes), -1)
        return cells.sort(dim=2, descending=True).values[..., :k].to(real_dtype(part.device))


def _num_chunks(sizes: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Return how many chunks each bucket has, and which is the first."""
    number = [-(-size // CHUNK) for size in sizes]
    return number, [sum(number[:bucket]) for bucket in range(len(sizes))]


def _chunks(assignment: Tensor, sizes: tuple[int, ...], device: torch.device) -> ColumnChunks:
    number, first = _num_chunks(sizes)
    order = assignment.argsort(stable=True)
    # a label stands behind those of its bucket, and they behind the places that are filled up in buckets before
    empty = [CHUNK * start - sum(sizes[:bucket]) for bucket, start in enumerate(first)]
    place = torch.arange(len(order)) + torch.tensor(empty)[assignment[order]]
    columns = torch.full(((sum(number) + 1) * CHUNK,), -1).scatter_(0, place, order).view(-1, CHUNK)
    of_chunks = torch.tensor([bucket for bucket, chunks in enumerate(number) for _ in range(chunks)])
    return ColumnChunks(columns.clamp(min=0).to(device), (columns < 0).to(device), of_chunks.to(device), sizes)


@cache
def _one_bucket(num_labels: int, device: torch.device) -> ColumnChunks:
    return _chunks(torch.zeros(num_labels, dtype=torch.int64), (num_labels,), device)


@made_once
def chosen_chunks(sizes: tuple[int, ...], k: int) -> Tensor:
    """Return the places of the first ``k`` chunks of each bucket, that behind all where it has fewer, shape (G, k)."""
    number, first = _num_chunks(sizes)
    void = sum(number)
    places = [
        [start + one if one < chunks else void for one in range(k)] for start, chunks in zip(first, number, strict=True)
    ]
    return torch.tensor(places, dtype=torch.int64)
