"""``Evaluation``: accumulates metrics and the other contents of a report, such as rows and positives per bucket."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor

from tailmetrics._exact_metric import ExactMetric, sent_together, tensors_of, writable
from tailmetrics._transfer import digest_of
from tailmetrics.buckets import LabelBuckets
from tailmetrics.collection import TopKCollection
from tailmetrics.evaluation import notes
from tailmetrics.evaluation.crowded_rows import CrowdedRows, counting_metric
from tailmetrics.evaluation.description import (
    bucket_rows,
    headline_of,
    listed,
    settings_of,
    versions,
    with_label_values,
    with_values_over_all,
)
from tailmetrics.evaluation.row_moments import RowMoments, as_valued, has_moments, has_scipy, with_intervals
from tailmetrics.evaluation.row_values import RowValues, from_all
from tailmetrics.frequency import LabelFrequency
from tailmetrics.metrics import TopKMetric
from tailmetrics.metrics._batches import is_listed, whole_buckets
from tailmetrics.metrics._references import REFERENCES
from tailmetrics.ranking import EVERYTHING, Ranking
from tailmetrics.ranking._device import one_thread
from tailmetrics.ranking._inputs import Batch
from tailmetrics.ranking._kernels import Targets
from tailmetrics.ranking._likely_mistakes import looks_at_padding
from tailmetrics.ranking._warnings import warn_of_batch
from tailmetrics.report.labels import LabelTable
from tailmetrics.report.report import MANY_TIES, BucketRow, GroupRow, Report
from tailmetrics.significance.interval import Interval
from tailmetrics.significance.labels import OverLabels

ROWS = "rows."
"""Prefix of the names of values of rows among states."""
IGNORED = "rows left out by ignore_index"
"""Where a ranking keeps this number until it is accumulated."""


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
    """

    counts: RowCounts

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
        given: Any = listed(metrics)
        given = given if isinstance(given, TopKCollection) else TopKCollection(given, row_groups=row_groups)
        check_update(given, "Evaluation")
        self.labels = labels or any(one.aggregation.has_value_per_label for one in given.members().values())
        given = with_label_values(given, headline=headline) if self.labels else given
        self.collection, self.over_all = with_values_over_all(given)
        self.collection.leave_warnings()  # to the report
        self.collection.num_labels = num_labels
        self.headline = headline_of(self.collection, self.over_all, headline)
        self.label_names = label_names
        self.confidence = intervals
        self.over_labels: RowValues | None = None
        self.moments = list[RowMoments]()
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
        return list(dict.fromkeys(m.buckets for m in self.members if isinstance(m.buckets, LabelBuckets)))

    @property
    def row_groups(self) -> tuple[str, ...]:
        """The names of the row groups of all metrics."""
        return tuple(dict.fromkeys(name for metric in self.members for name in metric.row_groups or ()))

    @property
    def _num_labels(self) -> int | None:
        return next((metric.num_labels for metric in self.members if metric.num_labels is not None), None)

    def start(self, device: torch.device | str = "cpu") -> None:
        """Reset all states and move them to ``device``. Call it on every rank, even on a rank without rows."""
        _check_bucket_names(self.bucketings)
        members = self.collection.to(device).members()
        self.collection.reset()
        if self._num_labels is not None:  # chance needs the number of labels, which lists of ids do not tell
            self.collection.with_references(REFERENCES)
        self.collection.with_orders()
        of_relevance = (one for one in self.members if one.reading.reads_targets and not one.formula.reads_gains)
        least = {metric.min_gain for metric in of_relevance}
        groupings = {metric.row_groups for metric in self.members if metric.row_groups is not None}
        groups = len(self.row_groups) if len(groupings) == 1 else 0  # only if all metrics have equal groups
        self.counts = RowCounts(self.bucketings, least.pop() if len(least) == 1 else None, groups).to(device)
        counting = counting_metric(self.members)
        if self.labels and counting is not None and counting.num_labels is not None:
            self.crowded_rows = CrowdedRows(counting).to(device)
        self.started = True
        if self.confidence is not None:
            having = [name for name, one in members.items() if has_moments(one, device)]
            adjusted = [name for name in self.collection.reference_models.adjusted if name in having]
            kinds = [*((name, False) for name in having), *((name, True) for name in adjusted)]
            self.moments = [RowMoments(self.collection, *kind).to(device) for kind in kinds]
            rows = RowValues(self.collection, labels_alone=True)
            self.over_labels = rows if rows.metrics and has_scipy() else None

    def rank(
        self,
        preds: Any,
        target: Any = None,
        row_mask: Any = None,
        *,
        row_groups: Any = None,
        tokens: int = 1,
        looked_through: bool = False,
    ) -> Ranking:
        """Return the ranking of a batch for all metrics.

        ``tokens`` is T if the scores were sequences (B, T, L). ``looked_through`` says that no list holds a label
        twice, as in batches of :mod:`tailmetrics.io`.
        """
        ignored = self.members[0].ignore_index  # equal in all members
        if tokens > 1 and self.collection._warns and isinstance(target, Tensor):  # at the first batch
            text = looks_at_padding("target", target, tokens, row_mask, ignored)
            if text is not None:
                warn_of_batch(self.warnings, text)
        with one_thread():
            ranking = self.collection._rank(Batch(preds, target, row_mask, row_groups), looked_through)
        if ignored is not None and target is not None and ranking.row_mask is not None:
            # a mask (B,) may stand for B·T rows
            mask = torch.ones(1, dtype=torch.bool) if row_mask is None else torch.as_tensor(row_mask)
            given = mask.sum() * ranking.num_rows // max(1, mask.numel())
            ranking._memo[IGNORED] = given - ranking.row_mask.sum()
        return ranking

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
        if isinstance(preds, Ranking):
            ranking = preds
            if row_groups is not None:
                ranking = replace(preds, rows=replace(preds.rows, groups=row_groups))
        else:
            ranking = self.rank(
                preds, target, row_mask, row_groups=row_groups, tokens=tokens, looked_through=looked_through
            )
        self.collection.update(ranking)
        self.warnings += ranking.notes
        with one_thread():
            for one in (self.counts, *self.moments):
                one.update(ranking)
            if self.crowded_rows is not None:
                self.crowded_rows.update(ranking)
            if self.over_labels is not None:
                self.over_labels.add(ranking)
        return ranking

    def _metrics(self) -> dict[str, ExactMetric]:
        """Return by name all metrics with states: members, references, counts of rows and labels, and sums of rows."""
        if not self.started:
            self.start()
        metrics = {f"collection.{name}": metric for name, metric in self.collection._parts().items()}
        metrics["counts"] = self.counts
        if self.crowded_rows is not None:
            metrics["crowded_rows"] = self.crowded_rows
        for number, moments in enumerate(self.moments):
            metrics[f"moments.{number}"] = moments
        return metrics

    def merge_state(self, other: Evaluation) -> None:
        """Add the states of another evaluation of the same metrics; the order of merges does not change the result.

        Raises:
            ValueError: If a metric differs; the message names the metric and the difference.
        """
        if not self.started:
            self.start()
        if not other.started:
            other.start()
        self.collection.merge_state(other.collection)
        self.counts.merge_state(other.counts)
        if self.crowded_rows is not None and other.crowded_rows is not None:
            self.crowded_rows.merge_state(other.crowded_rows)
        for moments, other_moments in zip(self.moments, other.moments, strict=True):
            moments.merge_state(other_moments)
        if self.over_labels is not None and other.over_labels is not None:
            self.over_labels.merge_state(other.over_labels)
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
        if self.over_labels is not None:
            for name, column in self.over_labels.state_dict().items():
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
        loaded: dict[str, dict[str, Any]] = {}
        for name, metric in metrics.items():
            own = {state_name: states.get(f"{name}.{state_name}") for state_name in tensors_of(metric)}
            problem = metric._problem_with(own)
            if problem is not None:
                raise ValueError(
                    f"Evaluation.load_state_dict: of {name} {problem}; pass all that state_dict() returned."
                )
            loaded[name] = own
        for name, metric in metrics.items():
            metric.load_state_dict(loaded[name])
        self.collection._share_again()
        if self.over_labels is not None:
            columns = {name.removeprefix(ROWS): column for name, column in states.items() if name.startswith(ROWS)}
            self.over_labels.load_state_dict(columns)
        self.warnings = list(states["warnings"])

    def _fingerprint(self) -> str:
        """Return a digest of all that the states depend on: arguments, buckets and counts of all metrics."""
        return digest_of([tuple(metric.fingerprint()) for metric in self._metrics().values()])

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
        (num_rows, positives, of_top, lost, left_out), group_rows, of_buckets, (width, shortest) = self.counts.read()
        by_name = dict[str, BucketRow]()
        for kind, (of, found) in enumerate(zip_longest(self.bucketings, of_buckets)):
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
            if self.over_labels is not None and labels.tests is not None:
                labels = replace(labels, instead=self.over_labels.listed_instead(labels.tests.listed.tolist()))
        references = {name: _read(values) for name, values in self.collection.references().items()}
        averages = {} if self.over_labels is None else self.over_labels.by_content()
        intervals, chance = self._intervals({**scalars, **summaries}, averages), references.get("chance", {})
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
                *notes.on_lost(lost, positives),
                *notes.on_buckets(self.bucketings),
                *notes.on_padding(self.counts.counted, self.counts.top, ignored, self.label_names, positives, of_top),
                *notes.on_shared_places(results, named, scalars, self.over_all),
                *notes.on_chance(results, named, scalars, width, shortest, self.label_names, chance, intervals),
                *notes.on_ignored(num_rows, left_out, ignored),
                *warnings,
            ),
            row_groups=[GroupRow(*group) for group in zip_longest(self.row_groups, group_rows)],
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

    def _intervals(self, scalars: Mapping[str, float], averages: Mapping[str, OverLabels]) -> dict[str, Interval]:
        if self.confidence is None:
            return {}
        found: dict[str, Interval] = {}
        with sent_together("Evaluation", [one for one in self.moments if one.will_send]):
            for one in self.moments:
                found |= one.intervals(scalars, self.collection.named, self.confidence)
        if self.over_labels is not None and averages:
            from tailmetrics.significance import intervals  # needs SciPy

            facts = self.over_labels.facts.among(averages)
            found |= as_valued(intervals(averages, **facts, resamples=0, confidence=self.confidence), scalars)
        return {key: found[key] for key in scalars if key in found}

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
    known: dict[str, Tensor] = {}
    for name, labels in (pair for one in bucketings for pair in zip(one.names, one.labels, strict=True)):
        if not torch.equal(known.setdefault(name, labels), labels):
            raise ValueError(
                f"Evaluation: the bucket {name!r} holds other labels in one metric ({len(known[name]):,}) than in "
                f"another ({len(labels):,}); a report has one row for each name. Evaluate each set of buckets by "
                "itself, or give one set names of its own: "
                "LabelBuckets.from_assignment(buckets.assignment, names, buckets.counts)."
            )


