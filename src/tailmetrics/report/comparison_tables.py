"""The sections of a comparison: runs, differences, and values that are not compared."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import filterfalse, product
from typing import TYPE_CHECKING

from tailmetrics._arguments import grouped, some_of
from tailmetrics.report.charts import Chart
from tailmetrics.report.comparison_charts import (
    BUCKET_AXIS,
    GROUP_AXIS,
    difference_charts,
    runs_chart,
)
from tailmetrics.report.comparison_data import (
    UNCORRECTED,
    UNEQUAL,
    ComparisonData,
    correction_in_words,
    in_numbers,
)
from tailmetrics.report.document import Section
from tailmetrics.report.formatting import (
    AT_MOST,
    counted,
    number,
    number_above_zero,
    p_value,
    sentences,
    short_name,
    signed,
)

if TYPE_CHECKING:
    from tailmetrics.significance.comparing import Comparison

SWAPPED = (
    "as mid-p: swaps that differ exactly as much as the runs count half (of "
    "medians: in full)"
)
SMALLER_GAP = (
    "A smaller gap alone is not better: a model that misses head and tail alike "
    "has one."
)
GUTTER, WIDE_GUTTER = 46, 190
"""Pixels for the names of the lines of a drawing: for buckets and for keys."""


def unequal_in_words(lists: Mapping[str, str]) -> list[str]:
    """Return a sentence for each set of unequal list lengths.

    Args:
        lists: The lengths of the lists of each key, in words.
    """
    keys_by_lengths = grouped((lengths, key) for key, lengths in lists.items())
    texts = []
    for lengths, keys in keys_by_lengths.items():
        texts.append(
            f"{UNEQUAL} {', '.join(some_of(keys, 3))}: the median number of labels "
            f"read in a list differs ({lengths}), which may be part of the difference. "
            "A k that the lists of all reach, if there is one, reads as much of each."
        )
    return texts


def headline_section(report: ComparisonData) -> Section:
    """Return the drawings of the metric that the comparison is about."""
    title = f"{report.headline}, from head to tail"
    return Section(
        "headline",
        title,
        charts=_bucket_charts(report, report.headline),
        legend=report.runs,
    )


def run_sections(report: ComparisonData) -> Iterator[Section]:
    """Yield a table of the values over all labels, with a line for each run.

    Letters behind a value name the runs that are significantly worse.
    """
    caption = (
        "A letter behind a value names a run that is significantly worse, at "
        f"{1 - report.confidence:.3g}, "
        f"{correction_in_words(report)}. Bold: the best value."
    )
    if len(report.runs) > 2 and {
        comparison.baseline for comparison in report.comparisons
    } == {report.runs[0]}:
        caption += f" Runs were compared with {report.runs[0]} alone."
    caption = " ".join([caption, *unequal_in_words(report.unequal_lists)])

    if report.overall:
        yield _run_section(
            report,
            "The runs over all labels",
            caption,
            {key: key for key in report.overall},
        )
    if report.gaps:
        yield _run_section(
            report,
            "Gaps between head and tail",
            SMALLER_GAP,
            {key: key for key in report.gaps},
        )


def bucket_sections(report: ComparisonData) -> Iterator[Section]:
    """Yield for each metric by bucket a table with a line for each run, and drawings.

    The drawings show the runs and their differences. Those of the headline stand first,
    and the picture has no others by bucket.
    """
    for metric, keys in report.by_bucket.items():
        charts = _bucket_charts(report, metric)
        if report.headline in report.by_bucket:
            charts = [chart.outside_the_picture() for chart in charts]
        if metric == report.headline:
            charts = []
        title = f"{metric} from the most frequent labels to the rarest"
        section = _run_section(
            report,
            title,
            sentences(report.captions.get(metric, "")),
            _short(keys),
            charts,
        )
        yield replace(section, note=report.what_buckets_are)


def _short(keys: Mapping[str, str]) -> dict[str, str]:
    return {short_name(bucket): key for bucket, key in keys.items()}


def _bucket_charts(report: ComparisonData, metric: str) -> list[Chart]:
    """Return the drawings of one metric by bucket: values of runs, and differences."""
    keys = report.by_bucket[metric]
    values = runs_chart(
        report, metric, keys, BUCKET_AXIS, report.captions.get(metric, "")
    )
    return [values, *difference_charts(report, _short(keys), metric, GUTTER)]


def group_sections(report: ComparisonData) -> Iterator[Section]:
    """Yield for each metric by group of rows a table with a line for each run.

    The table of the headline, or else of the first metric, has drawings.
    """
    about = report.over_all.get(report.headline, report.headline)
    if about not in report.by_group:
        about = next(iter(report.by_group), "")
    for metric, keys in report.by_group.items():
        charts: list[Chart] = []
        if metric == about:
            charts.append(
                runs_chart(report, metric, keys, GROUP_AXIS, "over all labels")
            )
            charts += difference_charts(report, keys, metric, WIDE_GUTTER)
        yield _run_section(
            report, f"{metric} by group of rows", "Over all labels.", keys, charts
        )


def _run_section(
    report: ComparisonData,
    title: str,
    caption: str,
    keys: Mapping[str, str],
    charts: Sequence[Chart] = (),
) -> Section:
    """Return a table with a line for each run and a column for each key.

    The best value of a column is bold.
    """
    lines = []
    for run in report.runs:
        lines.append(
            [report.letter(run), run, *(report.cell(key, run) for key in keys.values())]
        )
    bold = set()
    for column, key in enumerate(keys.values(), 2):
        bold |= {(line, column) for line in _best_lines(report, key)}
    return Section(
        "runs",
        title,
        caption,
        header=["", "run", *keys],
        lines=lines,
        texts=2,
        bold=frozenset(bold),
        charts=charts,
        legend=report.runs if charts else [],
    )


def _best_lines(report: ComparisonData, key: str) -> list[int]:
    """Return the lines of the runs with the best value.

    There are none for a gap, or if neither direction is better.
    """
    values = [report.value(key, run) for run in report.runs]
    measured = list(filterfalse(math.isnan, values))
    if report.places[key].summary or key in report.without_direction or not measured:
        return []
    best = max(measured)
    if key in report.lower_is_better:
        best = min(measured)
    return [line for line, value in enumerate(values) if value == best]


def differences_section(report: ComparisonData) -> Section:
    """Return the differences over all labels: of values up to 1, larger values, gaps.

    Each of the three has a drawing of its own.
    """
    keys_by_kind: dict[str, dict[str, str]] = {
        "over all labels": {},
        "above 1, over all labels": {},
        "gaps": {},
    }
    for key in report.overall:
        kind = "over all labels"
        if any(abs(value) > 1 for value in report.values[key].values()):
            kind = "above 1, over all labels"
        keys_by_kind[kind][key] = key
    keys_by_kind["gaps"] = {key: key for key in report.gaps}

    charts = []
    for kind, keys in keys_by_kind.items():
        charts += difference_charts(report, keys, kind, WIDE_GUTTER)
    return Section("differences", "Differences over all labels", charts=charts)


def pair_sections(report: ComparisonData) -> Iterator[Section]:
    """Yield a table for each pair of runs, with all their comparisons in numbers."""
    pairs = grouped(
        ((comparison.run, comparison.baseline), comparison)
        for comparison in report.comparisons
    )
    caption = _pair_caption(report)
    for (run, baseline), comparisons in pairs.items():
        significant = [
            line
            for line, comparison in enumerate(comparisons)
            if comparison.significant
        ]
        yield Section(
            "comparisons",
            f"{run} against {baseline}",
            caption,
            note=sentences(*_what_is_lacking(comparisons)),
            header=PAIR_HEADER,
            lines=[_pair_cells(report, comparison) for comparison in comparisons],
            bold=frozenset(product(significant, range(len(PAIR_HEADER)))),
            folded=True,
        )
        caption = ""  # the first table alone explains the columns


PAIR_HEADER = (
    "metric",
    "run",
    "baseline",
    "difference",
    "interval",
    "p",
    "corrected",
    "least",
    "win/tie/loss",
    "effect",
    "",
)
"""The columns of the table of two runs; the last one has marks."""


def _pair_cells(report: ComparisonData, comparison: Comparison) -> list[str]:
    star = "*" if comparison.significant else ""
    return [
        comparison.key,
        *in_numbers(comparison),
        _p_text(comparison),
        p_value(comparison.p_corrected.decisive, comparison.p_is_upper_bound),
        number_above_zero(comparison.least_difference),
        _outcomes(comparison),
        signed(comparison.cohens_dz, decimals=2),
        f"{star}{report.unequal_mark(comparison.key)}",
    ]


def _p_text(comparison: Comparison) -> str:
    if not comparison.tested:
        return "untested"
    return p_value(comparison.p.decisive, comparison.p_is_upper_bound)


def _outcomes(comparison: Comparison) -> str:
    """Return wins, ties and losses; a dash where there are none, as of a gap."""
    outcomes = (comparison.wins, comparison.ties, comparison.losses)
    if not any(outcomes):
        return "–"
    return "/".join(map(str, outcomes))


def _pair_caption(report: ComparisonData) -> str:
    comparisons = report.comparisons
    if any(not math.isnan(comparison.p.total) for comparison in comparisons):
        test = "Student's t, with what varies between runs of a model or between labels"
    elif report.num_clusters:
        test = (
            "randomisation test, the rows of a cluster swapped together between the "
            f"runs, {SWAPPED}"
        )
    else:
        test = f"randomisation test, rows swapped between the runs, {SWAPPED}"
    corrected = f"{report.correction}, of {counted(report.corrected_for, 'comparison')}"
    if report.correction == UNCORRECTED:
        corrected = "the same p, as correction='none' leaves it"
    caption = (
        f"p: {test}; corrected: {corrected}; interval: {report.confidence:.3g} of this "
        "comparison alone, so that it may leave out 0 where the corrected p is large; "
        "least: the smallest true difference that so many rows show in 8 of 10 "
        "samples, if rows vary as they do here; effect: Cohen's d of the row "
        f"differences; *: significant at {1 - report.confidence:.3g}."
    )
    swaps = max(
        (comparison.swaps for comparison in comparisons if comparison.p_is_upper_bound),
        default=0,
    )
    if swaps:
        caption += (
            f" {AT_MOST}: none of {swaps:,} random swaps differs as much as the runs; "
        )
        caption += "more resamples may give a lower p."
    if any(comparison.statistic == "labels" for comparison in comparisons):
        caption += " Of averages over labels, win/tie/loss are labels, not rows."
    return caption


def _what_is_lacking(comparisons: Sequence[Comparison]) -> list[str]:
    """Return why there are no intervals, and which differences are within bin errors.

    A bin error is what bins of scores leave open.
    """
    keys_by_reason = grouped(
        (comparison.interval.reason or "", comparison.key) for comparison in comparisons
    )
    keys_by_reason.pop("", None)
    texts = [
        f"no interval, {reason}: {', '.join(keys)}"
        for reason, keys in keys_by_reason.items()
    ]

    keys = []
    for comparison in comparisons:
        if abs(comparison.difference) < comparison.bin_error:
            keys.append(comparison.key)
    if keys:
        texts.append(
            "smaller than what bins of scores leave open, so that no * stands there: "
            f"{', '.join(keys)}; pass "
            "logits in place of probabilities, or scores of a wider range"
        )
    return texts


def not_compared_section(report: ComparisonData, brief: bool) -> Section:
    """Return the values over all rows that no comparison reads.

    If ``brief``, as for a terminal, return only values over all labels.
    """
    lines = []
    for key, values in report.not_compared.items():
        place = report.places[key]
        if not place.row_group and not (brief and place.bucket):
            lines.append(
                [key, *(number(values.get(run, math.nan)) for run in report.runs)]
            )
    caption = (
        f"{' '.join(report.not_compared_because)} Nothing tells whether a "
        "difference is chance."
    )
    return Section(
        "not_compared",
        "Not compared",
        caption,
        header=["metric", *report.runs],
        lines=lines,
    )
