"""JSON files, JSON Lines, and tables, objects, dicts and lists in memory.

DuckDB reads objects with the types of the roles, in bounded memory. A JSON file that is
one object is a dict from query to a dict or a list of items, or predictions of MTEB;
Python reads it as a whole.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa

from tailmetrics.io.columns import (
    ALIASES,
    Column,
    Kind,
    TableReading,
    assign_roles,
    check_keys,
    names_among,
    names_in_words,
)
from tailmetrics.io.database import (
    Database,
    DatabaseError,
    literal,
    named,
    quoted,
    text_of,
)
from tailmetrics.io.files import (
    EMPTY_HINT,
    DataFileError,
    FilePath,
    Plain,
    file_errors,
    head,
    stream,
)
from tailmetrics.io.forms import Opening
from tailmetrics.io.lines import Lines, cells_of
from tailmetrics.io.lists import ListSource
from tailmetrics.io.rows import Source
from tailmetrics.io.tables import TableInMemory, columns_of, written
from tailmetrics.io.typed import open_typed

META = "mteb_model_meta"
"""The key that only predictions of MTEB have."""
OBJECT_BYTES = 2**24
"""Bytes of a JSON object at most; DuckDB allocates twice as much at once."""
KINDS = {Kind.TIME: Kind.TIME_IN_TEXT, Kind.DECIMAL: Kind.WHOLE, Kind.NULL: Kind.STRING}
"""The type that DuckDB finds -> what JSON holds.

