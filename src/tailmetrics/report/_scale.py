"""How values become heights: in proportion, or by their logarithm where a few would hide the others."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailmetrics.report.report import Report

FAR_APART = 50
"""Largest over median value of a metric from which heights are logarithmic."""


@dataclass(frozen=True)
class Scale:
    """The heights of the values of one metric, as shares of the room from ``low`` to ``high``."""

    low: float
    high: float
    logarithmic: bool

    def share(self, value: float) -> float:
        """Return where a value is between the lower end (0) and the upper end (1) of the room."""
        low, high, here = (self._height(one) for one in (self.low, self.high, value))
        return (here - low) / (high - low or 1.0)

    def _height(self, value: float) -> float:
        return math.log1p(value) if self.logarithmic else value


def scale_of(report: Report, metric: str) -> Scale:
    """Return the scale of a figure of one metric, in which its intervals and the value over all labels fit too."""
    drawn = [value for value in report.by_bucket[metric].values() if math.isfinite(value)]
    more = [report.value_over_all(metric)]
    for name in report.by_bucket[metric]:
        interval = report.intervals.get(f"{metric}/{name}")
        more += [] if interval is None else [interval.low, interval.high]
    if metric in report.shares and report.positives:
        more += [row.positives / report.positives for row in report.buckets]
    ends = [0.0, *drawn, *(value for value in more if value is not None and math.isfinite(value))]
    return Scale(min(ends), max(ends), far_apart(drawn))


def far_apart(values: list[float]) -> bool:
    """Whether a few values are so large that the others could not be seen beside them."""
    ordered = sorted(values)
    middle = ordered[len(ordered) // 2] if ordered else 0.0
    return bool(ordered) and ordered[0] >= 0 and middle > 0 and ordered[-1] > FAR_APART * middle
