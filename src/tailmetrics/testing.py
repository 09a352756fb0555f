"""The laws that every metric of the library is held to, for metrics of your own; and what a report of a bug names.

A test of yours is one line: ``check_metric(MyMetric, k=[1, 5])``.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator, Mapping
from platform import python_version
from typing import Any

import numpy as np
import torch
import torchmetrics
from torch import Tensor

import tailmetrics
from tailmetrics._arguments import arguments as taken
from tailmetrics.collection import TopKCollection
from tailmetrics.frequency import LabelFrequency
from tailmetrics.metrics import RecallAtK
from tailmetrics.metrics._metric import TopKMetric
from tailmetrics.metrics._readings import Ranks
from tailmetrics.ranking import native

__all__ = ["check_metric", "show_versions"]

NUM_LABELS, NUM_ROWS, NUM_TRAIN = 30, 47, 200
"""Of the made data: more labels than deciles, and rows that no batch of 13 divides."""


def show_versions() -> None:
    """Print the versions that a bug report needs, and whether C or torch reads batches on the CPU.

    Both give the same bits. ``TAILMETRICS_NATIVE=0`` in the environment chooses torch.
    """
    print("python", python_version())
    for module in (tailmetrics, torch, torchmetrics, np):
        print(module.__name__, module.__version__)
    print("batches on the CPU are read in", native.description())


def check_metric(metric: type[TopKMetric], **arguments: Any) -> None:
    """Check on generated data that a metric obeys the laws of the library, overall and by bucket.

    Args:
        metric: The class of the metric.
        arguments: Arguments of the class. ``bind`` adds what else the metric needs, such as training counts.

    Raises:
        AssertionError: If a law does not hold; the message names the metric and the law.

    >>> from tailmetrics import RecallAtK
    >>> check_metric(RecallAtK, k=[1, 5])
    """
    if not isinstance(metric, type) or not issubclass(metric, TopKMetric):
        raise TypeError(f"check_metric: {metric!r} is no class of metrics; pass a class such as RecallAtK.")
    counts = (60 / torch.arange(1, NUM_LABELS + 1)).long()
    counts[-4:] = 0
    scopes = ("bucket", "global") if "scope" in taken(metric) and "scope" not in arguments else ()
    by_bucket = [{"buckets": "deciles", "scope": scope} for scope in scopes] or [{"buckets": "deciles"}]
    settings: list[dict[str, Any]] = [{}, *(by_bucket if "buckets" not in arguments else [])]
    for more in settings:

        def make(more: Mapping[str, Any] = more) -> TopKMetric:
            made = metric(**{**arguments, **more})
            vars(made)["_warns_of_ties"] = False  # the scores tie on purpose
            return made.bind(LabelFrequency.from_counts(counts, NUM_TRAIN))

        try:
            checked = make()
        except ValueError:
            if more:
                continue  # a class that refuses buckets says so when it is made
            raise
        _check_laws(checked, make)


def _check_laws(checked: TopKMetric, make: Callable[[], TopKMetric]) -> None:
    """Raise unless the laws hold of the metrics that ``make`` returns; ``checked`` is one of them, for the message."""
    try:
        for holds, law in _laws(make):
            assert holds, f"{checked!r} must: {law}"
    except (TypeError, ValueError) as error:
        law = "Read valid batches, and return values that can be added up without loss, within its bounds."
        raise AssertionError(f"{checked!r} must: {law} It raised {type(error).__name__}: {error}") from error


def _batch(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return scores with ties, and targets of which some rows have none."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(NUM_ROWS, NUM_LABELS, generator=generator).mul(3).round()
    target = torch.rand(NUM_ROWS, NUM_LABELS, generator=generator) < 0.15
    target[::9] = False
    return scores, target


def _bits(metric: TopKMetric) -> list[int]:
    """Return the bits of values, so that NaN equals NaN and nothing else does."""
    return metric.compute().to(torch.float64).nan_to_num(nan=-7.0).reshape(-1).view(torch.int64).tolist()


def _direction(make: Callable[[], TopKMetric], target: Tensor) -> tuple[bool, str]:
    """Return whether a perfect order is at least as good as the reverse order, by ``higher_is_better``; and the law."""
    law = "Have a value for a perfect order that is at least as good as for the reverse, by its higher_is_better."
    metric = make()
    judges_order = isinstance(metric.reading, Ranks) and metric.aggregation.is_quality
    if metric.higher_is_better is None or not judges_order:
        return True, law

    perfect = target * 20.0 + torch.linspace(0, 1, NUM_LABELS)
    values = []
    for scores in (perfect, -perfect):
        metric.update(scores, target)
        values.append(metric.compute().reshape(-1))
        metric.reset()
    best, worst = values
    gain = best - worst if metric.higher_is_better else worst - best
    measured = gain[~gain.isnan()]
    return not bool((measured < -1e-9).any()), law


def _laws(make: Callable[[], TopKMetric]) -> Iterator[tuple[bool, str]]:
    """Yield whether a law holds of a metric, and the law."""
    scores, target = _batch()

    def fed(metric: TopKMetric, *places: Any) -> TopKMetric:
        for rows in places:
            metric.update(scores[rows], target[rows])
        return metric

    every = slice(None)
    metric = fed(make(), every)
    value, count = _bits(metric), metric.update_count
    parts = [slice(first, first + 13) for first in range(0, NUM_ROWS, 13)]
    same = value == _bits(fed(make(), *parts)) == _bits(fed(make(), torch.arange(NUM_ROWS - 1, -1, -1)))
    yield same, "Have the same value, to the last bit, for one batch, for several, and for rows in another order."

    first = fed(make(), slice(20))
    first.merge_state(fed(make(), slice(20, None)))
    law = "Have the value of all rows when two metrics that saw half of them each are merged."
    yield _bits(first) == value, law

    shapes = [(state.shape, state.dtype) for state in make().metric_state.values()]
    states = fed(make(), every).to(torch.bfloat16).metric_state.values()
    whole = not any(state.is_floating_point() for state in states)
    law = "Keep every state an integer tensor whose shape no batch changes, whatever the precision of a model."
    yield whole and shapes == [(state.shape, state.dtype) for state in states], law

    others = copy.deepcopy(metric), metric.clone(), pickle.loads(pickle.dumps(metric))
    same = all(_bits(one) == value and list(one.metric_state) == list(metric.metric_state) for one in others)
    yield same, "Have copies, clones and pickles with the same value and the same names of states."

    low, high = type(metric).bounds
    inside = all(not (found < low - 1e-9 or found > high + 1e-9) for found in metric.compute().view(-1).tolist())
    law = "Have values within the bounds that the class declares, or NaN, each with a key of its own."
    yield inside and len({*metric.keys()}) == len(metric.keys()), law

    holds, law = _direction(make, target)
    yield holds, law

    before, refused = (scores.clone(), target.clone()), False
    try:
        metric.update(scores[:3], target[:2])
    except (TypeError, ValueError):
        untouched = torch.equal(scores, before[0]) and torch.equal(target, before[1])
        refused = untouched and _bits(metric) == value and metric.update_count == count
    yield refused, "Refuse a batch that cannot be read, and then change neither the metric nor the batch."

    used = make()
    used.update(*_batch(1))
    used.reset()
    yield _bits(fed(used, every)) == value, "Be like a new metric after a reset."

    if metric.keys():
        among = make()
        TopKCollection([among, RecallAtK(k=NUM_LABELS, name="companion")]).update(scores, target)
        yield _bits(among) == value, "Have the same value in a collection beside a metric that reads deeper."
