"""Values per row, and the labels that rows hit, predict and hold, from which intervals and comparisons are computed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from tailmetrics.collection import TopKCollection
from tailmetrics.evaluation.label_codes import Lists, has_label_cells, hashes, lists_of, over_labels, reordered, spec_of
from tailmetrics.evaluation.row_facts import (
    COUNTS,
    DENOMINATOR,
    GROUP,
    LABELS,
    LENGTHS,
    LISTED,
    NUMERATOR,
    RowFacts,
    adjusted_key,
    columns_of,
    deepest_cutoff,
    facts_of,
    keys_in,
    label_columns,
)
from tailmetrics.metrics import TopKMetric
from tailmetrics.metrics._batches import is_listed
from tailmetrics.ranking import Ranking
from tailmetrics.ranking._device import one_thread
from tailmetrics.significance.influence import Array, Flags, Ints

MOST = 2**24
"""Largest number of codes that are kept for a cut-off, 128 MB; with more, averages over labels have no interval."""
NOTHING = 1e-12
"""The denominator of a row in a ratio 0 / 0, for comparisons: far below the 1 of a single prediction."""
NUM_INSTEAD = 3
"""The most labels that are named as listed in the place of a label."""


def has_row_values(metric: TopKMetric) -> bool:
    """Whether runs are compared by values per row of a metric: not if it is neither good nor bad."""
    return metric.aggregation.row_terms is not None and metric.aggregation.is_quality


class RowColumns:
    """Makes columns of values per row from rankings: a number, two numbers for a ratio, or a list of coded labels.

    Args:
        collection: The metrics; metrics without values per row are left out.
        over_all: Metric by bucket -> the key of its value over all labels.
        num_rows: Number of rows in all batches; areas are left out if they need more than :data:`MOST` codes.
        labels_alone: Whether only averages over labels, and functions of the shown labels, have columns.
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
        labels_alone: bool = False,
        headline: str = "",
    ) -> None:
        self._collection = collection
        members: dict[str, Any] = dict(collection.members())
        self._means: dict[str, Any] = {}
        if not labels_alone:
            self._means = {name: metric for name, metric in members.items() if has_row_values(metric)}
        self._averages: list[Any] = []
        for metric in members.values():
            # the first update of a metric that is not bound raises an error with its name
            if metric.is_bound and has_label_cells(metric, labels_alone) and _fits(metric, num_rows):
                self._averages.append(metric)
        self._deepest_counts: Any = None
        if labels_alone:
            self._deepest_counts = deepest_counts(members.values())
        if self._deepest_counts is not None and all(metric is not self._deepest_counts for metric in self._averages):
            self._averages.append(self._deepest_counts)
        self.metrics: list[Any] = [*self._means.values(), *self._averages]
        self.facts: RowFacts = facts_of(collection, self._means, self._averages, over_all or {}, headline)

    def of(self, ranking: Ranking) -> dict[str, Any]:
        """Return the columns of a batch: values, shape (N,), or the codes of all rows and their number per row."""
        columns: dict[str, Any] = {}
        if ranking.rows.groups is not None:
            columns[GROUP] = ranking.rows.groups.cpu().numpy().astype(np.int64)
        if ranking.row_mask is not None:
            columns[COUNTS] = ranking.row_mask.cpu().numpy()
        if is_listed(ranking) and self.facts.reaches:
            columns[LISTED] = ranking.length.cpu().numpy()
        with one_thread():
            for name, metric in self._means.items():
                for key, value in metric.row_values(ranking).items():
                    columns.update(_columns(self._collection.named(key), value))
                for key, value in self._collection.reference_models.above_chance(name, ranking).items():
                    columns.update(_columns(self._collection.named(adjusted_key(key)), value))
        for metric in self._averages:
            names = label_columns(metric, self._collection.named)
            for name, (lengths, codes) in zip(names, lists_of(metric, ranking), strict=True):
                columns[name + LENGTHS] = lengths
                columns[name] = codes
        return columns


def _fits(metric: Any, num_rows: int) -> bool:
    """Whether the codes of so many rows can be kept: an area reads the scores of all labels of a row."""
    return "area" not in spec_of(metric) or num_rows * int(metric.num_labels or 0) <= MOST


def deepest_counts(metrics: Iterable[Any]) -> Any:
    """Return the metric with the deepest list that keeps all counts of labels; None without a list."""
    counting = [metric for metric in metrics if metric.is_bound and metric.aggregation.keeps_all_counts]
    deepest = max(counting, key=deepest_cutoff, default=None)
    if deepest is None or not deepest_cutoff(deepest)[0]:
        return None
    return deepest


