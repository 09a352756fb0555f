"""Join of predictions and targets by query, to common rows and label ids.

Rows are the queries of the target, in the order of their first lines. Each SQL
statement does one large operation, a join or a sort: two in one statement need twice
the memory, and DuckDB then fails instead of spilling to disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tailmetrics.io.database import Database, Progress
from tailmetrics.io.files import DataFileError
from tailmetrics.io.labels import LabelRule, Labels, check_agreement, disagreement
from tailmetrics.io.lines import LineFiles
from tailmetrics.io.rows import (
    UNKNOWN_HINT,
    FileFacts,
    Ints,
    Ragged,
    Source,
    share,
    starts,
)

BEYOND_HINT = (
    "--string-ids true takes numbers for names: each that the files hold is one "
    "label, whatever its value."
)
MANY_SEEN = 0.01
"""From this share of the listed items on, a note says that training holds them."""


class JoinedSource(Source):
    """The rows of joined files that belong to one process.

    A line's place is its number in the order of the rows and, within a row, in the
    order of the file.

    Args:
        database: The database that holds the lines, in any order.
        name: The table of the lines (query, item and perhaps value); names of tables
            made from it begin with this name.
        file: The files.
        num_lines: The number of lines.
        rows: The rows of this process.
        row_names: The queries of the rows of all processes.
        labels: The label ids.
    """

    def __init__(
        self,
        database: Database,
        name: str,
        file: LineFiles,
        num_lines: int,
        rows: range,
        row_names: Sequence[str],
        labels: Labels,
    ) -> None:
        self.path = file.name
        self.num_rows = len(row_names)
        self.num_labels = labels.width
        self._rows = rows
        self.reading = file.reading
        self._database = database
        self._offsets, self._lines = _ordered(database, name, file, num_lines, rows)
        lengths = np.diff(self._offsets)
        self.cells_per_row = int(lengths.max(initial=0))
        self._row_names = row_names
        if len(lengths):
            self.widest = (
                self.describe_row(rows.start + int(lengths.argmax())),
                int(lengths.max()),
            )
        self.label_names = labels.names

    def batches(self, start: int, stop: int, size: int) -> Iterator[Ragged]:
        """Yield the rows; the entries of a row keep the order of its lines."""
        for first in range(start, stop, size):
            rows = slice(
                first - self._rows.start, min(first + size, stop) - self._rows.start + 1
            )
            offsets = self._offsets[rows]
            own = f"SELECT * FROM ({self._lines}) WHERE place >= ? AND place < ?"
            arrays = self._database.arrays(own, int(offsets[0]), int(offsets[-1]))
            # takes a fiftieth of the reading time
            order = np.argsort(arrays["place"], kind="stable")
            labels, values = arrays["label"][order], None
            if "value" in arrays:
                values = arrays["value"][order]
            if self.reading.value_role == "rank" and values is not None:
                self.check_ranks(-values, np.diff(offsets), first)
            yield Ragged(offsets - offsets[0], labels, values)

    @property
    def own_rows(self) -> range:
        """The rows of this process."""
        return self._rows

    def describe_row(self, row: int) -> str:
        """Return the query of a row."""
        return f"query {self._row_names[row]!r}"


@dataclass(frozen=True, eq=False, kw_only=True)
class Joined:
    """Files that are matched by query.

    Attributes:
        preds: The predictions; None for targets alone.
        target: The targets.
        database: Holds the tables ``kept`` (query), whose ``rowid`` is the row number,
            and ``labels`` (item, id).
        facts: The rows and the labels.
    """

    preds: JoinedSource | None
    target: JoinedSource
    database: Database
    facts: FileFacts


def join(
    preds: LineFiles | None,
    target: LineFiles,
    rule: LabelRule,
    *,
    rank: int,
    world_size: int,
    memory: str,
    skip: bool = False,
    judged_only: bool = False,
    train_lines: LineFiles | None = None,
    on_progress: Progress | None = None,
) -> Joined:
    """Read both files, match them by query, and keep this process's share of rows.

    The share is a range of consecutive rows.

    Args:
        preds: The predictions; None to read targets alone.
        target: The targets.
        rule: The rule by which items become label ids.
        rank: Number of this process.
        world_size: Number of processes.
        memory: Memory limit of DuckDB.
        skip: Whether queries without predictions are left out.
        judged_only: Whether predictions without a line in the targets are left out.
        train_lines: Training targets; a note says which share of the predictions they
            hold.
        on_progress: Receives the current step and the share of it that is done.
    """
    database = Database(memory, on_progress)
    files = {"target": target}
    if preds is not None:
        files["preds"] = preds
    counts = {}
    notes: list[str] = []
    for name, file in files.items():
        counts[name] = file.load(database, name)
        notes += file.notes(database, name, counts[name])
    if judged_only and preds is not None:
        counts["preds"] = _judged(database)
    for name in files:
        queries = (
            f"SELECT query, min(rowid) AS first, count(item) AS lines FROM {name} "
            "GROUP BY query"
        )
        database.run(
            f"CREATE TABLE {name}_queries AS {queries}", doing="comparing queries"
        )
    missing, unmatched = 0, 0
    if preds is not None:
        missing, unmatched = _compared(database, preds, target, rule)
        if train_lines is not None:
            notes += _note_on_seen(database, preds, train_lines)
    _number_queries(database, list(files), may_lack_preds=not skip)
    has_one_order = preds is None or _has_one_order(database)
    labels, label_notes = _labels(database, files, rule)
    row_names = database.names("SELECT query FROM kept ORDER BY rowid")
    own_rows = share(rank, world_size, len(row_names))
    sources = {}
    for name, file in files.items():
        sources[name] = JoinedSource(
            database, name, file, counts[name], own_rows, row_names, labels
        )
    facts = FileFacts(
        num_rows=len(row_names),
        num_labels=labels.declared,
        label_names=labels.names,
        row_names=row_names,
        has_one_order=has_one_order,
        missing_queries=missing,
        unmatched_queries=unmatched,
        start=own_rows.start,
        stop=own_rows.stop,
        columns=labels.width,
        notes=(*notes, *labels.notes, *label_notes),
    )
    return Joined(
        preds=sources.get("preds"),
        target=sources["target"],
        database=database,
        facts=facts,
    )


def _judged(database: Database) -> int:
    """Leave out predictions whose item has no line in the targets of their query.

    ``trec_eval -J`` does the same. Return the number of lines that are left.
    """
    database.run("ALTER TABLE preds RENAME TO listed")
    judged = (
        "SELECT listed.* FROM listed SEMI JOIN target USING (query, item) ORDER BY "
        "listed.rowid"
    )
    count = database.run(
        f"CREATE TABLE preds AS {judged}",
        "leaving out items without a judgement",
        in_order=True,
    )
    # a query keeps its row, with an empty list
    empty = (
        "SELECT DISTINCT query, NULL AS item FROM listed ANTI JOIN preds USING (query)"
    )
    database.run(f"INSERT INTO preds BY NAME {empty}")
    database.run("DROP TABLE listed")
    return count


def _note_on_seen(
    database: Database, preds: LineFiles, train_lines: LineFiles
) -> list[str]:
    """Return a note if training holds many of the listed items for the same query."""
    train_lines.load(database, "trained")
    seen, listed = database.row(
        "SELECT (SELECT count(*) FROM preds SEMI JOIN trained USING (query, item)), "
        "(SELECT count(item) FROM preds)"
    )
    database.run("DROP TABLE trained")
    if seen <= MANY_SEEN * listed:
        return []
    share = (
        f"{seen / listed:.0%} of the items that {preds.name.name} lists are in "
        f"{train_lines.name.name} for the same query"
    )
    return [
        (
            f"{share}. If these are not to be shown again, leave them out: --filter "
            f"{train_lines.name}"
        )
    ]


def _compared(
    database: Database, preds: LineFiles, target: LineFiles, rule: LabelRule
) -> tuple[int, int]:
    """Return the numbers of queries without predictions and without a target."""
    lacking = "(SELECT count(*) FROM {}_queries ANTI JOIN {}_queries USING (query))"
    counts = f"{lacking.format('target', 'preds')}, {lacking.format('preds', 'target')}"
    missing, unmatched = database.row(f"SELECT {counts}")
    if missing and unmatched:
        database.run(
            "CREATE TABLE queries AS SELECT query AS name, 0 AS file FROM "
            "preds_queries UNION ALL SELECT query, 1 FROM target_queries"
        )
        check_agreement(
            database, "queries", "query", [preds.name, target.name], bool(rule.strings)
        )
        database.run("DROP TABLE queries")
    return missing, unmatched


def _number_queries(
    database: Database, names: Sequence[str], may_lack_preds: bool
) -> None:
    """Make the table ``kept`` of the queries of all rows.

    The table also holds the first line and the number of lines of each query in each
    file. The first line is -1 for a query without predictions. Rows are the queries of
    the targets, in the order of their first lines.
    """
    columns = "query, target.first AS target_first, target.lines AS target_lines"
    source = "target_queries target"
    if "preds" in names:
        columns += (
            ", coalesce(preds.first, -1) AS preds_first, coalesce(preds.lines, 0) AS "
            "preds_lines"
        )
        kind = "LEFT" if may_lack_preds else "INNER"
        source += f" {kind} JOIN preds_queries preds USING (query)"
    database.run(f"CREATE TABLE matched AS SELECT {columns} FROM {source}")
    for name in names:
        database.run(f"DROP TABLE {name}_queries")
    ordered = "CREATE TABLE kept AS SELECT * FROM matched ORDER BY target_first"
    database.run(ordered, "numbering queries", in_order=True)
    database.run("DROP TABLE matched")


def _has_one_order(database: Database) -> bool:
    """Whether the predictions name the queries of the rows in the order of the rows."""
    lines = database.arrays(
        "SELECT preds_first FROM kept WHERE preds_first >= 0 ORDER BY rowid"
    )["preds_first"]
    return bool((np.diff(lines) > 0).all())


def _labels(
    database: Database, files: Mapping[str, LineFiles], rule: LabelRule
) -> tuple[Labels, tuple[str, ...]]:
    """Make the table ``labels`` (item, id) of all items; return the ids and notes.

    Raises:
        DataFileError: If the files share no label, or an item has no valid label id.
    """
    tables = list(files)[::-1]
    paths = [files[name].name for name in tables]
    items = " UNION ALL ".join(
        f"SELECT item, {number} AS file FROM {name}"
        for number, name in enumerate(tables)
    )
    distinct = (
        f"SELECT DISTINCT item AS name, file FROM ({items}) WHERE item IS NOT NULL"
    )
    database.run(f"CREATE TABLE names AS {distinct}", doing="comparing labels")
    database.run("CREATE TABLE met AS SELECT DISTINCT name AS item FROM names")
    if not rule.by_number:
        check_agreement(database, "names", "label", paths, bool(rule.strings))
    labels = rule.assign_ids(database, paths[0])
    notes: tuple[str, ...] = ()
    # whole numbers, each with one spelling: two files without a common label may be
    # right
    if rule.by_number:
        error = disagreement(database, "names", "label", paths)
        if error is not None:
            notes = (f"{error.path}: {error.problem}",)
    database.run("DROP TABLE names")
    _check_labels(database, files, rule, labels)
    return labels, notes


def _check_labels(
    database: Database, files: Mapping[str, LineFiles], rule: LabelRule, labels: Labels
) -> None:
    """Raise if an item is none of the named labels, or beyond the number of labels."""
    if rule.names is not None:
        wrong = "ANTI JOIN labels USING (item) WHERE item <> ''"
        problem, hint = "unknown label {!r}", UNKNOWN_HINT
    elif (
        rule.by_number
        and labels.declared is not None
        and labels.width > labels.declared
    ):
        wrong = f"WHERE item::BIGINT >= {labels.declared}"
        problem, hint = (
            f"has the label id {{}}, but {rule.number_source.clause(labels.declared)}",
            BEYOND_HINT,
        )
    else:
        return
    for name, file in files.items():
        line = database.row(
            f"SELECT query, item FROM {name} t {wrong} ORDER BY t.rowid LIMIT 1"
        )
        if line is not None:
            query, item = line
            raise DataFileError(
                file.name, problem.format(item), f"query {query!r}", hint
            )


def _ordered(
    database: Database, name: str, file: LineFiles, num_lines: int, rows: range
) -> tuple[Ints, str]:
    """Make a table of the labels and values of this process's lines, sorted by row.

    A sorted file is not sorted again.

    A file is sorted if, before the first line of each row, it has as many lines as all
    earlier rows hold together.

    Returns:
        The offsets, shape (rows + 1,): row i of the process holds the places from
        ``[i]`` up to ``[i + 1]``; and the SQL that selects place, label and perhaps
        value.
    """
    doing = f"joining {file.name.name}"
    value = ", value" if file.has_values else ""
    queries = database.arrays(
        f"SELECT {name}_first AS first, {name}_lines AS lines FROM kept ORDER BY rowid"
    )
    offsets = starts(queries["lines"])
    in_place = (offsets[:-1] == queries["first"]) | (queries["lines"] == 0)
    is_sorted = in_place.all() and num_lines == offsets[-1]
    offsets = offsets[rows.start : rows.stop + 1]
    if is_sorted:
        labelled = (
            f"SELECT t.rowid AS place, id AS label{value} FROM {name} t JOIN labels "
            "USING (item)"
        )
        labelled += f" WHERE t.rowid >= {offsets[0]} AND t.rowid < {offsets[-1]}"
        database.run(f"CREATE TABLE {name}_rows AS {labelled}", doing)
        database.run(f"DROP TABLE {name}")
        return offsets, f"FROM {name}_rows"

    own = f"kept.rowid >= {rows.start} AND kept.rowid < {rows.stop}"
    numbered = (
        f"SELECT kept.rowid AS row, t.rowid AS place, item{value} FROM {name} t JOIN "
        "kept USING (query)"
    )
    database.run(f"CREATE TABLE numbered AS {numbered} WHERE {own}", doing)
    database.run(f"DROP TABLE {name}")
    labelled = (
        f"SELECT row, place, id AS label{value} FROM numbered JOIN labels USING (item)"
    )
    database.run(f"CREATE TABLE joined AS {labelled}", doing)
    database.run("DROP TABLE numbered")
    sorted_lines = f"SELECT label{value} FROM joined ORDER BY row, place"
    database.run(f"CREATE TABLE {name}_rows AS {sorted_lines}", doing, in_order=True)
    database.run("DROP TABLE joined")
    return offsets - offsets[0], (
        f"SELECT rowid AS place, label{value} FROM {name}_rows"
    )
