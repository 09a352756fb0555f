"""The door of an update: each argument becomes a tensor there, once, and rows have one axis behind it."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch

from tailmetrics import PrecisionAtK, Ranking, rank
from tailmetrics.ranking import _inputs
from tailmetrics.ranking._device import whole_numbers

SCORES = np.array([[0.9, 0.1, 0.5], [0.2, 0.8, 0.4]])
ROWS: dict[str, Any] = {"row_mask": [True, True], "row_groups": [0, 1], "row_weights": [1.0, 2.0]}
FLAT = {"indexes": torch.tensor([7, 7, 3, 3]), "ids": torch.tensor([0, 2, 1, 0])}


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each argument was conversions to become a tensor."""
    counts: Counter[str] = Counter()
    plain = _inputs.as_tensor

    def counted(caller: str, argument: str, value: Any) -> torch.Tensor:
        counts[argument] += 1
        return plain(caller, argument, value)

    monkeypatch.setattr(_inputs, "as_tensor", counted)
    return counts


def test_each_argument_of_an_update_becomes_a_tensor_once(conversions: Counter[str]) -> None:
    """Arrays and lists, in the first batch too, which is looked at for what it may mean."""
    metric = PrecisionAtK(k=1, row_groups=["a", "b"], weighted=True)
    metric.update(SCORES, np.array([0, 1]), **ROWS)
    assert conversions == dict.fromkeys(("preds", "target", *ROWS), 1)
    assert float(metric.compute()[0]) == 1.0


def test_each_argument_of_flat_queries_and_of_candidates_becomes_a_tensor_once(conversions: Counter[str]) -> None:
    """They go through the same door; a pair is two arguments."""
    flat = Ranking.from_flat(torch.tensor([0.5, 0.1, 0.2, 0.3]), torch.tensor([1, 0, 1, 0]), **FLAT, **ROWS)
    assert conversions == dict.fromkeys(("preds", "target", *FLAT, *ROWS), 1)
    assert flat.queries is not None
    assert (flat.queries.tolist(), flat.ids.tolist()) == ([3, 7], [[0, 1], [0, 2]])
    conversions.clear()
    Ranking.from_scores((SCORES, np.array([[0, 1, 2], [0, 1, 2]])), target_ids=np.array([0, 1]))
    assert conversions == {"preds[0]": 1, "preds[1]": 1, "target_ids": 1}


def test_rows_of_sequences_take_lists_and_names_of_targets() -> None:
    """(B, T, L) with lists (B, T): B·T rows, also where the argument says which form the target has."""
    mask = [[True, False]]
    assert rank(SCORES[None], np.array([[0, 1]]), depth=1, row_mask=mask).ids.tolist() == [[0], [-1]]
    named = Ranking.from_scores(SCORES[None], depth=1, target_ids=np.array([[0, 1]]), row_mask=mask)
    assert named.n_relevant.tolist() == [1, 0]


def test_a_row_mask_of_another_length_is_refused_beside_ignore_index() -> None:
    """Both leave out rows, and are put together behind the check."""
    with pytest.raises(ValueError, match=r"row_mask is bool \[3\] for 2 rows; pass for each row a bool"):
        rank(SCORES, np.array([0, -100]), depth=1, row_mask=[True, True, False], ignore_index=-100)


def test_gains_of_one_leave_counts_whole_numbers() -> None:
    """Tables are kept by what they are made of, and 1.0 is 1: gains that are read first once made a count floating."""
    ranking = Ranking.from_ids(np.array([[1, 2]]), target_ids=np.array([1]))
    assert ranking.target_gains.dtype == torch.float64
    metric = PrecisionAtK(k=2)
    metric.update(ranking)
    assert float(metric.compute()) == 0.5


@pytest.mark.parametrize("validate", [True, False])
@pytest.mark.parametrize("form", ["ids", "scores", "candidates"])
@pytest.mark.parametrize("gap", [None, "an end", "a score", "a row mask"])
def test_the_length_of_a_list_is_the_number_of_its_labels(form: str, gap: str | None, validate: bool) -> None:
    """Full lists are known to be full; those that end before, and those of rows that do not count, are counted."""
    scores = torch.tensor([[0.9, 0.5, 0.1], [0.2, 0.8, -torch.inf if gap in ("an end", "a score") else 0.1]])
    ids = torch.tensor([[0, 1, 2], [1, 0, -1 if gap == "an end" else 2]])
    preds: Any = {"ids": ids, "scores": scores, "candidates": (scores, ids)}[form]
    mask = torch.tensor([True, False]) if gap == "a row mask" else None
    ranking = rank(preds, torch.tensor([0, 1]), row_mask=mask, validate_args=validate)
    assert ranking.length.tolist() == [
        3,
        {None: 3, "an end": 2, "a score": 3 if form == "ids" else 2, "a row mask": 0}[gap],
    ]


def test_rank_warns_of_distances_as_a_metric_does() -> None:
    """Scores that rise along each row of a search's result look like distances."""
    ids = torch.tensor([[3, 1, 2], [1, 3, 0], [2, 0, 1]] * 10)
    with pytest.warns(UserWarning, match="rank: the scores of preds, .* rise from the first place"):
        rank((torch.tensor([0.1, 0.5, 0.9]).expand(30, 3), ids), ids[:, 0])


@pytest.mark.parametrize("validate", [True, False])
def test_what_pads_target_ids_is_no_label(validate: bool) -> None:
    """-1 behind a row's relevant labels is not counted among them, checked or not."""
    target = torch.tensor([[1, -1, -1], [0, 2, -1]])
    ranking = rank(torch.tensor([[0, 1, 2], [1, 0, 2]]), target, validate_args=validate)
    assert ranking.targets.n_relevant.tolist() == [1, 2]


@pytest.mark.parametrize("end", [0, 1, 256, 257, 512, 513, 1025])
def test_a_table_of_whole_numbers_is_as_long_as_conversions(end: int) -> None:
    """Around the powers of two at which the table that is kept grows."""
    assert whole_numbers(end, torch.device("cpu")).tolist() == list(range(end))
