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
    """Return a value with its interval behind it, where there is one: ± where both sides are equally long as shown.

    >>> from tailmetrics.significance import Interval
    >>> with_interval(0.5, Interval(0.5, 0.41, 0.59, 90, 0.95, "t")), with_interval(
    ...     0.0, Interval(0.0, 0.0, 0.168, 20, 0.95, "Wilson")
    ... )
    ('0.5000 ±.0900', '0.0000 [.0000, .1680]')
    """
    text = number(value, place)
    if interval is None or math.isnan(interval.low):
        return text
    below, above = number(value - interval.low, place), number(interval.high - value, place)
    if below == above:
        return f"{text} ±{_without_zero(above)}"
    return f"{text} [{_without_zero(number(interval.low, place))}, {_without_zero(number(interval.high, place))}]"


def _without_zero(text: str) -> str:
    return text[1:] if text.startswith("0.") else text


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
