"""A report as a page, and as what a notebook shows: complete in themselves, without scripts or anything to fetch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from tailmetrics.report._bars import all_bars
from tailmetrics.report._curve import frequency_curve
from tailmetrics.report.formatting import with_interval
from tailmetrics.report.tables import tables
from tailmetrics.report.wording import plus_minus, what_buckets_are

if TYPE_CHECKING:
    from jinja2 import Environment

    from tailmetrics.report.report import Report


def page(report: Report) -> str:
    """Return the report as an HTML document."""
    return _render("page.html.j2", report)


def fragment(report: Report) -> str:
    """Return the report as HTML for a notebook, with styles that touch nothing else there."""
    return _render("fragment.html.j2", report)


def _render(template: str, report: Report) -> str:
    return (
        environment()
        .get_template(template)
        .render(
            report=report,
            facts=_facts(report),
            values=list(_values(report)),
            margins=plus_minus(report),
            buckets=what_buckets_are(report.buckets),
            plots=all_bars(report),
            curve=frequency_curve(report),
            tables=[table for table in tables(report) if table.name != "overall"],
        )
    )


@dataclass(frozen=True)
class Value:
    """A value over all labels, as it is shown; ``margin`` is empty where no interval is known."""

    key: str
    shown: str
    margin: str
    less: bool


def _values(report: Report) -> Iterator[Value]:
    for key, value in report.overall.items():
        number, _, margin = with_interval(value, report.intervals.get(key), key in report.places).partition(" ")
        yield Value(key, number, margin, report.less_is_better(key))


def _facts(report: Report) -> list[str]:
    """Return how much was evaluated."""
    counted = {
        "rows": report.rows,
        "positives": report.positives,
        "labels": sum(row.labels for row in report.buckets) if report.label_counts is not None else None,
    }
    return [f"{count:,} {name}" for name, count in counted.items() if count is not None]


@cache
def environment() -> Environment:
    """Return what reads the templates beside this file."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "Report: a page needs jinja2; install it with: pip install 'tailmetrics[report]'"
        ) from None
    return Environment(
        loader=PackageLoader("tailmetrics", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
