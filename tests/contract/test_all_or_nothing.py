"""A batch is added to every state of every member, or to none, wherever it fails."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from cases import NUM_LABELS, data, registered
from tailmetrics import (
    LabelAUC,
    LabelBuckets,
    LabelFrequency,
    NDCGAtK,
    PropensityScoredPrecisionAtK,
    RecallAtK,
    TopKCollection,
)
from tailmetrics.functional import recall_at_k
from tailmetrics.metrics import REGISTRY, TopKMetric
from tailmetrics.metrics._aggregations import MeanOfRows
from tailmetrics.metrics._formulas import Formula
from tailmetrics.metrics._states import AtCells, InBlocks, PerRow

BATCH = data(seed=3, num_rows=9)


def states(collection: TopKCollection) -> dict[str, Any]:
    """Return every state of every member, and the number of updates."""
    states = {
        f"{name} {state}": value.tolist()
        for name, member in collection.members().items()
        for state, value in member.metric_state.items()
    }
    return states | {
        name: member.update_count for name, member in collection.members().items()
    }


def fail_while_adding(metric: TopKMetric) -> None:
    """Make the increments of a metric fail when they are added: at the end, and block
    by block after the first one.
    """
    aggregation = metric.aggregation
    prepare = aggregation.increments

    def broken(ranking: Any) -> dict[str, Any]:
        increments = dict(prepare(ranking))
        name, last = list(increments.items())[-1]
        if isinstance(last, PerRow):
            increments[name] = PerRow(
                last.values[..., None].expand(*last.values.shape, 3), last.fixed_point
            )
        elif isinstance(last, AtCells):
            increments[name] = AtCells(last.cells.double(), last.amounts, last.rows)
        for name, increment in increments.items():
            if isinstance(increment, InBlocks):
                increments[name] = InBlocks(
                    lambda increment=increment: first_block_and_error(increment)
                )
        return increments

    vars(aggregation)["increments"] = broken


def first_block_and_error(increment: InBlocks) -> Iterator[AtCells]:
    """Yield the first block, and fail."""
    yield next(increment.blocks())
    raise ArithmeticError("the second block")


@pytest.mark.parametrize("name", REGISTRY)
def test_a_member_that_fails_while_it_is_added_changes_nothing(name: str) -> None:
    """If one member of a collection fails while a batch is added, no state of any
    member changes, in update and forward. Later batches are counted as if the failed
    one had never come.
    """
    arguments: dict[str, Any] = {"num_labels": NUM_LABELS}
    first = [
        NDCGAtK(k=4, name="first"),
        RecallAtK(k=2, average="macro", name="second", **arguments),
    ]
    member, last = (
        registered(name, **({"bins": 16} if name.startswith("Label") else {})),
        LabelAUC(name="last", bins=16, **arguments),
    )
    collection = TopKCollection([*first, member, last])
    collection.update(BATCH.scores, BATCH.target)
    before = states(collection)
    fail_while_adding(member)
    with pytest.raises((RuntimeError, ArithmeticError, TypeError)):
        collection.update(BATCH.scores, BATCH.target)
    assert states(collection) == before
    with pytest.raises((RuntimeError, ArithmeticError, TypeError)):
        member.update(BATCH.scores, BATCH.target)
    assert states(collection) == before
    with pytest.raises((RuntimeError, ArithmeticError, TypeError)):
        collection(BATCH.scores, BATCH.target)
    assert states(collection) == before
    del vars(member.aggregation)["increments"]
    collection.update(BATCH.scores, BATCH.target)
    assert states(collection) == {
        key: doubled(value) for key, value in before.items()
    } or "max" in reductions(member)


def doubled(value: Any) -> Any:
    """Return twice a number, or twice each number of a nested list."""
    return [doubled(part) for part in value] if isinstance(value, list) else 2 * value


def reductions(metric: TopKMetric) -> set[str]:
    """Return the reductions of the states of a metric."""
    return {state.reduction for state in metric._declared.values()}


def test_custom_metric_with_cells_beyond_its_state_is_refused() -> None:
    """A custom metric that adds to a cell beyond its state is refused before anything
    is added.
    """

    class Mistaken(MeanOfRows):
        def increments(self, ranking: Any) -> Any:
            rows = torch.arange(ranking.num_rows)
            return {"sum": AtCells(rows + 10**6, torch.ones_like(rows), rows)}

    metric = TopKMetric(1, Formula(recall_at_k), aggregation=Mistaken)
    with pytest.raises(
        ValueError,
        match=r"TopKMetric: a batch adds to the cells 1000000 to .* 'sum', which has cells 0",
    ):
        metric.update(BATCH.scores, BATCH.target)
    assert metric.update_count == 0


def test_custom_metric_may_add_to_no_cell() -> None:
    """A custom metric may add a batch to no cell of its state."""

    class Silent(MeanOfRows):
        def increments(self, ranking: Any) -> Any:
            empty = torch.zeros(0, dtype=torch.int64)
            return {"sum": AtCells(empty, empty, empty)}

    metric = TopKMetric(1, Formula(recall_at_k), aggregation=Silent)
    metric.update(BATCH.scores, BATCH.target)
    assert metric.update_count == 1


def test_failed_bind_binds_no_member() -> None:
    """A bind that fails binds no member of a collection, and a later bind works.

    Counts of no training row are too few for propensities.
    """
    collection = TopKCollection(
        [RecallAtK(1, buckets="deciles"), PropensityScoredPrecisionAtK(1)]
    )
    empty = LabelFrequency(num_labels=2)
    with (
        pytest.warns(UserWarning, match="no rows"),
        pytest.raises(ValueError, match="num_train=0 is too small"),
    ):
        collection.bind(empty)
    assert not any(metric.is_bound for metric in collection.members().values())

    metric = PropensityScoredPrecisionAtK(1)
    with (
        pytest.warns(UserWarning, match="no rows"),
        pytest.raises(ValueError, match="num_train=0 is too small"),
    ):
        metric.bind(empty)
    assert not metric.is_bound
    assert metric.bind(LabelFrequency.from_counts([5, 3], num_rows=8)).is_bound


def test_names_of_buckets_and_groups_that_make_equal_keys_are_refused() -> None:
    """Names of buckets and row groups that give two values one key are refused: the
    group "x" of the bucket "b" has the key of the bucket "x/b".
    """
    buckets = LabelBuckets.from_assignment([0, 1], ["b", "x/b"])
    with pytest.raises(ValueError, match="two values the key that ends in 'x/b'"):
        RecallAtK(k=1, buckets=buckets, row_groups=["x"])
