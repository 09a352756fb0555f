"""A comparison as a page, and as what a notebook shows: without scripts or anything to fetch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailmetrics.report._lines import MARKS, Lines, Spans, lines_of, spans_of
from tailmetrics.report._palette import Shade, run_shade
from tailmetrics.report._scatter import scatters_of
from tailmetrics.report.comparison_tables import comparison_table, run_table
from tailmetrics.report.formatting import short_name, shown
from tailmetrics.report.page import environment

if TYPE_CHECKING:
    from tailmetrics.report.comparison import ComparisonReport


@dataclass(frozen=True)
class Cell:
    """A value of a run, with the letters of the runs that it is significantly better than."""

    shown: str
    beaten: str
    best: bool


@dataclass(frozen=True)
class Run:
    """A run in the legend, and its values over all labels."""

    name: str
    letter: str
    shade: Shade
    mark: str
    cells: list[Cell]


@dataclass(frozen=True)
class Drawn:
    """One metric by bucket: all runs, and the differences."""

    lines: Lines
    spans: list[Spans]


def comparison_page(report: ComparisonReport) -> str:
    """Return the comparison as an HTML document."""
    return _render("comparison.html.j2", report)


def comparison_fragment(report: ComparisonReport) -> str:
    """Return the comparison as HTML for a notebook, with styles that touch nothing else there."""
    return _render("comparison_fragment.html.j2", report)


def _render(template: str, report: ComparisonReport) -> str:
    overall = report.overall
    return (
        environment()
        .get_template(template)
        .render(
            report=report,
            facts=_facts(report),
            runs=[_run(report, run, place) for place, run in enumerate(report.runs)],
            keys=overall,
            drawn=[Drawn(lines_of(report, metric), _spans(report, metric)) for metric in report.by_bucket],
            overall=[span for keys in report.alike for span in spans_of(report, keys, "over all labels")],
            scatters=scatters_of(report),
            buckets=report.what_buckets_are,
            runs_table=run_table(report),
            table=comparison_table(report),
        )
    )


def _facts(report: ComparisonReport) -> list[str]:
    rows = max((one.n for one in report.comparisons), default=0)
    return [f"{len(report.runs)} runs", f"{rows:,} rows", f"{len(report.comparisons):,} comparisons"]


def _run(report: ComparisonReport, run: str, place: int) -> Run:
    cells = []
    for key in report.overall:
        values = {other: value for other, value in report.values[key].items() if value == value}
        chosen = (min if key in report.lower_is_better else max)(values.values(), default=None)
        value = report.values[key].get(run, float("nan"))
        cells.append(Cell(shown(value), report.beaten(key, run), value == chosen))
    return Run(run, report.letter(run), run_shade(place), MARKS[place % len(MARKS)], cells)


def _spans(report: ComparisonReport, metric: str) -> list[Spans]:
    return spans_of(report, {short_name(name): key for name, key in report.by_bucket[metric].items()}, metric)
