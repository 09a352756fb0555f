"""Input of an update: each argument becomes a tensor once, and rows have one axis
afterwards.
"""

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch

from tailmetrics import PrecisionAtK, Ranking, rank
from tailmetrics.ranking import _tensors
from tailmetrics.ranking._once import whole_numbers

SCORES = np.array([[0.9, 0.1, 0.5], [0.2, 0.8, 0.4]])
ROWS: dict[str, Any] = {
    "row_mask": [True, True],
    "row_groups": [0, 1],
    "row_weights": [1.0, 2.0],
}
FLAT = {"indexes": torch.tensor([7, 7, 3, 3]), "ids": torch.tensor([0, 2, 1, 0])}


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count how often each argument is converted to a tensor."""
    counts: Counter[str] = Counter()
    plain = _tensors.as_tensor

    def counting_as_tensor(caller: str, argument: str, value: Any) -> torch.Tensor:
        counts[argument] += 1
        return plain(caller, argument, value)

    monkeypatch.setattr(_tensors, "as_tensor", counting_as_tensor)
    return counts


def test_each_argument_of_an_update_becomes_a_tensor_once(
    conversions: Counter[str],
) -> None:
    """Each argument of an update, arrays and lists, is converted to a tensor once, also
    in the first batch, which warnings read.
    """
    metric = PrecisionAtK(k=1, row_groups=["a", "b"], weighted=True)
    metric.update(SCORES, np.array([0, 1]), **ROWS)
    assert conversions == dict.fromkeys(("preds", "target", *ROWS), 1)
    assert float(metric.compute()[0]) == 1.0


def test_each_argument_of_flat_queries_and_of_candidates_becomes_a_tensor_once(
    conversions: Counter[str],
) -> None:
    """Each argument of flat queries and of candidates is converted to a tensor once; a
    pair is two arguments.
    """
    flat = Ranking.from_flat(
        torch.tensor([0.5, 0.1, 0.2, 0.3]), torch.tensor([1, 0, 1, 0]), **FLAT, **ROWS
    )
    assert conversions == dict.fromkeys(("preds", "target", *FLAT, *ROWS), 1)
    assert flat.queries is not None
    assert (flat.queries.tolist(), flat.ids.tolist()) == ([3, 7], [[0, 1], [0, 2]])
    conversions.clear()
    Ranking.from_scores(
        (SCORES, np.array([[0, 1, 2], [0, 1, 2]])), target_ids=np.array([0, 1])
    )
    assert conversions == {"preds[0]": 1, "preds[1]": 1, "target_ids": 1}


def test_sequences_take_masks_as_lists_and_explicit_targets() -> None:
    """Sequences (B, T, L) take masks as lists (B, T), also with explicit targets: they
    are B·T rows.
    """
    mask = [[True, False]]
    assert rank(
        SCORES[None], np.array([[0, 1]]), depth=1, row_mask=mask
    ).ids.tolist() == [[0], [-1]]
    explicit = Ranking.from_scores(
        SCORES[None], depth=1, target_ids=np.array([[0, 1]]), row_mask=mask
    )
    assert explicit.n_relevant.tolist() == [1, 0]


def test_a_row_mask_of_another_length_is_refused_beside_ignore_index() -> None:
    """A row mask of another length is refused also if ignore_index leaves out rows."""
    with pytest.raises(
        ValueError, match=r"row_mask is bool \[3\] for 2 rows; pass for each row a bool"
    ):
        rank(
            SCORES,
            np.array([0, -100]),
            depth=1,
            row_mask=[True, True, False],
            ignore_index=-100,
        )


def test_gains_of_one_leave_counts_whole_numbers() -> None:
    """Reading gains of 1.0 before counts does not make counts floating: cached tables
    of 1.0 and of 1 are different.
    """
    ranking = Ranking.from_ids(np.array([[1, 2]]), target_ids=np.array([1]))
    assert ranking.target_gains.dtype == torch.float64
    metric = PrecisionAtK(k=2)
    metric.update(ranking)
    assert float(metric.compute()) == 0.5


@pytest.mark.parametrize("validate", [True, False])
@pytest.mark.parametrize("form", ["ids", "scores", "candidates"])
@pytest.mark.parametrize("gap", [None, "an end", "a score", "a row mask"])
def test_the_length_of_a_list_is_the_number_of_its_labels(
    form: str, gap: str | None, validate: bool
) -> None:
    """The length of a list is the number of its labels: full lists have all places,
    others end before or are in rows that do not count.
    """
    scores = torch.tensor(
        [
            [0.9, 0.5, 0.1],
            [0.2, 0.8, -torch.inf if gap in ("an end", "a score") else 0.1],
        ]
    )
    ids = torch.tensor([[0, 1, 2], [1, 0, -1 if gap == "an end" else 2]])
    preds: Any = {"ids": ids, "scores": scores, "candidates": (scores, ids)}[form]
    mask = torch.tensor([True, False]) if gap == "a row mask" else None
    ranking = rank(preds, torch.tensor([0, 1]), row_mask=mask, validate_args=validate)
    assert ranking.length.tolist() == [
        3,
        {None: 3, "an end": 2, "a score": 3 if form == "ids" else 2, "a row mask": 0}[
            gap
        ],
    ]


def test_rank_warns_of_scores_that_look_like_distances() -> None:
    """rank warns of scores that rise along each row, because they look like
    distances.
    """
    ids = torch.tensor([[3, 1, 2], [1, 3, 0], [2, 0, 1]] * 10)
    with pytest.warns(
        UserWarning, match="rank: the scores of preds, .* rise from the first place"
    ):
        rank((torch.tensor([0.1, 0.5, 0.9]).expand(30, 3), ids), ids[:, 0])


@pytest.mark.parametrize("validate", [True, False])
def test_padding_of_target_ids_is_no_label(validate: bool) -> None:
    """-1 after the relevant labels of a row is not counted among them, with and without
    validate_args.
    """
    target = torch.tensor([[1, -1, -1], [0, 2, -1]])
    ranking = rank(torch.tensor([[0, 1, 2], [1, 0, 2]]), target, validate_args=validate)
    assert ranking.targets.n_relevant.tolist() == [1, 2]


@pytest.mark.parametrize("end", [0, 1, 256, 257, 512, 513, 1025])
def test_whole_numbers_returns_the_requested_length(end: int) -> None:
    """whole_numbers returns the numbers from 0 up to the requested end, around the
    powers of two at which the cached table grows.
    """
    assert whole_numbers(end, torch.device("cpu")).tolist() == list(range(end))
