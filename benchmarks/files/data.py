"""Writes files of generated runs and judgements.

Run ``python -m benchmarks.files.data FOLDER QUERIES``. A query has 100 ranked items of
300,000, and ten relevant ones, of which half are retrieved. The same numbers are
written in every format but for list columns, which hold four times as many: they are
read in a fraction of the time. Nothing ties.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ITEMS, DEPTH, STEP = 300_000, 100, 48_611
"""STEP is a prime that does not divide ITEMS: a query has distinct items, unsorted."""
MORE_LISTS = 4

RUN = f"""
SELECT 'q' || query AS query, printf('D%06d', (query * 7919 + place * {STEP}) % {ITEMS}) AS item,
       printf('%.4f', 20 - place * 0.15 - query % 7 * 0.01)::DOUBLE AS score
FROM (SELECT i // {DEPTH} AS query, i % {DEPTH} AS place FROM range({{queries}} * {DEPTH}) AS lines(i))
"""
JUDGED = f"""
SELECT 'q' || query AS query, printf('D%06d', (query * 7919 + place * {STEP}) % {ITEMS}) AS item, place % 3 + 1 AS gain
FROM (
    SELECT i // 10 AS query, CASE WHEN i % 2 = 0 THEN (i % 10 * 9 + i // 10 % 9) ELSE {DEPTH} + i % 10 END AS place
    FROM range({{queries}} * 10) AS lines(i)
)
"""
LINES = "(DELIMITER ' ', HEADER false, QUOTE '')"
WRITTEN = {
    "run.run": (
        "COPY (SELECT query, 'Q0', item, 1, score, 'run' FROM run) TO "
        f"'{{path}}' {LINES}"
    ),
    "judged.qrels": (
        f"COPY (SELECT query, 0, item, gain FROM judged) TO '{{path}}' {LINES}"
    ),
    **{
        f"{name}.{suffix}": f"COPY {name} TO '{{path}}' (FORMAT {form})"
        for name in ("run", "judged")
        for suffix, form in (
            ("csv", "CSV, HEADER"),
            ("jsonl", "JSON"),
            ("parquet", "PARQUET"),
        )
    },
}
"""Name of a file -> the statement that writes it."""


def write(folder: Path, queries: int) -> None:
    """Write all files of one size."""
    import duckdb

    folder.mkdir(parents=True, exist_ok=True)
    sql = duckdb.connect(config={"threads": 1})
    sql.execute(f"CREATE VIEW run AS {RUN.format(queries=queries)}")
    sql.execute(f"CREATE VIEW judged AS {JUDGED.format(queries=queries)}")
    for name, statement in WRITTEN.items():
        sql.execute(statement.format(path=folder / name))
    write_lists(folder, MORE_LISTS * queries)


def write_lists(folder: Path, queries: int) -> None:
    """Write list columns, best first, that compress no better than those of a model."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    def lists(matrix: Any) -> Any:
        offsets = np.arange(0, matrix.size + 1, matrix.shape[1], dtype=np.int32)
        return pa.ListArray.from_arrays(offsets, pa.array(matrix.reshape(-1)))

    rng = np.random.default_rng(0)
    gaps = rng.integers(1, ITEMS // (DEPTH + 5), (queries, DEPTH + 5))
    ids = gaps.cumsum(axis=1) * STEP % ITEMS  # distinct, as STEP does not divide ITEMS
    scores = -np.sort(-rng.random((queries, DEPTH), dtype=np.float32), axis=1)
    columns = {"ids": lists(ids[:, :DEPTH].astype(np.int32)), "scores": lists(scores)}
    labels = lists(ids[:, DEPTH // 2 :: 10].astype(np.int32))
    plain: dict[str, Any] = {"row_group_size": 10_000, "use_dictionary": False}
    pq.write_table(pa.table(columns), folder / "run.lists.parquet", **plain)
    pq.write_table(
        pa.table({"labels": labels}), folder / "judged.lists.parquet", **plain
    )


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]))
