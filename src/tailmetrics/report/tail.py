"""The table of head against tail: the most frequent and the rarest measured bucket, and summaries of all buckets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailmetrics.report.breakdowns import ALL, UNSEEN
from tailmetrics.report.document import Section, Table
from tailmetrics.report.formatting import sentences, short_name, with_interval
from tailmetrics.report.records import SUMMARIES, Record

if TYPE_CHECKING:
    from tailmetrics.report.report import Report

MEANINGS = {
    "spread": "spread: standard deviation over mean of the buckets seen in training, 0 where all are equal",
    "adjusted_gap": "adjusted gap: the gap of (value - chance) / (attainable - chance)",
}
BELOW_CHANCE = "an adjusted gap is above 1 where the tail is below chance"


def ends_of(report: Report, metric: str) -> list[Record]:
    """Return the records of the most frequent and of the rarest bucket that was measured; one, or none, if few were."""
    measured = []
    for record in report.bucket_records(metric):
        if record.is_measured and record.bucket != UNSEEN:
            measured.append(record)
    if len(measured) < 2:
        return measured
    return [measured[0], measured[-1]]


def tail_section(report: Report) -> Section:
    """Return the table of head against tail, with the gap, the spread and the adjusted gap."""
    metrics = [metric for metric in report.metrics_by_bucket if report.record(metric, summary="gap") is not None]
    ends = {metric: ends_of(report, metric) for metric in metrics}
    pairs = {(records[0].bucket, records[1].bucket) for records in ends.values() if len(records) == 2}
    is_same = len(pairs) == 1
    head, tail = pairs.pop() if is_same else ("head", "tail")
    summaries = [what for what in SUMMARIES if any(report.record(metric, summary=what) for metric in metrics)]

    table = Table(["metric", ALL, head, tail, *(what.replace("_", " ") for what in summaries)])
    for metric, records in ends.items():
        cells = ["–", "–"]
        if len(records) == 2:
            cells = [report.text(record, interval=False) for record in records]
        if len(records) == 2 and not is_same:
            cells = [f"{cell} ({short_name(record.bucket)})" for cell, record in zip(cells, records, strict=True)]
        summed = [summary_text(report, metric, what) for what in summaries]
        table.lines.append([metric, report.text(report.whole(metric), interval=False), *cells, *summed])

    gap = f"gap: {head} minus {tail}"
    if not is_same:
        gap += ", the most frequent and the rarest bucket that was measured, in brackets"
    meanings = [MEANINGS[what] for what in summaries if what in MEANINGS]
    adjusted = [report.record(metric, summary="adjusted_gap") for metric in metrics]
    is_beyond = any(record is not None and record.value > 1 for record in adjusted)
    caption = sentences(report.rows_in_words, "; ".join([gap, *meanings]), BELOW_CHANCE if is_beyond else "")
    return Section("tail", "Head against tail", caption).with_table(table)


def summary_text(report: Report, metric: str, what: str) -> str:
    """Return a summary of the buckets of a metric with its interval; the gap between two places is a place, too."""
    record = report.record(metric, summary=what)
    if record is None:
        return "–"
    is_place = report.facts(metric).is_place and what == "gap"
    return with_interval(record.value, record.interval, is_place)
