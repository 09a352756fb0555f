"""The number of labels, and the meaning of arguments with a value per label for labels
that have names.
"""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
import torch

import tailmetrics as tm
from tailmetrics.evaluation import compare_runs

LABELS = 11
"""L; the last two labels are in no list, no target and no training row."""
IDS = [[0, 3, 8], [5, 1, 2], [4, 7, 6], [8, 2, 0]]
RELEVANT = [[3], [1, 5], [0], [8]]
TRAINING = [[0, 1], [3], [0], [0, 8], [5], [1]]


def as_lists(rows):
    return rows


def as_ids(rows):
    width = max(map(len, rows))
    return torch.tensor([row + [-1] * (width - len(row)) for row in rows])


def as_bool(rows):
    matrix = torch.zeros(len(rows), LABELS, dtype=torch.bool)
    for row, ids in enumerate(rows):
        matrix[row, ids] = True
    return matrix


def as_float(rows):
    return as_bool(rows).float()


def as_csr(rows):
    return scipy.sparse.csr_matrix(as_bool(rows).numpy().astype(float))


def as_classes(rows):
    return torch.tensor([row[0] for row in rows])


def as_scores(rows):
    scores = torch.full((len(rows), LABELS), -1.0)
    for row, ids in enumerate(rows):
        scores[row, ids] = torch.arange(len(ids), 0, -1).float()
    return scores


def as_candidates(rows):
    return torch.arange(3, 0, -1).float().expand(len(rows), 3), as_ids(rows)


def as_stored_scores(rows):
    dense = as_scores(rows)
    return dense.where(dense > 0, 0).to_sparse_csr()


PREDICTIONS = [as_scores, as_ids, as_candidates, as_lists, as_stored_scores]
TARGETS = [as_ids, as_lists, as_bool, as_float, as_csr, as_classes]
TRAINING_TARGETS = [as_ids, as_bool, as_float, as_csr, as_lists]
WITH_COLUMNS = {as_scores, as_stored_scores, as_bool, as_float, as_csr}


def recall(rows, k=2):
    """Return recall at k by a plain loop."""
    return sum(
        len({*listed[:k]} & {*relevant}) / len(relevant)
        for listed, relevant in zip(IDS, rows, strict=True)
    ) / len(rows)


def triples_of_forms():
    """Yield predictions, target and training target so that every pair of forms of two
    arguments occurs.
    """
    for number, preds in enumerate(PREDICTIONS):
        for place, target in enumerate(TARGETS):
            yield (
                preds,
                target,
                TRAINING_TARGETS[(number + place) % len(TRAINING_TARGETS)],
            )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("preds", "target", "train"), list(triples_of_forms()))
def test_number_of_labels_is_that_of_arguments_with_columns(preds, target, train):
    """The number of labels is that of the arguments with columns, for every pair of
    forms.

    Recall is that of a loop, and coverage is a share of 11 labels, although the last
    two are never used; without columns it is a share of 9.
    """
    relevant = [row[:1] for row in RELEVANT] if target is as_classes else RELEVANT
    metrics = [tm.RecallAtK(k=2), tm.CatalogCoverageAtK(k=3)]
    report = tm.evaluate(
        preds(IDS), target(relevant), metrics=metrics, train_target=train(TRAINING)
    )
    number = LABELS if {preds, target, train} & WITH_COLUMNS else 9
    assert report.scalars["recall@2"] == pytest.approx(recall(relevant))
    assert report.scalars["catalog_coverage@3"] == pytest.approx(9 / number)
    assert sum(row.labels for row in report.buckets) == number


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "argument",
    [
        {"label_names": [f"label {number}" for number in range(LABELS)]},
        {"label_counts": [5, 4, 3, 2, 1, 1, 1, 1, 1, 0, 0]},
        {"buckets": tm.LabelBuckets.deciles([5, 4, 3, 2, 1, 1, 1, 1, 1, 0, 0])},
        {"label_tree": tm.LabelTree([-1] * LABELS)},
        {"metrics": [tm.CatalogCoverageAtK(k=3, num_labels=LABELS)]},
    ],
    ids=lambda argument: next(iter(argument)),
)
def test_without_columns_other_arguments_tell_the_number_of_labels(argument):
    """If no argument has columns, the number of labels is that of the names, counts,
    buckets, tree or metric.
    """
    arguments = {"metrics": [tm.CatalogCoverageAtK(k=3)], **argument}
    report = tm.evaluate(as_ids(IDS), as_ids(RELEVANT), **arguments)
    assert report.scalars["catalog_coverage@3"] == pytest.approx(9 / LABELS)
    if "label_counts" not in argument:
        report = tm.evaluate(
            as_ids(IDS), as_ids(RELEVANT), train_target=as_ids(TRAINING), **arguments
        )
        assert report.scalars["catalog_coverage@3"] == pytest.approx(9 / LABELS)


