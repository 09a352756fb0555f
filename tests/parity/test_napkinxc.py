"""Metrics equal napkinXC to 1e-9; each deviation has a test."""

from typing import Any

import numpy as np
import pytest
import torch
from napkinxc import metrics as napkinxc
from scipy.sparse import csr_matrix

import tailmetrics as tm
from cases import NUM_LABELS, NUM_TRAIN, training_counts
from parity.compare import BINARY, assert_value, top
from tailmetrics.functional import inverse_propensities
from tailmetrics.metrics import TopKMetric

EVERY_K = list(range(1, 11))
TRUE = [list(row.relevant) for row in BINARY.rows]
RANKED = [row.ranked for row in BINARY.rows]
WEIGHTS = inverse_propensities(training_counts(), NUM_TRAIN).numpy()
TRAINING = {"label_counts": training_counts(), "num_train": NUM_TRAIN}


@pytest.mark.parametrize(
    ("peer", "metric", "arguments"),
    [
        (napkinxc.precision_at_k, tm.PrecisionAtK, {"denominator": "k"}),
        (napkinxc.recall_at_k, tm.RecallAtK, {}),
        (napkinxc.dcg_at_k, tm.DCGAtK, {}),
        (napkinxc.ndcg_at_k, tm.NDCGAtK, {}),
        (napkinxc.abandonment_at_k, tm.HitRateAtK, {}),
    ],
)
def test_metrics_at_k_equal_napkinxc(
    peer: Any, metric: type[TopKMetric], arguments: dict[str, Any]
) -> None:
    """Precision with denominator="k", recall, DCG, nDCG and hit rate (called
    abandonment there) equal napkinXC.
    """
    assert_value(metric(k=EVERY_K, **arguments), BINARY, peer(TRUE, RANKED, k=10))


def test_positive_coverage_equals_napkinxc() -> None:
    """Positive coverage equals coverage_at_k, which is over the labels in the targets:
    in six rows these are not all labels.
    """
    true, ranked = TRUE[:6], RANKED[:6]
    metric = tm.PositiveCoverageAtK(EVERY_K, num_labels=NUM_LABELS)
    metric.update(BINARY.scores[:6], BINARY.target[:6])
    peer = napkinxc.coverage_at_k(true, ranked, k=10)
    np.testing.assert_allclose(metric.compute(), peer, rtol=0, atol=1e-9)
    observed = len({label for row in true for label in row})
    over_all_labels = tm.PositiveCoverageAtK(
        EVERY_K, num_labels=NUM_LABELS, denominator="known"
    )
    over_all_labels.update(BINARY.scores[:6], BINARY.target[:6])
    np.testing.assert_allclose(
        over_all_labels.compute(), peer * observed / NUM_LABELS, rtol=0, atol=1e-9
    )
    assert observed < NUM_LABELS


@pytest.mark.parametrize(
    ("peer", "metric", "arguments"),
    [
        (napkinxc.psprecision_at_k, tm.PropensityScoredPrecisionAtK, {}),
        (napkinxc.psndcg_at_k, tm.PropensityScoredNDCGAtK, {}),
        (napkinxc.psdcg_at_k, tm.PropensityScoredNDCGAtK, {"normalization": "sum"}),
    ],
)
def test_propensity_scored_metrics_equal_napkinxc(
    peer: Any, metric: type[TopKMetric], arguments: dict[str, Any]
) -> None:
    """Propensity scored precision and nDCG equal napkinXC: psndcg is the default
    normalization, and psdcg over its best is normalization="sum".
    """
    assert_value(
        metric(EVERY_K, **TRAINING, **arguments),
        BINARY,
        peer(TRUE, RANKED, WEIGHTS, k=10),
    )


