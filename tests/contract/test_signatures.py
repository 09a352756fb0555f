"""From the class alone a program finds every keyword that a metric takes, with its type."""

from __future__ import annotations

import inspect
from typing import Any, get_args, get_type_hints

import pytest

from tailmetrics import LabelFrequency, RecallAtK, TopKCollection
from tailmetrics._arguments import KEYWORDS, arguments
from tailmetrics.metrics import REGISTRY


def hints(metric: type) -> dict[str, Any]:
    """The types of a constructor's arguments, those of its keywords included."""
    own = next(base for base in metric.__mro__ if "__init__" in vars(base))
    found = get_type_hints(vars(own)["__init__"], include_extras=True)
    (keywords,) = get_args(found.pop("kwargs"))
    return {**get_type_hints(keywords), **found}


@pytest.mark.parametrize("name", REGISTRY)
def test_every_keyword_has_a_type(name: str) -> None:
    """By typing.get_type_hints of the constructor and of the TypedDict of its keywords, TorchMetrics' own included."""
    assert {*arguments(REGISTRY[name]), *KEYWORDS} <= hints(REGISTRY[name]).keys()


@pytest.mark.parametrize("name", [*REGISTRY, "LabelFrequency"])
def test_help_shows_every_argument_with_its_meaning(name: str) -> None:
    """In the signature, with its default, and in the docstring, those of TorchMetrics by reference."""
    metric: Any = REGISTRY.get(name, LabelFrequency)
    shape = inspect.signature(metric)
    assert list(shape.parameters) == [*arguments(metric), *KEYWORDS]
    for argument in arguments(metric):
        assert f"\n        {argument}: " in metric.__doc__, argument
    assert "kwargs: See" not in metric.__doc__.replace("kwargs: See :class:`torchmetrics.Metric`", "")


def test_defaults_of_the_signature_are_those_of_torchmetrics() -> None:
    """A metric made with every default of its signature is the metric made without them."""
    defaults = {name: one.default for name, one in inspect.signature(RecallAtK).parameters.items() if name != "k"}
    assert repr(RecallAtK(1, **defaults)) == repr(RecallAtK(1))
    made, plain = RecallAtK(1, **defaults), RecallAtK(1)
    for name in KEYWORDS:
        assert getattr(made, name, None) == getattr(plain, name, None), name


def test_a_copy_has_the_type_of_what_was_copied() -> None:
    """For type checkers: what ``clone`` returns can be bound, or updated with row weights, as the original."""
    assert inspect.signature(RecallAtK.clone).return_annotation == "Self"
    assert inspect.signature(TopKCollection.clone).return_annotation == "Self"
    assert RecallAtK(k=2).clone().bind(LabelFrequency.from_counts([3, 1], 4)).k == 2
