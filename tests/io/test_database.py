"""Lines out of core: what does not fit into the memory given is spilled, and nothing is left behind."""

import gc
import os
import random
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tailmetrics.io import DataFileError, read
from tailmetrics.io.database import _IDLE, WATCHER, Database, bytes_of
from tailmetrics.io.lines import KeyedFile, Triples


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
def test_lines_of_a_list_keep_their_order(tmp_path, order, monkeypatch):
    """Lists come out line by line, whether the files have one order, only their queries differ in it, or lines do."""
    monkeypatch.setattr("tailmetrics.io.join.COUNTED_ROWS", 11)
    source = np.random.default_rng(0)
    lists = {f"q{row}": [f"d{item}" for item in source.permutation(10**6)[:3000]] for row in range(40)}
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
    token = WATCHER.set(lambda what, share: heard.append((what, share)))
    try:
        Database().run(
            "CREATE TABLE a AS SELECT range AS b FROM range(3_000_000) ORDER BY hash(range)", doing="sorting"
        )
    finally:
        WATCHER.reset(token)
    assert heard[0] == ("sorting", 0.0)
    assert len(heard) > 1
    assert all(0 <= share <= 1 for _, share in heard)


def test_what_the_lines_raise_is_raised():
    """An interrupt while lines are read is no error of the database."""

    def blocks():
        yield Triples(pa.array(["a"]), pa.array(["b"]), None, str)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        KeyedFile(Path("a"), [(Path("a"), blocks)]).load(Database(), "lines_of")
