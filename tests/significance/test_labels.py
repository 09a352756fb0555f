"""Averages over labels: what rows change of them is what they change when they are left out, in plain loops."""

import re

import numpy as np
import pytest
import scipy.stats
from sklearn.metrics import average_precision_score, f1_score, precision_score, recall_score, roc_auc_score

from tailmetrics.significance import AreaRows, LabelRows, ShownRows, alike, compare, intervals, verdict
from tailmetrics.significance.halves import at_half_the_rows

N, L = 60, 7


def rows(seed, rows=N):
    """Return the relevant and the predicted labels of rows, as a matrix each."""
    rng = np.random.default_rng(seed)
    relevant = rng.random((rows, L)) < np.linspace(0.4, 0.04, L)
    return relevant, np.where(rng.random((rows, L)) < 0.7, relevant, rng.random((rows, L)) < 0.2)


def as_cells(relevant, predicted, **options):
    row, label = np.nonzero(relevant | predicted)
    flags = predicted[row, label], relevant[row, label]
    return LabelRows(row, label, *flags, np.ones(len(relevant), bool), relevant.shape[1], **options)


def test_the_value_is_that_of_scikit_learn():
    """Macro F1 over labels present or predicted, and weighted F1."""
    relevant, predicted = rows(0)
    f1 = {"top": 2.0, "below": (1.0, 1.0), "over": "union"}
    for average, options in (("macro", {}), ("weighted", {"weighted": True})):
        influence = as_cells(relevant, predicted, **f1, **options).influence().value
        assert influence == pytest.approx(f1_score(relevant, predicted, average=average, zero_division=0))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"predicted": np.array([1, 0, 1])}, "LabelRows: predicted is of type int64; pass an array of bool"),
        ({"relevant": np.ones(2, bool)}, r"LabelRows: relevant is of shape \[2\]; pass shape \[3\]"),
        ({"rows": [0, 0, 1]}, "LabelRows: rows is a list; pass an array of whole numbers"),
        ({"rows": np.array([0, 0, 2])}, "LabelRows: rows holds 0 to 2; pass numbers from 0 to 1"),
        ({"labels": np.array([0, 1, -1])}, "LabelRows: labels holds -1 to 1; pass numbers from 0 to 1"),
        ({"over": "any"}, "LabelRows: over='any' is not known; choose one of 'present', 'union', 'all'"),
    ],
)
def test_cells_that_do_not_fit_are_refused(changes, message):
    """Flags as whole numbers gave an average of 1.75; rows and labels that there are not were passed over."""
    cells = {"rows": np.array([0, 0, 1]), "labels": np.array([0, 1, 1]), "num_labels": 2, "inside": np.ones(2, bool)}
    cells |= {"predicted": np.array([True, False, True]), "relevant": np.ones(3, bool)}
    assert LabelRows(**cells).value() == 0.75
    with pytest.raises((TypeError, ValueError), match=message):
        LabelRows(**{**cells, **changes})
    with pytest.raises(ValueError, match="AreaRows: area='pr' is not known; choose one of 'roc', 'precision'"):
        AreaRows(np.zeros((2, 2), int), np.ones((2, 2), bool), np.ones(2, bool), "pr")


def test_rows_change_what_they_change_when_left_out():
    """A label of many rows: each row is worth what leaving it out changes, but for the factor and their mean."""
    relevant, predicted = rows(1)
    relevant[:, 0], predicted[:, 0] = True, np.arange(N) % 3 > 0
    influence = as_cells(relevant[:, :1], predicted[:, :1]).influence()
    left = np.array([np.delete(predicted[:, 0], row).mean() for row in range(N)])
    assert influence.rows == pytest.approx((influence.value - left) * (N - 1) / N * np.sqrt(N / (N - 1)), abs=1e-12)
    # and so the error of the recall of one label is that of a mean
    assert np.sqrt((influence.rows**2).sum()) == pytest.approx(scipy.stats.sem(predicted[:, 0].astype(float)))


