"""`tailmetrics evaluate` gives the values of the metrics, however they are
requested.
"""

import json
import subprocess
import sys
from zipfile import ZipFile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import yaml

import tailmetrics as package
from cli.long_tail import padded
from tailmetrics import (
    KForRecall,
    LabelFrequency,
    PrecisionAtK,
    PropensityScoredPrecisionAtK,
    RecallAtK,
    TopKCollection,
)
from tailmetrics.cli.configs import preset_paths
from written import by_key, values_of

METRICS = [
    ("PrecisionAtK", "{k: [1, 3]}"),
    ("RecallAtK", "{k: 5, buckets: deciles}"),
    ("PropensityScoredPrecisionAtK", "{k: 3}"),
    ("KForRecall", "{min_recall: 0.5, buckets: deciles}"),
    ("GiniAtK", "{k: 3}"),
]
"""Metrics of the tests; the last one has no values per row."""


def in_memory(data_set):
    """Return the values of METRICS without the last, overall and per row, computed
    without files.
    """
    frequency = LabelFrequency(30)
    frequency.update(padded(data_set.trained))
    collection = TopKCollection([PrecisionAtK(k=[1, 3]), RecallAtK(k=5, buckets="deciles"),
                                 PropensityScoredPrecisionAtK(k=3), KForRecall(min_recall=0.5, buckets="deciles"),
                                 RecallAtK(k=5), KForRecall(min_recall=0.5)])  # fmt: skip
    collection.bind(frequency)
    preds = torch.tensor(data_set.scores), torch.tensor(data_set.candidates)
    collection.update(preds, padded(data_set.relevant))
    ranking = collection.rank(preds, padded(data_set.relevant))
    rows = {
        key: value
        for metric in collection.members().values()
        for key, value in metric.row_values(ranking).items()
    }
    return {key: float(value) for key, value in collection.compute().items()}, rows


def values(report):
    """Return the values of a report by key, NaN for what is undefined."""
    return {
        key: float("nan") if value is None else value
        for key, value in values_of(report).items()
    }


@pytest.mark.drawn
def test_a_report_holds_the_values_of_the_metrics(
    data_set, config, tailmetrics, tmp_path
):
    """Every value of a report has the bits of the metrics that are updated with one
    batch, though the command reads batches of 7 rows. The command prints the values and
    the path of the report.
    """
    words = [
        "--config",
        config(*METRICS),
        *data_set.options_with_training,
        "--out",
        tmp_path / "out",
        "--batch-rows",
        7,
    ]
    status, out, err = tailmetrics("evaluate", *words)
    assert (status, err) == (0, "")
    expected, _ = in_memory(data_set)
    actual = values(json.loads((tmp_path / "out" / "report.json").read_text()))
    assert actual.pop("gini@3") > 0
    np.testing.assert_array_equal(
        [actual[key] for key in expected], list(expected.values())
    )
    assert actual.keys() == expected.keys()
    assert "precision@3" in out
    assert "report.html" in out and str(tmp_path / "out") in "".join(out.split())


def test_per_row_writes_the_row_values_of_the_metrics(
    data_set, config, tailmetrics, tmp_path
):
    """--per-row writes a table of each row's value, null where the row does not count,
    and for ratios and values beyond chance a pair of columns. It creates the folder of
    the table and no other file.
    """
    table = tmp_path / "new" / "rows.parquet"
    arguments = [
        "--config",
        config(*METRICS),
        *data_set.options_with_training,
        "--batch-rows",
        7,
        "--quiet",
    ]
    assert tailmetrics("evaluate", *arguments, "--per-row", table)[0] == 0
    columns_of_table = pq.read_table(table)
    assert columns_of_table["row"].to_pylist() == list(range(60))
    _, expected = in_memory(data_set)
    columns = {}
    for key, value in expected.items():
        pair = isinstance(value, tuple)
        columns |= (
            {f"{key}.numerator": value[0], f"{key}.denominator": value[1]}
            if pair
            else {key: value}
        )
    beyond_chance = [
        name for name in columns_of_table.column_names if name.startswith("adjusted ")
    ]
    assert {name.rpartition(".")[0] for name in beyond_chance} == {
        f"adjusted {key}" for key in columns if key.startswith("recall@5/")
    }
    assert [
        name for name in columns_of_table.column_names if name not in beyond_chance
    ] == [
        "row",
        "list length",
        *columns,
    ]
    for name, values in columns.items():
        np.testing.assert_array_equal(columns_of_table[name].to_numpy(), values.numpy())
        assert columns_of_table[name].null_count == int(values.isnan().sum())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.yaml", "new"]


