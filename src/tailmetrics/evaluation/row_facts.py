"""Facts about the keys of values per row: their columns, and what the values are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeAlias

from tailmetrics.collection import TopKCollection, buckets_by_stem
from tailmetrics.evaluation.description import bucket_rows, captions_of
from tailmetrics.evaluation.label_codes import label_columns, spec_of
from tailmetrics.report.breakdowns import what_buckets_are

Named: TypeAlias = "Callable[[str], str]"
"""Adds prefix and postfix of a collection to a key."""
NUMERATOR, DENOMINATOR = ".numerator", ".denominator"
"""Suffixes of the two columns of a ratio."""
GROUP = "row_group"
"""Name of the column with the number of each row's group."""
COUNTS = "row counts"
"""Name of the column that says whether each row counts."""
LISTED = "list length"
"""Name of the column with the length of each row's list, if rows are lists."""


@dataclass(frozen=True, kw_only=True)
class KeyFacts:
    """The columns that hold the values of a key, and facts about them, as plain data.

    Attributes:
        columns: The column of the values; for a ratio those of numerators and
            denominators; for an average over labels that of the codes of labels.
        row_group: The number of the row group; None for all rows.
        labels: For an average over labels its :func:`spec_of`; None for other values.
        bucket: The number of the bucket; 0 without buckets.
        is_median: Whether the statistic is the median.
        is_bounded: Whether all values are in [0, 1].
        higher_is_better: Whether higher values are better; None if neither higher nor
            lower ones are.
        is_of_softmax: Whether the metric reads the softmax of the scores.
        is_part: Whether the values are used only for a gap.
        places: The number of places of a list that the metric reads, 0 for all; None if
            it reads scores.
    """

    columns: list[str]
    row_group: int | None = None
    labels: dict[str, Any] | None = None
    bucket: int = 0
    is_median: bool = False
    is_bounded: bool = True
    higher_is_better: bool | None = True
    is_of_softmax: bool = False
    is_part: bool = False
    places: int | None = None

    @property
    def is_ratio(self) -> bool:
        """Whether the values are numerators and denominators."""
        return len(self.columns) == 2

    @property
    def lower_is_better(self) -> bool:
        """Whether lower values are better."""
        return self.higher_is_better is False

    @property
    def has_no_direction(self) -> bool:
        """Whether neither higher nor lower values are better."""
        return self.higher_is_better is None


@dataclass(frozen=True, kw_only=True)
class RowFacts:
    """Facts about values per row that the columns do not hold, as plain data.

    Attributes:
        keys: Key -> facts about its values; all rows first, then row groups, then
            averages over labels.
        gaps: Name of a gap -> the keys of its buckets, head first, without the bucket
            of unseen labels.
        row_groups: Names of the row groups.
        buckets: Names of the buckets, head first.
        captions: Metric by bucket -> its caption.
        over_all: Metric by bucket -> the key of its value over all labels.
        what_buckets_are: Description of the buckets; empty if there are several kinds
            of buckets.
        headline: The metric that results are about, as a key without bucket.
    """

    keys: dict[str, KeyFacts] = field(default_factory=dict)
    gaps: dict[str, list[str]] = field(default_factory=dict)
    row_groups: list[str] = field(default_factory=list)
    buckets: list[str] = field(default_factory=list)
    captions: dict[str, str] = field(default_factory=dict)
    over_all: dict[str, str] = field(default_factory=dict)
    what_buckets_are: str = ""
    headline: str = ""

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> RowFacts:
        """Return facts from what :func:`dataclasses.asdict` returned."""
        keys = {key: KeyFacts(**facts) for key, facts in data["keys"].items()}
        return cls(**{**data, "keys": keys})

    def keys_with(self, fact: str) -> list[str]:
        """Return the keys of which a fact is true, such as ``"is_median"``."""
        return [key for key, facts in self.keys.items() if getattr(facts, fact)]

    def keys_in(self, columns: Collection[str]) -> list[str]:
        """Return the keys whose values are in some columns."""
        names = set(columns)
        return [
            key for key, facts in self.keys.items() if names.issuperset(facts.columns)
        ]

    def interval_arguments(self, keys: Collection[str]) -> dict[str, Any]:
        """Return the arguments of ``intervals`` of :mod:`tailmetrics.significance`."""
        gaps = {}
        unbounded = []
        for name, gap_keys in self.gaps.items():
            gaps[name] = [key for key in gap_keys if key in keys]
            if any(
                self.keys[key].is_part or not self.keys[key].is_bounded
                for key in gap_keys
            ):
                # so is a difference between values that are adjusted for chance
                unbounded.append(name)
        unbounded += [key for key in keys if not self.keys[key].is_bounded]
        medians = [key for key in keys if self.keys[key].is_median]
        parts = [key for key in keys if self.keys[key].is_part]
        return {
            "medians": medians,
            "unbounded": unbounded,
            "gaps": gaps,
            "parts": parts,
        }


