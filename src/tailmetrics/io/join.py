"""Predictions and targets whose lines name their query, brought to common rows and label ids.

Rows are the target's queries in the order they are first met. Each statement holds one large thing at a time, a join or
a sort: two of them in one statement need twice the memory, and DuckDB refuses rather than spills.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from tailmetrics.io.database import Database
from tailmetrics.io.errors import DataFileError, note
from tailmetrics.io.files import FilePath
from tailmetrics.io.labels import LabelRule, Labels, check_agreement
from tailmetrics.io.lines import KeyedFile, Values
from tailmetrics.io.rows import UNKNOWN_HINT, Ints, Ragged, Source, starts

BEYOND_HINT = "string_ids=True takes numbers for names: each that the files hold is one label, whatever its value."
RANGE_HINT = "label ids are the columns of the matrix, from 0."
NAME_BYTES = 256
"""What a name takes in a join, its place in the table of hashes included: names that fit are joined at once."""


class Joined(NamedTuple):
    """Both files, the process's rows of them, and what was found on the way.

    Attributes:
        preds: Predictions; None for a target alone.
        target: Targets.
        database: Where all of it lies: tables ``kept`` (query), whose ``rowid`` is the row, and ``labels`` (item, id).
        known: What :class:`tailmetrics.io.dataset.Files` says of them.
    """

    preds: JoinedSource | None
    target: JoinedSource
    database: Database
    known: dict[str, Any]


class JoinedSource(Source):
    """A process's rows of joined files.

    Args:
        file: The files.
        database: With their lines in a table (row, label, value), in the order of the rows.
        table: Its name.
        values: What the values are.
        rows: The process's rows.
        row_names: Queries of all rows, of every process.
        labels: The label ids.
    """

    def __init__(
        self,
        file: KeyedFile,
        database: Database,
        table: str,
        values: Values,
        rows: range,
        row_names: Sequence[str],
        labels: Labels,
    ) -> None:
        self.path = file.name
        self.num_rows = len(row_names)
        self.num_labels = labels.width
        self._first = rows.start
        self._ranked = values.ranked
        value = ", value" if values.given else ""
        self._read = f"SELECT label{value} FROM {table} WHERE row >= ? AND row < ? ORDER BY rowid"
        found = database.arrays(f"SELECT row, count(*) AS length FROM {table} GROUP BY row")
        self._lengths: Ints = np.zeros(len(rows), np.int64)
        self._lengths[found["row"] - rows.start] = found["length"]
        self.cells_per_row = int(self._lengths.max(initial=0))
        self._row_names = row_names
        self._label_names = labels.names
        self._database = database

    def batches(self, start: int, stop: int, size: int) -> Iterator[Ragged]:
        """Yield the rows, each in the order of its lines."""
        for first in range(start, stop, size):
            end = min(first + size, stop)
            found = self._database.arrays(self._read, first, end)
            lengths = self._lengths[first - self._first : end - self._first]
            if self._ranked:
                self.check_ranks(-found["value"], lengths, first)
            yield Ragged(starts(lengths), found["label"], found.get("value"))

    def describe_row(self, row: int) -> str:
        """Return the query of a row."""
        return f"query {self._row_names[row]!r}"

    def describe_label(self, label_id: int) -> str:
        """Return the name of a label, if it has one."""
        return str(label_id) if self._label_names is None else repr(self._label_names[label_id])


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
    database = Database(memory)
    files = {"target": target} if preds is None else {"target": target, "preds": preds}
    values = {name: file.load(database, name) for name, file in files.items()}
    database.run("CREATE TABLE asked AS SELECT query, min(rowid) AS first FROM target GROUP BY query")
    missing, unmatched = (0, 0) if preds is None else _compared(database, preds, target, rule)
    asked = "asked"
    if skip and missing:
        database.run("CREATE TABLE common AS SELECT query, first FROM asked SEMI JOIN answered USING (query)")
        asked = "common"
    with database.in_order():
        database.run(f"CREATE TABLE kept AS SELECT query FROM {asked} ORDER BY first", doing="numbering queries")
    labels = _labels(database, files, rule)
    row_names = database.names("SELECT query FROM kept ORDER BY rowid")
    start, stop = (len(row_names) * share // world_size for share in (rank, rank + 1))
    found = {}
    for name, file in files.items():
        _order(database, name, file, values[name].given, range(start, stop), len(row_names) + labels.width)
        rows = range(start, stop)
        found[name] = JoinedSource(file, database, f"{name}_rows", values[name], rows, row_names, labels)
    known = {
        "num_rows": len(row_names),
        "num_labels": labels.declared,
        "label_names": labels.names,
        "row_names": row_names,
        "missing_queries": missing,
        "unmatched_queries": unmatched,
        "start": start,
        "stop": stop,
        "columns": labels.width,
    }
    return Joined(found.get("preds"), found["target"], database, known)


def _compared(database: Database, preds: KeyedFile, target: KeyedFile, rule: LabelRule) -> tuple[int, int]:
    """Return how many queries of the target have no predictions, and how many of the predictions no target."""
    database.run("CREATE TABLE answered AS SELECT DISTINCT query FROM preds", doing="comparing queries")
    (missing,) = database.row("SELECT count(*) FROM asked ANTI JOIN answered USING (query)")
    (unmatched,) = database.row("SELECT count(*) FROM answered ANTI JOIN asked USING (query)")
    if missing and unmatched:
        database.run(
            "CREATE TABLE queries AS SELECT query AS name, 0 AS file FROM answered UNION ALL SELECT query, 1 FROM asked"
        )
        check_agreement(database, "queries", "query", [preds.name, target.name], bool(rule.strings))
        database.run("DROP TABLE queries")
    return missing, unmatched


def _labels(database: Database, files: dict[str, KeyedFile], rule: LabelRule) -> Labels:
    """Give every item of all files its label id."""
    paths = [file.name for file in reversed(files.values())]
    items = " UNION ALL ".join(f"SELECT item, {file} AS file FROM {name}" for file, name in enumerate(reversed(files)))
    held = f"SELECT DISTINCT item AS name, file FROM ({items}) WHERE item IS NOT NULL"
    database.run(f"CREATE TABLE held AS {held}", doing="comparing labels")
    database.run("CREATE TABLE met AS SELECT DISTINCT name AS item FROM held")
    if not rule.by_number:
        check_agreement(database, "held", "label", paths, bool(rule.strings))
        _note_lists(database, paths)
    labels = rule.number(database, paths[0])
    if rule.by_number:  # whole numbers, as has been seen, which are written in one way
        check_agreement(database, "held", "label", paths, True, may_differ=True)
    database.run("DROP TABLE held")
    wrong, problem, hint = "", "", ""
    if rule.names is not None:
        wrong, problem, hint = "ANTI JOIN labels USING (item) WHERE item <> ''", "unknown label {!r}", UNKNOWN_HINT
    elif rule.by_number and labels.declared is not None and labels.width > labels.declared:
        is_given = rule.matrix is None
        told_by, hint = ("num_labels says", BEYOND_HINT) if is_given else (f"{rule.matrix} has", RANGE_HINT)
        wrong, problem = (
            f"WHERE item::BIGINT >= {labels.declared}",
            f"has the label id {{}}, but {told_by} {labels.declared}",
        )
    for name, file in files.items() if wrong else ():
        found = database.row(f"SELECT query, item FROM {name} t {wrong} ORDER BY t.rowid LIMIT 1")
        if found is not None:
            raise DataFileError(file.name, problem.format(found[1]), f"query {found[0]!r}", hint)
    return labels


def _note_lists(database: Database, paths: Sequence[FilePath]) -> None:
    """Say that an item such as A;B is one label, where A is an item, too."""
    first = "trim(regexp_extract(name, '^([^;|]+)[;|].', 1))"
    several = f"SELECT name, file FROM held JOIN met ON item = {first} WHERE {first} <> '' ORDER BY 1, 2 LIMIT 1"
    found = database.row(several)
    if found is not None:
        name, file = found
        note(paths[file], f"the item {name!r} is one label; where it means several, write one of them on each line.")


def _order(database: Database, name: str, file: KeyedFile, valued: bool, rows: range, names: int) -> None:
    """Make a table (row, label, value) of the process's lines, in the order of rows and lines."""
    value = ", value" if valued else ""
    number = "INTEGER" if names < 2**31 else "BIGINT"
    doing = f"joining {file.name.name}"
    own = f"kept.rowid >= {rows.start} AND kept.rowid < {rows.stop}"
    if names * NAME_BYTES < database.limit:
        joined = (
            f"(SELECT kept.rowid::{number} AS row, t.rowid AS place, id::{number} AS label{value} FROM {name} t "
            f"JOIN kept USING (query) JOIN labels USING (item) WHERE {own})"
        )
    else:
        database.run(
            f"CREATE TABLE numbered AS SELECT t.rowid AS place, query, id::{number} AS label{value} FROM {name} t "
            "JOIN labels USING (item)",
            doing=doing,
        )
        database.run(f"DROP TABLE {name}")
        joined = "joined"
        database.run(
            f"CREATE TABLE joined AS SELECT kept.rowid::{number} AS row, place, label{value} FROM numbered "
            f"JOIN kept USING (query) WHERE {own}",
            doing=doing,
        )
        database.run("DROP TABLE numbered")
    with database.in_order():
        database.run(
            f"CREATE TABLE {name}_rows AS SELECT row, label{value} FROM {joined} ORDER BY row, place", doing=doing
        )
    database.run(f"DROP TABLE {name if joined != 'joined' else joined}")
