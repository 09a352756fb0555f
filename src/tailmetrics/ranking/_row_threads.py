"""Rows split over threads of our own, which are waited for once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar

import torch
from torch import Tensor

from tailmetrics.ranking._device import num_threads, one_thread, reads_are_free

Found = TypeVar("Found")

LEAST = 2**21
"""Numbers that are worth a thread: a millisecond of work or more, to start one takes a tenth of that."""


def over_threads(work: Callable[[Tensor, int], Found], matrix: Tensor) -> list[Found]:
    """Return what ``work`` returns for each part of the rows of a ``matrix``, in their order.

    On the CPU there is a part for each thread that torch has. Each part runs on one thread from its first step to its
    last. torch would split every step instead: each step then waits for threads that another program may hold. On a
    device there is one part.

    Args:
        work: Takes a part of the rows, and the number of its first row.
        matrix: Shape (N, ...).
    """
    num_rows = matrix.shape[0]
    on_cpu = reads_are_free(matrix.device)
    threads = min(matrix.numel() // LEAST, num_rows, num_threads()) if on_cpu else 1
    with one_thread():  # threads that start within have one thread for the steps of torch
        if threads <= 1:
            return [work(matrix, 0)]
        ends = [num_rows * number // threads for number in range(threads + 1)]
        with ThreadPoolExecutor(threads - 1) as pool:
            others = [pool.submit(work, matrix[first:end], first) for first, end in pairwise(ends[1:])]
            return [work(matrix[: ends[1]], 0), *(one.result() for one in others)]


def joined(parts: list[Tensor] | tuple[Tensor, ...], dim: int = 0) -> Tensor:
    """Return parts as one tensor. One thread joins them: other threads of torch would spin for a while afterwards."""
    if len(parts) == 1:
        return parts[0]
    with one_thread():
        return torch.cat(parts, dim)
