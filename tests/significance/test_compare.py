"""Comparison of runs agrees with enumeration, plain loops, arithmetic by hand and
scipy.
"""

import itertools
import math
import statistics

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import torch

from tailmetrics.significance import alike, compare, correct, estimating, verdict

NAN = math.nan
BUCKETS = [*(f"decile_{number}" for number in range(10, 0, -1)), "unseen"]


def ratio(rows):
    """Return a ratio of sums in plain Python; NaN if the denominators sum to 0."""
    numerator, denominator = (math.fsum(part) for part in zip(*rows, strict=True))
    return numerator / denominator if denominator else NAN


def enumerated_p(statistic, first, second):
    """Return the share of all 2^n swaps whose difference is farther from zero, plus
    half of those as far, in plain loops.
    """
    observed = abs(statistic(first) - statistic(second))
    far = 0
    half = 1 if statistic is statistics.median or not observed else 0.5
    for swaps in itertools.product([False, True], repeat=len(first)):
        a = [y if swap else x for x, y, swap in zip(first, second, swaps, strict=True)]
        b = [x if swap else y for x, y, swap in zip(first, second, swaps, strict=True)]
        excess = abs(statistic(a) - statistic(b)) - observed
        far += 1 if excess > 1e-12 else half if excess >= -1e-12 else 0
    return far / 2 ** len(first)


def test_equal_runs_do_not_differ():
    """Equal runs have difference 0, p 1 and only ties; the interval of a mean ends at
    the largest difference that n equal rows may hide.
    """
    rng = np.random.default_rng(0)
    values = np.where(rng.random(60) < 0.3, NAN, rng.random(60))
    run = {
        "mean": values,
        "ratio": (values, 1 + rng.random(60)),
        "median": np.round(9 * values),
    }
    for comparison in compare({"a": run, "b": run}, medians=["median"], resamples=200):
        assert comparison.difference == 0
        if comparison.statistic == "mean":
            # n rows without a difference have a probability of 2.5 % there
            largest_difference = 1 - 0.025 ** (1 / comparison.n)
            assert (comparison.interval.low, comparison.interval.high) == (
                pytest.approx(-largest_difference),
                pytest.approx(largest_difference),
            )
        assert (comparison.p.randomisation, comparison.p_corrected.randomisation) == (
            1,
            1,
        )
        assert (comparison.wins, comparison.ties, comparison.losses) == (
            0,
            comparison.n,
            0,
        )
        assert comparison.n == np.isfinite(values).sum()
        assert comparison.relative_difference == 0
        assert not comparison.significant
        if comparison.statistic == "mean":
            assert comparison.cohens_dz == 0


@pytest.mark.parametrize("kind", ["mean", "ratio", "median"])
@pytest.mark.parametrize("correction", ["holm", "bonferroni", "bh"])
def test_improvement_in_one_bucket_is_significant_there_only(kind, correction):
    """An improvement planted in decile 1 is significant there and nowhere else, and its
    interval is above 0.
    """
    rng = np.random.default_rng(1)
    old, new = {}, {}
    for bucket in BUCKETS:
        row = rng.integers(0, 20, 800)
        a, b = (row + rng.integers(0, 10, 800) for _ in range(2))
        b = b + 3 * (bucket == "decile_1")
        skipped = rng.random(800) < 0.4
        weight = 1.0 + row
        for run, values in ((old, a), (new, b)):
            values = np.where(skipped, NAN, values)
            run[f"metric@5/{bucket}"] = (values, weight) if kind == "ratio" else values
    medians = ["metric@5"] if kind == "median" else []
    comparisons = compare(
        {"old": old, "new": new}, medians=medians, correction=correction, resamples=2000
    )
    assert {comparison.statistic for comparison in comparisons} == {kind}
    assert [comparison.key for comparison in comparisons if comparison.significant] == [
        "metric@5/decile_1"
    ]
    (planted,) = (comparison for comparison in comparisons if comparison.significant)
    assert planted.interval.low > 0
    assert planted.wins > planted.losses


