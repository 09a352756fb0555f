"""Output files are complete or absent.

They never replace an input, and other existing files only if the user says so.
"""

import gc
import os
import shutil
import signal
import socket
import stat
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import processes
from tailmetrics import RecallAtK, evaluate
from tailmetrics.cli.messages import CommandError
from tailmetrics.cli.outputs import Outputs
from tailmetrics.report import Report


@pytest.fixture(autouse=True)
def interruptible():
    """Let SIGINT interrupt, which tests in the background of a shell ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def words(data_set, config):
    """Return a command line without output options."""
    return [
        "evaluate",
        "--config",
        config(("PrecisionAtK", "{k: 3}")),
        *data_set.options,
        "--quiet",
    ]


def contents(folder):
    """Return the bytes of every file below a folder, and None for every empty
    folder.
    """
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
        if path.is_file() or not list(path.iterdir())
    }


@pytest.mark.parametrize(
    "kind", ["parquet", "npy", "link", "hard link", "config", "counts", "clusters"]
)
def test_an_output_that_is_an_input_is_refused(
    data_set, tailmetrics, config, tmp_path, monkeypatch, kind
):
    """A path of --per-row that is an input of any kind, also through a link, is refused
    before anything is read, and the input is unchanged.
    """
    monkeypatch.chdir(tmp_path)
    target = shutil.copy(data_set.target, tmp_path / "target.parquet")
    np.save(tmp_path / "target.npy", np.zeros(60, int))
    words = [
        "evaluate",
        "--config",
        config(("PrecisionAtK", "{k: 3}")),
        "--preds",
        data_set.preds,
    ]
    path, options = {
        "parquet": ("./target.parquet", ["--target", target]),
        "npy": ("target.npy", ["--target", "target.npy", "--num-labels", 30]),
        "link": ("link.parquet", ["--target", target]),
        "hard link": ("hard.parquet", ["--target", target]),
        "config": ("config.yaml", ["--target", target]),
        "clusters": ("users.csv", ["--target", target, "--clusters", "users.csv"]),
        "counts": (
            "counts.npy",
            [
                "--target",
                target,
                "--label-counts",
                shutil.copy(data_set.counts, tmp_path),
            ],
        ),
    }[kind]
    Path("users.csv").write_text("user\n")
    Path("link.parquet").symlink_to(target)
    os.link(target, "hard.parquet")
    before = contents(tmp_path)
    status, out, err = tailmetrics(*words, *options, "--per-row", path)
    assert (status, out) == (2, "")
    problem = "is one of the files that are read, and would be replaced"
    if Path(path).suffix in (".npy", ".csv"):
        problem = "is written as Parquet"
    assert problem in err.splitlines()[0]
    assert contents(tmp_path) == before


def test_inputs_in_the_output_folder_are_not_replaced(
    data_set, tailmetrics, config, tmp_path
):
    """An input in the output folder that has the name of an output, such as report.csv
    or compare.csv, is not replaced: the command is refused.
    """
    target = tmp_path / "report.csv"
    target.write_text("query,item\na,1\n")
    (tmp_path / "p.csv").write_text("query,item,score\na,1,1\n")
    words = [
        "--config",
        config(("PrecisionAtK", "{k: 3}")),
        "--preds",
        tmp_path / "p.csv",
        "--target",
        target,
    ]
    before = contents(tmp_path)
    status, _, err = tailmetrics("evaluate", *words, "--out", tmp_path)
    assert (status, contents(tmp_path)) == (2, before)
    assert "report.csv: is one of the files that are read" in err
    shutil.copy(data_set.preds, tmp_path / "compare.csv")
    before = contents(tmp_path)
    status, _, err = tailmetrics(
        "compare", tmp_path / "compare.csv", data_set.preds, "--out", tmp_path
    )
    assert (status, contents(tmp_path)) == (2, before)
    assert "compare.csv: is one of the files that are read" in err


def test_a_new_report_replaces_all_files_of_the_old_one(
    words, data_set, config, tailmetrics, tmp_path
):
    """With --overwrite a report replaces all files of an earlier one; a picture that
    the new report lacks is removed.
    """
    by_decile = [
        "--config",
        config(("RecallAtK", "{k: 3, buckets: deciles}"), name="b.yaml"),
        *data_set.options_with_training,
    ]
    out = [
        "--overwrite",
        "--out",
        tmp_path / "out",
        "--per-row",
        tmp_path / "out" / "rows.parquet",
    ]
    assert (
        tailmetrics(
            "evaluate", *by_decile, *out, "--intervals", "--resamples", 100, "--quiet"
        )[0]
        == 0
    )
    first = contents(tmp_path / "out")
    assert {"report.png", "rows.parquet"} <= first.keys()
    assert tailmetrics(*words, *out)[0] == 0
    second = contents(tmp_path / "out")
    assert set(second) == set(first) - {"report.png"}
    assert all(second[name] != first[name] for name in second)


def test_files_of_another_program_are_not_removed(words, tailmetrics, tmp_path):
    """A labels.csv or curve.csv in a folder without a report may be of another program,
    so that the command is refused, also with --overwrite, and the file stays.
    """
    for name in ("labels.csv", "curve.csv"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text("step,loss\n")
        status, _, err = tailmetrics(*words, "--overwrite", "--out", tmp_path / name)
        assert (status, f"{name}: is there without report.json beside it" in err) == (
            2,
            True,
        )
        assert contents(tmp_path / name) == {name: b"step,loss\n"}


@pytest.mark.parametrize("name", ["report.csv", "report.html", "rows.parquet"])
def test_an_output_path_that_is_a_folder_is_refused(words, tailmetrics, tmp_path, name):
    """An output path that is a folder is refused by its name before anything is
    evaluated, and no file is written.
    """
    (tmp_path / "out" / name).mkdir(parents=True)
    status, out, err = tailmetrics(
        *words,
        "--out",
        tmp_path / "out",
        "--per-row",
        tmp_path / "out" / "rows.parquet",
    )
    assert (status, out) == (2, "")
    assert err.startswith(
        f"error: {tmp_path / 'out' / name}: is a folder, where a file is to be written\n"
    )
    assert [path.name for path in (tmp_path / "out").iterdir()] == [name]


def test_an_existing_file_is_replaced_only_with_overwrite(words, tailmetrics, tmp_path):
    """An existing file at an output path is an error that names it, and the file stays.

    With --overwrite it is replaced.
    """
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
    """Create a device with the numbers of /dev/null, a pipe, a socket or a link."""
    if kind == "device":
        try:
            os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        except OSError:
            pytest.skip("only root makes devices")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            # an address of a socket has at most 100 characters
            server.bind(os.path.relpath(path))
    else:
        path.symlink_to(path.parent / kind.removeprefix("link to "))


def facts(path):
    """Return the mode, inode and device numbers of a path."""
    status = os.lstat(path)
    return status.st_mode, status.st_ino, status.st_rdev


@pytest.mark.parametrize(
    "kind", ["device", "pipe", "socket", "link to nothing", "link to file"]
)
@pytest.mark.parametrize("name", ["rows.parquet", "report.csv"])
def test_links_devices_pipes_and_sockets_are_never_replaced(
    words, tailmetrics, tmp_path, monkeypatch, kind, name
):
    """A link, device, pipe or socket at an output path is refused before anything is
    evaluated, with and without --overwrite, and is unchanged. A report in Python
    refuses it as well.
    """
    out = tmp_path / "out"
    out.mkdir()
    monkeypatch.chdir(out)
    (out / "file").write_bytes(b"theirs")
    node(out / name, kind)
    before = facts(out / name)
    outputs = ["--out", out, "--per-row", out / "rows.parquet"]
    with monkeypatch.context() as patched:
        patched.setattr("tailmetrics.cli.evaluate.open_inputs", None)
        for further_options in ([], ["--overwrite"]):
            status, _, err = tailmetrics(*words, *outputs, *further_options)
            assert status == 2
            assert (
                f"{name}: is a link, device, pipe or socket, where a file is to be written"
                in err.splitlines()[0]
            )
    if name == "report.csv":
        report = evaluate(torch.eye(3), torch.arange(3), metrics=[RecallAtK(k=1)])
        with pytest.raises(FileExistsError, match="is a link, device, pipe or socket"):
            report.write(out)
    assert facts(out / name) == before
    assert {path.name for path in out.iterdir()} == {"file", name}
    assert (out / "file").read_bytes() == b"theirs"


def test_a_path_that_becomes_a_pipe_meanwhile_is_not_replaced(tmp_path):
    """If an output path becomes a pipe during the evaluation, whether it was a file or
    absent, the files are not written.
    """
    (tmp_path / "report.csv").write_text("old")
    for name, overwrite in (("report.csv", True), ("report.png", False)):
        with Outputs(overwrite=overwrite) as outputs:
            folder = tmp_path if overwrite else tmp_path / "new"
            stage(outputs, folder, json="{}", csv="new")
            folder.mkdir(exist_ok=True)
            (folder / name).unlink(missing_ok=True)
            os.mkfifo(folder / name)
            with pytest.raises(CommandError, match="is a link, device, pipe or socket"):
                outputs.place()
        assert (folder / name).is_fifo()
        assert {path.name for path in folder.iterdir()} - {"new"} == {name}


@pytest.mark.parametrize(
    "pattern", ["parts", "parts/*", "./parts/r*.[cp]*", "parts/**/*"]
)
def test_outputs_among_the_parts_of_an_input_are_refused(
    data_set, config, tailmetrics, tmp_path, monkeypatch, pattern
):
    """An output within a folder of parts, or one that matches the pattern of an input,
    is refused before evaluating, because the next run would read it.
    """
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
        status, _, err = (
            tailmetrics(*words, *output, "--overwrite")
            if output
            else (2, "", "one of the parts")
        )
        assert (status, contents(tmp_path)) == (2, before)
        assert "one of the parts" in err
    if "**" not in pattern:
        assert tailmetrics(*words, "--out", "elsewhere", "--quiet")[0] == 0


def test_an_output_folder_that_is_a_broken_link_is_refused(
    words, tailmetrics, tmp_path, monkeypatch
):
    """An output folder that is a link without a target is refused before evaluating; a
    link to a folder is followed.
    """
    (tmp_path / "out").symlink_to(tmp_path / "nowhere")
    with monkeypatch.context() as patched:
        patched.setattr("tailmetrics.cli.evaluate.open_inputs", None)
        status, _, err = tailmetrics(*words, "--out", tmp_path / "out" / "below")
    assert (status, err.splitlines()[0]) == (
        2,
        f"error: {tmp_path / 'out'}: is not a folder",
    )
    (tmp_path / "nowhere").mkdir()
    assert tailmetrics(*words, "--out", tmp_path / "out")[0] == 0
    assert (tmp_path / "nowhere" / "report.json").is_file()


SIGNAL_IN_A_BATCH = """
import os, signal, sys
from pathlib import Path
from tailmetrics.cli import compare, evaluate, main, parser
from tailmetrics.evaluation import Evaluation

