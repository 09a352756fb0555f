"""Parquet tables of values per row.

A table has a line for each row of the data and a column for each key, two for a ratio.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from torch import Tensor

from tailmetrics.evaluation.accumulating import Evaluation
from tailmetrics.evaluation.digest import RunDigest
from tailmetrics.evaluation.label_codes import LABELS, LENGTHS
from tailmetrics.evaluation.row_facts import COUNTS, GROUP, LISTED, RowFacts
from tailmetrics.evaluation.row_values import RowColumns, values_in_columns
from tailmetrics.io import DataFileError
from tailmetrics.io.database import arrow_names
from tailmetrics.io.files import check_file, file_errors
from tailmetrics.metrics import TopKMetric
from tailmetrics.ranking import Ranking
from tailmetrics.report.document import plain
from tailmetrics.report.words import USUAL_WORDS

ROW, QUERY = "row", "query"
ROWS_FILE = "rows.parquet"
"""The name of the table in the folder of a report."""
METADATA = b"tailmetrics"
"""The metadata key whose JSON holds all facts that are not in the columns."""
CLUSTER = "cluster"
"""The column with the cluster of each row, as ``evaluate --clusters`` gives it."""
HINT = (
    "write it with tailmetrics evaluate --out FOLDER, or compare predictions: --preds "
    "A --preds B --target T."
)
WHOLE = r"^(0|-?[1-9][0-9]{0,17})$"
"""A whole number of 64 bits as it is usually written: ``007`` is a name."""
BUFFERED_CELLS = 2**21
"""Values collected before they are written, 16 MB; fewer make small row groups."""

# -- reading ---------------------------------------------------------------------------


IN_FOLDERS = (ROWS_FILE, "rows_test.parquet", "rows_best.parquet", "rows_val.parquet")
"""Names of the table in the folder of a report; the first that exists is read.

