"""Lines are sorted out of core: what exceeds the memory given is spilled to files, and
the files are removed.
"""

import gc
import gzip
import os
import random
import subprocess
import sys
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
    """Return a folder of the test in which temporary files are created."""
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    return tmp_path / "scratch"


def test_shuffled_lines_are_read_in_little_memory(tmp_path, scratch):
    """Shuffled lines are read with 64 MiB as the rows that a plain loop collects.

    The temporary folder is removed with the data set.
    """
    source = random.Random(0)
    lines = [
        (f"q{number % 997}", f"d{number * 7919 % 60013}", source.random())
        for number in range(120_000)
    ]
    source.shuffle(lines)
    (tmp_path / "a.run").write_text(
        "".join(f"{q} Q0 {d} 1 {s!r} me\n" for q, d, s in lines)
    )
    (tmp_path / "a.qrels").write_text(
        "".join(f"q{number} 0 d{number} 1\n" for number in range(0, 900, 3))
    )
    expected = {f"q{number}": {} for number in range(0, 900, 3)}
    for query, document, score in lines:
        if query in expected:
            expected[query][document] = float(np.float32(score))
    dataset = read(tmp_path / "a.run", tmp_path / "a.qrels", memory="64MiB")
    assert list(scratch.iterdir())
    rows = {}
    for batch in dataset:
        scores, ids = batch.preds
        for row, row_scores, labels in zip(
            batch.rows.tolist(), scores.tolist(), ids.tolist(), strict=True
        ):
            pairs = zip(row_scores, labels, strict=True)
            rows[dataset.row_names[row]] = {
                dataset.label_names[label]: score
                for score, label in pairs
                if label >= 0
            }
    assert rows == expected
    del dataset, batch
    gc.collect()
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("order", ["of the target", "of lists", "of lines"])
def test_lines_of_a_query_keep_their_order(tmp_path, order):
    """Lines of a query keep their order, whether both files have the same order, the
    queries come in another order, or the lines of queries are mixed.
    """
    source = np.random.default_rng(0)
    lists = {
        f"q{row}": [f"d{item}" for item in source.permutation(10**6)[:3000]]
        for row in range(20)
    }
    lines = [
        (query, item, -float(place))
        for query, items in lists.items()
        for place, item in enumerate(items)
    ]
    if order == "of lists":
        lines = [
            line
            for start in range(0, len(lines), 3000)[::-1]
            for line in lines[start : start + 3000]
        ]
    if order == "of lines":
        lines = sorted(lines, key=lambda line: -line[2])
    (tmp_path / "p.csv").write_text(
        "query,item,score\n" + "".join(f"{q},{d},{s}\n" for q, d, s in lines)
    )
    (tmp_path / "y.csv").write_text(
        "query,item\n"
        + "".join(f"{query},{items[7]}\n" for query, items in lists.items())
    )
    for rank in (0, 1):
        dataset = read(
            tmp_path / "p.csv",
            tmp_path / "y.csv",
            rank=rank,
            world_size=2,
            batch_rows=7,
        )
        for batch in dataset:
            for row, scores, ids in zip(
                batch.rows.tolist(),
                *(part.tolist() for part in batch.preds),
                strict=True,
            ):
                assert scores == [-float(place) for place in range(3000)]
                assert [dataset.label_names[label] for label in ids] == lists[f"q{row}"]


@pytest.mark.slow
def test_a_million_queries_are_joined_in_little_memory(tmp_path):
    """A million queries of one line each, which come in another order in each file, are
    joined within 64 MiB, and rows come in the order of the target.
    """
    queries = np.random.default_rng(0).permutation(1_000_000)
    (tmp_path / "y.csv").write_text(
        "query,item\n"
        + "".join(f"user{query},i{query % 7}\n" for query in range(10**6))
    )
    lines = "".join(f"user{query},i{query % 7},1\n" for query in queries.tolist())
    (tmp_path / "p.csv").write_text("query,item,score\n" + lines)
    dataset = read(tmp_path / "p.csv", tmp_path / "y.csv", memory="64MiB")
    assert (dataset.num_rows, dataset.row_names[999_999]) == (10**6, "user999999")
    for batch in dataset:
        assert (
            batch.preds[1][:, 0].tolist()
            == batch.target[:, 0].tolist()
            == [row % 7 for row in batch.rows.tolist()]
        )


