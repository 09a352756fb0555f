"""DataFrames, Arrow tables and dicts of runs instead of files."""

import json

import pandas as pd
import pyarrow as pa
import pytest

from tailmetrics.io import Columns, DataFileError, read, read_target

RUN = {"q1": {"a": 0.5, "b": 2.0}, "q2": {"a": 1.0}, "q3": {}}
QRELS = {"q1": {"b": 1}, "q2": {"c": 2}, "q3": {"a": 1}}
ROWS = [(query, item, score) for query, by in RUN.items() for item, score in by.items()]
EXPECTED = {0: ({0: 0.5, 1: 2.0}, {1: 1.0}), 1: ({0: 1.0}, {2: 2.0}), 2: ({}, {0: 1.0})}


def frame(rows=ROWS, names=("query", "item", "score")):
    return pd.DataFrame(rows, columns=list(names))


def test_dicts_of_runs_are_read(rows_of):
    """A run and judgements are read as dicts like those of pytrec_eval.

    Labels are numbered in descending order of names, as its ties need, and a query with
    an empty list is not missing.
    """
    dataset = read(RUN, QRELS)
    assert (dataset.label_names, dataset.row_names, dataset.missing_queries) == (
        ("c", "b", "a"),
        ["q1", "q2", "q3"],
        0,
    )
    assert rows_of(dataset) == {
        0: ({2: 0.5, 1: 2.0}, {1: 1.0}),
        1: ({2: 1.0}, {0: 2.0}),
        2: ({}, {2: 1.0}),
    }


def test_names_of_late_objects_are_columns(tmp_path):
    """A field that the first object lacks is a column, as it is in a file: it may be
    the gain, and is not ignored.
    """
    target = [{"query": "q1", "item": "b"}, {"query": "q1", "item": "a", "gain": 0}]
    with pytest.raises(DataFileError, match="target, row 0: has no 'gain'"):
        list(read(RUN, target))
    target[1]["clicked"] = target[1].pop("gain")
    with pytest.raises(
        DataFileError,
        match="'clicked' may be the gain of each item, or nothing that counts",
    ):
        read(RUN, target)


def test_columns_that_arrow_lacks_are_named():
    """A frame that Arrow cannot hold is refused, and the hint says what to do with its
    column.
    """
    sparse = frame().astype({"score": pd.SparseDtype(float)})
    with pytest.raises(DataFileError, match=r"column score.*\.sparse\.to_dense\(\)"):
        read(sparse, QRELS)
    assert read(sparse.assign(score=sparse["score"].sparse.to_dense()), QRELS).num_rows


@pytest.mark.parametrize("orient", ["dict", "index", "list"])
def test_dicts_of_a_table_are_refused(tmp_path, orient):
    """A table as a dict of its columns or rows is refused, in memory and in JSON: its
    names would be queries or items, and a number would come out. As a list of objects
    it is read.
    """
    names = {"user_id": [1, 1, 2], "item_id": [5, 6, 7]}
    preds, target = pd.DataFrame({**names, "rank": [1, 2, 1]}), pd.DataFrame(names)
    tables = {"preds": preds, "target": target}
    for name, table in tables.items():
        tables[name] = table.to_dict(orient)
        (tmp_path / name).write_text(json.dumps(tables[name]))
    problem = "is a dict of a table with the columns 'user_id', 'item_id'"
    with pytest.raises(DataFileError, match=problem):
        read(tables["preds"], tables["target"])
    with pytest.raises(DataFileError, match=r"orient=\"records\""):
        read(tmp_path / "preds", tmp_path / "target", format="json")

    preds.to_json(tmp_path / "p.json", orient="records")
    assert read(tmp_path / "p.json", target).num_rows == 2


@pytest.mark.parametrize(
    "table",
    [
        {"columns": ["user_id", "item_id"], "data": [["q1", "d1"], ["q1", "d2"]]},
        {"item": ["d1", "d2"], "score": [0.5, 0.2]},
        {"query": [1, 2], "gain": [1, 2]},
        {"query": [1, 2], "ids": [[1, 2], [3]]},
        {"user": {"0": "q1", "1": "q2"}, "item": {"0": "d1", "1": "d2"}},
        {"0": {"item": 4, "rank": 1}, "1": {"item": 5, "rank": 2}},
    ],
)
def test_further_dicts_of_a_table_are_refused(table):
    """A dict of a table is refused also if it is divided into names and rows, lacks
    the query, or holds lists: its columns have known names.
    """
    names = table.get("columns", list(table))
    if "0" in table:
        names = list(table["0"])
    problem = f"is a dict of a table with the columns {', '.join(map(repr, names))}"
    with pytest.raises(DataFileError, match=problem):
        read_target(table, string_ids=True)