@pytest.mark.parametrize("beta", [1.0, 2.0])
@pytest.mark.slow
def test_the_f_score_of_averages_has_the_error_of_its_resamples(beta):
    """F of macro precision and macro recall by scikit-learn; the standard error is that of 150 resamples."""
    relevant, predicted = rows(7, 1500)  # so that no resample is without a label
    influence = as_cells(relevant, predicted, top=1 + beta**2, below=(1.0, beta**2), of_averages=True).influence()

    def score(relevant, predicted):
        precision = precision_score(relevant, predicted, average="macro", zero_division=0)
        recall = recall_score(relevant, predicted, average="macro", zero_division=0)
        return (1 + beta**2) / (1 / precision + beta**2 / recall)

    assert influence.value == pytest.approx(score(relevant, predicted))
    drawn = [np.random.default_rng(seed).integers(1500, size=1500) for seed in range(150)]
    resampled = np.std([score(relevant[sample], predicted[sample]) for sample in drawn])
    assert np.sqrt((influence.rows**2).sum()) == pytest.approx(resampled, rel=0.12)
    assert as_cells(relevant, relevant & ~relevant, top=2.0, below=(1.0, 1.0), of_averages=True).influence().value == 0


@pytest.mark.parametrize(("area", "average"), [("roc", "macro"), ("precision", "macro"), ("precision", "weighted")])
@pytest.mark.slow
def test_areas_are_those_of_scikit_learn_and_their_errors_those_of_resamples(area, average):
    """The mean area of five labels; the standard error within a tenth of that of 200 resampled sets of rows.

    A sixth label that every row holds has no ROC area, and changes nothing; its average precision is 1, as the metric's.
    """
    rng = np.random.default_rng(2)
    relevant = rng.random((150, 5)) < (0.4 if average == "macro" else np.linspace(0.1, 0.9, 5))
    bins = (
        rng.normal(size=(150, 5)) + relevant + rng.normal(size=(150, 1)) / 2 > np.arange(-2, 3, 0.05)[:, None, None]
    ).sum(0)
    score = roc_auc_score if area == "roc" else average_precision_score
    six_bins, six_relevant = np.hstack([bins, bins[:, :1]]), np.hstack([relevant, np.full((150, 1), True)])
    influence = AreaRows(six_bins, six_relevant, np.ones(150, bool), area, average).influence()
    if area == "precision":
        bins, relevant = six_bins, six_relevant
    assert influence.value == pytest.approx(score(relevant, bins, average=average))
    drawn = [rng.integers(150, size=150) for _ in range(200)]
    resampled = np.std([score(relevant[sample], bins[sample], average=average) for sample in drawn])
    assert np.sqrt((influence.rows**2).sum()) == pytest.approx(resampled, rel=0.12)


def test_rows_change_a_roc_area_by_what_it_changes_without_them():
    """One label in four bins: most rows tie. Of m rows of a kind, each adds sqrt((m - 1) / m) of what it changes."""
    rng = np.random.default_rng(4)
    bins, relevant = rng.integers(4, size=(N, 1)), rng.random((N, 1)) < 0.4
    influence = AreaRows(bins, relevant, np.ones(N, bool), "roc").influence()
    left = [roc_auc_score(np.delete(relevant, row), np.delete(bins, row)) for row in range(N)]
    alike = np.where(relevant[:, 0], relevant.sum(), N - relevant.sum())
    assert influence.rows == pytest.approx((influence.value - np.array(left)) * np.sqrt((alike - 1) / alike), abs=1e-12)


@pytest.mark.parametrize("area", ["roc", "precision"])
def test_a_label_leaves_the_average_of_areas_with_its_only_row(area):
    """Of three labels row 4 alone holds the last: it adds to the mean what the last area lies above it, over three."""
    bins = np.random.default_rng(0).permutation(30).reshape(10, 3)
    relevant = np.zeros((10, 3), bool)
    relevant[:5, 0] = relevant[3:8, 1] = relevant[4, 2] = True
    influence = AreaRows(bins, relevant, np.ones(10, bool), area).influence()
    cells = dict(zip(*map(np.ndarray.tolist, influence.cells), strict=True))
    assert cells[4 * 3 + 2] == pytest.approx((influence.label_values[2] - influence.value) / 3)


