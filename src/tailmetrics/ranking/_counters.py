"""Ranks within buckets: how many labels of each bucket a list holds up to each place."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from tailmetrics.ranking._device import whole_numbers


class BucketCounters:
    """How many labels of each bucket a list holds up to each place.

    The counters of several buckets share one 64-bit lane, ``bits`` each, so that one cumulative sum moves them all;
    a counter cannot reach its neighbour because no list is longer than ``2**bits - 1``. Twin:
    :func:`plain_bucket_ranks`.

    Args:
        listed: Shape (N, K), int64; the bucket of each listed label, ``num_buckets`` where the list has ended.
        num_buckets: G.
    """

    def __init__(self, listed: Tensor, num_buckets: int) -> None:
        self._listed = listed
        self._num_buckets = num_buckets
        self._bits = max(1, listed.shape[1].bit_length())
        self._per_lane = 63 // self._bits
        number = torch.arange(num_buckets, device=listed.device)
        one = torch.ones_like(number) << (number % self._per_lane * self._bits)
        self._lanes = listed.new_empty(-(-num_buckets // self._per_lane), *listed.shape)
        for number_of_lane, lane in enumerate(self._lanes):
            step = torch.where(number // self._per_lane == number_of_lane, one, 0)
            torch.index_select(F.pad(step, (0, 1)), 0, listed.reshape(-1), out=lane.view(-1))
            lane.cumsum_(dim=1)

    def ranks(self, flat: Tensor) -> Tensor:
        """Return, for flat places of the list, the rank of the label there among the labels of its bucket."""
        bucket = self._listed.reshape(-1)[flat].clamp(max=self._num_buckets - 1)
        return self._read(bucket, self._lanes.view(-1)[bucket // self._per_lane * self._listed.numel() + flat])

    def totals(self) -> Tensor:
        """Return the number of labels of each bucket in each list, shape (N, G), int64."""
        num_rows, depth = self._listed.shape
        if not depth:
            return self._listed.new_zeros(num_rows, self._num_buckets)
        number = torch.arange(self._num_buckets, device=self._listed.device)
        return self._read(number, self._lanes[:, :, -1].t()[:, number // self._per_lane])

    def _read(self, bucket: Tensor, lane: Tensor) -> Tensor:
        shift = bucket % self._per_lane * self._bits
        return torch.bitwise_right_shift(lane, shift).bitwise_and((1 << self._bits) - 1)


def plain_bucket_ranks(listed: Tensor, num_buckets: int) -> tuple[Tensor, Tensor]:
    """Return the rank of every listed label within its bucket [N, K], and the totals [N, G], both int64.

    A counter of each bucket at each place: few steps, for devices. What stands behind the end of a list has
    ranks of its own.
    """
    if not listed.shape[1]:
        return listed, listed.new_zeros(len(listed), num_buckets)
    counter = torch.int16 if listed.shape[1] < 2**15 else torch.int32
    inside = listed.unsqueeze(2) == whole_numbers(num_buckets + 1, listed.device)  # the last one is the end of a list
    counts = inside.cumsum(dim=1, dtype=counter)
    ranks = counts.gather(2, listed.unsqueeze(2)).squeeze(2)
    return ranks.to(torch.int64), counts[:, -1, :num_buckets].to(torch.int64)
