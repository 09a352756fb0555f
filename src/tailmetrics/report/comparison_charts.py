"""Drawings of a comparison: the values of the runs, and their differences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from tailmetrics.report.breakdowns import UNSEEN
from tailmetrics.report.charts import (
    Chart,
    Mark,
    Scale,
    Shade,
    Tick,
    bar_ticks,
    run_look,
    scale_from_zero,
)
from tailmetrics.report.comparison_data import ComparisonData
from tailmetrics.report.formatting import number, number_above_zero, short_name, signed

if TYPE_CHECKING:
    from tailmetrics.significance.comparing import Comparison

BUCKET_AXIS, GROUP_AXIS = "bucket, head to tail", "group of rows"
LINE_HEIGHT = 22
"""Height of a line in a drawing of differences, in pixels."""


def runs_chart(
    report: ComparisonData,
    metric: str,
    keys: Mapping[str, str],
    axis: str,
    caption: str,
) -> Chart:
    """Return the drawing of one metric by bucket or by group, with marks for each run.

    Values by bucket are connected by a line; values by group are dots.

    Args:
        report: The comparison.
        metric: The metric.
        keys: The key of each bucket or group.
        axis: What the horizontal axis shows, :data:`BUCKET_AXIS` or :data:`GROUP_AXIS`.
        caption: Text that says what the values are.
    """
    values = []
    for key in keys.values():
        values += list(report.values[key].values())
    scale = scale_from_zero(values, values)

    marks = []
    for place, run in enumerate(report.runs):
        marks += _run_marks(
            report, run, place, keys, scale, are_connected=axis == BUCKET_AXIS
        )
    return Chart(
        metric,
        marks,
        f"{metric} by {axis}",
        caption=caption,
        across=bar_ticks([(short_name(name),) for name in keys]),
        up=scale.ticks(),
        names=(axis, ""),
        height=150,
        gutter=46,
    )


def _run_marks(
    report: ComparisonData,
    run: str,
    place: int,
    keys: Mapping[str, str],
    scale: Scale,
    are_connected: bool,
) -> list[Mark]:
    """Return a dot for each value of a run, and a line through the buckets.

    The line leaves out the bucket that training never showed.
    """
    colour, shape = run_look(place)
    dots, points = [], []
    for column, (name, key) in enumerate(keys.items()):
        value = report.value(key, run)
        if not math.isfinite(value):
            continue
        point = ((column + 0.5) / len(keys), scale.share(value))
        text = f"{run}: {name} {number(value, decimals=report.decimals(key))}"
        dots.append(Mark("dot", [point], colour, shape, text=text))
        if are_connected and name != UNSEEN:
            points.append(point)
    if not points:
        return dots
    return [Mark("line", points, colour), *dots]


def difference_charts(
    report: ComparisonData, keys: Mapping[str, str], title: str, gutter: int
) -> list[Chart]:
    """Return a drawing of the differences from the baseline for each other run.

    Args:
        report: The comparison.
        keys: The key of each line, by the name of the line.
        title: What the lines are of.
        gutter: Space for the names of the lines, in pixels.
    """
    charts = []
    for place, run in enumerate(report.runs[1:], 1):
        comparisons = {}
        for name, comparison in report.differences(keys, run).items():
            if math.isfinite(comparison.difference):
                comparisons[name] = comparison
        if not comparisons:
            continue

        scale = _difference_scale(comparisons.values())
        zero = scale.share(0.0)
        marks = [Mark("line", [(zero, 0.0), (zero, 1.0)], style="thin")]
        ticks = []
        for line, (name, key) in enumerate(keys.items()):
            height = 1 - (line + 0.5) / len(keys)
            ticks.append(Tick(height, (f"{name}{report.unequal_mark(key)}",)))
            if name in comparisons:
                marks += _difference_marks(
                    name, comparisons[name], scale, height, run_look(place)[0]
                )
        charts.append(
            Chart(
                f"{run} minus {report.runs[0]}",
                marks,
                f"{title}, {run} minus {report.runs[0]}",
                caption=(
                    f"{title} · filled: significant; lines: confidence intervals of "
                    "each difference alone"
                ),
                across=scale.ticks("{:+g}"),
                up=ticks,
                grid=False,
                height=LINE_HEIGHT * len(keys),
                gutter=gutter,
            )
        )
    return charts


def _difference_scale(comparisons: Iterable[Comparison]) -> Scale:
    """Return the scale of differences and of the intervals that are drawn."""
    ends = [0.0]
    for comparison in comparisons:
        ends += [comparison.difference, *_drawn_ends(comparison)]
    margin = 0.04 * (max(ends) - min(ends) or 1.0)
    return Scale(min(ends) - margin, max(ends) + margin)


def _drawn_ends(comparison: Comparison) -> tuple[float, ...]:
    """Return the ends of the interval; none if two runs agree in every row.

    Such an interval says how many other rows may differ: it may be so wide that it
    would hide the others.
    """
    return () if comparison.interval.agrees else comparison.interval.ends


def _difference_marks(
    name: str, comparison: Comparison, scale: Scale, height: float, colour: Shade
) -> list[Mark]:
    """Return the interval of a difference, and a dot at the difference."""
    marks = []
    ends = _drawn_ends(comparison)
    if ends:
        marks.append(Mark("line", [(scale.share(end), height) for end in ends], colour))

    decimals = comparison.decimals
    text = f"{name} {signed(comparison.difference, decimals)}"
    if comparison.interval.ends:
        text += (
            " "
            f"({' to '.join(signed(end, decimals) for end in comparison.interval.ends)})"
        )
    if comparison.significant:
        text += ", significant"
    elif not math.isnan(comparison.least_difference):
        text += f", {number_above_zero(comparison.least_difference)} would be shown"
    place = (scale.share(comparison.difference), height)
    marks.append(
        Mark("dot", [place], colour, "circle", filled=comparison.significant, text=text)
    )
    return marks
