"""Every metric and formula has what CONTRIBUTING.md requires; the failing test names
the one that lacks a part.
"""

import doctest
import inspect
import re

import pytest

from docs import make_functional
from docs.metric_requirements import (
    ORACLES,
    classes,
    formulas,
    missing_parts_of_formula,
    missing_parts_of_metric,
    reference_entries,
)
from tailmetrics import functional
from tailmetrics.metrics import REGISTRY


@pytest.mark.parametrize("name", sorted(classes() | REGISTRY.keys()))
def test_every_metric_has_all_required_parts(name: str) -> None:
    """Every metric has a test case, an oracle, entries in the definitions and the
    reference, an example, a direction and a range.
    """
    assert missing_parts_of_metric(name) == []


@pytest.mark.parametrize("name", make_functional.names())
def test_every_formula_is_public_and_documented(name: str) -> None:
    """Every public function of a file of metrics is in `tailmetrics.functional` and on
    its page of the reference.
    """
    assert missing_parts_of_formula(name) == []


def test_the_module_of_formulas_is_up_to_date() -> None:
    """`python -m docs.make_functional` changes neither the module of formulas nor its
    page.
    """
    assert (
        make_functional.MODULE.read_text(encoding="utf-8") == make_functional.module()
    )
    assert make_functional.PAGE.read_text(encoding="utf-8") == make_functional.page()


def test_oracles_and_reference_entries_belong_to_existing_names() -> None:
    """Every oracle belongs to an existing metric, and every entry of the reference of
    formulas to an existing formula.
    """
    assert REGISTRY.keys() >= ORACLES
    assert reference_entries("functional") <= {
        f"tailmetrics.functional.{name}" for name in formulas()
    }


@pytest.mark.parametrize("name", REGISTRY)
def test_the_help_of_a_metric_says_when_to_use_it_and_what_shapes_it_takes(
    name: str,
) -> None:
    """The docstring of every metric says when to use it and which shapes it takes."""
    docstring = inspect.cleandoc(REGISTRY[name].__doc__ or "")
    paragraphs = [" ".join(text.split()) for text in docstring.split("\n\n")]
    text = "\n".join(paragraphs)
    assert re.search(r"^Use it (when|with) .+\.$", text, re.MULTILINE), name
    assert re.search(r"^``preds`` are .*\(N, L\)", text, re.MULTILINE), name


@pytest.mark.parametrize("name", make_functional.names())
def test_every_formula_has_an_example_of_a_call(name: str) -> None:
    """The docstring of every formula has an example that calls it and shows the value;
    the doctests check the value.
    """
    examples = doctest.DocTestFinder().find(getattr(functional, name), name)[0].examples
    assert any(f"{name}(" in example.source for example in examples), name
    assert examples[-1].want, name
