"""From torch 2.13 on, formulas compile into one graph, for a ranking and for its part
by bucket.
"""

import inspect
import operator
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from lightning_utilities.core.imports import RequirementCache

from cases import BUCKETS, NUM_TRAIN, TREE, data, training_counts
from tailmetrics import NDCGAtK, TopKCollection, functional, rank

pytestmark = pytest.mark.skipif(
    not RequirementCache("torch>=2.13"), reason="older versions break the graph"
)

WEIGHTS = functional.inverse_propensities(training_counts(), NUM_TRAIN)
BATCH = data(seed=91, num_rows=13, graded=True)
NOT_PER_ROW = {
    "catalog_coverage",
    "entropy",
    "gini",
    "inverse_popularity",
    "inverse_propensities",
    "novelty",
    "personalization",
    "popularity",
}
"""Functions of counts per label, which return a number."""
ARGUMENTS = {
    "k": 5,
    "min_recall": 0.8,
    "max_gain": 4.0,
    "weights": WEIGHTS,
    "gain": "exponential",
    "denominator": "attainable",
    "tree": TREE,
}
"""Arguments of formulas."""


def formula(name: str) -> Callable[[Any], Any]:
    """Return a function of the library that takes a ranking alone."""
    function = getattr(functional, name)
    parameters = inspect.signature(function).parameters
    arguments = {
        key: value
        for key, value in ARGUMENTS.items()
        if key in parameters and (key != "denominator" or "average" in name)
    }
    return lambda ranking: function(ranking, **arguments)


PER_ROW = (
    {name for name in vars(functional) if not name.startswith("_")}
    - NOT_PER_ROW
    - {"cross_entropy"}
)
FORMULAS = {name: formula(name) for name in sorted(PER_ROW)}


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Forget compiled code before and after."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def assert_same_bits(value: Any, expected: Any) -> None:
    """Assert that two tensors, or two pairs of tensors, have the same bits."""
    for part, expected_part in zip(
        value if isinstance(value, tuple) else [value],
        expected if isinstance(expected, tuple) else [expected],
        strict=True,
    ):
        torch.testing.assert_close(part, expected_part, rtol=0, atol=0, equal_nan=True)


BACKENDS = {
    "recall_at_k": "aot_eager",
    "ndcg_at_k": "aot_eager",
    "average_precision": "eager",
}
"""Formulas that are compiled alone, two of them down to the operations of torch."""


@pytest.mark.slow
@pytest.mark.parametrize("name", [*BACKENDS, "all others"])
def test_formulas_compile_without_a_graph_break(name: str) -> None:
    """Formulas compile without a graph break and give the bits of eager execution, some
    alone and all others in one function. They read gains overall, and no gains by
    bucket.
    """
    names = [name] if name in BACKENDS else sorted(FORMULAS.keys() - BACKENDS.keys())
    compiled = torch.compile(
        lambda ranking: [FORMULAS[name](ranking) for name in names],
        fullgraph=True,
        backend=BACKENDS.get(name, "eager"),
    )
    for graded, bucketed in ((True, False), (False, True)):
        ranking, expected = (
            rank(BATCH.scores, BATCH.target if graded else BATCH.target > 0)
            for _ in range(2)
        )
        if bucketed:
            ranking, expected = ranking.by_bucket(BUCKETS), expected.by_bucket(BUCKETS)
        for name, value in zip(names, compiled(ranking), strict=True):
            assert_same_bits(value, FORMULAS[name](expected))


@pytest.mark.parametrize(("graded", "bucketed"), [(True, True), (False, False)])
def test_ndcg_compiles_with_gains_by_bucket_and_without_gains_overall(
    graded: bool, bucketed: bool
) -> None:
    """nDCG, which reads the most of a ranking, compiles with gains by bucket and
    without gains overall, to the bits of eager execution.
    """
    ranking, expected = (
        rank(BATCH.scores, BATCH.target if graded else BATCH.target > 0)
        for _ in range(2)
    )
    if bucketed:
        ranking, expected = ranking.by_bucket(BUCKETS), expected.by_bucket(BUCKETS)
    compiled = torch.compile(FORMULAS["ndcg_at_k"], fullgraph=True, backend="eager")
    assert_same_bits(compiled(ranking), FORMULAS["ndcg_at_k"](expected))


