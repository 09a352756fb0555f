"""The picture of a report: bars from head to tail, and for groups of rows a grid of groups and buckets."""

from __future__ import annotations

import math
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from tailmetrics.report._palette import shade
from tailmetrics.report._scale import scale_of
from tailmetrics.report.formatting import brief_number, rounded, short_name
from tailmetrics.report.tables import tables
from tailmetrics.report.wording import caption, what_buckets_are

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tailmetrics.report.report import Report
    from tailmetrics.report.tables import Table

HEIGHT = 3.7
"""Inches of a panel."""
LETTER = 0.062
"""Inches of a letter of a caption."""


def write_figure(report: Report, path: Path) -> bool:
    """Write the bars as an image; return False where there is nothing by bucket to show."""
    if not report.by_bucket:
        return False
    figure = head_to_tail_figure(report)
    figure.savefig(path, dpi=120)
    return True


def head_to_tail_figure(report: Report) -> Figure:
    """Return one panel of bars per metric, with the number of labels and of positives under each bucket.

    Panels of groups of rows and buckets stand below, if there are groups.
    """
    # Figure without pyplot: no window system, and no figure kept alive
    from matplotlib.figure import Figure

    metrics = report.by_bucket
    grids = [table for table in tables(report) if table.name == "grid"]
    panels = len(metrics) + len(grids)
    columns = min(2, panels)
    lines = math.ceil(panels / columns)
    characters = max(sum(len(short_name(name)) + 1 for name in values) for values in metrics.values())
    wide = min(max(7.5, 0.06 * characters), 40)
    figure = Figure(figsize=(wide * columns, HEIGHT * lines + 0.6), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False)
    for place, (metric, values) in zip(axes.flat, metrics.items(), strict=False):
        _bars(place, metric, values, report)
    for place, grid in zip(axes.flat[len(metrics) :], grids, strict=False):
        _grid(place, grid)
    for place in axes.flat[panels:]:
        place.set_visible(False)
    width = int(wide * columns / LETTER)
    figure.suptitle(_literal(report.title), x=0.01, ha="left", fontweight="bold")
    figure.supxlabel(_literal(fill(what_buckets_are(report.buckets), width)), x=0.01, ha="left", fontsize=7)
    return figure


def _bars(axes: Axes, metric: str, values: dict[str, float], report: Report) -> None:
    names = list(values)
    known = {row.name: row for row in report.buckets}
    heights = [value if math.isfinite(value) else 0.0 for value in values.values()]
    colours = [shade(place, len(names), name).light for place, name in enumerate(names)]
    bars = axes.bar(range(len(names)), heights, color=colours, width=0.8, yerr=_errors(report, metric, values))
    place = metric in report.places
    axes.bar_label(
        bars, labels=[brief_number(value, place) for value in values.values()], fontsize=7, padding=1, zorder=5,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.4},
    )  # fmt: skip
    ticks = [f"{short_name(name)}\n{rounded(known[name].labels)}\n{rounded(known[name].positives)}" for name in names]
    axes.set_xticks(range(len(names)), map(_literal, ticks), fontsize=7)
    axes.set_xlabel("bucket, head to tail · labels · positives", fontsize=7)
    if scale_of(report, metric).logarithmic:
        axes.set_yscale("symlog", linthresh=1)
    _lines(axes, metric, names, report)
    direction = " (lower is better)" if report.less_is_better(metric) else ""
    axes.set_title(_literal(metric) + direction, fontsize=9, loc="left", pad=18)
    axes.annotate(
        _literal(caption(report, metric)), (0, 1), (0, 5), "axes fraction", textcoords="offset points", fontsize=7
    )
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="y", labelsize=7)
    axes.margins(y=0.12)


def _lines(axes: Axes, metric: str, names: list[str], report: Report) -> None:
    """Draw the value over all labels as a line across, and the fair share of each bucket as a mark."""
    whole = report.value_over_all(metric)
    if whole is not None and math.isfinite(whole):
        axes.axhline(whole, color="0.35", linestyle=(0, (5, 4)), linewidth=1)
        text = f"all {brief_number(whole, metric in report.places).removeprefix('0')}"
        axes.annotate(
            text, (1, whole), (3, 0), ("axes fraction", "data"), textcoords="offset points", va="center", fontsize=7
        )
    if metric in report.shares and report.positives:
        positives = {row.name: row.positives / report.positives for row in report.buckets}
        fair = [positives[name] for name in names]
        places = range(len(names))
        axes.hlines(fair, [at - 0.4 for at in places], [at + 0.4 for at in places], colors="0.15", linewidth=1.5)
        axes.annotate("marks: the bucket's share of the positives", (1, 1), (0, 5), "axes fraction",
                      textcoords="offset points", ha="right", fontsize=7)  # fmt: skip


def _errors(report: Report, metric: str, values: dict[str, float]) -> list[list[float]] | None:
    """Return how far the interval of each bar reaches down and up; None where there is none."""
    found = [report.intervals.get(f"{metric}/{name}") for name in values]
    if not any(found):
        return None
    known = [None if one is None or math.isnan(one.low) else one for one in found]
    return [
        [0.0 if one is None else max(0.0, value - one.low) for one, value in zip(known, values.values(), strict=True)],
        [0.0 if one is None else max(0.0, one.high - value) for one, value in zip(known, values.values(), strict=True)],
    ]


def _grid(axes: Axes, grid: Table) -> None:
    """Draw a grid of groups and buckets, darker where the value is higher."""
    from matplotlib.colors import LinearSegmentedColormap

    tint = LinearSegmentedColormap.from_list("tint", ["#ffffff", "#8fbccb"])
    shares = [[math.nan if cell is None else cell for cell in line] for line in grid.heat]
    axes.imshow(shares, aspect="auto", cmap=tint, vmin=0, vmax=1)
    for line, cells in enumerate(grid.lines):
        for column, cell in enumerate(cells[grid.fixed :]):
            axes.text(column, line, cell.removeprefix("0"), ha="center", va="center", fontsize=7)
    axes.set_xticks(range(len(grid.heat[0])), [_literal(short_name(name)) for name in grid.header[grid.fixed :]])
    axes.set_yticks(range(len(grid.lines)), [_literal(cells[0]) for cells in grid.lines])
    axes.tick_params(labelsize=7, length=0)
    axes.spines[:].set_visible(False)
    axes.set_title(_literal(grid.title), fontsize=9, loc="left", pad=18)
    said = grid.caption.partition(". ")[0]
    axes.annotate(_literal(said), (0, 1), (0, 5), "axes fraction", textcoords="offset points", fontsize=7)


def _literal(text: str) -> str:
    r"""Return text that matplotlib does not take for a formula: with ``\$`` for ``$``."""
    return text.replace("$", r"\$")
