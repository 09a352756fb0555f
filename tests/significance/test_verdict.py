"""The verdict on a pair of runs agrees with an independent reading of the
comparisons.
"""

import math
import os
import re

import numpy as np
import pytest
import torch

from tailmetrics import TopKCollection
from tailmetrics.evaluation import compare_runs
from tailmetrics.evaluation.added_metrics import with_values_over_all
from tailmetrics.evaluation.comparing import Model, compare_models, warnings_of
from tailmetrics.evaluation.headline import headline_of
from tailmetrics.evaluation.row_values import RowColumns
from tailmetrics.metrics import RowMeanMetric, divide
from tailmetrics.metrics._training import Training
from tailmetrics.significance import compare, verdict
from test_presets import CONFIGS, PRESETS, load

PAIRS = int(os.environ.get("TAILMETRICS_PAIRS", "2"))
"""Pairs of runs for each preset; set TAILMETRICS_PAIRS=100 for a hundred."""
LABELS, ROWS = 60, 40
OUTCOMES = "better|worse|no difference shown|too few rows|the same in every row"


def facts_of(preset):
    """Return the columns of a table of rows for the metrics of a preset, and its
    headline.
    """
    counts = np.maximum(1, 3000 // np.arange(1, LABELS + 1) ** 2)
    counts[-3:] = 0
    collection, over_all = with_values_over_all(TopKCollection(load(preset)))
    collection.bind(Training(LABELS, torch.tensor(counts), 5000))
    headline = re.search(
        r"^headline: (.*)$", (CONFIGS / f"{preset}.yaml").read_text(), re.MULTILINE
    )[1]
    return RowColumns(
        collection, over_all, ROWS, headline=headline_of(collection, over_all, headline)
    ), headline


def random_rows(rng, columns):
    """Return two runs: in each key the second is better, worse or equal, by a random
    amount.
    """
    facts, first, second = columns.facts, {}, {}
    keys = [key for metric in columns._means.values() for key in list(metric.keys())]
    for key in dict.fromkeys(keys):
        row_values = rng.random(ROWS)
        first[key], second[key] = (
            row_values,
            np.clip(
                row_values
                + rng.choice([-1, 0, 0, 1]) * rng.random() * rng.random(ROWS),
                0,
                1,
            ),
        )
        if rng.random() < 0.1:  # a bucket with few rows
            for run in (first, second):
                run[key] = np.where(np.arange(ROWS) < 6, run[key], math.nan)
    return facts, {"first run": first, "second": second}


def buckets_in(text):
    """Return the buckets that a part of a sentence names, deciles by number and
    range.
    """
    names = set()
    for word in re.split(
        r", | and ", text.removeprefix("deciles ").removeprefix("decile ")
    ):
        if span := re.fullmatch(r"(\d+) to (\d+)", word):
            names |= {
                f"decile_{number}" for number in range(int(span[1]), int(span[2]) + 1)
            }
        elif word:
            names.add(f"decile_{word}" if word.isdigit() else word)
    return names


def numbers(text):
    """Return the five numbers of sizes: before, after, difference, low, high."""
    return [
        float(number.replace(",", ""))
        for number in re.findall(r"[+-]?[\d,]*\.?\d+", text.replace("→", " "))
    ]


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.filterwarnings("ignore")
def test_verdict_agrees_with_the_comparisons(preset):
    """A verdict begins with the headline; its buckets, outcomes and sizes are those of
    the comparisons, and it names each bucket once.
    """
    columns, headline = facts_of(preset)
    for seed in range(PAIRS):
        facts, runs = random_rows(np.random.default_rng(seed), columns)
        models = {name: Model([values]) for name, values in runs.items()}
        report = compare_models(models, facts, correction="none", resamples=100)
        first = report.verdict.splitlines()[0]
        assert first.startswith(f"second against first run: {headline}: "), first
        line = first.removeprefix(f"second against first run: {headline}: ").partition(
            ". Worse else"
        )[0]
        line = line.partition(". Better else")[0].removesuffix(".")
        by_key = {comparison.key: comparison for comparison in report.comparisons}
        keys_by_bucket = report.by_bucket.get(report.headline, {})
        outcomes = {}
        for part in re.split(rf", (?={OUTCOMES})", line):
            outcome, where, sizes = re.fullmatch(
                rf"({OUTCOMES})(?: (?:in (.*?)|over all labels))?(?: \((.*)\))?", part
            ).groups()
            names = buckets_in(where) if where else {"all"}
            outcomes |= dict.fromkeys(names, outcome)
            if sizes:
                place = re.match(r"(?:decile )?(\w+): ", sizes)
                bucket = names if place is None else buckets_in(place[1])
                changes = {
                    name: abs(by_key[keys_by_bucket[name]].difference)
                    for name in names
                    if name != "all"
                }
                key = (
                    keys_by_bucket[max(changes, key=changes.get)]
                    if changes
                    else facts.over_all.get(report.headline, report.headline)
                )
                assert not changes or keys_by_bucket[next(iter(bucket))] == key
                tested = by_key[key]
                shown = (
                    tested.baseline_value,
                    tested.value,
                    tested.difference,
                    tested.interval.low,
                    tested.interval.high,
                )
                early = (
                    outcome == "no difference shown"
                    and not tested.interval.low <= 0 <= tested.interval.high
                )
                assert sizes.endswith(" before correction") == early
                assert numbers(
                    sizes.removeprefix(place[0] if place else "")
                ) == pytest.approx(
                    [value for value in shown if not math.isnan(value)],
                    abs=5.1e-4,
                    rel=1e-3,
                )
        lower_is_better = report.headline in {
            key.partition("/")[0] for key in report.lower_is_better
        }
        expected = {}
        for name, key in {
            **keys_by_bucket,
            "all": facts.over_all.get(report.headline, report.headline),
        }.items():
            tested = by_key.get(key)
            if tested is None or math.isnan(tested.p_corrected.decisive):
                continue
            shown = tested.p_corrected.decisive <= 0.05
            better = (tested.difference < 0) == lower_is_better
            first_rows, second_rows = runs["first run"][key], runs["second"][key]
            is_equal = np.array_equal(first_rows, second_rows, equal_nan=True)
            expected[name] = ("better" if better else "worse") if shown else (
                "too few rows" if tested.n < 10 else "the same in every row" if is_equal else "no difference shown"
            )  # fmt: skip
        has_many_buckets = (
            len(
                {*keys_by_bucket}
                - {name for name in keys_by_bucket if name.startswith("decile_")}
            )
            > 4
        )
        assert has_many_buckets or outcomes == expected


@pytest.mark.parametrize("preset", PRESETS)
def test_headline_of_a_preset_is_recall_if_recall_is_by_bucket(preset):
    """The headline of a preset is recall if the preset has recall by bucket, because
    precision by bucket may fall while recall rises.
    """
    columns, headline = facts_of(preset)
    stems = {key.partition("/")[0] for key in columns.facts.captions}
    assert not any(stem.startswith("recall") for stem in stems) or headline.startswith(
        "recall"
    )
    assert columns.facts.headline in (
        headline,
        *[key for key, whole in columns.facts.over_all.items() if whole == headline],
    )


def test_verdict_has_a_line_for_each_pair_that_names_other_keys():
    """A verdict has a line for each pair of runs, which names gains and losses by other
    keys.

    Three runs of two keys by bucket have three lines.
    """
    ones, noise = np.ones(20), np.random.default_rng(0).random((3, 20)) / 10
    runs = {
        name: {
            f"{stem}{bucket}": ones * (sign * level) + noise[level]
            for stem, sign in (("recall@5", 1), ("mrr", -1))
            for bucket in ("", "/head", "/tail")
        }
        for level, name in enumerate("abc")
    }
    comparisons = compare(runs, resamples=200)
    lines = verdict(comparisons, ["head", "tail"], headline="mrr").splitlines()
    assert [line.partition(": mrr: worse over all labels")[0] for line in lines] == [
        "b against a",
        "c against a",
        "c against b",
    ]
    assert all(
        line.endswith(
            ". Better elsewhere: recall@5 in tail and head; recall@5 over all labels."
        )
        for line in lines
    )
    (line,) = verdict(
        compare({name: runs[name] for name in "ab"}, resamples=200), ["head", "tail"]
    ).splitlines()
    assert line.startswith(
        "b against a: recall@5: better over all labels (.051 → 1.056, +1.005 [+.984, +1.025]), better in tail and head"
    )
    assert line.endswith(
        ". Worse elsewhere: mrr in tail and head; mrr over all labels."
    )


def test_verdict_that_names_only_some_buckets_names_the_rarest():
    """Of eight buckets that are all worse, six are named for the first metric and four
    for others, tail first.
    """
    names = ["aa", "bb", "cc", "dd", "ee", "ff", "gg", "hh"]
    noise = np.random.default_rng(0).random((2, 20)) / 10
    runs = {
        run: {
            f"{stem}/{name}": level + noise[level]
            for stem in ("recall@5", "mrr")
            for name in names
        }
        for level, run in enumerate(("worse", "better"))
    }
    comparisons = compare(
        {"better": runs["better"], "worse": runs["worse"]}, resamples=200
    )
    line = verdict(comparisons, names, headline="recall@5")
    assert line.startswith(
        "worse against better: recall@5: worse in hh, gg, ff, ee, dd, cc and 2 more ("
    )
    assert line.endswith(". Worse elsewhere: mrr in hh, gg, ff, ee and 4 more.")


def test_verdict_marks_intervals_before_correction():
    """If the correction overrules an interval above 0, the verdict shows no difference
    and marks the interval as before correction: one of thirty keys with Bonferroni's
    correction.
    """
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(30, 40))
    noise -= noise.mean(axis=1, keepdims=True)
    noise[0] += 0.36 * noise[0].std()
    runs = {
        "old": {f"k{at}": np.zeros(40) for at in range(30)},
        "new": {f"k{at}": rows for at, rows in enumerate(noise)},
    }
    comparisons = compare(
        runs,
        resamples=2000,
        correction="bonferroni",
        unbounded=[f"k{at}" for at in range(30)],
    )
    comparison = next(
        comparison for comparison in comparisons if comparison.key == "k0"
    )
    assert comparison.interval.low > 0
    assert not comparison.significant
    assert re.search(
        r"k0: no difference shown \(.*\] before correction\)",
        verdict(comparisons, headline="k0"),
    )


