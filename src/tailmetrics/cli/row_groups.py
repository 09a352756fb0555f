"""`--row-groups`: the group of each row, such as its language, from a column of the targets or from a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tailmetrics.cli.errors import CommandError
from tailmetrics.cli.names_by_line import read_names
from tailmetrics.cli.options import DataOptions
from tailmetrics.cli.wording import in_options
from tailmetrics.io import Columns, DataFileError, Dataset
from tailmetrics.io.database import Database
from tailmetrics.io.errors import reading
from tailmetrics.io.files import Part, find, is_address, path_of, suffix_of
from tailmetrics.io.formats import FORMATS, Format, format_of_parts
from tailmetrics.io.labels import load_names
from tailmetrics.io.lines import KeyedFile, Lines

COLUMN = "group"
"""The column of a file of groups."""
MOST = 1000
"""Groups that are taken: each has states of its own."""
BY_QUERY = ("csv", "tsv", "jsonl", "long")
"""Formats whose lines name their query and can hold its group."""
BY_ROW = ("parquet", "arrow")
"""Formats of rows that can hold the group of each."""

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


@dataclass(frozen=True)
class _Asked:
    """What ``--row-groups`` names.

    Attributes:
        said: The option.
        name: How an error calls the files: that of the groups, or the targets.
        parts: The files.
        column: The column that holds the groups.
        own: Whether it is a file of groups, not a column of the targets.
        format: ``--format``, where it is of the targets.
        columns: Names of columns.
    """

    said: str
    name: str
    parts: tuple[Part, ...]
    column: str
    own: bool
    format: str | None
    columns: Columns

    @classmethod
    def of(cls, said: str, options: DataOptions) -> _Asked:
        assert options.target is not None
        own = names_a_file(said)
        name = said if own else options.target
        return cls(
            said=said,
            name=name,
            parts=find(name).parts,
            column=COLUMN if own else said,
            own=own,
            format=None if own else options.format,
            columns=options.columns,
        )

    def error(self, hint: str) -> CommandError:
        """Return the error of a word that is neither a file nor a column."""
        problem = f"--row-groups {self.said}: there is no such file, and {self.name} has no such column"
        return CommandError(problem, hint)


def names_a_file(said: str) -> bool:
    """Whether ``--row-groups`` names a file, not a column of the targets."""
    return is_address(said) or Path(said).is_file()


def read_row_groups(options: DataOptions, dataset: Dataset) -> RowGroups | None:
    """Return the groups that ``--row-groups`` asks for; None without it.

    Raises:
        CommandError: If it is neither a file nor a column of the targets, or a row has two groups.
    """
    if options.row_groups is None:
        return None
    asked = _Asked.of(options.row_groups, options)
    names = _by_query(asked, dataset.row_names) if dataset.row_names is not None else _by_row(asked)
    if len(names) != dataset.num_rows:
        problem = f"{asked.name}: holds the groups of {len(names)} rows, but {dataset.num_rows} are evaluated"
        raise CommandError(problem, "give one group for each row, an empty one for rows that count only overall.")
    known = sorted({name for name in names.tolist() if name})
    if not known or len(known) > MOST:
        problem = f"--row-groups {asked.said}: names {len(known):,} groups"
        raise CommandError(problem, f"choose a column with 1 to {MOST:,} different values, such as a language.")
    places = {name: place for place, name in enumerate(known)}
    numbers = [places.get(name, -1) for name in names[dataset.start : dataset.stop].tolist()]
    return RowGroups(tuple(known), torch.tensor(numbers, dtype=torch.int16), dataset.start)


def _by_query(asked: _Asked, queries: Sequence[str]) -> Names:
    """Return the group of each row of files whose lines name their query."""
    query = asked.columns.query
    columns = replace(asked.columns, item=asked.column) if asked.column != "item" else Columns(query=query)
    form = format_of_parts("--row-groups", asked.parts, asked.format, columns)
    if form.name not in BY_QUERY:
        problem = f"--row-groups {asked.said}: {asked.name} is {form.name}, which has no columns to group rows by"
        raise CommandError(problem, f"give a CSV file with the columns {query} and {COLUMN}.")
    parts = [(part.path, partial(_opened, asked, form, part, columns)) for part in asked.parts]
    database = Database()
    KeyedFile(path_of(asked.name), parts).load(database, "grouped")
    load_names(database, queries)
    joined = "FROM labels l LEFT JOIN grouped g ON g.query = l.item GROUP BY l.item, l.id"
    twice = database.row(
        f"SELECT l.item, arg_min(g.item, g.rowid), arg_max(g.item, g.rowid) {joined} "
        "HAVING count(DISTINCT g.item) > 1 ORDER BY l.id LIMIT 1"
    )
    if twice is not None:
        problem = f"{asked.name}: query {twice[0]!r} has the groups {twice[1]!r} and {twice[2]!r}"
        raise CommandError(problem, "a row belongs to one group: choose another column.")
    return np.array(list(database.names(f"SELECT min(g.item) {joined} ORDER BY l.id")), dtype=object)


def _opened(asked: _Asked, form: Format, part: Part, columns: Columns) -> Any:
    try:
        opened: Any = form.open(part.path, None, columns, part.partition)
    except DataFileError as error:
        if columns.item not in str(error.problem):
            raise
        raise asked.error(in_options(error.hint) or "name a column of the targets, or a file of groups.") from error
    return replace(opened, has_empty_lists=True) if isinstance(opened, Lines) else opened  # a row may have no group


def _by_row(asked: _Asked) -> Names:
    """Return the group of each row of files whose row i belongs to row i."""
    if asked.own and suffix_of(path_of(asked.said)) not in FORMATS["parquet"].suffixes + FORMATS["arrow"].suffixes:
        lines = read_names(asked.said, "give the group of each row, one per line.")
        return np.array([line or None for line in lines], dtype=object)
    form = format_of_parts("--row-groups", asked.parts, asked.format, asked.columns)
    if form.name not in BY_ROW:
        problem = f"--row-groups {asked.said}: there is no such file, and {asked.name} has no columns"
        raise CommandError(problem, "give a text file with the group of each row, one per line.")
    return np.array([name for part in asked.parts for name in _column(asked, part)], dtype=object)


def _column(asked: _Asked, part: Part) -> list[str | None]:
    """Return the group of each row of a file of columns."""
    import pyarrow as pa

    from tailmetrics.io.tables import open_table

    table = open_table(part.path)
    known = table.schema.names
    if asked.column not in known:
        if asked.column in part.partition:
            return [part.partition[asked.column]] * table.num_rows
        raise asked.error(f"its columns are {', '.join(known)}.")
    with reading(part.path, table.form):
        batches = table.batches([asked.column], 0, table.num_rows, 2**16)
        return [name for _, batch in batches for name in batch.column(asked.column).cast(pa.string()).to_pylist()]
