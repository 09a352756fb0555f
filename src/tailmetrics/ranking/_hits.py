"""Relevant labels one below the other, and the hits among them side by side: what every step hands to the next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tailmetrics.ranking._device import looked_up, once, real_dtype, whole_numbers

NOT_RANKED = 2**62
"""The rank of a relevant label that the list does not hold; deeper than any cut-off."""

EVERYTHING = NOT_RANKED - 1
"""The cut-off that leaves nothing out, as k=None asks for."""


@dataclass(eq=False)
class Hits:
    """The relevant labels that lists hold, side by side, by rank.

    A list ``7 2 5`` whose relevant labels are 5 and 7 has the ranks 1 3 and the ids 7 5.

    Attributes:
        ranks: Shape (..., W), int64, from 1, ascending; ``NOT_RANKED`` behind the last hit. W >= 1.
        ids: Shape (..., W), int64; meaningless where not ranked.
        gains: Shape (..., W), float64; anything where not ranked; None where every gain is 1.
    """

    ranks: Tensor
    ids: Tensor
    gains: Tensor | None


class LazyHits(Hits):
    """Hits whose labels and gains are looked up at first use: most formulas read only ranks.

    Args:
        ranks: Shape (..., W), int64.
        source: Has the labels and gains that are looked up, as ``ids`` and ``gains``.
        look_up: Takes ``source.ids`` or ``source.gains`` and a fill value. Returns the values of the hits, shape
            (..., W), and the fill value where there is no hit.
    """

    def __init__(self, ranks: Tensor, source: Any, look_up: Callable[[Tensor, float], Tensor]) -> None:
        self.ranks, self._source, self._look_up = ranks, source, look_up

    @once
    def ids(self) -> Tensor:
        """The labels of the hits."""
        return self._look_up(self._source.ids, -1)

    @once
    def gains(self) -> Tensor | None:
        """The gains of the hits; None where every gain is 1."""
        return None if self._source.gains is None else self._look_up(self._source.gains, 0.0)


class LabelWeights:
    """One weight per label; a ranking looks equal weights up once, whatever metrics ask for them.

    Args:
        values: Shape (L,), float64.
        remembered: Whether a ranking remembers what it looked up for equal weights.

    Attributes:
        digest: What tells these weights from others, the SHA-256 of the values; "" for weights that are not remembered.
    """

    def __init__(self, values: Tensor, remembered: bool = True) -> None:
        self._values = values
        self._on: dict[torch.device, Tensor] = {}
        self.digest = sha256(values.detach().cpu().contiguous().numpy().tobytes()).hexdigest() if remembered else ""

    @classmethod
    def of(cls, weights: LabelWeights | Tensor) -> LabelWeights:
        """Return weights given as a vector (L,) in this form; nothing is remembered of a vector, which may change."""
        return weights if isinstance(weights, LabelWeights) else cls(weights, remembered=False)

    def on(self, device: torch.device) -> Tensor:
        """Return the weights on a device, shape (L,), float64, or float32 where a device has no such type."""
        if device not in self._on:
            self._on[device] = self._values.detach().to(device, real_dtype(device))
        return self._on[device]


class ListCheck(NamedTuple):
    """What a check of lists of ids has found.

    Attributes:
        lowest: The lowest id; 0 without ids.
        highest: The highest id; -1 without ids.
        gap_row: The first row with an id behind a -1; None if there is no such row.
        repeat_row: The first row that holds an id >= 0 twice; None if there is no such row.
    """

    lowest: int
    highest: int
    gap_row: int | None
    repeat_row: int | None


@dataclass(frozen=True, eq=False)
class Entries:
    """Relevant labels one below the other, rows ascending: entry t says that ``ids[t]`` is relevant in ``rows[t]``.

    An entry is void where ``ids[t] == -1``: leaving it out would mean waiting for a device. On the CPU none is void.

    Attributes:
        rows: Shape (T,), int64.
        ids: Shape (T,), int64.
        gains: Shape (T,), float64 > 0; None when every gain is 1.
        width: An upper bound of the number of entries per row, known without looking at them.
    """

    rows: Tensor
    ids: Tensor
    gains: Tensor | None
    width: int

    def at(self, places: Tensor) -> Entries:
        """Return the entries at ``places``, an index or a mask of entries."""
        gains = None if self.gains is None else self.gains[places]
        return Entries(self.rows[places], self.ids[places], gains, self.width)


def entries_of_ids(ids: Tensor, gains: Tensor | None) -> Entries:
    num_rows, width = ids.shape
    rows = torch.arange(num_rows, device=ids.device)
    rows = rows if width == 1 else rows.repeat_interleave(width, output_size=num_rows * width)
    return Entries(rows, ids.reshape(-1), None if gains is None else gains.reshape(-1), width)


class Padding:
    """Makes a table of a vector of values: those of one key become a row.

    Args:
        keys: Shape (H,), int64: places in ``shape``; the number of places where a value has none. Ascending unless
            ``order`` is given.
        shape: (N,) or (N, G).
        width: The most values of one key that get a place.
        reads: Whether values may be looked at: the rows are then no wider than they must be.
        order: Shape (H,), int64: the order in which the values of a key stand; None for that in which they lie.

    Attributes:
        filled: Shape (*shape, width), bool: where a value stands.
    """

    def __init__(
        self, keys: Tensor, shape: tuple[int, ...], width: int, reads: bool, order: Tensor | None = None
    ) -> None:
        if order is not None:
            order = order[keys[order].argsort(stable=True)]
            keys = keys[order]
        if reads:
            counts = torch.bincount(keys, minlength=prod(shape))[: prod(shape)]
            first = counts.cumsum(0) - counts
            width = min(width, int(counts.max()) if len(counts) else 0)
        else:
            ends = torch.searchsorted(keys, whole_numbers(prod(shape) + 1, keys.device))
            first, counts = ends[:-1], ends[1:] - ends[:-1]
        columns = whole_numbers(max(1, width), keys.device)
        self.filled = (columns < counts[:, None]).view(*shape, len(columns))
        places = (first[:, None] + columns).clamp_(max=max(0, len(keys) - 1)).view(self.filled.shape)
        self._places = looked_up(order, places) if order is not None and len(order) else places

    def place(self, values: Tensor, fill: float) -> Tensor:
        """Return ``values`` [H] as [*shape, width]."""
        if not len(values):
            return values.new_full(self.filled.shape, fill)
        return torch.where(self.filled, looked_up(values, self._places), fill)

    def hits(self, ranks: Tensor, ids: Tensor, gains: Tensor | None) -> Hits:
        """Return hits [H], which stand in the order of their ranks, as [*shape, width]."""
        padded = None if gains is None else self.place(gains, 0.0)
        return Hits(self.place(ranks, NOT_RANKED), self.place(ids, -1), padded)
