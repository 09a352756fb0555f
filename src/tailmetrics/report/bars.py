"""Drawings of one metric as bars: one for each bucket of labels, or group of rows."""

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
from tailmetrics.report.formatting import counted, number, rounded, short_name
from tailmetrics.report.records import NO_RECORD, ORDERS, REFERENCES, Record

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
        texts: The texts below the bar, one below the other.
        counts: What the bucket or group holds, in words.
        shade: The colour.
        fair_share: The share that the value would have if it followed the positives;
            NaN for other metrics.
    """

    record: Record
    texts: tuple[str, ...]
    counts: str
    shade: Shade
    fair_share: float = math.nan


class Axis(NamedTuple):
    """The bars' order in words, the name of their axis, and the name of the whole."""

    order: str
    name: str
    whole: str


BUCKETS = Axis(
    "from head to tail", "bucket, head to tail · labels · positives", "all labels"
)
GROUPS = Axis("by group of rows", "group · rows", "all rows")


class Sides(NamedTuple):
    """The left edge, the middle and the right edge of a bar."""

    left: float
    middle: float
    right: float


WHOLE_WIDTH = Sides(0.0, 0.5, 1.0)


def bars_by_bucket(report: ReportData, metric: str) -> Chart:
    """Return the bars of a metric by bucket, from head to tail.

    They have intervals, references and the bounds of ties.
    """
    facts = report.facts(metric)
    whole = report.whole(metric)
    all_positives = 0
    if facts.is_additive and not whole.key:
        all_positives = report.positives or 0

    records = report.bucket_records(metric)
    bars = []
    for place, record in enumerate(records):
        bucket = report.bucket(record.bucket)
        fair_share = math.nan
        if all_positives:
            fair_share = bucket.positives / all_positives
        bars.append(
            Bar(
                record,
                (
                    rounded(bucket.labels),
                    rounded(bucket.positives),
                    short_name(bucket.name),
                ),
                (
                    f"{counted(bucket.labels, 'label')}, "
                    f"{counted(bucket.positives, 'positive')}"
                ),
                shade(place, len(records), bucket.name),
                fair_share,
            )
        )

    if facts.is_additive:
        # a line at the sum of all bars, far above each, would say nothing about one bar
        whole = NO_RECORD
    return _chart(report, metric, bars, whole, BUCKETS, facts.caption)


def bars_by_group(report: ReportData, metric: str) -> Chart:
    """Return the bars of a metric over all labels, one for each group of rows."""
    bars = []
    for record in report.group_records(metric):
        rows = report.group(record.row_group).rows or 0
        texts = (rounded(rows), short_name(record.row_group))
        bars.append(Bar(record, texts, counted(rows, "row"), shade(0, 1, "")))
    return _chart(
        report, metric, bars, report.record(metric), GROUPS, "over all labels"
    )


def _chart(
    report: ReportData,
    metric: str,
    bars: Sequence[Bar],
    whole: Record,
    axis: Axis,
    caption: str,
) -> Chart:
    facts = report.facts(metric)
    scale = _scale(bars, whole)
    lines = []
    if math.isfinite(whole.value):
        text = f"{axis.whole} {whole.number}"
        lines.append(
            _level(scale.share(whole.value), WHOLE_WIDTH, style="dashed", text=text)
        )

    marks = list(lines)
    for place, bar in enumerate(bars):
        left, middle, right = ((place + part) / len(bars) for part in (0.12, 0.5, 0.88))
        marks += _bar_marks(bar, Sides(left, middle, right), scale, lines)
    marks.append(_level(scale.share(0.0), WHOLE_WIDTH, style="thin"))

    direction = ""
    opening = f"{metric} {axis.order}"
    if facts.lower_is_better:
        direction = "lower is better"
        opening = f"{metric}, {direction}, {axis.order}"
    return Chart(
        metric,
        marks,
        opening,
        aside=direction,
        caption=_caption(report, bars, whole, axis, scale, caption),
        across=bar_ticks([(bar.texts[-1], *bar.texts[:-1]) for bar in bars]),
        names=(axis.name, ""),
        min_width=needed_width([(bar.record.short, *bar.texts) for bar in bars]),
    )


def _scale(bars: Sequence[Bar], whole: Record) -> Scale:
    """Return the scale of the heights, which shows every mark."""
    heights = [whole.value]
    for bar in bars:
        record = bar.record
        references = [record.reference(name) for name in (*REFERENCES, *ORDERS)]
        heights += [record.value, bar.fair_share, *record.ends, *references]
    return scale_from_zero(heights, [bar.record.value for bar in bars])


