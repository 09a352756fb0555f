"""Prints recall and nDCG at 10 of files from other programs, reading included.

Run ``python -m benchmarks.files.rivals WHO FORM FOLDER``. pyarrow only reads.
"""

from __future__ import annotations

import csv
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

SUFFIXES = {
    "TREC": ("run", "qrels"),
    "CSV": ("csv", "csv"),
    "JSON Lines": ("jsonl", "jsonl"),
}
SUFFIXES |= {
    "long Parquet": ("parquet", "parquet"),
    "Parquet lists": ("lists.parquet", "lists.parquet"),
}
"""Format -> suffixes of the run and of the judgements."""


def files(form: str, folder: Path) -> tuple[Path, Path]:
    """Return the run and the judgements."""
    run, judged = SUFFIXES[form]
    return folder / f"run.{run}", folder / f"judged.{judged}"


def by_duckdb(form: str, run: Path, judged: Path) -> Iterable[float]:
    """One statement, on one thread, with as much memory as it wants."""
    import duckdb

    fields = (
        "delim=' ', header=false, quote='', columns={'query': 'VARCHAR', 'x': "
        "'VARCHAR', 'item': 'VARCHAR', "
    )
    readers = {
        "TREC": (
            (
                f"read_csv('{run}', {fields}'rank': 'INTEGER', 'score': 'FLOAT', "
                "'tag': 'VARCHAR'})"
            ),
            f"read_csv('{judged}', {fields}'gain': 'INTEGER'}})",
        ),
        "JSON Lines": (f"read_json('{run}')", f"read_json('{judged}')"),
    }
    preds, target = readers.get(form, (f"'{run}'", f"'{judged}'"))
    statement = f"""
    WITH run AS MATERIALIZED (SELECT query, item, score FROM {preds}),
    judged AS MATERIALIZED (SELECT query, item, gain FROM {target} WHERE gain > 0),
    best AS (
        SELECT query, item, row_number() OVER (PARTITION BY query ORDER BY score DESC, item DESC) AS place FROM run
        QUALIFY place <= 10
    ),
    found AS (
        SELECT query, count(*) AS hits, sum(gain / log2(place + 1)) AS dcg
        FROM best JOIN judged USING (query, item) GROUP BY query
    ),
    ideal AS (
        SELECT query, count(*) AS relevant, sum(gain / log2(place + 1)) FILTER (WHERE place <= 10) AS dcg
        FROM (SELECT query, gain, row_number() OVER (PARTITION BY query ORDER BY gain DESC) AS place FROM judged)
        GROUP BY query
    )
    SELECT avg(coalesce(hits, 0) / relevant), avg(coalesce(found.dcg, 0) / ideal.dcg)
    FROM ideal LEFT JOIN found USING (query) WHERE query IN (SELECT query FROM run)
    """
    return tuple(
        duckdb.connect(config={"threads": 1}).execute(statement).fetchone() or ()
    )


def by_pytrec_eval(form: str, run: Path, judged: Path) -> Iterable[float]:
    """Its own readers of TREC, and plain loops for the other formats."""
    import pytrec_eval

    if form == "TREC":
        with judged.open() as qrels, run.open() as lines:
            target, preds = pytrec_eval.parse_qrel(qrels), pytrec_eval.parse_run(lines)
    else:
        target, preds = (
            _nested(form, judged, "gain", int),
            _nested(form, run, "score", float),
        )
    found = pytrec_eval.RelevanceEvaluator(
        target, {"recall_10", "ndcg_cut_10"}
    ).evaluate(preds)
    return [
        sum(one[name] for one in found.values()) / len(found)
        for name in ("recall_10", "ndcg_cut_10")
    ]


def _nested(form: str, path: Path, value: str, kind: type) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = defaultdict(dict)
    for query, item, number in _lines(form, path, value):
        found[query][item] = kind(number)
    return dict(found)


def _lines(form: str, path: Path, value: str) -> Iterator[tuple[str, str, Any]]:
    if form == "CSV":
        with path.open(newline="") as file:
            rows = csv.reader(file)
            next(rows)
            yield from ((row[0], row[1], row[2]) for row in rows)
    elif form == "JSON Lines":
        with path.open() as file:
            for line in file:
                one = json.loads(line)
                yield one["query"], one["item"], one[value]
    else:
        import pyarrow.parquet as pq

        columns = pq.read_table(path, use_threads=False).to_pydict()
        yield from zip(columns["query"], columns["item"], columns[value], strict=True)


def by_ranx(_: str, run: Path, judged: Path) -> Iterable[float]:
    """Its own reader of TREC."""
    from ranx import Qrels, Run, evaluate

    target, preds = (
        Qrels.from_file(str(judged), kind="trec"),
        Run.from_file(str(run), kind="trec"),
    )
    return evaluate(target, preds, ["recall@10", "ndcg@10"]).values()  # type: ignore[no-any-return]


def by_pyarrow(_: str, run: Path, judged: Path) -> Iterable[float]:
    """Read the columns, and no more."""
    import pyarrow.parquet as pq

    for path in (run, judged):
        with pq.ParquetFile(path, pre_buffer=False, buffer_size=2**20) as file:
            sum(
                len(batch)
                for batch in file.iter_batches(batch_size=8192, use_threads=False)
            )
    return ()


WHO = {
    "DuckDB's SQL": by_duckdb,
    "pytrec_eval": by_pytrec_eval,
    "ranx": by_ranx,
    "pyarrow, reading alone": by_pyarrow,
}

if __name__ == "__main__":
    who, form, folder = sys.argv[1:]
    print(*WHO[who](form, *files(form, Path(folder))))
