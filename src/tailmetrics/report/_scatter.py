"""Accuracy against the tail: one point per run, the value over all labels across, the rarest seen bucket up."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailmetrics.report._lines import MARKS
from tailmetrics.report._palette import Shade, run_shade
from tailmetrics.report._scale import Scale
from tailmetrics.report.formatting import brief, shown

if TYPE_CHECKING:
    from tailmetrics.report.comparison import ComparisonReport

SIDE = 220
"""Pixels up."""
NEAR = (4.0, 12.0)
"""Percent across and pixels up in which two letters touch."""
RIGHT = 60
"""Percent across from which letters stand left of their points."""


@dataclass(frozen=True)
class Place:
    """One run: ``across`` in percent, ``down`` in pixels."""

    letter: str
    mark: str
    shade: Shade
    across: float
    down: float
    told: str


@dataclass(frozen=True)
class Scatter:
    """All runs of one metric; ``across`` and ``up`` name what is drawn, with both ends of each axis."""

    across: str
    up: str
    places: list[Place]
    across_ends: tuple[str, str]
    up_ends: tuple[str, str]
    told: str


def scatters_of(report: ComparisonReport) -> list[Scatter]:
    """Return a drawing for each metric by bucket that has a value over all labels."""
    found = []
    for metric, keys in report.by_bucket.items():
        whole = report.over_all.get(metric)
        seen = [name for name in keys if name != "unseen"]
        if whole in report.values and seen:
            drawn = _scatter(report, whole, keys[seen[-1]])
            found += [] if drawn is None else [drawn]
    return found


def _scatter(report: ComparisonReport, across: str, up: str) -> Scatter | None:
    pairs = {
        run: (report.values[across].get(run, math.nan), report.values[up].get(run, math.nan)) for run in report.runs
    }
    known = {run: pair for run, pair in pairs.items() if all(map(math.isfinite, pair))}
    if not known:
        return None
    scales = [_with_margin([pair[side] for pair in known.values()]) for side in (0, 1)]
    places: list[Place] = []
    for run, (x, y) in known.items():
        place = report.runs.index(run)
        at = round(100 * scales[0].share(x), 2), round(SIDE * (1 - scales[1].share(y)), 1)
        told = f"{run}: {shown(x)} over all labels, {shown(y)} in {up}"
        places.append(
            Place(_free(report.letter(run), at, places), MARKS[place % len(MARKS)], run_shade(place), *at, told)
        )
    ends = [(brief(scale.low), brief(scale.high)) for scale in scales]
    return Scatter(across, up, places, ends[0], ends[1], "; ".join(place.told for place in places))


def _free(letter: str, at: tuple[float, float], places: list[Place]) -> str:
    """Return a letter, moved aside by a blank for each run whose letter stands there already."""
    near = sum(abs(at[0] - one.across) < NEAR[0] and abs(at[1] - one.down) < NEAR[1] for one in places)
    return letter + "\N{NO-BREAK SPACE}" * (2 * near) if at[0] > RIGHT else "\N{NO-BREAK SPACE}" * (2 * near) + letter


def _with_margin(values: list[float]) -> Scale:
    """Return the ends of an axis; 0 is the least where no value is below."""
    low, high = min(values), max(values)
    margin = 0.15 * (high - low) or 0.1 * abs(high) or 0.1
    return Scale(max(0.0, low - margin) if low >= 0 else low - margin, high + margin, False)
