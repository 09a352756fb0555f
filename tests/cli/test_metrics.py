"""Which metrics of a preset or config are computed, and the options that stand for an argument of all metrics."""

import json
import locale

import numpy as np
import pytest
import torch

from cli.long_tail import padded, write_lists
from tailmetrics import F1AtThreshold, LabelFrequency, RecallAtK
from tailmetrics.ranking._kernels_cpu import kernels_for
from written import comparisons_of, values_of


@pytest.fixture
def files(tmp_path):
    """Return options that name 20 rows of dense scores, of ranked ids, and a class index for each."""
    rng = np.random.default_rng(0)
    np.save(tmp_path / "scores.npy", 9 * rng.random((20, 12)))  # logits
    np.save(tmp_path / "ids.npy", rng.random((20, 12)).argsort(axis=1))
    np.save(tmp_path / "y.npy", rng.integers(12, size=20))
    return {name: ["--preds", tmp_path / f"{name}.npy", "--target", tmp_path / "y.npy"] for name in ("scores", "ids")}


UNCOUNTED = "No file says how often labels occur in training. So these are left out: "
NEXT_LOCATION = ["accuracy@1", "accuracy@5", "accuracy@10", "mrr", "ndcg@10", "weighted_f1", "cross_entropy"]


def test_a_preset_leaves_out_what_ranked_ids_cannot_answer(files, evaluated):
    """Ranked ids say nothing of the scores: cross-entropy is left out with a warning, the rest is computed."""
    words = ["--preset", "next_location", "--num-labels", 12]
    unanswered = "CrossEntropy is left out: preds are ids or candidates, whose probabilities over all labels"
    assert list(values_of(evaluated(*words, *files["ids"], warns=[UNCOUNTED, unanswered]))) == NEXT_LOCATION[:-1]
    assert list(values_of(evaluated(*words, *files["scores"], warns=[UNCOUNTED]))) == NEXT_LOCATION


def test_scored_pairs_answer_metrics_of_scores(write_files, evaluated):
    """Labels above a threshold and areas are computed of pairs with scores; of pairs with ranks alone they are not."""
    train = write_files(train_target="query,item\nc,x\nd,y\n")
    words = ["--preset", "medical_coding", *write_files(target="query,item\na,x\nb,y\n"), *train]
    words += write_files(preds="query,item,score\na,x,0.9\na,y,0.2\nb,x,0.6\nb,y,0.7\n")
    values = values_of(evaluated(*words, warns=[]))
    assert values["micro_f1"] == 0.8  # 2 of 3 suggestions are right, of 2 labels
    assert values["macro_f1"] == pytest.approx((2 / 3 + 1) / 2)
    assert values["macro_f1_caml"] == pytest.approx(6 / 7)  # precisions 1/2 and 1, recalls 1 and 1
    assert (values["macro_auc"], values["recall@15"]) == (1.0, 1.0)
    ranked = write_files(preds="query,item,rank\na,x,1\na,y,2\nb,x,2\nb,y,1\n")
    unanswered = [f"{name} is left out: preds are ranked ids" for name in ("F1AtThreshold", "LabelAUC")]
    assert "macro_auc" not in values_of(evaluated(*words[:-2], *ranked, warns=unanswered))


def test_a_config_of_ones_own_is_not_cut_short(files, config, tailmetrics):
    """What was asked for by name is refused with an error, not left out."""
    words = ["--config", config(("CrossEntropy", "{}"), ("MRR", "{}")), *files["ids"], "--num-labels", 12]
    status, _, err = tailmetrics("evaluate", *words)
    assert status == 2
    assert "CrossEntropy: preds are ids or candidates" in err


def test_nothing_left_of_a_preset(files, tailmetrics):
    """A preset of which the data answers nothing is an error, not an empty report."""
    names = ["accuracy", "mrr", "ndcg", "weighted_f1"]
    words = ["--preset", "next_location", *files["ids"], "--num-labels", 12, "--without", *names]
    status, _, err = tailmetrics("evaluate", *words)
    assert (status, err.splitlines()[-2]) == (2, "error: the predictions answer no metric of the preset")


@pytest.mark.parametrize("name", ["cross_entropy", "CrossEntropy", "crossentropy"])
def test_without(files, evaluated, name):
    """A metric is left out by its key, with or without its cut-off, or by its class."""
    words = [
        "--preset",
        "next_location",
        *files["ids"],
        "--num-labels",
        12,
        "--without",
        name,
        "ndcg@10",
        "AccuracyAtK",
    ]
    assert list(values_of(evaluated(*words, warns=[UNCOUNTED]))) == ["mrr", "weighted_f1"]


