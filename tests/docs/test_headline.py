"""What README and documentation say of the demo is what the demo writes: one committed file of its results."""

from __future__ import annotations

import json
import re
from pathlib import Path

from examples.icd10 import headline as demo
from tailmetrics.report import BucketRow, Report

ROOT = Path(__file__).parents[2]
FOUND = json.loads((ROOT / "examples" / "icd10" / "results.json").read_text())


def words(page: str) -> str:
    """The text of a page, with one blank between words."""
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())


def test_readme_says_what_the_demo_prints() -> None:
    """The whole sentence, every digit of it."""
    assert demo.sentence(FOUND) in words("README.md")


def test_the_home_page_says_the_same() -> None:
    """The percentages of the home page, in its order: all labels, decile 10, decile 1, positives never seen."""
    by_decile, unseen = FOUND["by_decile"], FOUND["unseen_share_of_positives"]
    said = re.search(
        r"holds (\d+) % of the right codes.*?(\d+) % of .*?(\d+) % of those.*? are (\d+) %", words("docs/index.md")
    )
    assert said is not None
    expected = (FOUND["recall@10"], by_decile["decile_10"], by_decile["decile_1"], unseen)
    assert [int(number) for number in said.groups()] == [round(100 * value) for value in expected]
    assert by_decile["unseen"] == 0


def test_the_data_set_says_the_same() -> None:
    """The share of positives that training never shows stands in the docstring of the data."""
    share = f"{100 * FOUND['unseen_share_of_positives']:.1f} %"
    assert f"{share} of the test split's positives" in words("examples/icd10/data.py")


def test_results_are_read_off_the_report(tmp_path: Path) -> None:
    """Of a report of 3 rows: values and counts as they stand there; the file is written and the sentence returned."""
    scalars = {
        "recall@10": 0.5,
        **{
            f"global_recall@10/{name}": value
            for name, value in (("decile_10", 0.75), ("decile_1", 0.25), ("unseen", 0.0))
        },
        **{f"recall@10/{name}": 1.0 for name in ("decile_10", "decile_1", "unseen")},
    }
    buckets = [BucketRow("decile_10", 1, 9, 5), BucketRow("decile_1", 4, 9, 3), BucketRow("unseen", 2, 0, 2)]
    Report("demo", scalars, buckets=buckets, rows=3, positives=10).write(tmp_path, stem="report_test")
    said = demo.headline(tmp_path)
    found = json.loads((tmp_path / "results.json").read_text())
    assert (found["rows"], found["labels"], found["recall@10"]) == (3, 7, 0.5)
    assert found["by_decile"] == {"decile_10": 0.75, "decile_1": 0.25, "unseen": 0.0}
    assert said.startswith(
        "Its list of ten holds 50 % of the right codes of a name, on average: 75 % of those in the most frequent tenth, 25 %"
    )
    assert "none of those that training never shows, which are 20.0 % of all right codes" in said