@pytest.mark.parametrize("area", ["roc", "precision"])
def test_areas_are_the_same_a_few_labels_at_a_time(area, monkeypatch):
    """Of seven labels, two together."""
    bins, relevant = np.random.default_rng(0).permutation(140).reshape(20, 7) // 3, rows(9, 20)[0]
    areas = AreaRows(bins, relevant, np.ones(20, bool), area)
    whole = areas.influence()
    monkeypatch.setattr("tailmetrics.significance.areas.BLOCK", 2 * (bins.max() + 1))
    assert np.array_equal(areas.influence().label_values, whole.label_values, equal_nan=True)


@pytest.mark.parametrize("area", ["roc", "precision"])
@pytest.mark.parametrize("others", [24, 1])
def test_an_area_from_bins_is_off_by_what_the_order_within_bins_may_hide(area, others):
    """scikit-learn's areas where the relevant rows of a bin stand in front of all others, or one by one behind them."""
    rng = np.random.default_rng(3)
    bins, relevant = rng.integers(4, size=(40, 1)), rng.permutation(40)[:, None] >= others
    marks = np.arange(40)[:, None]
    influence = AreaRows(bins, relevant, np.ones(40, bool), area, marks=marks).influence()
    score = roc_auc_score if area == "roc" else average_precision_score
    ends = [score(relevant, bins + relevant / 2), score(relevant, bins - relevant * (marks + 1) / 100)]
    assert influence.value == pytest.approx(score(relevant, bins))
    assert influence.bin_error == pytest.approx(max(abs(end - influence.value) for end in ends))


def recalls(*hits, rows=20):
    """Return the recall of labels with ``rows`` rows each, which hold no other label; of label i, hits[i] are found."""
    relevant = np.repeat(np.eye(len(hits), dtype=bool), rows, axis=0)
    found = np.concatenate([np.arange(rows) < number for number in hits])
    return as_cells(relevant, relevant & found[:, None])


def test_drawn_labels_are_a_sample_of_their_values():
    """Where no row holds two labels, the interval is that of Student's t for the values of labels, with L - 1 degrees."""
    hits = np.array([6, 8, 12, 14])
    interval = intervals({"r": recalls(*hits)}, resample="rows,labels", resamples=0)["r"]
    half = scipy.stats.t.ppf(0.975, 3) * scipy.stats.sem(hits / 20)
    assert [interval.low, interval.high] == pytest.approx([hits.mean() / 20 - half, hits.mean() / 20 + half], abs=0.01)


def test_drawn_labels_that_agree_vary_as_much_as_their_rows():
    """Three recalls of .5, each of 20 rows: their variance .25 / 19 / 3, with two degrees; not 0, as of three numbers."""
    interval = intervals({"r": recalls(10, 10, 10)}, resample="rows,labels", resamples=0)["r"]
    half = scipy.stats.t.ppf(0.975, 2) * np.sqrt(0.25 / 19 / 3)
    assert (interval.high - interval.low) / 2 == pytest.approx(half, rel=0.05)


def test_one_drawn_label_has_neither_interval_nor_p():
    """It does not tell how much labels vary, alone, at the end of a gap, or in the difference of two models."""
    models = {
        "old": {"head": recalls(4), "tail": recalls(9, 2, rows=10)},
        "new": {"head": recalls(18), "tail": recalls(3, 10, rows=10)},
    }
    options = {"gaps": {"gap": ["head", "tail"]}, "resample": "rows,labels", "resamples": 99}
    found = intervals(models["old"], **options)
    compared = {comparison.key: comparison for comparison in compare(models, **options)}
    for key in ("head", "gap"):
        assert found[key].reason == "one label does not tell how much labels vary"
        assert np.isnan(compared[key].p.decisive) and not compared[key].interval.ends
    assert found["tail"].ends and compared["tail"].p.total > 0.05


def test_the_cells_of_two_buckets_stay_apart():
    """Rows and labels of one value and of the other: a place of its own for each."""
    head, tail = as_cells(*rows(3)).influence(), as_cells(*rows(4)).influence()
    places, changes = head.minus(tail).cells
    assert len(set(places.tolist())) == len(places) == len(head.cells[0]) + len(tail.cells[0])
    assert changes.tolist() == [*head.cells[1].tolist(), *(-tail.cells[1]).tolist()]


