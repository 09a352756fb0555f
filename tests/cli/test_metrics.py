"""Metrics that presets and configs compute, and options that set an argument of all
metrics.
"""

import json
import locale

import numpy as np
import pytest
import torch

from cli.long_tail import padded, write_lists
from tailmetrics import F1AtThreshold, LabelFrequency, RecallAtK
from written import comparisons_of, values_of


@pytest.fixture
def files(tmp_path):
    """Return options that name 20 rows of dense scores, of ranked ids, and a class
    index for each.
    """
    rng = np.random.default_rng(0)
    np.save(tmp_path / "scores.npy", 9 * rng.random((20, 12)))  # logits
    np.save(tmp_path / "ids.npy", rng.random((20, 12)).argsort(axis=1))
    np.save(tmp_path / "y.npy", rng.integers(12, size=20))
    return {
        name: ["--preds", tmp_path / f"{name}.npy", "--target", tmp_path / "y.npy"]
        for name in ("scores", "ids")
    }


UNCOUNTED = "No file says how often labels occur in training. So these are left out: "
NEXT_LOCATION = [
    "accuracy@1",
    "accuracy@5",
    "accuracy@10",
    "mrr",
    "ndcg@10",
    "weighted_f1",
    "cross_entropy",
]


def test_a_preset_leaves_out_metrics_of_scores_for_ranked_ids(files, evaluated):
    """For ranked ids a preset leaves out cross-entropy, which needs scores, with a
    warning, and computes its other metrics.
    """
    words = ["--preset", "next_location", "--num-labels", 12]
    warning = "CrossEntropy is left out: preds are ids or candidates, whose probabilities over all labels"
    assert (
        list(values_of(evaluated(*words, *files["ids"], warns=[UNCOUNTED, warning])))
        == NEXT_LOCATION[:-1]
    )
    assert (
        list(values_of(evaluated(*words, *files["scores"], warns=[UNCOUNTED])))
        == NEXT_LOCATION
    )


def test_pairs_with_scores_give_metrics_of_scores(write_files, evaluated):
    """Pairs with scores give metrics of thresholds and areas, with the values of hand
    arithmetic; pairs with ranks do not, and a warning says so.
    """
    train = write_files(train_target="query,item\nc,x\nd,y\n")
    words = [
        "--preset",
        "medical_coding",
        *write_files(target="query,item\na,x\nb,y\n"),
        *train,
    ]
    words += write_files(preds="query,item,score\na,x,0.9\na,y,0.2\nb,x,0.6\nb,y,0.7\n")
    values = values_of(evaluated(*words, warns=[]))
    assert values["micro_f1"] == 0.8  # 2 of 3 suggestions are right, of 2 labels
    assert values["macro_f1"] == pytest.approx((2 / 3 + 1) / 2)
    # precisions 1/2 and 1, recalls 1 and 1
    assert values["macro_f1_caml"] == pytest.approx(6 / 7)
    assert (values["macro_auc"], values["recall@15"]) == (1.0, 1.0)
    ranked = write_files(preds="query,item,rank\na,x,1\na,y,2\nb,x,2\nb,y,1\n")
    left_out = [
        f"{name} is left out: preds are ranked ids"
        for name in ("F1AtThreshold", "LabelAUC")
    ]
    assert "macro_auc" not in values_of(evaluated(*words[:-2], *ranked, warns=left_out))


def test_a_config_is_refused_where_a_preset_leaves_metrics_out(
    files, config, tailmetrics
):
    """A metric of a config that the predictions cannot give is an error; only presets
    leave metrics out.
    """
    words = [
        "--config",
        config(("CrossEntropy", "{}"), ("MRR", "{}")),
        *files["ids"],
        "--num-labels",
        12,
    ]
    status, _, err = tailmetrics("evaluate", *words)
    assert status == 2
    assert "CrossEntropy: preds are ids or candidates" in err


def test_a_preset_without_any_computable_metric_is_refused(files, tailmetrics):
    """A preset of which no metric can be computed is an error, and gives no empty
    report.
    """
    names = ["accuracy", "mrr", "ndcg", "weighted_f1"]
    words = [
        "--preset",
        "next_location",
        *files["ids"],
        "--num-labels",
        12,
        "--without",
        *names,
    ]
    status, _, err = tailmetrics("evaluate", *words)
    assert (status, err.splitlines()[-2]) == (
        2,
        "error: the predictions answer no metric of the preset",
    )


@pytest.mark.parametrize("name", ["cross_entropy", "CrossEntropy", "crossentropy"])
def test_without_leaves_metrics_out_by_key_or_class(files, evaluated, name):
    """--without leaves out a metric by its key, with or without the cut-off, or by its
    class in any case.
    """
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
    assert list(values_of(evaluated(*words, warns=[UNCOUNTED]))) == [
        "mrr",
        "weighted_f1",
    ]


