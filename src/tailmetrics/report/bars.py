"""Drawings of one metric as bars: a bar for each bucket of labels, or for each group of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tailmetrics.report.charts import (
    Chart,
    Mark,
    Scale,
    Shade,
    bar_ticks,
    free_above,
    needed_width,
    scale_from_zero,
    shade,
)
from tailmetrics.report.data import ReportData
from tailmetrics.report.formatting import brief, counted, number, rounded, short_name, without_zero
from tailmetrics.report.records import ORDERS, REFERENCES, Record

EXPLANATIONS = {
    "chance": "dotted line: chance",
    "popularity": "hollow mark: popularity",
    "attainable": "cap: the most that a list can reach there",
    "worst": "bracket: from the worst to the best order of equal scores",
}
"""The marks beside a bar, as the caption explains them."""
CAP = 0.03
"""The height of the ends of a cap, as a share of the drawing."""


@dataclass(frozen=True)
class Bar:
    """One bar: its value, and the texts around it.

    Attributes:
        record: The value.
        name: The name of the bucket or group.
        texts: The texts below the bar, one below the other.
        counts: What the bucket or group holds, in words.
        shade: The colour.
        fair_share: The share that the value would have if it followed the positives; None for other metrics.
    """

    record: Record
    name: str
    texts: tuple[str, ...]
    counts: str
    shade: Shade
    fair_share: float | None = None


class Axis(NamedTuple):
    """What the bars of a drawing stand for: the order in words, the name of the axis, and the name of the whole."""

    order: str
    name: str
    whole: str


BUCKETS = Axis("from head to tail", "bucket, head to tail · labels · positives", "all labels")
GROUPS = Axis("by group of rows", "group · rows", "all rows")


class Sides(NamedTuple):
    """The left edge, the middle and the right edge of a bar."""

    left: float
    middle: float
    right: float


def bars_by_bucket(report: ReportData, metric: str) -> Chart:
    """Return the bars of a metric from head to tail, with intervals, references and the bounds of ties."""
    facts = report.facts(metric)
    whole = report.whole(metric)
    has_fair_shares = facts.is_additive and whole is None and bool(report.positives)

    records = report.bucket_records(metric)
    bars = []
    for place, record in enumerate(records):
        bucket = report.bucket(record.bucket)
        fair_share = None
        if has_fair_shares:
            fair_share = bucket.positives / (report.positives or 1)
        bars.append(
            Bar(
                record,
                bucket.name,
                (rounded(bucket.labels), rounded(bucket.positives), short_name(bucket.name)),
                f"{counted(bucket.labels, 'label')}, {counted(bucket.positives, 'positive')}",
                shade(place, len(records), bucket.name),
                fair_share,
            )
        )

    if facts.is_additive:
        whole = None  # a line at the sum of all bars, far above each, would say nothing about one bar
    return _chart(report, metric, bars, whole, BUCKETS, facts.caption)


def bars_by_group(report: ReportData, metric: str) -> Chart:
    """Return the bars of a metric over all labels, one for each group of rows."""
    bars = []
    for group in report.row_groups:
        record = report.record(metric, row_group=group.name)
        if record is not None:
            rows = 0 if group.rows is None else group.rows
            texts = (rounded(rows), short_name(group.name))
            bars.append(Bar(record, group.name, texts, counted(rows, "row"), shade(0, 1, "")))
    return _chart(report, metric, bars, report.record(metric), GROUPS, "over all labels")


def _chart(
    report: ReportData, metric: str, bars: Sequence[Bar], whole: Record | None, axis: Axis, caption: str
) -> Chart:
    facts = report.facts(metric)
    scale = _scale(bars, whole)
    marks: list[Mark] = []

    lines: list[Mark] = []
    if whole is not None and math.isfinite(whole.value):
        height = scale.share(whole.value)
        text = f"{axis.whole} {report.number(whole)}"
        lines = [Mark("line", [(0, height), (1, height)], style="dashed", text=text)]
    marks += lines

    values = []
    for place, bar in enumerate(bars):
        value = without_zero(brief(bar.record.value, facts.is_place))
        values.append((value, *bar.texts))
        marks += _bar_marks(bar, _sides(place, len(bars)), scale, lines, value, facts.is_place)
    zero = scale.share(0.0)
    marks.append(Mark("line", [(0, zero), (1, zero)], style="thin"))

    direction = "lower is better" if facts.higher_is_better is False else ""
    opening = f"{metric}, {direction}, {axis.order}" if direction else f"{metric} {axis.order}"
    return Chart(
        metric,
        marks,
        opening,
        aside=direction,
        caption=_caption(report, bars, whole, axis, scale, caption),
        across=bar_ticks([(bar.texts[-1], *bar.texts[:-1]) for bar in bars]),
        names=(axis.name, ""),
        min_width=needed_width(values),
    )


def _scale(bars: Sequence[Bar], whole: Record | None) -> Scale:
    """Return the scale of the heights, which shows every mark."""
    heights = [] if whole is None else [whole.value]
    for bar in bars:
        heights.append(bar.record.value)
        heights += [bar.record.reference(name) for name in (*REFERENCES, *ORDERS)]
        if bar.record.interval is not None:
            heights += [bar.record.interval.low, bar.record.interval.high]
        if bar.fair_share is not None:
            heights.append(bar.fair_share)
    return scale_from_zero(heights, [bar.record.value for bar in bars])


def _sides(place: int, number_of_bars: int) -> Sides:
    return Sides(*((place + part) / number_of_bars for part in (0.12, 0.5, 0.88)))


def _bar_marks(bar: Bar, sides: Sides, scale: Scale, lines: Sequence[Mark], value: str, is_place: bool) -> list[Mark]:
    """Return a bar, the marks beside it, and the number above it."""
    zero = scale.share(0.0)
    height = scale.share(bar.record.value) if math.isfinite(bar.record.value) else zero

    interval_marks, interval_text = _interval_marks(bar.record, sides, scale, is_place)
    reference_marks, reference_text = _reference_marks(bar.record, sides, scale, is_place)
    tie_marks, tie_text = _tie_marks(bar.record, sides, scale, is_place)
    beside = [*interval_marks, *reference_marks, *tie_marks]
    if bar.fair_share is not None:
        fair = scale.share(bar.fair_share)
        beside.append(Mark("line", [(sides.left, fair), (sides.right, fair)]))

    shown = number(bar.record.value, is_place) if bar.record.is_measured else "no value"
    text = f"{bar.name} {shown}{interval_text}{reference_text}{tie_text}, {bar.counts}"
    if bar.record.count is not None:
        text += f"; over {bar.record.count:,.10g} {bar.record.count_of}"

    top = free_above(max(zero, height), [*beside, *lines])
    return [
        Mark("bar", [(sides.left, zero), (sides.right, height)], bar.shade, text=text),
        *beside,
        Mark("text", [(sides.middle, top)], bar.shade, style="above", text=value),
    ]


def _interval_marks(record: Record, sides: Sides, scale: Scale, is_place: bool) -> tuple[list[Mark], str]:
    interval = record.interval
    if interval is None or math.isnan(interval.low):
        return [], ""
    line = Mark("line", [(sides.middle, scale.share(interval.low)), (sides.middle, scale.share(interval.high))])
    return [line], f" ({number(interval.low, is_place)} to {number(interval.high, is_place)})"


def _reference_marks(record: Record, sides: Sides, scale: Scale, is_place: bool) -> tuple[list[Mark], str]:
    marks, text = [], ""
    for name in REFERENCES:
        value = record.reference(name)
        if not math.isfinite(value):
            continue
        height = scale.share(value)
        text += f", {name} {number(value, is_place)}"
        if name == "popularity":
            marks.append(Mark("dot", [(sides.middle, height)], style="diamond", filled=False))
        elif name == "chance":
            marks.append(Mark("line", [(sides.left, height), (sides.right, height)], style="dotted"))
        else:
            cap = [
                (sides.left, height - CAP),
                (sides.left, height),
                (sides.right, height),
                (sides.right, height - CAP),
            ]
            marks.append(Mark("line", cap, style="thin"))
    return marks, text


def _tie_marks(record: Record, sides: Sides, scale: Scale, is_place: bool) -> tuple[list[Mark], str]:
    """Return a bracket from the worst to the best order of equal scores, with a ring at the mean of all orders."""
    worst, expected, best = (record.reference(name) for name in ORDERS)
    if not worst < best:
        return [], ""

    width = sides.right - sides.left
    across, reach = sides.left + width / 6, width / 15
    low, high = scale.share(worst), scale.share(best)
    bracket = [
        (across - reach, low),
        (across + reach, low),
        (across, low),
        (across, high),
        (across - reach, high),
        (across + reach, high),
    ]
    marks = [Mark("line", bracket, style="thin")]
    if math.isfinite(expected):
        marks.append(Mark("dot", [(across, scale.share(expected))], style="circle", filled=False))
    ends = f"between {number(worst, is_place)} and {number(best, is_place)}"
    return marks, f", {ends} by the order of equal scores"


def _caption(
    report: ReportData, bars: Sequence[Bar], whole: Record | None, axis: Axis, scale: Scale, caption: str
) -> str:
    parts = [caption]
    if whole is not None:
        parts.append(f"dashed line, {axis.whole}: {report.number(whole)}")
    parts.append(report.rows_in_words)
    for name, text in EXPLANATIONS.items():
        if any(getattr(bar.record, name) is not None for bar in bars):
            parts.append(text)
    if any(bar.fair_share is not None for bar in bars):
        parts.append("marks: the bucket's share of the positives")
    if scale.kind != "linear":
        parts.append("logarithmic heights")
    return " · ".join(part for part in parts if part)