def test_label_counts_give_the_report_of_training_targets(data_set, config, evaluated):
    """--label-counts with --num-train gives the report of --train-target, apart from
    how the training file was read.
    """
    counted = [
        *data_set.options,
        "--label-counts",
        data_set.counts,
        "--num-train",
        len(data_set.trained),
    ]
    metrics = ["--config", config(*METRICS)]
    trained, counted_report = (
        evaluated(*metrics, *data_set.options_with_training),
        evaluated(*metrics, *counted),
    )
    assert counted_report == {
        **trained,
        "readings": trained["readings"][:2],
    }  # readings are those of predictions, targets and training


def test_a_config_may_hold_every_option_and_the_command_line_wins(
    data_set, config, tailmetrics, tmp_path
):
    """A config may hold any option, such as files, and a later option on the command
    line replaces its value.
    """
    path = config(METRICS[0])
    with open(path, "a") as file:
        file.write(
            f"preds: {data_set.preds}\ntarget: {data_set.target}\ntitle: of the config\nout: {tmp_path / 'out'}\n"
        )
        file.write("overwrite: true\n")
    for further_options, title in (
        ([], "of the config"),
        (["--title", "of the line"], "of the line"),
    ):
        assert tailmetrics("evaluate", "--config", path, *further_options)[0] == 0
        assert (
            json.loads((tmp_path / "out" / "report.json").read_text())["title"] == title
        )


def test_without_an_output_folder_nothing_is_written(
    data_set, config, tailmetrics, tmp_path
):
    """Without --out the command prints tables and writes no file; with --quiet it
    prints nothing.
    """
    options = ["evaluate", "--config", config(METRICS[0]), *data_set.options]
    assert "precision@1" in tailmetrics(*options)[1]
    assert tailmetrics(*options, "--quiet") == (0, "", "")
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]


def test_gini_needs_only_the_number_of_labels(data_set, config, evaluated):
    """Gini needs --num-labels, but no training data."""
    assert (
        values_of(
            evaluated(
                "--config", config(METRICS[4]), *data_set.options, "--num-labels", 30
            )
        )["gini@3"]
        > 0
    )


def test_filtered_pairs_do_not_count(data_set, config, evaluated, tmp_path):
    """A filter of all relevant labels leaves no hit, and the report says how many pairs
    and positives it removes, and how many rows keep no positive.
    """
    pairs = [
        (row, label)
        for row, relevant in enumerate(data_set.relevant)
        for label in relevant
    ]
    (tmp_path / "filter.txt").write_text(
        "".join(f"{row} {label}\n" for row, label in pairs)
    )
    report = evaluated(
        "--config",
        config(METRICS[0]),
        *data_set.options,
        "--filter",
        tmp_path / "filter.txt",
    )
    assert values_of(report) == {"precision@1": 0, "precision@3": 0}
    note = f"--filter filter.txt leaves {len(pairs):,} pairs out, among them {len(pairs):,} of the {len(pairs):,}"
    note += f" positives of target.parquet: {sum(map(bool, data_set.relevant)):,} rows keep no positive."
    assert note in report["warnings"]