@pytest.mark.filterwarnings("ignore")
def test_runs_of_different_forms_are_compared_over_the_labels_of_the_target():
    """compare_runs takes runs of different forms, such as ids and scores, over the
    labels of the target's columns.
    """
    runs = {"ids": as_ids(IDS), "scores": as_scores(IDS[::-1])}
    comparison = compare_runs(
        runs,
        as_csr(RELEVANT),
        metrics=[tm.RecallAtK(k=2)],
        train_target=as_ids(TRAINING),
        resamples=100,
    )
    assert comparison.values["recall@2"]["ids"] == pytest.approx(recall(RELEVANT))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"target": as_bool(RELEVANT)[:, :9]},
            "target has 9 columns, but preds has 11; pass a column for every label",
        ),
        (
            {"train_target": as_bool(TRAINING)[:, :9]},
            "train_target has 9 columns, but preds has 11",
        ),
        (
            {"label_names": ["a"]},
            "label_names holds 1 labels, but the data have 11; pass a name for every label",
        ),
        (
            {"label_counts": [1, 2]},
            "label_counts holds 2 labels, but the data have 11; pass a count for every label",
        ),
        (
            {"metrics": [tm.RecallAtK(k=1, num_labels=4)]},
            "RecallAtK was made for 4 labels, but the data have 11",
        ),
        (
            {"label_tree": tm.LabelTree([-1])},
            "label_tree holds 1 labels, but the data have 11; pass a parent for every",
        ),
    ],
)
def test_numbers_of_labels_that_differ_are_refused_by_name(arguments, message):
    """Two arguments with different numbers of labels are refused; the error names both
    and says what to pass.
    """
    with pytest.raises(ValueError, match=message):
        tm.evaluate(
            as_scores(IDS),
            **{
                "target": as_bool(RELEVANT),
                "metrics": [tm.RecallAtK(k=1)],
                **arguments,
            },
        )


def test_metrics_for_different_numbers_of_labels_are_refused():
    """Two metrics of one class that were made for different numbers of labels are
    refused, with ids and with columns: coverage of 11 labels beside coverage of 20.
    """
    metrics = [
        tm.CatalogCoverageAtK(k=3, num_labels=LABELS),
        tm.CatalogCoverageAtK(k=1, num_labels=20),
    ]
    message = "another CatalogCoverageAtK was made for 20 labels, but CatalogCoverageAtK holds 11; leave its num_labels"
    with pytest.raises(ValueError, match=message):
        tm.evaluate(as_ids(IDS), as_ids(RELEVANT), metrics=metrics)
    with pytest.raises(
        ValueError,
        match="another CatalogCoverageAtK was made for 20 labels, but the data have 11",
    ):
        tm.evaluate(as_scores(IDS), as_ids(RELEVANT), metrics=metrics)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "classes",
    [tm.KForRecall, tm.FallOutAtK, tm.RowAUC, tm.CoverageError, tm.RankingLoss],
)
def test_label_names_set_the_number_of_labels_of_every_metric(classes):
    """label_names set the number of labels of every metric that needs it: the value is
    that of the metric with num_labels=. Ids and candidates alone do not set it.
    """
    arguments = {tm.KForRecall: {"min_recall": 0.5}, tm.FallOutAtK: {"k": 1}}.get(
        classes, {}
    )
    preds = as_ids(IDS) if arguments else as_candidates(IDS)
    names = [f"label {number}" for number in range(LABELS)]
    expected = tm.evaluate(
        preds, as_ids(RELEVANT), metrics=[classes(num_labels=LABELS, **arguments)]
    )
    report = tm.evaluate(
        preds, as_ids(RELEVANT), metrics=[classes(**arguments)], label_names=names
    )
    assert report.scalars == expected.scalars