def test_an_error_leaves_no_temporary_files(tmp_path, scratch):
    """An error in a line is raised unchanged, and the temporary folder is removed."""
    (tmp_path / "a.run").write_text("q Q0 d 1 1 me\nq Q0 d 1 high me\n")
    (tmp_path / "a.qrels").write_text("q 0 d 1\n")
    with pytest.raises(
        DataFileError, match=r"a\.run, line 2: score 'high' is not a number"
    ) as caught:
        read(tmp_path / "a.run", tmp_path / "a.qrels")
    del caught
    gc.collect()
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        ("2GB", 2 * 10**9),
        ("512 MiB", 2**29),
        ("100000000B", 10**8),
        ("1.5gb", 15 * 10**8),
        ("1TB", 10**12),
    ],
)
def test_memory_is_a_number_with_a_unit(memory, expected):
    """A memory size is a number with its unit, a power of 1000 or, with an i, of
    1024.
    """
    assert bytes_of(memory) == expected


@pytest.mark.parametrize(
    ("memory", "problem"),
    [
        ("much", "is no size"),
        ("2", "is no size"),
        ("-1GB", "is no size"),
        ("1MB", "too little"),
    ],
)
def test_wrong_memory_sizes_are_refused(memory, problem):
    """A memory that is no size, or is less than the reader needs, raises an error that
    names the argument.
    """
    with pytest.raises(
        ValueError,
        match=f"read: memory='{memory}' .*{problem}|memory='{memory}' is {problem}",
    ):
        Database(memory)


def test_errors_of_duckdb_become_errors_of_the_reader():
    """If DuckDB runs out of memory, the error names the argument `memory`; any other
    failure of DuckDB is an OSError of one line.
    """
    database = Database("64MiB")
    with pytest.raises(
        ValueError,
        match=r"read: memory='64MiB' is too little for these files \(.*\); give more",
    ):
        database.run("SELECT list(random()::VARCHAR || range) FROM range(20_000_000)")
    with pytest.raises(OSError, match="DuckDB: .*nothing"):
        database.run("SELECT * FROM nothing")


def test_a_database_starts_empty(scratch):
    """A database starts without tables and with the default memory limit, also while
    another is open, after one that spilled and in a forked child. A large database is
    closed, and a small one is kept for reuse.
    """
    _IDLE.clear()
    first, second = Database(), Database("100MB")
    first.run("CREATE TABLE a AS SELECT 1 AS b")
    second.run(
        "CREATE TABLE a AS SELECT hash(range)::VARCHAR AS b FROM range(2_000_000) ORDER BY b"
    )
    assert first.row("SELECT count(*) FROM a") == (1,)
    first.run("INSERT INTO a FROM range(100_000)")
    assert list(scratch.rglob("spilled"))
    del first, second
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


def test_on_progress_receives_the_step_and_its_share(monkeypatch):
    """`on_progress` receives the step and the share of it that is done, from 0 to 1: at
    the start of a statement, and repeatedly while it runs.
    """
    calls = []
    monkeypatch.setattr("tailmetrics.io.database.LOOK_SECONDS", 0.001)
    database = Database(on_progress=lambda step, share: calls.append((step, share)))
    database.run(
        "CREATE TABLE a AS SELECT range AS b FROM range(3_000_000) ORDER BY hash(range)",
        doing="sorting",
    )
    assert calls[0] == ("sorting", 0.0)
    assert len(calls) > 1
    assert all(0 <= share <= 1 for _, share in calls)


ROOM = 12
"""Entries of a row that fit into the memory of the tests below."""


