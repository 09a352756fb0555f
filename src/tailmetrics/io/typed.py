"""Opens tables whose columns have types, as lines or as rows of lists."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tailmetrics.io.columns import assign_roles, check_keys, check_value
from tailmetrics.io.database import named, quoted
from tailmetrics.io.forms import Opening
from tailmetrics.io.lines import Lines, cells_of
from tailmetrics.io.lists import ListSource
from tailmetrics.io.rows import Source
from tailmetrics.io.tables import ParquetTable, Table, columns_of, open_table


def open_columns(opening: Opening) -> Lines | Source:
    """Open a file of Parquet or Arrow."""
    return open_typed(opening, open_table(opening.path))


def open_typed(opening: Opening, table: Table) -> Lines | Source:
    """Open a table whose columns have types."""
    columns = columns_of(table.schema)
    reading = assign_roles(opening, columns)
    if reading.is_listed:
        return ListSource(table, reading)
    check_keys(table.path, reading, columns)
    check_value(table.path, reading, columns)
    arrow_source = None
    source = "given"
    if isinstance(table, ParquetTable) and isinstance(table.file, Path):
        source = f"read_parquet({named(table.file)}, hive_partitioning=false)"
    else:
        arrow_source = partial(table.reader, reading.columns)
    sql_type = "DOUBLE"
    if reading.has_single_precision(columns):
        sql_type = "FLOAT"
    return Lines(
        path=table.path,
        source=source,
        sql_type=sql_type,
        arrow_source=arrow_source,
        first_row=0,
        owner=table,
        **cells_of(reading, quoted),
    )
