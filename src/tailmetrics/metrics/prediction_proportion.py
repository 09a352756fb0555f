"""Which part of what is shown comes from each bucket."""

from __future__ import annotations

from typing import Any, final

import torch

from tailmetrics.metrics._base import Cutoffs, Increments, State
from tailmetrics.metrics._fixed_point import ratios
from tailmetrics.metrics._shown import ShownMetric, rows_of
from tailmetrics.ranking import Ranking
from tailmetrics.ranking._counters import BucketCounters


@final
class PredictionProportionAtK(ShownMetric):
    """Share of the k places of all rows that show a label of the bucket.

    Neither direction is better, in [0, 1]; NaN before any row. Without buckets: the share of places that are filled.

    Args:
        k: Cut-off, or several.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> from tailmetrics import LabelBuckets
    >>> buckets = LabelBuckets.from_assignment([0, 0, 1], ["head", "tail"])
    >>> metric = PredictionProportionAtK(k=2, buckets=buckets)
    >>> metric.update(torch.tensor([[0, 1], [0, 2]]), torch.tensor([0, 1]))
    >>> metric.compute()
    tensor([0.7500, 0.2500], dtype=torch.float64)

    Source: thesis metric notes, "prediction_proportions_at_k".
    """

    higher_is_better = None
    stem = "prediction_proportion"

    def __init__(self, k: Cutoffs, **kwargs: Any) -> None:
        super().__init__(k, **kwargs)

    def _states(self) -> dict[str, State]:
        return {"shown": State((len(self.cutoffs), self._groups)), "rows": State((1,))}

    def _prepare(self, ranking: Ranking) -> Increments:
        shown = []
        for k in self.ks:
            ids = ranking.ids[:, :k]
            if self._bound_buckets is None:
                shown.append((ids >= 0).sum().view(1))
            else:
                buckets = self._bound_buckets
                shown.append(BucketCounters(buckets.of(ids), len(buckets)).totals().sum(dim=0))
        return {"shown": torch.stack(shown), "rows": rows_of(ranking)}

    def _values(self) -> list[list[float]]:
        rows = int(self._state("rows"))
        shown = self._state("shown").tolist()
        return [ratios(of_k, [k * rows] * len(of_k)) for k, of_k in zip(self.ks, shown, strict=True)]
