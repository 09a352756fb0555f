"""JSON files, JSON Lines, and what Python holds in memory: frames, Arrow tables, objects, dicts, and lists of names.

DuckDB reads objects with the types of the roles, in bounded memory. A JSON file that is one object is a dict from query
to a dict or a list of items, or predictions of MTEB; Python reads it as a whole.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from tailmetrics.io.columns import ORDER, Column, Kind, Opening, Reading, assign_roles, names_in_words
from tailmetrics.io.database import Database, joined_text, literal, named, quoted, text_of
from tailmetrics.io.files import DataFileError, FilePath, Plain, check_file, head, reading, stream
from tailmetrics.io.lines import Lines
from tailmetrics.io.lists import ListSource
from tailmetrics.io.rows import Source
from tailmetrics.io.tables import TableInMemory, columns_of, written
from tailmetrics.io.typed import open_typed

META = "mteb_model_meta"
"""The key that only predictions of MTEB have."""
OBJECT_BYTES = 2**24
"""Bytes of a JSON object at most; DuckDB allocates twice as much at once."""
MIXED_SIGNS = "decimal128(38, 0)"
"""The type of whole numbers of JSON of which some are negative: DuckDB's HUGEINT, as Arrow names it."""
NESTED_HINT = "write each label as text or as a whole number, or each as an object with the field 'item'."
JSON_HINT = 'pass {"query": {"item": 0.5}}, {"query": ["item"]} or [{"query": "q", "item": 7, "score": 0.5}].'
FORMS = (
    "the path of a file; a table, such as a DataFrame, with the columns query, item and score or gain, or with lists; "
    "or a dict from query to a dict from item to score or gain, or to a list of items"
)


# -- objects ----------------------------------------------------------------------------------------------------------


