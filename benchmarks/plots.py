"""Results as figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.tables import Lines, is_peer

MOST_ROOM = 100.0
"""Where bars end, for measurements that are next to nothing."""


def ratios(demanded: Lines, competed: Lines, path: Path) -> None:
    """Draw the peers' times relative to ours, and measurements relative to demands; left of the line is worse."""
    asked = [line for line in demanded if line["demand"]]
    others = [line for line in competed if is_peer(line)]
    height = 1.5 + 0.19 * max(len(asked), len(others), 1)
    figure = Figure(figsize=(17, height), layout="constrained")
    left, right = figure.subplots(1, 2)
    names = [f"{line['who']} · {line['workload']} · {line['task']}" for line in others]
    _bars(left, names, [line["to_ours"] for line in others], "time relative to tailmetrics (beyond 1: slower)")
    names = [f"{line['step']} · {line['case']} · {line['unit']}" for line in asked]
    room = [line["demand"] / max(line["measured"], line["demand"] / MOST_ROOM) for line in asked]
    _bars(right, names, room, "demand relative to measurement (beyond 1: met)")
    figure.savefig(path, dpi=110)


def _bars(axes: Axes, names: list[str], values: list[float], label: str) -> None:
    places = range(len(values), 0, -1)
    colours = ["tab:blue" if value >= 1 else "tab:red" for value in values]
    axes.barh(places, [value - 1 for value in values], left=1, color=colours)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_yticks(places, names, fontsize=7)
    axes.set_xlabel(label)
    axes.margins(y=0.01)


def growth(lines: Lines, path: Path) -> None:
    """Draw time and memory against each size."""
    axes_names = list(dict.fromkeys(line["axis"] for line in lines))
    figure = Figure(figsize=(3.2 * max(1, len(axes_names)), 5), layout="constrained")
    grid = figure.subplots(2, max(1, len(axes_names)), squeeze=False)
    for column, name in enumerate(axes_names):
        of_axis = [line for line in lines if line["axis"] == name]
        for row, (key, label, scale) in enumerate((("seconds", "ms", 1e3), ("megabytes", "extra MiB", 1.0))):
            _curve(grid[row, column], of_axis, key, scale)
            grid[row, column].set_ylabel(label)
        grid[1, column].set_xlabel(name)
    figure.savefig(path, dpi=110)


def _curve(axes: Axes, lines: list[dict[str, Any]], key: str, scale: float) -> None:
    axes.plot([line["size"] for line in lines], [line[key] * scale for line in lines], marker="o")
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