def test_verdict_names_no_gap():
    """A verdict never names a gap, although its change is significant: beside its ends,
    with one end, and alone.
    """
    rng = np.random.default_rng(0)
    head, tail = rng.random((2, 40))
    runs = {
        "old": {"r/head": head, "r/tail": tail},
        "new": {"r/head": head + 1, "r/tail": tail},
    }
    for only, text in (
        (
            None,
            "r: better in head (.537 → 1.537, +1.000), the same in every row in tail",
        ),
        (["r/tail", "r/gap"], "r: the same in every row in tail"),
        (["*/gap"], "only gaps were tested, and a smaller gap is no gain by itself"),
    ):
        comparisons = compare(
            runs,
            gaps={"r/gap": ["r/head", "r/tail"]},
            only=only,
            unbounded=["r"],
            resamples=999,
        )
        (gap,) = [
            comparison for comparison in comparisons if comparison.statistic == "gap"
        ]
        assert gap.significant
        line = verdict(comparisons, ["head", "tail"])
        assert "/gap" not in line
        assert line == f"new against old: {text}."


def test_verdict_without_buckets_states_the_headline_with_its_size():
    """Without buckets a verdict states the headline with its size, with the digits of
    its kind; without a headline it names all keys by their outcome. Unknown keys in
    arguments are refused.
    """
    runs = {
        "old": {"k": [400.0] * 12, "p@1": [0.5] * 12},
        "new": {"k": [12.0] * 12, "p@1": [0.25] * 12},
    }
    comparisons = compare(runs, lower_is_better=["k"], unbounded=["k"], resamples=200)
    line = verdict(comparisons, lower_is_better=["k"], headline="k")
    assert line.startswith("new against old: k: better (400 → 12, -388")
    assert line.endswith("Worse elsewhere: p@1 over all labels.")
    assert verdict(comparisons, lower_is_better=["k"]).startswith(
        "new against old: better in k (400 → 12"
    )
    for argument in ("lower_is_better", "without_direction"):
        with pytest.raises(
            ValueError,
            match=f"verdict: {argument} holds 'rank', which is no key; the keys are k, p@1",
        ):
            verdict(comparisons, **{argument: ["rank"]})
    with pytest.raises(TypeError, match="lower_is_better='k' is one string"):
        verdict(comparisons, lower_is_better="k")


