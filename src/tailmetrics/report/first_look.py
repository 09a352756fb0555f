"""The tables that a terminal shows first: the headline by bucket and by group, and the values over all labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tailmetrics.report.data import ReportData
from tailmetrics.report.document import Section, Table
from tailmetrics.report.groups import GROUP_COLUMNS
from tailmetrics.report.lines import bucket_lines, group_lines, in_line
from tailmetrics.report.overview import BUCKET_COLUMNS
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
    lines = bucket_lines(report, [metric])
    table = Table.from_items(lines, BUCKET_COLUMNS)
    _add_values(table, [in_line(report, metric, line) for line in lines])
    return Section("first", f"{metric} by bucket", _caption(report, report.facts(metric).caption)).with_table(table)


def _by_group(report: ReportData) -> Section:
    whole = report.whole(report.about)
    records = report.group_records(whole.metric)
    if not records:
        return Section("first", "")

    lines = group_lines(report, [report.group(record.row_group) for record in records])
    table = Table.from_items(lines, GROUP_COLUMNS)
    _add_values(table, [whole, *records])
    return Section("first", f"{whole.metric} by group of rows", _caption(report, "over all labels")).with_table(table)


def _caption(report: ReportData, caption: str) -> str:
    interval = next(iter(report.intervals.values()), None)
    if interval is None:
        return caption
    return f"{interval.confidence:.0%} intervals; {caption}".removesuffix("; ")


def _add_values(table: Table, records: Sequence[Record]) -> None:
    """Add the columns of values and of bars; the longest bar is 1, or the highest of values above 1."""
    values = [record.value for record in records]
    finite = list(filter(math.isfinite, values))
    longest = 1.0
    if max(map(abs, finite), default=0.0) > 1:
        longest = max(finite) or 1.0
    table.add("value", [record.text for record in records])
    table.add("", [bar(value / longest) for value in values])


def bar(part: float, letters: int = BAR_LETTERS) -> str:
    """Return a bar of blocks for a part from 0 to 1.

    >>> bar(0.5, 4), bar(0.125, 1), bar(0.0)
    ('██', '▏', '')
    """
    eighths = 0
    if math.isfinite(part):
        eighths = round(8 * letters * min(1.0, max(0.0, part)))
    return BLOCKS[8] * (eighths // 8) + BLOCKS[eighths % 8].strip()
