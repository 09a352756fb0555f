"""A record of a report states what its value is divided by: a number, and of what."""

import math

import pytest
import torch

import tailmetrics as tm

PREDS = (
    torch.tensor(
        [[4, 3, 2, 1, 0], [0, 4, 1, 3, 2], [1, 0, 2, 3, 4], [3, 1, 0, 2, 4]]
    ).float()
    / 4
)
TARGET = torch.tensor(
    [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 1, 0, 1]]
).bool()
# by hand: the two best labels are 0, 1 · 1, 3 · 3, 2 · 0, 1 (labels from 0); hits are 0
# · 1 · none · none
BUCKETS = tm.LabelBuckets.from_assignment([0, 0, 1, 1, 1], ["head", "tail"])


def values(*metrics, **options):
    """Return the values of a report of four rows and five labels by key."""
    return tm.evaluate(
        PREDS, TARGET, metrics=list(metrics), intervals=False, **options
    ).by_key


@pytest.mark.parametrize(
    ("metric", "count", "unit"),
    [
        (tm.RecallAtK(k=2), 4, "rows"),
        (
            tm.RecallAtK(k=2, empty_target_action="skip"),
            3,
            "rows with a relevant label",
        ),
        (tm.PrecisionAtK(k=2, average="micro"), 8, "predictions"),
        (tm.RecallAtK(k=2, average="micro"), 5, "relevant labels"),
        (tm.NormalizedRecallAtK(k=1, average="micro"), 3, "attainable hits"),
        (tm.F1AtK(k=2, average="micro"), 13, "predictions and relevant labels"),
        (tm.RecallAtK(k=2, average="macro"), 4, "labels with rows"),
        (
            tm.PrecisionAtK(k=2, average="macro", labels="union"),
            5,
            "labels with rows or predictions",
        ),
        (tm.PrecisionAtK(k=2, average="macro", labels="all"), 5, "labels"),
        (tm.RecallAtK(k=2, average="weighted"), 5, "relevant labels"),
        (tm.KForRecall(0.5), 3, "rows with a relevant label"),
        (tm.LabelAUC(), 4, "labels with an area"),
        (tm.LabelAP(average="micro"), None, ""),
        (tm.CatalogCoverageAtK(k=2), 5, "labels"),
        (tm.PositiveCoverageAtK(k=2), 4, "labels with rows"),
        (tm.CalibrationErrorAtK(k=2), 8, "predictions"),
    ],
    ids=lambda argument: (
        type(argument).__name__
        if isinstance(argument, tm.TopKMetric)
        else str(argument)
    ),
)
def test_record_states_the_denominator_of_its_value(metric, count, unit):
    """A record states the denominator of its value and what it counts.

    The four rows have 1, 2, 0 and 2 relevant labels of five; three labels are relevant
    once, one twice.
    """
    (record,) = values(metric).values()
    assert (record.count, record.count_of, record.interval) == (count, unit, None)


def test_metrics_of_gains_count_the_rows_with_any_gain_beside_min_gain():
    """With min_gain, metrics of gains count the rows with any gain, and other metrics
    those with a gain of at least min_gain. Of three rows, with gains 5, 2 and none,
    these are two and one; captions say the same.
    """
    target = torch.tensor([[5.0, 0, 0, 0, 0], [0, 2, 0, 0, 0], [0, 0, 0, 0, 0]])
    metrics = [
        tm.RecallAtK(2, min_gain=4, buckets=BUCKETS, scope="global"),
        tm.NDCGAtK(2, min_gain=4, buckets=BUCKETS, scope="global"),
    ]
    report = tm.evaluate(PREDS[:3], target, metrics=metrics, intervals=False)
    by_key = {record.key: (record.count, record.count_of) for record in report.records}
    assert by_key["global_recall_min4@2/head"] == (1, "rows with a relevant label")
    assert by_key["global_ndcg@2/head"] == (2, "rows with any gain")
    captions = {facts.metric: facts.caption for facts in report.metrics}
    assert captions["global_recall_min4@2"].endswith(
        "; rows with a relevant label there"
    )
    assert captions["global_ndcg@2"].endswith("; rows with any gain there")


