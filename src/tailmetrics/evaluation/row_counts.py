"""Counts of rows and relevant labels, for the tables and notes of a report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tailmetrics._exact_metric import ExactMetric, writable
from tailmetrics.buckets import LabelBuckets
from tailmetrics.evaluation.label_codes import deepest_cutoff, lists_of, spec_of
from tailmetrics.metrics import TopKMetric
from tailmetrics.metrics._mistakes import is_listed, rows_of_one_grade
from tailmetrics.ranking import EVERYTHING, Ranking
from tailmetrics.ranking._kernels import Targets
from tailmetrics.ranking._orders import sums_by_key

NO_LABEL = -2
"""Stands for the most frequent label where training counts are unknown.

No label and no padding has this id.
"""


class Totals(NamedTuple):
    """What :class:`RowCounts` has counted over all processes.

    Attributes:
        rows: Number of rows.
        positives: Number of relevant labels.
        positives_of_top: How often the most frequent label of training is relevant.
        lost: Number of relevant labels whose score is ``-inf``.
        ignored_rows: Number of rows that ``ignore_index`` leaves out.
        equal_grades: Number of rows whose labels all have one grade, so that every
            order is as good.
        rows_of_groups: Number of rows of each group.
        positives_of_buckets: Number of relevant labels by kind of buckets and bucket.
        num_labels: L, 0 if no batch tells it.
        shortest: The length of the shortest list.
        crowded_support: How often each label is relevant in crowded rows; empty if that
            is not counted.
        crowded_hits: How often each label is found in crowded rows; empty if that is
            not counted.
        crowded_rows: Number of crowded rows.
    """

    rows: int
    positives: int
    positives_of_top: int
    lost: int
    ignored_rows: int
    equal_grades: int
    rows_of_groups: list[int]
    positives_of_buckets: list[list[int]]
    num_labels: int
    shortest: int
    crowded_support: Tensor
    crowded_hits: Tensor
    crowded_rows: int


NUMBERS = (
    "rows",
    "positives",
    "positives_of_top",
    "lost",
    "ignored_rows",
    "equal_grades",
)
"""The single numbers of :class:`Totals`, in the order of the state."""


class RowCounts(ExactMetric):
    """Counts rows, the rows of each group, and relevant labels: see :class:`Totals`.

    Args:
        bucketings: Any number of different label buckets.
        min_gain: The smallest gain of a relevant label, as in the metrics; None for any
            gain above 0.
        groups: Number of row groups.
        compares_grades: Whether rows with equal grades are counted.
        label_metric: The metric that says which labels of crowded rows are relevant and
            found, see :func:`deepest_counts`; None if these labels are not counted.
            Rows are crowded if they have more labels than a list has places. Tests for
            blind spots leave these rows out: in the others each label can be found.
    """

    counts: Tensor
    """The single numbers in the order of ``NUMBERS``, then groups, then buckets."""
    extent: Tensor
    """The number of labels L, 0 if unknown; and minus the shortest list's length."""
    crowded_labels: Tensor
    """Supports and hits of all labels in crowded rows, and the number of these rows."""

    def __init__(
        self,
        bucketings: Sequence[LabelBuckets],
        min_gain: float | None = None,
        groups: int = 0,
        compares_grades: bool = False,
        label_metric: TopKMetric | None = None,
    ) -> None:
        super().__init__()
        self.bucketings = tuple(bucketings)
        self.min_gain = min_gain
        self.groups = groups
        self.compares_grades = compares_grades
        self.label_metric = label_metric
        self.counted_buckets: LabelBuckets | None = None
        """The first buckets with training counts."""
        self.training_counts: Tensor | None = None
        self.top = NO_LABEL
        """The most frequent label of training."""
        for buckets in reversed(self.bucketings):
            if buckets.counts is not None:
                self.counted_buckets = buckets
                self.training_counts = buckets.counts
                self.top = int(buckets.counts.argmax())
        num_labels = 0
        if label_metric is not None:
            num_labels = label_metric.num_labels or 0
        self.sizes = [len(NUMBERS), groups, *map(len, bucketings)]
        self.add_state("counts", torch.zeros(sum(self.sizes), dtype=torch.int64), "sum")
        # scores of all labels have no end
        self.add_state("extent", torch.tensor([0, -EVERYTHING]), "max")
        self.add_state(
            "crowded_labels", torch.zeros(2 * num_labels + 1, dtype=torch.int64), "sum"
        )

    def update(self, ranking: Ranking, num_ignored: Tensor | int = 0) -> None:
        """Count the rows and the relevant labels of a ranking.

        Args:
            ranking: The ranking.
            num_ignored: The number of its rows that ``ignore_index`` leaves out.
        """
        targets = ranking.at_least(self.min_gain).targets
        positives = targets.n_relevant
        rows = torch.ones_like(positives)
        if targets.row_mask is not None:
            rows = targets.row_mask.to(torch.int64)
        zero = rows.new_zeros(())

        positives_of_top = zero
        group_counts = []
        bucket_counts = []
        if self.groups:
            assert ranking.rows.groups is not None  # the metrics require them
            group_counts = [
                sums_by_key(rows, ranking.rows.groups % (self.groups + 1), self.groups)
            ]
        if self.bucketings:
            ids, times = targets.kernels.occurrences(targets)
            positives_of_top = (times * (ids == self.top)).sum()
            bucket_counts = [
                sums_by_key(times, buckets.of(ids), len(buckets))
                for buckets in self.bucketings
            ]
        numbers = [
            rows.sum(),
            positives.sum(),
            positives_of_top,
            _lost(ranking.scores, targets),
            zero + num_ignored,
            rows_of_one_grade(ranking) if self.compares_grades else zero,
        ]
        self.counts = writable(self.counts)
        self.counts += torch.cat([torch.stack(numbers), *group_counts, *bucket_counts])
        self.extent = self._extent_with(ranking)
        if self.label_metric is not None:
            self.crowded_labels = self.crowded_labels + _crowded_labels(
                self.label_metric, ranking
            )

    def _extent_with(self, ranking: Ranking) -> Tensor:
        """Return the state ``extent`` after a batch."""
        num_labels, end = self.extent
        num_labels = num_labels.clamp(min=ranking.num_labels or 0)
        if is_listed(ranking) and ranking.num_rows:
            lengths = ranking.length
            if ranking.row_mask is not None:
                lengths = lengths.where(ranking.row_mask, EVERYTHING)
            end = torch.maximum(end, -lengths.min())
        return torch.stack([num_labels, end])

    def compute(self) -> Tensor:
        """Return the states over all processes."""
        return torch.cat([self.counts, self.crowded_labels, self.extent])

    def totals(self) -> Totals:
        """Return the counts over all processes; call it in every process."""
        sizes = [*self.sizes, len(self.crowded_labels), 2]
        numbers, groups, *buckets, crowded_labels, extent = torch.split(
            self.compute(), sizes
        )
        num_labels = len(crowded_labels) // 2
        support, hits, crowded_rows = torch.split(
            crowded_labels.cpu(), [num_labels, num_labels, 1]
        )
        num_labels, end = extent.tolist()
        return Totals(
            **dict(zip(NUMBERS, numbers.tolist(), strict=True)),
            rows_of_groups=groups.tolist(),
            positives_of_buckets=[counts.tolist() for counts in buckets],
            num_labels=num_labels,
            shortest=-end,
            crowded_support=support,
            crowded_hits=hits,
            crowded_rows=int(crowded_rows),
        )


