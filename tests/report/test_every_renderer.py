"""Terminal, Markdown, LaTeX, CSV and pages show the same groups, worst labels,
intervals, gaps and captions.
"""

import csv
import json
import math
from dataclasses import replace
from functools import partial
from io import StringIO

import pytest
import torch

from printed import in_full
from report.simple import report_of_values
from report.test_page import Tags
from tailmetrics import (
    MRR,
    CalibrationErrorAtK,
    CrossEntropy,
    F1AtThreshold,
    GiniAtK,
    KForRecall,
    LabelBuckets,
    NDCGAtK,
    PrecisionAtK,
    PredictionProportionAtK,
    RecallAtK,
    TopKCollection,
    evaluate,
)
from tailmetrics.evaluation import Evaluation
from tailmetrics.report import BucketRow, latex, markdown, page
from tailmetrics.report.breakdowns import what_buckets_are
from tailmetrics.report.formatting import in_latex, in_markdown
from tailmetrics.report.records import ORDERS
from tailmetrics.report.text import csv_text

ROWS, LABELS = 90, 20
COUNTS = (200 / torch.arange(1, LABELS + 1)).long()


@pytest.fixture(scope="module")
def complete_report():
    """Return a report with everything that renderers show, and its scores, targets and
    buckets.
    """
    generator = torch.Generator().manual_seed(4)
    scores = torch.randn(ROWS, LABELS, generator=generator) + COUNTS.log() / 2
    target = torch.multinomial(
        COUNTS.float(), ROWS, replacement=True, generator=generator
    )
    buckets = LabelBuckets.deciles(COUNTS)
    metrics = [
        RecallAtK(3, buckets=buckets, scope="global"),
        KForRecall(0.8, buckets=buckets),
        PredictionProportionAtK(3, buckets=buckets),
    ]
    groups = [("en", "de", None)[row % 3] for row in range(ROWS)]
    names = [f"label {label}" for label in range(LABELS)]
    report = evaluate(
        scores,
        target,
        metrics=metrics,
        row_groups=groups,
        labels=True,
        label_names=names,
        intervals=200,
        title="All",
    )
    return report, scores, target, buckets


RENDERERS = {
    "terminal": partial(in_full, width=200),
    "markdown": markdown,
    "latex": latex,
    "page": lambda report: Tags(page(report)).text,
    "notebook": lambda report: Tags(report._repr_html_()).text,
}


def recall(scores, target, rows):
    """Return the share of rows whose label is among the three best, the lower id first
    among equals.
    """
    best = {
        row: sorted(
            range(LABELS), key=lambda label: (-float(scores[row][label]), label)
        )[:3]
        for row in rows
    }
    return (
        sum(int(target[row]) in best[row] for row in rows) / len(best)
        if best
        else math.nan
    )


