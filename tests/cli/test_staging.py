"""Outputs: all files or none, never in the place of an input, and one run at a time."""

import json
import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.made import write_lists
from tailmetrics.cli.errors import CommandError
from tailmetrics.cli.staging import Staging

OURS = json.dumps({"metrics": {}, "by_bucket": {}, "versions": {}})


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


def stage(staging, folder, **files):
    """Write files into a staging."""
    new = staging.claim(folder, "report", [f"report.{suffix}" for suffix in ("json", "csv", "png")])
    for suffix, text in files.items():
        (new / f"report.{suffix}").write_text(text)


def replace(folder):
    """Replace a report."""
    with Staging() as staging:
        stage(staging, folder, json="{}", csv="after")
        staging.place()
        staging.commit()


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


@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_file_of_someone_else(words, tailmetrics, workers, tmp_path, ranks):
    """A goal that exists and was not written by tailmetrics stays, whole or as the part of a rank, and is named."""
    run = tailmetrics if ranks == 1 else lambda *words: workers.ranks(*words)[0]
    part = "rows.parquet" if ranks == 1 else "rows.rank1-of-2.parquet"
    theirs = {"report.csv": b"a,b\n", part: b"no table", "rows.rank7-of-9.parquet": b"theirs"}
    for name, content in theirs.items():
        folder = tmp_path / name.replace(".", "-")
        folder.mkdir()
        (folder / name).write_bytes(content)
        status, _, err = run(*words, "--out", folder, "--per-row", folder / "rows.parquet")
        assert status == 2
        assert f"{name}: is there already and was not written by tailmetrics" in err.splitlines()[0]
        assert contents(folder) == {name: content}
    table = write_lists(tmp_path / "rows.parquet", labels=[[1]])
    assert "was not written by tailmetrics" in run(*words, "--per-row", table)[2]


def test_what_an_earlier_run_wrote_is_replaced_as_a_whole(words, made, config, tailmetrics, tmp_path):
    """A second report replaces the first, its picture and its intervals included where the second has none."""
    by_decile = ["--config", config(("RecallAtK", "{k: 3, buckets: deciles}"), name="b.yaml"), *made.trained_on]
    out = ["--out", tmp_path / "out", "--per-row", tmp_path / "out" / "rows.parquet"]
    assert tailmetrics("evaluate", *by_decile, *out, "--intervals", "--resamples", 100, "--quiet")[0] == 0
    first = contents(tmp_path / "out")
    assert {"report.png", "intervals.json", "intervals.csv", "rows.parquet"} <= first.keys()
    assert tailmetrics(*words, *out)[0] == 0
    second = contents(tmp_path / "out")
    assert set(second) == set(first) - {"report.png", "intervals.json", "intervals.csv"}
    assert all(second[name] != first[name] for name in second)


@pytest.mark.parametrize("name", ["report.csv", "report.html", "rows.parquet"])
def test_a_goal_that_is_a_folder(words, tailmetrics, tmp_path, name):
    """It is named as it is called, before anything is evaluated, and no other file appears."""
    (tmp_path / "out" / name).mkdir(parents=True)
    status, out, err = tailmetrics(*words, "--out", tmp_path / "out", "--per-row", tmp_path / "out" / "rows.parquet")
    assert (status, out) == (2, "")
    assert err.startswith(f"error: {tmp_path / 'out' / name}: is a folder, where a file is to be written\n")
    assert [path.name for path in (tmp_path / "out").iterdir()] == [name]


def test_a_file_that_cannot_be_moved_takes_the_others_back(tmp_path, monkeypatch):
    """Where the second of two files fails, the first is as before, and the error names the goal, not where it waited."""
    (tmp_path / "report.json").write_text(OURS)
    (tmp_path / "report.csv").write_text("before")
    move = Path.replace

    def failing(self, goal):
        if self.name == "report.json" and self.parent.name == "new":
            raise OSError(28, "No space left on device", str(self))
        return move(self, goal)

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(CommandError) as caught:
        replace(tmp_path)
    assert caught.value.problem == f"{tmp_path / 'report.json'}: cannot be written: No space left on device"
    assert contents(tmp_path) == {"report.json": OURS.encode(), "report.csv": b"before"}


def test_an_error_removes_what_was_staged(tmp_path):
    """Nothing is published on the way out of an error, and the folder is not made."""

    def fail():
        with Staging() as staging:
            stage(staging, tmp_path / "new" / "out", json="{}")
            raise ValueError("late")

    with pytest.raises(ValueError, match="late"):
        fail()
    assert not list(tmp_path.iterdir())


def test_an_interrupt_while_files_appear(tmp_path, monkeypatch):
    """SIGINT between two files is raised behind the last; as it comes before the commit, everything is put back."""
    (tmp_path / "report.json").write_text(OURS)
    move = Path.replace

    def interrupted(self, goal):
        moved = move(self, goal)
        signal.raise_signal(signal.SIGINT)
        return moved

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        replace(tmp_path)
    monkeypatch.undo()
    assert contents(tmp_path) == {"report.json": OURS.encode()}


