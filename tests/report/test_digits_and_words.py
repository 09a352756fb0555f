"""Values are shown with their correct digits, and texts use the words of the field for
rows and labels.
"""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from tailmetrics import (
    MRR,
    CrossEntropy,
    LabelAUC,
    LabelBuckets,
    PopularityAtK,
    PredictionProportionAtK,
    RecallAtK,
    evaluate,
)
from tailmetrics.evaluation import compare_runs
from tailmetrics.report import BucketRow, ComparisonReport, Record, page, paper_table
from tailmetrics.report.breakdowns import what_buckets_are
from tailmetrics.report.text import markdown
from tailmetrics.report.words import in_words
from tailmetrics.significance import Interval, PValues, compare, verdict
from tailmetrics.significance.interval import Method

COUNTS = (200 / torch.arange(1, 21)).long()


def data() -> tuple[torch.Tensor, torch.Tensor]:
    """Return scores and targets of 90 rows and 20 labels."""
    generator = torch.Generator().manual_seed(4)
    scores = torch.randn(90, 20, generator=generator)
    target = torch.multinomial(
        COUNTS.float(), 90, replacement=True, generator=generator
    )
    scores[torch.arange(90), target] += 1
    return scores, target


@pytest.mark.parametrize(
    ("error", "decimals"),
    [(None, 4), (0.0, 4), (0.00005, 4), (0.00006, 3), (0.0018, 2), (0.05, 1), (0.3, 1)],
)
def test_half_of_the_last_digit_is_at_least_the_error(
    error: float | None, decimals: int
) -> None:
    """A value has so many decimals that half a unit of the last one is at least the
    error: an error of .0018 leaves two, as half of .001 is less and half of .01 is
    more.
    """
    assert Record("m", "m", 0.9194, error_bound=error).decimals == decimals


def test_an_area_of_histograms_shows_its_correct_digits() -> None:
    """An area with 256 bins is shown with fewer digits than one with 4,096 bins, from
    which it differs by at most one unit of the last digit.
    """
    scores, target = data()
    coarse = evaluate(
        scores, target, metrics=[LabelAUC(num_labels=20, bins=256)], intervals=False
    )
    exact = evaluate(
        scores, target, metrics=[LabelAUC(num_labels=20, bins=4096)], intervals=False
    )
    record = coarse.by_key["macro_auc"]
    assert record.error_bound > 0.0005
    text = record.text
    assert len(text.partition(".")[2]) == record.decimals < 4
    assert abs(float(text) - exact.scalars["macro_auc"]) <= 10**-record.decimals
    assert len(exact.by_key["macro_auc"].text.partition(".")[2]) > record.decimals


def test_areas_of_groups_buckets_and_gaps_have_error_bounds() -> None:
    """Areas in groups of rows, by bucket, and gaps between buckets have error bounds,
    within which the exact value lies.
    """
    scores, target = data()
    arguments = {
        "row_groups": [["de", "en"][row % 2] for row in range(90)],
        "buckets": "quantiles:2",
    }
    arguments |= {"label_counts": COUNTS, "intervals": False}
    coarse, exact = (
        evaluate(
            scores, target, metrics=[LabelAUC(num_labels=20, bins=bins)], **arguments
        )
        for bins in (64, 4096)
    )
    num_bounded = 0
    for record, finer in zip(coarse.records, exact.records, strict=True):
        if record.is_measured:
            num_bounded += 1
            assert record.error_bound > finer.error_bound >= 0
            assert (
                abs(record.value - finer.value)
                <= record.error_bound + finer.error_bound
            )
            assert record.decimals < 4
    # all rows and two groups, each with all labels, two buckets, gap and spread
    assert num_bounded == 3 * (3 + 2)


def test_an_area_without_a_correct_digit_is_shown_as_a_range() -> None:
    """An area with an error above .05, as with 8 bins, is shown as a range, which
    contains the exact value.
    """
    scores, target = data()
    coarse, exact = (
        evaluate(
            scores,
            target,
            metrics=[LabelAUC(num_labels=20, bins=bins)],
            intervals=False,
        )
        for bins in (8, 4096)
    )
    record = coarse.by_key["macro_auc"]
    assert record.error_bound > 0.05
    low, high = map(float, record.text.strip("[]").split(", "))
    assert low - 0.005 <= exact.scalars["macro_auc"] <= high + 0.005
    assert high - low == pytest.approx(2 * record.error_bound, abs=0.01)


