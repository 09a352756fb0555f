"""Cumulative gain: plain, discounted by rank, and normalised by the ideal ranking."""

from __future__ import annotations

from typing import Literal, TypeAlias, final

from torch import Tensor
from typing_extensions import Unpack

from tailmetrics._checks import check_choice
from tailmetrics.metrics._arguments_of_metrics import Cutoffs
from tailmetrics.metrics._arithmetic import divide, exponential_gain, ordered_sum
from tailmetrics.metrics._fixed_point import REAL
from tailmetrics.metrics._formula import formula
from tailmetrics.metrics._relevance import RelevanceArguments
from tailmetrics.metrics._rows import RowMeanMetric
from tailmetrics.metrics._ties import EVERY_RULE, discounts_within
from tailmetrics.ranking import Cutoff, Ranking, TargetRanks, discounts

Gain: TypeAlias = Literal["linear", "exponential"]

LARGEST_GRADE = 100
"""Largest gain of ``gain="exponential"``: 2^100 is what the states can hold with room for sums."""


def _gained(gains: Tensor, gain: Gain) -> Tensor:
    return gains if gain == "linear" else exponential_gain(gains)


def _discounted(ranks: TargetRanks, k: Cutoff, gain: Gain) -> Tensor:
    worth = discounts_within(ranks, k)
    return ordered_sum(worth if ranks.binary else _gained(ranks.target_gains, gain) * worth)


@formula
def cg_at_k(ranks: TargetRanks, k: Cutoff, gain: Gain = "linear") -> Tensor:
    """Sum of the gains in the top k.

    Higher is better, in [0, inf).

    Args:
        ranks: Leading axes (...).
        k: Cut-off; or a tuple of several: the value then has an axis of them in front.
        gain: ``"linear"``, g; ``"exponential"``, 2^g - 1.

    Returns:
        Shape (...), float64.

    >>> import torch
    >>> cg_at_k(torch.tensor([[0, 1, 2]]), torch.tensor([[3.0, 0.0, 1.0]]), k=3).tolist()
    [4.0]

    Source: Järvelin and Kekäläinen, ACM TOIS 20 (2002).
    """
    if ranks.binary:
        return ranks.real_hits_at(k)
    return ordered_sum(_gained(ranks.target_gains, gain) * ranks.within(k))


@formula
def dcg_at_k(ranks: TargetRanks, k: Cutoff, gain: Gain = "linear") -> Tensor:
    """Sum of the gains in the top k, each divided by log2(rank + 1).

    Higher is better, in [0, inf).

    Args:
        ranks: Leading axes (...).
        k: Cut-off; or a tuple of several: the value then has an axis of them in front.
        gain: ``"linear"``, g; ``"exponential"``, 2^g - 1.

    Returns:
        Shape (...), float64.

    >>> import torch
    >>> dcg_at_k(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 2]]), k=3).tolist()
    [1.5]

    Source: Järvelin and Kekäläinen, ACM TOIS 20 (2002).
    """
    return ranks.remembered(("dcg", k, gain), lambda: _discounted(ranks, k, gain))


@formula
def ideal_dcg_at_k(ranks: TargetRanks, k: Cutoff, gain: Gain = "linear") -> Tensor:
    """DCG of the best ranks there is: the min(k, n) largest gains in descending order.

    Args:
        ranks: Leading axes (...).
        k: Cut-off; or a tuple of several: the value then has an axis of them in front.
        gain: ``"linear"``, g; ``"exponential"``, 2^g - 1.

    Returns:
        Shape (...), float64; 0 without a relevant label.

    >>> import torch
    >>> round(float(ideal_dcg_at_k(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 2]]), k=3)), 4)
    1.6309
    """
    if ranks.binary:
        return ranks.ideal_discount(k)
    best = _gained(ranks.best(k), gain)
    return ordered_sum(best * discounts(best.shape[-1], best.device))


@formula
def ndcg_at_k(ranks: TargetRanks, k: Cutoff, gain: Gain = "linear") -> Tensor:
    """DCG divided by the DCG of the best ranks there is.

    Higher is better, in [0, 1]; 0 without a relevant label.

    Args:
        ranks: Leading axes (...).
        k: Cut-off; or a tuple of several: the value then has an axis of them in front.
        gain: ``"linear"``, g; ``"exponential"``, 2^g - 1. The same for binary relevance.

    Returns:
        Shape (...), float64.

    >>> import torch
    >>> round(float(ndcg_at_k(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 2]]), k=3)), 4)
    0.9197

    Source: Järvelin and Kekäläinen, ACM TOIS 20 (2002).
    """
    return divide(dcg_at_k(ranks, k, gain), ideal_dcg_at_k(ranks, k, gain)).clamp(max=1.0)


