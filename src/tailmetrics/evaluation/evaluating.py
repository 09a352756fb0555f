"""A whole evaluation in one call, for tensors that are at hand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tailmetrics._checks import check_count, check_row_mask, shape_of
from tailmetrics.buckets import LabelBuckets
from tailmetrics.collection import TopKCollection
from tailmetrics.evaluation.accumulating import Evaluation
from tailmetrics.evaluation.label_metrics import with_label_values
from tailmetrics.evaluation.row_groups import group_names, group_numbers
from tailmetrics.evaluation.row_values import RowValues, present
from tailmetrics.frequency import LabelFrequency
from tailmetrics.metrics import NDCGAtK, PrecisionAtK, PredictionProportionAtK, RecallAtK, TopKMetric
from tailmetrics.metrics._training import FACTS
from tailmetrics.ranking._tensors import as_tensor, is_csr
from tailmetrics.report.report import Report

CALLER = "evaluate"


def evaluate(
    preds: Any,
    target: Any,
    *,
    metrics: TopKCollection | Iterable[TopKMetric] | None = None,
    buckets: LabelBuckets | None = None,
    label_counts: Any = None,
    row_mask: Any = None,
    row_groups: Any = None,
    labels: bool = False,
    label_names: Sequence[str] | None = None,
    intervals: bool | int = False,
    title: str = "Evaluation",
    batch_rows: int = 4096,
) -> Report:
    """Return a report that a notebook shows from head to tail, and that writes itself as files.

    Args:
        preds: Scores, ids, candidates or CSR as in :func:`tailmetrics.rank`.
        target: What is relevant, as in :func:`tailmetrics.rank`.
        metrics: Metrics, which stay as they are; None takes precision@1, 3, 5 and ndcg@10, and by bucket precision@1,
            recall@10, ndcg@10 and prediction_proportion@10.
        buckets: Label buckets for metrics that leave them open; where no metric is by bucket, each is reported by
            bucket too.
        label_counts: Shape (L,), training counts, or a :class:`tailmetrics.LabelFrequency`; their deciles are the
            buckets if there are no others.
        row_mask: Shape (N,), bool; False drops a row.
        row_groups: Shape (N,): the group of each row, such as its language, None for none; every value is then
            reported for the rows of each group too. Or the numbers of groups that the metrics name.
        labels: Whether the report has values of single labels, and names the worst ones: those that a metric keeps
            (``average="none"``, ``"macro"``), or else precision, recall and F1 at k = 10.
        label_names: The name of each label, shape (L,).
        intervals: Whether every value with values per row gets a 95 % confidence interval; True draws 10,000
            resamples, or say how many.
        title: Heads the report.
        batch_rows: Rows that are ranked at a time; makes no difference to the values.

    >>> import torch
    >>> scores = torch.tensor([[0.9, 0.5, 0.1], [0.2, 0.7, 0.6]])
    >>> report = evaluate(scores, torch.tensor([0, 2]), label_counts=[5, 3, 1], metrics=[PrecisionAtK(k=1)])
    >>> report.scalars["precision@1"], report.scalars["precision@1/decile_10"]
    (0.5, 1.0)
    """
    more = {"metrics": metrics, "buckets": buckets, "label_counts": label_counts, "row_mask": row_mask}
    more |= {"row_groups": row_groups, "labels": labels, "label_names": label_names, "batch_rows": batch_rows}
    found = evaluated(preds, target, rows=bool(intervals), **more)
    report = found.evaluation.report(title)
    if report.rows is None:
        report = replace(report, rows=found.num_rows)
    return report if found.rows is None else replace(report, intervals=_intervals(found.rows, intervals))


def _intervals(rows: RowValues, asked: int) -> dict[str, Any]:
    from tailmetrics.significance import intervals

    columns = rows.columns()
    resamples = 10_000 if asked is True else asked
    return intervals(columns, medians=present(rows.medians, columns), resamples=resamples) if columns else {}


class Evaluated(NamedTuple):
    """An evaluation that has seen all rows.

    Attributes:
        evaluation: The metrics.
        rows: The value of each row, if asked for.
        num_rows: Rows that count.
    """

    evaluation: Evaluation
    rows: RowValues | None
    num_rows: int


def evaluated(
    preds: Any,
    target: Any,
    *,
    rows: bool = False,
    metrics: TopKCollection | Iterable[TopKMetric] | None = None,
    buckets: LabelBuckets | None = None,
    label_counts: Any = None,
    row_mask: Any = None,
    row_groups: Any = None,
    labels: bool = False,
    label_names: Sequence[str] | None = None,
    batch_rows: int = 4096,
) -> Evaluated:
    """Run metrics over data at hand; the arguments are those of :func:`evaluate`, ``rows`` keeps values per row."""
    check_count(CALLER, "batch_rows", batch_rows)
    pair = isinstance(preds, (tuple, list)) and len(preds) == 2
    given = tuple(as_tensor(CALLER, f"preds[{place}]", part) for place, part in enumerate(preds)) if pair else None
    first = given[0] if given is not None else as_tensor(CALLER, "preds", preds)
    target = as_tensor(CALLER, "target", target)
    _check_rows(first, target)
    keep = check_row_mask(CALLER, row_mask, first.shape[0] if first.ndim else 0, first.device)
    training = _training(buckets, label_counts)
    if training is not None and given is None and (first.is_floating_point() or is_csr(first)):
        _check_width(first, training, "buckets" if label_counts is None else "label_counts")
    groups = None if row_groups is None else group_names(row_groups)
    collection = _completed(metrics, training, groups)
    if labels:
        columns = first.shape[1] if given is None and (first.is_floating_point() or is_csr(first)) else None
        collection = with_label_values(collection, columns)
    evaluation = Evaluation(_bound(collection, training), labels=labels, label_names=label_names)
    numbers = _group_numbers(row_groups, evaluation.row_groups, len(first))
    evaluation.start(first.device)
    values = RowValues(evaluation.collection) if rows else None
    for batch in _batches(len(first), batch_rows):
        part = _cut(first, batch) if given is None else tuple(_cut(one, batch) for one in given)
        counts = None if keep is None else keep[batch]
        of_rows = None if numbers is None else numbers[batch]
        ranking = evaluation.collection.rank(part, _cut(target, batch), counts, row_groups=of_rows)
        evaluation.update(ranking)
        if values is not None:
            values.add(ranking)
    return Evaluated(evaluation, values, len(first) if keep is None else int(keep.sum()))


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


def _check_rows(preds: Tensor, target: Tensor) -> None:
    if preds.ndim != 2 or target.ndim == 0 or len(preds) != len(target):
        raise ValueError(
            f"{CALLER}: preds is {shape_of(preds)} and target {shape_of(target)}; pass preds [N, L] or [N, K] and one "
            "row of target per row of preds."
        )


def _check_width(preds: Tensor, training: LabelFrequency | LabelBuckets, argument: str) -> None:
    if training.num_labels != preds.shape[1]:
        raise ValueError(
            f"{CALLER}: {argument} holds {training.num_labels} labels, but preds has {preds.shape[1]} columns; pass "
            f"{'a count' if argument == 'label_counts' else 'a bucket'} for every column."
        )


def _completed(
    metrics: TopKCollection | Iterable[TopKMetric] | None,
    training: LabelFrequency | LabelBuckets | None,
    groups: Sequence[str] | None,
) -> TopKCollection:
    """Return copies of the metrics, with everything known that they left open, and groups of rows if there are any."""
    if metrics is None:
        metrics = _default_metrics(by_bucket=training is not None)
    elif not isinstance(metrics, TopKCollection):
        metrics = list(metrics)
    collection = deepcopy(metrics) if isinstance(metrics, TopKCollection) else TopKCollection(deepcopy(metrics))
    collection.reset()
    members = list(collection.members().values())
    if training is not None and all(metric.buckets is None for metric in members):
        found = training if isinstance(training, LabelBuckets) else training.deciles()
        members += [_by_bucket(metric, found) for metric in members if _takes_buckets(metric)]
    return TopKCollection(members, prefix=collection.prefix, postfix=collection.postfix, row_groups=groups)


def _bound(collection: TopKCollection, training: LabelFrequency | LabelBuckets | None) -> TopKCollection:
    return collection if training is None else collection.bind(training)


def _training(buckets: LabelBuckets | None, label_counts: Any) -> LabelFrequency | LabelBuckets | None:
    if buckets is not None and not isinstance(buckets, LabelBuckets):
        raise TypeError(
            f"{CALLER}: buckets is a {type(buckets).__name__}; pass LabelBuckets, or label_counts= for deciles."
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


def _batches(num_rows: int, size: int) -> Iterator[slice]:
    """Yield the rows of each batch; one empty batch where there are none, so that its arguments are checked."""
    for start in range(0, max(1, num_rows), size):
        yield slice(start, min(start + size, num_rows))


def _cut(value: Tensor, rows: slice) -> Tensor:
    """Return some rows."""
    if not is_csr(value):
        return value[rows]
    crow = value.crow_indices()[rows.start : rows.stop + 1]
    stored = slice(int(crow[0]), int(crow[-1]))
    return torch.sparse_csr_tensor(
        crow - crow[0],
        value.col_indices()[stored],
        value.values()[stored],
        size=(rows.stop - rows.start, value.shape[1]),
        check_invariants=False,  # the whole was checked
    )
