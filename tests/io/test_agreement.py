"""Predictions and targets must write queries and labels alike; otherwise they are
refused, or a note says so.
"""

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailmetrics import HitRateAtK, RecallAtK, evaluate
from tailmetrics.io import Columns, DataFileError, read, read_label_names

LISTS = pa.list_(pa.int64())


@pytest.fixture
def csv(tmp_path):
    def csv(name, *lines):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
        return tmp_path / name

    return csv


def recall(dataset, k=1):
    metric = RecallAtK(k=k)
    for batch in dataset:
        metric.update(batch.preds, batch.target)
    return float(metric.compute())


@pytest.mark.parametrize("label", ["7.0", "007", "seven"])
def test_files_without_a_common_label_are_refused(csv, label):
    """Files without a common label are refused, because every value would be 0.0.

    The label is 7 in one file, and 7.0, 007 or seven in the other.
    """
    preds = csv("p.csv", "query,item,score", "ann,7,.9", "bob,8,.5")
    target = csv("y.csv", "query,item", f"ann,{label}", "bob,nine")
    with pytest.raises(
        DataFileError, match=r"y\.csv: has (the label|no label in common)"
    ):
        read(preds, target)


def test_one_name_written_in_two_ways_is_refused(csv):
    """A label or query that the two files write in two ways is refused, also where
    other names agree, because it would lower the value. With --string-ids, or where one
    file has both spellings, the spellings are two labels: 1 of 3 is retrieved.
    """
    preds = csv("p.csv", "query,item,score", "ann,007,.9", "ann,123,.8")
    with pytest.raises(
        DataFileError, match="has the label '7' where .*p.csv has '007'"
    ) as caught:
        read(preds, csv("y.csv", "query,item", "ann,7", "ann,123"))
    assert "--string-ids true" in caught.value.hint
    read(preds, csv("y.csv", "query,item", "ann,7", "ann,123"), string_ids=True)
    two_labels = csv("two.csv", "query,item", "ann,7", "ann,007", "ann,123")
    # a file with both 7 and 007 has two labels
    assert recall(read(preds, two_labels)) == pytest.approx(1 / 3)
    with pytest.raises(
        DataFileError, match="has the query '1' where .*p.csv has '1.0'"
    ):
        read(
            csv("p.csv", "query,item,score", "1.0,a,1", "b,a,1"),
            csv("y.csv", "query,item", "1,a", "b,a"),
        )


def test_labels_of_lists_and_training_files_must_agree(tmp_path, csv):
    """Labels in list columns, and labels of training files that are numbered together
    with others, must agree with those of the predictions as labels in lines must.
    """
    pq.write_table(pa.table({"ids": [["7"]]}), tmp_path / "p.parquet")
    pq.write_table(pa.table({"labels": [["7.0"]]}), tmp_path / "y.parquet")
    with pytest.raises(
        DataFileError, match=r"has the label '7.0' where .*p.parquet has '7'"
    ):
        read(tmp_path / "p.parquet", tmp_path / "y.parquet")
    train = csv("train.csv", "query,item", "x,zzz")
    with pytest.raises(DataFileError, match=r"train.csv: has no label in common"):
        read_label_names(
            [csv("p.csv", "query,item,score", "q,a,1")],
            csv("y.csv", "query,item", "q,a"),
            train,
        )


def test_disjoint_label_ids_give_zero_and_a_note(csv):
    """Label ids that are whole numbers can be written in one way only, so that files
    without a common id have the value 0, and a note says that they have none in common.
    """
    preds, target = (
        csv("p.csv", "query,item,score", "q,7,1"),
        csv("y.csv", "query,item", "q,8"),
    )
    dataset = read(preds, target, num_labels=9)
    assert recall(dataset) == 0
    assert "has no label in common with p.csv: '7' there, '8' here" in dataset.notes[0]


