"""The randomisation test agrees with plain loops over all swaps, and keeps its level in
families of keys.
"""

import itertools
import math

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score, precision_score, recall_score, roc_auc_score

import tailmetrics as tm
from tailmetrics.evaluation import compare_runs
from tailmetrics.significance import AreaRows, LabelRows, compare
from tailmetrics.significance.swapping import SwapDraws, step_down

MACRO = {
    "recall": {"below": (0.0, 1.0)},
    "precision": {"below": (1.0, 0.0)},
    "f1": {"top": 2.0, "below": (1.0, 1.0)},
    "weighted_f1": {"top": 2.0, "below": (1.0, 1.0), "weighted": True},
    "f1_union": {"top": 2.0, "below": (1.0, 1.0), "over": "union"},
    "f1_all": {"top": 2.0, "below": (1.0, 1.0), "over": "all"},
    "f1_of_averages": {"top": 2.0, "below": (1.0, 1.0), "of_averages": True},
    "coverage": {"top": 0.0, "over": "all"},
}


def label_rows(relevant, predicted, **arguments):
    """Return the labels of rows, from matrices of 0 and 1 of shape (N, L)."""
    rows, labels = np.nonzero(relevant | predicted)
    inside = np.ones(len(relevant), bool)
    flags = predicted[rows, labels], relevant[rows, labels]
    return LabelRows(rows, labels, *flags, inside, relevant.shape[1], **arguments)


def plain_average(
    relevant,
    predicted,
    top=1.0,
    below=(0.0, 1.0),
    over="present",
    weighted=False,
    of_averages=False,
):
    """Return the average over labels in plain loops."""
    if of_averages:
        recall = plain_average(relevant, predicted)
        precision = plain_average(relevant, predicted, below=(1.0, 0.0))
        return (
            0.0
            if recall * precision == 0
            else top / (below[0] / precision + below[1] / recall)
        )
    total = weight_sum = 0.0
    for label in range(relevant.shape[1]):
        hits = int((relevant[:, label] & predicted[:, label]).sum())
        num_predicted, support = (
            int(predicted[:, label].sum()),
            int(relevant[:, label].sum()),
        )
        bottom = below[0] * num_predicted + below[1] * support
        value = (
            float(hits > 0) if top == 0 else (top * hits / bottom if bottom else 0.0)
        )
        is_averaged = {
            "present": support > 0,
            "union": support + num_predicted > 0,
            "all": True,
        }[over]
        weight = float(support) if weighted else float(is_averaged)
        total += weight * value
        weight_sum += weight
    return total / weight_sum if weight_sum else math.nan


def plain_p(statistic, first, second, units):
    """Return the mid-p of all swaps of units, in plain loops; ``first`` and ``second``
    are rows of both models.
    """
    observed = statistic(first) - statistic(second)
    if abs(observed) < 1e-12:
        return 1.0
    names = sorted(set(units))
    as_far = 0.0
    for bits in itertools.product([False, True], repeat=len(names)):
        swapped = np.array([bits[names.index(unit)] for unit in units])
        a = np.where(swapped[:, None], second, first)
        b = np.where(swapped[:, None], first, second)
        distance = abs(statistic(a) - statistic(b)) - abs(observed)
        if math.isnan(distance) or distance > 1e-12:
            as_far += 1
        elif distance > -1e-12:
            as_far += 0.5
    return as_far / 2 ** len(names)


def random_case(rng):
    """Return the relevant labels, the predictions of two models, and clusters, of few
    rows and labels.
    """
    num_rows, num_labels = int(rng.integers(2, 7)), int(rng.integers(1, 5))
    relevant = rng.random((num_rows, num_labels)) < 0.5
    first = rng.random((num_rows, num_labels)) < 0.4
    second = np.where(
        rng.random((num_rows, 1)) < 0.7, rng.random((num_rows, num_labels)) < 0.4, first
    )
    units = np.arange(num_rows) if rng.random() < 0.5 else rng.integers(0, 3, num_rows)
    return relevant, first, second, units


