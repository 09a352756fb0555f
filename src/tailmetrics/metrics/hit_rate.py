"""Whether anything relevant is shown: hit rate, accuracy and relevance at k."""

from __future__ import annotations

from typing import final

from torch import Tensor

from tailmetrics.metrics._arithmetic import ordered_sum
from tailmetrics.metrics._fixed_point import COUNT
from tailmetrics.metrics._formula import formula
from tailmetrics.metrics._rows import RowMeanMetric
from tailmetrics.metrics._ties import EVERY_RULE
from tailmetrics.ranking import Cutoff, TargetRanks


@formula
def hit_rate_at_k(ranks: TargetRanks, k: Cutoff) -> Tensor:
    """Whether a relevant label is among the top k: 1 if h_k > 0.

    Higher is better, 0 or 1.

    Args:
        ranks: Leading axes (...).
        k: Cut-off; or a tuple of several: the value then has an axis of them in front.

    Returns:
        Shape (...), bool.

    >>> import torch
    >>> hit_rate_at_k(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 2]]), k=1).tolist()
    [True]

    Source: scikit-learn, ``top_k_accuracy_score``, where a row has one target.
    """
    return ranks.first_within(k)


@formula
def relevance_at_k(ranks: TargetRanks, k: Cutoff) -> Tensor:
    """Whether the label at rank k is relevant.

    Higher is better, 0 or 1.

    Args:
        ranks: Leading axes (...).
        k: Rank; or a tuple of several: the value then has an axis of them in front.

    Returns:
        Shape (...), bool.

    >>> import torch
    >>> relevance_at_k(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 2]]), k=2).tolist()
    [False]

    Source: the relevance at one rank of average precision;
    Manning, Raghavan and Schütze, Introduction to Information Retrieval (2008), 8.4.
    """
    at = ranks.at(k)
    return ordered_sum(at) if at.is_floating_point() else at.any(dim=-1)


@final
class HitRateAtK(RowMeanMetric):
    """Share of rows with a relevant label among the top k.

    Higher is better, in [0, 1]; NaN before any row.

    Use it when one good suggestion is enough, such as the next location or the next item.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or several.
        kwargs: See :class:`RelevanceMetric`, :class:`TopKMetric`.

    >>> import torch
    >>> metric = HitRateAtK(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1], [0.9, 0.5, 0.1]]), torch.tensor([1, 2]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: scikit-learn, ``top_k_accuracy_score``.
    """

    higher_is_better = True
    stem = "hit_rate"
    tie_rules = EVERY_RULE
    fixed_point = COUNT

    def _row_value(self, ranks: TargetRanks, k: Cutoff) -> Tensor:
        return hit_rate_at_k(ranks, k)


@final
class AccuracyAtK(RowMeanMetric):
    """Share of rows with a relevant label among the top k: :class:`HitRateAtK` as classification calls it.

    Higher is better, in [0, 1]; NaN before any row.

    Use it when each row has one class, as in classification: k=1 is its accuracy.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or several.
        kwargs: See :class:`RelevanceMetric`, :class:`TopKMetric`.

    >>> import torch
    >>> metric = AccuracyAtK(k=1)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1], [0.9, 0.5, 0.1]]), torch.tensor([0, 2]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: scikit-learn, ``top_k_accuracy_score``.
    """

    higher_is_better = True
    stem = "accuracy"
    tie_rules = EVERY_RULE
    fixed_point = COUNT

    def _row_value(self, ranks: TargetRanks, k: Cutoff) -> Tensor:
        return hit_rate_at_k(ranks, k)


@final
class RelevanceAtK(RowMeanMetric):
    """Share of rows whose label at rank k is relevant.

    Higher is better, in [0, 1]; NaN before any row.

    Use it when a place in the list matters by itself, such as the one that is shown largest.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Rank, or several.
        kwargs: See :class:`RelevanceMetric`, :class:`TopKMetric`.

    >>> import torch
    >>> metric = RelevanceAtK(k=[1, 2])
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([1]))
    >>> metric.compute()
    tensor([0., 1.], dtype=torch.float64)

    Source: the relevance at one rank of average precision;
    Manning, Raghavan and Schütze, Introduction to Information Retrieval (2008), 8.4.
    """

    higher_is_better = True
    stem = "relevance"
    tie_rules = EVERY_RULE
    fixed_point = COUNT

    def _row_value(self, ranks: TargetRanks, k: Cutoff) -> Tensor:
        return relevance_at_k(ranks, k)