@pytest.mark.parametrize(
    ("num_won", "num_lost", "outcome", "reason"),
    [
        (6, 2, "no difference shown", "by the interval alone"),
        (8, 4, "better", "by the test alone"),
    ],
)
def test_a_verdict_says_where_the_interval_and_the_test_differ(
    num_won, num_lost, outcome, reason
):
    """A verdict says if only the interval or only the test finds a difference.

    Of 12 rows some gain 0.1 and some lose 0.05: p, of all swaps, is 13 / 256 and 187 /
    4,096.
    """
    old, new = np.zeros((2, 12))
    new[:num_won], old[12 - num_lost :] = 0.1, 0.05
    (comparison,) = comparisons = compare(
        {"old": {"k": old}, "new": {"k": new}}, resamples=999
    )
    assert comparison.p.randomisation == (
        187 / 4096 if outcome == "better" else 13 / 256
    )
    assert re.fullmatch(
        rf"new against old: k: {outcome} \(.* {reason}\)\.", verdict(comparisons)
    )


def test_verdict_names_infinite_values():
    """A verdict names infinite values beside the tested ones: a loss that is better in
    the tail, and infinite in the head and over all labels.
    """
    old = {"loss/head": [2.0] * 12, "loss/tail": [3.0] * 12, "loss": [2.5] * 12}
    new = {
        "loss/head": [math.inf, *[1.0] * 11],
        "loss/tail": [1.0] * 12,
        "loss": [math.inf, *[1.0] * 11],
    }
    comparisons = compare(
        {"old": old, "new": new},
        lower_is_better=["loss"],
        unbounded=["loss"],
        resamples=200,
    )
    assert verdict(comparisons, ["head", "tail"], headline="loss") == (
        "new against old: loss: infinite over all labels (2.500 → inf, +inf), better in tail (3.000 → 1.000, -2.000), "
        "infinite in head."
    )


