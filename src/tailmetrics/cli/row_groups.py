"""`--row-groups`: the group of each row, such as its language, from a column of the targets or from a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tailmetrics.cli.errors import CommandError
from tailmetrics.cli.options import DataOptions
from tailmetrics.io import Columns, DataFileError, Dataset
from tailmetrics.io.errors import reading
from tailmetrics.io.formats import format_of

COLUMN = "group"
"""The column of a file of groups."""
MOST = 1000
"""Groups that are taken: each has states of its own."""

Names = NDArray[np.object_]


@dataclass(frozen=True, eq=False)
class RowGroups:
    """The groups of this rank's rows.

    Attributes:
        names: Names of the groups of all rows, sorted.
        numbers: Shape (rows of this rank,), int16: places among the names, -1 for none.
        start: Number of this rank's first row.
    """

    names: tuple[str, ...]
    numbers: Tensor
    start: int

    def of(self, rows: Tensor) -> Tensor:
        """Return the groups of some rows, given by their numbers."""
        return self.numbers[rows - self.start]


def read_row_groups(options: DataOptions, dataset: Dataset) -> RowGroups | None:
    """Return the groups that ``--row-groups`` asks for; None without it.

    Raises:
        CommandError: If it is neither a file nor a column of the targets, or a row has two groups.
    """
    if options.row_groups is None:
        return None
    assert options.target is not None
    path = Path(options.row_groups)
    column = COLUMN if path.is_file() else options.row_groups
    file = path if path.is_file() else Path(options.target)
    names = _by_query(file, column, dataset, options) if dataset.row_names else _by_row(file, column, options)
    if len(names) != dataset.num_rows:
        problem = f"{file}: holds the groups of {len(names)} rows, but {dataset.num_rows} are evaluated"
        raise CommandError(problem, "give one group for each row, an empty one for rows that count only overall.")
    known = sorted({name for name in names.tolist() if name})
    if not known or len(known) > MOST:
        problem = f"--row-groups {options.row_groups}: names {len(known):,} groups"
        raise CommandError(problem, f"choose a column with 1 to {MOST:,} different values, such as a language.")
    places = {name: place for place, name in enumerate(known)}
    numbers = [places.get(name, -1) for name in names[dataset.start : dataset.stop].tolist()]
    return RowGroups(tuple(known), torch.tensor(numbers, dtype=torch.int16), dataset.start)


def _by_query(file: Path, column: str, dataset: Dataset, options: DataOptions) -> Names:
    """Return the group of each row of files whose lines name their query."""
    columns = replace(options.columns, item=column) if column != "item" else Columns(query=options.columns.query)
    form = format_of("--row-groups", file, None if file != Path(str(options.target)) else options.format, columns)
    if form.name not in ("csv", "tsv", "jsonl"):
        problem = f"--row-groups {options.row_groups}: {file} is {form.name}, which has no columns to group rows by"
        raise CommandError(problem, f"give a CSV file with the columns {columns.query} and {COLUMN}.")
    assert dataset.row_names is not None
    rows = {name: row for row, name in enumerate(dataset.row_names)}
    found: Names = np.full(len(rows), None, dtype=object)
    for block in _blocks(form, file, columns, options):
        for query, group in zip(block.query.to_pylist(), block.item.to_pylist(), strict=True):
            row = rows.get(query)
            if row is None or not group:
                continue
            if found[row] not in (None, group):
                problem = f"{file}: query {query!r} has the groups {found[row]!r} and {group!r}"
                raise CommandError(problem, "a row belongs to one group: choose another column.")
            found[row] = group
    return found


def _blocks(form: Any, file: Path, columns: Columns, options: DataOptions) -> Iterator[Any]:
    try:
        yield from form.open(file, None, columns)
    except DataFileError as error:
        if columns.item not in str(error.problem):
            raise
        problem = f"--row-groups {options.row_groups}: there is no such file, and {file} has no such column"
        raise CommandError(problem, error.hint or "name a column of the targets, or a file of groups.") from error


def _by_row(file: Path, column: str, options: DataOptions) -> Names:
    """Return the group of each row of files whose row i belongs to row i."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if file.suffix in (".parquet", ".pq"):
        with reading(file, "Parquet"):
            known = pq.read_schema(file).names
            if column not in known:
                problem = f"--row-groups {options.row_groups}: there is no such file, and {file} has no such column"
                raise CommandError(problem, f"its columns are {', '.join(known)}.")
            cells = pq.read_table(file, columns=[column])[column].cast(pa.string())
        return np.array(cells.to_pylist(), dtype=object)
    if file == Path(str(options.target)):
        problem = f"--row-groups {options.row_groups}: there is no such file, and {file} has no columns"
        raise CommandError(problem, "give a text file with the group of each row, one per line.")
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise DataFileError(file, "is no text", hint="give the group of each row, one per line.") from error
    return np.array([line.strip() or None for line in lines], dtype=object)
