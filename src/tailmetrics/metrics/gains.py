"""Gains of hits, discounted by rank.

The metrics are (normalised) cumulative gain, ERR and rank-biased precision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import log
from typing import Any, ClassVar, Final, Literal, TypeAlias, final

import torch
from torch import Tensor
from typing_extensions import Unpack

from tailmetrics._arguments import NumberRange, check_choice
from tailmetrics.metrics._arguments_of_metrics import Cutoffs, RankArguments
from tailmetrics.metrics._formulas import Formula, hit_formula, takes_arrays
from tailmetrics.metrics._metric import TopKMetric
from tailmetrics.metrics._mistakes import rows_of_one_grade, warn_once
from tailmetrics.metrics._readings import Ranks
from tailmetrics.metrics._states import REAL, UNIT, FixedPoint, divide
from tailmetrics.metrics._ties import ExpectedRanks, discounts_within
from tailmetrics.ranking import Cutoff, Ranking, TargetRanks, discounts
from tailmetrics.ranking._once import made_once
from tailmetrics.ranking._sums import ordered_sum

__all__ = ["CGAtK", "DCGAtK", "ERRAtK", "NDCGAtK", "RBPAtK"]

Gain: TypeAlias = Literal["linear", "exponential"]

LARGEST_GRADE = 100
"""Largest gain of ``gain="exponential"``: states hold 2^100 with room for sums."""

MAX_GAIN: Final = NumberRange("max_gain", 1e-30, LARGEST_GRADE)
PERSISTENCE: Final = NumberRange("persistence", 0.0, 1.0, inside=True)

LARGEST_EXPONENT = 1024
"""The first power of two that float64 does not hold."""


def _exponential_gain(gains: Tensor) -> Tensor:
    """Return 2^gain - 1."""
    # exact for whole grades; of others torch's exp2 depends on their place in memory,
    # and loses digits of small ones
    powers = _powers_of_two(gains.device)[
        gains.to(torch.int64).clamp(0, LARGEST_EXPONENT)
    ]
    return torch.where(gains == gains.floor(), powers - 1, (gains * log(2)).expm1())


@made_once
def _powers_of_two() -> Tensor:
    """Return 2^e for each exponent from 0.

    A device's own ``exp2`` may be off by a bit.
    """
    powers = [*(2.0**exponent for exponent in range(LARGEST_EXPONENT)), torch.inf]
    return torch.tensor(powers, dtype=torch.float64, device="cpu")


def _gained(gains: Tensor, gain: Gain) -> Tensor:
    """Return what gains count."""
    if gain == "exponential":
        return _exponential_gain(gains)
    return gains


def _largest_gain(ranks: TargetRanks) -> float:
    """Return the largest gain of a batch; 0 if all gains are 1."""
    if ranks.binary:
        return 0.0
    gains: Tensor | None = ranks.target_gains
    if isinstance(ranks, Ranking):
        gains = ranks.targets.entries.gains
    if gains is None or not gains.numel():
        return 0.0
    return float(gains.max())


def _dcg(ranks: TargetRanks, k: Cutoff, gain: Gain) -> Tensor:
    memo = ranks._memo
    if ("dcg", k, gain) not in memo:
        worth, gains = discounts_within(ranks, k), ranks.hits.gains
        memo["dcg", k, gain] = ordered_sum(
            worth if gains is None else _gained(gains, gain) * worth
        )
    dcg: Tensor = memo["dcg", k, gain]
    return dcg


def _ideal_dcg(ranks: TargetRanks, k: Cutoff, gain: Gain) -> Tensor:
    best = _gained(ranks.best(k), gain)
    return ordered_sum(best * discounts(best.shape[-1], best.device))


@takes_arrays
def cg_at_k(ranks: TargetRanks, k: Cutoff, gain: Gain = "linear") -> Tensor:
    """Sum of the gains in the top k.

    Higher is better, in [0, inf).

    Args:
        ranks: Ranks of the relevant labels in each list; the lists have the axes (...).
        k: Cut-off, or a tuple of cut-offs. With a tuple, the value has a first axis
            with one entry per cut-off.
        gain: How a grade g counts: ``"linear"``, g; ``"exponential"``, 2^g - 1.

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


@takes_arrays
def dcg_at_k(ranks: TargetRanks, k: Cutoff, gain: Gain = "linear") -> Tensor:
    """Sum of the gains in the top k, each divided by log2(rank + 1).

    Higher is better, in [0, inf).

    Args:
        ranks: Ranks of the relevant labels in each list; the lists have the axes (...).
        k: Cut-off, or a tuple of cut-offs. With a tuple, the value has a first axis
            with one entry per cut-off.
        gain: How a grade g counts: ``"linear"``, g; ``"exponential"``, 2^g - 1.

    Returns:
        Shape (...), float64.

    >>> import torch
    >>> dcg_at_k(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 2]]), k=3).tolist()
    [1.5]

    Source: Järvelin and Kekäläinen, ACM TOIS 20 (2002).
    """
    return _dcg(ranks, k, gain)


