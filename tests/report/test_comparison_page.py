"""The page and the picture of a comparison: every run, difference and interval, in no script and nothing fetched."""

import math
import re
from dataclasses import replace

import pytest
import torch

from printed import in_full
from report.conftest import NAMES
from report.test_page import Tags
from tailmetrics import (
    MRR,
    CalibrationErrorAtK,
    CatalogCoverageAtK,
    CrossEntropy,
    F1AtThreshold,
    LabelBuckets,
    PrecisionAtK,
    RecallAtK,
    TopKCollection,
    evaluate,
)
from tailmetrics.evaluation import compare_runs
from tailmetrics.report.comparison_data import SUPERSCRIPTS
from tailmetrics.report.formatting import number
from tailmetrics.report.pages import page
from tailmetrics.report.pictures import picture
from tailmetrics.report.text import markdown


def test_values_are_those_of_plain_loops(compared):
    """The share of rows whose best label is right, for each run; the difference is that of two such shares."""
    report, target, runs = compared
    for name, scores in runs.items():
        right = sum(int(row.argmax()) == int(label) for row, label in zip(scores, target, strict=True))
        assert report.values["precision@1"][name] == pytest.approx(right / 80, abs=1e-12)
    comparison = report.against("precision@1", "better <b>")
    values = report.values["precision@1"]
    assert comparison.difference == pytest.approx(values["better <b>"] - values["plain"], abs=1e-12)


def test_one_row_per_run_with_letters_of_the_runs_that_are_worse(compared):
    """The run that finds half of the rows more is better than the first; it says so by the first one's letter."""
    report, _, _ = compared
    table, gaps = report.document().tables[:2]
    assert [line[:2] for line in table.lines] == [["a", "plain"], ["b", "better <b>"], ["c", "other"]]
    place = table.header.index("precision@1")
    assert report.against("precision@1", "better <b>").significant
    assert table.lines[1][place] == number(report.values["precision@1"]["better <b>"]) + "ᵃ"
    assert "ᵇ" not in table.lines[0][place]
    assert table.caption.endswith("Runs were compared with plain alone.")
    best = max(report.values["precision@1"], key=report.values["precision@1"].get)
    assert [line for line, column in table.bold if column == place] == [NAMES.index(best)]
    gap = gaps.header.index("global_recall@3/gap")
    values = report.values["global_recall@3/gap"]
    assert [line[gap] for line in gaps.lines] == [number(values[name]) for name in NAMES]
    assert gap not in {column for _, column in gaps.bold}
    tested = sum(not math.isnan(comparison.p_corrected.randomisation) for comparison in report.comparisons)
    assert 0 < tested < len(report.comparisons)
    assert f"corrected for {tested} comparisons" in table.caption
    assert f"of {tested} comparisons; interval: 0.95 of this comparison alone" in page(report)
    pairs = [table for table in report.document().tables if table.name == "comparisons"]
    assert sum(len(pair.lines) for pair in pairs) == len(report.comparisons)
    outcomes = {line[0]: line[8] for part in pairs for line in part.lines}
    assert outcomes["global_recall@3/gap"] == "–"  # no row has a gap
    assert sum(map(int, outcomes["precision@1"].split("/"))) == 80


def test_of_many_pairs_the_picture_stands_behind_the_first_line():
    """Three runs have three lines; a phone shows the first one and the picture, then the others, before any note."""
    target = torch.arange(60) % 6
    runs = {name: torch.eye(6)[(target + shift) % 6] for name, shift in (("a", 0), ("b", 1), ("c", 2))}
    counts = [9, 7, 5, 3, 2, 1]
    metrics = [RecallAtK(k=1, buckets="deciles", scope="global")]
    report = compare_runs(runs, target, metrics=metrics, label_counts=counts, resamples=200)
    text, lines = page(report), report.verdict.splitlines()
    places = [text.index(f'<p class="verdict">{line[:12]}') for line in lines]
    assert len(places) == 3
    assert places[0] < text.index('<figure class="plot">') < places[1] < places[2]


