"""Reports as data, text and files hold the values of the metrics, and files are written
completely or not at all.
"""

import csv
import json
import math
import os
import warnings
from copy import deepcopy
from dataclasses import replace
from io import StringIO
from re import findall, sub

import pytest
import torch
from rich.console import Console

from report.simple import report_of_values
from report.test_page import Tags
from tailmetrics import (
    MAP,
    MRR,
    AccuracyAtK,
    CatalogCoverageAtK,
    CGAtK,
    CrossEntropy,
    DCGAtK,
    ERRAtK,
    F1AtK,
    F1AtThreshold,
    FallOutAtK,
    FBetaAtK,
    HitRateAtK,
    LabelBuckets,
    LabelFrequency,
    NDCGAtK,
    NormalizedRecallAtK,
    PopularityAtK,
    PrecisionAtK,
    PredictionProportionAtK,
    PropensityScoredNDCGAtK,
    PropensityScoredPrecisionAtK,
    PropensityScoredRecallAtK,
    RBPAtK,
    RecallAtK,
    RelevanceAtK,
    TopKCollection,
    evaluate,
)
from tailmetrics.evaluation import compare_runs
from tailmetrics.report import (
    BucketRow,
    ComparisonReport,
    GroupRow,
    LabelTable,
    latex,
    markdown,
    page,
    print_report,
)
from tailmetrics.report.formatting import brief, rounded
from tailmetrics.report.text import csv_text
from tailmetrics.significance import Comparison, Interval
from tailmetrics.significance.comparing import PValues

SUFFIXES = {"json", "md", "tex", "csv", "html", "png"}


def same(value, expected):
    return value == expected or (math.isnan(value) and math.isnan(expected))


def test_a_report_has_the_values_of_its_metrics(report, values):
    """A report has the values that the collection computes, to the last bit, overall
    and by bucket, and the labels, occurrences and positives of each bucket.
    """
    assert report.scalars.keys() == values.keys()
    assert all(same(report.scalars[key], value) for key, value in values.items())
    assert list(report.overall)[:3] == ["precision@1", "precision@5", "cross_entropy"]
    assert list(report.overall)[3:] == list(report.by_bucket)
    lower_is_better = [
        metric
        for metric in report.overall
        if report.facts(metric).higher_is_better is False
    ]
    assert lower_is_better == ["cross_entropy", "median_k_for_recall@0.8"]
    sums = [
        sum(getattr(row, name) for row in report.buckets)
        for name in ("labels", "occurrences", "positives")
    ]
    assert sums == [20, 811, 60]
    assert report.buckets[0] == BucketRow("decile_10", 1, 400, 0, "400")
    flat = {}
    for metric, values_of_metric in report.by_bucket.items():
        for bucket, value in values_of_metric.items():
            flat[f"{metric}/{bucket}"] = value
    assert {**report.overall, **flat}.keys() == values.keys()


def test_json_is_strict_and_holds_every_value(report, values):
    """The JSON of a report is strict and holds each value under its key as an equal
    float, null if there is none, and infinity as text.
    """

    def refuse(constant):
        raise AssertionError(constant)

    content = json.loads(
        json.dumps(report.as_dict(), allow_nan=False), parse_constant=refuse
    )
    values_of_file = {
        record["key"]: record["value"]
        for record in content["records"]
        if not record["summary"]
    }
    assert values_of_file == {
        key: None if math.isnan(value) else value for key, value in values.items()
    }
    assert any(value is None for value in values_of_file.values())
    assert (content["rows"], content["positives"]) == (60, 60)
    assert content["label_counts"]["occurrences"] == 811
    assert content["versions"].keys() == {
        "python",
        "tailmetrics",
        "torch",
        "torchmetrics",
    }
    assert content["settings"][2]["class"] == "RecallAtK"
    assert content["settings"][2]["k"] == [5]
    assert (
        report_of_values("", {"x": math.inf}).as_dict()["records"][0]["value"] == "inf"
    )


