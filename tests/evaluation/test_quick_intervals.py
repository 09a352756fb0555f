"""Quick intervals, from sums over rows: they equal those of scipy, to the same bits in
any batches, and are left out where they cannot be computed.
"""

import math
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from numpy.typing import NDArray
from torch import Tensor

import tailmetrics as tm
from tailmetrics.evaluation import Evaluation
from tailmetrics.significance import Method, intervals
from tailmetrics.significance.moments import Moments, quick_interval

ROWS, LABELS = 150, 30
COUNTS = (300 / torch.arange(1, LABELS + 1)).long()
BUCKETS = tm.LabelBuckets.quantiles(COUNTS, 4)
GROUPS = ["de", "en"]


def data() -> tuple[Tensor, Tensor, Tensor]:
    """Return scores, relevant labels, and a group for two rows of three."""
    generator = torch.Generator().manual_seed(5)
    scores = torch.randn(ROWS, LABELS, generator=generator) + COUNTS.log() / 3
    return (
        scores,
        torch.rand(ROWS, LABELS, generator=generator) < 0.15,
        torch.arange(ROWS) % 3 - 1,
    )


def metrics() -> list[Any]:
    """Return one metric of each kind: means of shares and of other numbers, ratios of
    counts and of weights, a hit rate, medians.
    """
    return [
        tm.RecallAtK([1, 3], buckets=BUCKETS),
        tm.NDCGAtK(5),
        tm.DCGAtK(5),
        tm.MRR(),
        tm.HitRateAtK(2),
        tm.PrecisionAtK(3, average="micro", buckets=BUCKETS),
        # 1 for a bucket of one label
        tm.PrecisionAtK(
            3, average="micro", buckets=BUCKETS, empty_target_action="skip"
        ),
        tm.PropensityScoredPrecisionAtK(3, label_counts=COUNTS, num_train=500),
        tm.KForRecall(0.5, buckets=BUCKETS, depth=6),
        tm.KForRecall(0.5, statistic="mean"),
    ]


def label_metrics() -> list[Any]:
    """Return averages over labels, and a metric of exposure."""
    macro = tm.RecallAtK([1, 4], average="macro", buckets=BUCKETS)
    return [macro, tm.LabelAUC(num_labels=LABELS), tm.GiniAtK(3, num_labels=LABELS)]


def accumulated(parts: list[list[int]], all_kinds: bool = False) -> Evaluation:
    """Return an evaluation of the rows, in batches of the rows of each part."""
    scores, mask, groups = data()
    selected_metrics = [*metrics(), *label_metrics()] if all_kinds else metrics()
    evaluation = Evaluation(selected_metrics, row_groups=GROUPS, confidence=0.95)
    for part in parts:
        evaluation.update(scores[part], mask[part], row_groups=groups[part])
    return evaluation


def columns() -> dict[str, Any]:
    """Return the values of all rows by key, and those of row groups by a mask."""
    scores, mask, groups = data()
    collection = accumulated([list(range(ROWS))]).collection
    ranking = collection.rank(scores, mask, row_groups=groups)
    values_by_key: dict[str, Any] = {}
    for metric in collection.members().values():
        for key, value in metric.row_values(ranking).items():
            sides = [
                side.numpy()
                for side in (value if isinstance(value, tuple) else (value,))
            ]
            stem, slash, bucket = key.partition("/")
            values_by_key[key] = sides
            for number, group in enumerate(GROUPS):
                inside = [
                    np.where(groups.numpy() == number, side, np.nan) for side in sides
                ]
                values_by_key[f"{stem}/{group}{slash}{bucket}"] = inside
    return values_by_key


