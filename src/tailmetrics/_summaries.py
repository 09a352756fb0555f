"""Layer 3: what a collection says beside its scalars: the tail in one number, and values of single labels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeGuard

import torch
from torch import Tensor

from tailmetrics.metrics._labels import LabelValues
from tailmetrics.metrics._metric import TopKMetric

UNSEEN = "unseen"
"""The bucket of labels that training never saw: it is no part of a summary."""


def summaries(
    scalars: Mapping[str, Tensor],
    members: Iterable[Sequence[str]],
    references: Mapping[str, Mapping[str, Tensor]] | None = None,
) -> dict[str, Tensor]:
    """Return gap and spread of the values of each stem, of keys such as ``recall@10/decile_1``.

    Both read the buckets that were measured: those that are not NaN. With fewer than two of them they are NaN. Where
    chance and what is attainable are known, ``adjusted_gap`` is the gap of (value - chance) / (attainable - chance),
    which is 0 for random scores, however many labels the buckets hold (Hubert and Arabie, J. Classification 2, 1985,
    adjust a value for chance like this).

    Args:
        scalars: Values by key.
        members: The keys of each member that has buckets, head first.
        references: What :meth:`TopKCollection.references` returned.
    """
    found: dict[str, Tensor] = {}
    chance, attainable = ((references or {}).get(name, {}) for name in ("chance", "attainable"))
    for keys in members:
        stems: dict[str, list[Tensor]] = {}
        for key in keys:
            stem, _, bucket = key.rpartition("/")
            if bucket != UNSEEN:
                stems.setdefault(stem, []).append(scalars[key])
        for stem, values in stems.items():
            measured = [value for value in values if not math.isnan(value)]
            # one bucket alone says nothing of a difference, so that 0 would be a claim that nobody measured
            gap = measured[0] - measured[-1] if len(measured) > 1 else torch.full_like(values[0], math.nan)
            found |= {f"{stem}/gap": gap, f"{stem}/spread": torch.full_like(values[0], _spread(measured))}
        for stem in stems if chance and attainable else ():
            seen = [key for key in keys if key.rpartition("/")[0] == stem and not key.endswith(f"/{UNSEEN}")]
            if all(key in chance for key in seen):
                adjusted = [(scalars[key] - chance[key]) / (attainable[key] - chance[key]) for key in seen]
                known = [value for value in adjusted if math.isfinite(value)]
                nan = torch.full_like(adjusted[0], math.nan)
                found[f"{stem}/adjusted_gap"] = known[0] - known[-1] if len(known) > 1 else nan
    return found


def _spread(values: Sequence[Tensor]) -> float:
    """Return standard deviation over mean; NaN for a mean of 0, and of fewer than two values."""
    known = [float(value) for value in values]
    mean = math.fsum(known) / len(known) if len(known) > 1 else 0.0
    if not mean:
        return math.nan
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in known) / len(known))
    return deviation / mean


def keeps_labels(metric: TopKMetric) -> TypeGuard[LabelValues]:
    """Whether a metric knows values of single labels."""
    return isinstance(metric, LabelValues) and metric.keeps_labels


def per_label(members: Sequence[TopKMetric], counts: Tensor | None, zero_division: float) -> dict[str, Tensor]:
    """Return training counts, counts and values of single labels of all members that know them."""
    known = [metric for metric in members if keeps_labels(metric)]
    if not known:
        raise ValueError(
            "TopKCollection: no member keeps counts per label; add one with average='none', such as "
            "RecallAtK(k=10, average='none')."
        )
    cutoffs = {name for metric in known for name in metric.cut_names()}
    counts = next((one for one in (counts, *map(training_counts, members)) if one is not None), None)
    found = {} if counts is None else {"count": counts}
    for metric in known:
        key = metric._key(metric.cutoffs[0])
        for name, column in metric.per_label(several=len(cutoffs) > 1, zero_division=zero_division).items():
            # members of one kind differ in an argument such as min_gain, which the key tells
            differs = name in found and not torch.equal(found[name].nan_to_num(-1), column.nan_to_num(-1))
            found[f"{name} ({key})" if differs else name] = column
    return found


def training_counts(metric: TopKMetric) -> Tensor | None:
    """Return the training counts that a metric was given, shape (L,)."""
    counts: Tensor | None = metric.settings().get("label_counts")
    if counts is None and metric.bound_buckets is not None:
        counts = metric.bound_buckets.counts
    return counts
