"""Scored candidates are ranked by score and id, and those that are ranked already are not sorted again."""

import pytest
import torch

from tailmetrics import rank
from tailmetrics.ranking._kernels import Kernels

SCORES = torch.tensor([[3.0, 2, 1], [1.0, 2, 2], [5.0, 5, 4], [2.0, -torch.inf, 1], [2.0, 1, 0], [1.0, 1, 0]])
IDS = torch.tensor([[7, 4, 9], [1, 8, 3], [2, 6, 1], [5, 4, 3], [6, -1, -1], [9, 1, 0]])
RANKED = [[7, 4, 9], [3, 8, 1], [2, 6, 1], [5, 3, -1], [6, -1, -1], [1, 9, 0]]


def test_rows_in_any_order_are_ranked_by_score_and_then_by_id() -> None:
    """Falling, rising, tied in the order of ids and against it, with scores of -inf and ids of -1; inputs stay."""
    scores, ids = SCORES.clone(), IDS.clone()
    assert rank((scores, ids), torch.zeros(6, dtype=torch.int64), num_labels=10).ids.tolist() == RANKED
    assert torch.equal(scores, SCORES)
    assert torch.equal(ids, IDS)


@pytest.mark.parametrize(
    ("scores", "ids", "ranked"),
    [
        ([3.0, 2, 1], [7, 4, 9], [7, 4, 9]),
        ([3.0, 2, -torch.inf], [7, 4, 9], [7, 4, -1]),
        ([3.0, 2, 1], [-1, 4, 9], [4, 9, -1]),
        ([-torch.inf], [7], [-1]),
        ([2.0], [7], [7]),
    ],
)
def test_a_batch_in_order_holds_only_what_is_retrieved(scores: list[float], ids: list[int], ranked: list[int]) -> None:
    """Falling scores are taken as they are, but for a label of -inf at the end and for places of -1 among them."""
    ranking = rank((torch.tensor([scores]), torch.tensor([ids])), torch.tensor([0]), num_labels=10)
    assert ranking.ids.tolist() == [ranked]


@pytest.mark.parametrize("scores", [[torch.nan], [3.0, torch.nan], [torch.nan, 3.0], [3.0, 2.0, torch.nan]])
def test_nan_is_refused_at_any_place(scores: list[float]) -> None:
    """A list of one, and NaN at the first, a middle or the last place."""
    with pytest.raises(ValueError, match="preds holds NaN in row 0"):
        rank((torch.tensor([scores]), torch.arange(len(scores))[None]), torch.tensor([0]), num_labels=10)


def test_nan_is_named_by_its_row_in_the_batch() -> None:
    """Rows 0 and 2 are in order, row 1 holds a tie, row 3 the NaN."""
    scores = torch.tensor([[3.0, 2], [1, 1], [3, 2], [3, torch.nan]])
    with pytest.raises(ValueError, match="preds holds NaN in row 3"):
        rank((scores, torch.tensor([[0, 1]]).expand(4, 2)), torch.zeros(4, dtype=torch.int64), num_labels=10)


def test_only_rows_out_of_order_are_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists from a file are ranked: of these six, four hold a tie or a score out of order; padding is none."""
    seen: list[int] = []
    plain = Kernels.best_first

    def counting(kernels: Kernels, scores: torch.Tensor, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        seen.append(len(ids))
        return plain(kernels, scores, ids)

    monkeypatch.setattr(Kernels, "best_first", counting)
    target = torch.zeros(6, dtype=torch.int64)
    rank((SCORES, IDS), target, num_labels=10)
    assert seen == [6, 4]
    rank((SCORES[[0, 4]], IDS[[0, 4]]), target[:2], num_labels=10)
    assert seen == [6, 4, 2]
