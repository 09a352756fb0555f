"""All labels of tables and dicts: the catalogue that label_names is, counts by place, and what is said of gaps."""

import random

import numpy as np
import pandas as pd
import pytest

import tailmetrics as tm
from tailmetrics.evaluation import compare_runs
from tailmetrics.io import DataFileError

SHOWN = {"u1": ["b", "c"], "u2": ["c", "d"]}
WANTED = {"u1": {"b": 1}, "u2": {"b": 1}}
CATALOGUE = [*"gfdecba"]


def frame(lists):
    rows = [(user, item, -place) for user, items in lists.items() for place, item in enumerate(items)]
    return pd.DataFrame(rows, columns=["query", "item", "score"])


def runs(lists):
    return {user: {item: -float(place) for place, item in enumerate(items)} for user, items in lists.items()}


@pytest.mark.parametrize("make", [frame, runs])
def test_the_catalogue_is_the_labels_that_the_data_name_or_label_names(make):
    """3 of 3 items that the data name are shown, and 3 of a catalogue of 7, whose Gini is of 2, 1, 1, 0, 0, 0, 0."""
    metrics = [tm.CatalogCoverageAtK(k=2), tm.GiniAtK(k=2)]
    report = tm.evaluate(make(SHOWN), WANTED, metrics=metrics)
    assert report.scalars["catalog_coverage@2"] == 1
    text = "The catalogue is the 3 labels that preds and the other arguments name. "
    end = "give all one catalogue: label_names=ITEMS. These are catalog_coverage@2, gini@2."
    assert any(warning.startswith(text) and warning.endswith(end) for warning in report.warnings)
    report = tm.evaluate(make(SHOWN), WANTED, metrics=metrics, label_names=CATALOGUE)
    assert report.scalars["catalog_coverage@2"] == pytest.approx(3 / 7)
    # sum over pairs |a - b| / (2 n sum): pairs (2,1) twice 1, (2,0) four times 2, (1,0) eight times 1, both orders
    assert report.scalars["gini@2"] == pytest.approx(2 * (2 * 1 + 4 * 2 + 8 * 1) / (2 * 7 * 4))
    assert not any("catalogue" in warning for warning in report.warnings)


@pytest.mark.parametrize(("labels", "value"), [("all", 1 / 3), ("present", 1.0)])
def test_a_mean_over_all_labels_counts_the_catalogue(labels, value):
    """The one wanted label is found: 1 of the 3 that the data name, which is told, and 1 of 7; the mean of it is 1."""
    metric = tm.RecallAtK(k=2, average="macro", labels=labels)
    report = tm.evaluate(frame({**SHOWN, "u2": ["b", "d"]}), WANTED, metrics=metric)
    assert [*report.scalars.values()] == pytest.approx([value])
    text = (
        "The catalogue is the 3 labels that preds and the other arguments name. Before values that depend on its size"
    )
    assert any(warning.startswith(text) for warning in report.warnings) == (labels == "all")
    report = tm.evaluate(frame({**SHOWN, "u2": ["b", "d"]}), WANTED, metrics=metric, label_names=CATALOGUE)
    assert [*report.scalars.values()] == pytest.approx([1 / 7 if labels == "all" else 1.0])
    assert not any("catalogue" in warning for warning in report.warnings)


MADE = random.Random(0)
MANY_LISTS = {f"u{row}": MADE.sample([f"i{item}" for item in range(40)], 8) for row in range(30)}
MANY_WANTED = {user: {MADE.choice(items): 1, f"i{MADE.randrange(40)}": 1} for user, items in MANY_LISTS.items()}


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
def test_the_note_on_the_catalogue_names_the_values_that_change_with_it(metric):
    """The same lists without and with 1,000 names of labels: the note stands exactly where the value changes."""
    names = [f"i{item}" for item in range(1000)]
    report = tm.evaluate(runs(MANY_LISTS), MANY_WANTED, metrics=[metric])
    whole = tm.evaluate(runs(MANY_LISTS), MANY_WANTED, metrics=[metric], label_names=names)
    (key,) = metric.keys()
    depends = report.scalars[key] != pytest.approx(whole.scalars[key], abs=1e-12)
    assert any(f"These are {key}." in warning for warning in report.warnings) == depends
    assert not any("catalogue" in warning for warning in whole.warnings)


@pytest.mark.parametrize("make", [frame, runs])
def test_counts_and_buckets_by_place_belong_to_label_names(make):
    """b, the one wanted label, has the count 9 whichever way counts are passed: it is found for one user of two."""
    counts = {"b": 9, "c": 3, "g": 1}
    ordered = [counts.get(name, 0) for name in CATALOGUE]
    buckets = tm.LabelBuckets.thresholds(ordered, [1, 5])
    metrics = [tm.RecallAtK(k=2, buckets="thresholds:1,5", scope="global")]
    arguments = {"label_names": CATALOGUE, "metrics": metrics}
    for argument in ({"label_counts": counts}, {"label_counts": ordered}, {"buckets": buckets}):
        report = tm.evaluate(make(SHOWN), WANTED, **arguments, **argument)
        assert report.scalars["global_recall@2/5+"] == 0.5
        assert {row.name: row.labels for row in report.buckets if row.name} == {"5+": 1, "1-4": 2, "unseen": 4}


def test_what_does_not_fit_the_catalogue_is_refused():
    """A label beside the catalogue, one named twice, and metrics made for other labels."""
    for names, problem in (
        (["a", "b", "c"], "label_names lacks 'd', which the data hold"),
        (["b"], "label_names lacks 'c', 'd', which the data hold"),
        ([*CATALOGUE, "a"], "label_names holds 'a' twice"),
    ):
        with pytest.raises(ValueError, match=problem):
            tm.evaluate(frame(SHOWN), WANTED, label_names=names, metrics=[tm.RecallAtK(k=1)])
    with pytest.raises(ValueError, match="CatalogCoverageAtK was made for 7 labels, but the data have 3; leave its"):
        tm.evaluate(frame(SHOWN), WANTED, metrics=[tm.CatalogCoverageAtK(k=2, num_labels=7)], train_target=WANTED)


