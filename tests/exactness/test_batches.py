"""The same rows have the same bits in any batches, in any order, and merged from any
ranks.
"""

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


def rankings(
    batch: Data, size: int, order: torch.Tensor | None = None
) -> Iterator[Ranking]:
    """Yield the rows in batches of ``size``, in this order."""
    order = torch.arange(ROWS) if order is None else order
    for rows in order.split(size):
        yield tailmetrics.rank(batch.scores[rows], batch.target[rows])


@pytest.fixture(scope="module")
def expected() -> list[object]:
    """Return the bits of all rows in one batch."""
    return compute_all([*metrics_by_case().values()], rankings(BATCH, ROWS))


@pytest.mark.parametrize(
    ("size", "shuffled"), [(7, True), pytest.param(64, False, marks=pytest.mark.slow)]
)
def test_values_do_not_depend_on_batches(
    size: int, shuffled: bool, expected: list[object]
) -> None:
    """Values do not depend on batches: batches of 7 in random order and of 64 have the
    bits of one batch, with gains, ties, empty targets and empty lists.
    """
    order = (
        torch.randperm(ROWS, generator=torch.Generator().manual_seed(0))
        if shuffled
        else torch.arange(ROWS)
    )
    results = compute_all([*metrics_by_case().values()], rankings(BATCH, size, order))
    assert differing(EVERY_KIND, results, expected) == []


@pytest.mark.parametrize("ranks", [pytest.param(2, marks=pytest.mark.slow), 4])
def test_merged_states_are_those_of_one_run(ranks: int, expected: list[object]) -> None:
    """States merged by ``merge_state``, as metrics and as dicts, have the bits of one
    run.

    Rows are on ranks unevenly, and the last rank has none.
    """
    rows = [torch.arange(ROWS)[rank :: ranks - 1] for rank in range(ranks - 1)] + [
        torch.arange(0)
    ]
    parts = [[case.metric() for case in EVERY_KIND] for _ in range(ranks)]
    for part, rows_of_rank in zip(parts, rows, strict=True):
        for ranking in rankings(BATCH, 16, rows_of_rank):
            for metric in part:
                metric.update(ranking)
    for number, part in enumerate(parts[1:]):
        for metric, other in zip(parts[0], part, strict=True):
            metric.merge_state(other if number % 2 else other.metric_state)
    assert differing(EVERY_KIND, [bits(metric) for metric in parts[0]], expected) == []


@pytest.mark.parametrize(
    "case",
    [case for case in FEW if case.name in ("NDCGAtK", "PropensityScoredNDCGAtK")],
    ids=str,
)
def test_one_crowded_row_among_thousands_changes_no_bit(case: Case) -> None:
    """One row with many relevant labels among thousands, which changes the form of the
    computation, has the bits of small batches.
    """
    generator = torch.Generator().manual_seed(12)
    scores = torch.randn(4000, 40, generator=generator)
    target = torch.zeros(4000, 40).scatter_(
        1, torch.randint(40, (4000, 1), generator=generator), 1.5
    )
    target[1000] = torch.rand(40, generator=generator)
    at_once, pieces = case.metric(), case.metric()
    at_once.update(scores, target)
    for rows in torch.arange(4000).split(500):
        pieces.update(scores[rows], target[rows])
    assert bits(at_once) == bits(pieces)
