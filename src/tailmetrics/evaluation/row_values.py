"""Values per row, and the labels that rows hit, predict and hold, from which intervals and comparisons are computed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import torch

from tailmetrics.collection import TopKCollection, buckets_by_stem
from tailmetrics.evaluation.description import bucket_rows, captions_of
from tailmetrics.metrics import TopKMetric
from tailmetrics.metrics._batches import is_listed
from tailmetrics.metrics._states import InBlocks, Increment
from tailmetrics.ranking import Ranking
from tailmetrics.ranking._device import one_thread
from tailmetrics.report.report import what_buckets_are
from tailmetrics.significance.areas import AreaRows
from tailmetrics.significance.halves import mixed
from tailmetrics.significance.influence import Array, Flags, Ints
from tailmetrics.significance.labels import LabelRows, OverLabels, ShownRows

Lists: TypeAlias = tuple[Ints, Ints]
"""The number of codes of each row, shape (N,), and the concatenated codes of all rows."""

MOST = 2**24
"""Largest number of codes that are kept for a cut-off, 128 MB; with more, averages over labels have no interval."""
BINS, MARKS = 8192, 256
"""``BINS`` numbers code a bin, of 4,096 at most, and whether the label is relevant. ``MARKS`` is the number of hashes
that tell the scores in a bin apart: two different scores share a hash in 1 of 256 cases."""


NUMERATOR, DENOMINATOR = ".numerator", ".denominator"
LABELS, LENGTHS = "labels of ", ".lengths"
"""Prefix of columns with codes of the labels that rows hit, predict and hold; suffix of columns with their number."""
GROUP, COUNTS = "row_group", "row counts"
NOTHING = 1e-12
"""The denominator of a row in a ratio 0 / 0, for comparisons: far below the 1 of a single prediction."""
LISTED = "list length"
"""Name of the column with the length of each row's list; scores of all labels have no such column."""


def has_row_values(metric: TopKMetric) -> bool:
    """Whether runs are compared by values per row of a metric: not if it is neither good nor bad."""
    return metric.aggregation.row_terms is not None and metric.aggregation.is_quality


def gaps_of(metric: TopKMetric, named: Callable[[str], str] = str, adjusted: bool = False) -> dict[str, list[str]]:
    """Return the name of each gap with the keys of its buckets, head first, without the bucket of unseen labels.

    Args:
        metric: The metric.
        named: Adds prefix and postfix to a key.
        adjusted: Whether values are adjusted for chance; a report has no keys for adjusted values.
    """
    gap, part = ("adjusted_gap", adjusted_key) if adjusted else ("gap", str)
    return {named(f"{stem}/{gap}"): [named(part(key)) for key in keys] for stem, keys in buckets_by_stem(metric)}


def adjusted_key(key: str) -> str:
    """Return the key of a value adjusted for chance."""
    return f"adjusted {key}"


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
        gaps = {name: [key for key in of if key in keys] for name, of in self.gaps.items()}
        medians, parts = ([key for key in some if key in keys] for some in (self.medians, self.parts))
        unbounded = [key for key in self.unbounded if key in keys or key in gaps]
        return {"medians": medians, "unbounded": unbounded, "gaps": gaps, "parts": parts}


def has_label_cells(metric: TopKMetric, shown: bool = False) -> bool:
    """Whether rows give codes for a metric: averages over labels and, if ``shown``, functions of the shown labels."""
    return metric.aggregation.label_terms() is not None and (shown or metric.aggregation.is_quality)


def spec_of(metric: TopKMetric) -> dict[str, Any]:
    """Return, as plain data, how to compute a value from codes; ``sizes`` is the number of labels in each bucket."""
    buckets = metric.bound_buckets
    sizes = [metric.num_labels] if buckets is None else buckets.label_counts.tolist()
    return {**(metric.aggregation.label_terms() or {}), "sizes": sizes}


