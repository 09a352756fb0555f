"""Keeps the labels that rows predict and hold, for intervals of label averages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from tailmetrics._transfer import num_processes
from tailmetrics.collection import TopKCollection
from tailmetrics.collection._alternatives import adds_up_processes
from tailmetrics.evaluation.label_codes import (
    LENGTHS,
    MOST,
    code_columns,
    deepest_counts,
    deepest_cutoff,
    has_label_cells,
    hashes,
    label_columns,
    reordered,
    spec_of,
)
from tailmetrics.evaluation.row_facts import COUNTS, GROUP, facts_of
from tailmetrics.evaluation.row_values import columns_of_rows, joined, values_in_columns
from tailmetrics.metrics import TopKMetric
from tailmetrics.ranking import Ranking
from tailmetrics.significance.labels import OverLabels

NUM_INSTEAD = 3
"""The most labels that are named as listed in the place of a label."""


def metrics_of_labels(collection: TopKCollection) -> list[TopKMetric]:
    """Return the metrics for which the labels of rows are kept.

    They average over labels, or are functions of the shown labels; the metric of the
    deepest counts is among them, too.
    """
    members = list(collection.members().values())
    deepest = deepest_counts(members)
    metrics = []
    for metric in members:
        if metric is deepest or (
            metric.is_bound and has_label_cells(metric, shown=True)
        ):
            metrics.append(metric)
    return metrics


class RowLabels:
    """Keeps the labels of rows, 8 bytes for each label.

    A metric with more than :data:`MOST` of them is left out.

    Args:
        collection: The collection of the metrics, which names keys.
        metrics: The metrics from :func:`metrics_of_labels`; none keeps nothing.

    Attributes:
        facts: Facts about the keys of these metrics.
    """

    def __init__(
        self, collection: TopKCollection, metrics: Sequence[TopKMetric]
    ) -> None:
        self._collection = collection
        self._named = collection.named
        self._metrics: list[Any] = list(metrics)
        self._deepest = deepest_counts(metrics)
        self.facts = facts_of(collection, {}, metrics)
        self._batches: list[dict[str, Any]] = []
        self._num_codes = Counter[str]()

    def update(self, ranking: Ranking) -> None:
        """Add the rows of a batch."""
        if self._metrics:
            self._keep(
                columns_of_rows(ranking)
                | code_columns(self._metrics, self._named, ranking)
            )

    def _keep(self, batch: dict[str, Any]) -> None:
        """Add the columns of a batch, and drop metrics that have too many labels."""
        self._batches.append(batch)
        self._num_codes.update({name: column.size for name, column in batch.items()})
        for metric in list(self._metrics):
            names = label_columns(metric, self._named)
            if max(self._num_codes[name] for name in names) <= MOST:
                continue
            self._metrics = [other for other in self._metrics if other is not metric]
            for kept_batch in self._batches:
                for name in names:
                    kept_batch.pop(name, None)

    def merge_state(self, other: RowLabels) -> None:
        """Append the rows of another evaluation."""
        if other._batches:
            self._keep(joined(other._batches))

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return the columns of the rows."""
        return {
            name: torch.from_numpy(column)
            for name, column in joined(self._batches).items()
        }

    def load_state_dict(self, columns: Mapping[str, torch.Tensor]) -> None:
        """Replace the rows by rows from :meth:`state_dict`."""
        self._batches = []
        self._num_codes.clear()
        if columns:
            self._keep({name: column.numpy() for name, column in columns.items()})

    def averages(self) -> dict[str, OverLabels]:
        """Return the labels of rows by key of an average, over all processes.

        Call this method in every process.

        Rows are sorted by their content, so that batches and processes do not change a
        single bit.
        """
        columns = self._of_all_processes()
        averages: dict[str, OverLabels] = {}
        for metric in self._metrics:
            names = label_columns(metric, self._named)
            keys = list(map(self._named, metric.keys()))
            if keys and all(
                name in columns and columns[name].size <= MOST for name in names
            ):
                averages |= values_in_columns(
                    keys, self.facts, _sorted_by_content(columns, names)
                )
        return averages

    def _of_all_processes(self) -> dict[str, Any]:
        """Return the columns of the rows of all processes."""
        if not self._metrics:
            return {}
        return joined(
            [
                part
                for part in values_of_processes(joined(self._batches), self._collection)
                if part
            ]
        )

    def listed_instead(self, labels: Sequence[int]) -> dict[int, list[tuple[int, int]]]:
        """Return the labels that are most often listed in the place of some labels.

        Call this method in every process.

        In the place of a label are wrong labels in lists of rows that miss it. For each
        label there are at most three, with the number of these rows; none if nothing
        keeps the labels of rows.
        """
        counts = {label: Counter[int]() for label in labels}
        columns = joined(self._batches)
        if self._deepest is not None:
            _, place = deepest_cutoff(self._deepest)
            name = label_columns(self._deepest, self._named)[place]
            if name in columns:
                num_buckets = len(spec_of(self._deepest)["sizes"])
                counts = _listed_instead(
                    columns[name + LENGTHS], columns[name], num_buckets, labels
                )

        instead = {}
        process_counts = values_of_processes(counts, self._collection)
        for label in labels:
            total = Counter[int]()
            for counts in process_counts:
                total.update(counts[label])
            instead[label] = sorted(
                total.items(), key=lambda entry: (-entry[1], entry[0])
            )[:NUM_INSTEAD]
        return instead


def _sorted_by_content(
    columns: Mapping[str, Any], names: Sequence[str]
) -> dict[str, Any]:
    """Return the columns of the rows that count, sorted by the rows' content."""
    lists = {name: (columns[name + LENGTHS], columns[name]) for name in names}
    num_rows = len(columns[names[0] + LENGTHS])
    inside = columns.get(COUNTS, np.ones(num_rows, bool))
    groups = columns.get(GROUP, np.full(num_rows, -1))
    order = np.lexsort(
        [groups, *(hashes(*name_lists) for name_lists in lists.values())]
    )
    order = order[inside[order]]
    result = {GROUP: groups[order]}
    for name, name_lists in lists.items():
        result[name + LENGTHS], result[name] = reordered(name_lists, order)
    return result


def _listed_instead(
    lengths: Any, codes: Any, num_buckets: int, labels: Sequence[int]
) -> dict[int, Counter[int]]:
    """Return how often labels are wrong in the lists of rows that miss a label.

    The counts are by missed label, then by wrong label.
    """
    rows = np.repeat(np.arange(lengths.size), lengths)
    cell_labels, flags = codes // 4 // num_buckets, codes % 4
    is_missed = (flags == 2) & np.isin(cell_labels, labels)
    in_missing_rows = np.isin(rows, rows[is_missed])
    rows, cell_labels, flags = (
        rows[in_missing_rows],
        cell_labels[in_missing_rows],
        flags[in_missing_rows],
    )
    counts = {}
    for label in labels:
        missing_rows = rows[(flags == 2) & (cell_labels == label)]
        is_wrong = np.isin(rows, missing_rows) & (flags == 1)
        counts[label] = Counter(cell_labels[is_wrong].tolist())
    return counts


def values_of_processes(value: Any, collection: TopKCollection) -> list[Any]:
    """Return the values of all processes, or of this one unless metrics add up."""
    if num_processes() == 1 or not adds_up_processes(collection.members().values()):
        return [value]
    values: list[Any] = [None] * num_processes()
    torch.distributed.all_gather_object(values, value)
    return values
