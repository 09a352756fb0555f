"""Metrics of the ranks of hits.

They are reciprocal rank, average precision, and how many predictions a recall takes.
"""

from __future__ import annotations

from functools import partial
from typing import Final, Literal, TypeAlias, final

import torch
from torch import Tensor
from typing_extensions import Unpack

from tailmetrics._arguments import NumberRange, check_choice, check_count, number_text
from tailmetrics.metrics._aggregations import MedianOfRows, RowStatistic
from tailmetrics.metrics._arguments_of_metrics import Cutoffs, RankArguments
from tailmetrics.metrics._formulas import Formula, hit_formula, takes_arrays
from tailmetrics.metrics._metric import TopKMetric
from tailmetrics.metrics._readings import Ranks
from tailmetrics.metrics._states import divide
from tailmetrics.metrics._ties import ExpectedRanks
from tailmetrics.ranking import EVERYTHING, NOT_RANKED, Cutoff, TargetRanks
from tailmetrics.ranking._device import real_dtype
from tailmetrics.ranking._once import made_once
from tailmetrics.ranking._reading import Depth
from tailmetrics.ranking._sums import ordered_sum
from tailmetrics.ranking._target_ranks import n_or_one

__all__ = ["MAP", "MRR", "KForRecall"]

MIN_RECALL: Final = NumberRange("min_recall", 1e-30, 1.0)
"""A recall of 0 takes no prediction."""


@takes_arrays
def reciprocal_rank(ranks: TargetRanks, k: Cutoff | None = None) -> Tensor:
    """One divided by the rank of the first relevant label.

    Higher is better, in [0, 1]; 0 if there is none within the top k.

    Args:
        ranks: Ranks of the relevant labels in each list; the lists have the axes (...).
        k: Cut-off, or a tuple of cut-offs. With a tuple, the value has a first axis
            with one entry per cut-off. None reads everything retrieved: with dense
            scores all labels, whatever the depth of the ranking.

    Returns:
        Shape (...), float64.

    >>> import torch
    >>> reciprocal_rank(torch.tensor([[0, 1, 2]]), torch.tensor([1])).tolist()
    [0.5]

    Source: Voorhees, The TREC-8 question answering track report (1999).
    """
    if k is None:
        ranks, k = ranks.exact, EVERYTHING
    if isinstance(ranks, ExpectedRanks):
        return ranks.reciprocal_of_first(k)
    return ranks.first_within(k) / ranks.first_rank.to(
        real_dtype(ranks.first_rank.device)
    )


@final
class MRR(TopKMetric):
    """Mean over rows of one divided by the rank of the first relevant label.

    Higher is better, in [0, 1]; NaN before the first row. 1 / MRR is a harmonic mean of
    ranks, not an average rank.

    Use it when users stop at the first relevant label, as in question answering.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target``
    is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs. None reads the whole ranking: with dense
            scores, all labels.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = MRR()
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([1]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)

    Source: Voorhees, The TREC-8 question answering track report (1999).
    """

    higher_is_better = True

    def __init__(
        self, k: Cutoffs | None = None, **kwargs: Unpack[RankArguments]
    ) -> None:
        super().__init__(
            k, hit_formula(reciprocal_rank, optional_k=True, reads_first=True), **kwargs
        )


HitsDenominator: TypeAlias = Literal["relevant", "attainable"]


@takes_arrays
def average_precision(
    ranks: TargetRanks,
    k: Cutoff | None = None,
    denominator: HitsDenominator = "relevant",
) -> Tensor:
    """Sum of h_j / j over the ranks j <= k of hits, divided by n or by min(k, n).

    Higher is better, in [0, 1]; 0 without a relevant label.

    Args:
        ranks: Ranks of the relevant labels in each list; the lists have the axes (...).
        k: Cut-off, or a tuple of cut-offs. With a tuple, the value has a first axis
            with one entry per cut-off. None reads everything retrieved: with dense
            scores all labels, whatever the depth of the ranking.
        denominator: ``"relevant"``, n; ``"attainable"``, min(k, n), the largest
            possible number of hits within the top k.

    Returns:
        Shape (...), float64.

    >>> import torch
    >>> round(float(average_precision(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 2]]))), 4)
    0.8333

    Source: Manning, Raghavan and Schütze, Introduction to Information Retrieval (2008),
    8.4; Kaggle, ``ml_metrics.apk``, which divides by min(k, n).
    """
    if k is None:
        ranks, k = ranks.exact, EVERYTHING
    if isinstance(ranks, ExpectedRanks):
        total = ranks.sum_of_precisions(k)
    else:
        within = ranks.real_within(k)
        # up to each, as nothing but hits stands before
        hits = _numbers(within.shape[-1], within.device)
        total = ordered_sum(hits / ranks.target_ranks * within)
    if denominator == "relevant":
        return total / n_or_one(ranks)
    return divide(total, ranks.attainable_at(k))


@made_once
def _numbers(size: int) -> Tensor:
    """Return 1, 2, 3 … as floats."""
    return torch.arange(1, size + 1, dtype=torch.float64, device="cpu")


