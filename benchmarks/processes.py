"""What ``compute()`` costs over several gloo processes: ``python -m benchmarks.processes [--beside FOLDER ...]``.

``FOLDER`` is the ``src`` of another checkout, measured in turns with this one: ``git worktree add ../base v0.1.0``, and
``--beside ../base/src``. Times are medians of five runs, each of them the median of five calls. Memory is how much the
peak of a process grows during a call.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, distributed, multiprocessing

NUM_LABELS = 3_000_000
WORLDS = (2, 4)
RUNS = 5


def ten() -> Any:
    """Ten metrics at three cut-offs in eleven buckets."""
    import tailmetrics as t

    counts = (1e5 / torch.arange(1, 1001) ** 1.1).long()
    buckets, k = t.LabelBuckets.deciles(counts), [1, 3, 5]
    classes = (t.PrecisionAtK, t.RecallAtK, t.F1AtK, t.HitRateAtK, t.NormalizedRecallAtK, t.NDCGAtK, t.DCGAtK)
    members = [one(k=k, buckets=buckets) for one in (*classes, t.MAP, t.MRR)]
    psp = t.PropensityScoredPrecisionAtK(k=k, buckets=buckets, label_counts=counts, num_train=100_000)
    collection = t.TopKCollection([*members, psp])
    collection.update(torch.randn(64, 1000), torch.rand(64, 1000).topk(3).indices)
    return collection


def lists() -> tuple[Tensor, Tensor]:
    """Ranked ids of 4096 rows of ten among three million labels, and targets among them."""
    ids = torch.randint(0, NUM_LABELS // 10, (4096, 1)) * 10 + torch.arange(10)
    return ids, ids[:, 3:5].contiguous()


def macro() -> Any:
    """Macro F1 of three million labels."""
    import tailmetrics as t

    metric = t.F1AtK(k=5, average="macro", num_labels=NUM_LABELS)
    metric.update(*lists())
    return metric


def coverage() -> Any:
    """Coverage of three million labels: how often each is shown, and whether it was ever right."""
    import tailmetrics as t

    members = [t.CatalogCoverageAtK(k=5, num_labels=NUM_LABELS), t.PositiveCoverageAtK(k=5, num_labels=NUM_LABELS)]
    metric = t.TopKCollection(members)
    metric.update(*lists())
    return metric


WORK = {
    "ten metrics × 3 k × 11 buckets": ten,
    "macro F1, 3 million labels": macro,
    "coverage, 3 million labels": coverage,
}


def forget(metric: Any) -> None:
    """Let the next ``compute()`` compute again."""
    for one in metric.values() if hasattr(metric, "values") else [metric]:
        one._computed = None


def peak() -> float:
    """Return the most memory that the process has held, in MB."""
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1024


def measure(process: int, world: int, work: str, folder: str) -> None:
    """Time one process's part; the first process writes the median and the growth of its peak."""
    torch.set_num_threads(1)
    torch.manual_seed(process)
    meet = f"file://{folder}/meet"
    distributed.init_process_group("gloo", init_method=meet, rank=process, world_size=world)
    metric, times = WORK[work](), []
    metric.compute()
    for _ in range(5):
        forget(metric)
        distributed.barrier()
        start = time.perf_counter()
        metric.compute()
        times.append(time.perf_counter() - start)
    forget(metric)
    Path("/proc/self/clear_refs").write_text("5")  # the peak from here on
    before = peak()
    metric.compute()
    if not process:
        Path(folder, "found").write_text(f"{median(times) * 1000} {peak() - before}")
    distributed.barrier()
    distributed.destroy_process_group()


def run_once(source: str | None, work: str, world: int) -> tuple[float, float]:
    """Return milliseconds and megabytes of one run in processes of their own."""
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ)
        if source is not None:
            environment["PYTHONPATH"] = os.pathsep.join([source, environment.get("PYTHONPATH", "")])
        command = [sys.executable, "-m", "benchmarks.processes", "--run", work, str(world), folder]
        subprocess.run(command, env=environment, check=True, stderr=subprocess.DEVNULL)
        milliseconds, megabytes = Path(folder, "found").read_text().split()
    return float(milliseconds), float(megabytes)


def table(sources: list[str | None]) -> list[str]:
    """Return the lines of a Markdown table; sources are measured in turns."""
    names = ["here" if source is None else Path(source).parent.name for source in sources]
    lines = [
        "| what | processes | " + " | ".join(f"{name}, ms | {name}, MB" for name in names) + " |",
        "|---|---|" + "---|---|" * len(names),
    ]
    for work in WORK:
        for world in WORLDS:
            found: list[list[tuple[float, float]]] = [[] for _ in sources]
            for _ in range(RUNS):
                for source, of_source in zip(sources, found, strict=True):
                    of_source.append(run_once(source, work, world))
            cells = (
                f"{median(ms for ms, _ in one):.3g} | {max(0.0, median(mb for _, mb in one)):.0f}" for one in found
            )
            lines.append(f"| {work} | {world} | " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beside", nargs="*", default=[], metavar="FOLDER")
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        work, world, folder = given.run
        multiprocessing.spawn(measure, args=(int(world), work, folder), nprocs=int(world))
        return
    print("\n".join(table([*given.beside, None])))


if __name__ == "__main__":
    main()
