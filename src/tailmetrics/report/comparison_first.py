"""The tables of a comparison that a terminal shows first: the headline by bucket and group, and the values over all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from tailmetrics.report.breakdowns import ALL
from tailmetrics.report.comparison_data import ComparisonData, correction_in_words
from tailmetrics.report.document import Column, Section, Table
from tailmetrics.report.first_look import BLOCKS, bar
from tailmetrics.report.formatting import brief, ends_with_signs, number, short_name, signed, without_zero

if TYPE_CHECKING:
    from tailmetrics.significance.comparing import Comparison

HALF = 5
"""Letters of the longest bar of a difference, to each side."""
METRICS = 12
"""Metrics over all labels that a terminal shows of more than two runs, one in each line."""


def first_tables(report: ComparisonData) -> list[Section]:
    """Return the headline by bucket and by group of rows, and the table over all labels."""
    metrics = [report.headline, *report.by_bucket]
    metric = next((metric for metric in metrics if metric), "")
    whole = report.over_all.get(metric, metric)
    all_labels = {}
    if whole in report.values:
        all_labels[ALL] = whole
    buckets = report.by_bucket.get(metric, {})
    groups = report.by_group.get(whole, {})

    title = metric
    if buckets:
        title = f"{metric} by bucket"
    sections = [_headline(report, {**all_labels, **buckets}, title, "bucket")]
    if groups:
        sections.append(_headline(report, {**all_labels, **groups}, f"{whole} by group of rows", "group"))
    sections.append(_overall(report))
    return [section for section in sections if section.lines]


def _headline(report: ComparisonData, keys: Mapping[str, str], title: str, column: str) -> Section:
    """Return the table of the headline: the differences of two runs, or the values of more runs.

    Args:
        report: The comparison.
        keys: The key of each bucket or group.
        title: The title.
        column: The name of a column of buckets or groups.
    """
    if len(report.runs) == 2:
        return _differences(report, keys, title, column)
    return _values(report, keys, title)


def _differences(report: ComparisonData, keys: Mapping[str, str], title: str, column: str) -> Section:
    """Return the table of two runs, with a line for each bucket or group."""
    baseline, run = report.runs
    comparisons = report.differences(keys, run)
    sizes = [abs(comparison.difference) for comparison in comparisons.values()]
    largest = max(filter(math.isfinite, sizes), default=0.0) or 1.0

    columns: list[Column[tuple[str, Comparison]]] = [
        (column, lambda item: item[0]),
        (baseline, lambda item: number(item[1].baseline_value, decimals=item[1].decimals)),
        (run, lambda item: number(item[1].value, decimals=item[1].decimals)),
        ("difference", lambda item: signed(item[1].difference, item[1].decimals)),
        (f"{report.confidence:.0%} interval", lambda item: ends_with_signs(item[1].interval.ends, item[1].decimals)),
        ("", lambda item: f"{_star(item[1])} {difference_bar(item[1].difference / largest)}"),
    ]
    caption = f"*: significant, {correction_in_words(report)}"
    return Section("first", title, caption).with_table(Table.from_items(comparisons.items(), columns))


def _star(comparison: Comparison) -> str:
    return "*" if comparison.significant else " "


def difference_bar(part: float) -> str:
    """Return a bar for a part from -1 to 1: to the left of a line at 0, or to the right; more is 1, and NaN is none.

    >>> difference_bar(-0.5), difference_bar(1.0), difference_bar(math.nan)
    ('  ▐██│', '     │█████', '')
    """
    if math.isnan(part):
        return ""
    part = max(-1.0, min(part, 1.0))
    if not part < 0:
        return f"{' ' * HALF}│{bar(part, HALF)}"
    wholes, half = divmod(round(-2 * HALF * part), 2)  # a letter has only a half from its right edge
    blocks = "▐" * half + BLOCKS[8] * wholes
    return f"{blocks.rjust(HALF)}│"


def _values(report: ComparisonData, keys: Mapping[str, str], title: str) -> Section:
    """Return the table of several runs, with a line for each run and a column for each bucket or group."""
    lines = []
    for run in report.runs:
        cells = []
        for key in keys.values():
            value = without_zero(brief(report.value(key, run), most_decimals=report.decimals(key)))
            cells.append(f"{value}{report.marked(key, run)}")
        lines.append([f"{report.letter(run)} {run}", *cells])
    caption = "A letter behind a value names a run that is significantly worse"
    return Section("first", title, caption, header=["run", *map(short_name, keys)], lines=lines)


def _overall(report: ComparisonData) -> Section:
    """Return the values over all labels: of two runs in one column, of more runs in a column each."""
    if len(report.runs) > 2:
        columns: list[Column[str]] = [("metric", str)]
        for run in report.runs:
            columns.append((run, partial(_cell, report, run)))
        table = Table.from_items(report.overall[:METRICS], columns)
        return Section("first", "Over all labels").with_table(table)

    lines = []
    keys = dict(zip(report.overall, report.overall, strict=True))
    for key, comparison in report.differences(keys, report.runs[1]).items():
        values = (comparison.baseline_value, comparison.value)
        baseline_text, text = (number(value, decimals=comparison.decimals) for value in values)
        lines.append([key, f"{baseline_text} → {text} {_star(comparison)}"])
    return Section("overall", "Over all labels", header=["metric", "values"], lines=lines)


def _cell(report: ComparisonData, run: str, key: str) -> str:
    return report.cell(key, run)
