"""The page and the picture of a comparison show every run, difference and interval,
without scripts or requests.
"""

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
    """The value of each run is the share of rows whose first label is relevant, and the
    difference is that of two such shares.
    """
    report, target, runs = compared
    for name, scores in runs.items():
        right = sum(
            int(row.argmax()) == int(label)
            for row, label in zip(scores, target, strict=True)
        )
        assert report.values["precision@1"][name] == pytest.approx(
            right / 80, abs=1e-12
        )
    comparison = report.against("precision@1", "better <b>")
    values = report.values["precision@1"]
    assert comparison.difference == pytest.approx(
        values["better <b>"] - values["plain"], abs=1e-12
    )


def test_a_line_for_each_run_has_letters_of_significantly_worse_runs(compared):
    """The table has a line for each run, with the letter of each run that it is
    significantly better than, and the best value bold. The caption gives the number of
    tested comparisons, and the tables of pairs list all comparisons.
    """
    report, _, _ = compared
    table, gaps = report.document().tables[:2]
    assert [line[:2] for line in table.lines] == [
        ["a", "plain"],
        ["b", "better <b>"],
        ["c", "other"],
    ]
    place = table.header.index("precision@1")
    assert report.against("precision@1", "better <b>").significant
    assert (
        table.lines[1][place]
        == number(report.values["precision@1"]["better <b>"]) + "ᵃ"
    )
    assert "ᵇ" not in table.lines[0][place]
    assert table.caption.endswith("Runs were compared with plain alone.")
    best = max(report.values["precision@1"], key=report.values["precision@1"].get)
    assert [line for line, column in table.bold if column == place] == [
        NAMES.index(best)
    ]
    gap = gaps.header.index("global_recall@3/gap")
    values = report.values["global_recall@3/gap"]
    assert [line[gap] for line in gaps.lines] == [
        number(values[name]) for name in NAMES
    ]
    assert gap not in {column for _, column in gaps.bold}
    tested = sum(
        not math.isnan(comparison.p_corrected.randomisation)
        for comparison in report.comparisons
    )
    assert 0 < tested < len(report.comparisons)
    assert f"corrected for {tested} comparisons" in table.caption
    assert f"of {tested} comparisons; interval: 0.95 of this comparison alone" in page(
        report
    )
    pairs = [table for table in report.document().tables if table.name == "comparisons"]
    assert sum(len(pair.lines) for pair in pairs) == len(report.comparisons)
    outcomes = {line[0]: line[8] for part in pairs for line in part.lines}
    assert outcomes["global_recall@3/gap"] == "–"  # rows have no gap
    assert sum(map(int, outcomes["precision@1"].split("/"))) == 80


def test_the_picture_follows_the_first_line_of_the_verdict():
    """Three runs have a verdict of three lines, and the picture follows the first, so
    that a phone shows both on its first screen.
    """
    target = torch.arange(60) % 6
    runs = {
        name: torch.eye(6)[(target + shift) % 6]
        for name, shift in (("a", 0), ("b", 1), ("c", 2))
    }
    counts = [9, 7, 5, 3, 2, 1]
    metrics = [RecallAtK(k=1, buckets="deciles", scope="global")]
    report = compare_runs(
        runs, target, metrics=metrics, label_counts=counts, resamples=200
    )
    text, lines = page(report), report.verdict.splitlines()
    offsets = [text.index(f'<p class="verdict">{line[:12]}') for line in lines]
    assert len(offsets) == 3
    assert offsets[0] < text.index('<figure class="plot">') < offsets[1] < offsets[2]


def test_a_difference_of_one_row_has_no_interval():
    """A difference of micro F1 that comes from 1 of 300 rows has a dash instead of an
    interval, and the reason is given below the heading.
    """
    generator = torch.Generator().manual_seed(3)
    target = (torch.rand(300, 6, generator=generator) < 0.3).long()
    first = torch.rand(300, 6, generator=generator) * 0.4
    second = first.clone()
    second[7, int(target[7].argmax())] = 0.9
    target[7, 0] = second[7, 0] = 1
    report = compare_runs(
        {"a": first, "b": second}, target, metrics=[F1AtThreshold(0.5)], resamples=300
    )
    text = markdown(report)
    (line,) = [
        line
        for line in text.splitlines()
        if line.startswith("| micro_f1@t0.5 |") and "1/299/0" in line
    ]
    assert "| – | 0.5000 |" in line
    assert "No interval, too few rows differ: micro_f1@t0.5." in text


