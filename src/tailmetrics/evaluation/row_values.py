"""Values of single rows, which intervals and comparisons are made of."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailmetrics._summaries import UNSEEN
from tailmetrics.collection import TopKCollection
from tailmetrics.evaluation.description import bucket_rows, captions_of
from tailmetrics.evaluation.label_cells import (
    MOST,
    from_all,
    has_label_cells,
    hashes,
    lists_of,
    over_labels,
    spec_of,
    taken,
)
from tailmetrics.metrics import KForRecall, TopKMetric
from tailmetrics.metrics._metric import ShownMetric
from tailmetrics.ranking import Ranking
from tailmetrics.ranking._device import one_thread
from tailmetrics.report.report import what_buckets_are

Column = NDArray[np.float64]
NUMERATOR, DENOMINATOR = ".numerator", ".denominator"
LABELS, LENGTHS = "labels of ", ".lengths"
"""What columns of labels begin with: the codes of the labels that rows hit, predict and hold; and how many each has."""
GROUP, COUNTS = "row_group", "row counts"


def has_row_values(metric: TopKMetric) -> bool:
    """Whether rows have a value to compare runs by: not an average over labels, nor what is shown, good or bad."""
    by_rows = getattr(metric, "average", "samples") in ("samples", "micro")
    return type(metric)._of_rows is not TopKMetric._of_rows and by_rows and not isinstance(metric, ShownMetric)


def gaps_of(metric: TopKMetric, named: Callable[[str], str] = str, adjusted: bool = False) -> dict[str, list[str]]:
    """Return the name of each gap with the keys of its buckets, head first, without labels that training never saw.

    Args:
        metric: The metric.
        named: Completes keys.
        adjusted: Whether values are adjusted for chance: such values are no key of a report.
    """
    found: dict[str, list[str]] = {}
    for key in (key for group in metric.group_keys() for key in metric.row_keys(group)):
        stem, _, bucket = key.rpartition("/")
        if metric.buckets is not None and bucket != UNSEEN:
            gap, part = ("adjusted_gap", adjusted_key(key)) if adjusted else ("gap", key)
            found.setdefault(named(f"{stem}/{gap}"), []).append(named(part))
    return found


def adjusted_key(key: str) -> str:
    """Return the key of a value adjusted for chance."""
    return f"adjusted {key}"


@dataclass(frozen=True, kw_only=True)
class RowFacts:
    """What columns of values per row do not tell by themselves, as plain data.

    Attributes:
        medians: Keys of which the median is reported.
        lower_is_better: Keys of which less is better.
        unbounded: Keys whose values can lie outside [0, 1], and gaps of which they can lie outside [-1, 1].
        gaps: Name of a gap -> the keys of its buckets, head first, without labels that training never saw.
        parts: Keys that are read for gaps alone.
        of_groups: Key of a group of rows -> the key over all rows, and the number of the group.
        labels: Key of an average over labels -> its column, how it is made of codes, its bucket and group of rows.
        row_groups: Names of the groups.
        buckets: Names of the buckets, head first.
        captions: For each metric by bucket what its values are of.
        over_all: For each metric by bucket the key of its value over all labels.
        what_buckets_are: That in words; empty for several kinds of buckets.
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

    def among(self, keys: Collection[str]) -> dict[str, Any]:
        """Return what :func:`tailmetrics.significance.intervals` is told of some keys."""
        gaps = {name: [key for key in of if key in keys] for name, of in self.gaps.items()}
        medians, parts = ([key for key in some if key in keys] for some in (self.medians, self.parts))
        unbounded = [key for key in self.unbounded if key in keys or key in gaps]
        return {"medians": medians, "unbounded": unbounded, "gaps": gaps, "parts": parts}


