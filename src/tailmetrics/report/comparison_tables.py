"""The tables of a comparison, as text in cells: one row per run, and one per comparison."""

from __future__ import annotations

from collections.abc import Iterable
from math import isnan
from typing import TYPE_CHECKING

from tailmetrics.report.formatting import shown
from tailmetrics.report.latex import LETTERS, RAISED
from tailmetrics.report.tables import Table

if TYPE_CHECKING:
    from tailmetrics.report.comparison import ComparisonReport
    from tailmetrics.significance.comparison import Comparison

COLUMNS = ("metric", "run", "baseline", "difference", "interval", "p", "corrected", "win/tie/loss", "effect", "")
SUPERSCRIPTS = str.maketrans(LETTERS, RAISED)


def run_table(report: ComparisonReport) -> Table:
    """Return one row per run: its values over all labels, with the letters of the runs that it is better than."""
    lines = [
        [report.letter(run), run, *(_with_letters(report, key, run) for key in report.overall)] for run in report.runs
    ]
    caption = (
        f"A letter behind a value names a run that is significantly worse, at {report.level:g}, corrected for "
        f"{sum(not isnan(one.p_corrected.randomisation) for one in report.comparisons)} comparisons."
    )
    if all(one.baseline == report.baseline for one in report.comparisons) and len(report.runs) > 2:
        caption += f" Runs were compared with {report.baseline} alone."
    return Table("runs", "The runs over all labels", caption, ["", "run", *report.overall], lines, fixed=2, texts=2)


def bucket_tables(report: ComparisonReport) -> list[Table]:
    """Return for each metric by bucket one row per run, with the letters of the runs that it is better than."""
    found = []
    for metric, keys in report.by_bucket.items():
        lines = [
            [report.letter(run), run, *(_with_letters(report, key, run) for key in keys.values())]
            for run in report.runs
        ]
        said = [report.captions.get(metric, ""), report.what_buckets_are]
        caption = " ".join(part if part.endswith(".") else f"{part}." for part in said if part)
        title = f"{metric} from the most frequent labels to the rarest"
        found.append(Table("runs", title, caption, ["", "run", *keys], lines, fixed=2, texts=2))
    return found


def _with_letters(report: ComparisonReport, key: str, run: str) -> str:
    value = report.values[key].get(run, float("nan"))
    return f"{shown(value)}{report.beaten(key, run).translate(SUPERSCRIPTS)}"


def comparison_table(report: ComparisonReport) -> Table:
    """Return one line per comparison."""
    lines = [[f"{one.run} against {one.baseline}", *cells(one)] for one in report.comparisons]
    return Table(
        "comparisons",
        "Every comparison",
        legend(report.comparisons, report.correction),
        ["runs", *COLUMNS],
        lines,
        texts=2,
    )


def legend(found: Iterable[Comparison], correction: str) -> str:
    """Return what the columns mean."""
    known = list(found)
    tested = sum(not isnan(one.p_corrected.randomisation) for one in known)
    comparisons = f"{tested} comparison{'' if tested == 1 else 's'}"
    level = 1 - known[0].interval.confidence
    return (
        f"p: randomisation test, rows swapped between the runs; corrected: {correction}, of {comparisons}; "
        f"interval: {known[0].interval.confidence:.3g} of this comparison alone, so that it may leave out 0 where the "
        f"corrected p is large; effect: Cohen's d of the row differences; *: significant at {level:.3g}."
    )


def cells(comparison: Comparison) -> list[str]:
    """Return what is known of a comparison, in the order of the columns."""
    interval = comparison.interval
    return [
        comparison.key,
        shown(comparison.value),
        shown(comparison.baseline_value),
        _signed(comparison.difference),
        "–" if isnan(interval.low) else f"{_signed(interval.low)} … {_signed(interval.high)}",
        _p(comparison.p.randomisation),
        _p(comparison.p_corrected.randomisation),
        f"{comparison.wins}/{comparison.ties}/{comparison.losses}",
        "–" if isnan(comparison.cohens_dz) else f"{comparison.cohens_dz:+.2f}",
        "*" if comparison.significant else "",
    ]


def _signed(value: float) -> str:
    return "–" if isnan(value) else f"{value:+.4f}"


def _p(value: float) -> str:
    return "–" if isnan(value) else f"{value:.4f}" if value >= 0.0001 else "<0.0001"
