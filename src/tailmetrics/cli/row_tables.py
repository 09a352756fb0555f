"""Tables of values per row in Parquet: one row per row, one column per key, two for a ratio."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv, feather, orc
from pyarrow import json as json_lines
from torch import Tensor

from tailmetrics.evaluation.digest import RunDigest, merged
from tailmetrics.evaluation.label_cells import MOST, LabelCells, has_label_cells, over_labels, spec_of
from tailmetrics.evaluation.row_values import RowFacts, has_row_values, values_of_rows
from tailmetrics.io import DataFileError, Dataset
from tailmetrics.io.errors import UNREADABLE, reading
from tailmetrics.io.files import check_file
from tailmetrics.metrics import TopKMetric
from tailmetrics.ranking import Ranking

ROW, QUERY, GROUP = "row", "query", "row_group"
LABELS = "labels of "
"""What columns of labels begin with: the labels that a row hits, predicts and holds, for averages over labels."""
NUMERATOR, DENOMINATOR = ".numerator", ".denominator"
METADATA = b"tailmetrics"
IDENTITY = b"tailmetrics.identity"
"""Key of what the values depend on: digests of the targets, buckets, counts and options."""
FORMS = {".csv": "csv", ".arrow": "feather", ".feather": "feather", ".ipc": "feather", ".orc": "orc"}
FORMS |= dict.fromkeys((".jsonl", ".ndjson", ".json"), "json")
"""Formats of tables by suffix; any other file is Parquet. CSV, JSON Lines and ORC hold values, but no facts."""
HINT = "write it with tailmetrics evaluate --per-row, or compare predictions: --preds A --preds B --target T."
TOGETHER = "bring the files of all ranks, and of one run only, together."
BUFFERED_CELLS = 2**21
"""Values collected before they are written, 16 MB: small batches would make many small row groups."""

Values: TypeAlias = dict[str, Any]
"""As :data:`tailmetrics.significance.RowValues`."""

# -- the files of a table -----------------------------------------------------------------------------------------


def part_path(path: Path, rank: int, world_size: int) -> Path:
    """Return where a rank writes its rows of a table: beside it, unless there is one rank only."""
    return path if world_size == 1 else path.with_name(f"{path.stem}.rank{rank}-of-{world_size}{path.suffix}")


def part_paths(path: Path) -> list[Path]:
    """Return the files beside ``path`` that ranks wrote their rows of it to, in the order of the rows."""
    pattern = re.compile(re.escape(path.stem) + r"\.rank(\d+)-of-\d+" + re.escape(path.suffix))
    found = [(match, file) for file in path.parent.glob("*") if (match := pattern.fullmatch(file.name))]
    return [file for _, file in sorted(found, key=lambda pair: int(pair[0][1]))]


# -- reading --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RowTable:
    """A table of values per row, in one file or in one per rank; columns are read when asked for.

    Attributes:
        path: The file, or what the files of the ranks are named after.
        files: The files in the order of the rows.
        columns: Names of the columns behind the first.
        names: Number or query of every row.
        facts: What the values do not tell by themselves; None where the file does not say it.
        identity: What the values depend on, as :mod:`tailmetrics.evaluation.digest` has it; empty if nothing is known.
        labels: Key of an average over labels -> its column, how it is made of codes, its bucket and group of rows.
        order: Shape (N,), the place in the files of each row of ``names``; None for the order of the files.
    """

    path: Path
    files: list[Path]
    columns: list[str]
    names: Any
    facts: RowFacts | None
    identity: dict[str, Any]
    labels: dict[str, tuple[str, dict[str, Any], int, str | None]]
    order: Any = None

    @classmethod
    def open(cls, path: str | Path, whole: bool = True) -> RowTable:
        """Open a table; ``whole`` refuses one of which ranks are missing.

        Raises:
            DataFileError: If there is no such table, or the file is damaged or of another kind.
        """
        path = Path(path)
        files = [path] if path.exists() else part_paths(path) or [path]
        check_file(files[0])
        try:
            schema = pq.read_schema(files[0]) if _form(files[0]) == "parquet" else _load(files[0]).schema
        except UNREADABLE as error:
            raise DataFileError(files[0], f"is no table ({str(error).splitlines()[0]})", hint=HINT) from error
        first, *columns = schema.names
        if first not in (ROW, QUERY):
            raise DataFileError(files[0], "is no table of values per row", hint=HINT)
        names = _read(files, [first])[first].combine_chunks()
        told, facts, averages = (schema.metadata or {}).get(METADATA), None, {}
        if told is None and len(names.unique()) < len(names):
            raise DataFileError(files[0], f"names a {first} in several lines", hint=HINT)
        if told is not None:
            try:
                known = json.loads(told)
                facts, num_rows, labels = RowFacts(**known["facts"]), known["num_rows"], known["labels"]
            except (KeyError, TypeError) as error:
                raise DataFileError(files[0], "was written by another version of tailmetrics", hint=HINT) from error
            if whole and len(names) != num_rows:
                problem = f"holds {len(names)} rows in {len(files)} file(s), but {num_rows} were evaluated"
                raise DataFileError(path, problem, hint=TOGETHER)
            averages = {key: (column, spec, bucket, group) for key, column, spec, bucket, group in labels}
        return cls(path, files, columns, names, facts, _identity(path, files), averages)

    @property
    def pairs(self) -> dict[str, bool]:
        """Key -> whether it is a ratio, with a numerator and a denominator."""
        numbers = [one for one in self.columns if one != GROUP and not one.startswith(LABELS)]
        numbers = [one for one in numbers if not one.endswith(DENOMINATOR)]
        found = {one.removesuffix(NUMERATOR): one.endswith(NUMERATOR) for one in numbers}
        of_groups = {} if self.facts is None else self.facts.of_groups
        found |= {key: found[over_all] for key, (over_all, _) in of_groups.items() if over_all in found}
        return found | {key: False for key, (column, *_) in self.labels.items() if column in self.columns}

    def told_by(self, other: RowTable) -> RowTable:
        """Return the table with what another one tells of the same columns, where it tells nothing itself."""
        return self if self.facts is not None else replace(self, facts=other.facts, labels=other.labels)

    def column(self, name: str) -> list[Any]:
        """Return a column of its own, such as the user of each row.

        Raises:
            DataFileError: If there is none.
        """
        if name not in self.columns:
            raise DataFileError(
                self.path, f"has no column {name!r}", hint=f"its columns are {', '.join(self.columns)}."
            )
        return list(self._read([name])[name].to_pylist())

    def groups(self) -> Any:
        """Return the group of each row by name, null for none; None where rows have no groups."""
        return self._read([GROUP])[GROUP] if self.facts is not None and self.facts.row_groups else None

    def joined(self, names: Any) -> RowTable:
        """Return the table with its rows in the order of ``names``, where these are the same queries."""
        places = pc.index_in(names, value_set=self.names)
        if pa.types.is_integer(self.names.type) or len(names) != len(self.names) or places.null_count:
            return self
        return replace(self, names=self.names.take(places), order=places)

    def values(self, keys: Iterable[str]) -> Values:
        """Return the values of some keys, shape (N,) each, NaN in rows that do not count or are of another group."""
        pairs, of_groups = self.pairs, {} if self.facts is None else self.facts.of_groups
        columns = {}
        for key in keys:
            over_all = of_groups.get(key, [key])[0]
            columns[key] = [over_all + NUMERATOR, over_all + DENOMINATOR] if pairs[key] else [over_all]
            if key in self.labels:
                columns[key] = [self.labels[key][0]]
        table = self._read(list(dict.fromkeys(name for names in columns.values() for name in names)))
        groups = self.groups()
        named = None if groups is None else np.array(groups.to_pylist(), dtype=object)
        found: Values = {}
        for key, names in columns.items():
            if key in self.labels:
                _, spec, bucket, of = self.labels[key]
                lists = table[names[0]].combine_chunks()
                lengths = pc.list_value_length(lists).to_numpy().astype(np.int64)
                inside = np.ones(len(lengths), bool) if of is None else np.asarray(named == of)
                found[key] = over_labels(spec, bucket, (lengths, lists.flatten().to_numpy()), inside)
                continue
            sides = [table[name].to_numpy().astype(np.float64) for name in names]
            if key in of_groups:
                sides = [np.where(named == of_groups[key][1], side, np.nan) for side in sides]
            found[key] = (sides[0], sides[1]) if len(sides) == 2 else sides[0]
        return found

    def _read(self, columns: list[str]) -> Any:
        table = _read(self.files, columns)
        return table if self.order is None else table.take(self.order)


def _identity(path: Path, files: list[Path]) -> dict[str, Any]:
    """Return what the values of all parts depend on; nothing where a part does not say it."""
    entries = []
    for file in files:
        with reading(file, "table"):
            metadata = pq.read_metadata(file).metadata if _form(file) == "parquet" else _load(file).schema.metadata
        found = (metadata or {}).get(IDENTITY)
        if found is None:
            return {}
        entries.append(json.loads(found))
    try:
        return merged(entries)
    except ValueError as error:
        raise DataFileError(path, f"holds parts of different runs ({error})", hint=TOGETHER) from error


def _form(file: Path) -> str:
    return FORMS.get(file.suffix.lower(), "parquet")


def _load(file: Path, columns: list[str] | None = None) -> Any:
    """Return a table of any format that pyarrow reads in one call; names of queries and groups are texts."""
    form, texts = _form(file), {QUERY: pa.string(), GROUP: pa.string()}
    if form == "csv":
        options = csv.ConvertOptions(column_types=texts, null_values=[""], strings_can_be_null=True)
        return csv.read_csv(file, convert_options=options)
    if form == "json":
        table = json_lines.read_json(file, parse_options=json_lines.ParseOptions(explicit_schema=pa.schema(texts)))
        order = [name for name in (ROW, QUERY) if name in table.schema.names and table[name].null_count < len(table)]
        kept = [name for name in table.schema.names if name not in (ROW, QUERY) and table[name].null_count < len(table)]
        return table.select([*order, *kept])
    if form == "feather":
        return feather.read_table(file)
    return orc.read_table(file) if form == "orc" else pq.read_table(file, columns=columns)


def _read(files: list[Path], columns: list[str]) -> Any:
    tables = []
    for file in files:
        with reading(file, "table"):
            tables.append(_load(file, columns).select(columns).replace_schema_metadata())
    return pa.concat_tables(tables)


# -- writing --------------------------------------------------------------------------------------------------------


class RowTableWriter:
    """A table of values per row, written as batches come.

    Leaving the context completes the file.

    Args:
        path: Parquet file to write.
        metrics: The metrics; those without values per row are left out.
        dataset: The data; the names of the rows come from it.
        over_all: For each metric by bucket the key of its value over all labels.
        options: The options that values depend on, kept as the identity of the run; None keeps none.
    """

    def __init__(
        self,
        path: Path,
        metrics: Iterable[TopKMetric],
        dataset: Dataset,
        over_all: Mapping[str, str],
        options: Mapping[str, Any] | None = None,
    ) -> None:
        metrics = list(metrics)
        self._metrics: list[Any] = [metric for metric in metrics if has_row_values(metric)]
        averages: list[Any] = [metric for metric in metrics if has_label_cells(metric)]
        # an area reads the scores of all labels of a row
        fit = (one for one in averages if "area" not in spec_of(one) or dataset.num_rows * one.num_labels <= MOST)
        self._over_labels: list[Any] = list(fit)
        every: list[Any] = [*self._metrics, *self._over_labels]
        self._groups = next((metric.row_groups for metric in every if metric.row_groups), None)
        self._names = dataset.row_names
        self._identity = None
        if options is not None:
            self._identity = RunDigest(every, options, _label_names(dataset, metrics), self._names)
        told = {"facts": asdict(RowFacts.of(every, over_all)), "num_rows": dataset.num_rows}
        told["labels"] = [one for metric in self._over_labels for one in _averages(metric)]
        self._metadata = {METADATA: json.dumps(told)}
        self._path = path
        self._file: Any = None
        self._pending: list[Any] = []

    def __enter__(self) -> RowTableWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self._flush()
            if self._file is not None and self._identity is not None:
                self._file.add_key_value_metadata({IDENTITY: json.dumps(self._identity.entries())})
        if self._file is not None:
            self._file.close()

    def write(self, rows: Tensor, ranking: Ranking) -> None:
        """Add a batch: the numbers of its rows, and their ranking."""
        if self._identity is not None:
            self._identity.update(rows, ranking)
        names = self._names
        columns: dict[str, Any] = (
            {ROW: rows.numpy()} if names is None else {QUERY: [names[row] for row in rows.tolist()]}
        )
        if self._groups:
            assert ranking.rows.groups is not None
            numbers = ranking.rows.groups.cpu().numpy().astype(np.int32)
            columns[GROUP] = pa.array(self._groups, pa.string()).take(pa.array(numbers, mask=numbers < 0))
        for metric in self._metrics:
            for key, value in values_of_rows(metric, ranking).items():
                ends = zip((NUMERATOR, DENOMINATOR), value, strict=True) if isinstance(value, tuple) else [("", value)]
                columns |= {key + end: pa.array(side.cpu().numpy(), from_pandas=True) for end, side in ends}
        for metric in self._over_labels:
            for column, (lengths, codes) in zip(_label_columns(metric), LabelCells(metric).lists(ranking), strict=True):
                stops = np.concatenate([[0], np.cumsum(lengths)])
                columns[column] = pa.LargeListArray.from_arrays(stops, codes)
        self._pending.append(pa.table(columns))
        if sum(table.num_rows * table.num_columns for table in self._pending) >= BUFFERED_CELLS:
            self._flush()

    def _flush(self) -> None:
        if not self._pending:
            return
        table = pa.concat_tables(self._pending).replace_schema_metadata(self._metadata)
        if self._file is None:
            self._file = pq.ParquetWriter(self._path, table.schema)
        self._file.write_table(table, row_group_size=table.num_rows)
        self._pending = []


def _averages(metric: Any) -> Iterator[list[Any]]:
    """Yield for each average over labels its key, column, how it is made of codes, bucket and group of rows."""
    spec = spec_of(metric)
    for name, group in zip((None, *(metric.row_groups or ())), metric.group_keys(), strict=True):
        keys = iter(metric.row_keys(group))
        for column in _label_columns(metric):
            for bucket in range(len(spec["sizes"])):
                yield [next(keys), column, spec, bucket, name]


def _label_columns(metric: Any) -> list[str]:
    """Return the column of each cut-off, named after the first of its keys: codes depend on the buckets."""
    keys = list(metric.row_keys(metric.group_keys()[0]))
    return [LABELS + key for key in keys[:: len(keys) // len(metric.cutoffs)]]


def _label_names(dataset: Dataset, metrics: Iterable[TopKMetric]) -> Sequence[str] | None:
    """Return the name of each label of the metrics, where labels are names; labels that no file names have a number."""
    names = dataset.label_names
    if names is None:
        return None
    sizes = [len(names), *(metric.num_labels for metric in metrics if metric.num_labels is not None)]
    return [*names, *(f"label {number} of no file" for number in range(len(names), max(sizes)))]
