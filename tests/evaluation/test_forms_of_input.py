"""Tables, dicts of runs and lists of lists: `evaluate` gives the numbers of pytrec_eval
and of plain loops.
"""

import json
from pathlib import Path

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
RUN = {
    "q1": {"a": 0.9, "b": 0.5, "c": 0.1},
    "q2": {"b": 0.7, "d": 0.6, "c": 0.2},
    "q3": {"d": 0.8, "a": 0.1},
}
TRAIN = {"t1": {"a": 1, "b": 1}, "t2": {"a": 1}, "t3": {"c": 1, "a": 1}}


def metrics():
    return [
        tm.PrecisionAtK(1, denominator="k"),
        tm.RecallAtK(2),
        tm.NDCGAtK(3),
        tm.MAP(),
        tm.MRR(),
    ]


def expected_values():
    """Return the values of pytrec_eval, averaged over the queries."""
    measures = {"P_1", "recall_2", "ndcg_cut_3", "map", "recip_rank"}
    report = pytrec_eval.RelevanceEvaluator(QRELS, measures).evaluate(RUN)
    keys = ("P_1", "recall_2", "ndcg_cut_3", "map", "recip_rank")
    return [
        sum(values[key] for values in report.values()) / len(report) for key in keys
    ]


def frame(run, value):
    """Return a DataFrame with usual names of columns."""
    rows = [
        (query, item, number)
        for query, items in run.items()
        for item, number in items.items()
    ]
    return pd.DataFrame(rows, columns=["user_id", "item_id", value])


