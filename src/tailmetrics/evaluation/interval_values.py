"""``IntervalValues``: accumulates what the intervals of a report are computed from.

These are sums over rows, and the labels of rows for averages over labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from math import isclose

import torch

from tailmetrics.collection import TopKCollection
from tailmetrics.evaluation.row_labels import RowLabels, metrics_of_labels
from tailmetrics.evaluation.row_moments import RowMoments, sums_of_metrics
from tailmetrics.ranking import Ranking
from tailmetrics.significance.interval import Interval
from tailmetrics.significance.labels import OverLabels


class IntervalValues:
    """Accumulates sums over rows, and labels of rows for averages over labels.

    Both are empty without intervals, or without SciPy.

    Args:
        collection: The metrics, all bound.
        confidence: Confidence of the intervals; None for no intervals.
        device: Device of the sums.

    Attributes:
        moments: The sums over rows of metrics that are means, medians or ratios.
        labels: The predicted and relevant labels of each row.
    """

    def __init__(
        self,
        collection: TopKCollection,
        confidence: float | None,
        device: torch.device | str,
    ) -> None:
        self.confidence = confidence
        sums, metrics = [], []
        if confidence is not None and find_spec("scipy") is not None:
            sums = sums_of_metrics(collection, device)
            metrics = metrics_of_labels(collection)
        self.moments = RowMoments(sums).to(device)
        self.labels = RowLabels(collection, metrics)

    def update(self, ranking: Ranking) -> None:
        """Add the rows of a batch."""
        self.moments.update(ranking)
        self.labels.update(ranking)

    def intervals(
        self, scalars: Mapping[str, float], averages: Mapping[str, OverLabels]
    ) -> dict[str, Interval]:
        """Return the interval of each key that has one; call it in every process.

        Args:
            scalars: The values by key.
            averages: What ``labels.averages()`` returned.
        """
        if self.confidence is None:
            return {}
        intervals = self.moments.intervals(scalars, self.confidence)
        if averages:
            # needs SciPy
            from tailmetrics.significance import intervals as intervals_of_rows

            arguments = self.labels.facts.interval_arguments(averages)
            intervals |= intervals_of_rows(
                averages, **arguments, resamples=0, confidence=self.confidence
            )
        intervals = with_values(intervals, scalars)
        return {key: intervals[key] for key in scalars if key in intervals}


def with_values(
    intervals: Mapping[str, Interval], scalars: Mapping[str, float]
) -> dict[str, Interval]:
    """Return the intervals of the keys in ``scalars``, with the values in ``scalars``.

    The ends become NaN if the values per row give another value: a metric may count 0 /
    0 in a bucket as 0, while values per row leave the bucket unmeasured. Areas from
    bins may differ by 1e-4.
    """
    valued: dict[str, Interval] = {}
    for key, interval in intervals.items():
        if key not in scalars:
            continue
        if interval.value == scalars[key]:
            valued[key] = interval
            continue
        valued[key] = replace(interval, value=scalars[key])
        if interval.ends and not isclose(
            interval.value, scalars[key], rel_tol=1e-4, abs_tol=1e-4
        ):
            valued[key] = valued[key].without_ends("rows alone do not tell the value")
    return valued
