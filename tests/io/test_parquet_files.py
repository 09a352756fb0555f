"""Parquet files with list columns."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailmetrics import RecallAtK
from tailmetrics.io import (
    Columns,
    DataFileError,
    read,
    read_label_names,
    read_target,
    tables,
)

IDS = [[3, 1], [], [0], [2, 4, 1], None, [1], [4]]
SCORES = [[0.5, 0.25], [], [-1.0], [1.0, 2.0, 3.0], None, [0.0], [9.0]]
LABELS = [[1], [2, 3], [], [4, 0], [1], [0, 1, 2, 3, 4], [3]]


@pytest.fixture
def write(tmp_path):
    def write(name, group=3, kind=pa.list_, **columns):
        number = {"ids": pa.int32(), "labels": pa.int32()}
        arrays = {
            column: pa.array(rows, kind(number.get(column, pa.float32())))
            for column, rows in columns.items()
        }
        pq.write_table(pa.table(arrays), tmp_path / name, row_group_size=group)
        return tmp_path / name

    return write


@pytest.mark.parametrize("batch_rows", [1, 2, 4, 100])
@pytest.mark.parametrize("groups", [(3, 2), (7, 1), (2, 7)])
@pytest.mark.parametrize("kind", [pa.list_, pa.large_list])
def test_lists_of_any_length_are_read(write, rows_of, batch_rows, groups, kind):
    """Lists of any length are read row by row, a missing list as an empty one, whatever
    the row groups of the two files and the size of batches.
    """
    preds = write("p.parquet", groups[0], kind, ids=IDS, scores=SCORES)
    target = write("y.parquet", groups[1], kind, labels=LABELS)
    rows = rows_of(read(preds, target, batch_rows=batch_rows))
    scores = [
        dict(zip(ids or [], values or [], strict=True))
        for ids, values in zip(IDS, SCORES, strict=True)
    ]
    assert rows == {row: (scores[row], sorted(LABELS[row])) for row in range(7)}
    ranked = rows_of(
        read(
            write("r.parquet", groups[0], kind, ids=IDS), target, batch_rows=batch_rows
        )
    )
    assert ranked == {row: (IDS[row] or [], sorted(LABELS[row])) for row in range(7)}


def test_lists_of_equal_length_are_read(tmp_path, rows_of):
    """Lists of a fixed size and lists of equal length are read like any other."""
    ids = np.arange(12).reshape(4, 3)
    table = pa.table(
        {"ids": pa.FixedSizeListArray.from_arrays(pa.array(ids.ravel()), 3)}
    )
    pq.write_table(table, tmp_path / "p.parquet")
    pq.write_table(
        pa.table({"labels": ids.tolist()}), tmp_path / "y.parquet", row_group_size=3
    )
    rows = rows_of(read(tmp_path / "p.parquet", tmp_path / "y.parquet", batch_rows=2))
    assert rows == {row: (ids[row].tolist(), ids[row].tolist()) for row in range(4)}


def test_gains_in_custom_columns_are_read(tmp_path, rows_of):
    """Gains are read from columns that the user names, and other columns are not looked
    at.

    Without the number of labels, gains beside ids are refused.
    """
    preds, target = tmp_path / "p.parquet", tmp_path / "y.parquet"
    pq.write_table(pa.table({"a": [[1], [0]], "b": [["x"], ["y"]]}), preds)
    pq.write_table(pa.table({"c": [[1, 2], [0]], "d": [[0.5, 2.0], [1.0]]}), target)
    columns = Columns(ids="a", labels="c", gain="d")
    dataset = read(preds, target, num_labels=3, columns=columns)
    assert rows_of(dataset) == {0: ([1], {1: 0.5, 2: 2.0}), 1: ([0], {0: 1.0})}
    with pytest.raises(DataFileError, match="number of labels is not known") as caught:
        list(read(preds, target, columns=columns))
    assert "--num-labels" in caught.value.hint


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]
)
def test_string_ids_are_numbered_alike_in_both_files(tmp_path, rows_of, kind):
    """Strings are numbered in ascending order over both files, or by label_names; a
    label that label_names lacks is refused.
    """
    preds, target = tmp_path / "p.parquet", tmp_path / "y.parquet"
    pq.write_table(
        pa.table({"ids": pa.array([["b", "a"], ["d"]], pa.list_(kind))}), preds
    )
    pq.write_table(
        pa.table({"labels": pa.array([["c"], ["a", "d"]], pa.list_(pa.string()))}),
        target,
    )
    dataset = read(preds, target)
    assert (dataset.label_names, dataset.num_labels) == (("a", "b", "c", "d"), 4)
    assert rows_of(dataset) == {0: ([1, 0], [2]), 1: ([3], [0, 3])}
    dataset = read(
        preds, target, label_names=["d", "x", "c", "b", "a"], rank=1, world_size=2
    )
    assert rows_of(dataset) == {1: ([0], [0, 4])}
    with pytest.raises(DataFileError, match="row 1: holds the unknown label 'd'"):
        list(read(preds, target, label_names=["a", "b", "c"]))


def test_read_label_names_collects_names_of_several_files(tmp_path, targets_of):
    """`read_label_names` collects the strings of several files in ascending order, and
    returns None for whole numbers.
    """
    for name, column, rows in (
        ("p", "ids", [["b"], ["a"]]),
        ("y", "labels", [["c", "a"], []]),
        ("n", "labels", [[1], [2]]),
    ):
        pq.write_table(pa.table({column: rows}), tmp_path / f"{name}.parquet")
    names = read_label_names([tmp_path / "p.parquet"], tmp_path / "y.parquet")
    assert names == ("a", "b", "c")
    assert targets_of(read_target(tmp_path / "y.parquet", label_names=names)) == {
        0: [0, 2],
        1: [],
    }
    assert read_label_names([], tmp_path / "n.parquet") is None
    assert read_target(tmp_path / "n.parquet", label_names=names).num_labels == 3


def test_ranks_decode_only_the_row_groups_of_their_rows(write, rows_of, monkeypatch):
    """A rank decodes the row groups that hold its rows, and no others."""
    decoded = []
    original = pq.ParquetFile.iter_batches

    def iter_batches(self, *args, row_groups, **kwargs):
        decoded.extend(row_groups)
        return original(self, *args, row_groups=row_groups, **kwargs)

    monkeypatch.setattr(tables.pq.ParquetFile, "iter_batches", iter_batches)
    preds = write("p.parquet", 1, ids=IDS)
    target = write("y.parquet", 1, labels=LABELS)
    for world_size in (2, 3):
        rows, decoded[:] = {}, []
        for rank in range(world_size):
            rows |= rows_of(
                read(preds, target, rank=rank, world_size=world_size, batch_rows=2)
            )
        assert sorted(rows) == list(range(7))
        assert sorted(decoded) == sorted([*range(7), *range(7)])


def test_opening_a_file_decodes_only_its_first_rows(tmp_path, monkeypatch):
    """Opening lists with scores decodes only the first 512 rows, though their row group
    has 20,000.
    """
    decoded = []
    original = pq.ParquetFile.iter_batches

    def iter_batches(self, *args, **kwargs):
        for batch in original(self, *args, **kwargs):
            decoded.append(len(batch))
            yield batch

    monkeypatch.setattr(tables.pq.ParquetFile, "iter_batches", iter_batches)
    ids = pa.array([[0, 1]] * 20_000)
    pq.write_table(
        pa.table({"ids": ids, "scores": pa.array([[0.5, 0.25]] * 20_000)}),
        tmp_path / "p.parquet",
    )
    pq.write_table(pa.table({"labels": ids}), tmp_path / "y.parquet")
    read(tmp_path / "p.parquet", tmp_path / "y.parquet")
    assert sum(decoded) == 512


def test_a_row_group_is_read_in_part(tmp_path):
    """Less than 8 MiB are in memory at any time while a row group of 20 MB is read."""
    ids = np.random.default_rng(0).permuted(
        np.tile(np.arange(128, dtype=np.int32), (40_000, 1)), axis=1
    )
    ids += np.random.default_rng(1).integers(2**20, size=(40_000, 1), dtype=np.int32)
    table = pa.table(
        {
            "ids": pa.FixedSizeListArray.from_arrays(pa.array(ids.ravel()), 128).cast(
                pa.list_(pa.int32())
            )
        }
    )
    pq.write_table(
        table,
        tmp_path / "p.parquet",
        row_group_size=40_000,
        compression="none",
        use_dictionary=False,
    )
    np.save(tmp_path / "y.npy", ids[:, 0])
    del table
    before = pa.total_allocated_bytes()
    allocated = [
        pa.total_allocated_bytes() - before
        for _ in read(tmp_path / "p.parquet", tmp_path / "y.npy", batch_rows=256)
    ]
    assert len(allocated) == 157
    assert max(allocated) < 2**23


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"ids": [[0], [1, None]]}, "row 1: holds a null inside a list"),
        (
            {"ids": [[0], [1, 2]], "scores": [[0.5], [0.5]]},
            "row 1: holds 2 ids but 1 scores",
        ),
        (
            {"ids": [[0], [1, 2]], "scores": [[0.5], [0.5, float("nan")]]},
            "row 1: holds the score nan",
        ),
        ({"ids": [[0], [2, 2]]}, "row 1: holds the label 2 twice"),
        ({"ids": [[0], [5]]}, "row 1: holds the label id 5, but there are 5 labels"),
        ({"ids": [[0], [-1]]}, "row 1: holds the label id -1"),
        (
            {"idz": [[0], [1]], "idy": [[0], [1]]},
            "no column is the ids, none is the score; its columns are 'idz', 'idy'",
        ),
        (
            {f"A{number}": [0.1, 0.2] for number in range(40)},
            "no column is the query, .* 'A7' and 32 more",
        ),
        ({"ids": [0, 1]}, "no column is the query"),
        ({"ids": [[0.5], [1.5]]}, "column 'ids' is list<.*double>"),
        (
            {"ids": [[0], [1]], "scores": [["a"], ["b"]]},
            "column 'scores' is list<.*string>",
        ),
        (
            {"ids": [["a"], ["b"]]},
            "has names of labels, but .*y.parquet has their numbers",
        ),
        ({"ids": [[0], [1], [2]]}, "y.parquet: holds 2 rows, but .*p.parquet holds 3"),
        ({"ids": pa.array([], pa.list_(pa.int64()))}, "p.parquet: holds no rows"),
    ],
)
@pytest.mark.parametrize("batch_rows", [1, 8])
def test_errors_in_lists_name_file_and_row(tmp_path, columns, problem, batch_rows):
    """Nulls, uneven lists, NaN, repeated or unknown ids, wrong types and unequal
    numbers of rows raise an error that names the file, and the row where there is one.
    """
    pq.write_table(pa.table(columns), tmp_path / "p.parquet")
    pq.write_table(pa.table({"labels": [[0], [1]]}), tmp_path / "y.parquet")
    with pytest.raises(DataFileError, match=problem) as caught:
        list(
            read(
                tmp_path / "p.parquet",
                tmp_path / "y.parquet",
                num_labels=5,
                batch_rows=batch_rows,
            )
        )
    assert caught.value.hint


@pytest.mark.parametrize("kind", ["float32", "float64", "float16"])
def test_gains_keep_their_precision(tmp_path, kind):
    """A gain of 0.7 in half, single or double precision is at least a min_gain of 0.7,
    in lines and lists, and in files and frames.
    """
    preds = pd.DataFrame({"query": ["u", "u"], "item": ["a", "b"], "score": [0.9, 0.1]})
    lines = pd.DataFrame({"query": ["u"], "item": ["a"], "gain": np.array([0.7], kind)})
    targets = [lines]
    for nullable in (True, False):  # Spark writes lists that cannot hold nulls
        gains = pa.list_(pa.field("element", pa.from_numpy_dtype(kind), nullable))
        targets.append(
            pa.table(
                {"query": ["u"], "labels": [["a"]], "gains": pa.array([[0.7]], gains)}
            )
        )
    if kind != "float16":
        lines.to_parquet(tmp_path / "lines.parquet")
        targets.append(tmp_path / "lines.parquet")
    for target in targets:
        metric = RecallAtK(k=1, min_gain=0.7)
        for batch in read(preds, target):
            metric.update(batch.preds, batch.target)
        assert float(metric.compute()) == 1