def test_few_differing_rows_are_enumerated():
    """With few rows the randomisation p-value is that of all swaps, in plain loops, for
    means, ratios and medians.
    """
    rng = np.random.default_rng(2)
    for size in (1, 2, 5, 7, 8):
        a, b, c, d = (rng.integers(1, 6, size).astype(float) for _ in range(4))
        first, second = (
            {"mean": a, "ratio": (a, c), "median": a},
            {"mean": b, "ratio": (b, d), "median": b},
        )
        comparisons = compare(
            {"b": second, "a": first}, medians=["median"], resamples=100
        )
        expected = [
            enumerated_p(statistics.fmean, a, b),
            enumerated_p(
                ratio, list(zip(a, c, strict=True)), list(zip(b, d, strict=True))
            ),
            enumerated_p(statistics.median, a, b),
        ]
        assert [comparison.p.randomisation for comparison in comparisons] == expected


def test_randomisation_agrees_with_scipy():
    """The p-value of a mean is the exact one of scipy minus half of the observed case,
    at 14 rows within Monte Carlo error.
    """
    rng = np.random.default_rng(3)
    for size, tolerance in ((10, 0.0), (14, 4 * math.sqrt(0.25 / 20_000))):
        a, b = rng.random(size) + 0.15, rng.random(size)
        peer = scipy.stats.permutation_test(
            (a, b),
            lambda x, y, axis: (x - y).mean(axis=axis),
            permutation_type="samples",
            n_resamples=2**size,
        )
        (comparison,) = compare({"b": {"k": b}, "a": {"k": a}}, resamples=20_000)
        assert comparison.p.randomisation == pytest.approx(
            peer.pvalue - 2**-size, abs=tolerance + 1e-12
        )


def test_mid_p_is_half_of_the_exact_p_if_all_rows_agree():
    """If all rows that differ agree, mid-p is half of the exact p: for 5 wins of 5,
    beside ties, it is 1 of 32 swaps, and the sign test has 2 of 32.
    """
    (comparison,) = compare({"b": {"k": [0.0] * 5 + [1.0] * 9}, "a": {"k": [1.0] * 14}})
    assert scipy.stats.binomtest(5, 5).pvalue == 2 / 32
    assert comparison.p.randomisation == 1 / 32


def test_monte_carlo_p_never_reaches_zero():
    """With b of m random swaps as far from zero, p is (b + 1) / (m + 1): 1 / 100 for 40
    wins of 40 and m = 99.
    """
    (comparison,) = compare(
        {"a": {"k": np.zeros(40)}, "b": {"k": np.arange(1.0, 41)}}, resamples=99
    )
    assert comparison.p.randomisation == 1 / 100


def test_effect_size_is_the_mean_over_the_standard_deviation():
    """The effect size d_z is the mean of the differences over their standard deviation:
    2 for differences 1, 2, 3.

    Equal differences have an infinite effect.
    """
    old, new = np.array([5.0, 1, 4]), np.array([6.0, 3, 7])
    (comparison,) = compare({"old": {"k": old}, "new": {"k": new}}, resamples=100)
    assert comparison.cohens_dz == 2
    assert comparison.relative_difference == pytest.approx((16 - 10) / 10)
    (comparison,) = compare(
        {"old": {"k": [0.0, 0.5]}, "new": {"k": [0.5, 1.0]}}, resamples=100
    )
    assert (comparison.p.randomisation, comparison.cohens_dz) == (0.25, math.inf)


def test_rounding_errors_are_ties():
    """Differences by a rounding error are ties without an effect: 0.1 + 0.2 exceeds 0.3
    by 6e-17.

    Differences that are equal except for rounding have no spread.
    """
    ((tied,), (won,)) = (
        compare({"a": {"k": [0.3] * 12}, "b": {"k": [value] * 12}}, resamples=99)
        for value in (0.1 + 0.2, 0.9)
    )
    assert (tied.wins, tied.ties, tied.losses, tied.cohens_dz) == (0, 12, 0, 0)
    assert (won.wins, won.ties, won.losses, won.cohens_dz) == (12, 0, 0, math.inf)


def test_ratio_is_the_ratio_of_sums():
    """The value of a ratio is sum over sum: (1 + 9) / (1 + 90), and not the mean 0.55
    of 1/1 and 9/90.

    The difference follows.
    """
    old = {"psp@1": ([1, 9], [1, 90])}
    new = {"psp@1": ([1, 90], [1, 90])}
    (comparison,) = compare({"old": old, "new": new}, resamples=100)
    assert comparison.statistic == "ratio"
    assert comparison.baseline_value == pytest.approx(10 / 91)
    assert comparison.value == 1
    assert comparison.difference == pytest.approx(81 / 91)
    assert comparison.relative_difference == pytest.approx(8.1)
    assert (comparison.wins, comparison.ties, comparison.losses) == (1, 1, 0)


