"""Helper tensors are on the device of their input for any default device of torch;
``to_empty`` keeps the counts.
"""

from typing import Any

import pytest
import torch
from torch import Tensor

import tailmetrics as tm
from cases import data, registered, training_counts
from tailmetrics._signatures import arguments
from tailmetrics.metrics import REGISTRY

BATCH = data(seed=1, num_rows=20)
NAMES = sorted(REGISTRY)


def open_metric(name: str) -> Any:
    """Return a metric that is bound later, by bucket if it can be."""
    buckets = {"buckets": "deciles"} if "buckets" in arguments(REGISTRY[name]) else {}
    return registered(name, **buckets)


def bound(metric: Any) -> Any:
    """Return the metric with training counts."""
    if not metric.is_bound:
        metric.bind(tm.LabelFrequency.from_counts(training_counts(), 200))
    return metric


def value_of(metric: Any) -> Tensor:
    """Return the value after one batch."""
    metric.update(BATCH.scores, BATCH.target)
    return metric.compute()  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", NAMES)
def test_a_default_device_changes_no_value(name: str) -> None:
    """A metric made, bound, updated and computed under the default device ``meta`` has
    the values of the CPU.
    """
    expected = value_of(bound(open_metric(name)))
    with torch.device("meta"):
        frequency = tm.LabelFrequency.from_counts(training_counts(), 200)
        metric = open_metric(name)
        if not metric.is_bound:
            metric.bind(frequency)
    metric.to_empty(device="cpu")
    with torch.device("meta"):
        value = value_of(metric)
    torch.testing.assert_close(value, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", NAMES)
def test_metric_made_on_meta_is_bound_after_to_empty(name: str) -> None:
    """A metric made on ``meta``, as a model may be, can be bound after to_empty and has
    the values of any other.
    """
    with torch.device("meta"):
        metric = open_metric(name)
    metric.to_empty(device="cpu")
    torch.testing.assert_close(
        value_of(bound(metric)),
        value_of(bound(open_metric(name))),
        rtol=0,
        atol=0,
        equal_nan=True,
    )


@pytest.mark.parametrize("name", NAMES)
def test_to_empty_keeps_the_states(name: str) -> None:
    """to_empty keeps the states of a metric, which torch would leave uninitialised;
    after a reset they are 0.
    """
    metric = bound(open_metric(name))
    expected = value_of(metric)
    metric.to_empty(device="cpu")
    torch.testing.assert_close(
        metric.compute(), expected, rtol=0, atol=0, equal_nan=True
    )
    metric.reset()
    torch.testing.assert_close(
        value_of(metric), expected, rtol=0, atol=0, equal_nan=True
    )


def test_to_empty_keeps_the_states_of_collections_and_label_counts() -> None:
    """Collections with references and label counts keep their states through to_empty,
    and have the right values if they are made on ``meta``.
    """

    def make_collection() -> tm.TopKCollection:
        return tm.TopKCollection(
            [tm.RecallAtK(k=[1, 3], buckets="deciles"), tm.NDCGAtK(k=3)],
            references=["chance", "attainable"],
        )

    def fed(collection: tm.TopKCollection) -> str:
        collection.update(BATCH.scores, BATCH.target)
        return f"{collection.compute()} {collection.references()}"

    expected = fed(
        make_collection().bind(tm.LabelFrequency.from_counts(training_counts(), 200))
    )
    updated = make_collection().bind(
        tm.LabelFrequency.from_counts(training_counts(), 200)
    )
    with torch.device("meta"):
        assert fed(updated) == expected
    with torch.device("meta"):
        frequency = tm.LabelFrequency.from_counts(training_counts(), 200)
        collection = make_collection().bind(frequency)
    collection.to_empty(device="cpu")
    assert fed(collection) == expected
    collection.to_empty(device="cpu")
    assert f"{collection.compute()} {collection.references()}" == expected
    frequency.to_empty(device="cpu")
    assert frequency.compute().tolist() == training_counts().tolist()
