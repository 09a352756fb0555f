"""How items become label ids: one rule for all files of an evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tailmetrics.io.agreement import check_agreement
from tailmetrics.io.engine import Engine
from tailmetrics.io.errors import DataFileError, note
from tailmetrics.io.names import WHOLE, Names
from tailmetrics.io.paths import FilePath

BLOCK = 2**16


@dataclass(frozen=True)
class LabelRule:
    """How items become label ids.

    Items are names, of which each gets the next id, unless whole numbers are asked for: by ``num_labels`` or by
    ``strings=False``. So ids with gaps, such as those of a catalogue of which a part was taken, make no labels that
    nobody has.

    Attributes:
        names: Names of all labels, in the order of their ids; None to find them in the files.
        strings: Whether items are names even where they look like numbers; None for the rule above.
        num_labels: Number of labels; None to find it in the files.
        descending: Whether the last name wins ties, as in trec_eval; such items are names, numbers or not.
    """

    names: Sequence[str] | None
    strings: bool | None
    num_labels: int | None
    descending: bool

    @property
    def by_number(self) -> bool:
        """Whether whole numbers are label ids as they are."""
        if self.names is not None or self.strings:
            return False
        return self.strings is False or (self.num_labels is not None and not self.descending)

    def number(self, engine: Engine, path: FilePath) -> Labels:
        """Make the table ``labels`` (item, id) from the table ``met``, which holds each item once.

        Names ascend by the bytes of UTF-8, whole numbers by value; they descend where the last name wins ties.

        Raises:
            DataFileError: If items are not the whole numbers that they have to be, or are more than there are labels.
        """
        if self.names is not None:
            load_names(engine, "labels", self.names)
            return self._named(path, self.names)
        is_whole = f"regexp_full_match(item, '{WHOLE}')"
        numbers = f"try_cast(CASE WHEN {is_whole} THEN item END AS BIGINT)"
        found = engine.row(
            f"SELECT coalesce(bool_and({is_whole}), true), count(*), min({numbers}), max({numbers}) FROM met"
        )
        whole, count, least, last = found
        if self.by_number:
            self._check_whole(engine, path, is_whole)
            engine.run("CREATE TABLE labels AS SELECT item, item::BIGINT AS id FROM met")
            return Labels(None, self.num_labels, max(self.num_labels or 0, (-1 if last is None else last) + 1))
        order = "item DESC" if self.descending else "length(item), item" if whole else "item"
        engine.run(f"CREATE TABLE labels AS SELECT item, row_number() OVER (ORDER BY {order}) - 1 AS id FROM met")
        if self.strings is None and not self.descending and whole and count and last != count - 1:
            what = f"the items of all files are {count:,} whole numbers from {least} to {last}"
            note(path, f"{what}, each a label of its own; with num_labels=L they are label ids from 0 to L - 1.")
        return self._named(path, engine.names("SELECT item FROM labels ORDER BY id"))

    def _check_whole(self, engine: Engine, path: FilePath, is_whole: str) -> None:
        wrong = engine.row(f"SELECT item FROM met WHERE NOT {is_whole} ORDER BY item LIMIT 1")
        if wrong is not None:
            hint = (
                "leave num_labels out, so that items are numbered as names, or say string_ids=True."
                if self.strings is None
                else "leave string_ids out, so that items are numbered as names."
            )
            raise DataFileError(path, f"the item {wrong[0]!r} in it or beside it is not a whole number", hint=hint)

    def _named(self, path: FilePath, names: Sequence[str]) -> Labels:
        if self.num_labels is not None and self.num_labels < len(names):
            hint = "give as many labels as there are names, or leave num_labels out."
            raise DataFileError(path, f"there are {len(names)} names for {self.num_labels} labels", hint=hint)
        num_labels = self.num_labels or len(names)
        return Labels(names, num_labels, num_labels)


@dataclass(frozen=True, eq=False)
class Labels:
    """The label ids of all files.

    Attributes:
        names: Names in the order of the ids; None when items are numbers.
        declared: Number of labels, None when only the largest id met is known.
        width: Number of columns that holds every id met.
    """

    names: Sequence[str] | None
    declared: int | None
    width: int


def load_names(engine: Engine, table: str, names: Sequence[str]) -> None:
    """Write names and their places into a table (item, id).

    Raises:
        ValueError: If a name comes twice.
    """
    import pyarrow as pa

    schema = pa.schema([("item", pa.large_string()), ("id", pa.int64())])

    def batches() -> Iterator[Any]:
        for first in range(0, len(names), BLOCK):
            some = names[first : first + BLOCK]
            text = some.column if isinstance(some, Names) else pa.array(some, pa.large_string())
            text = text.combine_chunks() if isinstance(text, pa.ChunkedArray) else text
            yield pa.record_batch([text.cast(pa.large_string()), pa.array(range(first, first + len(some)))], schema)

    engine.load(table, schema, batches())
    (repeated,) = engine.row(f"SELECT count(*) - count(DISTINCT item) FROM {table}")
    if repeated:
        raise ValueError(f"label_names: {repeated} names are repeated; pass each once.")


def ordered_names(
    engine: Engine,
    named: Sequence[tuple[FilePath, Iterable[Any]]],
    rule: LabelRule,
    as_written: bool,
    more: Iterable[Any] = (),
) -> Sequence[str] | None:
    """Return the distinct names of files in the order of their label ids; None if there are none.

    Args:
        engine: Where they are ordered.
        named: Each file with its names, arrow string arrays.
        rule: How names become label ids.
        as_written: Whether names that differ only in how a number is written are different.
        more: Further names, which no file needs to have in common with them.
    """
    import pyarrow as pa

    paths = list(dict.fromkeys(path for path, _ in named))
    schema = pa.schema([("name", pa.large_string()), ("file", pa.int64())])

    def batches() -> Iterator[Any]:
        for file, blocks in [*((paths.index(path), blocks) for path, blocks in named), (-1, more)]:
            for block in blocks:
                files = np.full(len(block), file)
                yield pa.record_batch([block.cast(pa.large_string()), pa.array(files, pa.int64())], schema)

    engine.load("named", schema, batches())
    engine.run("CREATE TABLE held AS SELECT DISTINCT name, file FROM named WHERE name IS NOT NULL")
    check_agreement(engine, "held", "label", [*paths, Path("label counts")], as_written)
    engine.run("CREATE TABLE met AS SELECT DISTINCT name AS item FROM held")
    return rule.number(engine, paths[0]).names or None
