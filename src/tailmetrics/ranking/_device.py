"""Tables and values that are made once, sums that add up in one order, and the threads of the CPU."""

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


try:
    from torch.compiler import is_compiling as is_compiling
except ImportError:  # before torch 2.3
    from torch._dynamo import is_compiling as is_compiling

FORCED = [False]
_before = local()


@contextmanager
def force_plain() -> Iterator[None]:
    """Run the plain forms also on the CPU, so that tests can compare the bits of both."""
    before, FORCED[0] = FORCED[0], True
    try:
        yield
    finally:
        FORCED[0] = before


class one_thread:  # noqa: N801 - used as a function, like torch.no_grad
    """Run steps on the CPU on one thread. torch would split each of them, and each would wait for the other threads.

    Beside another program that uses all cores, lists of 2 million ids took up to 9 times longer on two threads than on
    one; on an idle machine the second thread saves nothing. What reads much has threads of its own: the C file, and
    :func:`tailmetrics.ranking._device.over_threads`. Other threads that run already keep their number. A thread
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


def whole_numbers(how_many: int, device: torch.device, first: int = 0) -> Tensor:
    """Return whole numbers as a vector, int64. It is a part of a table that is kept: do not change it."""
    end = first + how_many
    return _whole_numbers(1 << max(8, (end - 1).bit_length()), device)[first:end]


def made_once(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a function that makes a table once, on the CPU, and keeps it on each device, with the same bits.

    The function that is wrapped takes what the table depends on; the one that is returned takes the device behind it.
    """
    tables: dict[tuple[Any, ...], Tensor] = {}

    @wraps(make)
    def kept(*args: Any) -> Tensor:
        if is_compiling():  # makes it in the graph: two tables that are kept outside would have one name there
            return _moved(make(*args[:-1]), args[-1])
        key = args, *map(type, args)  # 1 and 1.0 are equal, and make tables of two types
        if key not in tables:
            with torch.inference_mode(False):  # a table made within would be of no use outside
                tables[key] = _moved(make(*args[:-1]), args[-1])
        return tables[key]

    return kept


def _moved(table: Tensor, device: torch.device) -> Tensor:
    return table.to(device, real_dtype(device) if table.is_floating_point() else table.dtype)


@made_once
def _whole_numbers(how_many: int) -> Tensor:
    return torch.arange(how_many, device="cpu")


@made_once
def constant(value: int) -> Tensor:
    """Return a whole number as a tensor without axes, int64. ``torch.where`` would make a new one in each call."""
    return torch.tensor(value, dtype=torch.int64, device="cpu")


def looked_up(table: Tensor, places: Tensor) -> Tensor:
    """Return ``table[places]`` of a vector in a third of the time, as it is read in the order of memory."""
    rows_first = places.is_contiguous()  # else columns lie in one piece, as the hits of the CPU do
    flat = places if rows_first else places.movedim(-1, 0)
    found = table.index_select(0, flat.reshape(-1)).view(flat.shape)
    return found if rows_first else found.movedim(0, -1)


def ordered_sum(terms: Tensor) -> Tensor:
    """Return the sum over the last axis: of neighbours, then of neighbouring sums, and so on.

    The order depends on the places of the terms alone: zeros behind the last term change nothing. W terms take
    1 + log2(W) steps, each of them an addition of two tensors.

    Args:
        terms: Shape (..., W), floating, W >= 1.

    Returns:
        Shape (...).
    """
    width = terms.shape[-1]
    if width <= 3:
        first, *others = terms.unbind(-1)
        return sum(others, start=first)
    sums = terms[..., 0::2] + terms[..., 1::2] if width % 2 == 0 else terms[..., 0::2].clone()
    if width % 2:
        sums[..., :-1].add_(terms[..., 1::2])
    while sums.shape[-1] > 1:  # the steps behind the first need no memory of their own
        right = sums[..., 1::2]
        sums = sums[..., 0::2]
        sums[..., : right.shape[-1]].add_(right)
    return sums[..., 0]


def ordered_prefix_sums(terms: Tensor) -> Tensor:
    """Return :func:`ordered_sum` of the first 0, 1, 2 ... terms [W], shape (W + 1,)."""
    # of each prefix its last term, and in the loop below the sum of neighbours that this term is in
    last, largest = torch.arange(len(terms), device=terms.device), len(terms) - 1
    sums, whole = terms.clone(), terms
    while largest > 0:
        left = whole[(last - 1).clamp(min=0)]
        sums = torch.where(last % 2 == 1, left + sums, sums)
        whole = whole[: len(whole) // 2 * 2].view(-1, 2)
        whole = whole[:, 0] + whole[:, 1]
        last, largest = last // 2, largest // 2
    return torch.cat([terms.new_zeros(1), sums])


Found = TypeVar("Found")

LEAST = 2**18
"""Numbers that are worth a thread: half a millisecond of work or more, to start one takes a fifth of that."""


def over_threads(work: Callable[[Tensor, int], Found], matrix: Tensor) -> list[Found]:
    """Return what ``work`` returns for each part of the rows of a ``matrix``, in their order.

    There is a part for each thread that torch has. Each part runs on one thread from its first step to its
    last. torch would split every step instead: each step then waits for threads that another program may hold.

    Args:
        work: Takes a part of the rows, and the number of its first row.
        matrix: Shape (N, ...).
    """
    num_rows = matrix.shape[0]
    threads = min(matrix.numel() // LEAST, num_rows, num_threads())
    with one_thread():  # threads that start within have one thread for the steps of torch
        if threads <= 1:
            return [work(matrix, 0)]
        ends = [num_rows * number // threads for number in range(threads + 1)]
        with ThreadPoolExecutor(threads - 1) as pool:
            others = [pool.submit(work, matrix[first:end], first) for first, end in pairwise(ends[1:])]
            return [work(matrix[: ends[1]], 0), *(one.result() for one in others)]
