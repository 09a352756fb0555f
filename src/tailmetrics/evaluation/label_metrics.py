"""Metrics of single labels, for a report that is to name the worst ones."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from tailmetrics._summaries import keeps_labels
from tailmetrics.collection import TopKCollection
from tailmetrics.metrics import F1AtK, PrecisionAtK, RecallAtK, TopKMetric
from tailmetrics.metrics._labels import LabelAveragedMetric

K = 10
"""The cut-off, that of a list which a user sees."""
SHARED = ("num_labels", "duplicates", "ignore_index", "min_gain")
"""Arguments that are those of the other metrics, so that all read the same of a batch."""


def with_label_values(collection: TopKCollection, num_labels: int | None = None) -> TopKCollection:
    """Return a collection of the same members that knows the values of single labels.

    It is ``collection`` itself where a member keeps them, else one with precision, recall and F1 of each label too;
    they need ``num_labels`` where no member tells it.
    """
    members = list(collection.members().values())
    if any(keeps_labels(metric) for metric in members):
        return collection
    alike: dict[str, Any] = {}
    for name in SHARED:
        alike[name] = next((one for one in map(attrgetter(name), members) if one is not None), None)
    alike["num_labels"] = alike["num_labels"] or num_labels
    kinds: tuple[type[LabelAveragedMetric], ...] = (PrecisionAtK, RecallAtK, F1AtK)
    more: list[TopKMetric] = [kind(K, average="none", **alike) for kind in kinds]
    return collection._with_members([*members, *more])
