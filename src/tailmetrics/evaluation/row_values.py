"""Values and labels per row, from which intervals and comparisons are computed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any

import numpy as np

from tailmetrics.collection import TopKCollection
from tailmetrics.evaluation.label_codes import (
    LABELS,
    LENGTHS,
    MOST,
    code_columns,
    has_label_cells,
    label_columns,
    over_labels,
    spec_of,
)
from tailmetrics.evaluation.row_facts import (
    COUNTS,
    GROUP,
    LISTED,
    KeyFacts,
    RowFacts,
    adjusted_key,
    facts_of,
    value_columns,
)
from tailmetrics.metrics import TopKMetric
from tailmetrics.metrics._mistakes import is_listed
from tailmetrics.ranking import Ranking
from tailmetrics.ranking._threads import one_thread
from tailmetrics.significance.influence import Array, Flags, Ints

EMPTY_DENOMINATOR = 1e-12
"""The denominator of a row in a ratio 0 / 0, for comparisons.

This number is far below 1, the denominator of a single prediction.
"""


def has_row_values(metric: TopKMetric) -> bool:
    """Whether runs are compared by values per row of a metric.

    They are not if the metric has no such values, or is neither good nor bad.
    """
    return metric.aggregation.row_terms is not None and metric.aggregation.is_quality


class RowColumns:
    """Makes columns of values per row from rankings.

    A row has a number, two numbers for a ratio, or a list of coded labels.

    Args:
        collection: The metrics; metrics without values per row are left out.
        over_all: Metric by bucket -> the key of its value over all labels.
        num_rows: Number of rows in all batches; areas are left out if they need more
            than :data:`MOST` codes.
        headline: The metric that results are about, as a key without bucket.

    Attributes:
        facts: Facts about keys that the columns do not hold.
        metrics: The metrics that have columns.
    """

    def __init__(
        self,
        collection: TopKCollection,
        over_all: Mapping[str, str] | None = None,
        num_rows: int = 0,
        headline: str = "",
    ) -> None:
        self._collection = collection
        self._means: dict[str, Any] = {}
        self._averages: list[Any] = []
        for name, metric in collection.members().items():
            if has_row_values(metric):
                self._means[name] = metric
            # the first update of a metric that is not bound raises an error with its
            # name
            if metric.is_bound and has_label_cells(metric) and _fits(metric, num_rows):
                self._averages.append(metric)
        self.metrics: list[Any] = [*self._means.values(), *self._averages]
        self.facts: RowFacts = facts_of(
            collection, self._means, self._averages, over_all, headline
        )
        self._lists_are_read = any(
            facts.places is not None for facts in self.facts.keys.values()
        )

    def columns_of_batch(self, ranking: Ranking) -> dict[str, Any]:
        """Return the columns of a batch.

        A column is of values, shape (N,), or of the codes of all rows; another column
        then says how many codes belong to each row.
        """
        columns = columns_of_rows(ranking)
        if not self.facts.row_groups:  # no metric that has columns is by group
            columns.pop(GROUP, None)
        if ranking.row_mask is None:  # then no batch of the data has a row mask
            columns.pop(COUNTS)
        if is_listed(ranking) and self._lists_are_read:
            columns[LISTED] = ranking.length.cpu().numpy()
        named = self._collection.named
        with one_thread():
            for name, metric in self._means.items():
                for key, value in metric.row_values(ranking).items():
                    columns.update(_columns(named(key), value))
                for key, value in self._collection.reference_models.above_chance(
                    name, ranking
                ).items():
                    columns.update(_columns(named(adjusted_key(key)), value))
        return columns | code_columns(self._averages, named, ranking)


def _fits(metric: Any, num_rows: int) -> bool:
    """Whether the codes of so many rows can be kept.

    An area reads the scores of all labels of a row.
    """
    return (
        "area" not in spec_of(metric)["terms"]
        or num_rows * int(metric.num_labels or 0) <= MOST
    )


def columns_of_rows(ranking: Ranking) -> dict[str, Any]:
    """Return the group of each row, and whether it counts: columns of no metric.

    Batches without a row mask have the second column, too: others may have a mask.
    """
    columns: dict[str, Any] = {COUNTS: np.ones(ranking.num_rows, bool)}
    if ranking.rows.groups is not None:
        columns[GROUP] = ranking.rows.groups.cpu().numpy().astype(np.int64)
    if ranking.row_mask is not None:
        columns[COUNTS] = ranking.row_mask.cpu().numpy()
    return columns


def _columns(key: str, value: Any) -> dict[str, Array]:
    """Return the column of a key, or the two columns of a ratio."""
    sides = [value]
    if isinstance(value, tuple):
        sides = list(value)
    arrays = [side.detach().cpu().numpy().astype(np.float64) for side in sides]
    return dict(zip(value_columns(key, len(sides) == 2), arrays, strict=True))


def values_in_columns(
    keys: Iterable[str],
    facts: RowFacts,
    columns: Mapping[str, Any],
    scalars: Mapping[str, float] = MappingProxyType({}),
    empty_denominator: float = 0.0,
) -> dict[str, Any]:
    """Return values of rows by key, NaN where a row does not count.

    The values are :data:`tailmetrics.significance.RowValues`.

    Args:
        keys: The keys to read.
        facts: Facts about keys that the columns do not hold.
        columns: Columns from :class:`RowColumns`; ``GROUP`` holds the group number of
            each row.
        scalars: The values in the report by key; where a value is NaN, nothing is
            relevant, and no row counts.
        empty_denominator: The denominator of a row in a ratio 0 / 0 that the report
            counts as 0.
    """
    values: dict[str, Any] = {}
    for key in keys:
        key_facts = facts.keys[key]
        scalar = scalars.get(key, 1.0)
        if math.isnan(scalar):
            values[key] = np.full(_num_rows(key_facts, columns), np.nan)
        elif key_facts.labels is not None:
            values[key] = _read_labels(key_facts, columns)
        else:
            sides = _read_numbers(key_facts, columns)
            if scalar == 0 and key_facts.is_ratio and not np.nansum(sides[1]):
                sides[1] = sides[1] + empty_denominator
            values[key] = tuple(sides) if key_facts.is_ratio else sides[0]
    return values


def _num_rows(facts: KeyFacts, columns: Mapping[str, Any]) -> int:
    """Return the number of rows of the values of a key."""
    name = facts.columns[0]
    if facts.labels is not None:
        name += LENGTHS
    return len(columns[name])


def _read_labels(facts: KeyFacts, columns: Mapping[str, Any]) -> Any:
    """Return the labels of the rows of an average over labels."""
    assert facts.labels is not None
    (name,) = facts.columns
    lengths = columns[name + LENGTHS]
    inside: Flags = columns.get(COUNTS, np.ones(len(lengths), bool))
    if facts.row_group is not None:
        inside = inside & (columns[GROUP] == facts.row_group)
    return over_labels(facts.labels, facts.bucket, (lengths, columns[name]), inside)


def _read_numbers(facts: KeyFacts, columns: Mapping[str, Any]) -> list[Array]:
    """Return the values of rows of a key, or its numerators and denominators."""
    sides = [columns[name] for name in facts.columns]
    if facts.row_group is not None:
        sides = [
            np.where(columns[GROUP] == facts.row_group, side, np.nan) for side in sides
        ]
    return sides


class RowValues(RowColumns):
    """Collects the values of every row of an evaluation.

    They take 8 bytes for each row and key, or for each code of a label.
    """

    def __init__(
        self,
        collection: TopKCollection,
        over_all: Mapping[str, str] | None = None,
        headline: str = "",
    ) -> None:
        super().__init__(collection, over_all, headline=headline)
        self._batches: list[dict[str, Any]] = []
        self._num_codes = Counter[str]()

    def add(self, ranking: Ranking) -> None:
        """Add the rows of a batch.

        Raises:
            ValueError: If rows have too many predicted or relevant labels.
        """
        batch = self.columns_of_batch(ranking)
        self._batches.append(batch)
        for name in chain(
            *(
                label_columns(metric, self._collection.named)
                for metric in self._averages
            )
        ):
            self._num_codes[name] += batch[name].size
            if self._num_codes[name] > MOST:
                raise ValueError(
                    f"{name.removeprefix(LABELS)}: rows have more than {MOST:,} "
                    "predicted or relevant labels, too many to keep; resample no "
                    "averages over labels, compare none, or evaluate fewer rows."
                )

    def values(
        self,
        scalars: Mapping[str, float] = MappingProxyType({}),
        empty_denominator: float = 0.0,
    ) -> dict[str, Any]:
        """Return the values of all rows by key.

        They are a vector, two vectors for a ratio, or labels for a label average.

        For the arguments see :func:`values_in_columns`.
        """
        columns = joined(self._batches)
        return values_in_columns(
            self.facts.keys_in(columns), self.facts, columns, scalars, empty_denominator
        )

    @property
    def list_lengths(self) -> Ints | None:
        """The length of each row's list, shape (N,); None for scores of all labels."""
        return joined(self._batches).get(LISTED)


def joined(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the columns that all parts have, with the parts concatenated in order."""
    if not parts:
        return {}

    columns = {}
    for name in parts[0]:
        arrays = [part[name] for part in parts if name in part]
        if len(arrays) == len(parts):
            columns[name] = np.concatenate(arrays)
    return columns