def test_a_comparison_of_areas_shows_their_correct_digits() -> None:
    """A comparison shows areas with at most two decimals if their bins leave no more,
    and recall with four.
    """
    scores, target = data()
    metrics = [LabelAUC(num_labels=20, bins=64), RecallAtK(5)]
    report = compare_runs(
        {"old": scores, "new": scores.flip(0)}, target, metrics=metrics, resamples=99
    )
    area = next(
        comparison for comparison in report.comparisons if comparison.key == "macro_auc"
    )
    assert area.bin_error > 0.0005 and area.decimals <= 2
    digits = rf"0\.\d{{{area.decimals}}}"
    assert re.search(rf"macro_auc +{digits} → {digits}\b", str(report))
    assert re.search(r"recall@5 +0\.\d{4} → 0\.\d{4}\b", str(report))
    assert re.fullmatch(digits, report.cell("macro_auc", "old").rstrip("ᵃᵇ"))


def test_a_significant_difference_is_not_rounded_to_zero() -> None:
    """A significant difference of .00006, 12 of 200,000 rows, is shown with five
    decimals.

    A loss of .04 with an error of .03 keeps two decimals if it is significant.
    """
    old = np.arange(200_000) % 2.0
    new = np.where(np.arange(200_000) < 24, 1.0, old)
    report = ComparisonReport(
        compare({"old": {"hit": old}, "new": {"hit": new}}, resamples=99)
    )
    assert verdict(report.comparisons).startswith(
        "new against old: hit: better (.50000 → .50006, +.00006 [+.00003,"
    )
    assert report.cell("hit", "new") == "0.50006ᵃ"
    (line,) = [
        line for line in markdown(report).splitlines() if line.startswith("| **hit**")
    ]
    assert (
        "**0.50006** | **0.50000** | **+0.00006** | **+0.00003 … +0.00009**" in line
        and "0.0000**" not in line
    )

    (comparison,) = report.comparisons
    loss = replace(comparison.interval, value=-0.04, low=-0.1, high=-0.004)
    assert replace(comparison, interval=loss, bin_error=0.03).decimals == 2
    assert (
        replace(
            comparison, interval=loss, bin_error=0.03, p_corrected=PValues(0.2)
        ).decimals
        == 1
    )


def test_words_of_a_field_replace_only_words_of_sentences() -> None:
    """The words of a field replace rows and labels in sentences, in singular and plural
    and with their capital, but not in names, arguments, options and files.
    """
    users = ("users", "items")
    assert (
        in_words("Rows with 1 label, and rows.", users)
        == "Users with 1 item, and users."
    )
    unchanged = (
        "rows.parquet, label_names=, --row-groups, 'rows', top_labels, labels/row"
    )
    assert in_words(unchanged, users) == unchanged
    assert (
        in_words("rare labels: the labels of a query", users, ["rare labels"])
        == "rare labels: the items of a user"
    )


@pytest.mark.parametrize("kind", ["report", "comparison"])
def test_a_page_with_words_of_a_field_has_no_rows_and_labels(kind: str) -> None:
    """A page with the words users and items does not mention rows or labels in
    headings, captions, columns and notes, except for arguments of metrics.
    """
    scores, target = data()
    arguments = {
        "metrics": [RecallAtK(3, average="macro", num_labels=20), RecallAtK(3)],
        "label_counts": COUNTS,
        "buckets": "quantiles:3",
        "row_groups": ["de", "en", "de"] * 30,
    }
    if kind == "report":
        evaluated = evaluate(scores, target, labels=True, **arguments)
    else:
        runs = {"one": scores, "two": scores.roll(1, 0)}
        evaluated = compare_runs(runs, target, resamples=200, **arguments)
    text = page(replace(evaluated, words=("users", "items")))
    text = text.partition('<details id="settings">')[0]
    words = set(
        re.findall(r"(?<![\w=.'-])(?:[Rr]ows?|[Ll]abels?)(?![\w=.'-])", text_of(text))
    )
    assert words == set()
    assert "users" in text and "items" in text


