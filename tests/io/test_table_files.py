"""Lists of structs, Arrow, long tables, data sets of Hugging Face, results of FAISS."""

import json
import math

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from tailmetrics import NDCGAtK
from tailmetrics.io import Columns, DataFileError, DataFileNote, read

IDS = [[3, 1], [], [2], [0, 1, 2]]
SCORES = [[0.5, 0.25], [], [1.0], [0.5, 0.75, 0.5]]
LABELS = [[1], [2], [0, 2], [3]]
EXPECTED = {row: (dict(zip(IDS[row], SCORES[row], strict=True)), LABELS[row]) for row in range(4)}


@pytest.fixture
def target(tmp_path):
    pq.write_table(pa.table({"labels": LABELS}), tmp_path / "y.parquet")
    return tmp_path / "y.parquet"


def structs(**names):
    item, score = names.get("item", "item"), names.get("score", "score")
    kind = pa.list_(pa.struct([("note", pa.string()), (item, pa.int64()), (score, pa.float32())]))
    rows = [
        [{"note": "x", item: i, score: s} for i, s in zip(*row, strict=True)] for row in zip(IDS, SCORES, strict=True)
    ]
    return pa.array(rows, kind)


@pytest.mark.parametrize("names", [{}, {"item": "label_id", "score": "probability"}])
def test_lists_of_structs(tmp_path, target, rows_of, names):
    """A column of structs holds labels and scores; the only one is found, which is said."""
    pq.write_table(pa.table({"ids": structs(**names)}), tmp_path / "p.parquet")
    assert rows_of(read(tmp_path / "p.parquet", target, num_labels=4)) == EXPECTED
    pq.write_table(pa.table({"predictions": structs(**names)}), tmp_path / "p.parquet")
    with pytest.warns(
        DataFileNote, match=r"parquet: column 'predictions\.\w+' holds the lists, column 'predictions\.\w+' is"
    ):
        assert rows_of(read(tmp_path / "p.parquet", target, num_labels=4)) == EXPECTED
    queries = pa.array([f"u{row}" for row in range(len(IDS))])
    pq.write_table(pa.table({"user_id": queries, "predictions": structs(**names)}), tmp_path / "p.parquet")
    pq.write_table(pa.table({"user_id": queries, "labels": IDS}), tmp_path / "y.parquet")
    with pytest.warns(DataFileNote, match=r"column 'user_id' is the query, column 'predictions\.\w+' is the list"):
        read(tmp_path / "p.parquet", tmp_path / "y.parquet", num_labels=4)


def test_fields_that_are_not_clear(tmp_path, target, rows_of):
    """Fields of other names are refused, with how to name them; so is a column that is not there."""
    pq.write_table(pa.table({"ids": structs(item="a", score="b")}), tmp_path / "p.parquet")
    with pytest.raises(DataFileError, match="column 'ids' is a list of struct<") as caught:
        read(tmp_path / "p.parquet", target, num_labels=4)
    assert "columns=Columns(ids='ids', item=NAME, score=NAME)" in caught.value.hint
    with pytest.raises(DataFileError, match="has no column 'lists'; its columns are ids"):
        read(tmp_path / "p.parquet", target, num_labels=4, columns=Columns(ids="lists"))
    columns = Columns(item="a", score="b")
    assert rows_of(read(tmp_path / "p.parquet", target, num_labels=4, columns=columns)) == EXPECTED


@pytest.mark.parametrize("form", ["feather", "zstd", "stream"])
@pytest.mark.parametrize("batch_rows", [1, 3, 100])
@pytest.mark.parametrize("world_size", [1, 3])
def test_arrow(tmp_path, target, rows_of, form, batch_rows, world_size):
    """Feather and Arrow streams, of several batches and compressed, hold the rows of Parquet."""
    table = pa.table({"other": ["x"] * 4, "ids": IDS, "scores": SCORES})
    path = tmp_path / "p.arrow"
    if form == "stream":
        with pa.ipc.new_stream(path, table.schema) as file:
            file.write_table(table, 3)
    else:
        feather.write_feather(table, str(path), chunksize=3, compression=form if form == "zstd" else "uncompressed")
    found = {}
    for rank in range(world_size):
        found |= rows_of(read(path, target, num_labels=4, batch_rows=batch_rows, rank=rank, world_size=world_size))
    assert found == EXPECTED


