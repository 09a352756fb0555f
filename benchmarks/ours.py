"""The metrics of this library that the benchmarks measure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from torch import Tensor

from benchmarks.workloads import NUM_TRAIN, label_counts
from tailmetrics import (
    MAP,
    MRR,
    AccuracyAtK,
    CGAtK,
    CrossEntropy,
    DCGAtK,
    F1AtK,
    HitRateAtK,
    LabelBuckets,
    NDCGAtK,
    NormalizedRecallAtK,
    PrecisionAtK,
    PropensityScoredPrecisionAtK,
    RecallAtK,
    TopKCollection,
)
from tailmetrics.metrics import TopKMetric

Values = dict[str, float]

TEN = (
    PrecisionAtK,
    RecallAtK,
    NormalizedRecallAtK,
    F1AtK,
    HitRateAtK,
    NDCGAtK,
    DCGAtK,
    CGAtK,
    MAP,
    MRR,
)


def ten_metrics(
    buckets: LabelBuckets | None,
    count: int = len(TEN),
    depth: int = 500,
    validate_args: bool = True,
    row_groups: Sequence[str] | None = None,
) -> TopKCollection:
    """Return the first ``count`` of ten metrics at k = 1, 5 and 10.

    They are by bucket and group of rows if there are any.
    """
    common: dict[str, Any] = {
        "buckets": buckets,
        "depth": depth,
        "validate_args": validate_args,
    }
    return TopKCollection(
        [metric(k=[1, 5, 10], **common) for metric in TEN[:count]],
        row_groups=row_groups,
    )


def token_metrics(buckets: LabelBuckets, validate_args: bool = True) -> TopKCollection:
    """Return the metrics of configs/language_model.yaml.

    These are accuracy, MRR and cross-entropy, overall and by bucket.
    """
    common: dict[str, Any] = {"ignore_index": -100, "validate_args": validate_args}
    kinds: tuple[dict[str, Any], ...] = {}, {"buckets": buckets, "scope": "global"}
    ranked = [
        metric(**kind, **common)
        for kind in kinds
        for metric in (partial(AccuracyAtK, k=[1, 5, 10]), MRR)
    ]
    return TopKCollection(
        [*ranked, CrossEntropy(**common), CrossEntropy(buckets=buckets, **common)]
    )


def xmc_metrics(num_labels: int, validate_args: bool = True) -> TopKCollection:
    """Return precision, nDCG and propensity-scored precision at k = 1, 3 and 5."""
    common: dict[str, Any] = {"k": [1, 3, 5], "validate_args": validate_args}
    training = {"label_counts": label_counts(num_labels), "num_train": NUM_TRAIN}
    psp = PropensityScoredPrecisionAtK(**common, **training)
    return TopKCollection(
        [PrecisionAtK(**common, denominator="k"), NDCGAtK(**common), psp]
    )


def query_metrics() -> TopKCollection:
    """Return the five measures at 10 on which libraries of retrieval agree."""
    return TopKCollection(
        [PrecisionAtK(10, denominator="k"), RecallAtK(10), NDCGAtK(10), MAP(10), MRR()]
    )


def evaluate(metrics: TopKCollection | TopKMetric, preds: Any, target: Any) -> Values:
    """Reset, update and return the values: all that a peer's function does."""
    metrics.reset()
    metrics.update(preds, target)
    values = (
        metrics.compute() if isinstance(metrics, TopKCollection) else metrics.scalars()
    )
    return {key: float(value) for key, value in values.items()}


def one_batch(metrics: Sequence[TopKMetric], scores: Tensor, target: Tensor) -> Any:
    """Return a function that evaluates the first so many rows.

    One metric is updated alone, several in a collection.
    """
    evaluated = metrics[0] if len(metrics) == 1 else TopKCollection(metrics)
    return lambda rows: evaluate(evaluated, scores[:rows], target[:rows])
