"""Confidence intervals of one run: computed from its table of values per row, written and printed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from tailmetrics.cli.options import ResamplingOptions
from tailmetrics.cli.plain import plain_record, write_csv
from tailmetrics.cli.ranks import Ranks
from tailmetrics.cli.row_table import RowTable, Values
from tailmetrics.evaluation.label_cells import end_to_end
from tailmetrics.evaluation.row_values import has_row_values
from tailmetrics.metrics import TopKMetric
from tailmetrics.report.formatting import number, printable
from tailmetrics.significance import Interval, intervals
from tailmetrics.significance.labels import OverLabels

INTERVAL_FILES = ["intervals.json", "intervals.csv"]
GROUP = 2**25
"""Values brought together at a time, 256 MB; each group of keys meets the same draws."""


def shared_intervals(
    path: Path, metrics: Sequence[TopKMetric], num_rows: int, ranks: Ranks, options: ResamplingOptions
) -> dict[str, Interval]:
    """Return the interval of each key on the first rank, from the rows of all ranks; call it on every rank."""
    with ranks.agreement():
        table = RowTable.open(path, whole=False) if path.exists() else None
    known = {key for one in ranks.all([] if table is None else list(table.labels)) for key in one}
    keys = [key for metric in metrics for key in list(metric.keys()) if has_row_values(metric) or key in known]
    size = max(1, GROUP // num_rows)
    found: dict[str, Interval] = {}
    for start in range(0, len(keys), size):
        group = keys[start : start + size]
        parts = ranks.gather(None if table is None else (table.values(group), table.medians))
        with ranks.agreement():
            if ranks.is_first:
                found |= _intervals([part for part in parts if part is not None], options)
    return found


def _intervals(parts: Sequence[tuple[Values, list[str]]], options: ResamplingOptions) -> dict[str, Interval]:
    values = _joined([values for values, _ in parts])
    medians = [key for key in parts[0][1] if key in values]
    resamples = options.resamples or 10_000
    return intervals(
        values,
        medians=medians,
        confidence=options.confidence,
        resamples=resamples,
        seed=options.seed,
        resample=options.resample,
    )


def _joined(parts: Sequence[Values]) -> Values:
    """Return the rows of all parts, one behind the other."""
    joined: Values = {}
    for key, pair in parts[0].items():
        columns: list[Any] = [part[key] for part in parts]
        if isinstance(pair, OverLabels):
            joined[key] = end_to_end(columns)
        elif isinstance(pair, tuple):
            joined[key] = (np.concatenate([one for one, _ in columns]), np.concatenate([one for _, one in columns]))
        else:
            joined[key] = np.concatenate(columns)
    return joined


def write_intervals(found: Mapping[str, Interval], title: str, folder: Path) -> None:
    """Write ``intervals.json`` and ``intervals.csv``, if there are any."""
    if not found:
        return
    plain = {key: plain_record(asdict(interval)) for key, interval in found.items()}
    (folder / "intervals.json").write_text(json.dumps({"title": title, "intervals": plain}, indent=2) + "\n")
    write_csv([{"key": key, **record} for key, record in plain.items()], folder / "intervals.csv")


def print_intervals(found: Mapping[str, Interval], console: Console) -> None:
    """Print one line per key."""
    if not found:
        return
    first = next(iter(found.values()))
    console.print(f"{first.confidence:.0%} confidence intervals", style="table.title", highlight=False)
    table = Table()
    table.add_column("metric", no_wrap=True)
    for column in ("value", "low", "high", "rows"):
        table.add_column(column, justify="right", no_wrap=True)
    for key, one in found.items():
        table.add_row(printable(key), number(one.value), number(one.low), number(one.high), f"{one.n:,}")
    console.print(table)
