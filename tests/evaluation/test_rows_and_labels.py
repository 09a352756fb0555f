"""Buckets of rows beside buckets of labels: values of plain loops, the difference of gaps, in every output."""

import json
import re

import numpy as np
import pandas as pd
import pytest
import torch

import tailmetrics as tm
from printed import in_full
from tailmetrics.report import latex, markdown, page
from tailmetrics.report.formatting import in_latex

L, N, K = 12, 400, 3
COUNTS = (200 / torch.arange(1, L + 1)).long()
LABELS = tm.LabelBuckets.quantiles(COUNTS, 3)


def data(rows: int = N, seed: int = 0, effect: float = 1.5) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Scores, one relevant label a row, and the activity of rows; inactive rows find rare labels less often."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(L, (rows,), generator=generator)
    activity = torch.randint(0, 9, (rows,), generator=generator)
    scores = torch.randn(rows, L, generator=generator)
    scores[torch.arange(rows), target] += 2.0 - effect * ((activity < 5) & (target > 3))
    return scores, target, activity


def by_hand(scores: torch.Tensor, target: torch.Tensor, activity: torch.Tensor) -> dict[str, dict[str, float]]:
    """Recall in the one list of a row, by bucket of rows and of labels."""
    rows = tm.LabelBuckets.quantiles(activity, 3, ties="together")
    lists = scores.argsort(dim=1, descending=True, stable=True)[:, :K].tolist()
    hits = [float(label in shown) for label, shown in zip(target.tolist(), lists, strict=True)]
    found: dict[str, dict[str, float]] = {}
    for row, (label, hit) in enumerate(zip(target.tolist(), hits, strict=True)):
        names = rows.names[rows.assignment[row]], LABELS.names[LABELS.assignment[label]]
        found.setdefault(names[0], {}).setdefault(names[1], []).append(hit)  # type: ignore[arg-type,attr-defined]
    return {name: {bucket: float(np.mean(values)) for bucket, values in of.items()} for name, of in found.items()}


def _bucket_of(activity: torch.Tensor) -> torch.Tensor:
    return tm.LabelBuckets.quantiles(activity, 3, ties="together").assignment


METRIC = tm.RecallAtK(K, buckets=LABELS, scope="global")
KEY = f"global_recall@{K}"


def test_values_are_those_of_plain_loops() -> None:
    """For each bucket of rows and of labels; rows without activity come last; the number of rows of each bucket."""
    scores, target, activity = data()
    report = tm.evaluate(scores, target, metrics=[METRIC], activity=activity)
    expected = by_hand(scores, target, activity)
    assert list(report.two_way[KEY]) == ["quantile_3", "quantile_2", "quantile_1", "unseen"]
    for rows, of_rows in expected.items():
        found = report.two_way[KEY][rows]
        assert {name: value for name, value in found.items() if name != "unseen"} == pytest.approx(of_rows)
        for bucket, value in of_rows.items():
            interval = report.intervals[report.key(KEY, bucket, f"rows_{rows}")]
            assert interval.value == pytest.approx(value)
            assert interval.low <= value <= interval.high
    numbers = torch.bincount(tm.LabelBuckets.quantiles(activity, 3, ties="together").assignment).tolist()
    assert [(one.name, one.rows) for one in report.row_groups] == list(
        zip(["rows_quantile_3", "rows_quantile_2", "rows_quantile_1", "rows_unseen"], numbers, strict=True)
    )


