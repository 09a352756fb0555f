"""Lines out of core: what does not fit into the memory given is spilled, and nothing is left behind."""

import gc
import gzip
import os
import random
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse

from tailmetrics.io import DataFileError, loading, read
from tailmetrics.io.database import _IDLE, Database, bytes_of


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """Let temporary files lie in a folder of the test."""
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    return tmp_path / "scratch"


def test_lines_in_any_order_and_little_memory(tmp_path, scratch):
    """Shuffled lines with 64 MiB are the rows that a plain loop collects; the folder goes with the data set."""
    source = random.Random(0)
    lines = [(f"q{number % 997}", f"d{number * 7919 % 60013}", source.random()) for number in range(120_000)]
    source.shuffle(lines)
    (tmp_path / "a.run").write_text("".join(f"{q} Q0 {d} 1 {s!r} me\n" for q, d, s in lines))
    (tmp_path / "a.qrels").write_text("".join(f"q{number} 0 d{number} 1\n" for number in range(0, 900, 3)))
    expected = {f"q{number}": {} for number in range(0, 900, 3)}
    for query, document, score in lines:
        if query in expected:
            expected[query][document] = float(np.float32(score))
    dataset = read(tmp_path / "a.run", tmp_path / "a.qrels", memory="64MiB")
    assert list(scratch.iterdir())
    found = {}
    for batch in dataset:
        scores, ids = batch.preds
        for row, some, labels in zip(batch.rows.tolist(), scores.tolist(), ids.tolist(), strict=True):
            pairs = zip(some, labels, strict=True)
            found[dataset.row_names[row]] = {dataset.label_names[label]: score for score, label in pairs if label >= 0}
    assert found == expected
    del dataset, batch
    gc.collect()
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("order", ["of the target", "of lists", "of lines"])
def test_lines_of_a_list_keep_their_order(tmp_path, order):
    """Lists come out line by line, whether the files have one order, only their queries differ in it, or lines do."""
    source = np.random.default_rng(0)
    lists = {f"q{row}": [f"d{item}" for item in source.permutation(10**6)[:3000]] for row in range(20)}
    lines = [(query, item, -float(place)) for query, items in lists.items() for place, item in enumerate(items)]
    if order == "of lists":
        lines = [line for start in range(0, len(lines), 3000)[::-1] for line in lines[start : start + 3000]]
    if order == "of lines":
        lines = sorted(lines, key=lambda line: -line[2])
    (tmp_path / "p.csv").write_text("query,item,score\n" + "".join(f"{q},{d},{s}\n" for q, d, s in lines))
    (tmp_path / "y.csv").write_text("query,item\n" + "".join(f"{query},{items[7]}\n" for query, items in lists.items()))
    for rank in (0, 1):
        dataset = read(tmp_path / "p.csv", tmp_path / "y.csv", rank=rank, world_size=2, batch_rows=7)
        for batch in dataset:
            for row, scores, ids in zip(batch.rows.tolist(), *(part.tolist() for part in batch.preds), strict=True):
                assert scores == [-float(place) for place in range(3000)]
                assert [dataset.label_names[label] for label in ids] == lists[f"q{row}"]


@pytest.mark.slow
def test_more_queries_than_fit(tmp_path):
    """A million queries of one line each, in another order in both files, are joined within 64 MiB and come in order."""
    queries = np.random.default_rng(0).permutation(1_000_000)
    (tmp_path / "y.csv").write_text("query,item\n" + "".join(f"user{query},i{query % 7}\n" for query in range(10**6)))
    lines = "".join(f"user{query},i{query % 7},1\n" for query in queries.tolist())
    (tmp_path / "p.csv").write_text("query,item,score\n" + lines)
    dataset = read(tmp_path / "p.csv", tmp_path / "y.csv", memory="64MiB")
    assert (dataset.num_rows, dataset.row_names[999_999]) == (10**6, "user999999")
    for batch in dataset:
        assert batch.preds[1][:, 0].tolist() == batch.target[:, 0].tolist() == [row % 7 for row in batch.rows.tolist()]