def scipy_interval(key: str, sides: list[NDArray[np.float64]]) -> tuple[float, float]:
    """Return the ends of the interval of one key, from the values of all rows."""
    counted = ~np.isnan(sides[0])
    values = sides[0][counted]
    if key.startswith("median"):
        ends = scipy.stats.quantile_test(values, p=0.5).confidence_interval(0.95)
        return float(ends.low), float(ends.high)
    bounded = not key.startswith(("dcg", "mean"))
    if bounded and (len(sides) == 2 or not set(values) <= {0.0, 1.0}):
        bottoms = sides[1][counted] if len(sides) == 2 else np.ones(values.size)
        limits = limits_of_rare_values(values, bottoms)
        if limits is not None:
            return limits
        limits = limits_of_rare_values(bottoms - values, bottoms)
        if limits is not None:
            return 1 - limits[1], 1 - limits[0]
    if len(sides) == 2:
        tops, bottoms = values, sides[1][counted]
        ratio, units = tops.sum() / bottoms.sum(), int((bottoms != 0).sum())
        # all rows agree: exact for as many rows as would have the same weight each
        if ratio == 1:
            return float(
                scipy.stats.beta.ppf(0.025, bottoms.sum() ** 2 / (bottoms**2).sum(), 1)
            ), 1.0
        beyond = sum(
            (top - ratio * bottom) ** 2
            for top, bottom in zip(tops, bottoms, strict=True)
        )
        half = (
            scipy.stats.t.ppf(0.975, units - 1)
            * math.sqrt(beyond * units / (units - 1))
            / bottoms.sum()
        )
        return max(0.0, ratio - half), min(1.0, ratio + half)
    if set(values) <= {0.0, 1.0} and not key.startswith(("dcg", "mean")):
        exact = scipy.stats.binomtest(int(values.sum()), len(values)).proportion_ci(
            0.95, method="wilson"
        )
        return float(exact.low), float(exact.high)
    if not bounded:
        limits = limits_of_rare_values(
            values, np.ones(values.size), bound=math.inf
        ) or limits_of_large_rows(values)
        if limits is not None:
            return limits
    low, high = scipy.stats.t.interval(
        0.95, len(values) - 1, values.mean(), scipy.stats.sem(values)
    )
    top = 1.0 if bounded else math.inf
    return max(0.0, float(low)), min(top, float(high))


def limits_of_large_rows(values: NDArray[np.float64]) -> tuple[float, float] | None:
    """Return limits for a Poisson number of events as large as the largest distance
    from the mean; None unless they are rare.
    """
    size = values.max() - values.mean()
    events = ((values - values.mean()) ** 2).sum() / size**2
    if not events < min(20, values.size / 4):
        return None
    below = events - scipy.stats.chi2.ppf(0.025, 2 * events) / 2
    above = scipy.stats.chi2.ppf(0.975, 2 * (events + 1)) / 2 - events
    return float(values.mean() - size * below / values.size), float(
        values.mean() + size * above / values.size
    )


def limits_of_rare_values(
    tops: NDArray[np.float64], bottoms: NDArray[np.float64], bound: float = 1.0
) -> tuple[float, float] | None:
    """Return the limits of Fay and Feuer, as in their paper, with the largest row that
    is expected; None unless (sum x)^2 / sum x^2 is below 20 and n / 4, or the largest
    row has most of the squares, but not of the sum. Of a mean with a bound, x stands
    above its least value.
    """
    least = 0.0
    if math.isfinite(bound) and set(bottoms) <= {1}:
        above = tops - tops.min()
        if above.sum() ** 2 >= 3 * (above**2).sum() > 0:
            tops, least = above, float(tops.min())
    y, v, w, units = tops.sum(), (tops**2).sum(), tops.max(), (bottoms != 0).sum()
    if y <= 0:
        return None
    effective, has_large_rows = y**2 / v, False
    if math.isfinite(bound):
        like_largest, squares_like_largest = y / w, v / w**2
        most = 1 - least if set(bottoms) <= {0, 1} else w + (bottoms - tops).max()
        has_large_rows = squares_like_largest < min(4, like_largest / 2)
        w *= 1 + 6 * (like_largest - squares_like_largest) / squares_like_largest**2
        w = max(tops.max(), min(w, most))
        if w > tops.max():
            effective = min(effective, (y + w) ** 2 / (v + w**2))
    if not has_large_rows and effective >= min(20, units / 4):
        return None
    low = v / (2 * y) * scipy.stats.chi2.ppf(0.025, 2 * y**2 / v)
    high = (
        (v + w**2)
        / (2 * (y + w))
        * scipy.stats.chi2.ppf(0.975, 2 * (y + w) ** 2 / (v + w**2))
    )
    return least + float(low / bottoms.sum()), float(
        min(bound, least + high / bottoms.sum())
    )


