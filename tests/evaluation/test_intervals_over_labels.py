"""Intervals of averages over labels: of the value that the metric has, the same in any batches, shares and orders."""

import math
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch

import tailmetrics as tm
from tailmetrics.evaluation import Evaluation, compare_runs
from tailmetrics.evaluation.row_values import RowValues

N, L = 120, 12
COUNTS = (100 / torch.arange(1, L + 1)).long()
BUCKETS = tm.LabelBuckets.quantiles(COUNTS, 3)
GROUPS = ["de", "en"]


def data(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    target = torch.rand(N, L, generator=torch.Generator().manual_seed(9)) < torch.linspace(0.5, 0.05, L)
    return torch.randn(N, L, generator=generator) + 1.5 * target, target, torch.arange(N) % 3 - 1


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
    found = Evaluation(metrics(), row_groups=GROUPS, intervals=0.95)
    for part in parts:
        found.update(scores[part], target[part], row_groups=groups[part])
    return found


def test_what_rows_add_makes_the_value_of_the_metric() -> None:
    """For each metric, bucket and group of rows: precision to areas, cut-offs and thresholds."""
    evaluation = accumulated([list(range(50)), list(range(50, N))])
    scalars = {key: float(value) for key, value in evaluation.scalars().items()}
    scores, target, groups = data()
    ranking = evaluation.collection.rank(scores, target, row_groups=groups)
    checked = 0
    rows = RowValues(evaluation.collection, labels_alone=True)
    rows.add(ranking)
    for key, one in rows.columns().items():
        value = one.influence().value  # of no label the metric has 0
        assert value == pytest.approx(scalars[key]) or (
            math.isnan(value) and (scalars[key] == 0 or math.isnan(scalars[key]))
        ), key
        checked += 1
    assert checked == len(scalars)


def test_reports_have_them_and_resampled_ones_agree() -> None:
    """Every scalar has an interval; resampled ends lie within a fifth of the quick ones."""
    scores, target, _ = data()
    chosen = [tm.RecallAtK(3, average="macro", buckets=BUCKETS), tm.LabelAUC(num_labels=L)]
    quick, resampled = (tm.evaluate(scores, target, metrics=chosen, intervals=one).intervals for one in (None, 2000))
    assert {*quick} == {*resampled}
    for key, one in quick.items():
        assert one.low < one.value < one.high or one.value in (0, 1) or not one.n
        width = resampled[key].high - resampled[key].low
        assert (one.high - one.low) == pytest.approx(width, rel=0.25, nan_ok=True), key


def test_models_are_compared_by_them() -> None:
    """Macro recall and area of two models, with the change of the gap, and a verdict by bucket that stands first."""
    scores, target, _ = data()
    worse = torch.randn(N, L, generator=torch.Generator().manual_seed(3))
    chosen = [tm.RecallAtK(3, average="macro", buckets=BUCKETS), tm.LabelAUC(num_labels=L)]
    report = compare_runs({"worse": worse, "better": scores}, target, metrics=chosen, resamples=999)
    found = {one.key: one for one in report.comparisons}
    assert found["macro_auc"].significant
    assert found["macro_auc"].difference > 0
    assert found["macro_recall@3/gap"].statistic == "gap"
    assert report.verdict is not None
    assert report.verdict.startswith("better against worse: macro_recall@3 is better in ")
    alone = tm.evaluate(scores, target, metrics=chosen, intervals=False).scalars
    assert found["macro_auc"].value == pytest.approx(alone["macro_auc"])


def test_masked_rows_and_more_than_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that a mask drops add nothing; with more labels than are kept there is no interval, and nothing wrong."""
    scores, target, _ = data()
    keep = torch.arange(N) < 60
    chosen = [tm.RecallAtK(3, average="macro", num_labels=L)]
    masked = tm.evaluate(scores, target, metrics=chosen, row_mask=keep).intervals["macro_recall@3"]
    cut = tm.evaluate(scores[:60], target[:60], metrics=chosen).intervals["macro_recall@3"]
    assert (masked.low, masked.high, masked.n) == (pytest.approx(cut.low), pytest.approx(cut.high), 60)
    monkeypatch.setattr("tailmetrics.evaluation.row_values.MOST", 20)
    assert "macro_recall@3" not in tm.evaluate(scores, target, metrics=chosen).intervals
    with pytest.raises(ValueError, match="macro_recall@3: rows have more than 20 predicted or relevant labels"):
        tm.evaluate(scores, target, metrics=chosen, intervals=100)


def test_an_area_of_many_rows_has_the_error_of_delong() -> None:
    """One label, against the formula of DeLong in plain loops over pairs."""
    rng = np.random.default_rng(0)
    score, relevant = np.round(rng.normal(size=200) * 4) / 4, rng.random(200) < 0.3
    score[relevant] += 0.75
    evaluation = Evaluation([tm.LabelAUC(num_labels=1)], intervals=0.95)
    evaluation.update(torch.tensor(score[:, None]), torch.tensor(relevant[:, None]))
    found = evaluation.report("").intervals["macro_auc"]
    own, other = score[relevant], score[~relevant]
    kernel = (own[:, None] > other) + 0.5 * (own[:, None] == other)
    variance = kernel.mean(axis=1).var(ddof=1) / own.size + kernel.mean(axis=0).var(ddof=1) / other.size
    assert found.value == pytest.approx(kernel.mean())
    assert (found.high - found.low) / 2 == pytest.approx(
        scipy.stats.t.ppf(0.975, own.size - 1) * math.sqrt(variance), rel=0.01
    )
