"""Facts about the keys of values per row that the columns do not hold, and the names of columns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tailmetrics.collection import TopKCollection, buckets_by_stem
from tailmetrics.evaluation.description import bucket_rows, captions_of
from tailmetrics.evaluation.label_codes import spec_of
from tailmetrics.metrics import TopKMetric
from tailmetrics.report.breakdowns import what_buckets_are

NUMERATOR, DENOMINATOR = ".numerator", ".denominator"
"""Suffixes of the two columns of a ratio."""
LABELS, LENGTHS = "labels of ", ".lengths"
"""Prefix of columns with codes of the labels that rows hit, predict and hold; suffix of columns with their number."""
GROUP = "row_group"
"""Name of the column with the number of each row's group."""
COUNTS = "row counts"
"""Name of the column that says whether each row counts."""
LISTED = "list length"
"""Name of the column with the length of each row's list; scores of all labels have no such column."""


@dataclass(frozen=True, kw_only=True)
class RowFacts:
    """Facts about keys that the columns of values per row do not hold, as plain data.

    Attributes:
        medians: Keys whose statistic is the median.
        lower_is_better: Keys for which lower values are better.
        unbounded: Keys whose values can lie outside [0, 1], and gaps that can lie outside [-1, 1].
        gaps: Name of a gap -> the keys of its buckets, head first, without the bucket of unseen labels.
        parts: Keys that are used only for gaps.
        of_groups: Key of a row group -> the key over all rows, and the number of the group.
        labels: Key of an average over labels -> its column, its :func:`spec_of`, its bucket and its row group.
        row_groups: Names of the row groups.
        buckets: Names of the buckets, head first.
        captions: Metric by bucket -> its caption.
        over_all: Metric by bucket -> the key of its value over all labels.
        what_buckets_are: Description of the buckets; empty if there are several kinds of buckets.
        reaches: Key of a metric that reads lists -> the number of places that it reads, 0 for all.
        of_softmax: Keys of metrics that read the softmax of the scores.
        headline: The metric that results are about, as a key without bucket.
    """

    medians: list[str] = field(default_factory=list)
    lower_is_better: list[str] = field(default_factory=list)
    unbounded: list[str] = field(default_factory=list)
    gaps: dict[str, list[str]] = field(default_factory=dict)
    parts: list[str] = field(default_factory=list)
    of_groups: dict[str, tuple[str, int]] = field(default_factory=dict)
    labels: dict[str, tuple[str, dict[str, Any], int, int | None]] = field(default_factory=dict)
    row_groups: list[str] = field(default_factory=list)
    buckets: list[str] = field(default_factory=list)
    captions: dict[str, str] = field(default_factory=dict)
    over_all: dict[str, str] = field(default_factory=dict)
    what_buckets_are: str = ""
    reaches: dict[str, int] = field(default_factory=dict)
    of_softmax: list[str] = field(default_factory=list)
    headline: str = ""

    def among(self, keys: Collection[str]) -> dict[str, Any]:
        """Return the arguments of :func:`tailmetrics.significance.intervals` for some keys."""
        gaps = {}
        for name, gap_keys in self.gaps.items():
            gaps[name] = [key for key in gap_keys if key in keys]
        return {
            "medians": [key for key in self.medians if key in keys],
            "unbounded": [key for key in self.unbounded if key in keys or key in gaps],
            "gaps": gaps,
            "parts": [key for key in self.parts if key in keys],
        }


