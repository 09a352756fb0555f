"""The number of rows that a difference needs: the inverse of the least difference, and the power that is named."""

import numpy as np
import pytest

from benchmarks.significance import LEVEL, settings
from tailmetrics.significance import LabelRows, compare, plan, rows_needed


def shares(rng, rows):
    """Values of two models in the same rows: shares of 3 labels."""
    return rng.binomial(3, rng.beta(2, 4, rows), (2, rows)) / 3


def clustered(rng, rows):
    """Values of two models in clusters of five rows; each model has its own affinity to a cluster."""
    return np.stack([rng.binomial(3, np.repeat(rng.beta(2, 4, rows // 5), 5)) / 3 for _ in range(2)])


def found(draw, rows, difference, pairs, clusters=None):
    """Return in which share of pairs with this true difference the test finds it."""
    rng = np.random.default_rng(3)
    drawn = [draw(rng, rows) for _ in range(pairs)]
    runs = {"a": {f"{pair}": one[0] for pair, one in enumerate(drawn)}}
    runs["b"] = {f"{pair}": one[1] + difference for pair, one in enumerate(drawn)}
    tested = compare(runs, correction="none", resamples=399, clusters=clusters)
    return float(np.mean([one.p.randomisation <= LEVEL for one in tested]))


@pytest.mark.parametrize(("draw", "size"), [(shares, 1), (clustered, 5)], ids=["rows", "clusters"])
@pytest.mark.parametrize("power", [0.8, 0.9])
@pytest.mark.slow
def test_so_many_rows_find_the_difference_with_the_power_that_is_named(draw, size, power):
    """Planned from 20,000 rows: the share of 1,500 pairs of the planned size that the test rejects, within .03."""
    a, b = draw(np.random.default_rng(0), 20_000)
    codes = np.arange(20_000) // size
    needed = rows_needed({"a": a, "b": b}, 0.08, power=power, clusters=None if size == 1 else codes)
    rows = size * -(-needed // size)
    clusters = None if size == 1 else np.arange(rows) // size
    assert found(draw, rows, 0.08, 1500, clusters) == pytest.approx(power, abs=0.03)


@pytest.mark.slow
def test_one_run_and_the_agreement_of_two_tell_the_same():
    """The correlation of the two models, given as the agreement, replaces the rows of the second: within 2 %."""
    a, b = shares(np.random.default_rng(0), 20_000)
    agreement = float(np.corrcoef(a, b)[0, 1])
    both = rows_needed({"a": a, "b": b}, 0.02)
    assert rows_needed({"a": a}, 0.02, agreement=agreement) == pytest.approx(both, rel=0.02)
    # without a word about it, the difference varies as much as one model
    assert rows_needed({"a": a}, 0.02) == pytest.approx(a.var() / (a - b).var() * both, rel=0.02)


@pytest.mark.parametrize("level", [0.05, 0.001])
def test_it_is_the_inverse_of_the_least_difference(level):
    """So many rows show the least difference that compare names of them; one row fewer would not."""
    rng = np.random.default_rng(1)
    for rows in (12, 60, 700):
        runs = {name: {"k": one} for name, one in zip("ab", shares(rng, rows), strict=True)}
        (compared,) = compare(runs, resamples=99, confidence=1 - level)
        of_rows = {name: one["k"] for name, one in runs.items()}
        assert rows_needed(of_rows, compared.least_difference * (1 + 1e-9), level=level) == rows
        assert rows_needed(of_rows, compared.least_difference * (1 - 1e-9), level=level) == rows + 1


def test_ratios_and_averages_over_labels_and_buckets_have_plans():
    """Of a bucket in two rows of five, all rows are planned for; a ratio and a macro recall are planned as compared."""
    rng = np.random.default_rng(2)
    sides = [one.draw for one in settings() if one.name in ("ratio of counts", "macro recall, 60 labels")]
    for draw in (sides[0], sides[-1]):
        first, second = draw(rng, 400)
        (compared,) = compare({"a": first, "b": second}, resamples=99)
        (planned,) = plan({"a": first, "b": second}, compared.least_difference * (1 + 1e-9))
        assert (planned.rows, planned.more_rows) == (400, 0)
        assert planned.rows_needed == pytest.approx(400, abs=5)
        assert planned.least_difference == pytest.approx(compared.least_difference)
    assert isinstance(first["k"], LabelRows)
    has_tail = np.arange(400) % 5 < 2
    tail = np.where(has_tail, rng.random(400), np.nan)
    (planned,) = plan({"a": {"k": tail}}, 0.02)
    assert planned.rows == 160
    assert planned.more_rows == -(-planned.rows_needed * 400 // 160) - 400


def test_rows_that_tell_nothing_are_refused():
    """Fewer than ten rows, rows that agree, three runs, an agreement beside two runs, no difference."""
    rows = np.arange(20) % 2
    for few in (rows[:9], np.ones(20), np.full(20, np.nan)):
        with pytest.raises(ValueError, match="rows count, from which no number follows"):
            rows_needed({"a": few}, 0.1)
    with pytest.raises(ValueError, match="3 runs given; pass one model, or the two that are compared"):
        rows_needed(dict.fromkeys("abc", rows), 0.1)
    with pytest.raises(ValueError, match="agreement=0.5 is for one run; the rows of two runs tell it"):
        rows_needed(dict.fromkeys("ab", rows), 0.1, agreement=0.5)
    with pytest.raises(ValueError, match="difference=0 is out of range"):
        rows_needed({"a": rows}, 0)
    assert plan({"a": {"k": rows}}, 0.1, medians=["k"])[0].rows_needed is None
