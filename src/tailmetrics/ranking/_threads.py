"""The threads of the CPU.

Torch runs on one thread. Steps that read many values divide their rows among several.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from threading import local
from typing import TypeVar

import torch
from torch import Tensor

from tailmetrics._compiling import is_compiling


class ProgramThreads(local):
    """The number of threads that the program gave to torch.

    None unless :class:`one_thread` has set another number.
    """

    number: int | None = None


PROGRAM_THREADS = ProgramThreads()


class one_thread:  # noqa: N801 - used as a function, like torch.no_grad
    """Run the steps of torch on one thread of the CPU.

    On several threads, each step would wait for all of them.

    Beside another program that uses all cores, lists of 2 million ids took up to 9
    times longer on two threads than on one. On an idle machine the second thread saves
    nothing. Steps that read many values start threads of their own: the C file, and
    :func:`over_threads`. Threads that run already keep their setting. A thread that the
    program starts meanwhile runs torch on one thread, because torch has one setting for
    all new threads.
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
    """Return the number of threads that the program gave to torch.

    :func:`one_thread` does not change this number.
    """
    return PROGRAM_THREADS.number or torch.get_num_threads()


Result = TypeVar("Result")

NUMBERS_PER_THREAD = 2**18
"""A thread is started for at least this many numbers: half a millisecond of work.

The start takes a fifth of that time.
"""


def over_threads(work: Callable[[Tensor, int], Result], matrix: Tensor) -> list[Result]:
    """Call ``work`` on parts of the rows of a ``matrix``, one part for each thread.

    Return the results in row order.

    Each part runs on one thread from its first step to its last. If torch split every
    step over threads instead, each step would wait for threads that another program may
    occupy. A small matrix is one part.

    Args:
        work: A function of a part of the rows and the number of its first row.
        matrix: Shape (N, ...).
    """
    num_rows = matrix.shape[0]
    threads = min(matrix.numel() // NUMBERS_PER_THREAD, num_rows, num_threads())
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