def _level(height: float, sides: Sides, style: str = "solid", text: str = "") -> Mark:
    """Return a horizontal line."""
    return Mark(
        "line", [(sides.left, height), (sides.right, height)], style=style, text=text
    )


def _bar_marks(
    bar: Bar, sides: Sides, scale: Scale, lines: Sequence[Mark]
) -> list[Mark]:
    """Return a bar, the marks beside it, and the number above it."""
    record = bar.record
    zero = scale.share(0.0)
    height = zero
    if math.isfinite(record.value):
        height = scale.share(record.value)

    side_marks = []
    if record.ends:
        side_marks.append(
            Mark("line", [(sides.middle, scale.share(end)) for end in record.ends])
        )
    side_marks += [
        *_reference_marks(record, sides, scale),
        *_tie_marks(record, sides, scale),
    ]
    if math.isfinite(bar.fair_share):
        side_marks.append(_level(scale.share(bar.fair_share), sides))

    top = free_above(max(zero, height), [*side_marks, *lines])
    return [
        Mark(
            "bar",
            [(sides.left, zero), (sides.right, height)],
            bar.shade,
            text=_in_words(bar),
        ),
        *side_marks,
        Mark("text", [(sides.middle, top)], bar.shade, text=record.short),
    ]


def _in_words(bar: Bar) -> str:
    """Return the numbers of a bar, for a reader who points at it or hears it."""
    record = bar.record
    number_text = "no value"
    if record.is_measured:
        number_text = record.number
    text = f"{record.bucket or record.row_group} {number_text}"
    if record.ends:
        text += f" ({' to '.join(_numbers(record, *record.shown_ends))})"
    for name in REFERENCES:
        if math.isfinite(record.reference(name)):
            text += f", {name} {number(record.reference(name), record.is_place)}"
    if record.depends_on_ties:
        ends = _numbers(record, record.reference("worst"), record.reference("best"))
        text += f", between {' and '.join(ends)} by the order of equal scores"
    text += f", {bar.counts}"
    if record.count_in_words:
        text += f"; over {record.count_in_words}"
    return text


def _numbers(record: Record, *values: float) -> list[str]:
    return [number(value, record.is_place, record.decimals) for value in values]


def _reference_marks(record: Record, sides: Sides, scale: Scale) -> list[Mark]:
    marks = []
    chance, popularity, attainable = map(record.reference, REFERENCES)
    if math.isfinite(chance):
        marks.append(_level(scale.share(chance), sides, style="dotted"))
    if math.isfinite(popularity):
        marks.append(
            Mark(
                "dot",
                [(sides.middle, scale.share(popularity))],
                style="diamond",
                filled=False,
            )
        )
    if math.isfinite(attainable):
        height = scale.share(attainable)
        below = height - CAP
        cap = [
            (sides.left, below),
            (sides.left, height),
            (sides.right, height),
            (sides.right, below),
        ]
        marks.append(Mark("line", cap, style="thin"))
    return marks


def _tie_marks(record: Record, sides: Sides, scale: Scale) -> list[Mark]:
    """Return a bracket from the worst to the best order of equal scores.

    A ring marks the mean of all orders.
    """
    if not record.depends_on_ties:
        return []

    width = sides.right - sides.left
    across, reach = sides.left + width / 6, width / 15
    low, high = (
        scale.share(record.reference("worst")),
        scale.share(record.reference("best")),
    )
    left, right = across - reach, across + reach
    bracket = [
        (left, low),
        (right, low),
        (across, low),
        (across, high),
        (left, high),
        (right, high),
    ]
    marks = [Mark("line", bracket, style="thin")]
    if math.isfinite(record.reference("expected")):
        ring = (across, scale.share(record.reference("expected")))
        marks.append(Mark("dot", [ring], style="circle", filled=False))
    return marks


def _caption(
    report: ReportData,
    bars: Sequence[Bar],
    whole: Record,
    axis: Axis,
    scale: Scale,
    caption: str,
) -> str:
    parts = [caption]
    if whole.key:
        parts.append(f"dashed line, {axis.whole}: {whole.number}")
    parts.append(report.rows_in_words)
    for name, text in EXPLANATIONS.items():
        if any(math.isfinite(bar.record.reference(name)) for bar in bars):
            parts.append(text)
    if any(math.isfinite(bar.fair_share) for bar in bars):
        parts.append("marks: the bucket's share of the positives")
    if scale.kind != "linear":
        parts.append("logarithmic heights")
    return " · ".join(part for part in parts if part)
