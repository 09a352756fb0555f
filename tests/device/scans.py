"""Sums and scans of floats in the order in which CUDA adds, as far as it is known, on the CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


def tiled_scan(rows: Tensor) -> Tensor:
    """Return the cumulative sums of each row [N, W], added in tiles whose width depends on N and W.

    A row is cut into tiles of twice as many places as threads work on it. Within a tile, whose first place gets the sum
    of those before, neighbours are added, then the last of each pair to the pair on its right, and so on.
    """
    num_rows, width = rows.shape
    sums = rows.clone()
    carried = torch.zeros(num_rows, dtype=rows.dtype)
    tile = 2 * threads_of_a_row(num_rows, width)
    for start in range(0, width, tile):
        part = torch.zeros(num_rows, tile, dtype=rows.dtype)
        part[:, : min(tile, width - start)] = rows[:, start : start + tile]
        part[:, 0] += carried
        step = 1
        while step < tile:
            pairs = part.view(num_rows, -1, 2, step)
            pairs[:, :, 1] += pairs[:, :, 0, -1:]
            step *= 2
        sums[:, start : start + tile] = part[:, : width - start]
        carried = part[:, -1]
    return sums


def threads_of_a_row(num_rows: int, width: int) -> int:
    """Return how many of a block's 512 threads work on one row: the more, the wider and fewer the rows."""
    wide, high = (max(0, (size - 1).bit_length()) for size in (width, num_rows))
    return 2 ** min(max(4, (9 + wide - high) // 2), 9)


def shuffled_sum(values: Tensor, dims: list[int], keepdim: bool) -> Tensor:
    """Return the sum over some axes, every other term after the rest."""
    for dim in dims:
        order = torch.cat([torch.arange(1, values.shape[dim], 2), torch.arange(0, values.shape[dim], 2)])
        values = values.index_select(dim, order)
    return torch.ops.aten.sum.dim_IntList(values.contiguous(), dims, keepdim)


class OrderOfADevice(TorchDispatchMode):
    """Runs each sum and scan of floats in an order that another device might choose, and counts the scans."""

    def __init__(self) -> None:
        super().__init__()
        self.scans = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        floats = bool(args) and isinstance(args[0], Tensor) and args[0].is_floating_point()
        if floats and name == "cumsum" and args[0].ndim and args[0].numel():
            self.scans += 1
            dim = args[1] % args[0].ndim
            last = args[0].movedim(dim, -1)
            return tiled_scan(last.reshape(-1, last.shape[-1])).view(last.shape).movedim(-1, dim)
        if (
            floats
            and name == "sum"
            and func._overloadname == "dim_IntList"
            and args[1]
            and not (kwargs or {}).get("dtype")
        ):
            dims = [dim % args[0].ndim for dim in args[1]]
            return shuffled_sum(args[0], dims, args[2] if len(args) > 2 else False)
        return func(*args, **(kwargs or {}))