def test_activity_is_counted_in_the_training_targets_of_a_query() -> None:
    """As from the counts themselves, by query: tables, dicts, and a query of which training has no label."""
    rng = np.random.default_rng(0)
    users = [f"u{number}" for number in range(60)]
    counts = {user: int(rng.integers(0, 6)) for user in users}
    train = pd.DataFrame(
        [(user, f"i{rng.integers(8)}") for user in users for _ in range(counts[user])], columns=["query", "item"]
    )
    train = train.drop_duplicates()
    counts = {user: int((train["query"] == user).sum()) for user in users}
    preds = pd.DataFrame(
        [(user, f"i{item}", float(rng.random())) for user in users for item in range(8)],
        columns=["query", "item", "score"],
    )
    target = pd.DataFrame([(user, f"i{rng.integers(8)}") for user in users], columns=["query", "item"])
    known = {"train_target": train, "metrics": [tm.RecallAtK(2, buckets="quantiles:2", scope="global")]}
    found = tm.evaluate(preds, target, activity="train", row_buckets="thresholds:1,3", **known)
    given = tm.evaluate(
        preds, target, activity={user: n for user, n in counts.items() if n}, row_buckets="thresholds:1,3", **known
    )
    assert list(found.two_way["global_recall@2"]) == ["3+", "1-2", "unseen"]
    assert found.as_dict() == given.as_dict()
    shuffled = {
        user: [item for query, item in zip(train["query"], train["item"], strict=True) if query == user]
        for user in users
    }
    as_dict = tm.evaluate(
        preds,
        target,
        activity="train",
        row_buckets="thresholds:1,3",
        **{**known, "train_target": {user: dict.fromkeys(items, 1) for user, items in shuffled.items() if items}},
    )
    assert as_dict.two_way["global_recall@2"]["3+"] == pytest.approx(
        found.two_way["global_recall@2"]["3+"], nan_ok=True
    )


def test_what_cannot_be_told_is_refused() -> None:
    """Groups beside activity, training targets without queries, fractions, an unknown word."""
    scores, target, activity = data()
    with pytest.raises(ValueError, match="both row_groups= and activity= are given; pass one of them"):
        tm.evaluate(scores, target, metrics=[METRIC], activity=activity, row_groups=["a"] * N)
    with pytest.raises(ValueError, match="no query is named there; pass the counts of the rows"):
        tm.evaluate(scores, target, metrics=[METRIC], activity="train", train_target=target)
    with pytest.raises(TypeError, match="evaluate: activity is float32.*pass a whole number for each row"):
        tm.evaluate(scores, target, metrics=[METRIC], activity=activity + 0.5)
    with pytest.raises(ValueError, match="row_buckets='quantiles:2' needs activity="):
        tm.evaluate(scores, target, metrics=[METRIC], row_buckets="quantiles:2")
    with pytest.raises(ValueError, match="row_groups is int64"):
        tm.evaluate(scores, target, metrics=[METRIC], activity=activity[:-1])
    with pytest.raises(ValueError, match="activity='training' is not known; choose one of 'train'"):
        tm.evaluate(scores, target, metrics=[METRIC], activity="training")


def test_the_order_of_rows_changes_no_bucket() -> None:
    """Rows of equal activity are in one bucket: sorted by their hits, they would show an effect of nothing."""
    scores, target, activity = data()
    whole = tm.evaluate(scores, target, metrics=[METRIC], activity=activity)
    order = (scores.argmax(1) == target).long().argsort(stable=True)
    other = tm.evaluate(scores[order], target[order], metrics=[METRIC], activity=activity[order].tolist())
    assert str(other.two_way) == str(whole.two_way)  # with NaN
    alike = tm.evaluate(scores[order], target[order], metrics=[METRIC], activity=np.ones(N))  # pandas counts in floats
    assert [(one.name, one.rows) for one in alike.row_groups] == [("rows_quantile_3", N)]


@pytest.mark.parametrize("kind", ["deciles", "quantiles:3:labels", "quantiles:3:mass:split", "thresholds:1,4"])
def test_rows_that_are_left_out_make_no_buckets(kind: str) -> None:
    """Twenty masked rows of a huge activity: every value is that of an evaluation without them."""
    scores, target, activity = data()
    mask = torch.arange(N) >= 20
    with_them = torch.where(mask, activity, 1000)
    more = {"metrics": [METRIC], "row_buckets": kind}
    found = tm.evaluate(scores, target, activity=with_them, row_mask=mask, **more)
    alone = tm.evaluate(scores[mask], target[mask], activity=activity[mask], **more)
    assert str(found.two_way) == str(alone.two_way)
    assert found.row_groups == alone.row_groups


