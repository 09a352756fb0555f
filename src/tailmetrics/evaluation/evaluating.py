"""A whole evaluation in one call, for data at hand: tensors, tables, dicts of runs, lists of lists."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from math import prod
from typing import Any, Literal, NamedTuple, TypeAlias
from warnings import catch_warnings, simplefilter

import numpy as np
import torch
from torch import Tensor

from tailmetrics._checks import check_count, check_counts, shape_of, writable_array
from tailmetrics.buckets import LabelBuckets, buckets_of
from tailmetrics.collection import TopKCollection
from tailmetrics.evaluation.accumulating import Evaluation
from tailmetrics.evaluation.description import by_bucket, with_label_values
from tailmetrics.evaluation.row_moments import as_valued
from tailmetrics.evaluation.row_values import RowValues
from tailmetrics.frequency import LabelFrequency
from tailmetrics.metrics import (
    CatalogCoverageAtK,
    GiniAtK,
    NDCGAtK,
    PrecisionAtK,
    PredictionProportionAtK,
    RecallAtK,
    TopKMetric,
)
from tailmetrics.metrics._arguments_of_metrics import Training
from tailmetrics.ranking._inputs import Batch, Context, ExplicitTarget, as_tensor, as_tensors, check_indexes, per_row
from tailmetrics.report.report import Report

CALLER = "evaluate"
ALIKE = (
    "Rows of one sequence are taken for independent: where they are alike, intervals are too narrow, and differences "
    "seem more certain than they are. evaluate and compare take the sequence of each row by clusters=."
)
"""What to know of scores (B, T, L)."""
CONFIDENCE = 0.95
"""Of intervals that nobody has asked for."""
Part = tuple[slice, Any, Any]
Missing: TypeAlias = Literal["skip", "zero"]


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
    missing: Missing = "skip",
    ignore_index: int | None = None,
    intervals: bool | int | None = None,
    clusters: Any = None,
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
        buckets: Label buckets, or ``"deciles"``, ``"quantiles:5"`` or ``"thresholds:1,5,100"`` of the training
            counts. Each metric is reported by bucket too, of the row's one list (``scope="global"``). A metric with
            ``buckets`` of its own keeps its scope, and takes these where it leaves them open (``buckets="deciles"``).
        label_counts: Training counts: a dict or Series by the name of the label, where a label without one has 0;
            shape (L,), by label id or, where tables or dicts name labels, in the order of ``label_names``, by default
            ascending; or a :class:`tailmetrics.LabelFrequency`. Where no metric is by bucket, each is reported by
            their deciles too, as with ``buckets="deciles"``.
        train_target: Training targets in any form that ``target`` has; they are counted for deciles, and for metrics
            that need counts.
        row_mask: Shape (N,), or by query as a dict, or as a Series whose index names the queries of tables: bool; False
            drops a row.
        row_groups: Shape (N,), or by query alike, or (B,) or (B, T) beside scores (B, T, L): the group of each row,
            such as its language, None for none; every value is then reported for the rows of each group too. Or the
            numbers of groups that the metrics name.
        labels: Whether the report has values of single labels, and names the worst ones: those that a metric keeps
            (``average="none"``, ``"macro"``), or else precision, recall and F1 at k = 10.
        label_names: The name of each label, shape (L,): scores then go with targets that are lists of names, too.
            Beside ids, L is the number of names, and each id is a place among them, from 0. Beside tables and dicts,
            all labels: a catalogue, of which they hold a part.
        examples: Whether the report shows a few rows: for each bucket one that misses a label of it, with its relevant
            labels, their ranks and its list. Rows are chosen by a hash of their content, so that the order of rows
            makes no difference.
        row_names: The name of each row, shape (N,), for the examples.
        missing: What becomes of a query of a table or dict without predictions: ``"skip"`` leaves it out, ``"zero"``
            counts it as an empty list.
        ignore_index: Rows with this label in ``target`` do not count, for every metric that does not say so, nor do
            such labels of ``train_target``.
        intervals: 95 % confidence intervals of every value with values per row. None makes them from sums over the
            rows, which needs no resampling (and scipy, which ``tailmetrics[report]`` brings); False leaves them out,
            which is faster; True resamples 10,000 times, or say how often.
        clusters: What rows are drawn by for intervals, such as their user: in the forms of ``row_groups``. Intervals
            are too narrow without it where rows of one user are alike.
        title: Heads the report.
        batch_rows: Rows that are ranked at a time; makes no difference to the values.

    >>> import torch
    >>> scores = torch.tensor([[0.9, 0.5, 0.1], [0.2, 0.7, 0.6]])
    >>> report = evaluate(scores, torch.tensor([0, 2]), label_counts=[5, 3, 1], metrics=[PrecisionAtK(k=1)])
    >>> report.scalars["precision@1"], report.scalars["global_precision@1/decile_10"]
    (0.5, 1.0)
    """
    more = {"metrics": metrics, "buckets": buckets, "label_counts": label_counts, "labels": labels}
    more |= {"label_names": label_names, "examples": examples, "row_names": row_names, "row_groups": row_groups}
    more |= {"train_target": train_target, "row_mask": row_mask, "missing": missing, "batch_rows": batch_rows}
    more |= {"ignore_index": ignore_index, "clusters": clusters}
    drawn = intervals is not False and (bool(intervals) or clusters is not None)
    quick = None if intervals is False or clusters is not None else CONFIDENCE
    report, rows, data = evaluated(preds, target, title=title, rows=drawn, quick=quick, **more)
    columns = {} if rows is None else rows.columns()
    if rows is None or not columns:
        return report
    from tailmetrics.significance import intervals as estimated

    resamples = 10_000 if intervals is True else int(intervals or 0)
    of_rows = estimated(columns, resamples=resamples, clusters=data.clusters, **rows.facts.among(columns))
    return replace(report, intervals={**report.intervals, **as_valued(of_rows, {**report.scalars, **report.summaries})})


