"""Updates on an accelerator beside what its memory allows: ``python -m benchmarks device --device cuda``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from benchmarks import tables
from benchmarks.measure import Call, Settings, Timing, compare
from benchmarks.ours import ten_metrics, xmc_metrics
from benchmarks.workloads import Dense, Lists
from tailmetrics import rank


@dataclass(frozen=True)
class Reading:
    """One call on one workload.

    Attributes:
        workload: Its sizes.
        what: The call.
        seconds: By the device's events.
        host: CPU seconds until the call returned: where it nears ``seconds``, the host waited or held the device up.
        to_topk: Relative to ``torch.topk`` at 500; None for ranked ids.
        bandwidth: Bytes of the inputs per second, as a share of what copying them moves; 1 is the limit.
    """

    workload: str
    what: str
    seconds: float
    host: float
    to_topk: float | None
    bandwidth: float


def table(settings: Settings) -> str:
    """Return a line per call."""
    readings = [line for shape in Dense.all(settings) for line in _dense(Dense.of(*shape, settings.device), settings)]
    readings += _lists(Lists.xmc(settings), settings)
    rows = [
        (
            f"{line.what}, {line.workload}",
            tables.seconds(line.seconds),
            tables.seconds(line.host),
            tables.number(line.to_topk),
            tables.number(line.bandwidth),
        )
        for line in readings
    ]
    return tables.table(("on", "time", "host", "× topk 500", "share of copy bandwidth"), rows)


def _dense(data: Dense, settings: Settings) -> Iterator[Reading]:
    scores, targets = data.scores, data.targets
    checked = ten_metrics(data.buckets).to(scores.device)
    plain, buckets = (ten_metrics(one, validate_args=False).to(scores.device) for one in (None, data.buckets))
    calls = {
        "copy": Call(scores.clone),
        "amax": Call(lambda: scores.amax(1)),
        "torch.topk, k = 10": Call(lambda: torch.topk(scores, 10)),
        "torch.topk, k = 500": Call(lambda: torch.topk(scores, 500)),
        "rank, k = 10": Call(lambda: rank(scores, targets, depth=10, validate_args=False)),
        "rank, k = 500": Call(lambda: rank(scores, targets, depth=500, validate_args=False)),
        "10 metrics × 3 ks": Call(lambda: plain.update(scores, targets)),
        "10 metrics × 3 ks × 11 buckets": Call(lambda: buckets.update(scores, targets)),
        "the same, validate_args=True": Call(lambda: checked.update(scores, targets)),
    }
    times = compare(calls, "torch.topk, k = 500", settings)
    for name, time in times.items():
        yield _reading(data.name, name, time, times["copy"], time.ratio)


def _lists(data: Lists, settings: Settings) -> Iterator[Reading]:
    target = data.torch_csr
    fast, checked = (xmc_metrics(data.num_labels, validate).to(data.ids.device) for validate in (False, True))
    calls = {
        "copy": Call(data.ids.clone),
        "P, nDCG, PSP at 1, 3, 5": Call(lambda: fast.update(data.ids, target)),
        "the same, validate_args=True": Call(lambda: checked.update(data.ids, target)),
    }
    times = compare(calls, "copy", settings)
    for name, time in times.items():
        yield _reading(f"[{len(data)}, 100] ids, torch CSR", name, time, times["copy"], None)


def _reading(workload: str, name: str, time: Timing, copy: Timing, to_topk: float | None) -> Reading:
    moved = 2 if name == "copy" else 1  # a copy reads and writes
    return Reading(workload, name, time.seconds, time.cpu, to_topk, moved * copy.seconds / (2 * time.seconds))
