"""README and documentation give the results of the demo that are in its committed file
of results.
"""

import json
import re
from pathlib import Path

from examples.icd10 import headline as demo

ROOT = Path(__file__).parents[2]
RESULTS = json.loads((ROOT / "examples" / "icd10" / "results.json").read_text())


def words(page: str) -> str:
    """Return the text of a page with single blanks between words."""
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())


def test_readme_has_the_sentence_that_the_demo_prints() -> None:
    """README has the sentence that the demo prints, with all digits."""
    assert demo.sentence(RESULTS) in words("README.md")


def test_the_home_page_has_the_percentages_of_the_demo() -> None:
    """The home page gives the percentages of the demo in this order: all labels, decile
    10, decile 1, and positives of unseen labels.
    """
    by_decile, unseen = RESULTS["by_decile"], RESULTS["unseen_share_of_positives"]
    sentence = re.search(
        r"holds (\d+) % of the right codes.*?(\d+) % of .*?(\d+) % of those.*? are (\d+) %",
        words("docs/index.md"),
    )
    assert sentence is not None
    expected = (
        RESULTS["recall@10"],
        by_decile["decile_10"],
        by_decile["decile_1"],
        unseen,
    )
    assert [int(number) for number in sentence.groups()] == [
        round(100 * value) for value in expected
    ]
    assert by_decile["unseen"] == 0


def test_the_docstring_of_the_data_has_the_share_of_unseen_positives() -> None:
    """The docstring of the data gives the share of positives that training does not
    have.
    """
    share = f"{100 * RESULTS['unseen_share_of_positives']:.1f} %"
    assert f"{share} of the test split's positives" in words("examples/icd10/data.py")