def test_clusters_runs_and_labels_widen_the_interval():
    """Copies of rows say nothing new, runs that differ add their variance, and labels drawn too add theirs."""
    relevant, predicted = rows(3)
    once = as_cells(relevant, predicted)
    twice = as_cells(np.repeat(relevant, 2, axis=0), np.repeat(predicted, 2, axis=0))

    def width(rows, **options):
        interval = intervals(rows, resamples=0, **options)["k"]
        return interval.high - interval.low

    assert width({"k": twice}) < 0.85 * width({"k": once})
    assert width({"k": twice}, clusters=np.repeat(np.arange(N), 2)) == pytest.approx(width({"k": once}), rel=0.2)
    assert width({"k": once}, resample="rows,labels") > width({"k": once})
    runs = [{"k": as_cells(relevant, rows(seed)[1])} for seed in range(4, 7)]
    interval = intervals(runs, resamples=0)["k"]
    values = [run["k"].influence().value for run in runs]
    assert interval.value == pytest.approx(np.mean(values))
    assert (interval.high - interval.low) / 2 > np.std(values, ddof=1) / np.sqrt(3)


def test_a_gap_is_of_the_buckets_that_were_measured():
    """Of head, tail and a bucket without rows: head minus tail, with the change of it between models."""
    rng = np.random.default_rng(8)
    models = {
        name: {"r/head": rng.random(50), "r/tail": rng.random(50) / 2, "r/none": np.full(50, np.nan)} for name in "ab"
    }
    gaps = {"r/gap": ["r/head", "r/tail", "r/none"]}
    comparisons = {comparison.key: comparison for comparison in compare(models, gaps=gaps, resamples=199)}
    for name, value in (("a", comparisons["r/gap"].baseline_value), ("b", comparisons["r/gap"].value)):
        assert value == pytest.approx(models[name]["r/head"].mean() - models[name]["r/tail"].mean())
    change = [model["r/head"] - model["r/tail"] for model in models.values()]
    expected = scipy.stats.sem(change[1] - change[0])
    interval = comparisons["r/gap"].interval
    assert (interval.high - interval.low) / 4 == pytest.approx(expected, rel=0.1)
    unmeasured = compare(models, gaps={"r/gap": ["r/head", "r/none"]}, resamples=199)
    assert "r/gap" not in {comparison.key for comparison in unmeasured}


def test_several_runs_decide_by_the_variance_between_them():
    """Two models of three runs: runs further apart than models leave nothing to show, however many rows there are."""
    rng = np.random.default_rng(5)
    base = rng.random(2000)
    models = {
        name: [{"k": base + shift} for shift in shifts]
        for name, shifts in {"a": (0, 0.1, 0.2), "b": (0.05, 0.2, 0.25)}.items()
    }
    (comparison,) = compare(models, unbounded=["k"], resamples=199)
    assert np.isnan(comparison.p.randomisation)
    assert comparison.p.total > 0.05
    assert not comparison.significant
    peer = scipy.stats.ttest_ind([0.05, 0.2, 0.25], [0, 0.1, 0.2], equal_var=False)
    assert comparison.p.total == pytest.approx(peer.pvalue, abs=0.01)


def test_rows_that_count_in_one_run_alone_count_in_none():
    """Two runs of different rows, of a mean and of a ratio: values, and their difference, are of the rows of both."""
    rng = np.random.default_rng(0)
    tops, bottoms = rng.random((2, 50)), rng.integers(1, 4, (2, 50)).astype(float)
    tops[0, :5], tops[1, 45:] = np.nan, np.nan
    common = slice(5, 45)
    runs = [{"mean": top, "ratio": (top, bottom)} for top, bottom in zip(tops, bottoms, strict=True)]
    estimates = intervals(runs, unbounded=["ratio"], resamples=0)
    assert estimates["mean"].value == pytest.approx(tops[:, common].mean())
    ratios = tops[:, common].sum(axis=1) / bottoms[:, common].sum(axis=1)
    assert estimates["ratio"].value == pytest.approx(ratios.mean())
    assert estimates["mean"].n == estimates["ratio"].n == 40
    zeros = {"mean": np.zeros(50), "ratio": (np.zeros(50), np.ones(50))}
    assert [
        comparison.value for comparison in compare({"one": zeros, "two": runs}, unbounded=["ratio"], resamples=100)
    ] == pytest.approx([tops[:, common].mean(), ratios.mean()])