parser.options_of("evaluate")  # create it once, not in each run

add, calls = Evaluation.add, []

class Removed:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)

def run(action):
    "Run the command line in a process that gets a signal in its third batch; return its status, stdout and stderr."
    def counted(self, batch):
        calls.append(batch)
        if len(calls) == 3:
            eval(action)
        return add(self, batch)

    child = os.fork()
    if not child:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # which processes in the background of a shell ignore
        for number in (signal.SIGTERM, signal.SIGHUP):  # which processes of nohup ignore
            signal.signal(number, signal.SIG_DFL)
        for stream in (1, 2):
            os.dup2(os.open(f"{folder}.{stream}", os.O_CREAT | os.O_WRONLY | os.O_TRUNC), stream)
        sys.argv, Evaluation.add = ["tailmetrics", *words], counted
        os._exit(main())
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    printed = (Path(f"{folder}.{stream}").read_text().splitlines(True) for stream in (1, 2))
    return status, *("".join(line for line in lines if not line.startswith("read: ")) for lines in printed)

result = [run(action) for action in actions]
"""
INTERRUPTED = "interrupted: what is not complete is not written\n"


@pytest.fixture
def by_decile(data_set, config, tmp_path):
    """Return a command line that writes a report and a table into a new folder."""
    out = tmp_path / "out"
    metrics = [
        "--config",
        config(("RecallAtK", "{k: 3, buckets: deciles, scope: global}")),
    ]
    rows = [
        "--batch-rows",
        "7",
        "--out",
        str(out),
        "--per-row",
        str(out / "rows.parquet"),
    ]
    return ["evaluate", *metrics, *data_set.options_with_training, *rows]


@pytest.mark.slow
def test_a_signal_during_evaluation_leaves_no_files(
    by_decile, tmp_path, tmp_path_factory
):
    """A command that gets SIGINT, SIGTERM or SIGHUP ends with the status 130, 143 or
    129, for SIGINT with one line on stderr, and leaves no files.
    """
    ends = {
        "os.kill(os.getpid(), signal.SIGINT)": (130, "", INTERRUPTED),
        "Removed()": (130, "", INTERRUPTED),  # Python ignores errors in __del__
        "os.kill(os.getpid(), signal.SIGTERM)": (143, "", ""),
        "os.kill(os.getpid(), signal.SIGHUP)": (129, "", ""),  # the terminal is closed
    }
    values = f"words, folder, actions = {by_decile}, {str(tmp_path_factory.mktemp('printed') / 'a')!r}, {[*ends]}\n"
    assert processes.run_in_process(values + SIGNAL_IN_A_BATCH) == [*ends.values()]
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]


INTERRUPTED_RUNS = int(os.environ.get("TAILMETRICS_FUZZ_CASES", "3"))
"""Number of runs that a signal ends; each takes a second."""
SIGNAL_AT_RANDOM = """
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