@pytest.mark.slow
def test_two_runs_into_one_folder(words, tailmetrics, tmp_path):
    """While one run writes a report or a table, a second one of the same goal is refused at once; another goal is free."""
    for key, options, others in (
        ("report", ["--out", tmp_path], ["--per-row", tmp_path / "rows.parquet"]),
        ("rows.parquet", ["--per-row", tmp_path / "rows.parquet"], ["--out", tmp_path]),
    ):
        with Staging() as staging:
            staging.claim(tmp_path, key, [])
            status, out, err = tailmetrics(*words, *options)
            assert (status, out) == (2, "")
            assert err.startswith(f"error: {tmp_path}: another run is writing there\nhint: wait until it has ended")
            assert tailmetrics(*words, *others)[0] == 0
        assert tailmetrics(*words, *options)[0] == 0
    assert not list(tmp_path.glob(".*"))


def replace_and_die(folder, moves):
    """Replace a report in a process of its own that gets SIGKILL behind so many moves, or behind the commit."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    try:
        with Staging() as staging:
            stage(staging, folder, json="new", csv="new")
            Path.replace = dying(moves)
            staging.place()
            staging.commit()
            os.kill(os.getpid(), signal.SIGKILL)
    finally:
        os._exit(1)


def dying(moves):
    """Return a way to move files after which, so many times used, the process ends."""
    move, made = Path.replace, []

    def replace(self, goal):
        made.append(goal)
        if len(made) > moves:
            os.kill(os.getpid(), signal.SIGKILL)
        return move(self, goal)

    return replace


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("moves", range(6))
def test_the_next_run_puts_back_what_a_killed_one_left(tmp_path, monkeypatch, moves, again):
    """SIGKILL between any two moves: the next run finds the old files or, behind the commit, the new ones, never both.

    ``again``: the run that tidies up is itself interrupted in between, and the one after it does the rest.
    """
    before = {"report.json": OURS, "report.png": "old"}
    for name, text in before.items():
        (tmp_path / name).write_text(text)
    assert replace_and_die(tmp_path, moves) == signal.SIGKILL
    if again:
        move = Path.replace

        def failing(self, goal):
            move(self, goal)
            raise KeyboardInterrupt

        with monkeypatch.context() as patched, suppress(KeyboardInterrupt):
            patched.setattr(Path, "replace", failing)
            Staging().claim(tmp_path, "report", [])
    with Staging() as staging:
        staging.claim(tmp_path, "report", [])
    left = {name: content.decode() for name, content in contents(tmp_path).items()}
    assert left == (before if moves < 5 else {"report.json": "new", "report.csv": "new"})


def test_what_a_killed_run_left_does_not_get_into_the_next_report(words, tailmetrics, tmp_path):
    """Files that waited in the hidden folder of a killed run are gone; so is the folder."""
    left = tmp_path / ".tailmetrics-report"
    (left / "new").mkdir(parents=True)
    (left / "new" / "report.tex").write_text("half")
    (left / "new" / "foreign.txt").write_text("half")
    assert tailmetrics(*words, "--out", tmp_path)[0] == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        f"report.{one}" for one in ("json", "md", "csv", "tex", "html")
    } | {"config.yaml"}
    assert (tmp_path / "report.tex").read_text() != "half"


def test_a_table_of_another_number_of_ranks_disappears(words, tailmetrics, workers, tmp_path):
    """Two ranks replace the table of one, and one that of two; none of both is left beside it."""
    table = tmp_path / "rows.parquet"
    assert tailmetrics(*words, "--per-row", table)[0] == 0
    assert [ended[0] for ended in workers.ranks(*words, "--per-row", table)] == [0, 0]
    assert sorted(path.name for path in tmp_path.glob("rows*")) == [f"rows.rank{rank}-of-2.parquet" for rank in (0, 1)]
    assert tailmetrics(*words, "--per-row", table)[0] == 0
    assert sorted(path.name for path in tmp_path.glob("rows*")) == ["rows.parquet"]
    assert pq.read_metadata(table).num_rows == 60


def test_a_table_that_is_not_ours_by_its_name(words, tailmetrics, tmp_path):
    """A Parquet file of someone else under any name is refused; one of ours under any name is replaced."""
    for name in ("report", "rows", "intervals.parquet"):
        pq.write_table(pa.table({"a": [1]}), tmp_path / name)
        assert tailmetrics(*words, "--per-row", tmp_path / name)[0] == 2
        (tmp_path / name).unlink()
        for _ in range(2):
            assert tailmetrics(*words, "--per-row", tmp_path / name)[0] == 0
