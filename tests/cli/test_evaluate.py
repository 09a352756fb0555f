"""`tailmetrics evaluate`: the numbers of the metrics, whichever way they are asked for."""

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
"""The last one has no values per row."""


def in_memory(data_set):
    """Return the values of METRICS, but for the last, over all labels too, and per row, computed without files."""
    frequency = LabelFrequency(30)
    frequency.update(padded(data_set.trained))
    collection = TopKCollection([PrecisionAtK(k=[1, 3]), RecallAtK(k=5, buckets="deciles"),
                                 PropensityScoredPrecisionAtK(k=3), KForRecall(min_recall=0.5, buckets="deciles"),
                                 RecallAtK(k=5), KForRecall(min_recall=0.5)])  # fmt: skip
    collection.bind(frequency)
    preds = torch.tensor(data_set.scores), torch.tensor(data_set.candidates)
    collection.update(preds, padded(data_set.relevant))
    ranking = collection.rank(preds, padded(data_set.relevant))
    rows = {key: value for metric in collection.members().values() for key, value in metric.row_values(ranking).items()}
    return {key: float(value) for key, value in collection.compute().items()}, rows


def values(report):
    """Return the values of a report by key, NaN for what is undefined."""
    return {key: float("nan") if value is None else value for key, value in values_of(report).items()}


@pytest.mark.drawn
def test_a_report_holds_what_the_metrics_compute(data_set, config, tailmetrics, tmp_path):
    """Every value is to the last bit that of the metrics fed in one batch, however small the batches."""
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
    np.testing.assert_array_equal([actual[key] for key in expected], list(expected.values()))
    assert actual.keys() == expected.keys()
    assert "precision@3" in out
    assert "report.html" in out and str(tmp_path / "out") in "".join(out.split())


def test_rows_are_written_as_the_metrics_have_them(data_set, config, tailmetrics, tmp_path):
    """The table holds each row's value, null where it does not count; of ratios, and beyond chance, a pair of columns."""
    table = tmp_path / "new" / "rows.parquet"
    arguments = ["--config", config(*METRICS), *data_set.options_with_training, "--batch-rows", 7, "--quiet"]
    assert tailmetrics("evaluate", *arguments, "--per-row", table)[0] == 0
    columns_of_table = pq.read_table(table)
    assert columns_of_table["row"].to_pylist() == list(range(60))
    _, expected = in_memory(data_set)
    columns = {}
    for key, value in expected.items():
        pair = isinstance(value, tuple)
        columns |= {f"{key}.numerator": value[0], f"{key}.denominator": value[1]} if pair else {key: value}
    beyond_chance = [name for name in columns_of_table.column_names if name.startswith("adjusted ")]
    assert {name.rpartition(".")[0] for name in beyond_chance} == {
        f"adjusted {key}" for key in columns if key.startswith("recall@5/")
    }
    assert [name for name in columns_of_table.column_names if name not in beyond_chance] == [
        "row",
        "list length",
        *columns,
    ]
    for name, values in columns.items():
        np.testing.assert_array_equal(columns_of_table[name].to_numpy(), values.numpy())
        assert columns_of_table[name].null_count == int(values.isnan().sum())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.yaml", "new"]


def test_counts_of_a_file_do_what_training_targets_do(data_set, config, evaluated):
    """--label-counts with --num-train gives the report of --train-target."""
    counted = [*data_set.options, "--label-counts", data_set.counts, "--num-train", len(data_set.trained)]
    metrics = ["--config", config(*METRICS)]
    trained, counted_report = evaluated(*metrics, *data_set.options_with_training), evaluated(*metrics, *counted)
    assert counted_report == {**trained, "readings": trained["readings"][:2]}  # counts have no reading of their own


def test_a_config_may_hold_every_option_and_the_command_line_wins(data_set, config, tailmetrics, tmp_path):
    """Files named in the config are read; what stands behind it on the command line replaces its value."""
    path = config(METRICS[0])
    with open(path, "a") as file:
        file.write(
            f"preds: {data_set.preds}\ntarget: {data_set.target}\ntitle: of the config\nout: {tmp_path / 'out'}\n"
        )
        file.write("overwrite: true\n")
    for further_options, title in (([], "of the config"), (["--title", "of the line"], "of the line")):
        assert tailmetrics("evaluate", "--config", path, *further_options)[0] == 0
        assert json.loads((tmp_path / "out" / "report.json").read_text())["title"] == title