@takes_arrays
def ideal_dcg_at_k(ranks: TargetRanks, k: Cutoff, gain: Gain = "linear") -> Tensor:
    """DCG of the best ranking: the min(k, n) largest gains in descending order.

    Args:
        ranks: Ranks of the relevant labels in each list; the lists have the axes (...).
        k: Cut-off, or a tuple of cut-offs. With a tuple, the value has a first axis
            with one entry per cut-off.
        gain: How a grade g counts: ``"linear"``, g; ``"exponential"``, 2^g - 1.

    Returns:
        Shape (...), float64; 0 without a relevant label.

    >>> import torch
    >>> round(float(ideal_dcg_at_k(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 2]]), k=3)), 4)
    1.6309
    """
    if ranks.binary:
        return ranks.ideal_discount(k)
    return _ideal_dcg(ranks, k, gain)


@takes_arrays
def ndcg_at_k(ranks: TargetRanks, k: Cutoff, gain: Gain = "linear") -> Tensor:
    """DCG divided by the DCG of the best possible ranking.

    Higher is better, in [0, 1]; 0 without a relevant label.

    Args:
        ranks: Ranks of the relevant labels in each list; the lists have the axes (...).
        k: Cut-off, or a tuple of cut-offs. With a tuple, the value has a first axis
            with one entry per cut-off.
        gain: How a grade g counts: ``"linear"``, g; ``"exponential"``, 2^g - 1. Both
            are equal for binary relevance.

    Returns:
        Shape (...), float64.

    >>> import torch
    >>> round(float(ndcg_at_k(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 2]]), k=3)), 4)
    0.9197

    Source: Järvelin and Kekäläinen, ACM TOIS 20 (2002).
    """
    binary = ranks.hits.gains is None
    share = divide(
        _dcg(ranks, k, gain),
        ranks.ideal_discount(k) if binary else _ideal_dcg(ranks, k, gain),
    )
    # of gains of 1 no rounding makes more than 1: the j-th hit stands at j or behind,
    # and is added in the same order
    if binary and not isinstance(ranks, ExpectedRanks):
        return share
    return share.clamp(max=1.0)


def _of_gains(
    caller: str, function: Callable[..., Tensor], gain: Gain, number: FixedPoint
) -> Formula:
    """Return a formula of gains, which any ``min_gain`` leaves as they are."""
    check_choice(caller, "gain", gain, Gain)
    return hit_formula(
        function,
        {"gain": gain},
        value_format=number,
        check=_check_grades if gain == "exponential" else None,
        optional_k=True,
        reads_gains=True,
        ignores_order=function is cg_at_k,
        is_additive=number is REAL,
    )


def _check_grades(caller: str, ranking: Ranking) -> None:
    """Raise if 2^g of a gain is more than states can hold."""
    largest = _largest_gain(ranking)
    if largest > LARGEST_GRADE:
        raise ValueError(
            f"{caller}: a gain of {largest:g} is too large for 2^g - 1; with "
            f"gain='exponential' gains are grades of at most {LARGEST_GRADE}."
        )


class _SumOfGains(TopKMetric):
    """A metric that adds up gains.

    Attributes:
        _function: The formula.
    """

    higher_is_better = True
    bounds = (0.0, float("inf"))
    _function: ClassVar[Callable[..., Tensor]]

    def __init__(
        self,
        k: Cutoffs | None = None,
        *,
        gain: Gain = "linear",
        **kwargs: Unpack[RankArguments],
    ) -> None:
        self.gain: Gain = gain
        super().__init__(
            k, _of_gains(self._caller, type(self)._function, gain, REAL), **kwargs
        )


@final
class CGAtK(_SumOfGains):
    """Sum of the gains in the top k.

    Higher is better, in [0, inf); NaN before the first row.

    Use it when gains add up and the order within the top k makes no difference.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target``
    is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs; None reads the whole ranking.
        gain: How a grade g counts: ``"linear"``, g; ``"exponential"``, 2^g - 1.
        kwargs: See :class:`TopKMetric`. ``min_gain`` changes nothing: gains are graded.

    >>> import torch
    >>> metric = CGAtK(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[3.0, 0.0, 1.0]]))
    >>> metric.compute()
    tensor(3., dtype=torch.float64)

    Source: Järvelin and Kekäläinen, ACM TOIS 20 (2002).
    """

    _function = staticmethod(cg_at_k)


