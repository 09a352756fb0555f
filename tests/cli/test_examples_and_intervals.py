"""``--examples`` and intervals: what the command line shows of single rows, and how sure a number is."""

import json
from pathlib import Path
from typing import Any

import pytest

METRICS = [("RecallAtK", "{k: 3, buckets: deciles, scope: global}"), ("NDCGAtK", "{k: 5}")]


def report_of(folder: Path) -> Any:
    return json.loads((folder / "report.json").read_text())


@pytest.mark.slow
def test_examples_are_rows_of_the_files(made: Any, config: Any, tailmetrics: Any, tmp_path: Path) -> None:
    """Each misses a label of its bucket: relevant in that row of the file of targets, and not in the list shown."""
    options = ["--config", config(*METRICS), *made.trained_on, "--examples", "--verbose", "--out"]
    status, printed, _ = tailmetrics("evaluate", *options, tmp_path / "one")
    assert status == 0
    found = report_of(tmp_path / "one")["examples"]
    assert len(found) > 3
    for one in found:
        relevant = made.relevant[one["row"]]
        assert one["missed"] in relevant
        assert one["num_relevant"] == len(relevant)
        assert one["missed"] not in [label["label"] for label in one["shown"]]
        assert {label["bucket"] for label in one["relevant"] if label["label"] == one["missed"]} == {one["bucket"]}
    assert "example rows" in printed
    assert f"row {found[-1]['row']}" in printed
    assert tailmetrics("evaluate", *options, tmp_path / "two", "--batch-rows", 7, "--quiet")[0] == 0
    assert report_of(tmp_path / "two")["examples"] == found


def test_examples_have_the_names_of_queries(evaluated: Any, tmp_path: Path) -> None:
    """A run of TREC: the row is its query, the labels are documents."""
    (tmp_path / "a.run").write_text("q1 Q0 d1 1 3 a\nq1 Q0 d2 2 2 a\nq2 Q0 d1 1 1 a\n")
    (tmp_path / "a.qrels").write_text("q1 0 d1 1\nq1 0 d3 1\nq2 0 d1 1\n")
    files = ["--preds", tmp_path / "a.run", "--target", tmp_path / "a.qrels"]
    (one,) = evaluated("--metrics+=RecallAtK", "--metrics.k=2", "--examples", *files)["examples"]
    assert one["name"] == "q1"
    found = [(label["name"], label["rank"], label["hit"]) for label in one["relevant"]]
    assert found == [("d1", 1, True), ("d3", None, False)]
    assert [label["name"] for label in one["shown"]] == ["d1", "d2"]


@pytest.mark.slow
def test_intervals_by_default_and_not(made: Any, config: Any, tailmetrics: Any, tmp_path: Path) -> None:
    """± without being asked, of the confidence asked for; nothing with --no-intervals; both together are refused."""
    options = ["evaluate", "--config", config(*METRICS), *made.trained_on, "--overwrite", "--out", tmp_path / "out"]
    printed = tailmetrics(*options, "--verbose", "--confidence", 0.9)[1]
    assert "± is half the width of the 90% confidence interval" in printed
    found = report_of(tmp_path / "out")["intervals"]
    assert found["ndcg@5"]["method"] == "Student's t"
    assert "±" not in tailmetrics(*options, "--verbose", "--no-intervals")[1]
    assert report_of(tmp_path / "out")["intervals"] == {}
    status, _, err = tailmetrics(*options, "--no-intervals", "--intervals")
    assert (status, err.splitlines()[0]) == (2, "error: --intervals and --no-intervals are both given")