def test_without_an_output_folder_nothing_is_written(data_set, config, tailmetrics, tmp_path):
    """The tables are printed, and with --quiet not even these."""
    options = ["evaluate", "--config", config(METRICS[0]), *data_set.options]
    assert "precision@1" in tailmetrics(*options)[1]
    assert tailmetrics(*options, "--quiet") == (0, "", "")
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]


def test_the_number_of_labels_alone_is_enough_for_metrics_that_ask_for_no_more(data_set, config, evaluated):
    """Gini needs the number of labels, not how often they occur in training."""
    assert values_of(evaluated("--config", config(METRICS[4]), *data_set.options, "--num-labels", 30))["gini@3"] > 0


def test_filtered_pairs_do_not_count(data_set, config, evaluated, tmp_path):
    """A filter that names every relevant label that is ranked leaves no hit, and the report says what it left out."""
    pairs = [(row, label) for row, relevant in enumerate(data_set.relevant) for label in relevant]
    (tmp_path / "filter.txt").write_text("".join(f"{row} {label}\n" for row, label in pairs))
    report = evaluated("--config", config(METRICS[0]), *data_set.options, "--filter", tmp_path / "filter.txt")
    assert values_of(report) == {"precision@1": 0, "precision@3": 0}
    note = f"--filter filter.txt leaves {len(pairs):,} pairs out, among them {len(pairs):,} of the {len(pairs):,}"
    note += f" positives of target.parquet: {sum(map(bool, data_set.relevant)):,} rows keep no positive."
    assert note in report["warnings"]


@pytest.mark.parametrize("form", ["csv", "jsonl", "qrels"])
def test_lines_of_gain_0_are_told(tmp_path, tailmetrics, write_files, form):
    """A rating of 0 may say that nobody rated: a note counts such lines, of training too. TREC judges with it."""
    lines = {
        "csv": "user,item,rating\na,x,0\na,y,3\n",
        "jsonl": '{"query": "a", "item": "x", "gain": 0}\n{"query": "a", "item": "y", "gain": 3}\n',
        "qrels": "a 0 x 0\na 0 y 3\n",
    }
    (tmp_path / f"y.{form}").write_text(lines[form])
    words = [*write_files(preds="query,item,score\na,x,1\n"), "--target", tmp_path / f"y.{form}"]
    words += ["--train-target", tmp_path / f"y.{form}", "--metrics", "[{class_path: MRR}]"]
    note = f"y.{form}: 1 of 2 lines have the gain 0 and do not count; --columns.gain none counts each line."
    assert (note in tailmetrics("evaluate", *words)[2]) is (form != "qrels")
    assert note not in tailmetrics("evaluate", *words, "--columns.gain", "none")[2]


@pytest.mark.parametrize(("pairs", "positives"), [("a x\nb x\n", "none of them a positive."), ("a y\nb x\n", None)])
def test_the_report_says_what_was_filtered(write_files, evaluated, tmp_path, pairs, positives):
    """A gain of 0 is no positive; a pair of a query without predictions is in no row; a row keeps another positive."""
    words = write_files(
        preds="query,item,score\na,x,2\na,y,1\nb,y,1\n", target="query,item,gain\na,x,0\na,y,1\na,z,1\nb,y,1\nc,y,1\n"
    )
    (tmp_path / "seen.txt").write_text(pairs + "c y\n")
    words += ["--filter", tmp_path / "seen.txt", "--metrics", "[{class_path: MRR}]"]
    expected = positives or "among them 1 of the 3 positives of target.csv: 0 rows keep no positive."
    assert f"--filter seen.txt leaves 2 pairs out, {expected}" in evaluated(*words)["warnings"]


def test_intervals_hold_the_value_they_are_of(data_set, config, evaluated):
    """Every key with values per row has an interval about the reported value, ratios of sums included."""
    report = evaluated("--config", config(*METRICS), *data_set.options_with_training, "--intervals", "--resamples", 200)
    expected, records = values(report), by_key(report)
    gaps = {key: record["value"] for key, record in records.items() if record["summary"]}
    assert gaps
    assert records.keys() == expected.keys() | gaps.keys()
    expected |= gaps
    for key, interval in records.items():
        assert interval["value"] == pytest.approx(expected[key], nan_ok=True) or interval["n"] == 0
        assert interval["low"] is None or interval["low"] <= expected[key] <= interval["high"]
    assert records["psp@3"]["interval_method"].startswith(("BCa", "studentised"))