def text_of(text: str) -> str:
    """Return the text of a part of a page, with the alternative texts of drawings."""
    content = re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)
    labels = " ".join(re.findall(r'aria-label="([^"]*)"', content))
    return f"{re.sub('<[^>]*>', ' ', content)} {labels}"


def test_each_kind_of_buckets_has_its_sentence() -> None:
    """Each kind of buckets has its sentence, and buckets without training counts have
    none on them.
    """
    deciles = [BucketRow(f"quantile_{number}", 3, 9, 9, "1-3") for number in (2, 1)]
    chapters = [BucketRow(f"chapter {number}", 2, 0, 1, kind=1) for number in range(12)]
    text = what_buckets_are([*deciles, *chapters])
    assert text == (
        "quantile_2 holds the most frequent labels, quantile_1 the rarest; each has about a half of all labels. "
        "Buckets of labels, in the order given, from chapter 0 to chapter 11."
    )
    assert "no label" not in what_buckets_are(chapters)


def test_row_groups_are_shown_wherever_buckets_are() -> None:
    """Groups of rows are in the answer, in the first look, in the picture, and as a
    table of runs and groups in a comparison.
    """
    scores, target = data()
    groups = ["de", "en", "de"] * 30
    report = evaluate(scores, target, metrics=[RecallAtK(3)], row_groups=groups)
    assert re.search(
        r"By group of rows it is lowest in (de|en) \(.*\) and highest in (de|en)",
        report.answer,
    )
    assert [chart.title for chart in report.document().charts] == ["recall@3"]
    assert "de" in str(report) and "en" in str(report)
    assert "![Evaluation: recall@3 by group of rows](a.png)" in markdown(
        report, picture="a.png"
    )
    compared = compare_runs(
        {"one": scores, "two": -scores},
        target,
        metrics=[RecallAtK(3)],
        row_groups=groups,
        resamples=200,
    )
    (table,) = [
        part
        for part in compared.document().tables
        if part.title == "recall@3 by group of rows"
    ]
    assert table.header == ["", "run", "de", "en"]
    values = compared.values["recall@3/de"]
    assert [line[2][:6] for line in table.lines] == [
        f"{values[line[1]]:.4f}" for line in table.lines
    ]
    assert "recall@3 by group of rows" in str(compared)


def test_tables_give_the_counts_of_values() -> None:
    """The table of overall values gives the number of rows of each, and the table by
    bucket has a column of rows with a relevant label.
    """
    scores, target = data()
    buckets = LabelBuckets.quantiles(COUNTS, 3)
    report = evaluate(
        scores, target, metrics=[RecallAtK(3, buckets=buckets, scope="global")]
    )
    (overall,) = [part for part in report.document().tables if part.name == "overall"]
    assert overall.lines[0][2] == "90 rows"
    (table,) = [part for part in report.document().tables if part.name == "buckets"]
    column = table.header.index("rows with a relevant label")
    for line in table.lines[1:-1]:
        in_bucket = buckets.assignment[target] == buckets.names.index(line[0])
        assert line[column] == str(int(in_bucket.sum()))


@pytest.mark.parametrize(
    ("count", "count_of", "text"),
    [
        (1.0, "rows with a relevant label", "1 row with a relevant label"),
        (1.0, "labels with rows", "1 label with rows"),
        (1.0, "relevant labels", "1 relevant label"),
        (1.0, "sum of the denominators of rows", "1 sum of the denominators of rows"),
        (1200.0, "labels with rows", "1,200 labels with rows"),
    ],
)
def test_a_count_of_one_has_a_singular_noun(
    count: float, count_of: str, text: str
) -> None:
    """The noun of a count of 1 is singular."""
    assert Record("a", "a", 0.5, count=count, count_of=count_of).count_in_words == text


def test_an_answer_says_how_rows_without_a_relevant_label_count() -> None:
    """The answer says how many rows without a relevant label count as 0."""
    target = torch.eye(4)[torch.arange(20) % 4]
    target[10:] = 0
    report = evaluate(
        torch.eye(4)[torch.arange(20) % 4], target, metrics=[RecallAtK(1)]
    )
    assert report.answer == (
        "On average over 20 rows (10 without a relevant label count as 0), the first place holds 50 % of the relevant "
        "labels."
    )


