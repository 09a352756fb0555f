"""``Evaluation``: accumulates metrics and the other contents of a report, such as rows and positives per bucket."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor

from tailmetrics._exact_metric import ExactMetric, tensors_of
from tailmetrics._transfer import digest_of
from tailmetrics.buckets import LabelBuckets
from tailmetrics.collection import TopKCollection
from tailmetrics.evaluation import notes
from tailmetrics.evaluation.crowded_rows import CrowdedRows
from tailmetrics.evaluation.description import (
    bucket_rows,
    headline_of,
    listed,
    settings_of,
    versions,
    with_label_values,
    with_values_over_all,
)
from tailmetrics.evaluation.interval_values import IntervalValues
from tailmetrics.evaluation.row_counts import IGNORED, RowCounts
from tailmetrics.evaluation.row_moments import with_intervals
from tailmetrics.evaluation.row_values import deepest_counts, from_all
from tailmetrics.frequency import LabelFrequency
from tailmetrics.metrics import TopKMetric
from tailmetrics.metrics._batches import whole_buckets
from tailmetrics.metrics._references import REFERENCES
from tailmetrics.ranking import EVERYTHING, Ranking
from tailmetrics.ranking._device import one_thread
from tailmetrics.ranking._inputs import Batch
from tailmetrics.ranking._likely_mistakes import looks_at_padding
from tailmetrics.ranking._warnings import warn_of_batch
from tailmetrics.report.labels import LabelTable
from tailmetrics.report.report import MANY_TIES, BucketRow, GroupRow, Report

COLLECTION, MOMENTS, ROWS = "collection.", "moments.", "rows."
"""Prefixes of the names of states: those of the metrics, of sums over rows, and of the labels of rows."""


class Evaluation:
    """Accumulates metrics over batches, and makes a :class:`Report` of them.

    Each metric by bucket is also computed over all labels, from the same ranking.

    Args:
        metrics: The metrics, as a collection or a list.
        row_groups: Names of the row groups, for every metric that has no row groups of its own.
        labels: Whether the report has values of single labels: the values that a metric keeps, or else precision,
            recall and F1 at the k of the headline. A metric with ``average="none"`` implies it.
        label_names: The name of each label, for the report.
        num_labels: The number of labels, for batches of ids and metrics that do not tell it.
        intervals: Confidence of the intervals in the report, computed from sums over rows; None for no intervals.
        headline: The metric that the report is about, such as ``"recall@10"``; None takes recall if it is by bucket.

    Attributes:
        collection: The metrics.
        counts: Counts of rows and relevant labels, after :meth:`start`.
        interval_values: What intervals are computed from, after :meth:`start`.
        crowded_rows: Counts of labels in rows that no list can hold, if the report has values of single labels.
        over_all: For each metric by bucket, the key of its value over all labels.
        warnings: What metrics warn of, for the report.
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
        intervals: float | None = None,
        headline: str | None = None,
    ) -> None:
        collection: Any = listed(metrics)
        if not isinstance(collection, TopKCollection):
            collection = TopKCollection(collection, row_groups=row_groups)
        check_update(collection, "Evaluation")
        members = collection.members().values()
        self.labels = labels or any(metric.aggregation.has_value_per_label for metric in members)
        if self.labels:
            collection = with_label_values(collection, headline=headline)
        self.collection, self.over_all = with_values_over_all(collection)
        self.collection.leave_warnings()  # to the report
        self.collection.num_labels = num_labels
        self.headline = headline_of(self.collection, self.over_all, headline)
        self.label_names = label_names
        self.confidence = intervals
        self.crowded_rows: CrowdedRows | None = None
        self.started = False
        self.warnings: list[str] = []

    def bind(self, frequency: LabelFrequency | LabelBuckets) -> Evaluation:
        """Set the buckets and counts that the metrics still lack, and return the evaluation itself."""
        self.collection.bind(frequency)
        return self

    @property
    def members(self) -> list[TopKMetric]:
        """The metrics."""
        return list(self.collection.members().values())

    @property
    def bucketings(self) -> list[LabelBuckets]:
        """The distinct :class:`LabelBuckets` of the metrics, usually one."""
        bucketings = [metric.buckets for metric in self.members if isinstance(metric.buckets, LabelBuckets)]
        return list(dict.fromkeys(bucketings))

    @property
    def row_groups(self) -> tuple[str, ...]:
        """The names of the row groups of all metrics."""
        return tuple(dict.fromkeys(name for metric in self.members for name in metric.row_groups or ()))

    def start(self, device: torch.device | str = "cpu") -> None:
        """Reset all states and move them to ``device``. Call it on every rank, even on a rank without rows."""
        _check_bucket_names(self.bucketings)
        self.collection.to(device)
        self.collection.reset()
        if any(metric.num_labels is not None for metric in self.members):  # chance needs the number of labels
            self.collection.with_references(REFERENCES)
        self.collection.with_orders()
        self.counts = self._row_counts().to(device)
        self.interval_values = IntervalValues(self.collection, self.confidence, device)
        metric = deepest_counts(self.members)
        self.crowded_rows = None
        if self.labels and metric is not None and metric.num_labels is not None:
            self.crowded_rows = CrowdedRows(metric).to(device)
        self.started = True

    def _row_counts(self) -> RowCounts:
        """Return empty counts; relevant labels are those of the metrics, if all have one smallest gain."""
        least_gains = set()
        for metric in self.members:
            if metric.reading.reads_targets and not metric.formula.reads_gains:
                least_gains.add(metric.min_gain)
        min_gain = None
        if len(least_gains) == 1:
            min_gain = least_gains.pop()
        groupings = {metric.row_groups for metric in self.members if metric.row_groups is not None}
        groups = len(self.row_groups) if len(groupings) == 1 else 0  # only if all metrics have equal groups
        compares_grades = any(notes.is_full_for_equal_grades(metric) for metric in self.members)
        return RowCounts(self.bucketings, min_gain, groups, compares_grades)

    def update(
        self,
        preds: Any,
        target: Any = None,
        row_mask: Any = None,
        *,
        row_groups: Any = None,
        tokens: int = 1,
        looked_through: bool = False,
    ) -> Ranking:
        """Rank a batch once, add it to all parts, and return its ranking.

        Args:
            preds: Predictions, or a ranking.
            target: The relevant labels; None beside a ranking.
            row_mask: Shape (N,), bool; False drops a row; None beside a ranking.
            row_groups: Shape (N,), the number of the group of each row, -1 for none.
            tokens: T, if scores were sequences (B, T, L).
            looked_through: Whether it is known that no list holds a label twice, as in batches of
                :mod:`tailmetrics.io`.
        """
        if not self.started:
            self.start(preds.device if isinstance(preds, Tensor) else "cpu")
        if not isinstance(preds, Ranking):
            ranking = self._rank(Batch(preds, target, row_mask, row_groups), tokens, looked_through)
        elif row_groups is not None:
            ranking = replace(preds, rows=replace(preds.rows, groups=row_groups))
        else:
            ranking = preds
        self.collection.update(ranking)
        self.warnings += ranking.notes
        with one_thread():
            self.counts.update(ranking)
            self.interval_values.update(ranking)
            if self.crowded_rows is not None:
                self.crowded_rows.update(ranking)
        return ranking

    def _rank(self, batch: Batch, tokens: int, looked_through: bool) -> Ranking:
        """Return the ranking of a batch for all metrics, with the number of rows that ``ignore_index`` leaves out."""
        ignore_index = self.members[0].ignore_index  # equal in all members
        target, row_mask = batch.target, batch.row_mask
        if tokens > 1 and self.collection._warns and isinstance(target, Tensor):  # at the first batch
            text = looks_at_padding("target", target, tokens, row_mask, ignore_index)
            if text is not None:
                warn_of_batch(self.warnings, text)
        with one_thread():
            ranking = self.collection._rank(batch, looked_through)
        if ignore_index is not None and ranking.row_mask is not None:
            rows = torch.tensor(ranking.num_rows)
            if row_mask is not None:
                mask = torch.as_tensor(row_mask)  # a mask (B,) may stand for B·T rows
                rows = mask.sum() * ranking.num_rows // max(1, mask.numel())
            ranking._memo[IGNORED] = rows - ranking.row_mask.sum()
        return ranking

    # -- states -----------------------------------------------------------------------------------------------------

    def _metrics(self) -> dict[str, ExactMetric]:
        """Return by name all metrics with states: members, references, counts of rows and labels, and sums of rows."""
        if not self.started:
            self.start()
        metrics = {f"{COLLECTION}{name}": metric for name, metric in self.collection._parts().items()}
        metrics["counts"] = self.counts
        if self.crowded_rows is not None:
            metrics["crowded_rows"] = self.crowded_rows
        for number, moments in enumerate(self.interval_values.moments):
            metrics[f"{MOMENTS}{number}"] = moments
        return metrics

    def merge_state(self, other: Evaluation) -> None:
        """Add the states of another evaluation of the same metrics; the order of merges does not change the result.

        Raises:
            ValueError: If a metric differs; the message names the metric and the difference.
        """
        for evaluation in (self, other):
            if not evaluation.started:
                evaluation.start()
        self.collection.merge_state(other.collection)
        self.counts.merge_state(other.counts)
        if self.crowded_rows is not None and other.crowded_rows is not None:
            self.crowded_rows.merge_state(other.crowded_rows)
        self.interval_values.merge_state(other.interval_values)
        self.warnings += other.warnings

    def state_dict(self) -> dict[str, Any]:
        """Return the accumulated states by name, and the warnings, for :meth:`load_state_dict` on another machine.

        ``torch.load(…, weights_only=True)`` reads what ``torch.save`` writes of it.
        """
        states: dict[str, Any] = {"fingerprint": self._fingerprint(), "warnings": list(self.warnings)}
        for name, metric in self._metrics().items():
            metric.check_own_states("state_dict")
            for state_name, state in tensors_of(metric).items():
                states[f"{name}.{state_name}"] = state.detach().cpu()
        for name, column in self.interval_values.state_dict().items():
            states[f"{ROWS}{name}"] = column
        return states

    def load_state_dict(self, states: Mapping[str, Any]) -> None:
        """Replace the accumulated states by those of :meth:`state_dict`.

        Raises:
            ValueError: If the states are of other metrics, buckets or counts, or incomplete. Nothing is changed.
        """
        metrics = self._metrics()
        if states.get("fingerprint") != self._fingerprint():
            raise ValueError(
                "Evaluation.load_state_dict: the states are of other metrics, buckets or counts; pass what "
                "state_dict() of an evaluation of the same metrics returned."
            )
        states_of_metrics: dict[str, dict[str, Any]] = {}
        for name, metric in metrics.items():
            states_of_metric = {state_name: states.get(f"{name}.{state_name}") for state_name in tensors_of(metric)}
            problem = metric._problem_with(states_of_metric)
            if problem is not None:
                raise ValueError(
                    f"Evaluation.load_state_dict: of {name} {problem}; pass all that state_dict() returned."
                )
            states_of_metrics[name] = states_of_metric

        for name, metric in metrics.items():
            metric.load_state_dict(states_of_metrics[name])
        self.collection._share_again()
        columns = {name.removeprefix(ROWS): column for name, column in states.items() if name.startswith(ROWS)}
        self.interval_values.load_state_dict(columns)
        self.warnings = list(states["warnings"])

    def _fingerprint(self) -> str:
        """Return a digest of all that the states depend on: arguments, buckets and counts of all metrics."""
        return digest_of([tuple(metric.fingerprint()) for metric in self._metrics().values()])

    # -- results ----------------------------------------------------------------------------------------------------

    def scalars(self) -> dict[str, Tensor]:
        """Return the values of the metrics by key, over all ranks."""
        return self.collection.compute()

    def report(self, title: str) -> Report:
        """Return the report on all batches of all ranks; call it on every rank."""
        if not self.started:
            self.start()
        computed, named = self.scalars(), self.collection.named
        results = list(zip(self.members, self.collection.results().values(), strict=True))
        scalars = _read(computed)
        # averages over labels are 0 by convention where nothing is relevant: a reader would take it for a result
        scalars |= {named(key): math.nan for _, result in results for key in result.not_measured}
        summaries = _read(self.collection.summaries(computed))
        shares = [pair for _, result in results for pair in result.tied_shares.items()]
        ties = dict(sorted(shares, key=lambda pair: (pair[0] or EVERYTHING, pair[1])))
        orders = self.collection.orders() if max(ties.values(), default=0.0) > MANY_TIES else {}
        bounds = {name: _read(values) for name, values in orders.items()} if any(orders.values()) else None
        totals = self.counts.totals()
        num_rows, positives = totals.rows, totals.positives
        by_name = dict[str, BucketRow]()
        for kind, (of, found) in enumerate(zip_longest(self.bucketings, totals.positives_of_buckets)):
            for row in bucket_rows(of, found, kind):
                by_name.setdefault(row.name, row)
        rows = list(by_name.values())
        buckets = next(iter(self.bucketings), None)
        warnings = dict.fromkeys(text for of_process in from_all(self.warnings) for text in of_process)
        labels = None
        with_rows = [(m, result.facts.labels_with_rows) for m, result in results if result.facts.labels_with_rows]
        of_bucket = {(m.bound_buckets.names, tuple(some)) for m, some in with_rows if m.bound_buckets is not None}
        if self.labels:
            columns = {name: one.cpu() for name, one in self.collection.per_label(zero_division=math.nan).items()}
            within = () if buckets is None else (buckets.assignment, buckets.names)
            labels = LabelTable(columns, self._names_of(len(columns["support"])), *within)
            if self.crowded_rows is not None:
                support, hits, number = self.crowded_rows.compute()
                labels = replace(labels, crowded_support=support, crowded_hits=hits, crowded_rows=number)
            if labels.tests is not None:
                instead = self.interval_values.listed_instead(labels.tests.listed.tolist())
                labels = labels if instead is None else replace(labels, instead=instead)
        references = {name: _read(values) for name, values in self.collection.references().items()}
        averages = self.interval_values.averages()
        intervals = self.interval_values.intervals({**scalars, **summaries}, averages)
        chance = references.get("chance", {})
        ignored = self.members[0].ignore_index  # equal in all members
        report = Report(
            title=title,
            scalars=scalars,
            lower_is_better=tuple(
                named(key) for one in self.members if one.higher_is_better is False for key in list(one.keys())
            ),
            buckets=rows,
            rows=num_rows,
            positives=positives,
            ties=ties,
            label_counts=next((of.counts for of in self.bucketings if of.counts is not None), None),
            settings=[settings_of(m) for m in self.members],
            versions=versions(),
            notes=(
                *whole_buckets(self.members, named, {row.name for row in rows if row.positives}),
                *notes.on_bins(results, named),
                *notes.on_misses(results, named),
                *notes.on_classes(results, named, num_rows, positives),
                *notes.on_empty_rows(results, named),
                *notes.on_lost(totals.lost, positives),
                *notes.on_buckets(self.bucketings),
                *notes.on_padding(
                    self.counts.counted,
                    self.counts.top,
                    ignored,
                    self.label_names,
                    positives,
                    totals.positives_of_top,
                ),
                *notes.on_shared_places(results, named, scalars, self.over_all),
                *notes.on_chance(
                    results,
                    named,
                    scalars,
                    totals.num_labels,
                    totals.shortest,
                    self.label_names,
                    chance,
                    intervals,
                ),
                *notes.on_equal_grades(results, named, totals.equal_grades, num_rows),
                *notes.on_ignored(num_rows, totals.ignored_rows, ignored),
                *warnings,
            ),
            row_groups=[GroupRow(*group) for group in zip_longest(self.row_groups, totals.rows_of_groups)],
            over_all=self.over_all,
            headline=self.headline,
            postfix=self.collection.postfix or "",
            captions={
                named(stem): said for m, result in results if m.buckets for stem, said in notes.captions(m, result)
            },
            means={
                named(key): said for m, result in results if not m.buckets for key, said in notes.on_means(m, result)
            },
            denominators={named(key): one for _, result in results for key, one in result.denominators.items()},
            labels_with_rows=dict(zip(*of_bucket.pop(), strict=True)) if len(of_bucket) == 1 else {},
            places=tuple(dict.fromkeys(named(key) for m in self.members if m.formula.unit for key in m.cutoff_keys())),
            additive=tuple(
                dict.fromkeys(named(key) for m in self.members if m.aggregation.is_additive for key in m.cutoff_keys())
            ),
            summaries=summaries,
            references=references or None,
            tie_bounds=bounds,
            labels=labels,
            intervals=intervals,
        )
        return with_intervals(report, averages=averages)

    def _names_of(self, labels: int | None) -> Sequence[str] | None:
        names = self.label_names
        if names is not None and labels is not None and len(names) != labels:
            raise ValueError(
                f"Evaluation: label_names holds {len(names)} names for {labels} labels; pass one for each."
            )
        return names


