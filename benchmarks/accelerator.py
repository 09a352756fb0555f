"""Times updates on an accelerator beside what its memory allows.

Run ``python -m benchmarks device --device cuda``.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from benchmarks import tables
from benchmarks.measure import Call, Settings, Timing, compare
from benchmarks.ours import ten_metrics, xmc_metrics
from benchmarks.workloads import Dense, Lists
from tailmetrics import rank

Row = tuple[str, ...]


def table(settings: Settings) -> str:
    """Return a line per call: the device's time, and the CPU time of the host.

    Events give the device's time; the CPU time ends when the call returns. If both are
    close, the host waited or held the device up. The share is of what copying moves.
    """
    rows = [
        row
        for shape in Dense.all(settings)
        for row in _dense(Dense.of(*shape, settings.device), settings)
    ]
    rows += _lists(Lists.xmc(settings), settings)
    return tables.table(
        ("on", "time", "host", "× topk 500", "share of copy bandwidth"), rows
    )


def _dense(data: Dense, settings: Settings) -> Iterator[Row]:
    scores, targets = data.scores, data.targets
    checked = ten_metrics(data.buckets).to(scores.device)
    plain, buckets = (
        ten_metrics(by, validate_args=False).to(scores.device)
        for by in (None, data.buckets)
    )
    calls = {
        "copy": Call(scores.clone),
        "amax": Call(lambda: scores.amax(1)),
        "torch.topk, k = 10": Call(lambda: torch.topk(scores, 10)),
        "torch.topk, k = 500": Call(lambda: torch.topk(scores, 500)),
        "rank, k = 10": Call(
            lambda: rank(scores, targets, depth=10, validate_args=False)
        ),
        "rank, k = 500": Call(
            lambda: rank(scores, targets, depth=500, validate_args=False)
        ),
        "10 metrics × 3 ks": Call(lambda: plain.update(scores, targets)),
        "10 metrics × 3 ks × 11 buckets": Call(lambda: buckets.update(scores, targets)),
        "the same, validate_args=True": Call(lambda: checked.update(scores, targets)),
    }
    times = compare(calls, "torch.topk, k = 500", settings)
    for name, time in times.items():
        yield _row(data.name, name, time, times["copy"], time.ratio)


def _lists(data: Lists, settings: Settings) -> Iterator[Row]:
    target = data.torch_csr
    fast, checked = (
        xmc_metrics(data.num_labels, validate).to(data.ids.device)
        for validate in (False, True)
    )
    calls = {
        "copy": Call(data.ids.clone),
        "P, nDCG, PSP at 1, 3, 5": Call(lambda: fast.update(data.ids, target)),
        "the same, validate_args=True": Call(lambda: checked.update(data.ids, target)),
    }
    for name, time in (times := compare(calls, "copy", settings)).items():
        yield _row(
            f"[{len(data)}, 100] ids, torch CSR", name, time, times["copy"], None
        )


def _row(
    workload: str, name: str, time: Timing, copy: Timing, to_topk: float | None
) -> Row:
    moved = 2 if name == "copy" else 1  # a copy reads and writes
    numbers = (
        tables.number(to_topk),
        tables.number(moved * copy.seconds / (2 * time.seconds)),
    )
    return (
        f"{name}, {workload}",
        tables.seconds(time.seconds),
        tables.seconds(time.cpu),
        *numbers,
    )
