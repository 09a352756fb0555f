"""Two inputs that must agree are held together: the same query and the same label are written alike, or it is said."""

import random
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailmetrics import HitRateAtK, RecallAtK, evaluate
from tailmetrics.io import Columns, DataFileError, DataFileNote, read, read_label_names

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
def test_labels_that_nobody_has_in_common_are_refused(csv, label):
    """7 in one file and 7.0, 007 or seven in the other would be 0.0 without a word."""
    preds = csv("p.csv", "query,item,score", "ann,7,.9", "bob,8,.5")
    target = csv("y.csv", "query,item", f"ann,{label}", "bob,nine")
    with pytest.raises(DataFileError, match=r"y\.csv: has (the label|no label in common)"):
        read(preds, target)


@pytest.mark.filterwarnings("ignore::tailmetrics.io.DataFileNote")
def test_one_name_written_in_two_ways_is_refused(csv):
    """Where other labels or queries are written alike, the few that are not would only lower the value."""
    preds = csv("p.csv", "query,item,score", "ann,007,.9", "ann,123,.8")
    with pytest.raises(DataFileError, match="has the label '7' where .*p.csv has '007'") as caught:
        read(preds, csv("y.csv", "query,item", "ann,7", "ann,123"))
    assert "string_ids=True" in caught.value.hint
    read(preds, csv("y.csv", "query,item", "ann,7", "ann,123"), string_ids=True)
    both = csv("both.csv", "query,item", "ann,7", "ann,007", "ann,123")
    assert recall(read(preds, both)) == pytest.approx(1 / 3)  # 7 and 007 are two labels where a file has both
    with pytest.raises(DataFileError, match="has the query '1' where .*p.csv has '1.0'"):
        read(csv("p.csv", "query,item,score", "1.0,a,1", "b,a,1"), csv("y.csv", "query,item", "1,a", "b,a"))


def test_names_of_lists_and_of_several_files_agree_too(tmp_path, csv):
    """Strings in list columns, and the files whose labels are numbered at once."""
    pq.write_table(pa.table({"ids": [["7"]]}), tmp_path / "p.parquet")
    pq.write_table(pa.table({"labels": [["7.0"]]}), tmp_path / "y.parquet")
    with pytest.raises(DataFileError, match=r"has the label '7.0' where .*p.parquet has '7'"):
        read(tmp_path / "p.parquet", tmp_path / "y.parquet")
    train = csv("train.csv", "query,item", "x,zzz")
    with pytest.raises(DataFileError, match=r"train.csv: has no label in common"):
        read_label_names(csv("p.csv", "query,item,score", "q,a,1"), csv("y.csv", "query,item", "q,a"), train)


def test_blanks_around_a_field_do_not_count(csv):
    """A blank behind the comma is no part of the label."""
    assert recall(read(csv("p.csv", "query,item,score", "ann, b,.9"), csv("y.csv", "query, item", "ann,b"))) == 1


def test_whole_numbers_that_are_all_wrong_are_a_note(csv):
    """Label ids cannot be written in two ways, so that nothing in common is a value, and said."""
    preds, target = csv("p.csv", "query,item,score", "q,7,1"), csv("y.csv", "query,item", "q,8")
    with pytest.warns(DataFileNote, match="has no label in common with .*p.csv: '7' there, '8' here"):
        assert recall(read(preds, target, num_labels=9)) == 0


def test_evaluate_of_frames_says_it_too():
    """The same holds in Python."""
    preds = pd.DataFrame({"query": ["q"], "item": ["7"], "score": [1.0]})
    with pytest.raises(ValueError, match=r"has the label '7.0' where preds"):
        evaluate(preds, pd.DataFrame({"query": ["q"], "item": ["7.0"]}), metrics=[HitRateAtK(k=1)])


def test_ratings_with_a_time_are_no_qrels(tmp_path, csv):
    """A grade is no time: the lines of MovieLens' u.data are not read as user, iteration, document and grade."""
    run = tmp_path / "p.run"
    run.write_text("196 Q0 242 1 0.5 me\n")
    target = csv("u.data", "196\t242\t3\t881250949")
    with pytest.warns(
        DataFileNote, match="column 0 is the query, column 1 is the item, column 2 is the gain; not read: '3'"
    ):
        assert recall(read(run, target)) == 1
    with pytest.raises(DataFileError, match="u.data, line 1: holds 881250949, a time, in the place"):
        read(run, target, format="trec")


def test_a_list_column_called_item(csv):
    """Blanks between ids make a list of a column whose name says one item; blanks in titles do not."""
    preds = csv("p.csv", "user_id,item_id", "1,7 9", "2,8")
    target = csv("y.csv", "user_id,item_id", "1,9", "2,8")
    with pytest.warns(DataFileNote, match="'item_id' is the list"):
        assert recall(read(preds, target), k=2) == 1
    titles = csv("t.csv", "query,item", "1,Star Wars", "2,Alien")
    with pytest.raises(DataFileError, match="there is no column 'score'"):
        read(titles, titles)


def lists(path, queries, name, rows, **more):
    pq.write_table(pa.table({"user_id": queries, name: rows, **more}), path)
    return path


