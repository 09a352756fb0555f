"""The table of head against tail: the most frequent and the rarest measured bucket, and summaries of all buckets."""

from __future__ import annotations

from collections.abc import Sequence

from tailmetrics.report.breakdowns import ALL, UNSEEN
from tailmetrics.report.data import ReportData
from tailmetrics.report.document import Section, Table
from tailmetrics.report.formatting import sentences, short_name, with_interval
from tailmetrics.report.records import SUMMARIES, Record

MEANINGS = {
    "spread": "spread: standard deviation over mean of the buckets seen in training, 0 where all are equal",
    "adjusted_gap": "adjusted gap: the gap of (value - chance) / (attainable - chance)",
}
BELOW_CHANCE = "an adjusted gap is above 1 where the tail is below chance"


def ends_of(report: ReportData, metric: str) -> list[Record]:
    """Return the records of the most frequent and of the rarest bucket that was measured; one, or none, if few were."""
    measured = []
    for record in report.bucket_records(metric):
        if record.is_measured and record.bucket != UNSEEN:
            measured.append(record)
    if len(measured) < 2:
        return measured
    return [measured[0], measured[-1]]


def tail_section(report: ReportData) -> Section:
    """Return the table of head against tail, with the gap, the spread and the adjusted gap."""
    metrics = [metric for metric in report.metrics_by_bucket if report.record(metric, summary="gap") is not None]
    summaries = [what for what in SUMMARIES if any(report.record(metric, summary=what) for metric in metrics)]
    pairs = {metric: ends_of(report, metric) for metric in metrics}
    names = {(ends[0].bucket, ends[1].bucket) for ends in pairs.values() if len(ends) == 2}
    head, tail = ("head", "tail") if len(names) != 1 else next(iter(names))
    differ = len(names) != 1

    table = Table(["metric", ALL, head, tail, *(what.replace("_", " ") for what in summaries)])
    for metric in metrics:
        whole = report.text(report.whole(metric), interval=False)
        summed = [summary_text(report, metric, what) for what in summaries]
        table.lines.append([metric, whole, *_end_cells(report, pairs[metric], differ), *summed])

    gap = f"gap: {head} minus {tail}"
    if differ:
        gap += ", the most frequent and the rarest bucket that was measured, in brackets"
    meanings = [MEANINGS[what] for what in summaries if what in MEANINGS]
    below_chance = BELOW_CHANCE if _is_below_chance(report, metrics) else ""
    caption = sentences(report.rows_in_words, "; ".join([gap, *meanings]), below_chance)
    return Section("tail", "Head against tail", caption).with_table(table)


def _end_cells(report: ReportData, ends: Sequence[Record], name_buckets: bool) -> list[str]:
    """Return the values of the most frequent and of the rarest measured bucket."""
    if len(ends) < 2:
        return ["–", "–"]
    cells = []
    for record in ends:
        text = report.text(record, interval=False)
        cells.append(f"{text} ({short_name(record.bucket)})" if name_buckets else text)
    return cells


def _is_below_chance(report: ReportData, metrics: Sequence[str]) -> bool:
    for metric in metrics:
        record = report.record(metric, summary="adjusted_gap")
        if record is not None and record.value > 1:
            return True
    return False


def summary_text(report: ReportData, metric: str, what: str) -> str:
    """Return a summary of the buckets of a metric with its interval; the gap between two places is a place, too."""
    record = report.record(metric, summary=what)
    if record is None:
        return "–"
    is_place = report.facts(metric).is_place and what == "gap"
    return with_interval(record.value, record.interval, is_place)
