"""Metrics that a report adds (over all labels, per label, by bucket), and captions and arguments of its metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from platform import python_version
from typing import Any

import torch
import torchmetrics
from torch import Tensor

import tailmetrics
from tailmetrics._arguments import arguments
from tailmetrics.buckets import LabelBuckets
from tailmetrics.collection import TopKCollection, keeps_labels
from tailmetrics.metrics import F1AtK, PrecisionAtK, PredictionProportionAtK, RecallAtK, TopKMetric
from tailmetrics.metrics._arguments_of_metrics import FACTS
from tailmetrics.metrics._labels import LabelAveragedMetric
from tailmetrics.metrics._metric import ShownMetric
from tailmetrics.metrics._rows import RelevanceMetric
from tailmetrics.metrics.areas import LabelAP, LabelAUC, RowAUC
from tailmetrics.metrics.decisions import ThresholdMetric
from tailmetrics.metrics.probabilities import CalibrationErrorAtK, CrossEntropy
from tailmetrics.report.report import BucketRow, summary_of_counts


def listed(metrics: Any) -> TopKCollection | list[TopKMetric] | None:
    """Return metrics as a list, which can be read several times; return a collection or None unchanged."""
    if metrics is None or isinstance(metrics, TopKCollection):
        return metrics
    return [metrics] if isinstance(metrics, TopKMetric) else list(metrics)


def captions_of(metric: TopKMetric) -> dict[str, str]:
    """Return a caption for each key without bucket: the scope, the list, and the rows if some are left out.

    >>> from tailmetrics import LabelBuckets, RecallAtK
    >>> captions_of(RecallAtK(k=10, buckets="deciles", scope="global"))
    {'global_recall@10': 'in the one list that a row shows (scope global); rows with a relevant label there'}
    """
    left_out = isinstance(metric, RelevanceMetric) and metric.empty_target_action == "skip"
    rows = "; rows with a relevant label there" if left_out else ""
    mean = f"; {mean_over(metric)} of the bucket" if mean_over(metric) else ""
    mean += ", those without a relevant row with 0" if mean and getattr(metric, "labels", "") == "all" else ""
    said = [getattr(metric, name, "") for name in ("scope", "average", "denominator", "empty_target_action")]
    is_part = isinstance(metric, PrecisionAtK) and said == ["global", "samples", "k", "neg"]
    sums = "; over all buckets the values add up to precision over all labels" if is_part else ""
    return {metric._key(k): f"{_caption(metric, k)}{rows}{mean}{sums}" for k in metric.cutoffs}


OVER = {
    "present": "the mean over the labels that are relevant in some row",
    "union": "the mean over the labels that are relevant or predicted in some row",
    "all": "the mean over all labels",
}


def mean_over(metric: TopKMetric) -> str:
    """Return in words the labels of which a macro average is the mean; an empty text for other metrics."""
    if not isinstance(metric, LabelAveragedMetric) or metric.average != "macro":
        return ""
    said = OVER[metric.labels]
    return said if getattr(metric, "macro", None) is None else f"the F-score of precision and recall, each {said}"


def _caption(metric: TopKMetric, k: object) -> str:
    scope = getattr(metric, "scope", None)
    if isinstance(metric, ThresholdMetric):
        return (
            f"labels with a score above {k:g}" if isinstance(k, float) else "labels with a score above their threshold"
        )
    if isinstance(metric, RowAUC):
        pairs = "all irrelevant labels" if scope == "global" else "the irrelevant labels of the bucket"
        return f"relevant labels of the bucket against {pairs} (scope {scope})"
    if isinstance(metric, (LabelAUC, LabelAP)):
        return (
            "for each label of the bucket, its rows against all others; labels without a relevant row are left out; "
            f"from {metric.bins} bins of its scores"
        )
    if isinstance(metric, CalibrationErrorAtK):
        return "of the predicted labels that are in the bucket, whatever label is right"
    if isinstance(metric, CrossEntropy):
        return "relevant labels of the bucket, under the softmax of the scores of all labels"
    if isinstance(metric, RelevanceMetric) and scope == "global":
        return "in the one list that a row shows (scope global)"
    if isinstance(metric, RelevanceMetric):
        return "the labels of a bucket ranked among themselves, k places for each bucket (scope bucket)"
    return "of the list that a row shows" if isinstance(metric, ShownMetric) else ""


WITHIN = ("buckets", "scope", "depth")
"""Arguments that have a meaning only for metrics by bucket."""


def with_values_over_all(collection: TopKCollection) -> tuple[TopKCollection, dict[str, str]]:
    """Return a collection that also has each metric by bucket over all labels, and a dict of keys.

    The collection keeps all members; if nothing has to be added, ``collection`` itself is returned. The dict maps each
    metric by bucket, such as ``global_recall@10``, to the key of its value over all labels, ``recall@10``.
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
    """Return a metric by bucket as a metric over all labels, at some of its cut-offs; None if it has no use there."""
    if isinstance(metric, PredictionProportionAtK) or not metric.row_keys():
        return None  # over all labels the proportion is 1; values of single labels have no bucket
    own = {} if metric.name is None else {"name": metric.name}
    chosen = {} if cutoffs is None else {"threshold" if "threshold" in metric._given else "k": cutoffs}
    try:
        return again(metric, without=WITHIN, **own, **chosen)
    except (TypeError, ValueError):
        return None  # a metric that needs buckets