def test_without_refuses_unknown_metrics_and_all_metrics(files, tailmetrics):
    """--without an unknown metric is refused with a list of those that exist, and so is
    leaving out all metrics.
    """
    words = ["evaluate", "--preset", "map12", *files["ids"], "--num-labels", 12]
    problem, hint = tailmetrics(*words, "--without", "ndcg")[2].splitlines()
    assert problem == "error: --without ndcg: there is no such metric"
    assert hint == "hint: choose from map, map@12, precision, precision@12, relevance."
    everything = ["--without", "map", "precision", "relevance"]
    assert tailmetrics(*words, *everything)[2].startswith(
        "error: --without leaves no metric\n"
    )


def test_compare_with_a_preset_uses_metrics_of_all_runs(files, tailmetrics, tmp_path):
    """`compare` with a preset uses the metrics that all runs can give: a run of scores
    and one of ids are compared without cross-entropy.
    """
    words = [
        "--preset",
        "next_location",
        "--preds",
        tmp_path / "scores.npy",
        tmp_path / "ids.npy",
        *files["ids"][2:],
    ]
    words += ["--num-labels", 12, "--resamples", 200, "--out", tmp_path]
    status, _, err = tailmetrics("compare", *words)
    assert (status, "CrossEntropy is left out" in err) == (0, True)
    keys = {
        record["key"]
        for record in comparisons_of(
            json.loads((tmp_path / "compare.json").read_text())
        )
    }
    assert keys == set(NEXT_LOCATION) - {"cross_entropy"}


def test_presets_are_read_in_any_locale(tailmetrics, tmp_path):
    """Presets, whose files hold letters beyond ASCII, are read also in a locale whose
    encoding is ASCII.
    """
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
    """Return options that name lists with repeated labels, the lists, and the relevant
    label of each row.
    """
    rng = np.random.default_rng(0)
    lists, relevant = rng.integers(12, size=(50, 6)).tolist(), rng.integers(12, size=50)
    preds = write_lists(tmp_path / "p.parquet", ids=lists)
    target = write_lists(
        tmp_path / "y.parquet", labels=[[int(label)] for label in relevant]
    )
    return ["--preds", preds, "--target", target, "--num-labels", 12], lists, relevant


def test_repeated_labels_are_refused_or_count_once(
    repeating, config, evaluated, tailmetrics
):
    """Lists with repeated labels are refused.

    With --duplicates first a label counts at its first place, and later places are
    misses, so that no label moves up.
    """
    words, lists, relevant = repeating
    words = ["--config", config(("NDCGAtK", "{k: 6}"), RECALL), *words]
    status, _, err = tailmetrics("evaluate", *words)
    assert (status, "twice\nhint: duplicates='first' leaves" in err) == (2, True)
    values = values_of(evaluated(*words, "--duplicates", "first", warns=()))
    ranks = [
        row.index(label) if label in row else None
        for row, label in zip(lists, relevant, strict=True)
    ]
    ndcg = sum(1 / np.log2(rank + 2) for rank in ranks if rank is not None) / 50
    recall = sum(rank is not None and rank < 3 for rank in ranks) / 50
    assert values == pytest.approx({"ndcg@6": ndcg, "recall@3": recall}, abs=1e-12)


def test_a_label_scored_twice_counts_at_its_better_place(
    write_files, config, evaluated
):
    """With --duplicates first, a label with two scores counts at the better place, and
    the other place is a miss: (1/3 + 1) / 2.
    """
    preds = "query,item,score\na,x,1\na,y,3\na,y,2\na,z,1.5\nb,z,1\n"
    words = [
        "--config",
        config(("MRR", "{}")),
        *write_files(preds=preds, target="query,item\na,z\nb,z\n"),
    ]
    assert values_of(evaluated(*words, "--duplicates", "first")) == {
        "mrr": pytest.approx((1 / 3 + 1) / 2)
    }