def test_a_ratio_over_runs_has_no_unit():
    """Three runs of a ratio of weighted sums. Weights that are a million times smaller give the same interval."""
    rng = np.random.default_rng(6)
    tops = rng.random((3, 50))
    small, usual = (
        intervals([{"r": (top * unit, np.full(50, unit))} for top in tops], resamples=0) for unit in (1e-6, 1)
    )
    ends = [(interval["r"].value, interval["r"].low, interval["r"].high) for interval in (small, usual)]
    assert ends[0] == pytest.approx(ends[1]) and ends[1][0] < ends[1][2]


def test_a_mean_and_a_median_have_no_gap():
    """Nor have two medians; denominators that sum to 0 make no value."""
    rows = np.random.default_rng(0).random(30)
    models = {name: {"r/head": rows, "r/tail": rows**2} for name in "ab"}
    for medians in (["r/tail"], ["r/head"], ["r"]):
        comparisons = compare(models, medians=medians, gaps={"r/gap": ["r/head", "r/tail"]}, resamples=100)
        assert [comparison.key for comparison in comparisons] == ["r/head", "r/tail"]
    assert np.isnan(intervals({"k": ([1, 1], [1, -1])})["k"].value)


def without_sizes(sentence):
    """Return a verdict without the sizes in brackets."""
    return re.sub(r" \([^)]*\)", "", sentence)


def test_a_verdict_names_the_values_that_are_worse():
    """The first metric is better in deciles: a loss over all labels, in deciles, and of a loss is named; no gap is."""
    rows = np.random.default_rng(0).random(40)
    better, worse = rows + 1, rows - 1
    old = {f"{name}/decile_{number}": rows for name in ("first", "lost", "loss") for number in (3, 2, 1)}
    new = {key: better if key.startswith(("first", "loss")) else worse for key in old}
    new["lost/decile_3"], new["first/decile_1"] = rows, rows + 2  # so that the gap is smaller
    overall = dict.fromkeys(("first", "lost", "metric"), rows)
    comparisons = compare(
        {"old": old | overall, "new": new | dict.fromkeys(overall, worse)},
        lower_is_better=["loss"],
        unbounded=[*old, *overall],
        gaps={"first/gap": ["first/decile_3", "first/decile_1"]},
        resamples=999,
    )
    deciles = ["decile_3", "decile_2", "decile_1"]
    assert [
        comparison.difference < 0
        for comparison in comparisons
        if comparison.significant and comparison.key == "first/gap"
    ] == [True]
    assert without_sizes(verdict(comparisons, deciles, ["loss"])) == (
        "new against old: first: worse over all labels, better in deciles 1 to 3. Worse elsewhere: lost in deciles 1 to 2; "
        "loss in deciles 1 to 3; lost over all labels; 1 more."
    )
    by_decile = [comparison for comparison in comparisons if "/" in comparison.key]
    assert without_sizes(verdict(by_decile, deciles, ["loss"])) == (
        "new against old: first: better in deciles 1 to 3. Worse elsewhere: lost in deciles 1 to 2; loss in deciles 1 to 3."
    )


def test_a_verdict_names_the_values_that_are_better():
    """As those that are worse: the tail first, three at most; without a bucket all are named."""
    rows = np.random.default_rng(0).random(40)
    better, worse = rows + 1, rows - 1
    new = {"first/tail": worse, "lost": worse, "won/tail": better, "won": better}
    old = dict.fromkeys(new, rows)
    comparisons = compare({"old": old, "new": new}, unbounded=[*new], resamples=999)
    assert without_sizes(verdict(comparisons, ["tail"])) == (
        "new against old: first: worse in tail. Worse elsewhere: lost over all labels. Better elsewhere: won in "
        "tail; won over all labels."
    )
    assert (
        without_sizes(verdict(comparisons))
        == "new against old: better in won/tail and won, worse in first/tail and lost."
    )