def test_paper_table_has_a_line_for_each_run() -> None:
    """`paper_table` gives a LaTeX table with a line for each run and a column for each
    bucket of a metric, on request in percent, with the best value of a column bold. An
    unknown bucket is refused.
    """
    scores, target = data()
    buckets = LabelBuckets.quantiles(COUNTS, 2)
    reports = {}
    for name, preds in {"one_run": scores, "two": -scores}.items():
        reports[name] = evaluate(
            preds, target, metrics=[RecallAtK(3, buckets=buckets, scope="global")]
        )
    table = paper_table(
        reports, ["global_recall@3"], buckets=["", "quantile_1"], percent=True
    )
    best = reports["one_run"]
    whole, tail = (
        100 * best.scalars[key] for key in ("recall@3", "global_recall@3/quantile_1")
    )
    assert r"\multicolumn{2}{c}{global\_recall@3} \\ \cmidrule(lr){2-3}" in table
    assert "run & all & 1 " in table
    assert rf"one\_run & \textbf{{{whole:.1f}}} & \textbf{{{tail:.1f}}} \\" in table
    assert f"two & {100 * reports['two'].scalars['recall@3']:.1f} & " in table
    assert table.count("{") == table.count("}")
    assert "0." in paper_table(reports, ["recall@3"], buckets=[""])
    with pytest.raises(
        ValueError, match="has no value in the bucket 'tail' of 'recall@3'"
    ):
        paper_table(reports, ["recall@3"], buckets=["tail"])


def test_paper_table_shows_only_fractions_in_percent() -> None:
    """In percent, `paper_table` shows values between 0 and 1 times 100, and others as
    they are: a cross-entropy in nats.

    Popularity is bold where it is lowest, and a share of predictions nowhere, because
    neither direction is better.
    """
    scores, target = data()
    buckets = LabelBuckets.quantiles(COUNTS, 2)
    metrics = [
        CrossEntropy(),
        PopularityAtK(3, label_counts=COUNTS),
        PredictionProportionAtK(3, buckets=buckets),
    ]
    reports = {
        name: evaluate(preds, target, metrics=metrics)
        for name, preds in {"a": scores, "b": -scores}.items()
    }
    first, second = (report.scalars for report in reports.values())
    assert first["popularity@3"] > second["popularity@3"]

    table = paper_table(
        reports, ["cross_entropy", "popularity@3"], buckets=[""], percent=True
    )
    assert (
        rf"a & \textbf{{{first['cross_entropy']:.4f}}} & {first['popularity@3']:.4f} \\"
        in table
    )
    assert (
        rf"b & {second['cross_entropy']:.4f} & \textbf{{{second['popularity@3']:.4f}}} \\"
        in table
    )
    table = paper_table(
        reports, ["prediction_proportion@3"], buckets=["quantile_1"], percent=True
    )
    assert rf"a & {100 * first['prediction_proportion@3/quantile_1']:.1f} \\" in table
    assert r"\textbf" not in table


def test_an_interval_beside_few_digits_is_rounded_outwards() -> None:
    """The interval of a value with few digits is rounded outwards: .8112 to .9185 with
    one decimal is .8 to 1.0.
    """
    interval = Interval(0.8648, 0.8112, 0.9185, 90, 0.95, Method.STUDENT)
    record = Record("auc", "auc", 0.8648, interval=interval, error_bound=0.02)
    assert (record.text, record.short) == ("0.9 [.8, 1.0]", ".9")
    assert replace(record, error_bound=None).text == "0.8648 [.8112, .9185]"


def test_a_table_says_why_it_has_no_interval() -> None:
    """Rows of three users have none, and no ± is explained; nine rows of a group have
    none, beside those that have one.
    """
    scores, target = data()
    metrics = [MRR(), RecallAtK(5, average="macro")]
    few_users = markdown(
        evaluate(scores, target, metrics=metrics, clusters=torch.arange(90) % 3)
    )
    assert "No interval, fewer than 10 clusters: mrr, macro_recall@5." in few_users
    assert "±" not in few_users
    groups = ["few" if row < 9 else "many" for row in range(90)]
    text = markdown(
        evaluate(scores, target, metrics=metrics, row_groups=groups)
    ).partition("## By group of rows")[2]
    assert (
        "± is half the width" in text
        and "No interval, fewer than 10 rows: macro_recall@5, mrr." in text
    )
