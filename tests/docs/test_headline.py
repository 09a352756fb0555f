"""What README and documentation say of the demo is what the demo writes: one committed file of its results."""

import json
import re
from pathlib import Path

from examples.icd10 import headline as demo

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
    sentence = re.search(
        r"holds (\d+) % of the right codes.*?(\d+) % of .*?(\d+) % of those.*? are (\d+) %", words("docs/index.md")
    )
    assert sentence is not None
    expected = (FOUND["recall@10"], by_decile["decile_10"], by_decile["decile_1"], unseen)
    assert [int(number) for number in sentence.groups()] == [round(100 * value) for value in expected]
    assert by_decile["unseen"] == 0


def test_the_data_set_says_the_same() -> None:
    """The share of positives that training never shows stands in the docstring of the data."""
    share = f"{100 * FOUND['unseen_share_of_positives']:.1f} %"
    assert f"{share} of the test split's positives" in words("examples/icd10/data.py")
