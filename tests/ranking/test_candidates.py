"""Scored candidates are ranked by score and id, and those that are ranked already are not sorted again."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tailmetrics import rank
from tailmetrics.ranking import _lists

SCORES = torch.tensor([[3.0, 2, 1], [1.0, 2, 2], [5.0, 5, 4], [2.0, -torch.inf, 1], [2.0, 1, 0], [1.0, 1, 0]])
IDS = torch.tensor([[7, 4, 9], [1, 8, 3], [2, 6, 1], [5, 4, 3], [6, -1, -1], [9, 1, 0]])
RANKED = [[7, 4, 9], [3, 8, 1], [2, 6, 1], [5, 3, -1], [6, -1, -1], [1, 9, 0]]


def test_rows_in_any_order_are_ranked_by_score_and_then_by_id() -> None:
    """Falling, rising, tied in the order of ids and against it, with scores of -inf and ids of -1; inputs stay."""
    scores, ids = SCORES.clone(), IDS.clone()
    assert rank((scores, ids), torch.zeros(6, dtype=torch.int64), num_labels=10).ids.tolist() == RANKED
    assert torch.equal(scores, SCORES)
    assert torch.equal(ids, IDS)


def test_only_rows_out_of_order_are_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists from a file are ranked: of these six, four hold a tie or a score out of order; padding is none."""
    seen: list[int] = []
    plain = _lists._sorted

    def counting(scores: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
        seen.append(len(ids))
        return plain(scores, ids)

    monkeypatch.setattr(_lists, "_sorted", counting)
    target = torch.zeros(6, dtype=torch.int64)
    rank((SCORES, IDS), target, num_labels=10)
    assert seen == [4]
    rank((SCORES[[0, 4]], IDS[[0, 4]]), target[:2], num_labels=10)
    assert seen == [4]
