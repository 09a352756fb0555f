"""Rows split over threads of our own, which are waited for once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar

import torch
from torch import Tensor

from tailmetrics.ranking._device import num_threads, one_thread

Found = TypeVar("Found")

LEAST = 2**21
"""Numbers that are worth a thread: a millisecond of work or more, to start one takes a tenth of that."""


def over_threads(work: Callable[[slice], Found], matrix: Tensor) -> list[Found]:
    """Return what ``work`` returns for each part of the rows of a ``matrix`` (N, L) on the CPU, in their order.

    There is a part for each thread that torch has, and each part runs on one thread from its first step to its last.
    torch would split every step instead: each step then waits for threads that another program may hold.
    """
    num_rows = len(matrix)
    threads = max(1, min(num_threads(), num_rows, matrix.numel() // LEAST))
    ends = (num_rows * number // threads for number in range(threads + 1))
    first, *others = (slice(*rows) for rows in pairwise(ends))
    with one_thread(matrix.device):  # threads that start within have one thread for the steps of torch
        if not others:
            return [work(first)]
        with ThreadPoolExecutor(len(others)) as pool:
            running = [pool.submit(work, rows) for rows in others]
            return [work(first), *(one.result() for one in running)]


def joined(parts: list[Tensor] | tuple[Tensor, ...], dim: int = 0) -> Tensor:
    """Return parts as one tensor, on one thread: after a step that torch splits, its other threads spin for a while."""
    with one_thread(parts[0].device):
        return torch.cat(parts, dim)