@pytest.mark.parametrize(
    ("buckets", "names", "training"),
    [
        (
            "quantiles:3",
            ["quantile_3", "quantile_2", "quantile_1", "unseen"],
            "targets",
        ),
        (
            "quantiles:2:labels:together",
            ["quantile_2", "quantile_1", "unseen"],
            "counts",
        ),
        ("thresholds:1,5,50", ["50+", "5-49", "1-4", "unseen"], "targets"),
        (
            "thresholds:1,5,50:many,medium,few",
            ["many", "medium", "few", "unseen"],
            "counts",
        ),
        (
            "deciles",
            [*(f"decile_{number}" for number in range(10, 0, -1)), "unseen"],
            "targets",
        ),
    ],
)
@pytest.mark.slow
def test_buckets_option_replaces_the_buckets_of_metrics(
    data_set, config, evaluated, buckets, names, training
):
    """--buckets takes the values that a config takes and replaces the buckets of
    metrics.

    The values are those of a metric with these buckets in memory.
    """
    counted = (
        data_set.options_with_training
        if training == "targets"
        else [*data_set.options, "--label-counts", data_set.counts]
    )
    values = values_of(
        evaluated(
            "--config",
            config(RECALL, BY_DECILE),
            *counted,
            "--buckets",
            buckets,
            warns=(),
        )
    )
    assert list(values) == ["recall@3", *(f"recall@3/{name}" for name in names)]
    frequency = LabelFrequency(30)
    frequency.update(padded(data_set.trained))
    metric = RecallAtK(k=3, buckets=buckets).bind(frequency)
    metric.update(
        (torch.tensor(data_set.scores), torch.tensor(data_set.candidates)),
        padded(data_set.relevant),
    )
    for key, value in metric.scalars().items():
        assert values[key] == (None if value.isnan() else float(value))


def test_buckets_option_adds_buckets_to_overall_metrics(write_files, evaluated):
    """--buckets gives values by bucket of metrics that have none, also of macro
    averages, which are the means over classes of a bucket by numpy.
    """
    scores, target = (
        np.eye(4)[[0, 0, 0, 1, 0, 2, 2, 3]],
        np.array([0, 0, 0, 1, 1, 2, 3, 3]),
    )
    words = [
        *write_files(preds=scores, target=target, label_counts=[9, 2, 2, 2]),
        "--buckets=thresholds:1,5:head,tail",
    ]
    added_metrics = [
        "--metrics+=RecallAtK",
        "--metrics.k=1",
        "--metrics.average=macro",
        "--metrics+=CalibrationErrorAtK",
    ]
    values = values_of(evaluated("--preset", "next_location", *added_metrics, *words))
    right = [(scores.argmax(1) == target)[target == label].mean() for label in range(4)]
    assert values["global_macro_recall@1/head"] == right[0]
    assert values["global_macro_recall@1/tail"] == pytest.approx(
        np.mean(right[1:]), abs=1e-12
    )
    assert {"calibration_error@1/tail", "accuracy@1/tail"} <= {*values}


def test_buckets_option_works_for_recsys(write_files, evaluated):
    """--buckets works for the preset recsys, which has the same recall overall and by
    bucket: no key occurs twice.
    """
    files = write_files(
        preds=np.eye(30), target=np.arange(30), label_counts=np.arange(30) % 9 + 1
    )
    values = values_of(
        evaluated(
            "--preset", "recsys", *files, "--buckets=thresholds:1,5", "--num-train=99"
        )
    )
    assert {"recall@10/1-4", "ndcg@10/1-4"} <= {*values}


def test_min_gain_leaves_metrics_with_their_own_level(write_files, evaluated, config):
    """--min-gain does not change metrics that have a level of their own or take
    none.
    """
    preds, target = (
        "query,item,score\na,x,1\na,y,3\na,z,2\n",
        "query,item,gain\na,x,3\na,y,1\na,z,2\n",
    )
    recall, coverage = (
        ("RecallAtK", "{k: 1, min_gain: 1}"),
        ("CatalogCoverageAtK", "{k: 1}"),
    )
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


def test_a_note_describes_the_catalogue_of_coverage(write_files, evaluated, config):
    """A note says that the catalogue of coverage includes the items of the predictions,
    so that another run may have another denominator. There is none if the user gives
    the number of labels.
    """
    files = write_files(
        preds="query,item,score\na,x,1\na,new,3\n", target="query,item\na,x\na,y\n"
    )
    metrics = ["--config", config(("CatalogCoverageAtK", "{k: 1}"))]
    for further_options, coverage, has_note in (
        ([], 1 / 3, True),
        (["--num-labels", 8, "--string-ids", "true"], 1 / 8, False),
    ):
        report = evaluated(*metrics, *files, *further_options)
        assert values_of(report) == {"catalog_coverage@1": pytest.approx(coverage)}
        assert (
            "the 3 labels that these files name, preds.csv included" in str(report)
        ) == has_note


