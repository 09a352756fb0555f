"""``evaluate``: a whole evaluation in one call, for data in memory: tensors, tables, dicts of runs, lists of lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from torch import Tensor

from tailmetrics._arguments import check_count, check_counts, names_unknown_keywords, shape_of, writable_array
from tailmetrics.buckets import LabelBuckets
from tailmetrics.collection import TopKCollection
from tailmetrics.evaluation.accumulating import Evaluation, check_update
from tailmetrics.evaluation.data import CALLER, Data, Missing, group_names, group_numbers, of_rows, read_data
from tailmetrics.evaluation.description import by_bucket, listed, with_label_values
from tailmetrics.evaluation.row_moments import with_intervals
from tailmetrics.evaluation.row_values import RowValues
from tailmetrics.frequency import LabelFrequency
from tailmetrics.metrics import NDCGAtK, PrecisionAtK, PredictionProportionAtK, RecallAtK, TopKMetric
from tailmetrics.metrics._arguments_of_metrics import Training
from tailmetrics.metrics._labels import OVER
from tailmetrics.ranking import Ranking
from tailmetrics.ranking._inputs import BATCH_DEFAULTS, Duplicates
from tailmetrics.report.report import Report
from tailmetrics.tree import LabelTree

ALIKE = (
    "Rows of one sequence are taken for independent: where they are alike, intervals are too narrow, and differences "
    "seem more certain than they are. evaluate and compare take the sequence of each row by clusters=."
)
"""Note of a report on sequences, whose scores are (B, T, L)."""
CONFIDENCE = 0.95
"""Default confidence of intervals."""


@names_unknown_keywords
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
    >>> scores = torch.tensor([[0.9, 0.5, 0.1], [0.2, 0.7, 0.6]])
    >>> report = evaluate(scores, torch.tensor([0, 2]), label_counts=[5, 3, 1], metrics=[PrecisionAtK(k=1)])
    >>> report.scalars["precision@1"], report.scalars["global_precision@1/decile_10"]
    (0.5, 1.0)
    """
    given = locals()
    drawn = intervals is not False and (bool(intervals) or clusters is not None)
    quick = None if intervals is False or clusters is not None else CONFIDENCE
    batch = {"duplicates": duplicates, "ignore_index": ignore_index}
    options = Options.of(given, batch=batch, confidence=quick)
    report, rows, data = evaluated(preds, target, options, title=title, rows=drawn)
    columns = {} if rows is None else rows.columns(report.scalars)
    if rows is None or not columns:
        return report
    from tailmetrics.significance import intervals as estimated

    resamples = 10_000 if intervals is True else int(intervals or 0)
    of_rows = estimated(columns, resamples=resamples, clusters=data.clusters, **rows.facts.among(columns))
    return with_intervals(report, of_rows, columns)


@dataclass(frozen=True)
class Options:
    """The arguments of :func:`evaluate`, which describes each, except predictions, targets and title.

    ``batch`` holds the arguments that say how a batch is read. ``confidence`` is that of intervals from sums over rows,
    None for no intervals.
    """

    metrics: TopKCollection | TopKMetric | Iterable[TopKMetric] | None = None
    buckets: LabelBuckets | str | None = None
    label_counts: Any = None
    train_target: Any = None
    row_mask: Any = None
    row_groups: Any = None
    labels: bool = False
    label_names: Sequence[str] | None = None
    missing: Missing = "skip"
    clusters: Any = None
    batch_rows: int = 4096
    headline: str | None = None
    label_tree: LabelTree | None = None
    batch: Mapping[str, Any] = field(default_factory=lambda: BATCH_DEFAULTS)
    confidence: float | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any], **more: Any) -> Options:
        """Return the options among the arguments of a function, and ``more``."""
        return cls(**{one.name: given[one.name] for one in fields(cls) if one.name in given} | more)


