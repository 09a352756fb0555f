"""Ctrl-C and SIGTERM: what is written is whole or not there."""

import signal

import pytest

import processes
from tailmetrics.report import Report

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


@pytest.fixture(autouse=True)
def interruptible():
    """A shell that runs the tests in the background lets them ignore SIGINT; a terminal does not."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def words(made, config, tmp_path):
    """Return a command line that writes a report and a table into a new folder."""
    out = tmp_path / "out"
    metrics = ["--config", config(("RecallAtK", "{k: 3, buckets: deciles, scope: global}"))]
    rows = ["--batch-rows", "7", "--out", str(out), "--per-row", str(out / "rows.parquet")]
    return ["evaluate", *metrics, *made.trained_on, *rows]


@pytest.mark.slow
def test_a_signal_in_the_third_batch(words, tmp_path, tmp_path_factory):
    """A process that gets SIGINT or SIGTERM ends with 130 and one line or with 143, and nothing is left."""
    ends = {
        "os.kill(os.getpid(), signal.SIGINT)": (130, "", SAID),
        "Removed()": (130, "", SAID),  # where Python drops errors
        "os.kill(os.getpid(), signal.SIGTERM)": (143, "", ""),  # as torchrun ends the other ranks
    }
    given = f"words, folder, places = {words}, {str(tmp_path_factory.mktemp('said') / 'a')!r}, {[*ends]}\n"
    assert processes.found_by(given + IN_THE_MIDDLE) == [*ends.values()]
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]


def test_ctrl_c_between_the_files_of_a_report(words, tailmetrics, tmp_path, monkeypatch):
    """With the report written, but not yet in its place, nothing appears."""

    def interrupted(*arguments, **more):
        found = write(*arguments, **more)
        signal.raise_signal(signal.SIGINT)
        return found

    write = Report.write
    monkeypatch.setattr(Report, "write", interrupted)
    assert tailmetrics(*words) == (130, "", SAID)
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]
