"""Wrappers of TorchMetrics around metrics that read tensors and return one."""

from typing import Any

import pytest
import torch
from torchmetrics import MetricCollection
from torchmetrics.wrappers import ClasswiseWrapper, MetricTracker, MinMaxMetric, Running

from cases import BUCKETS, NUM_LABELS, Case, data
from exactness.bits import ONE_OF_EACH, bits_of
from tailmetrics import MRR, FallOutAtK, RecallAtK, TopKCollection

EPOCHS = [
    data(seed=71 + epoch, num_rows=9, graded=True, ties=False) for epoch in range(3)
]
every_metric = pytest.mark.parametrize("case", ONE_OF_EACH, ids=str)


def value_of(metric: Any, *batches: Any) -> Any:
    """Return the value after the batches."""
    metric = metric.clone()
    for batch in batches:
        metric.update(batch.scores, batch.target)
    return metric.compute()


@every_metric
def test_tracker_keeps_the_value_of_each_epoch(case: Case) -> None:
    """MetricTracker keeps one value per increment, in order, and finds the best in the
    direction of the metric.
    """
    metric = case.metric()
    tracker = MetricTracker(
        metric, maximize=True if metric.higher_is_better is None else None
    )
    for batch in EPOCHS:
        tracker.increment()
        tracker.update(batch.scores, batch.target)
    expected = torch.stack([value_of(metric, batch) for batch in EPOCHS])
    assert bits_of(tracker.compute_all()) == bits_of(expected)
    if expected.ndim == 1 and metric.higher_is_better is not None:
        best = expected.max() if metric.higher_is_better else expected.min()
        assert tracker.best_metric() == best.item()


def test_tracker_of_a_collection_follows_every_key() -> None:
    """MetricTracker of a collection returns a flat dict of all epochs, and the best
    value of each key in the direction of its metric, also behind a member with a value
    for each label, which has no key.
    """
    by_label = RecallAtK(k=3, average="none", num_labels=NUM_LABELS)
    fall_out = FallOutAtK(k=3, num_labels=NUM_LABELS)
    metrics = RecallAtK(k=[1, 3]), fall_out, MRR()
    tracker = MetricTracker(TopKCollection([by_label, *metrics], prefix="val/"))
    for batch in EPOCHS:
        tracker.increment()
        tracker.update(batch.scores, batch.target)
    values, best = tracker.compute_all(), tracker.best_metric()
    for metric in metrics:
        epochs = [metric.scalars(value_of(metric, batch)) for batch in EPOCHS]
        for key in metric.keys():  # noqa: SIM118 - a metric is no dict
            expected = torch.stack([epoch[key] for epoch in epochs])
            assert bits_of(values[f"val/{key}"]) == bits_of(expected)
            best_of_epochs = min if metric is fall_out else max
            assert best[f"val/{key}"] == best_of_epochs(expected.tolist())


@pytest.mark.parametrize(
    "case", [case for case in ONE_OF_EACH if case.by is not None], ids=str
)
def test_classwise_wrapper_names_buckets(case: Case) -> None:
    """ClasswiseWrapper turns a vector over buckets into a dict by their names."""
    arguments = {key: value for key, value in case.arguments.items() if key != "k"}
    one_k = Case(
        case.name,
        {**arguments, "k": 3} if "k" in case.arguments else arguments,
        case.by,
    )
    wrapper = ClasswiseWrapper(one_k.metric(), labels=list(BUCKETS.names), prefix="at_")
    for batch in EPOCHS[:2]:
        wrapper.update(batch.scores, batch.target)
    expected = value_of(one_k.metric(), *EPOCHS[:2])
    values = wrapper.compute()
    assert list(values) == [f"at_{name}" for name in BUCKETS.names]
    assert bits_of(torch.stack(list(values.values()))) == bits_of(expected)
    inside = MetricCollection(
        {"wrapped": ClasswiseWrapper(one_k.metric(), labels=list(BUCKETS.names))}
    )
    inside.update(EPOCHS[0].scores, EPOCHS[0].target)
    assert len(inside.compute()) == len(BUCKETS)


def test_minimum_maximum_and_running_value() -> None:
    """MinMaxMetric and Running, which call compute, forward and reset in their own
    order, have the values of plain metrics.
    """
    extremes, running = MinMaxMetric(RecallAtK(k=3)), Running(RecallAtK(k=3), window=2)
    values_so_far = []
    for number, batch in enumerate(EPOCHS):
        extremes.update(batch.scores, batch.target)
        running.update(batch.scores, batch.target)
        values_so_far.append(value_of(RecallAtK(k=3), *EPOCHS[: number + 1]))
        values = extremes.compute()
        assert (values["raw"], values["min"], values["max"]) == (
            values_so_far[-1],
            min(values_so_far),
            max(values_so_far),
        )
    assert running.compute() == value_of(RecallAtK(k=3), *EPOCHS[-2:])


@pytest.mark.parametrize("compute_groups", [True, False])
def test_a_collection_inside_another_adds_no_batch_twice(compute_groups):
    """A TopKCollection inside a MetricCollection adds a batch once: members of one key
    work, and members of several keys, which TorchMetrics would update once for each,
    are refused.
    """
    scores, target = torch.eye(8)[:6], torch.arange(6)
    collection = MetricCollection(
        {"n": TopKCollection([RecallAtK(k=1)])}, compute_groups=compute_groups
    )
    collection.update(scores, target)
    assert {key: float(value) for key, value in collection.compute().items()} == {
        "n_recall@1": 1.0
    }
    two = MetricCollection(
        {"n": TopKCollection([RecallAtK(k=[1, 3])])}, compute_groups=compute_groups
    )
    for add in (two.update, two):
        with pytest.raises(
            TypeError,
            match="would add each batch several times to a member with several keys: put the TopKCollection beside it",
        ):
            add(scores, target)
