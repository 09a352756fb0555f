"""Outputs: whole or not there, never in the place of an input, nor of what is there unless that is said."""

import gc
import os
import shutil
import signal
import socket
import stat
from pathlib import Path

import numpy as np
import pytest
import torch

import processes
from tailmetrics import RecallAtK, evaluate
from tailmetrics.cli.messages import CommandError
from tailmetrics.cli.outputs import Outputs
from tailmetrics.report import Report


@pytest.fixture(autouse=True)
def interruptible():
    """A shell that runs the tests in the background lets them ignore SIGINT; a terminal does not."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def words(data_set, config):
    """Return a command line without outputs."""
    return ["evaluate", "--config", config(("PrecisionAtK", "{k: 3}")), *data_set.options, "--quiet"]


def contents(folder):
    """Return every file below a folder with its bytes, and every empty folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
        if path.is_file() or not list(path.iterdir())
    }


@pytest.mark.parametrize("kind", ["parquet", "npy", "link", "hard link", "config", "counts", "clusters"])
def test_an_output_that_is_an_input(data_set, tailmetrics, config, tmp_path, monkeypatch, kind):
    """--per-row that names an input, however spelled, is refused before anything is read, and the input is as before."""
    monkeypatch.chdir(tmp_path)
    target = shutil.copy(data_set.target, tmp_path / "target.parquet")
    np.save(tmp_path / "target.npy", np.zeros(60, int))
    words = ["evaluate", "--config", config(("PrecisionAtK", "{k: 3}")), "--preds", data_set.preds]
    goal, options = {
        "parquet": ("./target.parquet", ["--target", target]),
        "npy": ("target.npy", ["--target", "target.npy", "--num-labels", 30]),
        "link": ("link.parquet", ["--target", target]),
        "hard link": ("hard.parquet", ["--target", target]),
        "config": ("config.yaml", ["--target", target]),
        "clusters": ("users.csv", ["--target", target, "--clusters", "users.csv"]),
        "counts": ("counts.npy", ["--target", target, "--label-counts", shutil.copy(data_set.counts, tmp_path)]),
    }[kind]
    Path("users.csv").write_text("user\n")
    Path("link.parquet").symlink_to(target)
    os.link(target, "hard.parquet")
    before = contents(tmp_path)
    status, out, err = tailmetrics(*words, *options, "--per-row", goal)
    assert (status, out) == (2, "")
    assert "is one of the files that are read, and would be replaced" in err.splitlines()[0]
    assert contents(tmp_path) == before


def test_an_input_in_the_output_folder(data_set, tailmetrics, config, tmp_path):
    """Targets called report.csv are not replaced by the report, nor a table of values per row by its comparison."""
    target = tmp_path / "report.csv"
    target.write_text("query,item\na,1\n")
    (tmp_path / "p.csv").write_text("query,item,score\na,1,1\n")
    words = ["--config", config(("PrecisionAtK", "{k: 3}")), "--preds", tmp_path / "p.csv", "--target", target]
    before = contents(tmp_path)
    status, _, err = tailmetrics("evaluate", *words, "--out", tmp_path)
    assert (status, contents(tmp_path)) == (2, before)
    assert "report.csv: is one of the files that are read" in err
    shutil.copy(data_set.preds, tmp_path / "compare.csv")
    before = contents(tmp_path)
    status, _, err = tailmetrics("compare", tmp_path / "compare.csv", data_set.preds, "--out", tmp_path)
    assert (status, contents(tmp_path)) == (2, before)
    assert "compare.csv: is one of the files that are read" in err


def test_what_an_earlier_run_wrote_is_replaced_as_a_whole(words, data_set, config, tailmetrics, tmp_path):
    """A second report replaces the first, its picture and its intervals included where the second has none."""
    by_decile = [
        "--config",
        config(("RecallAtK", "{k: 3, buckets: deciles}"), name="b.yaml"),
        *data_set.options_with_training,
    ]
    out = ["--overwrite", "--out", tmp_path / "out", "--per-row", tmp_path / "out" / "rows.parquet"]
    assert tailmetrics("evaluate", *by_decile, *out, "--intervals", "--resamples", 100, "--quiet")[0] == 0
    first = contents(tmp_path / "out")
    assert {"report.png", "rows.parquet"} <= first.keys()
    assert tailmetrics(*words, *out)[0] == 0
    second = contents(tmp_path / "out")
    assert set(second) == set(first) - {"report.png"}
    assert all(second[name] != first[name] for name in second)


