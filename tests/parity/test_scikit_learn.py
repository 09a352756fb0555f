"""Metrics equal scikit-learn to 1e-9; each deviation has a test."""

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import (
    coverage_error,
    dcg_score,
    f1_score,
    fbeta_score,
    label_ranking_average_precision_score,
    label_ranking_loss,
    ndcg_score,
    precision_score,
    recall_score,
    roc_auc_score,
)

import tailmetrics as tm
from cases import NUM_LABELS, Data
from parity.compare import BINARY, FULL, FULL_GRADED, KS, assert_rows, assert_value, top
from tailmetrics.metrics import REGISTRY, TopKMetric

RATIOS = [
    ("PrecisionAtK", tm.PrecisionAtK, precision_score),
    ("RecallAtK", tm.RecallAtK, recall_score),
    ("F1AtK", tm.F1AtK, f1_score),
]
F_BETA = ("FBetaAtK", tm.FBetaAtK, partial(fbeta_score, beta=2.0))


@pytest.mark.parametrize("k", [*KS, None])
@pytest.mark.parametrize("gain", ["linear", "exponential"])
@pytest.mark.parametrize(
    ("metric", "peer"), [(tm.NDCGAtK, ndcg_score), (tm.DCGAtK, dcg_score)]
)
def test_dcg_and_ndcg_equal_scikit_learn(
    metric: type[TopKMetric], peer: Any, gain: str, k: int | None
) -> None:
    """DCG and nDCG equal dcg_score and ndcg_score, which are linear and give the
    exponential gain for 2^g - 1.

    Rows without a gain count as 0.
    """
    gains = FULL_GRADED.target if gain == "linear" else FULL_GRADED.target.exp2() - 1
    rows = [
        peer(gains[[row]], FULL_GRADED.scores[[row]], k=k) for row in range(len(gains))
    ]
    assert_rows(metric(k=k, gain=gain), FULL_GRADED, rows)
    assert np.mean(rows) == pytest.approx(
        peer(gains, FULL_GRADED.scores, k=k), abs=1e-12
    )


def test_map_equals_label_ranking_average_precision() -> None:
    """MAP of whole rankings equals label_ranking_average_precision_score with
    empty_target_action="pos".
    """
    peer = label_ranking_average_precision_score(FULL.target, FULL.scores)
    assert_value(tm.MAP(empty_target_action="pos"), FULL, [peer])


