"""States of metrics: integer tensors, additions to them, formats of real numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from tailmetrics._arguments import shape_of
from tailmetrics._transfer import Reduction
from tailmetrics.ranking import Ranking
from tailmetrics.ranking._device import real_dtype
from tailmetrics.ranking._kernels_cpu import kernels_for
from tailmetrics.ranking._once import made_once, once
from tailmetrics.ranking._orders import along_rows, row_of_each, rows_at_once
from tailmetrics.ranking._reading import BatchRows

LIMB_BITS = 26
"""Bits of a limb: int64 adds up 2^37 limbs, and 3 limbs write [0, 1] to 2^-78."""

FEW_LIMBS = 2**10
"""Up to this number of limbs (8 kB), torch makes all limbs at once.

The kernels of the processor are not looked up then.
"""

EXACT_TERMS = 2**26
"""Fewer terms than this, each below 2^27, have a sum below 2^53.

Such a sum of whole numbers is exact in float64 in any order.
"""


@dataclass(frozen=True)
class FixedPoint:
    """The format in which a state holds real numbers as whole numbers.

    Sums of such numbers have the same bits in any order.

    A sum of floats depends on the order of its terms, and so on batch size, sampler and
    number of processes. Here a float64 is written as a few whole numbers, its limbs.
    Each limb is worth 2^26 times the next limb. Limbs are added up in int64, where the
    order does not matter. A limb of a row is at most 2^26, so 2^37 > 10^11 rows fit.

    Attributes:
        limbs: Number of limbs; 0 for whole numbers, which are added up unchanged.
        lowest: Exponent of the last limb. A value loses less than 2^lowest, and nothing
            if it is above 2^(lowest + 53).
        bounded: Whether the limbs can hold every value of the metric.
        columns: Size of the last axis of a state: the limbs and, for unbounded values,
            the number of values that are too large for the limbs.
    """

    limbs: int
    lowest: int = 0
    bounded: bool = True
    columns: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", max(1, self.limbs) + (not self.bounded))

    @property
    def top(self) -> float:
        """The largest value that the limbs hold."""
        return 2.0 ** (self.lowest + LIMB_BITS * self.limbs)

    def exponent(self, number: int) -> int:
        """Return the exponent of the unit of a limb, 2^exponent.

        Limb 0 is the most significant one.
        """
        return self.lowest + LIMB_BITS * (self.limbs - 1 - number)

    @property
    def largest(self) -> float:
        """The largest value a formula may return; infinity if whole or unbounded."""
        if self.bounded and self.limbs:
            return self.top
        return float("inf")

    def add_up(self, values: Tensor, dim: int = 0) -> Tensor:
        """Return the sum over one axis, int64, with the columns as the last axis.

        Args:
            values: Whole numbers for a format without limbs, else floating. A negative
                value must be exact: its absolute value is above 2^(lowest + 53).
            dim: The axis of the rows.
        """
        if self.limbs == 0:
            return values.sum(dim=dim, dtype=torch.int64).unsqueeze(-1)
        num_limbs = (1 + self.columns) * values.numel()
        if num_limbs > FEW_LIMBS:
            kernels = kernels_for(values.device)
            sums = kernels.add_up(values, dim, self.limbs, self.lowest, self.bounded)
            if sums is not None:
                return sums[..., : self.columns]
            num_rows = values.shape[dim]
            rows_in_block = rows_at_once(kernels.LIMBS, num_limbs // num_rows)
            if rows_in_block < num_rows:
                block_sums = [
                    self.add_up(block, dim)
                    for block in torch.split(values, rows_in_block, dim)
                ]
                return torch.stack(block_sums).sum(dim=0)

        # (limbs, ...): the axis of the rows is one further back
        limbs, too_large = self._limbs(values)
        if limbs.dtype == torch.float64 and limbs.shape[dim + 1] < EXACT_TERMS:
            sums = limbs.sum(dim=dim + 1).to(torch.int64)
        else:
            sums = limbs.sum(dim=dim + 1, dtype=torch.int64)
        if too_large is not None:
            num_too_large = too_large.sum(dim=dim)
            sums = torch.cat([sums, num_too_large.unsqueeze(0)])
        return sums.movedim(0, -1)

    def digits(self, values: Tensor) -> Tensor:
        """Return the limbs of each value, most significant first.

        For unbounded values a column follows: 1 if the value is too large.
        """
        if self.limbs == 0:
            return values.to(torch.int64).unsqueeze(-1)
        columns, too_large = self._limbs(values)
        if too_large is not None:
            columns = torch.cat([columns, too_large.unsqueeze(0)])
        return columns.to(torch.int64).movedim(0, -1)

    def _limbs(self, values: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the limbs as whole floats, (limbs, ...), and a mask of large values.

        The mask is True where the limbs cannot hold a value; None for bounded values.

        All limbs of float64 are made at once, in 3 steps instead of 30. With v_i the
        value in units of limb i, limb i is floor(v_i) - 2^26 floor(v_(i-1)). Powers of
        two, floor and this difference are exact in floating point: only the part of a
        value below the last limb is lost. :meth:`_one_by_one` gives the same limbs.
        """
        too_large = None
        if not self.bounded:
            largest = min(self.top, torch.finfo(values.dtype).max)
            too_large = ~(values <= largest)  # NaN included
            values = values.masked_fill(too_large, 0.0)
        if values.dtype != torch.float64:  # float32 has no 2^156
            return torch.stack(list(self._one_by_one(values))), too_large
        scales = _scales(self, values.device).view(-1, *[1] * values.ndim)
        in_units = (values * scales).floor_()  # 0, then in units of each limb
        return torch.sub(in_units[1:], in_units[:-1], alpha=2.0**LIMB_BITS), too_large

    def _one_by_one(self, values: Tensor) -> Iterator[Tensor]:
        """Yield the limbs one by one, the most significant one first.

        The whole part of a number is a limb; the rest is shifted left by one limb.
        """
        rest = values * 2.0 ** -self.exponent(0)
        for number in range(self.limbs):
            limb = rest.floor()
            yield limb
            if number < self.limbs - 1:
                rest.sub_(limb).mul_(2.0**LIMB_BITS)

    def totals(self, state: Tensor) -> list[int | float]:
        """Return the sums in ``state`` (..., columns) in units of 1 / :attr:`unit`.

        A flat list of exact whole numbers, or inf where a value was too large.
        """
        if self.columns == 1:
            return state.reshape(-1).tolist()
        totals: list[int | float] = []
        for columns in state.reshape(-1, self.columns).tolist():
            if not self.bounded and columns[-1]:  # a value was too large
                totals.append(inf)
                continue
            total = 0
            for limb in columns[: self.limbs]:
                total = (total << LIMB_BITS) + limb
            totals.append(total)
        return totals

    def floats(self, state: Tensor) -> Tensor:
        """Return the sums in ``state`` (..., columns), rounded to float64 (...)."""
        value = torch.zeros(state.shape[:-1], dtype=torch.float64, device=state.device)
        for number, limb in enumerate(state.unbind(-1)):
            value = value + limb.double() * 2.0 ** self.exponent(number)
        return value

    @property
    def unit(self) -> int:
        """The whole number that :meth:`totals` returns for a sum of 1."""
        return 1 << -self.lowest