@final
class DCGAtK(_SumOfGains):
    """Sum of the gains in the top k, each divided by log2(rank + 1).

    Higher is better, in [0, inf); NaN before the first row.

    Use it when gains add up, early ranks count more, and rows with more relevant labels
    may weigh more.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target``
    is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs; None reads the whole ranking.
        gain: How a grade g counts: ``"linear"``, g; ``"exponential"``, 2^g - 1.
        kwargs: See :class:`TopKMetric`. ``min_gain`` changes nothing: gains are graded.

    >>> import torch
    >>> metric = DCGAtK(k=3)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[3.0, 0.0, 1.0]]))
    >>> metric.compute()
    tensor(3.5000, dtype=torch.float64)

    Source: Järvelin and Kekäläinen, ACM TOIS 20 (2002).
    """

    _function = staticmethod(dcg_at_k)


MANY_ROWS_OF_ONE_GRADE = 0.01
"""The first batch warns if nDCG is 1 by itself in a larger share of its rows."""


class GradedRanks(Ranks):
    """The ranks of relevant labels, for metrics that compare with the best order."""

    def warn_of(self, metric: Any, ranking: Ranking) -> None:
        """Warn of rows whose ranked labels have one grade: every order is the best."""
        super().warn_of(metric, ranking)
        number, num_rows = int(rows_of_one_grade(ranking)), ranking.num_rows
        if number > MANY_ROWS_OF_ONE_GRADE * num_rows:
            warn_once(
                ranking,
                "rows of one grade",
                f"{self.caller}: in {number:,} of {num_rows:,} rows of the first batch "
                "all documents have the same grade, so that nDCG is 1 for every "
                "order; row_mask leaves such rows out.",
            )


@final
class NDCGAtK(TopKMetric):
    """DCG divided by the DCG of the best possible ranking.

    Higher is better, in [0, 1]; NaN before the first row.

    Use it when gains are graded, or early ranks count more, and every row should weigh
    the same.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target``
    is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs; None reads the whole ranking.
        gain: How a grade g counts: ``"linear"``, g; ``"exponential"``, 2^g - 1.
        kwargs: See :class:`TopKMetric`. ``min_gain`` changes nothing: gains are graded.

    >>> import torch
    >>> metric = NDCGAtK(k=3)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([2]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: Järvelin and Kekäläinen, ACM TOIS 20 (2002).
    """

    higher_is_better = True

    def __init__(
        self,
        k: Cutoffs | None = None,
        *,
        gain: Gain = "linear",
        **kwargs: Unpack[RankArguments],
    ) -> None:
        self.gain: Gain = gain
        super().__init__(
            k,
            _of_gains(self._caller, ndcg_at_k, gain, UNIT),
            reading=GradedRanks,
            **kwargs,
        )


def _check_largest_gain(
    caller: str, ranks: TargetRanks, arguments: Mapping[str, Any]
) -> None:
    """Raise unless ``max_gain`` is a number that no gain exceeds."""
    _check_gains_below(MAX_GAIN.checked(caller, arguments["max_gain"]), caller, ranks)


@partial(takes_arrays, check=_check_largest_gain)
def err_at_k(ranks: TargetRanks, k: Cutoff, max_gain: float = 1.0) -> Tensor:
    """Sum over ranks r <= k of R_r / r times the product of 1 - R_i over ranks i < r.

    Higher is better, in [0, 1); 0 without a hit. R_i = (2^g_i - 1) / 2^max_gain is the
    probability that the label at rank i satisfies the reader.

    Args:
        ranks: Ranks of the relevant labels in each list; the lists have the axes (...).
        k: Cut-off, or a tuple of cut-offs. With a tuple, the value has a first axis
            with one entry per cut-off.
        max_gain: The largest possible gain; 1 for binary relevance.

    Returns:
        Shape (...), float64.

    >>> float(err_at_k(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 1]]), k=5))
    0.625

    Source: Chapelle, Metzler, Zhang and Grinspan, CIKM 2009.
    """
    deepest = k if isinstance(k, int) else max(k)
    within, target_ranks = (
        ranks.within(k)[..., :deepest],
        ranks.target_ranks[..., :deepest],
    )
    satisfies = torch.where(
        within,
        _exponential_gain(ranks.target_gains[..., :deepest]) * 2.0**-max_gain,
        0.0,
    )
    value = satisfies.new_zeros(satisfies.shape[:-1])
    reads_on = torch.ones_like(value)
    # one rank behind the other: a scan adds and multiplies in an order that depends on
    # the device
    for rank, chance in zip(target_ranks.unbind(-1), satisfies.unbind(-1), strict=True):
        value = value + reads_on * chance / rank
        reads_on = reads_on * (1 - chance)
    return value


