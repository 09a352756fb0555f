"""Ctrl-C and SIGTERM: what is written is whole or not there."""

import signal
import subprocess
import sys

import pytest

from tailmetrics.report import Report

IN_THE_MIDDLE = """
import os, signal, sys
from tailmetrics.cli import main
from tailmetrics.evaluation import Evaluation

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a shell starts in the background
update = Evaluation.update
calls = []

class Removed:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)

def counted(self, *batch, **more):
    calls.append(batch)
    if len(calls) == 3:
        WHERE
    update(self, *batch, **more)

Evaluation.update = counted
raise SystemExit(main())
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
    metrics = [
        "--config",
        config(("RecallAtK", "{k: 3, buckets: deciles, scope: global}")),
        *made.trained_on,
        "--batch-rows",
        "7",
    ]
    return ["evaluate", *metrics, "--out", str(out), "--per-row", str(out / "rows.parquet")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "ends"),
    [
        ("os.kill(os.getpid(), signal.SIGINT)", (130, SAID)),
        ("Removed()", (130, SAID)),  # where Python drops errors
        ("os.kill(os.getpid(), signal.SIGTERM)", (143, "")),  # as torchrun ends the other ranks
    ],
)
def test_a_signal_in_the_third_batch(words, tmp_path, where, ends):
    """A process that gets SIGINT or SIGTERM ends with 130 and one line or with 143, and nothing is left."""
    code = IN_THE_MIDDLE.replace("WHERE", where)
    ended = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert (ended.stdout, (ended.returncode, ended.stderr)) == ("", ends)
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]


def raising(number, after):
    """Return a function that does what ``after`` does, then meets a signal."""

    def interrupted(*arguments, **more):
        found = after(*arguments, **more)
        signal.raise_signal(number)
        return found

    return interrupted


def test_ctrl_c_between_the_files_of_a_report(words, tailmetrics, tmp_path, monkeypatch):
    """With the report written, but not yet in its place, nothing appears."""
    monkeypatch.setattr(Report, "write", raising(signal.SIGINT, Report.write))
    assert tailmetrics(*words) == (130, "", SAID)
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]
