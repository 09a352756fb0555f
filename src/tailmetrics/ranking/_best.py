"""The largest values of each row, of values that lie one below the other."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tailmetrics.ranking._slots import Slots


def best_by_sorting(keys: Tensor, num_keys: int, value: Tensor, width: int) -> Tensor:
    """Sort all values, then by key, and keep the first of each key: memory as the values, whatever their spread."""
    order = value.argsort(descending=True, stable=True)
    order = order[keys[order].argsort(stable=True)]
    return Slots(keys[order], num_keys, width).place(value[order], 0.0)


def best_side_by_side(keys: Tensor, num_keys: int, value: Tensor) -> Tensor:
    """Put the values of each key side by side and sort the rows: faster where keys hold about as many.

    Twin: :func:`best_by_sorting`.
    """
    if bool((keys[1:] < keys[:-1]).any()):
        order = keys.argsort(stable=True)
        keys, value = keys[order], value[order]
    rows = Slots(keys, num_keys, len(keys)).place(value.neg(), 0.0).numpy()
    rows.sort(axis=1)
    return torch.from_numpy(np.subtract(0.0, rows, out=rows))  # 0 - 0 is 0, and -0 no number of a gain
