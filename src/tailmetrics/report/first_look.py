"""The tables that a terminal shows first.

They are the headline by bucket and by group, and the values over all labels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tailmetrics.report.breakdowns import GroupRow
from tailmetrics.report.data import ReportData
from tailmetrics.report.document import Section
from tailmetrics.report.groups import GROUP_HEADER, group_cells
from tailmetrics.report.overview import BUCKET_HEADER, bucket_cells
from tailmetrics.report.records import Record

BLOCKS = " ▏▎▍▌▋▊▉█"
"""An eighth of a letter more each."""
BAR_LETTERS = 20
"""Letters of the longest bar.

Beside names, counts, value and interval, the bar fits into 80 columns.
"""


def first_tables(report: ReportData, overall: Section) -> list[Section]:
    """Return the tables of the headline, with bars, and of values over all labels.

    The headline has a table by bucket and a table by group of rows.
    """
    sections = [_by_bucket(report), _by_group(report), replace(overall, caption="")]
    return [section for section in sections if section.lines]


def _by_bucket(report: ReportData) -> Section:
    metric = report.about
    lines = report.bucket_lines([metric])
    records = [report.bucket_record(metric, line.name) for line in lines]
    caption = _caption(report, report.facts(metric).caption)
    return _with_bars(
        f"{metric} by bucket", caption, BUCKET_HEADER, map(bucket_cells, lines), records
    )


def _by_group(report: ReportData) -> Section:
    whole = report.whole(report.about)
    records = report.group_records(whole.metric)
    if not records:
        return Section("first", "")
    groups = [
        GroupRow("", report.rows),
        *(report.group(record.row_group) for record in records),
    ]
    title = f"{whole.metric} by group of rows"
    caption = _caption(report, "over all labels")
    return _with_bars(
        title, caption, GROUP_HEADER, map(group_cells, groups), [whole, *records]
    )


def _caption(report: ReportData, caption: str) -> str:
    interval = next(iter(report.intervals.values()), None)
    if interval is None:
        return caption
    return f"{interval.confidence:.0%} intervals; {caption}".removesuffix("; ")


def _with_bars(
    title: str,
    caption: str,
    header: Sequence[str],
    first_cells: Iterable[list[str]],
    records: Sequence[Record],
) -> Section:
    """Return the table of records with their values and bars.

    The longest bar is 1, or the highest of values above 1.

    Args:
        title: The title.
        caption: The caption.
        header: Names of the columns before the values.
        first_cells: The cells before the value of each record.
        records: The records, one in each line.
    """
    finite = [record.value for record in records if math.isfinite(record.value)]
    longest = 1.0
    if max(map(abs, finite), default=0.0) > 1:
        longest = max(finite) or 1.0

    lines = []
    for cells, record in zip(first_cells, records, strict=True):
        lines.append([*cells, record.text, bar(record.value / longest)])
    return Section("first", title, caption, header=[*header, "value", ""], lines=lines)


def bar(part: float, letters: int = BAR_LETTERS) -> str:
    """Return a bar of blocks for a part from 0 to 1.

    >>> bar(0.5, 4), bar(0.125, 1), bar(0.0)
    ('██', '▏', '')
    """
    eighths = 0
    if math.isfinite(part):
        eighths = round(8 * letters * min(1.0, max(0.0, part)))
    return BLOCKS[8] * (eighths // 8) + BLOCKS[eighths % 8].strip()
