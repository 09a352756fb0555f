"""The tables of a comparison that a terminal shows first.

They are the headline by bucket and by group, and the values over all labels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tailmetrics.report.breakdowns import ALL
from tailmetrics.report.comparison_data import (
    ComparisonData,
    correction_in_words,
    in_numbers,
)
from tailmetrics.report.document import Section
from tailmetrics.report.first_look import BLOCKS, bar
from tailmetrics.report.formatting import brief, short_name, without_zero

if TYPE_CHECKING:
    from tailmetrics.significance.comparing import Comparison

HALF = 5
"""Letters of the longest bar of a difference, to each side."""
METRICS = 12
"""The most metrics over all labels that a terminal shows of more than two runs."""


def first_tables(report: ComparisonData) -> list[Section]:
    """Return the headline by bucket and by group, and the table over all labels."""
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
        sections.append(
            _headline(
                report, {**all_labels, **groups}, f"{whole} by group of rows", "group"
            )
        )
    sections.append(_overall(report))
    return [section for section in sections if section.lines]


def _headline(
    report: ComparisonData, keys: Mapping[str, str], title: str, column: str
) -> Section:
    """Return the headline's table: the differences of two runs, or values of more runs.

    Args:
        report: The comparison.
        keys: The key of each bucket or group.
        title: The title.
        column: The name of a column of buckets or groups.
    """
    if len(report.runs) == 2:
        return _differences(report, keys, title, column)
    return _values(report, keys, title)


def _differences(
    report: ComparisonData, keys: Mapping[str, str], title: str, column: str
) -> Section:
    """Return the table of two runs, with a line for each bucket or group."""
    baseline, run = report.runs
    comparisons = report.differences(keys, run)
    sizes = [abs(comparison.difference) for comparison in comparisons.values()]
    largest = max(filter(math.isfinite, sizes), default=0.0) or 1.0

    lines = []
    for name, comparison in comparisons.items():
        value, baseline_value, difference, interval = in_numbers(comparison)
        bar_text = (
            f"{_star(comparison)} {difference_bar(comparison.difference / largest)}"
        )
        lines.append([name, baseline_value, value, difference, interval, bar_text])
    header = [
        column,
        baseline,
        run,
        "difference",
        f"{report.confidence:.0%} interval",
        "",
    ]
    caption = f"*: significant, {correction_in_words(report)}"
    return Section("first", title, caption, header=header, lines=lines)


def _star(comparison: Comparison) -> str:
    return "*" if comparison.significant else " "


def difference_bar(part: float) -> str:
    """Return a bar to the left or right of a line at 0 for a part from -1 to 1.

    A larger part is cut at 1 or -1; NaN gives an empty text.

    >>> difference_bar(-0.5), difference_bar(1.0), difference_bar(math.nan)
    ('  ▐██│', '     │█████', '')
    """
    if math.isnan(part):
        return ""
    part = max(-1.0, min(part, 1.0))
    if not part < 0:
        return f"{' ' * HALF}│{bar(part, HALF)}"
    # a letter has only a half from its right edge
    wholes, half = divmod(round(-2 * HALF * part), 2)
    blocks = "▐" * half + BLOCKS[8] * wholes
    return f"{blocks.rjust(HALF)}│"


def _values(report: ComparisonData, keys: Mapping[str, str], title: str) -> Section:
    """Return the table of several runs: a line for each run, a column for each key.

    The keys are those of buckets or groups.
    """
    lines = []
    for run in report.runs:
        cells = []
        for key in keys.values():
            value = without_zero(
                brief(report.value(key, run), most_decimals=report.decimals(key))
            )
            cells.append(f"{value}{report.marked(key, run)}")
        lines.append([f"{report.letter(run)} {run}", *cells])
    caption = "A letter behind a value names a run that is significantly worse"
    return Section(
        "first", title, caption, header=["run", *map(short_name, keys)], lines=lines
    )


def _overall(report: ComparisonData) -> Section:
    """Return the values over all labels, with one column for two runs.

    More than two runs have a column each.
    """
    lines = []
    if len(report.runs) > 2:
        for key in report.overall[:METRICS]:
            lines.append([key, *(report.cell(key, run) for run in report.runs)])
        return Section(
            "first", "Over all labels", header=["metric", *report.runs], lines=lines
        )

    for key in report.overall:
        comparison = report.against(key, report.runs[1])
        if comparison is not None:
            value, baseline_value, *_ = in_numbers(comparison)
            lines.append([key, f"{baseline_value} → {value} {_star(comparison)}"])
    return Section(
        "overall", "Over all labels", header=["metric", "values"], lines=lines
    )
