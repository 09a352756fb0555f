"""Batches of row numbers: what one pass over a sampler shows, and each row of it once over all processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import torch
from torch import Tensor


def one_pass(batch_sampler: Any, limit: int | None, sampler: Any) -> list[Tensor] | None:
    """Return the row numbers of each batch of one pass, None where rows are not numbered by whole numbers.

    Args:
        batch_sampler: What gives the batches.
        limit: Number of batches to take; None takes all.
        sampler: What ``batch_sampler`` draws from, if anything; its generator is left as it was.
    """
    stop = len(batch_sampler) if limit is None else limit  # a sampler may go on for ever
    with _same_generators(batch_sampler, getattr(batch_sampler, "sampler", None), sampler):
        batches = [list(batch) for batch in islice(batch_sampler, stop)]
    try:
        numbered = [torch.tensor([row.__index__() for row in batch], dtype=torch.int64) for batch in batches]
    except (AttributeError, TypeError):
        return None
    return None if any(bool((batch < 0).any()) for batch in numbered) else numbered


def each_once(batches: list[Tensor], rows: int, trainer: Any, device: torch.device | str) -> list[list[int]]:
    """Return the batches without rows that came before, in this process or in one of a lower number.

    Every process calls it; batches stay as they are otherwise, so that what is batched together still fits together.

    Args:
        batches: Row numbers of this process.
        rows: Number of rows of the data set.
        trainer: Tells the number of this process, and of all.
        device: Where processes exchange tensors.
    """
    first = torch.full((rows,), trainer.world_size, dtype=torch.int32)
    for batch in batches:
        first[batch] = trainer.global_rank
    if trainer.world_size > 1:
        shared = first.to(device)
        torch.distributed.all_reduce(shared, op=torch.distributed.ReduceOp.MIN)
        first = shared.cpu()
    mine = first == trainer.global_rank
    kept = [_taken(batch, mine) for batch in batches]
    return [batch for batch in kept if batch]


def _taken(batch: Tensor, left: Tensor) -> list[int]:
    """Return the rows of a batch that are left, each once, and mark them as taken."""
    rows = batch[left[batch]]
    left[rows] = False
    return list(dict.fromkeys(rows.tolist()))


@contextmanager
def _same_generators(*samplers: Any) -> Iterator[None]:
    """Leave the generators of samplers as they were: counting must not change the order of training."""
    found = [getattr(sampler, "generator", None) for sampler in samplers]
    before = [(one, one.get_state()) for one in found if isinstance(one, torch.Generator)]
    try:
        yield
    finally:
        for generator, state in before:
            generator.set_state(state)