@pytest.mark.parametrize("write", [pq.write_table, lambda table, path: feather.write_feather(table, str(path))])
@pytest.mark.parametrize("kind", [pa.int32(), pa.string(), pa.dictionary(pa.int32(), pa.string())])
def test_long_tables(tmp_path, rows_of, write, kind):
    """Rows of (query, item, score) in any order, of numbers, strings or dictionaries, in Parquet and Arrow."""
    lines = [(row, i, s) for row in (2, 0, 3) for i, s in zip(IDS[row], SCORES[row], strict=True)]
    columns = [pa.array([str(line[place]) for line in lines]) for place in (0, 1)]
    columns = [one.cast(pa.int32()) if kind == pa.int32() else one.cast(kind) for one in columns]
    table = pa.table([*columns, pa.array([line[2] for line in lines])], ["query", "item", "score"])
    write(table, tmp_path / "p.parquet")
    target = pa.table({"query": [3, 2, 0, 2, 1], "item": [3, 0, 1, 2, 2]})
    pq.write_table(target, tmp_path / "y.parquet")
    dataset = read(tmp_path / "p.parquet", tmp_path / "y.parquet", num_labels=4)
    assert (dataset.row_names, dataset.missing_queries) == (["3", "2", "0"], 1)
    assert rows_of(dataset) == {0: EXPECTED[3], 1: EXPECTED[2], 2: EXPECTED[0]}


def test_a_data_set_of_hugging_face(tmp_path, target, rows_of):
    """What save_to_disk leaves is read in the order of its state; splits and files of indices are refused."""
    folder = tmp_path / "saved" / "test"
    folder.mkdir(parents=True)
    table = pa.table({"ids": IDS, "scores": SCORES})
    names = ["data-00000-of-00002.arrow", "data-00001-of-00002.arrow"]
    for name, part in zip(names, (table.slice(0, 3), table.slice(3)), strict=True):
        with pa.ipc.new_stream(folder / name, part.schema) as file:
            file.write_table(part)
    state = {"_data_files": [{"filename": name} for name in names], "_fingerprint": "x"}
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "dataset_info.json").write_text("{}")
    assert rows_of(read(folder, target, num_labels=4)) == EXPECTED
    (tmp_path / "saved" / "dataset_dict.json").write_text('{"splits": ["test"]}')
    with pytest.raises(DataFileError, match="holds the splits test"):
        read(tmp_path / "saved", target)
    (folder / "state.json").write_text(json.dumps(state | {"_indices_files": [{"filename": "indices.arrow"}]}))
    with pytest.raises(DataFileError, match="keeps its order in a file of indices"):
        read(folder, target)
    for name in ("../../y.parquet", "..", str(folder / names[0]), "below/data.arrow", ""):
        (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name}]}))
        with pytest.raises(DataFileError, match="names the file .* outside of its folder"):
            read(folder, target)
    (folder / "state.json").write_text('{"_data_files": [{"filename": 7}]}')
    with pytest.raises(DataFileError, match="cannot be read as the state of a data set"):
        read(folder, target)


@pytest.mark.parametrize(
    "form", ["named.csv", "unnamed.csv", "y.jsonl", "y.parquet", "frame", "dict", "y.json", "y.qrels", "lists.parquet"]
)
def test_a_rating_can_be_left_out(tmp_path, form):
    """``Columns(gain="none")``: nDCG is binary. The list c, b, a has two of the three films of u at ranks 2 and 3."""
    lines = [("u", "a", 5), ("u", "b", 1), ("u", "d", 3)]
    frame = pd.DataFrame(lines, columns=["user", "item", "rating"])
    path = tmp_path / form.removeprefix("un")
    if form.endswith("csv"):
        frame.to_csv(path, index=False, header=form.startswith("named"))
    elif form == "y.jsonl":
        frame.to_json(path, orient="records", lines=True)
    elif form == "y.parquet":
        frame.to_parquet(path)
    elif form == "y.qrels":
        path.write_text("".join(f"{query} 0 {item} {gain}\n" for query, item, gain in lines))
    elif form == "lists.parquet":
        pq.write_table(pa.table({"query": ["u"], "labels": [["a", "b", "d"]], "gains": [[5.0, 1.0, 3.0]]}), path)
    by_query = {"u": {item: gain for _, item, gain in lines}}
    if form == "y.json":
        path.write_text(json.dumps(by_query))
    target = {"frame": frame, "dict": by_query}.get(form, path)
    preds = {"u": {"c": 3.0, "b": 2.0, "a": 1.0}}
    metric = NDCGAtK(k=3)
    for batch in read(preds, target, columns=(None, Columns(gain="none"))):
        metric.update(batch.preds, batch.target)
    second, third = 1 / math.log2(3), 1 / math.log2(4)
    assert metric.compute() == pytest.approx((second + third) / (1 + second + third))
