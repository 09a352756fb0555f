"""The catalogue of tables, dicts and ids: which labels it holds, what counts by place
belong to, and which notes a report has.
"""

import random

import numpy as np
import pandas as pd
import pytest
import torch

import tailmetrics as tm
from tailmetrics.evaluation import compare_runs
from tailmetrics.io import DataFileError

LISTS = {"u1": ["b", "c"], "u2": ["c", "d"]}
RELEVANT = {"u1": {"b": 1}, "u2": {"b": 1}}
CATALOGUE = [*"gfdecba"]


def frame(lists):
    rows = [
        (user, item, -place)
        for user, items in lists.items()
        for place, item in enumerate(items)
    ]
    return pd.DataFrame(rows, columns=["query", "item", "score"])


def runs(lists):
    return {
        user: {item: -float(place) for place, item in enumerate(items)}
        for user, items in lists.items()
    }


@pytest.mark.parametrize("factory", [frame, runs])
def test_catalogue_is_label_names_or_the_labels_in_the_data(factory):
    """The catalogue is label_names or, without it, the labels that the data name, which
    a warning says.

    The lists show 3 of 3 labels that the data name, and 3 of 7 in label_names, whose
    Gini is that of 2, 1, 1, 0, 0, 0, 0.
    """
    metrics = [tm.CatalogCoverageAtK(k=2), tm.GiniAtK(k=2)]
    report = tm.evaluate(factory(LISTS), RELEVANT, metrics=metrics)
    assert report.scalars["catalog_coverage@2"] == 1
    text = "The catalogue is the 3 labels that preds and the other arguments name. "
    end = "give all one catalogue: label_names=ITEMS. These are catalog_coverage@2, gini@2."
    assert any(
        warning.startswith(text) and warning.endswith(end)
        for warning in report.warnings
    )
    report = tm.evaluate(
        factory(LISTS), RELEVANT, metrics=metrics, label_names=CATALOGUE
    )
    assert report.scalars["catalog_coverage@2"] == pytest.approx(3 / 7)
    # sum over pairs |a - b| / (2 n sum): pairs (2,1) twice 1, (2,0) four times 2, (1,0)
    # eight times 1, both orders
    assert report.scalars["gini@2"] == pytest.approx(
        2 * (2 * 1 + 4 * 2 + 8 * 1) / (2 * 7 * 4)
    )
    assert not any("catalogue" in warning for warning in report.warnings)


@pytest.mark.parametrize("form", ["ids", "lists", "candidates", "ranking"])
def test_a_catalogue_that_the_largest_id_implies_is_noted(form):
    """If no array has columns and no argument says how many labels there are, the
    largest id does, which a warning says.

    The largest id is 3, so that 2 of 4 labels are shown; of the 5 labels of
    ``num_labels=5`` these are 2 of 5.
    """
    ids, relevant, train = (
        torch.tensor([[0, 1], [1, 0]]),
        torch.tensor([[1], [3]]),
        torch.tensor([[0], [2]]),
    )
    forms = {
        "ids": (ids, relevant),
        "lists": (ids.tolist(), relevant.tolist()),
        "candidates": ((torch.tensor([[0.9, 0.1], [0.8, 0.2]]), ids), relevant),
        "ranking": (tm.rank(ids, relevant), None),
    }
    preds, target = forms[form]
    report = tm.evaluate(
        preds, target, train_target=train, metrics=tm.CatalogCoverageAtK(k=2)
    )
    assert report.scalars["catalog_coverage@2"] == 2 / 4
    text = "The catalogue is the 4 labels that the largest id of these data implies. "
    assert any(warning.startswith(text) for warning in report.warnings)

    report = tm.evaluate(
        preds,
        target,
        train_target=train,
        metrics=tm.CatalogCoverageAtK(k=2, num_labels=5),
    )
    assert report.scalars["catalog_coverage@2"] == 2 / 5
    assert not any("catalogue" in warning for warning in report.warnings)


@pytest.mark.parametrize(("labels", "value"), [("all", 1 / 3), ("present", 1.0)])
def test_a_mean_over_all_labels_counts_the_catalogue(labels, value):
    """A mean over all labels divides by the size of the catalogue, and a warning says
    so if the data alone decide it.

    One label is relevant and found: 1 of 3 without label_names, 1 of 7 with them; over
    labels with rows the mean is 1.
    """
    metric = tm.RecallAtK(k=2, average="macro", labels=labels)
    report = tm.evaluate(frame({**LISTS, "u2": ["b", "d"]}), RELEVANT, metrics=metric)
    assert [*report.scalars.values()] == pytest.approx([value])
    text = "The catalogue is the 3 labels that preds and the other arguments name. Before values that depend on its size"
    assert any(warning.startswith(text) for warning in report.warnings) == (
        labels == "all"
    )
    report = tm.evaluate(
        frame({**LISTS, "u2": ["b", "d"]}),
        RELEVANT,
        metrics=metric,
        label_names=CATALOGUE,
    )
    assert [*report.scalars.values()] == pytest.approx(
        [1 / 7 if labels == "all" else 1.0]
    )
    assert not any("catalogue" in warning for warning in report.warnings)


