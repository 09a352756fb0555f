"""Outputs: whole or not there, never in the place of an input, nor of what is there unless that is said."""

import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

import processes
from tailmetrics.cli.outputs import Outputs
from tailmetrics.report import Report


@pytest.fixture(autouse=True)
def interruptible():
    """A shell that runs the tests in the background lets them ignore SIGINT; a terminal does not."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def words(made, config):
    """Return a command line without outputs."""
    return ["evaluate", "--config", config(("PrecisionAtK", "{k: 3}")), *made.evaluated, "--quiet"]


def contents(folder):
    """Return every file below a folder with its bytes, and every empty folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
        if path.is_file() or not list(path.iterdir())
    }


@pytest.mark.parametrize("kind", ["parquet", "npy", "link", "hard link", "config", "counts"])
def test_an_output_that_is_an_input(made, tailmetrics, config, tmp_path, monkeypatch, kind):
    """--per-row that names an input, however spelled, is refused before anything is read, and the input is as before."""
    monkeypatch.chdir(tmp_path)
    target = shutil.copy(made.target, tmp_path / "target.parquet")
    np.save(tmp_path / "target.npy", np.zeros(60, int))
    words = ["evaluate", "--config", config(("PrecisionAtK", "{k: 3}")), "--preds", made.preds]
    goal, options = {
        "parquet": ("./target.parquet", ["--target", target]),
        "npy": ("target.npy", ["--target", "target.npy", "--num-labels", 30]),
        "link": ("link.parquet", ["--target", target]),
        "hard link": ("hard.parquet", ["--target", target]),
        "config": ("config.yaml", ["--target", target]),
        "counts": ("counts.npy", ["--target", target, "--label-counts", shutil.copy(made.counts, tmp_path)]),
    }[kind]
    Path("link.parquet").symlink_to(target)
    os.link(target, "hard.parquet")
    before = contents(tmp_path)
    status, out, err = tailmetrics(*words, *options, "--per-row", goal)
    assert (status, out) == (2, "")
    assert "is one of the files that are read, and would be replaced" in err.splitlines()[0]
    assert contents(tmp_path) == before


def test_an_input_in_the_output_folder(made, tailmetrics, config, tmp_path):
    """Targets called report.csv are not replaced by the report, nor a table of values per row by its comparison."""
    target = tmp_path / "report.csv"
    target.write_text("query,item\na,1\n")
    (tmp_path / "p.csv").write_text("query,item,score\na,1,1\n")
    words = ["--config", config(("PrecisionAtK", "{k: 3}")), "--preds", tmp_path / "p.csv", "--target", target]
    before = contents(tmp_path)
    status, _, err = tailmetrics("evaluate", *words, "--out", tmp_path)
    assert (status, contents(tmp_path)) == (2, before)
    assert "report.csv: is one of the files that are read" in err
    shutil.copy(made.preds, tmp_path / "compare.csv")
    before = contents(tmp_path)
    status, _, err = tailmetrics("compare", tmp_path / "compare.csv", made.preds, "--out", tmp_path)
    assert (status, contents(tmp_path)) == (2, before)
    assert "compare.csv: is one of the files that are read" in err


def test_what_an_earlier_run_wrote_is_replaced_as_a_whole(words, made, config, tailmetrics, tmp_path):
    """A second report replaces the first, its picture and its intervals included where the second has none."""
    by_decile = ["--config", config(("RecallAtK", "{k: 3, buckets: deciles}"), name="b.yaml"), *made.trained_on]
    out = ["--overwrite", "--out", tmp_path / "out", "--per-row", tmp_path / "out" / "rows.parquet"]
    assert tailmetrics("evaluate", *by_decile, *out, "--intervals", "--resamples", 100, "--quiet")[0] == 0
    first = contents(tmp_path / "out")
    assert {"report.png", "rows.parquet"} <= first.keys()
    assert tailmetrics(*words, *out)[0] == 0
    second = contents(tmp_path / "out")
    assert set(second) == set(first) - {"report.png"}
    assert all(second[name] != first[name] for name in second)


@pytest.mark.parametrize("name", ["report.csv", "report.html", "rows.parquet"])
def test_a_goal_that_is_a_folder(words, tailmetrics, tmp_path, name):
    """It is named as it is called, before anything is evaluated, and no other file appears."""
    (tmp_path / "out" / name).mkdir(parents=True)
    status, out, err = tailmetrics(*words, "--out", tmp_path / "out", "--per-row", tmp_path / "out" / "rows.parquet")
    assert (status, out) == (2, "")
    assert err.startswith(f"error: {tmp_path / 'out' / name}: is a folder, where a file is to be written\n")
    assert [path.name for path in (tmp_path / "out").iterdir()] == [name]


