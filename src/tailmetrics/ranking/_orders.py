"""Small steps on tables and orders that several files share.

They are blocks of rows, orders by two keys, and equal neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


def rows_at_once(cells: int, width: int) -> int:
    """Return how many rows of ``width`` cells fit into ``cells`` cells; at least 1."""
    return max(1, cells // max(1, width))


def in_blocks(num_rows: int, *tables: Tensor) -> Iterable[tuple[Tensor, ...]]:
    """Return blocks of ``num_rows`` rows of several tables, in row order."""
    blocks_by_table = [torch.split(table, num_rows) for table in tables]
    return zip(*blocks_by_table, strict=True)


def along_rows(values: Tensor, num_axes: int) -> Tensor:
    """Return values of rows (N,) with ``num_axes`` axes, (N, 1, ...).

    The result can be combined with a table of N rows.
    """
    return values.view(-1, *[1] * (num_axes - 1))


def row_of_each(cells: Tensor) -> Tensor:
    """Return the row number of each cell of a table (N, ...), in its shape, int64."""
    rows = torch.arange(len(cells), device=cells.device)
    return along_rows(rows, cells.ndim).expand(cells.shape)


def rows_of_cells(cells: Tensor) -> Tensor:
    """Return the row number of each cell of a table (N, W), row by row, int64.

    The result is one contiguous vector.
    """
    return row_of_each(cells).contiguous().view(-1)


def order_by_key(keys: Tensor, order: Tensor, descending: bool = False) -> Tensor:
    """Return ``order`` sorted by ``keys`` along the last axis, stable within a key.

    With an order by score, the result is an order by key first and by score second.

    Args:
        keys: Shape (..., L): the key of each item.
        order: Shape (..., L), int64: the items in their order, as indexes.
        descending: Whether the largest key is first.
    """
    keys_in_order = keys.gather(-1, order)
    return order.gather(
        -1, keys_in_order.argsort(dim=-1, descending=descending, stable=True)
    )


def neighbours(cells: Tensor) -> tuple[Tensor, Tensor]:
    """Return the cells of each row but the last, and the cells but the first.

    The two results pair each cell with the next one.

    Args:
        cells: Shape (..., W).

    Returns:
        Shape (..., W - 1) each.
    """
    return cells[..., :-1], cells[..., 1:]


def repeats_previous(ids: Tensor) -> Tensor:
    """Return whether each id but the first repeats the one before it.

    The ids (N, K) are ascending; the result is bool, shape (N, K - 1).

    The -1 that pads a list repeats nothing.
    """
    previous, following = neighbours(ids)
    return (following == previous) & (following >= 0)


def sums_by_key(amounts: Tensor, keys: Tensor, num_keys: int) -> Tensor:
    """Return the sum of the amounts of each key, shape (..., num_keys).

    The sums have the type of the amounts.

    Args:
        amounts: Shape (..., T).
        keys: Shape (T,), int64, from 0; amounts of the key ``num_keys``, which void
            entries have, are left out.
        num_keys: The number of keys.
    """
    sums = amounts.new_zeros(*amounts.shape[:-1], num_keys + 1)
    sums.scatter_add_(-1, keys.expand_as(amounts), amounts)
    return sums[..., :-1]


def looked_up(table: Tensor, places: Tensor) -> Tensor:
    """Return ``table[places]`` of a vector, in a third of the time.

    ``places`` are read in the order of memory.
    """
    if places.is_contiguous():
        return table.index_select(0, places.reshape(-1)).view(places.shape)
    # columns are contiguous, as in the hits of the CPU kernels
    by_column = places.movedim(-1, 0)
    return (
        table.index_select(0, by_column.reshape(-1))
        .view(by_column.shape)
        .movedim(0, -1)
    )
