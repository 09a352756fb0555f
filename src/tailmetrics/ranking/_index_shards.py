"""Lists of index shards, each of which searched some of the labels, put side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from tailmetrics._checks import INTEGERS, check_count, check_row_mask, shape_of
from tailmetrics.ranking._context import Context
from tailmetrics.ranking._tensors import as_tensor


def side_by_side(
    context: Context, shards: Any, first_labels: Sequence[int] | None, row_mask: Any
) -> tuple[Tensor, Tensor, int]:
    """Return scores and ids of all shards (N, C), and how long the shortest list is, padding left out.

    Args:
        context: Who asks.
        shards: Pairs of scores (N, C) and ids (N, C).
        first_labels: What is added to the ids of each shard; None where they are labels already.
        row_mask: Shape (N,), bool; the rows that count, None for all.
    """
    caller = context.caller
    given = list(shards) if isinstance(shards, Iterable) and not isinstance(shards, Tensor) else []
    if not given or not all(isinstance(one, (tuple, list)) and len(one) == 2 for one in given):
        raise TypeError(
            f"{caller}: shards is {shape_of(shards)}; pass a list with a pair of scores [N, C] and ids [N, C] for each "
            "shard."
        )
    firsts = [0] * len(given) if first_labels is None else list(first_labels)
    if len(firsts) != len(given):
        raise ValueError(
            f"{caller}: there are {len(given)} shards and {len(firsts)} first_labels; pass one for each shard."
        )
    pairs = [_pair(caller, number, *one) for number, one in enumerate(given)]
    for number, (scores, _) in enumerate(pairs):
        if (len(scores), scores.dtype, scores.device) != (len(pairs[0][0]), pairs[0][0].dtype, pairs[0][0].device):
            raise ValueError(
                f"{caller}: shard {number} has scores {shape_of(scores)} on {scores.device}, the first shard "
                f"{shape_of(pairs[0][0])} on {pairs[0][0].device}; pass lists of the same rows, of one type."
            )
    firsts = [check_count(caller, "first_labels", first, minimum=0) for first in firsts]
    ids = [torch.where(ids >= 0, ids + first, ids) for (_, ids), first in zip(pairs, firsts, strict=True)]
    lengths = torch.stack([((ids >= 0) & (scores > -torch.inf)).sum(dim=1) for scores, ids in pairs], dim=1)
    mask = check_row_mask(caller, row_mask, len(lengths), lengths.device)
    lengths = lengths if mask is None else lengths[mask]
    shortest = int(lengths.min()) if lengths.numel() else 0
    return torch.cat([scores for scores, _ in pairs], dim=1), torch.cat(ids, dim=1), shortest


def _pair(caller: str, number: int, scores: Any, ids: Any) -> tuple[Tensor, Tensor]:
    scores, ids = as_tensor(caller, f"shards[{number}][0]", scores), as_tensor(caller, f"shards[{number}][1]", ids)
    if not scores.is_floating_point() or ids.dtype not in INTEGERS or scores.ndim != 2 or scores.shape != ids.shape:
        raise ValueError(
            f"{caller}: shard {number} is ({shape_of(scores)}, {shape_of(ids)}); pass floating scores [N, C] and "
            "integer ids [N, C] of one shape."
        )
    return scores.detach(), ids.detach().to(torch.int64)
