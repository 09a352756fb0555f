"""Metrics of classes with one class per row equal scikit-learn, TorchMetrics and
torcheval.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sklearn.metrics import (
    f1_score,
    log_loss,
    precision_score,
    recall_score,
    top_k_accuracy_score,
)
from torcheval.metrics import functional as torcheval
from torchmetrics.classification import MulticlassAccuracy, MulticlassF1Score

import tailmetrics as tm
from parity.compare import KS, class_indices

SCORES, CLASSES = class_indices(seed=21)
SIZE = SCORES.shape[1]


def peers() -> Iterator[tuple[Any, Callable[[], Any]]]:
    """Yield each metric with the value of a peer; a macro mean of a peer is over the
    classes in targets and predictions.
    """
    for k in KS:
        yield (
            tm.AccuracyAtK(k),
            lambda k=k: top_k_accuracy_score(CLASSES, SCORES, k=k, labels=range(SIZE)),
        )
        yield (
            tm.AccuracyAtK(k),
            lambda k=k: torcheval.multiclass_accuracy(SCORES, CLASSES, k=k),
        )
        yield (
            tm.AccuracyAtK(k),
            lambda k=k: MulticlassAccuracy(SIZE, top_k=k, average="micro")(
                SCORES, CLASSES
            ),
        )
        yield (
            tm.HitRateAtK(k),
            lambda k=k: torcheval.hit_rate(SCORES, CLASSES, k=k).mean(),
        )
    for k in (*KS, None):
        yield (
            tm.MRR(k),
            lambda k=k: torcheval.reciprocal_rank(SCORES, CLASSES, k=k).mean(),
        )
    for average in ("weighted", "macro", "micro"):
        arguments: dict[str, Any] = {
            "average": average,
            "num_labels": SIZE,
            **({"labels": "union"} if average == "macro" else {}),
        }
        for metric, peer in (
            (tm.PrecisionAtK, precision_score),
            (tm.RecallAtK, recall_score),
            (tm.F1AtK, f1_score),
        ):
            rule = {"average": average, "zero_division": 0}
            yield (
                metric(1, **arguments),
                lambda peer=peer, rule=rule: peer(CLASSES, SCORES.argmax(1), **rule),
            )
        rule = {"average": average, "num_classes": SIZE}
        yield (
            tm.F1AtK(1, **arguments),
            lambda rule=rule: torcheval.multiclass_f1_score(SCORES, CLASSES, **rule),
        )
        yield (
            tm.F1AtK(1, **arguments),
            lambda rule=rule: MulticlassF1Score(**rule)(SCORES, CLASSES),
        )
    yield (
        tm.CrossEntropy(),
        lambda: log_loss(CLASSES, SCORES.softmax(1), labels=range(SIZE)),
    )


def test_classes_have_the_values_of_peers() -> None:
    """Accuracy, hit rate and reciprocal rank at cut-offs, averages at k = 1, and the
    loss equal the peers, within float32.
    """
    for metric, peer in peers():
        metric.update(SCORES, CLASSES)
        assert float(metric.compute()) == pytest.approx(
            float(peer()), rel=0, abs=1e-6
        ), metric