def test_nothing_is_left_after_an_error(tmp_path, scratch):
    """An error of a line is raised as it is, and its folder goes."""
    (tmp_path / "a.run").write_text("q Q0 d 1 1 me\nq Q0 d 1 high me\n")
    (tmp_path / "a.qrels").write_text("q 0 d 1\n")
    with pytest.raises(DataFileError, match=r"a\.run, line 2: score 'high' is not a number") as caught:
        read(tmp_path / "a.run", tmp_path / "a.qrels")
    del caught
    gc.collect()
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(
    ("memory", "found"),
    [("2GB", 2 * 10**9), ("512 MiB", 2**29), ("100000000B", 10**8), ("1.5gb", 15 * 10**8), ("1TB", 10**12)],
)
def test_sizes(memory, found):
    """A size is a number with its unit, of 1000 or, with an i, of 1024."""
    assert bytes_of(memory) == found


@pytest.mark.parametrize(
    ("memory", "problem"), [("much", "is no size"), ("2", "is no size"), ("-1GB", "is no size"), ("1MB", "too little")]
)
def test_sizes_that_are_refused(memory, problem):
    """What is no size, or less than is needed, is an error that names the argument."""
    with pytest.raises(ValueError, match=f"read: memory='{memory}' .*{problem}|memory='{memory}' is {problem}"):
        Database(memory)


def test_what_the_database_refuses_is_an_error_of_ours():
    """Too little memory says so, and names the argument; another failure is one line."""
    database = Database("64MiB")
    with pytest.raises(ValueError, match=r"read: memory='64MiB' is too little for these files \(.*\); give more"):
        database.run("SELECT list(random()::VARCHAR || range) FROM range(20_000_000)")
    with pytest.raises(OSError, match="DuckDB: .*nothing"):
        database.run("SELECT * FROM nothing")


def test_a_database_begins_empty_whoever_used_duckdb_before(scratch):
    """Two that are open at a time share nothing; a later one finds no table, be it after spilling or in a child; large ones end."""
    _IDLE.clear()
    one, other = Database(), Database("100MB")
    one.run("CREATE TABLE a AS SELECT 1 AS b")
    other.run("CREATE TABLE a AS SELECT hash(range)::VARCHAR AS b FROM range(2_000_000) ORDER BY b")
    assert one.row("SELECT count(*) FROM a") == (1,)
    one.run("INSERT INTO a FROM range(100_000)")
    assert list(scratch.rglob("spilled"))
    del one, other
    assert not _IDLE
    for _ in range(3):
        database = Database()
        assert database.row("SELECT count(*) FROM duckdb_tables()") == (0,)
        assert database.row("SELECT current_setting('memory_limit')") == ("953.6 MiB",)
        del database
        assert _IDLE
    if hasattr(os, "fork"):
        child = os.fork()
        if not child:
            os._exit(int(Database().row("SELECT 1") != (1,)))
        assert os.waitpid(child, 0)[1] == 0


def test_a_watcher_hears_what_is_done_and_how_far_it_is(monkeypatch):
    """From the beginning of a statement, and again while it runs."""
    heard = []
    monkeypatch.setattr("tailmetrics.io.database.LOOK_SECONDS", 0.001)
    database = Database(on_progress=lambda step, share: heard.append((step, share)))
    database.run("CREATE TABLE a AS SELECT range AS b FROM range(3_000_000) ORDER BY hash(range)", doing="sorting")
    assert heard[0] == ("sorting", 0.0)
    assert len(heard) > 1
    assert all(0 <= share <= 1 for _, share in heard)


ROOM = 12
"""Entries of a row that the memory of the tests below has room for."""


