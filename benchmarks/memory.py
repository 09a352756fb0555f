"""Peak memory of a call, in processes of their own.

Where the system places the heap decides how well freed blocks are used again: the same update may stay within 20 MiB
in one process and go to a gigabyte in the next. So processes are started anew, not forked from one another, and what
has to be bounded is measured in several.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from math import nan
from pathlib import Path
from typing import Any

import torch

Job = Callable[[], object]
Task = tuple[str, tuple[Any, ...]]

RESET = Path("/proc/self/clear_refs")
MEASURABLE = RESET.exists()
"""Whether the system can say how far a process went since a given moment; Linux can."""

GAUGE_ERROR = 3.0
"""MiB by which a measurement may be off: the kernel counts pages in batches, and first calls load code."""

AT_ONCE = 2
"""Processes that run side by side; that changes their time, not their memory."""


def peaks(tasks: Sequence[Task]) -> list[float]:
    """Return by how many MiB the memory of a new process grows at most while it runs a job, for each of ``tasks``.

    Args:
        tasks: ``"module:function"`` and its arguments, numbers and strings. It returns a small job, which loads code
            and starts threads, and the job that counts; inputs it makes do not count.

    Returns:
        MiB; NaN where the system cannot say.
    """
    if not MEASURABLE:
        return [nan for _ in tasks]
    _check_gauge()
    return _peaks(tasks)


def _peaks(tasks: Sequence[Task]) -> list[float]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(_peak, tasks))


def _peak(task: Task) -> float:
    arguments = json.dumps([torch.get_num_threads(), *task])
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.memory", arguments]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], check=True, stdout=subprocess.PIPE, text=True)
    return float(done.stdout)


@cache
def _check_gauge() -> None:
    """Raise unless allocations of known size, in a process that has freed as much before, are seen."""
    sizes = (4, 30)
    for size, seen in zip(sizes, _peaks([("benchmarks.memory:known_job", (size,)) for size in sizes]), strict=True):
        if abs(seen - size) > GAUGE_ERROR:
            raise RuntimeError(f"peaks: {size} MiB were seen as {seen:.1f}; memory cannot be measured here.")


def known_job(mebibytes: int) -> tuple[Job, Job]:
    """Return jobs of which the small one frees what it took, and the other takes ``mebibytes``."""

    def take(size: int) -> float:
        return float(torch.ones(size * 2**18).sum())

    return lambda: [take(size) for size in (4, 12, 30)], lambda: take(mebibytes)


def _run(threads: int, name: str, args: Sequence[Any]) -> float:
    """Return what the job of that name takes in this process, MiB."""
    torch.set_num_threads(threads)
    module, function = name.split(":")
    small, job = getattr(import_module(module), function)(*args)
    small()
    # pages freed while inputs were made stay with the process; a job that took them up again would seem to need none
    ctypes.CDLL(None).malloc_trim(0)
    RESET.write_text("5")
    before = _status("VmRSS")
    job()
    return _status("VmHWM") - before


def _status(field: str) -> float:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    print(_run(*json.loads(sys.argv[1])))
