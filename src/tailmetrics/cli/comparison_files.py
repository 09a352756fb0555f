"""Comparisons as a table in the terminal, and as JSON, Markdown and CSV."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from math import isnan
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

from tailmetrics.cli.plain import plain_record, write_csv
from tailmetrics.report.formatting import shown
from tailmetrics.report.inert import in_markdown
from tailmetrics.report.terminal import heading
from tailmetrics.significance import Comparison

COMPARE_FILES = ["compare.json", "compare.md", "compare.csv"]
COLUMNS = ("metric", "run", "baseline", "difference", "interval", "p", "corrected", "win/tie/loss", "effect", "")
BY_NEED = (3, 4, 6, 9, 1, 2, 5, 7, 8)
"""Columns behind the metric, in the order in which they come where one table has no room for all."""
KEY_WIDTH = 27
"""What a longer key is folded to before a column moves to the next table."""

LEGEND = (
    "p: randomisation test, rows swapped between the runs; corrected: {correction}, of {comparisons}; "
    "effect: Cohen's d of the row differences; *: significant at {level:.3g}."
)


def write_comparisons(found: Sequence[Comparison], correction: str, folder: Path) -> None:
    """Write ``compare.json``, ``compare.md`` and ``compare.csv``."""
    records = [_record(comparison) for comparison in found]
    content = {"correction": correction, "comparisons": records}
    (folder / "compare.json").write_text(json.dumps(content, indent=2) + "\n")
    (folder / "compare.md").write_text(_markdown(found, correction))
    write_csv(records, folder / "compare.csv")


def print_comparisons(found: Sequence[Comparison], correction: str, console: Console) -> None:
    """Print a table for each pair of runs, or several below one another where the terminal is too narrow for one."""
    for (run, baseline), part in _by_pair(found):
        console.print(heading(f"{run} against {baseline}"))
        for chosen in _side_by_side([_cells(comparison) for comparison in part], console.width):
            table = Table()
            for place in chosen:
                justify: Literal["left", "right"] = "right" if place else "left"
                table.add_column(COLUMNS[place], justify=justify, no_wrap=place > 0, overflow="fold")
            for comparison in part:
                cells = _cells(comparison)
                table.add_row(*(cells[place] for place in chosen), style="bold" if comparison.significant else None)
            console.print(table)
    console.print(_legend(found, correction), highlight=False)


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


def _markdown(found: Sequence[Comparison], correction: str) -> str:
    parts = ["# Comparison\n"]
    for (run, baseline), part in _by_pair(found):
        align = ["---", *("---:" for _ in COLUMNS[1:])]
        lines = [list(COLUMNS), align, *([in_markdown(one.key), *_cells(one)[1:]] for one in part)]
        parts.append(f"## {in_markdown(run)} against {in_markdown(baseline)}\n")
        parts.append("".join(f"| {' | '.join(cells)} |\n" for cells in lines))
    return "\n".join([*parts, _legend(found, correction), ""])


def _legend(found: Sequence[Comparison], correction: str) -> str:
    comparisons = f"{len(found)} comparison{'' if len(found) == 1 else 's'}"
    return LEGEND.format(correction=correction, comparisons=comparisons, level=1 - found[0].interval.confidence)


def _by_pair(found: Sequence[Comparison]) -> Iterator[tuple[tuple[str, str], list[Comparison]]]:
    for run, baseline in dict.fromkeys((comparison.run, comparison.baseline) for comparison in found):
        yield (run, baseline), [one for one in found if (one.run, one.baseline) == (run, baseline)]


def _cells(comparison: Comparison) -> list[str]:
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