@pytest.mark.parametrize("renderer", RENDERERS)
def test_each_renderer_shows_everything(complete_report, renderer):
    """Each renderer shows the values by group, the label missed most often, intervals,
    the gap, the scope, the number of rows and the meaning of a decile. The values are
    those of plain loops.
    """
    report, scores, target, buckets = complete_report
    text = " ".join(RENDERERS[renderer](report).split())
    expected = [
        "in the one list that a row shows (scope global)",
        "90 rows",
        "decile_10 holds the most frequent labels, decile_1 the rarest; each has about a tenth of all label occurrences",
        "by group of rows",
        "± is half the width of the 95% confidence interval",
        "[low, high] are its ends where it is not symmetric",
        "gap: decile_10 minus decile_1",
    ]
    for sentence in expected:
        rendered_sentence = {"latex": in_latex, "markdown": in_markdown}.get(
            renderer, str
        )(sentence)
        assert (
            rendered_sentence in text
            or rendered_sentence[0].upper() + rendered_sentence[1:] in text
        ), sentence
    for number, group in enumerate(("en", "de")):
        rows = range(number, ROWS, 3)
        for index, bucket in enumerate(buckets.names):
            rows_of_bucket = [
                row for row in rows if int(buckets.assignment[target[row]]) == index
            ]
            value = recall(scores, target, rows_of_bucket)
            assert report.value("global_recall@3", bucket, group) == pytest.approx(
                value, abs=1e-12, nan_ok=True
            )
        assert f"{recall(scores, target, rows):.4f}" in text
    top_lists = [
        sorted(
            range(LABELS), key=lambda candidate: (-float(row[candidate]), candidate)
        )[:3]
        for row in scores
    ]
    missed = [
        sum(
            int(label) == candidate and candidate not in top
            for label, top in zip(target, top_lists, strict=True)
        )
        for candidate in range(LABELS)
    ]
    worst = max(range(LABELS), key=lambda candidate: (missed[candidate], -candidate))
    assert missed[worst] > 0
    assert report.labels.by_misses[0] == worst
    assert f"label {worst}" in text
    interval = report.intervals["global_recall@3/decile_10"]
    value = report.scalars["global_recall@3/decile_10"]
    assert f"{value - interval.low:.4f}" != f"{interval.high - value:.4f}"
    ends = ", ".join(
        f"{end:.4f}".removeprefix("0") for end in (interval.low, interval.high)
    )
    assert f"{value:.4f} [{ends}]" in text.replace("\\", "")


def test_csv_and_json_hold_groups_intervals_and_summaries(complete_report):
    """CSV and JSON hold each value to the last bit, with its group, summary and the
    ends of its interval.
    """
    report = complete_report[0]
    lines = {
        (line["metric"], line["row_group"], line["bucket"], line["summary"]): line
        for line in csv.DictReader(StringIO(csv_text(report.csv_tables()[""])))
    }
    assert len(lines) == len(report.records)
    for record in report.records:
        cell = lines[record.metric, record.row_group, record.bucket, record.summary][
            "value"
        ]
        assert (float(cell) == record.value) if cell else math.isnan(record.value)
    interval = report.intervals["recall@3/en"]
    assert float(lines["recall@3", "en", "", ""]["low"]) == interval.low
    content = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    records = {record["key"]: record for record in content["records"]}
    assert records["recall@3/en"]["high"] == interval.high
    assert {
        key for key, record in records.items() if record["summary"]
    } == report.summaries.keys()
    assert content["row_groups"] == [
        {"name": "de", "rows": 30},
        {"name": "en", "rows": 30},
    ]
    assert {facts["metric"]: facts["overall_key"] for facts in content["metrics"]}[
        "global_recall@3"
    ] == "recall@3"


def charts(report):
    """Return the drawings of a report by title."""
    return {
        chart.title: chart
        for section in report.document().sections
        for chart in section.charts
    }


def marks(chart, kind, style=None):
    return [
        mark
        for mark in chart.marks
        if mark.kind == kind and style in (None, mark.style)
    ]


def test_bars_intervals_and_references_are_drawn_to_scale(complete_report):
    """Bars, ends of intervals, the line of the value over all labels and fair shares
    are at the heights of their values.
    """
    report, _, _, _ = complete_report
    charts_by_title = charts(report)
    values = {
        name: value
        for name, value in report.by_bucket["global_recall@3"].items()
        if not math.isnan(value)
    }
    ends = {name: report.intervals[f"global_recall@3/{name}"] for name in values}
    references = [
        values_of_reference[f"global_recall@3/{name}"]
        for values_of_reference in report.references.values()
        for name in values
    ]
    top = max(
        *values.values(),
        *references,
        *(end.high for end in ends.values() if not math.isnan(end.high)),
    )
    bars = marks(charts_by_title["global_recall@3"], "bar")
    names = list(report.by_bucket["global_recall@3"])
    for name, value in values.items():
        (left, low), (right, high) = bars[names.index(name)].places
        assert (low, high) == (0, pytest.approx(value / top))
        assert 0 < right - left < 1 / len(names)
    (line_of_all_labels,) = marks(charts_by_title["global_recall@3"], "line", "dashed")
    assert [up for _, up in line_of_all_labels.places] == [
        pytest.approx(report.overall["recall@3"] / top)
    ] * 2
    ends_of_lines = [
        up
        for mark in marks(charts_by_title["global_recall@3"], "line", "solid")
        for _, up in mark.places
    ]
    measured = [end for end in ends.values() if not math.isnan(end.low)]
    assert ends_of_lines == pytest.approx(
        [end / top for interval in measured for end in (interval.low, interval.high)]
    )
    shares = charts_by_title["prediction_proportion@3"]
    assert not marks(shares, "line", "dashed")
    shares_of_buckets = [
        value
        for value in report.by_bucket["prediction_proportion@3"].values()
        if not math.isnan(value)
    ]
    # the interval of each bucket that holds labels, and the fair share of all
    assert len(marks(shares, "line", "solid")) == len(shares_of_buckets) + len(
        marks(shares, "bar")
    )


