"""Numbers, names and lines of a report as there is room for them in tables and under bars."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailmetrics.report.report import Report


def shown(value: float) -> str:
    """Return a value as a table shows it."""
    if math.isnan(value):
        return "–"
    return f"{value:.4f}" if abs(value) < 100 else f"{value:,.1f}"


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


def bucket_lines(report: Report, metrics: Iterable[str] | None = None) -> Iterator[list[str]]:
    """Yield the cells of each bucket, head first: name, labels, positives, values of ``metrics`` (None: of all)."""
    chosen = report.by_bucket if metrics is None else {metric: report.by_bucket[metric] for metric in metrics}
    for row in report.buckets:
        if any(row.name in values for values in chosen.values()):
            cells = (shown(values.get(row.name, math.nan)) for values in chosen.values())
            yield [row.name, f"{row.labels:,}", f"{row.positives:,}", *cells]
