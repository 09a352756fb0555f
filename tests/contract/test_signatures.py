"""From the class alone a program finds every keyword that a metric takes, with its type."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

import pytest

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
