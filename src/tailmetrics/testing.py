"""The laws that every metric obeys, to check metrics of your own, and version numbers.

A test of yours is one line: ``check_metric(MyMetric, k=[1, 5])``.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from platform import python_version
from typing import Any, Final

import numpy as np
import torch
import torchmetrics
from torch import Tensor

import tailmetrics
from tailmetrics._signatures import arguments as taken
from tailmetrics.collection import TopKCollection
from tailmetrics.frequency import LabelFrequency
from tailmetrics.metrics import RecallAtK
from tailmetrics.metrics._metric import TopKMetric
from tailmetrics.metrics._readings import Ranks
from tailmetrics.ranking import native

__all__ = ["check_metric", "show_versions"]

NUM_LABELS, NUM_ROWS, NUM_TRAIN = 30, 47, 200
"""Of the made data: more labels than deciles, and rows that no batch of 13 divides."""
ALL_ROWS: Final = slice(None)


def show_versions() -> None:
    """Print the versions that a bug report needs.

    Also print whether C or torch reads batches on the CPU. Both give the same bits.
    ``TAILMETRICS_NATIVE=0`` in the environment chooses torch.
    """
    print("python", python_version())
    for module in (tailmetrics, torch, torchmetrics, np):
        print(module.__name__, module.__version__)
    print("batches on the CPU are read in", native.description())


def check_metric(metric: type[TopKMetric], **arguments: Any) -> None:
    """Check on generated data that a metric obeys the laws of the library.

    The laws are checked overall and by bucket.

    Args:
        metric: The class of the metric.
        arguments: Arguments of the class. ``bind`` adds what else the metric needs,
            such as training counts.

    Raises:
        AssertionError: If a law does not hold; the message names metric and law.

    >>> from tailmetrics import RecallAtK
    >>> check_metric(RecallAtK, k=[1, 5])
    """
    if not isinstance(metric, type) or not issubclass(metric, TopKMetric):
        raise TypeError(
            f"check_metric: {metric!r} is no class of metrics; pass a class such "
            "as RecallAtK."
        )
    counts = (60 / torch.arange(1, NUM_LABELS + 1)).long()
    counts[-4:] = 0
    frequency = LabelFrequency.from_counts(counts, NUM_TRAIN)

    _check_laws(_Case(metric, arguments, frequency))
    for by_bucket in _arguments_by_bucket(metric, arguments):
        _check_laws(_Case(metric, {**arguments, **by_bucket}, frequency))


def _arguments_by_bucket(
    metric: type[TopKMetric], arguments: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the arguments by which a class has values by bucket.

    There are none if the class takes no buckets, or has some already.
    """
    if "buckets" in arguments:
        return []
    choices: list[dict[str, Any]] = [{"buckets": "deciles"}]
    if "scope" in taken(metric) and "scope" not in arguments:
        choices = [
            {"buckets": "deciles", "scope": scope} for scope in ("bucket", "global")
        ]
    accepted = []
    for choice in choices:
        with suppress(ValueError):  # raised when a metric is made
            metric(**arguments, **choice)
            accepted.append(choice)
    return accepted


class _Case:
    """Metrics of one class with the same arguments, and a batch to add to them.

    Args:
        metric: The class.
        arguments: Its arguments.
        frequency: What the metrics are bound to.
    """

    def __init__(
        self,
        metric: type[TopKMetric],
        arguments: Mapping[str, Any],
        frequency: LabelFrequency,
    ) -> None:
        self._class = metric
        self._arguments = arguments
        self._frequency = frequency
        self.scores, self.target = _batch()

    def metric(self, *places: Any) -> TopKMetric:
        """Return a new metric that has seen a batch of the rows at each place."""
        metric = self._class(**self._arguments)
        vars(metric)["_warns_of_ties"] = False  # the scores tie on purpose
        metric.bind(self._frequency)
        self.add(metric, *places)
        return metric

    def add(self, metric: TopKMetric, *places: Any) -> None:
        """Add a batch of the rows at each of some places to a metric."""
        for rows in places:
            metric.update(self.scores[rows], self.target[rows])

    @cached_property
    def whole(self) -> TopKMetric:
        """A metric that has seen all rows in one batch."""
        return self.metric(ALL_ROWS)

    @cached_property
    def value(self) -> list[int]:
        """The bits of the value over all rows."""
        return _bits(self.whole)


def _check_laws(case: _Case) -> None:
    """Raise unless all laws hold of the metrics of a case."""
    metric = case.metric()
    for law, holds in LAWS.items():
        try:
            is_kept = holds(case)
        except Exception as error:
            law = (
                "Read valid batches, and return values that can be added up without "
                "loss, within its bounds."
            )
            raise AssertionError(
                f"{metric!r} must: {law} It raised {type(error).__name__}: {error}"
            ) from error
        assert is_kept, f"{metric!r} must: {law}"