@pytest.mark.parametrize("form", ["csv", "jsonl", "ndjson", "qrels"])
def test_a_note_counts_lines_of_gain_0(tmp_path, tailmetrics, write_files, form):
    """A note counts lines of gain 0 in targets and training, because a rating of 0 may
    mean that nobody rated.

    There is none for TREC, where 0 is a judgement, nor for lists, of which some are
    empty, nor with --columns.gain none.
    """
    lines = {
        "csv": "user,item,rating\na,x,0\na,y,3\n",
        "jsonl": '{"query": "a", "item": "x", "gain": 0}\n{"query": "a", "item": "y", "gain": 3}\n',
        "ndjson": '{"query": "a", "items": ["x", "y"], "gains": [0, 3]}\n{"query": "b", "items": [], "gains": []}\n',
        "qrels": "a 0 x 0\na 0 y 3\n",
    }
    (tmp_path / f"y.{form}").write_text(lines[form])
    words = [
        *write_files(preds="query,item,score\na,x,1\n"),
        "--target",
        tmp_path / f"y.{form}",
    ]
    words += [
        "--train-target",
        tmp_path / f"y.{form}",
        "--metrics",
        "[{class_path: MRR}]",
    ]
    note = f"y.{form}: 1 of 2 lines have the gain 0 and do not count; --columns.gain none counts each line."
    messages = tailmetrics("evaluate", *words)[2]
    assert (
        (note in messages)
        is ("have the gain 0" in messages)
        is (form in ("csv", "jsonl"))
    )
    assert (
        "have the gain 0"
        not in tailmetrics("evaluate", *words, "--columns.gain", "none")[2]
    )


@pytest.mark.parametrize(
    ("pairs", "positives"),
    [("a x\nb x\n", "none of them a positive."), ("a y\nb x\n", None)],
)
def test_a_report_counts_what_the_filter_removes(
    write_files, evaluated, tmp_path, pairs, positives
):
    """A report counts the pairs that a filter removes, and the positives among them: a
    gain of 0 is no positive, a query without predictions is in no row, and a row may
    keep another positive.
    """
    words = write_files(
        preds="query,item,score\na,x,2\na,y,1\nb,y,1\n",
        target="query,item,gain\na,x,0\na,y,1\na,z,1\nb,y,1\nc,y,1\n",
    )
    (tmp_path / "seen.txt").write_text(pairs + "c y\n")
    words += ["--filter", tmp_path / "seen.txt", "--metrics", "[{class_path: MRR}]"]
    expected = (
        positives
        or "among them 1 of the 3 positives of target.csv: 0 rows keep no positive."
    )
    assert (
        f"--filter seen.txt leaves 2 pairs out, {expected}"
        in evaluated(*words)["warnings"]
    )


def test_intervals_contain_the_reported_values(data_set, config, evaluated):
    """Every key with values per row has an interval that contains the reported value,
    ratios of sums and gaps included.
    """
    report = evaluated(
        "--config",
        config(*METRICS),
        *data_set.options_with_training,
        "--intervals",
        "--resamples",
        200,
    )
    expected, records = values(report), by_key(report)
    gaps = {
        key: record["value"] for key, record in records.items() if record["summary"]
    }
    assert gaps
    assert records.keys() == expected.keys() | gaps.keys()
    expected |= gaps
    for key, interval in records.items():
        assert (
            interval["value"] == pytest.approx(expected[key], nan_ok=True)
            or interval["n"] == 0
        )
        assert (
            interval["low"] is None
            or interval["low"] <= expected[key] <= interval["high"]
        )
    assert records["psp@3"]["interval_method"].startswith(("BCa", "studentised"))


