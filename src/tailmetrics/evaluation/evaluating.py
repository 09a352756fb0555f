"""A whole evaluation in one call, for tensors that are at hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tailmetrics._checks import check_count, check_row_mask, shape_of
from tailmetrics.buckets import LabelBuckets, buckets_of
from tailmetrics.collection import TopKCollection
from tailmetrics.evaluation.accumulating import Evaluation
from tailmetrics.evaluation.forms import CALLER, read_data
from tailmetrics.evaluation.label_metrics import with_label_values
from tailmetrics.evaluation.row_groups import group_names, group_numbers
from tailmetrics.evaluation.row_values import RowValues, present
from tailmetrics.frequency import LabelFrequency
from tailmetrics.metrics import NDCGAtK, PrecisionAtK, PredictionProportionAtK, RecallAtK, TopKMetric
from tailmetrics.metrics._training import FACTS
from tailmetrics.report.report import Report

CONFIDENCE = 0.95
"""Of intervals that nobody has asked for."""


def evaluate(
    preds: Any,
    target: Any,
    *,
    metrics: TopKCollection | Iterable[TopKMetric] | None = None,
    buckets: LabelBuckets | str | None = None,
    label_counts: Any = None,
    train_target: Any = None,
    row_mask: Any = None,
    row_groups: Any = None,
    labels: bool = False,
    label_names: Sequence[str] | None = None,
    examples: bool = False,
    row_names: Sequence[str] | None = None,
    intervals: bool | int | None = None,
    title: str = "Evaluation",
    batch_rows: int = 4096,
) -> Report:
    """Return a report that a notebook shows from head to tail, and that writes itself as files.

    Args:
        preds: Scores, ids, candidates or CSR as in :func:`tailmetrics.rank`; or lists of ids or names, the best one
            first; or a table such as a DataFrame with the columns query, item and score; or a dict from query to a dict
            from item to score, as pytrec_eval and ranx have runs.
        target: What is relevant, as in :func:`tailmetrics.rank`; or lists of ids or names; or a table or dict as above,
            with a gain where ``preds`` has a score, or without.
        metrics: Metrics, which stay as they are; None takes precision@1, 3, 5 and ndcg@10, and by bucket precision@1,
            recall@10, ndcg@10 and prediction_proportion@10.
        buckets: Label buckets for metrics that leave them open; where no metric is by bucket, each is reported by
            bucket too. Or ``"deciles"``, ``"quantiles:5"`` or ``"thresholds:1,5,100"`` of the training counts.
        label_counts: Shape (L,), training counts, or a :class:`tailmetrics.LabelFrequency`; their deciles are the
            buckets if there are no others.
        train_target: Training targets in any form that ``target`` has; they are counted for deciles, and for metrics
            that need counts.
        row_mask: Shape (N,), bool; False drops a row.
        row_groups: Shape (N,), or a dict by query: the group of each row, such as its language, None for none; every
            value is then reported for the rows of each group too. Or the numbers of groups that the metrics name.
        labels: Whether the report has values of single labels, and names the worst ones: those that a metric keeps
            (``average="none"``, ``"macro"``), or else precision, recall and F1 at k = 10.
        label_names: The name of each label, shape (L,).
        examples: Whether the report shows a few rows: for each bucket one that misses a label of it, with its relevant
            labels, their ranks and its list. Rows are chosen by a hash of their content, so that the order of rows
            makes no difference.
        row_names: The name of each row, shape (N,), for the examples.
        intervals: 95 % confidence intervals of every value with values per row. None makes them from sums over the
            rows, which needs no resampling (and scipy, which ``tailmetrics[report]`` brings); False leaves them out,
            which is faster; True resamples 10,000 times, or say how often.
        title: Heads the report.
        batch_rows: Rows that are ranked at a time; makes no difference to the values.

    >>> import torch
    >>> scores = torch.tensor([[0.9, 0.5, 0.1], [0.2, 0.7, 0.6]])
    >>> report = evaluate(scores, torch.tensor([0, 2]), label_counts=[5, 3, 1], metrics=[PrecisionAtK(k=1)])
    >>> report.scalars["precision@1"], report.scalars["precision@1/decile_10"]
    (0.5, 1.0)
    """
    more = {"metrics": metrics, "buckets": buckets, "label_counts": label_counts}
    more |= {"train_target": train_target, "row_mask": row_mask}
    more |= {"row_groups": row_groups, "labels": labels, "label_names": label_names, "batch_rows": batch_rows}
    more |= {"examples": examples, "row_names": row_names}
    quick = None if intervals is False else CONFIDENCE
    found = evaluated(preds, target, rows=bool(intervals), quick=quick, **more)
    report = found.evaluation.report(title)
    if report.rows is None:
        report = replace(report, rows=found.num_rows)
    report = replace(report, notes=(*report.notes, *found.notes))
    resampled = {} if found.rows is None else _intervals(found.rows, intervals)
    return replace(report, intervals={**report.intervals, **resampled})


def _intervals(rows: RowValues, asked: int | None) -> dict[str, Any]:
    from tailmetrics.significance import intervals

    columns = rows.columns()
    resamples = asked if asked is not None and asked is not True else 10_000
    if not columns:
        return {}
    return intervals(columns, medians=present(rows.medians, columns), gaps=rows.gaps, resamples=resamples)


class Evaluated(NamedTuple):
    """An evaluation that has seen all rows.

    Attributes:
        evaluation: The metrics.
        rows: The value of each row, if asked for.
        num_rows: Rows that count.
        notes: What to know of the rows.
    """

    evaluation: Evaluation
    rows: RowValues | None
    num_rows: int
    notes: tuple[str, ...]


def evaluated(
    preds: Any,
    target: Any,
    *,
    rows: bool = False,
    quick: float | None = None,
    metrics: TopKCollection | Iterable[TopKMetric] | None = None,
    buckets: LabelBuckets | str | None = None,
    label_counts: Any = None,
    train_target: Any = None,
    row_mask: Any = None,
    row_groups: Any = None,
    labels: bool = False,
    label_names: Sequence[str] | None = None,
    examples: bool = False,
    row_names: Sequence[str] | None = None,
    batch_rows: int = 4096,
) -> Evaluated:
    """Run metrics over data at hand; the arguments are those of :func:`evaluate`.

    ``rows`` keeps values per row, and ``quick`` is the confidence of intervals from sums over rows, None for none.
    """
    check_count(CALLER, "batch_rows", batch_rows)
    data = read_data(preds, target, train_target)
    keep = check_row_mask(CALLER, row_mask, data.num_rows, data.device)
    training = _training(buckets, data.train if label_counts is None else label_counts)
    if training is not None and data.columns is not None:
        _check_width(data.columns, training, "buckets" if label_counts is None else "label_counts")
    if isinstance(row_groups, Mapping):
        row_groups = [row_groups.get(name) for name in data.row_names or range(data.num_rows)]
    groups = None if row_groups is None else group_names(row_groups)
    names = data.label_names if label_names is None else label_names
    evaluation = Evaluation(
        _completed(metrics, training, groups, labels, data.columns),
        labels=labels,
        label_names=names,
        examples=examples,
        intervals=quick,
        row_names=_row_names(data.row_names if row_names is None else row_names, data.num_rows),
    )
    numbers = _group_numbers(row_groups, evaluation.row_groups, data.num_rows)
    evaluation.start(data.device)
    values = RowValues(evaluation.collection) if rows else None
    for batch, part, relevant in data.batches(batch_rows):
        counts = None if keep is None else keep[batch]
        of_rows = None if numbers is None else numbers[batch]
        ranking = evaluation.collection.rank(part, relevant, counts, row_groups=of_rows)
        evaluation.update(ranking, rows=torch.arange(batch.start, batch.stop))
        if values is not None:
            values.add(ranking)
    return Evaluated(evaluation, values, data.num_rows if keep is None else int(keep.sum()), data.notes)


def _row_names(names: Sequence[str] | None, num_rows: int) -> Sequence[str] | None:
    if names is not None and len(names) != num_rows:
        raise ValueError(f"{CALLER}: row_names holds {len(names)} names for {num_rows} rows; pass one for each.")
    return names


def prepared(
    metrics: TopKCollection | Iterable[TopKMetric] | None,
    *,
    buckets: LabelBuckets | str | None = None,
    label_counts: Any = None,
    labels: bool = False,
    label_names: Sequence[str] | None = None,
    num_labels: int | None = None,
    intervals: bool = True,
) -> Evaluation:
    """Return an evaluation that has seen no row, of copies of the metrics; arguments are those of :func:`evaluate`."""
    collection = _completed(metrics, _training(buckets, label_counts), None, labels, num_labels)
    confidence = CONFIDENCE if intervals else None
    return Evaluation(collection, labels=labels, label_names=label_names, intervals=confidence)


def _group_numbers(row_groups: Any, names: Sequence[str], num_rows: int) -> Tensor | None:
    """Return the number of the group of each row; None where no metric has groups."""
    if row_groups is None:
        return None
    if not names:
        raise ValueError(
            f"{CALLER}: row_groups holds numbers, but no metric names groups; pass a name for each row, or "
            "metrics with row_groups=."
        )
    numbers: Tensor = torch.as_tensor(group_numbers(CALLER, row_groups, names))
    if numbers.shape != (num_rows,):
        raise ValueError(f"{CALLER}: row_groups is {shape_of(numbers)} for {num_rows} rows; pass one for each row.")
    return numbers


def _check_width(columns: int, training: LabelFrequency | LabelBuckets, argument: str) -> None:
    if training.num_labels != columns:
        raise ValueError(
            f"{CALLER}: {argument} holds {training.num_labels} labels, but preds has {columns} columns; pass "
            f"{'a count' if argument == 'label_counts' else 'a bucket'} for every column."
        )


def _completed(
    metrics: TopKCollection | Iterable[TopKMetric] | None,
    training: LabelFrequency | LabelBuckets | None,
    groups: Sequence[str] | None,
    labels: bool,
    num_labels: int | None,
) -> TopKCollection:
    """Return copies of the metrics, with all known that they left open, and groups of rows and labels if asked for."""
    if metrics is None:
        metrics = _default_metrics(by_bucket=training is not None)
    elif not isinstance(metrics, TopKCollection):
        metrics = list(metrics)
    collection = deepcopy(metrics) if isinstance(metrics, TopKCollection) else TopKCollection(deepcopy(metrics))
    collection.check_update("evaluate")
    collection.reset()
    members = list(collection.members().values())
    if training is not None and all(metric.buckets is None for metric in members):
        found = training if isinstance(training, LabelBuckets) else training.deciles()
        members += [_by_bucket(metric, found) for metric in members if _takes_buckets(metric)]
    completed = collection._with_members(members, row_groups=groups)
    completed = with_label_values(completed, num_labels) if labels else completed
    return completed if training is None else completed.bind(training)


def _training(buckets: LabelBuckets | str | None, label_counts: Any) -> LabelFrequency | LabelBuckets | None:
    if isinstance(buckets, str):
        if label_counts is None:
            raise ValueError(
                f"{CALLER}: buckets={buckets!r} has no label counts yet; pass label_counts= or train_target=."
            )
        counts = label_counts.compute() if isinstance(label_counts, LabelFrequency) else label_counts
        return buckets_of(buckets, counts)
    if buckets is not None and not isinstance(buckets, LabelBuckets):
        raise TypeError(
            f"{CALLER}: buckets is a {type(buckets).__name__}; pass LabelBuckets, or a text such as 'deciles'."
        )
    if label_counts is None:
        return buckets
    if buckets is not None:
        counts = label_counts.compute() if isinstance(label_counts, LabelFrequency) else label_counts
        return LabelBuckets.from_assignment(buckets.assignment, buckets.names, counts)
    return label_counts if isinstance(label_counts, LabelFrequency) else LabelBuckets.deciles(label_counts)


def _default_metrics(by_bucket: bool) -> list[TopKMetric]:
    overall: list[TopKMetric] = [PrecisionAtK(k=[1, 3, 5]), NDCGAtK(k=10)]
    if not by_bucket:
        return overall
    return [
        *overall,
        PrecisionAtK(k=1, buckets="deciles"),
        RecallAtK(k=10, buckets="deciles"),
        NDCGAtK(k=10, buckets="deciles"),
        PredictionProportionAtK(k=10, buckets="deciles"),
    ]


def _takes_buckets(metric: TopKMetric) -> bool:
    """Whether the metric has a value for a bucket: a tie or an overlap of lists has none, and its class refuses."""
    try:
        type(metric)(**{name: value for name, value in metric._given.items() if name not in FACTS}, buckets="deciles")
    except (TypeError, ValueError):
        return False
    return True


def _by_bucket(metric: TopKMetric, buckets: LabelBuckets) -> TopKMetric:
    """Return the same metric by bucket: of the same arguments, and of the facts of training that it knows."""
    facts = {name: value for name, value in vars(metric).items() if name in FACTS and value is not None}
    return type(metric)(**{**metric._given, **facts, "buckets": buckets})
