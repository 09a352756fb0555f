"""How many rows are cut inside a tie."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor
from typing_extensions import Unpack

from tailmetrics.metrics._arguments_of_metrics import Cutoffs, TopKArguments
from tailmetrics.metrics._fixed_point import ratios
from tailmetrics.metrics._shown import ShownMetric, rows_of
from tailmetrics.metrics._states import Increments, PerRow, State
from tailmetrics.ranking import Ranking


@final
class TieRateAtK(ShownMetric):
    """Share of rows in which the last label of the top k scores the same as the first one left out.

    Lower is better, in [0, 1]; NaN without a row that has scores. There the lower label id is shown: with ids in order
    of frequency, a model that gives every label the same score looks good on the head.

    Use it when scores may be equal, as those of a model that is cast to few bits or has learnt little.

    ``preds`` are scores (N, L), candidates (N, C) or CSR (N, L), as ids have no scores that could tie; ``target`` is
    (N,), (N, M) or (N, L), and is not read.

    Args:
        k: Cut-off, or several.
        kwargs: See :class:`TopKMetric`; buckets make no difference and are refused.

    >>> import torch
    >>> metric = TieRateAtK(k=1)
    >>> metric.update(torch.tensor([[0.5, 0.5, 0.1], [0.9, 0.5, 0.1]]), torch.tensor([0, 0]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: invented here; constant scores are measured to pass for a head model in other libraries.
    """

    higher_is_better = False
    stem = "tie_rate"
    withheld = ("min_gain",)

    def __init__(self, k: Cutoffs, **kwargs: Unpack[TopKArguments]) -> None:
        if kwargs.get("buckets") is not None:
            raise ValueError(f"{self._caller}: a tie is of a row, not of a bucket; leave buckets out.")
        super().__init__(k, **kwargs)

    def _check(self, ranking: Ranking) -> None:
        super()._check(ranking)
        deepest = max(self.ks)
        if ranking.values is not None and not ranking.complete and ranking.values.shape[1] <= deepest:
            raise ValueError(
                f"{self._caller}: k={deepest} asks for the place behind the top {deepest}, but the ranking was cut at "
                f"{ranking.values.shape[1]}; rank with depth={deepest + 1}."
            )

    def _states(self) -> dict[str, State]:
        return {"tied": State((len(self.cutoffs),)), "rows": State((1,))}

    def _prepare(self, ranking: Ranking) -> Increments:
        tied = torch.stack([ranking.tied_at(k) for k in self.ks], dim=1)
        rows = rows_of(ranking)
        return {"tied": PerRow(tied), "rows": rows if ranking.values is not None else PerRow(rows.values & False)}

    def _values(self, states: Mapping[str, Tensor]) -> list[list[float]]:
        rows = int(states["rows"])
        return [ratios([tied], [rows]) for tied in states["tied"].tolist()]