@pytest.mark.parametrize(
    "name", ["head_to_tail", "xmc", "retrieval", "recsys", "next_location", "map12"]
)
@pytest.mark.slow
def test_every_preset_runs_on_scores(data_set, write_files, tailmetrics, name):
    """Each preset evaluates a matrix of scores and prints at most 40 lines.

    A preset without buckets warns that training data have no effect, and --buckets,
    which the warning names, gives values by bucket.
    """
    options = [
        *write_files(
            preds=np.random.default_rng(1).normal(size=(60, 30)),
            target=np.arange(60) % 30,
        )
    ]
    options += ["--train-target", data_set.train]
    status, out, err = tailmetrics("evaluate", "--preset", name, *options)
    warning_of_training = "warning: No metric reads how often labels occur in training, so that --train-target makes no values by "
    no_buckets = name in ("retrieval", "map12")
    warning_of_rows = (
        "warning: KForRecall: each row of a batch has one relevant label. If all rows do, min_recall=0.8 makes no "
        "difference: "
    )
    expected = ""
    if no_buckets:
        expected = warning_of_training
    elif name == "head_to_tail":
        expected = warning_of_rows
    assert (status, err[: len(expected)], err.count("\n")) == (
        0,
        expected,
        bool(expected),
    )
    assert "@" in out
    assert out.count("\n") <= 40
    if name == "head_to_tail":  # it has the most values
        assert tailmetrics("evaluate", "--preset", name, *options, "--verbose")[
            1
        ].count("\n") > out.count("\n")
    if no_buckets:
        status, out, err = tailmetrics(
            "evaluate", "--preset", name, *options, "--buckets", "deciles"
        )
        assert (status, warning_of_training in err, "decile_1" in out) == (
            0,
            False,
            True,
        )


@pytest.mark.parametrize("chosen", ["preset", "config"])
def test_a_warning_of_a_metric_is_on_stderr_and_in_the_report(
    config, write_files, evaluated, tailmetrics, tmp_path, chosen
):
    """A warning of a metric, here of probabilities instead of logits, is printed to
    stderr and is in the report, for metrics of a config and of a preset.
    """
    files = write_files(preds=np.full((60, 30), 1 / 30), target=np.arange(60) % 30)
    metrics = (
        ["--preset", "next_location"]
        if chosen == "preset"
        else ["--config", config(("CrossEntropy", "{}"))]
    )
    text = "CrossEntropy: preds, float64 [60, 30], lie between 0 and 1 and add up to 1 in each row"
    warnings = evaluated(
        *files, *metrics, warns=[*["No file says"] * (chosen == "preset"), text]
    )["warnings"]
    assert [
        warning.partition(", as")[0]
        for warning in warnings
        if warning.startswith("CrossEntropy")
    ] == [text]
    options = ["--preds", files[1], "--names", "a", "b", "--resamples", 200, "--quiet"]
    assert text in tailmetrics("compare", *files, *metrics, *options)[2]


@pytest.mark.parametrize(
    ("screens", "count"),
    [(["stdout", "stderr"], 1), (["stdout"], 2), (["stderr"], 2), ([], 2)],
)
def test_a_screen_shows_each_warning_once(
    write_files, tailmetrics, monkeypatch, screens, count
):
    """If stdout and stderr are the same screen, a warning is shown once.

    If one of them is a file, both hold the warning.
    """
    for name in screens:
        monkeypatch.setattr(f"sys.{name}.isatty", lambda: True)
    files = write_files(preds=np.full((60, 30), 1 / 30), target=np.arange(60) % 30)
    _, out, err = tailmetrics("evaluate", *files, "--metrics+=CrossEntropy")
    assert (out + err).count("CrossEntropy:") == count
    assert err.count("CrossEntropy: ") == 1


def test_the_hint_on_thresholds_for_logits_gives_the_value_of_probabilities(
    write_files, evaluated, tailmetrics, tmp_path
):
    """For a threshold of probabilities and a file of logits, the hint names the logit
    of the threshold, at which the value is that of the probabilities.
    """
    rng = np.random.default_rng(0)
    target = (rng.random((80, 9)) < 0.3).astype(np.int64)
    logits = rng.normal(size=(80, 9)) + 2 * target
    files = write_files(preds=logits, target=target)
    status, _, err = tailmetrics(
        "evaluate", *files, "--metrics+", "F1AtThreshold", "--metrics.threshold", "0.3"
    )
    assert status == 0
    assert "F1AtThreshold: preds, float64 [80, 9]" in err
    logit = err.strip().rpartition("or its logit: F1AtThreshold(")[2].removesuffix(").")
    words = ["--metrics+=F1AtThreshold", f"--metrics.threshold={logit}"]
    (value,) = values_of(evaluated(*files, *words, warns=())).values()
    above = 1 / (1 + np.exp(-logits)) > 0.3
    assert value == pytest.approx(
        2 * (above & (target > 0)).sum() / (above.sum() + target.sum())
    )