def evaluated(
    preds: Any,
    target: Any,
    *,
    title: str = "",
    rows: bool = False,
    quick: float | None = None,
    train_target: Any = None,
    row_mask: Any = None,
    row_groups: Any = None,
    label_counts: Any = None,
    label_names: Sequence[str] | None = None,
    row_names: Sequence[str] | None = None,
    missing: Missing = "skip",
    batch_rows: int = 4096,
    metrics: TopKCollection | Iterable[TopKMetric] | None = None,
    ignore_index: int | None = None,
    clusters: Any = None,
    **more: Any,
) -> tuple[Report, Any, Data]:
    """Return the report, the values of all rows (:class:`RowValues`; None unless ``rows`` asks for them), and the data.

    The other arguments are those of :func:`evaluate`; ``quick`` is the confidence of intervals from sums over rows.
    """
    check_count(CALLER, "batch_rows", batch_rows)
    metrics = metrics if isinstance(metrics, TopKCollection) or metrics is None else list(metrics)
    given = metrics.members().values() if isinstance(metrics, TopKCollection) else metrics or ()
    known = (getattr(one, "ignore_index", None) for one in given)
    ignored = next((one for one in known if one is not None), ignore_index)
    if ignore_index not in (None, ignored):
        raise ValueError(
            f"{CALLER}: ignore_index={ignore_index}, but a metric has ignore_index={ignored}; pass one of the two."
        )
    counted = _by_name(label_counts)
    named = {} if counted is None else {"label_counts": counted}
    data = read_data(preds, target, train_target, row_mask, label_names, missing, named, ignored)
    names = label_names if data.label_names is None else data.label_names
    if data.label_names is not None:
        _check_made_for(given, data)
    if counted is not None:
        label_counts = _counts_of(counted, range(data.columns or 0) if names is None else names)
    elif data.given_order is not None and label_counts is not None:
        label_counts = _counts_by_id(label_counts, data.given_order)
    if data.given_order is not None and isinstance(more.get("buckets"), LabelBuckets):
        more["buckets"] = _buckets_by_id(more["buckets"], data.given_order)
    beside = {"preds": preds, "target": target}
    row_groups = of_rows(row_groups, "row_groups", data, beside)
    data = data._replace(clusters=of_rows(clusters, "clusters", data, beside))
    row_names = data.row_names if row_names is None else row_names
    if row_names is not None and len(row_names) != data.num_rows:
        raise ValueError(
            f"{CALLER}: row_names holds {len(row_names)} names for {data.num_rows} rows; pass one for each."
        )
    evaluation = prepared(
        metrics,
        ignore_index=ignore_index,
        label_counts=data.train if label_counts is None else label_counts,
        groups=None if row_groups is None else group_names(row_groups),
        label_names=names,
        row_names=row_names,
        num_labels=data.columns,
        label_order=data.label_order,
        confidence=quick,
        **more,
    )
    for metric in evaluation.members:
        lacking = metric._missing()
        other = (
            "label_names= or " if lacking == ["num_labels"] else "" if "num_train" in lacking else "label_counts= or "
        )
        metric._check_bound("", f"pass {other}train_target=")
    numbers = None
    if row_groups is not None:
        if not evaluation.row_groups:
            raise ValueError(
                f"{CALLER}: row_groups holds numbers, but no metric names groups; pass a name for each row, or "
                "metrics with row_groups=."
            )
        numbers = torch.as_tensor(writable_array(group_numbers(CALLER, row_groups, evaluation.row_groups)))
        if numbers.shape != (data.num_rows,):
            raise ValueError(
                f"{CALLER}: row_groups is {shape_of(numbers)} for {data.num_rows} rows; pass one for each row."
            )
    evaluation.start(data.device)
    values = RowValues(evaluation.collection, evaluation.over_all) if rows else None
    for place, part, relevant in data.batches(batch_rows):
        counts = None if data.row_mask is None else data.row_mask[place]
        groups = None if numbers is None else numbers[place]
        ranking = evaluation.rank(part, relevant, counts, row_groups=groups)
        evaluation.update(ranking, rows=torch.arange(place.start, place.stop))
        if values is not None:
            values.add(ranking)
    report = evaluation.report(title)
    kept = data.num_rows if data.row_mask is None else int(data.row_mask.sum())
    notes = [*report.notes, *notes_on_left_out(evaluation, report, kept), *data.notes]
    if data.tokens > 1 and clusters is None and (rows or quick is not None):
        notes.append(ALIKE)
    if data.label_names is not None and label_names is None:
        notes += note_on_catalogue(
            evaluation.members, len(data.label_names), "preds and the other arguments name", "label_names=ITEMS"
        )
    counts = data.train.compute() if counted is None and data.train is not None else None
    if counted is not None:
        counts = torch.tensor(label_counts)
    if counts is not None and (data.columns is None or data.label_names is not None):
        notes += note_on_unseen(counts, "pass lists of strings or a table" if data.label_names is None else None)
    return replace(report, tie_winner=data.tie_winner, notes=tuple(notes)), values, data


