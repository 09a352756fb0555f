"""Tables and dicts in memory, read as the lines of a file that names its queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from re import fullmatch
from typing import Any

import numpy as np

from tailmetrics.io.columns import Columns, choose
from tailmetrics.io.errors import DataFileError, reading
from tailmetrics.io.formats import Format, Opening
from tailmetrics.io.keyed import Triples
from tailmetrics.io.names import WHOLE
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
    numbers = all(fullmatch(WHOLE, name) for name in found)
    return tuple(sorted(found, key=int) if numbers else sorted(found))


def _from_table(table: Any, asked: Opening) -> Iterator[Triples]:
    from tailmetrics.io.table_lines import BATCH_ROWS, triples

    path = asked.path
    with reading(path, "a table"):
        import pyarrow as pa

        arrow = pa.table(table) if hasattr(table, "__arrow_c_stream__") else pa.Table.from_pandas(table)
        chosen = choose(path, arrow.column_names, asked.role, asked.columns, "its columns")
        first = 0
        for batch in arrow.select(chosen.names).to_batches(BATCH_ROWS):
            yield triples(path, batch, chosen, first, {})
            first += len(batch)


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
