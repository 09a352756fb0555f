"""The first look: the answer in words, one screen of a terminal, and the picture of the
headline before any note.
"""

import math
import re
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from printed import in_full
from report.simple import report_of_values
from tailmetrics import (
    MRR,
    F1AtK,
    KForRecall,
    LabelBuckets,
    NDCGAtK,
    PrecisionAtK,
    RecallAtK,
    evaluate,
)
from tailmetrics.evaluation import compare_runs
from tailmetrics.report import BucketRow, page
from tailmetrics.report.formatting import number

COUNTS = torch.tensor([40, 20, 10, 5, 3, 1, 1, 0])
BUCKETS = LabelBuckets.quantiles(COUNTS, 3)
TARGET = torch.tensor([[0, 5], [1, 6], [2, 7], [0, 3]])
"""Two relevant labels in each of four rows."""
LISTS = torch.tensor([[0, 1], [1, 6], [0, 2], [0, 3]])
"""Rows 0 and 2 miss one relevant label each: 5, and the unseen 7."""


def recall(**arguments):
    return evaluate(
        LISTS,
        TARGET,
        metrics=[RecallAtK(k=2, buckets=BUCKETS, scope="global", name="recall@2")],
        **arguments,
    )


def screen(evaluated, width=100, **options):
    return in_full(evaluated, width, **{"verbose": False, **options})


def test_the_answer_gives_the_recall_of_the_lists_in_words():
    """The answer gives the recall overall, of the most frequent and the rarest labels
    and of unseen labels, and the labels that are missed most often. Rows find 1/2, 1,
    1/2 and 1, which is 75 %; of the rarest labels 5 is missed in one of four rows.
    """
    names = [f"label {number}" for number in "abcdefgh"]
    report = recall(labels=True, label_names=names)
    head, tail = (
        [row for row in report.buckets if row.name != "unseen"][end] for end in (0, -1)
    )
    assert (head.labels, tail.labels) == (1, 5)
    assert report.answer == (
        "On average over 4 rows, the first 2 places hold 75 % of the relevant labels: 100 % of those among the most "
        "frequent label (quantile 3), 75 % of those among the 5 rarest labels (quantile 1). 12.5 % of the relevant "
        "labels never occur in training; the first 2 places hold 0 % of these. Most often missed: label f (1 of 1); label h (1 of 1)."
    )
    assert replace(report, words=("users", "items")).answer.startswith(
        "On average over 4 users, the first 2 places"
    )


def test_the_answer_of_other_metrics_says_how_labels_are_ranked():
    """The answer says if labels of buckets are ranked among themselves, and if lower
    values are better.

    Without a value there is no answer.
    """
    report = evaluate(LISTS, TARGET, metrics=[NDCGAtK(k=2, buckets=BUCKETS)])
    assert (
        "If the labels of each bucket are ranked among themselves, it is"
        in report.answer
    )
    assert report.answer.startswith(
        f"ndcg@2 is .{round(1000 * report.scalars['ndcg@2'])} over 4 rows."
    )
    ranks = report_of_values("", {"rank": 3.0}, lower=["rank"], rows=2, headline="rank")
    assert ranks.answer == "rank, where lower is better, is 3.00 over 2 rows."
    assert report_of_values("", {"rank": math.nan}, headline="rank").answer == ""


def test_the_answer_says_that_unseen_labels_are_ranked_among_themselves():
    """For unseen labels that are ranked among themselves the answer says so: label 7,
    the only one, is first among them, and in no list of two.
    """
    metrics = [RecallAtK(k=2, buckets=BUCKETS), NDCGAtK(k=2, buckets=BUCKETS)]
    scores = torch.zeros(4, 8).scatter(1, LISTS, 1.0)
    report = evaluate(scores, TARGET, metrics=metrics)
    assert (
        "training; if these are ranked among themselves, the first 2 places hold 100 % of them."
        in report.answer
    )
    report = evaluate(scores, TARGET, metrics=metrics, headline="ndcg@2")
    assert (
        "training; if these are ranked among themselves, ndcg@2 is 1.00."
        in report.answer
    )


EMPTY = torch.tensor([[0, 5], [-1, -1], [2, 7], [-1, -1]])
"""Two of the four rows have no relevant label."""


