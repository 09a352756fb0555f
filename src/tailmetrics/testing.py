"""The laws that every metric of the library is held to, for metrics of your own; and what a report of a bug names.

A test of yours is one line: ``check_metric(MyMetric, k=[1, 5])``.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from platform import python_version
from typing import Any

import numpy as np
import torch
import torchmetrics
from torch import Tensor

import tailmetrics
from tailmetrics.collection import TopKCollection
from tailmetrics.frequency import LabelFrequency
from tailmetrics.metrics import RecallAtK
from tailmetrics.metrics._metric import TopKMetric
from tailmetrics.metrics._rows import RelevanceMetric
from tailmetrics.ranking import native

__all__ = ["check_metric", "show_versions"]

NUM_LABELS, NUM_ROWS, NUM_TRAIN = 30, 47, 200
"""Of the made data: more labels than deciles, and rows that no batch of 13 divides."""


def show_versions() -> None:
    """Print the versions of what computes a metric, and whether batches on the CPU are read in C or in torch.

    Values have the same bits in both forms. ``TAILMETRICS_NATIVE=0`` in the environment chooses torch.
    """
    print("python", python_version())
    for module in (tailmetrics, torch, torchmetrics, np):
        print(module.__name__, module.__version__)
    print("batches on the CPU are read in", native.description())


def check_metric(metric: type[TopKMetric], **arguments: Any) -> None:
    """Hold a metric to the laws of the library, on made data, overall and by bucket.

    Args:
        metric: The class.
        arguments: What the class is made with. Facts of training that it needs beyond them are bound.

    Raises:
        AssertionError: If a law does not hold; the message names the metric and the law.

    >>> from tailmetrics import RecallAtK
    >>> check_metric(RecallAtK, k=[1, 5])
    """
    if not isinstance(metric, type) or not issubclass(metric, TopKMetric):
        raise TypeError(f"check_metric: {metric!r} is no class of metrics; pass a class such as RecallAtK.")
    for more in _settings(metric, arguments):
        for law in LAWS:
            made = _maker(metric, {**arguments, **more})
            assert law(made), f"{made()!r} must: {law.__doc__}"


def _settings(metric: type[TopKMetric], arguments: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what is added to the arguments: nothing, and where the class takes them, buckets in each scope."""
    yield {}
    if "buckets" in arguments:
        return
    scopes: list[dict[str, Any]] = [{"scope": "bucket"}, {"scope": "global"}]
    for scope in scopes if issubclass(metric, RelevanceMetric) and "scope" not in arguments else [{}]:
        try:
            _maker(metric, {**arguments, **scope, "buckets": "deciles"})()
        except ValueError:
            continue  # a class that refuses buckets says so when it is made
        yield {**scope, "buckets": "deciles"}


def _maker(metric: type[TopKMetric], arguments: dict[str, Any]) -> Callable[[], TopKMetric]:
    """Return a function that makes the metric, bound to training counts."""
    counts = (60 / torch.arange(1, NUM_LABELS + 1)).long()
    counts[-4:] = 0

    def make() -> TopKMetric:
        made = metric(**arguments).bind(LabelFrequency.from_counts(counts, NUM_TRAIN))
        vars(made)["_tells_ties"] = False  # the scores tie on purpose
        return made

    return make


