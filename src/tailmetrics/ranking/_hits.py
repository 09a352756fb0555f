"""Where the relevant labels of a row stand in its ranked list."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from tailmetrics.ranking._device import constant, whole_numbers
from tailmetrics.ranking._targets import Entries, Targets
from tailmetrics.ranking._tensors import Array

NOT_RANKED = 2**62
"""The rank of a relevant label that the list does not hold; deeper than any cut-off."""

SHORT = 10
"""Length of a list up to which each relevant label is compared with the whole of it."""

BLOCK_ELEMENTS = 2**16
"""Labels compared or sorted together: half a megabyte, which stays in the cache."""

SMALL = 2**16
"""Comparisons of a relevant label with a place of a list up to which all of them are made at once."""

EVERYTHING = NOT_RANKED - 1
"""The cut-off that leaves nothing out, as k=None asks for."""


def find(targets: Targets, ids: Tensor) -> Entries:
    """Look the relevant labels of each row up in its ranked list ``ids`` [N, K], -1 padded.

    Returns:
        The labels found, by row and within a row by rank.

    Twin, for devices: :class:`tailmetrics.ranking._listed.ListedHits`.
    """
    if targets.dense is not None:
        hits = targets.dense.gather(1, ids.clamp(min=0)) & (ids >= 0) if targets.num_labels else ids >= 0
        return _at(hits.view(-1).nonzero().squeeze(1), ids, None)
    entries = targets.entries
    flat, entry = (_by_comparing if ids.shape[1] <= SHORT else _by_sorting)(entries, ids)
    if entries.gains is None:
        return _at(torch.from_numpy(np.sort(flat)), ids, None)
    order = np.argsort(flat)
    return _at(torch.from_numpy(flat[order]), ids, entries.gains[torch.from_numpy(entry[order])])


def find_in_small(targets: Targets, ids: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return ranks, ascending, and labels of the hits of each row, both [N, W], ``NOT_RANKED`` behind the last.

    A few calls instead of some thirty; for batches so small that calls are what costs, None for others and for gains.
    Twin: :func:`find`.
    """
    wanted = targets.padded
    # of a mask all places of a list are sorted, each at the price of some eight comparisons
    per_place = wanted.shape[1] if wanted is not None else 8 if targets.mask is not None else 0
    if not 0 < per_place * ids.numel() <= SMALL:
        return None
    places = whole_numbers(ids.shape[1], ids.device, first=1)
    not_ranked = constant(NOT_RANKED, ids.device)
    if wanted is not None:
        # -2 instead of the -1 that pads them, so that the -1 of a list is none of them
        labels = wanted if targets.filled else torch.where(wanted < 0, constant(-2, ids.device), wanted)
        equal = ids.unsqueeze(1) == labels.unsqueeze(2)
        ranks, labels = torch.where(equal, places, not_ranked).amin(dim=2), wanted
    else:
        assert targets.mask is not None
        labels = ids.clamp(min=0)
        ranks = torch.where(targets.mask.gather(1, labels) & (ids >= 0), places, not_ranked)
    if ranks.shape[1] == 1:
        return ranks, labels
    ranks, order = ranks.sort(dim=1)
    return ranks, labels.gather(1, order)


