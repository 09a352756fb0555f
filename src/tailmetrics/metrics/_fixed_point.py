"""Sums of real numbers that come out the same, to the last bit, in any order.

A float sum depends on the order of its terms, and so on batch size, sampler and number of ranks. Here a float64 is
written as a few whole numbers, its limbs, each worth 2^26 times the next; limbs are added up in int64, where the order
does not matter. Every limb of a row is at most 2^26, so 2^37 > 10^11 rows fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from tailmetrics.ranking._device import made_once
from tailmetrics.ranking._kernels_cpu import kernels_for

LIMB_BITS = 26
"""Bits of a limb: few enough that those of 2^37 rows add up in int64, so many that 3 limbs write [0, 1] to 2^-78."""

FEW_LIMBS = 2**10
"""Limbs that are made at once on any processor: 8 kB, so that a small batch is not asked which processor it is on."""

LIMBS_AT_ONCE = 5 * 2**20
"""Limbs that are made at once: 40 MB, in few large steps."""

EXACT_TERMS = 2**26
"""Fewer whole numbers below 2^27 than this add up to less than 2^53: exact in float64, whatever the order."""


@dataclass(frozen=True)
class FixedPoint:
    """How the values of one metric are written.

    Attributes:
        limbs: Number of limbs; 0 for whole numbers, which are added up as they are.
        lowest: Exponent of the last limb: what is lost of a value is below 2^lowest, and nothing at all of one above
            2^(lowest + 53).
        bounded: Whether the limbs hold any value there can be.
        columns: Width of the state: the limbs, and where values are unbounded a count of those too large for them.
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

    @property
    def largest(self) -> float:
        """The largest value there may be, the least one being 0; any, also below 0, of whole numbers."""
        return self.top if self.bounded and self.limbs else float("inf")

    def add_up(self, values: Tensor, dim: int = 0) -> Tensor:
        """Return the sum over one axis, int64, with the columns behind the others.

        Args:
            values: Whole numbers without limbs, else floating; below 0 only above 2^(lowest + 53), which is exact.
            dim: The axis of the rows.
        """
        if self.limbs == 0:
            return values.sum(dim=dim, dtype=torch.int64).unsqueeze(-1)
        limbs_of_all = (1 + self.columns) * values.numel()
        if limbs_of_all > FEW_LIMBS:
            known = kernels_for(values.device).add_up(values, dim, self.limbs, self.lowest, self.bounded)
            if known is not None:
                return known[..., : self.columns]
        if limbs_of_all > LIMBS_AT_ONCE and values.shape[dim] > 1:
            height = max(1, LIMBS_AT_ONCE // (limbs_of_all // values.shape[dim]))
            return torch.stack([self.add_up(part, dim) for part in torch.split(values, height, dim)]).sum(dim=0)
        limbs, too_large = self._limbs(values)
        exact = limbs.dtype == torch.float64 and limbs.shape[dim + 1] < EXACT_TERMS
        sums = limbs.sum(dim=dim + 1, dtype=None if exact else torch.int64).to(torch.int64)
        sums = sums if too_large is None else torch.cat([sums, too_large.sum(dim=dim).unsqueeze(0)])
        return sums.movedim(0, -1)

    def digits(self, values: Tensor) -> Tensor:
        """Return each value as its limbs, most significant first, and 1 behind them where it is too large."""
        if self.limbs == 0:
            return values.to(torch.int64).unsqueeze(-1)
        limbs, too_large = self._limbs(values)
        columns = limbs if too_large is None else torch.cat([limbs, too_large.unsqueeze(0)])
        return columns.to(torch.int64).movedim(0, -1)

    def _limbs(self, values: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the limbs of values as whole floats, along an axis in front, and which values are too large for them.

        All limbs at once, in 3 steps instead of 30: a limb is what a value has above its end, less 2^26 times what it
        has above the end of the limb before. Powers of two, floor and that difference are exact in floating point:
        nothing is lost but what is below the last limb. Twin: :meth:`_one_by_one`.
        """
        too_large = None if self.bounded else ~(values <= min(self.top, torch.finfo(values.dtype).max))  # NaN included
        values = values if too_large is None else values.masked_fill(too_large, 0.0)
        if values.dtype != torch.float64:  # 2^156 is no number of a smaller type
            return torch.stack(list(self._one_by_one(values))), too_large
        above = (values * _scales(self, values.device).view(-1, *[1] * values.ndim)).floor_()
        return torch.sub(above[1:], above[:-1], alpha=2.0**LIMB_BITS), too_large

    def _one_by_one(self, values: Tensor) -> Iterator[Tensor]:
        """Yield one limb after the other: cut off what is in front of the point, and move the point by a limb."""
        rest = values * 2.0 ** -(self.lowest + LIMB_BITS * (self.limbs - 1))
        for number in range(self.limbs):
            limb = rest.floor()
            yield limb
            if number < self.limbs - 1:
                rest.sub_(limb).mul_(2.0**LIMB_BITS)

    def totals(self, state: Tensor) -> list[int | float]:
        """Return the sums in ``state`` (..., columns) as exact whole numbers of :attr:`unit`, flat; inf if infinite."""
        if self.columns == 1:
            return state.reshape(-1).tolist()
        rows = state.reshape(-1, self.columns).tolist()
        if self.bounded:
            return [_compose(row) for row in rows]
        return [float("inf") if row[-1] else _compose(row[:-1]) for row in rows]

    def floats(self, state: Tensor) -> Tensor:
        """Return the sums in ``state`` (..., columns) as float64 of shape (...), rounded."""
        value = torch.zeros(state.shape[:-1], dtype=torch.float64, device=state.device)
        for number, limb in enumerate(state.unbind(-1)):
            value = value + limb.double() * 2.0 ** (self.lowest + LIMB_BITS * (self.limbs - 1 - number))
        return value

    @property
    def unit(self) -> int:
        """How many of what :meth:`totals` counts make 1."""
        return 1 << -self.lowest


COUNT = FixedPoint(0)
"""Whole numbers."""

UNIT = FixedPoint(3, lowest=-78)
"""Values in [0, 1], to 2^-78."""

REAL = FixedPoint(11, lowest=-156, bounded=False)
"""Values up to 2^130, to 2^-156; larger ones count as infinite."""

WEIGHT = FixedPoint(5, lowest=-78)
"""Sums of weights in [1, 2^32) of fewer than 2^20 labels, to 2^-78."""

SUMS_OF_WEIGHTS = FixedPoint(7, lowest=-78)
"""Sums of weighted values: to 2^-78 like values in [0, 1], and up to 2^104."""


@made_once
def _scales(kind: FixedPoint) -> Tensor:
    """Return what puts the end of each limb at the point, and in front of them 0."""
    exponents = range(LIMB_BITS * (kind.limbs - 1), -1, -LIMB_BITS)
    scales = [0.0, *(2.0 ** -(kind.lowest + exponent) for exponent in exponents)]
    return torch.tensor(scales, dtype=torch.float64, device="cpu")


def _compose(limbs: list[int]) -> int:
    total = 0
    for limb in limbs:
        total = (total << LIMB_BITS) + limb
    return total


def ratios(numerators: Sequence[int | float], denominators: Sequence[int]) -> list[float]:
    """Divide whole numbers, correctly rounded; NaN where a denominator is 0."""
    return [top / bottom if bottom else float("nan") for top, bottom in zip(numerators, denominators, strict=True)]