Whole numbers with signs are HUGEINT, a decimal type of Arrow.
"""
CONVERT_HINT = (
    "convert or drop the columns that Arrow lacks; sparse ones by "
    "table[NAME].sparse.to_dense()."
)
NESTED_HINT = (
    "write each label as text or as a whole number, or each as an object with the "
    "field 'item'."
)
MOST_COLUMNS = 100
"""A dict with more keys has queries or items as keys, and no names of columns."""
CHECKED_ROWS = 100
"""The first rows or keys that are checked for those of a table."""
ITEM_NAMES = (*ALIASES["item"], *ALIASES["ids"], *ALIASES["labels"])
"""Known names of columns with items."""
TABLE_HINT = (
    'write a list of objects, as table.to_json(path, orient="records") does; if these '
    "are queries or labels, with the fields query, item and score."
)
TABLE_HINT_IN_MEMORY = (
    "pass the table, such as a DataFrame, or a list of objects; if these are queries "
    "or labels, with the columns query, item and score."
)
QUERY_HINT = "write each query as text or as a whole number."
OBJECTS_HINT = (
    'write a list of objects with a field for each column, such as [{"query": "q1", '
    '"group": "new"}].'
)
JSON_HINT = (
    'write {"query": {"item": 0.5}}, {"query": ["item"]} or [{"query": "q", "item": '
    '7, "score": 0.5}].'
)
FORMS = (
    "the path of a file; a table, such as a DataFrame, with the columns query, item "
    "and score or gain, or with lists; or a dict from query to a dict from item to "
    "score or gain, or to a list of items"
)


# -- objects ---------------------------------------------------------------------------


class Objects:
    """A file of JSON objects.

    Attributes:
        path: The file.
        columns: The fields of all objects: a name that comes late may be the gain.
        numbers: The fields that hold numbers alone.
        mixed: The fields of which DuckDB calls a part JSON, because its values have
            several types.
        database: The database that reads them.
        owner: The copy of the file without compression.
    """

    def __init__(self, opening: Opening) -> None:
        self.path = opening.path
        self.owner = Plain(self.path)
        self.database = Database(opening.forms.memory)
        size = min(OBJECT_BYTES, self.database.limit // 8)
        layout = "newline_delimited"
        if opening.form == "json":
            layout = "array"
        self._options = (
            f"{named(self.owner.path)}, format='{layout}', records=true, "
            f"compression='uncompressed', maximum_object_size={size}"
        )
        types = self._types()
        if not self._hold_for_all(types):
            types = self._types(", sample_size=-1")
        cells = [
            f"NULL::{sql_type} AS {quoted(name)}" for name, sql_type in types.items()
        ]
        schema = self.database.table(f"SELECT {', '.join(cells)} LIMIT 0").schema
        self.columns = [_plain_column(column) for column in columns_of(schema)]
        self.numbers = {name for name in types if types[name] in ("BIGINT", "DOUBLE")}
        self.mixed = {name for name, sql_type in types.items() if "JSON" in sql_type}

    def _types(self, option: str = "") -> dict[str, str]:
        """Return the types of the fields by name, as DuckDB finds them.

        By default, DuckDB searches the first 20,480 objects.
        """
        try:
            rows = self.database.rows(
                f"DESCRIBE SELECT * FROM read_json({self._options}{option})"
            )
        except DatabaseError as error:
            if "Expected top-level JSON array" not in str(error):
                raise
            raise DataFileError(
                self.path, "holds a dict, no list of objects", hint=OBJECTS_HINT
            ) from error
        return {name: sql_type for name, sql_type, *_ in rows}

    def _hold_for_all(self, types: Mapping[str, str]) -> bool:
        """Whether all objects have these fields of texts and numbers.

        To search all objects for types would take twice as long.

        Where all fields are read, DuckDB refuses another field, and a text in the place
        of a number. It takes a list or an object for a text, which is then told by its
        first letter, and rounds 1.5 to a whole number, so that the spelling of whole
        numbers is checked.
        """
        checks, spellings = [], []
        whole_types = {}
        for name, sql_type in types.items():
            if sql_type == "BIGINT":
                whole_types[name] = "VARCHAR"
                spellings.append(
                    f"bool_and(NOT regexp_matches({quoted(name)}, '[.eE]'))"
                )
            if sql_type == "VARCHAR":
                checks.append(f"bool_and({quoted(name)}[1] NOT IN ('[', '{{'))")
            elif sql_type in ("BIGINT", "DOUBLE"):
                checks.append(f"count({quoted(name)}) > 0")
            else:
                return False
        try:
            holds = all(
                self.database.row(
                    f"SELECT {', '.join(checks)} FROM read_json({self._options})"
                )
            )
            if holds and spellings:
                holds = all(
                    self.database.row(
                        f"SELECT {', '.join(spellings)} FROM {self.source(whole_types)}"
                    )
                )
        except DatabaseError:
            return False
        return holds

    def source(self, sql_types: Mapping[str, str]) -> str:
        """Return the SQL after FROM, with these types of columns."""
        types = ", ".join(
            f"{literal(name)}: {literal(sql_type)}"
            for name, sql_type in sql_types.items()
        )
        return f"read_json({self._options}, columns={{{types}}})"


def open_jsonl(opening: Opening) -> Lines | Source:
    """Open JSON Lines, or a list of objects, as a table of the objects' fields."""
    objects = Objects(opening)
    reading = assign_roles(opening, objects.columns)
    sql_types = dict.fromkeys(reading.query, "VARCHAR")
    if reading.is_listed:
        _check_flat(objects, reading)
        sql_types |= _list_types(reading, objects.columns)
        table = written(
            opening,
            objects.database,
            objects.owner,
            f"SELECT * FROM {objects.source(sql_types)}",
        )
        return ListSource(table, reading, _has_empty_lists_alone(objects, reading))

    check_keys(objects.path, reading, objects.columns)
    sql_types |= dict.fromkeys(reading.columns, "VARCHAR")
    has_numbers = False
    if reading.value is not None and reading.value in objects.numbers:
        has_numbers = True
        sql_types[reading.value] = "DOUBLE"
    _check_flat(objects, reading)
    return Lines(
        path=objects.path,
        source=objects.source(sql_types),
        row_word="object",
        owner=objects.owner,
        last_name_wins=opening.form == "json",
        **cells_of(reading, quoted, is_text=not has_numbers),
    )


def open_json(opening: Opening) -> Lines | Source:
    """Open a JSON file: a list of objects, a dict, or predictions of MTEB."""
    path = opening.path
    start = b"".join(head(path).removeprefix(b"\xef\xbb\xbf").split(maxsplit=2)[:2])
    if start == b"[]":
        raise DataFileError(path, "holds no rows", hint=EMPTY_HINT)
    if start.startswith(b"[["):
        raise DataFileError(path, "holds a list of lists", hint=JSON_HINT)
    if start.startswith(b"["):
        return open_jsonl(opening)
    content = _whole_json(path)
    if not isinstance(content, dict):
        raise DataFileError(
            path,
            f"holds a {type(content).__name__}, no dict and no list of objects",
            hint=JSON_HINT,
        )
    return open_dict(opening, content)