NOTHING_RELEVANT = torch.tensor(
    [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0], [0, 1, 0, 0, 0]]
).bool()
"""No label of the tail is relevant; its labels 2 and 3 are predicted."""


@pytest.mark.parametrize("metric", [tm.PrecisionAtK, tm.RecallAtK, tm.F1AtK])
@pytest.mark.parametrize(
    ("labels", "tail"), [("present", None), ("union", 0.0), ("all", 0.0)]
)
def test_macro_average_over_no_label_is_nan(metric, labels, tail):
    """A macro average of a bucket is NaN, and so is the gap, if it averages over no
    label.

    No label of the tail is relevant, so the mean over present labels is NaN there; over
    predicted labels or all labels it is 0.
    """
    average = metric(2, average="macro", labels=labels, buckets=BUCKETS)
    report = tm.evaluate(PREDS, NOTHING_RELEVANT, metrics=[average], intervals=False)
    (key,) = (key for key in report.scalars if key.endswith("/tail"))
    gap = report.summaries[key.replace("/tail", "/gap")]
    if tail is None:
        assert math.isnan(report.scalars[key])
        assert math.isnan(gap)
    else:
        assert report.scalars[key] == tail
        assert gap == report.scalars[key.replace("/tail", "/head")]


def test_denominators_are_by_bucket_and_group_of_rows():
    """Denominators are counted for each bucket and each group of rows.

    The head is relevant in two rows and the tail in one; the group "b" has the last two
    rows.
    """
    groups = ["a", "a", "b", "b"]
    records = values(
        tm.RecallAtK(k=2, buckets=BUCKETS, row_groups=["a", "b"]), row_groups=groups
    )
    by_key = {
        key.removeprefix("recall@2/"): (record.count, record.count_of)
        for key, record in records.items()
        if "/" in key
    }
    unit = "rows with a relevant label"
    assert {
        key: by_key[key] for key in ("head", "tail", "a/head", "b/head", "b/tail")
    } == {
        "head": (2, unit),
        "tail": (1, unit),
        "a/head": (2, unit),
        "b/head": (0, unit),
        "b/tail": (1, unit),
    }


def test_a_mean_times_its_denominator_is_the_sum_of_its_rows():
    """For a metric with values of rows, the denominator is the number of rows that
    count, and value times denominator is the sum over rows.
    """
    metrics = [
        tm.PrecisionAtK(k=2),
        tm.NDCGAtK(k=3, buckets=BUCKETS),
        tm.MRR(buckets=BUCKETS, scope="global"),
        tm.MAP(),
    ]
    collection = tm.TopKCollection(metrics)
    ranking = collection.rank(PREDS, TARGET)
    rows = {
        key: key_values
        for metric in collection.members().values()
        for key, key_values in metric.row_values(ranking).items()
    }
    records = values(*metrics)
    for key, row_values in rows.items():
        total = float(row_values.nansum())
        assert records[key].count == int((~row_values.isnan()).sum()) or not total
        assert records[key].value * records[key].count == pytest.approx(total)


def test_record_has_the_interval_of_its_value():
    """With intervals, a record has the interval that ``report.intervals`` has under its
    key.
    """
    generator = torch.Generator().manual_seed(0)
    preds, target = (
        torch.rand(60, 5, generator=generator),
        torch.rand(60, 5, generator=generator) < 0.4,
    )
    report = tm.evaluate(preds, target, metrics=[tm.RecallAtK(k=2)])
    interval, record = report.intervals["recall@2"], report.by_key["recall@2"]
    assert (record.value, record.interval) == (report.scalars["recall@2"], interval)
    assert interval.low < record.value < interval.high
    assert (record.count, record.count_of) == (60, "rows")