@pytest.mark.parametrize("name", ["head_to_tail", "xmc", "retrieval", "recsys", "next_location", "map12"])
@pytest.mark.slow
def test_every_preset_runs_on_scores(data_set, write_files, tailmetrics, name):
    """Each preset evaluates a matrix of scores in one look of at most 40 lines; one that has no buckets says so."""
    options = [*write_files(preds=np.random.default_rng(1).normal(size=(60, 30)), target=np.arange(60) % 30)]
    options += ["--train-target", data_set.train]
    status, out, err = tailmetrics("evaluate", "--preset", name, *options)
    unread = "warning: No metric reads how often labels occur in training, so that --train-target makes no values by "
    no_buckets = name in ("retrieval", "map12")
    warning = "warning: KForRecall: each row has one relevant label, so that min_recall=0.8 makes no difference: "
    expected = unread if no_buckets else warning if name == "head_to_tail" else ""
    assert (status, err[: len(expected)], err.count("\n")) == (0, expected, bool(expected))
    assert "@" in out
    assert out.count("\n") <= 40
    if name == "head_to_tail":  # which has the most to show
        assert tailmetrics("evaluate", "--preset", name, *options, "--verbose")[1].count("\n") > out.count("\n")
    if no_buckets:  # what the warning says is what helps
        status, out, err = tailmetrics("evaluate", "--preset", name, *options, "--buckets", "deciles")
        assert (status, unread in err, "decile_1" in out) == (0, False, True)


@pytest.mark.parametrize("chosen", ["preset", "config"])
def test_a_warning_of_a_metric_is_on_stderr_and_in_the_report(
    config, write_files, evaluated, tailmetrics, tmp_path, chosen
):
    """Probabilities in the place of logits: a preset is tried on one row first, which does not use the warning up."""
    files = write_files(preds=np.full((60, 30), 1 / 30), target=np.arange(60) % 30)
    metrics = ["--preset", "next_location"] if chosen == "preset" else ["--config", config(("CrossEntropy", "{}"))]
    text = "CrossEntropy: preds, float64 [60, 30], lie between 0 and 1 and add up to 1 in each row"
    warnings = evaluated(*files, *metrics, warns=[*["No file says"] * (chosen == "preset"), text])["warnings"]
    assert [warning.partition(", as")[0] for warning in warnings if warning.startswith("CrossEntropy")] == [text]
    options = ["--preds", files[1], "--names", "a", "b", "--resamples", 200, "--quiet"]
    assert text in tailmetrics("compare", *files, *metrics, *options)[2]


@pytest.mark.parametrize(("screens", "times"), [(["stdout", "stderr"], 1), (["stdout"], 2), (["stderr"], 2), ([], 2)])
def test_a_warning_is_once_on_a_screen(write_files, tailmetrics, monkeypatch, screens, times):
    """Where one of the two streams goes to a file, each of them holds the warning."""
    for name in screens:
        monkeypatch.setattr(f"sys.{name}.isatty", lambda: True)
    files = write_files(preds=np.full((60, 30), 1 / 30), target=np.arange(60) % 30)
    _, out, err = tailmetrics("evaluate", *files, "--metrics+=CrossEntropy")
    assert (out + err).count("CrossEntropy:") == times
    assert err.count("CrossEntropy: ") == 1


def test_the_hint_for_logits_of_a_file_can_be_typed(write_files, evaluated, tailmetrics, tmp_path):
    """At the logit that it names the value is that of the probabilities."""
    rng = np.random.default_rng(0)
    target = (rng.random((80, 9)) < 0.3).astype(np.int64)
    logits = rng.normal(size=(80, 9)) + 2 * target
    files = write_files(preds=logits, target=target)
    status, _, err = tailmetrics("evaluate", *files, "--metrics+", "F1AtThreshold", "--metrics.threshold", "0.3")
    assert status == 0
    assert "F1AtThreshold: preds, float64 [80, 9]" in err
    logit = err.strip().rpartition("or its logit: F1AtThreshold(")[2].removesuffix(").")
    words = ["--metrics+=F1AtThreshold", f"--metrics.threshold={logit}"]
    (value,) = values_of(evaluated(*files, *words, warns=())).values()
    above = 1 / (1 + np.exp(-logits)) > 0.3
    assert value == pytest.approx(2 * (above & (target > 0)).sum() / (above.sum() + target.sum()))


