"""Prepares the evaluation of files.

Metrics get the counts of training labels, and whatever else they need.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any

from torch import Tensor

from tailmetrics import LabelFrequency, LabelTree
from tailmetrics._arguments import INTEGERS
from tailmetrics._number_of_labels import REMEDY_OF_METRICS, number_of_labels
from tailmetrics.cli.cluster import Engine
from tailmetrics.cli.inputs import Files, Inputs, Share, read_labels
from tailmetrics.cli.messages import CommandError, Messages
from tailmetrics.cli.parser import Request
from tailmetrics.cli.progress import progress
from tailmetrics.cli.row_groups import RowGroups
from tailmetrics.evaluation import Evaluation
from tailmetrics.evaluation.notes import on_unseen
from tailmetrics.evaluation.options import Options, numbers_of_metrics
from tailmetrics.evaluation.preparing import prepare
from tailmetrics.io import TargetDataset
from tailmetrics.io.labels import order_of_names
from tailmetrics.metrics import TopKMetric
from tailmetrics.ranking._rows import labels_without

NO_COUNTS = (
    "needs to know how often labels occur in training",
    "add --train-target FILE, or --label-counts FILE.",
)
MISSING_FACTS = {
    "buckets": NO_COUNTS,
    "label_counts": NO_COUNTS,
    "num_train": (
        "needs the number of training rows",
        "add --num-train N beside --label-counts, or give --train-target instead.",
    ),
    "tree": ("needs the parents of the labels", "add --label-tree FILE."),
    "num_labels": (
        "the number of labels is not known: no file tells it",
        (
            "add --num-labels; or, where ids have gaps, --string-ids true, which "
            "counts each id that is met."
        ),
    ),
}
"""The problem and the remedy where no file tells a fact that a metric needs."""


def prepare_from_files(
    request: Request,
    metrics: Sequence[TopKMetric],
    inputs: Inputs,
    groups: RowGroups | None,
    messages: Messages,
    engine: Engine | None = None,
    **settings: Any,
) -> Evaluation:
    """Return an evaluation without rows, whose metrics know the training labels.

    Args:
        request: The command line.
        metrics: The metrics.
        inputs: The open files.
        groups: The groups of the rows; None without groups.
        messages: Where warnings go.
        engine: The engine that counts the training labels; None if this process counts
            them.
        settings: Further attributes of :class:`tailmetrics.evaluation.options.Options`.

    Raises:
        CommandError: If the files do not tell what a metric needs.
    """
    labels = read_labels(inputs)
    _warn_of_counts(metrics, inputs, messages)
    _check_facts(metrics, _facts_of_files(inputs, labels.tree))
    num_labels = _number_of_labels(metrics, inputs)
    counts = _training_counts(inputs, num_labels, messages, engine)
    options = Options(
        metrics=metrics,
        label_counts=counts,
        label_names=labels.names,
        label_tree=labels.tree,
        headline=request.headline(metrics),
        **settings,
    )
    order = None
    if num_labels is not None:
        order = order_of_names(inputs.files.names or (), num_labels)
    group_names = None if groups is None else groups.names
    evaluation = prepare(options.checked(), group_names, num_labels, order)
    _check_facts(evaluation.members)
    return evaluation


def count(frequency: LabelFrequency, files: Files, train: TargetDataset) -> None:
    """Add training targets to the counts of ``frequency``."""
    ignored_label = files.options.ignore_index
    with progress("training labels", train.stop - train.start) as advance:
        for batch in train:
            target = batch.target
            # files tell ids from gains
            if target.shape[1:] == (frequency.num_labels,) and not target.is_sparse_csr:
                target = target > 0
            are_ids = target.dtype in INTEGERS and not target.is_sparse_csr
            if are_ids and files.has_tokens:
                if target.ndim > 1:  # lists of one token each, padded with -1
                    target = target[target != -1]
                frequency.update(
                    target, ignore_index=-1 if ignored_label is None else ignored_label
                )
            elif are_ids and ignored_label is not None:
                frequency.update(*labels_without(target, ignored_label))
            else:
                frequency.update(target)
            advance(int(batch.rows[-1]) + 1 - train.start)


def largest_min_gain(metrics: Iterable[TopKMetric]) -> float:
    """Return the largest ``min_gain`` of the metrics; 0 if none has one."""
    largest = 0.0
    for metric in metrics:
        largest = max(largest, metric.min_gain or 0.0)
    return largest


def _count_share(frequency: LabelFrequency, share: Share, *, files: Files) -> None:
    """Add one share of the training targets to the counts of ``frequency``."""
    train = files.open_train(share)
    assert train is not None
    count(frequency, files, train)


def _number_of_labels(metrics: Iterable[TopKMetric], inputs: Inputs) -> int | None:
    """Return the number of labels from files, options or a metric; None if unknown.

    Raises:
        ValueError: If a metric was made for another number.
    """
    columns = {}
    if inputs.files.num_labels is not None:
        columns["the data"] = inputs.files.num_labels
    stated = numbers_of_metrics(metrics)
    return number_of_labels("evaluate", columns, stated, REMEDY_OF_METRICS)


def _training_counts(
    inputs: Inputs, num_labels: int | None, messages: Messages, engine: Engine | None
) -> LabelFrequency | Tensor | None:
    """Return the training counts and, if known, the number of training rows.

    The result is None if no file tells the counts.
    """
    counts, num_rows = inputs.counts, inputs.files.options.num_train
    if inputs.train is not None:
        assert num_labels is not None
        frequency = LabelFrequency(num_labels)
        if engine is None:
            count(frequency, inputs.files, inputs.train)
        else:
            frequency = engine.count(
                frequency,
                partial(_count_share, files=inputs.files.with_absolute_paths()),
            )
        counts = frequency.compute().reshape(-1)  # TorchMetrics squeezes one label
        num_rows = frequency.num_rows

    if counts is None:
        return None
    hint = None
    if inputs.files.names is None:
        hint = "add --string-ids true; --num-labels is then the size of the catalogue"
    for note in on_unseen(counts, hint):
        messages.warn(note)
    if num_rows is None:
        return counts
    return LabelFrequency.from_counts(counts, num_rows)


def _warn_of_counts(
    metrics: Sequence[TopKMetric], inputs: Inputs, messages: Messages
) -> None:
    """Warn if training counts are not read, or count smaller gains than targets."""
    if inputs.train is None and inputs.counts is None:
        return
    option = "--label-counts" if inputs.train is None else "--train-target"
    if not any(_reads_counts(metric) for metric in metrics):
        messages.warn(
            f"No metric reads how often labels occur in training, so that {option} "
            "makes no values by bucket. Add --buckets deciles, which reports each "
            "metric by decile too."
        )
    if inputs.train is not None and inputs.files.options.train_min_gain is None:
        level = largest_min_gain(metrics)
        gains = inputs.train.target.first_values()
        if ((gains > 0) & (gains < level)).any() and (gains >= level).any():
            messages.warn(
                "Training targets count from any gain above 0, targets from "
                f"{level:g}: --train-min-gain {level:g} counts both alike."
            )


def _reads_counts(metric: TopKMetric) -> bool:
    """Whether a metric has buckets, ``label_counts`` or ``num_train``."""
    attributes = vars(metric)
    return (
        metric.buckets is not None
        or "label_counts" in attributes
        or "num_train" in attributes
    )


def _facts_of_files(inputs: Inputs, tree: LabelTree | None) -> set[str]:
    """Return the facts that files and options tell.

    ``num_labels`` is among them: a metric may tell the number once it is bound.
    """
    facts = {"num_labels"}
    if inputs.train is not None or inputs.counts is not None:
        facts |= {"buckets", "label_counts"}
    if inputs.train is not None or inputs.files.options.num_train is not None:
        facts.add("num_train")
    if tree is not None:
        facts.add("tree")
    return facts


def _check_facts(metrics: Iterable[TopKMetric], facts: Collection[str] = ()) -> None:
    """Raise if a metric lacks a fact that is not among ``facts``."""
    for metric in metrics:
        for fact in metric.missing():
            if fact not in facts:
                problem, hint = MISSING_FACTS[fact]
                raise CommandError(f"{type(metric).__name__}: {problem}", hint)