@pytest.mark.parametrize(
    "metric",
    [
        RecallAtK(k=2, empty_target_action="skip"),
        RecallAtK(k=2, average="micro", empty_target_action="skip"),
        RecallAtK(k=2, average="macro", num_labels=8, empty_target_action="skip"),
        KForRecall(min_recall=0.5, miss_value=4),
        KForRecall(min_recall=0.5, miss_value=4, statistic="mean"),
    ],
    ids=repr,
)
def test_the_answer_gives_the_rows_that_count(metric):
    """The answer gives the number of rows that count, without those left out, for
    means, medians and sums, and a note counts the rows that are left out.
    """
    report = evaluate(LISTS, EMPTY, metrics=[metric])
    assert "over 2 rows (2 without a relevant label are left out)" in report.answer
    assert any(
        "2 of 4 rows have no relevant label, and are left out of" in text
        for text in report.warnings
    )


def test_the_answer_gives_the_rows_of_groups_that_count():
    """The answer gives the number of rows of a group that count: two of group a, with a
    recall of 1/2, and one of group b.
    """
    metric = RecallAtK(k=2, empty_target_action="skip")
    target = torch.tensor([[0, 5], [-1, -1], [2, 7], [0, 3]])
    report = evaluate(LISTS, target, metrics=[metric], row_groups=["a", "a", "a", "b"])
    assert report.answer.endswith(
        "lowest in a (.500, 2 rows) and highest in b (1.00, 1 row)."
    )


def test_the_answer_reads_only_recall_as_a_share_of_labels():
    """The answer speaks of a share of relevant labels only for recall, not for a
    precision with the name of a recall.
    """
    metric = PrecisionAtK(k=2, buckets=BUCKETS, scope="global", name="recall@2")
    assert "places hold" not in evaluate(LISTS, TARGET, metrics=[metric]).answer


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_the_first_screen_shows_the_headline_by_bucket_and_all_overall_values(width):
    """The first screen shows the headline in every bucket, every overall value, five
    notes and the number of the others, and where the rest is. No line is longer than
    the terminal is wide.
    """
    report = evaluate(
        LISTS,
        TARGET,
        metrics=[
            RecallAtK(k=2, buckets=BUCKETS, scope="global"),
            PrecisionAtK(k=[1, 2]),
            MRR(),
        ],
    )
    report_with_notes = replace(
        report, notes=tuple(f"note {place} {'is long ' * 40}" for place in range(9))
    )
    text = screen(report_with_notes, width, rest="The rest is elsewhere.")
    assert max(map(len, text.splitlines())) <= width
    for row in report.buckets:
        assert re.search(
            rf"{row.name}.*{number(report.scalars[f'global_recall@2/{row.name}'])}",
            text,
        )
    for key, value in report.overall.items():
        assert re.search(rf"{re.escape(key)} +{number(value)}", text)
    notes = [line for line in text.splitlines() if line.startswith("! ")]
    assert notes[-1] == f"! {len(report_with_notes.warnings) - 5} more notes"
    assert len(notes) == 6
    assert "The rest is elsewhere." in text


def test_verbose_prints_all_tables_and_notes():
    """With ``verbose`` every table of Markdown and every full note is printed."""
    report = replace(recall(labels=True), notes=("a note " + "that is long " * 20,))
    text = " ".join(screen(report, 200, verbose=True).split())
    for section in report.document(brief=True).tables:
        assert section.title.lower() in text.lower()
    assert "that is long " * 19 in text


def runs(count):
    generator = torch.Generator().manual_seed(3)
    target = torch.randint(0, 8, (80,), generator=generator)
    runs = {"right": torch.eye(8)[target]}
    runs |= {
        f"run {index}": torch.randn(80, 8, generator=generator)
        for index in range(count - 1)
    }
    metrics = [
        RecallAtK(k=2, buckets=BUCKETS, scope="global"),
        MRR(),
        PrecisionAtK(k=1),
    ]
    return compare_runs(runs, target, metrics=metrics, resamples=200)


@pytest.mark.parametrize("count", [2, 3, 6])
def test_a_comparison_prints_at_most_40_lines(count):
    """A comparison prints at most 40 lines with all overall values: the differences by
    bucket of two runs, or a line for each of several runs.
    """
    compared = runs(count)
    text = screen(compared)
    assert len(text.splitlines()) <= 40
    assert text.startswith(compared.verdict[:40])
    for key, values in compared.values.items():
        place = compared.places[key]
        if not (place.bucket or place.summary) and place.metric != "global_recall@2":
            for value in values.values():
                assert re.search(rf"{re.escape(key)} .*{number(value)}", text)
    if count == 2:
        for name in compared.buckets:
            comparison = compared.against(f"global_recall@2/{name}", "run 0")
            if comparison is not None and not math.isnan(comparison.difference):
                line = next(line for line in text.splitlines() if line.startswith(name))
                assert f"{comparison.difference:+.4f}" in line
                assert ("*" in line) == comparison.significant