``evaluate`` writes the first, the Lightning callback the others: its test comes before
its validations.
"""


def table_in(path: Path, note: Callable[[str], None]) -> Path:
    """Return the table of rows in the folder of a report.

    The path of anything else is returned unchanged. ``note`` is called with a sentence
    if the folder holds several tables.

    Raises:
        DataFileError: If the folder holds no table, or several of other names.
    """
    if not path.is_dir():
        return path
    names = [table.name for table in sorted(path.glob("rows*.parquet"))]
    if not names:
        hint = "write it with tailmetrics evaluate --out FOLDER, without --no-rows."
        raise DataFileError(path, "holds no table of rows", hint=hint)
    usual_names = [name for name in IN_FOLDERS if name in names]
    if len(names) > 1 and not usual_names:
        raise DataFileError(
            path,
            f"holds several tables of rows: {', '.join(names)}",
            hint="name one of them.",
        )
    first, *others = usual_names or names
    if others:
        note(f"{path}: {first} is compared; for {' or '.join(others)}, name the file.")
    return path / first


class Rows(Protocol):
    """The rows of a :class:`~tailmetrics.io.Dataset` or of a loader."""

    @property
    def num_rows(self) -> int:
        """The number of rows, or a bound of it."""

    @property
    def row_names(self) -> Sequence[str] | None:
        """The query of each row; None if rows are numbers."""

    @property
    def label_names(self) -> Sequence[str] | None:
        """The name of each label; None if labels are numbers."""

    @property
    def tokens(self) -> int:
        """The number of rows of a sequence."""


@dataclass(frozen=True, eq=False)
class RowTable:
    """A table of values per row; each column is read when it is needed.

    Attributes:
        path: The file.
        columns: Names of the columns after the first.
        names: Number or query of every row.
        facts: Facts about keys that are not in the columns, such as gaps.
        identity: Entries of :mod:`tailmetrics.evaluation.digest`, on which the values
            depend; empty if unknown.
        notes: Warnings about the values.
        scalars: The values of the run by key, also for keys without values per row.
        tokens: Number of rows of a sequence, T of scores (B, T, L).
        words: What rows and labels are called.
        order: Shape (N,), the place in the file of each row of ``names``; None for the
            order of the file.
    """

    path: Path
    columns: list[str]
    names: Any
    facts: RowFacts
    identity: dict[str, Any]
    notes: list[str]
    scalars: dict[str, float]
    tokens: int
    words: Sequence[str] = USUAL_WORDS
    order: Any = None

    @classmethod
    def open(cls, path: str | Path) -> RowTable:
        """Open a table.

        Raises:
            DataFileError: If there is no such table, or the file is damaged or of
                another kind.
        """
        path = Path(path)
        check_file(path)
        try:
            file = pq.read_metadata(path)
        except Exception as error:
            raise DataFileError(
                path, f"is no table ({str(error).splitlines()[0]})", hint=HINT
            ) from error
        if METADATA not in (file.metadata or {}):
            raise DataFileError(
                path, "is no table of values per row as evaluate writes it", hint=HINT
            )
        first, *columns = file.schema.to_arrow_schema().names
        names = _read(path, [first])[first].combine_chunks()
        if first == QUERY:
            names = names.cast(pa.string())
        try:
            metadata = json.loads(file.metadata[METADATA])
            metadata["facts"] = RowFacts.from_data(metadata["facts"])
            return cls(path, columns, names, **metadata)
        except Exception as error:
            # whatever is made of facts that evaluate has not written
            raise DataFileError(
                path, "is damaged, or of another version of tailmetrics", hint=HINT
            ) from error

    def check_report(self) -> None:
        """Raise if the report in the folder of the table has other values.

        One of the two was then written later.

        Raises:
            DataFileError: If a value of the table is not that of the report.
        """
        report = self.path.with_name(
            f"report{self.path.stem.removeprefix('rows')}.json"
        )
        try:
            records = json.loads(report.read_text("utf-8"))["records"]
            values = {record["key"]: record["value"] for record in records}
        except (OSError, ValueError, LookupError, TypeError):
            # no report, or a file of another program
            return
        for key, value in self.scalars.items():
            if plain(value) != values.get(key):
                problem = (
                    f"is of another evaluation than {report.name} beside it, which "
                    f"does not have the same {key}"
                )
                raise DataFileError(
                    self.path,
                    problem,
                    hint="name the table to compare it, or write the folder again.",
                )

    @property
    def pairs(self) -> dict[str, bool]:
        """Key -> whether it is a ratio, with a numerator and a denominator."""
        return {
            key: self.facts.keys[key].is_ratio
            for key in self.facts.keys_in(self.columns)
        }

    def column(self, name: str) -> list[Any]:
        """Return one column as a list, such as the user of each row.

        Raises:
            DataFileError: If there is no such column.
        """
        if name not in self.columns:
            raise DataFileError(
                self.path,
                f"has no column {name!r}",
                hint=f"its columns are {', '.join(self.columns)}.",
            )
        return list(self._read([name])[name].to_pylist())

    def groups(self) -> Any:
        """Return the name of each row's group, null for none; None without groups."""
        if not self.facts.row_groups:
            return None
        return self._read([GROUP])[GROUP]

    @property
    def list_lengths(self) -> Any:
        """The length of each row's list, shape (N,); None for scores of all labels."""
        if LISTED not in self.columns:
            return None
        return self._read([LISTED])[LISTED].to_numpy()

    def joined(self, names: Any) -> RowTable:
        """Return the table with its rows in the order of ``names``.

        The table is unchanged if ``names`` holds other queries.
        """
        if (
            pa.types.is_integer(self.names.type)
            or self.names.type != names.type
            or len(names) != len(self.names)
        ):
            return self
        places = pc.index_in(names, value_set=self.names)
        if places.null_count:
            return self
        return replace(self, names=self.names.take(places), order=places)

    def values(
        self, keys: Sequence[str], empty_denominator: float = 0.0
    ) -> dict[str, Any]:
        """Return the values of some keys, shape (N,) each.

        They are NaN in rows that do not count or are of another group.
        ``empty_denominator`` is the denominator of a row in a ratio 0 / 0 that counts
        as 0.
        """
        names = {name for name in (COUNTS, GROUP) if name in self.columns}
        for key in keys:
            names.update(self.facts.keys[key].columns)
        table = self._read(sorted(names))
        columns: dict[str, Any] = {}
        for name, column in zip(table.column_names, table.columns, strict=True):
            if name.startswith(LABELS):
                lists = column.combine_chunks()
                columns[name + LENGTHS] = (
                    pc.list_value_length(lists).to_numpy().astype(np.int64)
                )
                columns[name] = lists.flatten().to_numpy()
            elif name == GROUP:
                columns[name] = pc.index_in(
                    column, value_set=pa.array(self.facts.row_groups, pa.string())
                ).to_numpy()
            elif name == COUNTS:
                columns[name] = column.to_numpy()
            else:
                columns[name] = column.to_numpy().astype(np.float64)
        return values_in_columns(
            keys, self.facts, columns, self.scalars, empty_denominator
        )

    def _read(self, columns: list[str]) -> Any:
        table = _read(self.path, columns)
        if self.order is None:
            return table
        return table.take(self.order)


def _read(path: Path, columns: list[str]) -> Any:
    with file_errors(path, "table"):
        return pq.read_table(path, columns=columns).replace_schema_metadata()


# -- writing ---------------------------------------------------------------------------


