"""The formulas compile into one graph, from a ranking as from its part by bucket."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from cases import BUCKETS, FEW, NUM_TRAIN, data, training_counts
from tailmetrics import TopKCollection, functional, rank

WEIGHTS = functional.inverse_propensities(training_counts(), NUM_TRAIN)
BATCH = data(seed=91, num_rows=13, graded=True)
NOT_PER_ROW = {
    "catalog_coverage",
    "entropy",
    "gini",
    "inverse_propensities",
    "novelty",
    "personalization",
    "popularity",
}
"""Functions of counts per label, which return a number."""
GIVEN = {
    "k": 5,
    "min_recall": 0.8,
    "max_gain": 4.0,
    "weights": WEIGHTS,
    "gain": "exponential",
    "denominator": "attainable",
}
"""What a formula is given of its arguments, where it has them."""


def formula(name: str) -> Callable[[Any], Any]:
    """A function of the library, of a ranking alone."""
    function = getattr(functional, name)
    known = inspect.signature(function).parameters
    given = {key: value for key, value in GIVEN.items() if key in known and (key != "denominator" or "average" in name)}
    return lambda ranking: function(ranking, **given)


PER_ROW = {name for name in vars(functional) if not name.startswith("_")} - NOT_PER_ROW - {"cross_entropy"}
FORMULAS = {name: formula(name) for name in sorted(PER_ROW)}


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Forget compiled code before and after."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def assert_same_bits(found: Any, wanted: Any) -> None:
    """One tensor or a pair."""
    for one, other in zip(
        found if isinstance(found, tuple) else [found], wanted if isinstance(wanted, tuple) else [wanted], strict=True
    ):
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


GRADED = {name for name in FORMULAS if re.search("cg_at_k|err_at_k|propensity", name)}
"""Formulas that read gains or weights; the others read hits alone."""
QUICK = ("recall_at_k", "ndcg_at_k", "average_precision")


@pytest.mark.parametrize(
    ("name", "graded"),
    [
        pytest.param(name, graded, marks=() if name in QUICK else pytest.mark.slow, id=f"{name}-{graded}")
        for name in FORMULAS
        for graded in ((False, True) if name in GRADED else (False,))
    ],
)
@pytest.mark.slow
def test_a_formula_compiles_without_a_graph_break(name: str, graded: bool) -> None:
    """On a ranking nobody has read yet, and by bucket, with the bits of eager execution."""
    target = BATCH.target if graded else BATCH.target > 0
    formula = FORMULAS[name]
    compiled = torch.compile(formula, fullgraph=True, backend="aot_eager")
    assert_same_bits(compiled(rank(BATCH.scores, target)), formula(rank(BATCH.scores, target)))
    assert_same_bits(
        compiled(rank(BATCH.scores, target).by_bucket(BUCKETS)), formula(rank(BATCH.scores, target).by_bucket(BUCKETS))
    )


@pytest.mark.parametrize("buckets", [None, BUCKETS], ids=["overall", "by bucket"])
def test_cross_entropy_compiles_without_a_graph_break(buckets: Any) -> None:
    """The one formula that reads scores."""
    compiled = torch.compile(functional.cross_entropy, fullgraph=True, backend="eager")
    wanted = functional.cross_entropy(rank(BATCH.scores, BATCH.target), buckets)
    assert_same_bits(compiled(rank(BATCH.scores, BATCH.target), buckets), wanted)


def test_a_ranking_read_by_compiled_code_can_be_read_on() -> None:
    """What tracing leaves in the ranking is what eager code would have left there."""
    ranking, other = rank(BATCH.scores, BATCH.target), rank(BATCH.scores, BATCH.target)
    torch.compile(FORMULAS["ndcg_at_k"], fullgraph=True, backend="eager")(ranking)
    for formula in FORMULAS.values():
        assert_same_bits(formula(ranking), formula(other))


READ_GAINS = ("NDCGAtK", "ERRAtK", "RBPAtK", "PropensityScoredNDCGAtK")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("by", "batches"), [(None, 1), ("bucket", 2)])
def test_a_training_step_with_every_class_compiles_and_counts_right(by: str | None, batches: int) -> None:
    """Cold, breaks or not: the bits of eager execution; by bucket those that read gains, again for a second batch."""
    chosen = [case for case in FEW if case.by == by and (by is None or case.name in READ_GAINS)]
    members = {case.name: case.metric() for case in chosen if not case.name.startswith("Label")}
    collection, eager = TopKCollection(members), TopKCollection(members).clone()

    def step(scores: torch.Tensor) -> torch.Tensor:
        scores = scores * 2
        collection.update(scores, BATCH.target)
        return scores.sum()

    compiled = torch.compile(step, backend="aot_eager")
    for _ in range(batches):
        compiled(BATCH.scores)
        eager.update(BATCH.scores * 2, BATCH.target)
    for key, value in eager.compute().items():
        assert_same_bits(collection.compute()[key], value)
