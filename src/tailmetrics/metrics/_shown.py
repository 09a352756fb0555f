"""Metrics of what is shown, whether relevant or not: they count every row and have no scope."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from tailmetrics.metrics._metric import TopKMetric
from tailmetrics.metrics._states import Increments, PerRow, State, at_labels
from tailmetrics.ranking import Ranking
from tailmetrics.ranking._reading import Depth


class ShownMetric(TopKMetric):
    """A metric that reads the top k as shown to a user.

    Args:
        k: Cut-off, or several.
        kwargs: See :class:`TopKMetric`.
    """

    @property
    def reads(self) -> Depth:
        """How much of a batch has to be ranked."""
        return Depth(max(self.ks), max(self.ks))

    def _no_value(self) -> list[list[float]]:
        """Return NaN for every cut-off and bucket."""
        return [[float("nan")] * self._num_buckets for _ in self.ks]


class ExposureMetric(ShownMetric):
    """A function of how often each label is shown among the top k; a new metric states that function.

    The counts are one state, which all such metrics share within a collection.
    """

    withheld: ClassVar[tuple[str, ...]] = ("min_gain",)
    needs: tuple[str, ...] = ("num_labels",)

    @abstractmethod
    def _of_exposure(self, shown: Tensor, inside: Tensor | None) -> float:
        """Return the value, called at ``compute`` for every cut-off and bucket.

        Args:
            shown: Shape (L_b,), int64 on the CPU: how often each label (of the bucket) was shown; float64, the
                weight of the rows that it was shown in, if the metric is weighted.
            inside: Shape (L_b,), int64: the labels of the bucket; None for all.
        """

    def _states(self) -> dict[str, State]:
        assert self.num_labels is not None
        columns = (self._counts.columns,) if self.weighted else ()
        shown = {f"shown_at_{k}": State((self.num_labels, *columns), shared=not columns) for k in self.ks}
        return {**shown, "rows": State((1, self._counts.columns), shared=not columns)}

    def _prepare(self, ranking: Ranking) -> Increments:
        shown = {f"shown_at_{k}": at_labels(ranking.ids[:, :k], ranking.ids[:, :k] >= 0) for k in self.ks}
        return {**shown, "rows": rows_of(ranking)}

    def _values(self, states: Mapping[str, Tensor]) -> list[list[float]]:
        if not self._counts.totals(states["rows"])[0]:
            return self._no_value()
        shown = (states[f"shown_at_{k}"].cpu() for k in self.ks)
        return [self._of_buckets(self._counts.floats(of_k) if self.weighted else of_k) for of_k in shown]

    def _of_buckets(self, counts: Tensor) -> list[float]:
        """Return the value of counts (L,), for each bucket where there are buckets."""
        buckets = self.bound_buckets
        if buckets is None:
            return [self._of_exposure(counts, None)]
        parts = torch.split(buckets.assignment.argsort(stable=True), buckets.label_counts.tolist())
        return [self._of_exposure(counts[inside], inside) for inside in parts]


def rows_of(ranking: Ranking) -> PerRow:
    """Return, for each row, whether it counts, shape (N, 1)."""

    def make() -> PerRow:
        every = torch.ones(ranking.num_rows, 1, dtype=torch.bool, device=ranking.ids.device)
        return PerRow(every if ranking.row_mask is None else ranking.row_mask[:, None])

    return ranking.remembered("rows", make)


def check_finite(caller: str, ranking: Ranking, validate: bool) -> None:
    """Raise if a row that counts has an infinite score on top: its softmax is undefined, and no state could take it."""
    if validate and ranking.values is not None:
        infinite = (ranking.values[:, :1] == torch.inf).any(dim=1)
        if bool((infinite if ranking.row_mask is None else infinite & ranking.row_mask).any()):
            raise ValueError(f"{caller}: preds holds inf, for which softmax is undefined; pass finite scores.")


def total(counts: Tensor) -> int:
    """Return the sum of whole numbers."""
    return int(counts.sum(dtype=torch.int64))
