"""What a result was computed with: the arguments of the metrics, the versions of the libraries."""

from __future__ import annotations

from platform import python_version
from typing import Any

import torch
import torchmetrics
from torch import Tensor

import tailmetrics
from tailmetrics.buckets import LabelBuckets
from tailmetrics.metrics import TopKMetric
from tailmetrics.report.plain import summary_of_counts


def settings_of(metric: TopKMetric) -> dict[str, Any]:
    """Return the class of a metric, its keys' stem and the arguments that its numbers depend on."""
    named = ("scope", "average", "depth", "empty_target_action", "denominator", "labels", "gain", "normalization")
    more = ("min_recall", "statistic", "miss_value", "a", "b", "num_train", "num_labels")
    arguments = {name: getattr(metric, name) for name in (*named, *more) if hasattr(metric, name)}
    buckets = metric.buckets.digest if isinstance(metric.buckets, LabelBuckets) else metric.buckets
    counts: Tensor | None = getattr(metric, "label_counts", None)
    if counts is not None:
        arguments["label_counts"] = summary_of_counts(counts)
    return {"class": type(metric).__name__, "k": list(metric.cutoffs), "buckets": buckets, **arguments}


def versions() -> dict[str, str]:
    """Return the versions that a result may depend on."""
    return {
        "python": python_version(),
        "tailmetrics": tailmetrics.__version__,
        "torch": torch.__version__,
        "torchmetrics": torchmetrics.__version__,
    }