@pytest.mark.parametrize("seed", range(3))
def test_averages_over_labels_agree_with_a_loop_over_all_swaps(seed):
    """p of averages over labels equals a loop over all swaps, for rows and clusters:
    recall, precision, F1 (present, union, all, weighted, of averages) and coverage, in
    40 cases each.
    """
    rng = np.random.default_rng(seed)
    for _ in range(40):
        relevant, first, second, units = random_case(rng)
        name = rng.choice(list(MACRO))
        arguments = MACRO[name]
        runs = {
            "b": {"k": label_rows(relevant, second, **arguments)},
            "a": {"k": label_rows(relevant, first, **arguments)},
        }
        (comparison,) = compare(runs, clusters=units, resamples=50)

        def statistic(predicted, relevant=relevant, arguments=arguments):
            return plain_average(relevant, predicted, **arguments)

        value = statistic(first) - statistic(second)
        if math.isnan(value):
            assert math.isnan(comparison.p.randomisation)
            continue
        assert comparison.difference == pytest.approx(value, abs=1e-12)
        assert comparison.p.randomisation == pytest.approx(
            plain_p(statistic, first, second, units), abs=1e-12
        ), name


def plain_area(relevant, scores, average):
    """Return the macro, weighted or micro ROC area by all pairs of rows; labels without
    a pair are left out.
    """
    if average == "micro":
        relevant, scores = relevant.reshape(-1, 1), scores.reshape(-1, 1)
    areas, weights = [], []
    for label in range(relevant.shape[1]):
        higher, lower = (
            scores[relevant[:, label], label],
            scores[~relevant[:, label], label],
        )
        distances = np.sign(higher[:, None] - lower)
        areas.append((distances.mean() + 1) / 2)
        weights.append(higher.size if average == "weighted" else 1)
    return np.average(areas, weights=weights)


def test_plain_area_equals_scikit_learn():
    """The plain loop of this file equals scikit-learn for macro, weighted and micro
    areas of 40 rows with ties.
    """
    rng = np.random.default_rng(0)
    scores, relevant = rng.integers(0, 4, (40, 3)), rng.random((40, 3)) < 0.5
    for average in ("macro", "weighted", "micro"):
        assert plain_area(relevant, scores, average) == pytest.approx(
            roc_auc_score(relevant, scores, average=average)
        )


def test_areas_agree_with_a_loop_over_all_swaps():
    """p of macro, weighted and micro ROC areas of six rows with ties equals a loop over
    all swaps, for rows and clusters, in 18 cases.
    """
    rng = np.random.default_rng(0)
    for number in range(18):
        average = ("macro", "weighted", "micro")[number % 3]
        bins = rng.integers(0, 4, (2, 6, 3))
        relevant = rng.random((6, 3)) < 0.5
        relevant[0], relevant[1] = True, False
        units = np.arange(6) if number % 2 else np.arange(6) // 2
        runs = {
            name: {"k": AreaRows(model, relevant, np.ones(6, bool), "roc", average)}
            for name, model in zip("ba", bins[::-1], strict=True)
        }
        (comparison,) = compare(runs, clusters=units, resamples=50)

        def statistic(model, relevant=relevant, average=average):
            return plain_area(relevant, model, average)

        expected = plain_p(statistic, bins[0], bins[1], units)
        assert comparison.p.randomisation == pytest.approx(expected, abs=1e-12)


def test_two_differing_rows_of_forty_are_not_significant():
    """Two differing rows can be swapped in four ways: p is 0.25 for every average over
    labels, there is no interval, and the verdict names nothing worse.
    """
    target = torch.arange(40) % 20
    right = 0.9 * torch.nn.functional.one_hot(target, 20) + 0.1 * torch.arange(20) / 20
    wrong = right.clone()
    wrong[[0, 20]] = wrong[[0, 20]].roll(1, dims=1)
    arguments = {"k": 1, "num_labels": 20, "average": "macro"}
    metrics = [
        metric_class(**arguments)
        for metric_class in (tm.RecallAtK, tm.PrecisionAtK, tm.F1AtK)
    ]
    metrics += [tm.PositiveCoverageAtK(1, num_labels=20), tm.RecallAtK(1)]
    metrics += [tm.PositiveCoverageAtK(1, num_labels=20, denominator="known")]
    for metric_class in (tm.RecallAtK, tm.PrecisionAtK, tm.F1AtK):
        metrics += [
            metric_class(**arguments, labels="union"),
            metric_class(**arguments, labels="all"),
        ]
    metrics += [
        tm.PrecisionAtThreshold(0.5, num_labels=20, average="macro", labels="all")
    ]
    report = compare_runs({"a": right, "b": wrong}, target, metrics=metrics)
    for comparison in report.comparisons:
        assert comparison.p.randomisation == 0.25
        # all keys differ in the same swaps
        assert comparison.p_corrected.randomisation == 0.25
        if comparison.statistic == "labels":
            assert comparison.interval.reason == "fewer than 10 rows differ"
    assert "worse" not in report.verdict


