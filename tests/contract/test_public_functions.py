"""Each public name by one quick call whose value can be redone by hand; formulas and metrics show theirs in their docstrings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import distributed

import tailmetrics
from tailmetrics import LabelBuckets, LabelFrequency, Ranking, TopKCollection, functional, rank
from tailmetrics.metrics import REGISTRY

SCORES = torch.tensor([[0.4, 0.3, 0.2, 0.1]])
TARGET = torch.tensor([[1, 3]])
"""Hits at the ranks 2 and 4 of four."""


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
    assert {name for name in vars(Ranking) if name.startswith("from_")} <= RANKINGS.keys()
