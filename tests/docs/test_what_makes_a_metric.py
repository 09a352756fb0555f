"""What CONTRIBUTING.md asks for is there: a metric or a formula that lacks a part of it fails by name."""

import doctest
import inspect
import re

import pytest

from docs import make_functional
from docs.lacking import ORACLES, a_formula_lacks, a_metric_lacks, classes, formulas, rendered
from tailmetrics import functional
from tailmetrics.metrics import REGISTRY


@pytest.mark.parametrize("name", sorted(classes() | REGISTRY.keys()))
def test_every_metric_has_all_that_makes_it_one(name: str) -> None:
    """A case, an oracle, a place among the definitions and in the reference, a true example, a direction and a range."""
    assert a_metric_lacks(name) == []


@pytest.mark.parametrize("name", make_functional.names())
def test_every_formula_is_public_and_documented(name: str) -> None:
    """A function of a file of metrics is in `tailmetrics.functional` and on its page."""
    assert a_formula_lacks(name) == []


def test_the_list_of_formulas_is_the_one_that_is_written() -> None:
    """`python -m docs.make_functional` would change neither the module nor its page."""
    assert make_functional.MODULE.read_text(encoding="utf-8") == make_functional.module()
    assert make_functional.PAGE.read_text(encoding="utf-8") == make_functional.page()


def test_nothing_is_named_that_does_not_exist() -> None:
    """Neither a second reading, nor an entry of the reference, of a metric or a formula that is gone."""
    assert REGISTRY.keys() >= ORACLES
    assert rendered("functional") <= {f"tailmetrics.functional.{name}" for name in formulas()}


@pytest.mark.parametrize("name", REGISTRY)
def test_the_help_of_a_metric_says_when_to_use_it_and_what_shapes_it_takes(name: str) -> None:
    """A reader of ``help`` learns both from the class itself."""
    docstring = inspect.cleandoc(REGISTRY[name].__doc__ or "")
    assert re.search(r"^Use it (when|with) .+\.$", docstring, re.MULTILINE), name
    assert re.search(r"^``preds`` are .*\(N, L\)", docstring, re.MULTILINE), name


@pytest.mark.parametrize("name", make_functional.names())
def test_every_formula_shows_one_call_that_is_executed(name: str) -> None:
    """The suite runs doctests: an example that is wrong fails there, one that is missing here."""
    examples = doctest.DocTestFinder().find(getattr(functional, name), name)[0].examples
    assert any(f"{name}(" in example.source for example in examples), name
    assert examples[-1].want, name