RANDOM = random.Random(0)
MANY_LISTS = {
    f"u{row}": RANDOM.sample([f"i{item}" for item in range(40)], 8) for row in range(30)
}
MANY_RELEVANT = {
    user: {RANDOM.choice(items): 1, f"i{RANDOM.randrange(40)}": 1}
    for user, items in MANY_LISTS.items()
}


@pytest.mark.parametrize(
    "metric",
    [
        tm.FallOutAtK(k=5),
        tm.RowAUC(),
        tm.RowAUC(not_retrieved="absent"),
        tm.CoverageError(),
        tm.CoverageError(not_retrieved="absent"),
        tm.RankingLoss(),
        tm.KForRecall(min_recall=1.0, statistic="mean"),
        tm.KForRecall(min_recall=1.0, statistic="mean", miss_value=9),
        tm.LabelAUC(average="micro"),
        tm.LabelAUC(average="macro"),
        tm.LabelAUC(average="micro", not_retrieved="absent"),
        tm.LabelAP(average="micro"),
        tm.LabelAP(average="macro", not_retrieved="absent"),
        tm.F1AtK(k=5, average="macro", labels="all"),
        tm.F1AtK(k=5, average="macro", labels="union"),
        tm.F1AtThreshold(-3.5, average="macro", labels="all"),
        tm.PositiveCoverageAtK(k=5),
        tm.PositiveCoverageAtK(k=5, denominator="known"),
        tm.CatalogCoverageAtK(k=5),
        tm.GiniAtK(k=5),
        tm.EntropyAtK(k=5),
        tm.PersonalizationAtK(k=5),
        tm.RecallAtK(k=5),
        tm.PrecisionAtK(k=5, average="micro"),
        tm.NDCGAtK(k=5),
        tm.MRR(),
        tm.RPrecision(),
    ],
    ids=repr,
)
def test_catalogue_note_names_exactly_the_values_that_depend_on_it(metric):
    """The note on the catalogue names a value exactly if the value changes when 1,000
    label_names replace the labels in the data.
    """
    names = [f"i{item}" for item in range(1000)]
    report = tm.evaluate(runs(MANY_LISTS), MANY_RELEVANT, metrics=[metric])
    whole = tm.evaluate(
        runs(MANY_LISTS), MANY_RELEVANT, metrics=[metric], label_names=names
    )
    (key,) = metric.keys()
    depends = report.scalars[key] != pytest.approx(whole.scalars[key], abs=1e-12)
    assert any(f"These are {key}." in warning for warning in report.warnings) == depends
    assert not any("catalogue" in warning for warning in whole.warnings)


@pytest.mark.parametrize("factory", [frame, runs])
def test_counts_and_buckets_by_place_belong_to_label_names(factory):
    """Counts and buckets by place follow the order of label_names.

    However counts are passed, b, the one relevant label, has 9 rows and is found for
    one user of two.
    """
    counts = {"b": 9, "c": 3, "g": 1}
    ordered = [counts.get(name, 0) for name in CATALOGUE]
    buckets = tm.LabelBuckets.thresholds(ordered, [1, 5])
    metrics = [tm.RecallAtK(k=2, buckets="thresholds:1,5", scope="global")]
    arguments = {"label_names": CATALOGUE, "metrics": metrics}
    for argument in (
        {"label_counts": counts},
        {"label_counts": ordered},
        {"buckets": buckets},
    ):
        report = tm.evaluate(factory(LISTS), RELEVANT, **arguments, **argument)
        assert report.scalars["global_recall@2/5+"] == 0.5
        assert {row.name: row.labels for row in report.buckets if row.name} == {
            "5+": 1,
            "1-4": 2,
            "unseen": 4,
        }