@pytest.mark.parametrize("k", KS)
@pytest.mark.parametrize("average", ["weighted", "macro", "micro", "samples"])
@pytest.mark.parametrize(("name", "metric", "peer"), [*RATIOS, F_BETA])
def test_averages_at_k_equal_scikit_learn(
    name: str, metric: type[TopKMetric], peer: Any, average: str, k: int
) -> None:
    """Averages at k equal scikit-learn with the top k as a matrix of 0 and 1, with
    short lists and empty rows; the macro mean is over all columns.
    """
    labels = {"labels": "all"} if average == "macro" else {}
    expected = peer(
        BINARY.target.numpy(), top(BINARY, k).numpy(), average=average, zero_division=0
    )
    assert_value(
        metric(k, average=average, num_labels=NUM_LABELS, **labels), BINARY, [expected]
    )


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(
    ("metric", "peer"),
    [
        (tm.CoverageError, coverage_error),
        (tm.RankingLoss, label_ranking_loss),
        (tm.RowAUC, partial(roc_auc_score, average="samples")),
    ],
)
def test_areas_and_losses_of_rows_equal_scikit_learn(
    metric: type[TopKMetric], peer: Any, ties: bool
) -> None:
    """CoverageError, RankingLoss and RowAUC equal scikit-learn, with equal scores, row
    weights, and rows without a pair where the peer accepts them.
    """
    scores = FULL.scores.mul(2).round() if ties else FULL.scores
    has_value = (
        FULL.target.any(1) & ~FULL.target.all(1)
        if metric is tm.RowAUC
        else torch.ones(len(scores), dtype=torch.bool)
    )
    metric_of_rows = metric()
    metric_of_rows.update(scores, FULL.target)
    assert float(metric_of_rows.compute()) == pytest.approx(
        peer(FULL.target[has_value], scores[has_value]), rel=0, abs=1e-9
    )
    weights = torch.rand(
        len(scores), generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    weighted = metric(weighted=True)
    weighted.update(scores, FULL.target, row_weights=weights)
    if metric is tm.RowAUC:  # its weights in scikit-learn are those of cells
        rows = [
            roc_auc_score(*row)
            for row in zip(FULL.target[has_value], scores[has_value], strict=True)
        ]
        expected = float(np.average(rows, weights=weights[has_value]))
    else:
        expected = peer(FULL.target, scores, sample_weight=weights)
    assert float(weighted.compute()) == pytest.approx(expected, rel=0, abs=1e-9)


def test_weighted_row_auc_equals_gauc_of_recbole() -> None:
    """RowAUC weighted by the number of relevant labels equals RecBole's GAUC, sum R(u)
    AUC(u) / sum R(u), from mean ranks.
    """
    above, below = 0.0, 0
    for scores, target in zip(FULL.scores.round(), FULL.target, strict=True):
        ranks = [
            (scores > score).sum() + (1 + (scores == score).sum()) / 2
            for score in scores[target]
        ]
        size, n = len(ranks), len(scores)
        if 0 < size < n:
            above += (
                size
                * float(size * (n + 1) - size * (size + 1) / 2 - sum(ranks))
                / (size * (n - size))
            )
            below += size
    metric = tm.RowAUC(weighted=True)
    metric.update(FULL.scores.round(), FULL.target, row_weights=FULL.target.sum(1))
    assert float(metric.compute()) == pytest.approx(above / below, rel=0, abs=1e-9)


@pytest.mark.parametrize(("name", "metric", "peer"), RATIOS)
def test_values_of_labels_equal_scikit_learn(
    name: str, metric: type[TopKMetric], peer: Any
) -> None:
    """average="none" equals average=None of scikit-learn, at k and above thresholds,
    one for all or one per label.
    """
    thresholds = torch.linspace(-1, 1, NUM_LABELS, dtype=torch.float64)
    for metric_of_labels, predicted in (
        (metric(3, average="none", num_labels=NUM_LABELS), top(BINARY, 3)),
        *(
            (
                REGISTRY[name.replace("AtK", "AtThreshold")](
                    cut, average="none", num_labels=NUM_LABELS
                ),
                BINARY.scores > cut,
            )
            for cut in (0.25, thresholds)
        ),
    ):
        expected = peer(
            BINARY.target.numpy(), predicted.numpy(), average=None, zero_division=0
        )
        assert_value(metric_of_labels, BINARY, expected.tolist())


def test_deviation_ndcg_score_averages_over_ties() -> None:
    """ndcg_score lets two labels of one score share the discounts of ranks 1 and 2; in
    the library the lower id has rank 1.
    """
    tied = np.array([[0.5, 0.5]])
    assert ndcg_score([[0, 1]], tied) == pytest.approx((1 + 1 / math.log2(3)) / 2)
    assert ndcg_score([[1, 0]], tied) == ndcg_score([[0, 1]], tied)
    values = []
    for relevant in (0, 1):
        metric = tm.NDCGAtK(2)
        metric.update(torch.from_numpy(tied), torch.tensor([relevant]))
        values.append(float(metric.compute()))
    assert values == pytest.approx([1, 1 / math.log2(3)])


def test_deviation_label_ranking_average_precision_gives_ties_the_worst_rank() -> None:
    """label_ranking_average_precision_score gives tied labels the worst rank: 1/2 if
    one of two is relevant.

    The library gives 1 or 1/2 by id.
    """
    assert label_ranking_average_precision_score([[1, 0]], [[0.5, 0.5]]) == 1 / 2
    metric = tm.MAP()
    metric.update(torch.tensor([[0.5, 0.5]]), torch.tensor([0]))
    assert float(metric.compute()) == 1


def test_batches_have_empty_rows_short_lists_and_distinct_scores() -> None:
    """The batches of these tests have empty rows, short lists and no equal scores, so
    that parity covers them.
    """
    for batch in (BINARY, FULL, FULL_GRADED):
        assert any(not row.relevant for row in batch.rows)
        for row in batch.rows:
            assert len({(row.scores or [])[label] for label in row.ranked}) == len(
                row.ranked
            )
    assert [_lengths(batch) for batch in (FULL, FULL_GRADED)] == [{NUM_LABELS}] * 2
    assert {0, NUM_LABELS} <= _lengths(BINARY)
    assert min(_lengths(BINARY) - {0}) < max(KS)


def _lengths(batch: Data) -> set[int]:
    return {len(row.ranked) for row in batch.rows}


def test_averages_by_bucket_are_those_of_the_columns_of_the_bucket() -> None:
    """Averages by bucket equal scikit-learn on the columns of the bucket, at k in both
    scopes and above thresholds.

    Precision, recall, F1 and F-beta are tested with ties, row weights, row groups and
    empty rows, to 1e-12; the states are merged from two metrics.
    """
    rng = np.random.default_rng(0)
    num_rows, num_labels, k, threshold = 57, 23, int(rng.integers(1, 8)), 0.4
    scores = rng.random((num_rows, num_labels)).round(int(rng.integers(1, 4)))
    target = rng.random((num_rows, num_labels)) < rng.random(num_labels) ** 3
    groups, weights = rng.integers(0, 2, num_rows), rng.integers(0, 5, num_rows) / 4
    assignment = rng.integers(0, 3, num_labels)
    assignment[0] = 3  # a bucket of one label: in scope "bucket" each row predicts it
    buckets = tm.LabelBuckets.from_assignment(assignment.tolist(), list("abcd"))
    columns = [assignment == bucket for bucket in range(4)]
    within = np.zeros_like(target)
    for column in columns:
        within[:, column] = _top(scores[:, column], k)
    predicted = {
        "bucket": within,
        "global": _top(scores, k),
        "above": scores > threshold,
    }
    common = {"buckets": buckets, "row_groups": ["even", "odd"], "weighted": True}
    for name, _, peer in (*RATIOS, F_BETA):
        for average, labels in AVERAGES:
            parts = columns if average else [np.ones(num_labels, dtype=bool)]
            rule = {"average": average or "none", **labels, **common}
            metrics = {
                scope: REGISTRY[name](k, scope=scope, **rule)
                for scope in ("bucket", "global")
            }
            if name != "FBetaAtK":
                metrics["above"] = REGISTRY[name.replace("AtK", "AtThreshold")](
                    threshold, **rule
                )
            for scope, metric in metrics.items():
                other = metric.clone()
                for half, half_metric in (
                    (slice(0, 20), metric),
                    (slice(20, None), other),
                ):
                    rows = {
                        "row_groups": torch.from_numpy(groups[half]),
                        "row_weights": torch.from_numpy(weights[half]),
                    }
                    half_metric.update(
                        torch.from_numpy(scores[half]),
                        torch.from_numpy(target[half]),
                        **rows,
                    )
                metric.merge_state(other)
                expected = [
                    _on_columns(
                        peer,
                        target[rows],
                        predicted[scope][rows],
                        column,
                        weights[rows],
                        average,
                        labels,
                    )
                    for rows in (groups >= 0, groups == 0, groups == 1)
                    for column in parts
                ]
                assert metric.compute().flatten().numpy() == pytest.approx(
                    np.hstack(expected), rel=0, abs=1e-12
                )


AVERAGES = [
    ("micro", {}),
    (None, {}),
    ("weighted", {}),
    *(("macro", {"labels": labels}) for labels in ("present", "union", "all")),
]


def _top(scores: np.ndarray, k: int) -> np.ndarray:
    """Return the top k of each row as a bool matrix, the lower column first for equal
    scores.
    """
    ranks = np.argsort(np.argsort(-scores, axis=1, kind="stable"), axis=1)
    return ranks < k


def _on_columns(
    peer: Any,
    target: np.ndarray,
    predicted: np.ndarray,
    column: np.ndarray,
    weights: np.ndarray,
    average: Any,
    labels: Any,
) -> Any:
    is_counted = weights[:, None] > 0
    occurs = {
        "present": target & is_counted,
        "union": (target | predicted) & is_counted,
    }.get(labels.get("labels", "all"))
    names = np.flatnonzero(column if occurs is None else column & occurs.any(0))
    rule = {"average": average, "sample_weight": weights, "zero_division": 0}
    return peer(target, predicted, labels=names, **rule) if len(names) else 0.0
