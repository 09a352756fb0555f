"""What an evaluation found, as plain data; the renderers beside this file turn it into text, figures and pages."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tailmetrics.report.document import Document, Records, Shown
from tailmetrics.report.formatting import Key, split, with_interval
from tailmetrics.report.labels import CurvePoint, LabelTable

if TYPE_CHECKING:
    from tailmetrics.significance.estimating import Interval

MANY_TIES = 0.01
"""Share of rows cut inside a tie above which a report warns, and shows the values of other orders."""
WORST = 3
"""Labels of each bucket that JSON holds of the most often missed; the table of labels holds all."""
COLUMNS = ("metric", "bucket", "value", "labels", "occurrences", "positives", "group", "low", "high")


@dataclass(frozen=True)
class BucketRow:
    """One bucket: its name, labels, occurrences of them in training, and positives in what was evaluated."""

    name: str
    labels: int
    occurrences: int
    positives: int


@dataclass(frozen=True)
class GroupRow:
    """One group of rows: its name, and how many rows belong to it; None where that was not counted."""

    name: str
    rows: int | None = None


@dataclass(frozen=True)
class ExampleLabel:
    """One label of an example.

    Attributes:
        label: Its id.
        name: Empty where labels are numbers.
        bucket: Empty without buckets.
        rank: Its place, from 1; None where it is not retrieved or was cut off.
        hit: Whether it is relevant and shown.
    """

    label: int
    name: str
    bucket: str
    rank: int | None
    hit: bool


@dataclass(frozen=True)
class Example:
    """One row.

    Attributes:
        bucket: The bucket that it is an example of; empty where there is none or one.
        row: Its number; None where rows have none.
        name: Empty where rows are numbers.
        missed: The label for which it was chosen: relevant, and not shown.
        relevant: Relevant labels by rank, at most twelve.
        num_relevant: How many there are.
        shown: The list, best first.
    """

    bucket: str
    row: int | None
    name: str
    missed: int
    relevant: Sequence[ExampleLabel]
    num_relevant: int
    shown: Sequence[ExampleLabel]

    @property
    def told(self) -> str:
        """The row by name or number."""
        return self.name or ("" if self.row is None else f"row {self.row:,}")


def today() -> str:
    """Return the date in UTC, or that of ``SOURCE_DATE_EPOCH`` where a build is to be the same twice."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    now = datetime.now(timezone.utc) if epoch is None else datetime.fromtimestamp(int(epoch), timezone.utc)
    return now.date().isoformat()


def plain(value: float) -> float | str | None:
    """Return a value that strict JSON can hold."""
    return None if math.isnan(value) else value if math.isfinite(value) else str(value)


def summary_of_counts(counts: Tensor) -> dict[str, Any]:
    """Return a short summary of training counts; different counts have different summaries."""
    digest = sha256(counts.cpu().to(torch.int64).numpy().tobytes()).hexdigest()
    return {"labels": counts.numel(), "occurrences": int(counts.sum()), "sha256": digest}