COUNT = FixedPoint(0)
"""The format of whole numbers."""

UNIT = FixedPoint(3, lowest=-78)
"""The format of values in [0, 1], to 2^-78."""

REAL = FixedPoint(11, lowest=-156, bounded=False)
"""The format of values up to 2^130, to 2^-156; larger values count as infinite."""

WEIGHT = FixedPoint(5, lowest=-78)
"""The format of sums of weights in [1, 2^32) of fewer than 2^20 labels, to 2^-78."""

SUMS_OF_WEIGHTS = FixedPoint(7, lowest=-78)
"""The format of sums of row weights or weighted values: up to 2^104, to 2^-78."""


@made_once
def _scales(fixed_point: FixedPoint) -> Tensor:
    """Return a 0 and the factors that turn a value into units of each limb."""
    factors = [
        2.0 ** -fixed_point.exponent(number) for number in range(fixed_point.limbs)
    ]
    return torch.tensor([0.0, *factors], dtype=torch.float64, device="cpu")


def ratios(numerators: Sequence[float], denominators: Sequence[float]) -> list[float]:
    """Return each quotient, correctly rounded; NaN where the denominator is 0."""
    quotients = []
    for numerator, denominator in zip(numerators, denominators, strict=True):
        if denominator:
            quotients.append(numerator / denominator)
        else:
            quotients.append(float("nan"))
    return quotients