@pytest.fixture
def scarce(monkeypatch):
    """Let an entry take so much memory that 64 MiB hold a row of `ROOM` entries."""
    monkeypatch.setattr(loading, "ENTRY_BYTES", 3 * 2**26 // ROOM)


@pytest.mark.parametrize(
    "form", ["csv.gz", "long.parquet", "lists.parquet", "arrow", "npz", "xmc"]
)
def test_a_row_larger_than_the_memory_is_refused(tmp_path, scarce, form):
    """A row with more entries than the memory holds is refused, and the error names its
    query, row or line; a row that just fits is read.
    """
    target = (
        tmp_path / "y.csv" if form in ("csv.gz", "long.parquet") else tmp_path / "y.npy"
    )
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
            place = "'r'" if form in ("csv.gz", "long.parquet") else "row 1|line 3"
            problem = rf"({place}).*: holds 13 entries, and --memory 64MiB has room for 12; a row is read as a whole"
            with pytest.raises(DataFileError, match=problem):
                list(read(path, target, num_labels=40, memory="64MiB"))


def write_rows(path, form, lengths):
    """Write rows of the labels 0, 1, … for each query and length."""
    lists = [list(range(length)) for _, length in lengths]
    lines = [
        (query, item)
        for (query, _), items in zip(lengths, lists, strict=True)
        for item in items
    ]
    if form == "csv.gz":
        with gzip.open(path, "wt") as file:
            file.write(
                "query,item,score\n"
                + "".join(f"{query},{item},1\n" for query, item in lines)
            )
    elif form == "long.parquet":
        queries, items = zip(*lines, strict=True)
        pq.write_table(
            pa.table({"query": queries, "item": items, "score": [1.0] * len(lines)}),
            path,
        )
    elif form == "npz":
        rows, columns = zip(
            *((row, label) for row, items in enumerate(lists) for label in items),
            strict=True,
        )
        scipy.sparse.save_npz(
            path,
            scipy.sparse.csr_matrix(
                (np.ones(len(rows)), (rows, columns)), (len(lists), 40)
            ),
        )
    elif form == "xmc":
        path.write_text(
            f"{len(lists)} 40\n"
            + "".join(
                " ".join(f"{label}:1" for label in items) + "\n" for items in lists
            )
        )
    else:
        (pq.write_table if "parquet" in form else write_arrow)(
            pa.table({"ids": lists}), path
        )


def write_arrow(table, path):
    """Write an Arrow file."""
    with pa.ipc.new_file(path, table.schema) as file:
        file.write_table(table)


@pytest.mark.parametrize(
    ("form", "options"), [("parquet", {}), ("arrow", {"compression": "zstd"})]
)
def test_batches_of_compressed_lists_fit_into_the_memory(tmp_path, form, options):
    """The number of rows in a batch follows from the memory, not from the size of the
    file: 400 rows of 5,000 equal labels take less than 20 kB in the file.
    """
    ids = pa.ListArray.from_arrays(
        pa.array(range(0, 2_000_001, 5000), pa.int32()),
        pa.array(np.zeros(2_000_000, int)),
    )
    path, table = tmp_path / f"p.{form}", pa.table({"ids": ids})
    if form == "parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(
            path, table.schema, options=pa.ipc.IpcWriteOptions(**options)
        ) as file:
            file.write_table(table)
    np.save(tmp_path / "y.npy", np.zeros(400, int))
    assert path.stat().st_size < 20_000
    dataset = read(path, tmp_path / "y.npy", num_labels=9, memory="64MiB")
    # in proportion to the memory
    assert dataset.batch_rows * 5000 <= loading.BATCH_CELLS * 2**26 / 10**9


def test_a_parquet_list_larger_than_the_memory_is_refused_unread(
    tmp_path, scarce, monkeypatch
):
    """A Parquet list that is larger than the memory is refused before any row is
    decoded, because the metadata at the end of the file give the lengths of lists.
    """
    write_rows(tmp_path / "p.parquet", "lists.parquet", [("q", ROOM + 1)])
    np.save(tmp_path / "y.npy", np.array([1]))
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", None)
    with pytest.raises(
        DataFileError, match="p.parquet, the longest row: holds 13 entries"
    ):
        read(tmp_path / "p.parquet", tmp_path / "y.npy", num_labels=40, memory="64MiB")


SCRIPT_WITH_ERROR = """
import atexit

connections = []

@atexit.register
def check():
    try:
        connections[0].execute("SELECT 1")
    except Exception as error:
        print(error)

from tailmetrics.io.database import Database

def fail(cause):
    database = Database()
    connections.append(database._owner)
    raise ValueError("wrong data") from cause

cause = KeyError("cause")
cause.__cause__ = ValueError("cause of its cause")
cause.__cause__.__cause__ = cause
fail(cause)
"""


def test_a_database_is_closed_at_exit(tmp_path):
    """At exit, a database in the frames of an uncaught error is closed, also if causes
    of the error form a cycle. About an open one, DuckDB may print lines below the
    error, which stays the last line.
    """
    script = tmp_path / "script.py"
    script.write_text(SCRIPT_WITH_ERROR)
    ended = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 1
    assert ended.stdout == "Connection Error: Connection already closed!\n"
    assert ended.stderr.splitlines()[-1] == "ValueError: wrong data"