def _columns(key: str, value: Any) -> dict[str, Array]:
    """Return the column of a key, or the two columns of a ratio."""
    if isinstance(value, tuple):
        numerator, denominator = value
        return {key + NUMERATOR: _numbers(numerator), key + DENOMINATOR: _numbers(denominator)}
    return {key: _numbers(value)}


def _numbers(value: torch.Tensor) -> Array:
    return value.detach().cpu().numpy().astype(np.float64)


def read_columns(
    keys: Iterable[str],
    facts: RowFacts,
    columns: Mapping[str, Any],
    scalars: Mapping[str, float] = MappingProxyType({}),
    nothing: float = 0.0,
) -> dict[str, Any]:
    """Return values of rows by key, as :data:`tailmetrics.significance.RowValues`, NaN where a row does not count.

    Args:
        keys: The keys to read.
        facts: Facts about keys that the columns do not hold.
        columns: Columns from :class:`RowColumns`; ``GROUP`` holds the group number of each row.
        scalars: The values in the report by key; where a value is NaN, nothing is relevant, and no row counts.
        nothing: The denominator of a row in a ratio 0 / 0 that the report counts as 0.
    """
    values: dict[str, Any] = {}
    for key in keys:
        if key in facts.labels:
            rows = _read_labels(key, facts, columns)
        else:
            rows = _read_numbers(key, facts, columns)
        scalar = scalars.get(key, 1.0)
        if math.isnan(scalar):
            rows = np.full(_num_rows(rows), np.nan)
        elif scalar == 0 and isinstance(rows, tuple) and not np.nansum(rows[1]):
            rows = rows[0], rows[1] + nothing
        values[key] = rows
    return values


def _read_labels(key: str, facts: RowFacts, columns: Mapping[str, Any]) -> Any:
    """Return the labels of the rows of an average over labels."""
    column, spec, bucket, group = facts.labels[key]
    lengths = columns[column + LENGTHS]
    inside: Flags = columns.get(COUNTS, np.ones(len(lengths), bool))
    if group is not None:
        inside = inside & (columns[GROUP] == group)
    return over_labels(spec, bucket, (lengths, columns[column]), inside)


def _read_numbers(key: str, facts: RowFacts, columns: Mapping[str, Any]) -> Any:
    """Return the values of rows of a key, or its numerators and denominators."""
    sides = [columns[name] for name in columns_of(key, facts, columns)]
    if key in facts.of_groups:
        _, group = facts.of_groups[key]
        sides = [np.where(columns[GROUP] == group, side, np.nan) for side in sides]
    if len(sides) == 2:
        return sides[0], sides[1]
    return sides[0]


def _num_rows(rows: Any) -> int:
    """Return the number of rows of the values of a key."""
    if isinstance(rows, tuple):
        return len(rows[0])
    return len(getattr(rows, "inside", rows))


