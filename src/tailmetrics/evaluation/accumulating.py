"""``Evaluation``: accumulates metrics and the other contents of a report.

The other contents are, for example, the numbers of rows and of positives per bucket.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor

from tailmetrics._exact_metric import ExactMetric, states_of
from tailmetrics._transfer import digest_of, problem_with_states
from tailmetrics.buckets import LabelBuckets
from tailmetrics.collection import TopKCollection
from tailmetrics.collection._alternatives import adds_up_processes
from tailmetrics.evaluation import notes
from tailmetrics.evaluation.added_metrics import (
    with_label_values,
    with_values_over_all,
)
from tailmetrics.evaluation.data import Data
from tailmetrics.evaluation.description import settings_of, versions
from tailmetrics.evaluation.headline import headline_of
from tailmetrics.evaluation.interval_values import IntervalValues
from tailmetrics.evaluation.label_codes import deepest_counts
from tailmetrics.evaluation.metric_facts import metric_facts
from tailmetrics.evaluation.options import listed
from tailmetrics.evaluation.reporting import (
    distinct_buckets,
    label_table,
    records_of,
    with_intervals,
)
from tailmetrics.evaluation.row_counts import RowCounts
from tailmetrics.evaluation.row_groups import checked_numbers, names_for_all
from tailmetrics.evaluation.row_labels import values_of_processes
from tailmetrics.evaluation.row_values import RowValues
from tailmetrics.evaluation.values import values_of
from tailmetrics.frequency import LabelFrequency
from tailmetrics.metrics import TopKMetric
from tailmetrics.metrics._references import REFERENCES
from tailmetrics.ranking import Ranking
from tailmetrics.ranking._batch import Batch
from tailmetrics.ranking._threads import one_thread
from tailmetrics.report.breakdowns import GroupRow
from tailmetrics.report.report import Report

COLLECTION, ROWS = "collection.", "rows."
"""Prefixes of the names of states: those of the metrics, and of the labels of rows."""


class Evaluation:
    """Accumulates metrics over batches, and makes a :class:`Report` of them.

    Each metric by bucket is also computed over all labels, from the same ranking.

    Args:
        metrics: The metrics, as a collection or a list.
        row_groups: Names of the row groups, unless a metric has names of its own: then
            all metrics take these.
        labels: Whether the report has values of single labels: the values that a metric
            keeps, or else precision, recall and F1 at the k of the headline. A metric
            with ``average="none"`` implies it.
        label_names: The name of each label, for the report.
        num_labels: The number of labels, for batches of ids and metrics that do not
            tell it.
        confidence: Confidence of the intervals in the report, computed from sums over
            rows; None for no intervals.
        headline: The metric that the report is about, such as ``"recall@10"``, as in
            :func:`tailmetrics.evaluate`.

    Attributes:
        collection: The metrics.
        counts: Counts of rows and relevant labels, after :meth:`start`.
        interval_values: Sums and labels of rows for intervals, after :meth:`start`.
        over_all: For each metric by bucket, the key of its value over all labels.
        warnings: The warnings of the metrics, for the report.
    """

    counts: RowCounts
    interval_values: IntervalValues

    def __init__(
        self,
        metrics: TopKCollection | TopKMetric | Iterable[TopKMetric],
        *,
        row_groups: Sequence[str] | None = None,
        labels: bool = False,
        label_names: Sequence[str] | None = None,
        num_labels: int | None = None,
        confidence: float | None = None,
        headline: str | None = None,
    ) -> None:
        collection: Any = listed(metrics)
        if not isinstance(collection, TopKCollection):
            collection = TopKCollection(
                collection, row_groups=names_for_all(collection, row_groups)
            )
        check_update(collection, "Evaluation")
        members = collection.members().values()
        self.labels = labels or any(
            metric.aggregation.has_value_per_label for metric in members
        )
        if self.labels:
            collection = with_label_values(collection, num_labels, headline)
        self.collection, self.over_all = with_values_over_all(collection)
        self.collection.leave_warnings()  # to the report
        self.collection.num_labels = num_labels
        self.headline = headline_of(self.collection, self.over_all, headline)
        self.label_names = label_names
        self.confidence = confidence
        self.started = False
        self.warnings: list[str] = []

    def bind(self, frequency: LabelFrequency | LabelBuckets) -> Evaluation:
        """Set buckets and counts that the metrics lack, and return the evaluation."""
        self.collection.bind(frequency)
        return self

    @property
    def members(self) -> list[TopKMetric]:
        """The metrics."""
        return list(self.collection.members().values())

    @property
    def bucketings(self) -> list[LabelBuckets]:
        """The distinct :class:`LabelBuckets` of the metrics, usually one."""
        bucketings = [
            metric.buckets
            for metric in self.members
            if isinstance(metric.buckets, LabelBuckets)
        ]
        return list(dict.fromkeys(bucketings))

    @property
    def row_groups(self) -> tuple[str, ...]:
        """The names of the row groups of all metrics."""
        return tuple(
            dict.fromkeys(
                name for metric in self.members for name in metric.row_groups or ()
            )
        )

    def start(self, device: torch.device | str = "cpu") -> None:
        """Reset all states and move them to ``device``.

        Call this method on every rank, even on a rank without rows.
        """
        _check_bucket_names(self.bucketings)
        if any(metric.device != torch.device(device) for metric in self.members):
            self.collection.to(device)
        self.collection.reset()
        # chance needs the number of labels
        if any(metric.num_labels is not None for metric in self.members):
            self.collection.with_references(REFERENCES)
        self.collection.with_orders()
        self.counts = self._row_counts().to(device)
        self.interval_values = IntervalValues(self.collection, self.confidence, device)
        for metric in (self.counts, self.interval_values.moments):
            metric.sync_on_compute = adds_up_processes(self.members)
        self.started = True

    def _start_once(self, device: torch.device | str = "cpu") -> None:
        """Start, unless :meth:`start` was called."""
        if not self.started:
            self.start(device)

    def _row_counts(self) -> RowCounts:
        """Return empty counts for the buckets and row groups of the metrics.

        The counts use the smallest gain of the metrics if all metrics have the same
        one, and row groups if all metrics with groups have the same ones.
        """
        least_gains = set()
        groupings = set()
        compares_grades = False
        for metric in self.members:
            if metric.reading.reads_targets and not metric.formula.reads_gains:
                least_gains.add(metric.min_gain)
            if metric.row_groups is not None:
                groupings.add(metric.row_groups)
            compares_grades |= notes.is_full_for_equal_grades(metric)

        min_gain = None
        if len(least_gains) == 1:
            min_gain = least_gains.pop()
        num_groups = 0
        if len(groupings) == 1:  # only if all metrics have equal groups
            num_groups = len(groupings.pop())
        label_metric = None
        if self.labels:
            label_metric = deepest_counts(
                [metric for metric in self.members if metric.num_labels is not None]
            )
        return RowCounts(
            self.bucketings, min_gain, num_groups, compares_grades, label_metric
        )

    def update(
        self,
        preds: Any,
        target: Any = None,
        row_mask: Any = None,
        *,
        row_groups: Any = None,
    ) -> Ranking:
        """Rank a batch once, add it to all parts, and return its ranking.

        Args:
            preds: Predictions, or a ranking.
            target: The relevant labels; None beside a ranking.
            row_mask: Shape (N,), bool; False drops a row; None beside a ranking.
            row_groups: Shape (N,), the number of the group of each row, -1 for none.
        """
        return self.add(Batch(preds, target, row_mask, row_groups))

    def add(self, batch: Batch) -> Ranking:
        """Rank a batch once, add it to all parts, and return its ranking."""
        preds, row_mask = batch.preds, batch.row_mask
        self._start_once(preds.device if isinstance(preds, Tensor) else "cpu")
        if isinstance(preds, Ranking) and batch.row_groups is not None:
            rows = replace(preds.rows, groups=batch.row_groups)
            batch = replace(batch, preds=replace(preds, rows=rows), row_groups=None)
        with one_thread():
            ranking = self.collection._rank(batch, is_offline=True)
            self.collection._add(ranking)
            self.warnings += ranking.notes
            num_ignored: Tensor | int = 0
            if not isinstance(preds, Ranking):
                num_ignored = _num_ignored(ranking, row_mask)
            self.counts.update(ranking, num_ignored)
            self.interval_values.update(ranking)
        return ranking

    # -- states ------------------------------------------------------------------------

    def _metrics_with_states(self) -> dict[str, ExactMetric]:
        """Return all metrics with states by name.

        These are members, references, counts of rows and labels, and sums of rows.
        """
        self._start_once()
        metrics = {
            f"{COLLECTION}{name}": metric
            for name, metric in self.collection._parts().items()
        }
        metrics["counts"] = self.counts
        metrics["moments"] = self.interval_values.moments
        return metrics

    def merge_state(self, other: Evaluation) -> None:
        """Add the states of another evaluation of the same metrics.

        The order of merges does not change the result.

        Raises:
            ValueError: If a metric differs; the message says which one and how.
        """
        self._start_once()
        other._start_once()
        self.collection.merge_state(other.collection)
        self.counts.merge_state(other.counts)
        self.interval_values.moments.merge_state(other.interval_values.moments)
        self.interval_values.labels.merge_state(other.interval_values.labels)
        self.warnings += other.warnings

    def state_dict(self) -> dict[str, Any]:
        """Return the accumulated states by name, and the warnings.

        They are for :meth:`load_state_dict`, also on another machine.
        ``torch.load(…, weights_only=True)`` reads the file that ``torch.save`` writes.
        """
        states: dict[str, Any] = {
            "fingerprint": self._fingerprint(),
            "warnings": list(self.warnings),
        }
        for name, metric in self._metrics_with_states().items():
            metric.check_own_states("state_dict")
            for state_name, state in metric.metric_state.items():
                states[f"{name}.{state_name}"] = state.detach().cpu()
        for name, column in self.interval_values.labels.state_dict().items():
            states[f"{ROWS}{name}"] = column
        return states

    def load_state_dict(self, states: Mapping[str, Any]) -> None:
        """Replace the accumulated states by those of :meth:`state_dict`.

        Raises:
            ValueError: If the states are of other metrics, buckets or counts, or
                incomplete. Nothing is changed.
        """
        metrics = self._metrics_with_states()
        if states.get("fingerprint") != self._fingerprint():
            raise ValueError(
                "Evaluation.load_state_dict: the states are of other metrics, buckets "
                "or counts; pass what state_dict() of an evaluation of the same "
                "metrics returned."
            )
        states_of_metrics: dict[str, dict[str, Any]] = {}
        for name, metric in metrics.items():
            states_of_metric = {
                state_name: states.get(f"{name}.{state_name}")
                for state_name in metric.metric_state
            }
            problem = problem_with_states(states_of(metric), states_of_metric)
            if problem is not None:
                raise ValueError(
                    f"Evaluation.load_state_dict: of {name} {problem}; pass all that "
                    "state_dict() returned."
                )
            states_of_metrics[name] = states_of_metric

        for name, metric in metrics.items():
            metric.load_state_dict(states_of_metrics[name])
        self.collection._share_again()
        columns = {
            name.removeprefix(ROWS): column
            for name, column in states.items()
            if name.startswith(ROWS)
        }
        self.interval_values.labels.load_state_dict(columns)
        self.warnings = list(states["warnings"])

    def _fingerprint(self) -> str:
        """Return the digest of the arguments, buckets and counts of all metrics."""
        return digest_of(
            [
                tuple(metric.fingerprint())
                for metric in self._metrics_with_states().values()
            ]
        )

    # -- results -----------------------------------------------------------------------

    def scalars(self) -> dict[str, Tensor]:
        """Return the values of the metrics by key, over all ranks."""
        return self.collection.compute()

    def report(self, title: str) -> Report:
        """Return the report on all batches of all ranks; call it on every rank."""
        self._start_once()
        collection = self.collection
        results = list(zip(self.members, collection.results().values(), strict=True))
        averages = self.interval_values.labels.averages()
        values = values_of(collection, self.interval_values, results, averages)
        totals = self.counts.totals()
        buckets = distinct_buckets(
            self.bucketings, results, totals.positives_of_buckets
        )
        facts = metric_facts(collection.named, results, self.over_all, totals.rows)
        labels = None
        if self.labels:
            labels = label_table(
                collection,
                totals,
                self.label_names,
                self.bucketings,
                self.interval_values.labels,
            )
        texts = notes.on_results(
            collection, self.counts, totals, results, values, buckets, self.label_names
        )
        warnings: dict[str, None] = {}
        for process_warnings in values_of_processes(self.warnings, self.collection):
            warnings |= dict.fromkeys(process_warnings)

        report = Report(
            title=title,
            records=records_of(collection, values, facts),
            metrics=list(facts.values()),
            headline=self.headline,
            buckets=buckets,
            row_groups=[
                GroupRow(*group)
                for group in zip_longest(self.row_groups, totals.rows_of_groups)
            ],
            rows=totals.rows,
            positives=totals.positives,
            ties=values.ties,
            label_counts=self.counts.training_counts,
            labels=labels,
            settings=[settings_of(metric) for metric in self.members],
            versions=versions(),
            postfix=collection.postfix or "",
            notes=(*texts, *warnings),
        )
        return with_intervals(report, values.intervals, averages)


def add_data(
    evaluation: Evaluation, data: Data, batch_rows: int, keeps_rows: bool
) -> RowValues | None:
    """Start an evaluation and add all rows in batches.

    Return the values of each row if ``keeps_rows`` is True, else None.
    """
    evaluation.start(data.device)
    row_groups = checked_numbers(data.row_groups, evaluation.row_groups, data.num_rows)
    values = None
    if keeps_rows:
        values = RowValues(
            evaluation.collection, evaluation.over_all, headline=evaluation.headline
        )
    for rows, batch in data.batches(batch_rows):
        row_mask = batch_groups = None
        if data.row_mask is not None:
            row_mask = data.row_mask[rows]
        if row_groups is not None:
            batch_groups = row_groups[rows]
        ranking = evaluation.add(
            replace(
                batch,
                row_mask=row_mask,
                row_groups=batch_groups,
                tokens=data.tokens,
                has_names=data.label_names is not None,
            )
        )
        if values is not None:
            values.add(ranking)
    return values


def _num_ignored(ranking: Ranking, row_mask: Any) -> Tensor | int:
    """Return the number of rows that ``row_mask`` keeps and ``ignore_index`` drops."""
    if ranking.ignore_index is None or ranking.row_mask is None:
        return 0
    num_rows = torch.tensor(ranking.num_rows)
    if row_mask is not None:
        mask = torch.as_tensor(row_mask)  # a mask (B,) may stand for B·T rows
        num_rows = mask.sum() * ranking.num_rows // max(1, mask.numel())
    return num_rows - ranking.row_mask.sum()


def check_update(collection: TopKCollection, caller: str) -> None:
    """Raise TypeError if a collection overrides ``update``.

    ``caller`` would not call ``update``: it adds one ranking to all metrics.
    """
    if type(collection).update is not TopKCollection.update:
        raise TypeError(
            f"{caller}: {type(collection).__name__} overrides update(), which would "
            "not be called here; "
            "pass a TopKCollection, and change the batches instead."
        )


def _check_bucket_names(bucketings: Iterable[LabelBuckets]) -> None:
    """Raise ValueError if buckets of one name hold different labels.

    A report has one row, and one count, for each name.
    """
    labels_by_name: dict[str, Tensor] = {}
    for buckets in bucketings:
        for name, labels in zip(buckets.names, buckets.labels, strict=True):
            other_labels = labels_by_name.setdefault(name, labels)
            if not torch.equal(other_labels, labels):
                raise ValueError(
                    f"Evaluation: the bucket {name!r} holds other labels in one metric "
                    f"({len(other_labels):,}) than in another ({len(labels):,}); a "
                    "report has one row for each name. Evaluate each set of buckets "
                    "by itself, or give one set names of its own: "
                    "LabelBuckets.from_assignment(buckets.assignment, names, "
                    "buckets.counts)."
                )