def test_a_gap_is_larger_where_the_tail_loses_more_also_if_lower_is_better() -> None:
    """Ranks of rare labels are worse in inactive rows: their gap is larger, and a sentence says how a gap is taken."""
    scores, target, activity = data(4000)
    metrics = [tm.CrossEntropy(buckets=LABELS), METRIC]
    text = " ".join(markdown(tm.evaluate(scores, target, metrics=metrics, activity=activity)).split())
    rows = "the most active rows (quantile_3) than in the least active (quantile_1)"
    assert f"The gap of labels is smaller in {rows} (difference -" in text
    assert f"The gap of labels, tail minus head since lower is better, is smaller in {rows} (difference -" in text
    assert "Lower is better. " in text


def test_the_gap_of_labels_of_active_rows_is_held_against_that_of_others() -> None:
    """It is larger in inactive rows, which find rare labels less often; its ends are those of both gaps, squared and added."""
    report = tm.evaluate(*data(4000)[:2], metrics=[METRIC], activity=data(4000)[2])
    found = report.gap_differences[KEY]
    first, last = (report.intervals[f"{KEY}/rows_quantile_{number}/gap"] for number in (3, 1))
    assert found.value == pytest.approx(first.value - last.value)
    assert found.high < 0
    half = np.hypot(first.high - first.value, last.high - last.value)
    assert (found.low, found.high) == pytest.approx((found.value - half, found.value + half))
    most, least = "the most active rows (quantile_3)", "the least active (quantile_1)"
    assert f"The gap of labels is smaller in {most} than in {least} (difference " in " ".join(in_full(report).split())
    equal = tm.evaluate(*data(4000, effect=0)[:2], metrics=[METRIC], activity=data(4000)[2])
    said = f"No difference of the gap of labels is shown between {most} and {least} (difference "
    assert said in markdown(equal)
    groups = tm.evaluate(*data()[:2], metrics=[METRIC], row_groups=["de", "en"] * (N // 2))
    assert (list(groups.two_way[KEY]), groups.gap_differences) == (["de", "en"], {})


@pytest.mark.parametrize("renderer", [in_full, markdown, latex, page])
def test_every_output_has_both_ways(renderer) -> None:
    """Each value, with its interval where there is room; the picture has the same cells, tinted."""
    scores, target, activity = data()
    report = tm.evaluate(scores, target, metrics=[METRIC], activity=activity)
    text = renderer(report)
    if renderer is page:  # which sets the interval below the value
        text = " ".join(re.sub("<[^>]*>", " ", text).split())
    for rows, of_rows in report.two_way[KEY].items():
        assert (in_latex(rows) if renderer is latex else rows) in text
        for bucket, value in of_rows.items():
            if bucket != "unseen":
                assert f"{value:.4f}" in text
                if renderer is not in_full:
                    shown = report.text(report.key(KEY, bucket, f"rows_{rows}"))
                    assert (
                        shown in text
                        or in_latex(shown) in text
                        or shown.replace("[", "\\[").replace("]", "\\]") in text
                    )
    (chart,) = [one for one in report.document().charts if "by group of rows" in one.title]
    tinted = [mark for mark in chart.marks if mark.kind == "bar"]
    assert (
        len(tinted)
        == sum(value == value for of in (report.by_bucket[KEY], *report.two_way[KEY].values()) for value in of.values())
        + 5
    )
    (cell,) = [mark.text for mark in tinted if mark.text.startswith("quantile_3, quantile_1: ")]
    rows = int(((activity > 0) & (LABELS.assignment[target] == 2))[_bucket_of(activity) == 0].sum())
    assert cell.endswith(f", of {rows} rows with a relevant label")
    written = json.loads(json.dumps(report.as_dict()))
    assert written["two_way"][KEY]["quantile_3"]["quantile_1"] == report.two_way[KEY]["quantile_3"]["quantile_1"]
    assert written["gap_differences"][KEY]["low"] == report.gap_differences[KEY].low
    lines = [dict(zip(report.records()[""][0], line, strict=True)) for line in report.records()[""][1]]
    (line,) = [
        one for one in lines if (one["metric"], one["group"], one["bucket"]) == (KEY, "rows_quantile_3", "quantile_1")
    ]
    assert line["value"] == report.two_way[KEY]["quantile_3"]["quantile_1"]
