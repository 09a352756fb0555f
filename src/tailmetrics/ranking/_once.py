"""Properties and tables that are computed once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Generic, TypeVar, overload

import torch
from torch import Tensor

from tailmetrics._compiling import is_compiling
from tailmetrics.ranking._device import real_dtype

Value = TypeVar("Value")


class once(Generic[Value]):  # noqa: N801 - used as a decorator, like property
    """A property that is computed once, like ``functools.cached_property``.

    Unlike ``cached_property`` before Python 3.12, this class has no lock.
    ``torch.compile`` cannot trace a lock. One thread reads a batch, so none is needed.
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
        """Compute the value and store it in the instance; later reads find it there."""
        if instance is None:
            return self
        value = self._make(instance)
        object.__setattr__(instance, self._name, value)
        return value


def whole_numbers(how_many: int, device: torch.device, first: int = 0) -> Tensor:
    """Return ``how_many`` whole numbers from ``first`` on, int64.

    The tensor is a view of a shared table, so never write to it.
    """
    end = first + how_many
    return _whole_numbers(1 << max(8, (end - 1).bit_length()), device)[first:end]


def made_once(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Decorate a function that makes a table, so that each table is made once.

    The table is made on the CPU and copied to each device with equal bits.

    The decorated function takes the device behind the arguments of ``make``.
    """
    tables: dict[tuple[Any, ...], Tensor] = {}

    @wraps(make)
    def table(*args: Any) -> Tensor:
        # make the table in the graph: two tables from outside would get one name in the
        # graph
        if is_compiling():
            return _moved(make(*args[:-1]), args[-1])
        # 1 and 1.0 are equal, and make tables of two types
        key = args, *map(type, args)
        if key not in tables:
            # a table made in inference mode could not be used outside of it
            with torch.inference_mode(False):
                tables[key] = _moved(make(*args[:-1]), args[-1])
        return tables[key]

    return table


def _moved(table: Tensor, device: torch.device) -> Tensor:
    return table.to(
        device, real_dtype(device) if table.is_floating_point() else table.dtype
    )


@made_once
def _whole_numbers(how_many: int) -> Tensor:
    return torch.arange(how_many, device="cpu")


@made_once
def constant(value: int) -> Tensor:
    """Return a whole number as a tensor without axes, int64.

    ``torch.where`` then does not make a new tensor in each call.
    """
    return torch.tensor(value, dtype=torch.int64, device="cpu")
