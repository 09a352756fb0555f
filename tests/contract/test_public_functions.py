"""Each public function by one quick call whose value can be redone by hand; whoever adds one adds a line here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import exp, log, log2
from typing import Any

import pytest
import torch
from torch import distributed

import tailmetrics
from tailmetrics import LabelBuckets, LabelFrequency, Ranking, TopKCollection, functional, rank
from tailmetrics.metrics import REGISTRY

SCORES = torch.tensor([[0.4, 0.3, 0.2, 0.1]])
TARGET = torch.tensor([[1, 3]])
RANKING = rank(SCORES, TARGET)
"""Hits at the ranks 2 and 4 of four."""
SHOWN, COUNTS = torch.tensor([2, 1, 1, 0]), torch.tensor([8, 4, 2, 1])
D2, D4 = 1 / log2(3), 1 / log2(5)

FORMULAS: dict[str, tuple[Callable[[], Any], float]] = {
    "average_precision": (lambda: functional.average_precision(RANKING), (1 / 2 + 2 / 4) / 2),
    "catalog_coverage": (lambda: functional.catalog_coverage(SHOWN), 3 / 4),
    "cg_at_k": (lambda: functional.cg_at_k(RANKING, 2), 1.0),
    "cross_entropy": (
        lambda: functional.cross_entropy(SCORES, torch.tensor([0])),
        log(1 + exp(-0.1) + exp(-0.2) + exp(-0.3)),
    ),
    "dcg_at_k": (lambda: functional.dcg_at_k(RANKING, 4), D2 + D4),
    "entropy": (lambda: functional.entropy(SHOWN), 1.5 * log(2)),
    "err_at_k": (lambda: functional.err_at_k(RANKING, 2, 1.0), 1 / 4),
    "f1_at_k": (lambda: functional.f1_at_k(RANKING, 2), 1 / 2),
    "f_beta_at_k": (lambda: functional.f_beta_at_k(RANKING, 1), 0.0),
    "fall_out_at_k": (lambda: functional.fall_out_at_k(RANKING, 1), 1 / 2),
    "gini": (lambda: functional.gini(torch.tensor([1, 1])), 0.0),
    "hit_rate_at_k": (lambda: functional.hit_rate_at_k(RANKING, 2), 1.0),
    "ideal_dcg_at_k": (lambda: functional.ideal_dcg_at_k(RANKING, 4), 1 + D2),
    "inverse_propensities": (
        lambda: functional.inverse_propensities(torch.tensor([0]), 3),
        1 + (log(3) - 1) * (2.5 / 1.5) ** 0.55,
    ),
    "k_for_recall": (lambda: functional.k_for_recall(RANKING, 0.5), 2.0),
    "ndcg_at_k": (lambda: functional.ndcg_at_k(RANKING, 2), D2 / (1 + D2)),
    "normalized_recall_at_k": (lambda: functional.normalized_recall_at_k(RANKING, 1), 0.0),
    "novelty": (lambda: functional.novelty(SHOWN, COUNTS, 8), (2 * 0 + 1 + 2) / 4),
    "personalization": (lambda: functional.personalization(torch.tensor([2, 1, 1]), 2, 2), 1 / 2),
    "popularity": (lambda: functional.popularity(SHOWN, COUNTS), (2 * 8 + 4 + 2) / 4),
    "precision_at_k": (lambda: functional.precision_at_k(RANKING, 2), 1 / 2),
    "propensity_scored_ndcg_at_k": (
        lambda: functional.propensity_scored_ndcg_at_k(RANKING, 2, torch.ones(4)),
        D2 / (1 + D2),
    ),
    "propensity_scored_precision_at_k": (
        lambda: functional.propensity_scored_precision_at_k(RANKING, 2, torch.full((4,), 3.0)),
        1 / 2,
    ),
    "propensity_scored_recall_at_k": (
        lambda: functional.propensity_scored_recall_at_k(RANKING, 2, torch.full((4,), 3.0)),
        1 / 2,
    ),
    "r_precision": (lambda: functional.r_precision(RANKING), 1 / 2),
    "rbp_at_k": (lambda: functional.rbp_at_k(RANKING, 2, 0.5), 0.5 * 0.5),
    "recall_at_k": (lambda: functional.recall_at_k(RANKING, 2), 1 / 2),
    "reciprocal_rank": (lambda: functional.reciprocal_rank(RANKING), 1 / 2),
    "relevance_at_k": (lambda: functional.relevance_at_k(RANKING, 2), 1.0),
}


@pytest.mark.parametrize("name", sorted(functional.__all__))
def test_every_formula_by_hand(name: str) -> None:
    """One row of four labels, the second and the fourth of them relevant."""
    call, wanted = FORMULAS[name]
    found = call()
    if isinstance(found, tuple):  # what a row adds above and below the line of a ratio
        found = found[0] / found[1]
    assert float(found) == pytest.approx(wanted, abs=1e-6)


SCORED = torch.tensor([[4.0, 3.0, 2.0, 1.0]])
SURE, UNSURE = torch.tensor([[50.0, -50.0], [50.0, -50.0]], dtype=torch.float64), torch.zeros(2, 2)
NOBODY = torch.tensor([-1, -1, -1])
METRICS: list[tuple[str, dict[str, Any], Any, Any, float]] = [
    ("RowAUC", {}, torch.tensor([[0.9, 0.5, 0.4]]), torch.tensor([[True, False, True]]), 1 / 2),
    ("RowAUC", {}, torch.tensor([[0.5, 0.5, 0.0]]), torch.tensor([[True, False, False]]), 3 / 4),
    ("CoverageError", {}, SCORED, torch.tensor([[0, 2]]), 3),
    ("CoverageError", {}, SCORED * 0, torch.tensor([[0, 2]]), 4),
    ("RankingLoss", {}, SCORED, torch.tensor([[0, 2]]), 1 / 4),
    ("RankingLoss", {}, SCORED * 0, torch.tensor([[0, 2]]), 1),
    ("RBPAtK", {"k": 5}, torch.arange(10)[None], torch.tensor([[0, 2]]), 0.2 * (1 + 0.8**2)),
    ("RBPAtK", {"k": 10}, torch.arange(10)[None], torch.arange(10)[None], 1 - 0.8**10),
    (
        "ERRAtK",
        {"k": 3, "max_gain": 4},
        torch.tensor([[0, 1, 2]]),
        torch.tensor([[3.0, 2.0, 4.0]]),
        7 / 16 + 9 / 16 * 3 / 16 / 2 + 9 / 16 * 13 / 16 * 15 / 16 / 3,
    ),
    ("ERRAtK", {"k": 5}, torch.tensor([[0, 1, 2]]), torch.tensor([[0, 1]]), 1 / 2 + 1 / 8),
    ("PersonalizationAtK", {"k": 2, "num_labels": 6}, torch.tensor([[0, 1]] * 3), NOBODY, 0),
    ("PersonalizationAtK", {"k": 2, "num_labels": 6}, torch.tensor([[0, 1], [2, 3], [4, 5]]), NOBODY, 1),
    ("PersonalizationAtK", {"k": 2, "num_labels": 6}, torch.tensor([[0, 1], [0, 2], [0, 3]]), NOBODY, 1 / 2),
    ("CalibrationErrorAtK", {}, SURE, torch.tensor([0, 0]), 0),
    ("CalibrationErrorAtK", {}, SURE, torch.tensor([1, 1]), 1),
    ("CalibrationErrorAtK", {}, UNSURE, torch.tensor([0, 1]), 0),
    ("CalibrationErrorAtK", {}, UNSURE, torch.tensor([0, 0]), 1 / 2),
    ("PopularityLiftAtK", {"k": 1, "label_counts": [90, 1]}, torch.tensor([[0]]), torch.tensor([1]), 90),
    (
        "LabelAUC",
        {"num_labels": 1},
        torch.tensor([[2.0], [2.0], [1.0]]),
        torch.tensor([[True], [False], [False]]),
        3 / 4,
    ),
    (
        "LabelAP",
        {"num_labels": 1},
        torch.tensor([[2.0], [2.0], [1.0]]),
        torch.tensor([[True], [False], [False]]),
        1 / 2,
    ),
    ("MAP", {"duplicates": "first"}, torch.tensor([[3, 3, 5]]), torch.tensor([[3, 5]]), (1 + 2 / 3) / 2),
    ("NDCGAtK", {"k": 3, "duplicates": "first"}, torch.tensor([[3, 3, 5]]), torch.tensor([[3, 5]]), 1.5 / (1 + D2)),
]


@pytest.mark.parametrize(("name", "given", "preds", "target", "wanted"), METRICS, ids=range(len(METRICS)))
def test_further_metrics_by_hand(name: str, given: dict[str, Any], preds: Any, target: Any, wanted: float) -> None:
    """Those that have no formula of a row, and those that grade it."""
    metric = REGISTRY[name](**given)
    metric.update(preds, target)
    assert float(metric.compute()) == pytest.approx(wanted, abs=1e-12)


@pytest.fixture
def one_process(tmp_path: Any) -> Iterator[None]:
    """A process group of this process alone."""
    if not distributed.is_available():  # some builds have none
        pytest.skip("no torch.distributed")
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


RANKINGS: dict[str, Callable[[], Ranking]] = {
    "rank": lambda: rank(SCORES, TARGET),
    "rank_chunks": lambda: tailmetrics.rank_chunks(SCORES.split(2, dim=1), TARGET, num_labels=4),
    "rank_shards": lambda: tailmetrics.rank_shards(SCORES, 0, TARGET, num_labels=4),
    "from_scores": lambda: Ranking.from_scores(SCORES, target_ids=TARGET),
    "from_ids": lambda: Ranking.from_ids(torch.tensor([[0, 1, 2, 3]]), target_ids=TARGET),
    "from_flat": lambda: Ranking.from_flat(
        SCORES[0], torch.tensor([0, 1, 0, 1]), torch.zeros(4).long(), torch.arange(4)
    ),
    "from_shards": lambda: Ranking.from_shards([(SCORES, torch.arange(4)[None])], target_ids=TARGET, complete=True),
}


@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize("name", RANKINGS)
def test_every_way_to_a_ranking(name: str) -> None:
    """All labels in their order, with hits at the ranks 2 and 4."""
    ranking = RANKINGS[name]()
    assert ranking.ids.tolist() == [[0, 1, 2, 3]]
    assert ranking.target_ranks[0, :2].tolist() == [2, 4]
    assert float(functional.reciprocal_rank(ranking)) == 1 / 2


OTHERS: dict[str, Callable[[], bool]] = {
    "LabelBuckets": lambda: LabelBuckets.thresholds([5, 1], [2]).assignment.tolist() == [0, 1],
    "LabelFrequency": lambda: LabelFrequency.from_counts([5, 1], 6).compute().tolist() == [5, 1],
    "TopKCollection": lambda: len(TopKCollection([tailmetrics.MRR(), tailmetrics.MAP()]).keys()) == 2,
    "evaluate": lambda: "recall@1" in str(tailmetrics.evaluate(SCORES, TARGET, metrics=[tailmetrics.RecallAtK(k=1)])),
}
"""Public classes and functions that are neither metrics nor ways to a ranking."""


@pytest.mark.parametrize("name", OTHERS)
def test_every_other_name_does_what_it_is_for(name: str) -> None:
    """Buckets, counts, collections and reports."""
    assert OTHERS[name]()


def test_no_public_name_is_forgotten() -> None:
    """Those of the package, of functional, and the class methods that make a ranking."""
    bases = {"RatioMetric", "RowMeanMetric", "TopKMetric"}
    known = {*REGISTRY, *RANKINGS, *OTHERS, *bases, "Ranking", "functional"}
    assert set(tailmetrics.__all__) <= known, set(tailmetrics.__all__) - known
    assert FORMULAS.keys() == set(functional.__all__)
    assert {name for name in vars(Ranking) if name.startswith("from_")} <= RANKINGS.keys()