def test_files_of_another_program_are_not_removed(words, tailmetrics, tmp_path):
    """A labels.csv in a folder without a report is refused, also with --overwrite, before any work; it stays."""
    for name in ("labels.csv", "curve.csv"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text("step,loss\n")
        status, _, err = tailmetrics(*words, "--overwrite", "--out", tmp_path / name)
        assert (status, f"{name}: is there without a report beside it" in err) == (2, True)
        assert contents(tmp_path / name) == {name: b"step,loss\n"}


@pytest.mark.parametrize("name", ["report.csv", "report.html", "rows.parquet"])
def test_a_goal_that_is_a_folder(words, tailmetrics, tmp_path, name):
    """It is named as it is called, before anything is evaluated, and no other file appears."""
    (tmp_path / "out" / name).mkdir(parents=True)
    status, out, err = tailmetrics(*words, "--out", tmp_path / "out", "--per-row", tmp_path / "out" / "rows.parquet")
    assert (status, out) == (2, "")
    assert err.startswith(f"error: {tmp_path / 'out' / name}: is a folder, where a file is to be written\n")
    assert [path.name for path in (tmp_path / "out").iterdir()] == [name]


def test_a_file_that_is_there_already(words, tailmetrics, tmp_path):
    """A goal that exists stays and is named; with --overwrite it is replaced."""
    for name in ("report.csv", "rows.parquet"):
        folder = tmp_path / name.replace(".", "-")
        folder.mkdir()
        (folder / name).write_bytes(b"theirs")
        outputs = ["--out", folder, "--per-row", folder / "rows.parquet"]
        status, _, err = tailmetrics(*words, *outputs)
        assert status == 2
        assert f"{name}: is there already" in err.splitlines()[0]
        assert "--overwrite" in err.splitlines()[1]
        assert contents(folder) == {name: b"theirs"}
        assert tailmetrics(*words, *outputs, "--overwrite")[0] == 0
        assert contents(folder).get(name) != b"theirs"


def node(path, kind):
    """Make what is no regular file: a device of our own, with the numbers of /dev/null, a pipe, a socket or a link."""
    if kind == "device":
        try:
            os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        except OSError:
            pytest.skip("only root makes devices")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as data_set:
            data_set.bind(os.path.relpath(path))  # an address has 100 letters
    else:
        path.symlink_to(path.parent / kind.removeprefix("link to "))


def facts(path):
    """Return which node a path is."""
    status = os.lstat(path)
    return status.st_mode, status.st_ino, status.st_rdev


@pytest.mark.parametrize("kind", ["device", "pipe", "socket", "link to nothing", "link to file"])
@pytest.mark.parametrize("name", ["rows.parquet", "report.csv"])
def test_what_is_no_regular_file_is_never_replaced(words, tailmetrics, tmp_path, monkeypatch, kind, name):
    """Nor removed, with --overwrite or without, before anything is evaluated; a report in Python refuses it, too."""
    out = tmp_path / "out"
    out.mkdir()
    monkeypatch.chdir(out)
    (out / "file").write_bytes(b"theirs")
    node(out / name, kind)
    before = facts(out / name)
    written = ["--out", out, "--per-row", out / "rows.parquet"]
    with monkeypatch.context() as patched:
        patched.setattr("tailmetrics.cli.evaluate.open_inputs", None)
        for further_options in ([], ["--overwrite"]):
            status, _, err = tailmetrics(*words, *written, *further_options)
            assert status == 2
            assert f"{name}: is a link, device, pipe or socket, where a file is to be written" in err.splitlines()[0]
    if name == "report.csv":
        report = evaluate(torch.eye(3), torch.arange(3), metrics=[RecallAtK(k=1)])
        with pytest.raises(FileExistsError, match="is a link, device, pipe or socket"):
            report.write(out)
    assert facts(out / name) == before
    assert {path.name for path in out.iterdir()} == {"file", name}
    assert (out / "file").read_bytes() == b"theirs"


def test_a_goal_that_changes_meanwhile_is_not_replaced(tmp_path):
    """A pipe in the place of what had been a file, a file where there had been none: nothing is placed."""
    (tmp_path / "report.csv").write_text("old")
    for goal, overwrite in (("report.csv", True), ("report.png", False)):
        with Outputs(overwrite=overwrite) as outputs:
            folder = tmp_path if overwrite else tmp_path / "new"
            stage(outputs, folder, json="{}", csv="new")
            folder.mkdir(exist_ok=True)
            (folder / goal).unlink(missing_ok=True)
            os.mkfifo(folder / goal)
            with pytest.raises(CommandError, match="is a link, device, pipe or socket"):
                outputs.place()
        assert (folder / goal).is_fifo()
        assert {path.name for path in folder.iterdir()} - {"new"} == {goal}


@pytest.mark.parametrize("pattern", ["parts", "parts/*", "./parts/r*.[cp]*", "parts/**/*"])
def test_outputs_are_no_parts_of_what_is_read(data_set, config, tailmetrics, tmp_path, monkeypatch, pattern):
    """The next run would read them: a folder of parts, or a pattern that an output matches, is refused before the work."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "parts").mkdir()
    shutil.copy(data_set.preds, tmp_path / "parts" / "run.parquet")
    words = [
        "evaluate",
        "--config",
        config(("PrecisionAtK", "{k: 3}")),
        "--preds",
        pattern,
        "--target",
        data_set.target,
    ]
    for output in (
        ["--out", "parts"],
        ["--per-row", "parts/rows.parquet"],
        ["--out", "parts/report"][: 2 * ("*" not in pattern)],
    ):
        before = contents(tmp_path)
        status, _, err = tailmetrics(*words, *output, "--overwrite") if output else (2, "", "one of the parts")
        assert (status, contents(tmp_path)) == (2, before)
        assert "one of the parts" in err
    if "**" not in pattern:
        assert tailmetrics(*words, "--out", "elsewhere", "--quiet")[0] == 0


def test_a_folder_that_is_a_link_to_nothing(words, tailmetrics, tmp_path, monkeypatch):
    """It is refused before the work; a link to a folder is written through."""
    (tmp_path / "out").symlink_to(tmp_path / "nowhere")
    with monkeypatch.context() as patched:
        patched.setattr("tailmetrics.cli.evaluate.open_inputs", None)
        status, _, err = tailmetrics(*words, "--out", tmp_path / "out" / "below")
    assert (status, err.splitlines()[0]) == (2, f"error: {tmp_path / 'out'}: is not a folder")
    (tmp_path / "nowhere").mkdir()
    assert tailmetrics(*words, "--out", tmp_path / "out")[0] == 0
    assert (tmp_path / "nowhere" / "report.json").is_file()


IN_THE_MIDDLE = """
import os, signal, sys
from pathlib import Path
from tailmetrics.cli import compare, evaluate, main, parser
from tailmetrics.evaluation import Evaluation

parser._parser("evaluate")  # made once, and not in each run

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
        return update(self, *batch, **more)

    child = os.fork()
    if not child:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a shell starts in the background
        for number in (signal.SIGTERM, signal.SIGHUP):  # ignored below nohup
            signal.signal(number, signal.SIG_DFL)
        for stream in (1, 2):
            os.dup2(os.open(f"{folder}.{stream}", os.O_CREAT | os.O_WRONLY | os.O_TRUNC), stream)
        sys.argv, Evaluation.update = ["tailmetrics", *words], counted
        os._exit(main())
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    printed = (Path(f"{folder}.{stream}").read_text().splitlines(True) for stream in (1, 2))
    return status, *("".join(line for line in lines if not line.startswith("read: ")) for lines in printed)

result = [ended(where) for where in places]
"""
SAID = "interrupted: what is not complete is not written\n"


@pytest.fixture
def by_decile(data_set, config, tmp_path):
    """Return a command line that writes a report and a table into a new folder."""
    out = tmp_path / "out"
    metrics = ["--config", config(("RecallAtK", "{k: 3, buckets: deciles, scope: global}"))]
    rows = ["--batch-rows", "7", "--out", str(out), "--per-row", str(out / "rows.parquet")]
    return ["evaluate", *metrics, *data_set.options_with_training, *rows]


@pytest.mark.slow
def test_a_signal_in_the_third_batch(by_decile, tmp_path, tmp_path_factory):
    """A process that gets SIGINT, SIGTERM or SIGHUP ends with 130 and one line, 143 or 129, and nothing is left."""
    ends = {
        "os.kill(os.getpid(), signal.SIGINT)": (130, "", SAID),
        "Removed()": (130, "", SAID),  # where Python drops errors
        "os.kill(os.getpid(), signal.SIGTERM)": (143, "", ""),
        "os.kill(os.getpid(), signal.SIGHUP)": (129, "", ""),  # the terminal is closed
    }
    values = f"words, folder, places = {by_decile}, {str(tmp_path_factory.mktemp('said') / 'a')!r}, {[*ends]}\n"
    assert processes.run_in_process(values + IN_THE_MIDDLE) == [*ends.values()]
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]


ENDED = int(os.environ.get("TAILMETRICS_FUZZ_CASES", "3"))
"""Runs that are ended by a signal; each takes a second."""
AT_RANDOM = """
import os, random, shutil, signal, sys, tempfile
from pathlib import Path
from matplotlib.figure import Figure
from tailmetrics.cli import compare, evaluate, main, parser
from tailmetrics.report import pictures

def titled(shown):
    "A picture of the title alone."
    figure = Figure(figsize=(2, 1))
    figure.suptitle(shown.document().title)
    return figure

parser._parser("evaluate")  # made once, and not in each run
pictures.picture = titled

def contents(folder):
    "Files with their bytes, and folders that hold none."
    paths = [path for path in folder.rglob("*") if path.is_file() or not any(path.iterdir())]
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in paths}

