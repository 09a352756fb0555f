"""Pairs of a relevant and an irrelevant label: area under the curve, coverage error and ranking loss of a row."""

from __future__ import annotations

from typing import final

from torch import Tensor

from tailmetrics.metrics._arithmetic import divide
from tailmetrics.metrics._fixed_point import COUNT
from tailmetrics.metrics._pairs import PairMetric
from tailmetrics.metrics._relevance import EmptyTargetAction
from tailmetrics.ranking import Ranking, TargetRanks


@final
class RowAUC(PairMetric):
    """Area under the ROC curve of a row: the share of pairs of a relevant and an irrelevant label in the right order.

    Higher is better, in [0, 1], 0.5 for chance; equal scores count one half. A row without a relevant or without an
    irrelevant label has no area: ``empty_target_action`` says what it counts, by default nothing (``"skip"``).

    Use it when the whole order matters and no cut-off is natural; recommenders call it GAUC.

    ``preds`` are scores (N, L), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        kwargs: See :class:`PairMetric`, :class:`RelevanceMetric`, :class:`TopKMetric`.

    >>> import torch
    >>> metric = RowAUC()
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([1]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: scikit-learn, ``roc_auc_score(average="samples")``; Zhu et al., KDD 2017 (GAUC).
    """

    higher_is_better = True
    stem = "row_auc"

    lacking = "no pair of a relevant and an irrelevant label"

    def _empty_default(self, by_bucket: bool) -> EmptyTargetAction:
        return "skip"

    def _answered(self, ranking: Ranking, ranks: TargetRanks) -> Tensor:
        pairs = self._pairs(ranking)
        return ((pairs.n_relevant > 0) & (pairs.n_irrelevant > 0)).view(ranks.n_relevant.shape)

    def _row_values(self, ranking: Ranking, ranks: TargetRanks) -> Tensor:
        pairs = self._pairs(ranking)
        number = pairs.n_relevant * pairs.n_irrelevant
        value = divide(2 * number - 2 * pairs.wrong - pairs.tied, 2 * number)
        return self._of_one_cutoff(value)


@final
class CoverageError(PairMetric):
    """How many labels one has to look at, best first, to see all relevant ones.

    Lower is better, in [0, inf); equal scores count against the row; 0 for a row without a relevant label.

    Use it when every relevant label has to be found, and reading one more label costs the same at any rank.

    ``preds`` are scores (N, L), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        kwargs: See :class:`PairMetric`, :class:`RelevanceMetric`, :class:`TopKMetric`.

    >>> import torch
    >>> metric = CoverageError()
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([1]))
    >>> metric.compute()
    tensor(2., dtype=torch.float64)

    Source: scikit-learn, ``coverage_error``.
    """

    higher_is_better = False
    bounds = (0.0, float("inf"))
    stem = "coverage_error"
    fixed_point = COUNT

    def _row_values(self, ranking: Ranking, ranks: TargetRanks) -> Tensor:
        depth = self._pairs(ranking).depth
        return self._of_one_cutoff(depth)


@final
class RankingLoss(PairMetric):
    """Share of the pairs of a relevant and an irrelevant label that are in the wrong order, equal scores included.

    Lower is better, in [0, 1]; 0 for a row without a pair.

    Use it when the order of all labels matters and ties are mistakes; ``RowAUC`` counts them one half.

    ``preds`` are scores (N, L), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        kwargs: See :class:`PairMetric`, :class:`RelevanceMetric`, :class:`TopKMetric`.

    >>> import torch
    >>> metric = RankingLoss()
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([1]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: scikit-learn, ``label_ranking_loss``.
    """

    higher_is_better = False
    stem = "ranking_loss"

    def _row_values(self, ranking: Ranking, ranks: TargetRanks) -> Tensor:
        pairs = self._pairs(ranking)
        value = divide(pairs.wrong + pairs.tied, pairs.n_relevant * pairs.n_irrelevant)
        return self._of_one_cutoff(value)