class RowValues(RowColumns):
    """Collects the values of every row of an evaluation: 8 bytes for each row and key, or for each code of a label.

    Args:
        collection: As for :class:`RowColumns`.
        over_all: As for :class:`RowColumns`.
        labels_alone: As for :class:`RowColumns`. An average with too many codes is then left out, without an error.
        headline: As for :class:`RowColumns`.
    """

    def __init__(
        self,
        collection: TopKCollection,
        over_all: Mapping[str, str] | None = None,
        labels_alone: bool = False,
        headline: str = "",
    ) -> None:
        super().__init__(collection, over_all, labels_alone=labels_alone, headline=headline)
        self._labels_alone = labels_alone
        self._batches: list[dict[str, Any]] = []
        self._num_codes: dict[str, int] = {}

    def add(self, ranking: Ranking) -> None:
        """Add the rows of a batch.

        Raises:
            ValueError: If rows have too many predicted or relevant labels, unless ``labels_alone`` is True.
        """
        self._keep(self.of(ranking))

    def _keep(self, batch: dict[str, Any]) -> None:
        """Add the columns of a batch; averages with too many codes are left out, or refused."""
        self._batches.append(batch)
        for metric in list(self._averages):
            for name in label_columns(metric, self._collection.named):
                if name not in batch:
                    continue
                self._num_codes[name] = self._num_codes.get(name, 0) + batch[name].size
                if self._num_codes[name] > MOST:
                    self._leave_out(metric, name)

    def _leave_out(self, metric: Any, name: str) -> None:
        """Keep no codes of a metric any longer, or raise if values are needed."""
        if not self._labels_alone:
            raise ValueError(
                f"{name.removeprefix(LABELS)}: rows have more than {MOST:,} predicted or relevant labels, too "
                "many to keep; resample no averages over labels, compare none, or evaluate fewer rows."
            )
        self._averages = [other for other in self._averages if other is not metric]
        for batch in self._batches:
            batch.pop(name, None)

    def merge_state(self, other: RowValues) -> None:
        """Append the rows of another evaluation."""
        if other._batches:
            self._keep(joined(other._batches))

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return the columns of the rows."""
        return {name: torch.from_numpy(column) for name, column in joined(self._batches).items()}

    def load_state_dict(self, columns: Mapping[str, torch.Tensor]) -> None:
        """Replace the rows by rows from :meth:`state_dict`."""
        batch = {name: column.numpy() for name, column in columns.items()}
        self._batches = [batch] if batch else []
        self._num_codes = {name: column.size for name, column in batch.items()}

    def columns(self, scalars: Mapping[str, float] = MappingProxyType({}), nothing: float = 0.0) -> dict[str, Any]:
        """Return the values of all rows by key: a vector, two vectors for a ratio, or labels for a label average.

        For the arguments see :func:`read_columns`.
        """
        columns = joined(self._batches)
        return read_columns(keys_in(columns, self.facts), self.facts, columns, scalars, nothing)

    @property
    def list_lengths(self) -> Ints | None:
        """Number of labels in the list of each row, shape (N,); None if preds are scores of all labels."""
        return joined(self._batches).get(LISTED)

    def by_content(self) -> dict[str, Any]:
        """Return the labels of the rows of all processes, by key of a label average; call it in every process.

        Rows are sorted by their content, so that batches and processes do not change a single bit.
        """
        columns = joined([part for part in from_all(joined(self._batches)) if part])
        values: dict[str, Any] = {}
        for metric in self._averages:
            names = label_columns(metric, self._collection.named)
            if all(name in columns and columns[name].size <= MOST for name in names):
                keys = [key for key, (column, *_) in self.facts.labels.items() if column in names]
                values.update(read_columns(keys, self.facts, _sorted_by_content(columns, names)))
        return values

    def listed_instead(self, labels: Sequence[int]) -> dict[int, list[tuple[int, int]]]:
        """Return the labels that are most often listed in the place of some labels; call it in every process.

        In the place of a label are wrong labels in lists of rows that miss it. For each label there are at most three,
        with the number of these rows; none if nothing keeps the labels of rows.
        """
        counts = {label: Counter[int]() for label in labels}
        columns = joined(self._batches)
        if self._deepest_counts is not None:
            _, place = deepest_cutoff(self._deepest_counts)
            name = label_columns(self._deepest_counts, self._collection.named)[place]
            if name in columns:
                num_buckets = len(spec_of(self._deepest_counts)["sizes"])
                counts = _listed_instead((columns[name + LENGTHS], columns[name]), num_buckets, labels)

        instead = {}
        process_counts = from_all(counts)
        for label in labels:
            total = Counter[int]()
            for counts in process_counts:
                total.update(counts[label])
            most_frequent = sorted(total.items(), key=lambda entry: (-entry[1], entry[0]))
            instead[label] = most_frequent[:NUM_INSTEAD]
        return instead


def _sorted_by_content(columns: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return columns of codes, of groups and of rows that count, with the rows sorted by their content."""
    lists: dict[str, Lists] = {name: (columns[name + LENGTHS], columns[name]) for name in names}
    num_rows = next(iter(lists.values()))[0].size
    inside = columns.get(COUNTS, np.ones(num_rows, bool))
    groups = columns.get(GROUP, np.full(num_rows, -1))
    order = np.lexsort([groups, inside, *(hashes(*name_lists) for name_lists in lists.values())])
    result = {GROUP: groups[order], COUNTS: inside[order]}
    for name, name_lists in lists.items():
        result[name + LENGTHS], result[name] = reordered(name_lists, order)
    return result


def _listed_instead(lists: Lists, num_buckets: int, labels: Sequence[int]) -> dict[int, Counter[int]]:
    """Return how often each label is wrong in lists of rows that miss one of some labels."""
    lengths, codes = lists
    rows = np.repeat(np.arange(lengths.size), lengths)
    cell_labels, flags = codes // 4 // num_buckets, codes % 4
    is_missed = (flags == 2) & np.isin(cell_labels, labels)
    in_missing_rows = np.isin(rows, rows[is_missed])
    rows, cell_labels, flags = rows[in_missing_rows], cell_labels[in_missing_rows], flags[in_missing_rows]
    counts = {}
    for label in labels:
        missing_rows = rows[(flags == 2) & (cell_labels == label)]
        is_wrong = np.isin(rows, missing_rows) & (flags == 1)
        counts[label] = Counter(cell_labels[is_wrong].tolist())
    return counts


def from_all(value: Any) -> list[Any]:
    """Return the values of all processes; every process gets all of them."""
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return [value]
    values: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(values, value)
    return values


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
