"""Whole matrices on a device, where no size may depend on a value: the order of scores, relevant labels by bucket."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import isqrt

import torch
from torch import Tensor
from torch.nn import functional as F

from tailmetrics.buckets import LabelBuckets
from tailmetrics.ranking._device import made_once, real_dtype, whole_numbers
from tailmetrics.ranking._hits import Entries, LabelWeights

# the order of scores, by comparing and sorting whole rows

SORTED = 2**12
"""Width up to which a device sorts a row in one pass; a wider one takes a pass for each byte of a score and more."""

FLAGGED = 2**26
"""Scores that are compared together; a device flags each of them in a byte: 64 MB."""

SORTED_TOGETHER = 2**23
"""Scores that are copied or sorted together: 32 MB, sorted a quarter of a gigabyte."""


def counts_one_by_one(scores: Tensor, own: Tensor, labels: Tensor) -> Tensor:
    """Return the counts of :meth:`Kernels.counts_above` for ``own`` and ``labels`` (N, W), shape (3, N, W)."""
    columns, counts = torch.arange(scores.shape[1], device=scores.device), []
    for limit, label in zip(torch.split(own, 1, dim=1), torch.split(labels, 1, dim=1), strict=True):
        equal = scores == limit
        flags = scores > limit, equal, equal & (columns < label)
        counts.append(torch.stack([flag.sum(dim=1) for flag in flags]))
    return torch.stack(counts, dim=2)


def counts_by_sorting(scores: Tensor, own: Tensor, labels: Tensor) -> Tensor:
    """Return the same where rows have so many that sorting costs less."""
    width = scores.shape[1]
    wide = torch.promote_types(scores.dtype, torch.float32)
    ordered, order = scores.to(wide).sort(dim=1, stable=True, descending=True)
    above = torch.searchsorted(-ordered, -own.to(wide))
    same = torch.searchsorted(-ordered, -own.to(wide), right=True) - above
    places = torch.empty_like(order).scatter_(1, order, torch.arange(width, device=order.device).expand_as(order))
    inside = places.gather(1, labels.clamp(0, max(0, width - 1))) - above if width else same
    before = torch.where(labels < 0, 0, torch.where(labels < width, inside, same))
    return torch.stack([above, same, before])


def above(scores: Tensor, limit: float | Tensor) -> Tensor:
    """Return whether scores (N, L) are above a number or one per label (L,); decisions are taken as they are."""
    if scores.dtype == torch.bool:
        return scores
    return scores > (limit.to(scores.device, scores.dtype) if isinstance(limit, Tensor) else limit)


def plain_top_k(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the ``k`` best labels per row by sorting everything: the definition, on any device.

    A stable descending sort keeps equal scores in the order of their ids. See :meth:`Kernels.top_k`.
    """
    values, ids = torch.sort(scores, dim=1, descending=True, stable=True)
    return values[:, : k + 1], ids[:, :k]


def tournament(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the ``k`` best values and their places, both (N, k), as part of something wider."""
    num_rows, width = scores.shape
    chunk = _narrowing(width, k, SORTED)
    if chunk < 2:
        values, places = torch.sort(scores, dim=1, descending=True, stable=True)
        return values[:, :k], places[:, :k]
    whole = width - width % chunk
    chunks = scores[:, :whole].view(num_rows, -1, chunk)
    best = tournament(chunks.amax(dim=2), k)[1].sort(dim=1).values  # places among them in the order of labels
    found = chunks[whole_numbers(num_rows, scores.device)[:, None], best].flatten(1)
    found = torch.cat([found, scores[:, whole:]], dim=1) if whole < width else found
    values, place = tournament(found, k)
    in_chunks = place.clamp(max=k * chunk - 1) if whole < width else place
    ids = torch.add(in_chunks % chunk, best.gather(1, in_chunks // chunk), alpha=chunk)
    if whole < width:
        ids = torch.where(place < k * chunk, ids, place + (whole - k * chunk))
    return values, ids


@cache
def _narrowing(width: int, k: int, at_once: int) -> int:
    """Return the size of chunks that leaves about as many chunks as labels within the chosen ones; 1 for no chunks.

    Fewer chunks than can be sorted ``at_once``; and so many that choosing ``k`` leaves at least three out of four.
    Where a size up to twice as large or small leaves no rest of the row, the one next to it: a rest takes five calls.
    """
    if width <= at_once:
        return 1
    least, most = -(-width // at_once), width // (4 * k)
    wanted = min(max(least, isqrt(width // k)), most)
    sizes = range(max(2, least, -(-wanted // 2)), min(most, 2 * wanted) + 1)
    return min((size for size in sizes if width % size == 0), key=lambda size: abs(size - wanted), default=wanted)


CHUNK_OF_BARS = 64
"""Labels that share a bar: the bars are then neglected beside the scores."""


def ranks_by_bars(scores: Tensor, entries: Entries) -> Tensor:
    """Rank a few targets without looking at a value: each is behind the labels that score above its bar.

    The bar is its own score or, for the labels of chunks to the left, where an equal score ranks better, the next lower
    number. Equal scores to the left in its own chunk are counted apart. One target in each row of [1024, 131072] moves
    0.8 GB by 20 launches, and 26 GB by sorting.
    """
    num_rows, num_labels = scores.shape
    rows, labels = entries.rows, entries.ids.clamp(min=0)
    chunk = labels // CHUNK_OF_BARS
    own = scores[rows, labels]
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
    """Count the labels of each row [N, L] above the bar of a target with score ``own`` [N] in ``chunk`` [N]."""
    real = torch.promote_types(scores.dtype, torch.float32)  # older versions know no next number of a half type
    own = own.to(real)
    lower = own.nextafter(torch.full_like(own, -torch.inf))
    num_chunks = scores.shape[1] // CHUNK_OF_BARS
    number = torch.arange(num_chunks, device=scores.device)
    bars = torch.where(number < chunk[:, None], lower[:, None], own[:, None])
    inside, behind = torch.split(scores, [num_chunks * CHUNK_OF_BARS, scores.shape[1] % CHUNK_OF_BARS], dim=1)
    height = max(1, FLAGGED // scores.shape[1])
    chunks = inside.reshape(len(own), num_chunks, CHUNK_OF_BARS)
    parts = (torch.split(part, height) for part in (chunks, bars.unsqueeze(2)))
    # a sum of bytes as bytes, which those of a chunk fit in: any other type would be copied to, eight bytes for a flag
    flags = ((part > bar).view(torch.uint8) for part, bar in zip(*parts, strict=True))
    above = torch.cat([flag.sum(dim=2, dtype=torch.uint8) for flag in flags]).sum(dim=1)
    return above + (behind > own[:, None]).sum(dim=1) if behind.shape[1] else above


def ranks_of_all(scores: Tensor) -> Tensor:
    """Return the rank of every label of every row, shape (N, L), int32, a few rows at a time."""
    ranks = torch.empty(scores.shape, dtype=torch.int32, device=scores.device)
    places = torch.arange(1, scores.shape[1] + 1, dtype=torch.int32, device=scores.device)
    height = max(1, SORTED_TOGETHER // scores.shape[1])
    for part, of_part in zip(torch.split(scores, height), torch.split(ranks, height), strict=True):
        order = torch.sort(part, dim=1, descending=True, stable=True).indices
        of_part.scatter_(1, order, places.expand_as(order))
    return ranks


# relevant labels of a dense matrix, by bucket: counted and chosen without an entry for each cell

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
