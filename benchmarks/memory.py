"""Peak memory of one call in a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

Job = Callable[[], object]


def peak_megabytes(prepare: Callable[..., tuple[Job, Job]], *args: Any) -> float:
    """Return by how many MiB the memory of a fresh process grows at most while it runs a job.

    Args:
        prepare: Top-level function that returns a small job, which loads code and starts threads, and the job that
            counts; inputs it makes do not count.
        args: Its arguments.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload(["torch", "tailmetrics", "benchmarks.workloads"])
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(send, torch.get_num_threads(), prepare, args))
    process.start()
    send.close()
    peak: float = receive.recv()
    process.join()
    return peak


def _child(send: Any, threads: int, prepare: Callable[..., tuple[Job, Job]], args: tuple[Any, ...]) -> None:
    torch.set_num_threads(threads)
    small, job = prepare(*args)
    small()
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    job()
    send.send(_status("VmHWM") - before)


def _status(field: str) -> float:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) / 1024
