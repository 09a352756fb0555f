"""``min_gain=2`` is trec_eval's ``-l 2``: relevant where the gain is at least 2; CG, DCG and nDCG keep the gains.

Readings of the contract where it leaves a choice:

- A label below the level is like a label that is not in the target at all: for n, for the row's emptiness, for labels
  that count as present. Any positive number is a level; 0, negative numbers and NaN are refused.
- CG, DCG and nDCG take the argument, so that one setting fits a whole collection, and give the value they give without
  it (as trec_eval does); their keys are not tested.
- The level stands behind the stem, before ``@``: ``recall_min2@10``, ``mrr_min2``, ``micro_f1_min2@5``.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import tailmetrics
from wishes.rows import COUNTS, DECILES, NUM_LABELS, THREE, bits, csr, fed, graded

COUNTED = {"label_counts": COUNTS, "num_train": int(COUNTS.sum())}
ASKING: list[tuple[str, dict[str, Any]]] = [
    *((name, {"k": [1, 5]}) for name in ("PrecisionAtK", "RecallAtK", "F1AtK", "NormalizedRecallAtK", "HitRateAtK")),
    *((name, {"k": 5, "average": average}) for name in ("PrecisionAtK", "F1AtK") for average in ("micro", "macro")),
    ("RecallAtK", {"k": 5, "average": "weighted"}),
    ("AccuracyAtK", {"k": 1}),
    ("RelevanceAtK", {"k": 2}),
    ("RPrecision", {}),
    ("MRR", {}),
    ("MAP", {}),
    ("MAP", {"k": 5, "denominator": "attainable"}),
    ("KForRecall", {"min_recall": 0.5}),
    ("CrossEntropy", {}),
    ("PositiveCoverageAtK", {"k": 5}),
    ("PropensityScoredPrecisionAtK", {"k": 3, **COUNTED}),
    ("PropensityScoredRecallAtK", {"k": 3, **COUNTED}),
    ("PropensityScoredNDCGAtK", {"k": 3, **COUNTED}),
]
ASKING_NEW: list[tuple[str, dict[str, Any]]] = [
    ("F1AtThreshold", {"threshold": 0.5}),
    ("F1AtThreshold", {"threshold": 0.5, "average": "macro"}),
    ("RecallAtThreshold", {"threshold": [0.2, 0.5], "average": "samples"}),
    ("RowAUC", {}),
    ("LabelAUC", {}),
    ("CoverageError", {}),
    ("RankingLoss", {}),
    ("RBPAtK", {"k": 5}),
    ("FBetaAtK", {"k": 5}),
    ("FallOutAtK", {"k": 5}),
    ("PopularityLiftAtK", {"k": 5, "label_counts": COUNTS}),
    ("CalibrationErrorAtK", {"k": 1}),
]
WAYS: list[dict[str, Any]] = [{}, {"buckets": DECILES}, {"buckets": THREE, "scope": "global"}]
WITHOUT_SCOPE = ("PositiveCoverageAtK", "LabelAUC", "PopularityLiftAtK", "CalibrationErrorAtK")


def made(name: str, given: dict[str, Any], **more: Any) -> Any:
    return getattr(tailmetrics, name)(num_labels=NUM_LABELS, **given, **more)


# --- trec_eval


def trec_eval(gains: Tensor, scores: Tensor, level: int) -> dict[str, list[float]]:
    """Every measure of every row at this level; documents are numbered so that strings sort as labels do."""
    peer = pytest.importorskip("pytrec_eval")
    qrels = {
        str(row): {f"{label:03d}": int(gain) for label, gain in enumerate(own)}
        for row, own in enumerate(gains.tolist())
    }
    run = {
        str(row): {f"{label:03d}": score for label, score in enumerate(own)} for row, own in enumerate(scores.tolist())
    }
    asked = {"map", "recip_rank", "Rprec", "ndcg", "P.1,5", "recall.1,5", "success.1,5", "map_cut.5", "ndcg_cut.5"}
    found = peer.RelevanceEvaluator(qrels, asked, relevance_level=level).evaluate(run)
    return {measure: [found[query][measure] for query in qrels] for measure in found["0"]}


MEASURES = [
    *((f"P_{k}", "PrecisionAtK", {"k": k, "denominator": "k"}) for k in (1, 5)),
    *((f"recall_{k}", "RecallAtK", {"k": k}) for k in (1, 5)),
    *((f"success_{k}", "HitRateAtK", {"k": k}) for k in (1, 5)),
    ("map_cut_5", "MAP", {"k": 5}),
    ("map", "MAP", {}),
    ("recip_rank", "MRR", {}),
    ("Rprec", "RPrecision", {}),
    ("ndcg_cut_5", "NDCGAtK", {"k": 5}),
    ("ndcg", "NDCGAtK", {"k": None}),
]


@pytest.mark.parametrize("level", [1, 2, 3, 4])
@pytest.mark.parametrize(("measure", "name", "given"), MEASURES)
def test_pytrec_eval_at_a_relevance_level(measure: str, name: str, given: dict[str, Any], level: int) -> None:
    """Every measure at levels 1 to 4, rows without a label of the level included; nDCG is the same at every level."""
    scores, gains = graded(1)
    expected = trec_eval(gains, scores, level)[measure]
    metric = getattr(tailmetrics, name)(min_gain=level, **given)
    found = float(fed(metric, scores.float(), gains).compute())
    assert found == pytest.approx(sum(expected) / len(expected), rel=0, abs=1e-9)


@pytest.mark.parametrize(
    ("name", "given", "level", "wanted"),
    [
        ("PrecisionAtK", {"k": 2}, 1, 1.0),
        ("PrecisionAtK", {"k": 2}, 2, 0.5),
        ("PrecisionAtK", {"k": 2}, 3, 0.0),
        ("RecallAtK", {"k": 3}, 1, 2 / 3),
        ("RecallAtK", {"k": 3}, 2, 0.5),
        ("MAP", {}, 1, 0.9166666666666666),
        ("MAP", {}, 2, 0.5),
        ("MAP", {}, 3, 0.25),
        ("MAP", {"k": 3}, 2, 0.25),
        ("MRR", {}, 2, 0.5),
        ("MRR", {}, 3, 0.25),
        ("RPrecision", {}, 1, 2 / 3),
        ("RPrecision", {}, 2, 0.5),
        ("RPrecision", {}, 3, 0.0),
        ("HitRateAtK", {"k": 1}, 2, 0.0),
        ("HitRateAtK", {"k": 2}, 2, 1.0),
        ("NDCGAtK", {"k": 2}, 1, 0.5307212739772434),
        ("NDCGAtK", {"k": 2}, 3, 0.5307212739772434),
        ("NDCGAtK", {"k": None}, 2, 0.7463238207746714),
    ],
)
def test_golden_values_of_trec_eval(name: str, given: dict[str, Any], level: int, wanted: float) -> None:
    """Grades 1 2 0 3 in the order shown: what trec_eval prints with -l1, -l2 and -l3."""
    metric = getattr(tailmetrics, name)(min_gain=level, **given)
    metric.update(torch.tensor([[0, 1, 3, 2]]), torch.tensor([[1.0, 2.0, 3.0, 0.0]]))
    assert float(metric.compute()) == pytest.approx(wanted, rel=0, abs=1e-12)


# --- the law: a level is a target with less in it


@pytest.mark.parametrize("way", WAYS, ids=["overall", "deciles", "global"])
@pytest.mark.parametrize(("name", "given"), [*ASKING, *ASKING_NEW])
def test_a_level_is_the_target_rewritten(name: str, given: dict[str, Any], way: dict[str, Any]) -> None:
    """The bits of the metric without a level on the multi-hot target ``gains >= 2``."""
    scores, gains = graded(2)
    if "scope" in way and name in WITHOUT_SCOPE:
        way = {"buckets": way["buckets"]}
    found = fed(made(name, given, min_gain=2, **way), scores, gains).compute()
    assert bits(found) == bits(fed(made(name, given, **way), scores, gains >= 2).compute())


@pytest.mark.parametrize("name", ["CGAtK", "DCGAtK", "NDCGAtK"])
@pytest.mark.parametrize("way", WAYS, ids=["overall", "deciles", "global"])
def test_cumulative_gain_keeps_the_gains(name: str, way: dict[str, Any]) -> None:
    """With a level or without, the same bits."""
    scores, gains = graded(3)
    for gain in ("linear", "exponential"):
        plain, levelled = (made(name, {"k": 5, "gain": gain}, **more, **way) for more in ({}, {"min_gain": 2}))
        assert bits(fed(levelled, scores, gains).compute()) == bits(fed(plain, scores, gains).compute())


@pytest.mark.parametrize("level", [0.5, 1, 1.5, 2, 2.5, 4, 5])
def test_any_positive_level(level: float) -> None:
    """At least the level: a gain equal to it is relevant, whatever the type of the target."""
    scores, gains = graded(4)
    wanted = bits(fed(tailmetrics.MAP(k=5), scores, gains / 2 >= level).compute())
    for target in (gains / 2, (gains / 2).half(), csr(gains / 2, gains > 0)):
        assert bits(fed(tailmetrics.MAP(k=5, min_gain=level), scores, target).compute()) == wanted


@pytest.mark.parametrize(
    ("name", "given", "key"),
    [
        ("RecallAtK", {"k": 10}, "recall_min2@10"),
        ("MRR", {}, "mrr_min2"),
        ("MAP", {"k": 3}, "map_min2@3"),
        ("RPrecision", {}, "r_precision_min2"),
        ("F1AtK", {"k": 5, "average": "micro"}, "micro_f1_min2@5"),
        ("F1AtThreshold", {}, "micro_f1_min2@t0.5"),
        ("RowAUC", {}, "row_auc_min2"),
    ],
)
def test_keys(name: str, given: dict[str, Any], key: str) -> None:
    """The level stands behind the stem."""
    assert list(fed(made(name, given, min_gain=2), *graded(6)).scalars()) == [key]


def test_keys_of_levels_by_bucket_and_of_other_levels() -> None:
    """recall_min1.5@5/head; without a level the key is as ever."""
    metric = fed(tailmetrics.RecallAtK(k=5, min_gain=1.5, buckets=THREE), *graded(7))
    assert list(metric.scalars()) == [f"recall_min1.5@5/{name}" for name in ("head", "body", "tail")]
    assert list(fed(tailmetrics.RecallAtK(k=5), *graded(7)).scalars()) == ["recall@5"]


@pytest.mark.parametrize("level", [0, -1, float("nan"), float("inf"), "2", True])
def test_wrong_levels_are_refused(level: Any) -> None:
    """A level of 0 would make everything relevant; the error names min_gain."""
    with pytest.raises((TypeError, ValueError), match="min_gain"):
        tailmetrics.RecallAtK(k=5, min_gain=level)