def evaluated(
    preds: Any, target: Any, options: Options, *, title: str = "", rows: bool = False
) -> tuple[Report, Any, Data]:
    """Return the report, the values of all rows (:class:`RowValues`; None unless ``rows`` is True), and the data."""
    check_count(CALLER, "batch_rows", options.batch_rows)
    label_counts, train_target, label_names = options.label_counts, options.train_target, options.label_names
    if train_target is not None and label_counts is not None:
        raise ValueError(
            f"{CALLER}: both train_target= and label_counts= are given; pass the training targets to count them, or "
            "the counts."
        )
    metrics = listed(options.metrics)
    given = metrics.members().values() if isinstance(metrics, TopKCollection) else metrics or ()
    batch = {name: _of_metrics(given, name, one, BATCH_DEFAULTS[name]) for name, one in options.batch.items()}
    ignored = batch["ignore_index"]
    counted = _by_name(label_counts)
    named = {} if counted is None else {"label_counts": counted}
    mask, missing = options.row_mask, options.missing
    data = read_data(preds, target, train_target, mask, label_names, missing, named, batch)
    names = label_names if data.label_names is None else data.label_names
    if data.label_names is not None:
        _check_made_for(given, data)
        if ignored is not None and ignored >= 0:
            raise ValueError(
                f"{CALLER}: ignore_index={ignored} is a label id, but the labels of tables and dicts have names; take "
                "the lines of padding out."
            )
    if counted is not None:
        label_counts = _counts_of(counted, range(data.columns or 0) if names is None else names)
    elif data.given_order is not None and label_counts is not None:
        label_counts = _counts_by_id(label_counts, data.given_order)
    buckets = options.buckets
    if data.given_order is not None and isinstance(buckets, LabelBuckets):
        buckets = _buckets_by_id(buckets, data.given_order)
    beside = {"preds": preds, "target": target}
    row_groups = of_rows(options.row_groups, "row_groups", data, beside)
    groups = None if row_groups is None else group_names(row_groups)
    data = data._replace(clusters=of_rows(options.clusters, "clusters", data, beside))
    if label_counts is None:
        label_counts = data.train
    tree = _tree_of(options.label_tree, names, data)
    known = replace(
        options,
        metrics=metrics,
        buckets=buckets,
        label_counts=label_counts,
        label_names=names,
        batch=batch,
        label_tree=tree,
    )
    num_labels = data.columns if tree is None else tree.num_labels
    evaluation = prepared(known, groups, num_labels, data.label_order)
    _check_known(evaluation.members)
    numbers = _groups_of_rows(evaluation, row_groups, data.num_rows)
    values = _read_rows(evaluation, data, options.batch_rows, numbers, rows)
    report = evaluation.report(title)
    notes = [*report.notes, *data.notes]
    if data.tokens > 1 and options.clusters is None and (rows or options.confidence is not None):
        notes.append(ALIKE)
    if data.label_names is not None and label_names is None:
        notes += note_on_catalogue(
            evaluation.members, len(data.label_names), "preds and the other arguments name", "label_names=ITEMS"
        )
    counts = label_counts.compute() if counted is None and data.train is not None else None
    if counted is not None:
        counts = torch.as_tensor(label_counts)
    if counts is not None and (data.columns is None or data.label_names is not None):
        notes += note_on_unseen(counts, "pass lists of strings or a table" if data.label_names is None else None)
    report = replace(report, tie_winner=data.tie_winner, notes=tuple(notes), readings=data.readings)
    return report, values, data


def _tree_of(tree: Any, names: Sequence[str] | None, data: Data) -> LabelTree | None:
    """Return the tree with its labels in the order of the data."""
    if tree is None:
        return None
    if not isinstance(tree, LabelTree):
        raise TypeError(
            f"{CALLER}: label_tree={tree!r} is no tree; pass LabelTree(parents), or LabelTree.from_edges(edges, names)."
        )
    if names is not None and (tree.names is not None or data.label_names is not None):
        tree = tree.of_labels(list(names))
    if data.columns not in (None, tree.num_labels):
        raise ValueError(
            f"{CALLER}: label_tree is of {tree.num_labels} labels, but the data have {data.columns}; pass a parent for "
            "every label, and num_labels= to LabelTree if there are further nodes."
        )
    return tree


