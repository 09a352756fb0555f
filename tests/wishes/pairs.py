"""Areas and depths by looking at every pair of a relevant and an irrelevant label, in exact fractions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction


def share_in_order(better: Sequence[float], worse: Sequence[float]) -> Fraction:
    """Share of the pairs whose first score is the higher one; equal scores count one half."""
    halves = sum(2 * (one > other) + (one == other) for one in better for other in worse)
    return Fraction(halves, 2 * len(better) * len(worse))


def area(scores: Sequence[float], relevant: set[int], inside: set[int], scope: str = "bucket") -> Fraction | None:
    """AUC of one row: the bucket's relevant labels against its irrelevant ones, or against all; None without a pair."""
    others = inside if scope == "bucket" else set(range(len(scores)))
    better = [scores[label] for label in sorted(relevant & inside)]
    worse = [scores[label] for label in sorted(others - relevant)]
    return share_in_order(better, worse) if better and worse else None


def mean(values: Sequence[Fraction | None]) -> float:
    """Mean of what is there; NaN of nothing."""
    counted = [value for value in values if value is not None]
    return float(sum(counted, Fraction(0)) / len(counted)) if counted else math.nan


def cover_depth(scores: Sequence[float], relevant: set[int], inside: set[int], scope: str = "bucket") -> int:
    """How many labels score at least as much as the worst relevant one; 0 where there is none."""
    if not relevant & inside:
        return 0
    worst = min(scores[label] for label in relevant & inside)
    others = inside if scope == "bucket" else range(len(scores))
    return sum(scores[label] >= worst for label in others)


def loss(scores: Sequence[float], relevant: set[int], inside: set[int], scope: str = "bucket") -> Fraction:
    """Share of pairs in the wrong order, equal scores included; 0 where there is no pair."""
    others = inside if scope == "bucket" else set(range(len(scores)))
    better = [scores[label] for label in relevant & inside]
    worse = [scores[label] for label in others - relevant]
    wrong = sum(other >= one for one in better for other in worse)
    return Fraction(wrong, len(better) * len(worse)) if better and worse else Fraction(0)


def label_areas(
    rows: Sequence[Sequence[float]], relevant: Sequence[set[int]], inside: set[int]
) -> dict[int, Fraction | None]:
    """AUC of each label over the rows; None for a label without a positive or without a negative."""
    found = {}
    for label in sorted(inside):
        better = [row[label] for row, own in zip(rows, relevant, strict=True) if label in own]
        worse = [row[label] for row, own in zip(rows, relevant, strict=True) if label not in own]
        found[label] = share_in_order(better, worse) if better and worse else None
    return found


def label_area(rows: Sequence[Sequence[float]], relevant: Sequence[set[int]], inside: set[int], average: str) -> float:
    """Macro: mean over labels with both classes; weighted: by their support; micro: all cells as one label."""
    if average == "micro":
        better = [row[label] for row, own in zip(rows, relevant, strict=True) for label in inside & own]
        worse = [row[label] for row, own in zip(rows, relevant, strict=True) for label in inside - own]
        return float(share_in_order(better, worse)) if better and worse else math.nan
    areas = {label: value for label, value in label_areas(rows, relevant, inside).items() if value is not None}
    weights = {label: sum(label in own for own in relevant) if average == "weighted" else 1 for label in areas}
    total = sum(weights.values())
    return float(sum((areas[label] * weights[label] for label in areas), Fraction(0)) / total) if total else math.nan