def test_rows_that_are_nan_in_one_run_are_left_out():
    """A row that is NaN in either run, or either part of a ratio, is left out: the
    result is that of the other rows.
    """
    a, b, c, d = np.random.default_rng(4).random((4, 9))
    a[0] = b[2] = NAN
    (full,) = compare({"b": {"k": b}, "a": {"k": a}}, resamples=100)
    keep = [1, 3, 4, 5, 6, 7, 8]
    (rest,) = compare({"b": {"k": b[keep]}, "a": {"k": a[keep]}}, resamples=100)
    assert (full.n, full.value, full.difference) == (
        7,
        rest.value,
        pytest.approx(rest.difference),
    )
    assert full.p.randomisation == rest.p.randomisation
    c[3] = NAN
    (full,) = compare({"b": {"k": (b, d)}, "a": {"k": (a, c)}}, resamples=100)
    keep.remove(3)
    (rest,) = compare(
        {"b": {"k": (b[keep], d[keep])}, "a": {"k": (a[keep], c[keep])}}, resamples=100
    )
    assert (full.n, full.value, full.p.randomisation) == (
        6,
        pytest.approx(rest.value),
        rest.p.randomisation,
    )


def test_empty_bucket_is_not_tested():
    """A key without rows has no value and no p-value, and does not count among the
    corrected comparisons.
    """
    old, new = (
        {"k/seen": np.zeros(6), "k/unseen": np.full(6, NAN)},
        {"k/seen": np.ones(6), "k/unseen": np.full(6, NAN)},
    )
    for medians in ([], ["k"]):
        with_rows, without_rows = compare(
            {"old": old, "new": new},
            medians=medians,
            correction="bonferroni",
            resamples=100,
        )
        assert with_rows.p_corrected.randomisation == with_rows.p.randomisation
        assert without_rows.n == 0
        assert math.isnan(without_rows.value)
        assert math.isnan(without_rows.p_corrected.randomisation)
        assert not without_rows.significant


def test_infinite_row_leaves_the_mean_untested():
    """An infinite row, as of a cross-entropy, leaves the difference of means without
    p-value and interval.
    """
    (comparison,) = compare(
        {"a": {"k": np.arange(40.0)}, "b": {"k": [math.inf, *range(39)]}}, resamples=100
    )
    assert comparison.value == math.inf
    assert math.isnan(comparison.p.randomisation)
    assert math.isnan(comparison.interval.low)
    assert (comparison.wins, comparison.losses) == (1, 39)


def test_lower_is_better_changes_wins_only():
    """lower_is_better makes the lower row win; the difference keeps its sign."""
    runs = {
        "old": {"loss/a": [3.0, 2, 2], "loss/b": [1.0, 1, 1]},
        "new": {"loss/a": [1.0, 2, 1], "loss/b": [0.0, 2, 3]},
    }
    first, second = compare(runs, lower_is_better=["loss"], resamples=100)
    assert (first.wins, first.ties, first.losses) == (2, 1, 0)
    assert (second.wins, second.ties, second.losses) == (1, 0, 2)
    assert first.difference == -1


def test_result_depends_on_seed_and_rows_alone(monkeypatch):
    """The result depends on seed and rows alone: not on other keys, nor on how keys are
    grouped in memory.
    """
    rng = np.random.default_rng(6)
    runs = {name: {f"{key}": rng.random(50) for key in range(3)} for name in "ab"}
    comparisons = compare(runs, correction="none", resamples=300, seed=7)
    # as text: NaN is not equal to itself
    assert repr(compare(runs, correction="none", resamples=300, seed=7)) == repr(
        comparisons
    )
    assert repr(compare(runs, correction="none", resamples=300, seed=8)) != repr(
        comparisons
    )
    single_key = {name: {"2": run["2"]} for name, run in runs.items()}
    assert repr(
        compare(single_key, correction="none", resamples=300, seed=7)[0].p
    ) == repr(comparisons[2].p)
    monkeypatch.setattr(estimating, "MAX_VALUES_IN_MEMORY", 1)
    grouped = compare(runs, correction="none", resamples=300, seed=7)
    assert repr([comparison.p for comparison in grouped]) == repr(
        [comparison.p for comparison in comparisons]
    )


