"""The table of head against tail, with summaries of all buckets.

Head and tail are the most frequent and the rarest measured bucket.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

from tailmetrics.report.breakdowns import ALL, UNSEEN
from tailmetrics.report.data import ReportData
from tailmetrics.report.document import Section
from tailmetrics.report.formatting import sentences, short_name
from tailmetrics.report.records import NO_RECORD, SUMMARIES, Record

Item = TypeVar("Item")
MEANINGS = {
    "spread": (
        "spread: standard deviation over mean of the buckets seen in training, 0 "
        "where all are equal"
    ),
    "adjusted_gap": "adjusted gap: the gap of (value - chance) / (attainable - chance)",
}
BELOW_CHANCE = "an adjusted gap is above 1 where the tail is below chance"


def head_and_tail(report: ReportData, metric: str) -> list[Record]:
    """Return the records of the most frequent and the rarest measured bucket.

    There is one record, or none, if fewer buckets were measured.
    """
    measured = []
    for record in report.bucket_records(metric):
        if record.is_measured and record.bucket != UNSEEN:
            measured.append(record)
    return _first_and_last(measured)


def _adjusted_head_and_tail(report: ReportData, metric: str) -> list[str]:
    """Return the names of the buckets between which the adjusted gap is.

    They are the first and the last bucket in which lists can be above chance; one, or
    none, if there are fewer.
    """
    names = []
    for record in report.bucket_records(metric):
        room = record.reference("attainable") - record.reference("chance")
        if (
            record.is_measured
            and record.bucket != UNSEEN
            and math.isfinite(room)
            and room != 0
        ):
            names.append(record.bucket)
    return _first_and_last(names)


def _first_and_last(items: list[Item]) -> list[Item]:
    """Return the first and the last item, or the only one, or none."""
    if len(items) < 2:
        return items
    return [items[0], items[-1]]


def _other_gaps(report: ReportData, pairs: Mapping[str, Sequence[Record]]) -> str:
    """Return the sentence on adjusted gaps; empty if none needs it.

    It names the metrics whose adjusted gap is between other buckets than their gap.
    """
    texts = []
    for metric, pair in pairs.items():
        names = _adjusted_head_and_tail(report, metric)
        has_adjusted_gap = not math.isnan(
            report.record(metric, summary="adjusted_gap").value
        )
        if (
            has_adjusted_gap
            and len(names) == 2
            and names != [record.bucket for record in pair]
        ):
            texts.append(f"{names[0]} minus {names[1]} for {metric}")
    if not texts:
        return ""
    return (
        "where no list can be above chance, no value is adjusted: the adjusted gap "
        f"is {', '.join(texts)}"
    )


def _pairs_by_metric(report: ReportData) -> dict[str, list[Record]]:
    """Return the records of head and tail of each metric with a gap.

    The records have no values if fewer than two buckets were measured.
    """
    pairs = {}
    for metric in report.metrics_by_bucket:
        if report.record(metric, summary="gap").key:
            pair = head_and_tail(report, metric)
            pairs[metric] = pair if len(pair) == 2 else [NO_RECORD, NO_RECORD]
    return pairs


def tail_section(report: ReportData) -> Section:
    """Return the table of head against tail, with gap, spread and adjusted gap."""
    names = {record.summary for record in report.records if not record.row_group}
    summaries = [name for name in SUMMARIES if name in names]
    pairs = _pairs_by_metric(report)

    head, tail = "head", "tail"
    gap = (
        "gap: head minus tail, the most frequent and the rarest bucket that was "
        "measured, in brackets"
    )
    buckets = {(first.bucket, last.bucket) for first, last in pairs.values()} - {
        ("", "")
    }
    if len(buckets) == 1:
        head, tail = buckets.pop()
        gap = f"gap: {head} minus {tail}"

    lines = []
    for metric, (first, last) in pairs.items():
        cells = [
            metric,
            report.whole(metric).number,
            _bucket_cell(first, head),
            _bucket_cell(last, tail),
        ]
        cells += [report.record(metric, summary=name).text for name in summaries]
        lines.append(cells)

    meanings = [gap, *(MEANINGS[name] for name in summaries if name in MEANINGS)]
    below_chance = ""
    if any(report.record(metric, summary="adjusted_gap").value > 1 for metric in pairs):
        below_chance = BELOW_CHANCE
    caption = sentences(
        report.rows_in_words,
        "; ".join(meanings),
        _other_gaps(report, pairs),
        below_chance,
    )
    header = [
        "metric",
        ALL,
        head,
        tail,
        *(name.replace("_", " ") for name in summaries),
    ]
    return Section("tail", "Head against tail", caption, header=header, lines=lines)


def _bucket_cell(record: Record, column: str) -> str:
    """Return the value of head or tail, and its bucket unless the column names it."""
    if record.bucket in ("", column):
        return record.number
    return f"{record.number} ({short_name(record.bucket)})"
