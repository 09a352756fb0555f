"""What is demanded of memory: how far an update may go beyond its inputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from benchmarks.demands.verdict import Verdict
from benchmarks.measure import Settings
from benchmarks.memory import MEASURABLE, Job, Task, peaks
from benchmarks.ours import ten_metrics, xmc_metrics
from benchmarks.workloads import Dense, Lists
from tailmetrics import MRR, CrossEntropy, NDCGAtK, RecallAtK, rank
from tailmetrics.ranking._kernels_cpu import CPU

HERE = "benchmarks.demands.memory"
SHAPE = (1024, 131_072)

CASES = {
    "10 metrics × 3 ks": (None, "targets", torch.float32),
    "10 metrics × 3 ks × 11 buckets": ("deciles", "targets", torch.float32),
    "the same, bfloat16 scores": ("deciles", "targets", torch.bfloat16),
    "RecallAtK, NDCGAtK of a bool target": ([RecallAtK, NDCGAtK], "mask", torch.float32),
    "MRR of exact ranks": ([MRR], "target", torch.float32),
    "CrossEntropy": ([CrossEntropy], "target", torch.float32),
}


def memory(settings: Settings) -> Iterator[Verdict]:
    """Yield the peak extra memory of updates: the largest of several processes."""
    if not MEASURABLE:
        return
    shape = (16, SHAPE[1]) if settings.quick else SHAPE
    case = f"[{shape[0]}, {shape[1]}]"
    for name in list(CASES)[:: 3 if settings.quick else 1]:
        yield _verdict(f"update: {name}", case, (f"{HERE}:update_job", (name, *shape)), 64.0, settings)
    yield _verdict("rank of one target", case, (f"{HERE}:exact_job", shape), 16.0, settings)
    rows = 500 if settings.quick else 10_000
    task = (f"{HERE}:lists_job", (rows, 3_000_000))
    yield _verdict("update: P, nDCG, PSP at 1, 3, 5", f"[{rows}, 100] over 3,000,000 labels", task, None, settings)


def _verdict(step: str, case: str, task: Task, demand: float | None, settings: Settings) -> Verdict:
    seen = peaks([task] * settings.processes)
    note = f"largest of {len(seen)} processes; least {min(seen):.1f}"
    return Verdict(step, case, max(seen), demand, "MiB", note)


def update_job(name: str, num_rows: int, num_labels: int) -> tuple[Job, Job]:
    """Return a small update of the metrics called ``name``, and the one that counts."""
    metrics, field, dtype = CASES[name]

    def job(rows: int) -> Job:
        data = Dense.of(rows, num_labels)
        target = getattr(data, field)
        scores = data.scores.to(dtype)
        if isinstance(metrics, list):
            updates = [_metric(one).update for one in metrics]
        else:
            updates = [ten_metrics(data.buckets if metrics == "deciles" else None).update]
        return lambda: [update(scores, target) for update in updates]

    return job(2), job(num_rows)


def _metric(metric: Any) -> Any:
    return metric(k=[1, 5, 10]) if metric in (RecallAtK, NDCGAtK) else metric()


def exact_job(num_rows: int, num_labels: int) -> tuple[Job, Job]:
    """Return jobs that rank one target per row exactly."""

    def job(rows: int) -> Job:
        data = Dense.of(rows, num_labels)
        entries = rank(data.scores, data.target, depth=1).targets.entries
        return lambda: CPU.exact_ranks(data.scores, entries)

    return job(2), job(num_rows)


def lists_job(rows: int, num_labels: int) -> tuple[Job, Job]:
    """Return jobs that add ranked ids with CSR targets."""
    collection = xmc_metrics(num_labels)

    def job(some: int) -> Job:
        data = Lists.of(some, 100, num_labels)
        return lambda target=data.csr: collection.update(data.ids, target)

    return job(2), job(rows)
