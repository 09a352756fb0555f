"""The simulation behind docs/significance.md: its tables hold the settings in the code,
and the page names their extremes.
"""

import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks.claims import PAGE, Setting, main, power, settings, share, simulate


def lines(text):
    """Return the setting of each line of the table: all cells but the shares."""
    return re.findall(
        r"^\| ([^|]+ \| [^|]+ \| [\d,]+)(?: \| [–✱.\d]+){4} \|$", text, re.MULTILINE
    )


@pytest.mark.slow
def test_the_command_writes_the_table_of_the_page_and_nothing_else(tmp_path):
    """The command writes the table of the settings into the page, and leaves the text
    around it unchanged.
    """
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text())
    main(["--pairs", "3", "--resamples", "19", "--page", str(page)])
    expected = [
        f"{setting.kind} | {setting.name} | {setting.rows:,}" for setting in settings()
    ]
    assert lines(page.read_text()) == lines(PAGE.read_text()) == expected
    around = [
        re.sub(r"<!-- written.*until here -->", "", p.read_text(), flags=re.DOTALL)
        for p in (page, PAGE)
    ]
    assert around[0] == around[1]


def test_page_of_significance_names_the_extremes_of_the_table():
    """docs/significance.md names the least and the largest share of each column, and
    the number of lines.
    """
    document = (Path(__file__).parents[2] / "docs" / "significance.md").read_text()
    sentences = document.partition("## How often they err")[2]
    table_lines = re.findall(
        r"^\| [^|]+ \| [^|]+ \| [\d,]+((?: \| [–✱.\d]+){4}) \|$",
        PAGE.read_text(),
        re.MULTILINE,
    )
    assert f"{len(table_lines)} kinds of values" in " ".join(sentences.split())
    rows = [
        "tests reject .05",
        "intervals of a difference",
        "intervals of a value",
        "quick intervals",
    ]
    for column, row in enumerate(rows):
        shares = []
        for line in table_lines:
            cell = line.split(" | ")[column + 1].strip("✱")
            if cell != "–":
                shares.append(float(cell))
        (text,) = re.findall(rf"^\| {row}.* \| (.*) \|$", sentences, re.MULTILINE)
        stated_shares = [float(number) for number in re.findall(r"\d?\.\d{3}", text)]
        assert (min(stated_shares), max(stated_shares)) == (min(shares), max(shares)), (
            row
        )


def test_rates_are_shares_of_the_pairs():
    """The rates of a simulation are shares of pairs: models that always differ are
    rejected each time, and no interval of their difference holds 0 while each holds its
    value.
    """

    def draw(rng, rows):
        return [{"k": np.tile([0.5, 0.75], rows // 2)}], [{"k": np.zeros(rows)}]

    rates = simulate(Setting("shares", "two values", 20, draw), pairs=4, resamples=199)
    assert (rates.rejected, rates.difference, rates.refused) == (1, 0, 0)
    assert (share(0.05), share(1.0), share(float("nan"))) == (".050", "1.000", "–")


@pytest.mark.slow
def test_least_difference_has_the_stated_power():
    """Of 1,000 pairs of 100 rows that differ by the least difference 80 % are rejected,
    within 0.04.
    """
    assert power(100, 1000, 499) == pytest.approx(0.8, abs=0.04)
