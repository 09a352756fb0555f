"""Intervals of the command line: how sure a number is."""

import json
from pathlib import Path
from typing import Any

import pytest

from written import by_key

METRICS = [("RecallAtK", "{k: 3, buckets: deciles, scope: global}"), ("NDCGAtK", "{k: 5}")]


def report_of(folder: Path) -> Any:
    return json.loads((folder / "report.json").read_text())


@pytest.mark.slow
def test_intervals_by_default_and_not(made: Any, config: Any, tailmetrics: Any, tmp_path: Path) -> None:
    """± without being asked, of the confidence asked for; nothing with --no-intervals; both together are refused."""
    options = ["evaluate", "--config", config(*METRICS), *made.trained_on, "--overwrite", "--out", tmp_path / "out"]
    printed = tailmetrics(*options, "--verbose", "--confidence", 0.9)[1]
    assert "± is half the width of the 90% confidence interval" in printed
    found = by_key(report_of(tmp_path / "out"))
    assert found["ndcg@5"]["interval_method"] == "Student's t"
    assert "±" not in tailmetrics(*options, "--verbose", "--no-intervals")[1]
    assert by_key(report_of(tmp_path / "out")) == {}
    status, _, err = tailmetrics(*options, "--no-intervals", "--intervals")
    assert (status, err.splitlines()[0]) == (2, "error: --intervals and --no-intervals are both given")