@pytest.mark.parametrize(
    "run",
    [
        {"q1": {"user": 0.5, "item": 0.2}},
        {"1": {"user": 0.5, "item": 0.2}, "2": {"user": 0.1, "item": 0.3}},
        {"q1": {"user": 1, "item": 2}, "q2": {"user": 2, "item": 1}},
        {"0": {"user": 2, "item": 1}, "1": {"user": 2}},
        {"query": {"a": 1.0}, "item": {"a": 2.0}},
        {"query": {"1": 0.4}, "item": {"1": 0.3}},
        {"query": ["a", "b"], "item": ["b"]},
        {"query": ["a"], "shoes": ["b"]},
        {"columns": ["a"], "data": ["b"]},
    ],
)
def test_queries_and_labels_may_be_called_like_columns(rows_of, run):
    """A dict whose queries or labels are called like columns of a table is read, if the
    others are not those of a table.
    """
    rows = rows_of(read(run, run))
    assert [len(preds) for preds, _ in rows.values()] == list(map(len, run.values()))


@pytest.mark.parametrize(
    "rows", [{"q1": ["b", "a"], "q2": None}, {"q1": {"b": 2.0, "a": 1.0}, "q2": None}]
)
def test_nothing_in_the_place_of_a_list_is_an_empty_list(rows, rows_of):
    """None for a query of a dict is an empty list, as null is in the tables of
    lists.
    """
    rows = rows_of(read(rows, {"q1": {"a": 1}, "q2": {"b": 1}}))
    assert [len(preds) for preds, _ in rows.values()] == [2, 0]


@pytest.mark.parametrize(
    "factory",
    [
        frame,
        lambda: pa.Table.from_pandas(frame()),
        lambda: frame().astype({"query": "category"}),
    ],
)
def test_frames_and_arrow_tables_are_read(factory, rows_of):
    """A table of pandas or Arrow with one line for each query and item is read; queries
    may be strings or categories.
    """
    target = frame(
        [(q, i, g) for q, by in QRELS.items() for i, g in by.items()],
        ("query", "item", "gain"),
    )
    dataset = read(factory(), target, missing="zero")
    assert rows_of(dataset) == EXPECTED
    assert (dataset.missing_queries, dataset.unmatched_queries) == (1, 0)


def test_tables_beside_files_are_read_by_known_or_custom_names(tmp_path, rows_of):
    """A table is read beside a file that names its queries; its columns have known
    names or those that the user gives, and the reading says which column has which
    role.
    """
    (tmp_path / "y.csv").write_text("query,item,gain\nq1,b,1\nq2,c,2\n")
    dataset = read(frame(names=("user_id", "item_id", "score")), tmp_path / "y.csv")
    assert (
        str(dataset.readings[0])
        == "in memory: 'user_id' is the query, 'item_id' is the item, 'score' is the score"
    )
    assert rows_of(dataset) == {row: EXPECTED[row] for row in (0, 1)}
    numbers = pd.DataFrame({"u": [1, 1, 2], "i": [3, 4, 3]})
    dataset = read_target(
        numbers, train_columns=Columns(query="u", item="i"), num_labels=5
    )
    assert [batch.target.tolist() for batch in dataset] == [[[3, 4], [3, -1]]]


LISTS = {
    "user": ["b", "a"],
    "items": [["x", "y"], ["z"]],
    "scores": [[0.1, 0.9], [0.5]],
}
RELEVANT = {"user": ["a", "b"], "labels": [["z", "x"], ["y"]]}


@pytest.mark.parametrize("factory", [pd.DataFrame, pa.table])
@pytest.mark.parametrize("lacking", [[], ["user"], ["scores"], ["user", "scores"]])
def test_tables_of_lists_are_read_as_their_parquet_files(
    tmp_path, rows_of, factory, lacking
):
    """A table with lists in its rows is read as its Parquet file is, with or without
    scores, and joined by a column of queries or row by row.
    """
    columns = [
        {name: column for name, column in table.items() if name not in lacking}
        for table in (LISTS, RELEVANT)
    ]
    for name, table in zip("py", columns, strict=True):
        pd.DataFrame(table).to_parquet(tmp_path / f"{name}.parquet")
    read_back, dataset = (
        read(tmp_path / "p.parquet", tmp_path / "y.parquet"),
        read(*map(factory, columns)),
    )
    assert rows_of(dataset) == rows_of(read_back)
    assert (dataset.row_names, dataset.label_names) == (
        read_back.row_names,
        read_back.label_names,
    )
    assert dataset.num_rows == 2