def check_update(collection: TopKCollection, caller: str) -> None:
    """Raise if a collection does more in ``update``, which ``caller`` would never call: it adds one ranking to all."""
    if type(collection).update is not TopKCollection.update:
        raise TypeError(
            f"{caller}: {type(collection).__name__} overrides update(), which would not be called here; "
            "pass a TopKCollection, and change the batches instead."
        )


def _check_bucket_names(bucketings: Iterable[LabelBuckets]) -> None:
    """Raise if buckets of one name hold different labels: a report has one row, and one count, for each name."""
    labels_by_name: dict[str, Tensor] = {}
    for buckets in bucketings:
        for name, labels in zip(buckets.names, buckets.labels, strict=True):
            other_labels = labels_by_name.setdefault(name, labels)
            if not torch.equal(other_labels, labels):
                raise ValueError(
                    f"Evaluation: the bucket {name!r} holds other labels in one metric ({len(other_labels):,}) than in "
                    f"another ({len(labels):,}); a report has one row for each name. Evaluate each set of buckets by "
                    "itself, or give one set names of its own: "
                    "LabelBuckets.from_assignment(buckets.assignment, names, buckets.counts)."
                )


def _read(scalars: dict[str, Tensor]) -> dict[str, float]:
    """Return scalar tensors as floats, with a single read of the device."""
    if not scalars:
        return {}
    return dict(zip(scalars, torch.stack(list(scalars.values())).tolist(), strict=True))
