"""Compares the trained model with two others that cost nothing.

The files `report.*` and `compare.*` are written, with intervals.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from tailmetrics import (
    LabelBuckets,
    LabelFrequency,
    NDCGAtK,
    NearMissAtK,
    PrecisionAtK,
    RecallAtK,
    evaluate,
)
from tailmetrics.evaluation import compare_runs
from tailmetrics.metrics import TopKMetric

from .data import ICD10Data
from .model import BagOfFeatures

RESAMPLES = 2000
ADJUSTMENT = 0.5
"""How much of the log of a label's training count is subtracted from its logit.

This favours rare labels.
"""


def metrics(chapters: LabelBuckets) -> list[TopKMetric]:
    """Return the metrics to compare: overall, by decile and by chapter.

    Lists hold ten labels.
    """
    return [
        PrecisionAtK(k=[1, 5]),
        NDCGAtK(k=10),
        RecallAtK(k=10, buckets="deciles", scope="global"),
        RecallAtK(k=10, buckets="deciles"),
        NearMissAtK(k=10, buckets="deciles"),
        RecallAtK(k=10, buckets=chapters, scope="global", name="recall_by_chapter"),
    ]


def scores_and_target(model: BagOfFeatures, data: ICD10Data) -> tuple[Tensor, Tensor]:
    """Logits [N, L] of the test split, and its label ids padded with -1."""
    batches = list(data.test_dataloader())
    width = max(batch["target"].shape[1] for batch in batches)
    pads = [(0, width - batch["target"].shape[1]) for batch in batches]
    padded = [
        torch.nn.functional.pad(batch["target"], pad, value=-1)
        for batch, pad in zip(batches, pads, strict=True)
    ]
    with torch.inference_mode():
        logits = [model(batch["features"], batch["offsets"]) for batch in batches]
    return torch.cat(logits), torch.cat(padded)


def training_frequency(data: ICD10Data) -> LabelFrequency:
    """How often each code occurs in training."""
    frequency = LabelFrequency(data.num_labels)
    for example in data.train_set:
        frequency.update(target_ids=example.labels[None])
    return frequency


def write_comparison(model: BagOfFeatures, data: ICD10Data, folder: Path) -> list[Path]:
    """Write the report of the model, and the comparison of all three; return the paths.

    The report has intervals.
    """
    frequency = training_frequency(data)
    scores, target = scores_and_target(model.eval(), data)
    popularity = frequency.compute().float()
    chapters = LabelBuckets.from_tree(data.label_tree)
    common = {
        "metrics": metrics(chapters),
        "label_counts": frequency,
        "label_tree": data.label_tree,
    }
    report = evaluate(
        scores,
        target,
        labels=True,
        label_names=data.label_names,
        intervals=RESAMPLES,
        title="ICD-10-CM, BagOfFeatures after training",
        **common,
    )
    runs = {
        "BagOfFeatures": scores,
        "logits adjusted for rare codes": scores - ADJUSTMENT * (popularity + 1).log(),
        "most frequent codes for all": popularity.expand_as(scores),
    }
    compared = compare_runs(
        runs,
        target,
        baseline="BagOfFeatures",
        title="Three ways to find ICD-10-CM codes",
        resamples=RESAMPLES,
        **common,
    )
    return [*report.write(folder), *compared.write(folder)]