def test_a_difference_of_one_row_has_a_dash_and_the_reason():
    """One row of 300 makes the whole difference of micro F1: "–" in its line, and below the heading why."""
    generator = torch.Generator().manual_seed(3)
    target = (torch.rand(300, 6, generator=generator) < 0.3).long()
    first = torch.rand(300, 6, generator=generator) * 0.4
    second = first.clone()
    second[7, int(target[7].argmax())] = 0.9
    target[7, 0] = second[7, 0] = 1
    report = compare_runs({"a": first, "b": second}, target, metrics=[F1AtThreshold(0.5)], resamples=300)
    text = markdown(report)
    (line,) = [line for line in text.splitlines() if line.startswith("| micro_f1@t0.5 |") and "1/299/0" in line]
    assert "| – | 0.5000 |" in line
    assert "No interval, too few rows differ: micro_f1@t0.5." in text


def test_what_is_not_compared_is_listed():
    """Coverage and calibration of all lists together: both values beside the comparison; alone, they are refused."""
    generator = torch.Generator().manual_seed(3)
    target, runs = torch.arange(90) % 9, {name: torch.randn(90, 9, generator=generator) for name in "ab"}
    metrics = [PrecisionAtK(k=1), CatalogCoverageAtK(k=1, num_labels=9), CalibrationErrorAtK(k=1)]
    report = compare_runs(runs, target, metrics=metrics, resamples=100)
    alone = {name: evaluate(preds, target, metrics=metrics).scalars for name, preds in runs.items()}
    keys = ["catalog_coverage@1", "calibration_error@1"]
    assert report.not_compared == {key: {name: alone[name][key] for name in "ab"} for key in keys}
    line = " | ".join([keys[1], *(number(alone[name][keys[1]]) for name in "ab")])
    assert f"| {line} |" in markdown(report).partition("## Not compared")[2].replace("\\_", "_")
    with pytest.raises(ValueError, match="left to compare. Not compared: catalog_coverage@1, because rows have no"):
        compare_runs(runs, target, metrics=metrics[1:2], resamples=100)


@pytest.mark.filterwarnings("ignore:.*most lists end before that")
def test_lists_are_unequal_where_a_value_reads_beyond_one_of_them():
    """Lists of 4 and of 6: three places are there in both, of five one has four. A few shorter rows decide nothing."""
    generator = torch.Generator().manual_seed(3)
    target, ids = torch.arange(90) % 9, torch.randn(90, 9, generator=generator).argsort(dim=1)
    six = ids[:, :6].clone()
    six[:20, 2:] = -1
    metrics = [RecallAtK(k=[3, 5], num_labels=9), MRR(num_labels=9)]
    report = compare_runs({"four": ids[:, :4], "six": six}, target, metrics=metrics, resamples=100)
    assert report.unequal_lists == {"recall@5": "four 4, six 5", "mrr": "four 4, six 6"}


def test_titles_are_in_the_order_of_the_comparison():
    """The others against the baseline; where all pairs are compared, the names alone. Labels that win are called labels."""
    generator = torch.Generator().manual_seed(3)
    target, runs = torch.arange(90) % 9, {name: torch.randn(90, 9, generator=generator) for name in "abc"}
    two = {name: runs[name] for name in "ab"}
    metrics = [PrecisionAtK(k=1)]
    for runs_of_page, baseline, title in (
        (two, None, "b against a"),
        (runs, "b", "a, c against b"),
        (runs, None, "a, b, c"),
    ):
        report = compare_runs(runs_of_page, target, metrics=metrics, baseline=baseline, resamples=100)
        assert report.title == title
        assert "win/tie/loss are labels" not in markdown(report)
    macro = compare_runs(two, target, metrics=[PrecisionAtK(k=1, average="macro", num_labels=9)], resamples=100)
    assert "Of averages over labels, win/tie/loss are labels, not rows." in markdown(macro)


def test_the_verdict_stands_first_and_least_differences_beside_each(compared, tmp_path):
    """Below the title in every text; what so many rows would have shown in the table, and where nothing was shown."""
    report, _, _ = compared
    assert "better <b> against plain: global_recall@3" in report.verdict
    tags = Tags(page(report)).text
    assert tags.index("better <b> against plain: ") < tags.index("3 runs")
    assert markdown(report).split("\n\n")[1].startswith("**better &lt;b&gt; against plain: global_recall@3")
    assert str(report).startswith(report.verdict[:40])
    known_differences = [comparison for comparison in report.comparisons if not math.isnan(comparison.least_difference)]
    cells = {
        cell
        for table in report.document().tables
        if table.name == "comparisons"
        for line in table.lines
        for cell in line
    }
    assert known_differences
    assert {number(comparison.least_difference) for comparison in known_differences} <= cells
    unsure = next(
        comparison for comparison in known_differences if not comparison.significant and "/" in comparison.key
    )
    assert f", {number(unsure.least_difference)} would be shown" in page(report)
    assert "least: the smallest true difference that so many rows show" in tags