def test_a_table_of_lines_may_have_a_column_of_lists(rows_of):
    """A table with one item a line may have a column of lists, such as features of the
    item, which is ignored; the item column has a known name or the one that the user
    gives.
    """
    dataset = read(frame().assign(genres=[["g"]] * 3), QRELS)
    assert rows_of(dataset) == rows_of(read(frame(), QRELS))
    custom = frame(names=("query", "work", "score")).assign(genres=[["g"]] * 3)
    assert rows_of(read(custom, QRELS, preds_columns=Columns(item="work"))) == rows_of(
        dataset
    )


@pytest.mark.parametrize(
    ("preds", "problem"),
    [
        (frame().assign(score=["x", "y", "z"]), ": its column 'score' is "),
        (frame([("q1", None, 1.0), ("q1", "b", 1.0)]), ", row 0: has no 'item'"),
        (frame([(None, "a", 1.0), ("q1", "b", 1.0)]), ", row 0: has no 'query'"),
        (frame([("q1", "a", 1.0), ("q1", "b", None)]), ", row 1: has no 'score'"),
        (frame([("q1", 0.5, 1.0)]), ": its column 'item' is double"),
        (frame().drop(columns="score"), ": no column is the score, rank or distance"),
        (
            frame([("q1", "a", 1.0), ("q1", "a", 2.0)]),
            ", query 'q1': holds the label 'a' twice",
        ),
    ],
)
def test_errors_in_tables_name_row_and_column(tmp_path, preds, problem):
    """A missing value, a wrong type, a missing column and a repeated item raise an
    error that names the row or column, in memory and in Parquet.
    """
    with pytest.raises(ValueError, match=rf"^preds{problem}"):
        list(read(preds, QRELS))
    preds.to_parquet(tmp_path / "p.parquet")
    with pytest.raises(DataFileError, match=rf"p\.parquet{problem}") as caught:
        list(read(tmp_path / "p.parquet", QRELS))
    assert caught.value.hint


@pytest.mark.parametrize(
    ("preds", "kind", "problem"),
    [
        (
            frame([("q1", 0.5, 1.0)]),
            ValueError,
            r"its column 'item' is double; .*: table.astype\({'item': 'int64'}\)",
        ),
        (frame([(["q1"], 0, [1.0])]), ValueError, r"no column is the query"),
        (
            frame([("q1", True, 1.0)]),
            ValueError,
            r"its column 'item' is bool; .*: table.astype\({'item': 'str'}\)",
        ),
        (
            frame([("q1", pd.Timestamp("2020"), 1.0)]),
            ValueError,
            r"item' is timestamp.*astype\({'item': 'str'}\)",
        ),
        (
            pa.table({"query": ["q1"], "ids": [[1.0]]}),
            ValueError,
            r"its column 'ids' is list<.*>; .*: table\['ids'\]\.map\(lambda items: list\(map\(int, items\)\)\)",
        ),
        (
            pa.table({"query": ["q1"], "ids": [[[1]]]}),
            ValueError,
            "whole numbers or text: nested lists",
        ),
        ({"q1": "a"}, ValueError, r"preds, query 'q1': holds str, not a dict"),
        ({"q1": {"a": float("nan")}}, ValueError, "query 'q1': holds the score nan"),
        ({}, ValueError, "preds: holds no rows"),
        (
            {1: {"a": 1.0}, "1": {"b": 2.0}},
            ValueError,
            "preds: holds the query '1' 2 times; give each query once",
        ),
        ({1: ["a"], "1": ["b"]}, ValueError, "preds: holds the query '1' 2 times"),
        (
            {1: [{"item": "a", "score": 1}], "1": []},
            ValueError,
            "preds: holds the query '1' 2 times",
        ),
        (7, TypeError, "preds: is a int; pass the path of a file; a table"),
    ],
)
def test_other_objects_than_tables_and_runs_are_refused(preds, kind, problem):
    """An object that is neither a table nor a dict of runs is refused, and so are a
    table and a run with wrong values.

    The error says how to make a table of it, or which query is wrong.
    """
    with pytest.raises(kind, match=problem):
        list(read(preds, QRELS))
