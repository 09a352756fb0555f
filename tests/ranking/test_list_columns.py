"""Columns of Arrow and pandas with lists of ids are read as the padded arrays that they
represent.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

import processes
from tailmetrics import (
    LabelFrequency,
    PrecisionAtK,
    Ranking,
    RecallAtK,
    TopKCollection,
    rank,
)
from tailmetrics.ranking._tensors import from_column

LISTS = [[4, 2, 7], [], [1], None, [0, 9, 3]]
PADDED = [[4, 2, 7], [-1, -1, -1], [1, -1, -1], [-1, -1, -1], [0, 9, 3]]
TARGET = [[2, 7], [5], None, [1], [3, 0, 8]]


def chunked(lists: list[Any], kind: Any) -> Any:
    """Return two chunks, the second a slice of a longer array."""
    return pa.chunked_array(
        [
            pa.array(lists[:2], kind),
            pa.array([[99], *lists[2:], [98]], kind).slice(1, len(lists[2:])),
        ]
    )


COLUMNS: dict[str, Callable[[list[Any]], Any]] = {
    "arrow": lambda lists: pa.array(lists, pa.list_(pa.int64())),
    "arrow, 32 bits": lambda lists: pa.array(lists, pa.large_list(pa.int32())),
    "arrow, unsigned": lambda lists: pa.array(lists, pa.list_(pa.uint16())),
    "arrow, sliced": lambda lists: pa.array([[77], *lists], pa.list_(pa.int64())).slice(
        1
    ),
    "arrow, in chunks": lambda lists: chunked(lists, pa.list_(pa.int64())),
    "pandas": lambda lists: pd.Series(lists),
    "pandas, other index": lambda lists: pd.Series(
        lists, index=range(len(lists), 0, -1)
    ),
    "pandas of arrays": lambda lists: pd.Series(
        [None if ids is None else np.array(ids, np.int32) for ids in lists]
    ),
    "pandas of Arrow": lambda lists: pd.Series(
        lists, dtype=pd.ArrowDtype(pa.list_(pa.int64()))
    ),
}

every_column = pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS.keys())


@every_column
def test_lists_are_padded_and_a_missing_list_is_empty(
    column: Callable[[list[Any]], Any],
) -> None:
    """Lists of a column are padded row by row, and a missing list is empty, in any kind
    of column.
    """
    assert from_column("test", "preds", column(LISTS))[0].tolist() == PADDED
    assert from_column("test", "preds", column([[], None]))[0].shape == (2, 0)
    assert from_column("test", "preds", column([]))[0].shape == (0, 0)


@every_column
def test_update_and_rank_take_lists_of_predictions_and_of_targets(
    column: Callable[[list[Any]], Any],
) -> None:
    """update, rank and from_ids take columns of lists for predictions and targets.

    Rows have 1/2, 0, 0, 0, 1/2 of their two places right, and short lists divide by
    their length.
    """
    preds, target = column(LISTS), column(TARGET)
    collection = TopKCollection([PrecisionAtK(k=2), RecallAtK(k=3)])
    collection.update(preds, target)
    values = {name: float(value) for name, value in collection.compute().items()}
    assert values["precision@2"] == (1 / 2 + 0 + 0 + 0 + 1 / 2) / 5
    assert values["recall@3"] == (2 / 2 + 0 + 0 + 0 + 2 / 3) / 5
    ranking = rank(preds, target, depth=2)
    assert ranking.ids.tolist() == PADDED
    assert Ranking.from_ids(preds, target_ids=target).n_relevant.tolist() == [
        2,
        1,
        0,
        1,
        3,
    ]


@every_column
def test_a_column_of_ids_is_never_one_number_per_label(
    column: Callable[[list[Any]], Any],
) -> None:
    """A column of ids is never read as one number per label, although its longest list
    has as many ids as there are labels; a tensor of that shape would be multi-hot.
    """
    scores = torch.tensor([[0.1, 0.9, 0.5], [0.7, 0.2, 0.3]])
    metric = RecallAtK(k=1)
    metric.update(scores, column([[1, 0, 2], [0]]))
    assert float(metric.compute()) == (1 / 3 + 1) / 2
    frequency = LabelFrequency(3)
    frequency.update(column([[1, 0, 2], [0], None]))
    assert frequency.compute().tolist() == [2, 1, 1]
    assert frequency.num_rows == 3


def test_columns_of_candidates_may_have_any_length() -> None:
    """A pair of columns with scores and ids of candidates may have lists of any
    length.
    """
    scores, ids = pa.array([[0.1, 0.9], [0.3], None]), pa.array([[5, 6], [7], None])
    for pair in (
        (scores, ids),
        (pd.Series([[0.1, 0.9], [0.3], []]), pd.Series([[5, 6], [7], []])),
    ):
        assert rank(pair, torch.tensor([6, 7, 1]), depth=2).ids.tolist() == [
            [6, 5],
            [7, -1],
            [-1, -1],
        ]


def test_columns_of_ids_and_gains_are_padded_alike() -> None:
    """Columns of target_ids and target_gains of equal lengths in each row are padded
    alike.
    """
    ids, gains = pa.array([[3, 1], [2]]), pa.array([[2.0, 1.0], [3.0]])
    ranking = Ranking.from_ids(
        pa.array([[1, 3], [2, 0]]), target_ids=ids, target_gains=gains
    )
    assert ranking.gains.tolist() == [[1.0, 2.0], [3.0, 0.0]]


def test_lists_of_one_length_are_a_matrix() -> None:
    """Columns of lists of one length are matrices of scores, columns of fixed-size
    lists are multi-hot, and columns of numbers have one per row.
    """
    scores = pa.array([[0.1, 0.9], [0.3, 0.2]])
    assert rank(scores, pa.array([1, 1]), depth=2).ids.tolist() == [[1, 0], [0, 1]]
    fixed = pa.array([[0, 1], [1, 1]], pa.list_(pa.int64(), 2))
    assert rank(scores, fixed, depth=1).n_relevant.tolist() == [1, 2], (
        "as wide as there are labels: multi-hot"
    )
    assert rank(scores, pd.Series([0, 1]), depth=1).n_relevant.tolist() == [1, 1]
    assert rank(
        scores, pd.Series([0, 1], dtype="Int64"), depth=1
    ).n_relevant.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("preds", "expected"),
    [
        (
            pa.array([[1], [2, None]]),
            "preds holds a null in row 1; remove it from its list",
        ),
        (
            pd.Series([[1], [2, None]]),
            "preds holds a null in row 1; remove it from its list",
        ),
        (pa.array([1, None]), "preds holds a null in row 1"),
        (pd.Series([1, None], dtype="Int64"), "preds holds a null in row 1"),
        (
            pa.array([["a"], ["b", "c"]]),
            "lists of object; pass lists of integers: number the labels",
        ),
        (
            pd.Series([["a"], ["b", "c"]]),
            "lists of <U1; pass lists of integers: number the labels",
        ),
        (
            pa.array([[0.5], [0.5, 0.25]]),
            "preds holds 1 numbers in row 0 and 2 in the longest row",
        ),
        (pd.Series([[1], 2]), "preds holds a int in row 1; pass one flat list per row"),
        (
            pd.Series([[1], [[2]]]),
            "preds holds a list in row 1; pass one flat list per row",
        ),
        (pd.DataFrame({"a": [1, 2]}), "preds is a DataFrame; pass a tensor"),
        (pa.table({"a": [1, 2]}), "preds is a Table; pass a tensor"),
    ],
)
def test_invalid_columns_are_refused(preds: Any, expected: str) -> None:
    """Nulls within lists, texts, scores of different lengths, single values among
    lists, and tables are refused.
    """
    with pytest.raises((TypeError, ValueError), match=f"PrecisionAtK: .*{expected}"):
        PrecisionAtK(k=1).update(preds, torch.tensor([1, 1]))


def test_update_imports_neither_pandas_nor_pyarrow() -> None:
    """An update with tensors imports neither pandas nor pyarrow."""
    code = """