class Objects:
    """A file of JSON objects.

    Attributes:
        path: The file.
        columns: The fields of all objects: a name that comes late may be the gain.
        mixed: The fields of which DuckDB calls a part JSON, because its values have several types.
        database: The database that reads them.
        owner: The copy of the file without compression.
    """

    def __init__(self, opening: Opening) -> None:
        self.path = check_file(opening.path)
        with reading(self.path, opening.form):
            self.owner = Plain(self.path)
            self.database = Database(opening.memory)
            size = min(OBJECT_BYTES, self.database.limit // 8)
            layout = "array" if opening.form == "json" else "newline_delimited"
            self._options = (
                f"{named(self.owner.path)}, format='{layout}', records=true, compression='uncompressed', "
                f"maximum_object_size={size}"
            )
            every_object = f"SELECT * FROM read_json({self._options}, sample_size=-1)"
            schema = self.database.schema(every_object)
            types = self.database.rows(f"DESCRIBE {every_object}")
        self.columns = [_plain_column(column) for column in columns_of(schema)]
        self.mixed = {name for name, kind, *_ in types if "JSON" in kind}

    def source(self, kinds: Mapping[str, str]) -> str:
        """Return the SQL after FROM, with these types of columns."""
        types = ", ".join(f"{literal(name)}: {literal(kind)}" for name, kind in kinds.items())
        return f"read_json({self._options}, columns={{{types}}})"


def open_jsonl(opening: Opening) -> Lines | Source:
    """Open JSON Lines, an object in each line, or a list of objects, as a table whose columns are their fields."""
    objects = Objects(opening)
    roles = assign_roles(opening, objects.columns)
    columns = {column.name: column for column in objects.columns}
    kinds = dict.fromkeys(roles.query, "VARCHAR")
    if roles.is_listed:
        kinds |= _list_types(roles, columns)
        _check_flat(objects, roles, kinds)
        table = written(opening, objects.database, objects.owner, f"SELECT * FROM {objects.source(kinds)}")
        return ListSource(table, roles)

    _check_fields(objects.path, roles, columns)
    kinds[roles.item] = "VARCHAR"
    _check_flat(objects, roles, kinds)
    value, text_value, shown, second_order = None, "", "", ""
    if roles.second_order is not None:
        kinds[roles.second_order] = "VARCHAR"
        second_order = f"try_cast({quoted(roles.second_order)} AS DOUBLE)"
    if roles.value is not None:
        kinds[roles.value] = "DOUBLE"
        shown = quoted(roles.value)
        value = f"{roles.sign}{shown}"
        text_value = f"{roles.sign}try_cast({shown} AS DOUBLE)"
    return Lines(
        path=objects.path,
        source=objects.source(kinds),
        query=joined_text([text_of(quoted(name)) for name in roles.query or (roles.item,)]),
        item=text_of(quoted(roles.item)),
        value=value,
        second_order=second_order,
        text_source=objects.source(dict.fromkeys(kinds, "VARCHAR")),
        text_value=text_value,
        shown_value=shown,
        row_word="object",
        owner=objects.owner,
        reading=roles,
        last_name_wins=opening.form == "json",
    )


def open_json(opening: Opening) -> Lines | Source:
    """Open a JSON file: a list of objects, a dict of dicts or of lists, or predictions of MTEB."""
    path = check_file(opening.path)
    with reading(path, "JSON"):
        start = head(path).removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if start == b"[":
        return open_jsonl(opening)
    content = _whole_json(path)
    if not isinstance(content, dict):
        raise DataFileError(path, f"holds a {type(content).__name__}, no dict and no list of objects", hint=JSON_HINT)
    return open_dict(opening, content)


def _plain_column(column: Column) -> Column:
    """Return a column of JSON as text where DuckDB takes its text for dates or times, and as whole numbers."""
    if column.kind is Kind.OTHER and column.type.startswith(("date", "time")):
        return replace(column, kind=Kind.STRING)
    if column.entries is Kind.OTHER and "struct" not in column.type:
        return replace(column, entries=Kind.STRING)
    if column.type == MIXED_SIGNS:
        return replace(column, kind=Kind.WHOLE)
    if column.entries is Kind.NUMBER and MIXED_SIGNS in column.type:
        return replace(column, entries=Kind.WHOLE)
    return replace(column, fields=tuple(map(_plain_column, column.fields)))


def _check_fields(path: FilePath, roles: Reading, columns: Mapping[str, Column]) -> None:
    """Raise if a query or an item is neither a whole number nor text."""
    for name in (*roles.query, roles.item):
        is_whole = columns[name].kind is Kind.WHOLE and columns[name].type != MIXED_SIGNS
        if not is_whole and columns[name].kind is not Kind.STRING and columns[name].type != "null":
            hint = "queries and items are whole numbers or text; nested objects need a conversion."
            raise DataFileError(path, f"its field {name!r} is {columns[name].type}", hint=hint)


def _check_flat(objects: Objects, roles: Reading, kinds: Mapping[str, str]) -> None:
    """Raise if an item is an object or a list: read as text, it would be one label.

    Args:
        objects: The file.
        roles: How it is read.
        kinds: The SQL types of its columns.
    """
    name = roles.within or roles.item
    if name not in objects.mixed:
        return
    entries = quoted(name)
    if kinds[name].endswith("[]"):
        entries = f"unnest({quoted(name)})"
    item = "entry"
    if roles.within:
        item = f"entry.{quoted(roles.item)}"
    rows = f"SELECT {entries} AS entry FROM {objects.source({name: kinds[name].replace('VARCHAR', 'JSON')})}"
    with reading(objects.path, "JSON"):
        nested = objects.database.row(
            f"SELECT {item} FROM ({rows}) WHERE json_type({item}) IN ('OBJECT', 'ARRAY') LIMIT 1"
        )
    if nested is not None:
        raise DataFileError(objects.path, f"holds {nested[0]} among the items of {name!r}", hint=NESTED_HINT)


def _list_types(roles: Reading, columns: Mapping[str, Column]) -> dict[str, str]:
    """Return the SQL types of the columns of lists."""
    if not roles.within:
        entries = columns[roles.item].entries
        kinds = {roles.item: _item_type(columns[roles.item])}
        if columns[roles.item].is_list:
            kinds[roles.item] = "BIGINT[]" if entries is Kind.WHOLE else "VARCHAR[]"
        for name in (roles.value, roles.second_order):
            if name is not None:
                kinds[name] = "DOUBLE[]"
        return kinds
    parts = []
    for part in columns[roles.within].fields:
        if part.name == roles.item:
            parts.append(f"{quoted(part.name)} {_item_type(part)}")
        elif part.name in (roles.value, roles.second_order):
            parts.append(f"{quoted(part.name)} DOUBLE")
    return {roles.within: f"STRUCT({', '.join(parts)})[]"}


def _item_type(column: Column) -> str:
    return "BIGINT" if column.kind is Kind.WHOLE else "VARCHAR"


def _whole_json(path: FilePath) -> Any:
    """Return the value that a JSON file holds.

    Raises:
        DataFileError: If an object holds a key twice; Python's parser would silently drop the first value.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) < len(pairs):
            ((key, times),) = Counter(key for key, _ in pairs).most_common(1)
            hint = "give each query, item and field once in its object."
            raise DataFileError(path, f"holds the key {key!r} {times} times in one object", hint=hint)
        return content

    with reading(path, "JSON"), stream(path) as file:
        try:
            return json.loads(bytes(file.read()), object_pairs_hook=unique)
        except json.JSONDecodeError as error:
            if not error.msg.startswith("Extra data"):
                raise
            raise DataFileError(path, "holds several JSON values", hint="--format jsonl") from error


# -- dicts ------------------------------------------------------------------------------------------------------------


def open_dict(opening: Opening, content: Mapping[Any, Any]) -> Lines | Source:
    """Open a dict from query to a dict, to a list of items, or to a list of objects; in a list the first is the best.

    Dicts of dicts whose items are strings are read by the rules of TREC, like in pytrec_eval. Scores are rounded to
    single precision, so scores equal after that are tied. Negative whole grades of targets become 0; other negative
    gains stay, and are an error later.
    """
    path = opening.path
    if META in content:
        name, content = part_of(path, content, opening.part, opening.in_memory)
        description = f"the predictions for {name}"
    else:
        description = "{query: {item: number}}, or {query: [items]}"
        if opening.part is not None:
            raise DataFileError(path, f"is {opening.form}, which has no parts", hint="leave --part out.")
    if not content:
        raise DataFileError(path, "holds no rows", hint="the program that wrote it may have failed.")
    if _holds_objects(content):
        with reading(path, "a dict"):
            table = pa.table({"query": list(map(str, content)), "items": list(content.values())})
        return open_typed(replace(opening, columns=replace(opening.columns, query="query")), TableInMemory(path, table))

    by_name = is_run(content)
    with reading(path, "a dict"):
        table = _flat(path, content, opening.role, by_name)
    has_values = "value" in table.column_names
    role = "gain"
    if opening.role == "preds":
        role = ORDER
        if any(isinstance(entries, Mapping) for entries in content.values()):
            role = "score"
    roles = Reading(opening=opening, value_role=role if has_values else "", content=description)
    return Lines(
        path=path,
        source="given",
        query=text_of("query"),
        item=text_of("item"),
        value="value" if has_values else None,
        arrow={"given": lambda: table},
        owner=table,
        reading=roles,
        may_lack_items=True,
        last_name_wins=by_name or not opening.in_memory,
    )


def is_run(value: Any) -> bool:
    """Whether a value is a dict of dicts whose items are strings, the form of pytrec_eval, ranx and BEIR."""
    if not isinstance(value, Mapping):
        return False
    for entries in value.values():
        if isinstance(entries, Mapping) and entries:
            return isinstance(next(iter(entries)), str)
    return False


def _holds_objects(content: Mapping[Any, Any]) -> bool:
    """Whether the lists of a dict hold objects."""
    for entries in content.values():
        if isinstance(entries, (list, tuple)) and entries:
            return isinstance(entries[0], Mapping)
    return False


def _flat(path: FilePath, content: Mapping[Any, Any], role: str, by_name: bool) -> Any:
    """Return the entries of a dict as an Arrow table (query, item, value); an empty entry has no item."""
    queries: list[str] = []
    lengths: list[int] = []
    items: list[Any] = []
    values: list[Any] = []
    with_values = set()
    for query, listed in content.items():
        entries = listed
        if hasattr(listed, "tolist"):
            entries = listed.tolist()
        if not isinstance(entries, (Mapping, list, tuple)):
            problem = f"holds {type(listed).__name__}, not a dict or a list"
            raise DataFileError(path, problem, f"query {query!r}", f"pass {FORMS}.")
        queries.append(str(query))
        lengths.append(max(1, len(entries)))
        items.extend(entries or [None])
        if isinstance(entries, Mapping):
            values.extend(entries.values() or [0.0])
        elif not entries:
            values.append(0.0)
        if entries:
            with_values.add(isinstance(entries, Mapping))
    if len(with_values) > 1:
        hint = "give every query a dict of items and numbers, or every query a list of items."
        raise DataFileError(path, "holds dicts and lists", hint=hint)

    rows = np.repeat(np.arange(len(queries)), lengths)
    columns = {"query": pa.array(queries, pa.string()).take(pa.array(rows)), "item": _texts(path, items)}
    if any(isinstance(entries, Mapping) for entries in content.values()):
        columns["value"] = _numbers(path, values, columns, role, by_name)
    return pa.table(columns)


def _texts(path: FilePath, items: Sequence[Any]) -> Any:
    """Return items as an Arrow string array."""
    try:
        return pa.array(items, pa.string())
    except (pa.ArrowException, TypeError):
        return pa.array([_text(path, item) for item in items], pa.string())


def _text(path: FilePath, item: Any) -> str | None:
    """Return an item as text."""
    if item is None or isinstance(item, str):
        return item
    if not isinstance(item, (int, np.integer)) or isinstance(item, bool):
        raise DataFileError(path, f"the item {item!r} is not a string or a whole number")
    if item < 0:
        hint = "label ids start at 0; leave out what pads a list."
        raise DataFileError(path, f"holds the label id {item}", hint=hint)
    return str(item)


def _numbers(path: FilePath, values: Sequence[Any], columns: Mapping[str, Any], role: str, by_name: bool) -> Any:
    """Return scores or gains as float64, by the rules of TREC for runs."""
    try:
        numbers = np.array(pa.array(values, pa.float64()))
    except (pa.ArrowException, TypeError):
        for place, value in enumerate(values):
            if not _is_number(value):
                where = f"query {columns['query'][place].as_py()!r}"
                problem = f"the value of {columns['item'][place].as_py()!r} is {value!r}, not a number"
                raise DataFileError(path, problem, where, f"pass {FORMS}.") from None
        numbers = np.array(list(map(float, values)))
    if role == "preds" and by_name:
        with np.errstate(over="ignore", invalid="ignore"):  # as in trec_eval, too large scores become infinite
            numbers = numbers.astype(np.float32).astype(np.float64)
    elif by_name:
        is_grade = np.isfinite(numbers) & (numbers == np.floor(numbers))
        numbers = np.where(is_grade & (numbers < 0), 0, numbers)
    return pa.array(numbers)


def _is_number(value: Any) -> bool:
    """Whether a value, other than text, can be a float."""
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return not isinstance(value, str)


def part_of(path: FilePath, content: Mapping[str, Any], part: str | None, in_memory: bool) -> tuple[str, Any]:
    """Return the name, such as ``default/test``, and the run of one subset and split of predictions of MTEB.

    Raises:
        DataFileError: If there is no such part, or if no part is named and there are several.
    """
    parts: dict[str, Any] = {}
    for name, splits in content.items():
        if name != META and isinstance(splits, Mapping):
            parts |= {f"{name}/{split}": run for split, run in splits.items()}
    if part is None and len(parts) == 1:
        ((part, run),) = parts.items()
        return part, run
    if part in parts:
        return str(part), parts[part]
    if not parts:
        raise DataFileError(path, "holds no subset with a split", hint="MTEB writes {subset: {split: {query: …}}}.")
    names = names_in_words(name[:40] for name in parts)
    problem = f"holds predictions for {names}"
    if part is not None:
        problem = f"has no part {part[:40]!r}; its parts are {names}"
    first = next(iter(parts))[:80]
    hint = f"--part {first}"
    if in_memory:
        hint = "pass {}[{!r}][{!r}].".format(path, *first.split("/", 1))
    raise DataFileError(path, problem, hint=hint)


# -- in memory --------------------------------------------------------------------------------------------------------


def open_in_memory(opening: Opening, value: Any) -> Lines | Source:
    """Open a frame, an Arrow table, objects, a dict, or a list of names for each row.

    Raises:
        TypeError: If the value is none of these.
    """
    if isinstance(value, Mapping):
        return open_dict(opening, value)
    with reading(opening.path, "a table"):
        if _is_lists(value):
            name = "ids" if opening.role == "preds" else "labels"
            rows = []
            for labels in value:
                rows.append([_text(opening.path, label) for label in labels])
            table = pa.table({name: pa.array(rows, pa.list_(pa.string()))})
            source = ListSource(TableInMemory(opening.path, table), assign_roles(opening, columns_of(table.schema)))
            source.is_table = False
            return source
        table = _as_arrow(value)
    if table is None:
        raise TypeError(f"{opening.path}: is a {type(value).__name__}; pass {FORMS}.")
    return open_typed(opening, TableInMemory(opening.path, table))


def _as_arrow(value: Any) -> Any:
    """Return a table as an Arrow table; the index of a DataFrame is a column only if it has a name."""
    if isinstance(value, list) and value and all(isinstance(row, Mapping) for row in value):
        return pa.Table.from_pylist(value)
    if _is_rows_of_objects(value):
        return pa.table({"items": value})
    if hasattr(value, "iloc"):
        names = []
        for name in value.index.names:
            if name is not None and name not in value.columns:
                names.append(name)
        if names:
            value = value.reset_index(level=names)
        return pa.Table.from_pandas(value, preserve_index=False)
    if hasattr(value, "__arrow_c_stream__") or isinstance(value, pa.Table):
        return pa.table(value)
    return None


def _is_lists(value: Any) -> bool:
    """Whether a value is a list of names for each row."""
    if not isinstance(value, (list, tuple)) or not value or not all(isinstance(row, (list, tuple)) for row in value):
        return False
    return not _is_rows_of_objects(value)


def _is_rows_of_objects(value: Any) -> bool:
    """Whether a value is a list of objects for each row."""
    if not isinstance(value, list):
        return False
    for row in value:
        if isinstance(row, (list, tuple)) and row:
            return isinstance(row[0], Mapping)
    return False
