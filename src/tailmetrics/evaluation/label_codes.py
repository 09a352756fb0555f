"""Codes of the labels that rows hit, predict and hold, for averages over labels.

A code is an int64 for one label of a row:

    (label * number of buckets + bucket) * 4 + 2 * relevant + predicted

For areas, a row has a code for every label:

    (bucket * MARKS + mark) * BINS + 2 * bin + relevant
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from tailmetrics.metrics import TopKMetric
from tailmetrics.metrics._states import InBlocks, Increment
from tailmetrics.ranking import Ranking
from tailmetrics.significance.areas import AreaRows
from tailmetrics.significance.halves import mixed
from tailmetrics.significance.influence import Flags, Ints
from tailmetrics.significance.labels import LabelRows, OverLabels, ShownRows

Lists: TypeAlias = tuple[Ints, Ints]
"""The number of codes of each row, shape (N,), and the joined codes of all rows."""

LABELS, LENGTHS = "labels of ", ".lengths"
"""Prefix of columns with codes; suffix of columns with their number per row."""
MOST = 2**24
"""Largest number of codes for a cut-off (128 MB); with more, there is no interval."""
BINS = 8192
"""Twice the largest number of bins: a code also says whether the label is relevant."""
MARKS = 256
"""Number of hashes that tell scores in a bin apart: 1 pair in 256 shares a hash."""


def has_label_cells(metric: TopKMetric, shown: bool = False) -> bool:
    """Return whether rows give codes for a metric.

    They do for averages over labels and, if ``shown`` is True, for functions of the
    shown labels.
    """
    return metric.aggregation.label_terms() is not None and (
        shown or metric.aggregation.is_quality
    )


def deepest_cutoff(metric: Any) -> tuple[int, int]:
    """Return the deepest cut-off of a metric, and its place; 0 for thresholds."""
    return max(
        (k if isinstance(k, int) else 0, place)
        for place, k in enumerate(metric.cutoffs)
    )


def deepest_counts(metrics: Iterable[Any]) -> Any:
    """Return the metric with the deepest list that keeps all counts of labels.

    Return None if no metric with a list does. The one list of a row comes before lists
    of buckets, as in the columns of the table of labels.
    """
    counting = [
        metric
        for metric in metrics
        if metric.is_bound and metric.aggregation.keeps_all_counts
    ]
    counting.sort(
        key=lambda metric: (
            metric.buckets is not None and metric.reading.scope == "bucket"
        )
    )
    deepest = max(counting, key=lambda metric: deepest_cutoff(metric)[0], default=None)
    if deepest is None or not deepest_cutoff(deepest)[0]:
        return None
    return deepest


def label_columns(metric: Any, named: Callable[[str], str]) -> list[str]:
    """Return the column name of each cut-off, made of its first key.

    The key of a metric by bucket names its first bucket: codes depend on the buckets.
    """
    keys = metric.row_keys() or metric.cutoff_keys()
    return [LABELS + named(key) for key in keys[:: len(keys) // len(metric.cutoffs)]]


def code_columns(
    metrics: Iterable[Any], named: Callable[[str], str], ranking: Ranking
) -> dict[str, Ints]:
    """Return the codes of all rows of a batch, and their number per row, as columns."""
    columns = {}
    for metric in metrics:
        for name, (lengths, codes) in zip(
            label_columns(metric, named), lists_of(metric, ranking), strict=True
        ):
            columns[name + LENGTHS] = lengths
            columns[name] = codes
    return columns


def spec_of(metric: TopKMetric) -> dict[str, Any]:
    """Return as plain data how to compute a value from codes.

    These are the ``terms``, and the ``sizes``, the number of labels in each bucket.
    """
    buckets = metric.bound_buckets
    sizes = [metric.num_labels]
    if buckets is not None:
        sizes = buckets.label_counts.tolist()
    return {"terms": metric.aggregation.label_terms() or {}, "sizes": sizes}


def over_labels(
    spec: Mapping[str, Any], bucket: int, lists: Lists, inside: Flags
) -> OverLabels:
    """Return the decoded labels of all rows for the value of one bucket.

    Args:
        spec: Result of :func:`spec_of` for the metric.
        bucket: Number of the bucket, 0 without buckets.
        lists: The codes of all rows.
        inside: Shape (N,), bool: True for rows that count.
    """
    lengths, codes = lists
    terms, sizes = spec["terms"], spec["sizes"]
    if "area" in terms:
        table = codes.reshape(lengths.size, codes.size // max(lengths.size, 1))
        cells = table[:, (table // (BINS * MARKS) == bucket).all(axis=0)]
        bins, marks, relevant = cells % BINS // 2, cells // BINS % MARKS, cells % 2 > 0
        return AreaRows(bins, relevant, inside, terms["area"], terms["average"], marks)

    rows = np.repeat(np.arange(lengths.size), lengths)
    labels, flags = codes // 4, codes % 4
    kept = inside[rows] & (labels % len(sizes) == bucket)
    parts = (
        rows[kept],
        labels[kept] // len(sizes),
        flags[kept] % 2 > 0,
        flags[kept] > 1,
        inside,
        sum(sizes),
    )
    if "exposure" in terms:
        return ShownRows(*parts, terms["exposure"], sizes[bucket], terms["weights"])
    return LabelRows(*parts, size=sizes[bucket], **terms)


def lists_of(metric: Any, ranking: Ranking) -> list[Lists]:
    """Return the codes of a batch for each cut-off."""
    num_labels = int(metric.num_labels)
    buckets = metric.bound_buckets
    num_buckets, bucket = 1, np.zeros(num_labels, np.int64)
    if buckets is not None:
        num_buckets, bucket = len(buckets), buckets.assignment.cpu().numpy()
    increments_by_cutoff = metric.aggregation.label_cells(ranking)
    if not increments_by_cutoff:
        return [_area_codes(metric, ranking, bucket)]

    lists = []
    for increments in increments_by_cutoff:
        hits, predicted, relevant = [
            num_labels * rows + labels for rows, labels in map(_changed, increments)
        ]
        cells = np.unique(np.concatenate([hits, predicted, relevant]))
        rows, labels = np.divmod(cells, num_labels)
        is_relevant = np.isin(cells, np.concatenate([hits, relevant]))
        is_predicted = np.isin(cells, np.concatenate([hits, predicted]))
        codes = (
            (labels * num_buckets + bucket[labels]) * 4 + 2 * is_relevant + is_predicted
        )
        lists.append((np.bincount(rows, minlength=ranking.num_rows), codes))
    return lists


def _area_codes(metric: Any, ranking: Ranking, bucket: Ints) -> Lists:
    """Return the codes of the scores of all labels."""
    bins, relevant, scores = (
        part.numpy() for part in metric.aggregation.bins_of_rows(ranking)
    )
    bits = (scores.astype(np.float64) + 0.0).view(np.int64)  # + 0.0: -0.0 becomes 0.0
    marks = mixed(bits) & (MARKS - 1)
    codes = (bucket * MARKS + marks) * BINS + 2 * bins + relevant
    return np.full(ranking.num_rows, bucket.size), codes.ravel()


def _changed(increment: Increment | None) -> Lists:
    """Return rows and labels of the cells that a batch changes; none for None."""
    blocks: list[Any] = []
    if isinstance(increment, InBlocks):
        blocks = list(increment.blocks())
    elif increment is not None:
        blocks = [increment]
    rows, labels = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for block in blocks:
        changed = block.amounts != 0
        rows.append(block.rows[changed].cpu().numpy())
        labels.append(block.cells[changed].cpu().numpy())
    return np.concatenate(rows), np.concatenate(labels)


def hashes(lengths: Ints, codes: Ints) -> Ints:
    """Return for each row a hash of its codes, which depends on their order."""
    rows = np.repeat(np.arange(lengths.size), lengths)
    places = np.arange(codes.size) - (np.cumsum(lengths) - lengths)[rows]
    row_hashes = np.zeros(lengths.size, np.int64)
    np.add.at(row_hashes, rows, mixed(codes * 1_000_003 + places))
    return row_hashes


def reordered(lists: Lists, order: Ints) -> Lists:
    """Return the lists of the rows in ``order`` alone, in this order."""
    lengths, codes = lists
    starts = np.cumsum(lengths) - lengths
    new_lengths = lengths[order]
    new_starts = np.cumsum(new_lengths) - new_lengths
    places = np.arange(new_lengths.sum()) + np.repeat(
        starts[order] - new_starts, new_lengths
    )
    return new_lengths, codes[places]
