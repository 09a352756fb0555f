"""The precision of a model or of its scores changes no state and no result."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from cases import Case, data, fed_with
from exactness.bits import ONE_OF_EACH, bits, states
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


def assert_unchanged_by_moves(metric: TopKMetric, turn: int) -> None:
    """Assert that a third of the moves, of the metric and of a model that holds it,
    leave states and values alone.
    """
    before = states(metric)
    value = bits(metric) if metric.update_called else None
    model = nn.Sequential(nn.Linear(1, 1))
    model.metric = metric
    for name, move in [*MOVES.items()][turn::3]:
        for moved in [metric] if name.startswith("set_dtype") else [metric, model]:
            move(moved)
            assert states(metric) == before, name
            assert value is None or bits(metric) == value, name


@pytest.mark.parametrize("case", ONE_OF_EACH, ids=str)
def test_no_move_touches_a_state_or_a_result(case: Case) -> None:
    """Moves to another precision change no state and no result: of a metric alone or in
    a model, before, between and after updates, after a reset, and with a cached value.
    Each move is tested at one of three moments by turns.
    """
    turn = ONE_OF_EACH.index(case)
    metric, new, first = (
        case.metric(),
        case.metric(),
        fed_with(case.metric(), [BATCHES[0]]),
    )
    expected = bits(fed_with(case.metric(), BATCHES))
    assert_unchanged_by_moves(metric, (turn + 0) % 3)
    metric.update(BATCHES[0].scores, BATCHES[0].target)
    metric.compute()
    assert_unchanged_by_moves(metric, (turn + 1) % 3)
    assert states(metric) == states(first)
    metric(BATCHES[1].scores, BATCHES[1].target)
    assert bits(metric) == expected
    assert_unchanged_by_moves(metric, (turn + 2) % 3)
    assert states(metric) != states(first)
    metric.reset()
    assert states(metric) == states(new)
    assert bits(fed_with(metric, BATCHES)) == expected


@contextmanager
def default_type(dtype: torch.dtype) -> Iterator[None]:
    """Set the default type of torch."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def autocast_and_deterministic() -> Iterator[None]:
    """Use autocast, which rounds matrix products, and refuse operations that are not
    deterministic.
    """
    torch.use_deterministic_algorithms(True)
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            yield
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize(
    "settings",
    [
        partial(default_type, torch.bfloat16),
        partial(default_type, torch.float64),
        autocast_and_deterministic,
    ],
)
@pytest.mark.slow
def test_settings_of_torch_do_not_change_bits(settings: Any) -> None:
    """Default types, autocast and deterministic algorithms do not change the bits of
    metrics that are reset, cloned and updated under them.
    """
    for case in ONE_OF_EACH[::2]:
        metric, expected = case.metric(), bits(fed_with(case.metric(), BATCHES))
        with settings():
            metric.reset()
            assert (
                bits(fed_with(metric.clone(), BATCHES))
                == bits(fed_with(metric, BATCHES))
                == expected
            ), case