def test_metrics_without_row_values_are_listed_but_not_compared():
    """Coverage and calibration, which have no values of rows, are listed with the
    values of both runs and not compared.

    If no other metric is left, the comparison is refused.
    """
    generator = torch.Generator().manual_seed(3)
    target, runs = (
        torch.arange(90) % 9,
        {name: torch.randn(90, 9, generator=generator) for name in "ab"},
    )
    metrics = [
        PrecisionAtK(k=1),
        CatalogCoverageAtK(k=1, num_labels=9),
        CalibrationErrorAtK(k=1),
    ]
    report = compare_runs(runs, target, metrics=metrics, resamples=100)
    scalars_of_runs = {
        name: evaluate(preds, target, metrics=metrics).scalars
        for name, preds in runs.items()
    }
    keys = ["catalog_coverage@1", "calibration_error@1"]
    assert report.not_compared == {
        key: {name: scalars_of_runs[name][key] for name in "ab"} for key in keys
    }
    line = " | ".join(
        [keys[1], *(number(scalars_of_runs[name][keys[1]]) for name in "ab")]
    )
    assert f"| {line} |" in markdown(report).partition("## Not compared")[2].replace(
        "\\_", "_"
    )
    with pytest.raises(
        ValueError,
        match="left to compare. Not compared: catalog_coverage@1, because rows have no",
    ):
        compare_runs(runs, target, metrics=metrics[1:2], resamples=100)


@pytest.mark.filterwarnings("ignore:.*most lists end before that")
def test_values_that_read_beyond_a_shorter_list_are_marked_unequal():
    """Between lists of 4 and of 6 labels, values that read 3 labels are equal in length
    and those that read 5 or all are not. A few shorter rows do not change the median
    length.
    """
    generator = torch.Generator().manual_seed(3)
    target, ids = (
        torch.arange(90) % 9,
        torch.randn(90, 9, generator=generator).argsort(dim=1),
    )
    six = ids[:, :6].clone()
    six[:20, 2:] = -1
    metrics = [RecallAtK(k=[3, 5], num_labels=9), MRR(num_labels=9)]
    report = compare_runs(
        {"four": ids[:, :4], "six": six}, target, metrics=metrics, resamples=100
    )
    assert report.unequal_lists == {"recall@5": "four 4, six 5", "mrr": "four 4, six 6"}


def test_the_title_names_the_runs_against_the_baseline():
    """The title names the other runs against the baseline, or all runs if all pairs are
    compared.

    A note says if wins count labels, as for averages over labels.
    """
    generator = torch.Generator().manual_seed(3)
    target, runs = (
        torch.arange(90) % 9,
        {name: torch.randn(90, 9, generator=generator) for name in "abc"},
    )
    two = {name: runs[name] for name in "ab"}
    metrics = [PrecisionAtK(k=1)]
    for runs_of_page, baseline, title in (
        (two, None, "b against a"),
        (runs, "b", "a, c against b"),
        (runs, None, "a, b, c"),
    ):
        report = compare_runs(
            runs_of_page, target, metrics=metrics, baseline=baseline, resamples=100
        )
        assert report.title == title
        assert "win/tie/loss are labels" not in markdown(report)
    macro = compare_runs(
        two,
        target,
        metrics=[PrecisionAtK(k=1, average="macro", num_labels=9)],
        resamples=100,
    )
    assert "Of averages over labels, win/tie/loss are labels, not rows." in markdown(
        macro
    )


def test_the_verdict_comes_first_and_tables_have_the_least_differences(
    compared, tmp_path
):
    """The verdict is first below the title in every text.

    The table has the smallest difference that the number of rows can show, and the page
    gives it where nothing was shown.
    """
    report, _, _ = compared
    assert "better <b> against plain: global_recall@3" in report.verdict
    tags = Tags(page(report)).text
    assert tags.index("better <b> against plain: ") < tags.index("3 runs")
    assert (
        markdown(report)
        .split("\n\n")[1]
        .startswith("**better &lt;b&gt; against plain: global_recall@3")
    )
    assert str(report).startswith(report.verdict[:40])
    comparisons = [
        comparison
        for comparison in report.comparisons
        if not math.isnan(comparison.least_difference)
    ]
    cells = {
        cell
        for table in report.document().tables
        if table.name == "comparisons"
        for line in table.lines
        for cell in line
    }
    assert comparisons
    assert {number(comparison.least_difference) for comparison in comparisons} <= cells
    insignificant = next(
        comparison
        for comparison in comparisons
        if not comparison.significant and "/" in comparison.key
    )
    assert f", {number(insignificant.least_difference)} would be shown" in page(report)
    assert "least: the smallest true difference that so many rows show" in tags