def _check_gains_below(max_gain: float, caller: str, ranks: TargetRanks) -> None:
    """Raise if a gain is above the largest gain there can be."""
    largest = _largest_gain(ranks)
    if largest > max_gain:
        raise ValueError(
            f"{caller}: target holds the gain {largest:g}, above "
            f"max_gain={max_gain:g}; pass the largest gain there can be as max_gain."
        )


@final
class ERRAtK(TopKMetric):
    """Expected reciprocal rank of the label that satisfies a reader.

    The expected value of 1 / r, where r is the rank at which a reader is satisfied.

    Higher is better, in [0, 1); NaN before the first row.

    Use it when gains are grades and one very good label makes the labels below it less
    useful.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target``
    is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        max_gain: The largest possible gain; None means 1, for binary relevance.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = ERRAtK(k=2, max_gain=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[2.0, 0.0, 1.0]]))
    >>> metric.compute()
    tensor(0.7500, dtype=torch.float64)

    Source: Chapelle, Metzler, Zhang and Grinspan, CIKM 2009.
    """

    higher_is_better = True

    def __init__(
        self,
        k: Cutoffs,
        *,
        max_gain: float | None = None,
        **kwargs: Unpack[RankArguments],
    ) -> None:
        if max_gain is not None:
            max_gain = MAX_GAIN.checked(self._caller, max_gain)
        self.max_gain = max_gain
        most = max_gain or 1.0
        formula = hit_formula(
            err_at_k,
            {"max_gain": most},
            check=partial(_check_gains_below, most),
            is_averaged=False,
        )
        super().__init__(k, formula, **kwargs)


@partial(takes_arrays, check=PERSISTENCE.check)
def rbp_at_k(ranks: TargetRanks, k: Cutoff, persistence: float = 0.8) -> Tensor:
    """Rank-biased precision of the top k.

    (1 - p) times the sum of p^(j - 1) over the ranks j of the hits within the top k.

    Higher is better, in [0, 1); 0 without a hit.

    Args:
        ranks: Ranks of the relevant labels in each list; the lists have the axes (...).
        k: Cut-off, or a tuple of cut-offs. With a tuple, the value has a first axis
            with one entry per cut-off.
        persistence: p, the chance that a reader goes on to the next rank, in (0, 1).

    Returns:
        Shape (...), float64.

    >>> round(float(rbp_at_k(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 2]]), k=3)), 12)
    0.328

    Source: Moffat and Zobel, ACM TOIS 27 (2008).
    """
    # no rank is larger
    deepest = min(k if isinstance(k, int) else max(k), 1 << ranks.deepest.bit_length())
    worth = _worth(persistence, deepest, ranks.target_gains.device)
    if isinstance(ranks, ExpectedRanks):
        worth = _worth(persistence, ranks.most + 1, worth.device)
        # 1 - p^j of j ranks
        return ordered_sum(
            ranks.worth_within(k, worth, lambda: 1 - worth / (1 - persistence))
        )
    return ordered_sum(
        worth[(ranks.target_ranks - 1).clamp(max=deepest - 1)] * ranks.within(k)
    )


@made_once
def _worth(persistence: float, k: int) -> Tensor:
    """Return (1 - p) p^(j - 1) of the ranks 1 to ``k``.

    Python computes them, with the same bits for every device.
    """
    return torch.tensor(
        [(1 - persistence) * persistence**place for place in range(k)],
        dtype=torch.float64,
        device="cpu",
    )


@final
class RBPAtK(TopKMetric):
    """Rank-biased precision, for readers who stop at a random rank.

    The expected share of relevant labels for such a reader.

    Higher is better, in [0, 1); NaN before the first row.

    Use it when users read from the top and stop at any rank. A small persistence gives
    weight to the first ranks only.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target``
    is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs.
        persistence: The chance that a reader goes on to the next rank, in (0, 1).
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = RBPAtK(k=2, persistence=0.5)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 2]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: Moffat and Zobel, ACM TOIS 27 (2008).
    """

    higher_is_better = True

    def __init__(
        self, k: Cutoffs, *, persistence: float = 0.8, **kwargs: Unpack[RankArguments]
    ) -> None:
        self.persistence = PERSISTENCE.checked(self._caller, persistence)
        super().__init__(
            k,
            hit_formula(rbp_at_k, {"persistence": self.persistence}, is_additive=True),
            **kwargs,
        )