import sys, torch, torchmetrics
before = set(sys.modules)
import tailmetrics
tailmetrics.PrecisionAtK(k=1).update(torch.tensor([[1]]), torch.tensor([1]))
result = {"pandas", "pyarrow"} & (set(sys.modules) - before)
"""
    assert processes.run_in_process(code) == set()


@pytest.mark.parametrize("as_column", [pa.array, pd.Series])
def test_lists_of_ids_and_numbers_of_other_lengths_are_refused(
    as_column: Callable[[list[Any]], Any],
) -> None:
    """Columns of scores or gains, of which a row has more or fewer entries than ids,
    are refused: padding would hide it.

    In row 1, one score or gain stands beside two ids, and two beside one.
    """
    short, long = [[0.1, 0.9], [0.3]], [[0.1, 0.9], [0.3, 0.8]]
    for ids, numbers, lengths in (
        ([[4, 2], [0, 1]], short, "1 entries in preds.0. and 2 in preds.1."),
        ([[4, 2], [0]], long, "2 entries in preds.0. and 1 in preds.1."),
    ):
        with pytest.raises(
            ValueError,
            match=f"RecallAtK: row 1 has {lengths}; pass a number for each id",
        ):
            RecallAtK(k=1).update(
                (as_column(numbers), as_column(ids)), torch.tensor([2, 1])
            )
        gains = {
            "target_ids": as_column(ids),
            "target_gains": as_column(numbers),
            "num_labels": 5,
        }
        with pytest.raises(
            ValueError,
            match="Ranking.from_ids: row 1 has . entries in target_ids and . in target_gai",
        ):
            Ranking.from_ids(torch.tensor([[4, 2], [0, 1]]), **gains)


def test_an_empty_list_as_predictions_is_no_output_of_scikit_learn() -> None:
    """The error for an empty list names a tensor, not the list of arrays that
    scikit-learn returns.
    """
    with pytest.raises(TypeError, match="preds is a list; pass a tensor"):
        RecallAtK(k=1).update([], [])
