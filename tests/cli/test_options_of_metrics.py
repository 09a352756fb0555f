"""Options that stand for an argument of every metric: --duplicates, --min-gain, --buckets."""

import json

import numpy as np
import pytest
import torch

from cli.made import write_lists
from tailmetrics import LabelFrequency, NDCGAtK, RecallAtK, TopKCollection

RECALL = ("RecallAtK", "{k: 3}")
BY_DECILE = ("RecallAtK", "{k: 3, buckets: deciles}")


def values(folder):
    report = json.loads((folder / "report.json").read_text())
    return report["metrics"] | {
        f"{key}/{name}": one for key, by in report["by_bucket"].items() for name, one in by.items()
    }


@pytest.fixture
def repeating(tmp_path):
    """Return options that name lists of which some hold a label twice, and the lists."""
    rng = np.random.default_rng(0)
    lists, relevant = rng.integers(12, size=(50, 6)).tolist(), rng.integers(12, size=50)
    preds = write_lists(tmp_path / "p.parquet", ids=lists)
    target = write_lists(tmp_path / "y.parquet", labels=[[int(one)] for one in relevant])
    return ["--preds", preds, "--target", target, "--num-labels", 12], lists, relevant


def test_lists_with_repeated_labels(repeating, config, tailmetrics, tmp_path):
    """They are refused, or, with --duplicates first, later places are misses: nothing behind them moves up."""
    words, lists, relevant = repeating
    words = ["--config", config(("NDCGAtK", "{k: 6}"), RECALL), *words, "--out", tmp_path / "out", "--quiet"]
    status, _, err = tailmetrics("evaluate", *words)
    assert (status, "twice\nhint: --duplicates first leaves" in err) == (2, True)
    assert tailmetrics("evaluate", *words, "--duplicates", "first")[::2] == (0, "")
    ranks = [row.index(one) if one in row else None for row, one in zip(lists, relevant, strict=True)]
    ndcg = sum(1 / np.log2(rank + 2) for rank in ranks if rank is not None) / 50
    recall = sum(rank is not None and rank < 3 for rank in ranks) / 50
    assert values(tmp_path / "out") == pytest.approx({"ndcg@6": ndcg, "recall@3": recall}, abs=1e-12)
    collection = TopKCollection([NDCGAtK(k=6, duplicates="first"), RecallAtK(k=3, duplicates="first")])
    collection.update(torch.tensor(lists), torch.tensor(relevant))
    assert values(tmp_path / "out") == {key: float(value) for key, value in collection.compute().items()}


def test_scored_candidates_with_repeated_labels(config, tailmetrics, tmp_path):
    """Of a label scored twice the better place counts, and the other is a miss; lines of CSV alike."""
    (tmp_path / "p.csv").write_text("query,item,score\na,x,1\na,y,3\na,y,2\na,z,1.5\nb,z,1\n")
    (tmp_path / "y.csv").write_text("query,item\na,z\nb,z\n")
    files = ["--preds", tmp_path / "p.csv", "--target", tmp_path / "y.csv", "--out", tmp_path]
    words = ["--config", config(("MRR", "{}")), *files, "--duplicates", "first"]
    assert tailmetrics("evaluate", *words)[::2] == (0, "")
    assert values(tmp_path) == {"mrr": pytest.approx((1 / 3 + 1) / 2)}


