"""Tables of values per row in Parquet: one row per row, one column per key, two for a ratio."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tailmetrics.io import DataFileError
from tailmetrics.io.errors import reading
from tailmetrics.io.paths import check_file

ROW, QUERY = "row", "query"
NUMERATOR, DENOMINATOR = ".numerator", ".denominator"
METADATA = b"tailmetrics"
HINT = "write it with tailmetrics evaluate --per-row, or compare predictions: --preds A --preds B --target T."

Array: TypeAlias = NDArray[np.float64]
Values: TypeAlias = dict[str, Array | tuple[Array, Array]]


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
    """

    path: Path
    files: list[Path]
    pairs: dict[str, bool]
    medians: list[str]
    lower_is_better: list[str]
    names: Any

    @classmethod
    def open(cls, path: str | Path, whole: bool = True) -> RowTable:
        """Open a table; ``whole`` refuses one of which ranks are missing.

        Raises:
            DataFileError: If there is no such table, or the file is damaged or of another kind.
        """
        path = Path(path)
        files = [path] if path.exists() else part_paths(path) or [path]
        facts, columns = _facts(files[0])
        names = _read(files, [columns[0]])[columns[0]]
        if whole and len(names) != facts["num_rows"]:
            problem = f"holds {len(names)} rows in {len(files)} file(s), but {facts['num_rows']} were evaluated"
            raise DataFileError(path, problem, hint="bring the files of all ranks, and of one run only, together.")
        return cls(path, files, _pairs(columns[1:]), facts["medians"], facts["lower_is_better"], names)

    def values(self, keys: Iterable[str]) -> Values:
        """Return the values of some keys, shape (N,) each, NaN in rows that do not count."""
        columns = {key: [key + NUMERATOR, key + DENOMINATOR] if self.pairs[key] else [key] for key in keys}
        table = _read(self.files, [name for names in columns.values() for name in names])
        arrays = {name: table[name].to_numpy().astype(np.float64) for name in table.column_names}
        return {
            key: (arrays[names[0]], arrays[names[1]]) if len(names) == 2 else arrays[names[0]]
            for key, names in columns.items()
        }


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
