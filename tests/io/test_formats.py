"""One registry of formats: names, suffixes, first lines, compression, damage, and formats of one's own."""

import bz2
import gzip
import itertools
import json
import pickle
import random
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import torch
from pyarrow.feather import write_feather

import processes
from tailmetrics.io import FORMATS, DataFileError, Format, read, read_label_names, read_target, register_format
from tailmetrics.io.database import Triples
from tailmetrics.io.rows import NpzSource
from tailmetrics.io.tables import ListSource

SCORES = np.array([[0.5, 0.0, 2.0], [1.0, 0.25, 0.0]], np.float32)
TRIPLES = [(f"q{row}", label, float(SCORES[row, label])) for row in range(2) for label in (2, 0, 1)]
NAMES = ("query", "item", "score")
BY_ROW = {0: {0: 0.5, 1: 0.0, 2: 2.0}, 1: {0: 1.0, 1: 0.25, 2: 0.0}}
RANKED = {0: [2, 0, 1], 1: [2, 0, 1]}

pytestmark = pytest.mark.filterwarnings("ignore::tailmetrics.io.DataFileNote")


def lines(pattern, triples=TRIPLES):
    """Return a line for each triple; {rank} counts from 1 within its query."""
    return "".join(pattern.format(q=q, i=i, s=s, rank=place % 3 + 1) + "\n" for place, (q, i, s) in enumerate(triples))


WRITERS = {
    "npz": lambda path: sp.save_npz(path, sp.csr_matrix(([*SCORES[0], *SCORES[1]], [0, 1, 2] * 2, [0, 3, 6]), (2, 3))),
    "npy": lambda path: np.save(path, SCORES),
    "pt": lambda path: torch.save(torch.from_numpy(SCORES), path),
    "arrow": lambda path: write_feather(pa.table({"ids": [[0, 1, 2]] * 2, "scores": SCORES.tolist()}), str(path)),
    "long": lambda path: pq.write_table(
        pa.Table.from_pylist([dict(zip(NAMES, row, strict=True)) for row in TRIPLES]), path
    ),
    "parquet": lambda path: pq.write_table(pa.table({"ids": [[0, 1, 2]] * 2, "scores": SCORES.tolist()}), path),
    "trec": lambda path: path.write_text(lines("{q} Q0 {i} 7 {s} me")),
    "msmarco": lambda path: path.write_text(lines("{q}\t{i}\t{rank}")),
    "jsonl": lambda path: path.write_text(lines('{{"query": "{q}", "item": "{i}", "score": {s}}}')),
    "json": lambda path: path.write_text(
        json.dumps({f"q{row}": {label: float(SCORES[row, label]) for label in (2, 0, 1)} for row in range(2)})
    ),
    "mteb": lambda path: path.write_text(
        json.dumps(
            {
                "mteb_model_meta": {},
                "default": {"test": {q: {i: s for p, i, s in TRIPLES if p == q} for q in ("q0", "q1")}},
            }
        )
    ),
    "letor": lambda path: path.write_text("0.5\n2\n0\n0\n1\n0.25\n"),
    "lists": lambda path: path.write_text("id,predicted\nq0,2 0 1\nq1,2 0 1\n"),
    "csv": lambda path: path.write_text("query,item,score\n" + lines("{q},{i},{s}")),
    "tsv": lambda path: path.write_text("query\titem\tscore\n" + lines("{q}\t{i}\t{s}")),
    "xmc": lambda path: path.write_text("2 3\n0:0.5 1:0 2:2\n0:1 1:0.25 2:0\n"),
}
QRELS = "q0 0 2 1\nq1 0 0 1\n"


def write(path, form):
    """Write SCORES in a format; numpy and scipy put a suffix behind names that lack theirs, so the file is renamed."""
    suffixed = path.with_name(f"{path.name}-{form}.{form}")
    WRITERS[form](suffixed)
    return suffixed.rename(path)


def target_for(form, folder):
    """Return targets that go with a format; the lines of LETOR are in an order of their own."""
    if form == "letor":
        path, judged = folder / "target.txt", [("q0", 0), ("q0", 2), ("q0", 1), ("q1", 2), ("q1", 0), ("q1", 1)]
        path.write_text(
            "".join(
                f"{int(pair in (('q0', 2), ('q1', 0)))} qid:{pair[0]} 1:0.5 # docid = {pair[1]}\n" for pair in judged
            )
        )
        return path
    if FORMATS[form].has_queries:
        path = folder / "target.qrels"
        path.write_text(QRELS)
        return path
    np.save(folder / "target.npy", [2, 0])
    return folder / "target.npy"


