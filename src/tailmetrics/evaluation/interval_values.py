"""What a report has its intervals from: sums over rows, and the labels of rows for averages over labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from tailmetrics.collection import TopKCollection
from tailmetrics.evaluation.row_moments import MetricMoments, RowMoments, as_valued, has_moments, has_scipy
from tailmetrics.evaluation.row_values import RowValues
from tailmetrics.ranking import Ranking
from tailmetrics.significance.interval import Interval
from tailmetrics.significance.labels import OverLabels


class IntervalValues:
    """Accumulates sums over rows for each metric, and the labels of rows for averages over labels.

    Args:
        collection: The metrics, all bound.
        confidence: Confidence of the intervals; None for no intervals.
        device: Device of the sums.

    Attributes:
        moments: The sums of metrics that are means, medians or ratios of sums over rows; None without such a metric.
        labels_of_rows: The predicted and relevant labels of each row; None if no metric averages over labels.
    """

    def __init__(self, collection: TopKCollection, confidence: float | None, device: torch.device | str) -> None:
        self.confidence = confidence
        self.moments: RowMoments | None = None
        self.labels_of_rows: RowValues | None = None
        self._named = collection.named
        if confidence is None:
            return
        names = [name for name, metric in collection.members().items() if has_moments(metric, device)]
        parts = [MetricMoments(collection, name) for name in names]
        for name in collection.reference_models.adjusted:
            if name in names:
                parts.append(MetricMoments(collection, name, adjusted=True))
        if parts:
            self.moments = RowMoments(parts).to(device)
        labels_of_rows = RowValues(collection, labels_alone=True)
        if labels_of_rows.metrics and has_scipy():
            self.labels_of_rows = labels_of_rows

    def update(self, ranking: Ranking) -> None:
        """Add the rows of a batch."""
        if self.moments is not None:
            self.moments.update(ranking)
        if self.labels_of_rows is not None:
            self.labels_of_rows.add(ranking)

    def merge_state(self, other: IntervalValues) -> None:
        """Add the rows of another evaluation of the same metrics."""
        if self.moments is not None and other.moments is not None:
            self.moments.merge_state(other.moments)
        if self.labels_of_rows is not None and other.labels_of_rows is not None:
            self.labels_of_rows.merge_state(other.labels_of_rows)

    def averages(self) -> dict[str, OverLabels]:
        """Return the contributions of rows to each average over labels, by key; call it in every process."""
        if self.labels_of_rows is None:
            return {}
        return self.labels_of_rows.by_content()

    def intervals(self, scalars: Mapping[str, float], averages: Mapping[str, OverLabels]) -> dict[str, Interval]:
        """Return the interval of each key that has one; call it in every process.

        Args:
            scalars: The values by key.
            averages: What :meth:`averages` returned.
        """
        if self.confidence is None:
            return {}
        intervals: dict[str, Interval] = {}
        if self.moments is not None:
            intervals |= self.moments.intervals(scalars, self._named, self.confidence)
        if self.labels_of_rows is not None and averages:
            from tailmetrics.significance import intervals as intervals_of_rows  # needs SciPy

            facts = self.labels_of_rows.facts.among(averages)
            average_intervals = intervals_of_rows(averages, **facts, resamples=0, confidence=self.confidence)
            intervals |= as_valued(average_intervals, scalars)
        return {key: intervals[key] for key in scalars if key in intervals}

    def listed_instead(self, labels: Sequence[int]) -> dict[int, list[tuple[int, int]]]:
        """Return the labels that are most often listed in the place of some labels; none if rows keep no labels."""
        if self.labels_of_rows is None:
            return {}
        return self.labels_of_rows.listed_instead(labels)

    def state_dict(self) -> dict[str, Any]:
        """Return the columns of the labels of rows."""
        if self.labels_of_rows is None:
            return {}
        return self.labels_of_rows.state_dict()

    def load_state_dict(self, columns: Mapping[str, Any]) -> None:
        """Replace the labels of rows by those of :meth:`state_dict`."""
        if self.labels_of_rows is not None:
            self.labels_of_rows.load_state_dict(columns)
