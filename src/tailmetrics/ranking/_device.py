"""Tables and values that are computed once, sums in a fixed order, and the threads of
the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import wraps
from itertools import pairwise
from threading import local
from typing import Any, Generic, TypeVar, overload

import torch
from torch import Tensor

from tailmetrics._compiling import is_compiling as is_compiling

Value = TypeVar("Value")


class once(Generic[Value]):  # noqa: N801 - used as a decorator, like property
    """A property that is computed once, like ``functools.cached_property``, but without
    its lock before Python 3.12.

    ``torch.compile`` cannot trace a lock. No lock is needed, because one thread reads a
    batch.
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


FORCED = [False]


class ProgramThreads(local):
    """The number of threads that the program gave to torch, while :class:`one_thread`
    has set another; else None.
    """

    number: int | None = None


PROGRAM_THREADS = ProgramThreads()


@contextmanager
def force_plain() -> Iterator[None]:
    """Use the plain kernels also on the CPU, so that tests can compare their bits with
    the CPU kernels.
    """
    before, FORCED[0] = FORCED[0], True
    try:
        yield
    finally:
        FORCED[0] = before


class one_thread:  # noqa: N801 - used as a function, like torch.no_grad
    """Run the steps of torch on one thread of the CPU. On several threads, each step
    would wait for all of them.

    Beside another program that uses all cores, lists of 2 million ids took up to 9
    times longer on two threads than on one. On an idle machine the second thread saves
    nothing. Steps that read many values start threads of their own: the C file, and
    :func:`tailmetrics.ranking._device.over_threads`. Threads that run already keep
    their setting. A thread that the program starts meanwhile runs torch on one thread,
    because torch has one setting for all new threads.
    """

    def __enter__(self) -> None:
        self._before = 1 if is_compiling() else torch.get_num_threads()
        if self._before > 1:
            PROGRAM_THREADS.number = self._before
            torch.set_num_threads(1)

    def __exit__(self, *error: object) -> None:
        if self._before > 1:
            torch.set_num_threads(self._before)
            PROGRAM_THREADS.number = None


def num_threads() -> int:
    """Return the number of threads that the program gave to torch. :func:`one_thread`
    does not change it.
    """
    return PROGRAM_THREADS.number or torch.get_num_threads()


def real_dtype(device: torch.device) -> torch.dtype:
    """Return float64, or float32 if the device has no float64."""
    if device.type == "mps":
        return torch.float32
    return torch.float64


def whole_numbers(how_many: int, device: torch.device, first: int = 0) -> Tensor:
    """Return ``how_many`` whole numbers from ``first`` on, int64: a view of a shared
    table, so never write to it.
    """
    end = first + how_many
    return _whole_numbers(1 << max(8, (end - 1).bit_length()), device)[first:end]


def made_once(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Decorate a function that makes a table: a table is made once on the CPU, and kept
    on each device with equal bits.

    The decorated function takes one argument more, the device, behind the arguments of
    ``make``.
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
    """Return a whole number as a tensor without axes, int64. It saves ``torch.where`` a
    new tensor in each call.
    """
    return torch.tensor(value, dtype=torch.int64, device="cpu")


def looked_up(table: Tensor, places: Tensor) -> Tensor:
    """Return ``table[places]`` of a vector, in a third of the time: ``places`` are read
    in the order of memory.
    """
    if places.is_contiguous():
        return table.index_select(0, places.reshape(-1)).view(places.shape)
    # columns are contiguous, as in the hits of the CPU kernels
    by_column = places.movedim(-1, 0)
    return (
        table.index_select(0, by_column.reshape(-1))
        .view(by_column.shape)
        .movedim(0, -1)
    )


def ordered_sum(terms: Tensor) -> Tensor:
    """Return the sum over the last axis: add neighbouring terms, then neighbouring
    sums, and so on.

    The order of the additions depends only on the places of the terms. Zeros behind the
    last term change no bit. W terms take 1 + log2(W) steps; each step adds two tensors.

    Args:
        terms: Shape (..., W), floating, W >= 1.

    Returns:
        Shape (...).
    """
    width = terms.shape[-1]
    if width <= 3:
        first, *others = terms.unbind(-1)
        return sum(others, start=first)
    if width % 2 == 0:
        sums = terms[..., 0::2] + terms[..., 1::2]
    else:
        sums = terms[..., 0::2].clone()
        sums[..., :-1].add_(terms[..., 1::2])
    while sums.shape[-1] > 1:  # all steps but the first add in place
        right = sums[..., 1::2]
        sums = sums[..., 0::2]
        sums[..., : right.shape[-1]].add_(right)
    return sums[..., 0]


def ordered_prefix_sums(terms: Tensor) -> Tensor:
    """Return :func:`ordered_sum` of the first 0, 1, 2 ... W terms, shape (W + 1,)."""
    # ``last``: the place of the last term of each prefix; in the loop, the place of the
    # sum that contains this term
    last, largest = torch.arange(len(terms), device=terms.device), len(terms) - 1
    sums, whole = terms.clone(), terms
    while largest > 0:
        left = whole[(last - 1).clamp(min=0)]
        sums = torch.where(last % 2 == 1, left + sums, sums)
        whole = whole[: len(whole) // 2 * 2].view(-1, 2)
        whole = whole[:, 0] + whole[:, 1]
        last, largest = last // 2, largest // 2
    return torch.cat([terms.new_zeros(1), sums])


Result = TypeVar("Result")

LEAST = 2**18
"""A thread is started for at least this many numbers: half a millisecond of work. The
start takes a fifth of it.
"""


def over_threads(work: Callable[[Tensor, int], Result], matrix: Tensor) -> list[Result]:
    """Call ``work`` on parts of the rows of a ``matrix``, one part for each thread;
    return the results in row order.

    Each part runs on one thread from its first step to its last. If torch split every
    step over threads instead, each step would wait for threads that another program may
    occupy. A small matrix is one part.

    Args:
        work: A function of a part of the rows and the number of its first row.
        matrix: Shape (N, ...).
    """
    num_rows = matrix.shape[0]
    threads = min(matrix.numel() // LEAST, num_rows, num_threads())
    with one_thread():  # each thread of the pool runs torch on one thread
        if threads <= 1:
            return [work(matrix, 0)]
        ends = [num_rows * number // threads for number in range(threads + 1)]
        with ThreadPoolExecutor(threads - 1) as pool:
            futures = [
                pool.submit(work, matrix[first:end], first)
                for first, end in pairwise(ends[1:])
            ]
            results = [work(matrix[: ends[1]], 0)]
            for future in futures:
                results.append(future.result())
            return results
