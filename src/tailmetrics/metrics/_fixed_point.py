"""Sums of real numbers that come out the same, to the last bit, in any order.

A float sum depends on the order of its terms, and so on batch size, sampler and number of ranks. Here a float64 is
written as a few whole numbers, its limbs, each worth 2^26 times the next; limbs are added up in int64, where the order
does not matter. Every limb of a row is at most 2^26, so 2^37 > 10^11 rows fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

LIMB_BITS = 26


@dataclass(frozen=True)
class FixedPoint:
    """How the values of one metric are written.

    Attributes:
        limbs: Number of limbs; 0 for whole numbers, which are added up as they are.
        lowest: Exponent of the last limb: what is lost of a value is below half of 2^lowest, and nothing at all of
            one above 2^(lowest + 53).
    """

    limbs: int
    lowest: int = 0

    @property
    def columns(self) -> int:
        """Width of the state: the limbs, and a count of values too large for them (infinite ones)."""
        return 1 if self.limbs == 0 else self.limbs + 1

    @property
    def bound(self) -> float:
        """Values above this count as infinite."""
        return 2.0 ** (self.lowest + LIMB_BITS * self.limbs)

    def add_up(self, values: Tensor) -> Tensor:
        """Return the sum over the first axis, shape (..., columns), int64.

        Args:
            values: Shape (N, ...); whole numbers without limbs, else floating, >= 0.
        """
        if self.limbs == 0:
            return values.sum(dim=0, dtype=torch.int64).unsqueeze(-1)
        return self.digits(values).sum(dim=0)

    def digits(self, values: Tensor) -> Tensor:
        """Return each value as its limbs, most significant first, and 1 behind them where it has none."""
        fits = values <= self.bound
        # Powers of two, floor and the difference of neighbours are exact in floating point: nothing is rounded but
        # the last limb.
        scaled = torch.where(fits, values, 0).unsqueeze(-1) * self._scales(values)
        floors = torch.cat([scaled[..., :-1].floor(), scaled[..., -1:].round()], dim=-1)
        floors[..., 1:] -= floors[..., :-1] * 2.0**LIMB_BITS if self.limbs > 1 else 0.0
        return torch.cat([floors.to(torch.int64), (~fits).to(torch.int64).unsqueeze(-1)], dim=-1)

    def totals(self, state: Tensor) -> list[int | float]:
        """Return the sums in ``state`` (..., columns) as exact whole numbers of :attr:`unit`, flat; inf if infinite."""
        rows = state.reshape(-1, self.columns).tolist()
        if self.limbs == 0:
            return [row[0] for row in rows]
        return [float("inf") if row[-1] else _compose(row[:-1]) for row in rows]

    def _scales(self, values: Tensor) -> Tensor:
        return _powers(self.lowest, self.limbs, values.dtype, values.device)

    @property
    def unit(self) -> int:
        """How many of what :meth:`totals` counts make 1."""
        return 2**-self.lowest


COUNT = FixedPoint(0)
"""Whole numbers."""

UNIT = FixedPoint(3, lowest=-78)
"""Values in [0, 1], to 2^-79."""

REAL = FixedPoint(11, lowest=-156)
"""Values up to 2^130, to 2^-157; larger ones count as infinite."""


def _compose(limbs: list[int]) -> int:
    total = 0
    for limb in limbs:
        total = (total << LIMB_BITS) + limb
    return total


@lru_cache(maxsize=16)
def _powers(lowest: int, limbs: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    exponents = [-lowest - LIMB_BITS * (limbs - 1 - number) for number in range(limbs)]
    return torch.tensor([2.0**exponent for exponent in exponents], dtype=dtype, device=device)


def ratios(numerators: list[int | float], denominators: list[int]) -> list[float]:
    """Divide whole numbers, correctly rounded; NaN where a denominator is 0."""
    return [top / bottom if bottom else float("nan") for top, bottom in zip(numerators, denominators, strict=True)]