@pytest.mark.parametrize(
    ("buckets", "names"),
    [
        ("quantiles:3", ["quantile_3", "quantile_2", "quantile_1", "unseen"]),
        ("quantiles:2:labels:together", ["quantile_2", "quantile_1", "unseen"]),
        ("thresholds:1,5,50", ["50+", "5-49", "1-4", "unseen"]),
        ("thresholds:1,5,50:many,medium,few", ["many", "medium", "few", "unseen"]),
        ("deciles", [*(f"decile_{number}" for number in range(10, 0, -1)), "unseen"]),
    ],
)
@pytest.mark.parametrize("training", ["targets", "counts"])
@pytest.mark.slow
def test_buckets_in_the_place_of_deciles(made, config, tailmetrics, tmp_path, buckets, names, training):
    """--buckets takes what a config takes and replaces the buckets that a preset or config names."""
    counted = made.trained_on if training == "targets" else [*made.evaluated, "--label-counts", made.counts]
    words = ["--config", config(RECALL, BY_DECILE), *counted, "--buckets", buckets, "--out", tmp_path / "out"]
    assert tailmetrics("evaluate", *words, "--quiet")[::2] == (0, "")
    found = values(tmp_path / "out")
    assert list(found) == ["recall@3", *(f"recall@3/{name}" for name in names)]
    frequency = LabelFrequency(30)
    width = max(map(len, made.trained))
    frequency.update(torch.tensor([row + [-1] * (width - len(row)) for row in made.trained]))
    metric = RecallAtK(k=3, buckets=buckets).bind(frequency)
    width = max(map(len, made.relevant))
    target = torch.tensor([row + [-1] * (width - len(row)) for row in made.relevant])
    metric.update((torch.tensor(made.scores), torch.tensor(made.candidates)), target)
    for key, value in metric.scalars().items():
        assert found[key] == (None if value.isnan() else float(value))


def test_buckets_break_down_what_a_preset_leaves_overall(tailmetrics, tmp_path):
    """By numpy: each class is right in a number of its rows; macro is their mean by bucket, whatever the preset has."""
    scores, target = np.eye(4)[[0, 0, 0, 1, 0, 2, 2, 3]], np.array([0, 0, 0, 1, 1, 2, 3, 3])
    for name, array in {"s": scores, "y": target, "c": np.array([9, 2, 2, 2])}.items():
        np.save(tmp_path / f"{name}.npy", array)
    files = [f"--{name}={tmp_path / file}" for name, file in (("preds", "s.npy"), ("target", "y.npy"))]
    added = ["--metrics+=RecallAtK", "--metrics.k=1", "--metrics.average=macro", "--metrics+=CalibrationErrorAtK"]
    words = [*files, f"--label-counts={tmp_path / 'c.npy'}", "--buckets=thresholds:1,5:head,tail", "--out", tmp_path]
    assert tailmetrics("evaluate", "--preset", "next_location", *added, *words, "--quiet")[0] == 0
    found = values(tmp_path)
    right = [(scores.argmax(1) == target)[target == one].mean() for one in range(4)]
    assert found["global_macro_recall@1/head"] == right[0]
    assert found["global_macro_recall@1/tail"] == pytest.approx(np.mean(right[1:]), abs=1e-12)
    assert "calibration_error@1/tail" in found
    assert "global_accuracy@1/tail" in found


def test_every_preset_can_be_broken_down(tailmetrics, tmp_path):
    """recsys has recall overall and by bucket with other settings: no key is made twice."""
    for name, array in {"s": np.eye(30), "y": np.arange(30), "c": np.arange(30) % 9 + 1}.items():
        np.save(tmp_path / f"{name}.npy", array)
    files = [f"--{name}={tmp_path / file}" for name, file in (("preds", "s.npy"), ("target", "y.npy"))]
    words = [*files, f"--label-counts={tmp_path / 'c.npy'}", "--buckets=thresholds:1,5", "--num-train=99"]
    assert tailmetrics("evaluate", "--preset", "recsys", *words, "--out", tmp_path, "--quiet")[0] == 0
    assert {"global_recall@10/1-4", "global_ndcg@10/1-4"} <= {*values(tmp_path)}


