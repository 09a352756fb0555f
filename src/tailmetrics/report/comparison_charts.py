"""Drawings of a comparison: the values of the runs, their differences, and the tail against all labels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tailmetrics.report.breakdowns import UNSEEN
from tailmetrics.report.charts import (
    Chart,
    Mark,
    Place,
    Scale,
    Shade,
    Tick,
    axis_of,
    bar_ticks,
    clipped,
    run_look,
    scale_from_zero,
)
from tailmetrics.report.comparison_data import UNEQUAL, ComparisonData
from tailmetrics.report.formatting import number, short_name, signed

if TYPE_CHECKING:
    from tailmetrics.significance.comparing import Comparison

WIDER = 2
"""An interval of rows that all agree is cut off if it makes the drawing more than this many times wider."""
LINE_HEIGHT = 22
"""Height of a line in a drawing of differences, in pixels."""
NEAR = (0.04, 0.055)
"""Letters of a scatter that are nearer than this, across and up, stand beside each other."""


def runs_chart(report: ComparisonData, metric: str, keys: Mapping[str, str], axis: str, caption: str) -> Chart:
    """Return the drawing of one metric by bucket or by group, with a line, or dots, for each run.

    Args:
        report: The comparison.
        metric: The metric.
        keys: The key of each bucket or group.
        axis: What the horizontal axis shows, such as ``"bucket, head to tail"``.
        caption: Text that says what the values are.
    """
    values = []
    for key in keys.values():
        values += list(report.values[key].values())
    scale = Scale(0.0, 1.0)
    if any(math.isfinite(value) for value in values):
        scale = scale_from_zero(values, values)

    marks = []
    for place, run in enumerate(report.runs):
        marks += _run_marks(report, run, place, keys, scale, are_connected=axis.startswith("bucket"))
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
    report: ComparisonData, run: str, place: int, keys: Mapping[str, str], scale: Scale, are_connected: bool
) -> list[Mark]:
    """Return a dot for each value of a run, and a line through those of buckets that training showed."""
    colour, shape = run_look(place)
    dots, points = [], []
    for column, (name, key) in enumerate(keys.items()):
        value = report.values[key].get(run, math.nan)
        if math.isfinite(value):
            point = ((column + 0.5) / len(keys), scale.share(value))
            dots.append(Mark("dot", [point], colour, shape, text=f"{run}: {name} {number(value)}"))
            if name != UNSEEN:
                points.append(point)
    if not are_connected:
        return dots
    return [Mark("line", points, colour), *dots]


def difference_charts(report: ComparisonData, keys: Mapping[str, str], title: str, gutter: int) -> list[Chart]:
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
        for name, key in keys.items():
            comparison = report.against(key, run)
            if comparison is not None and math.isfinite(comparison.difference):
                comparisons[name] = comparison
        if comparisons:
            charts.append(_difference_chart(report, run, run_look(place)[0], comparisons, keys, title, gutter))
    return charts


def _difference_chart(
    report: ComparisonData,
    run: str,
    colour: Shade,
    comparisons: Mapping[str, Comparison],
    keys: Mapping[str, str],
    title: str,
    gutter: int,
) -> Chart:
    scale = _difference_scale(list(comparisons.values()))
    zero = scale.share(0.0)
    marks = [Mark("line", [(zero, 0.0), (zero, 1.0)], style="thin")]
    ticks = []
    for line, (name, key) in enumerate(keys.items()):
        height = 1 - (line + 0.5) / len(keys)
        mark = UNEQUAL if key in report.unequal_lists else ""
        ticks.append(Tick(height, (f"{name}{mark}",)))
        if name in comparisons:
            marks += _difference_marks(name, comparisons[name], scale, height, colour)
    return Chart(
        f"{run} minus {report.runs[0]}",
        marks,
        f"{title}, {run} minus {report.runs[0]}",
        caption=f"{title} · filled: significant; lines: confidence intervals of each difference alone",
        across=scale.ticks("{:+g}"),
        up=ticks,
        grid=False,
        height=LINE_HEIGHT * len(keys),
        gutter=gutter,
    )


def _difference_scale(comparisons: Sequence[Comparison]) -> Scale:
    """Return the scale of differences and their intervals.

    If two runs agree in every row, the interval of their difference may be so wide that it would hide the others: it
    then ends in an arrow at the edge.
    """
    ends = [0.0, *(comparison.difference for comparison in comparisons)]
    for comparison in comparisons:
        if not comparison.interval.agrees:
            ends += comparison.interval.ends
    all_ends = list(ends)
    for comparison in comparisons:
        all_ends += comparison.interval.ends

    width = max(ends) - min(ends)
    if not width or max(all_ends) - min(all_ends) <= WIDER * width:
        ends = all_ends
    margin = 0.04 * (max(ends) - min(ends) or 1.0)
    return Scale(min(ends) - margin, max(ends) + margin)


def _difference_marks(name: str, comparison: Comparison, scale: Scale, height: float, colour: Shade) -> list[Mark]:
    """Return the interval of a difference, arrows where it leaves the drawing, and a dot at the difference."""
    marks = []
    interval = comparison.interval
    text = f"{name} {signed(comparison.difference)}"
    if interval.ends:
        lower, upper = clipped(scale.share(interval.low)), clipped(scale.share(interval.high))
        marks.append(Mark("line", [(lower, height), (upper, height)], colour))
        text += f" ({signed(interval.low)} to {signed(interval.high)})"
        if interval.low < scale.low:
            marks.append(Mark("text", [(0.0, height)], colour, style="middle", text="◂"))
        if interval.high > scale.high:
            marks.append(Mark("text", [(1.0, height)], colour, style="middle", text="▸"))

    if comparison.significant:
        text += ", significant"
    elif not math.isnan(comparison.least_difference):
        text += f", {number(comparison.least_difference)} would be shown"
    place = (clipped(scale.share(comparison.difference)), height)
    marks.append(Mark("dot", [place], colour, "circle", filled=comparison.significant, text=text))
    return marks


def scatter_charts(report: ComparisonData) -> list[Chart]:
    """Return drawings with a dot per run: its value over all labels (x), and in the rarest measured bucket (y)."""
    charts = []
    for metric, keys in report.by_bucket.items():
        across = report.over_all.get(metric, "")
        measured = []
        for bucket, key in keys.items():
            if bucket != UNSEEN and any(math.isfinite(value) for value in report.values[key].values()):
                measured.append(key)
        if across not in report.values or not measured:
            continue

        pairs = {}
        for run in report.runs:
            pair = (report.values[across].get(run, math.nan), report.values[measured[-1]].get(run, math.nan))
            if math.isfinite(pair[0]) and math.isfinite(pair[1]):
                pairs[run] = pair
        if pairs:
            charts.append(_scatter(report, pairs, across, measured[-1]))
    return charts


def _scatter(report: ComparisonData, pairs: Mapping[str, tuple[float, float]], across: str, up: str) -> Chart:
    x_axis = axis_of([x for x, _ in pairs.values()])
    y_axis = axis_of([y for _, y in pairs.values()])
    marks: list[Mark] = []
    letter_places: list[Place] = []
    outside = []
    for run, (x, y) in pairs.items():
        shares = (x_axis.share(x), y_axis.share(y))
        place = (clipped(shares[0]), clipped(shares[1]))
        text = f"{run}: {number(x)} over all labels, {number(y)} in {up}"
        if place != shares:
            outside.append(text)
        colour, shape = run_look(report.runs.index(run))
        marks.append(Mark("dot", [place], colour, shape, filled=place == shares, text=text))
        marks.append(_letter(report.letter(run), place, letter_places, colour))
        letter_places.append(place)

    caption = f"against {across}: up and to the right is better in head and tail, unless less is better"
    if outside:
        caption += f" · hollow, at the edge: far outside, {'; '.join(outside)}"
    return Chart(
        up,
        marks,
        f"{up} against {across}",
        caption=caption,
        across=x_axis.ticks(),
        up=y_axis.ticks(),
        names=(across, ""),
        height=220,
        gutter=46,
        in_picture=False,
    )


def _letter(letter: str, place: Place, others: Sequence[Place], colour: Shade) -> Mark:
    """Return the letter of a run beside its dot, farther away where letters of other runs stand."""
    number_near = 0
    for x, y in others:
        if abs(place[0] - x) < NEAR[0] and abs(place[1] - y) < NEAR[1]:
            number_near += 1
    space = "\N{NO-BREAK SPACE}" * 3 * number_near
    if place[0] > 0.6:
        return Mark("text", [place], colour, style="left", text=letter + space)
    return Mark("text", [place], colour, style="right", text=space + letter)
