"""F1 at k."""

from __future__ import annotations

from typing import final

from torch import Tensor

from tailmetrics.metrics._arithmetic import divide
from tailmetrics.metrics._formula import formula
from tailmetrics.metrics._labels import Denominator, LabelAveragedMetric
from tailmetrics.metrics._ties import EVERY_RULE
from tailmetrics.ranking import Cutoff, TargetRanks


@formula
def f1_at_k(ranks: TargetRanks, k: Cutoff, denominator: Denominator = "predicted") -> Tensor:
    """Harmonic mean of precision and recall at k: 2 h_k / (m_k + n), or 2 h_k / (k + n).

    Higher is better, in [0, 1]; 0 when both are 0.

    Args:
        ranks: Leading axes (...).
        k: Cut-off; or a tuple of several: the value then has an axis of them in front.
        denominator: What precision divides by, as in :func:`precision_at_k`.

    Returns:
        Shape (...), float64.

    >>> import torch
    >>> f1_at_k(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 2]]), k=2).tolist()
    [0.5]

    Source: Manning, Raghavan and Schütze, Introduction to Information Retrieval (2008), 8.3.
    """
    listed = ranks.length_at(k) if denominator == "predicted" else ranks.cutoffs(k)
    return divide(2 * ranks.real_hits_at(k), listed + ranks.n_relevant)


@final
class F1AtK(LabelAveragedMetric):
    """Harmonic mean of precision and recall at k.

    Higher is better, in [0, 1]; NaN before any row. ``F1AtK(k=1, average="weighted")`` on class-index targets is the
    weighted F1 of classification.

    Use it when finding labels and showing few wrong ones weigh the same, and one number is asked for.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or several.
        kwargs: See :class:`LabelAveragedMetric`, :class:`RelevanceMetric`, :class:`TopKMetric`.

    >>> import torch
    >>> metric = F1AtK(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 2]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: Manning, Raghavan and Schütze, Introduction to Information Retrieval (2008), 8.3;
    scikit-learn, ``f1_score``.
    """

    higher_is_better = True
    stem = "f1"
    tie_rules = EVERY_RULE

    def _row_value(self, ranks: TargetRanks, k: Cutoff) -> Tensor:
        return f1_at_k(ranks, k, self.denominator)

    def _label_ratio(self, hits: Tensor, predicted: Tensor, support: Tensor) -> tuple[Tensor, Tensor]:
        return 2 * hits, predicted + support
