"""Comparisons as a table in the terminal, and as JSON, Markdown and CSV."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

from tailmetrics.cli.plain import plain_record, write_csv
from tailmetrics.report.comparison import ComparisonReport
from tailmetrics.report.comparison_tables import COLUMNS, cells, legend, run_table
from tailmetrics.report.comparison_text import by_pair
from tailmetrics.report.terminal import heading, printed
from tailmetrics.significance import Comparison

COMPARE_FILES = [f"compare.{suffix}" for suffix in ("json", "md", "tex", "csv", "html", "png")]
BY_NEED = (3, 4, 6, 9, 1, 2, 5, 7, 8)
"""Columns behind the metric, in the order in which they come where one table has no room for all."""
KEY_WIDTH = 27
"""What a longer key is folded to before a column moves to the next table."""


def write_comparisons(report: ComparisonReport, folder: Path) -> None:
    """Write the comparison as JSON, CSV, Markdown, LaTeX, a page and a picture."""
    found, correction = report.comparisons, report.correction
    records = [_record(comparison) for comparison in found]
    content = {"correction": correction, "comparisons": records}
    (folder / "compare.json").write_text(json.dumps(content, indent=2) + "\n")
    write_csv(records, folder / "compare.csv")
    report.write(folder)


def print_comparisons(report: ComparisonReport, console: Console) -> None:
    """Print one row per run, then a table for each pair of runs; several where the terminal is too narrow for one."""
    found = report.comparisons
    if report.overall:
        console.print(*printed(run_table(report), report.title, console.width), sep="\n")
    for (run, baseline), part in by_pair(found):
        console.print(heading(f"{run} against {baseline}"))
        for chosen in _side_by_side([cells(comparison) for comparison in part], console.width):
            table = Table()
            for place in chosen:
                justify: Literal["left", "right"] = "right" if place else "left"
                table.add_column(COLUMNS[place], justify=justify, no_wrap=place > 0, overflow="fold")
            for comparison in part:
                line = cells(comparison)
                table.add_row(*(line[place] for place in chosen), style="bold" if comparison.significant else None)
            console.print(table)
    console.print(legend(found, report.correction), highlight=False)


def _side_by_side(rows: Sequence[Sequence[str]], width: int) -> Iterator[list[int]]:
    """Yield the columns of each table, so that it fits: all of them in one or, behind the metric, a few in each."""
    widths = [max(map(len, column)) + 3 for column in zip(COLUMNS, *rows, strict=True)]  # with padding and a line
    if sum(widths) < width:
        yield list(range(len(COLUMNS)))
        return
    key = min(widths[0], KEY_WIDTH + 3)
    group: list[int] = []
    for place in BY_NEED:
        if group and key + sum(widths[one] for one in (*group, place)) >= width:
            yield [0, *group]
            group = []
        group.append(place)
    yield [0, *group]


def _record(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as flat, plain data; what is undefined is None."""
    whole = asdict(comparison)
    interval, p, corrected = (whole.pop(name) for name in ("interval", "p", "p_corrected"))
    record = {
        **{name: whole.pop(name) for name in ("key", "run", "baseline", "statistic", "value", "baseline_value")},
        "difference": interval.pop("value"),
        **interval,
        **{f"p_{test}": value for test, value in p.items()},
        **{f"p_{test}_corrected": value for test, value in corrected.items()},
        "significant": comparison.significant,
        **whole,
    }
    return plain_record(record)
