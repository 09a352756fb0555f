"""Rows split over threads of our own, which are waited for once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch
from torch import Tensor

from tailmetrics.ranking._device import num_threads, one_thread

Found = TypeVar("Found")

LEAST = 2**21
"""Numbers that are worth a thread: a millisecond of work or more, to start one takes a tenth of that."""


def over_threads(work: Callable[[Tensor], Found], matrix: Tensor) -> list[Found]:
    """Return what ``work`` returns for each part of the rows of a ``matrix`` (N, L) on the CPU, in their order.

    There is a part for each thread that torch has, and each part runs on one thread from its first step to its last.
    torch would split every step instead: each step then waits for threads that another program may hold.
    """
    threads = min(matrix.numel() // LEAST, matrix.shape[0], num_threads())
    with one_thread(matrix.device):  # threads that start within have one thread for the steps of torch
        if threads <= 1:
            return [work(matrix)]
        first, *others = matrix.tensor_split(threads)
        with ThreadPoolExecutor(len(others)) as pool:
            running = [pool.submit(work, part) for part in others]
            return [work(first), *(one.result() for one in running)]


def joined(parts: list[Tensor] | tuple[Tensor, ...], dim: int = 0) -> Tensor:
    """Return parts as one tensor, on one thread: after a step that torch splits, its other threads spin for a while."""
    with one_thread(parts[0].device):
        return torch.cat(parts, dim)