parser.options_of("evaluate")  # create it once, not in each run
pictures.picture = titled

def contents(folder):
    "Files with their bytes, and folders that hold none."
    paths = [path for path in folder.rglob("*") if path.is_file() or not any(path.iterdir())]
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in paths}

def run(words, at, number):
    "Run the command line in a process that gets a signal at that call of a function, if any; return status and calls."
    read_end, write_end = os.pipe()
    if not os.fork():
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for ignored in (signal.SIGTERM, signal.SIGHUP):  # which processes of nohup ignore
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
        os.write(write_end, str(calls).encode())
        os._exit(status)
    os.close(write_end)
    status = os.waitstatus_to_exitcode(os.wait()[1])
    with os.fdopen(read_end, "rb") as file:
        return status, int(file.read() or 0)

random_source, result, folder = random.Random(0), [], Path(folder)
for words in lines:
    out, backup = folder / "out", folder / "backup"
    run(words, None, 0)
    old = contents(out)
    out.rename(backup)
    changed = {"evaluate": ["--metrics+=MRR"], "compare": ["--confidence", "0.9"]}
    new_words = [*words, "--overwrite", "--title", "another", *changed[words[0]]]
    shutil.copytree(backup, out)
    status, calls = run(new_words, 0, 0)
    new = contents(out)
    same = [name for name in new if new[name] == old.get(name)]
    assert (status, set(new), same) == (0, set(old), []), (status, same)
    for _ in range(cases):
        shutil.rmtree(out)
        shutil.copytree(backup, out)
        number = random_source.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
        # often among the last calls, in which files are placed
        at = random_source.choice([random_source.randrange(calls), calls - random_source.randrange(min(calls, 3000))])
        status, _ = run(new_words, at, number)
        now = contents(folder)
        shutil.rmtree(folder / "scratch")
        (folder / "scratch").mkdir()
        left = [name for name in now if not name.startswith(("out/", "backup/")) or "/.tailmetrics" in name]
        left = [name for name in left if name != "scratch"]
        files = {name[4:]: data for name, data in now.items() if name.startswith("out/") and name not in left}
        killed = number == signal.SIGKILL
        whole = files in (old, new) or (killed and all(data in (old[name], new[name]) for name, data in files.items()))
        lost = set(old) - set(files)
        expected = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGKILL: -9}[number]
        if not whole or lost or (left and not killed) or status not in (0, expected):
            result.append((words[0], at, calls, number.name, status, whole, lost, left))
    shutil.rmtree(out), shutil.rmtree(backup)