class RowColumns:
    """What rows are worth, a batch at a time, as columns: numbers, two for a ratio, or lists of coded labels.

    Args:
        collection: The metrics; those without values per row are left out.
        over_all: For each metric by bucket the key of its value over all labels.
        num_rows: How many rows there will be; areas are left out where they would be too many.
        labels_alone: Whether only averages over labels, and functions of what is shown, have columns.

    Attributes:
        facts: What the columns do not tell by themselves.
        metrics: The metrics that have columns.
    """

    def __init__(
        self,
        collection: TopKCollection,
        over_all: Mapping[str, str] | None = None,
        num_rows: int = 0,
        labels_alone: bool = False,
    ) -> None:
        self._collection, named = collection, collection._set_name
        members = collection.members()
        of_rows = {name: metric for name, metric in members.items() if has_row_values(metric)}
        self._means: dict[str, Any] = {} if labels_alone else of_rows
        # what is left open is refused by name in the first update
        averages = [one for one in members.values() if one.is_bound and has_label_cells(one, labels_alone)]
        # an area reads the scores of all labels of a row
        fit = (one for one in averages if "area" not in spec_of(one) or num_rows * int(one.num_labels or 0) <= MOST)
        self._averages: list[Any] = list(fit)
        self.metrics: list[Any] = [*self._means.values(), *self._averages]
        adjusted = [name for name in collection.adjusted if name in self._means]
        gaps: dict[str, list[str]] = {}
        unbounded: list[str] = []
        for metric in self.metrics:
            gaps |= gaps_of(metric, named)
            unbounded += [] if metric.bounds == (0.0, 1.0) else [*self._keys([metric]), *gaps_of(metric, named)]
        of_groups, parts = dict[str, tuple[str, int]](), list[str]()
        for name, metric in self._means.items():
            names: list[Callable[[str], str]] = [str, adjusted_key] if name in adjusted else [str]
            beyond_chance = gaps_of(metric, named, adjusted=True) if name in adjusted else {}
            gaps |= beyond_chance
            unbounded += beyond_chance
            for number, group in enumerate(metric.group_keys()):
                for key, whole in zip(metric.row_keys(group), metric.row_keys(), strict=True):
                    parts += [named(adjusted_key(key))] if name in adjusted else []
                    of_groups |= {named(of(key)): (named(of(whole)), number - 1) for of in names if number}
        by_bucket = [metric for metric in self.metrics if metric.buckets is not None]
        kinds = dict.fromkeys(one.bound_buckets for one in self.metrics if one.bound_buckets is not None)
        said = {what_buckets_are(list(bucket_rows(buckets))) for buckets in kinds}
        means = self._means.values()
        self.facts = RowFacts(
            medians=self._keys(one for one in means if isinstance(one, KForRecall) and one.statistic == "median"),
            lower_is_better=self._keys(one for one in means if one.higher_is_better is False),
            unbounded=unbounded,
            gaps=gaps,
            parts=parts,
            of_groups=of_groups,
            labels=dict(one for metric in self._averages for one in self._of_labels(metric)),
            row_groups=list(dict.fromkeys(name for metric in self.metrics for name in metric.row_groups or ())),
            buckets=list(dict.fromkeys(name for metric in self.metrics for name in metric._bucket_names)),
            captions={named(stem): text for metric in by_bucket for stem, text in captions_of(metric).items()},
            over_all=dict(over_all or {}),
            what_buckets_are=said.pop() if len(said) == 1 else "",
        )

    def of(self, ranking: Ranking) -> dict[str, Any]:
        """Return the columns of a batch: float64 of shape (N,), or the codes of all rows, and how many each has."""
        found: dict[str, Any] = {}
        if ranking.rows.groups is not None:
            found[GROUP] = ranking.rows.groups.cpu().numpy().astype(np.int64)
        if ranking.row_mask is not None:
            found[COUNTS] = ranking.row_mask.cpu().numpy()
        with one_thread():
            above_chance = self._collection.above_chance(ranking) if self._means else {}
            for name, metric in self._means.items():
                for key, value in metric.row_values(ranking).items():
                    found |= _columns(self._collection._set_name(key), value)
                for key, value in above_chance.get(name, {}).items():
                    found |= _columns(self._collection._set_name(adjusted_key(key)), value)
        for metric in self._averages:
            for name, (lengths, codes) in zip(self._label_columns(metric), lists_of(metric, ranking), strict=True):
                found |= {name + LENGTHS: lengths, name: codes}
        return found

    def _keys(self, metrics: Iterable[Any]) -> list[str]:
        return [self._collection._set_name(key) for metric in metrics for key in list(metric.keys())]

    def _label_columns(self, metric: Any) -> list[str]:
        """Return the column of each cut-off, named after the first of its keys: codes depend on the buckets."""
        keys = list(metric.row_keys(metric.group_keys()[0]))
        return [LABELS + self._collection._set_name(key) for key in keys[:: len(keys) // len(metric.cutoffs)]]

    def _of_labels(self, metric: Any) -> Iterator[tuple[str, tuple[str, dict[str, Any], int, int | None]]]:
        spec = spec_of(metric)
        for number, group in enumerate(metric.group_keys()):
            keys = iter(metric.row_keys(group))
            for column in self._label_columns(metric):
                for bucket in range(len(spec["sizes"])):
                    yield self._collection._set_name(next(keys)), (column, spec, bucket, number - 1 if number else None)


def _columns(key: str, value: Any) -> dict[str, Column]:
    ends = zip((NUMERATOR, DENOMINATOR), value, strict=True) if isinstance(value, tuple) else [("", value)]
    return {key + end: side.detach().cpu().numpy().astype(np.float64) for end, side in ends}


def columns_of(key: str, facts: RowFacts, known: Collection[str]) -> list[str]:
    """Return the names of the columns that a key is read from, of those that there are."""
    if key in facts.labels:
        return [facts.labels[key][0]]
    whole = facts.of_groups.get(key, (key,))[0]
    return [whole + NUMERATOR, whole + DENOMINATOR] if whole + NUMERATOR in known else [whole]


def read_columns(keys: Iterable[str], facts: RowFacts, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return values of rows by key, as :data:`tailmetrics.significance.RowValues`, NaN where a row does not count.

    Args:
        keys: What is asked for.
        facts: What the columns do not tell by themselves.
        columns: As :class:`RowColumns` makes them; ``GROUP`` has the number of the group of each row.
    """
    found: dict[str, Any] = {}
    for key in keys:
        if key in facts.labels:
            column, spec, bucket, group = facts.labels[key]
            lengths = columns[column + LENGTHS]
            inside = columns[COUNTS] if COUNTS in columns else np.ones(len(lengths), bool)
            inside = inside if group is None else inside & (columns[GROUP] == group)
            found[key] = over_labels(spec, bucket, (lengths, columns[column]), inside)
            continue
        sides = [columns[name] for name in columns_of(key, facts, columns)]
        if key in facts.of_groups:
            sides = [np.where(columns[GROUP] == facts.of_groups[key][1], side, np.nan) for side in sides]
        found[key] = tuple(sides) if len(sides) == 2 else sides[0]
    return found


class RowValues(RowColumns):
    """The values of every row of an evaluation, batch by batch: 8 bytes for each row and key, or label of a row.

    Args:
        collection: As for :class:`RowColumns`.
        over_all: As for :class:`RowColumns`.
        labels_alone: As for :class:`RowColumns`. An average over too many labels is then left out, not refused.
    """

    def __init__(
        self, collection: TopKCollection, over_all: Mapping[str, str] | None = None, labels_alone: bool = False
    ) -> None:
        super().__init__(collection, over_all, labels_alone=labels_alone)
        self._labels_alone, self._batches, self._held = labels_alone, list[dict[str, Any]](), dict[str, int]()

    def add(self, ranking: Ranking) -> None:
        """Add a batch.

        Raises:
            ValueError: If rows touch too many labels.
        """
        self._keep(self.of(ranking))

    def _keep(self, batch: dict[str, Any]) -> None:
        self._batches.append(batch)
        for metric in list(self._averages):
            for name in (one for one in self._label_columns(metric) if one in batch):
                self._held[name] = self._held.get(name, 0) + batch[name].size
                if self._held[name] <= MOST:
                    continue
                if not self._labels_alone:
                    raise ValueError(
                        f"{name.removeprefix(LABELS)}: rows touch more than {MOST:,} labels, which are not kept; leave "
                        "averages over labels out of resampled intervals and comparisons, or evaluate fewer rows."
                    )
                self._averages = [one for one in self._averages if one is not metric]
                for one in self._batches:
                    one.pop(name, None)

    def merge_state(self, other: RowValues) -> None:
        """Add the rows of another share, behind those that are here."""
        if other._batches:
            self._keep(joined(other._batches))

    def state_bytes(self) -> bytes:
        """Return the rows as bytes."""
        file = BytesIO()
        np.savez(file, **joined(self._batches))
        return file.getvalue()

    def load_state_bytes(self, data: bytes) -> None:
        """Replace the rows by what :meth:`state_bytes` returned."""
        part = _loaded(data)
        self._batches, self._held = [part] if part else [], {name: column.size for name, column in part.items()}

    def columns(self) -> dict[str, Any]:
        """Return the values of all rows by key; two vectors where a value is a ratio of sums; or what labels count."""
        columns = joined(self._batches)
        names = [name.removesuffix(NUMERATOR) for name in columns if not name.endswith(DENOMINATOR)]
        plain = [name for name in names if name not in (GROUP, COUNTS) and not name.startswith(LABELS)]
        keys = [*plain, *self.facts.of_groups, *self.facts.labels] if columns else ()
        return read_columns(keys, self.facts, columns)

    def by_content(self) -> dict[str, Any]:
        """Return what rows of all processes add to averages over labels, by key; call it in every process.

        Rows are ordered by their content, so that any batches and processes give the same bits.
        """
        columns = joined([part for part in map(_loaded, from_all(self.state_bytes())) if part])
        found: dict[str, Any] = {}
        for metric in self._averages:
            names = self._label_columns(metric)
            if not all(name in columns and columns[name].size <= MOST for name in names):
                continue
            lists = [(columns[name + LENGTHS], columns[name]) for name in names]
            size = lists[0][0].size
            inside = columns.get(COUNTS, np.ones(size, bool))
            groups = columns.get(GROUP, np.full(size, -1))
            order = np.lexsort([groups, inside, *(hashes(*one) for one in lists)])
            ordered = {GROUP: groups[order], COUNTS: inside[order]}
            for name, one in zip(names, lists, strict=True):
                ordered[name + LENGTHS], ordered[name] = taken(one, order)
            found |= read_columns([key for key, _ in self._of_labels(metric)], self.facts, ordered)
        return found


def joined(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the columns that all parts have, one part behind the other."""
    names = [name for name in parts[0] if all(name in part for part in parts)] if parts else ()
    return {name: np.concatenate([part[name] for part in parts]) for name in names}


def _loaded(data: bytes) -> dict[str, Any]:
    with np.load(BytesIO(data), allow_pickle=False) as file:
        return dict(file)
