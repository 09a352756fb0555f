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
from tailmetrics.report.report import summary_of_counts


def settings_of(metric: TopKMetric) -> dict[str, Any]:
    """Return the class of a metric and every argument that its numbers depend on, as plain data."""
    settings = metric.settings() | {"k": list(metric.cutoffs), "num_labels": metric.num_labels}
    return {"class": type(metric).__name__, **{name: _plain(value) for name, value in settings.items()}}


def _plain(value: Any) -> Any:
    """Return what JSON can hold of a value."""
    if isinstance(value, LabelBuckets):
        return value.digest
    if isinstance(value, Tensor):
        return summary_of_counts(value) if value.dtype == torch.int64 else value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value if isinstance(value, (str, int, float, type(None))) else str(value)


def versions() -> dict[str, str]:
    """Return the versions that a result may depend on."""
    return {
        "python": python_version(),
        "tailmetrics": tailmetrics.__version__,
        "torch": torch.__version__,
        "torchmetrics": torchmetrics.__version__,
    }
