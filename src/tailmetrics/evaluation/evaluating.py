"""``evaluate``: a whole evaluation in one call, for data in memory.

The data are tensors, tables, dicts of runs, or lists of lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from tailmetrics._arguments import check_count
from tailmetrics._extras import names_missing_extra
from tailmetrics._signatures import names_unknown_keywords
from tailmetrics.buckets import LabelBuckets
from tailmetrics.collection import TopKCollection
from tailmetrics.evaluation import notes
from tailmetrics.evaluation.accumulating import add_data
from tailmetrics.evaluation.data import Data
from tailmetrics.evaluation.description import labels_by_key
from tailmetrics.evaluation.inputs import read_data
from tailmetrics.evaluation.labels import options_by_id
from tailmetrics.evaluation.options import CALLER, Missing, Options
from tailmetrics.evaluation.preparing import check_complete, prepare
from tailmetrics.evaluation.reporting import with_intervals
from tailmetrics.evaluation.row_values import RowValues
from tailmetrics.metrics import TopKMetric
from tailmetrics.ranking._batch import Duplicates
from tailmetrics.report.report import Report
from tailmetrics.tree import LabelTree

CONFIDENCE = 0.95
"""The confidence of intervals."""
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
    """Evaluate predictions and return a report.

    Notebooks show the report, and it can be written to files.

    ``duplicates`` and ``ignore_index`` hold for every metric that does not set its own.
    ``ignore_index`` also leaves this label out of ``train_target``. In targets of
    tables, ``duplicates="first"`` counts the first gain of a label. In one of several
    processes, the report is of the rows that this process passes: nothing is added up.

    Args:
        preds: Scores, ids, candidates or CSR as in :func:`tailmetrics.rank`; or lists
            of ids or names, the best one first; or a table such as a DataFrame with the
            columns query, item and score, or with a list of items in each row, the best
            one first if there are no scores; or a dict from query to a dict from item
            to score, like the runs of pytrec_eval and ranx; or a
            :class:`tailmetrics.Ranking`, which holds its targets and row mask.
        target: The relevant labels, as in :func:`tailmetrics.rank`; or lists of ids or
            names; or a table or dict as above, with a gain in the place of the score,
            or without gains. None beside a ranking.
        metrics: One or several metrics, which are copied. None takes precision@1, 3, 5
            and ndcg@10, and, if buckets are known, by bucket precision@1, recall@10,
            ndcg@10 and prediction_proportion@10.
        buckets: Label buckets, or ``"deciles"``, ``"quantiles:5"`` or
            ``"thresholds:1,20,101"`` of the training counts; names go from the most
            frequent to the rarest: ``"thresholds:1,20,101:many,medium,few"``. Each
            metric is also reported by bucket, from the one list of the row
            (``scope="global"``). A metric with ``buckets="deciles"`` keeps its scope
            and takes these buckets.
        label_counts: Training counts: a dict or Series from label name to count, where
            a missing label has count 0; or shape (L,), in the order of label ids; or a
            :class:`tailmetrics.LabelFrequency`, which also holds the number of training
            rows that propensities and novelty need. If tables or dicts name the labels,
            counts without names are in the order of ``label_names``, by default in
            ascending order of the names. If no metric is by bucket, each metric is also
            reported by deciles, as with ``buckets="deciles"``.
        train_target: Training targets in any form that ``target`` has. Their labels are
            counted for deciles, and for metrics that need training counts.
        row_mask: Bool, where False drops a row: shape (N,), or a dict by query, or, for
            tables, a Series whose index names the queries.
        row_groups: The group of each row, such as its language, None for no group:
            shape (N,), or by query like ``row_mask``; for scores (B, T, L) also (B,) or
            (B, T). Every value is then also reported for the rows of each group. If the
            metrics name the groups, group numbers can be given too.
        labels: Whether the report has values of single labels, and names the worst
            labels. The values come from metrics that keep them (``average="none"``,
            ``"macro"``); without these they are precision, recall and F1 at the k of
            the headline.
        label_names: The name of each label, shape (L,). With scores, targets can then
            be lists of names. With ids, L is the number of names, and an id is the
            place of its name, from 0. With tables and dicts, pass the names of all
            labels of the catalogue, of which the data may hold a part.
        missing: Treatment of a query of a table or dict that has no predictions:
            ``"skip"`` leaves it out, ``"zero"`` counts it as an empty list.
        intervals: 95 % confidence intervals. None computes them from sums over the
            rows, without resampling, if scipy is installed (``tailmetrics[report]``
            brings it). False leaves them out, which is faster. True resamples 10,000
            times; a number sets the number of resamples.
        clusters: The cluster of each row, such as its user, in the forms of
            ``row_groups``. Without clusters, intervals are too narrow if the rows of
            one user are alike.
        title: Title of the report.
        batch_rows: Number of rows that are ranked at a time; no value depends on it.
        headline: The metric that the report is about, such as ``"recall@10"``: it is
            shown first. None takes a metric that says how good the ranking is. Among
            several it prefers, in this order, metrics by bucket, metrics of which a
            higher value is better, recall, k = 10, and the earlier metric.
        label_tree: The parents of the labels, for metrics that read them. If labels
            have names, the tree has, too.
        duplicates: What happens if an id stands twice in a row of ``preds``:
            ``"error"`` raises an error; ``"first"`` counts the first place, and the
            later places are misses.
        ignore_index: An id in ``target`` that is no label, such as padding, or the -100
            of language models. A row that holds nothing else does not count. In a list
            of ``preds`` such an id, from 0 on, is a miss.

    >>> import torch
    >>> from tailmetrics import PrecisionAtK
    >>> scores = torch.tensor([[0.9, 0.5, 0.1], [0.2, 0.7, 0.6]])
    >>> report = evaluate(scores, torch.tensor([0, 2]), label_counts=[5, 3, 1], metrics=[PrecisionAtK(k=1)])
    >>> report.scalars["precision@1"], report.scalars["global_precision@1/decile_10"]
    (0.5, 1.0)
    """
    if intervals is not None and not isinstance(intervals, bool):
        check_count(CALLER, "intervals", intervals, minimum=0)
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

    row_values = run.rows.values(run.report.scalars)
    if not row_values:
        return run.report
    resamples = int(intervals or 0)
    if intervals is True:
        resamples = RESAMPLES
    arguments = run.rows.facts.interval_arguments(row_values)
    intervals_by_key = resampled_intervals(
        row_values, resamples=resamples, clusters=run.data.clusters, **arguments
    )
    return with_intervals(run.report, intervals_by_key, row_values, run.data.clusters)


class Run(NamedTuple):
    """The evaluation of one run.

    Attributes:
        report: The report.
        rows: The values of all rows; None if they are not kept.
        data: The data that were read.
        labels_by_key: As :func:`tailmetrics.evaluation.description.labels_by_key`
            returns them.
    """

    report: Report
    rows: RowValues | None
    data: Data
    labels_by_key: Mapping[str, int]


def evaluate_run(
    preds: Any,
    target: Any,
    options: Options,
    *,
    title: str = "",
    keeps_rows: bool = False,
) -> Run:
    """Evaluate predictions; if ``keeps_rows`` is True, keep the values of all rows."""
    options = options.checked()
    data = read_data(preds, target, options)
    ordered_options = options_by_id(options, data).with_default_buckets()
    evaluation = prepare(
        ordered_options, data.group_names, data.num_labels, data.label_order
    )
    check_complete(evaluation.members)
    rows = add_data(evaluation, data, options.batch_rows, keeps_rows)

    report = evaluation.report(title)
    has_intervals = keeps_rows or options.confidence is not None
    notes_on_data = notes.on_data(
        data, options, ordered_options.label_counts, evaluation.members, has_intervals
    )
    report = replace(
        report,
        tie_winner=data.tie_winner,
        notes=(*report.notes, *data.notes, *notes_on_data),
        readings=data.readings,
    )
    return Run(report, rows, data, labels_by_key(evaluation.members))