@pytest.fixture
def preds_of(rows_of):
    """Return a function that reads predictions, each row as a dict by the number of the label, or as a ranked list."""

    def preds_of(path, target, **options):
        dataset = read(path, target, **options)
        names = dataset.label_names
        rows = {row: preds for row, (preds, _) in rows_of(dataset).items()}
        if names is None:
            return rows
        return {row: {int(names[label]): score for label, score in preds.items()} for row, preds in rows.items()}

    return preds_of


def expected(form):
    """Return what SCORES are in a format; lists hold ranks alone."""
    if form in ("msmarco", "lists"):
        return {row: sorted(labels, key=labels.index) for row, labels in RANKED.items()}
    return BY_ROW


def same(found, form):
    """Whether predictions are those of SCORES; of ranks alone, in their order."""
    if form in ("msmarco", "lists"):
        found = {row: sorted(preds, key=lambda label: -preds[label]) for row, preds in found.items()}
    return found == expected(form)


def test_every_format_is_written_here():
    """A format that is registered is tried below."""
    assert {*WRITERS} == {*FORMATS}


@pytest.mark.parametrize("form", WRITERS)
@pytest.mark.slow
def test_a_format_is_told_by_its_first_bytes_or_suffix_or_named(tmp_path, preds_of, form):
    """What has no suffix, or one that nobody knows, is read as what it holds; a suffix may be in capitals; names go first."""
    target = target_for(form, tmp_path)
    first, *more = FORMATS[form].suffixes
    for name in ("predictions", "results.v2", f"p.{first.upper()}", *(f"p.{suffix}" for suffix in more)):
        assert same(preds_of(write(tmp_path / name, form), target), form)
    assert same(preds_of(write(tmp_path / "p.npy", form), target, format=(form, None)), form)


@pytest.mark.parametrize(("form", "codec"), zip(WRITERS, itertools.cycle(["gz", "bz2", "zst"])))
def test_a_compressed_file_is_read_as_what_it_holds(tmp_path, preds_of, form, codec):
    """With the suffix of the codec behind that of the format, or with a name that says nothing of either."""
    target = target_for(form, tmp_path)
    plain = write(tmp_path / "plain", form).read_bytes()
    packed = tmp_path / f"p.{FORMATS[form].suffixes[0]}.{codec}"
    with pa.output_stream(packed, compression={"gz": "gzip", "bz2": "bz2", "zst": "zstd"}[codec]) as file:
        file.write(plain)
    assert same(preds_of(packed, target), form)
    assert same(preds_of(packed.rename(tmp_path / "unnamed"), target), form)


def test_compressed_targets_counts_names_and_filters(tmp_path, rows_of):
    """Every file that is read may be compressed."""
    (tmp_path / "p.run.gz").write_bytes(gzip.compress(lines("{q} Q0 {i} 7 {s} me").encode()))
    (tmp_path / "y.qrels.bz2").write_bytes(bz2.compress(QRELS.encode()))
    (tmp_path / "f.txt.gz").write_bytes(gzip.compress(b"q1 0\n"))
    (tmp_path / "members.qrels.gz").write_bytes(gzip.compress(b"q0 0 2 1\n") + gzip.compress(b"q1 0 0 1\n"))
    files = tmp_path / "p.run.gz", tmp_path / "y.qrels.bz2"
    assert read_label_names(*files) == ("2", "1", "0")
    dataset = read(*files, filter=tmp_path / "f.txt.gz")
    assert rows_of(dataset)[1] == ({0: 0.0, 1: 0.25}, {})
    members = rows_of(read(files[0], tmp_path / "members.qrels.gz"))
    assert members == rows_of(read(*files))


