"""Warnings and errors say what to pass instead, and following them gives the number of
a reference.
"""

import math
import re
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy
from torchmetrics.functional.classification import (
    multiclass_calibration_error,
    multilabel_f1_score,
)

import tailmetrics as tm

G = torch.Generator().manual_seed(0)
LOGITS = torch.randn(60, 8, generator=G)
CLASSES = torch.randint(0, 8, (60,), generator=G)
SHARES = LOGITS.softmax(dim=1)
RELEVANT = torch.rand(60, 8, generator=G) < 0.3
BEST = LOGITS.argsort(dim=1, descending=True)
IGNORED_CLASSES = CLASSES.where(torch.arange(60) < 40, -100)
PADDED = (
    torch.where(RELEVANT, torch.arange(8), -100)
    .sort(dim=1, descending=True)
    .values[:, :7]
)
MISSING_IDS = torch.tensor([[0, -1, 2], [1, 2, -1]])

RECALL = float(
    (
        RELEVANT.gather(1, BEST[:, :2]).sum(dim=1) / RELEVANT.sum(dim=1).clamp(min=1)
    ).mean()
)
"""Recall at 2 in one line, 0 for a row without a relevant label."""
ACCURACY = float((BEST[:, 0] == CLASSES).double().mean())


RECALL_AT_2, RECALL_OF_8 = (
    partial(tm.RecallAtK, k=2),
    partial(tm.RecallAtK, k=2, num_labels=8),
)


def value(metric: Any, *args: Any, **keywords: Any) -> float:
    metric.update(*args, **keywords)
    return float(metric.compute())