@pytest.mark.slow
def test_probabilities_make_the_loss_that_of_probabilities(
    write_files, evaluated, tailmetrics
):
    """The warning names --probabilities.

    With it cross-entropy is -log of the probability, overall and by bucket, and ranks
    do not change. It is refused beside thresholds and for values that are no
    probabilities.
    """
    probabilities = (
        np.random.default_rng(0).dirichlet(np.full(12, 0.5), size=40).astype(np.float32)
    )
    target = np.arange(40) % 12
    words = [
        *write_files(preds=probabilities, target=target, train_target=target),
        "--preset",
        "next_location",
    ]
    without_option = evaluated(*words, "--num-labels", 12, warns=["CrossEntropy: "])
    assert any(
        "on the command line --probabilities" in warning
        for warning in without_option["warnings"]
    )
    actual = values_of(
        evaluated(*words, "--num-labels", 12, "--probabilities", warns=())
    )
    expected = -np.log(probabilities[np.arange(40), target].astype(np.float64))
    assert actual["cross_entropy"] == pytest.approx(expected.mean(), rel=1e-6)
    assert actual["cross_entropy/decile_10"] == pytest.approx(
        expected[np.isin(target, [0])].mean(), rel=1e-6
    )
    assert actual["mrr"] == values_of(without_option)["mrr"]
    failure = tailmetrics(
        "evaluate",
        *words,
        "--probabilities",
        "--metrics+=F1AtThreshold",
        "--metrics.threshold=0.5",
    )
    assert failure[2].startswith(
        "error: --probabilities takes logarithms, and thresholds are for scores"
    )
    # positive logits, and negative ones
    for scores in (probabilities + 1, np.log(probabilities)):
        words = [
            *write_files(preds=scores, target=target),
            "--preset",
            "next_location",
            "--num-labels",
            12,
        ]
        err = tailmetrics("evaluate", *words, "--probabilities")[2]
        assert "but probabilities lie between 0 and 1 (rows 0 to 39 of " in err
        assert err.endswith(
            "hint: leave --probabilities out where scores are logits.\n"
        )


def test_a_second_preset_is_refused(tailmetrics):
    """A second --preset is refused, so that it does not silently replace the first."""
    status, _, err = tailmetrics(
        "evaluate", "--preset", "next_location", "--preset", "xmc"
    )
    assert (status, err.splitlines()[0]) == (
        2,
        "error: --preset xmc: --preset next_location is given already",
    )


def test_presets_are_found_in_an_installed_package(tmp_path, monkeypatch):
    """Presets are the configs in the folder of the installed package that hold a list
    of metrics.
    """
    (tmp_path / "tailmetrics" / "configs").mkdir(parents=True)
    for name, text in (("mine", "metrics: []\nmetrics:\n"), ("model", "trainer: {}\n")):
        (tmp_path / "tailmetrics" / "configs" / f"{name}.yaml").write_text(text)
    monkeypatch.setattr(
        package, "__file__", str(tmp_path / "tailmetrics" / "__init__.py")
    )
    assert list(preset_paths()) == ["mine"]


def test_the_wheel_holds_the_presets(tmp_path):
    """A wheel that is built from the checkout has every preset in the folder in which
    the command looks.
    """
    pytest.importorskip("hatchling")
    root = next(iter(preset_paths().values())).parents[1]
    build = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-t",
        "wheel",
        "-d",
        str(tmp_path),
    ]
    subprocess.run(build, cwd=root, check=True, capture_output=True)
    with ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        names = set(wheel.namelist())
    assert {f"tailmetrics/configs/{name}.yaml" for name in preset_paths()} <= names