def _plain_column(column: Column) -> Column:
    """Return a column with the types of JSON in place of those of DuckDB."""
    kind = KINDS.get(column.kind, column.kind)
    entries = column.entries
    if entries is not None:
        entries = KINDS.get(entries, entries)
    return replace(
        column,
        kind=kind,
        entries=entries,
        fields=tuple(map(_plain_column, column.fields)),
    )


def _check_flat(objects: Objects, reading: TableReading) -> None:
    """Raise if a query or an item is an object or a list.

    Read as text, an object or a list would be one name.
    """
    for name in reading.query:
        if name in objects.mixed:
            _check_entries(objects, name, quoted(name), "queries", QUERY_HINT)

    item = reading.cell(objects.columns, reading.item)
    name = reading.within or reading.item
    is_nested = item.content is Kind.OTHER or (item.is_list and bool(reading.within))
    if not is_nested and name not in objects.mixed:
        return

    entry = quoted(name)
    if reading.within:
        entry = (
            f"unnest(json_extract({entry}, {literal('$[*].' + quoted(reading.item))}))"
        )
    elif item.is_list:
        entry = f"unnest(json_extract({entry}, '$[*]'))"
    _check_entries(objects, name, entry, "items", NESTED_HINT)


def _check_entries(
    objects: Objects, name: str, entry: str, noun: str, hint: str
) -> None:
    """Raise if an entry of a field, given as SQL, is an object or a list."""
    entries = f"SELECT {entry} AS entry FROM {objects.source({name: 'JSON'})}"
    nested = objects.database.row(
        f"SELECT entry FROM ({entries}) WHERE json_type(entry) IN ('OBJECT', "
        "'ARRAY') LIMIT 1"
    )
    if nested is not None:
        problem = f"holds {nested[0]} among the {noun} of {name!r}"
        raise DataFileError(objects.path, problem, hint=hint)


def _has_empty_lists_alone(objects: Objects, reading: TableReading) -> bool:
    """Whether all lists are empty.

    DuckDB finds no type for empty lists; only lists without a type are searched.
    """
    name = reading.within or reading.item
    if name not in objects.mixed:
        return False
    entry = (
        f"SELECT 1 FROM {objects.source({name: 'JSON[]'})} WHERE len({quoted(name)}) "
        "> 0 LIMIT 1"
    )
    return objects.database.row(entry) is None


def _list_types(reading: TableReading, columns: Sequence[Column]) -> dict[str, str]:
    """Return the SQL types of the columns of lists."""
    item = reading.cell(columns, reading.item)
    item_type = "VARCHAR"
    if item.content is Kind.WHOLE:
        item_type = "BIGINT"
    if item.is_list:
        item_type += "[]"
    numbers = [
        name for name in (reading.value, reading.second_order) if name is not None
    ]
    if not reading.within:
        return {reading.item: item_type} | dict.fromkeys(numbers, "DOUBLE[]")
    fields = [f"{quoted(reading.item)} {item_type}"] + [
        f"{quoted(name)} DOUBLE" for name in numbers
    ]
    return {reading.within: f"STRUCT({', '.join(fields)})[]"}