FORMS = {
    "dicts": (RUN, QRELS),
    "frames": (frame(RUN, "score"), frame(QRELS, "rating")),
    "arrow": (
        pa.Table.from_pandas(frame(RUN, "score")),
        pa.Table.from_pandas(frame(QRELS, "rating")),
    ),
    "mixed": (frame(RUN, "score"), QRELS),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("batch_rows", [1, 4096])
def test_tables_and_dicts_give_the_numbers_of_pytrec_eval(form, batch_rows):
    """Dicts, DataFrames and Arrow tables give the numbers of pytrec_eval, in batches of
    any size.

    The readings name a query column that was guessed.
    """
    report = tm.evaluate(*FORMS[form], metrics=metrics(), batch_rows=batch_rows)
    assert list(report.scalars.values()) == pytest.approx(expected_values(), abs=1e-9)
    assert report.rows == 3
    notes = [text for text in report.readings if "'user_id' is the query" in text]
    assert len(notes) == {"dicts": 0, "mixed": 1}.get(form, 2)


@pytest.mark.parametrize("form", FORMS)
def test_evaluate_warns_of_swapped_arguments(form):
    """Judgements in place of predictions bring a warning; predictions first, also with
    whole scores, do not.

    The columns of tables have names: judgements are refused as predictions, because no
    column is the score.
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
    popular = {
        query: {item: 100 * score for item, score in items.items()}
        for query, items in QRELS.items()
    }
    for right in ((run, qrels), (QRELS, QRELS), (popular, RUN)):
        assert not any(
            "swapped" in warning
            for warning in tm.evaluate(*right, metrics=metrics()).warnings
        )


def test_training_targets_define_the_deciles():
    """train_target counts labels by name, and the counts define the deciles: of a, b, c
    and d with 3, 1, 1 and 0 rows, a is in decile_10.
    """
    report = tm.evaluate(
        RUN, QRELS, train_target=TRAIN, metrics=[tm.RecallAtK(2)], labels=True
    )
    by_name = {report.labels.names[label]: label for label in range(4)}
    counts = report.labels.columns["count"].tolist()
    assert {name: counts[label] for name, label in by_name.items()} == {
        "a": 3,
        "b": 1,
        "c": 1,
        "d": 0,
    }
    assert report.by_bucket["global_recall@2"]["decile_10"] == 1.0  # a, in q1
    assert report.scalars["recall@2"] == pytest.approx(expected_values()[1], abs=1e-9)


def test_row_groups_and_clusters_by_query():
    """row_groups may be a dict from query to group; a query that it lacks counts only
    overall, and a note names it.

    clusters that lack a query are refused, because nothing says whether the query is
    independent.
    """
    groups = {"q1": "en", "q2": "de"}
    report = tm.evaluate(RUN, QRELS, metrics=[tm.RecallAtK(2)], row_groups=groups)
    assert (report.scalars["recall@2/en"], report.scalars["recall@2/de"]) == (0.5, 0.0)
    assert (
        "row_groups lacks 1 of 3 queries, such as 'q3': they count only overall."
        in report.notes
    )
    with pytest.raises(
        ValueError, match="clusters has no value for 1 of 3 queries, such as 'q3'"
    ):
        tm.evaluate(RUN, QRELS, metrics=[tm.RecallAtK(2)], clusters=groups)


GROUPS_OF_USERS = {11: "en", 12: "de", 13: None}


@pytest.mark.parametrize(
    "form", ["dict", "series in another order", "series with more users"]
)
def test_row_groups_join_numeric_queries_by_name(form):
    """Row groups are joined to queries that are numbers: from a dict, and from a Series
    by its index, whatever its order.
    """
    users = {"q1": 11, "q2": 12, "q3": 13}
    run, qrels = (
        frame(table, value).replace({"user_id": users})
        for table, value in ((RUN, "score"), (QRELS, "rating"))
    )
    series = pd.Series(
        {
            12: "de",
            13: None,
            11: "en",
            **({99: "fr"} if form.endswith("more users") else {}),
        }
    )
    groups = GROUPS_OF_USERS if form == "dict" else series
    report = tm.evaluate(run, qrels, metrics=[tm.RecallAtK(2)], row_groups=groups)
    assert (report.scalars["recall@2/en"], report.scalars["recall@2/de"]) == (0.5, 0.0)


def test_a_series_beside_arrays_is_in_the_order_of_the_rows():
    """A Series of row groups beside arrays is read in the order of the rows; its index
    is ignored.
    """
    groups = pd.Series(["en", "de"], index=[1, 0])
    report = tm.evaluate(
        torch.eye(2),
        torch.tensor([0, 0]),
        metrics=[tm.PrecisionAtK(1)],
        row_groups=groups,
    )
    assert (report.scalars["precision@1/en"], report.scalars["precision@1/de"]) == (
        1.0,
        0.0,
    )


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (
            pd.Series(["en", "de", "fr"]),
            "row_groups has no value for 3 of 3 queries, such as 'q1'",
        ),
        (
            pd.Series({"q1": "en", "q2": "de"}),
            "row_groups has no value for 1 of 3 queries, such as 'q3'",
        ),
        ({11: "en"}, "row_groups has no value for 3 of 3 queries, such as 'q1'"),
        (
            pd.Series(["en", "de"], index=["q1", "q1"]),
            "row_groups has two values for the query 'q1'",
        ),
        (
            pd.DataFrame({"user": ["q1"], "group": ["en"]}),
            "row_groups is a table; pass one column of it",
        ),
    ],
)
def test_row_groups_that_cannot_be_joined_are_refused(groups, message):
    """Row groups are refused if their index lacks queries, names other users or holds a
    query twice, and if they are a whole table.
    """
    with pytest.raises((ValueError, TypeError), match=f"evaluate: {message}"):
        tm.evaluate(RUN, QRELS, metrics=[tm.RecallAtK(2)], row_groups=groups)


@pytest.mark.parametrize("has_names", [False, True])
def test_lists_of_ranked_labels(has_names):
    """evaluate takes lists of ranked labels of any length, as numbers or names, for
    predictions, targets and training targets.
    """
    preds, target = [[3, 1, 0], [2], [0, 1]], [[1], [0, 2], [3]]
    train = [[0, 1], [0], [2, 3]]
    if has_names:
        preds, target, train = (
            [[f"n{label}" for label in row] for row in rows]
            for rows in (preds, target, train)
        )
    report = tm.evaluate(
        preds, target, train_target=train, metrics=[tm.PrecisionAtK(1), tm.RecallAtK(2)]
    )
    assert report.scalars["precision@1"] == pytest.approx((0 + 1 + 0) / 3)
    assert report.scalars["recall@2"] == pytest.approx((1 + 0.5 + 0) / 3)
    assert report.label_counts.tolist() == [2, 1, 1, 1]


def test_names_on_one_side_alone_are_refused():
    """Names of labels beside ids of labels are refused with an error that says what to
    pass.
    """
    with pytest.raises(
        TypeError,
        match="target is int64 \\[1\\], but other arguments hold names of labels; pass a table",
    ):
        tm.evaluate([["c"]], torch.zeros(1, dtype=torch.int64))


def test_compare_runs_has_the_values_of_evaluate():
    """compare_runs takes a dict of at least two runs by name; each value is that of
    evaluate.

    A name that is no text is refused.
    """
    other = {
        query: dict.fromkeys(items, 0.5) | {"c": 1.0} for query, items in RUN.items()
    }
    compared = compare_runs(
        {"one": RUN, "other": other}, QRELS, metrics=[tm.RecallAtK(2)], resamples=100
    )
    for name, run in (("one", RUN), ("other", other)):
        assert (
            compared.values["recall@2"][name]
            == tm.evaluate(run, QRELS, metrics=[tm.RecallAtK(2)]).scalars["recall@2"]
        )
    with pytest.raises(
        TypeError, match="runs names a run 7; pass a text, such as 'baseline'"
    ):
        compare_runs({"one": RUN, 7: RUN}, QRELS)
    with pytest.raises(ValueError, match="at least two"):
        compare_runs({"one": RUN}, QRELS)


def test_comparison_shows_the_warnings_of_its_runs():
    """A comparison shows a warning of one run under the name of the run, and a warning
    of all runs once, in every output. metrics may be a generator; an unknown argument
    is refused.
    """
    other, short = {"q1": dict.fromkeys("abc", 0.5)}, {"q1": RUN["q1"]}
    arguments = {"metrics": (metric for metric in [tm.RecallAtK(1)]), "resamples": 100}
    compared = compare_runs({"one": short, "other": other}, QRELS, **arguments)
    left_out = f"{len(QRELS) - 1} queries of target have no predictions in preds: left out; missing='zero' counts"
    tie_warning = "other: Rows are cut inside a tie (100.0% at rank 1)"
    assert any(warning.startswith(left_out) for warning in compared.warnings)
    (full_warning,) = (
        warning for warning in compared.warnings if warning.startswith(tie_warning)
    )
    # a comparison shows no other orders
    assert full_warning.endswith("whatever the model.")
    assert tie_warning in str(compared)
    assert tie_warning in compared._repr_html_()
    assert json.loads(json.dumps(compared.as_dict()))["warnings"] == list(
        compared.warnings
    )
    with pytest.raises(
        TypeError,
        match="compare_runs: intervals is not taken; it takes runs, target, metrics",
    ):
        compare_runs({"one": RUN, "other": RUN}, QRELS, intervals=True)


@pytest.mark.parametrize("form", ["list", "dict", "series"])
def test_clusters_of_all_rows_are_one_cluster(form):
    """Rows with the same cluster are one cluster, whether clusters are a list, a dict
    or a Series.
    """
    other = {
        query: dict.fromkeys(items, 0.5) | {"c": 1.0} for query, items in RUN.items()
    }
    users = {
        "list": ["u"] * 3,
        "dict": dict.fromkeys(RUN, "u"),
        "series": pd.Series(dict.fromkeys(RUN, "u")),
    }
    runs, options = (
        {"one": RUN, "other": other},
        {"metrics": [tm.RecallAtK(2)], "resamples": 100},
    )
    compared = compare_runs(runs, QRELS, clusters=users[form], **options)
    assert compared.comparisons[0].interval.clusters == 1


@pytest.mark.parametrize("form", ["sequences", "rows", "list", "flat"])
def test_intervals_by_sequence_use_clusters(form):
    """With sequences as clusters an interval is Student's t of the 40 sums of sequences
    over 25 rows each, by hand.

    Without clusters it is less than 0.6 times as wide, and a warning says that tokens
    are taken as independent. compare_runs counts the same clusters.
    """
    generator = torch.Generator().manual_seed(0)
    target = torch.randint(20, (40, 30), generator=generator)
    above = (2 + 1.5 * torch.randn(40, 1, generator=generator)).expand(40, 30)[
        :, :, None
    ]
    scores = torch.randn(40, 30, 20, generator=generator).scatter_add(
        2, target[:, :, None], above
    )
    right = (scores.argmax(dim=2) == target)[:, :25].double().mean(dim=1).numpy()
    target[:, 25:] = -100
    numbers = torch.arange(40)
    clusters_by_form = {
        "sequences": numbers,
        "rows": numbers[:, None].expand(40, 30),
        "list": [f"s{sequence}" for sequence in range(40)],
    }
    options = {
        "metrics": [tm.AccuracyAtK(k=1), tm.KForRecall(1.0)],
        "ignore_index": -100,
    }
    if form == "flat":
        clusters, batch = (
            numbers.repeat_interleave(30),
            (scores.reshape(-1, 20), target.reshape(-1)),
        )
    else:
        clusters, batch = clusters_by_form[form], (scores, target)
    report = tm.evaluate(*batch, clusters=clusters, **options)
    interval, half = (
        report.intervals["accuracy@1"],
        stats.t.ppf(0.975, 39) * right.std(ddof=1) / 40**0.5,
    )
    assert (interval.low, interval.high) == pytest.approx(
        (right.mean() - half, right.mean() + half)
    )
    assert (interval.n, interval.clusters) == (1000, 40)
    assert report.intervals["median_k_for_recall@1"].reason == "a median is resampled"
    assert "for 40 independent clusters of rows" in " ".join(in_full(report).split())
    resampled = tm.evaluate(
        *batch, clusters=clusters, intervals=200, **options
    ).intervals
    assert [
        resampled_interval.clusters for resampled_interval in resampled.values()
    ] == [40, 40]
    unclustered = tm.evaluate(*batch, **options)
    width = (
        unclustered.intervals["accuracy@1"].high
        - unclustered.intervals["accuracy@1"].low
    )
    assert width < 0.6 * 2 * half
    has_warning = any(
        "of one sequence are taken for independent" in warning
        for warning in unclustered.warnings
    )
    assert has_warning == (form != "flat")
    assert not any("independent: where" in warning for warning in report.warnings)
    compared = compare_runs(
        {"a": batch[0], "b": -batch[0]},
        batch[1],
        clusters=clusters,
        resamples=200,
        **options,
    )
    assert compared.comparisons[0].interval.clusters == 40


def test_clusters_of_another_length_are_refused_beside_the_sequences():
    """Clusters of the wrong length are refused with their shape and the number of
    sequences and tokens.
    """
    scores, target = torch.rand(4, 6, 9), torch.randint(9, (4, 6))
    with pytest.raises(
        ValueError,
        match=r"clusters is of shape \[20\] for 4 sequences of 6 tokens; .*padding included",
    ):
        tm.evaluate(scores, target, metrics=[tm.AccuracyAtK(k=1)], clusters=range(20))


def test_two_ignore_indexes_are_refused():
    """An ignore_index of evaluate that differs from that of a metric is refused,
    because one of them would be ignored in silence. Equal ones leave out 3 of 24 rows.
    """
    scores, target = torch.rand(4, 6, 9), torch.arange(24).reshape(4, 6) % 9
    for own_index, other in ((-100, 0), (0, -100)):
        with pytest.raises(
            ValueError,
            match=f"ignore_index={other}, but a metric has ignore_index={own_index}; pass one",
        ):
            tm.evaluate(
                scores,
                target,
                metrics=[tm.AccuracyAtK(k=1, ignore_index=own_index)],
                ignore_index=other,
            )
    assert (
        tm.evaluate(
            scores,
            target,
            metrics=[tm.AccuracyAtK(k=1, ignore_index=0)],
            ignore_index=0,
        ).rows
        == 24 - 3
    )


def test_intervals_overall_and_by_row_group():
    """An interval of a hit rate is Wilson's as in scipy, here of 30 of 40 rows. Each
    row group has its own interval.
    """
    from scipy.stats import binomtest

    scores = torch.eye(4)[torch.arange(40) % 4]
    target = torch.where(
        torch.arange(40) < 30, torch.arange(40) % 4, (torch.arange(40) + 1) % 4
    )
    groups = ["a" if row < 20 else "b" for row in range(40)]
    report = tm.evaluate(
        scores, target, metrics=[tm.PrecisionAtK(1)], row_groups=groups, intervals=100
    )
    interval = report.intervals["precision@1"]
    assert (interval.low, interval.high) == pytest.approx(
        binomtest(30, 40).proportion_ci(0.95, "wilson"), abs=1e-9
    )
    assert (
        report.intervals["precision@1/b"].value,
        report.intervals["precision@1/b"].n,
    ) == (0.5, 20)
    assert "±" in report._repr_html_()


def test_buckets_as_text_and_targets_as_one_name_per_row():
    """buckets may be a text such as "deciles", which stands for the buckets of the
    label counts and is refused without counts. A target may be a list with the one
    relevant name of each row.
    """
    counts, scores, target = (
        [9, 4, 2, 1],
        torch.eye(4)[torch.arange(40) % 4],
        torch.arange(40) % 4,
    )
    for text, buckets_of_text in (
        ("deciles", tm.LabelBuckets.deciles(counts)),
        ("thresholds:3", tm.LabelBuckets.thresholds(counts, [3])),
    ):
        report, expected = (
            tm.evaluate(scores, target, buckets=buckets, label_counts=counts)
            for buckets in (text, buckets_of_text)
        )
        assert report.scalars == pytest.approx(expected.scalars, nan_ok=True)
    with pytest.raises(
        ValueError,
        match=r"evaluate: buckets='deciles' has no label counts yet; pass label_counts=",
    ):
        tm.evaluate(scores, target, buckets="deciles")
    lists = [["x", "y"], ["y", "z"], ["x", "z"]]
    report = tm.evaluate(
        lists, ["x", "z", "y"], metrics=[tm.PrecisionAtK(1), tm.RecallAtK(2)]
    )
    assert (
        report.scalars
        == tm.evaluate(
            lists, [["x"], ["z"], ["y"]], metrics=[tm.PrecisionAtK(1), tm.RecallAtK(2)]
        ).scalars
    )
    assert report.scalars == {
        "precision@1": pytest.approx(1 / 3),
        "recall@2": pytest.approx(2 / 3),
    }


def test_sequences_are_rows_of_tokens():
    """Scores (B, T, L) with targets, masks and groups (B, T) are B x T rows, in
    `evaluate` and `compare_runs`.
    """
    generator = torch.Generator().manual_seed(0)
    scores, target = (
        torch.randn(2, 3, 5, generator=generator),
        torch.tensor([[0, 4, -1], [2, 2, 1]]),
    )
    groups, mask = (
        [["a", "a", "b"], ["b", "b", "a"]],
        torch.tensor([[True, True, False], [True, True, True]]),
    )
    arguments = {
        "metrics": [tm.PrecisionAtK(1), tm.CrossEntropy()],
        "label_counts": [5, 4, 3, 2, 1],
    }
    whole = tm.evaluate(
        scores, target, row_mask=mask, row_groups=np.array(groups), **arguments
    )
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
    assert (
        compared.values["precision@1"]["a"]
        == tm.evaluate(scores, target, **arguments).scalars["precision@1"]
    )


@pytest.mark.parametrize("ignored", [None, -100])
def test_training_tokens_are_counted_one_by_one(ignored):
    """Training targets (B, T) with T = L are counted as ids, token by token, beside
    scores (B, T, L) or with an ignore_index. Without a sequence axis they are refused,
    because they may be ids or gains.
    """
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(2, 3, 5, generator=generator)
    target, train = (
        torch.tensor([[0, 1, 2], [3, 4, 1]]),
        torch.tensor([[0, 1, 1, 0, 0], [0, 2, 2, 3, 0]]),
    )
    if ignored is not None:
        target[1, 2] = train[1, 4] = ignored
    counts = torch.bincount(train[train >= 0], minlength=5)
    metrics = [tm.AccuracyAtK(k=1, buckets="deciles", scope="global")]
    arguments = {"metrics": metrics, "ignore_index": ignored}
    expected = tm.evaluate(scores, target, label_counts=counts, **arguments)
    assert tm.evaluate(
        scores, target, train_target=train, **arguments
    ).scalars == pytest.approx(expected.scalars, nan_ok=True)
    assert tm.evaluate(
        scores, target, train_target=train.reshape(-1), **arguments
    ).scalars == pytest.approx(expected.scalars, nan_ok=True)
    assert expected.label_counts.tolist() == counts.tolist()
    assert expected.rows == (6 if ignored is None else 5)
    if ignored is not None:
        ignoring_metrics = [
            tm.AccuracyAtK(k=1, buckets="deciles", scope="global", ignore_index=ignored)
        ]
        assert tm.evaluate(
            scores, target, train_target=train, metrics=ignoring_metrics
        ).scalars == pytest.approx(expected.scalars, nan_ok=True)
        with pytest.raises(
            ValueError,
            match="evaluate: train_target: .* -100: these may be label ids or gains",
        ):
            tm.evaluate(scores[0], torch.tensor([0, 1, 2]), train_target=train)


def test_more_labels_than_tables_name_are_refused():
    """A metric made for more labels than tables or dicts name is refused: a catalogue
    of three would need the name of the third label.
    """
    preds, target = {"u": {"a": 2.0, "b": 1.0}}, {"u": {"a": 1}}
    with pytest.raises(
        ValueError,
        match=r"CatalogCoverageAtK was made for 3 labels, but the data have 2; leave",
    ):
        tm.evaluate(preds, target, metrics=[tm.CatalogCoverageAtK(k=1, num_labels=3)])
    assert tm.evaluate(
        preds, target, metrics=[tm.CatalogCoverageAtK(k=1, num_labels=2)]
    ).scalars == {"catalog_coverage@1": 0.5}


def test_metric_without_counts_names_the_missing_arguments():
    """A metric that needs training counts or the number of labels raises one error,
    which names the arguments of evaluate that bring them.
    """
    for metric, problem in (
        (
            tm.CatalogCoverageAtK(k=1),
            "num_labels is not known yet; pass label_names= or train_target=, or pass num_labels=",
        ),
        (
            tm.NoveltyAtK(k=1),
            "num_labels and label_counts and num_train are not known yet; pass train_target=, or pass",
        ),
        (
            tm.RecallAtK(k=1, buckets="deciles"),
            "has no label counts yet; pass label_counts= or train_target=, or pass",
        ),
    ):
        with pytest.raises(ValueError, match=f"{type(metric).__name__}: .*{problem}"):
            tm.evaluate([[0, 1]], [[1]], metrics=[metric])


def test_table_errors_offer_changes_to_the_table():
    """Errors about the columns of a table say which column to rename or drop, and never
    name an option of the command line.
    """
    target = pd.DataFrame({"user": [1], "item": [2]})
    lists = pd.DataFrame({"user": [1], "item": [2], "scores": [[0.5, 0.2]]})
    member = pd.DataFrame({"member": [1, 2], "ids": [[2], [3]]})
    for preds, relevant, problem in (
        (
            lists,
            target,
            "no column is the score, rank or distance; its columns are 'user', 'item', 'scores'",
        ),
        (
            target,
            target,
            "its columns are 'user', 'item'; name one column score, rank or distance",
        ),
        (
            target.assign(itemId=3, item_id=4).drop(columns="item"),
            target,
            "could each be the item, .*one column item, one score, rank or distance, and drop",
        ),
        (
            target.assign(score=1.0),
            target.assign(clicked=1),
            "name one column gain, and drop the other columns that may be it",
        ),
        (
            member,
            pd.DataFrame({"user": [2, 1], "labels": [[3], [2]]}),
            "give both a column 'query', or neither",
        ),
    ):
        with pytest.raises(ValueError, match=problem) as caught:
            tm.evaluate(preds, relevant, metrics=[tm.RecallAtK(k=1)])
        assert "--" not in str(caught.value)
    assert (
        tm.evaluate(
            lists.assign(item=[[3, 2]]), target, metrics=[tm.RecallAtK(k=2)]
        ).scalars["recall@2"]
        == 1
    )


LISTS = pd.DataFrame({"user": [1, 2], "movie_ids": [[7, 9], [8, 3]]})
RELEVANT = pd.DataFrame({"user": [2, 1], "movie_ids": [[8], [9]]})


@pytest.mark.parametrize("factory", [lambda table: table, pa.Table.from_pandas])
@pytest.mark.parametrize(
    ("preds", "target", "first"),
    [
        # joined by user: 8 is the first of user 2, 9 the second of user 1
        (LISTS, RELEVANT, 0.5),
        (LISTS, RELEVANT[::-1].reset_index(drop=True), 0.5),  # in the same order
        (LISTS[["movie_ids"]], RELEVANT[["movie_ids"]], 0.0),  # row by row
        (
            LISTS,
            RELEVANT.explode("movie_ids").rename(columns={"movie_ids": "item"}),
            0.5,
        ),
        (LISTS.assign(scores=[[0.1, 0.2], [0.4, 0.3]]), RELEVANT, 1.0),
        (
            LISTS.assign(right=[[9], [8]]).rename(
                columns={"movie_ids": "ids", "right": "labels"}
            ),
            None,
            0.5,
        ),  # one table holds both
    ],
)
def test_tables_with_lists_of_labels(factory, preds, target, first):
    """A table may hold a list of labels per row.

    Lists are joined by user, or row by row without one; without scores the list is the
    order, and whole numbers are names as in other tables.
    """
    preds, relevant = factory(preds), factory(preds if target is None else target)
    arguments = {
        "row_mask": {"1": False, "2": True},
        "label_counts": {7: 3, 8: 2, 9: 1, 3: 1},
    }
    report = tm.evaluate(
        preds, relevant, metrics=[tm.RecallAtK(k=[1, 2])], train_target=relevant
    )
    assert [report.scalars[f"recall@{k}"] for k in (1, 2)] == [
        first,
        0.0 if target is not None and "user" not in target else 1.0,
    ]
    if target is None or "user" in target:
        assert (
            tm.evaluate(
                preds, relevant, metrics=[tm.RecallAtK(k=1)], **arguments
            ).scalars["recall@1"]
            == 1
        )


def test_lists_beside_a_table_of_lists_are_its_rows():
    """Lists beside a table of lists are its rows, in order, which a warning says.

    Tables without a query whose indexes differ are refused.
    """
    metrics = [tm.RecallAtK(k=1)]
    report = tm.evaluate(LISTS, [[7], [8]], metrics=metrics)
    assert report.scalars["recall@1"] == 1
    assert any(
        "names no query, so that row i belongs to row i" in note
        for note in report.warnings
    )
    assert (
        tm.evaluate([["7"], ["8"]], LISTS[["movie_ids"]], metrics=metrics).scalars[
            "recall@1"
        ]
        == 0.5
    )
    with pytest.raises(
        ValueError,
        match=r"indexes of preds and target differ; pass target.loc\[preds.index\], or both",
    ):
        tm.evaluate(LISTS[["movie_ids"]], LISTS[["movie_ids"]][::-1], metrics=metrics)


def test_lists_of_numpy_integers_are_lists_of_ids():
    """Lists of NumPy integers, such as the rows of a column of arrays, are lists of
    ids.
    """
    preds, target = [[np.int64(1), np.int32(2)], [3]], [[np.int64(2)], [np.uint8(3)]]
    assert (
        tm.evaluate(preds, target, metrics=[tm.RecallAtK(k=1)]).scalars["recall@1"]
        == 0.5
    )


def test_read_only_arrays_bring_no_warning(recwarn):
    """Read-only arrays of counts and groups bring no warning about writing. torch,
    which warns once in a process, is made to warn always.
    """
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
    """With missing='skip' a query without predictions is left out, and with
    missing='zero' it counts as an empty list; notes count these queries and those
    without a target. Two queries of three are answered, one of them right: 1/2 and 1/3.
    Runs that answer different queries are refused without missing='zero'.
    """
    preds = {"a": {"x": 1.0}, "b": {"x": 1.0}, "d": {"x": 1.0}}
    target = {"a": {"x": 1}, "b": {"y": 1}, "c": {"x": 1}}
    skip, zero = (
        tm.evaluate(preds, target, metrics=[tm.PrecisionAtK(1)], missing=option)
        for option in ("skip", "zero")
    )
    assert (skip.scalars["precision@1"], zero.scalars["precision@1"]) == (1 / 2, 1 / 3)
    assert skip.notes == (
        "1 query of target has no predictions in preds: left out; missing='zero' counts them as empty lists.",
        "1 query of preds has no targets: left out.",
    )
    assert (
        zero.notes[0]
        == "1 query of target has no predictions in preds: counted as empty lists."
    )
    runs = {"one": preds, "other": {"a": {"y": 1.0}, "c": {"x": 1.0}}}
    with pytest.raises(
        ValueError, match="other answers other queries than one; .* or missing='zero'"
    ):
        compare_runs(runs, target, metrics=[tm.PrecisionAtK(1)])
    compared = compare_runs(runs, target, metrics=[tm.PrecisionAtK(1)], missing="zero")
    assert compared.values["precision@1"] == {"one": 1 / 3, "other": 1 / 3}


@pytest.mark.parametrize(
    "factory",
    [
        dict,
        lambda run: frame(run, "score"),
        lambda run: frame(run, "score").to_dict("records"),
    ],
)
@pytest.mark.parametrize(
    "argument",
    [{"row_groups": ["A", "B"]}, {"row_mask": [True, False]}, {"clusters": [1, 2]}],
)
def test_arguments_by_row_are_refused_if_orders_differ(factory, argument):
    """A list of row groups, masks or clusters is refused if preds and target name the
    queries in different orders; a dict by query is taken.
    """
    runs, qrels = (
        {"b": {"y": 0.2}, "a": {"x": 0.5, "y": 0.1}},
        {"a": {"x": 1}, "b": {"x": 1}},
    )
    reordered = dict(reversed(runs.items()))
    assert tm.evaluate(
        factory(reordered), factory(qrels), metrics=[tm.RecallAtK(1)], **argument
    ).rows
    name = next(iter(argument))
    with pytest.raises(
        ValueError,
        match=f"{name} is in the order of the rows, but .* pass a dict by query",
    ):
        tm.evaluate(
            factory(runs), factory(qrels), metrics=[tm.RecallAtK(1)], **argument
        )
    by_query = {name: dict(zip("ab", argument[name], strict=True))}
    whole = tm.evaluate(
        factory(reordered), factory(qrels), metrics=[tm.RecallAtK(1)], **argument
    )
    assert (
        tm.evaluate(
            factory(runs), factory(qrels), metrics=[tm.RecallAtK(1)], **by_query
        ).scalars
        == whole.scalars
    )


def test_label_names_name_the_columns_of_scores():
    """Beside scores, targets and training targets may be lists of names, where
    label_names names the columns.

    Names beyond label_names and names that label_names holds twice are refused. metrics
    may be a single metric.
    """
    scores, names = (
        torch.tensor([[0.9, 0.5, 0.1], [0.2, 0.7, 0.6]]),
        ["A01", "B02", "C03"],
    )
    by_id = tm.evaluate(
        scores, [[0], [2, 1]], train_target=[[0, 1], [0]], label_names=names
    )
    by_name = tm.evaluate(
        scores,
        [["A01"], ["C03", "B02"]],
        train_target=[["A01", "B02"], ["A01"]],
        label_names=names,
    )
    assert repr(by_name.scalars) == repr(by_id.scalars)
    with pytest.raises(
        ValueError,
        match=r"'D04', which is none of label_names; .* of the lowest score, -inf, so that",
    ):
        tm.evaluate(scores, [["A01"], ["D04"]], label_names=names)
    for argument in (
        {"target": [["A01"], ["B02"]]},
        {"target": [[0], [2]], "label_counts": {"A01": 3, "B02": 1}},
    ):
        with pytest.raises(
            ValueError,
            match="label_names holds 'A01' twice, but names tell labels apart",
        ):
            tm.evaluate(scores, label_names=["A01", "B02", "A01"], **argument)
    with pytest.raises(
        TypeError, match="columns A01, B02, C03, none of queries; .* table.to_numpy()"
    ):
        tm.evaluate(scores, pd.DataFrame(scores.numpy(), columns=names))
    # no list around it
    single = tm.evaluate(scores, [[0], [2, 1]], metrics=tm.RecallAtK(k=1))
    assert single.scalars == {"recall@1": (1 + 1 / 2) / 2}


def test_lists_of_arrays_and_arrays_of_names():
    """Lists of arrays, as Parquet gives them, Series of arrays and arrays of names are
    lists of lists; 1 of 2 rows is right. Series with different indexes are refused.
    """
    ids, names = [[1, 2], [3]], [["b", "c"], ["d"]]
    target_ids, target_names = [[1], [2]], [["b"], ["c"]]
    pairs = [
        ([array(row) for row in ids], target_ids) for array in (np.array, torch.tensor)
    ]
    pairs += [
        (ids, [np.array(row) for row in target_ids]),
        ([np.array([1, 2]), np.array([])], target_ids),
    ]
    pairs += [
        ([np.array(row) for row in names], target_names),
        (pd.Series(names), pd.Series(["b", "c"])),
    ]
    pairs += [
        (pd.Series([np.array(row) for row in names]), target_names),
        (np.array([["b"], ["d"]]), target_names),
    ]
    for preds, target in pairs:
        assert (
            tm.evaluate(preds, target, metrics=[tm.RecallAtK(k=1)]).scalars["recall@1"]
            == 0.5
        )
    with pytest.raises(ValueError, match="indexes differ"):
        tm.evaluate(
            pd.Series(names),
            pd.Series(["b", "c"], index=[1, 0]),
            metrics=[tm.RecallAtK(k=1)],
        )


TRAINING_LINES = {"query": ["u", "u", "u", "v"], "item": ["a", "b", "a", "b"]}


@pytest.mark.parametrize(
    ("train", "counts"),
    [
        ({"u": ["a", "b", "a"], "v": ["b"]}, [2, 2]),
        ([["a", "b", "a"], ["b"]], [2, 2]),
        (pa.table(TRAINING_LINES), [2, 2]),
        # what is not relevant does not count
        (pa.table({**TRAINING_LINES, "gain": [1, 2, 0, 3]}), [1, 2]),
        (pa.table({**TRAINING_LINES, "gain": [1, 2, 5, 3]}), [2, 2]),
        (pa.table({"query": ["u", "v"], "labels": [["a", "b", "a"], ["b"]]}), [2, 2]),
    ],
)
def test_repeated_training_labels_count_each_time(train, counts):
    """A label that a training row repeats counts each time, in dicts, lists, lines and
    tables of lists as in tensors.

    A label of gain 0 does not count.
    """
    tensor = torch.tensor([[0, 1, 0], [1, -1, -1]])
    ids = tm.evaluate(
        [[0, 1]], [[0]], metrics=tm.RecallAtK(k=1), train_target=tensor
    ).label_counts
    report = tm.evaluate(
        [["a", "b"]], [["a"]], metrics=tm.RecallAtK(k=1), train_target=train
    )
    assert (report.label_counts.tolist(), ids.tolist()) == (counts, [2, 2])


def test_series_beside_a_frame_needs_its_index() -> None:
    """A Series target beside a DataFrame is refused if its index is not that of preds.
    reset_index() joins it by query, and tolist() takes it row by row; a Series with the
    index of preds is read directly.
    """
    preds = pd.DataFrame({"qid": ["b", "a"], "items": [["x", "y"], ["z", "w"]]})
    lines = pd.DataFrame({"qid": ["b", "a"], "item": ["x", "z"]})
    grouped, metrics = (
        lines.groupby("qid")["item"].apply(list).rename("labels"),
        [tm.RecallAtK(k=2)],
    )
    for frame in (preds, preds.set_index("qid")):
        with pytest.raises(
            ValueError,
            match=r"target is a Series whose index is not that of preds; pass .*reset_index",
        ):
            tm.evaluate(frame, grouped, metrics=metrics)
    assert tm.evaluate(preds, grouped.reset_index(), metrics=metrics).overall == {
        "recall@2": 1.0
    }
    assert tm.evaluate(
        preds, grouped.loc[["b", "a"]].tolist(), metrics=metrics
    ).overall == {"recall@2": 1.0}
    assert tm.evaluate(
        preds, lines["item"].map(lambda item: [item]), metrics=metrics
    ).overall == {"recall@2": 1.0}


def test_lists_of_names_are_one_for_each_row() -> None:
    """Lists of names must have one list per row: two lists beside four are refused, and
    so are lines of query, item and score.
    """
    with pytest.raises(
        ValueError,
        match="preds holds 2 rows and target holds 4 rows; pass a list of names for each row",
    ):
        tm.evaluate(
            [["a"], ["b"]], [["a"], ["b"], ["z"], ["y"]], metrics=[tm.RecallAtK(k=1)]
        )
    with pytest.raises(
        TypeError,
        match=r"preds holds \('u1', 'a', 0.5\), numbers beside names.*as a DataFrame",
    ):
        tm.evaluate(
            [("u1", "a", 0.5), ("u2", "c", 0.3)],
            [("u1", "a"), ("u2", "c")],
            metrics=[tm.RecallAtK(k=1)],
        )


def test_distances_in_objects_rank_the_least_first() -> None:
    """Objects with a field "distance" rank the least distance first."""
    distances = [{"a": 0.9, "b": 0.1}, {"a": 0.2, "b": 0.7}]
    target = pd.DataFrame({"qid": ["u1", "u2"], "item_id": ["b", "a"]})
    lists = [
        [{"id": item, "distance": number} for item, number in row.items()]
        for row in distances
    ]
    preds = pd.DataFrame({"qid": ["u1", "u2"], "items": lists})
    assert (
        tm.evaluate(preds, target, metrics=[tm.RecallAtK(k=1)]).overall["recall@1"]
        == 1.0
    )


def test_evaluate_refuses_paths(tmp_path):
    """evaluate takes data in memory: a path, or the data set of a file, raises an error
    that names the function and the command that read files.
    """
    path = tmp_path / "run.json"
    path.write_text(json.dumps(RUN))
    dataset = read(path, QRELS)
    for preds, target, argument in (
        (str(path), QRELS, "preds"),
        (RUN, path, "target"),
        (dataset, None, "preds"),
    ):
        with pytest.raises(
            TypeError,
            match=f"evaluate: {argument} is .* not data in memory; pass json.load.*io.read",
        ):
            tm.evaluate(preds, target)


def test_names_are_not_taken_for_ranks_or_scores():
    """Lists of ids that rank all labels bring a warning that they may be ranks; lists
    of names do not.

    A name that is in every target and no list brings a warning about padding.
    """
    generator = torch.Generator().manual_seed(0)
    ids = torch.stack([torch.randperm(5, generator=generator) for _ in range(30)])
    names = [["abcde"[label] for label in row] for row in ids.tolist()]
    target = [[row[2]] for row in names]
    assert not tm.evaluate(names, target, metrics=[tm.MRR()]).warnings
    assert not tm.evaluate(
        names, target, metrics=[tm.MRR()], label_names=[*"abcde"]
    ).warnings
    (warning,) = tm.evaluate(ids, ids[:, 2], metrics=[tm.MRR()]).warnings
    assert "-preds.float()" in warning

    padded = [[*row, "pad"] for row in target]
    warnings = tm.evaluate(names, padded, metrics=[tm.PrecisionAtK(k=1)]).warnings
    assert any(
        "take the name of this label out of the lists" in warning
        for warning in warnings
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ignore_index": "pad"}, "ignore_index='pad' is not a whole number"),
        (
            {"label_names": iter("ab")},
            "label_names is a .*iterator; pass the name of each label, as a list",
        ),
        (
            {"label_counts": Path("counts.npy")},
            "label_counts is a .*Path; pass the counts as a list or a dict by name",
        ),
    ],
)
def test_arguments_of_another_type_are_refused_by_name(arguments, message):
    """An argument of another type is refused under its name, beside labels with names,
    too.
    """
    with pytest.raises(TypeError, match=f"^evaluate: {message}"):
        tm.evaluate([["a"]], [["b"]], metrics=[tm.MRR()], **arguments)


def test_weighted_metrics_need_a_ranking_with_weights():
    """A weighted metric is refused without weights, and the error says to pass a
    ranking that holds them.

    Weights without a weighted metric are refused. By hand: the row that is found weighs
    3 of 4.
    """
    scores, target = torch.eye(2), torch.tensor([0, 0])
    metrics = [tm.RecallAtK(k=1, weighted=True)]
    with pytest.raises(
        ValueError,
        match="evaluate takes rank.preds, target, row_weights=weights. in place of preds",
    ):
        tm.evaluate(scores, target, metrics=metrics)
    ranking = tm.rank(scores, target, row_weights=torch.tensor([3.0, 1.0]))
    assert list(tm.evaluate(ranking, metrics=metrics).scalars.values()) == [0.75]
    with pytest.raises(ValueError, match="no member takes row_weights; pass weighted="):
        tm.evaluate(ranking, metrics=[tm.RecallAtK(k=1)])


def test_what_can_be_read_only_once_is_refused():
    """A generator and a reader of Arrow are refused, and the hint makes a list or a
    table of them.
    """
    rows = [{"query": "u", "item": "a", "score": 1.0}]
    target = {"u": {"a": 1}}
    with pytest.raises(
        TypeError,
        match=r"preds is generator, which can be read only once; pass list\(preds\)",
    ):
        tm.evaluate((row for row in rows), target)
    reader = pa.Table.from_pylist(rows).to_reader()
    with pytest.raises(TypeError, match=r"preds\.read_all\(\) of a reader of Arrow"):
        tm.evaluate(reader, target)
    assert tm.evaluate(
        reader.read_all(), target, metrics=[tm.PrecisionAtK(k=1)]
    ).scalars == {"precision@1": 1.0}


@pytest.mark.parametrize(
    "text_type", [pa.string(), pa.large_string(), pa.string_view()]
)
def test_arrow_columns_of_names_are_lists_of_names(text_type):
    """A column of lists of names, and a column of one name per row, are read as lists
    of Python are.
    """
    preds = pa.chunked_array([[["a", "b"]], [["b"]]], pa.list_(text_type))
    for target in (
        pa.array([["b"], ["b"]], pa.large_list(text_type)),
        pa.array(["b", "b"], text_type),
    ):
        report = tm.evaluate(preds, target, metrics=[tm.PrecisionAtK(k=1)])
        assert report.scalars == {"precision@1": 0.5}
