"""Values that lie one below the other, put side by side."""

from __future__ import annotations

import torch
from torch import Tensor

from tailmetrics.ranking._device import reads_are_free


class Slots:
    """Puts values that lie one below the other, ascending by key, side by side: row = key, column = count so far.

    Args:
        keys: Shape (H,), int64, ascending; ``num_keys`` where a value has no place.
        num_keys: Number of rows that result.
        width: The most values of one key that get a place.
    """

    def __init__(self, keys: Tensor, num_keys: int, width: int) -> None:
        counts = torch.zeros(num_keys + 1, dtype=torch.int64, device=keys.device)
        counts.scatter_add_(0, keys, torch.ones_like(keys))
        column = torch.arange(len(keys), device=keys.device) - (counts.cumsum(0) - counts)[keys]
        may_read = reads_are_free(keys.device)
        longest = int(counts[:num_keys].max()) if may_read and num_keys else 0
        self.width = max(1, min(width, longest) if may_read else width)
        self.num_keys = num_keys
        self._places = keys * self.width + column
        if not may_read or longest > self.width or int(counts[num_keys]):
            # what has no place (void, or beyond the width) goes to one cell behind the last, which is cut off
            placed = (keys < num_keys) & (column < self.width)
            self._places = torch.where(placed, self._places, num_keys * self.width)

    def place(self, values: Tensor, fill: float) -> Tensor:
        """Return ``values`` [H] as [num_keys, width]."""
        cells = values.new_full((self.num_keys * self.width + 1,), fill)
        return cells.scatter_(0, self._places, values)[:-1].view(self.num_keys, self.width)