def test_very_different_ranks_are_drawn_on_a_logarithmic_scale():
    """Bars of the ranks 1, 2 and 5,141 are as high as log(1 + x), which the caption
    says, and their numbers have no decimals.
    """
    rows = [BucketRow(name, 1, 1, 1) for name in "abc"]
    values = dict(zip("abc", (1.0, 2.0, 5141.0), strict=True))
    report = report_of_values(
        "",
        {f"k/{name}": value for name, value in values.items()},
        buckets=rows,
        places=["k"],
    )
    chart = charts(report)["k"]
    heights = [mark.places[1][1] for mark in marks(chart, "bar")]
    assert heights == pytest.approx(
        [math.log(1 + value) / math.log(5142) for value in values.values()]
    )
    assert [mark.text for mark in marks(chart, "text")] == ["1", "2", "5141"]
    assert "logarithmic heights" in chart.caption
    assert "| a | 1 | 1 | 1 |" in markdown(report)


def test_shares_are_drawn_in_proportion():
    """Shares are drawn in proportion, however different they are, because log(1 + x) of
    a share is close to it.
    """
    values = dict(zip("abcd", (0.6, 0.011, 0.01, 0.005), strict=True))
    rows = [BucketRow(name, 1, 1, 1) for name in values]
    chart = charts(
        report_of_values(
            "",
            {f"recall@5/{name}": value for name, value in values.items()},
            buckets=rows,
        )
    )["recall@5"]
    assert [mark.places[1][1] for mark in marks(chart, "bar")] == pytest.approx(
        [v / 0.6 for v in values.values()]
    )
    assert "logarithmic" not in chart.caption


@pytest.mark.parametrize(
    ("buckets", "sentence"),
    [
        (
            LabelBuckets.quantiles([8, 4, 2, 1, 1], 4),
            "each has about a quarter of all label occurrences in training",
        ),
        (
            LabelBuckets.quantiles([8, 4, 2, 1, 0], 2, by="labels"),
            "each has about a half of all labels. unseen holds",
        ),
        (
            LabelBuckets.thresholds([8, 4, 2, 1, 0], (1, 5)),
            "occur in training as often as its name says",
        ),
        (
            LabelBuckets.from_assignment([0, 1], ["head", "tail"]),
            "in the order given, from head to tail.",
        ),
        (
            LabelBuckets.thresholds(
                [90, 51, 50, 6, 1, 0], (1, 6, 51), ["head", "torso", "tail"]
            ),
            "Training counts: head (51-90), torso (6-50), tail (1). unseen holds",
        ),
    ],
)
def test_each_kind_of_buckets_is_explained(buckets, sentence):
    """The sentence on buckets explains quantiles of occurrences or labels, thresholds
    with or without names, and custom buckets.
    """
    from tailmetrics.evaluation.description import bucket_rows

    assert sentence in what_buckets_are(list(bucket_rows(buckets)))


