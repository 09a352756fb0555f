"""Errors of the command line: exit status 2, one line with problem and place, a hint,
and no output files.
"""

import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.long_tail import write_lists
from written import values_of

OLD_REPORT = '{"metrics": {}, "by_bucket": {}, "versions": {}}'
PRECISION = ("PrecisionAtK", "{k: 3}")
DECILES = ("RecallAtK", "{k: 3, buckets: deciles}")


def write(path, content):
    """Write text or bytes and return the path."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def save(path, array):
    """Write an array and return the path."""
    np.save(path, np.array(array))
    return path


def with_row(rows, number, row):
    """Return the rows with one of them replaced."""
    return [row if index == number else old for index, old in enumerate(rows)]


FILES = {
    "a truncated file": (
        lambda data_set, folder: (write(folder / "a.parquet", Path(data_set.preds).read_bytes()[:-99]), data_set.target),
        "a.parquet: cannot be read as parquet",
    ),
    "an id out of range": (
        lambda data_set, folder: (data_set.preds, write_lists(folder / "a.parquet", labels=with_row(data_set.relevant, 41, [3, 30]))),
        "a.parquet, row 41: holds the label id 30, but there are 30 labels",
    ),
    "text on a line of its own": (
        lambda data_set, folder: (write(folder / "a.run", "q1 Q0 d1 1 high me\n"), write(folder / "a.qrels", "q1 0 d1 1\n")),
        "a.run, line 1: score 'high' is not a number",
    ),
}  # fmt: skip


def failed(result, problem):
    """Check that the command failed with a single error that states the problem, and a
    hint.
    """
    status, out, err = result
    assert (status, out) == (2, "")
    error, hint, *further_lines = err.splitlines()
    assert error.startswith("error: ")
    assert problem in error
    assert hint.startswith("hint: ")
    assert len(hint) > 10
    assert not further_lines


@pytest.mark.parametrize("fault", FILES)
def test_errors_in_files_name_file_and_row(
    data_set, config, tailmetrics, tmp_path, fault
):
    """A damaged file and wrong values raise an error that names the file, and the row
    or line where there is one.

    The old report in the output folder is left as it was.
    """
    files, problem = FILES[fault]
    preds, target = files(data_set, tmp_path)
    out = tmp_path / "out"
    out.mkdir()
    write(out / "report.json", OLD_REPORT)
    arguments = [
        "--preds",
        preds,
        "--target",
        target,
        "--overwrite",
        "--out",
        out,
        "--per-row",
        out / "rows.parquet",
    ]
    further_options = [] if str(target).endswith(".qrels") else ["--num-labels", 30]
    arguments = [
        "--config",
        config(PRECISION),
        *arguments,
        *further_options,
        "--batch-rows",
        7,
    ]
    failed(tailmetrics("evaluate", *arguments), problem)
    assert [(path.name, path.read_text()) for path in out.iterdir()] == [
        ("report.json", OLD_REPORT)
    ]


CONFIGS = {
    "metrics:\n  - class_path: tailmetrics.PrecisionAtK\n    init_args: {kk: 3}\n": "PrecisionAtK takes no argument kk",
    "metrics:\n  - class_path: tailmetrics.Precision\n": "there is no class tailmetrics.Precision",
    "metrics:\n  - class_path: tailmetrics.PrecisionAtK\n    init_args: {k: 3, denominator: n}\n": "PrecisionAtK: denominator='n' is not known",
    "metrics:\n  - class_path: tailmetrics.PrecisionAtK\n    init_args: {k: x}\n": (
        "PrecisionAtK: k='x' is not a whole number"
    ),
    "metrics:\n  - class_path: tailmetrics.PrecisionAtK\n    init_args: {k: 0}\n": "PrecisionAtK: k=0 is too small",
    "metrics: []\n": "there are no metrics",
    "metrik: []\n": "metrik: there is no such option",
    "metrics: [\n": "config.yaml: is no YAML",
    "metrics: [MRR]\nseed: 1\nmetrics: [RPrecision]\n": "config.yaml: line 3 repeats the key 'metrics' of line 1",
    "metrics:\n  - class_path: PrecisionAtK\n    init_args:\n      k: 3\n      k: 5\n": "line 5 repeats the key 'k' of line 4",
    "preset: xmc\n": "config.yaml: preset: a config names no preset",
    "metrics:\n  - RecallAtK\n": "config.yaml: RecallAtK: missing a required argument: 'k'",
    "metrics:\n" + 2 * "  - class_path: tailmetrics.MRR\n": "both have the key 'mrr'",
    "metrics: []\n".encode("utf-16"): "config.yaml: is not UTF-8 text",
}


@pytest.mark.parametrize("text", CONFIGS)
def test_errors_in_configs_name_the_entry(data_set, tailmetrics, tmp_path, text):
    """A config with unknown classes, options or arguments, repeated keys or broken YAML
    is refused, and the error names the entry.
    """
    path = write(tmp_path / "config.yaml", text)
    failed(tailmetrics("evaluate", "--config", path, *data_set.options), CONFIGS[text])


def test_oversized_configs_are_refused(data_set, tailmetrics, tmp_path):
    """A config with lists nested 3,000 deep, or with aliases that expand to 43 million
    values, is refused.

    A config with a few aliases is read.
    """
    nested_aliases = [
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}' if n else '1'] * 9)}]" for n in range(9)
    ]
    for text in (
        "metrics: " + "[" * 3000 + "]" * 3000,
        "\n".join([*nested_aliases, "metrics: *a8"]),
    ):
        path = write(tmp_path / "odd.yaml", text)
        for option in (["--config", path], [f"--config={path}"]):
            failed(
                tailmetrics("evaluate", *data_set.options, *option),
                "odd.yaml: is nested too deep, or too large",
            )
    config_with_alias = write(tmp_path / "a.yaml", "metrics:\n  - {class_path: RecallAtK, init_args: &k {k: 2}}\n"
                    "  - {class_path: PrecisionAtK, init_args: *k}\n")  # fmt: skip
    status, out, _ = tailmetrics(
        "evaluate", "--config", config_with_alias, *data_set.options
    )
    assert status == 0 and "precision@2" in out and "recall@2" in out


OPTIONS = {
    ("--num-train", "many"): "--num-train many: is not a whole number",
    ("--missing", "drop"): "--missing drop: is none of skip, zero",
    ("--colour", "red"): "--colour: there is no such option",
    ("--preset", "imagenet"): "--preset imagenet: there is no such preset",
    ("--config", "nowhere.yaml"): "nowhere.yaml",
    ("--batch-rows", "0"): "error: read: batch_rows=0 is too small",
    ("--out", __file__): "test_bad_input.py: is not a folder",
    ("--out", ""): "--out: is empty",
    ("--clusters=",): "--clusters: is empty",
    ("--per-row", f"{__file__}/rows.parquet"): "test_bad_input.py: is not a folder",
    ("--device", "cuda"): "--device cuda: torch sees no GPU",
    ("--min-gain", "-1"): "error: PrecisionAtK: min_gain=-1.0 is out of range",
    ("--buckets", "fifths"): "error: LabelBuckets: buckets='fifths' cannot be read",
    ("--format", "excel"): "error: read: format='excel' is not known",
    ("--confidence", "2"): "evaluate: confidence=2.0 is out of range",
    ("--seed", "3"): "--seed would change nothing without --intervals",
    (
        "--resamples=9",
        "--no-intervals",
    ): "--resamples would change nothing without --intervals",
    (
        "--confidence=0.9",
        "--no-intervals",
    ): "--confidence and --no-intervals are both given",
    ("--quiet", "--verbose"): "--quiet and --verbose are both given",
    ("--figures", "svg"): "--figures would change nothing without --out",
    ("--per-row", "rows.csv"): "--per-row rows.csv: is written as Parquet",
    ("--shares", "3"): "--shares is given without --engine",
    ("--engine", "ray", "--per-row", "rows.parquet"): "--per-row is not possible",
    ("--engine", "ray", "--intervals"): "--intervals is not possible",
    ("--num-train", "9"): "--num-train is given without --label-counts",
    (
        "--metrics+=PrecisionAtK",
        "--metrics.k=3",
        "--metrics.name=pop",
    ): "name='pop' cannot be the name of a metric",
}


@pytest.mark.parametrize("option", OPTIONS)
def test_wrong_options_are_refused_by_name(
    data_set, config, tailmetrics, option, monkeypatch
):
    """An option that is unknown, has a wrong value or would have no effect is refused,
    and the error names it.
    """
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    failed(
        tailmetrics(
            "evaluate", "--config", config(PRECISION), *data_set.options, *option
        ),
        OPTIONS[option],
    )


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["evaluat"], "evaluat: is no command"),
        (["evaluate", "p.npy", "y.npy"], "p.npy y.npy: belongs to no option"),
        (["evaluate"], "there are no predictions"),
        (["evaluate", "--preds", "p.npy"], "there are no metrics"),
        (["evaluate", "--preds", "p.npy", "--preset", "map12"], "there are no targets"),
        (
            ["evaluate", "--filter", "a", "--filter=b"],
            "--filter is given twice, and takes one value",
        ),
        (["evaluate", "--preds", "a", "--preds", "b"], "--preds is given twice"),
        (["evaluate", *["--columns.query", "a"] * 3], "--columns.query is given twice"),
        (
            ["compare", "--seed", "1", "--target", "a", "--seed", "1"],
            "--seed is given twice",
        ),
        (
            [
                "compare",
                "--preds",
                "a.npy",
                "--preds",
                "b.npy",
                "--only",
                "a",
                "--only",
                "b",
            ],
            "there are no targets",
        ),
        (["compare", "a.parquet"], "there are 1 runs to compare"),
        (
            [
                "compare",
                "a.parquet",
                "b.parquet",
                "--missing",
                "zero",
                "--min-gain",
                "2",
            ],
            "--missing and --min-gain would",
        ),
        (
            ["compare", "a.parquet", "b.parquet", "--columns.query", "user"],
            "--columns would change nothing",
        ),
        (
            ["compare", "a.parquet", "b.parquet", "--target", "y", "--clusters", "u"],
            "a.parquet: there is no such file",
        ),
        (
            ["compare", "a.parquet", "b.parquet", "--preset", "retrieval"],
            "--preset retrieval would change nothing",
        ),
        (
            ["compare", "a.parquet", "b.parquet", "--metrics+=MRR"],
            "--metrics+=MRR would change nothing",
        ),
        (
            ["compare", "--preds", "a.npy", "b.npy", "--preset", "map12"],
            "there are no targets",
        ),
        (
            ["compare", "a.parquet", "b.parquet", "--preds", "a.npy", "b.npy"],
            "either tables or --preds",
        ),
        (
            ["compare", "a.parquet", "b.parquet", "--figures=pdf"],
            "--figures would change nothing without --out",
        ),
        (["compare", "a.parquet", "a.parquet"], "a.parquet stands twice"),
        (
            ["compare", "a.parquet", "b.parquet", "--names", " ", "b"],
            "a run has a blank name",
        ),
        (
            ["compare", "a.parquet", "b.parquet", "--names", "a", "a"],
            "names a, a are not one for each of 2 runs",
        ),
        (["compare", "a.parquet", "b.parquet"], "a.parquet: there is no such file"),
        (["compare", ",", "b.parquet"], ",: there is no such file"),
    ],
)
def test_incomplete_and_contradictory_command_lines_are_refused(
    tailmetrics, arguments, problem, tmp_path, monkeypatch
):
    """A command line that lacks predictions, targets, metrics or runs, repeats an
    option, or has options that would change nothing is refused, and the error names
    what is wrong.
    """
    monkeypatch.chdir(tmp_path)
    failed(tailmetrics(*arguments), problem)


def test_engines_refuse_lines_that_name_their_query(tailmetrics, tmp_path):
    """An engine refuses files whose lines name their query, because a share of the
    lines cannot be evaluated alone.
    """
    run = write(tmp_path / "p.run", "q Q0 d 1 1 me\n")
    words = [
        "--preds",
        run,
        "--target",
        "y",
        "--preset",
        "retrieval",
        "--engine",
        "dask",
    ]
    failed(tailmetrics("evaluate", *words), "p.run: lines name their query")


def test_metrics_refuse_missing_training_data(data_set, config, tailmetrics, tmp_path):
    """Metrics that need training data are refused without it: deciles need counts,
    propensities the number of training rows, and counting the number of labels.
    Negative counts and counts of too few labels are refused as well.
    """
    deciles, weighted = (
        config(DECILES),
        config(("PropensityScoredPrecisionAtK", "{k: 3}"), name="weighted.yaml"),
    )
    failed(
        tailmetrics("evaluate", "--config", deciles, *data_set.options),
        "RecallAtK: needs to know how often",
    )
    uncounted = [
        "--config",
        deciles,
        *data_set.options,
        "--train-target",
        data_set.train,
    ]
    failed(tailmetrics("evaluate", *uncounted), "the number of labels is not known")
    counted = [
        "--config",
        weighted,
        *data_set.options,
        "--label-counts",
        data_set.counts,
    ]
    failed(tailmetrics("evaluate", *counted), "needs the number of training rows")
    failed(
        tailmetrics("evaluate", *counted, "--train-target", data_set.train),
        "both --train-target and --label-counts",
    )
    negative = save(tmp_path / "negative.npy", [1, -1])
    failed(
        tailmetrics(
            "evaluate",
            "--config",
            deciles,
            *data_set.options,
            "--label-counts",
            negative,
        ),
        "the count -1",
    )
    short = save(tmp_path / "short.npy", [3, 2, 1])
    result = tailmetrics(
        "evaluate", "--config", deciles, *data_set.options, "--label-counts", short
    )
    failed(result, "but there are 3 labels")


def test_an_error_of_a_metric_names_the_rows_of_the_batch(
    data_set, config, tailmetrics
):
    """If a metric refuses a batch, the error gives its message and the rows of the file
    that the batch holds.
    """
    strict = config(("RecallAtK", "{k: 3, empty_target_action: error}"))
    empty = next(row for row, relevant in enumerate(data_set.relevant) if not relevant)
    result = tailmetrics(
        "evaluate", "--config", strict, *data_set.options, "--batch-rows", 7
    )
    first = empty // 7 * 7
    failed(
        result,
        f"RecallAtK: row {empty - first} has no relevant label (rows {first} to {first + 6} of {data_set.preds} and ",
    )


def test_a_missing_package_is_named(data_set, config, tailmetrics, monkeypatch):
    """If an optional package is missing, the command names it.

    An ImportError for another reason keeps its traceback.
    """
    monkeypatch.setitem(sys.modules, "tailmetrics.cli.compare", None)
    failed(
        tailmetrics("evaluate"),
        "the command line needs the package tailmetrics.cli.compare",
    )
    monkeypatch.setitem(sys.modules, "tailmetrics.cli.compare", ModuleType("broken"))
    with pytest.raises(
        ImportError, match="cannot import name 'compare_runs'"
    ):  # other import errors keep their traceback
        tailmetrics("evaluate")


def test_the_hint_for_the_number_of_labels_fits_ids_with_gaps(tailmetrics, tmp_path):
    """Coverage of lists of ids needs the number of labels.

    The hint names --num-labels, and --string-ids for ids with gaps, which works: 1 of
    the labels 7, 12 and 90 is recommended.
    """
    words = ["--metrics+=CatalogCoverageAtK", "--metrics.k=1", "--no-intervals"]
    for side, name, lists in (
        ("preds", "ids", [[7, 90], [7, 12]]),
        ("target", "labels", [[90], [12]]),
    ):
        pq.write_table(pa.table({name: lists}), tmp_path / f"{side}.parquet")
        words += [f"--{side}", tmp_path / f"{side}.parquet"]
    status, _, err = tailmetrics("evaluate", *words)
    assert (
        status,
        "--num-labels; or, where ids have gaps, --string-ids true" in err,
    ) == (2, True)
    status, out, _ = tailmetrics("evaluate", *words, "--string-ids", "true")
    # 7 alone of the labels 7, 12 and 90 is recommended
    assert (status, "0.3333" in out) == (0, True)


def test_ignore_index_is_refused_for_named_labels(tailmetrics, tmp_path):
    """--ignore-index is refused if labels have names, because label id 0 would be the
    first name.

    For label ids it removes the padding 0 from the targets.
    """
    (tmp_path / "p.csv").write_text("user,item,score\nu,apple,.9\nu,bean,.8\n")
    (tmp_path / "y.csv").write_text("user,item\nu,apple\nu,bean\n")
    words = ["evaluate", "--preds", tmp_path / "p.csv", "--target", tmp_path / "y.csv"]
    words += ["--metrics+=RecallAtK", "--metrics.k=1", "--ignore-index", "0"]
    status, _, err = tailmetrics(*words)
    assert (
        status,
        "--ignore-index 0 is a label id, but the labels of these files have names"
        in err,
    ) == (2, True)
    (tmp_path / "p.csv").write_text("user,item,score\nu,1,.9\nu,2,.8\n")
    (tmp_path / "y.csv").write_text("user,item\nu,1\nu,0\n")
    report = tmp_path / "out" / "report.json"
    assert (
        tailmetrics(
            *words,
            "--string-ids",
            "false",
            "--num-labels",
            3,
            "--out",
            tmp_path / "out",
        )[0]
        == 0
    )
    assert values_of(json.loads(report.read_text()))["recall@1"] == 1.0
