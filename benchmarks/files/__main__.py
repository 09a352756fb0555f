"""Times the command line on files, beside floors.

``python -m benchmarks.files`` writes the table of benchmarks/README.md. Every number is
the median of processes on one thread. No process writes values of rows. Start-up is
taken off: what the same command takes on a file of 2,000 lines. Processor time is that
of the system too, memory the most that a process held.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isclose
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.files.data import DEPTH, MORE_LISTS
from benchmarks.files.rivals import SUFFIXES, files
from benchmarks.tables import PAGE, number, replace_table, table

ROOT = Path(__file__).parents[2]
OURS, DUCKDB, PYTREC_EVAL, RANX, PYARROW = (
    "tailmetrics",
    "DuckDB's SQL",
    "pytrec_eval",
    "ranx",
    "pyarrow, reading alone",
)
SIZES = {"start": 20, "1/10 ×": 800, "1 ×": 8_000, "4 ×": 32_000, "16 ×": 128_000}
"""Queries of 100 lines each; of lists four times as many."""
GROWING = ("1 ×", "4 ×", "16 ×")
PLAN = {
    OURS: GROWING,
    DUCKDB: ("16 ×",),
    PYTREC_EVAL: ("4 ×",),
    RANX: ("1/10 ×",),
    PYARROW: ("16 ×",),
}
"""What is measured of whom: the slower a program, the less it is given."""
LISTS = "Parquet lists"
REPEATED = 5
"""How often start-up is measured, and what takes about as long; all else three times.
"""


@dataclass(frozen=True)
class Used:
    """Processor seconds and the most megabytes of a process."""

    seconds: float
    megabytes: float


def main() -> None:
    """Measure, print and write the table; ``--quick`` writes nothing."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.files", description=__doc__
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="tiny files: see that all runs; the numbers say nothing",
    )
    options = parser.parse_args()
    shrink = 500 if options.quick else 1
    sizes = {name: max(20, queries // shrink) for name, queries in SIZES.items()}
    with TemporaryDirectory() as folder:
        found = dict(measured(Path(folder), sizes))
    text = _table(found, sizes)
    print(text)
    if not options.quick:
        replace_table(PAGE, "benchmarks.files", text)


Key = tuple[str, str, str]
"""Who, on which format, of which size."""


def measured(folder: Path, sizes: dict[str, int]) -> Iterator[tuple[Key, Used]]:
    """Yield the use of each competitor, size by size.

    Competitors that follow one another meet the same machine.

    Raises:
        SystemExit: If two give different numbers.
    """
    for size, queries in sizes.items():
        _run("-m", "benchmarks.files.data", str(folder / size), str(queries))
        for form in SUFFIXES:
            values: list[list[float]] = []
            for who in _who(form, size):
                times = REPEATED if size == "start" or form == LISTS else 3
                runs = [
                    _of(who, form, folder / size, folder / "report")
                    for _ in range(times)
                ]
                used = Used(
                    median(one.seconds for one, _ in runs),
                    median(one.megabytes for one, _ in runs),
                )
                said = runs[0][1]
                values += [said] if said else []
                print(
                    (
                        f"{size} {form}, {who}: {used.seconds:.2f} CPU-s, "
                        f"{used.megabytes:.0f} MB"
                    ),
                    flush=True,
                )
                yield (who, form, size), used
            if any(
                not isclose(*pair, rel_tol=1e-6)
                for other in values
                for pair in zip(values[0], other, strict=True)
            ):
                raise SystemExit(
                    f"{form}, {size}: not all give the same numbers: {values}"
                )


def _who(form: str, size: str) -> Sequence[str]:
    others = (
        (PYARROW,)
        if form == LISTS
        else (DUCKDB, PYTREC_EVAL, *((RANX,) if form == "TREC" else ()))
    )
    return [who for who in (OURS, *others) if size == "start" or size in PLAN[who]]


def _of(who: str, form: str, folder: Path, out: Path) -> tuple[Used, list[float]]:
    """Return what somebody uses, and recall and nDCG if they are found."""
    if who != OURS:
        used, said = _run("-m", "benchmarks.files.rivals", who, form, str(folder))
        return used, [float(word) for word in said.split()]
    preds, target = (str(path) for path in files(form, folder))
    data = ["--preds", preds, "--target", target, "--out", str(out), "--overwrite"]
    metrics = [
        "--metrics+=RecallAtK",
        "--metrics.k=10",
        "--metrics+=NDCGAtK",
        "--metrics.k=10",
    ]
    labels = ["--num-labels", "300000"] if form == LISTS else []
    # the others give two numbers, too
    plain = ["--no-rows", "--no-intervals", "--quiet"]
    used, _ = _run("-m", "tailmetrics", "evaluate", *metrics, *data, *labels, *plain)
    found: dict[str, Any] = json.loads((out / "report.json").read_text())["metrics"]
    return used, [found["recall@10"], found["ndcg@10"]]


def _run(*command: str) -> tuple[Used, str]:
    """Return what a process of Python uses, and what it prints.

    The system counts what its parent holds as the process's own, which is why nothing
    large is imported here.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    process = subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        env=environment,
        cwd=ROOT,
        text=True,
    )
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(
            f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}"
        )
    return Used(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024), said


def _beyond(found: dict[Key, Used], who: str, form: str, size: str) -> float:
    """Return seconds beyond start-up."""
    return found[who, form, size].seconds - found[who, form, "start"].seconds


def _ratio(found: dict[Key, Used], form: str, size: str, other: str) -> float | None:
    """Return our seconds by those of another; None where that was not measured.

    Competitors with a tenth of the lines take at least ten times as long for all.
    """
    scale = 10 if PLAN[other] == ("1/10 ×",) and size == GROWING[0] else 1
    given = "1/10 ×" if scale == 10 else size
    if (other, form, given) not in found:
        return None
    floor = scale * _beyond(found, other, form, given)
    return _beyond(found, OURS, form, size) / floor if floor > 0 else None


def _table(found: dict[Key, Used], sizes: dict[str, int]) -> str:
    """Return a line per format: use at the largest file, and ratios to others.

    A ratio is at the largest file that both were given.
    """
    others = (DUCKDB, PYTREC_EVAL, RANX, PYARROW)
    rows = []
    for form in SUFFIXES:
        most = GROWING[-1]
        ratios = [
            next(
                filter(
                    None, (_ratio(found, form, size, who) for size in GROWING[::-1])
                ),
                None,
            )
            for who in others
        ]
        lines = sizes[most] * DEPTH * (MORE_LISTS if form == LISTS else 1)
        used = (
            number(_beyond(found, OURS, form, most)),
            f"{found[OURS, form, most].megabytes:,.0f}",
        )
        rows.append((form, f"{lines:,}", *used, *map(number, ratios)))
    return table(
        ("format", "lines", "CPU-s", "MB", *(f"÷ {who}" for who in others)), rows
    )


if __name__ == "__main__":
    main()
