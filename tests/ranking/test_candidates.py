"""Scored candidates are ranked by score and id, and rows in order are not sorted
again.
"""

import pytest
import torch

from tailmetrics import rank
from tailmetrics.ranking._kernels import Kernels

SCORES = torch.tensor(
    [
        [3.0, 2, 1],
        [1.0, 2, 2],
        [5.0, 5, 4],
        [2.0, -torch.inf, 1],
        [2.0, 1, 0],
        [1.0, 1, 0],
    ]
)
IDS = torch.tensor([[7, 4, 9], [1, 8, 3], [2, 6, 1], [5, 4, 3], [6, -1, -1], [9, 1, 0]])
RANKED = [[7, 4, 9], [3, 8, 1], [2, 6, 1], [5, 3, -1], [6, -1, -1], [1, 9, 0]]


def test_rows_in_any_order_are_ranked_by_score_and_then_by_id() -> None:
    """Candidates in any order are ranked by score and then by id: falling, rising, tied
    in the order of ids and against it, with scores of -inf and ids of -1. Inputs are
    unchanged.
    """
    scores, ids = SCORES.clone(), IDS.clone()
    assert (
        rank(
            (scores, ids), torch.zeros(6, dtype=torch.int64), num_labels=10
        ).ids.tolist()
        == RANKED
    )
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
def test_candidates_in_order_keep_only_retrieved_labels(
    scores: list[float], ids: list[int], ranked: list[int]
) -> None:
    """Candidates with falling scores keep their order, without labels of -inf at the
    end and places of -1.
    """
    ranking = rank(
        (torch.tensor([scores]), torch.tensor([ids])), torch.tensor([0]), num_labels=10
    )
    assert ranking.ids.tolist() == [ranked]


@pytest.mark.parametrize(
    "scores", [[torch.nan], [3.0, torch.nan], [torch.nan, 3.0], [3.0, 2.0, torch.nan]]
)
def test_nan_is_refused_at_any_place(scores: list[float]) -> None:
    """NaN is refused at the first, a middle and the last place, and in a list of
    one.
    """
    with pytest.raises(ValueError, match="preds holds NaN in row 0"):
        rank(
            (torch.tensor([scores]), torch.arange(len(scores))[None]),
            torch.tensor([0]),
            num_labels=10,
        )


def test_error_of_nan_names_the_row_in_the_batch() -> None:
    """The error about NaN names the row in the batch: rows 0 and 2 are in order, row 1
    has a tie, and row 3 the NaN.
    """
    scores = torch.tensor([[3.0, 2], [1, 1], [3, 2], [3, torch.nan]])
    with pytest.raises(ValueError, match="preds holds NaN in row 3"):
        rank(
            (scores, torch.tensor([[0, 1]]).expand(4, 2)),
            torch.zeros(4, dtype=torch.int64),
            num_labels=10,
        )


def test_only_rows_out_of_order_are_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only rows out of order are sorted: of six rows four have a tie or a score out of
    order; padding is neither.
    """
    num_rows: list[int] = []
    plain = Kernels.best_first

    def counting(
        kernels: Kernels, scores: torch.Tensor, ids: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        num_rows.append(len(ids))
        return plain(kernels, scores, ids)

    monkeypatch.setattr(Kernels, "best_first", counting)
    target = torch.zeros(6, dtype=torch.int64)
    rank((SCORES, IDS), target, num_labels=10)
    assert num_rows == [6, 4]
    rank((SCORES[[0, 4]], IDS[[0, 4]]), target[:2], num_labels=10)
    assert num_rows == [6, 4, 2]
