"""The k best labels of every row of a dense score matrix, ties to the lower id."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import isqrt, log2

import numpy as np
import torch
from torch import Tensor

from tailmetrics.ranking._device import exact_real, reads_are_free, whole_numbers
from tailmetrics.ranking._packed import can_pack, packed_top_k
from tailmetrics.ranking._row_threads import joined, over_threads

BLOCK_ELEMENTS = 2**20
"""Scores gathered at once by the two-stage form: 4 MB, about what stays in the cache."""

TIED_ELEMENTS = 2**21
"""Scores of tied rows repaired together, and of half types widened together: 8 MB, about what stays in the cache."""

SCANNED = 64
"""Scores per label asked for from which ``torch.topk`` scans a row; below, it partitions, at four times the price."""

MANY = 10
"""Labels from which packing scores with their places is faster than a scan."""

SMALL = 2**17
"""Scores below which a dozen calls cost more than the reading they save."""

SORTED = 2**12
"""Width up to which a device sorts a row in one pass; a wider one takes a pass for each byte of a score and more."""

ROUND_ELEMENTS = 2**28
"""Scores of one tournament: what it holds beside them is a third of that, a third of a gigabyte of float32."""


def plain_top_k(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the ``k`` best labels per row by sorting everything: the definition, on any device.

    A stable descending sort keeps equal scores in the order of their ids.

    Args:
        scores: Shape (N, L), floating, without NaN.
        k: At most L.

    Returns:
        Values, best first, of shape (N, min(k + 1, L)): one more than asked for shows whether the cut falls inside
        a tie. Ids of shape (N, k), int64.
    """
    values, ids = torch.sort(scores, dim=1, descending=True, stable=True)
    return values[:, : k + 1], ids[:, :k]


def top_k(scores: Tensor, k: int) -> tuple[Tensor, Tensor, bool]:
    """Return the same as :func:`plain_top_k`, in about one reading of the scores.

    The third item says whether the values were seen to be :func:`strictly_descending`.
    """
    if not scores.numel() or k == 0:
        return *plain_top_k(scores, k), False
    if not reads_are_free(scores.device):
        return *stable_top_k(scores, k), False
    parts = over_threads(lambda part, _: _top_k_of_rows(part, k), scores)
    values, ids, distinct = zip(*parts, strict=True)
    return joined(values), joined(ids), all(distinct)


def _top_k_of_rows(scores: Tensor, k: int) -> tuple[Tensor, Tensor, bool]:
    depth = min(k + 1, scores.shape[1])
    values, ids, exact = _fastest(scores, depth)(scores, depth)
    distinct = strictly_descending(values)
    if not distinct and not exact:
        _repair_ties(scores, values, ids, k)
    return values, ids[:, :k], distinct


def strictly_descending(values: Tensor) -> bool:
    """Whether every row falls from place to place: then it holds no tie, and no NaN but in a row of one."""
    return bool((values[:, :-1] > values[:, 1:]).all())


