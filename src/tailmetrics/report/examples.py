"""Rows of an evaluation as examples: what is relevant, where it stands, and what the row shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class ExampleLabel:
    """One label of an example.

    Attributes:
        label: Its id.
        name: Empty where labels are numbers.
        bucket: Empty without buckets.
        rank: Its place, from 1; None where it is not retrieved or was cut off.
        hit: Whether it is relevant and shown.
    """

    label: int
    name: str
    bucket: str
    rank: int | None
    hit: bool


@dataclass(frozen=True)
class Example:
    """One row.

    Attributes:
        bucket: The bucket that it is an example of; empty where there is none or one.
        row: Its number; None where rows have none.
        name: Empty where rows are numbers.
        missed: The label for which it was chosen: relevant, and not shown.
        relevant: Relevant labels by rank, at most twelve.
        num_relevant: How many there are.
        shown: The list, best first.
    """

    bucket: str
    row: int | None
    name: str
    missed: int
    relevant: Sequence[ExampleLabel]
    num_relevant: int
    shown: Sequence[ExampleLabel]

    @property
    def told(self) -> str:
        """The row by name or number."""
        return self.name or ("" if self.row is None else f"row {self.row:,}")