CUSTOM_METRIC = """
from tailmetrics.metrics import COUNT, RowMeanMetric


class FoundAtK(RowMeanMetric):
    stem = "{stem}"
    fixed_point = COUNT

    def _row_value(self, placement, k):
        return placement.hits_at(k) > 0
"""


def test_a_config_may_name_a_class_of_the_current_folder(
    data_set, evaluated, tmp_path, monkeypatch
):
    """A config may name a class of a module in the current folder. An installed module
    of the same name wins.
    """
    installed, here = tmp_path / "installed", tmp_path / "here"
    for folder, stem, names in (
        (installed, "theirs", ["twice"]),
        (here, "ours", ["twice", "only_here"]),
    ):
        folder.mkdir()
        for name in names:
            (folder / f"{name}.py").write_text(CUSTOM_METRIC.format(stem=stem))
    monkeypatch.syspath_prepend(installed)
    monkeypatch.chdir(here)
    config = here / "own.yaml"
    metrics = [
        f"  - class_path: {name}.FoundAtK\n    init_args: {{k: 3}}\n"
        for name in ("only_here", "twice")
    ]
    config.write_text(
        "metrics:\n  - class_path: tailmetrics.HitRateAtK\n    init_args: {k: 3}\n"
        + "".join(metrics)
    )
    actual = values_of(
        evaluated("--config", config, *data_set.options, "--num-labels", 30, warns=())
    )
    for name in ("only_here", "twice"):
        sys.modules.pop(name, None)
    assert actual["ours@3"] == actual["theirs@3"] == actual["hit_rate@3"] > 0


def test_targets_may_be_the_training_targets(write_files, evaluated):
    """The same file may be the targets and the training targets: each label counts in
    training as often as in the targets.
    """
    target = np.arange(12).reshape(4, 3) % 2 == 0
    files = write_files(preds=np.arange(12.0).reshape(4, 3), target=target)
    words = [
        *files,
        "--train-target",
        files[3],
        "--preset",
        "head_to_tail",
        "--buckets",
        "quantiles:3",
    ]
    counts = evaluated(*words)["label_counts"]
    assert (counts["labels"], counts["occurrences"]) == (3, target.sum())


@pytest.mark.parametrize("padding", [-100, 0])
@pytest.mark.slow
def test_ignore_index_pads_sequences_of_targets_and_training(
    write_files, evaluated, tailmetrics, tmp_path, padding
):
    """--ignore-index removes padded tokens (B, T) from targets and training: accuracy,
    rows and counts are those of plain loops over the other tokens. With --clusters, the
    tokens of a sequence form a cluster. Without the option, a target of -100 is refused
    with a hint on it.
    """
    source = np.random.default_rng(0)
    scores, target = source.normal(size=(6, 5, 9)), source.integers(1, 9, (6, 5))
    train = source.integers(1, 4, (20, 7))
    target[:, 3:], train[::2, 4:] = padding, padding
    files, training = (
        write_files(preds=scores, target=target),
        write_files(train_target=train),
    )
    metrics = ["--metrics+=AccuracyAtK", "--metrics.k=1"]
    by_bucket, with_ignore_index = (
        [*metrics, "--buckets", "thresholds:1"],
        [*files, *training, f"--ignore-index={padding}"],
    )
    # MRR then has the ignore_index of the cross-entropy
    further_metrics = (
        "--metrics+=CrossEntropy",
        "--metrics.ignore_index",
        padding,
        "--metrics+=MRR",
    )
    assert (
        tailmetrics("evaluate", *by_bucket, *further_metrics, *files, *training)[0] == 0
    )
    report = evaluated(*by_bucket, "--metrics+=CrossEntropy", *with_ignore_index)
    assert "perplexity" in (tmp_path / "out" / "report.md").read_text()
    counts = target != padding
    assert report["rows"] == counts.sum()
    assert (
        f"{(~counts).sum()} of 30 rows are left out by ignore_index={padding}."
        in report["warnings"]
    )
    assert (
        values_of(report)["accuracy@1"] == (scores.argmax(2) == target)[counts].mean()
    )
    assert report["buckets"][0]["occurrences"] == (train != padding).sum()
    assert sum(bucket["positives"] for bucket in report["buckets"]) == counts.sum()
    assert any(
        "sequence are taken for independent" in warning
        for warning in report["warnings"]
    )
    (tmp_path / "texts.txt").write_text("one\ntwo\nthree\nfour\nfive\nsix\n")
    report = evaluated(
        *by_bucket, *with_ignore_index, "--clusters", tmp_path / "texts.txt"
    )
    assert by_key(report)["accuracy@1"]["clusters"] == 6
    assert not any("independent" in warning for warning in report["warnings"])
    status, _, err = tailmetrics("evaluate", *metrics, *files, "--quiet")
    hint = "If -100 marks rows that do not count, leave them out with"
    if padding < 0:
        assert status == 2
        assert hint in err
    else:
        assert status == 0
        assert hint not in err


