"""Files in stores: a server that speaks S3 on this machine, and the stores that fsspec knows."""

import gzip
import os
import urllib.request
from types import SimpleNamespace

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from tailmetrics.cli import main
from tailmetrics.cli.inputs import fingerprint
from tailmetrics.io import DataFileError, read
from tailmetrics.io.files import find, path_of

ROWS = [([0, 1], [0.5, 0.25]), ([2], [1.0]), ([1, 2], [0.5, 0.75])]
LABELS = [[1], [2], [0]]
EXPECTED = {row: (dict(zip(ids, scores, strict=True)), LABELS[row]) for row, (ids, scores) in enumerate(ROWS)}
SECRETS = {"AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": "very-secret", "AWS_EC2_METADATA_DISABLED": "true"}


def lists(rows):
    return pa.table({"ids": [ids for ids, _ in rows], "scores": [scores for _, scores in rows]})


def fill(write):
    """Write the same rows in several layouts; ``write`` takes a path and returns a file to be written."""
    for number, row in enumerate(ROWS):
        with write(f"parts/part-{number}.parquet") as file:
            pq.write_table(lists([row]), file)
    with write("y.parquet") as file:
        pq.write_table(pa.table({"labels": LABELS}), file)
    with write("y.npy") as file:
        padded = np.array(LABELS)
        file.write(b"\x93NUMPY\x01\x00" + _header(padded) + padded.tobytes())
    lines = "".join(
        f"q{q} Q0 {i} 1 {s} me\n" for q, (ids, scores) in enumerate(ROWS) for i, s in zip(ids, scores, strict=True)
    )
    with write("runs/a.run.gz") as file:
        file.write(gzip.compress(lines.encode()))
    with write("runs/a.qrels") as file:
        file.write("".join(f"q{q} 0 {labels[0]} 1\n" for q, labels in enumerate(LABELS)).encode())
    with write("runs/_SUCCESS") as file:
        file.write(b"x")


def _header(array):
    text = f"{{'descr': '<i8', 'fortran_order': False, 'shape': {array.shape}, }}"
    text = text.ljust(117) + "\n"
    return len(text).to_bytes(2, "little") + text.encode()


@pytest.fixture(scope="module")
def s3():
    """Return the options of an address on a server with the files in the bucket ``data``."""
    moto = pytest.importorskip("moto.server")
    before = {name: os.environ.get(name) for name in SECRETS}
    os.environ.update(SECRETS)
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    system = fs.S3FileSystem(
        endpoint_override=f"{host}:{port}", scheme="http", region="us-east-1", allow_bucket_creation=True
    )
    system.create_dir("data")
    fill(lambda path: system.open_output_stream(f"data/{path}", compression=None))
    yield f"endpoint_override={host}:{port}&scheme=http&region=us-east-1"
    server.stop()
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})


@pytest.fixture(scope="module")
def memory():
    """Fill fsspec's store in memory."""
    system = fsspec.filesystem("memory")
    fill(lambda path: system.open(f"/data/{path}", "wb"))
    yield
    system.rm("/data", recursive=True)


def check_layouts(address, rows_of):
    """Hold every layout of a store to the rows; ``address`` returns that of a path."""
    for preds in ("parts", "parts/part-*.parquet", "parts/part-[0-2].parquet", "**/part-?.parquet"):
        for target in ("y.parquet", "y.npy"):
            found = {}
            for rank in (0, 1):
                found |= rows_of(read(address(preds), address(target), num_labels=3, rank=rank, world_size=2))
            assert found == EXPECTED
    dataset = read(address("runs/a.run.gz"), address("runs/*.qrels"))
    assert (dataset.row_names, dataset.label_names) == (["q0", "q1", "q2"], ("2", "1", "0"))
    assert rows_of(dataset)[1] == ({0: 1.0}, {0: 1.0})