@pytest.mark.parametrize("make", [list, pd.Series, lambda rows: np.array([*rows])])
@pytest.mark.parametrize("more", [{}, {"train_target": [[0, 1], [0]]}, {"labels": True}])
def test_ids_are_places_in_label_names(make, more):
    """Of 7 names 3 are shown, 3/7, with a training count or without; one name fewer than ids is refused always."""
    preds, target = make([[5, 1], [1, 2]]), [[1], [1]]
    metrics = [tm.CatalogCoverageAtK(k=2), tm.RecallAtK(k=2)]
    report = tm.evaluate(preds, target, metrics=metrics, label_names=CATALOGUE, **more)
    assert report.scalars["catalog_coverage@2"] == pytest.approx(3 / 7)
    text = "label_names holds 5 names, for the label ids 0 to 4, but preds or target holds the id 5. If these numbers"
    for rows in (preds, (np.array([[2.0, 1.0], [2.0, 1.0]]), np.array([[5, 1], [1, 2]]))):
        with pytest.raises(ValueError, match=text):
            tm.evaluate(rows, target, metrics=[tm.RecallAtK(k=2)], label_names=[*"abcde"], **more)


def test_names_are_counted_against_rows_that_count_and_columns_of_scores():
    """The ignored 99 is no label, nor is one of a masked row; 3 columns take 3 names."""
    arguments = {"metrics": [tm.RecallAtK(k=1)], "label_names": [*"abc"]}
    assert tm.evaluate([[1], [2]], np.array([1, 99]), ignore_index=99, **arguments).scalars["recall@1"] == 1
    assert tm.evaluate([[1], [9]], np.array([1, 9]), row_mask=[True, False], **arguments).scalars["recall@1"] == 1
    with pytest.raises(
        ValueError, match="label_names holds 3 labels, but the data have 2; pass a name for every label"
    ):
        tm.evaluate(np.array([[0.5, 0.1]]), [[0]], **arguments)


@pytest.mark.parametrize("make", [runs, frame])
def test_metrics_with_values_by_label_id_are_refused_without_label_names(make):
    """Labels with names have no order, but that of label_names: buckets, counts, weights, thresholds and a tree."""
    unnamed = tm.LabelTree([-1, 0, 0])
    for metric, argument in (
        (tm.RecallAtK(k=2, buckets=tm.LabelBuckets.deciles([9, 3, 0])), "buckets="),
        (tm.PropensityScoredPrecisionAtK(k=1, label_counts=[9, 3, 0], num_train=9), "label_counts="),
        (tm.PropensityScoredPrecisionAtK(k=1, weights=[1.0, 2, 3]), "weights="),
        (tm.NearMissAtK(k=1, tree=unnamed), "from_edges"),
    ):
        with pytest.raises(ValueError, match=argument):
            tm.evaluate(make(SHOWN), WANTED, metrics=[metric])


def test_gaps_between_ids_and_labels_without_a_count_are_said():
    """2 of 100 ids occur in training; of names 3 of 4 have no count, of which nothing is a gap."""
    lists, train = [[5, 99], [7, 5]], [[5], [99]]
    (note,) = [
        warning for warning in tm.evaluate(lists, [[5], [7]], train_target=train).warnings if "never occur" in warning
    ]
    assert note.startswith(
        "98 of 100 labels never occur in training. If the numbers of labels have gaps, each number met should be one "
        "label: pass lists of strings or a table."
    )
    names = [[str(label) for label in row] for row in lists]
    report = tm.evaluate(names, [["5"], ["7"]], train_target=[["5"], ["99"]])
    assert not any(
        "labels have no training count" in warning or "gaps" in warning for warning in report.warnings
    )  # 1 of 3
    report = tm.evaluate(runs(SHOWN), {"u1": {"a": 1}, "u2": {"b": 1}}, label_counts={"c": 4})
    assert "3 of 4 labels have no training count and are unseen." in report.warnings


def test_runs_are_compared_over_one_catalogue():
    """compare_runs takes label_names, too: counts by its order are those of both runs."""
    other = {"u1": ["e", "b"], "u2": ["b", "e"]}
    compared = compare_runs(
        {"a": frame(SHOWN), "b": frame(other)},
        WANTED,
        metrics=[tm.RecallAtK(k=2)],
        label_names=CATALOGUE,
        label_counts=[0, 0, 1, 2, 3, 9, 0],
        resamples=50,
    )
    assert compared.values["recall@2"] == {"a": 0.5, "b": 1.0}
    assert compared.values["global_recall@2/decile_10"] == {"a": 0.5, "b": 1.0}


def test_labels_of_other_names_are_refused_without_an_option_that_evaluate_lacks():
    """No item of the predictions is wanted: two kinds of names; string_ids= is an argument of files."""
    with pytest.raises(DataFileError, match="has no label in common with preds: .* check that") as caught:
        tm.evaluate(frame(SHOWN), {"u1": {"x": 1}, "u2": {"y": 1}}, metrics=[tm.RecallAtK(k=2)])
    assert "string_ids" not in str(caught.value)
    with pytest.raises(DataFileError, match="target: has the label '7' where preds has '07'; write both alike.$"):
        tm.evaluate(frame({"u": ["07", "8"]}), {"u": {"7": 1, "8": 1}}, metrics=[tm.RecallAtK(k=2)])
