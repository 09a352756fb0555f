"""Values of single rows, which intervals and comparisons are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailmetrics._summaries import UNSEEN
from tailmetrics.collection import TopKCollection
from tailmetrics.evaluation.label_cells import LabelCells, has_label_cells
from tailmetrics.metrics import KForRecall, TopKMetric
from tailmetrics.metrics._shown import ShownMetric
from tailmetrics.ranking import Ranking
from tailmetrics.ranking._device import one_thread

Column = NDArray[np.float64]


def has_row_values(metric: TopKMetric) -> bool:
    """Whether rows have a value to compare runs by: not an average over labels, nor what is shown, good or bad."""
    by_rows = getattr(metric, "average", "samples") in ("samples", "micro")
    return hasattr(metric, "row_values") and by_rows and not isinstance(metric, ShownMetric)


def gaps_of(metric: TopKMetric, named: Callable[[str], str] = str) -> dict[str, list[str]]:
    """Return the name of each gap with the keys of its buckets, head first, without labels that training never saw."""
    found: dict[str, list[str]] = {}
    for key in (key for group in metric.group_keys() for key in metric.row_keys(group)):
        stem, _, bucket = key.rpartition("/")
        if metric.buckets is not None and bucket != UNSEEN:
            found.setdefault(named(f"{stem}/gap"), []).append(named(key))
    return found


def values_of_rows(metric: Any, ranking: Ranking) -> dict[str, Any]:
    """Return ``metric.row_values(ranking)``. It runs on one thread, as an update does."""
    with one_thread():
        values: dict[str, Any] = metric.row_values(ranking)
    return values


class RowValues:
    """The values of every row of an evaluation, batch by batch: 8 bytes for each row and key.

    Args:
        collection: The metrics; those without values per row are left out.
    """

    def __init__(self, collection: TopKCollection) -> None:
        self._collection = collection
        self._metrics: list[Any] = [one for one in collection.members().values() if has_row_values(one)]
        self._cells = [(one, LabelCells(one)) for one in collection.members().values() if has_label_cells(one)]
        self._batches: list[dict[str, tuple[Column, ...]]] = []

    def add(self, ranking: Ranking) -> None:
        """Add a batch."""
        found: dict[str, tuple[Column, ...]] = {}
        for _, cells in self._cells:
            cells.add(ranking)
        for metric in self._metrics:
            values = {key: _sides(value) for key, value in values_of_rows(metric, ranking).items()}
            found |= {self._collection._set_name(key): sides for key, sides in values.items()}
            for number, group in enumerate(metric.group_keys()[1:]):
                assert ranking.rows.groups is not None
                inside = ranking.rows.groups.cpu().numpy() == number
                for key, whole in zip(metric.row_keys(group), metric.row_keys(), strict=True):
                    sides = tuple(np.where(inside, side, np.nan) for side in values[whole])
                    found[self._collection._set_name(key)] = sides
        self._batches.append(found)

    def columns(self) -> dict[str, Any]:
        """Return the values of all rows by key; two vectors where a value is a ratio of sums; or what labels count."""
        joined: dict[str, Any] = {}
        for key in self._batches[0] if self._batches else ():
            sides = [np.concatenate(side) for side in zip(*(batch[key] for batch in self._batches), strict=True)]
            joined[key] = (sides[0], sides[1]) if len(sides) == 2 else sides[0]
        for _, cells in self._cells:
            joined |= {self._collection._set_name(key): one for key, one in cells.in_order().items()}
        return joined

    @property
    def gaps(self) -> dict[str, list[str]]:
        """Name of a gap -> the keys of its buckets, head first, without labels that training never saw."""
        metrics = [*self._metrics, *(one for one, _ in self._cells)]
        of_each = (gaps_of(metric, self._collection._set_name) for metric in metrics)
        return {name: keys for of_one in of_each for name, keys in of_one.items()}

    @property
    def medians(self) -> list[str]:
        """Keys of which the median is reported."""
        return self._keys(one for one in self._metrics if isinstance(one, KForRecall) and one.statistic == "median")

    @property
    def lower_is_better(self) -> list[str]:
        """Keys of which less is better."""
        return self._keys(one for one in self._metrics if one.higher_is_better is False)

    def _keys(self, metrics: Iterable[TopKMetric]) -> list[str]:
        return [self._collection._set_name(key) for metric in metrics for key in list(metric.keys())]


def _sides(value: Any) -> tuple[Column, ...]:
    parts = value if isinstance(value, tuple) else (value,)
    return tuple(part.detach().cpu().numpy().astype(np.float64) for part in parts)


def present(keys: Iterable[str], columns: Mapping[str, object]) -> list[str]:
    """Return the keys that there are values of."""
    return [key for key in keys if key in columns]