def write_lists(path, rows):
    """Write rows as an array, or as lists in Parquet; return the path."""
    if path.suffix == ".npy":
        np.save(path, rows)
    else:
        pq.write_table(pa.table({"labels": rows}), path)
    return path


@pytest.mark.parametrize("suffix", ["npy", "parquet"])
@pytest.mark.parametrize("padding", [-100, 0])
def test_ignore_index_pads_lists_of_targets_and_training(
    write_files, evaluated, tmp_path, padding, suffix
):
    """--ignore-index removes padding from lists of targets and training, and rows that
    hold nothing else do not count.

    Recall is (1 + 1/2) / 2; label 1 is in 2 of 4 training rows and label 3 in 1, so
    that novelty is (1 + 2) / 2.
    """
    p = padding
    target = write_lists(
        tmp_path / f"target.{suffix}", [[1, p, p], [2, 3, p], [p, p, p]]
    )
    train = write_lists(
        tmp_path / f"train.{suffix}", [[1, 2, p], [1, p, p], [3, p, p], [2, p, p]]
    )
    files = [
        *write_files(preds=np.eye(4)[[1, 3, 1]]),
        "--target",
        target,
        "--train-target",
        train,
    ]
    metrics = [
        "--metrics+=RecallAtK",
        "--metrics.k=1",
        "--metrics+=NoveltyAtK",
        "--metrics.k=1",
    ]
    report = evaluated(*files, *metrics, f"--ignore-index={padding}")
    assert report["rows"] == 2
    assert values_of(report) == {"recall@1": (1 + 1 / 2) / 2, "novelty@1": (1 + 2) / 2}


@pytest.mark.parametrize("suffix", ["npy", "parquet"])
def test_each_training_token_counts_as_a_row(write_files, evaluated, tmp_path, suffix):
    """Beside targets of tokens (B, T), each token of the training targets counts as a
    row: label 1 is 2 of 6 tokens and label 3 is 1, so that novelty is (log2 3 + log2 6)
    / 2.
    """
    files = write_files(preds=np.eye(4)[[[1, 3]]], target=np.array([[1, 3]]))
    metrics = ["--metrics+=NoveltyAtK", "--metrics.k=1"]
    for texts, options in (
        ([[1, 1, 2], [3, 2, 2]], []),
        ([[1, 1, 2, 3], [2, 2, -100, -100]], ["--ignore-index=-100"]),
    ):
        train = write_lists(tmp_path / f"train.{suffix}", texts)
        report = evaluated(*files, "--train-target", train, *metrics, *options)
        assert values_of(report)["novelty@1"] == pytest.approx(
            (np.log2(3) + np.log2(6)) / 2, abs=1e-12
        )