"""


@pytest.mark.slow
def test_runs_killed_at_random_moments_leave_whole_files(
    data_set, by_decile, tmp_path_factory, tailmetrics
):
    """After SIGINT, SIGTERM or SIGHUP at a random moment, the existing files are all
    old or all new.

    After SIGKILL each file is whole, the old or the new one.
    """
    folder = tmp_path_factory.mktemp("ended")
    tables = [str(folder / f"{name}.parquet") for name in "ab"]
    for table in tables:
        assert tailmetrics(*by_decile[:-4], "--per-row", table, "--quiet")[0] == 0
    lines = [
        [
            *by_decile[:-4],
            "--out",
            f"{folder}/in/out",
            "--per-row",
            f"{folder}/in/out/rows.parquet",
        ]
    ]
    lines.append(["compare", *tables, "--out", f"{folder}/in/out"])
    (folder / "in" / "scratch").mkdir(parents=True)
    values = f"lines, folder, cases = {lines}, {str(folder / 'in')!r}, {-(-INTERRUPTED_RUNS // len(lines))}\n"
    assert processes.run_in_process(values + SIGNAL_AT_RANDOM) == []


def test_a_temporary_folder_is_removed_after_an_interrupt(tmp_path, monkeypatch):
    """A temporary folder that is created just before an interrupt is removed with its
    Outputs, in a program that goes on.
    """

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


def test_an_interrupt_before_files_are_placed_leaves_none(
    by_decile, tailmetrics, tmp_path, monkeypatch
):
    """An interrupt after a report is written to the temporary folder, and before its
    files are placed, leaves no files.
    """

    def interrupted(*arguments, **keywords):
        paths = write(*arguments, **keywords)
        signal.raise_signal(signal.SIGINT)
        return paths

    write = Report.write
    monkeypatch.setattr(Report, "write", interrupted)
    assert tailmetrics(*by_decile) == (130, "", INTERRUPTED)
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]


def stage(outputs, folder, **files):
    """Write files into the temporary folder of outputs."""
    new = outputs.claim(
        folder, [f"report.{suffix}" for suffix in ("json", "csv", "png")]
    )
    for suffix, text in files.items():
        (new / f"report.{suffix}").write_text(text)


def test_an_error_removes_staged_files(tmp_path):
    """After an error no staged file is placed, and the output folder is not created."""

    def fail():
        with Outputs() as outputs:
            stage(outputs, tmp_path / "new" / "out", json="{}")
            raise ValueError("late")

    with pytest.raises(ValueError, match="late"):
        fail()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["evaluate", "compare"])
def test_a_table_of_rows_is_closed_after_an_error(
    config, write_files, tailmetrics, tmp_path, monkeypatch, command
):
    """If a late batch is refused, the unfinished table of rows is closed, so that its
    folder can be deleted.
    """
    files = []

    class Recorded(pq.ParquetWriter):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            files.append(self)

    monkeypatch.setattr(pq, "ParquetWriter", Recorded)
    monkeypatch.setattr("tailmetrics.evaluation.row_tables.BUFFERED_CELLS", 1)
    scores = np.random.default_rng(0).normal(size=(40, 6))
    scores[30, 2] = np.nan
    words = [
        *write_files(preds=scores, target=np.arange(40) % 6),
        "--config",
        config(("RecallAtK", "{k: 2}")),
    ]
    words += ["--batch-rows", 10, "--quiet"]
    if command == "compare":
        words += ["--preds", tmp_path / "preds.npy", "--names", "a", "b"]
    else:
        words += ["--out", tmp_path / "out"]
    status, _, err = tailmetrics(command, *words)
    assert status == 2
    assert "row 30: holds the score nan" in err
    assert files
    assert not any(file.is_open for file in files)
