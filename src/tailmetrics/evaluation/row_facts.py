"""Facts about the keys of values per row that the columns do not hold, and the names of columns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, TypeAlias

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

LabelColumn: TypeAlias = tuple[str, dict[str, Any], int, "int | None"]
"""Column, :func:`spec_of`, bucket and row group of an average over labels."""


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
    labels: dict[str, LabelColumn] = field(default_factory=dict)
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
        return {
            "medians": _among(self.medians, keys),
            "unbounded": _among(self.unbounded, [*keys, *self.gaps]),
            "gaps": {name: _among(gap_keys, keys) for name, gap_keys in self.gaps.items()},
            "parts": _among(self.parts, keys),
        }


def _among(keys: Iterable[str], other_keys: Iterable[str]) -> list[str]:
    """Return the keys that are among other keys, in their order."""
    return list(filter(set(other_keys).__contains__, keys))


def facts_of(
    collection: TopKCollection,
    means: Mapping[str, Any],
    averages: Sequence[Any],
    over_all: Mapping[str, str],
    headline: str,
) -> RowFacts:
    """Return the facts about all keys of metrics.

    Args:
        collection: The collection of the metrics, which names keys.
        means: Metrics with values per row, by their name in the collection.
        averages: Metrics that average over labels.
        over_all: Metric by bucket -> the key of its value over all labels.
        headline: The metric that results are about, as a key without bucket.
    """
    metrics = [*means.values(), *averages]
    facts = RowFacts(
        row_groups=list(dict.fromkeys(name for metric in metrics for name in metric.row_groups or ())),
        buckets=list(dict.fromkeys(name for metric in metrics for name in metric.bucket_names)),
        over_all=dict(over_all),
        headline=headline,
        what_buckets_are=_what_buckets_are(metrics),
    )
    named = collection.named
    for metric in means.values():
        _add_facts_of_mean(facts, metric, named)
    for metric in metrics:
        _add_facts_of_metric(facts, metric, named)
    for name in collection.reference_models.adjusted:
        if name in means:
            _add_facts_above_chance(facts, means[name], named)
    for metric in averages:
        facts.labels.update(_labels(metric, named))
    return facts


def _add_facts_of_mean(facts: RowFacts, metric: Any, named: Callable[[str], str]) -> None:
    """Add the facts about a metric with values per row."""
    keys = list(map(named, metric.keys()))
    if metric.aggregation.row_terms == "median":
        facts.medians.extend(keys)
    if metric.higher_is_better is False:
        facts.lower_is_better.extend(keys)
    if metric.formula.is_of_softmax:
        facts.of_softmax.extend(keys)
    _add_groups(facts, metric, named)


def _add_facts_of_metric(facts: RowFacts, metric: Any, named: Callable[[str], str]) -> None:
    """Add the facts about a metric that hold for averages over labels, too."""
    gaps = gaps_of(metric, named)
    facts.gaps.update(gaps)
    if metric.bounds != (0.0, 1.0):
        facts.unbounded.extend([*map(named, metric.keys()), *gaps])
    if metric.buckets is not None:
        for stem, text in captions_of(metric).items():
            facts.captions[named(stem)] = text
    if metric.reading.needs_scores:
        return
    for group in metric.group_keys():
        keys = list(metric.row_keys(group))
        for place, key in enumerate(keys):
            k = metric.cutoffs[place * len(metric.cutoffs) // len(keys)]
            facts.reaches[named(key)] = metric.reading.places(k)


def _add_facts_above_chance(facts: RowFacts, metric: Any, named: Callable[[str], str]) -> None:
    """Add the facts about values that are adjusted for chance, which only gaps read; these gaps have no bounds."""

    def named_adjusted(key: str) -> str:
        return named(adjusted_key(key))

    gaps = gaps_of(metric, named, adjusted=True)
    facts.gaps.update(gaps)
    facts.unbounded.extend(gaps)
    facts.parts.extend(map(named_adjusted, metric.keys()))
    _add_groups(facts, metric, named_adjusted)


def _add_groups(facts: RowFacts, metric: Any, named: Callable[[str], str]) -> None:
    """Add for each key of a row group the key over all rows, and the number of the group."""
    for number, group in enumerate(metric.group_keys()[1:]):
        for key, whole in zip(metric.row_keys(group), metric.row_keys(), strict=True):
            facts.of_groups[named(key)] = named(whole), number


def _labels(metric: Any, named: Callable[[str], str]) -> Iterator[tuple[str, LabelColumn]]:
    """Yield each key of an average over labels with its column, its spec, its bucket and its row group."""
    if not metric.row_keys():
        return
    spec = spec_of(metric)
    row_groups: list[int | None] = [None, *range(len(metric.group_keys()) - 1)]
    places = product(label_columns(metric, named), range(len(spec["sizes"])))
    for (row_group, (column, bucket)), key in zip(product(row_groups, places), metric.keys(), strict=True):
        yield named(key), (column, spec, bucket, row_group)


def _what_buckets_are(metrics: Iterable[Any]) -> str:
    """Return the description of the buckets; empty if there are several kinds of buckets."""
    kinds = dict.fromkeys(metric.bound_buckets for metric in metrics if metric.bound_buckets is not None)
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
