"""Every metric equals a plain-loop reading of its definition."""

import math

import pytest
import torch

from cases import CASES, Case, data
from oracle import evaluate


@pytest.mark.parametrize("graded", [False, True], ids=["binary", "graded"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_metric_equals_the_plain_loop(case: Case, graded: bool) -> None:
    """On random rows with empty targets, short lists, ties and unseen labels, to 1e-12."""
    batch = data(seed=1, graded=graded)
    if case.name == "TieRateAtK":
        pytest.skip("has a test of its own")
    if case.name == "CrossEntropy":
        batch = data(seed=1, graded=graded, ties=False)
    metric = case.metric()
    metric.update(batch.scores, batch.target)
    computed = metric.compute()
    expected = [evaluate(case.name, batch.rows, case.setting(k)) for k in case.cutoffs()]
    wanted = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(computed.reshape(wanted.shape), wanted, rtol=1e-12, atol=1e-12, equal_nan=True)
    assert not math.isnan(wanted.nansum())
