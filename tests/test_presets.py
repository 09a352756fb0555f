"""Every preset opens with the command that uses it, loads by class path, and computes what its field calls for."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from jsonargparse import ArgumentParser

from tailmetrics import LabelFrequency, TopKCollection
from tailmetrics.metrics import TopKMetric

CONFIGS = Path(__file__).parents[1] / "configs"
PRESETS = ["head_to_tail", "xmc", "retrieval", "recsys", "next_location", "map12", "medical_coding", "language_model"]
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


def at(stem: str, *cutoffs: int) -> list[str]:
    """Return the keys of a metric at several cut-offs."""
    return [f"{stem}@{k}" for k in cutoffs]


def by_decile(*stems: str) -> list[str]:
    """Return the keys of metrics by decile."""
    return [f"{stem}/{bucket}" for stem in stems for bucket in DECILES]


KEYS = {
    "head_to_tail": [
        *at("precision", 1, 5, 10),
        *at("normalized_recall", 1, 5, 10),
        *at("ndcg", 1, 5, 10),
        *by_decile(*at("precision", 1, 5, 10), *at("ndcg", 1, 5, 10)),
        *by_decile("median_k_for_recall@0.8", "mean_k_for_recall@0.8"),
        *by_decile(*at("prediction_proportion", 1, 5, 10), *at("positive_coverage", 1, 5, 10)),
    ],
    "xmc": [
        *at("precision_k", 1, 3, 5),
        *at("ndcg", 1, 3, 5),
        *at("psp", 1, 3, 5),
        *at("psndcg", 1, 3, 5),
        *at("recall", 10, 100),
        *by_decile(*at("global_precision_k_neg", 1, 3, 5), *at("global_recall", 10, 100), *at("ndcg", 1, 3, 5)),
        *by_decile("prediction_proportion@5", "positive_coverage@5"),
    ],
    "retrieval": [
        *at("precision_k", 5, 10, 20),
        *at("recall", 100, 1000),
        *at("hit_rate", 1, 5, 10),
        *("map", "mrr", "r_precision"),
        *at("ndcg", 5, 10, 20),
        "ndcg@1000",
    ],
    "recsys": [
        *at("recall_skip", 10, 20),
        *at("ndcg_skip", 10, 20),
        *("hit_rate_skip@10", "mrr_skip@10", "map_attainable_skip@10"),
        *("catalog_coverage@10", "gini@10", "entropy@10", "popularity@10", "novelty@10", "tie_rate@10"),
        *by_decile("global_recall@10", "prediction_proportion@10"),
    ],
    "next_location": [
        *at("accuracy", 1, 5, 10),
        *("mrr", "ndcg@10", "weighted_f1@1", "cross_entropy"),
        *by_decile(*at("global_accuracy", 1, 5, 10), "global_mrr", "cross_entropy"),
    ],
    "medical_coding": [
        *("micro_f1@t0.5", "macro_f1@t0.5", "macro_auc", "micro_auc"),
        *at("precision", 5, 8, 15),
        *by_decile("micro_f1@t0.5", "macro_f1@t0.5", "macro_auc", "micro_auc"),
        *by_decile(*at("global_precision_k_neg", 5, 8, 15)),
    ],
    "language_model": [
        *at("accuracy", 1, 5, 10),
        *("mrr", "cross_entropy"),
        *by_decile(*at("global_accuracy", 1, 5, 10), "global_mrr", "cross_entropy"),
    ],
    "map12": ["map_attainable@12", "precision_k@12", *at("relevance", 1, 2, 3)],
}


@pytest.mark.parametrize("name", PRESETS)
def test_opens_with_its_command(name: str) -> None:
    """The first line can be typed, but for the files; deciles and propensities ask for training targets."""
    first = (CONFIGS / f"{name}.yaml").read_text().splitlines()[0]
    files = "--preds … --target …" + (" --train-target …" if name in COUNTED else "")
    assert first == f"# tailmetrics evaluate --config configs/{name}.yaml {files}"


@pytest.mark.parametrize("name", PRESETS)
def test_loads_and_computes(name: str) -> None:
    """The keys are those listed; every value is a number within the bounds of its class, but for labels never seen."""
    values = evaluate(name)
    assert list(values) == KEYS[name]
    for metric in load(name):
        low, high = type(metric).bounds
        for key in metric.keys():  # noqa: SIM118 - a metric is no dict
            assert low <= values[key] <= high or key.endswith("/unseen"), key


def test_precision_of_the_xmc_preset_adds_up() -> None:
    """Over the deciles its parts sum to P@k."""
    values = evaluate("xmc")
    for k in (1, 3, 5):
        parts = [values[f"global_precision_k_neg@{k}/{bucket}"] for bucket in DECILES]
        assert sum(parts) == pytest.approx(values[f"precision_k@{k}"], abs=1e-12)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_leave_counts_to_bind(name: str) -> None:
    """A config knows no training counts: with deciles or propensities nothing can be computed before bind."""
    counts_open = [bool({"buckets", "label_counts"} & set(metric._missing())) for metric in load(name)]
    assert any(counts_open) == (name in COUNTED)


def test_medical_coding_is_what_plain_loops_compute() -> None:
    """F1 of probabilities above .5, AUC over pairs of rows, P@k; the decile of one label is that label's value."""
    generator = torch.Generator().manual_seed(1)
    rows, labels = 40, 12
    target = torch.rand(rows, labels, generator=generator) < 0.3
    scores = (torch.rand(rows, labels, generator=generator) + 0.5 * target) / 1.5
    frequency = LabelFrequency.from_counts([100] * labels, 1000)
    collection = TopKCollection(load("medical_coding")).bind(frequency)
    collection.update(scores, target)
    found = {key: float(value) for key, value in collection.compute().items()}
    truth, given = target.tolist(), scores.tolist()

    def f1(of: list[int]) -> float:
        pairs = [(given[row][label] > 0.5, truth[row][label]) for row in range(rows) for label in of]
        hits = sum(suggested and relevant for suggested, relevant in pairs)
        total = sum(suggested for suggested, _ in pairs) + sum(relevant for _, relevant in pairs)
        return 2 * hits / total

    def auc(of: list[int]) -> float:
        cells = [(given[row][label], truth[row][label]) for row in range(rows) for label in of]
        better = [(a > b) + (a == b) / 2 for a, relevant in cells if relevant for b, other in cells if not other]
        return sum(better) / len(better)

    every = list(range(labels))
    assert found["micro_f1@t0.5"] == pytest.approx(f1(every), abs=1e-12)
    assert found["macro_f1@t0.5"] == pytest.approx(sum(f1([one]) for one in every) / labels, abs=1e-12)
    assert found["macro_auc"] == pytest.approx(sum(auc([one]) for one in every) / labels, abs=0.02)
    assert found["micro_auc"] == pytest.approx(auc(every), abs=0.02)
    for k in (5, 8):
        best = [sorted(every, key=lambda label: (-row[label], label))[:k] for row in given]
        hits = [sum(truth[row][label] for label in best[row]) for row in range(rows)]
        assert found[f"precision@{k}"] == pytest.approx(sum(hits) / (k * rows), abs=1e-12)
    buckets = frequency.deciles()
    for number, name in enumerate(buckets.names[:10]):
        of = [label for label in every if buckets.assignment[label] == number]
        assert found[f"macro_auc/{name}"] == pytest.approx(sum(auc([one]) for one in of) / len(of), abs=0.02)


