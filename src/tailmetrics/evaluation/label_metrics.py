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
WHOLE = {"support", "predicted"}
"""Counts of labels that a report needs, beside those of hits."""
SHARED = ("num_labels", "duplicates", "ignore_index", "min_gain")
"""Arguments that are those of the other metrics, so that all read the same of a batch."""


def with_label_values(collection: TopKCollection, num_labels: int | None = None) -> TopKCollection:
    """Return a collection of the same members that knows the values of single labels.

    It is ``collection`` itself where members keep them whole, else one with precision, recall and F1 of each label too,
    at the cut-offs of members that keep a part of them; they need ``num_labels`` where no member tells it.
    """
    members = list(collection.members().values())
    known = [metric for metric in members if keeps_labels(metric)]
    parts = [metric for metric in known if not {part for name in metric._defaults for part in name.split("_")} >= WHOLE]
    if known and not parts:
        return collection
    cutoffs = sorted({k for metric in parts for k in metric.cutoffs if isinstance(k, int)}) or [K]
    alike: dict[str, Any] = {}
    for name in SHARED:
        alike[name] = next((one for one in map(attrgetter(name), members) if one is not None), None)
    alike["num_labels"] = alike["num_labels"] or num_labels
    kinds: tuple[type[LabelAveragedMetric], ...] = (PrecisionAtK, RecallAtK, F1AtK)
    more: list[TopKMetric] = [kind(cutoffs, average="none", **alike) for kind in kinds]
    return collection._with_members([*members, *more])
