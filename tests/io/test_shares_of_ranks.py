"""Rows of files are shared among ranks and regrouped into batches."""

from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, strategies as st

from tailmetrics.io import read, read_target
from tailmetrics.io.rows import Ragged, rebatch, share

IDS = [[0, 2], [1], [], [2, 1], [0], [1, 0, 2], [2]]


@given(st.integers(0, 90), st.integers(1, 9))
def test_shares_cover_every_row_once(num_rows, world_size):
    """Shares follow one another from the first row to the last, and their lengths
    differ by one row at most.
    """
    shares = [share(rank, world_size, num_rows) for rank in range(world_size)]
    assert list(chain.from_iterable(shares)) == list(range(num_rows))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.fixture
def write(tmp_path):
    """Return a function that writes the same rows in a format and returns the path."""
    indptr = np.cumsum([0, *map(len, IDS)])
    flat = np.concatenate(IDS).astype(int)
    padded = np.array([ids + [-1] * (3 - len(ids)) for ids in IDS])
    matrix = sp.csr_matrix((np.ones(len(flat)), flat, indptr), shape=(7, 4))

    def write(form, role):
        path = tmp_path / f"{role}.{form}"
        if form == "npz":
            sp.save_npz(path, matrix)
        elif form == "npy":
            np.save(path, padded)
        elif form == "pt":
            torch.save(torch.from_numpy(padded), path)
        elif form == "parquet":
            table = pa.table(
                {
                    "ids" if role == "preds" else "labels": pa.array(
                        IDS, pa.list_(pa.int64())
                    )
                }
            )
            pq.write_table(table, path, row_group_size=2 if role == "preds" else 3)
        else:
            lines = [" ".join(f"{label}:1" for label in ids) for ids in IDS]
            path.write_text("\n".join(["7 4", *lines]) + "\n")
        return path

    return write


@pytest.mark.parametrize("preds", ["npz", "npy", "pt", "parquet", "xmc"])
@pytest.mark.parametrize("target", ["npz", "npy", "pt", "parquet", "xmc"])
@pytest.mark.parametrize("world_size", [1, 3])
def test_formats_combine_on_any_number_of_ranks(
    write, rows_of, preds, target, world_size
):
    """Each format of predictions goes with each format of targets, and over all ranks
    each row is read once.
    """
    paths = write(preds, "preds"), write(target, "target")
    parts = [
        rows_of(read(*paths, rank=rank, world_size=world_size, batch_rows=2))
        for rank in range(world_size)
    ]
    assert sorted(row for part in parts for row in part) == list(range(7))
    for part in parts:
        for row, (ids, relevant) in part.items():
            assert sorted(ids) == sorted(relevant) == sorted(IDS[row])


@pytest.mark.parametrize("form", ["npz", "npy", "pt", "parquet", "xmc"])
def test_targets_alone_are_shared_among_ranks(write, targets_of, form):
    """Targets that are read alone are the same rows on one rank as on three together,
    and can be read twice.
    """
    whole = read_target(write(form, "target"), batch_rows=2)
    assert targets_of(whole) == targets_of(whole)
    parts = [
        targets_of(read_target(write(form, "target"), rank=rank, world_size=3))
        for rank in range(3)
    ]
    assert {row: value for part in parts for row, value in part.items()} == targets_of(
        whole
    )
    assert sum(map(len, parts)) == 7


@given(st.lists(st.lists(st.integers(0, 3), max_size=6), max_size=6), st.integers(1, 7))
def test_rebatching_keeps_rows_and_order(parts, size):
    """Rows that are regrouped into batches of one size are the same rows in the same
    order.
    """
    numbers = iter(range(1000))
    rows = [
        [[next(numbers) for _ in range(length)] for length in part] for part in parts
    ]
    ragged = [
        Ragged.from_lengths(
            np.array(list(map(len, part)), int), np.array(list(chain(*part)), int)
        )
        for part in rows
    ]
    batches = list(rebatch(ragged, size))
    assert all(len(batch) == size for batch in batches[:-1])
    rebatched = [batch.ids[batch.offsets[row] : batch.offsets[row + 1]].tolist() for batch in batches
             for row in range(len(batch))]  # fmt: skip
    assert rebatched == list(chain(*rows))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"rank": 2, "world_size": 2}, "rank=2 is too large"),
        ({"rank": -1}, "rank=-1"),
        ({"batch_rows": 0}, "batch_rows=0"),
        ({"missing": "drop"}, "missing='drop'"),
        ({"format": "excel"}, "format='excel'"),
    ],
)
def test_read_refuses_wrong_arguments_by_name(write, options, problem):
    """`read` raises an error that names the argument if an argument is out of range."""
    with pytest.raises(ValueError, match=f"read: {problem}"):
        read(write("npy", "preds"), write("npy", "target"), **options)
