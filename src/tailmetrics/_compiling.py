"""Layer 0: where ``torch.compile`` traces, and what it must not trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.compiler import is_compiling as is_compiling


def eagerly(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function outside of the graph of ``torch.compile``.

    ``torch.compile`` cannot trace an update, and warns about it at length.
    """
    # loaded where something is compiled: elsewhere it takes a second
    from torch._dynamo import disable

    return disable(function)(*args, **kwargs)  # type: ignore[no-untyped-call]
