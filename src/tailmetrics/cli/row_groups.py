"""The groups and clusters of rows: a column of the targets, or a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from tailmetrics.cli.inputs import Files, forms_of, names_a_file, read_lines
from tailmetrics.cli.messages import CommandError
from tailmetrics.cli.options import DataOptions
from tailmetrics.io import Columns, Dataset
from tailmetrics.io.columns import ALIASES, ColumnError, names_among, names_in_words
from tailmetrics.io.database import Database
from tailmetrics.io.files import find, path_of, suffix_of
from tailmetrics.io.forms import Forms
from tailmetrics.io.labels import load_names
from tailmetrics.io.lines import LineFiles
from tailmetrics.io.opening import Input, column_names, open_input

GROUP = "group"
"""The column of groups in a file with more than two columns."""
TYPED = ("parquet", "pq", "arrow", "feather", "ipc")
"""Suffixes of tables with types."""
MOST = 1000
"""The most groups of rows: each group has states of its own."""


class RowGroups(NamedTuple):
    """The groups of all rows.

    Attributes:
        names: Names of the groups, sorted.
        numbers: Shape (N,), int16: the group of each row, an index into ``names``; -1
            for no group.
    """

    names: tuple[str, ...]
    numbers: Tensor

    def numbered_as(self, names: Sequence[str]) -> RowGroups:
        """Return the groups as indices into the names that metrics give.

        These names may be in another order.

        Raises:
            CommandError: If a group is not among the names.
        """
        unknown = [name for name in self.names if name not in names]
        if unknown:
            problem = (
                f"--row-groups: holds {unknown[0]!r}, which is none of "
                f"{', '.join(names)}"
            )
            raise CommandError(
                problem,
                (
                    "name all groups in row_groups of the metrics, or leave "
                    "row_groups out there."
                ),
            )
        places = [names.index(name) for name in self.names]
        table = torch.tensor([*places, -1], dtype=torch.int16)  # -1 is the last place
        return RowGroups(tuple(names), table[self.numbers.long()])


def read_row_groups(files: Files, dataset: Dataset) -> RowGroups | None:
    """Return the groups that ``--row-groups`` asks for; None without it.

    Raises:
        CommandError: If the option names neither a file nor a column of the targets, or
            if a row has two groups.
    """
    options = files.options
    value = options.row_groups
    if value is None:
        return None
    groups = groups_of_rows(
        "--row-groups",
        value,
        options,
        dataset.row_names,
        dataset.num_rows,
        dataset.tokens,
    )
    names = sorted({name for name in groups if name})
    if not names or len(names) > MOST:
        problem = f"--row-groups {value}: names {len(names):,} groups"
        raise CommandError(
            problem,
            f"choose a column with 1 to {MOST:,} different values, such as a language.",
        )
    places = {name: place for place, name in enumerate(names)}
    return RowGroups(
        tuple(names),
        torch.tensor(
            [places.get(name or "", -1) for name in groups], dtype=torch.int16
        ),
    )


def groups_of_rows(
    option: str,
    value: str,
    options: DataOptions,
    queries: Sequence[str] | None,
    num_rows: int,
    tokens: int,
) -> list[str | None]:
    """Return the group or cluster of each row that an option names.

    The option names a file, or a column of the targets.

    Args:
        option: Name of the option, with which error messages begin.
        value: The value of the option.
        options: The options that name the files.
        queries: The query of each row; None where rows are numbered.
        num_rows: N.
        tokens: T if rows are the tokens of sequences, else 1. The file may have one
            group for each sequence.
    """
    groups = _read_groups(option, value, options, queries)
    if len(groups) * tokens == num_rows:
        groups = np.repeat(np.array(groups, dtype=object), tokens).tolist()
    if len(groups) != num_rows:
        hint = (
            "these rows have no names: give a text file with one line for each row, "
            "and no header."
        )
        if tokens > 1:
            sequences = f"{num_rows // tokens:,} sequences"
            hint = (
                f"give one line for each of the {sequences}, or for each token, "
                "padding included."
            )
        raise CommandError(
            f"{option} {value}: holds {len(groups):,} rows, but there are {num_rows:,}",
            hint,
        )
    return groups


def _read_groups(
    option: str, value: str, options: DataOptions, queries: Sequence[str] | None
) -> list[str | None]:
    """Return the groups in the order of the file, or of the queries."""
    if not names_a_file(value):
        forms = forms_of(options)
        columns = options.columns.with_names(options.target_columns)
        own = Columns(query=columns.query, item=value)
        return _column_of_groups(
            option, str(options.target), forms.format("target"), own, queries, options
        )
    if queries is None and suffix_of(path_of(value)) not in TYPED:
        # groups of tokens: shape (B, T)
        return [line or None for line in read_lines(value, axes=2)]
    names = column_names(find(value).parts[0])
    own = _columns_of_groups(option, value, names, options.columns.query)
    if queries is None:
        own = Columns(item=own.item)
    return _column_of_groups(option, value, None, own, queries, options)


def _columns_of_groups(
    option: str, path: str, names: Sequence[str], query: str | None
) -> Columns:
    """Return the columns of the query and of the group of a file.

    Of two columns one is the query, and the other is the group whatever its name; if
    both have a name of queries, the first is the query. Two columns without a known
    name are taken by their places: then the file has no line of names.
    """
    queries = names_among(names, ALIASES["query"])
    if query in names:
        queries = [str(query)]
    elif len(names) == 2:
        queries = queries[:1]
    groups = [name for name in names if name not in queries]
    if len(names) == 2 and not queries:
        return Columns(query="0", item="1")
    if GROUP in groups:
        groups = [GROUP]
    if len(groups) == 1 and len(queries) <= 1:
        return Columns(query=next(iter(queries), None), item=groups[0])
    problem = f"{option} {path}: holds the columns {', '.join(map(repr, names))}"
    raise CommandError(
        problem,
        f"give two columns, the query and its {GROUP}, or call the second {GROUP!r}.",
    )


def _column_of_groups(
    option: str,
    path: str,
    form: str | None,
    columns: Columns,
    queries: Sequence[str] | None,
    options: DataOptions,
) -> list[str | None]:
    """Return a column as the groups of the rows or of the queries.

    The column is read as if it held items.
    """
    forms = Forms(
        formats={"pairs": form},
        columns={"pairs": columns},
        delimiters={"pairs": options.target_delimiter or options.delimiter},
        extra_columns=(str(columns.item),),
        is_numbered=queries is None,
    )
    try:
        opened = open_input(option, "pairs", path, forms)
    except ColumnError as error:
        if all(question.role != "item" for question in error.questions):
            raise
        problem = (
            f"{option} {columns.item}: there is no such file, and {path} has no "
            "such column"
        )
        hint = f"its columns are {names_in_words(error.columns)}."
        raise CommandError(problem, hint) from error
    lines = _lines_of_groups(option, opened)
    if queries is None:
        database = Database()
        rows = chain.from_iterable(part.rows(database) for part in lines.parts)
        return [group for _, group, _ in rows]
    return _groups_of_queries(lines, queries)


def _lines_of_groups(option: str, opened: Input) -> LineFiles:
    """Return lines in which a group may be missing."""
    if opened.lines is None or not opened.reading.item:
        noun = option.rpartition("-")[2].removesuffix("s")
        problem = (
            f"{option}: there is no such file, and {opened.name} is {opened.form}, "
            "which has no columns for it"
        )
        hint = (
            f"give a CSV file with the columns query and {noun}; for rows without "
            "a query, "
        )
        raise CommandError(
            problem,
            f"{hint}give a text file with the {noun} of each row, one per line.",
        )
    return LineFiles(
        opened.name, [replace(part, may_lack_items=True) for part in opened.lines.parts]
    )


def _groups_of_queries(lines: LineFiles, queries: Sequence[str]) -> list[str | None]:
    """Return the group of each query."""
    database = Database()
    lines.load(database, "grouped")
    load_names(database, queries)
    joined = (
        "FROM labels l LEFT JOIN grouped g ON g.query = l.item GROUP BY l.item, l.id"
    )
    twice = database.row(
        f"SELECT l.item, arg_min(g.item, g.rowid), arg_max(g.item, g.rowid) {joined} "
        "HAVING count(DISTINCT g.item) > 1 ORDER BY l.id LIMIT 1"
    )
    if twice is not None:
        problem = (
            f"{lines.name}: query {twice[0]!r} has the groups {twice[1]!r} and "
            f"{twice[2]!r}"
        )
        raise CommandError(
            problem, "a row belongs to one group: choose another column."
        )
    return list(database.names(f"SELECT min(g.item) {joined} ORDER BY l.id"))