def over_labels(spec: Mapping[str, Any], bucket: int, lists: Lists, inside: Flags) -> OverLabels:
    """Return the decoded labels of all rows for the value of one bucket.

    Args:
        spec: Result of :func:`spec_of` for the metric.
        bucket: Number of the bucket, 0 without buckets.
        lists: The codes of all rows.
        inside: Shape (N,), bool: True for rows that count.
    """
    lengths, codes = lists
    rows, number = np.repeat(np.arange(lengths.size), lengths), len(spec["sizes"])
    kept = inside[rows]
    if "area" in spec:
        table = codes.reshape(lengths.size, codes.size // max(lengths.size, 1))
        found = table[:, (table // (BINS * MARKS) == bucket).all(axis=0)]
        bins, marks = found % BINS // 2, found // BINS % MARKS
        return AreaRows(bins, found % 2 > 0, inside, spec["area"], spec["average"], marks)
    label, flags = codes // 4, codes % 4
    kept &= label % number == bucket
    cells = rows[kept], label[kept] // number, flags[kept] % 2 > 0, flags[kept] > 1
    if "exposure" in spec:
        return ShownRows(*cells, inside, sum(spec["sizes"]), spec["exposure"], spec["sizes"][bucket], spec["weights"])
    more: dict[str, Any] = {name: spec[name] for name in ("top", "over", "weighted", "of_averages") if name in spec}
    more["below"] = tuple(spec.get("below", (0.0, 1.0)))  # of a file, a list
    return LabelRows(*cells, inside, sum(spec["sizes"]), size=spec["sizes"][bucket], **more)


def lists_of(metric: Any, ranking: Ranking) -> list[Lists]:
    """Return the codes of a batch for each cut-off; a code is an int64 for one label of a row."""
    size, num_labels = ranking.num_rows, int(metric.num_labels)
    buckets = metric.bound_buckets
    bucket = np.zeros(num_labels, np.int64) if buckets is None else buckets.assignment.cpu().numpy()
    cells = metric.aggregation.label_cells(ranking)
    if not cells:
        bins, relevant, scores = (part.numpy() for part in metric.aggregation.bins_of_rows(ranking))
        bits = (scores.astype(np.float64) + 0.0).view(np.int64)  # + 0.0: -0.0 becomes 0.0
        coded = (bucket * MARKS + (mixed(bits) & (MARKS - 1))) * BINS + 2 * bins + relevant
        return [(np.full(size, num_labels), coded.ravel())]
    found = []
    for of_cutoff in cells:
        codes = [num_labels * rows + labels for rows, labels in map(_changed, of_cutoff)]
        every = np.unique(np.concatenate(codes))
        rows, label = np.divmod(every, num_labels)
        own, made = (np.isin(every, np.concatenate([codes[0], one])) for one in (codes[2], codes[1]))
        coded_labels = (label * (1 if buckets is None else len(buckets)) + bucket[label]) * 4 + 2 * own + made
        found.append((np.bincount(rows, minlength=size), coded_labels))
    return found


def _changed(increment: Increment | None) -> Lists:
    """Return rows and labels of the cells that a batch changes in a state; none without an increment."""
    blocks: Iterator[Any] = increment.blocks() if isinstance(increment, InBlocks) else iter([increment])
    parts = [
        [side[one.amounts != 0].cpu().numpy() for side in (one.rows, one.cells)] for one in blocks if one is not None
    ]
    empty = np.zeros(0, np.int64)
    rows, labels = (np.concatenate([empty, *(part[side] for part in parts)]) for side in (0, 1))
    return rows, labels


def hashes(lengths: Ints, codes: Ints) -> Ints:
    """Return for each row a hash of its codes, which depends on the order of the codes."""
    rows = np.repeat(np.arange(lengths.size), lengths)
    place = np.arange(codes.size) - (np.cumsum(lengths) - lengths)[rows]
    total = np.zeros(lengths.size, np.int64)
    np.add.at(total, rows, mixed(codes * 1_000_003 + place))
    return total


def taken(pair: Lists, order: Ints) -> Lists:
    """Return the lists with the rows in the order ``order``."""
    lengths, codes = pair
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    return lengths[order], codes[np.argsort(np.repeat(place, lengths), kind="stable")]


class RowColumns:
    """Makes columns of values per row from rankings: a number, two numbers for a ratio, or a list of coded labels.

    Args:
        collection: The metrics; metrics without values per row are left out.
        over_all: Metric by bucket -> the key of its value over all labels.
        num_rows: Number of rows in all batches; areas are left out if they need more than :data:`MOST` codes.
        labels_alone: Whether only averages over labels, and functions of the shown labels, have columns.
        headline: The metric that results are about, as a key without bucket.

    Attributes:
        facts: Facts about keys that the columns do not hold.
        metrics: The metrics that have columns.
    """

    def __init__(
        self,
        collection: TopKCollection,
        over_all: Mapping[str, str] | None = None,
        num_rows: int = 0,
        labels_alone: bool = False,
        headline: str = "",
    ) -> None:
        self._collection, named = collection, collection.named
        members = collection.members()
        of_rows = {name: metric for name, metric in members.items() if has_row_values(metric)}
        self._means: dict[str, Any] = {} if labels_alone else of_rows
        # for a metric that is not bound, the first update raises an error with its name
        averages = [one for one in members.values() if one.is_bound and has_label_cells(one, labels_alone)]
        # an area reads the scores of all labels of a row
        fit = (one for one in averages if "area" not in spec_of(one) or num_rows * int(one.num_labels or 0) <= MOST)
        self._averages: list[Any] = list(fit)
        counting = [one for one in members.values() if one.is_bound and one.aggregation.keeps_all_counts]
        deepest = max(counting, key=deepest_cutoff, default=None) if labels_alone else None
        self._of_each_label: Any = deepest if deepest is not None and deepest_cutoff(deepest)[0] else None
        if self._of_each_label is not None and all(one is not deepest for one in self._averages):
            self._averages.append(deepest)
        self.metrics: list[Any] = [*self._means.values(), *self._averages]
        adjusted = [name for name in collection.reference_models.adjusted if name in self._means]
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
            medians=self._keys(one for one in means if one.aggregation.row_terms == "median"),
            lower_is_better=self._keys(one for one in means if one.higher_is_better is False),
            unbounded=unbounded,
            gaps=gaps,
            parts=parts,
            of_groups=of_groups,
            labels=dict(one for metric in self._averages for one in self._of_labels(metric)),
            row_groups=list(dict.fromkeys(name for metric in self.metrics for name in metric.row_groups or ())),
            buckets=list(dict.fromkeys(name for metric in self.metrics for name in metric.bucket_names)),
            captions={named(stem): text for metric in by_bucket for stem, text in captions_of(metric).items()},
            over_all=dict(over_all or {}),
            headline=headline,
            what_buckets_are=said.pop() if len(said) == 1 else "",
            of_softmax=self._keys(one for one in means if one.formula.is_of_softmax),
            reaches=dict(
                one for metric in self.metrics if not metric.reading.needs_scores for one in self._reaches(metric)
            ),
        )

    def of(self, ranking: Ranking) -> dict[str, Any]:
        """Return the columns of a batch: values, shape (N,), or the codes of all rows and their number per row."""
        found: dict[str, Any] = {}
        if ranking.rows.groups is not None:
            found[GROUP] = ranking.rows.groups.cpu().numpy().astype(np.int64)
        if ranking.row_mask is not None:
            found[COUNTS] = ranking.row_mask.cpu().numpy()
        if is_listed(ranking) and self.facts.reaches:
            found[LISTED] = ranking.length.cpu().numpy()
        with one_thread():
            for name, metric in self._means.items():
                for key, value in metric.row_values(ranking).items():
                    found |= _columns(self._collection.named(key), value)
                for key, value in self._collection.reference_models.above_chance(name, ranking).items():
                    found |= _columns(self._collection.named(adjusted_key(key)), value)
        for metric in self._averages:
            for name, (lengths, codes) in zip(self._label_columns(metric), lists_of(metric, ranking), strict=True):
                found |= {name + LENGTHS: lengths, name: codes}
        return found

    def _keys(self, metrics: Iterable[Any]) -> list[str]:
        return [self._collection.named(key) for metric in metrics for key in list(metric.keys())]

    def _reaches(self, metric: Any) -> Iterator[tuple[str, int]]:
        """Yield each key with the number of places of a list that it reads, 0 for all."""
        for group in metric.group_keys():
            keys = list(metric.row_keys(group))
            for place, key in enumerate(keys):
                k = metric.cutoffs[place * len(metric.cutoffs) // len(keys)]
                yield self._collection.named(key), metric.reading.places(k)

    def _label_columns(self, metric: Any) -> list[str]:
        """Return the column name of each cut-off, made of its first key: codes depend on the buckets."""
        keys = list(metric.row_keys(metric.group_keys()[0])) or metric.cutoff_keys()
        return [LABELS + self._collection.named(key) for key in keys[:: len(keys) // len(metric.cutoffs)]]

    def _of_labels(self, metric: Any) -> Iterator[tuple[str, tuple[str, dict[str, Any], int, int | None]]]:
        spec = spec_of(metric)
        for number, group in enumerate(metric.group_keys() if metric.row_keys() else ()):
            keys = iter(metric.row_keys(group))
            for column in self._label_columns(metric):
                for bucket in range(len(spec["sizes"])):
                    yield self._collection.named(next(keys)), (column, spec, bucket, number - 1 if number else None)


def deepest_cutoff(metric: Any) -> tuple[int, int]:
    """Return the deepest cut-off of a metric, and its place; 0 for thresholds."""
    return max((k if isinstance(k, int) else 0, place) for place, k in enumerate(metric.cutoffs))


def _columns(key: str, value: Any) -> dict[str, Array]:
    ends = zip((NUMERATOR, DENOMINATOR), value, strict=True) if isinstance(value, tuple) else [("", value)]
    return {key + end: side.detach().cpu().numpy().astype(np.float64) for end, side in ends}


def keys_in(columns: Collection[str], facts: RowFacts) -> dict[str, bool]:
    """Return the keys whose values columns hold, each with whether it is a ratio of a numerator and a denominator."""
    numbers = [name for name in columns if name not in (GROUP, COUNTS, LISTED) and not name.startswith(LABELS)]
    values = [name for name in numbers if not name.endswith(DENOMINATOR)]
    found = {name.removesuffix(NUMERATOR): name.endswith(NUMERATOR) for name in values}
    found |= {key: found[whole] for key, (whole, _) in facts.of_groups.items() if whole in found}
    return found | {key: False for key, (column, *_) in facts.labels.items() if column in columns}


def columns_of(key: str, facts: RowFacts, known: Collection[str]) -> list[str]:
    """Return the names of the columns from which a key is read; ``known`` holds the names of all columns."""
    if key in facts.labels:
        return [facts.labels[key][0]]
    whole = facts.of_groups.get(key, (key,))[0]
    return [whole + NUMERATOR, whole + DENOMINATOR] if whole + NUMERATOR in known else [whole]


def read_columns(
    keys: Iterable[str],
    facts: RowFacts,
    columns: Mapping[str, Any],
    scalars: Mapping[str, float] = MappingProxyType({}),
    nothing: float = 0.0,
) -> dict[str, Any]:
    """Return values of rows by key, as :data:`tailmetrics.significance.RowValues`, NaN where a row does not count.

    Args:
        keys: The keys to read.
        facts: Facts about keys that the columns do not hold.
        columns: Columns from :class:`RowColumns`; ``GROUP`` holds the group number of each row.
        scalars: The values in the report by key; where a value is NaN, nothing is relevant, and no row counts.
        nothing: The denominator of a row in a ratio 0 / 0 that the report counts as 0.
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
    for key, rows in found.items():
        value = scalars.get(key, 1.0)
        if math.isnan(value):
            one = rows[0] if isinstance(rows, tuple) else getattr(rows, "inside", rows)
            found[key] = np.full(one.shape, np.nan)
        elif value == 0 and isinstance(rows, tuple) and not np.nansum(rows[1]):
            found[key] = rows[0], rows[1] + nothing
    return found


class RowValues(RowColumns):
    """Collects the values of every row of an evaluation: 8 bytes for each row and key, or for each code of a label.

    Args:
        collection: As for :class:`RowColumns`.
        over_all: As for :class:`RowColumns`.
        labels_alone: As for :class:`RowColumns`. An average with too many codes is then left out, without an error.
        headline: As for :class:`RowColumns`.
    """

    def __init__(
        self,
        collection: TopKCollection,
        over_all: Mapping[str, str] | None = None,
        labels_alone: bool = False,
        headline: str = "",
    ) -> None:
        super().__init__(collection, over_all, labels_alone=labels_alone, headline=headline)
        self._labels_alone, self._batches, self._held = labels_alone, list[dict[str, Any]](), dict[str, int]()

    def add(self, ranking: Ranking) -> None:
        """Add the rows of a batch.

        Raises:
            ValueError: If rows have too many predicted or relevant labels, unless ``labels_alone`` is True.
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
                        f"{name.removeprefix(LABELS)}: rows have more than {MOST:,} predicted or relevant labels, too "
                        "many to keep; resample no averages over labels, compare none, or evaluate fewer rows."
                    )
                self._averages = [one for one in self._averages if one is not metric]
                for one in self._batches:
                    one.pop(name, None)

    def merge_state(self, other: RowValues) -> None:
        """Append the rows of another evaluation."""
        if other._batches:
            self._keep(joined(other._batches))

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return the columns of the rows."""
        return {name: torch.from_numpy(column) for name, column in joined(self._batches).items()}

    def load_state_dict(self, columns: Mapping[str, torch.Tensor]) -> None:
        """Replace the rows by rows from :meth:`state_dict`."""
        batch = {name: column.numpy() for name, column in columns.items()}
        self._batches = [batch] if batch else []
        self._held = {name: column.size for name, column in batch.items()}

    def columns(self, scalars: Mapping[str, float] = MappingProxyType({}), nothing: float = 0.0) -> dict[str, Any]:
        """Return the values of all rows by key: a vector, two vectors for a ratio, or labels for a label average.

        For the arguments see :func:`read_columns`.
        """
        columns = joined(self._batches)
        return read_columns(keys_in(columns, self.facts), self.facts, columns, scalars, nothing)

    @property
    def list_lengths(self) -> Ints | None:
        """Number of labels in the list of each row, shape (N,); None if preds are scores of all labels."""
        return joined(self._batches).get(LISTED)

    def by_content(self) -> dict[str, Any]:
        """Return the labels of the rows of all processes, by key of a label average; call it in every process.

        Rows are sorted by their content, so that batches and processes do not change a single bit.
        """
        columns = joined([part for part in from_all(joined(self._batches)) if part])
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

    def listed_instead(self, labels: Sequence[int]) -> dict[int, list[tuple[int, int]]]:
        """Return the labels that are most often listed in the place of some labels; call it in every process.

        In the place of a label are wrong labels in lists of rows that miss it. For each label there are at most three,
        with the number of these rows; none if nothing keeps the labels of rows.
        """
        columns, counts = joined(self._batches), {label: Counter[int]() for label in labels}
        metric = self._of_each_label
        name = "" if metric is None else self._label_columns(metric)[deepest_cutoff(metric)[1]]
        if name in columns:
            rows = np.repeat(np.arange(columns[name + LENGTHS].size), columns[name + LENGTHS])
            label, flags = columns[name] // 4 // len(spec_of(metric)["sizes"]), columns[name] % 4
            near = np.isin(rows, rows[(flags == 2) & np.isin(label, labels)])
            rows, label, flags = rows[near], label[near], flags[near]
            for one, found in counts.items():
                without = np.isin(rows, rows[(flags == 2) & (label == one)])
                found.update(label[without & (flags == 1)].tolist())
        everywhere = from_all(counts)
        summed = {label: sum((one[label] for one in everywhere), Counter[int]()) for label in labels}
        return {label: sorted(found.items(), key=lambda of: (-of[1], of[0]))[:3] for label, found in summed.items()}


def from_all(value: Any) -> list[Any]:
    """Return the values of all processes; every process gets all of them."""
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return [value]
    found: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(found, value)
    return found


def joined(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the columns that all parts have, with the parts concatenated in order."""
    names = [name for name in parts[0] if all(name in part for part in parts)] if parts else ()
    return {name: np.concatenate([part[name] for part in parts]) for name in names}
