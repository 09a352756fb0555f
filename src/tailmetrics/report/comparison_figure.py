"""The picture of a comparison: all runs by bucket, and the differences with their intervals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tailmetrics.report._lines import reach
from tailmetrics.report._palette import run_shade
from tailmetrics.report._scale import far_apart
from tailmetrics.report.formatting import short_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tailmetrics.report.comparison import ComparisonReport

MARKS = "os^D"


def comparison_figure(report: ComparisonReport) -> Figure:
    """Return a line of two panels for each metric by bucket, and one of the differences over all labels."""
    # Figure without pyplot: no window system, and no figure kept alive
    from matplotlib.figure import Figure

    metrics = report.by_bucket
    overall = report.alike
    count = len(metrics) + bool(overall)
    figure = Figure(figsize=(12, 3.4 * count + 0.6), layout="constrained")
    axes = figure.subplots(count, 2, squeeze=False)
    for (left, right), (metric, keys) in zip(axes, metrics.items(), strict=False):
        _values(left, report, metric, keys)
        _differences(right, report, {short_name(name): key for name, key in keys.items()}, metric)
    for place, keys in zip(axes[-1], overall, strict=False):
        _differences(place, report, keys, "over all labels")
    for place in axes[-1][len(overall) :] if overall else ():
        place.set_visible(False)
    figure.suptitle(_literal(report.title), x=0.01, ha="left", fontweight="bold")
    figure.supxlabel(
        f"Differences with {report.comparisons[0].interval.confidence:.0%} intervals; filled: significant at "
        f"{report.level:g}, corrected ({report.correction}).",
        x=0.01,
        ha="left",
        fontsize=7,
    )
    return figure


def _values(axes: Axes, report: ComparisonReport, metric: str, keys: dict[str, str]) -> None:
    drawn = []
    for place, run in enumerate(report.runs):
        values = [report.values[key].get(run, math.nan) for key in keys.values()]
        drawn += [value for value in values if math.isfinite(value)]
        colour, mark = run_shade(place).light, MARKS[place % len(MARKS)]
        axes.plot(range(len(keys)), values, color=colour, marker=mark, markersize=5, label=_literal(run))
    axes.set_xticks(range(len(keys)), [_literal(short_name(name)) for name in keys])
    axes.set_xlabel("bucket, head to tail", fontsize=7)
    if far_apart(drawn):
        axes.set_yscale("symlog", linthresh=1)
    _titled(axes, metric, report.captions.get(metric, ""))
    axes.legend(fontsize=7, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


def _differences(axes: Axes, report: ComparisonReport, keys: dict[str, str], what: str) -> None:
    others = report.runs[1:]
    step = 0.6 / max(1, len(others))
    for number, run in enumerate(others):
        colour = run_shade(number + 1).light
        for line, key in enumerate(keys.values()):
            one = report.against(key, run)
            if one is None or math.isnan(one.difference):
                continue
            at = line + (number - (len(others) - 1) / 2) * step
            if not math.isnan(one.interval.low):
                axes.plot([one.interval.low, one.interval.high], [at, at], color=colour, linewidth=1.3)
            face = colour if one.significant else "white"
            axes.plot(
                one.difference, at, MARKS[(number + 1) % len(MARKS)], color=colour, markerfacecolor=face, markersize=5
            )
    low, high = reach([one for one in (report.against(key, run) for key in keys.values() for run in others) if one])
    margin = 0.05 * (high - low or 1.0)
    axes.set_xlim(low - margin, high + margin)
    axes.axvline(0, color="0.35", linewidth=0.8)
    axes.set_yticks(range(len(keys)), [_literal(name) for name in keys])
    axes.set_ylim(len(keys) - 0.5, -0.5)
    _titled(axes, what, f"minus {report.baseline}")
    axes.spines[["top", "right", "left"]].set_visible(False)


def _titled(axes: Axes, title: str, caption: str) -> None:
    axes.set_title(_literal(title), fontsize=9, loc="left", pad=18)
    axes.annotate(_literal(caption), (0, 1), (0, 5), "axes fraction", textcoords="offset points", fontsize=7)
    axes.tick_params(labelsize=7)


def _literal(text: str) -> str:
    return text.replace("$", r"\$")
