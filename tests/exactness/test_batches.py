"""The same rows give the same bits however they are cut into batches, ordered, dealt to ranks, stopped and resumed."""

from collections.abc import Iterator

import pytest
import torch

import tailmetrics
from cases import FEW, Case, Data, data
from exactness.bits import EVERY_KIND, bits, compute_all, differing
from exactness.shared_metrics import metrics_by_case
from tailmetrics import Ranking

ROWS = 67
BATCH = data(seed=11, num_rows=ROWS, graded=True)


def rankings(batch: Data, size: int, order: torch.Tensor | None = None) -> Iterator[Ranking]:
    """The rows in batches of ``size``, in the order given."""
    order = torch.arange(ROWS) if order is None else order
    for rows in order.split(size):
        yield tailmetrics.rank(batch.scores[rows], batch.target[rows])


@pytest.fixture(scope="module")
def wanted() -> list[object]:
    """The bits of all rows in one batch."""
    return compute_all([*metrics_by_case().values()], rankings(BATCH, ROWS))


@pytest.mark.parametrize(("size", "shuffled"), [(7, True), pytest.param(64, False, marks=pytest.mark.slow)])
def test_batch_size_does_not_show(size: int, shuffled: bool, wanted: list[object]) -> None:
    """Graded gains, ties, empty targets and empty lists, in batches of 7 of a shuffling sampler, of 64 and all rows."""
    order = torch.randperm(ROWS, generator=torch.Generator().manual_seed(0)) if shuffled else torch.arange(ROWS)
    results = compute_all([*metrics_by_case().values()], rankings(BATCH, size, order))
    assert differing(EVERY_KIND, results, wanted) == []


@pytest.mark.parametrize("ranks", [pytest.param(2, marks=pytest.mark.slow), 4])
def test_merged_states_are_those_of_one_run(ranks: int, wanted: list[object]) -> None:
    """Rows dealt to ranks unevenly, the last rank without any, merged by ``merge_state`` as a metric and as a dict."""
    rows = [torch.arange(ROWS)[rank :: ranks - 1] for rank in range(ranks - 1)] + [torch.arange(0)]
    parts = [[case.metric() for case in EVERY_KIND] for _ in range(ranks)]
    for part, own in zip(parts, rows, strict=True):
        for ranking in rankings(BATCH, 16, own):
            for metric in part:
                metric.update(ranking)
    for number, part in enumerate(parts[1:]):
        for metric, other in zip(parts[0], part, strict=True):
            metric.merge_state(other if number % 2 else other.metric_state)
    assert differing(EVERY_KIND, [bits(metric) for metric in parts[0]], wanted) == []


@pytest.mark.parametrize("case", [case for case in FEW if case.name in ("NDCGAtK", "PropensityScoredNDCGAtK")], ids=str)
def test_one_crowded_row_among_thousands_takes_nothing_from_the_others(case: Case) -> None:
    """Forms that are chosen by how uneven the rows are give the bits of small even batches."""
    generator = torch.Generator().manual_seed(12)
    scores = torch.randn(4000, 40, generator=generator)
    target = torch.zeros(4000, 40).scatter_(1, torch.randint(40, (4000, 1), generator=generator), 1.5)
    target[1000] = torch.rand(40, generator=generator)
    at_once, pieces = case.metric(), case.metric()
    at_once.update(scores, target)
    for rows in torch.arange(4000).split(500):
        pieces.update(scores[rows], target[rows])
    assert bits(at_once) == bits(pieces)
