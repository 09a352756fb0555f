"""Measures how large the state of a metric is.

``python -m benchmarks.states`` writes the table of docs/distributed.md.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path

import torch

import tailmetrics as tm
from benchmarks.tables import replace_table, table

LABELS = 3_000_000
K = (1, 5, 10)
PAGE = Path(__file__).parents[1] / "docs" / "distributed.md"


def metrics(buckets: tm.LabelBuckets) -> Iterator[tm.TopKMetric]:
    """Yield metrics at three cut-offs, by bucket where they can be."""
    for kind in (tm.RecallAtK, tm.NDCGAtK):
        yield kind(k=K, buckets=buckets)
    yield tm.PropensityScoredPrecisionAtK(
        k=K, label_counts=buckets.counts, num_train=10**7, buckets=buckets
    )
    yield tm.KForRecall(0.9, buckets=buckets)
    yield tm.F1AtK(k=K, average="macro", num_labels=LABELS)
    yield tm.CatalogCoverageAtK(k=K, num_labels=LABELS)


def lines() -> Iterable[tuple[str, str, int, int]]:
    """Yield the name, buckets and bytes of each metric, and what a task sends of it."""
    counts = torch.arange(LABELS).flip(0) // 1000
    buckets = tm.LabelBuckets.deciles(counts)
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(LABELS, (1000, 20), generator=generator)
    for metric in metrics(buckets):
        metric.update(ids, ids[:, ::7])
        num_bytes = sum(
            state.numel() * state.element_size()
            for state in metric.metric_state.values()
        )
        by = "11 buckets" if metric.buckets is not None else "overall"
        metric.persistent(True)
        file = BytesIO()
        torch.save(metric.state_dict(), file)
        yield type(metric).__name__, by, num_bytes, len(zlib.compress(file.getvalue()))


def main() -> None:
    rows = [
        (f"`{name}`", by, f"{num_bytes:,}", f"{sent:,}")
        for name, by, num_bytes, sent in lines()
    ]
    replace_table(
        PAGE,
        "benchmarks.states",
        table(("metric", "", "bytes held", "bytes sent by a task"), rows),
    )


if __name__ == "__main__":
    main()
