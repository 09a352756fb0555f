"""What the training labels tell the metrics: buckets, counts, propensities."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from tailmetrics import LabelBuckets, LabelFrequency, TopKCollection
from tailmetrics.cli.errors import CommandError, CommandWarning
from tailmetrics.cli.inputs import Inputs
from tailmetrics.cli.progress import progress
from tailmetrics.cli.ranks import Ranks
from tailmetrics.frequency import frequency_of
from tailmetrics.io import TargetDataset
from tailmetrics.metrics import TopKMetric


def bind(
    collection: TopKCollection, inputs: Inputs, ranks: Ranks, count: Callable[[], LabelFrequency] | None = None
) -> None:
    """Complete what the metrics leave open; call it on every rank.

    Args:
        collection: The metrics.
        inputs: The open files.
        ranks: This process.
        count: What counts the training labels, if not this process.
    """
    with ranks.agreement():
        _check_known(collection, inputs)
        counted = None
        if inputs.train is not None:
            counted = _count(inputs, ranks) if count is None else count()
    if counted is not None:
        _warn_of_gaps(counted.compute())
        collection.bind(counted)
    elif inputs.counts is not None:
        _warn_of_gaps(inputs.counts)
        collection.bind(_given(inputs.counts, inputs.num_train))
    elif inputs.num_labels is not None:
        # nothing is left open but the number of labels, for which any buckets do
        collection.bind(LabelBuckets.from_assignment(torch.zeros(inputs.num_labels, dtype=torch.int64), ["all"]))
    unbound = [type(metric).__name__ for metric in collection.members().values() if not metric.is_bound]
    if unbound:
        raise CommandError(f"{unbound[0]}: the number of labels is not known; no file declares it", "add --num-labels.")


def _warn_of_gaps(counts: Tensor) -> None:
    """Warn if most labels never occur, as where ids have gaps: coverage, Gini and ``unseen`` would count the gaps."""
    unseen = int((counts == 0).sum())
    if unseen > counts.numel() / 2:
        warnings.warn(
            f"{unseen:,} of {counts.numel():,} labels never occur in training. If the numbers of labels have gaps, add "
            "--string-ids true and leave --num-labels out, so that each number met is one label.",
            CommandWarning,
            stacklevel=2,
        )


def _count(inputs: Inputs, ranks: Ranks) -> LabelFrequency:
    assert inputs.train is not None
    assert inputs.num_labels is not None
    return count_labels(inputs.train, inputs.num_labels, ranks)


def count_labels(train: TargetDataset, num_labels: int, ranks: Ranks) -> LabelFrequency:
    """Count this process's share of the training labels."""
    frequency = LabelFrequency(num_labels)
    with progress("training labels", train.stop - train.start, ranks) as advance:
        for batch in train:
            frequency.update(batch.target)
            advance(len(batch.rows))
    return frequency


def _given(counts: Tensor, num_train: int | None) -> LabelFrequency | LabelBuckets:
    """Return counts that are the same on every rank, not to be added up."""
    return LabelBuckets.deciles(counts) if num_train is None else frequency_of(counts, num_train)


def _check_known(collection: TopKCollection, inputs: Inputs) -> None:
    """Raise if a metric asks for what no option gives."""
    for metric in collection.members().values():
        caller = type(metric).__name__
        if inputs.train is None and inputs.counts is None and _needs_counts(metric):
            hint = "add --train-target FILE, or --label-counts FILE."
            raise CommandError(f"{caller}: needs to know how often labels occur in training", hint)
        if inputs.train is None and inputs.num_train is None and getattr(metric, "num_train", 0) is None:
            hint = "add --num-train N beside --label-counts, or give --train-target instead."
            raise CommandError(f"{caller}: needs the number of training rows", hint)


def _needs_counts(metric: TopKMetric) -> bool:
    return isinstance(metric.buckets, str) or getattr(metric, "label_counts", ()) is None
