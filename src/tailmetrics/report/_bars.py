"""The bars of one metric from head to tail, as places in a drawing as wide as its page."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from tailmetrics.report._palette import Shade, shade
from tailmetrics.report.formatting import brief, rounded, short_name, shown

if TYPE_CHECKING:
    from tailmetrics.report.report import BucketRow, Report

ABOVE, ROOM = 18, 112
"""Pixels above the highest bar, for its number, and pixels that bars may fill."""
CHARACTER, GAP = 6.2, 4.5
"""Pixels of a digit at the size of the numbers, with some reserve, and pixels between two of them."""


@dataclass(frozen=True)
class Bar:
    """One bar; ``left``, ``middle`` and ``width`` in percent of the drawing, ``top`` and ``height`` in pixels."""

    name: str
    left: float
    middle: float
    width: float
    top: float
    height: float
    label: str
    label_at: float
    ticks: tuple[str, ...]
    shade: Shade
    told: str


@dataclass(frozen=True)
class Bars:
    """The bars of one metric.

    Attributes:
        metric: Its key.
        less_is_better: Whether less is better.
        bars: Head first.
        baseline: Where 0 is, in pixels from above.
        min_width: Pixels that the numbers need side by side; a narrower page scrolls the drawing.
        told: The drawing in words.
    """

    metric: str
    less_is_better: bool
    bars: list[Bar]
    baseline: float
    min_width: int
    told: str


def all_bars(report: Report) -> list[Bars]:
    """Return the bars of each metric that has any."""
    return [_bars(report, metric, values) for metric, values in report.by_bucket.items()]


def _bars(report: Report, metric: str, values: dict[str, float]) -> Bars:
    rows = [row for row in report.buckets if row.name in values]
    heights = [values[row.name] if math.isfinite(values[row.name]) else 0.0 for row in rows]
    top, bottom = max(0.0, *heights), min(0.0, *heights)
    scale = ROOM / (top - bottom or 1.0)
    baseline = ABOVE + top * scale
    bars = [
        _bar(row, values[row.name], height * scale, baseline, (place, len(rows)))
        for place, (row, height) in enumerate(zip(rows, heights, strict=True))
    ]
    less = report.less_is_better(metric)
    told = f"{metric}{', lower is better,' if less else ''} from head to tail: " + "; ".join(
        f"{row.name} {_said(values[row.name])}" for row in rows
    )
    return Bars(metric, less, bars, round(baseline, 1), _min_width(bars), told)


def _bar(row: BucketRow, value: float, height: float, baseline: float, place: tuple[int, int]) -> Bar:
    number, count = place
    top = min(baseline, baseline - height)
    return Bar(
        name=row.name,
        left=round(100 * (number + 0.12) / count, 3),
        middle=round(100 * (number + 0.5) / count, 3),
        width=round(76 / count, 3),
        top=round(top, 1),
        height=round(abs(height), 1),
        label=_above(value),
        label_at=round(top - 5, 1),
        ticks=(short_name(row.name), rounded(row.labels), rounded(row.positives)),
        shade=shade(number, count, row.name),
        told=f"{row.name}: {_said(value)}, {row.labels:,} labels, {row.positives:,} positives",
    )


def _above(value: float) -> str:
    """Return a value without its leading 0, so that eleven of them fit side by side on a phone."""
    text = brief(value)
    return text[1:] if text.startswith("0.") else text


def _said(value: float) -> str:
    return "no value" if math.isnan(value) else shown(value)


def _min_width(bars: list[Bar]) -> int:
    """Return the width at which neither numbers nor names of neighbours touch."""
    lines = zip(*((bar.label, *bar.ticks) for bar in bars), strict=True)
    needed = max((gap for line in lines for gap in _distances(line)), default=0.0)
    return math.ceil(needed * len(bars))


def _distances(line: tuple[str, ...]) -> Iterator[float]:
    """Yield how far the middles of neighbours must lie apart."""
    for left, right in pairwise(line):
        yield CHARACTER * (len(left) + len(right)) / 2 + GAP
