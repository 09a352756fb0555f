"""Drawings show references and ties at each bar, curves over training counts, and round
ticks.
"""

import csv
import json
import math
from dataclasses import replace
from io import StringIO

import pytest
import torch
from scipy.stats import t as student

from report.simple import report_of_values
from report.test_page import Tags, drawings
from tailmetrics import LabelBuckets, PrecisionAtK, RecallAtK, TopKCollection, evaluate
from tailmetrics.evaluation import compare_runs
from tailmetrics.report import BucketRow, latex, markdown, page
from tailmetrics.report.charts import Scale
from tailmetrics.report.curves import local_means
from tailmetrics.report.text import csv_text

ROWS = [BucketRow(name, 1, 1, 1) for name in ("head", "tail")]
VALUES = {"recall@5/head": 0.8, "recall@5/tail": 0.2}
REFERENCES = {
    "chance": {"recall@5/head": 0.1, "recall@5/tail": 0.05},
    "popularity": {"recall@5/head": 0.6, "recall@5/tail": 0.0},
    "attainable": {"recall@5/head": 1.0, "recall@5/tail": 0.9},
    "worst": {"recall@5/head": 0.7, "recall@5/tail": 0.2},
    "expected": {"recall@5/head": 0.75, "recall@5/tail": 0.2},
    "best": {"recall@5/head": 0.9, "recall@5/tail": 0.2},
}
WITHOUT_REFERENCES = report_of_values("", VALUES, buckets=ROWS)
WITH_REFERENCES = report_of_values("", VALUES, buckets=ROWS, beside=REFERENCES)


def levels(chart, kind, style):
    """Return the lowest and the highest point of each mark of a kind."""
    marks = [mark for mark in chart.marks if (mark.kind, mark.style) == (kind, style)]
    ends = [
        (min(up for _, up in mark.places), max(up for _, up in mark.places))
        for mark in marks
    ]
    return [(round(low, 9), round(high, 9)) for low, high in ends]


def test_each_bar_shows_its_references():
    """Each bar has chance as a dotted line, popularity as a hollow diamond and the
    attainable value as a cap, which caption and alternative text explain.
    """
    (chart,) = drawings(WITH_REFERENCES, "headline")
    assert levels(chart, "line", "dotted") == [(0.1, 0.1), (0.05, 0.05)]
    assert levels(chart, "dot", "diamond") == [(0.6, 0.6), (0.0, 0.0)]
    assert not any(mark.filled for mark in chart.marks if mark.kind == "dot")
    tops = [high for _, high in levels(chart, "line", "thin")]
    assert {1.0, 0.9} <= set(tops)
    assert (
        "dotted line: chance · hollow mark: popularity · cap: the most that a list can reach there"
        in chart.caption
    )
    assert (
        "head 0.8000, chance 0.1000, popularity 0.6000, attainable 1.0000"
        in chart.in_words
    )


def test_ties_are_drawn_as_a_bracket_if_they_matter():
    """A bar whose value depends on the order of equal scores has a bracket from .7 to
    .9 with the mean .75, and tables have both. A bar whose value does not depend on it
    has none.
    """
    (chart,) = drawings(WITH_REFERENCES, "headline")
    assert levels(chart, "dot", "circle") == [(0.75, 0.75)]
    assert (0.7, 0.9) in levels(chart, "line", "thin")
    assert "between 0.7000 and 0.9000 by the order of equal scores" in chart.in_words
    assert r"| head | 0.8000 | 0.7500 | \[.7000, .9000\] |" in markdown(WITH_REFERENCES)
    assert "head & 0.8000 & 0.7500 & [.7000, .9000]" in latex(WITH_REFERENCES)


def test_references_are_in_data_files_and_on_request_in_tables():
    """Markdown and LaTeX have references on request, a page in a section that opens,
    and JSON and CSV always.
    """
    line = "| tail | 0.2000 | 0.0500 | 0.0000 | 0.9000 |"
    assert line in markdown(WITH_REFERENCES, references=True)
    assert line not in markdown(WITH_REFERENCES)
    # two tables, whose columns name their metric
    paper = latex(WITH_REFERENCES, references=True)
    assert (
        "recall@5 chance & recall@5 popularity" in paper
        and "tail & 0.2000 & 0.0500 & 0.0000" in paper
    )
    assert "bucket & recall@5 attainable" in paper and "tail & 0.9000" in paper
    assert (
        "Beside chance, popularity and the attainable"
        in Tags(page(WITH_REFERENCES)).text
    )
    content = json.loads(json.dumps(WITH_REFERENCES.as_dict()))
    (first, _) = csv.DictReader(StringIO(csv_text(WITH_REFERENCES.csv_tables()[""])))
    for name, values in REFERENCES.items():
        assert [record[name] for record in content["records"]] == list(values.values())
        assert first[name] == str(values["recall@5/head"])