def test_plain_average_equals_scikit_learn():
    """The plain loops of this file equal macro recall, precision and F1 of scikit-learn
    on 60 rows.
    """
    rng = np.random.default_rng(1)
    relevant, predicted = rng.random((2, 60, 5)) < 0.4
    for name, peer in (
        ("recall", recall_score),
        ("precision", precision_score),
        ("f1", f1_score),
    ):
        assert plain_average(relevant, predicted, **MACRO[name]) == pytest.approx(
            peer(relevant, predicted, average="macro")
        )


def nearly_equal(rng, num_rows, share):
    """Return scores of two models that differ in a share of the rows, in which either
    may be better, and targets.
    """
    target = rng.integers(0, 30, num_rows)
    base = rng.normal(size=(num_rows, 30))
    base[np.arange(num_rows), target] += 1.5
    first, second = base.copy(), base.copy()
    rows = np.flatnonzero(rng.random(num_rows) < share)
    noise = rng.normal(size=(2, rows.size, 30)) * 1.5
    first[rows] += noise[0]
    second[rows] += noise[1]
    return torch.from_numpy(first), torch.from_numpy(second), torch.from_numpy(target)


@pytest.mark.parametrize("share", [0.08, 1.0])
def test_equal_models_are_seldom_significantly_different(share):
    """Equal models seldom differ significantly: of 20 pairs with macro averages of 60
    rows and 30 labels, at most 4 families have a significant key.
    """
    rng = np.random.default_rng(2)
    num_significant = 0
    for _ in range(20):
        models = []
        first, second, target = nearly_equal(rng, 60, share)
        relevant = torch.nn.functional.one_hot(target, 30).bool().numpy()
        for scores in (first, second):
            predicted = np.zeros_like(relevant)
            np.put_along_axis(
                predicted, scores.argmax(1)[:, None].numpy(), True, axis=1
            )
            models.append(
                {
                    name: label_rows(relevant, predicted, **arguments)
                    for name, arguments in MACRO.items()
                }
            )
        num_significant += any(
            comparison.significant
            for comparison in compare({"a": models[0], "b": models[1]}, resamples=199)
        )
    assert num_significant <= 4


def test_interval_holds_zero_if_the_test_finds_no_difference():
    """An interval of macro precision or F1 of nearly equal models holds 0 if p is above
    0.05.
    """
    rng = np.random.default_rng(3)
    for _ in range(12):
        first, second, target = nearly_equal(rng, 150, 0.15)
        relevant = torch.nn.functional.one_hot(target, 30).bool().numpy()
        models = []
        for scores in (first, second):
            predicted = np.zeros_like(relevant)
            np.put_along_axis(
                predicted, scores.argmax(1)[:, None].numpy(), True, axis=1
            )
            models.append(
                {
                    name: label_rows(relevant, predicted, **MACRO[name])
                    for name in ("precision", "f1", "f1_all")
                }
            )
        for comparison in compare({"a": models[0], "b": models[1]}, resamples=199):
            if comparison.interval.ends and comparison.p.randomisation > 0.05:
                assert comparison.interval.low <= 0 <= comparison.interval.high


def test_interval_beside_few_random_swaps_holds_zero():
    """The interval beside a p of few random swaps holds 0 if p is above 0.05: of 40
    swaps p counts one more than are as far, here 3 / 41.
    """
    for seed in (6, 19, 21, 25):
        rng = np.random.default_rng(seed)
        relevant = np.eye(5, dtype=bool)[rng.integers(0, 5, 60)]
        hits = [relevant & (rng.random(60) < share)[:, None] for share in (0.5, 0.7)]
        models = {
            name: {"recall": label_rows(relevant, is_hit)}
            for name, is_hit in zip("ab", hits, strict=True)
        }
        (comparison,) = compare(models, resamples=40, seed=seed)
        assert comparison.p.randomisation == 3 / 41
        assert comparison.interval.low <= 0 < comparison.interval.high


