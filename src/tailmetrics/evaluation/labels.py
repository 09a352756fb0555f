"""The labels of an evaluation: which argument states their number, and which label each place of an argument means.

``evaluate``, ``compare_runs``, the callback, the command line and the engines ask this file; the number of labels is
what ``number_of_labels`` makes of what is stated.
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


def columns_of(value: Any) -> int | None:
    """Return the number of labels of a tensor with a column per label; None for label ids, candidates and None."""
    if not isinstance(value, Tensor) or value.ndim < 2:
        return None
    if value.is_floating_point() or value.is_sparse_csr or value.dtype == torch.bool:
        return int(value.shape[-1])
    return None


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

SHOWN_NAMES = 3
"""Names that an error shows at most."""


def places_of_names(caller: str, label_names: Sequence[str], names: Sequence[str]) -> Tensor:
    """Return the label id of each of ``label_names``, shape (L,), int64.

    Args:
        caller: The name that errors begin with.
        label_names: The names of the labels in the order that the user gave.
        names: The name of each label id: those of ``label_names``, and those of the data.

    Raises:
        ValueError: If ``label_names`` holds a name twice, or lacks a name of the data.
    """
    problem = ""
    distinct_names = set(label_names)
    if len(distinct_names) < len(label_names):
        problem = "holds a name twice"
    unknown = sorted(set(names) - distinct_names)
    if unknown:
        names_text = ", ".join(map(repr, unknown[:SHOWN_NAMES]))
        if len(unknown) > SHOWN_NAMES:
            names_text += f" and {len(unknown) - SHOWN_NAMES:,} more"
        problem = f"lacks {names_text}, which the data hold"
    if problem:
        raise ValueError(f"{caller}: label_names {problem}; pass every label of the data once, as the data write it.")

    ids = {name: number for number, name in enumerate(names)}
    return torch.tensor([ids[name] for name in label_names], dtype=torch.int64)


def vector_by_id(values: Tensor, places: Tensor | None) -> Tensor:
    """Return values per label in the order of label ids.

    Args:
        values: Shape (L,); another shape is returned unchanged, and is refused where the number of labels is checked.
        places: Shape (L,), int64: the label id of each place of ``values``; None if they are in this order.

    >>> vector_by_id(torch.tensor([7, 8, 9]), torch.tensor([2, 0, 1]))
    tensor([8, 9, 7])
    """
    if places is None or values.shape != places.shape:
        return values
    return torch.empty_like(values).scatter_(0, places, values)


def counts_by_id(caller: str, label_counts: Any, places: Tensor | None) -> Any:
    """Return training counts (L,), or a ``LabelFrequency``, in the order of label ids, as :func:`vector_by_id`."""
    if places is None:
        return label_counts
    if isinstance(label_counts, LabelFrequency):
        return LabelFrequency.from_counts(vector_by_id(label_counts.compute(), places), label_counts.num_rows)
    return vector_by_id(check_counts(caller, "label_counts", label_counts), places)


def buckets_by_id(buckets: LabelBuckets, places: Tensor | None) -> LabelBuckets:
    """Return buckets with the labels in the order of label ids, as :func:`vector_by_id`."""
    if places is None:
        return buckets
    counts = buckets.counts
    if counts is not None:
        counts = vector_by_id(counts, places)
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
            value_by_id = value
            if isinstance(value, LabelTree):
                if value.names is not None or places is not None or label_names is None:
                    value_by_id = tree_by_id(value, names, label_names)
            elif label_names is None:
                raise ValueError(
                    f"{caller}: {type(metric).__name__} has {argument}= by label id, but the labels of these data have "
                    "names; pass label_names=, in whose order it is read, or buckets= and label_counts= by name to "
                    f"{caller}."
                )
            elif isinstance(value, LabelBuckets):
                value_by_id = buckets_by_id(value, places)
            else:
                value_by_id = vector_by_id(value, places)
            if value_by_id is not value:
                changes[argument] = value_by_id
        if changes:
            metric = metric.empty_copy(**changes)
        ordered.append(metric)
    return ordered