def test_missing_references_and_ties_are_not_mentioned():
    """Without references and bounds of ties, no drawing, column, section or sentence
    mentions them.
    """
    (chart,) = drawings(WITHOUT_REFERENCES, "headline")
    assert [mark.kind for mark in chart.marks] == ["bar", "text", "bar", "text", "line"]
    assert [
        WITHOUT_REFERENCES.as_dict()["records"][0][name] for name in REFERENCES
    ] == [None] * 6
    for text in (
        markdown(WITHOUT_REFERENCES, references=True),
        latex(WITHOUT_REFERENCES, references=True),
        Tags(page(WITHOUT_REFERENCES)).text,
    ):
        assert "chance" not in text
        assert "equal scores" not in text


def means(counts, values, weights, training_count, h):
    """Return the local mean at a count and its standard error, by the formulas, label
    by label.
    """

    def share(position, label):
        kernel = [
            w * math.exp(-(((position - math.log10(c)) / h) ** 2) / 2)
            for c, w in zip(counts, weights, strict=True)
        ]
        return kernel[label] / sum(kernel)

    labels = range(len(counts))

    def mean(position):
        return sum(share(position, label) * values[label] for label in labels)

    position = math.log10(training_count)
    parts = []
    for label in labels:
        label_position = math.log10(counts[label])
        parts.append(
            (
                share(position, label)
                * (values[label] - mean(label_position))
                / (1 - share(label_position, label))
            )
            ** 2
        )
    return mean(position), math.sqrt(sum(parts))


def test_a_curve_is_the_local_mean_with_its_band():
    """The points of a curve are the Nadaraya-Watson mean with the band of HC3, by plain
    loops over labels.

    The band agrees to 3 %, because it interpolates residuals and approximates Student's
    t by three terms.
    """
    generator = torch.Generator().manual_seed(2)
    counts = (1000 / torch.arange(1, 41)).long()
    weights = torch.randint(1, 9, (40,), generator=generator)
    values = torch.rand(40, generator=generator, dtype=torch.float64)
    points = local_means(counts, values, weights)
    assert (points[0].training_count, points[-1].training_count) == pytest.approx(
        (1000, 25)
    )
    x = [math.log10(count) for count in counts.tolist()]
    pairs = sorted(zip(x, weights.tolist(), strict=True))
    total = sum(weights.tolist())

    def quantile(share):
        reached = 0
        for number, weight in pairs:
            reached += weight
            if reached >= share * total:
                return number
        raise AssertionError

    middle = sum(number * weight for number, weight in pairs) / total
    deviation = math.sqrt(
        sum(weight * (number - middle) ** 2 for number, weight in pairs) / total
    )
    effective = total**2 / sum(weight**2 for _, weight in pairs)
    h = 0.9 * min(deviation, (quantile(0.75) - quantile(0.25)) / 1.34) * effective**-0.2
    for point in points[::7]:
        mean, error = means(
            counts.tolist(), values.tolist(), weights.tolist(), point.training_count, h
        )
        assert point.value == pytest.approx(mean, abs=1e-9)
        if point.effective_labels < 3:
            assert math.isnan(point.low)
        elif point.effective_labels > 5:
            wide = float(student.ppf(0.975, point.effective_labels - 1))
            assert point.value - max(0, point.value - wide * error) == pytest.approx(
                point.value - point.low, rel=0.03
            )


def test_the_band_of_a_curve_covers_the_true_mean_in_95_percent():
    """In 1,000 random draws of hits, the band contains the local mean of the true
    shares in about 95 % at three counts: 950 within 3 standard errors.
    """
    generator = torch.Generator().manual_seed(0)
    counts = (20_000 / torch.arange(1, 301)).long()
    truth = 0.2 + 0.15 * counts.double().log10()
    coverage = torch.zeros(3)
    for _ in range(1000):
        support = torch.randint(2, 12, (300,), generator=generator)
        hits = torch.binomial(support.double(), truth, generator=generator)
        points = local_means(counts, hits / support, support)
        true_points = local_means(counts, truth, support)
        coverage += torch.tensor(
            [
                points[index].low <= true_points[index].value <= points[index].high
                for index in (24, 36, 54)
            ]
        )
    assert ((coverage > 930) & (coverage < 970)).all()  # 950 within 3 standard errors


