"""Cells of a multi-hot target that are not known, as TorchMetrics' multilabel metrics leave out ``ignore_index=-1``."""

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
KNOWN = TARGET >= 0
BUCKETS = tm.LabelBuckets.from_assignment([0] * 5 + [1] * 9, ["head", "tail"])


ROUNDED = SCORES.mul(16).round() / 16
"""Scores of which each has a bin of its own, so that areas of labels are exact."""


def _value(metric: tm.TopKMetric, scores: Tensor = SCORES, batch: int = 50) -> Tensor:
    """Return the value of a metric that reads cells that are not known as not retrieved, and not relevant."""
    scores, relevant = scores.masked_fill(~KNOWN, -torch.inf), TARGET > 0
    for start in range(0, len(scores), batch):
        metric.update(scores[start : start + batch], relevant[start : start + batch])
    return metric.compute()


@pytest.mark.parametrize("average", ["none", "macro", "micro"])
@pytest.mark.parametrize(
    ("metric", "peer"),
    [(tm.LabelAUC, peers.multilabel_auroc), (tm.LabelAP, peers.multilabel_average_precision)],
)
def test_areas_of_labels_leave_out_cells_that_are_not_known(metric: Any, peer: Any, average: str) -> None:
    """200 rows and 14 labels, a tenth of the cells not known: as TorchMetrics, whose float32 is off by 1e-4."""
    value = _value(metric(average=average, num_labels=NUM_LABELS, not_retrieved="absent"), ROUNDED)
    expected = peer(ROUNDED, TARGET, NUM_LABELS, average=average, ignore_index=-1, thresholds=None).double()
    torch.testing.assert_close(value, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize(("metric", "peer"), [(tm.LabelAUC, roc_auc_score), (tm.LabelAP, average_precision_score)])
def test_areas_of_labels_are_those_of_the_known_rows_of_each_label(metric: Any, peer: Any) -> None:
    """As scikit-learn has them for each label, given its known rows alone."""
    value = _value(metric(average="none", num_labels=NUM_LABELS, not_retrieved="absent"), ROUNDED)
    for label in range(NUM_LABELS):
        rows = KNOWN[:, label]
        assert float(value[label]) == pytest.approx(peer(TARGET[rows, label], ROUNDED[rows, label]))


def _pairs(row: int, relevant_labels: Any, other_labels: Any) -> list[float]:
    """Return for each pair of a relevant and an irrelevant known label 1 if it is in the right order, else 0."""
    scores, target = SCORES[row].tolist(), TARGET[row].tolist()
    relevant = [label for label in relevant_labels if target[label] == 1]
    irrelevant = [label for label in other_labels if target[label] == 0]
    return [float(scores[one] > scores[other]) for one, other in product(relevant, irrelevant)]


@pytest.mark.parametrize("scope", [None, "bucket", "global"])
def test_areas_of_rows_leave_out_cells_that_are_not_known(scope: Any) -> None:
    """The share of pairs of known labels in the right order, and in the wrong one, by a loop over all pairs."""
    by_bucket: dict[str, Any] = {"buckets": BUCKETS, "scope": scope, "empty_target_action": "skip"} if scope else {}
    auc = _value(tm.RowAUC(not_retrieved="absent", **by_bucket)).reshape(-1).tolist()
    loss = _value(tm.RankingLoss(not_retrieved="absent", **by_bucket)).reshape(-1).tolist()
    for number, labels in enumerate([range(5), range(5, 14)] if scope else [range(NUM_LABELS)]):
        others = labels if scope == "bucket" else range(NUM_LABELS)
        rows = [_pairs(row, labels, others) for row in range(len(SCORES))]
        shares = [sum(pairs) / len(pairs) for pairs in rows if pairs]
        assert auc[number] == pytest.approx(sum(shares) / len(shares))
        if scope is None:
            assert loss[0] == pytest.approx(sum(1 - share for share in shares) / len(rows))


def test_the_depth_of_a_row_counts_known_labels() -> None:
    """The place of the worst known relevant label among the known labels of the row; 0 without one."""
    depths = []
    for scores, target in zip(SCORES.tolist(), TARGET.tolist(), strict=True):
        worst = min((score for score, cell in zip(scores, target, strict=True) if cell == 1), default=None)
        known = [score for score, cell in zip(scores, target, strict=True) if cell >= 0]
        depths.append(0 if worst is None else sum(score >= worst for score in known))
    value = _value(tm.CoverageError(not_retrieved="absent"))
    assert float(value) == pytest.approx(sum(depths) / len(depths))


def test_ranks_and_thresholds_leave_out_cells_that_are_not_known() -> None:
    """Recall at 5 and micro precision at 0.5 of the known cells, by a loop and as TorchMetrics has them."""
    recalls = []
    for scores, target in zip(SCORES.tolist(), TARGET.tolist(), strict=True):
        known = sorted((label for label in range(NUM_LABELS) if target[label] >= 0), key=lambda label: -scores[label])
        hits, n = sum(target[label] for label in known[:5]), sum(target[label] for label in known)
        recalls.append(hits / n if n else 0.0)
    assert float(_value(tm.RecallAtK(5))) == pytest.approx(sum(recalls) / len(recalls))
    expected = peers.multilabel_precision(SCORES, TARGET, NUM_LABELS, threshold=0.5, average="micro", ignore_index=-1)
    probabilities = SCORES.sigmoid()
    expected = peers.multilabel_precision(probabilities, TARGET, NUM_LABELS, average="micro", ignore_index=-1)
    metric = tm.PrecisionAtThreshold(0.5, num_labels=NUM_LABELS)
    metric.update(probabilities.masked_fill(~KNOWN, -torch.inf), TARGET > 0)
    assert float(metric.compute()) == pytest.approx(float(expected))


@pytest.mark.parametrize("ignored", [-1, -100])
def test_an_ignored_label_of_cells_is_refused_with_the_recipe(ignored: int) -> None:
    """Who follows the hint has the recall of the known cells."""
    target = TARGET.where(KNOWN, ignored)
    with pytest.raises(ValueError, match="not known cells of a multi-hot target") as error:
        tm.RecallAtK(5, ignore_index=ignored).update(SCORES, target)
    hint = f"preds.masked_fill(target == {ignored}, -torch.inf) beside target.masked_fill(target == {ignored}, 0)"
    assert hint in str(error.value)
    metric = tm.RecallAtK(5)
    metric.update(SCORES.masked_fill(target == ignored, -torch.inf), target.masked_fill(target == ignored, 0))
    assert float(metric.compute()) == float(_value(tm.RecallAtK(5)))


def test_states_of_areas_with_and_without_such_cells_are_not_shared() -> None:
    """In one collection each metric has the value that it has alone, and a key of its own."""
    metrics = [tm.LabelAUC(num_labels=NUM_LABELS), tm.LabelAUC(num_labels=NUM_LABELS, not_retrieved="absent")]
    alone = [float(_value(metric.clone())) for metric in metrics]
    collection = tm.TopKCollection(metrics)
    collection.update(SCORES.masked_fill(~KNOWN, -torch.inf), TARGET > 0)
    assert {key: float(value) for key, value in collection.compute().items()} == {
        "macro_auc": alone[0],
        "macro_auc_absent": alone[1],
    }
    assert alone[0] != alone[1]
