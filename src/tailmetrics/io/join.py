"""Join of predictions and targets whose lines name their query, to common rows and label ids.

Rows are the queries of the target, in the order of their first lines. Each SQL statement does one large operation, a
join or a sort: two in one statement need twice the memory, and DuckDB then fails instead of spilling to disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tailmetrics.io.database import Database, KeyedFile, Values
from tailmetrics.io.files import DataFileError, FilePath, note
from tailmetrics.io.labels import LabelRule, Labels, check_agreement
from tailmetrics.io.rows import UNKNOWN_HINT, Ints, Ragged, Source

BEYOND_HINT = "string_ids=True takes numbers for names: each that the files hold is one label, whatever its value."
RANGE_HINT = "label ids are the columns of the matrix, from 0."
COUNTED_ROWS = 2**20
"""Number of rows whose offsets are computed at a time: about 50 MB."""


class JoinedSource(Source):
    """The rows of joined files that belong to one process.

    A line's place is its number in the order of the rows and, within a row, in the order of the file.

    Args:
        database: The database that holds the lines, in any order.
        name: The table of the lines (query, item and perhaps value); names of tables made from it begin with this name.
        file: The files.
        values: The kind of the values, and the number of lines.
        rows: The rows of this process.
        row_names: The queries of the rows of all processes.
        labels: The label ids.
    """

    def __init__(
        self,
        database: Database,
        name: str,
        file: KeyedFile,
        values: Values,
        rows: range,
        row_names: Sequence[str],
        labels: Labels,
    ) -> None:
        self.path = file.name
        self.num_rows = len(row_names)
        self.num_labels = labels.width
        self._rows = rows
        self._ranked = values.ranked
        self.reading = values.reading
        self._database = database
        self._offsets, self._lines = _ordered(database, name, file, values, rows, len(row_names), labels.width)
        lengths = np.diff(self._offsets)
        self.cells_per_row = int(lengths.max(initial=0))
        self._row_names = row_names
        if len(lengths):
            self.widest = self.describe_row(rows.start + int(lengths.argmax())), int(lengths.max())
        self.label_names = labels.names

    def batches(self, start: int, stop: int, size: int) -> Iterator[Ragged]:
        """Yield the rows; the entries of a row keep the order of its lines."""
        for first in range(start, stop, size):
            rows = slice(first - self._rows.start, min(first + size, stop) - self._rows.start + 1)
            offsets = self._offsets[rows]
            own = f"SELECT * FROM ({self._lines}) WHERE place >= ? AND place < ?"
            found = self._database.arrays(own, int(offsets[0]), int(offsets[-1]))
            order = np.argsort(found.pop("place"), kind="stable")  # takes a fiftieth of the reading time
            found = {name: column[order] for name, column in found.items()}
            if self._ranked:
                self.check_ranks(-found["value"], np.diff(offsets), first)
            yield Ragged(offsets - offsets[0], found["label"], found.get("value"))

    @property
    def own_rows(self) -> range:
        """The rows of this process."""
        return self._rows

    def describe_row(self, row: int) -> str:
        """Return the query of a row."""
        return f"query {self._row_names[row]!r}"


def join(
    preds: KeyedFile | None,
    target: KeyedFile,
    rule: LabelRule,
    skip: bool,
    rank: int,
    world_size: int,
    memory: str,
) -> tuple[JoinedSource | None, JoinedSource, Database, dict[str, Any]]:
    """Read both files, match them by query, and keep this process's share, a range of consecutive rows.

    Returns:
        The predictions, None for a target alone; the targets; the database, with the tables ``kept`` (query), whose
        ``rowid`` is the row number, and ``labels`` (item, id); and arguments of
        :class:`tailmetrics.io.dataset.Files`.
    """
    database = Database(memory)
    files = {"target": target} if preds is None else {"target": target, "preds": preds}
    values = {name: file.load(database, name) for name, file in files.items()}
    for name in files:
        queries = f"SELECT query, min(rowid) AS first, count(item) AS lines FROM {name} GROUP BY query"
        database.run(f"CREATE TABLE {name}_queries AS {queries}", doing="comparing queries")
    missing, unmatched = (0, 0) if preds is None else _compared(database, preds, target, rule)
    asked = "target_queries"
    if skip and missing:
        asked = "common"
        answered = "SELECT query, first FROM target_queries SEMI JOIN preds_queries USING (query)"
        database.run(f"CREATE TABLE common AS {answered}")
    database.run(f"CREATE TABLE kept AS SELECT query FROM {asked} ORDER BY first", "numbering queries", in_order=True)
    labels = _labels(database, files, rule)
    row_names = database.names("SELECT query FROM kept ORDER BY rowid")
    start, stop = (len(row_names) * share // world_size for share in (rank, rank + 1))
    found = {
        name: JoinedSource(database, name, file, values[name], range(start, stop), row_names, labels)
        for name, file in files.items()
    }
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
    return found.get("preds"), found["target"], database, known


def _compared(database: Database, preds: KeyedFile, target: KeyedFile, rule: LabelRule) -> tuple[int, int]:
    """Return the number of target queries without predictions, and of prediction queries without a target."""
    lacking = "(SELECT count(*) FROM {}_queries ANTI JOIN {}_queries USING (query))"
    counts = f"{lacking.format('target', 'preds')}, {lacking.format('preds', 'target')}"
    missing, unmatched = database.row(f"SELECT {counts}")
    if missing and unmatched:
        database.run(
            "CREATE TABLE queries AS SELECT query AS name, 0 AS file FROM preds_queries "
            "UNION ALL SELECT query, 1 FROM target_queries"
        )
        check_agreement(database, "queries", "query", [preds.name, target.name], bool(rule.strings))
        database.run("DROP TABLE queries")
    return missing, unmatched


def _labels(database: Database, files: dict[str, KeyedFile], rule: LabelRule) -> Labels:
    """Give every item of all files its label id: make the table ``labels`` (item, id).

    Raises:
        DataFileError: If the files share no label, or an item has no valid label id.
    """
    paths = [file.name for file in reversed(files.values())]
    items = " UNION ALL ".join(f"SELECT item, {file} AS file FROM {name}" for file, name in enumerate(reversed(files)))
    held = f"SELECT DISTINCT item AS name, file FROM ({items}) WHERE item IS NOT NULL"
    database.run(f"CREATE TABLE held AS {held}", doing="comparing labels")
    database.run("CREATE TABLE met AS SELECT DISTINCT name AS item FROM held")
    if not rule.by_number:
        check_agreement(database, "held", "label", paths, bool(rule.strings))
        _note_lists(database, paths)
    labels = rule.number(database, paths[0])
    if rule.by_number:  # checked above: whole numbers, each with one spelling
        check_agreement(database, "held", "label", paths, True, may_differ=True)
    database.run("DROP TABLE held")
    wrong, problem, hint = "", "", ""
    if rule.names is not None:
        wrong, problem, hint = "ANTI JOIN labels USING (item) WHERE item <> ''", "unknown label {!r}", UNKNOWN_HINT
    elif rule.by_number and labels.declared is not None and labels.width > labels.declared:
        is_given = rule.matrix is None
        told_by, hint = ("num_labels says", BEYOND_HINT) if is_given else (f"{rule.matrix} has", RANGE_HINT)
        wrong = f"WHERE item::BIGINT >= {labels.declared}"
        problem = f"has the label id {{}}, but {told_by} {labels.declared}"
    for name, file in files.items() if wrong else ():
        found = database.row(f"SELECT query, item FROM {name} t {wrong} ORDER BY t.rowid LIMIT 1")
        if found is not None:
            raise DataFileError(file.name, problem.format(found[1]), f"query {found[0]!r}", hint)
    return labels


def _note_lists(database: Database, paths: Sequence[FilePath]) -> None:
    """Note that an item such as A;B or "A B" is read as one label, if A is an item, too."""
    first = "trim(regexp_extract(name, '^([^;|, ]+)[;|, ].', 1))"
    several = f"SELECT name, file FROM held JOIN met ON item = {first} WHERE {first} <> '' ORDER BY 1, 2 LIMIT 1"
    found = database.row(several)
    if found is not None:
        name, file = found
        hint = "where it means several, columns=Columns(labels=NAME) reads lists."
        note(paths[file], f"the item {name!r} is one label; {hint}")


def _ordered(
    database: Database, name: str, file: KeyedFile, values: Values, rows: range, num_rows: int, width: int
) -> tuple[Ints, str]:
    """Make a table of the labels and values of this process's lines, sorted by row; a sorted file is not sorted again.

    Returns:
        The offsets, shape (rows + 1,): row i of the process holds the places from ``[i]`` up to ``[i + 1]``; and the
        SQL that selects place, label and perhaps value.
    """
    doing = f"joining {file.name.name}"
    value = ", value" if values.given else ""
    number = "INTEGER" if max(num_rows, width) < 2**31 else "BIGINT"
    offsets, is_sorted = _offsets(database, name, num_rows)
    is_sorted = is_sorted and values.lines == offsets[-1]
    offsets = offsets[rows.start : rows.stop + 1]
    columns = f"t.rowid AS place, id::{number} AS label{value}" + ("" if is_sorted else ", query")
    labelled = f"SELECT {columns} FROM {name} t JOIN labels USING (item)"
    labelled += f" WHERE t.rowid >= {offsets[0]} AND t.rowid < {offsets[-1]}" if is_sorted else ""
    database.run(f"CREATE TABLE {name}_rows AS {labelled}", doing=doing)
    database.run(f"DROP TABLE {name}")
    if is_sorted:
        return offsets, f"FROM {name}_rows"
    own = f"kept.rowid >= {rows.start} AND kept.rowid < {rows.stop}"
    joined = (
        f"SELECT kept.rowid::{number} AS row, place, label{value} FROM {name}_rows JOIN kept USING (query) WHERE {own}"
    )
    database.run(f"CREATE TABLE joined AS {joined}", doing=doing)
    database.run(f"DROP TABLE {name}_rows")
    sorted_lines = f"SELECT label{value} FROM joined ORDER BY row, place"
    database.run(f"CREATE TABLE {name}_rows AS {sorted_lines}", doing, in_order=True)
    database.run("DROP TABLE joined")
    return offsets - offsets[0], f"SELECT rowid AS place, label{value} FROM {name}_rows"


def _offsets(database: Database, name: str, num_rows: int) -> tuple[Ints, bool]:
    """Return the offsets of the rows, as if lines were sorted by row, and whether the file is sorted by row.

    The file is sorted if, before the first line of each row, it has as many lines as all earlier rows hold together.
    """
    offsets = np.zeros(num_rows + 1, np.int64)
    is_sorted = True
    for start in range(0, num_rows, COUNTED_ROWS):
        stop = min(start + COUNTED_ROWS, num_rows)
        found = database.arrays(
            f"SELECT kept.rowid - {start} AS row, first, lines FROM {name}_queries JOIN kept USING (query) "
            f"WHERE kept.rowid >= {start} AND kept.rowid < {stop}"
        )
        lengths, first = np.zeros((2, stop - start), np.int64)
        lengths[found["row"]], first[found["row"]] = found["lines"], found["first"]
        offsets[start + 1 : stop + 1] = offsets[start] + np.cumsum(lengths)
        is_sorted = is_sorted and bool(((offsets[start:stop] == first) | (lengths == 0)).all())
    database.run(f"DROP TABLE {name}_queries")
    return offsets, is_sorted
