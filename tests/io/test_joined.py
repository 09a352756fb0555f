"""What a join leaves out or tells: predictions without a judgement, and a filter that was forgotten."""

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


def test_judged_items_alone(write):
    """As trec_eval -J: a has no judgement, as its grade is negative, so that c is the second; a query without a judged item keeps its row."""
    pytrec_eval = pytest.importorskip("pytrec_eval")
    files = write("a.run", RUN), write("a.qrels", QRELS)
    qrels, run = (
        {"q1": {"b": 0, "c": 1}, "q2": {"z": 1}},
        {"q1": {"a": 4.0, "b": 3.0, "c": 2.0}, "q2": {"x": 2.0, "y": 1.0}},
    )
    judge = pytrec_eval.RelevanceEvaluator(qrels, {"recip_rank"}, judged_docs_only_flag=True)
    expected = sum(values["recip_rank"] for values in judge.evaluate(run).values()) / 2
    assert expected == 1 / 4
    assert mrr(*files, judged_only=True) == expected
    assert mrr(*files) == (1 / 3) / 2


def test_rows_without_names_judge_no_item(write):
    """Nothing says which item of another row is judged."""
    files = write("p.xmc", "1 3\n0:1 1:2\n"), write("y.xmc", "1 3\n1:1\n")
    with pytest.raises(DataFileError, match="names no query, so that no item is judged; leave --judged-only out"):
        read(*files, judged_only=True)


def test_a_forgotten_filter_is_told(write):
    """Training names the same queries: the share of listed items that it holds, and the option; with it, nothing."""
    files = write("p.csv", "user,item,score\nu,a,3\nu,b,2\nv,c,1\n"), write("y.csv", "user,item\nu,b\nv,c\n")
    train = write("train.csv", "user,item\nu,a\nv,a\nw,c\n")
    (note,) = read(*files, train_target=train).notes
    assert note.startswith("33% of the items that p.csv lists are in train.csv for the same query.")
    assert note.endswith(f"--filter {train}")
    assert read(*files, train_target=train, filter=train).notes == ()
    assert read(*files, train_target=write("other.csv", "user,item\nw,a\n")).notes == ()
    assert read(*files, train_target=write("items.csv", "item\na\n")).notes == ()


def test_steps_are_told_to_the_caller(write):
    """on_progress hears the name of each step, and no context variable carries it."""
    steps = []
    files = write("p.csv", "user,item,score\nu,a,3\n"), write("y.csv", "user,item\nu,a\n")
    read(*files, on_progress=lambda step, share: steps.append(step))
    assert {"reading p.csv", "reading y.csv", "comparing queries", "comparing labels"} <= set(steps)


def test_names_without_a_common_label_are_shown(write):
    """Two of each; whole numbers are mentioned only where labels are whole numbers."""
    preds = write("p.csv", "user,item,score\nu,a,3\nu,b,2\nu,c,1\n")
    with pytest.raises(DataFileError) as caught:
        read(preds, write("y.csv", "user,item\nu,x\n"))
    assert caught.value.problem == "has no label in common with p.csv: 'a', 'b' there, 'x' here"
    assert "--string-ids" not in caught.value.hint
    with pytest.raises(DataFileError) as caught:
        read(write("n.csv", "user,item,score\nu,1,3\n"), write("y.csv", "user,item\nu,2\n"))
    assert "--string-ids false reads labels as whole numbers" in caught.value.hint