def prepared(
    metrics: TopKCollection | Iterable[TopKMetric] | None = None,
    *,
    buckets: LabelBuckets | str | None = None,
    label_counts: Any = None,
    groups: Sequence[str] | None = None,
    labels: bool = False,
    label_names: Sequence[str] | None = None,
    examples: bool = False,
    row_names: Sequence[str] | None = None,
    num_labels: int | None = None,
    label_order: Tensor | None = None,
    ignore_index: int | None = None,
    confidence: float | None = None,
) -> Evaluation:
    """Return an evaluation that has seen no row, of copies of the metrics, with all known that they left open.

    The arguments are those of :func:`evaluate` and of :class:`Evaluation`; ``groups`` are names of groups of rows, and
    ``num_labels`` is the number of columns of scores, where that is what predictions are. Labels of equal counts are
    taken in ``label_order``, as for :func:`buckets_of`.
    """
    training = _training(buckets, label_counts, label_order)
    if training is not None and num_labels is not None and training.num_labels != num_labels:
        argument, each = ("label_counts", "a count") if buckets is None else ("buckets", "a bucket")
        raise ValueError(
            f"{CALLER}: {argument} holds {training.num_labels} labels, but the data have {num_labels}; pass {each} "
            "for every label."
        )
    if metrics is None:
        metrics = [PrecisionAtK(k=[1, 3, 5]), NDCGAtK(k=10)]
        if training is not None:
            at_10 = (RecallAtK, NDCGAtK, PredictionProportionAtK)
            metrics += by_bucket([PrecisionAtK(k=1), *(kind(k=10) for kind in at_10)], "deciles")
    given = metrics if isinstance(metrics, TopKCollection) else list(metrics)
    collection = deepcopy(given) if isinstance(given, TopKCollection) else TopKCollection(deepcopy(given))
    collection.check_update("evaluate")
    collection.reset()
    members = list(collection.members().values())
    for metric in members if training is None else ():
        if metric._missing() == ["num_labels"]:
            metric._settle({"num_labels": num_labels})
    if training is not None and (buckets is not None or all(metric.buckets is None for metric in members)):
        found = training if isinstance(training, LabelBuckets) else _deciles(training.compute(), label_order)
        members += by_bucket(members, found)
    collection = collection._with_members(members, row_groups=groups, ignore_index=ignore_index)
    if labels:
        collection = with_label_values(collection, num_labels)
    if training is not None:
        collection._bind(replace(Training.of(CALLER, training), order=label_order))
    return Evaluation(
        collection,
        labels=labels,
        label_names=label_names,
        examples=examples,
        row_names=row_names,
        intervals=confidence,
    )


