"""F-beta at k."""

from __future__ import annotations

import math
from typing import final

from torch import Tensor
from typing_extensions import Unpack

from tailmetrics._checks import check_between
from tailmetrics.metrics._arguments_of_metrics import Cutoffs
from tailmetrics.metrics._arithmetic import divide
from tailmetrics.metrics._formula import formula
from tailmetrics.metrics._labels import Denominator, LabelArguments, LabelAveragedMetric
from tailmetrics.metrics._ties import EVERY_RULE
from tailmetrics.ranking import Cutoff, TargetRanks


@formula
def f_beta_at_k(ranks: TargetRanks, k: Cutoff, beta: float = 2.0, denominator: Denominator = "predicted") -> Tensor:
    """Harmonic mean of precision and recall, recall weighing beta^2: (1 + beta^2) h_k / (m_k + beta^2 n).

    Higher is better, in [0, 1]; 0 when both are 0.

    Args:
        ranks: Leading axes (...).
        k: Cut-off; or a tuple of several: the value then has an axis of them in front.
        beta: How many times as much recall counts as precision, above 0.
        denominator: What precision divides by: ``"predicted"``, m_k; ``"k"``, k even for shorter lists.

    Returns:
        Shape (...), float64.

    >>> from torch import tensor
    >>> float(f_beta_at_k(tensor([[0, 1]]), tensor([[0, 2]]), k=2, beta=1.0))
    0.5

    Source: van Rijsbergen, Information Retrieval (1979); scikit-learn's ``fbeta_score``.
    """
    listed = ranks.length_at(k) if denominator == "predicted" else ranks.cutoffs(k)
    return divide(*_terms(ranks.hits_at(k), listed, ranks.n_relevant, beta))


def _terms(hits: Tensor, predicted: Tensor | int, support: Tensor, beta: float) -> tuple[Tensor, Tensor]:
    return (1 + beta**2) * hits.double(), predicted + beta**2 * support.double()


@final
class FBetaAtK(LabelAveragedMetric):
    """Harmonic mean of precision and recall at k in which recall weighs beta^2.

    Higher is better, in [0, 1]; NaN before any row.

    Use it when a missed label costs more than a wrong one (beta above 1), or less (beta below 1).

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or several.
        beta: How many times as much recall counts as precision, above 0; 1 is F1.
        kwargs: See :class:`LabelAveragedMetric`, :class:`RelevanceMetric`, :class:`TopKMetric`.

    >>> import torch
    >>> metric = FBetaAtK(k=1, beta=2.0)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 2]]))
    >>> metric.compute()
    tensor(0.5556, dtype=torch.float64)

    Source: van Rijsbergen, Information Retrieval (1979); scikit-learn's ``fbeta_score``.
    """

    higher_is_better = True
    stem = "f_beta"
    tie_rules = EVERY_RULE

    def __init__(self, k: Cutoffs, *, beta: float = 2.0, **kwargs: Unpack[LabelArguments]) -> None:
        self.beta = check_between(self._caller, "beta", beta, 0.0, math.inf)
        super().__init__(k, **kwargs)

    def _row_value(self, ranks: TargetRanks, k: Cutoff) -> Tensor:
        return f_beta_at_k(ranks, k, self.beta, self.denominator)

    def _label_ratio(self, hits: Tensor, predicted: Tensor, support: Tensor) -> tuple[Tensor, Tensor]:
        return _terms(hits, predicted, support, self.beta)
