"""A call with arguments that nothing here takes is refused in one sentence, in the name of what was called."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tailmetrics import (
    LabelBuckets,
    LabelFrequency,
    PrecisionAtK,
    Ranking,
    RBPAtK,
    RecallAtK,
    TopKCollection,
    evaluate,
    functional,
    rank,
)
from tailmetrics.io import read, read_target
from tailmetrics.lightning import HeadToTailReport
from tailmetrics.metrics import REGISTRY

SCORES = torch.rand(4, 12, generator=torch.Generator().manual_seed(0))
TARGET = torch.tensor([1, 2, 3, 4])
Call = Callable[[], Any]


def precision(**wrong: Any) -> None:
    """Update a metric with arguments that it does not take."""
    PrecisionAtK(k=2).update(SCORES, TARGET, **wrong)


def collection(*more: Any, **wrong: Any) -> None:
    """Update a collection with arguments that it does not take."""
    TopKCollection([PrecisionAtK(k=2)]).update(SCORES, TARGET, *more, **wrong)


TAKES = "update takes preds, target, row_mask, row_groups, row_weights, indexes"
CALLS: list[tuple[Call, str]] = [
    (
        lambda: precision(sample_weight=torch.ones(4)),
        f"PrecisionAtK: sample_weight is not taken here; {TAKES}; pass row_weights=, with metrics made with weighted=True",
    ),
    (
        lambda: precision(groups=TARGET),
        "PrecisionAtK: groups is not .*; pass row_groups=, with metrics made with row_g",
    ),
    (lambda: precision(mask=TARGET > 1), "PrecisionAtK: mask is not taken here; .*; pass row_mask= instead"),
    (lambda: precision(row_weight=TARGET), "PrecisionAtK: row_weight is not taken here; .*; pass row_weights= instead"),
    (lambda: precision(k=3), "PrecisionAtK: k is not taken here; .*; pass k= where the metric is made"),
    (
        lambda: precision(target_ids=TARGET),
        r"target_ids is not .* pass update\(Ranking.from_scores\(preds, target_ids=",
    ),
    (lambda: precision(preds=SCORES), "PrecisionAtK: preds is given by position and by name; pass it once"),
    (
        lambda: PrecisionAtK(k=2).update(y_true=TARGET, y_score=SCORES),
        "PrecisionAtK: y_true and y_score are not taken here; .*; pass target= and preds= instead",
    ),
    (
        lambda: PrecisionAtK(k=2)(SCORES, TARGET, sample_weight=SCORES[:, 0]),
        "PrecisionAtK: sample_weight is not taken here; update takes",
    ),
    (
        lambda: PrecisionAtK(k=2).update(SCORES, TARGET, None, TARGET),
        r"PrecisionAtK: 4 arguments stand side by side; update takes at most 3, update\(preds, target, row_mask\), the "
        "others by name: row_groups=, row_weights=, indexes=",
    ),
    (lambda: PrecisionAtK(k=2).update(), r"PrecisionAtK: preds is missing; pass update\(preds, target, row_mask\)"),
    (
        lambda: LabelFrequency(12).update(TARGET, labels=TARGET),
        "LabelFrequency: labels is not taken here; update takes",
    ),
    (lambda: collection(sample_weight=TARGET), "TopKCollection: sample_weight is not taken here; update takes preds"),
    (lambda: collection(None, TARGET), "TopKCollection: 4 arguments stand side by side; update takes at most 3"),
    (
        lambda: TopKCollection([PrecisionAtK(k=2)])(SCORES, TARGET, groups=TARGET),
        "TopKCollection: groups is not taken here; forward takes preds",
    ),
    (lambda: TopKCollection(), r"TopKCollection: metrics is missing; pass TopKCollection\(metrics\)"),  # type: ignore[call-arg]
    (lambda: PrecisionAtK(), r"PrecisionAtK: k is missing; pass PrecisionAtK\(k\)"),  # type: ignore[call-arg]
    (lambda: PrecisionAtK(1, 2), r"PrecisionAtK: 2 arguments stand side by side; PrecisionAtK takes at most 1"),  # type: ignore[misc]
    (lambda: PrecisionAtK(k=2).bind(), r"PrecisionAtK: frequency is missing; pass bind\(frequency\)"),  # type: ignore[call-arg]
    (lambda: PrecisionAtK(k=2).row_values(SCORES), r"PrecisionAtK: ranking is float32 \[4, 12\]; pass a Ranking, such"),  # type: ignore[arg-type]
    (lambda: PrecisionAtK(k=2).scalars(torch.ones(7)), "PrecisionAtK: value is .*; pass what .* returned, 1 numbers"),
    (lambda: PrecisionAtK(k=np.array([1, 2])), r"PrecisionAtK: k is a ndarray; pass one int or a list of them"),  # type: ignore[arg-type]
    (lambda: PrecisionAtK(k=torch.tensor([1, 2])), "PrecisionAtK: k is a Tensor; pass one int or a list of them"),  # type: ignore[arg-type]
    (lambda: PrecisionAtK(k={1, 2}), "PrecisionAtK: k is a set; pass one int or a list of them"),  # type: ignore[arg-type]
    (
        lambda: PrecisionAtK(k=2**62),
        "PrecisionAtK: k=4611686018427387904 is too large; pass an int of at most 2147483647",
    ),
    (lambda: PrecisionAtK(k=2, num_labels=2**80), "PrecisionAtK: num_labels=1208925819614629174706176 is too large"),
    (lambda: rank(SCORES, TARGET, k=3), "rank: k is not taken here; rank takes preds, target, depth, row_mask"),  # type: ignore[call-arg]
    (lambda: rank(SCORES, TARGET, 2**80), "rank: depth=1208925819614629174706176 is too large"),
    (lambda: rank(SCORES, TARGET, ignore_index="pad"), "rank: ignore_index='pad' is not a whole number"),  # type: ignore[arg-type]
    (lambda: Ranking.from_scores(SCORES, target=TARGET), "Ranking: target is not taken here; .* pass target_ids= "),  # type: ignore[call-arg]
    (lambda: rank(SCORES, TARGET).by_bucket(3), "Ranking.by_bucket: buckets is int; pass LabelBuckets"),  # type: ignore[arg-type]
    (
        lambda: rank(SCORES, TARGET).by_bucket(LabelBuckets.deciles([1] * 3)),
        "Ranking.by_bucket: the ranking is of 12 labels, the buckets of 3; make both for the same labels",
    ),
    (
        lambda: rank(SCORES, TARGET).by_bucket(LabelBuckets.deciles([1] * 12), "all"),  # type: ignore[arg-type]
        "Ranking.by_bucket: scope='all' is not known",
    ),
    (
        lambda: evaluate([PrecisionAtK(k=1)], SCORES, sample_weight=1),  # type: ignore[call-arg]
        r"evaluate: sample_weight is not taken here; evaluate takes .*; pass row_weights=",
    ),
    (lambda: evaluate(SCORES), r"evaluate: target is missing; pass evaluate\("),  # type: ignore[call-arg]
    (lambda: read("scores.npy"), r"read: target is missing; pass read\(preds, target\)"),  # type: ignore[call-arg]
    (lambda: read_target("a.npy", "b.npy"), "read_target: 2 arguments stand side by side; read_target takes at most 1"),  # type: ignore[misc]
    (lambda: HeadToTailReport(), "HeadToTailReport: metrics is missing"),  # type: ignore[call-arg]
    (
        lambda: HeadToTailReport([PrecisionAtK(k=1)], folder="runs"),  # type: ignore[call-arg]
        "HeadToTailReport: folder is not taken here; HeadToTailReport takes metrics, num_labels",
    ),
    (lambda: HeadToTailReport([PrecisionAtK(k=1)], name=3), "HeadToTailReport: name=3 is no part of a file name"),  # type: ignore[arg-type]
    (
        lambda: functional.recall_at_k(SCORES, TARGET),
        r"recall_at_k: k is missing; pass recall_at_k\(preds, target, k\)",
    ),
    (lambda: functional.recall_at_k(SCORES), "recall_at_k: target and k are missing"),
    (lambda: functional.recall_at_k(SCORES, TARGET, top_k=2), "recall_at_k: top_k is not taken here; .* pass k= "),
    (lambda: functional.recall_at_k(SCORES, TARGET, 2, 3), "recall_at_k: 4 arguments stand side by side"),
    (lambda: functional.recall_at_k(SCORES, TARGET, 2, preds=SCORES), "recall_at_k: preds is given by position and by"),
    (lambda: functional.recall_at_k(SCORES, TARGET, k=None), "recall_at_k: k=None, the whole ranking, means nothing"),
    (lambda: functional.recall_at_k(SCORES, TARGET, k=2**62), "recall_at_k: k=4611686018427387904 is too large"),
]


@pytest.mark.parametrize(("call", "message"), CALLS, ids=[message[:50] for _, message in CALLS])
def test_a_wrong_call_is_refused_in_one_sentence(call: Call, message: str) -> None:
    """No base class is named, and nothing that is not the caller's."""
    with pytest.raises((TypeError, ValueError), match=message) as raised:
        call()
    assert str(raised.value).endswith(".")
    assert raised.value.__cause__ is None