def test_evaluate_refuses_data_that_do_not_fit_the_catalogue():
    """evaluate raises an error if label_names lacks a label of the data or holds a
    label twice, or if a metric was made for another number of labels.
    """
    for names, problem in (
        (["a", "b", "c"], "label_names lacks 'd', which the data hold"),
        (["b"], "label_names lacks 'c', 'd', which the data hold"),
        ([*CATALOGUE, "a"], "label_names holds 'a' twice"),
    ):
        with pytest.raises(ValueError, match=problem):
            tm.evaluate(
                frame(LISTS), RELEVANT, label_names=names, metrics=[tm.RecallAtK(k=1)]
            )
    with pytest.raises(
        ValueError,
        match="CatalogCoverageAtK was made for 7 labels, but the data have 3; leave its",
    ):
        tm.evaluate(
            frame(LISTS),
            RELEVANT,
            metrics=[tm.CatalogCoverageAtK(k=2, num_labels=7)],
            train_target=RELEVANT,
        )


@pytest.mark.parametrize("factory", [list, pd.Series, lambda rows: np.array([*rows])])
@pytest.mark.parametrize(
    "arguments", [{}, {"train_target": [[0, 1], [0]]}, {"labels": True}]
)
def test_label_ids_are_places_in_label_names(factory, arguments):
    """Label ids are places in label_names: lists show 3 of 7 labels, with training
    targets and without.

    An id beyond the last name is refused in every form.
    """
    preds, target = factory([[5, 1], [1, 2]]), [[1], [1]]
    metrics = [tm.CatalogCoverageAtK(k=2), tm.RecallAtK(k=2)]
    report = tm.evaluate(
        preds, target, metrics=metrics, label_names=CATALOGUE, **arguments
    )
    assert report.scalars["catalog_coverage@2"] == pytest.approx(3 / 7)
    text = "label_names holds 5 names, for the label ids 0 to 4, but preds or target holds the id 5. If these numbers"
    for rows in (
        preds,
        (np.array([[2.0, 1.0], [2.0, 1.0]]), np.array([[5, 1], [1, 2]])),
    ):
        with pytest.raises(ValueError, match=text):
            tm.evaluate(
                rows,
                target,
                metrics=[tm.RecallAtK(k=2)],
                label_names=[*"abcde"],
                **arguments,
            )


def test_label_names_need_to_cover_only_rows_that_count():
    """label_names must cover only the labels of rows that count, and each column of
    scores.

    The ignored label 99 and a label of a masked row need no name; 3 names for 2 columns
    are refused.
    """
    arguments = {"metrics": [tm.RecallAtK(k=1)], "label_names": [*"abc"]}
    assert (
        tm.evaluate(
            [[1], [2]], np.array([1, 99]), ignore_index=99, **arguments
        ).scalars["recall@1"]
        == 1
    )
    assert (
        tm.evaluate(
            [[1], [9]], np.array([1, 9]), row_mask=[True, False], **arguments
        ).scalars["recall@1"]
        == 1
    )
    with pytest.raises(
        ValueError,
        match="label_names holds 3 labels, but the data have 2; pass a name for every label",
    ):
        tm.evaluate(np.array([[0.5, 0.1]]), [[0]], **arguments)


@pytest.mark.parametrize("factory", [runs, frame])
def test_metrics_with_values_by_label_id_are_refused_without_label_names(factory):
    """Metrics with values by label id are refused for labels with names unless
    label_names gives their order.

    This holds for buckets, counts, weights and trees.
    """
    unnamed = tm.LabelTree([-1, 0, 0])
    for metric, argument in (
        (tm.RecallAtK(k=2, buckets=tm.LabelBuckets.deciles([9, 3, 0])), "buckets="),
        (
            tm.PropensityScoredPrecisionAtK(k=1, label_counts=[9, 3, 0], num_train=9),
            "label_counts=",
        ),
        (tm.PropensityScoredPrecisionAtK(k=1, weights=[1.0, 2, 3]), "weights="),
        (tm.NearMissAtK(k=1, tree=unnamed), "from_edges"),
    ):
        with pytest.raises(ValueError, match=argument):
            tm.evaluate(factory(LISTS), RELEVANT, metrics=[metric])


def test_evaluate_notes_gaps_between_ids_and_labels_without_a_count():
    """A warning says how many label ids never occur in training, and how many named
    labels have no count.

    98 of 100 ids have no count, so the numbers may have gaps; names have no gaps: 1 of
    3 without a count brings no warning, 3 of 4 does.
    """
    lists, train = [[5, 99], [7, 5]], [[5], [99]]
    (note,) = [
        warning
        for warning in tm.evaluate(lists, [[5], [7]], train_target=train).warnings
        if "never occur" in warning
    ]
    assert note.startswith(
        "98 of 100 labels never occur in training. If the numbers of labels have gaps, each number met should be one "
        "label: pass lists of strings or a table."
    )
    names = [[str(label) for label in row] for row in lists]
    report = tm.evaluate(names, [["5"], ["7"]], train_target=[["5"], ["99"]])
    assert not any(
        "labels have no training count" in warning or "gaps" in warning
        for warning in report.warnings
    )  # 1 of 3
    report = tm.evaluate(
        runs(LISTS), {"u1": {"a": 1}, "u2": {"b": 1}}, label_counts={"c": 4}
    )
    assert "3 of 4 labels have no training count and are unseen." in report.warnings