def run(words, at, number):
    "Run the command line in a process that gets a signal at that call of a function, if any; return status and calls."
    reads, writes = os.pipe()
    if not os.fork():
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for ignored in (signal.SIGTERM, signal.SIGHUP):  # below nohup
            signal.signal(ignored, signal.SIG_DFL)
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        calls = 0

        def counted(frame, event, _):
            nonlocal calls
            calls += 1
            if calls == at:
                os.kill(os.getpid(), number)

        sys.argv = ["tailmetrics", *words]
        tempfile.tempdir = str(folder / "scratch")
        if at is not None:
            sys.setprofile(counted)
        status = main()
        sys.setprofile(None)
        os.write(writes, str(calls).encode())
        os._exit(status)
    os.close(writes)
    status = os.waitstatus_to_exitcode(os.wait()[1])
    with os.fdopen(reads, "rb") as read:
        return status, int(read.read() or 0)

chance, result, folder = random.Random(0), [], Path(folder)
for words in lines:
    out, kept = folder / "out", folder / "kept"
    run(words, None, 0)
    old = contents(out)
    out.rename(kept)
    changed = {"evaluate": ["--metrics+=MRR"], "compare": ["--confidence", "0.9"]}
    more = [*words, "--overwrite", "--title", "another", *changed[words[0]]]
    shutil.copytree(kept, out)
    status, calls = run(more, 0, 0)
    new = contents(out)
    same = [name for name in new if new[name] == old.get(name)]
    assert (status, set(new), same) == (0, set(old), []), (status, same)
    for _ in range(cases):
        shutil.rmtree(out)
        shutil.copytree(kept, out)
        number = chance.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
        # often among the last calls, in which files are placed
        at = chance.choice([chance.randrange(calls), calls - chance.randrange(min(calls, 3000))])
        status, _ = run(more, at, number)
        now = contents(folder)
        shutil.rmtree(folder / "scratch")
        (folder / "scratch").mkdir()
        left = [name for name in now if not name.startswith(("out/", "kept/")) or "/.tailmetrics" in name]
        left = [name for name in left if name != "scratch"]
        files = {name[4:]: data for name, data in now.items() if name.startswith("out/") and name not in left}
        killed = number == signal.SIGKILL
        whole = files in (old, new) or (killed and all(data in (old[name], new[name]) for name, data in files.items()))
        lost = set(old) - set(files)
        expected = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGKILL: -9}[number]
        if not whole or lost or (left and not killed) or status not in (0, expected):
            result.append((words[0], at, calls, number.name, status, whole, lost, left))
    shutil.rmtree(out), shutil.rmtree(kept)
