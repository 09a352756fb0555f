"""Opens predictions, targets and training targets: their formats and roles.

Each file that cannot be opened has one error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tailmetrics.io.columns import (
    TEXT_TABLES,
    Column,
    ColumnError,
    TableReading,
    names_in_words,
)
from tailmetrics.io.database import Database
from tailmetrics.io.files import DataFileError, FilePath, file_errors, find, is_path
from tailmetrics.io.formats import format_of
from tailmetrics.io.forms import IN_MEMORY, NONE, Forms, Opening, Role, option_for
from tailmetrics.io.lines import LineFiles, Lines
from tailmetrics.io.rows import Parts, Source

ROWS_HINT = "--columns.query none takes row i with row i"
"""The option for files that name no query."""
ARGUMENTS: Mapping[Role, str] = {
    "preds": "preds",
    "target": "target",
    "train": "train_target",
    "pairs": "filter",
}
"""Role -> the argument that holds it."""


@dataclass(frozen=True, eq=False)
class Input:
    """Files or a table that is open.

    Attributes:
        name: One name for all files, in errors.
        role: What they hold.
        form: The name of the format.
        lines: The lines, if they name their query; None for rows.
        rows: The rows, if each of them is one row; None for lines.
    """

    name: FilePath
    role: Role
    form: str
    lines: LineFiles | None
    rows: Source | None

    @property
    def content(self) -> LineFiles | Source:
        """The lines or the rows."""
        if self.lines is not None:
            return self.lines
        assert self.rows is not None
        return self.rows

    @property
    def reading(self) -> TableReading:
        """How the first part is read."""
        return self.content.reading

    @property
    def has_queries(self) -> bool:
        """Whether lines or rows name their query."""
        return self.lines is not None or bool(self.content.reading.query)

    @property
    def last_name_wins(self) -> bool:
        """Whether of equal scores the last name is first, as in trec_eval."""
        return self.lines is not None and self.lines.parts[0].last_name_wins

    def as_lines(self) -> LineFiles:
        """Return lines, or the entries of rows that name their query."""
        if self.lines is not None:
            return self.lines
        assert self.rows is not None
        return LineFiles(
            self.name, [lines_of_rows(source) for source in self.rows.files]
        )

    def first_rows(self) -> list[str]:
        """Return the first two rows, or lines, as they are understood, in words."""
        if self.rows is not None:
            texts = self.rows.first_rows()
        else:
            texts = []
            for query, item, value in self.as_lines().parts[0].rows(Database(), 2):
                text = f"{query!r}: {item!r}"
                if value is not None and self.reading.least_first:
                    text += f" {-value:g}"
                elif value is not None:
                    text += f" {value:g}"
                texts.append(text)
        return [f"{self.name}, {text}" for text in texts]


def lines_of_rows(source: Source) -> Lines:
    """Return the entries of rows that name their query as lines."""
    has_values = source.reading.value is not None
    sql_type = "DOUBLE"
    if source.has_single_precision:
        sql_type = "FLOAT"
    return Lines(
        path=source.path,
        source="given",
        query="nullif(query, '')",
        item="item",
        value="value" if has_values else None,
        sql_type=sql_type,
        entries=source.entries,
        owner=source,
        reading=source.reading,
        may_lack_items=True,
    )


def open_input(
    caller: str,
    role: Role,
    value: Any,
    forms: Forms,
    target_paths: Sequence[FilePath] = (),
) -> Input:
    """Open files or a table in memory.

    Args:
        caller: The function that the user called, for errors.
        role: What is opened.
        value: A path, or a table in memory.
        forms: What the user says about its form.
        target_paths: The files of the targets, for predictions in LETOR.
    """
    if is_path(value):
        files = find(value)
        option = option_for(role, "format")
        form = format_of(caller, option, files.parts, forms.format(role))
        parts = []
        for part in files.parts:
            opening = Opening(
                path=part,
                role=role,
                form=form.name,
                forms=forms,
                target_paths=tuple(target_paths),
            )
            opening.check_columns()
            with file_errors(part, form.name):
                part_input = form.opener(opening)
            part_input.reading.check_names()
            parts.append(part_input)
        return _joined_parts(files.name, role, form.name, parts)

    from tailmetrics.io.objects import open_in_memory

    name = Path(ARGUMENTS[role])
    opening = Opening(path=name, role=role, form=IN_MEMORY, forms=forms)
    opening.check_columns()
    return _joined_parts(name, role, IN_MEMORY, [open_in_memory(opening, value)])


def _joined_parts(
    path: FilePath, role: Role, form: str, parts: Sequence[Lines | Source]
) -> Input:
    """Return the open parts of files as one.

    Raises:
        DataFileError: If some hold lines and others hold rows.
    """
    lines = [part for part in parts if isinstance(part, Lines)]
    rows = [part for part in parts if not isinstance(part, Lines)]
    if lines and rows:
        problem = f"holds lists, but {lines[0].path} holds lines"
        raise DataFileError(rows[0].path, problem, hint="all parts need the same form.")
    if lines:
        return Input(path, role, form, LineFiles(path, lines), None)
    if len(rows) == 1:
        return Input(path, role, form, None, rows[0])
    return Input(path, role, form, None, Parts(path, rows))


def open_inputs(
    caller: str, values: Sequence[tuple[Role, Any]], forms: Forms
) -> list[Input]:
    """Open all files, and raise one error that holds those of all files.

    Raises:
        DataFileError: The error of the first file that cannot be read; its ``others``
            are those of further files.
    """
    inputs: list[Input] = []
    errors: list[DataFileError] = []
    target_paths = _paths_of(dict(values).get("target"))
    for role, value in values:
        try:
            inputs.append(open_input(caller, role, value, forms, target_paths))
        except DataFileError as error:
            errors.append(error)
    if errors:
        errors += _errors_without_query(inputs)
        raise joined_errors(errors, inputs)
    _check_used(inputs, forms)
    return inputs


def _paths_of(target: Any) -> Sequence[FilePath]:
    """Return the files of the targets; none for tables and missing files.

    Opening the files tells what is missing.
    """
    if is_path(target):
        with suppress(DataFileError):
            return find(target).parts
    return ()


def _errors_without_query(inputs: Sequence[Input]) -> list[DataFileError]:
    """Return errors that ask for the query of tables of lists without one.

    The errors are shown with the questions about another file.
    """
    errors = []
    for files in inputs:
        is_table = (
            files.rows is not None and files.rows.is_table and files.form != IN_MEMORY
        )
        if files.role == "train" or files.has_queries or not is_table:
            continue
        if files.reading.possible_queries and not files.reading.is_named("query"):
            hint = (
                f"--{option_for(files.role, 'columns')}.query NAME joins by it, "
                f"{ROWS_HINT}"
            )
            errors.append(
                DataFileError(files.name, "no column is the query", hint=hint)
            )
    return errors


def joined_errors(
    errors: Sequence[DataFileError], inputs: Sequence[Input]
) -> DataFileError:
    """Return the first of several errors, which holds the others.

    Each names the options for its own kind of file, if there are several or a file
    without questions has a column of the same name that is not read.
    """
    unread: set[str] = set()
    for files in inputs:
        unread.update(files.reading.unread)
    worded = []
    for error in errors:
        if isinstance(error, ColumnError) and (
            len(errors) > 1 or unread.intersection(error.columns)
        ):
            error = error.with_options_of_this_file()
        worded.append(error)
    first = worded[0]
    first.others = tuple(worded[1:])
    return first


def _check_used(inputs: Sequence[Input], forms: Forms) -> None:
    """Raise if no file has a query or an item that the user names for all files."""
    for role in ("query", "item"):
        name = getattr(forms.shared_columns, role)
        if name in (None, NONE) or any(
            files.reading.is_named(role) for files in inputs
        ):
            continue
        paths = names_in_words(str(files.name) for files in inputs)
        hint = f"leave --columns.{role} out, or name a column that is there"
        if name.isdecimal():
            hint += "; places need all columns to be given by place"
        raise DataFileError(
            inputs[0].name, f"no file of {paths} has the {role} {name!r}", hint=hint
        )


def column_names(path: FilePath) -> list[str]:
    """Return the names of the columns of a file; none without columns.

    The suffix of the file names its format.
    """
    form = format_of("read", "format", [path], None).name
    opening = Opening(path=path, role="pairs", form=form)
    columns: Sequence[Column] = ()
    with file_errors(path, form):
        if form in TEXT_TABLES:
            from tailmetrics.io.text import TextTable

            columns = TextTable(opening).columns
        elif form in ("parquet", "arrow"):
            from tailmetrics.io.tables import columns_of, open_table

            columns = columns_of(open_table(path).schema)
        elif form in ("json", "jsonl"):
            from tailmetrics.io.objects import Objects

            columns = Objects(opening).columns
    return [column.name for column in columns]
