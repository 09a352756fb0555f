"""Training counts of labels: taken from the buckets where they are not given, and held against the number of labels."""

from __future__ import annotations

from torch import Tensor

from tailmetrics.metrics._metric import TopKMetric


def check_counts_fit(metric: TopKMetric, label_counts: Tensor | None) -> Tensor | None:
    """Return ``label_counts``, or those of the buckets; raise unless there is one count per label."""
    if label_counts is None and metric.bound_buckets is not None:
        label_counts = metric.bound_buckets.counts
    if label_counts is not None and metric.num_labels not in (None, len(label_counts)):
        raise ValueError(
            f"{type(metric).__name__}: label_counts holds {len(label_counts)} counts, but there are "
            f"{metric.num_labels} labels; pass one count per label."
        )
    return label_counts
