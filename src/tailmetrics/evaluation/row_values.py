"""Values of single rows, which intervals and comparisons are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailmetrics._summaries import UNSEEN
from tailmetrics.collection import TopKCollection
from tailmetrics.evaluation.description import bucket_rows, captions_of
from tailmetrics.evaluation.label_cells import LabelCells, has_label_cells
from tailmetrics.metrics import KForRecall, TopKMetric
from tailmetrics.metrics._metric import ShownMetric
from tailmetrics.ranking import Ranking
from tailmetrics.ranking._device import one_thread
from tailmetrics.report.report import what_buckets_are

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


@dataclass(frozen=True, kw_only=True)
class RowFacts:
    """What values of rows do not tell by themselves, as plain data.

    Attributes:
        medians: Keys of which the median is reported.
        lower_is_better: Keys of which less is better.
        gaps: Name of a gap -> the keys of its buckets, head first, without labels that training never saw.
        of_groups: Key of a group of rows -> the key over all rows, and the name of the group.
        row_groups: Names of the groups.
        buckets: Names of the buckets, head first.
        captions: For each metric by bucket what its values are of.
        over_all: For each metric by bucket the key of its value over all labels.
        what_buckets_are: That in words; empty for several kinds of buckets.
    """

    medians: list[str]
    lower_is_better: list[str]
    gaps: dict[str, list[str]] = field(default_factory=dict)
    of_groups: dict[str, list[str]] = field(default_factory=dict)
    row_groups: list[str] = field(default_factory=list)
    buckets: list[str] = field(default_factory=list)
    captions: dict[str, str] = field(default_factory=dict)
    over_all: dict[str, str] = field(default_factory=dict)
    what_buckets_are: str = ""

    @classmethod
    def of(cls, metrics: Sequence[Any], over_all: Mapping[str, str], named: Callable[[str], str] = str) -> RowFacts:
        """Return the facts of metrics that have values of rows or of their labels; ``named`` completes keys."""

        def keys(chosen: Iterable[Any]) -> list[str]:
            return [named(key) for metric in chosen if has_row_values(metric) for key in list(metric.keys())]

        by_bucket = [metric for metric in metrics if metric.buckets is not None]
        groups = {
            named(key): [named(whole), name]
            for metric in metrics
            for name, group in zip(metric.row_groups or (), metric.group_keys()[1:], strict=True)
            for key, whole in zip(metric.row_keys(group), metric.row_keys(), strict=True)
        }
        kinds = dict.fromkeys(one.bound_buckets for one in metrics if one.bound_buckets is not None)
        said = {what_buckets_are(list(bucket_rows(buckets))) for buckets in kinds}
        return cls(
            medians=keys(one for one in metrics if isinstance(one, KForRecall) and one.statistic == "median"),
            lower_is_better=keys(one for one in metrics if one.higher_is_better is False),
            gaps={name: keys for metric in metrics for name, keys in gaps_of(metric, named).items()},
            of_groups=groups,
            row_groups=list(dict.fromkeys(name for _, name in groups.values())),
            buckets=list(dict.fromkeys(name for metric in metrics for name in metric._bucket_names)),
            captions={named(stem): text for metric in by_bucket for stem, text in captions_of(metric).items()},
            over_all=dict(over_all),
            what_buckets_are=said.pop() if len(said) == 1 else "",
        )


class RowValues:
    """The values of every row of an evaluation, batch by batch: 8 bytes for each row and key.

    Args:
        collection: The metrics; those without values per row are left out.
        over_all: For each metric by bucket the key of its value over all labels.

    Attributes:
        facts: What the values do not tell by themselves.
    """

    def __init__(self, collection: TopKCollection, over_all: Mapping[str, str] | None = None) -> None:
        self._named = collection._set_name
        self._metrics: list[Any] = [one for one in collection.members().values() if has_row_values(one)]
        averages = [one for one in collection.members().values() if has_label_cells(one)]
        self._cells = [LabelCells(one) for one in averages]
        self.facts = RowFacts.of([*self._metrics, *averages], over_all or {}, self._named)
        self._batches: list[dict[str, tuple[Column, ...]]] = []

    def add(self, ranking: Ranking) -> None:
        """Add a batch."""
        found: dict[str, tuple[Column, ...]] = {}
        for cells in self._cells:
            cells.add(ranking)
        for metric in self._metrics:
            values = {key: _sides(value) for key, value in values_of_rows(metric, ranking).items()}
            found |= {self._named(key): sides for key, sides in values.items()}
            for number, group in enumerate(metric.group_keys()[1:]):
                assert ranking.rows.groups is not None
                inside = ranking.rows.groups.cpu().numpy() == number
                for key, whole in zip(metric.row_keys(group), metric.row_keys(), strict=True):
                    found[self._named(key)] = tuple(np.where(inside, side, np.nan) for side in values[whole])
        self._batches.append(found)

    def columns(self) -> dict[str, Any]:
        """Return the values of all rows by key; two vectors where a value is a ratio of sums; or what labels count."""
        joined: dict[str, Any] = {}
        for key in self._batches[0] if self._batches else ():
            sides = [np.concatenate(side) for side in zip(*(batch[key] for batch in self._batches), strict=True)]
            joined[key] = (sides[0], sides[1]) if len(sides) == 2 else sides[0]
        for cells in self._cells:
            joined |= {self._named(key): one for key, one in cells.in_order().items()}
        return joined


def _sides(value: Any) -> tuple[Column, ...]:
    parts = value if isinstance(value, tuple) else (value,)
    return tuple(part.detach().cpu().numpy().astype(np.float64) for part in parts)
