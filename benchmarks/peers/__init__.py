"""The same tasks by this library and by others: ``python -m benchmarks peers``."""

from __future__ import annotations

from benchmarks import tables
from benchmarks.measure import Settings
from benchmarks.peers import labels, queries, scores
from benchmarks.peers.contest import hold


def table(settings: Settings) -> str:
    """Return the table of each competitor's time, absolute and relative.

    A ratio is to this library on as many threads.
    """
    rows: list[list[str]] = []
    for group in (scores.contests, queries.contests, labels.contests):
        for contest in group(settings):
            lines = hold(contest, settings)
            for line in lines:
                task = f"{line.task}, {line.workload}" if line is lines[0] else ""
                ratios = [tables.number(ratio) for ratio in line.to_ours.values()]
                rows.append([task, line.who, tables.seconds(line.seconds), *ratios])
                print(" · ".join([*rows[-1], line.note]), flush=True)
            heads = [
                "task",
                "who",
                "time",
                *(f"÷ ours, {where}" for where in lines[0].to_ours),
            ]
    return tables.table(heads, rows)