@pytest.mark.parametrize(
    ("preset", "a", "b"),
    [("default", 0.55, 1.5), ("wikipedia", 0.5, 0.4), ("amazon", 0.6, 2.6)],
)
def test_inverse_propensities_equal_napkinxc(preset: Any, a: float, b: float) -> None:
    """Inverse propensities of training rows, counted by LabelFrequency, equal napkinXC,
    and so does the metric with a preset.
    """
    generator = torch.Generator().manual_seed(31)
    training = (
        torch.rand(NUM_TRAIN, NUM_LABELS, generator=generator)
        < torch.linspace(0, 0.5, NUM_LABELS) ** 3
    )
    frequency = tm.LabelFrequency(NUM_LABELS)
    frequency.update(training[:150])
    frequency.update(training[150:])
    peer = napkinxc.Jain_et_al_inverse_propensity(
        csr_matrix(training.numpy().astype(int)), A=a, B=b
    )
    weights = inverse_propensities(frequency.compute(), frequency.num_rows, a, b)
    np.testing.assert_allclose(weights, peer, rtol=0, atol=1e-9)
    metric = tm.PropensityScoredPrecisionAtK(EVERY_K, preset=preset).bind(frequency)
    assert_value(metric, BINARY, napkinxc.psprecision_at_k(TRUE, RANKED, peer, k=10))


@pytest.mark.parametrize(
    ("peer", "metric"),
    [
        (napkinxc.micro_f1_measure, {"average": "micro"}),
        (napkinxc.samples_f1_measure, {}),
    ],
)
@pytest.mark.parametrize("k", [1, 3, 10])
def test_f1_at_k_equals_napkinxc(peer: Any, metric: dict[str, Any], k: int) -> None:
    """Micro F1 and F1 of rows at k equal napkinXC with lists cut at k."""
    cut = [ranked[:k] for ranked in RANKED]
    assert_value(tm.F1AtK(k, **metric), BINARY, [peer(TRUE, cut)])


@pytest.mark.parametrize(
    ("peer", "metric"),
    [
        (napkinxc.macro_precision_at_k, tm.PrecisionAtK),
        (napkinxc.macro_recall_at_k, tm.RecallAtK),
        (napkinxc.macro_f1_measure_at_k, tm.F1AtK),
    ],
)
def test_macro_averages_equal_napkinxc(peer: Any, metric: type[TopKMetric]) -> None:
    """Macro averages over all labels equal napkinXC, whose mean is over the labels up
    to the highest id, here the last one.
    """
    assert bool((BINARY.target.any(0) | top(BINARY, 5).any(0))[-1])
    assert_value(
        metric([1, 2, 3, 4, 5], average="macro", labels="all", num_labels=NUM_LABELS),
        BINARY,
        peer(TRUE, RANKED),
    )


def test_deviation_macro_measures_ignore_k() -> None:
    """napkinXC ignores k in macro measures: for k = 2 it returns five cut-offs."""
    assert len(napkinxc.macro_recall_at_k(TRUE, RANKED, k=2)) == 5


def test_deviation_propensity_scored_recall_divides_each_row_first() -> None:
    """napkinXC divides the sums of each row by its n and cuts the best at k; the
    library divides sums over all rows by the whole weight.
    """
    w0, w1, w2 = weights = inverse_propensities([0, 1, 2], 100).numpy()
    true, ranked = [[0, 1], [2]], [[1], [2]]
    peer = napkinxc.psrecall_at_k(true, ranked, weights, k=1)
    assert peer == pytest.approx([(w1 / 2 + w2 / 1) / (w0 / 2 + w2 / 1)])
    metric = tm.PropensityScoredRecallAtK(1, label_counts=[0, 1, 2], num_train=100)
    metric.update(torch.tensor(ranked), torch.tensor([[0, 1], [2, -1]]))
    assert float(metric.compute()) == pytest.approx((w1 + w2) / (w0 + w1 + w2))


def test_propensity_scored_recall_agrees_on_rows_with_one_relevant_label() -> None:
    """Propensity scored recall equals napkinXC for rows with one relevant label or
    none.
    """
    first = [true[:1] for true in TRUE]
    metric = tm.PropensityScoredRecallAtK(EVERY_K, **TRAINING)
    metric.update(
        BINARY.scores, torch.tensor([label for true in first for label in true or [-1]])
    )
    peer = napkinxc.psrecall_at_k(first, RANKED, WEIGHTS, k=10)
    np.testing.assert_allclose(metric.compute(), peer, rtol=0, atol=1e-9)


def test_deviation_a_repeated_id_counts_twice() -> None:
    """napkinXC gives a list with its only relevant id twice a recall of 2; the library
    refuses the list.
    """
    assert napkinxc.recall_at_k([[1]], [[1, 1]], k=2).tolist() == [1, 2]
    with pytest.raises(ValueError, match="label 1 twice in row 0"):
        tm.RecallAtK(2).update(torch.tensor([[1, 1]]), torch.tensor([1]))