@pytest.mark.parametrize("buckets", [None, BUCKETS], ids=["overall", "by bucket"])
def test_cross_entropy_compiles_without_a_graph_break(buckets: Any) -> None:
    """cross_entropy, the one formula that reads scores, compiles without a graph break,
    to the bits of eager mode.
    """
    compiled = torch.compile(functional.cross_entropy, fullgraph=True, backend="eager")
    expected = functional.cross_entropy(rank(BATCH.scores, BATCH.target), buckets)
    assert_same_bits(compiled(rank(BATCH.scores, BATCH.target), buckets), expected)


@pytest.mark.parametrize("name", ["recall_at_k", "ndcg_at_k", "hit_rate_at_k"])
def test_formulas_of_arrays_run_in_compiled_code(name: str) -> None:
    """A formula of predictions and targets has the same values in compiled code, where
    it may break the graph.
    """
    function = getattr(functional, name)
    scores = torch.arange(12.0).reshape(3, 4)
    target = torch.tensor(
        [
            [True, False, False, True],
            [False, True, False, False],
            [False, False, True, True],
        ]
    )

    compiled = torch.compile(
        lambda preds, target: function(preds, target, k=2), backend="eager"
    )

    assert torch.equal(compiled(scores, target), function(scores, target, k=2))


def test_ranking_used_by_compiled_code_can_be_used_again() -> None:
    """A ranking that compiled code has used gives every formula the bits that an unused
    ranking gives.
    """
    ranking, unused_ranking = (
        rank(BATCH.scores, BATCH.target),
        rank(BATCH.scores, BATCH.target),
    )
    torch.compile(FORMULAS["ndcg_at_k"], fullgraph=True, backend="eager")(ranking)
    for formula in FORMULAS.values():
        assert_same_bits(formula(ranking), formula(unused_ranking))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_training_step_with_a_metric_compiles_and_counts_right(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A compiled training step updates a collection by bucket and a metric in two
    batches with the bits of eager execution, and torch prints no message.
    """
    collection, metric = (
        TopKCollection([NDCGAtK(k=[1, 3], buckets=BUCKETS)]),
        NDCGAtK(k=2),
    )
    eager, alone = collection.clone(), metric.clone()

    def step(scores: torch.Tensor) -> torch.Tensor:
        scores = scores * 2
        collection.update(scores, BATCH.target)
        metric.update(scores, BATCH.target)
        return scores.sum()

    compiled = torch.compile(step, backend="eager")
    for _ in range(2):
        compiled(BATCH.scores)
        eager.update(BATCH.scores * 2, BATCH.target)
        alone.update(BATCH.scores * 2, BATCH.target)
    assert (capfd.readouterr().err, float(metric.compute())) == (
        "",
        float(alone.compute()),
    )
    torch.testing.assert_close(
        collection.compute(), eager.compute(), rtol=0, atol=0, equal_nan=True
    )


def test_a_compiled_step_calls_forward_and_compute_outside_of_its_graph(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A compiled step that calls a metric and a new collection with references has the
    values of eager execution. Torch traces the rest of the step alone, and prints no
    message.
    """

    def make_collection() -> TopKCollection:
        return TopKCollection([NDCGAtK(k=3, buckets=BUCKETS)], references=["chance"])

    collection, eager, metric = make_collection(), make_collection(), NDCGAtK(k=2)

    def step(scores: torch.Tensor) -> tuple[Any, ...]:
        scores = scores * 2
        values = collection(scores, BATCH.target)
        value = metric(scores, BATCH.target)
        return values, value, collection.compute(), metric.compute()

    traced: list[Any] = []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        for node in graph.graph.nodes:
            if node.op.startswith("call"):
                traced.append(node.target)
        return graph.forward

    torch.compiler.reset()
    compiled_step = torch.compile(step, backend=backend)
    values, value, all_values, mean = compiled_step(BATCH.scores)
    assert str(values) == str(eager(BATCH.scores * 2, BATCH.target))
    assert str(all_values) == str(eager.compute())
    assert float(mean) == float(metric.compute())
    assert str(collection.references()) == str(eager.references())
    assert float(value) == float(metric.compute())
    assert traced == [operator.mul]
    assert capfd.readouterr().err == ""
