"""The table of head against tail: the most frequent and the rarest measured bucket, and summaries of all buckets."""

from __future__ import annotations

from collections.abc import Sequence

from tailmetrics.report.breakdowns import ALL, UNSEEN
from tailmetrics.report.data import ReportData
from tailmetrics.report.document import Section, Table
from tailmetrics.report.formatting import sentences, short_name
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
    return [*measured[:1], *measured[1:][-1:]]


def tail_section(report: ReportData) -> Section:
    """Return the table of head against tail, with the gap, the spread and the adjusted gap."""
    metrics = [metric for metric in report.metrics_by_bucket if report.record(metric, summary="gap").key]
    summaries = [name for name in SUMMARIES if any(report.record(metric, summary=name).key for metric in metrics)]
    ends = {metric: ends_of(report, metric) for metric in metrics}

    buckets = {tuple(record.bucket for record in pair) for pair in ends.values() if len(pair) == 2}
    names = buckets.pop() if len(buckets) == 1 else ("head", "tail")
    gap = f"gap: {names[0]} minus {names[1]}"
    if names == ("head", "tail"):
        gap += ", the most frequent and the rarest bucket that was measured, in brackets"

    table = Table(["metric", ALL, *names, *(name.replace("_", " ") for name in summaries)])
    for metric in metrics:
        records = [report.record(metric, summary=name) for name in summaries]
        cells = [report.whole(metric).number, *_end_cells(ends[metric], names)]
        table.lines.append([metric, *cells, *(record.text for record in records)])

    meanings = [gap, *(MEANINGS[name] for name in summaries if name in MEANINGS)]
    below_chance = ""
    if any(report.record(metric, summary="adjusted_gap").value > 1 for metric in metrics):
        below_chance = BELOW_CHANCE
    caption = sentences(report.rows_in_words, "; ".join(meanings), below_chance)
    return Section("tail", "Head against tail", caption).with_table(table)


def _end_cells(ends: Sequence[Record], names: Sequence[str]) -> list[str]:
    """Return the values of the most frequent and of the rarest measured bucket; with its name, if no column has it."""
    if len(ends) < 2:
        return ["–", "–"]
    cells = []
    for record in ends:
        bucket = "" if record.bucket in names else f" ({short_name(record.bucket)})"
        cells.append(f"{record.number}{bucket}")
    return cells