def test_a_verdict_says_where_rows_are_too_few():
    """A bucket of one row, and one of nine clusters, are no buckets where no difference was shown; one of ten is."""
    rng = np.random.default_rng(0)
    old = {f"r/{name}": rng.random(40) for name in ("head", "tail", "unseen")}
    new = {"r/head": old["r/head"] / 2, "r/tail": old["r/tail"] + 0.0, "r/unseen": old["r/unseen"] / 2}
    old["r/unseen"][1:], new["r/unseen"][1:] = np.nan, np.nan
    comparisons = compare({"old": old, "new": new}, resamples=999)
    buckets = ["head", "tail", "unseen"]
    assert without_sizes(verdict(comparisons, buckets)) == (
        "new against old: r: the same in every row in tail, worse in head, too few rows in unseen."
    )
    runs = {"old": old, "new": {**new, "r/head": old["r/head"]}}
    nine_clusters, ten_clusters = (compare(runs, clusters=np.arange(40) % number, resamples=999) for number in (9, 10))
    assert verdict(nine_clusters, buckets) == "new against old: r: too few clusters in head, tail and unseen."
    assert (
        verdict(ten_clusters, buckets)
        == "new against old: r: the same in every row in head and tail, too few clusters in unseen."
    )


@pytest.mark.parametrize("seed", range(20))
def test_the_verdict_says_what_the_numbers_say(seed):
    """Deciles better, worse or not shown: read from the numbers alone, by another sentence of the same facts."""
    rng = np.random.default_rng(seed)
    buckets = [f"decile_{number}" for number in range(10, 0, -1)]
    effect = rng.choice([-0.5, 0.0, 0.0, 0.5], 10)
    old = {f"r@1/{name}": rng.random(40) for name in buckets}
    new = {key: rows + shift + rng.normal(0, 0.1, 40) for (key, rows), shift in zip(old.items(), effect, strict=True)}
    comparisons = compare({"old": old, "new": new}, unbounded=["r@1"], resamples=999)
    sentence = without_sizes(verdict(comparisons, buckets))

    def outcome_of(comparison):
        if comparison.p_corrected.randomisation > 0.05:
            return "no difference shown"
        return "better" if comparison.difference > 0 else "worse"

    for outcome in ("better", "no difference shown", "worse"):
        listed = re.search(rf"{outcome} in (?:deciles? )?([\d ,andto]+)", sentence)
        ends = re.findall(r"(\d+)(?: to (\d+))?", listed[1]) if listed else []
        numbers = {number for first, last in ends for number in range(int(first), int(last or first) + 1)}
        assert numbers == {
            int(comparison.key.rpartition("_")[2]) for comparison in comparisons if outcome_of(comparison) == outcome
        }, sentence


def test_models_that_cannot_be_told_apart_share_a_group():
    """a and b, b and c are alike; a and c are not."""
    base = np.random.default_rng(1).random(40)
    noise = np.random.default_rng(2).normal(0, 0.3, (3, 40))
    models = {name: {"k": base + noise[place] + 0.14 * place} for place, name in enumerate("abc")}
    comparisons = compare(models, unbounded=["k"], resamples=999)
    differ = {frozenset((comparison.run, comparison.baseline)) for comparison in comparisons if comparison.significant}
    for group in alike(comparisons, "k"):
        assert not any(pair <= set(group) for pair in differ)
    together = {frozenset((a, b)) for group in alike(comparisons, "k") for a in group for b in group if a != b}
    assert together == {frozenset("ab"), frozenset("bc"), frozenset("ac")} - differ


WEIGHTS = np.array([5.0, 3.0, 2.0, 1.0, 1.0, 0.5, 0.5])


def exposure(measure, c):
    """Return the exposure of counts, by other formulas than the library's."""
    if measure == "coverage":
        return np.mean(c > 0)
    if measure == "gini":
        return np.abs(c[:, None] - c).sum() / (2 * L * c.sum())
    if measure == "entropy":
        return scipy.stats.entropy(c)
    if measure == "mean":
        return np.average(WEIGHTS, weights=c)
    shown = np.repeat(np.arange(L), c)
    return np.mean([label != other for at, label in enumerate(shown) for other in np.delete(shown, at)])


