"""check_metric holds what is lawful, and names the law that a metric breaks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from cases import Case, registered
from tailmetrics import RowMeanMetric
from tailmetrics.metrics import COUNT, REGISTRY, divide
from tailmetrics.ranking import TargetRanks
from tailmetrics.testing import check_metric


@pytest.mark.slow
@pytest.mark.parametrize("name", REGISTRY)
def test_every_metric_of_the_library_is_lawful(name: str) -> None:
    """With arguments that do for it."""
    arguments = {"min_recall": 0.5} if name == "KForRecall" else {"k": [1, 4]} if name.endswith("AtK") else {}
    assert isinstance(registered(name), REGISTRY[name])
    check_metric(REGISTRY[name], **arguments)


class Forgetful(RowMeanMetric):
    """A metric with an argument of its own, by someone who wrote the formula and forgot everything else."""

    higher_is_better = True
    stem = "forgetful"

    def __init__(self, k: int, *, power: float = 1.0, **kwargs: Any) -> None:
        self.power = power
        super().__init__(k, **kwargs)

    def _row_value(self, ranks: TargetRanks, k: int) -> Tensor:
        return divide(ranks.hits_at(k), ranks.n_relevant) ** self.power


def test_a_metric_of_ones_own_is_lawful_and_its_argument_is_everywhere() -> None:
    """State, key, repr and settings tell one power from another."""
    check_metric(Forgetful, k=3, power=2.0)
    one, two = Forgetful(3), Forgetful(3, power=2.0)
    assert set(one.metric_state).isdisjoint(two.metric_state)
    assert (one.keys(), two.keys()) == (["forgetful@3"], ["forgetful_power2@3"])
    assert (repr(one), repr(two)) == ("Forgetful(k=3)", "Forgetful(k=3, power=2.0)")
    assert (one.settings()["power"], two.settings()["power"]) == (1.0, 2.0)


class Remembers(RowMeanMetric):
    """Depends on the batches it saw."""

    higher_is_better = True
    stem = "remembers"
    fixed_point = COUNT

    def _row_value(self, ranks: TargetRanks, k: int) -> Tensor:
        return (ranks.n_relevant > 0) & (ranks.hits_at(k) > 0) & torch.tensor(len(ranks.n_relevant) > 20)


def test_the_law_that_is_broken_is_named() -> None:
    """A value that depends on the size of the batch."""
    with pytest.raises(AssertionError, match="Remembers.*must: Have the same value, to the last bit, for one batch"):
        check_metric(Remembers, k=2)


def test_what_is_no_class_of_metrics_is_refused() -> None:
    """An instance, or something else."""
    with pytest.raises(TypeError, match="check_metric: .* is no class of metrics"):
        check_metric(Case("MRR").metric())  # type: ignore[arg-type]