def test_the_table_of_buckets_has_the_number_of_rows(complete_report):
    """The table of buckets has the positives and the rows with a relevant label of each
    bucket, which are equal if each row has one label.
    """
    report, _, target, buckets = complete_report
    lines = [line.strip("| \n").split(" | ") for line in markdown(report).splitlines()]
    for index, name in enumerate(buckets.names):
        rows = int((buckets.assignment[target] == index).sum())
        (cells,) = (
            line
            for line in lines
            if line[:1] == [name] and len(line) == 4 + len(report.by_bucket)
        )
        assert cells[2:4] == [str(rows), str(rows)]


def test_a_label_that_is_never_relevant_has_no_recall():
    """A label that is suggested and never relevant has no recall, which would divide by
    0, and a precision of 0 of 1.
    """
    scores, target = torch.eye(3)[[0, 1]], torch.tensor([0, 2])
    metrics = [
        RecallAtK(1, average="none", num_labels=3),
        PrecisionAtK(1, average="none", num_labels=3),
    ]
    report = evaluate(scores, target, metrics=metrics)
    record = {name: cells[0] for name, cells in report.labels.cells([1]).items()}
    assert math.isnan(record["recall@1"])
    assert record["precision@1"] == 0
    (line,) = (
        line
        for line in csv.DictReader(StringIO(report.labels.csv()))
        if line["label"] == "1"
    )
    assert (line["recall@1"], line["precision@1"]) == ("", "0.0")
    assert "| 1 | 0 | 1 | 0 | 1 | – | 0.0000 |" in markdown(report)


def test_the_gap_is_that_of_buckets_with_values():
    """The gap is that of the buckets that have a value: .5 of the head minus 1 of the
    middle is -.5 if the tail has none. With one such bucket there is no gap.
    """
    buckets = LabelBuckets.from_assignment([0, 0, 1, 2], ["head", "middle", "tail"])
    scores = torch.eye(4)[[0, 0, 2]]
    metrics = [RecallAtK(1, buckets=buckets, scope="global")]
    report = evaluate(scores, torch.tensor([0, 1, 2]), metrics=metrics)
    assert report.summaries["global_recall@1/gap"] == -0.5
    two_rows = evaluate(scores[:2], torch.tensor([0, 1]), metrics=metrics)
    assert all(map(math.isnan, two_rows.summaries.values()))
    assert "| global_recall@1 | 0.5000 | – | – | – | – |" in markdown(two_rows)


def test_captions_say_what_a_metric_reads():
    """The caption of cross-entropy speaks of a softmax and not of ranks, and that of
    recall of k places for each bucket. The caption of parts says that they add up to
    the value over all labels.
    """
    generator = torch.Generator().manual_seed(1)
    buckets = LabelBuckets.deciles(COUNTS)
    metrics = [CrossEntropy(buckets=buckets), RecallAtK(1, buckets=buckets)]
    scores, target = (
        torch.randn(30, LABELS, generator=generator),
        torch.arange(30) % LABELS,
    )
    report = evaluate(scores, target, metrics=metrics, intervals=False)
    assert "ranked" not in report.facts("cross_entropy").caption
    assert "softmax" in report.facts("cross_entropy").caption
    # the softmax is over all labels, whatever the bucket
    rows_of_bucket = [
        row
        for row in range(30)
        if int(buckets.assignment[target[row]]) == len(buckets) - 2
    ]
    losses = torch.nn.functional.cross_entropy(
        scores.double()[rows_of_bucket], target[rows_of_bucket]
    )
    assert report.scalars["cross_entropy/decile_1"] == pytest.approx(
        float(losses), abs=1e-9
    )
    assert "k places for each bucket" in report.facts("recall@1").caption
    arguments = {"buckets": buckets, "scope": "global", "empty_target_action": "neg"}
    parts = evaluate(
        scores,
        target,
        metrics=[
            PrecisionAtK(2, denominator="k", **arguments),
            PrecisionAtK(2, **arguments),
        ],
    )
    (key,) = (
        facts.metric
        for facts in parts.metrics
        if facts.caption.endswith("add up to the value over all labels")
    )
    by_bucket = [
        value for value in parts.by_bucket[key].values() if not math.isnan(value)
    ]
    assert sum(by_bucket) == pytest.approx(parts.scalars["precision_k@2"])


