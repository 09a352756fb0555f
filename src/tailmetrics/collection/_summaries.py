"""Gap and spread between buckets, and the counts and values of single labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import product

import torch
from torch import Tensor

from tailmetrics.metrics._metric import TopKMetric

UNSEEN = "unseen"
"""The bucket of labels that training never saw: it is no part of a summary."""


def buckets_by_stem(metric: TopKMetric) -> dict[str, list[str]]:
    """Return the bucket keys for each key without bucket, head first.

    The bucket of unseen labels is left out.

    Buckets that do not go from head to tail, such as chapters, have none.
    """
    keys_by_stem: dict[str, list[str]] = {}
    if (
        metric.buckets is None
        or not metric.row_keys()
        or not getattr(metric.buckets, "ordered", True)
    ):
        return keys_by_stem
    buckets = [bucket for bucket in metric.bucket_names if bucket != UNSEEN]
    for group, cutoff_key in product(metric.group_keys(), metric.cutoff_keys()):
        stem = f"{cutoff_key}{group}"
        keys_by_stem[stem] = [f"{stem}/{bucket}" for bucket in buckets]
    return keys_by_stem


def summaries_of(
    metrics: Sequence[TopKMetric],
    scalars: Mapping[str, Tensor],
    references: Mapping[str, Mapping[str, Tensor]],
    named: Callable[[str], str],
) -> dict[str, Tensor]:
    """Return gap, spread and adjusted gap for each cut-off of each metric by bucket.

    Args:
        metrics: The metrics.
        scalars: Their values by key, NaN where nothing was measured.
        references: Values of reference models by name and key.
        named: Adds prefix and postfix to a key.
    """
    chance = references.get("chance", {})
    attainable = references.get("attainable", {})
    summaries: dict[str, Tensor] = {}
    for metric in metrics:
        adjusted_gaps: dict[str, Tensor] = {}
        for stem, bucket_keys in buckets_by_stem(metric).items():
            keys = [named(key) for key in bucket_keys]
            values = stacked(scalars, keys)
            summaries[named(f"{stem}/gap")] = _gap(values)
            summaries[named(f"{stem}/spread")] = torch.full_like(
                values[0], _spread(values)
            )
            if chance.keys() & attainable.keys() >= set(keys):
                lowest = stacked(chance, keys)
                adjusted = (values - lowest) / (stacked(attainable, keys) - lowest)
                adjusted_gaps[named(f"{stem}/adjusted_gap")] = _gap(
                    adjusted.where(adjusted.isfinite(), math.nan)
                )
        summaries.update(adjusted_gaps)
    return summaries


def stacked(values: Mapping[str, Tensor], keys: Sequence[str]) -> Tensor:
    """Return the values of some keys as one vector."""
    return torch.stack([values[key] for key in keys])


def _gap(values: Tensor) -> Tensor:
    """Return the first measured value minus the last one; NaN for fewer than two."""
    measured = values[~values.isnan()]
    if len(measured) < 2:
        return torch.full_like(values[0], math.nan)
    return measured[0] - measured[-1]


def _spread(values: Tensor) -> float:
    """Return standard deviation over mean of the measured values.

    NaN for a mean of 0 and for fewer than two values.
    """
    measured = values[~values.isnan()].tolist()
    if len(measured) < 2:
        return math.nan
    mean = math.fsum(measured) / len(measured)
    if mean == 0:
        return math.nan
    variance = math.fsum((value - mean) ** 2 for value in measured) / len(measured)
    return math.sqrt(variance) / mean


def labels_of(
    metrics: Sequence[TopKMetric], counts: Tensor | None, zero_division: float
) -> dict[str, Tensor]:
    """Return counts and values of each label as vectors (L,), training counts first.

    Args:
        metrics: Metrics that keep something of single labels.
        counts: Training counts, shape (L,), if they are known.
        zero_division: The value that divides by 0.
    """
    cut_names: set[str] = set()
    for metric in metrics:
        cut_names.update(
            metric.aggregation.cut_name(k) for k in metric.cutoffs if k is not None
        )

    labels: dict[str, Tensor] = {}
    if counts is not None:
        labels["count"] = counts
    # the one list of a row comes first: the lists of buckets (scope "bucket") show
    # labels more often
    for metric in sorted(metrics, key=_reads_lists_of_buckets):
        columns = metric.per_label(
            with_cutoffs=len(cut_names) > 1, zero_division=zero_division
        )
        new_columns: dict[str, Tensor] = {}
        for name, column in columns.items():
            if name not in labels or not _are_equal(labels[name], column):
                new_columns[name] = column

        suffix = ""
        if not labels.keys().isdisjoint(new_columns):
            suffix = _suffix(metric)
        for name, column in new_columns.items():
            labels[f"{name}{suffix}"] = column
    return labels


def _suffix(metric: TopKMetric) -> str:
    """Return what is added to the column names of a metric that counts differently.

    An example is a metric with ``min_gain``.
    """
    own_key = metric.cutoff_keys()[0]
    if _reads_lists_of_buckets(metric):
        return f" ({own_key}, scope bucket)"
    return f" ({own_key})"


def _reads_lists_of_buckets(metric: TopKMetric) -> bool:
    return metric.buckets is not None and metric.reading.scope == "bucket"


def _are_equal(column: Tensor, other_column: Tensor) -> bool:
    """Return whether two columns hold the same values; NaN equals NaN."""
    return torch.equal(column.nan_to_num(-1), other_column.nan_to_num(-1))
