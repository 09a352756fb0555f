"""Many processes: each row is read by one of them, and the numbers are those of one process, bit for bit."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import processes
from cli.made import write_lists
from tailmetrics.cli.inputs import BLOCK_BYTES, fingerprint

METRICS = [
    ("PrecisionAtK", "{k: [1, 3]}"),
    ("NDCGAtK", "{k: 5, buckets: deciles}"),
    ("PropensityScoredPrecisionAtK", "{k: 3}"),
    ("KForRecall", "{min_recall: 0.5, buckets: deciles}"),
    ("F1AtK", "{k: 3, average: macro}"),
    ("GiniAtK", "{k: 3}"),
]


def without_readings(err):
    """Return stderr without the lines that say how files were read."""
    return "".join(line for line in err.splitlines(True) if not line.startswith("read: "))


ENVIRONMENT = """
import json, os, pathlib, sys
pathlib.Path(os.environ["RANK"]).write_text(json.dumps({**os.environ, "words": sys.argv[1:]}))
"""


@pytest.mark.slow
def test_workers_have_the_environment_that_torchrun_gives(tmp_path, monkeypatch):
    """The names by which a process knows its rank, from a real start of two processes of a program that does not load torch."""
    script = tmp_path / "script.py"
    script.write_text(ENVIRONMENT)
    monkeypatch.chdir(tmp_path)
    words = ["--standalone", "--nproc-per-node", "2", str(script), "word"]
    processes.found_by(f"from torch.distributed import run; found = run.main({words})")
    for rank in (0, 1):
        given = json.loads((tmp_path / str(rank)).read_text())
        assert given["words"] == ["word"]
        ours = processes.as_rank(rank, given["MASTER_PORT"])
        assert {name: given[name] for name in ours} == ours | {"MASTER_ADDR": given["MASTER_ADDR"]}


@pytest.mark.slow
def test_two_ranks_write_what_one_process_writes(made, config, tailmetrics, workers, tmp_path):
    """The report holds the same bytes, and the table the same rows; it replaces one that is there."""
    arguments = ["evaluate", "--config", config(*METRICS), *made.trained_on, "--resamples", 300, "--examples"]
    paths = {name: ["--out", tmp_path / name, "--per-row", tmp_path / name / "rows.parquet"] for name in ("one", "two")}
    assert tailmetrics(*arguments, *paths["one"])[0] == 0
    (tmp_path / "two").mkdir()
    older = pa.table({"row": [0]}).replace_schema_metadata({"tailmetrics": "{}"})
    pq.write_table(older, tmp_path / "two" / "rows.parquet")
    ended = workers.ranks(*arguments, *paths["two"], "--overwrite")
    assert (ended[0][0], "precision@3" in ended[0][1], ended[1]) == (0, True, (0, "", ""))  # one process prints
    one, two = tmp_path / "one", tmp_path / "two"
    assert (one / "report.json").read_bytes() == (two / "report.json").read_bytes()
    whole, joined = (pq.read_table(folder / "rows.parquet") for folder in (one, two))
    assert joined.to_pylist() == whole.to_pylist()
    status, out, err = tailmetrics("compare", one / "rows.parquet", two / "rows.parquet", "--only", "precision@3")
    assert (status, err) == (0, "")  # the digests of the parts are those of the whole
    assert "+0.0000" in out
    assert [path.name for path in two.glob("rows*")] == ["rows.parquet"]


@pytest.mark.slow
@pytest.mark.parametrize("queries", [4, 301])
def test_two_ranks_read_files_that_name_their_queries(tailmetrics, workers, tmp_path, queries):
    """Each process holds its share of the joined rows alone, also of few of them: the report holds the same bytes."""
    rng = np.random.default_rng(queries)
    preds = [f"q{query},{item},{rng.random():.6f}" for query in range(queries) for item in range(5)]
    target = [f"q{query},{rng.integers(7)}" for query in range(queries)]
    (tmp_path / "s.csv").write_text("\n".join(["query,item,score", *preds, ""]))
    (tmp_path / "t.csv").write_text("\n".join(["query,item", *target, ""]))
    words = ["evaluate", "--preds", tmp_path / "s.csv", "--target", tmp_path / "t.csv", "--metrics+=RecallAtK"]
    words += ["--metrics.k=1", "--metrics+=MRR"]
    assert tailmetrics(*words, "--out", tmp_path / "one")[0] == 0
    ended = workers.ranks(*words, "--out", tmp_path / "two")
    assert (ended[0][0], ended[1]) == (0, (0, "", ""))
    one, two = ((tmp_path / name / "report.json").read_bytes() for name in ("one", "two"))
    assert one == two


@pytest.mark.slow
def test_what_one_rank_meets_ends_all(made, config, workers, tmp_path):
    """A bad row in the share of the second rank ends both, is told once, by the first one, and nothing is written."""
    relevant = [*made.relevant[:50], [31], *made.relevant[51:]]
    bad = write_lists(tmp_path / "bad.parquet", labels=relevant)
    out = ["--out", tmp_path / "out", "--per-row", tmp_path / "out" / "rows.parquet"]
    files = ["--preds", made.preds, "--target", bad, "--num-labels", 30]
    first, second = workers.ranks("evaluate", "--config", config(METRICS[0]), *files, *out)
    hint = "label ids run from 0 to the number of labels less one: check --num-labels and how the ids were numbered."
    assert (*first[:2], without_readings(first[2])) == (
        2,
        "",
        f"error: {bad}, row 50: holds the label id 31, but there are 30 labels\nhint: {hint}\n",
    )
    assert second == (2, "", "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.parquet", "config.yaml"]


STALE = {
    "fewer rows": ("preds.parquet", lambda made: write_lists(Path("preds.parquet"), ids=made.candidates[:45], scores=made.scores[:45])),
    "other contents of the same length": ("preds.parquet", lambda made: write_lists(Path("preds.parquet"), ids=made.candidates, scores=made.scores[::-1])),
    "other targets": ("target.parquet", lambda made: write_lists(Path("target.parquet"), labels=made.relevant[::-1])),
    "other training labels": ("train.parquet", lambda made: write_lists(Path("train.parquet"), labels=made.trained[::-1])),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("what", STALE)
def test_a_stale_copy_of_a_file_on_another_machine(made, config, workers, tmp_path, monkeypatch, what):
    """Ranks that see files of one name and other contents all end with an error that names the file and the rank.

    Each alone would read its share without complaint, and the sum would be a number of neither.
    """
    name, make = STALE[what]
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
        for path in (made.preds, made.target, made.train):
            shutil.copy(path, folder)
    monkeypatch.chdir(folders[1])
    make(made)
    if what == "fewer rows":
        write_lists(Path("target.parquet"), labels=made.relevant[:45])
    files = ["--preds", "preds.parquet", "--target", "target.parquet", "--train-target", "train.parquet"]
    words = ["evaluate", "--config", config(METRICS[1]), *files, "--num-labels", 30, "--out", "out", "--quiet"]
    first, second = workers.ranks(*words, folders=folders)
    assert first[:2] == (2, "")
    problem, hint = first[2].splitlines()
    assert problem.startswith(f"error: {name}: process 1 on ")
    assert " has " in problem
    assert " bytes, sha256 " in problem
    assert hint == "hint: all machines must see the same files: copy them again."
    assert second == (2, "", "")
    assert not list(tmp_path.glob("*/out"))


@pytest.mark.slow
def test_ranks_that_read_their_files_in_other_ways(made, config, workers, tmp_path):
    """Options that differ between machines, such as --min-gain, end all ranks too."""
    configs = [config(METRICS[0], name=f"{name}.yaml") for name in ("a", "b")]
    for number, path in enumerate(configs):
        folder = tmp_path / str(number)
        folder.mkdir()
        shutil.move(path, folder / "c.yaml")
        with open(folder / "c.yaml", "a") as file:
            file.write(f"min_gain: {number + 1}\n")
    words = ["evaluate", "--config", "c.yaml", *made.evaluated]
    first, second = workers.ranks(*words, folders=[tmp_path / "0", tmp_path / "1"])
    assert (first[0], second) == (2, (2, "", ""))
    assert first[2].startswith("error: options of the command line: process 1 on ")


def test_a_large_file_is_told_apart_by_parts_of_it(tmp_path):
    """Of a file beyond 16 MB blocks are looked at, its first and last bytes included; of a smaller one everything."""
    path = tmp_path / "large"
    content = np.random.default_rng(0).integers(256, size=2**24 + 2**20, dtype=np.uint8)
    content.tofile(path)
    known = fingerprint(path)
    for place in (0, len(content) - 1, len(content) - BLOCK_BYTES):
        content[place] ^= 1
        content.tofile(path)
        assert fingerprint(path) != known
        content[place] ^= 1
    small = content[: 2**24 - 7]
    small.tofile(path)
    known = fingerprint(path)
    small[12_345_678] ^= 1
    small.tofile(path)
    assert fingerprint(path) != known


@pytest.mark.slow
def test_more_ranks_than_row_groups(made, config, workers, evaluated, compared, tmp_path):
    """A rank without a row changes nothing; counts that every rank reads from a file are not added up."""
    few = [write_lists(tmp_path / "p.parquet", ids=[[0, 1]]), write_lists(tmp_path / "t.parquet", labels=[[1, 2]])]
    words = ["--config", config(METRICS[0], METRICS[2]), "--preds", few[0], "--target", few[1], "--quiet"]
    words += ["--label-counts", made.counts, "--num-train", 240, "--intervals"]
    one, table = evaluated(*words, warns=()), tmp_path / "two" / "rows.parquet"
    ended = workers.ranks("evaluate", *words, "--out", tmp_path / "two", "--per-row", table)
    assert [(status, without_readings(err)) for status, _, err in ended] == [(0, "")] * 2
    assert json.loads((tmp_path / "two" / "report.json").read_text()) == one
    compared(table, table, "--names", "a", "b")
