"""Brings arguments with a value per label into the order of label ids.

These are counts, buckets and trees, also those of metrics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from tailmetrics._arguments import check_counts
from tailmetrics.buckets import LabelBuckets
from tailmetrics.collection import TopKCollection
from tailmetrics.evaluation.data import Data
from tailmetrics.evaluation.options import CALLER, Options, check_distinct
from tailmetrics.frequency import LabelFrequency
from tailmetrics.metrics import TopKMetric
from tailmetrics.tree import LabelTree

SHOWN_NAMES = 3
"""The largest number of names that an error shows."""


def options_by_id(options: Options, data: Data) -> Options:
    """Return options with each argument by label in the order of label ids.

    The training counts come from ``label_counts``, or else from ``train_target``;
    ``label_names`` holds the name of each label id.

    Raises:
        ValueError: If an argument does not fit the labels of the data.
    """
    names, places = options.label_names, None
    if data.label_names is not None:
        names, places = data.label_names, data.label_order
        if options.label_names is not None:
            places = places_of_names(list(map(str, options.label_names)), names)
        elif isinstance(options.buckets, LabelBuckets) and not are_label_ids(
            names, places
        ):
            raise ValueError(
                f"{CALLER}: buckets= is by label id, but the labels of these data have "
                "names; pass label_names=, in whose order it is read, or "
                "label_counts= by name with buckets such as 'deciles'."
            )

    label_counts = _counts_by_id(options, data, names, places)
    buckets = options.buckets
    if isinstance(buckets, LabelBuckets):
        buckets = _buckets_by_id(buckets, places)
    metrics = options.metrics
    if metrics is not None and names is not None:
        metrics = _collection_by_id(options, names, places)
    label_tree = options.label_tree
    if label_tree is not None:
        label_tree = _tree_by_id(label_tree, names, options.label_names, places)

    return replace(
        options,
        metrics=metrics,
        buckets=buckets,
        label_counts=label_counts,
        label_names=names,
        label_tree=label_tree,
    )


def are_label_ids(names: Sequence[str], places: Tensor | None) -> bool:
    """Return whether the names of labels are the whole numbers from 0 on, in order.

    Such names say the order of arguments by label.
    """
    ordered = list(names)
    if places is not None:
        ordered = [names[place] for place in places.tolist()]
    return ordered == list(map(str, range(len(names))))


def places_of_names(label_names: Sequence[str], names: Sequence[str]) -> Tensor:
    """Return the label id of each of ``label_names``, shape (L,), int64.

    Args:
        label_names: The names of the labels in the order that the user gave.
        names: The name of each label id, from ``label_names`` and the data.

    Raises:
        ValueError: If ``label_names`` holds a name twice, or lacks a name of the data.
    """
    unknown = sorted(set(names) - set(label_names))
    if unknown:
        names_text = ", ".join(map(repr, unknown[:SHOWN_NAMES]))
        if len(unknown) > SHOWN_NAMES:
            names_text += f" and {len(unknown) - SHOWN_NAMES:,} more"
        raise ValueError(
            f"{CALLER}: label_names lacks {names_text}, which the data hold; pass "
            "every label of the data once, as the data write it."
        )
    check_distinct(label_names)

    ids = {name: number for number, name in enumerate(names)}
    return torch.tensor([ids[name] for name in label_names], dtype=torch.int64)


def vector_by_id(values: Tensor, places: Tensor | None) -> Tensor:
    """Return values per label in the order of label ids.

    Args:
        values: Shape (L,); another shape is returned unchanged, and is refused where
            the number of labels is checked.
        places: Shape (L,), int64: the label id of each place of ``values``; None if
            they are in this order.

    >>> vector_by_id(torch.tensor([7, 8, 9]), torch.tensor([2, 0, 1]))
    tensor([8, 9, 7])
    """
    if places is None or values.shape != places.shape:
        return values
    return torch.empty_like(values).scatter_(0, places, values)


def _counts_by_id(
    options: Options, data: Data, names: Sequence[str] | None, places: Tensor | None
) -> Any:
    """Return the training counts in the order of label ids.

    They come from ``label_counts``, or else from ``train_target``.
    """
    counts = options.label_counts
    if counts is None:
        return data.train
    if options.counts_have_names:
        labels: Iterable[Any] = range(data.num_labels or 0)
        if names is not None:
            labels = names
        return _counts_of_names(counts, list(map(str, labels)))
    if places is None:
        return counts
    if isinstance(counts, LabelFrequency):
        return LabelFrequency.from_counts(
            vector_by_id(counts.compute(), places), counts.num_rows
        )
    return vector_by_id(check_counts(CALLER, "label_counts", counts), places)


def _counts_of_names(counts: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    """Return the count of each of ``names``; 0 for a name without a count."""
    check_distinct(names)
    unknown = counts.keys() - set(names)
    if unknown:
        labels = "none with names"
        if names:
            labels = f"{len(names):,} labels, such as {names[0]!r}"
        raise ValueError(
            f"{CALLER}: label_counts names the label {next(iter(unknown))!r}, but the "
            f"data have {labels}; write both "
            "alike, or pass one count per label, shape (L,)."
        )
    return [counts.get(name, 0) for name in names]


def _buckets_by_id(buckets: LabelBuckets, places: Tensor | None) -> LabelBuckets:
    """Return buckets with the labels in the order of label ids.

    ``places`` is as in :func:`vector_by_id`.
    """
    if places is None:
        return buckets
    counts = buckets.counts
    if counts is not None:
        counts = vector_by_id(counts, places)
    return LabelBuckets.from_assignment(
        vector_by_id(buckets.assignment, places), buckets.names, counts
    )


def _tree_by_id(
    tree: LabelTree,
    names: Sequence[str] | None,
    label_names: Sequence[str] | None,
    places: Tensor | None,
) -> LabelTree:
    """Return a tree with its labels in the order of label ids.

    A tree with names follows its names; a tree without names follows ``label_names``.
    The arguments are as in :func:`metrics_by_id`; ``names`` is None without names.

    Raises:
        ValueError: If labels have names, and neither ``tree`` nor ``label_names`` has.
    """
    follows_ids = tree.names is None and label_names is not None and places is None
    if names is None or follows_ids:
        return tree
    if (
        tree.names is None
        and label_names is not None
        and len(label_names) == tree.num_labels
    ):
        others = [
            f"node {node} of the tree"
            for node in range(tree.num_labels, len(tree.parents))
        ]
        tree = LabelTree(
            tree.parents, [*map(str, label_names), *others], num_labels=tree.num_labels
        )
    return tree.of_labels(list(names))


def _collection_by_id(
    options: Options, names: Sequence[str], places: Tensor | None
) -> Any:
    """Return ``options.metrics`` with the metrics of :func:`metrics_by_id`.

    The list or collection itself is returned if no metric changes.
    """
    members = options.members
    ordered = metrics_by_id(members, names, options.label_names, places)
    if all(metric is member for metric, member in zip(ordered, members, strict=True)):
        return options.metrics
    if isinstance(options.metrics, TopKCollection):
        return options.metrics.with_members(ordered)
    return ordered


def metrics_by_id(
    metrics: Iterable[TopKMetric],
    names: Sequence[str],
    label_names: Sequence[str] | None,
    places: Tensor | None,
) -> list[TopKMetric]:
    """Return metrics with each argument by label in the order of label ids.

    The labels have names. The arguments follow ``label_names``, but a tree with names
    follows its own names.

    Args:
        metrics: The metrics; one without such an argument is returned itself.
        names: The name of each label id.
        label_names: The names of the labels in the order that the user gave; None if
            the user gave none.
        places: Shape (L,), int64: the label id of each of ``label_names``; None if ids
            follow this order already.

    Raises:
        ValueError: If an argument follows neither.
    """
    ordered = []
    for metric in metrics:
        changes: dict[str, Any] = {}
        for argument, value in _arguments_by_label(metric).items():
            if isinstance(value, LabelTree):
                value_by_id: Any = _tree_by_id(value, names, label_names, places)
            elif label_names is None:
                raise ValueError(
                    f"{CALLER}: {type(metric).__name__} has {argument}= by label id, "
                    "but the labels of these data have names; pass label_names=, in "
                    "whose order it is read, or buckets= and label_counts= by name to "
                    f"{CALLER}."
                )
            elif isinstance(value, LabelBuckets):
                value_by_id = _buckets_by_id(value, places)
            else:
                value_by_id = vector_by_id(value, places)
            if value_by_id is not value:
                changes[argument] = value_by_id
        if changes:
            metric = metric.empty_copy(**changes)
        ordered.append(metric)
    return ordered


def _arguments_by_label(metric: TopKMetric) -> dict[str, Any]:
    """Return the arguments of a metric that hold a value per label.

    These are vectors, such as thresholds, weights and counts, and buckets and trees.
    """
    values = {}
    for name, value in metric.settings().items():
        is_vector = isinstance(value, Tensor) and value.ndim == 1
        if is_vector or isinstance(value, (LabelBuckets, LabelTree)):
            values[name] = value
    return values
