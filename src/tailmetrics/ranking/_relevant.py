"""How many labels are relevant, and the best of them, whether the list holds them or not."""

from __future__ import annotations

import torch
from torch import Tensor

from tailmetrics.buckets import LabelBuckets
from tailmetrics.ranking._best import best_by_sorting, best_side_by_side
from tailmetrics.ranking._columns import CHUNK, ColumnChunks
from tailmetrics.ranking._device import is_compiling, reads_are_free, real_dtype, whole_numbers
from tailmetrics.ranking._once import once
from tailmetrics.ranking._targets import Targets
from tailmetrics.ranking._weights import LabelWeights

DEEP = 16
"""How many of the best are found at least, so that most cut-offs share one search."""


class RelevantLabels:
    """The relevant labels of each row, or of each row and bucket.

    Args:
        targets: What is relevant in N rows.
        buckets: G buckets; None for none.
    """

    def __init__(self, targets: Targets, buckets: LabelBuckets | None) -> None:
        self._targets = targets
        self._buckets = buckets
        self._known: dict[str | None, Tensor] = {}

    @once
    def n(self) -> Tensor:
        """How many there are, shape (N,) or (N, G), int64."""
        if self._buckets is None:
            return self._targets.n_relevant
        if self._chunks is not None:
            return self._looked_over[0]
        padded = self._targets.padded
        if padded is not None and not reads_are_free(padded.device):
            groups = whole_numbers(len(self._buckets), padded.device)
            return (self._buckets.of(padded).unsqueeze(2) == groups).sum(dim=1)
        counts = torch.zeros(self._num_keys + 1, dtype=torch.int64, device=self._keys.device)
        ones = torch.ones_like(self._keys)
        return counts.scatter_add_(0, self._keys, ones)[:-1].view(self._targets.num_rows, len(self._buckets))

    @once
    def most(self) -> int:
        """An upper bound of :attr:`n`, the least one where that does not make a device wait."""
        if reads_are_free(self._targets.device):
            return int(self.n.max()) if self.n.numel() else 0
        return self._targets.widest

    def best(self, k: int, weights: LabelWeights | None = None) -> Tensor:
        """Return their ``k`` largest gains, or weights, largest first, then zeros, shape (..., W), W <= k, float64."""
        if weights is not None and not weights.digest:
            return self._best(k, weights)[..., :k]
        memo = None if weights is None else weights.digest
        known = self._known.get(memo)
        if known is None or known.shape[-1] < min(k, self.most):
            known = self._known[memo] = self._best(k, weights)
        return known[..., :k]

    @once
    def _keys(self) -> Tensor:
        """The row, or row and bucket, of each entry as one number; that behind the last for void ones."""
        entries = self._targets.entries
        if self._buckets is None:
            if reads_are_free(entries.ids.device):
                return entries.rows
            return torch.where(entries.ids >= 0, entries.rows, self._num_keys)
        keys = entries.rows * len(self._buckets) + self._buckets.of(entries.ids)
        return torch.where(entries.ids >= 0, keys, self._num_keys)

    @property
    def _num_keys(self) -> int:
        return self._targets.num_rows * (1 if self._buckets is None else len(self._buckets))

    @property
    def _chunks(self) -> ColumnChunks | None:
        """The columns of a dense matrix on a device by bucket; None of any other form.

        While ``torch.compile`` traces there are none: it cannot take tables along that are kept outside.
        """
        dense = self._targets.dense
        if dense is None or not dense.numel() or reads_are_free(dense.device) or is_compiling():
            return None
        return ColumnChunks.of(self._buckets, dense.shape[1], dense.device)

    @once
    def _looked_over(self) -> tuple[Tensor, Tensor | None]:
        """The number of relevant labels, and the largest gains of each chunk of columns where there are gains."""
        return self._look_over(None)

    def _look_over(self, weights: LabelWeights | None) -> tuple[Tensor, Tensor | None]:
        targets = self._targets
        assert self._chunks is not None
        assert targets.dense is not None
        maxima = weights is not None or not targets.binary
        counts, largest = self._chunks.look_over(targets.dense, weights, maxima)
        return counts if targets.row_mask is None else counts * targets.row_mask[:, None], largest

    def _best_in_chunks(self, k: int, weights: LabelWeights | None) -> Tensor:
        targets = self._targets
        assert self._chunks is not None
        assert targets.dense is not None
        maxima = (self._looked_over if weights is None else self._look_over(weights))[1]
        assert maxima is not None
        best = self._chunks.best(targets.dense, maxima, k, weights)
        best = best if targets.row_mask is None else best * targets.row_mask[:, None, None]
        return best.view(*self.n.shape, k)

    def _best(self, k: int, weights: LabelWeights | None) -> Tensor:
        if self._chunks is not None and k <= CHUNK and not (weights is None and self._targets.binary):
            return self._best_in_chunks(k, weights)
        k = max(k, DEEP)
        keys, entries = self._keys, self._targets.entries
        none_void = reads_are_free(keys.device)
        if weights is not None:
            value = weights.on(keys.device)[entries.ids if none_void else entries.ids.clamp(min=0)]
        elif entries.gains is not None:
            value = entries.gains
        else:
            value = torch.ones_like(entries.ids, dtype=real_dtype(entries.ids.device))
        value = value if none_void else torch.where(entries.ids >= 0, value, 0)
        if none_void and self._num_keys * self.most < 4 * len(keys) + 2**16:
            best = best_side_by_side(keys, self._num_keys, value)
        else:
            best = best_by_sorting(keys, self._num_keys, value, min(k, self.most))
        return best.view(*self.n.shape, best.shape[-1])
