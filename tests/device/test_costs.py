"""The cost of an update on a device, counted on torch's meta device, stays below its
limit.
"""

from collections.abc import Iterator
from functools import cache

import pytest
import torch

from benchmarks.costs.__main__ import table
from benchmarks.costs.counting import CountedCosts
from benchmarks.costs.lines import LINES, Line
from benchmarks.ours import token_metrics
from benchmarks.tables import PAGE
from benchmarks.workloads import label_counts
from tailmetrics import LabelBuckets


@pytest.fixture(autouse=True, scope="module")
def counted_once() -> Iterator[None]:
    """Count a line once, for its own test and for that of the page."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Line, "count", cache(Line.count))
        yield


@pytest.mark.parametrize("line", LINES, ids=str)
def test_costs_of_an_update_are_within_limits(line: Line) -> None:
    """Launches, bytes moved and memory of an update are within their limits; it waits
    for nothing and copies nothing between devices.
    """
    costs, waits, copies = line.count()
    assert costs.within(line.most), costs
    assert (waits, copies) == (0, 0)


@pytest.mark.slow
def test_logits_of_a_language_model_are_read_in_blocks() -> None:
    """Accuracy, MRR and perplexity of bfloat16 logits on a CPU take at most 16 MB,
    hardly more for twice the tokens.
    """
    metrics = token_metrics(LabelBuckets.deciles(label_counts(50_257)))
    logits = torch.randn(
        1, 1024, 50_257, generator=torch.Generator().manual_seed(0)
    ).to(torch.bfloat16)
    target = torch.arange(1024).view(1, 1024)
    peaks = []
    for tokens in (512, 1024):
        with CountedCosts("cpu") as costs:
            metrics.update(logits[:, :tokens], target[:, :tokens])
        peaks.append(costs.peak)
    assert peaks[0] <= 16e6
    assert peaks[1] - peaks[0] <= 512 * 1000


@pytest.mark.slow
def test_page_shows_the_current_costs() -> None:
    """The page shows the current costs: ``python -m benchmarks.costs`` was run after
    the last change.
    """
    assert table() in PAGE.read_text()


def test_costs_are_counted_as_by_hand() -> None:
    """Costs are counted as by hand: an addition reads two tensors and writes one, a
    view is free, and memory is that of the tensors alive.
    """
    with CountedCosts() as costs:
        first = torch.zeros(1000, dtype=torch.float32, device="meta")
        second = first + first.view(10, 100).view(-1)
        second = second.sort().values
    assert costs.launches == 1 + 1 + 6
    assert costs.bytes == 4000 + (4000 + 4000 + 4000) + 1000 * (4 + 4 + 8 + 4 + 8)
    assert costs.peak == 4000 + 4000 + (4000 + 8000)
    assert (costs.waits, costs.copies) == (0, 0)


def test_a_wait_and_a_copy_are_counted() -> None:
    """Finding true cells of a mask counts as a wait, and a tensor of a Python list as a
    copy.
    """
    flags = torch.zeros(10, dtype=torch.bool)
    with CountedCosts("cpu") as costs:
        flags.nonzero()
        flags[flags]
        torch.tensor([1, 2])
    assert costs.waits == 2
    assert costs.copies == 1