def _by_name(label_counts: Any) -> dict[str, Any] | None:
    """Return counts as a dict by name; None where they are in the order of labels, as a Series without an index is."""
    is_series = hasattr(label_counts, "index") and hasattr(label_counts, "items")
    if not is_series and not isinstance(label_counts, Mapping):
        return None
    named = {str(name): count for name, count in label_counts.items()}
    if len(named) < len(label_counts):
        raise ValueError(f"{CALLER}: label_counts names a label twice; add its counts up.")
    return named


def _counts_of(counted: Mapping[str, Any], names: Iterable[Any]) -> list[Any]:
    """Return the count of each label, 0 where there is none."""
    known = [str(name) for name in names]
    unknown = next(iter(counted.keys() - set(known)), None)
    if unknown is not None:
        raise ValueError(
            f"{CALLER}: label_counts names the label {unknown!r}, but the data have "
            f"{f'{len(known):,} labels, such as {known[0]!r}' if known else 'none with names'}; write both alike, or "
            "pass one count per label, shape (L,)."
        )
    return [counted.get(name, 0) for name in known]


def _by_id(given: Tensor, order: Tensor) -> Tensor:
    return given if given.shape != order.shape else torch.empty_like(given).scatter_(0, order, given)


def _counts_by_id(label_counts: Any, order: Tensor) -> Any:
    """Return counts in the order of label ids; ``order`` has the label id of each place."""
    if isinstance(label_counts, LabelFrequency):
        return LabelFrequency.from_counts(_by_id(label_counts.compute(), order), label_counts.num_rows)
    return _by_id(check_counts(CALLER, "label_counts", label_counts), order)


def _buckets_by_id(buckets: LabelBuckets, order: Tensor) -> LabelBuckets:
    counts = None if buckets.counts is None else _by_id(buckets.counts, order)
    return LabelBuckets.from_assignment(_by_id(buckets.assignment, order), buckets.names, counts)


def _check_made_for(metrics: Iterable[TopKMetric], data: Data) -> None:
    """Raise if a metric was made for other labels than those that the data name, or in another order."""
    is_ordered = data.given_order is None or bool((data.given_order.diff() > 0).all())
    for metric in metrics:
        name, number = type(metric).__name__, getattr(metric, "num_labels", None)
        if number not in (None, data.columns):
            raise ValueError(
                f"{CALLER}: {name} was made for {number:,} labels, but the data name {data.columns:,}; leave its "
                "num_labels out, and pass all names as label_names=."
            )
        own = (metric.bound_buckets, getattr(metric, "label_counts", None))
        if not is_ordered and any(one is not None for one in own):
            raise ValueError(
                f"{CALLER}: {name} has buckets or counts of its own by label id, but labels of dicts have names; make "
                f"it with buckets='deciles', without counts, and pass buckets= or label_counts= to {CALLER}."
            )


def _deciles(counts: Any, order: Tensor | None) -> LabelBuckets:
    return buckets_of("deciles", counts, order)


def notes_on_left_out(evaluation: Evaluation, report: Report, num_rows: int) -> tuple[str, ...]:
    """Return how many of the rows that were given have the label that the metrics ignore."""
    ignored, fewer = evaluation.members[0].ignore_index, num_rows - (report.rows or 0)
    if ignored is None or not fewer:
        return ()
    return (f"{fewer:,} of {num_rows:,} rows are left out by ignore_index={ignored}.",)


def _training(
    buckets: LabelBuckets | str | None, label_counts: Any, order: Tensor | None
) -> LabelFrequency | LabelBuckets | None:
    """Return what completes metrics: buckets, with counts where they are known, or the counts."""
    if buckets is not None and not isinstance(buckets, (str, LabelBuckets)):
        raise TypeError(
            f"{CALLER}: buckets is a {type(buckets).__name__}; pass LabelBuckets, or a text such as 'deciles'."
        )
    if label_counts is None:
        if isinstance(buckets, str):
            raise ValueError(
                f"{CALLER}: buckets={buckets!r} has no label counts yet; pass label_counts= or train_target=."
            )
        return buckets
    if buckets is None:
        return label_counts if isinstance(label_counts, LabelFrequency) else _deciles(label_counts, order)
    counts = label_counts.compute() if isinstance(label_counts, LabelFrequency) else label_counts
    if isinstance(buckets, str):
        return buckets_of(buckets, counts, order)
    return LabelBuckets.from_assignment(buckets.assignment, buckets.names, counts)


# -- groups of rows -------------------------------------------------------------------------------------------------


