"""The scores of all labels of a batch, in blocks of a few rows."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from tailmetrics.ranking import Ranking

SORTED_SCORES = 2**21
"""Number of scores that are sorted at once: 8 MB in float32."""


def dense_blocks(ranking: Ranking, num_labels: int) -> Iterator[tuple[int, Tensor]]:
    """Yield the scores of all labels in blocks of a few rows.

    A block is the number of its first row, and the scores, float32 or float64.
    """
    height = max(1, SORTED_SCORES // max(1, num_labels))
    for first in range(0, ranking.num_rows, height):
        if ranking.scores is not None:
            block = ranking.scores[first : first + height]
            yield first, block.to(torch.promote_types(block.dtype, torch.float32))
            continue
        assert ranking.values is not None
        ids = ranking.ids[first : first + height]
        values = ranking.values[first : first + height, : ids.shape[1]]
        values = values.to(torch.promote_types(values.dtype, torch.float32))
        block = values.new_full((len(ids), num_labels + 1), -torch.inf)
        place = torch.where(ids >= 0, ids, num_labels)
        yield (
            first,
            block.scatter_reduce_(1, place, values, reduce="amax")[:, :num_labels],
        )
