"""Updates on an idle machine and beside another torch program, on one thread and on all: ``python -m benchmarks.busy``.

Each number is the median over launches of fresh processes of the median of nine updates. The other program multiplies
matrices on all cores. The table of docs/performance.md is replaced.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import torch

from benchmarks.measure import beside_torch
from benchmarks.ours import query_metrics, ten_metrics
from benchmarks.tables import replace_table
from tailmetrics import HitRateAtK, LabelBuckets

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "benchmarks" / "page.md", ROOT / "docs" / "performance.md"
NAMES = {
    "lists": "five measures of 20,000 × 100 ranked ids",
    "dense": "ten metrics × 3 ks × 11 buckets, [1024, 20000], ids",
    "tiny": "hit rate at 10, [32, 1000]",
    "topk": "`torch.topk(scores, 500)`, [1024, 20000]",
}


def main() -> None:
    """Measure, print and write the table; with ``--one``, measure one workload in this process."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.busy", description=__doc__)
    parser.add_argument("--launches", type=int, default=10)
    parser.add_argument("--one", choices=NAMES)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()
    if options.one:
        torch.set_num_threads(options.threads)
        print(*_times(_workload(options.one)))
        return
    found = _table(options.launches, options.threads)
    print(found)
    for page in PAGES:
        replace_table(page, "benchmarks.busy", found)


def _table(launches: int, threads: int) -> str:
    heads = [
        "wall ms (CPU ms)",
        "idle, 1 thread",
        f"idle, {threads}",
        "beside torch, 1 thread",
        f"beside torch, {threads}",
    ]
    lines = [heads, ["---", *["---:"] * 4]]
    lines += [[name, *["–"] * 4] for name in NAMES.values()]
    column = 1
    for busy in (False, True):
        for number in (1, threads):
            with beside_torch(busy):
                for row, name in enumerate(NAMES, start=2):
                    lines[row][column] = _cell(name, number, launches)
            column += 1
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _cell(name: str, threads: int, launches: int) -> str:
    command = [sys.executable, "-m", "benchmarks.busy", "--one", name, "--threads", str(threads)]
    runs = [subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True) for _ in range(launches)]
    walls, cpus = zip(*(map(float, run.stdout.split()) for run in runs), strict=True)
    return f"{median(walls):.3g} ({median(cpus):.3g}), at most {max(walls):.3g}"


def _workload(name: str) -> Callable[[], object]:
    generator = torch.Generator().manual_seed(0)

    def distinct(rows: int, labels: int, width: int) -> torch.Tensor:
        return torch.rand(rows, labels, generator=generator).topk(width).indices

    if name == "lists":
        ids, target, metrics = distinct(20_000, 1000, 100), distinct(20_000, 1000, 5), query_metrics()
        return lambda: metrics.update(ids, target)
    if name == "tiny":
        scores, target, hit_rate = torch.rand(32, 1000, generator=generator), torch.arange(32), HitRateAtK(10)
        return lambda: hit_rate.update(scores, target)
    scores = torch.rand(1024, 20_000, generator=generator)
    if name == "topk":
        return lambda: torch.topk(scores, 500, dim=1)
    counts = (500_000 / torch.arange(1, 20_001, dtype=torch.float64)).long()
    target, collection = distinct(1024, 20_000, 5), ten_metrics(LabelBuckets.deciles(counts))
    return lambda: collection.update(scores, target)


def _times(call: Callable[[], object]) -> tuple[float, float]:
    """Return the medians of wall and CPU milliseconds, the first two calls left out."""
    walls, cpus = [], []
    for _ in range(11):
        wall, cpu = perf_counter(), process_time()
        call()
        walls.append(1000 * (perf_counter() - wall))
        cpus.append(1000 * (process_time() - cpu))
    return median(walls[2:]), median(cpus[2:])


if __name__ == "__main__":
    main()
