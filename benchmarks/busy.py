"""Updates on an idle machine and beside another torch program, on one thread and on all: ``python -m benchmarks.busy``.

A launch is a fresh process, whose first two updates are on all threads. Then updates on one thread and on all follow in
turns. The table of docs/performance.md, which this replaces, holds medians over launches. The other program multiplies
matrices on all cores.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch

from benchmarks.measure import Call, Settings, beside_torch, compare, sample
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


SECONDS = 5.0
"""How long the turns of a launch last: beside another program single updates differ by half."""


def main() -> None:
    """Measure, print and write the table; with ``--one``, measure one workload in this process."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.busy", description=__doc__)
    parser.add_argument("--launches", type=int, default=10)
    parser.add_argument("--one", choices=NAMES)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()
    if options.one:
        print(*_launched(_workload(options.one), options.threads))
        return
    found = _table(options.launches, options.threads)
    print(found)
    for page in PAGES:
        replace_table(page, "benchmarks.busy", found)


def _launched(update: Callable[[], object], threads: int) -> list[float]:
    """Return wall ms of the first two updates; wall and CPU on one thread and on all; the ratio of walls of a round."""

    def on(number: int) -> Call:
        def run() -> None:
            torch.set_num_threads(number)
            update()

        return Call(run)

    firsts = [sample(on(threads).run, 1, "cpu")[0] for _ in range(2)]
    one, every = compare({"one": on(1), "all": on(threads)}, "one", Settings(seconds=SECONDS)).values()
    return [1000 * time for time in (*firsts, one.seconds, one.cpu, every.seconds, every.cpu)] + [every.ratio]


def _table(launches: int, threads: int) -> str:
    heads = ["wall ms (CPU ms)"]
    lines = [[name] for name in NAMES.values()]
    for busy, where in ((False, "idle"), (True, "beside torch")):
        heads += [f"{where}: first, second", "1 thread", f"{threads} threads", f"{threads} : 1, most"]
        with beside_torch(busy):
            for line, name in zip(lines, NAMES, strict=True):
                line += _cells(name, threads, launches)
    rules = ["---", *["---:"] * (len(heads) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, rules, *lines))


def _cells(name: str, threads: int, launches: int) -> list[str]:
    command = [sys.executable, "-m", "benchmarks.busy", "--one", name, "--threads", str(threads)]
    runs = [subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True) for _ in range(launches)]
    found = list(zip(*(map(float, run.stdout.split()) for run in runs), strict=True))
    first, second, *times, ratio = map(median, found)
    print(f"{name}: {', '.join(f'{one:.2f}' for one in sorted(found[-1]))}", flush=True)
    walls = [f"{wall:.3g} ({cpu:.3g})" for wall, cpu in zip(times[::2], times[1::2], strict=True)]
    return [f"{first:.3g}, {second:.3g}", *walls, f"{ratio:.2f}, {max(found[-1]):.2f}"]


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


if __name__ == "__main__":
    main()
