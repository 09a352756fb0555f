"""Every preset opens with its command, loads by class path, and computes the metrics of
its field.
"""

import re
from pathlib import Path

import pytest
import torch
from jsonargparse import ArgumentParser

from tailmetrics import LabelFrequency, TopKCollection
from tailmetrics.evaluation.added_metrics import with_values_over_all
from tailmetrics.metrics import TopKMetric

CONFIGS = Path(__file__).parents[1] / "configs"
PRESETS = [
    "head_to_tail",
    "xmc",
    "retrieval",
    "recsys",
    "next_location",
    "map12",
    "medical_coding",
    "language_model",
]
COUNTED = (
    "next_location",
    "head_to_tail",
    "xmc",
    "recsys",
    "medical_coding",
    "language_model",
)
NUM_LABELS = 1200
DECILES = [*(f"decile_{number}" for number in range(10, 0, -1)), "unseen"]


def load(name: str) -> list[TopKMetric]:
    """Return the metrics of a preset, as a LightningCLI makes them."""
    parser = ArgumentParser()
    parser.add_argument("--config", action="config")
    parser.add_argument("--headline", type=str)
    parser.add_argument("--words", type=str)
    parser.add_argument("--metrics", type=list[TopKMetric])
    # renamed in 4.49
    instantiate = getattr(parser, "instantiate", None) or parser.instantiate_classes
    loaded: list[TopKMetric] = instantiate(
        parser.parse_args(["--config", str(CONFIGS / f"{name}.yaml")])
    ).metrics
    return loaded


def evaluate(name: str) -> dict[str, float]:
    """Return the values of a preset for 100 rows of scores, after training on 400."""
    generator = torch.Generator().manual_seed(0)
    popularity = torch.rand(NUM_LABELS, generator=generator) ** 4
    training, target = (
        torch.rand(rows, NUM_LABELS, generator=generator) < popularity * 0.1
        for rows in (400, 100)
    )
    frequency = LabelFrequency(NUM_LABELS)
    frequency.update(training)
    collection = TopKCollection(load(name)).bind(frequency)
    one_each = torch.multinomial(popularity, 100, generator=generator)
    noise = torch.rand(target.shape, generator=generator)
    collection.update(
        popularity.log() + noise,
        one_each if name in ("next_location", "language_model") else target,
    )
    return {key: float(value) for key, value in collection.compute().items()}


KEYS = {
    "head_to_tail": "precision@1,5,10 normalized_recall@1,5,10 ndcg@1,5,10 / precision@1,5,10 ndcg@1,5,10 median_k_for_recall@0.8"
    " mean_k_for_recall@0.8 prediction_proportion@1,5,10 positive_coverage@1,5,10",
    "xmc": "precision@1,3,5 ndcg@1,3,5 psp@1,3,5 psndcg@1,3,5 recall@10,100 / recall@10,100 ndcg@1,3,5 precision@1,3,5"
    " prediction_proportion@5 positive_coverage@5",
    "retrieval": "precision@5,10,20 recall@100,1000 hit_rate@1,5,10 map mrr r_precision ndcg@5,10,20,1000",
    "recsys": "recall@10,20 ndcg@10,20 hit_rate@10 mrr@10 map@10 catalog_coverage@10 gini@10"
    " entropy@10 popularity@10 novelty@10 tie_rate@10 / recall@10 prediction_proportion@10",
    "next_location": "accuracy@1,5,10 mrr ndcg@10 weighted_f1 cross_entropy / accuracy@1,5,10 mrr cross_entropy",
    "medical_coding": "micro_f1 macro_f1 macro_f1_caml macro_auc micro_auc precision@5,8,15"
    " recall@15 / micro_f1 macro_f1 macro_auc micro_auc precision@5,8,15 recall@15",
    "language_model": "accuracy@1,5,10 mrr cross_entropy / accuracy@1,5,10 mrr cross_entropy",
    "map12": "map@12 precision@12 relevance@1,2,3",
}
"""The metrics of each preset with their cut-offs, and after a slash those by decile."""


def at_cutoffs(text: str) -> list[str]:
    """Return a key for each metric and cut-off."""
    stems = [word.partition("@") for word in text.split()]
    return [f"{stem}{at}{k}" for stem, at, cutoffs in stems for k in cutoffs.split(",")]


def keys(name: str) -> list[str]:
    """Return the keys of a preset."""
    overall, _, by_decile = KEYS[name].partition(" / ")
    return [
        *at_cutoffs(overall),
        *(f"{stem}/{bucket}" for stem in at_cutoffs(by_decile) for bucket in DECILES),
    ]


@pytest.mark.parametrize("name", PRESETS)
def test_preset_opens_with_its_command(name: str) -> None:
    """The first line of a preset is its command, except for the files; it asks for
    training targets exactly if a metric needs counts.
    """
    first = (CONFIGS / f"{name}.yaml").read_text().splitlines()[0]
    files = "--preds … --target …" + (" --train-target …" if name in COUNTED else "")
    assert first == f"# tailmetrics evaluate --config configs/{name}.yaml {files}"
    counts_open = [
        bool({"buckets", "label_counts"} & set(metric.missing()))
        for metric in load(name)
    ]
    assert any(counts_open) == (name in COUNTED)


@pytest.mark.parametrize("name", PRESETS)
def test_preset_has_the_documented_keys_within_bounds(name: str) -> None:
    """A preset has the keys of the table, and values lie within the bounds of their
    class, except for unseen labels.
    """
    values = evaluate(name)
    assert list(values) == keys(name)
    for metric in load(name):
        low, high = type(metric).bounds
        for key in metric.keys():  # noqa: SIM118 - a metric is no dict
            assert low <= values[key] <= high or key.endswith("/unseen"), key


@pytest.mark.parametrize("name", PRESETS)
def test_preset_has_no_value_twice(name: str) -> None:
    """No two overall values of a preset differ only in how they count rows without a
    label.
    """
    collection, _ = with_values_over_all(TopKCollection(load(name)))
    keys = [
        key
        for metric in collection.members().values()
        if metric.buckets is None
        for key in list(metric.keys())
    ]
    stems = [re.sub("_(skip|neg|pos)(?=@|$)", "", key) for key in keys]
    assert sorted(stems) == sorted(set(stems))
