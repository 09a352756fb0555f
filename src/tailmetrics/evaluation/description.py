"""Metrics that a report adds (over all labels, per label, by bucket), and captions and
arguments of its metrics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from platform import python_version
from typing import Any, NamedTuple

import torch
import torchmetrics
from torch import Tensor

import tailmetrics
from tailmetrics._signatures import arguments
from tailmetrics._transfer import identity
from tailmetrics.buckets import LabelBuckets
from tailmetrics.collection import TopKCollection
from tailmetrics.metrics import F1AtK, PrecisionAtK, RecallAtK, TopKMetric
from tailmetrics.metrics._arguments_of_metrics import FROM_TRAINING
from tailmetrics.metrics._keys import DATA
from tailmetrics.ranking._batch import BATCH_DEFAULTS
from tailmetrics.report.breakdowns import BucketRow
from tailmetrics.report.data import summary_of_counts
from tailmetrics.tree import LabelTree


def captions_of(metric: TopKMetric) -> dict[str, str]:
    """Return a caption for each key without bucket: the scope, the list, and the rows
    if some are left out.
    """
    additions = ""
    if metric.aggregation.is_additive:
        additions += "; over all buckets the values add up to the value over all labels"
    conventions = conventions_of(metric)
    if conventions:
        additions += f"; {conventions}"
    captions = {}
    for key, cutoff in zip(metric.cutoff_keys(), metric.cutoffs, strict=True):
        captions[key] = f"{metric.aggregation.caption(cutoff)}{additions}"
    return captions


def conventions_of(metric: TopKMetric) -> str:
    """Return in words the arguments that the key of a metric would show if it had no
    name of its own.
    """
    if metric.name is None:
        return ""
    settings = metric.unusual_settings().items()
    return ", ".join(
        f"{name}={value}" for name, value in settings if name not in (*DATA, *WITHIN)
    )


WITHIN = ("buckets", "scope", "depth")
"""Arguments that have a meaning only for metrics by bucket."""


def with_values_over_all(
    collection: TopKCollection,
) -> tuple[TopKCollection, dict[str, str]]:
    """Return a collection that also has each metric by bucket over all labels, and a
    dict of keys.

    The collection keeps all members; if nothing has to be added, ``collection`` itself
    is returned. The dict maps each metric by bucket, such as ``global_recall@10``, to
    the key of its value over all labels, ``recall@10``.
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
    """Return the member that is a metric by bucket over all labels; None without
    one.
    """
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
    """Return the arguments on which a value over all labels depends, as texts that can
    be compared.
    """
    settings = metric.settings() | {"cutoffs": metric.cutoffs}
    # the default differs by bucket
    settings["empty_target_action"] = metric._given.get("empty_target_action")
    return {
        name: identity(value)
        for name, value in settings.items()
        if name not in (*WITHIN, *FROM_TRAINING, "k")
    }


def _over_all(metric: TopKMetric) -> TopKMetric | None:
    """Return a metric by bucket as a metric over all labels; None if it has no use
    there.
    """
    if not metric.aggregation.has_value_over_all or not metric.row_keys():
        return None  # values of single labels have no bucket
    try:
        return metric.empty_copy(without=WITHIN)
    except (TypeError, ValueError):
        return None  # a metric that needs buckets


USUAL_STEM, USUAL_K = "recall", 10
"""What a report is about if nobody says it: how much of the relevant labels a list of a
common length holds.
"""


def headline_of(
    collection: TopKCollection, over_all: Mapping[str, str], wanted: str | None = None
) -> str:
    """Return the metric that a report is about, as a key without bucket.

    By default this is a metric by bucket, rather one of which a higher value is better,
    rather recall than another metric, rather of the one list of a row than of lists of
    the buckets, and rather at 10 than at another cut-off. It is no metric that says
    nothing about quality, and none whose values of buckets are parts of the value over
    all labels: such parts are small in every bucket.

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
    """Why a metric is no headline, by weight; the least of all metrics is the headline.

    Attributes:
        no_quality: Whether the metric says nothing about quality.
        additive: Whether values of buckets are parts of the value over all labels.
        whole: Whether the metric is over all labels.
        lower_is_better: Whether a lower value is better.
        unusual: Whether it is no recall.
        own_lists: Whether each bucket has a list of its own.
        unusual_cutoff: Whether the cut-off is another than the usual one.
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


LABELS_K = 10
"""Cut-off of values of single labels where the headline has none: a common length of
the lists that users see.
"""
SHARED = ("num_labels", "min_gain", *BATCH_DEFAULTS)
"""Arguments that added metrics take from the other metrics, so that all metrics read a
batch alike.
"""


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
    """Return the arguments of :data:`SHARED` that metrics set; the first metric that
    sets one decides.
    """
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
    """Return copies by bucket of the metrics over all labels; an evaluation with
    ``buckets`` adds these copies.

    The copies read the one list of the row (scope global). Metrics that have no values
    by bucket, such as tie rates and overlaps, are left out, and so are metrics of which
    ``metrics`` holds a version by bucket. What a metric was bound to is left open in
    its copy, which is to be bound with it.

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
    """Whether a metric with the arguments of this one can be broken down by bucket."""
    try:
        metric.empty_copy(without=tuple(FROM_TRAINING), buckets="deciles")
    except (TypeError, ValueError):
        return False
    return True


def settings_of(metric: TopKMetric) -> dict[str, Any]:
    """Return the class of a metric and every argument that its values depend on, as
    plain data.
    """
    settings: dict[str, Any] = {"class": type(metric).__name__}
    for name, value in metric.settings().items():
        settings[name] = _plain(value)
    settings["k"] = _plain(list(metric.cutoffs))
    settings["num_labels"] = metric.num_labels
    return settings


def labels_by_key(metrics: Iterable[TopKMetric]) -> dict[str, int]:
    """Return the number of labels by key of the metrics whose values depend on it."""
    numbers: dict[str, int] = {}
    for metric in metrics:
        if metric.aggregation.depends_on_catalogue and metric.num_labels is not None:
            numbers |= dict.fromkeys(metric.keys(), metric.num_labels)
    return numbers


def _plain(value: Any) -> Any:
    """Return a value in a form that JSON can hold; buckets and int64 tensors become
    digests.
    """
    if isinstance(value, LabelBuckets):
        return value.digest
    if isinstance(value, LabelTree):
        return value.digest_of_edges
    if isinstance(value, Tensor) and value.dtype == torch.int64:
        return summary_of_counts(value)
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if isinstance(value, (str, int, float, type(None))):
        return value
    return str(value)


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that a result may depend
    on.
    """
    return {
        "python": python_version(),
        "tailmetrics": tailmetrics.__version__,
        "torch": torch.__version__,
        "torchmetrics": torchmetrics.__version__,
    }


def bucket_rows(
    buckets: LabelBuckets, positives: Sequence[int] | None = None, kind: int = 0
) -> Iterator[BucketRow]:
    """Yield a :class:`BucketRow` for each bucket; ``positives`` is the number of
    relevant labels in each bucket.
    """
    for number, (name, labels) in enumerate(
        zip(buckets.names, buckets.labels, strict=True)
    ):
        occurrences, frequencies = 0, ""
        if buckets.counts is not None and labels.numel():
            counts = buckets.counts[labels]
            occurrences = int(counts.sum())
            least, most = map(int, torch.aminmax(counts))
            frequencies = f"{least}-{most}"
            if least == most:
                frequencies = f"{least}"
        bucket_positives = 0
        if positives:
            bucket_positives = positives[number]
        yield BucketRow(
            name, len(labels), occurrences, bucket_positives, frequencies, kind
        )
