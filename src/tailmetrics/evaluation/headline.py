"""The metric that a report is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tailmetrics.collection import TopKCollection
from tailmetrics.metrics import TopKMetric

USUAL_STEM, USUAL_K = "recall", 10
"""The default headline: the share of relevant labels in a list of usual length."""


def headline_of(
    collection: TopKCollection, over_all: Mapping[str, str], wanted: str | None = None
) -> str:
    """Return the metric that a report is about, as a key without bucket.

    The default prefers, in this order, metrics by bucket, metrics of which a higher
    value is better, recall, metrics of the one list of a row, and the cut-off 10.
    Metrics that say nothing about quality come last. Before them come metrics whose
    values of buckets are parts of the value over all labels: such parts are small in
    every bucket.

    Args:
        collection: The metrics.
        over_all: For each metric by bucket, the key of its value over all labels.
        wanted: The metric that was asked for: its key without bucket, or the key of its
            value over all labels.

    Raises:
        ValueError: If no metric has the key ``wanted``.
    """
    preferences: dict[str, Preference] = {}
    for metric in collection.members().values():
        if not metric.row_keys():
            continue  # values of single labels alone
        for key, cutoff in zip(metric.cutoff_keys(), metric.cutoffs, strict=False):
            preference = _preference(metric, cutoff)
            preferences[key] = min(preference, preferences.get(key, preference))

    names = {
        key: collection.named(key)
        for key in sorted(preferences, key=lambda key: preferences[key])
    }
    if wanted is None:
        return next(iter(names.values()), "")
    wanted_keys = [
        key for key, name in names.items() if wanted in (key, name, over_all.get(name))
    ]
    if not wanted_keys:
        choices = ", ".join(map(repr, preferences))
        raise ValueError(
            f"headline={wanted!r} is no metric here; choose one of {choices}."
        )
    return names[min(wanted_keys, key=lambda key: preferences[key].whole)]


class Preference(NamedTuple):
    """Reasons against a metric as the headline, the weightiest first.

    The metric with the least tuple is the headline.

    Attributes:
        no_quality: Whether the metric says nothing about quality.
        additive: Whether values of buckets are parts of the value over all labels.
        whole: Whether the metric is over all labels.
        lower_is_better: Whether a lower value is better.
        unusual: Whether the metric is not recall.
        own_lists: Whether each bucket has a list of its own.
        unusual_cutoff: Whether the cut-off is not the usual one.
    """

    no_quality: bool
    additive: bool
    whole: bool
    lower_is_better: bool
    unusual: bool
    own_lists: bool
    unusual_cutoff: bool


def _preference(metric: TopKMetric, cutoff: Any) -> Preference:
    return Preference(
        no_quality=not metric.aggregation.is_quality,
        additive=metric.aggregation.is_additive,
        whole=metric.buckets is None,
        lower_is_better=not metric.higher_is_better,
        unusual=metric.stem != USUAL_STEM,
        own_lists=metric.buckets is not None and metric.reading.scope != "global",
        unusual_cutoff=cutoff != USUAL_K,
    )
