"""R-precision."""

from __future__ import annotations

from typing import final

from torch import Tensor
from typing_extensions import Unpack

from tailmetrics.metrics._arithmetic import divide, ordered_sum
from tailmetrics.metrics._formula import formula
from tailmetrics.metrics._relevance import RelevanceArguments
from tailmetrics.metrics._rows import RowMeanMetric
from tailmetrics.metrics._ties import EVERY_RULE, ExpectedRanks
from tailmetrics.ranking import EVERYTHING, Cutoff, TargetRanks


@formula
def r_precision(ranks: TargetRanks) -> Tensor:
    """Precision at the cut-off n, the number of relevant labels: h_n / n.

    Higher is better, in [0, 1]; 0 without a relevant label.

    Args:
        ranks: Leading axes (...).

    Returns:
        Shape (...), float64.

    >>> import torch
    >>> r_precision(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 2]])).tolist()
    [0.5]

    Source: NIST trec_eval, "Rprec".
    """
    ranks = ranks.exact
    n = ranks.n_relevant
    if isinstance(ranks, ExpectedRanks):
        return divide(ordered_sum(ranks.share(ranks.places_within(n.unsqueeze(-1)))), n)
    return divide((ranks.within(EVERYTHING) & (ranks.target_ranks <= n.unsqueeze(-1))).sum(dim=-1), n)


@final
class RPrecision(RowMeanMetric):
    """Precision at the cut-off n, the row's number of relevant labels.

    Higher is better, in [0, 1]; NaN before any row.

    Use it when rows have very different numbers of relevant labels, and no k fits all of them.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        kwargs: See :class:`RelevanceMetric`, :class:`TopKMetric`.

    >>> import torch
    >>> metric = RPrecision()
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 2]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: NIST trec_eval, "Rprec".
    """

    higher_is_better = True
    stem = "r_precision"
    tie_rules = EVERY_RULE
    optional_k = True
    withheld = ("k",)

    def __init__(self, **kwargs: Unpack[RelevanceArguments]) -> None:
        super().__init__(None, **kwargs)

    def _row_value(self, ranks: TargetRanks, k: Cutoff) -> Tensor:
        return r_precision(ranks)
