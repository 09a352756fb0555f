"""One confidence interval."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Interval:
    """A number with the range of values that the rows are compatible with.

    Attributes:
        value: The mean, ratio of sums or median, or a difference of two.
        low: Lower end; NaN where there is no interval, as ``method`` says.
        high: Upper end; NaN where there is no interval.
        n: Rows that count.
        confidence: Share of samples whose interval is to hold the true value.
        method: How it was found, or ``"none: …"`` and why there is none, such as ``"none: fewer than 10 rows"``.
        clusters: Clusters that have a row that counts; None where each row stands alone.
    """

    value: float
    low: float
    high: float
    n: int
    confidence: float
    method: str
    clusters: int | None = None