@pytest.mark.slow
def test_probabilities_of_a_file(write_files, evaluated, tailmetrics):
    """The report names --probabilities; with it the loss is -log of the probability, and ranks stay; so by bucket."""
    chances = np.random.default_rng(0).dirichlet(np.full(12, 0.5), size=40).astype(np.float32)
    target = np.arange(40) % 12
    words = [*write_files(preds=chances, target=target, train_target=target), "--preset", "next_location"]
    before = evaluated(*words, "--num-labels", 12, warns=["CrossEntropy: "])
    assert any("on the command line --probabilities" in warning for warning in before["warnings"])
    actual = values_of(evaluated(*words, "--num-labels", 12, "--probabilities", warns=()))
    expected = -np.log(chances[np.arange(40), target].astype(np.float64))
    assert actual["cross_entropy"] == pytest.approx(expected.mean(), rel=1e-6)
    assert actual["cross_entropy/decile_10"] == pytest.approx(expected[np.isin(target, [0])].mean(), rel=1e-6)
    assert actual["mrr"] == values_of(before)["mrr"]
    refused = tailmetrics("evaluate", *words, "--probabilities", "--metrics+=F1AtThreshold", "--metrics.threshold=0.5")
    assert refused[2].startswith("error: --probabilities takes logarithms, and thresholds are for scores")
    for scores in (chances + 1, np.log(chances)):  # logits without a negative one, and with
        words = [*write_files(preds=scores, target=target), "--preset", "next_location", "--num-labels", 12]
        err = tailmetrics("evaluate", *words, "--probabilities")[2]
        assert "but probabilities lie between 0 and 1 (rows 0 to 39 of " in err
        assert err.endswith("hint: leave --probabilities out where scores are logits.\n")


def test_one_preset_at_a_time(tailmetrics):
    """The second one does not silently take the place of the first."""
    status, _, err = tailmetrics("evaluate", "--preset", "next_location", "--preset", "xmc")
    assert (status, err.splitlines()[0]) == (2, "error: --preset xmc: --preset next_location is given already")


def test_presets_are_found_in_an_installed_package(tmp_path, monkeypatch):
    """A folder of configs inside the package is taken; what is no list of metrics is no preset."""
    (tmp_path / "tailmetrics" / "configs").mkdir(parents=True)
    for name, text in (("mine", "metrics: []\nmetrics:\n"), ("model", "trainer: {}\n")):
        (tmp_path / "tailmetrics" / "configs" / f"{name}.yaml").write_text(text)
    monkeypatch.setattr(package, "__file__", str(tmp_path / "tailmetrics" / "__init__.py"))
    assert list(preset_paths()) == ["mine"]


def test_the_wheel_holds_the_presets(tmp_path):
    """A wheel built from the checkout has every preset where the command looks for it."""
    pytest.importorskip("hatchling")
    root = next(iter(preset_paths().values())).parents[1]
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=root, check=True, capture_output=True)
    with ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        names = set(wheel.namelist())
    assert {f"tailmetrics/configs/{name}.yaml" for name in preset_paths()} <= names


OWN = """
from tailmetrics.metrics import COUNT, RowMeanMetric


class FoundAtK(RowMeanMetric):
    stem = "{stem}"
    fixed_point = COUNT

    def _row_value(self, placement, k):
        return placement.hits_at(k) > 0
"""


def test_a_config_names_a_class_of_the_current_folder(data_set, evaluated, tmp_path, monkeypatch):
    """As with `python -m tailmetrics`, but behind whatever is installed."""
    installed, here = tmp_path / "installed", tmp_path / "here"
    for folder, stem, names in ((installed, "theirs", ["twice"]), (here, "ours", ["twice", "own_of_the_folder"])):
        folder.mkdir()
        for name in names:
            (folder / f"{name}.py").write_text(OWN.format(stem=stem))
    monkeypatch.syspath_prepend(installed)
    monkeypatch.chdir(here)
    config = here / "own.yaml"
    metrics = [f"  - class_path: {name}.FoundAtK\n    init_args: {{k: 3}}\n" for name in ("own_of_the_folder", "twice")]
    config.write_text("metrics:\n  - class_path: tailmetrics.HitRateAtK\n    init_args: {k: 3}\n" + "".join(metrics))
    actual = values_of(evaluated("--config", config, *data_set.options, "--num-labels", 30, warns=()))
    for name in ("own_of_the_folder", "twice"):
        sys.modules.pop(name, None)
    assert actual["ours@3"] == actual["theirs@3"] == actual["hit_rate@3"] > 0