def _by_comparing(entries: Entries, ids: Tensor) -> tuple[Array, Array]:
    """Compare each relevant label with the list of its row; return flat positions of the hits and their entries."""
    rows, relevant, listed = entries.rows.numpy(), entries.ids.numpy(), ids.contiguous().numpy()
    depth = ids.shape[1]
    found = [(np.empty(0, np.int64), np.empty(0, np.int64))]
    together = max(1, BLOCK_ELEMENTS // max(1, depth))
    for first in range(0, len(rows) if depth else 0, together):
        part = slice(first, first + together)
        # of a contiguous list, take is ten times as fast as indexing
        equal = listed.take(rows[part], axis=0) == relevant[part, None]
        entry, place = np.divmod(np.flatnonzero(equal), depth)
        entry += first
        found.append((rows[entry] * depth + place, entry))
    return _joined(found)


def _by_sorting(entries: Entries, ids: Tensor) -> tuple[Array, Array]:
    """Sort the listed and the relevant labels of each row together: those that are both come to stand side by side.

    numpy sorts short rows of integers at a few nanoseconds each. Where numbers of relevant labels matter beside the
    length of the list, rows with most of them come first, so that those sorted together have about as many, whatever
    the longest has. Returns what :func:`_by_comparing` does.
    """
    depth, relevant = ids.shape[1], entries.ids.numpy()
    counts = np.bincount(entries.rows.numpy(), minlength=len(ids))
    starts = counts.cumsum() - counts
    most = int(counts.max(initial=0))
    uneven = most > depth // 8
    order = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)] if uneven else np.arange(len(ids))
    listed, relevant, kind = _small_enough(ids.numpy(), relevant, depth + most)
    found, first = [(np.empty(0, np.int64), np.empty(0, np.int64))], 0
    while first < len(order):
        most = int(counts[order[first]]) if uneven else most
        part = slice(first, first + max(1, BLOCK_ELEMENTS // (depth + most)))
        rows = order[part]
        first += len(rows)
        slots = np.arange(most)
        entries_of = np.where(slots < counts[rows, None], starts[rows, None] + slots, -1)
        wanted = np.where(entries_of >= 0, relevant[entries_of], -2)  # what a list is padded with is no label
        row, slot, place = _side_by_side(wanted, listed[rows] if uneven else listed[part], kind)
        found.append((rows[row] * depth + place, entries_of[row, slot]))
    return _joined(found)


def _joined(found: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    flat, entry = zip(*found, strict=True)
    return np.concatenate(flat), np.concatenate(entry)


def _side_by_side(wanted: Array, listed: Array, kind: type[np.signedinteger[Any]]) -> tuple[Array, Array, Array]:
    """Return row, column in ``wanted`` [N, M] and column in ``listed`` [N, K] of each label that is in both."""
    most, width = wanted.shape[1], wanted.shape[1] + listed.shape[1]
    bits = width.bit_length()
    keys = np.concatenate([wanted, listed], axis=1, dtype=kind, casting="same_kind")
    keys <<= bits  # a label, and behind it the column it comes from
    keys |= np.arange(width, dtype=kind)
    keys.sort(axis=1)
    labels = keys >> bits
    row, column = np.divmod(np.flatnonzero(labels[:, 1:] == labels[:, :-1]), width - 1)
    first, second = (keys[row, side] & (1 << bits) - 1 for side in (column, column + 1))
    both = (first < most) & (second >= most)
    return row[both], first[both], second[both] - most


def _small_enough(listed: Array, relevant: Array, width: int) -> tuple[Array, Array, type[np.signedinteger[Any]]]:
    """Return the labels, and integers in which they fit beside a column below ``width``; 32 bits sort twice as fast.

    Labels that are too large even for 64 bits are numbered anew.
    """
    largest = max(int(labels.max(initial=0)) for labels in (listed, relevant))
    if largest < 1 << 62 - width.bit_length():
        short = int(listed.min(initial=0)) > -2 and largest < 1 << 30 - width.bit_length()
        return listed, relevant, np.int32 if short else np.int64
    known, number = np.unique(np.concatenate([listed.ravel(), relevant]), return_inverse=True)
    number = number.ravel() - np.searchsorted(known, 0)  # -1 stays below 0
    return number[: listed.size].reshape(listed.shape), number[listed.size :], np.int64


def _at(flat: Tensor, ids: Tensor, gains: Tensor | None) -> Entries:
    """Return the hits at ``flat`` positions of the list, in order."""
    depth = max(1, ids.shape[1])
    return Entries(flat // depth, ids.reshape(-1)[flat], gains, depth, ranks=flat % depth + 1)
