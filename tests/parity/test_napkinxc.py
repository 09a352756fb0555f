"""napkinXC gives the same numbers to 1e-9; where it differs, a test says how."""

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
def test_measures_at_k(peer: Any, metric: type[TopKMetric], arguments: dict[str, Any]) -> None:
    """Precision divides by k; what is called abandonment is the hit rate."""
    assert_value(metric(k=EVERY_K, **arguments), BINARY, peer(TRUE, RANKED, k=10))


def test_coverage_of_the_observed_labels() -> None:
    """coverage_at_k is positive coverage of the labels in the targets, which in six rows are not all labels."""
    true, ranked = TRUE[:6], RANKED[:6]
    metric = tm.PositiveCoverageAtK(EVERY_K, num_labels=NUM_LABELS)
    metric.update(BINARY.scores[:6], BINARY.target[:6])
    peer = napkinxc.coverage_at_k(true, ranked, k=10)
    np.testing.assert_allclose(metric.compute(), peer, rtol=0, atol=1e-9)
    observed = len({label for row in true for label in row})
    over_all_labels = tm.PositiveCoverageAtK(EVERY_K, num_labels=NUM_LABELS, denominator="known")
    over_all_labels.update(BINARY.scores[:6], BINARY.target[:6])
    np.testing.assert_allclose(over_all_labels.compute(), peer * observed / NUM_LABELS, rtol=0, atol=1e-9)
    assert observed < NUM_LABELS


@pytest.mark.parametrize(
    ("peer", "metric", "arguments"),
    [
        (napkinxc.psprecision_at_k, tm.PropensityScoredPrecisionAtK, {}),
        (napkinxc.psndcg_at_k, tm.PropensityScoredNDCGAtK, {}),
        (napkinxc.psdcg_at_k, tm.PropensityScoredNDCGAtK, {"normalization": "sum"}),
    ],
)
def test_propensity_scored_measures(peer: Any, metric: type[TopKMetric], arguments: dict[str, Any]) -> None:
    """Ratios of means; psndcg is the default normalization, psdcg over its best the one that is called sum."""
    assert_value(metric(EVERY_K, **TRAINING, **arguments), BINARY, peer(TRUE, RANKED, WEIGHTS, k=10))


@pytest.mark.parametrize(("preset", "a", "b"), [("default", 0.55, 1.5), ("wikipedia", 0.5, 0.4), ("amazon", 0.6, 2.6)])
def test_inverse_propensity(preset: Any, a: float, b: float) -> None:
    """The weights from training rows, as counted by LabelFrequency, and the metric that a preset makes of them."""
    generator = torch.Generator().manual_seed(31)
    training = torch.rand(NUM_TRAIN, NUM_LABELS, generator=generator) < torch.linspace(0, 0.5, NUM_LABELS) ** 3
    frequency = tm.LabelFrequency(NUM_LABELS)
    frequency.update(training[:150])
    frequency.update(training[150:])
    peer = napkinxc.Jain_et_al_inverse_propensity(csr_matrix(training.numpy().astype(int)), A=a, B=b)
    ours = inverse_propensities(frequency.compute(), frequency.num_rows, a, b)
    np.testing.assert_allclose(ours, peer, rtol=0, atol=1e-9)
    metric = tm.PropensityScoredPrecisionAtK(EVERY_K, preset=preset).bind(frequency)
    assert_value(metric, BINARY, napkinxc.psprecision_at_k(TRUE, RANKED, peer, k=10))


@pytest.mark.parametrize(
    ("peer", "metric"), [(napkinxc.micro_f1_measure, {"average": "micro"}), (napkinxc.samples_f1_measure, {})]
)
@pytest.mark.parametrize("k", [1, 3, 10])
def test_f1_of_the_top_k(peer: Any, metric: dict[str, Any], k: int) -> None:
    """Micro and samples F1 of lists cut at k."""
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
def test_macro_averages_at_five(peer: Any, metric: type[TopKMetric]) -> None:
    """The macro mean is over all labels up to the highest id that occurs, which here is the last one."""
    assert bool((BINARY.target.any(0) | top(BINARY, 5).any(0))[-1])
    assert_value(
        metric([1, 2, 3, 4, 5], average="macro", labels="all", num_labels=NUM_LABELS), BINARY, peer(TRUE, RANKED)
    )


def test_deviation_macro_measures_ignore_k() -> None:
    """Asked for two cut-offs, napkinXC returns five."""
    assert len(napkinxc.macro_recall_at_k(TRUE, RANKED, k=2)) == 5


def test_deviation_propensity_scored_recall_is_a_mean_of_rows_first() -> None:
    """Each row's sums are divided by its n, and the best is cut at k; here all of a row's weight is below."""
    w0, w1, w2 = weights = inverse_propensities([0, 1, 2], 100).numpy()
    true, ranked = [[0, 1], [2]], [[1], [2]]
    peer = napkinxc.psrecall_at_k(true, ranked, weights, k=1)
    assert peer == pytest.approx([(w1 / 2 + w2 / 1) / (w0 / 2 + w2 / 1)])
    ours = tm.PropensityScoredRecallAtK(1, label_counts=[0, 1, 2], num_train=100)
    ours.update(torch.tensor(ranked), torch.tensor([[0, 1], [2, -1]]))
    assert float(ours.compute()) == pytest.approx((w1 + w2) / (w0 + w1 + w2))


def test_propensity_scored_recall_agrees_on_rows_with_one_relevant_label() -> None:
    """There the two readings are the same, empty rows included."""
    first = [true[:1] for true in TRUE]
    metric = tm.PropensityScoredRecallAtK(EVERY_K, **TRAINING)
    metric.update(BINARY.scores, torch.tensor([label for true in first for label in true or [-1]]))
    peer = napkinxc.psrecall_at_k(first, RANKED, WEIGHTS, k=10)
    np.testing.assert_allclose(metric.compute(), peer, rtol=0, atol=1e-9)


def test_deviation_a_repeated_id_counts_twice() -> None:
    """NapkinXC gives a list that shows its only relevant id twice a recall of 2; here that list is refused."""
    assert napkinxc.recall_at_k([[1]], [[1, 1]], k=2).tolist() == [1, 2]
    with pytest.raises(ValueError, match="label 1 twice in row 0"):
        tm.RecallAtK(2).update(torch.tensor([[1, 1]]), torch.tensor([1]))