def gap_by_rows(buckets: list[list[NDArray[np.float64]]]) -> tuple[float, float, int]:
    """Return the ends of the interval of a gap by the delta method, and the number of
    rows.

    The gap is the first bucket minus the last one that has rows.
    """
    tops, bottoms = [], []
    for top, *bottom in buckets:
        tops.append(np.nan_to_num(top))
        bottoms.append(
            np.nan_to_num(bottom[0]) if bottom else (~np.isnan(top)).astype(float)
        )
    last = max(place for place, bottom in enumerate(bottoms) if bottom.any())
    values = [tops[place].sum() / bottoms[place].sum() for place in (0, last)]
    change = sum(
        sign * (tops[place] - value * bottoms[place]) / bottoms[place].sum()
        for sign, place, value in zip((1, -1), (0, last), values, strict=True)
    )
    units = int(((bottoms[0] != 0) | (bottoms[last] != 0)).sum())
    half = scipy.stats.t.ppf(0.975, units - 1) * math.sqrt(
        (change**2).sum() * units / (units - 1)
    )
    counted = ~np.isnan(buckets[0][0]) | ~np.isnan(buckets[last][0])
    if min((bottoms[place] != 0).sum() for place in (0, last)) < 10:
        return math.nan, math.nan, int(counted.sum())
    ends = values[0] - values[1] - half, values[0] - values[1] + half
    return max(-1.0, ends[0]), min(1.0, ends[1]), int(counted.sum())


def gap_by_zou_and_donner(
    report: Any, rows: dict[str, Any], stem: str
) -> tuple[float, float] | None:
    """Return the ends of a gap by Zou and Donner, if all rows of one of its buckets
    agree or few decide it; None otherwise.
    """
    keys = [
        f"{stem}/{name}"
        for name in BUCKETS.names
        if np.nansum(~np.isnan(rows[f"{stem}/{name}"][0]))
    ]
    keys = [key for key in keys if not math.isnan(report.intervals[key].value)]
    agree, few = [], []
    for key in (keys[0], keys[-1]):
        top, *bottom = rows[key]
        tops = top[~np.isnan(top)]
        bottoms = bottom[0][~np.isnan(top)] if bottom else np.ones(len(tops))
        few.append(
            any(
                limits_of_rare_values(shares, bottoms) is not None
                for shares in (tops, bottoms - tops)
            )
        )
        with np.errstate(invalid="ignore", divide="ignore"):
            values = top / bottom[0] if bottom else top
        agree.append(np.unique(values[~np.isnan(values)]).size == 1)
    if agree[0] == agree[1] and not any(few):
        return None
    first, last = (report.intervals[key] for key in (keys[0], keys[-1]))
    gap = first.value - last.value
    below = math.hypot(first.value - first.low, last.high - last.value)
    return gap - below, gap + math.hypot(
        first.high - first.value, last.value - last.low
    )


def adjusted_gap_by_zou_and_donner(report: Any, key: str) -> tuple[float, float]:
    """Return how far the interval of an adjusted gap reaches below and above, by Zou
    and Donner with ends divided by their span.
    """
    stem, ends = key.removesuffix("/adjusted_gap"), []
    for name in BUCKETS.names[:-1]:
        chance, attainable = (
            report.references[model][f"{stem}/{name}"]
            for model in ("chance", "attainable")
        )
        interval = report.intervals[f"{stem}/{name}"]
        if attainable > chance and not math.isnan(interval.value):
            low, high = interval.value - interval.low, interval.high - interval.value
            ends.append((low / (attainable - chance), high / (attainable - chance)))
    (first_low, first_high), (last_low, last_high) = ends[0], ends[-1]
    return math.hypot(first_low, last_high), math.hypot(first_high, last_low)