def test_what_a_config_says_of_one_metric_stays(tailmetrics, config, tmp_path):
    """--min-gain leaves alone a metric that has a level of its own, and those that ask for none."""
    (tmp_path / "p.csv").write_text("query,item,score\na,x,1\na,y,3\na,z,2\n")
    (tmp_path / "y.csv").write_text("query,item,gain\na,x,3\na,y,1\na,z,2\n")
    files = ["--preds", tmp_path / "p.csv", "--target", tmp_path / "y.csv", "--out", tmp_path]
    metrics = config(
        RECALL, ("RecallAtK", "{k: 1, min_gain: 1}"), ("RPrecision", "{}"), ("CatalogCoverageAtK", "{k: 1}")
    )
    assert tailmetrics("evaluate", "--config", metrics, *files, "--min-gain", 2)[::2] == (0, "")
    found = values(tmp_path)
    assert found == {
        "recall_min2@3": 1,
        "recall_min1@1": pytest.approx(1 / 3),
        "r_precision_min2": 0.5,
        "catalog_coverage@1": pytest.approx(1 / 3),
    }


def test_the_catalogue_of_coverage_is_told(tailmetrics, config, tmp_path):
    """Items of the predictions join the catalogue, so that coverage of another run may have another denominator."""
    (tmp_path / "p.csv").write_text("query,item,score\na,x,1\na,new,3\n")
    (tmp_path / "y.csv").write_text("query,item\na,x\na,y\n")
    files = ["--preds", tmp_path / "p.csv", "--target", tmp_path / "y.csv", "--out", tmp_path]
    metrics = ["--config", config(("CatalogCoverageAtK", "{k: 1}"))]
    for more, coverage, told in (([], 1 / 3, True), (["--num-labels", 8, "--string-ids", "true"], 1 / 8, False)):
        assert tailmetrics("evaluate", *metrics, *files, *more, "--overwrite")[0] == 0
        assert values(tmp_path) == {"catalog_coverage@1": pytest.approx(coverage)}
        said = (tmp_path / "report.json").read_text()
        assert ("the 3 items that these files name, p.csv included" in said) == told


def test_gains_that_a_target_does_not_have(made, config, tailmetrics, tmp_path):
    """A level that no label could reach is an error, not a report of zeros."""
    words = ["--config", config(RECALL), *made.evaluated]
    status, _, err = tailmetrics("evaluate", *words, "--min-gain", 2)
    assert (status, err.splitlines()[0]) == (
        2,
        f"error: {made.target}: holds no gains, so that none reaches --min-gain 2",
    )
    assert tailmetrics("evaluate", *words, "--min-gain", 1, "--quiet")[::2] == (0, "")
    np.save(tmp_path / "p.npy", np.eye(3))
    np.save(tmp_path / "y.npy", np.eye(3, dtype=bool))
    files = ["--preds", tmp_path / "p.npy", "--target", tmp_path / "y.npy"]
    assert "holds no gains" in tailmetrics("evaluate", "--config", config(RECALL), *files, "--min-gain", 2)[2]
    np.save(tmp_path / "y.npy", 3 * np.eye(3, dtype=int))
    assert tailmetrics("evaluate", "--config", config(RECALL), *files, "--min-gain", 2)[0] == 0


def test_the_least_gain_of_training_labels_is_their_own(tmp_path, config, tailmetrics):
    """--min-gain leaves the counts of training labels, and so the deciles, as they are; --train-min-gain does not."""
    (tmp_path / "p.csv").write_text("query,item,score\na,x,1\nb,y,1\n")
    (tmp_path / "y.csv").write_text("query,item,gain\na,x,3\nb,y,1\n")
    (tmp_path / "t.csv").write_text("query,item,gain\na,x,1\nb,x,1\nc,y,3\n")
    words = ["--preds", tmp_path / "p.csv", "--target", tmp_path / "y.csv", "--train-target", tmp_path / "t.csv"]
    words += ["--config", config(("PopularityAtK", "{k: 1}")), "--min-gain", 2, "--overwrite", "--out", tmp_path]
    for more, counts in (([], (2, 1)), (["--train-min-gain", 2], (0, 1))):
        assert tailmetrics("evaluate", *words, *more)[0] == 0
        found = json.loads((tmp_path / "report.json").read_text())["metrics"]["popularity@1"]
        assert found == sum(counts) / 2