"""


@pytest.mark.slow
def test_runs_that_are_ended_at_random_moments(data_set, by_decile, tmp_path_factory, tailmetrics):
    """All files that existed are as before, or all are new, after SIGINT, SIGTERM and SIGHUP; SIGKILL leaves each file whole."""
    folder = tmp_path_factory.mktemp("ended")
    tables = [str(folder / f"{name}.parquet") for name in "ab"]
    for table in tables:
        assert tailmetrics(*by_decile[:-4], "--per-row", table, "--quiet")[0] == 0
    lines = [[*by_decile[:-4], "--out", f"{folder}/in/out", "--per-row", f"{folder}/in/out/rows.parquet"]]
    lines.append(["compare", *tables, "--out", f"{folder}/in/out"])
    (folder / "in" / "scratch").mkdir(parents=True)
    values = f"lines, folder, cases = {lines}, {str(folder / 'in')!r}, {-(-ENDED // len(lines))}\n"
    assert processes.run_in_process(values + AT_RANDOM) == []


def test_a_folder_that_was_made_when_a_signal_came_does_not_stay(tmp_path, monkeypatch):
    """It is known before it is made; in a program that goes on it goes with what it was made for."""

    def interrupted(path, mode):
        mkdir(path, mode)
        raise KeyboardInterrupt

    mkdir = os.mkdir
    monkeypatch.setattr(os, "mkdir", interrupted)
    with pytest.raises(KeyboardInterrupt), Outputs() as outputs:
        outputs.scratch(tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    del outputs
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_ctrl_c_between_the_files_of_a_report(by_decile, tailmetrics, tmp_path, monkeypatch):
    """With the report written, but not yet in its place, nothing appears."""

    def interrupted(*arguments, **keywords):
        paths = write(*arguments, **keywords)
        signal.raise_signal(signal.SIGINT)
        return paths

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