def _read(scalars: dict[str, Tensor]) -> dict[str, float]:
    """Return scalar tensors as floats, with a single read of the device."""
    return dict(zip(scalars, torch.stack(list(scalars.values())).tolist(), strict=True)) if scalars else {}


class RowCounts(ExactMetric):
    """Counts rows, the rows of each group, and relevant labels: in total, by bucket, of the most frequent label, lost.

    A relevant label is lost if its score is ``-inf``. Also counts the rows that ``ignore_index`` leaves out, and keeps
    the number of labels and the length of the shortest list.

    Args:
        bucketings: Any number of different label buckets.
        min_gain: The smallest gain of a relevant label, as in the metrics; None for any gain above 0.
        groups: Number of row groups.
    """

    counts: Tensor
    extent: Tensor
    """The number of labels L, 0 if no batch tells it; and minus the length of the shortest list."""

    def __init__(self, bucketings: Sequence[LabelBuckets], min_gain: float | None = None, groups: int = 0) -> None:
        super().__init__()
        self.bucketings, self.min_gain, self.groups = tuple(bucketings), min_gain, groups
        self.counted = next((one for one in self.bucketings if one.counts is not None), None)
        self.top = -2 if self.counted is None or self.counted.counts is None else int(self.counted.counts.argmax())
        self.sizes = [5, groups, *map(len, bucketings)]
        self.add_state("counts", torch.zeros(sum(self.sizes), dtype=torch.int64), "sum")
        self.add_state("extent", torch.tensor([0, -EVERYTHING]), "max")  # scores of all labels have no end

    def update(self, ranking: Ranking) -> None:
        """Count the rows and the relevant labels of a ranking."""
        targets = ranking.at_least(self.min_gain).targets
        n = targets.n_relevant
        rows = torch.ones_like(n) if targets.row_mask is None else targets.row_mask.to(torch.int64)
        added, of_top, kinds = [rows.sum()[None], n.sum()[None]], rows.new_zeros(1), []
        if self.bucketings:
            ids, times = targets.kernels.occurrences(targets)
            of_top = (times * (ids == self.top)).sum()[None]
            kinds = [(len(one), one.of(ids), times) for one in self.bucketings]
        if self.groups:
            assert ranking.rows.groups is not None  # the metrics require them
            kinds.insert(0, (self.groups, ranking.rows.groups % (self.groups + 1), rows))
        left_out = rows.new_zeros(1) + ranking._memo.get(IGNORED, 0)
        added += [of_top, _lost(ranking.scores, targets)[None], left_out]
        for size, place, amount in kinds:
            padded = torch.zeros(size + 1, dtype=torch.int64, device=n.device)  # the last: no bucket or group
            added.append(padded.scatter_add_(0, place, amount)[:-1])
        self.counts = writable(self.counts)
        self.counts += torch.cat(added)
        labels, end = self.extent
        if is_listed(ranking) and ranking.num_rows:
            ends = ranking.length if ranking.row_mask is None else ranking.length.where(ranking.row_mask, EVERYTHING)
            end = torch.maximum(end, -ends.min())
        self.extent = torch.stack([labels.clamp(min=ranking.num_labels or 0), end])

    def compute(self) -> Tensor:
        """Return the states over all processes."""
        return torch.cat([self.counts, self.extent])

    def read(self) -> tuple[list[int], list[int], list[list[int]], tuple[int, int]]:
        """Return the counts over all processes.

        First rows, relevant labels, those of the most frequent label, those that are lost, and rows left out; then the
        rows of each group, the relevant labels of each bucket, and the number of labels and the shortest list.
        """
        of_all, groups, *of_buckets, (labels, end) = (
            part.tolist() for part in torch.split(self.compute(), [*self.sizes, 2])
        )
        return of_all, groups, of_buckets, (labels, -end)


def _lost(scores: Tensor | None, targets: Targets) -> Tensor:
    """Return the number of relevant labels whose score is ``-inf``, a tensor of no axes; 0 for lists."""
    if scores is None or not scores.is_floating_point() or scores.layout != torch.strided:
        return torch.zeros((), dtype=torch.int64, device=targets.device)
    if targets.dense is not None and not targets.kernels.reads:  # the program does not wait for a device
        relevant = (targets.dense > 0) & (scores == -torch.inf)
        relevant = relevant if targets.row_mask is None else relevant & targets.row_mask[:, None]
        return relevant.sum()
    entries = targets.entries
    own = scores[entries.rows, entries.ids.clamp(min=0)]
    return ((own == -torch.inf) & (entries.ids >= 0)).sum()
