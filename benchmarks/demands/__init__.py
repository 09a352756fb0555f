"""Each demand beside what was measured: ``python -m benchmarks demands``."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.demands import fields, lists, memory, scores
from benchmarks.demands.verdict import Verdict
from benchmarks.measure import Settings

GROUPS = (scores.dense, scores.tiny, lists.hits, lists.against_kernels, lists.many_labels, memory.memory, fields.fields)


def run(settings: Settings) -> Iterator[Verdict]:
    """Yield all verdicts."""
    for group in GROUPS:
        yield from group(settings)
