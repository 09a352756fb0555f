"""The k best scores of every row by partitioning whole numbers that hold a score and its place at once."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tailmetrics.ranking._tensors import Array

BLOCK_ELEMENTS = 2**16
"""Scores packed together: half a megabyte of keys, which stays in the cache."""

NAN_FIRST = np.array(0xFFC00000, dtype=np.uint32).view(np.float32)
"""The NaN that is below any other number when its bits are read as one."""


def can_pack(scores: Tensor) -> bool:
    """Whether score and place fit into 64 bits: not with float64 scores."""
    return scores.element_size() <= 4 and scores.shape[1] < 2**32


def packed_top_k(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the ``k`` best scores of each row, best first, and their places; equal scores in the order of places.

    numpy partitions and sorts integers several times faster than ``torch.topk`` does, unless k is small, and as no
    two keys are equal there are no ties left to break. It does so on one thread: each of its many short calls would
    have to wait for the interpreter. NaN comes first.

    Args:
        scores: Shape (N, C), float16, bfloat16 or float32, on the CPU; C < 2^32.
        k: At most C.

    Returns:
        Values, float32, and places, int64, both of shape (N, k).
    """
    num_rows, width = scores.shape
    values, places = np.empty((num_rows, k), np.float32), np.empty((num_rows, k), np.int64)
    height = max(1, BLOCK_ELEMENTS // max(1, width))
    for first in range(0, num_rows, height):
        rows = slice(first, first + height)
        keys = _keys(scores[rows].to(torch.float32).numpy())
        if k < width:
            keys.partition(k - 1, axis=1)
            keys = keys[:, :k]
        keys.sort(axis=1)
        values[rows] = _scores(keys)
        np.bitwise_and(keys, 0xFFFFFFFF, out=places[rows])
    return torch.from_numpy(values), torch.from_numpy(places)


def _keys(scores: Array) -> Array:
    """Return int64 keys that ascend from the best score to the worst, and with the place where scores are equal."""
    negated = np.float32(0) - scores  # 0 - 0 and 0 - -0 are the same zero
    if np.isnan(negated.max(initial=-np.inf)):
        negated[np.isnan(negated)] = NAN_FIRST
    keys = _ordered(negated.view(np.int32)).astype(np.int64)
    keys <<= 32
    keys |= np.arange(scores.shape[1])
    return keys


def _scores(keys: Array) -> Array:
    return np.float32(0) - _ordered((keys >> 32).astype(np.int32)).view(np.float32)


def _ordered(bits: Array) -> Array:
    """Turn the bits of floats into integers of the same order, and back: negative floats have theirs reversed."""
    ordered: Array = bits ^ (bits >> 31 & 0x7FFFFFFF)
    return ordered