@pytest.fixture
def scarce(monkeypatch):
    """Let an entry take so much that 64 MiB have room for a row of a few."""
    monkeypatch.setattr(loading, "ENTRY_BYTES", 3 * 2**26 // ROOM)


@pytest.mark.parametrize("form", ["csv.gz", "long.parquet", "lists.parquet", "arrow", "npz", "xmc"])
def test_a_row_beyond_the_memory_is_refused(tmp_path, scarce, form):
    """One query of many lines, or a long list, is named before it is sorted; as many as there is room for are read."""
    target = tmp_path / "y.csv" if form in ("csv.gz", "long.parquet") else tmp_path / "y.npy"
    target.write_text("query,item\nq,1\nr,2\n")
    if target.suffix == ".npy":
        np.save(target, np.array([1, 2]))
    for length in (ROOM, ROOM + 1):
        path = tmp_path / f"{length}.{form}"
        write_rows(path, form, [("q", 2), ("r", length)])
        if length == ROOM:
            batches = read(path, target, num_labels=40, memory="64MiB")
            assert [len(batch.rows) for batch in batches] == [2]
        else:
            named = "'r'" if form in ("csv.gz", "long.parquet") else "row 1|line 3"
            said = rf"({named}).*: holds 13 entries, and --memory 64MiB has room for 12; a row is read as a whole"
            with pytest.raises(DataFileError, match=said):
                list(read(path, target, num_labels=40, memory="64MiB"))


def write_rows(path, form, lengths):
    """Write rows of the labels 0, 1, … for each query and length."""
    lists = [list(range(length)) for _, length in lengths]
    lines = [(query, item) for (query, _), some in zip(lengths, lists, strict=True) for item in some]
    if form == "csv.gz":
        with gzip.open(path, "wt") as file:
            file.write("query,item,score\n" + "".join(f"{query},{item},1\n" for query, item in lines))
    elif form == "long.parquet":
        queries, items = zip(*lines, strict=True)
        pq.write_table(pa.table({"query": queries, "item": items, "score": [1.0] * len(lines)}), path)
    elif form == "npz":
        rows, columns = zip(*((row, label) for row, some in enumerate(lists) for label in some), strict=True)
        scipy.sparse.save_npz(path, scipy.sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), (len(lists), 40)))
    elif form == "xmc":
        path.write_text(f"{len(lists)} 40\n" + "".join(" ".join(f"{one}:1" for one in some) + "\n" for some in lists))
    else:
        (pq.write_table if "parquet" in form else write_arrow)(pa.table({"ids": lists}), path)


def write_arrow(table, path):
    """Write an Arrow file."""
    with pa.ipc.new_file(path, table.schema) as file:
        file.write_table(table)


@pytest.mark.parametrize(("form", "options"), [("parquet", {}), ("arrow", {"compression": "zstd"})])
def test_equal_numbers_that_take_no_room_in_a_file_are_read_in_small_batches(tmp_path, form, options):
    """Rows of 5,000 labels in a file of some kilobytes: the memory tells how many are read at a time."""
    ids = pa.ListArray.from_arrays(pa.array(range(0, 2_000_001, 5000), pa.int32()), pa.array(np.zeros(2_000_000, int)))
    path, table = tmp_path / f"p.{form}", pa.table({"ids": ids})
    if form == "parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as file:
            file.write_table(table)
    np.save(tmp_path / "y.npy", np.zeros(400, int))
    assert path.stat().st_size < 20_000
    dataset = read(path, tmp_path / "y.npy", num_labels=9, memory="64MiB")
    assert dataset.batch_rows * 5000 <= loading.BATCH_CELLS * 2**26 / 10**9  # as much less as the memory is


def test_a_list_beyond_the_memory_is_refused_before_it_is_read(tmp_path, scarce, monkeypatch):
    """The end of a Parquet file tells how long its lists are."""
    write_rows(tmp_path / "p.parquet", "lists.parquet", [("q", ROOM + 1)])
    np.save(tmp_path / "y.npy", np.array([1]))
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", None)
    with pytest.raises(DataFileError, match="p.parquet, the longest row: holds 13 entries"):
        read(tmp_path / "p.parquet", tmp_path / "y.npy", num_labels=40, memory="64MiB")
