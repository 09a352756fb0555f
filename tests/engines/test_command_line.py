"""With `--engine` the command line gives the report of one process, and errors name the
files.
"""

import sys
import warnings
from types import ModuleType

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailmetrics.cli import main

ROWS, LABELS = 60, 12
TASKS = 3
"""The number of tasks that the engine runs at a time; each gets two shares."""


@pytest.fixture
def words(alone, tmp_path, monkeypatch):
    """Return a command line whose Dask is an engine without machines, which warns when
    it connects.
    """

    class Warns(type(alone)):
        def connect(self):
            warnings.warn("the engine does not know this pandas", stacklevel=1)
            return TASKS

    package = ModuleType("tailmetrics.engines.dask")
    package.CLUSTER = Warns()
    monkeypatch.setitem(sys.modules, "distributed", ModuleType("distributed"))
    monkeypatch.setitem(sys.modules, "tailmetrics.engines.dask", package)
    monkeypatch.chdir(tmp_path)

    ids = [
        [(row + 5 * place + 3) % LABELS for place in range(4)] for row in range(ROWS)
    ]
    labels = [[row % 7, 7 + row % 5] for row in range(ROWS)]
    pq.write_table(pa.table({"ids": ids}), "preds.parquet", row_group_size=10)
    pq.write_table(pa.table({"labels": labels}), "target.parquet", row_group_size=15)
    pq.write_table(pa.table({"labels": labels[::2]}), "train.parquet", row_group_size=7)
    files = [
        "--preds",
        "preds.parquet",
        "--target",
        "target.parquet",
        "--train-target",
        "train.parquet",
    ]
    metrics = [
        "--metrics+=RecallAtK",
        "--metrics.k=3",
        "--buckets",
        "quantiles:3",
        "--num-labels",
        str(LABELS),
    ]
    return ["evaluate", *files, *metrics, "--quiet"]


@pytest.mark.parametrize("shares", [[], ["--shares", "1"], ["--shares", "9"]])
def test_shares_of_any_number_give_the_report_of_one_process(
    words, tmp_path, capsys, shares
):
    """An engine with any number of shares gives the bytes of the report of one process.

    A warning of the engine is printed as a note and is in no report.
    """
    assert main([*words, "--no-rows", "--out", "one"]) == 0
    capsys.readouterr()
    assert main([*words, "--engine", "dask", *shares, "--out", "shared"]) == 0
    assert "note: the engine does not know this pandas\n" in capsys.readouterr().err
    expected, shared = (
        (tmp_path / folder / "report.json").read_bytes() for folder in ("one", "shared")
    )
    assert shared == expected


def test_an_error_in_a_share_names_file_and_row(words, tmp_path, capsys):
    """An error in a share names the file by its full path, which all machines know, and
    the row in the file.
    """
    pq.write_table(pa.table({"labels": [[0]] * 40 + [[LABELS]] * 20}), "target.parquet")
    assert main([*words, "--engine", "dask"]) == 2
    problem = f"{tmp_path}/target.parquet, row 40: holds the label id {LABELS}, but there are {LABELS} labels"
    assert f"error: {problem}\nhint: " in capsys.readouterr().err