def test_verdict_calls_values_without_direction_higher_or_lower():
    """A verdict calls a value without a direction higher or lower, and not better or
    worse.
    """
    runs = {
        "old": {"own": [0.2] * 12, "p@1": [0.5] * 12},
        "new": {"own": [0.8] * 12, "p@1": [0.25] * 12},
    }
    comparisons = compare(runs, resamples=200)
    line = verdict(comparisons, without_direction=["own"], headline="own")
    assert line.startswith("new against old: own: higher (.200 → .800")
    line = verdict(comparisons, without_direction=["p@1", "own"])
    assert "higher in own" in line and "lower in p@1" in line and "better" not in line


class Undirected(RowMeanMetric):
    """A custom recall without a direction."""

    stem = "undirected"

    def _row_value(self, ranks, k):
        return divide(ranks.hits_at(k), ranks.n_relevant)


def test_a_comparison_judges_no_metric_without_a_direction():
    """A comparison of a custom metric without a direction has no letter, no bold value
    and no "better".
    """
    target = torch.arange(40) % 4
    good = torch.nn.functional.one_hot(target, 4).float()
    report = compare_runs(
        {"old": 1 - good, "new": good}, target, metrics=[Undirected(k=1)], resamples=199
    )
    assert "undirected@1: higher" in report.verdict
    assert report.without_direction == ["undirected@1"]
    assert report.beaten("undirected@1", "new") == ""
    assert "**" not in str(report)
    assert "better" not in str(report)


def test_verdict_uses_lower_is_better_of_the_comparison():
    """A verdict uses lower_is_better of the comparison, in agreement with its wins and
    losses.
    """
    runs = {"old": {"rank": [9.0] * 12}, "new": {"rank": [2.0, 3.0] * 6}}
    (comparison,) = compare(
        runs, unbounded=["rank"], lower_is_better=["rank"], resamples=199
    )
    assert (comparison.wins, comparison.losses, comparison.lower_is_better) == (
        12,
        0,
        True,
    )
    assert verdict([comparison]).startswith(
        "new against old: rank: better (9.000 → 2.500"
    )


def test_notes_of_several_runs_that_differ_in_numbers_are_one_note() -> None:
    """Notes of several runs that differ only in numbers are shown as one; a cut-off in
    a key is not such a number.
    """
    runs = {
        f"run {place}": [f"{place} of 90 rows are empty.", "recall@5 falls."]
        for place in range(5)
    }
    assert warnings_of(runs) == [
        "0 of 90 rows are empty. These are the numbers of run 0; those of the other runs differ.",
        "recall@5 falls.",
    ]
    assert warnings_of({"a": ["recall@5 falls."], "b": ["recall@10 falls."]}) == [
        "a: recall@5 falls.",
        "b: recall@10 falls.",
    ]
