"""A report in the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions
from rich.table import Table
from rich.text import Text

from tailmetrics.report.formatting import bucket_lines, shown

if TYPE_CHECKING:
    from tailmetrics.report.report import Report

BESIDE = 34
"""Columns of a terminal that bucket, labels and positives take."""


def print_report(report: Report, console: Console | None = None) -> None:
    """Print the overall values, the values from head to tail, and what to know before believing them."""
    (console or Console()).print(TerminalReport(report))


@dataclass(frozen=True)
class TerminalReport:
    """A report as rich prints it: as many metrics side by side as the terminal has room for."""

    report: Report

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table | Text]:
        """Yield the parts for a terminal of this width."""
        report = self.report
        if report.overall:
            yield heading(report.title)
            yield _overall(report)
        if report.by_bucket:
            yield heading(f"{report.title}, from the most frequent labels to the rarest")
        for metrics in _side_by_side(list(report.by_bucket), options.max_width - BESIDE):
            yield _by_bucket(report, metrics)
        yield from (Text(f"! {warning}", style="yellow") for warning in report.warnings)


def heading(title: str) -> Text:
    """Return a title for above a table, as wide as the terminal: rich wraps a table's own title to the table."""
    return Text(title, style="table.title")


def _side_by_side(metrics: list[str], width: int) -> Iterator[list[str]]:
    """Yield the metrics in groups whose names fit into ``width`` columns, or alone."""
    group: list[str] = []
    for metric in metrics:
        if group and sum(len(name) + 3 for name in (*group, metric)) > width:
            yield group
            group = []
        group.append(metric)
    if group:
        yield group


def _overall(report: Report) -> Table:
    table = Table()
    table.add_column("metric")
    table.add_column("value", justify="right")
    for key, value in report.overall.items():
        table.add_row(Text(key), shown(value))
    return table


def _by_bucket(report: Report, metrics: list[str]) -> Table:
    table = Table()
    table.add_column("bucket", no_wrap=True)
    for column in ("labels", "positives", *metrics):
        table.add_column(Text(column), justify="right", no_wrap=True)
    for cells in bucket_lines(report, metrics):
        table.add_row(*map(Text, cells))
    return table
