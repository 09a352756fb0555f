"""Metrics that an evaluation adds: over all labels, per label, and by bucket."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tailmetrics._signatures import arguments
from tailmetrics._transfer import identity
from tailmetrics.buckets import LabelBuckets
from tailmetrics.collection import TopKCollection
from tailmetrics.evaluation.description import WITHIN
from tailmetrics.evaluation.headline import headline_of
from tailmetrics.metrics import F1AtK, PrecisionAtK, RecallAtK, TopKMetric
from tailmetrics.metrics._training import FROM_TRAINING
from tailmetrics.ranking._batch import BATCH_DEFAULTS

LABELS_K = 10
"""Cut-off of values of single labels if the headline has none: a usual list length."""

SHARED = ("num_labels", "min_gain", *BATCH_DEFAULTS)
"""Arguments that added metrics copy from the others, so that all read batches alike."""


def with_values_over_all(
    collection: TopKCollection,
) -> tuple[TopKCollection, dict[str, str]]:
    """Return a collection with values over all labels for its metrics by bucket.

    The second result maps each metric by bucket, such as ``global_recall@10``, to the
    key of its value over all labels, ``recall@10``. The collection keeps all members,
    and is ``collection`` itself if nothing has to be added.
    """
    members = list(collection.members().values())
    keys_over_all: set[str] = set()
    for metric in members:
        if metric.buckets is None:
            keys_over_all.update(metric.row_keys())

    added: list[TopKMetric] = []
    key_over_all: dict[str, str] = {}
    for metric in members:
        if metric.buckets is None:
            continue
        whole = _member_over_all(metric, members) or _over_all(metric)
        if whole is None:
            continue
        missing_cutoffs = []
        for cutoff, stem, key in zip(
            metric.cutoffs, metric.cutoff_keys(), whole.row_keys(), strict=True
        ):
            key_over_all[collection.named(stem)] = collection.named(key)
            if key not in keys_over_all:
                missing_cutoffs.append(cutoff)
        if missing_cutoffs:
            whole = _at_cutoffs(whole, missing_cutoffs)
            added.append(whole)
            keys_over_all.update(whole.row_keys())
    if not added:
        return collection, key_over_all
    return collection.with_members([*members, *added]), key_over_all


def _at_cutoffs(metric: TopKMetric, cutoffs: Sequence[Any]) -> TopKMetric:
    """Return a metric at some of its cut-offs; the same one at all of them."""
    if len(cutoffs) == len(metric.cutoffs):
        return metric
    argument = "k"
    if "threshold" in arguments(type(metric)):
        argument = "threshold"
    return metric.empty_copy(**{argument: cutoffs})


def _member_over_all(
    metric: TopKMetric, members: Iterable[TopKMetric]
) -> TopKMetric | None:
    """Return the member that equals a metric over all labels; None without one."""
    if not metric.row_keys():  # values of single labels have no bucket
        return None
    own_settings = _settings_over_all(metric)
    for member in members:
        is_alike = (
            type(member) is type(metric)
            and member.buckets is None
            and member.name == metric.name
        )
        if is_alike and _settings_over_all(member) == own_settings:
            return member
    return None


def _settings_over_all(metric: TopKMetric) -> dict[str, str]:
    """Return the arguments on which a value over all labels depends, as text."""
    settings = metric.settings() | {"cutoffs": metric.cutoffs}
    # the default differs by bucket
    settings["empty_target_action"] = metric._given.get("empty_target_action")
    return {
        name: identity(value)
        for name, value in settings.items()
        if name not in (*WITHIN, *FROM_TRAINING, "k")
    }


def _over_all(metric: TopKMetric) -> TopKMetric | None:
    """Return a metric by bucket as a metric over all labels.

    Return None if the metric has no value over all labels, or needs buckets.
    """
    if not metric.aggregation.has_value_over_all or not metric.row_keys():
        return None  # values of single labels have no bucket
    try:
        return metric.empty_copy(without=WITHIN)
    except (TypeError, ValueError):
        return None  # a metric that needs buckets


def with_label_values(
    collection: TopKCollection,
    num_labels: int | None = None,
    headline: str | None = None,
) -> TopKCollection:
    """Return a collection with the same members that also has values of single labels.

    It is ``collection`` itself if its members keep all counts per label. Otherwise
    precision, recall and F1 of each label are added, at the cut-offs of the members
    that keep a part of the counts, or else at the cut-off of the headline, so that a
    label is missed where the headline misses it. The added metrics need ``num_labels``
    if no member tells it. None is added to a collection that this function returned.
    """
    members = list(collection.members().values())
    keeping = [metric for metric in members if metric.aggregation.keeps_labels]
    keeping_parts = [
        metric for metric in keeping if not metric.aggregation.keeps_all_counts
    ]
    if keeping and not keeping_parts:
        return collection

    cutoffs = set[int]()
    for metric in keeping_parts:
        cutoffs.update(k for k in metric.cutoffs if isinstance(k, int))
    if not cutoffs:
        cutoffs = {_cutoff_of_headline(collection, headline)}
    shared_arguments = {"num_labels": num_labels, **_shared_arguments(members)}
    keys = [tuple(metric.cutoff_keys()) for metric in members]
    added: list[TopKMetric] = []
    for kind in (PrecisionAtK, RecallAtK, F1AtK):
        metric = kind(sorted(cutoffs), average="none", **shared_arguments)
        if tuple(metric.cutoff_keys()) not in keys:
            added.append(metric)
    return collection.with_members([*members, *added])


def _shared_arguments(metrics: Sequence[TopKMetric]) -> dict[str, Any]:
    """Return the arguments of :data:`SHARED`, each of the first metric that sets it."""
    shared_arguments: dict[str, Any] = {}
    for metric in reversed(metrics):
        for name in SHARED:
            value = getattr(metric, name)
            if value is not None:
                shared_arguments[name] = value
    return shared_arguments


def _cutoff_of_headline(collection: TopKCollection, headline: str | None) -> int:
    """Return the cut-off of the headline; :data:`LABELS_K` if it has none."""
    key_of_headline = headline_of(
        collection, with_values_over_all(collection)[1], headline
    )
    for metric in collection.members().values():
        for key, cutoff in zip(metric.cutoff_keys(), metric.cutoffs, strict=False):
            if collection.named(key) == key_of_headline and isinstance(cutoff, int):
                return cutoff
    return LABELS_K


def by_bucket(
    metrics: Iterable[TopKMetric], buckets: LabelBuckets | str
) -> list[TopKMetric]:
    """Return copies by bucket of the metrics over all labels.

    An evaluation with ``buckets`` adds these copies, which read the one list of the row
    (scope global). Metrics without values by bucket, such as tie rates and overlaps,
    are left out, and so are metrics of which ``metrics`` holds a version by bucket.
    Arguments that a metric took from ``bind`` are open in its copy: bind the copy
    together with the metric.

    Args:
        metrics: The metrics.
        buckets: The buckets.
    """
    metrics = list(metrics)
    known_keys: set[str] = set()
    for metric in metrics:
        if metric.buckets is not None:
            # keys over all labels as well: precision@1 needs no copy if metrics hold it
            # by bucket in any scope
            known_keys.update(metric.cutoff_keys())
            whole = _over_all(metric)
            if whole is not None:
                known_keys.update(whole.cutoff_keys())

    copies = []
    for metric in metrics:
        if metric.buckets is not None:
            continue
        scope = {}
        if "scope" in arguments(type(metric)):
            scope["scope"] = "global"
        try:
            copy = metric.empty_copy(without=metric.left_open, buckets=buckets, **scope)
        except (TypeError, ValueError):
            if _takes_buckets(metric):
                raise
            continue
        if known_keys.isdisjoint({*metric.cutoff_keys(), *copy.cutoff_keys()}):
            copies.append(copy)
    return copies


def _takes_buckets(metric: TopKMetric) -> bool:
    """Return whether a metric with these arguments can be broken down by bucket."""
    try:
        without = (*FROM_TRAINING, "row_groups")
        metric.empty_copy(without=without, buckets="deciles")
    except (TypeError, ValueError):
        return False
    return True
