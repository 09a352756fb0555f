"""Sums of real numbers that come out the same, to the last bit, in any order.

A float sum depends on the order of its terms, and so on batch size, sampler and number of ranks. Here a float64 is
written as a few whole numbers, its limbs, each worth 2^26 times the next; limbs are added up in int64, where the order
does not matter. Every limb of a row is at most 2^26, so 2^37 > 10^11 rows fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

LIMB_BITS = 26


@dataclass(frozen=True)
class FixedPoint:
    """How the values of one metric are written.

    Attributes:
        limbs: Number of limbs; 0 for whole numbers, which are added up as they are.
        lowest: Exponent of the last limb: what is lost of a value is below 2^lowest, and nothing at all of one above
            2^(lowest + 53).
        bounded: Whether the limbs hold any value there can be.
    """

    limbs: int
    lowest: int = 0
    bounded: bool = True

    @property
    def largest(self) -> float:
        """The largest value there may be, the least one being 0; any, also below 0, of whole numbers."""
        return 2.0 ** (self.lowest + LIMB_BITS * self.limbs) if self.bounded and self.limbs else float("inf")

    @property
    def columns(self) -> int:
        """Width of the state: the limbs, and where values are unbounded a count of those too large for them."""
        return max(1, self.limbs) + (not self.bounded)

    def add_up(self, values: Tensor, dim: int = 0) -> Tensor:
        """Return the sum over one axis, int64, with the columns behind the others.

        Args:
            values: Whole numbers without limbs, else floating, >= 0.
            dim: The axis of the rows.
        """
        if self.limbs == 0:
            return values.sum(dim=dim, dtype=torch.int64).unsqueeze(-1)
        # Limbs are whole numbers below 2^27: a float64 sum of fewer than 2^26 of them is exact in any order.
        exact = values.dtype == torch.float64 and values.shape[dim] < 2**26
        sums = [digit.sum(dim=dim) if exact else digit.to(torch.int64).sum(dim=dim) for digit in self._digits(values)]
        return torch.stack(sums, dim=-1).to(torch.int64)

    def digits(self, values: Tensor) -> Tensor:
        """Return each value as its limbs, most significant first, and 1 behind them where it is too large."""
        if self.limbs == 0:
            return values.to(torch.int64).unsqueeze(-1)
        return torch.stack(list(self._digits(values)), dim=-1).to(torch.int64)

    def _digits(self, values: Tensor) -> Iterator[Tensor]:
        fits = None if self.bounded else values <= 2.0 ** (self.lowest + LIMB_BITS * self.limbs)
        rest = values if fits is None else torch.where(fits, values, 0)
        rest = rest * 2.0 ** -(self.lowest + LIMB_BITS * (self.limbs - 1))
        # Powers of two, floor and what floor cuts off are exact in floating point: nothing is lost but what is below
        # the last limb.
        for _ in range(self.limbs - 1):
            digit = rest.floor()
            yield digit
            rest.sub_(digit).mul_(2.0**LIMB_BITS)
        yield rest.floor()
        if fits is not None:
            yield (~fits).to(values.dtype)

    def totals(self, state: Tensor) -> list[int | float]:
        """Return the sums in ``state`` (..., columns) as exact whole numbers of :attr:`unit`, flat; inf if infinite."""
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


def _compose(limbs: list[int]) -> int:
    total = 0
    for limb in limbs:
        total = (total << LIMB_BITS) + limb
    return total


def ratios(numerators: Sequence[int | float], denominators: Sequence[int]) -> list[float]:
    """Divide whole numbers, correctly rounded; NaN where a denominator is 0."""
    return [top / bottom if bottom else float("nan") for top, bottom in zip(numerators, denominators, strict=True)]