def test_the_page_holds_every_number(compared):
    """Each comparison in the table, each run and bucket in the words of a drawing."""
    report, _, _ = compared
    tags = Tags(page(report))
    for table in report.document().tables:
        for line in (line for part in table.parts for line in part.lines):
            assert "".join(line) in tags.text.replace("\N{NO-BREAK SPACE}", "").replace(" ", "") or "".join(
                line
            ).replace(" ", "") in tags.text.replace(" ", "")
    images = [tag["aria-label"] for tag in tags.all("svg") if tag.get("role") == "img"]
    for run in NAMES:
        value = report.values["global_recall@3/decile_1"][run]
        assert any(
            f"{run}: " in labels_of_images and f"decile_1 {number(value)}" in labels_of_images
            for labels_of_images in images
        )
    comparison = report.against("global_recall@3/decile_10", "better <b>")
    assert any(
        f"10 {comparison.difference:+.4f} ({comparison.interval.low:+.4f} to {comparison.interval.high:+.4f})"
        in labels_of_images
        for labels_of_images in images
    )


def test_groups_alone_have_a_page_and_a_picture(compared, tmp_path):
    """If only keys of groups were compared, their table and their drawing are shown."""
    report = compared[0]
    chosen = [
        replace(comparison, key="recall@3/en") for comparison in report.comparisons if comparison.key == "recall@3"
    ]
    alone = replace(report, comparisons=chosen, row_groups=["en"])
    assert (alone.overall, alone.by_group) == ([], {"recall@3": {"en": "recall@3/en"}})
    assert "recall@3 by group of rows" in [section.title for section in alone.document().tables]
    assert "recall@3/en" in alone.write(tmp_path)[0].read_text()
    assert (tmp_path / "compare.png").exists()


def test_gaps_of_groups_stand_among_the_comparisons_alone(compared):
    """Beside values over all rows there are gaps over all rows, and no group."""
    first = next(comparison for comparison in compared[0].comparisons if comparison.key == "global_recall@3/gap")
    gaps = [first, replace(first, key="global_recall@3/en/gap")]
    report = replace(compared[0], comparisons=gaps, row_groups=["en"])
    assert (report.overall, report.gaps, report.by_bucket) == ([], ["global_recall@3/gap"], {})


