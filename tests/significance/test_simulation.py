"""The simulation behind docs/significance.md: its table is of the settings in the code, and rates are what they are called."""

import math
import re

import numpy as np
import pytest

from benchmarks.significance.__main__ import PAGE, main
from benchmarks.significance.populations import MICRO_RECALL, NDCG, RANK, RARE_HIT, RECALL, Population
from benchmarks.significance.simulation import Setting, settings, simulate


def lines(text):
    """What each line of the tables is about: all cells but the shares."""
    return re.findall(r"^\| (\w+ of .*?)(?: \| [–.\d]+){5} \|$", text, re.MULTILINE)


def test_the_command_writes_the_table_of_the_page_and_nothing_else(tmp_path):
    """A few pairs give other shares of the same settings; what stands around the tables stays."""
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text())
    main(["--pairs", "3", "--resamples", "19", "--page", str(page)])
    assert len(lines(PAGE.read_text())) == len(list(settings()))
    assert lines(page.read_text()) == lines(PAGE.read_text())
    assert "3 pairs of runs" in page.read_text()
    around = [re.sub(r"<!-- written.*until here -->", "", p.read_text(), flags=re.DOTALL) for p in (page, PAGE)]
    assert around[0] == around[1]


def test_the_page_is_of_at_least_a_thousand_pairs():
    """As many as its text says; with the limits of the library tests reject 5 % by chance, and 91 % of intervals hold."""
    text = PAGE.read_text()
    (pairs,) = re.findall(r"^([\d,]+) pairs of runs in each line", text, re.MULTILINE)
    assert int(pairs.replace(",", "")) >= 1000
    independent = text.split("Rows are independent:")[1].split("Rows come in clusters:")[0]
    told = [line for line in text.splitlines() if "| yes |" in line]
    for line in [*independent.splitlines(), *told]:
        shares = [math.nan if cell == "–" else float(cell) for cell in re.findall(r"–|\d?\.\d{3}", line)]
        assert all(share <= 0.07 for share in shares[:3] if not math.isnan(share)), line
        assert all(share >= 0.91 for share in shares[3:] if not math.isnan(share)), line


@pytest.mark.parametrize("population", [RECALL, RARE_HIT, NDCG, MICRO_RECALL, RANK], ids=lambda one: one.values)
@pytest.mark.parametrize("codes", [None, np.arange(2000) // 5], ids=["rows", "clusters"])
def test_populations_have_the_value_that_they_say(population, codes):
    """Over a million rows, the mean, ratio or median of each run is the truth of the population."""
    values, weights = population.draw(np.random.default_rng(2), (500, 2000), codes)
    for run, weight in zip(values, weights, strict=True):
        found = np.median(run) if population.kind == "median" else run.sum() / weight.sum()
        assert found == pytest.approx(population.truth, rel=0.02)


def test_rates_are_shares_of_the_pairs():
    """Runs that always differ are rejected each time, and intervals around them never hold 0 but always their value."""

    def draw(rng, shape, codes):
        values = np.stack([np.tile([0.5, 0.75], (shape[0], shape[1] // 2)), np.zeros(shape)])
        return values, np.ones_like(values)

    rates = simulate(Setting(Population("two values", "mean", 0.625, draw), 20), pairs=4, resamples=199)
    assert (rates.randomisation, rates.bootstrap, rates.t, rates.difference, rates.value) == (1, 1, 1, 0, 1)
