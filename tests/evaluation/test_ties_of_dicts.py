"""Dicts of dicts, the form of pytrec_eval, give its numbers for tied scores, and take
label counts by name.
"""

import json
import math
import random

import pandas as pd
import pytest
import pytrec_eval

from tailmetrics import (
    MAP,
    MRR,
    LabelBuckets,
    LabelFrequency,
    NDCGAtK,
    RecallAtK,
    evaluate,
)
from tailmetrics.cli import main
from tailmetrics.io import DataFileError
from written import values_of

DOCS = [*(f"d{number}" for number in range(60)), "é", "Z9", "9", "10"]


@pytest.fixture
def data():
    """Return runs whose scores are almost all tied, some of them only in single
    precision.
    """
    source = random.Random(1)
    qrels = {
        f"q{row}": {doc: source.choice([0, 1, 2]) for doc in source.sample(DOCS, 12)}
        for row in range(50)
    }
    scores = [0.1, 0.2, 0.3, 0.3 + 1e-9]
    return {
        query: {doc: source.choice(scores) for doc in source.sample(DOCS, 30)}
        for query in qrels
    }, qrels


@pytest.mark.filterwarnings("ignore:.*most lists end before that")
@pytest.mark.parametrize(
    "grades", [[0, 1, 2], [-2, -1, 0, 1, 2]], ids=["grades", "negative grades"]
)
@pytest.mark.parametrize("form", ["dict", "json"])
def test_dicts_give_the_numbers_of_pytrec_eval(tmp_path, data, form, grades):
    """NDCG, MRR and MAP of dicts and JSON files equal those of pytrec_eval to 1e-12,
    with tied scores and negative grades.
    """
    run, qrels = data
    source = random.Random(2)
    qrels = {
        query: {doc: source.choice(grades) for doc in docs}
        for query, docs in qrels.items()
    }
    measures = pytrec_eval.RelevanceEvaluator(
        qrels, {"ndcg_cut.10", "recip_rank", "map"}
    ).evaluate(run)
    names = {"ndcg@10": "ndcg_cut_10", "mrr": "recip_rank", "map": "map"}
    expected = {
        key: sum(query[name] for query in measures.values()) / len(measures)
        for key, name in names.items()
    }
    if form == "dict":
        report = evaluate(run, qrels, metrics=[NDCGAtK(k=10), MRR(), MAP()])
        values, tie_winner = report.overall, report.tie_winner
        assert tie_winner == "the label that comes last by name"
    else:
        for name, content in (("run", run), ("qrels", qrels)):
            (tmp_path / f"{name}.json").write_text(json.dumps(content))
        words = [
            "--preds",
            tmp_path / "run.json",
            "--target",
            tmp_path / "qrels.json",
            "--out",
            tmp_path / "out",
        ]
        words += [
            "--metrics+=NDCGAtK",
            "--metrics.k=10",
            "--metrics+=MRR",
            "--metrics+=MAP",
            "--quiet",
        ]
        assert main(["evaluate", *map(str, words)]) == 0
        values = values_of(json.loads((tmp_path / "out" / "report.json").read_text()))
    assert {key: values[key] for key in expected} == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("gain", [-0.5, -math.inf])
def test_negative_gains_that_are_no_grades_are_refused(data, gain):
    """Negative gains that are no whole numbers are refused, because they are scores in
    place of targets.
    """
    run, qrels = data
    with pytest.raises(ValueError, match=f"gain {gain}"):
        evaluate(run, {**qrels, "q0": {"d1": 1, "d2": gain}}, metrics=[MRR()])


def test_label_counts_by_name_give_the_same_deciles(data):
    """A dict, a Series, a LabelFrequency, training targets and counts by ascending name
    give the same deciles, with labels that no row has. A note names the order of counts
    without names.
    """
    run, qrels = data
    counts = {doc: place for place, doc in enumerate(DOCS[1:], 1)}
    ascending = [counts.get(doc, 0) for doc in sorted(DOCS)]
    metrics = [RecallAtK(k=10, buckets="deciles", scope="global")]
    expected = evaluate(run, qrels, metrics=metrics, label_counts=counts)
    train = {
        f"t{row}": {doc: 1 for doc, count in counts.items() if row < count}
        for row in range(len(DOCS))
    }
    assert (
        evaluate(run, qrels, metrics=metrics, train_target=train).scalars
        == expected.scalars
    )
    for label_counts in (
        pd.Series(counts),
        ascending,
        LabelFrequency.from_counts(ascending, 64),
    ):
        assert (
            evaluate(run, qrels, metrics=metrics, label_counts=label_counts).scalars
            == expected.scalars
        )
    assert any(
        "the first is of '10'" in note
        for note in evaluate(run, qrels, label_counts=ascending).notes
    )
    report = evaluate(
        run, qrels, metrics=metrics, label_counts={**counts, "never shown": 10**6}
    )
    assert next(row.labels for row in report.buckets if row.name == "decile_10") == 1


def test_buckets_by_label_id_need_label_names():
    """Buckets by label id are refused for labels with names, unless label_names orders
    them.

    Names that are the whole numbers from 0 on are not refused. Label 0 is in the head,
    1 and 2 are in the tail; the first row finds its label, and the second does not.
    """
    buckets = LabelBuckets.from_assignment([0, 1, 1], ["head", "tail"])
    metrics = [RecallAtK(k=1)]

    def values_of_names(first, second, third, **arguments):
        run = {"u": {first: 0.9, second: 0.1}, "v": {first: 0.8, third: 0.2}}
        report = evaluate(
            run,
            {"u": {first: 1}, "v": {third: 1}},
            metrics=metrics,
            buckets=buckets,
            **arguments,
        )
        return report.by_bucket["global_recall@1"]

    expected = {"head": 1.0, "tail": 0.0}
    assert (
        values_of_names("zebra", "ant", "bee", label_names=["zebra", "ant", "bee"])
        == expected
    )
    assert values_of_names("0", "1", "2") == expected
    with pytest.raises(
        ValueError,
        match="buckets= is by label id, but the labels of these data have names",
    ):
        values_of_names("zebra", "ant", "bee")


def test_label_counts_of_other_names_are_refused(data):
    """Label counts that have no name in common with the data are refused, because every
    label would be unseen; so are counts that name a label twice.
    """
    with pytest.raises(
        DataFileError, match="label_counts: has no label in common with"
    ):
        evaluate(*data, label_counts={"x": 1, "y": 2})
    with pytest.raises(ValueError, match="label_counts names a label twice"):
        evaluate(*data, label_counts={7: 1, "7": 2})