def _crowded_labels(metric: Any, ranking: Ranking) -> Tensor:
    """Return supports and hits of labels in crowded rows, and these rows' number."""
    k, place = deepest_cutoff(metric)
    crowded = ranking.in_counted_rows(
        ranking.at_least(metric.min_gain).targets.n_relevant > k
    )
    num_labels = int(metric.num_labels)
    amounts = torch.zeros(2 * num_labels + 1, dtype=torch.int64, device=crowded.device)
    if not crowded.any():
        return amounts

    lengths, codes = lists_of(metric, ranking)[place]
    codes = codes[np.repeat(crowded.cpu().numpy(), lengths)]
    labels, flags = codes // 4 // len(spec_of(metric)["sizes"]), codes % 4
    support = np.bincount(labels[flags >= 2], minlength=num_labels)
    hits = np.bincount(labels[flags == 3], minlength=num_labels)
    amounts[:-1] = torch.from_numpy(np.concatenate([support, hits]))
    amounts[-1] = crowded.sum()
    return amounts


def _lost(scores: Tensor | None, targets: Targets) -> Tensor:
    """Return the number of relevant labels of score ``-inf``, a scalar; 0 for lists."""
    if (
        scores is None
        or not scores.is_floating_point()
        or scores.layout != torch.strided
    ):
        return torch.zeros((), dtype=torch.int64, device=targets.device)
    # the program does not wait for a device
    if targets.dense is not None and not targets.kernels.can_read_values:
        relevant = (targets.dense > 0) & (scores == -torch.inf)
        if targets.row_mask is not None:
            relevant = relevant & targets.row_mask[:, None]
        return relevant.sum()
    entries = targets.entries
    own_scores = scores[entries.rows, entries.ids.clamp(min=0)]
    return ((own_scores == -torch.inf) & (entries.ids >= 0)).sum()
