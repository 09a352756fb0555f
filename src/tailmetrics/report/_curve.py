"""The label-frequency curve, as places in a square of 1000 by 1000 that is stretched over a page."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tailmetrics.report._palette import Shade, shade
from tailmetrics.report.formatting import short_name

if TYPE_CHECKING:
    from tailmetrics.report.report import BucketRow, Report

POINTS = 200
"""Most points that are drawn of a curve of any length."""
SIDE = 1000
"""Units of the square."""
FLOOR = 0.7
"""The count at the lower edge: labels that occur once stand a little above it."""


@dataclass(frozen=True)
class Tick:
    """A number on an axis and its place, in percent from the left or from above."""

    label: str
    at: float


@dataclass(frozen=True)
class Stretch:
    """The part of a curve that one bucket's labels make up.

    Attributes:
        name: Of the bucket; empty where there is no room for it, or buckets do not follow the frequency.
        line: Points of the line.
        area: Points of the area below.
        middle: Where the name goes, in percent from the left and from above.
        shade: Its colour.
    """

    name: str
    line: str
    area: str
    middle: tuple[float, float]
    shade: Shade


@dataclass(frozen=True)
class Curve:
    """Training count by rank of frequency, both logarithmic."""

    stretches: list[Stretch]
    across: list[Tick]
    up: list[Tick]
    told: str


@dataclass(frozen=True)
class _Scales:
    """Where a rank and a count are in the square."""

    ranks: int
    largest: int

    def across(self, rank: int) -> float:
        return round(SIDE * math.log(rank) / math.log(self.ranks + 1), 1)

    def down(self, count: int) -> float:
        return round(SIDE * (1 - math.log(count / FLOOR) / math.log(self.largest * 1.2 / FLOOR)), 1)


def frequency_curve(report: Report) -> Curve | None:
    """Return the curve of the training counts; None where there are none."""
    if report.label_counts is None or not bool((report.label_counts > 0).any()):
        return None
    counts = report.label_counts.cpu().sort(descending=True).values
    seen = counts[counts > 0]
    scales = _Scales(len(seen), int(seen[0]))
    buckets = _contiguous(seen, [row for row in report.buckets if row.occurrences])
    edges = [1, *(1 + end for end in accumulate(row.labels for row in buckets))] if buckets else [1, len(seen) + 1]
    names = [row.name for row in buckets] or [""]
    ranks = _ranks(len(seen), POINTS - 2 * len(names))
    parts = zip(names, pairwise(edges), strict=True)
    return Curve(
        stretches=[
            _stretch(name, edge, ranks, seen, scales, shade(place, len(report.buckets), name))
            for place, (name, edge) in enumerate(parts)
        ],
        across=[Tick(label, scales.across(rank) / 10) for rank, label in _powers(len(seen)).items()],
        up=[Tick(label, scales.down(count) / 10) for count, label in _powers(int(seen[0])).items()],
        told=_told(seen, len(counts)),
    )


def _ranks(last: int, most: int) -> list[int]:
    """Return at most ``most`` ranks, evenly spaced in the logarithm."""
    return sorted({round(last ** (step / (most - 1))) for step in range(most)})


def _contiguous(seen: Tensor, rows: list[BucketRow]) -> list[BucketRow]:
    """Return the buckets if each holds labels of neighbouring ranks, as their occurrences tell; else none."""
    ends = list(accumulate(row.labels for row in rows))
    if not ends or ends[-1] != len(seen) or len(ends) > POINTS // 4:
        return []
    parts = torch.split(seen, [row.labels for row in rows])
    fits = all(int(part.sum()) == row.occurrences for part, row in zip(parts, rows, strict=True))
    return rows if fits else []


def _stretch(
    name: str, edge: tuple[int, int], ranks: Iterable[int], seen: Tensor, scales: _Scales, colour: Shade
) -> Stretch:
    start, end = edge
    drawn = [start, *(rank for rank in ranks if start < rank < end), end]
    points = [(scales.across(rank), scales.down(int(seen[min(rank, len(seen)) - 1]))) for rank in drawn]
    line = " ".join(f"{x:g},{y:g}" for x, y in points)
    left, right = points[0][0], points[-1][0]
    short = short_name(name)
    return Stretch(
        name=short if (right - left) / SIDE > 0.02 + 0.018 * len(short) else "",
        line=line,
        area=f"{left:g},{SIDE} {line} {right:g},{SIDE}",
        middle=(round((left + right) / 20, 2), round(_height((left + right) / 2, points) / 10, 2)),
        shade=colour,
    )


def _height(across: float, points: list[tuple[float, float]]) -> float:
    """Return where the line is at a place across."""
    (x0, y0), (x1, y1) = next(pair for pair in pairwise(points) if across <= pair[1][0])
    return y0 + (y1 - y0) * (across - x0) / (x1 - x0)


def _powers(last: int) -> dict[int, str]:
    """Return 1, 10, 100, 1k, … up to ``last``."""
    return {10**power: f"{10 ** (power % 3)}{' kMGT'[power // 3].strip()}" for power in range(len(str(last)))}


def _told(seen: Tensor, labels: int) -> str:
    half = int(torch.searchsorted(seen.cumsum(0), (int(seen.sum()) + 1) // 2)) + 1
    once = int((seen == 1).sum())
    never = labels - len(seen)
    parts = [
        f"{len(seen):,} labels occur {int(seen.sum()):,} times in training, the most frequent {int(seen[0]):,} times",
        f"the {half:,} most frequent make up half of that" if half > 1 else "it alone makes up half of that",
        f"{once:,} occur once" if once else "",
        f"{never:,} never" if never else "",
    ]
    return "; ".join(part for part in parts if part) + "."
