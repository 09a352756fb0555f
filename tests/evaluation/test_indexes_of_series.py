"""Columns of pandas whose indexes name other rows are refused; of tables they are joined by query."""

import pandas as pd
import pytest
import torch

from tailmetrics import PrecisionAtK, RecallAtK, evaluate, rank
from tailmetrics.evaluation import compare_runs

USERS = ["u1", "u2", "u3"]
PREDS = pd.Series([[0, 1], [1, 2], [2, 0]], index=USERS)
TARGET = pd.Series([[0], [1], [0, 2]], index=USERS)
TURNED = ["u3", "u1", "u2"]
METRICS = [PrecisionAtK(k=1)]


@pytest.mark.parametrize(
    ("one", "call"),
    [
        ("target", lambda: evaluate(PREDS, TARGET[TURNED], metrics=METRICS)),
        ("target", lambda: rank(PREDS, TARGET[TURNED])),
        ("target", lambda: PrecisionAtK(k=1).update(PREDS, TARGET[TURNED])),
        ("row_mask", lambda: rank(PREDS, TARGET, row_mask=pd.Series([True, True, False], index=TURNED))),
        ("row_weights", lambda: PrecisionAtK(k=1, weighted=True).update(
            PREDS, TARGET, row_weights=pd.Series([1.0, 2.0, 3.0], index=TURNED))),
        ("row_groups", lambda: evaluate(
            PREDS, TARGET, metrics=METRICS, row_groups=pd.Series(["x", "y", "x"], index=TURNED))),
        ("row_groups", lambda: evaluate(
            [[0, 1], [1, 2], [2, 0]], TARGET, metrics=METRICS, row_groups=pd.Series(["x", "y", "x"], index=TURNED))),
        ("b", lambda: compare_runs({"a": PREDS, "b": PREDS[TURNED]}, torch.tensor([0, 1, 2]), metrics=METRICS)),
        ("clusters", lambda: compare_runs(
            {"a": PREDS, "b": PREDS}, TARGET, metrics=METRICS, clusters=pd.Series([1, 1, 2], index=TURNED))),
        ("preds[1]", lambda: rank((pd.Series([[0.5, 0.1]] * 3, index=USERS), PREDS[TURNED]), torch.tensor([0, 1, 2]))),
    ],
)  # fmt: skip
def test_series_of_other_rows_are_refused(one, call):
    """Row 0 of one is u1, of the other u3: by their places each user would be held against another one's labels."""
    with pytest.raises(ValueError, match=r"indexes differ: row 0 is 'u1' of .* and 'u3' of ") as caught:
        call()
    assert f"pass {one}.loc[" in str(caught.value)


def test_the_error_names_rows_as_the_user_writes_them():
    """Whole numbers of an index are shown without their type."""
    preds, target = pd.Series([[0], [1], [2]]), pd.Series([[0], [1], [2]], index=[0, 2, 1])
    with pytest.raises(ValueError, match="row 1 is 1 of preds and 2 of target; pass"):
        evaluate(preds, target, metrics=METRICS)


def test_series_of_the_same_rows_and_beside_arrays_are_read_by_place():
    """Equal indexes, a Series beside a tensor, and values without an index: 1, 1 and 1 of 3 rows right."""
    for preds, target in ((PREDS, TARGET), (PREDS, torch.tensor([0, 1, 2])), (PREDS[TURNED], TARGET[TURNED])):
        assert evaluate(preds, target, metrics=METRICS).scalars["precision@1"] == 1
    turned = evaluate(PREDS, pd.Series(TARGET[TURNED].to_numpy()).to_numpy().tolist(), metrics=METRICS)
    assert turned.scalars["precision@1"] == pytest.approx(1 / 3)  # [0, 2], [0], [1] beside 0, 1, 2


def test_a_row_mask_of_tables_is_by_query():
    """A dict and a Series in any order name the queries; of q2 alone recall@1 is 0, of q1 alone 1."""
    preds = pd.DataFrame({"query": ["q2", "q1"], "item": ["a", "a"], "score": [1.0, 2.0]})
    target = pd.DataFrame({"query": ["q1", "q2"], "item": ["a", "b"]})
    for kept, value in (("q1", 1), ("q2", 0)):
        mask = {query: query == kept for query in ("q2", "q1")}
        for row_mask in (mask, pd.Series(mask)):
            assert evaluate(preds, target, metrics=[RecallAtK(k=1)], row_mask=row_mask).scalars["recall@1"] == value
    for row_mask in ({"q1": True}, pd.Series([True, False])):
        with pytest.raises(ValueError, match="row_mask has no value for"):
            evaluate(preds, target, metrics=[RecallAtK(k=1)], row_mask=row_mask)
