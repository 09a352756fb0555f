"""Metrics equal TorchMetrics on positive scores, within float32; each deviation has a
test.
"""

import math
from functools import partial
from typing import Any

import pytest
import torch
from lightning_utilities.core.imports import RequirementCache
from torch import Tensor
from torchmetrics import retrieval as torchmetrics
from torchmetrics.classification import MulticlassCalibrationError
from torchmetrics.functional.retrieval import (
    retrieval_average_precision,
    retrieval_hit_rate,
    retrieval_normalized_dcg,
    retrieval_precision,
    retrieval_r_precision,
    retrieval_recall,
    retrieval_reciprocal_rank,
)

import tailmetrics as tm
from cases import Data, rows_of
from oracle import Row
from parity.compare import FULL, FULL_GRADED, KS, assert_value, class_indices
from tailmetrics.metrics import TopKMetric

FLOAT32 = 1e-6


def positive(batch: Data) -> Data:
    """Return the same order with all scores above 0."""
    scores = batch.scores.exp()
    return Data(scores, batch.target, rows_of(scores, batch.target.float()))


POSITIVE, POSITIVE_GRADED = positive(FULL), positive(FULL_GRADED)


def assert_peer(metric: TopKMetric, peer: Any, batch: Data) -> None:
    """Assert that a metric equals a retrieval metric in which every row is a query: as
    rows, and as documents in any order.
    """
    queries = torch.arange(len(batch.rows))[:, None].expand_as(batch.scores)
    documents = [
        part.flatten() for part in (batch.scores, batch.target.long(), queries)
    ]
    shuffled = torch.randperm(
        len(documents[0]), generator=torch.Generator().manual_seed(0)
    )
    scores, target, indexes = (part[shuffled] for part in documents)
    peer.update(scores, target, indexes=indexes)
    assert_value(metric, batch, [float(peer.compute())], FLOAT32)
    metric.reset()
    metric.update(scores, target, indexes=indexes)
    assert float(metric.compute()) == pytest.approx(float(peer.compute()), abs=FLOAT32)


@pytest.mark.parametrize("action", ["neg", "pos", "skip"])
@pytest.mark.parametrize("k", KS)
@pytest.mark.parametrize(
    ("peer", "metric", "arguments"),
    [
        (torchmetrics.RetrievalPrecision, tm.PrecisionAtK, {"denominator": "k"}),
        (torchmetrics.RetrievalRecall, tm.RecallAtK, {}),
        (torchmetrics.RetrievalHitRate, tm.HitRateAtK, {}),
        (torchmetrics.RetrievalMRR, tm.MRR, {}),
        (torchmetrics.RetrievalNormalizedDCG, tm.NDCGAtK, {}),
        (torchmetrics.RetrievalFallOut, tm.FallOutAtK, {}),
    ],
)
def test_metrics_at_k_equal_torchmetrics(
    peer: Any, metric: type[TopKMetric], arguments: dict[str, Any], k: int, action: Any
) -> None:
    """Metrics at k equal TorchMetrics, with denominator="k" for precision, and for
    every empty_target_action.
    """
    metric_at_k = metric(k, empty_target_action=action, **arguments)
    assert_peer(metric_at_k, peer(top_k=k, empty_target_action=action), POSITIVE)


@pytest.mark.parametrize(
    ("peer", "metric"),
    [
        (torchmetrics.RetrievalMAP, tm.MAP()),
        (partial(torchmetrics.RetrievalAUROC, empty_target_action="skip"), tm.RowAUC()),
        (torchmetrics.RetrievalMRR, tm.MRR()),
        (torchmetrics.RetrievalRPrecision, tm.RPrecision()),
        (torchmetrics.RetrievalNormalizedDCG, tm.NDCGAtK(k=None)),
    ],
)
def test_metrics_of_whole_rankings_equal_torchmetrics(
    peer: Any, metric: TopKMetric
) -> None:
    """MAP, RowAUC, MRR, R-precision and nDCG without a cut-off equal TorchMetrics
    without top_k.
    """
    assert_peer(metric.clone(), peer(), POSITIVE)


@pytest.mark.parametrize("k", KS)
def test_graded_ndcg_equals_torchmetrics(k: int) -> None:
    """nDCG with linear gains equals RetrievalNormalizedDCG with whole gains."""
    assert_peer(
        tm.NDCGAtK(k), torchmetrics.RetrievalNormalizedDCG(top_k=k), POSITIVE_GRADED
    )


@pytest.mark.parametrize("k", [2, 5, 50])
def test_precision_of_short_lists_equals_torchmetrics(k: int) -> None:
    """Precision with denominator="predicted" equals RetrievalPrecision with adaptive_k,
    which divides by the number of documents if it is below k.
    """
    for adaptive, denominator in ((True, "predicted"), (False, "k")):
        peer = torchmetrics.RetrievalPrecision(top_k=k, adaptive_k=adaptive)
        assert_peer(tm.PrecisionAtK(k, denominator=denominator), peer, POSITIVE)