def _whole_json(path: FilePath) -> Any:
    """Return the value that a JSON file holds.

    Raises:
        DataFileError: If an object holds a key twice; Python's parser would silently
            drop the first value.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) < len(pairs):
            ((key, times),) = Counter(key for key, _ in pairs).most_common(1)
            hint = "give each query, item and field once in its object."
            raise DataFileError(
                path, f"holds the key {key!r} {times} times in one object", hint=hint
            )
        return content

    with stream(path) as file:
        try:
            return json.loads(bytes(file.read()), object_pairs_hook=unique)
        except json.JSONDecodeError as error:
            if not error.msg.startswith("Extra data"):
                raise
            raise DataFileError(
                path, "holds several JSON values", hint="--format jsonl"
            ) from error


# -- dicts -----------------------------------------------------------------------------


def open_dict(opening: Opening, content: Mapping[Any, Any]) -> Lines | Source:
    """Open a dict from query to a dict of items, or to a list of items or objects.

    The first item of a list is the best.

    Dicts of dicts whose items are strings are read by the rules of TREC, like in
    pytrec_eval. Scores are rounded to single precision, so scores equal after that are
    tied. Negative whole grades of targets become 0; other negative gains stay, and are
    an error later.
    """
    path = opening.path
    description = "{query: {item: number}}, or {query: [items]}"
    if META in content:
        name, content = part_of(opening, content)
        description = f"the predictions for {name}"
    elif opening.role == "preds" and opening.forms.part is not None:
        raise DataFileError(
            path, f"is {opening.form}, which has no parts", hint="leave --part out."
        )
    if not content:
        raise DataFileError(
            path, "holds no rows", hint="the program that wrote it may have failed."
        )
    _check_no_table(opening, content)
    queries = Counter(map(str, content))
    if len(queries) < len(content):
        ((query, times),) = queries.most_common(1)
        hint = "give each query once, as a number or as text."
        raise DataFileError(path, f"holds the query {query!r} {times} times", hint=hint)
    if isinstance(_first_entry(content.values()), Mapping):
        with file_errors(path, "a dict"):
            table = pa.table(
                {"query": list(map(str, content)), "items": list(content.values())}
            )
        return open_typed(opening, TableInMemory(path, table))

    by_name = is_run(content)
    with file_errors(path, "a dict"):
        table = _flat(path, content, opening.role, by_name)
    value, value_role = None, ""
    if "value" in table.column_names:
        value, value_role = "value", "gain"
        if opening.role == "preds":
            value_role = opening.run_role
        if value_role in ("rank", "distance"):
            value = "-value"
            description += f", whose number is the {value_role}, least first"
    return Lines(
        path=path,
        source="given",
        query=text_of("query"),
        item=text_of("item"),
        value=value,
        arrow_source=lambda: table,
        owner=table,
        reading=TableReading(
            opening=opening, value_role=value_role, content=description
        ),
        may_lack_items=True,
        last_name_wins=by_name or not opening.in_memory,
    )


def _check_no_table(opening: Opening, content: Mapping[Any, Any]) -> None:
    """Raise if a dict holds the columns or the rows of a table, as pandas writes it.

    The names of columns or the numbers of rows would be read as queries and items.
    """
    names: Iterable[Any] = ()
    if {"columns", "data"} <= content.keys():
        row = _first_entry([content["data"]])
        if isinstance(row, (list, tuple)) and isinstance(content["columns"], list):
            names = content["columns"]
    elif _holds_columns(content):
        names = content
    elif _holds_rows(content):
        names = next(iter(content.values()))
    if names:
        hint = TABLE_HINT
        if opening.in_memory:
            hint = TABLE_HINT_IN_MEMORY
        problem = (
            f"is a dict of a table with the columns {names_in_words(map(str, names))}"
        )
        raise DataFileError(opening.path, problem, hint=hint)


def _holds_columns(content: Mapping[Any, Any]) -> bool:
    """Whether a dict holds columns by name: lists, or cells by the number of the row."""
    if not _are_columns(content):
        return False
    columns = list(content.values())
    first = columns[0]
    if isinstance(first, Mapping):
        for column in columns:
            if not isinstance(column, Mapping) or column.keys() != first.keys():
                return False
        cells = {name: column.values() for name, column in content.items()}
        return _are_row_numbers(first) and _hold_names(cells)

    lengths = set()
    for column in columns:
        if isinstance(column, (str, Mapping)) or not hasattr(column, "__len__"):
            return False
        lengths.add(len(column))
    return len(lengths) == 1


def _holds_rows(content: Mapping[Any, Any]) -> bool:
    """Whether a dict holds rows by their number, which all have the same columns."""
    rows = list(islice(content.values(), CHECKED_ROWS))
    first = rows[0]
    for row in rows:
        if not isinstance(row, Mapping) or row.keys() != first.keys():
            return False
    if not _are_columns(first) or not _are_row_numbers(content):
        return False
    return _hold_names({name: [row[name] for row in rows] for name in first})


def _are_columns(keys: Collection[Any]) -> bool:
    """Whether keys are names of columns: of a query and an item, or all are known."""
    if not 2 <= len(keys) <= MOST_COLUMNS:
        return False
    names = list(map(str, keys))
    queries = names_among(names, ALIASES["query"])
    items = names_among(names, ITEM_NAMES, with_plurals=True)
    if queries and items:
        return True
    all_aliases = chain.from_iterable(ALIASES.values())
    known_names = names_among(names, all_aliases, with_plurals=True)
    return bool(queries or items) and len(known_names) == len(names)


def _are_row_numbers(keys: Collection[Any]) -> bool:
    """Whether the first keys are whole numbers, and there are some."""
    numbers = list(islice(map(str, keys), CHECKED_ROWS))
    return bool(numbers) and all(map(str.isdecimal, numbers))


def _hold_names(columns: Mapping[Any, Iterable[Any]]) -> bool:
    """Whether the first cells of queries and items are text or whole numbers."""
    aliases = (*ALIASES["query"], *ITEM_NAMES)
    for name, cells in columns.items():
        if not names_among([str(name)], aliases, with_plurals=True):
            continue
        for cell in islice(cells, CHECKED_ROWS):
            is_whole = isinstance(cell, Real) and float(cell).is_integer()
            if not is_whole and not isinstance(cell, str):
                return False
    return True


def is_run(value: Mapping[Any, Any]) -> bool:
    """Whether a dict has the form of pytrec_eval, ranx and BEIR.

    Such a dict holds dicts whose keys, the items, are strings.
    """
    for entries in value.values():
        if isinstance(entries, Mapping) and entries:
            return isinstance(next(iter(entries)), str)
    return False


def _first_entry(rows: Iterable[Any]) -> Any:
    """Return the first entry of the first list that has one."""
    for entries in rows:
        if isinstance(entries, (list, tuple)) and entries:
            return entries[0]
    return None


def _flat(path: FilePath, content: Mapping[Any, Any], role: str, by_name: bool) -> Any:
    """Return the entries of a dict as an Arrow table (query, item, value).

    An empty entry becomes a line without an item.
    """
    lengths: list[int] = []
    items: list[Any] = []
    values: list[Any] = []
    has_numbers: set[bool] = set()
    for query, entries in content.items():
        if hasattr(entries, "tolist"):
            entries = entries.tolist()
        if entries is None:  # as in the tables with lists
            entries = []
        if not isinstance(entries, (Mapping, list, tuple)):
            problem = f"holds {type(entries).__name__}, not a dict or a list"
            raise DataFileError(path, problem, f"query {query!r}", f"pass {FORMS}.")
        if entries:
            has_numbers.add(isinstance(entries, Mapping))
        lengths.append(max(1, len(entries)))
        items.extend(entries or [None])
        if isinstance(entries, Mapping):
            values.extend(entries.values())
        if not entries:
            values.append(0.0)
    if len(has_numbers) > 1:
        hint = (
            "give every query a dict of items and numbers, or every query a list "
            "of items."
        )
        raise DataFileError(path, "holds dicts and lists", hint=hint)

    rows = np.repeat(np.arange(len(lengths)), lengths)
    columns = {
        "query": pa.array(map(str, content), pa.string()).take(pa.array(rows)),
        "item": _texts(path, items),
    }
    if True in has_numbers:
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
        raise DataFileError(
            path, f"the item {item!r} is not a string or a whole number"
        )
    if item < 0:
        hint = "label ids start at 0; leave out what pads a list."
        raise DataFileError(path, f"holds the label id {item}", hint=hint)
    return str(item)


def _numbers(
    path: FilePath,
    values: Sequence[Any],
    columns: Mapping[str, Any],
    role: str,
    by_name: bool,
) -> Any:
    """Return scores or gains as float64, by the rules of TREC for runs."""
    try:
        numbers = np.array(pa.array(values, pa.float64()))
    except (pa.ArrowException, TypeError):
        numbers = np.zeros(len(values))
        for place, value in enumerate(values):
            try:
                numbers[place] = float(value)
            except (TypeError, ValueError) as error:
                where = f"query {columns['query'][place].as_py()!r}"
                problem = (
                    f"the value of {columns['item'][place].as_py()!r} is {value!r}, "
                    "not a number"
                )
                raise DataFileError(path, problem, where, f"pass {FORMS}.") from error
    if role == "preds" and by_name:
        # as in trec_eval, too large scores become infinite
        with np.errstate(over="ignore", invalid="ignore"):
            numbers = numbers.astype(np.float32).astype(np.float64)
    elif by_name:
        is_grade = np.isfinite(numbers) & (numbers == np.floor(numbers))
        numbers = np.where(is_grade & (numbers < 0), 0, numbers)
    return pa.array(numbers)


def part_of(opening: Opening, content: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the name and the run of one subset and split of predictions of MTEB.

    The name has the form ``default/test``.

    Raises:
        DataFileError: If there is no such part, or if no part is named and there are
            several.
    """
    parts: dict[str, Any] = {}
    for subset, splits in content.items():
        if subset != META and isinstance(splits, Mapping):
            for split, run in splits.items():
                parts[f"{subset}/{split}"] = run
    if not parts:
        hint = "MTEB writes {subset: {split: {query: …}}}."
        raise DataFileError(opening.path, "holds no subset with a split", hint=hint)

    name = opening.forms.part
    if name is None and len(parts) == 1:
        name = next(iter(parts))
    if name in parts:
        return str(name), parts[str(name)]
    hint = f"--part {next(iter(parts))}"
    if opening.in_memory:
        hint = f"pass {opening.path}[SUBSET][SPLIT]."
    problem = f"holds the parts {names_in_words(parts)}"
    if name is not None:
        problem += f", and no part {name!r}"
    raise DataFileError(opening.path, problem, hint=hint)