def test_a_page_shows_answer_and_picture_before_notes():
    """A page shows the answer and the picture before the notes and tables, and no two
    of its sections have the same title.
    """
    report = replace(recall(labels=True), notes=("a note of the user",))
    for evaluated in (report, runs(3)):
        text = page(evaluated)
        verdict = (evaluated.document().verdict or "").splitlines()[0][:30]
        offsets = [
            text.index(part)
            for part in (verdict, 'class="headline"', 'class="chart"', 'id="part-')
        ]
        assert all(offset < next_offset for offset, next_offset in pairwise(offsets))
        assert evaluated.document().warnings == [] or text.index(
            'class="chart"'
        ) < text.index('class="notes"')
        titles = [
            section.title for section in evaluated.document(references=True).sections
        ]
        assert len(set(titles)) == len(titles)


def test_a_wide_table_of_a_page_is_split():
    """A table that is wider than a page of 1,040 pixels is split into tables, which
    each start with the column of names.
    """
    names = [f"decile_{place}" for place in range(10, 0, -1)]
    scalars = {f"metric_{kind}@10/{name}": 0.5 for kind in range(29) for name in names}
    report = report_of_values(
        "", scalars, buckets=[BucketRow(name, 1, 1, 1) for name in names]
    )
    (table,) = (
        section for section in report.document().tables if section.name == "buckets"
    )
    assert len(table.parts) > 2
    # "metric_" has 7 letters of 8.2 pixels, and 14 pixels are between columns: 13
    # columns fit beside the names
    assert all(
        part.header[0] == "bucket" and len(part.header) <= 14 for part in table.parts
    )
    assert [
        name for part in table.parts for name in part.header if name != "bucket"
    ] == table.header[1:]


@pytest.mark.parametrize("form", ["svg", "pdf"])
def test_figures_writes_each_drawing_to_a_file(tmp_path, form):
    """`figures` writes each drawing to a file, with the same bytes each time.

    An unknown format is refused before anything is written.
    """
    report = evaluate(
        LISTS,
        TARGET,
        metrics=[
            RecallAtK(k=2, buckets=BUCKETS, scope="global"),
            PrecisionAtK(k=1, buckets=BUCKETS),
        ],
    )
    paths = [
        path
        for path in report.write(tmp_path, figures=form)
        if path.suffix == f".{form}"
    ]
    assert [path.name for path in paths] == [
        f"report_global_recall@2_from_head_to_tail.{form}",
        f"report_precision@1_from_head_to_tail.{form}",
    ]
    before = [path.read_bytes() for path in paths]
    report.write(tmp_path, figures=form)
    assert [path.read_bytes() for path in paths] == before
    with pytest.raises(ValueError, match="figures"):
        report.write(tmp_path / "other", figures="gif")
    assert not (tmp_path / "other").exists()


def test_the_answer_calls_only_the_last_bucket_the_rarest():
    """If the rarest bucket has no positive, the answer names the next bucket, and does
    not call its labels the rarest.
    """
    target = torch.arange(90) % 9
    arguments = {
        "label_counts": list(range(20, 0, -1)),
        "buckets": "quantiles:3",
        "metrics": [RecallAtK(3)],
    }
    answer = evaluate(torch.eye(20)[target], target, **arguments).answer
    assert "the 4 most frequent labels (quantile 3)" in answer
    assert "the 5 labels of 'quantile_2'" in answer
    assert "rarest" not in answer


def test_an_answer_says_that_nothing_was_evaluated():
    """If all rows are masked, the answer says that no row was evaluated."""
    report = evaluate(
        torch.eye(3),
        torch.arange(3),
        metrics=[RecallAtK(1)],
        row_mask=torch.zeros(3, dtype=torch.bool),
    )
    assert report.answer == "No row was evaluated: there is none, or all are left out."


def test_the_answer_names_the_cut_off_of_missed_labels_if_it_differs():
    """The answer names the cut-off at which labels are missed most often if it is not
    that of the headline.
    """
    scores, target = torch.eye(6)[torch.arange(12) % 6].roll(1, 1), torch.arange(12) % 6
    answers = []
    for k in (1, 2):
        metrics = [RecallAtK(k=k), F1AtK(k=2, average="macro", num_labels=6)]
        answers.append(
            evaluate(
                scores, target, metrics=metrics, labels=True, headline=f"recall@{k}"
            ).answer
        )
    assert "Most often missed at k = 2: " in answers[0]
    assert "Most often missed: " in answers[1]