def adjusted_rows(rows: dict[str, Any], stem: str) -> list[list[NDArray[np.float64]]]:
    """Return recall beyond chance, min(k, size) / size, and attainable recall beyond
    chance, by bucket with rows.
    """
    k, mask = int(stem.partition("@")[2][0]), data()[1].numpy()
    sides_by_bucket = []
    # the last one holds labels that training never saw
    for number, name in enumerate(BUCKETS.names[:-1]):
        labels = BUCKETS.assignment.numpy() == number
        n, value = mask[:, labels].sum(axis=1), rows[f"{stem}/{name}"][0]
        chance, attainable = (
            min(k, labels.sum()) / labels.sum(),
            np.minimum(k, n) / np.maximum(n, 1),
        )
        sides_by_bucket.append(
            [value - chance, np.where(np.isnan(value), np.nan, attainable - chance)]
        )
    return [sides for sides in sides_by_bucket if np.nansum(sides[1]) > 1e-9]


def test_quick_intervals_equal_those_of_scipy() -> None:
    """Each key, bucket and row group has the interval of scipy on the values of all
    rows.

    Methods are Student's t, the delta method, Wilson, Clopper and Pearson, Fay and
    Feuer, and order statistics.
    """
    report = accumulated([list(range(ROWS))]).report("")
    rows = columns()
    kinds: set[str] = set()
    kinds_of_gaps: set[bool] = set()
    gaps = {
        key: interval
        for key, interval in report.intervals.items()
        if key.endswith("/gap")
    }
    # recall at two cut-offs and two micro precisions, of all rows and of each group
    assert len(gaps) == 3 * 4
    for key, interval in gaps.items():
        low, high, n = gap_by_rows(
            [rows[f"{key.removesuffix('/gap')}/{name}"] for name in BUCKETS.names]
        )
        assert (interval.value, interval.n) == (report.summaries[key], n)
        ends = (
            None
            if math.isnan(low)
            else gap_by_zou_and_donner(report, rows, key.removesuffix("/gap"))
        )
        kinds_of_gaps.add(ends is None)
        assert (interval.low, interval.high) == pytest.approx(
            ends or (low, high), rel=1e-9, nan_ok=True
        )
    assert kinds_of_gaps == {True, False}
    adjusted = {
        key: interval
        for key, interval in report.intervals.items()
        if key.endswith("/adjusted_gap")
    }
    assert len(adjusted) == 2 * 3
    for key, interval in adjusted.items():
        low, high, n = gap_by_rows(
            adjusted_rows(rows, key.removesuffix("/adjusted_gap"))
        )
        assert (interval.value, interval.n) == (report.summaries[key], n)
        if interval.method is Method.BOTH_ENDS:
            below, above = adjusted_gap_by_zou_and_donner(report, key)
            low, high = (
                np.fmin(low, interval.value - below),
                np.fmax(high, interval.value + above),
            )
        assert (interval.low, interval.high) == pytest.approx(
            (low, high), rel=1e-9, nan_ok=True
        )
    assert {interval.method for interval in adjusted.values()} >= {
        Method.BOTH_ENDS,
        Method.STUDENT,
    }
    gaps |= adjusted
    for key, interval in (
        entry for entry in report.intervals.items() if entry[0] not in gaps
    ):
        assert interval.value == report.scalars[key] or math.isnan(interval.value)
        assert interval.n == int((~np.isnan(rows[key][0])).sum()), key
        if interval.n < 10 or (
            len(rows[key]) == 2 and (np.nan_to_num(rows[key][1]) != 0).sum() < 10
        ):
            assert interval.method in (Method.NONE, Method.WILSON, Method.ALL_AGREE)
            continue
        kinds.add(interval.method)
        assert (interval.low, interval.high) == pytest.approx(
            scipy_interval(key, rows[key]), rel=1e-9, abs=1e-9
        ), key
    assert kinds == {
        "Student's t",
        "Wilson",
        "Clopper-Pearson, all agree",
        "order statistics",
        "Fay-Feuer",
    }
    assert set(report.intervals) == {*rows, *gaps}


