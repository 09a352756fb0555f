"""The bars of one metric from head to tail, as places in a drawing as wide as its page."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from tailmetrics.report._palette import Shade, shade
from tailmetrics.report._scale import Scale, scale_of
from tailmetrics.report.formatting import brief_number, number, rounded, short_name
from tailmetrics.report.wording import caption

if TYPE_CHECKING:
    from tailmetrics.report.report import BucketRow, Report

ABOVE, ROOM = 18, 112
"""Pixels above the highest bar, for its number, and pixels that bars may fill."""
LETTERS = 15
"""Pixels that a number takes above a bar."""
CHARACTER, GAP = 6.2, 4.5
"""Pixels of a digit at the size of the numbers, with some reserve, and pixels between two of them."""


@dataclass(frozen=True)
class Bar:
    """One bar; ``left``, ``middle`` and ``width`` in percent of the drawing, ``top`` and ``height`` in pixels.

    ``whisker`` is the interval from above, ``fair`` the share that would be fair; None where there is none.
    """

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
    labels: int
    positives: int
    whisker: tuple[float, float] | None = None
    fair: float | None = None


@dataclass(frozen=True)
class Bars:
    """The bars of one metric.

    Attributes:
        metric: Its key.
        caption: What its values are of.
        less_is_better: Whether less is better.
        bars: Head first.
        baseline: Where 0 is, in pixels from above.
        whole: Where the value over all labels is; None where there is none.
        min_width: Pixels that the numbers need side by side; a narrower page scrolls the drawing.
        told: The drawing in words.
    """

    metric: str
    caption: str
    less_is_better: bool
    bars: list[Bar]
    baseline: float
    whole: float | None
    min_width: int
    told: str


@dataclass(frozen=True)
class _Drawing:
    """What all bars of one metric share."""

    report: Report
    metric: str
    scale: Scale
    count: int

    def at(self, value: float) -> float:
        """Return where a value is, in pixels from above."""
        return round(ABOVE + ROOM * (1 - self.scale.share(value)), 1)

    @property
    def is_place(self) -> bool:
        """Whether values are places in a list."""
        return self.metric in self.report.places

    def said(self, value: float) -> str:
        """Return a value in words."""
        return "no value" if math.isnan(value) else number(value, self.is_place)


def all_bars(report: Report) -> list[Bars]:
    """Return the bars of each metric that has any."""
    return [_bars(report, metric, values) for metric, values in report.by_bucket.items()]


def _bars(report: Report, metric: str, values: dict[str, float]) -> Bars:
    rows = [row for row in report.buckets if row.name in values]
    drawing = _Drawing(report, metric, scale_of(report, metric), len(rows))
    bars = [_bar(drawing, row, values[row.name], place) for place, row in enumerate(rows)]
    less, whole = report.less_is_better(metric), report.value_over_all(metric)
    told = f"{metric}{', lower is better,' if less else ''} from head to tail: " + "; ".join(bar.told for bar in bars)
    told += "" if whole is None else f"; all labels {drawing.said(whole)}"
    drawn = None if whole is None or not math.isfinite(whole) else drawing.at(whole)
    said = [caption(report, metric)]
    said += ["marks: the bucket's share of the positives"] if metric in report.shares else []
    said += ["logarithmic heights"] if drawing.scale.logarithmic else []
    text = " · ".join(part for part in said if part)
    return Bars(metric, text, less, bars, drawing.at(0.0), drawn, _min_width(bars), told)


def _bar(drawing: _Drawing, row: BucketRow, value: float, place: int) -> Bar:
    report, metric, count = drawing.report, drawing.metric, drawing.count
    baseline, end = drawing.at(0.0), drawing.at(value if math.isfinite(value) else 0.0)
    interval = report.intervals.get(f"{metric}/{row.name}")
    whisker = None
    if interval is not None and not math.isnan(interval.low):
        whisker = drawing.at(interval.high), drawing.at(interval.low)
    fair = None
    if metric in report.shares and report.positives:
        fair = drawing.at(row.positives / report.positives)
    top = min(baseline, end)
    between = f" ({drawing.said(interval.low)} to {drawing.said(interval.high)})" if interval and whisker else ""
    return Bar(
        name=row.name,
        left=round(100 * (place + 0.12) / count, 3),
        middle=round(100 * (place + 0.5) / count, 3),
        width=round(76 / count, 3),
        top=top,
        height=round(abs(baseline - end), 1),
        label=_above(value, drawing.is_place),
        label_at=round(_free(min(top, whisker[0] if whisker else top), fair) - 5, 1),
        ticks=(short_name(row.name), rounded(row.labels), rounded(row.positives)),
        shade=shade(place, count, row.name),
        told=f"{row.name} {drawing.said(value)}{between}",
        labels=row.labels,
        positives=row.positives,
        whisker=whisker,
        fair=fair,
    )


def _free(top: float, mark: float | None) -> float:
    """Return where a number may stand: above the mark of a fair share where that is in its way."""
    return mark if mark is not None and top - LETTERS < mark < top else top


def _above(value: float, place: bool) -> str:
    """Return a value without its leading 0, so that eleven of them fit side by side on a phone."""
    text = brief_number(value, place)
    return text[1:] if text.startswith("0.") else text


def _min_width(bars: list[Bar]) -> int:
    """Return the width at which neither numbers nor names of neighbours touch."""
    lines = zip(*((bar.label, *bar.ticks) for bar in bars), strict=True)
    needed = max((gap for line in lines for gap in _distances(line)), default=0.0)
    return math.ceil(needed * len(bars))


def _distances(line: tuple[str, ...]) -> Iterator[float]:
    """Yield how far the middles of neighbours must lie apart."""
    for left, right in pairwise(line):
        yield CHARACTER * (len(left) + len(right)) / 2 + GAP
