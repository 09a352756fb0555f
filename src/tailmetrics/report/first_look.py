"""The tables that a terminal shows first: the headline by bucket and by group, and the values over all labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tailmetrics.report.breakdowns import ALL
from tailmetrics.report.data import ReportData
from tailmetrics.report.document import Section, Table
from tailmetrics.report.formatting import count
from tailmetrics.report.overview import bucket_lines, bucket_naming, line_records
from tailmetrics.report.records import Record

BLOCKS = " ▏▎▍▌▋▊▉█"
"""An eighth of a letter more each."""
BAR_LETTERS = 20
"""Letters of the longest bar: beside names, counts, value and interval it fits into 80 columns."""


def first_tables(report: ReportData, overall: Section) -> list[Section]:
    """Return the headline by bucket and by group of rows, with bars, and the table over all labels."""
    sections = [_by_bucket(report), _by_group(report), replace(overall, caption="")]
    return [section for section in sections if section.lines]


def _by_bucket(report: ReportData) -> Section:
    metric = report.about
    records = {record.bucket for record in report.bucket_records(metric)}
    lines = [line for line in bucket_lines(report) if line in records]
    if lines and report.whole(metric) is not None:
        lines.insert(0, "")

    table = bucket_naming(report, lines)
    _add_values(table, report, line_records(report, metric, lines))
    return Section("first", f"{metric} by bucket", _caption(report, report.facts(metric).caption)).with_table(table)


def _by_group(report: ReportData) -> Section:
    whole = report.whole(report.about)
    records = [] if whole is None else report.group_records(whole.metric)
    if whole is None or not records:
        return Section("first", "")

    table = Table(["group", "rows"], [[ALL, count(report.rows)]])
    for record in records:
        table.lines.append([record.row_group, count(report.group(record.row_group).rows)])
    _add_values(table, report, [whole, *records])
    return Section("first", f"{whole.metric} by group of rows", _caption(report, "over all labels")).with_table(table)


def _caption(report: ReportData, caption: str) -> str:
    interval = next(iter(report.intervals.values()), None)
    confidence = "" if interval is None else f"{interval.confidence:.0%} intervals"
    return "; ".join(text for text in (confidence, caption) if text)


def _add_values(table: Table, report: ReportData, records: Sequence[Record | None]) -> None:
    """Add the columns of values and of bars; the longest bar is 1, or the highest of values above 1."""
    values = [math.nan if record is None else record.value for record in records]
    finite = [value for value in values if math.isfinite(value)]
    longest = max(finite, default=0.0)
    if all(abs(value) <= 1 for value in finite):
        longest = 1.0
    table.add("value", [report.text(record) for record in records])
    table.add("", [bar(value / (longest or 1.0)) for value in values])


def bar(part: float, letters: int = BAR_LETTERS) -> str:
    """Return a bar of blocks for a part from 0 to 1.

    >>> bar(0.5, 4), bar(0.125, 1), bar(0.0)
    ('██', '▏', '')
    """
    eighths = 0
    if math.isfinite(part):
        eighths = round(8 * letters * min(1.0, max(0.0, part)))
    return BLOCKS[8] * (eighths // 8) + BLOCKS[eighths % 8].strip()