def test_a_server_of_s3(s3, rows_of):
    """Folders, patterns, arrays and compressed lines are read from S3, with credentials from the environment."""
    check_layouts(lambda path: f"s3://data/{path}?{s3}", rows_of)
    with_key = f"s3://me:very-secret@data/parts?{s3}"
    assert rows_of(read([with_key], f"s3://data/y.parquet?{s3}", num_labels=3)) == EXPECTED


def test_a_scheme_of_fsspec(memory, rows_of):
    """What pyarrow does not know is opened by fsspec."""
    check_layouts(lambda path: f"memory://data/{path}", rows_of)


def test_what_a_store_refuses(s3):
    """Absent buckets, files and matches, and wrong addresses are one error that shows no credentials."""
    for path, problem in (
        ("s3://me:very-secret@data/none.parquet", "s3://data/none.parquet: there is no such file"),
        ("s3://me:very-secret@nothing/none.parquet", "s3://nothing/none.parquet: there is no such file"),
        ("s3://me:very-secret@data/parts/*.csv", r"s3://data/parts/\*.csv: no file matches"),
        ("nonsense://data/a", "nonsense://data/a: cannot be opened: Protocol not known"),
    ):
        options = f"?{s3}" if path.startswith("s3") else ""
        with pytest.raises(DataFileError, match=problem) as caught:
            read(path + options, path + options)
        assert caught.value.hint
        assert "secret" not in f"{caught.value} {caught.value.hint}"


def test_wrong_credentials(s3, capsys):
    """Where the server refuses the key, the command line says so in one line, with what to do."""
    host = s3.partition("=")[2].partition("&")[0]

    def demand(count):
        request = urllib.request.Request(
            f"http://{host}/moto-api/reset-auth", data=count, method="POST", headers={"Content-Type": "text/plain"}
        )
        with urllib.request.urlopen(request) as answer:
            answer.read()

    demand(b"0")
    try:
        words = ["--preds", f"s3://data/parts?{s3}", "--target", f"s3://data/y.parquet?{s3}", "--preset", "recsys"]
        assert main(["evaluate", *words]) == 2
    finally:
        demand(b"inf")
    error, hint = capsys.readouterr().err.splitlines()[-2:]
    assert error.startswith("error: s3://data/parts: cannot be opened: ")
    assert "ACCESS_DENIED" in error
    assert hint.startswith("hint: check the address, the credentials and the network")


def test_processes_compare_files_of_a_store(s3):
    """What processes agree on is the size of a file in a store, and a digest of what the store tells of it."""
    (part, other, *_) = find(f"s3://data/parts?{s3}").parts
    size = path_of(f"s3://data/parts/part-0.parquet?{s3}").facts["size"]
    assert fingerprint(part.path).startswith(f"{size:,} bytes, ")
    assert fingerprint(part.path) != fingerprint(other.path)


@pytest.mark.parametrize(
    ("address", "raised", "advice"),
    [
        ("gs://bucket/a", OSError("no token error_info={reason=x}"), "set GOOGLE_APPLICATION_CREDENTIALS"),
        ("gs://bucket/a?anonymous=1", pa.ArrowException("no token"), "set GOOGLE_APPLICATION_CREDENTIALS"),
    ],
)
def test_what_a_store_lacks_is_named(address, raised, advice, monkeypatch):
    """One sentence without the details of the client, and what to set; Google's gives up within seconds."""
    from tailmetrics.io import files

    asked = []

    def refuse(uri):
        asked.append(uri)
        raise raised

    files._system.cache_clear()
    monkeypatch.setattr(fs, "FileSystem", SimpleNamespace(from_uri=refuse))
    with pytest.raises(DataFileError) as error:
        read(address, address)
    assert error.value.problem == f"cannot be opened: {str(raised).partition(' error_info')[0]}"
    assert error.value.hint.startswith(advice)
    assert all(("retry_limit_seconds=" in uri) == uri.startswith("gs") for uri in asked)
