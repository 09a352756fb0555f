"""Predictions and targets whose lines name their query, brought to common rows and label ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from tailmetrics.io.errors import DataFileError
from tailmetrics.io.keyed import Entries, KeyedSource, Triples, collect
from tailmetrics.io.names import Numbering, ordered, places, whole_numbers
from tailmetrics.io.rows import Array, Ints, starts

KeyedFile: TypeAlias = tuple[Path, Iterable[Triples]]


@dataclass(frozen=True)
class LabelRule:
    """How items become label ids.

    Attributes:
        names: Names of all labels, in the order of their ids; None to find them in the files.
        strings: Whether items are names even where they look like numbers; None to tell from the items.
        num_labels: Number of labels; None to find it in the files.
        descending: Whether the last name wins ties, as in trec_eval.
    """

    names: Sequence[str] | None
    strings: bool | None
    num_labels: int | None
    descending: bool

    def number(self, items: Numbering, path: Path) -> Labels:
        """Return the label id of every item."""
        if self.names is not None:
            return self._named(path, self.names, np.arange(len(self.names), dtype=np.int64))
        met = items.names
        numbers = None if self.strings or (self.strings is None and self.descending) else whole_numbers(met)
        if numbers is not None:
            return Labels(numbers, None, self.num_labels, max(self.num_labels or 0, int(numbers.max()) + 1))
        if self.strings is False or (self.num_labels is not None and not self.descending and not self.strings):
            wrong = next(name for name in met if whole_numbers([name]) is None)
            hint = "give num_labels only with whole numbers, or say string_ids=True, or pass label_names."
            raise DataFileError(path, f"the item {wrong!r} in it or beside it is not a whole number", hint=hint)
        names = ordered(met, self.descending)
        return self._named(path, names, places(met, names))

    def _named(self, path: Path, names: Sequence[str], ids: Array) -> Labels:
        if self.num_labels is not None and self.num_labels < len(names):
            hint = "give as many labels as there are names, or leave num_labels out."
            raise DataFileError(path, f"there are {len(names)} names for {self.num_labels} labels", hint=hint)
        num_labels = self.num_labels or len(names)
        return Labels(ids, tuple(names), num_labels, num_labels)


@dataclass(frozen=True, eq=False)
class Labels:
    """The label ids of a join.

    Attributes:
        ids: Label id of every item, by its code.
        names: Names in the order of the ids; None when items are numbers.
        declared: Number of labels, None when only the largest id met is known.
        width: Number of columns that holds every id met.
    """

    ids: Ints
    names: tuple[str, ...] | None
    declared: int | None
    width: int


@dataclass(frozen=True, eq=False)
class Joined:
    """Both files, the rank's rows of them, and what was found on the way.

    Attributes:
        preds: Predictions; None for a target alone.
        target: Targets.
        start: The rank's first row.
        stop: The row behind its last.
        row_names: Queries of all rows, of every rank.
        labels: Label ids.
        items: Code of every item.
        missing: Queries of the target without a prediction.
        unmatched: Queries of the predictions without a target.
    """

    preds: KeyedSource | None
    target: KeyedSource
    start: int
    stop: int
    row_names: list[str]
    labels: Labels
    items: Numbering
    missing: int
    unmatched: int

    def label_lookup(self) -> dict[str, int]:
        """Return the label id of every item by its text."""
        return {name: int(self.labels.ids[code]) for name, code in self.items.codes.items()}


def join(preds: KeyedFile | None, target: KeyedFile, rule: LabelRule, skip: bool, rank: int, world_size: int) -> Joined:
    """Read both files and keep the rank's queries.

    Ranks share the target's queries evenly before it is known which of them have predictions, so that none has to hold
    the predictions of all.
    """
    queries, items = Numbering(), Numbering(rule.names)
    relevant = collect(*target, queries, items)
    count = len(queries)
    first, stop = count * rank // world_size, count * (rank + 1) // world_size
    predicted, seen = None, np.ones(count, dtype=np.bool_)
    if preds is not None:
        seen[:] = False
        predicted = _predictions(preds, queries, items, seen, first, stop)
    unmatched = len(queries) - count
    missing = int(count - seen.sum())
    if missing == count:
        example = f"{queries.names[count]!r} there, {queries.names[0]!r} here"
        problem = f"has no query in common with {preds[0] if preds else target[0]}: {example}"
        raise DataFileError(target[0], problem, hint="do the two files belong together?")
    labels = rule.number(items, preds[0] if preds else target[0])
    kept = seen if skip else np.ones(count, dtype=np.bool_)
    row_names = [name for name, keep in zip(queries.names[:count], kept, strict=True) if keep]
    row_of_query = np.full(len(queries), -1, dtype=np.int64)
    row_of_query[:count][kept] = np.arange(len(row_names))
    begin, end = (int(starts(kept)[bound]) for bound in (first, stop))

    def source(path: Path, entries: Entries) -> KeyedSource:
        rows = entries.rows(row_of_query, begin, end, labels.ids)
        return KeyedSource(path, rows, begin, row_names, labels.names, labels.width)

    found = None if preds is None or predicted is None else source(preds[0], predicted)
    return Joined(found, source(target[0], relevant), begin, end, row_names, labels, items, missing, unmatched)


def _predictions(preds: KeyedFile, queries: Numbering, items: Numbering, seen: Array, first: int, stop: int) -> Entries:
    """Return the predictions for the queries ``first`` to ``stop`` and mark every query that has one in ``seen``."""

    def keep(query: Ints) -> Array:
        seen[query[query < len(seen)]] = True
        return (query >= first) & (query < stop)

    return collect(*preds, queries, items, keep)
