"""Which part of what is shown comes from each bucket."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor

from tailmetrics.metrics._fixed_point import ratios
from tailmetrics.metrics._shown import ShownMetric, rows_of
from tailmetrics.metrics._states import Increments, PerRow, State
from tailmetrics.ranking import Ranking


@final
class PredictionProportionAtK(ShownMetric):
    """Share of the k places of all rows that show a label of the bucket.

    Neither direction is better, in [0, 1]; NaN before any row. Without buckets: the share of places that are filled.

    Use it with buckets when the question is how much of the lists head and tail take up.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

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

    Source: Abdollahpouri, Burke and Mobasher, FLAIRS 2019, "APLT", for each bucket.
    """

    higher_is_better = None
    stem = "prediction_proportion"
    can_be_weighted = True
    withheld = ("min_gain",)

    def _states(self) -> dict[str, State]:
        columns = self._counts.columns
        return {"shown": State((len(self.cutoffs), self._num_buckets, columns)), "rows": State((1, columns))}

    def _prepare(self, ranking: Ranking) -> Increments:
        shown = torch.stack([self._shown_of(ranking, k) for k in self.ks], dim=1)
        return {"shown": PerRow(shown), "rows": rows_of(ranking)}

    def _shown_of(self, ranking: Ranking, k: int) -> Tensor:
        """Return how many labels of each bucket each row shows among its top k, shape (N, G)."""
        ids, buckets = ranking.ids[:, :k], self.bound_buckets
        if buckets is None:
            return (ids >= 0).sum(dim=1, keepdim=True)
        return buckets.totals(ids)

    def _values(self, states: Mapping[str, Tensor]) -> list[list[float]]:
        (rows,), shown = self._counts.totals(states["rows"]), self._counts.totals(states["shown"])
        buckets = self._num_buckets
        return [
            ratios(shown[number * buckets : (number + 1) * buckets], [k * int(rows)] * buckets)
            for number, k in enumerate(self.ks)
        ]
