"""`tailmetrics plan`: from tables of values per row to the rows that would show a difference."""

import csv
import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from tailmetrics.cli import main
from tailmetrics.report import page
from tailmetrics.report.planning import PlanReport
from tailmetrics.significance import Plan, rows_needed

NUM_ROWS, NUM_LABELS = 90, 12
METRICS = """metrics:
  - class_path: tailmetrics.RecallAtK
    init_args: {k: 3, buckets: "quantiles:3", scope: global}
  - class_path: tailmetrics.KForRecall
    init_args: {min_recall: 0.8}
"""


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Return the tables of two runs on the same rows, in clusters of three."""
    folder, rng = tmp_path_factory.mktemp("planned"), np.random.default_rng(0)
    (folder / "config.yaml").write_text(METRICS)
    target = rng.integers(NUM_LABELS, size=NUM_ROWS)
    np.save(folder / "target.npy", target)
    np.save(folder / "counts.npy", np.arange(NUM_LABELS, 0, -1))
    np.save(folder / "clusters.npy", [str(row // 3) for row in range(NUM_ROWS)])
    files = [
        "--target",
        folder / "target.npy",
        "--label-counts",
        folder / "counts.npy",
        "--clusters",
        folder / "clusters.npy",
    ]
    for name in ("new", "old"):
        scores = rng.normal(size=(NUM_ROWS, NUM_LABELS))
        scores[np.arange(NUM_ROWS), target] += 1
        np.save(folder / f"{name}.npy", scores)
        words = ["--preds", folder / f"{name}.npy", *files, "--config", folder / "config.yaml", "--quiet"]
        assert main(["evaluate", *map(str, words), "--per-row", str(folder / f"{name}.parquet")]) == 0
    return [folder / "new.parquet", folder / "old.parquet"]


def by_key(folder):
    return {one["key"]: one for one in json.loads((folder / "plan.json").read_text())["plans"]}


def test_numbers_are_those_of_rows_needed(tables, tailmetrics, tmp_path):
    """Of one run with an assumed agreement; the clusters of the table are planned; a median has no plan."""
    status, out, err = tailmetrics(
        "plan", tables[0], "--difference", 0.1, "--agreement", 0.7, "--out", tmp_path / "out"
    )
    assert (status, err) == (0, "")
    found, table = by_key(tmp_path / "out"), pq.read_table(tables[0])
    rows, clusters = table["recall@3"].to_numpy(), table["cluster"].to_pylist()
    needed = rows_needed({"new": rows}, 0.1, agreement=0.7, clusters=clusters)
    line = found["recall@3"]
    assert (line["rows"], line["rows_needed"], line["more_rows"]) == (NUM_ROWS, needed, max(0, needed - NUM_ROWS))
    assert found["median_k_for_recall@0.8"]["rows_needed"] is None
    assert "correlate by 0.7 between the two models" in out.replace("\n", " ")
    lines = {line["key"]: line for line in csv.DictReader((tmp_path / "out" / "plan.csv").open())}
    assert lines["recall@3"]["rows_needed"] == str(needed)
    assert f"{needed:,}" in (tmp_path / "out" / "plan.html").read_text()
    assert sorted(path.suffix for path in (tmp_path / "out").iterdir()) == [".csv", ".html", ".json", ".md", ".tex"]


def test_two_runs_are_planned_by_their_differences(tables, tailmetrics, tmp_path):
    """Only the recall, with its values by bucket; clusters by the name of their column; what is larger needs fewer rows."""
    words = ["--only", "recall@3", "--clusters", "cluster", "--quiet"]
    found = []
    for difference in (0.05, 0.2):
        words += ["--overwrite"] if found else []
        assert tailmetrics("plan", *tables, "--difference", difference, *words, "--out", tmp_path)[0] == 0
        found.append(by_key(tmp_path))
    first, second = (pq.read_table(path)["recall@3"].to_numpy() for path in tables)
    assert found[0]["recall@3"]["rows_needed"] == rows_needed(
        {"a": first, "b": second}, 0.05, clusters=np.arange(NUM_ROWS) // 3
    )
    assert found[1]["recall@3"]["rows_needed"] < found[0]["recall@3"]["rows_needed"]
    of_buckets = (f"global_recall@3/{name}" for name in ("quantile_3", "quantile_2", "quantile_1", "unseen"))
    assert [*found[0]] == ["recall@3", *of_buckets]


def test_what_a_plan_needs(tables, tailmetrics, tmp_path):
    """A table, at most two, a difference; an agreement stands beside one run alone."""
    for words in ([], [*tables, tables[0]], [tables[0]]):
        status, _, err = tailmetrics("plan", *words, *(["--difference", 0.1] if len(words) > 1 else []))
        assert status == 2
        assert "hint: name the table of one run, or of the two that are compared, and --difference" in err
    status, _, err = tailmetrics("plan", *tables, "--difference", 0.1, "--agreement", 0.5)
    assert (status, "--agreement 0.5 is for one run" in err) == (2, True)
    status, _, err = tailmetrics("plan", tables[0], "--difference", 0.1, "--only", "precision")
    assert (status, "--only precision: no metric of rows is called that" in err) == (2, True)
    other = pq.read_table(tables[0]).slice(1)
    pq.write_table(other, tmp_path / "fewer.parquet")
    status, _, err = tailmetrics("plan", tables[0], tmp_path / "fewer.parquet", "--difference", 0.1)
    assert (status, "fewer.parquet" in err) == (2, True)


def test_a_page_says_how_many_rows_are_enough_for_all():
    """The most rows that a line lacks, in the sentence at the top; – where no number is known."""
    plans = [Plan("a", 40, 0.2, 160, 120), Plan("b", 4, float("nan"), None, None)]
    text = page(PlanReport(plans, 0.1, 0.8, 0.05))
    assert "120 more rows show a difference of 0.1 in every line that has a number." in text
    assert "<td>–</td>" in text


def test_a_plan_that_no_row_tells_says_so(tables, tailmetrics, tmp_path):
    """The same table twice, rows that agree, and a difference that no share can have: no "0 more rows"."""
    copy = tmp_path / "copy.parquet"
    copy.write_bytes(tables[0].read_bytes())
    status, out, _ = tailmetrics("plan", tables[0], copy, "--only", "recall@3", "--difference", 0.02)
    assert (status, "more rows show" in out) == (0, False)
    assert "No number of rows follows" in " ".join(out.split())
    status, _, err = tailmetrics("plan", tables[0], tables[0], "--difference", 0.02)
    assert (status, "twice" in err and "--agreement" in err) == (2, True)
    status, _, err = tailmetrics("plan", *tables, "--only", "recall@3", "--difference", 2)
    assert (status, "--difference 2 is more than values from 0 to 1 can differ" in err) == (2, True)


def test_clusters_that_one_of_two_tables_keeps_are_planned(tables, tailmetrics, tmp_path):
    """Named in either order, the numbers are those of the clusters; two that differ are refused."""
    plain, found, folder = tmp_path / "plain.parquet", [], tables[0].parent
    files = {"preds": "old.npy", "target": "target.npy", "label-counts": "counts.npy", "config": "config.yaml"}
    words = [word for name, file in files.items() for word in (f"--{name}", folder / file)]
    assert tailmetrics("evaluate", *words, "--quiet", "--per-row", plain)[0] == 0
    table = pq.read_table(tables[1])
    for number, pair in enumerate(([tables[0], plain], [plain, tables[0]])):
        words = ["--only", "recall@3", "--difference", 0.05, "--quiet", "--out", tmp_path / str(number)]
        assert tailmetrics("plan", *pair, *words)[0] == 0
        found.append(by_key(tmp_path / str(number))["recall@3"]["rows_needed"])
    first, second = (pq.read_table(one)["recall@3"].to_numpy() for one in tables)
    runs, clusters = {"a": first, "b": second}, table["cluster"].to_pylist()
    assert found == [rows_needed(runs, 0.05, clusters=clusters)] * 2
    assert found[0] != rows_needed(runs, 0.05)