def test_one_file_is_target_and_training_target(write_files, evaluated):
    """A model tried on what it was trained on: each label counts in training as often as in the targets."""
    target = np.arange(12).reshape(4, 3) % 2 == 0
    files = write_files(preds=np.arange(12.0).reshape(4, 3), target=target)
    words = [*files, "--train-target", files[3], "--preset", "head_to_tail", "--buckets", "quantiles:3"]
    counts = evaluated(*words)["label_counts"]
    assert (counts["labels"], counts["occurrences"]) == (3, target.sum())


@pytest.mark.parametrize("padding", [-100, 0])
@pytest.mark.slow
def test_an_ignored_label_pads_sequences_of_targets_and_training(
    write_files, evaluated, tailmetrics, tmp_path, padding
):
    """By plain loops over places: accuracy of those that count; the tokens of (B, T) training texts count repeats."""
    source = np.random.default_rng(0)
    scores, target = source.normal(size=(6, 5, 9)), source.integers(1, 9, (6, 5))
    train = source.integers(1, 4, (20, 7))
    target[:, 3:], train[::2, 4:] = padding, padding
    files, training = write_files(preds=scores, target=target), write_files(train_target=train)
    metrics = ["--metrics+=AccuracyAtK", "--metrics.k=1"]
    by_bucket, ignored = [*metrics, "--buckets", "thresholds:1"], [*files, *training, f"--ignore-index={padding}"]
    further_metrics = (
        "--metrics+=CrossEntropy",
        "--metrics.ignore_index",
        padding,
        "--metrics+=MRR",
    )  # which has the same, then
    assert tailmetrics("evaluate", *by_bucket, *further_metrics, *files, *training)[0] == 0
    report = evaluated(*by_bucket, "--metrics+=CrossEntropy", *ignored)
    assert "perplexity" in (tmp_path / "out" / "report.md").read_text()
    counts = target != padding
    assert report["rows"] == counts.sum()
    assert f"{(~counts).sum()} of 30 rows are left out by ignore_index={padding}." in report["warnings"]
    assert values_of(report)["accuracy@1"] == (scores.argmax(2) == target)[counts].mean()
    assert report["buckets"][0]["occurrences"] == (train != padding).sum()
    assert sum(bucket["positives"] for bucket in report["buckets"]) == counts.sum()
    assert any("sequence are taken for independent" in warning for warning in report["warnings"])
    (tmp_path / "texts.txt").write_text("one\ntwo\nthree\nfour\nfive\nsix\n")
    report = evaluated(*by_bucket, *ignored, "--clusters", tmp_path / "texts.txt")
    assert by_key(report)["accuracy@1"]["clusters"] == 6
    assert not any("independent" in warning for warning in report["warnings"])
    status, _, err = tailmetrics("evaluate", *metrics, *files, "--quiet")
    assert (status, "If -100 marks rows that do not count, leave them out with" in err) == (
        (2, True) if padding < 0 else (0, False)
    )


def write_lists(path, rows):
    """Write rows as an array, or as lists in Parquet; return the path."""
    if path.suffix == ".npy":
        np.save(path, rows)
    else:
        pq.write_table(pa.table({"labels": rows}), path)
    return path


@pytest.mark.parametrize("suffix", ["npy", "parquet"])
@pytest.mark.parametrize("padding", [-100, 0])
def test_an_ignored_label_pads_lists_of_targets_and_training(write_files, evaluated, tmp_path, padding, suffix):
    """A row may hold it several times, and does not count if it holds nothing else; 1 is in 2 of 4 rows of training."""
    p = padding
    target = write_lists(tmp_path / f"target.{suffix}", [[1, p, p], [2, 3, p], [p, p, p]])
    train = write_lists(tmp_path / f"train.{suffix}", [[1, 2, p], [1, p, p], [3, p, p], [2, p, p]])
    files = [*write_files(preds=np.eye(4)[[1, 3, 1]]), "--target", target, "--train-target", train]
    metrics = ["--metrics+=RecallAtK", "--metrics.k=1", "--metrics+=NoveltyAtK", "--metrics.k=1"]
    report = evaluated(*files, *metrics, f"--ignore-index={padding}")
    assert report["rows"] == 2
    assert values_of(report) == {"recall@1": (1 + 1 / 2) / 2, "novelty@1": (1 + 2) / 2}


