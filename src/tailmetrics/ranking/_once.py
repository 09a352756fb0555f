"""A value that is computed when it is first read, and then kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Value = TypeVar("Value")


class once(Generic[Value]):  # noqa: N801 - used as a decorator, like property
    """Like ``functools.cached_property``, but without the lock that it takes before Python 3.12.

    ``torch.compile`` cannot trace a lock; a batch is read by one thread.
    """

    def __init__(self, make: Callable[[Any], Value]) -> None:
        self._make = make
        self._name = make.__name__
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> once[Value]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...

    def __get__(self, instance: object | None, owner: type) -> once[Value] | Value:
        """Compute the value, and leave it in the instance, where it is found from then on."""
        if instance is None:
            return self
        value = self._make(instance)
        object.__setattr__(instance, self._name, value)
        return value