def test_the_page_shows_every_comparison_and_value(compared):
    """The page shows each comparison in a table, and each run and bucket in the text of
    a drawing.
    """
    report, _, _ = compared
    tags = Tags(page(report))
    for table in report.document().tables:
        for line in (line for part in table.parts for line in part.lines):
            assert "".join(line) in tags.text.replace("\N{NO-BREAK SPACE}", "").replace(
                " ", ""
            ) or "".join(line).replace(" ", "") in tags.text.replace(" ", "")
    images = [tag["aria-label"] for tag in tags.all("svg") if tag.get("role") == "img"]
    for run in NAMES:
        value = report.values["global_recall@3/decile_1"][run]
        assert any(
            f"{run}: " in labels_of_images
            and f"decile_1 {number(value)}" in labels_of_images
            for labels_of_images in images
        )
    comparison = report.against("global_recall@3/decile_10", "better <b>")
    assert any(
        f"10 {comparison.difference:+.4f} ({comparison.interval.low:+.4f} to {comparison.interval.high:+.4f})"
        in labels_of_images
        for labels_of_images in images
    )


def test_a_comparison_of_groups_alone_has_a_table_and_a_picture(compared, tmp_path):
    """A comparison that has only keys of groups has a table and a drawing of them."""
    report = compared[0]
    comparisons = [
        replace(comparison, key="recall@3/en")
        for comparison in report.comparisons
        if comparison.key == "recall@3"
    ]
    groups_report = replace(report, comparisons=comparisons, row_groups=["en"])
    assert (groups_report.overall, groups_report.by_group) == (
        [],
        {"recall@3": {"en": "recall@3/en"}},
    )
    assert "recall@3 by group of rows" in [
        section.title for section in groups_report.document().tables
    ]
    assert "recall@3/en" in groups_report.write(tmp_path)[0].read_text()
    assert (tmp_path / "compare.png").exists()


def test_gaps_of_groups_are_not_among_the_overall_gaps(compared):
    """The gaps beside overall values are those over all rows; gaps of groups are only
    among the comparisons.
    """
    first = next(
        comparison
        for comparison in compared[0].comparisons
        if comparison.key == "global_recall@3/gap"
    )
    gaps = [first, replace(first, key="global_recall@3/en/gap")]
    report = replace(compared[0], comparisons=gaps, row_groups=["en"])
    assert (report.overall, report.gaps, report.by_bucket) == (
        [],
        ["global_recall@3/gap"],
        {},
    )


def test_the_page_gives_the_number_and_name_of_clusters(compared):
    """The page gives the number of clusters and their name beside the rows, and says
    that the rows of a cluster are swapped together. Without clusters it has no such
    word.
    """
    _, target, runs = compared
    report = compare_runs(
        runs,
        target,
        metrics=[PrecisionAtK(k=1)],
        clusters=torch.arange(80) // 4,
        resamples=200,
    )
    for report_with_clusters, suffix in (
        (report, ""),
        (replace(report, clusters="user"), " (user)"),
    ):
        assert report_with_clusters.document().counts[1:3] == [
            "80 rows compared",
            f"20 clusters{suffix}",
        ]
        assert (
            "the rows of a cluster swapped together between the runs, as mid-p"
            in markdown(report_with_clusters)
        )
    assert "cluster" not in markdown(compared[0])


def test_the_picture_has_a_legend_of_runs_and_the_verdict(compared):
    """The picture has a legend with each run in its own colour, and the verdict."""
    figure = picture(replace(compared[0], verdict="It is better."))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(NAMES)
    assert len({line.get_color() for line in figure.legends[0].get_lines()}) == len(
        NAMES
    )
    assert "It is better." in figure.get_supxlabel()


def test_a_comparison_is_written_in_every_format(compared, tmp_path):
    """A comparison is written as HTML, JSON, CSV, Markdown, LaTeX and PNG. Markdown and
    LaTeX have every value over all labels and by bucket, with the letters of worse
    runs.
    """
    report = compared[0]
    written = {path.name: path for path in report.write(tmp_path)}
    assert set(written) == {
        f"compare.{suffix}" for suffix in ("html", "json", "csv", "md", "tex", "png")
    }
    assert written["compare.png"].read_bytes().startswith(b"\x89PNG")
    markdown, latex = (
        written["compare.md"].read_text(),
        written["compare.tex"].read_text(),
    )
    keys = [
        *report.overall,
        *(key for keys in report.by_bucket.values() for key in keys.values()),
    ]
    beaten = set()
    for key in keys:
        for run in report.runs:
            letters = report.beaten(key, run)
            beaten |= {*letters}
            value = number(report.values[key][run])
            raised = "".join(rf"$^\mathrm{{{letter}}}$" for letter in letters)
            assert f"{value}{letters.translate(SUPERSCRIPTS)}" in markdown.replace(
                "*", ""
            )
            assert f"{value}{raised}".replace("–", "--") in latex
    assert beaten
    for key in report.overall:  # a line of the first table holds the values of all runs
        cells = []
        for run in report.runs:
            raised = "".join(
                rf"$^\mathrm{{{letter}}}$" for letter in report.beaten(key, run)
            )
            cells.append(f"{number(report.values[key][run])}{raised}")
        assert rf"{' & '.join([key, *cells])} \\" in latex.replace(r"\_", "_")


