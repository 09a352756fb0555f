"""Predictions and targets whose lines name their query, brought to common rows and label ids."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from tailmetrics.io.errors import DataFileError
from tailmetrics.io.keyed import Entries, KeyedSource, Triples, collect
from tailmetrics.io.labels import LabelRule, Labels
from tailmetrics.io.names import Numbering
from tailmetrics.io.rows import Array, Ints, starts

KeyedFile: TypeAlias = tuple[Path, Iterable[Triples]]


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
        last_name_wins: Whether the last name wins ties.
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
    last_name_wins: bool
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
    labels = rule.number(items.names, preds[0] if preds else target[0])
    kept = seen if skip else np.ones(count, dtype=np.bool_)
    row_names = [name for name, keep in zip(queries.names[:count], kept, strict=True) if keep]
    row_of_query = np.full(len(queries), -1, dtype=np.int64)
    row_of_query[:count][kept] = np.arange(len(row_names))
    begin, end = (int(starts(kept)[bound]) for bound in (first, stop))

    def source(path: Path, entries: Entries) -> KeyedSource:
        rows = entries.rows(row_of_query, begin, end, labels.ids)
        return KeyedSource(path, rows, begin, row_names, labels.names, labels.width)

    found = None if preds is None or predicted is None else source(preds[0], predicted)
    return Joined(
        found, source(target[0], relevant), begin, end, row_names, labels, items, rule.descending, missing, unmatched
    )


def _predictions(preds: KeyedFile, queries: Numbering, items: Numbering, seen: Array, first: int, stop: int) -> Entries:
    """Return the predictions for the queries ``first`` to ``stop`` and mark every query that has one in ``seen``."""

    def keep(query: Ints) -> Array:
        seen[query[query < len(seen)]] = True
        return (query >= first) & (query < stop)

    return collect(*preds, queries, items, keep)
