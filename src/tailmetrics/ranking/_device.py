"""Tables and numbers that are made once for each device, and the threads of the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from threading import local
from typing import Any

import torch
from torch import Tensor

try:
    from torch.compiler import is_compiling as is_compiling
except ImportError:  # before torch 2.3
    from torch._dynamo import is_compiling as is_compiling

_forced = [False]
_before = local()


def reads_are_free(device: torch.device) -> bool:
    """Whether reading a value costs nothing: on the CPU, and not while ``torch.compile`` traces.

    Elsewhere it would make the program wait for the device, or break the graph.
    """
    return device.type == "cpu" and not _forced[0] and not is_compiling()


@contextmanager
def force_plain() -> Iterator[None]:
    """Run the plain forms on the CPU too, for tests that both give the same bits."""
    before, _forced[0] = _forced[0], True
    try:
        yield
    finally:
        _forced[0] = before


class one_thread:  # noqa: N801 - used as a function, like torch.no_grad
    """Run steps on the CPU on one thread. torch would split each of them, and each would wait for the other threads.

    Beside another program that uses all cores, lists of 2 million ids took up to 9 times longer on two threads than on
    one; on an idle machine the second thread saves nothing. What reads much has threads of its own: the C file, and
    :func:`tailmetrics.ranking._row_threads.over_threads`. Other threads that run already keep their number. A thread
    that the program starts meanwhile gets one, since torch keeps the number for new threads in one place.
    """

    def __enter__(self) -> None:
        self._before = 1 if is_compiling() else torch.get_num_threads()
        if self._before > 1:
            _before.threads = self._before
            torch.set_num_threads(1)

    def __exit__(self, *error: object) -> None:
        if self._before > 1:
            torch.set_num_threads(self._before)
            _before.threads = None


class program_threads:  # noqa: N801 - as above
    """Run the program's own work, such as a model that is asked for scores, on all threads of the program."""

    def __enter__(self) -> None:
        self._within = num_threads() > torch.get_num_threads()
        if self._within:
            torch.set_num_threads(num_threads())

    def __exit__(self, *error: object) -> None:
        if self._within:
            torch.set_num_threads(1)


def num_threads() -> int:
    """Return how many threads the program has given to torch, within :func:`one_thread` too."""
    return getattr(_before, "threads", None) or torch.get_num_threads()


def real_dtype(device: torch.device) -> torch.dtype:
    """Return float64, or float32 where a device has no such type."""
    return torch.float32 if device.type == "mps" else torch.float64


def exact_real(largest: int) -> torch.dtype:
    """Return the narrower real type of the CPU that holds every whole number up to ``largest``."""
    return torch.float32 if largest < 2**24 else torch.float64


def whole_numbers(how_many: int, device: torch.device, first: int = 0) -> Tensor:
    """Return whole numbers as a vector, int64. It is a part of a table that is kept: do not change it."""
    end = first + how_many
    return _whole_numbers(1 << max(8, (end - 1).bit_length()), device)[first:end]


def made_once(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Let a table be made on the CPU once and kept on each device: the same bits everywhere, no wait but the first.

    The function that is wrapped takes what the table depends on; the one that is returned takes the device behind it.
    """
    tables: dict[tuple[Any, ...], Tensor] = {}

    @wraps(make)
    def kept(*args: Any) -> Tensor:
        if is_compiling():  # makes it in the graph: two tables that are kept outside would have one name there
            return _moved(make(*args[:-1]), args[-1])
        if args not in tables:
            with torch.inference_mode(False):  # a table made within would be of no use outside
                tables[args] = _moved(make(*args[:-1]), args[-1])
        return tables[args]

    return kept


def _moved(table: Tensor, device: torch.device) -> Tensor:
    return table.to(device, real_dtype(device) if table.is_floating_point() else table.dtype)


@made_once
def _whole_numbers(how_many: int) -> Tensor:
    return torch.arange(how_many, device="cpu")


@made_once
def constant(value: int | float) -> Tensor:
    """Return a number as a tensor without axes, int64 or real. ``torch.where`` would make a new one in each call."""
    return torch.tensor(value, dtype=torch.int64 if isinstance(value, int) else torch.float64, device="cpu")
