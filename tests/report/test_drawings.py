"""Drawings and curves: references and ties at each bar, the mean as a function of the training count, round ticks."""

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
BESIDE = {
    "chance": {"recall@5/head": 0.1, "recall@5/tail": 0.05},
    "popularity": {"recall@5/head": 0.6, "recall@5/tail": 0.0},
    "attainable": {"recall@5/head": 1.0, "recall@5/tail": 0.9},
    "worst": {"recall@5/head": 0.7, "recall@5/tail": 0.2},
    "expected": {"recall@5/head": 0.75, "recall@5/tail": 0.2},
    "best": {"recall@5/head": 0.9, "recall@5/tail": 0.2},
}
PLAIN = report_of_values("", VALUES, buckets=ROWS)
WHOLE = report_of_values("", VALUES, buckets=ROWS, beside=BESIDE)


def levels(chart, kind, style):
    """How high the marks of a kind are, from the lowest place of each to the highest."""
    chosen = [mark for mark in chart.marks if (mark.kind, mark.style) == (kind, style)]
    ends = [(min(up for _, up in mark.places), max(up for _, up in mark.places)) for mark in chosen]
    return [(round(low, 9), round(high, 9)) for low, high in ends]


def test_references_stand_at_each_bar():
    """Chance is a dotted line across the bar, popularity a hollow diamond, the attainable a cap; the axis ends at 1."""
    (chart,) = drawings(WHOLE, "headline")
    assert levels(chart, "line", "dotted") == [(0.1, 0.1), (0.05, 0.05)]
    assert levels(chart, "dot", "diamond") == [(0.6, 0.6), (0.0, 0.0)]
    assert not any(mark.filled for mark in chart.marks if mark.kind == "dot")
    tops = [high for _, high in levels(chart, "line", "thin")]
    assert {1.0, 0.9} <= set(tops)
    assert "dotted line: chance · hollow mark: popularity · cap: the most that a list can reach there" in chart.caption
    assert "head 0.8000, chance 0.1000, popularity 0.6000, attainable 1.0000" in chart.in_words


def test_equal_scores_are_a_bracket_where_they_matter():
    """The head's value lies between .7 and .9 with the mean .75; the tail's does not depend on them."""
    (chart,) = drawings(WHOLE, "headline")
    assert levels(chart, "dot", "circle") == [(0.75, 0.75)]
    assert (0.7, 0.9) in levels(chart, "line", "thin")
    assert "between 0.7000 and 0.9000 by the order of equal scores" in chart.in_words
    assert r"| head | 0.8000 | 0.7500 | \[.7000, .9000\] |" in markdown(WHOLE)
    assert "head & 0.8000 & 0.7500 & [.7000, .9000]" in latex(WHOLE)


def test_references_are_columns_on_demand_and_always_in_files():
    """Markdown and LaTeX show them where asked for, a page where a reader opens them, JSON and CSV always."""
    line = "| tail | 0.2000 | 0.0500 | 0.0000 | 0.9000 |"
    assert line in markdown(WHOLE, references=True)
    assert line not in markdown(WHOLE)
    paper = latex(WHOLE, references=True)  # in two tables, each of which names the metric of its columns
    assert "recall@5 chance & recall@5 popularity" in paper and "tail & 0.2000 & 0.0500 & 0.0000" in paper
    assert "bucket & recall@5 attainable" in paper and "tail & 0.9000" in paper
    assert "Beside chance, popularity and the attainable" in Tags(page(WHOLE)).text
    content = json.loads(json.dumps(WHOLE.as_dict()))
    (first, _) = csv.DictReader(StringIO(csv_text(WHOLE.csv_tables()[""])))
    for name, values in BESIDE.items():
        assert [record[name] for record in content["records"]] == list(values.values())
        assert first[name] == str(values["recall@5/head"])


def test_what_is_not_known_is_not_shown():
    """Without references and bounds no mark, column, section or sentence speaks of them."""
    (chart,) = drawings(PLAIN, "headline")
    assert [mark.kind for mark in chart.marks] == ["bar", "text", "bar", "text", "line"]
    assert [PLAIN.as_dict()["records"][0][name] for name in BESIDE] == [None] * 6
    for text in (markdown(PLAIN, references=True), latex(PLAIN, references=True), Tags(page(PLAIN)).text):
        assert "chance" not in text
        assert "equal scores" not in text


def means(counts, values, weights, at, h):
    """The local mean at a count and its standard error, by the formulas, label by label."""

    def share(place, label):
        kernel = [w * math.exp(-(((place - math.log10(c)) / h) ** 2) / 2) for c, w in zip(counts, weights, strict=True)]
        return kernel[label] / sum(kernel)

    labels = range(len(counts))

    def mean(place):
        return sum(share(place, label) * values[label] for label in labels)

    place = math.log10(at)
    parts = []
    for label in labels:
        own = math.log10(counts[label])
        parts.append((share(place, label) * (values[label] - mean(own)) / (1 - share(own, label))) ** 2)
    return mean(place), math.sqrt(sum(parts))


