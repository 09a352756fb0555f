"""Metrics and buckets as a report describes them: captions, arguments, counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from platform import python_version
from typing import Any

import torch
import torchmetrics
from torch import Tensor

import tailmetrics
from tailmetrics.buckets import LabelBuckets
from tailmetrics.metrics import TopKMetric
from tailmetrics.metrics._keys import DATA
from tailmetrics.report.breakdowns import BucketRow
from tailmetrics.report.data import summary_of_counts
from tailmetrics.tree import LabelTree


def captions_of(metric: TopKMetric) -> dict[str, str]:
    """Return a caption for each key of a metric, without buckets.

    A caption tells the scope, the list, which rows are left out, whether values add up,
    and the conventions of the metric.
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
    """Return in words the arguments that a metric's own name hides.

    The text is empty for a metric without a name of its own: its key shows them.
    """
    if metric.name is None:
        return ""
    settings = metric.unusual_settings().items()
    return ", ".join(
        f"{name}={value}" for name, value in settings if name not in (*DATA, *WITHIN)
    )


WITHIN = ("buckets", "scope", "depth")
"""Arguments that have a meaning only for metrics by bucket."""


def settings_of(metric: TopKMetric) -> dict[str, Any]:
    """Return the class of a metric and all arguments that its values depend on.

    The arguments are plain data, as JSON can hold them.
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
    """Return a value in a form that JSON can hold.

    Buckets and trees become digests, and int64 tensors become a summary with a digest.
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
    """Return the versions of Python and of the libraries that values depend on."""
    return {
        "python": python_version(),
        "tailmetrics": tailmetrics.__version__,
        "torch": torch.__version__,
        "torchmetrics": torchmetrics.__version__,
    }


def bucket_rows(
    buckets: LabelBuckets, positives: Sequence[int] | None = None, kind: int = 0
) -> Iterator[BucketRow]:
    """Yield a :class:`BucketRow` for each bucket.

    ``positives`` is the number of relevant labels in each bucket.
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
