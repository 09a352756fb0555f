"""What a report counts beside its values: labels and positives of each bucket, rows of each group."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BucketRow:
    """One bucket: its name, labels, occurrences of them in training, and positives in what was evaluated."""

    name: str
    labels: int
    occurrences: int
    positives: int


@dataclass(frozen=True)
class GroupRow:
    """One group of rows: its name, and how many rows belong to it; None where that was not counted."""

    name: str
    rows: int | None = None
