"""``evaluate``: a whole evaluation in one call, for data in memory: tensors, tables, dicts of runs, lists of lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tailmetrics._arguments import check_count, names_unknown_keywords, shape_of, writable_array
from tailmetrics._extras import names_missing_extra
from tailmetrics._number_of_labels import number_of_labels
from tailmetrics.buckets import LabelBuckets
from tailmetrics.collection import TopKCollection
from tailmetrics.evaluation.accumulating import Evaluation
from tailmetrics.evaluation.data import CALLER, Data, Missing, group_names, group_numbers, read_data, values_by_row
from tailmetrics.evaluation.description import listed, members_of
from tailmetrics.evaluation.labels import (
    buckets_by_id,
    counts_by_id,
    counts_by_name,
    counts_of_names,
    metrics_by_id,
    stated_numbers,
    tree_by_id,
)
from tailmetrics.evaluation.preparing import Options, prepared
from tailmetrics.evaluation.reporting import with_intervals
from tailmetrics.evaluation.row_values import RowValues
from tailmetrics.metrics import TopKMetric
from tailmetrics.metrics._labels import OVER
from tailmetrics.ranking._inputs import BATCH_DEFAULTS, Duplicates
from tailmetrics.report.report import Report
from tailmetrics.tree import LabelTree

NOTE_ON_SEQUENCES = (
    "Rows of one sequence are taken for independent: where they are alike, intervals are too narrow, and differences "
    "seem more certain than they are. evaluate and compare take the sequence of each row by clusters=."
)
"""The note of a report on rows that are places in sequences, whose scores are (B, T, L)."""
CONFIDENCE = 0.95
"""Default confidence of intervals."""
RESAMPLES = 10_000
"""The number of resamples of ``intervals=True``."""


@names_unknown_keywords
@names_missing_extra
def evaluate(
    preds: Any,
    target: Any = None,
    *,
    metrics: TopKCollection | TopKMetric | Iterable[TopKMetric] | None = None,
    buckets: LabelBuckets | str | None = None,
    label_counts: Any = None,
    train_target: Any = None,
    row_mask: Any = None,
    row_groups: Any = None,
    labels: bool = False,
    label_names: Sequence[str] | None = None,
    missing: Missing = "skip",
    intervals: bool | int | None = None,
    clusters: Any = None,
    title: str = "Evaluation",
    batch_rows: int = 4096,
    headline: str | None = None,
    label_tree: LabelTree | None = None,
    duplicates: Duplicates = "error",
    ignore_index: int | None = None,
) -> Report:
    """Evaluate predictions, and return a report that notebooks show and that can be written as files.

    ``duplicates`` and ``ignore_index`` hold for every metric that does not set its own. ``ignore_index`` also leaves
    this label out of ``train_target``. In targets of tables, ``duplicates="first"`` counts the first gain of a label.

    Args:
        preds: Scores, ids, candidates or CSR as in :func:`tailmetrics.rank`; or lists of ids or names, the best one
            first; or a table such as a DataFrame with the columns query, item and score, or with a list of items in
            each row, the best one first if there are no scores; or a dict from query to a dict from item to score, like
            the runs of pytrec_eval and ranx; or a :class:`tailmetrics.Ranking`, which holds its targets and row mask.
        target: The relevant labels, as in :func:`tailmetrics.rank`; or lists of ids or names; or a table or dict as
            above, with a gain in the place of the score, or without gains. None beside a ranking.
        metrics: One or several metrics, which are copied. None takes precision@1, 3, 5 and ndcg@10, and, if buckets are
            known, by bucket precision@1, recall@10, ndcg@10 and prediction_proportion@10.
        buckets: Label buckets, or ``"deciles"``, ``"quantiles:5"`` or ``"thresholds:1,20,101"`` of the training
            counts; names go from the most frequent to the rarest: ``"thresholds:1,20,101:many,medium,few"``. Each
            metric is also reported by bucket, from the one list of the row (``scope="global"``). A metric with
            ``buckets="deciles"`` keeps its scope and takes these buckets.
        label_counts: Training counts: a dict or Series from label name to count, where a missing label has count 0; or
            shape (L,), in the order of label ids; or a :class:`tailmetrics.LabelFrequency`, which also holds the
            number of training rows that propensities and novelty need. If tables or dicts name the labels, counts
            without names are in the order of ``label_names``, by default in ascending order of the names. If no metric
            is by bucket, each metric is also reported by deciles, as with ``buckets="deciles"``.
        train_target: Training targets in any form that ``target`` has. Their labels are counted for deciles, and for
            metrics that need training counts.
        row_mask: Bool, where False drops a row: shape (N,), or a dict by query, or, for tables, a Series whose index
            names the queries.
        row_groups: The group of each row, such as its language, None for no group: shape (N,), or by query like
            ``row_mask``; for scores (B, T, L) also (B,) or (B, T). Every value is then also reported for the rows of
            each group. If the metrics name the groups, group numbers can be given too.
        labels: Whether the report has values of single labels, and names the worst labels. The values come from metrics
            that keep them (``average="none"``, ``"macro"``); without these they are precision, recall and F1 at the k
            of the headline.
        label_names: The name of each label, shape (L,). With scores, targets can then be lists of names. With ids, L is
            the number of names, and an id is the place of its name, from 0. With tables and dicts, pass the names of
            all labels of the catalogue, of which the data may hold a part.
        missing: Treatment of a query of a table or dict that has no predictions: ``"skip"`` leaves it out, ``"zero"``
            counts it as an empty list.
        intervals: 95 % confidence intervals. None computes them from sums over the rows, without resampling, if scipy
            is installed (``tailmetrics[report]`` brings it). False leaves them out, which is faster. True resamples
            10,000 times; a number sets the number of resamples.
        clusters: The cluster of each row, such as its user, in the forms of ``row_groups``. Without clusters, intervals
            are too narrow if the rows of one user are alike.
        title: Title of the report.
        batch_rows: Number of rows that are ranked at a time; it does not change the values.
        headline: The metric that the report is about, such as ``"recall@10"``: it is shown first. None takes recall if
            it is by bucket, else the first metric that says how good the ranking is.
        label_tree: The parents of the labels, for metrics that read them. If labels have names, the tree has, too.
        duplicates: What happens if an id stands twice in a row of ``preds``: ``"error"`` raises an error; ``"first"``
            counts the first place, and the later places are misses.
        ignore_index: An id in ``target`` that is no label, such as padding, or the -100 of language models. A row
            that holds nothing else does not count. In a list of ``preds`` such an id, from 0 on, is a miss.

    >>> import torch
    >>> from tailmetrics import PrecisionAtK
    >>> scores = torch.tensor([[0.9, 0.5, 0.1], [0.2, 0.7, 0.6]])
    >>> report = evaluate(scores, torch.tensor([0, 2]), label_counts=[5, 3, 1], metrics=[PrecisionAtK(k=1)])
    >>> report.scalars["precision@1"], report.scalars["global_precision@1/decile_10"]
    (0.5, 1.0)
    """
    resampled = intervals is not False and (bool(intervals) or clusters is not None)
    confidence: float | None = CONFIDENCE
    if intervals is False or clusters is not None:
        confidence = None
    options = Options(
        metrics=metrics,
        buckets=buckets,
        label_counts=label_counts,
        train_target=train_target,
        row_mask=row_mask,
        row_groups=row_groups,
        labels=labels,
        label_names=label_names,
        missing=missing,
        clusters=clusters,
        batch_rows=batch_rows,
        headline=headline,
        label_tree=label_tree,
        duplicates=duplicates,
        ignore_index=ignore_index,
        confidence=confidence,
    )
    run = evaluate_run(preds, target, options, title=title, keeps_rows=resampled)
    if run.rows is None:
        return run.report

    from tailmetrics.significance import intervals as resampled_intervals

    columns = run.rows.columns(run.report.scalars)
    if not columns:
        return run.report
    resamples = int(intervals or 0)
    if intervals is True:
        resamples = RESAMPLES
    facts = run.rows.facts.among(columns)
    intervals_by_key = resampled_intervals(columns, resamples=resamples, clusters=run.data.clusters, **facts)
    return with_intervals(run.report, intervals_by_key, columns)


class Run(NamedTuple):
    """The evaluation of one run.

    Attributes:
        report: The report.
        rows: The values of all rows; None if they are not kept.
        data: The data that were read.
    """

    report: Report
    rows: RowValues | None
    data: Data


def evaluate_run(preds: Any, target: Any, options: Options, *, title: str = "", keeps_rows: bool = False) -> Run:
    """Evaluate predictions; if ``keeps_rows`` is True, keep the values of all rows."""
    check_count(CALLER, "batch_rows", options.batch_rows)
    if options.train_target is not None and options.label_counts is not None:
        raise ValueError(
            f"{CALLER}: both train_target= and label_counts= are given; pass the training targets to count them, or "
            "the counts."
        )
    options = _with_arguments_of_metrics(options)
    data = _read(preds, target, options)
    options_by_id = _options_by_id(options, data)

    inputs = {"preds": preds, "target": target}
    row_groups = names = None
    if options.row_groups is not None:
        row_groups = values_by_row(options.row_groups, "row_groups", data, inputs)
        names = group_names(row_groups) or None
    if options.clusters is not None:
        data = data._replace(clusters=values_by_row(options.clusters, "clusters", data, inputs))

    num_labels = data.num_labels
    if options_by_id.label_tree is not None:
        num_labels = options_by_id.label_tree.num_labels
    evaluation = prepared(options_by_id, names, num_labels, data.label_order)
    _check_complete(evaluation.members)
    evaluation.start(data.device)
    numbers = _numbers_of_groups(evaluation, row_groups, data.num_rows)
    rows = _add_rows(evaluation, data, options.batch_rows, numbers, keeps_rows)

    report = evaluation.report(title)
    notes = (*report.notes, *data.notes, *_notes(evaluation, options, options_by_id, data, keeps_rows))
    report = replace(report, tie_winner=data.tie_winner, notes=notes, readings=data.readings)
    return Run(report, rows, data)


# -- before the first batch -----------------------------------------------------------------------------------------


def _with_arguments_of_metrics(options: Options) -> Options:
    """Return the options with the metrics as a list or collection.

    ``duplicates`` and ``ignore_index`` are then those of the metrics, if the metrics set them.
    """
    metrics = listed(options.metrics)
    members = members_of(metrics)
    duplicates = _shared_argument(members, "duplicates", options.duplicates)
    ignore_index = _shared_argument(members, "ignore_index", options.ignore_index)
    return replace(options, metrics=metrics, duplicates=duplicates, ignore_index=ignore_index)


def _shared_argument(metrics: Iterable[TopKMetric], name: str, value: Any) -> Any:
    """Return the value of an argument of the first metric that sets it; ``value`` if no metric does.

    Raises:
        ValueError: If ``value`` and the value of this metric are set, and differ.
    """
    default = BATCH_DEFAULTS[name]
    for metric in metrics:
        metric_value = getattr(metric, name, default)
        if metric_value == default:
            continue
        if value not in (default, metric_value):
            raise ValueError(
                f"{CALLER}: {name}={value!r}, but a metric has {name}={metric_value!r}; pass one of the two."
            )
        return metric_value
    return value


def _read(preds: Any, target: Any, options: Options) -> Data:
    """Return the data: predictions and targets in any form, to be read in batches."""
    names = {}
    counts = counts_by_name(CALLER, options.label_counts)
    if counts is not None:
        names["label_counts"] = counts
    stated = stated_numbers(
        options.label_names, options.label_counts, options.buckets, options.label_tree, members_of(options.metrics)
    )
    return read_data(
        preds,
        target,
        options.train_target,
        options.row_mask,
        options.label_names,
        options.missing,
        names,
        {"duplicates": options.duplicates, "ignore_index": options.ignore_index},
        stated,
    )


def _options_by_id(options: Options, data: Data) -> Options:
    """Return the options in which every argument with a value per label is in the order of label ids.

    Raises:
        ValueError: If an argument does not fit the labels of the data.
    """
    names = data.label_names
    if names is None:
        names = options.label_names
    else:
        _check_arguments_about_labels(options, len(names))

    buckets = options.buckets
    if isinstance(buckets, LabelBuckets):
        buckets = buckets_by_id(buckets, data.argument_order)
    label_tree = options.label_tree
    if label_tree is not None:
        label_tree = _tree_by_id(label_tree, names, data, options.label_names)
    return replace(
        options,
        metrics=_metrics_by_id(options, names, data),
        buckets=buckets,
        label_counts=_counts_by_id(options, names, data),
        label_names=names,
        label_tree=label_tree,
    )


def _check_arguments_about_labels(options: Options, num_labels: int) -> None:
    """Raise if an argument has another number of labels, or ``ignore_index`` is a label id where labels have names."""
    stated = stated_numbers(None, options.label_counts, options.buckets, None, members_of(options.metrics))
    number_of_labels(CALLER, {"the data": num_labels}, stated)
    if options.ignore_index is not None and options.ignore_index >= 0:
        raise ValueError(
            f"{CALLER}: ignore_index={options.ignore_index} is a label id, but the labels of tables and dicts have "
            "names; take the lines of padding out."
        )


def _metrics_by_id(options: Options, names: Sequence[str] | None, data: Data) -> Any:
    """Return the metrics with their arguments in the order of label ids; a collection stays a collection."""
    if names is None or options.metrics is None:
        return options.metrics
    members = members_of(options.metrics)
    ordered = metrics_by_id(CALLER, members, names, options.label_names, data.argument_order)
    if all(metric is member for metric, member in zip(ordered, members, strict=True)):
        return options.metrics
    if isinstance(options.metrics, TopKCollection):
        return options.metrics.with_members(ordered)
    return ordered


def _counts_by_id(options: Options, names: Sequence[str] | None, data: Data) -> Any:
    """Return the training counts in the order of label ids: ``label_counts=``, or else those of ``train_target=``."""
    counts = counts_by_name(CALLER, options.label_counts)
    if counts is not None:
        labels = range(data.num_labels or 0) if names is None else names
        return counts_of_names(CALLER, counts, labels)
    if options.label_counts is None:
        return data.train
    return counts_by_id(CALLER, options.label_counts, data.argument_order)


def _tree_by_id(tree: object, names: Sequence[str] | None, data: Data, label_names: Sequence[str] | None) -> LabelTree:
    """Return the tree of the evaluation with its labels in the order of label ids."""
    if not isinstance(tree, LabelTree):
        raise TypeError(
            f"{CALLER}: label_tree={tree!r} is no tree; pass LabelTree(parents), or LabelTree.from_edges(edges, names)."
        )
    if names is not None and (tree.names is not None or data.label_names is not None):
        return tree_by_id(tree, names, label_names)
    return tree


def _check_complete(members: Iterable[TopKMetric]) -> None:
    """Raise if a metric still lacks training counts or another fact about the training data."""
    for metric in members:
        lacking = metric.missing()
        if lacking == ["tree"]:
            argument = "label_tree="
        elif lacking == ["num_labels"]:
            argument = "label_names= or train_target="
        elif "num_train" in lacking:
            argument = "train_target="
        else:
            argument = "label_counts= or train_target="
        metric.check_bound("", f"pass {argument}")


# -- rows -----------------------------------------------------------------------------------------------------------


def _numbers_of_groups(evaluation: Evaluation, row_groups: Any, num_rows: int) -> Tensor | None:
    """Return the group number of each row, shape (N,); None without groups."""
    if row_groups is None:
        return None
    if not evaluation.row_groups:
        if group_names(row_groups) == []:  # no row has a group
            return None
        raise ValueError(
            f"{CALLER}: row_groups holds numbers, but no metric names groups; pass a name for each row, or metrics "
            "with row_groups=."
        )
    numbers = torch.as_tensor(writable_array(group_numbers(CALLER, row_groups, evaluation.row_groups)))
    if numbers.shape != (num_rows,):
        raise ValueError(f"{CALLER}: row_groups is {shape_of(numbers)} for {num_rows} rows; pass one for each row.")
    return numbers


def _add_rows(
    evaluation: Evaluation, data: Data, batch_rows: int, row_groups: Tensor | None, keeps_rows: bool
) -> RowValues | None:
    """Add all rows to an evaluation, batch by batch; return the values of each row if ``keeps_rows`` is True."""
    values = None
    if keeps_rows:
        values = RowValues(evaluation.collection, evaluation.over_all, headline=evaluation.headline)
    for rows, preds, target in data.batches(batch_rows):
        row_mask, groups = data.row_mask, row_groups
        if row_mask is not None:
            row_mask = row_mask[rows]
        if groups is not None:
            groups = groups[rows]
        ranking = evaluation.update(preds, target, row_mask, row_groups=groups, tokens=data.tokens)
        if values is not None:
            values.add(ranking)
    return values


# -- notes ----------------------------------------------------------------------------------------------------------


def _notes(evaluation: Evaluation, options: Options, options_by_id: Options, data: Data, keeps_rows: bool) -> list[str]:
    """Return notes on sequences, on the size of the catalogue, and on labels without a training count."""
    notes = []
    if data.tokens > 1 and options.clusters is None and (keeps_rows or options.confidence is not None):
        notes.append(NOTE_ON_SEQUENCES)
    if data.label_names is not None and options.label_names is None:
        notes += note_on_catalogue(
            evaluation.members, len(data.label_names), "preds and the other arguments name", "label_names=ITEMS"
        )
    counts = None
    if data.train is not None:
        counts = data.train.compute()
    elif counts_by_name(CALLER, options.label_counts) is not None:
        counts = torch.as_tensor(options_by_id.label_counts)
    if counts is not None and data.label_names is not None:
        notes += note_on_unseen(counts, None)
    elif counts is not None and data.columns is None:
        notes += note_on_unseen(counts, "pass lists of strings or a table")
    return notes


def note_on_catalogue(metrics: Sequence[TopKMetric], num_labels: int, clause: str, hint: str) -> tuple[str, ...]:
    """Return a note on the size of the catalogue if a metric depends on it; an empty tuple otherwise.

    Args:
        metrics: The metrics.
        num_labels: The number of labels of the catalogue.
        clause: The source of these labels with a verb, such as ``"the files name"``.
        hint: The argument or option that gives one catalogue to all runs.
    """
    values, labels = [], "labels"
    if any(metric.aggregation.depends_on_catalogue for metric in metrics):
        values.append("coverage and Gini")
        labels = "items"
    if any(metric.aggregation.mean_over().endswith(OVER["all"]) for metric in metrics):
        values.append("means over all labels")
    if not values:
        return ()
    return (
        f"The catalogue is the {num_labels:,} {labels} that {clause}. Before {' and '.join(values)} of runs are "
        f"compared, give all one catalogue: {hint}.",
    )


def note_on_unseen(counts: Tensor, hint: str | None) -> tuple[str, ...]:
    """Return a note on the labels without a training count, if more than half of the labels have none.

    Args:
        counts: Shape (L,), int64.
        hint: Advice on closing gaps between label ids; None if labels have names, so that ids have no gaps.
    """
    unseen = int((counts == 0).sum())
    if unseen <= counts.numel() / 2:  # more suggest gaps between ids, which coverage, Gini and "unseen" would count
        return ()
    share = f"{unseen:,} of {counts.numel():,} labels"
    if hint is None:
        return (f"{share} have no training count and are unseen.",)
    return (
        f"{share} never occur in training. If the numbers of labels have gaps, each number met should be one label: "
        f"{hint}.",
    )
