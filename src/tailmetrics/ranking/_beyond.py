"""What is known of the labels that a list leaves out, where nobody holds a row of scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import torch
from torch import Tensor

from tailmetrics.buckets import LabelBuckets
from tailmetrics.ranking._hits import Entries
from tailmetrics.ranking._once import once
from tailmetrics.ranking._standings import Standings


class Beyond(ABC):
    """What metrics without a cut-off read where the label space came in pieces.

    Args:
        entries: The relevant labels, rows ascending, none of them void.
        num_labels: L.
    """

    def __init__(self, entries: Entries, num_labels: int) -> None:
        self.entries = entries
        self.num_labels = num_labels

    @property
    @abstractmethod
    def standings(self) -> Standings:
        """Where the relevant labels stand among all labels."""

    @property
    @abstractmethod
    def log_sum(self) -> tuple[Tensor, Tensor]:
        """The largest score of each row, and log Σ exp(score - largest), shape (N,) each."""

    @abstractmethod
    def pieces(self) -> Iterator[tuple[int, Tensor]]:
        """Yield the first label and the scores (N, C) of every piece, once more."""

    @abstractmethod
    def standings_within(self, entries: Entries, buckets: LabelBuckets) -> Standings:
        """Return where relevant labels stand among the labels of their bucket."""

    @once
    def _places(self) -> tuple[Tensor, Tensor]:
        return self._keys(self.entries).sort()

    def _keys(self, entries: Entries) -> Tensor:
        return entries.rows * self.num_labels + entries.ids

    def standings_of(self, entries: Entries) -> Standings:
        """Return where some of the relevant labels, or all of them in another order, stand among all labels."""
        if entries is self.entries or not len(entries.ids):
            return self.standings.at(torch.arange(len(entries.ids), device=entries.ids.device))
        keys, order = self._places
        return self.standings.at(order[torch.searchsorted(keys, self._keys(entries))])