def test_clusters_are_swapped_whole():
    """Clusters are swapped as a whole: p is 0.25 for two users of five rows each that
    differ.
    """
    relevant = np.ones((40, 1), bool)
    predicted = np.ones((40, 1), bool)
    predicted[:10] = False
    runs = {
        "a": {"k": label_rows(relevant, ~(relevant & ~relevant))},
        "b": {"k": label_rows(relevant, predicted)},
    }
    (comparison,) = compare(runs, clusters=np.arange(40) // 5)
    assert comparison.p.randomisation == 0.25


def test_a_rounding_error_is_no_difference():
    """A difference by a rounding error has p = 1: two rows of labels give equal F1 by
    other sums, 6e-17 apart in every swap.
    """
    relevant = np.array([[0, 1, 0], [1, 1, 0], [1, 0, 0], [0, 1, 0]], bool)
    first = np.array([[1, 0, 0], [1, 0, 0], [1, 1, 0], [0, 0, 0]], bool)
    second = np.array([[1, 0, 0], [1, 1, 1], [1, 1, 0], [0, 0, 0]], bool)
    runs = {
        "a": {"k": label_rows(relevant, first, **MACRO["f1_union"])},
        "b": {"k": label_rows(relevant, second, **MACRO["f1_union"])},
    }
    (comparison,) = compare(runs)
    assert 0 < abs(comparison.difference) < 1e-15
    assert comparison.p.randomisation == 1


def test_a_key_of_few_differing_rows_is_exact_beside_others():
    """A key with few differing rows has the p of all swaps beside a key with many: for
    two of 200 rows p is 0.25.
    """
    rng = np.random.default_rng(8)
    hits = np.ones(200)
    hits[:2] = 0
    runs = {
        "a": {"hit": np.ones(200), "score": rng.random(200)},
        "b": {"hit": hits, "score": rng.random(200)},
    }
    exact, random = compare(runs, resamples=199)
    assert (exact.p.randomisation, exact.swaps, random.swaps) == (0.25, 0, 199)
    assert exact.p_corrected.randomisation >= 0.25


def test_many_rows_are_swapped_at_random():
    """2,000 rows that all differ, with more swaps than a float can count, are swapped
    at random.
    """
    rng = np.random.default_rng(7)
    first, second = rng.random((2, 2000))
    (comparison,) = compare({"a": {"k": first}, "b": {"k": second}}, resamples=99)
    assert comparison.swaps == 99
    assert 0 < comparison.p.randomisation <= 1


def test_step_down_correction_equals_plain_loops():
    """The step-down max-T correction of three keys over all swaps of eight rows equals
    plain loops.
    """
    rng = np.random.default_rng(4)
    for _ in range(10):
        differences = rng.normal(size=(3, 8)) + np.array([[0.8], [0.3], [0.0]])
        runs = {
            "b": {str(key): np.zeros(8) for key in range(3)},
            "a": {str(key): row for key, row in enumerate(differences)},
        }
        signs = np.array(list(itertools.product([1, -1], repeat=8)))
        under_swaps = np.abs(signs @ differences.T) / 8
        deviations = np.sqrt((under_swaps**2).mean(axis=0))
        observed = np.abs(differences.mean(axis=1)) / deviations
        scaled = under_swaps / deviations
        expected, remaining, largest_so_far = (
            {},
            sorted(range(3), key=lambda key: -observed[key]),
            0.0,
        )
        while remaining:
            key = remaining[0]
            largest = scaled[:, remaining].max(axis=1)
            p = np.mean(
                np.where(
                    largest > observed[key] + 1e-9,
                    1,
                    np.where(largest > observed[key] - 1e-9, 0.5, 0),
                )
            )
            largest_so_far = max(largest_so_far, p)
            expected[str(key)] = largest_so_far
            remaining = remaining[1:]
        for comparison in compare(runs):
            assert comparison.p_corrected.randomisation == pytest.approx(
                expected[comparison.key]
            )


def test_only_selects_the_tested_keys():
    """only= selects the tested keys by name or pattern: other keys have an interval and
    no p, and the correction is over the tested keys. A pattern without a key is
    refused.
    """
    rng = np.random.default_rng(5)
    keys = ("recall@5", "recall@5/head", "recall@5/tail", "ndcg@5/tail")
    runs = {name: {key: rng.random(40) for key in keys} for name in "ab"}
    gaps = {"recall@5/gap": ["recall@5/head", "recall@5/tail"]}
    for only, tested in (
        (None, {*keys, "recall@5/gap"}),
        (["recall@5"], {"recall@5"}),
        (["recall@5/*"], {"recall@5/head", "recall@5/tail", "recall@5/gap"}),
        (["*/tail"], {"recall@5/tail", "ndcg@5/tail"}),
    ):
        comparisons = compare(runs, gaps=gaps, only=only, resamples=199)
        assert {comparison.key for comparison in comparisons} == {*keys, "recall@5/gap"}
        assert {
            comparison.key for comparison in comparisons if comparison.tested
        } == tested
        for comparison in comparisons:
            assert math.isnan(comparison.p_corrected.decisive) == (
                comparison.key not in tested
            )
            assert comparison.interval.ends
            if len(tested) == 1 and comparison.tested:
                assert (
                    comparison.p_corrected.randomisation == comparison.p.randomisation
                )
    with pytest.raises(ValueError, match="only holds 'recall@7', which matches no key"):
        compare(runs, only=["recall@7"])


def test_a_gap_of_parts_is_tested_only_by_its_name():
    """A gap of parts, as one that is adjusted for chance, is tested only if only= names
    it, because the plain gap asks the same question. Otherwise it is shown.
    """
    rng = np.random.default_rng(6)
    keys = ("r/head", "r/tail", "adjusted r/head", "adjusted r/tail")
    runs = {name: {key: rng.random(40) for key in keys} for name in "ab"}
    arguments = {
        "gaps": {"r/gap": keys[:2], "r/adjusted_gap": keys[2:]},
        "parts": keys[2:],
        "resamples": 199,
    }
    for only, expected in (
        (None, {"r/gap", "r/head", "r/tail"}),
        (["r/*"], {"r/gap", "r/head", "r/tail"}),
        (["r/adjusted_gap"], {"r/adjusted_gap"}),
    ):
        comparisons = compare(runs, only=only, **arguments)
        assert {
            comparison.key for comparison in comparisons if comparison.tested
        } == expected
        assert len(comparisons) == 4


@pytest.mark.parametrize(
    "arguments", [{}, MACRO["precision"], {**MACRO["precision"], "over": "all"}]
)
def test_labels_that_are_numbered_differently_are_not_swapped(arguments):
    """Runs that number their labels differently are compared without p and interval,
    with the reason; the difference of values is right.
    """
    rng = np.random.default_rng(9)
    relevant, predicted = rng.random((2, 60, 6)) < 0.3
    order = [3, 1, 2, 0, 5, 4]
    runs = {
        "a": {"k": label_rows(relevant, predicted, **arguments)},
        "b": {"k": label_rows(relevant[:, order], predicted[:, order], **arguments)},
    }
    (comparison,) = compare(runs, resamples=99)
    assert comparison.difference == pytest.approx(0)
    assert math.isnan(comparison.p.randomisation)
    assert comparison.interval.reason.startswith(
        "the runs number their labels differently"
    )


def test_compare_runs_only_takes_keys_and_patterns():
    """only= of compare_runs takes keys and patterns: recall@3 is the value over all
    labels, and recall@3/* its buckets and gap without the adjusted gap. Unknown keys
    are refused.
    """
    rng = np.random.default_rng(10)
    target = torch.from_numpy(rng.integers(0, 20, 80))
    scores = {name: torch.from_numpy(rng.normal(size=(80, 20))) for name in "ab"}
    arguments = {
        "metrics": [tm.RecallAtK(3), tm.NDCGAtK(3)],
        "label_counts": list(range(20, 0, -1)),
        "resamples": 99,
    }
    buckets = "quantiles:2:head,tail"
    for only, tested in (
        (["recall@3"], {"recall@3"}),
        (["recall@3/tail"], {"global_recall@3/tail"}),
        (
            ["recall@3/*"],
            {"global_recall@3/head", "global_recall@3/tail", "global_recall@3/gap"},
        ),
    ):
        report = compare_runs(scores, target, buckets=buckets, only=only, **arguments)
        with_p = [
            comparison
            for comparison in report.comparisons
            if not math.isnan(comparison.p_corrected.decisive)
        ]
        assert {comparison.key for comparison in with_p} == tested
        assert report.corrected_for == len(tested)
        assert (
            f"Tested: {only[0]}; other values stand in the tables with their intervals, untested."
            in report.verdict
        )
    whole = compare_runs(scores, target, buckets=buckets, **arguments)
    untested = {
        comparison.key for comparison in whole.comparisons if not comparison.tested
    }
    assert untested == {"global_recall@3/adjusted_gap", "global_ndcg@3/adjusted_gap"}
    with pytest.raises(
        ValueError, match="compare: only='recall@7' matches no value of rows"
    ):
        compare_runs(scores, target, buckets=buckets, only=["recall@7"], **arguments)


def test_max_t_holds_its_level_with_few_random_swaps():
    """The max-T correction keeps its level with few random swaps: of equal models with
    30 independent keys and 39 swaps, 5 % (± 1.5 %) have a corrected p of at most 0.05.
    """
    rng = np.random.default_rng(7)
    num_significant = 0
    for _ in range(2000):
        differences = rng.standard_normal((30, 40))
        draws = SwapDraws(differences[:, 1:], differences[:, 0], exact=False)
        num_significant += min(step_down(draws, [True] * 30)) <= 0.05
    assert abs(num_significant / 2000 - 0.05) < 0.015
