"""Precision at k."""

from __future__ import annotations

from typing import final

from torch import Tensor

from tailmetrics.metrics._arithmetic import divide
from tailmetrics.metrics._fixed_point import COUNT, UNIT, FixedPoint
from tailmetrics.metrics._formula import formula
from tailmetrics.metrics._labels import Denominator, LabelAveragedMetric
from tailmetrics.metrics._ties import EVERY_RULE
from tailmetrics.ranking import Cutoff, TargetRanks


@formula
def precision_at_k(ranks: TargetRanks, k: Cutoff, denominator: Denominator = "predicted") -> Tensor:
    """Share of the top k that is relevant: h_k / m_k, or h_k / k.

    Higher is better, in [0, 1]; 0 for an empty list.

    Args:
        ranks: Leading axes (...).
        k: Cut-off; or a tuple of several: the value then has an axis of them in front.
        denominator: ``"predicted"``, m_k, the labels there are among the top k; ``"k"``, k even for shorter lists.

    Returns:
        Shape (...), float64.

    >>> import torch
    >>> precision_at_k(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 2]]), k=2).tolist()
    [0.5]

    Source: Manning, Raghavan and Schütze, Introduction to Information Retrieval (2008), 8.4.
    """
    return divide(ranks.real_hits_at(k), ranks.length_at(k) if denominator == "predicted" else ranks.cutoffs(k))


@final
class PrecisionAtK(LabelAveragedMetric):
    """Share of the top k that is relevant.

    Higher is better, in [0, 1]; NaN before any row.

    Use it when each of the k places is seen, and a wrong label in one of them costs the same.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or several.
        denominator: ``"predicted"``, the labels there are among the top k; ``"k"``, k even for shorter lists.
        kwargs: See :class:`LabelAveragedMetric`, :class:`RelevanceMetric`, :class:`TopKMetric`.

    >>> import torch
    >>> metric = PrecisionAtK(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 2]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: Manning, Raghavan and Schütze, Introduction to Information Retrieval (2008), 8.4.
    """

    higher_is_better = True
    stem = "precision"
    tie_rules = EVERY_RULE
    ratio_reads = ("predicted",)
    withheld = ("macro",)

    @property
    def fixed_point(self) -> FixedPoint:  # type: ignore[override]
        """How values are written: h_k as it is where k divides it, else h_k / m_k."""
        return COUNT if self._counts_hits else UNIT

    def _row_value(self, ranks: TargetRanks, k: Cutoff) -> Tensor:
        return ranks.hits_at(k) if self._counts_hits else precision_at_k(ranks, k, self.denominator)

    def _per_one(self, k: int) -> int:
        return k if self._counts_hits else 1

    @property
    def _counts_hits(self) -> bool:
        return self.denominator == "k" and self.ties != "expected"

    def _label_ratio(self, hits: Tensor, predicted: Tensor, support: Tensor) -> tuple[Tensor, Tensor]:
        return hits, predicted