def _of_metrics(metrics: Iterable[TopKMetric], name: str, given: Any, usual: Any) -> Any:
    """Return an argument of the metrics if one has it, or else the ``given`` value; ``usual`` is its default.

    Raises:
        ValueError: If the two differ.
    """
    known = (getattr(metric, name, usual) for metric in metrics)
    found = next((one for one in known if one != usual), given)
    if given not in (usual, found):
        raise ValueError(f"{CALLER}: {name}={given!r}, but a metric has {name}={found!r}; pass one of the two.")
    return found


def _check_known(members: Iterable[TopKMetric]) -> None:
    """Raise if a metric still lacks training counts or another fact about the training data."""
    for metric in members:
        lacking = metric.missing()
        other = (
            "label_names= or " if lacking == ["num_labels"] else "" if "num_train" in lacking else "label_counts= or "
        )
        metric.check_bound("", "pass label_tree=" if lacking == ["tree"] else f"pass {other}train_target=")


def _groups_of_rows(evaluation: Evaluation, row_groups: Any, num_rows: int) -> Tensor | None:
    """Return the group number of each row, shape (N,); None without groups."""
    if row_groups is None:
        return None
    if not evaluation.row_groups:
        raise ValueError(
            f"{CALLER}: row_groups holds numbers, but no metric names groups; pass a name for each row, or metrics "
            "with row_groups=."
        )
    numbers = torch.as_tensor(writable_array(group_numbers(CALLER, row_groups, evaluation.row_groups)))
    if numbers.shape != (num_rows,):
        raise ValueError(f"{CALLER}: row_groups is {shape_of(numbers)} for {num_rows} rows; pass one for each row.")
    return numbers


def _read_rows(
    evaluation: Evaluation, data: Data, batch_rows: int, row_groups: Tensor | None, with_values: bool
) -> RowValues | None:
    """Add all rows to an evaluation, batch by batch; return the values of each row if ``with_values`` is True."""
    evaluation.start(data.device)
    values = None
    if with_values:
        values = RowValues(evaluation.collection, evaluation.over_all, headline=evaluation.headline)
    for place, part, relevant in data.batches(batch_rows):
        counts = None if data.row_mask is None else data.row_mask[place]
        groups = None if row_groups is None else row_groups[place]
        if isinstance(part, Ranking):
            ranking = part if groups is None else replace(part, rows=replace(part.rows, groups=groups))
        else:
            ranking = evaluation.rank(part, relevant, counts, row_groups=groups, tokens=data.tokens)
        evaluation.update(ranking)
        if values is not None:
            values.add(ranking)
    return values


def prepared(
    options: Options,
    groups: Sequence[str] | None = None,
    num_labels: int | None = None,
    label_order: Tensor | None = None,
) -> Evaluation:
    """Return an empty evaluation with copies of the metrics, which get the known buckets, counts and number of labels.

    Args:
        options: What :func:`evaluate` is told of metrics, labels and the report; its other options are not read.
        groups: The names of the row groups.
        num_labels: The number of labels, if the data tell it.
        label_order: The order of labels with equal counts as in :func:`buckets_of`.
    """
    metrics, buckets, label_tree = options.metrics, options.buckets, options.label_tree
    training = _training(buckets, options.label_counts, label_order)
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
    given: Any = deepcopy(listed(metrics))
    collection = given if isinstance(given, TopKCollection) else TopKCollection(given)
    check_update(collection, "evaluate")
    collection.reset()
    members = list(collection.members().values())
    for metric in members if label_tree is not None else ():
        if "tree" in metric.missing():
            metric.complete(tree=label_tree)
    for metric in members if training is None else ():
        if metric.missing() == ["num_labels"] and num_labels is not None:
            metric.bind(Training(num_labels, None, None))
    if training is not None and (buckets is not None or all(metric.buckets is None for metric in members)):
        members += by_bucket(members, training.buckets("deciles"))
    collection = collection.with_members(members, row_groups=groups, **options.batch)
    if options.labels:
        collection = with_label_values(collection, num_labels, options.headline)
    if training is not None:
        collection.bind(replace(training, tree=label_tree))
    return Evaluation(
        collection,
        labels=options.labels,
        label_names=options.label_names,
        intervals=options.confidence,
        headline=options.headline,
    )