def test_unseen_labels_are_one_point_of_a_curve():
    """The point of count 0 is the weighted mean of the unseen labels.

    With two different counts or without rows there is no curve.
    """
    counts, rows = torch.tensor([0, 0, 9, 5, 2, 1]), torch.ones(6, dtype=torch.int64)
    values = torch.tensor([0.5, 0.0, 1.0, 1.0, 0.5, 0.5], dtype=torch.float64)
    weights = torch.tensor([3, 1, 4, 2, 1, 1])
    last = local_means(counts, values, weights)[-1]
    assert last.training_count == 0
    assert (last.value, last.positives) == (pytest.approx(0.375), 4)
    assert last.effective_labels == pytest.approx(16 / 10)
    assert math.isnan(last.low)
    assert local_means(torch.tensor([5, 5, 5, 1, 1, 1]), values, rows) == []
    assert local_means(counts, values, torch.zeros(6)) == []


@pytest.fixture(scope="module")
def evaluated():
    """Return scores, targets, counts and a report with values of labels."""
    generator = torch.Generator().manual_seed(4)
    counts = (3000 / torch.arange(1, 61)).long()
    scores = torch.randn(200, 60, generator=generator) + counts.log() / 2
    target = torch.multinomial(
        counts.float(), 200, replacement=True, generator=generator
    )
    metrics = [
        RecallAtK(5, buckets=LabelBuckets.deciles(counts)),
        RecallAtK(5, average="none", num_labels=60),
    ]
    return (
        scores,
        target,
        counts,
        evaluate(scores, target, metrics=metrics, intervals=False),
    )


def test_the_curve_of_a_report_has_the_edges_of_buckets(evaluated, tmp_path):
    """The curve is on the page and in the picture, and its numbers are in curve.csv.

    The edge of two buckets lies between the counts of their labels.
    """
    _, _, counts, report = evaluated
    (chart,) = drawings(report, "curve")
    assert chart.in_picture
    edges = [
        mark.places[0][0]
        for mark in chart.marks
        if mark.kind == "line" and mark.style == "thin"
    ]
    ends = list(
        torch.tensor([row.labels for row in report.buckets if row.labels]).cumsum(0)
    )[:-1]
    assert len(edges) == len(ends)
    points = report.curves["recall@5"]
    scale = [math.log(points[-1].training_count), math.log(points[0].training_count)]
    for edge, end in zip(edges, ends, strict=True):
        count_at_edge = math.exp(scale[1] - edge * (scale[1] - scale[0]))
        assert counts[end] - 1e-9 <= count_at_edge <= counts[end - 1] + 1e-9
    lines = list(
        csv.DictReader((report.write(tmp_path)[0].parent / "curve.csv").open())
    )
    assert [float(line["value"]) for line in lines] == [point.value for point in points]
    assert all(line["metric"] == "recall@5" for line in lines)


def test_the_file_of_a_drawing_has_a_stable_name(evaluated, tmp_path):
    """The file of a drawing is named by its metric and axis, not by values, and has no
    more bytes than file systems accept.
    """
    scores, target, counts, report = evaluated
    names = [path.name for path in report.write(tmp_path, figures="svg")]
    assert {
        "report_recall@5_from_head_to_tail.svg",
        "report_recall@5_by_training_count.svg",
    } <= {*names}
    assert "0 occurrences" in drawings(report, "curve")[0].in_words

    long = RecallAtK(5, buckets=LabelBuckets.deciles(counts), name="é" * 200)
    path = evaluate(scores, target, metrics=[long], intervals=False).write(
        tmp_path, figures="svg"
    )[-1]
    assert path.name.startswith("report_éééé")
    assert path.exists()


def test_a_comparison_draws_only_curves_that_every_run_has():
    """A comparison draws the curves that all runs have, in any order of runs: a run
    that lists one label that is never relevant has no precision by label.
    """
    target = torch.arange(22) % 11
    runs = {
        "mixed": torch.randn(22, 12, generator=torch.Generator().manual_seed(0)),
        "single": torch.arange(12.0).expand(22, 12),
    }
    options = {
        "metrics": [PrecisionAtK(k=1)],
        "label_counts": torch.arange(1, 13),
        "labels": True,
        "resamples": 99,
    }
    for names in (["mixed", "single"], ["single", "mixed"]):
        compared = compare_runs({name: runs[name] for name in names}, target, **options)
        assert list(compared.curves) == ["recall@1", "f1@1"]


def test_a_comparison_draws_a_curve_for_each_run(evaluated):
    """A comparison draws the curve of each run with the same smoothing, and its points
    are those of the report of the run.
    """
    scores, target, counts, report = evaluated
    metrics = [RecallAtK(5), RecallAtK(5, average="none", num_labels=60)]
    runs = {"one": scores, "two": -scores}
    compared = compare_runs(
        runs, target, metrics=metrics, label_counts=counts, resamples=300
    )
    assert repr(compared.curves["recall@5"]["one"]) == repr(report.curves["recall@5"])
    chart = drawings(compared, "curve")[0]
    assert len({mark.shade for mark in chart.marks if mark.kind == "area"}) == 2
    lines = list(csv.DictReader(StringIO(csv_text(compared.csv_tables()["curve"]))))
    assert {line["run"] for line in lines} == {"one", "two"}