@pytest.mark.filterwarnings("ignore")
def test_a_bool_target_of_one_label_is_no_id():
    """A bool target of one column is one label, not an id, in a tensor and in lists."""
    for target in (torch.tensor([[True], [False], [True]]), [[True], [False], [True]]):
        report = tm.evaluate(
            torch.tensor([[0], [0], [-1]]),
            target,
            metrics=[tm.RecallAtK(k=1, empty_target_action="skip")],
            label_names=["a"],
        )
        assert list(report.scalars.values()) == [0.5]


@pytest.mark.filterwarnings("ignore")
def test_weights_of_a_metric_win_over_training_counts():
    """The weights of a metric are used for propensities also if label_counts are
    passed.
    """
    weights = torch.arange(1.0, LABELS + 1)
    metrics = [tm.PropensityScoredRecallAtK(k=2, weights=weights)]
    alone = tm.evaluate(as_ids(IDS), as_ids(RELEVANT), metrics=metrics)
    report = tm.evaluate(
        as_ids(IDS), as_ids(RELEVANT), metrics=metrics, label_counts=[1] * LABELS
    )
    key = metrics[0].row_keys()[0]
    assert report.scalars[key] == alone.scalars[key]


@pytest.mark.filterwarnings("ignore")
def test_rows_without_any_group_are_no_groups():
    """row_groups in which every entry is None are no groups, and values are as without
    them.
    """
    report = tm.evaluate(
        as_ids(IDS),
        as_ids(RELEVANT),
        metrics=[tm.RecallAtK(k=2)],
        row_groups=[None] * 4,
    )
    assert report.row_groups == []
    assert report.scalars["recall@2"] == pytest.approx(recall(RELEVANT))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "preds",
    [as_lists, lambda _: torch.zeros(0, LABELS), lambda _: torch.zeros(0, 3).long()],
)
@pytest.mark.parametrize("groups", [None, []])
def test_no_rows_give_a_report_of_no_values(preds, groups):
    """Lists, scores and ids without rows give a report in which each value is NaN, and
    which prints as any other.
    """
    report = tm.evaluate(
        preds([]),
        [],
        metrics=[tm.RecallAtK(k=2)],
        label_counts=[1] * LABELS,
        row_groups=groups,
        intervals=True,
    )
    assert report.rows == 0
    assert np.isnan([*report.scalars.values()]).all()
    assert "recall@2" in str(report)


# -- arguments by label, for labels with names -----------------------------------------

RUN = {"q0": {"d0": 0.9, "d2": 0.5}, "q1": {"d1": 0.8, "d3": 0.3}}
QRELS = {"q0": {"d2": 1}, "q1": {"d1": 1}}
ORDERS = (["d0", "d1", "d2", "d3"], ["d3", "d1", "d0", "d2"], ["d2", "d3", "d1", "d0"])


def lines(data, column):
    return [
        (query, item, value)
        for query, items in data.items()
        for item, value in items.items()
    ], [
        "query",
        "item",
        column,
    ]


def as_frames(run, qrels):
    return tuple(
        pd.DataFrame(*lines(data, column)[:1], columns=lines(data, column)[1])
        for data, column in ((run, "score"), (qrels, "gain"))
    )


def as_arrow(run, qrels):
    return tuple(
        pa.Table.from_pandas(table, preserve_index=False)
        for table in as_frames(run, qrels)
    )


def as_records(run, qrels):
    return tuple(table.to_dict("records") for table in as_frames(run, qrels))


def as_dicts(run, qrels):
    return run, qrels


