"""The code and commands in docs/offline.md and docs/own-metric.md run without
errors.
"""

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from written import values_of

DOCS = Path(__file__).parents[2] / "docs"
DOCUMENT = DOCS / "offline.md"


def blocks(document=DOCUMENT):
    """Yield the language and the text of every code block."""
    yield from re.findall(
        r"^```(\w+)\n(.*?)^```$", document.read_text(), re.DOTALL | re.MULTILINE
    )


@pytest.mark.slow
def test_every_block_of_the_offline_page_runs(tailmetrics, tmp_path, monkeypatch):
    """Every block of Python and every command of docs/offline.md runs.

    The value that the page computes from the table of rows equals that of the report.
    """
    monkeypatch.chdir(tmp_path)
    names = {}
    ran = 0
    for language, text in blocks():
        if language == "python":
            exec(compile(text, DOCUMENT.name, "exec"), names)
        elif language == "bash":
            for line in text.replace("\\\n", " ").splitlines():
                run(line, tailmetrics)
        ran += language in ("python", "bash")
    assert ran == 11
    report = Path("reports/mine/report.json").read_text()
    assert names["psp"] == pytest.approx(
        values_of(json.loads(report))["psp@5"], abs=1e-12
    )
    assert (tmp_path / "reports" / "compare" / "compare.md").exists()


def run(line, tailmetrics):
    """Run one command, which must succeed and print at most notes to stderr."""
    program, *words = shlex.split(line)
    assert program == "tailmetrics"
    status, _, err = tailmetrics(*words)
    assert (
        status,
        [
            text
            for text in err.splitlines()
            if not text.startswith(("note: ", "read: "))
        ],
    ) == (0, []), line


def test_the_custom_metric_of_the_page_runs_from_a_config(
    tailmetrics, tmp_path, monkeypatch, capsys
):
    """The metric of docs/own-metric.md, saved as the page says, is found by the config,
    and the command prints its value under its key.
    """
    monkeypatch.chdir(tmp_path)
    blocks_of_page = list(blocks(DOCS / "own-metric.md"))
    (tmp_path / "f_beta.py").write_text(blocks_of_page[0][1])
    names = {"__name__": "__main__"}
    for text in (text for language, text in blocks_of_page if language == "python"):
        exec(compile(text, "own-metric.md", "exec"), names)
    capsys.readouterr()
    (place,) = (
        place
        for place, (language, _) in enumerate(blocks_of_page)
        if language == "bash"
    )
    program, *words = shlex.split(blocks_of_page[place][1])
    status, out, err = tailmetrics(*words)
    sys.modules.pop("f_beta", None)
    assert (program, status, err) == ("tailmetrics", 0, "")
    assert "my_f_beta_beta0.5@5" in out