def of_rows(given: Any, argument: str, data: Any, beside: Mapping[str, Any]) -> Any:
    """Return what is given by query, as a dict or as a Series whose index names the queries, in the order of the rows.

    Args:
        given: A dict, a Series, or what is in the order of the rows already.
        argument: Its name, for messages.
        data: What is evaluated: a :class:`Data`, or the data set of tables.
        beside: Predictions and targets by their names. Queries of tables have names; otherwise a Series is in the order
            of the rows, and its index is theirs.

    Raises:
        TypeError: If it is a table.
        ValueError: If a query has two values, a Series lacks one, a dict lacks all, or indexes of rows differ.
    """
    named, tokens = any(map(is_table, beside.values())), getattr(data, "tokens", 1)
    if is_table(given) and not isinstance(given, Mapping):
        raise TypeError(f"{CALLER}: {argument} is a table; pass one column of it, as a dict by query or by row.")
    if given is not None and not isinstance(given, Mapping) and (tokens > 1 or getattr(given, "ndim", 1) > 1):
        flat = np.asarray(given.cpu() if isinstance(given, Tensor) else given).reshape(-1)  # of (B, T), or of (B,)
        if tokens > 1 and len(flat) not in (data.num_rows, data.num_rows // tokens):
            raise ValueError(
                f"{CALLER}: {argument} is of shape {list(np.shape(given))} for "
                f"{data.num_rows // tokens:,} sequences of {tokens:,} tokens; pass one for each sequence, or for each "
                "token, padding included."
            )
        return flat if len(flat) == data.num_rows else flat.repeat(tokens)
    if not isinstance(given, Mapping) and not (named and hasattr(given, "index") and hasattr(given, "items")):
        check_indexes(CALLER, {**beside, argument: given})
        return given
    known: dict[str, Any] = {}
    for query, value in given.items():
        if str(known.setdefault(str(query), value)) != str(value):
            raise ValueError(f"{CALLER}: {argument} has two values for the query {str(query)!r}; pass one for each.")
    names = data.row_names or [str(row) for row in range(data.num_rows)]
    lacking = [name for name in names if name not in known]
    if lacking and (len(lacking) == len(names) or not isinstance(given, Mapping) or argument == "row_mask"):
        raise ValueError(
            f"{CALLER}: {argument} has no value for {len(lacking):,} of {len(names):,} queries, such as "
            f"{lacking[0]!r}; pass a dict by query, a Series whose index names the queries, or a list by row."
        )
    return [known.get(name) for name in names]


def group_numbers(caller: str, values: Any, names: Sequence[str]) -> Any:
    """Return the number of the group of each row; numbers are taken as they are.

    Args:
        caller: Who asks.
        values: Shape (N,): names, of which None and NaN are rows without a group; or numbers, -1 for none.
        names: Names of the groups.

    Raises:
        ValueError: If a row has a group that is not among the names.
    """
    if isinstance(values, Tensor) or not _any_names(values):
        return values
    numbers = {name: number for number, name in enumerate(names)}
    found = [-1 if _is_missing(value) else numbers.get(str(value), -2) for value in values]
    if -2 in found:
        unknown = values[found.index(-2)] if isinstance(values, Sequence) else list(values)[found.index(-2)]
        raise ValueError(
            f"{caller}: row_groups holds {str(unknown)!r}, which is none of {', '.join(names)}; name all groups, or "
            "pass None for rows that count only overall."
        )
    return torch.tensor(found, dtype=torch.int64)


def group_names(values: Any) -> list[str] | None:
    """Return the distinct names among the groups of all rows, sorted; None where groups are numbers."""
    if isinstance(values, str) or not hasattr(values, "__iter__") or not hasattr(values, "__len__"):
        raise TypeError(
            f"evaluate: row_groups is a {shape_of(values)}; pass the name or number of the group of each row."
        )
    if isinstance(values, Tensor) or not _any_names(values):
        return None
    return sorted({str(value) for value in values if not _is_missing(value)})


def _any_names(values: Any) -> bool:
    return any(isinstance(value, str) for value in values)


def _is_missing(value: Any) -> bool:
    return value is None or value != value


# -- forms of data ------------------------------------------------------------------------------------------------


class Data(NamedTuple):
    """Predictions and targets that can be read in batches.

    Attributes:
        num_rows: N.
        columns: L, where predictions are scores of all labels or the labels have names.
        device: Where the tensors are.
        batches: Yields rows, predictions and targets of each batch of at most so many rows.
        row_mask: Shape (N,), bool; False drops a row.
        label_names: The name of each label; None where labels are numbers.
        label_order: Label ids by ascending name, shape (L,), int64; None where ids are in this order.
        given_order: The label id of each place of what has one number per label, alike: of ``label_names``, or else as
            ``label_order``.
        tie_winner: As for :class:`Report`.
        row_names: The query of each row; None where rows are numbered.
        clusters: What rows are drawn by; None for rows.
        tokens: Rows of each sequence, where scores are (B, T, L).
        train: Counts of training targets; None without any.
        notes: What to know of the rows.
    """

    num_rows: int
    columns: int | None
    device: torch.device
    batches: Callable[[int], Iterator[Part]]
    row_mask: Tensor | None = None
    label_names: Sequence[str] | None = None
    label_order: Tensor | None = None
    given_order: Tensor | None = None
    tie_winner: str = Report.tie_winner
    row_names: Sequence[str] | None = None
    clusters: Any = None
    tokens: int = 1
    train: LabelFrequency | None = None
    notes: tuple[str, ...] = ()


def read_data(
    preds: Any,
    target: Any,
    train_target: Any,
    row_mask: Any = None,
    label_names: Sequence[str] | None = None,
    missing: Missing = "skip",
    known: Mapping[str, Iterable[Any]] | None = None,
    ignore_index: int | None = None,
) -> Data:
    """Return predictions and targets of any form as batches of tensors."""
    check_indexes(CALLER, {"preds": preds, "target": target, "row_mask": row_mask})
    preds, target, train_target = map(_as_lists, (preds, target, train_target))
    target, train_target = _rows_of_names(target), _rows_of_names(train_target)
    if label_names is not None and hasattr(preds, "shape") and not is_table(preds):
        target, train_target = (
            _numbered(argument, value, label_names)
            for argument, value in (("target", target), ("train_target", train_target))
        )
    tables = [is_table(value) or _holds_names(value) for value in (preds, target)]
    if any(tables):
        named = {**(known or {}), **({} if label_names is None else {"label_names": label_names})}
        as_text = {argument: [str(name) for name in names] for argument, names in named.items()}
        return _of_tables(preds, target, train_target, row_mask, missing, as_text)
    num_names = None if label_names is None else len(label_names)
    return _of_tensors(_padded(preds), _padded(target), _padded(train_target), row_mask, ignore_index, num_names)


def is_table(value: Any) -> bool:
    """Whether a value is a table with columns, such as a DataFrame, or a dict from query to a dict of items."""
    return isinstance(value, Mapping) or (hasattr(value, "columns") and not isinstance(value, Tensor))


# -- tensors --------------------------------------------------------------------------------------------------------


def _of_tensors(
    preds: Any, target: Any, train_target: Any, row_mask: Any, ignore_index: int | None, num_names: int | None
) -> Data:
    batch = Batch(preds, target, row_mask)
    axes = getattr(preds[0] if isinstance(preds, tuple) else preds, "shape", ())[1:-1]
    of_tokens = len(axes) > 0 and getattr(target, "ndim", 0) == len(axes) + 1  # (B, T, L) beside ids (B, T)
    as_tensors(Context(CALLER), batch)
    given = batch.preds if isinstance(batch.preds, tuple) else None
    first = batch.preds if given is None else given[0]
    relevant = batch.target
    if first.ndim != 2 or relevant.ndim == 0 or len(first) != len(relevant):
        raise ValueError(
            f"{CALLER}: preds is {shape_of(first)} and target {shape_of(relevant)}; pass preds [N, L] or [N, K] and "
            "one row of target per row of preds."
        )
    scored = given is None and (first.is_floating_point() or first.is_sparse_csr)
    columns = first.shape[1] if scored else num_names
    if num_names is not None:
        _check_names(num_names, batch, first.shape[1] if scored else None, ignore_index)

    def batches(size: int) -> Iterator[Part]:
        for rows in _slices(len(first), size):
            part = _cut(first, rows) if given is None else tuple(_cut(one, rows) for one in given)
            yield rows, part, _cut(relevant, rows) if batch.form == "target" else ExplicitTarget(ids=relevant[rows])

    train = None
    if train_target is not None:
        labels = as_tensor(CALLER, "train_target", train_target)
        known = columns or 1 + _largest_id(first if given is None else given[1], relevant, labels)
        train = LabelFrequency(known)
        ignored = -1 if of_tokens and ignore_index is None else ignore_index
        try:
            train.update(labels, ignore_index=ignored)
        except ValueError as error:
            raise ValueError(f"{CALLER}: train_target: {error}") from error
    return Data(len(first), columns, first.device, batches, batch.row_mask, tokens=prod(axes), train=train)


def _check_names(num_names: int, batch: Batch, columns: int | None, ignore_index: int | None) -> None:
    """Raise unless there is a name for each column of scores, or for each label id of the rows that count."""
    if columns is None:
        kept = slice(None) if batch.row_mask is None else batch.row_mask
        given = (batch.preds[1] if isinstance(batch.preds, tuple) else batch.preds, batch.target)
        whole = [one[kept] for one in given if not (one.is_floating_point() or one.is_sparse_csr)]
        highest = _largest_id(*(one[one != ignore_index] for one in whole))
        if highest < num_names:
            return
        raise ValueError(
            f"{CALLER}: label_names holds {num_names:,} names, for the label ids 0 to {num_names - 1:,}, but preds or "
            f"target holds the id {highest:,}. If these numbers are names, pass them as lists of strings, or a table."
        )
    if num_names != columns:
        raise ValueError(f"{CALLER}: label_names holds {num_names:,} names for {columns:,} labels; pass one for each.")


def _largest_id(*ids: Tensor) -> int:
    whole = [int(one.max()) for one in ids if one.numel() and not (one.is_floating_point() or one.is_sparse_csr)]
    return max(whole, default=0)


def _as_lists(value: Any) -> Any:
    """Return arrays of names, and lists of arrays of ids or names, as lists; any other value as it is."""
    if not isinstance(value, list):
        kind = getattr(getattr(value, "dtype", None), "kind", "")
        rows = value.tolist() if kind in ("O", "U", "T") else []
        first = next((row for row in rows if isinstance(row, str) or (hasattr(row, "__len__") and len(row))), ())
        return _as_lists(rows) if any(isinstance(one, str) for one in first[:1]) else value
    return [
        row.tolist() if getattr(row, "ndim", 0) == 1 and (not len(row) or "float" not in str(row.dtype)) else row
        for row in value
    ]


def _padded(value: Any) -> Any:
    """Return lists of label ids as a matrix padded with -1; any other value as it is."""
    if not _is_lists(value) or not all(isinstance(one, (int, np.integer)) for row in value for one in row):
        return value
    width = max(1, *map(len, value))
    return torch.tensor([[*row, *[-1] * (width - len(row))] for row in value], dtype=torch.int64)


def _is_lists(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(row, (list, tuple)) for row in value)


def _holds_names(value: Any) -> bool:
    return _is_lists(value) and any(isinstance(one, str) for row in value for one in row)


def _rows_of_names(value: Any) -> Any:
    """Return a list of names, the relevant label of each row, as a list for each row; any other value as it is."""
    is_names = isinstance(value, (list, tuple)) and bool(value) and all(isinstance(one, str) for one in value)
    return [[one] for one in value] if is_names else value


def _numbered(argument: str, value: Any, label_names: Sequence[str]) -> Any:
    """Return lists of names as lists of label ids; any other value as it is."""
    if not _holds_names(value):
        return value
    numbers = {str(name): number for number, name in enumerate(label_names)}
    unknown = [name for row in value for name in row if name not in numbers]
    if unknown:
        raise ValueError(
            f"{CALLER}: {argument} holds {unknown[0]!r}, which is none of label_names; leave it out of the rows, or "
            "name a column of preds so."
        )
    return [[numbers[name] for name in row] for row in value]


def _slices(num_rows: int, size: int) -> Iterator[slice]:
    """Yield the rows of each batch; one empty batch where there are none, so that its arguments are checked."""
    for start in range(0, max(1, num_rows), size):
        yield slice(start, min(start + size, num_rows))


def _cut(value: Tensor, rows: slice) -> Tensor:
    """Return some rows."""
    if not value.is_sparse_csr:
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


# -- tables ---------------------------------------------------------------------------------------------------------


def _of_tables(
    preds: Any, target: Any, train_target: Any, row_mask: Any, missing: Missing, known: Mapping[str, list[str]]
) -> Data:
    from tailmetrics.io import DataFileNote, read, read_target
    from tailmetrics.io.labels import order_of_names
    from tailmetrics.io.loading import names_in_memory
    from tailmetrics.io.tables import is_run_in_memory

    given = {"preds": preds, "target": target, "train_target": train_target}
    tables = {name: _as_table(name, value) for name, value in given.items() if value is not None}
    last_wins = any(is_run_in_memory(value) for value in given.values())
    with _columns_are_renamed():
        names = names_in_memory(CALLER, tables, known, last_wins)
    order = given_order = order_of_names(names, len(names))
    if "label_names" in known:
        given_order = _places(known["label_names"], names)
    with catch_warnings(record=True) as guesses, _columns_are_renamed():
        simplefilter("always", DataFileNote)
        dataset = read(tables["preds"], tables["target"], label_names=names, missing=missing)

    def batches(size: int) -> Iterator[Part]:
        for batch in replace(dataset, batch_rows=min(size, dataset.batch_rows)):
            yield slice(int(batch.rows[0]), int(batch.rows[-1]) + 1), batch.preds, batch.target

    train = None
    if train_target is not None:
        train = LabelFrequency(len(names))
        with catch_warnings():
            simplefilter("ignore", DataFileNote)
            for part in read_target(tables["train_target"], label_names=names):
                train.update(part.target)
    notes = tuple(f"{str(guess.message).partition(';')[0]}; rename columns to choose others." for guess in guesses)
    notes += notes_on_queries(dataset, missing)
    cpu = torch.device("cpu")
    row_mask = of_rows(row_mask, "row_mask", dataset, {"preds": preds, "target": target})
    mask = None if row_mask is None else as_tensor(CALLER, "row_mask", row_mask)
    mask = per_row(CALLER, "row_mask", mask, dataset.num_rows, cpu)
    return Data(
        dataset.num_rows,
        len(names),
        cpu,
        batches,
        mask,
        names,
        order,
        given_order,
        dataset.tie_winner,
        dataset.row_names,
        train=train,
        notes=notes,
    )


@contextmanager
def _columns_are_renamed() -> Iterator[None]:
    """Raise what readers say of ``columns=`` as what can be done to a table in memory: its columns take other names."""
    from tailmetrics.io import DataFileError

    try:
        yield
    except DataFileError as error:
        hint = re.sub(r"columns=Columns\((\w+)=[^)]*\)", r"the name '\1'", error.hint)
        raise DataFileError(error.path, error.problem, error.where, hint) from error


def _places(all_names: Sequence[str], names: Sequence[str]) -> Tensor:
    """Return the label id of each of ``label_names``.

    Raises:
        ValueError: If one stands there twice, or they are not all labels.
    """
    ids = {name: number for number, name in enumerate(names)}
    found = set(all_names)
    unknown = next((name for name in names if name not in found), None)
    if unknown is not None or len(found) < len(all_names):
        problem = "holds a name twice" if unknown is None else f"lacks {unknown!r}, which the data hold"
        raise ValueError(f"{CALLER}: label_names {problem}; pass every label of the data once, as they write it.")
    return torch.tensor([ids[name] for name in all_names])


def notes_on_queries(dataset: Any, missing: Missing, preds: str = "preds", target: str = "target") -> tuple[str, ...]:
    """Return what becomes of queries that predictions and targets do not share."""
    outcome = "left out" if missing == "skip" else "counted as empty lists"
    said = (
        (dataset.missing_queries, f"queries of {target} have no predictions and are {outcome}."),
        (dataset.unmatched_queries, f"queries of {preds} have no targets and are left out."),
    )
    return tuple(f"{number:,} {text}" for number, text in said if number)


def note_on_catalogue(metrics: Iterable[TopKMetric], num_labels: int, named: str, hint: str) -> tuple[str, ...]:
    """Return what the catalogue is, if a value depends on how many labels there are that no list shows."""
    if not any(isinstance(metric, (CatalogCoverageAtK, GiniAtK)) for metric in metrics):
        return ()
    return (
        f"The catalogue is the {num_labels:,} items that {named}. Before coverage and Gini of runs are compared, give "
        f"all one catalogue: {hint}.",
    )


def note_on_unseen(counts: Tensor, hint: str | None) -> tuple[str, ...]:
    """Return how many labels have no training count, if most have none.

    Args:
        counts: Shape (L,), int64.
        hint: What makes each number met one label; None where labels have names, which leave no gaps.
    """
    unseen = int((counts == 0).sum())
    if unseen <= counts.numel() / 2:  # as where ids have gaps: coverage, Gini and "unseen" would count the gaps
        return ()
    said = f"{unseen:,} of {counts.numel():,} labels"
    if hint is None:
        return (f"{said} have no training count and are unseen.",)
    return (
        f"{said} never occur in training. If the numbers of labels have gaps, each number met should be one label: "
        f"{hint}.",
    )


def _as_table(argument: str, value: Any) -> Any:
    """Return a value as a table or a dict of dicts: rows of lists are numbered, their first label is the best one."""
    if is_table(value):
        return value
    if not _is_lists(value):
        raise TypeError(
            f"{CALLER}: {argument} is {shape_of(value)}, but other arguments hold names of labels; pass a table with "
            "the columns query and item, a dict from query to a dict of items, or a list of names for each row."
        )
    return {
        str(row): {str(name): float(len(labels) - place) for place, name in enumerate(labels)}
        if argument == "preds"
        else {str(name): 1.0 for name in labels}
        for row, labels in enumerate(value)
    }
