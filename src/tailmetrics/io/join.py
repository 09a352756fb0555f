"""Predictions and targets whose lines name their query, brought to common rows and label ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailmetrics.io.agreement import check_agreement
from tailmetrics.io.engine import Engine
from tailmetrics.io.grouped_lines import GroupedLines
from tailmetrics.io.keyed import KeyedFile, KeyedSource
from tailmetrics.io.labels import LabelRule, Labels
from tailmetrics.io.names import UNKNOWN_HINT
from tailmetrics.io.rows import Array


@dataclass(frozen=True, eq=False)
class Joined:
    """Both files, the process's rows of them, and what was found on the way.

    Attributes:
        preds: Predictions; None for a target alone.
        target: Targets.
        start: The process's first row.
        stop: The row behind its last.
        row_names: Queries of all rows, of every process.
        labels: Label ids.
        engine: Where all of it lies: tables ``kept`` (query, row) and ``labels`` (item, id).
        last_name_wins: Whether the last name wins ties.
        missing: Queries of the target without a prediction.
        unmatched: Queries of the predictions without a target.
    """

    preds: KeyedSource | None
    target: KeyedSource
    start: int
    stop: int
    row_names: Sequence[str]
    labels: Labels
    engine: Engine
    last_name_wins: bool
    missing: int
    unmatched: int


def join(
    preds: KeyedFile | None,
    target: KeyedFile,
    rule: LabelRule,
    skip: bool,
    rank: int,
    world_size: int,
    memory: str,
) -> Joined:
    """Read both files and keep the process's queries: a share of the rows that follow one another."""
    engine = Engine(memory)
    files = {"target": target} if preds is None else {"target": target, "preds": preds}
    values = {name: file.load(engine, name) for name, file in files.items()}
    engine.run(
        "CREATE TABLE queries AS "
        "SELECT query, row_number() OVER (ORDER BY min(line)) - 1 AS code FROM target GROUP BY query"
    )
    missing, unmatched = (0, 0) if preds is None else _compared(engine, preds, target, rule)
    engine.run(
        "CREATE TABLE kept AS SELECT query, code, row_number() OVER (ORDER BY code) - 1 AS row FROM queries"
        + (" SEMI JOIN answered USING (query)" if skip and preds is not None else "")
    )
    labels = _labels(engine, files, rule)
    row_names = engine.names("SELECT query FROM kept ORDER BY row")
    start, stop = (len(row_names) * share // world_size for share in (rank, rank + 1))
    found = {}
    for name, file in files.items():
        lines = _lines(engine, name, values[name], start, stop)
        found[name] = KeyedSource(file.name, lines, start, row_names, labels.names, labels.width, engine)
    return Joined(
        found.get("preds"),
        found["target"],
        start,
        stop,
        row_names,
        labels,
        engine,
        rule.descending,
        missing,
        unmatched,
    )


def _compared(engine: Engine, preds: KeyedFile, target: KeyedFile, rule: LabelRule) -> tuple[int, int]:
    """Return how many queries of the target have no predictions, and how many of the predictions no target."""
    engine.run("CREATE TABLE answered AS SELECT DISTINCT query FROM preds")
    (missing,) = engine.row("SELECT count(*) FROM queries ANTI JOIN answered USING (query)")
    (unmatched,) = engine.row("SELECT count(*) FROM answered ANTI JOIN queries USING (query)")
    if missing and unmatched:
        engine.run(
            "CREATE TABLE asked AS SELECT query AS name, 0 AS file FROM answered UNION ALL SELECT query, 1 FROM queries"
        )
        check_agreement(engine, "asked", "query", [preds.name, target.name], bool(rule.strings))
        engine.run("DROP TABLE asked")
    return missing, unmatched


def _labels(engine: Engine, files: dict[str, KeyedFile], rule: LabelRule) -> Labels:
    """Give every item of all files its label id."""
    paths = [file.name for file in reversed(files.values())]
    items = " UNION ALL ".join(f"SELECT item, {file} AS file FROM {name}" for file, name in enumerate(reversed(files)))
    engine.run(f"CREATE TABLE held AS SELECT DISTINCT item AS name, file FROM ({items}) WHERE item IS NOT NULL")
    engine.run("CREATE TABLE met AS SELECT DISTINCT name AS item FROM held")
    if not rule.by_number:
        check_agreement(engine, "held", "label", paths, bool(rule.strings))
    labels = rule.number(engine, paths[0])
    if rule.by_number:  # whole numbers, as has been seen, which are written in one way
        check_agreement(engine, "held", "label", paths, True, may_differ=True)
    engine.run("DROP TABLE held")
    if rule.names is not None:
        for name, file in files.items():
            unknown = engine.row(
                f"SELECT line, item FROM {name} ANTI JOIN labels USING (item) "
                "WHERE item IS NOT NULL ORDER BY line LIMIT 1"
            )
            if unknown is not None:
                raise file.error(unknown[0], f"unknown label {unknown[1]!r}", UNKNOWN_HINT)
    return labels


def _lines(engine: Engine, name: str, value: np.dtype[Any] | None, start: int, stop: int) -> GroupedLines:
    """Return the lines of the process's rows, with the numbers of their rows and labels, and let go of their table.

    Files mostly hold the lines of a query side by side; only where they do not, lines are sorted.
    """
    types = {"label": np.dtype(np.int64)} if value is None else {"label": np.dtype(np.int64), "value": value}
    lines = GroupedLines(engine.folder, name, stop - start, types)
    (count,) = engine.row(f"SELECT count(*) FROM {name}")
    numbered = (
        f"SELECT row - {start} AS row, line AS place, id AS label{', value' if value is not None else ''} "
        f"FROM {name} JOIN kept USING (query) JOIN labels USING (item) WHERE row >= {start} AND row < {stop}"
    )
    if not lines.write(engine.stream(numbered), count):
        lines.write(_one_behind_the_other(engine.stream(f"{numbered} ORDER BY row, place")), count)
    engine.run(f"DROP TABLE {name}")
    return lines


def _one_behind_the_other(blocks: Iterable[dict[str, Array]]) -> Iterator[dict[str, Array]]:
    """Yield lines that come sorted by row and place, with new places, one behind the other."""
    count, last = 0, np.array([[-1], [-1]])
    for block in blocks:
        rows, places = (np.append(one, block[name]) for one, name in zip(last, ("row", "place"), strict=True))
        if (np.diff(rows) < 0).any() or (np.diff(places)[np.diff(rows) == 0] < 0).any():
            raise OSError("DuckDB returned lines in another order than was asked for; use another version of it.")
        yield block | {"place": np.arange(count, count + len(block["row"]))}
        count, last = count + len(block["row"]), np.array([rows[-1:], places[-1:]])