@final
class MAP(TopKMetric):
    """Mean over rows of average precision.

    Average precision is the mean precision at the ranks of the relevant labels.

    Higher is better, in [0, 1]; NaN before the first row.

    Use it when all relevant labels should stand early, and each label is either
    relevant or not.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target``
    is (N,), (N, M) or (N, L).

    Args:
        k: Cut-off, or a sequence of cut-offs. None reads the whole ranking: with dense
            scores, all labels.
        denominator: What the sum of precisions is divided by: ``"relevant"``, the
            number of relevant labels n; ``"attainable"``, min(k, n).
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = MAP()
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 1]]))
    >>> metric.compute()
    tensor(1., dtype=torch.float64)

    Source: Manning, Raghavan and Schütze, Introduction to Information Retrieval (2008),
    8.4.
    """

    higher_is_better = True

    def __init__(
        self,
        k: Cutoffs | None = None,
        *,
        denominator: HitsDenominator = "relevant",
        **kwargs: Unpack[RankArguments],
    ) -> None:
        self.denominator: HitsDenominator = check_choice(
            self._caller, "denominator", denominator, HitsDenominator
        )
        super().__init__(
            k,
            hit_formula(
                average_precision, {"denominator": denominator}, optional_k=True
            ),
            **kwargs,
        )


@partial(takes_arrays, depth=Depth(), check=MIN_RECALL.check)
def k_for_recall(ranks: TargetRanks, min_recall: float) -> Tensor:
    """Smallest k with h_k / n >= min_recall.

    Lower is better, from 1; ``NOT_RANKED`` if the list ends before the recall is
    reached, and for a row without a relevant label.

    Args:
        ranks: Ranks of the relevant labels in each list; the lists have the axes (...).
        min_recall: Recall to reach, in (0, 1].

    Returns:
        Shape (...), int64.

    >>> import torch
    >>> k_for_recall(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 2]]), min_recall=1.0).tolist()
    [3]

    Source: Cooper, Expected search length, American Documentation 19 (1968), up to a
    recall.
    """
    is_hit = ranks.target_ranks < NOT_RANKED
    needed = _needed_hits(ranks.n_relevant, min_recall)
    is_enough = is_hit.cumsum(dim=-1) >= needed.unsqueeze(-1)
    return torch.where(is_hit & is_enough, ranks.target_ranks, NOT_RANKED).amin(dim=-1)


def _needed_hits(n: Tensor, min_recall: float) -> Tensor:
    """Return the smallest c with c / n >= min_recall, at least 1.

    ceil(min_recall * n) is one too many for .07, .14, .28, .55 and others, whose
    product with n rounds up.
    """
    c = (n.to(real_dtype(n.device)) * min_recall).ceil().to(torch.int64)
    c = torch.where(divide(c - 1, n) >= min_recall, c - 1, c)
    return torch.where(divide(c, n) < min_recall, c + 1, c).clamp(min=1)


@final
class KForRecall(TopKMetric):
    """Number of predictions needed to find ``min_recall`` of the relevant labels.

    The value is the median or the mean over rows.

    Lower is better, in [1, inf), or 0 with ``miss_value=0``; NaN if no row has a
    relevant label.

    Use it when you choose the length of a list: the value is a number of suggestions.
    A median of 9 says that half of the rows need 9 or fewer.

    ``preds`` are scores (N, L), ids (N, K), candidates (N, C) or CSR (N, L); ``target``
    is (N,), (N, M) or (N, L).

    Args:
        min_recall: Recall to reach in a row, in (0, 1]. With one relevant label per
            row, every choice gives the same value.
        statistic: ``"median"``, the value of the middle row (or the mean of the two
            middle rows), or ``"mean"``.
        miss_value: Value of a row whose list of ``depth`` labels ends before the recall
            is reached; None is half the number of all labels, also within buckets. A
            miss can thus cost less than a late hit.
        empty_target_action: ``"skip"``, the default: a row without a relevant label
            does not count; or ``"error"``, which raises an error.
        kwargs: See :class:`TopKMetric`.

    >>> import torch
    >>> metric = KForRecall(min_recall=0.5)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1, 0.0]]), torch.tensor([[1, 2]]))
    >>> metric.compute()
    tensor(2., dtype=torch.float64)

    Source: Cooper, Expected search length, American Documentation 19 (1968), up to a
    recall.
    """

    higher_is_better = False
    bounds = (0.0, float("inf"))

    def __init__(
        self,
        min_recall: float,
        *,
        statistic: RowStatistic = "median",
        miss_value: int | None = None,
        **kwargs: Unpack[RankArguments],
    ) -> None:
        caller = self._caller
        self.min_recall = MIN_RECALL.checked(caller, min_recall)
        check_choice(caller, "statistic", statistic, RowStatistic)
        if miss_value is not None:
            miss_value = check_count(caller, "miss_value", miss_value, minimum=0)
        formula = Formula(
            k_for_recall,
            {"min_recall": self.min_recall},
            reads_cutoff=False,
            optional_k=True,
            usual_action="skip",
            unit="places",
        )
        median = partial(
            MedianOfRows,
            name=number_text(self.min_recall),
            statistic=statistic,
            miss_value=miss_value,
        )
        super().__init__(
            None,
            formula,
            reading=partial(Ranks, to_depth=True),
            aggregation=median,
            **kwargs,
        )
