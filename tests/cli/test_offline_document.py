"""docs/offline.md is true: its code runs from top to bottom, and its commands succeed."""

import re
import shlex
from pathlib import Path

DOCUMENT = Path(__file__).parents[2] / "docs" / "offline.md"


def blocks():
    """Yield language and text of every block of code."""
    yield from re.findall(r"^```(\w+)\n(.*?)^```$", DOCUMENT.read_text(), re.DOTALL | re.MULTILINE)


def test_every_block_runs(tailmetrics, workers, tmp_path, monkeypatch):
    """Python is executed, commands are run one by one, torchrun included; only text blocks are left alone."""
    monkeypatch.chdir(tmp_path)
    names = {}
    ran = 0
    for language, text in blocks():
        if language == "python":
            exec(compile(text, DOCUMENT.name, "exec"), names)
        elif language == "bash":
            for line in text.replace("\\\n", " ").splitlines():
                run(line, tailmetrics, workers)
        ran += language in ("python", "bash")
    assert ran == 11
    assert (tmp_path / "reports" / "compare" / "compare.md").exists()


def run(line, tailmetrics, workers):
    """Run one command, on two processes under torchrun; status and stderr are those of success."""
    program, *words = shlex.split(line)
    if program == "tailmetrics":
        status, _, err = tailmetrics(*words)
        assert (status, err) == (0, ""), line
    else:
        assert program == "torchrun"
        launcher = ["--standalone", "--nproc-per-node", "2", "-m", "tailmetrics"]
        assert words[: len(launcher)] == launcher
        ended = workers.ranks(*words[len(launcher) :], folder=Path.cwd())
        assert [one[::2] for one in ended] == [(0, "")] * 2, line
