"""Bool matrices read eight cells at a time, as 64-bit words."""

from __future__ import annotations

import torch
from torch import Tensor

from tailmetrics.ranking._device import reads_are_free
from tailmetrics.ranking._row_threads import joined, over_threads


def count_true(mask: Tensor) -> Tensor:
    """Return the number of True per row of a bool matrix [N, L], as int64.

    ``mask.sum(1)`` says the same some twenty times slower.
    """
    if not reads_are_free(mask.device) or not mask.numel() or mask.shape[1] < 64 or not _has_words(mask):
        return mask.sum(dim=1)
    return joined(over_threads(lambda part, _: _count_words(part), mask))


def _count_words(mask: Tensor) -> Tensor:
    if int(mask.view(torch.uint8).amax()) > 1:  # a view of other bytes: each counts once, whatever its bits
        return mask.sum(dim=1)
    return lane_sums(mask)


def lane_sums(flags: Tensor) -> Tensor:
    """Return the number of True per row of a contiguous bool matrix [N, L > 0] of bytes 0 and 1, L a multiple of 8.

    Eight bools are read as one 64-bit word of eight byte lanes; up to 255 words add up before a lane could overflow.
    """
    words = flags.shape[1] // 8
    whole = words - words % 255
    lanes = flags.view(torch.int64)
    parts = lanes[:, :whole].reshape(len(flags), -1, 255), lanes[:, whole:].unsqueeze(1)
    # lanes of a sum are bytes again: multiplying by 0x0101…01 would add them up but overflow beyond 255
    counts = (part.sum(dim=2).view(torch.uint8).sum(dim=1) for part in parts if part.numel())
    return sum(counts, torch.zeros(len(flags), dtype=torch.int64))


def true_cells(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Return rows and columns of the cells > 0 of a matrix [N, L], row by row; it waits for a device."""
    parts = over_threads(lambda part, first: (first, *true_cells_on_one_thread(part)), matrix)
    return joined([rows + first for first, rows, _ in parts]), joined([columns for *_, columns in parts])


def true_cells_on_one_thread(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Return the same on the thread that calls: for a part of the rows that has a thread of its own."""
    if matrix.dtype == torch.bool and matrix.numel() and _has_words(matrix):
        rows, words = matrix.view(torch.int64).nonzero().unbind(1)
        cells = matrix.view(len(matrix), -1, 8)[rows, words]
        word, lane = cells.nonzero().unbind(1)
        return rows[word], words[word] * 8 + lane
    block = max(1, 2**21 // max(1, matrix.shape[1]))
    found = [(matrix[start : start + block] > 0).nonzero() for start in range(0, max(1, len(matrix)), block)]
    for index, part in enumerate(found):
        part[:, 0] += index * block
    rows, columns = torch.cat(found).unbind(1)
    return rows.contiguous(), columns.contiguous()


def _has_words(mask: Tensor) -> bool:
    """Whether the rows of a bool matrix can be read as 64-bit words."""
    aligned = mask.shape[1] % 8 == 0 and mask.stride(0) % 8 == 0 and mask.storage_offset() % 8 == 0
    return aligned and mask.is_contiguous() and mask.data_ptr() % 8 == 0
