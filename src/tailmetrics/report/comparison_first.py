"""The tables of a comparison that a terminal shows first: the headline by bucket and group, and the values over all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tailmetrics.report.answer import short_value
from tailmetrics.report.breakdowns import ALL
from tailmetrics.report.comparison_data import ComparisonData
from tailmetrics.report.document import Section
from tailmetrics.report.first_look import BLOCKS, bar
from tailmetrics.report.formatting import counted, number, short_name, signed
from tailmetrics.report.records import GAPS

HALF = 5
"""Letters of the longest bar of a difference, to each side."""
METRICS = 12
"""Metrics over all labels that a terminal shows of more than two runs, one in each line."""


def first_tables(report: ComparisonData) -> list[Section]:
    """Return the headline by bucket and by group of rows, and the table over all labels."""
    metric = report.headline or next(iter(report.by_bucket), "")
    whole = report.over_all.get(metric, metric)
    buckets = {whole: ALL}
    buckets |= {key: bucket for bucket, key in report.by_bucket.get(metric, {}).items()}
    title = f"{metric} by bucket" if metric in report.by_bucket else metric
    sections = [_headline(report, buckets, title, "bucket")]

    groups = report.by_group.get(whole, {})
    if groups:
        names = {whole: ALL, **{key: group for group, key in groups.items()}}
        sections.append(_headline(report, names, f"{whole} by group of rows", "group"))

    keys = [key for key in report.overall if report.parts[key].bucket not in GAPS]
    sections.append(_overall_of_two(report, keys) if len(report.runs) == 2 else _overall_of_several(report, keys))
    return [section for section in sections if section.lines]


def _headline(report: ComparisonData, names: Mapping[str, str], title: str, column: str) -> Section:
    """Return the table of a metric by bucket or group; two runs have their differences.

    Args:
        report: The comparison.
        names: The name of the bucket or group by key.
        title: The title.
        column: The name of the first column.
    """
    names = {key: name for key, name in names.items() if key in report.values}
    if len(report.runs) == 2:
        return _differences(report, names, title, column)
    return _values(report, names, title)


def _differences(report: ComparisonData, names: Mapping[str, str], title: str, column: str) -> Section:
    """Return the table of two runs, with a line for each bucket or group."""
    baseline, run = report.runs
    comparisons = {}
    for key, name in names.items():
        comparison = report.against(key, run)
        if comparison is not None:
            comparisons[name] = comparison
    sizes = [abs(comparison.difference) for comparison in comparisons.values()]
    largest = max((size for size in sizes if math.isfinite(size)), default=0.0) or 1.0

    lines = []
    for name, comparison in comparisons.items():
        interval = comparison.interval
        mark = "*" if comparison.significant else " "
        lines.append(
            [
                name,
                number(comparison.baseline_value),
                number(comparison.value),
                signed(comparison.difference),
                f"{signed(interval.low)} … {signed(interval.high)}" if interval.ends else "–",
                f"{mark} {difference_bar(comparison.difference / largest)}",
            ]
        )
    header = [column, baseline, run, "difference", f"{report.confidence:.0%} interval", ""]
    caption = f"*: significant, corrected for {counted(report.corrected_for, 'comparison')}"
    return Section("first", title, caption, header=header, lines=lines)


def difference_bar(part: float) -> str:
    """Return a bar for a part from -1 to 1: to the left of a line at 0, or to the right; more is 1.

    >>> difference_bar(-0.5), difference_bar(1.0)
    ('  ▐██│', '     │█████')
    """
    part = max(-1.0, min(part, 1.0))
    if not part < 0:
        return f"{' ' * HALF}│{bar(part, HALF)}"
    halves = round(-2 * HALF * part)  # a letter has eighths from its left edge, and only a half from its right one
    blocks = "▐" if halves % 2 else ""
    blocks += BLOCKS[8] * (halves // 2)
    return f"{blocks.rjust(HALF)}│"


def _values(report: ComparisonData, names: Mapping[str, str], title: str) -> Section:
    """Return the table of several runs, with a line for each run."""
    lines = []
    for run in report.runs:
        cells = []
        for key in names:
            value = report.values[key].get(run, math.nan)
            cells.append(f"{short_value(value)}{report.marked(key, run)}")
        lines.append([f"{report.letter(run)} {run}", *cells])
    caption = "A letter behind a value names a run that is significantly worse"
    return Section("first", title, caption, header=["run", *map(short_name, names.values())], lines=lines)


def _overall_of_several(report: ComparisonData, keys: Sequence[str]) -> Section:
    lines = []
    for key in keys[:METRICS]:
        lines.append([key, *(report.cell(key, run) for run in report.runs)])
    return Section("first", "Over all labels", header=["metric", *report.runs], lines=lines)


def _overall_of_two(report: ComparisonData, keys: Sequence[str]) -> Section:
    lines = []
    for key in keys:
        comparison = report.against(key, report.runs[1])
        if comparison is not None:
            mark = "*" if comparison.significant else " "
            lines.append([key, f"{number(comparison.baseline_value)} → {number(comparison.value)} {mark}"])
    return Section("overall", "Over all labels", header=["metric", "values"], lines=lines)