@pytest.mark.parametrize("rows", [40, 8])
def test_the_smallest_p_value_of_random_swaps_is_marked(rows):
    """If one run wins all rows, no other swap differs as much: p is 1/1000 of 999
    random swaps, and marked with ≤.

    For 8 rows all 2^8 swaps are counted, so that p is exact and has no mark.
    """
    right, target = (
        torch.eye(2)[torch.zeros(rows, dtype=torch.int64)],
        torch.zeros(rows, dtype=torch.int64),
    )
    report = compare_runs(
        {"wrong": -right, "right": right},
        target,
        metrics=[PrecisionAtK(k=[1])],
        resamples=999,
    )
    (comparison,), text = report.comparisons, markdown(report)
    assert comparison.p.randomisation == pytest.approx(
        1 / 1000 if rows == 40 else 1 / 2**8
    )
    assert ("**≤0.0010** | **≤0.0010**" in text, "≤" in text) == (
        rows == 40,
        rows == 40,
    )
    assert ("≤: none of 999 random swaps differs as much" in text) is (rows == 40)
    assert f"**{rows}/0/0**" in text


def test_values_of_single_labels_alone_are_no_comparison():
    """Two runs of a metric of single labels alone are refused with this reason."""
    runs, metric = (
        {"a": torch.eye(4), "b": -torch.eye(4)},
        RecallAtK(1, average="none", num_labels=4),
    )
    with pytest.raises(
        ValueError,
        match="compare. The metrics have values of single labels alone; add a metric of",
    ):
        compare_runs(runs, torch.arange(4), metrics=[metric], resamples=100)


@pytest.mark.filterwarnings("ignore:.*as probabilities do")
def test_losses_of_probabilities_and_of_logits_are_not_compared():
    """The cross-entropies of a run of probabilities and of a run of logits are not
    compared, and the verdict gives the reason. Two runs of probabilities are compared.
    """
    logits, target = 5 * torch.eye(4)[torch.arange(40) % 4], torch.arange(40) % 4
    runs, metrics = (
        {"logits": logits, "soft": logits.softmax(1)},
        [MRR(), CrossEntropy()],
    )
    report = compare_runs(runs, target, metrics=metrics, resamples=100)
    assert [comparison.key for comparison in report.comparisons] == ["mrr"]
    assert (
        "Not compared: cross_entropy, because scores of soft lie between 0 and 1, as prob"
        in str(report.verdict)
    )
    assert "has several runs" not in markdown(report)
    with pytest.raises(
        ValueError,
        match="nothing is left to compare. Not compared: cross_entropy, because scores",
    ):
        compare_runs(runs, target, metrics=metrics[1:], resamples=100)
    same_kind = compare_runs(
        {"soft": runs["soft"], "other": runs["soft"]},
        target,
        metrics=metrics,
        resamples=100,
    )
    assert [comparison.key for comparison in same_kind.comparisons] == [
        "mrr",
        "cross_entropy",
    ]


def test_an_infinite_value_is_written_and_explained_in_the_verdict(tmp_path):
    """A relevant label with the score -inf makes the cross-entropy infinite: the pages
    are written, and the verdict says why it is not tested.
    """
    target = torch.arange(80) % 12
    scores = torch.randn(80, 12, generator=torch.Generator().manual_seed(0))
    runs = {"a": scores.clone(), "b": scores}
    runs["a"][0, target[0]] = -torch.inf
    report = compare_runs(runs, target, metrics=[CrossEntropy()], resamples=100)
    assert (
        report.verdict
        == "b against a: no value could be tested: a value is infinite, or too few rows count."
    )
    report.write(tmp_path)
    report = compare_runs(
        runs, target, metrics=[CrossEntropy(), RecallAtK(k=3)], resamples=100
    )
    assert report.verdict.startswith("b against a: recall@3: the same in every row")
    assert report.verdict.endswith(
        ". Infinite elsewhere: cross_entropy over all labels."
    )
    report.write(tmp_path / "both")


