"""Mean reciprocal rank."""

from __future__ import annotations

from typing import final

from torch import Tensor
from typing_extensions import Unpack

from tailmetrics.metrics._arguments_of_metrics import Cutoffs
from tailmetrics.metrics._formula import formula
from tailmetrics.metrics._relevance import RelevanceArguments
from tailmetrics.metrics._rows import RowMeanMetric
from tailmetrics.metrics._ties import EVERY_RULE, ExpectedRanks
from tailmetrics.ranking import EVERYTHING, Cutoff, TargetRanks


@formula
def reciprocal_rank(ranks: TargetRanks, k: Cutoff | None = None) -> Tensor:
    """One divided by the rank of the first relevant label.

    Higher is better, in [0, 1]; 0 if there is none within the top k.

    Args:
        ranks: Leading axes (...).
        k: Cut-off; or a tuple of several: the value then has an axis of them in front; None for
            everything retrieved, on dense scores all labels however deep the ranks.

    Returns:
        Shape (...), float64.

    >>> import torch
    >>> reciprocal_rank(torch.tensor([[0, 1, 2]]), torch.tensor([1])).tolist()
    [0.5]

    Source: Voorhees, The TREC-8 question answering track report (1999).
    """
    ranks, k = (ranks.exact, EVERYTHING) if k is None else (ranks, k)
    if isinstance(ranks, ExpectedRanks):
        return ranks.reciprocal_of_first(k)
    return ranks.real_first_rank.reciprocal() * ranks.first_within(k)


@final
class MRR(RowMeanMetric):
    """Mean over rows of one divided by the rank of the first relevant label.

    Higher is better, in [0, 1]; NaN before any row. 1 / MRR is a harmonic mean of ranks, not an average rank.

    Use it when users stop at the first relevant label, as in question answering.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or several; None for the whole ranking, on dense scores all labels.
        kwargs: See :class:`RelevanceMetric`, :class:`TopKMetric`.

    >>> import torch
    >>> metric = MRR()
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([1]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: Voorhees, The TREC-8 question answering track report (1999).
    """

    higher_is_better = True
    stem = "mrr"
    tie_rules = EVERY_RULE
    optional_k = True

    def __init__(self, k: Cutoffs | None = None, **kwargs: Unpack[RelevanceArguments]) -> None:
        super().__init__(k, **kwargs)

    def _row_value(self, ranks: TargetRanks, k: Cutoff) -> Tensor:
        return reciprocal_rank(ranks, k)
