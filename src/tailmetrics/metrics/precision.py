"""Precision at k."""

from __future__ import annotations

from typing import Any, final

import torch
from torch import Tensor

from tailmetrics.metrics._base import Cutoffs
from tailmetrics.metrics._fixed_point import COUNT, UNIT
from tailmetrics.metrics._labels import Denominator, LabelAveragedMetric
from tailmetrics.metrics._rows import divide
from tailmetrics.ranking import TargetRanks


def precision_at_k(ranks: TargetRanks, k: int, denominator: Denominator = "predicted") -> Tensor:
    """Share of the top k that is relevant: h_k / m_k, or h_k / k.

    Higher is better, in [0, 1]; 0 for an empty list.

    Args:
        ranks: Leading axes (...).
        k: Cut-off.
        denominator: ``"predicted"``, m_k, the labels there are among the top k; ``"k"``, k even for shorter lists.

    Returns:
        Shape (...), float64.

    Source: thesis metric notes, "P@k".
    """
    hits = ranks.hits_at(k)
    return divide(hits, ranks.length.clamp(max=k) if denominator == "predicted" else torch.full_like(hits, k))


@final
class PrecisionAtK(LabelAveragedMetric):
    """Share of the top k that is relevant.

    Higher is better, in [0, 1]; NaN before any row.

    Args:
        k: Cut-off, or several.
        denominator: ``"predicted"``, the labels there are among the top k; ``"k"``, k even for shorter lists.
        kwargs: See :class:`LabelAveragedMetric`, :class:`RelevanceMetric`, :class:`TopKMetric`.

    >>> import torch
    >>> metric = PrecisionAtK(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 2]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: thesis metric notes, "P@k".
    """

    higher_is_better = True
    stem = "precision"

    def __init__(self, k: Cutoffs, *, denominator: Denominator = "predicted", **kwargs: Any) -> None:
        self.fixed_point = COUNT if denominator == "k" else UNIT
        super().__init__(k, denominator=denominator, **kwargs)

    def _row_value(self, ranks: TargetRanks, k: int) -> Tensor:
        return ranks.hits_at(k) if self.denominator == "k" else precision_at_k(ranks, k)

    def _per_one(self, k: int) -> int:
        return k if self.denominator == "k" else 1

    def _label_ratio(self, hits: Tensor, predicted: Tensor, support: Tensor) -> tuple[Tensor, Tensor]:
        return hits, predicted
