"""Mean average precision."""

from __future__ import annotations

from typing import Literal, TypeAlias, final

from torch import Tensor
from typing_extensions import Unpack

from tailmetrics._checks import check_choice
from tailmetrics.metrics._arguments_of_metrics import Cutoffs
from tailmetrics.metrics._arithmetic import divide, ordered_sum
from tailmetrics.metrics._formula import formula
from tailmetrics.metrics._relevance import RelevanceArguments
from tailmetrics.metrics._rows import RowMeanMetric
from tailmetrics.metrics._ties import EVERY_RULE, ExpectedRanks
from tailmetrics.ranking import EVERYTHING, Cutoff, TargetRanks
from tailmetrics.ranking._device import whole_numbers

HitsDenominator: TypeAlias = Literal["relevant", "attainable"]


@formula
def average_precision(ranks: TargetRanks, k: Cutoff | None = None, denominator: HitsDenominator = "relevant") -> Tensor:
    """Sum over the hits j within the top k of h_j / j, divided by n or by min(k, n).

    Higher is better, in [0, 1]; 0 without a relevant label.

    Args:
        ranks: Leading axes (...).
        k: Cut-off; or a tuple of several: the value then has an axis of them in front; None for
            everything retrieved, on dense scores all labels however deep the ranks.
        denominator: ``"relevant"``, n; ``"attainable"``, min(k, n), the hits there could be within the top k.

    Returns:
        Shape (...), float64.

    >>> import torch
    >>> round(float(average_precision(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 2]]))), 4)
    0.8333

    Source: Manning, Raghavan and Schütze, Introduction to Information Retrieval (2008), 8.4;
    Kaggle, ``ml_metrics.apk``, which divides by min(k, n).
    """
    ranks, k = (ranks.exact, EVERYTHING) if k is None else (ranks, k)
    if isinstance(ranks, ExpectedRanks):
        total = ranks.sum_of_precisions(k)
    else:
        found = ranks.within(k)
        hits = whole_numbers(found.shape[-1], found.device, first=1)  # up to each, as nothing but hits stands before
        total = ordered_sum(hits / ranks.real_ranks * found)
    return total / ranks.divisor if denominator == "relevant" else divide(total, ranks.attainable_at(k))


@final
class MAP(RowMeanMetric):
    """Mean over rows of the average precision: of the precision at the rank of each relevant label.

    Higher is better, in [0, 1]; NaN before any row.

    Use it when all relevant labels count, the earlier the better, and gains are 0 and 1.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or several; None for the whole ranking, on dense scores all labels.
        denominator: ``"relevant"``, the number of relevant labels n; ``"attainable"``, min(k, n).
        kwargs: See :class:`RelevanceMetric`, :class:`TopKMetric`.

    >>> import torch
    >>> metric = MAP()
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 1]]))
    >>> metric.compute()
    tensor(1., dtype=torch.float64)

    Source: Manning, Raghavan and Schütze, Introduction to Information Retrieval (2008), 8.4.
    """

    higher_is_better = True
    stem = "map"
    tie_rules = EVERY_RULE
    optional_k = True

    def __init__(
        self,
        k: Cutoffs | None = None,
        *,
        denominator: HitsDenominator = "relevant",
        **kwargs: Unpack[RelevanceArguments],
    ) -> None:
        choices: tuple[HitsDenominator, ...] = ("relevant", "attainable")
        self.denominator: HitsDenominator = check_choice(self._caller, "denominator", denominator, choices)
        super().__init__(k, **kwargs)

    def _row_value(self, ranks: TargetRanks, k: Cutoff) -> Tensor:
        return average_precision(ranks, k, self.denominator)