@pytest.mark.parametrize("hit", [False, True])
@pytest.mark.parametrize(
    "arguments",
    [{}, {"intervals": 200}, {"clusters": list(range(200))}],
    ids=["quick", "drawn", "clusters"],
)
def test_rows_that_agree_prove_no_adjusted_gap(
    hit: bool, arguments: dict[str, Any]
) -> None:
    """The interval of an adjusted gap is not zero wide if all rows agree.

    With 100 rows per bucket that all hit, or all miss, the gap may be 1 -
    0.025^(1/100), and more beyond chance. Chance is 1 / 100 in half of the rows of the
    head, and 2 / 100 in the other half, which have two relevant labels.
    """
    rows = torch.arange(200)
    target = torch.stack(
        [
            torch.where(rows < 100, rows % 2, rows % 40 + 50),
            torch.where(rows < 50, 2, -1),
        ],
        dim=1,
    )
    scores = torch.rand(200, 100, generator=torch.Generator().manual_seed(0))
    scores[:, 99] = 2
    scores[rows, target[:, 0]] += 3 * hit
    metric = tm.HitRateAtK(
        1,
        scope="global",
        buckets=tm.LabelBuckets.from_assignment(rows[:100] // 50, ["head", "tail"]),
    )
    report = tm.evaluate(scores, target, metrics=[metric], **arguments)
    gap, adjusted_gap = (
        report.intervals[f"global_hit_rate@1/{name}"]
        for name in ("gap", "adjusted_gap")
    )
    bound, chances = 1 - 0.025 ** (1 / 100), (0.015, 0.01)
    assert [gap.low, gap.high] == pytest.approx([-bound, bound])
    value = 0 if hit else -chances[0] / (1 - chances[0]) + chances[1] / (1 - chances[1])
    assert [adjusted_gap.value, adjusted_gap.low, adjusted_gap.high] == pytest.approx(
        [value, value - bound / 0.985, value + bound / 0.985], abs=1e-12
    )


@pytest.mark.parametrize("num_tail", [6, 8, 9, 10])
@pytest.mark.parametrize(
    "options",
    [{}, {"intervals": 200}, {"clusters": True}],
    ids=["quick", "drawn", "clusters"],
)
def test_adjusted_gap_needs_ten_rows_at_each_end(
    num_tail: int, options: dict[str, Any]
) -> None:
    """An adjusted gap, as a gap, has no interval unless each of its two buckets has ten
    rows, or ten clusters.

    17 of 20 rows of the head and one row of the tail are hits.
    """
    target = torch.tensor([0] * 20 + [1] * num_tail)
    is_hit = torch.tensor([True] * 17 + [False] * 3 + [True] + [False] * (num_tail - 1))
    scores = (
        torch.rand(len(target), 4, generator=torch.Generator().manual_seed(0)) / 100
    )
    scores[torch.arange(len(target)), target] += 2 * is_hit.float() - 1
    if "clusters" in options:
        options = {"clusters": list(range(len(target)))}
    metric = tm.HitRateAtK(1, scope="global")
    arguments = {"label_counts": [50, 5, 5, 0], "buckets": "thresholds:1,10:head,tail"}
    report = tm.evaluate(scores, target, metrics=[metric], **arguments, **options)
    gap, adjusted_gap = (
        report.intervals[f"global_hit_rate@1/{name}"]
        for name in ("gap", "adjusted_gap")
    )
    if num_tail < 10:
        units = "clusters" if "clusters" in options else "rows"
        assert gap.reason == adjusted_gap.reason == f"fewer than 10 {units}"
        assert not gap.ends + adjusted_gap.ends
    else:
        assert gap.low < gap.value < gap.high
        assert adjusted_gap.low < adjusted_gap.value < adjusted_gap.high


@pytest.mark.slow
def test_quick_intervals_do_not_depend_on_batches_or_order() -> None:
    """Rows shuffled, in batches of one to sixty rows, or evaluated apart and merged
    from their states have the same intervals to the last bit.
    """
    whole = accumulated([list(range(ROWS))], all_kinds=True).report("").intervals
    assert {"macro_recall@4/gap", "macro_recall@1/de", "macro_auc", "gini@3"} <= {
        *whole
    }
    rows = torch.randperm(ROWS, generator=torch.Generator().manual_seed(1))
    parts = [part.tolist() for part in rows.split([1, 1, 30, 2, 7, 60, 49])]
    assert repr(accumulated(parts, all_kinds=True).report("").intervals) == repr(whole)
    first, second, third = (
        accumulated(batches, all_kinds=True) for batches in (parts[:1], parts[1:], [])
    )
    third.load_state_dict(second.state_dict())
    first.merge_state(third)
    assert repr(first.report("").intervals) == repr(whole)


def test_intervals_argument_selects_the_method() -> None:
    """Reports have quick intervals by default, resampled intervals if intervals is a
    number, and none if it is False.

    Keys have the prefix of a collection.
    """
    scores, mask, _ = data()
    selected_metrics = [tm.NDCGAtK(5)]
    assert (
        tm.evaluate(scores, mask, metrics=selected_metrics).intervals["ndcg@5"].method
        == "Student's t"
    )
    assert (
        "bootstrap"
        in tm.evaluate(scores, mask, metrics=selected_metrics, intervals=50)
        .intervals["ndcg@5"]
        .method
    )
    assert not tm.evaluate(
        scores, mask, metrics=selected_metrics, intervals=False
    ).intervals
    collection = tm.TopKCollection(selected_metrics, prefix="val/")
    assert list(tm.evaluate(scores, mask, metrics=collection).intervals) == [
        "val/ndcg@5"
    ]


def test_reports_without_scipy_have_no_intervals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without scipy, evaluate has values and no intervals."""
    monkeypatch.setattr(
        "tailmetrics.evaluation.interval_values.find_spec", lambda name: None
    )
    scores, mask, _ = data()
    report = tm.evaluate(scores, mask, metrics=[tm.NDCGAtK(5)])
    assert report.scalars["ndcg@5"] > 0
    assert not report.intervals


@pytest.mark.parametrize("relevant", [0, 1])
def test_intervals_of_rows_that_agree(relevant: int) -> None:
    """50 rows without a hit, or with nothing but hits, have the exact interval of the
    bootstrap.

    A metric that is not a share has none, with the reason "all rows agree".
    """
    scores, mask = (
        torch.eye(2)[torch.zeros(50, dtype=torch.long)],
        torch.eye(2)[torch.full((50,), 1 - relevant)] > 0,
    )
    intervals_by_key = tm.evaluate(
        scores, mask, metrics=[tm.RecallAtK(1), tm.DCGAtK(1)]
    ).intervals
    expected = intervals({"recall@1": np.full(50, float(relevant))})["recall@1"]
    assert (intervals_by_key["recall@1"].low, intervals_by_key["recall@1"].high) == (
        expected.low,
        expected.high,
    )
    assert intervals_by_key["dcg@1"].reason == "all rows agree"
    assert math.isnan(intervals_by_key["dcg@1"].low)


def test_interval_of_a_gap_of_rows_that_agree() -> None:
    """50 hits in the head and 20 misses in the tail have a gap of 1, whose lower end is
    that of 20 rows that agree.
    """
    target = (torch.arange(70) >= 50).long()
    recall = tm.RecallAtK(
        1,
        buckets=tm.LabelBuckets.from_assignment([0, 1], ["head", "tail"]),
        scope="global",
    )
    intervals_by_key = tm.evaluate(
        torch.tensor([[1.0, 0.0]]).expand(70, 2), target, metrics=[recall]
    ).intervals
    gap = intervals_by_key["global_recall@1/gap"]
    assert (gap.low, gap.high) == pytest.approx((1 - 2 * (1 - 0.025 ** (1 / 20)), 1))


@pytest.mark.parametrize("resamples", [None, 100])
def test_intervals_do_not_count_rows_left_out(resamples: int | None) -> None:
    """Rows that a mask or ``ignore_index`` leaves out do not count in n, and quick
    intervals are those of the other rows.
    """
    scores, target = (
        torch.rand(40, 6, generator=torch.Generator().manual_seed(0)),
        torch.arange(40) % 6,
    )
    is_kept = torch.arange(40) % 5 > 0
    metrics = [
        tm.PrecisionAtK(2, average="micro"),
        tm.PropensityScoredPrecisionAtK(2),
        tm.F1AtThreshold(0.5),
        tm.RecallAtK(2),
    ]
    counts = tm.LabelFrequency.from_counts([9, 8, 7, 3, 2, 1], num_rows=20)

    def intervals_of(
        *batch: Any, ignore_index: int | None = None, **arguments: Any
    ) -> Any:
        collection = tm.TopKCollection(metrics, ignore_index=ignore_index)
        return tm.evaluate(
            *batch,
            metrics=collection,
            label_counts=counts,
            intervals=resamples,
            **arguments,
        ).intervals

    expected = intervals_of(scores[is_kept], target[is_kept])
    assert {interval.n for key, interval in expected.items() if "/" not in key} == {32}
    for intervals_by_key in (
        intervals_of(scores, target, row_mask=is_kept),
        intervals_of(scores, torch.where(is_kept, target, -100), ignore_index=-100),
    ):
        assert {key: interval.n for key, interval in intervals_by_key.items()} == {
            key: interval.n for key, interval in expected.items()
        }
        if resamples is None:
            assert {
                key: str(interval) for key, interval in intervals_by_key.items()
            } == {key: str(interval) for key, interval in expected.items()}


def test_intervals_of_few_rows_and_of_no_rows() -> None:
    """Nine rows have no interval unless the values of rows are 0 or 1; no rows have no
    interval.
    """
    scores, mask, _ = data()
    intervals_by_key = tm.evaluate(
        scores[:9],
        mask[:9],
        metrics=[tm.NDCGAtK(5), tm.HitRateAtK(1), tm.KForRecall(0.5)],
    ).intervals
    assert [interval.reason for interval in intervals_by_key.values()] == [
        "fewer than 10 rows",
        None,
        "fewer than 10 rows",
    ]
    interval = tm.evaluate(scores[:0], mask[:0], metrics=[tm.NDCGAtK(5)]).intervals[
        "ndcg@5"
    ]
    assert (interval.n, interval.reason) == (0, "no finite value")


def test_quick_intervals_cover_the_true_value() -> None:
    """Quick intervals cover the true value about as often as docs/significance.md says:
    93 % to 97.5 % of 2,000 samples of 50 rows, of which three in five are 0.
    """
    rng, num_holding = np.random.default_rng(0), 0
    for _ in range(2000):
        rows = (rng.random(50) < 0.4) * rng.beta(2, 2, 50)
        interval = quick_interval(
            Moments.from_units([(1, rows, np.ones(50))]),
            float(rows.mean()),
            50,
            are_shares=True,
        )
        num_holding += interval.low <= 0.2 <= interval.high
    assert 0.93 <= num_holding / 2000 <= 0.975


def test_metrics_of_exposure_have_intervals_around_their_values() -> None:
    """Every metric of exposure has intervals, overall and by bucket, that hold the
    value of the metric.

    Gaps have intervals without the bounds of shares; labels without counts have none.
    """
    scores, mask, _ = data()
    training: dict[str, Any] = {"label_counts": COUNTS, "buckets": BUCKETS}
    kinds: list[Any] = [tm.CatalogCoverageAtK, tm.GiniAtK, tm.EntropyAtK]
    selected_metrics = [
        tm.PersonalizationAtK(2, num_labels=LABELS),
        *(kind([1, 3], buckets=BUCKETS) for kind in kinds),
        tm.PopularityAtK(3, **training),
    ]
    selected_metrics += [
        tm.PopularityLiftAtK(3, **training),
        tm.NoveltyAtK(3, num_train=500, **training),
    ]
    evaluation = Evaluation(tm.TopKCollection(selected_metrics), confidence=0.95)
    evaluation.update(scores, mask)
    report = evaluation.report("")
    averages = evaluation.interval_values.labels.averages()
    assert averages
    for key, rows in averages.items():
        assert rows.influence().value == pytest.approx(
            report.scalars[key], nan_ok=True
        ), key
        interval = report.intervals[key]
        assert (
            interval.low <= report.scalars[key] <= interval.high
            or interval.method is Method.NONE
        ), key
    assert {
        key for key in report.summaries if not key.endswith(("/spread", "adjusted_gap"))
    } <= set(report.intervals)
    assert report.intervals["entropy@3/gap"].low < -1  # no bound of shares
    unseen = tm.evaluate(
        scores, mask, metrics=[tm.PopularityLiftAtK(3, label_counts=[0] * LABELS)]
    )
    assert unseen.intervals["popularity_lift@3"].reason == "no finite value"
