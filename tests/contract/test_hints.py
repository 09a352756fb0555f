"""Warnings and errors that say what to pass instead: whoever follows them literally gets the number of a reference."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy
from torchmetrics.functional.classification import multiclass_calibration_error, multilabel_f1_score

import tailmetrics as tm

G = torch.Generator().manual_seed(0)
LOGITS = torch.randn(60, 8, generator=G)
CLASSES = torch.randint(0, 8, (60,), generator=G)
SHARES = LOGITS.softmax(dim=1)
RELEVANT = torch.rand(60, 8, generator=G) < 0.3
BEST = LOGITS.argsort(dim=1, descending=True)
MARKED = CLASSES.where(torch.arange(60) < 40, -100)
PADDED = torch.where(RELEVANT, torch.arange(8), -100).sort(dim=1, descending=True).values[:, :7]
NONE = torch.tensor([[0, -1, 2], [1, 2, -1]])

RECALL = float((RELEVANT.gather(1, BEST[:, :2]).sum(dim=1) / RELEVANT.sum(dim=1).clamp(min=1)).mean())
"""Recall at 2 in one line, 0 for a row without a relevant label."""
ACCURACY = float((BEST[:, 0] == CLASSES).double().mean())


def value(metric: Any, *args: Any, **more: Any) -> float:
    metric.update(*args, **more)
    return float(metric.compute())


Made = Callable[[], Any]
HINTS: list[tuple[str, Made, str, Made, float]] = [
    (
        "probabilities",
        lambda: value(tm.CrossEntropy(), SHARES, CLASSES),
        r"If these are probabilities, pass preds.log\(\)",
        lambda: value(tm.CrossEntropy(), SHARES.log(), CLASSES),
        float(cross_entropy(LOGITS, CLASSES)),
    ),
    (
        "probabilities to calibrate",
        lambda: value(tm.CalibrationErrorAtK(k=1), SHARES, CLASSES),
        r"If these are probabilities, pass preds.log\(\)",
        lambda: value(tm.CalibrationErrorAtK(k=1), SHARES.log(), CLASSES),
        float(multiclass_calibration_error(SHARES, CLASSES, 8)),
    ),
    (
        "logits",
        lambda: value(tm.F1AtThreshold(0.5), LOGITS, RELEVANT),
        r"If the threshold is a probability, pass preds.sigmoid\(\)",
        lambda: value(tm.F1AtThreshold(0.5), LOGITS.sigmoid(), RELEVANT),
        float(multilabel_f1_score(LOGITS, RELEVANT, 8, average="micro")),
    ),
    (
        "logits of candidates, a threshold per label",
        lambda: value(tm.F1AtThreshold(torch.full((8,), 0.5)), (LOGITS, torch.arange(8).expand(60, 8)), RELEVANT),
        r"If the threshold is a probability, pass preds.sigmoid\(\)",
        lambda: value(
            tm.F1AtThreshold(torch.full((8,), 0.5)), (LOGITS.sigmoid(), torch.arange(8).expand(60, 8)), RELEVANT
        ),
        float(multilabel_f1_score(LOGITS, RELEVANT, 8, average="micro")),
    ),
    (
        "rows that do not count",
        lambda: value(tm.CrossEntropy(), LOGITS, MARKED),
        "leave them out with row_mask=target != -100",
        lambda: value(tm.CrossEntropy(), LOGITS, MARKED, row_mask=MARKED != -100),
        float(cross_entropy(LOGITS, MARKED)),
    ),
    (
        "documents that do not count",
        lambda: value(tm.MRR(), LOGITS[0, :4], torch.tensor([-100, 0, 1, -100]), indexes=torch.zeros(4).long()),
        "left out by ignore_index=-100",
        lambda: value(
            tm.MRR(ignore_index=-100),
            torch.tensor([9.0, 1, 2, 3]),
            torch.tensor([-100, 0, 1, -100]),
            indexes=torch.zeros(4).long(),
        ),
        1.0,
    ),
    (
        "padding of other libraries",
        lambda: value(tm.RecallAtK(k=2), LOGITS, PADDED),
        r"If -100 pads rows, pass target.clamp\(min=-1\)",
        lambda: value(tm.RecallAtK(k=2), LOGITS, PADDED.clamp(min=-1)),
        RECALL,
    ),
    (
        "integer scores",
        lambda: value(tm.RecallAtK(k=2, num_labels=8), BEST.argsort(dim=1).neg().add(7).mul(3), RELEVANT),
        r"pass integer scores as floats, preds.float\(\)",
        lambda: value(tm.RecallAtK(k=2, num_labels=8), BEST.argsort(dim=1).neg().add(7).mul(3).float(), RELEVANT),
        RECALL,
    ),
    (
        "ranks of the labels",
        lambda: value(tm.RecallAtK(k=2), BEST.argsort(dim=1).float(), RELEVANT),
        "If these are ranks of the labels, pass -preds",
        lambda: value(tm.RecallAtK(k=2), -BEST.argsort(dim=1).float(), RELEVANT),
        RECALL,
    ),
    (
        "integer ranks of the labels",
        lambda: value(tm.RecallAtK(k=2), BEST.argsort(dim=1), RELEVANT),
        r"If these are ranks of the labels, pass -preds.float\(\)",
        lambda: value(tm.RecallAtK(k=2), -BEST.argsort(dim=1).float(), RELEVANT),
        RECALL,
    ),
    (
        "ids as floats",
        lambda: value(tm.RecallAtK(k=1), BEST.float(), CLASSES),
        r"if they are label ids, best first, pass preds.long\(\)",
        lambda: value(tm.RecallAtK(k=1), BEST.float().long()[:, :7], CLASSES),
        ACCURACY,
    ),
    (
        "ids of all labels",
        lambda: value(tm.RecallAtK(k=2), BEST, RELEVANT),
        r"if they are ids, Ranking.from_ids\(preds, ...\)",
        lambda: value(tm.RecallAtK(k=2), tm.Ranking.from_ids(BEST, target_mask=RELEVANT)),
        RECALL,
    ),
    (
        "decisions as scores",
        lambda: (
            value(tm.RecallAtThreshold(0.5), (LOGITS > 0).float(), RELEVANT)
            + value(tm.PrecisionAtK(k=1), (LOGITS > 0).float(), RELEVANT)
        ),
        r"or preds.bool\(\) to a metric with a threshold, such as F1AtThreshold",
        lambda: value(tm.F1AtThreshold(0.5), (LOGITS > 0).float().bool(), RELEVANT),
        float(multilabel_f1_score(LOGITS, RELEVANT, 8, average="micro")),
    ),
    (
        "class indices as floats",
        lambda: value(tm.RecallAtK(k=1), LOGITS, CLASSES.float()),
        r"pass target.long\(\)",
        lambda: value(tm.RecallAtK(k=1), LOGITS, CLASSES.float().long()),
        ACCURACY,
    ),
    (
        "ids whose width is the number of labels",
        lambda: tm.rank(LOGITS, torch.where(RELEVANT, torch.arange(8), -1)),
        r"label ids of this width go to Ranking.from_scores\(..., target_ids=\)",
        lambda: value(
            tm.RecallAtK(k=2),
            tm.Ranking.from_scores(LOGITS, target_ids=torch.where(RELEVANT, torch.arange(8), -1)),
        ),
        RECALL,
    ),
    (
        "a multi-hot matrix of integers",
        lambda: value(tm.RecallAtK(k=2), BEST[:, :4], RELEVANT.long()),
        r"pass a multi-hot target as bool, target.bool\(\)",
        lambda: value(tm.RecallAtK(k=2), BEST[:, :4], RELEVANT.long().bool()),
        RECALL,
    ),
    (
        "labels that are named twice",
        lambda: value(tm.PrecisionAtK(k=2), torch.tensor([[1, 1, 0]]), torch.tensor([1])),
        "pass duplicates='first' to count later places as misses",
        lambda: value(tm.PrecisionAtK(k=2, duplicates="first"), torch.tensor([[1, 1, 0]]), torch.tensor([1])),
        1 / 2,
    ),
    (
        "labels of documents that are named twice",
        lambda: tm.Ranking.from_flat(
            torch.tensor([0.9, 0.8]), torch.tensor([1, 0]), torch.zeros(2).long(), torch.zeros(2).long()
        ),
        "duplicates='first'",
        lambda: value(
            tm.PrecisionAtK(k=2),
            tm.Ranking.from_flat(
                torch.tensor([0.9, 0.8]),
                torch.tensor([1, 0]),
                torch.zeros(2).long(),
                torch.zeros(2).long(),
                duplicates="first",
            ),
        ),
        1 / 2,
    ),
    (
        "ids from 1",
        lambda: value(tm.RecallAtK(k=2, num_labels=8), BEST[:, :3] + 1, RELEVANT),
        "ids that start at 1 need - 1",
        lambda: value(tm.RecallAtK(k=2, num_labels=8), BEST[:, :3] + 1 - 1, RELEVANT),
        RECALL,
    ),
    (
        "answers that are no label",
        lambda: value(tm.PrecisionAtK(k=3, num_labels=4), NONE, torch.tensor([2, 1])),
        "keeps its place under an id of its own",
        lambda: value(
            tm.PrecisionAtK(k=3, num_labels=5, duplicates="first"), NONE.where(NONE >= 0, 4), torch.tensor([2, 1])
        ),
        1 / 3,
    ),
]


@pytest.mark.parametrize(
    ("wrong", "hint", "followed", "reference"), [one[1:] for one in HINTS], ids=[one[0] for one in HINTS]
)
def test_who_follows_a_hint_gets_the_number_of_the_reference(
    wrong: Made, hint: str, followed: Made, reference: float
) -> None:
    """The hint is given for the wrong call, and for the right one nothing is said."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises((TypeError, ValueError, UserWarning), match=hint):
            wrong()
        assert followed() == pytest.approx(reference, abs=2e-6)