@dataclass(frozen=True)
class Report(Shown):
    """The results of one evaluation.

    Attributes:
        title: What was evaluated.
        scalars: Metric values by key, as ``scalars()`` has them: ``precision@5``, ``recall@10/decile_1``.
        lower_is_better: Keys of metrics of which less is better.
        buckets: Head first; empty without buckets. A key that ends in "/" and one of their names is of that bucket.
        rows: Rows evaluated, if counted.
        positives: Relevant labels over all rows, if counted.
        ties: Share of rows cut inside a tie, by cut-off.
        label_counts: Training counts, for the frequency curve.
        settings: Class and arguments of every metric.
        versions: Of the libraries.
        notes: Further warnings.
        tie_winner: Which of two labels with equal scores is shown.
        row_groups: Groups of rows, such as languages. A key with "/" and one of their names behind the metric is of
            the rows of that group.
        over_all: For each metric by bucket the key of its value over all labels.
        captions: For each metric by bucket what its values are of: scope and cut-off, in words.
        places: Metrics whose values are places in a list.
        shares: Metrics whose values are the buckets' shares of what is shown.
        summaries: Gap and spread of each metric by bucket, as ``TopKCollection.summaries()`` has them.
        labels: Values of single labels, if any were asked for.
        intervals: Confidence intervals by key.
        examples: A few rows, for each bucket one that misses a label of it.
        history: Epoch, step and values by key of the validations of a fit, oldest first.
        references: Values by key of models that need no run, ``{"chance": …, "popularity": …, "attainable": …}``: all
            scores equal, training counts as scores, targets as scores. None where they were not computed.
        tie_bounds: Values by key over the orders of equal scores, ``{"worst": …, "expected": …, "best": …}``. None
            where they were not computed.
        postfix: What stands behind every key, buckets included, as the collection has it.
        date: The day of the evaluation, in UTC.
    """

    title: str
    scalars: Mapping[str, float]
    lower_is_better: tuple[str, ...] = ()
    buckets: list[BucketRow] = field(default_factory=list)
    rows: int | None = None
    positives: int | None = None
    ties: Mapping[int, float] = field(default_factory=dict)
    label_counts: Tensor | None = field(default=None, repr=False)
    settings: list[dict[str, Any]] = field(default_factory=list)
    versions: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    tie_winner: str = "the lower label id"
    row_groups: list[GroupRow] = field(default_factory=list)
    over_all: Mapping[str, str] = field(default_factory=dict)
    captions: Mapping[str, str] = field(default_factory=dict)
    places: tuple[str, ...] = ()
    shares: tuple[str, ...] = ()
    summaries: Mapping[str, float] = field(default_factory=dict)
    labels: LabelTable | None = field(default=None, repr=False)
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    examples: Sequence[Example] = field(default=(), repr=False)
    history: Sequence[Mapping[str, Any]] = field(default=(), repr=False)
    references: Mapping[str, Mapping[str, float]] | None = field(default=None, repr=False)
    tie_bounds: Mapping[str, Mapping[str, float]] | None = field(default=None, repr=False)
    postfix: str = ""
    date: str = field(default_factory=today)

    stem = "report"

    @cached_property
    def parts(self) -> dict[Key, float]:
        """Values by metric, group of rows and bucket."""
        return {self.split(key): value for key, value in self.scalars.items()}

    def split(self, key: str) -> Key:
        """Return metric, group of rows and bucket of a key."""
        groups, buckets = (group.name for group in self.row_groups), (row.name for row in self.buckets)
        return split(key, groups, buckets, self.postfix)

    def key(self, metric: str, name: str = "", group: str = "") -> str:
        """Return the key of a metric in a bucket and a group of rows, or of its gap or spread."""
        return "/".join(part for part in (metric.removesuffix(self.postfix), group, name) if part) + self.postfix

    @property
    def overall(self) -> dict[str, float]:
        """Values over all rows and labels."""
        return {key.metric: value for key, value in self.parts.items() if not (key.group or key.bucket)}

    @property
    def by_bucket(self) -> dict[str, dict[str, float]]:
        """Values over all rows by metric and bucket."""
        return self.of_group("")

    def of_group(self, group: str) -> dict[str, dict[str, float]]:
        """Return the values of the rows of a group, "" for all rows, by metric and bucket."""
        found: dict[str, dict[str, float]] = {}
        for key, value in self.parts.items():
            if key.bucket and key.group == group:
                found.setdefault(key.metric, {})[key.bucket] = value
        return found

    @property
    def by_group(self) -> dict[str, dict[str, float]]:
        """Values over all labels by metric and group of rows."""
        found: dict[str, dict[str, float]] = {}
        for key, value in self.parts.items():
            if key.group and not key.bucket:
                found.setdefault(key.metric, {})[key.group] = value
        return found

    @cached_property
    def curves(self) -> dict[str, list[CurvePoint]]:
        """Values of single labels as functions of the training count; none without labels or counts."""
        return {} if self.labels is None else self.labels.curves(self.label_counts)

    def value_over_all(self, metric: str, group: str = "") -> float | None:
        """Return the value over all labels of a metric by bucket; None where it has none."""
        return self.parts.get(Key(self.over_all.get(metric, metric), group, ""))

    def text(self, key: str, alone: bool = False) -> str:
        """Return a value as a table shows it, with its interval behind it unless it is to stand alone."""
        is_place = self.split(key).metric in self.places
        return with_interval(self.scalars.get(key, math.nan), None if alone else self.intervals.get(key), is_place)

    def less_is_better(self, metric: str) -> bool:
        """Whether less of ``metric``, overall or by bucket, is better."""
        return metric in self._metrics_of_less

    @cached_property
    def _metrics_of_less(self) -> frozenset[str]:
        return frozenset(self.split(key).metric for key in self.lower_is_better)

    @property
    def warnings(self) -> list[str]:
        """What a reader should know before believing the numbers."""
        found = []
        ties = ", ".join(f"{share:.1%} at k={k}" for k, share in self.ties.items() if share > MANY_TIES)
        if ties:
            other = ' "What equal scores hide" has the values of other orders.' if self.tie_bounds else ""
            found.append(
                f"Rows are cut inside a tie ({ties}): there {self.tie_winner} is shown, whatever the model.{other}"
            )
        bare = [row.name for row in self.buckets if not row.labels and row.name != "unseen"]
        if bare:
            found.append(f"No label in {', '.join(bare)}: there are too few labels for so many buckets.")
        empty = [row.name for row in self.buckets if row.labels and not row.positives]
        if empty and self.rows:
            found.append(f"No positive in {', '.join(empty)}: metrics that need one are NaN there.")
        unseen = sum(row.positives for row in self.buckets if row.name == "unseen")
        if unseen and self.positives:
            found.append(f"{unseen / self.positives:.1%} of the positives are labels never seen in training.")
        return [*found, *self.notes]

    def document(self, brief: bool = False, references: bool = False) -> Document:
        """Return what every renderer shows.

        Args:
            brief: Whether it is for a terminal: fewer labels and rows, no history.
            references: Whether tables have the references of each value beside it.
        """
        from tailmetrics.report.report_sections import report_document

        return report_document(self, brief, references)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data: metric keys as in ``scalars()``, NaN as None."""
        worst = [] if self.labels is None else map(self.labels.record, self.labels.most_missed(WORST))
        return {
            "title": self.title,
            "date": self.date,
            "rows": self.rows,
            "positives": self.positives,
            "metrics": _plain(self.scalars),
            "by_bucket": {metric: _plain(values) for metric, values in self.by_bucket.items()},
            "over_all": dict(self.over_all),
            "captions": dict(self.captions),
            "summaries": _plain(self.summaries),
            "intervals": {key: _plain(asdict(interval)) for key, interval in self.intervals.items()},
            "references": _plain_by_name(self.references),
            "tie_bounds": _plain_by_name(self.tie_bounds),
            "buckets": [asdict(row) for row in self.buckets],
            "row_groups": [asdict(row) for row in self.row_groups],
            "worst_labels": [_plain(record) for record in worst],
            "examples": [asdict(one) for one in self.examples],
            "label_counts": None if self.label_counts is None else summary_of_counts(self.label_counts),
            "ties": {f"tie_rate@{k}": plain(share) for k, share in self.ties.items()},
            "warnings": self.warnings,
            "settings": self.settings,
            "versions": dict(self.versions),
        }

    def records(self) -> dict[str, Records]:
        """Return what CSV holds, by the name of the file behind the stem.

        The file of the report itself has a line per value. Lines without a bucket are the values over all labels,
        those without a group are over all rows; ``occurrences`` are those in training, ``low`` and ``high`` the ends
        of the confidence interval. References and the bounds of ties follow where they are known. Gap and spread come
        last.
        """
        more = {**(self.references or {}), **(self.tie_bounds or {})}
        found: dict[str, Records] = {"": ([*COLUMNS, *more], self._lines(more))}
        if self.labels is not None:
            found["labels"] = (self.labels.header(), self.labels.lines())
        if self.curves:
            points = ((name, *point) for name, points in self.curves.items() for point in points)
            found["curve"] = (["metric", *CurvePoint._fields], points)
        return found

    def _lines(self, more: Mapping[str, Mapping[str, float]]) -> Iterator[Sequence[object]]:
        known = {row.name: (row.labels, row.occurrences, row.positives) for row in self.buckets}
        for (name, value), key in zip(self.scalars.items(), self.parts, strict=True):
            interval = self.intervals.get(name)
            ends = (None, None) if interval is None else (interval.low, interval.high)
            counts = known.get(key.bucket, (None, None, None))
            beside = (values.get(name) for values in more.values())
            yield key.metric, key.bucket, value, *counts, key.group, *ends, *beside
        for name, value in self.summaries.items():
            yield name, "", value, *[None] * (len(COLUMNS) + len(more) - 3)


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: plain(value) if isinstance(value, float) else value for name, value in values.items()}


def _plain_by_name(values: Mapping[str, Mapping[str, float]] | None) -> dict[str, Any] | None:
    return None if values is None else {name: _plain(of_name) for name, of_name in values.items()}