def test_resamples_suffice_for_the_comparisons():
    """compare draws more resamples than requested if corrected comparisons need them to
    reach significance: 300 keys are all significant.
    """
    old, new = np.zeros(20), np.ones(20)
    runs = {
        "old": {f"{key}": old for key in range(300)},
        "new": {f"{key}": new for key in range(300)},
    }
    assert all(comparison.significant for comparison in compare(runs))
    for correction in ("holm", "bonferroni", "bh"):
        comparisons = compare(runs, resamples=99, correction=correction)
        assert all(comparison.significant for comparison in comparisons)
        assert verdict(comparisons).startswith(
            "new against old: better in 0, 1, 2, 3, 4, 5 and 294 more"
        )
    strict = compare(
        {name: {"0": rows["0"]} for name, rows in runs.items()},
        resamples=99,
        confidence=0.9999,
    )
    assert strict[0].significant


def test_gap_needs_ten_rows_at_each_end_in_both_models():
    """A gap has no interval if one of its ends has fewer than ten rows with a
    denominator in either model, whichever is the baseline.
    """
    rng = np.random.default_rng(0)
    models = {}
    for name, rows in (("few", 9), ("many", 40)):
        bottom = (np.arange(40) < rows).astype(float)
        models[name] = {
            "head": rng.random(40),
            "tail": (rng.random(40) * bottom, bottom),
        }
    for names in (["few", "many"], ["many", "few"]):
        *_, gap = compare(
            {name: models[name] for name in names},
            gaps={"gap": ["head", "tail"]},
            resamples=99,
        )
        assert gap.interval.reason == "fewer than 10 rows"


def test_the_least_difference_is_that_of_the_corrected_level():
    """The least difference uses the corrected level: one comparison is not corrected,
    and two at 0.95 each use the level of one at 0.975.
    """
    rng = np.random.default_rng(0)
    runs = {name: {key: rng.random(50) for key in "kj"} for name in "ab"}

    def least_difference(keys, correction, confidence=0.95):
        selected_runs = {
            name: {key: rows[key] for key in keys} for name, rows in runs.items()
        }
        return compare(
            selected_runs, correction=correction, confidence=confidence, resamples=99
        )[0].least_difference

    # a power of .8
    errors = scipy.stats.sem(runs["b"]["k"] - runs["a"]["k"]) * scipy.stats.t.ppf(
        [0.975, 0.8], 49
    )
    assert least_difference("k", "none") == pytest.approx(errors.sum())
    assert (
        least_difference("k", "holm")
        == least_difference("k", "none")
        < least_difference("kj", "holm")
    )
    assert least_difference("kj", "holm") == pytest.approx(
        least_difference("k", "none", 0.975)
    )


TWO_RUNS = {"a": {"k": [1]}, "b": {"k": [1]}}


