"""The picture of a report: bars from head to tail."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from tailmetrics.report._palette import shade
from tailmetrics.report.formatting import brief, rounded, short_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tailmetrics.report.report import Report


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
    characters = max(sum(len(short_name(name)) + 1 for name in values) for values in metrics.values())
    wide = min(max(7.5, 0.06 * characters), 40)
    figure = Figure(figsize=(wide * columns, 3.4 * lines), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False)
    for place, (metric, values) in zip(axes.flat, metrics.items(), strict=False):
        _bars(place, metric, values, report)
    for place in axes.flat[len(metrics) :]:
        place.set_visible(False)
    figure.suptitle(_literal(report.title), x=0.01, ha="left", fontweight="bold")
    return figure


def _bars(axes: Axes, metric: str, values: dict[str, float], report: Report) -> None:
    names = list(values)
    known = {row.name: row for row in report.buckets}
    heights = [value if math.isfinite(value) else 0.0 for value in values.values()]
    colours = [shade(place, len(names), name).light for place, name in enumerate(names)]
    bars = axes.bar(range(len(names)), heights, color=colours, width=0.8)
    axes.bar_label(bars, labels=[brief(value) for value in values.values()], fontsize=7, padding=1)
    ticks = [f"{short_name(name)}\n{rounded(known[name].labels)}\n{rounded(known[name].positives)}" for name in names]
    axes.set_xticks(range(len(names)), map(_literal, ticks), fontsize=7)
    axes.set_xlabel("bucket, head to tail · labels · positives", fontsize=7)
    direction = " (lower is better)" if report.less_is_better(metric) else ""
    axes.set_title(_literal(metric) + direction, fontsize=9, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="y", labelsize=7)
    axes.margins(y=0.12)


def _literal(text: str) -> str:
    r"""Return text that matplotlib does not take for a formula: with ``\$`` for ``$``."""
    return text.replace("$", r"\$")
