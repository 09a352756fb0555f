"""Metrics of what is shown, whether relevant or not: they count every row and have no scope."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor

from tailmetrics.metrics._base import Cutoffs, Increments, PerLabel, State, TopKMetric
from tailmetrics.ranking import Ranking


class ShownMetric(TopKMetric):
    """A metric that reads the top k as shown to a user.

    Args:
        k: Cut-off, or several.
        kwargs: See :class:`TopKMetric`.
    """

    def __init__(self, k: Cutoffs, **kwargs: Any) -> None:
        super().__init__(k, **kwargs)
        self._complete()

    @property
    def reads(self) -> tuple[int, bool]:
        """How much of a ranking is read: the first so many labels, and whether anything beyond them too."""
        return max(self.ks), False


class ExposureMetric(ShownMetric):
    """A function of how often each label is shown among the top k; a new metric states that function.

    The counts are one state, which all such metrics share within a collection.
    """

    needs_num_labels = True

    @abstractmethod
    def _of_exposure(self, shown: Tensor, inside: Tensor | None) -> float:
        """Return the value, called at ``compute`` for every cut-off and bucket.

        Args:
            shown: Shape (L_b,), int64 on the CPU: how often each label (of the bucket) was shown.
            inside: Shape (L_b,), int64: the labels of the bucket; None for all.
        """

    def _states(self) -> dict[str, State]:
        assert self.num_labels is not None
        shown = {f"labels_shown_at_{k}": State((self.num_labels,)) for k in self.ks}
        return {**shown, "labels_rows": State((1,))}

    def _prepare(self, ranking: Ranking) -> Increments:
        increments: dict[str, Tensor | PerLabel] = {"labels_rows": rows_of(ranking)}
        for k in self.ks:
            ids = ranking.ids[:, :k]
            increments[f"labels_shown_at_{k}"] = PerLabel(ids.clamp(min=0).reshape(-1), (ids >= 0).reshape(-1))
        return increments

    def _values(self) -> list[list[float]]:
        if not int(self._state("labels_rows")):
            return [[float("nan")] * self._groups for _ in self.ks]
        values = []
        for k in self.ks:
            shown = self._state(f"labels_shown_at_{k}").cpu()
            if self._bound_buckets is None:
                values.append([self._of_exposure(shown, None)])
                continue
            order = self._bound_buckets.assignment.argsort(stable=True)
            parts = torch.split(order, self._bound_buckets.label_counts.tolist())
            values.append([self._of_exposure(shown[inside], inside) for inside in parts])
        return values


def rows_of(ranking: Ranking) -> Tensor:
    """Return the number of rows that count, shape (1,), int64."""
    if ranking.row_mask is None:
        return torch.full((1,), ranking.num_rows, device=ranking.ids.device)
    return ranking.row_mask.sum().view(1)


def total(counts: Tensor) -> int:
    """Return the sum of whole numbers."""
    return int(counts.sum(dtype=torch.int64))