@pytest.mark.parametrize("measure", ["coverage", "gini", "entropy", "mean", "personalization"])
def test_what_is_shown_changes_by_what_a_row_shows(measure):
    """Rows of one label: each is worth what the value loses without it, but for the mean of all rows."""
    shown = np.repeat(np.arange(L), [8, 6, 3, 1, 1, 1, 0])
    all_shown, inside = np.ones(shown.size, bool), np.ones(shown.size, bool)
    rows = ShownRows(np.arange(shown.size), shown, all_shown, all_shown, inside, L, measure, L, WEIGHTS)
    influence, whole = rows.influence(), exposure(measure, np.bincount(shown, minlength=L))
    assert influence.value == pytest.approx(whole)
    lost = [whole - exposure(measure, np.bincount(np.delete(shown, at), minlength=L)) for at in range(shown.size)]
    expected = np.array(lost) - np.mean(lost)
    if measure == "coverage":  # three labels of one row; two of even and four of odd counts
        expected *= np.sqrt((4 - 2) / 3)
    # leaving a row out leaves one list less, of which the overlap takes no notice to the first order
    factor = (shown.size - 2) / shown.size if measure == "personalization" else 1
    assert influence.rows == pytest.approx(expected * factor, abs=1e-12)


def test_popularity_lift_changes_by_what_a_row_shows_and_holds():
    """Of 300 rows of four labels, shown or held, each is worth what the ratio loses without it, to the first order."""
    rng = np.random.default_rng(1)
    rows, shown = np.repeat(np.arange(300), 4), rng.random(1200) < 0.5
    labels = np.minimum(rng.geometric(np.where(shown, 0.4, 0.2)) - 1, L - 1)
    influence = ShownRows(rows, labels, shown, ~shown, np.ones(300, bool), L, "lift", L, WEIGHTS).influence()

    def lift(kept):
        return WEIGHTS[labels[kept & shown]].mean() / WEIGHTS[labels[kept & ~shown]].mean()

    assert influence.value == pytest.approx(lift(shown | ~shown))
    lost = influence.value - np.array([lift(rows != row) for row in range(300)])
    assert influence.rows == pytest.approx(lost - lost.mean(), abs=0.02 * np.abs(lost).max())


@pytest.mark.parametrize("measure", ["entropy", "gini", "mean"])
def test_rows_may_show_different_numbers_of_labels(measure):
    """Of 300 rows of one to three labels each is worth what the value loses without it, to the first order."""
    rng = np.random.default_rng(0)
    rows = np.repeat(np.arange(300), rng.integers(1, 4, 300))
    shown, all_shown = np.minimum(rng.geometric(0.4, rows.size) - 1, L - 1), np.ones(rows.size, bool)
    influence = ShownRows(rows, shown, all_shown, all_shown, np.ones(300, bool), L, measure, L, WEIGHTS).influence()
    whole = exposure(measure, np.bincount(shown, minlength=L))
    lost = np.array([whole - exposure(measure, np.bincount(shown[rows != row], minlength=L)) for row in range(300)])
    assert influence.rows == pytest.approx(lost - lost.mean(), abs=0.02 * np.abs(lost).max())


def test_a_lift_is_the_ratio_of_two_means():
    """The error is that of the delta method on sums over rows, in numpy."""
    rng = np.random.default_rng(3)
    shown, relevant = rng.integers(0, L, 200), rng.integers(0, L, 200)
    rows, labels = np.tile(np.arange(200), 2), np.concatenate([shown, relevant])
    first = np.arange(400) < 200
    influence = ShownRows(rows, labels, first, ~first, np.ones(200, bool), L, "lift", L, WEIGHTS).influence()
    top, bottom = WEIGHTS[shown], WEIGHTS[relevant]
    assert influence.value == pytest.approx(top.mean() / bottom.mean())
    changed = (top - influence.value * bottom) / bottom.sum()
    assert influence.rows == pytest.approx(changed, rel=0.01)  # of 200 rows, and of the 199 others


def rows_of_one_label(support: int, hits: int, **arguments) -> LabelRows:
    """Sixty rows: the first ``support`` hold the label, the first ``hits`` predict it, and so do the last forty."""
    row = np.arange(60)
    relevant, predicted = row < support, (row < hits) | (row >= 20)
    cells = relevant | predicted
    return LabelRows(
        row[cells], np.zeros(cells.sum(), int), predicted[cells], relevant[cells], np.ones(60, bool), 1, **arguments
    )


