"""The plain kernels that read only scores and lists, not what is relevant.

See :mod:`tailmetrics.ranking._kernels`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from tailmetrics.ranking import _matrices
from tailmetrics.ranking._device import real_dtype
from tailmetrics.ranking._hits import BestLabels, Entries, ListCheck
from tailmetrics.ranking._matrices import above, plain_top_k, tournament
from tailmetrics.ranking._orders import (
    neighbours,
    order_by_key,
    repeats_previous,
    rows_at_once,
    rows_of_cells,
)
from tailmetrics.ranking._threads import num_threads, over_threads

SCORES_OF_A_TOURNAMENT = 2**28
"""At most this many scores enter one tournament.

It needs a third of their memory: 1/3 GB for float32.
"""

BLOCK_SCORES = 2**22
"""A thread compares this many scores at once.

Their 4 MB of flags stay in the cache for all thresholds. The row and the label of a
score that is found take 16 bytes. On a device each score has a row and a label: 64 MB.
"""

WIDE_MASK = 2**11
"""A mask of at least this many labels is counted row by row.

This takes 0.3 µs more per row and a quarter of the time per label.
"""

Result = TypeVar("Result")


class ScoreKernels:
    """The steps that read scores and lists.

    If ``can_read_values`` is False, no step reads a value.
    """

    can_read_values = False
    """Whether steps may read values, and sizes may depend on values."""

    def top_k(self, scores: Tensor, k: int) -> BestLabels:
        """Return the ``k`` best labels of each row.

        A row is cut into chunks. Only chunks that can hold one of the best labels are
        kept, until the rest is narrow enough to be sorted in one pass. Each choice is a
        stable sort, which keeps the order of ties. At [1024, 131072] and k = 500 this
        moves 1.1 GB with 45 launches; a sort of whole rows moves 23 GB with 6 launches.

        Args:
            scores: Shape (N, L), floating.
            k: At most L.
        """
        if not scores.numel() or k == 0:
            return plain_top_k(scores, k)
        height = rows_at_once(SCORES_OF_A_TOURNAMENT, scores.shape[1])
        depth = min(k + 1, scores.shape[1])
        blocks = [tournament(rows, depth) for rows in torch.split(scores, height)]
        # in both cases a copy, because a view would keep the wide table in memory
        if len(blocks) == 1:
            values, ids = blocks[0]
            values = values.clone(memory_format=torch.contiguous_format)
            ids = ids.contiguous()
        else:
            values = torch.cat([block_values for block_values, _ in blocks])
            ids = torch.cat([block_ids for _, block_ids in blocks])
        return BestLabels(values, ids[:, :k])

    def largest(self, scores: Tensor, groups: Tensor, num_groups: int) -> Tensor:
        """Return the largest score of each group of labels, shape (N, num_groups).

        Args:
            scores: Shape (N, L), floating.
            groups: Shape (L,), int64: the group of each label.
            num_groups: The number of groups, each with a label.
        """

        def part_maxima(part: Tensor, _: int) -> Tensor:
            lowest = part.new_full((len(part), num_groups), -torch.inf)
            return lowest.scatter_reduce_(1, groups.expand_as(part), part, "amax")

        return torch.cat(self.over_rows(part_maxima, scores))

    def check_lists(self, ids: Tensor) -> ListCheck:
        """Return the lowest and highest id, and the first rows with a gap or repeat.

        The lists have the shape (N, K).

        The program waits for the device.
        """
        if not ids.numel():
            return ListCheck(0, -1, None, None)
        checks = self.over_rows(self._check_part, ids)
        gap_rows = [check.gap_row for check in checks if check.gap_row is not None]
        repeat_rows = [
            check.repeat_row for check in checks if check.repeat_row is not None
        ]
        return ListCheck(
            lowest=min(check.lowest for check in checks),
            highest=max(check.highest for check in checks),
            gap_row=min(gap_rows, default=None),
            repeat_row=min(repeat_rows, default=None),
        )

    def _check_part(self, ids: Tensor, first_row: int) -> ListCheck:
        """Check a part of the rows that starts at ``first_row``.

        See :meth:`check_lists`.
        """
        if self.can_read_values:
            # in a tenth of torch's time
            ordered = torch.from_numpy(np.sort(ids.numpy(), axis=1))
        else:
            ordered = ids.sort(dim=1).values
        previous, following = neighbours(ids)
        is_behind_gap = (following >= 0) & (previous < 0)
        return ListCheck(
            lowest=int(ordered[:, 0].min()),
            highest=int(ordered[:, -1].max()),
            gap_row=_first_row(is_behind_gap.any(dim=1), first_row),
            repeat_row=_first_row(repeats_previous(ordered).any(dim=1), first_row),
        )

    def repeated(self, ids: Tensor) -> Tensor:
        """Return whether each id of (N, K) occurs earlier in its row, bool (N, K)."""
        ordered, order = ids.sort(dim=1, stable=True)
        repeats_in_order = torch.zeros_like(ids, dtype=torch.bool)
        repeats_in_order[:, 1:] = repeats_previous(ordered)
        return torch.zeros_like(repeats_in_order).scatter_(1, order, repeats_in_order)

    def rows_not_falling(self, values: Tensor) -> Tensor:
        """Return the rows of values (N, C) that do not fall throughout.

        In such a row a value is not above the next one, and the next one is not -inf.
        """
        if self.can_read_values:
            return _rows_not_falling_on_cpu(values)
        value, next_value = neighbours(values)
        falls = (value > next_value) | (next_value == -torch.inf)
        return (~falls).any(dim=1).nonzero()[:, 0]

    def best_first(self, scores: Tensor, ids: Tensor) -> tuple[Tensor, Tensor, bool]:
        """Return the scores and ids of candidates (N, C), the best first.

        Of equal scores, the lower id comes first.

        The third value is True if each row is known to have a candidate and no equal
        scores. Candidates that are in order already are returned unchanged.
        """
        # most files and indexes give sorted lists: only rows that are out of order are
        # sorted
        if self.can_read_values:
            rows = self.rows_not_falling(scores)
            if not len(rows):
                has_candidate = scores[:, :1] > -torch.inf
                return scores, ids, scores.shape[1] > 0 and bool(has_candidate.all())
            if len(rows) < len(scores):
                row_scores, row_ids, _ = self.best_first(scores[rows], ids[rows])
                return (
                    scores.index_copy(0, rows, row_scores),
                    ids.index_copy(0, rows, row_ids),
                    False,
                )
        order = order_by_key(scores, ids.argsort(dim=1, stable=True), descending=True)
        return scores.gather(1, order), ids.gather(1, order), False

    def entries_of(self, matrix: Tensor, row_mask: Tensor | None) -> Entries:
        """Return the cells above 0 of a matrix (N, L) as entries.

        The matrix is bool or gains; only cells in rows that count become entries.

        On a device each cell has an entry, void if the cell is not relevant, because no
        size may depend on a value.
        """
        if self.can_read_values:
            return filled_entries(matrix, row_mask)

        num_labels = matrix.shape[1]
        is_relevant = matrix > 0
        if row_mask is not None:
            is_relevant = is_relevant & row_mask[:, None]
        labels = torch.arange(num_labels, device=matrix.device)
        ids = torch.where(is_relevant, labels, -1).reshape(-1)
        rows = rows_of_cells(matrix)
        gains = None
        if matrix.dtype != torch.bool:
            gains = matrix.reshape(-1).to(real_dtype(matrix.device))
        return Entries(rows, ids, gains, num_labels)

    def count_true(self, mask: Tensor) -> Tensor:
        """Return the number of True in each row of a mask (N, L), int64."""
        if not self.can_read_values:
            return mask.sum(dim=1)
        rows = mask.numpy()  # torch's sum takes 20 times as long
        if mask.shape[1] < WIDE_MASK:
            return torch.from_numpy(np.count_nonzero(rows, axis=1))
        return torch.from_numpy(
            np.fromiter(map(np.count_nonzero, rows), np.int64, len(rows))
        )

    TERMS = 2**22
    """This many exponentials of scores are added up at a time: 32 MB.

    Large parts need few steps, and on a device the number of steps costs most.
    """

    def add_up_terms(self, terms: Tensor, bits: int, added: Tensor) -> None:
        """Add up terms (N, C) from 0 to 1 exactly, by their binary digits.

        The sums are whole numbers.

        On a device the number of steps costs most, so the steps are few, though slower.
        Division by a power of two, rounding down and the remainder are exact, so the
        bits equal the bits of the CPU.

        Args:
            terms: Floating; they are overwritten.
            bits: The first whole number holds this many digits behind the point, the
                second the next ``bits`` digits.
            added: Receives the two sums of each row, shape (2, N).
        """
        unit = 2.0**-bits
        torch.sum(
            terms.div(unit, rounding_mode="floor"),
            dim=1,
            dtype=added.dtype,
            out=added[0],
        )
        rest = terms.remainder_(unit)
        torch.sum(
            rest.div_(unit**2, rounding_mode="floor"),
            dim=1,
            dtype=added.dtype,
            out=added[1],
        )

    LIMBS = 5 * 2**20
    """This many limbs are made at a time: 40 MB. Large steps are few."""

    def add_up(
        self, values: Tensor, dim: int, limbs: int, lowest: int, bounded: bool
    ) -> Tensor | None:
        """Return the sums of ``native.add_up``; None if no native code adds them."""
        return None

    def over_rows(
        self, work: Callable[[Tensor, int], Result], matrix: Tensor
    ) -> list[Result]:
        """Call ``work`` on parts of the rows of a matrix; return the results.

        ``work`` takes the part and the number of its first row.
        """
        if self.can_read_values:
            return over_threads(work, matrix)
        return [work(matrix, 0)]

    def num_above(self, scores: Tensor, limit: float | Tensor) -> Tensor:
        """Return how many scores (N, L) of each row are above a limit, (N,), int64.

        The limit is one number, or one per label (L,).
        """
        cells = _matrices.SCORES_COMPARED_AT_ONCE
        if self.can_read_values:
            cells = BLOCK_SCORES
        height = rows_at_once(cells, scores.shape[1])
        return torch.cat(
            [
                self.count_true(above(rows, limit))
                for rows in torch.split(scores, height)
            ]
        )

    def above(
        self, scores: Tensor, limits: list[float | Tensor]
    ) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Yield the cells of scores (N, L) above each limit, some rows at a time.

        A limit is a number, or one number per label (L,).

        Yields:
            The index of the limit, rows (S,) and labels (S,), int64; an entry with
            label -1 is void.
        """
        height = rows_at_once(BLOCK_SCORES, scores.shape[1])
        if self.can_read_values:
            height *= num_threads()

        def cells_of_part(
            part: Tensor, first_row: int
        ) -> list[tuple[int, Tensor, Tensor]]:
            cells = []
            for number, limit in enumerate(limits):
                entries = self.entries_of(above(part, limit), None)
                cells.append((number, entries.rows + first_row, entries.ids))
            return cells

        for start in range(0, len(scores), height):
            for cells in self.over_rows(cells_of_part, scores[start : start + height]):
                for number, rows, ids in cells:
                    yield number, rows + start, ids


