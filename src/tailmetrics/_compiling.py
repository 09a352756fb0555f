"""Layer 0: where ``torch.compile`` traces, and what it must not trace."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from torch.compiler import is_compiling as is_compiling

Method = TypeVar("Method", bound=Callable[..., Any])


def eagerly(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function outside of the graph of ``torch.compile``.

    ``torch.compile`` cannot trace an update, and warns about it at length.
    """
    # loaded where something is compiled: elsewhere it takes a second
    from torch._dynamo import disable

    return disable(function)(*args, **kwargs)  # type: ignore[no-untyped-call]


def outside_of_graph(method: Method) -> Method:
    """Return a method that compiled code calls outside of its graph."""

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return eagerly(method, *args, **kwargs)
        return method(*args, **kwargs)

    return cast("Method", call)