Reference = tuple[str, Callable[..., Any], Any, Any, str, float]
TARGET_OF_FOUR = torch.tensor([-100, 0, 1, -100])
FLAT = {"indexes": torch.zeros(4).long()}
IDS_OF_EIGHT = torch.arange(8).expand(60, 8)
SMALL = multilabel_f1_score(LOGITS, RELEVANT, 8, average="micro")
HINTS: list[Reference] = [
    ("probabilities", tm.CrossEntropy, SHARES, CLASSES, "preds.log()", cross_entropy(LOGITS, CLASSES)),
    ("probabilities of 1", tm.CrossEntropy, torch.tensor([[1, 0, 0.0], [0.5, 0.25, 0.25]]), TARGET_OF_FOUR[1:3], "preds.log()", math.log(4) / 2),
    ("probabilities to calibrate", partial(tm.CalibrationErrorAtK, k=1), SHARES, CLASSES, "preds.log()",
     multiclass_calibration_error(SHARES, CLASSES, 8)),
    ("logits", partial(tm.F1AtThreshold, 0.5), LOGITS, RELEVANT, "preds.sigmoid()", SMALL),
    ("logits, a threshold per label", partial(tm.F1AtThreshold, torch.full((8,), 0.5)), LOGITS, RELEVANT, "preds.sigmoid()", SMALL),
    ("rows that do not count", tm.CrossEntropy, LOGITS, IGNORED_CLASSES, "row_mask=target != -100", cross_entropy(LOGITS, IGNORED_CLASSES)),
    ("documents that do not count", tm.MRR, torch.tensor([9.0, 1, 2, 3]), TARGET_OF_FOUR, "ignore_index=-100", 1),
    ("padding of other libraries", RECALL_AT_2, LOGITS, PADDED, "target.clamp(min=-1)", RECALL),
    ("lists that Trainer pads", RECALL_AT_2, torch.tensor([[3, 4, 5], [1, 2, -100], [6, -100, -100]]), torch.tensor([[3, 4], [0, 1], [2, 6]]),
     "preds.clamp(min=-1)", (1 + 1 / 2 + 1 / 2) / 3),
    ("integer scores below -1", RECALL_OF_8, BEST.argsort(dim=1).neg(), RELEVANT, "preds.float()", RECALL),
    ("integer scores", RECALL_OF_8, BEST.argsort(dim=1).neg().add(7).mul(3), RELEVANT, "preds.float()", RECALL),
    ("ranks of the labels", RECALL_AT_2, BEST.argsort(dim=1).float(), RELEVANT, "-preds", RECALL),
    ("integer ranks of the labels", RECALL_AT_2, BEST.argsort(dim=1), RELEVANT, "-preds.float()", RECALL),
    ("ids as floats", partial(tm.RecallAtK, k=1), BEST.float(), CLASSES, "preds.long()", ACCURACY),
    ("class indices as floats", partial(tm.RecallAtK, k=1), LOGITS, CLASSES.float(), "target.long()", ACCURACY),
    ("a multi-hot matrix of integers", RECALL_AT_2, BEST[:, :4], RELEVANT.long(), "target.bool()", RECALL),
    ("labels that are named twice", partial(tm.PrecisionAtK, k=2), torch.tensor([[1, 1, 0]]), CLASSES[:1] * 0 + 1,
     "duplicates='first'", 1 / 2),
    ("ids of all labels", RECALL_AT_2, BEST, RELEVANT, "Ranking.from_ids(preds, ...)", RECALL),
    ("ids as wide as the labels", RECALL_AT_2, LOGITS, torch.where(RELEVANT, torch.arange(8), -1),
     "Ranking.from_scores(..., target_ids=)", RECALL),
    ("ids from 1", RECALL_OF_8, BEST[:, :3] + 1, RELEVANT, "ids that start at 1 need - 1", RECALL),
    ("answers that are no label", partial(tm.PrecisionAtK, k=3, num_labels=4), MISSING_IDS, torch.tensor([2, 1]),
     "keeps its place under an id of its own", 1 / 3),
]  # fmt: skip
HINTS_IN_WORDS: dict[str, Callable[[Any, Any], Any]] = {
    # all 8 bring another hint
    "preds.long()": lambda preds, target: tm.RecallAtK(k=1)(
        preds.long()[:, :7], target
    ),
    "Ranking.from_ids(preds, ...)": lambda preds, target: tm.Ranking.from_ids(
        preds, target_mask=target
    ),
    "Ranking.from_scores(..., target_ids=)": lambda preds, target: (
        tm.Ranking.from_scores(preds, target_ids=target)
    ),
    "ids that start at 1 need - 1": lambda preds, target: RECALL_OF_8()(
        preds - 1, target
    ),
    "keeps its place under an id of its own": lambda preds, target: tm.PrecisionAtK(
        k=3, num_labels=5, duplicates="first"
    )(preds.where(preds >= 0, 4), target),
}
"""Calls for hints that are not the full code to type."""


def follow_hint(
    metric: Callable[..., Any], preds: Any, target: Any, hint: str, rows: dict[str, Any]
) -> Any:
    """Return the value of a call that follows the hint."""
    if hint in HINTS_IN_WORDS:
        result = HINTS_IN_WORDS[hint](preds, target)
        return metric()(result) if isinstance(result, tm.Ranking) else result
    name, _, code = hint.partition("=")
    names = {"preds": preds, "target": target}
    if name == "row_mask":
        rows = {**rows, name: eval(code, names)}
    elif name.isidentifier():
        metric = partial(metric, **{name: eval(code)})
    else:
        names[hint.lstrip("-").partition(".")[0]] = eval(hint, dict(names))
    return metric()(names["preds"], names["target"], **rows)


