"""A cut list gives values only down to its cut."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tailmetrics import LabelBuckets, LabelTree, Ranking, functional, rank

SCORES = torch.tensor([[0.9, 0.5, 0.1, 0.3], [0.2, 0.4, 0.6, 0.8]])
TARGET = torch.tensor([[1, 2], [0, 3]])

Formula = Callable[..., Any]


def _parameters(formula: Any) -> Any:
    return inspect.signature(formula).parameters if inspect.isfunction(formula) else {}


FORMULAS = [
    formula
    for name, formula in vars(functional).items()
    if "k" in _parameters(formula) and name not in ("ideal_dcg_at_k", "personalization")
]


def _value(formula: Formula, ranking: Ranking, k: int | None) -> list[Tensor]:
    """Return the value of a formula, with weights of 1 or a tree if it takes any."""
    arguments: dict[str, Any] = {"k": k}
    if "weights" in _parameters(formula):
        arguments["weights"] = torch.ones(4, dtype=torch.float64)
    if "tree" in _parameters(formula):
        arguments["tree"] = LabelTree([-1, 0, 0, 2])
    value = formula(ranking, **arguments)
    return list(value) if isinstance(value, tuple) else [value]


@pytest.mark.parametrize("formula", FORMULAS, ids=lambda formula: formula.__name__)
def test_formula_refuses_a_cutoff_beyond_the_list(formula: Formula) -> None:
    """A formula refuses a cut-off beyond the list.

    For lists cut at 1, k = 1 has the value of the whole lists and k = 2 is an error.
    """
    cut, complete = rank(SCORES, TARGET, depth=1), rank(SCORES, TARGET, depth=4)
    for value, expected in zip(
        _value(formula, cut, 1), _value(formula, complete, 1), strict=True
    ):
        assert torch.equal(value, expected)
    with pytest.raises(
        ValueError,
        match=r"k=2 is deeper than the ranking \(1 ids per row\); rank again",
    ):
        _value(formula, cut, 2)


@pytest.mark.parametrize(
    "formula",
    [functional.reciprocal_rank, functional.average_precision, functional.r_precision],
)
def test_formula_without_cutoff_uses_exact_ranks_of_scores(formula: Formula) -> None:
    """A formula without a cut-off uses exact ranks, so that scores ranked to depth 1
    have the value of depth 4.

    Cut ids do not have them, and are refused.
    """
    cut, complete = rank(SCORES, TARGET, depth=1), rank(SCORES, TARGET, depth=4)
    assert torch.equal(formula(cut), formula(complete))
    ids = Ranking.from_ids(
        torch.tensor([[0], [3]]), num_labels=4, target_ids=TARGET, complete=False
    )
    with pytest.raises(
        ValueError,
        match=r"everything \(k=None\) is deeper than the ranking \(1 ids per row\)",
    ):
        formula(ids)


def test_complete_lists_have_values_at_any_cutoff() -> None:
    """Complete lists have values at any cut-off, also by bucket of the whole list: two
    ids of which one is relevant have the precision 1/2 for any k.
    """
    ranking = rank(torch.tensor([[0, 1], [3, 2]]), TARGET, num_labels=4)
    assert functional.precision_at_k(ranking, 100).tolist() == [1 / 2, 1 / 2]
    by_bucket = ranking.by_bucket(
        LabelBuckets.from_assignment([0, 0, 1, 1], ["head", "tail"]), "global"
    )
    assert functional.recall_at_k(by_bucket, 100).tolist() == [[1, 0], [0, 1]]


def test_buckets_refuse_depths_beyond_the_list() -> None:
    """Buckets of a cut list refuse a depth beyond the cut, and with scope="global" a
    cut-off beyond it.
    """
    halves = LabelBuckets.from_assignment([0, 0, 1, 1], ["head", "tail"])
    cut = rank(SCORES, TARGET, depth=2)
    with pytest.raises(
        ValueError,
        match=r"by_bucket: depth=500 is deeper than the ranking \(2 ids per row\)",
    ):
        cut.by_bucket(halves)
    with pytest.raises(ValueError, match="k=3 is deeper"):
        functional.recall_at_k(cut.by_bucket(halves, "global"), 3)
    assert functional.recall_at_k(cut.by_bucket(halves, "global"), 2).tolist() == [
        [1.0, 0.0],
        [0.0, 1.0],
    ]
    assert functional.recall_at_k(cut.by_bucket(halves, depth=2), 3).tolist() == [
        [1.0, 0.0],
        [0.0, 1.0],
    ]
