"""Every preset opens with the command that uses it, loads by class path, and computes what its field calls for."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from jsonargparse import ArgumentParser
from sklearn.metrics import f1_score

from tailmetrics import LabelFrequency, TopKCollection
from tailmetrics.cli import main
from tailmetrics.metrics import TopKMetric

CONFIGS = Path(__file__).parents[1] / "configs"
PRESETS = ["head_to_tail", "xmc", "retrieval", "recsys", "next_location", "map12", "medical_coding", "language_model"]
TARGETS = ("target", "train-target")
COUNTED = ("next_location", "head_to_tail", "xmc", "recsys", "medical_coding", "language_model")
NUM_LABELS = 1200
DECILES = [*(f"decile_{number}" for number in range(10, 0, -1)), "unseen"]


def load(name: str) -> list[TopKMetric]:
    """Return the metrics of a preset, as a LightningCLI makes them."""
    parser = ArgumentParser()
    parser.add_argument("--config", action="config")
    parser.add_argument("--metrics", type=list[TopKMetric])
    instantiate = getattr(parser, "instantiate", None) or parser.instantiate_classes  # renamed in 4.49
    loaded: list[TopKMetric] = instantiate(parser.parse_args(["--config", str(CONFIGS / f"{name}.yaml")])).metrics
    return loaded


def evaluate(name: str) -> dict[str, float]:
    """Return what a preset says of 100 rows of scores after training on 400."""
    generator = torch.Generator().manual_seed(0)
    popularity = torch.rand(NUM_LABELS, generator=generator) ** 4
    training, target = (torch.rand(rows, NUM_LABELS, generator=generator) < popularity * 0.1 for rows in (400, 100))
    frequency = LabelFrequency(NUM_LABELS)
    frequency.update(training)
    collection = TopKCollection(load(name)).bind(frequency)
    one_each = torch.multinomial(popularity, 100, generator=generator)
    noise = torch.rand(target.shape, generator=generator)
    collection.update(popularity.log() + noise, one_each if name in ("next_location", "language_model") else target)
    return {key: float(value) for key, value in collection.compute().items()}


KEYS = {
    "head_to_tail": "precision@1,5,10 normalized_recall@1,5,10 ndcg@1,5,10 / precision@1,5,10 ndcg@1,5,10 median_k_for_recall@0.8"
    " mean_k_for_recall@0.8 prediction_proportion@1,5,10 positive_coverage@1,5,10",
    "xmc": "precision_k@1,3,5 ndcg@1,3,5 psp@1,3,5 psndcg@1,3,5 recall@10,100 / global_precision_k_neg@1,3,5 global_recall@10,100"
    " ndcg@1,3,5 prediction_proportion@5 positive_coverage@5",
    "retrieval": "precision_k@5,10,20 recall@100,1000 hit_rate@1,5,10 map mrr r_precision ndcg@5,10,20,1000",
    "recsys": "recall_skip@10,20 ndcg_skip@10,20 hit_rate_skip@10 mrr_skip@10 map_attainable_skip@10 catalog_coverage@10 gini@10"
    " entropy@10 popularity@10 novelty@10 tie_rate@10 / global_recall@10 prediction_proportion@10",
    "next_location": "accuracy@1,5,10 mrr ndcg@10 weighted_f1@1 cross_entropy / global_accuracy@1,5,10 global_mrr cross_entropy",
    "medical_coding": "micro_f1@t0.5 macro_f1_all@t0.5 macro_auc micro_auc precision_k@5,8,15 / micro_f1@t0.5 macro_f1_all@t0.5"
    " macro_auc micro_auc global_precision_k_neg@5,8,15",
    "language_model": "accuracy@1,5,10 mrr cross_entropy / global_accuracy@1,5,10 global_mrr cross_entropy",
    "map12": "map_attainable@12 precision_k@12 relevance@1,2,3",
}
"""The metrics of each preset with their cut-offs, and behind a slash those by decile."""


def at_cutoffs(text: str) -> list[str]:
    """Return a key for each metric and cut-off."""
    stems = [word.partition("@") for word in text.split()]
    return [f"{stem}{at}{k}" for stem, at, cutoffs in stems for k in cutoffs.split(",")]


def keys(name: str) -> list[str]:
    """Return the keys of a preset."""
    overall, _, by_decile = KEYS[name].partition(" / ")
    return [*at_cutoffs(overall), *(f"{stem}/{bucket}" for stem in at_cutoffs(by_decile) for bucket in DECILES)]


@pytest.mark.parametrize("name", PRESETS)
def test_opens_with_its_command(name: str) -> None:
    """The first line can be typed, but for the files; deciles and propensities ask for training targets, and for bind."""
    first = (CONFIGS / f"{name}.yaml").read_text().splitlines()[0]
    files = "--preds … --target …" + (" --train-target …" if name in COUNTED else "")
    assert first == f"# tailmetrics evaluate --config configs/{name}.yaml {files}"
    counts_open = [bool({"buckets", "label_counts"} & set(metric._missing())) for metric in load(name)]
    assert any(counts_open) == (name in COUNTED)


@pytest.mark.parametrize("name", PRESETS)
def test_loads_and_computes(name: str) -> None:
    """The keys are those listed; every value is a number within the bounds of its class, but for labels never seen."""
    values = evaluate(name)
    assert list(values) == keys(name)
    for metric in load(name):
        low, high = type(metric).bounds
        for key in metric.keys():  # noqa: SIM118 - a metric is no dict
            assert low <= values[key] <= high or key.endswith("/unseen"), key


def test_macro_f1_of_medical_coding_is_that_of_scikit_learn(tmp_path: Path) -> None:
    """Codes without a positive count as 0, as in f1_score over all columns; no value stands twice in the report."""
    rng = np.random.default_rng(0)
    target = rng.random((60, 30)) < np.linspace(0.4, 0.0, 30)
    scores = np.clip(rng.random((60, 30)) * 0.7 + 0.3 * target, 0, 1).astype(np.float32)
    for name, array in (("preds", scores), ("target", target)):
        np.save(tmp_path / f"{name}.npy", array)
    files = [f"--preds={tmp_path / 'preds.npy'}", *(f"--{one}={tmp_path / 'target.npy'}" for one in TARGETS)]
    out = tmp_path / "report"
    assert main(["evaluate", "--preset", "medical_coding", *files, "--out", str(out), "--quiet"]) == 0
    metrics = json.loads((out / "report.json").read_text())["metrics"]
    truth = f1_score(target, scores > 0.5, average="macro", zero_division=0)
    assert metrics["macro_f1_all@t0.5"] == pytest.approx(truth)
    assert not target.any(axis=0).all()
    overall = [key for key in metrics if "/" not in key]
    assert [key for key in overall if key.endswith("@5")] == ["precision_k@5"]
    said = (out / "report.md").read_text()
    assert "macro_f1_all@t0.5: the mean over all labels" in said
    assert "the mean over all labels of the bucket" in said
    assert "may be off by up to" in said
