"""Ctrl-C and SIGTERM: what is written is whole or not there."""

import signal
import subprocess
import sys

import pytest

from tailmetrics.cli.staging import Staging

IN_THE_MIDDLE = """
import os, signal, sys
from tailmetrics.cli import main
from tailmetrics.report.evaluation import Evaluation
from tailmetrics.report.report import Report

calls, update, write = [], Evaluation.update, Report.write

def counted(self, *batch):
    calls.append(batch)
    if len(calls) == 3 and sys.argv[1] == "third batch":
        os.kill(os.getpid(), int(sys.argv[2]))
    update(self, *batch)

def written(self, folder):
    paths = write(self, folder)
    if sys.argv[1] == "report":
        os.kill(os.getpid(), int(sys.argv[2]))
    return paths

Evaluation.update, Report.write = counted, written
raise SystemExit(main(sys.argv[3:]))
"""


@pytest.mark.parametrize(
    ("when", "number", "status", "said"),
    [
        ("third batch", signal.SIGINT, 130, "interrupted: what is not complete is not written\n"),
        ("report", signal.SIGINT, 130, "interrupted: what is not complete is not written\n"),
        ("third batch", signal.SIGTERM, 143, ""),
    ],
)
def test_an_interrupt_leaves_nothing_half_written(made, config, tmp_path, when, number, status, said):
    """Between batches or between the files of the report: no file, no trace of one, and the status of the signal."""
    out = tmp_path / "out"
    arguments = ["--config", config(("RecallAtK", "{k: 3, buckets: deciles}")), *made.trained_on, "--batch-rows", "7"]
    arguments += ["--out", str(out), "--per-row", str(out / "rows.parquet")]
    command = [sys.executable, "-c", IN_THE_MIDDLE, when, str(int(number)), "evaluate", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (status, "", said)
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]


def test_an_interrupt_while_files_appear_waits_until_all_are_there(tmp_path, monkeypatch):
    """SIGINT between the first and the second file is raised behind the last."""
    from pathlib import Path

    replace = Path.replace

    def interrupted(self, target):
        signal.raise_signal(signal.SIGINT)
        return replace(self, target)

    with pytest.raises(KeyboardInterrupt), Staging() as staging:
        for name in ("a", "b"):
            (staging.folder(tmp_path / "out") / name).write_text(name)
        monkeypatch.setattr(Path, "replace", interrupted)
        staging.publish()
    assert {path.name: path.read_text() for path in (tmp_path / "out").iterdir()} == {"a": "a", "b": "b"}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_error_removes_what_was_staged(tmp_path):
    """Nothing is published on the way out of an error, and the folder is not made."""
    with pytest.raises(ValueError, match="late"), Staging() as staging:
        (staging.folder(tmp_path / "new" / "out") / "a").write_text("a")
        raise ValueError("late")
    assert not list(tmp_path.iterdir())