@pytest.mark.parametrize("suffix", ["npy", "parquet"])
def test_each_token_of_training_is_a_row(write_files, evaluated, tmp_path, suffix):
    """Beside tokens (B, T), also without an ignored label: 1 is 2 of 6 tokens, 3 is one of them."""
    train = write_lists(tmp_path / f"train.{suffix}", [[1, 1, 2], [3, 2, 2]])
    files = write_files(preds=np.eye(4)[[[1, 3]]], target=np.array([[1, 3]]))
    report = evaluated(*files, "--train-target", train, "--metrics+=NoveltyAtK", "--metrics.k=1")
    assert values_of(report)["novelty@1"] == pytest.approx((np.log2(3) + np.log2(6)) / 2, abs=1e-12)


@pytest.mark.slow
def test_the_ignored_label_that_is_given_takes_the_place_of_a_preset_s(write_files, evaluated, compared, tmp_path):
    """The preset says -100, the files are padded by 0: by an own loop, perplexity and accuracy of tokens that count."""
    source = np.random.default_rng(1)
    scores, target = source.normal(size=(6, 5, 12)), source.integers(1, 12, (6, 5))
    target[:, 3:], train = 0, source.integers(0, 12, (20, 7))
    scores[..., 0] += 9  # a model of padding: that would flatter
    np.save(tmp_path / "o.npy", scores[..., ::-1])
    words = [
        "--preset",
        "language_model",
        "--ignore-index=0",
        *write_files(target=target, train_target=train, preds=scores),
    ]
    loss = np.log(np.exp(scores).sum(2)) - np.take_along_axis(scores, target[..., None], 2)[..., 0]
    report = evaluated(*words)
    assert (report["rows"], report["label_counts"]["occurrences"]) == ((target != 0).sum(), (train != 0).sum())
    assert values_of(report)["cross_entropy"] == pytest.approx(loss[target != 0].mean(), abs=1e-12)
    assert values_of(report)["accuracy@1"] == 0
    record = compared(*words, "--preds", tmp_path / "o.npy")["cross_entropy"]
    assert record["baseline_value"] == pytest.approx(values_of(report)["cross_entropy"], abs=1e-12)


def test_a_printed_config_reads_as_what_it_was_printed_from(write_files, evaluated, tailmetrics, tmp_path, capsys):
    """Of columns it holds the names that were given, so that the others are still found by their usual names."""
    files = write_files(preds="user,what,score\na,i,.9\na,j,.1\nb,j,.8\n", target="user,what\na,i\nb,i\n")
    words = [*files, "--metrics+=PrecisionAtK", "--metrics.k=1", "--columns.item", "what"]
    expected = values_of(evaluated(*words))
    with pytest.raises(SystemExit, match="0"):
        tailmetrics("evaluate", *words, "--print_config")
    printed = capsys.readouterr().out
    assert yaml.safe_load(printed)["columns"] == {"item": "what"}
    (tmp_path / "printed.yaml").write_text(printed)
    assert values_of(evaluated("--config", tmp_path / "printed.yaml")) == expected == {"precision@1": 0.5}
    with pytest.raises(SystemExit, match="0"):
        tailmetrics("evaluate", "--preset", "xmc", "--print_config")
    assert "columns" not in yaml.safe_load(capsys.readouterr().out)


INTERVALS = [("RecallAtK", "{k: 3, buckets: deciles, scope: global}"), ("NDCGAtK", "{k: 5}")]


@pytest.mark.slow
def test_intervals_by_default_and_not(data_set, config, tailmetrics, tmp_path):
    """± without being asked, of the confidence asked for; nothing with --no-intervals; both together are refused."""
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
    assert (status, err.splitlines()[0]) == (2, "error: --intervals and --no-intervals are both given")
