"""What is relevant in each row: every accepted form of ``target`` brought to flat entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias
from warnings import warn

import numpy as np
import torch
from torch import Tensor

from tailmetrics._checks import INTEGERS, check_ids_in_range, shape_of
from tailmetrics.ranking._device import reads_are_free
from tailmetrics.ranking._once import once
from tailmetrics.ranking._validation import check_csr, check_distinct, check_gains, check_width

Array: TypeAlias = "np.ndarray[Any, Any]"

MANY_LABELS = 10
"""Labels from which it is strange that each is relevant in every row, by a gain below 1."""


@dataclass(frozen=True, eq=False)
class Entries:
    """Relevant labels one below the other, rows ascending: entry t says that ``ids[t]`` is relevant in ``rows[t]``.

    On the CPU every entry is a relevant label. On other devices leaving entries out would mean waiting for the
    device, so an entry may be void instead: ``ids[t] == -1``.

    Attributes:
        rows: Shape (T,), int64.
        ids: Shape (T,), int64.
        gains: Shape (T,), float64 > 0; None when every gain is 1.
        width: An upper bound of the number of entries per row, known without looking at them.
    """

    rows: Tensor
    ids: Tensor
    gains: Tensor | None
    width: int


@dataclass(frozen=True, eq=False)
class Targets:
    """The relevant labels of ``num_rows`` rows, in one of three forms: a dense matrix, padded ids, or entries.

    Attributes:
        num_rows: N.
        num_labels: L, or None when the form does not tell (label ids).
        row_mask: Shape (N,), bool; rows that count, None for all. Other rows have no relevant label.
        dense: Shape (N, L), bool or gains.
        padded: Shape (N, M), int64: label ids with gain 1, -1 padded.
        given: Entries, where it is neither.
    """

    num_rows: int
    num_labels: int | None
    row_mask: Tensor | None
    dense: Tensor | None = None
    padded: Tensor | None = None
    given: Entries | None = None

    @property
    def binary(self) -> bool:
        """Whether every relevant label has gain 1."""
        if self.dense is not None:
            return self.dense.dtype == torch.bool
        return self.given is None or self.given.gains is None

    @property
    def mask(self) -> Tensor | None:
        """The dense matrix where it is bool, (N, L)."""
        return self.dense if self.dense is not None and self.dense.dtype == torch.bool else None

    @property
    def device(self) -> torch.device:
        """The device the targets live on."""
        return self.entries.ids.device if self.dense is None else self.dense.device

    @once
    def entries(self) -> Entries:
        """All relevant labels as flat entries."""
        if self.padded is not None:
            return _without_void(_entries_of_ids(self.padded, None))
        if self.dense is None:
            assert self.given is not None
            return self.given
        if not reads_are_free(self.device):
            return _void_entries(self.dense, self.row_mask)
        rows, ids = _nonzero(self.dense)
        if self.row_mask is not None:
            kept = self.row_mask[rows]
            rows, ids = rows[kept], ids[kept]
        gains = None if self.binary else self.dense[rows, ids].to(torch.float64)
        return Entries(rows, ids, gains, self.dense.shape[1])

    @once
    def n_relevant(self) -> Tensor:
        """Number of relevant labels per row, shape (N,), int64."""
        if self.padded is not None:
            return (self.padded >= 0).sum(dim=1)
        if self.dense is None:
            relevant = (self.entries.ids >= 0).to(torch.int64)
            zeros = torch.zeros(self.num_rows, dtype=torch.int64, device=self.device)
            return zeros.scatter_add_(0, self.entries.rows, relevant)
        counts = count_true(self.dense) if self.binary else (self.dense > 0).sum(dim=1)
        return counts if self.row_mask is None else counts * self.row_mask


def count_true(mask: Tensor) -> Tensor:
    """Return the number of True per row of a bool matrix [N, L], as int64.

    ``mask.sum(1)`` says the same some twenty times slower.
    """
    if not reads_are_free(mask.device) or not mask.numel() or mask.shape[1] < 64 or not _has_words(mask):
        return mask.sum(dim=1)
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


def _has_words(mask: Tensor) -> bool:
    """Whether the rows of a bool matrix can be read as 64-bit words."""
    aligned = mask.shape[1] % 8 == 0 and mask.stride(0) % 8 == 0 and mask.storage_offset() % 8 == 0
    return aligned and mask.is_contiguous() and mask.data_ptr() % 8 == 0


def _nonzero(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Return rows and columns of the entries > 0, row by row; a bool matrix is scanned eight cells at a time."""
    if matrix.dtype == torch.bool and matrix.numel() and _has_words(matrix):
        rows, words = matrix.view(torch.int64).nonzero().unbind(1)
        cells = matrix.view(len(matrix), -1, 8)[rows, words]
        word, lane = cells.nonzero().unbind(1)
        return rows[word], words[word] * 8 + lane
    block = max(1, 2**21 // max(1, matrix.shape[1]))
    found = [(matrix[start : start + block] > 0).nonzero() for start in range(0, max(1, len(matrix)), block)]
    for index, part in enumerate(found):
        part[:, 0] += index * block
    rows, ids = torch.cat(found).unbind(1)
    return rows.contiguous(), ids.contiguous()


def _void_entries(dense: Tensor, row_mask: Tensor | None) -> Entries:
    """Return one entry per cell of a dense matrix, void where nothing is relevant: no size depends on the data."""
    num_rows, num_labels = dense.shape
    relevant = dense > 0 if row_mask is None else (dense > 0) & row_mask[:, None]
    columns = torch.arange(num_labels, device=dense.device)
    ids = torch.where(relevant, columns, -1).reshape(-1)
    rows = torch.arange(num_rows, device=dense.device).repeat_interleave(num_labels, output_size=ids.numel())
    gains = None if dense.dtype == torch.bool else dense.to(torch.float64).reshape(-1)
    return Entries(rows, ids, gains, num_labels)


def targets_from_ids(
    caller: str,
    argument: str,
    ids: Tensor,
    num_labels: int | None,
    row_mask: Tensor | None,
    gains: Tensor | None,
    validate: bool,
) -> Targets:
    """Return targets given as label ids: shape [N] (one per row, -1 for none) or [N, M] padded with -1."""
    if ids.dtype not in INTEGERS or ids.ndim not in (1, 2):
        raise TypeError(
            f"{caller}: {argument} is {shape_of(ids)}; label ids are integers of shape [N] (one per row) "
            "or [N, M] padded with -1."
        )
    if gains is not None and gains.shape != ids.shape:
        raise ValueError(
            f"{caller}: target_gains is {shape_of(gains)}, but target_ids is {shape_of(ids)}; pass one gain per id."
        )
    ids = ids.detach().to(torch.int64)
    ids = ids[:, None] if ids.ndim == 1 else ids
    gains = None if gains is None else gains.detach().to(torch.float64).reshape(ids.shape)
    if validate:
        check_ids_in_range(caller, argument, ids, num_labels, row_mask)
        check_distinct(caller, argument, ids if row_mask is None else torch.where(row_mask[:, None], ids, -1))
        if gains is not None:
            check_gains(caller, "target_gains", gains, row_mask)
    if row_mask is not None:
        ids = torch.where(row_mask[:, None], ids, -1)
    if gains is None:
        return Targets(len(ids), num_labels, row_mask, padded=ids)
    entries = _without_void(_entries_of_ids(torch.where(gains > 0, ids, -1), gains))
    return Targets(len(ids), num_labels, row_mask, given=_binary_if_ones(entries))


def _entries_of_ids(ids: Tensor, gains: Tensor | None) -> Entries:
    num_rows, width = ids.shape
    rows = torch.arange(num_rows, device=ids.device)
    rows = rows if width == 1 else rows.repeat_interleave(width, output_size=num_rows * width)
    return Entries(rows, ids.reshape(-1), None if gains is None else gains.reshape(-1), width)


def targets_from_matrix(
    caller: str, argument: str, matrix: Tensor, num_labels: int | None, row_mask: Tensor | None, validate: bool
) -> Targets:
    """Return targets given as a dense [N, L] matrix: bool multi-hot, or gains of any number type."""
    if matrix.ndim != 2:
        raise ValueError(f"{caller}: {argument} is {shape_of(matrix)}; pass shape [N, L], one row per row of preds.")
    check_width(caller, argument, matrix.shape[1], num_labels)
    matrix = matrix.detach()
    if matrix.dtype == torch.bool:
        return Targets(len(matrix), matrix.shape[1], row_mask, dense=matrix)
    if validate:
        low, high = check_gains(caller, argument, matrix, row_mask)
        if argument == "target" and 0 < low < 1 and high <= 1 and matrix.shape[1] >= MANY_LABELS:
            warn(
                f"{caller}: every label of every row is relevant by target, {shape_of(matrix)}, whose values lie "
                "between 0 and 1 as scores do. If preds and target are swapped, swap them; if these are probabilities, "
                "say which labels are relevant, such as target > 0.5; gains go to Ranking.from_scores(target_gains=).",
                stacklevel=2,
            )
    if not reads_are_free(matrix.device):
        return Targets(len(matrix), matrix.shape[1], row_mask, dense=matrix)
    rows, ids = _nonzero(matrix)
    gains = matrix[rows, ids].to(torch.float64)
    entries = Entries(rows, ids if row_mask is None else torch.where(row_mask[rows], ids, -1), gains, matrix.shape[1])
    return Targets(len(matrix), matrix.shape[1], row_mask, given=_binary_if_ones(_without_void(entries)))


def targets_from_csr(
    caller: str, argument: str, matrix: Tensor, num_labels: int | None, row_mask: Tensor | None, validate: bool
) -> Targets:
    """Return targets given as CSR [N, L] whose stored values are gains; a stored zero is not relevant."""
    num_rows, width = matrix.shape
    check_width(caller, argument, width, num_labels)
    rows, ids, values = csr_entries(matrix)
    if validate:
        check_csr(caller, argument, matrix, rows)
        check_gains(caller, argument, values, None if row_mask is None else row_mask[rows])
    if (
        row_mask is None and reads_are_free(values.device) and bool((values == 1).all())
    ):  # as most are: nothing to leave out
        return Targets(num_rows, width, row_mask, given=Entries(rows, ids, None, width))
    relevant = values > 0 if row_mask is None else (values > 0) & row_mask[rows]
    gains = None if values.dtype == torch.bool else values.to(torch.float64)
    entries = _without_void(Entries(rows, torch.where(relevant, ids, -1), gains, width))
    return Targets(num_rows, width, row_mask, given=_binary_if_ones(entries))


def csr_entries(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return rows, columns and values of the stored entries of a CSR matrix, each of shape (nnz,)."""
    crow, columns, values = matrix.crow_indices(), matrix.col_indices(), matrix.values().detach()
    rows = torch.arange(matrix.shape[0], device=crow.device)
    rows = rows.repeat_interleave(crow.diff().to(torch.int64), output_size=values.numel())
    return rows, columns.to(torch.int64), values


def _without_void(entries: Entries) -> Entries:
    if not reads_are_free(entries.ids.device):
        return entries
    relevant = entries.ids >= 0
    if bool(relevant.all()):
        return entries
    gains = None if entries.gains is None else entries.gains[relevant]
    return Entries(entries.rows[relevant], entries.ids[relevant], gains, entries.width)


def _binary_if_ones(entries: Entries) -> Entries:
    """Return ``entries`` without gains where all of them are 1; on a device, asking would mean waiting."""
    if entries.gains is None or not reads_are_free(entries.ids.device) or not bool((entries.gains == 1).all()):
        return entries
    return Entries(entries.rows, entries.ids, None, entries.width)
