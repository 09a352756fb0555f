"""Tables, dicts of runs and lists of lists: `evaluate` gives the numbers of pytrec_eval and of plain loops."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import pytrec_eval
import torch
from scipy import stats

import tailmetrics as tm
from printed import in_full
from tailmetrics.evaluation import compare_runs
from tailmetrics.io import read

QRELS = {"q1": {"a": 2, "c": 1}, "q2": {"c": 1}, "q3": {"b": 1, "d": 3}}
RUN = {"q1": {"a": 0.9, "b": 0.5, "c": 0.1}, "q2": {"b": 0.7, "d": 0.6, "c": 0.2}, "q3": {"d": 0.8, "a": 0.1}}
TRAIN = {"t1": {"a": 1, "b": 1}, "t2": {"a": 1}, "t3": {"c": 1, "a": 1}}


def metrics():
    return [tm.PrecisionAtK(1, denominator="k"), tm.RecallAtK(2), tm.NDCGAtK(3), tm.MAP(), tm.MRR()]


def peer():
    """What pytrec_eval says, averaged over the queries."""
    measures = {"P_1", "recall_2", "ndcg_cut_3", "map", "recip_rank"}
    report = pytrec_eval.RelevanceEvaluator(QRELS, measures).evaluate(RUN)
    keys = ("P_1", "recall_2", "ndcg_cut_3", "map", "recip_rank")
    return [sum(values[key] for values in report.values()) / len(report) for key in keys]


def frame(run, value):
    """A DataFrame with the usual names of columns."""
    rows = [(query, item, number) for query, items in run.items() for item, number in items.items()]
    return pd.DataFrame(rows, columns=["user_id", "item_id", value])


FORMS = {
    "dicts": (RUN, QRELS),
    "frames": (frame(RUN, "score"), frame(QRELS, "rating")),
    "arrow": (pa.Table.from_pandas(frame(RUN, "score")), pa.Table.from_pandas(frame(QRELS, "rating"))),
    "mixed": (frame(RUN, "score"), QRELS),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("batch_rows", [1, 4096])
def test_tables_and_dicts(form, batch_rows):
    """The numbers of pytrec_eval, whatever holds the run, in batches of any size."""
    report = tm.evaluate(*FORMS[form], metrics=metrics(), batch_rows=batch_rows)
    assert list(report.scalars.values()) == pytest.approx(peer(), abs=1e-9)
    assert report.rows == 3
    guessed = [text for text in report.readings if "'user_id' is the query" in text]
    assert len(guessed) == {"dicts": 0, "mixed": 1}.get(form, 2)


@pytest.mark.parametrize("form", FORMS)
def test_the_two_swapped_are_told(form):
    """Judgements first, as ranx and pytrec_eval take them; nothing is said of a run first, or of a run of whole scores.

    The columns of frames have names: judgements are no predictions.
    """
    run, qrels = FORMS[form]
    if form in ("frames", "arrow"):
        with pytest.raises(tm.io.DataFileError, match="no column is the score"):
            tm.evaluate(qrels, run, metrics=metrics())
        return
    text = "holds only whole numbers up to 3, as grades are, and target holds fractions"
    with pytest.warns(UserWarning, match=text):
        report = tm.evaluate(qrels, run, metrics=metrics())
    assert any(text in warning for warning in report.warnings)
    popular = {query: {item: 100 * score for item, score in items.items()} for query, items in QRELS.items()}
    for right in ((run, qrels), (QRELS, QRELS), (popular, RUN)):
        assert not any("swapped" in warning for warning in tm.evaluate(*right, metrics=metrics()).warnings)


def test_training_targets_tell_the_deciles():
    """Labels have their names; counts are those of training; the rarest decile is of labels that it showed once."""
    report = tm.evaluate(RUN, QRELS, train_target=TRAIN, metrics=[tm.RecallAtK(2)], labels=True)
    by_name = {report.labels.names[label]: label for label in range(4)}
    counts = report.labels.columns["count"].tolist()
    assert {name: counts[label] for name, label in by_name.items()} == {"a": 3, "b": 1, "c": 1, "d": 0}
    assert report.by_bucket["global_recall@2"]["decile_10"] == 1.0  # a, in q1
    assert report.scalars["recall@2"] == pytest.approx(peer()[1], abs=1e-9)


def test_groups_by_query():
    """A dict from query to group; a query that it lacks counts only overall, and a note names it.

    A query without a cluster would be independent of the others, or not: it is refused.
    """
    groups = {"q1": "en", "q2": "de"}
    report = tm.evaluate(RUN, QRELS, metrics=[tm.RecallAtK(2)], row_groups=groups)
    assert (report.scalars["recall@2/en"], report.scalars["recall@2/de"]) == (0.5, 0.0)
    assert "row_groups lacks 1 of 3 queries, such as 'q3': they count only overall." in report.notes
    with pytest.raises(ValueError, match="clusters has no value for 1 of 3 queries, such as 'q3'"):
        tm.evaluate(RUN, QRELS, metrics=[tm.RecallAtK(2)], clusters=groups)


GROUPS_OF_USERS = {11: "en", 12: "de", 13: None}


@pytest.mark.parametrize("form", ["dict", "series in another order", "series with more users"])
def test_groups_by_users_that_are_numbers(form):
    """Numbers name queries as texts do; a Series is joined by its index, whatever its order."""
    users = {"q1": 11, "q2": 12, "q3": 13}
    run, qrels = (
        frame(table, value).replace({"user_id": users}) for table, value in ((RUN, "score"), (QRELS, "rating"))
    )
    series = pd.Series({12: "de", 13: None, 11: "en", **({99: "fr"} if form.endswith("more users") else {})})
    groups = GROUPS_OF_USERS if form == "dict" else series
    report = tm.evaluate(run, qrels, metrics=[tm.RecallAtK(2)], row_groups=groups)
    assert (report.scalars["recall@2/en"], report.scalars["recall@2/de"]) == (0.5, 0.0)


def test_a_series_beside_arrays_is_in_the_order_of_the_rows():
    """Rows without names: what a filtered frame calls them says nothing."""
    groups = pd.Series(["en", "de"], index=[1, 0])
    report = tm.evaluate(torch.eye(2), torch.tensor([0, 0]), metrics=[tm.PrecisionAtK(1)], row_groups=groups)
    assert (report.scalars["precision@1/en"], report.scalars["precision@1/de"]) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (pd.Series(["en", "de", "fr"]), "row_groups has no value for 3 of 3 queries, such as 'q1'"),
        (pd.Series({"q1": "en", "q2": "de"}), "row_groups has no value for 1 of 3 queries, such as 'q3'"),
        ({11: "en"}, "row_groups has no value for 3 of 3 queries, such as 'q1'"),
        (pd.Series(["en", "de"], index=["q1", "q1"]), "row_groups has two values for the query 'q1'"),
        (pd.DataFrame({"user": ["q1"], "group": ["en"]}), "row_groups is a table; pass one column of it"),
    ],
)
def test_groups_that_cannot_be_joined(groups, message):
    """An index that lacks queries, other users, two groups of a user, a whole table."""
    with pytest.raises((ValueError, TypeError), match=f"evaluate: {message}"):
        tm.evaluate(RUN, QRELS, metrics=[tm.RecallAtK(2)], row_groups=groups)


@pytest.mark.parametrize("names", [False, True])
def test_lists_of_lists(names):
    """Ranked labels of each row, of any length, as numbers or names."""
    preds, target = [[3, 1, 0], [2], [0, 1]], [[1], [0, 2], [3]]
    train = [[0, 1], [0], [2, 3]]
    if names:
        preds, target, train = ([[f"n{label}" for label in row] for row in rows] for rows in (preds, target, train))
    report = tm.evaluate(preds, target, train_target=train, metrics=[tm.PrecisionAtK(1), tm.RecallAtK(2)])
    assert report.scalars["precision@1"] == pytest.approx((0 + 1 + 0) / 3)
    assert report.scalars["recall@2"] == pytest.approx((1 + 0.5 + 0) / 3)
    assert report.label_counts.tolist() == [2, 1, 1, 1]


def test_names_on_one_side_alone_are_refused():
    """One error that says what to pass."""
    with pytest.raises(
        TypeError, match="target is int64 \\[1\\], but other arguments hold names of labels; pass a table"
    ):
        tm.evaluate([["c"]], torch.zeros(1, dtype=torch.int64))


def test_runs_compared():
    """A dict of runs by name: each value is that of evaluate."""
    other = {query: dict.fromkeys(items, 0.5) | {"c": 1.0} for query, items in RUN.items()}
    compared = compare_runs({"one": RUN, "other": other}, QRELS, metrics=[tm.RecallAtK(2)], resamples=100)
    for name, run in (("one", RUN), ("other", other)):
        assert (
            compared.values["recall@2"][name] == tm.evaluate(run, QRELS, metrics=[tm.RecallAtK(2)]).scalars["recall@2"]
        )
    with pytest.raises(TypeError, match="runs names a run 7; pass a text, such as 'baseline'"):
        compare_runs({"one": RUN, 7: RUN}, QRELS)
    with pytest.raises(ValueError, match="at least two"):
        compare_runs({"one": RUN}, QRELS)


def test_a_comparison_says_what_to_know_of_its_runs():
    """Ties of one run, told as those of that run, and what is true of all runs once; metrics may be a generator."""
    other, short = {"q1": dict.fromkeys("abc", 0.5)}, {"q1": RUN["q1"]}
    arguments = {"metrics": (metric for metric in [tm.RecallAtK(1)]), "resamples": 100}
    compared = compare_runs({"one": short, "other": other}, QRELS, **arguments)
    left_out = f"{len(QRELS) - 1} queries of target have no predictions in preds: left out; missing='zero' counts"
    tied = "other: Rows are cut inside a tie (100.0% at rank 1)"
    assert any(warning.startswith(left_out) for warning in compared.warnings)
    (warning_on_ties,) = (warning for warning in compared.warnings if warning.startswith(tied))
    assert warning_on_ties.endswith("whatever the model.")  # a comparison shows no other orders
    assert tied in str(compared)
    assert tied in compared._repr_html_()
    assert json.loads(json.dumps(compared.as_dict()))["warnings"] == list(compared.warnings)
    with pytest.raises(TypeError, match="compare_runs: intervals is not taken; it takes runs, target, metrics"):
        compare_runs({"one": RUN, "other": RUN}, QRELS, intervals=True)


@pytest.mark.parametrize("form", ["list", "dict", "series"])
def test_rows_of_a_cluster_are_drawn_together(form):
    """All rows of one user are one cluster, in any form."""
    other = {query: dict.fromkeys(items, 0.5) | {"c": 1.0} for query, items in RUN.items()}
    users = {"list": ["u"] * 3, "dict": dict.fromkeys(RUN, "u"), "series": pd.Series(dict.fromkeys(RUN, "u"))}
    runs, options = {"one": RUN, "other": other}, {"metrics": [tm.RecallAtK(2)], "resamples": 100}
    compared = compare_runs(runs, QRELS, clusters=users[form], **options)
    assert compared.comparisons[0].interval.clusters == 1


@pytest.mark.parametrize("form", ["sequences", "rows", "list", "flat"])
def test_intervals_of_sequences_that_are_alike(form):
    """By hand: Student's t of the 40 sequences' sums over 25 rows each; for single rows it is half as wide."""
    generator = torch.Generator().manual_seed(0)
    target = torch.randint(20, (40, 30), generator=generator)
    above = (2 + 1.5 * torch.randn(40, 1, generator=generator)).expand(40, 30)[:, :, None]
    scores = torch.randn(40, 30, 20, generator=generator).scatter_add(2, target[:, :, None], above)
    right = (scores.argmax(dim=2) == target)[:, :25].double().mean(dim=1).numpy()
    target[:, 25:] = -100
    numbers = torch.arange(40)
    clusters_by_form = {
        "sequences": numbers,
        "rows": numbers[:, None].expand(40, 30),
        "list": [f"s{sequence}" for sequence in range(40)],
    }
    options = {"metrics": [tm.AccuracyAtK(k=1), tm.KForRecall(1.0)], "ignore_index": -100}
    if form == "flat":
        clusters, shaped = numbers.repeat_interleave(30), (scores.reshape(-1, 20), target.reshape(-1))
    else:
        clusters, shaped = clusters_by_form[form], (scores, target)
    report = tm.evaluate(*shaped, clusters=clusters, **options)
    interval, half = report.intervals["accuracy@1"], stats.t.ppf(0.975, 39) * right.std(ddof=1) / 40**0.5
    assert (interval.low, interval.high) == pytest.approx((right.mean() - half, right.mean() + half))
    assert (interval.n, interval.clusters) == (1000, 40)
    assert report.intervals["median_k_for_recall@1"].reason == "a median is resampled"
    assert "for 40 independent clusters of rows" in " ".join(in_full(report).split())
    drawn = tm.evaluate(*shaped, clusters=clusters, intervals=200, **options).intervals
    assert [drawn_interval.clusters for drawn_interval in drawn.values()] == [40, 40]
    alone = tm.evaluate(*shaped, **options)
    width = alone.intervals["accuracy@1"].high - alone.intervals["accuracy@1"].low
    assert width < 0.6 * 2 * half
    is_noted = any("of one sequence are taken for independent" in warning for warning in alone.warnings)
    assert is_noted == (form != "flat")
    assert not any("independent: where" in warning for warning in report.warnings)
    compared = compare_runs({"a": shaped[0], "b": -shaped[0]}, shaped[1], clusters=clusters, resamples=200, **options)
    assert compared.comparisons[0].interval.clusters == 40


def test_clusters_of_another_length_are_told_beside_the_sequences():
    """What was passed is named, not what it becomes where each entry is taken for a sequence."""
    scores, target = torch.rand(4, 6, 9), torch.randint(9, (4, 6))
    with pytest.raises(
        ValueError, match=r"clusters is of shape \[20\] for 4 sequences of 6 tokens; .*padding included"
    ):
        tm.evaluate(scores, target, metrics=[tm.AccuracyAtK(k=1)], clusters=range(20))


def test_two_labels_to_ignore_are_refused():
    """The metric's would win in silence, and padding by the other would count."""
    scores, target = torch.rand(4, 6, 9), torch.arange(24).reshape(4, 6) % 9
    for own_index, other in ((-100, 0), (0, -100)):
        with pytest.raises(
            ValueError, match=f"ignore_index={other}, but a metric has ignore_index={own_index}; pass one"
        ):
            tm.evaluate(scores, target, metrics=[tm.AccuracyAtK(k=1, ignore_index=own_index)], ignore_index=other)
    assert tm.evaluate(scores, target, metrics=[tm.AccuracyAtK(k=1, ignore_index=0)], ignore_index=0).rows == 24 - 3


