"""What a value of a report is divided by: ``report.values`` says how many, and of what."""

import pytest
import torch

import tailmetrics as tm

PREDS = torch.tensor([[4, 3, 2, 1, 0], [0, 4, 1, 3, 2], [1, 0, 2, 3, 4], [3, 1, 0, 2, 4]]).float() / 4
TARGET = torch.tensor([[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 1, 0, 1]]).bool()
# by hand: the two best labels are 0, 1 · 1, 3 · 3, 2 · 0, 1 (labels from 0); hits are 0 · 1 · none · none
BUCKETS = tm.LabelBuckets.from_assignment([0, 0, 1, 1, 1], ["head", "tail"])


def values(*metrics, **options):
    """Return the values of a report of four rows and five labels by key."""
    return tm.evaluate(PREDS, TARGET, metrics=list(metrics), intervals=False, **options).values


@pytest.mark.parametrize(
    ("metric", "counted", "of"),
    [
        (tm.RecallAtK(k=2), 4, "rows"),
        (tm.RecallAtK(k=2, empty_target_action="skip"), 3, "rows with a relevant label"),
        (tm.PrecisionAtK(k=2, average="micro"), 8, "predictions"),
        (tm.RecallAtK(k=2, average="micro"), 5, "relevant labels"),
        (tm.F1AtK(k=2, average="micro"), 13, "predictions and relevant labels"),
        (tm.RecallAtK(k=2, average="macro"), 4, "labels with rows"),
        (tm.PrecisionAtK(k=2, average="macro", labels="union"), 5, "labels with rows or predictions"),
        (tm.PrecisionAtK(k=2, average="macro", labels="all"), 5, "labels"),
        (tm.RecallAtK(k=2, average="weighted"), 5, "relevant labels"),
        (tm.KForRecall(0.5), 3, "rows with a relevant label"),
        (tm.LabelAUC(), 4, "labels with an area"),
        (tm.LabelAP(average="micro"), None, ""),
        (tm.CatalogCoverageAtK(k=2), 5, "labels"),
        (tm.PositiveCoverageAtK(k=2), 4, "labels with rows"),
        (tm.CalibrationErrorAtK(k=2), 8, "predictions"),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, tm.TopKMetric) else str(one),
)
def test_a_value_says_what_it_is_divided_by(metric, counted, of):
    """Of four rows with 1, 2, 0 and 2 relevant labels of five; three labels are relevant once, one twice."""
    (one,) = values(metric).values()
    assert (one.counted, one.of, one.low, one.high) == (counted, of, None, None)


def test_denominators_are_by_bucket_and_group_of_rows():
    """The head is relevant in two rows, the tail in one; the group "b" has the last two rows."""
    groups = ["a", "a", "b", "b"]
    found = values(tm.RecallAtK(k=2, buckets=BUCKETS, row_groups=["a", "b"]), row_groups=groups)
    by_key = {key.removeprefix("recall@2/"): (one.counted, one.of) for key, one in found.items() if "/" in key}
    what = "rows with a relevant label"
    assert {key: by_key[key] for key in ("head", "tail", "a/head", "b/head", "b/tail")} == {
        "head": (2, what),
        "tail": (1, what),
        "a/head": (2, what),
        "b/head": (0, what),
        "b/tail": (1, what),
    }


def test_a_mean_times_its_denominator_is_the_sum_of_its_rows():
    """Of every metric with values of rows: what the value divides by is what the rows that count are."""
    metrics = [
        tm.PrecisionAtK(k=2),
        tm.NDCGAtK(k=3, buckets=BUCKETS),
        tm.MRR(buckets=BUCKETS, scope="global"),
        tm.MAP(),
    ]
    collection = tm.TopKCollection(metrics)
    ranking = collection.rank(PREDS, TARGET)
    rows = {key: one for metric in collection.members().values() for key, one in metric.row_values(ranking).items()}
    found = values(*metrics)
    for key, of_rows in rows.items():
        total = float(of_rows.nansum())
        assert found[key].counted == int((~of_rows.isnan()).sum()) or not total
        assert found[key].value * found[key].counted == pytest.approx(total)


def test_an_interval_stands_beside_its_value():
    """With intervals, a value has the two ends that ``report.intervals`` has."""
    generator = torch.Generator().manual_seed(0)
    preds, target = torch.rand(60, 5, generator=generator), torch.rand(60, 5, generator=generator) < 0.4
    report = tm.evaluate(preds, target, metrics=[tm.RecallAtK(k=2)])
    sure, one = report.intervals["recall@2"], report.values["recall@2"]
    assert (one.value, one.low, one.high) == (report.scalars["recall@2"], sure.low, sure.high)
    assert one.low < one.value < one.high
    assert (one.counted, one.of) == (60, "rows")
