"""The facts of the training data, which ``bind`` gives to metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import torch
from torch import Tensor

from tailmetrics._arguments import shape_of
from tailmetrics.buckets import LabelBuckets, buckets_of_kind, names_of_kind
from tailmetrics.frequency import LabelFrequency
from tailmetrics.ranking._warnings import warn_outside
from tailmetrics.tree import LabelTree


@dataclass(frozen=True)
class Training:
    """Facts of the training data, which ``bind`` gives to metrics.

    Attributes:
        num_labels: Number of labels L.
        counts: Shape (L,), int64 training counts; None if bound buckets have none.
        num_rows: Number of training rows; None if buckets were bound, which do not hold
            this number.
        given_buckets: The bound buckets; None if a ``LabelFrequency`` was bound.
        order: The order of labels with equal counts, as for :func:`buckets_of_kind`.
        tree: The parents of the labels; None if unknown.
        buckets_by_kind: The buckets made from the counts so far, by kind: metrics with
            one kind get the same object.
    """

    num_labels: int
    counts: Tensor | None
    num_rows: int | None
    given_buckets: LabelBuckets | None = None
    order: Tensor | None = None
    tree: LabelTree | None = None
    buckets_by_kind: dict[str, LabelBuckets] = field(default_factory=dict)

    @cached_property
    def rows_of_counts(self) -> int | None:
        """The number of training rows, by which metrics divide counts.

        Warns if the count of a label is larger.
        """
        if self.counts is not None and len(self.counts) and self.num_rows:
            highest, label = self.counts.max(dim=0)
            if int(highest) > self.num_rows:
                warn_outside(
                    f"bind: label {int(label)} occurs {int(highest):,} times in "
                    f"{self.num_rows:,} training rows, so that shares of the rows, in "
                    "novelty and propensities, are wrong. If each token is a row, say "
                    "so: ignore_index=-100, or whatever pads; LabelFrequency.update() "
                    "takes it, or tokens.flatten()."
                )
        return self.num_rows

    @classmethod
    def from_frequency(cls, caller: str, frequency: Any) -> Training:
        """Return the facts of a :class:`LabelFrequency` or :class:`LabelBuckets`.

        The counts of a frequency are added up over processes.
        """
        if isinstance(frequency, LabelFrequency):
            counts, num_rows = frequency.compute().reshape(-1).cpu(), frequency.num_rows
            if not num_rows:
                warn_outside(
                    f"{caller}: the LabelFrequency has counted no rows, so that every "
                    "label is unseen; update it with the training targets before bind."
                )
            return cls(frequency.num_labels, counts, num_rows)
        if isinstance(frequency, LabelBuckets):
            return cls(frequency.num_labels, frequency.counts, None, frequency)
        raise TypeError(
            f"{caller}: bind takes a LabelFrequency or LabelBuckets, not "
            f"{shape_of(frequency)}; make one of counts with "
            "LabelFrequency.from_counts(counts, num_rows) or "
            "LabelBuckets.deciles(counts)."
        )

    def buckets(self, kind: str) -> LabelBuckets:
        """Return the buckets of a kind such as ``"deciles"``.

        For ``"deciles"``, bound buckets of any kind are returned. Raise ValueError if
        bound buckets are of another kind and hold no counts.
        """
        bound = self.given_buckets
        if bound is not None and kind == "deciles":
            return bound
        if self.counts is None:
            assert bound is not None
            if bound.names == names_of_kind(kind):
                return bound
            raise ValueError(
                f"bind: the buckets {', '.join(bound.names)} hold no training counts, "
                f"of which {kind!r} are made; bind a LabelFrequency."
            )

        if kind not in self.buckets_by_kind:
            self.buckets_by_kind[kind] = buckets_of_kind(kind, self.counts, self.order)
        buckets = self.buckets_by_kind[kind]
        if bound is not None and self._are_alike(bound, buckets):
            return bound
        return buckets

    def _are_alike(self, buckets: LabelBuckets, other: LabelBuckets) -> bool:
        """Return whether buckets differ at most in the order of equal counts.

        Buckets of a kind hold the most frequent labels first. Those with the same
        sizes and sums of counts thus have the same counts in each bucket.
        """
        if (buckets.names, buckets.sizes) != (other.names, other.sizes):
            return False
        return torch.equal(
            self._counts_by_bucket(buckets), self._counts_by_bucket(other)
        )

    def _counts_by_bucket(self, buckets: LabelBuckets) -> Tensor:
        """Return the sum of the training counts of each bucket."""
        assert self.counts is not None
        sums = self.counts.new_zeros(len(buckets.names))
        return sums.index_add_(0, buckets.assignment, self.counts)


def _buckets_from_training(training: Training, kind: str | None) -> LabelBuckets | None:
    """Return the buckets of a kind; None for a metric without buckets."""
    if kind is None:
        return None
    return training.buckets(kind)


FROM_TRAINING: Final[dict[str, Callable[[Training, Any], Any]]] = {
    "num_labels": lambda training, _: training.num_labels,
    "buckets": _buckets_from_training,
    "label_counts": lambda training, _: training.counts,
    "num_train": lambda training, _: training.rows_of_counts,
    "tree": lambda training, _: training.tree,
}
"""Arguments that ``bind`` completes: functions of bound facts and of the own value."""