def divide(top: Tensor, bottom: Tensor | int) -> Tensor:
    """Return ``top / bottom`` in float64; 0 where ``bottom``, and so ``top``, is 0.

    Raises:
        TypeError: If an argument is floating but not float64: it has lost digits.
    """
    for part in (top, bottom):
        if (
            not isinstance(part, Tensor)
            or part.dtype == torch.float64
            or not part.is_floating_point()
        ):
            continue
        if part.dtype != real_dtype(part.device):
            raise TypeError(
                f"divide: a part is {shape_of(part)}, which has lost digits; keep "
                "whole numbers or float64: hits.double() * 0.5 instead of hits * 0.5."
            )
    if top.dtype != torch.float64:
        top = top.to(real_dtype(top.device))
    if isinstance(bottom, int):
        return top / max(bottom, 1)
    smallest: float = 1
    if bottom.is_floating_point():
        smallest = torch.finfo(bottom.dtype).tiny
    return top / bottom.clamp(min=smallest)


@dataclass(frozen=True)
class State:
    """A state tensor of whole numbers, 0 at first.

    Attributes:
        shape: Shape of the state without its first axis, the row groups.
        reduction: The operation that adds a batch and combines processes.
        dtype: int64 for sums, uint8 for flags under ``max``.
        shared: Whether metrics of a collection share one tensor for this state. What a
            shared state holds depends only on the class of the aggregation, its name,
            shape and key.
        key: A suffix of the name, which differs if arguments of the metric change the
            numbers in the state.
    """

    shape: tuple[int, ...]
    reduction: Reduction = "sum"
    dtype: torch.dtype = torch.int64
    shared: bool = False
    key: str = ""


@dataclass(eq=False)
class PerRow:
    """Values of each row, to be added up over the rows.

    Attributes:
        values: Shape (N, ...), or with N at ``row_axis``; whole numbers or bools for
            ``COUNT``, else floating.
        fixed_point: The format of the values in the state; its columns are the last
            axis of the state.
        row_axis: The axis of ``values`` that is the rows; other axes, such as cut-offs,
            may come before it.
    """

    values: Tensor
    fixed_point: FixedPoint = COUNT
    row_axis: int = 0


class EqualRows(PerRow):
    """Whole numbers equal for all rows, so their sum is known without reading rows.

    Args:
        numbers: C whole numbers.
        num_rows: N.
        device: Device of the sum and the values.
    """

    def __init__(
        self, numbers: tuple[int, ...], num_rows: int, device: torch.device
    ) -> None:
        self._numbers = numbers
        self.num_rows = num_rows
        self.total = _times(numbers, num_rows, device)

    @once
    def values(self) -> Tensor:
        """The numbers of each row, shape (N, C), int64."""
        row = _times(self._numbers, 1, self.total.device).view(1, -1)
        return row.expand(self.num_rows, -1)


@made_once
def _times(numbers: tuple[int, ...], num_rows: int) -> Tensor:
    """Return each number times ``num_rows``, int64, as counts in a state, (1, C, 1)."""
    products = [number * num_rows for number in numbers]
    return torch.tensor(products, dtype=torch.int64, device="cpu").view(1, -1, 1)


@dataclass(frozen=True, eq=False)
class AtCells:
    """Amounts to add to single cells of a state, or, under ``max``, flags to set there.

    Attributes:
        cells: Shape (H,), int64: flat indices into a state without its first axis, the
            row groups, and, if rows have weights, without the last axis, the columns of
            weighted counts.
        amounts: Shape (H,), whole numbers or bools; 0 leaves a cell unchanged.
        rows: Shape (H,), int64: the row of each amount.
    """

    cells: Tensor
    amounts: Tensor
    rows: Tensor


@dataclass(frozen=True, eq=False)
class InBlocks:
    """Amounts for single cells of a sum, computed for a few rows at a time.

    Attributes:
        blocks: Returns an iterator over blocks of amounts; each call returns the same
            amounts again.
    """

    blocks: Callable[[], Iterator[AtCells]]


Increment: TypeAlias = "PerRow | AtCells | InBlocks"
Increments: TypeAlias = Mapping[str, Increment]

States: TypeAlias = Mapping[str, Tensor]
"""States by short name, of all rows or of a row group."""


class LabelCells(NamedTuple):
    """The cells of labels that each row hits, predicts or shows, and holds.

    None for those that are not kept.
    """

    hits: Increment | None = None
    predicted: Increment | None = None
    relevant: Increment | None = None


