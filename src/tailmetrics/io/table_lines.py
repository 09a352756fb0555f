"""Long tables, in Parquet, Arrow or memory: one (query, item, score) or (query, item[, gain]) per row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailmetrics.io.columns import Chosen, choose
from tailmetrics.io.errors import DataFileError, reading
from tailmetrics.io.formats import Opening
from tailmetrics.io.keyed import Triples
from tailmetrics.io.paths import FilePath
from tailmetrics.io.tables import open_table

BATCH_ROWS = 2**17


def read_long(asked: Opening) -> Iterator[Triples]:
    """Yield the triples of a file, with the columns that its folders give."""
    table = open_table(asked.path)
    path, partition = asked.path, asked.partition
    header = [*table.schema.names, *(name for name in partition if name not in table.schema.names)]
    chosen = choose(path, header, asked.role, asked.columns, "its columns")
    stored = [name for name in chosen.names if name in table.schema.names]
    with reading(path, table.form):
        for first, batch in table.batches(stored, 0, table.num_rows, BATCH_ROWS):
            yield triples(path, batch, chosen, first, partition)


def triples(path: FilePath, batch: Any, chosen: Chosen, first: int, partition: Mapping[str, str]) -> Triples:
    """Return the triples of a record batch whose first row has the number ``first``."""

    def place(index: int) -> str:
        return f"row {first + index}"

    def column(name: str) -> Any:
        if name in partition and name not in batch.schema.names:
            return pa.repeat(pa.scalar(partition[name], pa.string()), len(batch))
        return batch.column(name)

    ids = [_ids(path, name, column(name), place) for name in (chosen.query, chosen.item)]
    values = None
    if chosen.value is not None:
        values = chosen.scores(_values(path, chosen.value, column(chosen.value), place))
    return Triples(ids[0], ids[1], values, place)


def _ids(path: FilePath, name: str, column: Any, place: Callable[[int], str]) -> Any:
    _check_no_null(path, name, column, place, "every row names its query and its item.")
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)) and (
        not pa.types.is_string_view(kind)
    ):
        hint = "queries and items are whole numbers or strings."
        raise DataFileError(path, f"its column {name!r} is {column.type}", hint=hint)
    return pc.cast(column, pa.string())


def _values(path: FilePath, name: str, column: Any, place: Callable[[int], str]) -> Any:
    _check_no_null(path, name, column, place, "every row has a number: leave out what was not scored.")
    return np.asarray(pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False))


def _check_no_null(path: FilePath, name: str, column: Any, place: Callable[[int], str], hint: str) -> None:
    if column.null_count:
        index = int(pc.is_null(column).index(True).as_py())
        raise DataFileError(path, f"has no {name!r}", place(index), hint)