def test_the_language_model_preset_is_what_plain_loops_compute() -> None:
    """Accuracy, reciprocal rank and cross-entropy of the next token, -100 left out; the parts of a decile are its rows."""
    generator = torch.Generator().manual_seed(2)
    tokens = 20
    logits = torch.randn(60, tokens, generator=generator, dtype=torch.float64)
    target = torch.randint(tokens, (60,), generator=generator)
    target[::7] = -100
    frequency = LabelFrequency.from_counts([2 ** (tokens - token) // 2 + 1 for token in range(tokens)], 2**21)
    collection = TopKCollection(load("language_model")).bind(frequency)
    collection.update(logits, target)
    found = {key: float(value) for key, value in collection.compute().items()}
    buckets = frequency.deciles()
    for number, name in [(None, ""), *enumerate(buckets.names)]:
        rows = [
            (row, int(token))
            for row, token in zip(logits.tolist(), target, strict=True)
            if token >= 0 and number in (None, int(buckets.assignment[token]))
        ]
        if not rows:
            continue
        ranks = [1 + sum(score > row[token] for score in row) for row, token in rows]
        losses = [math.log(sum(map(math.exp, row))) - row[token] for row, token in rows]
        scope, of = ("global_", f"/{name}") if name else ("", "")
        for k in (1, 5, 10):
            hits = sum(rank <= k for rank in ranks)
            assert found[f"{scope}accuracy@{k}{of}"] == pytest.approx(hits / len(rows), abs=1e-12)
        assert found[f"{scope}mrr{of}"] == pytest.approx(sum(1 / rank for rank in ranks) / len(rows), abs=1e-12)
        assert found[f"cross_entropy{of}"] == pytest.approx(sum(losses) / len(rows), abs=1e-9)