def test_intervals_are_asked_for():
    """Wilson's interval of 30 of 40 rows, as scipy has it; rows of a group have one of their own."""
    from scipy.stats import binomtest

    scores = torch.eye(4)[torch.arange(40) % 4]
    target = torch.where(torch.arange(40) < 30, torch.arange(40) % 4, (torch.arange(40) + 1) % 4)
    groups = ["a" if row < 20 else "b" for row in range(40)]
    report = tm.evaluate(scores, target, metrics=[tm.PrecisionAtK(1)], row_groups=groups, intervals=100)
    interval = report.intervals["precision@1"]
    assert (interval.low, interval.high) == pytest.approx(binomtest(30, 40).proportion_ci(0.95, "wilson"), abs=1e-9)
    assert (report.intervals["precision@1/b"].value, report.intervals["precision@1/b"].n) == (0.5, 20)
    assert "±" in report._repr_html_()


def test_buckets_by_a_text_and_one_name_for_each_row():
    """``buckets="deciles"`` are those of the counts; a list of names has the one relevant label of each row."""
    counts, scores, target = [9, 4, 2, 1], torch.eye(4)[torch.arange(40) % 4], torch.arange(40) % 4
    for text, buckets_of_text in (
        ("deciles", tm.LabelBuckets.deciles(counts)),
        ("thresholds:3", tm.LabelBuckets.thresholds(counts, [3])),
    ):
        report, expected = (
            tm.evaluate(scores, target, buckets=buckets, label_counts=counts) for buckets in (text, buckets_of_text)
        )
        assert report.scalars == pytest.approx(expected.scalars, nan_ok=True)
    with pytest.raises(ValueError, match=r"evaluate: buckets='deciles' has no label counts yet; pass label_counts="):
        tm.evaluate(scores, target, buckets="deciles")
    lists = [["x", "y"], ["y", "z"], ["x", "z"]]
    report = tm.evaluate(lists, ["x", "z", "y"], metrics=[tm.PrecisionAtK(1), tm.RecallAtK(2)])
    assert (
        report.scalars
        == tm.evaluate(lists, [["x"], ["z"], ["y"]], metrics=[tm.PrecisionAtK(1), tm.RecallAtK(2)]).scalars
    )
    assert report.scalars == {"precision@1": pytest.approx(1 / 3), "recall@2": pytest.approx(2 / 3)}


