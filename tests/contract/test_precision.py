"""Neither the precision of a model nor that of its scores touches a state or a result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from cases import Case, data
from exactness.bits import ONE_OF_EACH, bits, bits_of, states
from tailmetrics import LabelFrequency, RecallAtK, TopKCollection
from tailmetrics.metrics import TopKMetric

BATCHES = [data(seed=seed, num_rows=8, graded=True) for seed in (81, 82)]
MOVES: dict[str, Callable[[Any], Any]] = {
    "half": lambda metric: metric.half(),
    "float": lambda metric: metric.float(),
    "double": lambda metric: metric.double(),
    "bfloat16": lambda metric: metric.bfloat16(),
    "to bfloat16": lambda metric: metric.to(torch.bfloat16),
    "to float16": lambda metric: metric.to(torch.float16),
    "to cpu": lambda metric: metric.to("cpu"),
    "to cpu, bfloat16": lambda metric: metric.to(device="cpu", dtype=torch.bfloat16),
    "type": lambda metric: metric.type(torch.float16),
    "set_dtype float16": lambda metric: metric.set_dtype(torch.float16),
    "set_dtype bfloat16": lambda metric: metric.set_dtype(torch.bfloat16),
    "set_dtype float64": lambda metric: metric.set_dtype("torch.DoubleTensor"),
}


def fed(metric: TopKMetric, *batches: Any) -> TopKMetric:
    """The metric after the batches."""
    for batch in batches:
        metric.update(batch.scores, batch.target)
    return metric


def assert_unmoved(metric: TopKMetric) -> None:
    """Make every move, of the metric and of a model that holds it: no state changes, nor what compute gives of it."""
    before = states(metric)
    value = bits(metric) if metric.update_called else None
    model = nn.Sequential(nn.Linear(1, 1))
    model.metric = metric
    for name, move in MOVES.items():
        for moved in [metric] if name.startswith("set_dtype") else [metric, model]:
            move(moved)
            assert states(metric) == before, name
            assert value is None or bits(metric) == value, name


@pytest.mark.parametrize("case", ONE_OF_EACH, ids=str)
def test_no_move_touches_a_state_or_a_result(case: Case) -> None:
    """Alone or inside a model, before, between and after updates and a reset, with a computed value in the cache."""
    metric, new, first = case.metric(), case.metric(), fed(case.metric(), BATCHES[0])
    wanted = bits(fed(case.metric(), *BATCHES))
    assert_unmoved(metric)
    metric.update(BATCHES[0].scores, BATCHES[0].target)
    metric.compute()
    assert_unmoved(metric)
    assert states(metric) == states(first)
    metric(BATCHES[1].scores, BATCHES[1].target)
    assert bits(metric) == wanted
    assert_unmoved(metric)
    assert states(metric) != states(first)
    metric.reset()
    assert states(metric) == states(new)
    assert bits(fed(metric, *BATCHES)) == wanted


@pytest.fixture(scope="module")
def wanted() -> dict[str, Any]:
    """The bits of each metric, by its case."""
    return {str(case): bits(fed(case.metric(), *BATCHES)) for case in ONE_OF_EACH}


@pytest.mark.parametrize("default", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_the_default_type_of_torch_does_not_show(default: torch.dtype, wanted: dict[str, Any]) -> None:
    """Metrics reset, cloned, made and fed under another default type give the same bits."""
    before = torch.get_default_dtype()
    metrics = {str(case): case.metric() for case in ONE_OF_EACH}
    plain = bits(fed(RecallAtK(k=[1, 3]), *BATCHES))
    torch.set_default_dtype(default)
    try:
        for metric in metrics.values():
            metric.reset()
        found = {name: bits(fed(metric.clone(), *BATCHES)) for name, metric in metrics.items()}
        assert bits(fed(RecallAtK(k=[1, 3]), *BATCHES)) == plain
    finally:
        torch.set_default_dtype(before)
    assert [case for case in wanted if wanted[case] != found[case]] == []


def test_autocast_and_deterministic_algorithms_do_not_show(wanted: dict[str, Any]) -> None:
    """Inside autocast, which rounds matrix products, and where torch refuses what is not deterministic."""
    torch.use_deterministic_algorithms(True)
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = {str(case): bits(fed(case.metric(), *BATCHES)) for case in ONE_OF_EACH}
    finally:
        torch.use_deterministic_algorithms(False)
    assert [case for case in wanted if wanted[case] != found[case]] == []


def test_training_counts_and_collections_survive_the_precision_of_a_model() -> None:
    """LabelFrequency and TopKCollection inside a model that is cast to bfloat16."""
    model = nn.Module()
    model.frequency, model.metrics = LabelFrequency(40), TopKCollection([RecallAtK(k=[1, 3])])
    model.to(torch.bfloat16).half()
    model.frequency.update(BATCHES[0].target)
    model.metrics.update(BATCHES[0].scores, BATCHES[0].target)
    model.to(torch.bfloat16)
    assert model.frequency.set_dtype(torch.float16).compute().tolist() == (BATCHES[0].target > 0).sum(dim=0).tolist()
    wanted = fed(RecallAtK(k=[1, 3]), BATCHES[0]).scalars()
    found = model.metrics.set_dtype(torch.bfloat16).compute()
    assert {key: bits_of(value) for key, value in found.items()} == {
        key: bits_of(value) for key, value in wanted.items()
    }


def test_float32_scores_are_not_widened_or_narrowed_before_they_are_compared() -> None:
    """Scores that differ in the last bit of float64 are no tie; those that differ below float32 do not exist there."""
    scores = torch.tensor([[1.0, 1.0 + 2**-50]], dtype=torch.float64)
    metric = RecallAtK(k=1)
    metric.update(scores, torch.tensor([1]))
    assert metric.compute() == 1
    metric.update(scores.float(), torch.tensor([1]))
    assert metric.compute() == 0.5