@pytest.mark.parametrize("arguments", [{}, {"top": 2.0, "below": (1.0, 1.0)}], ids=["recall", "f1"])
@pytest.mark.parametrize("resamples", [0, 999])
def test_wrong_predictions_do_not_make_recall_more_certain(arguments, resamples):
    """A label that one row holds, and forty others wrongly predict, is missed: one row alone leaves [0, .975]."""
    interval = intervals({"macro": rows_of_one_label(1, 0, **arguments)}, resamples=resamples)["macro"]
    assert (interval.value, interval.low) == (0, 0)
    assert interval.high == pytest.approx(1 - 0.025)  # Clopper and Pearson, 0 of 1
    few, enough = (intervals({"m": rows_of_one_label(n, 4, **arguments)}, resamples=resamples)["m"] for n in (9, 10))
    assert few.reason == "fewer than 10 rows"
    assert enough.low < enough.value < enough.high


@pytest.mark.parametrize("over", ["recall", "f1", "precision"])
def test_rows_that_hold_no_label_are_no_evidence(over):
    """Of sixty rows m hold the label; one model finds it in all, the other in none: p is at least 2^-m, as of m rows alone."""
    arguments = {"recall": {}, "f1": {"top": 2.0, "below": (1.0, 1.0)}, "precision": {"below": (1.0, 0.0)}}[over]
    for support in (1, 3, 4):
        runs = {
            name: {"macro": rows_of_one_label(support, hits, **arguments)} for name, hits in (("a", 0), ("b", support))
        }
        (comparison,) = compare(runs, resamples=999)
        assert comparison.p.randomisation >= 0.5**support
        assert not comparison.significant


def kinds():
    """One of each kind of average, of 60 rows, and the same of other rows in another order."""
    relevant, predicted = rows(4)
    marks = np.random.default_rng(6).integers(9, size=relevant.shape)
    shown_arguments = {"measure": "entropy", "size": L, "weights": np.ones(L)}
    for order in (np.arange(N), np.random.default_rng(5).permutation(N)):
        row, label = np.nonzero((relevant | predicted)[order])
        cells = row, label, predicted[order][row, label], relevant[order][row, label], np.ones(N, bool), L
        yield [
            LabelRows(*cells, 2.0, (1.0, 1.0), "all"),
            LabelRows(*cells, 2.0, (1.0, 1.0), of_averages=True),
            LabelRows(*cells, 0.0),
            AreaRows(marks[order], relevant[order], np.ones(N, bool), "precision", "weighted"),
            AreaRows(marks[order], relevant[order], np.ones(N, bool), "roc", "micro"),
            ShownRows(*cells, **shown_arguments),
        ]


def test_the_value_at_half_of_the_rows_does_not_depend_on_their_order():
    """Also of rows that are alike: 60 rows of seven labels, of which many predict and hold the same."""
    for average, reordered in zip(*kinds(), strict=True):
        assert at_half_the_rows(average) == at_half_the_rows(reordered)
        assert average.value() == pytest.approx(average.influence().value)


def test_the_value_at_half_of_the_rows_is_that_of_random_halves():
    """Its mean over 40 samples is that of halves drawn at random, in plain matrices, within three standard errors."""
    rng, pairs = np.random.default_rng(3), []
    for seed in range(40):
        relevant, predicted = rows(100 + seed)
        half = rng.permutation(N)[: N // 2]
        drawn = f1_score(relevant[half], predicted[half], average="macro", zero_division=0)
        pairs.append((at_half_the_rows(as_cells(relevant, predicted, top=2.0, below=(1.0, 1.0), over="all")), drawn))
    ours, drawn = np.transpose(pairs)
    assert ours.mean() == pytest.approx(drawn.mean(), abs=3 * scipy.stats.sem(drawn))
    whole = [f1_score(*rows(100 + seed), average="macro", zero_division=0) for seed in range(40)]
    assert abs(ours.mean() - np.mean(whole)) > 3 * scipy.stats.sem(np.subtract(ours, whole))


def test_rows_that_are_alike_are_split_by_chance():
    """Two rows that hold one label, both or neither in a half: a label of two equal rows is absent from some halves."""
    row, label = np.arange(200), np.repeat(np.arange(100), 2)
    yes = np.ones(200, bool)
    average = LabelRows(row, label, yes, yes, yes, 100, top=1.0, over="all")
    assert average.value() == 1
    assert at_half_the_rows(average) == pytest.approx(0.75, abs=0.03)  # each of two rows is in a half by a fair coin