def _batch(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return scores with ties, and targets of which some rows have none."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(NUM_ROWS, NUM_LABELS, generator=generator).mul(3).round()
    target = torch.rand(NUM_ROWS, NUM_LABELS, generator=generator) < 0.15
    target[::9] = False
    return scores, target


def _bits(metric: TopKMetric) -> list[int]:
    """Return the bits of values, so that NaN equals NaN and nothing else does."""
    return (
        metric.compute()
        .to(torch.float64)
        .nan_to_num(nan=-7.0)
        .reshape(-1)
        .view(torch.int64)
        .tolist()
    )


def _ignores_batches_and_order(case: _Case) -> bool:
    parts = [slice(first, first + 13) for first in range(0, NUM_ROWS, 13)]
    last_row_first = torch.arange(NUM_ROWS - 1, -1, -1)
    return (
        case.value == _bits(case.metric(*parts)) == _bits(case.metric(last_row_first))
    )


def _merges(case: _Case) -> bool:
    merged = case.metric(slice(20))
    merged.merge_state(case.metric(slice(20, None)))
    return _bits(merged) == case.value


def _keeps_integers(case: _Case) -> bool:
    shapes = [
        (state.shape, state.dtype) for state in case.metric().metric_state.values()
    ]
    states = case.metric(ALL_ROWS).to(torch.bfloat16).metric_state.values()
    is_whole = not any(state.is_floating_point() for state in states)
    return is_whole and shapes == [(state.shape, state.dtype) for state in states]


def _can_be_pickled(case: _Case) -> bool:
    try:
        pickle.dumps(case.metric())
    except (pickle.PicklingError, AttributeError, TypeError):
        # which one depends on the object and on Python
        return False
    return True


def _copies(case: _Case) -> bool:
    metric = case.whole
    for other in (
        copy.deepcopy(metric),
        metric.clone(),
        pickle.loads(pickle.dumps(metric)),
    ):
        if _bits(other) != case.value or list(other.metric_state) != list(
            metric.metric_state
        ):
            return False
    return True


def _has_bounds_and_keys(case: _Case) -> bool:
    metric = case.whole
    low, high = metric.bounds
    for value in metric.compute().view(-1).tolist():
        if value < low - 1e-9 or value > high + 1e-9:
            return False
    return len({*metric.keys()}) == len(metric.keys())


def _has_direction(case: _Case) -> bool:
    metric = case.metric()
    judges_order = isinstance(metric.reading, Ranks) and metric.aggregation.is_quality
    # at that rank, a perfect order may have run out of relevant labels
    reads_one_rank = metric.formula.reads_one_rank
    if metric.higher_is_better is None or not judges_order or reads_one_rank:
        return True

    perfect = case.target * 20.0 + torch.linspace(0, 1, NUM_LABELS)
    values = []
    for scores in (perfect, -perfect):
        metric.update(scores, case.target)
        values.append(metric.compute().reshape(-1))
        metric.reset()
    best, worst = values
    gain = best - worst
    if not metric.higher_is_better:
        gain = -gain
    measured = gain[~gain.isnan()]
    return not bool((measured < -1e-9).any())


def _refuses_bad_batches(case: _Case) -> bool:
    metric = case.metric(ALL_ROWS)
    scores, target = case.scores.clone(), case.target.clone()
    try:
        metric.update(scores[:3], target[:2])
    except (TypeError, ValueError):
        is_untouched = torch.equal(scores, case.scores) and torch.equal(
            target, case.target
        )
        return is_untouched and _bits(metric) == case.value and metric.update_count == 1
    return False


def _resets(case: _Case) -> bool:
    metric = case.metric()
    metric.update(*_batch(1))
    metric.reset()
    case.add(metric, ALL_ROWS)
    return _bits(metric) == case.value


def _is_the_same_in_collections(case: _Case) -> bool:
    metric = case.metric()
    if not metric.keys():
        return True
    TopKCollection([metric, RecallAtK(k=NUM_LABELS, name="companion")]).update(
        case.scores, case.target
    )
    return _bits(metric) == case.value


LAWS: Final[dict[str, Callable[[_Case], bool]]] = {
    (
        "Have the same value, to the last bit, for one batch, for several, and for "
        "rows in another order."
    ): (_ignores_batches_and_order),
    (
        "Have the value of all rows when two metrics that saw half of them each "
        "are merged."
    ): _merges,
    (
        "Keep every state an integer tensor whose shape no batch changes, whatever "
        "the precision of a model."
    ): (_keeps_integers),
    (
        "Be pickled: the class stands at the top of a module, not in a function, and "
        "all attributes can be pickled."
    ): (_can_be_pickled),
    "Have copies, clones and pickles with the same value and the same names of states.": _copies,
    (
        "Have values within the bounds that the class declares, or NaN, each with a "
        "key of its own."
    ): _has_bounds_and_keys,
    (
        "Have a value for a perfect order that is at least as good as for the "
        "reverse, by its higher_is_better."
    ): (_has_direction),
    (
        "Refuse a batch that cannot be read, and then change neither the metric "
        "nor the batch."
    ): _refuses_bad_batches,
    "Be like a new metric after a reset.": _resets,
    "Have the same value in a collection beside a metric that reads deeper.": _is_the_same_in_collections,
}
"""What every metric must do, and whether the metrics of a case do; checked in order."""
