"""The labels of an evaluation: how many there are, and which label each place of an argument means.

``evaluate``, ``compare_runs``, the callback, the command line and the engines ask this file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from tailmetrics._arguments import check_counts
from tailmetrics.buckets import LabelBuckets
from tailmetrics.frequency import LabelFrequency
from tailmetrics.metrics import TopKMetric
from tailmetrics.tree import LabelTree

VALUE_OF_LABEL = {"label_names": "a name", "label_counts": "a count", "buckets": "a bucket", "label_tree": "a parent"}
"""What an argument holds for each label."""


def columns_of(value: Any) -> int | None:
    """Return the number of labels of a tensor with a column per label; None for label ids."""
    if isinstance(value, tuple) or value.ndim < 2:
        return None
    has_columns = value.is_floating_point() or value.is_sparse_csr or value.dtype == torch.bool
    return int(value.shape[-1]) if has_columns else None


def stated_numbers(
    label_names: Sequence[str] | None,
    label_counts: Any,
    buckets: Any,
    label_tree: Any,
    metrics: Iterable[TopKMetric],
) -> dict[str, int]:
    """Return by argument, or by class of a metric, for how many labels it was made.

    A second metric of a class has its own entry if it was made for another number.
    Counts by name are left out, because a label without a count has count 0. So is a tree with names beside
    ``label_names``, because it may hold further labels.
    """
    numbers: dict[str, int] = {}
    if label_names is not None:
        numbers["label_names"] = len(label_names)
    if isinstance(label_counts, LabelFrequency):
        numbers["label_counts"] = label_counts.num_labels
    elif label_counts is not None and not _has_names(label_counts):
        numbers["label_counts"] = len(label_counts)
    if isinstance(buckets, LabelBuckets):
        numbers["buckets"] = buckets.num_labels
    if isinstance(label_tree, LabelTree) and (label_tree.names is None or label_names is None):
        numbers["label_tree"] = label_tree.num_labels
    for metric in metrics:
        source = type(metric).__name__
        if metric.num_labels is None:
            continue
        if numbers.get(source, metric.num_labels) != metric.num_labels:
            source = f"another {source}"
        numbers[source] = metric.num_labels
    return numbers


REMEDY_OF_METRICS = "leave its num_labels out"
REMEDY_OF_NAMES = f"{REMEDY_OF_METRICS}, and pass all names as label_names="


def number_of_labels(
    caller: str, columns: Mapping[str, int], stated: Mapping[str, int], remedy_of_metrics: str = REMEDY_OF_NAMES
) -> int | None:
    """Return the number of labels L; None if nothing tells it.

    It is the number of columns of scores or targets, or else what the other arguments state.

    Args:
        caller: The name that errors begin with.
        columns: The number of columns by argument, of predictions, targets and training targets.
        stated: The numbers of :func:`stated_numbers`.
        remedy_of_metrics: What to do if a metric was made for another number.

    Raises:
        ValueError: If two numbers differ.

    >>> number_of_labels("evaluate", {"target": 11}, {"label_counts": 11})
    11
    """
    number: int | None = None
    source = ""
    for argument, width in columns.items():
        if number is not None and width != number:
            raise ValueError(
                f"{caller}: {argument} has {width:,} columns, but {source} {number:,}; pass a column for every label "
                "in both."
            )
        if number is None:
            number, source = width, f"{argument} has"

    if columns:
        source = "the data have"
    for argument, size in stated.items():
        if number is not None and size != number:
            if argument in VALUE_OF_LABEL:
                problem, remedy = "holds", f"pass {VALUE_OF_LABEL[argument]} for every label"
            else:
                problem, remedy = "was made for", remedy_of_metrics
            raise ValueError(f"{caller}: {argument} {problem} {size:,} labels, but {source} {number:,}; {remedy}.")
        if number is None:
            number, source = size, f"{argument} holds"
    return number


# -- training counts by name ----------------------------------------------------------------------------------------


def counts_by_name(caller: str, label_counts: Any) -> dict[str, Any] | None:
    """Return counts as a dict from the name of a label to its count; None if counts have no names, as in an array."""
    if not _has_names(label_counts):
        return None
    counts = {str(name): count for name, count in label_counts.items()}
    if len(counts) < len(label_counts):
        raise ValueError(f"{caller}: label_counts names a label twice; add its counts up.")
    return counts


def _has_names(label_counts: Any) -> bool:
    """Whether counts are a dict or a Series."""
    is_series = hasattr(label_counts, "index") and hasattr(label_counts, "items")
    return is_series or isinstance(label_counts, Mapping)


def counts_of_names(caller: str, counts: Mapping[str, Any], names: Iterable[Any]) -> list[Any]:
    """Return the count of each name, in the order of ``names``; 0 for a name without a count."""
    texts = [str(name) for name in names]
    unknown = counts.keys() - set(texts)
    if unknown:
        labels = "none with names"
        if texts:
            labels = f"{len(texts):,} labels, such as {texts[0]!r}"
        raise ValueError(
            f"{caller}: label_counts names the label {next(iter(unknown))!r}, but the data have {labels}; write both "
            "alike, or pass one count per label, shape (L,)."
        )
    return [counts.get(text, 0) for text in texts]


# -- labels with names ----------------------------------------------------------------------------------------------


def vector_by_id(values: Tensor, places: Tensor) -> Tensor:
    """Return values per label in the order of label ids.

    Args:
        values: Shape (L,); another shape is returned unchanged, and is refused where the number of labels is checked.
        places: Shape (L,), int64: the label id of each place of ``values``.

    >>> vector_by_id(torch.tensor([7, 8, 9]), torch.tensor([2, 0, 1]))
    tensor([8, 9, 7])
    """
    if values.shape != places.shape:
        return values
    return torch.empty_like(values).scatter_(0, places, values)


def counts_by_id(caller: str, label_counts: Any, places: Tensor) -> LabelFrequency | Tensor:
    """Return training counts (L,), or a ``LabelFrequency``, in the order of label ids, as :func:`vector_by_id`."""
    if isinstance(label_counts, LabelFrequency):
        return LabelFrequency.from_counts(vector_by_id(label_counts.compute(), places), label_counts.num_rows)
    return vector_by_id(check_counts(caller, "label_counts", label_counts), places)


def buckets_by_id(buckets: LabelBuckets, places: Tensor) -> LabelBuckets:
    """Return buckets with the labels in the order of label ids, as :func:`vector_by_id`."""
    counts = None if buckets.counts is None else vector_by_id(buckets.counts, places)
    return LabelBuckets.from_assignment(vector_by_id(buckets.assignment, places), buckets.names, counts)


def tree_by_id(tree: LabelTree, names: Sequence[str], label_names: Sequence[str] | None) -> LabelTree:
    """Return a tree with its labels in the order of label ids.

    A tree with names follows its names; a tree without names follows ``label_names``.

    Args:
        tree: The tree.
        names: The name of each label id.
        label_names: The names of the labels in the order that the user gave; None if the user gave none.

    Raises:
        ValueError: If neither has names.
    """
    if tree.names is None and label_names is not None and len(label_names) == tree.num_labels:
        others = [f"node {node} of the tree" for node in range(tree.num_labels, len(tree.parents))]
        tree = LabelTree(tree.parents, [*map(str, label_names), *others], num_labels=tree.num_labels)
    return tree.of_labels(list(names))


def arguments_by_label(metric: TopKMetric) -> dict[str, Any]:
    """Return the arguments of a metric that hold a value per label: thresholds, weights, counts, buckets, a tree."""
    values = {}
    for name, value in metric.settings().items():
        is_vector = isinstance(value, Tensor) and value.ndim == 1
        if is_vector or isinstance(value, (LabelBuckets, LabelTree)):
            values[name] = value
    return values


def metrics_by_id(
    caller: str,
    metrics: Iterable[TopKMetric],
    names: Sequence[str],
    label_names: Sequence[str] | None,
    places: Tensor | None,
) -> list[TopKMetric]:
    """Return metrics whose arguments with a value per label are in the order of label ids, for labels with names.

    These arguments follow ``label_names``, and a tree with names follows its names.

    Args:
        caller: The name that errors begin with.
        metrics: The metrics; one without such an argument is returned itself.
        names: The name of each label id.
        label_names: The names of the labels in the order that the user gave; None if the user gave none.
        places: Shape (L,), int64: the label id of each of ``label_names``; None if ids follow this order already.

    Raises:
        ValueError: If an argument follows neither.
    """
    ordered = []
    for metric in metrics:
        changes: dict[str, Any] = {}
        for argument, value in arguments_by_label(metric).items():
            if isinstance(value, LabelTree):
                if value.names is not None or places is not None or label_names is None:
                    changes[argument] = tree_by_id(value, names, label_names)
            elif label_names is None:
                raise ValueError(
                    f"{caller}: {type(metric).__name__} has {argument}= by label id, but the labels of these data have "
                    "names; pass label_names=, in whose order it is read, or buckets= and label_counts= by name to "
                    f"{caller}."
                )
            elif places is not None and isinstance(value, LabelBuckets):
                changes[argument] = buckets_by_id(value, places)
            elif places is not None:
                changes[argument] = vector_by_id(value, places)
        ordered.append(metric.again(**changes) if changes else metric)
    return ordered
