"""The memory of an update is freed when the update ends.

Objects in a reference cycle stay until the garbage collector runs, which may be a
hundred batches later: dense targets of 1024 × 131,072 would take 13 GB by then. The
tests run the collector themselves, and find no cycle.
"""

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext

import pytest
import torch

from exactness.bits import CASES_OF_A_KIND
from exactness.test_plain_path import BATCH, FEEDS, OTHER, cases_of, every_feed
from tailmetrics import MRR, NDCGAtK, RecallAtK, TopKCollection
from tailmetrics.ranking._device import force_plain


@pytest.fixture(autouse=True)
def gc_by_hand() -> Iterator[None]:
    """Run the garbage collector only where a test calls it, and never over objects that
    exist already.
    """
    gc.collect()
    gc.freeze()
    gc.disable()
    yield
    gc.enable()


def cycles() -> Counter[str]:
    """Return the types of objects in reference cycles, and free them."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    gc.set_debug(0)
    types = Counter(type(value).__name__ for value in gc.garbage)
    gc.garbage.clear()
    gc.collect()
    return types


def test_reference_cycles_are_detected() -> None:
    """The detection finds a list in itself, with a tensor in it."""
    cycles()
    cycle: list[object] = [torch.zeros(1)]
    cycle.append(cycle)
    del cycle
    assert cycles() == {"list": 1, "Tensor": 1}


@every_feed
@pytest.mark.slow
def test_update_leaves_no_reference_cycle(name: str) -> None:
    """An update leaves no reference cycle, for every metric and every form of preds and
    target.

    The first batch makes tables that stay.
    """
    metrics = [case.metric() for case in cases_of(name)]
    for plain in (False, True):
        for metric in metrics:
            metric.update(*FEEDS[name](OTHER))
        cycles()
        with force_plain() if plain else nullcontext():
            for metric in metrics:
                metric.update(*FEEDS[name](BATCH))
        assert cycles() == {}


@pytest.mark.slow
def test_collection_leaves_no_reference_cycle() -> None:
    """A call of a collection, with one ranking for many metrics and values of the
    batch, leaves no reference cycle.
    """
    collection = TopKCollection(
        {str(number): case.metric() for number, case in enumerate(CASES_OF_A_KIND[::4])}
    )
    for batch in (OTHER, BATCH):
        cycles()
        collection(batch.scores, batch.target)
    assert cycles() == {}


@pytest.mark.parametrize("num_hits", [2, 9], ids=["few lists", "most lists"])
def test_rows_without_a_hit_leave_no_reference_cycle(
    num_hits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows without a hit, left out or not, leave no reference cycle."""
    monkeypatch.setattr("tailmetrics.metrics._aggregations.MANY_ROWS", 1)
    lists, target = (
        torch.arange(5).expand(10, 5).clone(),
        torch.tensor([[3]] * num_hits + [[7]] * (10 - num_hits)),
    )
    metrics = TopKCollection([RecallAtK(4), NDCGAtK(4), MRR()])
    metrics.update(lists, target)
    cycles()
    metrics.update(lists, target)
    assert cycles() == {}