def test_clusters_are_named(compared):
    """How many there are, and what they are, beside the rows; the caption of tests says that they were swapped."""
    _, target, runs = compared
    report = compare_runs(runs, target, metrics=[PrecisionAtK(k=1)], clusters=torch.arange(80) // 4, resamples=200)
    for shown_report, name in ((report, ""), (replace(report, clusters="user"), " (user)")):
        assert shown_report.document().facts[1:3] == ["80 rows compared", f"20 clusters{name}"]
        assert "the rows of a cluster swapped together between the runs, as mid-p" in markdown(shown_report)
    assert "cluster" not in markdown(compared[0])


def test_the_picture_names_the_runs(compared):
    """A legend with each run in its colour and shape, and the verdict where there is one."""
    figure = picture(replace(compared[0], verdict="It is better."))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(NAMES)
    assert len({line.get_color() for line in figure.legends[0].get_lines()}) == len(NAMES)
    assert "It is better." in figure.get_supxlabel()


def test_every_form_is_written(compared, tmp_path):
    """compare.html, .json, .csv, .md, .tex and .png: each text has every value over all labels and by bucket, with its letters."""
    report = compared[0]
    written = {path.name: path for path in report.write(tmp_path)}
    assert set(written) == {f"compare.{suffix}" for suffix in ("html", "json", "csv", "md", "tex", "png")}
    assert written["compare.png"].read_bytes().startswith(b"\x89PNG")
    markdown, latex = written["compare.md"].read_text(), written["compare.tex"].read_text()
    keys = [*report.overall, *(key for keys in report.by_bucket.values() for key in keys.values())]
    beaten = set()
    for key in keys:
        for run in report.runs:
            letters = report.beaten(key, run)
            beaten |= {*letters}
            value = number(report.values[key][run])
            raised = "".join(rf"$^\mathrm{{{letter}}}$" for letter in letters)
            assert f"{value}{letters.translate(SUPERSCRIPTS)}" in markdown.replace("*", "")
            assert f"{value}{raised}".replace("–", "--") in latex
    assert beaten
    for key in report.overall:  # a line of the first table holds the values of all runs
        cells = []
        for run in report.runs:
            raised = "".join(rf"$^\mathrm{{{letter}}}$" for letter in report.beaten(key, run))
            cells.append(f"{number(report.values[key][run])}{raised}")
        assert rf"{' & '.join([key, *cells])} \\" in latex.replace(r"\_", "_")


@pytest.mark.parametrize("rows", [40, 8])
def test_the_least_p_that_random_swaps_can_give_says_so(rows):
    """No swap but those of all rows or none is as far: of 999 random ones p is 1/1000; all 2^8 are gone through.

    All rows are won: 40/0/0.
    """
    right, target = torch.eye(2)[torch.zeros(rows, dtype=torch.int64)], torch.zeros(rows, dtype=torch.int64)
    report = compare_runs({"wrong": -right, "right": right}, target, metrics=[PrecisionAtK(k=[1])], resamples=999)
    (comparison,), text = report.comparisons, markdown(report)
    assert comparison.p.randomisation == pytest.approx(1 / 1000 if rows == 40 else 1 / 2**8)
    assert ("**≤0.0010** | **≤0.0010**" in text, "≤" in text) == (rows == 40, rows == 40)
    assert ("≤: none of 999 random swaps differs as much" in text) is (rows == 40)
    assert f"**{rows}/0/0**" in text


@pytest.mark.filterwarnings("ignore:.*as probabilities do")
def test_losses_of_probabilities_and_of_logits_are_not_compared():
    """One run returned softmax, the other logits: the loss of the first is that of nearly equal scores for all labels."""
    logits, target = 5 * torch.eye(4)[torch.arange(40) % 4], torch.arange(40) % 4
    runs, metrics = {"logits": logits, "soft": logits.softmax(1)}, [MRR(), CrossEntropy()]
    report = compare_runs(runs, target, metrics=metrics, resamples=100)
    assert [comparison.key for comparison in report.comparisons] == ["mrr"]
    assert "Not compared: cross_entropy, because scores of soft lie between 0 and 1, as prob" in str(report.verdict)
    assert "has several runs" not in markdown(report)
    with pytest.raises(ValueError, match="nothing is left to compare. Not compared: cross_entropy, because scores"):
        compare_runs(runs, target, metrics=metrics[1:], resamples=100)
    alike = compare_runs({"soft": runs["soft"], "other": runs["soft"]}, target, metrics=metrics, resamples=100)
    assert [comparison.key for comparison in alike.comparisons] == ["mrr", "cross_entropy"]


def test_an_infinite_value_is_drawn_and_said(tmp_path):
    """A relevant label with the score -inf has an infinite cross-entropy: pages are written, and a verdict says why no test is."""
    target = torch.arange(80) % 12
    scores = torch.randn(80, 12, generator=torch.Generator().manual_seed(0))
    runs = {"a": scores.clone(), "b": scores}
    runs["a"][0, target[0]] = -torch.inf
    report = compare_runs(runs, target, metrics=[CrossEntropy()], resamples=100)
    assert report.verdict == "b against a: no value could be tested: a value is infinite, or too few rows count."
    report.write(tmp_path)
    report = compare_runs(runs, target, metrics=[CrossEntropy(), RecallAtK(k=3)], resamples=100)
    assert report.verdict.startswith("b against a: recall@3: the same in every row")
    assert report.verdict.endswith(". Infinite elsewhere: cross_entropy over all labels.")
    report.write(tmp_path / "both")


HEAD_OF_EIGHT = LabelBuckets.from_assignment([0, 0, 0, 1, 1, 1, 2, 2], ["head", "mid", "tail"])
"""Nothing is relevant in the tail where targets are below 6."""


def two_runs(**arguments):
    generator = torch.Generator().manual_seed(1)
    target = torch.randint(0, 6, (60,), generator=generator)
    scores = torch.randn(60, 8, generator=generator)
    better = scores + 0.8 * torch.eye(8)[target]
    metrics = [RecallAtK(k=2, buckets=HEAD_OF_EIGHT, scope="global")]
    return compare_runs({"old": scores, "new": better}, target, metrics=metrics, resamples=200, **arguments)


def test_p_values_that_are_not_corrected_are_not_said_to_be():
    """In each place that names the correction: the first screen, the tables of runs and of pairs, below the picture."""
    texts = [in_full(two_runs(correction="none"), 200, verbose=False), markdown(two_runs(correction="none"))]
    texts.append(page(two_runs(correction="none")))
    for text in texts:
        assert "not corrected for the number of comparisons" in text
        assert not re.search(r"(?<!not )corrected for", text)
        assert "corrected (none)" not in text
        assert "corrected: none" not in text
    assert "*: significant, corrected for 4 comparisons" in in_full(two_runs(), 200, verbose=False)


def test_a_bucket_without_values_has_no_bar():
    """On the first screen, where the longest bar to the left would be the largest loss."""
    lines = in_full(two_runs(), 200, verbose=False).splitlines()
    (line,) = [line for line in lines if line.startswith("tail")]
    assert line.split() == ["tail", "–", "–", "–", "–"]


def test_no_table_without_differences_speaks_of_them():
    """The tables of runs hold values; drawings of differences are named "new minus old"."""
    assert "Differences are from" not in markdown(two_runs())


def test_questions_that_cannot_be_asked_are_refused_with_some_that_can():
    """Each key or pattern that the error names is one that ``only`` takes; an empty list asks nothing."""
    with pytest.raises(ValueError, match="choose a key or pattern such as") as error:
        two_runs(only=["global_recall@2"])
    choices = str(error.value).partition("such as ")[2].partition(". ")[0].split(", ")
    assert choices == ["global_recall@2/*", "recall@2"]
    for choice in choices:
        assert any(comparison.tested for comparison in two_runs(only=[choice]).comparisons)
    with pytest.raises(ValueError, match=r"only=\[\] is empty, so that nothing would be tested; pass keys or patterns"):
        two_runs(only=[])


def test_a_postfix_changes_no_word_of_the_verdict():
    """Buckets and other metrics are named as without it."""
    generator, verdicts = torch.Generator().manual_seed(0), []
    target = torch.randint(0, 12, (400,), generator=generator)
    scores = torch.randn(400, 12, generator=generator)
    better = scores.clone()
    better[torch.arange(400), target] += 1.5 * (target > 5)
    for postfix in (None, "_end"):
        metrics = [RecallAtK(k=2, name="mine"), RecallAtK(k=3, buckets="quantiles:2"), CrossEntropy()]
        collection = TopKCollection(metrics, postfix=postfix)
        runs = {"old": scores, "new": better}
        report = compare_runs(runs, target, metrics=collection, label_counts=range(12, 0, -1), resamples=200)
        verdicts.append(report.verdict)
    assert "better in quantile_1" in verdicts[0]
    assert verdicts[1] == verdicts[0]


def test_each_drawing_of_a_comparison_has_a_file_of_its_own(tmp_path):
    """Recall by bucket and by group of rows: both have drawings of the differences of one key, in files of two names."""
    generator = torch.Generator().manual_seed(0)
    first, second = torch.rand(2, 40, 12, generator=generator)
    target = torch.rand(40, 12, generator=generator) < 0.3
    buckets = LabelBuckets.from_assignment(torch.arange(12) // 6, ["head", "tail"])
    metrics = [RecallAtK(3), RecallAtK(3, buckets=buckets)]
    groups = ["de", "en"] * 20
    report = compare_runs({"a": first, "b": second}, target, metrics=metrics, row_groups=groups, resamples=99)
    files = [path for path in report.write(tmp_path, figures="svg") if path.suffix == ".svg"]
    assert len({*files}) == len(report.document().charts)
    assert all(path.exists() for path in files)
