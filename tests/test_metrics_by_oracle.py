"""Every metric equals the plain loops of its definition."""

import math
from contextlib import nullcontext

import pytest
import torch

from cases import ALL_CASES, Case, data
from oracle import evaluate, tie_rate
from tailmetrics import TieRateAtK
from tailmetrics.ranking._device import force_plain

BATCHES = {
    (graded, ties): data(1, 40, graded, ties)
    for graded in (False, True)
    for ties in (False, True)
}
RUNS = [(case, False) for case in ALL_CASES]
OF_GAINS = ("CGAtK", "DCGAtK", "NDCGAtK", "ERRAtK", "PropensityScoredNDCGAtK")
RUNS += [
    (case, True)
    for number, case in enumerate(
        case for case in ALL_CASES if "empty_target_action" not in case.arguments
    )
    if case.name in OF_GAINS or "min_gain" in case.arguments or number % 3 == 0
]
"""Graded targets for the metrics that use gains, and for a third of the others, which
use them only to read rows.
"""


@pytest.mark.parametrize(
    ("case", "graded"),
    [
        pytest.param(case, graded, id=f"{case}-{'graded' if graded else 'binary'}")
        for case, graded in RUNS
        if case.name != "TieRateAtK"
    ],
)
def test_metric_equals_the_plain_loop(case: Case, graded: bool) -> None:
    """A metric equals the plain loop to 1e-12 on random rows; areas lie within their
    bounds.

    The rows have empty targets, short lists, ties and unseen labels. Both the form of
    the CPU and that of devices are tested.
    """
    batch = BATCHES[graded, case.name not in ("CrossEntropy", "CalibrationErrorAtK")]
    expected = [
        evaluate(case.name, batch.rows, case.setting(k)) for k in case.cutoffs()
    ]
    assert not math.isnan(torch.tensor(expected).nansum())
    metric = case.metric()
    for form in (nullcontext, force_plain):
        metric.reset()
        expected_values = torch.tensor(expected, dtype=torch.float64)
        with form():
            metric.update(batch.scores, batch.target)
            computed = metric.compute().reshape(expected_values.shape)
        if case.name in ("LabelAUC", "LabelAP"):
            low, high = (
                bound.reshape(expected_values.shape) for bound in metric.error_bounds()
            )
            assert bool(
                ((low <= computed) & (computed <= high) | expected_values.isnan()).all()
            )
            computed = torch.where(
                computed.isnan(), computed, expected_values.clamp(low, high)
            )
        torch.testing.assert_close(
            computed, expected_values, rtol=1e-12, atol=1e-12, equal_nan=True
        )


@pytest.mark.parametrize("seed", range(3))
def test_tie_rate_equals_the_plain_loop(seed: int) -> None:
    """TieRateAtK, which reads scores, equals the plain loop on scores that are rounded
    until they tie, some of them not retrieved.
    """
    scores = (
        torch.randn(40, 12, generator=torch.Generator().manual_seed(seed)) * 2
    ).round()
    scores[scores == -2] = -torch.inf
    cutoffs = [1, 2, 5, 11, 12, 20]
    metric = TieRateAtK(k=cutoffs)
    metric.update(scores, torch.zeros(40, dtype=torch.int64))
    assert metric.compute().tolist() == [tie_rate(scores.tolist(), k) for k in cutoffs]
