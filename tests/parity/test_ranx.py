"""Metrics equal ranx, row by row, to 1e-9; each deviation has a test."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from cases import Data
from parity.compare import BINARY, GRADED, KS, assert_rows
from tailmetrics import (
    MAP,
    MRR,
    F1AtK,
    HitRateAtK,
    NDCGAtK,
    PrecisionAtK,
    RBPAtK,
    RecallAtK,
)
from tailmetrics.metrics import TopKMetric

BATCHES = {"binary": BINARY, "graded": GRADED}


@pytest.fixture(scope="module")
def peers() -> Any:
    """Return the functions of ranx without compilation, which would take longer than
    all of these lists.
    """
    import numba

    numba.config.DISABLE_JIT = True
    import ranx.metrics

    return ranx.metrics


def typed(rows: Sequence[Sequence[tuple[float, float]]]) -> Any:
    """Return arrays of id and score in one type for any length, so that each metric is
    compiled once.
    """
    from numba.typed import List

    return List([np.array(row, dtype=np.float64).reshape(-1, 2) for row in rows])


def judgements(batch: Data) -> Any:
    """Return ids with gains, the largest first, which ranx assumes for the ideal."""
    return typed(
        [sorted(row.relevant.items(), key=lambda item: -item[1]) for row in batch.rows]
    )


def runs(batch: Data) -> Any:
    """Return ids with falling scores."""
    return typed(
        [
            [(label, -rank) for rank, label in enumerate(row.ranked)]
            for row in batch.rows
        ]
    )


@cache
def lists(name: str) -> tuple[Any, Any]:
    """Return the judgements of a batch, and its lists."""
    return judgements(BATCHES[name]), runs(BATCHES[name])


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("k", KS)
@pytest.mark.parametrize(
    ("measure", "metric", "arguments"),
    [
        ("precision", PrecisionAtK, {"denominator": "k"}),
        ("recall", RecallAtK, {}),
        ("f1", F1AtK, {"denominator": "k"}),
        ("hit_rate", HitRateAtK, {}),
        ("average_precision", MAP, {}),
        ("reciprocal_rank", MRR, {}),
        ("ndcg", NDCGAtK, {}),
        ("ndcg_burges", NDCGAtK, {"gain": "exponential"}),
    ],
)
def test_metrics_at_k_equal_ranx(
    measure: str,
    metric: type[TopKMetric],
    arguments: dict[str, Any],
    k: int,
    name: str,
    peers: Any,
) -> None:
    """Metrics at k equal ranx, with denominator="k" for precision and F1; ndcg has
    linear gains and ndcg_burges exponential ones.
    """
    assert_rows(
        metric(k, **arguments), BATCHES[name], getattr(peers, measure)(*lists(name), k)
    )


@pytest.mark.parametrize("k", KS)
def test_rank_biased_precision_equals_ranx(k: int, peers: Any) -> None:
    """Rank-biased precision at k equals ranx with lists cut at k."""
    judged, listed = lists("binary")
    cut = typed(
        [
            [(label, -rank) for rank, label in enumerate(row.ranked[:k])]
            for row in BINARY.rows
        ]
    )
    assert len(listed) == len(cut)
    assert_rows(RBPAtK(k), BINARY, peers.rank_biased_precision(judged, cut, 0.8))


def test_deviation_a_repeated_id_counts_twice(peers: Any) -> None:
    """ranx gives a list with its only relevant id twice a recall of 2; the library
    refuses the list.
    """
    assert peers.recall(typed([[(1, 1)]]), typed([[(1, 9), (1, 8)]]), 2).tolist() == [2]
    with pytest.raises(ValueError, match="label 1 twice in row 0"):
        RecallAtK(2).update(torch.tensor([[1, 1]]), torch.tensor([1]))


def test_deviation_ideal_depends_on_the_order_of_judgements(peers: Any) -> None:
    """Judgements that are not sorted by gain have an nDCG of 3 in ranx; in the library
    the ideal does not depend on their order.
    """
    assert peers.ndcg(
        typed([[(1, 1), (2, 3)]]), typed([[(2, 9), (1, 8)]]), 1
    ).tolist() == [3]
    metric = NDCGAtK(1)
    metric.update(torch.tensor([[2, 1]]), torch.tensor([[0.0, 1.0, 3.0]]))
    assert float(metric.compute()) == 1
