"""Expected reciprocal rank."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor
from typing_extensions import Unpack

from tailmetrics._checks import check_number
from tailmetrics.metrics._arguments_of_metrics import Cutoffs
from tailmetrics.metrics._arithmetic import exponential_gain
from tailmetrics.metrics._formula import formula
from tailmetrics.metrics._relevance import RelevanceArguments
from tailmetrics.metrics._rows import RowMeanMetric
from tailmetrics.ranking import Cutoff, Ranking, TargetRanks


@formula
def err_at_k(ranks: TargetRanks, k: Cutoff, max_gain: float = 1.0) -> Tensor:
    """Sum over the ranks r <= k of R_r / r times the product of 1 - R_i over the ranks i < r.

    Higher is better, in [0, 1); 0 without a hit. R_i = (2^g_i - 1) / 2^max_gain is the chance that label i satisfies.

    Args:
        ranks: Leading axes (...).
        k: Cut-off; or a tuple of several: the value then has an axis of them in front.
        max_gain: The largest gain there can be; 1 for binary relevance.

    Returns:
        Shape (...), float64.

    >>> float(err_at_k(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 1]]), k=5))
    0.625

    Source: Chapelle, Metzler, Zhang and Grinspan, CIKM 2009.
    """
    deepest = k if isinstance(k, int) else max(k)
    within, found = ranks.within(k)[..., :deepest], ranks.target_ranks[..., :deepest]
    satisfies = torch.where(within, exponential_gain(ranks.target_gains[..., :deepest]) * 2.0**-max_gain, 0.0)
    value = reads_on = None
    # one rank behind the other: a scan adds and multiplies in an order that depends on the device
    for rank, chance in zip(found.unbind(-1), satisfies.unbind(-1), strict=True):
        here = chance / rank if reads_on is None else reads_on * chance / rank
        value = here if value is None else value + here
        reads_on = 1 - chance if reads_on is None else reads_on * (1 - chance)
    return torch.zeros_like(ranks.n_relevant, dtype=satisfies.dtype) if value is None else value


@final
class ERRAtK(RowMeanMetric):
    """Expected reciprocal rank: one over the rank at which a reader is expected to be satisfied.

    Higher is better, in [0, 1); NaN before any row.

    Use it when gains are grades and one very good label makes the labels below it worth less.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or several.
        max_gain: The largest gain there can be; None is 1, for binary relevance.
        kwargs: See :class:`RelevanceMetric`, :class:`TopKMetric`.

    >>> import torch
    >>> metric = ERRAtK(k=2, max_gain=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[2.0, 0.0, 1.0]]))
    >>> metric.compute()
    tensor(0.7500, dtype=torch.float64)

    Source: Chapelle, Metzler, Zhang and Grinspan, CIKM 2009.
    """

    higher_is_better = True
    stem = "err"

    def __init__(self, k: Cutoffs, *, max_gain: float | None = None, **kwargs: Unpack[RelevanceArguments]) -> None:
        self.max_gain = None if max_gain is None else check_number(self._caller, "max_gain", max_gain, 1e-30, 100.0)
        super().__init__(k, **kwargs)

    def _check(self, ranking: Ranking) -> None:
        super()._check(ranking)
        if ranking.binary or not self.validate_args:
            return
        gains = ranking.targets.entries.gains
        largest = float(gains.max()) if gains is not None and gains.numel() else 0.0
        if largest > (self.max_gain or 1.0):
            raise ValueError(
                f"{self._caller}: target holds the gain {largest:g}, above max_gain={self.max_gain or 1:g}; pass the "
                "largest gain there can be as max_gain."
            )

    def _row_value(self, ranks: TargetRanks, k: Cutoff) -> Tensor:
        return err_at_k(ranks, k, self.max_gain or 1.0)
