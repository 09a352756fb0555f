"""Opens tables whose columns have types, as lines or as rows of lists."""

from __future__ import annotations

from pathlib import Path

from tailmetrics.io.columns import Kind, Opening, Reading, assign_roles
from tailmetrics.io.database import joined_text, named, quoted, text_of
from tailmetrics.io.files import DataFileError
from tailmetrics.io.lines import Lines
from tailmetrics.io.lists import ListSource
from tailmetrics.io.rows import Source
from tailmetrics.io.tables import ParquetTable, Table, columns_of, open_table


def open_columns(opening: Opening) -> Lines | Source:
    """Open a file of Parquet or Arrow."""
    return open_typed(opening, open_table(opening.path))


def open_typed(opening: Opening, table: Table) -> Lines | Source:
    """Open a table whose columns have types."""
    roles = assign_roles(opening, columns_of(table.schema))
    if roles.is_listed:
        return ListSource(table, roles)
    return lines_of(table, roles)


def lines_of(table: Table, roles: Reading) -> Lines:
    """Return the lines of a table with types."""
    check_types(table, roles)
    names = (*roles.query, roles.item, roles.value, roles.second_order)
    needed = list(dict.fromkeys(name for name in names if name is not None))
    source, arrow = "given", {"given": lambda: table.reader(needed)}
    if isinstance(table, ParquetTable) and isinstance(table.file, Path):
        source, arrow = f"read_parquet({named(table.file)}, hive_partitioning=false)", {}
    value, shown_value, second_order = None, "", ""
    if roles.value is not None:
        shown_value = quoted(roles.value)
        value = f"{roles.sign}{shown_value}::DOUBLE"
    if roles.second_order is not None:
        second_order = f"try_cast({quoted(roles.second_order)} AS DOUBLE)"
    return Lines(
        path=table.path,
        source=source,
        query=joined_text([text_of(quoted(name)) for name in roles.query or (roles.item,)]),
        item=text_of(quoted(roles.item)),
        value=value,
        second_order=second_order,
        shown_value=shown_value,
        arrow=arrow,
        first_row=0,
        owner=table,
        reading=roles,
    )


def check_types(table: Table, roles: Reading) -> None:
    """Raise if queries or items are neither whole numbers nor text, or if values are no numbers.

    Raises:
        DataFileError: Naming the column and its type.
    """
    columns = {column.name: column for column in columns_of(table.schema)}
    for name in (*roles.query, roles.item):
        column = columns[name]
        if column.kind in (Kind.STRING, Kind.WHOLE) or column.type.startswith(("decimal", "null")):
            continue
        hint = f"queries and items are whole numbers or text: table.astype({{{name!r}: 'int64'}})."
        if column.is_list:
            hint = "a list of items is named by --columns.ids or --columns.labels."
        raise DataFileError(table.path, f"its column {name!r} is {column.type}", hint=hint)
    if roles.value is None:
        return
    column = columns[roles.value]
    if column.kind not in (Kind.WHOLE, Kind.NUMBER) and column.type != "null":
        hint = "scores, ranks and gains are numbers; grades in words need them: table[NAME].map({'no': 0, 'yes': 1})."
        raise DataFileError(table.path, f"its column {roles.value!r} is {column.type}", hint=hint)