def test_runs_are_compared_over_one_catalogue():
    """compare_runs takes label_names as the one catalogue of all runs: label counts by
    place belong to it.
    """
    other = {"u1": ["e", "b"], "u2": ["b", "e"]}
    compared = compare_runs(
        {"a": frame(LISTS), "b": frame(other)},
        RELEVANT,
        metrics=[tm.RecallAtK(k=2)],
        label_names=CATALOGUE,
        label_counts=[0, 0, 1, 2, 3, 9, 0],
        resamples=50,
    )
    assert compared.values["recall@2"] == {"a": 0.5, "b": 1.0}
    assert compared.values["global_recall@2/decile_10"] == {"a": 0.5, "b": 1.0}


@pytest.mark.parametrize("factory", [frame, runs, dict.values])
def test_runs_that_name_different_labels_have_one_catalogue(factory):
    """compare_runs takes the labels that all runs name as one catalogue, so that equal
    lists have equal values.

    Each row has one of five labels, found first, and one miss. The second run also
    names 15 other labels, below the cut-off of a row, so that the fall-out at 2 is 1 /
    19 in both.
    """
    relevant = {f"u{row:02}": [f"d{row % 5}"] for row in range(30)}
    first = {
        user: [label, f"d{(row + 1) % 5}"]
        for row, (user, [label]) in enumerate(relevant.items())
    }
    second = {**first, "u00": [*first["u00"], *(f"x{item}" for item in range(15))]}
    target = {user: {label: 1} for user, [label] in relevant.items()}
    if factory is dict.values:
        target = list(relevant.values())
    tables = {"first": factory(first), "second": factory(second)}
    if factory is dict.values:
        tables = {name: list(table) for name, table in tables.items()}
    metrics = [tm.FallOutAtK(k=2), tm.CatalogCoverageAtK(k=2), tm.RecallAtK(k=2)]
    compared = compare_runs(tables, target, metrics=metrics, resamples=50)
    assert compared.values["fall_out@2"] == pytest.approx(
        {"first": 1 / 19, "second": 1 / 19}
    )
    assert compared.not_compared["catalog_coverage@2"] == pytest.approx(
        {"first": 5 / 20, "second": 5 / 20}
    )
    assert not any("catalogue" in warning for warning in compared.warnings)


def test_runs_of_ids_with_other_numbers_of_labels_are_refused():
    """Runs whose largest ids imply other numbers of labels are refused if a metric
    depends on the number.
    """
    relevant = torch.arange(30)[:, None] % 5
    first = torch.cat([relevant, (relevant + 1) % 5], dim=1)
    second = first.clone()
    second[0, 1] = 19
    ids = {"first": first, "second": second}
    with pytest.raises(
        ValueError,
        match="which is 5 in first and 20 in second; pass num_labels= to the metric",
    ):
        compare_runs(
            ids,
            relevant,
            train_target=relevant,
            metrics=[tm.FallOutAtK(k=2)],
            resamples=50,
        )
    rankings = {
        name: tm.rank(lists, relevant, num_labels=int(lists.max()) + 1)
        for name, lists in ids.items()
    }
    with pytest.raises(
        ValueError,
        match="which is 5 in first and 20 in second; .* Rankings take one num_labels=",
    ):
        compare_runs(rankings, metrics=[tm.FallOutAtK(k=2)], resamples=50)
    for metrics in ([tm.FallOutAtK(k=2, num_labels=20)], [tm.RecallAtK(k=2)]):
        compare_runs(
            ids, relevant, train_target=relevant, metrics=metrics, resamples=50
        )


def test_evaluate_refuses_targets_without_a_common_label():
    """evaluate raises an error if target has no label in common with preds, and names
    the two spellings if they differ by leading zeros. The error does not offer
    string_ids=, which only files have.
    """
    with pytest.raises(
        DataFileError, match="has no label in common with preds: .* check that"
    ) as caught:
        tm.evaluate(
            frame(LISTS), {"u1": {"x": 1}, "u2": {"y": 1}}, metrics=[tm.RecallAtK(k=2)]
        )
    assert "string_ids" not in str(caught.value)
    with pytest.raises(
        DataFileError,
        match="target: has the label '7' where preds has '07'; write both alike.$",
    ):
        tm.evaluate(
            frame({"u": ["07", "8"]}),
            {"u": {"7": 1, "8": 1}},
            metrics=[tm.RecallAtK(k=2)],
        )
