"""Values of several runs from head to tail, and differences with intervals, as places in drawings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailmetrics.report._palette import Shade, run_shade
from tailmetrics.report._scale import Scale, far_apart
from tailmetrics.report.formatting import brief, short_name, shown

if TYPE_CHECKING:
    from tailmetrics.report.comparison import ComparisonReport
    from tailmetrics.significance.comparison import Comparison

ABOVE, ROOM = 12, 150
"""Pixels above the highest point, and pixels that points may fill."""
MARKS = (
    "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0",
    "M-3.6,-3.6h7.2v7.2h-7.2z",
    "M0,-4.6L4.4,3.4H-4.4z",
    "M0,-5L5,0L0,5L-5,0z",
)
"""Shapes of points, so that runs are not told apart by colour alone."""
LINE = 22
"""Pixels of a line of differences."""


@dataclass(frozen=True)
class Point:
    """One value: ``across`` in percent, ``down`` in pixels."""

    across: float
    down: float
    told: str


@dataclass(frozen=True)
class Series:
    """The values of one run; ``line`` has them in a square of 1000 by 1000."""

    run: str
    mark: str
    shade: Shade
    points: list[Point]
    line: str


@dataclass(frozen=True)
class Lines:
    """All runs by bucket, for one metric."""

    metric: str
    caption: str
    series: list[Series]
    names: list[tuple[str, float]]
    ends: list[tuple[str, float]]
    height: int
    told: str


@dataclass(frozen=True)
class Span:
    """One difference with its interval, in percent from the left; ``down`` in pixels."""

    name: str
    at: float | None
    low: float | None
    high: float | None
    down: float
    text: str
    significant: bool


@dataclass(frozen=True)
class Spans:
    """Differences of one run and the baseline, one below the other."""

    title: str
    shade: Shade
    spans: list[Span]
    zero: float
    ends: list[tuple[str, float]]
    height: int
    told: str


def lines_of(report: ComparisonReport, metric: str) -> Lines:
    """Return the drawing of the values of all runs of one metric."""
    keys = report.by_bucket[metric]
    values = [report.values[key].get(run, math.nan) for key in keys.values() for run in report.runs]
    known = [value for value in values if math.isfinite(value)]
    scale = Scale(min(0.0, *known), max(0.0, *known), far_apart(known)) if known else Scale(0.0, 1.0, False)
    across = [100 * (place + 0.5) / len(keys) for place in range(len(keys))]
    series = [_series(report, keys, run, scale, across) for run in report.runs]
    names = [(short_name(name), at) for name, at in zip(keys, across, strict=True)]
    ends = [(brief(value), _down(scale, value)) for value in (scale.low, scale.high)]
    told = f"{metric} from head to tail: " + ". ".join(
        f"{one.run}: {'; '.join(point.told for point in one.points)}" for one in series
    )
    return Lines(metric, report.captions.get(metric, ""), series, names, ends, ABOVE + ROOM + 10, told)


def _series(report: ComparisonReport, keys: dict[str, str], run: str, scale: Scale, across: list[float]) -> Series:
    place = report.runs.index(run)
    points = []
    for (name, key), at in zip(keys.items(), across, strict=True):
        value = report.values[key].get(run, math.nan)
        if math.isfinite(value):
            points.append(Point(round(at, 3), _down(scale, value), f"{name} {shown(value)}"))
    line = " ".join(f"{point.across * 10:g},{1000 * (point.down - ABOVE) / ROOM:g}" for point in points)
    return Series(run, MARKS[place % len(MARKS)], run_shade(place), points, line)


def _down(scale: Scale, value: float) -> float:
    return round(ABOVE + ROOM * (1 - scale.share(value)), 1)


def spans_of(report: ComparisonReport, keys: dict[str, str], what: str) -> list[Spans]:
    """Return a drawing of the differences from the baseline for each other run.

    Args:
        report: The comparison.
        keys: Keys by what they are called in the drawing.
        what: What is drawn, in words.
    """
    found = {run: {name: report.against(key, run) for name, key in keys.items()} for run in report.runs[1:]}
    drawn = []
    for run, of_run in found.items():
        if not any(of_run.values()):
            continue
        low, high = reach([one for one in of_run.values() if one is not None])
        margin = 0.04 * (high - low or 1.0)
        scale = Scale(low - margin, high + margin, False)
        spans = [_span(scale, name, one, place) for place, (name, one) in enumerate(of_run.items())]
        title = f"{run} minus {report.baseline}"
        told = f"{what}, {title}: " + "; ".join(f"{span.name} {span.text}" for span in spans)
        axis = [(f"{value:+.3g}", _across(scale, value)) for value in (low, high) if value]
        shade = run_shade(report.runs.index(run))
        drawn.append(Spans(title, shade, spans, _across(scale, 0.0), axis, LINE * len(spans) + 24, told))
    return drawn


def reach(found: Sequence[Comparison]) -> tuple[float, float]:
    """Return the ends of an axis of differences.

    Intervals of runs that agree in every row leave room for what was never seen; they are cut off, for they would hide
    the others.
    """
    ends = [0.0]
    for one in found:
        ends.append(one.difference)
        if "agree" not in one.interval.method:
            ends += [one.interval.low, one.interval.high]
    known = [end for end in ends if math.isfinite(end)]
    return min(known), max(known)


def _span(scale: Scale, name: str, one: Comparison | None, place: int) -> Span:
    down = LINE * (place + 0.5)
    if one is None or math.isnan(one.difference):
        return Span(name, None, None, None, down, "no value", False)
    interval = one.interval
    has_ends = not math.isnan(interval.low)
    between = f" ({interval.low:+.4f} to {interval.high:+.4f})" if has_ends else ""
    return Span(
        name=name,
        at=_across(scale, one.difference),
        low=_across(scale, interval.low) if has_ends else None,
        high=_across(scale, interval.high) if has_ends else None,
        down=down,
        text=f"{one.difference:+.4f}{between}{', significant' if one.significant else ''}",
        significant=one.significant,
    )


def _across(scale: Scale, value: float) -> float:
    return round(min(100.0, max(0.0, 100 * scale.share(value))), 2)
