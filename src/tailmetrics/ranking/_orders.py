"""Small steps on tables and orders that several files share: blocks of rows, orders by
two keys, equal neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from tailmetrics._compiling import is_compiling as is_compiling


def rows_at_once(cells: int, width: int) -> int:
    """Return how many rows of ``width`` cells together have at most ``cells`` cells; at
    least 1.
    """
    return max(1, cells // max(1, width))


def in_blocks(num_rows: int, *tables: Tensor) -> Iterable[tuple[Tensor, ...]]:
    """Return blocks of ``num_rows`` rows of several tables: the first rows of each
    table, then the next ones.
    """
    blocks_by_table = [torch.split(table, num_rows) for table in tables]
    return zip(*blocks_by_table, strict=True)


def along_rows(values: Tensor, num_axes: int) -> Tensor:
    """Return values of rows (N,) with ``num_axes`` axes, (N, 1, ...), to be combined
    with a table of such rows.
    """
    return values.view(-1, *[1] * (num_axes - 1))


def row_of_each(cells: Tensor) -> Tensor:
    """Return the number of the row of each cell of a table (N, ...), int64, in the
    shape of the table.
    """
    rows = torch.arange(len(cells), device=cells.device)
    return along_rows(rows, cells.ndim).expand(cells.shape)


def rows_of_cells(cells: Tensor) -> Tensor:
    """Return the number of the row of each cell of a table (N, W), row by row, as one
    contiguous vector, int64.
    """
    return row_of_each(cells).contiguous().view(-1)


def order_by_key(keys: Tensor, order: Tensor, descending: bool = False) -> Tensor:
    """Return ``order`` sorted by ``keys`` along the last axis; within a key the order
    stays as it is.

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
    """Return the cells of each row but the last, and the cells but the first: each
    cell, and the next one.

    Args:
        cells: Shape (..., W).

    Returns:
        Shape (..., W - 1) each.
    """
    return cells[..., :-1], cells[..., 1:]


def repeats_previous(ids: Tensor) -> Tensor:
    """Return whether each id but the first repeats the one before it, for ascending ids
    (N, K), bool (N, K - 1).

    The -1 that pads a list repeats nothing.
    """
    previous, following = neighbours(ids)
    return (following == previous) & (following >= 0)


def sums_by_key(amounts: Tensor, keys: Tensor, num_keys: int) -> Tensor:
    """Return the sum of the amounts of each key, shape (..., num_keys), of the type of
    the amounts.

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
    """Return ``table[places]`` of a vector, in a third of the time: ``places`` are read
    in the order of memory.
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