def test_a_curve_is_the_local_mean_with_its_band():
    """At the places of the curve: Nadaraya and Watson's mean, and the band of HC3, in plain loops over labels.

    The band reads residuals between the places of the curve, and three terms of Student's t, so that it agrees to 3 %.
    """
    generator = torch.Generator().manual_seed(2)
    counts = (1000 / torch.arange(1, 41)).long()
    weights = torch.randint(1, 9, (40,), generator=generator)
    values = torch.rand(40, generator=generator, dtype=torch.float64)
    points = local_means(counts, values, weights)
    assert (points[0].training_count, points[-1].training_count) == pytest.approx((1000, 25))
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
    deviation = math.sqrt(sum(weight * (number - middle) ** 2 for number, weight in pairs) / total)
    effective = total**2 / sum(weight**2 for _, weight in pairs)
    h = 0.9 * min(deviation, (quantile(0.75) - quantile(0.25)) / 1.34) * effective**-0.2
    for point in points[::7]:
        mean, error = means(counts.tolist(), values.tolist(), weights.tolist(), point.training_count, h)
        assert point.value == pytest.approx(mean, abs=1e-9)
        if point.effective_labels < 3:
            assert math.isnan(point.low)
        elif point.effective_labels > 5:
            wide = float(student.ppf(0.975, point.effective_labels - 1))
            assert point.value - max(0, point.value - wide * error) == pytest.approx(point.value - point.low, rel=0.03)


def test_a_curve_holds_the_truth():
    """1,000 draws of hits: the band holds the local mean of the true shares about 95 % of the time, head to tail."""
    generator = torch.Generator().manual_seed(0)
    counts = (20_000 / torch.arange(1, 301)).long()
    truth = 0.2 + 0.15 * counts.double().log10()
    coverage = torch.zeros(3)
    for _ in range(1000):
        support = torch.randint(2, 12, (300,), generator=generator)
        hits = torch.binomial(support.double(), truth, generator=generator)
        points = local_means(counts, hits / support, support)
        true = local_means(counts, truth, support)
        coverage += torch.tensor([points[at].low <= true[at].value <= points[at].high for at in (24, 36, 54)])
    assert ((coverage > 930) & (coverage < 970)).all()  # 950 within 3 standard errors


def test_unseen_labels_are_one_point_and_few_counts_no_curve():
    """Count 0 has the mean of the unseen labels, weighted; with two different counts there is nothing to draw."""
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
    """Scores, targets, counts and a report with values of labels."""
    generator = torch.Generator().manual_seed(4)
    counts = (3000 / torch.arange(1, 61)).long()
    scores = torch.randn(200, 60, generator=generator) + counts.log() / 2
    target = torch.multinomial(counts.float(), 200, replacement=True, generator=generator)
    metrics = [RecallAtK(5, buckets=LabelBuckets.deciles(counts)), RecallAtK(5, average="none", num_labels=60)]
    return scores, target, counts, evaluate(scores, target, metrics=metrics, intervals=False)


def test_the_report_draws_the_curve_with_the_edges_of_the_buckets(evaluated, tmp_path):
    """On the page and in the picture, and its numbers in curve.csv; an edge lies between the counts on its two sides."""
    _, _, counts, report = evaluated
    (chart,) = drawings(report, "curve")
    assert chart.in_picture
    edges = [mark.places[0][0] for mark in chart.marks if mark.kind == "line" and mark.style == "thin"]
    ends = list(torch.tensor([row.labels for row in report.buckets if row.labels]).cumsum(0))[:-1]
    assert len(edges) == len(ends)
    drawn = report.curves["recall@5"]
    scale = [math.log(drawn[-1].training_count), math.log(drawn[0].training_count)]
    for edge, end in zip(edges, ends, strict=True):
        at = math.exp(scale[1] - edge * (scale[1] - scale[0]))
        assert counts[end] - 1e-9 <= at <= counts[end - 1] + 1e-9
    lines = list(csv.DictReader((report.write(tmp_path)[0].parent / "curve.csv").open()))
    assert [float(line["value"]) for line in lines] == [point.value for point in drawn]
    assert all(line["metric"] == "recall@5" for line in lines)


