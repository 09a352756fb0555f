"""What the values of buckets say together: gap and spread; and counts and values of single labels, side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import Tensor

from tailmetrics._arguments import grouped
from tailmetrics.metrics._metric import TopKMetric

UNSEEN = "unseen"
"""The bucket of labels that training never saw: it is no part of a summary."""


def buckets_by_stem(metric: TopKMetric) -> Iterator[tuple[str, list[str]]]:
    """Yield each key without bucket, with its keys by bucket, head first, without the bucket of unseen labels.

    Buckets that do not go from head to tail, such as chapters, have none.
    """
    keys = list(metric.keys()) if getattr(metric.buckets, "ordered", metric.buckets is not None) else []
    parts = ((key.rpartition("/"), key) for key in keys)
    yield from grouped((stem, key) for (stem, _, bucket), key in parts if bucket != UNSEEN).items()


def summaries_of(
    metrics: Sequence[TopKMetric],
    scalars: Mapping[str, Tensor],
    references: Mapping[str, Mapping[str, Tensor]],
    named: Callable[[str], str],
) -> dict[str, Tensor]:
    """Return a gap and a spread between buckets, for each cut-off of each metric by bucket; and the adjusted gap.

    Args:
        metrics: The metrics.
        scalars: Their values by key, NaN where nothing was measured.
        references: Values of reference models by name and key.
        named: Adds prefix and postfix to a key.
    """
    chance, attainable = (references.get(name, {}) for name in ("chance", "attainable"))
    found: dict[str, Tensor] = {}
    for metric in metrics:
        stems = [(stem, [named(key) for key in keys]) for stem, keys in buckets_by_stem(metric)]
        for stem, keys in stems:
            values = torch.stack([scalars[key] for key in keys])
            found |= {f"{stem}/gap": _gap(values), f"{stem}/spread": torch.full_like(values[0], _spread(values))}
        for stem, keys in stems:
            if all(key in chance and key in attainable for key in keys):
                values, least, most = (torch.stack([of[key] for key in keys]) for of in (scalars, chance, attainable))
                adjusted = (values - least) / (most - least)
                found[f"{stem}/adjusted_gap"] = _gap(adjusted.where(adjusted.isfinite(), math.nan))
    return {named(key): value for key, value in found.items()}


def _gap(values: Tensor) -> Tensor:
    """Return the first value that was measured minus the last one."""
    measured = values[~values.isnan()]
    # one bucket alone says nothing of a difference, so that 0 would be a claim that nobody measured
    return measured[0] - measured[-1] if len(measured) > 1 else torch.full_like(values[0], math.nan)


def _spread(values: Tensor) -> float:
    """Return standard deviation over mean of what was measured; NaN for a mean of 0, and of fewer than two values."""
    known = values[~values.isnan()].tolist()
    mean = math.fsum(known) / len(known) if len(known) > 1 else 0.0
    if not mean:
        return math.nan
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in known) / len(known))
    return deviation / mean


def labels_of(metrics: Sequence[TopKMetric], counts: Tensor | None, zero_division: float) -> dict[str, Tensor]:
    """Return counts and values of each label that metrics keep: a dict of vectors (L,), the training counts first.

    Args:
        metrics: Metrics that keep something of single labels.
        counts: Training counts, shape (L,), if they are known.
        zero_division: The value that divides by 0.
    """
    several = len({metric.aggregation.cut_name(k) for metric in metrics for k in metric.cutoffs if k is not None}) > 1
    found = {} if counts is None else {"count": counts}

    def by_list_of_bucket(metric: TopKMetric) -> bool:
        return metric.buckets is not None and metric.reading.scope == "bucket"

    # what counts the row's one list comes first: the lists of buckets (scope "bucket") show labels more often
    for metric in sorted(metrics, key=by_list_of_bucket):
        key = metric.cutoff_keys()[0] + (", scope bucket" if by_list_of_bucket(metric) else "")
        columns = metric.per_label(several=several, zero_division=zero_division)
        same = {name for name in columns if name in found and _same(found[name], columns[name])}
        # a metric that counts differently, such as with min_gain, says so at each of its columns
        differs = any(name in found for name in columns.keys() - same)
        found |= {f"{name} ({key})" if differs else name: columns[name] for name in columns if name not in same}
    return found


def _same(one: Tensor, other: Tensor) -> bool:
    return torch.equal(one.nan_to_num(-1), other.nan_to_num(-1))
