"""Evaluates a million rows of 100 predictions over 670,000 labels from Parquet, on one process and on two.

python benchmarks/parquet.py [--rows 1000000] [--folder /tmp/tailmetrics-parquet]

Prints the time per command, the part of it that rows take (beyond the same command on a thousand rows), that part
relative to reading the same columns with pyarrow alone, by the clock and by processor time, and peak memory of a
process beyond that of the imported libraries. Every process has one thread, as torchrun has it. Fails unless both
reports hold the same bits.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

LABELS, PREDICTIONS, RELEVANT, GROUP = 670_000, 100, 5, 50_000
SCRAMBLE = 48_611
"""Coprime to LABELS: multiplying by it leaves ids distinct, and without an order."""
IMPORTS = "import tailmetrics.cli.run, tailmetrics.io.parquet, tailmetrics.report.figures, matplotlib.figure, jinja2"
READING = """
import sys, pyarrow.parquet as pq
for path, columns in ((sys.argv[1], ["ids", "scores"]), (sys.argv[2], ["labels"])):
    with pq.ParquetFile(path, pre_buffer=False, buffer_size=2**20) as file:
        rows = sum(len(batch) for batch in file.iter_batches(batch_size=8192, columns=columns))
"""


@dataclass(frozen=True)
class Used:
    """What a command used: seconds, seconds of all its processors, and megabytes of its largest process."""

    seconds: float
    cpu: float
    megabytes: float


@dataclass(frozen=True)
class Data:
    """Generated files, and where the reports on them go."""

    folder: Path
    rows: int

    @property
    def files(self) -> tuple[str, str]:
        """Predictions and targets."""
        return str(self.folder / "preds.parquet"), str(self.folder / "target.parquet")

    def evaluate(self, out: str) -> list[str]:
        """Arguments of Python that evaluate the files."""
        preds, target = self.files
        counts = ["--label-counts", str(self.folder / "counts.npy"), "--num-train", "1000000"]
        files = ["--preds", preds, "--target", target, "--out", str(self.folder / out)]
        return ["-m", "tailmetrics", "evaluate", "--preset", "xmc", *files, *counts, "--quiet"]


def generate(folder: Path, rows: int) -> None:
    """Write predictions, targets of which about half are predicted, and long-tailed training counts."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    schemas = {
        "preds": pa.schema({"ids": pa.list_(pa.int32()), "scores": pa.list_(pa.float32())}),
        "target": pa.schema({"labels": pa.list_(pa.int32())}),
    }
    writers = {
        name: pq.ParquetWriter(folder / f"{name}.parquet", schema, use_dictionary=False)
        for name, schema in schemas.items()
    }
    for start in range(0, rows, GROUP):
        size = min(GROUP, rows - start)
        gaps = rng.integers(1, LABELS // (PREDICTIONS + RELEVANT), size=(size, PREDICTIONS + RELEVANT))
        ids = gaps.cumsum(axis=1) * SCRAMBLE % LABELS
        scores = -np.sort(-rng.random((size, PREDICTIONS), dtype=np.float32), axis=1)
        predicted = rng.random((size, RELEVANT)) < 0.5
        places = np.arange(0, PREDICTIONS, PREDICTIONS // RELEVANT) + rng.integers(0, 20, (size, RELEVANT))
        relevant = np.where(predicted, np.take_along_axis(ids, places, axis=1), ids[:, PREDICTIONS:])
        columns = {"ids": ids[:, :PREDICTIONS], "scores": scores}
        writers["preds"].write_table(pa.table({name: lists(one) for name, one in columns.items()}, schemas["preds"]))
        writers["target"].write_table(pa.table({"labels": lists(relevant)}, schemas["target"]))
    for writer in writers.values():
        writer.close()
    np.save(folder / "counts.npy", (1e6 / np.arange(1, LABELS + 1)).astype(np.int64))


def lists(matrix: np.ndarray) -> pa.Array:
    """Return a matrix as a column of lists."""
    flat = pa.array(matrix.reshape(-1).astype(np.float32 if matrix.dtype.kind == "f" else np.int32))
    return pa.ListArray.from_arrays(np.arange(0, matrix.size + 1, matrix.shape[1], dtype=np.int32), flat)


def measure(*command: str) -> Used:
    """Run a command to its end."""
    start = time.perf_counter()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}")
    return Used(time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def evaluated(data: Data, small: Data, imported: Used) -> None:
    """Evaluate on one process and on two, and print a line for each."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    reading = measure(sys.executable, "-c", READING, *data.files)
    print(f"{'':<15}{'seconds':>9}{'on rows':>9}{'rows/s':>10}{'to reading':>12}{'CPU to it':>11}{'MB beyond':>11}")
    print(f"{'reading alone':<15}{reading.seconds:>9.1f}{'':>9}{data.rows / reading.seconds:>10,.0f}")
    for name, python in (("one process", [sys.executable]), ("two processes", launcher)):
        start, used = (measure(*python, *one.evaluate(name)) for one in (small, data))
        seconds, cpu = used.seconds - start.seconds, (used.cpu - start.cpu) / reading.cpu
        speed = f"{seconds:>9.1f}{data.rows / seconds:>10,.0f}{seconds / reading.seconds:>12.1f}{cpu:>11.1f}"
        print(f"{name:<15}{used.seconds:>9.1f}{speed}{used.megabytes - imported.megabytes:>11,.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/tailmetrics-parquet"))
    options = parser.parse_args()
    small, data = (Data(options.folder / str(rows), rows) for rows in (1000, options.rows))
    for one in (small, data):
        if not (one.folder / "counts.npy").exists():
            generate(one.folder, one.rows)
    imported = measure(sys.executable, "-c", IMPORTS)
    size = sum(os.path.getsize(path) for path in data.files) / 1e9
    print(f"{data.rows:,} rows x {PREDICTIONS} predictions over {LABELS:,} labels: {size:.2f} GB of Parquet")
    print(f"libraries alone: {imported.megabytes:,.0f} MB")
    evaluated(data, small, imported)
    one, two = ((data.folder / name / "report.json").read_bytes() for name in ("one process", "two processes"))
    print(f"the reports hold the same bits: {one == two}")
    if one != two:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
