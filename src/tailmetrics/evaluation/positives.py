"""How many labels are relevant, in all and in each bucket: what a report says beside the metrics."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from tailmetrics._exact_metric import ExactMetric, writable
from tailmetrics.buckets import LabelBuckets
from tailmetrics.ranking import Ranking
from tailmetrics.ranking._targets import Targets

ROWS, ALL, BUCKETS = 0, 1, 2
"""Places of the state: the rows, the relevant labels of all rows, and behind them those of each bucket."""


class Positives(ExactMetric):
    """Rows, and their relevant labels in all and by bucket; a number for each, however many labels there are.

    Args:
        bucketings: The buckets, any number of times.
        min_gain: The least gain that counts as relevant, that of the metrics; None for any above 0.
    """

    counts: Tensor

    def __init__(self, bucketings: Sequence[LabelBuckets], min_gain: float | None = None) -> None:
        super().__init__()
        self.bucketings, self.min_gain = tuple(bucketings), min_gain
        self.add_state("counts", torch.zeros(BUCKETS + sum(map(len, bucketings)), dtype=torch.int64), "sum")

    def update(self, ranking: Ranking) -> None:
        """Count the relevant labels of a ranking."""
        targets = ranking.at_least(self.min_gain).targets
        rows = torch.tensor([targets.num_rows]) if targets.row_mask is None else targets.row_mask.sum()[None]
        added = torch.cat([rows.to(self.counts), self._of_buckets(targets)])
        self.counts = writable(self.counts)
        self.counts += added

    def _of_buckets(self, targets: Targets) -> Tensor:
        """Return the relevant labels of all rows, and of each bucket."""
        ids, times = targets.kernels.occurrences(targets)
        found = [times.sum()[None].to(torch.int64)]
        for buckets in self.bucketings:
            padded = torch.zeros(len(buckets) + 1, dtype=torch.int64, device=ids.device)
            found.append(padded.scatter_add_(0, buckets.of(ids), times)[:-1])
        return torch.cat(found)

    def compute(self) -> Tensor:
        """Return the state over all processes."""
        return self.counts.clone()

    def by_bucket(self) -> tuple[int, int, list[list[int]]]:
        """Return over all processes the rows, the relevant labels, and those of each bucket of all bucketings."""
        rows, positives, *counts = self.compute().tolist()
        ends = [0]
        for buckets in self.bucketings:
            ends.append(ends[-1] + len(buckets))
        return rows, positives, [counts[start:stop] for start, stop in pairwise(ends)]
