"""A demand, what was measured, and whether that is enough."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """One line of the table of demands.

    Attributes:
        step: What is demanded of.
        case: Sizes and data it was measured on.
        measured: The number.
        demand: What it may be at most; None where nothing is demanded.
        unit: What both are counted in.
        note: What else was seen.
    """

    step: str
    case: str
    measured: float
    demand: float | None
    unit: str
    note: str = ""

    @property
    def met(self) -> str:
        """``met``, ``not met``, or nothing where nothing is demanded."""
        if self.demand is None:
            return ""
        return "met" if self.measured <= self.demand else "not met"