def test_evaluate_refuses_frames_that_write_a_label_in_two_ways():
    """`evaluate` refuses frames that write the same label in two ways, as it refuses
    files.
    """
    preds = pd.DataFrame({"query": ["q"], "item": ["7"], "score": [1.0]})
    with pytest.raises(ValueError, match=r"has the label '7.0' where preds"):
        evaluate(
            preds,
            pd.DataFrame({"query": ["q"], "item": ["7.0"]}),
            metrics=[HitRateAtK(k=1)],
        )


def lists(path, queries, name, rows, **other_columns):
    pq.write_table(pa.table({"user_id": queries, name: rows, **other_columns}), path)
    return path


@pytest.mark.parametrize("as_text", [False, True])
def test_lists_are_joined_by_their_column_of_queries(tmp_path, as_text):
    """Lists with a column of queries are joined by it, not by the number of the row.

    A query that the target lacks is counted as unmatched.
    """
    label = (
        (lambda rows: [[f"i{number}" for number in row] for row in rows])
        if as_text
        else list
    )
    preds = lists(
        tmp_path / "p.parquet", [1, 2, 3], "ids", label([[7, 9], [8, 3], [5]])
    )
    target = lists(tmp_path / "y.parquet", [2, 1], "labels", label([[8], [7]]))
    dataset = read(preds, target)
    assert recall(dataset) == 1
    assert (list(dataset.row_names), dataset.unmatched_queries) == (["2", "1"], 1)
    same_order = lists(
        tmp_path / "s.parquet", [1, 2, 3], "labels", label([[7], [8], [6]])
    )
    dataset = read(preds, same_order)
    assert (recall(dataset), list(dataset.row_names)) == (
        pytest.approx(2 / 3),
        ["1", "2", "3"],
    )  # the rows are in the order of the target


def test_lists_are_joined_with_lines_by_query(tmp_path, csv):
    """A file of lists is joined by query with a file of lines, either of them being the
    predictions, and whole numbers are ids. Lists without a column of queries are
    refused, and the hint names the option that says which column it is.
    """
    preds_lists = lists(
        tmp_path / "p.parquet",
        ["b", "a"],
        "ids",
        [[7, 9], [8]],
        scores=[[0.1, 0.2], [1.0]],
    )
    assert recall(read(preds_lists, csv("y.csv", "user,item", "a,8", "b,9"))) == 1
    run = csv("p.csv", "user,item,score", "a,8,1", "b,7,2", "b,9,1")
    assert (
        recall(
            read(run, lists(tmp_path / "y.parquet", ["b", "a"], "labels", [[7], [8]]))
        )
        == 1
    )
    pq.write_table(pa.table({"ids": [[7]]}), tmp_path / "n.parquet")
    with pytest.raises(DataFileError, match="names no query, but y.csv does"):
        read(tmp_path / "n.parquet", csv("y.csv", "user,item", "a,8"))
    unusual = pa.table({"labels": [[7], [8]], "customer": ["b", "a"]})
    pq.write_table(unusual, tmp_path / "c.parquet")
    with pytest.raises(
        DataFileError, match=r"--target-columns.query NAME joins by it$"
    ):
        read(run, tmp_path / "c.parquet")
    assert (
        recall(
            read(run, tmp_path / "c.parquet", target_columns=Columns(query="customer"))
        )
        == 1
    )


def test_two_lists_of_one_query_are_refused(tmp_path):
    """A file with two lists of the same query is refused, because a join would merge
    them.
    """
    preds = lists(tmp_path / "p.parquet", [1, 1], "ids", [[7], [8]])
    with pytest.raises(
        DataFileError, match="p.parquet, row 1: has a second list of '1'"
    ):
        read(preds, lists(tmp_path / "y.parquet", [1], "labels", [[7]]))


def test_a_column_named_as_the_item_is_not_read_as_the_gain(csv):
    """A column `label` that the user names as the item is not read as the gain as well,
    which would give class 0 a gain of 0.
    """
    preds = csv("p.csv", "query,label,score", "a,0,.9", "a,1,.1", "b,1,.5", "b,0,.4")
    target = csv("y.csv", "query,label", "a,0", "b,1")
    assert recall(read(preds, target, columns=Columns(item="label"), num_labels=2)) == 1