def test_without_what_is_not_there(files, tailmetrics):
    """A metric that there is not is named with those that there are; so is leaving out all."""
    words = ["evaluate", "--preset", "map12", *files["ids"], "--num-labels", 12]
    problem, hint = tailmetrics(*words, "--without", "ndcg")[2].splitlines()
    assert problem == "error: --without ndcg: there is no such metric"
    assert hint == "hint: choose from map, map@12, precision, precision@12, relevance."
    everything = ["--without", "map", "precision", "relevance"]
    assert tailmetrics(*words, *everything)[2].startswith("error: --without leaves no metric\n")


def test_comparing_what_the_runs_can_answer(files, tailmetrics, tmp_path):
    """A run of scores and one of ids are compared by what both answer."""
    words = ["--preset", "next_location", "--preds", tmp_path / "scores.npy", tmp_path / "ids.npy", *files["ids"][2:]]
    words += ["--num-labels", 12, "--resamples", 200, "--out", tmp_path]
    status, _, err = tailmetrics("compare", *words)
    assert (status, "CrossEntropy is left out" in err) == (0, True)
    keys = {record["key"] for record in comparisons_of(json.loads((tmp_path / "compare.json").read_text()))}
    assert keys == set(NEXT_LOCATION) - {"cross_entropy"}


def test_presets_are_read_in_any_locale(tailmetrics, tmp_path):
    """Their files hold letters beyond ASCII: where Python takes ASCII for the encoding of files, no command ends by that."""
    before = locale.setlocale(locale.LC_CTYPE)
    locale.setlocale(locale.LC_CTYPE, "C")
    try:
        with (tmp_path / "a").open("w") as file, pytest.raises(UnicodeEncodeError):
            file.write("→")
        with pytest.raises(SystemExit, match="^0$"):
            tailmetrics("evaluate", "--help")
    finally:
        locale.setlocale(locale.LC_CTYPE, before)


RECALL = ("RecallAtK", "{k: 3}")
BY_DECILE = ("RecallAtK", "{k: 3, buckets: deciles}")


@pytest.fixture
def repeating(tmp_path):
    """Return options that name lists of which some hold a label twice, and the lists."""
    rng = np.random.default_rng(0)
    lists, relevant = rng.integers(12, size=(50, 6)).tolist(), rng.integers(12, size=50)
    preds = write_lists(tmp_path / "p.parquet", ids=lists)
    target = write_lists(tmp_path / "y.parquet", labels=[[int(label)] for label in relevant])
    return ["--preds", preds, "--target", target, "--num-labels", 12], lists, relevant


def test_lists_with_repeated_labels(repeating, config, evaluated, tailmetrics):
    """They are refused, or, with --duplicates first, later places are misses: nothing behind them moves up."""
    words, lists, relevant = repeating
    words = ["--config", config(("NDCGAtK", "{k: 6}"), RECALL), *words]
    status, _, err = tailmetrics("evaluate", *words)
    assert (status, "twice\nhint: duplicates='first' leaves" in err) == (2, True)
    values = values_of(evaluated(*words, "--duplicates", "first", warns=()))
    ranks = [row.index(label) if label in row else None for row, label in zip(lists, relevant, strict=True)]
    ndcg = sum(1 / np.log2(rank + 2) for rank in ranks if rank is not None) / 50
    recall = sum(rank is not None and rank < 3 for rank in ranks) / 50
    assert values == pytest.approx({"ndcg@6": ndcg, "recall@3": recall}, abs=1e-12)


def test_scored_candidates_with_repeated_labels(write_files, config, evaluated):
    """Of a label scored twice the better place counts, and the other is a miss; lines of CSV alike."""
    preds = "query,item,score\na,x,1\na,y,3\na,y,2\na,z,1.5\nb,z,1\n"
    words = ["--config", config(("MRR", "{}")), *write_files(preds=preds, target="query,item\na,z\nb,z\n")]
    assert values_of(evaluated(*words, "--duplicates", "first")) == {"mrr": pytest.approx((1 / 3 + 1) / 2)}