@pytest.mark.parametrize(
    ("runs", "arguments", "message"),
    [
        ({"a": {"k": [1]}}, {}, r"1 run\(s\) given; pass at least two"),
        (
            {"a": {"k": [1]}, "b": {"k": [1]}},
            {"baseline": "c"},
            "baseline='c' is not known; choose one of 'a', 'b'",
        ),
        ({"a": {"k": [1]}, "b": {"j": [1]}}, {}, "only one of a and b has 'j', 'k'"),
        (
            {"a": {"k": [1]}, "b": {"k": [1, 2]}},
            {},
            "'k' has 1 rows in a, but 2 in b; pass the same rows for all runs",
        ),
        (
            {"a": {"k": [1]}, "b": {"k": ([1], [1])}},
            {},
            "'k' is a mean in a, but a ratio in b; evaluate both with the same metrics",
        ),
        (
            {"a": {"k": [1], "j": [1, 2]}, "b": {"k": [1]}},
            {},
            "a has 1 rows for 'k', but 2 for 'j'",
        ),
        ({"a": {}, "b": {}}, {}, "a has no keys"),
        ({"a": {"k": [[1]]}, "b": {"k": [1]}}, {}, r"'k' in a is of shape \[1, 1\]"),
        (
            {"a": {"k": ([1], [1, 2])}, "b": {"k": [1]}},
            {},
            "has 1 numerators and 2 denominators",
        ),
        ({"a": {"k": ([1],)}, "b": {"k": [1]}}, {}, "has 1 parts; pass a pair"),
        (
            {"a": {"k": ([1], [1])}, "b": {"k": [1]}},
            {"medians": ["k"]},
            "which has no median",
        ),
        (
            {"a": {"k": [1]}, "b": {"k": [1]}},
            {"medians": ["kk"]},
            "medians holds 'kk', which is no key; the keys are k",
        ),
        (
            TWO_RUNS,
            {"parts": ["r"]},
            "parts holds 'r', which is no key; the keys are k",
        ),
        (TWO_RUNS, {"gaps": {"k/gap": ["k", "r"]}}, "gaps holds 'r', which is no key"),
        (
            TWO_RUNS,
            {"gaps": {"k": ["k", "k"]}},
            "gaps names a gap 'k', which is a key; choose another name",
        ),
        (
            TWO_RUNS,
            {"parts": ["k"]},
            "nothing is left to compare, because parts holds all keys",
        ),
        (
            {
                "a": {"k": pd.Series([1, 2])},
                "b": [{"k": [1, 1]}, {"k": pd.Series([1, 2], index=[1, 0])}],
            },
            {},
            r"indexes differ: row 0 is 0 of a\['k'\] and 1 of b\[1\]\['k'\]",
        ),
        (
            {"a": [{"k": [1, 2]}, {"k": [1]}], "b": {"k": [1]}},
            {},
            "'k' has 2 rows in run 1 of a, but 1 in run 2 of a",
        ),
        (
            {"a": [{"k": [1]}, {"k": ([1], [1])}], "b": {"k": [1]}},
            {},
            "is a mean in run 1 of a, but a ratio in run 2",
        ),
        (
            {"a": [{"k": [1]}] * 2, "b": {"k": [1]}},
            {"medians": ["k"]},
            "'k' is a median, which cannot be computed over several runs",
        ),
        (
            {"a": {"k": [1]}, "b": {"k": [1]}},
            {"correction": "fdr"},
            "correction='fdr' is not known",
        ),
        (
            {"a": {"k": [1]}, "b": {"k": [1]}},
            {"confidence": 95},
            "confidence=95 is out of range",
        ),
        (
            {"a": {"k": [1]}, "b": {"k": [1]}},
            {"resamples": 0},
            "resamples=0 is too small",
        ),
    ],
)
def test_compare_refuses_runs_that_cannot_be_compared(runs, arguments, message):
    """compare raises an error that names the run, the key and the remedy if runs or
    arguments do not fit.
    """
    with pytest.raises(ValueError, match=f"compare: .*{message}"):
        compare(runs, **arguments)
    with pytest.raises(
        TypeError,
        match=r"medians='k' is one string; pass a list of keys, such as \['k'\]",
    ):
        compare({"a": {"k": [1]}, "b": {"k": [1]}}, medians="k")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            np.ma.masked_array([1.0, 0.0], [False, True]),
            "is a masked array, whose mask would be lost; fill it with NaN",
        ),
        (np.array([1j, 0]), "is of type complex128; pass one number per row"),
        (["1", "0"], "is a list that does not hold numbers alone"),
        ({"query": 1.0}, "is a dict; pass one number per row"),
    ],
)
def test_compare_refuses_values_that_are_no_numbers(values, message):
    """compare refuses masked arrays, complex numbers, texts and dicts: a mask or an
    imaginary part is never dropped.
    """
    with pytest.raises(TypeError, match=f"compare: 'k' in a {message}"):
        compare({"a": {"k": values}, "b": {"k": [1.0, 0.0]}})


def test_compare_takes_tensors_with_gradients_and_bfloat16():
    """compare takes tensors with a gradient, and in bfloat16, which NumPy does not
    have.
    """
    runs = {
        "a": {"k": torch.ones(12, dtype=torch.bfloat16)},
        "b": {"k": torch.zeros(12, requires_grad=True)},
    }
    (comparison,) = compare(runs, resamples=99)
    assert (comparison.difference, comparison.wins, comparison.losses) == (-1, 0, 12)


def test_compare_of_no_rows_has_no_value():
    """compare of no rows has neither value nor p-value, and raises no error."""
    (comparison,) = compare({"a": {"k": []}, "b": {"k": []}}, resamples=99)
    assert (comparison.n, comparison.significant) == (0, False)
    assert math.isnan(comparison.value) and math.isnan(comparison.p.decisive)


@pytest.mark.parametrize(
    ("arguments", "key", "message"),
    [
        ({}, "r", "'r' was not compared; the keys are j, k"),
        ({"only": ["j"]}, "k", "'k' was compared, but not tested"),
        (
            {"baseline": "b"},
            "k",
            "of the models b, a, c only some pairs were compared; call compare without baseline",
        ),
    ],
)
def test_alike_refuses_keys_that_were_not_tested(arguments, key, message):
    """alike raises an error unless each pair of models was tested by the key."""
    runs = {
        name: {"j": np.arange(12) % 2, "k": np.arange(12) % 3 / 2} for name in "abc"
    }
    with pytest.raises(ValueError, match=f"alike: {message}"):
        alike(compare(runs, resamples=99, **arguments), key)