@pytest.mark.parametrize("as_text", [False, True])
def test_lists_that_name_their_queries_are_joined_by_them(tmp_path, as_text):
    """Rows in another order belong to their query, not to the row of the same number; a query can be missing."""
    label = (lambda rows: [[f"i{one}" for one in row] for row in rows]) if as_text else list
    preds = lists(tmp_path / "p.parquet", [1, 2, 3], "ids", label([[7, 9], [8, 3], [5]]))
    target = lists(tmp_path / "y.parquet", [2, 1], "labels", label([[8], [7]]))
    dataset = read(preds, target)
    assert recall(dataset) == 1
    assert (list(dataset.row_names), dataset.unmatched_queries) == (["2", "1"], 1)
    same = lists(tmp_path / "s.parquet", [1, 2, 3], "labels", label([[7], [8], [6]]))
    dataset = read(preds, same)
    assert (recall(dataset), list(dataset.row_names)) == (pytest.approx(2 / 3), ["1", "2", "3"])  # in order already


@pytest.mark.filterwarnings("ignore::tailmetrics.io.DataFileNote")
def test_lists_are_joined_with_lines(tmp_path, csv):
    """A file of lists goes with one whose lines name their query, either way round, whole numbers being ids."""
    listed = lists(tmp_path / "p.parquet", ["b", "a"], "ids", [[7, 9], [8]], scores=[[0.1, 0.2], [1.0]])
    assert recall(read(listed, csv("y.csv", "user,item", "a,8", "b,9"))) == 1
    run = csv("p.csv", "user,item,score", "a,8,1", "b,7,2", "b,9,1")
    assert recall(read(run, lists(tmp_path / "y.parquet", ["b", "a"], "labels", [[7], [8]]))) == 1
    pq.write_table(pa.table({"ids": [[7]]}), tmp_path / "n.parquet")
    with pytest.raises(DataFileError, match="cannot be matched"):
        read(tmp_path / "n.parquet", csv("y.csv", "user,item", "a,8"))
    unusual = pa.table({"labels": [[7], [8]], "customer": ["b", "a"]})
    pq.write_table(unusual, tmp_path / "c.parquet")
    with pytest.raises(DataFileError, match=r"columns=\(Columns\(query=NAME\), Columns\(query='customer'\)\) joins by"):
        read(run, tmp_path / "c.parquet")
    assert recall(read(run, tmp_path / "c.parquet", columns=(Columns(query="user"), Columns(query="customer")))) == 1


def test_lists_of_which_one_names_no_query(tmp_path):
    """Row i belongs to row i then, and it is said."""
    preds = lists(tmp_path / "p.parquet", [1, 2], "ids", [[7], [8]])
    pq.write_table(pa.table({"labels": [[7], [8]]}), tmp_path / "y.parquet")
    with pytest.warns(UserWarning, match=r"y.parquet: names no query, so that row i belongs to row i of .*p.parquet"):
        assert recall(read(preds, tmp_path / "y.parquet")) == 1


@pytest.mark.parametrize("unread", [[2, 1], ["b", "a"]])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_column_of_queries_under_another_name_is_refused(tmp_path, unread, swapped):
    """The rows of one file are shuffled: by their numbers recall is 0, by the column that the error names it is 1."""
    first, last = (pa.table({"ids": [[8], [7]]}), pa.table({"labels": [[7], [8]]}))
    one, other = (last, first) if swapped else (first, last)
    one, other = one.append_column("member", [unread]), other.append_column("user", [unread[::-1]])
    paths = tmp_path / "p.parquet", tmp_path / "y.parquet"
    for table, path in zip((other, one) if swapped else (one, other), paths, strict=True):
        pq.write_table(table, path)
    with pytest.raises(
        DataFileError, match="column 'member' may be the query: 2 of its values are in 'user' of"
    ) as said:
        read(*paths)
    pair = [Columns(query="member"), Columns(query="user")]
    shown = ["Columns(query='member')", "Columns(query='user')"]
    assert f"columns=({', '.join(shown[::-1] if swapped else shown)}) joins by it." in said.value.hint
    assert recall(read(*paths, columns=tuple(pair[::-1] if swapped else pair))) == 1


@pytest.mark.parametrize("queries", [["ann", "bob"], [1, 2], [1.0, 2.0], [Decimal(1), Decimal(2)], [None, 2.0]])
@pytest.mark.parametrize("num_rows", [1, 2])
def test_a_column_of_both_files_that_differs_by_row_is_refused(tmp_path, queries, num_rows):
    """The second file is in another order or shorter: row by row recall is 0, joined as the error says it is 1.

    A counter of rows beside the column proves nothing. A column without values in all rows cannot join.
    """
    preds, target = tmp_path / "p.parquet", tmp_path / "y.arrow"
    more = {"playlist": queries, "model": ["m", "m"], "n": [2, 2], "index": [0, 1]}
    pq.write_table(pa.table({**more, "ids": [[7], [8]]}), preds)
    other = pa.table({**more, "n": [1, 1], "playlist": queries[::-1], "labels": [[8], [7]]}).slice(0, num_rows)
    with pa.ipc.new_file(target, other.schema) as file:
        file.write_table(other)
    named = None not in queries
    said = "'playlist'" if named else "'(playlist|n)'"
    with pytest.raises(DataFileError, match=rf"y\.arrow: column {said} differs from that of .*p\.parquet") as refused:
        read(preds, target)
    assert f"columns=Columns(query={'playlist' if named else 'NAME'!r})".replace("'NAME'", "NAME") in refused.value.hint
    if named:
        assert recall(read(preds, target, columns=Columns(query="playlist"))) == 1
    with pa.ipc.new_file(target, other.schema) as file:
        file.write_table(pa.table({**more, "labels": [[7], [8]]}, other.schema))
    assert recall(read(preds, target)) == 1


