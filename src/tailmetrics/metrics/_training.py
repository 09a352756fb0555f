"""What a metric may have to learn of the training labels: buckets, number of labels, counts, number of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final
from warnings import warn

from torch import Tensor

from tailmetrics._checks import shape_of
from tailmetrics.buckets import LabelBuckets, buckets_of, names_of
from tailmetrics.frequency import LabelFrequency


@dataclass(frozen=True)
class Training:
    """What binding hands on.

    Attributes:
        num_labels: L.
        counts: Shape (L,), int64 training counts, or None when buckets do not hold them.
        num_rows: Number of training rows, or None when buckets were bound, which do not tell.
        given_buckets: The buckets that were bound, None when counts were.
        made: The buckets made of the counts so far, by kind: equal kinds of one training are one object.
    """

    num_labels: int
    counts: Tensor | None
    num_rows: int | None
    given_buckets: LabelBuckets | None = None
    made: dict[str, LabelBuckets] = field(default_factory=dict)

    @classmethod
    def of(cls, caller: str, frequency: Any) -> Training:
        """Read it off a :class:`LabelFrequency` (synchronises) or :class:`LabelBuckets`."""
        if isinstance(frequency, LabelFrequency):
            counts, num_rows = frequency.compute().reshape(-1).cpu(), frequency.num_rows
            if not num_rows:
                warn(
                    f"{caller}: the LabelFrequency has counted no rows, so that every label is unseen; update it with "
                    "the training targets before bind.",
                    stacklevel=3,
                )
            return cls(frequency.num_labels, counts, num_rows)
        if isinstance(frequency, LabelBuckets):
            return cls(frequency.num_labels, frequency.counts, None, frequency)
        raise TypeError(
            f"{caller}: bind takes a LabelFrequency or LabelBuckets, not {shape_of(frequency)}; make one of counts "
            "with LabelFrequency.from_counts(counts, num_rows) or LabelBuckets.deciles(counts)."
        )

    def buckets(self, kind: str) -> LabelBuckets:
        """Return the buckets of a kind such as ``"deciles"``; buckets that were bound stand for deciles of any sort."""
        if self.given_buckets is not None and (kind == "deciles" or self.given_buckets.names == names_of(kind)):
            return self.given_buckets
        if self.counts is None:
            assert self.given_buckets is not None
            raise ValueError(
                f"bind: the buckets {', '.join(self.given_buckets.names)} hold no training counts to make {kind!r} of; "
                "bind a LabelFrequency."
            )
        if kind not in self.made:
            self.made[kind] = buckets_of(kind, self.counts)
        return self.made[kind]


FACTS: Final[dict[str, Callable[[Training, Any], Any]]] = {
    "num_labels": lambda training, _: training.num_labels,
    "buckets": lambda training, kind: kind if kind is None else training.buckets(kind),
    "label_counts": lambda training, _: training.counts,
    "num_train": lambda training, _: training.num_rows,
}
"""The arguments of metrics that training can tell, and how: from what is bound, and what the metric was given."""

UNTOLD: Final = {
    "label_counts": "these buckets hold no training counts",
    "num_train": "buckets do not tell the number of training rows",
}
"""Why a metric that was bound to buckets may need more."""


def is_open(name: str, value: Any) -> bool:
    """Whether an argument is left to ``bind``: buckets that are only named, any other fact that is not there."""
    return isinstance(value, str) if name == "buckets" else value is None


def check_counts_fit(metric: Any, label_counts: Tensor | None) -> Tensor | None:
    """Return ``label_counts``, or those of the buckets; raise unless there is one count per label."""
    if label_counts is None and metric.bound_buckets is not None:
        label_counts = metric.bound_buckets.counts
    if label_counts is not None and metric.num_labels not in (None, len(label_counts)):
        raise ValueError(
            f"{type(metric).__name__}: label_counts holds {len(label_counts)} counts, but there are "
            f"{metric.num_labels} labels; pass one count per label."
        )
    return label_counts
