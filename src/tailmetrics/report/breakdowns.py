"""The two breakdowns of a report: buckets of labels, and groups of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tailmetrics._arguments import grouped

UNSEEN = "unseen"
"""The bucket of labels that never occur in training."""
ALL = "all"
"""How tables name the line over all buckets, and over all groups."""
MOST_COUNTED = 10
"""The most buckets whose training counts a sentence names; more would say nothing."""
PARTS = {
    2: "half",
    3: "third",
    4: "quarter",
    5: "fifth",
    10: "tenth",
    20: "twentieth",
    100: "hundredth",
}
"""Names of the parts into which quantiles divide the labels or their occurrences."""


@dataclass(frozen=True)
class BucketRow:
    """One bucket: its name, number of labels, their occurrences, and their positives.

    Attributes:
        name: The name.
        labels: The number of its labels.
        occurrences: How often its labels occur in training.
        positives: How often its labels are relevant in the evaluated rows.
        counts: The range of training counts of its labels, such as ``"51-310"``; empty
            without counted labels.
        kind: The number of the set of buckets: 0 for the first set, 1 for another set
            that other metrics have, and so on. Each set holds every label once.
        labels_with_rows: The number of labels with a relevant row; None unless a macro
            average counts them.
    """

    name: str
    labels: int
    occurrences: int
    positives: int
    counts: str = ""
    kind: int = field(default=0, compare=False)
    labels_with_rows: int | None = field(default=None, compare=False)


@dataclass(frozen=True)
class GroupRow:
    """One group of rows: its name, and its number of rows, None if not counted."""

    name: str
    rows: int | None = None


def what_buckets_are(buckets: Sequence[BucketRow]) -> str:
    """Return a description of the buckets of a report, in one or two sentences.

    >>> from tailmetrics.report import BucketRow
    >>> what_buckets_are([BucketRow("10+", 1, 60, 0), BucketRow("1-9", 5, 5, 0)])
    'A bucket holds the labels that occur in training as often as its name says.'
    """
    seen = [bucket for bucket in buckets if bucket.name != UNSEEN]
    kinds = grouped((bucket.kind, bucket) for bucket in seen)
    texts = list(map(_what_seen_buckets_are, kinds.values()))
    if len(seen) < len(buckets):
        texts.append("unseen holds the labels that never occur in training.")
    return " ".join(texts)


def _what_seen_buckets_are(buckets: Sequence[BucketRow]) -> str:
    head, tail = buckets[0].name, buckets[-1].name
    if head in (f"decile_{len(buckets)}", f"quantile_{len(buckets)}"):
        return _what_quantiles_are(buckets)

    if all(bucket.name[:1].isdigit() for bucket in buckets):
        return (
            "A bucket holds the labels that occur in training as often as its "
            "name says."
        )

    if len(buckets) <= MOST_COUNTED and all(
        bucket.counts for bucket in buckets if bucket.labels
    ):
        names = [f"{bucket.name} ({bucket.counts or 'no label'})" for bucket in buckets]
        return f"Training counts: {', '.join(names)}."

    if len(buckets) == 1:
        return f"One bucket: {head}."
    return f"Buckets of labels, in the order given, from {head} to {tail}."


def _what_quantiles_are(buckets: Sequence[BucketRow]) -> str:
    number = len(buckets)
    sizes = [bucket.labels for bucket in buckets if bucket.labels]

    # where a bucket has one label, buckets of equal labels and of equal occurrences can
    # have these sizes
    are_of_labels = (
        len(sizes) == number and min(sizes) > 1 and max(sizes) - min(sizes) <= 1
    )
    whole = "labels" if are_of_labels else "label occurrences in training"

    part = PARTS.get(number, f"share of 1/{number}")
    head, tail = buckets[0].name, buckets[-1].name
    return (
        f"{head} holds the most frequent labels, {tail} the rarest; each has about a "
        f"{part} of all {whole}."
    )
