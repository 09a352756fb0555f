"""Time and memory of an update against rows, labels, depth and number of metrics: ``python -m benchmarks growth``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass, replace

import torch

from benchmarks.measure import Call, Settings, compare
from benchmarks.memory import Job, Task, peaks
from benchmarks.ours import evaluate, ten_metrics, xmc_metrics
from benchmarks.workloads import Dense, Lists


@dataclass(frozen=True)
class Case:
    """Sizes of an update of so many metrics at three cut-offs by 11 buckets."""

    rows: int = 1024
    labels: int = 40_000
    depth: int = 500
    metrics: int = 10


AXES = {
    "rows": (512, 1024, 2048, 4096),
    "labels": (10_000, 40_000, 160_000),
    "depth": (10, 100, 500, 1000),
    "metrics": (1, 2, 5, 10),
}

MANY_LABELS = (200_000, 1_000_000, 3_000_000)


@dataclass(frozen=True)
class Point:
    """One size on one axis.

    Attributes:
        axis: What grows.
        size: How large it is.
        seconds: Per update.
        ratio: To ``torch.topk`` of the same scores and depth; None for ranked ids.
        megabytes: Peak extra memory in MiB.
    """

    axis: str
    size: int
    seconds: float
    ratio: float | None
    megabytes: float


def run(settings: Settings) -> Iterator[Point]:
    """Yield the points of all axes."""
    least = Case(rows=16) if settings.quick else Case()
    for axis, sizes in AXES.items():
        cases = [replace(least, **{axis: size}) for size in (sizes[:2] if settings.quick else sizes)]
        tasks: list[Task] = [("benchmarks.growth:update_job", astuple(case)) for case in cases]
        taken = peaks(tasks) if settings.device == "cpu" else [None] * len(cases)
        for case, peak in zip(cases, taken, strict=True):
            yield _point(axis, case, peak, settings)
    if settings.device == "cpu":
        yield from _many_labels(settings)


def _point(axis: str, case: Case, peak: float | None, settings: Settings) -> Point:
    data = Dense.of(case.rows, case.labels, settings.device)
    collection = ten_metrics(data.buckets, case.metrics, case.depth).to(settings.device)
    calls = {
        "topk": Call(lambda: torch.topk(data.scores, case.depth)),
        "ours": Call(lambda: collection.update(data.scores, data.targets)),
    }
    time = compare(calls, "topk", settings)["ours"]
    megabytes = _peak_on_cuda(calls["ours"]) if peak is None else peak
    return Point(axis, getattr(case, axis), time.seconds, time.ratio, megabytes)


def update_job(*sizes: int) -> tuple[Job, Job]:
    """Return a small update, and the one whose memory counts, of a :class:`Case` of these sizes."""
    case = Case(*sizes)
    data = Dense.of(case.rows, case.labels)
    collection = ten_metrics(data.buckets, case.metrics, case.depth)

    def job(rows: int) -> Job:
        return lambda: collection.update(data.scores[:rows], data.targets[:rows])

    return job(2), job(case.rows)


def _peak_on_cuda(call: Call) -> float:
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call.run()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def _many_labels(settings: Settings) -> Iterator[Point]:
    rows = 500 if settings.quick else 10_000
    taken = peaks([("benchmarks.demands.memory:lists_job", (rows, num_labels)) for num_labels in MANY_LABELS])
    for num_labels, peak in zip(MANY_LABELS, taken, strict=True):
        data, collection = Lists.of(rows, 100, num_labels), xmc_metrics(num_labels)
        calls = {"ours": Call(lambda c=collection, d=data: evaluate(c, d.ids, d.csr))}
        seconds = compare(calls, "ours", replace(settings, seconds=settings.seconds / 2))["ours"].seconds
        yield Point("labels, ranked ids and CSR targets", num_labels, seconds, None, peak)