def test_an_adjusted_gap_above_one_is_explained():
    """An adjusted gap above 1, which a tail below chance gives, is explained.

    For two labels and lists of the head alone it is (1 - 1/2) / (1 - 1/2) - (0 - 1/2) /
    (1 - 1/2) = 2.
    """
    buckets = LabelBuckets.from_assignment([0, 1], ["head", "tail"])
    first, second = [0.9, 0.2], [0.2, 0.9]
    metrics = [RecallAtK(1, buckets=buckets, scope="global")]
    for rows, gap in (([first] * 4, 2.0), ([first] * 2 + [second] * 2, 0.0)):
        report = evaluate(
            torch.tensor(rows * 10), torch.arange(40) % 2, metrics=metrics
        )
        assert report.summaries["global_recall@1/adjusted_gap"] == pytest.approx(gap)
        assert ("above 1 where the tail is below chance" in markdown(report)) == (
            gap > 1
        )


def test_an_adjusted_gap_between_other_buckets_names_them():
    """The only label of the head is in each list of its bucket, by chance too, so that
    no value is adjusted there.

    The gap is head minus tail; the adjusted gap middle minus tail, (1 - 1/2) / (1 -
    1/2) - (0 - 1/2) / (1 - 1/2) = 2.
    """
    buckets = LabelBuckets.from_assignment([0, 1, 1, 2, 2], ["head", "middle", "tail"])
    scores = torch.tensor([[0.9, 0.8, 0.1, 0.1, 0.8]] * 30)
    metrics = [
        RecallAtK(1, buckets=buckets),
        RecallAtK(1, buckets=buckets, scope="global"),
    ]
    report = evaluate(scores, torch.tensor([0, 1, 3] * 10), metrics=metrics)
    assert report.summaries["recall@1/adjusted_gap"] == pytest.approx(2.0)
    (table,) = (table for table in report.document().tables if table.name == "tail")
    assert "Gap: head minus tail;" in table.caption
    assert (
        "no value is adjusted: the adjusted gap is middle minus tail for recall@1."
        in table.caption
    )


def test_warnings_give_counts_and_causes():
    """The warning of unseen labels gives their positives and the share with three
    digits.

    That of an empty bucket gives the cause for its kind of buckets.
    """
    rows = [
        BucketRow("many", 3, 90, 30_000),
        BucketRow("few", 0, 0, 0),
        BucketRow("unseen", 1, 0, 7),
    ]
    report = report_of_values("", {}, buckets=rows, positives=30_007)
    assert (
        report.warnings[-1]
        == "7 of 30,007 positives (0.0233 %) are of labels that training never showed."
    )
    assert report.warnings[0] == "No label in few: none belongs there."
    report_with_counts = replace(report, label_counts=torch.tensor([30, 30, 30, 0]))
    assert (
        report_with_counts.warnings[0]
        == "No label in few: none occurs as often in training."
    )
    deciles = replace(
        report, buckets=[BucketRow("decile_2", 1, 9, 9), BucketRow("decile_1", 0, 0, 0)]
    )
    assert deciles.warnings[0].startswith(
        "No label in decile_1: there are too few labels for so many buckets, or one"
    )


def test_the_column_of_rows_is_the_denominator_of_values():
    """The column of rows gives the denominator of recall and nDCG: the rows with a
    relevant label of the bucket.

    Micro precision, which divides by all rows, has no column.
    """
    buckets = LabelBuckets.from_assignment([0, 0, 1, 1], ["head", "tail"])
    generator = torch.Generator().manual_seed(5)
    scores, target = torch.randn(40, 4, generator=generator), torch.arange(40) % 3
    metrics = [
        RecallAtK(1, buckets=buckets, scope="global"),
        NDCGAtK(1, buckets=buckets, scope="global"),
        PrecisionAtK(1, average="micro", buckets=buckets, scope="global"),
    ]
    report = evaluate(scores, target, metrics=metrics)
    (table,) = (table for table in report.document().tables if table.name == "buckets")
    assert table.header[:4] == [
        "bucket",
        "labels",
        "positives",
        "rows with a relevant label",
    ]
    sentence = "Rows with a relevant label: how many a value divides by in global_recall@1, global_ndcg@1."
    assert sentence in table.full_caption
    (tail,) = (line for line in table.lines if line[0] == "tail")
    assert tail[3] == str(sum(int(label) >= 2 for label in target))
    assert table.lines[0][3] == "40"

    target[:5] = -1  # no relevant label, a miss over all labels
    report = evaluate(scores, target[:, None], metrics=metrics)
    (table,) = (table for table in report.document().tables if table.name == "buckets")
    assert [line[3] for line in table.lines] == ["all 40", "23", "12"]


