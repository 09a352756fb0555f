"""The k best scores of every row by sorting whole numbers that hold a score and its place at once."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tailmetrics.ranking._tensors import Array

BLOCK_ELEMENTS = 2**18
"""Scores looked at together: a megabyte, which stays in the cache."""

CANDIDATES = 4
"""Candidates for each place asked for, up to which choosing them first pays; rows of many equal scores have more."""

NAN_FIRST = np.array(0xFFC00000, dtype=np.uint32).view(np.float32)
"""The NaN that is below any other number when its bits are read as one."""


def can_pack(scores: Tensor) -> bool:
    """Whether score and place fit into 64 bits: not with float64 scores."""
    return scores.element_size() <= 4 and scores.shape[1] < 2**32


def packed_top_k(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the ``k`` best scores of each row, best first, and their places; equal scores in the order of places.

    numpy compares and sorts several times faster than ``torch.topk`` does, unless k is small, and as no two keys are
    equal there are no ties left to break. NaN comes first.

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
        block = scores[rows].to(torch.float32).numpy()
        keys = _keys_of_candidates(block, k)
        if keys is None:
            keys = _keys(block, np.arange(width))
            if k < width:
                keys.partition(k - 1, axis=1)
                keys = keys[:, :k]
        keys.sort(axis=1)
        values[rows] = _scores(keys[:, :k])
        np.bitwise_and(keys[:, :k], 0xFFFFFFFF, out=places[rows])
    return torch.from_numpy(values), torch.from_numpy(places)


def _keys_of_candidates(scores: Array, k: int) -> Array | None:
    """Return the keys (N, W) of scores that may be among the ``k`` best of their row, behind them larger numbers.

    None where too many scores would be candidates. Partitioning all keys says the same; with the AVX-512 of a processor
    of AMD numpy 2.4 took six times as long for that as without.
    """
    num_rows, width = scores.shape
    if width < 3 * k:
        return None
    flat = np.flatnonzero(~(scores < _bars(scores, k)))  # so that NaN is a candidate
    starts = np.searchsorted(flat, np.arange(num_rows + 1) * width)
    counts = np.diff(starts)
    most = int(counts.max())
    if most > CANDIDATES * k + 64:
        return None
    keys = np.full((num_rows, most), np.iinfo(np.int64).max)
    row = np.repeat(np.arange(num_rows), counts)
    slot = np.arange(len(flat)) - starts[row]
    keys[row, slot] = _keys(scores.reshape(-1)[flat], flat - row * width)
    return keys


def _bars(scores: Array, k: int) -> Array:
    """Return for each row a number that at least ``k`` of its scores reach, shape (N, 1).

    It is the k-th largest of the maxima of disjoint groups of scores, which are that of a row folded in halves.
    """
    maxima = scores
    while maxima.shape[1] >= 3 * k:
        half = maxima.shape[1] // 2
        maxima = np.maximum(maxima[:, :half], maxima[:, half : 2 * half])
    maxima.partition(-k, axis=1)
    return maxima[:, -k, None]


def _keys(scores: Array, places: Array) -> Array:
    """Return int64 keys that ascend from the best score to the worst, and with the place where scores are equal."""
    negated = np.float32(0) - scores  # 0 - 0 and 0 - -0 are the same zero
    if np.isnan(negated.max(initial=-np.inf)):
        negated[np.isnan(negated)] = NAN_FIRST
    keys = _ordered(negated.view(np.int32)).astype(np.int64)
    keys <<= 32
    keys |= places
    return keys


def _scores(keys: Array) -> Array:
    return np.float32(0) - _ordered((keys >> 32).astype(np.int32)).view(np.float32)


def _ordered(bits: Array) -> Array:
    """Turn the bits of floats into integers of the same order, and back: negative floats have theirs reversed."""
    ordered: Array = bits ^ (bits >> 31 & 0x7FFFFFFF)
    return ordered
