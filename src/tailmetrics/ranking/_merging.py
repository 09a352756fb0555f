"""The best labels of a row put together from the best labels of pieces of the label space."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tailmetrics.ranking._kernels import Kernels


@dataclass(frozen=True, eq=False)
class Best:
    """The best labels of some part of the label space, best first, the lower label first among equal scores.

    Attributes:
        values: Shape (N, K), floating, at least float32.
        ids: Shape (N, K), int64.
    """

    values: Tensor
    ids: Tensor


def best_of(kernels: Kernels, scores: Tensor, first: int, depth: int) -> Best:
    """Return the ``depth`` best of ``scores`` (N, C), the labels from ``first`` on."""
    depth = min(depth, scores.shape[1])
    values, ids, _ = kernels.top_k(scores, depth)
    return Best(values[:, :depth].to(torch.promote_types(scores.dtype, torch.float32)), ids + first)


def merged(kernels: Kernels, parts: list[Best], depth: int, in_order: bool = False) -> Best:
    """Return the ``depth`` best of several parts; ``in_order`` where each has only lower labels than the next."""
    values, ids = (torch.cat(side, dim=1) for side in zip(*((part.values, part.ids) for part in parts), strict=True))
    if not in_order:
        ids, order = ids.sort(dim=1, stable=True)
        values = values.gather(1, order)
    depth = min(depth, ids.shape[1])
    values, places, _ = kernels.top_k(values, depth)  # equal scores as they stand, in the order of their labels
    return Best(values[:, :depth], ids.gather(1, places))
