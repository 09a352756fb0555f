"""How far the probabilities of what is shown are from how often it is right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor
from typing_extensions import Unpack

from tailmetrics._checks import check_count
from tailmetrics.metrics._arguments_of_metrics import Cutoffs, TopKArguments
from tailmetrics.metrics._fixed_point import UNIT
from tailmetrics.metrics._shown import ShownMetric, check_finite
from tailmetrics.metrics._states import AtCells, Increments, State
from tailmetrics.ranking import Ranking
from tailmetrics.ranking._ambiguity import warn_of_probabilities
from tailmetrics.ranking._device import made_once


@final
class CalibrationErrorAtK(ShownMetric):
    """Expected calibration error: the mean difference, over bins of probability, of share right and mean probability.

    Lower is better, in [0, 1]; NaN when nothing is shown. Probabilities are the softmax of a row's scores over all
    labels: of probabilities, pass the logarithm. What is binned are the labels among the top k, by bucket those of the
    bucket.

    Use it when scores are read as probabilities, such as a confidence beside a suggestion.

    ``preds`` are scores of all labels (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or several.
        bins: Number of bins of equal width, closed at their lower end.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = CalibrationErrorAtK(bins=2)
    >>> metric.update(torch.zeros(4, 4), torch.tensor([0, 0, 0, 3]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: Guo, Pleiss, Sun and Weinberger, ICML 2017; TorchMetrics, ``MulticlassCalibrationError(norm="l1")``.
    """

    higher_is_better = False
    stem = "calibration_error"

    def __init__(self, k: Cutoffs = 1, *, bins: int = 15, **kwargs: Unpack[TopKArguments]) -> None:
        self.bins = check_count(self._caller, "bins", bins)
        super().__init__(k, **kwargs)

    def _check(self, ranking: Ranking) -> None:
        super()._check(ranking)
        if not ranking.scores_all:
            raise ValueError(
                f"{self._caller}: preds are ids or candidates, whose probabilities over all labels nothing tells; pass "
                "dense scores [N, L]."
            )
        check_finite(self._caller, ranking, self.validate_args)

    def _warn_of(self, ranking: Ranking) -> None:
        scores = ranking.scores
        if scores is not None:
            key = "probabilities warned of"  # once for all members of a collection
            ranking.remembered(key, lambda: warn_of_probabilities(self._caller, scores, ranking.row_mask))

    def _states(self) -> dict[str, State]:
        bins = len(self.cutoffs), self._num_buckets, self.bins
        return {"shown": State(bins), "right": State(bins), "confidence": State((*bins, UNIT.columns))}

    def _prepare(self, ranking: Ranking) -> Increments:
        ranking, deepest = self._relevant(ranking), max(self.ks)
        ids = ranking.ids[:, :deepest]
        assert ranking.values is not None
        rows = torch.arange(len(ids), device=ids.device)[:, None].expand(ids.shape)
        chance = ranking.log_probabilities(ranking.values[:, : ids.shape[1]], rows).exp().clamp(max=1)
        chance = torch.where(ids >= 0, chance, 0.0)
        place = torch.bucketize(chance, _edges(self.bins, chance.device), right=True)
        buckets = self.bound_buckets
        bucket = torch.zeros_like(ids) if buckets is None else buckets.of(ids).clamp(max=len(buckets) - 1)
        right = ranking.gains[:, :deepest] > 0
        cells, shown, hits, chances, of_rows = [], [], [], [], []
        for number, k in enumerate(self.ks):
            inside = ids[:, :k] >= 0
            cell = ((number * self._num_buckets + bucket) * self.bins + place)[:, :k]
            cells.append(cell.reshape(-1))
            shown.append(inside.reshape(-1))
            hits.append((right[:, :k] & inside).reshape(-1))
            chances.append(chance[:, :k].reshape(-1))
            of_rows.append(rows[:, :k].reshape(-1))
        cell, row = torch.cat(cells), torch.cat(of_rows)
        return {
            "shown": AtCells(cell, torch.cat(shown), row),
            "right": AtCells(cell, torch.cat(hits), row),
            "confidence": _limbs(cell, torch.cat(chances), row),
        }

    def _values(self, states: Mapping[str, Tensor]) -> list[list[float]]:
        shape = len(self.cutoffs) * self._num_buckets, self.bins
        right, shown = (states[name].view(shape).tolist() for name in ("right", "shown"))
        totals = UNIT.totals(states["confidence"])
        values = []
        for number, (hits, counts) in enumerate(zip(right, shown, strict=True)):
            sure = totals[number * self.bins : (number + 1) * self.bins]
            apart = sum(abs(hit * UNIT.unit - int(one)) for hit, one in zip(hits, sure, strict=True))
            values.append(apart / (sum(counts) * UNIT.unit) if sum(counts) else float("nan"))
        return [values[first : first + self._num_buckets] for first in range(0, len(values), self._num_buckets)]


@made_once
def _edges(bins: int) -> Tensor:
    """Return the lower ends of all bins but the first."""
    return torch.tensor([number / bins for number in range(1, bins)], dtype=torch.float64)


def _limbs(cells: Tensor, values: Tensor, rows: Tensor) -> AtCells:
    """Return values in [0, 1] to be added to cells, as limbs that lie side by side in the state."""
    columns = torch.arange(UNIT.columns, device=cells.device)
    places = cells[:, None] * UNIT.columns + columns
    return AtCells(places.reshape(-1), UNIT.digits(values).reshape(-1), rows.repeat_interleave(UNIT.columns))