class FactsWriter:
    """Writes the facts about the keys of metrics.

    Args:
        collection: The collection of the metrics, which names keys.
        means: Metrics with values per row, by their name in the collection.
        averages: Metrics that average over labels.
        over_all: Metric by bucket -> the key of its value over all labels.
        headline: The metric that results are about, as a key without bucket.
    """

    def __init__(
        self,
        collection: TopKCollection,
        means: Mapping[str, Any],
        averages: Sequence[Any],
        over_all: Mapping[str, str],
        headline: str,
    ) -> None:
        self._collection = collection
        self._means = means
        self._averages = averages
        self._metrics = [*means.values(), *averages]
        self._adjusted = [name for name in collection.reference_models.adjusted if name in means]
        self._over_all = over_all
        self._headline = headline

    def facts(self) -> RowFacts:
        """Return the facts about all keys."""
        means = list(self._means.values())
        by_bucket = [metric for metric in self._metrics if metric.buckets is not None]
        captions = {}
        for metric in by_bucket:
            for stem, text in captions_of(metric).items():
                captions[self._collection.named(stem)] = text
        return RowFacts(
            medians=self._keys(metric for metric in means if metric.aggregation.row_terms == "median"),
            lower_is_better=self._keys(metric for metric in means if metric.higher_is_better is False),
            unbounded=self._unbounded(),
            gaps=self._gaps(),
            parts=self._parts(),
            of_groups=self._keys_of_groups(),
            labels=self._labels(),
            row_groups=list(dict.fromkeys(name for metric in self._metrics for name in metric.row_groups or ())),
            buckets=list(dict.fromkeys(name for metric in self._metrics for name in metric.bucket_names)),
            captions=captions,
            over_all=dict(self._over_all),
            headline=self._headline,
            what_buckets_are=self._what_buckets_are(),
            of_softmax=self._keys(metric for metric in means if metric.formula.is_of_softmax),
            reaches=self._reaches(),
        )

    def _keys(self, metrics: Iterable[Any]) -> list[str]:
        return [self._collection.named(key) for metric in metrics for key in list(metric.keys())]

    def _gaps(self) -> dict[str, list[str]]:
        """Return all gaps, and then those that are adjusted for chance, with their keys."""
        gaps: dict[str, list[str]] = {}
        for metric in self._metrics:
            gaps.update(gaps_of(metric, self._collection.named))
        for name in self._adjusted:
            gaps.update(gaps_of(self._means[name], self._collection.named, adjusted=True))
        return gaps

    def _unbounded(self) -> list[str]:
        """Return the keys and gaps without bounds; adjusted gaps have none."""
        keys: list[str] = []
        for metric in self._metrics:
            if metric.bounds != (0.0, 1.0):
                keys += self._keys([metric])
                keys += gaps_of(metric, self._collection.named)
        for name in self._adjusted:
            keys += gaps_of(self._means[name], self._collection.named, adjusted=True)
        return keys

    def _parts(self) -> list[str]:
        """Return the keys of values that are adjusted for chance, which only gaps read."""
        parts = []
        for name in self._adjusted:
            metric = self._means[name]
            for group in metric.group_keys():
                parts += [self._collection.named(adjusted_key(key)) for key in metric.row_keys(group)]
        return parts

    def _keys_of_groups(self) -> dict[str, tuple[str, int]]:
        """Return for each key of a row group the key over all rows, and the number of the group."""
        named = self._collection.named
        keys_of_groups = {}
        for name, metric in self._means.items():
            for number, group in enumerate(metric.group_keys()[1:]):
                for key, whole in zip(metric.row_keys(group), metric.row_keys(), strict=True):
                    keys_of_groups[named(key)] = named(whole), number
                    if name in self._adjusted:
                        keys_of_groups[named(adjusted_key(key))] = named(adjusted_key(whole)), number
        return keys_of_groups

    def _labels(self) -> dict[str, tuple[str, dict[str, Any], int, int | None]]:
        """Return for each average over labels its column, its spec, its bucket and its row group."""
        labels: dict[str, tuple[str, dict[str, Any], int, int | None]] = {}
        for metric in self._averages:
            if not metric.row_keys():
                continue
            spec = spec_of(metric)
            for number, group in enumerate(metric.group_keys()):
                keys = iter(metric.row_keys(group))
                for column in label_columns(metric, self._collection.named):
                    for bucket in range(len(spec["sizes"])):
                        row_group = number - 1 if number else None
                        labels[self._collection.named(next(keys))] = column, spec, bucket, row_group
        return labels

    def _reaches(self) -> dict[str, int]:
        """Return for each key of a metric that reads lists the number of places that it reads, 0 for all."""
        reaches = {}
        for metric in self._metrics:
            if metric.reading.needs_scores:
                continue
            for group in metric.group_keys():
                keys = list(metric.row_keys(group))
                for place, key in enumerate(keys):
                    k = metric.cutoffs[place * len(metric.cutoffs) // len(keys)]
                    reaches[self._collection.named(key)] = metric.reading.places(k)
        return reaches

    def _what_buckets_are(self) -> str:
        """Return the description of the buckets; empty if there are several kinds of buckets."""
        kinds = dict.fromkeys(metric.bound_buckets for metric in self._metrics if metric.bound_buckets is not None)
        descriptions = {what_buckets_are(list(bucket_rows(buckets))) for buckets in kinds}
        if len(descriptions) != 1:
            return ""
        return descriptions.pop()


def gaps_of(metric: TopKMetric, named: Callable[[str], str] = str, adjusted: bool = False) -> dict[str, list[str]]:
    """Return the name of each gap with the keys of its buckets, head first, without the bucket of unseen labels.

    Args:
        metric: The metric.
        named: Adds prefix and postfix to a key.
        adjusted: Whether values are adjusted for chance; a report has no keys for adjusted values.
    """
    gaps = {}
    for stem, keys in buckets_by_stem(metric).items():
        if adjusted:
            gaps[named(f"{stem}/adjusted_gap")] = [named(adjusted_key(key)) for key in keys]
        else:
            gaps[named(f"{stem}/gap")] = [named(key) for key in keys]
    return gaps


def adjusted_key(key: str) -> str:
    """Return the key of a value adjusted for chance."""
    return f"adjusted {key}"


def deepest_cutoff(metric: Any) -> tuple[int, int]:
    """Return the deepest cut-off of a metric, and its place; 0 for thresholds."""
    return max((k if isinstance(k, int) else 0, place) for place, k in enumerate(metric.cutoffs))


def label_columns(metric: Any, named: Callable[[str], str]) -> list[str]:
    """Return the column name of each cut-off, made of its first key: codes depend on the buckets."""
    keys = list(metric.row_keys(metric.group_keys()[0])) or metric.cutoff_keys()
    return [LABELS + named(key) for key in keys[:: len(keys) // len(metric.cutoffs)]]


def keys_in(columns: Collection[str], facts: RowFacts) -> dict[str, bool]:
    """Return the keys whose values columns hold, each with whether it is a ratio of a numerator and a denominator."""
    keys: dict[str, bool] = {}
    for name in columns:
        is_value = name not in (GROUP, COUNTS, LISTED) and not name.startswith(LABELS)
        if is_value and not name.endswith(DENOMINATOR):
            keys[name.removesuffix(NUMERATOR)] = name.endswith(NUMERATOR)
    for key, (whole, _) in facts.of_groups.items():
        if whole in keys:
            keys[key] = keys[whole]
    for key, (column, *_) in facts.labels.items():
        if column in columns:
            keys[key] = False
    return keys


def columns_of(key: str, facts: RowFacts, columns: Collection[str]) -> list[str]:
    """Return the names of the columns from which a key is read; ``columns`` holds the names of all columns."""
    if key in facts.labels:
        return [facts.labels[key][0]]
    whole, _ = facts.of_groups.get(key, (key, 0))
    if whole + NUMERATOR in columns:
        return [whole + NUMERATOR, whole + DENOMINATOR]
    return [whole]