HEAD_OF_EIGHT = LabelBuckets.from_assignment(
    [0, 0, 0, 1, 1, 1, 2, 2], ["head", "mid", "tail"]
)
"""The tail has no relevant label if all targets are below 6."""


def two_runs(**arguments):
    generator = torch.Generator().manual_seed(1)
    target = torch.randint(0, 6, (60,), generator=generator)
    scores = torch.randn(60, 8, generator=generator)
    better = scores + 0.8 * torch.eye(8)[target]
    metrics = [RecallAtK(k=2, buckets=HEAD_OF_EIGHT, scope="global")]
    return compare_runs(
        {"old": scores, "new": better},
        target,
        metrics=metrics,
        resamples=200,
        **arguments,
    )


def test_uncorrected_p_values_are_called_uncorrected():
    """With correction="none", every text says that p-values are not corrected;
    otherwise it gives the number of comparisons.
    """
    texts = [
        in_full(two_runs(correction="none"), 200, verbose=False),
        markdown(two_runs(correction="none")),
    ]
    texts.append(page(two_runs(correction="none")))
    for text in texts:
        assert "not corrected for the number of comparisons" in text
        assert not re.search(r"(?<!not )corrected for", text)
        assert "corrected (none)" not in text
        assert "corrected: none" not in text
    assert "*: significant, corrected for 4 comparisons" in in_full(
        two_runs(), 200, verbose=False
    )


def test_a_bucket_without_values_has_no_bar():
    """On the first screen a bucket without values has dashes and no bar."""
    lines = in_full(two_runs(), 200, verbose=False).splitlines()
    (line,) = [line for line in lines if line.startswith("tail")]
    assert line.split() == ["tail", "–", "–", "–", "–"]


def test_tables_of_runs_do_not_mention_differences():
    """The tables of runs, which hold values, do not explain differences."""
    assert "Differences are from" not in markdown(two_runs())


def test_only_refuses_unknown_keys_and_suggests_valid_ones():
    """`only` with an unknown key is refused, and each key or pattern that the error
    suggests is accepted.

    An empty list is refused.
    """
    with pytest.raises(ValueError, match="choose a key or pattern such as") as error:
        two_runs(only=["global_recall@2"])
    choices = str(error.value).partition("such as ")[2].partition(". ")[0].split(", ")
    assert choices == ["global_recall@2/*", "recall@2"]
    for choice in choices:
        assert any(
            comparison.tested for comparison in two_runs(only=[choice]).comparisons
        )
    with pytest.raises(
        ValueError,
        match=r"only=\[\] is empty, so that nothing would be tested; pass keys or patterns",
    ):
        two_runs(only=[])


def test_a_postfix_does_not_change_the_verdict():
    """The verdict of metrics with a postfix is that of the same metrics without one."""
    generator, verdicts = torch.Generator().manual_seed(0), []
    target = torch.randint(0, 12, (400,), generator=generator)
    scores = torch.randn(400, 12, generator=generator)
    better = scores.clone()
    better[torch.arange(400), target] += 1.5 * (target > 5)
    for postfix in (None, "_end"):
        metrics = [
            RecallAtK(k=2, name="mine"),
            RecallAtK(k=3, buckets="quantiles:2"),
            CrossEntropy(),
        ]
        collection = TopKCollection(metrics, postfix=postfix)
        runs = {"old": scores, "new": better}
        report = compare_runs(
            runs,
            target,
            metrics=collection,
            label_counts=range(12, 0, -1),
            resamples=200,
        )
        verdicts.append(report.verdict)
    assert "better in quantile_1" in verdicts[0]
    assert verdicts[1] == verdicts[0]


def test_each_drawing_of_a_comparison_has_a_file_of_its_own(tmp_path):
    """Drawings of differences of the same key by bucket and by group of rows have files
    of different names.
    """
    generator = torch.Generator().manual_seed(0)
    first, second = torch.rand(2, 40, 12, generator=generator)
    target = torch.rand(40, 12, generator=generator) < 0.3
    buckets = LabelBuckets.from_assignment(torch.arange(12) // 6, ["head", "tail"])
    metrics = [RecallAtK(3), RecallAtK(3, buckets=buckets)]
    groups = ["de", "en"] * 20
    report = compare_runs(
        {"a": first, "b": second},
        target,
        metrics=metrics,
        row_groups=groups,
        resamples=99,
    )
    files = [
        path for path in report.write(tmp_path, figures="svg") if path.suffix == ".svg"
    ]
    assert len({*files}) == len(report.document().charts)
    assert all(path.exists() for path in files)
