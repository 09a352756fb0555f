"""Intervals of averages over labels: of the values of the metrics, and the same in any
batches, shares and orders.
"""

import math
import re
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch

import tailmetrics as tm
from printed import in_full
from tailmetrics.evaluation import Evaluation, compare_runs
from tailmetrics.evaluation.row_labels import RowLabels, metrics_of_labels
from tailmetrics.evaluation.row_values import RowColumns

N, L = 120, 12
COUNTS = (100 / torch.arange(1, L + 1)).long()
BUCKETS = tm.LabelBuckets.quantiles(COUNTS, 3)
GROUPS = ["de", "en"]


def data(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    target = torch.rand(
        N, L, generator=torch.Generator().manual_seed(9)
    ) < torch.linspace(0.5, 0.05, L)
    return (
        torch.randn(N, L, generator=generator) + 1.5 * target,
        target,
        torch.arange(N) % 3 - 1,
    )


def metrics() -> list[Any]:
    return [
        tm.PrecisionAtK([1, 3], average="macro", labels="union", num_labels=L),
        tm.RecallAtK(3, average="macro", buckets=BUCKETS),
        tm.RecallAtK(3, average="weighted", buckets=BUCKETS, scope="global"),
        tm.F1AtK(3, average="macro", num_labels=L, labels="all"),
        tm.F1AtK(3, average="macro", macro="of_averages", buckets=BUCKETS),
        tm.F1AtThreshold(0.5, average="macro", buckets=BUCKETS),
        tm.PositiveCoverageAtK(1, buckets=BUCKETS),
        tm.PositiveCoverageAtK(1, num_labels=L, denominator="known", name="known"),
        tm.LabelAUC(buckets=BUCKETS),
        tm.LabelAUC(average="micro", num_labels=L),
        tm.LabelAP(average="weighted", num_labels=L),
    ]


def accumulated(parts: list[list[int]]) -> Evaluation:
    scores, target, groups = data()
    evaluation = Evaluation(metrics(), row_groups=GROUPS, confidence=0.95)
    for part in parts:
        evaluation.update(scores[part], target[part], row_groups=groups[part])
    return evaluation


def test_row_labels_reproduce_the_value_of_every_metric() -> None:
    """The rows that intervals are made of give the value of the metric, for each
    metric, bucket, row group, cut-off and threshold.
    """
    evaluation = accumulated([list(range(50)), list(range(50, N))])
    scalars = {key: float(value) for key, value in evaluation.scalars().items()}
    scores, target, groups = data()
    ranking = evaluation.collection.rank(scores, target, row_groups=groups)
    checked = 0
    rows = RowLabels(evaluation.collection, metrics_of_labels(evaluation.collection))
    rows.update(ranking)
    for key, average in rows.averages().items():
        value = average.influence().value  # of no label the metric has 0
        assert value == pytest.approx(scalars[key]) or (
            math.isnan(value) and (scalars[key] == 0 or math.isnan(scalars[key]))
        ), key
        checked += 1
    assert checked == len(scalars)


def test_quick_and_resampled_intervals_over_labels_agree() -> None:
    """Reports have quick intervals and resampled intervals for the same keys, and their
    widths agree within a quarter.

    A value lies within its interval.
    """
    scores, target, _ = data()
    selected_metrics = [
        tm.RecallAtK(3, average="macro", buckets=BUCKETS),
        tm.LabelAUC(num_labels=L),
    ]
    quick, resampled = (
        tm.evaluate(
            scores, target, metrics=selected_metrics, intervals=interval
        ).intervals
        for interval in (None, 2000)
    )
    assert {*quick} == {*resampled}
    for key, interval in quick.items():
        assert (
            interval.low < interval.value < interval.high
            or interval.value in (0, 1)
            or not interval.n
        )
        width = resampled[key].high - resampled[key].low
        assert (interval.high - interval.low) == pytest.approx(
            width, rel=0.25, nan_ok=True
        ), key


def test_averages_over_labels_of_models_are_compared() -> None:
    """compare_runs compares macro recall and areas of two models, with the change of
    the gap; the verdict starts with macro recall by bucket. Values are those of
    evaluate.
    """
    scores, target, _ = data()
    worse = torch.randn(N, L, generator=torch.Generator().manual_seed(3))
    selected_metrics = [
        tm.RecallAtK(3, average="macro", buckets=BUCKETS),
        tm.LabelAUC(num_labels=L),
    ]
    report = compare_runs(
        {"worse": worse, "better": scores},
        target,
        metrics=selected_metrics,
        resamples=999,
    )
    comparisons = {comparison.key: comparison for comparison in report.comparisons}
    assert comparisons["macro_auc"].significant
    assert comparisons["macro_auc"].difference > 0
    assert comparisons["macro_recall@3/gap"].statistic == "gap"
    assert report.verdict is not None
    assert report.verdict.startswith(
        "better against worse: macro_recall@3: better over all labels ("
    )
    scalars = tm.evaluate(
        scores, target, metrics=selected_metrics, intervals=False
    ).scalars
    assert comparisons["macro_auc"].value == pytest.approx(scalars["macro_auc"])


def test_intervals_over_labels_leave_out_masked_rows_and_too_many_labels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Masked rows do not count in an interval.

    With more labels per row than are kept there is no quick interval, and resampled
    intervals are refused.
    """
    scores, target, _ = data()
    keep = torch.arange(N) < 60
    selected_metrics = [tm.RecallAtK(3, average="macro", num_labels=L)]
    masked = tm.evaluate(
        scores, target, metrics=selected_metrics, row_mask=keep
    ).intervals["macro_recall@3"]
    cut = tm.evaluate(scores[:60], target[:60], metrics=selected_metrics).intervals[
        "macro_recall@3"
    ]
    assert (masked.low, masked.high, masked.n) == (
        pytest.approx(cut.low),
        pytest.approx(cut.high),
        60,
    )
    for module in ("row_values", "row_labels"):
        monkeypatch.setattr(f"tailmetrics.evaluation.{module}.MOST", 20)
    assert (
        "macro_recall@3"
        not in tm.evaluate(scores, target, metrics=selected_metrics).intervals
    )
    with pytest.raises(
        ValueError,
        match="macro_recall@3: rows have more than 20 predicted or relevant labels",
    ):
        tm.evaluate(scores, target, metrics=selected_metrics, intervals=100)


def test_precision_over_all_labels_has_intervals_from_rows_that_predict() -> None:
    """Precision over all labels that no row hits is 0 with an interval: 30 rows predict
    them, and agree.

    With hits in 4 of 30 rows, on 2 of 4 labels, it has an interval, too; on 1 of 4,
    this is too few labels with a hit.
    """
    rows = torch.arange(30)
    lists = torch.stack([rows % 4, (rows + 1) % 4], dim=1)
    metric = tm.PrecisionAtK(k=2, average="macro", labels="all", num_labels=8)
    for relevant, reason in (
        (torch.full((30,), 7), None),
        (torch.where(rows < 4, rows % 2, 7), None),
        (
            torch.where((rows < 16) & (rows % 4 == 0), 0, 7),
            "fewer than 10 labels have a hit",
        ),
    ):
        buckets = tm.LabelBuckets.from_assignment(
            [0, 0, 0, 0, 1, 1, 1, 1], ["listed", "others"]
        )
        report = tm.evaluate(
            lists, relevant[:, None], metrics=[metric], buckets=buckets
        )
        interval = report.intervals["global_macro_precision_all@2/listed"]
        assert (interval.reason, interval.n) == (reason, 30)
        assert bool(interval.ends) == (reason is None)


@pytest.mark.parametrize("masked_part", [0, 1])
def test_some_batches_may_have_a_row_mask(masked_part: int) -> None:
    """If only some batches have a row mask, intervals and values at half of the rows
    have the bits of the rows that count.
    """
    scores, target, _ = data()
    evaluation = Evaluation([*metrics(), tm.RecallAtK(3)], confidence=0.95)
    parts: list[tuple[slice, Any]] = [
        (slice(0, 50), None),
        (slice(50, N), torch.arange(50, N) < N - 10),
    ]
    for part, mask in (parts[masked_part], parts[1 - masked_part]):
        evaluation.update(scores[part], target[part], mask)
    alone = Evaluation([*metrics(), tm.RecallAtK(3)], confidence=0.95)
    alone.update(scores[: N - 10], target[: N - 10])
    report, expected = evaluation.report(""), alone.report("")
    assert repr(dict(report.intervals)) == repr(dict(expected.intervals))
    (note,) = [note for note in report.notes if "at half of them" in note]
    assert note in expected.notes


def test_areas_of_too_many_rows_have_no_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A table of rows leaves out areas if rows times labels exceed the largest number
    of codes, because an area codes each label of each row.
    """
    collection = tm.TopKCollection(
        [tm.LabelAUC(num_labels=L), tm.RecallAtK(3, average="macro", num_labels=L)]
    )
    assert len(RowColumns(collection, num_rows=N).metrics) == 2
    monkeypatch.setattr("tailmetrics.evaluation.row_values.MOST", N * L - 1)
    (metric,) = RowColumns(collection, num_rows=N).metrics
    assert type(metric) is tm.RecallAtK


def test_interval_of_an_area_has_the_error_of_delong() -> None:
    """The interval of the area of one label has the standard error of DeLong, in plain
    loops over pairs.
    """
    rng = np.random.default_rng(0)
    score, relevant = np.round(rng.normal(size=200) * 4) / 4, rng.random(200) < 0.3
    score[relevant] += 0.75
    evaluation = Evaluation([tm.LabelAUC(num_labels=1)], confidence=0.95)
    evaluation.update(torch.tensor(score[:, None]), torch.tensor(relevant[:, None]))
    interval = evaluation.report("").intervals["macro_auc"]
    positive, negative = score[relevant], score[~relevant]
    kernel = (positive[:, None] > negative) + 0.5 * (positive[:, None] == negative)
    variance = (
        kernel.mean(axis=1).var(ddof=1) / positive.size
        + kernel.mean(axis=0).var(ddof=1) / negative.size
    )
    assert interval.value == pytest.approx(kernel.mean())
    assert (interval.high - interval.low) / 2 == pytest.approx(
        scipy.stats.t.ppf(0.975, positive.size - 1) * math.sqrt(variance), rel=0.01
    )


def skewed(
    rows: int, seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor, tm.LabelBuckets]:
    """Return scores, targets and thirds of 120 labels, of which the rare ones have few
    rows.
    """
    generator = torch.Generator().manual_seed(seed)
    popularity = (torch.arange(120) + 10.0) ** -1.4
    labels = torch.multinomial(
        popularity, 3 * rows, replacement=True, generator=generator
    ).view(rows, 3)
    target = torch.zeros(rows, 120, dtype=torch.bool).scatter(1, labels, True)
    buckets = tm.LabelBuckets.quantiles((popularity * 1e5).long(), 3, by="labels")
    return torch.randn(rows, 120, generator=generator) + 1.6 * target, target, buckets


def test_the_value_at_half_of_the_rows_is_the_same_in_any_batches_and_orders() -> None:
    """The value at half of the rows of each average over labels is the same to the last
    bit in any batches and orders, and the same with clusters of single rows. Row groups
    have no such value, and neither has a report without intervals.
    """
    keys = {
        key
        for key in accumulated([list(range(N))]).scalars()
        if "/de" not in key and "/en" not in key
    }
    first = accumulated([list(range(N))]).report("").at_half_the_rows
    assert {*first} == {key for key in keys if "unseen" not in key}
    order = np.random.default_rng(0).permutation(N).tolist()
    other = (
        accumulated([order[:7], order[7:80], order[80:]]).report("").at_half_the_rows
    )
    assert {key: repr(value) for key, value in first.items()} == {
        key: repr(value) for key, value in other.items()
    }
    scores, target, _ = data()
    selected_metrics = [
        tm.RecallAtK(3, average="macro", buckets=BUCKETS),
        tm.LabelAUC(num_labels=L),
    ]
    plain, clustered = (
        tm.evaluate(scores, target, metrics=selected_metrics, clusters=clusters)
        for clusters in (None, torch.arange(N))
    )
    assert plain.at_half_the_rows == pytest.approx(
        clustered.at_half_the_rows, nan_ok=True
    )
    assert not tm.evaluate(
        scores, target, metrics=selected_metrics, intervals=False
    ).at_half_the_rows


def test_a_report_says_which_averages_depend_on_the_number_of_rows() -> None:
    """A note and the tables name the averages over labels that depend on the number of
    rows, with the value at half of the rows. Weighted precision of rare labels depends
    on it, in no certain direction; recall does not, and is not named.
    """
    scores, target, buckets = skewed(300)
    selected_metrics = [
        tm.PrecisionAtK(3, average="weighted", buckets=buckets, scope="global"),
        tm.RecallAtK(3, average="macro", buckets=buckets),
    ]
    report = tm.evaluate(scores, target, metrics=selected_metrics)
    key = "global_weighted_precision@3/quantile_1"
    value, half = report.scalars[key], report.at_half_the_rows[key]
    assert half > value
    (text,) = [note for note in report.notes if "depend on the number of rows" in note]
    assert f"{key} ({half:.4f} at half of them, {value:.4f})" in text
    assert "recall" not in text
    assert report.by_key[key].at_half_the_rows == half
    header, lines = report.csv_tables()[""]
    (line,) = [cells for cells in map(list, lines) if cells[0] == key]
    assert line[header.index("at_half_the_rows")] == half
    assert "of an average over labels, for its value at this number of rows" in in_full(
        report
    ).replace("\n", " ").replace("  ", " ")


def test_notes_on_coverage_and_on_labels_with_one_row() -> None:
    """A note says that coverage depends on the number of rows, and that it rises if its
    denominator is fixed.

    An average most of whose labels have one row is named for that, without an estimate.
    """
    scores, target, buckets = skewed(60)
    thirds = {"buckets": buckets, "scope": "global"}
    coverages = [
        # of the labels that have rows, which are more with more rows
        tm.PositiveCoverageAtK(3, num_labels=120),
        tm.PositiveCoverageAtK(3, num_labels=120, denominator="known", name="known"),
    ]
    coverage = tm.evaluate(scores, target, metrics=coverages)
    (text,) = [
        note for note in coverage.notes if "depend on the number of rows" in note
    ]
    for key, trend in (("positive_coverage@3", ""), ("known", "rises with more rows ")):
        half, value = coverage.at_half_the_rows[key], coverage.scalars[key]
        assert f"{key} {trend}({half:.4f} at half of them, {value:.4f})" in text
    report = tm.evaluate(
        scores, target, metrics=[tm.PrecisionAtK(3, average="weighted", **thirds)]
    )
    (text,) = [note for note in report.notes if "depend on the number of rows" in note]
    assert re.search(
        r"global_weighted_precision@3/quantile_1 \(\S+\) has one row for most of its labels",
        text,
    )