@pytest.mark.parametrize(
    ("scale", "ticks"),
    [
        (Scale(0, 0.941), ["0", "0.2", "0.4", "0.6", "0.8"]),
        (Scale(-0.185, 0.0752), ["-0.15", "-0.1", "-0.05", "0", "0.05"]),
        (Scale(0.7, 24000, "log"), ["1", "10", "100", "1k", "10k"]),
        (Scale(0, 5141, "log1p"), ["0", "1", "10", "100", "1k"]),
        (Scale(0, 0), ["0"]),
        (Scale(-1e-13, 1e-13), ["-1e-13", "-5e-14", "0", "5e-14", "1e-13"]),
        (Scale(20, 80, "log"), ["20", "40", "60", "80"]),
        (Scale(0.7, 3.6, "log"), ["1", "2", "3"]),
        (Scale(10**13, 10**15, "log"), ["10T", "100T", "1P"]),
    ],
)
def test_ticks_are_few_and_round(scale, ticks):
    """An axis has few ticks, which are 1, 2 or 5 times a power of ten apart, or powers
    of ten on a logarithmic axis that has at least two.
    """
    ticks_of_scale = scale.ticks()
    assert [text for tick in ticks_of_scale for text in tick.texts] == ticks
    assert all(-1e-9 <= tick.at <= 1 + 1e-9 for tick in ticks_of_scale)


def test_references_of_a_collection_reach_the_report():
    """A report has the chance, popularity and attainable values of a collection,
    overall and by bucket, and the adjusted gap; it computes them itself if the number
    of labels is known.
    """
    generator = torch.Generator().manual_seed(6)
    counts = (3000 / torch.arange(1, 61)).long()
    scores = torch.randn(200, 60, generator=generator)
    target = torch.multinomial(
        counts.float(), 200, replacement=True, generator=generator
    )
    names = ("chance", "popularity", "attainable")
    metrics = [RecallAtK(5, buckets=LabelBuckets.deciles(counts), scope="global")]
    report = evaluate(
        scores,
        target,
        metrics=TopKCollection(metrics, references=names),
        label_counts=counts,
    )
    assert {*report.references} == {*names}
    assert report.references["chance"]["recall@5"] == pytest.approx(5 / 60)
    assert report.references["attainable"]["global_recall@5/decile_1"] == 1
    assert report.references["popularity"]["global_recall@5/decile_1"] == 0
    assert "global_recall@5/adjusted_gap" in report.summaries
    (chart,) = drawings(report, "headline")
    measured = sum(
        not math.isnan(value) for value in report.by_bucket["global_recall@5"].values()
    )
    assert len(levels(chart, "line", "dotted")) == measured
    report_of_list = evaluate(scores, target, metrics=metrics, label_counts=counts)
    assert repr(report_of_list.references) == repr(report.references)
    assert (
        evaluate(scores.topk(9).indices, target, metrics=[RecallAtK(5)]).references
        == {}
    )


def test_parts_of_a_value_have_no_line_at_their_sum():
    """Buckets that are parts of a value, .5 and .25 of a precision of .75, have no line
    at the value over all labels.

    The drawing of the headline, recall, comes first.
    """
    buckets = LabelBuckets.from_assignment([0, 0, 1, 1], ["head", "tail"])
    parts = PrecisionAtK(
        1, denominator="k", empty_target_action="neg", buckets=buckets, scope="global"
    )
    metrics = [parts, RecallAtK(1, buckets=buckets, scope="global")]
    report = evaluate(
        torch.eye(4)[[0, 1, 2, 2]],
        torch.arange(4),
        metrics=TopKCollection(metrics, references=[]),
    )
    without_references = replace(
        report,
        records=[
            replace(
                record, interval=None, chance=None, popularity=None, attainable=None
            )
            for record in report.records
        ],
    )
    recall, precision = drawings(without_references, "headline") + drawings(
        without_references, "buckets"
    )
    assert (recall.title, precision.title) == (
        "global_recall@1",
        "global_precision_k_neg@1",
    )
    assert len(levels(recall, "line", "dashed")) == 1
    assert levels(precision, "line", "dashed") == []
    bars = [
        max(up for _, up in mark.places)
        for mark in precision.marks
        if mark.kind == "bar"
    ]
    assert bars == pytest.approx([1.0, 0.5])
    assert "all labels" not in precision.in_words + precision.caption.replace(
        "the value over all labels", ""
    )
