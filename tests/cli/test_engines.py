"""docs/engines.md is true: on local clusters of two workers, one of them killed in the middle, the report is that of one process."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
FILES = dict(re.findall(r'^```py title="(\w+\.py)"\n(.*?)^```$', (DOCS / "engines.md").read_text(), re.DOTALL | re.M))
KILLED = """

import os, pathlib
_share = share


def share(number, shares=SHARES):
    marker = pathlib.Path("killed")
    if shares > 1 and number == 3 and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), 9)
    return _share(number, shares)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with the files of the pages."""
    monkeypatch.chdir(tmp_path)
    data = re.search(r"^```python\n(.*?)^```$", (DOCS / "offline.md").read_text(), re.DOTALL | re.M)
    exec(compile(data[1], "offline.md", "exec"), {})
    for name, text in FILES.items():
        (tmp_path / name).write_text(text + (KILLED if name == "shares.py" else ""))
    return tmp_path


def run(script):
    """Run a script of the folder."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYSPARK_PYTHON": sys.executable,
    }
    return subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, timeout=400)


ONE = "from shares import share, merged, write; write(share(0, 1), 'reports/one'); write(merged(*map(share, range(8))), 'reports/tasks')"


@pytest.mark.slow
def test_the_functions_of_the_page(folder):
    """Eight shares, merged, give the bytes of one."""
    (folder / "killed").touch()
    (folder / "one.py").write_text(ONE)
    ended = run("one.py")
    assert ended.returncode == 0, ended.stderr
    assert (folder / "reports/one/report.json").read_bytes() == (folder / "reports/tasks/report.json").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "module"), [("dask", "distributed"), ("ray", "ray"), ("spark", "pyspark")])
def test_an_engine_gives_the_report_of_one_process(folder, engine, module):
    """Although a worker dies while it has a share."""
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed")
    (folder / "one.py").write_text(ONE.partition("; write(merged")[0])
    assert run("one.py").returncode == 0
    ended = run(f"with_{engine}.py")
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert (folder / "killed").exists()
    assert (folder / "reports/one/report.json").read_bytes() == (folder / f"reports/{engine}/report.json").read_bytes()
