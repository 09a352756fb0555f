"""Unknown cells of a multi-hot target are left out, as ``ignore_index=-1`` of
TorchMetrics' multilabel metrics does.
"""

from itertools import product
from typing import Any

import pytest
import torch
from sklearn.metrics import average_precision_score, roc_auc_score
from torch import Tensor
from torchmetrics.functional import classification as peers

import tailmetrics as tm

NUM_LABELS = 14
DRAW = torch.Generator().manual_seed(0)
SCORES = torch.randn(200, NUM_LABELS, generator=DRAW)
TARGET = (torch.rand(200, NUM_LABELS, generator=DRAW) < 0.3).long()
TARGET[torch.rand(200, NUM_LABELS, generator=DRAW) < 0.1] = -1
IS_KNOWN = TARGET >= 0
BUCKETS = tm.LabelBuckets.from_assignment([0] * 5 + [1] * 9, ["head", "tail"])


ROUNDED = SCORES.mul(16).round() / 16
"""Scores with a bin each, so that areas of labels are exact."""


def _value(metric: tm.TopKMetric, scores: Tensor = SCORES, batch: int = 50) -> Tensor:
    """Return the value of a metric that reads unknown cells as not retrieved and not
    relevant.
    """
    scores, relevant = scores.masked_fill(~IS_KNOWN, -torch.inf), TARGET > 0
    for start in range(0, len(scores), batch):
        metric.update(scores[start : start + batch], relevant[start : start + batch])
    return metric.compute()


@pytest.mark.parametrize("average", ["none", "macro", "micro"])
@pytest.mark.parametrize(
    ("metric", "peer"),
    [
        (tm.LabelAUC, peers.multilabel_auroc),
        (tm.LabelAP, peers.multilabel_average_precision),
    ],
)
def test_areas_of_labels_leave_out_unknown_cells(
    metric: Any, peer: Any, average: str
) -> None:
    """Areas of labels with not_retrieved="absent" leave out unknown cells, a tenth of
    200 rows and 14 labels: they equal TorchMetrics, whose float32 is off by 1e-4.
    """
    value = _value(
        metric(average=average, num_labels=NUM_LABELS, not_retrieved="absent"), ROUNDED
    )
    expected = peer(
        ROUNDED, TARGET, NUM_LABELS, average=average, ignore_index=-1, thresholds=None
    ).double()
    torch.testing.assert_close(value, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("metric", "peer"),
    [(tm.LabelAUC, roc_auc_score), (tm.LabelAP, average_precision_score)],
)
def test_areas_of_labels_are_those_of_the_known_rows_of_each_label(
    metric: Any, peer: Any
) -> None:
    """The area of each label is that of scikit-learn over the rows in which the label
    is known.
    """
    value = _value(
        metric(average="none", num_labels=NUM_LABELS, not_retrieved="absent"), ROUNDED
    )
    for label in range(NUM_LABELS):
        rows = IS_KNOWN[:, label]
        assert float(value[label]) == pytest.approx(
            peer(TARGET[rows, label], ROUNDED[rows, label])
        )


def _pairs(row: int, relevant_labels: Any, other_labels: Any) -> list[float]:
    """Return 1 for each pair of a relevant and an irrelevant known label in the right
    order, and 0 otherwise.
    """
    scores, target = SCORES[row].tolist(), TARGET[row].tolist()
    relevant = [label for label in relevant_labels if target[label] == 1]
    irrelevant = [label for label in other_labels if target[label] == 0]
    return [
        float(scores[better] > scores[worse])
        for better, worse in product(relevant, irrelevant)
    ]


@pytest.mark.parametrize("scope", [None, "bucket", "global"])
def test_areas_of_rows_leave_out_unknown_cells(scope: Any) -> None:
    """RowAUC and RankingLoss are the shares of pairs of known labels in the right and
    in the wrong order, by a loop over all pairs.
    """
    by_bucket: dict[str, Any] = (
        {"buckets": BUCKETS, "scope": scope, "empty_target_action": "skip"}
        if scope
        else {}
    )
    auc = _value(tm.RowAUC(not_retrieved="absent", **by_bucket)).reshape(-1).tolist()
    loss = (
        _value(tm.RankingLoss(not_retrieved="absent", **by_bucket)).reshape(-1).tolist()
    )
    for number, labels in enumerate(
        [range(5), range(5, 14)] if scope else [range(NUM_LABELS)]
    ):
        others = labels if scope == "bucket" else range(NUM_LABELS)
        rows = [_pairs(row, labels, others) for row in range(len(SCORES))]
        shares = [sum(pairs) / len(pairs) for pairs in rows if pairs]
        assert auc[number] == pytest.approx(sum(shares) / len(shares))
        if scope is None:
            assert loss[0] == pytest.approx(
                sum(1 - share for share in shares) / len(rows)
            )