def again(metric: TopKMetric, without: Sequence[str] = (), **changed: Any) -> TopKMetric:
    """Return an empty copy of a metric with some arguments ``changed``, and some left out (``without``).

    The other arguments of the copy are the arguments that the user, the training data or a collection has set.
    """
    settled = {name: vars(metric)[name] for name in (*FACTS, *OF_COLLECTION) if vars(metric).get(name) not in UNSAID}
    given = {name: value for name, value in {**metric._given, **settled}.items() if name not in without}
    return type(metric)(**{**given, **changed})


OF_COLLECTION, UNSAID = ("row_groups", "duplicates", "ignore_index"), (None, "error")
"""Arguments that a collection gives to its members, and the values of these arguments if nobody sets them."""
LABELS_K = 10
"""Default cut-off of values of single labels: a common length of the lists that users see."""
WHOLE = {"support", "predicted"}
"""Counts per label that a report needs, beside the number of hits."""
SHARED = ("num_labels", "duplicates", "ignore_index", "min_gain")
"""Arguments that added metrics take from the other metrics, so that all metrics read a batch alike."""


def with_label_values(collection: TopKCollection, num_labels: int | None = None) -> TopKCollection:
    """Return a collection with the same members that also has values of single labels.

    It is ``collection`` itself if its members keep all counts per label. Otherwise precision, recall and F1 of each
    label are added, at the cut-offs of the members that keep a part of the counts, or else at :data:`LABELS_K`. The
    added metrics need ``num_labels`` if no member tells it.
    """
    members = list(collection.members().values())
    known = [metric for metric in members if keeps_labels(metric)]
    parts = [metric for metric in known if not {part for name in metric._defaults for part in name.split("_")} >= WHOLE]
    if known and not parts:
        return collection
    cutoffs = sorted({k for metric in parts for k in metric.cutoffs if isinstance(k, int)}) or [LABELS_K]
    alike: dict[str, Any] = {}
    for name in SHARED:
        alike[name] = next((one for one in map(attrgetter(name), members) if one is not None), None)
    alike["num_labels"] = alike["num_labels"] or num_labels
    kinds: tuple[type[LabelAveragedMetric], ...] = (PrecisionAtK, RecallAtK, F1AtK)
    more: list[TopKMetric] = [kind(cutoffs, average="none", **alike) for kind in kinds]
    return collection._with_members([*members, *more])


def by_bucket(metrics: Iterable[TopKMetric], buckets: LabelBuckets | str) -> list[TopKMetric]:
    """Return copies by bucket of the metrics over all labels; an evaluation with ``buckets`` adds these copies.

    The copies read the one list of the row (scope global). Metrics that have no values by bucket, such as tie rates and
    overlaps, are left out, and so are metrics of which ``metrics`` holds a version by bucket.

    Args:
        metrics: The metrics.
        buckets: The buckets.
    """
    metrics, found = list(metrics), []
    have = [metric for metric in metrics if metric.buckets is not None]
    # keys over all labels as well: precision@1 needs no copy if metrics hold it by bucket in any scope
    known = {key for metric in (*have, *filter(None, map(_over_all, have))) for key in _stems(metric)}
    for metric in metrics:
        if metric.buckets is not None:
            continue
        try:
            again(metric, without=tuple(FACTS), buckets="deciles")
        except (TypeError, ValueError):
            continue
        own = {"scope": "global"} if "scope" in arguments(type(metric)) else {}
        one = again(metric, buckets=buckets, **own)
        if known.isdisjoint({*_stems(metric), *_stems(one)}):
            found.append(one)
    return found


def _stems(metric: TopKMetric) -> list[str]:
    return [metric._key(k) for k in metric.cutoffs]


def settings_of(metric: TopKMetric) -> dict[str, Any]:
    """Return the class of a metric and every argument that its values depend on, as plain data."""
    settings = metric.settings() | {"k": list(metric.cutoffs), "num_labels": metric.num_labels}
    return {"class": type(metric).__name__, **{name: _plain(value) for name, value in settings.items()}}


def _plain(value: Any) -> Any:
    """Return a value in a form that JSON can hold; buckets and int64 tensors become digests."""
    if isinstance(value, LabelBuckets):
        return value.digest
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