@pytest.mark.parametrize(
    ("metric", "preds", "target", "hint", "reference"),
    [case[1:] for case in HINTS],
    ids=[case[0] for case in HINTS],
)
def test_following_a_hint_gives_the_number_of_the_reference(
    metric: Callable[..., Any], preds: Any, target: Any, hint: str, reference: float
) -> None:
    """The wrong call brings the hint; the call that the hint describes brings none and
    has the reference's number.
    """
    rows = FLAT if target is TARGET_OF_FOUR else {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises((TypeError, ValueError, UserWarning), match=re.escape(hint)):
            metric()(preds, target, **rows)
        assert float(follow_hint(metric, preds, target, hint, rows)) == pytest.approx(
            float(reference), abs=2e-6
        )


def test_hints_for_other_calls() -> None:
    """Hints for three more calls give the number of the reference: documents whose
    labels repeat, candidates with a threshold, and decisions as scores.
    """
    documents = (
        torch.tensor([0.9, 0.8]),
        torch.tensor([1, 0]),
        torch.zeros(2).long(),
        torch.zeros(2).long(),
    )
    with pytest.raises(ValueError, match="duplicates='first'"):
        tm.Ranking.from_flat(*documents)
    assert (
        value(
            tm.PrecisionAtK(k=2), tm.Ranking.from_flat(*documents, duplicates="first")
        )
        == 1 / 2
    )
    with pytest.warns(UserWarning, match=r"pass preds.sigmoid\(\)"):
        tm.F1AtThreshold(torch.full((8,), 0.5)).update((LOGITS, IDS_OF_EIGHT), RELEVANT)
    assert value(
        tm.F1AtThreshold(0.5), (LOGITS.sigmoid(), IDS_OF_EIGHT), RELEVANT
    ) == pytest.approx(float(SMALL), abs=2e-6)
    with pytest.warns(
        UserWarning,
        match=r"or preds.bool\(\) to a metric with a threshold, such as F1AtThreshold",
    ):
        tm.PrecisionAtK(k=1).update((LOGITS > 0).float(), RELEVANT)
    assert value(tm.F1AtThreshold(0.5), LOGITS > 0, RELEVANT) == pytest.approx(
        float(SMALL), abs=2e-6
    )


def test_collection_warns_once_for_all_members() -> None:
    """A collection warns once for members with the same problem: two thresholds on
    logits, or two metrics that take a softmax of probabilities.
    """
    members = [
        tm.F1AtThreshold(0.5),
        tm.RecallAtThreshold(0.5),
        tm.CrossEntropy(),
        tm.CalibrationErrorAtK(k=1),
    ]
    collection = tm.TopKCollection(members)
    with pytest.warns(UserWarning, match="pass preds.sigmoid") as caught:
        collection.update(LOGITS, CLASSES)
    assert len(caught) == 1
    with pytest.warns(UserWarning, match="pass preds.log") as caught:
        tm.TopKCollection(
            [
                metric.clone()
                for metric in (tm.CrossEntropy(), tm.CalibrationErrorAtK(k=1))
            ]
        ).update(SHARES, CLASSES)
    assert len(caught) == 1


def test_a_threshold_is_compared_in_the_type_of_the_scores() -> None:
    """A threshold is compared in the type of the scores: scores of 0.3 are not above
    0.3, as a number or as a tensor of any type.
    """
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        scores = torch.full((2, 3), 0.3, dtype=torch.float64).to(dtype)
        for threshold in (
            0.3,
            torch.full((3,), 0.3, dtype=torch.float64),
            torch.full((3,), 0.3),
        ):
            for preds in (scores, (scores, torch.arange(3).expand(2, 3))):
                assert (
                    value(
                        tm.RecallAtThreshold(threshold), preds, torch.ones(2, 3).bool()
                    )
                    == 0.0
                )


def test_ndcg_warns_of_queries_of_one_grade() -> None:
    """nDCG warns if all documents of a query have one grade, because every order has
    the value 1: two of four queries.

    Rankings of a whole catalogue bring no warning.
    """
    grades, indexes = (
        torch.tensor([2.0, 2.0, 1.0, 0.0, 3.0, 3.0, 0.0, 0.0]),
        torch.arange(8) // 2,
    )
    with pytest.warns(
        UserWarning,
        match="in 2 of 4 rows of the first batch all documents have the same grade",
    ):
        tm.NDCGAtK(k=5).update(torch.rand(8), grades, indexes=indexes)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tm.NDCGAtK(k=5).update(
            torch.rand(8), torch.tensor([2.0, 1.0] * 4), indexes=indexes
        )
        tm.NDCGAtK(k=2).update(torch.rand(3, 9), torch.tensor([0, 4, 8]))