def test_coverage_error_counts_known_labels() -> None:
    """CoverageError is the rank of the worst known relevant label among known labels of
    a row, and 0 without one.
    """
    depths = []
    for scores, target in zip(SCORES.tolist(), TARGET.tolist(), strict=True):
        worst = min(
            (score for score, cell in zip(scores, target, strict=True) if cell == 1),
            default=None,
        )
        known_scores = [
            score for score, cell in zip(scores, target, strict=True) if cell >= 0
        ]
        depths.append(
            0 if worst is None else sum(score >= worst for score in known_scores)
        )
    value = _value(tm.CoverageError(not_retrieved="absent"))
    assert float(value) == pytest.approx(sum(depths) / len(depths))


def test_ranks_and_thresholds_leave_out_unknown_cells() -> None:
    """Recall at 5 and micro precision at 0.5 are over the known cells, as in a loop and
    in TorchMetrics.
    """
    recalls = []
    for scores, target in zip(SCORES.tolist(), TARGET.tolist(), strict=True):
        known_labels = sorted(
            (label for label in range(NUM_LABELS) if target[label] >= 0),
            key=lambda label: -scores[label],
        )
        hits, n = (
            sum(target[label] for label in known_labels[:5]),
            sum(target[label] for label in known_labels),
        )
        recalls.append(hits / n if n else 0.0)
    assert float(_value(tm.RecallAtK(5))) == pytest.approx(sum(recalls) / len(recalls))
    probabilities = SCORES.sigmoid()
    expected = peers.multilabel_precision(
        probabilities, TARGET, NUM_LABELS, average="micro", ignore_index=-1
    )
    metric = tm.PrecisionAtThreshold(0.5, num_labels=NUM_LABELS)
    metric.update(probabilities.masked_fill(~IS_KNOWN, -torch.inf), TARGET > 0)
    assert float(metric.compute()) == pytest.approx(float(expected))


@pytest.mark.parametrize("ignore_index", [-1, -100])
def test_ignore_index_for_cells_is_refused_with_the_recipe(ignore_index: int) -> None:
    """ignore_index for unknown cells is refused with a recipe, which gives the recall
    over the known cells.
    """
    target = TARGET.where(IS_KNOWN, ignore_index)
    with pytest.raises(
        ValueError, match="not known cells of a multi-hot target"
    ) as error:
        tm.RecallAtK(5, ignore_index=ignore_index).update(SCORES, target)
    hint = f"preds.masked_fill(target == {ignore_index}, -torch.inf) beside target.masked_fill(target == {ignore_index}, 0)"
    assert hint in str(error.value)
    metric = tm.RecallAtK(5)
    metric.update(
        SCORES.masked_fill(target == ignore_index, -torch.inf),
        target.masked_fill(target == ignore_index, 0),
    )
    assert float(metric.compute()) == float(_value(tm.RecallAtK(5)))


def test_areas_with_and_without_unknown_cells_do_not_share_states() -> None:
    """In a collection, areas with and without not_retrieved="absent" have the values
    that they have alone, under keys of their own.
    """
    metrics = [
        tm.LabelAUC(num_labels=NUM_LABELS),
        tm.LabelAUC(num_labels=NUM_LABELS, not_retrieved="absent"),
    ]
    alone = [float(_value(metric.clone())) for metric in metrics]
    collection = tm.TopKCollection(metrics)
    collection.update(SCORES.masked_fill(~IS_KNOWN, -torch.inf), TARGET > 0)
    assert {key: float(value) for key, value in collection.compute().items()} == {
        "macro_auc": alone[0],
        "macro_auc_absent": alone[1],
    }
    assert alone[0] != alone[1]
