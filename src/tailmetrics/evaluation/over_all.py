"""The value over all labels beside each metric by bucket: of the same ranking, at hardly any cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tailmetrics.collection import TopKCollection
from tailmetrics.metrics import PredictionProportionAtK, TopKMetric
from tailmetrics.metrics._training import FACTS

WITHIN = ("buckets", "scope", "depth")
"""Arguments that say something of buckets alone."""


def with_values_over_all(collection: TopKCollection) -> tuple[TopKCollection, dict[str, str]]:
    """Return a collection in which each metric by bucket has its value over all labels beside it.

    The members are those of ``collection``, which is returned itself where nothing has to be added. The dict has for
    each metric by bucket, such as ``global_recall@10``, the key of that value, ``recall@10``.
    """
    members = list(collection.members().values())
    overall = {key for metric in members if metric.buckets is None for key in metric.row_keys()}
    added: list[TopKMetric] = []
    found: dict[str, str] = {}
    for metric in members:
        twin = None if metric.buckets is None else _over_all(metric)
        if twin is None:
            continue
        found |= {metric._key(k): key for k, key in zip(metric.cutoffs, twin.row_keys(), strict=True)}
        missing = [k for k, key in zip(metric.cutoffs, twin.row_keys(), strict=True) if key not in overall]
        if missing:
            twin = twin if len(missing) == len(metric.cutoffs) else _over_all(metric, missing)
            assert twin is not None
            added.append(twin)
            overall |= {*twin.row_keys()}
    named = {collection._set_name(stem): collection._set_name(key) for stem, key in found.items()}
    if not added:
        return collection, named
    return collection._with_members([*members, *added]), named


def _over_all(metric: TopKMetric, cutoffs: list[Any] | None = None) -> TopKMetric | None:
    """Return the same metric over all labels, at some of its cut-offs; None where that says nothing."""
    if isinstance(metric, PredictionProportionAtK) or not metric.row_keys():
        return None  # all that is shown is shown of some label; values of single labels have no bucket
    given: Mapping[str, Any] = {name: value for name, value in metric._given.items() if name not in WITHIN}
    facts = {
        name: getattr(metric, name) for name in FACTS if name != "buckets" and getattr(metric, name, None) is not None
    }
    name = {} if metric.name is None else {"name": metric.name}
    groups = {} if metric.row_groups is None else {"row_groups": metric.row_groups}
    chosen = {} if cutoffs is None else {"threshold" if "threshold" in given else "k": cutoffs}
    try:
        return type(metric)(**{**given, **facts, **name, **groups, **chosen})
    except (TypeError, ValueError):
        return None  # a metric of buckets alone
