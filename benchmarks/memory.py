"""Measures how far the memory of an update goes beyond its inputs.

``python -m benchmarks.memory`` writes a table of benchmarks/README.md. Where the system
places the heap decides how well freed blocks are used again: the same update may stay
within 20 MiB in one process and go to a gigabyte in the next. So processes are started
anew, not forked from one another, and what has to be bounded is measured in several.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from math import nan
from pathlib import Path
from typing import Any

import torch

from benchmarks.ours import ten_metrics, token_metrics, xmc_metrics
from benchmarks.tables import PAGE, number, replace_table, table
from benchmarks.workloads import Dense, Lists, label_counts
from tailmetrics import (
    MRR,
    CrossEntropy,
    F1AtThreshold,
    LabelBuckets,
    NDCGAtK,
    RecallAtK,
)

Job = Callable[[], object]
Task = tuple[str, tuple[Any, ...]]

RESET = Path("/proc/self/clear_refs")
"""Where the system forgets how far a process went; Linux can."""

AT_ONCE = 2
"""Processes that run side by side; that changes their time, not their memory."""


def peaks(tasks: Sequence[Task]) -> list[float]:
    """Return by how many MiB a new process grows at most while it runs each task.

    Args:
        tasks: ``"module:function"`` and its arguments, numbers and strings. It returns
            a small job, which loads code and starts threads, and the job that counts;
            inputs it makes do not count.

    Returns:
        MiB; NaN where the system cannot say.
    """
    if not RESET.exists():
        return [nan for _ in tasks]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(_peak, tasks))


def _peak(task: Task) -> float:
    arguments = json.dumps([torch.get_num_threads(), *task])
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.memory", arguments]
    done = subprocess.run(
        command,
        cwd=Path(__file__).parents[1],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return float(done.stdout)


def _run(threads: int, name: str, args: Sequence[Any]) -> float:
    """Return what the job of that name takes in this process, MiB."""
    torch.set_num_threads(threads)
    module, function = name.split(":")
    small, job = getattr(import_module(module), function)(*args)
    small()
    # pages freed while inputs were made stay with the process; a job that took them up
    # again would seem to need none
    ctypes.CDLL(None).malloc_trim(0)
    RESET.write_text("5")
    before = _status("VmRSS")
    job()
    return _status("VmHWM") - before


def _status(field: str) -> float:
    line = next(
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith(field)
    )
    return int(line.split()[1]) / 1024


BIG = (1024, 131_072)
CASES: dict[str, tuple[Any, str, torch.dtype]] = {
    "10 metrics × 3 ks": (lambda _: ten_metrics(None), "targets", torch.float32),
    "10 metrics × 3 ks × 11 buckets": (
        lambda data: ten_metrics(data.buckets),
        "targets",
        torch.float32,
    ),
    "the same, bfloat16 scores": (
        lambda data: ten_metrics(data.buckets),
        "targets",
        torch.bfloat16,
    ),
    "recall of a bool target": (
        lambda _: RecallAtK(k=[1, 5, 10]),
        "mask",
        torch.float32,
    ),
    "nDCG of a bool target": (lambda _: NDCGAtK(k=[1, 5, 10]), "mask", torch.float32),
    "MRR of exact ranks": (lambda _: MRR(), "target", torch.float32),
    "cross-entropy": (lambda _: CrossEntropy(), "target", torch.float32),
    "F1 of a threshold": (lambda _: F1AtThreshold(3.0), "targets", torch.float32),
}
PROCESSES = 3
"""In how many processes each is measured; the largest counts."""


def update_job(name: str, num_rows: int, num_labels: int) -> tuple[Job, Job]:
    """Return a small update of the metrics called ``name``, and the one that counts."""
    make, field, dtype = CASES[name]

    def job(rows: int) -> Job:
        data = Dense.of(rows, num_labels)
        metrics, scores, target = (
            make(data),
            data.scores.to(dtype),
            getattr(data, field),
        )
        return lambda: metrics.update(scores, target)

    return job(2), job(num_rows)


def tokens_job(num_tokens: int) -> tuple[Job, Job]:
    """Return updates with a few logits, and with those that count."""
    metrics = token_metrics(LabelBuckets.deciles(label_counts(50_257)))

    def job(rows: int) -> Job:
        data = Dense.of(rows, 50_257)
        logits = data.scores.to(torch.bfloat16).unsqueeze(0)
        return lambda: metrics.update(logits, data.target.unsqueeze(0))

    return job(2), job(num_tokens)


def lists_job(rows: int, num_labels: int) -> tuple[Job, Job]:
    """Return jobs that add ranked ids with CSR targets."""
    collection = xmc_metrics(num_labels)

    def job(num_rows: int) -> Job:
        data = Lists.of(num_rows, 100, num_labels)
        return lambda target=data.csr: collection.update(data.ids, target)

    return job(2), job(rows)


def main() -> None:
    """Measure, print and write the table."""
    here, tasks = "benchmarks.memory", {}
    for name in CASES:
        tasks[f"{name}, [{BIG[0]}, {BIG[1]}]"] = (f"{here}:update_job", (name, *BIG))
    tasks["accuracy, MRR, perplexity, logits [4096, 50257], bfloat16"] = (
        f"{here}:tokens_job",
        (4096,),
    )
    tasks["precision, nDCG, PSP, [10000, 100] ids of 3,000,000 labels"] = (
        f"{here}:lists_job",
        (10_000, 3_000_000),
    )
    rows = [
        (name, number(max(peaks([task] * PROCESSES)))) for name, task in tasks.items()
    ]
    text = table(("an update takes, beside its inputs", "MiB"), rows)
    print(text)
    replace_table(PAGE, "benchmarks.memory", text)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(_run(*json.loads(sys.argv[1])))
    else:
        main()
