"""Recall at k, plain and normalised by what is attainable."""

from __future__ import annotations

from typing import final

from torch import Tensor

from tailmetrics.metrics._arithmetic import divide
from tailmetrics.metrics._formula import formula
from tailmetrics.metrics._labels import LabelAveragedMetric
from tailmetrics.metrics._rows import RowMeanMetric
from tailmetrics.metrics._ties import EVERY_RULE
from tailmetrics.ranking import Cutoff, TargetRanks


@formula
def recall_at_k(ranks: TargetRanks, k: Cutoff) -> Tensor:
    """Share of the relevant labels that is among the top k: h_k / n.

    Higher is better, in [0, 1]; 0 without a relevant label.

    Args:
        ranks: Leading axes (...).
        k: Cut-off; or a tuple of several: the value then has an axis of them in front.

    Returns:
        Shape (...), float64.

    >>> import torch
    >>> recall_at_k(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 2]]), k=2).tolist()
    [0.5]

    Source: Manning, Raghavan and Schütze, Introduction to Information Retrieval (2008), 8.3.
    """
    return ranks.real_hits_at(k) / ranks.divisor


@formula
def normalized_recall_at_k(ranks: TargetRanks, k: Cutoff) -> Tensor:
    """Share of the hits attainable within the top k that is there: h_k / min(k, n).

    Higher is better, in [0, 1]; 0 without a relevant label.

    Args:
        ranks: Leading axes (...).
        k: Cut-off; or a tuple of several: the value then has an axis of them in front.

    Returns:
        Shape (...), float64.

    >>> import torch
    >>> normalized_recall_at_k(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 2]]), k=1).tolist()
    [1.0]

    Source: NIST trec_eval, "relative_P".
    """
    return divide(ranks.real_hits_at(k), ranks.attainable_at(k))


@final
class RecallAtK(LabelAveragedMetric):
    """Share of the relevant labels that is among the top k.

    Higher is better, in [0, 1]; NaN before any row.

    Use it when a missed label costs, and the list goes to a second stage or a patient reader.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or several.
        kwargs: See :class:`LabelAveragedMetric`, :class:`RelevanceMetric`, :class:`TopKMetric`.

    >>> import torch
    >>> metric = RecallAtK(k=[1, 2])
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 1]]))
    >>> metric.compute()
    tensor([0.5000, 1.0000], dtype=torch.float64)

    Source: Manning, Raghavan and Schütze, Introduction to Information Retrieval (2008), 8.3.
    """

    higher_is_better = True
    stem = "recall"
    tie_rules = EVERY_RULE
    ratio_reads = ("support",)
    withheld = ("macro",)

    def _row_value(self, ranks: TargetRanks, k: Cutoff) -> Tensor:
        return recall_at_k(ranks, k)

    def _label_ratio(self, hits: Tensor, predicted: Tensor, support: Tensor) -> tuple[Tensor, Tensor]:
        return hits, support


@final
class NormalizedRecallAtK(RowMeanMetric):
    """Share of the hits attainable within the top k that is there.

    Higher is better, in [0, 1]; NaN before any row.

    Use it when rows may have more than k relevant labels: recall could not reach 1 there.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or several.
        kwargs: See :class:`RelevanceMetric`, :class:`TopKMetric`.

    >>> import torch
    >>> metric = NormalizedRecallAtK(k=1)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 1]]))
    >>> metric.compute()
    tensor(1., dtype=torch.float64)

    Source: NIST trec_eval, "relative_P".
    """

    higher_is_better = True
    stem = "normalized_recall"
    tie_rules = EVERY_RULE

    def _row_value(self, ranks: TargetRanks, k: Cutoff) -> Tensor:
        return normalized_recall_at_k(ranks, k)
