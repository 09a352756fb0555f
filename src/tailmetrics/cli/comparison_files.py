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
from tailmetrics.report.inert import in_markdown
from tailmetrics.report.markdown import pipes
from tailmetrics.report.terminal import heading
from tailmetrics.significance import Comparison

COMPARE_FILES = [f"compare.{suffix}" for suffix in ("json", "md", "csv", "html", "png")]
BY_NEED = (3, 4, 6, 9, 1, 2, 5, 7, 8)
"""Columns behind the metric, in the order in which they come where one table has no room for all."""
KEY_WIDTH = 27
"""What a longer key is folded to before a column moves to the next table."""


def write_comparisons(report: ComparisonReport, folder: Path) -> None:
    """Write the comparison as JSON, Markdown, CSV, a page and a picture."""
    found, correction = report.comparisons, report.correction
    records = [_record(comparison) for comparison in found]
    content = {"correction": correction, "comparisons": records}
    (folder / "compare.json").write_text(json.dumps(content, indent=2) + "\n")
    (folder / "compare.md").write_text(_markdown(report))
    write_csv(records, folder / "compare.csv")
    report.write(folder)


def print_comparisons(found: Sequence[Comparison], correction: str, console: Console) -> None:
    """Print a table for each pair of runs, or several below one another where the terminal is too narrow for one."""
    for (run, baseline), part in _by_pair(found):
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
    console.print(legend(found, correction), highlight=False)


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


def _markdown(report: ComparisonReport) -> str:
    found, runs = report.comparisons, run_table(report)
    picture = "![All runs from the most frequent labels to the rarest](compare.png)\n"
    parts = [f"# {in_markdown(report.title)}\n", picture]
    if report.overall:
        align = ["---" if place < runs.texts else "---:" for place in range(len(runs.header))]
        parts.append(f"## {runs.title}\n\n{in_markdown(runs.caption)}\n\n{pipes([runs.header, align, *runs.lines])}")
    for (run, baseline), part in _by_pair(found):
        align = ["---", *("---:" for _ in COLUMNS[1:])]
        lines = [list(COLUMNS), align, *(cells(comparison) for comparison in part)]
        parts.append(f"## {in_markdown(run)} against {in_markdown(baseline)}\n")
        parts.append(pipes(lines))
    return "\n".join([*parts, legend(found, report.correction), ""])


def _by_pair(found: Sequence[Comparison]) -> Iterator[tuple[tuple[str, str], list[Comparison]]]:
    for run, baseline in dict.fromkeys((comparison.run, comparison.baseline) for comparison in found):
        yield (run, baseline), [one for one in found if (one.run, one.baseline) == (run, baseline)]


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
