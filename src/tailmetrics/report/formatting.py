"""Numbers and names of a report as there is room for them in tables and under bars."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailmetrics.significance.interval import Interval


def shown(value: float) -> str:
    """Return a value as a table shows it."""
    if math.isnan(value):
        return "–"
    return f"{value:.4f}" if abs(value) < 100 else f"{value:,.1f}"


def number(value: float, place: bool = False) -> str:
    """Return a value as a table shows it; a place in a list without digits that say nothing.

    >>> number(2.0), number(2.0, place=True), number(5141.5, place=True)
    ('2.0000', '2', '5,141.5')
    """
    if place and math.isfinite(value):
        return f"{value:,.1f}".removesuffix(".0")
    return shown(value)


def with_interval(value: float, interval: Interval | None, place: bool = False) -> str:
    """Return a value with half the width of its interval behind it, where there is one."""
    text = number(value, place)
    if interval is None or math.isnan(interval.low):
        return text
    half = number((interval.high - interval.low) / 2, place)
    return f"{text} ±{half[1:] if half.startswith('0.') else half}"


def brief(value: float) -> str:
    """Return a value as there is room for it above a bar."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞" if value > 0 else "−∞"
    size = abs(value)
    if 0 < size < 0.0005:
        return f"{value:.0e}"
    if size < 1000:
        return f"{value:.{3 if size < 1 else 2 if size < 10 else 1 if size < 100 else 0}f}"
    return rounded(round(value))


def brief_number(value: float, place: bool = False) -> str:
    """Return a value as there is room for it above a bar; a place in a list without digits that say nothing."""
    return rounded(round(value)) if place and math.isfinite(value) and value == round(value) else brief(value)


def short_name(bucket: str) -> str:
    """Return a bucket's name as there is room for it under a bar: ``10`` for ``decile_10``."""
    name = bucket.removeprefix("decile_").removeprefix("quantile_")
    return name if len(name) <= 10 else f"{name[:9]}…"


def rounded(count: int) -> str:
    """Return a count as there is room for it under a bar."""
    for unit, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if abs(count) >= max(unit, 10_000):
            return f"{count / unit:.1f}".removesuffix(".0") + letter
    return str(count)