def _first_row(flags: Tensor, first_row: int) -> int | None:
    """Return ``first_row`` plus the index of the first True in ``flags`` (N,).

    None if no flag is True.
    """
    rows = flags.nonzero()
    if not len(rows):
        return None
    return first_row + int(rows[0])


def _rows_not_falling_on_cpu(values: Tensor) -> Tensor:
    """Return :meth:`ScoreKernels.rows_not_falling`, in a tenth of torch's time.

    All rows are compared as one.
    """
    width = values.shape[1]
    wide = torch.promote_types(values.dtype, torch.float32)  # NumPy has no bfloat16
    flat = values.to(wide).numpy().reshape(-1)
    places = np.flatnonzero(~(flat[:-1] > flat[1:]))
    next_places = places + 1
    is_next_in_row = next_places % width > 0
    places = places[is_next_in_row & (flat[next_places] != -np.inf)]
    rows: Tensor = torch.unique_consecutive(torch.from_numpy(places // width))
    return rows


def true_cells(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows and columns of the True cells of a mask (N, L), both (H,).

    The cells are in row order. On a device, the program waits.
    """
    if not mask.is_cpu:
        rows, columns = mask.nonzero().unbind(1)
        return rows, columns
    flat = np.flatnonzero(mask.numpy())  # several times as fast as torch's nonzero
    row_numbers, column_numbers = np.divmod(flat, max(1, mask.shape[1]))
    return torch.from_numpy(row_numbers), torch.from_numpy(column_numbers)


def filled_entries(matrix: Tensor, row_mask: Tensor | None) -> Entries:
    """Return the cells of :meth:`ScoreKernels.entries_of`, none of which is void.

    On a device, the program waits.
    """
    num_labels = matrix.shape[1]
    rows, ids = true_cells(matrix if matrix.dtype == torch.bool else matrix > 0)
    if row_mask is not None:
        is_counted = row_mask[rows]
        rows, ids = rows[is_counted], ids[is_counted]
    gains = None
    if matrix.dtype != torch.bool:
        gains = matrix[rows, ids].to(real_dtype(matrix.device))
        if bool((gains == 1).all()):
            gains = None
    return Entries(rows, ids, gains, num_labels)
