"""The same tasks by this library and by others: ``python -m benchmarks peers``."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.measure import Settings
from benchmarks.peers import labels, queries, scores
from benchmarks.peers.contest import Line, hold


def run(settings: Settings) -> Iterator[Line]:
    """Yield a line per competitor."""
    for group in (scores.contests, queries.contests, labels.contests):
        for contest in group(settings):
            yield from hold(contest, settings)
