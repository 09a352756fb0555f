"""What an update makes is freed when the update ends.

What refers to itself stays until Python looks for such circles, which may be a hundred batches later: dense targets of
1024 × 131,072 would by then hold 13 GB. The tests look for circles themselves, and find none.
"""

from __future__ import annotations

import gc
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from exactness.bits import CASES_OF_A_KIND
from exactness.test_plain_path import BATCH, FEEDS, OTHER, cases_of, every_feed
from tailmetrics import TopKCollection
from tailmetrics.ranking._device import force_plain


@pytest.fixture(autouse=True)
def gc_by_hand() -> Iterator[None]:
    """Let Python look for circles only where a test says so, and only among what is made from now on."""
    gc.collect()
    gc.freeze()
    gc.disable()
    yield
    gc.unfreeze()
    gc.enable()


def circles() -> Counter[str]:
    """Return of which types are the objects that only one another refer to, and free them."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    gc.set_debug(0)
    found = Counter(type(one).__name__ for one in gc.garbage)
    gc.garbage.clear()
    gc.collect()
    return found


def test_a_circle_is_seen() -> None:
    """A list in itself, and a tensor in it."""
    circles()
    one: list[object] = [torch.zeros(1)]
    one.append(one)
    del one
    assert circles() == {"list": 1, "Tensor": 1}


@every_feed
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


def test_a_collection_leaves_no_circle() -> None:
    """One ranking for many metrics, and their values of the batch."""
    collection = TopKCollection({str(number): case.metric() for number, case in enumerate(CASES_OF_A_KIND[::4])})
    for batch in (OTHER, BATCH):
        circles()
        collection(batch.scores, batch.target)
    assert circles() == {}


PAGES = """
import resource, statistics, torch
from benchmarks.ours import query_metrics
torch.set_num_threads(1)
ids = torch.rand(20_000, 200).topk(100).indices
target = ids[:, 3:90:20].contiguous()
metrics, taken = query_metrics(), []
for _ in range(9):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    metrics.update(ids, target)
    taken.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(taken[0], statistics.median(taken[1:]))
"""


@pytest.mark.slow
def test_a_fresh_process_takes_memory_once() -> None:
    """The first update of 20,000 lists takes over a thousand pages of 4 KB from the system, the next ones hardly any."""
    root = Path(__file__).parents[2]
    run = subprocess.run([sys.executable, "-c", PAGES], cwd=root, capture_output=True, text=True, check=True)
    first, later = map(float, run.stdout.split())
    assert first > 1000
    assert later < first / 10