def facts_of(
    collection: TopKCollection,
    means: Mapping[str, Any],
    averages: Sequence[Any],
    over_all: Mapping[str, str] | None = None,
    headline: str = "",
) -> RowFacts:
    """Return the facts about all keys of metrics.

    Args:
        collection: The collection of the metrics, which names keys.
        means: Metrics with values per row, by their name in the collection.
        averages: Metrics that average over labels.
        over_all: Metric by bucket -> the key of its value over all labels.
        headline: The metric that results are about, as a key without bucket.
    """
    named = collection.named
    metrics = [*means.values(), *averages]
    adjusted: list[str] = []
    if means:
        adjusted = [
            name for name in collection.reference_models.adjusted if name in means
        ]

    value_keys: dict[str, KeyFacts] = {}
    for name, metric in means.items():
        value_keys |= _facts_of_mean(metric, named)
        if name in adjusted:
            value_keys |= _facts_above_chance(metric, named)
    keys = {key: facts for key, facts in value_keys.items() if facts.row_group is None}
    keys |= value_keys  # those of row groups stand behind those of all rows
    for metric in averages:
        keys |= _facts_of_average(metric, named)

    return RowFacts(
        keys=keys,
        gaps=_gaps(metrics, [means[name] for name in adjusted], named),
        row_groups=list(
            dict.fromkeys(chain(*(metric.row_groups or () for metric in metrics)))
        ),
        buckets=list(
            dict.fromkeys(chain(*(metric.bucket_names for metric in metrics)))
        ),
        captions=_captions(metrics, named),
        over_all=dict(over_all or {}),
        what_buckets_are=_what_buckets_are(metrics),
        headline=headline,
    )


def _gaps(
    metrics: Iterable[Any], adjusted: Iterable[Any], named: Named
) -> dict[str, list[str]]:
    """Return the keys of buckets by name of a gap, also of gaps adjusted for chance."""
    gaps = {}
    for metric in metrics:
        for stem, keys in buckets_by_stem(metric).items():
            gaps[named(f"{stem}/gap")] = [named(key) for key in keys]
    for metric in adjusted:
        for stem, keys in buckets_by_stem(metric).items():
            gaps[named(f"{stem}/adjusted_gap")] = [
                named(adjusted_key(key)) for key in keys
            ]
    return gaps


def _captions(metrics: Iterable[Any], named: Named) -> dict[str, str]:
    """Return the caption of each metric by bucket."""
    captions = {}
    for metric in metrics:
        if metric.buckets is not None:
            captions.update(
                {named(stem): text for stem, text in captions_of(metric).items()}
            )
    return captions


def _facts_of_mean(metric: Any, named: Named) -> dict[str, KeyFacts]:
    """Return the facts about each key of a metric with values per row."""
    kind = metric.aggregation.row_terms
    columns = [value_columns(named(key), kind == "ratio") for key in metric.row_keys()]
    return _facts_by_key(
        metric,
        named,
        columns,
        is_median=kind == "median",
        is_bounded=metric.bounds == (0.0, 1.0),
        higher_is_better=metric.higher_is_better,
        is_of_softmax=metric.formula.is_of_softmax,
    )


def _facts_above_chance(metric: Any, named: Named) -> dict[str, KeyFacts]:
    """Return the facts about each key of values that are adjusted for chance."""

    def named_adjusted(key: str) -> str:
        return named(adjusted_key(key))

    columns = [
        value_columns(named_adjusted(key), is_ratio=True) for key in metric.row_keys()
    ]
    return _facts_by_key(metric, named_adjusted, columns, is_part=True)


def _facts_of_average(metric: Any, named: Named) -> dict[str, KeyFacts]:
    """Return the facts about each key of an average over labels."""
    spec = spec_of(metric)
    columns = []
    for column in label_columns(metric, named):
        columns += [[column]] * len(spec["sizes"])
    return _facts_by_key(
        metric,
        named,
        columns,
        labels=spec,
        is_bounded=metric.bounds == (0.0, 1.0),
        higher_is_better=metric.higher_is_better,
    )


def _facts_by_key(
    metric: Any, named: Named, columns: Sequence[list[str]], **facts: Any
) -> dict[str, KeyFacts]:
    """Return the facts about each key of a metric, of all rows and of row groups.

    Args:
        metric: The metric.
        named: Returns the name of a key.
        columns: The columns of each key of all rows.
        facts: Facts that all keys share.
    """
    facts_by_key = {}
    for number, group in enumerate(metric.group_keys()):
        row_group = None
        if number > 0:  # the first one is all rows
            row_group = number - 1
        keys = metric.row_keys(group)
        for place, key in enumerate(keys):
            cutoff_number, bucket = divmod(place, len(keys) // len(metric.cutoffs))
            places = None
            if not metric.reading.needs_scores:
                places = metric.reading.places(metric.cutoffs[cutoff_number])
            facts_by_key[named(key)] = KeyFacts(
                columns=columns[place],
                row_group=row_group,
                bucket=bucket,
                places=places,
                **facts,
            )
    return facts_by_key


def _what_buckets_are(metrics: Iterable[Any]) -> str:
    """Return the description of the buckets; empty for several kinds of buckets."""
    kinds = dict.fromkeys(
        metric.bound_buckets for metric in metrics if metric.bound_buckets is not None
    )
    descriptions = {what_buckets_are(list(bucket_rows(buckets))) for buckets in kinds}
    if len(descriptions) != 1:
        return ""
    return descriptions.pop()


def adjusted_key(key: str) -> str:
    """Return the key of a value adjusted for chance."""
    return f"adjusted {key}"


def value_columns(key: str, is_ratio: bool) -> list[str]:
    """Return the names of the columns of a key over all rows."""
    if is_ratio:
        return [key + NUMERATOR, key + DENOMINATOR]
    return [key]
