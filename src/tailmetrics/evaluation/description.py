"""Metrics that a report adds (over all labels, per label, by bucket), and captions and arguments of its metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from platform import python_version
from typing import Any

import torch
import torchmetrics
from torch import Tensor

import tailmetrics
from tailmetrics._arguments import arguments
from tailmetrics._transfer import identity
from tailmetrics.buckets import LabelBuckets
from tailmetrics.collection import TopKCollection
from tailmetrics.metrics import F1AtK, PrecisionAtK, RecallAtK, TopKMetric
from tailmetrics.metrics._arguments_of_metrics import FACTS
from tailmetrics.metrics._keys import DATA
from tailmetrics.ranking._inputs import BATCH_DEFAULTS
from tailmetrics.report.breakdowns import BucketRow
from tailmetrics.report.report import summary_of_counts
from tailmetrics.tree import LabelTree


def listed(metrics: Any) -> TopKCollection | list[TopKMetric] | None:
    """Return metrics as a list, which can be read several times; return a collection or None unchanged."""
    if metrics is None or isinstance(metrics, TopKCollection):
        return metrics
    return [metrics] if isinstance(metrics, TopKMetric) else list(metrics)


def captions_of(metric: TopKMetric) -> dict[str, str]:
    """Return a caption for each key without bucket: the scope, the list, and the rows if some are left out."""
    sums = "; over all buckets the values add up to the value over all labels" if metric.aggregation.is_additive else ""
    pairs, said = zip(metric.cutoff_keys(), metric.cutoffs, strict=True), conventions_of(metric)
    of_name = f"; {said}" if said else ""
    return {key: f"{metric.aggregation.caption(k)}{sums}{of_name}" for key, k in pairs}


def conventions_of(metric: TopKMetric) -> str:
    """Return in words the arguments that the key of a metric would show if it had no name of its own."""
    unusual = metric.unusual_settings() if metric.name is not None else {}
    return ", ".join(f"{name}={value}" for name, value in unusual.items() if name not in (*DATA, *WITHIN))


WITHIN = ("buckets", "scope", "depth")
"""Arguments that have a meaning only for metrics by bucket."""


def with_values_over_all(collection: TopKCollection) -> tuple[TopKCollection, dict[str, str]]:
    """Return a collection that also has each metric by bucket over all labels, and a dict of keys.

    The collection keeps all members; if nothing has to be added, ``collection`` itself is returned. The dict maps each
    metric by bucket, such as ``global_recall@10``, to the key of its value over all labels, ``recall@10``.
    """
    members = list(collection.members().values())
    keys = {key for metric in members if metric.buckets is None for key in metric.row_keys()}
    added: list[TopKMetric] = []
    key_over_all: dict[str, str] = {}
    for metric in members:
        if metric.buckets is None or not metric.row_keys():  # values of single labels have no bucket
            continue
        whole = _member_over_all(metric, members) or _over_all(metric)
        if whole is None:
            continue
        key_over_all |= dict(zip(metric.cutoff_keys(), whole.row_keys(), strict=True))
        missing = [k for k, key in zip(metric.cutoffs, whole.row_keys(), strict=True) if key not in keys]
        if missing and len(missing) < len(metric.cutoffs):
            whole = _over_all(metric, missing)
        if missing and whole is not None:
            added.append(whole)
            keys |= {*whole.row_keys()}
    named = {collection.named(stem): collection.named(key) for stem, key in key_over_all.items()}
    if not added:
        return collection, named
    return collection.with_members([*members, *added]), named


def _member_over_all(metric: TopKMetric, members: Iterable[TopKMetric]) -> TopKMetric | None:
    """Return the member over all labels that differs from a metric by bucket in nothing else; None without one."""
    own = _settings_over_all(metric)
    for member in members:
        is_alike = type(member) is type(metric) and member.buckets is None and member.name == metric.name
        if is_alike and _settings_over_all(member) == own:
            return member
    return None


def _settings_over_all(metric: TopKMetric) -> dict[str, str]:
    """Return the arguments on which a value over all labels depends, as texts that can be compared."""
    settings = metric.settings() | {"cutoffs": metric.cutoffs}
    settings["empty_target_action"] = metric._given.get("empty_target_action")  # the default differs by bucket
    return {name: identity(value) for name, value in settings.items() if name not in (*WITHIN, *FACTS, "k")}


def _over_all(metric: TopKMetric, cutoffs: list[Any] | None = None) -> TopKMetric | None:
    """Return a metric by bucket as a metric over all labels, at some of its cut-offs; None if it has no use there."""
    if not metric.aggregation.has_value_over_all or not metric.row_keys():
        return None  # values of single labels have no bucket
    own = {} if metric.name is None else {"name": metric.name}
    chosen = {} if cutoffs is None else {"threshold" if "threshold" in arguments(type(metric)) else "k": cutoffs}
    try:
        return metric.again(without=WITHIN, **own, **chosen)
    except (TypeError, ValueError):
        return None  # a metric that needs buckets


USUAL_STEM, USUAL_K = "recall", 10
"""What a report is about if nobody says it: how much of the relevant labels a list of a common length holds."""


def headline_of(collection: TopKCollection, over_all: Mapping[str, str], wanted: str | None = None) -> str:
    """Return the metric that a report is about, as a key without bucket.

    By default this is a metric by bucket, rather one of which a higher value is better, rather recall than another
    metric, rather of the one list of a row than of lists of the buckets, and rather at 10 than at another cut-off. It
    is no metric that says nothing about quality, and none whose values of buckets are parts of the value over all
    labels: such parts are small in every bucket.

    Args:
        collection: The metrics.
        over_all: For each metric by bucket, the key of its value over all labels.
        wanted: The metric that was asked for: its key without bucket, or the key of its value over all labels.

    Raises:
        ValueError: If no metric has the key ``wanted``.
    """
    found: dict[str, tuple[bool, ...]] = {}
    for metric in collection.members().values():
        aggregation, usual = metric.aggregation, metric.stem == USUAL_STEM
        order = (not aggregation.is_quality, aggregation.is_additive, metric.buckets is None)
        for key, k in zip(metric.cutoff_keys() if metric.row_keys() else (), metric.cutoffs, strict=False):
            here = (*order, not metric.higher_is_better, not usual, metric.reading.scope != "global", k != USUAL_K)
            found[key] = min(here, found.get(key, here))
    keys = sorted(found, key=lambda key: found[key])
    if wanted is not None:
        named = {key: {key, collection.named(key), over_all.get(collection.named(key))} for key in keys}
        keys = [key for key in sorted(keys, key=lambda key: found[key][2]) if wanted in named[key]]
        if not keys:
            raise ValueError(f"headline={wanted!r} is no metric here; choose one of {', '.join(map(repr, found))}.")
    return collection.named(keys[0]) if keys else ""


LABELS_K = 10
"""Cut-off of values of single labels where the headline has none: a common length of the lists that users see."""
SHARED = ("num_labels", "min_gain", *BATCH_DEFAULTS)
"""Arguments that added metrics take from the other metrics, so that all metrics read a batch alike."""


def with_label_values(
    collection: TopKCollection, num_labels: int | None = None, headline: str | None = None
) -> TopKCollection:
    """Return a collection with the same members that also has values of single labels.

    It is ``collection`` itself if its members keep all counts per label. Otherwise precision, recall and F1 of each
    label are added, at the cut-offs of the members that keep a part of the counts, or else at the cut-off of the
    headline, so that a label is missed where the headline misses it. The added metrics need ``num_labels`` if no member
    tells it.
    """
    members = list(collection.members().values())
    known = [metric for metric in members if metric.aggregation.keeps_labels]
    parts = [metric for metric in known if not metric.aggregation.keeps_all_counts]
    if known and not parts:
        return collection
    cutoffs = sorted({k for metric in parts for k in metric.cutoffs if isinstance(k, int)})
    if not cutoffs:
        wanted = headline_of(collection, with_values_over_all(collection)[1], headline)
        pairs = (pair for one in members for pair in zip(one.cutoff_keys(), one.cutoffs, strict=False))
        cutoffs = [k for key, k in pairs if collection.named(key) == wanted and isinstance(k, int)][:1] or [LABELS_K]
    alike: dict[str, Any] = {}
    for name in SHARED:
        alike[name] = next((one for one in map(attrgetter(name), members) if one is not None), None)
    alike["num_labels"] = alike["num_labels"] or num_labels
    kinds = (PrecisionAtK, RecallAtK, F1AtK)
    more: list[TopKMetric] = [kind(cutoffs, average="none", **alike) for kind in kinds]
    return collection.with_members([*members, *more])


def by_bucket(metrics: Iterable[TopKMetric], buckets: LabelBuckets | str) -> list[TopKMetric]:
    """Return copies by bucket of the metrics over all labels; an evaluation with ``buckets`` adds these copies.

    The copies read the one list of the row (scope global). Metrics that have no values by bucket, such as tie rates and
    overlaps, are left out, and so are metrics of which ``metrics`` holds a version by bucket.

    Args:
        metrics: The metrics.
        buckets: The buckets.
    """
    metrics = list(metrics)
    known_keys: set[str] = set()
    for metric in metrics:
        if metric.buckets is not None:
            # keys over all labels as well: precision@1 needs no copy if metrics hold it by bucket in any scope
            for version in (metric, _over_all(metric)):
                known_keys.update(() if version is None else version.cutoff_keys())

    copies = []
    for metric in metrics:
        if metric.buckets is not None:
            continue
        scope = {"scope": "global"} if "scope" in arguments(type(metric)) else {}
        try:
            copy = metric.again(buckets=buckets, **scope)
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
        metric.again(without=tuple(FACTS), buckets="deciles")
    except (TypeError, ValueError):
        return False
    return True


def settings_of(metric: TopKMetric) -> dict[str, Any]:
    """Return the class of a metric and every argument that its values depend on, as plain data."""
    settings = metric.settings() | {"k": list(metric.cutoffs), "num_labels": metric.num_labels}
    return {"class": type(metric).__name__, **{name: _plain(value) for name, value in settings.items()}}


def _plain(value: Any) -> Any:
    """Return a value in a form that JSON can hold; buckets and int64 tensors become digests."""
    if isinstance(value, LabelBuckets):
        return value.digest
    if isinstance(value, LabelTree):
        return value.digest_of_edges
    if isinstance(value, Tensor):
        return summary_of_counts(value) if value.dtype == torch.int64 else value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value if isinstance(value, (str, int, float, type(None))) else str(value)


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that a result may depend on."""
    return {
        "python": python_version(),
        "tailmetrics": tailmetrics.__version__,
        "torch": torch.__version__,
        "torchmetrics": torchmetrics.__version__,
    }


def bucket_rows(buckets: LabelBuckets, positives: Sequence[int] | None = None, kind: int = 0) -> Iterator[BucketRow]:
    """Yield a :class:`BucketRow` for each bucket; ``positives`` is the number of relevant labels in each bucket."""
    counts = buckets.counts
    for number, (name, labels) in enumerate(zip(buckets.names, buckets.labels, strict=True)):
        own = labels[:0] if counts is None else counts[labels]
        ends = dict.fromkeys(map(int, torch.aminmax(own))) if own.numel() else ()
        found = positives[number] if positives else 0
        yield BucketRow(name, len(labels), int(own.sum()), found, "-".join(map(str, ends)), kind)
