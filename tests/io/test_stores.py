"""Files in remote stores, and errors for addresses that cannot be opened."""

import gzip
from types import SimpleNamespace

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from tailmetrics.io import DataFileError, read

ROWS = [([0, 1], [0.5, 0.25]), ([2], [1.0]), ([1, 2], [0.5, 0.75])]
LABELS = [[1], [2], [0]]
EXPECTED = {
    row: (dict(zip(ids, scores, strict=True)), LABELS[row])
    for row, (ids, scores) in enumerate(ROWS)
}


def lists(rows):
    return pa.table(
        {"ids": [ids for ids, _ in rows], "scores": [scores for _, scores in rows]}
    )


@pytest.fixture(scope="module")
def memory():
    """Fill fsspec's store in memory with the same rows in several layouts, and return a
    function from path to address.
    """
    system = fsspec.filesystem("memory")
    for number, row in enumerate(ROWS):
        with system.open(f"/data/parts/part-{number}.parquet", "wb") as file:
            pq.write_table(lists([row]), file)
    with system.open("/data/y.parquet", "wb") as file:
        pq.write_table(pa.table({"labels": LABELS}), file)
    with system.open("/data/y.npy", "wb") as file:
        np.save(file, np.array(LABELS))
    run = "".join(
        f"q{q} Q0 {i} 1 {s} me\n"
        for q, row in enumerate(ROWS)
        for i, s in zip(*row, strict=True)
    )
    qrels = "".join(f"q{q} 0 {labels[0]} 1\n" for q, labels in enumerate(LABELS))
    texts = {
        "a.run.gz": gzip.compress(run.encode()),
        "a.qrels": qrels.encode(),
        "_SUCCESS": b"x",
    }
    for name, text in texts.items():
        system.pipe(f"/data/runs/{name}", text)
    yield "memory://data/{}".format
    system.rm("/data", recursive=True)


def test_files_of_an_fsspec_store_are_read(memory, rows_of):
    """Folders, patterns, arrays and compressed lines are read from a store that pyarrow
    does not know and fsspec does, on each rank.
    """
    for preds in (
        "parts",
        "parts/part-*.parquet",
        "parts/part-[0-2].parquet",
        "**/part-?.parquet",
    ):
        for target in ("y.parquet", "y.npy"):
            rows = {}
            for rank in (0, 1):
                rows |= rows_of(
                    read(
                        memory(preds),
                        memory(target),
                        num_labels=3,
                        rank=rank,
                        world_size=2,
                    )
                )
            assert rows == EXPECTED
    dataset = read(memory("runs/a.run.gz"), memory("runs/*.qrels"))
    assert (dataset.row_names, dataset.label_names) == (
        ["q0", "q1", "q2"],
        ("2", "1", "0"),
    )
    assert rows_of(dataset)[1] == ({0: 1.0}, {0: 1.0})


def test_errors_of_a_store_show_no_credentials(memory):
    """An absent file, a pattern without a match and an unknown protocol raise an error
    with a hint, which shows no credentials of the address.
    """
    for path, problem in (
        (
            "memory://me:very-secret@data/none.parquet",
            "data/none.parquet: there is no such file",
        ),
        (
            "memory://me:very-secret@data/parts/*.csv",
            r"data/parts/\*.csv: no file matches",
        ),
        (
            "nonsense://me:very-secret@data/a",
            "data/a: cannot be opened: Protocol not known",
        ),
    ):
        with pytest.raises(DataFileError, match=problem) as caught:
            read(path, path)
        assert caught.value.hint
        assert "secret" not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize(
    ("address", "raised", "advice"),
    [
        (
            "gs://bucket/a",
            OSError("no token error_info={reason=x}"),
            "set GOOGLE_APPLICATION_CREDENTIALS",
        ),
        (
            "gs://bucket/a?anonymous=1",
            pa.ArrowException("no token"),
            "set GOOGLE_APPLICATION_CREDENTIALS",
        ),
    ],
)
def test_errors_of_a_cloud_client_say_what_to_set(address, raised, advice, monkeypatch):
    """An error of a cloud client becomes one sentence without technical details, with a
    hint on what to set.

    Google's client has a limit on its retries.
    """
    from tailmetrics.io import files

    uris = []

    def refuse(uri):
        uris.append(uri)
        raise raised

    files._system.cache_clear()
    monkeypatch.setattr(fs, "FileSystem", SimpleNamespace(from_uri=refuse))
    with pytest.raises(DataFileError) as error:
        read(address, address)
    assert (
        error.value.problem
        == f"cannot be opened: {str(raised).partition(' error_info')[0]}"
    )
    assert error.value.hint.startswith(advice)
    assert all(("retry_limit_seconds=" in uri) == uri.startswith("gs") for uri in uris)
