"""Each argument of each metric shows wherever two metrics must be told apart: states, repr, settings, processes."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import Parameter
from typing import Any

import pytest
import torch
from torchmetrics import MetricCollection

from cases import BUCKETS, NUM_LABELS, NUM_TRAIN, training_counts
from tailmetrics import LabelBuckets, PopularityAtK
from tailmetrics._arguments import PRESENTATION, arguments
from tailmetrics._fingerprint import difference, identity
from tailmetrics.metrics import REGISTRY, TopKMetric
from tailmetrics.metrics._labels import LabelAveragedMetric

COUNTS = training_counts()
VALUES: dict[str, tuple[Any, Any]] = {
    "k": (2, 3),
    "bins": (8, 16),
    "buckets": (BUCKETS, LabelBuckets.deciles(COUNTS.flip(0))),
    "num_labels": (NUM_LABELS, NUM_LABELS + 1),
    "row_groups": (["a", "b"], ["b", "a"]),
    "weighted": (False, True),
    "duplicates": ("error", "first"),
    "ignore_index": (None, -100),
    "min_gain": (None, 2.0),
    "scope": ("bucket", "global"),
    "average": ("macro", "weighted"),
    "depth": (20, 30),
    "empty_target_action": ("skip", "error"),
    "max_gain": (3.0, 4.0),
    "labels": ("present", "union"),
    "macro": (None, "of_averages"),
    "beta": (2.0, 3.0),
    "min_recall": (0.5, 0.8),
    "statistic": ("median", "mean"),
    "miss_value": (5, 6),
    "gain": ("linear", "exponential"),
    "label_counts": (COUNTS, COUNTS + 1),
    "num_train": (NUM_TRAIN, NUM_TRAIN + 1),
    "normalization": ("normalized", "sum"),
    "a": (0.5, 0.6),
    "b": (1.4, 1.5),
    "preset": ("wikipedia", "amazon"),
    "weights": (torch.ones(NUM_LABELS), torch.full((NUM_LABELS,), 2.0)),
    "persistence": (0.8, 0.9),
    "threshold": (0.4, 0.5),
}
"""Two values of each argument."""

OTHERS: dict[str, tuple[Any, Any]] = {
    "MAP": ("relevant", "attainable"),
    "PositiveCoverageAtK": ("observed", "known"),
}
"""Two values of ``denominator``, where it is not that of precision."""

WITH: dict[str, dict[str, Any]] = {
    "scope": {"buckets": BUCKETS},
    "depth": {"buckets": BUCKETS},
    "labels": {"average": "macro", "num_labels": NUM_LABELS},
    "macro": {"average": "macro", "num_labels": NUM_LABELS},
    "average": {"num_labels": NUM_LABELS},
    "preset": {"label_counts": COUNTS, "num_train": NUM_TRAIN},
}
"""What else has to be given for an argument to mean anything."""


def made(name: str, argument: str, value: Any) -> TopKMetric:
    """A metric with all that it needs, and one argument of this value."""
    metric = REGISTRY[name]
    known = arguments(metric)
    facts = {"label_counts": COUNTS, "num_train": NUM_TRAIN, "num_labels": NUM_LABELS}
    if argument == "weights":
        facts = {"num_labels": NUM_LABELS}
    if argument == "buckets" or "buckets" in WITH.get(argument, {}):
        facts.pop("num_labels", None)
    needed = {one.name: VALUES[one.name][0] for one in known.values() if one.default is Parameter.empty}
    given = {key: one for key, one in facts.items() if key in known and (key in metric_needs(name) or key == argument)}
    more = {key: one for key, one in WITH.get(argument, {}).items() if key in known}
    if name in ("LabelAUC", "LabelAP"):
        given |= {"num_labels": NUM_LABELS}
        given.pop("num_labels" if argument == "buckets" else "", None)
    if argument == "num_labels" and value != NUM_LABELS and "label_counts" in given:
        given["label_counts"] = torch.cat([COUNTS, COUNTS[:1]])
    return metric(**{**needed, **given, **more, argument: value})


def metric_needs(name: str) -> tuple[str, ...]:
    """The facts of training that a class needs."""
    return {"NoveltyAtK": ("label_counts", "num_train"), "PopularityAtK": ("label_counts",),
            "PopularityLiftAtK": ("label_counts",)}.get(
        name, ("label_counts", "num_train") if name.startswith("Propensity") else
        ("num_labels",) if "num_labels" in REGISTRY[name].needs else ()
    )  # fmt: skip


def pairs() -> Iterator[Any]:
    """Every class with every argument that it takes and that a number depends on."""
    for name, metric in REGISTRY.items():
        for argument in arguments(metric):
            if argument in PRESENTATION or (argument, metric.can_be_weighted) == ("weighted", False):
                continue
            if argument == "buckets" and name in ("TieRateAtK", "PersonalizationAtK"):
                continue  # refused
            if (
                argument == "average"
                and name not in ("LabelAUC", "LabelAP")
                and not issubclass(metric, LabelAveragedMetric)
            ):
                continue  # only "samples" means something
            yield pytest.param(name, argument, id=f"{name}-{argument}")


@pytest.mark.parametrize(("name", "argument"), list(pairs()))
def test_two_values_of_an_argument_are_two_metrics(name: str, argument: str) -> None:
    """Two texts, two names of states, and processes that hold one each are told which argument differs.

    States that metrics share are counts of labels, which do not depend on what is made of them: they have one name.
    """
    values = OTHERS.get(name, ("predicted", "k")) if argument == "denominator" else VALUES[argument]
    one, other = (made(name, argument, value) for value in values)
    assert one.is_bound
    assert other.is_bound
    said = difference([one.fingerprint()], [other.fingerprint()], "here", "there")
    assert said is not None
    assert ("a is 0.5 here and 0.6 there" if argument == "preset" else argument) in said
    if argument in IN_TEXT:
        assert repr(one) != repr(other)
        assert identity(one.settings()) != identity(other.settings())
    if argument != "num_labels":  # which shows in the shapes
        assert not unshared(one) & unshared(other)
    if argument in ("duplicates", "ignore_index"):
        assert not {*one.metric_state} & {*other.metric_state}


IN_TEXT = VALUES.keys() - {"num_labels", "label_counts", "buckets", "weights"} | {"denominator"}
"""Arguments whose value a text shows whole."""


def unshared(metric: TopKMetric) -> set[str]:
    """The names of the states that a metric has for itself."""
    return {metric._names[name] for name, state in metric._declared.items() if not state.shared}


def test_shared_states_are_told_apart_where_other_rows_count() -> None:
    """A plain MetricCollection merges what has equal states after a first batch: 11 / 4 and 19 / 6, by hand."""
    counts, ids = [5, 3, 2, 1], torch.tensor([[0, 1], [2, 3]])
    all_rows = PopularityAtK(k=2, label_counts=counts)
    without = PopularityAtK(k=2, label_counts=counts, ignore_index=3)
    collection = MetricCollection({"all": all_rows, "without": without})
    for target in ([1, 2], [1, 3]):
        collection.update(ids, torch.tensor(target))
    found = {key: float(value) for key, value in collection.compute().items()}
    assert found == {"all": 11 / 4, "without": pytest.approx(19 / 6, abs=1e-12)}


def test_the_two_values_of_an_argument_are_all_accepted() -> None:
    """No class has an argument that the table does not know."""
    known = {argument for metric in REGISTRY.values() for argument in arguments(metric)}
    assert known - {*PRESENTATION, "denominator"} == VALUES.keys()
