"""``ReportData``: the results of one evaluation, as records found by key and place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tailmetrics._arguments import grouped
from tailmetrics.report.breakdowns import UNSEEN, BucketRow, GroupRow
from tailmetrics.report.curves import CurvePoint
from tailmetrics.report.document import today
from tailmetrics.report.formatting import counted
from tailmetrics.report.labels import BlindSpot, LabelTable
from tailmetrics.report.records import (
    NO_RECORD,
    ORDERS,
    REFERENCES,
    Breakdown,
    MetricFacts,
    Record,
    to_frame,
    values_by_key,
)
from tailmetrics.report.words import USUAL_WORDS, Words

if TYPE_CHECKING:
    from tailmetrics.significance.interval import Interval


@dataclass(frozen=True)
class ReportData:
    """The results of one evaluation, and what the sections of a report read of them.

    Attributes:
        title: The title, which names the evaluated data.
        records: The values, one :class:`Record` each; gaps and spreads of buckets are
            the last ones.
        metrics: What holds for all values of a metric, one :class:`MetricFacts` for
            each metric.
        headline: The metric that the report is about, as a key without bucket; empty
            for the first one.
        buckets: Buckets of labels, head first.
        row_groups: Groups of rows, such as languages.
        rows: Number of rows evaluated; None if not counted.
        positives: Number of relevant labels over all rows; None if not counted.
        ties: For each cut-off, the share of rows that are cut inside a tie; for None,
            the share of rows in which a relevant label has the score of another label.
        label_counts: Training counts, for the curves of labels.
        labels: Values of single labels; None if they were not asked for.
        settings: Class and arguments of every metric.
        versions: Versions of the libraries.
        notes: Further warnings.
        readings: For each file or table, the sentence that says how it was read.
        tie_winner: The label that is shown if two labels have equal scores, in words.
        postfix: The postfix of the collection, which ends every key, buckets included.
        date: The day of the evaluation, in UTC.
        words: What rows and labels are in this field, such as ``("users", "items")``.
    """

    title: str
    records: Sequence[Record]
    metrics: Sequence[MetricFacts] = ()
    headline: str = ""
    buckets: Sequence[BucketRow] = ()
    row_groups: Sequence[GroupRow] = ()
    rows: int | None = None
    positives: int | None = None
    ties: Mapping[int | None, float] = field(default_factory=dict)
    label_counts: Tensor | None = field(default=None, repr=False)
    labels: LabelTable | None = field(default=None, repr=False)
    settings: Sequence[Mapping[str, Any]] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    readings: tuple[str, ...] = ()
    tie_winner: str = "the lower label id"
    postfix: str = ""
    date: str = field(default_factory=today)
    words: Words = USUAL_WORDS

    # -- records by place --------------------------------------------------------------

    @cached_property
    def by_key(self) -> dict[str, Record]:
        """The records by key."""
        return {record.key: record for record in self.records}

    @cached_property
    def _by_place(self) -> dict[tuple[str, str, str, str], Record]:
        return {
            (record.metric, record.bucket, record.row_group, record.summary): record
            for record in self.records
        }

    def record(
        self, metric: str, bucket: str = "", row_group: str = "", summary: str = ""
    ) -> Record:
        """Return the record of a metric in a bucket and a group of rows, or a summary.

        A summary is over the buckets. Where there is no such record, the returned
        record has no key, and its value is NaN.
        """
        return self._by_place.get((metric, bucket, row_group, summary), NO_RECORD)

    def value(self, metric: str, bucket: str = "", group: str = "") -> float:
        """Return a value; NaN if no row or label counts.

        Raises:
            ValueError: If the report does not have the metric in this bucket and this
                group of rows.
        """
        record = self.record(metric, bucket, group)
        if record is not NO_RECORD:
            return record.value

        names = sorted(
            {name for name, *place in self._by_place if place == [bucket, group, ""]}
        )
        place = f"metric={metric!r}, bucket={bucket!r}, group={group!r}"
        hint = "choose names of report.by_bucket or report.by_group."
        if names:
            hint = f"choose one of {', '.join(map(repr, names))}."
        raise ValueError(f"Report.value: there is no value of {place}; {hint}")

    @cached_property
    def _by_metric(self) -> dict[tuple[Breakdown, str], list[Record]]:
        return grouped(
            ((record.breakdown, record.metric), record) for record in self.records
        )

    def _metrics_of(self, breakdown: Breakdown) -> list[str]:
        """Return the metrics that have values of a breakdown; the headline is first."""
        metrics = [metric for kind, metric in self._by_metric if kind is breakdown]
        return sorted(metrics, key=lambda metric: metric != self.headline)

    @cached_property
    def values_alone(self) -> list[Record]:
        """The records without gaps and spreads."""
        return [record for record in self.records if not record.summary]

    @cached_property
    def overall_records(self) -> list[Record]:
        """The records over all rows and labels."""
        return [
            record for record in self.records if record.breakdown is Breakdown.WHOLE
        ]

    def bucket_records(self, metric: str) -> list[Record]:
        """Return the records of a metric by bucket over all rows, head first."""
        return self._by_metric.get((Breakdown.BUCKETS, metric), [])

    @cached_property
    def metrics_by_bucket(self) -> list[str]:
        """The metrics by bucket; the headline is first."""
        return self._metrics_of(Breakdown.BUCKETS)

    def group_records(self, metric: str) -> list[Record]:
        """Return the records of a metric by group of rows, over all labels."""
        return self._by_metric.get((Breakdown.GROUPS, metric), [])

    @cached_property
    def metrics_by_group(self) -> list[str]:
        """The metrics by group of rows, over all labels; the headline is first."""
        return self._metrics_of(Breakdown.GROUPS)

    @cached_property
    def about(self) -> str:
        """The metric of the report: the headline, or else the first one by bucket.

        Without metrics by bucket, it is the first metric.
        """
        metrics = [
            *self.metrics_by_bucket,
            *(record.metric for record in self.overall_records),
            "",
        ]
        return self.headline or metrics[0]

    def whole(self, metric: str) -> Record:
        """Return the record over all labels of a metric by bucket."""
        return self.by_key.get(self.facts(metric).overall_key, self.record(metric))

    def bucket_record(self, metric: str, bucket: str) -> Record:
        """Return the record of a metric in a bucket over all rows.

        An empty name of a bucket stands for all labels.
        """
        if not bucket:
            return self.whole(metric)
        return self.record(metric, bucket)

    @cached_property
    def _facts(self) -> dict[str, MetricFacts]:
        return {facts.metric: facts for facts in self.metrics}

    def facts(self, metric: str) -> MetricFacts:
        """Return what holds for all values of a metric."""
        return self._facts.get(metric, MetricFacts(metric))

    @cached_property
    def _buckets(self) -> dict[str, BucketRow]:
        return {bucket.name: bucket for bucket in self.buckets}

    def bucket(self, name: str) -> BucketRow:
        """Return a bucket by name."""
        return self._buckets[name]

    def bucket_lines(self, metrics: Sequence[str]) -> list[BucketRow]:
        """Return the lines of a table by bucket: all labels, then buckets with a value.

        The name of the line of all labels is empty; it is left out if no metric has a
        value over all labels.
        """
        names = set()
        for metric in metrics:
            names |= {record.bucket for record in self.bucket_records(metric)}
        lines = [bucket for bucket in self.buckets if bucket.name in names]
        if lines and any(self.whole(metric).key for metric in metrics):
            lines.insert(0, self._all_labels())
        return lines

    def _all_labels(self) -> BucketRow:
        """Return the line of all labels: its numbers are sums over the buckets."""
        # each set of buckets holds all labels once
        first = [bucket for bucket in self.buckets if bucket.kind == 0]
        return BucketRow(
            "",
            labels=sum(bucket.labels for bucket in first),
            occurrences=sum(bucket.occurrences for bucket in first),
            positives=sum(bucket.positives for bucket in first),
            labels_with_rows=sum(
                bucket.labels_with_rows or 0 for bucket in self.buckets
            ),
        )

    @cached_property
    def _groups(self) -> dict[str, GroupRow]:
        return {group.name: group for group in self.row_groups}

    def group(self, name: str) -> GroupRow:
        """Return a group of rows by name."""
        return self._groups[name]

    # -- the records as mappings by key ------------------------------------------------

    @cached_property
    def scalars(self) -> dict[str, float]:
        """The values of ``compute()`` by key, such as ``recall@10/decile_1``."""
        return values_by_key(self.values_alone, "value")

    @cached_property
    def summaries(self) -> dict[str, float]:
        """Gap and spread by key, as ``TopKCollection.summaries()`` returns them."""
        return values_by_key(
            [record for record in self.records if record.summary], "value"
        )

    @cached_property
    def intervals(self) -> dict[str, Interval]:
        """Confidence intervals by key."""
        return {
            record.key: record.interval
            for record in self.records
            if record.interval is not None
        }

    @cached_property
    def references(self) -> dict[str, dict[str, float]]:
        """The values of three simple models: model -> key -> value.

        The models are ``"chance"``, ``"popularity"`` and ``"attainable"``.
        """
        return self._mappings(REFERENCES)

    @cached_property
    def tie_bounds(self) -> dict[str, dict[str, float]]:
        """The values over all orders of equal scores: kind -> key -> value.

        The kinds are ``"worst"``, ``"expected"`` and ``"best"``.
        """
        return self._mappings(ORDERS)

    def _mappings(self, names: Iterable[str]) -> dict[str, dict[str, float]]:
        mappings = {}
        for name in names:
            values = values_by_key(self.records, name)
            if values:
                mappings[name] = values
        return mappings

    @cached_property
    def at_half_the_rows(self) -> dict[str, float]:
        """Averages over labels at half of the rows, by key.

        These averages depend on the number of rows.
        """
        return values_by_key(self.records, "at_half_the_rows")

    @cached_property
    def overall(self) -> dict[str, float]:
        """Values over all rows and labels by metric."""
        return {record.metric: record.value for record in self.overall_records}

    @cached_property
    def by_bucket(self) -> dict[str, dict[str, float]]:
        """Values over all rows by metric and bucket; the headline is first."""
        values = {}
        for metric in self.metrics_by_bucket:
            values[metric] = {
                record.bucket: record.value for record in self.bucket_records(metric)
            }
        return values

    @cached_property
    def by_group(self) -> dict[str, dict[str, float]]:
        """Values over all labels by metric and group of rows."""
        values = {}
        for metric in self.metrics_by_group:
            values[metric] = {
                record.row_group: record.value for record in self.group_records(metric)
            }
        return values

    def to_frame(self) -> Any:
        """Return the records as a pandas DataFrame, with the counts of buckets.

        There is a line for each value.
        """
        return to_frame(self.lines())

    def lines(self) -> list[dict[str, Any]]:
        """Return the records as lines of one table.

        JSON, CSV and :meth:`to_frame` hold these lines.

        ``labels``, ``occurrences`` and ``positives`` are those of the bucket;
        ``occurrences`` are counted in training.
        """
        no_counts: dict[str, Any] = dict.fromkeys(
            ("labels", "occurrences", "positives")
        )
        counts = {}
        for bucket in self.buckets:
            numbers = (bucket.labels, bucket.occurrences, bucket.positives)
            counts[bucket.name] = dict(zip(no_counts, numbers, strict=True))
        return [
            {**record.as_dict(), **counts.get(record.bucket, no_counts)}
            for record in self.records
        ]

    # -- what the numbers say ----------------------------------------------------------

    @cached_property
    def curves(self) -> dict[str, list[CurvePoint]]:
        """Local means of labels by training count; empty without labels or counts."""
        if self.labels is None:
            return {}
        return self.labels.curves(self.label_counts)

    @property
    def blind_spots(self) -> Sequence[BlindSpot]:
        """Labels that are found significantly less often than others of their bucket.

        There are none without a table of labels.
        """
        return () if self.labels is None else self.labels.blind_spots

    @property
    def unseen_positives(self) -> int:
        """How often labels that training never showed are relevant."""
        return sum(bucket.positives for bucket in self.buckets if bucket.name == UNSEEN)

    @property
    def rows_in_words(self) -> str:
        """How many rows were evaluated, in words."""
        if self.rows is None:
            return ""
        return counted(self.rows, "row")


def summary_of_counts(counts: Tensor) -> dict[str, Any]:
    """Return a short summary of training counts that differs for different counts."""
    digest = sha256(counts.cpu().to(torch.int64).numpy().tobytes()).hexdigest()
    return {
        "labels": counts.numel(),
        "occurrences": int(counts.sum()),
        "sha256": digest,
    }