def test_keys_in_the_same_order_are_enough_where_each_names_one_row(tmp_path):
    """Beside distinct queries a column such as the length of a list may differ; beside repeated ones it tells visits."""
    one, other = {"visit": [1, 2]}, {"visit": [2, 1]}
    preds = lists(tmp_path / "p.parquet", [1, 2], "ids", [[7], [8]], **one)
    assert recall(read(preds, lists(tmp_path / "y.parquet", [1, 2], "labels", [[7], [8]], **other))) == 1
    preds = lists(tmp_path / "p.parquet", [1, 1], "ids", [[7], [8]], **one)
    target = lists(tmp_path / "y.parquet", [1, 1], "labels", [[8], [7]], **other)
    with pytest.raises(DataFileError, match="column 'visit' differs"):
        read(preds, target)
    assert recall(read(preds, target, columns=Columns(query="visit"))) == 1


@pytest.mark.parametrize("extra", [[5, 5], [1, None], ["x", "y"], [8, 9]])
def test_a_column_that_cannot_be_the_query_is_left_alone(tmp_path, extra):
    """It repeats a value, lacks one, or shares none with the queries: row i belongs to row i."""
    preds = lists(tmp_path / "p.parquet", [1, 5], "ids", [[7], [8]])
    pq.write_table(pa.table({"labels": [[7], [8]], "extra": extra}), tmp_path / "y.parquet")
    with pytest.warns(UserWarning, match="names no query, so that row i belongs to row i"):
        assert recall(read(preds, tmp_path / "y.parquet")) == 1


def test_two_lists_of_one_query_are_refused(tmp_path):
    """A join would put them together."""
    preds = lists(tmp_path / "p.parquet", [1, 1], "ids", [[7], [8]])
    with pytest.raises(DataFileError, match="p.parquet, row 1: has a second list of '1'"):
        read(preds, lists(tmp_path / "y.parquet", [1], "labels", [[7]]))


@pytest.mark.filterwarnings("ignore::tailmetrics.io.DataFileNote")
def test_a_column_is_not_read_twice(csv):
    """A column ``label`` that is named as the item is not the gain besides: class 0 would have a gain of 0."""
    preds = csv("p.csv", "query,label,score", "a,0,.9", "a,1,.1", "b,1,.5", "b,0,.4")
    target = csv("y.csv", "query,label", "a,0", "b,1")
    assert recall(read(preds, target, columns=Columns(item="label"), num_labels=2)) == 1


def test_a_column_that_is_named_twice_is_refused(csv):
    """One column cannot be two things."""
    preds = csv("p.csv", "query,item,score", "a,0,.9")
    target = csv("y.csv", "query,item,label", "a,0,1")
    with pytest.raises(DataFileError, match="the column 'item' is named as item and as gain"):
        read(preds, target, columns=Columns(gain="item"))


def test_a_rank_is_an_order(tmp_path, csv):
    """rank 1 is the best in CSV, JSON Lines, JSON, long tables and lists of structs, guessed or named as rank or score."""
    rows = [("u", f"i{rank}", rank) for rank in range(1, 5)]
    random.Random(1).shuffle(rows)
    target = csv("y.csv", "user_id,item_id", "u,i1")
    table = csv("p.csv", "user_id,item_id,rank", *(f"{u},{i},{r}" for u, i, r in rows))
    for columns in (None, Columns(rank="rank"), Columns(score="rank")):
        assert recall(read(table, target, columns=columns)) == 1
    lines = [f'{{"user_id": "{u}", "item_id": "{i}", "rank": {r}}}' for u, i, r in rows]
    assert recall(read(csv("p.jsonl", *lines), target)) == 1
    assert recall(read(csv("p.json", f"[{','.join(lines)}]"), target)) == 1
    frame = pd.DataFrame(rows, columns=["user_id", "item_id", "rank"])
    assert recall(read(frame, target)) == 1
    structs = pa.table({"user_id": ["u"], "items": [[{"item_id": i, "rank": r} for _, i, r in rows]]})
    pq.write_table(structs, tmp_path / "p.parquet")
    assert recall(read(tmp_path / "p.parquet", target)) == 1
    with pytest.raises(DataFileError, match="there is no column 'score'") as caught:
        read(csv("n.csv", "user_id,item_id,order", "u,i1,1"), target)
    assert "columns=Columns(rank=NAME) which one is the rank," in caught.value.hint
