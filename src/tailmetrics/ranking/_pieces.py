"""Values that need the scores of all labels, whole or in pieces: exact ranks, counts of ties, log-normalisers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from tailmetrics.buckets import LabelBuckets
from tailmetrics.ranking._device import once, real_dtype
from tailmetrics.ranking._hits import Entries
from tailmetrics.ranking._kernels_cpu import kernels_for


def counts_by_bucket(
    scores: Tensor, first: int, rows: Tensor, own: Tensor, ids: Tensor, buckets: LabelBuckets
) -> Tensor:
    """Count the labels in the bucket of a given label that have a higher score than the label, or an equal score.

    Args:
        scores: Shape (N, C): the scores of the labels from ``first`` on.
        first: The label of the first column.
        rows: Shape (T,), int64, ascending: the row of each given label.
        own: Shape (T,): the scores of the given labels.
        ids: Shape (T,), int64: the given labels, in these columns or not.
        buckets: G buckets.

    Returns:
        The number of higher scores and the number of equal scores, shape (2, T), int64.
    """
    counts, kernels = torch.zeros(2, len(ids), dtype=torch.int64, device=ids.device), kernels_for(ids.device)
    bucket = buckets.of(ids)
    assigned = buckets.of(torch.arange(first, first + scores.shape[1], device=ids.device))
    for number in range(len(buckets)):
        place = (bucket == number).nonzero().squeeze(1)
        inside = scores[:, assigned == number]
        counts[:, place] = kernels.counts_above(inside, rows[place], own[place], torch.zeros_like(place))[:2]
    return counts


@dataclass(eq=False)
class ScoresInPieces:
    """The scores of a batch whose labels come in pieces, for metrics without a cut-off.

    Attributes:
        entries: The T relevant labels, sorted by row; no padding.
        num_labels: L.
        own: Shape (T,): the scores of the relevant labels.
        count: Reads all pieces and returns a pair. The first part, shape (3, T), holds for each relevant label the
            number of labels with a higher score, with the same score, and with the same score and a lower id. The
            second part holds the largest score of each row, and log Σ exp(score - largest), shape (N,) each.
        pieces: Reads the pieces again and yields the first label and the scores (N, C) of each piece.
    """

    entries: Entries
    num_labels: int
    own: Tensor
    count: Callable[[], tuple[Tensor, tuple[Tensor, Tensor]]]
    pieces: Callable[[], Iterator[tuple[int, Tensor]]]

    @once
    def _counted(self) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        return self.count()

    @property
    def log_sum(self) -> tuple[Tensor, Tensor]:
        """The largest score of each row, and log Σ exp(score - largest), shape (N,) each."""
        return self._counted[1]

    @once
    def _places(self) -> tuple[Tensor, Tensor]:
        return self._keys(self.entries).sort()

    def _keys(self, entries: Entries) -> Tensor:
        return entries.rows * self.num_labels + entries.ids

    def _of(self, entries: Entries, values: Tensor) -> Tensor:
        """Select from ``values`` (..., T), one for each relevant label, the values of ``entries``, in their order."""
        if entries is self.entries or not len(entries.ids):
            return values[..., : len(entries.ids)]
        keys, order = self._places
        return values[..., order[torch.searchsorted(keys, self._keys(entries))]]

    def scores_of(self, entries: Entries) -> Tensor:
        """Return the scores of relevant labels, shape (T,)."""
        return self._of(entries, self.own)

    def counts_of(self, entries: Entries, buckets: LabelBuckets | None = None) -> Tensor:
        """Return the number of labels with a higher score, an equal score, an equal score and a lower id, shape (3, T).

        With buckets, only labels of the same bucket are counted, and the third count is left out: shape (2, T).
        """
        if buckets is None:
            return self._of(entries, self._counted[0])
        own = self.scores_of(entries)
        counts = torch.zeros(2, len(own), dtype=torch.int64, device=own.device)
        for first, scores in self.pieces():
            counts += counts_by_bucket(scores, first, entries.rows, own, entries.ids, buckets)
        return counts


def log_sum(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Return the largest score of each row, and log Σ exp(score - largest) over all L labels, natural log.

    Their sum is the log-normaliser, log Σ exp(score). They are not added, because a huge largest score would absorb the
    digits of the logarithm.

    Args:
        scores: Shape (N, L), floating.

    Returns:
        Two tensors of shape (N,), float64 (float32 if the device has no float64). The second is -inf for a row of -inf.
        Without labels they are 0 and -inf.
    """
    num_rows, num_labels = scores.shape
    if not num_labels:
        real = real_dtype(scores.device)
        return scores.new_zeros(num_rows, dtype=real), scores.new_full((num_rows,), -torch.inf, dtype=real)
    parts = kernels_for(scores.device).over_rows(lambda part, _: terms_added_up(part, None, num_labels), scores)
    largest, sums = (torch.cat(side, dim=-1) if len(parts) > 1 else side[0] for side in zip(*parts, strict=True))
    return largest, log_of(sums, num_labels)


def shift_of(largest: Tensor) -> Tensor:
    """Return the number that is subtracted from the scores of each row: its largest score, or a finite one for -inf."""
    real = real_dtype(largest.device)
    return largest.to(real).clamp(min=torch.finfo(real).min)


def terms_added_up(scores: Tensor, largest: Tensor | None, num_labels: int) -> tuple[Tensor, Tensor]:
    """Return the largest scores, and Σ exp(score - largest) over the columns as two whole numbers for each row.

    Args:
        scores: Shape (N, C), floating: the scores of all labels or of some labels.
        largest: Shape (N,): the largest score of the whole row, from :func:`shift_of`; None if ``scores`` hold all
            labels.
        num_labels: L, the number of labels of the whole row.

    Returns:
        ``largest``, and two sums of whole numbers for each row, shape (2, N). With b = ``_bits(L)``, the first adds up
        the first b binary digits of the terms behind the point, the second their next b digits. The sums of several
        pieces are exact.
    """
    bits, real, kernels = _bits(num_labels), real_dtype(scores.device), kernels_for(scores.device)
    largest = shift_of(scores.amax(dim=1)) if largest is None else largest
    # int64 if the device has no float64, because float32 has too few digits for the sums
    kind = real if real == torch.float64 else torch.int64
    sums = torch.empty(2, len(scores), dtype=kind, device=scores.device)
    height = max(1, kernels.TERMS // max(1, scores.shape[1]))
    parts = (torch.split(part, height, dim=-1) for part in (largest, sums))
    for part, shift, added in zip(torch.split(scores, height), *parts, strict=True):
        kernels.add_up_terms((part - shift[:, None]).exp_(), bits, added)
    return largest, sums


def log_of(sums: Tensor, num_labels: int) -> Tensor:
    """Return the natural log of the sum whose two parts :func:`terms_added_up` returned, shape (N,)."""
    bits, real = _bits(num_labels), real_dtype(sums.device)
    one: int = 2**bits  # the term of the largest score; without it, the small terms keep their digits (log1p)
    others = (sums[0] - one).to(real) * 2.0**-bits + sums[1].to(real) * 2.0 ** (-2 * bits)
    return others.log1p()


def _bits(num_labels: int) -> int:
    """Return the number of binary digits behind the point with which the sum of L terms <= 1 is exact in float64."""
    return 53 - max(0, num_labels - 1).bit_length()