def test_csv_has_a_line_per_value_to_the_last_bit(report, values):
    """The CSV of a report has a line per value with an equal float, and the counts of a
    bucket beside its values.
    """
    lines = list(csv.DictReader(StringIO(csv_text(report.csv_tables()[""]))))
    assert len(lines) == len(values) + len(report.summaries)
    for line in lines[: len(values)]:
        key = f"{line['metric']}/{line['bucket']}" if line["bucket"] else line["metric"]
        assert same(float(line["value"] or "nan"), values[key])
    assert [line["key"] for line in lines[len(values) :]] == list(report.summaries)
    line = next(line for line in lines if line["bucket"] == "unseen")
    assert (line["labels"], line["occurrences"]) == ("3", "0")


def test_markdown_has_every_bucket_and_metric(report):
    """The Markdown of a report has a line per bucket below that of all labels, with a
    cell for each column.

    A bar in a name does not split a cell.
    """
    part = markdown(report).partition("## From the most frequent")[2].partition("##")[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    header = next(line for line in lines if line.startswith("| bucket"))
    assert header.count("|") == 1 + 4 + len(report.by_bucket)
    names = [line.split("|")[1].strip() for line in lines[lines.index(header) + 2 :]]
    assert names == ["all", *(row.name for row in report.buckets)]
    odd = report_of_values("odd", {"a|b": 1.0})
    assert r"| a\|b | 1.0000 |" in markdown(odd)


def test_latex_is_escaped_and_has_balanced_braces(report):
    """LaTeX escapes special characters of names, every line has the cells of its
    header, and braces are balanced.

    A wide table is split, and each part repeats the first column.
    """
    text = latex(report)
    assert r"Tails \& \textless{}heads\textgreater{} of 100 \%" in text
    assert r"decile\_10" in text
    body = sub(r"\\[&%$#_{}]|\$\\\w+\$", "", "\n".join(text.splitlines()[1:]))
    assert body.count("{") == body.count("}")
    assert not findall(r"[%$#_]", body)
    tables = body.split(r"\end{tabular}")[:-1]
    adjusted = any(key.endswith("/adjusted_gap") for key in report.summaries)
    columns = [
        3,
        4 + len(report.by_bucket),
        4,
        1 + 3 * len(report.by_bucket),
        6 + adjusted,
    ]
    columns_written: list[int] = []
    for part in tables:
        rows = [line for line in part.splitlines() if line.endswith(r"\\")]
        (count,) = {1 + row.count("&") for row in rows}
        assert f"{{l{'r' * (count - 1)}}}" in part
        # each part of a split table repeats the first column
        columns_written.append(count - 1)
    assert sum(columns_written) == sum(count - 1 for count in columns)
    assert r"\textbackslash{}\textasciitilde{}\textasciicircum{}" in latex(
        report_of_values("", {"\\~^": 1.0})
    )


@pytest.mark.parametrize("width", [60, 200])
def test_terminal_shows_every_value_at_any_width(report, width):
    """A terminal of any width shows each metric and bucket, and no line is longer than
    it is wide.
    """
    console = Console(width=width, file=StringIO(), record=True)
    print_report(report, console)
    printed = console.export_text()
    assert max(map(len, printed.splitlines())) <= width
    for metric in (*report.overall, *report.by_bucket):
        assert metric in printed
    for row in report.buckets:
        assert row.name in printed


def test_slashes_in_prefixes_and_bucket_names_are_read_correctly():
    """A slash in a prefix does not start a bucket, and one in the name of a bucket does
    not split it.
    """
    buckets = LabelBuckets.from_assignment([0, 0, 1], ["on/line", "line"])
    collection = TopKCollection(
        [PrecisionAtK(k=1), RecallAtK(k=1, buckets=buckets)], prefix="val/"
    )
    report = evaluate(torch.eye(3), torch.arange(3), metrics=collection)
    assert report.overall == {"val/precision@1": 1.0, "val/recall@1": 1.0}
    assert report.by_bucket == {"val/recall@1": {"on/line": 1.0, "line": 1.0}}


def test_metrics_with_a_postfix_have_values_by_bucket():
    """Metrics with a prefix and a postfix have values, gaps, directions and tables by
    bucket, in reports and comparisons.
    """
    buckets = LabelBuckets.from_assignment([0, 0, 1, 1], ["head", "tail"])
    affixes = {"prefix": "val/", "postfix": "_ema"}
    collection = TopKCollection(
        [RecallAtK(1, buckets=buckets, scope="global"), CrossEntropy(buckets=buckets)],
        **affixes,
    )
    report = evaluate(torch.eye(4)[[0, 1, 2, 0]], torch.arange(4), metrics=collection)
    metric = "val/global_recall@1_ema"
    assert report.by_bucket[metric] == {"head": 1.0, "tail": 0.5}
    assert report.whole(metric).value == 0.75
    assert report.facts("val/cross_entropy_ema").higher_is_better is False
    tables = {table.name: table for table in report.document().tables}
    assert tables["buckets"].header[4:] == [metric, "val/cross_entropy_ema"]
    assert tables["tail"].lines[0][:5] == [
        metric,
        "0.7500",
        "1.0000",
        "0.5000",
        "0.5000",
    ]
    runs = {"one": torch.eye(4), "two": -torch.eye(4)}
    collection = TopKCollection(
        [RecallAtK(1, buckets=buckets, scope="global")], **affixes
    )
    assert list(
        compare_runs(runs, torch.arange(4), metrics=collection, resamples=200).by_bucket
    ) == [metric]


def test_warnings_name_ties_empty_buckets_unseen_labels_and_notes(report):
    """The warnings of a report name ties at the cut-offs, buckets without labels or
    positives, unseen labels and further notes.
    """
    ties, tied_hits, empty, unseen, note = replace(
        report, notes=("Row 3 repeats an id.",)
    ).warnings
    assert ties.startswith(
        "Rows are cut inside a tie (10.0% at rank 1, 10.0% at rank 5)"
    )
    assert "of the rows a relevant label has the score of another label" in tied_hits
    assert "decile_10, decile_9" in empty
    number = sum(row.positives for row in report.buckets if row.name == "unseen")
    assert unseen.startswith(f"{number} of 60 positives ({100 * number / 60:.3g} %)")
    assert note == "Row 3 repeats an id."
    warnings_of_few_labels = evaluate(
        torch.eye(3), torch.arange(3), label_counts=[2, 1, 0]
    ).warnings
    assert any(
        text.startswith("No label in decile_8") for text in warnings_of_few_labels
    )


def test_buckets_of_one_name_with_other_labels_are_refused():
    """Two metrics with different buckets of the same name are refused, because a table
    has one line for the name.
    """
    first, second = (
        LabelBuckets.from_assignment(part, ["head", "tail"])
        for part in ([0, 1, 1], [0, 0, 1])
    )
    metrics = [
        RecallAtK(k=1, buckets=first, scope="global"),
        PrecisionAtK(k=1, buckets=second, scope="global"),
    ]
    with pytest.raises(
        ValueError,
        match=r"'head' holds other labels in one metric \(1\) than in another \(2\)",
    ):
        evaluate(1.5 * torch.eye(3), torch.arange(3), metrics=metrics)


def test_two_kinds_of_buckets_count_each_label_once():
    """With two kinds of buckets each label and positive counts once in the line of all
    labels and in the facts of the report: 4 labels and 4 positives.
    """
    kinds = (RecallAtK, "deciles"), (PrecisionAtK, "thresholds:1,3:head,tail")
    metrics = [
        metric(k=1, buckets=buckets, scope="global") for metric, buckets in kinds
    ]
    report = evaluate(
        torch.eye(4), torch.arange(4), metrics=metrics, label_counts=[5, 2, 1, 0]
    )
    facts_by_bucket = {row.name: (row.labels, row.positives) for row in report.buckets}
    assert (
        facts_by_bucket["head"],
        facts_by_bucket["tail"],
        facts_by_bucket["unseen"],
    ) == ((1, 1), (2, 2), (1, 1))
    document = report.document()
    assert document.counts == ["4 rows", "4 positives", "4 labels"]
    (table,) = [section for section in document.sections if section.name == "buckets"]
    assert (*table.header[:3], *table.lines[0][:3]) == (
        "bucket",
        "labels",
        "positives",
        "all",
        "4",
        "4",
    )


def test_a_bucket_with_at_most_k_labels_brings_a_warning():
    """A warning names metrics whose k is at least the number of labels of a bucket, or
    of all labels.

    Of buckets of 2, 3 and 1 labels the first two have positives: k=2 reaches the size
    of one, and k=3 of both. With scope="global" none is named. k=6 reaches the 6
    labels. A metric or collection warns once.
    """
    buckets = LabelBuckets.from_assignment([0, 0, 1, 1, 1, 2], ["head", "tail", "rest"])
    metrics = [
        RecallAtK(k=[1, 2, 3], buckets=buckets),
        AccuracyAtK(k=3, buckets=buckets),
        PrecisionAtK(k=3, buckets=buckets, scope="global"),
        RelevanceAtK(k=3, buckets=buckets),
        PredictionProportionAtK(k=3, buckets=buckets),
        MRR(buckets=buckets),
        PrecisionAtK(k=6),
    ]
    worst = torch.arange(6.0).repeat(2, 1) + 0.5
    report = evaluate(
        worst, torch.tensor([0, 2]), metrics=TopKCollection(metrics, prefix="val/")
    )
    assert (
        report.scalars["val/accuracy@3/head"]
        == report.scalars["val/accuracy@3/tail"]
        == 1
    )
    assert report.warnings == [
        "No positive in rest: metrics that need one are NaN there.",
        "k reaches the number of labels for val/recall@2 in head; val/recall@3, val/accuracy@3 in head, tail: every "
        "relevant label there that is ranked within depth is a hit, whatever the model; scope='global' asks for the row's "
        "overall top k.",
        "k reaches the number of labels for val/precision@6 (6 labels): k cuts nothing off, so that any model has the same "
        "value there; choose a smaller k.",
    ]
    collection, single_metric = (
        TopKCollection(metrics, prefix="val/"),
        RecallAtK(k=3, buckets=buckets),
    )
    keys_of_collection = (
        "val/recall@1 in rest; val/recall@2 in head, rest; val/recall@3, val/accuracy@3"
    )
    for metric, keys, overall_keys in (
        (collection, keys_of_collection, ["val/precision@6"]),
        (single_metric, "recall@3", []),
    ):
        with pytest.warns(
            UserWarning, match=f"number of labels for {keys} in head, tail, rest: "
        ) as caught:
            metric.update(worst, torch.tensor([0, 2]))
        others = [str(warning.message) for warning in caught][1:]
        assert [
            text.partition(" labels for ")[2].partition(" (6 labels)")[0]
            for text in others
        ] == overall_keys
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        collection.update(worst, torch.tensor([0, 2]))
        single_metric.update(worst, torch.tensor([0, 2]))
        evaluate(worst, torch.tensor([0, 2]), metrics=metrics)


ANY_MODEL = "k reaches the number of labels for {key} (5 labels): k cuts nothing off"
"""The warning if the top k are all 5 labels."""


@pytest.mark.parametrize(
    ("metric", "is_same_for_any_model"),
    [
        (RecallAtK(k=10), True),
        (RecallAtK(k=5, average="macro", num_labels=5), True),
        (NormalizedRecallAtK(k=10), True),
        (PrecisionAtK(k=10), True),
        (PrecisionAtK(k=10, denominator="k"), True),
        (F1AtK(k=5), True),
        (FBetaAtK(k=5), True),
        (HitRateAtK(k=10), True),
        (AccuracyAtK(k=10), True),
        (FallOutAtK(k=10), True),
        (CGAtK(k=10), True),
        (PropensityScoredPrecisionAtK(k=10, weights=[1.0, 1.0, 2.0, 3.0, 4.0]), True),
        (PropensityScoredRecallAtK(k=10, weights=[1.0, 1.0, 2.0, 3.0, 4.0]), True),
        (CatalogCoverageAtK(k=10, num_labels=5), True),
        (PopularityAtK(k=10, label_counts=[5, 4, 3, 2, 1]), True),
        (RecallAtK(k=4), False),
        (MRR(k=10), False),
        (MAP(k=10), False),
        (NDCGAtK(k=10), False),
        (DCGAtK(k=10), False),
        (RBPAtK(k=10), False),
        (ERRAtK(k=10), False),
        (PropensityScoredNDCGAtK(k=10, weights=[1.0, 1.0, 2.0, 3.0, 4.0]), False),
    ],
    ids=repr,
)
def test_a_value_that_any_model_has_brings_a_warning(metric, is_same_for_any_model):
    """If k reaches the number of labels, metrics that do not read the order have the
    same value for any model, and a warning says so. For other metrics two random models
    differ, and there is no warning.
    """
    generator = torch.Generator().manual_seed(0)
    target = torch.randint(0, 5, (40,), generator=generator)
    values = set()
    for _ in range(2):
        scores = torch.rand(40, 5, generator=generator)
        report = evaluate(scores, target, metrics=[metric])
        (key,) = metric.keys()
        values.add(report.scalars[key])
        assert (
            any(ANY_MODEL.format(key=key) in text for text in report.warnings)
            == is_same_for_any_model
        )
        for copy in (deepcopy(metric), TopKCollection([deepcopy(metric)])):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                copy.update(scores, target)
            texts = [str(warning.message) for warning in caught]
            assert (
                any(ANY_MODEL.format(key=key) in text for text in texts)
                == is_same_for_any_model
            )
    assert (len(values) == 1) == is_same_for_any_model


def test_short_lists_bring_no_warning_of_equal_values():
    """Lists of 3 of 5 labels differ between models at k=10, so that the warning of
    equal values is not given; lists of all labels bring it.
    """
    lists, target = torch.tensor([[0, 1, 2], [2, 3, 4]]), torch.tensor([0, 0])
    report = evaluate(lists, target, metrics=[RecallAtK(k=10)], label_names=[*"abcde"])
    assert not any("cuts nothing off" in text for text in report.warnings)
    compared = compare_runs(
        {"a": torch.eye(5), "b": torch.eye(5)},
        torch.arange(5),
        metrics=[RecallAtK(k=10)],
    )
    assert any("cuts nothing off" in text for text in compared.warnings)


def test_numbers_in_drawings_are_short():
    """A number above a bar has at most five characters without its sign; counts are
    whole up to four digits.
    """
    numbers = [
        0.0,
        0.12345,
        1.0,
        12.34,
        123.4,
        5141.5,
        12345.0,
        2e6,
        4e-5,
        math.nan,
        math.inf,
        -0.5,
    ]
    expected = "0.000 0.123 1.00 12.3 123 5142 12.3k 2M 4e-05 – ∞ -0.500"
    assert " ".join(map(brief, numbers)) == expected
    assert [rounded(count) for count in (0, 9999, 10_000, 123_456, 4_000_000)] == [
        "0",
        "9999",
        "10k",
        "123.5k",
        "4M",
    ]


def test_write_writes_every_format(report, tmp_path):
    """`write` writes a file of each format, named by the stem, and no other file."""
    paths = report.write(tmp_path / "new" / "folder", stem="test")
    assert {path.name for path in paths} == {f"test.{suffix}" for suffix in SUFFIXES}
    assert {path.name for path in (tmp_path / "new" / "folder").iterdir()} == {
        path.name for path in paths
    }
    assert (
        (tmp_path / "new" / "folder" / "test.png").read_bytes().startswith(b"\x89PNG")
    )
    assert (
        json.loads((tmp_path / "new" / "folder" / "test.json").read_text())
        == report.as_dict()
    )


def test_write_replaces_an_earlier_report_as_a_whole(tmp_path):
    """Its tables of labels and its picture go where the new report has none. A table
    without a report beside it may be of another program: it is refused, and nothing is
    written.
    """
    columns = {name: torch.tensor([1]) for name in ("support", "predicted", "hits")}
    labels = LabelTable(
        {**columns, "r@1": torch.tensor([0.5])}, None, torch.tensor([0]), ["head"]
    )
    old = report_of_values(
        "old", {"m/head": 0.5}, buckets=[BucketRow("head", 1, 1, 1)], labels=labels
    )
    (tmp_path / "labels.csv").write_text("mine")
    with pytest.raises(
        FileExistsError, match=r"is there without report\.json beside it"
    ):
        old.write(tmp_path)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [
        ("labels.csv", "mine")
    ]

    (tmp_path / "labels.csv").rename(tmp_path / "mine.csv")
    assert {"labels.csv", "report.png"} <= {path.name for path in old.write(tmp_path)}
    old.write(tmp_path)
    new = report_of_values("new", {"m": 0.5}).write(tmp_path)
    assert {*tmp_path.iterdir()} == {*new, tmp_path / "mine.csv"}


def test_a_report_without_buckets_has_no_picture(tmp_path):
    """A report without buckets is written without a picture, to which no text
    refers.
    """
    report = evaluate(torch.eye(3), torch.arange(3))
    assert {path.suffix for path in report.write(tmp_path)} == {
        f".{suffix}" for suffix in SUFFIXES - {"png"}
    }
    assert "png" not in (tmp_path / "report.md").read_text()


@pytest.mark.usefixtures("blank_pictures")
@pytest.mark.slow
def test_an_interrupt_while_replacing_leaves_whole_files(report, tmp_path, monkeypatch):
    """After an interrupt while files are replaced, each file is the old or the new one,
    and no temporary file is left.

    An error while rendering changes no file.
    """
    folders = {title: tmp_path / title for title in ("old", "new", "mixed")}
    for title in ("old", "new"):
        replace(report, title=title).write(folders[title])
    replace(report, title="old").write(folders["mixed"])
    move, moved = os.replace, []

    def third_fails(source, destination):
        if len(moved) == 2:
            raise KeyboardInterrupt
        moved.append(destination)
        move(source, destination)

    monkeypatch.setattr(os, "replace", third_fails)
    with pytest.raises(KeyboardInterrupt):
        replace(report, title="new").write(folders["mixed"])
    files = {path.name: path.read_bytes() for path in folders["mixed"].iterdir()}
    assert files.keys() == {f"report.{suffix}" for suffix in SUFFIXES}
    moved.clear()
    monkeypatch.setattr("tailmetrics.report.files.latex", None)
    with pytest.raises(TypeError):
        replace(report, title="another").write(folders["mixed"])
    assert {
        path.name: path.read_bytes() for path in folders["mixed"].iterdir()
    } == files
    for name, content in files.items():
        assert content in {
            (folders[title] / name).read_bytes() for title in ("old", "new")
        }


def test_a_label_frequency_gives_the_number_of_training_rows():
    """A LabelFrequency as label_counts gives the number of training rows, which
    propensities need.
    """
    from tailmetrics import PropensityScoredPrecisionAtK

    frequency = LabelFrequency(4)
    frequency.update(torch.tensor([0, 0, 1, 2]))
    report = evaluate(
        torch.eye(4),
        torch.arange(4),
        metrics=[PropensityScoredPrecisionAtK(k=1)],
        label_counts=frequency,
    )
    assert report.scalars["psp@1"] == 1.0
    assert report.settings[0]["num_train"] == 4


EVIL = (
    "=cmd|' /C calc'!A0",
    "@SUM(1)",
    "![x](http://a.b/c)",
    "[x](javascript:alert(1))",
    "<img src=x onerror=y>",
    "\x1b[31mred\x07",
    r"\input{x}$%&_^~",
    "a\n# b\n| c |",
    "*bold* `code` __more__",
    "[bold]x[/bold]",
    r"from $\oops{ to $",
)


@pytest.mark.parametrize("evil", EVIL)
@pytest.mark.slow
def test_names_are_escaped_in_every_format(evil, tmp_path, request):
    """Names of metrics, buckets, groups, labels and runs that hold markup, formulas or
    control characters are shown as text in every format.
    """
    if "$" not in evil:  # matplotlib would read $ as mathematics
        request.getfixturevalue("blank_pictures")
    visible = " ".join(evil.split()).replace("\x1b", r"\x1b").replace("\x07", r"\x07")
    columns = {
        "support": torch.tensor([2]),
        "predicted": torch.tensor([1]),
        "hits": torch.tensor([0]),
    }
    names = LabelTable(
        {**columns, f"r@1{evil}": torch.tensor([0.5])},
        [evil],
        torch.tensor([0]),
        [evil],
    )
    report = report_of_values(
        evil,
        {evil: 0.1, f"{evil}/{evil}": 0.1, f"m/{evil}": 0.2, f"m/g{evil}/{evil}": 0.3, f"m/g{evil}": 0.3, "m": 0.2},
        buckets=[BucketRow(evil, 1, 1, 1)], row_groups=[GroupRow(f"g{evil}", 1)], notes=(evil,), labels=names,
        captions={"m": evil}, settings=[{"class": evil}],
        versions={evil: evil},
    )  # fmt: skip
    interval = Interval(0.1, 0.0, 0.2, 9, 0.95, evil)
    p = PValues(0.5)
    comparison = Comparison(
        f"m/{evil}",
        evil,
        f"b{evil}",
        "mean",
        0.2,
        0.1,
        interval,
        p,
        p,
        1,
        1,
        1,
        0.1,
        1.0,
    )
    compared = ComparisonReport(
        [comparison], evil, buckets=[evil], verdict=evil, what_buckets_are=evil
    )
    for rendered in (report, compared):
        texts = {
            path.suffix: path.read_text()
            for path in rendered.write(tmp_path)
            if path.suffix != ".png"
        }
        console = Console(width=200, file=StringIO(), record=True)
        print_report(rendered, console)
        texts["terminal"] = console.export_text()
        for form, text in texts.items():
            assert "\x1b" not in text, form
            assert "\x07" not in text, form
        assert visible in texts["terminal"]
        tags = Tags(texts[".html"])
        assert visible in tags.text
        assert not tags.all("img", "script")
        assert not [
            name
            for _, attributes in tags.elements
            for name in attributes
            if name.startswith("on")
        ]
        for line in csv.reader(StringIO(texts[".csv"])):
            assert not [
                cell
                for cell in line
                if cell[:1] in ("=", "+", "@")
                or (cell[:1] == "-" and cell[1:2].isalpha())
            ]
        assert not findall(r"(?<!\\)\[[^\]]*(?<!\\)\]\((?!\w+\.png\))", texts[".md"])
        assert "<img" not in texts[".md"]
        assert not any(line.startswith("# b") for line in texts[".md"].splitlines())
        assert r"\input" not in texts[".tex"]
        # brackets would be an argument of the line end
        assert not findall(r"(?:\\\\|rule)\s*[\[*]", texts[".tex"])
    (line,) = csv.DictReader(StringIO(report.labels.csv()))
    assert line["name"].removeprefix("'") == visible.replace(
        "a # b | c |", r"a\n# b\n| c |"
    )
    assert line["name"][:1] not in ("=", "@")


def test_names_that_differ_in_blanks_stay_two_names_in_csv():
    """Equal to the names that were given, as pandas reads them; a line break is spelled
    out.
    """
    names = ["a b", "a  b", " a b", "a\tb", "a\xa0b", "a\nb"]
    report = report_of_values(
        "",
        {f"m/{name}": 0.5 for name in names},
        row_groups=[GroupRow(name, 1) for name in names],
    )
    lines = list(csv.DictReader(StringIO(csv_text(report.csv_tables()[""]))))
    assert [line["row_group"] for line in lines] == [
        *names[:3],
        r"a\tb",
        "a\xa0b",
        r"a\nb",
    ]


@pytest.mark.parametrize("letters", [20, 50, 60, 75, 100])
def test_keys_are_not_wrapped_at_80_columns(letters):
    """In a terminal of 80 columns, each key of a report or comparison is on one line,
    however long it is, so that grep finds it.
    """
    metric = "m" * letters
    scalars = {
        f"{metric}@{k}/{name}": 0.25 for k in (1, 5) for name in ("head", "tail")
    }
    buckets = [BucketRow(name, 1, 1, 1) for name in ("head", "tail")]
    intervals = {key: Interval(0.25, 0.1, 0.5, 9, 0.95, "t") for key in scalars}
    overall = {f"{metric}@1": 0.5, "short": 0.25}
    report = report_of_values(
        "", {**overall, **scalars}, buckets=buckets, intervals=intervals
    )
    p = PValues(0.5)
    comparisons = [
        Comparison(
            key, "run", "other", "mean", 0.2, 0.1, interval, p, p, 1, 1, 1, 0.1, 1.0
        )
        for key, interval in intervals.items()
    ]
    compared = ComparisonReport(comparisons, buckets=["head", "tail"])
    for printed, keys in ((report, [*overall, f"{metric}@5"]), (compared, [*scalars])):
        console = Console(width=80, file=StringIO(), record=True)
        print_report(printed, console, verbose=True)
        lines = [*str(printed).splitlines(), *console.export_text().splitlines()]
        for key in keys:
            assert any(key in line for line in lines), key
        assert all(len(line) <= 80 or metric in line for line in lines)
        assert "0.2500" in str(report)
        assert "[.1000, .5000]" in str(report)


def test_the_perplexity_is_shown_beside_the_cross_entropy():
    """Page and Markdown show the perplexity, exp of torch's cross-entropy, with its
    interval, but not if rows may have several relevant labels.
    """
    generator = torch.Generator().manual_seed(0)
    scores, words = (
        torch.randn(300, 9, generator=generator),
        torch.randint(9, (300,), generator=generator),
    )
    report = evaluate(scores, words, metrics=[CrossEntropy()], intervals=True)
    perplexity = float(torch.nn.functional.cross_entropy(scores.double(), words).exp())
    interval, buckets = (
        report.intervals["cross_entropy"],
        LabelBuckets.thresholds(torch.arange(9), [1, 5]),
    )
    sentence = f"exp(cross_entropy): perplexity {perplexity:.4f} [{math.exp(interval.low):.4f}, {math.exp(interval.high):.4f}]."
    assert sentence in Tags(page(report)).text
    assert f"perplexity {perplexity:.4f}" in markdown(report)
    assert "perplexity" not in markdown(
        evaluate(scores, scores > 0, metrics=[CrossEntropy()], buckets=buckets)
    )


def test_a_page_gives_the_number_of_many_thresholds():
    """A page gives the number of thresholds if there is one for each label, and JSON
    gives each; a few cut-offs are listed.
    """
    metrics = [F1AtThreshold(torch.full((30,), 0.25)), RecallAtK(k=[1, 2])]
    report = evaluate(torch.eye(30), torch.arange(30), metrics=metrics, intervals=False)
    text = page(report)
    assert "threshold=30 values" in text
    assert "k=[1, 2]" in text
    assert report.as_dict()["settings"][0]["threshold"] == [0.25] * 30


def test_a_bucket_called_all_keeps_its_own_value():
    """A bucket with the name "all" has its own line with its own labels, positives and
    value, beside that of all labels.
    """
    buckets = LabelBuckets.from_assignment(
        [0, 0, 1, 1], ["all", "rest"], counts=[4, 3, 2, 1]
    )
    lists, target = torch.tensor([[0], [0], [0]]), torch.tensor([0, 1, 2])
    text = markdown(
        evaluate(
            lists, target, buckets=buckets, metrics=[RecallAtK(1)], intervals=False
        )
    )
    lines = [
        line.strip("| ").split(" | ")
        for line in text.splitlines()
        if line.startswith("| all |")
    ]
    assert [(*line[:3], line[-1]) for line in lines] == [
        ("all", "4", "3", "0.3333"),
        ("all", "2", "2", "0.5000"),
    ]