@pytest.mark.slow
def test_ignore_index_replaces_that_of_a_preset(
    write_files, evaluated, compared, tmp_path
):
    """--ignore-index 0 replaces the -100 of a preset, for `evaluate` and `compare`:
    rows, training counts, cross-entropy and accuracy are those of the tokens other than
    0, by numpy.
    """
    source = np.random.default_rng(1)
    scores, target = source.normal(size=(6, 5, 12)), source.integers(1, 12, (6, 5))
    target[:, 3:], train = 0, source.integers(0, 12, (20, 7))
    scores[..., 0] += 9  # a model that predicts padding
    np.save(tmp_path / "o.npy", scores[..., ::-1])
    words = [
        "--preset",
        "language_model",
        "--ignore-index=0",
        *write_files(target=target, train_target=train, preds=scores),
    ]
    loss = (
        np.log(np.exp(scores).sum(2))
        - np.take_along_axis(scores, target[..., None], 2)[..., 0]
    )
    report = evaluated(*words)
    assert (report["rows"], report["label_counts"]["occurrences"]) == (
        (target != 0).sum(),
        (train != 0).sum(),
    )
    assert values_of(report)["cross_entropy"] == pytest.approx(
        loss[target != 0].mean(), abs=1e-12
    )
    assert values_of(report)["accuracy@1"] == 0
    record = compared(*words, "--preds", tmp_path / "o.npy")["cross_entropy"]
    assert record["baseline_value"] == pytest.approx(
        values_of(report)["cross_entropy"], abs=1e-12
    )


def test_a_printed_config_gives_the_same_values(
    write_files, evaluated, tailmetrics, tmp_path, capsys
):
    """The config that --print_config prints gives the values of the command line.

    Of columns it holds only the names that the user gave, so that the others are found
    by known names.
    """
    files = write_files(
        preds="user,what,score\na,i,.9\na,j,.1\nb,j,.8\n",
        target="user,what\na,i\nb,i\n",
    )
    words = [
        *files,
        "--metrics+=PrecisionAtK",
        "--metrics.k=1",
        "--columns.item",
        "what",
    ]
    expected = values_of(evaluated(*words))
    with pytest.raises(SystemExit, match="0"):
        tailmetrics("evaluate", *words, "--print_config")
    printed = capsys.readouterr().out
    assert yaml.safe_load(printed)["columns"] == {"item": "what"}
    (tmp_path / "printed.yaml").write_text(printed)
    assert (
        values_of(evaluated("--config", tmp_path / "printed.yaml"))
        == expected
        == {"precision@1": 0.5}
    )
    with pytest.raises(SystemExit, match="0"):
        tailmetrics("evaluate", "--preset", "xmc", "--print_config")
    assert "columns" not in yaml.safe_load(capsys.readouterr().out)


INTERVALS = [
    ("RecallAtK", "{k: 3, buckets: deciles, scope: global}"),
    ("NDCGAtK", "{k: 5}"),
]


@pytest.mark.slow
def test_intervals_are_on_by_default(data_set, config, tailmetrics, tmp_path):
    """Intervals are computed by default, with the given confidence, and not with
    --no-intervals.

    --intervals and --no-intervals together are refused.
    """
    options = [
        "evaluate",
        "--config",
        config(*INTERVALS),
        *data_set.options_with_training,
        "--overwrite",
        "--out",
        tmp_path / "out",
    ]
    printed = tailmetrics(*options, "--verbose", "--confidence", 0.9)[1]
    assert "± is half the width of the 90% confidence interval" in printed
    records = by_key(json.loads((tmp_path / "out" / "report.json").read_text()))
    assert records["ndcg@5"]["interval_method"] == "Student's t"
    assert "±" not in tailmetrics(*options, "--verbose", "--no-intervals")[1]
    assert by_key(json.loads((tmp_path / "out" / "report.json").read_text())) == {}
    status, _, err = tailmetrics(*options, "--no-intervals", "--intervals")
    assert (status, err.splitlines()[0]) == (
        2,
        "error: --intervals and --no-intervals are both given",
    )
