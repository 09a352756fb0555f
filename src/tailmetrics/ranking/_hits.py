"""Where the relevant labels of a row stand in its ranked list."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tailmetrics.ranking._device import may_look
from tailmetrics.ranking._targets import Entries, Targets

NOT_RANKED = 2**62
"""The rank of a relevant label that the list does not hold; deeper than any cut-off."""

MANY_TARGETS = 16
"""Targets per row from which searching, log n per listed id, beats comparing, n per listed id."""

SMALL_COMPARISON = 2**16
"""Comparisons up to which all targets of a row are compared with its whole list at once."""

EVERYTHING = NOT_RANKED - 1
"""The cut-off that leaves nothing out, as k=None asks for."""


@dataclass(frozen=True, eq=False)
class Found:
    """Relevant labels one below the other, by row and within a row by rank.

    Like :class:`Entries`, but with ranks: on the CPU just the labels found, on other devices void ones in between,
    with rank ``NOT_RANKED``.

    Attributes:
        rows: Shape (H,), int64.
        ids: Shape (H,), int64; the label.
        ranks: Shape (H,), int64, from 1.
        gains: Shape (H,), float64; None when every gain is 1.
        width: An upper bound of the number of entries per row.
    """

    rows: Tensor
    ids: Tensor
    ranks: Tensor
    gains: Tensor | None
    width: int


def find(targets: Targets, ids: Tensor) -> Found:
    """Look the relevant labels of each row up in its ranked list ``ids`` [N, K], -1 padded."""
    if not may_look(ids.device):
        return _find_all(targets, ids)
    if targets.dense is not None:
        hits = targets.dense.gather(1, ids.clamp(min=0)) & (ids >= 0) if targets.num_labels else ids >= 0
        return _at(hits.view(-1).nonzero().squeeze(1), ids, None)
    entries = targets.entries
    stride = _stride(entries, ids)
    if len(entries.ids) <= MANY_TARGETS * len(ids) or stride * len(ids) > 2**62:
        return _find_by_comparing(entries, ids)
    flat, entry = _find_by_searching(entries, ids, stride)
    return _at(flat, ids, None if entries.gains is None else entries.gains[entry])


def find_in_small(targets: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return ranks, ascending, and labels of targets [N, M] in lists ``ids`` [N, K], both [N, M], by comparing all.

    A few calls instead of some thirty; for batches so small that calls are what costs. Twin: :func:`find`.
    """
    wanted = targets - (targets < 0).to(torch.int64)  # -2 pads them, so that the -1 of a list is none of them
    equal = ids[:, None, :] == wanted[:, :, None]
    ranks = torch.where(equal, torch.arange(1, ids.shape[1] + 1), NOT_RANKED).amin(dim=2)
    if targets.shape[1] == 1:
        return ranks, targets
    ranks, order = ranks.sort(dim=1)
    return ranks, targets.gather(1, order)


def _find_by_comparing(entries: Entries, ids: Tensor) -> Found:
    """Compare each target with the list of its row, a block of targets at a time."""
    depth = ids.shape[1]
    block = max(1, 2**18 // max(1, depth))
    found = []
    for start in range(0, len(entries.ids), block):
        part = slice(start, start + block)
        equal = ids.index_select(0, entries.rows[part]) == entries.ids[part, None]
        places = equal.nonzero()
        places[:, 0] += start
        found.append(places)
    entry, column = torch.cat(found).unbind(1) if found else (ids.new_empty(0), ids.new_empty(0))
    flat = entries.rows[entry] * depth + column
    if entries.gains is None:
        return _at(torch.from_numpy(np.sort(flat.numpy())), ids, None)
    flat, order = flat.sort()
    return _at(flat, ids, entries.gains[entry[order]])


def _find_by_searching(entries: Entries, ids: Tensor, stride: int) -> tuple[Tensor, Tensor]:
    """Search each listed id among the sorted targets; return flat positions of the hits and their entries."""
    keys, order = _search_keys(entries, stride, void=entries.ids < 0)
    rows = torch.arange(len(ids), device=ids.device)[:, None]
    wanted = torch.where(ids >= 0, rows * stride + ids, -1).view(-1)
    place = torch.searchsorted(keys, wanted).clamp(max=len(keys) - 1)
    flat = (keys[place] == wanted).nonzero().squeeze(1)
    return flat, order[place[flat]]


def _search_keys(entries: Entries, stride: int, void: Tensor) -> tuple[Tensor, Tensor]:
    """Return the targets as sorted (row, label) keys and the entry of each; void entries come last."""
    keys = torch.where(void, torch.iinfo(torch.int64).max, entries.rows * stride + entries.ids)
    return keys.sort()


def _stride(entries: Entries, ids: Tensor) -> int:
    return max(int(part.max()) for part in (entries.ids, ids) if part.numel()) + 1 if entries.ids.numel() else 1


def _at(flat: Tensor, ids: Tensor, gains: Tensor | None) -> Found:
    """Return the hits at ``flat`` positions of the list, in order."""
    depth = max(1, ids.shape[1])
    return Found(flat // depth, ids.reshape(-1)[flat], flat % depth + 1, gains, depth)


def _find_all(targets: Targets, ids: Tensor) -> Found:
    """Return an entry for every place of every list, void where it is no hit: nothing waits for the device."""
    num_rows, depth = ids.shape
    if targets.dense is not None:
        listed = targets.dense.gather(1, ids.clamp(min=0)) if depth else ids
        hits = (listed > 0) & (ids >= 0)
        gains = None if targets.binary else listed.to(torch.float64).reshape(-1)
    else:
        # any id is a place among the sorted targets, so that (row, place) fits where (row, id) might not
        known = targets.entries.ids.sort().values
        places = Entries(targets.entries.rows, torch.searchsorted(known, targets.entries.ids), None, 0)
        keys, order = _search_keys(places, len(known) + 1, void=targets.entries.ids < 0)
        rows = torch.arange(num_rows, device=ids.device)[:, None]
        listed = torch.searchsorted(known, ids.contiguous())
        exact = known[listed.clamp(max=max(0, len(known) - 1))] == ids if len(known) else ids < -1
        wanted = torch.where(exact, rows * (len(known) + 1) + listed, -1)
        place = torch.searchsorted(keys, wanted.view(-1)).clamp(max=max(0, len(keys) - 1))
        hits = (keys[place] == wanted.view(-1)).view(ids.shape) & (ids >= 0) if len(keys) else ids < -1
        gains = None if targets.binary or not len(keys) else targets.entries.gains[order[place]]  # type: ignore[index]
    ranks = torch.where(hits, torch.arange(1, depth + 1, device=ids.device), NOT_RANKED)
    rows = torch.arange(num_rows, device=ids.device).repeat_interleave(depth, output_size=num_rows * depth)
    return Found(rows, ids.reshape(-1), ranks.view(-1), gains, depth)