def _batch(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return scores with ties, and targets of which some rows have none."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(NUM_ROWS, NUM_LABELS, generator=generator).mul(3).round()
    target = torch.rand(NUM_ROWS, NUM_LABELS, generator=generator) < 0.15
    target[::9] = False
    return scores, target


def _bits(value: Tensor) -> list[int]:
    """Return the bits of values, so that NaN equals NaN and nothing else does."""
    return value.to(torch.float64).nan_to_num(nan=-7.0).reshape(-1).view(torch.int64).tolist()


def _fed(metric: TopKMetric, *batches: tuple[Tensor, Tensor]) -> TopKMetric:
    for scores, target in batches:
        metric.update(scores, target)
    return metric


def _value(metric: TopKMetric, *batches: tuple[Tensor, Tensor]) -> list[int]:
    return _bits(_fed(metric, *batches).compute())


def _batches_change_nothing(make: Callable[[], TopKMetric]) -> bool:
    """Have the same value, to the last bit, for one batch, for several, and for rows in another order."""
    scores, target = _batch()
    parts = [(scores[first : first + 13], target[first : first + 13]) for first in range(0, NUM_ROWS, 13)]
    order = torch.arange(NUM_ROWS - 1, -1, -1)
    whole = _value(make(), (scores, target))
    return whole == _value(make(), *parts) == _value(make(), (scores[order], target[order]))


def _merging_is_adding(make: Callable[[], TopKMetric]) -> bool:
    """Have the value of all rows when two metrics that saw half of them each are merged."""
    scores, target = _batch()
    first, second = _fed(make(), (scores[:20], target[:20])), _fed(make(), (scores[20:], target[20:]))
    first.merge_state(second)
    return _bits(first.compute()) == _value(make(), (scores, target))


def _states_are_whole_numbers(make: Callable[[], TopKMetric]) -> bool:
    """Keep every state an integer tensor whose shape no batch changes, whatever the precision of a model."""
    metric = make()
    shapes = [state.shape for state in metric.metric_state.values() if isinstance(state, Tensor)]
    _fed(metric, _batch()).to(torch.bfloat16)
    states = [state for state in metric.metric_state.values() if isinstance(state, Tensor)]
    return shapes == [state.shape for state in states] and not any(state.is_floating_point() for state in states)


def _copies_are_equal(make: Callable[[], TopKMetric]) -> bool:
    """Have copies, clones and pickles with the same value and the same names of states."""
    metric = _fed(make(), _batch())
    others = copy.deepcopy(metric), metric.clone(), pickle.loads(pickle.dumps(metric))
    same = (_bits(one.compute()) == _bits(metric.compute()) for one in others)
    return all(same) and all(list(one.metric_state) == list(metric.metric_state) for one in others)


def _reset_forgets(make: Callable[[], TopKMetric]) -> bool:
    """Be like a new metric after a reset."""
    metric = _fed(make(), _batch(1))
    metric.reset()
    return _value(metric, _batch()) == _value(make(), _batch())


def _errors_change_nothing(make: Callable[[], TopKMetric]) -> bool:
    """Refuse a batch that cannot be read, and then change neither the metric nor the batch."""
    scores, target = _batch()
    before = scores.clone(), target.clone()
    metric = _fed(make(), (scores, target))
    value, count = _bits(metric.compute()), metric.update_count
    try:
        metric.update(scores[:3], target[:2])
    except (TypeError, ValueError):
        untouched = torch.equal(scores, before[0]) and torch.equal(target, before[1])
        return untouched and _bits(metric.compute()) == value and metric.update_count == count
    return False


def _values_are_in_range(make: Callable[[], TopKMetric]) -> bool:
    """Have values within the bounds that the class declares, or NaN, each with a key of its own."""
    metric = _fed(make(), _batch())
    low, high = type(metric).bounds
    keys = metric.keys()
    inside = all(not value < low - 1e-9 and not value > high + 1e-9 for value in metric.compute().view(-1).tolist())
    return inside and len(set(keys)) == len(keys)


def _companions_change_nothing(make: Callable[[], TopKMetric]) -> bool:
    """Have the same value in a collection beside a metric that reads deeper."""
    alone, among = make(), make()
    if not alone.keys():
        return True
    collection = TopKCollection([among, RecallAtK(k=NUM_LABELS, name="companion")])
    collection.update(*_batch())
    return _bits(among.compute()) == _value(alone, _batch())


LAWS = (
    _batches_change_nothing,
    _merging_is_adding,
    _states_are_whole_numbers,
    _copies_are_equal,
    _reset_forgets,
    _errors_change_nothing,
    _values_are_in_range,
    _companions_change_nothing,
)
"""Each takes a function that makes the metric, and says in its docstring what holds."""
