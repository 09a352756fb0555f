"""Tables and dicts in memory, read as the lines of a file that names its queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tailmetrics.io.columns import Columns, choose
from tailmetrics.io.errors import DataFileError, reading
from tailmetrics.io.formats import Format, Opening
from tailmetrics.io.keyed import Triples
from tailmetrics.io.names import ordered
from tailmetrics.io.roles import Role

FORMS = (
    "the path of a file; a table with the columns query, item and score or gain, such as a DataFrame; or a dict from "
    "query to a dict from item to score or gain"
)


def in_memory(caller: str, role: Role, value: Any) -> Format:
    """Return the format that reads a table, or a dict of dicts, as pytrec_eval and ranx have runs and judgements.

    Raises:
        TypeError: If it is neither.
    """
    if isinstance(value, Mapping):
        opener = partial(_from_dict, value)
    elif hasattr(value, "__arrow_c_stream__") or hasattr(value, "columns"):
        opener = partial(_from_table, value)
    else:
        raise TypeError(f"{caller}: {role} is a {type(value).__name__}; pass {FORMS}.")
    return Format(name="in memory", holds="", suffixes=(), opener=opener, lines=True)


def names_in_memory(caller: str, tables: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the distinct items of several tables or dicts, in the order of their label ids.

    Args:
        caller: Who asks.
        tables: Tables by the argument that they were passed as.
    """
    found: set[str] = set()
    for argument, value in tables.items():
        for block in in_memory(caller, "target", value).open(Path(argument), None, Columns()):
            found.update(block.item.drop_null().to_pylist())
    return tuple(ordered(found, descending=False))


def _from_table(table: Any, asked: Opening) -> Iterator[Triples]:
    import pyarrow as pa
    import pyarrow.compute as pc

    path, role, columns = asked
    with reading(path, "a table"):
        arrow = pa.table(table) if hasattr(table, "__arrow_c_stream__") else pa.Table.from_pandas(table)
        chosen = choose(path, arrow.column_names, role, columns, "its columns")
        ids = []
        for name in (chosen.query, chosen.item):
            column = arrow[name].combine_chunks()
            if column.null_count:
                index = int(pc.is_null(column).index(True).as_py())
                raise DataFileError(path, f"has no {name!r}", _place(index), "every row names its query and its item.")
            if not (pa.types.is_integer(column.type) or _is_text(column.type)):
                hint = "queries and items are whole numbers or strings."
                raise DataFileError(path, f"its column {name!r} is {column.type}", hint=hint)
            ids.append(pc.cast(column, pa.string()))
        values = None
        if chosen.value is not None:
            column = pc.cast(arrow[chosen.value].combine_chunks(), pa.float64())
            values = np.asarray(column.to_numpy(zero_copy_only=False))
        yield Triples(ids[0], ids[1], values, _place)


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _from_dict(run: Mapping[Any, Mapping[Any, float]], asked: Opening) -> Iterator[Triples]:
    import pyarrow as pa

    query: list[str] = []
    item: list[str | None] = []
    value: list[float] = []
    path = asked.path
    with reading(path, "a dict"):
        for name, listed in run.items():
            if not isinstance(listed, Mapping):
                hint = f"pass {FORMS}."
                raise DataFileError(path, f"holds {type(listed).__name__}, not a dict", f"query {name!r}", hint)
            query.extend([str(name)] * max(1, len(listed)))
            item.extend(map(str, listed) if listed else [None])
            value.extend(map(float, listed.values()) if listed else [0.0])
        yield Triples(pa.array(query, pa.string()), pa.array(item, pa.string()), np.array(value), _place)


def _place(index: int) -> str:
    return f"row {index}"