@pytest.mark.parametrize(
    ("correction", "expected"),
    [
        # sorted .005 .01 .03 .04: times 4, 3, 2, 1 is .02 .03 .06 .04, and the last may
        # not fall below .06
        ("holm", [0.03, 0.06, 0.06, 0.02]),
        ("bonferroni", [0.04, 0.16, 0.12, 0.02]),
        # times 4/1, 4/2, 4/3, 4/4 is .02 .02 .04 .04
        ("bh", [0.02, 0.04, 0.04, 0.02]),
        ("none", [0.01, 0.04, 0.03, 0.005]),
    ],
)
def test_corrections_by_hand(correction, expected):
    """Four p-values are corrected by each method as by hand; a NaN among them is left
    out and not counted.

    Values outside of [0, 1] are refused.
    """
    corrected = correct([0.01, 0.04, NAN, 0.03, 0.005], correction)
    assert math.isnan(corrected.pop(2))
    assert corrected == pytest.approx(expected)
    assert correct([], correction) == []
    assert math.isnan(correct([NAN], correction)[0])
    assert correct([0.9, 0.8], correction)[0] <= 1
    with pytest.raises(
        ValueError, match="p_values holds -1; a p-value lies between 0 and 1"
    ):
        correct([0.5, -1], correction)


def test_name_of_a_key_covers_the_key_and_its_buckets():
    """The name of a key covers the key and its buckets: recall@1 does not cover
    recall@10.

    The name of a bucket covers the bucket alone.
    """
    first = {
        key: np.arange(12.0)
        for key in ("recall@1", "recall@1/tail", "recall@1/head", "recall@10")
    }
    second = {key: values + 1 for key, values in first.items()}
    for names, wins in (
        (["recall@1"], [0, 0, 0, 12]),
        (["recall@1/tail"], [12, 0, 12, 12]),
    ):
        comparisons = compare(
            {"a": first, "b": second}, lower_is_better=names, resamples=99
        )
        assert [comparison.wins for comparison in comparisons] == wins


def test_least_difference_needs_enough_rows():
    """There is no least difference with fewer than ten rows, or with rows that cannot
    reach the corrected level: twelve rows reach p = 2^-12, not 0.05 / 300.
    """
    rng = np.random.default_rng(0)
    for rows, keys, has_least_difference in (
        (2, 1, False),
        (9, 1, False),
        (10, 1, True),
        (12, 1, True),
        (12, 300, False),
    ):
        runs = {
            name: {f"k{key}": rng.random(rows) for key in range(keys)} for name in "ab"
        }
        comparisons = compare(runs, resamples=99, correction="holm")
        assert {
            math.isnan(comparison.least_difference) for comparison in comparisons
        } == {not has_least_difference}


def test_single_run_is_assumed_to_vary_as_the_runs_of_the_other_model():
    """A single run is assumed to vary as the runs of the other model: for three runs
    beside one, the variance of means is s² (1/3 + 1), with two degrees of freedom,
    beside that of rows.
    """
    rng = np.random.default_rng(0)
    rows = rng.random(200)
    three_runs = [
        {"k": rows + rng.normal(0, 0.2, 200) + shift} for shift in (0.0, 0.1, -0.05)
    ]
    single_run = {"k": rows + rng.normal(0, 0.2, 200)}
    (comparison,) = compare(
        {"one": [single_run], "many": three_runs}, unbounded=["k"], resamples=99
    )
    difference = np.mean([run["k"] for run in three_runs], axis=0) - single_run["k"]
    between_rows, between_runs = (
        difference.var(ddof=1) / 200,
        np.var([run["k"].mean() for run in three_runs], ddof=1) * (1 / 3 + 1),
    )
    error, degrees = (
        math.sqrt(between_rows + between_runs),
        (between_rows + between_runs) ** 2
        / (between_rows**2 / 199 + between_runs**2 / 2),
    )
    assert comparison.difference == pytest.approx(difference.mean())
    assert comparison.interval.high - comparison.difference == pytest.approx(
        scipy.stats.t.ppf(0.975, degrees) * error, rel=1e-6
    )
