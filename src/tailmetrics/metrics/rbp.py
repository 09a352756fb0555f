"""Rank-biased precision."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor
from typing_extensions import Unpack

from tailmetrics._checks import check_between
from tailmetrics.metrics._arguments_of_metrics import Cutoffs
from tailmetrics.metrics._arithmetic import ordered_sum
from tailmetrics.metrics._formula import formula
from tailmetrics.metrics._relevance import RelevanceArguments
from tailmetrics.metrics._rows import RowMeanMetric
from tailmetrics.metrics._ties import EVERY_RULE, ExpectedRanks
from tailmetrics.ranking import Cutoff, TargetRanks
from tailmetrics.ranking._device import made_once


@formula
def rbp_at_k(ranks: TargetRanks, k: Cutoff, persistence: float = 0.8) -> Tensor:
    """Rank-biased precision: (1 - p) times the sum of p^(j - 1) over the ranks j of the hits within the top k.

    Higher is better, in [0, 1); 0 without a hit.

    Args:
        ranks: Leading axes (...).
        k: Cut-off; or a tuple of several: the value then has an axis of them in front.
        persistence: p, the chance that a reader goes on to the next rank, in (0, 1).

    Returns:
        Shape (...), float64.

    >>> round(float(rbp_at_k(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 2]]), k=3)), 12)
    0.328

    Source: Moffat and Zobel, ACM TOIS 27 (2008).
    """
    deepest = min(k if isinstance(k, int) else max(k), 1 << ranks.deepest.bit_length())  # no rank is larger
    worth = _worth(persistence, deepest, ranks.target_gains.device)
    if isinstance(ranks, ExpectedRanks):
        sums = 1 - _worth(persistence, ranks.most + 1, worth.device) / (1 - persistence)  # 1 - p^j of the first j ranks
        return ordered_sum(ranks.worth_within(k, sums))
    return ordered_sum(worth[(ranks.target_ranks - 1).clamp(max=deepest - 1)] * ranks.within(k))


@made_once
def _worth(persistence: float, k: int) -> Tensor:
    """Return (1 - p) p^(j - 1) of the ranks 1 to ``k``, made by Python: the same bits on every device."""
    return torch.tensor([(1 - persistence) * persistence**place for place in range(k)], dtype=torch.float64)


@final
class RBPAtK(RowMeanMetric):
    """Rank-biased precision: the share of relevant labels that a reader meets who goes on with a fixed chance.

    Higher is better, in [0, 1); NaN before any row.

    Use it when users read from the top and stop at any rank: a small persistence looks at the first labels alone.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or several.
        persistence: The chance that a reader goes on to the next rank, in (0, 1).
        kwargs: See :class:`RelevanceMetric`, :class:`TopKMetric`.

    >>> import torch
    >>> metric = RBPAtK(k=2, persistence=0.5)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 2]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: Moffat and Zobel, ACM TOIS 27 (2008).
    """

    higher_is_better = True
    stem = "rbp"
    tie_rules = EVERY_RULE

    def __init__(self, k: Cutoffs, *, persistence: float = 0.8, **kwargs: Unpack[RelevanceArguments]) -> None:
        self.persistence = check_between(self._caller, "persistence", persistence, 0.0, 1.0)
        super().__init__(k, **kwargs)

    def _row_value(self, ranks: TargetRanks, k: Cutoff) -> Tensor:
        return rbp_at_k(ranks, k, self.persistence)