class _GainMetric(RowMeanMetric):
    """A metric of gains. ``min_gain`` is taken, so that one setting fits a collection, and changes nothing here."""

    optional_k = True
    reads_gains = True
    tie_rules = EVERY_RULE

    def __init__(
        self, k: Cutoffs | None = None, *, gain: Gain = "linear", **kwargs: Unpack[RelevanceArguments]
    ) -> None:
        self.gain: Gain = check_choice(self._caller, "gain", gain, ("linear", "exponential"))
        super().__init__(k, **kwargs)

    def _check(self, ranking: Ranking) -> None:
        super()._check(ranking)
        if self.gain == "exponential" and self.validate_args and not ranking.binary:
            gains = ranking.targets.entries.gains
            if gains is not None and gains.numel() and float(gains.max()) > LARGEST_GRADE:
                raise ValueError(
                    f"{self._caller}: a gain of {float(gains.max()):g} is too large for 2^g - 1; with "
                    f"gain='exponential' gains are grades of at most {LARGEST_GRADE}."
                )


@final
class CGAtK(_GainMetric):
    """Sum of the gains in the top k.

    Higher is better, in [0, inf); NaN before any row.

    Use it when gains add up and the order within the top k makes no difference.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or several; None for the whole ranking.
        gain: ``"linear"``, g; ``"exponential"``, 2^g - 1.
        kwargs: See :class:`RelevanceMetric`, :class:`TopKMetric`. ``min_gain`` changes nothing: gains are graded.

    >>> import torch
    >>> metric = CGAtK(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[3.0, 0.0, 1.0]]))
    >>> metric.compute()
    tensor(3., dtype=torch.float64)

    Source: Järvelin and Kekäläinen, ACM TOIS 20 (2002).
    """

    higher_is_better = True
    stem = "cg"
    bounds = (0.0, float("inf"))
    fixed_point = REAL

    def _row_value(self, ranks: TargetRanks, k: Cutoff) -> Tensor:
        return cg_at_k(ranks, k, self.gain)


@final
class DCGAtK(_GainMetric):
    """Sum of the gains in the top k, each divided by log2(rank + 1).

    Higher is better, in [0, inf); NaN before any row.

    Use it when gains add up, early ranks count more, and rows with more to find may weigh more.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or several; None for the whole ranking.
        gain: ``"linear"``, g; ``"exponential"``, 2^g - 1.
        kwargs: See :class:`RelevanceMetric`, :class:`TopKMetric`. ``min_gain`` changes nothing: gains are graded.

    >>> import torch
    >>> metric = DCGAtK(k=3)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[3.0, 0.0, 1.0]]))
    >>> metric.compute()
    tensor(3.5000, dtype=torch.float64)

    Source: Järvelin and Kekäläinen, ACM TOIS 20 (2002).
    """

    higher_is_better = True
    stem = "dcg"
    bounds = (0.0, float("inf"))
    fixed_point = REAL

    def _row_value(self, ranks: TargetRanks, k: Cutoff) -> Tensor:
        return dcg_at_k(ranks, k, self.gain)


@final
class NDCGAtK(_GainMetric):
    """DCG divided by the DCG of the best ranking there is.

    Higher is better, in [0, 1]; NaN before any row.

    Use it when gains are graded, or early ranks count more, and every row is to weigh the same.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target`` is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or several; None for the whole ranking.
        gain: ``"linear"``, g; ``"exponential"``, 2^g - 1.
        kwargs: See :class:`RelevanceMetric`, :class:`TopKMetric`. ``min_gain`` changes nothing: gains are graded.

    >>> import torch
    >>> metric = NDCGAtK(k=3)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([2]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: Järvelin and Kekäläinen, ACM TOIS 20 (2002).
    """

    higher_is_better = True
    stem = "ndcg"

    def _row_value(self, ranks: TargetRanks, k: Cutoff) -> Tensor:
        return ndcg_at_k(ranks, k, self.gain)
