"""A join of predictions and targets: items without a judgement, forgotten filters, and
names that differ.
"""

import pytest

from tailmetrics import MRR
from tailmetrics.io import DataFileError, read

RUN = "q1 Q0 a 1 4 me\nq1 Q0 b 2 3 me\nq1 Q0 c 3 2 me\nq2 Q0 x 1 2 me\nq2 Q0 y 2 1 me\n"
QRELS = "q1 0 a -1\nq1 0 b 0\nq1 0 c 1\nq2 0 z 1\n"


def mrr(*files, **options):
    metric = MRR()
    for batch in read(*files, **options):
        metric.update(batch.preds, batch.target)
    return float(metric.compute())


def test_judged_only_removes_items_without_a_judgement(write):
    """With judged_only, items without a judgement are removed from the predictions, as
    by trec_eval -J; a negative grade is no judgement, and a query without a judged item
    keeps its row. The relevant item c is then second: (1/2 + 0) / 2.
    """
    pytrec_eval = pytest.importorskip("pytrec_eval")
    files = write("a.run", RUN), write("a.qrels", QRELS)
    qrels, run = (
        {"q1": {"b": 0, "c": 1}, "q2": {"z": 1}},
        {"q1": {"a": 4.0, "b": 3.0, "c": 2.0}, "q2": {"x": 2.0, "y": 1.0}},
    )
    judge = pytrec_eval.RelevanceEvaluator(
        qrels, {"recip_rank"}, judged_docs_only_flag=True
    )
    expected = sum(values["recip_rank"] for values in judge.evaluate(run).values()) / 2
    assert expected == 1 / 4
    assert mrr(*files, judged_only=True) == expected
    assert mrr(*files) == (1 / 3) / 2


def test_judged_only_is_refused_where_files_name_no_query(write):
    """judged_only is refused for files that name no query, because they do not tell
    which items of a row are judged.
    """
    files = write("p.xmc", "1 3\n0:1 1:2\n"), write("y.xmc", "1 3\n1:1\n")
    with pytest.raises(
        DataFileError,
        match="names no query, so that no item is judged; leave --judged-only out",
    ):
        read(*files, judged_only=True)


def test_a_note_names_the_filter_that_may_be_forgotten(write):
    """If predictions list items of the same query in the training targets, a note gives
    their share, 1 of 3, and the option --filter. There is no note with the filter,
    without common pairs, or if the training targets name no query.
    """
    files = (
        write("p.csv", "user,item,score\nu,a,3\nu,b,2\nv,c,1\n"),
        write("y.csv", "user,item\nu,b\nv,c\n"),
    )
    train = write("train.csv", "user,item\nu,a\nv,a\nw,c\n")
    (note,) = read(*files, train_target=train).notes
    assert note.startswith(
        "33% of the items that p.csv lists are in train.csv for the same query."
    )
    assert note.endswith(f"--filter {train}")
    assert read(*files, train_target=train, filter=train).notes == ()
    assert read(*files, train_target=write("other.csv", "user,item\nw,a\n")).notes == ()
    assert read(*files, train_target=write("items.csv", "item\na\n")).notes == ()


def test_on_progress_receives_the_name_of_each_step(write):
    """`on_progress` receives the name of each step of reading: each file, the
    comparison of queries and that of labels.
    """
    steps = []
    files = (
        write("p.csv", "user,item,score\nu,a,3\n"),
        write("y.csv", "user,item\nu,a\n"),
    )
    read(*files, on_progress=lambda step, share: steps.append(step))
    assert {
        "reading p.csv",
        "reading y.csv",
        "comparing queries",
        "comparing labels",
    } <= set(steps)


def test_the_error_for_no_common_label_shows_labels_of_both_files(write):
    """If no label is in both files, the error shows up to two labels of each.

    The hint mentions --string-ids only if the labels are whole numbers.
    """
    preds = write("p.csv", "user,item,score\nu,a,3\nu,b,2\nu,c,1\n")
    with pytest.raises(DataFileError) as caught:
        read(preds, write("y.csv", "user,item\nu,x\n"))
    assert (
        caught.value.problem
        == "has no label in common with p.csv: 'a', 'b' there, 'x' here"
    )
    assert "--string-ids" not in caught.value.hint
    with pytest.raises(DataFileError) as caught:
        read(
            write("n.csv", "user,item,score\nu,1,3\n"),
            write("y.csv", "user,item\nu,2\n"),
        )
    assert "--string-ids false reads labels as whole numbers" in caught.value.hint
