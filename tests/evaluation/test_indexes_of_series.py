"""Series whose indexes name other rows are refused; in tables, rows are joined by
query.
"""

import pandas as pd
import pytest
import torch

from tailmetrics import PrecisionAtK, RecallAtK, evaluate, rank
from tailmetrics.evaluation import compare_runs

USERS = ["u1", "u2", "u3"]
PREDS = pd.Series([[0, 1], [1, 2], [2, 0]], index=USERS)
TARGET = pd.Series([[0], [1], [0, 2]], index=USERS)
REORDERED = ["u3", "u1", "u2"]
METRICS = [PrecisionAtK(k=1)]


@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("target", lambda: evaluate(PREDS, TARGET[REORDERED], metrics=METRICS)),
        ("target", lambda: rank(PREDS, TARGET[REORDERED])),
        ("target", lambda: PrecisionAtK(k=1).update(PREDS, TARGET[REORDERED])),
        ("row_mask", lambda: rank(PREDS, TARGET, row_mask=pd.Series([True, True, False], index=REORDERED))),
        ("row_weights", lambda: PrecisionAtK(k=1, weighted=True).update(
            PREDS, TARGET, row_weights=pd.Series([1.0, 2.0, 3.0], index=REORDERED))),
        ("row_groups", lambda: evaluate(
            PREDS, TARGET, metrics=METRICS, row_groups=pd.Series(["x", "y", "x"], index=REORDERED))),
        ("row_groups", lambda: evaluate(
            [[0, 1], [1, 2], [2, 0]], TARGET, metrics=METRICS, row_groups=pd.Series(["x", "y", "x"], index=REORDERED))),
        ("b", lambda: compare_runs({"a": PREDS, "b": PREDS[REORDERED]}, torch.tensor([0, 1, 2]), metrics=METRICS)),
        ("clusters", lambda: compare_runs(
            {"a": PREDS, "b": PREDS}, TARGET, metrics=METRICS, clusters=pd.Series([1, 1, 2], index=REORDERED))),
        ("preds[1]", lambda: rank((pd.Series([[0.5, 0.1]] * 3, index=USERS), PREDS[REORDERED]), torch.tensor([0, 1, 2]))),
    ],
)  # fmt: skip
def test_series_of_other_rows_are_refused(argument, call):
    """Series whose indexes differ are refused, with the first row that differs and what
    to pass.

    Row 0 is u1 in one and u3 in the other, so that by place each user would have the
    labels of another user.
    """
    with pytest.raises(
        ValueError, match=r"indexes differ: row 0 is 'u1' of .* and 'u3' of "
    ) as caught:
        call()
    assert f"pass {argument}.loc[" in str(caught.value)


def test_index_error_shows_plain_numbers():
    """The error about indexes shows whole numbers without their type."""
    preds, target = (
        pd.Series([[0], [1], [2]]),
        pd.Series([[0], [1], [2]], index=[0, 2, 1]),
    )
    with pytest.raises(ValueError, match="row 1 is 1 of preds and 2 of target; pass"):
        evaluate(preds, target, metrics=METRICS)


def test_series_of_the_same_rows_and_beside_arrays_are_read_by_place():
    """Series with equal indexes, and a Series beside a tensor or list, are read by
    place: 3 of 3 rows are right, or 1 of 3 if the lists are in another order.
    """
    for preds, target in (
        (PREDS, TARGET),
        (PREDS, torch.tensor([0, 1, 2])),
        (PREDS[REORDERED], TARGET[REORDERED]),
    ):
        assert evaluate(preds, target, metrics=METRICS).scalars["precision@1"] == 1
    report = evaluate(
        PREDS,
        pd.Series(TARGET[REORDERED].to_numpy()).to_numpy().tolist(),
        metrics=METRICS,
    )
    # [0, 2], [0], [1] beside 0, 1, 2
    assert report.scalars["precision@1"] == pytest.approx(1 / 3)


def test_row_mask_of_tables_is_joined_by_query():
    """A row mask beside tables is a dict or a Series by query, in any order; a query
    without a value is refused.

    Recall@1 is 0 for q2 alone and 1 for q1 alone.
    """
    preds = pd.DataFrame(
        {"query": ["q2", "q1"], "item": ["a", "a"], "score": [1.0, 2.0]}
    )
    target = pd.DataFrame({"query": ["q1", "q2"], "item": ["a", "b"]})
    for kept_query, value in (("q1", 1), ("q2", 0)):
        mask = {query: query == kept_query for query in ("q2", "q1")}
        for row_mask in (mask, pd.Series(mask)):
            assert (
                evaluate(
                    preds, target, metrics=[RecallAtK(k=1)], row_mask=row_mask
                ).scalars["recall@1"]
                == value
            )
    for row_mask in ({"q1": True}, pd.Series([True, False])):
        with pytest.raises(ValueError, match="row_mask has no value for"):
            evaluate(preds, target, metrics=[RecallAtK(k=1)], row_mask=row_mask)