def values_by_order(names, values):
    """Return the values of d0, d1, d2 and d3 in an order of names."""
    by_name = dict(zip(ORDERS[0], values, strict=True))
    return [by_name[name] for name in names]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("form", "names"),
    [
        *((as_dicts, names) for names in ORDERS),
        *((form, ORDERS[1]) for form in (as_frames, as_arrow, as_records)),
    ],
    ids=lambda argument: argument.__name__ if callable(argument) else "".join(argument),
)
def test_arguments_by_label_follow_label_names(form, names):
    """Thresholds, weights, counts, buckets and trees follow the order of label_names,
    as arguments of a metric and of evaluate, in any form of data.
    """
    preds, target = form(RUN, QRELS)
    # d2 alone is predicted
    thresholds = torch.tensor(values_by_order(names, [2.0, 0.9, 0.4, 2.0]))
    weights = torch.tensor(values_by_order(names, [1.0, 5.0, 3.0, 1.0]))
    counts = values_by_order(names, [9, 9, 1, 0])
    buckets = tm.LabelBuckets.thresholds(counts, [1, 5], names=["many", "few"])
    parents = dict(zip(ORDERS[0], ["", "", "d0", "d1"], strict=True))
    unnamed_tree = tm.LabelTree(
        [names.index(parents[name]) if parents[name] else -1 for name in names]
    )
    named_tree = tm.LabelTree.from_edges(parents, ORDERS[1])

    metrics = [
        tm.F1AtThreshold(thresholds),
        tm.PropensityScoredRecallAtK(k=1, weights=weights, name="weighted_recall"),
        tm.RecallAtK(k=1, buckets=buckets, scope="global"),
        tm.NearMissAtK(k=1, tree=unnamed_tree, name="unnamed_tree"),
        tm.NearMissAtK(k=1, tree=named_tree, name="named_tree"),
    ]
    report = tm.evaluate(preds, target, metrics=metrics, label_names=names)
    # 1 hit, 1 prediction, 2 relevant
    assert report.scalars["micro_f1@t"] == pytest.approx(2 / 3)
    # d1 is found, d2 is not
    assert report.scalars["weighted_recall"] == pytest.approx(5 / 8)
    assert report.scalars["global_recall@1/many"] == 1.0  # d1
    assert report.scalars["global_recall@1/few"] == 0.0  # d2
    # d0 is the parent of d2
    assert report.scalars["unnamed_tree"] == report.scalars["named_tree"] == 1.0

    metrics = [tm.RecallAtK(k=1), tm.NearMissAtK(k=1)]
    for arguments in (
        {"buckets": buckets, "label_tree": unnamed_tree},
        {
            "buckets": "thresholds:1,5:many,few",
            "label_counts": counts,
            "label_tree": named_tree,
        },
    ):
        report = tm.evaluate(
            preds, target, metrics=metrics, label_names=names, **arguments
        )
        assert report.scalars["global_recall@1/many"] == 1.0
        assert report.scalars["global_recall@1/few"] == 0.0
        assert report.scalars["near_miss@1"] == 1.0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", [as_dicts, as_frames, as_arrow, as_records])
def test_a_tree_with_names_needs_no_label_names(form):
    """A label tree with names is joined to the data by name, without label_names.

    A vector of thresholds has no names, and is refused.
    """
    preds, target = form(RUN, QRELS)
    tree = tm.LabelTree.from_edges({"d2": "d0", "d3": "d1"}, ORDERS[2])
    report = tm.evaluate(preds, target, metrics=[tm.NearMissAtK(k=1, tree=tree)])
    assert report.scalars["near_miss@1"] == 1.0
    with pytest.raises(
        ValueError,
        match="F1AtThreshold has threshold= by label id, .* pass label_names=",
    ):
        tm.evaluate(
            preds,
            target,
            metrics=[tm.F1AtThreshold(torch.tensor([2.0, 0.9, 0.4, 2.0]))],
        )


def test_a_tree_with_names_follows_label_names_of_ids():
    """A label tree with names is joined to ids by label_names, in whatever order the
    tree holds them.
    """
    tree = tm.LabelTree.from_edges({"d2": "d0"}, ["d2", "d1", "d0"])
    report = tm.evaluate(
        np.array([[0]]),
        np.array([2]),
        metrics=[tm.NearMissAtK(k=1, tree=tree)],
        label_names=["d0", "d1", "d2"],
    )
    assert report.scalars["near_miss@1"] == 1.0