@pytest.mark.parametrize(
    ("buckets", "names", "training"),
    [
        ("quantiles:3", ["quantile_3", "quantile_2", "quantile_1", "unseen"], "targets"),
        ("quantiles:2:labels:together", ["quantile_2", "quantile_1", "unseen"], "counts"),
        ("thresholds:1,5,50", ["50+", "5-49", "1-4", "unseen"], "targets"),
        ("thresholds:1,5,50:many,medium,few", ["many", "medium", "few", "unseen"], "counts"),
        ("deciles", [*(f"decile_{number}" for number in range(10, 0, -1)), "unseen"], "targets"),
    ],
)
@pytest.mark.slow
def test_buckets_in_the_place_of_deciles(data_set, config, evaluated, buckets, names, training):
    """--buckets takes what a config takes and replaces the buckets that a preset or config names."""
    counted = (
        data_set.options_with_training
        if training == "targets"
        else [*data_set.options, "--label-counts", data_set.counts]
    )
    values = values_of(evaluated("--config", config(RECALL, BY_DECILE), *counted, "--buckets", buckets, warns=()))
    assert list(values) == ["recall@3", *(f"recall@3/{name}" for name in names)]
    frequency = LabelFrequency(30)
    frequency.update(padded(data_set.trained))
    metric = RecallAtK(k=3, buckets=buckets).bind(frequency)
    metric.update((torch.tensor(data_set.scores), torch.tensor(data_set.candidates)), padded(data_set.relevant))
    for key, value in metric.scalars().items():
        assert values[key] == (None if value.isnan() else float(value))


def test_buckets_break_down_what_a_preset_leaves_overall(write_files, evaluated):
    """By numpy: each class is right in a number of its rows; macro is their mean by bucket, whatever the preset has."""
    scores, target = np.eye(4)[[0, 0, 0, 1, 0, 2, 2, 3]], np.array([0, 0, 0, 1, 1, 2, 3, 3])
    words = [*write_files(preds=scores, target=target, label_counts=[9, 2, 2, 2]), "--buckets=thresholds:1,5:head,tail"]
    added = ["--metrics+=RecallAtK", "--metrics.k=1", "--metrics.average=macro", "--metrics+=CalibrationErrorAtK"]
    values = values_of(evaluated("--preset", "next_location", *added, *words))
    right = [(scores.argmax(1) == target)[target == label].mean() for label in range(4)]
    assert values["global_macro_recall@1/head"] == right[0]
    assert values["global_macro_recall@1/tail"] == pytest.approx(np.mean(right[1:]), abs=1e-12)
    assert {"calibration_error@1/tail", "accuracy@1/tail"} <= {*values}


def test_every_preset_can_be_broken_down(write_files, evaluated):
    """recsys has recall overall and by bucket with other settings: no key is made twice."""
    files = write_files(preds=np.eye(30), target=np.arange(30), label_counts=np.arange(30) % 9 + 1)
    values = values_of(evaluated("--preset", "recsys", *files, "--buckets=thresholds:1,5", "--num-train=99"))
    assert {"recall@10/1-4", "ndcg@10/1-4"} <= {*values}


def test_what_a_config_says_of_one_metric_stays(write_files, evaluated, config):
    """--min-gain leaves alone a metric that has a level of its own, and those that ask for none."""
    preds, target = "query,item,score\na,x,1\na,y,3\na,z,2\n", "query,item,gain\na,x,3\na,y,1\na,z,2\n"
    recall, coverage = ("RecallAtK", "{k: 1, min_gain: 1}"), ("CatalogCoverageAtK", "{k: 1}")
    words = [
        "--config",
        config(RECALL, recall, ("RPrecision", "{}"), coverage),
        *write_files(preds=preds, target=target),
    ]
    assert values_of(evaluated(*words, "--min-gain", 2, warns=())) == {
        "recall_min2@3": 1,
        "recall_min1@1": pytest.approx(1 / 3),
        "r_precision_min2": 0.5,
        "catalog_coverage@1": pytest.approx(1 / 3),
    }


def test_the_catalogue_of_coverage_is_told(write_files, evaluated, config):
    """Items of the predictions join the catalogue, so that coverage of another run may have another denominator."""
    files = write_files(preds="query,item,score\na,x,1\na,new,3\n", target="query,item\na,x\na,y\n")
    metrics = ["--config", config(("CatalogCoverageAtK", "{k: 1}"))]
    for further_options, coverage, is_told in (
        ([], 1 / 3, True),
        (["--num-labels", 8, "--string-ids", "true"], 1 / 8, False),
    ):
        report = evaluated(*metrics, *files, *further_options)
        assert values_of(report) == {"catalog_coverage@1": pytest.approx(coverage)}
        assert ("the 3 labels that these files name, preds.csv included" in str(report)) == is_told