class RowTableWriter:
    """Writes a table of values per row, batch by batch.

    :meth:`complete` makes it a table that can be read.

    Args:
        path: Parquet file to write.
        evaluation: The evaluation; its metrics without values per row are left out.
        dataset: The data; the names of the rows come from it.
        options: The options on which values depend; the file keeps them as the run's
            identity. None keeps no identity.
        clusters: The cluster of each row, by row number; the file keeps the clusters
            for comparisons.
    """

    def __init__(
        self,
        path: Path,
        evaluation: Evaluation,
        dataset: Rows,
        options: Mapping[str, Any] | None = None,
        clusters: Sequence[Any] | None = None,
    ) -> None:
        self._columns = RowColumns(
            evaluation.collection,
            evaluation.over_all,
            dataset.num_rows,
            headline=evaluation.headline,
        )
        self._names: Any = None
        if dataset.row_names is not None:
            self._names = _queries(arrow_names(dataset.row_names))
        self._clusters = clusters
        self._identity: RunDigest | None = None
        if options is not None:
            names = _label_names(dataset, evaluation.members)
            self._identity = RunDigest(
                self._columns.metrics, options, names, dataset.row_names
            )
        self._tokens = dataset.tokens
        self._path = path
        self._file: Any = None
        self._pending: list[Any] = []

    def complete(
        self,
        scalars: Mapping[str, float],
        notes: Sequence[str],
        words: Sequence[str] = USUAL_WORDS,
    ) -> None:
        """Complete the file with facts that are not in the columns, and close it.

        Args:
            scalars: The values of the run by key.
            notes: Warnings about the values.
            words: What rows and labels are called, for comparisons.
        """
        self._flush()
        if self._file is None:
            return
        metadata = {
            "facts": asdict(self._columns.facts),
            "tokens": self._tokens,
            "notes": list(notes),
            "identity": {} if self._identity is None else self._identity.entries(),
            "scalars": dict(scalars),
            "words": list(words),
        }
        self._file.add_key_value_metadata({METADATA: json.dumps(metadata)})
        self.close()

    def close(self) -> None:
        """Close the file, also after an error.

        Otherwise Windows cannot delete the file.
        """
        if self._file is not None:
            self._file.close()

    def write(self, rows: Tensor, ranking: Ranking) -> None:
        """Add a batch: the numbers of its rows, and their ranking."""
        if self._identity is not None:
            self._identity.update(rows, ranking)
        numbers = _arrow(rows.numpy())
        columns: dict[str, Any] = {}
        if self._names is None:
            columns[ROW] = numbers
        else:
            columns[QUERY] = self._names.take(numbers)
        if self._clusters is not None:
            columns[CLUSTER] = pa.array(
                [self._clusters[row] for row in rows.tolist()], pa.string()
            )

        row_columns = self._columns.columns_of_batch(ranking)
        for name in row_columns:
            if not name.endswith(LENGTHS):
                columns[name] = self._arrow_column(name, row_columns)
        self._pending.append(pa.table(columns))
        if (
            sum(table.num_rows * table.num_columns for table in self._pending)
            >= BUFFERED_CELLS
        ):
            self._flush()

    def _arrow_column(self, name: str, columns: Mapping[str, Any]) -> Any:
        """Return a column as the file holds it.

        The column holds names of groups, lists of codes, or numbers with null for NaN.
        """
        values = columns[name]
        if name == GROUP:
            groups = pa.array(self._columns.facts.row_groups, pa.string())
            return groups.take(_arrow(values, values >= 0))
        if name.startswith(LABELS):
            offsets = np.append(0, np.cumsum(columns[name + LENGTHS]))
            return pa.LargeListArray.from_arrays(_arrow(offsets), _arrow(values))
        return _arrow(values, ~np.isnan(values))

    def _flush(self) -> None:
        if not self._pending:
            return
        table = pa.concat_tables(self._pending)
        if self._file is None:
            self._file = pq.ParquetWriter(self._path, table.schema)
        self._file.write_table(table, row_group_size=table.num_rows)
        self._pending = []


def _queries(names: Any) -> Any:
    """Return queries as whole numbers if each is written as one, else as texts.

    Tables whose queries are numbers then join with them.
    """
    if len(names) and pc.all(pc.match_substring_regex(names, WHOLE)).as_py():
        return names.cast(pa.int64())
    return names.cast(pa.string())


def _arrow(values: Any, valid: Any = None) -> Any:
    """Return an Arrow array, with null where ``valid`` is False.

    ``pa.array`` would import pandas, which takes 0.3 s.
    """
    validity = None
    if valid is not None:
        validity = _buffer(valid)
    return pa.Array.from_buffers(
        pa.from_numpy_dtype(values.dtype), len(values), [validity, _buffer(values)]
    )


def _buffer(values: Any) -> Any:
    """Return the memory of an array; Arrow packs bools into bits."""
    if values.dtype == bool:
        values = np.packbits(values, bitorder="little")
    return pa.py_buffer(np.ascontiguousarray(values))


def _label_names(dataset: Rows, metrics: Iterable[TopKMetric]) -> Sequence[str] | None:
    """Return the name of each label of the metrics, None if labels are numbers.

    A label of no file gets a made name.
    """
    if dataset.label_names is None:
        return None
    names = list(dataset.label_names)
    num_labels = max((metric.num_labels or 0 for metric in metrics), default=0)
    for number in range(len(names), num_labels):
        names.append(f"label {number} of no file")
    return names
