"""Metrics equal torcheval, within float32; each deviation has a test."""

import math

import pytest
import torch
from torcheval.metrics import functional as torcheval
from torcheval.metrics.functional.ranking import retrieval_precision

from parity.compare import FULL, KS, assert_rows
from tailmetrics import MRR, HitRateAtK, PrecisionAtK

FLOAT32 = 1e-6


@pytest.mark.parametrize("k", [*KS, 50])
@pytest.mark.parametrize(("limit", "denominator"), [(True, "predicted"), (False, "k")])
def test_precision_equals_torcheval(limit: bool, denominator: str, k: int) -> None:
    """Precision equals retrieval_precision; limit_k_to_size divides by the length of a
    list shorter than k.
    """
    peer = retrieval_precision(
        FULL.scores, FULL.target.long(), k, limit, num_tasks=len(FULL.rows)
    )
    assert_rows(PrecisionAtK(k, denominator=denominator), FULL, peer.tolist(), FLOAT32)


@pytest.mark.parametrize("k", [3, 10])
def test_hit_rate_equals_topk_multilabel_accuracy(k: int) -> None:
    """Hit rate equals topk_multilabel_accuracy with criteria="overlap", for rows with a
    relevant label.
    """
    keep = FULL.target.any(1)
    peer = torcheval.topk_multilabel_accuracy(
        FULL.scores[keep], FULL.target[keep].long(), criteria="overlap", k=k
    )
    metric = HitRateAtK(k)
    metric.update(FULL.scores, FULL.target, row_mask=keep)
    assert float(metric.compute()) == pytest.approx(float(peer), abs=FLOAT32)


def test_deviation_ties_go_to_the_target() -> None:
    """torcheval gives a model with equal scores an MRR of 1; in the library the lowest
    id comes first.
    """
    scores, last = torch.zeros(1, 4), torch.tensor([3])
    assert torcheval.reciprocal_rank(scores, last).tolist() == [1]
    assert torcheval.hit_rate(scores, last, k=1).tolist() == [1]
    metric = MRR()
    metric.update(scores, last)
    assert float(metric.compute()) == 1 / 4


def test_deviation_a_target_score_of_nan_ranks_first() -> None:
    """torcheval gives a target score of NaN an MRR of 1; in the library NaN is an
    error.
    """
    scores, target = torch.tensor([[0.5, math.nan]]), torch.tensor([1])
    assert torcheval.reciprocal_rank(scores, target).tolist() == [1]
    with pytest.raises(ValueError, match="NaN"):
        MRR().update(scores, target)
