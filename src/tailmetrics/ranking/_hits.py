"""The data of the ranking steps: relevant labels and hits.

Relevant labels are flat entries; hits are a table with one row per list.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tailmetrics.ranking._device import real_dtype
from tailmetrics.ranking._once import once, whole_numbers
from tailmetrics.ranking._orders import looked_up, order_by_key

NOT_RANKED = 2**62
"""The rank of a relevant label outside the list; larger than any cut-off."""

EVERYTHING = NOT_RANKED - 1
"""The cut-off of ``k=None``, which cuts nothing off."""


@dataclass(eq=False)
class Hits:
    """The hits of ranked lists, one row per list, sorted by rank.

    A hit is a relevant label in the list.

    If the list is ``7 2 5`` and the labels 5 and 7 are relevant, the ranks are 1 3 and
    the ids are 7 5.

    Attributes:
        ranks: Shape (..., W), int64, from 1, ascending; ``NOT_RANKED`` behind the last
            hit. W >= 1.
        ids: Shape (..., W), int64: the label of each hit; any number behind the last
            hit.
        gains: Shape (..., W), float64: the gain of each hit; any number behind the last
            hit. None if every gain is 1.
    """

    ranks: Tensor
    ids: Tensor
    gains: Tensor | None


class LazyHits(Hits):
    """Hits whose labels and gains are looked up at first use.

    Most formulas read only ranks.

    Args:
        ranks: Shape (..., W), int64.
        source: An object with the attributes ``ids`` and ``gains``, from which the
            values are looked up.
        look_up: A function of ``source.ids`` or ``source.gains`` and a fill value. It
            returns the values of the hits, shape (..., W). The fill value may stand
            where there is no hit.
    """

    def __init__(
        self, ranks: Tensor, source: Any, look_up: Callable[[Tensor, float], Tensor]
    ) -> None:
        self.ranks, self._source, self._look_up = ranks, source, look_up

    @once
    def ids(self) -> Tensor:
        """The labels of the hits."""
        return self._look_up(self._source.ids, -1)

    @once
    def gains(self) -> Tensor | None:
        """The gains of the hits; None if every gain is 1."""
        if self._source.gains is None:
            return None
        return self._look_up(self._source.gains, 0.0)


class LabelWeights:
    """One weight per label.

    A ranking looks equal weights up once for all metrics that use them.

    Args:
        values: Shape (L,), float64.
        remembered: Whether a ranking keeps the weights that it has looked up, for the
            next metric with equal weights.

    Attributes:
        num_labels: L.
        digest: The SHA-256 of the values, which identifies the weights; "" if
            ``remembered`` is False.
    """

    def __init__(self, values: Tensor, remembered: bool = True) -> None:
        self._values = values
        self.num_labels = len(values)
        self._on: dict[torch.device, Tensor] = {}
        self.digest = ""
        if remembered:
            self.digest = sha256(
                values.detach().cpu().contiguous().numpy().tobytes()
            ).hexdigest()

    @classmethod
    def of(cls, weights: LabelWeights | Tensor) -> LabelWeights:
        """Return ``weights``, or a vector (L,) wrapped as ``LabelWeights``.

        A wrapped vector is not remembered, because the vector may change.
        """
        if isinstance(weights, LabelWeights):
            return weights
        return cls(weights, remembered=False)

    def on(self, device: torch.device) -> Tensor:
        """Return the weights on a device, shape (L,).

        They are float64, or float32 if the device has no float64.
        """
        if device not in self._on:
            self._on[device] = self._values.detach().to(device, real_dtype(device))
        return self._on[device]


class BestLabels(NamedTuple):
    """The ``k`` best labels of each row; of equal scores, the lower label comes first.

    Attributes:
        values: Shape (N, min(k + 1, L)): the best scores, best first. The score behind
            the first k shows whether the cut-off falls inside a tie.
        ids: Shape (N, k), int64: the labels.
        distinct: Whether the scores are known to be strictly descending.
        filled: Whether the scores of the ids are known to be neither NaN nor -inf.
    """

    values: Tensor
    ids: Tensor
    distinct: bool = False
    filled: bool = False


class ListCheck(NamedTuple):
    """The result of a check of lists of ids.

    Attributes:
        lowest: The lowest id; 0 if there are no ids.
        highest: The highest id; -1 if there are no ids.
        gap_row: The first row with an id behind a -1; None if there is no such row.
        repeat_row: The first row that holds an id >= 0 twice; None if no row does.
    """

    lowest: int
    highest: int
    gap_row: int | None
    repeat_row: int | None


@dataclass(frozen=True, eq=False)
class Entries:
    """The relevant labels of all rows as a flat list, by ascending row.

    Label ``ids[t]`` is relevant in ``rows[t]``.

    An entry with ``ids[t] == -1`` is void: it stands for no label. The CPU kernels
    remove void entries. On a device they stay, because the program would wait for the
    device to remove them.

    Attributes:
        rows: Shape (T,), int64.
        ids: Shape (T,), int64.
        gains: Shape (T,), float64 > 0; any number if the entry is void. None if every
            gain is 1.
        width: An upper bound of the number of entries of a row.
    """

    rows: Tensor
    ids: Tensor
    gains: Tensor | None
    width: int

    def at(self, places: Tensor) -> Entries:
        """Return the entries at ``places``: a tensor of indexes, or a mask."""
        gains = None if self.gains is None else self.gains[places]
        return Entries(self.rows[places], self.ids[places], gains, self.width)


class Padding:
    """Turns a vector of values into a padded table, with one row for each key.

    Args:
        keys: Shape (H,), int64: the row of each value, a flat index into ``shape``; a
            value with the key N or N * G gets no place. Ascending unless ``order`` is
            given.
        shape: (N,) or (N, G).
        width: A row takes at most this many values.
        can_read_values: Whether values may be read. If so, the table is no wider than
            its longest row.
        order: Shape (H,), int64: a permutation of the values, which sets their order
            within a row; None keeps the order of the vector.

    Attributes:
        filled: Shape (*shape, width), bool: True where the table holds a value, False
            where it is padded.
    """

    def __init__(
        self,
        keys: Tensor,
        shape: tuple[int, ...],
        width: int,
        can_read_values: bool,
        order: Tensor | None = None,
    ) -> None:
        if order is not None:
            order = order_by_key(keys, order)
            keys = keys[order]
        ends = torch.searchsorted(keys, whole_numbers(prod(shape) + 1, keys.device))
        first, counts = ends[:-1], ends.diff()
        if can_read_values and len(counts):
            width = min(width, int(counts.max()))
        columns = whole_numbers(max(1, width), keys.device)
        self.filled = (columns < counts[:, None]).view(*shape, len(columns))
        places = (
            (first[:, None] + columns)
            .clamp_(max=max(0, len(keys) - 1))
            .view(self.filled.shape)
        )
        if order is not None and len(order):
            places = looked_up(order, places)
        self._places = places

    def place(self, values: Tensor, fill: float) -> Tensor:
        """Return ``values`` (H,) as a table (*shape, width), padded with ``fill``."""
        if not len(values):
            return values.new_full(self.filled.shape, fill)
        return torch.where(self.filled, looked_up(values, self._places), fill)

    def hits(self, ranks: Tensor, ids: Tensor, gains: Tensor | None) -> Hits:
        """Return flat hits (H,) as a table of hits (*shape, width).

        Within a key the hits must be in order of rank.
        """
        if gains is not None:
            gains = self.place(gains, 0.0)
        return Hits(self.place(ranks, NOT_RANKED), self.place(ids, -1), gains)
