"""The arguments of an evaluation, in one record that every step reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from tailmetrics._arguments import check_choice, check_count, check_flag
from tailmetrics.buckets import LabelBuckets
from tailmetrics.collection import TopKCollection
from tailmetrics.frequency import LabelFrequency
from tailmetrics.metrics import TopKMetric
from tailmetrics.ranking._batch import BATCH_DEFAULTS, Duplicates, check_batch_argument
from tailmetrics.tree import LabelTree

CALLER = "evaluate"
"""The name that errors about these arguments begin with."""
Missing: TypeAlias = Literal["skip", "zero"]


@dataclass
class Options:
    """The arguments of :func:`evaluate` except predictions, targets and title.

    :func:`evaluate` describes each of them.

    The metrics become a list or a collection, which can be read several times.
    ``confidence`` is that of intervals from sums over rows, None for no intervals.
    ``catalogue`` names labels of other runs, which belong to the same catalogue; only
    tables read it.
    """

    metrics: TopKCollection | TopKMetric | Iterable[TopKMetric] | None = None
    buckets: LabelBuckets | str | None = None
    label_counts: Any = None
    train_target: Any = None
    row_mask: Any = None
    row_groups: Any = None
    labels: bool = False
    label_names: Sequence[str] | None = None
    missing: Missing = "skip"
    clusters: Any = None
    batch_rows: int = 4096
    headline: str | None = None
    label_tree: LabelTree | None = None
    duplicates: Duplicates = "error"
    ignore_index: int | None = None
    confidence: float | None = None
    catalogue: Sequence[str] = ()

    def __post_init__(self) -> None:
        self.metrics = listed(self.metrics)

    @property
    def members(self) -> list[TopKMetric]:
        """The metrics as a list; empty for the default metrics."""
        return members_of(self.metrics)

    def checked(self) -> Options:
        """Return the options after checks, with counts by name in a dict.

        ``duplicates`` and ``ignore_index`` are those of the metrics if these set them.
        """
        check_count(CALLER, "batch_rows", self.batch_rows)
        check_choice(CALLER, "missing", self.missing, Missing)
        check_flag(CALLER, "labels", self.labels)
        for argument in BATCH_DEFAULTS:
            check_batch_argument(CALLER, argument, getattr(self, argument))
        _check_sized(
            "label_names", self.label_names, "the name of each label, as a list"
        )
        if not isinstance(self.label_counts, LabelFrequency):
            _check_sized(
                "label_counts",
                self.label_counts,
                "the counts as a list or a dict by name, or a LabelFrequency",
            )
        if self.train_target is not None and self.label_counts is not None:
            raise ValueError(
                f"{CALLER}: both train_target= and label_counts= are given; pass the "
                "training targets to count them, or the counts."
            )
        if self.label_tree is not None and not isinstance(self.label_tree, LabelTree):
            raise TypeError(
                f"{CALLER}: label_tree={self.label_tree!r} is no tree; pass "
                "LabelTree(parents), or LabelTree.from_edges(edges, names)."
            )
        label_counts = self.label_counts
        if self.counts_have_names:
            label_counts = {
                str(name): count for name, count in self.label_counts.items()
            }
            if len(label_counts) < len(self.label_counts):
                raise ValueError(
                    f"{CALLER}: label_counts names a label twice; add its counts up."
                )
        return replace(
            self,
            label_counts=label_counts,
            duplicates=_shared_argument(self.members, "duplicates", self.duplicates),
            ignore_index=_shared_argument(
                self.members, "ignore_index", self.ignore_index
            ),
        )

    def with_default_buckets(self) -> Options:
        """Return the options with deciles as default buckets.

        The options are unchanged without training counts, without given metrics, and if
        buckets are given or a metric is by bucket.
        """
        if (
            self.label_counts is None
            or self.buckets is not None
            or self.metrics is None
        ):
            return self
        if any(metric.buckets is not None for metric in self.members):
            return self
        return replace(self, buckets="deciles")

    @property
    def counts_have_names(self) -> bool:
        """Whether the training counts are a dict or Series, by the names of labels."""
        is_series = hasattr(self.label_counts, "index") and hasattr(
            self.label_counts, "items"
        )
        return is_series or isinstance(self.label_counts, Mapping)

    def stated_numbers(self) -> dict[str, int]:
        """Return by argument, or by class of a metric, for how many labels it was made.

        Counts by name are left out, because a label without a count has count 0. So is
        a tree with names beside ``label_names``, because it may hold further labels.
        """
        numbers: dict[str, int] = {}
        if self.label_names is not None:
            numbers["label_names"] = len(self.label_names)
        if isinstance(self.label_counts, LabelFrequency):
            numbers["label_counts"] = self.label_counts.num_labels
        elif self.label_counts is not None and not self.counts_have_names:
            numbers["label_counts"] = len(self.label_counts)
        if isinstance(self.buckets, LabelBuckets):
            numbers["buckets"] = self.buckets.num_labels
        tree = self.label_tree
        if tree is not None and (tree.names is None or self.label_names is None):
            numbers["label_tree"] = tree.num_labels
        return numbers | numbers_of_metrics(self.members)


def _check_sized(argument: str, value: Any, needed: str) -> None:
    """Raise unless an argument is None, or holds entries that can be counted."""
    if value is not None and not hasattr(value, "__len__"):
        raise TypeError(
            f"{CALLER}: {argument} is a {type(value).__name__}; pass {needed}."
        )


def listed(metrics: Any) -> TopKCollection | list[TopKMetric] | None:
    """Return metrics as a list; return a collection or None unchanged.

    Unlike an iterator, the list can be read several times.

    Raises:
        TypeError: If a metric is none of tailmetrics, such as a text or a class.
    """
    if metrics is None or isinstance(metrics, TopKCollection):
        return metrics
    if isinstance(metrics, Mapping):
        raise TypeError(
            f"{CALLER}: metrics is a dict; pass TopKCollection(metrics), whose keys "
            "begin with its names."
        )
    if isinstance(metrics, (TopKMetric, type, str)) or not isinstance(
        metrics, Iterable
    ):
        metrics = [metrics]

    members = list(metrics)
    for metric in members:
        if not isinstance(metric, TopKMetric):
            raise TypeError(
                f"{CALLER}: metrics holds {metric!r}, which is no metric of "
                "tailmetrics; pass metrics with their arguments, such as "
                "[RecallAtK(k=5)], or None for the usual ones."
            )
    return members


def members_of(metrics: Any) -> list[TopKMetric]:
    """Return the metrics of a collection or list; none for None."""
    if isinstance(metrics, TopKCollection):
        return list(metrics.members().values())
    return metrics or []


def check_distinct(label_names: Iterable[str]) -> None:
    """Raise if names of labels, by which labels are found, hold a name twice."""
    seen: set[str] = set()
    for name in label_names:
        if name in seen:
            raise ValueError(
                f"{CALLER}: label_names holds {name!r} twice, but names tell labels "
                "apart here; pass every label of the data once, as the data write it."
            )
        seen.add(name)


def numbers_of_metrics(metrics: Iterable[TopKMetric]) -> dict[str, int]:
    """Return for how many labels metrics were made, by class.

    A second metric of a class has its own entry if it was made for another number.
    """
    numbers: dict[str, int] = {}
    for metric in metrics:
        source = type(metric).__name__
        if metric.num_labels is None:
            continue
        if numbers.get(source, metric.num_labels) != metric.num_labels:
            source = f"another {source}"
        numbers[source] = metric.num_labels
    return numbers


def _shared_argument(metrics: Iterable[TopKMetric], name: str, value: Any) -> Any:
    """Return an argument of the first metric that sets it, else ``value``.

    Raises:
        ValueError: If ``value`` and the value of this metric are set, and differ.
    """
    default = BATCH_DEFAULTS[name]
    for metric in metrics:
        metric_value = getattr(metric, name, default)
        if metric_value == default:
            continue
        if value not in (default, metric_value):
            raise ValueError(
                f"{CALLER}: {name}={value!r}, but a metric has "
                f"{name}={metric_value!r}; pass one of the two."
            )
        return metric_value
    return value
