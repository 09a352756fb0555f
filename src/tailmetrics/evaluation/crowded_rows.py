"""Counts of labels in rows with more relevant labels than a list has places: no list finds all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from tailmetrics._exact_metric import ExactMetric
from tailmetrics.evaluation.label_codes import lists_of
from tailmetrics.evaluation.row_facts import deepest_cutoff
from tailmetrics.metrics import TopKMetric
from tailmetrics.ranking import Ranking


class CrowdedRows(ExactMetric):
    """Counts how often labels are relevant and found in rows with more relevant labels than a list has places.

    The tests for blind spots leave these rows out: in the others each label can be found.

    Args:
        metric: The metric that tells which labels are relevant and found, see :func:`deepest_counts`.
    """

    counts: Tensor
    """Shape (2, L): how often each label is relevant, and found."""
    rows: Tensor
    """Number of the rows."""
    _metric: Any

    def __init__(self, metric: TopKMetric) -> None:
        super().__init__()
        object.__setattr__(self, "_metric", metric)  # no submodule: it is moved and sent alone
        self._k, self._place = deepest_cutoff(metric)
        self.add_state("counts", torch.zeros(2, int(metric.num_labels or 0), dtype=torch.int64), "sum")
        self.add_state("rows", torch.zeros((), dtype=torch.int64), "sum")

    def update(self, ranking: Ranking) -> None:
        """Count the labels of the rows of a batch that hold more than k of them."""
        num_relevant = ranking.at_least(self._metric.min_gain).targets.n_relevant
        crowded = num_relevant > self._k
        if ranking.row_mask is not None:
            crowded = crowded & ranking.row_mask
        if not crowded.any():
            return
        lengths, codes = lists_of(self._metric, ranking)[self._place]
        in_crowded = np.repeat(crowded.cpu().numpy(), lengths)
        buckets = self._metric.bound_buckets
        labels = codes[in_crowded] // 4 // (1 if buckets is None else len(buckets))
        flags = codes[in_crowded] % 4
        size = self.counts.shape[1]
        relevant, hits = (
            np.bincount(labels[flags >= 2], minlength=size),
            np.bincount(labels[flags == 3], minlength=size),
        )
        added = torch.from_numpy(np.stack([relevant, hits])).to(self.counts.device)
        self.counts = self.counts + added
        self.rows = self.rows + crowded.sum()

    def compute(self) -> tuple[Tensor, Tensor, int]:
        """Return how often each label is relevant and found in these rows, over all processes, and their number."""
        support, hits = self.counts.cpu()
        return support, hits, int(self.rows)