@pytest.mark.parametrize("name", REGISTRY)
def test_every_metric_says_in_its_own_name_what_it_lacks(name: str) -> None:
    """Of each class, made without arguments or with too many."""
    metric = REGISTRY[name]
    with pytest.raises((TypeError, ValueError), match=f"^{name}: "):
        metric(*range(1, 30))
    needed = [one for one in inspect.signature(metric).parameters.values() if one.default is one.empty]
    if any(one.kind == one.POSITIONAL_OR_KEYWORD for one in needed):
        with pytest.raises(TypeError, match=f"^{name}: {needed[0].name} is missing; pass {name}\\("):
            metric()


def test_a_type_error_of_an_own_metric_is_not_hidden() -> None:
    """What a formula raises inside is no wrong call, and stays as it is."""

    class Broken(RecallAtK):  # type: ignore[misc]
        stem = "broken"

        def _row_value(self, ranks: Any, k: Any) -> Any:
            return len(3)  # type: ignore[arg-type]

    with pytest.raises(TypeError, match="object of type 'int' has no len"):
        Broken(k=1).update(SCORES, TARGET)


def test_a_large_cut_off_takes_no_memory() -> None:
    """A table of rank-biased precision ends with the list: 2^31 - 1 ranks would be 16 GB."""
    found = functional.rbp_at_k(SCORES, TARGET, k=2**31 - 1)
    assert torch.equal(found, functional.rbp_at_k(SCORES, TARGET, k=12))
    metric = RBPAtK(k=2**31 - 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metric.update(SCORES, TARGET)
    assert float(metric.compute()) == pytest.approx(float(found.mean()), abs=1e-12)
