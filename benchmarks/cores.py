"""Times an update on 1, 2 and all threads, idle and beside a torch program.

Run ``python -m benchmarks.cores [--quick]``. All run in turns, and a number is a
median. More threads should never be slower than fewer. ``amax`` reads every score once,
which is the limit of the memory.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch

from benchmarks.__main__ import machine
from benchmarks.measure import Call, Settings, beside_torch, compare, numbers_of_threads
from benchmarks.ours import query_metrics, ten_metrics
from benchmarks.tables import PAGE, number, replace_table, table
from benchmarks.workloads import label_counts
from tailmetrics import (
    MAP,
    HitRateAtK,
    LabelBuckets,
    NDCGAtK,
    PrecisionAtK,
    RecallAtK,
    TopKCollection,
)


def main() -> None:
    """Measure, print and write the table; ``--quick`` writes nothing."""
    settings = Settings(quick="--quick" in sys.argv, seconds=5.0)
    facts, work = (
        machine(packages=("tailmetrics", "torch")),
        workloads(64 if settings.quick else 1),
    )
    columns = []
    for busy in (False, True):
        with beside_torch(busy):
            columns.append(
                {name: _milliseconds(run, settings) for name, run in work.items()}
            )
    heads = [
        f"{n} thread{'s' if n > 1 else ''}{where}"
        for where in ("", ", busy")
        for n in numbers_of_threads()
    ]
    rows = [
        [
            name,
            *(
                number(milliseconds)
                for column in columns
                for milliseconds in column[name]
            ),
        ]
        for name in work
    ]
    text = f"{table(['wall ms', *heads], rows)}\n\n{facts}"
    print(text)
    if not settings.quick:
        replace_table(PAGE, "benchmarks.cores", text)


def _milliseconds(run: Callable[[], object], settings: Settings) -> list[float]:
    """Return the time of a call on each number of threads."""

    def on(threads: int) -> Call:
        def call() -> None:
            torch.set_num_threads(threads)
            run()

        return Call(call)

    times = compare(
        {str(threads): on(threads) for threads in numbers_of_threads()}, "1", settings
    )
    return [1000 * time.seconds for time in times.values()]


def workloads(part: int = 1) -> dict[str, Callable[[], object]]:
    """Return what is timed, by name; ``part`` divides the rows."""
    generator = torch.Generator().manual_seed(0)

    def distinct(rows: int, labels: int, width: int) -> torch.Tensor:
        return torch.rand(rows // part, labels, generator=generator).topk(width).indices

    ids, judged, measures = (
        distinct(20_000, 1000, 100),
        distinct(20_000, 1000, 5),
        query_metrics(),
    )
    scores, target = (
        torch.rand(1024 // part, 20_000, generator=generator),
        distinct(1024, 20_000, 5),
    )
    ten = ten_metrics(LabelBuckets.deciles(label_counts(20_000)))
    wide, places = (
        torch.rand(256 // part, 131_072, generator=generator),
        distinct(256, 131_072, 1)[:, 0],
    )
    tiny, classes = torch.rand(32, 1000, generator=generator), torch.arange(32)
    hit, small = HitRateAtK(10), HitRateAtK(10)
    at_10 = [PrecisionAtK(10), RecallAtK(10), NDCGAtK(10), MAP(10), HitRateAtK(10)]
    five = TopKCollection(at_10)
    return {
        "ten metrics × 3 ks × 11 buckets, [1024, 20000]": lambda: ten.update(
            scores, target
        ),
        "`torch.topk(scores, 500)` of it": lambda: torch.topk(scores, 500),
        "`scores.amax(1)` of it": lambda: scores.amax(1),
        "five measures at 10, [1024, 20000]": lambda: five.update(scores, target),
        "hit rate at 10, [256, 131072]": lambda: hit.update(wide, places),
        "`torch.topk(scores, 10)` of it": lambda: torch.topk(wide, 10),
        "`scores.amax(1)` of them": lambda: wide.amax(1),
        "five measures of 20,000 × 100 ranked ids": lambda: measures.update(
            ids, judged
        ),
        "hit rate at 10, [32, 1000]": lambda: small.update(tiny, classes),
        "`torch.topk(scores, 10)` of these": lambda: torch.topk(tiny, 10),
    }


if __name__ == "__main__":
    main()
