"""The states of metrics: integer tensors, and what a batch adds to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from tailmetrics._exact_metric import writable
from tailmetrics.metrics._fixed_point import COUNT, SMALL, FixedPoint
from tailmetrics.ranking._batch_rows import BatchRows
from tailmetrics.ranking._device import reads_are_free
from tailmetrics.ranking._once import once

LARGEST_TOTAL = FixedPoint(7, lowest=-78)
"""Sums of weighted values: to 2^-78 like values in [0, 1], and up to 2^104."""


@dataclass(frozen=True)
class State:
    """A state tensor of whole numbers, 0 at first.

    Attributes:
        shape: Its shape, without the axis of row groups, which every state has in front.
        reduce: How processes and batches are put together.
        dtype: int64 for sums, uint8 for flags under ``max``.
        shared: Whether all metrics whose class inherits this state from one class, and prepares it as that class
            does, have one and the same state in a collection. Such a state depends on its name and shape alone.
    """

    shape: tuple[int, ...]
    reduce: Literal["sum", "max"] = "sum"
    dtype: torch.dtype = torch.int64
    shared: bool = False


@dataclass(frozen=True, eq=False)
class PerRow:
    """A value of every row, to be added up over the rows.

    Attributes:
        values: Shape (N, ...); whole numbers or bools for ``COUNT``, else floating.
        fixed_point: How values are written as whole numbers; the state has its columns behind the other axes.
        row_axis: Which axis of ``values`` is that of the rows: there may be others in front of it.
    """

    values: Tensor
    fixed_point: FixedPoint = COUNT
    row_axis: int = 0

    @once
    def total(self) -> Tensor:
        """The sum over all rows as whole numbers, shape (..., columns), int64."""
        return self.fixed_point.add_up(self.values, dim=self.row_axis)

    @property
    def rows_first(self) -> Tensor:
        """The values with the axis of the rows in front."""
        return self.values.movedim(self.row_axis, 0)


@dataclass(frozen=True, eq=False)
class AtCells:
    """Amounts to be added to single cells of a state, or, under ``max``, cells to be marked.

    Attributes:
        cells: Shape (H,), int64: flat places in a state without its axis of row groups, and without the axis of
            columns behind, which only weighted sums have.
        amounts: Shape (H,), whole numbers or bools; 0 where nothing is added.
        rows: Shape (H,), int64: the row each amount comes from.
    """

    cells: Tensor
    amounts: Tensor
    rows: Tensor


@dataclass(frozen=True, eq=False)
class InBlocks:
    """Amounts for single cells that are made a few rows at a time, while they are added.

    Attributes:
        blocks: Makes them anew at each call; it must not fail, since some of them may have been added by then.
    """

    blocks: Callable[[], Iterator[AtCells]]


Increment: TypeAlias = "PerRow | AtCells | InBlocks"
Increments: TypeAlias = Mapping[str, Increment]


class Additions:
    """Amounts to be added to tensors, by one call for all of them."""

    def __init__(self) -> None:
        self._tensors: list[Tensor] = []
        self._amounts: list[Tensor] = []

    def note(self, tensor: Tensor, amount: Tensor) -> None:
        """Note that an amount is to be added to a tensor of the same shape, in place."""
        self._tensors.append(tensor)
        self._amounts.append(amount)

    def carry_out(self) -> None:
        """Add all that was noted."""
        if self._tensors:
            torch._foreach_add_(self._tensors, self._amounts)


@dataclass(frozen=True)
class Prepared:
    """What a batch adds to the states of one metric, computed but not yet added.

    Attributes:
        increments: By the short name of the state.
        rows: Row groups and row weights of the batch, where the metric reads them.
        additions: Where sums are noted that the caller carries out later; None carries them out at once.
    """

    increments: Increments
    rows: BatchRows
    additions: Additions | None = None


def at_labels(ids: Tensor, mask: Tensor) -> AtCells:
    """Return one for every id (N, ...) where ``mask`` is true, and none elsewhere, without leaving anything out."""
    rows = torch.arange(len(ids), device=ids.device).view(-1, *[1] * (ids.ndim - 1)).expand(ids.shape)
    return AtCells(torch.where(mask, ids, 0).reshape(-1), mask.reshape(-1), rows.reshape(-1))


def weighted(fixed_point: FixedPoint) -> FixedPoint:
    """Return how values times row weights are written; weights of 1 give the totals of no weights."""
    return fixed_point if fixed_point.limbs and not fixed_point.bounded else LARGEST_TOTAL


def total_together(prepared: Iterable[Prepared]) -> None:
    """Compute the totals of values that are written alike at once: a tenth of the calls for ten metrics.

    On a CPU only of small batches, where calls are what costs.
    """
    alike: dict[object, list[PerRow]] = {}
    for one in prepared:
        for increment in one.increments.values() if one.rows.plain else ():
            if isinstance(increment, PerRow) and increment.fixed_point.limbs:
                shape = increment.values.shape[1:], increment.row_axis, increment.values.dtype
                alike.setdefault((increment.fixed_point, *shape), []).append(increment)
    for increments in alike.values():
        first = increments[0]
        sizes = [len(increment.values) for increment in increments]
        numbers = sum(increment.values.numel() for increment in increments) * first.fixed_point.columns
        if len(increments) == 1 or first.row_axis == 0 or (reads_are_free(first.values.device) and numbers > SMALL):
            continue
        values = torch.cat([increment.values for increment in increments])
        totals = torch.split(first.fixed_point.add_up(values, first.row_axis), sizes)
        for increment, total in zip(increments, totals, strict=True):
            object.__setattr__(increment, "total", total)


def add_rows(given: Tensor, increment: PerRow, rows: BatchRows, additions: Additions) -> Tensor:
    """Add the values of all rows to the first entry of a state, and those of each row group to its own, in place."""
    state = writable(given)
    if rows.weights is not None:
        values = increment.rows_first
        weights = rows.weights.view(-1, *[1] * (values.ndim - 1))
        increment = PerRow(values.to(weights.dtype) * weights, weighted(increment.fixed_point))
    if state.shape[0] == 1:
        additions.note(state, increment.total.view(state.shape))
        return state
    assert rows.groups is not None
    digits = increment.fixed_point.digits(increment.rows_first).reshape(-1, *state.shape[1:])
    by_group = torch.zeros_like(state).index_add_(0, rows.groups + 1, digits)  # rows of no group come first
    by_group[0] = by_group.sum(dim=0)
    state += by_group
    return state


def add_cells(given: Tensor, increment: AtCells, rows: BatchRows, reduce: Literal["sum", "max"]) -> Tensor:
    """Add amounts to cells of a state, or mark the cells, overall and for each row group, in place."""
    state = writable(given)
    if rows.weights is not None and reduce == "sum":
        increment = _weighted_cells(increment, rows.weights)
    amounts = increment.amounts.to(state.dtype)
    _scatter(state[0].view(-1), increment.cells, amounts, reduce)
    if rows.groups is not None and len(state) > 1:
        group = rows.groups[increment.rows]
        place = (group.clamp(min=0) + 1) * state[0].numel() + increment.cells
        _scatter(state.view(-1), place, torch.where(group >= 0, amounts, 0), reduce)
    return state


def add_blocks(given: Tensor, increment: InBlocks, rows: BatchRows, reduce: Literal["sum", "max"]) -> Tensor:
    """Add the amounts of all blocks, one after the other."""
    state = given
    for part in increment.blocks():
        state = add_cells(state, part, rows, reduce)
    return state


def _weighted_cells(increment: AtCells, weights: Tensor) -> AtCells:
    """Return amounts times row weights as limbs, which lie side by side in the state."""
    fixed_point = weighted(COUNT)
    digits = fixed_point.digits(increment.amounts * weights[increment.rows])
    columns = torch.arange(fixed_point.columns, device=digits.device)
    cells = increment.cells[:, None] * fixed_point.columns + columns
    return AtCells(cells.reshape(-1), digits.reshape(-1), increment.rows.repeat_interleave(fixed_point.columns))


def _scatter(cells: Tensor, places: Tensor, amounts: Tensor, reduce: Literal["sum", "max"]) -> None:
    if reduce == "sum":
        cells.scatter_add_(0, places, amounts)
    else:
        cells.scatter_reduce_(0, places, amounts, reduce="amax")