def test_captions_name_values_without_an_interval():
    """The caption names the values without an interval: Gini has one for rows, but none
    for clusters of rows, and the calibration error has neither.
    """
    generator = torch.Generator().manual_seed(5)
    scores, target = torch.randn(40, 4, generator=generator), torch.arange(40) % 4
    metrics = [RecallAtK(1), GiniAtK(1), CalibrationErrorAtK(1)]
    for clusters, sentence in (
        (None, "No interval: calibration_error@1."),
        (
            [row // 2 for row in range(40)],
            "No interval for clusters of rows: gini@1, calibration_error@1.",
        ),
    ):
        report = evaluate(scores, target, metrics=metrics, clusters=clusters)
        (table,) = (
            table for table in report.document().tables if table.name == "overall"
        )
        assert sentence in table.full_caption


@pytest.fixture(scope="module")
def tied():
    """Return scores of three values, targets, a metric, and its worst, expected and
    best value by bucket.
    """
    generator = torch.Generator().manual_seed(6)
    scores, target = (
        torch.randint(0, 3, (40, 6), generator=generator).float(),
        torch.arange(40) % 6,
    )
    buckets = LabelBuckets.from_assignment([0, 0, 0, 1, 1, 1], ["head", "tail"])
    spans = {}
    for number, name in enumerate(buckets.names):
        places = []
        for row, label in zip(scores.tolist(), target.tolist(), strict=True):
            if label // 3 == number:
                places.append(
                    (sum(other > row[label] for other in row), row.count(row[label]))
                )
        values_of_orders = (
            [above + equal <= 2 for above, equal in places],
            [min(max((2 - above) / equal, 0), 1) for above, equal in places],
            [above < 2 for above, _ in places],
        )
        spans[name] = [sum(order) / len(order) for order in values_of_orders]
    return scores, target, [RecallAtK(2, buckets=buckets, scope="global")], spans


@pytest.mark.parametrize("resamples", [None, 50])
def test_an_average_over_labels_without_relevant_labels_has_no_value(resamples):
    """An average over labels has no value in a bucket, a group or a report without
    relevant labels: a dash in tables, null in JSON and nothing in CSV.
    """
    target = torch.arange(40) % 4
    averages = ("micro", "macro", "weighted")
    kinds = (RecallAtK, PrecisionAtK)
    metrics = [kind(2, average=average) for kind in kinds for average in averages]
    report = evaluate(
        torch.rand(40, 6, generator=torch.Generator().manual_seed(0)),
        target,
        metrics=[*metrics, F1AtThreshold(0.9)],
        label_counts=[9, 8, 3, 2, 0, 0],
        buckets="quantiles:2",
        intervals=resamples,
    )
    keys = [f"{metric}/unseen" for metric in report.by_bucket]
    assert len(keys) == 7
    assert all(math.isnan(report.scalars[key]) for key in keys)
    assert [
        record["value"]
        for record in report.as_dict()["records"]
        if record["key"] in keys
    ] == [None] * 7
    (table,) = (table for table in report.document().tables if table.name == "buckets")
    assert table.header[:4] == ["bucket", "labels", "positives", "labels with rows"]
    assert table.header[-7:] == list(report.by_bucket)
    assert (table.lines[-1][:4], table.lines[-1][-7:]) == (
        ["unseen", "2", "0", "0"],
        ["–"] * 7,
    )
    lines = [
        line
        for line in csv.DictReader(StringIO(csv_text(report.csv_tables()[""])))
        if line["bucket"] == "unseen"
    ]
    assert {line["value"] for line in lines} == {""}
    # the same over all labels, and in a group of rows
    no_target = torch.zeros(40, 6, dtype=torch.bool)
    scalars = evaluate(
        torch.rand(40, 6),
        no_target,
        metrics=[*metrics, F1AtThreshold(0.9)],
        intervals=resamples,
    ).scalars
    assert len(scalars) == 7
    assert all(map(math.isnan, scalars.values()))
    metrics_by_group = TopKCollection(
        [*metrics, RecallAtK(2)], row_groups=["some", "none"]
    )
    report = evaluate(
        torch.rand(40, 6),
        target,
        metrics=metrics_by_group,
        row_groups=target // 4,
        intervals=resamples,
    )
    assert [key for key, value in report.scalars.items() if math.isnan(value)] == [
        f"{key}/none" for key in report.scalars if "/" not in key
    ]


@pytest.mark.parametrize("renderer", RENDERERS)
def test_each_renderer_shows_the_values_of_other_orders_of_ties(tied, renderer):
    """Each renderer shows the mean over the orders of equal scores and its ends beside
    each value by bucket, and a warning names the table.
    """
    scores, target, metrics, spans = tied
    report = evaluate(scores, target, metrics=metrics, intervals=False)
    text = RENDERERS[renderer](report).replace("\\", "")
    for name, (worst, expected, best) in spans.items():
        low, high = (f"{end:.4f}".removeprefix("0") for end in (worst, best))
        assert f"{expected:.4f}" in text
        assert f"[{low}, {high}]" in text
        bounds = [
            report.tie_bounds[order][f"global_recall@2/{name}"] for order in ORDERS
        ]
        assert bounds == pytest.approx([worst, expected, best], abs=1e-15)
    assert '"What equal scores hide" has the values of other orders' in " ".join(
        report.warnings
    )


def test_bounds_of_ties_do_not_depend_on_batches(tied):
    """The bounds of ties have the same bits for batches and merged parts as for one
    batch.

    Ranked ids have none, and ties in 1 % of the rows are not shown. Metrics without
    buckets have a table of their own.
    """
    scores, target, metrics, _ = tied
    bounds = evaluate(scores, target, metrics=metrics, intervals=False).tie_bounds
    assert (
        evaluate(
            scores, target, metrics=metrics, intervals=False, batch_rows=7
        ).tie_bounds
        == bounds
    )
    parts = [Evaluation(metrics), Evaluation(metrics)]
    for part, rows in zip(parts, (slice(0, 11), slice(11, 40)), strict=True):
        part.update(scores[rows], target[rows])
    parts[0].merge_state(parts[1])
    assert parts[0].report("").tie_bounds == bounds
    assert (
        evaluate(scores.argsort(descending=True), target, metrics=metrics).tie_bounds
        == {}
    )
    rarely_tied = torch.arange(6.0).repeat(200, 1)
    rarely_tied[:2, 3:5] = 4
    for rows, has_bounds in ((200, False), (199, True)):
        report = evaluate(
            rarely_tied[:rows], torch.arange(rows) % 6, metrics=metrics, intervals=False
        )
        assert bool(report.tie_bounds) is has_bounds
    # recall over all labels, without and with metrics by bucket
    for other_metrics in ([], metrics):
        overall = evaluate(
            scores, target, metrics=[RecallAtK(1), *other_metrics], intervals=False
        )
        (table,) = (
            table
            for table in overall.document().tables
            if table.name == "ties" and table.header[0] == "metric"
        )
        first = [
            (row.max() == row[label]) / (row == row.max()).sum()
            for row, label in zip(scores, target, strict=True)
        ]
        assert table.header == ["metric", "value", "expected", "[worst, best]"]
        assert [line[::2] for line in table.lines] == [
            ["recall@1", f"{sum(first) / 40:.4f}"]
        ]


@pytest.mark.parametrize("renderer", RENDERERS)
def test_ties_of_metrics_without_a_cut_off_are_shown(renderer):
    """Ties of metrics without a cut-off bring a warning and bounds: if all 4 labels
    have equal scores, MRR is expected to be (1 + 1/2 + 1/3 + 1/4) / 4.
    """
    target = torch.arange(40) % 4
    report = evaluate(
        torch.zeros(40, 4),
        target,
        metrics=[MRR(), KForRecall(1.0)],
        label_counts=[4, 3, 2, 1],
        buckets="quantiles:2",
    )
    assert report.ties == {500: 0, None: 1}
    assert report.as_dict()["ties"] == {"tie_rate@500": 0, "tie_rate": 1}
    assert (
        "In 100.0% of the rows a relevant label has the score of another label"
        in report.warnings[0]
    )
    text = RENDERERS[renderer](report).replace("\\", "")
    assert f"{25 / 48:.4f}" in text
    assert "[.2500, 1.0000]" in text
    assert report.tie_bounds["best"]["median_k_for_recall@1"] == 1


def test_the_warning_of_ties_names_their_table_only_if_it_exists():
    """An average over labels has no bounds of ties, so that the warning of ties does
    not name their table.
    """
    report = evaluate(
        torch.zeros(9, 4),
        torch.zeros(9, dtype=torch.int64),
        metrics=[RecallAtK(1, average="micro")],
    )
    assert (report.ties, report.tie_bounds) == ({1: 1}, {})
    assert not [
        warning for warning in report.warnings if "What equal scores hide" in warning
    ]


def test_ties_are_shown_by_the_report_also_at_depth(recwarn):
    """A report shows ties and their bounds, also if they are at ``depth`` only, and the
    evaluation warns of none.

    With ``ties="expected"``, which favours no label, there are no bounds.
    """
    scores, target = (
        torch.tensor([[5.0, 4, 3, 1, 1, 0]]).expand(9, 6),
        torch.arange(9) % 6,
    )
    buckets = LabelBuckets.from_assignment([0, 0, 0, 1, 1, 1], ["head", "tail"])
    recall_by_bucket = partial(RecallAtK, 1, buckets=buckets, depth=4)
    report = evaluate(scores, target, metrics=[recall_by_bucket()], intervals=False)
    assert report.ties == {1: 0, 4: 1}
    assert "tie (100.0% at rank 4)" in " ".join(report.warnings)
    assert report.tie_bounds["worst"]["recall_depth4@1/tail"] == 0
    # two of the labels 3, 4 and 5
    assert report.tie_bounds["best"]["recall_depth4@1/tail"] == 2 / 3
    expected = evaluate(
        scores, target, metrics=[recall_by_bucket(ties="expected")], intervals=False
    )
    assert (expected.ties, expected.tie_bounds) == ({}, {})
    assert not [
        warning for warning in recwarn if "equal scores" in str(warning.message)
    ]


def test_the_adjusted_gap_has_a_column_only_if_it_is_known():
    """The table of gaps has a column of the adjusted gap, with an explanation, only if
    a metric has one.
    """
    rows = [BucketRow(name, 1, 1, 1) for name in ("head", "tail")]
    values = {"m/head": 0.6, "m/tail": 0.1, "m/gap": 0.5, "m/spread": 1.0}
    report = report_of_values("", values, buckets=rows)
    assert "| m | – | 0.6000 | 0.1000 | 0.5000 | 1.0000 |" in markdown(report)
    assert "adjusted" not in markdown(report)
    report = report_of_values("", {**values, "m/adjusted_gap": 0.25}, buckets=rows)
    assert "| m | – | 0.6000 | 0.1000 | 0.5000 | 1.0000 | 0.2500 |" in markdown(report)
    assert (
        "adjusted gap: the gap of (value - chance) / (attainable - chance)"
        in markdown(report)
    )