@pytest.mark.parametrize("bins", [10, 15])
def test_calibration_error_equals_torchmetrics(bins: int) -> None:
    """CalibrationErrorAtK at k = 1 equals MulticlassCalibrationError(norm="l1"), by
    bucket of the rows whose first label is in the bucket.
    """
    scores, target = class_indices(seed=43)
    halves = tm.LabelBuckets.from_assignment(
        torch.arange(scores.shape[1]) % 2, ["even", "odd"]
    )
    for buckets, parts in (
        (None, [target >= 0]),
        (halves, [scores.argmax(1) % 2 == side for side in (0, 1)]),
    ):
        metric = tm.CalibrationErrorAtK(bins=bins, buckets=buckets)
        metric.update(scores, target)
        for value, rows in zip(
            metric.compute().reshape(-1).tolist(), parts, strict=True
        ):
            peer = MulticlassCalibrationError(scores.shape[1], n_bins=bins, norm="l1")
            assert value == pytest.approx(
                float(peer(scores[rows].softmax(1), target[rows])), abs=FLOAT32
            )


def test_fall_out_of_fully_relevant_rows_equals_torchmetrics() -> None:
    """Fall-out of rows in which every label is relevant equals TorchMetrics, 1 by
    default and for every action.
    """
    scores = torch.tensor([[0.9, 0.5, 0.1], [0.3, 0.2, 0.1]])
    target = torch.tensor([[True, True, True], [False, True, False]])
    for action in (None, "neg", "pos", "skip"):
        peer = torchmetrics.RetrievalFallOut(
            top_k=1, **({} if action is None else {"empty_target_action": action})
        )
        assert_peer(
            tm.FallOutAtK(1, empty_target_action=action),
            peer,
            Data(scores, target, [Row([], {})] * 2),
        )


def value_of_row(metric: TopKMetric, scores: Tensor, target: Tensor) -> float:
    """Return the value of one row."""
    metric.update(scores[None], target[None].bool())
    return float(metric.compute())


@pytest.mark.parametrize("k", [1, 2, 3])
def test_deviation_map_at_k_divides_by_the_hits(k: int) -> None:
    """TorchMetrics divides MAP at k by the hits: for one of n = 2 labels, at rank 1, it
    is 1.

    The library gives 1/2, or 1/min(k, 2) with denominator="attainable".
    """
    scores, target = torch.tensor([0.9, 0.8, 0.7, 0.6]), torch.tensor([1, 0, 0, 1])
    assert float(retrieval_average_precision(scores, target, top_k=k)) == 1
    assert value_of_row(tm.MAP(k), scores, target) == 1 / 2
    assert value_of_row(tm.MAP(k, denominator="attainable"), scores, target) == 1 / min(
        k, 2
    )


def test_deviation_scores_up_to_zero_are_retrieved_inconsistently() -> None:
    """TorchMetrics does not retrieve scores up to 0 in AP, MRR, precision and recall,
    and does in the hit rate, nDCG and R-precision: for three negative scores with the
    best relevant, the first four are 0 and the others 1. The library gives 1 for each,
    and 0 for scores of -inf.
    """
    scores, target = torch.tensor([-0.1, -0.5, -0.9]), torch.tensor([1, 0, 0])
    if RequirementCache("torchmetrics>=1.9"):  # earlier versions differ
        for peer in (
            retrieval_average_precision,
            retrieval_reciprocal_rank,
            retrieval_precision,
            retrieval_recall,
        ):
            assert float(peer(scores, target, top_k=1)) == 0
    for peer in (retrieval_hit_rate, retrieval_normalized_dcg):
        assert float(peer(scores, target, top_k=1)) == 1
    assert float(retrieval_r_precision(scores, target)) == 1

    not_retrieved = scores.masked_fill(scores <= 0, -math.inf)
    factories = (
        tm.MAP,
        tm.MRR,
        tm.PrecisionAtK,
        tm.RecallAtK,
        tm.HitRateAtK,
        tm.NDCGAtK,
    )
    for metric in (*(factory(1) for factory in factories), tm.RPrecision()):
        assert value_of_row(metric, scores, target) == 1
        metric.reset()
        assert value_of_row(metric, not_retrieved, target) == 0


def test_deviation_two_rows_without_indexes_are_one_query() -> None:
    """The functional form of TorchMetrics flattens [2, 2] into one query of four; in
    the library a row is a query.
    """
    scores, target = (
        torch.tensor([[0.9, 0.5], [0.8, 0.6]]),
        torch.tensor([[0, 1], [0, 1]]),
    )
    # in order .9 .8 .6 .5 the relevant ones are third and fourth
    flattened = (1 / 3 + 2 / 4) / 2
    assert float(retrieval_average_precision(scores, target)) == pytest.approx(
        flattened
    )
    metric = tm.MAP()
    metric.update(scores, target.bool())
    assert float(metric.compute()) == 1 / 2


def test_deviation_ndcg_averages_over_ties() -> None:
    """TorchMetrics lets two tied labels share the discounts of ranks 1 and 2; here the
    lower id has rank 1.
    """
    scores, target = torch.tensor([0.5, 0.5]), torch.tensor([0, 1])
    assert float(retrieval_normalized_dcg(scores, target)) == pytest.approx(
        (1 + 1 / math.log2(3)) / 2
    )
    assert value_of_row(tm.NDCGAtK(2), scores, target) == pytest.approx(
        1 / math.log2(3)
    )
