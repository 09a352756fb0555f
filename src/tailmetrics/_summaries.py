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
        stems: dict[str, list[str]] = {}
        for key in keys:
            stem, _, bucket = key.rpartition("/")
            if bucket != UNSEEN:
                stems.setdefault(stem, []).append(key)
        for stem, seen in stems.items():
            values = torch.stack([scalars[key] for key in seen])
            found |= {f"{stem}/gap": _gap(values), f"{stem}/spread": torch.full_like(values[0], _spread(values))}
        for stem, seen in stems.items() if attainable else ():
            if all(key in chance for key in seen):
                sides = ([of[key] for key in seen] for of in (scalars, chance, attainable))
                values, least, most = map(torch.stack, sides)
                adjusted = (values - least) / (most - least)
                found[f"{stem}/adjusted_gap"] = _gap(adjusted.where(adjusted.isfinite(), math.nan))
    return found


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