# -- in memory -------------------------------------------------------------------------


def open_in_memory(opening: Opening, value: Any) -> Lines | Source:
    """Open a frame, an Arrow table, objects, a dict, or a list of names for each row.

    Raises:
        TypeError: If the value is none of these.
    """
    if isinstance(value, Mapping):
        return open_dict(opening, value)
    with file_errors(opening.path, "a table", hint=CONVERT_HINT):
        if _is_lists(value):
            return _open_lists(opening, value)
        table = _as_arrow(value)
    if table is None:
        raise TypeError(f"{opening.path}: is a {type(value).__name__}; pass {FORMS}.")
    return open_typed(opening, TableInMemory(opening.path, table))


def _open_lists(opening: Opening, rows: Sequence[Sequence[Any]]) -> Source:
    """Open a list of names for each row."""
    texts = []
    for labels in rows:
        texts.append([_text(opening.path, label) for label in labels])
    table = pa.table({opening.list_role: pa.array(texts, pa.list_(pa.string()))})
    source = ListSource(
        TableInMemory(opening.path, table),
        assign_roles(opening, columns_of(table.schema)),
    )
    source.is_table = False
    return source


def _as_arrow(value: Any) -> Any:
    """Return a table as an Arrow table; None for another value.

    The index of a DataFrame is a column only if it has a name.
    """
    if isinstance(value, list) and isinstance(_first_entry(value), Mapping):
        return pa.table({"items": value})
    if (
        isinstance(value, list)
        and value
        and all(isinstance(row, Mapping) for row in value)
    ):
        # a name that comes late may be the gain
        names = dict.fromkeys(chain.from_iterable(value))
        return pa.table({name: [row.get(name) for row in value] for name in names})
    if hasattr(value, "iloc"):
        levels = [
            name
            for name in value.index.names
            if name is not None and name not in value.columns
        ]
        if levels:
            value = value.reset_index(level=levels)
        return pa.Table.from_pandas(value, preserve_index=False)
    if hasattr(value, "__arrow_c_stream__") or isinstance(value, pa.Table):
        return pa.table(value)
    return None


def _is_lists(value: Any) -> bool:
    """Whether a value is a list of names for each row."""
    if (
        not isinstance(value, (list, tuple))
        or not value
        or isinstance(_first_entry(value), Mapping)
    ):
        return False
    return all(isinstance(row, (list, tuple)) for row in value)
