"""The code of docs/engines.md runs on local clusters of two workers, one of which is
killed, with the report of one process.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "engines.md").read_text()
FILES = dict(
    re.findall(r'^```py title="(\w+\.py)"\n(.*?)^```$', PAGE, re.DOTALL | re.M)
)
ENGINES = {"dask": "distributed", "ray": "ray", "spark": "pyspark"}
KILLED = '''

import os, pathlib


class RecallAtK(RecallAtK):
    """A metric that kills the process of the third batch."""

    def prepare(self, ranking):
        calls = pathlib.Path(__file__).parent / "calls"
        with calls.open("a") as file:
            file.write(".")
        if calls.stat().st_size == 3:
            os.kill(os.getpid(), 9)
        return super().prepare(ranking)


'''
ONE = """
import pyarrow.parquet as pq, tailmetrics
from metrics import METRICS
rows, train = pq.read_table("rows"), pq.read_table("train.parquet")["labels"]
counts = tailmetrics.LabelFrequency(100)
counts.update(train)
tailmetrics.evaluate(rows["ids"], rows["labels"], metrics=METRICS, label_counts=counts).write("reports/one")
"""


@pytest.fixture
def folder(engine, tmp_path, monkeypatch):
    """Return a folder with the files of the pages, or skip if the engine is not
    installed.
    """
    pytest.importorskip(ENGINES[engine])
    monkeypatch.chdir(tmp_path)
    data = re.search(
        r"^```python\n(.*?)^```$", (DOCS / "offline.md").read_text(), re.DOTALL | re.M
    )
    exec(compile(data[1], "offline.md", "exec"), {})
    for name, text in FILES.items():
        (tmp_path / name).write_text(
            text.replace("\n\nMETRICS", KILLED + "METRICS")
            if name == "metrics.py"
            else text
        )
    run("rows.py")
    (tmp_path / "one.py").write_text(ONE)
    (tmp_path / "calls").write_text("." * 3)
    run("one.py")
    (tmp_path / "calls").unlink()
    return tmp_path


def run(*words):
    """Run Python in the folder."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": "--master local[2,4] pyspark-shell",
        "PYTHONPATH": os.pathsep.join(
            [str(Path.cwd()), os.environ.get("PYTHONPATH", "")]
        ),
    }
    process = subprocess.run(
        [sys.executable, *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert process.returncode == 0, process.stderr[-3000:]


def batches(folder):
    """Return the number of batches that were started; a batch that is tried again
    counts twice.
    """
    return (folder / "calls").stat().st_size


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_the_script_of_the_page_gives_the_report_of_one_process(folder, engine):
    """The script of the page gives the report of one process with each engine, although
    a worker dies in the middle.
    """
    run(f"with_{engine}.py")
    assert batches(folder) > 8
    assert (folder / "reports/one/report.json").read_bytes() == (
        folder / f"reports/{engine}/report.json"
    ).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_the_command_of_the_page_gives_the_report_of_one_process(folder, engine):
    """The command of the page gives the report of one process with each engine, with a
    custom metric that kills a worker.
    """
    _, *words = shlex.split(
        re.search(r"^```bash\n(.*?)^```$", PAGE, re.DOTALL | re.M)[1].replace(
            "\\\n", ""
        )
    )
    words += ["--metrics+=metrics.RecallAtK", "--metrics.k=7"]
    words[words.index("--engine") + 1] = engine
    words[words.index("--shares") + 1] = "8"
    run("-m", "tailmetrics", *words)
    assert batches(folder) > 5  # one batch for each row group

    place = words.index("--engine")
    del words[place : place + len(["--engine", engine, "--shares", "8"])]
    words[words.index("--out") + 1] = "reports/alone"
    run("-m", "tailmetrics", *words)
    expected, shared = (
        (folder / f"reports/{name}/report.json").read_bytes()
        for name in ("alone", "engine")
    )
    assert expected == shared