def test_gains_that_a_target_does_not_have(data_set, write_files, config, evaluated, tailmetrics):
    """A level that no label could reach is an error, not a report of zeros."""
    words = ["--config", config(RECALL), *data_set.options]
    error = f"error: {data_set.target}: holds no gains, so that none reaches min_gain=2"
    status, _, err = tailmetrics("evaluate", *words, "--min-gain", 2)
    assert (status, err.splitlines()[0]) == (2, error)
    evaluated(*words, "--min-gain", 1, warns=())
    words = ["--config", config(RECALL), *write_files(preds=np.eye(3), target=np.eye(3, dtype=bool)), "--min-gain", 2]
    assert "holds no gains" in tailmetrics("evaluate", *words)[2]
    write_files(target=3 * np.eye(3, dtype=int))
    evaluated(*words)


def test_the_least_gain_of_training_labels_is_their_own(write_files, config, evaluated):
    """--min-gain leaves the counts of training labels, and so the deciles, as they are; --train-min-gain does not."""
    names = "query,item,gain\n"
    files = write_files(preds="query,item,score\na,x,1\nb,y,1\n", target=f"{names}a,x,3\nb,y,1\n")
    files += write_files(train_target=f"{names}a,x,1\nb,x,1\nc,y,3\n")
    words = ["--config", config(("PopularityAtK", "{k: 1}")), *files, "--min-gain", 2]
    for further_options, counts in (([], (2, 1)), (["--train-min-gain", 2], (0, 1))):
        assert values_of(evaluated(*words, *further_options))["popularity@1"] == sum(counts) / 2


def test_a_threshold_for_each_label(write_files, evaluated, tailmetrics, tmp_path):
    """An array in a file: 0.6 is suggested at 0.5 and not at 0.7. Beside names of labels, which only --label-names
    orders, it is refused; so is a file that holds no numbers.
    """
    words = write_files(preds=np.array([[0.6, 0.6]]), target=np.array([[True, True]]))
    metric = ["--metrics+=RecallAtThreshold", f"--metrics.threshold={tmp_path / 'cuts.npy'}"]
    np.save(tmp_path / "cuts.npy", np.array([0.5, 0.7]))
    assert values_of(evaluated(*words, *metric)) == {"micro_recall@t": 0.5}
    pairs = write_files(preds="query,item,score\na,x,0.6\na,y,0.6\n", target="query,item\na,x\na,y\n")
    status, _, err = tailmetrics("evaluate", *pairs, *metric)
    assert (status, "threshold= by label id, but the labels of these data have names" in err) == (2, True)
    np.save(tmp_path / "cuts.npy", np.array(["x", "y"]))
    status, _, err = tailmetrics("evaluate", *words, *metric)
    assert (status, "cuts.npy: cannot be read as .npy array" in err) == (2, True)


def test_thresholds_that_are_too_many_to_print():
    """A list for each label is no list of distinct numbers: the error says how many they are, not each."""
    with pytest.raises(ValueError, match="threshold=1500 values; pass a number"):
        F1AtThreshold([0.5] * 1500)


def test_the_lists_of_a_file_are_looked_through_once(tmp_path, config, evaluated, monkeypatch):
    """The reader refuses a label that stands twice; the ranking does not look for it again."""
    seen, kernels = [], type(kernels_for(torch.device("cpu")))
    look_through = kernels.look_through
    monkeypatch.setattr(kernels, "look_through", lambda self, ids: seen.append(ids.shape) or look_through(self, ids))
    preds = write_lists(tmp_path / "p.parquet", ids=[[0, 1, 2], [3, 1, 2]], scores=[[3.0, 2.0, 1.0]] * 2)
    target = write_lists(tmp_path / "y.parquet", labels=[[1, 0], [4, 2]])
    words = ["--config", config(RECALL), "--preds", preds, "--target", target, "--num-labels", 5]
    assert values_of(evaluated(*words, warns=())) == {"recall@3": 0.75}
    assert seen == [(2, 3), (2, 2)]


def test_weights_for_each_label_are_refused_beside_names(write_files, config, tailmetrics):
    """No file puts names in order but that of --label-names, so that the place of a weight names no label."""
    files = write_files(preds="query,item,score\na,x,0.6\na,y,0.6\n", target="query,item\na,x\na,y\n")
    weights = config(("PropensityScoredRecallAtK", "{k: 1, weights: [1.0, 2.0]}"))
    status, _, err = tailmetrics("evaluate", *files, "--config", weights)
    assert (status, "weights= by label id, but the labels of these data have names" in err) == (2, True)
