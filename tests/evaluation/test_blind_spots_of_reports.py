"""Blind spots of a report equal those of plain loops over rows, in every output and for
any batches.
"""

from collections import Counter

import pytest
import torch

import tailmetrics as tm
from printed import in_full
from tailmetrics.evaluation import Evaluation
from tailmetrics.report import latex, markdown, page
from tailmetrics.report.formatting import in_latex
from tailmetrics.significance import blind_spots

N, L, K = 900, 40, 3
POPULARITY = (torch.arange(L) + 4.0) ** -1.6
BUCKETS = tm.LabelBuckets.quantiles((POPULARITY * 1e5).long(), 3)
NAMES = [f"name {label}" for label in range(L)]


def data(blind: bool = True) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores that find each label alike, except that label 4 is mostly taken for label
    6.
    """
    generator = torch.Generator().manual_seed(0)
    target = torch.multinomial(POPULARITY, N, replacement=True, generator=generator)
    scores = torch.randn(N, L, generator=generator)
    scores[torch.arange(N), target] += 2.5
    if blind:
        scores[target == 4, 4] -= 3
        scores[target == 4, 6] += 3
    return scores, target


def accumulated(parts: list[list[int]], **arguments: object) -> Evaluation:
    scores, target = data()
    evaluations = [
        Evaluation(
            [tm.RecallAtK(K, buckets=BUCKETS)],
            labels=True,
            label_names=NAMES,
            confidence=0.95,
        )
        for _ in parts
    ]
    for evaluation, part in zip(evaluations, parts, strict=True):
        evaluation.update(scores[part], target[part])
    for other in evaluations[1:]:
        evaluations[0].merge_state(other)
    return evaluations[0]


def test_blind_spot_lists_the_labels_that_rows_rank_instead():
    """A label that the model mostly takes for label 6 is a blind spot, with label 6
    first among the labels in its place. Hits, rows, expectation and q equal those of
    plain loops; the labels listed instead are counted in the rows that miss it.
    """
    scores, target = data()
    lists = scores.argsort(dim=1, descending=True, stable=True)[:, :K].tolist()
    hits = [
        sum(
            t == label and t in listed
            for t, listed in zip(target.tolist(), lists, strict=True)
        )
        for label in range(L)
    ]
    support = [int((target == label).sum()) for label in range(L)]
    expected = blind_spots(hits, support, BUCKETS.assignment)
    assert expected.listed.tolist() == [4]
    (spot,) = accumulated([list(range(N))]).report("").blind_spots
    assert (spot.label, spot.name, spot.bucket) == (4, "name 4", "quantile_2")
    assert (spot.hits, spot.support, spot.expected, spot.q) == (
        hits[4],
        support[4],
        expected.expected[4],
        expected.q[4],
    )
    lists_of_misses = [
        listed
        for t, listed in zip(target.tolist(), lists, strict=True)
        if t == 4 and 4 not in listed
    ]
    counts = Counter(label for listed in lists_of_misses for label in listed)
    best = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:3]
    assert best[0][0] == 6
    assert [(entry["label"], entry["rows"]) for entry in spot.instead] == best


def test_blind_spots_do_not_depend_on_batches_or_row_order():
    """A report of three shares, merged with their rows in another order, equals the
    report of one batch as JSON.
    """
    order = torch.randperm(N, generator=torch.Generator().manual_seed(1)).tolist()
    report, other = (
        accumulated(parts).report("").as_dict()
        for parts in ([list(range(N))], [order[:9], order[9:500], order[500:]])
    )
    assert report["blind_spots"] == other["blind_spots"]
    assert report == other


@pytest.mark.parametrize(
    "renderer", [in_full, markdown, latex, page, lambda report: report._repr_html_()]
)
def test_every_output_shows_blind_spots(renderer):
    """Every output shows the bucket, expected hits and q of a blind spot, and how many
    labels have too few rows.
    """
    report = accumulated([list(range(N))]).report("")
    (spot,), text = (
        report.blind_spots,
        " ".join(renderer(report).replace("│", " ").split()),
    )
    assert "lind spots" in text
    for shown_text in (spot.bucket, f"{spot.expected:,.1f}", "<0.0001"):
        assert (
            in_latex(shown_text) in text
            or shown_text.replace("<", "&lt;") in text
            or shown_text in text
        )
    few = int(report.labels.tests.too_few_rows[BUCKETS.assignment.numpy() == 2].sum())
    assert 0 < few < BUCKETS.sizes[2]
    shown_text = f"{few} of {BUCKETS.sizes[2]} labels in quantile_1"
    assert shown_text in text or in_latex(shown_text) in text


def test_labels_csv_has_q_of_every_label_and_reports_say_when_there_is_no_blind_spot():
    """The labels table holds q and the expectation of every label.

    A report without blind spots says that there are none. Without intervals, which need
    the rows, no label stands in place of a blind spot; without buckets nothing is
    tested.
    """
    header, lines = accumulated([list(range(N))]).report("").csv_tables()["labels"]
    tests = accumulated([list(range(N))]).report("").labels.tests
    for cells in lines:
        line = dict(zip(header, cells, strict=True))
        assert line["q"] == pytest.approx(tests.q[line["label"]], nan_ok=True)
        assert line["expected"] == pytest.approx(
            tests.expected[line["label"]], nan_ok=True
        )
    scores, target = data(blind=False)
    report = tm.evaluate(
        scores, target, metrics=[tm.RecallAtK(K, buckets=BUCKETS)], labels=True
    )
    assert report.blind_spots == []
    assert (
        "No label is found significantly less often than the other labels of its bucket. Too few rows to tell: "
        in markdown(report)
    )
    without = tm.evaluate(
        *data(),
        metrics=[tm.RecallAtK(K, buckets=BUCKETS)],
        labels=True,
        intervals=False,
    )
    assert [spot.instead for spot in without.blind_spots] == [[]]
    assert tm.evaluate(*data(), metrics=[tm.RecallAtK(K)]).blind_spots == ()


def test_clustered_rows_are_not_tested_for_blind_spots():
    """With clusters a report names no blind spot and says why: the test takes rows as
    independent.

    Label 2 is missed in 5 rows, each repeated 60 times; without clusters it is a blind
    spot.
    """
    target = torch.arange(6).repeat(5).repeat_interleave(60)
    scores = torch.nn.functional.one_hot(target, 6).double()
    scores[target == 2] = 1.0 - scores[target == 2]
    arguments = {
        "metrics": [tm.RecallAtK(1)],
        "label_counts": [9] * 6,
        "buckets": "thresholds:1",
        "labels": True,
    }
    assert [
        spot.label for spot in tm.evaluate(scores, target, **arguments).blind_spots
    ] == [2]
    report = tm.evaluate(
        scores, target, clusters=torch.arange(len(target)) // 60, **arguments
    )
    assert report.blind_spots == []
    assert (
        "Blind spots are not looked for: the test takes rows as independent"
        in markdown(report)
    )


def test_too_few_rows_leaves_out_a_label_alone_in_its_bucket():
    """The sentence on too few rows does not count a label that is alone in its bucket,
    because it has no labels to be compared with. Here it counts the 4 labels of the
    other bucket.
    """
    target = torch.arange(5)
    report = tm.evaluate(
        torch.nn.functional.one_hot(target, 5).double(), target, metrics=[tm.RecallAtK(1)], labels=True,
        label_counts=[50, 5, 5, 5, 5], buckets="thresholds:1,9:many,few",
    )  # fmt: skip
    assert report.labels.too_few_rows() == "too few rows to tell: 4 of 4 labels in few"


def test_too_few_rows_counts_a_label_whose_bucket_has_no_other_rows():
    """A label with rows counts as one with too few rows if the other labels of its
    bucket have none.

    Here the bucket has 3 labels and only one has rows: 3 of 3 are counted.
    """
    target = torch.tensor([0, 1, 2, 0, 1])
    report = tm.evaluate(
        torch.nn.functional.one_hot(target, 5).double(), target, metrics=[tm.RecallAtK(1)], labels=True,
        label_counts=[9, 9, 0, 0, 0], buckets="thresholds:1",
    )  # fmt: skip
    assert "3 of 3 labels in unseen" in report.labels.too_few_rows()
