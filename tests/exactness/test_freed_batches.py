"""What an update makes is freed when the update ends.

What refers to itself stays until Python looks for such circles, which may be a hundred batches later: dense targets of
1024 × 131,072 would by then hold 13 GB. The tests look for circles themselves, and find none.
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
    """Let Python look for circles only where a test says so, and never again among what is there already."""
    gc.collect()
    gc.freeze()
    gc.disable()
    yield
    gc.enable()


def circles() -> Counter[str]:
    """Return of which types are the objects that only one another refer to, and free them."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    gc.set_debug(0)
    types = Counter(type(value).__name__ for value in gc.garbage)
    gc.garbage.clear()
    gc.collect()
    return types


def test_a_circle_is_seen() -> None:
    """A list in itself, and a tensor in it."""
    circles()
    circle: list[object] = [torch.zeros(1)]
    circle.append(circle)
    del circle
    assert circles() == {"list": 1, "Tensor": 1}


@every_feed
@pytest.mark.slow
def test_an_update_leaves_no_circle(name: str) -> None:
    """Every metric, in every form of preds and target; the first batch makes tables that stay."""
    metrics = [case.metric() for case in cases_of(name)]
    for plain in (False, True):
        for metric in metrics:
            metric.update(*FEEDS[name](OTHER))
        circles()
        with force_plain() if plain else nullcontext():
            for metric in metrics:
                metric.update(*FEEDS[name](BATCH))
        assert circles() == {}


@pytest.mark.slow
def test_a_collection_leaves_no_circle() -> None:
    """One ranking for many metrics, and their values of the batch."""
    collection = TopKCollection({str(number): case.metric() for number, case in enumerate(CASES_OF_A_KIND[::4])})
    for batch in (OTHER, BATCH):
        circles()
        collection(batch.scores, batch.target)
    assert circles() == {}


@pytest.mark.parametrize("num_hits", [2, 9], ids=["few lists", "most lists"])
def test_rows_without_a_hit_leave_no_circle(num_hits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether they are left out or not: what stands for the others, or for all of them, does not hold the batch."""
    monkeypatch.setattr("tailmetrics.metrics._aggregations.MANY_ROWS", 1)
    lists, target = torch.arange(5).expand(10, 5).clone(), torch.tensor([[3]] * num_hits + [[7]] * (10 - num_hits))
    metrics = TopKCollection([RecallAtK(4), NDCGAtK(4), MRR()])
    metrics.update(lists, target)
    circles()
    metrics.update(lists, target)
    assert circles() == {}