@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_file_that_is_there_already(words, tailmetrics, workers, tmp_path, ranks):
    """A goal that exists stays and is named; with --overwrite it is replaced."""
    run = tailmetrics if ranks == 1 else lambda *words: workers.ranks(*words)[0]
    for name in ("report.csv", "rows.parquet"):
        folder = tmp_path / name.replace(".", "-")
        folder.mkdir()
        (folder / name).write_bytes(b"theirs")
        outputs = ["--out", folder, "--per-row", folder / "rows.parquet"]
        status, _, err = run(*words, *outputs)
        assert status == 2
        assert f"{name}: is there already" in err.splitlines()[0]
        assert "--overwrite" in err.splitlines()[1]
        assert contents(folder) == {name: b"theirs"}
        assert run(*words, *outputs, "--overwrite")[0] == 0
        assert contents(folder).get(name) != b"theirs"


IN_THE_MIDDLE = """
import os, signal, sys
from pathlib import Path
from tailmetrics.cli import compare, evaluate, main
from tailmetrics.evaluation import Evaluation

update, calls = Evaluation.update, []

class Removed:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)

def ended(where):
    "Run the command line in a process that has a signal in its third batch; return its status, stdout and stderr."
    def counted(self, *batch, **more):
        calls.append(batch)
        if len(calls) == 3:
            eval(where)
        update(self, *batch, **more)

    child = os.fork()
    if not child:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a shell starts in the background
        for stream in (1, 2):
            os.dup2(os.open(f"{folder}.{stream}", os.O_CREAT | os.O_WRONLY | os.O_TRUNC), stream)
        sys.argv, Evaluation.update = ["tailmetrics", *words], counted
        os._exit(main())
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status, *(Path(f"{folder}.{stream}").read_text() for stream in (1, 2))

found = [ended(where) for where in places]
"""
SAID = "interrupted: what is not complete is not written\n"


@pytest.fixture
def by_decile(made, config, tmp_path):
    """Return a command line that writes a report and a table into a new folder."""
    out = tmp_path / "out"
    metrics = ["--config", config(("RecallAtK", "{k: 3, buckets: deciles, scope: global}"))]
    rows = ["--batch-rows", "7", "--out", str(out), "--per-row", str(out / "rows.parquet")]
    return ["evaluate", *metrics, *made.trained_on, *rows]


@pytest.mark.slow
def test_a_signal_in_the_third_batch(by_decile, tmp_path, tmp_path_factory):
    """A process that gets SIGINT or SIGTERM ends with 130 and one line or with 143, and nothing is left."""
    ends = {
        "os.kill(os.getpid(), signal.SIGINT)": (130, "", SAID),
        "Removed()": (130, "", SAID),  # where Python drops errors
        "os.kill(os.getpid(), signal.SIGTERM)": (143, "", ""),  # as torchrun ends the other ranks
    }
    given = f"words, folder, places = {by_decile}, {str(tmp_path_factory.mktemp('said') / 'a')!r}, {[*ends]}\n"
    assert processes.found_by(given + IN_THE_MIDDLE) == [*ends.values()]
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]


def test_ctrl_c_between_the_files_of_a_report(by_decile, tailmetrics, tmp_path, monkeypatch):
    """With the report written, but not yet in its place, nothing appears."""

    def interrupted(*arguments, **more):
        found = write(*arguments, **more)
        signal.raise_signal(signal.SIGINT)
        return found

    write = Report.write
    monkeypatch.setattr(Report, "write", interrupted)
    assert tailmetrics(*by_decile) == (130, "", SAID)
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]


def stage(outputs, folder, **files):
    """Write files into the place where they wait."""
    new = outputs.claim(folder, [f"report.{suffix}" for suffix in ("json", "csv", "png")])
    for suffix, text in files.items():
        (new / f"report.{suffix}").write_text(text)


def test_an_error_removes_what_waited(tmp_path):
    """Nothing is published on the way out of an error, and the folder is not made."""

    def fail():
        with Outputs() as outputs:
            stage(outputs, tmp_path / "new" / "out", json="{}")
            raise ValueError("late")

    with pytest.raises(ValueError, match="late"):
        fail()
    assert not list(tmp_path.iterdir())