def test_a_file_of_a_drawing_is_named_by_what_it_shows(evaluated, tmp_path):
    """Not by values, which differ from run to run; a name is no longer than file systems take."""
    scores, target, counts, report = evaluated
    names = [path.name for path in report.write(tmp_path, figures="svg")]
    assert {"report_recall@5_from_head_to_tail.svg", "report_recall@5_by_training_count.svg"} <= {*names}
    assert "0 occurrences" in drawings(report, "curve")[0].in_words

    long = RecallAtK(5, buckets=LabelBuckets.deciles(counts), name="é" * 200)
    path = evaluate(scores, target, metrics=[long], intervals=False).write(tmp_path, figures="svg")[-1]
    assert path.name.startswith("report_éééé")
    assert path.exists()


def test_a_comparison_draws_the_curves_that_each_run_has():
    """A run that shows one label alone, which is never relevant, has no precision by label; the order of runs is free."""
    target = torch.arange(22) % 11
    runs = {
        "mixed": torch.randn(22, 12, generator=torch.Generator().manual_seed(0)),
        "single": torch.arange(12.0).expand(22, 12),
    }
    options = {"metrics": [PrecisionAtK(k=1)], "label_counts": torch.arange(1, 13), "labels": True, "resamples": 99}
    for names in (["mixed", "single"], ["single", "mixed"]):
        compared = compare_runs({name: runs[name] for name in names}, target, **options)
        assert list(compared.curves) == ["recall@1", "f1@1"]


def test_a_comparison_draws_a_curve_for_each_run(evaluated):
    """Both runs are smoothed alike; the numbers are those of the reports of the runs."""
    scores, target, counts, report = evaluated
    metrics = [RecallAtK(5), RecallAtK(5, average="none", num_labels=60)]
    runs = {"one": scores, "two": -scores}
    compared = compare_runs(runs, target, metrics=metrics, label_counts=counts, resamples=300)
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
    """3 to 7 numbers that are 1, 2 or 5 times a power of ten apart, or powers of ten where an axis has two."""
    ticks_of_scale = scale.ticks()
    assert [text for tick in ticks_of_scale for text in tick.texts] == ticks
    assert all(-1e-9 <= tick.at <= 1 + 1e-9 for tick in ticks_of_scale)


def test_references_of_a_collection_reach_the_report():
    """Chance, popularity and the attainable by bucket and over all labels, and the adjusted gap, as the collection has them."""
    generator = torch.Generator().manual_seed(6)
    counts = (3000 / torch.arange(1, 61)).long()
    scores = torch.randn(200, 60, generator=generator)
    target = torch.multinomial(counts.float(), 200, replacement=True, generator=generator)
    names = ("chance", "popularity", "attainable")
    metrics = [RecallAtK(5, buckets=LabelBuckets.deciles(counts), scope="global")]
    report = evaluate(scores, target, metrics=TopKCollection(metrics, references=names), label_counts=counts)
    assert {*report.references} == {*names}
    assert report.references["chance"]["recall@5"] == pytest.approx(5 / 60)
    assert report.references["attainable"]["global_recall@5/decile_1"] == 1
    assert report.references["popularity"]["global_recall@5/decile_1"] == 0
    assert "global_recall@5/adjusted_gap" in report.summaries
    (chart,) = drawings(report, "headline")
    measured = sum(not math.isnan(value) for value in report.by_bucket["global_recall@5"].values())
    assert len(levels(chart, "line", "dotted")) == measured
    by_itself = evaluate(scores, target, metrics=metrics, label_counts=counts)
    assert repr(by_itself.references) == repr(
        report.references
    )  # a report always has them, where the number of labels is known
    assert evaluate(scores.topk(9).indices, target, metrics=[RecallAtK(5)]).references == {}


def test_parts_of_a_value_have_no_line_at_their_sum_and_recall_is_drawn_first():
    """Of two buckets with .5 and .25 of P@1 = .75 the highest bar fills the drawing; the headline comes first."""
    buckets = LabelBuckets.from_assignment([0, 0, 1, 1], ["head", "tail"])
    parts = PrecisionAtK(1, denominator="k", empty_target_action="neg", buckets=buckets, scope="global")
    metrics = [parts, RecallAtK(1, buckets=buckets, scope="global")]
    report = evaluate(torch.eye(4)[[0, 1, 2, 2]], torch.arange(4), metrics=TopKCollection(metrics, references=[]))
    bare = replace(
        report,
        records=[
            replace(record, interval=None, chance=None, popularity=None, attainable=None) for record in report.records
        ],
    )
    recall, precision = drawings(bare, "headline") + drawings(bare, "buckets")
    assert (recall.title, precision.title) == ("global_recall@1", "global_precision_k_neg@1")
    assert len(levels(recall, "line", "dashed")) == 1
    assert levels(precision, "line", "dashed") == []
    bars = [max(up for _, up in mark.places) for mark in precision.marks if mark.kind == "bar"]
    assert bars == pytest.approx([1.0, 0.5])
    assert "all labels" not in precision.in_words + precision.caption.replace("the value over all labels", "")
