"""What is counted: updates of common sizes, each with the most that it may cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from benchmarks.costs.counting import CountedCosts
from benchmarks.ours import ten_metrics, token_metrics
from benchmarks.workloads import label_counts
from tailmetrics import MRR, CrossEntropy, LabelBuckets, LabelFrequency, TopKCollection

Metrics = TopKCollection | LabelFrequency
Kind = Literal["class", "ids", "mask", "gains"]


@dataclass(frozen=True)
class Costs:
    """Launches, gigabytes read and written, and the most megabytes held at once."""

    launches: int
    gigabytes: float
    megabytes: float

    def within(self, most: Costs) -> bool:
        """Whether none is more than allowed."""
        return (
            self.launches <= most.launches
            and self.gigabytes <= most.gigabytes
            and self.megabytes <= most.megabytes
        )


@dataclass(frozen=True)
class Line:
    """An update, and the most it may cost.

    Attributes:
        what: The metrics, in words.
        metrics: Makes them for a number of labels.
        shape: Rows, and labels or, of ranked ids, places.
        dtype: Of the predictions; None where there are none.
        target: The form of the target.
        most: What the update may cost.
        num_labels: L of ranked ids.
    """

    what: str
    metrics: Callable[[int], Metrics]
    shape: tuple[int, int]
    dtype: torch.dtype | None
    target: Kind
    most: Costs
    num_labels: int = 0

    def __str__(self) -> str:
        """Return the metrics, the predictions and the target."""
        dtype = (
            "" if self.dtype is None else f" {str(self.dtype).removeprefix('torch.')}"
        )
        return f"{self.what}, {list(self.shape)}{dtype}, {self.target}"

    def count(self) -> tuple[Costs, int, int]:
        """Return the costs, waits and copies of the second update.

        The first update makes the tables.
        """
        rows, columns = self.shape
        metrics = self.metrics(self.num_labels or columns).to("meta")
        target = _target(self.target, rows, columns)
        preds = (
            []
            if self.dtype is None
            else [torch.empty(self.shape, dtype=self.dtype, device="meta")]
        )
        metrics.update(*preds, target)
        with CountedCosts() as counted:
            metrics.update(*preds, target)
        costs = Costs(counted.launches, counted.bytes / 1e9, counted.peak / 1e6)
        return costs, counted.waits, counted.copies


def _target(kind: Kind, rows: int, columns: int) -> Tensor:
    shapes: dict[Kind, tuple[int, ...]] = {"class": (rows,), "ids": (rows, 5)}
    dtypes = {"mask": torch.bool, "gains": torch.float32}
    return torch.zeros(
        shapes.get(kind, (rows, columns)),
        dtype=dtypes.get(kind, torch.int64),
        device="meta",
    )


def _by_bucket(depth: int) -> Callable[[int], Metrics]:
    def make(num_labels: int) -> Metrics:
        return ten_metrics(
            LabelBuckets.deciles(label_counts(num_labels)),
            depth=depth,
            validate_args=False,
        )

    return make


def _overall(_: int) -> Metrics:
    return ten_metrics(None, validate_args=False)


def _alone(metric: Any) -> Callable[[int], Metrics]:
    return lambda _: TopKCollection([metric(validate_args=False)])


def _tokens(num_labels: int) -> Metrics:
    return token_metrics(
        LabelBuckets.deciles(label_counts(num_labels)), validate_args=False
    )


def _frequency(num_labels: int) -> Metrics:
    return LabelFrequency(num_labels, validate_args=False)


BY_BUCKET, OVERALL = "10 metrics × 3 ks × 11 buckets", "10 metrics × 3 ks"
BIG, WIDE, MIDDLE, TINY = (1024, 131072), (256, 670000), (4096, 10000), (32, 1000)
TOKENS = (4096, 50257)
FLOAT, HALF, IDS = torch.float32, torch.bfloat16, torch.int64

LINES = [
    Line(BY_BUCKET, _by_bucket(500), BIG, FLOAT, "ids", Costs(150, 5.0, 256)),
    Line(BY_BUCKET, _by_bucket(500), BIG, HALF, "ids", Costs(150, 4.0, 256)),
    Line(BY_BUCKET, _by_bucket(500), BIG, FLOAT, "class", Costs(150, 5.0, 256)),
    Line(BY_BUCKET, _by_bucket(500), BIG, FLOAT, "mask", Costs(160, 6.0, 300)),
    Line(BY_BUCKET, _by_bucket(500), BIG, FLOAT, "gains", Costs(200, 9.0, 350)),
    Line(BY_BUCKET, _by_bucket(500), MIDDLE, FLOAT, "ids", Costs(150, 3.5, 300)),
    Line(BY_BUCKET, _by_bucket(500), WIDE, FLOAT, "ids", Costs(150, 4.5, 256)),
    Line(BY_BUCKET, _by_bucket(500), TINY, FLOAT, "ids", Costs(120, 0.05, 8)),
    Line(
        BY_BUCKET,
        _by_bucket(100),
        (20000, 100),
        IDS,
        "ids",
        Costs(150, 4.0, 300),
        num_labels=100_000,
    ),
    Line(OVERALL, _overall, BIG, FLOAT, "ids", Costs(100, 1.7, 96)),
    Line(OVERALL, _overall, TINY, FLOAT, "class", Costs(80, 0.01, 4)),
    Line("MRR() of exact ranks", _alone(MRR), BIG, FLOAT, "class", Costs(60, 3.0, 200)),
    Line(
        "MRR() of exact ranks", _alone(MRR), BIG, FLOAT, "mask", Costs(200, 40.0, 600)
    ),
    Line(
        "CrossEntropy()",
        _alone(CrossEntropy),
        BIG,
        FLOAT,
        "class",
        Costs(400, 16.0, 128),
    ),
    Line(
        "accuracy, MRR, perplexity × 11 buckets",
        _tokens,
        TOKENS,
        HALF,
        "class",
        Costs(800, 25.0, 200),
    ),
    Line("LabelFrequency", _frequency, BIG, None, "mask", Costs(10, 0.3, 64)),
]
