"""Prepares an evaluation before the first batch.

The metrics get their buckets, counts and numbers of labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

from torch import Tensor

from tailmetrics._arguments import check_counts
from tailmetrics.buckets import LabelBuckets
from tailmetrics.collection import TopKCollection
from tailmetrics.evaluation.accumulating import Evaluation, check_update
from tailmetrics.evaluation.added_metrics import by_bucket
from tailmetrics.evaluation.options import CALLER, Options, members_of
from tailmetrics.evaluation.row_groups import names_for_all
from tailmetrics.frequency import LabelFrequency
from tailmetrics.metrics import (
    NDCGAtK,
    PrecisionAtK,
    PredictionProportionAtK,
    RecallAtK,
    TopKMetric,
)
from tailmetrics.metrics._training import Training
from tailmetrics.tree import LabelTree


def prepare(
    options: Options,
    groups: Sequence[str] | None = None,
    num_labels: int | None = None,
    label_order: Tensor | None = None,
) -> Evaluation:
    """Return an empty evaluation with copies of the metrics.

    The copies get the known buckets, counts and number of labels.

    Args:
        options: The metrics, labels, buckets, counts and tree, and what the report
            shows; other options are ignored.
        groups: The names of the row groups, unless a metric has names of its own: then
            all metrics take these.
        num_labels: The number of labels; None if unknown. A tree takes precedence.
        label_order: The order of labels of equal count, see :func:`buckets_of_kind`.
    """
    buckets, label_tree = options.buckets, options.label_tree
    if label_tree is not None:
        num_labels = label_tree.num_labels
    training = _training(buckets, options.label_counts, label_order)
    collection = _collection(options.metrics, training)
    members = list(collection.members().values())
    if training is not None and buckets is not None:
        _check_takes_buckets(members, training)
    for metric in members:
        _complete(metric, training, num_labels, label_tree)
    if training is not None and buckets is not None:
        members += by_bucket(members, training.buckets("deciles"))

    groups = names_for_all(members, groups)
    collection = collection.with_members(
        members,
        row_groups=groups,
        duplicates=options.duplicates,
        ignore_index=options.ignore_index,
    )
    if training is not None:
        collection.bind(replace(training, tree=label_tree))
    evaluation = Evaluation(
        collection,
        labels=options.labels,
        label_names=options.label_names,
        num_labels=num_labels,
        confidence=options.confidence,
        headline=options.headline,
    )
    for metric in evaluation.members:
        # the data are all data, also in one of several processes
        metric.sync_on_compute = False
    return evaluation


def _collection(metrics: Any, training: Training | None) -> TopKCollection:
    """Return an empty collection of copies of the given or the default metrics."""
    if metrics is None:
        metrics = [PrecisionAtK(k=[1, 3, 5]), NDCGAtK(k=10)]
        if training is not None:
            at_10 = [RecallAtK(k=10), NDCGAtK(k=10), PredictionProportionAtK(k=10)]
            metrics += by_bucket([PrecisionAtK(k=1), *at_10], "deciles")
    states: dict[int, Any] = {}  # copies refer to these, until they are reset
    for metric in members_of(metrics):
        states |= {
            id(state): state
            for state in (*metric.metric_state.values(), *metric._defaults.values())
        }
    copies: Any = deepcopy(metrics, states)
    collection: TopKCollection = copies
    if not isinstance(copies, TopKCollection):
        collection = TopKCollection(copies)
    check_update(collection, CALLER)
    collection.reset()
    return collection


def _complete(
    metric: TopKMetric,
    training: Training | None,
    num_labels: int | None,
    label_tree: LabelTree | None,
) -> None:
    """Give a metric the tree and the number of labels that it lacks.

    The number is given only without training data, which give it themselves.
    """
    if label_tree is not None and "tree" in metric.missing():
        metric.take_shared_arguments(tree=label_tree)
    knows_all_but_number = metric.num_labels is None and not set(metric.missing()) - {
        "num_labels"
    }
    if training is None and num_labels is not None and knows_all_but_number:
        metric.bind(Training(num_labels, None, None, tree=label_tree))


def _check_takes_buckets(members: Iterable[TopKMetric], training: Training) -> None:
    """Raise ValueError if each metric has other buckets than the given ones.

    The report would then show none of the given buckets.
    """
    given_buckets = training.buckets("deciles")
    for metric in members:
        own_buckets = metric.buckets
        if isinstance(own_buckets, str):
            own_buckets = training.buckets(own_buckets)
        if own_buckets is None or own_buckets.digest == given_buckets.digest:
            return
    raise ValueError(
        f"{CALLER}: buckets= is given, but each metric has buckets of its own; leave "
        "it out, or make metrics without buckets=, or with buckets='deciles' to keep "
        "their scope: they then take these buckets."
    )


def check_complete(members: Iterable[TopKMetric]) -> None:
    """Raise ValueError if a metric still lacks a fact that its update needs."""
    for metric in members:
        lacking = metric.missing()
        if lacking == ["tree"]:
            argument = "label_tree="
        elif lacking == ["num_labels"]:
            argument = "label_names= or train_target="
        elif "num_train" in lacking:
            argument = "train_target="
        else:
            argument = "label_counts= or train_target="
        metric.check_bound("", f"pass {argument}")


def _training(buckets: Any, label_counts: Any, order: Tensor | None) -> Training | None:
    """Return the known training counts and buckets for binding; None without both.

    Counts from a :class:`LabelFrequency` include the number of training rows.
    """
    if buckets is not None and not isinstance(buckets, (str, LabelBuckets)):
        raise TypeError(
            f"{CALLER}: buckets is a {type(buckets).__name__}; pass LabelBuckets, or "
            "a text such as 'deciles'."
        )
    if label_counts is None and buckets is None:
        return None
    if label_counts is None:
        if isinstance(buckets, str):
            raise ValueError(
                f"{CALLER}: buckets={buckets!r} has no label counts yet; pass "
                "label_counts= or train_target=."
            )
        return Training.from_frequency(CALLER, buckets)

    if isinstance(label_counts, LabelFrequency):
        training = replace(Training.from_frequency(CALLER, label_counts), order=order)
    else:
        counts = check_counts(CALLER, "label_counts", label_counts)
        training = Training(len(counts), counts, None, order=order)
    if isinstance(buckets, str):
        buckets = training.buckets(buckets)
    elif buckets is not None:
        buckets = LabelBuckets.from_assignment(
            buckets.assignment, buckets.names, training.counts
        )
    return replace(training, given_buckets=buckets)
