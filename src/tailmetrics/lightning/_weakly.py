"""Remembering an object without keeping it alive."""

from __future__ import annotations

from typing import Any
from weakref import ref


class Weakly:
    """A reference that keeps nothing alive, and is empty after pickling.

    Args:
        thing: What is remembered; None for nothing.
    """

    def __init__(self, thing: Any = None) -> None:
        self._thing = None if thing is None else ref(thing)

    def is_other_than(self, thing: Any) -> bool:
        """Whether something is remembered, alive or gone, that is not ``thing``."""
        return self._thing is not None and self._thing() is not thing

    def __reduce__(self) -> Any:
        return Weakly, ()
