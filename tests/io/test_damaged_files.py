"""Files damaged anywhere."""

import random
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import torch

import processes
from tailmetrics.io import DataFileError, read

pytestmark = pytest.mark.filterwarnings("ignore::tailmetrics.io.DataFileNote")

FORMS = ["npz", "npy", "pt", "parquet", "txt", "run", "jsonl", "csv"]
JOINED = ("run", "jsonl", "csv")
"""Forms whose lines a database joins, which takes fifty times as long as to read the others."""


@pytest.fixture
def written(tmp_path):
    """Return a function that writes predictions in a format and returns them and a target that fits."""
    scores = np.array([[0.5, 0.0, 2.0], [1.0, 0.25, 0.0]], np.float32)
    lines = [(f"q{row}", label, scores[row, label]) for row in range(2) for label in range(3)]
    writers = {
        "npz": lambda path: sp.save_npz(path, sp.csr_matrix(scores)),
        "npy": lambda path: np.save(path, scores),
        "pt": lambda path: torch.save(torch.from_numpy(scores), path),
        "parquet": lambda path: pq.write_table(pa.table({"ids": [[0, 2], [1]], "scores": [[1.0, 0.5], [2.0]]}), path),
        "txt": lambda path: path.write_text("2 3\n0:0.5 2:2\n0:1 1:0.25\n"),
        "run": lambda path: path.write_text("".join(f"{q} Q0 {item} 1 {score} x\n" for q, item, score in lines)),
        "jsonl": lambda path: path.write_text(
            "".join(f'{{"query": "{q}", "item": {item}, "score": {score}}}\n' for q, item, score in lines)
        ),
        "csv": lambda path: path.write_text(
            "query,item,score\n" + "".join(f"{q},{item},{score}\n" for q, item, score in lines)
        ),
    }

    def written(form):
        writers[form](tmp_path / f"good.{form}")
        if form in JOINED:
            (tmp_path / "target.csv").write_text("query,item\nq0,2\nq1,0\n")
            return tmp_path / f"good.{form}", tmp_path / "target.csv"
        np.save(tmp_path / "target.npy", [2, 0])
        return tmp_path / f"good.{form}", tmp_path / "target.npy"

    return written


def fewer(number, form):
    """Return two fifths of a number for forms that are joined."""
    return number * 2 // 5 if form in JOINED else number


def read_or_refuse(preds, target):
    """Read everything; a DataFileError that names the file and gives a hint is the only error there may be."""
    refused = None
    try:
        for batch in read(preds, target, batch_rows=1):
            assert len(batch.target) == len(batch.rows) == 1
    except DataFileError as error:
        refused = error
    assert refused is None or (refused.path in (preds, target) and refused.hint and "\n" not in str(refused))
    return refused is None


@pytest.mark.parametrize("form", FORMS)
def test_a_file_cut_anywhere(written, tmp_path, form):
    """A file cut at any byte is refused with a DataFileError, or, text that ends in a whole line, still read."""
    good, target = written(form)
    assert read_or_refuse(good, target)
    content = good.read_bytes()
    cut = tmp_path / f"cut.{form}"
    for length in range(0, len(content), max(1, len(content) // fewer(20, form))):
        cut.write_bytes(content[:length])
        assert not read_or_refuse(cut, target) or form in ("txt", *JOINED)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.filterwarnings("ignore")  # numpy and torch warn about odd headers before they refuse them
@pytest.mark.slow
def test_a_byte_changed_anywhere(written, tmp_path, form):
    """A file with any byte changed is read or refused with a DataFileError: no other error comes out."""
    good, target = written(form)
    content = good.read_bytes()
    source = random.Random(1)
    changed = tmp_path / f"changed.{form}"
    for _ in range(fewer(40, form)):
        at = source.randrange(len(content))
        changed.write_bytes(content[:at] + bytes([source.randrange(256)]) + content[at + 1 :])
        read_or_refuse(changed, target)


def test_fewer_rows_than_declared(written, monkeypatch):
    """A file that declares more rows than it holds, as a damaged Parquet footer may, is refused, not cut short."""
    from tailmetrics.io.tables import ListSource

    original = ListSource.batches
    for lost in (1, 2):
        monkeypatch.setattr(ListSource, "batches", lambda self, a, b, size, n=lost: original(self, a, b - n, size))
        with pytest.raises(DataFileError, match=rf"ends after {2 - lost} rows, but declares 2"):
            list(read(*written("parquet")))


def test_the_error_survives_pickling():
    """A DataFileError sent from another process keeps its parts."""
    import pickle

    error = DataFileError("a.npy", "is empty", "row 3", "write it again.")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) == "a.npy, row 3: is empty; write it again."
    assert (again.path, again.where, again.hint) == (error.path, "row 3", "write it again.")


def test_a_package_that_is_not_installed(written, monkeypatch):
    """Without pyarrow its formats are refused with what to install; the others are read all the same."""
    paths = {form: written(form) for form in ("parquet", "csv", "npy")}
    for name in ("tables", "text", "lines"):
        monkeypatch.delitem(sys.modules, f"tailmetrics.io.{name}", raising=False)
    for name in ("pyarrow", "pyarrow.compute", "pyarrow.csv", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(DataFileError, match="needs the package pyarrow") as caught:
        read(*paths["parquet"])
    assert "tailmetrics[cli]" in caught.value.hint
    with pytest.raises(ModuleNotFoundError, match=r"the package pyarrow: pip install 'tailmetrics\[cli\]'"):
        read(*paths["csv"])
    assert len(list(read(*paths["npy"]))) == 1


@pytest.mark.slow
def test_importing_the_readers_does_not_import_pyarrow():
    """The readers load pyarrow only when a file needs it."""
    assert processes.found_by("import sys, tailmetrics.io; found = {*sys.modules} & {'tailmetrics.io', 'pyarrow'}") == {
        "tailmetrics.io"
    }


@pytest.mark.parametrize(
    ("column", "ends"), [([["aa"], ["bb"]], [0, 2, 4]), ([[3, 1], [2]], [0, 2, 3])], ids=["strings", "lists"]
)
def test_an_offset_outside_of_an_arrow_file_is_refused(tmp_path, column, ends):
    """Arrow maps offsets as they are: one beyond the end would let the process die."""
    table = pa.table({"labels": column})
    with pa.OSFile(str(tmp_path / "y.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    data = bytearray((tmp_path / "y.arrow").read_bytes())
    place = data.index(np.array(ends, np.int32).tobytes())
    data[place + 8 : place + 12] = np.int32(2**30).tobytes()
    (tmp_path / "y.arrow").write_bytes(data)
    pq.write_table(pa.table({"ids": column}), tmp_path / "p.parquet")
    with pytest.raises(DataFileError, match="y.arrow: cannot be read as Arrow"):
        list(read(tmp_path / "p.parquet", tmp_path / "y.arrow"))
