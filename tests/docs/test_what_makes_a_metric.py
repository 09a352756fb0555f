"""What CONTRIBUTING.md asks for is there: a metric or a formula that lacks a part of it fails by name."""

from __future__ import annotations

import pytest

from docs.lacking import ORACLES, a_formula_lacks, a_metric_lacks, classes, formulas, rendered
from tailmetrics import functional
from tailmetrics.metrics import REGISTRY


@pytest.mark.parametrize("name", sorted(classes() | REGISTRY.keys()))
def test_every_metric_has_all_that_makes_it_one(name: str) -> None:
    """A case, an oracle, a place among the definitions and in the reference, a true example, a direction and a range."""
    assert a_metric_lacks(name) == []


@pytest.mark.parametrize("name", sorted(formulas() | {*functional.__all__}))
def test_every_formula_is_public_and_documented(name: str) -> None:
    """A function of a file of metrics is in `tailmetrics.functional` and on its page."""
    assert a_formula_lacks(name) == []


def test_nothing_is_named_that_does_not_exist() -> None:
    """Neither a second reading, nor an entry of the reference, of a metric or a formula that is gone."""
    assert REGISTRY.keys() >= ORACLES
    assert rendered("functional") <= {f"tailmetrics.functional.{name}" for name in formulas() | {*functional.__all__}}
    assert {*functional.__all__} <= vars(functional).keys()