def stable_top_k(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the same as :func:`plain_top_k`, without looking at a value, and so without waiting for a device.

    Only chunks of a row that can hold one of its best labels are looked into, as in :func:`_two_stage_top_k`, until
    what is left is narrow enough to be sorted in one pass. Each choice is a stable sort, so that ties need no repair.
    At [1024, 131072] and k = 500 that moves 1.1 GB by 45 launches, sorting everything 23 GB by 6.
    """
    height = max(1, ROUND_ELEMENTS // scores.shape[1])
    depth = min(k + 1, scores.shape[1])
    parts = [_tournament(part, depth) for part in torch.split(scores, height)]
    if len(parts) == 1:
        values, ids = parts[0][0].clone(memory_format=torch.contiguous_format), parts[0][1].contiguous()
    else:  # either way not parts of something wide that would be kept
        values, ids = map(torch.cat, zip(*parts, strict=True))
    return values, ids[:, :k]


def _tournament(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the ``k`` best values and their places, both (N, k), as part of something wider."""
    num_rows, width = scores.shape
    chunk = _narrowing(width, k, SORTED)
    if chunk < 2:
        values, places = torch.sort(scores, dim=1, descending=True, stable=True)
        return values[:, :k], places[:, :k]
    whole = width - width % chunk
    chunks = scores[:, :whole].view(num_rows, -1, chunk)
    best = _tournament(chunks.amax(dim=2), k)[1].sort(dim=1).values  # places among them in the order of labels
    found = chunks[whole_numbers(num_rows, scores.device)[:, None], best].flatten(1)
    found = torch.cat([found, scores[:, whole:]], dim=1) if whole < width else found
    values, place = _tournament(found, k)
    in_chunks = place.clamp(max=k * chunk - 1) if whole < width else place
    ids = torch.add(in_chunks % chunk, best.gather(1, in_chunks // chunk), alpha=chunk)
    if whole < width:
        ids = torch.where(place < k * chunk, ids, place + (whole - k * chunk))
    return values, ids


@cache
def _narrowing(width: int, k: int, at_once: int) -> int:
    """Return the size of chunks that leaves about as many chunks as labels within the chosen ones; 1 for no chunks.

    Fewer chunks than can be sorted ``at_once``; and so many that choosing ``k`` leaves at least three out of four.
    Where a size up to twice as large or small leaves no rest of the row, the one next to it: a rest takes five calls.
    """
    if width <= at_once:
        return 1
    least, most = -(-width // at_once), width // (4 * k)
    wanted = min(max(least, isqrt(width // k)), most)
    sizes = range(max(2, least, -(-wanted // 2)), min(most, 2 * wanted) + 1)
    return min((size for size in sizes if width % size == 0), key=lambda size: abs(size - wanted), default=wanted)


def _packs(scores: Tensor, k: int) -> bool:
    """Whether packing scores with their places is faster than ``torch.topk`` on one thread, as measured."""
    return can_pack(scores) and not (_scans(scores, k) and k < MANY)


def _scans(scores: Tensor, k: int) -> bool:
    """Whether ``torch.topk`` scans rows."""
    return scores.shape[1] >= SCANNED * k


def _fastest(scores: Tensor, k: int) -> Callable[[Tensor, int], tuple[Tensor, Tensor, bool]]:
    """Return how to find values, best first, ids, and whether equal scores are in the order of ids; as measured.

    If they are not, the choice among equal scores at the cut may be any.
    """
    if scores.numel() < SMALL:
        return _any_top_k if _scans(scores, k) else _select
    return _select if scores.shape[1] < (256 if _packs(scores, k) else 160) * k else _two_stage_top_k


def _any_top_k(scores: Tensor, k: int) -> tuple[Tensor, Tensor, bool]:
    return *torch.topk(scores, k, dim=1), False


def _select(scores: Tensor, k: int) -> tuple[Tensor, Tensor, bool]:
    return (*packed_top_k(scores, k), True) if _packs(scores, k) else _any_top_k(scores, k)


def _chunk_size(num_labels: int, k: int) -> int:
    """Return the width at which finding the k best chunks and searching them cost about the same, as measured."""
    return int(min(256, max(32, 2 ** round(log2(1.2 * (num_labels / k) ** 0.5)))))


def _two_stage_top_k(scores: Tensor, k: int) -> tuple[Tensor, Tensor, bool]:
    """Return what :func:`_select` does, reading little but the maxima of chunks.

    Every one of the k best labels lies in one of the k chunks with the largest maxima (if a chunk were left out, k
    others would each hold a score at least as large), so only those are searched. Among equal maxima the choice
    matters where the cut falls inside a tie: the first chunks hold the lower ids.
    """
    num_rows, num_labels = scores.shape
    chunk = _chunk_size(num_labels, k)
    block = max(1, BLOCK_ELEMENTS // (k * chunk))
    wide = torch.float32 if scores.element_size() < 4 else scores.dtype
    if wide != scores.dtype:  # half types are read faster as float32, a block that stays in the cache at a time
        block = min(block, max(1, TIED_ELEMENTS // num_labels))
    values = scores.new_empty(num_rows, k, dtype=wide)
    ids = torch.empty(num_rows, k, dtype=torch.int64)
    exact = True
    for start in range(0, num_rows, block):
        rows = slice(start, start + block)
        values[rows], ids[rows], exact = _chunked_top_k(scores[rows].to(wide).contiguous(), k, chunk)
    return values, ids, exact


def _chunked_top_k(scores: Tensor, k: int, chunk: int) -> tuple[Tensor, Tensor, bool]:
    num_rows, num_labels = scores.shape
    whole = num_labels - num_labels % chunk
    chunks = scores[:, :whole].view(num_rows, -1, chunk)
    _, best, first_chunks = _select(chunks.amax(dim=2), k)
    # in their order, so that places among them are in the order of ids
    best = torch.from_numpy(np.sort(best.numpy(), axis=1)) * chunk
    # Every stretch of `chunk` scores as a row of a table that takes no memory of its own: index_select copies the
    # chosen ones as wholes, ten times faster than gather copies them score by score.
    stretches = scores.as_strided((scores.numel() - chunk + 1, chunk), (1, 1))
    first = best + torch.arange(0, scores.numel(), num_labels)[:, None]
    found = stretches.index_select(0, first.view(-1)).view(num_rows, k * chunk)
    found = torch.cat([found, scores[:, whole:]], dim=1) if whole < num_labels else found
    values, position, in_order = _select(found, k)
    in_chunks = position.clamp(max=k * chunk - 1)
    ids = best.gather(1, in_chunks // chunk) + in_chunks % chunk
    if whole < num_labels:
        ids = torch.where(position < k * chunk, ids, position - k * chunk + whole)
    return values, ids, first_chunks and in_order


def _repair_ties(scores: Tensor, values: Tensor, ids: Tensor, k: int) -> None:
    """Give equal scores to the lower ids, in place; the values are right already."""
    tied = (values[:, 1:] == values[:, :-1]) & (values[:, 1:] > -torch.inf)
    if values.shape[1] > k:
        block = max(1, TIED_ELEMENTS // scores.shape[1])
        cut = tied[:, k - 1].nonzero().squeeze(1)
        for start in range(0, len(cut), block):
            part = cut[start : start + block]
            ids[part, :k] = _lowest_ids_at_the_cut(scores[part], values[part, :k], ids[part, :k])
    rows = tied.any(dim=1).nonzero().squeeze(1)
    order = ids[rows, :k].argsort(dim=1)
    by_id = ids[rows, :k].gather(1, order)
    by_score = values[rows, :k].gather(1, order).argsort(dim=1, descending=True, stable=True)
    ids[rows, :k] = by_id.gather(1, by_score)


def _lowest_ids_at_the_cut(scores: Tensor, values: Tensor, ids: Tensor) -> Tensor:
    """Return ``ids`` with those that share the last value replaced by the lowest ids that have it."""
    num_labels, k = scores.shape[1], values.shape[1]
    # The lower the id the larger the key, 0 where the score is another one.
    key_type = exact_real(num_labels)
    descending = torch.arange(num_labels, 0, -1, dtype=key_type)
    at_cut = (scores == values[:, -1:]).to(key_type).mul_(descending)
    keys, *_ = _fastest(at_cut, k)(at_cut, k)
    lowest = num_labels - keys.to(torch.int64)
    above = (values > values[:, -1:]).sum(dim=1, keepdim=True)
    position = torch.arange(k) - above
    return torch.where(position < 0, ids, lowest.gather(1, position.clamp(min=0)))