@pytest.mark.parametrize("form", WRITERS)
def test_a_compressed_file_that_is_cut_is_refused(tmp_path, form):
    """Wherever a compressed file ends early, it is refused: the rows before the end are not taken for all of them."""
    target = target_for(form, tmp_path)
    packed = gzip.compress(write(tmp_path / "plain", form).read_bytes())
    cut = tmp_path / f"cut.{FORMATS[form].suffixes[0]}.gz"
    for length in range(1, len(packed), len(packed) // 6):
        cut.write_bytes(packed[:length])
        with pytest.raises(DataFileError):
            list(read(cut, target, format=(form, None)))


def test_a_format_of_ones_own(tmp_path, monkeypatch, rows_of):
    """Registered with a name, a suffix and a function, it is read by suffix, by name and by its first bytes."""
    monkeypatch.setattr("tailmetrics.io.formats.FORMATS", FORMATS)
    monkeypatch.delitem(FORMATS, "pipes", raising=False)

    def open_pipes(asked):
        rows = [line.split("|") for line in asked.path.read_text().splitlines()[1:]]
        query, item = (pa.array([row[column] for row in rows], pa.string()) for column in (0, 1))
        value = np.array([float(row[2]) for row in rows]) if asked.role else None
        yield Triples(query, item, value, lambda index: f"line {index + 2}")

    form = Format(
        name="pipes",
        holds="query|item|value below a line of pipes",
        suffixes=("pipes",),
        opener=open_pipes,
        has_queries=True,
        recognises=lambda head: head.data.startswith(b"|||"),
    )
    register_format(form)
    try:
        for name, named in (("p.pipes", None), ("p", None), ("p.csv", "pipes")):
            (tmp_path / name).write_text("|||\na|x|1\na|y|2\n")
            (tmp_path / f"y{name}").write_text("|||\na|y|1\n")
            dataset = read(tmp_path / name, tmp_path / f"y{name}", format=named)
            assert (dataset.label_names, rows_of(dataset)) == (("x", "y"), {0: ({0: 1.0, 1: 2.0}, {1: 1.0})})
        with pytest.raises(ValueError, match="format='pipe' is not known; choose one of .*'pipes'"):
            read(tmp_path / "p", tmp_path / "yp", format="pipe")
        (tmp_path / "unknown").write_text("\x00")
        with pytest.raises(DataFileError, match="neither its name nor its first lines") as caught:
            read(tmp_path / "unknown", tmp_path / "yp")
        assert "pipes" in caught.value.hint
    finally:
        del FORMATS["pipes"]


def test_every_format_has_a_row_in_the_documentation():
    """The table of formats names each of them."""
    page = (Path(__file__).parents[2] / "docs" / "offline.md").read_text()
    assert not [name for name in FORMATS if f"`{name}`" not in page[page.index("## Formats") :]]


def test_a_source_of_ones_own_reads_rows(tmp_path, rows_of):
    """A format whose rows stand one below the other returns a Source, such as that of another format."""
    register_format(Format(name="matrix", holds="CSR", suffixes=("matrix",), opener=NpzSource))
    try:
        path = write(tmp_path / "p.matrix", "npz")
        assert {row: preds for row, (preds, _) in rows_of(read(path, target_for("npz", tmp_path))).items()} == BY_ROW
        assert len(list(read_target(path))) == 1
    finally:
        del FORMATS["matrix"]


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


def places(form, number):
    """Return how many files to try: a quarter where a database joins lines, which takes fifty times as long."""
    return number // 4 if FORMATS[form].has_queries else number


@pytest.mark.parametrize("form", WRITERS)
@pytest.mark.slow
def test_a_file_cut_anywhere(tmp_path, form):
    """A file cut at any byte is refused with a DataFileError, or, text that ends in a whole line, still read."""
    path, target = write(tmp_path / f"p.{FORMATS[form].suffixes[0]}", form), target_for(form, tmp_path)
    assert read_or_refuse(path, target)
    content = path.read_bytes()
    for length in range(0, len(content), max(1, len(content) // places(form, 20))):
        path.write_bytes(content[:length])
        assert not read_or_refuse(path, target) or form in (
            "xmc",
            "trec",
            "msmarco",
            "letor",
            "jsonl",
            "lists",
            "csv",
            "tsv",
        )


@pytest.mark.parametrize("form", WRITERS)
@pytest.mark.filterwarnings("ignore")  # numpy and torch warn about odd headers before they refuse them
@pytest.mark.slow
def test_a_byte_changed_anywhere(tmp_path, form):
    """A file with any byte changed is read or refused with a DataFileError: no other error comes out."""
    path, target = write(tmp_path / f"p.{FORMATS[form].suffixes[0]}", form), target_for(form, tmp_path)
    content, source = path.read_bytes(), random.Random(1)
    for _ in range(places(form, 32)):
        at = source.randrange(len(content))
        path.write_bytes(content[:at] + bytes([source.randrange(256)]) + content[at + 1 :])
        read_or_refuse(path, target)


def test_fewer_rows_than_declared(tmp_path, monkeypatch):
    """A file that declares more rows than it holds, as a damaged Parquet footer may, is refused, not cut short."""
    original = ListSource.batches
    for lost in (1, 2):
        monkeypatch.setattr(ListSource, "batches", lambda self, a, b, size, n=lost: original(self, a, b - n, size))
        with pytest.raises(DataFileError, match=rf"ends after {2 - lost} rows, but declares 2"):
            list(read(write(tmp_path / "p.parquet", "parquet"), target_for("parquet", tmp_path)))


def test_the_error_survives_pickling():
    """A DataFileError sent from another process keeps its parts."""
    error = DataFileError("a.npy", "is empty", "row 3", "write it again.")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) == "a.npy, row 3: is empty; write it again."
    assert (again.path, again.where, again.hint) == (error.path, "row 3", "write it again.")


def test_a_package_that_is_not_installed(tmp_path, monkeypatch):
    """Without pyarrow its formats are refused with what to install; the others are read all the same."""
    forms = ("parquet", "csv", "npy")
    paths = {form: (write(tmp_path / f"p.{form}", form), target_for(form, tmp_path)) for form in forms}
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