def _by_name(label_counts: Any) -> dict[str, Any] | None:
    """Return counts as a dict from label name to count; None if counts have no names, as in an array."""
    is_series = hasattr(label_counts, "index") and hasattr(label_counts, "items")
    if not is_series and not isinstance(label_counts, Mapping):
        return None
    named = {str(name): count for name, count in label_counts.items()}
    if len(named) < len(label_counts):
        raise ValueError(f"{CALLER}: label_counts names a label twice; add its counts up.")
    return named


def _counts_of(counted: Mapping[str, Any], names: Iterable[Any]) -> list[Any]:
    """Return the count of each name, in the order of ``names``; 0 for a name without a count."""
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
    """Return counts in the order of label ids; ``order`` holds the label id of each given count."""
    if isinstance(label_counts, LabelFrequency):
        return LabelFrequency.from_counts(_by_id(label_counts.compute(), order), label_counts.num_rows)
    return _by_id(check_counts(CALLER, "label_counts", label_counts), order)


def _buckets_by_id(buckets: LabelBuckets, order: Tensor) -> LabelBuckets:
    counts = None if buckets.counts is None else _by_id(buckets.counts, order)
    return LabelBuckets.from_assignment(_by_id(buckets.assignment, order), buckets.names, counts)


def _check_made_for(metrics: Iterable[TopKMetric], data: Data) -> None:
    """Raise if a metric was made for another number of labels, or has buckets or counts in another order of labels."""
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


def _training(buckets: LabelBuckets | str | None, label_counts: Any, order: Tensor | None) -> Training | None:
    """Return the known training counts, number of training rows and buckets, for binding metrics; None if none is."""
    if buckets is not None and not isinstance(buckets, (str, LabelBuckets)):
        raise TypeError(
            f"{CALLER}: buckets is a {type(buckets).__name__}; pass LabelBuckets, or a text such as 'deciles'."
        )
    if label_counts is None:
        if isinstance(buckets, str):
            raise ValueError(
                f"{CALLER}: buckets={buckets!r} has no label counts yet; pass label_counts= or train_target=."
            )
        return None if buckets is None else Training.of(CALLER, buckets)
    if isinstance(label_counts, LabelFrequency):
        training = replace(Training.of(CALLER, label_counts), order=order)
    else:
        counts = check_counts(CALLER, "label_counts", label_counts)
        training = Training(len(counts), counts, None, order=order)
    if isinstance(buckets, LabelBuckets):
        buckets = LabelBuckets.from_assignment(buckets.assignment, buckets.names, training.counts)
    return replace(training, given_buckets=training.buckets(buckets) if isinstance(buckets, str) else buckets)


def note_on_catalogue(metrics: Sequence[TopKMetric], num_labels: int, named: str, hint: str) -> tuple[str, ...]:
    """Return a note on the size of the catalogue if a metric depends on it; an empty tuple otherwise."""
    catalogue = any(metric.aggregation.depends_on_catalogue for metric in metrics)
    means = any(metric.aggregation.mean_over().endswith(OVER["all"]) for metric in metrics)
    values = " and ".join([*["coverage and Gini"] * catalogue, *["means over all labels"] * means])
    if not values:
        return ()
    return (
        f"The catalogue is the {num_labels:,} {'items' if catalogue else 'labels'} that {named}. Before {values} of "
        f"runs are compared, give all one catalogue: {hint}.",
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
    said = f"{unseen:,} of {counts.numel():,} labels"
    if hint is None:
        return (f"{said} have no training count and are unseen.",)
    return (
        f"{said} never occur in training. If the numbers of labels have gaps, each number met should be one label: "
        f"{hint}.",
    )