@dataclass(eq=False)
class Addition:
    """The addition of a batch to the states of metrics: all sums change, or none.

    Amounts are noted first; then :meth:`carry_out` computes all of them and adds them
    with few calls. An error before the first addition leaves the states unchanged.
    After a later error, the amounts already added are subtracted again: sums are whole
    numbers, so they have their old values.

    Attributes:
        sums: Pairs of a state without row groups, and the values of rows whose sum is
            added to it.
        states: States to which ``amounts`` are added.
        amounts: For each of ``states``, the amounts for all of its cells.
        cells: Triples of a state, the amounts for single cells of it, and the rows of
            the batch.
        flags: Triples of a state as a vector, indices into it, and the flags to set
            there.
        grouped: The sums of values of rows overall and by row group, by the identity of
            the values, which are kept.
    """

    sums: list[tuple[Tensor, PerRow]] = field(default_factory=list)
    states: list[Tensor] = field(default_factory=list)
    amounts: list[Tensor] = field(default_factory=list)
    cells: list[tuple[Tensor, AtCells | InBlocks, BatchRows]] = field(
        default_factory=list
    )
    flags: list[tuple[Tensor, Tensor, Tensor]] = field(default_factory=list)
    grouped: dict[tuple[int, torch.Size], tuple[PerRow, Tensor]] = field(
        default_factory=dict
    )

    def note(
        self, state: Tensor, increment: Increment, rows: BatchRows, reduction: Reduction
    ) -> None:
        """Note the amounts for a state, overall and for each row group."""
        if isinstance(increment, (AtCells, InBlocks)) and reduction == "sum":
            self.cells.append((state, increment, rows))
        elif isinstance(increment, AtCells):
            self.flags += _amounts_at_cells(state, increment, BatchRows(rows.groups))
        else:
            assert isinstance(increment, PerRow)  # flags in blocks could not be undone
            if rows.weights is not None:
                increment = _weighted_rows(increment, rows.weights)
            if state.shape[0] == 1:
                self.sums.append((state, increment))
            else:
                self._note_groups(state, increment, rows)

    def _note_groups(self, state: Tensor, increment: PerRow, rows: BatchRows) -> None:
        """Note values of rows for a state with row groups."""
        assert rows.groups is not None
        key = id(increment), state.shape
        if key not in self.grouped:  # many metrics add the same values
            values = increment.values.movedim(increment.row_axis, 0)
            digits = increment.fixed_point.digits(values).reshape(-1, *state.shape[1:])
            # index 0 takes the rows without a group, and then the sum over all rows
            by_group = torch.zeros_like(state).index_add_(0, rows.groups + 1, digits)
            by_group[0] = by_group.sum(dim=0)
            self.grouped[key] = increment, by_group
        _, by_group = self.grouped[key]
        self.states.append(state)
        self.amounts.append(by_group)

    def carry_out(self) -> None:
        """Add all noted amounts; after an error, subtract the amounts already added."""
        states, amounts = self._totals()
        if not (self.cells or self.flags):
            if states:
                torch._foreach_add_(states, amounts)
            return

        num_added = [0] * len(self.cells)  # how many blocks of each are added
        try:
            for number, arguments in enumerate(self.cells):
                for state, places, amount in _amounts_at_cells(*arguments):
                    state.scatter_add_(0, places, amount)
                    num_added[number] += 1
            for state, places, amount in self.flags:
                state.scatter_reduce_(0, places, amount, reduce="amax")
            if states:
                torch._foreach_add_(states, amounts)
        except BaseException:
            for arguments, count in zip(self.cells, num_added, strict=True):
                for state, places, amount in islice(
                    _amounts_at_cells(*arguments), count
                ):
                    state.scatter_add_(0, places, -amount)
            raise

    def _totals(self) -> tuple[list[Tensor], list[Tensor]]:
        """Return states, and for each of them the amounts for all of its cells.

        Values of one format and shape are joined by cut-off and added up at once: a
        tenth of the calls for ten metrics.
        """
        states, amounts = list(self.states), list(self.amounts)
        groups: dict[object, list[PerRow]] = {}
        states_by_values: dict[int, list[Tensor]] = {}
        for state, increment in self.sums:
            if isinstance(increment, EqualRows):
                states.append(state)
                amounts.append(increment.total)
                continue
            # many metrics add the same values
            if id(increment) not in states_by_values:
                states_by_values[id(increment)] = []
                kind: object = id(increment)
                if increment.fixed_point.limbs and increment.row_axis:
                    values = increment.values
                    kind = (
                        increment.fixed_point,
                        values.shape[1:],
                        increment.row_axis,
                        values.dtype,
                    )
                groups.setdefault(kind, []).append(increment)
            states_by_values[id(increment)].append(state)

        for increments in groups.values():
            first = increments[0]
            totals: Sequence[Tensor]
            if first.fixed_point.limbs == 0:  # without an axis of limbs
                totals = [first.values.sum(dim=first.row_axis, dtype=torch.int64)]
            elif len(increments) == 1:
                totals = [first.fixed_point.add_up(first.values, first.row_axis)]
            else:
                totals = _sums_of_joined(increments)
            for increment, total in zip(increments, totals, strict=True):
                for state in states_by_values[id(increment)]:
                    states.append(state)
                    amounts.append(total.view_as(state))
        return states, amounts