def test_members_of_a_collection_are_warned_of_once() -> None:
    """Two thresholds on logits, and two metrics that take a softmax of probabilities: two warnings, in the first batch."""
    members = [tm.F1AtThreshold(0.5), tm.RecallAtThreshold(0.5), tm.CrossEntropy(), tm.CalibrationErrorAtK(k=1)]
    collection = tm.TopKCollection(members)
    with pytest.warns(UserWarning, match="pass preds.sigmoid") as said:
        collection.update(LOGITS, CLASSES)
    assert len(said) == 1
    with pytest.warns(UserWarning, match="pass preds.log") as said:
        tm.TopKCollection([metric.clone() for metric in (tm.CrossEntropy(), tm.CalibrationErrorAtK(k=1))]).update(
            SHARES, CLASSES
        )
    assert len(said) == 1


def test_a_threshold_is_compared_in_the_type_of_the_scores() -> None:
    """Scores of .3 are not above .3: not above the number, nor above a tensor of another type."""
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        scores = torch.full((2, 3), 0.3, dtype=torch.float64).to(dtype)
        for threshold in (0.3, torch.full((3,), 0.3, dtype=torch.float64), torch.full((3,), 0.3)):
            for preds in (scores, (scores, torch.arange(3).expand(2, 3))):
                assert value(tm.RecallAtThreshold(threshold), preds, torch.ones(2, 3).bool()) == 0.0


def test_training_counts_need_no_distinct_ids() -> None:
    """An interaction that is repeated counts twice; tokens (B, T) are counted one by one."""
    frequency = tm.LabelFrequency(4)
    frequency.update(torch.tensor([[0, 2, 0], [3, -1, -1]]))
    assert frequency.compute().tolist() == [2, 0, 1, 1]
    assert frequency.num_rows == 2