def test_sequences_as_a_model_returns_them():
    """Scores (B, T, L) with targets, masks and groups (B, T) are B x T rows, in `evaluate` and in `compare_runs`."""
    generator = torch.Generator().manual_seed(0)
    scores, target = torch.randn(2, 3, 5, generator=generator), torch.tensor([[0, 4, -1], [2, 2, 1]])
    groups, mask = [["a", "a", "b"], ["b", "b", "a"]], torch.tensor([[True, True, False], [True, True, True]])
    arguments = {"metrics": [tm.PrecisionAtK(1), tm.CrossEntropy()], "label_counts": [5, 4, 3, 2, 1]}
    whole = tm.evaluate(scores, target, row_mask=mask, row_groups=np.array(groups), **arguments)
    by_row = tm.evaluate(
        scores.flatten(0, 1),
        target.flatten(),
        row_mask=mask.flatten(),
        row_groups=[*groups[0], *groups[1]],
        **arguments,
    )
    assert whole.rows == 5
    assert whole.scalars == pytest.approx(by_row.scalars, nan_ok=True)
    compared = compare_runs({"a": scores, "b": -scores}, target, **arguments)
    assert compared.values["precision@1"]["a"] == tm.evaluate(scores, target, **arguments).scalars["precision@1"]


@pytest.mark.parametrize("ignored", [None, -100])
def test_training_tokens_are_counted_one_by_one(ignored):
    """(B, T) tokens where T is L: with scores (B, T, L) beside ids (B, T), or a label that is ignored, they are ids."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(2, 3, 5, generator=generator)
    target, train = torch.tensor([[0, 1, 2], [3, 4, 1]]), torch.tensor([[0, 1, 1, 0, 0], [0, 2, 2, 3, 0]])
    if ignored is not None:
        target[1, 2] = train[1, 4] = ignored
    counts = torch.bincount(train[train >= 0], minlength=5)
    metrics = [tm.AccuracyAtK(k=1, buckets="deciles", scope="global")]
    arguments = {"metrics": metrics, "ignore_index": ignored}
    expected = tm.evaluate(scores, target, label_counts=counts, **arguments)
    assert tm.evaluate(scores, target, train_target=train, **arguments).scalars == pytest.approx(
        expected.scalars, nan_ok=True
    )
    assert tm.evaluate(scores, target, train_target=train.reshape(-1), **arguments).scalars == pytest.approx(
        expected.scalars, nan_ok=True
    )
    assert expected.label_counts.tolist() == counts.tolist()
    assert expected.rows == (6 if ignored is None else 5)
    if ignored is not None:
        ignoring_metrics = [tm.AccuracyAtK(k=1, buckets="deciles", scope="global", ignore_index=ignored)]
        assert tm.evaluate(scores, target, train_target=train, metrics=ignoring_metrics).scalars == pytest.approx(
            expected.scalars, nan_ok=True
        )
        with pytest.raises(ValueError, match="evaluate: train_target: .* -100: these may be label ids or gains"):
            tm.evaluate(scores[0], torch.tensor([0, 1, 2]), train_target=train)


def test_more_labels_than_tables_name_are_refused():
    """Two items are named: a catalogue of three would need the id of the third."""
    preds, target = {"u": {"a": 2.0, "b": 1.0}}, {"u": {"a": 1}}
    with pytest.raises(ValueError, match=r"CatalogCoverageAtK was made for 3 labels, but the data have 2; leave"):
        tm.evaluate(preds, target, metrics=[tm.CatalogCoverageAtK(k=1, num_labels=3)])
    assert tm.evaluate(preds, target, metrics=[tm.CatalogCoverageAtK(k=1, num_labels=2)]).scalars == {
        "catalog_coverage@1": 0.5
    }


def test_a_metric_that_waits_for_counts_names_the_arguments_that_bring_them():
    """Nothing counts labels here: one error of the metric, of what evaluate takes, and none of what makes its interval."""
    for metric, said in (
        (
            tm.CatalogCoverageAtK(k=1),
            "num_labels is not known yet; pass label_names= or train_target=, or pass num_labels=",
        ),
        (
            tm.NoveltyAtK(k=1),
            "num_labels and label_counts and num_train are not known yet; pass train_target=, or pass",
        ),
        (tm.RecallAtK(k=1, buckets="deciles"), "has no label counts yet; pass label_counts= or train_target=, or pass"),
    ):
        with pytest.raises(ValueError, match=f"{type(metric).__name__}: .*{said}"):
            tm.evaluate([[0, 1]], [[1]], metrics=[metric])


def test_errors_of_tables_name_what_can_be_done_to_a_table():
    """evaluate takes no columns=: a hint renames or drops columns, and has no option of the command line."""
    target = pd.DataFrame({"user": [1], "item": [2]})
    lists = pd.DataFrame({"user": [1], "item": [2], "scores": [[0.5, 0.2]]})
    member = pd.DataFrame({"member": [1, 2], "ids": [[2], [3]]})
    for preds, relevant, problem in (
        (lists, target, "no column is the score, rank or distance; its columns are 'user', 'item', 'scores'"),
        (target, target, "its columns are 'user', 'item'; rename a column to 'score', 'rank' or 'distance'"),
        (
            target.assign(itemId=3, item_id=4).drop(columns="item"),
            target,
            "could each be the item, .*drop all but one of 'itemId' and 'item_id'",
        ),
        (target.assign(score=1.0), target.assign(clicked=1), "rename a column to 'gain', or drop what is no gain"),
        (member, pd.DataFrame({"user": [2, 1], "labels": [[3], [2]]}), "give both a column 'query', or neither"),
    ):
        with pytest.raises(ValueError, match=problem) as caught:
            tm.evaluate(preds, relevant, metrics=[tm.RecallAtK(k=1)])
        assert "--" not in str(caught.value)
    assert tm.evaluate(lists.assign(item=[[3, 2]]), target, metrics=[tm.RecallAtK(k=2)]).scalars["recall@2"] == 1


LISTS = pd.DataFrame({"user": [1, 2], "movie_ids": [[7, 9], [8, 3]]})
RELEVANT = pd.DataFrame({"user": [2, 1], "movie_ids": [[8], [9]]})


@pytest.mark.parametrize("make", [lambda table: table, pa.Table.from_pandas])
@pytest.mark.parametrize(
    ("preds", "target", "first"),
    [
        (LISTS, RELEVANT, 0.5),  # joined by user: 8 is the first of user 2, 9 the second of user 1
        (LISTS, RELEVANT[::-1].reset_index(drop=True), 0.5),  # in the same order
        (LISTS[["movie_ids"]], RELEVANT[["movie_ids"]], 0.0),  # row by row
        (LISTS, RELEVANT.explode("movie_ids").rename(columns={"movie_ids": "item"}), 0.5),
        (LISTS.assign(scores=[[0.1, 0.2], [0.4, 0.3]]), RELEVANT, 1.0),
        (
            LISTS.assign(right=[[9], [8]]).rename(columns={"movie_ids": "ids", "right": "labels"}),
            None,
            0.5,
        ),  # one table holds both
    ],
)
def test_tables_of_lists(make, preds, target, first):
    """The list is the order where there is no score; whole numbers are names, as in other tables."""
    preds, relevant = make(preds), make(preds if target is None else target)
    arguments = {"row_mask": {"1": False, "2": True}, "label_counts": {7: 3, 8: 2, 9: 1, 3: 1}}
    report = tm.evaluate(preds, relevant, metrics=[tm.RecallAtK(k=[1, 2])], train_target=relevant)
    assert [report.scalars[f"recall@{k}"] for k in (1, 2)] == [
        first,
        0.0 if target is not None and "user" not in target else 1.0,
    ]
    if target is None or "user" in target:
        assert tm.evaluate(preds, relevant, metrics=[tm.RecallAtK(k=1)], **arguments).scalars["recall@1"] == 1


def test_lists_beside_a_table_of_lists_are_its_rows():
    """Whatever the table says its rows are called; indexes that differ tell another order."""
    metrics = [tm.RecallAtK(k=1)]
    report = tm.evaluate(LISTS, [[7], [8]], metrics=metrics)
    assert report.scalars["recall@1"] == 1
    assert any("names no query, so that row i belongs to row i" in note for note in report.warnings)
    assert tm.evaluate([["7"], ["8"]], LISTS[["movie_ids"]], metrics=metrics).scalars["recall@1"] == 0.5
    with pytest.raises(
        ValueError, match=r"indexes of preds and target differ; pass target.loc\[preds.index\], or both"
    ):
        tm.evaluate(LISTS[["movie_ids"]], LISTS[["movie_ids"]][::-1], metrics=metrics)


def test_lists_of_whole_numbers_of_numpy_are_lists_of_ids():
    """Such as the rows of a column of arrays."""
    preds, target = [[np.int64(1), np.int32(2)], [3]], [[np.int64(2)], [np.uint8(3)]]
    assert tm.evaluate(preds, target, metrics=[tm.RecallAtK(k=1)]).scalars["recall@1"] == 0.5


def test_arrays_that_nobody_may_write_to_are_read_without_a_warning(recwarn):
    """Counts and groups are copied; torch, which warns of them once in a process, is made to warn always."""
    counts, groups = np.array([3, 1]), np.array([0, 1])
    counts.flags.writeable = groups.flags.writeable = False
    torch.set_warn_always(True)
    try:
        report = tm.evaluate(
            np.eye(2),
            np.array([0, 1]),
            label_counts=counts,
            row_groups=groups,
            metrics=[tm.RecallAtK(1, row_groups=["a", "b"])],
        )
    finally:
        torch.set_warn_always(False)
    assert report.scalars["recall@1/b"] == 1
    assert not any("writable" in str(warning.message) for warning in recwarn)


def test_missing_queries_are_left_out_or_count_as_empty_lists():
    """By hand: two queries of three are answered, one of them right; a query without a target is told, too."""
    preds = {"a": {"x": 1.0}, "b": {"x": 1.0}, "d": {"x": 1.0}}
    target = {"a": {"x": 1}, "b": {"y": 1}, "c": {"x": 1}}
    skip, zero = (tm.evaluate(preds, target, metrics=[tm.PrecisionAtK(1)], missing=text) for text in ("skip", "zero"))
    assert (skip.scalars["precision@1"], zero.scalars["precision@1"]) == (1 / 2, 1 / 3)
    assert skip.notes == (
        "1 query of target has no predictions in preds: left out; missing='zero' counts them as empty lists.",
        "1 query of preds has no targets: left out.",
    )
    assert zero.notes[0] == "1 query of target has no predictions in preds: counted as empty lists."
    runs = {"one": preds, "other": {"a": {"y": 1.0}, "c": {"x": 1.0}}}
    with pytest.raises(ValueError, match="other answers other queries than one; .* or missing='zero'"):
        compare_runs(runs, target, metrics=[tm.PrecisionAtK(1)])
    compared = compare_runs(runs, target, metrics=[tm.PrecisionAtK(1)], missing="zero")
    assert compared.values["precision@1"] == {"one": 1 / 3, "other": 1 / 3}


@pytest.mark.parametrize(
    "make", [dict, lambda run: frame(run, "score"), lambda run: frame(run, "score").to_dict("records")]
)
@pytest.mark.parametrize("argument", [{"row_groups": ["A", "B"]}, {"row_mask": [True, False]}, {"clusters": [1, 2]}])
def test_values_in_the_order_of_rows_need_one_order(make, argument):
    """Predictions of b and a beside targets of a and b: a list would be read in the order of one of them."""
    runs, qrels = {"b": {"y": 0.2}, "a": {"x": 0.5, "y": 0.1}}, {"a": {"x": 1}, "b": {"x": 1}}
    turned = dict(reversed(runs.items()))
    assert tm.evaluate(make(turned), make(qrels), metrics=[tm.RecallAtK(1)], **argument).rows
    name = next(iter(argument))
    with pytest.raises(ValueError, match=f"{name} is in the order of the rows, but .* pass a dict by query"):
        tm.evaluate(make(runs), make(qrels), metrics=[tm.RecallAtK(1)], **argument)
    by_query = {name: dict(zip("ab", argument[name], strict=True))}
    whole = tm.evaluate(make(turned), make(qrels), metrics=[tm.RecallAtK(1)], **argument)
    assert tm.evaluate(make(runs), make(qrels), metrics=[tm.RecallAtK(1)], **by_query).scalars == whole.scalars


def test_scores_go_with_names_of_their_columns():
    """Targets and training targets as lists of names, where label_names says which column each is."""
    scores, names = torch.tensor([[0.9, 0.5, 0.1], [0.2, 0.7, 0.6]]), ["A01", "B02", "C03"]
    ids = tm.evaluate(scores, [[0], [2, 1]], train_target=[[0, 1], [0]], label_names=names)
    named = tm.evaluate(scores, [["A01"], ["C03", "B02"]], train_target=[["A01", "B02"], ["A01"]], label_names=names)
    assert repr(named.scalars) == repr(ids.scalars)
    with pytest.raises(ValueError, match=r"'D04', which is none of label_names; .* of the lowest score, -inf, so that"):
        tm.evaluate(scores, [["A01"], ["D04"]], label_names=names)
    for argument in ({"target": [["A01"], ["B02"]]}, {"target": [[0], [2]], "label_counts": {"A01": 3, "B02": 1}}):
        with pytest.raises(ValueError, match="label_names holds 'A01' twice, but names tell labels apart"):
            tm.evaluate(scores, label_names=["A01", "B02", "A01"], **argument)
    with pytest.raises(TypeError, match="columns A01, B02, C03, none of queries; .* table.to_numpy()"):
        tm.evaluate(scores, pd.DataFrame(scores.numpy(), columns=names))
    alone = tm.evaluate(scores, [[0], [2, 1]], metrics=tm.RecallAtK(k=1))  # no list around it
    assert alone.scalars == {"recall@1": (1 + 1 / 2) / 2}


def test_lists_of_arrays_and_arrays_of_names():
    """Rows as a table of Parquet gives them, arrays in a list, of ids or names, are lists of lists; 1 of 2 is right."""
    ids, names = [[1, 2], [3]], [["b", "c"], ["d"]]
    target_ids, target_names = [[1], [2]], [["b"], ["c"]]
    pairs = [([array(row) for row in ids], target_ids) for array in (np.array, torch.tensor)]
    pairs += [(ids, [np.array(row) for row in target_ids]), ([np.array([1, 2]), np.array([])], target_ids)]
    pairs += [([np.array(row) for row in names], target_names), (pd.Series(names), pd.Series(["b", "c"]))]
    pairs += [(pd.Series([np.array(row) for row in names]), target_names), (np.array([["b"], ["d"]]), target_names)]
    for preds, target in pairs:
        assert tm.evaluate(preds, target, metrics=[tm.RecallAtK(k=1)]).scalars["recall@1"] == 0.5
    with pytest.raises(ValueError, match="indexes differ"):
        tm.evaluate(pd.Series(names), pd.Series(["b", "c"], index=[1, 0]), metrics=[tm.RecallAtK(k=1)])


TRAINED = {"query": ["u", "u", "u", "v"], "item": ["a", "b", "a", "b"]}


@pytest.mark.parametrize(
    ("train", "counts"),
    [
        ({"u": ["a", "b", "a"], "v": ["b"]}, [2, 2]),
        ([["a", "b", "a"], ["b"]], [2, 2]),
        (pa.table(TRAINED), [2, 2]),
        (pa.table({**TRAINED, "gain": [1, 2, 0, 3]}), [1, 2]),  # what is not relevant does not count
        (pa.table({**TRAINED, "gain": [1, 2, 5, 3]}), [2, 2]),
        (pa.table({"query": ["u", "v"], "labels": [["a", "b", "a"], ["b"]]}), [2, 2]),
    ],
)
def test_a_label_that_training_repeats_counts_as_often_as_it_stands_there(train, counts):
    """As in tensors and LabelFrequency: dicts, lists, lines and lists in tables."""
    tensor = torch.tensor([[0, 1, 0], [1, -1, -1]])
    ids = tm.evaluate([[0, 1]], [[0]], metrics=tm.RecallAtK(k=1), train_target=tensor).label_counts
    report = tm.evaluate([["a", "b"]], [["a"]], metrics=tm.RecallAtK(k=1), train_target=train)
    assert (report.label_counts.tolist(), ids.tolist()) == (counts, [2, 2])


def test_a_series_beside_a_frame_names_queries_or_rows() -> None:
    """Grouped by query, it has another order than the frame: reset_index() joins them, tolist() takes row i for row i."""
    preds = pd.DataFrame({"qid": ["b", "a"], "items": [["x", "y"], ["z", "w"]]})
    lines = pd.DataFrame({"qid": ["b", "a"], "item": ["x", "z"]})
    grouped, metrics = lines.groupby("qid")["item"].apply(list).rename("labels"), [tm.RecallAtK(k=2)]
    for frame in (preds, preds.set_index("qid")):
        with pytest.raises(
            ValueError, match=r"target is a Series whose index is not that of preds; pass .*reset_index"
        ):
            tm.evaluate(frame, grouped, metrics=metrics)
    assert tm.evaluate(preds, grouped.reset_index(), metrics=metrics).overall == {"recall@2": 1.0}
    assert tm.evaluate(preds, grouped.loc[["b", "a"]].tolist(), metrics=metrics).overall == {"recall@2": 1.0}
    assert tm.evaluate(preds, lines["item"].map(lambda item: [item]), metrics=metrics).overall == {"recall@2": 1.0}


def test_lists_of_names_are_one_for_each_row() -> None:
    """Two lists beside four, and lines of query, item and score that look like lists, are refused."""
    with pytest.raises(
        ValueError, match="preds holds 2 rows and target holds 4 rows; pass a list of names for each row"
    ):
        tm.evaluate([["a"], ["b"]], [["a"], ["b"], ["z"], ["y"]], metrics=[tm.RecallAtK(k=1)])
    with pytest.raises(TypeError, match=r"preds holds \('u1', 'a', 0.5\), numbers beside names.*as a DataFrame"):
        tm.evaluate([("u1", "a", 0.5), ("u2", "c", 0.3)], [("u1", "a"), ("u2", "c")], metrics=[tm.RecallAtK(k=1)])


def test_distances_in_objects_are_least_first() -> None:
    """The name says that the least is the best."""
    distances = [{"a": 0.9, "b": 0.1}, {"a": 0.2, "b": 0.7}]
    target = pd.DataFrame({"qid": ["u1", "u2"], "item_id": ["b", "a"]})
    lists = [[{"id": item, "distance": number} for item, number in row.items()] for row in distances]
    preds = pd.DataFrame({"qid": ["u1", "u2"], "items": lists})
    assert tm.evaluate(preds, target, metrics=[tm.RecallAtK(k=1)]).overall["recall@1"] == 1.0


def test_a_path_is_refused_with_what_reads_files(tmp_path):
    """`evaluate` takes data in memory; the error names the function and the command that read files."""
    path = tmp_path / "run.json"
    path.write_text(json.dumps(RUN))
    dataset = read(path, QRELS)
    for preds, target, argument in ((str(path), QRELS, "preds"), (RUN, path, "target"), (dataset, None, "preds")):
        with pytest.raises(TypeError, match=f"evaluate: {argument} is .* not data in memory; pass json.load.*io.read"):
            tm.evaluate(preds, target)


def test_names_are_not_taken_for_ranks_or_scores():
    """Each list ranks all five names, as ranks of five labels would; of numbers a warning asks, of names none does."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.stack([torch.randperm(5, generator=generator) for _ in range(30)])
    names = [["abcde"[label] for label in row] for row in ids.tolist()]
    target = [[row[2]] for row in names]
    assert not tm.evaluate(names, target, metrics=[tm.MRR()]).warnings
    assert not tm.evaluate(names, target, metrics=[tm.MRR()], label_names=[*"abcde"]).warnings
    (warning,) = tm.evaluate(ids, ids[:, 2], metrics=[tm.MRR()]).warnings
    assert "-preds.float()" in warning

    padded = [[*row, "pad"] for row in target]
    (warning,) = tm.evaluate(names, padded, metrics=[tm.PrecisionAtK(k=1)]).warnings
    assert "take the name of this label out of the lists" in warning


def test_a_weighted_metric_says_how_evaluate_takes_weights():
    """A ranking holds the weights; by hand, the one row found weighs 3 of 4."""
    scores, target = torch.eye(2), torch.tensor([0, 0])
    metrics = [tm.RecallAtK(k=1, weighted=True)]
    with pytest.raises(ValueError, match="evaluate takes rank.preds, target, row_weights=weights. in place of preds"):
        tm.evaluate(scores, target, metrics=metrics)
    ranking = tm.rank(scores, target, row_weights=torch.tensor([3.0, 1.0]))
    assert list(tm.evaluate(ranking, metrics=metrics).scalars.values()) == [0.75]
    with pytest.raises(ValueError, match="no member takes row_weights; pass weighted="):
        tm.evaluate(ranking, metrics=[tm.RecallAtK(k=1)])