def _sums_of_joined(increments: Sequence[PerRow]) -> Sequence[Tensor]:
    """Return the sum over the rows of each of several values, joined by cut-off."""
    first = increments[0]
    values = [increment.values for increment in increments]
    joined = first.fixed_point.add_up(torch.cat(values), first.row_axis)
    numbers_of_cutoffs = [len(cutoff_values) for cutoff_values in values]
    return torch.split(joined, numbers_of_cutoffs)


def _weighted_rows(increment: PerRow, weights: Tensor) -> PerRow:
    """Return the values of rows times the weights (N,) of the rows."""
    values = increment.values.movedim(increment.row_axis, 0)
    weights = along_rows(weights, values.ndim)
    # a row of weight 0 adds 0, even if its value is infinite
    products = torch.where(weights > 0, values.to(weights.dtype) * weights, 0.0)
    return PerRow(products, weighted(increment.fixed_point))


def at_targets(ranking: Ranking) -> AtCells:
    """Return an amount of 1 at the cell of each relevant label of each row."""
    entries = ranking.targets.entries
    return AtCells(entries.ids.clamp(min=0), entries.ids >= 0, entries.rows)


def at_labels(ids: Tensor, mask: Tensor) -> AtCells:
    """Return an amount for each id (N, ...): 1 at its cell where ``mask`` is true.

    Elsewhere, the amount is 0 at cell 0.
    """
    cells = torch.where(mask, ids, 0)
    return AtCells(cells.reshape(-1), mask.reshape(-1), row_of_each(ids).reshape(-1))


def weighted(fixed_point: FixedPoint) -> FixedPoint:
    """Return the format of values times row weights.

    Weights of 1 give the same sums as no weights.
    """
    if fixed_point.limbs and not fixed_point.bounded:
        return fixed_point
    return SUMS_OF_WEIGHTS


def check_cells(caller: str, name: str, cells: Tensor, state: Tensor) -> None:
    """Raise ValueError unless ``cells`` are within a state of a user's metric.

    Torch could fail after some amounts are added.
    """
    if not cells.numel():
        return
    lowest, highest = torch.aminmax(cells)
    low, high, last = int(lowest), int(highest), state[0].numel() - 1
    if low < 0 or high > last:
        raise ValueError(
            f"{caller}: a batch adds to the cells {low} to {high} of the state "
            f"{name!r}, which has cells 0 to {last}; return places within the state."
        )


def in_limbs(
    fixed_point: FixedPoint, cells: Tensor, values: Tensor, rows: Tensor
) -> AtCells:
    """Return the limbs of values as amounts for cells.

    A state holds the limbs of a sum side by side.
    """
    num_columns = fixed_point.columns
    places = cells[:, None] * num_columns + torch.arange(
        num_columns, device=cells.device
    )
    digits = fixed_point.digits(values)
    return AtCells(
        places.reshape(-1), digits.reshape(-1), rows.repeat_interleave(num_columns)
    )


def _amounts_at_cells(
    state: Tensor, increment: AtCells | InBlocks, rows: BatchRows
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield a part of a state as a vector, indices into it and amounts.

    First come those of all rows, then those of row groups.
    """
    blocks: Iterable[AtCells]
    if isinstance(increment, InBlocks):
        blocks = increment.blocks()
    else:
        blocks = [increment]
    for block in blocks:
        if rows.weights is not None:
            weighted_amounts = block.amounts * rows.weights[block.rows]
            block = in_limbs(weighted(COUNT), block.cells, weighted_amounts, block.rows)
        amounts = block.amounts.to(state.dtype)
        yield state[0].view(-1), block.cells, amounts
        if rows.groups is not None and len(state) > 1:
            group = rows.groups[block.rows]
            has_group = group >= 0
            start_of_group = (group.clamp(min=0) + 1) * state[0].numel()
            yield (
                state.view(-1),
                start_of_group + block.cells,
                torch.where(has_group, amounts, 0),
            )