def test_compare_refuses_fall_out_over_other_catalogues(
    write_files, config, tailmetrics, tmp_path
):
    """Tables of runs that name 3 and 4 items are not compared by fall-out, which
    depends on this number; recall is.

    With --num-labels both have one catalogue, and no note asks for it.
    """
    files = {
        "target": "query,item\na,x\nb,y\n",
        "b": "query,item,score\na,x,1\na,z,2\nb,x,3\nb,y,4\n",
    }
    files["a"] = files["b"] + "a,new,0\n"
    write_files(**files)

    def tables(metric, *options):
        paths = []
        for run in "ab":
            paths.append(tmp_path / f"{run}.parquet")
            words = [
                "--preds",
                tmp_path / f"{run}.csv",
                "--target",
                tmp_path / "target.csv",
                "--overwrite",
                "--quiet",
            ]
            words += [
                "--config",
                config((metric, "{k: 1}")),
                "--per-row",
                paths[-1],
                *options,
            ]
            assert tailmetrics("evaluate", *words)[0] == 0
        return paths

    error = "error: compare: 'a' and 'b' have different numbers of labels in 'fall_out@1' (4, 3)"
    status, _, err = tailmetrics("compare", *tables("FallOutAtK"))
    assert (status, err.splitlines()[0]) == (2, error)
    assert tailmetrics("compare", *tables("RecallAtK"))[0] == 0
    status, out, err = tailmetrics(
        "compare", *tables("FallOutAtK", "--num-labels", 9, "--string-ids", "true")
    )
    assert (status, "catalogue" in out + err) == (0, False)


def test_min_gain_above_1_is_refused_for_targets_without_gains(
    data_set, write_files, config, evaluated, tailmetrics
):
    """--min-gain 2 is refused for targets without gains, because no label could reach
    it; 1 is accepted.
    """
    words = ["--config", config(RECALL), *data_set.options]
    error = f"error: {data_set.target}: holds no gains, so that none reaches min_gain=2"
    status, _, err = tailmetrics("evaluate", *words, "--min-gain", 2)
    assert (status, err.splitlines()[0]) == (2, error)
    evaluated(*words, "--min-gain", 1, warns=())
    words = [
        "--config",
        config(RECALL),
        *write_files(preds=np.eye(3), target=np.eye(3, dtype=bool)),
        "--min-gain",
        2,
    ]
    assert "holds no gains" in tailmetrics("evaluate", *words)[2]
    write_files(target=3 * np.eye(3, dtype=int))
    evaluated(*words)


def test_train_min_gain_sets_the_level_of_training_labels(
    write_files, config, evaluated
):
    """--train-min-gain, not --min-gain, decides which training labels count."""
    names = "query,item,gain\n"
    files = write_files(
        preds="query,item,score\na,x,1\nb,y,1\n", target=f"{names}a,x,3\nb,y,1\n"
    )
    files += write_files(train_target=f"{names}a,x,1\nb,x,1\nc,y,3\n")
    words = ["--config", config(("PopularityAtK", "{k: 1}")), *files, "--min-gain", 2]
    for further_options, counts in (([], (2, 1)), (["--train-min-gain", 2], (0, 1))):
        assert (
            values_of(evaluated(*words, *further_options))["popularity@1"]
            == sum(counts) / 2
        )


def test_a_threshold_for_each_label(write_files, evaluated, tailmetrics, tmp_path):
    """A file may hold a threshold for each label: a score of 0.6 is above 0.5 and below
    0.7.

    It is refused for labels with names, which have no order without --label-names, and
    if it holds no numbers.
    """
    words = write_files(preds=np.array([[0.6, 0.6]]), target=np.array([[True, True]]))
    metric = [
        "--metrics+=RecallAtThreshold",
        f"--metrics.threshold={tmp_path / 'cuts.npy'}",
    ]
    np.save(tmp_path / "cuts.npy", np.array([0.5, 0.7]))
    assert values_of(evaluated(*words, *metric)) == {"micro_recall@t": 0.5}
    pairs = write_files(
        preds="query,item,score\na,x,0.6\na,y,0.6\n", target="query,item\na,x\na,y\n"
    )
    status, _, err = tailmetrics("evaluate", *pairs, *metric)
    assert (
        status,
        "threshold= by label id, but the labels of these data have names" in err,
    ) == (2, True)
    np.save(tmp_path / "cuts.npy", np.array(["x", "y"]))
    status, _, err = tailmetrics("evaluate", *words, *metric)
    assert (status, "cuts.npy: cannot be read as .npy array" in err) == (2, True)


def test_the_error_for_many_thresholds_gives_their_number():
    """The error for a list of equal thresholds gives the number of its values, and does
    not print each.
    """
    with pytest.raises(ValueError, match="threshold=1500 values; pass a number"):
        F1AtThreshold([0.5] * 1500)


def test_weights_by_label_id_are_refused_for_named_labels(
    write_files, config, tailmetrics
):
    """Weights by label id are refused if labels have names, which have no order without
    --label-names.
    """
    files = write_files(
        preds="query,item,score\na,x,0.6\na,y,0.6\n", target="query,item\na,x\na,y\n"
    )
    weights = config(("PropensityScoredRecallAtK", "{k: 1, weights: [1.0, 2.0]}"))
    status, _, err = tailmetrics("evaluate", *files, "--config", weights)
    assert (
        status,
        "weights= by label id, but the labels of these data have names" in err,
    ) == (2, True)
