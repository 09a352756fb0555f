"""Tables of values per row in Parquet: one row per row, one column per key, two for a ratio."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tailmetrics.evaluation.digest import merged
from tailmetrics.evaluation.label_cells import over_labels
from tailmetrics.io import DataFileError
from tailmetrics.io.errors import reading
from tailmetrics.io.files import check_file

ROW, QUERY, GROUP = "row", "query", "row_group"
LABELS = "labels of "
"""What columns of labels begin with: the labels that a row hits, predicts and holds, for averages over labels."""
NUMERATOR, DENOMINATOR = ".numerator", ".denominator"
METADATA = b"tailmetrics"
IDENTITY = b"tailmetrics.identity"
"""Key of what the values depend on: digests of the targets, buckets, counts and options."""
SAID = ("buckets", "captions", "over_all", "what_buckets_are")
"""What metadata hold for the pictures of a comparison."""
HINT = "write it with tailmetrics evaluate --per-row, or compare predictions: --preds A --preds B --target T."

Array: TypeAlias = NDArray[np.float64]
Values: TypeAlias = dict[str, Any]
"""As :data:`tailmetrics.significance.RowValues`."""


def part_path(path: Path, rank: int, world_size: int) -> Path:
    """Return where a rank writes its rows of a table: beside it, unless there is one rank only."""
    return path if world_size == 1 else path.with_name(f"{path.stem}.rank{rank}-of-{world_size}{path.suffix}")


def part_paths(path: Path) -> list[Path]:
    """Return the files beside ``path`` that ranks wrote their rows of it to, in the order of the rows."""
    pattern = re.compile(re.escape(path.stem) + r"\.rank(\d+)-of-\d+" + re.escape(path.suffix))
    found = [(match, file) for file in path.parent.glob("*") if (match := pattern.fullmatch(file.name))]
    return [file for _, file in sorted(found, key=lambda pair: int(pair[0][1]))]


def other_parts(path: Path, world_size: int) -> list[Path]:
    """Return what another number of ranks once wrote of a table that is about to be written."""
    written = {part_path(path, rank, world_size) for rank in range(world_size)}
    return sorted(file for file in {path, *part_paths(path)} - written if file.exists())


@dataclass(frozen=True, eq=False)
class RowTable:
    """A table of values per row, in one file or in one per rank; columns are read when asked for.

    Attributes:
        path: The file, or what the files of the ranks are named after.
        files: The files in the order of the rows.
        pairs: Key -> whether it is a ratio, with a numerator and a denominator.
        medians: Keys of which the median is reported.
        lower_is_better: Keys of which less is better.
        names: Number or query of every row.
        of_groups: Key of a group of rows -> the key over all rows, and the name of the group.
        buckets: Names of the buckets, head first.
        captions: For each metric by bucket what its values are of.
        over_all: For each metric by bucket the key of its value over all labels.
        what_buckets_are: That in words.
        identity: What the values depend on, as :mod:`tailmetrics.evaluation.digest` has it; empty if nothing is known.
        labels: Key of an average over labels -> its column, how it is made of codes, its bucket and group of rows.
        order: Shape (N,), the place in the files of each row of ``names``; None for the order of the files.
    """

    path: Path
    files: list[Path]
    pairs: dict[str, bool]
    medians: list[str]
    lower_is_better: list[str]
    names: Any
    of_groups: dict[str, list[str]] = field(default_factory=dict)
    buckets: list[str] = field(default_factory=list)
    captions: dict[str, str] = field(default_factory=dict)
    over_all: dict[str, str] = field(default_factory=dict)
    what_buckets_are: str = ""
    identity: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, tuple[str, dict[str, Any], int, str | None]] = field(default_factory=dict)
    order: Any = None

    @classmethod
    def open(cls, path: str | Path, whole: bool = True) -> RowTable:
        """Open a table; ``whole`` refuses one of which ranks are missing.

        Raises:
            DataFileError: If there is no such table, or the file is damaged or of another kind.
        """
        path = Path(path)
        files = [path] if path.exists() else part_paths(path) or [path]
        facts, columns = _facts(files[0])
        names = _read(files, [columns[0]])[columns[0]].combine_chunks()
        if whole and len(names) != facts["num_rows"]:
            problem = f"holds {len(names)} rows in {len(files)} file(s), but {facts['num_rows']} were evaluated"
            raise DataFileError(path, problem, hint="bring the files of all ranks, and of one run only, together.")
        pairs = _pairs([name for name in columns[1:] if name != GROUP and not name.startswith(LABELS)])
        of_groups = facts.get("of_groups", {})
        pairs |= {key: pairs[whole] for key, (whole, _) in of_groups.items()}
        labels = {key: (*column, spec, bucket, group) for key, *column, spec, bucket, group in facts.get("labels", [])}
        pairs |= dict.fromkeys(labels, False)
        said: dict[str, Any] = {name: facts[name] for name in SAID if name in facts}  # older tables lack them
        said |= {"identity": _identity(path, files), "labels": labels}
        return cls(path, files, pairs, facts["medians"], facts["lower_is_better"], names, of_groups, **said)

    def groups(self) -> Any:
        """Return the group of each row by name, null for none; None where rows have no groups."""
        grouped = self.of_groups or any(group for *_, group in self.labels.values())
        return self._read([GROUP])[GROUP] if grouped else None

    def joined(self, names: Any) -> RowTable:
        """Return the table with its rows in the order of ``names``, where these are the same queries."""
        places = pc.index_in(names, value_set=self.names)
        if pa.types.is_integer(self.names.type) or len(names) != len(self.names) or places.null_count:
            return self
        return replace(self, names=self.names.take(places), order=places)

    def _read(self, columns: list[str]) -> Any:
        table = _read(self.files, columns)
        return table if self.order is None else table.take(self.order)

    def values(self, keys: Iterable[str]) -> Values:
        """Return the values of some keys, shape (N,) each, NaN in rows that do not count or are of another group."""
        over = {key: self._over_labels(*self.labels[key]) for key in keys if key in self.labels}
        keys = [key for key in keys if key not in over]
        wholes = dict.fromkeys(self.of_groups.get(key, [key])[0] for key in keys)
        columns = {key: [key + NUMERATOR, key + DENOMINATOR] if self.pairs[key] else [key] for key in wholes}
        table = self._read([name for names in columns.values() for name in names])
        arrays = {name: table[name].to_numpy().astype(np.float64) for name in table.column_names}
        groups = self.groups() if any(key in self.of_groups for key in keys) else None
        named = None if groups is None else np.array(groups.to_pylist(), dtype=object)
        found: Values = {}
        for key in keys:
            whole, *group = self.of_groups.get(key, [key])
            sides = [arrays[name] for name in columns[whole]]
            if group and named is not None:
                sides = [np.where(named == group[0], side, np.nan) for side in sides]
            found[key] = (sides[0], sides[1]) if len(sides) == 2 else sides[0]
        return found | over

    def _over_labels(self, column: str, spec: dict[str, Any], bucket: int, group: str | None) -> Any:
        lists = self._read([column])[column].combine_chunks()
        lengths = pc.list_value_length(lists).to_numpy().astype(np.int64)
        inside = np.ones(len(lengths), bool)
        if group is not None:
            inside = np.array(self.groups().to_pylist(), dtype=object) == group
        return over_labels(spec, bucket, (lengths, lists.flatten().to_numpy()), inside)


def _facts(file: Path) -> tuple[dict[str, Any], list[str]]:
    check_file(file)
    try:
        with reading(file, "Parquet"):
            schema = pq.read_schema(file)
    except DataFileError as error:
        raise DataFileError(file, error.problem, hint=HINT) from error
    if METADATA not in (schema.metadata or {}) or schema.names[0] not in (ROW, QUERY):
        raise DataFileError(file, "is no table of values per row", hint=HINT)
    return json.loads(schema.metadata[METADATA]), schema.names


def _identity(path: Path, files: list[Path]) -> dict[str, Any]:
    """Return what the values of all parts depend on; nothing where a part does not say it."""
    entries = []
    for file in files:
        with reading(file, "Parquet"):
            found = (pq.read_metadata(file).metadata or {}).get(IDENTITY)
            if found is None:
                return {}
            entries.append(json.loads(found))
    try:
        return merged(entries)
    except ValueError as error:
        hint = "bring the files of all ranks, and of one run only, together."
        raise DataFileError(path, f"holds parts of different runs ({error})", hint=hint) from error


def _read(files: list[Path], columns: list[str]) -> Any:
    tables = []
    for file in files:
        with reading(file, "Parquet"):
            tables.append(pq.read_table(file, columns=columns).replace_schema_metadata())
    return pa.concat_tables(tables)


def _pairs(columns: list[str]) -> dict[str, bool]:
    """Return the keys in the order of their columns, and whether each is a pair."""
    firsts = [name for name in columns if not name.endswith(DENOMINATOR)]
    return {name.removesuffix(NUMERATOR): name.endswith(NUMERATOR) for name in firsts}
