"""The picture of a report: bars from head to tail."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from tailmetrics.report.report import Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEAD, TAIL, UNSEEN = "#1f6f8b", "#f2a65a", "#9a9a9a"


def write_figure(report: Report, path: Path) -> bool:
    """Write the bars as an image; return False where there is nothing by bucket to show."""
    if not report.by_bucket:
        return False
    figure = head_to_tail_figure(report)
    figure.savefig(path, dpi=120)
    return True


def head_to_tail_figure(report: Report) -> Figure:
    """Return one panel of bars per metric, with the number of labels and of positives under each bucket."""
    # Figure without pyplot: no window system, and no figure kept alive
    from matplotlib.figure import Figure

    metrics = report.by_bucket
    columns = min(2, len(metrics))
    lines = math.ceil(len(metrics) / columns)
    figure = Figure(figsize=(7.5 * columns, 3.4 * lines), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False)
    for place, (metric, values) in zip(axes.flat, metrics.items(), strict=False):
        _bars(place, metric, values, report)
    for place in axes.flat[len(metrics) :]:
        place.set_visible(False)
    figure.suptitle(report.title, x=0.01, ha="left", fontweight="bold")
    return figure


def _bars(axes: Axes, metric: str, values: dict[str, float], report: Report) -> None:
    names = list(values)
    known = {row.name: row for row in report.buckets}
    heights = [value if math.isfinite(value) else 0.0 for value in values.values()]
    bars = axes.bar(range(len(names)), heights, color=[_colour(place, names) for place in range(len(names))], width=0.8)
    labels = ["–" if math.isnan(value) else f"{value:.3g}" for value in values.values()]
    axes.bar_label(bars, labels=labels, fontsize=7, padding=1)
    ticks = [
        f"{name.removeprefix('decile_')}\n{_short(known[name].labels)}\n{_short(known[name].positives)}"
        if name in known
        else name
        for name in names
    ]
    axes.set_xticks(range(len(names)), ticks, fontsize=7)
    axes.set_xlabel("bucket, head to tail · labels · positives", fontsize=7)
    axes.set_title(metric + (" (lower is better)" if _lower(metric, report) else ""), fontsize=9, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="y", labelsize=7)
    axes.margins(y=0.12)


def _lower(metric: str, report: Report) -> bool:
    return any(key.startswith(f"{metric}/") for key in report.lower_is_better)


def _colour(place: int, names: list[str]) -> tuple[float, float, float]:
    from matplotlib.colors import to_rgb

    if names[place] == "unseen":
        return to_rgb(UNSEEN)
    share = place / max(1, len(names) - 1)
    return tuple((1 - share) * a + share * b for a, b in zip(to_rgb(HEAD), to_rgb(TAIL), strict=True))  # type: ignore[return-value]


def _short(count: int) -> str:
    return f"{count / 1e6:.1f}M" if count >= 1e6 else f"{count / 1e3:.1f}k" if count >= 10_000 else str(count)
